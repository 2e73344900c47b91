//! What no placement can be better than: the least level at which a leaf's links hold what it sends or takes, and the spines that
//! two leaves share hold what one sends to the other.

use super::plane::{Level, Plane, TRIED};
use super::{Flow, Flows, Infeasible, Phase};

/// The least level of any placement in whole sub-flows, as far as leaves and pairs of leaves decide it, and what decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No placement has a link above a lower one.
    pub level: Level,
    /// Why.
    pub tight: Tight,
    /// What goes from pod to pod decides it: `tight` names pods in place of leaves, by their places.
    pub of_pods: bool,
}

impl Bound {
    /// The higher one of two; this one, if they are equal.
    pub(super) fn or_higher(self, other: Self) -> Self {
        match other.level > self.level {
            true => other,
            false => self,
        }
    }
}

/// What a bound is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tight {
    /// Nothing has to be sent.
    Nothing,
    /// What a leaf sends, by its place.
    Sends(usize),
    /// What a leaf takes.
    Takes(usize),
    /// What the first leaf sends to the second, over the spines that both have.
    Pair(usize, usize),
}

/// The bound of flows on a plane.
///
/// # Errors
/// Leaves that have flows and no way to each other.
pub(super) fn bound(plane: &Plane, flows: &Flows) -> Result<Bound, Infeasible> {
    let demands = &flows.demands;
    let mut bound = demands.fluid(plane)?;
    let unmet = |level| {
        let slots = plane.slots(level, flows.most());
        demands.unmet(plane, [&slots, &slots])
    };
    // Rounding costs some steps of some links.
    for tried in 0.. {
        let Some(tight) = unmet(bound.level) else {
            return Ok(bound);
        };
        let level = plane.above(bound.level).ok_or_else(|| infeasible(tight))?;
        bound = Bound {
            level,
            tight,
            of_pods: false,
        };
        if tried == TRIED {
            break;
        }
    }
    // Links differ much: the steps of each capacity are halved again and again.
    let mut high = bound.level;
    while let Some(tight) = unmet(high) {
        bound.tight = tight;
        high.subflows = high.subflows.saturating_mul(2);
    }
    bound.level = plane
        .distinct()
        .iter()
        .map(|capacity| {
            let (mut least, mut most) = (0, high.holds(*capacity) + 1);
            while least < most {
                let subflows = least + (most - least) / 2;
                let level = Level {
                    subflows,
                    capacity: *capacity,
                };
                match unmet(level) {
                    Some(_) => least = subflows + 1,
                    None => most = subflows,
                }
            }
            Level {
                subflows: least,
                capacity: *capacity,
            }
        })
        .min()
        .unwrap_or(high);
    Ok(bound)
}

fn infeasible(tight: Tight) -> Infeasible {
    match tight {
        Tight::Pair(from, to) => Infeasible::NoWay { from, to },
        Tight::Sends(leaf) | Tight::Takes(leaf) => Infeasible::NoLink { leaf },
        Tight::Nothing => Infeasible::NoLink { leaf: 0 },
    }
}

/// What leaves send and take, in sub-flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Demands {
    sends: Vec<u64>,
    takes: Vec<u64>,
    /// By the two leaves.
    pairs: Vec<((u32, u32), u64)>,
    /// The most that one leaf sends to another.
    pair_most: u64,
}

impl Demands {
    pub(super) fn new(flows: &[Flow]) -> Self {
        let leaves = flows.iter().map(|flow| flow.from.max(flow.to) as usize + 1);
        let leaves = leaves.max().unwrap_or_default();
        let (mut sends, mut takes) = (vec![0; leaves], vec![0; leaves]);
        let ends = |flow: &Flow| (flow.from, flow.to);
        let mut sorted = flows.to_vec();
        sorted.sort_unstable();
        let alike = sorted.chunk_by(|a, b| ends(a) == ends(b));
        let pairs = alike.map(|alike| {
            let subflows: u64 = alike.iter().map(|flow| u64::from(flow.subflows)).sum();
            let (from, to) = ends(&alike[0]);
            sends[from as usize] += subflows;
            takes[to as usize] += subflows;
            ((from, to), subflows)
        });
        let pairs: Vec<_> = pairs.collect();
        let most = pairs.iter().map(|(_, subflows)| *subflows).max();
        Self {
            sends,
            takes,
            pair_most: most.unwrap_or_default(),
            pairs,
        }
    }

    /// What leaves send and take at the worst time, where phases of one job never run together: of each leaf, and of each pair, the
    /// phase of each job that has most there.
    pub(super) fn in_phases(flows: &[Flow], phases: &[Option<Phase>]) -> Self {
        let all = || flows.iter().zip(phases.iter().copied());
        let leaves = all().map(|(flow, _)| flow.from.max(flow.to) as usize + 1);
        let leaves = leaves.max().unwrap_or_default();
        let of_leaves = |end: fn(&Flow) -> u32| {
            let mut sums = vec![0; leaves];
            let sent = all().map(|(flow, phase)| (end(flow), phase, u64::from(flow.subflows)));
            for (leaf, subflows) in at_worst(sent.collect()) {
                sums[leaf as usize] = subflows;
            }
            sums
        };
        let pairs = all().map(|(flow, phase)| {
            let ends = (flow.from, flow.to);
            (ends, phase, u64::from(flow.subflows))
        });
        let pairs = at_worst(pairs.collect());
        let most = pairs.iter().map(|(_, subflows)| *subflows).max();
        Self {
            sends: of_leaves(|flow| flow.from),
            takes: of_leaves(|flow| flow.to),
            pair_most: most.unwrap_or_default(),
            pairs,
        }
    }

