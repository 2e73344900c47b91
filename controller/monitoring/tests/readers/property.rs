//! Whatever the values, the octets have the right lengths and NetGauze reads them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Bytes, BytesMut};
use netgauze_bmp_pkt::v3::BmpMessageValue;
use proptest::collection::vec;
use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, Community, ExtendedCommunity, NextHop};
use weft_bgp::family::Family;
use weft_bgp::peer::RouterId;
use weft_bgp::rd::Rd;
use weft_monitoring::bmp::{
    self, Down, Initiation, Instance, Peer, PeerHeader, PeerUp, Policy, Rib, Statistic, Termination,
};
use weft_monitoring::mrt::{Entry, TableDump};
use weft_monitoring::station::{Demand, Fate, Station, reconnect_secs};
use weft_monitoring::timestamp::Timestamp;
use weft_monitoring::update;

use crate::{netgauze, story};

fn ribs() -> impl Strategy<Value = Rib> {
    prop_oneof![
        Just(Rib::AdjRibIn(Policy::Pre)),
        Just(Rib::AdjRibIn(Policy::Post)),
        Just(Rib::AdjRibOut(Policy::Pre)),
        Just(Rib::AdjRibOut(Policy::Post)),
        any::<bool>().prop_map(|filtered| Rib::LocRib { filtered }),
    ]
}

fn headers() -> impl Strategy<Value = PeerHeader> {
    let instances = prop_oneof![
        Just(Instance::Global),
        (any::<u16>(), any::<u32>())
            .prop_map(|(asn, number)| Instance::Distinguished(Rd::from_as2(asn, number))),
    ];
    (
        ribs(),
        instances,
        any::<IpAddr>(),
        any::<u32>(),
        // A unicast address, or the OPEN is refused.
        0x0100_0000..0x7f00_0000_u32,
        any::<u64>(),
    )
        .prop_map(|(rib, instance, address, asn, id, micros)| PeerHeader {
            rib,
            peer: Peer {
                instance,
                address,
                asn,
                router_id: RouterId(id),
            },
            two_octet_as: false,
            time: Timestamp::from_micros(micros),
        })
}

