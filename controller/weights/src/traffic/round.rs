//! Shares to integer weights, so that the errors of groups that share a link cancel out.
//!
//! Rounded alone, the groups of a leaf would all err the same way, by more than the shares gain. Here each group is rounded
//! from its shares less what its links have too much already (error diffusion). It refuses to know what the best shares are.

use std::collections::HashMap;
use std::sync::Arc;

use super::shares::Shares;

mod row;

use crate::fabric::Fabric;
use crate::fluid::{Bin, Demand};
use crate::leaf::LeafSolution;
use crate::quantize::{Limits, Quantizer, Rounding};
use row::{Row, most};

/// What links carry of the demands, by their weights.
pub(super) struct Loads {
    /// By leaf, then by uplink.
    up: Vec<Vec<f64>>,
    /// By row, then by spine. Up, those of leaves are nothing: uplinks count one by one.
    rows: [Vec<f64>; 2],
}

impl Loads {
    pub(super) fn new(shares: &Shares) -> Self {
        let cells = shares.network.rows() * shares.network.spines();
        Self {
            up: shares.ports.iter().map(|it| vec![0.0; it.len()]).collect(),
            rows: [0, 1].map(|_| vec![0.0; cells]),
        }
    }

    /// Of a row, by spine.
    fn row(&self, side: usize, row: usize, spines: usize) -> &[f64] {
        &self.rows[side][row * spines..][..spines]
    }

    fn row_mut(&mut self, side: usize, row: usize, spines: usize) -> &mut [f64] {
        &mut self.rows[side][row * spines..][..spines]
    }

    /// Adds what a leaf sends.
    pub(super) fn add(&mut self, shares: &Shares, demands: &[Demand], leaf: &LeafSolution) {
        let from = leaf.place as u32;
        let begin = shares.bins.partition_point(|bin| bin.from < from);
        let bins = shares.bins[begin..].iter();
        for bin in bins.take_while(|bin| bin.from == from) {
            for demand in &demands[bin.range.clone()] {
                let group = leaf.group_of[demand.to as usize] as usize;
                self.add_demand(shares, demand, leaf.weights(group).weights);
            }
        }
    }

    fn add_demand(&mut self, shares: &Shares, demand: &Demand, weights: &[u16]) {
        let (spines, from) = (shares.network.spines(), demand.from as usize);
        let one = demand.amount * one_part(weights);
        let ports = &shares.ports[from];
        let loads = self.up[from].iter_mut().zip(weights);
        loads.for_each(|(load, weight)| *load += f64::from(*weight) * one);
        for (side, row) in rows(shares, demand.from, demand.to) {
            let loads = self.row_mut(side, row, spines);
            for (port, weight) in ports.iter().zip(weights) {
                loads[port.spine] += f64::from(*weight) * one;
            }
        }
    }

    /// Load / capacity of the busiest link, with the background.
    pub(super) fn busiest(&self, shares: &Shares) -> f64 {
        let (network, mut busiest) = (&shares.network, 0.0_f64);
        for (leaf, (up, ports)) in self.up.iter().zip(&shares.ports).enumerate() {
            for (load, port) in up.iter().zip(ports).filter(|(_, port)| port.part > 0.0) {
                let capacity = network.capacity(leaf, port.spine);
                let background = network.background(0, leaf, port.spine);
                busiest = busiest.max((load / port.part + background) / capacity);
            }
        }
        let spines = network.spines();
        let cells = (0..network.rows()).flat_map(|row| (0..spines).map(move |it| (row, it)));
        let alive = cells.filter(|(row, spine)| network.capacity(*row, *spine) > 0.0);
        for (row, spine) in alive {
            // Uplinks have been seen.
            let first = usize::from(row < network.leaves());
            for side in first..2 {
                let load = self.row(side, row, spines)[spine];
                let all = load + network.background(side, row, spine);
                busiest = busiest.max(all / network.capacity(row, spine));
            }
        }
        busiest
    }
}

/// The rows of links down to a leaf, and above the spines of its pod and of the pod that sends, that a demand takes beside uplinks:
/// 0 for up and 1 for down, and the row.
fn rows(shares: &Shares, from: u32, to: u32) -> impl Iterator<Item = (usize, usize)> {
    let above = shares.network.rows_above(from, to);
    let above = above.into_iter().flat_map(|above| (0..).zip(above));
    std::iter::once((1, to as usize)).chain(above)
}

/// Rounds all groups, one after another.
pub(super) struct Rounder<'a> {
    fabric: &'a Fabric,
    shares: &'a Shares,
    demands: &'a [Demand],
    limits: Limits,
    /// Of each link, load / capacity: by weights for the groups that are rounded, by shares for the others.
    used: Loads,
    /// Of each link, load by weights - load by shares of the groups that are rounded.
    errors: Loads,
    /// Of each bin, by uplink.
    weights: Vec<Vec<u16>>,
    quantizer: Quantizer,
    row: Row,
}

