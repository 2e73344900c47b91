//! Demands divided over spines as if they were fluid, so that the busiest link is used as little as can be.
//!
//! Over a spine a leaf sends in proportion to the lesser capacity of the two links x a factor of the link up x a factor of
//! the link down. From one pod to another, what is above the two spines counts too: the least capacity of all, and two more
//! factors. With all factors 1 that is the capacity-proportional share. Shares of this form are the nearest to it, in
//! relative entropy, of all that keep every link within a level; the factors are found by scaling what is above or below the
//! level, links up and links down in turn (iterative scaling: Bregman 1967, Censor and Lent 1981). The level is a little above
//! the bound that is known, so that it sinks with the busiest link and rises with the bound. It refuses to know names,
//! integer weights and where loads come from.

use std::ops::Range;

mod above;
mod bound;

use above::Above;
pub(crate) use bound::{Lengths, certified};

/// Leaves and the spines next to them, with what the links between them carry together; and pods of leaves with the links
/// above their spines. All in one unit.
#[derive(Debug)]
pub(crate) struct Network {
    spines: usize,
    /// By leaf, then by spine, and after all leaves by pod, then by spine: those above the spine. The same up and down. 0 where
    /// no link is alive.
    capacity: Vec<f64>,
    above: Above,
    /// What is on the links already, up and down, as `capacity`.
    background: [Vec<f64>; 2],
    /// Of each leaf. To the destinations of a class a leaf has the same shares.
    class_of: Vec<u32>,
    /// Of each class, a leaf.
    example: Vec<u32>,
}

/// What a leaf sends to another: by their places; more than 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) amount: f64,
}

/// Demands of a leaf to destinations of a class.
#[derive(Debug)]
pub(crate) struct Bin {
    pub(crate) from: u32,
    pub(crate) class: u32,
    /// Of all demands.
    pub(crate) range: Range<usize>,
    pub(crate) amount: f64,
}

/// By how much less than its capacity says a link takes part: above 0, at most 1.
#[derive(Clone, Debug)]
pub(crate) struct Factors {
    /// As the capacity.
    up: Vec<f64>,
    /// By class of destinations, then by spine; and after all classes by pod.
    down: Vec<f64>,
}

/// Shares for all demands, by their factors, and how far they are from the best.
#[derive(Debug)]
pub(crate) struct Fluid {
    pub(crate) factors: Factors,
    /// What each link carries of the demands, up and down, by row, then by spine.
    pub(crate) loads: [Vec<f64>; 2],
    /// Whether they are the capacity-proportional shares.
    pub(crate) is_by_capacity: bool,
    /// Load / capacity of the busiest link.
    pub(crate) used: f64,
    /// The same with capacity-proportional shares.
    pub(crate) used_by_capacity: f64,
    /// No shares use the busiest link less.
    pub(crate) bound: f64,
    /// What proves the bound, or nearly; None: one leaf, pod or link does.
    pub(crate) lengths: Option<Lengths>,
}

impl Network {
    /// A network in which each leaf is a class of its own. Background of links that are dead does not count.
    pub(crate) fn new(leaves: usize, spines: usize, capacity: Vec<f64>) -> Self {
        let all = u32::try_from(leaves).expect("leaves have numbers of 32 bits");
        assert_eq!(capacity.len(), leaves * spines, "a row for each leaf");
        Self {
            spines,
            background: [vec![0.0; capacity.len()], vec![0.0; capacity.len()]],
            capacity,
            above: Above::default(),
            class_of: (0..all).collect(),
            example: (0..all).collect(),
        }
    }

    /// The network with pods: the pod of each leaf, what is above the spines of each pod, by pod, then by spine, and what leads
    /// from one pod to another over each spine, by both pods. A leaf without a pod sends and takes as within one.
    pub(crate) fn with_pods(
        mut self,
        pod_of: Vec<Option<u32>>,
        capacity: &[f64],
        between: Vec<f64>,
    ) -> Self {
        let pods = capacity.len() / self.spines.max(1);
        assert_eq!(capacity.len(), pods * self.spines, "a row for each pod");
        assert_eq!(between.len(), pods * capacity.len(), "a row for two pods");
        self.above = Above::new(pod_of, pods, between);
        self.capacity.extend(capacity);
        for background in &mut self.background {
            background.resize(self.capacity.len(), 0.0);
        }
        self
    }

    pub(crate) fn leaves(&self) -> usize {
        self.class_of.len()
    }

    /// The rows of two pods, up and down, that a leaf needs beside its own to reach another one; None: nothing above spines.
    pub(crate) fn rows_above(&self, from: u32, to: u32) -> Option<[usize; 2]> {
        let crossed = self.above.crossed(from, to)?;
        Some(crossed.map(|pod| self.leaves() + pod))
    }

