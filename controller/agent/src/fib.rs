//! From the RIB and the state of the links to what the kernel should have, and from there to the
//! operations that get it there without a black hole on the way. Knows nothing of clients.
//!
//! A next hop is used for a prefix only while the switch's own routing has it for that prefix. Where
//! it has some of a group, the prefix uses a subset of the group; where it has none, the prefix uses the
//! group's backup in the same way. Where it has none of those either, the prefix is left to the switch's
//! own routing: the table has no route, and the lookup goes on to the main one.
//! The order of operations is in [`order`]: a prefix has its old or its new next hops, no others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use self::order::Steps;
use self::pins::Slots;
use self::subset::Subsets;
use self::usable::{Usable, absent};
use crate::entry::Key;
use crate::forwarding::{Family, Installed, Link, Member, Observed, Operation, Own, Slot};
use crate::rib::Rib;

mod ids;
pub mod order;
mod pins;
mod subset;
mod usable;

pub use self::ids::Ids;
pub use self::usable::{Forwarded, Found, Unusable};

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
    slots: Slots,
    touched: BTreeSet<Key>,
    /// Seen under the agent's protocol number, and of no entry.
    strays: Vec<Operation>,
    /// Routes whose change was refused: they go.
    revoked: BTreeSet<(Slot, IpNet)>,
    /// Rules that were refused: not tried again before the next look.
    refused: BTreeSet<(Slot, Family)>,
    /// Something did not succeed since the last look: it is tried again then.
    has_failed: bool,
}

impl Fib {
    /// Nothing installed, no links. With pins if marks have room for them.
    #[must_use]
    pub fn new(ids: Ids, pins: bool) -> Self {
        Self {
            ids,
            links: Vec::new(),
            own: Own::default(),
            gateways: BTreeMap::new(),
            addresses: BTreeSet::new(),
            foreign: BTreeSet::new(),
            expected: Installed::default(),
            subsets: Subsets::new(ids),
            slots: Slots::new(pins),
            touched: BTreeSet::new(),
            strays: Vec::new(),
            revoked: BTreeSet::new(),
            refused: BTreeSet::new(),
            has_failed: false,
        }
    }

    /// Replaces what was believed by what was seen. Every entry, and every object of ours that has
    /// no entry any more, is compared again at the next [`settle`](Self::settle); nothing if all is as it was believed to be.
    pub fn observe(&mut self, observed: Observed, rib: &Rib) {
        if self.is_believed(&observed) {
            self.links = observed.links; // with their counters
            return;
        }
        self.has_failed = false;
        let addresses = observed.links.iter().flat_map(|link| &link.addresses);
        self.addresses = addresses.map(IpNet::addr).collect();
        self.links = observed.links;
        self.gateways = observed.own.gateways();
        self.own = observed.own;
        self.foreign = observed.foreign.into_iter().map(Family::of).collect();
        self.expected = observed.installed;
        self.touched.extend(rib.keys());
        self.strays.clear();
        self.refused.clear();
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
        for (slot, prefix) in self.expected.pin_routes.keys() {
            if self.slots.group(*slot).is_none() {
                let stray = Operation::DeleteRoute(*slot, *prefix);
                self.strays.push(stray);
            }
            self.touched.insert(Key::Prefix(*prefix));
        }
        for (slot, family) in &self.expected.pin_rules {
            if self.slots.group(*slot).is_none() {
                self.strays.push(Operation::DeleteRule(*slot, *family));
            }
        }
    }

    /// Whether what was seen is what was believed, and nothing is to be tried again.
    fn is_believed(&self, observed: &Observed) -> bool {
        let is_same = |(a, b): (&Link, &Link)| {
            let counters = (b.tx_octets, b.rx_octets);
            let (tx_octets, rx_octets) = counters;
            *b == Link {
                tx_octets,
                rx_octets,
                ..a.clone()
            }
        };
        let links = self.links.iter().zip(&observed.links);
        let foreign = observed.foreign.iter().copied().map(Family::of);
        !self.has_failed
            && self.expected == observed.installed
            && self.own == observed.own
            && self.links.len() == observed.links.len()
            && links.into_iter().all(is_same)
            && self.foreign == foreign.collect()
    }

