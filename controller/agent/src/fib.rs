//! From the RIB and the state of the links to what the kernel should have, and from there to the
//! operations that get it there without a black hole on the way. Knows nothing of clients.
//!
//! A next hop is used for a prefix only while the switch's own routing has it for that prefix. Where
//! it has some of a group, the prefix uses a subset of the group; where it has none, the prefix is
//! left to the switch's own routing: the table has no route, and the lookup goes on to the main one.
//! The order of operations is in [`order`]: a prefix has its old or its new next hops, no others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use self::order::Steps;
use self::subset::Subsets;
use crate::entry::{Key, NextHop};
use crate::forwarding::{
    Family, Installed, Link, Member, Observed, Operation, Own, Path, WEIGHT_MAX,
};
use crate::rib::Rib;

pub mod order;
mod subset;

/// The part of the kernel's next-hop ids that is ours: the lower half for next hops, then a quarter
/// for groups, and a quarter for subsets of groups. The client's number is the offset of the first
/// two, so that a dump says which entry an object is.
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
        let below = |number: u64, end| u32::try_from(number).ok().filter(|number| *number < end);
        match key {
            Key::NextHop(index) => Some(self.base + below(index, HALF)?),
            Key::Group(id) => Some(self.base + HALF + below(id, QUARTER)?),
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
            _ if offset < HALF + QUARTER => Some(Key::Group(u64::from(offset - HALF))),
            _ => None,
        }
    }

    /// The ids of subsets of groups.
    pub(crate) fn subsets(self) -> std::ops::Range<u32> {
        self.base + HALF + QUARTER..self.base + 2 * HALF
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
    own: Own,
    /// The gateways by which the switch's own routes of each family send packets to each interface.
    gateways: BTreeMap<(Family, u32), BTreeSet<IpAddr>>,
    /// The addresses of the switch itself.
    addresses: BTreeSet<IpAddr>,
    foreign: BTreeSet<Family>,
    /// As observed, and changed with each operation that was given out.
    expected: Installed,
    subsets: Subsets,
    touched: BTreeSet<Key>,
    /// Seen under the agent's protocol number, and of no entry.
    strays: Vec<Operation>,
    /// Prefixes whose change was refused: their routes go.
    revoked: BTreeSet<IpNet>,
}

impl Fib {
    /// Nothing installed, no links.
    #[must_use]
    pub fn new(ids: Ids) -> Self {
        Self {
            ids,
            links: Vec::new(),
            own: Own::default(),
            gateways: BTreeMap::new(),
            addresses: BTreeSet::new(),
            foreign: BTreeSet::new(),
            expected: Installed::default(),
            subsets: Subsets::new(ids),
            touched: BTreeSet::new(),
            strays: Vec::new(),
            revoked: BTreeSet::new(),
        }
    }

    /// Replaces what was believed by what was seen. Every entry, and every object of ours that has
    /// no entry any more, is compared again at the next [`settle`](Self::settle).
    pub fn observe(&mut self, observed: Observed, rib: &Rib) {
        let addresses = observed.links.iter().flat_map(|link| &link.addresses);
        self.addresses = addresses.map(IpNet::addr).collect();
        self.links = observed.links;
        self.gateways = observed.own.gateways();
        self.own = observed.own;
        self.foreign = observed.foreign.into_iter().map(Family::of).collect();
        self.expected = observed.installed;
        self.touched.extend(rib.keys());
        self.strays.clear();
        for id in self.expected.next_hops.keys() {
            match self.ids.key(*id) {
                Some(key @ Key::NextHop(_)) => drop(self.touched.insert(key)),
                _ => self.strays.push(Operation::DeleteNextHop(*id)),
            }
        }
        for id in self.expected.groups.keys() {
            match self.ids.key(*id) {
                Some(key @ Key::Group(_)) => drop(self.touched.insert(key)),
                _ if self.subsets.contains(*id) => {}
                _ => self.strays.push(Operation::DeleteGroup(*id)),
            }
        }
        let prefixes = self.expected.routes.keys().copied();
        self.touched.extend(prefixes.map(Key::Prefix));
    }

    /// An entry has changed: compare it again.
    pub fn touch(&mut self, key: Key) {
        self.touched.insert(key);
    }

