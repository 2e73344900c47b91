//! Laws of placements in phases, on random small planes, by the recount.

use proptest::prelude::*;

use super::super::beside::parts_among;
use super::super::tests::{Cells, GBPS, cells, flows, pairs, problem};
use super::super::{Flow, Tight, recount, recount_in_phases};
use super::*;

fn full(subflows: u64) -> Level {
    Level {
        subflows,
        capacity: 4 * GBPS,
    }
}

/// Jobs and phases by the bits of a number; one flow in four is always there.
pub(in crate::pin) fn phases(seed: u64, jobs: u32, count: usize) -> Vec<Option<Phase>> {
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
        pieces in 1..20_u32, is_alike in any::<bool>(),
    ) {
        let problem = problem(5, &cells);
        let plane = Plane::new(&problem);
        let all = pairs.iter().zip(1..).map(|((from, to), number)| Flow {
            from: *from,
            to: *to,
            // All alike, or each as large as no other.
            subflows: if is_alike { size } else { number },
        });
        let flows = Flows::new(all.collect()).with_pieces(vec![pieces; pairs.len()]);
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
        for (_, numbers) in groups(&flows, &phases) {
            let alone = Flows::new(numbers.iter().map(|it| flows.all()[*it]).collect());
            prop_assert!(bounded_below(&plane, &alone).unwrap().level <= placement.bound.level);
        }
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

#[test]
fn phases_that_need_most_of_a_leaf_meet_there_though_others_are_larger() {
    let plane = Plane::new(&problem(1, &vec![vec![4]; 4]));
    let flows = flows(&[(0, 1), (2, 3), (2, 3), (0, 1), (3, 2), (3, 2)], 6);
    let of = |phases: [(u32, u32); 6]| {
        let phases = phases.map(|(job, phase)| Some(Phase { job, phase }));
        bound(&plane, &flows, &phases).unwrap()
    };
    let meeting = of([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]);
    assert_eq!((meeting.level, meeting.tight), (full(12), Tight::Sends(0)));
    let turns = of([(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]);
    assert_eq!(turns.level, full(6));
}

/// Three permutations of 64 NICs at 8 leaves, in each of which 4 jobs have a quarter of the NICs.
fn four_jobs_of_three_phases() -> (Flows, Vec<Option<Phase>>) {
    let (mut pairs, mut all) = (Vec::new(), Vec::new());
    for (phase, times) in (0..).zip([3, 5, 11]) {
        for job in 0..4 {
            // Every fourth NIC; within the job to another one.
            for nic in 0..16 {
                let leaf = |nic: u32| (4 * (nic % 16) + job) / 8;
                let (from, to) = (leaf(nic), leaf(times * nic + 1 + phase));
                if from != to {
                    pairs.push((from, to));
                    all.push(Some(Phase { job, phase }));
                }
            }
        }
    }
    (flows(&pairs, 16), all)
}

#[test]
fn phases_of_several_jobs_are_spread_as_far_as_flows_can_be_divided() {
    let (flows, phases) = four_jobs_of_three_phases();
    let problem = problem(8, &vec![vec![4]; 64]);
    let plane = Plane::new(&problem);
    let mut last = u64::MAX;
    for pieces in [1, 4, 16] {
        let flows = flows.clone().with_pieces(vec![pieces; flows.all().len()]);
        let placement = place_in_phases(&plane, &flows, &phases, &[], full(16)).unwrap();
        let counted = recount_in_phases(&problem, &flows, &phases, &placement.parts).unwrap();
        let (worst, _) = counted.worst;
        assert_eq!(worst, placement.level.holds(4 * GBPS));
        assert!(worst <= last, "{pieces} pieces: {worst} of 16");
        last = worst;
    }
    assert_eq!(last, 16, "which is the bound");
}

/// Sub-flows that are elsewhere now.
fn moved(before: &[Part], after: &[Part]) -> u32 {
    let was = |part: &Part| {
        let mut same = before.iter();
        let same = same.find(|it| (it.flow, it.spine) == (part.flow, part.spine));
        same.map_or(0, |it| it.subflows)
    };
    let moved = after.iter().map(|it| it.subflows.saturating_sub(was(it)));
    moved.sum()
}

#[test]
fn where_phases_of_several_jobs_are_spread_dead_links_move_what_they_carried() {
    let (flows, phases) = four_jobs_of_three_phases();
    for size in [16, 64] {
        let all = flows.all().iter().map(|flow| Flow {
            subflows: size,
            ..*flow
        });
        let all: Vec<Flow> = all.collect();
        let count = all.len();
        let flows = Flows::new(all).with_pieces(vec![16; count]);
        let mut cells = vec![vec![4]; 64];
        let place = |cells: &Cells, past: &[Part]| {
            let plane = Plane::new(&problem(8, cells));
            place_in_phases(&plane, &flows, &phases, past, full(size.into())).unwrap()
        };
        let mut last = place(&cells, &[]);
        let (mut displaced, mut elsewhere) = (0, 0);
        let dead = [0, 9, 18, 27, 36, 45];
        for cell in dead {
            cells[cell].clear();
            let (leaf, spine) = (cell as u32 / 8, cell as u32 % 8);
            let is_displaced = |part: &&Part| {
                let flow = flows.all()[part.flow as usize];
                part.spine == spine && (flow.from == leaf || flow.to == leaf)
            };
            let lost = last.parts.iter().filter(is_displaced);
            displaced += lost.map(|part| part.subflows).sum::<u32>();
            let next = place(&cells, &last.parts);
            elsewhere += moved(&last.parts, &next.parts);
            last = next;
        }
        // Larger pieces find no room at some time, and others make way.
        let most = if size == 16 { displaced } else { 3 * displaced };
        assert!(
            (1..=most).contains(&elsewhere),
            "{elsewhere} of {displaced}"
        );
        // Links that come back move nothing that is not slower by a tenth.
        for cell in dead {
            cells[cell] = vec![4];
            let next = place(&cells, &last.parts);
            let is_lower = next.level.holds(10 * GBPS) * 10 < last.level.holds(10 * GBPS) * 9 + 10;
            assert!(is_lower || next.parts == last.parts);
            last = next;
        }
    }
}

#[test]
fn what_is_always_there_stays_beside_phases_of_several_jobs() {
    // Of three links the third dies, and 24 sub-flows that are always there have room on the two others.
    let cells = |third: Vec<u64>| {
        let row = vec![vec![4], vec![4], third];
        [row.clone(), row].concat()
    };
    let all = [(0, 1, 24), (1, 0, 1), (1, 0, 1)];
    let flows = all.map(|(from, to, subflows)| Flow { from, to, subflows });
    let flows = Flows::new(flows.to_vec()).with_pieces(vec![24, 1, 1]);
    let phase = |job| Some(Phase { job, phase: 0 });
    let phases = [None, phase(0), phase(1)];
    let part = |flow, spine, subflows| Part {
        flow,
        spine,
        subflows,
    };
    let past: Vec<Part> = (0..3)
        .map(|spine| part(0, spine, 8))
        .chain([part(1, 0, 1), part(2, 1, 1)])
        .collect();
    let plane = Plane::new(&problem(3, &cells(Vec::new())));
    let after = place_in_phases(&plane, &flows, &phases, &past, full(16)).unwrap();
    assert_eq!(after.level, full(12));
    assert_eq!(moved(&past, &after.parts), 8);
}

/// Three permutations of 64 NICs at 8 leaves of 8 spines, one after the other, which fill every link.
#[test]
fn where_a_link_came_back_phases_of_one_job_are_at_their_bound_again() {
    let (mut pairs, mut phases) = (Vec::new(), Vec::new());
    for phase in 0..3 {
        for nic in 0..64 {
            pairs.push((nic / 8, (nic / 8 + 1 + phase) % 8));
            phases.push(Some(Phase { job: 1, phase }));
        }
    }
    let flows = flows(&pairs, 16);
    let mut cells = vec![vec![4]; 64];
    let plane = |cells: &Cells| Plane::new(&problem(8, cells));
    let healthy = place_in_phases(&plane(&cells), &flows, &phases, &[], full(16)).unwrap();
    cells[0].clear();
    let failed =
        place_in_phases(&plane(&cells), &flows, &phases, &healthy.parts, full(16)).unwrap();
    assert!(failed.level > full(16));
    cells[0] = vec![4];
    let plane = plane(&cells);
    let past = &failed.parts;
    let back = place_lower_in_phases(&plane, &flows, &phases, past, full(16)).unwrap();
    assert_eq!((back.level, back.bound.level), (full(16), full(16)));
    let moves = u64::from(moved(past, &back.parts));
    assert!((1..=most(&flows)).contains(&moves), "{moves}");
    let again = place_lower_in_phases(&plane, &flows, &phases, &back.parts, full(16)).unwrap();
    assert_eq!(again.parts, back.parts);
}

proptest! {
    #[test]
    fn where_a_link_came_back_no_level_is_higher_and_few_flows_move(
        cells in cells(40), back in 0..40_usize, pairs in pairs(8, 60), size in 1..17_u32, seed in any::<u64>(), jobs in 1..4_u32,
        enough in 1..40_u64,
    ) {
        let mut cells = cells;
        let came_back = std::mem::take(&mut cells[back]);
        let (flows, enough) = (flows(&pairs, size), full(enough));
        let phases = phases(seed, jobs, pairs.len());
        let plane = Plane::new(&problem(5, &cells));
        let Ok(failed) = place_in_phases(&plane, &flows, &phases, &[], enough) else { return Ok(()) };
        cells[back] = came_back;
        let problem = problem(5, &cells);
        let plane = Plane::new(&problem);
        let stays = place_in_phases(&plane, &flows, &phases, &failed.parts, enough).unwrap();
        let lower = place_lower_in_phases(&plane, &flows, &phases, &failed.parts, enough).unwrap();
        let counted = recount_in_phases(&problem, &flows, &phases, &lower.parts).unwrap();
        let (subflows, capacity) = counted.worst;
        let worst = Level { subflows, capacity };
        prop_assert!(worst <= lower.level);
        if stays.parts == failed.parts {
            prop_assert!(lower.level <= stays.level.max(enough));
            let moves = u64::from(moved(&failed.parts, &lower.parts));
            prop_assert!(moves <= most(&flows) || lower.level < stays.level);
        }
    }
}
