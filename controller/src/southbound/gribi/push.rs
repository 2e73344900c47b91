//! One run of operations through a stream: what may be sent now, what is waited for, what came of it.
//!
//! Phases one after another, a bounded window within each, nothing sent that depends on what failed. Sans-IO: it refuses
//! to know the stream and the clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_proto::gribi::AftResult;
use weft_proto::gribi::aft_result::Status;

use crate::southbound::reconcile::{Entry, Operation, Phase, Verb};

/// Operations on their way.
pub(super) struct Push {
    waiting: VecDeque<Operation>,
    in_flight: BTreeMap<u64, InFlight>,
    next_id: u64,
    phase: Option<Phase>,
    failures: Vec<String>,
    refused_next_hops: BTreeSet<u64>,
    refused_groups: BTreeSet<u64>,
    /// Something was refused or not sent: what was to go may still be referred to.
    refused: bool,
}

struct InFlight {
    operation: Operation,
    /// The device accepted it and has not said yet that it is in the forwarding plane.
    accepted: bool,
}

/// What an answer meant.
pub(super) enum Answer {
    /// In the forwarding plane.
    Programmed(Operation),
    /// Accepted; the forwarding plane is still to come.
    Accepted,
    /// Accepted, and the forwarding plane could not take it: what depends on it may still be sent.
    NotForwarding(Operation),
    /// Refused.
    Refused,
    /// Not an operation that we wait for.
    Unknown,
}

impl Push {
    /// Operations sorted by phase, numbered from `first_id` on: ids are unique in a stream.
    pub(super) fn new(operations: Vec<Operation>, first_id: u64) -> Self {
        Self {
            waiting: operations.into(),
            in_flight: BTreeMap::new(),
            next_id: first_id,
            phase: None,
            failures: Vec::new(),
            refused_next_hops: BTreeSet::new(),
            refused_groups: BTreeSet::new(),
            refused: false,
        }
    }

    /// What to send now; empty while the window is full or a phase waits for its last answers.
    pub(super) fn take(&mut self) -> Vec<(u64, Operation)> {
        let mut taken = Vec::new();
        while self.in_flight.len() < WINDOW && taken.len() < BATCH {
            let Some(phase) = self.waiting.front().map(|operation| operation.phase) else {
                break;
            };
            if self.phase != Some(phase) && !self.in_flight.is_empty() {
                break;
            }
            self.phase = Some(phase);
            let Some(operation) = self.waiting.pop_front() else {
                break;
            };
            if let Some(why) = self.obstacle(&operation) {
                self.refuse(&operation, &why);
                continue;
            }
            self.in_flight.insert(
                self.next_id,
                InFlight {
                    operation: operation.clone(),
                    accepted: false,
                },
            );
            taken.push((self.next_id, operation));
            self.next_id += 1;
        }
        taken
    }

    /// Why an operation must not be sent: what it needs, or what must be gone, failed.
    fn obstacle(&self, operation: &Operation) -> Option<String> {
        match (&operation.entry, operation.verb) {
            (Entry::Group(_, members), Verb::Add | Verb::Replace) => members
                .keys()
                .find(|index| self.refused_next_hops.contains(index))
                .map(|index| format!("next hop {index} was refused")),
            (Entry::Prefix(_, group), Verb::Add | Verb::Replace) => self
                .refused_groups
                .contains(group)
                .then(|| format!("next-hop group {group} was refused")),
            (Entry::Group(..) | Entry::NextHop(..), Verb::Delete) => self
                .refused
                .then(|| "it may still be referred to".to_owned()),
            (Entry::NextHop(..), Verb::Add | Verb::Replace) | (Entry::Prefix(..), Verb::Delete) => {
                None
            }
        }
    }

    /// Takes an answer of the device.
    pub(super) fn handle(&mut self, result: &AftResult) -> Answer {
        let Some(in_flight) = self.in_flight.get_mut(&result.id) else {
            return Answer::Unknown;
        };
        match result.status() {
            Status::RibProgrammed => {
                in_flight.accepted = true;
                Answer::Accepted
            }
            // With RIB_AND_FIB_ACK nothing else is success.
            Status::FibProgrammed => match self.in_flight.remove(&result.id) {
                Some(in_flight) => Answer::Programmed(in_flight.operation),
                None => Answer::Unknown,
            },
            status => self.failed(result, status == Status::FibFailed),
        }
    }

    fn failed(&mut self, result: &AftResult, accepted: bool) -> Answer {
        let Some(InFlight { operation, .. }) = self.in_flight.remove(&result.id) else {
            return Answer::Unknown;
        };
        let details = result.error_details.as_ref();
        let text = details.map_or("no reason given", |details| details.error_message.as_str());
        if accepted {
            self.failures
                .push(format!("{operation}: not in the forwarding plane: {text}"));
            Answer::NotForwarding(operation)
        } else {
            self.refuse(&operation, &format!("refused: {text}"));
            Answer::Refused
        }
    }

    fn refuse(&mut self, operation: &Operation, why: &str) {
        match &operation.entry {
            Entry::NextHop(index, _) => {
                self.refused_next_hops.insert(*index);
            }
            Entry::Group(id, _) => {
                self.refused_groups.insert(*id);
            }
            Entry::Prefix(..) => {}
        }
        self.refused = true;
        self.failures.push(format!("{operation}: {why}"));
    }

