//! What leaves fall back to while no next hop that has a weight is usable: ways that only an operator keeps from carrying traffic.
//! A drained switch is better than none. Pure. It refuses to know how a switch is told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use weft_weights::leaf::LeafSolution;
use weft_weights::together::Table;

use super::plan::{Backup, Excluded};
use super::solved::{Question, Solved, members_where};
use super::{Inputs, Rejected};
use crate::fabric::live::Live;
use crate::fabric::topology::{Link, SwitchName};
use crate::southbound::intent::{Members, NextHop, Routes};

/// Next hops by the prefix that falls back to them.
pub(super) type OfLeaf = BTreeMap<IpNet, Arc<Members>>;

/// Makes a problem of the links that are alive.
type Ask<'a> = dyn Fn(&dyn Fn(&Link) -> bool) -> Result<Question, Rejected> + 'a;

/// The fabric as if no operator had set anything down.
pub(super) struct Undrained {
    /// For leaves that look themselves.
    trusting: Question,
    /// For those that do not; None without any.
    strict: Option<Question>,
}

impl Undrained {
    /// None: nothing is drained.
    pub(super) fn new(
        inputs: &Inputs,
        live: &Live,
        ask: &Ask<'_>,
    ) -> Result<Option<Self>, Rejected> {
        if !live.has_drained() {
            return Ok(None);
        }
        let carries = |link: &Link| live.unusable(link).is_none() || live.is_drained(link);
        let strict = match inputs.foreign.is_empty() {
            true => None,
            false => Some(ask(&|link| carries(link) && live.is_confirmed(link))?),
        };
        Ok(Some(Self {
            trusting: ask(&carries)?,
            strict,
        }))
    }

    fn question(&self, strict: bool) -> &Question {
        let own = self.strict.as_ref().filter(|_| strict);
        own.unwrap_or(&self.trusting)
    }
}

impl Solved {
    /// What the prefixes of a leaf fall back to: the uplinks without a weight that would have one if nothing were drained. None of it
    /// where the declared table of the leaf has no room for it beside the weights.
    pub(super) fn backups(
        &self,
        leaf: &SwitchName,
        routes: &Routes,
        solution: &LeafSolution,
    ) -> OfLeaf {
        let Some(undrained) = self.undrained() else {
            return OfLeaf::new();
        };
        let question = undrained.question(self.is_foreign(leaf));
        let (limits, table) = self.table(solution.source());
        let Some(whole) = question.fabric.leaf(solution.source(), limits) else {
            return OfLeaf::new();
        };
        if let Err(fault) = question.checker.check_leaf(limits, &whole) {
            tracing::error!(%leaf, %fault, "backups failed the check; there are none");
            return OfLeaf::new();
        }
        let next_hops = self.next_hops(leaf, solution);
        let mut made: HashMap<(usize, usize), Arc<Members>> = HashMap::new();
        let mut backups = OfLeaf::new();
        for ((to, group), (_, whole_group)) in solution.destinations().zip(whole.destinations()) {
            let own = solution.weights(group).weights;
            let members = made.entry((group, whole_group)).or_insert_with(|| {
                members_where(&next_hops, &whole, whole_group, |uplink| own[uplink] == 0)
            });
            let prefix = self.prefix(to);
            let prefix = prefix.filter(|it| routes.prefixes.contains_key(it));
            if let Some(prefix) = prefix.filter(|_| !members.is_empty()) {
                backups.insert(prefix, Arc::clone(members));
            }
        }
        let is_small = table.is_some_and(|table| !has_room(table, routes, &backups));
        if is_small {
            tracing::warn!(%leaf, "its table has no room for backups");
            backups.clear();
        }
        backups
    }
}

impl Solved {
    /// The uplinks of a leaf that it falls back to, of those that carry no part.
    pub(super) fn backups_of(
        &self,
        leaf: &SwitchName,
        excluded: &[Excluded],
        members: &Members,
    ) -> Vec<Backup> {
        let backup = |excluded: &Excluded| {
            let link = self.topology().link_named(&excluded.link)?;
            let (near, far) = link.ends_from(leaf)?;
            let next_hop = NextHop {
                address: far.address,
                interface: Arc::clone(&near.interface),
            };
            Some(Backup {
                weight: *members.get(&next_hop)?,
                next_hop,
                via: far.switch.clone(),
                reason: excluded.why(),
            })
        };
        excluded.iter().filter_map(backup).collect()
    }
}

/// Whether a table has room for the groups of a leaf and for their backups.
fn has_room(table: Table, routes: &Routes, backups: &OfLeaf) -> bool {
    let groups: BTreeSet<(&Members, Option<&Members>)> = routes
        .prefixes
        .iter()
        .map(|(prefix, members)| (&**members, backups.get(prefix).map(|it| &**it)))
        .collect();
    let backups: BTreeSet<&Members> = groups.iter().filter_map(|(_, backup)| *backup).collect();
    let all = groups.iter().map(|(members, _)| *members);
    let parts = all.chain(backups.iter().copied());
    let parts = parts.flat_map(|members| members.values().map(|weight| u64::from(*weight)));
    parts.sum::<u64>() <= table.entries_max().into()
        && groups.len() + backups.len() <= table.groups_max() as usize
}
