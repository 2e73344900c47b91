//! Laws over whole fabrics: of any capacity, any width, two tiers and three, and against the plain way to do the same.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use proptest::prelude::*;
use proptest::sample::{Index, select};

use weft_weights::check::{Checker, check};
use weft_weights::explain::Exclusion;
use weft_weights::fabric::Fabric;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::spread::{Solution, solve};

mod naive;
mod together;

use naive::Naive;

fn switch(id: u32, tier: u8) -> Switch {
    Switch {
        id: SwitchId(id),
        tier,
    }
}

fn link(id: u32, a: u32, b: u32, capacity_bps: u64) -> Link {
    Link {
        id: LinkId(id),
        ends: (SwitchId(a), SwitchId(b)),
        capacity_bps,
        alive: true,
    }
}

/// Solves all pairs, checks them together and leaf by leaf.
fn solved(switches: Vec<Switch>, links: Vec<Link>, limits: Limits) -> Solution {
    let problem = Problem::new(switches, links).unwrap();
    let fabric = Fabric::new(&problem);
    let checker = Checker::new(&problem);
    for leaf in fabric.leaves() {
        let solution = fabric.leaf(leaf, limits).unwrap();
        assert_eq!(checker.check_leaf(limits, &solution), Ok(()));
    }
    let solution = solve(&problem, limits);
    assert_eq!(check(&problem, limits, &solution), Ok(()));
    solution
}

/// Two leaves that are joined by so many links, all over one spine or each over its own.
fn two_leaves(links: u32, spines: u32, capacity_bps: u64) -> Solution {
    let mut switches = vec![switch(1, 0), switch(2, 0)];
    switches.extend((0..spines).map(|spine| switch(10 + spine, 1)));
    let all = (0..links).flat_map(|id| {
        let spine = 10 + id % spines;
        [
            link(2 * id, 1, spine, capacity_bps),
            link(2 * id + 1, 2, spine, capacity_bps),
        ]
    });
    solved(switches, all.collect(), Limits::default())
}

#[test]
fn of_256_equal_uplinks_each_gets_a_part() {
    for uplinks in [255, 256, 257, 1_024] {
        let solution = two_leaves(uplinks, uplinks, 100_000_000_000);
        let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
        assert_eq!(group.excluded, []);
        assert_eq!(group.members.len(), uplinks as usize);
        assert!(group.members.iter().all(|member| member.weight == 1));
    }
}

#[test]
fn parallel_links_of_the_largest_capacity_are_spread_over() {
    for links in [1, 2, 3, 255, 1_024] {
        let solution = two_leaves(links, 1, u64::MAX);
        let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
        assert_eq!(group.members.len(), links as usize);
        assert!(group.members.iter().all(|member| member.weight == 1));
        let reason = group.members[0].reason;
        assert_eq!(reason.end_to_end_bps, u64::MAX);
    }
}

#[test]
fn wide_links_over_a_narrow_way_keep_their_proportions() {
    // Three parallel links of the largest capacity lead to one link of 3 b/s, and one to a link of 1 b/s.
    let switches = vec![switch(1, 0), switch(2, 0), switch(10, 1), switch(11, 1)];
    let links = vec![
        link(0, 1, 10, u64::MAX),
        link(1, 1, 10, u64::MAX),
        link(2, 1, 10, u64::MAX),
        link(3, 1, 11, u64::MAX),
        link(4, 2, 10, 3),
        link(5, 2, 11, 1),
    ];
    let solution = solved(switches, links, Limits::default());
    let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
    let weights: Vec<u32> = group.members.iter().map(|member| member.weight).collect();
    assert_eq!(weights, [1, 1, 1, 1]);
}

