//! Weights for a known traffic matrix: where it is known what leaves send to each other, the busiest link is used as little as
//! it can be, beside what other traffic loads links with already.
//!
//! For two tiers, leaves and spines, and for three, of pods with one spine in each plane: what is sent from one pod to another
//! counts on the links above both spines, too, where those of a spine count as one. Pairs of leaves without a demand keep the capacity-proportional weights of
//! [`Fabric::leaf`]. The answer is never worse than those on the matrix, and a bound by LP duality says how far it is from
//! the best. It refuses to know where demands come from, and flows: those are [`crate::pin`]'s.
//!
//! ```
//! use weft_weights::check;
//! use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
//! use weft_weights::quantize::Limits;
//! use weft_weights::traffic::{self, Background, Demand, Grouping, Matrix};
//!
//! // Two leaves, two spines, links of 100 Gb/s. Pinned flows take 60 Gb/s of the link from leaf 1 to spine 10.
//! let switch = |id, tier| Switch { id: SwitchId(id), tier };
//! let link = |id, a, b| Link {
//!     id: LinkId(id),
//!     ends: (SwitchId(a), SwitchId(b)),
//!     capacity_bps: 100_000_000_000,
//!     alive: true,
//! };
//! let problem = Problem::new(
//!     vec![switch(1, 0), switch(2, 0), switch(10, 1), switch(11, 1)],
//!     vec![link(0, 1, 10), link(1, 1, 11), link(2, 2, 10), link(3, 2, 11)],
//! )
//! .unwrap();
//! let matrix = Matrix {
//!     demands: vec![Demand { from: SwitchId(1), to: SwitchId(2), bps: 100_000_000_000 }],
//!     background: vec![Background {
//!         leaf: SwitchId(1),
//!         spine: SwitchId(10),
//!         up_bps: 60_000_000_000,
//!         down_bps: 0,
//!     }],
//!     above: Vec::new(),
//! };
//! let solution = traffic::solve(&problem, &matrix, Limits::default(), Grouping::ByDestination).unwrap();
//! // 20 % over spine 10 and 80 % over spine 11 load both links with 80 Gb/s; half and half would make it 110.
//! assert!(solution.utilization.weights < 0.802);
//! assert!(solution.utilization.bound > 0.799);
//! assert_eq!(solution.utilization.capacity_weights, 1.1);
//! let counted = check::utilization(&problem, &matrix, &solution.leaves).unwrap();
//! assert!((counted.utilization - solution.utilization.weights).abs() < 1e-9);
//! ```

use std::collections::BTreeMap;
use std::fmt;

use crate::fabric::Fabric;
use crate::fluid::{self, Bin, ENOUGH, Fluid};
use crate::leaf::LeafSolution;
use crate::problem::{LinkId, Problem, SwitchId};
use crate::quantize::Limits;

mod network;
mod round;
mod shares;

pub use shares::Shares;

use network::Network;
use round::{Loads, Rounder};

/// What one leaf sends to another. Several of the same two leaves add up; 0 is no demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// The leaf that sends.
    pub from: SwitchId,
    /// The leaf that takes.
    pub to: SwitchId,
    /// Bits per second.
    pub bps: u64,
}

/// Load that the links between a leaf and a spine have already, such as that of pinned flows. Several of the same two switches
/// add up. Parallel links share it in proportion to their capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Background {
    /// The leaf.
    pub leaf: SwitchId,
    /// The switch above it.
    pub spine: SwitchId,
    /// From the leaf to the spine, in bits per second.
    pub up_bps: u64,
    /// From the spine to the leaf, in bits per second.
    pub down_bps: u64,
}

/// Load that the links above a spine, to super-spines, have already. Several of the same spine add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackgroundAbove {
    /// The spine.
    pub spine: SwitchId,
    /// From the spine up, in bits per second.
    pub up_bps: u64,
    /// Down to the spine, in bits per second.
    pub down_bps: u64,
}

/// A traffic matrix, as a list of what is not 0, and what loads links beside it. In any order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Matrix {
    /// What leaves send to each other.
    pub demands: Vec<Demand>,
    /// What is on links of leaves already.
    pub background: Vec<Background>,
    /// What is on links above spines already.
    pub above: Vec<BackgroundAbove>,
}

