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

/// What all switches should have, by address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Intent {
    /// Of the plan that it comes from.
    pub revision: u64,
    /// Per switch that weft programs.
    pub switches: BTreeMap<SwitchName, Routes>,
}

/// What one switch should have, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
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
