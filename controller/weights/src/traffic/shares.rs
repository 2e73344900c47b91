//! Shares of a leaf's uplinks, from the factors of links. It refuses to know how factors are found, and integers.

use std::sync::Arc;

use super::network;
use crate::fabric::Fabric;
use crate::fluid::{Bin, Factors, Network};
use crate::problem::SwitchId;

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
    /// The place of the switch at its other end, or of its plane.
    pub(super) spine: usize,
    /// Its part of the live capacity to that switch.
    pub(super) part: f64,
}

impl Shares {
    pub(super) fn new(
        fabric: &Fabric,
        network: network::Network,
        factors: Factors,
        bins: Vec<Bin>,
    ) -> Self {
        let ports = fabric.sources.iter().map(|source| {
            let ports = source.uplinks.iter().zip(&source.ports);
            let port = ports.map(|(uplink, port)| {
                let way = &source.ways[port.way];
                let part = match port.alive {
                    true => port.capacity as f64 / way.up as f64,
                    false => 0.0,
                };
                Port {
                    spine: network.spine(uplink.via, way.column).unwrap_or_default(),
                    part,
                }
            });
            port.collect()
        });
        Self {
            ports: ports.collect(),
            plain: network.fluid.by_capacity(),
            network: network.fluid,
            factors,
            leaves: Arc::clone(&fabric.leaves),
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
    /// no spine leads there. Without a demand they are by capacity, as [`Utilization`](super::Utilization) has it. None for two switches
    /// that are not two leaves.
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
