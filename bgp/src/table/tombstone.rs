//! Which destinations went, and when: a bounded memory for readers that have to be told. It does not know paths.

use std::collections::VecDeque;
use std::fmt;

/// What went since that revision is not remembered: start again with a fresh session.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TooOld {
    /// The oldest revision that can be asked for, 0 aside.
    pub oldest: u64,
}

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "revision not among those remembered, from {}",
            self.oldest
        )
    }
}

impl std::error::Error for TooOld {}

/// Keys by the revision at which they went. Full: the oldest are forgotten, and who asks for them is told so.
#[derive(Debug)]
pub(super) struct Tombstones<K> {
    buried: VecDeque<(u64, K)>,
    max: usize,
    /// Revision of the newest that was forgotten.
    forgotten: u64,
}

impl<K> Tombstones<K> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            buried: VecDeque::new(),
            max,
            forgotten: 0,
        }
    }

    /// `revision` is higher than any before.
    pub(super) fn bury(&mut self, revision: u64, key: K) {
        self.buried.push_back((revision, key));
        while self.buried.len() > self.max {
            if let Some((revision, _)) = self.buried.pop_front() {
                self.forgotten = revision;
            }
        }
    }

    pub(super) fn too_old(&self) -> TooOld {
        TooOld {
            oldest: self.forgotten,
        }
    }

    /// What went after `revision`, oldest first, a key as often as it went. Since 0 there is nothing: who knows nothing
    /// has nothing to forget.
    pub(super) fn since(
        &self,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = (u64, &K)>, TooOld> {
        if revision > 0 && revision < self.forgotten {
            return Err(self.too_old());
        }
        let first = match revision {
            0 => self.buried.len(),
            _ => self.buried.partition_point(|(at, _)| *at <= revision),
        };
        let since = self.buried.range(first..);
        Ok(since.map(|(at, key)| (*at, key)))
    }
}

/// Destinations that went: more than one whole table of 400,000 at once, at most about 30 MB. Beyond, the oldest are
/// forgotten, and a reader that is further behind gets [`TooOld`].
pub const TOMBSTONES_MAX: usize = 1 << 19;
