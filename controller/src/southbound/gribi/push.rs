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
    bad_next_hops: BTreeSet<u64>,
    bad_groups: BTreeSet<u64>,
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
    /// Refused; the text says which and why.
    Failed,
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
            bad_next_hops: BTreeSet::new(),
            bad_groups: BTreeSet::new(),
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
                self.fail(&operation, &why);
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
                .find(|index| self.bad_next_hops.contains(index))
                .map(|index| format!("next hop {index} failed")),
            (Entry::Prefix(_, group), Verb::Add | Verb::Replace) => self
                .bad_groups
                .contains(group)
                .then(|| format!("next-hop group {group} failed")),
            (Entry::Group(..) | Entry::NextHop(..), Verb::Delete) => {
                (!self.failures.is_empty()).then(|| "it may still be referred to".to_owned())
            }
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
            status => {
                if let Some(in_flight) = self.in_flight.remove(&result.id) {
                    let details = result.error_details.as_ref();
                    let text = details.map_or("", |details| details.error_message.as_str());
                    let why = if status == Status::FibFailed {
                        format!("not in the forwarding plane: {text}")
                    } else {
                        format!("refused: {text}")
                    };
                    self.fail(&in_flight.operation, why.trim_end_matches([':', ' ']));
                }
                Answer::Failed
            }
        }
    }

    fn fail(&mut self, operation: &Operation, why: &str) {
        match &operation.entry {
            Entry::NextHop(index, _) => {
                self.bad_next_hops.insert(*index);
            }
            Entry::Group(id, _) => {
                self.bad_groups.insert(*id);
            }
            Entry::Prefix(..) => {}
        }
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
