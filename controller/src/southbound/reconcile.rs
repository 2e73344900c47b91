//! From what is installed to what is intended: operations, each with those that it waits for.
//!
//! Make before break: at each acknowledged step a prefix that stays has its old or its new next hops and weights,
//! whatever order the answers come in and whichever operations are held or refused, and nothing refers to what is not
//! there. Pure. It refuses to know streams and acknowledgements.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use self::assign::assign;
use self::rest::Rest;
use super::intent::{Entry, Flow, Flows, Group, Installed, Key, PolicyKey, Routes, Tables, Target};

mod assign;
mod rest;

/// One change of one entry, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub change: Change,
    /// What must have been answered before this may be sent.
    pub after: Vec<After>,
}

/// A change of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there.
    Add(Entry),
    /// It is there, with another value or held back; all fields are given.
    Replace(Entry),
    /// It goes.
    Delete(Key),
}

impl Change {
    /// The key of the entry.
    pub fn key(&self) -> Key {
        match self {
            Self::Add(entry) | Self::Replace(entry) => entry.key(),
            Self::Delete(key) => *key,
        }
    }
}

/// A dependency on an earlier operation of the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    /// Its place in the list.
    pub operation: usize,
    /// How far it must have come.
    pub until: Until,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The switch accepted it: RIB_PROGRAMMED or better.
    Accepted,
    /// The forwarding plane has it: FIB_PROGRAMMED.
    Programmed,
    /// The forwarding plane has it, or the switch said that it does not take it: FIB_PROGRAMMED, FIB_FAILED or FAILED.
    Decided,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(entry) => write!(f, "add {entry}"),
            Self::Replace(entry) => write!(f, "replace {entry}"),
            Self::Delete(key) => write!(f, "delete {key}"),
        }
    }
}

/// The operations that lead from `installed` to `wanted`; none when the switch has it already.
///
/// Next hops are found by their value and never replaced. Prefixes and flows with equal members share a group: one that is
/// installed with this content; else one that may change in place, because everything that uses it and stays is
/// meant; else a new one. So the next leader finds the objects of the one before by what is in them. An operation
/// depends on earlier ones of the list only. What is wanted and held back by the switch is written again.
pub fn reconcile(wanted: &Routes, flows: &Flows, installed: &Installed) -> Vec<Operation> {
    operations(&Rest::of(wanted, flows, installed), installed)
}

fn operations(rest: &Rest<'_>, installed: &Installed) -> Vec<Operation> {
    let users = Users::of(&rest.installed, installed);
    let target = assign(rest, installed, &users);
    let mut sequence = Sequence::new(&target, rest, installed, users);
    sequence.add_next_hops();
    sequence.put_backups();
    sequence.put_groups(false);
    sequence.delete_targets();
    sequence.put_prefixes(false);
    sequence.put_groups(true);
    sequence.put_prefixes(true);
    sequence.put_flows(false);
    sequence.put_flows(true);
    sequence.delete_flows();
    sequence.delete_groups();
    sequence.delete_next_hops();
    sequence.operations
}

/// The list while it grows.
struct Sequence<'a> {
    /// What the switch should have, without the prefixes and flows that are installed as wanted.
    target: &'a Tables,
    rest: &'a Rest<'a>,
    installed: &'a Installed,
    /// What refers to each entry now, of what may change.
    users: Users<'a>,
    /// Installed groups that get other members, or another backup.
    changing: BTreeSet<u64>,
    /// Groups that others are to fall back to: none of them changes.
    backups: BTreeSet<u64>,
    /// Flows of the target.
    flows: Beside,
    operations: Vec<Operation>,
    positions: BTreeMap<Key, usize>,
}

impl<'a> Sequence<'a> {
    fn new(
        target: &'a Tables,
        rest: &'a Rest<'a>,
        installed: &'a Installed,
        users: Users<'a>,
    ) -> Self {
        let groups = installed.tables.groups.iter();
        let changing = groups.filter(|(id, group)| target.groups.get(id) != Some(group));
        let policies = target.policies.iter();
        Self {
            target,
            rest,
            installed,
            users,
            changing: changing.map(|(id, _)| *id).collect(),
            backups: target.groups.values().filter_map(|it| it.backup).collect(),
            flows: Beside::of(policies.map(|(key, (flow, _))| (*key, *flow))),
            operations: Vec::new(),
            positions: BTreeMap::new(),
        }
    }

