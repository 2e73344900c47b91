//! What becomes of announcements under a policy.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weft_bgp::attribute::as_path::AS_PATH_MAX;
use weft_bgp::attribute::{AsPath, ExtendedCommunity, NextHop, PmsiTunnel, Reach, Unreach};
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::table::Source;
use weft_bgp::wire::Writer;
use weft_evpn::community::{Encapsulation, RouterMac};
use weft_evpn::route::{
    InclusiveMulticast, InclusiveMulticastKey, Labels, MacIp, MacIpKey, Opaque,
};
use weft_evpn::{Esi, EthernetTag, Label, Mac};

use super::*;
use crate::config::{Guard, GuardMode, LimitAction, Limits, RouteTargetFilter};
use sanity::FabricView;
use total::Total;

mod model;
mod octets;

const EVPN: Family = Family::L2VPN_EVPN;
const PEER: PeerId = PeerId {
    router_id: RouterId(0xc000_0201),
    asn: 64_496,
};
const LOCAL: Local = Local {
    asn: 64_496,
    router_id: RouterId(1),
    cluster_id: ClusterId(2),
};

fn rib(kind: PeerKind, policy: Inbound) -> AdjRibIn {
    let mut rib = AdjRibIn::new(PEER, kind, LOCAL, ledger::FAMILIES.to_vec());
    rib.set_policy(policy);
    rib
}

fn client(policy: Inbound) -> AdjRibIn {
    rib(PeerKind::IbgpClient, policy)
}

fn limited(limits: Limits) -> AdjRibIn {
    client(Inbound {
        limits,
        ..Inbound::default()
    })
}

fn guarded() -> AdjRibIn {
    client(Inbound {
        guard: Guard::all(GuardMode::Reject),
        ..Inbound::default()
    })
}

/// Type 2 of a MAC address in a VNI.
fn host(mac: u8, vni: u8) -> Route {
    host_with(mac, None, vni)
}

fn host_with(mac: u8, ip: Option<u8>, vni: u8) -> Route {
    Route::MacIp(MacIp {
        key: MacIpKey {
            rd: Rd::from_as2(64_496, 1),
            tag: EthernetTag(0),
            mac: Mac([2, 0, 0, 0, 0, mac]),
            ip: ip.map(|ip| Ipv4Addr::new(198, 51, 100, ip).into()),
        },
        esi: Esi::ZERO,
        labels: Labels::One(Label([0, 0, vni])),
    })
}

/// Type 3 of 192.0.2.`vtep`.
fn flood(vtep: u8) -> Route {
    Route::InclusiveMulticast(InclusiveMulticast {
        key: InclusiveMulticastKey {
            rd: Rd::from_as2(64_496, u32::from(vtep)),
            tag: EthernetTag(0),
            originator: address(vtep).into(),
        },
    })
}

fn address(vtep: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, vtep)
}

/// Attributes of a route of 192.0.2.`vtep` with these route targets.
fn attributes_of(route: &Route, vtep: u8, targets: &[u32]) -> Attributes {
    let target = |number: &u32| ExtendedCommunity::route_target_as2(64_496, *number);
    let mut ext_communities: Vec<_> = targets.iter().map(target).collect();
    ext_communities.push(Encapsulation::new(8).octets());
    let flooding = matches!(route, Route::InclusiveMulticast(_));
    let tunnel = || PmsiTunnel::ingress_replication([0, 0, 100], address(vtep).into());
    Attributes {
        local_pref: Some(100),
        ext_communities,
        pmsi: flooding.then(tunnel),
        next_hop: Some(NextHop::V4(address(vtep))),
        ..Attributes::default()
    }
}

fn field<N: Nlri>(path_ids: bool, routes: &[(u32, N)]) -> Bytes {
    let mut out = Writer::new();
    for (path_id, route) in routes {
        if path_ids {
            out.u32(*path_id);
        }
        route.encode(&mut out);
    }
    out.finish()
}

fn announce(route: &Route, vtep: u8, targets: &[u32]) -> Update {
    Update {
        reach: Some(Reach {
            family: EVPN,
            next_hop: NextHop::V4(address(vtep)),
            nlri: field(false, &[(0, route.clone())]),
        }),
        attributes: Attributes {
            next_hop: None,
            ..attributes_of(route, vtep, targets)
        },
        ..Update::default()
    }
}

