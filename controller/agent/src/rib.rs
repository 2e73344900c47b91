//! The RIB: what clients want, with its references. Knows nothing of who asks, nor of whether the
//! kernel can do it.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::entry::{Change, Entry, Flow, Group, Key, NextHop, Policy, PolicyKey, Prefix};
use crate::instance::Instance;

/// Entries, and who refers to whom.
#[derive(Clone, Debug, Default)]
pub struct Rib {
    next_hops: BTreeMap<u64, NextHop>,
    groups: BTreeMap<u64, Group>,
    prefixes: BTreeMap<IpNet, Prefix>,
    policies: BTreeMap<PolicyKey, Policy>,
    /// The policy forwarding entry of each flow.
    policy_of: BTreeMap<Flow, PolicyKey>,
    /// The groups that have the next hop.
    groups_of: BTreeMap<u64, BTreeSet<u64>>,
    /// The groups whose backup the group is.
    backed_by: BTreeMap<u64, BTreeSet<u64>>,
    /// The prefixes that use the group.
    prefixes_of: BTreeMap<u64, BTreeSet<IpNet>>,
    /// The policy forwarding entries that use the group.
    policies_of: BTreeMap<u64, BTreeSet<PolicyKey>>,
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

    /// A policy forwarding entry.
    #[must_use]
    pub fn policy(&self, key: PolicyKey) -> Option<&Policy> {
        self.policies.get(&key)
    }

