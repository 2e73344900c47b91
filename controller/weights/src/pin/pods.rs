//! Pins over three tiers: pods of leaves, in each pod one aggregation switch for each plane, and above each plane its cores.
//!
//! Two colourings: leaf to leaf with planes, and in each plane pod to pod with cores. In the first one pods have slots too, for what the
//! switch of each plane carries on, as [`Plane::with_pods`] has them: so the second one finds room.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::bound::{self, Bound};
use super::plane::{Level, Plane};
use super::recount::{Fault, divided, exceeds};
use super::room::{Pieces, at_level};
use super::{Flow, Flows, Infeasible, Part, bounded};
use crate::joined::Joined;
use crate::problem::{Problem, SwitchId};

/// Leaves in pods, and the planes above them.
#[derive(Clone, Debug)]
pub struct Pods {
    /// Leaves, with planes in place of spines, and above them the links to all cores of a plane.
    lower: Plane,
    /// By plane: pods in place of leaves, with its cores.
    upper: Vec<Plane>,
    /// Pods with the cores of all planes.
    across: Plane,
    pod_of: Vec<u32>,
    /// The aggregation switch of a pod and a plane, by pod, then by plane.
    switches: Vec<Option<SwitchId>>,
}

/// Why a fabric has no pods and planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// A pod has two switches in one plane.
    TwoInPlane(SwitchId, SwitchId),
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::TwoInPlane(SwitchId(a), SwitchId(b)) = self;
        write!(
            f,
            "switches {a} and {b} are in one pod and lead to the same cores"
        )
    }
}

impl std::error::Error for ShapeError {}

impl Pods {
    /// Pods are what links between tiers 0 and 1 join, planes what those between tiers 1 and 2 join, dead or alive.
    ///
    /// # Errors
    /// Two switches of one pod are in one plane.
    pub fn new(problem: &Problem) -> Result<Self, ShapeError> {
        let tiers = |a: u8, b: u8| {
            problem.links().filter_map(move |link| {
                let (x, y) = link.ends;
                let ends = match (problem.tier(x)?, problem.tier(y)?) {
                    it if it == (a, b) => (x, y),
                    it if it == (b, a) => (y, x),
                    _ => return None,
                };
                Some((ends, link.alive.then_some(link.capacity_bps)))
            })
        };
        let of_tier = |wanted: u8| problem.switches().filter(move |(_, tier)| *tier == wanted);
        let (mut pods, mut planes) = (Joined::default(), Joined::default());
        of_tier(0)
            .chain(of_tier(1))
            .for_each(|(switch, _)| pods.add(switch));
        of_tier(1)
            .chain(of_tier(2))
            .for_each(|(switch, _)| planes.add(switch));
        tiers(0, 1).for_each(|((a, b), _)| pods.join(a, b));
        tiers(1, 2).for_each(|((a, b), _)| planes.join(a, b));
        let (pods, planes) = (pods.numbered(), planes.numbered());
        let count =
            |of: &BTreeMap<SwitchId, u32>| of.values().max().map_or(0, |most| *most as usize + 1);
        let (pod_count, plane_count) = (count(&pods), count(&planes));
        let mut switches = vec![None; pod_count * plane_count];
        for (switch, _) in of_tier(1) {
            let place =
                &mut switches[pods[&switch] as usize * plane_count + planes[&switch] as usize];
            if let Some(other) = place.replace(switch) {
                return Err(ShapeError::TwoInPlane(other, switch));
            }
        }
        let leaves: Vec<SwitchId> = of_tier(0).map(|(switch, _)| switch).collect();
        let links = tiers(0, 1).filter_map(|((leaf, switch), capacity)| {
            let leaf = leaves.binary_search(&leaf).ok()?;
            Some((leaf * plane_count + planes[&switch] as usize, capacity?))
        });
        let links: Vec<_> = links.collect();
        let cores: Vec<SwitchId> = of_tier(2).map(|(switch, _)| switch).collect();
        let upward: Vec<_> = tiers(1, 2)
            .filter_map(|((switch, core), capacity)| {
                Some((pods[&switch] as usize, core, capacity?))
            })
            .collect();
        let pod_of: Vec<u32> = leaves.iter().map(|leaf| pods[leaf]).collect();
        let onward = upward.iter().map(|(pod, core, capacity)| {
            let cell = pod * plane_count + planes[core] as usize;
            (cell, *capacity)
        });
        let lower = Plane::of_links(leaves, ids(plane_count), links.into_iter());
        let known = pod_of.iter().copied().map(Some);
        let lower = lower.below(ids(pod_count), known.collect(), onward);
        let above = |cores: Vec<SwitchId>| below_cores(&upward, pod_count, cores);
        let of_plane = |plane: usize| {
            let cores = cores
                .iter()
                .copied()
                .filter(|core| planes[core] as usize == plane);
            above(cores.collect())
        };
        Ok(Self {
            lower,
            upper: (0..plane_count).map(of_plane).collect(),
            pod_of,
            across: above(cores.clone()),
            switches,
        })
    }

