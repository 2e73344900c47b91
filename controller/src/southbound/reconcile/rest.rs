//! Sets apart what is installed as wanted, which is most of it after any event: only the rest is looked at one by one.
//!
//! Entries that are not installed yet have no index and no id here: `assign` gives them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::southbound::intent::{
    Content, Flows, Group, Hops, Installed, Key, Members, NextHop, Routes, Tables, Target,
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
    /// Next hops that are installed, each once.
    next_hops: Vec<&'a NextHop>,
    /// Ids of groups by what is in them and in their backups.
    contents: BTreeMap<Written, Vec<u64>>,
}

/// The members of a group and those of its backup, in order, each as a place among the next hops, with its weight.
type Written = [Vec<(usize, u64)>; 2];

impl<'a> Rest<'a> {
    /// Compares what is wanted with what is installed.
    pub(super) fn of(wanted: &'a Routes, flows: &'a Flows, installed: &'a Installed) -> Self {
        let (next_hops, places) = places(&installed.tables);
        let mut contents: BTreeMap<Written, Vec<u64>> = BTreeMap::new();
        let groups = &installed.tables.groups;
        let members = |id: u64| members(groups.get(&id)?, &places);
        for (id, group) in groups {
            let backup = group.backup.map_or(Some(Vec::new()), members);
            if let Some(written) = members(*id).zip(backup) {
                let written = <[Vec<_>; 2]>::from(written);
                contents.entry(written).or_default().push(*id);
            }
        }
        let mut rest = Self {
            next_hops,
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
    pub(super) fn with(&self, content: Content<'_>) -> &[u64] {
        let backup = content
            .backup
            .map_or(Some(Vec::new()), |it| self.written(it));
        let written = self.written(content.members).zip(backup);
        let ids = written.and_then(|written| self.contents.get(&<[Vec<_>; 2]>::from(written)));
        ids.map_or(&[], Vec::as_slice)
    }

    /// Members as they are in groups; None: a next hop is not installed.
    fn written(&self, members: &Members) -> Option<Vec<(usize, u64)>> {
        // Both are in order.
        let mut places = self.next_hops.iter().enumerate();
        let members = members.iter().map(|(next_hop, weight)| {
            let (place, _) = places.find(|(_, it)| **it >= next_hop)?;
            (self.next_hops[place] == next_hop).then_some((place, u64::from(*weight)))
        });
        members.collect()
    }
}

/// The next hops that are installed, each once and in order, and the place of each index among them.
fn places(tables: &Tables) -> (Vec<&NextHop>, BTreeMap<u64, usize>) {
    let indexed = tables.next_hops.iter();
    let mut indexed: Vec<_> = indexed.map(|(index, it)| (it, *index)).collect();
    indexed.sort_unstable();
    let mut next_hops: Vec<&NextHop> = Vec::with_capacity(indexed.len());
    let places = indexed.into_iter().map(|(next_hop, index)| {
        if next_hops.last() != Some(&next_hop) {
            next_hops.push(next_hop);
        }
        (index, next_hops.len() - 1)
    });
    let places = places.collect();
    (next_hops, places)
}

/// The members of a group; None if it refers to what is not there, or to a next hop twice.
fn members(group: &Group, places: &BTreeMap<u64, usize>) -> Option<Vec<(usize, u64)>> {
    let members = group.next_hops.iter();
    let members = members.map(|(index, weight)| Some((*places.get(index)?, *weight)));
    let mut members: Vec<_> = members.collect::<Option<_>>()?;
    members.sort_unstable();
    let is_twice = members.windows(2).any(|two| two[0].0 == two[1].0);
    (!is_twice).then_some(members)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_dangles_or_doubles_has_no_content_that_is_wanted() {
        let next_hop = |last: u8| NextHop {
            address: Some([192, 0, 2, last].into()),
            interface: "eth1".into(),
        };
        let group = |members: &[(u64, u64)]| members.iter().copied().collect::<BTreeMap<_, _>>();
        let installed = Installed {
            tables: Tables {
                next_hops: [(1, next_hop(2)), (2, next_hop(2)), (4, next_hop(1))].into(),
                groups: [
                    (1, group(&[(1, 3)]).into()),
                    (2, group(&[(3, 1)]).into()),
                    (3, group(&[(1, 1), (2, 1)]).into()),
                    (4, group(&[(2, 3)]).into()),
                    (5, group(&[(2, 3), (4, 1)]).into()),
                ]
                .into(),
                ..Tables::default()
            },
            ..Installed::default()
        };
        let (routes, flows) = (Routes::default(), Flows::default());
        let rest = Rest::of(&routes, &flows, &installed);
        let with = |members: &[(u8, u32)]| {
            let members = members
                .iter()
                .map(|(last, weight)| (next_hop(*last), *weight));
            rest.with(Content::alone(&members.collect())).to_vec()
        };
        assert_eq!(with(&[(2, 3)]), [1, 4]);
        assert_eq!(with(&[(2, 3), (1, 1)]), [5]);
        assert_eq!(with(&[(2, 1)]), [0; 0]);
        assert_eq!(with(&[(2, 2)]), [0; 0]);
        assert_eq!(with(&[(3, 3)]), [0; 0]);
    }
}
