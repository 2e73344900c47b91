//! What no shares can be better than, by LP duality: any lengths of links give a bound, the sum of demand x length of the
//! shortest way and background x length, over the sum of capacity x length.
//!
//! It refuses to know how good lengths are found, and the shares.

use super::{Demand, FACTOR_MIN, LANES, Network};

/// A length of 0 or more for each link; infinite where no link is alive.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// Up and down, as the capacity.
    of: [Vec<f64>; 2],
}

impl Lengths {
    /// What factors cost: the Lagrange multipliers of the level, where they keep every link within one.
    pub(super) fn of_factors(network: &Network, factors: &super::Factors) -> Self {
        let spines = network.spines;
        let (leaves, classes) = (network.leaves(), network.example.len());
        Self::each(network, |direction, at| {
            let row = at / spines;
            let class = match network.class_of.get(row) {
                Some(class) => *class as usize,
                None => classes + row - leaves,
            };
            let factor = match direction {
                0 => factors.up[at],
                _ => factors.down[class * spines + at % spines],
            };
            -ln(factor)
        })
    }

    /// Lengths that tell busy links from others: (load / load of the busiest)^64, by capacity.
    pub(super) fn of_loads(network: &Network, loads: &[Vec<f64>; 2], busiest: f64) -> Self {
        Self::each(network, |direction, at| {
            let load = loads[direction][at] + network.background[direction][at];
            let mut power = load / network.capacity[at] / busiest;
            for _ in 0..6 {
                power *= power;
            }
            power / network.capacity[at]
        })
    }

    /// By how much lengths have grown.
    pub(super) fn grown_since(&self, before: &Self) -> Self {
        let grown = |direction: usize| {
            let each = self.of[direction].iter().zip(&before.of[direction]);
            each.map(|(now, before)| match now.is_finite() {
                true => (now - before).max(0.0),
                false => *now,
            })
        };
        Self {
            of: [grown(0).collect(), grown(1).collect()],
        }
    }

    fn each(network: &Network, length: impl Fn(usize, usize) -> f64) -> Self {
        let of = |direction: usize| {
            let each = network.capacity.iter().enumerate();
            each.map(|(at, capacity)| match *capacity > 0.0 {
                true => length(direction, at),
                false => f64::INFINITY,
            })
            .collect()
        };
        Self { of: [of(0), of(1)] }
    }

    /// The bound that the lengths prove; 0 where they prove none.
    pub(super) fn bound(&self, network: &Network, demands: &[Demand]) -> f64 {
        let [mut needed, there] = self.of_links(network);
        let ways = self.ways(network);
        for demand in demands {
            needed += demand.amount * ways.shortest(demand.from, demand.to);
        }
        certified(needed, there)
    }

    /// Of all links together, background x length, and capacity x length.
    pub(crate) fn of_links(&self, network: &Network) -> [f64; 2] {
        let (mut needed, mut there) = (0.0, 0.0);
        for (lengths, background) in self.of.iter().zip(&network.background) {
            let each = lengths.iter().zip(background).zip(&network.capacity);
            for ((length, background), capacity) in each.filter(|(_, capacity)| **capacity > 0.0) {
                needed += length * background;
                there += length * capacity;
            }
        }
        [needed, there]
    }

    /// Ways by their lengths.
    pub(crate) fn ways<'a>(&'a self, network: &'a Network) -> Ways<'a> {
        let (spines, leaves) = (network.spines, network.leaves());
        let pods = 0..network.above.pods();
        let pairs = pods
            .clone()
            .flat_map(|from| pods.clone().map(move |to| [from, to]));
        let above = pairs.flat_map(|pods| {
            let [up, down] = [0, 1].map(|side| network.row(&self.of[side], leaves + pods[side]));
            let links = up.iter().zip(down);
            let each = links.zip(network.above.between(pods, spines));
            each.map(|((up, down), between)| match *between > 0.0 {
                true => up + down,
                false => f64::INFINITY,
            })
        });
        Ways {
            network,
            lengths: self,
            above: above.collect(),
        }
    }
}

/// Ways of a network with lengths.
pub(crate) struct Ways<'a> {
    network: &'a Network,
    lengths: &'a Lengths,
    /// By two pods, then by spine: of both links above the spine. Infinite where none leads from one to the other.
    above: Vec<f64>,
}

