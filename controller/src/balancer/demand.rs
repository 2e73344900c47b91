//! What jobs are known to send that no pin carries, beside what pins carry: weights follow from it where that leaves the busiest
//! link less to carry than weights by capacity. Weights to a leaf are for all that goes there, also for what nobody declared.
//! Pure. It refuses to know who pins, and switches.

use std::collections::BTreeMap;

use weft_weights::check;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::SwitchId;
use weft_weights::quantize::Limits;
use weft_weights::together::Table;
use weft_weights::traffic::{self, Background, BackgroundAbove, Grouping, Matrix, Utilization};

use super::solved::{Solved, fits};
use crate::fabric::fact::SwitchName;

/// What is sent between leaves, in bits per second.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Demand {
    /// From one leaf to another, by weights.
    between: BTreeMap<[SwitchName; 2], u64>,
    /// What pins carry between a leaf and a spine: up, and down.
    pinned: BTreeMap<[SwitchName; 2], [u64; 2]>,
    /// What they carry above a spine.
    above: BTreeMap<SwitchName, [u64; 2]>,
}

impl Demand {
    /// Adds what weights carry from one leaf to another.
    pub(super) fn send(&mut self, from: &SwitchName, to: &SwitchName, bps: u64) {
        if from != to {
            let known = self.between.entry([from.clone(), to.clone()]);
            let sum = known.or_default();
            *sum = sum.saturating_add(bps);
        }
    }

    /// Adds what a pin carries up from a leaf to a spine, or down.
    pub(super) fn pin(&mut self, leaf: &SwitchName, spine: &SwitchName, is_down: bool, bps: u64) {
        let known = self.pinned.entry([leaf.clone(), spine.clone()]);
        let sum = &mut known.or_default()[usize::from(is_down)];
        *sum = sum.saturating_add(bps);
    }

    /// Adds what a pin carries above a spine, from one pod to another: up, or down.
    pub(super) fn pin_above(&mut self, spine: &SwitchName, is_down: bool, bps: u64) {
        let known = self.above.entry(spine.clone());
        let sum = &mut known.or_default()[usize::from(is_down)];
        *sum = sum.saturating_add(bps);
    }

    /// The demand as a traffic matrix, in the numbers of a problem. What the problem does not have is left out.
    fn matrix(&self, solved: &Solved) -> Matrix {
        let numbers = |[a, b]: &[SwitchName; 2]| Some((solved.number(a)?, solved.number(b)?));
        let demands = self.between.iter().filter_map(|(ends, bps)| {
            let (from, to) = numbers(ends)?;
            let bps = *bps;
            Some(traffic::Demand { from, to, bps })
        });
        let background = self.pinned.iter().filter_map(|(ends, bps)| {
            let (leaf, spine) = numbers(ends)?;
            let [up_bps, down_bps] = *bps;
            Some(Background {
                leaf,
                spine,
                up_bps,
                down_bps,
            })
        });
        let above = self.above.iter().filter_map(|(spine, bps)| {
            let spine = solved.number(spine)?;
            let [up_bps, down_bps] = *bps;
            Some(BackgroundAbove {
                spine,
                up_bps,
                down_bps,
            })
        });
        Matrix {
            demands: demands.collect(),
            background: background.collect(),
            above: above.collect(),
        }
    }
}

/// Weights of all leaves for a demand.
#[derive(Debug)]
pub struct ByDemand {
    /// By leaf.
    pub(super) leaves: BTreeMap<SwitchId, LeafSolution>,
    /// How busy the busiest link is.
    pub utilization: Utilization,
}

impl ByDemand {
    /// Weights for a demand, counted anew; None: those by capacity are as good, or it takes too long to find others. Within
    /// `limits`, and in the tables that leaves have.
    pub(super) fn new(
        demand: &Demand,
        solved: &Solved,
        limits: Limits,
        table: impl Fn(SwitchId) -> Option<Table>,
    ) -> Option<Self> {
        let problem = solved.problem_of_all()?;
        let matrix = demand.matrix(solved);
        // Planes, of three tiers.
        let spines = solved.planes().problem().switches();
        let spines = spines.filter(|(_, tier)| *tier > 0).count();
        let work = matrix.demands.len().saturating_mul(spines);
        if matrix.demands.is_empty() || work > WORK_MAX {
            if work > WORK_MAX {
                tracing::debug!(work, "too much is sent to find weights for it");
            }
            return None;
        }
        let solution = traffic::solve(problem, &matrix, limits, Grouping::ByDestination);
        let solution = solution
            .inspect_err(|error| tracing::debug!(%error, "no weights by demand"))
            .ok()?;
        let utilization = solution.utilization;
        if utilization.weights > utilization.capacity_weights * WORTH {
            return None;
        }
        let counted = check::utilization(problem, &matrix, &solution.leaves);
        let counted = counted
            .inspect_err(|fault| tracing::error!(%fault, "weights by demand failed the check"))
            .ok()?;
        if counted.utilization > utilization.weights * (1.0 + EXACT) {
            tracing::error!(
                counted.utilization,
                "weights by demand are not as good as said"
            );
            return None;
        }
        let too_many =
            |leaf: &&LeafSolution| table(leaf.source()).is_some_and(|table| !fits(leaf, table));
        if let Some(leaf) = solution.leaves.iter().find(too_many) {
            let leaf = solved.name(leaf.source()).map(ToString::to_string);
            tracing::warn!(leaf, "its table has no room for weights by demand");
            return None;
        }
        let leaves = solution.leaves.into_iter();
        Some(Self {
            leaves: leaves.map(|leaf| (leaf.source(), leaf)).collect(),
            utilization,
        })
    }
}

/// Pairs of leaves with a demand times spines: about a third of a second of one thread, in which a link event waits.
const WORK_MAX: usize = 3 << 20;
/// The busiest link must have less than this part of what it has with weights by capacity, for weights to change.
const WORTH: f64 = 0.97;
/// What sums of floating point numbers in another order may differ by.
const EXACT: f64 = 1e-6;

#[cfg(test)]
mod tests;
