//! An independent check of a placement: every sub-flow, every link, from the problem and the flows alone.
//!
//! The count shares nothing with the placement but flows and parts: live links are found anew, by the numbers of their switches,
//! and loads are summed in whole sub-flows.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Flows, Part, Phase};
use crate::problem::{Problem, SwitchId};

/// What a recount finds.
#[derive(Clone, Debug, PartialEq)]
pub struct Recount {
    /// Sub-flows on the most loaded link, of its capacity in bits per second.
    pub worst: (u64, u64),
    /// Leaves and spines by their places, with a link between them that is loaded so; 16 of them at most.
    pub tight: Vec<(u32, u32)>,
    /// How many of them there are.
    pub tight_count: usize,
    /// Parts of all flows.
    pub parts: usize,
    /// Parts of the leaf that has most to pin.
    pub parts_of_leaf_max: usize,
}

impl Recount {
    /// Load of the worst link if each sub-flow sends so many bits per second: 1 is its capacity.
    pub fn load(&self, subflow_bps: f64) -> f64 {
        let (subflows, capacity_bps) = self.worst;
        subflows as f64 * subflow_bps / capacity_bps as f64
    }
}

/// What is wrong with a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A flow by its place that has other sub-flows than its own.
    Subflows(u32),
    /// A part of this flow goes over a spine without a live link to one of its leaves.
    NoWay(u32),
    /// A part names a flow or a spine that is not there.
    Unknown(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subflows(flow) => write!(f, "flow {flow}: not all of its sub-flows, or more"),
            Self::NoWay(flow) => write!(f, "flow {flow}: a part goes where no link is"),
            Self::Unknown(flow) => write!(f, "flow {flow}: no such flow or spine"),
        }
    }
}

impl std::error::Error for Fault {}

/// Counts what every link carries. Near linear in links and parts.
///
/// # Errors
/// The first fault, in the order of the parts.
pub fn recount(problem: &Problem, flows: &Flows, parts: &[Part]) -> Result<Recount, Fault> {
    counted(problem, flows, parts, |_| None)
}

/// Counts like [`recount`] what every link carries at most, where phases of one job never run together.
///
/// # Errors
/// The first fault, in the order of the parts; [`Fault::Unknown`] for a flow without an entry in `phases`.
pub fn recount_in_phases(
    problem: &Problem,
    flows: &Flows,
    phases: &[Option<Phase>],
    parts: &[Part],
) -> Result<Recount, Fault> {
    let unknown = parts.iter().find(|part| part.flow as usize >= phases.len());
    match unknown {
        Some(part) => Err(Fault::Unknown(part.flow)),
        None => counted(problem, flows, parts, |flow| phases[flow as usize]),
    }
}

fn counted(
    problem: &Problem,
    flows: &Flows,
    parts: &[Part],
    phase: impl Fn(u32) -> Option<Phase>,
) -> Result<Recount, Fault> {
    // Sub-flows of each phase of a job over a cell, in a direction.
    let mut apart: BTreeMap<(usize, usize, u32), BTreeMap<u32, u64>> = BTreeMap::new();
    let tier = |wanted: u8| {
        let switches = problem.switches().filter(move |(_, tier)| *tier == wanted);
        switches.map(|(switch, _)| switch).collect::<Vec<_>>()
    };
    let (leaves, spines) = (tier(0), tier(1));
    let mut bundles = Bundles::new(problem, &leaves, &spines);
    let mut subflows = vec![0_u64; flows.all().len()];
    let mut of_leaf = vec![0_usize; leaves.len()];
    for part in parts {
        let flow = flows.all().get(part.flow as usize);
        let flow = flow.filter(|_| (part.spine as usize) < spines.len());
        let flow = flow.ok_or(Fault::Unknown(part.flow))?;
        subflows[part.flow as usize] += u64::from(part.subflows);
        if subflows[part.flow as usize] > u64::from(flow.subflows) {
            return Err(Fault::Subflows(part.flow));
        }
        for (leaf, direction) in [(flow.from, 0), (flow.to, 1)] {
            let cell = leaf as usize * spines.len() + part.spine as usize;
            let bundle = bundles.all.get_mut(cell).ok_or(Fault::Unknown(part.flow))?;
            if bundle.count == 0 {
                return Err(Fault::NoWay(part.flow));
            }
            *match phase(part.flow) {
                Some(Phase { job, phase }) => {
                    let of_job = apart.entry((cell, direction, job)).or_default();
                    of_job.entry(phase).or_default()
                }
                None => &mut bundle.carried[direction],
            } += u64::from(part.subflows);
        }
        of_leaf[flow.from as usize] += 1;
    }
    let mut counts = subflows.iter().zip(flows.all());
    let wrong = counts.position(|(count, flow)| *count != u64::from(flow.subflows));
    if let Some(flow) = wrong {
        return Err(Fault::Subflows(flow as u32));
    }
    for ((cell, direction, _), of_phase) in apart {
        bundles.all[cell].carried[direction] += of_phase.values().max().unwrap_or(&0);
    }
    let (worst, cells) = bundles.worst();
    let spines = spines.len().max(1);
    let tight = cells.iter().take(TIGHT_MAX);
    Ok(Recount {
        worst,
        tight: tight
            .map(|cell| ((cell / spines) as u32, (cell % spines) as u32))
            .collect(),
        tight_count: cells.len(),
        parts: parts.len(),
        parts_of_leaf_max: of_leaf.into_iter().max().unwrap_or_default(),
    })
}