fn next_hops() -> impl Strategy<Value = NextHop> {
    prop_oneof![
        any::<Ipv4Addr>().prop_map(NextHop::V4),
        any::<Ipv6Addr>().prop_map(NextHop::V6),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    (
        next_hops(),
        vec(any::<u32>(), 0..80),
        vec(any::<[u8; 8]>(), 0..40),
        any::<Option<u32>>(),
        any::<bool>(),
    )
        .prop_map(
            |(next_hop, communities, extended, med, atomic_aggregate)| Attributes {
                next_hop: Some(next_hop),
                communities: communities.into_iter().map(Community).collect(),
                ext_communities: extended.into_iter().map(ExtendedCommunity).collect(),
                med,
                atomic_aggregate,
                ..story::attributes(Ipv4Addr::LOCALHOST.into())
            },
        )
}

/// IPv4 prefixes of 32 bits, as many as fit a short message and more.
fn prefixes(count: usize) -> Bytes {
    let one = |number: usize| [32, 198, 51, 100, u8::try_from(number % 256).unwrap()];
    (0..count).flat_map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn announcements_are_read(
        header in headers(),
        mut attributes in attributes(),
        count in 1..3_000_usize,
    ) {
        if !matches!(attributes.next_hop, Some(NextHop::V4(_))) {
            attributes.next_hop = Some(NextHop::V4(Ipv4Addr::LOCALHOST));
        }
        let message =
            update::announcement(Family::IPV4_UNICAST, prefixes(count), &attributes).unwrap();
        let mut out = BytesMut::new();
        bmp::route_monitoring(&mut out, &header, &message).unwrap();
        prop_assert_eq!(out.len(), bmp::ROUTE_MONITORING_HEAD_LEN + message.len());
        let gone = update::withdrawal(Family::IPV4_UNICAST, prefixes(count)).unwrap();
        bmp::route_monitoring(&mut out, &header, &gone).unwrap();
        prop_assert_eq!(netgauze_decodes(&header, &out), 2);
    }

    #[test]
    fn evpn_announcements_are_read(header in headers(), attributes in attributes()) {
        for nlri in [story::MAC_IP, story::MULTICAST, story::IP_PREFIX] {
            let nlri = story::hex(nlri);
            let message =
                update::announcement(Family::L2VPN_EVPN, nlri.clone(), &attributes).unwrap();
            let mut out = BytesMut::new();
            bmp::route_monitoring(&mut out, &header, &message).unwrap();
            let gone = update::withdrawal(Family::L2VPN_EVPN, nlri).unwrap();
            bmp::route_monitoring(&mut out, &header, &gone).unwrap();
            prop_assert_eq!(netgauze_decodes(&header, &out), 2);
        }
    }

    #[test]
    fn sessions_are_read(
        header in headers(),
        local in any::<IpAddr>(),
        ports in any::<(u16, u16)>(),
        table in ".{0,300}",
        event in any::<u16>(),
        texts in any::<(String, String, String)>(),
    ) {
        let open = story::open(header.peer.asn, header.peer.router_id);
        let table = if table.is_empty() { "global".to_owned() } else { table };
        let up = PeerUp {
            local_address: local,
            local_port: ports.0,
            remote_port: ports.1,
            sent: &open,
            received: &open,
            table: &table,
        };
        let mut out = BytesMut::new();
        let (name, description, text) = texts;
        bmp::initiation(&mut out, &Initiation { name, description, text });
        bmp::peer_up(&mut out, &header, &up).unwrap();
        let bye = story::notification();
        for down in [
            Down::NotificationSent(&bye),
            Down::NoNotificationSent(event),
            Down::NotificationReceived(&bye),
            Down::ClosedByPeer,
            Down::NoLongerMonitored,
            Down::LocRib(&table),
        ] {
            bmp::peer_down(&mut out, &header, &down).unwrap();
        }
        bmp::termination(&mut out, Termination::OutOfResources);
        prop_assert_eq!(netgauze::decode(&out).len(), 9);
    }

    #[test]
    fn octets_that_are_no_message_are_refused(octets in vec(any::<u8>(), 0..80)) {
        let header = story::loc_rib();
        let mut out = BytesMut::new();
        let up = PeerUp {
            local_address: Ipv4Addr::LOCALHOST.into(),
            local_port: 0,
            remote_port: 0,
            sent: &octets,
            received: &octets,
            table: "",
        };
        prop_assert!(bmp::route_monitoring(&mut out, &header, &octets).is_err());
        prop_assert!(bmp::peer_up(&mut out, &header, &up).is_err());
        prop_assert!(bmp::peer_down(&mut out, &header, &Down::NotificationSent(&octets)).is_err());
        prop_assert!(out.is_empty());
    }

    /// Whatever happens in whatever order: the queue keeps its bound, and what comes out is whole
    /// messages that begin with Initiation and speak of no peer that is not up.
    #[test]
    fn a_station_keeps_its_bound_and_its_order(
        steps in vec((0..9_u8, 0..3_usize, 0..5_usize, 0..200_usize), 1..120),
    ) {
        let bound = 140_000;
        let mut station = Station::new(bound);
        let mut heard = Vec::new();
        let peers = [
            story::loc_rib(),
            story::header(story::peer4(), Rib::AdjRibIn(Policy::Pre)),
            story::header(story::peer6(), Rib::AdjRibOut(Policy::Post)),
        ];
        for (step, peer, route, count) in steps {
            let header = &peers[peer];
            let (family, nlri) = story::ROUTES[route];
            match step {
                0 | 1 if station.poll() == Demand::Close || heard.is_empty() => {
                    station.disconnect();
                    station.connect(&story::initiation());
                    heard = story::drain(&mut station);
                }
                0..=2 => {
                    let open = story::open(header.peer.asn, header.peer.router_id);
                    let up = PeerUp {
                        local_address: header.peer.address,
                        local_port: 179,
                        remote_port: 1,
                        sent: &open,
                        received: &open,
                        table: "global",
                    };
                    station.peer_up(header, &up).unwrap();
                }
                3 => {
                    station.begin(header, family);
                }
                4 | 5 => {
                    let update = story::announce(family, nlri);
                    for _ in 0..count * 2 {
                        station.routes(header, family, &update).unwrap();
                    }
                    // A long one is shared.
                    let long = update::withdrawal(family, Bytes::from(vec![0; count * 300])).unwrap();
                    station.routes(header, family, &long).unwrap();
                }
                6 => {
                    station.end(header, family);
                }
                7 => {
                    station.peer_down(header, &Down::ClosedByPeer).unwrap();
                    station.statistics(header, &[Statistic::LocRib(1)]);
                }
                _ if count % 4 == 0 => heard.extend(story::drain(&mut station)),
                _ => {}
            }
            prop_assert!(station.queued() <= bound);
            prop_assert!(station.room() <= bound);
        }
        heard.extend(story::drain(&mut station));
        let mut up = [false; 3];
        for (turn, message) in story::split(&heard).into_iter().enumerate() {
            prop_assert_eq!(message[5] == 4, turn == 0);
            let peer = match (message[5], message[6], message[7] & 0x80) {
                (4, ..) => continue,
                (_, 3, _) => 0,
                (_, _, 0) => 1,
                _ => 2,
            };
            match message[5] {
                3 => {
                    prop_assert!(!up[peer]);
                    up[peer] = true;
                }
                2 => {
                    prop_assert!(up[peer]);
                    up[peer] = false;
                }
                _ => prop_assert!(up[peer]),
            }
        }
    }

    #[test]
    fn tables_are_read(attributes in attributes(), id in any::<Option<u32>>(), time in any::<u32>()) {
        let peer = weft_monitoring::mrt::Peer {
            router_id: story::ROUTER,
            address: Ipv4Addr::LOCALHOST.into(),
            asn: story::ASN,
        };
        let mut dump =
            TableDump::begin(Vec::new(), story::NOW, story::ROUTER, "view", &[peer]).unwrap();
        let entry = Entry { peer: 0, originated_secs: time, path_id: id, attributes: &attributes };
        for (family, nlri) in story::ROUTES {
            dump.destination(family, &story::hex(nlri), &[entry, entry]).unwrap();
            let nobody = Entry { peer: 1, ..entry };
            prop_assert!(dump.destination(family, &story::hex(nlri), &[nobody]).is_err());
            dump.destination(family, &story::hex(nlri), &[]).unwrap();
        }
        // Two records of a path identifier each, for each of three EVPN routes.
        prop_assert_eq!(dump.records(), if id.is_some() { 8 } else { 5 });
        let octets = dump.finish().unwrap();
        let elements = bgpkit_parser::BgpkitParser::from_reader(&octets[..]);
        prop_assert_eq!(elements.into_iter().count(), 4);
    }
}

/// How many Route Monitoring messages NetGauze reads behind a Peer Up of their peer.
fn netgauze_decodes(header: &PeerHeader, messages: &[u8]) -> usize {
    let open = story::open(header.peer.asn, header.peer.router_id);
    let up = PeerUp {
        local_address: header.peer.address,
        local_port: 179,
        remote_port: 1,
        sent: &open,
        received: &open,
        table: "global",
    };
    let mut out = BytesMut::new();
    bmp::peer_up(&mut out, header, &up).unwrap();
    out.extend_from_slice(messages);
    let decoded = netgauze::decode(&out);
    let routes = decoded.iter();
    routes
        .filter(|value| matches!(value, BmpMessageValue::RouteMonitoring(_)))
        .count()
}

#[test]
fn what_is_too_long_is_refused() {
    let attributes = story::attributes(Ipv4Addr::LOCALHOST.into());
    let family = Family::L2VPN_EVPN;
    let nlri = Bytes::from(vec![0; 65_500]);
    assert!(update::announcement(family, nlri.clone(), &attributes).is_err());
    assert!(update::withdrawal(family, nlri).is_err());
    let nowhere = Attributes {
        next_hop: None,
        ..attributes
    };
    assert!(update::announcement(family, Bytes::new(), &nowhere).is_err());
}

#[test]
fn a_slow_collector_hears_the_whole_story_again() {
    let mut station = Station::new(0);
    station.connect(&story::initiation());
    story::tell_up(&mut station);
    let table = story::loc_rib();
    let family = Family::IPV4_UNICAST;
    let update = story::announce(family, story::PREFIX4);
    // What is not begun is not told, since the table will have it.
    assert_eq!(station.routes(&table, family, &update), Ok(Fate::NotBegun));
    assert_eq!(station.begin(&table, family), Fate::Queued);
    let mut told = 0;
    while station.routes(&table, family, &update).unwrap() == Fate::Queued {
        told += 1;
    }
    assert!(told > 100);
    assert_eq!((station.poll(), station.queued()), (Demand::Close, 0));
    assert_eq!(station.room(), 0);
    assert_eq!(station.end(&table, family), Fate::NotConnected);
    let counters = station.counters();
    assert_eq!((counters.overruns, counters.octets), (1, 0));
    assert!(counters.octets_dropped > 60_000);
    station.disconnect();
    assert_eq!(station.poll(), Demand::Nothing);
    station.connect(&story::initiation());
    assert!(!station.is_up(&table));
    assert_eq!(station.begin(&table, family), Fate::NotUp);
    story::tell_up(&mut station);
    assert_eq!(station.begin(&table, family), Fate::Queued);
    assert!(!station.is_synchronized());
    assert_eq!(station.end(&table, family), Fate::Queued);
    assert!(station.is_synchronized());
    assert_eq!(netgauze::decode(&story::drain(&mut station)).len(), 5);
}

#[test]
fn a_session_that_comes_up_twice_goes_down_between() {
    let mut station = Station::new(0);
    station.connect(&story::initiation());
    story::tell_up(&mut station);
    story::tell_up(&mut station);
    let kinds: Vec<u8> = story::split(&story::drain(&mut station))
        .into_iter()
        .map(|message| message[5])
        .collect();
    assert_eq!(kinds, [4, 3, 3, 3, 2, 3, 2, 3, 2, 3]);
}

#[test]
fn attempts_to_reconnect_get_rarer() {
    let waits: Vec<u32> = (0..7).map(reconnect_secs).collect();
    assert_eq!(waits, [30, 60, 120, 240, 480, 720, 720]);
    assert_eq!(reconnect_secs(u32::MAX), 720);
}
