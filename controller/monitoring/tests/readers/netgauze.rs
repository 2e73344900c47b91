//! NetGauze's BMP decoder, another author's.

use std::net::SocketAddr;

use bytes::BytesMut;
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::wire::deserializer::BgpParsingContext;
use netgauze_bmp_pkt::v3::{BmpMessageValue, InitiationInformation};
use netgauze_bmp_pkt::wire::deserializer::BmpParsingContext;
use netgauze_bmp_pkt::{BmpMessage, BmpPeerType, PeerHeader, PeerKey};
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;
use weft_bgp::family::Family;
use weft_bgp::rd::Rd;
use weft_monitoring::bmp::{self, Instance, Peer, Policy, Rib};
use weft_monitoring::update;

use crate::story;

/// Decodes messages one by one, as a collector that remembers peers.
pub(crate) fn decode(stream: &[u8]) -> Vec<BmpMessageValue> {
    let mut context = BmpParsingContext::default();
    story::split(stream)
        .into_iter()
        .map(|octets| {
            let mut reader = SliceReader::new(octets);
            let message = BmpMessage::parse(&mut reader, &mut context)
                .unwrap_or_else(|error| panic!("{error} in {octets:02x?}"));
            assert!(reader.is_empty());
            let BmpMessage::V3(value) = message else {
                panic!("not version 3");
            };
            remember(&value, &mut context);
            value
        })
        .collect()
}

fn remember(value: &BmpMessageValue, context: &mut BmpParsingContext) {
    if let BmpMessageValue::PeerUpNotification(up) = value {
        let header = up.peer_header();
        context.add_default_peer(PeerKey::from_peer_header(header));
    }
}

#[test]
fn a_day_is_read_as_it_was_told() {
    let stream = story::stream();
    let said: Vec<String> = decode(&stream).iter().map(outline).collect();
    let tables = story::tables().len();
    let per_table = story::ROUTES.len() + story::FAMILIES.len();
    assert_eq!(said[0], "Initiation weft 0.1.0, weft-1");
    assert_eq!(
        said[1],
        "up 192.0.2.1 AS 64496 id 192.0.2.1 at 192.0.2.254:179 from 50001"
    );
    assert_eq!(said[2], "up Loc-RIB AS 64496 id 192.0.2.254, global");
    assert_eq!(
        said[3],
        "up 2001:db8::2 AS 4200000002 id 192.0.2.2 at 2001:db8::fe:179 from 50001"
    );
    let told = &said[4..4 + tables * per_table];
    for (table, told) in told.chunks(per_table).enumerate() {
        for line in told {
            assert!(line.starts_with(TABLES[table]), "{line}");
        }
    }
    let rest = &said[4 + tables * per_table..];
    assert_eq!(rest.len(), story::ROUTES.len() + 2 + 3 + 1);
    assert_eq!(rest[5], "17 counts, 1700000000.123456");
    assert_eq!(rest[6], "1 counts, 1700000000.123456");
    assert_eq!(rest[7], "down, reason 3");
    assert_eq!(rest[8], "down, reason 1");
    assert_eq!(rest[9], "down, reason 6");
    assert_eq!(rest[10], "Termination [Reason(AdministrativelyClosed)]");
}

/// What the rows of [`story::tables`] must be read as.
const TABLES: [&str; 9] = [
    "Loc-RIB",
    "192.0.2.1 in pre",
    "192.0.2.1 in post",
    "192.0.2.1 out pre",
    "192.0.2.1 out post",
    "2001:db8::2 in pre",
    "2001:db8::2 in post",
    "2001:db8::2 out pre",
    "2001:db8::2 out post",
];

