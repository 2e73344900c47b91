//! Proposals on their way: waiting for a leader, sent to it, applied or given up. Knows no disk and
//! no Raft: `ready` moves them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::{
    apply::Effect,
    batch::{Batch, Outcome, Proposal, ProposalId},
    replica::Output,
};

/// Our proposals without an outcome, and what waits to be proposed, ours and forwarded.
pub(crate) struct Proposals {
    id: u64,
    boot: u64,
    seq: u64,
    open: BTreeMap<u64, Open>,
    queue: VecDeque<Queued>,
    queued_octets: usize,
}

/// One of our proposals without an outcome.
struct Open {
    ticket: u64,
    deadline: u64,
    /// Leader and term it was given to; nothing while it waits.
    given_to: Option<(u64, u64)>,
}

struct Queued {
    entry: Bytes,
    from: Origin,
    deadline: u64,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Origin {
    Us { seq: u64 },
    Another,
}

impl Proposals {
    pub(crate) fn new(id: u64, boot: u64) -> Self {
        Self {
            id,
            boot,
            seq: 0,
            open: BTreeMap::new(),
            queue: VecDeque::new(),
            queued_octets: 0,
        }
    }

    /// The start that our proposals are counted in.
    pub(crate) fn boot(&self) -> u64 {
        self.boot
    }

    /// Counts our proposals in another start: those of this one are superseded.
    pub(crate) fn begin(&mut self, boot: u64, out: &mut Vec<Output>) {
        self.give_up(out, |_, _| true);
        self.boot = boot;
    }

    /// Takes in one of ours; its outcome is among the outputs at once when it cannot be taken.
    pub(crate) fn add(&mut self, batch: Batch, ticket: u64, deadline: u64, out: &mut Vec<Output>) {
        let octets = batch.octets_len();
        if self.queued_octets + octets > MAX_QUEUED_OCTETS || !batch.is_acceptable() {
            tracing::debug!(octets, queued = self.queued_octets, "proposal not taken");
            out.push(dropped(ticket));
            return;
        }
        self.seq += 1;
        let seq = self.seq;
        let proposal = Proposal {
            proposer: self.id,
            id: ProposalId {
                boot: self.boot,
                seq,
            },
            batch,
        };
        self.open.insert(
            seq,
            Open {
                ticket,
                deadline,
                given_to: None,
            },
        );
        self.enqueue(proposal.encode().into(), Origin::Us { seq }, deadline);
    }

    /// Takes in another replica's; silently drops it when full, its proposer has a deadline.
    pub(crate) fn add_forwarded(&mut self, entry: Bytes, deadline: u64) {
        if self.queued_octets + entry.len() <= MAX_QUEUED_OCTETS {
            self.enqueue(entry, Origin::Another, deadline);
        }
    }

    /// Offers what waits, in order, to `give`, which says whether it took the entry. What another
    /// replica forwarded is dropped when this one does not lead: it must not go around in circles.
    pub(crate) fn give(
        &mut self,
        leader: u64,
        term: u64,
        now: u64,
        mut give: impl FnMut(&Bytes) -> bool,
    ) {
        while let Some(next) = self.queue.front() {
            let stale = match next.from {
                Origin::Us { seq } => !self.open.contains_key(&seq),
                Origin::Another => leader != self.id || next.deadline <= now,
            };
            if !stale && !give(&next.entry) {
                break;
            }
            if let Origin::Us { seq } = next.from
                && let Some(open) = self.open.get_mut(&seq)
            {
                open.given_to = Some((leader, term));
            }
            self.queued_octets -= next.entry.len();
            self.queue.pop_front();
        }
    }

    /// One of ours was applied, or passed over.
    pub(crate) fn settle(
        &mut self,
        proposer: u64,
        id: ProposalId,
        index: u64,
        effect: &Effect,
        out: &mut Vec<Output>,
    ) {
        if proposer != self.id || id.boot != self.boot {
            return;
        }
        let outcome = match effect {
            Effect::Applied(_) => Outcome::Applied { index },
            Effect::ConditionFailed(condition) => Outcome::ConditionFailed {
                index,
                condition: *condition,
            },
            Effect::Superseded => Outcome::Superseded,
            Effect::Nothing => return,
        };
        if let Some(open) = self.open.remove(&id.seq) {
            out.push(Output::Proposed {
                ticket: open.ticket,
                outcome,
            });
        }
    }

    /// A new leader: what was given to another one may have been lost with it.
    pub(crate) fn led_by(&mut self, leader: u64, term: u64, out: &mut Vec<Output>) {
        self.give_up(out, |_, open| {
            open.given_to.is_some_and(|to| to != (leader, term))
        });
    }

    /// A snapshot replaced the state: whether ours up to `last` were applied cannot be known.
    pub(crate) fn passed(&mut self, last: ProposalId, out: &mut Vec<Output>) {
        let boot = self.boot;
        self.give_up(out, |seq, _| ProposalId { boot, seq } <= last);
    }

    /// Gives up those whose deadline has passed.
    pub(crate) fn expire(&mut self, now: u64, out: &mut Vec<Output>) {
        self.give_up(out, |_, open| open.deadline <= now);
        while self.queue.front().is_some_and(|next| next.deadline <= now) {
            if let Some(next) = self.queue.pop_front() {
                self.queued_octets -= next.entry.len();
            }
        }
    }

    fn give_up(&mut self, out: &mut Vec<Output>, is_lost: impl Fn(u64, &Open) -> bool) {
        self.open.retain(|seq, open| {
            let lost = is_lost(*seq, open);
            if lost {
                out.push(dropped(open.ticket));
            }
            !lost
        });
    }

    fn enqueue(&mut self, entry: Bytes, from: Origin, deadline: u64) {
        self.queued_octets += entry.len();
        self.queue.push_back(Queued {
            entry,
            from,
            deadline,
        });
    }
}

/// The outcome of a proposal of which nothing is known.
pub(crate) fn dropped(ticket: u64) -> Output {
    Output::Proposed {
        ticket,
        outcome: Outcome::Dropped,
    }
}

/// What may wait for a leader or for room in the log; further proposals are dropped at once, which
/// their proposers see.
const MAX_QUEUED_OCTETS: usize = 64 << 20;
