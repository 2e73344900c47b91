//! The answer for all pairs of leaves at once, with the reasons of every member: what a small fabric can afford.
//!
//! Destinations that a source need not tell apart share one group. A large fabric is solved leaf by leaf and explained
//! when somebody asks: [`Fabric::leaf`], [`Fabric::explain`]. It refuses to know demand.

use std::collections::BTreeMap;

use crate::explain::{Exclusion, Reason};
use crate::fabric::Fabric;
use crate::leaf::LeafSolution;
use crate::problem::{LinkId, Problem, SwitchId};
use crate::quantize::Limits;

/// For every ordered pair of leaves: how the source divides its traffic to the destination.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Solution {
    leaves: BTreeMap<SwitchId, Explained>,
}

/// The weights of one source, and its groups with their reasons, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Explained {
    leaf: LeafSolution,
    groups: Vec<Group>,
}

impl Solution {
    /// The group of a source for a destination; None for a pair that is not two different leaves.
    pub fn group(&self, source: SwitchId, destination: SwitchId) -> Option<&Group> {
        let explained = self.leaves.get(&source)?;
        let group = explained.leaf.group_of(destination)?;
        Some(&explained.groups[group])
    }

    /// Every pair of source and destination with its group, in order.
    pub fn groups(&self) -> impl Iterator<Item = ((SwitchId, SwitchId), &Group)> + '_ {
        self.leaves.iter().flat_map(|(source, explained)| {
            let destinations = explained.leaf.destinations();
            destinations.map(|(to, group)| ((*source, to), &explained.groups[group]))
        })
    }

    #[cfg(test)]
    pub(crate) fn groups_mut(&mut self) -> impl Iterator<Item = &mut Group> + '_ {
        self.leaves
            .values_mut()
            .flat_map(|leaf| leaf.groups.iter_mut())
    }
}

/// How one leaf divides its traffic to another over its own uplinks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Group {
    /// The links that carry a part, by link. Empty when nothing alive leads there.
    pub members: Vec<Member>,
    /// The uplinks of the source that carry none, by link, each with why.
    pub excluded: Vec<Excluded>,
    /// The sum of the weights.
    pub parts: u32,
    /// How far rounding overloads the worst member, in millionths: 1,000,000 is exact.
    pub delta_ppm: u64,
}

/// A first-hop link with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The link out of the source.
    pub link: LinkId,
    /// The switch at its other end.
    pub via: SwitchId,
    /// At least 1.
    pub weight: u32,
    /// Why.
    pub reason: Reason,
}

/// A first-hop link without a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The link out of the source.
    pub link: LinkId,
    /// The switch at its other end.
    pub via: SwitchId,
    /// Why.
    pub reason: Exclusion,
}

