//! A bound for pins by LP duality: what no placement can be better than, were sub-flows divided at will.
//!
//! [`super::Bound`] looks at each leaf, each pod and each pair of them in whole sub-flows. This looks at all flows together, so
//! that it also sees several leaves that have too few spines in common; but it does not see that sub-flows are whole. It refuses
//! to know placements.

use std::collections::{BTreeMap, BTreeSet};

use super::{Flows, Infeasible, Phase, Plane};
use crate::fluid::{self, Demand, Lengths, Network, certified};

/// Sub-flows on the most loaded link / its capacity that every placement has at least at the worst time, where phases of one job
/// never run together: to be compared with `level.subflows as f64 / level.capacity as f64` of a [`super::Level`]. In the unit of
/// the capacities; 0 without flows. `phases` has an entry for each flow; None: it is always there.
///
/// Never less than what the links of a leaf prove, or of those above the spines of a pod, but for a billionth. Takes some tens of
/// passes over pairs of leaves x spines, a few seconds at most.
///
/// # Errors
/// A flow has no way at all, or is none, or has no entry in `phases`: as [`super::place_in_phases`].
pub fn lower_bound_by_duality(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
) -> Result<f64, Infeasible> {
    flows.check(plane.leaves().len())?;
    if phases.len() != flows.all.len() {
        let flow = phases.len().min(flows.all.len());
        return Err(Infeasible::NoFlow { flow });
    }
    let network = network(plane);
    for ((from, to), _) in flows.demands.pairs() {
        if !network.reaches(*from, *to) {
            return Err(no_way(plane, *from as usize, *to as usize));
        }
    }
    let sent = Sent::new(flows, phases);
    let mut bound = of_rows(plane, flows, phases)?;
    let mut tried = BTreeSet::new();
    for number in 0..sent.phases_most().min(PHASES_MAX) {
        let mut chosen = sent.choice(number);
        for _ in 0..TURNS_MAX {
            if !tried.insert(chosen.clone()) {
                break;
            }
            let mut demands = sent.of(&chosen);
            let bins = network.bins(&mut demands);
            let fluid = fluid::solve(&network, &demands, &bins);
            bound = bound.max(fluid.bound);
            let Some(lengths) = fluid.lengths.filter(|_| !sent.of_jobs.is_empty()) else {
                break;
            };
            let (proved, costliest) = sent.costliest(&network, &lengths);
            bound = bound.max(proved);
            chosen = costliest;
        }
    }
    Ok(bound)
}

/// What the links of each leaf, and those above the spines of each pod, prove: each has the phases of jobs that need most of it.
fn of_rows(plane: &Plane, flows: &Flows, phases: &[Option<Phase>]) -> Result<f64, Infeasible> {
    let proved = |plane: &Plane, flows: &Flows| {
        let level = flows.demands.fluid(plane)?.level;
        Ok(certified(level.subflows as f64, level.capacity as f64))
    };
    let below = proved(plane, &Flows::at_worst(flows.all.clone(), phases))?;
    Ok(match plane.onward() {
        Some(onward) => below.max(proved(
            onward.pods(),
            &onward.flows_in_phases(flows, phases),
        )?),
        None => below,
    })
}

/// The live links of a plane, those between a leaf and a spine as one, and those above a spine.
fn network(plane: &Plane) -> Network {
    let (leaves, spines) = (plane.leaves().len(), plane.spines().len());
    let capacities = |plane: &Plane| {
        let cells = 0..plane.leaves().len() * spines;
        let capacity = |cell| {
            let links = plane.links_at(cell).iter();
            links.map(|link| u128::from(*link)).sum::<u128>() as f64
        };
        cells.map(capacity).collect::<Vec<f64>>()
    };
    let network = Network::new(leaves, spines, capacities(plane));
    let Some(onward) = plane.onward() else {
        return network;
    };
    let above = capacities(onward.pods());
    let rows = || above.chunks(spines.max(1));
    let pairs = rows().flat_map(|up| rows().map(move |down| up.iter().zip(down)));
    let between = pairs.flat_map(|pair| pair.map(|(up, down)| up.min(*down)));
    let between = between.collect();
    network.with_pods(onward.pod_of().to_vec(), &above, between)
}

