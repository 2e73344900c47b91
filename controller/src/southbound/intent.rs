//! What a switch should have, and what it has.
//!
//! A plan says addresses; gRIBI says numbers that the client chooses. The numbers are chosen at the switch's stream, by
//! what is installed there: see [`reconcile`](super::reconcile::reconcile). Pure. It refuses to know streams, devices
//! and why a weight is what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayString;
use ipnet::IpNet;

/// Where a switch sends a packet next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// The address at the other end of the link; None: the switch's own neighbour behind the interface.
    pub address: Option<IpAddr>,
    /// The interface of this switch towards it.
    pub interface: Arc<str>,
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str(&self.interface),
        }
    }
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

/// What one switch should have. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchIntent {
    /// `host:port` of its gRIBI server; no two switches have the same.
    pub agent: Arc<str>,
    /// Whether that server speaks TLS.
    pub tls: bool,
    /// Whether it is programmed.
    pub mode: Mode,
    /// What it should have when it is.
    pub routes: Arc<Routes>,
    /// And the flows that go their own way.
    pub flows: Arc<Flows>,
    /// On, and to be watched only for now: nobody knows yet whether it looks at its own routing.
    pub hold: bool,
}

/// The name of an interface of a weft-agent's switch: Linux takes 15 octets.
pub type InterfaceName = ArrayString<15>;

/// The name of an interface, if Linux takes it and nftables reads it as it is.
pub fn interface_name(name: &str) -> Option<InterfaceName> {
    let odd = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\' | '*' | '/');
    match name.is_empty() || name.contains(odd) {
        true => None,
        false => InterfaceName::from(name).ok(),
    }
}

/// Where packets inside a VXLAN come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// From anywhere.
    Any,
    /// From an address.
    Address(IpAddr),
    /// From an interface of the switch, whatever their address.
    Interface(InterfaceName),
}

impl fmt::Display for Source {
    /// Behind what it is the source of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::Address(address) => write!(f, " from {address}"),
            Self::Interface(name) => write!(f, " from {name}"),
        }
    }
}

/// Packets inside a VXLAN that go their own way. Of several that a packet is of, the one counts that says most of it: with a UDP
/// source port before those without, with a source address before those without, with an interface last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The VNI.
    pub vni: u32,
    /// Where they come from.
    pub source: Source,
    /// Their destination; None: whatever it is, of packets that come from an interface.
    pub destination: Option<IpAddr>,
    /// The UDP source port that they have, before what has none; None: all that no other flow is about.
    pub udp_source_port: Option<u16>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (vni, source) = (self.vni, self.source);
        match self.destination {
            Some(destination) => write!(f, "flow{source} to {destination} in VNI {vni}")?,
            None => write!(f, "flow{source} in VNI {vni}")?,
        }
        match self.udp_source_port {
            Some(port) => write!(f, " from UDP port {port}"),
            None => Ok(()),
        }
    }
}

impl Flow {
    /// All that goes to an address, wherever it comes from.
    pub fn to(vni: u32, destination: IpAddr) -> Self {
        Self {
            vni,
            source: Source::Any,
            destination: Some(destination),
            udp_source_port: None,
        }
    }

    /// Whether a switch that has it said to what it goes.
    pub(super) fn is_known(&self) -> bool {
        self.destination.is_none_or(|it| !it.is_unspecified())
    }

    /// Whether a packet may be of both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        fn alike<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.is_none() || other.is_none() || one == other
        }
        let sources = match (self.source, other.source) {
            (Source::Address(one), Source::Address(other)) => one == other,
            (Source::Interface(one), Source::Interface(other)) => one == other,
            (_, _) => true,
        };
        self.vni == other.vni
            && sources
            && alike(self.destination, other.destination)
            && alike(self.udp_source_port, other.udp_source_port)
    }

    /// How much it says of packets: of several that a packet is of, the one with the greatest counts.
    pub(super) fn precision(&self) -> u8 {
        let has_port = self.udp_source_port.is_some();
        match (self.source, has_port, self.destination.is_some()) {
            (Source::Address(_), true, _) => 6,
            (Source::Any, true, _) => 5,
            (Source::Address(_), false, _) => 4,
            (Source::Any, false, _) => 3,
            (Source::Interface(_), true, _) => 2,
            (Source::Interface(_), false, true) => 1,
            (Source::Interface(_), false, false) => 0,
        }
    }

    /// The flow of the same VNI, source and destination that has any UDP source port.
    pub fn whole(self) -> Self {
        Self {
            udp_source_port: None,
            ..self
        }
    }
}