    /// The leaves, in order of their numbers; flows name them by their place.
    pub fn leaves(&self) -> &[SwitchId] {
        self.lower.leaves()
    }

    /// The bound of leaves and of pods, whichever is higher.
    fn bound(&self, flows: &Flows, between: &Flows) -> Result<Bound, Infeasible> {
        let pods = Bound {
            of_pods: true,
            ..bound::bound(&self.across, between)?
        };
        Ok(bounded(&self.lower, flows)?.or_higher(pods))
    }

    /// A flow between pods in place of their leaves; None: it stays in its pod.
    fn between(&self, flow: Flow, subflows: u32) -> Option<Flow> {
        let [from, to] = [flow.from, flow.to].map(|leaf| self.pod_of[leaf as usize]);
        (from != to).then_some(Flow { from, to, subflows })
    }

    fn after(&self, level: Level, tried: u32) -> Option<Level> {
        let planes = self.upper.iter().chain([&self.lower]);
        planes.filter_map(|plane| plane.after(level, tried)).min()
    }

    /// A placement at a level, if one is found.
    fn at(&self, flows: &Flows, level: Level) -> Result<Option<Vec<PodPart>>, Infeasible> {
        let Some(mut lower) = at_level(&self.lower, flows, level, Pieces::Small, None, &[])? else {
            return Ok(None);
        };
        if self.off_dead_ends(flows, level, &mut lower).is_none() {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(lower.len());
        let mut onward: Vec<Vec<(u32, Flow)>> = vec![Vec::new(); self.upper.len()];
        for part in lower {
            let flow = flows.all()[part.flow as usize];
            match self.between(flow, part.subflows) {
                Some(between) => onward[part.spine as usize].push((part.flow, between)),
                None => {
                    let switch = self.switch(self.pod_of[flow.from as usize], part.spine);
                    parts.push(PodPart {
                        flow: part.flow,
                        up: switch,
                        over: None,
                        subflows: part.subflows,
                    });
                }
            }
        }
        for ((plane, onward), number) in self.upper.iter().zip(onward).zip(0..) {
            let flows = Flows::new(onward.iter().map(|(_, flow)| *flow).collect());
            let Some(placed) = at_level(plane, &flows, level, Pieces::Small, None, &[])? else {
                return Ok(None);
            };
            for part in placed {
                let (flow, between) = onward[part.flow as usize];
                parts.push(PodPart {
                    flow,
                    up: self.switch(between.from, number),
                    over: Some((
                        plane.spines()[part.spine as usize],
                        self.switch(between.to, number),
                    )),
                    subflows: part.subflows,
                });
            }
        }
        parts.sort_unstable();
        Ok(Some(parts))
    }

    /// Takes sub-flows off planes in which their pods share no core; None: no other plane has room for them.
    fn off_dead_ends(&self, flows: &Flows, level: Level, parts: &mut Vec<Part>) -> Option<()> {
        let leads = |part: &Part| {
            let flow = flows.all()[part.flow as usize];
            let between = self.between(flow, 1);
            between.is_none_or(|it| self.shares(part.spine, it.from, it.to))
        };
        let dead: Vec<Part> = parts.extract_if(.., |part| !leads(part)).collect();
        if dead.is_empty() {
            return Some(());
        }
        let slots = self.lower.slots(level, flows.most());
        let mut free = [slots.clone(), slots];
        for part in &*parts {
            let flow = flows.all()[part.flow as usize];
            self.lower.each_cell(flow, part.spine, |side, cell| {
                free[side][cell] -= part.subflows;
            });
        }
        for part in dead {
            let flow = flows.all()[part.flow as usize];
            let mut left = part.subflows;
            for spine in 0..self.upper.len() as u32 {
                let other = Part { spine, ..part };
                let mut fits = left;
                self.lower
                    .each_cell(flow, spine, |side, cell| fits = fits.min(free[side][cell]));
                if fits > 0 && leads(&other) {
                    self.lower
                        .each_cell(flow, spine, |side, cell| free[side][cell] -= fits);
                    left -= fits;
                    parts.push(Part {
                        subflows: fits,
                        ..other
                    });
                }
            }
            if left > 0 {
                return None;
            }
        }
        Some(())
    }

    /// Whether two pods have links to one core of a plane.
    fn shares(&self, plane: u32, a: u32, b: u32) -> bool {
        self.upper[plane as usize].share(a as usize, b as usize)
    }

    /// Whether there is a way for a flow, whatever else there is.
    fn has_way(&self, flow: Flow) -> bool {
        let (from, to) = (flow.from as usize, flow.to as usize);
        (0..self.upper.len()).any(|plane| {
            let leaves = !self.lower.links(from, plane).is_empty()
                && !self.lower.links(to, plane).is_empty();
            let between = self.between(flow, 1);
            leaves && between.is_none_or(|it| self.shares(plane as u32, it.from, it.to))
        })
    }

    /// The switch of a pod in a plane: there is one where a part leads.
    fn switch(&self, pod: u32, plane: u32) -> SwitchId {
        let switch = self.switches[pod as usize * self.upper.len() + plane as usize];
        switch.expect("a link of the pod ends at its switch of the plane")
    }
}

/// Sub-flows of a flow that go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPart {
    /// The flow, by its place.
    pub flow: u32,
    /// The switch above the leaf that sends.
    pub up: SwitchId,
    /// The core, and the switch above the leaf that takes; None: the flow stays in its pod.
    pub over: Option<(SwitchId, SwitchId)>,
    /// How many of its sub-flows.
    pub subflows: u32,
}

