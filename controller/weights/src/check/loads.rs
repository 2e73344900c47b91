//! What the busiest link carries with the weights of all leaves and a traffic matrix, counted anew from the problem.
//!
//! It refuses to know how the weights were made: it reads links by the numbers of their switches, shares no arithmetic with
//! [`crate::traffic`], and believes nothing that a solution says of itself but its weights.

use std::collections::BTreeMap;

use super::{Fault, Wrong};
use crate::leaf::{LeafSolution, Weights};
use crate::problem::{Problem, SwitchId};
use crate::quantize::WEIGHT_MAX;
use crate::traffic::Matrix;

/// The link that is used most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busiest {
    /// Load / capacity: 1 is full. Of an uplink, or of all links from a spine down to a leaf together. 0 where nothing is loaded.
    pub utilization: f64,
    /// Its leaf and the switch above it; None where nothing is loaded.
    pub between: Option<(SwitchId, SwitchId)>,
    /// Whether it is busiest from the leaf up.
    pub is_up: bool,
}

/// Counts what each link of two tiers carries. Demands between leaves without a common spine load none.
///
/// # Errors
/// The solutions are not one for each leaf, in order, with a weight for each of its uplinks; a weight is on a link that leads
/// nowhere; or a demand has no weights although a spine leads there.
pub fn utilization(
    problem: &Problem,
    matrix: &Matrix,
    leaves: &[LeafSolution],
) -> Result<Busiest, Fault> {
    let live = Live::new(problem);
    let mut demands: BTreeMap<(SwitchId, SwitchId), u128> = BTreeMap::new();
    for demand in &matrix.demands {
        *demands.entry((demand.from, demand.to)).or_default() += u128::from(demand.bps);
    }
    let mut counted = Counted::new(&live, matrix);
    let mut solutions = leaves.iter();
    for (leaf, source) in live.leaves.iter().enumerate() {
        let fault = |destination, wrong| Fault {
            source: *source,
            destination,
            wrong,
        };
        let solution = solutions.next().filter(|it| it.source() == *source);
        let solution = solution.ok_or_else(|| fault(*source, Wrong::Missing))?;
        let uplinks = &live.uplinks[leaf];
        let links = solution.uplinks().iter().map(|it| (it.link, it.via));
        let same = links.eq(uplinks.iter().map(|it| (it.link, live.spines[it.spine])));
        if !same {
            return Err(fault(*source, Wrong::Links));
        }
        for (to, destination) in live.leaves.iter().enumerate() {
            if to == leaf {
                continue;
            }
            let fault = |wrong| fault(*destination, wrong);
            let group = solution.group_of(*destination);
            let group = solution.weights(group.ok_or_else(|| fault(Wrong::Missing))?);
            live.verify(leaf, to, &group).map_err(fault)?;
            if let Some(bps) = demands.get(&(*source, *destination)) {
                counted.add(&live, [leaf, to], *bps, &group);
            }
        }
    }
    Ok(counted.busiest(&live))
}

/// An uplink, dead or alive.
struct Uplink {
    link: crate::problem::LinkId,
    spine: usize,
    /// 0 for a dead one.
    bps: u64,
}

/// The links of the problem, by leaf.
struct Live {
    leaves: Vec<SwitchId>,
    spines: Vec<SwitchId>,
    uplinks: Vec<Vec<Uplink>>,
    /// Of all live links between a leaf and a spine.
    bundles: Vec<Vec<u128>>,
}

impl Live {
    fn new(problem: &Problem) -> Self {
        let leaves: Vec<SwitchId> = problem.leaves().collect();
        let spines = problem.switches().filter(|(_, tier)| *tier > 0);
        let spines: Vec<SwitchId> = spines.map(|(switch, _)| switch).collect();
        let mut live = Self {
            uplinks: leaves.iter().map(|_| Vec::new()).collect(),
            bundles: vec![vec![0; spines.len()]; leaves.len()],
            leaves,
            spines,
        };
        for link in problem.links() {
            let (a, b) = link.ends;
            let of = |low, high| {
                let leaf = live.leaves.binary_search(&low).ok()?;
                Some((leaf, live.spines.binary_search(&high).ok()?))
            };
            let Some((leaf, spine)) = of(a, b).or_else(|| of(b, a)) else {
                continue;
            };
            let bps = if link.alive { link.capacity_bps } else { 0 };
            live.bundles[leaf][spine] += u128::from(bps);
            live.uplinks[leaf].push(Uplink {
                link: link.id,
                spine,
                bps,
            });
        }
        live
    }