fn withdraw(route: &Route) -> Update {
    Update {
        unreach: Some(Unreach {
            family: EVPN,
            nlri: field(false, &[(0, route.clone())]),
        }),
        ..Update::default()
    }
}

fn kept(rib: &mut AdjRibIn, update: &Update) -> bool {
    rib.learn(update).unwrap().announced == 1
}

#[test]
fn paths_are_told_apart_by_their_identifiers() {
    let mut rib = client(Inbound::default());
    rib.set_add_path(AddPathSet::of([EVPN]));
    let route = host(1, 100);
    let mut update = announce(&route, 1, &[]);
    let paths = [(0, route.clone()), (7, route.clone()), (9, route.clone())];
    update.reach.as_mut().unwrap().nlri = field(true, &paths);
    assert_eq!(rib.learn(&update).unwrap().announced, 3);
    assert_eq!((rib.len(), rib.counts()[&EVPN]), (3, 3));
    let mut update = withdraw(&route);
    update.unreach.as_mut().unwrap().nlri = field(true, &paths[1..2]);
    assert_eq!(rib.learn(&update).unwrap().withdrawn, 1);
    assert_eq!(rib.len(), 2);
}

#[test]
fn one_too_many_is_dropped_until_another_goes() {
    let mut rib = limited(Limits {
        types: BTreeMap::from([(2, 2)]),
        ..Limits::default()
    });
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[])));
    assert!(kept(&mut rib, &announce(&host(2, 100), 1, &[])));
    let learned = rib.learn(&announce(&host(3, 100), 1, &[])).unwrap();
    assert_eq!(learned.refused["limit of the route type"], 1);
    assert_eq!((learned.exceeded, rib.len()), (None, 2));
    // One that is held may change, and another type has its own room.
    assert!(kept(&mut rib, &announce(&host(2, 100), 2, &[])));
    assert!(kept(&mut rib, &announce(&flood(1), 1, &[])));
    rib.learn(&withdraw(&host(1, 100))).unwrap();
    assert!(kept(&mut rib, &announce(&host(3, 100), 1, &[])));
}

/// The families to ask for after a route came or went.
fn room(rib: &mut AdjRibIn, update: &Update) -> Vec<Family> {
    let learned = rib.learn(update).unwrap();
    learned.room.into_iter().collect()
}

#[test]
fn what_was_refused_is_asked_for_once_there_is_room() {
    let mut rib = limited(Limits {
        routes: Some(40),
        ..Limits::default()
    });
    for mac in 0..45 {
        assert_eq!(room(&mut rib, &announce(&host(mac, 100), 1, &[])), []);
    }
    assert_eq!(rib.len(), 40);
    // 39 and 38 of 40 are not below 95 %; 37 are, and that is said once.
    for (mac, expected) in [(0, vec![]), (1, vec![]), (2, vec![EVPN]), (3, vec![])] {
        assert_eq!(room(&mut rib, &withdraw(&host(mac, 100))), expected);
    }
    // Nothing was refused since.
    for mac in 4..40 {
        assert_eq!(room(&mut rib, &withdraw(&host(mac, 100))), []);
    }
}

