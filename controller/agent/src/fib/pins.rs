//! Which policy forwarding entries have a table of their own, and which packets are marked for it.
//!
//! A group that entries name gets a slot: a table with a route to each prefix that the switch's own routing reaches by the
//! group, and a rule. Only then packets are marked for it. A slot that nobody names keeps its table until no packet is marked for
//! it any more; then it may be given to another group. Knows no order of operations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fib, Unusable};
use crate::entry::{Flow, Key, PolicyKey, instance_of};
use crate::forwarding::{Family, Pin, Pins, Slot};
use crate::rib::Rib;

/// Slots of groups, and packets that are marked.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Whether marks have room for slots.
    pub(super) possible: bool,
    of_group: BTreeMap<u64, Slot>,
    group_of: BTreeMap<Slot, u64>,
    /// Groups without policy forwarding entries, whose slot may still be marked.
    leaving: BTreeSet<u64>,
    /// What is marked, as far as it was acknowledged.
    pub(super) marked: Pins,
}

impl Slots {
    /// With slots, if marks have room for them.
    pub(super) fn new(possible: bool) -> Self {
        Self {
            possible,
            ..Self::default()
        }
    }

    pub(super) fn slot(&self, group: u64) -> Option<Slot> {
        self.of_group.get(&group).copied()
    }

    /// Slots that are given.
    pub(super) fn given(&self) -> impl Iterator<Item = Slot> {
        self.group_of.keys().copied()
    }

    /// Every group with its slot.
    pub(super) fn all(&self) -> Vec<(u64, Slot)> {
        self.of_group
            .iter()
            .map(|(group, slot)| (*group, *slot))
            .collect()
    }

    pub(super) fn group(&self, slot: Slot) -> Option<u64> {
        self.group_of.get(&slot).copied()
    }

    /// The slot of a group that entries name; a free one if it has none. None when all are given.
    pub(super) fn join(&mut self, group: u64) -> Option<Slot> {
        self.leaving.remove(&group);
        if let Some(slot) = self.of_group.get(&group) {
            return Some(*slot);
        }
        let slot = (1..=u8::MAX)
            .map(Slot)
            .find(|slot| !self.group_of.contains_key(slot))?;
        self.of_group.insert(group, slot);
        self.group_of.insert(slot, group);
        Some(slot)
    }

    /// No entry names a group any more.
    pub(super) fn leave(&mut self, group: u64) {
        if self.of_group.contains_key(&group) {
            self.leaving.insert(group);
        }
    }

    /// Slots that nobody names and no packet is marked for; they may be given again.
    pub(super) fn take_unused(&mut self) -> Vec<Slot> {
        if self.leaving.is_empty() {
            return Vec::new();
        }
        let marked: BTreeSet<Slot> = self.marked.values().copied().collect();
        let of_group = &mut self.of_group;
        let mut unused = Vec::new();
        self.leaving.retain(|group| match of_group.get(group) {
            Some(slot) if !marked.contains(slot) => {
                unused.push(*slot);
                of_group.remove(group);
                false
            }
            Some(_) => true,
            None => false,
        });
        for slot in &unused {
            self.group_of.remove(slot);
        }
        unused
    }
}

impl Fib {
    /// The packets to mark, each with the slot of its group.
    #[must_use]
    pub fn pins(&self, rib: &Rib) -> Pins {
        let policies = rib.policies();
        let pins = policies.filter_map(|policy| {
            let slot = self.slots.slot(policy.group)?;
            self.is_looked_up(slot)
                .then(|| Some((self.pin(&policy.flow).ok()?, slot)))?
        });
        pins.collect()
    }

    /// What is marked, as far as it was acknowledged.
    #[must_use]
    pub fn marked(&self) -> &Pins {
        &self.slots.marked
    }

    /// Takes what is marked now. Slots that were waiting for that go with the next [`settle`](Self::settle).
    pub fn set_marked(&mut self, marked: Pins) {
        self.slots.marked = marked;
    }

    /// How packets of a flow are known.
    pub(super) fn pin(&self, flow: &Flow) -> Result<Pin, Unusable> {
        let mut devices = self
            .links
            .iter()
            .filter(|link| link.vni == Some(flow.vni) && link.is_plain());
        let device = devices.next().ok_or_else(|| {
            let instance = instance_of(flow.vni);
            Unusable::Inactive(format!("there is no VXLAN device for {instance}"))
        })?;
        Ok(Pin {
            device: device.name.clone(),
            destination: flow.destination,
            port: flow.port,
        })
    }

    /// Whether packets with the mark of a slot look its table up, and find something.
    fn is_looked_up(&self, slot: Slot) -> bool {
        let ruled = |family| self.expected.pin_rules.contains(&(slot, family));
        let mut families = [Family::V4, Family::V6].into_iter();
        families.any(|family| ruled(family) && self.expected.has_route(slot, family))
    }

    /// Whether a policy forwarding entry is in force.
    ///
    /// # Errors
    ///
    /// When it is not usable now; `Ok(false)` when it is, and its packets are not marked.
    pub fn policy_state(&self, key: PolicyKey, rib: &Rib) -> Result<bool, Unusable> {
        let policy = rib
            .policy(key)
            .ok_or_else(|| super::absent(Key::Policy(key)))?;
        if !self.slots.possible {
            let why = "the mask of the marks leaves no eight bits below it for pins";
            return Err(Unusable::Refused(why.to_owned()));
        }
        let pin = self.pin(&policy.flow)?;
        let Some(slot) = self.slots.slot(policy.group) else {
            let why = format!("{} groups are pinned to already", u8::MAX);
            return Err(Unusable::Refused(why));
        };
        if !self.is_looked_up(slot) {
            let group = policy.group;
            let why = match self.group(group, rib) {
                Err(Unusable::Inactive(why) | Unusable::Refused(why)) => why,
                Ok(_) => format!(
                    "the switch's own routing uses none of the next hops of group {group} to any prefix"
                ),
            };
            return Err(Unusable::Inactive(why));
        }
        Ok(self.slots.marked.get(&pin) == Some(&slot))
    }
}
