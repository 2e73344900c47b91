//! Which numbers next hops, groups and policy forwarding entries have at a switch: those of what is installed there, as far as that serves.
//!
//! It refuses to know the order of operations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::rest::Rest;
use super::{Beside, Users};
use crate::southbound::intent::{
    Content, Flow, Group, Installed, Key, Members, NextHop, PolicyKey, Tables, Target, classes,
};

/// The tables that the switch should have, by number, without the prefixes and flows that are installed as wanted. The answer
/// depends on nothing but the arguments.
pub(super) fn assign(rest: &Rest<'_>, installed: &Installed, users: &Users<'_>) -> Tables {
    let classes = Classes::new(rest);
    let (indexes, ids) = numbers(rest, installed);
    let mut ids = Free::beside(ids);
    let (claimed, backups) = claim(&classes, rest, installed, users, &mut ids);
    let mut next_hops = NextHops::new(installed, Free::beside(indexes));
    let mut policies = None;
    let mut target = kept(rest, installed);
    let mut prefixes = Vec::with_capacity(rest.wanted.len());
    for ((content, targets), claimed) in classes.all.into_iter().zip(claimed) {
        let mut written = || Group {
            next_hops: next_hops.weights(content.members),
            backup: content.backup.map(|backup| backups[backup]),
        };
        let (id, group) = match claimed {
            Claim::AsIs(id) => (id, installed.tables.groups[&id].clone()),
            Claim::Written(id) => (id, written()),
        };
        for index in group.next_hops.keys() {
            target
                .next_hops
                .insert(*index, next_hops.values[index].clone());
        }
        target.groups.insert(id, group);
        for it in targets {
            match it {
                Target::Prefix(prefix) => prefixes.push((prefix, id)),
                Target::Flow(flow) => {
                    let policies = policies.get_or_insert_with(|| Policies::new(installed));
                    let key = policies.key(flow);
                    target.policies.insert(key, (flow, id));
                }
            }
        }
    }
    target.prefixes = prefixes.into_iter().collect();
    target
}

/// The groups that are kept, with their next hops.
fn kept(rest: &Rest<'_>, installed: &Installed) -> Tables {
    let (groups, next_hops) = (&installed.tables.groups, &installed.tables.next_hops);
    let groups = rest.kept.iter().map(|id| (*id, groups[id].clone()));
    let groups: BTreeMap<u64, Group> = groups.collect();
    let members = groups.values().flat_map(|group| group.next_hops.keys());
    let indexes: BTreeSet<u64> = members.copied().collect();
    let next_hops = indexes
        .iter()
        .map(|index| (*index, next_hops[index].clone()));
    Tables {
        next_hops: next_hops.collect(),
        groups,
        ..Tables::default()
    }
}

/// Targets by what they need, and the backups among that.
struct Classes<'a> {
    all: Vec<(Content<'a>, Vec<Target>)>,
    /// What is some group's backup.
    backups: BTreeSet<&'a Members>,
}

impl<'a> Classes<'a> {
    fn new(rest: &Rest<'a>) -> Self {
        let all: Vec<_> = classes(rest.wanted.iter().copied()).into_iter().collect();
        Self {
            backups: all
                .iter()
                .filter_map(|(content, _)| content.backup)
                .collect(),
            all,
        }
    }

    fn is_backup(&self, content: Content<'_>) -> bool {
        content.backup.is_none() && self.backups.contains(content.members)
    }

    /// The places of all classes.
    fn backups_first(&self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.all.len()).collect();
        places.sort_by_key(|place| !self.is_backup(self.all[*place].0));
        places
    }
}

/// The group of a class of prefixes and flows.
#[derive(Clone, Copy)]
enum Claim {
    /// It is installed, and its content is what the class needs.
    AsIs(u64),
    /// It gets the content that the class needs: it is new, or nobody else uses it.
    Written(u64),
}

impl Claim {
    fn id(self) -> u64 {
        let (Self::AsIs(id) | Self::Written(id)) = self;
        id
    }
}

