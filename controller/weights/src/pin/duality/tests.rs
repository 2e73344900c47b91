//! The bound beside placements, and beside what a leaf's links prove.

use proptest::prelude::*;

use super::*;
use crate::pin::onward::tests::Fabric;
use crate::pin::phase::tests::phases;
use crate::pin::tests::{Cells, GBPS, cells, flows, pairs, problem};
use crate::pin::{Level, place, place_in_phases};

fn as_number(level: Level) -> f64 {
    level.subflows as f64 / level.capacity as f64
}

fn always(flows: &Flows) -> Vec<Option<Phase>> {
    vec![None; flows.all().len()]
}

/// Leaves 0 and 1 send to leaf 2, and all of it is proved to go over one link: leaves, pods and pairs of them prove half as much.
fn are_bound_together(plane: &Plane) {
    let flows = flows(&[(0, 2), (1, 2)], 4);
    let bound = lower_bound_by_duality(plane, &flows, &always(&flows)).unwrap() * GBPS as f64;
    assert!((7.9..=8.0).contains(&bound), "{bound}");
    let placement = place(plane, &flows).unwrap();
    assert_eq!(as_number(placement.level) * GBPS as f64, 8.0);
    assert_eq!(as_number(placement.bound.level) * GBPS as f64, 4.0);
}

#[test]
fn leaves_that_share_one_spine_are_bound_together() {
    // Leaves 0 and 1 have spines 0 and 1, leaf 2 has spines 1 to 3.
    let all = [1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1];
    let cells = all.map(|gbps| vec![gbps; usize::from(gbps > 0)]).to_vec();
    are_bound_together(&Plane::new(&problem(4, &cells)));
}

#[test]
fn pods_that_share_one_spine_are_bound_together() {
    // As the leaves above, one in each pod: their own links are wide.
    let cells: Cells = vec![vec![100]; 12];
    let fabric = Fabric::new(1, 4, &cells, &[1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1]);
    are_bound_together(&fabric.plane());
}

#[test]
fn flows_without_a_way_are_refused_as_when_they_are_placed() {
    let plane = Plane::new(&problem(
        2,
        &vec![vec![1], vec![], vec![], vec![1], vec![], vec![]],
    ));
    for pair in [(0, 1), (0, 2), (1, 1), (0, 7)] {
        let flows = flows(&[pair], 4);
        let refused = lower_bound_by_duality(&plane, &flows, &always(&flows)).unwrap_err();
        assert_eq!(refused, place(&plane, &flows).unwrap_err());
    }
    assert_eq!(lower_bound_by_duality(&plane, &flows(&[], 4), &[]), Ok(0.0));
}

#[test]
fn phases_of_jobs_that_share_one_spine_are_bound_together() {
    // As the leaves above. Each job sends from one of them in a phase that is not its largest.
    let all = [1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 9, 9, 9, 9];
    let cells = all.map(|gbps| vec![gbps; usize::from(gbps > 0)]).to_vec();
    let plane = Plane::new(&problem(4, &cells));
    let flows = flows(&[(0, 2), (3, 0), (3, 0), (1, 2), (3, 1), (3, 1)], 4);
    let of = |phases: [(u32, u32); 6]| {
        let phases: Vec<_> = phases
            .map(|(job, phase)| Some(Phase { job, phase }))
            .to_vec();
        lower_bound_by_duality(&plane, &flows, &phases).unwrap() * GBPS as f64
    };
    let meeting = of([(0, 0), (0, 1), (0, 1), (1, 0), (1, 1), (1, 1)]);
    assert!((7.9..=8.0).contains(&meeting), "{meeting}");
    // Phases of one job never meet.
    let turns = of([(0, 0), (0, 1), (0, 1), (0, 2), (0, 3), (0, 3)]);
    assert!((3.9..=4.0).contains(&turns), "{turns}");
}

#[test]
fn flows_of_which_nobody_says_the_phase_are_refused() {
    let plane = Plane::new(&problem(2, &vec![vec![1]; 4]));
    let refused = lower_bound_by_duality(&plane, &flows(&[(0, 1)], 4), &[]);
    assert_eq!(refused, Err(Infeasible::NoFlow { flow: 0 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_placement_is_below_the_bound(cells in cells(15), pairs in pairs(5, 12), size in 1_u32..6) {
        let plane = Plane::new(&problem(3, &cells));
        let flows = flows(&pairs, size);
        let Ok(placement) = place(&plane, &flows) else {
            prop_assert!(lower_bound_by_duality(&plane, &flows, &always(&flows)).is_err());
            return Ok(());
        };
        let bound = lower_bound_by_duality(&plane, &flows, &always(&flows)).unwrap();
        prop_assert!(bound <= as_number(placement.level));
        for leaf in 0..5 {
            let of = |end: fn(&(u32, u32)) -> u32| pairs.iter().filter(|pair| end(pair) == leaf).count();
            let most = of(|pair| pair.0).max(of(|pair| pair.1)) as f64 * f64::from(size);
            let capacity = plane.capacity(leaf as usize) as f64;
            prop_assert!(capacity == 0.0 || bound >= most / capacity * (1.0 - 1e-8));
        }
    }

    #[test]
    fn no_placement_in_pods_and_phases_is_below_the_bound(
        cells in cells(24), above in prop::collection::vec(0_u64..9, 12), pairs in pairs(6, 14), size in 1_u32..6, seed in any::<u64>(),
        jobs in 1..4_u32,
    ) {
        let fabric = Fabric::new(2, 4, &cells, &above);
        let (plane, flows) = (fabric.plane(), flows(&pairs, size));
        let phases = phases(seed, jobs, pairs.len());
        let least = Level { subflows: 0, capacity: 1 };
        let Ok(placement) = place_in_phases(&plane, &flows, &phases, &[], least) else {
            prop_assert!(lower_bound_by_duality(&plane, &flows, &phases).is_err());
            return Ok(());
        };
        let bound = lower_bound_by_duality(&plane, &flows, &phases).unwrap();
        let [below, above] = fabric.recounted(&flows, &phases, &placement.parts).unwrap();
        prop_assert!(bound <= as_number(below.max(above)));
    }
}