    /// An entry has changed: compare it again.
    pub fn touch(&mut self, key: Key) {
        self.touched.insert(key);
    }

    /// The operation did not succeed: its object is taken as absent until the next look. Groups go
    /// on without a next hop that was refused. A prefix whose route or group was refused is left to
    /// the switch's own routing: what it had before may not be right any more.
    pub fn failed(&mut self, operation: &Operation, rib: &Rib) {
        self.has_failed = true;
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
                self.revoked
                    .extend(users.map(|(prefix, _)| (Slot::WEIGHTS, *prefix)));
                let pins = self.expected.pin_routes.iter();
                let pins = pins.filter(|(_, group)| *group == id);
                self.revoked.extend(pins.map(|(route, _)| *route));
            }
            Operation::PutRoute(slot, prefix, _) => drop(self.revoked.insert((*slot, *prefix))),
            Operation::DeleteGroup(id) => {
                self.expected.groups.remove(id);
            }
            Operation::DeleteRoute(slot, prefix) => {
                self.expected.set_route(*slot, *prefix, None);
            }
            Operation::PutRule(slot, family) => {
                self.expected.set_rule(*slot, *family, false);
                self.refused.insert((*slot, *family));
            }
            // Still there as far as anybody knows; the next look tells.
            Operation::DeleteRule(..) => {}
        }
    }

    /// The operations that bring what was touched, and what depends on it, to what the RIB, the
    /// links and the switch's own routing want.
    pub fn settle(&mut self, rib: &Rib) -> Vec<Operation> {
        let mut steps = Steps::default();
        let mut stale = Stale::default();
        let mut found = Found::default();
        // Keys are ordered: next hops, groups, prefixes; users come after what they use.
        while let Some(key) = self.touched.pop_first() {
            let changed = match key {
                Key::NextHop(index) => {
                    found = Found::default();
                    self.settle_next_hop(index, rib, &mut steps)
                }
                Key::Group(group) => {
                    found = Found::default();
                    stale.groups.insert(group);
                    self.settle_group(group, rib, &mut steps)
                }
                Key::Prefix(prefix) => {
                    stale.prefixes.insert(prefix);
                    let usable = found.usable(self, prefix, rib);
                    self.settle_route(Slot::WEIGHTS, prefix, usable.ok().as_ref(), &mut steps);
                    false
                }
                Key::Policy(policy) => {
                    stale.named.extend(rib.policy(policy).map(|it| it.group));
                    false
                }
            };
            // A next hop may mean another path now: whose prefixes have it is to be asked again.
            if changed || matches!(key, Key::NextHop(_)) {
                self.touched.extend(rib.users(key));
            }
        }
        self.settle_pins(&stale, rib, &mut steps);
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
            Key::Prefix(prefix) => Ok(self.forwards(prefix, &self.usable(prefix, rib)?)),
            Key::Policy(policy) => self.policy_state(policy, rib),
        }
    }

    /// Whether the kernel has a prefix with this part of a group.
    fn forwards(&self, prefix: IpNet, usable: &Usable) -> bool {
        let id = match usable.whole {
            true => self.ids.id(Key::Group(usable.group)),
            false => self.subsets.id(usable.group, &usable.members),
        };
        id.is_some()
            && self.expected.routes.get(&prefix) == id.as_ref()
            && id.and_then(|id| self.expected.groups.get(&id)) == Some(&usable.members)
    }

    /// What becomes of a prefix that is programmed. Prefixes that are asked for one after the other share what is found.
    #[must_use]
    pub fn forwarding(&self, prefix: IpNet, rib: &Rib, found: &mut Found) -> Forwarded {
        let usable = found.usable(self, prefix, rib);
        let usable = match usable {
            Ok(usable) => usable,
            Err(Unusable::Inactive(why) | Unusable::Refused(why)) => {
                return Forwarded::Bypassed(why);
            }
        };
        match self.forwards(prefix, &usable) {
            true => Forwarded::By {
                group: usable.group,
                partly: self.partly(prefix, rib, &usable),
            },
            false => Forwarded::Bypassed("the kernel does not have it".into()),
        }
    }

    /// Why the next hops of a prefix are usable in part only; `None`: all of them are.
    fn partly(&self, prefix: IpNet, rib: &Rib, usable: &Usable) -> Option<String> {
        let id = rib.prefix(prefix)?.group;
        let group = rib.group(id)?;
        if usable.group == id && usable.members.len() == group.members.len() {
            return None;
        }
        let why = group.members.iter().find_map(|(index, _)| {
            let why = self.obstacle(*index, prefix, rib)?;
            Some(format!("next hop {index}: {why}"))
        });
        let why = why.unwrap_or_else(|| "a next hop is not in the kernel".into());
        match usable.group == id {
            true => Some(why),
            false => Some(format!("backup next-hop group {}: {why}", usable.group)),
        }
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

    /// Brings a route to the part of a group that it may use; to nothing if there is none.
    fn settle_route(
        &mut self,
        slot: Slot,
        prefix: IpNet,
        usable: Option<&Usable>,
        steps: &mut Steps,
    ) {
        let route = (slot, prefix);
        let wanted = match usable {
            Some(usable) if usable.whole => {
                self.subsets.leave(route);
                self.ids.id(Key::Group(usable.group))
            }
            Some(usable) => {
                let members = usable.members.clone();
                let id = self.subsets.join(route, usable.group, members.clone());
                // Where no id is left, one may be free at the next look.
                self.has_failed |= id.is_none();
                id.inspect(|id| self.put_group(*id, members, steps))
            }
            None => None,
        };
        let before = self.expected.set_route(slot, prefix, wanted);
        match wanted {
            Some(id) if before != Some(id) => steps.routes.push((slot, prefix, id)),
            Some(_) => {}
            None => {
                self.subsets.leave(route);
                if before.is_some() {
                    let gone = Operation::DeleteRoute(slot, prefix);
                    steps.gone_routes.push(gone);
                }
            }
        }
    }

    fn settle_strays(&mut self, steps: &mut Steps) {
        for (slot, prefix) in std::mem::take(&mut self.revoked) {
            self.expected.set_route(slot, prefix, None);
            self.subsets.leave((slot, prefix));
            steps.gone_routes.push(Operation::DeleteRoute(slot, prefix));
        }
        for operation in self.strays.drain(..) {
            match &operation {
                Operation::DeleteRoute(slot, prefix)
                    if self.slots.group(*slot).is_none()
                        && self.expected.set_route(*slot, *prefix, None).is_some() =>
                {
                    steps.gone_routes.push(operation);
                }
                Operation::DeleteRule(slot, family)
                    if self.slots.group(*slot).is_none()
                        && self.expected.set_rule(*slot, *family, false) =>
                {
                    steps.gone_rules.push(operation);
                }
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

    /// A rule is there while there is a route behind it, and nobody else's.
    fn settle_rules(&mut self, steps: &mut Steps) {
        let ruled = self.expected.pin_rules.iter().map(|(slot, _)| *slot);
        let mut slots: BTreeSet<Slot> = ruled.chain(self.slots.given()).collect();
        slots.insert(Slot::WEIGHTS);
        for slot in slots {
            for family in [Family::V4, Family::V6] {
                let wanted = !self.foreign.contains(&family)
                    && !self.refused.contains(&(slot, family))
                    && self.expected.has_route(slot, family);
                if !self.expected.set_rule(slot, family, wanted) {
                    continue;
                }
                match wanted {
                    true => steps.new_rules.push(Operation::PutRule(slot, family)),
                    false => steps.gone_rules.push(Operation::DeleteRule(slot, family)),
                }
            }
        }
    }
}

/// What the tables of pins are to be compared with again.
#[derive(Default)]
struct Stale {
    /// Groups that are others than they were.
    groups: BTreeSet<u64>,
    /// Groups that policy forwarding entries name, perhaps for the first time.
    named: BTreeSet<u64>,
    prefixes: BTreeSet<IpNet>,
}
