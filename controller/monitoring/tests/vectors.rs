//! Octets whose author is not us, and what makes us write the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use weft_bgp::family::Family;
use weft_bgp::peer::RouterId;
use weft_monitoring::bmp::{
    self, Down, Initiation, Instance, Peer, PeerHeader, PeerUp, Policy, Rib,
};
use weft_monitoring::timestamp::Timestamp;
use weft_monitoring::update;

/// The octets of a file: hexadecimal digits below one line of provenance.
fn vector(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
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

const SECS_UP: u32 = 0x6b00_8d5c;
const SECS_ROUTES: u32 = 0x6b00_c2c8;
