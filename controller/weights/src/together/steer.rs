//! Rounds one group after another, each steered by the errors that its links have from all others.
//!
//! A part goes where it leaves the least sum of error^2 / exact load over the links that it is on, with the error as it is
//! after the part, as in a divisor method: what is too much counts, and what is too little only in order. It refuses to know
//! how many parts a group has, and why.

use super::loads::Loads;
use super::plan::{self, Plan};
use crate::fabric::Fabric;
use crate::leaf::Amounts;
use crate::quantize::WEIGHT_MAX;

/// What all links have too much so far, and the weights.
pub(super) struct Steering<'a> {
    fabric: &'a Fabric,
    plans: &'a [Plan<'a>],
    /// Of each link load - exact load of the groups that have weights.
    errors: Loads,
    /// Of each link 1 / exact load; 0 for an unused one.
    costs: Loads,
    weights: Vec<Vec<u16>>,
    rounder: Rounder,
    begun: bool,
}

impl<'a> Steering<'a> {
    pub(super) fn new(fabric: &'a Fabric, plans: &'a [Plan<'a>], exact: &Loads) -> Self {
        let none = |plan: &Plan<'_>| vec![0; plan.groups.len() * plan.columns.len()];
        Self {
            fabric,
            plans,
            errors: exact.each(|_| 0.0),
            costs: exact.each(|load| if load > 0.0 { 1.0 / load } else { 0.0 }),
            weights: plans.iter().map(none).collect(),
            rounder: Rounder::default(),
            begun: false,
        }
    }

    pub(super) fn into_weights(self) -> Vec<Vec<u16>> {
        self.weights
    }

    /// Rounds every group that is not exact anew.
    pub(super) fn pass(&mut self) {
        for plan in self.plans {
            let mut amounts = Amounts::new(self.fabric, plan.source);
            for at in 0..plan.groups.len() {
                let group = &plan.groups[at];
                if group.parts == 0 || (self.begun && group.exact) {
                    continue;
                }
                match &group.merged {
                    Some(merged) => self.rounder.want(&merged.shares),
                    None => {
                        let example = plan.destinations[group.range.start] as usize;
                        plan::shares(amounts.toward(example), &mut self.rounder.shares);
                    }
                }
                self.group(plan, at);
            }
        }
        self.begun = true;
    }

    fn group(&mut self, plan: &Plan<'_>, at: usize) {
        let group = &plan.groups[at];
        let width = plan.columns.len();
        let weights = &mut self.weights[plan.place][at * width..][..width];
        let destinations = &plan.destinations[group.range.clone()];
        let mut links = Links {
            columns: &plan.columns,
            destinations,
            errors: &mut self.errors,
            costs: &self.costs,
            leaf: plan.place,
        };
        if self.begun {
            links.add(-1.0, &self.rounder.shares, weights);
        }
        if group.exact {
            self.rounder.exact(group.parts, weights);
        } else {
            links.pull(&mut self.rounder.pulls, &mut self.rounder.costs);
            self.rounder.round(group.parts, weights);
        }
        links.add(1.0, &self.rounder.shares, weights);
    }
}

/// The links that a group is on.
struct Links<'a> {
    columns: &'a [u32],
    destinations: &'a [u32],
    errors: &'a mut Loads,
    costs: &'a Loads,
    leaf: usize,
}