/// What has next hops: a prefix of the default network instance, or a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A prefix.
    Prefix(IpNet),
    /// A flow.
    Flow(Flow),
}

/// Prefixes and flows that a switch should have and that are not in its forwarding plane as they should be, each with why, in words.
pub type Withheld = BTreeMap<Target, Arc<str>>;

/// Pinned flows with their next hops. One without a member counts as absent: the routes of the prefixes decide.
pub type Flows = BTreeMap<Flow, Arc<Members>>;

/// Routes of the default network instance, by address.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Routes {
    /// The next hops of each prefix; prefixes with equal ones may share them. A prefix without a member counts as
    /// absent: the switch's own routing decides.
    pub prefixes: BTreeMap<IpNet, Arc<Members>>,
    /// What a prefix goes by while none of its own next hops is usable; one that is not here goes by the switch's own routing then.
    pub backups: BTreeMap<IpNet, Arc<Members>>,
}

/// The next hops of a target, and those that it goes by while none of them is usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hops<'a> {
    pub(super) members: &'a Arc<Members>,
    /// Never without a member.
    pub(super) backup: Option<&'a Arc<Members>>,
}

impl<'a> Hops<'a> {
    /// Those of a flow: it falls back to the prefix.
    pub(super) fn of_flow(members: &'a Arc<Members>) -> Self {
        Self {
            members,
            backup: None,
        }
    }

    /// By value.
    pub(super) fn content(self) -> Content<'a> {
        Content {
            members: self.members,
            backup: self.backup.map(|it| &**it),
        }
    }
}

/// What is in a next-hop group and in its backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content<'a> {
    pub(super) members: &'a Members,
    pub(super) backup: Option<&'a Members>,
}

impl<'a> Content<'a> {
    /// That of a group without a backup.
    pub(super) fn alone(members: &'a Members) -> Self {
        Self {
            members,
            backup: None,
        }
    }
}

impl Routes {
    /// The prefixes alone.
    pub fn without_backups(&self) -> Self {
        Self {
            prefixes: self.prefixes.clone(),
            backups: BTreeMap::new(),
        }
    }

    /// The next hops of a prefix.
    pub(super) fn hops<'a>(&'a self, prefix: &IpNet, members: &'a Arc<Members>) -> Hops<'a> {
        let backup = self.backups.get(prefix);
        Hops {
            members,
            backup: backup.filter(|backup| !backup.is_empty()),
        }
    }

    /// The prefixes and these flows, each with its next hops.
    #[cfg(test)]
    pub(super) fn targets<'a>(
        &'a self,
        flows: &'a Flows,
    ) -> impl Iterator<Item = (Target, Hops<'a>)> {
        let prefixes = self.prefixes.iter().map(|(prefix, members)| {
            let target = Target::Prefix(*prefix);
            (target, self.hops(prefix, members))
        });
        let flows = flows.iter();
        prefixes.chain(flows.map(|(flow, members)| (Target::Flow(*flow), Hops::of_flow(members))))
    }
}

/// Targets with equal next hops and equal backups, which share a next-hop group, in a fixed order, and the backups, which are groups
/// too. Targets without a next hop are left out.
pub(super) fn classes<'a>(
    targets: impl Iterator<Item = (Target, Hops<'a>)>,
) -> BTreeMap<Content<'a>, Vec<Target>> {
    // Most targets share their next hops with many: each such set is compared once.
    let mut shared: BTreeMap<[Option<*const Members>; 2], (Content<'_>, Vec<Target>)> =
        BTreeMap::new();
    for (target, hops) in targets.filter(|(_, it)| !it.members.is_empty()) {
        let at = [Some(hops.members), hops.backup].map(|it| it.map(Arc::as_ptr));
        let new = || (hops.content(), Vec::new());
        shared.entry(at).or_insert_with(new).1.push(target);
    }
    let mut classes: BTreeMap<Content<'_>, Vec<Target>> = BTreeMap::new();
    for (content, targets) in shared.into_values() {
        classes.entry(content).or_default().extend(targets);
        if let Some(backup) = content.backup {
            classes.entry(Content::alone(backup)).or_default();
        }
    }
    // The order does not depend on addresses in memory.
    classes
        .values_mut()
        .for_each(|targets| targets.sort_unstable());
    classes
}

