//! Routes of types 2 and 3 as their peer says them, for the tests of whatever tells them on, and how they are read back.

use std::net::Ipv4Addr;

use bytes::{Bytes, BytesMut};
use weft_bgp::attribute::{Attributes, ExtendedCommunity, NextHop, PmsiTunnel, Reach};
use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::{self, Nlri};
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_evpn::community::{Encapsulation, RouterMac};
use weft_evpn::route::{InclusiveMulticast, InclusiveMulticastKey, Labels, MacIp, MacIpKey};
use weft_evpn::{Esi, EthernetTag, Label, Mac, Route, RouteKey};

/// Type 2 of a host with two labels, behind a segment.
pub(crate) fn host(number: u32) -> Route {
    let [_, _, high, low] = number.to_be_bytes();
    Route::MacIp(MacIp {
        key: MacIpKey {
            rd: Rd::from_as2(64_496, 1),
            tag: EthernetTag(0),
            mac: Mac([2, 0, 0, 0, high, low]),
            ip: Some(Ipv4Addr::from(0xcb00_7100 + number).into()),
        },
        esi: Esi([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        labels: Labels::Two(Label([0, 0, 100]), Label([0, 0x13, 0x88])),
    })
}

/// Type 3 of a VTEP.
pub(crate) fn flood(number: u32) -> Route {
    Route::InclusiveMulticast(InclusiveMulticast {
        key: InclusiveMulticastKey {
            rd: Rd::from_as2(64_496, number),
            tag: EthernetTag(0),
            originator: VTEP.into(),
        },
    })
}

/// With which they come.
pub(crate) fn attributes(route: &Route) -> Attributes {
    let flooding = matches!(route, Route::InclusiveMulticast(_));
    let mut ext_communities = vec![
        ExtendedCommunity::route_target_as2(64_496, 100),
        Encapsulation::new(8).octets(),
    ];
    if !flooding {
        ext_communities.push(RouterMac::new(Mac([2, 0, 0, 0, 0xff, 1])).octets());
    }
    let tunnel = || PmsiTunnel::ingress_replication([0, 0, 100], VTEP.into());
    Attributes {
        local_pref: Some(100),
        ext_communities,
        pmsi: flooding.then(tunnel),
        next_hop: Some(NextHop::V4(VTEP)),
        ..Attributes::default()
    }
}

/// The UPDATE that announces it.
pub(crate) fn announcement(path_id: Option<u32>, route: &Route) -> Update {
    let mut nlri = Writer::new();
    path_id.into_iter().for_each(|path_id| nlri.u32(path_id));
    route.encode(&mut nlri);
    Update {
        reach: Some(Reach {
            family: Family::L2VPN_EVPN,
            next_hop: NextHop::V4(VTEP),
            nlri: nlri.finish(),
        }),
        attributes: Attributes {
            next_hop: None,
            ..attributes(route)
        },
        ..Update::default()
    }
}

/// One UPDATE without a fault.
pub(crate) fn decoded(octets: &[u8], add_path: AddPathSet) -> Update {
    let context = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path,
    };
    let mut octets = BytesMut::from(octets);
    let message = frame::split(&mut octets, frame::MAX_LEN).unwrap().unwrap();
    assert!(octets.is_empty(), "one message");
    let Message::Update(update) = Message::decode(message, &context).unwrap() else {
        panic!("an UPDATE");
    };
    assert_eq!(update.faults, []);
    *update
}

/// EVPN routes that it announces, with all that their NLRI say.
pub(crate) fn announced(update: &Update, add_path: bool) -> Vec<(u32, Route)> {
    let reach = update.reach.as_ref();
    assert!(reach.is_none_or(|it| it.next_hop == NextHop::V4(VTEP)));
    routes(reach.map(|it| (it.family, &it.nlri)), add_path)
}

/// Keys of EVPN routes that it withdraws.
pub(crate) fn withdrawn(update: &Update, add_path: bool) -> Vec<(u32, RouteKey)> {
    let unreach = update.unreach.as_ref();
    let routes = routes(unreach.map(|it| (it.family, &it.nlri)), add_path);
    let key = |(path_id, route): &(u32, Route)| (*path_id, route.key());
    routes.iter().map(key).collect()
}

fn routes(field: Option<(Family, &Bytes)>, add_path: bool) -> Vec<(u32, Route)> {
    let mut routes = Vec::new();
    if let Some((family, nlri)) = field {
        assert_eq!(family, Family::L2VPN_EVPN);
        let each = |path_id, route| routes.push((path_id, route));
        let discarded = |error| panic!("{error:?}");
        nlri::decode_all(nlri, add_path, each, discarded).unwrap();
    }
    routes
}

/// Whose they are.
pub(crate) const VTEP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
