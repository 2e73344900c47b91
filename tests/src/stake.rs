//! `speaker::ownership` without its futures: the same steps in the same order, driven by virtual time.
//! What is to be proposed is decided by the controller's own `reflector::owner` and `learn`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::table::PeerKind;
use weft_controller::ledger::{self, FactKey, FactPrefix, Owner, Phase, Retention};
use weft_controller::reflector::learn::AdjRibIn;
use weft_controller::reflector::owner::{self, Agreed, Own, Parting, Preserved, Step};
use weft_store::{Batch, Op, Outcome, View};

use crate::random::Random;

/// One peer's stake at one replica.
pub(crate) struct Stake {
    replica: u64,
    members: Vec<u64>,
    pub(crate) peer: PeerId,
    address: IpAddr,
    local: Local,
    pub(crate) adj_rib_in: AdjRibIn,
    established: Option<u64>,
    claimed: Option<Owner>,
    compared: bool,
    swept: BTreeSet<Family>,
    step: Option<(u64, Proposed)>,
    scan: Option<Scan>,
    batches: BTreeMap<u64, Vec<Bytes>>,
    pause: Option<u64>,
    /// Since when no living replica owns the peer.
    unserved: Option<u64>,
    announced: bool,
    /// The record under which the peer was left to others, and until when those may turn out to be dead.
    left: Option<(Owner, u64)>,
    parting: Parting,
    replaced: Option<(Owner, Owner)>,
    restarted: bool,
    unanswered: Option<(Owner, Option<u64>)>,
    served_secs: u32,
    sifting: bool,
    pub(crate) agreed: Agreed,
    pub(crate) done: bool,
}

enum Proposed {
    Announced,
    /// To others, if there is a record.
    Released(Option<Owner>),
    /// Under this record, in the place of that one, by the session that was established then.
    Claim(Owner, Option<Owner>, Option<u64>),
    /// This record, in the place of that one.
    Settled(Owner, Owner),
}

struct Scan {
    at: u64,
    /// Read when it was asked for; else it is read when it is due.
    read: Option<HashMap<Bytes, Bytes>>,
}

/// What a stake needs of its replica.
pub(crate) struct Edge<'a> {
    pub(crate) now: u64,
    pub(crate) view: &'a View,
    pub(crate) random: &'a mut Random,
    /// Takes a batch, gives a ticket.
    pub(crate) propose: &'a mut dyn FnMut(Batch) -> u64,
}

impl Stake {
    pub(crate) fn begin(
        replica: u64,
        members: Vec<u64>,
        (peer, address): (PeerId, IpAddr),
        local: Local,
        agreed: Agreed,
        now: u64,
    ) -> Self {
        Self {
            replica,
            members,
            peer,
            address,
            local,
            adj_rib_in: AdjRibIn::new(peer, KIND, local, FAMILIES.to_vec()),
            established: Some(now),
            claimed: None,
            compared: false,
            swept: BTreeSet::new(),
            step: None,
            scan: None,
            batches: BTreeMap::new(),
            pause: None,
            unserved: None,
            announced: false,
            left: None,
            parting: Parting::Gone,
            replaced: None,
            restarted: false,
            unanswered: None,
            served_secs: 0,
            sifting: false,
            agreed,
            done: false,
        }
    }

    pub(crate) fn resume(&mut self, now: u64) {
        self.adj_rib_in = AdjRibIn::new(self.peer, KIND, self.local, FAMILIES.to_vec());
        self.established = Some(now);
        self.left = None;
        self.sifting = false;
        self.renounce();
        self.done = false;
    }

    pub(crate) fn end(&mut self, parting: Parting, now: u64) {
        let since = self.established.take();
        self.served_secs = since.map_or(0, |since| secs(now - since));
        self.pause = None;
        self.parting = parting;
        self.restarted = matches!(self.parting, Parting::Restarting(_));
        let retained = self.agreed.owner.clone();
        let retained = retained.filter(|owner| owner.retention.is_some());
        if let Some(owner) = retained.filter(|_| self.parting == Parting::Gone) {
            self.left = Some((owner, now + LEAVE));
        }
        self.sifting = self.restarted && self.is_unsaid();
        if !self.sifting {
            self.over();
        }
    }

