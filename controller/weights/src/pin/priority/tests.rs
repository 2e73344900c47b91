//! Laws of placements by priority, on random small planes, by a count of their own and the simulator.

use proptest::prelude::*;

use super::super::tests::{Cells, GBPS, cells, flows, pairs, problem};
use super::super::{place_within, recount, recount_in_phases};
use super::*;
use crate::simulate::rates;

fn full(subflows: u64) -> Level {
    Level {
        subflows,
        capacity: 4 * GBPS,
    }
}

/// Where links that carry a flow of a class carry more than its level.
fn over(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    ranked: &Ranked,
) -> Option<(usize, usize)> {
    let spines = plane.spines().len();
    ranked.classes.iter().enumerate().find_map(|(class, it)| {
        let cells = 0..plane.leaves().len() * spines;
        cells
            .clone()
            .chain(cells)
            .enumerate()
            .find_map(|(place, cell)| {
                let ends = |part: &&Part| {
                    let flow = flows.all()[part.flow as usize];
                    let leaf = if place == cell { flow.from } else { flow.to };
                    leaf as usize * spines + part.spine as usize == cell
                };
                let there: Vec<&Part> = ranked.placement.parts.iter().filter(ends).collect();
                let carried: u64 = there.iter().map(|part| u64::from(part.subflows)).sum();
                let links = plane.links(cell / spines, cell % spines).iter();
                let holds: u64 = links.map(|capacity| it.level.holds(*capacity)).sum();
                let mut of_class = there
                    .iter()
                    .filter(|part| priorities[part.flow as usize] == it.priority);
                (carried > holds && of_class.next().is_some()).then_some((class, cell))
            })
    })
}

/// Share of what they want that the slowest flows of each class get if links are divided fairly.
fn slowest(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    ranked: &Ranked,
    enough: Level,
) -> Vec<f64> {
    let subflow_bps = enough.capacity as f64 / enough.subflows as f64;
    let rates = rates(plane, flows, &ranked.placement.parts, subflow_bps);
    let of_class = |class: &Class| {
        let flows = rates.iter().zip(flows.all()).zip(priorities);
        let own = flows.filter(|(_, priority)| **priority == class.priority);
        let shares = own.map(|((rate, flow), _)| rate / (f64::from(flow.subflows) * subflow_bps));
        shares.fold(1.0, f64::min)
    };
    ranked.classes.iter().map(of_class).collect()
}

/// Jobs and phases by the bits of a number; one flow in four is always there.
fn phases(seed: u64, count: usize) -> Vec<Option<Phase>> {
    let phase = |flow: usize| {
        let bits = (seed.rotate_left(5 * flow as u32) & 0xFF) as u32;
        (!bits.is_multiple_of(4)).then_some(Phase {
            job: bits / 4 % 3,
            phase: bits / 16 % 3,
        })
    };
    (0..count).map(phase).collect()
}

/// Parts of the flows that run at one time, one phase of each job.
fn running(phases: &[Option<Phase>], turn: u32) -> Vec<usize> {
    let runs = |phase: &Option<Phase>| phase.is_none_or(|it| it.phase == (it.job + turn) % 3);
    (0..phases.len())
        .filter(|flow| runs(&phases[*flow]))
        .collect()
}