#[test]
fn ten_thousand_leaves_without_links_are_one_empty_group_each() {
    let switches = (0..10_000).map(|id| switch(id, 0)).collect();
    let problem = Problem::new(switches, Vec::new()).unwrap();
    let fabric = Fabric::new(&problem);
    let checker = Checker::new(&problem);
    let leaf = fabric.leaf(SwitchId(7), Limits::default()).unwrap();
    assert_eq!(leaf.groups(), 1);
    assert_eq!(leaf.weights(0).parts, 0);
    assert_eq!(checker.check_leaf(Limits::default(), &leaf), Ok(()));
}

/// Leaves 0.., spines 100.., super-spines 200..; any links between neighbouring tiers, of any of the capacities.
fn fabric(capacity: BoxedStrategy<u64>) -> impl Strategy<Value = (Vec<Switch>, Vec<Link>)> {
    let cable = (
        any::<Index>(),
        any::<Index>(),
        any::<bool>(),
        capacity,
        0..5,
        1_usize..4,
    );
    let cables = prop::collection::vec(cable, 1..40);
    (2_u32..5, 1_u32..5, 0_u32..3, cables).prop_map(|(leaves, spines, supers, cables)| {
        let mut switches: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
        switches.extend((0..spines).map(|id| switch(100 + id, 1)));
        switches.extend((0..supers).map(|id| switch(200 + id, 2)));
        let mut links = Vec::new();
        for (low, high, upper, capacity_bps, dead, parallel) in cables {
            let pick = |index: Index, from: u32, of: u32| {
                from + u32::try_from(index.index(of as usize)).unwrap()
            };
            let ends = if upper && supers > 0 {
                (pick(low, 100, spines), pick(high, 200, supers))
            } else {
                (pick(low, 0, leaves), pick(high, 100, spines))
            };
            for _ in 0..parallel {
                let id = u32::try_from(links.len()).unwrap();
                links.push(Link {
                    alive: dead != 0,
                    ..link(id, ends.0, ends.1, capacity_bps)
                });
            }
        }
        (switches, links)
    })
}

fn extreme() -> BoxedStrategy<u64> {
    prop_oneof![
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1_u64),
        Just(1_u64 << 63),
        1_u64..1_000,
        1_u64..=u64::MAX,
    ]
    .boxed()
}

