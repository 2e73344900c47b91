//! Policy forwarding entries and the marks of packets: what is to be marked, and what clients are told when it is.

use weft_proto::gribi::aft_result::Status;

use super::{Agent, Job, Now, Output, Unmarked};
use crate::election::Client;
use crate::entry::PolicyKey;
use crate::fib::Unusable;
use crate::forwarding::Pins;

impl Agent {
    /// Asks for the marks of packets, if they are to be others, and answers what needs no marks to change.
    pub(super) fn mark(&mut self, now: Now) {
        let pins = self.fib.pins(&self.rib);
        if pins != self.pins {
            self.pins.clone_from(&pins);
            self.outputs.push_back(Output::Mark(pins));
        }
        self.answer_marked(now);
    }

    /// Keeps an operation that is accepted until packets are marked as it says. Of several on one entry the last one counts.
    pub(super) fn await_marks(&mut self, client: Client, id: u64, policy: PolicyKey) {
        let policy = self.rib.policy(policy).map(|_| policy);
        let knows = |client| self.election.knows(client);
        self.unmarked.retain(|other| {
            let superseded = policy.is_some() && (other.client, other.policy) == (client, policy);
            !superseded && knows(other.client)
        });
        self.unmarked.push(Unmarked { client, id, policy });
    }

    /// Takes what became of the marks.
    pub(super) fn marked(&mut self, outcome: Result<Pins, String>, now: Now) {
        match outcome {
            Ok(marked) => {
                self.fib.set_marked(marked);
                // Tables that no packet is marked for any more may go.
                self.jobs.push_back(Job::Settle);
            }
            Err(why) => {
                for Unmarked { client, id, .. } in std::mem::take(&mut self.unmarked) {
                    let text = Some(why.clone());
                    self.answer(client, id, Status::FibFailed, text, now.unix_ns);
                }
            }
        }
    }

    /// Answers operations whose packets are marked as they are to be. While an entry cannot be in force, its operation waits.
    fn answer_marked(&mut self, now: Now) {
        if self.unmarked.is_empty() {
            return;
        }
        let settled = *self.fib.marked() == self.pins;
        for unmarked in std::mem::take(&mut self.unmarked) {
            let state = match unmarked.policy {
                // Whatever it was about, nothing is marked now that should not be.
                None => Ok(settled),
                Some(policy) => match self.rib.policy(policy) {
                    Some(_) => self.fib.policy_state(policy, &self.rib),
                    None => Ok(settled),
                },
            };
            let (status, text) = match state {
                Ok(true) => (Status::FibProgrammed, None),
                Err(Unusable::Refused(why)) => (Status::FibFailed, Some(why)),
                Ok(false) | Err(Unusable::Inactive(_)) => {
                    self.unmarked.push(unmarked);
                    continue;
                }
            };
            self.answer(unmarked.client, unmarked.id, status, text, now.unix_ns);
        }
    }
}