/// One leaf, or many together, must not fill the memory of all replicas.
#[test]
fn what_all_peers_hold_is_bounded_whatever_the_action() {
    for action in [LimitAction::DropNew, LimitAction::Warn, LimitAction::Reset] {
        let total = Total::default();
        let policy = Inbound {
            limits: Limits {
                action,
                ..Limits::default()
            },
            total: total.clone(),
            ..Inbound::default()
        };
        let (mut first, mut second) = (client(policy.clone()), client(policy));
        assert!(kept(&mut first, &announce(&host(1, 100), 1, &[])));
        let each = total.octets();
        total.set_limit(Some(each * 20));
        for mac in 2..=20 {
            assert!(kept(&mut first, &announce(&host(mac, 100), 1, &[])));
        }
        let refused = second.learn(&announce(&host(30, 100), 2, &[])).unwrap();
        let expected = BTreeMap::from([(Bound::Total.name(), 1)]);
        assert_eq!((refused.refused, refused.exceeded), (expected, None));
        assert!(total.is_full() && total.fault().is_some());
        // A replacement that does not grow is kept. One that grows is not, and what it replaces is not said any more.
        assert!(kept(&mut first, &announce(&host(1, 100), 2, &[])));
        let grown = first.learn(&announce(&host(2, 100), 1, &[1])).unwrap();
        assert_eq!((grown.announced, grown.withdrawn), (0, 1));
        assert_eq!(total.octets(), each * 19);
        assert_eq!(second.take_room().room, BTreeSet::new(), "not below 95 %");
        assert_eq!(room(&mut first, &withdraw(&host(3, 100))), [EVPN]);
        assert_eq!(second.take_room().room, BTreeSet::from([EVPN]));
        assert!(!total.is_full() && total.fault().is_none());
        assert!(kept(&mut second, &announce(&host(30, 100), 2, &[])));
        drop(first);
        assert_eq!(total.octets(), each, "what a session held goes with it");
    }
}

#[test]
fn a_refresh_that_leaves_routes_out_makes_room() {
    let mut rib = limited(Limits {
        types: BTreeMap::from([(2, 2)]),
        ..Limits::default()
    });
    for mac in 1..4 {
        rib.learn(&announce(&host(mac, 100), 1, &[])).unwrap();
    }
    // Another type makes none.
    rib.learn(&announce(&flood(1), 1, &[])).unwrap();
    assert_eq!(room(&mut rib, &withdraw(&flood(1))), []);
    rib.begin_refresh(EVPN);
    assert_eq!(room(&mut rib, &announce(&host(2, 100), 1, &[])), []);
    assert_eq!(rib.end_refresh(EVPN).room, BTreeSet::from([EVPN]));
}

#[test]
fn hosts_that_go_make_room_where_they_were() {
    let mut rib = limited(Limits {
        macs_per_vni: Some(2),
        ips_per_mac: Some(1),
        ..Limits::default()
    });
    for mac in 1..4 {
        rib.learn(&announce(&host(mac, 100), 1, &[])).unwrap();
        rib.learn(&announce(&host(mac + 10, 101), 1, &[])).unwrap();
    }
    for ip in 1..3 {
        let route = host_with(1, Some(ip), 100);
        rib.learn(&announce(&route, 1, &[])).unwrap();
    }
    // One MAC address less in one VNI; then one IP address less of the other MAC address; then nothing was refused.
    let steps = [
        (host(2, 100), vec![EVPN]),
        (host_with(1, Some(1), 100), vec![EVPN]),
        (host(1, 100), vec![]),
        (host(11, 101), vec![EVPN]),
    ];
    for (route, expected) in steps {
        assert_eq!(room(&mut rib, &withdraw(&route)), expected, "{route:?}");
    }
}

#[test]
fn a_new_policy_asks_by_itself() {
    let limits = Limits {
        routes: Some(1),
        ..Limits::default()
    };
    let mut rib = limited(limits.clone());
    for mac in 1..3 {
        rib.learn(&announce(&host(mac, 100), 1, &[])).unwrap();
    }
    let policy = Inbound {
        limits,
        ..Inbound::default()
    };
    assert_eq!(rib.set_policy(policy).room, BTreeSet::new());
    assert_eq!(room(&mut rib, &withdraw(&host(1, 100))), []);
}

#[test]
fn at_a_limit_the_session_may_end_or_be_warned_of() {
    let limits = |action| Limits {
        routes: Some(1),
        action,
        ..Limits::default()
    };
    for (action, exceeded, len) in [
        (LimitAction::DropNew, None, 1),
        (LimitAction::Reset, Some(Bound::Routes), 1),
        (LimitAction::Warn, None, 2),
    ] {
        let mut rib = limited(limits(action));
        let first = rib.learn(&announce(&host(1, 100), 1, &[])).unwrap();
        assert_eq!(first.warned.len(), 1);
        let second = rib.learn(&announce(&host(2, 100), 1, &[])).unwrap();
        assert_eq!((second.exceeded, rib.len()), (exceeded, len));
    }
}

