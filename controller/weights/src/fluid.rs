//! Demands divided over the spines of two tiers as if they were fluid, so that the busiest link is used as little as can be.
//!
//! Over a spine a leaf sends in proportion to the lesser capacity of the two links x a factor of the link up x a factor of
//! the link down. With all factors 1 that is the capacity-proportional share. Shares of this form are the nearest to it, in
//! relative entropy, of all that keep every link within a level; the factors are found by scaling what is above or below the
//! level, links up and links down in turn (iterative scaling: Bregman 1967, Censor and Lent 1981). The level is a little above
//! the bound that is known, so that it sinks with the busiest link and rises with the bound. It refuses to know names,
//! integer weights and where loads come from.

use std::ops::Range;

mod bound;

use bound::Lengths;

/// Leaves and the spines next to them, with what the links between them carry together. All in one unit.
#[derive(Debug)]
pub(crate) struct Network {
    spines: usize,
    /// By leaf, then by spine; the same up and down. 0 where no link is alive.
    capacity: Vec<f64>,
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
    /// By leaf, then by spine.
    up: Vec<f64>,
    /// By class of destinations, then by spine.
    down: Vec<f64>,
}

/// Shares for all demands, by their factors, and how far they are from the best.
#[derive(Debug)]
pub(crate) struct Fluid {
    pub(crate) factors: Factors,
    /// Of the demands, up and down, by leaf, then by spine.
    pub(crate) loads: [Vec<f64>; 2],
    /// Whether they are the capacity-proportional shares.
    pub(crate) is_by_capacity: bool,
    /// Load / capacity of the busiest link.
    pub(crate) used: f64,
    /// The same with capacity-proportional shares.
    pub(crate) used_by_capacity: f64,
    /// No shares use the busiest link less.
    pub(crate) bound: f64,
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
            class_of: (0..all).collect(),
            example: (0..all).collect(),
        }
    }

    pub(crate) fn spines(&self) -> usize {
        self.spines
    }

    /// Puts leaves with equal capacities to all spines into one class.
    pub(crate) fn classify(&mut self) {
        let mut order: Vec<u32> = (0..).take(self.class_of.len()).collect();
        let row = |leaf: &u32| self.row(&self.capacity, *leaf as usize);
        order.sort_by(|a, b| {
            let each = row(a).iter().zip(row(b));
            let first = each.map(|(a, b)| a.total_cmp(b)).find(|it| it.is_ne());
            first.unwrap_or_else(|| a.cmp(b))
        });
        let alike = order.chunk_by(|a, b| row(a) == row(b));
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

    pub(crate) fn capacity(&self, leaf: usize, spine: usize) -> f64 {
        self.capacity[leaf * self.spines + spine]
    }

    /// What is on a link already; the direction is 0 for up, 1 for down.
    pub(crate) fn background(&self, direction: usize, leaf: usize, spine: usize) -> f64 {
        self.background[direction][leaf * self.spines + spine]
    }

    pub(crate) fn add_background(
        &mut self,
        direction: usize,
        leaf: usize,
        spine: usize,
        load: f64,
    ) {
        self.background[direction][leaf * self.spines + spine] += load;
    }

    /// Whether some spine has live links to both leaves.
    pub(crate) fn reaches(&self, from: u32, to: u32) -> bool {
        let rows = [from, to].map(|leaf| self.row(&self.capacity, leaf as usize));
        let mut both = rows[0].iter().zip(rows[1]);
        both.any(|(up, down)| *up > 0.0 && *down > 0.0)
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
            down: vec![1.0; self.example.len() * self.spines],
        }
    }

    /// Writes by spine what a leaf sends to a class of destinations, in proportion; gives the sum.
    pub(crate) fn weigh(&self, factors: &Factors, from: u32, class: u32, out: &mut [f64]) -> f64 {
        let (from, class) = (from as usize, class as usize);
        let up = self.row(&self.capacity, from);
        let down = self.row(&self.capacity, self.example[class] as usize);
        let factors = self
            .row(&factors.up, from)
            .iter()
            .zip(self.row(&factors.down, class));
        for (out, ((up, down), (one, other))) in
            out.iter_mut().zip(up.iter().zip(down).zip(factors))
        {
            let least = if up < down { *up } else { *down };
            *out = least * one * other;
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
    };
    let mut factors = start;
    let mut lengths = Lengths::of_factors(network, &factors);
    let work = (demands.len() * network.spines).max(1);
    let sweeps = (WORK_MAX / work).clamp(SWEEPS_MIN, SWEEPS_MAX);
    for sweep in 1..=sweeps {
        if fluid.used <= bound * (1.0 + ENOUGH) {
            break;
        }
        let level = bound + (fluid.used - bound) * ABOVE;
        match sweep % 2 {
            1 => scaling.scale_down(level, &mut factors),
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
            for lengths in [&now.grown_since(&lengths), &busy] {
                bound = bound.max(lengths.bound(network, demands));
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
    /// Of the demands, up and down, by leaf, then by spine.
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
        }
        self.network.busiest(&self.loads)
    }

    fn scale_up(&self, level: f64, factors: &mut Factors) {
        for (at, factor) in factors.up.iter_mut().enumerate() {
            *factor = scaled(*factor, self.step(level, 0, at));
        }
    }

    /// The factor of a class is that of its busiest member.
    fn scale_down(&self, level: f64, factors: &mut Factors) {
        let spines = self.network.spines;
        let mut steps = vec![STEP_MAX; factors.down.len()];
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
/// Products of two factors and a capacity stay numbers.
const FACTOR_MIN: f64 = 1e-60;
/// Sums that do not wait for each other.
const LANES: usize = 8;

#[cfg(test)]
mod tests;
