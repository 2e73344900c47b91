//! From what is installed to what is intended: operations in an order that is safe at every step.
//!
//! Make before break: a prefix that stays is never without a group, nothing refers to what is not there, and a prefix
//! that leaves a group does so before the group changes, wherever it goes to a group that is settled already. Pure. It
//! refuses to know streams and acknowledgements; a [`Phase`] begins when the one before is acknowledged.

use std::collections::BTreeMap;
use std::fmt;

use ipnet::IpNet;

use super::intent::{NextHop, Tables};

/// One operation on one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When.
    pub phase: Phase,
    /// What.
    pub verb: Verb,
    /// To which entry. For [`Verb::Delete`] as it is installed.
    pub entry: Entry,
}

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is not there.
    Add,
    /// It is there with another value; all fields are given.
    Replace,
    /// It goes.
    Delete,
}

/// An entry of one of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Index and value.
    NextHop(u64, NextHop),
    /// Id, and weight by index.
    Group(u64, BTreeMap<u64, u64>),
    /// Prefix and id of its group.
    Prefix(IpNet, u64),
}

/// The steps, in order. Within one, operations do not depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// New and changed next hops.
    NextHops,
    /// New groups.
    NewGroups,
    /// Prefixes whose group is as it should be by now.
    SettledPrefixes,
    /// Prefixes that go.
    GonePrefixes,
    /// Groups that stay with other members.
    ChangedGroups,
    /// Prefixes that join a group that has just changed.
    JoiningPrefixes,
    /// Groups that go.
    GoneGroups,
    /// Next hops that go.
    GoneNextHops,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextHop(index, next_hop) => write!(f, "next hop {index} ({})", next_hop.address),
            Self::Group(id, members) => write!(f, "next-hop group {id} of {}", members.len()),
            Self::Prefix(prefix, group) => write!(f, "{prefix} by group {group}"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Add => "add",
            Verb::Replace => "replace",
            Verb::Delete => "delete",
        };
        write!(f, "{verb} {}", self.entry)
    }
}

/// The operations that lead from `installed` to `intended`, sorted by phase; none when they are equal.
pub fn reconcile(intended: &Tables, installed: &Tables) -> Vec<Operation> {
    let mut operations = next_hops(intended, installed);
    operations.extend(groups(intended, installed));
    operations.extend(prefixes(intended, installed));
    operations.sort_by_key(|operation| operation.phase);
    operations
}

fn next_hops(intended: &Tables, installed: &Tables) -> Vec<Operation> {
    let (here, there) = (&intended.next_hops, &installed.next_hops);
    let written = differing(here, there).map(|(verb, index, next_hop)| Operation {
        phase: Phase::NextHops,
        verb,
        entry: Entry::NextHop(*index, next_hop.clone()),
    });
    let gone = missing(here, there).map(|(index, next_hop)| Operation {
        phase: Phase::GoneNextHops,
        verb: Verb::Delete,
        entry: Entry::NextHop(*index, next_hop.clone()),
    });
    written.chain(gone).collect()
}

fn groups(intended: &Tables, installed: &Tables) -> Vec<Operation> {
    let (here, there) = (&intended.groups, &installed.groups);
    let written = differing(here, there).map(|(verb, id, members)| Operation {
        phase: if verb == Verb::Add {
            Phase::NewGroups
        } else {
            Phase::ChangedGroups
        },
        verb,
        entry: Entry::Group(*id, members.clone()),
    });
    let gone = missing(here, there).map(|(id, members)| Operation {
        phase: Phase::GoneGroups,
        verb: Verb::Delete,
        entry: Entry::Group(*id, members.clone()),
    });
    written.chain(gone).collect()
}

fn prefixes(intended: &Tables, installed: &Tables) -> Vec<Operation> {
    let (here, there) = (&intended.prefixes, &installed.prefixes);
    let changing = |group: &u64| match installed.groups.get(group) {
        Some(members) => intended.groups.get(group) != Some(members),
        None => false,
    };
    let written = differing(here, there).map(|(verb, prefix, group)| Operation {
        phase: if changing(group) {
            Phase::JoiningPrefixes
        } else {
            Phase::SettledPrefixes
        },
        verb,
        entry: Entry::Prefix(*prefix, *group),
    });
    let gone = missing(here, there).map(|(prefix, group)| Operation {
        phase: Phase::GonePrefixes,
        verb: Verb::Delete,
        entry: Entry::Prefix(*prefix, *group),
    });
    written.chain(gone).collect()
}

/// What is here and not there, or there with another value.
fn differing<'a, K: Ord, V: PartialEq>(
    here: &'a BTreeMap<K, V>,
    there: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (Verb, &'a K, &'a V)> {
    here.iter().filter_map(|(key, value)| match there.get(key) {
        None => Some((Verb::Add, key, value)),
        Some(other) if other != value => Some((Verb::Replace, key, value)),
        Some(_) => None,
    })
}

/// What is there and not here.
fn missing<'a, K: Ord, V>(
    here: &'a BTreeMap<K, V>,
    there: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    there.iter().filter(|(key, _)| !here.contains_key(key))
}

impl Tables {
    /// What is installed after an operation was acknowledged.
    pub fn apply(&mut self, operation: &Operation) {
        match (&operation.entry, operation.verb) {
            (Entry::NextHop(index, next_hop), Verb::Add | Verb::Replace) => {
                self.next_hops.insert(*index, next_hop.clone());
            }
            (Entry::NextHop(index, _), Verb::Delete) => {
                self.next_hops.remove(index);
            }
            (Entry::Group(id, members), Verb::Add | Verb::Replace) => {
                self.groups.insert(*id, members.clone());
            }
            (Entry::Group(id, _), Verb::Delete) => {
                self.groups.remove(id);
            }
            (Entry::Prefix(prefix, group), Verb::Add | Verb::Replace) => {
                self.prefixes.insert(*prefix, *group);
            }
            (Entry::Prefix(prefix, _), Verb::Delete) => {
                self.prefixes.remove(prefix);
            }
        }
    }
}
