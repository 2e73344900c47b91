//! Shares of a leaf's uplinks, from the factors of links. It refuses to know how factors are found, and integers.

use std::sync::Arc;

use super::{Background, TrafficError};
use crate::fabric::Fabric;
use crate::fluid::{Bin, Factors, Network};
use crate::problem::{Problem, SwitchId};

/// How each leaf divides what it sends to each other leaf over its uplinks, before rounding.
#[derive(Debug)]
pub struct Shares {
    pub(super) network: Network,
    factors: Factors,
    plain: Factors,
    leaves: Arc<[SwitchId]>,
    /// Of each leaf, in order of its links.
    pub(super) ports: Vec<Vec<Port>>,
    /// In order of leaf and class.
    pub(super) bins: Vec<Bin>,
}

/// An uplink.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// The place of the switch at its other end.
    pub(super) spine: usize,
    /// Its part of the live capacity to that switch.
    pub(super) part: f64,
}

impl Shares {
    pub(super) fn new(fabric: &Fabric, network: Network, factors: Factors, bins: Vec<Bin>) -> Self {
        let ports = fabric.sources.iter().map(|source| {
            let port = source.ports.iter().map(|port| {
                let way = &source.ways[port.way];
                let part = match port.alive {
                    true => port.capacity as f64 / way.up as f64,
                    false => 0.0,
                };
                Port {
                    spine: way.column,
                    part,
                }
            });
            port.collect()
        });
        Self {
            plain: network.by_capacity(),
            network,
            factors,
            leaves: Arc::clone(&fabric.leaves),
            ports: ports.collect(),
            bins,
        }
    }

    /// The capacity-proportional shares of the same fabric.
    pub(super) fn by_capacity(self) -> Self {
        Self {
            factors: self.plain.clone(),
            ..self
        }
    }

    /// The shares of a leaf's uplinks, in order of its links, for what it sends to another leaf: their sum is 1, or 0 where
    /// no spine leads there. None for two switches that are not two leaves.
    pub fn of(&self, from: SwitchId, to: SwitchId) -> Option<Vec<f64>> {
        let place = |leaf| u32::try_from(self.leaves.binary_search(&leaf).ok()?).ok();
        let (from, to) = (place(from).filter(|_| from != to)?, place(to)?);
        let class = self.network.class_of(to);
        let factors = match self.bin(from, class) {
            Some(_) => &self.factors,
            None => &self.plain,
        };
        let mut shares = Vec::new();
        self.write(factors, from, class, &mut shares);
        Some(shares)
    }

    /// The place of the bin of a leaf and a class of destinations; None where there is no demand.
    pub(super) fn bin(&self, from: u32, class: u32) -> Option<usize> {
        let found = self
            .bins
            .binary_search_by_key(&(from, class), |bin| (bin.from, bin.class));
        found.ok()
    }

    /// Writes the shares of all demands of a bin.
    pub(super) fn of_bin(&self, bin: &Bin, shares: &mut Vec<f64>) {
        self.write(&self.factors, bin.from, bin.class, shares);
    }

    fn write(&self, factors: &Factors, from: u32, class: u32, shares: &mut Vec<f64>) {
        let mut row = vec![0.0; self.network.spines()];
        let sum = self.network.weigh(factors, from, class, &mut row);
        let all = if sum > 0.0 { sum } else { 1.0 };
        shares.clear();
        let ports = self.ports[from as usize].iter();
        shares.extend(ports.map(|port| row[port.spine] * port.part / all));
    }
}

/// Leaves and the switches above them, by their places in the fabric.
pub(super) fn network(problem: &Problem, fabric: &Fabric) -> Result<Network, TrafficError> {
    let is_leaf = |switch| problem.tier(switch) == Some(0);
    let above = |ends: (SwitchId, SwitchId)| {
        let tiers = (problem.tier(ends.0), problem.tier(ends.1));
        !is_leaf(ends.0) && !is_leaf(ends.1) && tiers.0 != tiers.1
    };
    if let Some(link) = problem.links().find(|link| link.alive && above(link.ends)) {
        return Err(TrafficError::ThirdTier(link.id));
    }
    let (leaves, spines) = (fabric.leaves.len(), fabric.columns());
    let mut capacity = vec![0.0; leaves * spines];
    for (source, row) in fabric
        .sources
        .iter()
        .zip(capacity.chunks_mut(spines.max(1)))
    {
        for way in &source.ways {
            row[way.column] = way.up as f64 * fabric.unit_bps as f64;
        }
    }
    Ok(Network::new(leaves, spines, capacity))
}

/// Adds load to the links between a leaf and a switch above it.
pub(super) fn add_background(
    fabric: &Fabric,
    network: &mut Network,
    background: Background,
) -> Result<(), TrafficError> {
    let Background { leaf, spine, .. } = background;
    let place = fabric.leaves.binary_search(&leaf);
    let place = place.map_err(|_| TrafficError::NotALeaf(leaf))?;
    let loads = [background.up_bps, background.down_bps];
    if loads == [0, 0] {
        return Ok(());
    }
    let source = &fabric.sources[place];
    let mut uplinks = source.uplinks.iter().zip(&source.ports);
    let found = uplinks.find(|(uplink, _)| uplink.via == spine);
    let way = found.map(|(_, port)| &source.ways[port.way]);
    let way = way.filter(|way| way.up > 0);
    let column = way.ok_or(TrafficError::NoLink { leaf, spine })?.column;
    for (direction, load) in loads.into_iter().enumerate() {
        network.add_background(direction, place, column, load as f64);
    }
    Ok(())
}
