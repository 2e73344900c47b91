//! Sets apart what is installed as wanted, which is most of it after any event: only the rest is looked at one by one.
//!
//! Entries that are not installed yet have no index and no id here: `assign` gives them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::southbound::intent::{Flows, Installed, Key, Members, NextHop, Routes, Target};

/// What is wanted and what is installed, without the prefixes and flows that are installed as wanted. Those go by a group with the
/// wanted members, and no other group has the same members.
pub(super) struct Rest<'a> {
    /// Prefixes and flows that are wanted and not installed so. Each has a member.
    pub(super) wanted: Vec<(Target, &'a Arc<Members>)>,
    /// Prefixes and policy forwarding entries that are installed, or may still be forwarded by, and are not as wanted; in order.
    pub(super) installed: Vec<Key>,
    /// Ids of the groups of what is installed as wanted.
    pub(super) kept: BTreeSet<u64>,
    /// Ids of groups by their members, each with its weight, in order.
    pub(super) contents: BTreeMap<Vec<(&'a NextHop, u64)>, Vec<u64>>,
}

impl<'a> Rest<'a> {
    /// Compares what is wanted with what is installed.
    pub(super) fn of(wanted: &'a Routes, flows: &'a Flows, installed: &'a Installed) -> Self {
        let mut contents: BTreeMap<Vec<(&NextHop, u64)>, Vec<u64>> = BTreeMap::new();
        for id in installed.tables.groups.keys() {
            if let Some(content) = installed.tables.content(*id) {
                let content = content.into_iter().collect();
                contents.entry(content).or_default().push(*id);
            }
        }
        let mut rest = Self {
            wanted: Vec::new(),
            installed: Vec::new(),
            kept: BTreeSet::new(),
            contents,
        };
        let mut found = Found::default();
        rest.compare_prefixes(wanted, installed, &mut found);
        rest.compare_flows(flows, installed, &mut found);
        let before = rest.installed.len();
        let going = installed.going();
        let targets = going.filter(|key| matches!(key, Key::Prefix(_) | Key::Policy(_)));
        rest.installed.extend(targets);
        if rest.installed.len() > before {
            rest.installed.sort_unstable();
        }
        rest
    }

    fn compare_prefixes(
        &mut self,
        wanted: &'a Routes,
        installed: &'a Installed,
        found: &mut Found,
    ) {
        let mut there = installed.tables.prefixes.iter().peekable();
        for (prefix, members) in &wanted.prefixes {
            while let Some((gone, _)) = there.next_if(|(it, _)| *it < prefix) {
                self.installed.push(Key::Prefix(*gone));
            }
            let key = Key::Prefix(*prefix);
            let group = there.next_if(|(it, _)| *it == prefix);
            if let Some((_, group)) = group {
                if self.keeps(key, *group, members, installed, found) {
                    continue;
                }
                self.installed.push(key);
            }
            if !members.is_empty() {
                self.wanted.push((Target::Prefix(*prefix), members));
            }
        }
        self.installed
            .extend(there.map(|(gone, _)| Key::Prefix(*gone)));
    }

    fn compare_flows(&mut self, flows: &'a Flows, installed: &'a Installed, found: &mut Found) {
        let (mut looked_at, mut kept) = (HashSet::new(), HashSet::new());
        for (key, (flow, group)) in &installed.tables.policies {
            // Of two entries of one flow the first one counts.
            let is_first = looked_at.insert(flow);
            let key = Key::Policy(*key);
            match flows.get(flow) {
                Some(members) if is_first && self.keeps(key, *group, members, installed, found) => {
                    kept.insert(flow);
                }
                _ => self.installed.push(key),
            }
        }
        let wanted = flows.iter();
        let wanted = wanted.filter(|(flow, members)| !kept.contains(flow) && !members.is_empty());
        self.wanted
            .extend(wanted.map(|(flow, members)| (Target::Flow(*flow), members)));
    }

    /// Whether a target is installed as wanted; then its group is kept.
    fn keeps(
        &mut self,
        key: Key,
        group: u64,
        members: &Arc<Members>,
        installed: &Installed,
        found: &mut Found,
    ) -> bool {
        let with_these = found.or_look(members, || self.only_one_with(members));
        let keeps = with_these == Some(group) && !installed.held.contains_key(&key);
        if keeps {
            self.kept.insert(group);
        }
        keeps
    }

    /// The group with these members, if exactly one has them.
    fn only_one_with(&self, members: &Members) -> Option<u64> {
        match self.with(members) {
            [id] if !members.is_empty() => Some(*id),
            _ => None,
        }
    }

    /// The groups with these members.
    pub(super) fn with<'s>(&'s self, members: &'s Members) -> &'s [u64] {
        let content = members
            .iter()
            .map(|(next_hop, weight)| (next_hop, u64::from(*weight)));
        let content: Vec<(&NextHop, u64)> = content.collect();
        self.contents.get(&content).map_or(&[], Vec::as_slice)
    }
}

/// The only group with some members, by the address of these in memory: most targets share their members with many, and each such
/// set is looked up once.
#[derive(Default)]
struct Found {
    last: Option<(*const Members, Option<u64>)>,
    all: HashMap<*const Members, Option<u64>>,
}

impl Found {
    fn or_look(
        &mut self,
        members: &Arc<Members>,
        look: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let at = Arc::as_ptr(members);
        if let Some((last, group)) = self.last
            && last == at
        {
            return group;
        }
        let group = *self.all.entry(at).or_insert_with(look);
        self.last = Some((at, group));
        group
    }
}
