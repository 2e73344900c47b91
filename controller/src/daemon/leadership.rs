//! What follows from being the leader, and from not being it: replicas that died lose their sessions,
//! peers that nobody serves expire, and the switches are programmed. Level-triggered: it looks at what
//! is agreed and proposes what is missing, so a new leader goes on where the old one stopped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;
use weft_bgp::peer::PeerId;
use weft_proto::fabric::v1::Fabric;
use weft_proto::operator::v1 as proto;
use weft_store::{Batch, Condition, Op, Outcome};

use super::freezer::{Log, Sight};
use super::no_llgr::NoLlgr;
use super::orphans::{Awaited, Orphans};
use crate::balancer::{Balancer, Plan, Vteps};
use crate::config::Moves;
use crate::consensus::Group;
use crate::fabric::topology::{Live, Topology};
use crate::ledger::{self, FAMILIES, FactKey};
use crate::reflector::owner::{self, Agreed};
use crate::reflector::{Control, Input};
use crate::southbound::answers::Answers;
use crate::southbound::intent::Mode;
use crate::southbound::{AgentStatus, Election, Southbound};
use crate::speaker::Shared;

/// What the task knows, for those who ask.
#[derive(Clone, Default)]
pub struct Led(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    topology: Option<Arc<Topology>>,
    plan: Plan,
    planned_at: Option<Instant>,
    agents: Vec<AgentStatus>,
    answers: Answers,
}

