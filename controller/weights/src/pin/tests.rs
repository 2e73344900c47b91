//! Laws of placements, on random small planes, beside a search through all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::problem::{Link, LinkId, Problem, Switch, SwitchId};

pub(super) const GBPS: u64 = 1_000_000_000;

/// Capacities of the links between each leaf and each spine; an empty list: none is alive.
pub(super) type Cells = Vec<Vec<u64>>;

pub(super) fn problem(spines: u32, cells: &Cells) -> Problem {
    let leaves = cells.len() as u32 / spines;
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let switches = (0..leaves).map(|id| switch(id, 0));
    let switches = switches.chain((0..spines).map(|id| switch(leaves + id, 1)));
    let mut links = Vec::new();
    for (cell, capacities) in (0..).zip(cells) {
        let ends = (SwitchId(cell / spines), SwitchId(leaves + cell % spines));
        let dead = capacities.is_empty().then_some((GBPS, false));
        let bundle = capacities
            .iter()
            .map(|gbps| (gbps * GBPS, true))
            .chain(dead);
        for (capacity_bps, alive) in bundle {
            links.push(Link {
                id: LinkId(links.len() as u32),
                ends,
                capacity_bps,
                alive,
            });
        }
    }
    Problem::new(switches.collect(), links).unwrap()
}

pub(super) fn flows(pairs: &[(u32, u32)], size: u32) -> Flows {
    let flow = |(from, to): &(u32, u32)| Flow {
        from: *from,
        to: *to,
        subflows: size,
    };
    Flows::new(pairs.iter().map(flow).collect())
}

/// Flows between different leaves of so many.
pub(super) fn pairs(leaves: u32, most: usize) -> impl Strategy<Value = Vec<(u32, u32)>> {
    let pair = (0..leaves, 1..leaves).prop_map(move |(from, by)| (from, (from + by) % leaves));
    prop::collection::vec(pair, 0..most)
}

pub(super) fn cells(count: usize) -> impl Strategy<Value = Cells> {
    let bundle = prop_oneof![
        6 => Just(vec![4]),
        2 => Just(Vec::new()),
        1 => Just(vec![2]),
        1 => Just(vec![4, 4]),
        1 => Just(vec![1, 3]),
    ];
    prop::collection::vec(bundle, count)
}

/// The placement, if every pair has a way; each is recounted.
fn placed(problem: &Problem, flows: &Flows, past: &[Part]) -> Option<Placement> {
    let plane = Plane::new(problem);
    let placement = place_after(&plane, flows, past).ok()?;
    let counted = recount(problem, flows, &placement.parts).unwrap();
    let (subflows, capacity) = counted.worst;
    let worst = Level { subflows, capacity };
    assert!(worst <= placement.level, "{counted:?}, {placement:?}");
    assert!(placement.bound.level <= placement.level, "{placement:?}");
    assert!(placement.parts.is_sorted());
    Some(placement)
}

/// Sub-flows of each two leaves over each spine: what a placement comes to, whatever its flows are called.
pub(super) fn carried(flows: &Flows, parts: &[Part]) -> BTreeMap<(Flow, u32), u32> {
    let mut carried = BTreeMap::new();
    for part in parts {
        let flow = flows.all()[part.flow as usize];
        *carried.entry((flow, part.spine)).or_default() += part.subflows;
    }
    carried
}

/// The least level of any placement, from all of them.
fn least(plane: &Plane, flows: &Flows) -> Option<Level> {
    let subflows: Vec<Flow> = flows
        .all()
        .iter()
        .flat_map(|flow| vec![*flow; flow.subflows as usize])
        .collect();
    let mut level = Level {
        subflows: 0,
        capacity: 1,
    };
    loop {
        let slots = plane.slots(level, flows.most());
        let mut free = [slots.clone(), slots];
        if fits(&subflows, plane.spines().len(), &mut free) {
            return Some(level);
        }
        level = plane.above(level)?;
    }
}

