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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn next_hop(last: u8) -> NextHop {
        NextHop {
            address: std::net::Ipv4Addr::new(192, 0, 2, last).into(),
            interface: "swp1".into(),
        }
    }

    fn prefix(last: u8) -> IpNet {
        IpNet::from(std::net::IpAddr::from([198, 51, 100, last]))
    }

    /// A device that refuses what gRIBI says it must: dangling references, in either direction, and verbs that do not
    /// fit.
    fn execute(device: &mut Tables, operation: &Operation) -> Result<(), String> {
        let exists = match &operation.entry {
            Entry::NextHop(index, _) => device.next_hops.contains_key(index),
            Entry::Group(id, _) => device.groups.contains_key(id),
            Entry::Prefix(prefix, _) => device.prefixes.contains_key(prefix),
        };
        if exists == (operation.verb == Verb::Add) {
            return Err(format!("{operation}: exists = {exists}"));
        }
        device.apply(operation);
        for members in device.groups.values() {
            if members.is_empty()
                || members
                    .keys()
                    .any(|index| !device.next_hops.contains_key(index))
            {
                return Err(format!("{operation}: a group misses a next hop"));
            }
        }
        for group in device.prefixes.values() {
            if !device.groups.contains_key(group) {
                return Err(format!("{operation}: a prefix misses its group"));
            }
        }
        Ok(())
    }

    fn tables() -> impl Strategy<Value = Tables> {
        let next_hops = prop::collection::btree_map(1_u64..6, (1_u8..8).prop_map(next_hop), 1..5);
        next_hops
            .prop_flat_map(|next_hops| {
                let indexes: Vec<u64> = next_hops.keys().copied().collect();
                let most = indexes.len();
                let members =
                    prop::collection::btree_map(prop::sample::select(indexes), 1_u64..4, 1..=most);
                (
                    Just(next_hops),
                    prop::collection::btree_map(1_u64..6, members, 1..5),
                )
            })
            .prop_flat_map(|(next_hops, groups)| {
                let ids: Vec<u64> = groups.keys().copied().collect();
                let prefixes = prop::collection::btree_map(
                    (1_u8..9).prop_map(prefix),
                    prop::sample::select(ids),
                    0..8,
                );
                (Just(next_hops), Just(groups), prefixes)
            })
            .prop_map(|(next_hops, groups, prefixes)| Tables {
                next_hops,
                groups,
                prefixes,
            })
    }

    #[test]
    fn a_change_of_weights_is_one_operation() {
        let installed = Tables {
            next_hops: [(1, next_hop(1)), (2, next_hop(2))].into(),
            groups: [(1, [(1, 1), (2, 1)].into())].into(),
            prefixes: [(prefix(1), 1), (prefix(2), 1)].into(),
        };
        let mut intended = installed.clone();
        intended.groups.insert(1, [(1, 2), (2, 1)].into());
        let operations = reconcile(&intended, &installed);
        assert_eq!(operations.len(), 1);
        assert_eq!(operations[0].to_string(), "replace next-hop group 1 of 2");
        assert_eq!(operations[0].phase, Phase::ChangedGroups);
    }

    #[test]
    fn a_prefix_leaves_a_group_before_the_group_changes() {
        let installed = Tables {
            next_hops: [(1, next_hop(1)), (2, next_hop(2))].into(),
            groups: [(1, [(1, 1), (2, 1)].into())].into(),
            prefixes: [(prefix(1), 1), (prefix(2), 1)].into(),
        };
        let intended = Tables {
            groups: [(1, [(1, 1)].into()), (2, [(1, 1), (2, 1)].into())].into(),
            prefixes: [(prefix(1), 1), (prefix(2), 2)].into(),
            ..installed.clone()
        };
        let texts: Vec<String> = reconcile(&intended, &installed)
            .iter()
            .map(Operation::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "add next-hop group 2 of 2",
                "replace 198.51.100.2/32 by group 2",
                "replace next-hop group 1 of 1",
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn operations_are_safe_in_order_and_end_at_the_intent(intended in tables(), installed in tables()) {
            let operations = reconcile(&intended, &installed);
            let staying: BTreeSet<IpNet> = intended
                .prefixes
                .keys()
                .filter(|prefix| installed.prefixes.contains_key(prefix))
                .copied()
                .collect();
            let mut device = installed;
            for operation in &operations {
                let executed = execute(&mut device, operation);
                prop_assert!(executed.is_ok(), "{executed:?}");
                prop_assert!(staying.iter().all(|prefix| device.prefixes.contains_key(prefix)));
            }
            prop_assert_eq!(&device, &intended);
            prop_assert!(reconcile(&intended, &device).is_empty());
        }

        #[test]
        fn an_interrupted_run_can_be_taken_up(
            intended in tables(),
            newer in tables(),
            installed in tables(),
            after in 0_usize..20,
        ) {
            let mut device = installed.clone();
            for operation in reconcile(&intended, &installed).iter().take(after) {
                device.apply(operation);
            }
            for operation in reconcile(&newer, &device.clone()) {
                let executed = execute(&mut device, &operation);
                prop_assert!(executed.is_ok(), "{executed:?}");
            }
            prop_assert_eq!(device, newer);
        }

        #[test]
        fn equal_tables_need_nothing(tables in tables()) {
            prop_assert!(reconcile(&tables, &tables).is_empty());
        }
    }
}
