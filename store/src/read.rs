//! Reads that see everything committed before them, anywhere: Raft's ReadIndex, confirmed by a
//! quorum each time. No lease: a lease trusts the clock. Knows no key.

use raft::ReadState;

use crate::replica::Output;

/// Reads that wait to be confirmed or for the state to catch up.
pub(crate) struct Reads {
    id: u64,
    boot: u64,
    waiting: Vec<Waiting>,
    /// Number of the last question asked. Each has its own: Raft ignores one it has seen, and an
    /// answer to an older one says nothing about a newer read.
    asked: u64,
    /// Tick at which to ask again.
    ask_at: u64,
}

struct Waiting {
    ticket: u64,
    deadline: u64,
    /// The first question that was asked after this read came in; 0 before any was.
    since: u64,
    index: Option<u64>,
}

impl Reads {
    pub(crate) fn new(id: u64, boot: u64) -> Self {
        Self {
            id,
            boot,
            waiting: Vec::new(),
            asked: 0,
            ask_at: 0,
        }
    }

    /// Takes a read in; false when too many wait.
    pub(crate) fn add(&mut self, ticket: u64, deadline: u64) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push(Waiting {
            ticket,
            deadline,
            since: 0,
            index: None,
        });
        true
    }

    /// The context of the next question to ask Raft, if there is anything to ask.
    pub(crate) fn question(&mut self, now: u64) -> Option<Vec<u8>> {
        let unasked = self.waiting.iter().any(|read| read.since == 0);
        let unanswered = self.waiting.iter().any(|read| read.index.is_none());
        if !(unasked || unanswered && now >= self.ask_at) {
            return None;
        }
        self.asked += 1;
        self.ask_at = now + RETRY_TICKS;
        for read in &mut self.waiting {
            if read.since == 0 {
                read.since = self.asked;
            }
        }
        Some(
            [self.id, self.boot, self.asked]
                .map(u64::to_be_bytes)
                .concat(),
        )
    }

    /// Ask again at once: who leads has changed, or can answer from now on.
    pub(crate) fn ask_again(&mut self) {
        self.ask_at = 0;
    }

    /// Takes in what Raft confirmed: all that was committed when question n was asked has an index
    /// of at most `index`, which answers every read that came in before question n.
    pub(crate) fn confirm(&mut self, states: Vec<ReadState>) {
        for state in states {
            let Some(question) = self.question_of(&state.request_ctx) else {
                continue;
            };
            for read in &mut self.waiting {
                if read.index.is_none() && read.since != 0 && read.since <= question {
                    read.index = Some(state.index);
                }
            }
        }
    }

    /// Answers the reads whose index is applied.
    pub(crate) fn settle(&mut self, applied: u64, out: &mut Vec<Output>) {
        self.waiting.retain(|read| match read.index {
            Some(index) if index <= applied => {
                out.push(Output::ReadReady {
                    ticket: read.ticket,
                    index,
                });
                false
            }
            Some(_) | None => true,
        });
    }

    /// Fails the reads whose deadline has passed.
    pub(crate) fn expire(&mut self, now: u64, out: &mut Vec<Output>) {
        self.waiting.retain(|read| {
            let waits = read.deadline > now;
            if !waits {
                out.push(Output::ReadFailed {
                    ticket: read.ticket,
                });
            }
            waits
        });
    }

    fn question_of(&self, context: &[u8]) -> Option<u64> {
        let (words, rest) = context.as_chunks::<8>();
        let [id, boot, question] = words else {
            return None;
        };
        let ours = u64::from_be_bytes(*id) == self.id && u64::from_be_bytes(*boot) == self.boot;
        (ours && rest.is_empty()).then(|| u64::from_be_bytes(*question))
    }
}

/// Raft drops a question when there is no leader, and when the leader is so new that it has not
/// committed anything: 200 ms later it is worth another.
const RETRY_TICKS: u64 = 4;

/// Reads are answered together, so more than this waiting means that nothing is confirmed; further
/// ones fail at once.
const MAX_WAITING: usize = 65_536;
