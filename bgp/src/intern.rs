//! One copy of each attribute set. Paths of one leaf and tenant share theirs, so a path costs a pointer.
//!
//! It does not know what the attributes mean or who holds them.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::attribute::Attributes;

/// Attribute sets by value. Sets that nobody else holds are dropped when their number has doubled since the last sweep.
#[derive(Debug, Default)]
pub struct Interner {
    sets: HashTable<Arc<Attributes>>,
    hasher: FixedState,
    after_sweep: usize,
}

impl Interner {
    /// An empty one. `seed` makes collisions unpredictable for a peer; it never changes what is sent.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            sets: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            after_sweep: 0,
        }
    }

    /// The shared copy of `attributes`.
    pub fn intern(&mut self, attributes: Attributes) -> Arc<Attributes> {
        if self.sets.len() >= SWEEP_AT_LEAST.max(self.after_sweep * 2) {
            self.sweep();
        }
        let hasher = &self.hasher;
        let entry = self.sets.entry(
            hasher.hash_one(&attributes),
            |held| **held == attributes,
            |held| hasher.hash_one(&**held),
        );
        match entry {
            Entry::Occupied(held) => Arc::clone(held.get()),
            Entry::Vacant(room) => Arc::clone(room.insert(Arc::new(attributes)).get()),
        }
    }

    /// Drops the sets that nobody else holds.
    pub fn sweep(&mut self) {
        self.sets.retain(|held| Arc::strong_count(held) > 1);
        self.after_sweep = self.sets.len();
    }

    /// Number of sets held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// True when none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}

/// Below this many sets (about 1 MB) a sweep is not worth its scan.
const SWEEP_AT_LEAST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn with_med(med: u32) -> Attributes {
        Attributes {
            med: Some(med),
            ..Attributes::default()
        }
    }

    #[test]
    fn equal_attributes_share_one_copy() {
        let mut interner = Interner::new(7);
        let first = interner.intern(with_med(1));
        let second = interner.intern(with_med(1));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &interner.intern(with_med(2))));
    }

    #[test]
    fn sets_that_nobody_holds_are_dropped() {
        let mut interner = Interner::new(0);
        let held = interner.intern(with_med(0));
        for med in 1..100_000 {
            interner.intern(with_med(med));
            assert!(interner.len() <= SWEEP_AT_LEAST + 1);
        }
        interner.sweep();
        assert_eq!(interner.len(), 1);
        assert!(Arc::ptr_eq(&held, &interner.intern(with_med(0))));
    }
}