    /// Every policy forwarding entry.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    /// Every prefix.
    pub fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.prefixes.keys().copied()
    }

    /// Whether policy forwarding entries use a group.
    #[must_use]
    pub fn is_pinned_to(&self, group: u64) -> bool {
        self.policies_of.contains_key(&group)
    }

    /// Every key, next hops first, policy forwarding entries last.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let next_hops = self.next_hops.keys().copied().map(Key::NextHop);
        let groups = self.groups.keys().copied().map(Key::Group);
        let prefixes = self.prefixes.keys().copied().map(Key::Prefix);
        let policies = self.policies.keys().copied().map(Key::Policy);
        next_hops.chain(groups).chain(prefixes).chain(policies)
    }

    /// The keys that refer to this one.
    pub fn users(&self, key: Key) -> Vec<Key> {
        match key {
            Key::NextHop(index) => {
                let groups = self.groups_of.get(&index).into_iter().flatten();
                groups.copied().map(Key::Group).collect()
            }
            Key::Group(id) => {
                let backed = self.backed_by.get(&id).into_iter().flatten();
                let prefixes = self.prefixes_of.get(&id).into_iter().flatten();
                let policies = self.policies_of.get(&id).into_iter().flatten();
                let policies = policies.copied().map(Key::Policy);
                let prefixes = prefixes.copied().map(Key::Prefix);
                let backed = backed.copied().map(Key::Group);
                backed.chain(prefixes).chain(policies).collect()
            }
            Key::Prefix(_) | Key::Policy(_) => Vec::new(),
        }
    }

    /// Whether the entry exists.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        match key {
            Key::NextHop(index) => self.next_hops.contains_key(&index),
            Key::Group(id) => self.groups.contains_key(&id),
            Key::Prefix(prefix) => self.prefixes.contains_key(&prefix),
            Key::Policy(policy) => self.policies.contains_key(&policy),
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

    /// Forgets the policy forwarding entries of a network instance.
    pub fn clear_policies(&mut self, instance: Instance) {
        let all = self.policies.iter();
        let gone: Vec<PolicyKey> = all
            .map(|(key, _)| *key)
            .filter(|key| key.instance == instance)
            .collect();
        for key in gone {
            self.unlink_policy(key);
            self.policies.remove(&key);
        }
    }

    /// Forgets everything but the policy forwarding entries and what they refer to. Whether anything stays.
    pub fn clear_main(&mut self) -> bool {
        let policies = std::mem::take(&mut self.policies);
        let mut kept = Self::default();
        for policy in policies.values() {
            if let Some(backup) = self.keep_group(policy.group, &mut kept) {
                self.keep_group(backup, &mut kept);
            }
        }
        kept.policies = policies;
        kept.policy_of = std::mem::take(&mut self.policy_of);
        kept.policies_of = std::mem::take(&mut self.policies_of);
        *self = kept;
        !self.policies.is_empty()
    }

    /// Moves a group and its next hops; its backup, if it has one.
    fn keep_group(&mut self, id: u64, kept: &mut Self) -> Option<u64> {
        let group = self.groups.remove(&id)?;
        for (index, _) in &group.members {
            kept.next_hops.extend(self.next_hops.remove_entry(index));
            kept.groups_of.entry(*index).or_default().insert(id);
        }
        let backup = group.backup;
        if let Some(backup) = backup {
            kept.backed_by.entry(backup).or_default().insert(id);
        }
        kept.groups.insert(id, group);
        backup
    }

    fn put(&mut self, entry: Entry) -> Result<Key, String> {
        let key = entry.key();
        if !self.contains(key) {
            self.has_room(key)?;
        }
        match entry {
            Entry::NextHop(index, next_hop) => {
                self.next_hops.insert(index, next_hop);
            }
            Entry::Group(id, group) => {
                for (index, _) in &group.members {
                    self.refers(Key::NextHop(*index))?;
                }
                if let Some(backup) = group.backup {
                    self.may_back(backup, id)?;
                }
                self.unlink_group(id);
                for (index, _) in &group.members {
                    self.groups_of.entry(*index).or_default().insert(id);
                }
                if let Some(backup) = group.backup {
                    self.backed_by.entry(backup).or_default().insert(id);
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
            Entry::Policy(own, policy) => {
                self.refers(Key::Group(policy.group))?;
                match self.policy_of.get(&policy.flow) {
                    Some(other) if *other != own => {
                        let other = Key::Policy(*other);
                        return Err(format!("{other} is for {} already", policy.flow));
                    }
                    Some(_) | None => {}
                }
                self.unlink_policy(own);
                self.policy_of.insert(policy.flow.clone(), own);
                self.policies_of
                    .entry(policy.group)
                    .or_default()
                    .insert(own);
                self.policies.insert(own, policy);
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
            Key::Policy(policy) => {
                self.unlink_policy(policy);
                self.policies.remove(&policy);
            }
        }
        Ok(key)
    }

    /// A table that is full takes nothing new; what is there can be replaced.
    fn has_room(&self, key: Key) -> Result<(), String> {
        let (count, most) = match key {
            Key::NextHop(_) => (self.next_hops.len(), NEXT_HOPS_MAX),
            Key::Group(_) => (self.groups.len(), GROUPS_MAX),
            Key::Prefix(_) => (self.prefixes.len(), PREFIXES_MAX),
            Key::Policy(_) => (self.policies.len(), POLICIES_MAX),
        };
        if count < most {
            Ok(())
        } else {
            Err(format!("no room for {key}: there are {most} already"))
        }
    }

    /// A backup has none itself: there is one step from a group to its backup, and no circle.
    fn may_back(&self, backup: u64, group: u64) -> Result<(), String> {
        let (backup_key, key) = (Key::Group(backup), Key::Group(group));
        if backup == group {
            return Err(format!("{key} is its own backup"));
        }
        self.refers(backup_key)?;
        let has_backup = self.group(backup).is_some_and(|it| it.backup.is_some());
        if has_backup {
            return Err(format!(
                "{backup_key} has a backup itself; that is not supported"
            ));
        }
        match self.backed_by.get(&group).and_then(BTreeSet::first) {
            Some(other) => Err(format!(
                "{key} is the backup of {}; it cannot have one itself",
                Key::Group(*other)
            )),
            None => Ok(()),
        }
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
        let Some(backup) = group.backup else {
            return;
        };
        if let Some(groups) = self.backed_by.get_mut(&backup) {
            groups.remove(&id);
            if groups.is_empty() {
                self.backed_by.remove(&backup);
            }
        }
    }

    fn unlink_policy(&mut self, key: PolicyKey) {
        let Some(policy) = self.policies.get(&key) else {
            return;
        };
        self.policy_of.remove(&policy.flow);
        if let Some(policies) = self.policies_of.get_mut(&policy.group) {
            policies.remove(&key);
            if policies.is_empty() {
                self.policies_of.remove(&policy.group);
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

/// Far above what a leaf has uplinks; bounds what a client can make the agent keep.
const NEXT_HOPS_MAX: usize = 16_384;
/// As many as the largest switch chips have.
const GROUPS_MAX: usize = 4_096;
/// One for each VTEP of the largest fabric, and room.
const PREFIXES_MAX: usize = 65_536;
/// Far above what weft asks of a leaf; nft takes about a second for as many.
const POLICIES_MAX: usize = 65_536;
