//! What changed in a table after a revision: for readers that were there before. It does not know who they are.

use std::collections::HashSet;

use super::{BestChange, Destination, Path, Slot, Table, TooOld};
use crate::decision::Step;
use crate::nlri::Nlri;

/// How far a reader is that takes a table part by part: the default has read nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// What was selected up to this revision was read.
    pub revision: u64,
    walk: Option<Walk>,
}

/// Slot after slot, for what was selected after the mark's revision.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Walk {
    /// The next one.
    slot: usize,
    /// The table's revision at the begin: what was selected later may have been missed.
    began: u64,
}

/// What a reader gets at a time.
#[derive(Clone, Debug)]
pub struct Part<'a, N> {
    /// What is selected of some destinations and since which revision, each of them once.
    pub selected: Vec<(u64, &'a Path<N>)>,
    /// How far the reader is with it.
    pub next: Mark,
}

/// Destinations that went, with the revision at which they did.
pub type Gone<'a, K> = Vec<(u64, &'a K)>;

impl Mark {
    /// A look at all destinations is under way, and its end has not been reached.
    #[must_use]
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }
}

impl<N: Nlri> Table<N> {
    /// What was selected and not read yet, `size` destinations at most: first all, in no meaningful order, then what
    /// changed, by revision. Everything is read when `next` has this table's revision and is not walking. What changes
    /// meanwhile comes later, perhaps again; what goes is not told here, but by [`Table::gone_since`]. Looks at no more
    /// than 16 slots for each of `size`, however large the table is.
    #[must_use]
    pub fn read(&self, mark: Mark, size: usize) -> Part<'_, N> {
        let is_new = mark.revision == 0 || mark.walk.is_some();
        let recent = self.recent.since(mark.revision, self.revision);
        if let Some(recent) = recent.filter(|_| !is_new) {
            return self.follow(mark.revision, recent, size);
        }
        let walk = mark.walk.unwrap_or(Walk {
            slot: 0,
            began: self.revision,
        });
        self.walk(mark.revision, walk, size)
    }

    fn follow(
        &self,
        mut revision: u64,
        recent: impl Iterator<Item = (u64, u32)>,
        size: usize,
    ) -> Part<'_, N> {
        let mut selected = Vec::new();
        for (at, slot) in recent.take(size * LOOKS) {
            revision = at;
            let slot = &self.slots[slot as usize];
            // Otherwise a later change is in this slot, or nothing any more.
            if slot.revision == at
                && let Some(path) = self.selected(slot)
            {
                selected.push((at, path));
                if selected.len() == size {
                    break;
                }
            }
        }
        let walk = None;
        Part {
            selected,
            next: Mark { revision, walk },
        }
    }

    fn walk(&self, revision: u64, mut walk: Walk, size: usize) -> Part<'_, N> {
        let mut selected = Vec::new();
        let slots = self.slots.iter().skip(walk.slot).take(size * LOOKS);
        for slot in slots {
            walk.slot += 1;
            if slot.revision > revision
                && let Some(path) = self.selected(slot)
            {
                selected.push((slot.revision, path));
                if selected.len() == size {
                    break;
                }
            }
        }
        let next = match walk.slot < self.slots.len() {
            true => Mark {
                revision,
                walk: Some(walk),
            },
            false => Mark {
                revision: walk.began,
                walk: None,
            },
        };
        Part { selected, next }
    }

    /// The destinations with a path in the next slots from `place` on, `size` at most, and where to go on; `None`: that
    /// was the end. One that goes and comes back meanwhile may be met twice.
    #[must_use]
    pub fn page(&self, place: usize, size: usize) -> (Vec<Destination<'_, N>>, Option<usize>) {
        let slots = self.slots.iter().skip(place).take(size);
        let occupied = slots.filter(|slot| !slot.paths.is_empty());
        let destinations = occupied.map(|slot| self.view(slot)).collect();
        let next = place.saturating_add(size);
        (destinations, (next < self.slots.len()).then_some(next))
    }

    /// What was selected after `revision`, in no meaningful order.
    pub fn selected_since(&self, revision: u64) -> impl Iterator<Item = (u64, &Path<N>, Step)> {
        let since = move |slot: &&Slot<N>| slot.revision > revision;
        self.slots.iter().filter(since).filter_map(|slot| {
            let path = self.selected(slot)?;
            Some((slot.revision, path, slot.by))
        })
    }

    /// The destinations that went after `revision` and did not come back, oldest first. Since 0, the whole table,
    /// there are none: who knows nothing has nothing to forget.
    ///
    /// # Errors
    /// [`TooOld`] if some of them are no longer remembered, or if `revision` is one this table has not reached, so that it
    /// must be another table's: of this replica's last life, or of another replica.
    pub fn gone_since(&self, revision: u64) -> Result<Gone<'_, N::Key>, TooOld> {
        if revision > self.revision {
            return Err(self.tombstones.too_old());
        }
        let mut seen = HashSet::with_hasher(self.hasher);
        let mut gone: Vec<(u64, &N::Key)> = self
            .tombstones
            .since(revision)?
            .rev()
            .filter(|(_, key)| seen.insert(*key) && !self.is_selected(key))
            .collect();
        gone.reverse();
        Ok(gone)
    }

    /// As [`Table::gone_since`], and no more than `size` times one went are looked at: what has not come back, perhaps
    /// twice, and up to which revision that is.
    ///
    /// # Errors
    /// [`TooOld`] as [`Table::gone_since`].
    pub fn gone_part(&self, revision: u64, size: usize) -> Result<(Gone<'_, N::Key>, u64), TooOld> {
        if revision > self.revision {
            return Err(self.tombstones.too_old());
        }
        let (mut gone, mut count, mut read) = (Vec::new(), 0, revision);
        for (at, key) in self.tombstones.since(revision)? {
            if count == size {
                return Ok((gone, read));
            }
            if !self.is_selected(key) {
                gone.push((at, key));
            }
            (count, read) = (count + 1, at);
        }
        Ok((gone, self.revision))
    }

    /// Everything that changed after `revision`, each destination once, by revision; since 0 the whole table.
    ///
    /// # Errors
    /// [`TooOld`] as [`Table::gone_since`].
    pub fn changes_since(&self, revision: u64) -> Result<Vec<BestChange<N>>, TooOld> {
        let gone = self.gone_since(revision)?.into_iter();
        let gone = gone.map(|(revision, key)| BestChange {
            key: key.clone(),
            old: None,
            new: None,
            by: Step::NoPath,
            revision,
        });
        let selected = self
            .selected_since(revision)
            .map(|(revision, path, by)| BestChange {
                key: path.nlri.key(),
                old: None,
                new: Some(path.clone()),
                by,
                revision,
            });
        let mut changes: Vec<BestChange<N>> = selected.chain(gone).collect();
        changes.sort_unstable_by_key(|change| change.revision);
        Ok(changes)
    }

    fn is_selected(&self, key: &N::Key) -> bool {
        self.find(key)
            .is_some_and(|slot| self.selected(&self.slots[slot as usize]).is_some())
    }
}

/// Slots looked at for each destination wanted: gaps cost less than copies, and are as well bounded.
const LOOKS: usize = 16;
