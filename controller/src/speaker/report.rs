//! What operators and Prometheus may know of a peer: written by its task, read by anybody.

pub mod near;
pub mod notable;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_bgp::attribute::UnknownAttribute;
use weft_bgp::constrain::Interest;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::message::MessageKind;
use weft_bgp::peer::PeerId;
use weft_bgp::session::{Negotiated, Side};
use weft_bgp::update_group::ExportKey;

use super::refusal::{Reason, Refusals};
use super::saved::Saved;
use crate::reflector::learn::Learned;
use near::Near;
use notable::{Notable, count, count_all};
use tally::Tally;

/// A shared report.
#[derive(Clone)]
pub struct Report(Arc<Inner>);

struct Inner {
    /// Of which the facts have a copy once they are asked for.
    messages: Tally,
    facts: Mutex<Facts>,
    /// Rings when the state of a session changes.
    bell: watch::Sender<()>,
}

/// What it says.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Name of the peer group.
    pub group: String,
    /// State of RFC 4271 §8.2.2.
    pub state: &'static str,
    /// Since when.
    pub since: Instant,
    /// The same by the time of day.
    pub since_time: SystemTime,
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
    /// Of those, NLRI of types that we do not know, by type.
    pub unknown: BTreeMap<u8, u64>,
    /// Of those, malformed ones of known types, by type: what was wrong with one of the last, and how many.
    pub malformed_nlri: BTreeMap<u8, (DecodeError, u64)>,
    /// NLRI that were kept although they break a rule of the fabric, by rule.
    pub suspect: BTreeMap<&'static str, u64>,
    /// How often it was asked for what was refused, since there was room; and how often it could not be, since
    /// it knows no route refresh.
    pub asked: (u64, u64),
    /// Bounds that came near in this session.
    pub near: Near,
    /// UPDATEs with an attribute that is not passed on, by its code.
    pub dropped: BTreeMap<u8, u64>,
    /// UPDATEs with a fault that did not end the session, by the rule of its RFC.
    pub malformed: BTreeMap<String, u64>,
    /// Sessions that were established.
    pub established: u64,
    /// Why the last one ended.
    pub last_error: String,
    /// Why the last attempt to get another one failed.
    pub attempt_error: String,
    /// Why no session begins by itself, and until when at most.
    pub waits: Option<(String, SystemTime)>,
    /// Connections of the peer that were refused.
    pub refusals: Refusals,
    /// Not listed in the configuration.
    pub dynamic: bool,
    /// What runs on the peer, and how that is known; empty before the first session.
    pub profile: (String, String),
    /// How it is told, and of what, in the families that have begun.
    pub told: BTreeMap<Family, (ExportKey, Interest)>,
    /// What was agreed on, while there is a session.
    pub negotiated: Option<Arc<Negotiated>>,
    /// How the session goes over the wire, while there is one.
    pub wire: Option<Wire>,
    /// What TCP-AO does, as of the last keepalive.
    pub signed: Option<weft_sys::tcp_ao::Status>,
    /// The OPENs of this attempt or session by side: sent, and received.
    pub opens: [(Bytes, Bytes); 2],
    /// Families of which the peer said everything in this session.
    pub ended: BTreeSet<Family>,
    /// Follows BFD, if it watches the path.
    pub bfd: Option<watch::Receiver<weft_bfd::Status>>,
    /// What it was not told for want of interest.
    pub saved: BTreeMap<Family, Arc<Saved>>,
    /// Address of the peer that has the same router id and AS, for which the last session was refused.
    pub rival: Option<IpAddr>,
    /// Since when its task has nothing to do but to remember how its sessions ended.
    pub lingering: Option<Instant>,
    /// Since when its task has nothing but connections without a first message.
    pub silent: Option<Instant>,
}

/// The two ends of a session, and the OPENs that it began with, headers included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// What we sent.
    pub sent: Bytes,
    /// What we received.
    pub received: Bytes,
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

impl Facts {
    /// NLRI that could not be read, in words.
    pub fn discarded(&self) -> BTreeMap<String, u64> {
        let unknown = self.unknown.iter();
        let unknown = unknown.map(|(number, count)| (format!("unknown type {number}:"), *count));
        let malformed = self.malformed_nlri.iter();
        let malformed = malformed.map(|(number, (error, count))| {
            let text = format!("type {number} ({} at octet {}):", error.fault, error.offset);
            (text, *count)
        });
        unknown.chain(malformed).collect()
    }
}

