//! What operators and Prometheus may know of a peer: written by its task, read by anybody.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use weft_bgp::family::Family;
use weft_bgp::message::MessageKind;
use weft_bgp::peer::PeerId;
use weft_bgp::session::Negotiated;

use super::saved::Saved;
use crate::reflector::learn::Learned;

/// A shared report.
#[derive(Clone)]
pub struct Report(Arc<Mutex<Facts>>);

/// What it says.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the peer group.
    pub group: String,
    /// State of RFC 4271 §8.2.2.
    pub state: &'static str,
    /// Since when.
    pub since: Instant,
    /// Who, once an OPEN was agreed on.
    pub peer: Option<PeerId>,
    /// What was negotiated last.
    pub families: Vec<Family>,
    /// Messages by direction and kind.
    pub messages: BTreeMap<(Direction, &'static str), u64>,
    /// Routes in the Adj-RIB-In.
    pub routes: BTreeMap<Family, usize>,
    /// NLRI that were not kept, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// UPDATEs with a fault that did not end the session.
    pub malformed: u64,
    /// Sessions that were established.
    pub established: u64,
    /// Why the last one ended.
    pub last_error: String,
    /// Why the last attempt to get another one failed.
    pub attempt_error: String,
    /// Not listed in the configuration.
    pub dynamic: bool,
    /// What runs on the peer, and how that is known; empty before the first session.
    pub profile: (String, String),
    /// Number of route targets, and of prefixes of them, that it is told of; absent: of all.
    pub interest: BTreeMap<Family, usize>,
    /// What it was not told for want of interest.
    pub saved: BTreeMap<Family, Arc<Saved>>,
}

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the peer.
    Received,
    /// To the peer; UPDATEs are counted by group, not by peer.
    Sent,
}

impl Direction {
    /// As a label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

impl Report {
    /// Of a peer that has not begun.
    pub fn new(group: String, dynamic: bool) -> Self {
        Self(Arc::new(Mutex::new(Facts {
            group,
            state: "Idle",
            since: Instant::now(),
            peer: None,
            families: Vec::new(),
            messages: BTreeMap::new(),
            routes: BTreeMap::new(),
            refused: BTreeMap::new(),
            malformed: 0,
            established: 0,
            last_error: String::new(),
            attempt_error: String::new(),
            dynamic,
            profile: Default::default(),
            interest: BTreeMap::new(),
            saved: BTreeMap::new(),
        })))
    }

    /// The peer is of another group, or listed now, or not any more.
    pub fn regroup(&self, group: String, dynamic: bool) {
        let mut facts = self.lock();
        facts.group = group;
        facts.dynamic = dynamic;
    }

    /// What runs on the peer, and how that is known.
    pub fn profile(&self, profile: String, why: String) {
        self.lock().profile = (profile, why);
    }

    /// The peer is told of so many route targets in this family; `None`: of all.
    pub fn interest(&self, family: Family, targets: Option<usize>) {
        let mut facts = self.lock();
        match targets {
            Some(targets) => drop(facts.interest.insert(family, targets)),
            None => drop(facts.interest.remove(&family)),
        }
    }

    /// Where to count what the peer was not told in this family.
    pub fn saved(&self, family: Family) -> Arc<Saved> {
        Arc::clone(self.lock().saved.entry(family).or_default())
    }

    /// What it says now.
    pub fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// The session is in this state.
    pub fn state(&self, state: &'static str) {
        let mut facts = self.lock();
        if facts.state != state {
            facts.state = state;
            facts.since = Instant::now();
        }
    }

    /// A message came.
    pub fn received(&self, kind: MessageKind) {
        *self
            .lock()
            .messages
            .entry((Direction::Received, label(kind)))
            .or_default() += 1;
    }

    /// A message was queued.
    pub fn sent(&self, kind: MessageKind) {
        *self
            .lock()
            .messages
            .entry((Direction::Sent, label(kind)))
            .or_default() += 1;
    }

    /// The session is up.
    pub fn up(&self, negotiated: &Negotiated) {
        let mut facts = self.lock();
        facts.peer = Some(negotiated.peer);
        facts.families.clone_from(&negotiated.families);
        facts.routes = negotiated
            .families
            .iter()
            .map(|family| (*family, 0))
            .collect();
        facts.established += 1;
        facts.attempt_error.clear();
    }

    /// The session ended.
    pub fn down(&self, reason: String) {
        let mut facts = self.lock();
        facts.last_error = reason;
        facts.routes.clear();
    }

    /// An attempt failed.
    pub fn failed(&self, reason: String) {
        self.lock().attempt_error = reason;
    }

    /// An UPDATE was taken. Returns the reasons for refusals whose count has doubled since they were last
    /// returned: a hostile peer must not fill the log.
    pub fn learned(
        &self,
        learned: &Learned,
        routes: &BTreeMap<Family, usize>,
    ) -> Vec<(&'static str, u64)> {
        let mut facts = self.lock();
        for (family, count) in routes {
            facts.routes.insert(*family, *count);
        }
        let mut notable = Vec::new();
        for (reason, count) in &learned.refused {
            let total = facts.refused.entry(reason).or_default();
            let before = *total;
            *total += count;
            if before.checked_ilog2() != total.checked_ilog2() {
                notable.push((*reason, *total));
            }
        }
        notable
    }

    /// A malformed UPDATE that did not end the session. Returns how many there were, if the number has
    /// doubled.
    pub fn malformed(&self) -> Option<u64> {
        let mut facts = self.lock();
        facts.malformed += 1;
        Some(facts.malformed).filter(|count| count.is_power_of_two())
    }

    /// Whether there ever was more than silence.
    pub fn served(&self) -> bool {
        let facts = self.lock();
        !facts.messages.is_empty() || !facts.attempt_error.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn label(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Open => "open",
        MessageKind::Update => "update",
        MessageKind::Notification => "notification",
        MessageKind::Keepalive => "keepalive",
        MessageKind::RouteRefresh => "route-refresh",
    }
}