impl Links<'_> {
    /// Adds, or with -1 takes away, what the weights put on each link beside the shares.
    fn add(&mut self, sign: f64, shares: &[f64], weights: &[u16]) {
        let one = 1.0 / f64::from(plan::sum(weights).max(1));
        let times = self.destinations.len() as f64;
        let error = |weight: u16, share: f64| sign * (f64::from(weight) * one - share);
        let up = &mut self.errors.up[self.leaf];
        for ((up, weight), share) in up.iter_mut().zip(weights).zip(shares) {
            *up += times * error(*weight, *share);
        }
        for destination in self.destinations {
            let down = self.errors.toward_mut(*destination);
            for ((column, weight), share) in self.columns.iter().zip(weights).zip(shares) {
                down[*column as usize] += error(*weight, *share);
            }
        }
    }

    /// Of each uplink the error that all its links have for each unit of a destination, and what an error costs there.
    fn pull(&self, pulls: &mut Vec<f64>, costs: &mut Vec<f64>) {
        let times = self.destinations.len() as f64;
        let up = self.errors.up[self.leaf]
            .iter()
            .zip(&self.costs.up[self.leaf]);
        pulls.clear();
        costs.clear();
        for (error, cost) in up {
            pulls.push(times * (cost * error).max(UNDER));
            costs.push(times * times * cost);
        }
        for destination in self.destinations {
            let errors = self.errors.toward(*destination);
            let down = self.costs.toward(*destination);
            for (at, column) in self.columns.iter().enumerate() {
                let column = *column as usize;
                pulls[at] += (down[column] * errors[column]).max(UNDER);
                costs[at] += down[column];
            }
        }
    }
}

/// Buffers for one group.
#[derive(Default)]
struct Rounder {
    /// What each uplink should have of the group.
    shares: Vec<f64>,
    /// Half the slope of the cost of each uplink at its share; then that over `costs`.
    pulls: Vec<f64>,
    costs: Vec<f64>,
    /// Who could get, or lose, the next part, by the order of what that costs.
    next: Vec<(u64, u32)>,
}

impl Rounder {
    fn want(&mut self, shares: &[f64]) {
        self.shares.clear();
        self.shares.extend_from_slice(shares);
    }

    /// Weights that are the shares themselves: `parts` makes them whole numbers.
    fn exact(&self, parts: u32, weights: &mut [u16]) {
        for (weight, share) in weights.iter_mut().zip(&self.shares) {
            // At most the largest weight, as the plan has seen.
            *weight = (share * f64::from(parts)).round() as u16;
        }
    }

    fn round(&mut self, parts: u32, weights: &mut [u16]) {
        let all = f64::from(parts);
        let mut given = 0_u32;
        for (at, weight) in weights.iter_mut().enumerate() {
            let (share, cost) = (self.shares[at], self.costs[at]);
            *weight = 0;
            if share > 0.0 {
                // Half a part more than in the middle of a part: its end is what counts.
                let aim = share - self.pulls[at] / cost;
                self.pulls[at] = 0.5 / all - aim;
                *weight = (aim * all).clamp(0.0, f64::from(WEIGHT_MAX)) as u16;
                given += u32::from(*weight);
            }
        }
        while given != parts {
            let (step, short) = match given < parts {
                true => (1, parts - given),
                false => (-1, given - parts),
            };
            let changed = self.step(step, short, all, weights);
            given = given.saturating_add_signed(step * changed);
            if changed == 0 {
                break;
            }
        }
    }

    /// Gives (1) or takes (-1) a part to or from up to so many members, those where it costs least; how many.
    fn step(&mut self, step: i32, members: u32, all: f64, weights: &mut [u16]) -> i32 {
        self.next.clear();
        for (at, weight) in weights.iter().enumerate() {
            let possible = match step {
                1 => self.shares[at] > 0.0 && *weight < WEIGHT_MAX,
                _ => *weight > 0,
            };
            if possible {
                let sign = f64::from(step);
                let slope =
                    2.0 * self.pulls[at] * sign + (2.0 * sign * f64::from(*weight) + 1.0) / all;
                self.next.push((ordered(self.costs[at] * slope), at as u32));
            }
        }
        // Not to all at once: the last of them may need one less than the first need two.
        let members = (members as usize).min(self.next.len().div_ceil(2));
        if members > 0 && members < self.next.len() {
            self.next.select_nth_unstable(members - 1);
        }
        for (_, at) in &self.next[..members] {
            let weight = &mut weights[*at as usize];
            *weight = weight.saturating_add_signed(step as i16);
        }
        members as i32
    }
}

/// A number whose order is that of the fraction.
fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// How much too little a link can have, of its exact load, to pull more: a link that needs less than a part has none and
/// loses nothing by it, and must not drag others along.
const UNDER: f64 = -0.1;