/// What is sent, by two leaves.
type Pairs = BTreeMap<(u32, u32), u64>;

/// Flows by when they are sent.
struct Sent {
    always: Pairs,
    /// Of each job, its phases, the largest first.
    of_jobs: Vec<Vec<Pairs>>,
}

impl Sent {
    fn new(flows: &Flows, phases: &[Option<Phase>]) -> Self {
        let mut always = Pairs::new();
        let mut of_jobs: BTreeMap<u32, BTreeMap<u32, Pairs>> = BTreeMap::new();
        for (flow, phase) in flows.all.iter().zip(phases) {
            let pairs = match phase {
                Some(Phase { job, phase }) => {
                    of_jobs.entry(*job).or_default().entry(*phase).or_default()
                }
                None => &mut always,
            };
            *pairs.entry((flow.from, flow.to)).or_default() += u64::from(flow.subflows);
        }
        let largest_first = |phases: BTreeMap<u32, Pairs>| {
            let mut phases: Vec<Pairs> = phases.into_values().collect();
            phases.sort_by_key(|pairs| std::cmp::Reverse(pairs.values().sum::<u64>()));
            phases
        };
        Self {
            always,
            of_jobs: of_jobs.into_values().map(largest_first).collect(),
        }
    }

    /// Phases of the job that has most of them; 1 without any.
    fn phases_most(&self) -> usize {
        let counts = self.of_jobs.iter().map(Vec::len);
        counts.max().unwrap_or(1)
    }

    /// Of each job its phase with a number, or its last one.
    fn choice(&self, number: usize) -> Vec<usize> {
        let last = |phases: &Vec<Pairs>| phases.len() - 1;
        self.of_jobs.iter().map(|it| number.min(last(it))).collect()
    }

    /// What is always sent, with one phase of each job.
    fn of(&self, chosen: &[usize]) -> Vec<Demand> {
        let phases = self.of_jobs.iter().zip(chosen);
        let phases = phases.map(|(phases, chosen)| &phases[*chosen]);
        let mut all = Pairs::new();
        for (ends, subflows) in std::iter::once(&self.always).chain(phases).flatten() {
            *all.entry(*ends).or_default() += subflows;
        }
        let demand = |((from, to), subflows): ((u32, u32), u64)| Demand {
            from,
            to,
            amount: subflows as f64,
        };
        all.into_iter().map(demand).collect()
    }

    /// What lengths prove, and of each job the phase that costs most with them: that one may run while those of the others do.
    fn costliest(&self, network: &Network, lengths: &Lengths) -> (f64, Vec<usize>) {
        let [mut needed, there] = lengths.of_links(network);
        let ways = lengths.ways(network);
        let cost = |pairs: &Pairs| {
            let pairs = pairs.iter();
            let costs = pairs.map(|((from, to), it)| *it as f64 * ways.shortest(*from, *to));
            costs.sum::<f64>()
        };
        needed += cost(&self.always);
        let of_job = |phases: &Vec<Pairs>| {
            let costs = phases.iter().map(cost).enumerate();
            let costliest = costs.reduce(|most, next| if next.1 > most.1 { next } else { most });
            let (chosen, cost) = costliest.unwrap_or_default();
            needed += cost;
            chosen
        };
        let chosen = self.of_jobs.iter().map(of_job).collect();
        (certified(needed, there), chosen)
    }
}

fn no_way(plane: &Plane, from: usize, to: usize) -> Infeasible {
    let without = [from, to]
        .into_iter()
        .find(|leaf| plane.capacity(*leaf) == 0);
    match without {
        Some(leaf) => Infeasible::NoLink { leaf },
        None => Infeasible::NoWay { from, to },
    }
}

/// Of each job, the largest phases with which a bound is looked for.
const PHASES_MAX: usize = 16;
/// Times that phases are chosen anew, by what the last ones prove.
const TURNS_MAX: usize = 3;

#[cfg(test)]
mod tests;
