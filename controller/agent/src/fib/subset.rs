//! The kernel's groups for prefixes that may use only some next hops of their group: which prefix
//! uses which, and under which id. Knows nothing of why.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ipnet::IpNet;

use super::Ids;

/// Part of a group, by the numbers of its next hops.
type Part = (u64, BTreeSet<u64>);

/// All subsets in use.
#[derive(Debug)]
pub(super) struct Subsets {
    range: Range<u32>,
    ids: BTreeMap<Part, u32>,
    parts: BTreeMap<u32, Part>,
    users: BTreeMap<u32, BTreeSet<IpNet>>,
    part_of: BTreeMap<IpNet, u32>,
    unused: BTreeSet<u32>,
}

impl Subsets {
    pub(super) fn new(ids: Ids) -> Self {
        Self {
            range: ids.subsets(),
            ids: BTreeMap::new(),
            parts: BTreeMap::new(),
            users: BTreeMap::new(),
            part_of: BTreeMap::new(),
            unused: BTreeSet::new(),
        }
    }

    /// Whether this is the id of a subset in use, or of one that is about to go.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.parts.contains_key(&id)
    }

    /// Whether this id is of a whole group.
    pub(super) fn is_whole(&self, id: u32) -> bool {
        !self.range.contains(&id)
    }

    /// The id of a subset, if it is in use.
    pub(super) fn id(&self, group: u64, subset: &BTreeSet<u64>) -> Option<u32> {
        self.ids.get(&(group, subset.clone())).copied()
    }

    /// The subsets of a group.
    pub(super) fn of(&self, group: u64) -> Vec<(u32, BTreeSet<u64>)> {
        let least = (group, BTreeSet::new());
        self.ids
            .range(least..)
            .take_while(|((of, _), _)| *of == group)
            .map(|((_, subset), id)| (*id, subset.clone()))
            .collect()
    }

    /// A prefix uses this subset from now on; its id. `None` when no id is left.
    pub(super) fn join(&mut self, prefix: IpNet, group: u64, subset: BTreeSet<u64>) -> Option<u32> {
        let part = (group, subset);
        let id = match self.ids.get(&part) {
            Some(id) => *id,
            None => {
                let id = self.range.clone().find(|id| !self.parts.contains_key(id))?;
                self.ids.insert(part.clone(), id);
                self.parts.insert(id, part);
                id
            }
        };
        if self.part_of.get(&prefix) != Some(&id) {
            self.leave(prefix);
            self.part_of.insert(prefix, id);
            self.users.entry(id).or_default().insert(prefix);
            self.unused.remove(&id);
        }
        Some(id)
    }

    /// A prefix uses no subset any more.
    pub(super) fn leave(&mut self, prefix: IpNet) {
        let Some(id) = self.part_of.remove(&prefix) else {
            return;
        };
        if let Some(users) = self.users.get_mut(&id) {
            users.remove(&prefix);
            if users.is_empty() {
                self.users.remove(&id);
                self.unused.insert(id);
            }
        }
    }

    /// The ids that nobody uses any more; they may be given again.
    pub(super) fn take_unused(&mut self) -> BTreeSet<u32> {
        let unused = std::mem::take(&mut self.unused);
        for id in &unused {
            if let Some(part) = self.parts.remove(id) {
                self.ids.remove(&part);
            }
        }
        unused
    }
}
