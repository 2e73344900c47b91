//! What happened, in order: a hash of all of it and the last lines of it. Knows no meaning.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Two runs of one seed must end with one hash.
pub(crate) struct Trace {
    hash: DefaultHasher,
    lines: VecDeque<String>,
    keep: usize,
}

impl Trace {
    pub(crate) fn new(keep: usize) -> Self {
        Self {
            hash: DefaultHasher::new(),
            lines: VecDeque::new(),
            keep,
        }
    }

    pub(crate) fn note(&mut self, now: u64, line: String) {
        now.hash(&mut self.hash);
        line.hash(&mut self.hash);
        if self.lines.len() >= self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{now:>7} ms  {line}"));
    }

    /// The hash of everything noted.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The last lines.
    pub(crate) fn last(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
