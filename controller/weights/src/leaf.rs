//! Water-filling for one leaf: every live way to a leaf takes a share in proportion to what it can carry end to end.
//!
//! A next switch carries min(live capacity up to it, live capacity from it to the destination); parallel links to it
//! divide that in proportion to their own capacity. This is the answer when demand is unknown. Exact for two tiers; in
//! three tiers the capacity from a switch to the destination is counted tier by tier, which is an upper bound where
//! several ways meet again. It refuses to know demand.

use std::sync::Arc;

use crate::explain::{Exclusion, Reason};
use crate::fabric::{Fabric, Port, Source, Uplink, Way};
use crate::problem::SwitchId;
use crate::quantize::{AMOUNT_MAX, Limits, Quantizer, Rounding, gcd};
use crate::spread::{Excluded, Group, Member};

/// How one leaf divides its traffic to each other leaf: two octets per uplink and group.
///
/// Destinations share a group where every next switch carries the same to them, alive and declared. Equal solutions
/// program the leaf the same; the reasons of their groups may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSolution {
    pub(crate) source: SwitchId,
    /// The place of the source among the leaves.
    pub(crate) place: usize,
    pub(crate) limits: Limits,
    pub(crate) leaves: Arc<[SwitchId]>,
    pub(crate) group_of: Arc<[u32]>,
    pub(crate) uplinks: Arc<[Uplink]>,
    /// By group, then by uplink.
    pub(crate) weights: Vec<u16>,
    pub(crate) roundings: Vec<Rounding>,
}

/// The weights of a leaf's uplinks for the destinations of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights<'a> {
    /// One for each of [`LeafSolution::uplinks`], in their order; 0 for an uplink that carries none.
    pub weights: &'a [u16],
    /// The sum of the weights; 0 when nothing alive leads there.
    pub parts: u32,
    /// How far rounding overloads the worst member, in millionths: 1,000,000 is exact.
    pub delta_ppm: u64,
}

impl LeafSolution {
    /// The leaf.
    pub fn source(&self) -> SwitchId {
        self.source
    }

    /// What the weights were made for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Every uplink of the leaf, dead or alive, in order of the links.
    pub fn uplinks(&self) -> &[Uplink] {
        &self.uplinks
    }

    /// How many groups there are; a group is named by its place below this.
    pub fn groups(&self) -> usize {
        self.roundings.len()
    }

    /// The weights of a group. Panics for a group that is not below [`Self::groups`].
    pub fn weights(&self, group: usize) -> Weights<'_> {
        let width = self.uplinks.len();
        let Rounding { parts, delta_ppm } = self.roundings[group];
        Weights {
            weights: &self.weights[group * width..][..width],
            parts,
            delta_ppm,
        }
    }

    /// The group for a destination; None if that is the leaf itself or no leaf.
    pub fn group_of(&self, destination: SwitchId) -> Option<usize> {
        let place = self.leaves.binary_search(&destination).ok()?;
        (place != self.place).then(|| self.group_of[place] as usize)
    }

    /// Every other leaf, in order of their numbers, with its group. A group that is for none of them is unused: the leaf
    /// itself would be alone in it.
    pub fn destinations(&self) -> impl Iterator<Item = (SwitchId, usize)> + '_ {
        let all = self.leaves.iter().zip(self.group_of.iter());
        let others = all.enumerate().filter(|(place, _)| *place != self.place);
        others.map(|(_, (leaf, group))| (*leaf, *group as usize))
    }

    #[cfg(test)]
    pub(crate) fn weights_mut(&mut self) -> &mut [u16] {
        &mut self.weights
    }
}