fn fits(subflows: &[Flow], spines: usize, free: &mut [Vec<u32>; 2]) -> bool {
    let Some((flow, rest)) = subflows.split_first() else {
        return true;
    };
    (0..spines).any(|spine| {
        let (up, down) = (
            flow.from as usize * spines + spine,
            flow.to as usize * spines + spine,
        );
        if free[0][up] == 0 || free[1][down] == 0 {
            return false;
        }
        free[0][up] -= 1;
        free[1][down] -= 1;
        let found = fits(rest, spines, free);
        free[0][up] += 1;
        free[1][down] += 1;
        found
    })
}

proptest! {
    #[test]
    fn no_placement_is_below_the_bound_and_ours_is_the_least_of_small_ones(
        cells in cells(9), pairs in pairs(3, 4), size in 1..3_u32,
    ) {
        let (problem, flows) = (problem(3, &cells), flows(&pairs, size));
        if let Some(placement) = placed(&problem, &flows, &[]) {
            let plane = Plane::new(&problem);
            let least = least(&plane, &flows).unwrap();
            prop_assert!(placement.bound.level <= least);
            prop_assert!(placement.level <= plane.above(least).unwrap());
        }
    }

    #[test]
    fn a_placement_is_valid_and_does_not_depend_on_the_order(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, turn in 0..60_usize,
    ) {
        let problem = problem(5, &cells);
        let first = flows(&pairs, size);
        let mut turned = pairs.clone();
        turned.rotate_left(turn % pairs.len().max(1));
        let second = flows(&turned, size);
        let (a, b) = (placed(&problem, &first, &[]), placed(&problem, &second, &[]));
        prop_assert_eq!(a.is_some(), b.is_some());
        if let Some((a, b)) = a.zip(b) {
            prop_assert_eq!((a.level, a.bound), (b.level, b.bound));
            prop_assert_eq!(carried(&first, &a.parts), carried(&second, &b.parts));
        }
    }

    /// König: with as many flows at a leaf as links, and none dead, each link has one flow, and each flow one link.
    #[test]
    fn with_nothing_dead_no_flow_is_divided_and_no_link_has_two(
        leaves in 2..9_u32, spines in 1..9_u32, size in 1..17_u32, seed in any::<u64>(),
    ) {
        let cells = vec![vec![4]; (leaves * spines) as usize];
        // As many permutations of leaves as spines: each sends and takes that often.
        let pairs = (0..spines).flat_map(|round| {
            let by = 1 + (seed >> (round % 60)) as u32 % (leaves - 1);
            (0..leaves).map(move |leaf| (leaf, (leaf + by) % leaves))
        });
        let pairs: Vec<_> = pairs.collect();
        let flows = flows(&pairs, size);
        let placement = placed(&problem(spines, &cells), &flows, &[]).unwrap();
        prop_assert_eq!(placement.parts.len(), pairs.len());
        let full = Level { subflows: u64::from(size), capacity: 4 * GBPS };
        prop_assert!(placement.level == full && placement.bound.level == full);
    }

    #[test]
    fn after_a_link_died_only_what_it_carried_moves(
        pairs in pairs(8, 40), size in 1..17_u32, dead in 0..40_usize,
    ) {
        let mut cells = vec![vec![4]; 40];
        let flows = flows(&pairs, size);
        let before = placed(&problem(5, &cells), &flows, &[]).unwrap();
        cells[dead].clear();
        let plane = Plane::new(&problem(5, &cells));
        // Room for everything.
        let level = Level { subflows: 40 * 17, capacity: 4 * GBPS };
        let after = repair::repaired(&plane, &flows, level, &before.parts).unwrap();
        recount(&problem(5, &cells), &flows, &after).unwrap();
        let (leaf, spine) = (dead as u32 / 5, dead as u32 % 5);
        let was = |part: &Part| {
            let before = before.parts.iter().find(|it| (it.flow, it.spine) == (part.flow, part.spine));
            before.map_or(0, |it| it.subflows)
        };
        let moved: u32 = after.iter().map(|part| part.subflows.saturating_sub(was(part))).sum();
        let displaced = before.parts.iter().filter(|part| {
            let flow = flows.all()[part.flow as usize];
            part.spine == spine && (flow.from == leaf || flow.to == leaf)
        });
        let displaced: u32 = displaced.map(|part| part.subflows).sum();
        prop_assert_eq!(moved, displaced);
    }
}

