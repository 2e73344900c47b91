//! Each rule kept and broken, and the view that follows the table.

use std::sync::Arc;

use weft_bgp::attribute::{NextHop, PmsiTunnel};
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::table::{PeerKind, Source, Table};

use super::*;
use crate::route::{
    EthernetSegment, EthernetSegmentKey, InclusiveMulticast, InclusiveMulticastKey, Labels, MacIp,
    MacIpKey,
};
use crate::{Esi, EthernetTag};

struct Model {
    registered: Vec<IpAddr>,
    announced: Vec<IpAddr>,
    owner: Option<IpAddr>,
}

impl GuardView for Model {
    fn is_registered(&self, vtep: IpAddr) -> bool {
        self.registered.contains(&vtep)
    }

    fn is_announced(&self, vtep: IpAddr) -> bool {
        self.announced.contains(&vtep)
    }

    fn is_anothers(&self, _: Mac, vtep: IpAddr) -> bool {
        self.owner.is_some_and(|owner| owner != vtep)
    }
}

const NOTHING: Model = Model {
    registered: Vec::new(),
    announced: Vec::new(),
    owner: None,
};

fn vtep(host: u8) -> IpAddr {
    [192, 0, 2, host].into()
}

fn rd(host: u8) -> Rd {
    Rd::from_ipv4([192, 0, 2, host].into(), 1)
}

fn attributes(host: u8) -> Attributes {
    Attributes {
        next_hop: Some(NextHop::V4([192, 0, 2, host].into())),
        ext_communities: vec![Encapsulation::new(Encapsulation::VXLAN).octets()],
        pmsi: Some(PmsiTunnel::ingress_replication([0, 0, 100], vtep(host))),
        ..Attributes::default()
    }
}

fn with_router_mac(host: u8, mac: u8) -> Attributes {
    let mut attributes = attributes(host);
    let mac = Mac([0, 0, 0x5e, 0, 0x53, mac]);
    attributes
        .ext_communities
        .push(RouterMac::new(mac).octets());
    attributes
}

fn flood(host: u8) -> Route {
    let key = InclusiveMulticastKey {
        rd: rd(host),
        tag: EthernetTag(0),
        originator: vtep(host),
    };
    Route::InclusiveMulticast(InclusiveMulticast { key })
}

fn segment(host: u8) -> Route {
    let key = EthernetSegmentKey {
        rd: rd(host),
        esi: Esi([3, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 1]),
        originator: vtep(host),
    };
    Route::EthernetSegment(EthernetSegment { key })
}

fn host(number: u8) -> Route {
    let key = MacIpKey {
        rd: rd(number),
        tag: EthernetTag(0),
        mac: Mac([0, 0, 0x5e, 0, 0x53, number]),
        ip: None,
    };
    Route::MacIp(MacIp {
        key,
        esi: Esi::ZERO,
        labels: Labels::One(Label([0, 0, 100])),
    })
}

fn broken(route: &Route, attributes: &Attributes, view: &impl GuardView) -> Vec<Rule> {
    check(route, attributes, view).iter().collect()
}

#[test]
fn a_next_hop_is_a_vtep_that_someone_knows() {
    let known = |registered: &[IpAddr], announced: &[IpAddr]| Model {
        registered: registered.to_vec(),
        announced: announced.to_vec(),
        owner: None,
    };
    let one = [vtep(1)];
    for route in [host(1), segment(1)] {
        assert_eq!(broken(&route, &attributes(1), &NOTHING), [Rule::NextHop]);
        assert_eq!(broken(&route, &attributes(1), &known(&one, &[])), []);
        assert_eq!(broken(&route, &attributes(1), &known(&[], &one)), []);
    }
    // A type 3 announces itself, but nobody else.
    assert_eq!(broken(&flood(1), &attributes(1), &NOTHING), []);
    let stolen = check(&flood(2), &attributes(1), &NOTHING);
    assert!(stolen.contains(Rule::NextHop) && stolen.contains(Rule::Originator));
}

#[test]
fn a_label_is_a_vni_or_it_is_of_another_fabric() {
    let view = Model {
        announced: vec![vtep(1)],
        ..NOTHING
    };
    let mut bare = attributes(1);
    bare.ext_communities.clear();
    assert_eq!(broken(&host(1), &bare, &view), [Rule::Encapsulation]);
    assert_eq!(broken(&flood(1), &bare, &view), [Rule::Encapsulation]);
    assert_eq!(broken(&segment(1), &bare, &view), []);
}

#[test]
fn a_type_3_replicates_to_its_vtep() {
    let with = |tunnel: Option<PmsiTunnel>| Attributes {
        pmsi: tunnel,
        ..attributes(1)
    };
    let to = |label, end| PmsiTunnel::ingress_replication(label, end);
    let cases = [
        (None, false),
        (Some(to([0, 0, 100], vtep(1))), true),
        (Some(to([0, 0, 100], vtep(2))), false),
        (Some(to([0; 3], vtep(1))), false),
        (
            Some(PmsiTunnel {
                tunnel_type: 3,
                ..to([0, 0, 100], vtep(1))
            }),
            false,
        ),
    ];
    for (tunnel, right) in cases {
        let broken = check(&flood(1), &with(tunnel.clone()), &NOTHING);
        assert_eq!(!broken.contains(Rule::Pmsi), right, "{tunnel:?}");
        assert!(!check(&host(1), &with(tunnel), &NOTHING).contains(Rule::Pmsi));
    }
}

