//! Laws of tables: of any fabric, counted anew. It refuses to know how groups are rounded together.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use weft_weights::check::{self, Wrong};
use weft_weights::fabric::Fabric;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::together::{Table, Tables};

use super::{extreme, fabric, link, ordinary, switch};

/// So many leaves and spines with a link of 100 Gb/s each: link 100 x leaf + spine. Those named are dead.
fn mesh(leaves: u32, spines: u32, dead: &[u32]) -> (Vec<Switch>, Vec<Link>) {
    let mut switches: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
    switches.extend((0..spines).map(|id| switch(1_000 + id, 1)));
    let all = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
    let cable = all.map(|(leaf, spine)| {
        let id = 100 * leaf + spine;
        Link {
            alive: !dead.contains(&id),
            ..link(id, leaf, 1_000 + spine, 100_000_000_000)
        }
    });
    (switches, cable.collect())
}

/// Rounds together, and counts anew that what the tables say is so.
fn tables(problem: &Problem, limits: Limits, entries: u32) -> Tables {
    let fabric = Fabric::new(problem);
    let tables = fabric.together(limits, Table::new(entries)).unwrap();
    counted(problem, &tables, entries);
    tables
}

fn counted(problem: &Problem, tables: &Tables, entries: u32) {
    counted_in(problem, tables, Table::new(entries));
}

fn counted_in(problem: &Problem, tables: &Tables, table: Table) {
    let fabric = Fabric::new(problem);
    let links = check::links(problem, &tables.leaves).unwrap();
    assert!((links.loss - tables.loss).abs() <= 1e-6 * (1.0 + links.loss));
    for ((leaf, used), counted) in tables.leaves.iter().zip(&tables.used).zip(&links.leaves) {
        assert!(counted.entries <= u64::from(table.entries_max()));
        assert!(counted.groups <= u64::from(table.groups_max()));
        assert!(counted.groups <= u64::from(used.groups));
        assert_eq!(counted.entries, u64::from(used.entries));
        assert_eq!(counted.left_out, used.left_out);
        assert_eq!(counted.left_out, fabric.left_out(leaf).count() as u64);
    }
}

/// By destination the uplinks that lead there: with a live link on to it, straight down. For two tiers.
fn leading(problem: &Problem, source: SwitchId) -> BTreeMap<SwitchId, BTreeSet<LinkId>> {
    let live: Vec<&Link> = problem.links().filter(|link| link.alive).collect();
    let far = |link: &Link, near| match link.ends {
        (a, b) if a == near => Some(b),
        (a, b) if b == near => Some(a),
        _ => None,
    };
    let others = problem.leaves().filter(|leaf| *leaf != source);
    let of = |to: SwitchId| {
        let below: BTreeSet<SwitchId> = live.iter().filter_map(|link| far(link, to)).collect();
        let uplinks = live
            .iter()
            .filter(|link| far(link, source).is_some_and(|via| below.contains(&via)));
        (to, uplinks.map(|link| link.id).collect())
    };
    others.map(of).collect()
}

fn parts(leaf: &LeafSolution, to: u32) -> Vec<u16> {
    leaf.weights(leaf.group_of(SwitchId(to)).unwrap())
        .weights
        .to_vec()
}

#[test]
fn a_healthy_fabric_needs_one_exact_group_for_each_leaf() {
    let (switches, links) = mesh(8, 4, &[]);
    let problem = Problem::new(switches, links).unwrap();
    let tables = tables(&problem, Limits::default(), 4);
    assert_eq!(tables.loss, 0.0);
    for (leaf, used) in tables.leaves.iter().zip(&tables.used) {
        assert_eq!(
            (used.entries, used.groups, used.merged, used.left_out),
            (4, 1, 0, 0)
        );
        assert_eq!(leaf.groups(), 1);
    }
    assert_eq!(parts(&tables.leaves[0], 5), [1, 1, 1, 1]);
}

#[test]
fn half_a_table_is_divided_so_that_every_uplink_is_used() {
    // Every leaf but the first two has lost another link: a group for each destination, of half the members it wants.
    let dead: Vec<u32> = (2..10).map(|leaf| 100 * leaf + leaf - 2).collect();
    let (switches, links) = mesh(10, 8, &dead);
    let problem = Problem::new(switches, links).unwrap();
    let together = tables(&problem, Limits::default(), 36);
    let alone = Fabric::new(&problem)
        .alone(Limits::default(), Table::new(36))
        .unwrap();
    counted(&problem, &alone, 36);
    // Alone, each group leaves out its last members, and they are the same in all groups.
    assert!(alone.loss > 0.5, "{}", alone.loss);
    assert!(together.loss < 0.25, "{}", together.loss);
    assert!(together.used.iter().all(|used| used.left_out > 0));
}

#[test]
fn more_groups_than_entries_are_merged_over_what_they_have_in_common() {
    // Leaf 0 sees three kinds of destinations: without spine 0, without spine 1, and with all.
    let (switches, links) = mesh(4, 4, &[100, 201]);
    let problem = Problem::new(switches, links).unwrap();
    let tables = tables(&problem, Limits::default(), 2);
    let used = tables.used[0];
    assert_eq!((used.groups, used.merged), (2, 1));
    assert!(used.entries <= 2 && used.left_out > 0);
}