/// A next-hop group.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Group {
    /// Weight by index of the next hop.
    pub next_hops: BTreeMap<u64, u64>,
    /// The id of the group that is used while none of the next hops is usable; that one has no backup.
    pub backup: Option<u64>,
}

/// gRIBI tables: of the default network instance, and policy forwarding entries of those of VNIs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Tables {
    /// By index.
    pub next_hops: BTreeMap<u64, NextHop>,
    /// By id.
    pub groups: BTreeMap<u64, Group>,
    /// The id of the group of each prefix.
    pub prefixes: BTreeMap<IpNet, u64>,
    /// Policy forwarding entries: the flow, of the VNI of the key, and the id of its group.
    pub policies: BTreeMap<PolicyKey, (Flow, u64)>,
}

impl Group {
    /// What it refers to: its next hops and its backup.
    pub(super) fn references(&self) -> impl Iterator<Item = Key> {
        let next_hops = self.next_hops.keys().copied().map(Key::NextHop);
        next_hops.chain(self.backup.map(Key::Group))
    }
}

impl From<BTreeMap<u64, u64>> for Group {
    /// Without a backup.
    fn from(next_hops: BTreeMap<u64, u64>) -> Self {
        Self {
            next_hops,
            backup: None,
        }
    }
}

impl Tables {
    /// How many entries there are in all of them.
    pub fn len(&self) -> usize {
        self.next_hops.len() + self.groups.len() + self.prefixes.len() + self.policies.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry of a key.
    pub fn entry(&self, key: Key) -> Option<Entry> {
        Some(match key {
            Key::NextHop(index) => Entry::NextHop(index, self.next_hops.get(&index)?.clone()),
            Key::Group(id) => Entry::Group(id, self.groups.get(&id)?.clone()),
            Key::Prefix(prefix) => Entry::Prefix(prefix, *self.prefixes.get(&prefix)?),
            Key::Policy(key) => {
                let (flow, group) = self.policies.get(&key)?;
                Entry::Policy(key.index, *flow, *group)
            }
        })
    }

    /// The keys of all entries: next hops, groups, prefixes, policy forwarding entries.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let next_hops = self.next_hops.keys().map(|index| Key::NextHop(*index));
        let groups = self.groups.keys().map(|id| Key::Group(*id));
        let prefixes = self.prefixes.keys().map(|prefix| Key::Prefix(*prefix));
        let policies = self.policies.keys().copied().map(Key::Policy);
        next_hops.chain(groups).chain(prefixes).chain(policies)
    }

    /// What has a group: a prefix, or the flow of a policy forwarding entry.
    pub(super) fn target(&self, key: Key) -> Option<Target> {
        match key {
            Key::NextHop(_) | Key::Group(_) => None,
            Key::Prefix(prefix) => Some(Target::Prefix(prefix)),
            Key::Policy(key) => self.policies.get(&key).map(|(flow, _)| Target::Flow(*flow)),
        }
    }

    /// The group of a prefix or a flow.
    pub(super) fn group_of(&self, key: Key) -> Option<u64> {
        match key {
            Key::NextHop(_) | Key::Group(_) => None,
            Key::Prefix(prefix) => self.prefixes.get(&prefix).copied(),
            Key::Policy(key) => self.policies.get(&key).map(|(_, group)| *group),
        }
    }

    /// What an entry refers to: next hops of a group and its backup, the group of a prefix or a flow.
    pub fn references(&self, key: Key) -> BTreeSet<Key> {
        match key {
            Key::NextHop(_) => BTreeSet::new(),
            Key::Group(id) => {
                let group = self.groups.get(&id);
                group.into_iter().flat_map(Group::references).collect()
            }
            Key::Prefix(_) | Key::Policy(_) => {
                self.group_of(key).map(Key::Group).into_iter().collect()
            }
        }
    }

    /// Whether there is an entry of a key.
    pub fn contains(&self, key: Key) -> bool {
        match key {
            Key::NextHop(index) => self.next_hops.contains_key(&index),
            Key::Group(id) => self.groups.contains_key(&id),
            Key::Prefix(prefix) => self.prefixes.contains_key(&prefix),
            Key::Policy(key) => self.policies.contains_key(&key),
        }
    }

