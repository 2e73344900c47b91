//! Weights for traffic matrices over three tiers.

use super::*;

const PODS: u32 = 3;
const LEAVES_OF_POD: u32 = 2;
const PLANES: u32 = 3;
/// Super-spines of a plane.
const CORES: u32 = 2;

/// Leaves 0.., a spine 100 + 10 x pod + plane of each pod and plane, and super-spines 200 + 10 x plane and on. Capacities in Gb/s, 0
/// for a dead link: by leaf, then by plane; and by pod, then by plane, then by super-spine.
fn fabric(below: &[u64], above: &[u64]) -> Problem {
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let spines = (0..PODS * PLANES).map(|it| switch(spine(it / PLANES, it % PLANES).0, 1));
    let cores = (0..PLANES * CORES).map(|it| switch(core(it / CORES, it % CORES).0, 2));
    let leaves = (0..PODS * LEAVES_OF_POD).map(|id| switch(id, 0));
    let below = (0..).zip(below).map(|(cell, gbps): (u32, _)| {
        let leaf = cell / PLANES;
        let spine = spine(leaf / LEAVES_OF_POD, cell % PLANES);
        ((SwitchId(leaf), spine), *gbps)
    });
    let above = (0..).zip(above).map(|(cell, gbps): (u32, _)| {
        let (row, number) = (cell / CORES, cell % CORES);
        let (pod, plane) = (row / PLANES, row % PLANES);
        ((core(plane, number), spine(pod, plane)), *gbps)
    });
    let links = (0..)
        .zip(below.chain(above))
        .map(|(id, (ends, gbps))| Link {
            id: LinkId(id),
            ends,
            capacity_bps: gbps.max(1) * GBPS,
            alive: gbps > 0,
        });
    let switches = leaves.chain(spines).chain(cores);
    Problem::new(switches.collect(), links.collect()).unwrap()
}

fn spine(pod: u32, plane: u32) -> SwitchId {
    SwitchId(100 + 10 * pod + plane)
}

fn core(plane: u32, number: u32) -> SwitchId {
    SwitchId(200 + 10 * plane + number)
}

fn below() -> Vec<u64> {
    vec![100; (PODS * LEAVES_OF_POD * PLANES) as usize]
}

fn above() -> Vec<u64> {
    vec![100; (PODS * PLANES * CORES) as usize]
}

#[test]
fn an_even_matrix_keeps_the_weights_by_capacity() {
    let problem = fabric(&below(), &above());
    for grouping in [Grouping::ByDestination, Grouping::ByCapacity] {
        let solution = solved(&problem, &all_to_all(6, 60), grouping);
        assert_eq!(solution.leaves, by_capacity(&problem));
        let of = solution.utilization;
        assert_eq!((of.shares, of.weights), (1.0, 1.0));
        assert!(of.bound > 0.999_999);
    }
}

#[test]
fn what_goes_to_another_pod_spares_the_plane_that_has_less_above() {
    // One of the two links above the first spine of pod 1 is dead.
    let mut above = above();
    above[(PLANES * CORES) as usize] = 0;
    let problem = fabric(&below(), &above);
    let across = [(0, 2), (1, 3)].map(|(from, to)| demand(from, to, 250));
    let within = [(2, 3), (3, 2)].map(|(from, to)| demand(from, to, 30));
    let matrix = Matrix {
        demands: [across, within].concat(),
        ..Matrix::default()
    };
    let of = solved(&problem, &matrix, Grouping::ByDestination);
    // 500 Gb/s to pod 1, where 100, 200 and 200 are above its spines. A third of it would be 167.
    assert!((of.utilization.capacity_weights - 5.0 / 3.0).abs() < 1e-9);
    assert!(of.utilization.weights < 1.01, "{:?}", of.utilization);
    assert!(of.utilization.bound > 0.999);
    let shares = of.shares.of(SwitchId(0), SwitchId(2)).unwrap();
    assert!((shares[0] - 0.2).abs() < 0.01, "{shares:?}");
    // Within a pod that spine is as good as any.
    let shares = of.shares.of(SwitchId(3), SwitchId(2)).unwrap();
    assert!(shares[0] > 0.333, "{shares:?}");
}

#[test]
fn load_above_a_spine_is_gone_around() {
    let problem = fabric(&below(), &above());
    let load = |spine, up, down| BackgroundAbove {
        spine,
        up_bps: up * GBPS,
        down_bps: down * GBPS,
    };
    let matrix = Matrix {
        demands: vec![demand(0, 2, 200), demand(1, 4, 200)],
        above: vec![load(spine(0, 1), 150, 0), load(spine(0, 1), 40, 0)],
        ..Matrix::default()
    };
    let of = solved(&problem, &matrix, Grouping::ByDestination);
    // 10 Gb/s are left of one plane, and 195 go over each of the two others.
    assert!(of.utilization.weights < 0.99, "{:?}", of.utilization);
    assert!(of.utilization.capacity_weights > 1.6);
    // What comes down to the pod is not in the way.
    let matrix = Matrix {
        above: vec![load(spine(0, 1), 0, 190)],
        ..matrix
    };
    let of = solved(&problem, &matrix, Grouping::ByDestination);
    assert_eq!(of.leaves, by_capacity(&problem));
}