fn outline(value: &BmpMessageValue) -> String {
    match value {
        BmpMessageValue::Initiation(message) => {
            let texts = message
                .information()
                .iter()
                .map(|information| match information {
                    InitiationInformation::SystemName(text)
                    | InitiationInformation::SystemDescription(text) => text.to_string(),
                    other => panic!("{other:?}"),
                });
            format!("Initiation {}", texts.collect::<Vec<_>>().join(", "))
        }
        BmpMessageValue::Termination(message) => {
            format!("Termination {:?}", message.information())
        }
        BmpMessageValue::PeerUpNotification(up) => {
            let header = up.peer_header();
            let who = format!("AS {} id {}", header.peer_as(), header.bgp_id());
            match header.address() {
                Some(address) => format!(
                    "up {address} {who} at {} from {}",
                    SocketAddr::from((up.local_address().unwrap(), up.local_port().unwrap()))
                        .to_string()
                        .replace(['[', ']'], ""),
                    up.remote_port().unwrap()
                ),
                None => {
                    assert_eq!(up.local_address(), None);
                    assert_eq!(up.sent_message(), up.received_message());
                    let [InitiationInformation::VrfTableName(name)] = up.information() else {
                        panic!("{:?}", up.information());
                    };
                    format!("up Loc-RIB {who}, {name}")
                }
            }
        }
        BmpMessageValue::RouteMonitoring(message) => {
            assert!(matches!(message.update_message(), BgpMessage::Update(_)));
            table(message.peer_header())
        }
        BmpMessageValue::StatisticsReport(message) => {
            let time = message.peer_header().timestamp().unwrap();
            format!(
                "{} counts, {}.{}",
                message.counters().len(),
                time.timestamp(),
                time.timestamp_subsec_micros()
            )
        }
        BmpMessageValue::PeerDownNotification(message) => {
            format!("down, reason {}", message.reason().get_type() as u8)
        }
        other => panic!("{other:?}"),
    }
}

fn table(header: &PeerHeader) -> String {
    match header.peer_type() {
        BmpPeerType::GlobalInstancePeer {
            ipv6,
            post_policy,
            asn2,
            adj_rib_out,
        } => {
            let address = header.address().unwrap();
            assert_eq!(ipv6, address.is_ipv6());
            assert!(!asn2);
            let way = if adj_rib_out { "out" } else { "in" };
            let policy = if post_policy { "post" } else { "pre" };
            format!("{address} {way} {policy}")
        }
        BmpPeerType::LocRibInstancePeer { filtered: false } => "Loc-RIB".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_back_is_what_we_wrote() {
    let stream = story::stream();
    for (octets, value) in story::split(&stream).into_iter().zip(decode(&stream)) {
        // It writes attributes with two-octet lengths, and MP attributes behind the others.
        if matches!(value, BmpMessageValue::RouteMonitoring(_)) {
            continue;
        }
        let mut written = Vec::new();
        BmpMessage::V3(value).write(&mut written).unwrap();
        assert_eq!(written, octets);
    }
}

#[test]
fn instances_are_told_apart() {
    let rd = Rd::from_as2(64_496, 7);
    for (instance, expected) in [
        (Instance::Distinguished(rd), "RdInstancePeer"),
        (Instance::Local(9), "LocalInstancePeer"),
    ] {
        let peer = Peer {
            instance,
            ..story::peer4()
        };
        let mut header = story::header(peer, Rib::AdjRibIn(Policy::Post));
        header.two_octet_as = true;
        let mut out = BytesMut::new();
        bmp::statistics(&mut out, &header, &[]);
        let decoded = format!("{:?}", decode(&out));
        assert!(decoded.contains(expected), "{decoded}");
        assert!(decoded.contains("asn2: true"), "{decoded}");
        // The counts are of the session, not of a table.
        assert!(decoded.contains("post_policy: false"), "{decoded}");
    }
}

#[test]
fn path_identifiers_are_read_where_they_were_agreed_on() {
    let header = story::header(story::peer4(), Rib::AdjRibIn(Policy::Pre));
    let nlri = [story::hex("00000007"), story::hex(story::PREFIX4)].concat();
    let attributes = story::attributes(story::peer4().address);
    let update = update::announcement(Family::IPV4_UNICAST, nlri.into(), &attributes).unwrap();
    let mut out = BytesMut::new();
    bmp::route_monitoring(&mut out, &header, &update).unwrap();
    let mut peer = BgpParsingContext::default();
    peer.add_path_mut().insert(AddressType::Ipv4Unicast, true);
    let flags = BmpPeerType::GlobalInstancePeer {
        ipv6: false,
        post_policy: false,
        asn2: false,
        adj_rib_out: false,
    };
    let address = story::peer4().address;
    let id = story::peer4().router_id.0.into();
    let mut context = BmpParsingContext::default();
    context.add_peer(
        PeerKey::new(Some(address), flags, None, story::ASN, id),
        peer,
    );
    let message = BmpMessage::parse(&mut SliceReader::new(&out), &mut context).unwrap();
    let read = format!("{message:?}");
    assert!(read.contains("path_id: Some(7)"), "{read}");
    assert!(read.contains("198.51.100.0/24"), "{read}");
}
