//! Which policy forwarding entries have a table of their own, and which packets are marked for it.
//!
//! A group that entries name gets a slot: a table with a route to each prefix that the switch's own routing reaches by the
//! group, and a rule. Only then packets are marked for it. A slot that nobody names keeps its table until no packet can be marked
//! for it any more; then it may be given to another group. Knows no order of operations.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::order::Steps;
use super::usable::Usable;
use super::{Fib, Stale, Unusable, absent};
use crate::entry::{Flow, Key, PolicyKey};
use crate::forwarding::{Family, OwnRoute, Pin, Pins, Slot};
use crate::instance::Instance;
use crate::rib::Rib;

/// Slots of groups.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Whether marks have room for slots.
    possible: bool,
    of_group: BTreeMap<u64, Slot>,
    group_of: BTreeMap<Slot, u64>,
    /// Groups without policy forwarding entries, whose slot may still be marked.
    leaving: BTreeSet<u64>,
    /// Groups that found no free slot.
    waiting: BTreeSet<u64>,
    pub(super) marks: Marked,
}

/// Packets that are marked, as far as it is known: what is asked for is acknowledged later.
#[derive(Debug, Default)]
pub(super) struct Marked {
    /// The number of the pins that were asked for last.
    newest: u64,
    /// The last that was acknowledged, and those that were asked for since, by number.
    asked: BTreeMap<u64, Pins>,
    /// Slots of others that were asked for since, which may be marked too.
    stale: BTreeSet<Slot>,
    /// What is in force: the number of it; None if it is not known.
    in_force: Option<u64>,
}

impl Marked {
    /// What was asked for last.
    fn asked(&self) -> Option<&Pins> {
        self.asked.get(&self.newest)
    }

    /// Asks for other packets; the number of that.
    fn ask(&mut self, pins: Pins) -> u64 {
        self.newest += 1;
        self.asked.insert(self.newest, pins);
        while self.asked.len() > ASKED_MAX {
            let known = self.in_force;
            let oldest = self.asked.keys().find(|number| Some(**number) != known);
            let oldest = oldest.copied().unwrap_or(self.newest);
            let gone = self.asked.remove(&oldest).unwrap_or_default();
            self.stale.extend(gone.into_values());
        }
        self.newest
    }

    /// What was asked for under a number is in force now, or it is not known what is.
    fn acknowledge(&mut self, number: u64, in_force: bool) {
        if !in_force {
            self.in_force = None;
            return;
        }
        self.in_force = self.asked.contains_key(&number).then_some(number);
        if number == self.newest {
            self.asked.retain(|asked, _| *asked == number);
            self.stale.clear();
        }
    }

    /// What is in force.
    fn in_force(&self) -> Option<&Pins> {
        self.asked.get(&self.in_force?)
    }

    /// Slots that packets may be marked for.
    fn slots(&self) -> BTreeSet<Slot> {
        let asked = self.asked.values().flat_map(Pins::values);
        asked.chain(&self.stale).copied().collect()
    }
}

impl Slots {
    /// With slots, if marks have room for them.
    pub(super) fn new(possible: bool) -> Self {
        Self {
            possible,
            ..Self::default()
        }
    }

    fn slot(&self, group: u64) -> Option<Slot> {
        self.of_group.get(&group).copied()
    }

    /// Slots that are given.
    pub(super) fn given(&self) -> impl Iterator<Item = Slot> {
        self.group_of.keys().copied()
    }

    /// Every group with its slot.
    fn all(&self) -> Vec<(u64, Slot)> {
        self.of_group
            .iter()
            .map(|(group, slot)| (*group, *slot))
            .collect()
    }

    pub(super) fn group(&self, slot: Slot) -> Option<u64> {
        self.group_of.get(&slot).copied()
    }

    /// Gives a group a free slot, unless it has one. Whether it has a new one; if all are given, it waits.
    fn join(&mut self, group: u64) -> bool {
        self.leaving.remove(&group);
        if self.of_group.contains_key(&group) {
            return false;
        }
        let mut slots = (1..=u8::MAX).map(Slot);
        let Some(slot) = slots.find(|slot| !self.group_of.contains_key(slot)) else {
            self.waiting.insert(group);
            return false;
        };
        self.of_group.insert(group, slot);
        self.group_of.insert(slot, group);
        true
    }