#[test]
fn a_plane_whose_spines_share_no_super_spine_leads_nowhere() {
    // The first plane of pod 0 has its first super-spine, that of pod 1 its second one.
    let mut above = above();
    above[1] = 0;
    above[(PLANES * CORES) as usize] = 0;
    let problem = fabric(&below(), &above);
    let matrix = Matrix {
        demands: vec![demand(0, 2, 100), demand(0, 4, 100), demand(0, 1, 90)],
        ..Matrix::default()
    };
    let of = solved(&problem, &matrix, Grouping::ByDestination);
    assert_eq!(weights(&of, 0, 2)[0], 0);
    assert!(weights(&of, 0, 4)[0] > weights(&of, 0, 4)[1]);
    assert_eq!(of.unreachable, []);
    // Pods that share none at all.
    let cut: Vec<u64> = (0..PODS * PLANES * CORES)
        .map(|it| u64::from((it / (PLANES * CORES) == 0) != (it % CORES == 0)))
        .collect();
    let of = solved(&fabric(&below(), &cut), &matrix, Grouping::ByDestination);
    let pair = |to| (SwitchId(0), SwitchId(to));
    assert_eq!(of.unreachable, [pair(2), pair(4)]);
}

#[test]
fn shapes_that_say_not_how_traffic_comes_down_are_refused() {
    let problem = fabric(&below(), &above());
    let with = |ends: (SwitchId, SwitchId), alive| {
        let switches = problem.switches().map(|(id, tier)| Switch { id, tier });
        let more = Link {
            id: LinkId(999),
            ends,
            capacity_bps: GBPS,
            alive,
        };
        let links = problem.links().copied().chain([more]);
        let problem = Problem::new(switches.collect(), links.collect()).unwrap();
        let matrix = all_to_all(6, 1);
        let solution = solve(
            &problem,
            &matrix,
            Limits::default(),
            Grouping::ByDestination,
        );
        solution.map(|_| ())
    };
    let two = TrafficError::TwoInPlane(spine(0, 0), spine(0, 1));
    for alive in [true, false] {
        assert_eq!(with((spine(0, 0), core(1, 0)), alive), Err(two));
    }
    let skips = TrafficError::SkipsTier(LinkId(999));
    assert_eq!(with((SwitchId(0), core(1, 0)), true), Err(skips));
    assert_eq!(with((SwitchId(0), core(1, 0)), false), Ok(()));
    for error in [two, skips] {
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn load_above_what_has_nothing_above_is_named() {
    let mut above = above();
    above[..2].fill(0);
    let problem = fabric(&below(), &above);
    for switch in [SwitchId(0), spine(0, 0), core(0, 0), SwitchId(99)] {
        let matrix = Matrix {
            above: vec![BackgroundAbove {
                spine: switch,
                up_bps: 1,
                down_bps: 0,
            }],
            ..Matrix::default()
        };
        let refused = solve(
            &problem,
            &matrix,
            Limits::default(),
            Grouping::ByDestination,
        );
        let error = refused.unwrap_err();
        assert_eq!(error, TrafficError::NothingAbove(switch));
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn weights_of_small_fabrics_are_near_the_bound() {
    let mut random = Random(5);
    for _ in 0..60 {
        let dead = random.below(40);
        let mut capacities = |count: usize, speeds: u64| {
            let mut one = |_| match random.below(100) < dead {
                true => 0,
                false => 100 * (1 + random.below(speeds)),
            };
            (0..count).map(&mut one).collect::<Vec<u64>>()
        };
        let problem = fabric(&capacities(18, 3), &capacities(18, 2));
        let mut matrix = all_to_all(6, 0);
        for demand in &mut matrix.demands {
            demand.bps = random.below(300) * GBPS;
        }
        let of = solved(&problem, &matrix, Grouping::ByDestination).utilization;
        assert!(of.weights <= of.bound * 1.03, "{of:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn never_worse_than_by_capacity_and_never_below_the_bound(
        below in prop::collection::vec(prop_oneof![4 => Just(100_u64), 1 => Just(0), 1 => Just(40)], 18),
        above in prop::collection::vec(prop_oneof![4 => Just(100_u64), 1 => Just(0), 1 => Just(40)], 18),
        demands in prop::collection::vec((0..6_u32, 1..6_u32, 0_u64..300), 0..24),
        loads in prop::collection::vec((0..PODS, 0..PLANES, 0_u64..90, 0_u64..90), 0..4),
        merged in any::<bool>(),
    ) {
        let problem = fabric(&below, &above);
        let is_alive = |pod: u32, plane: u32| {
            let begin = ((pod * PLANES + plane) * CORES) as usize;
            above[begin..][..CORES as usize].iter().any(|gbps| *gbps > 0)
        };
        let loads = loads.into_iter().filter(|(pod, plane, ..)| is_alive(*pod, *plane));
        let matrix = Matrix {
            demands: demands.into_iter().map(|(from, by, gbps)| demand(from, (from + by) % 6, gbps)).collect(),
            background: Vec::new(),
            above: loads.map(|(pod, plane, up, down)| BackgroundAbove {
                spine: spine(pod, plane),
                up_bps: up * GBPS,
                down_bps: down * GBPS,
            }).collect(),
        };
        let any_above = above.iter().any(|gbps| *gbps > 0);
        prop_assume!(any_above || matrix.above.is_empty());
        let grouping = if merged { Grouping::ByCapacity } else { Grouping::ByDestination };
        let solution = solved(&problem, &matrix, grouping);
        let fabric = Fabric::new(&problem);
        for (leaf, source) in solution.leaves.iter().zip(fabric.leaves()) {
            let plain = fabric.leaf(source, Limits::default()).unwrap();
            for (to, group) in leaf.destinations() {
                // Whatever leads there without a demand leads there with one.
                let (row, plain) = (leaf.weights(group), plain.weights(plain.group_of(to).unwrap()));
                prop_assert_eq!(row.parts > 0, plain.parts > 0);
            }
        }
    }
}
