//! Weights for traffic matrices that can be worked out by hand, and laws on random fabrics.

use proptest::prelude::*;

use super::*;
use crate::check;
use crate::problem::{Link, Switch};

mod pods;

const GBPS: u64 = 1_000_000_000;

/// Leaves 0.., spines 100.., from the capacities of the links of each leaf and spine in Gb/s; 0 for a dead one.
fn problem(spines: u32, cells: &[Vec<u64>]) -> Problem {
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let leaves = cells.len() as u32 / spines;
    let mut switches: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
    switches.extend((0..spines).map(|id| switch(100 + id, 1)));
    let mut links = Vec::new();
    for (cell, capacities) in (0..).zip(cells) {
        for gbps in capacities {
            links.push(Link {
                id: LinkId(links.len() as u32),
                ends: (SwitchId(cell / spines), SwitchId(100 + cell % spines)),
                capacity_bps: (gbps * GBPS).max(1),
                alive: *gbps > 0,
            });
        }
    }
    Problem::new(switches, links).unwrap()
}

fn even(leaves: u32, spines: u32) -> Problem {
    problem(spines, &vec![vec![100]; (leaves * spines) as usize])
}

fn demand(from: u32, to: u32, gbps: u64) -> Demand {
    Demand {
        from: SwitchId(from),
        to: SwitchId(to),
        bps: gbps * GBPS,
    }
}

fn background(leaf: u32, spine: u32, up: u64, down: u64) -> Background {
    Background {
        leaf: SwitchId(leaf),
        spine: SwitchId(100 + spine),
        up_bps: up * GBPS,
        down_bps: down * GBPS,
    }
}

fn all_to_all(leaves: u32, gbps: u64) -> Matrix {
    let pairs = (0..leaves).flat_map(|from| (0..leaves).map(move |to| (from, to)));
    let demands = pairs.filter(|(from, to)| from != to);
    Matrix {
        demands: demands.map(|(from, to)| demand(from, to, gbps)).collect(),
        background: Vec::new(),
        above: Vec::new(),
    }
}

/// Solves, and counts again.
fn solved(problem: &Problem, matrix: &Matrix, grouping: Grouping) -> Solution {
    let solution = solve(problem, matrix, Limits::default(), grouping).unwrap();
    let counted = check::utilization(problem, matrix, &solution.leaves).unwrap();
    let of = solution.utilization;
    assert!((counted.utilization - of.weights).abs() <= 1e-9 * of.weights);
    assert!(of.weights <= of.capacity_weights);
    assert!(of.shares <= of.capacity_shares);
    assert!(of.bound <= of.shares);
    assert!(of.bound <= counted.utilization * (1.0 + 1e-9));
    solution
}

fn by_capacity(problem: &Problem) -> Vec<LeafSolution> {
    let fabric = Fabric::new(problem);
    let leaves = fabric.leaves();
    leaves
        .filter_map(|leaf| fabric.leaf(leaf, Limits::default()))
        .collect()
}

fn weights(solution: &Solution, from: u32, to: u32) -> Vec<u16> {
    let leaf = &solution.leaves[from as usize];
    let group = leaf.group_of(SwitchId(to)).unwrap();
    leaf.weights(group).weights.to_vec()
}

#[test]
fn an_even_matrix_on_an_even_fabric_keeps_the_weights_by_capacity() {
    let problem = even(5, 4);
    for grouping in [Grouping::ByDestination, Grouping::ByCapacity] {
        let solution = solved(&problem, &all_to_all(5, 25), grouping);
        assert_eq!(solution.leaves, by_capacity(&problem));
        assert_eq!(solution.groups, [1; 5]);
        let of = solution.utilization;
        assert_eq!((of.shares, of.weights), (0.25, 0.25));
        assert!(of.bound > 0.249_999);
    }
}

#[test]
fn no_demand_keeps_the_weights_by_capacity() {
    let problem = even(3, 2);
    let loaded = Matrix {
        demands: vec![demand(0, 1, 0)],
        background: vec![background(0, 0, 70, 0)],
        above: Vec::new(),
    };
    for matrix in [Matrix::default(), loaded] {
        let solution = solved(&problem, &matrix, Grouping::ByDestination);
        assert_eq!(solution.leaves, by_capacity(&problem));
        assert_eq!(solution.unreachable, []);
    }
}