proptest! {
    /// At any time, links that carry a class carry no more than its level, and what runs is what the recount allows.
    #[test]
    fn in_phases_links_of_a_class_carry_no_more_than_its_level(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, seed in any::<u64>(), enough in 1..40_u64,
    ) {
        let problem = problem(5, &cells);
        let plane = Plane::new(&problem);
        let flows = flows(&pairs, size);
        let priorities: Vec<u32> = (0..pairs.len()).map(|flow| (seed >> (flow % 64) & 3) as u32).collect();
        let phases = phases(seed, pairs.len());
        let enough = full(enough);
        let placed = place_by_priority_in_phases(&plane, &flows, &priorities, &phases, &[], enough);
        let Ok(ranked) = placed else {
            prop_assert!(place_within(&plane, &flows, &[], enough).is_err());
            return Ok(());
        };
        let parts = &ranked.placement.parts;
        let (subflows, capacity) = recount_in_phases(&problem, &flows, &phases, parts).unwrap().worst;
        let worst = Level { subflows, capacity };
        prop_assert!(worst <= ranked.placement.level);
        for turn in 0..3 {
            let now = running(&phases, turn);
            let of_now = Flows::new(now.iter().map(|flow| flows.all()[*flow]).collect());
            let own: Vec<u32> = now.iter().map(|flow| priorities[*flow]).collect();
            let mut at_once = ranked.clone();
            at_once.placement.parts = parts_among(parts, &now);
            prop_assert_eq!(over(&plane, &of_now, &own, &at_once), None);
        }
        let again = place_by_priority_in_phases(&plane, &flows, &priorities, &phases, parts, enough).unwrap();
        prop_assert_eq!(&again.placement.parts, parts);
    }

    #[test]
    fn in_phases_the_highest_priority_is_no_higher_than_alone(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, high in 1..60_usize, seed in any::<u64>(),
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let all = flows(&pairs, size);
        let high = high.min(pairs.len());
        let alone = flows(&pairs[..high], size);
        let priorities: Vec<u32> = (0..pairs.len()).map(|flow| u32::from(flow < high)).collect();
        let phases = phases(seed, pairs.len());
        let enough = full(size.into());
        if let Ok(ranked) = place_by_priority_in_phases(&plane, &all, &priorities, &phases, &[], enough)
            && high > 0
        {
            let alone = place_in_phases(&plane, &alone, &phases[..high], &[], enough).unwrap();
            prop_assert!(ranked.classes[0].before <= alone.level.max(enough));
        }
    }

    #[test]
    fn with_one_priority_it_is_as_in_phases_and_without_phases_as_by_priority(
        cells in cells(40), pairs in pairs(8, 40), size in 1..17_u32, seed in any::<u64>(),
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let flows = flows(&pairs, size);
        let phases = phases(seed, pairs.len());
        let enough = full(size.into());
        let one = vec![7; pairs.len()];
        let ranked = place_by_priority_in_phases(&plane, &flows, &one, &phases, &[], enough);
        if !pairs.is_empty() {
            let alike = place_in_phases(&plane, &flows, &phases, &[], enough);
            prop_assert_eq!(ranked.map(|ranked| ranked.placement), alike);
        }
        let some: Vec<u32> = (0..pairs.len()).map(|flow| (seed >> (flow % 64) & 3) as u32).collect();
        let none = vec![None; pairs.len()];
        let ranked = place_by_priority_in_phases(&plane, &flows, &some, &none, &[], enough);
        prop_assert_eq!(ranked, place_by_priority(&plane, &flows, &some, &[], enough));
    }

    #[test]
    fn links_of_a_class_carry_no_more_than_its_level_and_its_flows_are_no_slower(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, seed in any::<u64>(), enough in 1..40_u64,
    ) {
        let problem = problem(5, &cells);
        let plane = Plane::new(&problem);
        let flows = flows(&pairs, size);
        let priorities: Vec<u32> = (0..pairs.len()).map(|flow| (seed >> (flow % 64) & 3) as u32).collect();
        let enough = full(enough);
        if let Ok(ranked) = place_by_priority(&plane, &flows, &priorities, &[], enough) {
            recount(&problem, &flows, &ranked.placement.parts).unwrap();
            prop_assert_eq!(over(&plane, &flows, &priorities, &ranked), None);
            let slowest = slowest(&plane, &flows, &priorities, &ranked, enough);
            for (class, slowest) in ranked.classes.iter().zip(slowest) {
                let level = |level: Level| level.subflows as f64 / level.capacity as f64;
                let promised = level(enough) / level(class.level);
                // Sub-flows of one link of a bundle are counted for all of it.
                prop_assert!(slowest >= promised.min(1.0) * (1.0 - 1e-9), "{class:?} {slowest} {promised}");
                prop_assert!(class.level >= class.before);
            }
        } else {
            prop_assert!(place_within(&plane, &flows, &[], enough).is_err());
        }
    }

    /// The highest class is as low as it is without any other, unless one of those has nowhere else to go.
    #[test]
    fn the_highest_priority_is_no_higher_than_alone(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, high in 0..60_usize,
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let all = flows(&pairs, size);
        let high = high.min(pairs.len());
        let alone = flows(&pairs[..high], size);
        let priorities: Vec<u32> = (0..pairs.len()).map(|flow| u32::from(flow < high)).collect();
        let enough = full(size.into());
        if let Ok(ranked) = place_by_priority(&plane, &all, &priorities, &[], enough)
            && high > 0
        {
            let alone = place_within(&plane, &alone, &[], enough).unwrap();
            prop_assert!(ranked.classes[0].before <= alone.level.max(enough));
        }
    }

    #[test]
    fn with_one_priority_it_is_as_without(
        cells in cells(40), pairs in pairs(8, 40), size in 1..17_u32, priority in any::<u32>(),
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let flows = flows(&pairs, size);
        let enough = full(size.into());
        let within = place_within(&plane, &flows, &[], enough);
        let ranked = place_by_priority(&plane, &flows, &vec![priority; pairs.len()], &[], enough);
        if !pairs.is_empty() {
            prop_assert_eq!(ranked.map(|ranked| ranked.placement), within);
        }
    }

    #[test]
    fn where_a_link_came_back_no_class_is_higher(
        cells in cells(40), back in 0..40_usize, pairs in pairs(8, 60), size in 1..17_u32, enough in 1..40_u64, seed in any::<u64>(),
        ranks in prop::collection::vec(0..3_u32, 60),
    ) {
        let mut cells = cells;
        let came_back = std::mem::take(&mut cells[back]);
        let flows = flows(&pairs, size);
        let (phases, priorities, enough) = (phases(seed, pairs.len()), &ranks[..pairs.len()], full(enough));
        let place = |cells: &Cells, past: &[Part], moves_back| {
            let plane = Plane::new(&problem(5, cells));
            ranked(&plane, &flows, priorities, &phases, past, enough, moves_back)
        };
        let Ok(failed) = place(&cells, &[], false) else { return Ok(()) };
        let past = &failed.placement.parts;
        cells[back] = came_back;
        let (stays, lower) = (place(&cells, past, false).unwrap(), place(&cells, past, true).unwrap());
        let problem = problem(5, &cells);
        let counted = recount_in_phases(&problem, &flows, &phases, &lower.placement.parts).unwrap();
        let (subflows, capacity) = counted.worst;
        let worst = Level { subflows, capacity };
        prop_assert!(worst <= lower.placement.level);
        if stays.placement.parts == *past {
            let before: Vec<Level> = stays.classes.iter().map(|class| class.level).collect();
            let after: Vec<Level> = lower.classes.iter().map(|class| class.level).collect();
            prop_assert!(after.iter().zip(&before).all(|(after, before)| after <= before));
            prop_assert!(after != before || lower.placement.parts == *past);
        }
    }

    /// What is planned stays.
    #[test]
    fn a_placement_that_fits_is_given_back(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, seed in any::<u64>(), enough in 1..40_u64,
    ) {
        let plane = Plane::new(&problem(5, &cells));
        let flows = flows(&pairs, size);
        let priorities: Vec<u32> = (0..pairs.len()).map(|flow| (seed >> (flow % 64) & 1) as u32).collect();
        let enough = full(enough);
        if let Ok(ranked) = place_by_priority(&plane, &flows, &priorities, &[], enough) {
            let again = place_by_priority(&plane, &flows, &priorities, &ranked.placement.parts, enough).unwrap();
            prop_assert_eq!(again.placement.parts, ranked.placement.parts);
        }
    }
}