#[test]
fn a_router_mac_has_one_vtep() {
    let view = |owner| Model {
        announced: vec![vtep(1)],
        owner,
        ..NOTHING
    };
    let attributes = with_router_mac(1, 0xfe);
    assert_eq!(broken(&host(1), &attributes, &view(None)), []);
    assert_eq!(broken(&host(1), &attributes, &view(Some(vtep(1)))), []);
    let others = view(Some(vtep(2)));
    assert_eq!(broken(&host(1), &attributes, &others), [Rule::RouterMac]);
}

#[test]
fn several_broken_rules_are_all_said() {
    let mut attributes = with_router_mac(1, 0xfe);
    attributes.ext_communities.remove(0);
    attributes.pmsi = None;
    let view = Model {
        owner: Some(vtep(2)),
        ..NOTHING
    };
    let broken = check(&flood(3), &attributes, &view);
    assert_eq!(broken, Rule::ALL.into_iter().collect());
    assert_eq!(
        broken.to_string(),
        "next-hop, encapsulation, pmsi, router-mac, originator"
    );
    assert_eq!(format!("{:?}", Broken::from_iter([Rule::Pmsi])), "{Pmsi}");
}

fn peer(host: u8) -> PeerId {
    PeerId {
        router_id: RouterId(host.into()),
        asn: 64_496,
    }
}

fn source(host: u8) -> Arc<Source> {
    Arc::new(Source::new(peer(host), vtep(host), PeerKind::IbgpClient))
}

/// Leaf 1 is 192.0.2.1 and shares 192.0.2.10 with leaf 2, under one router's MAC address each and one for both.
#[test]
fn a_leaf_may_have_several_vteps_and_share_one() {
    let (mut router_macs, mut table) = (RouterMacs::new(), Table::new());
    let routes = [(1, 1, 1, 0xa1), (1, 3, 10, 0xaa), (2, 4, 10, 0xaa)];
    for (leaf, number, next_hop, mac) in routes {
        let attributes = Arc::new(with_router_mac(next_hop, mac));
        table.learn(&source(leaf), 0, host(number), attributes);
    }
    for change in table.select() {
        router_macs.learn(&change);
    }
    let anothers = |mac, next_hop, leaf| {
        let mac = Mac([0, 0, 0x5e, 0, 0x53, mac]);
        router_macs.is_anothers(mac, vtep(next_hop), peer(leaf))
    };
    // Of leaf 1 at any of its VTEPs, a new one too.
    assert!(!anothers(0xa1, 1, 1) && !anothers(0xa1, 10, 1) && !anothers(0xa1, 99, 1));
    // Not of others anywhere else.
    assert!(anothers(0xa1, 2, 2) && anothers(0xa1, 10, 2) && anothers(0xaa, 3, 3));
    // What is shared is both's there.
    assert!(!anothers(0xaa, 10, 1) && !anothers(0xaa, 10, 2));
}

#[test]
fn the_fabric_follows_the_table() {
    let (mut vteps, mut router_macs, mut table) = (Vteps::new(), RouterMacs::new(), Table::new());
    let registered = BTreeSet::from([vtep(9)]);
    let mac = Mac([0, 0, 0x5e, 0, 0x53, 0xfe]);
    let mut learn = |table: &mut Table<Route>| {
        for change in table.select() {
            vteps.learn(&change);
            router_macs.learn(&change);
        }
        (vteps.clone(), router_macs.clone())
    };
    table.learn(&source(1), 0, flood(1), Arc::new(attributes(1)));
    table.learn(&source(1), 0, host(1), Arc::new(with_router_mac(1, 0xfe)));
    let (vteps, router_macs) = learn(&mut table);
    let fabric = Fabric {
        vteps: &vteps,
        router_macs: &router_macs,
        registered: &registered,
        peer: peer(1),
    };
    assert!(fabric.is_announced(vtep(1)) && !fabric.is_announced(vtep(2)));
    assert!(fabric.is_registered(vtep(9)) && !fabric.is_registered(vtep(1)));
    assert_eq!(router_macs.owner(mac), Some((vtep(1), peer(1))));
    assert!(!fabric.is_anothers(mac, vtep(2)));
    let fabric = Fabric {
        peer: peer(2),
        ..fabric
    };
    assert!(fabric.is_anothers(mac, vtep(2)) && !fabric.is_anothers(mac, vtep(1)));

    table.learn(&source(2), 0, host(2), Arc::new(with_router_mac(2, 0xfe)));
    // The first one announces again and keeps its place.
    table.learn(
        &source(1),
        0,
        host(1),
        Arc::new(Attributes {
            med: Some(1),
            ..with_router_mac(1, 0xfe)
        }),
    );
    let (_, router_macs) = learn(&mut table);
    let holders: Vec<_> = router_macs.holders(mac).collect();
    assert_eq!(holders, [(vtep(1), peer(1)), (vtep(2), peer(2))]);

    table.withdraw_peer(source(1).peer);
    let (vteps, router_macs) = learn(&mut table);
    assert_eq!(router_macs.owner(mac), Some((vtep(2), peer(2))));
    assert!(!vteps.contains(vtep(1)));
    table.withdraw_peer(source(2).peer);
    assert!(learn(&mut table).1.is_empty());
}
