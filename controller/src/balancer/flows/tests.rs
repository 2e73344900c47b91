//! Flows of leaves by plans of weights for small fabrics.

use std::time::Duration;

use super::*;
use crate::balancer::{Balancer, Inputs};
use crate::fabric::fact::Fact;
use crate::fabric::pin::PinName;
use crate::fabric::topology::tests::with_nics;

const GBPS: u64 = 1_000_000_000;

fn plan(topology: &Topology) -> Plan {
    let mut balancer = Balancer::default();
    let inputs = Inputs {
        topology: Arc::new(topology.clone()),
        ..Inputs::default()
    };
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    balancer.plan().clone()
}

/// Host ports, and the spines between them with the parts that each gets.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, u32)]);

/// Pins of a job.
fn pins(rows: &[Row<'_>]) -> Pins {
    let mut pins = Pins::default();
    for (source, destination, spines) in rows {
        let name = PinName {
            job: "train".into(),
            source: (*source).into(),
            destination: (*destination).into(),
        };
        let paths = spines.iter().map(|(spine, weight)| PinPath {
            spine: (*spine).into(),
            weight: *weight,
        });
        pins.put(name, Some(paths.collect()));
    }
    pins
}

/// The flows of a leaf, in words: VNI, address, interface and weight of each next hop.
fn flows(topology: &Topology, pins: &Pins, leaf: &str) -> Vec<String> {
    let all = of_leaves(&plan(topology), topology, pins);
    let flows = all
        .get(&SwitchName::from(leaf))
        .cloned()
        .unwrap_or_default();
    let text = |(flow, members): (&Flow, &Arc<Members>)| {
        let members = members.iter();
        let members: Vec<String> = members
            .map(|(hop, weight)| format!("{}={weight}", hop.interface))
            .collect();
        let to = flow.destination.map(|to| format!(" {to}"));
        let (vni, source, to) = (flow.vni, flow.source, to.unwrap_or_default());
        format!("{vni}{source}{to} {}", members.join(","))
    };
    flows.iter().map(text).collect()
}

#[test]
fn a_pin_is_the_uplink_to_its_spine_for_the_destination_in_its_vni() {
    let topology = with_nics(3, 2, 2);
    let pins = pins(&[
        ("leaf1:nic1", "leaf2:nic1", &[("spine1", 16)]),
        ("leaf1:tenant1", "leaf2:tenant1", &[("spine2", 16)]),
        ("leaf2:nic2", "leaf3:nic2", &[("spine2", 1)]),
    ]);
    let of_leaf1 = ["100 192.168.2.1 eth1=1", "200 192.168.2.1 eth2=1"];
    assert_eq!(flows(&topology, &pins, "leaf1"), of_leaf1);
    assert_eq!(flows(&topology, &pins, "leaf2"), ["100 192.168.3.2 eth2=1"]);
    assert!(flows(&topology, &pins, "leaf3").is_empty());
}

#[test]
fn what_goes_other_ways_to_one_nic_is_told_apart_by_its_sources() {
    let pins = pins(&[
        ("leaf1:nic1", "leaf2:nic1", &[("spine1", 8)]),
        ("leaf1:nic2", "leaf2:nic1", &[("spine1", 4), ("spine2", 4)]),
    ]);
    let mut topology = with_nics(2, 2, 2);
    let apart = [
        "100 from 192.168.1.1 192.168.2.1 eth1=1",
        "100 from 192.168.1.2 192.168.2.1 eth1=1,eth2=1",
    ];
    assert_eq!(flows(&topology, &pins, "leaf1"), apart);
    // Nobody knows the address of one: it is the one behind its interface. IPv6 packets come from there, too.
    let mut nic = |name: &str, change: &dyn Fn(&mut HostPort)| {
        let mut port = (*topology.host_port(&name.into()).unwrap()).clone();
        change(&mut port);
        topology.put(Fact::HostPort(Arc::new(port)));
    };
    nic("leaf1:nic2", &|port| port.addresses.clear());
    let second = "2001:db8::2".parse().unwrap();
    nic("leaf2:nic1", &|port| port.addresses.push(second));
    let interface = |name: &str| topology.host_port(&name.into()).unwrap().interface.clone();
    let [first, second] = ["leaf1:nic1", "leaf1:nic2"].map(interface);
    let apart = [
        "100 from 192.168.1.1 192.168.2.1 eth1=1".to_owned(),
        format!("100 from {first} 2001:db8::2 eth1=1"),
        format!("100 from {second} 192.168.2.1 eth1=1,eth2=1"),
        format!("100 from {second} 2001:db8::2 eth1=1,eth2=1"),
    ];
    assert_eq!(flows(&topology, &pins, "leaf1"), apart);
    // No switch with a weft-agent has interfaces of such names: these go together.
    let mut long = |name: &str| {
        let mut port = (*topology.host_port(&name.into()).unwrap()).clone();
        port.addresses.clear();
        port.interface = format!("GigabitEthernet{name}").into();
        topology.put(Fact::HostPort(Arc::new(port)));
    };
    long("leaf1:nic1");
    long("leaf1:nic2");
    let together = [
        "100 192.168.2.1 eth1=3,eth2=1",
        "100 2001:db8::2 eth1=3,eth2=1",
    ];
    assert_eq!(flows(&topology, &pins, "leaf1"), together);
}

#[test]
fn what_goes_the_same_way_to_one_nic_is_one_flow() {
    let pins = pins(&[
        ("leaf1:nic1", "leaf2:nic1", &[("spine1", 8)]),
        ("leaf1:nic2", "leaf2:nic1", &[("spine1", 8)]),
        ("leaf1:nic1", "leaf2:nic2", &[("spine1", 8)]),
        ("leaf1:nic2", "leaf2:nic2", &[("spine2", 8)]),
    ]);
    let expected = [
        "100 192.168.2.1 eth1=1",
        "100 from 192.168.1.1 192.168.2.2 eth1=1",
        "100 from 192.168.1.2 192.168.2.2 eth2=1",
    ];
    let topology = with_nics(2, 2, 2);
    assert_eq!(flows(&topology, &pins, "leaf1"), expected);
    let all = of_leaves(&plan(&topology), &topology, &pins);
    let of_leaf = &all[&SwitchName::from("leaf1")];
    let known_by = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|name| topology.host_port(&name.into()).unwrap());
        let known: Vec<String> = known_by(of_leaf, &from, &to)
            .iter()
            .map(Flow::to_string)
            .collect();
        known.join(", ")
    };
    assert_eq!(
        known_by("leaf1:nic2", "leaf2:nic1"),
        "flow to 192.168.2.1 in VNI 100"
    );
    assert_eq!(
        known_by("leaf1:nic2", "leaf2:nic2"),
        "flow from 192.168.1.2 to 192.168.2.2 in VNI 100"
    );
    assert_eq!(known_by("leaf1:nic1", "leaf2:tenant1"), "");
}