/// Which destinations of a leaf share a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each destination with a demand may have weights of its own: the busiest link is used least. Destinations whose weights
    /// come out equal share a group.
    ByDestination,
    /// Destinations of one pod with equal live capacity from every spine share a group, those without a demand too: a leaf needs one
    /// group for each pod in a fabric without dead links. Load on the links down to one of them then takes away from all of them.
    ByCapacity,
}

/// Weights of all leaves for a traffic matrix, and how good they are.
#[derive(Debug)]
pub struct Solution {
    /// In order of the leaves; to be programmed as those of [`Fabric::leaf`].
    pub leaves: Vec<LeafSolution>,
    /// Of each of `leaves`: how many groups its table needs, those for destinations that nothing leads to aside.
    pub groups: Vec<usize>,
    /// What the weights are rounded from.
    pub shares: Shares,
    /// How busy the busiest link is.
    pub utilization: Utilization,
    /// Pairs of leaves with a demand and without a common spine, in order. They load no link.
    pub unreachable: Vec<(SwitchId, SwitchId)>,
}

/// Load / capacity of the busiest link, in either direction: 1 is full. A link is an uplink, or all links from a spine down to a
/// leaf together, or all links above a spine.
///
/// Over three tiers, capacity-proportional shares are by the least capacity of a way, over all super-spines that its spines share;
/// capacity-proportional weights are those of [`Fabric::leaf`], which counts the last link once for each super-spine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilization {
    /// With the shares.
    pub shares: f64,
    /// With the weights that the shares are rounded to.
    pub weights: f64,
    /// With capacity-proportional shares.
    pub capacity_shares: f64,
    /// With capacity-proportional weights, each group rounded alone.
    pub capacity_weights: f64,
    /// No shares whatever come to less, by LP duality.
    pub bound: f64,
}

/// Finds weights for a traffic matrix. Equal problems and matrices give equal solutions, whatever the order of their parts.
///
/// Time: some tens of passes over demands x spines, a few seconds where every two of 512 leaves send over 256 spines; a fraction
/// of that where the capacity-proportional weights are within 0.2 % of the bound, which then are the answer.
///
/// # Errors
/// The matrix names what is not a leaf, or a link that is not alive; the fabric has three tiers, and a pod with two spines in one
/// plane; or a link skips a tier.
pub fn solve(
    problem: &Problem,
    matrix: &Matrix,
    limits: Limits,
    grouping: Grouping,
) -> Result<Solution, TrafficError> {
    let fabric = Fabric::new(problem);
    let mut network = Network::new(problem, &fabric)?;
    if grouping == Grouping::ByCapacity {
        network.fluid.classify();
    }
    for it in &sorted(&matrix.background) {
        network.add_background(&fabric, *it)?;
    }
    for it in &sorted(&matrix.above) {
        network.add_above(*it)?;
    }
    let summed = summed(&fabric, &matrix.demands)?;
    let is_reachable = |demand: &fluid::Demand| network.fluid.reaches(demand.from, demand.to);
    let (mut demands, lost): (Vec<_>, Vec<_>) = summed.into_iter().partition(is_reachable);
    let bins = network.fluid.bins(&mut demands);
    let fluid = fluid::solve(&network.fluid, &demands, &bins);
    let name = |leaf: u32| fabric.leaves[leaf as usize];
    let lost = lost.iter().map(|it| (name(it.from), name(it.to)));
    Ok(Solution {
        unreachable: lost.collect(),
        ..rounded(&fabric, network, &demands, bins, fluid, limits)
    })
}

