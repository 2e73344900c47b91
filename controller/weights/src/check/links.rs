//! What every link carries with the weights of all leaves, counted anew from the problem.
//!
//! It refuses to know how the weights were made: it shares no arithmetic with [`crate::together`] and believes nothing
//! that a solution says of itself but its weights.

use std::collections::BTreeSet;

use super::follow::{Follow, Uplink};
use super::{Fault, Wrong};
use crate::leaf::{LeafSolution, Weights};
use crate::problem::{Problem, SwitchId};
use crate::quantize::WEIGHT_MAX;

/// What the links of a fabric carry, where each leaf sends as much to each other leaf.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// What the worst link loses: 0.02 carries 2 % more than with exact weights. A link is an uplink, or all that a
    /// switch next to a leaf carries to one leaf.
    pub loss: f64,
    /// The load of the most loaded uplink, in traffic from one leaf to another.
    pub most: f64,
    /// The same with exact weights.
    pub most_exact: f64,
    /// Of each leaf, in order.
    pub leaves: Vec<Counted>,
}

/// What the groups of a leaf take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counted {
    /// Sum of all weights; a group counts once.
    pub entries: u64,
    /// Groups with a member; those with equal weights are one, as a switch has them once.
    pub groups: u64,
    /// Pairs of a destination and an uplink that leads there and has no part.
    pub left_out: u64,
}

/// Counts what all links carry.
///
/// # Errors
/// The solutions are not one for each leaf, in order; a group leads where nothing is alive, or nowhere although something
/// is; or its sum is not that of its weights.
pub fn links(problem: &Problem, solutions: &[LeafSolution]) -> Result<Links, Fault> {
    let follow = Follow::new(problem);
    let leaves: Vec<SwitchId> = follow.leaves().collect();
    let mut counted = Vec::with_capacity(leaves.len());
    let mut worst = Worst::default();
    // By destination, then by column: with the weights, and exact.
    let columns = leaves.first().map_or(0, |_| follow.carried_bps(0).len());
    let mut down = vec![(0.0, 0.0); leaves.len() * columns];
    let mut solutions = solutions.iter();
    for (place, source) in leaves.iter().enumerate() {
        let fault = |destination, wrong| Fault {
            source: *source,
            destination,
            wrong,
        };
        let solution = solutions
            .next()
            .filter(|solution| solution.source() == *source);
        let solution = solution.ok_or_else(|| fault(*source, Wrong::Missing))?;
        let uplinks = follow.uplinks(place);
        let mut up = vec![(0.0, 0.0); uplinks.len()];
        let mut groups = BTreeSet::new();
        let mut apart: BTreeSet<&[u16]> = BTreeSet::new();
        let mut leaf = Counted::default();
        for (to, destination) in leaves.iter().enumerate().filter(|(to, _)| *to != place) {
            let fault = |wrong| fault(*destination, wrong);
            let group = solution.group_of(*destination);
            let group = group.ok_or_else(|| fault(Wrong::Missing))?;
            let weights = solution.weights(group);
            let (wanted, all) = wanted(uplinks, follow.carried_bps(to));
            verify(&weights, uplinks, &wanted).map_err(fault)?;
            let parts = weights.parts;
            if groups.insert(group) {
                leaf.entries += u64::from(parts);
                leaf.groups += u64::from(parts > 0 && apart.insert(weights.weights));
            }
            for ((at, uplink), weight) in uplinks.iter().enumerate().zip(weights.weights) {
                if wanted[at] > 0.0 {
                    leaf.left_out += u64::from(*weight == 0);
                    let load = f64::from(*weight) / f64::from(parts);
                    let exact = wanted[at] / all;
                    for sums in [&mut up[at], &mut down[to * columns + uplink.column]] {
                        sums.0 += load;
                        sums.1 += exact;
                    }
                }
            }
        }
        up.iter().for_each(|link| worst.see(*link));
        counted.push(leaf);
    }
    let (most, most_exact) = (worst.most, worst.most_exact);
    down.iter().for_each(|link| worst.see(*link));
    Ok(Links {
        loss: worst.loss,
        most,
        most_exact,
        leaves: counted,
    })
}

/// What each uplink should carry to a destination, and all together.
fn wanted(uplinks: &[Uplink], carried_bps: &[f64]) -> (Vec<f64>, f64) {
    let of = |uplink: &Uplink| uplink.share * uplink.width_bps.min(carried_bps[uplink.column]);
    let wanted: Vec<f64> = uplinks.iter().map(of).collect();
    let all = wanted.iter().sum();
    (wanted, all)
}

/// A weight for every uplink, none too large or where nothing is alive, and the sum that the group says.
fn verify(group: &Weights<'_>, uplinks: &[Uplink], wanted: &[f64]) -> Result<(), Wrong> {
    if group.weights.len() != uplinks.len() {
        return Err(Wrong::Links);
    }
    let parts: u32 = group.weights.iter().map(|weight| u32::from(*weight)).sum();
    if parts != group.parts {
        return Err(Wrong::Parts(parts));
    }
    if parts == 0 && wanted.iter().any(|wanted| *wanted > 0.0) {
        return Err(Wrong::Empty);
    }
    for ((uplink, weight), wanted) in uplinks.iter().zip(group.weights).zip(wanted) {
        if *weight > 0 && *wanted == 0.0 {
            return Err(Wrong::DeadMember(uplink.link));
        }
        if *weight > WEIGHT_MAX {
            return Err(Wrong::Weight(uplink.link));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Worst {
    loss: f64,
    most: f64,
    most_exact: f64,
}

impl Worst {
    fn see(&mut self, (load, exact): (f64, f64)) {
        if exact > 0.0 {
            self.loss = self.loss.max(load / exact - 1.0);
        }
        self.most = self.most.max(load);
        self.most_exact = self.most_exact.max(exact);
    }
}