#[test]
fn a_spine_that_the_plan_does_not_use_is_not_used() {
    let mut topology = with_nics(2, 3, 1);
    topology.set_down("leaf2:eth1--spine1:eth2", true);
    let pins = pins(&[
        ("leaf1:nic1", "leaf2:nic1", &[("spine1", 8)]),
        (
            "leaf1:tenant1",
            "leaf2:tenant1",
            &[("spine1", 8), ("spine3", 8)],
        ),
    ]);
    // The first has no member left: it counts as absent.
    let left = ["100 192.168.2.1 ", "200 192.168.2.1 eth3=1"];
    assert_eq!(flows(&topology, &pins, "leaf1"), left);
}

#[test]
fn links_to_one_spine_share_its_part_by_their_weights() {
    let mut fabric = with_nics(2, 2, 1).declaration();
    let first = fabric.links[0].clone();
    let mut second = first.clone();
    let (a, b) = (second.a.as_mut().unwrap(), second.b.as_mut().unwrap());
    (a.interface_name, b.interface_name) = ("eth7".into(), "eth7".into());
    (a.address, b.address) = ("198.18.0.0".into(), "198.18.0.1".into());
    second.name.clear();
    second.capacity_bps = 3 * first.capacity_bps;
    assert!(first.capacity_bps >= GBPS);
    fabric.links.push(second);
    let topology = Topology::new(&fabric).unwrap();
    let from_spine = first.a.as_ref().unwrap().switch_name.clone();
    let to = if from_spine == "leaf1" {
        "leaf2"
    } else {
        "leaf1"
    };
    let spine = first.b.as_ref().unwrap().switch_name.clone();
    let pin = (
        format!("{from_spine}:nic1"),
        format!("{to}:nic1"),
        [(spine.as_str(), 5)],
    );
    let pins = pins(&[(&pin.0, &pin.1, &pin.2)]);
    let found = flows(&topology, &pins, &from_spine);
    // Their weights follow from capacities, and so are unequal.
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("eth1=") && found[0].contains("eth7="),
        "{found:?}"
    );
    assert!(!found[0].ends_with("eth1=1,eth7=1"), "{found:?}");
}

