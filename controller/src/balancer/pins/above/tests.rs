//! Pins over three tiers with less above spines than below them.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1;
use weft_weights::pin::{Level, Plane, Recount};

use crate::balancer::pins::tests::{Bench, state};
use crate::balancer::pins::{Inputs, State, pose};
use crate::fabric::fact::{JobName, LinkName};
use crate::fabric::topology::Topology;
use crate::fabric::topology::tests::with_nics;

/// Two pods of two leaves, and four spines in each. Behind a leaf are as many NICs as it has uplinks, all with 100 Gb/s. Above each
/// spine is one super-spine, by a link with so many Gb/s: `core1:eth2--spine5:eth9` is that of the first spine in the second pod.
pub(in crate::balancer) fn with_little_above(gbps: u64) -> Topology {
    let mut fabric = with_nics(4, 8, 4).declaration();
    let number = |end: &Option<v1::LinkEnd>| {
        let name = &end.as_ref().unwrap().switch_name;
        let digits = name.trim_start_matches(char::is_alphabetic);
        digits.parse::<u8>().unwrap()
    };
    let stays = |link: &v1::Link| number(&link.a).div_ceil(2) == number(&link.b).div_ceil(4);
    fabric.links.retain(stays);
    for core in 1..=4_u8 {
        fabric.switches.push(v1::Switch {
            name: format!("core{core}"),
            role: v1::SwitchRole::Spine.into(),
            tier: Some(3),
            ..v1::Switch::default()
        });
        for pod in 1..=2_u8 {
            let end = |switch_name: String, port: u8, host: u8| {
                Some(v1::LinkEnd {
                    switch_name,
                    interface_name: format!("eth{port}"),
                    address: format!("192.1.{core}.{}", 10 * pod + host),
                })
            };
            fabric.links.push(v1::Link {
                a: end(format!("core{core}"), pod, 1),
                b: end(format!("spine{}", 4 * (pod - 1) + core), 9, 2),
                capacity_bps: gbps * 1_000_000_000,
                ..v1::Link::default()
            });
        }
    }
    Topology::new(&fabric).unwrap()
}

/// Two NICs of each leaf send to the other leaf of their pod, and two to a leaf of the other pod.
fn half_to_the_other_pod() -> v1::Job {
    let nic = |leaf: u8, host: u8| {
        Some(v1::Nic {
            host_port_name: format!("leaf{leaf}:nic{host}"),
            ..v1::Nic::default()
        })
    };
    let mut flows = Vec::new();
    for (leaf, [near, far]) in (1..).zip([[2, 3], [1, 4], [4, 1], [3, 2]]) {
        for (host, to) in [(1, near), (2, near), (3, far), (4, far)] {
            flows.push(v1::JobFlow {
                source: nic(leaf, host),
                destination: nic(to, host),
                octets: 1 << 30,
                ..v1::JobFlow::default()
            });
        }
    }
    v1::Job {
        name: "train".to_owned(),
        flows,
        ..v1::Job::default()
    }
}

#[test]
fn what_goes_to_another_pod_is_spread_over_spines_with_half_above_them() {
    let mut bench = Bench::new(with_little_above(100), &[half_to_the_other_pod()]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    let certificate = plan.certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (1.0, 1.0));
    assert_eq!(plan.pins.len(), 16);
    assert!(plan.pins.values().all(|paths| paths.len() == 1));
    assert_eq!(bench.adopt().1, []);

    // As if no link above a spine ever filled: leaves are as even, and two spines of each pod have all that goes to the other one.
    let solved = bench.balancer.plan().solved.clone().unwrap();
    let inputs = Inputs {
        topology: bench.topology.clone(),
        ..Inputs::default()
    };
    let sent = plan.sent["train"].as_ref().unwrap();
    let job = JobName::from("train");
    let pinned = [(&job, sent.over.iter().collect())].into();
    let plane = Plane::new(solved.planes().problem());
    let posed = pose(&solved, &inputs, &plane, (&pinned, &BTreeSet::new()));
    let full = Level {
        subflows: 1,
        capacity: posed.unit_bps,
    };
    let without = posed.place(&plane, &[], full).unwrap();
    let below = posed.recount(&solved, &without.parts).unwrap();
    let above = posed.recount_above(&solved, &without.parts).unwrap();
    let load = |counted: &Recount| counted.load(posed.unit_bps as f64);
    assert_eq!((load(&below), above.as_ref().map(load)), (1.0, Some(2.0)));
}

#[test]
fn where_links_above_spines_are_above_their_rate_the_certificate_names_them_and_leaves_stay_even() {
    let mut bench = Bench::new(with_little_above(50), &[half_to_the_other_pod()]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    let certificate = plan.certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (2.0, 2.0));
    // What one pod sends decides it.
    assert_eq!(certificate.bound, None);
    assert_eq!(certificate.leaves, ["leaf1".into(), "leaf2".into()]);
    let is_above = |link: &LinkName| link.as_str().starts_with("core");
    assert!(certificate.tight.iter().all(is_above), "{certificate:?}");
    assert_eq!(certificate.tight_count, 8);
    let mut spines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, paths) in &plan.pins {
        let (leaf, _) = name.source.as_str().split_once(':').unwrap();
        let over = paths.iter().map(|path| path.spine.as_str());
        spines.entry(leaf).or_default().extend(over);
    }
    assert!(spines.values().all(|it| it.len() == 4), "{spines:?}");
    assert_eq!(bench.adopt().1, []);
}

#[test]
fn when_a_link_above_a_spine_fails_pins_leave_its_plane() {
    let mut bench = Bench::new(with_little_above(100), &[half_to_the_other_pod()]);
    bench.adopt();
    bench.topology.set_down("core1:eth2--spine5:eth9", true);
    let (plan, moved) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert!(!moved.is_empty());
    let over = |spine: &str| {
        let mut paths = plan.pins.values().flat_map(|paths| paths.iter());
        paths.any(|path| path.spine.as_str() == spine)
    };
    // One of both pods is cut off from the plane.
    assert!(!(over("spine1") && over("spine5")));
    let certificate = plan.certificate.as_ref().unwrap();
    let (load, bound) = (certificate.max_load, certificate.lower_bound);
    // Three uplinks for four NICs.
    assert!(bound >= 4.0 / 3.0 && load >= bound, "{certificate:?}");
    assert_eq!(bench.adopt().1, []);
}
