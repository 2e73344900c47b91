//! Operations on their way through a stream: what may be sent now, what is waited for, what came of it.
//!
//! An operation is sent when all that it waits for has been answered; one that is held or refused stops nothing else.
//! Sans-IO: it refuses to know the stream and the clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_proto::gribi::AftResult;
use weft_proto::gribi::aft_result::Status;
use weft_telemetry::text::{SENTENCE_MAX, plain};

use crate::southbound::intent::{Entry, Tables, Target, Withheld};
use crate::southbound::reconcile::{Change, Operation, Until};

/// Operations that lead from one state of a switch to another.
#[derive(Default)]
pub(super) struct Push {
    slots: Vec<Slot>,
    ready: VecDeque<usize>,
    in_flight: BTreeMap<u64, usize>,
    held: BTreeMap<u64, usize>,
    next_id: u64,
    stopped: bool,
    /// What the switch said of each operation that failed.
    failures: Vec<(usize, String)>,
    /// What the switch said of each operation that it holds.
    reasons: BTreeMap<usize, String>,
}

struct Slot {
    change: Change,
    /// Dependencies that are not met yet.
    unmet: usize,
    /// Operations that wait for this one.
    users: Vec<(usize, Until)>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Sent,
    Accepted,
    Programmed,
    Refused,
}

/// What an answer meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// In the forwarding plane.
    Programmed(Change),
    /// Accepted, and not in the forwarding plane for now.
    Held(Change),
    /// Accepted, and the forwarding plane did not take it.
    Failed(Change),
    /// Refused.
    Refused(Change),
    /// Not an operation that we wait for.
    Unknown,
}

impl Push {
    /// Operations as [`reconcile`](crate::southbound::reconcile::reconcile) gives them, numbered from `first_id` on: ids
    /// are unique in a stream.
    pub(super) fn new(operations: Vec<Operation>, first_id: u64) -> Self {
        let mut push = Self {
            next_id: first_id,
            ..Self::default()
        };
        for (at, operation) in operations.into_iter().enumerate() {
            for after in &operation.after {
                push.slots[after.operation].users.push((at, after.until));
            }
            if operation.after.is_empty() {
                push.ready.push_back(at);
            }
            push.slots.push(Slot {
                change: operation.change,
                unmet: operation.after.len(),
                users: Vec::new(),
                stage: Stage::Waiting,
            });
        }
        push
    }

    /// What to send now; empty while the window is full or everything left waits for an answer.
    pub(super) fn take(&mut self) -> Vec<(u64, Change)> {
        let mut taken = Vec::new();
        while self.in_flight.len() < WINDOW && taken.len() < BATCH {
            let Some(at) = self.ready.pop_front() else {
                break;
            };
            let slot = &mut self.slots[at];
            slot.stage = Stage::Sent;
            self.in_flight.insert(self.next_id, at);
            taken.push((self.next_id, slot.change.clone()));
            self.next_id += 1;
        }
        taken
    }

    /// Takes an answer of the switch. FIB_PROGRAMMED may come after RIB_PROGRAMMED, however late.
    pub(super) fn handle(&mut self, result: &AftResult) -> Answer {
        let status = result.status();
        let sent = self.in_flight.remove(&result.id);
        let Some(at) = sent.or_else(|| self.held.remove(&result.id)) else {
            return Answer::Unknown;
        };
        self.reasons.remove(&at);
        let change = self.slots[at].change.clone();
        match status {
            // With RIB_AND_FIB_ACK nothing else is success.
            Status::FibProgrammed => {
                self.advance(at, Stage::Programmed);
                Answer::Programmed(change)
            }
            Status::RibProgrammed => {
                self.held.insert(result.id, at);
                let why = format!("accepted, not active: {}", said(result));
                self.reasons.insert(at, why);
                self.advance(at, Stage::Accepted);
                Answer::Held(change)
            }
            Status::FibFailed => {
                let why = format!("not in the forwarding plane: {}", said(result));
                self.failures.push((at, why));
                self.advance(at, Stage::Accepted);
                self.release(at, |until| until == Until::Decided);
                Answer::Failed(change)
            }
            _ => {
                let why = format!("refused: {}", said(result));
                self.failures.push((at, why));
                self.slots[at].stage = Stage::Refused;
                self.release(at, |until| until == Until::Decided);
                Answer::Refused(change)
            }
        }
    }

    /// An operation came so far.
    fn advance(&mut self, at: usize, stage: Stage) {
        let before = std::mem::replace(&mut self.slots[at].stage, stage);
        self.release(at, |until| match until {
            Until::Accepted => before == Stage::Sent,
            Until::Programmed | Until::Decided => stage == Stage::Programmed,
        });
    }

