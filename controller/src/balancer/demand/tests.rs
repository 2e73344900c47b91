//! Weights beside pins, in small fabrics.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weft_proto::v1;

use crate::balancer::pins::State;
use crate::balancer::pins::above::tests::with_little_above;
use crate::balancer::pins::tests::pods::with_mixed_planes;
use crate::balancer::pins::tests::{Bench, state};
use crate::balancer::{Inputs, flows};
use crate::fabric::live::Interfaces;
use crate::fabric::topology::tests::with_nics;
use crate::fabric::topology::{Declaration, Topology};

fn nic(leaf: u8, host: u8) -> v1::Nic {
    v1::Nic {
        host_port_name: format!("leaf{leaf}:nic{host}"),
        ..v1::Nic::default()
    }
}

/// One NIC of each leaf sends to all others.
fn wide(leaves: u8) -> v1::Job {
    v1::Job {
        name: "wide".to_owned(),
        ranks: (1..=leaves).map(|leaf| nic(leaf, 2)).collect(),
        groups: vec![v1::CollectiveGroup {
            name: "experts".to_owned(),
            collective: v1::Collective::AllToAll.into(),
            octets: 1 << 30,
            ..v1::CollectiveGroup::default()
        }],
        ..v1::Job::default()
    }
}

/// One NIC of leaf 1 sends to one of leaf 2 at its rate.
fn narrow() -> v1::Job {
    v1::Job {
        name: "narrow".to_owned(),
        flows: vec![v1::JobFlow {
            source: Some(nic(1, 1)),
            destination: Some(nic(2, 1)),
            octets: 1,
            ..v1::JobFlow::default()
        }],
        ..v1::Job::default()
    }
}

/// Leaves that have room for one pin each.
fn bench(jobs: &[v1::Job]) -> Bench {
    bench_within(jobs, None)
}

/// Leaves that have room for one pin each, and for so many groups.
fn bench_within(jobs: &[v1::Job], groups: Option<u32>) -> Bench {
    bench_of(with_nics(4, 2, 2).declaration(), jobs, groups)
}

fn bench_of(mut fabric: Declaration, jobs: &[v1::Job], groups: Option<u32>) -> Bench {
    let leaves = fabric.switches.iter_mut();
    for switch in leaves.filter(|it| it.name.starts_with("leaf")) {
        switch.limits = Some(v1::SwitchLimits {
            pins: Some(1),
            groups,
            ..v1::SwitchLimits::default()
        });
    }
    Bench::new(Topology::new(&fabric).unwrap(), jobs)
}

/// The weights of leaf 1 to leaf 2, by interface.
fn weights(bench: &Bench) -> Vec<(String, u32)> {
    let routes = &bench.balancer.plan().routes["leaf1"].prefixes;
    let prefix = "198.51.100.2/32".parse().unwrap();
    let members = routes[&prefix].iter();
    members
        .map(|(hop, weight)| (hop.interface.to_string(), *weight))
        .collect()
}

#[test]
fn ranks_that_share_a_nic_send_no_more_than_it() {
    let demand = |job: v1::Job| {
        let mut bench = bench(&[job]);
        bench.adopt().0.demand().clone()
    };
    let mut shared = wide(4);
    shared.ranks = shared
        .ranks
        .iter()
        .flat_map(|it| [it.clone(), it.clone()])
        .collect();
    assert_eq!(demand(shared), demand(wide(4)));
}

