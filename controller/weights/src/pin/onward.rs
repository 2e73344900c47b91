//! What is above spines: pods of leaves, and how much the spine of each pod carries to other pods and takes from them. What goes from
//! one pod to another takes a slot there too: rows of slots of pods come after those of leaves. It refuses to know which of the links
//! above a spine a flow takes.

use super::bound::{self, Bound};
use super::plane::{Level, Plane};
use super::{Flow, Flows, Infeasible, Phase};
use crate::problem::SwitchId;

/// Pods of a plane, and the links above its spines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Onward {
    /// Pods in place of leaves: between a pod and a spine the links above the spine of that pod.
    pods: Plane,
    /// The pod of each leaf, by its place.
    pod_of: Vec<Option<u32>>,
    /// Links above spines fill up to this level however low that of the links below is.
    floor: Level,
    /// Leaves of the largest pod.
    leaves_most: u32,
    /// Links above one spine, at most.
    links_most: u32,
    /// Each spine that a leaf has a link to has a link above it in the pod of that leaf.
    is_open: bool,
}

impl Onward {
    /// Pods of a plane. Links are those above spines, each with its cell (by pod, then by spine) and its capacity, in any order.
    pub(super) fn new(
        plane: &Plane,
        pods: Vec<SwitchId>,
        pod_of: Vec<Option<u32>>,
        links: impl Iterator<Item = (usize, u64)> + Clone,
    ) -> Self {
        let spines = plane.spines().len();
        let pods = Plane::of_links(pods, plane.spines().to_vec(), links);
        let mut leaves_of = vec![0_u32; pods.leaves().len()];
        for pod in pod_of.iter().flatten() {
            leaves_of[*pod as usize] += 1;
        }
        let cells = 0..pods.leaves().len() * spines;
        let links_most = cells.map(|cell| pods.links_at(cell).len()).max();
        let leads = |leaf: usize, pod: usize, spine: usize| {
            plane.links(leaf, spine).is_empty() || !pods.links(pod, spine).is_empty()
        };
        let is_open = pod_of.iter().enumerate().all(|(leaf, pod)| {
            pod.is_none_or(|pod| (0..spines).all(|spine| leads(leaf, pod as usize, spine)))
        });
        Self {
            pods,
            pod_of,
            floor: NOTHING,
            leaves_most: leaves_of.into_iter().max().unwrap_or_default(),
            links_most: links_most.map_or(0, |most| most as u32),
            is_open,
        }
    }

    /// A copy in which links above spines fill up to a level at least.
    pub(super) fn filled_to(&self, floor: Level) -> Self {
        Self {
            floor,
            ..self.clone()
        }
    }

    /// The pod of each leaf, by its place.
    pub(super) fn pod_of(&self) -> &[Option<u32>] {
        &self.pod_of
    }

    /// The level up to which links above spines fill at any level.
    pub(super) fn floor(&self) -> Level {
        self.floor
    }

    /// Pods, with the links above spines in place of uplinks.
    pub(super) fn pods(&self) -> &Plane {
        &self.pods
    }

    /// The rows of the pods of two leaves, of what is sent and of what is taken; None: they are in one pod, or nobody knows.
    pub(super) fn rows(&self, from: u32, to: u32) -> Option<[u32; 2]> {
        let first = self.pod_of.len() as u32;
        let [from, to] = self.between(from, to)?;
        Some([first + from, first + to])
    }

    /// The pods of two leaves that are in different ones.
    fn between(&self, from: u32, to: u32) -> Option<[u32; 2]> {
        let pod = |leaf: u32| self.pod_of.get(leaf as usize).copied().flatten();
        let (from, to) = (pod(from)?, pod(to)?);
        (from != to).then_some([from, to])
    }