    /// A sum that is right, no weight too large or on a way that leads nowhere, and some weight where a way leads there.
    fn verify(&self, leaf: usize, to: usize, group: &Weights<'_>) -> Result<(), Wrong> {
        let uplinks = &self.uplinks[leaf];
        if group.weights.len() != uplinks.len() {
            return Err(Wrong::Links);
        }
        let (mut parts, mut leads) = (0, false);
        for (uplink, weight) in uplinks.iter().zip(group.weights) {
            let is_way = uplink.bps > 0 && self.bundles[to][uplink.spine] > 0;
            leads |= is_way;
            parts += u32::from(*weight);
            if *weight > 0 && !is_way {
                return Err(Wrong::DeadMember(uplink.link));
            }
            if *weight > WEIGHT_MAX {
                return Err(Wrong::Weight(uplink.link));
            }
        }
        if parts != group.parts {
            return Err(Wrong::Parts(parts));
        }
        if parts == 0 && leads {
            return Err(Wrong::Empty);
        }
        Ok(())
    }
}

/// Loads in bits per second.
struct Counted {
    /// By leaf, then by uplink.
    up: Vec<Vec<f64>>,
    /// By leaf, then by spine.
    down: Vec<Vec<f64>>,
}

impl Counted {
    /// The background; parallel uplinks share it by capacity.
    fn new(live: &Live, matrix: &Matrix) -> Self {
        let mut up: BTreeMap<(SwitchId, SwitchId), u128> = BTreeMap::new();
        let mut down = up.clone();
        for it in &matrix.background {
            *up.entry((it.leaf, it.spine)).or_default() += u128::from(it.up_bps);
            *down.entry((it.leaf, it.spine)).or_default() += u128::from(it.down_bps);
        }
        let of = |loads: &BTreeMap<_, u128>, leaf: usize, spine: usize| {
            let load = loads.get(&(live.leaves[leaf], live.spines[spine]));
            load.map_or(0.0, |load| *load as f64)
        };
        let leaves = 0..live.leaves.len();
        let of_uplinks = leaves.clone().map(|leaf| {
            let uplinks = live.uplinks[leaf].iter();
            let load = uplinks.map(|uplink| match uplink.bps {
                0 => 0.0,
                bps => {
                    let bundle = live.bundles[leaf][uplink.spine] as f64;
                    of(&up, leaf, uplink.spine) * (bps as f64 / bundle)
                }
            });
            load.collect()
        });
        let spines = live.spines.len();
        let of_leaf = |leaf| (0..spines).map(|spine| of(&down, leaf, spine)).collect();
        Self {
            up: of_uplinks.collect(),
            down: leaves.clone().map(of_leaf).collect(),
        }
    }

    fn add(&mut self, live: &Live, [leaf, to]: [usize; 2], bps: u128, group: &Weights<'_>) {
        if group.parts == 0 {
            return;
        }
        for (at, uplink) in live.uplinks[leaf].iter().enumerate() {
            let load = bps as f64 * f64::from(group.weights[at]) / f64::from(group.parts);
            self.up[leaf][at] += load;
            self.down[to][uplink.spine] += load;
        }
    }

    fn busiest(&self, live: &Live) -> Busiest {
        let mut busiest = Busiest {
            utilization: 0.0,
            between: None,
            is_up: false,
        };
        let mut see = |load: f64, capacity: f64, leaf: usize, spine: usize, is_up| {
            if capacity > 0.0 && load / capacity > busiest.utilization {
                busiest = Busiest {
                    utilization: load / capacity,
                    between: Some((live.leaves[leaf], live.spines[spine])),
                    is_up,
                };
            }
        };
        for leaf in 0..live.leaves.len() {
            for (uplink, load) in live.uplinks[leaf].iter().zip(&self.up[leaf]) {
                see(*load, uplink.bps as f64, leaf, uplink.spine, true);
            }
            for (spine, load) in self.down[leaf].iter().enumerate() {
                see(*load, live.bundles[leaf][spine] as f64, leaf, spine, false);
            }
        }
        busiest
    }
}
