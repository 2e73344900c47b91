//! What each link carries where each leaf sends as much to each other leaf. It refuses to know why.
//!
//! One is the traffic from a leaf to another. Downwards a link is all that a next switch carries to a leaf: where that has
//! several links, or other switches between, it divides its traffic itself.

use super::plan::{self, Plan};
use crate::fabric::Fabric;
use crate::leaf::Amounts;

/// Loads of all uplinks, and of all next switches toward each leaf.
#[derive(Debug)]
pub(super) struct Loads {
    /// By leaf, then by uplink.
    pub(super) up: Vec<Vec<f64>>,
    /// By destination, then by column.
    pub(super) down: Vec<f64>,
    pub(super) columns: usize,
}

impl Loads {
    fn new(fabric: &Fabric, plans: &[Plan<'_>]) -> Self {
        let columns = fabric.columns();
        let up = plans.iter().map(|plan| vec![0.0; plan.source.ports.len()]);
        Self {
            up: up.collect(),
            down: vec![0.0; columns.saturating_mul(fabric.leaves.len())],
            columns,
        }
    }

    /// Other numbers for the same links.
    pub(super) fn each(&self, of: impl Fn(f64) -> f64) -> Self {
        let other = |loads: &Vec<f64>| loads.iter().map(|load| of(*load)).collect();
        Self {
            up: self.up.iter().map(other).collect(),
            down: other(&self.down),
            columns: self.columns,
        }
    }

    /// By column what leads to a leaf.
    pub(super) fn toward(&self, destination: u32) -> &[f64] {
        &self.down[destination as usize * self.columns..][..self.columns]
    }

    pub(super) fn toward_mut(&mut self, destination: u32) -> &mut [f64] {
        &mut self.down[destination as usize * self.columns..][..self.columns]
    }

    /// With exact weights.
    pub(super) fn exact(fabric: &Fabric, plans: &[Plan<'_>]) -> Self {
        let mut loads = Self::new(fabric, plans);
        let mut shares = Vec::new();
        for plan in plans {
            let mut amounts = Amounts::new(fabric, plan.source);
            for group in &plan.groups {
                for (alike, destinations) in plan.alike(group) {
                    plan::shares(amounts.toward(alike), &mut shares);
                    loads.add(plan, destinations, |port| shares[port]);
                }
            }
        }
        loads
    }

    /// With these weights, by leaf, then by group and uplink.
    pub(super) fn of(fabric: &Fabric, plans: &[Plan<'_>], weights: &[Vec<u16>]) -> Self {
        let mut loads = Self::new(fabric, plans);
        for (plan, weights) in plans.iter().zip(weights) {
            for (at, group) in plan.groups.iter().enumerate() {
                let weights = plan.row(weights, at);
                let one = 1.0 / f64::from(plan::sum(weights).max(1));
                let destinations = &plan.destinations[group.range.clone()];
                loads.add(plan, destinations, |port| f64::from(weights[port]) * one);
            }
        }
        loads
    }

    fn add(&mut self, plan: &Plan<'_>, destinations: &[u32], share: impl Fn(usize) -> f64) {
        let times = destinations.len() as f64;
        let up = &mut self.up[plan.place];
        for (port, load) in up.iter_mut().enumerate() {
            *load += times * share(port);
        }
        for destination in destinations {
            let down = self.toward_mut(*destination);
            for (port, column) in plan.columns.iter().enumerate() {
                down[*column as usize] += share(port);
            }
        }
    }

    /// What the worst link of these loads has too much beside exact ones.
    pub(super) fn worst_beside(&self, exact: &Self) -> f64 {
        let up = self.up.iter().flatten().zip(exact.up.iter().flatten());
        worst(up.chain(self.down.iter().zip(&exact.down)))
    }

    /// What the worst uplink of a leaf has too much with these weights, beside these exact loads.
    pub(super) fn worst_uplink_beside(&self, plan: &Plan<'_>, weights: &[u16]) -> f64 {
        let mut up = vec![0.0; plan.columns.len()];
        for (at, group) in plan.groups.iter().enumerate() {
            let weights = plan.row(weights, at);
            let one = group.range.len() as f64 / f64::from(plan::sum(weights).max(1));
            for (load, weight) in up.iter_mut().zip(weights) {
                *load += f64::from(*weight) * one;
            }
        }
        worst(up.iter().zip(&self.up[plan.place]))
    }
}

fn worst<'a>(loads: impl Iterator<Item = (&'a f64, &'a f64)>) -> f64 {
    let used = loads.filter(|(_, exact)| **exact > 0.0);
    let loss = used
        .map(|(load, exact)| load / exact - 1.0)
        .fold(0.0, f64::max);
    if loss < LOSS_NONE { 0.0 } else { loss }
}

/// A loss below this is arithmetic in floating point, and not rounding: there is none.
pub(super) const LOSS_NONE: f64 = 1e-9;