impl Led {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The declared fabric, if it is valid.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.lock().topology.clone()
    }

    /// The plan in force.
    pub fn plan(&self) -> proto::Plan {
        self.lock().plan.to_message(None)
    }

    /// Since the plan changed.
    pub fn plan_age(&self) -> Option<Duration> {
        self.lock().planned_at.map(|at| at.elapsed())
    }

    /// What the switches answered.
    pub fn answers(&self) -> Answers {
        self.lock().answers.clone()
    }

    /// The switches that weft programs.
    pub fn agents(&self) -> Vec<proto::Agent> {
        let now = Instant::now();
        self.lock()
            .agents
            .iter()
            .map(|status| status.to_message(now))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until it is aborted.
pub async fn lead(shared: Arc<Shared>, led: Led) {
    let mut control = shared.reflection.control();
    let mut group = shared.consensus.group();
    let mut leadership = Leadership::new(shared, led);
    loop {
        leadership.turn().await;
        tokio::select! {
            changed = control.changed() => if changed.is_err() { return },
            changed = group.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

struct Leadership {
    shared: Arc<Shared>,
    led: Led,
    /// The fabric's octets that the plan was made from.
    fabric: Option<Bytes>,
    topology: Option<Arc<Topology>>,
    balancer: Balancer,
    southbound: Southbound,
    /// The term in which an entry of our own was applied.
    confirmed: Option<u64>,
    orphans: Orphans,
    no_llgr: NoLlgr,
    /// When that was counted last.
    counted: Instant,
    /// When this replica began to lead: nobody is lost before it could be heard.
    leading_since: Option<Instant>,
    /// When moves of MAC addresses are too many, as the reflector was told last.
    moves: Option<Moves>,
    /// What was said of those that are frozen.
    log: Log,
}

impl Leadership {
    fn new(shared: Arc<Shared>, led: Led) -> Self {
        let southbound = Southbound::new();
        led.lock().answers = southbound.answers();
        Self {
            shared,
            led,
            fabric: None,
            topology: None,
            balancer: Balancer::default(),
            southbound,
            confirmed: None,
            orphans: Orphans::default(),
            no_llgr: NoLlgr::default(),
            counted: Instant::now(),
            leading_since: None,
            moves: None,
            log: Log::default(),
        }
    }

    async fn turn(&mut self) {
        let now = Instant::now();
        let moves = self.shared.config().bgp.moves.clone();
        self.watch(&moves).await;
        let action = moves.action;
        let look = self.shared.reflection.query(move |reflector| {
            let peers: BTreeMap<_, _> = reflector
                .peers()
                .map(|(peer, agreed)| (peer, agreed.clone()))
                .collect();
            let sight = Sight::of(reflector, action);
            (reflector.control().clone(), peers, sight)
        });
        let Some((control, peers, sight)) = look.await else {
            return;
        };
        self.plan(&control, now);
        self.intend();
        let group = self.shared.consensus.group().borrow().clone();
        self.count(&group, &peers, now);
        if group.status.leader.is_some() {
            self.dismiss(group.status.id, &peers).await;
        }
        if group.status.leader == Some(group.status.id) && group.status.degraded.is_none() {
            self.leading_since.get_or_insert(now);
            self.bury(&group, &peers, now).await;
            self.expire(&peers).await;
            if let Some(batch) = sight.next(&moves, &mut self.log) {
                self.shared.consensus.propose(batch).await;
            }
            self.program(&group, &control).await;
            self.no_llgr.remove(&self.shared, &peers).await;
        } else {
            self.leading_since = None;
            self.confirmed = None;
            self.southbound.yield_();
        }
        self.led.lock().agents = self.southbound.statuses();
    }

    /// Moves are counted as the configuration says now, on every replica.
    async fn watch(&mut self, moves: &Moves) {
        if self.moves.as_ref() == Some(moves) {
            return;
        }
        let watch = Input::Watch(moves.settings());
        if self.shared.reflection.inputs().send(watch).await.is_ok() {
            self.moves = Some(moves.clone());
        }
    }

    /// The plan follows from the facts, on every replica.
    fn plan(&mut self, control: &Control, now: Instant) {
        if self.fabric != control.fabric {
            self.fabric.clone_from(&control.fabric);
            self.topology = control.fabric.as_ref().and_then(topology).map(Arc::new);
        }
        let mut changed = false;
        if let Some(topology) = &self.topology {
            // Links are up or down as declared; what agents report comes with telemetry.
            let planned =
                self.balancer
                    .handle(topology.revision(), topology, &Vteps::All, &Live::default());
            match planned {
                Ok(new) => changed = new,
                Err(error) => tracing::error!(%error, "no new plan; the one in force stays"),
            }
        }
        let mut known = self.led.lock();
        if changed {
            known.plan = self.balancer.plan().clone();
            known.planned_at = Some(now);
        }
        known.topology.clone_from(&self.topology);
    }

    /// Replicas that are silent hold no session any more.
    async fn bury(&self, group: &Group, peers: &BTreeMap<PeerId, Agreed>, now: Instant) {
        let serving: BTreeSet<u64> = peers
            .values()
            .flat_map(|agreed| agreed.sessions.iter().copied())
            .collect();
        for replica in serving
            .into_iter()
            .filter(|replica| *replica != group.status.id)
        {
            let heard = group
                .heard
                .get(&replica)
                .map(|at| Instant::from_std(*at))
                .max(self.leading_since);
            if heard.is_some_and(|at| now < at + DEAD_AFTER) {
                continue;
            }
            if !self.is_silent(replica).await {
                continue;
            }
            tracing::warn!(replica, "replica lost");
            self.shared.consensus.propose(owner::disown(replica)).await;
        }
    }

    /// Asks again once a majority has confirmed that this replica leads: it may be this one that was away,
    /// and what it proposes then would go to the leader that took its place.
    async fn is_silent(&self, replica: u64) -> bool {
        if self.shared.consensus.read_index().await.is_none() {
            return false;
        }
        let group = self.shared.consensus.group().borrow().clone();
        let heard = group.heard.get(&replica).map(|at| Instant::from_std(*at));
        let heard = heard.max(self.leading_since);
        group.status.leader == Some(group.status.id)
            && heard.is_none_or(|at| Instant::now() >= at + DEAD_AFTER)
    }

    /// For how long nobody serves a peer. Time passes only while somebody leads, and a replica that was
    /// paused does not take its own absence for that of a peer.
    fn count(&mut self, group: &Group, peers: &BTreeMap<PeerId, Agreed>, now: Instant) {
        let elapsed = now - std::mem::replace(&mut self.counted, now);
        let elapsed = match group.status.leader {
            Some(_) => elapsed.min(COUNTED_MAX),
            None => Duration::ZERO,
        };
        self.orphans.count(peers, elapsed);
        self.shared.set_away(self.orphans.ages());
    }

    /// Paths of a peer that nobody waits for go at once. The replica that served it last says so, whether it leads or
    /// not: others may never have been told of such a peer.
    async fn dismiss(&self, replica: u64, peers: &BTreeMap<PeerId, Agreed>) {
        let config = self.shared.config();
        let awaited = Awaited::new(&config.bgp, replica, peers);
        for (peer, agreed) in peers {
            if let Some(why) = awaited.refusal(agreed) {
                tracing::info!(%peer, why, "nobody waits for the peer; its routes go");
                let batch = owner::expire(*peer, agreed, &self.shared.members, &FAMILIES);
                self.shared.consensus.propose(batch).await;
            }
        }
    }

    /// A peer whose replicas died gets time to find another, and one that restarts gets the time it asked
    /// for; then its paths go.
    async fn expire(&mut self, peers: &BTreeMap<PeerId, Agreed>) {
        for (peer, agreed) in peers
            .iter()
            .filter(|(_, agreed)| agreed.sessions.is_empty())
        {
            let Some(age) = self.orphans.age(*peer) else {
                continue;
            };
            let retention = agreed
                .owner
                .as_ref()
                .and_then(|owner| owner.retention.as_ref());
            let hold = retention.map_or(REHOME_HOLD, |retention| {
                Duration::from_secs(retention.lasts_secs())
            });
            if age < hold {
                continue;
            }
            let members = &self.shared.members;
            let batch = owner::age(*peer, agreed, members, &FAMILIES)
                .unwrap_or_else(|| owner::expire(*peer, agreed, members, &FAMILIES));
            tracing::warn!(%peer, "peer did not come back; its routes go or are long-lived stale");
            self.shared.consensus.propose(batch).await;
        }
    }

    /// What the switches should have, on every replica: those that do not lead only show it.
    fn intend(&mut self) {
        let intent = self.balancer.plan().intent(|_| Mode::On);
        self.southbound.set_intent(intent.switches, intent.revision);
    }

    /// Sees to it that the switches get what is planned.
    async fn program(&mut self, group: &Group, control: &Control) {
        let Some(incarnation) = control.incarnation else {
            return self.found().await;
        };
        if control.allocation {
            // Earlier releases replicated the ids that are chosen at each switch's stream now.
            let key = FactKey::Allocation.encode();
            let batch = Batch {
                conditions: Vec::new(),
                ops: vec![Op::Delete { keys: vec![key] }],
            };
            self.shared.consensus.propose(batch).await;
        }
        if self.balancer.plan().revision == 0 {
            return;
        }
        let term = group.status.term;
        if self.confirmed != Some(term) {
            // A majority confirms that this replica leads, and that it has applied an entry of its term.
            if self.shared.consensus.read_index().await.is_none() {
                return;
            }
            self.confirmed = Some(term);
        }
        self.southbound.lead(Election { incarnation, term });
    }

    /// The first leader of a new group names it: by the clock, so that a later group of the same
    /// replicas is later for every switch.
    #[expect(
        clippy::disallowed_methods,
        reason = "read once in the life of a group, and committed"
    )]
    async fn found(&self) {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let incarnation = since.map_or(1, |since| since.as_secs().max(1));
        let value = Bytes::copy_from_slice(&incarnation.to_be_bytes());
        self.agree(&FactKey::Incarnation, None, value).await;
    }

    /// Replaces a fact that is still as it was read.
    async fn agree(&self, key: &FactKey<'_>, before: Option<Bytes>, value: Bytes) {
        let conditions = vec![Condition::Equals {
            key: key.encode(),
            value: before,
        }];
        let batch = Batch {
            conditions,
            ops: vec![ledger::put(key, value)],
        };
        match self.shared.consensus.propose(batch).await {
            // The change comes back through the reflector and wakes this task.
            Outcome::Applied { .. } | Outcome::ConditionFailed { .. } => {}
            Outcome::Superseded | Outcome::Dropped => {
                tracing::debug!(?key, "not agreed; trying again")
            }
        }
    }
}

fn topology(octets: &Bytes) -> Option<Topology> {
    let fabric = Fabric::decode(&octets[..]).map_err(|error| error.to_string());
    let topology =
        fabric.and_then(|fabric| Topology::new(&fabric).map_err(|error| error.to_string()));
    topology
        .inspect_err(|error| tracing::error!(%error, "the committed fabric is not understood"))
        .ok()
}

/// Look again now and then, whatever happens.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// T_dead: a replica that says nothing for this long holds no session. Heartbeats are 100 ms apart.
const DEAD_AFTER: Duration = Duration::from_secs(1);
/// How long the paths of a peer survive the replicas that served it: above hold and connect-retry.
const REHOME_HOLD: Duration = Duration::from_secs(60);
/// The longest time that passes between two looks, as far as peers are concerned that are away.
const COUNTED_MAX: Duration = Duration::from_secs(1);