#[test]
fn macs_per_vni_and_ips_per_mac_are_counted_where_they_are_now() {
    let mut rib = limited(Limits {
        macs_per_vni: Some(2),
        ips_per_mac: Some(1),
        ..Limits::default()
    });
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[])));
    assert!(kept(&mut rib, &announce(&host(2, 100), 1, &[])));
    assert!(!kept(&mut rib, &announce(&host(3, 100), 1, &[])));
    assert!(kept(&mut rib, &announce(&host(3, 101), 1, &[])));
    assert!(kept(
        &mut rib,
        &announce(&host_with(1, Some(1), 100), 1, &[])
    ));
    assert!(!kept(
        &mut rib,
        &announce(&host_with(1, Some(2), 100), 1, &[])
    ));
    // It moves to where there is no room: it is nowhere then.
    let moved = rib.learn(&announce(&host(3, 100), 1, &[])).unwrap();
    assert_eq!(moved.refused["limit of MACs in a VNI"], 1);
    assert_eq!(moved.withdrawn, 1);
    assert!(kept(&mut rib, &announce(&host(4, 101), 1, &[])));
    rib.learn(&withdraw(&host(2, 100))).unwrap();
    assert!(kept(&mut rib, &announce(&host(3, 100), 1, &[])));
}

#[test]
fn a_limit_of_hosts_is_near_where_the_group_says_so() {
    let mut rib = limited(Limits {
        macs_per_vni: Some(4),
        ips_per_mac: Some(2),
        warn_percent: 50,
        ..Limits::default()
    });
    let mut warned = |route: &Route| {
        let learned = rib.learn(&announce(route, 1, &[])).unwrap();
        learned.warned
    };
    let near = |bound, count, limit| Warning {
        bound,
        count,
        limit,
    };
    assert_eq!(warned(&host(1, 100)), []);
    assert_eq!(warned(&host(2, 100)), [near(Bound::MacsPerVni(100), 2, 4)]);
    assert_eq!(warned(&host(3, 100)), []);
    let first = host_with(1, Some(1), 100);
    assert_eq!(warned(&first), [near(Bound::IpsPerMac(100), 1, 2)]);
}

#[test]
fn a_lower_limit_drops_nothing_that_is_held() {
    let mut rib = limited(Limits::default());
    for mac in 1..=5 {
        assert!(kept(&mut rib, &announce(&host(mac, 100), 1, &[])));
    }
    rib.set_policy(Inbound {
        limits: Limits {
            routes: Some(2),
            macs_per_vni: Some(2),
            ..Limits::default()
        },
        ..Inbound::default()
    });
    assert_eq!(rib.len(), 5);
    assert!(!kept(&mut rib, &announce(&host(6, 100), 1, &[])));
    for mac in 1..=5 {
        rib.learn(&withdraw(&host(mac, 100))).unwrap();
    }
    assert!(kept(&mut rib, &announce(&host(6, 100), 1, &[])));
    assert!(kept(&mut rib, &announce(&host(7, 100), 1, &[])));
    assert!(!kept(&mut rib, &announce(&host(8, 100), 1, &[])));
}

#[test]
fn too_many_attribute_octets_are_a_withdrawal() {
    let mut rib = limited(Limits {
        attribute_octets: 120,
        ..Limits::default()
    });
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[1])));
    let many: Vec<u32> = (0..20).collect();
    let learned = rib.learn(&announce(&host(1, 100), 1, &many)).unwrap();
    assert_eq!(learned.refused["attribute octets"], 1);
    assert_eq!((learned.withdrawn, rib.len()), (1, 0));
}

#[test]
fn a_host_waits_for_its_vtep() {
    let mut rib = guarded();
    let learned = rib.learn(&announce(&host(1, 100), 1, &[])).unwrap();
    assert_eq!(learned.refused["next-hop"], 1);
    assert_eq!((rib.len(), rib.held_back()), (0, 1));
    let learned = rib.learn(&announce(&flood(1), 1, &[])).unwrap();
    assert_eq!(learned.announced, 2);
    assert_eq!((rib.len(), rib.held_back()), (2, 0));
}

