//! Sets apart what is installed as wanted, which is most of it after any event: only the rest is looked at one by one.
//!
//! Entries that are not installed yet have no index and no id here: `assign` gives them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::southbound::intent::{
    Content, Flows, Hops, Installed, Key, Members, NextHop, Routes, Target,
};

/// What is wanted and what is installed, without the prefixes and flows that are installed as wanted. Those go by a group with the
/// wanted members, and no other group has the same members.
pub(super) struct Rest<'a> {
    /// Prefixes and flows that are wanted and not installed so. Each has a member.
    pub(super) wanted: Vec<(Target, Hops<'a>)>,
    /// Prefixes and policy forwarding entries that are installed, or may still be forwarded by, and are not as wanted; in order.
    pub(super) installed: Vec<Key>,
    /// Ids of the groups of what is installed as wanted, and of their backups.
    pub(super) kept: BTreeSet<u64>,
    /// Ids of groups by what is in them and in their backups.
    pub(super) contents: BTreeMap<Written<'a>, Vec<u64>>,
}

/// The members of a group, each with its weight, in order, and those of its backup.
pub(super) type Written<'a> = [Vec<(&'a NextHop, u64)>; 2];

impl<'a> Rest<'a> {
    /// Compares what is wanted with what is installed.
    pub(super) fn of(wanted: &'a Routes, flows: &'a Flows, installed: &'a Installed) -> Self {
        let mut contents: BTreeMap<Written<'_>, Vec<u64>> = BTreeMap::new();
        let members = |id| Some(installed.tables.content(id)?.into_iter().collect());
        for (id, group) in &installed.tables.groups {
            let backup = group.backup.map_or(Some(Vec::new()), members);
            if let Some(written) = members(*id).zip(backup) {
                let written = <[Vec<_>; 2]>::from(written);
                contents.entry(written).or_default().push(*id);
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
            let hops = wanted.hops(prefix, members);
            if let Some((_, group)) = group {
                if self.keeps(key, *group, hops, installed, found) {
                    continue;
                }
                self.installed.push(key);
            }
            if !members.is_empty() {
                self.wanted.push((Target::Prefix(*prefix), hops));
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
            match flows.get(flow).map(Hops::of_flow) {
                Some(hops) if is_first && self.keeps(key, *group, hops, installed, found) => {
                    kept.insert(flow);
                }
                _ => self.installed.push(key),
            }
        }
        let wanted = flows.iter();
        let wanted = wanted.filter(|(flow, members)| !kept.contains(flow) && !members.is_empty());
        self.wanted
            .extend(wanted.map(|(flow, members)| (Target::Flow(*flow), Hops::of_flow(members))));
    }

    /// Whether a target is installed as wanted; then its group and the backup of that are kept.
    fn keeps(
        &mut self,
        key: Key,
        group: u64,
        hops: Hops<'_>,
        installed: &Installed,
        found: &mut Found,
    ) -> bool {
        let with_these = found.or_look(hops, || self.only_one_with(hops.content()));
        let keeps = with_these == Some(group) && !installed.held.contains_key(&key);
        if keeps && self.kept.insert(group) {
            let group = installed.tables.groups.get(&group);
            self.kept.extend(group.and_then(|group| group.backup));
        }
        keeps
    }

    /// The group with this content, if exactly one has it, and exactly one that of its backup.
    fn only_one_with(&self, content: Content<'_>) -> Option<u64> {
        let backup = content.backup.map(Content::alone);
        if backup.is_some_and(|backup| self.with(backup).len() != 1) {
            return None;
        }
        match self.with(content) {
            [id] if !content.members.is_empty() => Some(*id),
            _ => None,
        }
    }

    /// The groups with this content.
    pub(super) fn with<'s>(&'s self, content: Content<'s>) -> &'s [u64] {
        let written = [Some(content.members), content.backup].map(|members| {
            let members = members.into_iter().flatten();
            members
                .map(|(next_hop, weight)| (next_hop, u64::from(*weight)))
                .collect()
        });
        self.contents.get(&written).map_or(&[], Vec::as_slice)
    }
}

/// The only group with some content, by the addresses of its members in memory: most targets share theirs with many, and each such
/// set is looked up once.
#[derive(Default)]
struct Found {
    last: Option<(Address, Option<u64>)>,
    all: HashMap<Address, Option<u64>>,
}

/// Where members are, and those of the backup.
type Address = (*const Members, Option<*const Members>);

impl Found {
    fn or_look(&mut self, hops: Hops<'_>, look: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let at = (Arc::as_ptr(hops.members), hops.backup.map(Arc::as_ptr));
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