#[test]
fn what_becomes_of_a_drained_link_leaves_weights_by_demand_as_they_are() {
    let mut fabric = with_nics(4, 3, 2).declaration();
    let spine3 = fabric.switches.iter_mut().find(|it| it.name == "spine3");
    spine3.unwrap().admin_state = v1::AdminState::Down.into();
    let mut bench = bench_of(fabric, &[narrow(), wide(4)], None);
    let (plan, _) = bench.adopt();
    assert!(bench.balancer.weigh(plan.demand()));
    let before = bench.balancer.plan().clone();
    assert_eq!(before.routes["leaf1"].backups.len(), 3);
    let interface = |eth: u8| (format!("eth{eth}"), eth != 3);
    let interfaces: Interfaces = (1..=3).map(interface).collect();
    let inputs = Inputs {
        topology: Arc::new(bench.topology.clone()),
        interfaces: [("leaf1".into(), Arc::new(interfaces))].into(),
        ..Inputs::default()
    };
    assert_eq!(bench.balancer.handle(&inputs, Duration::ZERO), Ok(true));
    let after = bench.balancer.plan();
    assert!(after.is_by_demand() && after.revision > before.revision);
    for (leaf, routes) in &*after.routes {
        assert_eq!(routes.prefixes, before.routes[leaf].prefixes);
    }
    assert!(after.routes["leaf1"].backups.is_empty());
    assert!(!bench.balancer.weigh(plan.demand()), "nothing is new");
}

#[test]
fn what_is_not_pinned_goes_where_pins_leave_room() {
    let mut bench = bench(&[narrow(), wide(4)]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "narrow"), State::Placed);
    assert!(matches!(state(&plan, "wide"), State::Weighted(_)));
    let pinned_to = plan.pins.values().next().unwrap()[0].spine.to_string();
    let free = if pinned_to == "spine1" {
        "eth2"
    } else {
        "eth1"
    };
    assert_eq!(weights(&bench).len(), 2, "by capacity, both");
    let before = bench.balancer.plan().revision;
    assert!(bench.balancer.weigh(plan.demand()));
    assert!(bench.balancer.plan().revision > before);
    let [(interface, _)] = &weights(&bench)[..] else {
        panic!("{:?}", weights(&bench));
    };
    assert_eq!(interface, free);
    // The pinned flow keeps its way.
    let flows = flows::of_leaves(bench.balancer.plan(), &bench.topology, &bench.pins);
    let pinned = flows["leaf1"].values().next().unwrap();
    let over: Vec<_> = pinned.keys().map(|hop| hop.interface.to_string()).collect();
    assert_eq!(over, [pinned_to.replace("spine", "eth")]);
    assert!(!bench.balancer.weigh(plan.demand()), "nothing is new");
    let reason = reason(&bench, "198.51.100.2/32");
    assert!(
        reason.contains(
            "the busiest link carries 100.0 % of its capacity, 150.0 % with weights by capacity"
        ),
        "{reason}"
    );
}

/// Why leaf 1 has its weights to a VTEP, in words.
fn reason(bench: &Bench, prefix: &str) -> String {
    let shown = bench.balancer.plan().leaf(&"leaf1".into());
    shown.unwrap().unwrap().entries[&prefix.parse().unwrap()].reason()
}

#[test]
fn weights_by_capacity_say_why_they_are_not_by_demand() {
    // A spine of another plane leads to the super-spines of the first one, too.
    let mut bench = bench_of(with_mixed_planes(), &[wide(4)], None);
    let (plan, _) = bench.adopt();
    assert!(!reason(&bench, "198.51.100.2/32").contains("by capacity"));
    assert!(bench.balancer.weigh(plan.demand()), "it says why");
    let said = reason(&bench, "198.51.100.2/32");
    let why = "2 parts over 2 of 2 uplinks, by capacity, not by what jobs are known to send: spine1 and spine2 are in one pod and lead to \
               the same super-spines";
    assert_eq!(said, why);
    assert!(!bench.balancer.weigh(plan.demand()), "nothing is new");
    // A link event brings one plan, not two.
    bench.topology.set_down("leaf3:eth3--spine3:eth3", true);
    let (plan, _) = bench.adopt();
    assert!(reason(&bench, "198.51.100.2/32").contains("by capacity"));
    assert!(!bench.balancer.weigh(plan.demand()), "the same reason");

    let mut full = bench_within(&[narrow(), wide(4)], Some(1));
    let (plan, _) = full.adopt();
    full.balancer.weigh(plan.demand());
    let said = reason(&full, "198.51.100.2/32");
    assert!(
        said.contains("the table of leaf2 has no room for them"),
        "{said}"
    );
}