/// Whether the first load of the two is higher.
pub(super) fn exceeds(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) * u128::from(b.1) > u128::from(b.0) * u128::from(a.1)
}

/// Live links between each leaf and each spine, and what they carry.
struct Bundles {
    all: Vec<Bundle>,
    /// Capacities of bundles of more than one link, by cell.
    wide: HashMap<usize, Vec<u64>>,
}

#[derive(Clone, Copy, Default)]
struct Bundle {
    count: u32,
    /// Of its only link.
    capacity: u64,
    /// Sub-flows up and down.
    carried: [u64; 2],
}

impl Bundles {
    fn new(problem: &Problem, leaves: &[SwitchId], spines: &[SwitchId]) -> Self {
        let mut bundles = Self {
            all: vec![Bundle::default(); leaves.len() * spines.len()],
            wide: HashMap::new(),
        };
        let place = |switches: &[SwitchId], switch: &SwitchId| switches.binary_search(switch).ok();
        for link in problem.links().filter(|link| link.alive) {
            let (a, b) = link.ends;
            let up = place(leaves, &a).zip(place(spines, &b));
            let ends = up.or_else(|| place(leaves, &b).zip(place(spines, &a)));
            let Some((leaf, spine)) = ends else { continue };
            let cell = leaf * spines.len() + spine;
            let bundle = &mut bundles.all[cell];
            if bundle.count > 0 {
                let wide = bundles
                    .wide
                    .entry(cell)
                    .or_insert_with(|| vec![bundle.capacity]);
                wide.push(link.capacity_bps);
            }
            bundle.count += 1;
            bundle.capacity = link.capacity_bps;
        }
        bundles
    }

    /// The worst link of all, as sub-flows and its capacity, and the cells where a link is loaded so.
    fn worst(&self) -> ((u64, u64), Vec<usize>) {
        let (mut worst, mut cells) = ((0, 1), Vec::new());
        for (cell, bundle) in self.all.iter().enumerate().filter(|(_, it)| it.count > 0) {
            let loads = bundle.carried.map(|carried| match bundle.count {
                1 => (carried, bundle.capacity),
                _ => divided(&self.wide[&cell], carried),
            });
            let load = match exceeds(loads[1], loads[0]) {
                true => loads[1],
                false => loads[0],
            };
            if exceeds(load, worst) {
                worst = load;
                cells.clear();
            }
            if load.0 > 0 && !exceeds(worst, load) {
                cells.push(cell);
            }
        }
        (worst, cells)
    }
}

/// Links that a person looks at.
const TIGHT_MAX: usize = 16;

/// The worst of some links once each sub-flow takes the link that it loads least.
pub(super) fn divided(capacities: &[u64], carried: u64) -> (u64, u64) {
    if let [one] = capacities {
        return (carried, *one);
    }
    let mut loads: Vec<(u64, u64)> = capacities.iter().map(|capacity| (0, *capacity)).collect();
    for _ in 0..carried {
        let after = |load: &(u64, u64)| (load.0 + 1, load.1);
        let least = (0..loads.len()).reduce(|least, next| {
            match exceeds(after(&loads[least]), after(&loads[next])) {
                true => next,
                false => least,
            }
        });
        if let Some(least) = least {
            loads[least].0 += 1;
        }
    }
    let worst = loads
        .into_iter()
        .reduce(|worst, next| match exceeds(next, worst) {
            true => next,
            false => worst,
        });
    worst.unwrap_or((0, 1))
}
