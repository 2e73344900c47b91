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
use crate::entry::Key;
use crate::forwarding::{Family, Installed, Link, Member, Observed, Operation, Own};
use crate::rib::Rib;

mod ids;
pub mod order;
mod subset;
mod usable;

pub use self::ids::Ids;
pub use self::usable::Unusable;

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
}