/// Fails unless flows that are placed again stay where they are, or reach a lower level, from which they do not move any more.
fn given_back(
    plane: &Plane,
    flows: &Flows,
    placement: Placement,
    enough: Level,
) -> Result<(), TestCaseError> {
    let mut placement = placement;
    for _ in 0..2 {
        let again = place_lower(plane, flows, &placement.parts, enough).unwrap();
        if again.parts == placement.parts {
            return Ok(());
        }
        prop_assert!(again.level < placement.level);
        placement = again;
    }
    prop_assert!(false, "{placement:?} is the third level");
    Ok(())
}

proptest! {
    /// A leader that takes over places again from the pins that are adopted.
    #[test]
    fn a_placement_that_is_its_own_past_is_given_back(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, dead in prop::collection::vec(0..40_usize, 0..6),
        enough in 0..40_u64,
    ) {
        let (mut cells, flows, mut past) = (cells, flows(&pairs, size), Vec::new());
        let enough = Level { subflows: enough, capacity: 4 * GBPS };
        for (round, dead) in dead.into_iter().enumerate() {
            // A link fails, or another one comes.
            cells[dead] = if round % 3 < 2 { Vec::new() } else { vec![4] };
            let problem = problem(5, &cells);
            let plane = Plane::new(&problem);
            let Ok(next) = place_within(&plane, &flows, &past, enough) else { break };
            // Where links came back, the second placement after it is the last one, whatever the past was.
            let back = place_lower(&plane, &flows, &past, enough).unwrap();
            let back = place_lower(&plane, &flows, &back.parts, enough).unwrap();
            recount(&problem, &flows, &back.parts).unwrap();
            if plane.above(next.bound.level.max(enough)).is_none_or(|most| back.level <= most) {
                given_back(&plane, &flows, back, enough)?;
            }
            recount(&problem, &flows, &next.parts).unwrap();
            let again = place_within(&plane, &flows, &next.parts, enough).unwrap();
            let least = next.bound.level.max(enough);
            // A first one is far above the bound once in thousands.
            if !past.is_empty() || plane.above(least).is_none_or(|most| next.level <= most) {
                prop_assert_eq!(&again.parts, &next.parts);
            }
            let lower = place_lower(&plane, &flows, &next.parts, enough).unwrap();
            prop_assert!(lower.level <= next.level.max(enough));
            recount(&problem, &flows, &lower.parts).unwrap();
            if plane.above(least).is_none_or(|most| lower.level <= most) {
                given_back(&plane, &flows, lower, enough)?;
            }
            past = next.parts;
        }
    }

    #[test]
    fn when_a_link_comes_back_nothing_moves_for_one_level(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32, back in 0..40_usize,
    ) {
        let mut cells = cells;
        cells[back].clear();
        let flows = flows(&pairs, size);
        if let Some(before) = placed(&problem(5, &cells), &flows, &[]) {
            cells[back] = vec![4];
            let after = placed(&problem(5, &cells), &flows, &before.parts).unwrap();
            let plane = Plane::new(&problem(5, &cells));
            prop_assert!(after.level <= before.level);
            if before.level <= plane.above(after.bound.level).unwrap() || after.level == before.level {
                prop_assert_eq!(after.parts, before.parts);
            }
        }
    }

    #[test]
    fn what_stays_is_at_the_level_that_a_recount_finds(
        cells in cells(40), pairs in pairs(8, 60), size in 1..17_u32,
    ) {
        let (problem, flows) = (problem(5, &cells), flows(&pairs, size));
        if let Some(placement) = placed(&problem, &flows, &[]) {
            let plane = Plane::new(&problem);
            let (subflows, capacity) = recount(&problem, &flows, &placement.parts).unwrap().worst;
            let level = repair::level(&plane, &flows, &placement.parts);
            prop_assert_eq!(level, Level { subflows, capacity });
        }
    }

    /// One pass over the parts beside the level of all of them, and all levels in order.
    #[test]
    fn what_is_kept_is_what_levels_tried_in_order_give(
        before in cells(40), changed in prop::collection::vec((0..40_usize, cells(1)), 0..6), pairs in pairs(8, 60),
        size in 1..17_u32, enough in 0..40_u64, lost in prop::collection::vec((any::<prop::sample::Index>(), 0..2_u32), 0..3),
    ) {
        let flows = flows(&pairs, size);
        let mut past = placed(&problem(5, &before), &flows, &[]).map_or_else(Vec::new, |it| it.parts);
        // Parts that somebody made smaller, or empty.
        let count = past.len();
        for (at, subflows) in lost.iter().filter(|_| count > 0) {
            let part = &mut past[at.index(count)];
            part.subflows = part.subflows.min(*subflows);
        }
        let mut cells = before;
        for (cell, mut bundle) in changed {
            cells[cell] = bundle.remove(0);
        }
        let plane = Plane::new(&problem(5, &cells));
        let enough = Level { subflows: enough, capacity: 4 * GBPS };
        let least = bounded(&plane, &flows).map_or(enough, |bound| bound.level.max(enough));
        let Some(above) = plane.above(least) else { return Ok(()) };
        for most in [least, above] {
            let stays = least.max(repair::level(&plane, &flows, &past));
            let levels = [stays, most].into_iter().filter(|level| *level <= most);
            let plain = levels.into_iter().find_map(|level| Some((repair::repaired(&plane, &flows, level, &past)?, level)));
            prop_assert_eq!(repair::kept(&plane, &flows, [least, most], &past), plain);
        }
    }

    #[test]
    fn a_plane_is_the_same_whatever_its_links_are_called(cells in cells(40), turn in 0..80_u32) {
        let forward = problem(5, &cells);
        let count = forward.links().len() as u32;
        let called = |link: &Link| Link { id: LinkId((link.id.0 + turn) % count), ..*link };
        let switches = forward.switches().map(|(id, tier)| Switch { id, tier });
        let turned = Problem::new(switches.collect(), forward.links().map(called).collect()).unwrap();
        let (forward, turned) = (Plane::new(&forward), Plane::new(&turned));
        for (leaf, spine) in (0..8).flat_map(|leaf| (0..5).map(move |spine| (leaf, spine))) {
            let sorted = |plane: &Plane| {
                let mut links = plane.links(leaf, spine).to_vec();
                links.sort_unstable();
                links
            };
            prop_assert_eq!(sorted(&forward), sorted(&turned));
            prop_assert_eq!(sorted(&forward), cells[leaf * 5 + spine].iter().map(|gbps| gbps * GBPS).collect::<Vec<_>>());
        }
    }
}