impl Report {
    /// Of a peer that has not begun; `bell` rings whenever the state of the session changes.
    pub fn new(group: String, dynamic: bool, bell: watch::Sender<()>) -> Self {
        let facts = Facts {
            group,
            state: "Idle",
            since: Instant::now(),
            since_time: time_of_day(),
            peer: None,
            families: Vec::new(),
            messages: BTreeMap::new(),
            routes: BTreeMap::new(),
            refused: BTreeMap::new(),
            unknown: BTreeMap::new(),
            malformed_nlri: BTreeMap::new(),
            suspect: BTreeMap::new(),
            asked: (0, 0),
            near: Near::default(),
            dropped: BTreeMap::new(),
            malformed: BTreeMap::new(),
            established: 0,
            last_error: String::new(),
            attempt_error: String::new(),
            waits: None,
            refusals: Refusals::default(),
            dynamic,
            profile: Default::default(),
            told: BTreeMap::new(),
            negotiated: None,
            wire: None,
            signed: None,
            opens: Default::default(),
            ended: BTreeSet::new(),
            bfd: None,
            saved: BTreeMap::new(),
            rival: None,
            lingering: None,
            silent: None,
        };
        Self(Arc::new(Inner {
            messages: Tally::default(),
            facts: Mutex::new(facts),
            bell,
        }))
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

    /// The peer is told like this in a family from now on.
    pub fn told(&self, family: Family, manner: (ExportKey, Interest)) {
        self.lock().told.insert(family, manner);
    }

    /// Who watches the path to the peer, if anybody.
    pub fn watched(&self, bfd: Option<watch::Receiver<weft_bfd::Status>>) {
        self.lock().bfd = bfd;
    }

    /// An OPEN went out or came in, header included.
    pub fn opened(&self, side: Side, direction: Direction, octets: Bytes) {
        let (sent, received) = &mut self.lock().opens[side as usize];
        match direction {
            Direction::Sent => *sent = octets,
            Direction::Received => *received = octets,
        }
    }

    /// The session goes over the connection with these ends.
    pub fn wired(&self, side: Side, local: SocketAddr, remote: SocketAddr) {
        let mut facts = self.lock();
        let (sent, received) = facts.opens[side as usize].clone();
        facts.wire = Some(Wire {
            local,
            remote,
            sent,
            received,
        });
    }

    /// What TCP-AO does with the session.
    pub fn signed(&self, status: Option<weft_sys::tcp_ao::Status>) {
        self.lock().signed = status;
    }

    /// Where to count what the peer was not told in this family.
    pub fn saved(&self, family: Family) -> Arc<Saved> {
        Arc::clone(self.lock().saved.entry(family).or_default())
    }

    /// What it says now.
    pub fn facts(&self) -> Facts {
        let mut facts = self.lock().clone();
        facts.messages = self.0.messages.totals();
        facts
    }

    /// The session is in this state, and waits for this reason until then.
    pub fn state(&self, state: &'static str, waits: Option<(String, Instant)>) {
        let mut facts = self.lock();
        facts.waits = waits.map(|(reason, until)| {
            let left = until.saturating_duration_since(Instant::now());
            (reason, time_of_day() + left)
        });
        if facts.state != state {
            facts.state = state;
            facts.since = Instant::now();
            facts.since_time = time_of_day();
            drop(facts);
            self.0.bell.send_replace(());
        }
    }

    /// A message came.
    pub fn received(&self, kind: MessageKind) {
        self.0.messages.add(Direction::Received, kind, 1);
    }

    /// So many messages were queued or written.
    pub fn sent(&self, kind: MessageKind, count: u64) {
        self.0.messages.add(Direction::Sent, kind, count);
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
        facts.negotiated = Some(Arc::new(negotiated.clone()));
        facts.ended.clear();
        facts.near.clear();
        facts.established += 1;
        facts.attempt_error.clear();
        facts.rival = None;
    }

    /// The session is refused, since a peer at this address has the same router id and AS.
    pub fn rival(&self, rival: IpAddr) {
        self.lock().rival = Some(rival);
    }

    /// The session ended.
    pub fn down(&self, reason: String) {
        let mut facts = self.lock();
        facts.last_error = reason;
        facts.negotiated = None;
        facts.wire = None;
        facts.signed = None;
        facts.told.clear();
        facts.routes.clear();
    }

    /// An attempt failed.
    pub fn failed(&self, reason: String) {
        self.lock().attempt_error = reason;
    }

    /// The task has nothing to do but to remember, as of `lingering`, or nothing but connections without a first message since
    /// `silent`; absent: it has.
    pub fn idle(&self, lingering: Option<Instant>, silent: Option<Instant>) {
        let mut facts = self.lock();
        facts.lingering = lingering.map(|now| facts.lingering.unwrap_or(now));
        facts.silent = silent;
    }

    /// Since when it has only connections without a first message.
    pub fn silent_since(&self) -> Option<Instant> {
        self.lock().silent
    }

    /// Since when that is so.
    pub fn lingering_since(&self) -> Option<Instant> {
        self.lock().lingering
    }

    /// An UPDATE was taken. Returns what is worth a line in the log, which a hostile peer must not fill.
    pub fn learned(&self, learned: &Learned, routes: &BTreeMap<Family, usize>) -> Notable {
        let mut facts = self.lock();
        for (family, count) in routes {
            facts.routes.insert(*family, *count);
        }
        facts.ended.extend(learned.end_of_rib);
        let near = match learned.warned.is_empty() {
            true => Vec::new(),
            false => facts.near.note(&learned.warned, Instant::now()),
        };
        Notable {
            refused: count_all(&mut facts.refused, &learned.refused),
            suspect: count_all(&mut facts.suspect, &learned.suspect),
            near,
        }
    }

    /// NLRI of an UPDATE were discarded. Returns what is worth a line in the log, as [`Report::learned`] does:
    /// the faults of types of which twice as many were malformed, and the number of NLRI of unknown types if
    /// that has doubled.
    pub fn discarded(&self, learned: &Learned) -> (Vec<(DecodeError, u64)>, Option<u64>) {
        if learned.unknown.is_empty() && learned.malformed.is_empty() {
            return (Vec::new(), None);
        }
        let mut facts = self.lock();
        let mut notable = Vec::new();
        for (route_type, (error, more)) in &learned.malformed {
            let known = facts.malformed_nlri.entry(*route_type);
            let known = known.or_insert((*error, 0));
            known.0 = *error;
            notable.extend(count(&mut known.1, *more).map(|total| (*error, total)));
        }
        let mut total = facts.unknown.values().sum();
        for (route_type, more) in &learned.unknown {
            *facts.unknown.entry(*route_type).or_default() += more;
        }
        (notable, count(&mut total, learned.unknown.values().sum()))
    }

    /// There is room for what was refused; whether the peer could be asked for it.
    pub fn asked(&self, able: bool) {
        let (asked, unable) = &mut self.lock().asked;
        match able {
            true => *asked += 1,
            false => *unable += 1,
        }
    }

    /// An UPDATE had attributes that are not passed on, to its peer's own group at least. Returns the codes and numbers of those whose number has doubled.
    pub fn dropped(&self, attributes: &[UnknownAttribute]) -> Vec<(u8, u64)> {
        if attributes.is_empty() {
            return Vec::new();
        }
        let mut facts = self.lock();
        let mut told = |it: &UnknownAttribute| {
            let total = facts.dropped.entry(it.code).or_default();
            count(total, 1).map(|total| (it.code, total))
        };
        attributes.iter().filter_map(&mut told).collect()
    }

    /// A malformed UPDATE that did not end the session. Returns how many broke the same rule, if the number
    /// has doubled.
    pub fn malformed(&self, fault: &Fault) -> Option<u64> {
        let mut facts = self.lock();
        let rule = fault.rule().to_string();
        let count = facts.malformed.entry(rule).or_default();
        *count += 1;
        Some(*count).filter(|count| count.is_power_of_two())
    }

    /// A connection was refused. Returns how many of its reason were not logged before it, if it is to be logged.
    pub fn refused(&self, reason: Reason, now: Instant) -> Option<u64> {
        self.lock().refusals.note(reason, now)
    }

    /// Whether there ever was more than silence.
    pub fn served(&self) -> bool {
        !self.0.messages.totals().is_empty() || !self.lock().attempt_error.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "people and programs read it")]
fn time_of_day() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::near::Said;
    use super::*;
    use crate::reflector::learn::bounds::{Bound, Warning};

