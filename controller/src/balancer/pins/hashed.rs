//! What hashing may make of a job that weights carry: how busy the busiest link is if every link gets its share, and how busy it gets at
//! most. It refuses to know which hash.

use std::collections::BTreeMap;

use weft_weights::hashing::excess;
use weft_weights::pin::Plane;

use super::sent::{Sent, SentOfJob, Unresolved};
use crate::balancer::solved::Solved;
use crate::fabric::fact::SwitchName;

/// How busy hashing makes the busiest link of a leaf that a job sends over, if all its flows run at once. Shares of a link's capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct Hashed {
    /// If every link gets its share.
    pub even: f64,
    /// At most, but for one hash of a hundred.
    pub most: f64,
    /// The leaf.
    pub leaf: SwitchName,
}

/// What a job sends and takes at its leaves, in bits per second.
#[derive(Default)]
struct AtLeaves<'a> {
    of_leaf: BTreeMap<&'a SwitchName, [f64; 2]>,
    largest: f64,
}

impl<'a> AtLeaves<'a> {
    fn add(&mut self, from: &'a SwitchName, to: &'a SwitchName, bps: u64) {
        self.of_leaf.entry(from).or_default()[0] += bps as f64;
        self.of_leaf.entry(to).or_default()[1] += bps as f64;
    }

    fn hashed(&self, solved: &Solved, plane: &Plane) -> Option<Hashed> {
        let live =
            |leaf: usize| (0..plane.spines().len()).flat_map(move |it| plane.links(leaf, it));
        let place = |leaf: &SwitchName| {
            let number = solved.number(leaf)?;
            plane.leaves().binary_search(&number).ok()
        };
        let leaves = self.of_leaf.iter();
        let placed = leaves.filter_map(|(leaf, bps)| Some((*leaf, place(leaf)?, bps)));
        let placed: Vec<_> = placed.collect();
        // Each of them in both directions.
        let links: usize = placed
            .iter()
            .map(|(_, place, _)| live(*place).count() * 2)
            .sum();
        let of_leaf = placed.iter().flat_map(|(leaf, place, bps)| {
            let capacity = plane.capacity(*place) as f64;
            let least = live(*place).min().map_or(0.0, |least| *least as f64);
            bps.iter().filter_map(move |bps| {
                let even = (capacity > 0.0).then(|| bps / capacity)?;
                let flows = even * least / self.largest;
                let bound = even * (1.0 + excess(flows, links as u64));
                Some(Hashed {
                    even,
                    // There is no more than all of it.
                    most: bound.min(bps / least),
                    leaf: (*leaf).clone(),
                })
            })
        });
        of_leaf.reduce(|busiest, next| match next.most > busiest.most {
            true => next,
            false => busiest,
        })
    }
}

/// What hashing may make of a job; None: nobody knows what it sends, or no link carries it.
pub(super) fn of_job(
    solved: &Solved,
    plane: &Plane,
    sent: &Result<SentOfJob, Unresolved>,
) -> Option<Hashed> {
    let mut at = AtLeaves::default();
    match sent {
        Ok(sent) => {
            for Sent { from, to, bps, .. } in &sent.over {
                at.add(&from.switch, &to.switch, *bps);
                at.largest = at.largest.max(*bps as f64);
            }
        }
        Err(Unresolved::TooMany { wide, .. }) => {
            for (from, to, bps) in &wide.between {
                at.add(from, to, *bps);
            }
            at.largest = wide.largest_bps as f64;
        }
        Err(Unresolved::Unknown(_) | Unresolved::TooLarge | Unresolved::Off) => {}
    }
    at.hashed(solved, plane)
}

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::balancer::pins::{JobPlan, PinPlan};
    use crate::fabric::topology::Topology;
    use crate::fabric::topology::tests::with_nics;

    fn hashed(plan: &PinPlan) -> Option<&Hashed> {
        let job: &JobPlan = &plan.jobs["train"];
        job.hashed.as_ref()
    }

    /// Four leaves with four uplinks each, and as many NICs that send at the rate of an uplink.
    #[test]
    fn a_job_left_to_weights_says_what_hashing_may_add() {
        let topology = with_nics(4, 4, 4);
        let mut bench = Bench::new(topology.clone(), &[ring("train", 4, 1..=4)]);
        let (plan, _) = bench.adopt();
        assert_eq!(hashed(&plan), None, "it is pinned");

        // No leaf has room for a pin.
        let mut fabric = topology.declaration();
        for switch in &mut fabric.switches {
            let limits = v1::SwitchLimits {
                pins: Some(1),
                ..v1::SwitchLimits::default()
            };
            switch.limits = Some(limits);
        }
        let topology = Topology::new(&fabric).unwrap();
        let mut bench = Bench::new(topology, &[ring("train", 4, 1..=4)]);
        let (plan, _) = bench.adopt();
        let few = hashed(&plan).unwrap().clone();
        assert_eq!(few.even, 1.0);
        // One flow is a link's share: all four may meet on one.
        assert_eq!(few.most, 4.0);
    }
}