#[test]
fn leaves_without_a_way_to_each_other_are_named() {
    // Leaf 0 has spine 0 alone, leaf 1 has spine 1 alone, and leaf 2 has none.
    let cells = vec![vec![4], vec![], vec![], vec![4], vec![], vec![]];
    let plane = Plane::new(&problem(2, &cells));
    let refused = |pairs: &[(u32, u32)]| place(&plane, &flows(pairs, 4)).unwrap_err().to_string();
    assert_eq!(refused(&[(0, 1)]), "no way leads from leaf 0 to leaf 1");
    assert_eq!(refused(&[(0, 2)]), "leaf 2 has no link");
    let nothing = place(&plane, &flows(&[], 4)).unwrap();
    assert_eq!((nothing.parts.len(), nothing.level.subflows), (0, 0));
}

/// What decides most cases with failures: two leaves that lack different spines share fewer than either has.
#[test]
fn a_pair_of_leaves_can_be_tighter_than_each_of_them() {
    let cells = vec![vec![], vec![4], vec![4], vec![4], vec![4], vec![]];
    let problem = problem(3, &cells);
    let flows = flows(&[(0, 1), (0, 1)], 4);
    let placement = placed(&problem, &flows, &[]).unwrap();
    assert_eq!(placement.bound.tight, Tight::Pair(0, 1));
    let level = Level {
        subflows: 8,
        capacity: 4 * GBPS,
    };
    assert_eq!((placement.level, placement.bound.level), (level, level));
}