    /// Makes ready what waited for nothing but this.
    fn release(&mut self, at: usize, met: impl Fn(Until) -> bool) {
        let users: Vec<_> = self.slots[at].users.clone();
        for (user, _) in users.into_iter().filter(|(_, until)| met(*until)) {
            let slot = &mut self.slots[user];
            slot.unmet -= 1;
            if slot.unmet == 0 && !self.stopped {
                self.ready.push_back(user);
            }
        }
    }

    /// Sends nothing more; what is in flight is still waited for.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.ready.clear();
    }

    /// Operations that were sent and not answered at all.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether nothing can be sent and no first answer is due.
    pub(super) fn is_settled(&self) -> bool {
        self.ready.is_empty() && self.in_flight.is_empty()
    }

    /// Operations that were not sent or not answered.
    pub(super) fn pending(&self) -> usize {
        let is_pending = |slot: &&Slot| matches!(slot.stage, Stage::Waiting | Stage::Sent);
        self.slots.iter().filter(is_pending).count()
    }

    /// Operations that the switch accepted and holds back.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Operations that failed.
    pub(super) fn failed(&self) -> usize {
        self.failures.len()
    }

    /// Whether there was nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The first failure, or else the first operation that is held, and how many more there are.
    pub(super) fn summary(&self) -> Option<String> {
        let (at, why, others) = match self.failures.first() {
            Some((at, why)) => (*at, why, self.failures.len() - 1),
            None => {
                let (at, why) = self.reasons.first_key_value()?;
                (*at, why, self.reasons.len() - 1)
            }
        };
        let first = format!("{}: {why}", self.slots[at].change);
        Some(match others {
            0 => first,
            others => format!("{first} (and {others} more)"),
        })
    }

    /// Prefixes and flows that do not have what they should in the forwarding plane, each with why: they, or the groups that they
    /// have in these tables, were held or refused, or wait for what was. To be asked when all that can be answered is.
    pub(super) fn withheld(&self, tables: &Tables) -> Withheld {
        let failures = self.failures.iter();
        let failures: BTreeMap<usize, &String> = failures.map(|(at, why)| (*at, why)).collect();
        let mut words: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut shared = |why: &str| match words.get(why) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = why.into();
                words.insert(Arc::clone(&new));
                new
            }
        };
        let mut waits: BTreeMap<usize, Arc<str>> = BTreeMap::new();
        let mut groups: BTreeMap<u64, Arc<str>> = BTreeMap::new();
        let mut withheld = Withheld::new();
        let stuck = self.slots.iter().enumerate();
        for (at, slot) in stuck.filter(|(_, slot)| slot.stage != Stage::Programmed) {
            let own = self.reasons.get(&at).or_else(|| failures.get(&at).copied());
            let why = match (own, waits.remove(&at)) {
                (Some(own), _) => shared(own),
                (None, Some(why)) => why,
                (None, None) => shared(UNANSWERED),
            };
            // Each operation comes after those that it waits for.
            for (user, until) in &slot.users {
                let is_met = match until {
                    Until::Accepted => slot.stage == Stage::Accepted,
                    Until::Programmed => false,
                    Until::Decided => failures.contains_key(&at),
                };
                if !is_met {
                    waits.entry(*user).or_insert_with(|| Arc::clone(&why));
                }
            }
            let (Change::Add(entry) | Change::Replace(entry)) = &slot.change else {
                continue;
            };
            match entry {
                Entry::NextHop(..) => {}
                Entry::Group(id, _) => drop(groups.insert(*id, why)),
                Entry::Prefix(prefix, _) => drop(withheld.insert(Target::Prefix(*prefix), why)),
                Entry::Policy(_, flow, _) => drop(withheld.insert(Target::Flow(*flow), why)),
            }
        }
        if groups.is_empty() {
            return withheld;
        }
        let prefixes = tables.prefixes.iter();
        let prefixes = prefixes.map(|(prefix, group)| (Target::Prefix(*prefix), group));
        let flows = tables.policies.values();
        let flows = flows.map(|(flow, group)| (Target::Flow(*flow), group));
        for (target, group) in prefixes.chain(flows) {
            if let Some(why) = groups.get(group) {
                let known = withheld.entry(target);
                known.or_insert_with(|| Arc::clone(why));
            }
        }
        withheld
    }

    /// The id that the next operation would have.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id
    }
}

/// Why, in the words of the switch, cut and without control characters.
pub(super) fn said(result: &AftResult) -> String {
    let details = result.error_details.as_ref();
    let words = details.map_or("no reason given", |details| &details.error_message);
    plain(words, SENTENCE_MAX)
}

