//! One day of a reflector, told to a collector: sessions come up, tables, changes, counts, the end.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use weft_bgp::attribute::{AsPath, Attributes, Community, ExtendedCommunity, NextHop};
use weft_bgp::attribute::{Segment, SegmentKind};
use weft_bgp::family::Family;
use weft_bgp::peer::RouterId;
use weft_monitoring::bmp::{
    Down, Initiation, Instance, Peer, PeerHeader, PeerUp, Policy, Rib, Statistic, Termination,
};
use weft_monitoring::mrt::{self, Entry, TableDump};
use weft_monitoring::station::{Demand, Fate, Station};
use weft_monitoring::timestamp::Timestamp;
use weft_monitoring::update;

pub(crate) const ASN: u32 = 64_496;
pub(crate) const NOW: Timestamp = Timestamp {
    secs: 1_700_000_000,
    micros: 123_456,
};
pub(crate) const ROUTER: RouterId = RouterId(0xc000_02fe);

/// RD 64496:100, type 2: 00:00:5e:00:53:21, 192.0.2.21, label 100.
pub(crate) const MAC_IP: &str =
    "02250000fbf000000064000000000000000000000000000a3000005e00532120c0000215000064";
/// RD 64496:100, type 3: 192.0.2.253.
pub(crate) const MULTICAST: &str = "03110000fbf0000000640000000020c00002fd";
/// RD 64496:200, type 5: 198.51.100.0/24, label 200.
pub(crate) const IP_PREFIX: &str =
    "05220000fbf0000000c8000000000000000000000000000018c6336400000000000000c8";
/// 198.51.100.0/24.
pub(crate) const PREFIX4: &str = "18c63364";
/// 2001:db8:1::/48.
pub(crate) const PREFIX6: &str = "3020010db80001";