/// Weights from the shares that were found, or those by capacity where they are no worse.
fn rounded(
    fabric: &Fabric,
    network: Network,
    demands: &[fluid::Demand],
    bins: Vec<Bin>,
    fluid: Fluid,
    limits: Limits,
) -> Solution {
    let shares = Shares::new(fabric, network, fluid.factors, bins);
    let by_capacity = || fabric.leaves().filter_map(|it| fabric.leaf(it, limits));
    let mut loads = Loads::new(&shares);
    for leaf in by_capacity() {
        loads.add(&shares, demands, &leaf);
    }
    let capacity_weights = loads.busiest(&shares);
    let by_capacity_shares = fluid.used_by_capacity;
    let utilization = |shares, weights| Utilization {
        shares,
        weights,
        capacity_shares: by_capacity_shares,
        capacity_weights,
        bound: fluid.bound,
    };
    let is_enough = capacity_weights <= fluid.used * (1.0 + ENOUGH);
    if !(fluid.is_by_capacity && is_enough) {
        let mut rounder = Rounder::new(fabric, &shares, &fluid.loads, demands, limits);
        rounder.round();
        let weights = rounder.busiest();
        if weights < capacity_weights {
            let leaves = rounder.into_leaves();
            return Solution {
                groups: leaves.iter().map(groups).collect(),
                leaves,
                shares,
                utilization: utilization(fluid.used, weights),
                unreachable: Vec::new(),
            };
        }
    }
    let leaves: Vec<LeafSolution> = by_capacity().collect();
    Solution {
        groups: leaves.iter().map(groups).collect(),
        leaves,
        shares: shares.by_capacity(),
        utilization: utilization(by_capacity_shares, capacity_weights),
        unreachable: Vec::new(),
    }
}

/// The demands of each two leaves together, by their places, in order.
fn summed(fabric: &Fabric, demands: &[Demand]) -> Result<Vec<fluid::Demand>, TrafficError> {
    let place = |leaf: SwitchId| {
        let found = fabric.leaves.binary_search(&leaf);
        found.map_err(|_| TrafficError::NotALeaf(leaf))
    };
    let mut sums: BTreeMap<(usize, usize), u128> = BTreeMap::new();
    for demand in &sorted(demands) {
        if demand.from == demand.to {
            return Err(TrafficError::ToItself(demand.from));
        }
        let pair = (place(demand.from)?, place(demand.to)?);
        *sums.entry(pair).or_default() += u128::from(demand.bps);
    }
    let narrow = |place| u32::try_from(place).expect("leaves have numbers of 32 bits");
    let some = sums.into_iter().filter(|(_, bps)| *bps > 0);
    Ok(some
        .map(|((from, to), bps)| fluid::Demand {
            from: narrow(from),
            to: narrow(to),
            amount: bps as f64,
        })
        .collect())
}

/// In one order, so that the first of several faults is the same.
fn sorted<T: Copy + Ord>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all
}

/// Different rows of weights that are in use and have a member.
fn groups(leaf: &LeafSolution) -> usize {
    let mut groups: Vec<usize> = leaf.destinations().map(|(_, group)| group).collect();
    groups.sort_unstable();
    groups.dedup();
    let rows = groups.into_iter().map(|group| leaf.weights(group));
    let rows = rows.filter(|row| row.parts > 0);
    let mut rows: Vec<u64> = rows.map(|row| round::fingerprint(row.weights)).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.len()
}

/// Why a traffic matrix has no weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficError {
    /// A demand or a load is of a switch that is not a leaf of the problem.
    NotALeaf(SwitchId),
    /// A leaf has a demand to itself, which no link carries.
    ToItself(SwitchId),
    /// There is load between a leaf and a switch that no live link joins.
    NoLink {
        /// The leaf.
        leaf: SwitchId,
        /// The other switch.
        spine: SwitchId,
    },
    /// There is load above a switch that is no spine with a live link to a super-spine.
    NothingAbove(SwitchId),
    /// The fabric has three tiers, and these two switches of one pod lead to the same super-spines.
    TwoInPlane(SwitchId, SwitchId),
    /// The fabric has three tiers or more, and a live link that is not from a leaf to a spine or from there to a super-spine.
    SkipsTier(LinkId),
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotALeaf(SwitchId(id)) => write!(f, "switch {id} is not a leaf"),
            Self::ToItself(SwitchId(id)) => write!(f, "demand from leaf {id} to itself"),
            Self::NoLink { leaf, spine } => write!(
                f,
                "load between leaf {} and switch {} without a live link between them",
                leaf.0, spine.0
            ),
            Self::NothingAbove(SwitchId(id)) => {
                write!(f, "load above switch {id} without a live link there")
            }
            Self::TwoInPlane(SwitchId(a), SwitchId(b)) => write!(
                f,
                "switches {a} and {b} are in one pod and lead to the same super-spines"
            ),
            Self::SkipsTier(LinkId(id)) => write!(
                f,
                "link {id} is neither from a leaf to a spine nor from there to a super-spine"
            ),
        }
    }
}

impl std::error::Error for TrafficError {}

#[cfg(test)]
mod tests;
