//! With a table that selects as the reflector's does.

use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_evpn::Label;
use weft_evpn::community::{Encapsulation, MacMobility};
use weft_evpn::esi::Esi;
use weft_evpn::route::{Labels, MacIp, MacIpKey};
use weft_evpn::vni::EthernetTag;

use super::*;
use crate::fabric::fact::Fact;
use crate::fabric::topology::tests::{vtep, with_nics};

const VNI: u32 = 100;

/// A table, and what was learnt of its changes.
#[derive(Default)]
struct Heard {
    table: Table<Route>,
    claims: Claims,
}

impl Heard {
    /// A leaf announces an address of VNI 100, moved so often, at a segment or none. The addresses that changed.
    fn announce(&mut self, leaf: u8, ip: IpAddr, sequence: u32, esi: Esi) -> Vec<Address> {
        let IpAddr::V4(next_hop) = vtep(leaf) else {
            unreachable!("the VTEPs of this fabric are IPv4")
        };
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(next_hop)),
            ext_communities: vec![
                Encapsulation::new(Encapsulation::VXLAN).octets(),
                MacMobility::new(false, sequence).octets(),
            ],
            ..Attributes::default()
        };
        let route = Route::MacIp(MacIp {
            key: key(leaf, ip),
            esi,
            labels: Labels::One(Label([0, 0, 100])),
        });
        self.table
            .learn(&source(leaf), 0, route, Arc::new(attributes));
        self.select()
    }

    fn withdraw(&mut self, leaf: u8, ip: IpAddr) -> Vec<Address> {
        let route = Route::MacIp(MacIp {
            key: key(leaf, ip),
            esi: Esi::ZERO,
            labels: Labels::One(Label([0, 0, 100])),
        });
        self.table.withdraw(source(leaf).peer, 0, &route.key());
        self.select()
    }

    fn select(&mut self) -> Vec<Address> {
        let changes = self.table.select();
        let changed = changes.iter().flat_map(|it| self.claims.learn(it));
        changed.collect()
    }

    fn places(&self, topology: &Topology) -> Places {
        Places::of(topology, &named(topology), &self.claims, &Places::default())
    }
}

fn source(leaf: u8) -> Arc<Source> {
    let peer = PeerId {
        router_id: RouterId(leaf.into()),
        asn: 64_496,
    };
    let address = [192, 0, 2, leaf].into();
    Arc::new(Source::new(peer, address, PeerKind::IbgpClient))
}

fn key(leaf: u8, ip: IpAddr) -> MacIpKey {
    MacIpKey {
        rd: Rd::from_ipv4([192, 0, 2, leaf].into(), 1),
        tag: EthernetTag(0),
        mac: Mac([0, 0, 0x5e, 0, 0x53, 7]),
        ip: Some(ip),
    }
}

fn nic(leaf: u8, host: u8) -> IpAddr {
    [192, 168, leaf, host].into()
}

fn with_flow(to: IpAddr) -> Topology {
    let mut topology = with_nics(3, 2, 2);
    let by_address = |ip: IpAddr| v1::Nic {
        address: ip.to_string(),
        vni: Some(VNI),
        ..v1::Nic::default()
    };
    let job = v1::Job {
        name: "train".to_owned(),
        flows: vec![v1::JobFlow {
            source: Some(by_address(nic(1, 1))),
            destination: Some(by_address(to)),
            octets: 1,
            ..v1::JobFlow::default()
        }],
        ..v1::Job::default()
    };
    topology.put(Fact::declared(&job).unwrap());
    topology
}

fn leaf_of(topology: &Topology, places: Places, port: &str) -> String {
    let placed = topology.clone().with_places(Arc::new(places));
    let port = placed.host_port(&port.into()).unwrap();
    port.switch.to_string()
}

#[test]
fn a_nic_is_behind_the_leaf_that_announced_it_last() {
    let topology = with_nics(3, 2, 2);
    let mut heard = Heard::default();
    let at = |heard: &Heard| leaf_of(&topology, heard.places(&topology), "leaf1:nic1");
    assert_eq!(at(&heard), "leaf1");
    heard.announce(1, nic(1, 1), 0, Esi::ZERO);
    assert_eq!(at(&heard), "leaf1");
    heard.announce(3, nic(1, 1), 1, Esi::ZERO);
    assert_eq!(at(&heard), "leaf3");
    // Until leaf 1 withdraws what it said, both announce it, and the later one counts. RFC 7432 section 15.
    heard.withdraw(1, nic(1, 1));
    assert_eq!(at(&heard), "leaf3");
    heard.announce(1, nic(1, 1), 2, Esi::ZERO);
    assert_eq!(at(&heard), "leaf1");
    heard.withdraw(1, nic(1, 1));
    heard.withdraw(3, nic(1, 1));
    assert_eq!(at(&heard), "leaf1", "as declared where nobody announces it");
}

