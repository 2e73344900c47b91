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
    /// Load / capacity: 1 is full. Of an uplink, of all links from a spine down to a leaf together, or of all links between a spine
    /// and the tier above. 0 where nothing is loaded.
    pub utilization: f64,
    /// Which one it is; None where nothing is loaded.
    pub link: Option<BusyLink>,
    /// Whether it is busiest from the lower switch up.
    pub is_up: bool,
}

/// Links that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyLink {
    /// Between a leaf and the switch above it.
    OfLeaf(SwitchId, SwitchId),
    /// Above a spine.
    Above(SwitchId),
}

/// Counts what each link of two or three tiers carries. What is sent over a spine without a link down to the destination goes by a
/// super-spine to one that has one: to each of them all of it, should there be several. Demands between leaves without a way load
/// nothing.
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
    let over = Over::new(problem, &live);
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
            live.verify(&over, leaf, to, &group).map_err(fault)?;
            if let Some(bps) = demands.get(&(*source, *destination)) {
                counted.add(&live, &over, [leaf, to], (*bps, &group));
            }
        }
    }
    Ok(counted.busiest(&live, &over))
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
    /// What all live links between a leaf and a spine carry together, by leaf, then by spine.
    bundles: Vec<BTreeMap<usize, u128>>,
}

/// What is above spines.
struct Over {
    /// The live capacity of each spine to the tier above.
    above: Vec<u128>,
    /// The spines that each spine shares a live switch of the tier above with.
    to: Vec<Vec<usize>>,
    /// Whether what is sent up to a spine comes down to a leaf, by leaf, then by spine.
    leads: Vec<Vec<bool>>,
}

impl Over {
    fn new(problem: &Problem, live: &Live) -> Self {
        let mut up: Vec<BTreeMap<SwitchId, u128>> =
            live.spines.iter().map(|_| BTreeMap::new()).collect();
        for link in problem.links().filter(|link| link.alive) {
            let (a, b) = link.ends;
            let (low, high) = match problem.tier(a) < problem.tier(b) {
                true => (a, b),
                false => (b, a),
            };
            if problem.tier(low) == Some(1)
                && problem.tier(high) == Some(2)
                && let Ok(spine) = live.spines.binary_search(&low)
            {
                *up[spine].entry(high).or_default() += u128::from(link.capacity_bps);
            }
        }
        let mut below: BTreeMap<SwitchId, Vec<usize>> = BTreeMap::new();
        for (spine, cores) in up.iter().enumerate() {
            for core in cores.keys() {
                below.entry(*core).or_default().push(spine);
            }
        }
        let to = up.iter().enumerate().map(|(spine, cores)| {
            let met = cores.keys().flat_map(|core| &below[core]);
            let mut met: Vec<usize> = met.copied().filter(|other| *other != spine).collect();
            met.sort_unstable();
            met.dedup();
            met
        });
        let mut over = Self {
            to: to.collect(),
            above: up.iter().map(|cores| cores.values().sum()).collect(),
            leads: Vec::new(),
        };
        let spines = 0..live.spines.len();
        let leads = (0..live.leaves.len()).map(|leaf| {
            let leads = |spine| over.down(live, spine, leaf).next().is_some();
            spines.clone().map(leads).collect()
        });
        over.leads = leads.collect();
        over
    }

    /// The spines from which what is sent up to one comes down to a leaf: the same one if it has a link there.
    fn down<'a>(
        &'a self,
        live: &'a Live,
        spine: usize,
        leaf: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        let has = move |spine: &usize| live.bundles[leaf].contains_key(spine);
        let own = has(&spine).then_some(spine);
        let others = self.to[spine].iter().copied();
        let others = others.filter(move |other| own.is_none() && has(other));
        own.into_iter().chain(others)
    }
}

impl Live {
    fn new(problem: &Problem) -> Self {
        let leaves: Vec<SwitchId> = problem.leaves().collect();
        let spines = problem.switches().filter(|(_, tier)| *tier > 0);
        let spines: Vec<SwitchId> = spines.map(|(switch, _)| switch).collect();
        let mut live = Self {
            uplinks: leaves.iter().map(|_| Vec::new()).collect(),
            bundles: vec![BTreeMap::new(); leaves.len()],
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
            if bps > 0 {
                *live.bundles[leaf].entry(spine).or_default() += u128::from(bps);
            }
            live.uplinks[leaf].push(Uplink {
                link: link.id,
                spine,
                bps,
            });
        }
        live
    }

