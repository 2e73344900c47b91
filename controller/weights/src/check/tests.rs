//! The check refuses what the solver would not have answered.

use super::*;
use crate::fabric::Fabric;
use crate::problem::{Link, Switch};

/// Two leaves over three spines of 100, 100 and 50 Gb/s.
fn problem() -> Problem {
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let link = |id, leaf, spine, gbps: u64| Link {
        id: LinkId(id),
        ends: (SwitchId(leaf), SwitchId(spine)),
        capacity_bps: gbps * 1_000_000_000,
        alive: true,
    };
    let mut links = Vec::new();
    for leaf in [1, 2] {
        links.extend([
            link(10 * leaf, leaf, 10, 100),
            link(10 * leaf + 1, leaf, 11, 100),
            link(10 * leaf + 2, leaf, 12, 50),
        ]);
    }
    let switches = vec![
        switch(1, 0),
        switch(2, 0),
        switch(10, 1),
        switch(11, 1),
        switch(12, 1),
    ];
    Problem::new(switches, links).unwrap()
}

fn wrong(problem: &Problem, limits: Limits, change: impl Fn(&mut [u16])) -> Option<Wrong> {
    let mut solution = Fabric::new(problem).leaf(SwitchId(1), limits).unwrap();
    change(solution.weights_mut());
    let answer = Checker::new(problem).check_leaf(limits, &solution);
    answer.err().map(|fault| fault.wrong)
}

#[test]
fn an_honest_leaf_passes() {
    let problem = problem();
    let leaf = Fabric::new(&problem)
        .leaf(SwitchId(1), Limits::default())
        .unwrap();
    let group = leaf.group_of(SwitchId(2)).unwrap();
    assert_eq!(leaf.weights(group).weights, [2, 2, 1]);
    assert_eq!(leaf.group_of(SwitchId(1)), None);
    assert_eq!(wrong(&problem, Limits::default(), |_| ()), None);
}

#[test]
fn a_part_at_the_wrong_member_is_seen() {
    let moved = |weights: &mut [u16]| {
        let at = weights.iter().position(|weight| *weight == 2).unwrap();
        weights[at] = 1;
        weights[at + 1] = 3;
    };
    assert_eq!(
        wrong(&problem(), Limits::default(), moved),
        Some(Wrong::Weight(LinkId(11)))
    );
}

#[test]
fn a_sum_that_is_not_the_sum_is_seen() {
    let more = |weights: &mut [u16]| weights.iter_mut().for_each(|weight| *weight *= 2);
    assert_eq!(
        wrong(&problem(), Limits::default(), more),
        Some(Wrong::Parts(10))
    );
}

#[test]
fn a_member_left_out_without_need_is_seen() {
    let without = |weights: &mut [u16]| {
        for group in weights.chunks_mut(3).filter(|group| group[2] == 1) {
            group[1] += 1;
            group[2] = 0;
        }
    };
    assert_eq!(
        wrong(&problem(), Limits::default(), without),
        Some(Wrong::Exclusion(LinkId(12)))
    );
}

#[test]
fn a_solution_of_another_problem_is_seen() {
    let full = problem();
    let leaf = Fabric::new(&full)
        .leaf(SwitchId(1), Limits::default())
        .unwrap();
    let dead = |at: u32| {
        let mut links: Vec<Link> = full.links().copied().collect();
        let dead = links.iter_mut().find(|link| link.id == LinkId(at));
        dead.unwrap().alive = false;
        let switches = full.switches().map(|(id, tier)| Switch { id, tier });
        Problem::new(switches.collect(), links).unwrap()
    };
    for at in [10, 20] {
        let fault = Checker::new(&dead(at)).check_leaf(Limits::default(), &leaf);
        assert_eq!(fault.unwrap_err().wrong, Wrong::DeadMember(LinkId(10)));
    }
    let links = full.links().copied().filter(|link| link.id != LinkId(12));
    let switches = full.switches().map(|(id, tier)| Switch { id, tier });
    let fewer = Problem::new(switches.collect(), links.collect()).unwrap();
    let fault = Checker::new(&fewer).check_leaf(Limits::default(), &leaf);
    assert_eq!(fault.unwrap_err().wrong, Wrong::Links);
}