#[test]
fn a_recount_finds_what_is_wrong() {
    let cells = vec![vec![4], vec![4], vec![4], vec![]];
    let problem = problem(2, &cells);
    let flows = flows(&[(0, 1)], 4);
    let part = |flow, spine, subflows| Part {
        flow,
        spine,
        subflows,
    };
    let counted = |parts: &[Part]| recount(&problem, &flows, parts);
    let right = counted(&[part(0, 0, 4)]).unwrap();
    assert_eq!((right.worst, right.parts_of_leaf_max), ((4, 4 * GBPS), 1));
    assert!((right.load(0.5 * GBPS as f64) - 0.5).abs() < 1e-9);
    assert_eq!(counted(&[part(0, 0, 3)]), Err(Fault::Subflows(0)));
    assert_eq!(
        counted(&[part(0, 0, 3), part(0, 1, 1)]),
        Err(Fault::NoWay(0))
    );
    assert_eq!(counted(&[part(0, 2, 4)]), Err(Fault::Unknown(0)));
    assert_eq!(counted(&[part(1, 0, 4)]), Err(Fault::Unknown(1)));
}

/// Pods of so many leaves and as many planes, each with as many cores; `alive` by link, those of leaves first.
fn three_tiers(pods: u32, width: u32, alive: impl Fn(usize) -> bool) -> Problem {
    let (leaves, switches) = (pods * width, pods * width);
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let mut all: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
    all.extend((0..switches).map(|id| switch(leaves + id, 1)));
    all.extend((0..width * width).map(|id| switch(leaves + switches + id, 2)));
    let mut links = Vec::new();
    let mut link = |a: u32, b: u32| {
        links.push(Link {
            id: LinkId(links.len() as u32),
            ends: (SwitchId(a), SwitchId(b)),
            capacity_bps: 4 * GBPS,
            alive: alive(links.len()),
        });
    };
    for leaf in 0..leaves {
        (0..width).for_each(|plane| link(leaf, leaves + leaf / width * width + plane));
    }
    for switch in 0..switches {
        let cores = leaves + switches + switch % width * width;
        (0..width).for_each(|core| link(leaves + switch, cores + core));
    }
    Problem::new(all, links).unwrap()
}