/// A way for every sub-flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlacement {
    /// By flow, then by way.
    pub parts: Vec<PodPart>,
    /// No link carries more than this.
    pub level: Level,
    /// No placement can do with less than this, as far as leaves, pods and pairs of them decide it. Pods are in the order of their lowest
    /// leaf.
    pub bound: Bound,
}

/// Places flows as low as it can. Equal fabrics and flows give equal placements.
///
/// # Errors
/// A flow has no way at all.
pub fn place_in_pods(pods: &Pods, flows: &Flows) -> Result<PodPlacement, Infeasible> {
    flows.check(pods.leaves().len())?;
    let between = flows
        .all()
        .iter()
        .filter_map(|flow| pods.between(*flow, flow.subflows));
    let between = Flows::new(between.collect());
    let mut pairs: Vec<(u32, u32)> = flows
        .all()
        .iter()
        .map(|flow| (flow.from, flow.to))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    for (from, to) in pairs {
        let flow = Flow {
            from,
            to,
            subflows: 1,
        };
        if !pods.has_way(flow) {
            let (from, to) = (from as usize, to as usize);
            return Err(Infeasible::NoWay { from, to });
        }
    }
    let bound = pods.bound(flows, &between)?;
    let mut placement = PodPlacement {
        parts: Vec::new(),
        level: bound.level,
        bound,
    };
    for tried in 0.. {
        let found = pods.at(flows, placement.level)?;
        match (found, pods.after(placement.level, tried)) {
            (Some(parts), _) => {
                placement.parts = parts;
                break;
            }
            (None, Some(next)) => placement.level = next,
            // Without a link nothing has to be placed.
            (None, None) => break,
        }
    }
    Ok(placement)
}

