//! All groups of all leaves rounded together, within a table for each leaf, so that the worst link loses least.
//!
//! Rounded alone, every group of a leaf errs the same way: what one member has too much of, it has in every group. Here
//! the error that a link has so far steers the next group (error diffusion, Floyd and Steinberg 1976, over links instead
//! of pixels), for what leaves a leaf over an uplink and for what arrives at a leaf from each switch next to it.
//!
//! The loss of a link is load with the rounded weights / load with exact weights - 1, where each leaf sends as much to
//! each other leaf. It refuses to know what a leaf sends in fact, and how a table is programmed.

use std::fmt;
use std::sync::Arc;

use crate::fabric::{Fabric, Uplink};
use crate::leaf::LeafSolution;
use crate::problem::SwitchId;
use crate::quantize::{Limits, Quantizer, Rounding};

mod loads;
mod plan;
mod steer;

use loads::{LOSS_NONE, Loads};
use plan::Plan;
use steer::Steering;

/// What a leaf has for its groups, and for the members of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    entries_max: u32,
    groups_max: u32,
}

impl Table {
    /// A table of so many entries, at least 1. A member takes as many as its weight, as in a switch that repeats a
    /// next hop to give it more; in a switch that keeps a weight beside each member less is in use than is counted here.
    /// Groups are limited by the entries alone, as each has a member.
    pub fn new(entries_max: u32) -> Self {
        Self {
            entries_max: entries_max.max(1),
            groups_max: u32::MAX,
        }
    }

    /// The same table with room for so many groups, at least 1.
    #[must_use]
    pub fn with_groups(self, groups_max: u32) -> Self {
        Self {
            groups_max: groups_max.max(1),
            ..self
        }
    }

    /// How many members all groups of the leaf can have, each counted as often as it weighs.
    pub fn entries_max(self) -> u32 {
        self.entries_max
    }

    /// How many groups with a member the leaf can have. Destinations with equal weights share one.
    pub fn groups_max(self) -> u32 {
        self.groups_max
    }
}

/// The weights of all leaves, and what had to be given up for their tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// In order of the leaves.
    pub leaves: Vec<LeafSolution>,
    /// Of each of `leaves`.
    pub used: Vec<Used>,
    /// What the worst link loses: 0.02 carries 2 % more than with exact weights.
    pub loss: f64,
    /// False where each group rounded alone leaves the worst link with less, which is then the answer.
    pub together: bool,
    /// Leaves whose tables have no room for their groups, in order: their weights are more than that, and those of others fit beside them.
    pub too_small: Vec<TableTooSmall>,
}

/// What the groups of a leaf take of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The leaf.
    pub leaf: SwitchId,
    /// Sum of the weights of all its groups. A group for several destinations counts once.
    pub entries: u32,
    /// Groups with a member.
    pub groups: u32,
    /// Groups that were merged into others, as there are more than the table has room for.
    pub merged: u32,
    /// Pairs of a destination and an uplink that leads there and has no part: those of [`Fabric::left_out`].
    pub left_out: u64,
}

impl Fabric {
    /// Rounds all groups of all leaves together: each within `limits`, those of a leaf within `table`.
    ///
    /// Equal problems give equal answers. The worst link loses no more than with [`Self::alone`]. A link that changes may
    /// change the weights of groups that it is no part of, so this is for a plan that is made anew, or kept for a while.
    /// A group that fits exactly is exact; of the others each has a part of the table by the number of its destinations.
    ///
    /// # Errors
    /// A leaf has more groups than its table has room for, and no two that could be merged: every two of them would leave
    /// a destination without a live member.
    pub fn together(&self, limits: Limits, table: Table) -> Result<Tables, TableTooSmall> {
        let tables = self.together_within(&|_| (limits, table));
        match tables.too_small.first() {
            Some(too_small) => Err(*too_small),
            None => Ok(tables),
        }
    }

    /// As [`Self::together`], with limits and a table for each leaf: leaves whose tables are too small are told in the answer, and cost
    /// others nothing.
    pub fn together_within(&self, of: &dyn Fn(SwitchId) -> (Limits, Table)) -> Tables {
        let plans = self.plans(of);
        let exact = Loads::exact(self, &plans);
        let mut steering = Steering::new(self, &plans, &exact);
        let mut loss = f64::INFINITY;
        for _ in 0..PASSES {
            steering.pass();
            loss = Loads::of(self, &plans, steering.weights()).worst_beside(&exact);
            if loss <= LOSS_ENOUGH {
                break;
            }
        }
        let weights = steering.into_weights();
        let alone = match loss > 0.0 {
            true => self.alone_if_better(&plans, &exact, loss),
            false => None,
        };
        match alone {
            Some((weights, loss)) => self.tables(plans, weights, loss, false),
            None => self.tables(plans, weights, loss, true),
        }
    }

