//! Laws of placements in pods, on random small fabrics: by recounts of links below spines and above them, which know no rows.

use proptest::prelude::*;

use super::super::tests::{Cells, GBPS, carried, cells, flows, pairs, problem};
use super::super::{
    Fault, Part, Phase, Tight, place, place_by_priority_in_phases, place_within, recount_in_phases,
};
use super::*;
use crate::problem::{Link, LinkId, Problem, Switch};

/// Pods of so many leaves each. What is above the spine of each pod is one link.
#[derive(Debug)]
pub(in crate::pin) struct Fabric {
    width: u32,
    below: Problem,
    above: Problem,
}

impl Fabric {
    /// Capacities of links by leaf, then by spine, and of what is above spines in Gb/s, by pod, then by spine; 0: nothing is alive
    /// there.
    pub(in crate::pin) fn new(width: u32, spines: u32, cells: &Cells, above: &[u64]) -> Self {
        let leaves = cells.len() as u32 / spines;
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let pods = (0..leaves / width).map(|pod| switch(pod * width, 0));
        let switches = pods.chain((0..spines).map(|spine| switch(leaves + spine, 1)));
        let link = |(cell, gbps): (u32, &u64)| Link {
            id: LinkId(cell),
            ends: (
                SwitchId(cell / spines * width),
                SwitchId(leaves + cell % spines),
            ),
            capacity_bps: (*gbps).max(1) * GBPS,
            alive: *gbps > 0,
        };
        let links = (0..).zip(above).map(link);
        Self {
            width,
            below: problem(spines, cells),
            above: Problem::new(switches.collect(), links.collect()).unwrap(),
        }
    }

    pub(in crate::pin) fn plane(&self) -> Plane {
        let pod = |leaf: SwitchId| Some(SwitchId(leaf.0 / self.width * self.width));
        Plane::new(&self.below).with_pods(&self.above, pod)
    }

