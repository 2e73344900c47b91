//! Leaves and spines of a problem as a network. Of three tiers, a plane stands in place of a spine: the spines, one of each pod,
//! that lead to the same super-spines. It refuses to know factors and shares.

use std::collections::BTreeMap;

use super::{Background, BackgroundAbove, TrafficError};
use crate::fabric::Fabric;
use crate::fluid;
use crate::joined::Joined;
use crate::problem::{Link, Problem, SwitchId};

/// A network, and where switches are in it.
pub(super) struct Network {
    pub(super) fluid: fluid::Network,
    /// None: two tiers, each switch next to a leaf is a spine.
    tiers: Option<Tiers>,
}

impl Network {
    /// # Errors
    /// The fabric has a third tier, and not one spine of each pod and plane.
    pub(super) fn new(problem: &Problem, fabric: &Fabric) -> Result<Self, TrafficError> {
        let is_above = |link: &&Link| {
            let tier = |switch| problem.tier(switch).unwrap_or_default();
            let (a, b) = (tier(link.ends.0), tier(link.ends.1));
            link.alive && a != b && a.min(b) > 0
        };
        let tiers = match problem.links().any(|link| is_above(&link)) {
            true => Some(Tiers::new(problem)?),
            false => None,
        };
        let spines = tiers
            .as_ref()
            .map_or_else(|| fabric.columns(), |tiers| tiers.planes);
        let mut capacity = vec![0.0; fabric.leaves.len() * spines];
        for (place, source) in fabric.sources.iter().enumerate() {
            for (uplink, port) in source.uplinks.iter().zip(&source.ports) {
                let way = &source.ways[port.way];
                if let Some(spine) = place_of(tiers.as_ref(), uplink.via, way.column) {
                    capacity[place * spines + spine] = way.up as f64 * fabric.unit_bps as f64;
                }
            }
        }
        let mut fluid = fluid::Network::new(fabric.leaves.len(), spines, capacity);
        if let Some(tiers) = &tiers {
            let pod = |leaf: &SwitchId| tiers.pod_of.get(leaf).copied();
            let pod_of = fabric.leaves.iter().map(pod).collect();
            fluid = fluid.with_pods(pod_of, &tiers.above(), tiers.between());
        }
        Ok(Self { fluid, tiers })
    }

    /// The place of a switch above a leaf, which has a column in the fabric; None: its links are dead, and skip a tier.
    pub(super) fn spine(&self, switch: SwitchId, column: usize) -> Option<usize> {
        place_of(self.tiers.as_ref(), switch, column)
    }

    /// Adds load to the links between a leaf and a switch above it.
    pub(super) fn add_background(
        &mut self,
        fabric: &Fabric,
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
        let place_of = |column| self.spine(spine, column);
        let found = way.and_then(|way| place_of(way.column));
        let column = found.ok_or(TrafficError::NoLink { leaf, spine })?;
        self.add(place, column, loads);
        Ok(())
    }

    /// Adds load to the links above a spine.
    pub(super) fn add_above(&mut self, background: BackgroundAbove) -> Result<(), TrafficError> {
        let BackgroundAbove { spine, .. } = background;
        let loads = [background.up_bps, background.down_bps];
        if loads == [0, 0] {
            return Ok(());
        }
        let tiers = self.tiers.as_ref();
        let known = tiers.and_then(|tiers| tiers.spines.get(&spine));
        let &(pod, plane) = known.ok_or(TrafficError::NothingAbove(spine))?;
        let row = self.fluid.leaves() + pod;
        if self.fluid.capacity(row, plane) == 0.0 {
            return Err(TrafficError::NothingAbove(spine));
        }
        self.add(row, plane, loads);
        Ok(())
    }

    fn add(&mut self, row: usize, spine: usize, loads: [u64; 2]) {
        for (direction, load) in loads.into_iter().enumerate() {
            self.fluid
                .add_background(direction, row, spine, load as f64);
        }
    }
}

fn place_of(tiers: Option<&Tiers>, switch: SwitchId, column: usize) -> Option<usize> {
    match tiers {
        Some(tiers) => tiers.spines.get(&switch).map(|(_, plane)| *plane),
        None => Some(column),
    }
}