/// The group of each class, and the ids of backups.
fn claim<'a>(
    classes: &Classes<'a>,
    rest: &Rest<'_>,
    installed: &Installed,
    users: &Users<'_>,
    ids: &mut Free,
) -> (Vec<Claim>, BTreeMap<&'a Members, u64>) {
    let targets = targets(users, installed);
    let common = |class: usize, id: u64| {
        let users = targets.get(&id);
        let targets = classes.all[class].1.iter();
        users.map_or(0, |users| {
            targets
                .filter(|target| users.binary_search(target).is_ok())
                .count()
        })
    };
    let mut claims: Vec<Option<Claim>> = vec![None; classes.all.len()];
    let mut taken = rest.kept.clone();
    let mut backups = BTreeMap::new();
    for class in classes.backups_first() {
        let content = classes.all[class].0;
        let backup = content.backup.map(|backup| backups[backup]);
        let equal = rest.with(content).iter();
        let equal = equal.filter(|id| installed.tables.groups[id].backup == backup);
        let best = equal.max_by_key(|id| (common(class, **id), Reverse(**id)));
        taken.extend(best);
        claims[class] = best.map(|id| Claim::AsIs(*id));
        if classes.is_backup(content) {
            // It is never changed: what falls back to it would have something else meanwhile.
            let own = *claims[class].get_or_insert_with(|| Claim::Written(ids.take()));
            backups.insert(content.members, own.id());
        }
    }
    let mut changeable: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (class, id) in of_one_class(&classes.all, &targets, &coming_or_going(rest, installed)) {
        let known = installed.tables.groups.contains_key(&id) && !users.is_backup(id);
        if known && claims[class].is_none() && !taken.contains(&id) {
            changeable.entry(class).or_default().push(id);
        }
    }
    for (class, ids) in changeable {
        let best = ids
            .into_iter()
            .max_by_key(|id| (common(class, *id), Reverse(*id)));
        claims[class] = best.map(Claim::Written);
    }
    let new = |claim: Option<Claim>| claim.unwrap_or_else(|| Claim::Written(ids.take()));
    (claims.into_iter().map(new).collect(), backups)
}

/// Flows that come or go, if the switch has some: packets are of others before or after.
fn coming_or_going(rest: &Rest<'_>, installed: &Installed) -> Beside {
    if installed.tables.policies.is_empty() && installed.going.is_empty() {
        return Beside::default();
    }
    let flow = |target: Target| match target {
        Target::Flow(flow) => Some(flow).filter(Flow::is_known),
        Target::Prefix(_) => None,
    };
    let wanted = rest.wanted.iter().filter_map(|(target, _)| flow(*target));
    let there = rest.installed.iter();
    let there = there.filter_map(|key| flow(installed.target(*key)?));
    let (wanted, there): (BTreeSet<Flow>, BTreeSet<Flow>) = (wanted.collect(), there.collect());
    let changed = wanted.symmetric_difference(&there);
    // Not all of them have an index.
    Beside::of(changed.map(|flow| (PolicyKey::of(0, flow), *flow)))
}