    fn add_next_hops(&mut self) {
        for (index, next_hop) in &self.target.next_hops {
            self.put(Entry::NextHop(*index, next_hop.clone()), Vec::new());
        }
    }

    /// Groups that others fall back to.
    fn put_backups(&mut self) {
        for id in self.backups.clone() {
            if let Some(group) = self.target.groups.get(&id) {
                let after = self.new_references(group);
                self.put(Entry::Group(id, group.clone()), after);
            }
        }
    }

    /// Groups that change in place, or all others. They do not wait until backups forward, but for one that may still forward by what it
    /// had before.
    fn put_groups(&mut self, changing: bool) {
        for (id, group) in &self.target.groups {
            if self.changing.contains(id) != changing || self.backups.contains(id) {
                continue;
            }
            let mut after = self.new_references(group);
            let stale = group.backup.map(Key::Group);
            let stale = stale.filter(|key| self.installed.held.contains_key(key));
            after.extend(stale.and_then(|key| self.after(key, Until::Programmed)));
            if changing {
                after.extend(self.gone_users(*id));
            }
            self.put(Entry::Group(*id, group.clone()), after);
        }
    }

    /// Prefixes by groups that change in place, or by all others.
    fn put_prefixes(&mut self, changing: bool) {
        for (prefix, group) in &self.target.prefixes {
            if self.changing.contains(group) == changing {
                let entry = Entry::Prefix(*prefix, *group);
                let after = self.settled(&entry, *group).into_iter().collect();
                self.put(entry, after);
            }
        }
    }

    /// Flows that are there already, or all others. More precise ones first, so that no packet goes by a less precise new one in between.
    /// What the switch refuses is waited for no longer.
    fn put_flows(&mut self, there: bool) {
        let installed = &self.installed.tables.policies;
        let policies = self.target.policies.iter();
        let policies = policies.filter(|(key, _)| installed.contains_key(key) == there);
        let mut policies: Vec<_> = policies.collect();
        policies.sort_by_key(|(_, (flow, _))| Reverse(flow.precision()));
        for (key, (flow, group)) in policies {
            let entry = Entry::Policy(key.index, *flow, *group);
            let new = |key: &PolicyKey| !installed.contains_key(key);
            let precise = |beside: &Flow| beside.precision() > flow.precision();
            let beside = self.flows.beside(flow).filter(|(_, flow)| precise(flow));
            let new = beside.map(|(key, _)| key).filter(new);
            let mut after = self.positions(new);
            after.extend(self.settled(&entry, *group));
            self.put(entry, after);
        }
    }

    /// The change of the group of an entry that goes by another one now.
    fn settled(&self, entry: &Entry, group: u64) -> Option<After> {
        let moves = self.installed.tables.group_of(entry.key()) != Some(group);
        moves.then(|| self.after(Key::Group(group), Until::Programmed))?
    }

    /// Prefixes, and policy forwarding entries of which nobody knows what packets they are for.
    fn delete_targets(&mut self) {
        let keys = self.rest.installed.iter();
        let keys = keys.filter(|key| self.known_flow(**key).is_none());
        self.delete(keys.copied().collect());
    }

    fn known_flow(&self, key: Key) -> Option<Flow> {
        match self.installed.target(key)? {
            Target::Flow(flow) => Some(flow).filter(Flow::is_known),
            Target::Prefix(_) => None,
        }
    }

    /// Flows that are to go, once others have what is theirs, the least precise first.
    fn delete_flows(&mut self) {
        let mut going = Vec::new();
        for key in &self.rest.installed {
            if let (Key::Policy(policy), Some(flow)) = (key, self.known_flow(*key))
                && !self.target.contains(*key)
            {
                going.push((flow.precision(), flow, *policy));
            }
        }
        going.sort_unstable();
        let gone = Beside::of(going.iter().map(|(_, flow, key)| (*key, *flow)));
        for (precision, flow, key) in going {
            let put = self.flows.beside(&flow);
            let before = gone.beside(&flow);
            let before = before.filter(|(_, it)| it.precision() < precision);
            let after = self.positions(put.chain(before).map(|(key, _)| key));
            let change = Change::Delete(Key::Policy(key));
            self.push(Operation { change, after });
        }
    }