proptest! {
    #[test]
    fn over_three_tiers_every_way_is_there_and_no_link_is_above_the_level(
        pairs in pairs(9, 60), size in 1..17_u32, dead in prop::collection::btree_set(0..54_usize, 0..6),
    ) {
        let problem = three_tiers(3, 3, |link| !dead.contains(&link));
        let flows = flows(&pairs, size);
        let shape = Pods::new(&problem).unwrap();
        if let Ok(placement) = place_in_pods(&shape, &flows) {
            let (subflows, capacity) = recount_in_pods(&problem, &flows, &placement.parts).unwrap();
            let worst = Level { subflows, capacity };
            prop_assert!(worst <= placement.level);
            prop_assert!(placement.bound.level <= placement.level);
        } else {
            // Some leaf or pod has lost all that it had, or two have nothing in common.
            prop_assert!(dead.len() >= 3, "{dead:?}");
        }
    }

    #[test]
    fn over_three_tiers_with_nothing_dead_no_link_has_two(
        pods in 2..5_u32, width in 1..5_u32, size in 1..17_u32, turn in 1..64_u32,
    ) {
        let problem = three_tiers(pods, width, |_| true);
        let leaves = pods * width;
        let by = 1 + turn % (leaves - 1).max(1);
        let pairs = (0..leaves * width).map(|nic| (nic % leaves, (nic + by) % leaves));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        let flows = flows(&pairs, size);
        let placement = place_in_pods(&Pods::new(&problem).unwrap(), &flows).unwrap();
        let one = Level { subflows: u64::from(size), capacity: 4 * GBPS };
        prop_assert!(placement.level <= one);
        recount_in_pods(&problem, &flows, &placement.parts).unwrap();
    }
}

#[test]
fn two_switches_of_a_pod_in_one_plane_are_no_shape_for_pods() {
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let switches = vec![switch(0, 0), switch(1, 1), switch(2, 1), switch(3, 2)];
    let link = |id, a, b| Link {
        id: LinkId(id),
        ends: (SwitchId(a), SwitchId(b)),
        capacity_bps: GBPS,
        alive: true,
    };
    let links = vec![link(0, 0, 1), link(1, 0, 2), link(2, 1, 3), link(3, 2, 3)];
    let problem = Problem::new(switches, links).unwrap();
    let refused = Pods::new(&problem).unwrap_err();
    assert_eq!(refused, ShapeError::TwoInPlane(SwitchId(1), SwitchId(2)));
}

#[test]
fn a_recount_over_three_tiers_finds_what_is_wrong() {
    let problem = three_tiers(2, 2, |link| link != 0);
    let flows = flows(&[(0, 2)], 2);
    // Leaves 0 to 3, switches 4 to 7, cores 8 to 11, those of plane 1 from 10 on.
    let part = |up, core, down, subflows| PodPart {
        flow: 0,
        up: SwitchId(up),
        over: Some((SwitchId(core), SwitchId(down))),
        subflows,
    };
    let counted = |parts: &[PodPart]| recount_in_pods(&problem, &flows, parts);
    assert_eq!(counted(&[part(5, 10, 7, 2)]), Ok((2, 4 * GBPS)));
    assert_eq!(counted(&[part(5, 10, 7, 1)]), Err(Fault::Subflows(0)));
    // The link is dead, or there is none.
    assert_eq!(counted(&[part(4, 8, 6, 2)]), Err(Fault::NoWay(0)));
    assert_eq!(counted(&[part(5, 8, 7, 2)]), Err(Fault::NoWay(0)));
}

#[test]
fn what_cannot_be_placed_is_refused_and_ends() {
    let one = Plane::new(&problem(1, &vec![vec![4], vec![4]]));
    let refused = |pairs: &[(u32, u32)], size| place(&one, &flows(pairs, size)).unwrap_err();
    for pair in [(0, 2), (7, 0), (0, 0)] {
        assert_eq!(refused(&[pair], 4), Infeasible::NoFlow { flow: 0 });
    }
    assert_eq!(refused(&[(0, 1)], 0), Infeasible::NoFlow { flow: 0 });
    assert_eq!(refused(&[(0, 1)], u32::MAX), Infeasible::TooMany);
    // More sub-flows than any link was thought to hold.
    let many = place(&one, &flows(&[(0, 1)], 100_000)).unwrap();
    assert_eq!(many.level, many.bound.level);
    let none = problem(1, &vec![Vec::new()]);
    assert!(
        place(&Plane::new(&none), &flows(&[], 1))
            .unwrap()
            .parts
            .is_empty()
    );
}

