//! Switches that links join, dead or alive: pods and planes are found by it.

use std::collections::BTreeMap;

use crate::problem::SwitchId;

/// Sets of switches that links join.
#[derive(Default)]
pub(crate) struct Joined(BTreeMap<SwitchId, SwitchId>);

impl Joined {
    pub(crate) fn add(&mut self, switch: SwitchId) {
        self.0.entry(switch).or_insert(switch);
    }

    fn root(&self, switch: SwitchId) -> SwitchId {
        let mut at = switch;
        while let Some(next) = self.0.get(&at).filter(|next| **next != at) {
            at = *next;
        }
        at
    }

    pub(crate) fn join(&mut self, a: SwitchId, b: SwitchId) {
        let (a, b) = (self.root(a), self.root(b));
        // The lowest one stands for all.
        self.0.insert(a.max(b), a.min(b));
    }

    /// A number for each that is joined, in the order of the lowest switch of each.
    pub(crate) fn numbered(&self) -> BTreeMap<SwitchId, u32> {
        let mut numbers = BTreeMap::new();
        let mut all = BTreeMap::new();
        for switch in self.0.keys() {
            let next = numbers.len() as u32;
            all.insert(*switch, *numbers.entry(self.root(*switch)).or_insert(next));
        }
        all
    }
}