#[test]
fn a_table_that_cannot_hold_a_group_for_each_destination_is_refused() {
    // Leaf 1 is reached over spine 0 alone and leaf 2 over spine 1 alone.
    let (switches, links) = mesh(3, 2, &[101, 200]);
    let problem = Problem::new(switches, links).unwrap();
    let refused = Fabric::new(&problem).together(Limits::default(), Table::new(1));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "switch 0 needs 2 groups of at least a member each, and its table has 1 entries"
    );
}

#[test]
fn few_groups_use_what_all_their_destinations_have() {
    // Every leaf but the first two has lost another link: leaf 0 needs a group for each destination.
    let dead: Vec<u32> = (2..10).map(|leaf| 100 * leaf + leaf - 2).collect();
    let (switches, links) = mesh(10, 8, &dead);
    let problem = Problem::new(switches, links).unwrap();
    let together = |groups: u32| {
        let table = Table::new(u32::MAX).with_groups(groups);
        let tables = Fabric::new(&problem).together(Limits::default(), table);
        let tables = tables.unwrap();
        counted_in(&problem, &tables, table);
        tables
    };
    let any = tables(&problem, Limits::default(), u32::MAX);
    assert_eq!((any.used[0].groups, any.used[0].merged), (9, 0));
    let counted = check::links(&problem, &any.leaves).unwrap();
    assert_eq!(counted.leaves[0].groups, 9);
    assert_eq!(together(9), any, "as many as are needed");
    let few = together(4);
    let used = few.used[0];
    assert_eq!((used.groups, used.merged), (4, 5));
    assert!(used.left_out > 0 && few.loss < 0.5, "{}", few.loss);
}

#[test]
fn very_many_groups_are_merged_with_those_next_to_them() {
    // Every leaf but the first has a slow link, each of another speed.
    let (switches, mut links) = mesh(141, 4, &[]);
    for leaf in 1..141_u32 {
        let slow = LinkId(100 * leaf + leaf % 4);
        let slow = links.iter_mut().find(|link| link.id == slow);
        slow.unwrap().capacity_bps = 50_000_000_000 + 250_000_000 * u64::from(leaf);
    }
    let problem = Problem::new(switches, links).unwrap();
    let table = Table::new(u32::MAX).with_groups(8);
    let tables = Fabric::new(&problem).together(Limits::default(), table);
    let tables = tables.unwrap();
    counted_in(&problem, &tables, table);
    let used = tables.used[0];
    assert_eq!((used.groups, used.merged, used.left_out), (8, 132, 0));
    assert!(tables.loss < 0.5, "{}", tables.loss);
}

#[test]
fn groups_without_an_uplink_in_common_are_refused_where_there_is_room_for_one() {
    let (switches, links) = mesh(3, 2, &[101, 200]);
    let problem = Problem::new(switches, links).unwrap();
    let table = Table::new(64).with_groups(1);
    let refused = Fabric::new(&problem).together(Limits::default(), table);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "switch 0 needs 2 groups, and its table has room for 1"
    );
}

#[test]
fn a_table_that_is_too_small_costs_no_other_leaf_its_weights() {
    // Leaf 0 reaches leaf 1 over spine 2 alone and leaf 2 over spine 3 alone. Leaf 3 reaches leaf 0 over spines 0 and 1, and leaf 4
    // over spine 1.
    let (switches, links) = mesh(5, 4, &[100, 101, 103, 200, 201, 202, 302, 303, 400]);
    let problem = Problem::new(switches, links).unwrap();
    let tables = Fabric::new(&problem).together_within(&|leaf| {
        let any = Table::new(u32::MAX);
        let table = match leaf {
            SwitchId(0 | 3) => any.with_groups(1),
            _ => any,
        };
        (Limits::default(), table)
    });
    let [too_small] = tables.too_small[..] else {
        panic!("{:?}", tables.too_small)
    };
    assert_eq!(too_small.leaf, SwitchId(0));
    let used = tables.used[3];
    assert_eq!((used.groups, used.merged), (1, 1));
    let counted = check::links(&problem, &tables.leaves).unwrap();
    assert_eq!(counted.leaves[3].groups, 1);
    assert_eq!(parts(&tables.leaves[3], 0), parts(&tables.leaves[3], 4));
}