    /// What goes from each pod to each other one.
    fn flows(&self, flows: &Flows) -> Flows {
        let pairs = flows.demands.pairs().iter();
        let between = pairs.filter_map(|((from, to), subflows)| {
            let [from, to] = self.between(*from, *to)?;
            let subflows = u32::try_from(*subflows).unwrap_or(u32::MAX);
            Some(Flow { from, to, subflows })
        });
        Flows::new(between.collect())
    }

    /// The least level of links above spines in any placement, as far as pods and pairs of them decide it.
    ///
    /// # Errors
    /// Two leaves have flows and no way to each other.
    pub(super) fn bound(&self, plane: &Plane, flows: &Flows) -> Result<Bound, Infeasible> {
        self.bound_between(plane, flows, &self.flows(flows))
    }

    /// The same at the worst time, where phases of one job never run together.
    ///
    /// # Errors
    /// As [`Self::bound`].
    pub(super) fn bound_in_phases(
        &self,
        plane: &Plane,
        flows: &Flows,
        phases: &[Option<Phase>],
    ) -> Result<Bound, Infeasible> {
        self.bound_between(plane, flows, &self.flows_in_phases(flows, phases))
    }

    /// What goes from each pod to each other one at the worst time.
    pub(super) fn flows_in_phases(&self, flows: &Flows, phases: &[Option<Phase>]) -> Flows {
        let all = flows.all().iter().zip(phases);
        let between = all.filter_map(|(flow, phase)| {
            let [from, to] = self.between(flow.from, flow.to)?;
            Some((Flow { from, to, ..*flow }, *phase))
        });
        let (between, phases): (Vec<_>, Vec<_>) = between.unzip();
        Flows::at_worst(between, &phases)
    }

    fn bound_between(
        &self,
        plane: &Plane,
        flows: &Flows,
        between: &Flows,
    ) -> Result<Bound, Infeasible> {
        if let Some((from, to)) = self.cut(plane, flows) {
            return Err(Infeasible::NoWay {
                from: from as usize,
                to: to as usize,
            });
        }
        let bound = bound::bound(&self.pods, between)?;
        Ok(Bound {
            of_pods: true,
            ..bound
        })
    }

    /// Two leaves with flows that share no spine that leads from the pod of one to the pod of the other.
    fn cut(&self, plane: &Plane, flows: &Flows) -> Option<(u32, u32)> {
        if self.is_open {
            return None;
        }
        let has_way = |from: u32, to: u32| {
            let flow = Flow {
                from,
                to,
                subflows: 1,
            };
            (0..plane.spines().len() as u32).any(|spine| plane.leads(flow, spine))
        };
        let mut pairs = flows.demands.pairs().iter().map(|(ends, _)| *ends);
        pairs.find(|(from, to)| !has_way(*from, *to))
    }

    /// Whether slots up and down, of leaves and then of pods, do not suffice for what goes from pod to pod.
    pub(super) fn is_short(&self, flows: &Flows, slots: [&[u32]; 2]) -> bool {
        let begin = self.pod_of.len() * self.pods.spines().len();
        let of_pods = slots.map(|all| &all[begin..]);
        let between = self.flows(flows);
        between.demands.unmet(&self.pods, of_pods).is_some()
    }

    /// How many sub-flows the links above each spine hold together, by pod, then by spine, where no leaf sends more than `most`.
    pub(super) fn slots(&self, level: Level, most: u32) -> Vec<u32> {
        self.pods.slots(level, self.most(most))
    }

    /// How many flows of `size` sub-flows fit whole on the links above each spine.
    pub(super) fn whole(&self, level: Level, size: u32, most: u32) -> Vec<u32> {
        self.pods.whole(level, size, self.most(most))
    }

    /// The most that one link has to hold: all that a pod sends, as far as its links together can be counted.
    fn most(&self, most: u32) -> u32 {
        let of_pod = most.saturating_mul(self.leaves_most);
        of_pod.min(u32::MAX / self.links_most.max(1))
    }
}

/// The level at which links hold nothing.
const NOTHING: Level = Level {
    subflows: 0,
    capacity: 1,
};

#[cfg(test)]
pub(super) mod tests;
