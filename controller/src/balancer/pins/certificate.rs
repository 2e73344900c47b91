//! How good pins are, beside what no placement can do without. It refuses to know how they were placed.

use weft_weights::pin::{Bound, Level, Placement, Plane, Recount, Tight, lower_bound_by_duality};

use super::{Posed, above};
use crate::balancer::solved::Solved;
use crate::fabric::fact::{LinkName, SwitchName};

/// How good pins are: what the recount says, beside what no placement can do without. Loads are shares of a link's capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// Share of its capacity that the most loaded link carries.
    pub max_load: f64,
    /// Share of its capacity that some link carries in any placement.
    pub lower_bound: f64,
    /// What decides the bound: one leaf, or two; None: all flows together, or those between pods.
    pub bound: Option<Tight>,
    /// The leaves that decide it, with all leaves of a pod that does.
    pub leaves: Vec<SwitchName>,
    /// Links that are loaded most, some of them.
    pub tight: Vec<LinkName>,
    /// How many of those there are.
    pub tight_count: usize,
}

impl Posed<'_> {
    /// What a placement comes to, by recounts of the links of leaves, and of those above spines.
    pub(super) fn certificate(
        &self,
        solved: &Solved,
        plane: &Plane,
        placement: &Placement,
        (counted, counted_above): &(Recount, Option<Recount>),
    ) -> Certificate {
        let load =
            |level: Level| level.subflows as f64 * self.unit_bps as f64 / level.capacity as f64;
        let Bound { tight, of_pods, .. } = placement.bound;
        let places = match tight {
            Tight::Nothing => Vec::new(),
            Tight::Sends(one) | Tight::Takes(one) => vec![one],
            Tight::Pair(from, to) => vec![from, to],
        };
        let leaves = places.into_iter().flat_map(|place| match of_pods {
            true => above::leaves(solved, place),
            false => solved.name(plane.leaves()[place]).into_iter().collect(),
        });
        let links = counted.tight.iter().flat_map(|(leaf, spine)| {
            let ends = (
                plane.leaves()[*leaf as usize],
                plane.spines()[*spine as usize],
            );
            solved.links_between(ends.0, ends.1)
        });
        let mut certificate = Certificate {
            max_load: counted.load(self.unit_bps as f64),
            lower_bound: load(placement.bound.level),
            bound: (!of_pods).then_some(tight),
            leaves: leaves.cloned().collect(),
            tight: links.cloned().collect(),
            tight_count: counted.tight_count,
        };
        if let Some(above) = counted_above {
            let load = above.load(self.unit_bps as f64);
            if load > certificate.max_load {
                let tight = above::tight(solved, above);
                certificate.max_load = load;
                certificate.tight_count = tight.len();
                certificate.tight = tight.into_iter().take(TIGHT_NAMED).cloned().collect();
            }
        }
        let together = self.by_duality(plane, &certificate);
        if let Some(bound) = together.filter(|it| *it > certificate.lower_bound) {
            certificate.lower_bound = bound.min(certificate.max_load);
            certificate.bound = None;
            certificate.leaves.clear();
        }
        certificate
    }

    /// What all flows together need at the worst time, where that may be more than the bound says.
    fn by_duality(&self, plane: &Plane, certificate: &Certificate) -> Option<f64> {
        let is_above = certificate.max_load > certificate.lower_bound * ABOVE;
        let work = self.flows.all().len().saturating_mul(plane.spines().len());
        if !is_above || work > WORK_MAX {
            return None;
        }
        let bound = lower_bound_by_duality(plane, &self.flows, &self.phases).ok()?;
        Some(bound * self.unit_bps as f64)
    }
}

/// Links above spines that a certificate names at most.
const TIGHT_NAMED: usize = 16;
/// A plan that is so many times the bound or less is at the bound.
const ABOVE: f64 = 1.000_001;
/// Flows times spines: a third of a second of one thread at most, and most often a tenth of that, in which a link event waits.
const WORK_MAX: usize = 1 << 19;

#[cfg(test)]
mod tests;