#[test]
fn weights_by_demand_need_room_for_their_groups() {
    for groups in [None, Some(3), Some(2), Some(1)] {
        let mut bench = bench_within(&[narrow(), wide(4)], groups);
        let (plan, _) = bench.adopt();
        let changed = bench.balancer.weigh(plan.demand());
        assert!(changed || groups.is_some());
        for (leaf, routes) in bench.balancer.plan().routes.iter() {
            let apart: BTreeSet<_> = routes.prefixes.values().collect();
            let fits = groups.is_none_or(|most| apart.len() <= most as usize);
            assert!(fits && !apart.is_empty(), "{leaf}: {apart:?}");
        }
    }
}

#[test]
fn a_link_event_brings_weights_by_capacity_at_once() {
    let mut bench = bench(&[narrow(), wide(4)]);
    let (plan, _) = bench.adopt();
    bench.balancer.weigh(plan.demand());
    bench.topology.set_down("leaf3:eth1--spine1:eth3", true);
    let (plan, _) = bench.adopt();
    assert_eq!(weights(&bench).len(), 2);
    assert!(bench.balancer.weigh(plan.demand()));
    assert_eq!(weights(&bench).len(), 1);
}

#[test]
fn without_a_demand_or_a_gain_weights_by_capacity_stay() {
    let mut alone = bench(&[wide(4)]);
    let (plan, _) = alone.adopt();
    assert!(!alone.balancer.weigh(plan.demand()), "even without pins");
    let mut pinned = bench(&[narrow()]);
    let (plan, _) = pinned.adopt();
    assert!(!pinned.balancer.weigh(plan.demand()), "all is pinned");
    let mut ended = bench(&[narrow(), wide(4)]);
    let (plan, _) = ended.adopt();
    ended.balancer.weigh(plan.demand());
    assert!(ended.balancer.weigh(&Arc::default()), "the jobs ended");
    assert_eq!(weights(&ended).len(), 2);
}

#[test]
fn a_job_that_is_shadowed_counts_where_its_packets_go() {
    let mut shadowed = narrow();
    shadowed.balance_mode = v1::BalanceMode::Shadow.into();
    let mut bench = bench(&[shadowed, wide(4)]);
    let (plan, _) = bench.adopt();
    // Its flow goes by weights too: there is nothing to go around.
    assert!(!bench.balancer.weigh(plan.demand()));
}

#[test]
fn what_is_not_pinned_goes_around_what_pins_put_above_a_spine() {
    // Two pods of two leaves, with four spines in each and 100 Gb/s above each spine.
    let fabric = with_little_above(100).declaration();
    let crossing = v1::Job {
        flows: vec![v1::JobFlow {
            source: Some(nic(1, 1)),
            destination: Some(nic(3, 1)),
            octets: 1,
            ..v1::JobFlow::default()
        }],
        ..narrow()
    };
    let mut bench = bench_of(fabric, &[crossing, wide(4)], None);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "narrow"), State::Placed);
    let pinned_to = plan.pins.values().next().unwrap()[0].spine.to_string();
    // No link of leaf 2 and leaf 4 carries a pin.
    let over = |bench: &Bench, leaf: &str, host: &str| -> BTreeSet<String> {
        let routes = &bench.balancer.plan().routes[leaf].prefixes;
        let members = routes[&host.parse().unwrap()].iter();
        let spines = members.map(|(hop, _)| hop.interface.to_string().replace("eth", "spine"));
        spines.collect()
    };
    assert_eq!(over(&bench, "leaf2", "198.51.100.4/32").len(), 4);
    assert!(bench.balancer.weigh(plan.demand()));
    let left = over(&bench, "leaf2", "198.51.100.4/32");
    assert!(!left.is_empty() && !left.contains(&pinned_to), "{left:?}");
    // Within a pod nothing is in the way there, nor on the way back.
    assert!(over(&bench, "leaf2", "198.51.100.1/32").contains(&pinned_to));
    assert_eq!(over(&bench, "leaf4", "198.51.100.2/32").len(), 4);
}