impl Ways<'_> {
    /// The length of the shortest way from one leaf to another.
    pub(crate) fn shortest(&self, from: u32, to: u32) -> f64 {
        let network = self.network;
        let up = network.row(&self.lengths.of[0], from as usize);
        let down = network.row(&self.lengths.of[1], to as usize);
        match network.above.crossed(from, to) {
            None => shortest(up, down),
            Some([from, to]) => {
                let row = from * network.above.pods() + to;
                shortest_over(up, down, network.row(&self.above, row))
            }
        }
    }
}

/// What the links of each leaf, those above the spines of each pod and each link alone prove: their lengths are 1, all others 0.
pub(super) fn at_least(network: &Network, demands: &[Demand]) -> f64 {
    let mut totals = [0, 1].map(|_| vec![0.0; network.rows()]);
    for demand in demands {
        totals[0][demand.from as usize] += demand.amount;
        totals[1][demand.to as usize] += demand.amount;
        if let Some([from, to]) = network.rows_above(demand.from, demand.to) {
            totals[0][from] += demand.amount;
            totals[1][to] += demand.amount;
        }
    }
    let mut bound = 0.0_f64;
    for (totals, background) in totals.iter().zip(&network.background) {
        for (row, total) in totals.iter().enumerate() {
            let capacity = network.row(&network.capacity, row);
            let background = network.row(background, row);
            let alive = || capacity.iter().zip(background).filter(|(it, _)| **it > 0.0);
            let (mut needed, mut there) = (*total, 0.0);
            for (capacity, background) in alive() {
                needed += background;
                there += capacity;
                bound = bound.max(certified(*background, *capacity));
            }
            bound = bound.max(certified(needed, there));
        }
    }
    bound
}

/// A little less than the quotient, so that no rounding of the sums makes it too high.
pub(crate) fn certified(needed: f64, there: f64) -> f64 {
    let bound = needed / there * (1.0 - ERROR);
    if there > 0.0 && bound.is_finite() {
        bound
    } else {
        0.0
    }
}

/// The least sum of a length up and one down.
fn shortest(up: &[f64], down: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; LANES];
    for (up, down) in up.chunks(LANES).zip(down.chunks(LANES)) {
        for (least, (up, down)) in least.iter_mut().zip(up.iter().zip(down)) {
            let sum = up + down;
            *least = if sum < *least { sum } else { *least };
        }
    }
    least.into_iter().fold(f64::INFINITY, f64::min)
}

/// The least sum of three.
fn shortest_over(up: &[f64], down: &[f64], above: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; LANES];
    let chunks = up.chunks(LANES).zip(down.chunks(LANES));
    for ((up, down), above) in chunks.zip(above.chunks(LANES)) {
        let each = up.iter().zip(down).zip(above);
        for (least, ((up, down), above)) in least.iter_mut().zip(each) {
            let sum = up + down + above;
            *least = if sum < *least { sum } else { *least };
        }
    }
    least.into_iter().fold(f64::INFINITY, f64::min)
}

/// The natural logarithm of a factor, from additions and divisions alone: the same on every machine, to 1e-9.
fn ln(factor: f64) -> f64 {
    let bits = factor.max(FACTOR_MIN).to_bits();
    let exponent = (bits >> MANTISSA_BITS) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & MANTISSA | 1.0_f64.to_bits());
    let (mantissa, exponent) = match mantissa > std::f64::consts::SQRT_2 {
        true => (mantissa / 2.0, exponent + 1.0),
        false => (mantissa, exponent),
    };
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is below 0.172.
    let root = (mantissa - 1.0) / (mantissa + 1.0);
    let square = root * root;
    let series = (0..6)
        .rev()
        .fold(0.0, |sum, at| sum * square + 1.0 / f64::from(2 * at + 1));
    exponent * std::f64::consts::LN_2 + 2.0 * root * series
}

/// More than the rounding of sums of up to 2^22 numbers adds.
const ERROR: f64 = 1e-9;
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_right_to_a_billionth() {
        for factor in [1.0, 0.999_999, 0.71, 0.7, 0.5, 0.3, 1e-3, 1e-30, 1e-60] {
            assert!((ln(factor) - f64::ln(factor)).abs() < 1e-9 * (1.0 + f64::ln(factor).abs()));
        }
        assert_eq!(ln(1.0), 0.0);
    }
}