/// So many flows of 16 sub-flows from one leaf to another, over so many spines; their levels, and those before.
fn levels(spines: u32, priorities: &[u32]) -> Vec<(u64, u64)> {
    let plane = Plane::new(&problem(spines, &vec![vec![4]; 2 * spines as usize]));
    let flows = flows(&vec![(0, 1); priorities.len()], 16);
    let ranked = place_by_priority(&plane, &flows, priorities, &[], full(16)).unwrap();
    let holds = |level: Level| level.holds(4 * GBPS);
    let classes = ranked.classes.iter();
    classes
        .map(|class| (holds(class.level), holds(class.before)))
        .collect()
}

#[test]
fn a_lower_priority_takes_what_is_left_and_not_more() {
    // With one priority each link of three would carry 22.
    assert_eq!(levels(3, &[1, 1, 0, 0]), [(16, 16), (32, 32)]);
    assert_eq!(levels(4, &[0, 1, 0, 1]), [(16, 16), (16, 16)]);
}

#[test]
fn without_room_the_lowest_of_those_above_gives_way() {
    assert_eq!(levels(2, &[1, 1, 0]), [(24, 16), (24, 24)]);
    assert_eq!(levels(2, &[2, 1, 0]), [(16, 16), (32, 16), (32, 32)]);
}