    fn report() -> Report {
        Report::new("leaves".to_owned(), false, watch::Sender::default())
    }

    fn refused(counts: &[(&'static str, u64)]) -> Learned {
        Learned {
            refused: counts.iter().copied().collect(),
            ..Learned::default()
        }
    }

    fn suspect(counts: &[(&'static str, u64)]) -> Learned {
        Learned {
            suspect: counts.iter().copied().collect(),
            ..Learned::default()
        }
    }

    fn notable(report: &Report, learned: &Learned) -> Notable {
        report.learned(learned, &BTreeMap::new())
    }

    #[test]
    fn the_log_is_told_of_dropped_attributes_when_their_number_doubles() {
        let report = report();
        let attribute = |code| UnknownAttribute {
            code,
            flags: 0xc0,
            length: 4,
        };
        let told = |attributes: &[UnknownAttribute]| report.dropped(attributes);
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[attribute(26), attribute(99)]), [(26, 1), (99, 1)]);
        assert_eq!(told(&[attribute(26)]), [(26, 2)]);
        assert_eq!(told(&[attribute(26)]), []);
        assert_eq!(report.facts().dropped, [(26, 3), (99, 1)].into());
    }

    #[test]
    fn the_log_is_told_of_refusals_when_their_number_doubles() {
        let report = report();
        let told: Vec<_> = (0..100)
            .flat_map(|_| notable(&report, &refused(&[("router-mac", 1)])).refused)
            .collect();
        let numbers = [1, 2, 4, 8, 16, 32, 64];
        assert_eq!(told, numbers.map(|number| ("router-mac", number)));
        let facts = report.facts();
        assert_eq!(facts.refused, [("router-mac", 100)].into());
        assert!(facts.suspect.is_empty());
    }

    /// A guard on warn keeps the route; nobody but the log says so at once.
    #[test]
    fn the_log_is_told_of_suspects_by_rule_when_their_number_doubles() {
        let report = report();
        let told: Vec<_> = (0..100)
            .flat_map(|_| notable(&report, &suspect(&[("next-hop", 1)])).suspect)
            .collect();
        let numbers = [1, 2, 4, 8, 16, 32, 64];
        assert_eq!(told, numbers.map(|number| ("next-hop", number)));
        // Each rule counts for itself, and one UPDATE may break several.
        let both = suspect(&[("next-hop", 28), ("pmsi", 3)]);
        let told = notable(&report, &both);
        assert_eq!(told.suspect, [("next-hop", 128), ("pmsi", 3)]);
        assert_eq!(told.refused, []);
        assert_eq!(notable(&report, &both).suspect, [("pmsi", 6)]);
        let facts = report.facts();
        assert_eq!(facts.suspect, [("next-hop", 156), ("pmsi", 6)].into());
        assert!(facts.refused.is_empty());
    }

    #[test]
    fn an_update_without_fault_tells_the_log_nothing() {
        let report = report();
        let nothing = Notable {
            refused: Vec::new(),
            suspect: Vec::new(),
            near: Vec::new(),
        };
        assert_eq!(notable(&report, &Learned::default()), nothing);
        let warning = Warning {
            bound: Bound::Routes,
            count: 75,
            limit: 100,
        };
        let near = Learned {
            warned: vec![warning],
            ..Learned::default()
        };
        let said = vec![Said { warning, unsaid: 0 }];
        let expected = Notable {
            near: said,
            ..nothing
        };
        assert_eq!(notable(&report, &near), expected);
    }

    #[test]
    fn the_log_is_told_of_discarded_nlri_when_their_number_doubles() {
        let report = report();
        let error = |offset| DecodeError {
            fault: Fault::Network,
            offset,
        };
        let bad = |offset, count| Learned {
            malformed: [(2, (error(offset), count))].into(),
            unknown: [(99, 1), (100, count)].into(),
            ..Learned::default()
        };
        assert_eq!(report.discarded(&bad(7, 1)), (vec![(error(7), 1)], Some(2)),);
        assert_eq!(report.discarded(&bad(8, 2)), (vec![(error(8), 3)], Some(5)));
        assert_eq!(report.discarded(&bad(9, 0)), (Vec::new(), None));
        let facts = report.facts();
        assert_eq!(facts.malformed_nlri, [(2, (error(9), 3))].into());
        assert_eq!(facts.unknown, [(99, 3), (100, 3)].into());
        assert_eq!(report.discarded(&Learned::default()), (Vec::new(), None));
    }
}