pub(crate) fn hex(digits: &str) -> Bytes {
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

pub(crate) fn peer4() -> Peer {
    Peer {
        instance: Instance::Global,
        address: Ipv4Addr::new(192, 0, 2, 1).into(),
        asn: ASN,
        router_id: RouterId(0xc000_0201),
    }
}

pub(crate) fn peer6() -> Peer {
    Peer {
        address: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
        asn: 4_200_000_002,
        router_id: RouterId(0xc000_0202),
        ..peer4()
    }
}

pub(crate) fn header(peer: Peer, rib: Rib) -> PeerHeader {
    PeerHeader {
        rib,
        peer,
        two_octet_as: false,
        time: NOW,
    }
}

pub(crate) fn loc_rib() -> PeerHeader {
    let peer = Peer::loc_rib(Instance::Global, ASN, ROUTER);
    header(peer, Rib::LocRib { filtered: false })
}

/// An OPEN with IPv4 and IPv6 unicast, EVPN and four-octet AS, as RFC 4271 §4.2 lays it out.
pub(crate) fn open(asn: u32, router_id: RouterId) -> Vec<u8> {
    let mut capabilities = hex("010400010001010400020001010400190046").to_vec();
    capabilities.extend_from_slice(&[65, 4]);
    capabilities.extend_from_slice(&asn.to_be_bytes());
    let short = u16::try_from(asn).unwrap_or(23_456);
    let mut body = vec![4];
    body.extend_from_slice(&short.to_be_bytes());
    body.extend_from_slice(&90_u16.to_be_bytes());
    body.extend_from_slice(&router_id.0.to_be_bytes());
    let length = u8::try_from(capabilities.len()).unwrap();
    body.extend_from_slice(&[length + 2, 2, length]);
    body.extend_from_slice(&capabilities);
    message(1, &body)
}

/// Cease, administrative shutdown.
pub(crate) fn notification() -> Vec<u8> {
    message(3, &[6, 2])
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![0xff; 16];
    let length = u16::try_from(body.len() + 19).unwrap();
    message.extend_from_slice(&length.to_be_bytes());
    message.push(kind);
    message.extend_from_slice(body);
    message
}

pub(crate) fn attributes(next_hop: IpAddr) -> Attributes {
    Attributes {
        as_path: AsPath {
            segments: vec![Segment {
                kind: SegmentKind::Sequence,
                asns: vec![4_200_000_001, 64_511],
            }],
        },
        next_hop: Some(match next_hop {
            IpAddr::V4(address) => NextHop::V4(address),
            IpAddr::V6(address) => NextHop::V6(address),
        }),
        med: Some(7),
        local_pref: Some(100),
        communities: vec![Community(0xfbf0_0001)],
        ..Attributes::default()
    }
}

/// With route target 64496:100 and VXLAN encapsulation.
pub(crate) fn evpn_attributes() -> Attributes {
    Attributes {
        ext_communities: vec![
            ExtendedCommunity([0, 2, 0xfb, 0xf0, 0, 0, 0, 100]),
            ExtendedCommunity([3, 12, 0, 0, 0, 0, 0, 8]),
        ],
        ..attributes(Ipv4Addr::new(192, 0, 2, 1).into())
    }
}

pub(crate) fn announce(family: Family, nlri: &str) -> Bytes {
    let attributes = match family {
        Family::L2VPN_EVPN => evpn_attributes(),
        Family::IPV6_UNICAST => attributes(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
        _ => attributes(Ipv4Addr::new(192, 0, 2, 1).into()),
    };
    update::announcement(family, hex(nlri), &attributes).unwrap()
}

pub(crate) const ROUTES: [(Family, &str); 5] = [
    (Family::IPV4_UNICAST, PREFIX4),
    (Family::IPV6_UNICAST, PREFIX6),
    (Family::L2VPN_EVPN, MAC_IP),
    (Family::L2VPN_EVPN, MULTICAST),
    (Family::L2VPN_EVPN, IP_PREFIX),
];

pub(crate) const FAMILIES: [Family; 3] = [
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
    Family::L2VPN_EVPN,
];

pub(crate) const ALL_STATISTICS: [Statistic; 17] = [
    Statistic::RejectedByPolicy(1),
    Statistic::DuplicateAnnouncements(2),
    Statistic::DuplicateWithdrawals(3),
    Statistic::ClusterListLoops(4),
    Statistic::AsPathLoops(5),
    Statistic::OriginatorLoops(6),
    Statistic::AdjRibIn(7),
    Statistic::LocRib(8),
    Statistic::AdjRibInOf(Family::L2VPN_EVPN, 9),
    Statistic::LocRibOf(Family::L2VPN_EVPN, 10),
    Statistic::UpdatesTreatedAsWithdraw(11),
    Statistic::PrefixesTreatedAsWithdraw(12),
    Statistic::DuplicateUpdates(13),
    Statistic::AdjRibOut(Policy::Pre, 14),
    Statistic::AdjRibOut(Policy::Post, 15),
    Statistic::AdjRibOutOf(Policy::Pre, Family::L2VPN_EVPN, 16),
    Statistic::AdjRibOutOf(Policy::Post, Family::L2VPN_EVPN, 17),
];

/// The tables that are told.
pub(crate) fn tables() -> Vec<PeerHeader> {
    let mut headers = vec![loc_rib()];
    for peer in [peer4(), peer6()] {
        headers.push(header(peer, Rib::AdjRibIn(Policy::Pre)));
        headers.push(header(peer, Rib::AdjRibIn(Policy::Post)));
        headers.push(header(peer, Rib::AdjRibOut(Policy::Pre)));
        headers.push(header(peer, Rib::AdjRibOut(Policy::Post)));
    }
    headers
}

pub(crate) fn initiation() -> Initiation {
    Initiation {
        name: "weft-1".to_owned(),
        description: "weft 0.1.0".to_owned(),
        text: String::new(),
    }
}

fn queued(fate: Fate) {
    assert_eq!(fate, Fate::Queued);
}

/// The whole day in octets.
pub(crate) fn stream() -> Vec<u8> {
    let mut station = Station::new(1 << 20);
    station.connect(&initiation());
    tell_up(&mut station);
    for header in tables() {
        for family in FAMILIES {
            queued(station.begin(&header, family));
        }
        for (family, nlri) in ROUTES {
            queued(
                station
                    .routes(&header, family, &announce(family, nlri))
                    .unwrap(),
            );
        }
        for family in FAMILIES {
            queued(station.end(&header, family));
        }
    }
    assert!(station.is_synchronized());
    let pre = header(peer4(), Rib::AdjRibIn(Policy::Pre));
    for (family, nlri) in ROUTES {
        let gone = update::withdrawal(family, hex(nlri)).unwrap();
        queued(station.routes(&pre, family, &gone).unwrap());
    }
    queued(station.statistics(&pre, &ALL_STATISTICS));
    queued(station.statistics(&loc_rib(), &[Statistic::LocRib(5)]));
    let pre6 = header(peer6(), Rib::AdjRibIn(Policy::Pre));
    let bye = notification();
    queued(
        station
            .peer_down(&pre, &Down::NotificationReceived(&bye))
            .unwrap(),
    );
    queued(
        station
            .peer_down(&pre6, &Down::NotificationSent(&bye))
            .unwrap(),
    );
    queued(
        station
            .peer_down(&loc_rib(), &Down::LocRib("global"))
            .unwrap(),
    );
    queued(station.terminate(Termination::Administrative));
    drain(&mut station)
}

pub(crate) fn tell_up(station: &mut Station) {
    let ours = open(ASN, ROUTER);
    let theirs = open(ASN, peer4().router_id);
    let mut up = PeerUp {
        local_address: Ipv4Addr::new(192, 0, 2, 254).into(),
        local_port: 179,
        remote_port: 50_001,
        sent: &ours,
        received: &theirs,
        table: "",
    };
    let pre = header(peer4(), Rib::AdjRibIn(Policy::Pre));
    queued(station.peer_up(&pre, &up).unwrap());
    up.table = "global";
    up.received = &ours;
    queued(station.peer_up(&loc_rib(), &up).unwrap());
    let theirs = open(peer6().asn, peer6().router_id);
    up.local_address = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe).into();
    up.received = &theirs;
    up.table = "";
    let pre = header(peer6(), Rib::AdjRibIn(Policy::Pre));
    queued(station.peer_up(&pre, &up).unwrap());
}

/// All that waits, as a connection would take it.
pub(crate) fn drain(station: &mut Station) -> Vec<u8> {
    let mut octets = Vec::new();
    while station.poll() == Demand::Write {
        let mut slices = [IoSlice::new(&[]); 8];
        let filled = station.slices(&mut slices);
        let chunk = slices[..filled]
            .iter()
            .flat_map(|slice| slice.iter().copied());
        let chunk: Vec<u8> = chunk.collect();
        station.advance(chunk.len());
        octets.extend_from_slice(&chunk);
    }
    octets
}

/// Messages by the length in their common header.
pub(crate) fn split(stream: &[u8]) -> Vec<&[u8]> {
    let mut rest = stream;
    let mut messages = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[0], 3);
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap());
        let (message, others) = rest.split_at(usize::try_from(length).unwrap());
        messages.push(message);
        rest = others;
    }
    messages
}

