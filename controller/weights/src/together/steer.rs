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

    /// By leaf, then by group and uplink.
    pub(super) fn weights(&self) -> &[Vec<u16>] {
        &self.weights
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
            columns: (!plan.in_order).then_some(&plan.columns),
            destinations,
            errors: &mut self.errors,
            costs: &self.costs,
            leaf: plan.place,
        };
        self.rounder.own(self.begun, weights);
        if group.exact {
            self.rounder.exact(group.parts, weights);
        } else {
            links.pull(&mut self.rounder);
            self.rounder.round(group.parts, weights);
        }
        links.add(&mut self.rounder, weights);
    }
}

/// The links that a group is on.
struct Links<'a> {
    /// The column behind each uplink; None where uplinks and columns are in one order.
    columns: Option<&'a Vec<u32>>,
    destinations: &'a [u32],
    errors: &'a mut Loads,
    costs: &'a Loads,
    leaf: usize,
}

impl Links<'_> {
    /// Of each uplink what all its links have too much without this group, and what more costs there.
    fn pull(&self, rounder: &mut Rounder) {
        let Rounder {
            own, pulls, costs, ..
        } = rounder;
        let times = self.destinations.len() as f64;
        let up = &self.errors.up[self.leaf];
        let up = up.iter().zip(&self.costs.up[self.leaf]).zip(own.iter());
        pulls.clear();
        pulls.extend(up.map(|((error, cost), own)| times * pull(*error - times * own, *cost)));
        costs.clear();
        let up = self.costs.up[self.leaf].iter();
        costs.extend(up.map(|cost| times * times * cost));
        for destination in self.destinations {
            let errors = self.errors.toward(*destination);
            let down = self.costs.toward(*destination);
            let each = pulls.iter_mut().zip(costs.iter_mut()).zip(own.iter());
            match self.columns {
                None => {
                    for (((pulls, costs), own), (error, cost)) in each.zip(errors.iter().zip(down))
                    {
                        *pulls += pull(error - own, *cost);
                        *costs += cost;
                    }
                }
                Some(columns) => {
                    for (((pulls, costs), own), column) in each.zip(columns) {
                        let column = *column as usize;
                        *pulls += pull(errors[column] - own, down[column]);
                        *costs += down[column];
                    }
                }
            }
        }
    }

    /// Puts the weights on the links, in place of what the group had there before.
    fn add(&mut self, rounder: &mut Rounder, weights: &[u16]) {
        let one = 1.0 / f64::from(plan::sum(weights).max(1));
        let Rounder { own, shares, .. } = rounder;
        for ((own, share), weight) in own.iter_mut().zip(shares).zip(weights) {
            *own = f64::from(*weight) * one - *share - *own;
        }
        let times = self.destinations.len() as f64;
        let up = &mut self.errors.up[self.leaf];
        up.iter_mut()
            .zip(own.iter())
            .for_each(|(up, change)| *up += times * change);
        for destination in self.destinations {
            let down = self.errors.toward_mut(*destination);
            match self.columns {
                None => down
                    .iter_mut()
                    .zip(own.iter())
                    .for_each(|(down, change)| *down += change),
                Some(columns) => {
                    for (column, change) in columns.iter().zip(own.iter()) {
                        down[*column as usize] += change;
                    }
                }
            }
        }
    }
}

/// What a link has too much, as a part of its exact load.
fn pull(error: f64, cost: f64) -> f64 {
    let pull = error * cost;
    if pull > UNDER { pull } else { UNDER }
}

/// Buffers for one group.
#[derive(Default)]
struct Rounder {
    /// What each uplink should have of the group.
    shares: Vec<f64>,
    /// What it has too much of the group, and then how that changes.
    own: Vec<f64>,
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

    /// What the weights are beside the shares; nothing before there are weights.
    fn own(&mut self, begun: bool, weights: &[u16]) {
        let one = 1.0 / f64::from(plan::sum(weights).max(1));
        let now = if begun { 1.0 } else { 0.0 };
        self.own.clear();
        let pairs = weights.iter().zip(&self.shares);
        self.own
            .extend(pairs.map(|(weight, share)| now * (f64::from(*weight) * one - share)));
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
                let aim = share - self.pulls[at] / cost;
                // The end of a part counts, which is half a part more than its middle.
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
