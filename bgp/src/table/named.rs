//! Which destinations share a name that a family gives them beside their keys: a MAC address, say. A destination costs 8
//! octets, a name that is used 9; a family that gives no names costs nothing. Knows no destination.

use hashbrown::HashTable;

use super::{Entry, NONE, spread};

/// Slots by the hash of their name. Names of one hash are not told apart.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The first slot of each chain.
    heads: HashTable<Entry>,
    /// By slot.
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
}

impl Named {
    /// The slot has a name of this hash from now on.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        let place = slot as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, Link::ALONE);
        }
        let head = self.heads.find_mut(spread(hash), |it| it.hash == hash);
        let behind = match head {
            Some(head) => std::mem::replace(&mut head.slot, slot),
            None => {
                let entry = Entry { hash, slot };
                self.heads
                    .insert_unique(spread(hash), entry, |it| spread(it.hash));
                NONE
            }
        };
        if let Some(second) = self.links.get_mut(behind as usize) {
            second.before = slot;
        }
        self.links[place] = Link {
            before: NONE,
            behind,
        };
    }

    /// The slot has its name, of this hash, no more.
    pub(super) fn remove(&mut self, hash: u32, slot: u32) {
        let Link { before, behind } =
            std::mem::replace(&mut self.links[slot as usize], Link::ALONE);
        if let Some(next) = self.links.get_mut(behind as usize) {
            next.before = before;
        }
        if let Some(last) = self.links.get_mut(before as usize) {
            last.behind = behind;
            return;
        }
        let head = self
            .heads
            .find_entry(spread(hash), |it| it.hash == hash && it.slot == slot);
        if let Ok(mut head) = head {
            match behind {
                NONE => drop(head.remove()),
                slot => head.get_mut().slot = slot,
            }
        }
    }

    /// Every slot that has a name of this hash.
    pub(super) fn slots(&self, hash: u32) -> impl Iterator<Item = u32> {
        let head = self.heads.find(spread(hash), |it| it.hash == hash);
        let first = head.map(|head| head.slot);
        std::iter::successors(first, |slot| {
            let behind = self.links[*slot as usize].behind;
            (behind != NONE).then_some(behind)
        })
    }
}

impl Link {
    const ALONE: Self = Self {
        before: NONE,
        behind: NONE,
    };
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_found_by_their_names(steps in proptest::collection::vec((0..40_u32, 0..5_u32), 0..300)) {
            let mut named = Named::default();
            let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
            for (slot, hash) in steps {
                match expected.remove(&slot) {
                    Some(hash) => named.remove(hash, slot),
                    None => {
                        named.insert(hash, slot);
                        expected.insert(slot, hash);
                    }
                }
                for wanted in 0..5 {
                    let slots: Vec<u32> = named.slots(wanted).collect();
                    let model = expected.iter().filter(|(_, hash)| **hash == wanted);
                    prop_assert_eq!(slots.len(), model.clone().count());
                    let slots: BTreeSet<u32> = slots.into_iter().collect();
                    prop_assert_eq!(slots, model.map(|(slot, _)| *slot).collect::<BTreeSet<_>>());
                }
            }
            prop_assert_eq!(named.heads.len(), expected.values().collect::<BTreeSet<_>>().len());
        }
    }
}
