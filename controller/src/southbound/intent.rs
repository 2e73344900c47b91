//! What a switch should have, and by which numbers.
//!
//! A plan says addresses; gRIBI says numbers that the client chooses. The numbers are a fact ([`Allocation`]), so that
//! the next leader finds its predecessor's objects under the names that it would choose itself. Pure. It refuses to
//! know streams, devices and why a weight is what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::fabric::topology::SwitchName;

pub use self::allocation::{Allocation, AllocationError};

mod allocation;

/// Where a switch sends a packet next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The address at the other end of the link. Within one switch it names the next hop.
    pub address: IpAddr,
    /// The interface of this switch towards it.
    pub interface: Arc<str>,
}

/// The next hops of a prefix, each with its weight of at least 1.
pub type Members = BTreeMap<NextHop, u32>;

/// Whether weft programs a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Nothing of weft's may be installed: what is there is removed.
    Off,
    /// Plans are made and compared with the switch's own routing; nothing is written.
    Shadow,
    /// The switch is programmed.
    On,
}

impl Mode {
    /// The word of the command line and of the operator's API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::On => "on",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What all switches should have, by address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Intent {
    /// Of the plan that it comes from.
    pub revision: u64,
    /// Per switch that weft programs.
    pub switches: BTreeMap<SwitchName, Routes>,
}

/// What one switch should have, by address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Routes {
    /// `host:port` of its gRIBI server.
    pub agent: Arc<str>,
    /// In the default network instance. A prefix without a member is left out: the switch's own routing decides.
    pub prefixes: BTreeMap<IpNet, Members>,
}

/// What one switch should have, by number: what [`reconcile`](super::reconcile::reconcile) compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchIntent {
    /// `host:port` of its gRIBI server.
    pub agent: Arc<str>,
    /// Its tables.
    pub tables: Arc<Tables>,
}

/// gRIBI tables of the default network instance: intended or installed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tables {
    /// By index.
    pub next_hops: BTreeMap<u64, NextHop>,
    /// By id: weight by index of the next hop.
    pub groups: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// The id of the group of each prefix.
    pub prefixes: BTreeMap<IpNet, u64>,
}

