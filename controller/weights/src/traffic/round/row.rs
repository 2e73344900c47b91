//! One group: whole parts near several multiples of what is wanted, and those of them that use the busiest link least.
//!
//! It refuses to know which links these are.

use crate::quantize::{Limits, WEIGHT_MAX};

/// A group at hand, by uplink.
#[derive(Default)]
pub(super) struct Row {
    /// The shares.
    pub(super) exact: Vec<f64>,
    /// What they should be for the sake of the links' errors.
    pub(super) wanted: Vec<f64>,
    /// Load / capacity of the uplink, and what a share of 1 more adds.
    pub(super) up: Vec<f64>,
    pub(super) up_each: Vec<f64>,
    /// The same of the busiest link down.
    pub(super) down: Vec<f64>,
    pub(super) down_each: Vec<f64>,
    tried: Vec<f64>,
    best: Vec<f64>,
}

impl Row {
    /// Forgets all but the shares.
    pub(super) fn clear(&mut self) {
        for all in [
            &mut self.wanted,
            &mut self.up,
            &mut self.up_each,
            &mut self.down,
            &mut self.down_each,
        ] {
            all.clear();
        }
    }

    /// Writes the best weights of those that are tried; false if none are within the limits.
    pub(super) fn round(&mut self, limits: Limits, weights: &mut [u16]) -> bool {
        self.tried.resize(weights.len(), 0.0);
        self.best.resize(weights.len(), 0.0);
        let members = self.wanted.iter().filter(|it| **it > 0.0).count();
        let parts_max = f64::from(limits.parts_max(members));
        // Rounding may add half a part for each member.
        let finest = parts_max - members as f64 / 2.0;
        let mut best = f64::INFINITY;
        if let Some((low, high)) = self.range(1.0 / parts_max) {
            for parts in PARTS_OF_SMALLEST {
                self.attempt(parts / low, high, parts_max, &mut best);
            }
            for parts in PARTS_OF_LARGEST {
                self.attempt(parts / high, high, parts_max, &mut best);
            }
            let finest = finest.min(f64::from(WEIGHT_MAX) / high);
            self.attempt(finest / 2.0, high, parts_max, &mut best);
            self.attempt(finest, high, parts_max, &mut best);
        }
        // Where few groups share a link, what is wanted for its sake may do harm elsewhere.
        self.wanted.clone_from(&self.exact);
        if let Some((_, high)) = self.range(1.0 / parts_max) {
            let finest = finest.min(f64::from(WEIGHT_MAX) / high);
            self.attempt(finest, high, parts_max, &mut best);
        }
        for (weight, best) in weights.iter_mut().zip(&self.best) {
            // A whole number, at most the largest weight.
            *weight = *best as u16;
        }
        best.is_finite()
    }

    /// The smallest and the largest that is wanted, of what is not too small for a part.
    fn range(&self, smallest: f64) -> Option<(f64, f64)> {
        let kept = self.wanted.iter().filter(|it| **it >= smallest);
        let (low, high) = kept.fold((f64::INFINITY, 0.0_f64), |(low, high), it| {
            (low.min(*it), high.max(*it))
        });
        (high > 0.0).then_some((low, high))
    }

    /// Tries a level; keeps it where that is within the limits and better than the best.
    fn attempt(&mut self, level: f64, high: f64, parts_max: f64, best: &mut f64) {
        if nearest(high * level) > f64::from(WEIGHT_MAX) {
            return;
        }
        let sum = self.parts(level, 1.0 / parts_max);
        if sum > 0.0 && sum <= parts_max {
            let busiest = self.busiest(1.0 / sum);
            if busiest < *best * BETTER {
                *best = busiest;
                std::mem::swap(&mut self.tried, &mut self.best);
            }
        }
    }

    /// Tries whole numbers near what is wanted x a level, none for less than the smallest share; gives their sum.
    fn parts(&mut self, level: f64, smallest: f64) -> f64 {
        let mut sums = [0.0; LANES];
        let tried = self.tried.chunks_mut(LANES);
        for (tried, wanted) in tried.zip(self.wanted.chunks(LANES)) {
            for ((sum, tried), wanted) in sums.iter_mut().zip(tried).zip(wanted) {
                let parts = most(nearest(wanted * level), 1.0);
                *tried = if *wanted < smallest { 0.0 } else { parts };
                *sum += *tried;
            }
        }
        sums.iter().sum()
    }

    /// Load / capacity of the busiest link of the group with what is tried, if one part is so much of all.
    fn busiest(&self, one: f64) -> f64 {
        let mut worst = [0.0; LANES];
        let all = self.tried.chunks(LANES).zip(self.exact.chunks(LANES));
        let up = self.up.chunks(LANES).zip(self.up_each.chunks(LANES));
        let down = self.down.chunks(LANES).zip(self.down_each.chunks(LANES));
        for ((tried, exact), ((up, up_each), (down, down_each))) in all.zip(up.zip(down)) {
            let shares = tried.iter().zip(exact);
            let links = up.iter().zip(up_each).zip(down.iter().zip(down_each));
            for ((worst, (tried, exact)), ((up, up_each), (down, down_each))) in
                worst.iter_mut().zip(shares).zip(links)
            {
                let error = tried * one - exact;
                let used = most(up + up_each * error, down + down_each * error);
                *worst = most(*worst, used);
            }
        }
        worst.into_iter().fold(0.0, most)
    }
}

/// The greater of two numbers that are numbers: one instruction.
pub(super) fn most(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
}

/// The nearest whole number, of numbers below 2^51.
fn nearest(number: f64) -> f64 {
    (number + NEAREST) - NEAREST
}

/// More parts are worth so much.
const BETTER: f64 = 0.9995;
const NEAREST: f64 = (3_u64 << 51) as f64;
/// What the largest share may be rounded to.
const PARTS_OF_LARGEST: [f64; 4] = [3.0, 4.0, 5.0, 6.0];
/// What the smallest share may be rounded to.
const PARTS_OF_SMALLEST: [f64; 2] = [1.0, 2.0];
/// Numbers that do not wait for each other.
const LANES: usize = 8;