/// Pods and planes of three tiers, of spines with leaves below them.
struct Tiers {
    planes: usize,
    pods: usize,
    /// Of each leaf.
    pod_of: BTreeMap<SwitchId, u32>,
    /// Of each spine its pod and its plane.
    spines: BTreeMap<SwitchId, (usize, usize)>,
    /// What is alive above spines, by plane: the pod and the super-spine, in bits per second.
    upward: Vec<BTreeMap<(usize, SwitchId), f64>>,
}

impl Tiers {
    fn new(problem: &Problem) -> Result<Self, TrafficError> {
        let mut joined = [Joined::default(), Joined::default()];
        for (switch, tier) in problem.switches() {
            for (lower, joined) in (0..).zip(&mut joined) {
                if tier == lower || tier == lower + 1 {
                    joined.add(switch);
                }
            }
        }
        let mut upward = Vec::new();
        for link in problem.links() {
            let (low, high) = ordered(problem, link);
            match (problem.tier(low), problem.tier(high)) {
                (Some(0), Some(1)) => joined[0].join(low, high),
                (Some(1), Some(2)) => {
                    joined[1].join(low, high);
                    upward.extend(link.alive.then_some((low, high, link.capacity_bps)));
                }
                (a, b) if a != b && link.alive => return Err(TrafficError::SkipsTier(link.id)),
                _ => {}
            }
        }
        let [all_pods, all_planes] = joined.map(|joined| joined.numbered());
        let (mut pods, mut planes) = (BTreeMap::new(), BTreeMap::new());
        let mut pod_of = BTreeMap::new();
        for leaf in problem.leaves() {
            let next = pods.len();
            let pod = *pods.entry(all_pods[&leaf]).or_insert(next);
            pod_of.insert(leaf, narrow(pod));
        }
        let (mut spines, mut places) = (BTreeMap::new(), BTreeMap::new());
        for (spine, _) in problem.switches().filter(|(_, tier)| *tier == 1) {
            let Some(pod) = pods.get(&all_pods[&spine]) else {
                continue;
            };
            let next = planes.len();
            let plane = *planes.entry(all_planes[&spine]).or_insert(next);
            spines.insert(spine, (*pod, plane));
            if let Some(other) = places.insert((*pod, plane), spine) {
                return Err(TrafficError::TwoInPlane(other, spine));
            }
        }
        let mut tiers = Self {
            planes: planes.len(),
            pods: pods.len(),
            upward: vec![BTreeMap::new(); planes.len()],
            spines,
            pod_of,
        };
        for (spine, core, bps) in upward {
            if let Some((pod, plane)) = tiers.spines.get(&spine) {
                *tiers.upward[*plane].entry((*pod, core)).or_default() += bps as f64;
            }
        }
        Ok(tiers)
    }

    /// What is above the spine of each pod and plane together.
    fn above(&self) -> Vec<f64> {
        let mut above = vec![0.0; self.pods * self.planes];
        for (plane, upward) in self.upward.iter().enumerate() {
            for ((pod, _), bps) in upward {
                above[pod * self.planes + plane] += bps;
            }
        }
        above
    }

    /// What leads from the spine of each pod to that of each other pod, over each super-spine that both have.
    fn between(&self) -> Vec<f64> {
        let mut between = vec![0.0; self.pods * self.pods * self.planes];
        for (plane, upward) in self.upward.iter().enumerate() {
            let mut of_core: BTreeMap<SwitchId, Vec<(usize, f64)>> = BTreeMap::new();
            for ((pod, core), bps) in upward {
                of_core.entry(*core).or_default().push((*pod, *bps));
            }
            for pods in of_core.values() {
                for (from, up) in pods {
                    for (to, down) in pods {
                        between[(from * self.pods + to) * self.planes + plane] += up.min(*down);
                    }
                }
            }
        }
        between
    }
}

fn narrow(pod: usize) -> u32 {
    u32::try_from(pod).expect("pods have numbers of 32 bits")
}

/// The lower end of a link, and the higher one.
fn ordered(problem: &Problem, link: &Link) -> (SwitchId, SwitchId) {
    let (a, b) = link.ends;
    match problem.tier(a) <= problem.tier(b) {
        true => (a, b),
        false => (b, a),
    }
}