#[test]
fn a_host_behind_another_leaf_waits_for_the_fabric() {
    let mut rib = guarded();
    rib.learn(&announce(&host(1, 100), 9, &[])).unwrap();
    assert_eq!(rib.held_back(), 1);
    let view = FabricView {
        vteps: [address(9).into()].into(),
        ..FabricView::default()
    };
    assert_eq!(rib.see(Arc::new(view)).announced, 1);
    assert_eq!((rib.len(), rib.held_back()), (1, 0));
}

/// A hostile peer has many routes held back, and then announces one VTEP after the other.
#[test]
fn news_of_a_vtep_costs_nothing_for_routes_that_wait_for_others() {
    let mut rib = guarded();
    let many: Vec<_> = (0..10_000_u32)
        .map(|number| {
            let Route::MacIp(mut route) = host(0, 100) else {
                panic!("a host is a type 2");
            };
            let [_, a, b, c] = number.to_be_bytes();
            route.key.mac = Mac([2, 0, 0, a, b, c]);
            (0, Route::MacIp(route))
        })
        .collect();
    let mut update = announce(&host(0, 100), 250, &[]);
    for some in many.chunks(100) {
        update.reach.as_mut().unwrap().nlri = field(false, some);
        rib.learn(&update).unwrap();
    }
    assert_eq!(rib.held_back(), 10_000);
    let looked_at: u64 = (1..=100)
        .map(|vtep| {
            rib.learn(&announce(&flood(vtep), vtep, &[]))
                .unwrap()
                .looked_at
        })
        .sum();
    assert_eq!(looked_at, 0);
    // Nor when the fabric says so of others.
    let view = |vtep| {
        Arc::new(FabricView {
            vteps: [address(vtep).into()].into(),
            ..FabricView::default()
        })
    };
    assert_eq!(rib.see(view(200)).looked_at, 0);
    let learned = rib.see(view(250));
    assert_eq!((learned.looked_at, learned.announced), (10_000, 10_000));
    assert_eq!(rib.held_back(), 0);
}

#[test]
fn a_route_waits_for_what_it_lacks_now() {
    let mut rib = guarded();
    let bare = |vtep| {
        let mut update = announce(&host(1, 100), vtep, &[]);
        update.attributes.ext_communities.clear();
        update
    };
    // Its VTEP comes, but it does not say that its label is a VNI: no VTEP helps any more.
    rib.learn(&bare(1)).unwrap();
    let looks = |rib: &mut AdjRibIn, vtep| {
        let learned = rib.learn(&announce(&flood(vtep), vtep, &[])).unwrap();
        (learned.looked_at, rib.held_back())
    };
    assert_eq!(looks(&mut rib, 1), (1, 1));
    rib.learn(&withdraw(&flood(1))).unwrap();
    assert_eq!(looks(&mut rib, 1), (0, 1));
    // Other rules do, and then it waits for its VTEP as before.
    rib.learn(&withdraw(&flood(1))).unwrap();
    rib.set_policy(Inbound {
        guard: Guard {
            next_hop: GuardMode::Reject,
            ..Guard::all(GuardMode::Off)
        },
        ..Inbound::default()
    });
    assert_eq!((rib.len(), rib.held_back()), (0, 1));
    assert_eq!(looks(&mut rib, 1), (1, 0));
}

/// The fabric knows a router's MAC address as the peer's at its first VTEP, and another as another leaf's.
#[test]
fn a_peer_has_its_router_mac_at_any_of_its_vteps() {
    let (own, other) = (Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2]));
    let leaf = PeerId {
        router_id: RouterId(0xc000_0202),
        ..PEER
    };
    let with = |mac, vtep| {
        let mut update = announce(&host(1, 100), vtep, &[]);
        let community = RouterMac::new(mac).octets();
        update.attributes.ext_communities.push(community);
        update
    };
    let mut table = weft_bgp::table::Table::new();
    for (peer, mac, vtep) in [(PEER, own, 1), (leaf, other, 2)] {
        let source = Source::new(peer, address(vtep).into(), PeerKind::IbgpClient);
        let mut attributes = with(mac, vtep).attributes;
        attributes.next_hop = Some(NextHop::V4(address(vtep)));
        let route = host(vtep, 100);
        table.learn(&Arc::new(source), 0, route, Arc::new(attributes));
    }
    let mut view = FabricView::default();
    let changes = table.select();
    changes.iter().for_each(|it| view.router_macs.learn(it));
    let mut rib = guarded();
    rib.see(Arc::new(view));
    rib.learn(&announce(&flood(9), 9, &[])).unwrap();
    assert!(kept(&mut rib, &with(own, 9)));
    let learned = rib.learn(&with(other, 9)).unwrap();
    assert_eq!(learned.refused["router-mac"], 1);
}

