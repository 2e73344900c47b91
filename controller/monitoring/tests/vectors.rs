//! Octets whose author is not us, and what makes us write the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use weft_bgp::attribute::{Attributes, NextHop, Origin};
use weft_bgp::family::Family;
use weft_bgp::peer::RouterId;
use weft_monitoring::bmp::{
    self, Down, Initiation, Instance, Peer, PeerHeader, PeerUp, Policy, Rib,
};
use weft_monitoring::mrt::{self, Entry, TableDump};
use weft_monitoring::timestamp::Timestamp;
use weft_monitoring::update;

/// The octets of a file: hexadecimal digits below one line of provenance.
fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new("tests/vectors");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let (provenance, digits) = text.split_once('\n').unwrap();
    assert!(provenance.starts_with("# provenance: "), "{name}");
    hex(digits)
}

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// GoBGP, as FRR's header names it.
fn header(policy: Policy, router_id: [u8; 4], secs: u32, micros: u32) -> PeerHeader {
    PeerHeader {
        rib: Rib::AdjRibIn(policy),
        peer: Peer {
            instance: Instance::Global,
            address: Ipv4Addr::new(127, 0, 0, 3).into(),
            asn: 64_496,
            router_id: RouterId(u32::from_be_bytes(router_id)),
        },
        two_octet_as: false,
        time: Timestamp { secs, micros },
    }
}

const GOBGP: [u8; 4] = [192, 0, 2, 253];

#[test]
fn initiation_is_that_of_frr() {
    let mut out = BytesMut::new();
    let initiation = Initiation {
        name: "leaf1".to_owned(),
        description: "FRRouting 8.4.4".to_owned(),
        text: String::new(),
    };
    bmp::initiation(&mut out, &initiation);
    assert_eq!(out, vector("frr-initiation.txt"));
}

#[test]
fn peer_up_is_that_of_frr() {
    let octets = vector("frr-peer-up.txt");
    // Header, local address, ports; then the OPENs of both.
    let opens = &octets[48 + 20..];
    let (sent, received) = opens.split_at(0x87);
    let up = PeerUp {
        local_address: Ipv4Addr::new(127, 0, 0, 2).into(),
        local_port: 0xa793,
        remote_port: 1_179,
        sent,
        received,
        table: "",
    };
    let mut out = BytesMut::new();
    let header = header(Policy::Pre, GOBGP, SECS_UP, 0x000e_f8fe);
    bmp::peer_up(&mut out, &header, &up).unwrap();
    assert_eq!(out, octets);
}

#[test]
fn peer_down_is_that_of_frr() {
    let mut out = BytesMut::new();
    let header = header(Policy::Pre, [0; 4], SECS_UP, 0x000e_f8fe);
    bmp::peer_down(&mut out, &header, &Down::NoNotificationSent(0)).unwrap();
    assert_eq!(out, vector("frr-peer-down.txt"));
}

#[test]
fn routes_are_those_of_frr() {
    let mut out = BytesMut::new();
    let nlri = Bytes::from(hex("18c63364"));
    let gone = update::withdrawal(Family::IPV4_UNICAST, nlri).unwrap();
    let pre = header(Policy::Pre, GOBGP, SECS_ROUTES, 0x000e_f8ff);
    bmp::route_monitoring(&mut out, &pre, &gone).unwrap();
    assert_eq!(out, vector("frr-withdrawal.txt"));

    // Its attributes stand in another order, so here the message is its own.
    let octets = vector("frr-announcement.txt");
    let mut out = BytesMut::new();
    let post = header(Policy::Post, GOBGP, SECS_ROUTES, 0x000e_f8fe);
    bmp::route_monitoring(&mut out, &post, &octets[48..]).unwrap();
    assert_eq!(out, octets);
}

fn gobgp() -> [mrt::Peer; 2] {
    let peer = |address, asn| mrt::Peer {
        router_id: RouterId(0),
        address,
        asn,
    };
    [
        peer(Ipv4Addr::UNSPECIFIED.into(), 0),
        peer(Ipv4Addr::new(127, 0, 0, 2).into(), 64_496),
    ]
}

/// A record of a dump that GoBGP would begin as we do: one EVPN destination.
fn record(path_id: Option<u32>) -> Vec<u8> {
    let peers = gobgp();
    let mut dump = TableDump::begin(Vec::new(), SECS_DUMP, RouterId(0), "", &peers).unwrap();
    let attributes = Attributes {
        origin: Origin::Incomplete,
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 253))),
        ..Attributes::default()
    };
    let entry = Entry {
        peer: 1,
        originated_secs: 0x6b00_c2eb,
        path_id,
        attributes: &attributes,
    };
    let nlri = hex(EVPN);
    dump.destination(Family::L2VPN_EVPN, &nlri, &[entry])
        .unwrap();
    let octets = dump.finish().unwrap();
    let (table, record) = octets.split_at(12 + 34);
    assert_eq!(table, vector("gobgp-peer-index.txt"));
    record.to_vec()
}

#[test]
fn a_table_of_peers_and_the_head_of_a_destination_are_those_of_gobgp() {
    let (ours, theirs) = (record(None), vector("gobgp-evpn.txt"));
    // Seconds and type, AFI and SAFI, NLRI and how many paths. Its sequence goes on from other routes,
    // and it puts the path identifier into the entry, which RFC 8050 §4.2 does not.
    assert_eq!(ours[..6], theirs[..6]);
    assert_eq!((ours[7], theirs[7]), (6, 12));
    let head = 16..16 + 3 + EVPN.len() / 2 + 2;
    assert_eq!(ours[head.clone()], theirs[head]);
}

#[test]
fn a_destination_of_evpn_is_that_of_the_rfcs() {
    // RFC 6396 §4.3.3: sequence, AFI, SAFI, NLRI, one path; §4.3.4: peer, time, attributes with the next
    // hop in a short MP_REACH_NLRI, ORIGIN and an empty AS_PATH.
    let attributes = "000f 800e05 04c00002fd 40010102 400200";
    let entry = format!("0001 0001 6b00c2eb {attributes}");
    let plain = format!("6b00c325 000d 0006 00000047 00000000 0019 46 {EVPN} {entry}");
    assert_eq!(record(None), hex(&plain));
    // RFC 8050 §4.2: the path identifier is part of the NLRI.
    let add_path = format!("6b00c325 000d 000c 0000004b 00000000 0019 46 00000007 {EVPN} {entry}");
    assert_eq!(record(Some(7)), hex(&add_path));
}

/// RD 64496:100, type 2: 00:00:5e:00:53:21, 192.0.2.21, label 100.
const EVPN: &str = "02250000fbf000000064000000000000000000000000000a3000005e00532120c0000215000064";
const SECS_DUMP: Timestamp = Timestamp {
    secs: 1_795_212_069,
    micros: 0,
};
const SECS_UP: u32 = 0x6b00_8d5c;
const SECS_ROUTES: u32 = 0x6b00_c2c8;