    /// Levels of the worst link below spines, and of the worst one above them.
    pub(in crate::pin) fn recounted(
        &self,
        flows: &Flows,
        phases: &[Option<Phase>],
        parts: &[Part],
    ) -> Result<[Level; 2], Fault> {
        let level = |(subflows, capacity): (u64, u64)| Level { subflows, capacity };
        let below = recount_in_phases(&self.below, flows, phases, parts)?.worst;
        let (mut between, mut of_between, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for (flow, phase) in flows.all().iter().zip(phases) {
            let (from, to) = (flow.from / self.width, flow.to / self.width);
            numbers.push((from != to).then_some(between.len() as u32));
            if from != to {
                between.push(Flow { from, to, ..*flow });
                of_between.push(*phase);
            }
        }
        let parts = parts.iter().filter_map(|part| {
            let flow = numbers[part.flow as usize]?;
            Some(Part { flow, ..*part })
        });
        let (between, parts) = (Flows::new(between), parts.collect::<Vec<_>>());
        let above = recount_in_phases(&self.above, &between, &of_between, &parts)?.worst;
        Ok([level(below), level(above)])
    }

    /// Whether some flow has no spine that leads all the way.
    fn is_cut(&self, pairs: &[(u32, u32)]) -> bool {
        let plane = self.plane();
        let has_way = |flow: Flow| (0..4).any(|spine| plane.leads(flow, spine));
        let subflows = 1;
        pairs
            .iter()
            .any(|&(from, to)| !has_way(Flow { from, to, subflows }))
    }
}

/// Three pods of three leaves, and four spines in each. Above a spine there is as much as below it, half or a quarter of that; above
/// some half of what is above others, or nothing.
fn fabrics() -> impl Strategy<Value = Fabric> {
    let part = prop_oneof![8 => Just(2_u64), 1 => Just(1), 1 => Just(0)];
    let above = prop::collection::vec(part, 12);
    let most = prop_oneof![Just(12_u64), Just(6), Just(3)];
    (cells(36), above, most).prop_map(|(cells, above, most)| {
        let above: Vec<u64> = above.into_iter().map(|part| most * part / 2).collect();
        Fabric::new(3, 4, &cells, &above)
    })
}

fn full(subflows: u64) -> Level {
    Level {
        subflows,
        capacity: 4 * GBPS,
    }
}

/// Jobs, phases and priorities by the bits of a number; one flow in four is always there.
fn ranked(seed: u64, count: usize) -> (Vec<Option<Phase>>, Vec<u32>) {
    let bits = |flow: usize| (seed.rotate_left(5 * flow as u32) & 0xFF) as u32;
    let phase = |flow: usize| {
        (!bits(flow).is_multiple_of(4)).then_some(Phase {
            job: bits(flow) / 4 % 3,
            phase: bits(flow) / 16 % 3,
        })
    };
    let phases = (0..count).map(phase).collect();
    (phases, (0..count).map(|flow| bits(flow) / 32 % 3).collect())
}

proptest! {
    #[test]
    fn no_link_is_above_the_level_and_the_worst_one_is_no_worse_than_without_pods(
        fabric in fabrics(), pairs in pairs(9, 60), size in 1..17_u32,
    ) {
        let flows = flows(&pairs, size);
        let Ok(placement) = place(&fabric.plane(), &flows) else {
            prop_assert!(fabric.is_cut(&pairs));
            return Ok(());
        };
        let none = vec![None; pairs.len()];
        let worst = fabric.recounted(&flows, &none, &placement.parts).unwrap();
        let worst = worst[0].max(worst[1]);
        prop_assert!(worst <= placement.level, "{worst:?} {placement:?}");
        prop_assert!(placement.bound.level <= placement.level);
        let without = place(&Plane::new(&fabric.below), &flows).unwrap();
        // Some of it may go where nothing leads on.
        if let Ok(before) = fabric.recounted(&flows, &none, &without.parts) {
            let before = before[0].max(before[1]);
            prop_assert!(worst <= before, "{worst:?} {before:?}");
            prop_assert!(placement.bound.level <= before);
        }
    }

    #[test]
    fn a_placement_in_pods_does_not_depend_on_the_order(
        fabric in fabrics(), pairs in pairs(9, 60), size in 1..17_u32, turn in 0..60_usize,
    ) {
        let first = flows(&pairs, size);
        let mut turned = pairs.clone();
        turned.rotate_left(turn % pairs.len().max(1));
        let second = flows(&turned, size);
        let plane = fabric.plane();
        let (a, b) = (place(&plane, &first), place(&plane, &second));
        prop_assert_eq!(a.is_ok(), b.is_ok());
        if let Some((a, b)) = a.ok().zip(b.ok()) {
            prop_assert_eq!((a.level, a.bound), (b.level, b.bound));
            prop_assert_eq!(carried(&first, &a.parts), carried(&second, &b.parts));
        }
    }

    #[test]
    fn what_is_placed_in_pods_stays_and_is_repaired_within_the_level(
        fabric in fabrics(), pairs in pairs(9, 60), size in 1..17_u32, enough in 1..40_u64, dead in 0..12_usize,
    ) {
        let (flows, none) = (flows(&pairs, size), vec![None; pairs.len()]);
        let (plane, enough) = (fabric.plane(), full(enough));
        let Ok(first) = place_within(&plane, &flows, &[], enough) else {
            prop_assert!(fabric.is_cut(&pairs));
            return Ok(());
        };
        let second = place_within(&plane, &flows, &first.parts, enough).unwrap();
        let again = place_within(&plane, &flows, &second.parts, enough).unwrap();
        prop_assert_eq!(&again.parts, &second.parts);
        // What is above a spine fails.
        let links = fabric.above.links().map(|link| Link {
            alive: link.alive && link.id.0 as usize != dead,
            ..*link
        });
        let switches = fabric.above.switches().map(|(id, tier)| Switch { id, tier });
        let above = Problem::new(switches.collect(), links.collect()).unwrap();
        let fabric = Fabric { above, ..fabric };
        let Ok(after) = place_within(&fabric.plane(), &flows, &second.parts, enough) else {
            prop_assert!(fabric.is_cut(&pairs));
            return Ok(());
        };
        let worst = fabric.recounted(&flows, &none, &after.parts).unwrap();
        prop_assert!(worst[0].max(worst[1]) <= after.level, "{worst:?} {after:?}");
    }

    #[test]
    fn links_above_spines_are_within_the_level_of_priorities_and_phases(
        fabric in fabrics(), pairs in pairs(9, 60), size in 1..17_u32, seed in any::<u64>(), enough in 1..40_u64,
    ) {
        let flows = flows(&pairs, size);
        let (phases, priorities) = ranked(seed, pairs.len());
        let placed =
            place_by_priority_in_phases(&fabric.plane(), &flows, &priorities, &phases, &[], full(enough));
        let Ok(ranked) = placed else {
            prop_assert!(fabric.is_cut(&pairs));
            return Ok(());
        };
        let placement = ranked.placement;
        let worst = fabric.recounted(&flows, &phases, &placement.parts).unwrap();
        prop_assert!(worst[0].max(worst[1]) <= placement.level, "{worst:?} {placement:?}");
    }
}

/// Two pods of two leaves with four spines each, and above each spine so many Gb/s. Each leaf has four NICs at the rate of an uplink:
/// two send to the other leaf of their pod, and two to another pod.
fn two_pods(above: u64) -> (Fabric, Flows) {
    let fabric = Fabric::new(2, 4, &vec![vec![4]; 16], &[above; 8]);
    let pairs = [
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 3),
        (2, 0),
        (2, 3),
        (3, 1),
        (3, 2),
    ];
    let twice: Vec<(u32, u32)> = pairs.iter().flat_map(|pair| [*pair; 2]).collect();
    (fabric, flows(&twice, 16))
}

