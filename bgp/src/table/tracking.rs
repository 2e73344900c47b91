//! What all paths of a destination were before they changed, for those who are told more than the best. It does not
//! know who that is, nor what they are told.

use super::{Dirty, Path, Slot};
use crate::nlri::Nlri;

/// The paths of a destination changed, whether its best one did or not.
#[derive(Clone, Debug)]
pub struct PathsChange<N: Nlri> {
    /// Of which destination.
    pub key: N::Key,
    /// All its paths before, by peer and path id.
    pub before: Vec<Path<N>>,
    /// All its paths now.
    pub after: Vec<Path<N>>,
}

/// Copies of paths, made only while somebody is told more than the best.
#[derive(Debug)]
pub(super) struct Tracking<N: Nlri> {
    /// What the dirty destinations had, in the order in which they became dirty.
    before: Vec<Vec<Path<N>>>,
    changes: Vec<PathsChange<N>>,
}

impl<N: Nlri> Tracking<N> {
    pub(super) fn new() -> Self {
        Self {
            before: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The destination becomes dirty.
    pub(super) fn mark(&mut self, paths: &[Path<N>]) {
        self.before.push(paths.to_vec());
    }

    /// What the destination at this place among the dirty ones had.
    pub(super) fn before(&self, dirty: u32) -> Option<&[Path<N>]> {
        self.before.get(dirty as usize).map(Vec::as_slice)
    }

    /// The dirty destinations are decided.
    pub(super) fn select(&mut self, dirty: &[Dirty<N>], slots: &[Slot<N>]) {
        for (dirty, before) in dirty.iter().zip(self.before.drain(..)) {
            let after = &slots[dirty.slot as usize].paths;
            if same(&before, after) {
                continue;
            }
            self.changes.push(PathsChange {
                key: dirty.key.clone(),
                before,
                after: after.clone(),
            });
        }
    }

    pub(super) fn take(&mut self) -> Vec<PathsChange<N>> {
        std::mem::take(&mut self.changes)
    }
}

fn same<N: Nlri>(before: &[Path<N>], after: &[Path<N>]) -> bool {
    let pairs = || before.iter().zip(after);
    before.len() == after.len()
        && pairs().all(|(a, b)| a.path_id() == b.path_id() && a.sends_same(b))
}
