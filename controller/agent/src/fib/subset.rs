//! The kernel's groups for prefixes that may use only some next hops of their group: which prefix
//! uses which, and under which id. A subset never changes: a prefix that may use other next hops goes
//! to another one. Knows nothing of why.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ipnet::IpNet;

use super::Ids;
use crate::forwarding::{Member, Slot};

/// Part of a group.
type Part = (u64, Vec<Member>);

/// A prefix in one of the agent's tables.
type Route = (Slot, IpNet);

/// All subsets in use.
#[derive(Debug)]
pub(super) struct Subsets {
    range: Range<u32>,
    /// Where the search for a free id begins.
    next: u32,
    ids: BTreeMap<Part, u32>,
    parts: BTreeMap<u32, Part>,
    users: BTreeMap<u32, BTreeSet<Route>>,
    part_of: BTreeMap<Route, u32>,
    unused: BTreeSet<u32>,
}

impl Subsets {
    pub(super) fn new(ids: Ids) -> Self {
        Self {
            range: ids.subsets(),
            next: ids.subsets().start,
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

    /// The id of a subset, if it is in use.
    pub(super) fn id(&self, group: u64, members: &[Member]) -> Option<u32> {
        self.ids.get(&(group, members.to_vec())).copied()
    }

    /// A route uses this subset from now on; its id. `None` when no id is left.
    pub(super) fn join(&mut self, route: Route, group: u64, members: Vec<Member>) -> Option<u32> {
        let part = (group, members);
        let id = match self.ids.get(&part) {
            Some(id) => *id,
            None => {
                let id = self.free()?;
                self.ids.insert(part.clone(), id);
                self.parts.insert(id, part);
                id
            }
        };
        if self.part_of.get(&route) != Some(&id) {
            self.leave(route);
            self.part_of.insert(route, id);
            self.users.entry(id).or_default().insert(route);
            self.unused.remove(&id);
        }
        Some(id)
    }

    /// The next id in turn that nobody uses.
    fn free(&mut self) -> Option<u32> {
        let (start, end) = (self.range.start, self.range.end);
        let mut ids = (self.next..end).chain(start..self.next);
        let id = ids.find(|id| !self.parts.contains_key(id))?;
        self.next = if id + 1 < end { id + 1 } else { start };
        Some(id)
    }

    /// A route uses no subset any more.
    pub(super) fn leave(&mut self, route: Route) {
        let Some(id) = self.part_of.remove(&route) else {
            return;
        };
        if let Some(users) = self.users.get_mut(&id) {
            users.remove(&route);
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