impl Fabric {
    /// Solves for one leaf; None for a switch that is not a leaf. Equal problems give equal solutions.
    pub fn leaf(&self, source: SwitchId, limits: Limits) -> Option<LeafSolution> {
        let place = self.leaves.binary_search(&source).ok()?;
        let leaf = &self.sources[place];
        let pod = &self.pods[leaf.pod];
        let width = leaf.uplinks.len();
        let mut amounts = Amounts::new(self, leaf);
        let mut quantizer = Quantizer::default();
        let mut weights = vec![0; pod.members.len() * width];
        let mut roundings = Vec::with_capacity(pod.members.len());
        for group in 0..pod.members.len() {
            let rounding = match pod.example(group, place) {
                Some(destination) => quantizer.quantize(
                    amounts.toward(destination),
                    limits,
                    &mut weights[group * width..][..width],
                ),
                None => Rounding::default(),
            };
            roundings.push(rounding);
        }
        Some(LeafSolution {
            source,
            place,
            limits,
            leaves: Arc::clone(&self.leaves),
            group_of: Arc::clone(&pod.class_of),
            uplinks: Arc::clone(&leaf.uplinks),
            weights,
            roundings,
        })
    }

    /// Which uplinks of a leaf lead to another leaf, alive and with capacity all the way, in order of the links; None if one of the two is
    /// no leaf.
    pub fn leading(&self, source: SwitchId, destination: SwitchId) -> Option<Vec<bool>> {
        let leaf = &self.sources[self.leaves.binary_search(&source).ok()?];
        let destination = self.leaves.binary_search(&destination).ok()?;
        let leads =
            |port: &Port| port.alive && self.end_to_end(&leaf.ways[port.way], destination) > 0;
        Some(leaf.ports.iter().map(leads).collect())
    }

    /// Says why the members of a group have their weights and the other uplinks have none. The solution must be of this
    /// fabric.
    pub fn explain(&self, solution: &LeafSolution, group: usize) -> Group {
        let leaf = &self.sources[solution.place];
        let mut grouped = solution.group_of.iter().enumerate();
        let example = grouped
            .find(|(to, of)| *to != solution.place && **of as usize == group)
            .map(|(to, _)| to);
        let weights = solution.weights(group);
        let mut explained = Group {
            parts: weights.parts,
            delta_ppm: weights.delta_ppm,
            ..Group::default()
        };
        let Some(destination) = example else {
            return explained;
        };
        let usable = leaf
            .ports
            .iter()
            .filter(|port| port.alive && self.end_to_end(&leaf.ways[port.way], destination) > 0);
        let parts_max = solution.limits.parts_max(usable.count());
        for ((uplink, port), weight) in leaf.uplinks.iter().zip(&leaf.ports).zip(weights.weights) {
            let Uplink { link, via } = *uplink;
            let weight = u32::from(*weight);
            match self.reason(leaf, port, destination, weight, weights.parts, parts_max) {
                Ok(reason) => explained.members.push(Member {
                    link,
                    via,
                    weight,
                    reason,
                }),
                Err(reason) => explained.excluded.push(Excluded { link, via, reason }),
            }
        }
        explained
    }

    fn reason(
        &self,
        leaf: &Source,
        port: &Port,
        destination: usize,
        weight: u32,
        parts: u32,
        parts_max: u32,
    ) -> Result<Reason, Exclusion> {
        if !port.alive {
            return Err(Exclusion::LinkDown);
        }
        let way = &leaf.ways[port.way];
        let carried = self.end_to_end(way, destination);
        if carried == 0 {
            return Err(Exclusion::NoWayOn);
        }
        let end_to_end_bps = share_bps(port.capacity * self.unit_bps, carried, way.up);
        if weight == 0 {
            return Err(Exclusion::TooSmall {
                end_to_end_bps,
                parts_max,
            });
        }
        let onward = self.onward[self.row(destination)[way.column] as usize];
        Ok(Reason {
            weight,
            parts,
            end_to_end_bps,
            up_bps: self.as_bps(way.up),
            up_links: way.up_links,
            down_bps: self.as_bps(onward.alive),
            down_declared_bps: self.as_bps(onward.declared),
        })
    }

    fn end_to_end(&self, way: &Way, destination: usize) -> u128 {
        let number = self.row(destination)[way.column];
        way.up.min(self.onward[number as usize].alive)
    }

    /// Sums of capacities are wider than one capacity; what a reason shows stops at the widest number it has.
    fn as_bps(&self, units: u128) -> u64 {
        u64::try_from(units * u128::from(self.unit_bps)).unwrap_or(u64::MAX)
    }
}