    /// No entry names a group any more.
    fn leave(&mut self, group: u64) {
        self.waiting.remove(&group);
        if self.of_group.contains_key(&group) {
            self.leaving.insert(group);
        }
    }

    /// Slots that nobody names and no packet can be marked for; they may be given again.
    fn take_unused(&mut self) -> Vec<Slot> {
        if self.leaving.is_empty() {
            return Vec::new();
        }
        let marked = self.marks.slots();
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
    /// The packets to mark, each with the slot of its group, and the number of that; None if they are those that were asked for
    /// last.
    pub fn ask_for_marks(&mut self, rib: &Rib) -> Option<(u64, Pins)> {
        let policies = rib.policies();
        let pins = policies.filter_map(|policy| {
            let slot = self.slots.slot(policy.group)?;
            self.is_looked_up(slot)
                .then(|| Some((self.pin(&policy.flow).ok()?, slot)))?
        });
        let pins: Pins = pins.collect();
        let marks = &mut self.slots.marks;
        let same = match marks.asked() {
            Some(asked) => *asked == pins,
            None => pins.is_empty(),
        };
        (!same).then(|| (marks.ask(pins.clone()), pins))
    }

    /// The number of the marks that were asked for last.
    #[must_use]
    pub fn asked_marks(&self) -> u64 {
        self.slots.marks.newest
    }

    /// Whether the marks of this number are in force, or later ones.
    #[must_use]
    pub fn has_marks(&self, number: u64) -> bool {
        let in_force = self.slots.marks.in_force;
        number == 0 || in_force.is_some_and(|in_force| in_force >= number)
    }

    /// The marks of this number are in force now, or nobody knows which are. Slots that were waiting for that go with the next
    /// [`settle`](Self::settle).
    pub fn acknowledge_marks(&mut self, number: u64, in_force: bool) {
        self.slots.marks.acknowledge(number, in_force);
    }

    /// How packets of a flow are known.
    fn pin(&self, flow: &Flow) -> Result<Pin, Unusable> {
        let Instance { vni, source } = flow.instance;
        let mut devices = self
            .links
            .iter()
            .filter(|link| link.vni == Some(vni) && link.is_plain());
        let device = devices.next().ok_or_else(|| {
            let instance = Instance::of(vni);
            Unusable::Inactive(format!("there is no VXLAN device for {instance}"))
        })?;
        Ok(Pin {
            device: device.name.clone(),
            source,
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
        let policy = rib.policy(key).ok_or_else(|| absent(Key::Policy(key)))?;
        if !self.slots.possible {
            let why = "the mask of the marks leaves no eight bits below it for pins";
            return Err(Unusable::Refused(why.to_owned()));
        }
        let pin = self.pin(&policy.flow)?;
        let Some(slot) = self.slots.slot(policy.group) else {
            let why = format!("{} groups are pinned to already", u8::MAX);
            return Err(match self.slots.leaving.is_empty() {
                true => Unusable::Refused(why),
                false => Unusable::Inactive(why),
            });
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
        let in_force = self.slots.marks.in_force();
        Ok(in_force.and_then(|pins| pins.get(&pin)) == Some(&slot))
    }

    /// Gives groups that policy forwarding entries name a table, and brings the tables of pins up to date.
    pub(super) fn settle_pins(&mut self, stale: &Stale, rib: &Rib, steps: &mut Steps) {
        if !self.slots.possible {
            return;
        }
        for (group, _) in self.slots.all() {
            if !rib.is_pinned_to(group) {
                self.slots.leave(group);
            }
        }
        for slot in self.slots.take_unused() {
            let routes: Vec<IpNet> = self.expected.of_slot(slot).collect();
            for prefix in routes {
                self.settle_route(slot, prefix, None, steps);
            }
        }
        let mut fresh = stale.groups.clone();
        let waiting = std::mem::take(&mut self.slots.waiting);
        for group in stale.named.union(&waiting) {
            if rib.is_pinned_to(*group) && self.slots.join(*group) {
                fresh.insert(*group);
            }
        }
        let slots = self.slots.all();
        if slots.is_empty() {
            return;
        }
        let (few, all) = (&stale.prefixes, || rib.prefixes().collect());
        let is_fresh = |group| fresh.contains(&group);
        let any_fresh = slots.iter().any(|(group, _)| is_fresh(*group));
        let all: BTreeSet<IpNet> = if any_fresh { all() } else { BTreeSet::new() };
        let mut ways = Ways::default();
        for (group, slot) in slots {
            let mut cached: BTreeMap<usize, Option<Usable>> = BTreeMap::new();
            let gone: Vec<IpNet> = match is_fresh(group) {
                true => self.expected.of_slot(slot).collect(),
                false => Vec::new(),
            };
            let gone = gone.into_iter().filter(|prefix| !all.contains(prefix));
            let prefixes: Vec<IpNet> = match is_fresh(group) {
                true => all.iter().copied().chain(gone).collect(),
                false => few.iter().copied().collect(),
            };
            for prefix in prefixes {
                let way = ways.of(self, prefix, rib);
                let usable = way.and_then(|way| {
                    let own = &ways.routes[way];
                    let find = || self.usable_by(group, own.as_ref(), rib).ok();
                    cached.entry(way).or_insert_with(find).as_ref()
                });
                self.settle_route(slot, prefix, usable, steps);
            }
        }
    }
}

/// The switch's own routes to prefixes, equal ones as one: most prefixes have the same next hops.
#[derive(Default)]
struct Ways {
    known: BTreeMap<IpNet, Option<usize>>,
    numbers: BTreeMap<Vec<(Option<IpAddr>, u32)>, usize>,
    /// By number; None: everything is allowed.
    routes: Vec<Option<OwnRoute>>,
}

impl Ways {
    /// The number of the route to a prefix; None: it is not programmed, or the switch has no route.
    fn of(&mut self, fib: &Fib, prefix: IpNet, rib: &Rib) -> Option<usize> {
        let known = match self.known.entry(prefix) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(unknown) => unknown,
        };
        let own = rib.prefix(prefix).and_then(|_| fib.own_route(prefix).ok());
        let number = own.map(|own| {
            let hops = own.iter().flat_map(|route| &route.hops);
            let hops = hops.map(|hop| (hop.path.gateway, hop.path.interface));
            let routes = &mut self.routes;
            *self.numbers.entry(hops.collect()).or_insert_with(|| {
                routes.push(own.cloned());
                routes.len() - 1
            })
        });
        *known.insert(number)
    }
}

/// Marks that are asked for while others are not acknowledged yet. Of older ones only the slots are remembered.
const ASKED_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Source;

    fn pins(slots: &[u8]) -> Pins {
        let pin = |slot: u8| Pin {
            device: "vxlan100".to_owned(),
            source: Source::Any,
            destination: Some([192, 0, 2, slot].into()),
            port: None,
        };
        slots.iter().map(|slot| (pin(*slot), Slot(*slot))).collect()
    }

    #[test]
    fn a_slot_is_free_when_what_may_be_marked_does_not_have_it() {
        let mut marked = Marked::default();
        let slots = |marked: &Marked| -> Vec<u8> {
            marked.slots().into_iter().map(|slot| slot.0).collect()
        };
        let first = marked.ask(pins(&[1]));
        let second = marked.ask(pins(&[]));
        // The first may still come.
        assert_eq!(slots(&marked), [1]);
        marked.acknowledge(first, true);
        assert_eq!(
            (slots(&marked), marked.in_force()),
            (vec![1], Some(&pins(&[1])))
        );
        marked.acknowledge(second, false);
        assert_eq!((slots(&marked), marked.in_force()), (vec![1], None));
        marked.acknowledge(second, true);
        assert_eq!(
            (slots(&marked), marked.in_force()),
            (vec![], Some(&pins(&[])))
        );
    }

    #[test]
    fn what_is_asked_for_while_nobody_answers_is_bounded() {
        let mut marked = Marked::default();
        for slot in 1..=100 {
            marked.ask(pins(&[slot]));
        }
        assert!(marked.asked.len() <= ASKED_MAX);
        assert_eq!(marked.slots().len(), 100);
        marked.acknowledge(100, true);
        assert_eq!(marked.slots(), [Slot(100)].into());
    }

    #[test]
    fn a_group_without_a_slot_gets_the_next_that_is_free() {
        let mut slots = Slots::new(true);
        assert!((1..=255).all(|group| slots.join(group)));
        assert!(!slots.join(256) && slots.waiting.contains(&256));
        slots.leave(7);
        assert_eq!(slots.take_unused(), [Slot(7)]);
        assert!(slots.join(256));
        assert_eq!(slots.group(Slot(7)), Some(256));
    }
}