#[test]
fn what_is_held_back_can_be_withdrawn_and_said_better() {
    let mut rib = guarded();
    rib.learn(&announce(&host(1, 100), 9, &[])).unwrap();
    rib.learn(&announce(&host(2, 100), 9, &[])).unwrap();
    assert_eq!(rib.learn(&withdraw(&host(1, 100))).unwrap().withdrawn, 1);
    assert_eq!(rib.held_back(), 1);
    rib.learn(&announce(&flood(1), 1, &[])).unwrap();
    assert!(kept(&mut rib, &announce(&host(2, 100), 1, &[])));
    assert_eq!((rib.len(), rib.held_back()), (2, 0));
    // A route that was kept and is not sane any more goes.
    let learned = rib.learn(&announce(&host(2, 100), 9, &[])).unwrap();
    assert_eq!((learned.withdrawn, rib.held_back()), (1, 1));
}

#[test]
fn a_registered_vtep_needs_no_announcement_and_a_warning_keeps() {
    let mut rib = client(Inbound {
        guard: Guard::all(GuardMode::Reject),
        vteps: ["192.0.2.0/24".parse().unwrap()].into(),
        ..Inbound::default()
    });
    assert!(kept(&mut rib, &announce(&host(1, 100), 1, &[])));
    let mut rib = client(Inbound {
        guard: Guard::all(GuardMode::Warn),
        ..Inbound::default()
    });
    let learned = rib.learn(&announce(&host(1, 100), 1, &[])).unwrap();
    assert_eq!((learned.announced, learned.suspect["next-hop"]), (1, 1));
}

#[test]
fn graceful_shutdown_of_an_external_peer_is_the_last_choice() {
    for (kind, expected) in [
        (PeerKind::RouteServerClient, Some(0)),
        (PeerKind::Ebgp, Some(0)),
        (PeerKind::IbgpClient, Some(100)),
    ] {
        let mut rib = rib(kind, Inbound::default());
        let mut update = announce(&host(1, 100), 1, &[]);
        update.attributes.communities = vec![Community::GRACEFUL_SHUTDOWN];
        assert!(kept(&mut rib, &update));
        let value = rib.routes.values().next().unwrap();
        let (_, attributes) = ledger::decode_path(value).unwrap();
        assert_eq!(attributes.local_pref, expected, "{kind}");
    }
}

#[test]
fn our_as_may_be_in_a_path_as_often_as_it_is_allowed() {
    for (allow_as_in, expected) in [(0, false), (1, false), (2, true)] {
        let policy = Inbound {
            allow_as_in,
            ..Inbound::default()
        };
        let mut rib = rib(PeerKind::RouteServerClient, policy);
        let mut update = announce(&host(1, 100), 1, &[]);
        update.attributes.as_path = AsPath::sequence(&[64_499, 64_496, 64_496]);
        assert_eq!(kept(&mut rib, &update), expected);
    }
}

/// What could not be read again when it is committed.
#[test]
fn a_path_that_our_other_as_makes_too_long_is_a_withdrawal() {
    let mut rib = rib(
        PeerKind::Ebgp,
        Inbound {
            local_as: Some(LocalAs {
                asn: 64_511,
                no_prepend: false,
                replace_as: false,
            }),
            ..Inbound::default()
        },
    );
    let mut update = announce(&host(1, 100), 1, &[]);
    update.attributes.as_path = AsPath::sequence(&[64_499; AS_PATH_MAX - 1]);
    assert!(kept(&mut rib, &update));
    for (_, value) in rib.held() {
        assert!(ledger::decode_path(&value).is_some());
    }
    update.attributes.as_path = AsPath::sequence(&[64_499; AS_PATH_MAX]);
    let learned = rib.learn(&update).unwrap();
    assert_eq!(learned.refused["AS path too long"], 1);
    assert_eq!((learned.withdrawn, rib.len()), (1, 0));
}