impl Tables {
    /// How many entries there are in all three.
    pub fn len(&self) -> usize {
        self.next_hops.len() + self.groups.len() + self.prefixes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Intent {
    /// The tables of every switch under the committed numbers. An error names what has no number yet: commit
    /// [`allocate`]'s answer first.
    pub fn resolve(
        &self,
        allocation: &Allocation,
    ) -> Result<BTreeMap<SwitchName, SwitchIntent>, Unallocated> {
        self.switches
            .iter()
            .map(|(switch, routes)| {
                let tables = Arc::new(routes.resolve(switch, allocation)?);
                let agent = routes.agent.clone();
                Ok((switch.clone(), SwitchIntent { agent, tables }))
            })
            .collect()
    }
}

impl Routes {
    fn resolve(&self, switch: &SwitchName, allocation: &Allocation) -> Result<Tables, Unallocated> {
        let mut tables = Tables::default();
        for (prefix, members) in self.intended() {
            let group = allocation
                .group(switch, prefix)
                .ok_or_else(|| Unallocated::group(switch, prefix))?;
            let mut weights = BTreeMap::new();
            for (next_hop, weight) in members {
                let index = allocation
                    .next_hop(switch, next_hop.address)
                    .ok_or_else(|| Unallocated::next_hop(switch, next_hop.address))?;
                tables.next_hops.insert(index, next_hop.clone());
                weights.insert(index, u64::from(*weight));
            }
            // Numbers of an older intent may still put two prefixes together that now differ.
            if tables
                .groups
                .insert(group, weights.clone())
                .is_some_and(|other| other != weights)
            {
                return Err(Unallocated::group(switch, prefix));
            }
            tables.prefixes.insert(*prefix, group);
        }
        Ok(tables)
    }

    /// Prefixes that have a member.
    fn intended(&self) -> impl Iterator<Item = (&IpNet, &Members)> {
        self.prefixes
            .iter()
            .filter(|(_, members)| !members.is_empty())
    }
}

/// Numbers for everything in the intent; None when the ones there are serve.
///
/// A next hop keeps its index, and a group of prefixes that stay together keeps its id though its weights change, so
/// that a change of weights is one operation. Prefixes of a switch with equal members share one group; where a group
/// falls apart, the larger part keeps the id. Indexes of next hops that are not intended at the moment are kept (a link
/// that comes back finds its own) up to a bound. The answer depends on nothing but the arguments.
pub fn allocate(intent: &Intent, old: &Allocation) -> Option<Allocation> {
    let mut new = Allocation::default();
    for (switch, routes) in &intent.switches {
        let next_hops = allocate_next_hops(routes, old.next_hops(switch));
        let groups = allocate_groups(routes, old.groups(switch));
        new.insert(switch.clone(), next_hops, groups);
    }
    (new != *old).then_some(new)
}

fn allocate_next_hops(routes: &Routes, old: &BTreeMap<IpAddr, u64>) -> BTreeMap<IpAddr, u64> {
    let wanted: BTreeSet<IpAddr> = routes
        .intended()
        .flat_map(|(_, members)| members.keys())
        .map(|next_hop| next_hop.address)
        .collect();
    let mut new = old.clone();
    if new
        .keys()
        .filter(|address| !wanted.contains(address))
        .count()
        > IDLE_NEXT_HOPS_MAX
    {
        new.retain(|address, _| wanted.contains(address));
    }
    let mut free = Free::beside(old.values());
    for address in wanted {
        new.entry(address).or_insert_with(|| free.take());
    }
    new
}

fn allocate_groups(routes: &Routes, old: &BTreeMap<IpNet, u64>) -> BTreeMap<IpNet, u64> {
    let mut classes: BTreeMap<&Members, Vec<IpNet>> = BTreeMap::new();
    for (prefix, members) in routes.intended() {
        classes.entry(members).or_default().push(*prefix);
    }
    let classes: Vec<Vec<IpNet>> = classes.into_values().collect();
    let ids = claim(&classes, old);

    let mut new = BTreeMap::new();
    let mut free = Free::beside(old.values());
    for (prefixes, id) in classes.into_iter().zip(ids) {
        let id = id.unwrap_or_else(|| free.take());
        new.extend(prefixes.into_iter().map(|prefix| (prefix, id)));
    }
    new
}

/// Which class goes on with which id: the one that has most of its prefixes there already, each id once.
fn claim(classes: &[Vec<IpNet>], old: &BTreeMap<IpNet, u64>) -> Vec<Option<u64>> {
    let mut votes: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for (class, prefixes) in classes.iter().enumerate() {
        for id in prefixes.iter().filter_map(|prefix| old.get(prefix)) {
            *votes.entry((class, *id)).or_default() += 1;
        }
    }
    let mut votes: Vec<_> = votes.into_iter().collect();
    // Of equally many the class with the lowest prefix goes first.
    votes.sort_by_key(|((class, id), count)| {
        (std::cmp::Reverse(*count), classes[*class].first(), *id)
    });
    let mut ids = vec![None; classes.len()];
    let mut taken = BTreeSet::new();
    for ((class, id), _) in votes {
        if ids[class].is_none() && taken.insert(id) {
            ids[class] = Some(id);
        }
    }
    ids
}

/// Numbers from 1 up that are not in use; 0 is never given.
struct Free {
    used: BTreeSet<u64>,
    next: u64,
}

impl Free {
    fn beside<'a>(used: impl Iterator<Item = &'a u64>) -> Self {
        Self {
            used: used.copied().collect(),
            next: 1,
        }
    }

    fn take(&mut self) -> u64 {
        while self.used.contains(&self.next) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

/// Something intended has no number in the allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unallocated {
    switch: SwitchName,
    what: String,
}

impl Unallocated {
    fn next_hop(switch: &SwitchName, address: IpAddr) -> Self {
        Self {
            switch: switch.clone(),
            what: format!("next hop {address}"),
        }
    }

    fn group(switch: &SwitchName, prefix: &IpNet) -> Self {
        Self {
            switch: switch.clone(),
            what: format!("group of {prefix}"),
        }
    }
}

impl fmt::Display for Unallocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no number for the {} of {}", self.what, self.switch)
    }
}