    fn over(&mut self) {
        self.sifting = false;
        self.renounce();
        self.adj_rib_in = AdjRibIn::new(self.peer, KIND, self.local, FAMILIES.to_vec());
    }

    /// The peer is back from being stale, and has not said everything again.
    fn is_unsaid(&self) -> bool {
        let returned = self.claimed.as_ref().and_then(|it| it.returned.as_ref());
        returned.is_some_and(|returned| returned.phase == Phase::Graceful)
    }

    fn renounce(&mut self) {
        self.claimed = None;
        self.compared = false;
        self.swept.clear();
        self.scan = None;
        // What an earlier claim has in flight is part of the next comparison, or void.
        self.batches.clear();
        self.adj_rib_in.renounce();
    }

    pub(crate) fn agree(&mut self, agreed: Agreed) {
        self.agreed = agreed;
        self.pause = None;
    }

    /// Takes the next steps.
    pub(crate) fn advance(&mut self, edge: &mut Edge<'_>) {
        if let Some(scan) = self.scan.take_if(|scan| scan.at <= edge.now) {
            let committed = scan.read.unwrap_or_else(|| read(edge.view, self.peer));
            self.scanned(&committed, edge.now);
        }
        if self.step.is_some() || self.pause.is_some_and(|until| edge.now < until) {
            return;
        }
        self.pause = None;
        let mut agreed = self.agreed.clone();
        match &self.replaced {
            Some((old, new)) if agreed.owner.as_ref() == Some(old) => {
                agreed.owner = Some(new.clone());
            }
            // What was agreed once may be agreed again, when the peer was gone meanwhile.
            Some(_) | None => self.replaced = None,
        }
        let served = |owner: &Owner| agreed.sessions.contains(&owner.replica);
        self.unserved = match agreed.owner.as_ref().is_some_and(served) {
            true => None,
            false => self.unserved.or(Some(edge.now)),
        };
        let is_agreed = |(owner, by): &(Owner, Option<u64>)| {
            agreed.owner.as_ref() == Some(owner) && self.established == *by
        };
        if self.unanswered.as_ref().is_some_and(is_agreed) {
            self.restarted = false;
        }
        let owns = self.claimed.is_some() && self.claimed == agreed.owner;
        if let Some(owner) = self.settled().filter(|_| owns) {
            let put = ledger::put(&FactKey::Owner(self.peer), owner.encode());
            let batch = ledger::owned(self.peer, self.claimed.as_ref(), vec![put]);
            let claimed = self.claimed.clone().unwrap_or_else(|| owner.clone());
            let settled = Proposed::Settled(owner, claimed);
            self.step = Some(((edge.propose)(batch), settled));
            return;
        }
        let alone = agreed.sessions.iter().all(|id| *id == self.replica);
        if self.sifting && !(owns && alone && self.is_unsaid()) {
            self.over();
        }
        let step = match self.sifting {
            true => Step::Commit,
            false => self.decide(&agreed, edge.now),
        };
        match step {
            Step::Wait => {}
            Step::Announce(batch) => {
                self.announced = true;
                self.step = Some(((edge.propose)(batch), Proposed::Announced));
            }
            Step::Release(batch) => {
                self.step = Some(((edge.propose)(batch), Proposed::Released(None)));
            }
            Step::Leave(batch, owner) => {
                self.step = Some(((edge.propose)(batch), Proposed::Released(Some(owner))));
            }
            Step::Claim(batch, owner) => {
                let claim = Proposed::Claim(owner, agreed.owner, self.established);
                self.step = Some(((edge.propose)(batch), claim));
            }
            Step::Commit => self.commit(edge),
            Step::Done => self.done = true,
        }
    }

