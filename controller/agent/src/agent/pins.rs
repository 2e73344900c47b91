//! Policy forwarding entries and the marks of packets: what is to be marked, and what clients are told when it is.

use weft_proto::gribi::aft_result::Status;

use super::{Agent, Job, Now, Output, Unmarked};
use crate::election::Client;
use crate::entry::PolicyKey;
use crate::fib::Unusable;

impl Agent {
    /// Asks for the marks of packets, if they are to be others, and answers what needs no marks to change.
    pub(super) fn mark(&mut self, now: Now) {
        if let Some((number, pins)) = self.fib.ask_for_marks(&self.rib) {
            self.outputs.push_back(Output::Mark(number, pins));
        }
        let newest = self.fib.asked_marks();
        for unmarked in self.unmarked.values_mut() {
            unmarked.marks.get_or_insert(newest);
        }
        self.answer_marked(now);
    }

    /// Keeps an operation that is accepted until packets are marked as it says. Another one on the same entry takes its place.
    pub(super) fn await_marks(&mut self, client: Client, id: u64, policy: PolicyKey, now: Now) {
        let unmarked = Unmarked {
            id,
            deletes: self.rib.policy(policy).is_none(),
            marks: None,
        };
        if let Some(before) = self.unmarked.insert((client, policy), unmarked) {
            let text = "another operation on the entry followed".to_owned();
            self.answer(
                client,
                before.id,
                Status::FibFailed,
                Some(text),
                now.unix_ns,
            );
        }
    }

    /// Takes what became of the marks that were asked for under a number.
    pub(super) fn marked(&mut self, number: u64, outcome: Result<(), String>, now: Now) {
        self.fib.acknowledge_marks(number, outcome.is_ok());
        match outcome {
            // Tables that no packet is marked for any more may go.
            Ok(()) => self.jobs.push_back(Job::Settle),
            Err(why) => {
                for ((client, _), Unmarked { id, .. }) in std::mem::take(&mut self.unmarked) {
                    let text = Some(why.clone());
                    self.answer(client, id, Status::FibFailed, text, now.unix_ns);
                }
            }
        }
    }

    /// Answers operations whose packets are marked as they are to be. While an entry cannot be in force, its operation waits.
    fn answer_marked(&mut self, now: Now) {
        for ((client, policy), unmarked) in std::mem::take(&mut self.unmarked) {
            if !self.election.knows(client) {
                continue;
            }
            let there = self.rib.policy(policy).is_some();
            let settled = unmarked
                .marks
                .is_some_and(|marks| self.fib.has_marks(marks));
            let (status, text) = match unmarked.deletes {
                true if settled => (Status::FibProgrammed, None),
                false if !there => (Status::FibFailed, Some("the entry is gone".to_owned())),
                true => {
                    self.unmarked.insert((client, policy), unmarked);
                    continue;
                }
                false => match self.fib.policy_state(policy, &self.rib) {
                    Ok(true) => (Status::FibProgrammed, None),
                    Err(Unusable::Refused(why)) => (Status::FibFailed, Some(why)),
                    Ok(false) | Err(Unusable::Inactive(_)) => {
                        self.unmarked.insert((client, policy), unmarked);
                        continue;
                    }
                },
            };
            self.answer(client, unmarked.id, status, text, now.unix_ns);
        }
    }
}
