//! Examples of routes: keys of each family and type, and values with every attribute.

use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use weft_bgp::attribute::{
    Aggregator, AsPath, Attributes, Community, ExtendedCommunity, Ipv6ExtendedCommunity,
    LargeCommunity, NextHop, OpaqueAttribute, Origin, PmsiTunnel,
};
use weft_bgp::error::Fault;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::wire::Reader;
use weft_evpn::Route;

use crate::ledger::format::Part;
use crate::ledger::{FactKey, encode_path, said_under, write_path};

/// Keys and values of routes of `peer`.
pub(super) fn parts(peer: PeerId) -> Vec<Part> {
    let mut parts = Vec::new();
    let prefix4 = Prefix4::new(V4, 24).unwrap();
    let prefix6 = Prefix6::new(V6, 64).unwrap();
    let membership = Membership {
        len: 96,
        origin_as: 64_496,
        target: [0, 2, 1, 2, 3, 4, 5, 6],
    };
    put(&mut parts, peer, &prefix4);
    put(&mut parts, peer, &prefix6);
    put(&mut parts, peer, &membership);
    for octets in EVPN {
        put(&mut parts, peer, &evpn(octets));
    }
    for (at, attributes) in attributes().iter().enumerate() {
        let value = encode_path(&prefix4, &attributes.to_octets(), &mut Vec::new());
        let returned = said_under(9, &value);
        parts.push((
            format!("attributes {at} of a peer that has returned"),
            returned.to_vec(),
        ));
    }
    parts
}

/// The key of a path with an identifier, and its value without attributes.
fn put<N: Nlri>(parts: &mut Vec<Part>, peer: PeerId, nlri: &N) {
    let (mut key, mut path) = (Vec::new(), Vec::new());
    N::key_octets(&nlri.key(), &mut key);
    for path_id in [0, 9] {
        path.clear();
        write_path(path_id, &key, &mut path);
        let octets = FactKey::Route(N::family(), peer, &path).encode();
        parts.push((
            format!("key of path {path_id}, {}", N::family()),
            octets.to_vec(),
        ));
    }
    let bare = Attributes::default().to_octets();
    let value = encode_path(nlri, &bare, &mut Vec::new());
    parts.push((format!("value of a path, {}", N::family()), value.to_vec()));
}

fn evpn(octets: &str) -> Route {
    let octets: Vec<u8> = (0..octets.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&octets[at..at + 2], 16).unwrap())
        .collect();
    let mut reader = Reader::new(&octets, 0, Fault::NlriFraming);
    if octets[0] > 11 {
        return Route::decode_opaque(&mut reader).unwrap();
    }
    <Route as Nlri>::decode(&mut reader).unwrap()
}

/// Each attribute that is stored, and each form of next hop.
fn attributes() -> [Attributes; 3] {
    let all = Attributes {
        origin: Origin::Incomplete,
        as_path: AsPath::sequence(&[64_496, 4_200_000_000]),
        next_hop: Some(NextHop::V4(V4)),
        med: Some(1),
        local_pref: Some(2),
        atomic_aggregate: true,
        aggregator: Some(Aggregator {
            asn: 64_497,
            address: V4,
        }),
        communities: vec![Community(0xfbf0_0001)],
        ext_communities: vec![ExtendedCommunity([0, 2, 1, 2, 3, 4, 5, 6])],
        ipv6_ext_communities: vec![Ipv6ExtendedCommunity([7; 20])],
        large_communities: vec![LargeCommunity {
            global: 64_496,
            local1: 1,
            local2: 2,
        }],
        originator_id: Some(RouterId(3)),
        cluster_list: vec![ClusterId(4), ClusterId(5)],
        pmsi: Some(PmsiTunnel {
            flags: 0,
            tunnel_type: PmsiTunnel::INGRESS_REPLICATION,
            label: [0, 0, 100],
            endpoint: Bytes::copy_from_slice(&V4.octets()),
        }),
        opaque: vec![OpaqueAttribute {
            code: 40,
            partial: true,
            value: Bytes::from_static(b"opaque"),
        }],
        unknown: Vec::new(),
    };
    let next_hops = [NextHop::V6(V6), NextHop::V6LinkLocal(V6, V6)];
    let [v6, link_local] = next_hops.map(|next_hop| Attributes {
        next_hop: Some(next_hop),
        ..Attributes::default()
    });
    [all, v6, link_local]
}

const V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Routes of types 1 to 11, and of one that nobody has defined, as on the wire.
const EVPN: [&str; 14] = [
    "01190000fbf0000000640300005e0053010000010000000a000641",
    "0224000200011170006400000000000000000000000000003000005e00530100002710004e20",
    "02340000fbf0000000640300005e005301000001000000003000005e0053018020010db8000000000000000000000001000640000c81",
    "031d0001c000020100640000000a8020010db8000000000000000000000053",
    "04230001c000020100010300005e0053010000018020010db8000000000000000000000053",
    "05220000fbf0000000c80300005e0053010000010000000018c6336400000000000000c8",
    "053a0000fbf0000000c800000000000000000000000000004020010db800010002000000000000000020010db8000000000000000000000001000000",
    "06180001c000020100640000000a0020ef01010120c000020102",
    "07220001c000020100640300005e0053010000010000000a0020ef01010120c000020102",
    "08270001c000020100640300005e0053010000010000000a0020ef01010120c0000201000000076402",
    "09140001c00002010064000000000009fbf000000000",
    "0a170001c00002010064000000000020ef01010120c0000201",
    "0b1b09140001c00002010064000000000009fbf00000000020c0000202",
    "0c0a00010203040506070809",
];