    /// Adds an entry, or replaces the one of the same key.
    pub fn put(&mut self, entry: Entry) {
        match entry {
            Entry::NextHop(index, next_hop) => drop(self.next_hops.insert(index, next_hop)),
            Entry::Group(id, group) => drop(self.groups.insert(id, group)),
            Entry::Prefix(prefix, group) => drop(self.prefixes.insert(prefix, group)),
            Entry::Policy(index, flow, group) => {
                let key = PolicyKey::of(index, &flow);
                self.policies.insert(key, (flow, group));
            }
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, key: Key) {
        match key {
            Key::NextHop(index) => drop(self.next_hops.remove(&index)),
            Key::Group(id) => drop(self.groups.remove(&id)),
            Key::Prefix(prefix) => drop(self.prefixes.remove(&prefix)),
            Key::Policy(key) => drop(self.policies.remove(&key)),
        }
    }

    /// How many entries are in one of two tables alone, or differ.
    pub fn differences(&self, other: &Self) -> usize {
        differences(&self.next_hops, &other.next_hops)
            + differences(&self.groups, &other.groups)
            + differences(&self.prefixes, &other.prefixes)
            + differences(&self.policies, &other.policies)
    }
}

fn differences<K: Ord, V: PartialEq>(one: &BTreeMap<K, V>, other: &BTreeMap<K, V>) -> usize {
    let differing = one
        .iter()
        .filter(|(key, value)| other.get(key) != Some(value));
    let missing = other.keys().filter(|key| !one.contains_key(key));
    differing.count() + missing.count()
}

/// What names an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// By its index.
    NextHop(u64),
    /// By its id.
    Group(u64),
    /// By itself.
    Prefix(IpNet),
    /// By VNI and index.
    Policy(PolicyKey),
}

/// What names a policy forwarding entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyKey {
    /// The VNI of its network instance.
    pub vni: u32,
    /// The source of its network instance.
    pub source: Source,
    /// The index there.
    pub index: u64,
}

impl PolicyKey {
    /// The key of an entry of a flow.
    pub(super) fn of(index: u64, flow: &Flow) -> Self {
        Self {
            vni: flow.vni,
            source: flow.source,
            index,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextHop(index) => write!(f, "next hop {index}"),
            Self::Group(id) => write!(f, "next-hop group {id}"),
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Policy(PolicyKey { vni, source, index }) => {
                write!(f, "policy forwarding entry {index} of VNI {vni}{source}")
            }
        }
    }
}

/// An entry of one of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Index and value.
    NextHop(u64, NextHop),
    /// Id and value.
    Group(u64, Group),
    /// Prefix and id of its group.
    Prefix(IpNet, u64),
    /// Index, flow and id of its group.
    Policy(u64, Flow, u64),
}

impl Entry {
    /// The key.
    pub fn key(&self) -> Key {
        match self {
            Self::NextHop(index, _) => Key::NextHop(*index),
            Self::Group(id, _) => Key::Group(*id),
            Self::Prefix(prefix, _) => Key::Prefix(*prefix),
            Self::Policy(index, flow, _) => Key::Policy(PolicyKey::of(*index, flow)),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextHop(index, next_hop) => write!(f, "next hop {index} ({next_hop})"),
            Self::Group(id, group) => {
                write!(f, "next-hop group {id} of {}", group.next_hops.len())?;
                match group.backup {
                    Some(backup) => write!(f, " with backup {backup}"),
                    None => Ok(()),
                }
            }
            Self::Prefix(prefix, group) => write!(f, "{prefix} by group {group}"),
            Self::Policy(_, flow, group) => write!(f, "{flow} by group {group}"),
        }
    }
}

/// What a switch has: what it accepted, and which of that its forwarding plane does not have.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Installed {
    /// What the switch accepted.
    pub tables: Tables,
    /// Entries that the forwarding plane does not have as accepted, each with what it may refer to there instead: next hops
    /// and backups of a group, groups of a prefix or a flow. An entry that is to go and may still be forwarded by is here
    /// and not in the tables.
    pub held: BTreeMap<Key, BTreeSet<Key>>,
    /// The flows of policy forwarding entries that are to go and may still be forwarded by, as far as they are known: a flow that is
    /// wanted again gets its entry back, and is never between two.
    pub going: BTreeMap<PolicyKey, Flow>,
}