    /// The operation did not succeed: its object is taken as absent until the next look. Groups go
    /// on without a next hop that was refused. A prefix whose route or group was refused is left to
    /// the switch's own routing: what it had before may not be right any more.
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
            Operation::PutGroup(id, _) => {
                self.expected.groups.remove(id);
                let users = self.expected.routes.iter();
                let users = users.filter(|(_, group)| *group == id);
                self.revoked.extend(users.map(|(prefix, _)| *prefix));
            }
            Operation::PutRoute(prefix, _) => drop(self.revoked.insert(*prefix)),
            Operation::DeleteGroup(id) => {
                self.expected.groups.remove(id);
            }
            Operation::DeleteRoute(prefix) => {
                self.expected.routes.remove(prefix);
            }
            Operation::PutRule(family) => {
                self.expected.rules.remove(family);
            }
            // Still there as far as anybody knows; the next look tells.
            Operation::DeleteRule(_) => {}
        }
    }

    /// The operations that bring what was touched, and what depends on it, to what the RIB, the
    /// links and the switch's own routing want.
    pub fn settle(&mut self, rib: &Rib) -> Vec<Operation> {
        let mut steps = Steps::default();
        // Keys are ordered: next hops, groups, prefixes; users come after what they use.
        while let Some(key) = self.touched.pop_first() {
            let changed = match key {
                Key::NextHop(index) => self.settle_next_hop(index, rib, &mut steps),
                Key::Group(group) => self.settle_group(group, rib, &mut steps),
                Key::Prefix(prefix) => {
                    self.settle_prefix(prefix, rib, &mut steps);
                    false
                }
            };
            // A next hop may mean another path now: whose prefixes have it is to be asked again.
            if changed || matches!(key, Key::NextHop(_)) {
                self.touched.extend(rib.users(key));
            }
        }
        for id in self.subsets.take_unused() {
            if self.expected.groups.remove(&id).is_some() {
                steps.gone_groups.push(Operation::DeleteGroup(id));
            }
        }
        self.settle_strays(&mut steps);
        self.settle_rules(&mut steps);
        steps.into_order()
    }

    /// What the switch's own routing has.
    #[must_use]
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// The links of the switch.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What is installed.
    #[must_use]
    pub fn installed(&self) -> &Installed {
        &self.expected
    }

    /// Whether somebody else has routes in the agent's table: its rule is away then.
    #[must_use]
    pub fn has_foreign(&self, family: Family) -> bool {
        self.foreign.contains(&family)
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
                let usable = self.usable(prefix, rib)?;
                let id = match usable.whole {
                    true => self.ids.id(Key::Group(usable.group)),
                    false => self.subsets.id(usable.group, &usable.members),
                };
                Ok(id.is_some()
                    && self.expected.routes.get(&prefix) == id.as_ref()
                    && id.and_then(|id| self.expected.groups.get(&id)) == Some(&usable.members))
            }
        }
    }

    /// Whether the entry's next hops are usable in part only: for a prefix, text that says why.
    #[must_use]
    pub fn partly(&self, prefix: IpNet, rib: &Rib) -> Option<String> {
        let group = rib.group(rib.prefix(prefix)?.group)?;
        let usable = self.usable(prefix, rib).ok()?;
        if usable.members.len() == group.members.len() {
            return None;
        }
        let why = group.members.iter().find_map(|(index, _)| {
            let why = self.obstacle(*index, prefix, rib)?;
            Some(format!("next hop {index}: {why}"))
        });
        Some(why.unwrap_or_else(|| "a next hop is not in the kernel".into()))
    }

    /// Why a next hop is not used for a prefix; `None` if it is.
    #[must_use]
    pub fn obstacle(&self, index: u64, prefix: IpNet, rib: &Rib) -> Option<String> {
        let (id, path) = match self.next_hop(index, rib) {
            Ok(found) => found,
            Err(Unusable::Inactive(why) | Unusable::Refused(why)) => return Some(why),
        };
        match self.own.route(prefix) {
            Err(why) => Some(why),
            Ok(Some(route)) if !route.uses(path.gateway, path.interface) => {
                Some("the switch's own routing does not use it".into())
            }
            Ok(_) if !self.expected.next_hops.contains_key(&id) => {
                Some("the kernel refused it".into())
            }
            Ok(_) => None,
        }
    }

    fn settle_next_hop(&mut self, index: u64, rib: &Rib, steps: &mut Steps) -> bool {
        match self.next_hop(index, rib) {
            Ok((id, path)) => {
                let before = self.expected.next_hops.insert(id, path.clone());
                match before {
                    Some(before) if before == path => return false,
                    Some(_) => steps
                        .changed_next_hops
                        .push(Operation::PutNextHop(id, path)),
                    None => steps.new_next_hops.push(Operation::PutNextHop(id, path)),
                }
                true
            }
            Err(_) => {
                let id = self.ids.id(Key::NextHop(index));
                let gone = id.filter(|id| self.expected.next_hops.remove(id).is_some());
                steps
                    .gone_next_hops
                    .extend(gone.map(Operation::DeleteNextHop));
                gone.is_some()
            }
        }
    }

    fn settle_group(&mut self, group: u64, rib: &Rib, steps: &mut Steps) -> bool {
        match self.group(group, rib) {
            Ok((id, members)) => {
                self.put_group(id, members, steps);
            }
            Err(_) => {
                let id = self.ids.id(Key::Group(group));
                let gone = id.filter(|id| self.expected.groups.remove(id).is_some());
                steps.gone_groups.extend(gone.map(Operation::DeleteGroup));
            }
        }
        // Which next hops the group has may be another now, with the same members in the kernel.
        true
    }

    fn put_group(&mut self, id: u32, members: Vec<Member>, steps: &mut Steps) {
        match self.expected.groups.insert(id, members.clone()) {
            Some(before) if before == members => {}
            Some(_) => steps
                .changed_groups
                .push((id, Operation::PutGroup(id, members))),
            None => steps.new_groups.push(Operation::PutGroup(id, members)),
        }
    }

    fn settle_prefix(&mut self, prefix: IpNet, rib: &Rib, steps: &mut Steps) {
        let wanted = match self.usable(prefix, rib) {
            Ok(usable) if usable.whole => {
                self.subsets.leave(prefix);
                self.ids.id(Key::Group(usable.group))
            }
            Ok(usable) => {
                let members = usable.members.clone();
                let id = self.subsets.join(prefix, usable.group, usable.members);
                id.inspect(|id| self.put_group(*id, members, steps))
            }
            Err(_) => None,
        };
        match wanted {
            Some(id) => {
                if self.expected.routes.insert(prefix, id) != Some(id) {
                    steps.routes.push((prefix, id));
                }
            }
            None => {
                self.subsets.leave(prefix);
                if self.expected.routes.remove(&prefix).is_some() {
                    steps.gone_routes.push(Operation::DeleteRoute(prefix));
                }
            }
        }
    }

    fn settle_strays(&mut self, steps: &mut Steps) {
        for prefix in std::mem::take(&mut self.revoked) {
            self.expected.routes.remove(&prefix);
            self.subsets.leave(prefix);
            steps.gone_routes.push(Operation::DeleteRoute(prefix));
        }
        for operation in self.strays.drain(..) {
            match &operation {
                Operation::DeleteGroup(id) if self.expected.groups.remove(id).is_some() => {
                    steps.gone_groups.push(operation);
                }
                Operation::DeleteNextHop(id) if self.expected.next_hops.remove(id).is_some() => {
                    steps.gone_next_hops.push(operation);
                }
                _ => {}
            }
        }
    }

    /// The rule is there while there is a route behind it, and nobody else's.
    fn settle_rules(&mut self, steps: &mut Steps) {
        for family in [Family::V4, Family::V6] {
            let routes = self.expected.routes.keys();
            let wanted = !self.foreign.contains(&family)
                && routes.copied().any(|prefix| Family::of(prefix) == family);
            if wanted && self.expected.rules.insert(family) {
                steps.new_rules.push(Operation::PutRule(family));
            }
            if !wanted && self.expected.rules.remove(&family) {
                steps.gone_rules.push(Operation::DeleteRule(family));
            }
        }
    }

    fn next_hop(&self, index: u64, rib: &Rib) -> Result<(u32, Path), Unusable> {
        let key = Key::NextHop(index);
        let next_hop = rib.next_hop(index).ok_or_else(|| absent(key))?;
        let id = self.ids.id(key).ok_or_else(|| too_large(key))?;
        let link = resolve(&self.links, next_hop)?;
        if !link.up {
            return Err(Unusable::Inactive(format!(
                "interface {} is down",
                link.name
            )));
        }
        Ok((
            id,
            Path {
                gateway: self.gateway(next_hop, link.index),
                interface: link.index,
            },
        ))
    }

    /// The address of a next hop on its link. Where the switch's own routing does not use the declared
    /// one, and knows one neighbour only behind the named interface, by an IPv6 link-local address (BGP
    /// unnumbered), it is that one: packets go where the switch itself sends them.
    fn gateway(&self, next_hop: &NextHop, interface: u32) -> Option<IpAddr> {
        let declared = next_hop.address?;
        if next_hop.interface.is_none() {
            return Some(declared);
        }
        let key = (Family::of(declared.into()), interface);
        let mut used = self.gateways.get(&key).into_iter().flatten();
        match (used.next(), used.next()) {
            (Some(IpAddr::V6(only)), None) if only.is_unicast_link_local() => Some((*only).into()),
            _ => Some(declared),
        }
    }

    fn group(&self, group: u64, rib: &Rib) -> Result<(u32, Vec<Member>), Unusable> {
        let key = Key::Group(group);
        let entry = rib.group(group).ok_or_else(|| absent(key))?;
        let id = self.ids.id(key).ok_or_else(|| too_large(key))?;
        let mut members = Vec::with_capacity(entry.members.len());
        let mut why = None;
        for (index, weight) in &entry.members {
            let weight = usable_weight(*index, *weight)?;
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

    /// Which next hops of its group the switch's own routing has for a prefix too.
    fn usable(&self, prefix: IpNet, rib: &Rib) -> Result<Usable, Unusable> {
        let entry = rib
            .prefix(prefix)
            .ok_or_else(|| absent(Key::Prefix(prefix)))?;
        let group = entry.group;
        if prefix.prefix_len() == prefix.max_prefix_len() && self.addresses.contains(&prefix.addr())
        {
            let why = format!("{} is an address of this switch itself", prefix.addr());
            return Err(Unusable::Inactive(why));
        }
        let (_, mut usable) = self.group(group, rib).map_err(|unusable| {
            let (Unusable::Inactive(why) | Unusable::Refused(why)) = unusable;
            Unusable::Inactive(format!(
                "next-hop group {group} is not in the kernel: {why}"
            ))
        })?;
        let members = rib.group(group).ok_or_else(|| absent(Key::Group(group)))?;
        let members = members.members.iter().map(|(index, _)| *index);
        let own = self.own.route(prefix).map_err(Unusable::Inactive)?;
        // A next hop whose link is down stays: the link says so by itself, for all prefixes.
        let allowed = |index: u64| match (own, self.next_hop(index, rib)) {
            (Some(own), Ok((_, path))) => own.uses(path.gateway, path.interface),
            (None, _) | (_, Err(_)) => true,
        };
        let denied: BTreeSet<u64> = members.filter(|index| !allowed(*index)).collect();
        let whole = denied.is_empty();
        usable.retain(|member| match self.ids.key(member.next_hop) {
            Some(Key::NextHop(index)) => !denied.contains(&index),
            _ => false,
        });
        if usable.is_empty() {
            return Err(Unusable::Inactive(format!(
                "the switch's own routing uses none of the next hops of group {group}"
            )));
        }
        Ok(Usable {
            group,
            whole,
            members: usable,
        })
    }
}

/// The part of a group that a prefix may use.
struct Usable {
    group: u64,
    /// Nothing of the group is left out but for links that are down.
    whole: bool,
    members: Vec<Member>,
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
        match key {
            Key::NextHop(_) => HALF - 1,
            Key::Group(_) | Key::Prefix(_) => QUARTER - 1,
        }
    ))
}

fn usable_weight(index: u64, weight: u64) -> Result<u16, Unusable> {
    let fits = u16::try_from(weight).ok();
    fits.filter(|weight| (1..=WEIGHT_MAX).contains(weight))
        .ok_or_else(|| {
            Unusable::Refused(format!(
                "weight {weight} of next hop {index} is not in 1..={WEIGHT_MAX}"
            ))
        })
}

/// Ids for next hops, and as many for groups and their subsets together: far above what a switch
/// has, and a range that a person recognises in `ip nexthop`. A number above it is refused.
const HALF: u32 = 0x0080_0000;
const QUARTER: u32 = HALF / 2;
