//! bgpkit-parser, another author's: BMP, and MRT tables and logs.

use std::net::Ipv4Addr;

use bgpkit_parser::models::{MrtMessage, RibAfiEntries, TableDumpV2Message};
use bgpkit_parser::parser::bmp::messages::BmpMessageBody;
use bgpkit_parser::parser::bmp::parse_bmp_msg;
use bgpkit_parser::{BgpElem, BgpkitParser};
use bytes::Bytes;
use weft_monitoring::mrt::{Direction, FsmState, Session, UpdateLog};
use weft_monitoring::timestamp::Timestamp;
use weft_monitoring::update;

use crate::story::{self, NOW, hex};

#[test]
fn a_day_in_bmp_is_read() {
    let stream = story::stream();
    let mut routes = 0;
    for octets in story::split(&stream) {
        let mut octets = Bytes::copy_from_slice(octets);
        let message = parse_bmp_msg(&mut octets).unwrap();
        assert!(octets.is_empty());
        if let Some(header) = message.per_peer_header {
            assert_eq!(header.timestamp, 1_700_000_000.123_456);
        }
        if let BmpMessageBody::RouteMonitoring(_) = message.message_body {
            routes += 1;
        }
    }
    let per_table = story::ROUTES.len() + story::FAMILIES.len();
    assert_eq!(
        routes,
        story::tables().len() * per_table + story::ROUTES.len()
    );
}

fn elements(octets: &[u8]) -> Vec<BgpElem> {
    BgpkitParser::from_reader(octets).into_iter().collect()
}

#[test]
fn a_table_of_ipv4_and_ipv6_is_read_as_it_is() {
    for add_path in [false, true] {
        let octets = story::table(add_path, false);
        let elements = elements(&octets);
        let read: Vec<String> = elements
            .iter()
            .map(|path| {
                format!(
                    "{} from {} AS {} via {} path {}",
                    path.prefix.prefix,
                    path.peer_ip,
                    path.peer_asn,
                    path.next_hop.unwrap(),
                    path.as_path.as_ref().unwrap(),
                )
            })
            .collect();
        let path = "path 4200000001 64511";
        let (one, two) = ("192.0.2.1 AS 64496", "2001:db8::2 AS 4200000002");
        assert_eq!(
            read,
            [
                format!("198.51.100.0/24 from {one} via 192.0.2.1 {path}"),
                format!("198.51.100.0/24 from {two} via 192.0.2.1 {path}"),
                format!("2001:db8:1::/48 from {one} via 2001:db8::1 {path}"),
                format!("2001:db8:1::/48 from {two} via 2001:db8::1 {path}"),
            ]
        );
        for path in elements {
            assert_eq!((path.local_pref, path.med), (Some(100), Some(7)));
        }
        let ids = if add_path {
            [Some(1), Some(7)]
        } else {
            [None, None]
        };
        for record in destinations(&octets) {
            let paths = record.rib_entries.iter();
            assert_eq!(paths.map(|path| path.path_id).collect::<Vec<_>>(), ids);
        }
    }
}

fn destinations(octets: &[u8]) -> Vec<RibAfiEntries> {
    BgpkitParser::from_reader(octets)
        .into_record_iter()
        .filter_map(|record| match record.message {
            MrtMessage::TableDumpV2Message(TableDumpV2Message::RibAfi(entries)) => Some(entries),
            _ => None,
        })
        .collect()
}

#[test]
fn sequence_numbers_count_records() {
    let octets = story::table(true, false);
    let sequence = destinations(&octets);
    let sequence = sequence.iter().map(|record| record.sequence_number);
    assert_eq!(sequence.collect::<Vec<_>>(), [0, 1]);
}

/// Messages and states of one session, both ways; with two-octet AS numbers what is withdrawn.
pub(crate) fn log(two_octet_as: bool) -> Vec<u8> {
    let session = Session {
        peer_asn: story::PEERS[0].1,
        local_asn: story::ASN,
        interface: 0,
        peer_address: story::PEERS[0].0.into(),
        local_address: Ipv4Addr::new(192, 0, 2, 254).into(),
        two_octet_as,
        add_path: false,
    };
    let mut log = UpdateLog::new(Vec::new());
    log.state_change(NOW, &session, FsmState::OpenConfirm, FsmState::Established)
        .unwrap();
    for (turn, (family, nlri)) in (0..).zip(story::ROUTES) {
        let update = if two_octet_as {
            // Without an AS_PATH, since ours has four octets.
            update::withdrawal(family, hex(nlri)).unwrap()
        } else {
            story::announce(family, nlri)
        };
        let time = Timestamp {
            micros: NOW.micros + turn,
            ..NOW
        };
        log.message(time, &session, Direction::Received, &update)
            .unwrap();
        log.message(time, &session, Direction::Sent, &update)
            .unwrap();
    }
    log.finish().unwrap()
}

#[test]
fn a_log_is_read_as_it_is() {
    let octets = log(false);
    let records = BgpkitParser::from_reader(&octets[..]).into_record_iter();
    assert_eq!(records.count(), 1 + 2 * story::ROUTES.len());
    let elements = elements(&octets);
    let prefixes: Vec<String> = elements
        .iter()
        .map(|path| format!("{} {}", path.prefix.prefix, path.timestamp))
        .collect();
    assert_eq!(prefixes[0], "198.51.100.0/24 1700000000.123456");
    assert_eq!(prefixes[1], prefixes[0]);
    assert_eq!(prefixes[2], "2001:db8:1::/48 1700000000.123457");
}