    /// The record that follows from what was said, and committed, since the peer's return, if that is another.
    fn settled(&self) -> Option<Owner> {
        let claimed = self.claimed.as_ref()?;
        let committed = self.batches.is_empty() && !self.adj_rib_in.is_dirty();
        if claimed.returned.is_none() || !self.compared || !committed {
            return None;
        }
        let [family] = FAMILIES;
        let swept = self.swept.contains(&family);
        let record = match self.sifting {
            false => owner::settled(claimed, |family| self.swept.contains(&family)),
            true if swept => owner::sifted(claimed),
            true => return None,
        };
        (record != *claimed).then_some(record)
    }

    fn decide(&self, agreed: &Agreed, now: u64) -> Step {
        let own = Own {
            replica: self.replica,
            members: &self.members,
            peer: self.peer,
            families: &ledger::FAMILIES,
            established: self.established.map(|_| (self.address, KIND)),
            claimed: self.claimed.as_ref(),
            announced: self.announced,
            impatient: self.unserved.is_some_and(|since| now >= since + PATIENCE),
            parting: &self.parting,
            restarted: self.restarted,
            served_secs: self.served_secs,
            away_secs: 0,
            left: self
                .left
                .as_ref()
                .filter(|(_, until)| now < *until)
                .map(|(owner, _)| owner),
            preserved: &preserved(),
        };
        owner::next(&own, agreed)
    }

    /// What became of a proposal, if it is one of this stake's.
    pub(crate) fn ended(&mut self, ticket: u64, outcome: &Outcome, now: u64) {
        if let Some((_, proposed)) = self.step.take_if(|(step, _)| *step == ticket) {
            self.stepped(proposed, outcome, now);
        } else if let Some(keys) = self.batches.remove(&ticket) {
            match outcome {
                Outcome::Applied { .. } => {}
                Outcome::ConditionFailed { .. } => self.renounce(),
                Outcome::Superseded | Outcome::Dropped => {
                    self.adj_rib_in.redo(keys);
                    self.pause = Some(now + RETRY);
                }
            }
        }
    }

    fn stepped(&mut self, proposed: Proposed, outcome: &Outcome, now: u64) {
        match (outcome, proposed) {
            (Outcome::Applied { .. }, Proposed::Claim(owner, replaced, by))
                if self.established.is_some() && self.established == by =>
            {
                self.restarted = false;
                self.await_news(now, |agreed| agreed.owner.as_ref() == Some(&owner));
                self.replaced = replaced.map(|old| (old, owner.clone()));
                self.claimed = Some(owner);
                self.compared = false;
                self.swept.clear();
            }
            (Outcome::Applied { .. }, Proposed::Settled(owner, old)) => {
                if self.claimed.as_ref() == Some(&old) {
                    self.claimed = Some(owner.clone());
                }
                self.replaced = Some((old, owner));
            }
            (Outcome::Applied { .. }, Proposed::Released(left)) => {
                self.announced = false;
                self.restarted = false;
                let left = left.filter(|_| self.established.is_none());
                self.left = left.map(|owner| (owner, now + LEAVE));
                self.await_news(now, |_| false);
            }
            (Outcome::Applied { .. }, Proposed::Announced) => {
                let replica = self.replica;
                self.await_news(now, |agreed| agreed.sessions.contains(&replica));
            }
            (Outcome::Applied { .. } | Outcome::ConditionFailed { .. }, _) => {
                self.await_news(now, |_| false);
            }
            (Outcome::Superseded | Outcome::Dropped, proposed) => {
                match proposed {
                    Proposed::Released(Some(owner)) if self.established.is_none() => {
                        self.left = Some((owner, now + LEAVE));
                    }
                    Proposed::Claim(owner, _, by) => self.unanswered = Some((owner, by)),
                    Proposed::Announced | Proposed::Released(_) | Proposed::Settled(..) => {}
                }
                self.pause = Some(now + RETRY);
            }
        }
    }

    fn await_news(&mut self, now: u64, shows: impl FnOnce(&Agreed) -> bool) {
        if !shows(&self.agreed) {
            self.pause = Some(now + SETTLE);
        }
    }