impl<'a> Rounder<'a> {
    pub(super) fn new(
        fabric: &'a Fabric,
        shares: &'a Shares,
        loads: &[Vec<f64>; 2],
        demands: &'a [Demand],
        limits: Limits,
    ) -> Self {
        let mut used = Loads::new(shares);
        let (network, spines) = (&shares.network, shares.network.spines());
        for (leaf, ports) in shares.ports.iter().enumerate() {
            let of = |spine: usize| {
                let all = loads[0][leaf * spines + spine] + network.background(0, leaf, spine);
                all / network.capacity(leaf, spine).max(1.0)
            };
            used.up[leaf] = ports.iter().map(|port| of(port.spine)).collect();
        }
        for (cell, capacity) in network.capacities().iter().enumerate() {
            for (side, loads) in loads.iter().enumerate() {
                let all = loads[cell] + network.background(side, cell / spines, cell % spines);
                used.rows[side][cell] = all / capacity.max(1.0);
            }
        }
        Self {
            fabric,
            shares,
            demands,
            limits,
            used,
            errors: Loads::new(shares),
            weights: Vec::with_capacity(shares.bins.len()),
            quantizer: Quantizer::default(),
            row: Row::default(),
        }
    }

    /// Rounds every group, in the order of their leaves.
    pub(super) fn round(&mut self) {
        for bin in &self.shares.bins {
            self.shares.of_bin(bin, &mut self.row.exact);
            self.want(bin);
            let mut weights = vec![0; self.row.exact.len()];
            if !self.row.round(self.limits, &mut weights) {
                // More members than parts, or shares that differ by more than the largest weight.
                let amounts = self.row.wanted.iter();
                let amounts: Vec<u64> = amounts.map(|it| (it * AMOUNTS) as u64).collect();
                self.quantizer.quantize(&amounts, self.limits, &mut weights);
            }
            self.add_errors(bin, &weights);
            self.weights.push(weights);
        }
    }

    /// Sets what is wanted of a bin: its shares less what its links have too much; and how busy those are.
    fn want(&mut self, bin: &Bin) {
        let (network, spines) = (&self.shares.network, self.shares.network.spines());
        let from = bin.from as usize;
        let ports = &self.shares.ports[from];
        let row = &mut self.row;
        row.clear();
        for ((exact, port), error) in row.exact.iter().zip(ports).zip(&self.errors.up[from]) {
            row.wanted.push(exact - error / bin.amount);
            let capacity = network.capacity(from, port.spine) * port.part;
            row.up_each.push(bin.amount / capacity.max(1.0));
        }
        row.up.extend_from_slice(&self.used.up[from]);
        row.down.resize(ports.len(), 0.0);
        row.down_each.resize(ports.len(), 0.0);
        for demand in &self.demands[bin.range.clone()] {
            for (side, at) in rows(self.shares, demand.from, demand.to) {
                let errors = self.errors.row(side, at, spines);
                let used = self.used.row(side, at, spines);
                let made_up = match at < network.leaves() {
                    true => 1.0,
                    false => MADE_UP_ABOVE,
                };
                let one = made_up * demand.amount / bin.amount / bin.amount;
                for (at_port, port) in ports.iter().enumerate() {
                    row.wanted[at_port] -= errors[port.spine] * port.part * one;
                    let each = demand.amount / network.capacity(at, port.spine).max(1.0);
                    row.down[at_port] = most(row.down[at_port], used[port.spine]);
                    row.down_each[at_port] = most(row.down_each[at_port], each);
                }
            }
        }
        for (wanted, exact) in row.wanted.iter_mut().zip(&row.exact) {
            *wanted = wanted.clamp(*exact * SHRUNK, *exact * GROWN);
        }
    }

    fn add_errors(&mut self, bin: &Bin, weights: &[u16]) {
        let (network, spines) = (&self.shares.network, self.shares.network.spines());
        let from = bin.from as usize;
        let ports = &self.shares.ports[from];
        let one = one_part(weights);
        let row = &mut self.row;
        for (at, weight) in weights.iter().enumerate() {
            // What is wanted is not needed any more.
            let error = f64::from(*weight) * one - row.exact[at];
            row.wanted[at] = error;
            self.errors.up[from][at] += error * bin.amount;
            self.used.up[from][at] += error * row.up_each[at];
        }
        for demand in &self.demands[bin.range.clone()] {
            for (side, at) in rows(self.shares, demand.from, demand.to) {
                let sums = self.errors.row_mut(side, at, spines);
                for (error, port) in row.wanted.iter().zip(ports) {
                    sums[port.spine] += error * demand.amount;
                }
                let used = self.used.row_mut(side, at, spines);
                for (error, port) in row.wanted.iter().zip(ports) {
                    let each = demand.amount / network.capacity(at, port.spine).max(1.0);
                    used[port.spine] += error * each;
                }
            }
        }
    }