#[test]
fn a_malformed_route_is_discarded_or_ends_a_strict_session() {
    let mut update = announce(&host(1, 100), 1, &[]);
    let unknown = [99, 2, 1, 2];
    let malformed = [2, 3, 0, 0, 0];
    let good = update.reach.as_ref().unwrap().nlri.clone();
    for (strict, bad, ends) in [
        (false, &malformed[..], false),
        (true, &malformed[..], true),
        (true, &unknown[..], false),
    ] {
        let nlri = Bytes::from([bad, &good[..]].concat());
        update.reach.as_mut().unwrap().nlri = nlri;
        let policy = Inbound {
            strict,
            ..Inbound::default()
        };
        let learned = client(policy).learn(&update);
        match learned {
            Ok(learned) => {
                assert_eq!((learned.refused["nlri"], learned.announced), (1, 1));
                assert!(!ends);
            }
            Err(error) => {
                assert!(ends);
                assert_eq!(error.fault.notification().subcode, 9);
            }
        }
    }
}

#[test]
fn unknown_types_are_counted_by_type_and_a_malformed_one_says_why() {
    let mut update = announce(&host(1, 100), 1, &[]);
    let good = update.reach.as_ref().unwrap().nlri.clone();
    let mut malformed = good.to_vec();
    assert_eq!(malformed[24], 48, "the length of the MAC address");
    malformed[24] = 40;
    let (one, other) = ([99, 2, 1, 2], [200, 1, 7]);
    let all = [&one[..], &one, &malformed, &other, &good].concat();
    update.reach.as_mut().unwrap().nlri = all.into();
    let learned = client(Inbound::default()).learn(&update).unwrap();
    assert_eq!((learned.announced, learned.refused["nlri"]), (1, 4));
    assert_eq!(learned.unknown, BTreeMap::from([(99, 2), (200, 1)]));
    let (error, count) = learned.malformed[&2];
    assert_eq!((learned.malformed.len(), count), (1, 1));
    assert!(matches!(
        error.fault,
        Fault::NlriValue { route_type: 2, .. }
    ));
    // Within the two NLRI before it and its own header.
    assert!((8..8 + 26).contains(&error.offset), "{error:?}");
}

#[test]
fn opaque_types_are_kept_where_the_group_wants_them() {
    let route = Route::Opaque(Opaque::new(255, &[1, 2, 3]).unwrap().into());
    let update = announce(&route, 1, &[]);
    for (opaque, expected) in [(false, 0), (true, 1)] {
        let mut rib = client(Inbound {
            opaque,
            ..Inbound::default()
        });
        rib.learn(&update).unwrap();
        assert_eq!(rib.len(), expected);
        rib.learn(&withdraw(&route)).unwrap();
        assert!(rib.is_empty());
    }
}

#[test]
fn opaque_types_go_when_the_group_does_not_want_them_any_more() {
    let opaque = |opaque| Inbound {
        opaque,
        ..Inbound::default()
    };
    let route = |octet| Route::Opaque(Opaque::new(99, &[octet]).unwrap().into());
    let mut rib = client(opaque(true));
    for route in [route(1), route(2), host(1, 100)] {
        assert!(kept(&mut rib, &announce(&route, 1, &[])));
    }
    let learned = rib.set_policy(opaque(false));
    assert_eq!(
        (learned.withdrawn, learned.swept.len(), rib.len()),
        (2, 2, 1)
    );
    let learned = rib.learn(&withdraw(&route(1))).unwrap();
    assert_eq!((learned.withdrawn, learned.refused["nlri"]), (0, 1));
    // However one came to be held, its withdrawal is understood.
    rib.set_policy(opaque(true));
    assert!(kept(&mut rib, &announce(&route(1), 1, &[])));
    rib.policy.opaque = false;
    let learned = rib.learn(&withdraw(&route(1))).unwrap();
    assert_eq!((learned.withdrawn, learned.refused.len()), (1, 0));
    assert_eq!(rib.len(), 1);
}