    /// Sub-flows by the places of the leaf that sends and the one that takes, in order.
    pub(super) fn pairs(&self) -> &[((u32, u32), u64)] {
        &self.pairs
    }

    /// The places of leaves that have flows are below this.
    pub(super) fn leaves(&self) -> usize {
        self.sends.len()
    }

    /// The most that one leaf sends or takes.
    pub(super) fn most(&self) -> u64 {
        let all = self.sends.iter().chain(&self.takes);
        all.copied().max().unwrap_or_default()
    }

    /// A level below which the sums of capacities do not suffice.
    pub(super) fn fluid(&self, plane: &Plane) -> Result<Bound, Infeasible> {
        let mut bound = Bound {
            level: Level {
                subflows: 0,
                capacity: 1,
            },
            tight: Tight::Nothing,
            of_pods: false,
        };
        for leaf in 0..self.sends.len() {
            let capacity = u64::try_from(plane.capacity(leaf)).unwrap_or(u64::MAX);
            for (subflows, tight) in [
                (self.sends[leaf], Tight::Sends(leaf)),
                (self.takes[leaf], Tight::Takes(leaf)),
            ] {
                if subflows > 0 && capacity == 0 {
                    return Err(infeasible(tight));
                }
                let level = Level {
                    subflows,
                    capacity: capacity.max(1),
                };
                if level > bound.level {
                    bound = Bound {
                        level,
                        tight,
                        of_pods: false,
                    };
                }
            }
        }
        let spines = plane.spines().len();
        let has: Vec<usize> = (0..self.sends.len())
            .map(|leaf| plane.spines_of(leaf))
            .collect();
        // Two that have more than half of the spines each share one.
        if has.iter().all(|has| *has > spines / 2) {
            return Ok(bound);
        }
        for ((from, to), _) in &self.pairs {
            let (from, to) = (*from as usize, *to as usize);
            if has[from] + has[to] <= spines && !plane.share(from, to) {
                return Err(infeasible(Tight::Pair(from, to)));
            }
        }
        Ok(bound)
    }

    /// Something that these slots up and down do not suffice for.
    pub(super) fn unmet(&self, plane: &Plane, [up, down]: [&[u32]; 2]) -> Option<Tight> {
        let spines = plane.spines().len();
        let row = |leaf: usize| leaf * spines..(leaf + 1) * spines;
        let sum = |row: &[u32]| row.iter().map(|it| u64::from(*it)).sum::<u64>();
        let leaves = 0..self.sends.len();
        let totals = |slots: &[u32]| {
            let total = |leaf: usize| sum(&slots[row(leaf)]);
            leaves.clone().map(total).collect::<Vec<_>>()
        };
        // A link holds as much up as down, unless others are on it.
        let is_alike = std::ptr::eq(up, down);
        let sent = totals(up);
        let totals = match is_alike {
            true => [sent.clone(), sent],
            false => [sent, totals(down)],
        };
        for leaf in leaves.clone() {
            if totals[0][leaf] < self.sends[leaf] {
                return Some(Tight::Sends(leaf));
            }
            if totals[1][leaf] < self.takes[leaf] {
                return Some(Tight::Takes(leaf));
            }
        }
        // What a leaf lacks of the most that any leaf has at each spine: two leaves share at least the rest.
        let mut most = vec![0; spines];
        for slots in [up, down].into_iter().skip(usize::from(is_alike)) {
            for leaf in leaves.clone() {
                let widest = most.iter_mut().zip(&slots[row(leaf)]);
                widest.for_each(|(most, slots)| *most = *slots.max(most));
            }
        }
        let most = sum(&most);
        let [least_up, least_down] =
            [0, 1].map(|side| totals[side].iter().copied().min().unwrap_or_default());
        if least_up + least_down >= self.pair_most + most {
            return None;
        }
        for ((from, to), subflows) in &self.pairs {
            let (from, to) = (*from as usize, *to as usize);
            if totals[0][from] + totals[1][to] >= subflows + most {
                continue;
            }
            let shared = up[row(from)].iter().zip(&down[row(to)]);
            let shared: u64 = shared.map(|(up, down)| u64::from(*up.min(down))).sum();
            if shared < *subflows {
                return Some(Tight::Pair(from, to));
            }
        }
        None
    }
}

/// Sums by key, in order: of each job the phase that has most, and what is always there.
fn at_worst<K: Copy + Ord>(mut all: Vec<(K, Option<Phase>, u64)>) -> Vec<(K, u64)> {
    all.sort_unstable();
    let sum = |alike: &[(K, Option<Phase>, u64)]| alike.iter().map(|it| it.2).sum::<u64>();
    let of_key = |of_key: &[(K, Option<Phase>, u64)]| {
        let job = |it: &(K, Option<Phase>, u64)| it.1.map(|phase| phase.job);
        let of_jobs = of_key.chunk_by(|a, b| job(a) == job(b));
        let most = of_jobs.map(|of_job| {
            let phases = of_job.chunk_by(|a, b| a.1 == b.1);
            phases.map(sum).max().unwrap_or_default()
        });
        (of_key[0].0, most.sum())
    };
    all.chunk_by(|a, b| a.0 == b.0).map(of_key).collect()
}