    /// Load / capacity of the busiest link.
    pub(super) fn busiest(&self) -> f64 {
        let mut loads = Loads::new(self.shares);
        for (bin, weights) in self.shares.bins.iter().zip(&self.weights) {
            for demand in &self.demands[bin.range.clone()] {
                loads.add_demand(self.shares, demand, weights);
            }
        }
        loads.busiest(self.shares)
    }

    /// The weights of all leaves.
    pub(super) fn into_leaves(mut self) -> Vec<LeafSolution> {
        let leaves = 0..self.shares.ports.len();
        leaves.filter_map(|place| self.leaf(place)).collect()
    }

    /// Groups for the demands of a leaf; where it has none, those by capacity.
    fn leaf(&mut self, place: usize) -> Option<LeafSolution> {
        let plain = self.fabric.leaf(self.fabric.leaves[place], self.limits)?;
        let mut groups = Groups::default();
        let mut of_class: HashMap<u32, u32> = HashMap::new();
        let mut group_of = vec![0; plain.leaves.len()];
        for to in (0..plain.leaves.len()).filter(|to| *to != place) {
            let class = self.shares.network.class_of(to as u32);
            group_of[to] = match self.shares.bin(place as u32, class) {
                Some(at) => *of_class.entry(class).or_insert_with(|| {
                    self.shares
                        .of_bin(&self.shares.bins[at], &mut self.row.exact);
                    let weights = std::mem::take(&mut self.weights[at]);
                    groups.number(&weights, rounding(&self.row.exact, &weights))
                }),
                None => {
                    let group = plain.group_of[to] as usize;
                    groups.number(plain.weights(group).weights, plain.roundings[group])
                }
            };
        }
        if groups.roundings.is_empty() {
            return Some(plain);
        }
        groups.weights.shrink_to_fit();
        Some(LeafSolution {
            group_of: group_of.into(),
            uplinks: Arc::clone(&plain.uplinks),
            weights: groups.weights,
            roundings: groups.roundings,
            ..plain
        })
    }
}

fn one_part(weights: &[u16]) -> f64 {
    let parts: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
    1.0 / f64::from(parts.max(1))
}

/// How far the worst member is over its share.
fn rounding(exact: &[f64], weights: &[u16]) -> Rounding {
    let one = one_part(weights);
    let each = exact.iter().zip(weights).filter(|(exact, _)| **exact > 0.0);
    let over = each.map(|(exact, weight)| f64::from(*weight) * one / exact);
    Rounding {
        parts: weights.iter().map(|weight| u32::from(*weight)).sum(),
        // A number above the largest becomes the largest.
        delta_ppm: (over.fold(0.0, f64::max) * 1e6 * (1.0 - 1e-9)).ceil() as u64,
    }
}

/// Rows of weights without repetition.
#[derive(Default)]
struct Groups {
    /// By fingerprint.
    numbers: HashMap<u64, u32>,
    weights: Vec<u16>,
    roundings: Vec<Rounding>,
}

impl Groups {
    /// The number of a row. Of equal rows the worst rounding is kept.
    fn number(&mut self, row: &[u16], rounding: Rounding) -> u32 {
        let next = u32::try_from(self.roundings.len()).expect("fewer groups than leaves");
        let number = *self.numbers.entry(fingerprint(row)).or_insert(next);
        let begin = number as usize * row.len();
        if number < next && self.weights[begin..][..row.len()] == *row {
            let known = &mut self.roundings[number as usize];
            known.delta_ppm = known.delta_ppm.max(rounding.delta_ppm);
            return number;
        }
        // Another row with the same fingerprint is a group of its own each time.
        self.weights.extend(row);
        self.roundings.push(rounding);
        next
    }
}

/// A number that differs where weights differ, but for accidents.
pub(super) fn fingerprint(weights: &[u16]) -> u64 {
    weights.iter().fold(0, |all: u64, weight| {
        (all ^ u64::from(*weight))
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    })
}

/// How much of what links above spines have too much a group makes up for: all leaves of a pod do.
const MADE_UP_ABOVE: f64 = 0.2;
/// How little or much of its share an uplink may get for the sake of other groups.
const SHRUNK: f64 = 0.5;
const GROWN: f64 = 2.0;
/// What a share of one is, as a number to be rounded.
const AMOUNTS: f64 = (1_u64 << 40) as f64;