    /// The operations on policy forwarding entries that the list has so far.
    fn positions(&self, keys: impl Iterator<Item = PolicyKey>) -> Vec<After> {
        keys.filter_map(|key| self.after(Key::Policy(key), Until::Decided))
            .collect()
    }

    /// Those that fall back to others first.
    fn delete_groups(&mut self) {
        let backed: BTreeSet<Key> = self.users.backed.values().flatten().copied().collect();
        for falls_back in [true, false] {
            let keys = self.installed.numbered();
            let keys = keys.filter(|key| matches!(key, Key::Group(_)));
            let keys = keys.filter(|key| backed.contains(key) == falls_back);
            self.delete(keys.collect());
        }
    }

    fn delete_next_hops(&mut self) {
        let keys = self.installed.numbered();
        self.delete(keys.filter(|key| matches!(key, Key::NextHop(_))).collect());
    }

    /// The additions of next hops and of a backup that a group needs.
    fn new_references(&self, group: &Group) -> Vec<After> {
        group
            .references()
            .filter(|key| !self.installed.tables.contains(*key))
            .filter_map(|key| self.after(key, Until::Accepted))
            .collect()
    }

    /// The deletions of what uses a group. One that a flow leaves does not change, as far as flows are known.
    fn gone_users(&self, group: u64) -> impl Iterator<Item = After> {
        let users = self.users.of_group(group);
        users
            .filter(|key| !self.target.contains(**key))
            .filter_map(|key| self.after(*key, Until::Programmed))
    }

    fn after(&self, key: Key, until: Until) -> Option<After> {
        let operation = *self.positions.get(&key)?;
        Some(After { operation, until })
    }

    /// Writes an entry, unless the switch has it and forwards by it.
    fn put(&mut self, entry: Entry, after: Vec<After>) {
        let key = entry.key();
        let accepted = self.installed.tables.entry(key);
        if accepted.as_ref() == Some(&entry) && !self.installed.held.contains_key(&key) {
            return;
        }
        let change = match accepted {
            Some(_) => Change::Replace(entry),
            None => Change::Add(entry),
        };
        self.push(Operation { change, after });
    }

    /// Deletes what is there and not intended, once nothing refers to it.
    fn delete(&mut self, mut keys: Vec<Key>) {
        keys.retain(|key| !self.target.contains(*key));
        for key in keys {
            let users = self.users.of_key(key).into_iter();
            let after = users
                .filter_map(|user| self.after(user, Until::Programmed))
                .collect();
            let change = Change::Delete(key);
            self.push(Operation { change, after });
        }
    }

    fn push(&mut self, operation: Operation) {
        self.positions
            .insert(operation.change.key(), self.operations.len());
        self.operations.push(operation);
    }
}

/// Flows by VNI and destination, each with the key of an entry.
#[derive(Default)]
struct Beside(BTreeMap<To, BTreeMap<Flow, PolicyKey>>);

/// VNI and destination.
type To = (u32, Option<IpAddr>);

impl Beside {
    fn of(flows: impl Iterator<Item = (PolicyKey, Flow)>) -> Self {
        let mut all = Self::default();
        for (key, flow) in flows {
            let to = (flow.vni, flow.destination);
            all.0.entry(to).or_default().insert(flow, key);
        }
        all
    }

    /// The flows that a packet of a flow may be of as well, each with the key of its entry.
    fn beside(&self, flow: &Flow) -> impl Iterator<Item = (PolicyKey, Flow)> {
        let (vni, destination) = (flow.vni, flow.destination);
        let last = destination.unwrap_or(LAST_ADDRESS);
        let first = (vni, destination);
        let alike = self.0.range(first..=(vni, Some(last)));
        let wider = destination.and_then(|_| self.0.get(&(vni, None)));
        let all = alike
            .flat_map(|(_, flows)| flows)
            .chain(wider.into_iter().flatten());
        let all = all.map(|(flow, key)| (*key, *flow));
        all.filter(move |(_, it)| it != flow && it.overlaps(flow))
    }
}

