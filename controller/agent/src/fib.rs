//! From the RIB and the state of the links to what the kernel should have, and from there to the
//! operations that get it there without a black hole on the way. Knows nothing of clients.
//!
//! ```text
//! put next hops -> put groups -> put routes -> delete routes -> delete groups -> delete next hops
//! ```
//!
//! A group leaves the kernel, with its routes, when it has no usable next hop: the switch's own
//! routes, at a higher metric, take over.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::entry::{Key, NextHop};
use crate::forwarding::{Installed, Link, Member, Observed, Operation, Path, WEIGHT_MAX};
use crate::rib::Rib;

/// The part of the kernel's next-hop ids that is ours: the lower half for next hops, the upper half
/// for groups. The client's number is the offset, so that a dump says which entry an object is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    base: u32,
}

impl Ids {
    /// The range that begins at `base` and has 2^24 ids.
    ///
    /// # Errors
    ///
    /// When the range does not fit into 32 bits, or begins at zero.
    pub fn new(base: u32) -> Result<Self, String> {
        if base == 0 || base.checked_add(2 * HALF - 1).is_none() {
            return Err(format!("{base:#x} leaves no room for {:#x} ids", 2 * HALF));
        }
        Ok(Self { base })
    }

    /// The kernel's id of an entry; `None` for a prefix or a number that does not fit.
    #[must_use]
    pub fn id(self, key: Key) -> Option<u32> {
        let fits = |number: u64| u32::try_from(number).ok().filter(|number| *number < HALF);
        match key {
            Key::NextHop(index) => Some(self.base + fits(index)?),
            Key::Group(id) => Some(self.base + HALF + fits(id)?),
            Key::Prefix(_) => None,
        }
    }

    /// The entry of a kernel's id, if it is in the range.
    #[must_use]
    pub fn key(self, id: u32) -> Option<Key> {
        let offset = id.checked_sub(self.base)?;
        match offset {
            1..HALF => Some(Key::NextHop(u64::from(offset))),
            0 | HALF => None,
            _ if offset < 2 * HALF => Some(Key::Group(u64::from(offset - HALF))),
            _ => None,
        }
    }
}

/// Why an entry is in the RIB and not in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Nothing is wrong with it: a link is down or missing. It comes back by itself.
    Inactive(String),
    /// The kernel has no way to do it.
    Refused(String),
}

/// What the kernel has, as far as the agent knows, and what of it may be out of date.
#[derive(Debug)]
pub struct Fib {
    ids: Ids,
    links: Vec<Link>,
    /// As observed, and changed with each operation that was given out.
    expected: Installed,
    touched: BTreeSet<Key>,
}

impl Fib {
    /// Nothing installed, no links.
    #[must_use]
    pub fn new(ids: Ids) -> Self {
        let (links, expected, touched) = (Vec::new(), Installed::default(), BTreeSet::new());
        Self {
            ids,
            links,
            expected,
            touched,
        }
    }

    /// Replaces what was believed by what was seen. Every entry, and every object of ours that has
    /// no entry any more, is compared again at the next [`settle`](Self::settle).
    pub fn observe(&mut self, observed: Observed, rib: &Rib) {
        self.links = observed.links;
        self.expected = observed.installed;
        self.touched.extend(rib.keys());
        let objects = self
            .expected
            .next_hops
            .keys()
            .chain(self.expected.groups.keys());
        self.touched
            .extend(objects.filter_map(|id| self.ids.key(*id)));
        let prefixes = self.expected.routes.keys().copied();
        self.touched.extend(prefixes.map(Key::Prefix));
    }

    /// An entry has changed: compare it again.
    pub fn touch(&mut self, key: Key) {
        self.touched.insert(key);
    }

    /// The operation did not succeed: its object is taken as absent until the next look. Groups go
    /// on without a next hop that was refused.
    pub fn failed(&mut self, operation: &Operation, rib: &Rib) {
        match operation {
            Operation::PutNextHop(id, _) => {
                self.expected.next_hops.remove(id);
                let key = self.ids.key(*id);
                self.touched
                    .extend(key.into_iter().flat_map(|key| rib.users(key)));
            }
            Operation::DeleteNextHop(id) => {
                self.expected.next_hops.remove(id);
            }
            Operation::PutGroup(id, _) | Operation::DeleteGroup(id) => {
                self.expected.groups.remove(id);
            }
            Operation::PutRoute(prefix, _) | Operation::DeleteRoute(prefix) => {
                self.expected.routes.remove(prefix);
            }
        }
    }