#[test]
fn what_a_refresh_does_not_say_again_is_gone() {
    let mut rib = guarded();
    for route in [flood(1), host(1, 100), host(2, 100)] {
        rib.learn(&announce(&route, 1, &[])).unwrap();
    }
    rib.learn(&announce(&host(3, 100), 9, &[])).unwrap();
    // An end without a begin is ignored, RFC 7313 §4.
    assert_eq!(rib.end_refresh(EVPN).withdrawn, 0);
    rib.begin_refresh(EVPN);
    for route in [flood(1), host(2, 100), host(4, 100)] {
        assert!(kept(&mut rib, &announce(&route, 1, &[])));
    }
    let learned = rib.end_refresh(EVPN);
    assert_eq!((learned.withdrawn, learned.swept.len()), (2, 2));
    assert_eq!((rib.len(), rib.held_back()), (3, 0));
    assert_eq!(rib.end_refresh(EVPN).withdrawn, 0);
}

#[test]
fn a_peer_wants_what_it_exports_or_what_it_says() {
    let mut rib = client(Inbound {
        route_target_filter: RouteTargetFilter::Auto,
        ..Inbound::default()
    });
    assert!(rib.take_interest_changed());
    assert_eq!(rib.interest(), constrain::Interest::Everything);
    rib.learn(&announce(&host(1, 100), 1, &[1, 2])).unwrap();
    assert!(rib.take_interest_changed());
    rib.learn(&announce(&host(2, 100), 1, &[2])).unwrap();
    assert!(!rib.take_interest_changed());
    assert_eq!(rib.interest().len(), Some(2));
    rib.learn(&announce(&host(1, 100), 1, &[2])).unwrap();
    assert!(rib.take_interest_changed());
    assert_eq!(rib.interest().len(), Some(1));

    rib.set_policy(Inbound {
        route_target_filter: RouteTargetFilter::Rtc,
        ..Inbound::default()
    });
    assert!(rib.take_interest_changed() && rib.interest().is_empty());
    let wish = Membership::exactly(64_496, ExtendedCommunity::route_target_as2(64_496, 2));
    let update = Update {
        reach: Some(Reach {
            family: Family::RTC,
            next_hop: NextHop::V4(address(1)),
            nlri: field(false, &[(0, wish)]),
        }),
        attributes: Attributes {
            local_pref: Some(100),
            ..Attributes::default()
        },
        ..Update::default()
    };
    assert!(kept(&mut rib, &update));
    assert!(rib.take_interest_changed());
    assert_eq!(rib.interest().len(), Some(1));
    // Going back, the routes that are held speak again.
    rib.set_policy(Inbound {
        route_target_filter: RouteTargetFilter::Auto,
        ..Inbound::default()
    });
    assert_eq!(rib.interest().len(), Some(1));
    rib.set_policy(Inbound::default());
    assert_eq!(rib.interest(), constrain::Interest::Everything);
}

/// The spine at one end of a link that is lost withdraws the VTEP at the other end.
#[test]
fn a_vtep_that_a_spine_withdraws_is_one_fact() {
    let mut rib = rib(PeerKind::Ebgp, Inbound::default());
    let prefix = |vtep| (0, Prefix4::new(address(vtep), 32).unwrap());
    let announced = Update {
        announced: (1..=100).map(prefix).collect(),
        attributes: Attributes {
            as_path: AsPath::sequence(&[64_499]),
            next_hop: Some(NextHop::V4(address(9))),
            ..Attributes::default()
        },
        ..Update::default()
    };
    assert_eq!(rib.learn(&announced).unwrap().announced, 100);
    rib.claim(&Committed::<std::hash::RandomState>::default(), 0);
    while rib.next_batch().is_some() {}
    let lost = Update {
        withdrawn: vec![prefix(7)],
        ..Update::default()
    };
    assert_eq!(rib.learn(&lost).unwrap().withdrawn, 1);
    let (ops, _) = rib.next_batch().unwrap();
    assert!(
        matches!(&ops[..], [Op::Delete { keys }] if keys.len() == 1),
        "{ops:?}"
    );
    assert!(rib.next_batch().is_none());
}
