//! From the declared fabric to the switches: what is seen of it goes to the balancer, and what the balancer plans goes to
//! the switches, if this replica leads and the operator wants it.
//!
//! ```text
//! reflector --fabric, modes--> switches (1x) --inputs--> balancer thread (1x)
//! announced (1x) --spines' routes--^   ^  |  <--plan--
//! southbound --interfaces, counters----+  +--intents--> southbound
//! ```
//!
//! Every replica plans; only the leader hears of switches and writes to them. It refuses to know BGP peers and replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_proto::agent::v1 as agent;
use weft_proto::fabric::v1::Fabric;
use weft_store::{Batch, Condition, Outcome};

use self::bridge::{Bridge, SwitchIntent};
use self::led::Led;
use super::solver::Solver;
use super::supervision::supervised;
use crate::balancer::{Inputs, Plan};
use crate::consensus::Group;
use crate::fabric::live::{Announced, Interfaces};
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::topology::{Role, SwitchName, Topology};
use crate::ledger::{self, FactKey};
use crate::southbound::Election;
use crate::speaker::Shared;

mod announced;
mod bridge;
pub mod led;

/// Plans and programs until it is aborted.
pub async fn program(shared: Arc<Shared>, led: Led) {
    let (fabric, declared) = watch::channel(None);
    let (publish, announced) = watch::channel(Arc::default());
    let follow = announced::follow(Arc::clone(&shared), declared, publish);
    let switches = Switches::new(shared, led, fabric, announced);
    tokio::join!(supervised("announced", follow), switches.run());
}

struct Switches {
    shared: Arc<Shared>,
    led: Led,
    solver: Solver,
    plans: watch::Receiver<Plan>,
    southbound: Bridge,
    /// The fabric's octets that the topology was read from.
    octets: Option<Bytes>,
    topology: watch::Sender<Option<Arc<Topology>>>,
    announced: watch::Receiver<Arc<Announced>>,
    modes: Modes,
    incarnation: Option<u64>,
    /// What the agents said last; at the leader alone.
    observed: BTreeMap<SwitchName, Observed>,
    /// What the balancer was given last.
    inputs: Inputs,
    /// What the intents were made from last.
    intended: Option<Intended>,
    /// The term in which an entry of our own was applied.
    confirmed: Option<u64>,
    leading_since: Option<Instant>,
}

/// What a switch's agent said.
struct Observed {
    status: Arc<agent::Status>,
    interfaces: Arc<Interfaces>,
    heard: Instant,
    /// When its counters were sampled last.
    sampled: Instant,
}

/// What the last intents were made from.
struct Intended {
    plan: Plan,
    modes: Modes,
    unheard: BTreeSet<SwitchName>,
}

impl Intended {
    fn is_from(&self, plan: &Plan, modes: &Modes, unheard: &BTreeSet<SwitchName>) -> bool {
        let topology = |plan: &Plan| plan.topology().map(Arc::as_ptr);
        Arc::ptr_eq(&self.plan.routes, &plan.routes)
            && topology(&self.plan) == topology(plan)
            && (&self.modes, &self.unheard) == (modes, unheard)
    }
}

impl Switches {
    fn new(
        shared: Arc<Shared>,
        led: Led,
        topology: watch::Sender<Option<Arc<Topology>>>,
        announced: watch::Receiver<Arc<Announced>>,
    ) -> Self {
        let solver = Solver::start();
        let southbound = Bridge::new();
        led.set_answers(southbound.answers());
        Self {
            shared,
            led,
            plans: solver.plans(),
            solver,
            southbound,
            octets: None,
            topology,
            announced,
            modes: Modes::default(),
            incarnation: None,
            observed: BTreeMap::new(),
            inputs: Inputs::default(),
            intended: None,
            confirmed: None,
            leading_since: None,
        }
    }