#[test]
fn a_flow_without_a_priority_and_no_flow_at_all_are_refused_and_placed() {
    let plane = Plane::new(&problem(2, &vec![vec![4]; 4]));
    let refused = place_by_priority(&plane, &flows(&[(0, 1)], 4), &[], &[], full(4));
    assert_eq!(refused, Err(Infeasible::NoFlow { flow: 0 }));
    let nothing = place_by_priority(&plane, &flows(&[], 4), &[], &[], full(4)).unwrap();
    assert!(nothing.classes.is_empty() && nothing.placement.parts.is_empty());
}

#[test]
fn very_many_priorities_share_the_last_class() {
    let priorities: Vec<u32> = (0..100).collect();
    let plane = Plane::new(&problem(8, &vec![vec![4]; 16]));
    let flows = flows(&[(0, 1); 100], 1);
    let ranked = place_by_priority(&plane, &flows, &priorities, &[], full(16)).unwrap();
    assert_eq!(ranked.classes.len(), CLASSES_MAX);
    assert_eq!(ranked.placement.parts.len(), 100);
}

#[test]
fn phases_of_a_lower_priority_share_what_is_left() {
    // Two spines: one for the higher priority, and one that both phases of the lower one use, one after the other.
    let problem = problem(2, &vec![vec![4]; 4]);
    let plane = Plane::new(&problem);
    let flows = flows(&[(0, 1); 3], 16);
    let phase = |phase| Some(Phase { job: 1, phase });
    let phases = [None, phase(0), phase(1)];
    let ranked =
        place_by_priority_in_phases(&plane, &flows, &[1, 0, 0], &phases, &[], full(16)).unwrap();
    let levels = ranked.classes.iter().map(|it| it.level.holds(4 * GBPS));
    assert_eq!(levels.collect::<Vec<_>>(), [16, 16]);
    let counted = recount_in_phases(&problem, &flows, &phases, &ranked.placement.parts).unwrap();
    assert_eq!(counted.worst.0, 16);
    let together = place_by_priority(&plane, &flows, &[1, 0, 0], &[], full(16)).unwrap();
    assert_eq!(together.classes[1].level.holds(4 * GBPS), 32);
}

#[test]
fn a_flow_of_which_nobody_says_its_phase_is_refused() {
    let plane = Plane::new(&problem(2, &vec![vec![4]; 4]));
    let refused =
        place_by_priority_in_phases(&plane, &flows(&[(0, 1)], 4), &[1], &[], &[], full(4));
    assert_eq!(refused, Err(Infeasible::NoFlow { flow: 0 }));
}

/// As many flows from each of four leaves to the next as it has links, half of them with a higher priority.
#[test]
fn where_a_link_came_back_each_priority_is_as_low_as_before() {
    let pairs: Vec<(u32, u32)> = (0..64).map(|nic| (nic / 16, (nic / 16 + 1) % 4)).collect();
    let flows = flows(&pairs, 16);
    let priorities: Vec<u32> = (0..64).map(|nic| nic % 2).collect();
    let phases = vec![None; pairs.len()];
    let mut cells = vec![vec![4]; 64];
    let place = |cells: &Cells, past: &[Part], moves_back| {
        let plane = Plane::new(&problem(16, cells));
        ranked(
            &plane,
            &flows,
            &priorities,
            &phases,
            past,
            full(16),
            moves_back,
        )
        .unwrap()
    };
    let of_classes = |ranked: &Ranked| -> Vec<u64> {
        let classes = ranked.classes.iter();
        classes.map(|class| class.level.holds(4 * GBPS)).collect()
    };
    let healthy = place(&cells, &[], false);
    assert_eq!(of_classes(&healthy), [16, 16]);
    // Of a flow of the higher priority.
    cells[0].clear();
    let failed = place(&cells, &healthy.placement.parts, false);
    assert!(of_classes(&failed).into_iter().any(|level| level > 16));
    cells[0] = vec![4];
    let past = &failed.placement.parts;
    let stays = of_classes(&place(&cells, past, false));
    assert!(stays.into_iter().any(|level| level > 16));
    let back = place(&cells, past, true);
    assert_eq!(of_classes(&back), [16, 16]);
    let again = place(&cells, &back.placement.parts, true);
    assert_eq!(again.placement.parts, back.placement.parts);
}