    pub(crate) fn rows(&self) -> usize {
        self.leaves() + self.above.pods()
    }

    pub(crate) fn spines(&self) -> usize {
        self.spines
    }

    /// Puts leaves of a pod with equal capacities to all spines into one class.
    pub(crate) fn classify(&mut self) {
        let mut order: Vec<u32> = (0..).take(self.class_of.len()).collect();
        let row = |leaf: &u32| self.row(&self.capacity, *leaf as usize);
        let pod = |leaf: &u32| self.above.pod(*leaf);
        order.sort_by(|a, b| {
            let each = row(a).iter().zip(row(b));
            let first = each.map(|(a, b)| a.total_cmp(b)).find(|it| it.is_ne());
            let by_pod = pod(a).cmp(&pod(b));
            by_pod.then_with(|| first.unwrap_or_else(|| a.cmp(b)))
        });
        let alike = order.chunk_by(|a, b| (pod(a), row(a)) == (pod(b), row(b)));
        let mut classes: Vec<Vec<u32>> = alike.map(<[u32]>::to_vec).collect();
        classes.sort_unstable();
        self.example = classes.iter().map(|class| class[0]).collect();
        for (class, members) in (0..).zip(classes) {
            for leaf in members {
                self.class_of[leaf as usize] = class;
            }
        }
    }

    pub(crate) fn class_of(&self, leaf: u32) -> u32 {
        self.class_of[leaf as usize]
    }

    /// Capacities of all links, by row, then by spine.
    pub(crate) fn capacities(&self) -> &[f64] {
        &self.capacity
    }

    /// The capacity of the links of a leaf to a spine, or of those above the spine of a pod, by their row.
    pub(crate) fn capacity(&self, row: usize, spine: usize) -> f64 {
        self.capacity[row * self.spines + spine]
    }

    /// What is on a link already; the direction is 0 for up, 1 for down.
    pub(crate) fn background(&self, direction: usize, row: usize, spine: usize) -> f64 {
        self.background[direction][row * self.spines + spine]
    }

    pub(crate) fn add_background(&mut self, direction: usize, row: usize, spine: usize, load: f64) {
        self.background[direction][row * self.spines + spine] += load;
    }

    /// Whether some spine has live links to both leaves, and leads from the pod of the first to that of the second.
    pub(crate) fn reaches(&self, from: u32, to: u32) -> bool {
        let rows = [from, to].map(|leaf| self.row(&self.capacity, leaf as usize));
        let mut both = rows[0].iter().zip(rows[1]);
        match self.above.crossed(from, to) {
            Some(pods) => {
                let between = self.above.between(pods, self.spines);
                let mut all = both.zip(between);
                all.any(|((up, down), over)| *up > 0.0 && *down > 0.0 && *over > 0.0)
            }
            None => both.any(|(up, down)| *up > 0.0 && *down > 0.0),
        }
    }

    /// Demands in the order of their bins, and the bins.
    pub(crate) fn bins(&self, demands: &mut [Demand]) -> Vec<Bin> {
        let key = |demand: &Demand| (demand.from, self.class_of(demand.to), demand.to);
        demands.sort_unstable_by_key(key);
        let mut bins: Vec<Bin> = Vec::new();
        for (at, demand) in demands.iter().enumerate() {
            let (from, class, _) = key(demand);
            match bins.last_mut() {
                Some(bin) if (bin.from, bin.class) == (from, class) => {
                    bin.range.end = at + 1;
                    bin.amount += demand.amount;
                }
                _ => bins.push(Bin {
                    from,
                    class,
                    range: at..at + 1,
                    amount: demand.amount,
                }),
            }
        }
        bins
    }

    /// Factors that make shares proportional to capacity.
    pub(crate) fn by_capacity(&self) -> Factors {
        Factors {
            up: vec![1.0; self.capacity.len()],
            down: vec![1.0; (self.example.len() + self.above.pods()) * self.spines],
        }
    }

