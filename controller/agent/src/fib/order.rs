//! In which order changes are made, so that at each step every prefix has its old or its new next
//! hops. Knows nothing of why they are made.
//!
//! ```text
//! delete rules -> put new next hops -> put new groups -> put routes to groups that stay as they are
//!   -> delete routes -> put changed next hops -> put changed groups -> put routes to those
//!   -> delete groups -> delete next hops -> put rules
//! ```

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::forwarding::{Operation, Slot};

/// Changes by kind.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) gone_rules: Vec<Operation>,
    pub(super) new_next_hops: Vec<Operation>,
    pub(super) new_groups: Vec<Operation>,
    /// Table, prefix and the id of its group.
    pub(super) routes: Vec<(Slot, IpNet, u32)>,
    pub(super) gone_routes: Vec<Operation>,
    pub(super) changed_next_hops: Vec<Operation>,
    pub(super) changed_groups: Vec<(u32, Operation)>,
    pub(super) gone_groups: Vec<Operation>,
    pub(super) gone_next_hops: Vec<Operation>,
    pub(super) new_rules: Vec<Operation>,
}

impl Steps {
    /// All of them in order.
    pub(super) fn into_order(self) -> Vec<Operation> {
        let changing: BTreeSet<u32> = self.changed_groups.iter().map(|(id, _)| *id).collect();
        let (joining, settled): (Vec<_>, Vec<_>) = self
            .routes
            .into_iter()
            .partition(|(_, _, id)| changing.contains(id));
        let put = |(slot, prefix, id)| Operation::PutRoute(slot, prefix, id);
        let mut order = self.gone_rules;
        order.extend(self.new_next_hops);
        order.extend(self.new_groups);
        order.extend(settled.into_iter().map(put));
        order.extend(self.gone_routes);
        order.extend(self.changed_next_hops);
        order.extend(self.changed_groups.into_iter().map(|(_, change)| change));
        order.extend(joining.into_iter().map(put));
        order.extend(self.gone_groups);
        order.extend(self.gone_next_hops);
        order.extend(self.new_rules);
        order
    }
}