/// Sub-flows on the most loaded link, of its capacity, from the problem, the flows and the ways alone.
///
/// # Errors
/// The first fault, in the order of the parts.
pub fn recount_in_pods(
    problem: &Problem,
    flows: &Flows,
    parts: &[PodPart],
) -> Result<(u64, u64), Fault> {
    let mut links: HashMap<(SwitchId, SwitchId), Vec<u64>> = HashMap::new();
    for link in problem.links().filter(|link| link.alive) {
        let (a, b) = link.ends;
        for ends in [(a, b), (b, a)] {
            links.entry(ends).or_default().push(link.capacity_bps);
        }
    }
    let leaves: Vec<SwitchId> = problem.leaves().collect();
    let mut carried: HashMap<(SwitchId, SwitchId), u64> = HashMap::new();
    let mut counts = vec![0_u64; flows.all().len()];
    for part in parts {
        let unknown = Fault::Unknown(part.flow);
        let flow = flows.all().get(part.flow as usize).ok_or(unknown)?;
        let leaf = |place: u32| leaves.get(place as usize).copied().ok_or(unknown);
        let (from, to) = (leaf(flow.from)?, leaf(flow.to)?);
        let is_of = |switch: SwitchId, tier: u8| problem.tier(switch) == Some(tier);
        let over = part
            .over
            .is_none_or(|(core, down)| is_of(core, 2) && is_of(down, 1));
        if !over || !is_of(part.up, 1) {
            return Err(Fault::NoWay(part.flow));
        }
        let mut way = vec![from, part.up];
        way.extend(part.over.iter().flat_map(|(core, down)| [*core, *down]));
        way.push(to);
        for hop in way.windows(2) {
            let ends = (hop[0], hop[1]);
            if !links.contains_key(&ends) {
                return Err(Fault::NoWay(part.flow));
            }
            *carried.entry(ends).or_default() += u64::from(part.subflows);
        }
        counts[part.flow as usize] += u64::from(part.subflows);
        if counts[part.flow as usize] > u64::from(flow.subflows) {
            return Err(Fault::Subflows(part.flow));
        }
    }
    let mut all = counts.iter().zip(flows.all());
    if let Some(flow) = all.position(|(count, flow)| *count != u64::from(flow.subflows)) {
        return Err(Fault::Subflows(flow as u32));
    }
    let loads = carried
        .iter()
        .map(|(ends, subflows)| divided(&links[ends], *subflows));
    // Of equal ones the one of the least capacity: whatever the order.
    let above = |a: (u64, u64), b: (u64, u64)| exceeds(a, b) || (!exceeds(b, a) && a.1 < b.1);
    let worst = loads.reduce(|worst, next| if above(next, worst) { next } else { worst });
    Ok(worst.unwrap_or((0, 1)))
}

/// Pods in place of leaves, and these cores in place of spines. Links are by pod and core, with their capacity.
fn below_cores(upward: &[(usize, SwitchId, u64)], pods: usize, cores: Vec<SwitchId>) -> Plane {
    let links = upward.iter().filter_map(|(pod, core, capacity)| {
        let place = cores.binary_search(core).ok()?;
        Some((pod * cores.len() + place, *capacity))
    });
    let links: Vec<_> = links.collect();
    Plane::of_links(ids(pods), cores, links.into_iter())
}

fn ids(count: usize) -> Vec<SwitchId> {
    (0..count as u32).map(SwitchId).collect()
}