    /// Writes by spine what a leaf sends to a class of destinations, in proportion; gives the sum.
    pub(crate) fn weigh(&self, factors: &Factors, from: u32, class: u32, out: &mut [f64]) -> f64 {
        let to = self.example[class as usize];
        let crossed = self.above.crossed(from, to);
        let (from, class) = (from as usize, class as usize);
        let up = self.row(&self.capacity, from);
        let down = self.row(&self.capacity, to as usize);
        let factors_of_leaves = self
            .row(&factors.up, from)
            .iter()
            .zip(self.row(&factors.down, class));
        let each = out
            .iter_mut()
            .zip(up.iter().zip(down).zip(factors_of_leaves));
        match crossed {
            None => {
                for (out, ((up, down), (one, other))) in each {
                    *out = least(*up, *down) * one * other;
                }
            }
            Some([one_pod, other_pod]) => {
                let between = self.above.between([one_pod, other_pod], self.spines);
                let of_pods = self
                    .row(&factors.up, self.leaves() + one_pod)
                    .iter()
                    .zip(self.row(&factors.down, self.example.len() + other_pod));
                for ((out, ((up, down), (one, other))), (over, (third, fourth))) in
                    each.zip(between.iter().zip(of_pods))
                {
                    *out = least(least(*up, *down), *over) * one * other * third * fourth;
                }
            }
        }
        let mut sums = [0.0; LANES];
        let chunks = out.chunks_exact(LANES);
        let rest: f64 = chunks.remainder().iter().sum();
        for chunk in chunks {
            for (sum, it) in sums.iter_mut().zip(chunk) {
                *sum += it;
            }
        }
        sums.iter().sum::<f64>() + rest
    }

    fn row<'a>(&self, of: &'a [f64], at: usize) -> &'a [f64] {
        &of[at * self.spines..][..self.spines]
    }
}

/// Finds shares for demands between leaves that reach each other. The demands are in the order of their bins.
pub(crate) fn solve(network: &Network, demands: &[Demand], bins: &[Bin]) -> Fluid {
    let mut scaling = Scaling::new(network, demands, bins);
    let start = network.by_capacity();
    let mut bound = bound::at_least(network, demands);
    let mut used = scaling.sweep(&start);
    let mut fluid = Fluid {
        factors: start.clone(),
        loads: scaling.loads.clone(),
        is_by_capacity: true,
        used,
        used_by_capacity: used,
        bound,
        lengths: None,
    };
    let mut factors = start;
    let mut lengths = Lengths::of_factors(network, &factors);
    // One kind of links at a time: together they would be scaled twice for what is too much on both.
    let kinds = match network.above.pods() {
        0 => 2,
        _ => 4,
    };
    let work = (demands.len() * network.spines).max(1);
    let sweeps = (WORK_MAX / work).clamp(SWEEPS_MIN, SWEEPS_MAX);
    for sweep in 1..=sweeps {
        if fluid.used <= bound * (1.0 + ENOUGH) {
            break;
        }
        let level = bound + (fluid.used - bound) * ABOVE;
        match sweep % kinds {
            1 => scaling.scale_down(level, &mut factors),
            2 => scaling.scale_above(0, level, &mut factors),
            3 => scaling.scale_above(1, level, &mut factors),
            _ => scaling.scale_up(level, &mut factors),
        }
        used = scaling.sweep(&factors);
        if used < fluid.used {
            fluid.used = used;
            fluid.factors.clone_from(&factors);
            fluid.loads.clone_from(&scaling.loads);
            fluid.is_by_capacity = false;
        }
        if sweep % BOUND_EVERY == 0 || sweep == sweeps {
            // Factors of links that keep a level from being reached shrink without end: how fast is a certificate.
            let now = Lengths::of_factors(network, &factors);
            let busy = Lengths::of_loads(network, &scaling.loads, used);
            for tried in [now.grown_since(&lengths), busy] {
                let proved = tried.bound(network, demands);
                if proved > bound {
                    (bound, fluid.lengths) = (proved, Some(tried));
                }
            }
            lengths = now;
        }
    }
    fluid.bound = bound;
    fluid
}

/// Loads of all links with some factors, and how to change those.
struct Scaling<'a> {
    network: &'a Network,
    demands: &'a [Demand],
    bins: &'a [Bin],
    /// Leaves that take something.
    takes: Vec<bool>,
    /// What each link carries of the demands, up and down, by row, then by spine.
    loads: [Vec<f64>; 2],
    row: Vec<f64>,
}

impl<'a> Scaling<'a> {
    fn new(network: &'a Network, demands: &'a [Demand], bins: &'a [Bin]) -> Self {
        let mut takes = vec![false; network.class_of.len()];
        for demand in demands {
            takes[demand.to as usize] = true;
        }
        Self {
            network,
            demands,
            bins,
            takes,
            loads: [
                vec![0.0; network.capacity.len()],
                vec![0.0; network.capacity.len()],
            ],
            row: vec![0.0; network.spines],
        }
    }