/// Leaves that share a spine of a millionth of what each has of its own: as many levels would lie between.
#[test]
fn links_that_differ_by_a_million_take_few_steps() {
    let mega = |cells: [[u64; 3]; 3]| {
        let cells = cells.map(|row| row.map(|mbps| vec![mbps; usize::from(mbps > 0)]));
        problem(3, &cells.concat())
    };
    let problem = mega([[400_000, 0, 1], [0, 400_000, 1], [0, 0, 1]]);
    for pairs in [vec![(0, 1)], vec![(0, 1), (0, 2)]] {
        let flows = flows(&pairs, 16);
        let placement = placed(&problem, &flows, &[]).unwrap();
        assert_eq!(placement.level.holds(GBPS), 16 * pairs.len() as u64);
    }
}

#[test]
fn a_past_that_is_not_of_these_flows_is_forgotten() {
    let plane = problem(2, &vec![vec![4]; 4]);
    let part = |flow, spine, subflows| Part {
        flow,
        spine,
        subflows,
    };
    let flows = flows(&[(0, 1), (1, 0)], 8);
    for past in [
        vec![part(0, 0, 8)],
        vec![part(0, 0, 16), part(1, 1, 8)],
        vec![part(0, 7, 8), part(1, 1, 8)],
        vec![part(0, 0, 8), part(1, 1, 8), part(2, 0, 8)],
        vec![part(1, 1, 8), part(0, 0, 8)],
        vec![part(0, 0, 8), part(0, 0, 8)],
    ] {
        assert!(placed(&plane, &flows, &past).is_some(), "{past:?}");
    }
}

/// Two leaves and so many spines, every link with the capacity of one NIC.
fn alike(spines: u32) -> Problem {
    problem(spines, &vec![vec![4]; 2 * spines as usize])
}

/// As many sub-flows as a NIC sends on a link of its capacity.
fn full(subflows: u64) -> Level {
    Level {
        subflows,
        capacity: 4 * GBPS,
    }
}

#[test]
fn within_what_links_carry_flows_stay_whole() {
    let plane = Plane::new(&alike(4));
    let flows = flows(&[(0, 1), (0, 1), (0, 1)], 16);
    let low = place(&plane, &flows).unwrap();
    assert!(low.parts.len() > 3, "{low:?}");
    let within = place_within(&plane, &flows, &[], full(16)).unwrap();
    assert_eq!((within.parts.len(), within.level), (3, full(16)));
    assert_eq!(within.bound, low.bound);
    // Where links have too little room for that, they are divided as far as that helps.
    let plane = Plane::new(&alike(2));
    let within = place_within(&plane, &flows, &[], full(16)).unwrap();
    assert_eq!((within.level, within.parts.len()), (full(24), 4));
}

#[test]
fn smaller_flows_stay_whole_beside_larger_ones_and_links_are_filled_alike() {
    let plane = Plane::new(&alike(2));
    let all = [16, 8, 8].map(|subflows| Flow {
        from: 0,
        to: 1,
        subflows,
    });
    let flows = Flows::new(all.to_vec());
    let within = place_within(&plane, &flows, &[], full(32)).unwrap();
    assert_eq!((within.parts.len(), within.level), (3, full(16)));
    let spine = |flow: usize| within.parts[flow].spine;
    assert!(spine(1) == spine(2) && spine(0) != spine(1), "{within:?}");
}

#[test]
fn within_what_links_carry_nothing_moves() {
    let plane = Plane::new(&alike(4));
    let flows = flows(&[(0, 1), (0, 1)], 16);
    let past = [(0, 3), (1, 3)].map(|(flow, spine)| Part {
        flow,
        spine,
        subflows: 16,
    });
    let same = place_within(&plane, &flows, &past, full(32)).unwrap();
    assert_eq!(same.parts, past);
    let apart = place_within(&plane, &flows, &past, full(16)).unwrap();
    assert_eq!(apart.parts[0], past[0]);
    assert!(
        apart.parts.len() == 2 && apart.parts[1].spine != 3,
        "{apart:?}"
    );
}