fn ordinary() -> BoxedStrategy<u64> {
    select(vec![1, 10, 25, 40, 100, 200, 400, 800, 333])
        .prop_map(|gbps| gbps * 1_000_000_000)
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_capacity_is_spread_over_and_passes((switches, links) in fabric(extreme()), parts_max in 1_u32..=256) {
        solved(switches.clone(), links.clone(), Limits::new(parts_max));
        solved(switches, links, Limits::default());
    }

    #[test]
    fn bundles_of_up_to_1024_links_of_any_capacity_are_spread_over(
        up in prop::collection::vec((0_u32..3, extreme()), 1..1_024),
        down in prop::collection::vec((0_u32..3, extreme()), 1..64),
        three_tiers in any::<bool>(),
    ) {
        // Leaf 1 under spines 10 to 12, leaf 2 under the same, or under 20 to 22 beyond super-spines 30 to 32.
        let mut switches = vec![switch(1, 0), switch(2, 0)];
        switches.extend((0..3).flat_map(|at| [switch(10 + at, 1), switch(20 + at, 1), switch(30 + at, 2)]));
        let far = if three_tiers { 20 } else { 10 };
        let mut links: Vec<Link> = Vec::new();
        let mut cable = |a, b, capacity_bps| links.push(link(u32::try_from(links.len()).unwrap(), a, b, capacity_bps));
        for (spine, capacity_bps) in up {
            cable(1, 10 + spine, capacity_bps);
            cable(10 + spine, 30 + spine, capacity_bps);
            cable(30 + spine, 20 + spine, u64::MAX);
        }
        for (spine, capacity_bps) in down {
            cable(2, far + spine, capacity_bps);
        }
        solved(switches, links, Limits::default());
    }

    #[test]
    fn a_usable_link_is_left_out_only_below_one_part((switches, links) in fabric(extreme())) {
        let solution = solved(switches, links, Limits::default());
        for (_, group) in solution.groups() {
            let usable = group.members.len() + group.excluded.iter().filter(|excluded| {
                matches!(excluded.reason, Exclusion::TooSmall { .. })
            }).count();
            prop_assert!(group.parts <= Limits::default().parts_max(usable));
            for excluded in &group.excluded {
                if let Exclusion::TooSmall { end_to_end_bps, .. } = excluded.reason {
                    let kept = group.members.iter().map(|member| member.reason.end_to_end_bps);
                    prop_assert!(kept.min() >= Some(end_to_end_bps));
                }
            }
        }
    }

    #[test]
    fn no_pair_is_overloaded_more_than_by_trying_every_sum(
        (switches, links) in fabric(ordinary()),
        parts_max in 1_u32..=256,
    ) {
        let limits = Limits::new(parts_max);
        let naive = Naive::new(&Problem::new(switches.clone(), links.clone()).unwrap()).solve(limits);
        let solution = solved(switches, links, limits);
        prop_assert_eq!(solution.groups().count(), naive.len());
        for (pair, group) in solution.groups() {
            let plain = &naive[&pair];
            let members = group.members.iter().map(|member| &member.link);
            prop_assert!(members.eq(plain.weights.keys()));
            prop_assert!(group.delta_ppm <= plain.delta_ppm);
        }
    }

    #[test]
    fn a_group_is_overloaded_no_more_than_by_trying_every_sum(
        amounts in prop::collection::vec(1_u64..2_000_000_000_000, 1..64),
        parts_max in 1_u32..=256,
    ) {
        // Each spine carries another amount to leaf 2.
        let mut switches = vec![switch(1, 0), switch(2, 0)];
        let mut links = Vec::new();
        for (amount, spine) in amounts.iter().zip(0..) {
            switches.push(switch(10 + spine, 1));
            links.push(link(spine, 1, 10 + spine, u64::MAX));
            links.push(link(1_000 + spine, 2, 10 + spine, *amount));
        }
        let limits = Limits::new(parts_max);
        let solution = solved(switches, links, limits);
        let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
        let shares: Vec<(LinkId, u128)> = (0..).map(LinkId).zip(amounts.into_iter().map(u128::from)).collect();
        let plain = naive::quantize(&shares, limits);
        prop_assert!(group.members.iter().map(|member| &member.link).eq(plain.weights.keys()));
        prop_assert!(group.delta_ppm <= plain.delta_ppm);
    }

    #[test]
    fn order_and_numbers_of_ends_do_not_matter((mut switches, mut links) in fabric(extreme()), turn in any::<Index>()) {
        let one = solved(switches.clone(), links.clone(), Limits::default());
        switches.reverse();
        let middle = turn.index(links.len());
        links.rotate_left(middle);
        links.iter_mut().for_each(|link| link.ends = (link.ends.1, link.ends.0));
        prop_assert_eq!(one, solved(switches, links, Limits::default()));
    }

    #[test]
    fn destinations_of_one_group_are_explained_alike((switches, links) in fabric(ordinary())) {
        let problem = Problem::new(switches, links).unwrap();
        let fabric = Fabric::new(&problem);
        let all = solve(&problem, Limits::default());
        for source in fabric.leaves() {
            let leaf = fabric.leaf(source, Limits::default()).unwrap();
            for (destination, group) in leaf.destinations() {
                prop_assert_eq!(all.group(source, destination), Some(&fabric.explain(&leaf, group)));
                prop_assert_eq!(leaf.group_of(destination), Some(group));
            }
        }
    }

    #[test]
    fn the_plain_check_sees_the_same_overload((switches, links) in fabric(ordinary())) {
        let naive = Naive::new(&Problem::new(switches, links).unwrap());
        let groups = naive.solve(Limits::default());
        let worst = groups.values().map(|group| group.delta_ppm).max().unwrap_or(0);
        prop_assert!((naive.check(&groups) * 1e6 - worst as f64).abs() <= 2.0);
    }
}