/// What each uplink of a source should carry to a destination, in a unit of its own for each destination.
pub(crate) struct Amounts<'a> {
    fabric: &'a Fabric,
    source: &'a Source,
    /// Live capacity and column of each uplink, where no two end at one switch.
    single: Option<Vec<(u64, usize)>>,
    end_to_end: Vec<u128>,
    exact: Vec<u128>,
    amounts: Vec<u64>,
}

impl<'a> Amounts<'a> {
    pub(crate) fn new(fabric: &'a Fabric, source: &'a Source) -> Self {
        let single = (source.ports.len() == source.ways.len()).then(|| {
            let ways = source.ways.iter();
            ways.map(|way| (narrow(way.up), way.column)).collect()
        });
        Self {
            fabric,
            source,
            single,
            end_to_end: vec![0; source.ways.len()],
            exact: Vec::with_capacity(source.ports.len()),
            amounts: vec![0; source.ports.len()],
        }
    }

    pub(crate) fn toward(&mut self, destination: usize) -> &[u64] {
        let row = self.fabric.row(destination);
        if let Some(single) = &self.single {
            for (amount, (up, column)) in self.amounts.iter_mut().zip(single) {
                *amount = self.fabric.onward_narrow[row[*column] as usize].min(*up);
            }
            return &self.amounts;
        }
        for (carried, way) in self.end_to_end.iter_mut().zip(&self.source.ways) {
            *carried = way
                .up
                .min(self.fabric.onward[row[way.column] as usize].alive);
        }
        if self.exact().is_none() {
            self.rounded();
        }
        &self.amounts
    }

    /// The exact shares over one common denominator; None where that does not fit.
    fn exact(&mut self) -> Option<()> {
        let mut denominator = 1_u128;
        for (way, carried) in self.source.ways.iter().zip(&self.end_to_end) {
            if way.up_links > 1 && *carried > 0 {
                let per_way = way.up / gcd(way.up, *carried);
                denominator = (denominator / gcd(denominator, per_way)).checked_mul(per_way)?;
            }
        }
        self.exact.clear();
        for port in &self.source.ports {
            let (up, carried) = (self.source.ways[port.way].up, self.end_to_end[port.way]);
            let share = if !port.alive || carried == 0 {
                0
            } else {
                let common = gcd(up, carried);
                u128::from(port.capacity)
                    .checked_mul(carried / common)?
                    .checked_mul(denominator)?
                    / (up / common)
            };
            self.exact.push(share);
        }
        let divisor = self
            .exact
            .iter()
            .fold(0, |divisor, share| gcd(divisor, *share));
        for (amount, share) in self.amounts.iter_mut().zip(&self.exact) {
            *amount = u64::try_from(share / divisor.max(1)).ok()?;
        }
        Some(())
    }

    /// The shares to within one part in [`AMOUNT_MAX`] of the largest. Each depends on its own link and way alone, so
    /// that equal ones stay equal and their order does not matter.
    fn rounded(&mut self) {
        let share = |port: &Port| {
            let (up, carried) = (self.source.ways[port.way].up, self.end_to_end[port.way]);
            if port.alive && carried > 0 {
                port.capacity as f64 * (carried as f64 / up as f64)
            } else {
                0.0
            }
        };
        let largest = self.source.ports.iter().map(share).fold(0.0, f64::max);
        for (amount, port) in self.amounts.iter_mut().zip(&self.source.ports) {
            let share = share(port);
            *amount = if share > 0.0 {
                ((share / largest * AMOUNT_MAX as f64).round() as u64).max(1)
            } else {
                0
            };
        }
    }
}

/// What of `carried` falls to a link of the bundle whose links carry `up` together, rounded down.
fn share_bps(capacity_bps: u64, carried: u128, up: u128) -> u64 {
    if carried >= up {
        return capacity_bps;
    }
    // A capacity has 64 bits and a sum of capacities at most 96: halves of the capacity keep the products within 128.
    let (high, low) = (
        u128::from(capacity_bps >> 32),
        u128::from(capacity_bps & 0xFFFF_FFFF),
    );
    let high = high * carried;
    let rest = ((high % up) << 32) + low * carried;
    narrow(((high / up) << 32) + rest / up)
}

fn narrow(capacity: u128) -> u64 {
    u64::try_from(capacity).expect("a link carries at most its own capacity")
}
