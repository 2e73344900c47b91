//! Laws of placements in phases, on random small planes, by the recount.

use proptest::prelude::*;

use super::super::tests::{GBPS, cells, flows, pairs, problem};
use super::super::{recount, recount_in_phases};
use super::*;

fn full(subflows: u64) -> Level {
    Level {
        subflows,
        capacity: 4 * GBPS,
    }
}

/// Jobs and phases by the bits of a number; one flow in four is always there.
fn phases(seed: u64, jobs: u32, count: usize) -> Vec<Option<Phase>> {
    let phase = |flow: usize| {
        let bits = (seed.rotate_left(5 * flow as u32) & 0xFF) as u32;
        (!bits.is_multiple_of(4)).then_some(Phase {
            job: bits / 4 % jobs,
            phase: bits / 16 % 3,
        })
    };
    (0..count).map(phase).collect()
}

proptest! {
    #[test]
    fn no_link_is_above_the_level_whichever_phases_meet(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, seed in any::<u64>(), jobs in 1..4_u32, enough in 1..40_u64,
    ) {
        let problem = problem(5, &cells);
        let plane = Plane::new(&problem);
        let flows = flows(&pairs, size);
        let phases = phases(seed, jobs, pairs.len());
        let enough = full(enough);
        let Ok(placement) = place_in_phases(&plane, &flows, &phases, &[], enough) else {
            prop_assert!(place_within(&plane, &flows, &[], enough).is_err());
            return Ok(());
        };
        let counted = recount_in_phases(&problem, &flows, &phases, &placement.parts).unwrap();
        let (subflows, capacity) = counted.worst;
        let worst = Level { subflows, capacity };
        prop_assert!(worst <= placement.level);
        prop_assert!(placement.bound.level <= placement.level);
        let again = place_in_phases(&plane, &flows, &phases, &placement.parts, enough).unwrap();
        prop_assert_eq!(&again.parts, &placement.parts);
        // Any phases at the same time, one of each job, counted as if there were no others.
        for turn in 0..3_u32 {
            let runs = |phase: &Option<Phase>| phase.is_none_or(|it| it.phase == (it.job + turn) % 3);
            let now: Vec<usize> = (0..pairs.len()).filter(|flow| runs(&phases[*flow])).collect();
            let of_now = Flows::new(now.iter().map(|flow| flows.all()[*flow]).collect());
            let (subflows, capacity) = recount(&problem, &of_now, &parts_among(&placement.parts, &now)).unwrap().worst;
            let worst = Level { subflows, capacity };
        prop_assert!(worst <= placement.level);
        }
    }

    /// With nothing dead, each phase of a permutation has the whole fabric: no link carries more than one NIC sends.
    #[test]
    fn phases_of_one_job_each_have_the_whole_fabric(
        leaves in 2..8_u32, spines in 1..8_u32, size in 1..17_u32, turns in prop::collection::vec(1..100_u32, 1..5),
    ) {
        let problem = problem(spines, &vec![vec![4]; (leaves * spines) as usize]);
        let plane = Plane::new(&problem);
        let (mut pairs, mut phases) = (Vec::new(), Vec::new());
        for (phase, turn) in (0..).zip(turns) {
            let by = 1 + turn % (leaves - 1);
            for nic in 0..leaves * spines {
                pairs.push((nic / spines, (nic / spines + by) % leaves));
                phases.push(Some(Phase { job: 1, phase }));
            }
        }
        let flows = flows(&pairs, size);
        let enough = full(size.into());
        let placement = place_in_phases(&plane, &flows, &phases, &[], enough).unwrap();
        prop_assert_eq!((placement.level, placement.bound.level), (enough, enough));
        prop_assert_eq!(placement.parts.len(), pairs.len());
        recount_in_phases(&problem, &flows, &phases, &placement.parts).unwrap();
        let again = place_in_phases(&plane, &flows, &phases, &placement.parts, enough).unwrap();
        prop_assert_eq!(again.parts, placement.parts);
    }

    #[test]
    fn without_phases_it_is_as_without(
        cells in cells(40), pairs in pairs(8, 40), size in 1..17_u32,
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let flows = flows(&pairs, size);
        let within = place_within(&plane, &flows, &[], full(8));
        let phased = place_in_phases(&plane, &flows, &vec![None; pairs.len()], &[], full(8));
        prop_assert_eq!(phased.map(|it| it.parts), within.map(|it| it.parts));
    }
}

#[test]
fn phases_of_two_jobs_may_meet() {
    let problem = problem(2, &vec![vec![4]; 4]);
    let plane = Plane::new(&problem);
    let flows = flows(&[(0, 1); 4], 16);
    let of = |jobs: [u32; 4]| {
        let phases = [0, 1, 2, 3].map(|phase| {
            let job = jobs[phase as usize];
            Some(Phase { job, phase })
        });
        let placement = place_in_phases(&plane, &flows, &phases, &[], full(16)).unwrap();
        let counted = recount_in_phases(&problem, &flows, &phases, &placement.parts).unwrap();
        (placement.level.holds(4 * GBPS), counted.worst.0)
    };
    assert_eq!(of([1, 1, 1, 1]), (16, 16));
    assert_eq!(of([1, 1, 2, 2]), (16, 16));
    assert_eq!(of([1, 2, 3, 4]), (32, 32));
}

#[test]
fn a_flow_of_which_nobody_says_its_phase_is_refused() {
    let plane = Plane::new(&problem(2, &vec![vec![4]; 4]));
    let refused = place_in_phases(&plane, &flows(&[(0, 1)], 4), &[], &[], full(4));
    assert_eq!(refused, Err(Infeasible::NoFlow { flow: 0 }));
}