impl Installed {
    /// What another look at the switch says, with what is still known of the entries that are held: a look shows what was
    /// accepted, and so none that is to go.
    pub fn seen(mut self, before: &Self) -> Self {
        for (key, references) in &before.held {
            let goes = !before.tables.contains(*key) && !self.tables.contains(*key);
            match self.held.get_mut(key) {
                Some(held) => held.clone_from(references),
                None if goes => drop(self.held.insert(*key, references.clone())),
                None => {}
            }
        }
        let goes = |key: &PolicyKey| !self.tables.policies.contains_key(key);
        let going = before.going.iter().filter(|(key, _)| goes(key));
        self.going = going.map(|(key, flow)| (*key, *flow)).collect();
        self
    }

    /// What has a group, as accepted or as forwarded by.
    pub(super) fn target(&self, key: Key) -> Option<Target> {
        let going = || match key {
            Key::Policy(key) => self.going.get(&key).copied().map(Target::Flow),
            Key::NextHop(_) | Key::Group(_) | Key::Prefix(_) => None,
        };
        self.tables.target(key).or_else(going)
    }

    /// Whether the switch has nothing.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.held.is_empty()
    }

    /// Keys of next hops and groups that the switch accepted or may forward by.
    pub(super) fn numbered(&self) -> impl Iterator<Item = Key> {
        let next_hops = self.tables.next_hops.keys();
        let groups = self.tables.groups.keys();
        let accepted = next_hops.map(|index| Key::NextHop(*index));
        let accepted = accepted.chain(groups.map(|id| Key::Group(*id)));
        accepted.chain(
            self.going()
                .filter(|key| matches!(key, Key::NextHop(_) | Key::Group(_))),
        )
    }

    /// Keys of what is to go and may still be forwarded by.
    pub(super) fn going(&self) -> impl Iterator<Item = Key> {
        let held = self.held.keys().copied();
        held.filter(|key| !self.tables.contains(*key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_hop(last: u8) -> NextHop {
        NextHop {
            address: Some(IpAddr::from([192, 0, 2, last])),
            interface: format!("swp{last}").into(),
        }
    }

    #[test]
    fn equal_members_are_one_class_and_none_is_no_class() {
        let prefix = |last: u8| IpNet::from(IpAddr::from([198, 51, 100, last]));
        let even = Members::from([(next_hop(1), 1), (next_hop(2), 1)]);
        let routes = Routes {
            prefixes: BTreeMap::from([
                (prefix(1), Arc::new(even.clone())),
                (prefix(2), Arc::new(even.clone())),
                (prefix(3), Arc::default()),
                (prefix(4), Arc::new(Members::from([(next_hop(1), 2)]))),
            ]),
            ..Routes::default()
        };
        let flow = Flow::to(100, IpAddr::from([203, 0, 113, 1]));
        let flows = Flows::from([(flow, Arc::new(even.clone()))]);
        let classes = classes(routes.targets(&flows));
        assert_eq!(classes.len(), 2);
        assert_eq!(
            classes[&Content::alone(&even)],
            [
                Target::Prefix(prefix(1)),
                Target::Prefix(prefix(2)),
                Target::Flow(flow)
            ]
        );
    }

    #[test]
    fn next_hops_without_an_address_are_told_apart_by_their_interfaces() {
        let by = |interface: &str| NextHop {
            address: None,
            interface: interface.into(),
        };
        assert_eq!(by("swp1"), by("swp1"));
        assert_ne!(by("swp1"), by("swp2"));
        assert_ne!(by("swp1"), next_hop(1));
        assert_eq!(
            Entry::NextHop(3, by("swp1")).to_string(),
            "next hop 3 (swp1)"
        );
        assert_eq!(
            Entry::NextHop(3, next_hop(1)).to_string(),
            "next hop 3 (192.0.2.1)"
        );
    }

    #[test]
    fn differences_count_each_entry_once() {
        let one = Tables {
            next_hops: [(1, next_hop(1)), (2, next_hop(2))].into(),
            ..Tables::default()
        };
        let other = Tables {
            next_hops: [(1, next_hop(3)), (4, next_hop(4))].into(),
            ..Tables::default()
        };
        assert_eq!(one.differences(&other), 3);
        assert_eq!(one.differences(&one), 0);
    }
}