#[test]
fn weights_fit_into_what_a_switch_takes() {
    let hop = |last: u8| NextHop {
        address: Some([192, 0, 2, last].into()),
        interface: format!("eth{last}").into(),
    };
    let shares = |shares: &[u64]| -> Vec<u32> {
        let shares = (1..).zip(shares).map(|(last, share)| (hop(last), *share));
        weights(&shares.collect()).values().copied().collect()
    };
    assert_eq!(shares(&[720_720, 1_441_440]), [1, 2]);
    assert_eq!(shares(&[1, 100_000]), [1, 256]);
    assert_eq!(shares(&[511, 512]), [256, 256]);
    assert!(shares(&[]).is_empty());
}

#[test]
fn a_job_that_is_shadowed_has_pins_and_no_flows() {
    let mut topology = with_nics(2, 2, 1);
    let pins = pins(&[("leaf1:nic1", "leaf2:nic1", &[("spine1", 1)])]);
    let mut job = v1::Job {
        name: "train".to_owned(),
        ..v1::Job::default()
    };
    for (mode, count) in [
        (v1::BalanceMode::Unspecified, 1),
        (v1::BalanceMode::On, 1),
        (v1::BalanceMode::Shadow, 0),
        (v1::BalanceMode::Off, 0),
    ] {
        job.set_balance_mode(mode);
        topology.put(Fact::declared(&job).unwrap());
        assert_eq!(flows(&topology, &pins, "leaf1").len(), count, "{mode:?}");
    }
}

#[test]
fn ways_beyond_what_a_switch_has_tables_for_are_left_out() {
    let hop = NextHop {
        address: Some([192, 0, 2, 1].into()),
        interface: "eth1".into(),
    };
    let flow = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let members = Members::from([(hop.clone(), 1 + u32::from(number % 250))]);
        let destination = [10, 0, high, low].into();
        let vni = 100;
        let flow = Flow::to(vni, destination);
        (flow, Arc::new(members))
    };
    // The first 50 ways have two flows each, the other 200 one.
    let mut flows: Flows = (0..300).map(flow).collect();
    assert_eq!((bound(&mut flows), flows.len()), (10, 290));
    assert!((0..50).all(|number| flows.contains_key(&flow(number).0)));
    assert_eq!(bound(&mut flows), 0);
}

#[test]
fn what_goes_to_a_nic_without_an_address_is_known_by_where_it_comes_from() {
    let mut fabric = with_nics(2, 2, 2).declaration();
    fabric
        .host_ports
        .iter_mut()
        .for_each(|port| port.addresses.clear());
    let topology = Topology::new(&fabric).unwrap();
    let one = pins(&[("leaf1:nic1", "leaf2:nic1", &[("spine1", 1)])]);
    let from = topology.host_port(&"leaf1:nic1".into()).unwrap();
    let expected = format!("100 from {} eth1=1", from.interface);
    assert_eq!(flows(&topology, &one, "leaf1"), [expected]);
    let all = of_leaves(&plan(&topology), &topology, &one);
    let of_leaf = &all[&SwitchName::from("leaf1")];
    let to = |name: &str| topology.host_port(&name.into()).unwrap();
    assert_eq!(known_by(of_leaf, &from, &to("leaf2:nic1")).len(), 1);
    assert_eq!(known_by(of_leaf, &to("leaf1:nic2"), &to("leaf2:nic1")), []);
    // Nobody can tell two of them.
    let both = pins(&[
        ("leaf1:nic1", "leaf2:nic1", &[("spine1", 1)]),
        ("leaf1:nic1", "leaf2:nic2", &[("spine2", 1)]),
    ]);
    assert!(flows(&topology, &both, "leaf1").is_empty());
    // Nor one of a NIC in no VNI.
    for port in &mut fabric.host_ports {
        port.vni = None;
    }
    let topology = Topology::new(&fabric).unwrap();
    assert!(flows(&topology, &one, "leaf1").is_empty());
}
