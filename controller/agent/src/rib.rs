//! The RIB: what clients want, with its references. Knows nothing of who asks, nor of whether the
//! kernel can do it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use weft_proto::gribi_aft::afts;
use weft_proto::ywrapper::{StringValue, UintValue};

use crate::entry::{Change, Entry, Group, Key, NextHop, Prefix};
use crate::fib::Ids;
use crate::forwarding::Observed;

/// Entries of the one network instance, and who refers to whom.
#[derive(Clone, Debug, Default)]
pub struct Rib {
    next_hops: BTreeMap<u64, NextHop>,
    groups: BTreeMap<u64, Group>,
    prefixes: BTreeMap<IpNet, Prefix>,
    /// The groups that have the next hop.
    groups_of: BTreeMap<u64, BTreeSet<u64>>,
    /// The prefixes that use the group.
    prefixes_of: BTreeMap<u64, BTreeSet<IpNet>>,
}

impl Rib {
    /// A next hop.
    #[must_use]
    pub fn next_hop(&self, index: u64) -> Option<&NextHop> {
        self.next_hops.get(&index)
    }

    /// A group.
    #[must_use]
    pub fn group(&self, id: u64) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// A prefix.
    #[must_use]
    pub fn prefix(&self, prefix: IpNet) -> Option<&Prefix> {
        self.prefixes.get(&prefix)
    }