/// No other address is behind it.
const LAST_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

/// What refers to a next hop or a group at a switch, as accepted or as forwarded by.
struct Users<'a> {
    installed: &'a Installed,
    /// Prefixes and policy forwarding entries, in order, by group.
    targets: BTreeMap<u64, Vec<Key>>,
    /// Groups, by their backup.
    backed: BTreeMap<u64, BTreeSet<Key>>,
}

impl<'a> Users<'a> {
    /// Finds what refers to each entry. Of prefixes and policy forwarding entries only these count.
    fn of(keys: &[Key], installed: &'a Installed) -> Self {
        let mut targets: BTreeMap<u64, Vec<Key>> = BTreeMap::new();
        for key in keys {
            if let Some(group) = installed.tables.group_of(*key) {
                targets.entry(group).or_default().push(*key);
            }
        }
        let mut backed: BTreeMap<u64, BTreeSet<Key>> = BTreeMap::new();
        for (id, group) in &installed.tables.groups {
            if let Some(backup) = group.backup {
                backed.entry(backup).or_default().insert(Key::Group(*id));
            }
        }
        for (key, used) in &installed.held {
            for used in used {
                match (key, used) {
                    (Key::Prefix(_) | Key::Policy(_), Key::Group(group)) => {
                        targets.entry(*group).or_default().push(*key);
                    }
                    (Key::Group(_), Key::Group(backup)) => {
                        backed.entry(*backup).or_default().insert(*key);
                    }
                    _ => {}
                }
            }
        }
        for targets in targets.values_mut() {
            targets.sort_unstable();
            targets.dedup();
        }
        Self {
            installed,
            targets,
            backed,
        }
    }

    /// Whether a group is what others fall back to.
    fn is_backup(&self, group: u64) -> bool {
        self.backed.contains_key(&group)
    }

    fn of_group(&self, group: u64) -> impl Iterator<Item = &Key> {
        self.targets.get(&group).into_iter().flatten()
    }

    fn of_key(&self, key: Key) -> Vec<Key> {
        match key {
            Key::NextHop(index) => self.of_next_hop(index),
            Key::Group(id) => {
                let groups = self.backed.get(&id).into_iter().flatten();
                self.of_group(id).chain(groups).copied().collect()
            }
            Key::Prefix(_) | Key::Policy(_) => Vec::new(),
        }
    }

    fn of_next_hop(&self, index: u64) -> Vec<Key> {
        let groups = self.installed.tables.groups.iter();
        let accepted = groups.filter(|(_, group)| group.next_hops.contains_key(&index));
        let accepted = accepted.map(|(id, _)| Key::Group(*id));
        let held = self.installed.held.iter();
        let held = held.filter(|(_, used)| used.contains(&Key::NextHop(index)));
        let users: BTreeSet<Key> = accepted.chain(held.map(|(key, _)| *key)).collect();
        users.into_iter().collect()
    }
}

impl Installed {
    /// The forwarding plane has what an operation says.
    pub fn program(&mut self, change: &Change) {
        let key = change.key();
        self.held.remove(&key);
        self.accept(change);
        if let Key::Policy(key) = key {
            self.going.remove(&key);
        }
    }

    /// The switch accepted an operation, and its forwarding plane does not have it.
    pub fn hold(&mut self, change: &Change) {
        let key = change.key();
        let references = self.tables.references(key);
        self.held.entry(key).or_default().extend(references);
        if let (Key::Policy(key), Change::Delete(_)) = (key, change)
            && let Some((flow, _)) = self.tables.policies.get(&key)
        {
            self.going.insert(key, *flow);
        }
        self.accept(change);
    }

    fn accept(&mut self, change: &Change) {
        match change {
            Change::Add(entry) | Change::Replace(entry) => self.tables.put(entry.clone()),
            Change::Delete(key) => self.tables.remove(*key),
        }
    }
}

#[cfg(test)]
mod tests;