impl std::error::Error for Unallocated {}

/// Indexes kept for next hops that are not intended, per switch: the links that are down, and a bound for a fabric that
/// is declared anew every hour.
const IDLE_NEXT_HOPS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next_hop(last: u8) -> NextHop {
        NextHop {
            address: std::net::Ipv4Addr::new(192, 0, 2, last).into(),
            interface: format!("swp{last}").into(),
        }
    }

    fn prefix(last: u8) -> IpNet {
        IpNet::from(IpAddr::from([198, 51, 100, last]))
    }

    /// Prefix and its members, each by the last octet of the address.
    type Rows = Vec<(u8, Vec<(u8, u32)>)>;

    fn intent(rows: &Rows) -> Intent {
        let prefixes = rows
            .iter()
            .map(|(last, members)| {
                let members = members
                    .iter()
                    .map(|(hop, weight)| (next_hop(*hop), *weight));
                (prefix(*last), members.collect())
            })
            .collect();
        let routes = Routes {
            agent: "192.0.2.254:9340".into(),
            prefixes,
        };
        Intent {
            revision: 7,
            switches: [(leaf(), routes)].into(),
        }
    }

    fn leaf() -> SwitchName {
        "leaf1".into()
    }

    fn tables(intent: &Intent, allocation: &Allocation) -> Arc<Tables> {
        intent.resolve(allocation).unwrap()[&leaf()].tables.clone()
    }

    #[test]
    fn equal_members_share_one_group() {
        let even = vec![(1, 1), (2, 1)];
        let intent = intent(&vec![
            (1, even.clone()),
            (2, even.clone()),
            (3, vec![(1, 1)]),
        ]);
        let allocation = allocate(&intent, &Allocation::default()).unwrap();
        let tables = tables(&intent, &allocation);
        assert_eq!(tables.next_hops.len(), 2);
        assert_eq!(tables.groups.len(), 2);
        assert_eq!(tables.prefixes[&prefix(1)], tables.prefixes[&prefix(2)]);
        assert_eq!(allocate(&intent, &allocation), None);
    }

    #[test]
    fn a_group_keeps_its_id_when_its_weights_change() {
        let before = intent(&vec![(1, vec![(1, 1), (2, 1)]), (2, vec![(1, 1), (2, 1)])]);
        let allocation = allocate(&before, &Allocation::default()).unwrap();
        let after = intent(&vec![(1, vec![(1, 2), (2, 1)]), (2, vec![(1, 2), (2, 1)])]);
        assert_eq!(allocate(&after, &allocation), None);
        assert_eq!(
            tables(&before, &allocation).prefixes,
            tables(&after, &allocation).prefixes
        );
    }

    #[test]
    fn the_larger_part_of_a_group_keeps_the_id() {
        let even = vec![(1, 1), (2, 1)];
        let before = intent(&vec![
            (1, even.clone()),
            (2, even.clone()),
            (3, even.clone()),
        ]);
        let allocation = allocate(&before, &Allocation::default()).unwrap();
        let after = intent(&vec![(1, vec![(1, 1)]), (2, even.clone()), (3, even)]);
        let new = allocate(&after, &allocation).unwrap();
        assert_eq!(
            new.group(&leaf(), &prefix(2)),
            allocation.group(&leaf(), &prefix(2))
        );
        assert_eq!(
            new.group(&leaf(), &prefix(3)),
            allocation.group(&leaf(), &prefix(3))
        );
        assert_ne!(
            new.group(&leaf(), &prefix(1)),
            allocation.group(&leaf(), &prefix(1))
        );
        // Old numbers do not fit: two prefixes of one group differ.
        assert!(after.resolve(&allocation).is_err());
    }

    #[test]
    fn a_next_hop_that_comes_back_finds_its_index() {
        let both = intent(&vec![(1, vec![(1, 1), (2, 1)])]);
        let first = allocate(&both, &Allocation::default()).unwrap();
        let index = first.next_hop(&leaf(), next_hop(1).address);
        let without = intent(&vec![(1, vec![(2, 1), (3, 1)])]);
        let second = allocate(&without, &first).unwrap();
        assert_eq!(second.next_hop(&leaf(), next_hop(1).address), index);
        assert_ne!(second.next_hop(&leaf(), next_hop(3).address), index);
    }

    #[test]
    fn what_has_no_number_is_named() {
        let error = intent(&vec![(1, vec![(1, 1)])])
            .resolve(&Allocation::default())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "no number for the group of 198.51.100.1/32 of leaf1"
        );
    }

    #[test]
    fn an_allocation_of_another_version_is_refused() {
        assert_eq!(Allocation::decode(&[2]), Err(AllocationError::Version(2)));
        assert_eq!(Allocation::decode(&[]), Err(AllocationError::Truncated));
        assert_eq!(
            Allocation::decode(&[1, 0, 0, 0, 0, 9]),
            Err(AllocationError::Trailing(1))
        );
        assert_eq!(
            Allocation::decode(&[1, 0, 0, 0, 1, 200]),
            Err(AllocationError::Truncated)
        );
    }

    fn rows() -> impl Strategy<Value = Rows> {
        let members = prop::collection::btree_map(1_u8..6, 1_u32..3, 0..4)
            .prop_map(|members| members.into_iter().collect());
        prop::collection::btree_map(1_u8..10, members, 0..8)
            .prop_map(|rows| rows.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn any_history_of_intents_resolves_and_reads_back(history in prop::collection::vec(rows(), 1..6)) {
            let mut allocation = Allocation::default();
            for rows in &history {
                let intent = intent(rows);
                let index = |allocation: &Allocation, hop| allocation.next_hop(&leaf(), next_hop(hop).address);
                let before: Vec<_> = (1..6).map(|hop| index(&allocation, hop)).collect();
                if let Some(new) = allocate(&intent, &allocation) {
                    allocation = new;
                }
                for (old, hop) in before.into_iter().zip(1..6) {
                    prop_assert!(old.is_none() || old == index(&allocation, hop));
                }
                prop_assert_eq!(allocate(&intent, &allocation), None);
                let tables = tables(&intent, &allocation);
                prop_assert!(tables.groups.keys().all(|id| *id > 0));
                // Each prefix leads to exactly the members that are intended.
                for (last, members) in rows {
                    let Some(group) = tables.prefixes.get(&prefix(*last)) else {
                        prop_assert!(members.is_empty());
                        continue;
                    };
                    let got: Vec<(NextHop, u64)> = tables.groups[group]
                        .iter()
                        .map(|(index, weight)| (tables.next_hops[index].clone(), *weight))
                        .collect::<BTreeMap<_, _>>()
                        .into_iter()
                        .collect();
                    let wanted: Vec<(NextHop, u64)> =
                        members.iter().map(|(hop, weight)| (next_hop(*hop), u64::from(*weight))).collect();
                    prop_assert_eq!(got, wanted);
                }
                prop_assert_eq!(Allocation::decode(&allocation.encode()), Ok(allocation.clone()));
            }
        }

        #[test]
        fn no_octets_panic(octets in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut octets = octets;
            if let Some(first) = octets.first_mut() {
                *first = 1;
            }
            let _ = Allocation::decode(&octets);
        }
    }
}