    /// Every key, next hops first, prefixes last.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let next_hops = self.next_hops.keys().copied().map(Key::NextHop);
        let groups = self.groups.keys().copied().map(Key::Group);
        let prefixes = self.prefixes.keys().copied().map(Key::Prefix);
        next_hops.chain(groups).chain(prefixes)
    }

    /// The keys that refer to this one.
    pub fn users(&self, key: Key) -> Vec<Key> {
        match key {
            Key::NextHop(index) => {
                let groups = self.groups_of.get(&index).into_iter().flatten();
                groups.copied().map(Key::Group).collect()
            }
            Key::Group(id) => {
                let prefixes = self.prefixes_of.get(&id).into_iter().flatten();
                prefixes.copied().map(Key::Prefix).collect()
            }
            Key::Prefix(_) => Vec::new(),
        }
    }

    /// Whether the entry exists.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        match key {
            Key::NextHop(index) => self.next_hops.contains_key(&index),
            Key::Group(id) => self.groups.contains_key(&id),
            Key::Prefix(prefix) => self.prefixes.contains_key(&prefix),
        }
    }

    /// Makes one change as a whole, or none of it.
    ///
    /// # Errors
    ///
    /// When what it refers to is absent (a forward reference, TE-3.5), when something refers to
    /// what it deletes, or when there is nothing to replace.
    pub fn apply(&mut self, change: Change) -> Result<Key, String> {
        match change {
            Change::Add(entry) => self.put(entry),
            Change::Replace(entry) if self.contains(entry.key()) => self.put(entry),
            Change::Replace(entry) => Err(format!("there is no {} to replace", entry.key())),
            Change::Delete(key) => self.delete(key),
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// What the kernel has of us, as entries: gRIBI ids come out of the kernel's ids. What hangs in
    /// the air is left out. Metadata, unusable members and group names are not in the kernel.
    #[must_use]
    pub fn adopt(observed: &Observed, ids: Ids) -> Self {
        let mut rib = Self::default();
        let installed = &observed.installed;
        for (id, path) in &installed.next_hops {
            let link = observed
                .links
                .iter()
                .find(|link| link.index == path.interface);
            let (Some(Key::NextHop(index)), Some(link)) = (ids.key(*id), link) else {
                continue;
            };
            let message = afts::NextHop {
                ip_address: path.gateway.map(|address| StringValue {
                    value: address.to_string(),
                }),
                interface_ref: Some(afts::next_hop::InterfaceRef {
                    interface: Some(StringValue {
                        value: link.name.clone(),
                    }),
                    subinterface: None,
                }),
                ..afts::NextHop::default()
            };
            let interface = Some(link.name.clone());
            let next_hop = NextHop {
                address: path.gateway,
                interface,
                message,
            };
            rib.next_hops.insert(index, next_hop);
        }
        for (id, members) in &installed.groups {
            let Some(Key::Group(id)) = ids.key(*id) else {
                continue;
            };
            let known = members
                .iter()
                .filter_map(|member| match ids.key(member.next_hop) {
                    Some(Key::NextHop(index)) => Some((index, u64::from(member.weight))),
                    Some(Key::Group(_) | Key::Prefix(_)) | None => None,
                });
            // An error leaves it out; the kernel's object is then a stray, and removed.
            let _left_out = rib.put(Entry::Group(id, Group::of(known.collect())));
        }
        for (prefix, id) in &installed.routes {
            if let Some(Key::Group(group)) = ids.key(*id) {
                let entry = Prefix {
                    group,
                    metadata: None,
                    group_network_instance: None,
                };
                let _left_out = rib.put(Entry::Prefix(*prefix, entry));
            }
        }
        rib
    }

    fn put(&mut self, entry: Entry) -> Result<Key, String> {
        let key = entry.key();
        match entry {
            Entry::NextHop(index, next_hop) => {
                self.next_hops.insert(index, next_hop);
            }
            Entry::Group(id, group) => {
                for (index, _) in &group.members {
                    self.refers(Key::NextHop(*index))?;
                }
                self.unlink_group(id);
                for (index, _) in &group.members {
                    self.groups_of.entry(*index).or_default().insert(id);
                }
                self.groups.insert(id, group);
            }
            Entry::Prefix(prefix, entry) => {
                self.refers(Key::Group(entry.group))?;
                self.unlink_prefix(prefix);
                self.prefixes_of
                    .entry(entry.group)
                    .or_default()
                    .insert(prefix);
                self.prefixes.insert(prefix, entry);
            }
        }
        Ok(key)
    }

    fn delete(&mut self, key: Key) -> Result<Key, String> {
        if let Some(user) = self.users(key).first() {
            return Err(format!("{key} is used by {user}"));
        }
        match key {
            Key::NextHop(index) => {
                self.next_hops.remove(&index);
            }
            Key::Group(id) => {
                self.unlink_group(id);
                self.groups.remove(&id);
            }
            Key::Prefix(prefix) => {
                self.unlink_prefix(prefix);
                self.prefixes.remove(&prefix);
            }
        }
        Ok(key)
    }

    fn refers(&self, key: Key) -> Result<(), String> {
        if self.contains(key) {
            Ok(())
        } else {
            Err(format!("there is no {key}"))
        }
    }

    fn unlink_group(&mut self, id: u64) {
        let Some(group) = self.groups.get(&id) else {
            return;
        };
        for (index, _) in &group.members {
            if let Some(groups) = self.groups_of.get_mut(index) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.groups_of.remove(index);
                }
            }
        }
    }

    fn unlink_prefix(&mut self, prefix: IpNet) {
        let Some(entry) = self.prefixes.get(&prefix) else {
            return;
        };
        if let Some(prefixes) = self.prefixes_of.get_mut(&entry.group) {
            prefixes.remove(&prefix);
            if prefixes.is_empty() {
                self.prefixes_of.remove(&entry.group);
            }
        }
    }
}

impl Group {
    /// A group of these members and nothing else.
    #[must_use]
    pub fn of(members: Vec<(u64, u64)>) -> Self {
        let member = |(index, weight): &(u64, u64)| afts::next_hop_group::NextHopKey {
            index: *index,
            next_hop: Some(afts::next_hop_group::NextHop {
                weight: Some(UintValue { value: *weight }),
            }),
        };
        let next_hop = members.iter().map(member).collect();
        let message = afts::NextHopGroup {
            next_hop,
            ..afts::NextHopGroup::default()
        };
        Self { members, message }
    }
}