/// Why the forwarding plane does not have an entry whose operation the switch has not answered.
const UNANSWERED: &str = "not answered yet";
/// Operations in flight: enough to keep a device busy over a round trip of 100 ms at 2,000 operations per second, few
/// enough to be drained quickly when the intent changes.
pub(super) const WINDOW: usize = 256;
/// Operations per message: about 100 octets each, far below the 4 MiB of a gRPC message.
pub(super) const BATCH: usize = 128;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weft_proto::gribi::AftErrorDetails;

    use super::*;
    use crate::southbound::intent::{Flow, Flows, Installed, Key, Members, NextHop, Routes};
    use crate::southbound::reconcile::reconcile;

    /// Prefix 1 over next hops 1 and 2, prefix 2 over next hop 1.
    fn routes() -> Routes {
        let next_hop = |last: u8| NextHop {
            address: Some(IpAddr::from([192, 0, 2, last])),
            interface: "eth1".into(),
        };
        let prefix = |last: u8| IpAddr::from([198, 51, 100, last]).into();
        let members = |hops: &[u8]| -> Arc<Members> {
            Arc::new(hops.iter().map(|last| (next_hop(*last), 1)).collect())
        };
        Routes {
            prefixes: [(prefix(1), members(&[1, 2])), (prefix(2), members(&[1]))].into(),
            ..Routes::default()
        }
    }

    fn push() -> Push {
        Push::new(
            reconcile(&routes(), &Flows::default(), &Installed::default()),
            1,
        )
    }

    fn answer(id: u64, status: Status) -> AftResult {
        AftResult {
            id,
            status: status.into(),
            error_details: Some(AftErrorDetails {
                error_message: "no space".to_owned(),
            }),
            ..AftResult::default()
        }
    }

    fn taken(push: &mut Push) -> Vec<(u64, String)> {
        let taken = push.take().into_iter();
        taken.map(|(id, change)| (id, change.to_string())).collect()
    }

    fn id_of(taken: &[(u64, String)], what: &str) -> u64 {
        let found = taken.iter().find(|(_, text)| text.contains(what));
        found.expect(what).0
    }

    #[test]
    fn an_operation_is_sent_when_what_it_waits_for_is_answered() {
        let mut push = push();
        let next_hops = taken(&mut push);
        assert_eq!(next_hops.len(), 2);
        assert!(push.take().is_empty());
        // Acceptance is enough for a group, and only one group needs both.
        push.handle(&answer(
            id_of(&next_hops, "192.0.2.1"),
            Status::RibProgrammed,
        ));
        let groups = taken(&mut push);
        assert_eq!(groups.len(), 1);
        // For a prefix it is not.
        push.handle(&answer(groups[0].0, Status::RibProgrammed));
        assert!(push.take().is_empty());
        let late = push.handle(&answer(groups[0].0, Status::FibProgrammed));
        assert!(matches!(late, Answer::Programmed(_)));
        assert_eq!(taken(&mut push).len(), 1);
    }

    #[test]
    fn what_is_held_stops_only_what_depends_on_it() {
        let mut push = push();
        for (id, _) in push.take() {
            push.handle(&answer(id, Status::FibProgrammed));
        }
        let groups = taken(&mut push);
        push.handle(&answer(id_of(&groups, "of 1"), Status::FibProgrammed));
        push.handle(&answer(id_of(&groups, "of 2"), Status::RibProgrammed));
        let prefixes = taken(&mut push);
        assert_eq!(prefixes.len(), 1);
        push.handle(&answer(prefixes[0].0, Status::FibProgrammed));
        assert!(push.is_settled());
        assert_eq!((push.held(), push.pending(), push.failed()), (1, 1, 0));
        let summary = push.summary().unwrap();
        assert!(
            summary.ends_with("of 2: accepted, not active: no space"),
            "{summary}"
        );
    }

    #[test]
    fn what_depends_on_a_refusal_is_not_sent() {
        let mut push = push();
        let next_hops = taken(&mut push);
        push.handle(&answer(
            id_of(&next_hops, "192.0.2.1"),
            Status::FibProgrammed,
        ));
        let refused = push.handle(&answer(id_of(&next_hops, "192.0.2.2"), Status::Failed));
        assert!(matches!(refused, Answer::Refused(_)));
        let groups = push.take();
        assert_eq!(groups.len(), 1);
        push.handle(&answer(groups[0].0, Status::FibProgrammed));
        let prefixes = push.take();
        assert_eq!(prefixes.len(), 1);
        push.handle(&answer(prefixes[0].0, Status::FibProgrammed));
        assert!(push.take().is_empty() && push.is_settled());
        assert_eq!((push.failed(), push.pending()), (1, 2));
        assert_eq!(
            push.summary().unwrap(),
            "add next hop 2 (192.0.2.2): refused: no space"
        );
    }

    #[test]
    fn the_words_of_a_switch_are_cut_and_of_one_line() {
        let mut push = push();
        let id = push.take()[0].0;
        let mut refused = answer(id, Status::Failed);
        let words = format!("no\nspace {}", "x".repeat(1 << 20));
        refused.error_details = Some(AftErrorDetails {
            error_message: words,
        });
        push.handle(&refused);
        let summary = push.summary().unwrap();
        assert!(summary.contains("no\\u{a}space x"), "{summary}");
        assert!(summary.len() < 512, "{}", summary.len());
    }

    #[test]
    fn what_the_forwarding_plane_can_not_take_counts_as_accepted_and_failed() {
        let mut push = push();
        for (id, _) in push.take() {
            let failed = push.handle(&answer(id, Status::FibFailed));
            assert!(matches!(failed, Answer::Failed(_)));
        }
        assert_eq!(push.take().len(), 2);
        assert_eq!((push.failed(), push.held()), (2, 0));
    }

    #[test]
    fn what_the_forwarding_plane_does_not_have_is_known_with_why() {
        let target = |last: u8| Target::Prefix(IpAddr::from([198, 51, 100, last]).into());
        let why = "accepted, not active: no space";
        let mut push = push();
        let mut installed = Installed::default();
        for (id, change) in push.take() {
            push.handle(&answer(id, Status::FibProgrammed));
            installed.program(&change);
        }
        let groups = taken(&mut push);
        push.handle(&answer(id_of(&groups, "of 1"), Status::FibProgrammed));
        push.handle(&answer(id_of(&groups, "of 2"), Status::RibProgrammed));
        let prefixes = push.take();
        push.handle(&answer(prefixes[0].0, Status::FibProgrammed));
        // Prefix 1 waits for its group, which is held.
        let held: Withheld = [(target(1), why.into())].into();
        assert_eq!(push.withheld(&installed.tables), held);
        // Once the group is there, the prefix itself is refused.
        push.handle(&answer(id_of(&groups, "of 2"), Status::FibProgrammed));
        let last = push.take();
        push.handle(&answer(last[0].0, Status::FibFailed));
        let why = "not in the forwarding plane: no space";
        let failed: Withheld = [(target(1), why.into())].into();
        assert_eq!(push.withheld(&installed.tables), failed);
    }

    #[test]
    fn what_is_not_answered_is_not_there() {
        let target = |last: u8| Target::Prefix(IpAddr::from([198, 51, 100, last]).into());
        let mut push = push();
        let unanswered: Withheld = [1, 2].map(|last| (target(last), UNANSWERED.into())).into();
        let nothing = Tables::default();
        assert_eq!(push.withheld(&nothing), unanswered);
        push.take();
        assert_eq!(push.withheld(&nothing), unanswered);
    }

    #[test]
    fn what_has_a_group_that_is_held_is_withheld_with_it() {
        let group = Change::Replace(Entry::Group(7, BTreeMap::from([(1, 1)]).into()));
        let operation = Operation {
            change: group,
            after: Vec::new(),
        };
        let mut push = Push::new(vec![operation], 1);
        let id = push.take()[0].0;
        push.handle(&answer(id, Status::RibProgrammed));
        let flow = Flow::to(100, [203, 0, 113, 1].into());
        let mut tables = Tables::default();
        tables.put(Entry::Policy(1, flow, 7));
        tables.put(Entry::Prefix(IpAddr::from([198, 51, 100, 1]).into(), 8));
        let why = "accepted, not active: no space";
        let held: Withheld = [(Target::Flow(flow), why.into())].into();
        assert_eq!(push.withheld(&tables), held);
        push.handle(&answer(id, Status::FibProgrammed));
        assert!(push.withheld(&tables).is_empty());
    }

    #[test]
    fn the_window_bounds_what_is_in_flight() {
        let delete = |index| Operation {
            change: Change::Delete(Key::NextHop(index)),
            after: Vec::new(),
        };
        let mut push = Push::new((1..=1_000).map(delete).collect(), 1);
        assert_eq!(push.take().len(), BATCH);
        assert_eq!(push.take().len(), WINDOW - BATCH);
        assert!(push.take().is_empty());
        push.handle(&answer(1, Status::FibProgrammed));
        assert_eq!(push.take().len(), 1);
        push.stop();
        assert!(push.take().is_empty());
        assert_eq!(push.in_flight(), WINDOW);
        assert_eq!(push.next_id(), WINDOW as u64 + 2);
    }

    #[test]
    fn an_answer_to_nothing_is_passed_over() {
        assert_eq!(
            push().handle(&answer(99, Status::FibProgrammed)),
            Answer::Unknown
        );
    }
}