#[test]
fn a_demand_goes_around_a_link_that_is_loaded_where_it_comes_down() {
    let problem = even(3, 2);
    let matrix = Matrix {
        demands: vec![demand(0, 1, 100), demand(0, 2, 20)],
        background: vec![background(1, 0, 0, 90)],
        above: Vec::new(),
    };
    let solution = solved(&problem, &matrix, Grouping::ByDestination);
    // The links down to leaf 1 carry 190 of 200 Gb/s; spine 0 takes 5 of the 100.
    assert!(solution.utilization.weights < 0.96);
    assert!(solution.utilization.bound > 0.949);
    let shares = solution.shares.of(SwitchId(0), SwitchId(1)).unwrap();
    assert!((shares[0] - 0.05).abs() < 0.01, "{shares:?}");
    // Leaf 2 gets more over spine 0, and pairs without a demand stay as they are.
    let shares = solution.shares.of(SwitchId(0), SwitchId(2)).unwrap();
    assert!(shares[0] > 0.5);
    assert_eq!(weights(&solution, 2, 1), [1, 1]);
    assert_eq!(
        solution.shares.of(SwitchId(2), SwitchId(1)).unwrap(),
        [0.5, 0.5]
    );
    assert_eq!(solution.shares.of(SwitchId(2), SwitchId(2)), None);
    assert_eq!(solution.shares.of(SwitchId(2), SwitchId(100)), None);
}

#[test]
fn destinations_of_one_capacity_share_a_group_where_that_is_asked_for() {
    let problem = even(4, 2);
    let mut matrix = all_to_all(4, 20);
    matrix.background.push(background(0, 0, 60, 0));
    let merged = solved(&problem, &matrix, Grouping::ByCapacity);
    assert_eq!(merged.groups, [1; 4]);
    assert_eq!(merged.leaves[0].groups(), 1);
    // Leaf 0 sends 60 and has 60 on one link already: all of it goes over the other one.
    assert!(merged.utilization.weights < 0.63);
    assert!(merged.utilization.capacity_weights > 0.89);
}

#[test]
fn parallel_links_divide_the_share_of_their_spine() {
    // Two links of 100 and 300 Gb/s lead from leaf 0 to spine 0, one of 400 to spine 1.
    let cells = [vec![100, 300], vec![400], vec![400], vec![400]];
    let problem = problem(2, &cells);
    let matrix = Matrix {
        demands: vec![demand(0, 1, 400)],
        background: vec![background(0, 1, 200, 0)],
        above: Vec::new(),
    };
    let solution = solved(&problem, &matrix, Grouping::ByDestination);
    let shares = solution.shares.of(SwitchId(0), SwitchId(1)).unwrap();
    assert!((shares[1] / shares[0] - 3.0).abs() < 1e-9);
    assert!((shares[2] - 0.25).abs() < 0.01, "{shares:?}");
    assert!(solution.utilization.weights < 0.76);
}

#[test]
fn pairs_that_nothing_joins_are_named() {
    let problem = problem(
        2,
        &[vec![100], vec![0], vec![0], vec![100], vec![100], vec![100]],
    );
    let mut matrix = all_to_all(3, 50);
    matrix.demands.reverse();
    let solution = solved(&problem, &matrix, Grouping::ByDestination);
    let pair = |a, b| (SwitchId(a), SwitchId(b));
    assert_eq!(solution.unreachable, [pair(0, 1), pair(1, 0)]);
    assert_eq!(weights(&solution, 0, 1), [0, 0]);
    assert_eq!(
        solution.shares.of(SwitchId(0), SwitchId(1)).unwrap(),
        [0.0, 0.0]
    );
}

