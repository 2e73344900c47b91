//! What leaves fall back to while no next hop that has a weight is usable: ways that only an operator keeps from carrying traffic.
//! A drained switch is better than none. Pure. It refuses to know how a switch is told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use weft_weights::together::Table;

use super::Rejected;
use super::plan::{Backup, Excluded};
use super::solved::{Question, Solved, members_where};
use crate::fabric::live::Live;
use crate::fabric::topology::{Link, SwitchName};
use crate::southbound::intent::{Members, NextHop, Routes};

/// Next hops by the prefix that falls back to them.
pub(super) type OfLeaf = BTreeMap<IpNet, Arc<Members>>;

/// The fabric as if no operator had set anything down.
pub(super) struct Undrained {
    /// For leaves that look themselves.
    trusting: Question,
    /// For those that do not; None without any.
    strict: Option<Question>,
}

impl Undrained {
    /// None: nothing is drained.
    pub(super) fn new(solved: &Solved, live: &Live) -> Result<Option<Self>, Rejected> {
        if !live.has_drained() {
            return Ok(None);
        }
        let carries = |link: &Link| live.unusable(link).is_none() || live.is_drained(link);
        let strict = match solved.has_foreign() {
            true => Some(solved.ask(&|link| carries(link) && live.is_confirmed(link))?),
            false => None,
        };
        Ok(Some(Self {
            trusting: solved.ask(&carries)?,
            strict,
        }))
    }

    fn question(&self, strict: bool) -> &Question {
        let own = self.strict.as_ref().filter(|_| strict);
        own.unwrap_or(&self.trusting)
    }
}

impl Solved {
    /// Routes of a leaf with what they fall back to: the uplinks that would have a weight if nothing were drained, and do not lead to
    /// the destination as it is. None of it for a leaf that takes weights over BGP, or whose declared table has no room beside the
    /// weights.
    pub(super) fn backed(&self, leaf: &SwitchName, routes: Routes) -> Routes {
        let backups = self.backups(leaf, &routes).unwrap_or_default();
        self.fitting(leaf, Routes { backups, ..routes })
    }

    /// The routes, without backups if the declared table of the leaf has no room for them.
    pub(super) fn fitting(&self, leaf: &SwitchName, mut routes: Routes) -> Routes {
        let table = self.number(leaf).and_then(|leaf| self.table(leaf).1);
        let is_small = table.is_some_and(|table| !has_room(table, &routes));
        if is_small && !routes.backups.is_empty() {
            tracing::debug!(%leaf, "its table has no room for backups");
            routes.backups.clear();
        }
        routes
    }

    fn backups(&self, leaf: &SwitchName, routes: &Routes) -> Option<OfLeaf> {
        let undrained = self.undrained()?;
        let source = self.number(leaf)?;
        self.topology().switch(leaf)?.agent.as_ref()?;
        let question = undrained.question(self.is_foreign(leaf));
        let (limits, _) = self.table(source);
        let whole = question.fabric.leaf(source, limits)?;
        if let Err(fault) = question.checker.check_leaf(limits, &whole) {
            tracing::error!(%leaf, %fault, "backups failed the check; there are none");
            return None;
        }
        let next_hops = self.next_hops(leaf, &whole);
        let mut made: HashMap<(usize, Vec<bool>), Arc<Members>> = HashMap::new();
        let mut backups = OfLeaf::new();
        for (to, group) in whole.destinations() {
            let Some(prefix) = self.prefix(to) else {
                continue;
            };
            if !routes.prefixes.contains_key(&prefix) {
                continue;
            }
            let leading = self.question(leaf).fabric.leading(source, to)?;
            let members = made
                .entry((group, leading))
                .or_insert_with_key(|(_, leading)| {
                    members_where(&next_hops, &whole, group, |uplink| !leading[uplink])
                });
            if !members.is_empty() {
                backups.insert(prefix, Arc::clone(members));
            }
        }
        Some(backups)
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

/// Whether a table has room for the groups of a leaf and for their backups. These are counted twice: one is never changed in place, and
/// the next one is there before it goes.
fn has_room(table: Table, routes: &Routes) -> bool {
    let backup = |prefix| routes.backups.get(prefix).map(|it| &**it);
    let prefixes = routes.prefixes.iter();
    let groups: BTreeSet<(&Members, Option<&Members>)> = prefixes
        .map(|(prefix, members)| (&**members, backup(prefix)))
        .collect();
    let backups: BTreeSet<&Members> = groups.iter().filter_map(|(_, backup)| *backup).collect();
    let parts = |members: &Members| members.values().copied().map(u64::from).sum::<u64>();
    let of_groups: u64 = groups.iter().map(|(members, _)| parts(members)).sum();
    let of_backups: u64 = backups.iter().map(|members| parts(members)).sum();
    of_groups + 2 * of_backups <= table.entries_max().into()
        && groups.len() + 2 * backups.len() <= table.groups_max() as usize
}