    /// A sum that is right, no weight too large or on a way that leads nowhere, and some weight where a way leads there.
    fn verify(
        &self,
        over: &Over,
        leaf: usize,
        to: usize,
        group: &Weights<'_>,
    ) -> Result<(), Wrong> {
        let uplinks = &self.uplinks[leaf];
        if group.weights.len() != uplinks.len() {
            return Err(Wrong::Links);
        }
        let (mut parts, mut leads) = (0, false);
        for (uplink, weight) in uplinks.iter().zip(group.weights) {
            let is_way = uplink.bps > 0 && over.leads[to][uplink.spine];
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
    down: Vec<BTreeMap<usize, f64>>,
    /// Above spines, up and down.
    above: [Vec<f64>; 2],
}

impl Counted {
    /// The background; parallel uplinks share it by capacity.
    fn new(live: &Live, matrix: &Matrix) -> Self {
        let mut loads: [BTreeMap<(SwitchId, SwitchId), u128>; 2] = Default::default();
        for it in &matrix.background {
            for (loads, bps) in loads.iter_mut().zip([it.up_bps, it.down_bps]) {
                *loads.entry((it.leaf, it.spine)).or_default() += u128::from(bps);
            }
        }
        let [up, down] = &loads;
        let of = |loads: &BTreeMap<_, u128>, leaf: usize, spine: usize| {
            let load = loads.get(&(live.leaves[leaf], live.spines[spine]));
            load.map_or(0.0, |load| *load as f64)
        };
        let leaves = 0..live.leaves.len();
        let of_uplinks = leaves.clone().map(|leaf| {
            let uplinks = live.uplinks[leaf].iter();
            let load = uplinks.map(|uplink| match live.bundles[leaf].get(&uplink.spine) {
                Some(bundle) => of(up, leaf, uplink.spine) * (uplink.bps as f64 / *bundle as f64),
                None => 0.0,
            });
            load.collect()
        });
        let of_leaf = |leaf: usize| {
            let spines = live.bundles[leaf].keys();
            spines
                .map(|spine| (*spine, of(down, leaf, *spine)))
                .collect()
        };
        let mut above = [0, 1].map(|_| vec![0.0; live.spines.len()]);
        for it in &matrix.above {
            if let Ok(spine) = live.spines.binary_search(&it.spine) {
                above[0][spine] += it.up_bps as f64;
                above[1][spine] += it.down_bps as f64;
            }
        }
        Self {
            up: of_uplinks.collect(),
            down: leaves.clone().map(of_leaf).collect(),
            above,
        }
    }

    fn add(
        &mut self,
        live: &Live,
        over: &Over,
        [leaf, to]: [usize; 2],
        (bps, group): (u128, &Weights<'_>),
    ) {
        if group.parts == 0 {
            return;
        }
        for (at, uplink) in live.uplinks[leaf].iter().enumerate() {
            let load = bps as f64 * f64::from(group.weights[at]) / f64::from(group.parts);
            self.up[leaf][at] += load;
            let mut is_above = false;
            for spine in over.down(live, uplink.spine, to) {
                *self.down[to].entry(spine).or_default() += load;
                if spine != uplink.spine {
                    is_above = true;
                    self.above[1][spine] += load;
                }
            }
            if is_above {
                self.above[0][uplink.spine] += load;
            }
        }
    }

    fn busiest(&self, live: &Live, over: &Over) -> Busiest {
        let mut busiest = Busiest {
            utilization: 0.0,
            link: None,
            is_up: false,
        };
        let mut see = |load: f64, capacity: f64, link: BusyLink, is_up| {
            if capacity > 0.0 && load / capacity > busiest.utilization {
                busiest = Busiest {
                    utilization: load / capacity,
                    link: Some(link),
                    is_up,
                };
            }
        };
        let of_leaf =
            |leaf: usize, spine: usize| BusyLink::OfLeaf(live.leaves[leaf], live.spines[spine]);
        for leaf in 0..live.leaves.len() {
            for (uplink, load) in live.uplinks[leaf].iter().zip(&self.up[leaf]) {
                see(*load, uplink.bps as f64, of_leaf(leaf, uplink.spine), true);
            }
            for (spine, load) in &self.down[leaf] {
                let bundle = live.bundles[leaf].get(spine).copied().unwrap_or_default();
                see(*load, bundle as f64, of_leaf(leaf, *spine), false);
            }
        }
        for (spine, switch) in live.spines.iter().enumerate() {
            for (loads, is_up) in self.above.iter().zip([true, false]) {
                see(
                    loads[spine],
                    over.above[spine] as f64,
                    BusyLink::Above(*switch),
                    is_up,
                );
            }
        }
        busiest
    }
}
