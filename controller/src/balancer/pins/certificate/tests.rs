//! Bounds that no leaf, pod and pair of them decides.

use weft_proto::v1;

use crate::balancer::pins::above::tests::with_little_above;
use crate::balancer::pins::tests::Bench;
use crate::fabric::topology::Topology;
use crate::fabric::topology::tests::with_nics;

/// A job that sends from one leaf to another, in two overlap sets forth and back; an empty name: all the time, and only forth.
fn forth_and_back(name: &str, [from, to]: [&str; 2], sets: [&str; 2]) -> v1::Job {
    let nic = |host_port_name: &str| {
        Some(v1::Nic {
            host_port_name: host_port_name.to_owned(),
            ..v1::Nic::default()
        })
    };
    let flow = |from, to, set: &str| v1::JobFlow {
        source: nic(from),
        destination: nic(to),
        octets: 1,
        overlap_set: set.to_owned(),
        ..v1::JobFlow::default()
    };
    let back = (!sets[1].is_empty()).then(|| flow(to, from, sets[1]));
    v1::Job {
        name: name.to_owned(),
        flows: std::iter::once(flow(from, to, sets[0]))
            .chain(back)
            .collect(),
        ..v1::Job::default()
    }
}

/// The load of the busiest link, and the bound.
fn certified(mut topology: Topology, down: &[&str], jobs: &[v1::Job]) -> (f64, f64) {
    for link in down {
        topology.set_down(link, true);
    }
    let mut bench = Bench::new(topology, jobs);
    let (plan, _) = bench.adopt();
    let certificate = plan.certificate.as_ref().unwrap();
    (certificate.max_load, certificate.lower_bound)
}

#[test]
fn phases_that_may_meet_on_the_only_spine_of_two_pairs_are_proved_to_need_it_twice() {
    // Leaves 1 and 2 have spines 1 and 2, leaf 3 has spines 2 to 4.
    let down = [
        "leaf1:eth3--spine3:eth1",
        "leaf1:eth4--spine4:eth1",
        "leaf2:eth3--spine3:eth2",
        "leaf2:eth4--spine4:eth2",
        "leaf3:eth1--spine1:eth3",
    ];
    let of = |sets: [[&str; 2]; 2]| {
        let jobs = [
            forth_and_back("one", ["leaf1:nic1", "leaf3:nic1"], sets[0]),
            forth_and_back("two", ["leaf2:nic1", "leaf3:nic2"], sets[1]),
        ];
        certified(with_nics(3, 4, 2), &down, &jobs)
    };
    for sets in [[["", ""]; 2], [["forth", "back"]; 2]] {
        let (load, bound) = of(sets);
        assert_eq!(load, 2.0);
        assert!(bound > 1.99, "{bound}");
    }
}

#[test]
fn leaves_of_a_pod_that_share_what_is_above_one_spine_are_proved_to_need_it_twice() {
    // Of the four planes the leaves of the first pod have two, one of which does not lead to the other pod.
    let down = [
        "leaf1:eth3--spine3:eth1",
        "leaf1:eth4--spine4:eth1",
        "leaf2:eth3--spine3:eth2",
        "leaf2:eth4--spine4:eth2",
        "core1:eth2--spine5:eth9",
    ];
    let jobs = [
        forth_and_back("one", ["leaf1:nic1", "leaf3:nic1"], ["", ""]),
        forth_and_back("two", ["leaf2:nic1", "leaf4:nic1"], ["", ""]),
    ];
    let (load, bound) = certified(with_little_above(100), &down, &jobs);
    assert_eq!(load, 2.0);
    assert!(bound > 1.99, "{bound}");
}