    /// Counts all loads; gives load / capacity of the busiest link.
    fn sweep(&mut self, factors: &Factors) -> f64 {
        let spines = self.network.spines;
        let [up, down] = &mut self.loads;
        up.fill(0.0);
        down.fill(0.0);
        for bin in self.bins {
            let sum = self
                .network
                .weigh(factors, bin.from, bin.class, &mut self.row);
            for demand in &self.demands[bin.range.clone()] {
                let row = &mut down[demand.to as usize * spines..][..spines];
                add(row, &self.row, demand.amount / sum);
            }
            let row = &mut up[bin.from as usize * spines..][..spines];
            add(row, &self.row, bin.amount / sum);
            let to = self.network.example[bin.class as usize];
            if let Some([above, below]) = self.network.rows_above(bin.from, to) {
                add(
                    &mut up[above * spines..][..spines],
                    &self.row,
                    bin.amount / sum,
                );
                add(
                    &mut down[below * spines..][..spines],
                    &self.row,
                    bin.amount / sum,
                );
            }
        }
        self.network.busiest(&self.loads)
    }

    fn scale_up(&self, level: f64, factors: &mut Factors) {
        let leaves = self.network.leaves() * self.network.spines;
        for (at, factor) in factors.up[..leaves].iter_mut().enumerate() {
            *factor = scaled(*factor, self.step(level, 0, at));
        }
    }

    /// Links above spines, in a direction.
    fn scale_above(&self, direction: usize, level: f64, factors: &mut Factors) {
        let (network, spines) = (self.network, self.network.spines);
        let leaves = network.leaves() * spines;
        let of_pods = match direction {
            0 => &mut factors.up[leaves..],
            _ => &mut factors.down[network.example.len() * spines..],
        };
        for (at, factor) in of_pods.iter_mut().enumerate() {
            *factor = scaled(*factor, self.step(level, direction, leaves + at));
        }
    }

    /// The factor of a class is that of its busiest member.
    fn scale_down(&self, level: f64, factors: &mut Factors) {
        let spines = self.network.spines;
        let mut steps = vec![STEP_MAX; self.network.example.len() * spines];
        let takes = self.takes.iter().enumerate().filter(|(_, takes)| **takes);
        for (leaf, _) in takes {
            let class = self.network.class_of[leaf] as usize;
            for (spine, step) in steps[class * spines..][..spines].iter_mut().enumerate() {
                *step = step.min(self.step(level, 1, leaf * spines + spine));
            }
        }
        for (factor, step) in factors.down.iter_mut().zip(steps) {
            *factor = scaled(*factor, step);
        }
    }

    /// What brings the demands on a link to what the background leaves of the level, and half as far again: that converges
    /// faster.
    fn step(&self, level: f64, direction: usize, at: usize) -> f64 {
        let load = self.loads[direction][at];
        if load == 0.0 {
            return STEP_MAX;
        }
        let room = level * self.network.capacity[at] - self.network.background[direction][at];
        let ratio = (room / load).max(0.0);
        (ratio * ratio.sqrt()).clamp(1.0 / STEP_MAX, STEP_MAX)
    }
}

impl Network {
    /// Load / capacity of the busiest link, with the background.
    fn busiest(&self, loads: &[Vec<f64>; 2]) -> f64 {
        let mut busiest = 0.0_f64;
        for (loads, background) in loads.iter().zip(&self.background) {
            let each = loads.iter().zip(background).zip(&self.capacity);
            for ((load, background), capacity) in each.filter(|(_, capacity)| **capacity > 0.0) {
                busiest = busiest.max((load + background) / capacity);
            }
        }
        busiest
    }
}

/// The lesser of two numbers that are numbers: one instruction.
fn least(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

fn add(sums: &mut [f64], row: &[f64], times: f64) {
    for (sum, it) in sums.iter_mut().zip(row) {
        *sum += it * times;
    }
}

fn scaled(factor: f64, step: f64) -> f64 {
    (factor * step).clamp(FACTOR_MIN, 1.0)
}

/// So near the bound, shares are not improved any more.
pub(crate) const ENOUGH: f64 = 0.002;
/// Where the level is between the bound and the busiest link.
const ABOVE: f64 = 0.1;
/// Products of demands, spines and sweeps: a few seconds.
const WORK_MAX: usize = 3_000_000_000;
const SWEEPS_MIN: usize = 8;
/// Small networks are within 1 % of the bound before that.
const SWEEPS_MAX: usize = 1_024;
/// A bound costs about as much as a sweep.
const BOUND_EVERY: usize = 8;
/// A factor changes at most so much in a sweep.
const STEP_MAX: f64 = 4.0;
/// Products of four factors and a capacity stay numbers.
const FACTOR_MIN: f64 = 1e-60;
/// Sums that do not wait for each other.
const LANES: usize = 8;

#[cfg(test)]
mod tests;
