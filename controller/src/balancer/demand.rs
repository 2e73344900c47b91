//! What jobs are known to send that no pin carries, beside what pins carry: weights follow from it where that leaves the busiest
//! link less to carry than weights by capacity. Weights to a leaf are for all that goes there, also for what nobody declared.
//! Pure. It refuses to know who pins, and switches.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_weights::check;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::SwitchId;
use weft_weights::quantize::Limits;
use weft_weights::together::Table;
use weft_weights::traffic::{
    self, Background, BackgroundAbove, Grouping, Matrix, TrafficError, Utilization,
};

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

/// Why weights are by capacity.
#[derive(Debug)]
pub(super) enum Instead {
    /// Nothing is sent that no pin carries, or weights by demand are no better.
    AsGood,
    /// There are no weights by demand; why.
    Impossible(Arc<str>),
}

impl Instead {
    /// Says why in the log, too.
    fn because(why: String) -> Self {
        tracing::debug!(why, "no weights by demand");
        Self::Impossible(why.into())
    }
}

impl ByDemand {
    /// Weights for a demand, counted anew. Within `limits`, and in the tables that leaves have.
    ///
    /// # Errors
    /// Weights by capacity are as good, or there are none by demand, or it takes too long to find them.
    pub(super) fn new(
        demand: &Demand,
        solved: &Solved,
        limits: Limits,
        table: impl Fn(SwitchId) -> Option<Table>,
    ) -> Result<Self, Instead> {
        let matrix = demand.matrix(solved);
        if matrix.demands.is_empty() {
            return Err(Instead::AsGood);
        }
        let foreign = "some leaves use only links that their neighbours confirm, and others do not";
        let problem = solved.problem_of_all();
        let problem = problem.ok_or_else(|| Instead::because(foreign.to_owned()))?;
        // Planes, of three tiers.
        let spines = solved.planes().problem().switches();
        let spines = spines.filter(|(_, tier)| *tier > 0).count();
        let work = matrix.demands.len().saturating_mul(spines);
        if work > WORK_MAX {
            let pairs = matrix.demands.len();
            let why = format!("{pairs} pairs of leaves over {spines} spines take too long");
            return Err(Instead::because(why));
        }
        let solution = traffic::solve(problem, &matrix, limits, Grouping::ByDestination)
            .map_err(|error| Instead::because(named(&error, solved)))?;
        let utilization = solution.utilization;
        if utilization.weights > utilization.capacity_weights * WORTH {
            return Err(Instead::AsGood);
        }
        let counted = check::utilization(problem, &matrix, &solution.leaves);
        let counted = counted.map_err(|fault| {
            tracing::error!(%fault, "weights by demand failed the check");
            Instead::because("they failed the check, as the log says".to_owned())
        })?;
        if counted.utilization > utilization.weights * (1.0 + EXACT) {
            tracing::error!(
                counted.utilization,
                "weights by demand are not as good as said"
            );
            let why = "they failed the check, as the log says";
            return Err(Instead::because(why.to_owned()));
        }
        let too_many =
            |leaf: &&LeafSolution| table(leaf.source()).is_some_and(|table| !fits(leaf, table));
        if let Some(leaf) = solution.leaves.iter().find(too_many) {
            let leaf = switch_name(leaf.source(), solved);
            tracing::warn!(leaf, "its table has no room for weights by demand");
            let why = format!("the table of {leaf} has no room for them");
            return Err(Instead::because(why));
        }
        let leaves = solution.leaves.into_iter();
        Ok(Self {
            leaves: leaves.map(|leaf| (leaf.source(), leaf)).collect(),
            utilization,
        })
    }
}

/// An error of the solver with the names of switches and links.
fn named(error: &TrafficError, solved: &Solved) -> String {
    match *error {
        TrafficError::TwoInPlane(one, other) => {
            let [one, other] = [one, other].map(|it| switch_name(it, solved));
            format!("{one} and {other} are in one pod and lead to the same super-spines")
        }
        TrafficError::SkipsTier(link) => {
            let link = solved.link(link).map(|link| link.name.to_string());
            let link = link.unwrap_or_else(|| "a link".to_owned());
            format!("{link} is neither from a leaf to a spine nor from there to a super-spine")
        }
        TrafficError::NotALeaf(switch) => format!("{} is no leaf", switch_name(switch, solved)),
        TrafficError::ToItself(leaf) => format!("{} sends to itself", switch_name(leaf, solved)),
        TrafficError::NoLink { leaf, spine } => {
            let [leaf, spine] = [leaf, spine].map(|it| switch_name(it, solved));
            format!("pins are counted between {leaf} and {spine}, where no link is alive")
        }
        TrafficError::NothingAbove(spine) => {
            let spine = switch_name(spine, solved);
            format!("pins are counted above {spine}, where no link is alive")
        }
    }
}

fn switch_name(switch: SwitchId, solved: &Solved) -> &str {
    solved.name(switch).map_or("a switch", SwitchName::as_str)
}

/// Pairs of leaves with a demand times spines: about a third of a second of one thread, in which a link event waits.
const WORK_MAX: usize = 3 << 20;
/// The busiest link must have less than this part of what it has with weights by capacity, for weights to change.
const WORTH: f64 = 0.97;
/// What sums of floating point numbers in another order may differ by.
const EXACT: f64 = 1e-6;

#[cfg(test)]
mod tests;