#[test]
fn a_host_takes_its_nics_along_and_the_port_there_has_no_name() {
    let topology = with_nics(3, 2, 2);
    let mut heard = Heard::default();
    heard.announce(2, nic(1, 1), 1, Esi::ZERO);
    let placed = topology
        .clone()
        .with_places(Arc::new(heard.places(&topology)));
    let ports = placed.ports_of("h1-1");
    let [port] = &ports[..] else {
        panic!("{ports:?}");
    };
    assert_eq!(
        (port.name.as_str(), port.switch.as_str()),
        ("leaf1:nic1", "leaf2")
    );
    assert_eq!(&*port.interface, "");
    assert!(placed.is_placed(&port.name) && !topology.is_placed(&port.name));
    assert!(!topology.has_alike_jobs(&placed));
}

#[test]
fn what_leaves_share_or_no_leaf_of_the_fabric_says_moves_nothing() {
    let topology = with_nics(3, 2, 2);
    let at = |heard: &Heard| leaf_of(&topology, heard.places(&topology), "leaf1:nic1");
    let mut both = Heard::default();
    both.announce(1, nic(1, 1), 1, Esi::ZERO);
    both.announce(2, nic(1, 1), 1, Esi::ZERO);
    assert_eq!(at(&both), "leaf1", "its own leaf says so as loudly");
    let mut segment = Heard::default();
    segment.announce(2, nic(1, 1), 1, Esi([1; 10]));
    assert_eq!(
        at(&segment),
        "leaf1",
        "it is reached over other leaves of the segment too"
    );
    let mut elsewhere = Heard::default();
    elsewhere.announce(9, nic(1, 1), 1, Esi::ZERO);
    assert_eq!(at(&elsewhere), "leaf1", "nobody declared leaf 9");
}

#[test]
fn a_nic_that_only_a_job_names_is_where_its_route_says() {
    let to = nic(77, 1);
    let topology = with_flow(to);
    assert_eq!(named(&topology), [(VNI, to)].into());
    let mut heard = Heard::default();
    assert_eq!(
        leaf_of(&topology, heard.places(&topology), "vni100:192.168.77.1"),
        ""
    );
    heard.announce(2, to, 0, Esi::ZERO);
    // Of an address that no job names nothing is kept.
    heard.announce(2, nic(77, 2), 0, Esi::ZERO);
    let places = heard.places(&topology);
    assert_eq!(places.leaf_of_address((VNI, nic(77, 2))), None);
    assert_eq!(leaf_of(&topology, places, "vni100:192.168.77.1"), "leaf2");
    let declared = with_flow(nic(2, 1));
    assert!(named(&declared).is_empty(), "a host port has it");
}

#[test]
fn a_nic_that_nobody_announces_any_more_is_where_it_was() {
    let to = nic(77, 1);
    let topology = with_flow(to);
    let named = named(&topology);
    let mut heard = Heard::default();
    heard.announce(3, nic(1, 1), 1, Esi::ZERO);
    heard.announce(2, to, 0, Esi::ZERO);
    let mut places = heard.places(&topology);
    let changed = [heard.withdraw(3, nic(1, 1)), heard.withdraw(2, to)].concat();
    for address in changed {
        places.look(&topology, &named, &heard.claims, address);
    }
    let places = Places::of(&topology, &named, &heard.claims, &places);
    assert_eq!(leaf_of(&topology, places.clone(), "leaf1:nic1"), "leaf3");
    assert_eq!(
        places.leaf_of_address((VNI, to)).map(SwitchName::as_str),
        Some("leaf2")
    );
    // A job that ended takes its addresses along.
    let ended = Places::of(&topology, &BTreeSet::new(), &heard.claims, &places);
    assert_eq!(ended.leaf_of_address((VNI, to)), None);
}

proptest! {
    /// What follows from one change after the other is what follows from all of them.
    #[test]
    fn changes_one_by_one_lead_where_the_whole_table_leads(
        events in prop::collection::vec((1_u8..5, 1_u8..4, 0_u32..4, any::<bool>()), 0..40),
    ) {
        let topology = with_flow(nic(77, 1));
        let named = named(&topology);
        let mut heard = Heard::default();
        let mut places = Places::default();
        for (leaf, of, sequence, gone) in events {
            let ip = nic(if of == 3 { 77 } else { of }, 1);
            let changed = match gone {
                true => heard.withdraw(leaf, ip),
                false => heard.announce(leaf, ip, sequence, Esi::ZERO),
            };
            for address in changed {
                places.look(&topology, &named, &heard.claims, address);
            }
            let again = Places::of(&topology, &named, &heard.claims, &places);
            prop_assert_eq!(&places, &again);
            if [nic(1, 1), nic(2, 1), nic(77, 1)].iter().all(|ip| heard.claims.0.contains_key(&(VNI, *ip))) {
                prop_assert_eq!(&places, &heard.places(&topology));
            }
        }
    }
}