#[test]
fn what_is_not_there_is_named() {
    let problem = problem(2, &[vec![100], vec![0], vec![100], vec![100]]);
    let refused = |demands: &[Demand], background: &[Background]| {
        let matrix = Matrix {
            demands: demands.to_vec(),
            background: background.to_vec(),
            above: Vec::new(),
        };
        solve(
            &problem,
            &matrix,
            Limits::default(),
            Grouping::ByDestination,
        )
        .unwrap_err()
    };
    let (leaf, spine) = (SwitchId(0), SwitchId(101));
    for (error, expected) in [
        (
            refused(&[demand(0, 100, 1)], &[]),
            TrafficError::NotALeaf(SwitchId(100)),
        ),
        (
            refused(&[demand(1, 1, 1)], &[]),
            TrafficError::ToItself(SwitchId(1)),
        ),
        (
            refused(&[], &[background(7, 0, 1, 1)]),
            TrafficError::NotALeaf(SwitchId(7)),
        ),
        (
            refused(&[], &[background(0, 1, 1, 1)]),
            TrafficError::NoLink { leaf, spine },
        ),
    ] {
        assert_eq!(error, expected);
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn the_largest_numbers_are_weighed() {
    let link = |id, leaf, spine| Link {
        id: LinkId(id),
        ends: (SwitchId(leaf), SwitchId(spine)),
        capacity_bps: if id == 3 { 1 } else { u64::MAX },
        alive: true,
    };
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let problem = Problem::new(
        vec![switch(0, 0), switch(1, 0), switch(100, 1), switch(101, 1)],
        vec![
            link(0, 0, 100),
            link(1, 0, 101),
            link(2, 1, 100),
            link(3, 1, 101),
        ],
    )
    .unwrap();
    let most = Demand {
        bps: u64::MAX,
        ..demand(0, 1, 0)
    };
    let matrix = Matrix {
        demands: vec![most; 3],
        background: vec![Background {
            up_bps: u64::MAX,
            ..background(0, 1, 0, 0)
        }],
        above: Vec::new(),
    };
    let solution = solved(&problem, &matrix, Grouping::ByDestination);
    assert!(solution.utilization.weights.is_finite());
    assert_eq!(weights(&solution, 0, 1), [1, 0]);
}

#[test]
fn a_changed_weight_is_seen_by_the_recount() {
    let problem = even(3, 2);
    let mut matrix = all_to_all(3, 40);
    matrix.background.push(background(0, 0, 50, 0));
    let mut solution = solved(&problem, &matrix, Grouping::ByDestination);
    solution.leaves[0].weights_mut()[0] += 1;
    assert!(check::utilization(&problem, &matrix, &solution.leaves).is_err());
    solution.leaves.pop();
    assert!(check::utilization(&problem, &matrix, &solution.leaves).is_err());
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

#[test]
fn weights_of_small_fabrics_are_within_three_percent_of_the_bound() {
    let mut random = Random(99);
    let mut below = |bound| random.below(bound);
    for _ in 0..40 {
        let (leaves, spines) = (3 + below(8) as u32, 2 + below(5) as u32);
        let dead = below(50);
        let cells = (0..leaves * spines).map(|_| match below(100) < dead {
            true => vec![0],
            false => vec![100 * (1 + below(3))],
        });
        let problem = problem(spines, &cells.collect::<Vec<_>>());
        let mut matrix = all_to_all(leaves, 0);
        for demand in &mut matrix.demands {
            demand.bps = below(300) * GBPS;
        }
        let of = solved(&problem, &matrix, Grouping::ByDestination).utilization;
        assert!(of.weights <= of.bound * 1.03, "{of:?}");
    }
}

const LEAVES: u32 = 5;
const SPINES: u32 = 3;

fn fabric() -> impl Strategy<Value = Problem> {
    let bundle = prop_oneof![
        5 => Just(vec![100]),
        2 => Just(vec![0]),
        1 => Just(vec![25]),
        1 => Just(vec![100, 100]),
        1 => Just(vec![0, 40, 100]),
        1 => Just(Vec::new()),
    ];
    let cells = prop::collection::vec(bundle, (LEAVES * SPINES) as usize);
    cells.prop_map(|cells| problem(SPINES, &cells))
}

/// Demands, and loads of links of which the dead ones are left out.
fn matrix() -> impl Strategy<Value = Matrix> {
    let pair = (0..LEAVES, 1..LEAVES, 0_u64..300);
    let pair = pair.prop_map(|(from, by, gbps)| demand(from, (from + by) % LEAVES, gbps));
    let load = (0..LEAVES, 0..SPINES, 0_u64..90, 0_u64..90);
    let load = load.prop_map(|(leaf, spine, up, down)| background(leaf, spine, up, down));
    let demands = prop::collection::vec(pair, 0..24);
    (demands, prop::collection::vec(load, 0..6)).prop_map(|(demands, background)| Matrix {
        demands,
        background,
        above: Vec::new(),
    })
}

fn alive(problem: &Problem, mut matrix: Matrix) -> Matrix {
    matrix.background.retain(|it| {
        let mut links = problem.links();
        links.any(|link| link.alive && link.ends == (it.leaf, it.spine))
    });
    matrix
}

/// How many different rows of live capacity leaves have.
fn capacities(problem: &Problem) -> usize {
    let rows = problem.leaves().map(|leaf| {
        let mut row: BTreeMap<SwitchId, u64> = BTreeMap::new();
        for link in problem
            .links()
            .filter(|link| link.alive && link.ends.0 == leaf)
        {
            *row.entry(link.ends.1).or_default() += link.capacity_bps;
        }
        row
    });
    rows.collect::<std::collections::BTreeSet<_>>().len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn never_worse_than_by_capacity_and_never_below_the_bound(
        problem in fabric(),
        matrix in matrix(),
        merged in any::<bool>(),
        parts_max in prop_oneof![Just(None), (1_u32..=256).prop_map(Some)],
    ) {
        let matrix = alive(&problem, matrix);
        let limits = parts_max.map_or_else(Limits::default, Limits::new);
        let grouping = if merged { Grouping::ByCapacity } else { Grouping::ByDestination };
        let solution = solve(&problem, &matrix, limits, grouping).unwrap();
        let counted = check::utilization(&problem, &matrix, &solution.leaves).unwrap();
        let of = solution.utilization;
        prop_assert!((counted.utilization - of.weights).abs() <= 1e-9 * of.weights);
        prop_assert!(of.weights <= of.capacity_weights);
        prop_assert!(of.shares <= of.capacity_shares);
        prop_assert!(of.bound <= of.shares && of.bound <= of.weights * (1.0 + 1e-9));
        let fabric = Fabric::new(&problem);
        for (leaf, source) in solution.leaves.iter().zip(fabric.leaves()) {
            let plain = fabric.leaf(source, limits).unwrap();
            for (to, group) in leaf.destinations() {
                let row = leaf.weights(group);
                prop_assert!(row.parts <= limits.parts_max(row.weights.len()));
                let is_demanded = matrix.demands.iter().any(|it| (it.from, it.to) == (source, to) && it.bps > 0);
                if grouping == Grouping::ByDestination && !is_demanded {
                    prop_assert_eq!(row.weights, plain.weights(plain.group_of(to).unwrap()).weights);
                }
            }
            if grouping == Grouping::ByCapacity {
                prop_assert!(groups(leaf) <= capacities(&problem));
            }
        }
    }

    #[test]
    fn order_does_not_matter(problem in fabric(), matrix in matrix(), turn in 0_usize..30) {
        let matrix = alive(&problem, matrix);
        let one = solved(&problem, &matrix, Grouping::ByDestination);
        let switches = problem.switches().map(|(id, tier)| Switch { id, tier });
        let mut switches: Vec<Switch> = switches.collect();
        let mut links: Vec<Link> = problem.links().copied().collect();
        switches.reverse();
        let middle = turn % links.len().max(1);
        links.rotate_left(middle);
        links.iter_mut().for_each(|link| link.ends = (link.ends.1, link.ends.0));
        let mut turned = matrix;
        turned.background.reverse();
        let middle = turn % turned.demands.len().max(1);
        turned.demands.rotate_left(middle);
        let problem = Problem::new(switches, links).unwrap();
        let other = solved(&problem, &turned, Grouping::ByDestination);
        prop_assert_eq!(one.leaves, other.leaves);
        prop_assert_eq!(one.utilization, other.utilization);
        prop_assert_eq!(one.unreachable, other.unreachable);
    }
}