pub(crate) const PEERS: [(Ipv4Addr, u32); 2] = [
    (Ipv4Addr::new(192, 0, 2, 1), 64_496),
    (Ipv4Addr::new(192, 0, 2, 2), 4_200_000_002),
];

/// Two peers, one of them of IPv6; IPv4, IPv6 and EVPN, with and without path identifiers.
pub(crate) fn table(add_path: bool, evpn: bool) -> Vec<u8> {
    let peers = [
        mrt::Peer {
            router_id: PEERS[0].0.into(),
            address: PEERS[0].0.into(),
            asn: PEERS[0].1,
        },
        mrt::Peer {
            router_id: PEERS[1].0.into(),
            address: peer6().address,
            asn: PEERS[1].1,
        },
    ];
    let mut dump = TableDump::begin(Vec::new(), NOW, ROUTER, "", &peers).unwrap();
    for (family, nlri) in ROUTES {
        if family == Family::L2VPN_EVPN && !evpn {
            continue;
        }
        let attributes = attributes_of(family);
        let entry = |peer: u16, path_id: u32| Entry {
            peer,
            originated_secs: NOW.secs - 60,
            path_id: add_path.then_some(path_id),
            attributes: &attributes,
        };
        let entries = [entry(0, 1), entry(1, 7)];
        dump.destination(family, &hex(nlri), &entries).unwrap();
    }
    dump.finish().unwrap()
}

fn attributes_of(family: Family) -> Attributes {
    match family {
        Family::L2VPN_EVPN => evpn_attributes(),
        Family::IPV6_UNICAST => Attributes {
            next_hop: Some(NextHop::V6("2001:db8::1".parse().unwrap())),
            ..evpn_attributes()
        },
        _ => attributes(Ipv4Addr::new(192, 0, 2, 1).into()),
    }
}
