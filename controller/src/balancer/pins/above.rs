//! What pins put on links above the spines, where a fabric has three tiers. Which super-spine a flow takes is a hash's choice: what a
//! spine has above it is counted as one.

use std::collections::BTreeSet;

use weft_weights::pin::{Fault, Flow, Flows, Part, Placement, Recount, recount_in_phases};
use weft_weights::problem::SwitchId;

use super::Posed;
use crate::balancer::solved::Solved;
use crate::fabric::fact::{LinkName, SwitchName};

impl Posed<'_> {
    /// Whether a placement is better than another one by a tenth where the worst link is.
    pub(super) fn is_better(&self, solved: &Solved, one: &Placement, other: &Placement) -> bool {
        let worst = |placement: &Placement| {
            let parts = self.by_queue_pairs(&placement.parts);
            let leaves = self.recount(solved, &parts).ok()?;
            let above = self.recount_above(solved, &parts).ok()?;
            let loads = [Some(leaves), above].into_iter().flatten();
            let loads = loads.map(|it| it.load(self.unit_bps as f64));
            Some(loads.fold(0.0, f64::max))
        };
        let loads = worst(one).zip(worst(other));
        loads.is_some_and(|(after, before)| after < before * BETTER)
    }

    /// Counts what is sent between pods, by what the spines of both have above them. None: there is no third tier.
    pub(super) fn recount_above(
        &self,
        solved: &Solved,
        parts: &[Part],
    ) -> Result<Option<Recount>, Fault> {
        let planes = solved.planes();
        let Some(above) = planes.above() else {
            return Ok(None);
        };
        let leaves: Vec<SwitchId> = planes.problem().leaves().collect();
        let pods: Vec<SwitchId> = above.leaves().collect();
        let pod = |leaf: u32| {
            let pod = planes.pod(*leaves.get(leaf as usize)?)?;
            pods.binary_search(&pod).ok()
        };
        let (mut flows, mut phases) = (Vec::new(), Vec::new());
        let mut numbers = vec![None; self.flows.all().len()];
        for (number, flow) in self.flows.all().iter().enumerate() {
            match (pod(flow.from), pod(flow.to)) {
                (Some(from), Some(to)) if from != to => {
                    numbers[number] = Some(flows.len() as u32);
                    let (from, to) = (from as u32, to as u32);
                    flows.push(Flow { from, to, ..*flow });
                    phases.push(self.phases[number]);
                }
                _ => {}
            }
        }
        let between = parts.iter().filter_map(|part| {
            let flow = *numbers.get(part.flow as usize)?;
            flow.map(|flow| Part { flow, ..*part })
        });
        let between: Vec<_> = between.collect();
        recount_in_phases(above, &Flows::new(flows), &phases, &between).map(Some)
    }
}

/// Links above the spines that a recount found to be loaded most.
pub(super) fn tight<'a>(solved: &'a Solved, counted: &Recount) -> Vec<&'a LinkName> {
    let planes = solved.planes();
    let Some(above) = planes.above() else {
        return Vec::new();
    };
    let pods: Vec<SwitchId> = above.leaves().collect();
    let of_tier = above.switches().filter(|(_, tier)| *tier == 1);
    let all: Vec<SwitchId> = of_tier.map(|(plane, _)| plane).collect();
    let spines = counted.tight.iter().filter_map(|(pod, plane)| {
        // A pod has the number of its first leaf.
        planes.spine(pods[*pod as usize], all[*plane as usize])
    });
    let spines: BTreeSet<SwitchId> = spines.collect();
    spines
        .into_iter()
        .flat_map(|spine| solved.links_above(spine))
        .collect()
}

/// Leaves of a pod, which is named by its place.
pub(super) fn leaves(solved: &Solved, pod: usize) -> Vec<&SwitchName> {
    let planes = solved.planes();
    let pod = planes.above().and_then(|above| above.leaves().nth(pod));
    let leaves = planes.problem().leaves();
    let of_pod = leaves.filter(|leaf| pod.is_some() && planes.pod(*leaf) == pod);
    of_pod.filter_map(|leaf| solved.name(leaf)).collect()
}

/// Part of the load that is there, from which on another placement is better.
const BETTER: f64 = 0.9;

#[cfg(test)]
pub(in crate::balancer) mod tests;