    /// Sends nothing more; what is in flight is still waited for.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
    }

    /// Gives up waiting for what was accepted: another protocol's route is preferred, or the device is slow. Returns
    /// how many there were.
    pub(super) fn settle_accepted(&mut self) -> usize {
        let before = self.in_flight.len();
        self.in_flight.retain(|_, in_flight| !in_flight.accepted);
        before - self.in_flight.len()
    }

    /// Nothing waits and nothing is in flight.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_empty()
    }

    /// Operations not answered yet, sent or not.
    pub(super) fn pending(&self) -> usize {
        self.waiting.len() + self.in_flight.len()
    }

    /// What failed, in words.
    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// The first failure and how many more there are.
    pub(super) fn summary(&self) -> Option<String> {
        let first = self.failures.first()?;
        Some(match self.failures.len() - 1 {
            0 => first.clone(),
            others => format!("{first} (and {others} more)"),
        })
    }

    /// The id that the next operation would have.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id
    }
}

/// Operations in flight: enough to keep a device busy over a round trip of 100 ms at 2,000 operations per second, few
/// enough to be drained quickly when the intent changes.
pub(super) const WINDOW: usize = 256;
/// Operations per message: about 100 octets each, far below the 4 MiB of a gRPC message.
pub(super) const BATCH: usize = 128;

#[cfg(test)]
mod tests {
    use weft_proto::gribi::AftErrorDetails;

    use super::*;
    use crate::southbound::intent::{NextHop, Tables};
    use crate::southbound::reconcile::reconcile;

    fn tables(prefixes: u8) -> Tables {
        let next_hop = |last: u8| NextHop {
            address: std::net::Ipv4Addr::new(192, 0, 2, last).into(),
            interface: "eth1".into(),
        };
        let prefix = |last: u8| std::net::IpAddr::from([198, 51, 100, last]).into();
        Tables {
            next_hops: [(1, next_hop(1)), (2, next_hop(2))].into(),
            groups: [(1, [(1, 1), (2, 1)].into()), (2, [(1, 1)].into())].into(),
            prefixes: (1..=prefixes)
                .map(|last| (prefix(last), 1 + u64::from(last % 2)))
                .collect(),
        }
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

    fn push(prefixes: u8) -> Push {
        Push::new(reconcile(&tables(prefixes), &Tables::default()), 1)
    }

    #[test]
    fn a_phase_waits_for_the_answers_of_the_one_before() {
        let mut push = push(2);
        let first = push.take();
        assert_eq!(first.len(), 2);
        assert!(
            first
                .iter()
                .all(|(_, operation)| operation.phase == Phase::NextHops)
        );
        assert!(push.take().is_empty());
        assert!(matches!(
            push.handle(&answer(1, Status::RibProgrammed)),
            Answer::Accepted
        ));
        assert!(matches!(
            push.handle(&answer(1, Status::FibProgrammed)),
            Answer::Programmed(_)
        ));
        assert!(push.take().is_empty());
        assert!(matches!(
            push.handle(&answer(2, Status::FibProgrammed)),
            Answer::Programmed(_)
        ));
        assert!(
            push.take()
                .iter()
                .all(|(_, operation)| operation.phase == Phase::NewGroups)
        );
    }

    #[test]
    fn what_depends_on_a_refusal_is_not_sent() {
        let mut push = push(2);
        push.take();
        push.handle(&answer(1, Status::FibProgrammed));
        assert!(matches!(
            push.handle(&answer(2, Status::Failed)),
            Answer::Refused
        ));
        // Group 1 needs next hop 2, group 2 does not.
        let groups = push.take();
        assert_eq!(groups.len(), 1);
        push.handle(&answer(groups[0].0, Status::FibProgrammed));
        let prefixes = push.take();
        assert_eq!(prefixes.len(), 1);
        push.handle(&answer(prefixes[0].0, Status::FibProgrammed));
        assert!(push.take().is_empty());
        assert!(push.is_done());
        assert_eq!(
            push.failures(),
            [
                "add next hop 2 (192.0.2.2): refused: no space",
                "add next-hop group 1 of 2: next hop 2 was refused",
                "add 198.51.100.2/32 by group 1: next-hop group 1 was refused",
            ]
        );
    }

    #[test]
    fn what_the_forwarding_plane_can_not_take_holds_nothing_up() {
        let mut push = push(2);
        push.take();
        push.handle(&answer(1, Status::FibProgrammed));
        push.handle(&answer(2, Status::RibProgrammed));
        let answered = push.handle(&answer(2, Status::FibFailed));
        assert!(matches!(answered, Answer::NotForwarding(_)));
        assert_eq!(push.take().len(), 2);
        assert_eq!(push.failures().len(), 1);
    }

    #[test]
    fn the_window_bounds_what_is_in_flight() {
        let mut many = tables(0);
        many.groups.clear();
        many.next_hops = (1..=1_000)
            .map(|index| {
                let address =
                    std::net::IpAddr::from([10, 0, (index / 250) as u8, (index % 250) as u8]);
                let interface = "eth1".into();
                (index, NextHop { address, interface })
            })
            .collect();
        let mut push = Push::new(reconcile(&many, &Tables::default()), 1);
        assert_eq!(push.take().len(), BATCH);
        assert_eq!(push.take().len(), WINDOW - BATCH);
        assert!(push.take().is_empty());
        push.handle(&answer(1, Status::FibProgrammed));
        assert_eq!(push.take().len(), 1);
        push.stop();
        assert_eq!(push.pending(), WINDOW);
        assert_eq!(push.next_id(), WINDOW as u64 + 2);
    }

    #[test]
    fn an_answer_to_nothing_is_passed_over() {
        let mut push = push(1);
        assert!(matches!(
            push.handle(&answer(99, Status::FibProgrammed)),
            Answer::Unknown
        ));
        push.take();
        push.handle(&answer(1, Status::RibProgrammed));
        assert_eq!(push.settle_accepted(), 1);
    }
}