#[test]
fn the_count_refuses_what_is_not_of_the_problem() {
    let (switches, links) = mesh(3, 2, &[]);
    let problem = Problem::new(switches.clone(), links).unwrap();
    let tables = tables(&problem, Limits::default(), 64);
    let missing = check::links(&problem, &tables.leaves[1..]).unwrap_err();
    assert_eq!(
        (missing.source, missing.wrong),
        (SwitchId(0), Wrong::Missing)
    );
    let (_, links) = mesh(3, 2, &[201]);
    let other = Problem::new(switches, links).unwrap();
    let dead = check::links(&other, &tables.leaves).unwrap_err();
    assert_eq!(dead.wrong, Wrong::DeadMember(LinkId(1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_worst_link_loses_no_more_than_with_each_group_alone(
        (switches, links) in fabric(extreme()),
        entries in 4_u32..400,
        parts_max in 1_u32..=256,
    ) {
        let problem = Problem::new(switches, links).unwrap();
        let fabric = Fabric::new(&problem);
        for limits in [Limits::default(), Limits::new(parts_max)] {
            let Ok(alone) = fabric.alone(limits, Table::new(entries)) else {
                continue;
            };
            counted(&problem, &alone, entries);
            let together = tables(&problem, limits, entries);
            prop_assert!(together.loss <= alone.loss);
            let links = check::links(&problem, &together.leaves).unwrap();
            let each = check::links(&problem, &alone.leaves).unwrap();
            prop_assert!(links.loss <= each.loss + 1e-9 * (1.0 + each.loss));
        }
    }

    #[test]
    fn without_a_limit_what_fits_is_exact((switches, links) in mesh_with_dead(3..12, 2..6)) {
        let problem = Problem::new(switches, links).unwrap();
        let tables = tables(&problem, Limits::default(), u32::MAX);
        prop_assert!(tables.loss < 1e-9);
        prop_assert!(tables.used.iter().all(|used| used.left_out == 0 && used.merged == 0));
    }

    #[test]
    fn every_live_member_that_is_left_out_is_told((switches, links) in mesh_with_dead(3..12, 2..9), entries in 11_u32..60) {
        let problem = Problem::new(switches, links).unwrap();
        let fabric = Fabric::new(&problem);
        let Ok(tables) = fabric.together(Limits::default(), Table::new(entries)) else {
            return Ok(());
        };
        for leaf in &tables.leaves {
            let mut without = Vec::new();
            for (to, uplinks) in leading(&problem, leaf.source()) {
                let weights = parts(leaf, to.0);
                let given = leaf.uplinks().iter().zip(weights).filter(|(_, weight)| *weight > 0);
                let given: BTreeSet<LinkId> = given.map(|(uplink, _)| uplink.link).collect();
                prop_assert!(given.is_subset(&uplinks));
                without.extend(uplinks.difference(&given).map(|link| (to, *link)));
            }
            let told: Vec<_> = fabric.left_out(leaf).map(|(to, uplink)| (to, uplink.link)).collect();
            prop_assert_eq!(told, without);
        }
    }

    #[test]
    fn any_number_of_groups_fits_or_is_refused((switches, links) in mesh_with_dead(3..12, 2..6), entries in 1_u32..12) {
        let problem = Problem::new(switches, links).unwrap();
        match Fabric::new(&problem).together(Limits::default(), Table::new(entries)) {
            Ok(tables) => counted(&problem, &tables, entries),
            Err(refused) => prop_assert!(refused.groups > entries as usize),
        }
    }

    #[test]
    fn few_groups_lose_a_bounded_part_and_use_no_dead_path(
        (switches, links) in mesh_with_dead(3..12, 2..9),
        entries in 11_u32..400,
        groups in 1_u32..6,
    ) {
        let spines = switches.iter().filter(|switch| switch.tier == 1).count();
        let problem = Problem::new(switches, links).unwrap();
        let fabric = Fabric::new(&problem);
        let table = Table::new(entries).with_groups(groups);
        match fabric.together(Limits::default(), table) {
            Ok(tables) => {
                counted_in(&problem, &tables, table);
                // At the worst a link carries all to a destination, of which each spine should carry a part.
                prop_assert!(tables.loss <= spines as f64 - 1.0 + 1e-6);
                let alone = fabric.alone(Limits::default(), table).unwrap();
                prop_assert!(tables.loss <= alone.loss);
            }
            Err(refused) => prop_assert!(refused.groups > groups as usize),
        }
    }

    #[test]
    fn tables_do_not_depend_on_the_order_of_the_problem(
        (mut switches, mut links) in fabric(ordinary()),
        turn in any::<Index>(),
        entries in 4_u32..100,
        groups in 1_u32..8,
    ) {
        let one = Problem::new(switches.clone(), links.clone()).unwrap();
        switches.reverse();
        let middle = turn.index(links.len());
        links.rotate_left(middle);
        links.iter_mut().for_each(|link| link.ends = (link.ends.1, link.ends.0));
        let other = Problem::new(switches, links).unwrap();
        for table in [Table::new(entries), Table::new(entries).with_groups(groups)] {
            let solve = |problem: &Problem| Fabric::new(problem).together(Limits::default(), table);
            prop_assert_eq!(solve(&one), solve(&other));
        }
    }
}

/// A mesh in which some links are dead.
fn mesh_with_dead(
    leaves: std::ops::Range<u32>,
    spines: std::ops::Range<u32>,
) -> impl Strategy<Value = (Vec<Switch>, Vec<Link>)> {
    let dead = prop::collection::vec(any::<Index>(), 0..12);
    (leaves, spines, dead).prop_map(|(leaves, spines, dead)| {
        let (switches, mut links) = mesh(leaves, spines, &[]);
        for at in dead {
            let at = at.index(links.len());
            links[at].alive = false;
        }
        (switches, links)
    })
}