/// Groups whose users, as far as they stay, are all of one class, with that class. A flow that has packets only before or
/// after another one goes by no group that changes.
fn of_one_class(
    classes: &[(Content<'_>, Vec<Target>)],
    users: &BTreeMap<u64, Vec<Target>>,
    changed: &Beside,
) -> Vec<(usize, u64)> {
    let mut classed = Vec::new();
    for (class, (_, targets)) in classes.iter().enumerate() {
        classed.extend(targets.iter().map(|target| (*target, class)));
    }
    classed.sort_unstable();
    let class_of = |target: &Target| {
        let place = classed.binary_search_by_key(target, |(target, _)| *target);
        place.ok().map(|place| classed[place].1)
    };
    let one_class = |users: &Vec<Target>| {
        // Weights do not wait until a flow that leaves is unmarked.
        let leaves =
            |target: &Target| matches!(target, Target::Flow(_)) && class_of(target).is_none();
        let has_more = |target: &Target| match target {
            Target::Flow(flow) => {
                let mut beside = changed.beside(flow);
                beside.any(|(_, it)| it.precision() > flow.precision())
            }
            Target::Prefix(_) => false,
        };
        if users
            .iter()
            .any(|target| leaves(target) || has_more(target))
        {
            return None;
        }
        let mut staying = users.iter().filter_map(class_of);
        let first = staying.next()?;
        staying.all(|class| class == first).then_some(first)
    };
    let groups = users.iter();
    groups
        .filter_map(|(id, users)| Some((one_class(users)?, *id)))
        .collect()
}

/// What uses each group, in order.
fn targets(users: &Users<'_>, installed: &Installed) -> BTreeMap<u64, Vec<Target>> {
    let of_group = |(id, keys): (&u64, &Vec<Key>)| {
        let targets = keys.iter().filter_map(|key| installed.target(*key));
        let mut targets: Vec<Target> = targets.collect();
        targets.sort_unstable();
        (*id, targets)
    };
    users.targets.iter().map(of_group).collect()
}

/// Keys of policy forwarding entries by flow: the first installed one, that of one that is going, or a free one.
struct Policies {
    keys: BTreeMap<Flow, PolicyKey>,
    free: Free,
}

impl Policies {
    fn new(installed: &Installed) -> Self {
        let accepted = installed.tables.policies.keys().copied();
        let going = installed.going().filter_map(|key| match key {
            Key::Policy(key) => Some(key),
            Key::NextHop(_) | Key::Group(_) | Key::Prefix(_) => None,
        });
        let used = accepted.chain(going).map(|key| key.index);
        let mut keys = BTreeMap::new();
        for (key, (flow, _)) in &installed.tables.policies {
            keys.entry(*flow).or_insert(*key);
        }
        let free = |key: &PolicyKey| !installed.tables.policies.contains_key(key);
        for (key, flow) in installed.going.iter().filter(|(key, _)| free(key)) {
            keys.entry(*flow).or_insert(*key);
        }
        Self {
            keys,
            free: Free::beside(used.collect()),
        }
    }

    fn key(&mut self, flow: Flow) -> PolicyKey {
        let known = self.keys.get(&flow).copied();
        known.unwrap_or_else(|| PolicyKey::of(self.free.take(), &flow))
    }
}

/// Indexes of next hops by value: the lowest installed one, or a free one.
struct NextHops {
    values: BTreeMap<u64, NextHop>,
    indexes: BTreeMap<NextHop, u64>,
    free: Free,
}

impl NextHops {
    fn new(installed: &Installed, free: Free) -> Self {
        let mut indexes = BTreeMap::new();
        for (index, next_hop) in &installed.tables.next_hops {
            indexes.entry(next_hop.clone()).or_insert(*index);
        }
        Self {
            values: installed.tables.next_hops.clone(),
            indexes,
            free,
        }
    }

    fn weights(&mut self, members: &Members) -> BTreeMap<u64, u64> {
        let weights = members.iter();
        weights
            .map(|(next_hop, weight)| (self.index(next_hop), u64::from(*weight)))
            .collect()
    }

    fn index(&mut self, next_hop: &NextHop) -> u64 {
        if let Some(index) = self.indexes.get(next_hop) {
            return *index;
        }
        let index = self.free.take();
        self.values.insert(index, next_hop.clone());
        self.indexes.insert(next_hop.clone(), index);
        index
    }
}

/// Indexes of next hops and ids of groups that something at the switch is called by or refers to.
fn numbers(rest: &Rest<'_>, installed: &Installed) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let tables = &installed.tables;
    let members = tables.groups.values();
    let members = members.flat_map(|group| group.next_hops.keys());
    let mut indexes: BTreeSet<u64> = tables.next_hops.keys().chain(members).copied().collect();
    // Groups that are kept are among the installed ones.
    let used = rest
        .installed
        .iter()
        .filter_map(|key| tables.group_of(*key));
    let mut ids: BTreeSet<u64> = tables.groups.keys().copied().chain(used).collect();
    ids.extend(tables.groups.values().filter_map(|group| group.backup));
    for key in installed
        .held
        .iter()
        .flat_map(|(key, used)| used.iter().chain([key]))
    {
        match key {
            Key::NextHop(index) => drop(indexes.insert(*index)),
            Key::Group(id) => drop(ids.insert(*id)),
            Key::Prefix(_) | Key::Policy(_) => {}
        }
    }
    (indexes, ids)
}

/// Numbers from 1 up that are not in use; 0 is never given. A switch with n entries gets none above n + 1, and so none
/// that weft-agent, which takes numbers below 2^23, would refuse.
struct Free {
    used: BTreeSet<u64>,
    next: u64,
}

impl Free {
    fn beside(used: BTreeSet<u64>) -> Self {
        Self { used, next: 1 }
    }

    fn take(&mut self) -> u64 {
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}