    /// The operations that bring what was touched, and what depends on it, to what the RIB wants.
    pub fn settle(&mut self, rib: &Rib) -> Vec<Operation> {
        let mut puts = Vec::new();
        let mut deletes = Vec::new();
        // Keys are ordered: next hops, groups, prefixes; users come after what they use.
        while let Some(key) = self.touched.pop_first() {
            let before = self.has(key);
            match self.step(key, rib) {
                Some(Step::Put(operation)) => puts.push(operation),
                Some(Step::Delete(operation)) => deletes.push(operation),
                None => {}
            }
            if before != self.has(key) {
                self.touched.extend(rib.users(key));
            }
        }
        deletes.reverse();
        puts.extend(deletes);
        puts
    }

    /// Whether the kernel has what the RIB wants of this entry, or why it is not meant to.
    ///
    /// # Errors
    ///
    /// When the entry is not usable now; `Ok(false)` when it is, and the kernel does not have it.
    pub fn state(&self, key: Key, rib: &Rib) -> Result<bool, Unusable> {
        match key {
            Key::NextHop(index) => {
                let (id, path) = self.next_hop(index, rib)?;
                Ok(self.expected.next_hops.get(&id) == Some(&path))
            }
            Key::Group(id) => {
                let (id, members) = self.group(id, rib)?;
                Ok(self.expected.groups.get(&id) == Some(&members))
            }
            Key::Prefix(prefix) => {
                let group = self.route(prefix, rib)?;
                Ok(self.expected.routes.get(&prefix) == Some(&group))
            }
        }
    }

    fn has(&self, key: Key) -> bool {
        match key {
            Key::NextHop(_) => self
                .ids
                .id(key)
                .is_some_and(|id| self.expected.next_hops.contains_key(&id)),
            Key::Group(_) => self
                .ids
                .id(key)
                .is_some_and(|id| self.expected.groups.contains_key(&id)),
            Key::Prefix(prefix) => self.expected.routes.contains_key(&prefix),
        }
    }

    fn step(&mut self, key: Key, rib: &Rib) -> Option<Step> {
        match key {
            Key::NextHop(index) => {
                let installed = &mut self.expected.next_hops;
                match Self::wanted_next_hop(&self.links, self.ids, index, rib) {
                    Ok((id, path)) if installed.get(&id) != Some(&path) => {
                        installed.insert(id, path.clone());
                        Some(Step::Put(Operation::PutNextHop(id, path)))
                    }
                    Ok(_) => None,
                    Err(_) => {
                        let id = self.ids.id(key)?;
                        installed.remove(&id)?;
                        Some(Step::Delete(Operation::DeleteNextHop(id)))
                    }
                }
            }
            Key::Group(group) => match self.group(group, rib) {
                Ok((id, members)) if self.expected.groups.get(&id) != Some(&members) => {
                    self.expected.groups.insert(id, members.clone());
                    Some(Step::Put(Operation::PutGroup(id, members)))
                }
                Ok(_) => None,
                Err(_) => {
                    let id = self.ids.id(key)?;
                    self.expected.groups.remove(&id)?;
                    Some(Step::Delete(Operation::DeleteGroup(id)))
                }
            },
            Key::Prefix(prefix) => match self.route(prefix, rib) {
                Ok(group) if self.expected.routes.get(&prefix) != Some(&group) => {
                    self.expected.routes.insert(prefix, group);
                    Some(Step::Put(Operation::PutRoute(prefix, group)))
                }
                Ok(_) => None,
                Err(_) => {
                    self.expected.routes.remove(&prefix)?;
                    Some(Step::Delete(Operation::DeleteRoute(prefix)))
                }
            },
        }
    }

    fn next_hop(&self, index: u64, rib: &Rib) -> Result<(u32, Path), Unusable> {
        Self::wanted_next_hop(&self.links, self.ids, index, rib)
    }