/// Solves for all pairs of leaves. Equal problems give equal solutions.
pub fn solve(problem: &Problem, limits: Limits) -> Solution {
    let fabric = Fabric::new(problem);
    let leaves = fabric.leaves().filter_map(|source| {
        let leaf = fabric.leaf(source, limits)?;
        let groups = (0..leaf.groups()).map(|group| fabric.explain(&leaf, group));
        let groups = groups.collect();
        Some((source, Explained { leaf, groups }))
    });
    Solution {
        leaves: leaves.collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::check;
    use crate::problem::{Link, Switch};

    fn switch(id: u32, tier: u8) -> Switch {
        Switch {
            id: SwitchId(id),
            tier,
        }
    }

    fn link(id: u32, a: u32, b: u32, gbps: u64) -> Link {
        Link {
            id: LinkId(id),
            ends: (SwitchId(a), SwitchId(b)),
            capacity_bps: gbps * 1_000_000_000,
            alive: true,
        }
    }

    fn weights(solution: &Solution, source: u32, destination: u32) -> Vec<(u32, u32)> {
        solution
            .group(SwitchId(source), SwitchId(destination))
            .unwrap()
            .members
            .iter()
            .map(|member| (member.link.0, member.weight))
            .collect()
    }

    fn solved(switches: &[Switch], links: &[Link]) -> Solution {
        let problem = Problem::new(switches.to_vec(), links.to_vec()).unwrap();
        let solution = solve(&problem, Limits::default());
        check(&problem, Limits::default(), &solution).unwrap();
        solution
    }

    /// Leaves 1 to 3, spines 10 and 11, a 100 Gb/s link each; link 10 x leaf + spine.
    fn two_tiers() -> (Vec<Switch>, Vec<Link>) {
        let switches = vec![
            switch(1, 0),
            switch(2, 0),
            switch(3, 0),
            switch(10, 1),
            switch(11, 1),
        ];
        let links = [1, 2, 3]
            .into_iter()
            .flat_map(|leaf| [0, 1].map(|spine| link(10 * leaf + spine, leaf, 10 + spine, 100)))
            .collect();
        (switches, links)
    }

    #[test]
    fn a_healthy_fabric_spreads_evenly() {
        let (switches, links) = two_tiers();
        let solution = solved(&switches, &links);
        assert_eq!(solution.groups().count(), 6);
        assert_eq!(weights(&solution, 1, 2), [(10, 1), (11, 1)]);
    }

    #[test]
    fn a_dead_far_link_removes_its_spine_for_that_leaf_alone() {
        let (switches, mut links) = two_tiers();
        links
            .iter_mut()
            .find(|link| link.id == LinkId(21))
            .unwrap()
            .alive = false;
        let solution = solved(&switches, &links);
        assert_eq!(weights(&solution, 1, 2), [(10, 1)]);
        assert_eq!(weights(&solution, 1, 3), [(10, 1), (11, 1)]);
        let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
        assert_eq!(group.excluded[0].reason, Exclusion::NoWayOn);
        let group = solution.group(SwitchId(2), SwitchId(1)).unwrap();
        assert_eq!(group.excluded[0].reason, Exclusion::LinkDown);
    }

    #[test]
    fn parallel_links_divide_what_their_spine_can_carry_on() {
        let (switches, mut links) = two_tiers();
        links.push(link(100, 1, 10, 100));
        // Spine 10 carries 100 on over two uplinks, spine 11 carries 100 over one.
        assert_eq!(
            weights(&solved(&switches, &links), 1, 2),
            [(10, 1), (11, 2), (100, 1)]
        );
        links.push(link(101, 2, 10, 100));
        assert_eq!(
            weights(&solved(&switches, &links), 1, 2),
            [(10, 1), (11, 1), (100, 1)]
        );
    }

    #[test]
    fn shares_that_do_not_divide_are_still_exact() {
        let (switches, mut links) = two_tiers();
        links.push(link(100, 1, 10, 100));
        links.push(link(101, 1, 10, 100));
        // A third of 100 Gb/s each against 100 Gb/s.
        assert_eq!(
            weights(&solved(&switches, &links), 1, 2),
            [(10, 1), (11, 3), (100, 1), (101, 1)]
        );
    }

    #[test]
    fn nothing_alive_gives_an_empty_group_with_reasons() {
        let (switches, mut links) = two_tiers();
        for link in &mut links {
            link.alive = link.ends.0 != SwitchId(2);
        }
        let solution = solved(&switches, &links);
        let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
        assert!(group.members.is_empty());
        assert_eq!(group.excluded.len(), 2);
    }

    #[test]
    fn a_third_tier_is_used_where_no_spine_leads_down() {
        // Pods {1; 10, 11} and {2; 12, 13} below super-spines 20 and 21; spine 11 to super-spine 21 at half speed.
        let mut switches = vec![switch(1, 0), switch(2, 0), switch(3, 0)];
        switches.extend((10..14).map(|id| switch(id, 1)));
        switches.extend([switch(20, 2), switch(21, 2)]);
        let links = [
            link(0, 1, 10, 100),
            link(1, 1, 11, 100),
            link(2, 2, 12, 100),
            link(3, 2, 13, 100),
            link(4, 10, 20, 100),
            link(5, 11, 21, 50),
            link(6, 12, 20, 100),
            link(7, 13, 21, 100),
            link(8, 3, 10, 100),
            link(9, 3, 11, 100),
        ];
        let solution = solved(&switches, &links);
        assert_eq!(weights(&solution, 1, 2), [(0, 2), (1, 1)]);
        assert_eq!(weights(&solution, 1, 3), [(0, 1), (1, 1)]);
    }

    fn fabric() -> impl Strategy<Value = (Vec<Switch>, Vec<Link>)> {
        let speed = prop::sample::select(vec![1, 10, 25, 40, 100, 200, 400, 800, 333]);
        let plane = (
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            speed,
            0..4,
        );
        (2_u32..5, 1_u32..6, prop::collection::vec(plane, 1..30)).prop_map(
            |(leaves, spines, planes)| {
                let mut switches: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
                switches.extend((0..spines).map(|id| switch(100 + id, 1)));
                let links = planes
                    .iter()
                    .zip(0..)
                    .map(|((leaf, spine, gbps, dead), id)| Link {
                        alive: *dead != 0,
                        ..link(
                            id,
                            u32::try_from(leaf.index(leaves as usize)).unwrap(),
                            100 + u32::try_from(spine.index(spines as usize)).unwrap(),
                            *gbps,
                        )
                    })
                    .collect();
                (switches, links)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_checker_agrees((switches, links) in fabric(), parts_max in 4_u32..=256) {
            let problem = Problem::new(switches, links).unwrap();
            let limits = Limits::new(parts_max);
            let solution = solve(&problem, limits);
            prop_assert_eq!(check(&problem, limits, &solution), Ok(()));
        }

        #[test]
        fn order_does_not_matter((mut switches, mut links) in fabric(), turn in 0_usize..30) {
            let one = Problem::new(switches.clone(), links.clone()).unwrap();
            switches.reverse();
            let middle = turn % links.len();
            links.rotate_left(middle);
            links.iter_mut().for_each(|link| link.ends = (link.ends.1, link.ends.0));
            let other = Problem::new(switches, links).unwrap();
            prop_assert_eq!(solve(&one, Limits::default()), solve(&other, Limits::default()));
        }

        #[test]
        fn a_dead_link_gets_nothing((switches, links) in fabric()) {
            let problem = Problem::new(switches, links).unwrap();
            for (_, group) in solve(&problem, Limits::default()).groups() {
                for member in &group.members {
                    prop_assert!(problem.link(member.link).unwrap().alive);
                    prop_assert!(member.weight >= 1);
                }
            }
        }

        #[test]
        fn the_checker_sees_any_changed_weight(
            (switches, links) in fabric(),
            which in any::<prop::sample::Index>(),
        ) {
            let problem = Problem::new(switches, links).unwrap();
            let mut solution = solve(&problem, Limits::default());
            let mut members: Vec<_> = solution
                .groups_mut()
                .filter(|group| group.members.len() > 1)
                .flat_map(|group| group.members.iter_mut())
                .collect();
            if !members.is_empty() {
                let at = which.index(members.len());
                members[at].weight += 1;
                prop_assert!(check(&problem, Limits::default(), &solution).is_err());
            }
        }
    }
}
