//! A plan for a fabric as it might be: weights and pins, and what they come to, beside what is there.
//!
//! Pure: nothing is held from one simulation to the next. It refuses to know who asks, and what becomes of the answer.

use std::sync::Arc;

use weft_weights::quantize::Limits;

use super::pins::predict::{Prediction, predict};
use super::solved::Solved;
use super::{Inputs, Plan, Rejected};
use crate::fabric::live::Live;
use crate::fabric::pin::Pins;
use crate::fabric::topology::{SwitchName, Topology};

/// What would be planned.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Pins, and what they come to.
    pub prediction: Prediction,
    /// How good weights are.
    pub weights: Weights,
}

/// How good the weights of all leaves are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights {
    /// How many leaves there are.
    pub leaves: usize,
    /// Leaves whose weights are others than in the plan in force.
    pub changed: usize,
    /// Pairs of leaves of which the first has no live way to the second.
    pub unreachable: usize,
    /// How far rounding overloads the worst next hop, in millionths of its share; 0: not at all.
    pub overload_ppm: u64,
    /// The leaf that has it.
    pub overloaded: Option<SwitchName>,
}

/// Plans for a topology with its jobs. With a plan that is in force, links are seen as that sees them, and weights are compared
/// with its; without, every link is up that nobody set down. `past` are the pins that stay where they can. `None`: it ended early,
/// since nobody waits for it any more.
///
/// # Errors
/// The topology is no problem, or a solution does not pass the check: both are mistakes of ours.
pub fn simulate(
    in_force: Option<&Plan>,
    topology: &Topology,
    past: &Pins,
    is_awaited: &dyn Fn() -> bool,
) -> Result<Option<Simulation>, Rejected> {
    let now = in_force.and_then(|plan| plan.solved.as_deref());
    let network = Arc::new(topology.clone());
    let solved = match now {
        Some(now) => now.of_topology(network)?,
        None => {
            let inputs = Inputs {
                topology: network,
                ..Inputs::default()
            };
            Solved::new(&inputs, Live::default(), Limits::default())?
        }
    };
    let weights = weights(&solved, now, is_awaited)?;
    if !is_awaited() {
        return Ok(None);
    }
    let prediction = predict(&solved, topology, past, is_awaited);
    let simulation = Simulation {
        prediction,
        weights,
    };
    Ok(is_awaited().then_some(simulation))
}

/// Solves leaf by leaf, and keeps no weights.
fn weights(
    solved: &Solved,
    now: Option<&Solved>,
    is_awaited: &dyn Fn() -> bool,
) -> Result<Weights, Rejected> {
    let now = now.filter(|now| now.is_named_as(solved));
    let mut made = Weights::default();
    for leaf in solved.leaves().take_while(|_| is_awaited()) {
        let Some(solution) = solved.solution(leaf) else {
            continue;
        };
        let solution = solution?;
        made.leaves += 1;
        if let Some(now) = now
            && now.solution(leaf).transpose()?.as_ref() != Some(&solution)
        {
            made.changed += 1;
        }
        for (_, group) in solution.destinations() {
            let weights = solution.weights(group);
            made.unreachable += usize::from(weights.parts == 0);
            let over = weights.delta_ppm.saturating_sub(EXACT_PPM);
            if over > made.overload_ppm {
                made.overload_ppm = over;
                made.overloaded = Some(leaf.clone());
            }
        }
    }
    Ok(made)
}

/// A next hop with exactly its share.
const EXACT_PPM: u64 = 1_000_000;
