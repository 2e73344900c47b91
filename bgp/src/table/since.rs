//! What changed in a table after a revision: for readers that were there before. It does not know who they are.

use std::collections::HashSet;

use super::{BestChange, Path, Slot, Table, TooOld};
use crate::decision::Step;
use crate::nlri::Nlri;

impl<N: Nlri> Table<N> {
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
    pub fn gone_since(&self, revision: u64) -> Result<Vec<(u64, &N::Key)>, TooOld> {
        if revision > self.revision {
            return Err(self.tombstones.too_old());
        }
        let mut seen = HashSet::with_hasher(self.hasher);
        let mut gone: Vec<(u64, &N::Key)> = self
            .tombstones
            .newest_since(revision)?
            .filter(|(_, key)| seen.insert(*key) && !self.is_selected(key))
            .collect();
        gone.reverse();
        Ok(gone)
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