    fn wanted_next_hop(
        links: &[Link],
        ids: Ids,
        index: u64,
        rib: &Rib,
    ) -> Result<(u32, Path), Unusable> {
        let key = Key::NextHop(index);
        let next_hop = rib.next_hop(index).ok_or_else(|| absent(key))?;
        let id = ids.id(key).ok_or_else(|| too_large(key))?;
        let link = resolve(links, next_hop)?;
        if !link.up {
            return Err(Unusable::Inactive(format!(
                "interface {} is down",
                link.name
            )));
        }
        Ok((
            id,
            Path {
                gateway: next_hop.address,
                interface: link.index,
            },
        ))
    }

    fn group(&self, group: u64, rib: &Rib) -> Result<(u32, Vec<Member>), Unusable> {
        let key = Key::Group(group);
        let entry = rib.group(group).ok_or_else(|| absent(key))?;
        let id = self.ids.id(key).ok_or_else(|| too_large(key))?;
        let mut members = Vec::with_capacity(entry.members.len());
        let mut why = None;
        for (index, weight) in &entry.members {
            let weight = u16::try_from(*weight)
                .ok()
                .filter(|weight| (1..=WEIGHT_MAX).contains(weight))
                .ok_or_else(|| bad_weight(*index, *weight))?;
            match self.next_hop(*index, rib) {
                Ok((next_hop, _)) if self.expected.next_hops.contains_key(&next_hop) => {
                    members.push(Member { next_hop, weight });
                }
                Ok(_) => {
                    why = Some(Unusable::Inactive(format!(
                        "the kernel refused next hop {index}"
                    )))
                }
                Err(unusable) => why = Some(unusable),
            }
        }
        match why {
            Some(Unusable::Inactive(why) | Unusable::Refused(why)) if members.is_empty() => {
                let why = format!("no next hop of the group is usable: {why}");
                Err(Unusable::Inactive(why))
            }
            Some(_) | None => Ok((id, members)),
        }
    }

    fn route(&self, prefix: IpNet, rib: &Rib) -> Result<u32, Unusable> {
        let entry = rib
            .prefix(prefix)
            .ok_or_else(|| absent(Key::Prefix(prefix)))?;
        match self.group(entry.group, rib) {
            Ok((id, _)) => Ok(id),
            Err(Unusable::Inactive(why) | Unusable::Refused(why)) => {
                let why = format!("next-hop group {} is not in the kernel: {why}", entry.group);
                Err(Unusable::Inactive(why))
            }
        }
    }
}

enum Step {
    Put(Operation),
    Delete(Operation),
}

/// The link of a next hop: the named one, or the one with the longest connected subnet that has
/// the address, those that are up first.
fn resolve<'a>(links: &'a [Link], next_hop: &NextHop) -> Result<&'a Link, Unusable> {
    if let Some(name) = &next_hop.interface {
        return links
            .iter()
            .find(|link| link.name == *name)
            .ok_or_else(|| Unusable::Inactive(format!("there is no interface {name}")));
    }
    let address = next_hop.address.ok_or_else(|| absent(Key::NextHop(0)))?;
    links
        .iter()
        .filter_map(|link| Some((link.up, connected(link, address)?, link)))
        .max_by_key(|(up, len, _)| (*up, *len))
        .map(|(_, _, link)| link)
        .ok_or_else(|| Unusable::Inactive(format!("{address} is on no connected subnet")))
}

/// The length of the longest subnet of the link that has the neighbour's address.
fn connected(link: &Link, neighbour: IpAddr) -> Option<u8> {
    let subnets = link.addresses.iter();
    let on_link =
        subnets.filter(|subnet| subnet.contains(&neighbour) && subnet.addr() != neighbour);
    on_link.map(IpNet::prefix_len).max()
}

fn absent(key: Key) -> Unusable {
    Unusable::Inactive(format!("there is no {key}"))
}

fn too_large(key: Key) -> Unusable {
    Unusable::Refused(format!(
        "the number of {key} is above {}, the last of the agent's id range",
        HALF - 1
    ))
}

fn bad_weight(index: u64, weight: u64) -> Unusable {
    Unusable::Refused(format!(
        "weight {weight} of next hop {index} is not in 1..={WEIGHT_MAX}"
    ))
}

/// Ids for next hops, and as many for groups: far above what a switch has, and a range that a
/// person recognises in `ip nexthop`. A number above it is refused.
const HALF: u32 = 0x0080_0000;