#[test]
fn what_goes_between_pods_is_spread_evenly_over_spines_with_little_above_them() {
    let (fabric, flows) = two_pods(4);
    let none = vec![None; 16];
    let without = place_within(&Plane::new(&fabric.below), &flows, &[], full(16)).unwrap();
    let worst = fabric.recounted(&flows, &none, &without.parts);
    assert_eq!(worst, Ok([full(16), full(32)]));
    let placement = place_within(&fabric.plane(), &flows, &[], full(16)).unwrap();
    let worst = fabric.recounted(&flows, &none, &placement.parts);
    assert_eq!(worst, Ok([full(16), full(16)]));
    assert_eq!(
        (placement.level, placement.bound.level),
        (full(16), full(16))
    );
    assert_eq!(placement.parts.len(), 16, "all are whole");
}

#[test]
fn where_pods_decide_the_level_links_of_leaves_stay_even() {
    let (fabric, flows) = two_pods(1);
    let placement = place_within(&fabric.plane(), &flows, &[], full(16)).unwrap();
    let four_times = Level {
        subflows: 16,
        capacity: GBPS,
    };
    let worst = fabric.recounted(&flows, &[None; 16], &placement.parts);
    assert_eq!(worst, Ok([full(16), four_times]));
    assert_eq!(placement.level, four_times);
    let bound = Bound {
        level: four_times,
        tight: Tight::Sends(0),
        of_pods: true,
    };
    assert_eq!(placement.bound, bound);
}

#[test]
fn with_room_above_everything_it_is_as_without_pods() {
    let (fabric, flows) = two_pods(8);
    let without = place_within(&Plane::new(&fabric.below), &flows, &[], full(16));
    assert_eq!(
        place_within(&fabric.plane(), &flows, &[], full(16)),
        without
    );
}

#[test]
fn with_too_many_slots_above_spines_it_is_as_without_pods() {
    // The first pod has an eighth of what is above the second one, which could hold all that is sent many times.
    let fabric = Fabric::new(2, 4, &vec![vec![4]; 16], &[1, 1, 1, 1, 8, 8, 8, 8]);
    let (_, few) = two_pods(1);
    let many = few.all().iter().map(|flow| Flow {
        subflows: 1 << 22,
        ..*flow
    });
    let many = Flows::new(many.collect());
    let placement = place(&fabric.plane(), &many).unwrap();
    let without = place(&Plane::new(&fabric.below), &many).unwrap();
    assert_eq!(placement.parts, without.parts);
    let worst = fabric.recounted(&many, &[None; 16], &placement.parts);
    assert_eq!(worst.map(|it| it[0].max(it[1])), Ok(placement.level));
}

#[test]
fn leaves_of_pods_without_a_way_to_each_other_are_named() {
    // Leaf 0 has spine 0 alone, which leads nowhere; leaf 1 of its pod has both.
    let cells = vec![
        vec![4],
        vec![],
        vec![4],
        vec![4],
        vec![4],
        vec![4],
        vec![4],
        vec![4],
    ];
    let fabric = Fabric::new(2, 2, &cells, &[0, 4, 4, 4]);
    let placed = |pair: (u32, u32)| place(&fabric.plane(), &flows(&[pair], 4));
    let cut = Infeasible::NoWay { from: 0, to: 2 };
    assert_eq!(placed((0, 2)), Err(cut));
    assert_eq!(placed((0, 1)).unwrap().parts[0].spine, 0);
    assert_eq!(placed((3, 1)).unwrap().parts[0].spine, 1);
}

#[test]
fn of_a_leaf_in_no_pod_nothing_is_counted_above() {
    let (fabric, flows) = two_pods(1);
    let plane = Plane::new(&fabric.below).with_pods(&fabric.above, |_| None);
    let placement = place_within(&plane, &flows, &[], full(16)).unwrap();
    assert_eq!(
        (placement.level, placement.bound.of_pods),
        (full(16), false)
    );
}