    fn commit(&mut self, edge: &mut Edge<'_>) {
        if self.scan.is_some() {
            return;
        }
        if !self.compared || self.sweepable(edge.now) {
            let early = edge.random.permille(500);
            self.scan = Some(Scan {
                at: edge.now + edge.random.below(40),
                read: early.then(|| read(edge.view, self.peer)),
            });
            return;
        }
        let Some(owner) = self.claimed.clone() else {
            return;
        };
        while self.batches.len() < PIPELINE && self.adj_rib_in.is_dirty() {
            // Others' proposals may leave no room.
            if edge.random.permille(20) {
                self.pause = Some(edge.now + RETRY);
                return;
            }
            let Some((mut ops, mut keys)) = self.adj_rib_in.next_batch() else {
                return;
            };
            keys.sort_unstable();
            sort(&mut ops);
            let ticket = (edge.propose)(ledger::owned(self.peer, Some(&owner), ops));
            self.batches.insert(ticket, keys);
        }
    }

    fn sweepable(&self, now: u64) -> bool {
        let late = self
            .established
            .is_some_and(|since| now >= since + SYNC_DEADLINE);
        let [family] = FAMILIES;
        let said = self.sifting || late || self.adj_rib_in.ended(family);
        !self.swept.contains(&family) && said
    }

    fn scanned(&mut self, committed: &HashMap<Bytes, Bytes>, now: u64) {
        let fresh_from = self.claimed.as_ref().map_or(0, |owner| owner.fresh_from);
        if !std::mem::replace(&mut self.compared, true) {
            self.adj_rib_in.claim(committed, fresh_from);
        }
        if self.sweepable(now) {
            let [family] = FAMILIES;
            let spared = if self.sifting { fresh_from } else { 0 };
            self.adj_rib_in.sweep(family, committed, spared);
            self.swept.insert(family);
        }
    }
}

/// A difference is taken in the order of a hash table, which is another in every process: all that waits
/// fits into one batch here, so that its order can be mended.
fn sort(ops: &mut [Op]) {
    for op in &mut *ops {
        match op {
            Op::Put { keys, .. } | Op::Delete { keys } => keys.sort_unstable(),
            Op::DeletePrefix { .. } => {}
        }
    }
    ops.sort_by_key(|op| match op {
        Op::Put { keys, .. } => (0, keys.first().cloned()),
        Op::Delete { keys } => (1, keys.first().cloned()),
        Op::DeletePrefix { prefix } => (2, Some(prefix.clone())),
    });
}

fn read(view: &View, peer: PeerId) -> HashMap<Bytes, Bytes> {
    let [family] = FAMILIES;
    let prefix = FactPrefix::RoutesOfPeer(family, peer).encode();
    view.scan(&prefix)
        .map(|fact| fact.expect("the store can be read"))
        .collect()
}

fn secs(ms: u64) -> u32 {
    u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX)
}

/// What the end of a session to a switch that restarts means: a while as stale, and a while as long-lived stale.
pub(crate) fn restarting() -> Parting {
    let [family] = FAMILIES;
    Parting::Restarting(Retention {
        phase: Phase::Graceful,
        restart_secs: RESTART_SECS,
        families: vec![(family, LONG_LIVED_SECS)],
    })
}

/// Every model switch forwards as before when it is back.
fn preserved() -> Preserved {
    Preserved {
        graceful: FAMILIES.to_vec(),
        long_lived: FAMILIES.to_vec(),
    }
}

const RESTART_SECS: u16 = 4;
const LONG_LIVED_SECS: u32 = 6;

/// What every model peer is to the reflector.
pub(crate) const KIND: PeerKind = PeerKind::IbgpClient;
/// What every model peer speaks.
pub(crate) const FAMILIES: [Family; 1] = [Family::L2VPN_EVPN];

// As in `speaker::ownership`, in milliseconds.
const PIPELINE: usize = 4;
const PATIENCE: u64 = 2_000;
const LEAVE: u64 = 5_000;
const SETTLE: u64 = 200;
const RETRY: u64 = 100;
const SYNC_DEADLINE: u64 = 30_000;