    /// Rounds each group alone, with the part of the table that [`Self::together`] gives it: to compare with.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn alone(&self, limits: Limits, table: Table) -> Result<Tables, TableTooSmall> {
        let plans = self.plans(&|_| (limits, table));
        if let Some(too_small) = plans.iter().find_map(|plan| plan.too_small) {
            return Err(too_small);
        }
        let exact = Loads::exact(self, &plans);
        let mut quantizer = Quantizer::default();
        let alone = |plan: &Plan<'_>| plan.alone(self, &mut quantizer);
        let weights: Vec<Vec<u16>> = plans.iter().map(alone).collect();
        let loss = Loads::of(self, &plans, &weights).worst_beside(&exact);
        Ok(self.tables(plans, weights, loss, false))
    }

    /// Every uplink of the leaf that leads to a destination and has no part of the traffic to it, by destination, then
    /// by uplink. The solution must be of this fabric.
    pub fn left_out<'a>(
        &'a self,
        leaf: &'a LeafSolution,
    ) -> impl Iterator<Item = (SwitchId, Uplink)> + 'a {
        let source = &self.sources[leaf.place];
        leaf.destinations().flat_map(move |(to, group)| {
            let row = self.leaves.binary_search(&to).map(|place| self.row(place));
            let row = row.expect("a destination is a leaf");
            let weights = leaf.weights(group).weights.iter();
            let ports = source.ports.iter().zip(leaf.uplinks()).zip(weights);
            ports.filter_map(move |((port, uplink), weight)| {
                let column = source.ways[port.way].column;
                let leads = port.alive && self.onward_narrow[row[column] as usize] > 0;
                (leads && *weight == 0).then_some((to, *uplink))
            })
        })
    }

    fn plans(&self, of: &dyn Fn(SwitchId) -> (Limits, Table)) -> Vec<Plan<'_>> {
        let leaves = self.leaves.iter().enumerate();
        let plan = |(place, leaf): (usize, &SwitchId)| {
            let (limits, table) = of(*leaf);
            Plan::new(self, place, limits, table)
        };
        leaves.map(plan).collect()
    }

    /// Each group alone, if the worst link loses less so. One uplink that loses more is enough to know that it does not.
    fn alone_if_better(
        &self,
        plans: &[Plan<'_>],
        exact: &Loads,
        loss: f64,
    ) -> Option<(Vec<Vec<u16>>, f64)> {
        let mut quantizer = Quantizer::default();
        let mut weights = Vec::with_capacity(plans.len());
        for plan in plans {
            let alone = plan.alone(self, &mut quantizer);
            if exact.worst_uplink_beside(plan, &alone) > loss + LOSS_NONE {
                return None;
            }
            weights.push(alone);
        }
        let alone = Loads::of(self, plans, &weights).worst_beside(exact);
        (alone < loss).then_some((weights, alone))
    }

    fn tables(
        &self,
        plans: Vec<Plan<'_>>,
        weights: Vec<Vec<u16>>,
        loss: f64,
        together: bool,
    ) -> Tables {
        let mut leaves = Vec::with_capacity(plans.len());
        let mut used = Vec::with_capacity(plans.len());
        for (plan, weights) in plans.iter().zip(weights) {
            let (roundings, left_out) = plan.roundings(self, &weights);
            used.push(Used {
                leaf: self.leaves[plan.place],
                entries: roundings.iter().map(|rounding| rounding.parts).sum(),
                groups: count(roundings.iter().filter(|rounding| rounding.parts > 0)),
                merged: plan.merged,
                left_out,
            });
            leaves.push(LeafSolution {
                source: self.leaves[plan.place],
                place: plan.place,
                limits: plan.limits,
                leaves: Arc::clone(&self.leaves),
                group_of: plan.group_of(self.leaves.len()),
                uplinks: Arc::clone(&plan.source.uplinks),
                weights,
                roundings,
            });
        }
        Tables {
            leaves,
            used,
            loss,
            together,
            too_small: plans.iter().filter_map(|plan| plan.too_small).collect(),
        }
    }
}

fn count<'a>(roundings: impl Iterator<Item = &'a Rounding>) -> u32 {
    u32::try_from(roundings.count()).unwrap_or(u32::MAX)
}

/// A leaf has more groups than its table has room for, and none that could be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableTooSmall {
    /// The leaf.
    pub leaf: SwitchId,
    /// Its groups, after all merging that leaves each destination a live member.
    pub groups: usize,
    /// The entries of its table.
    pub entries_max: u32,
    /// The groups that its table has room for.
    pub groups_max: u32,
}

impl fmt::Display for TableTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            leaf: SwitchId(leaf),
            groups,
            entries_max,
            groups_max,
        } = *self;
        if groups_max < entries_max {
            return write!(
                f,
                "switch {leaf} needs {groups} groups, and its table has room for {groups_max}"
            );
        }
        write!(
            f,
            "switch {leaf} needs {groups} groups of at least a member each, and its table has {entries_max} entries"
        )
    }
}

impl std::error::Error for TableTooSmall {}

/// Passes over all groups: the first knows the errors of those before it, the next ones those of all others.
const PASSES: usize = 2;
/// A loss with which no other pass is made: in a large fabric that takes a third of the time.
const LOSS_ENOUGH: f64 = 0.01;