    async fn run(mut self) {
        let mut control = self.shared.reflection.control();
        let mut group = self.shared.consensus.group();
        control.mark_changed();
        loop {
            if control.has_changed().unwrap_or(true) {
                control.mark_unchanged();
                if self.look().await.is_none() {
                    return;
                }
            }
            self.turn().await;
            tokio::select! {
                changed = control.changed() => match changed {
                    Ok(()) => control.mark_changed(),
                    Err(_) => return,
                },
                changed = group.changed() => if changed.is_err() { return },
                Ok(()) = self.announced.changed() => {}
                Ok(()) = self.plans.changed() => {}
                // Agents speak many times a second, each for itself.
                () = self.southbound.changed() => tokio::time::sleep(GATHER).await,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Reads the facts that concern switches; None while the daemon stops.
    async fn look(&mut self) -> Option<()> {
        let control = self
            .shared
            .reflection
            .query(|reflector| reflector.control().clone());
        let control = control.await?;
        (self.modes, self.incarnation) = (control.modes, control.incarnation);
        self.led.set_modes(&self.modes);
        if self.octets != control.fabric {
            self.octets = control.fabric;
            let topology = self.octets.as_ref().and_then(topology).map(Arc::new);
            self.led.set_topology(topology.clone());
            self.topology.send_replace(topology);
        }
        Some(())
    }

    async fn turn(&mut self) {
        let now = Instant::now();
        let group = self.shared.consensus.group().borrow().clone();
        if !group.leads() && self.leading_since.take().is_some() {
            self.observed.clear();
            self.led.forget_agents();
        }
        self.observe(now);
        self.solve(now);
        self.intend(now);
        if group.leads() {
            self.leading_since.get_or_insert(now);
            self.program(&group).await;
        } else {
            self.confirmed = None;
            self.southbound.yield_();
        }
        self.led.set_agents(self.southbound.statuses());
    }

    /// Takes what agents said since.
    fn observe(&mut self, now: Instant) {
        let Some(topology) = self.topology.borrow().clone() else {
            return;
        };
        for switch in topology.switches().filter(|switch| switch.agent.is_some()) {
            let name = &switch.name;
            let Some(status) = self.southbound.observed(name) else {
                // Silent: it has no say until it speaks again. When it was heard last is remembered.
                if let Some(observed) = self.observed.get_mut(name)
                    && !observed.interfaces.is_empty()
                {
                    observed.interfaces = Arc::default();
                    self.led.set_status(name, None);
                }
                continue;
            };
            let before = self.observed.get(name);
            if before.is_some_and(|before| Arc::ptr_eq(&before.status, &status)) {
                continue;
            }
            let sampled = before.map(|before| before.sampled);
            let due = sampled.is_none_or(|at| now >= at + SAMPLE_EVERY);
            if due {
                self.led.sample(name, &status);
            }
            let interfaces = interfaces(&status);
            let same = before
                .map(|before| &before.interfaces)
                .filter(|old| ***old == interfaces);
            let interfaces = same.map_or_else(|| Arc::new(interfaces), Arc::clone);
            self.led.set_status(name, Some(Arc::clone(&status)));
            let observed = Observed {
                status,
                interfaces,
                heard: now,
                sampled: sampled.filter(|_| !due).unwrap_or(now),
            };
            self.observed.insert(name.clone(), observed);
        }
    }

    /// Gives the balancer what there is to plan from, if it changed.
    fn solve(&mut self, now: Instant) {
        let Some(topology) = self.topology.borrow().clone() else {
            return;
        };
        let announced = Arc::clone(&self.announced.borrow_and_update());
        let known = self.observed.iter();
        let known = known.filter(|(_, observed)| !observed.interfaces.is_empty());
        let inputs = Inputs {
            announced,
            interfaces: known
                .map(|(name, observed)| (name.clone(), Arc::clone(&observed.interfaces)))
                .collect(),
            foreign: self.foreign(&topology, now),
            topology,
        };
        if inputs != self.inputs {
            self.inputs = inputs.clone();
            self.solver.solve(inputs);
        }
    }

    /// Leaves whose gRIBI server is not a weft-agent, as far as one can tell: it said nothing for a while.
    fn foreign(&self, topology: &Topology, now: Instant) -> BTreeSet<SwitchName> {
        let patient = |since: Instant| now < since + HEARD_WITHIN;
        if self.leading_since.is_none_or(patient) {
            return BTreeSet::new();
        }
        let heard = |name: &SwitchName| {
            let observed = self.observed.get(name);
            observed.is_some_and(|observed| now < observed.heard + FORGOTTEN_AFTER)
        };
        programmed(topology)
            .filter(|name| !heard(name))
            .cloned()
            .collect()
    }

    /// Says what every switch should have, if that changed.
    fn intend(&mut self, now: Instant) {
        let plan = self.plans.borrow_and_update().clone();
        let Some(topology) = plan.topology() else {
            return;
        };
        let patient = |since: Instant| now < since + HEARD_WITHIN;
        let unheard: BTreeSet<SwitchName> = match self.leading_since.is_none_or(patient) {
            true => programmed(topology)
                .filter(|name| !self.observed.contains_key(*name))
                .cloned()
                .collect(),
            false => BTreeSet::new(),
        };
        let intended = self.intended.as_ref();
        if intended.is_some_and(|it| it.is_from(&plan, &self.modes, &unheard)) {
            return;
        }
        self.led.set_plan(&plan);
        self.southbound
            .set_intent(intents(&plan, &self.modes, &unheard), plan.revision);
        self.intended = Some(Intended {
            modes: self.modes.clone(),
            unheard,
            plan,
        });
    }

    /// Sees to it that the replicas have a name for switches, and that the switches get what is intended.
    async fn program(&mut self, group: &Group) {
        let Some(incarnation) = self.incarnation else {
            return self.found().await;
        };
        if self.intended.is_none() {
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
        let key = FactKey::Incarnation;
        let conditions = vec![Condition::Equals {
            key: key.encode(),
            value: None,
        }];
        let batch = Batch {
            conditions,
            ops: vec![ledger::put(&key, value)],
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

/// Leaves with an agent.
fn programmed(topology: &Topology) -> impl Iterator<Item = &SwitchName> {
    let programmed = |switch: &&crate::fabric::topology::Switch| {
        switch.role == Role::Leaf && switch.agent.is_some()
    };
    topology.switches().filter(programmed).map(|it| &it.name)
}

/// What every switch with an agent should have. One that nobody has heard of yet is only watched: whether it looks at its
/// own routing decides what it may have.
fn intents(
    plan: &Plan,
    modes: &Modes,
    unheard: &BTreeSet<SwitchName>,
) -> BTreeMap<SwitchName, SwitchIntent> {
    let switches = plan.topology().into_iter().flat_map(|it| it.switches());
    let intents = switches.filter_map(|switch| {
        let agent = switch.agent.clone()?;
        let name = &switch.name;
        let mode = match (switch.role, modes.of(name.as_str())) {
            // A spine gets no routes; what its agent sees of its links counts.
            (Role::Spine, _) => Mode::Shadow,
            (Role::Leaf, Mode::On) if unheard.contains(name) => Mode::Shadow,
            (Role::Leaf, mode) => mode,
        };
        let routes = plan.routes.get(name).cloned().unwrap_or_default();
        let intent = SwitchIntent {
            agent,
            mode,
            routes,
        };
        Some((name.clone(), intent))
    });
    intents.collect()
}

fn interfaces(status: &agent::Status) -> Interfaces {
    let interfaces = status.interfaces.iter();
    interfaces.map(|it| (it.name.clone(), it.up)).collect()
}

fn topology(octets: &Bytes) -> Option<Topology> {
    let fabric = Fabric::decode(&octets[..]).map_err(|error| error.to_string());
    let topology =
        fabric.and_then(|fabric| Topology::new(&fabric).map_err(|error| error.to_string()));
    topology
        .inspect_err(|error| tracing::error!(%error, "the committed fabric is not understood"))
        .ok()
}

/// Looks again now and then, whatever happens: time passes for switches that are silent.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What many agents say at once is looked at once.
const GATHER: Duration = Duration::from_millis(5);
/// Counters are compared over seconds; shorter differences are noise.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A weft-agent speaks as soon as it is asked. One that has said nothing for so long since this replica leads is taken for
/// another kind of gRIBI server, which gets ways that somebody confirms.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
/// A weft-agent that is silent for so long may have been replaced.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::Balancer;
    use crate::fabric::topology::tests::declared;

    fn plan() -> Plan {
        let mut fabric = declared(3, 2);
        fabric.switches[2].agent_address.clear();
        fabric.switches[3].agent_address = "192.0.2.100:9340".to_owned();
        let mut balancer = Balancer::default();
        let inputs = Inputs {
            topology: Arc::new(Topology::new(&fabric).unwrap()),
            ..Inputs::default()
        };
        balancer.handle(&inputs).unwrap();
        balancer.plan().clone()
    }

    #[test]
    fn a_declared_fabric_is_watched_and_not_touched_until_somebody_says_on() {
        let plan = plan();
        let modes_of = |modes: &Modes, unheard: &[&str]| {
            let unheard = unheard.iter().map(|name| (*name).into()).collect();
            let intents = intents(&plan, modes, &unheard).into_iter();
            intents
                .map(|(name, intent)| (name.to_string(), intent.mode))
                .collect::<Vec<_>>()
        };
        let named = |modes: [Mode; 3]| {
            let names = ["leaf1", "leaf2", "spine1"].map(str::to_owned);
            names.into_iter().zip(modes).collect::<Vec<_>>()
        };
        let mut modes = Modes::default();
        assert_eq!(modes_of(&modes, &[]), named([Mode::Shadow; 3]));
        modes.set("", Some(Mode::On));
        modes.set("leaf2", Some(Mode::Off));
        assert_eq!(
            modes_of(&modes, &[]),
            named([Mode::On, Mode::Off, Mode::Shadow])
        );
        // Nobody knows yet what kind of switch leaf 1 is.
        let unheard = modes_of(&modes, &["leaf1"]);
        assert_eq!(unheard, named([Mode::Shadow, Mode::Off, Mode::Shadow]));
    }

    #[test]
    fn a_fabric_that_is_not_understood_is_none() {
        assert!(topology(&Bytes::from_static(b"\xff\xff")).is_none());
    }
}
