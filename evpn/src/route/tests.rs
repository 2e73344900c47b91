//! Faults C1 to C16 of EVPN NLRI, and what holds for every route and every octets.

#![expect(clippy::indexing_slicing, reason = "a test that panics has failed")]

mod rare;

use std::net::IpAddr;

use proptest::prelude::*;
use weft_bgp::nlri::decode_all;
use weft_bgp::rd::Rd;

use super::*;
use crate::{Esi, EthernetTag, Mac};

/// Any route that the wire can carry.
pub(crate) fn any_route() -> impl Strategy<Value = Route> {
    prop_oneof![5 => common_route(), 7 => rare::route()]
}

fn common_route() -> impl Strategy<Value = Route> {
    prop_oneof![
        (ad_key(), maybe_label())
            .prop_map(|(key, label)| Route::EthernetAd(EthernetAd { key, label })),
        (mac_key(), esi(), labels()).prop_map(|(key, esi, labels)| Route::MacIp(MacIp {
            key,
            esi,
            labels
        })),
        (rd(), tag(), address()).prop_map(|(rd, tag, originator)| {
            let key = InclusiveMulticastKey {
                rd,
                tag,
                originator,
            };
            Route::InclusiveMulticast(InclusiveMulticast { key })
        }),
        (rd(), esi(), address()).prop_map(|(rd, esi, originator)| {
            let key = EthernetSegmentKey {
                rd,
                esi,
                originator,
            };
            Route::EthernetSegment(EthernetSegment { key })
        }),
        (
            rd(),
            tag(),
            address(),
            0..=128_u8,
            esi(),
            maybe_label(),
            any::<[u8; 16]>()
        )
            .prop_map(|(rd, tag, address, bits, esi, label, gateway)| {
                let bits = if address.is_ipv4() { bits % 33 } else { bits };
                let prefix = Prefix::new(address, bits).unwrap();
                let [a, b, c, d, ..] = gateway;
                let gateway = match address {
                    IpAddr::V4(_) => IpAddr::from([a, b, c, d]),
                    IpAddr::V6(_) => IpAddr::from(gateway),
                };
                let gateway = Some(gateway).filter(|gateway| !gateway.is_unspecified());
                let key = IpPrefixKey { rd, tag, prefix };
                Route::IpPrefix(IpPrefix {
                    key,
                    esi,
                    gateway,
                    label,
                })
            }),
    ]
}

/// Few values, so that equal keys are met.
fn rd() -> impl Strategy<Value = Rd> {
    prop_oneof![
        (0..3_u8).prop_map(|n| Rd([0, n, 0, 0, 0, 0, 0, n])),
        any::<[u8; 8]>().prop_map(Rd)
    ]
}

fn tag() -> impl Strategy<Value = EthernetTag> {
    prop_oneof![
        Just(EthernetTag(0)),
        Just(EthernetTag::MAX),
        any::<u32>().prop_map(EthernetTag)
    ]
}

fn esi() -> impl Strategy<Value = Esi> {
    prop_oneof![Just(Esi::ZERO), any::<[u8; 10]>().prop_map(Esi)]
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from)
    ]
}

fn label() -> impl Strategy<Value = Label> {
    any::<[u8; 3]>().prop_map(Label)
}

fn maybe_label() -> impl Strategy<Value = Option<Label>> {
    prop_oneof![Just(None), label().prop_map(Some)]
}

fn labels() -> impl Strategy<Value = Labels> {
    prop_oneof![
        Just(Labels::None),
        label().prop_map(Labels::One),
        (label(), label()).prop_map(|(first, second)| Labels::Two(first, second)),
    ]
}

fn ad_key() -> impl Strategy<Value = EthernetAdKey> {
    (rd(), esi(), tag()).prop_map(|(rd, esi, tag)| EthernetAdKey { rd, esi, tag })
}

fn mac_key() -> impl Strategy<Value = MacIpKey> {
    let ip = prop_oneof![Just(None), address().prop_map(Some)];
    (rd(), tag(), any::<[u8; 6]>(), ip).prop_map(|(rd, tag, mac, ip)| MacIpKey {
        rd,
        tag,
        mac: Mac(mac),
        ip,
    })
}

fn octets_of(route: &Route) -> Vec<u8> {
    let mut out = Writer::new();
    route.encode(&mut out);
    out.as_slice().to_vec()
}

fn key_octets(key: &RouteKey) -> Vec<u8> {
    let mut octets = Vec::new();
    Route::key_octets(key, &mut octets);
    octets
}

fn mac_ip(mac_bits: u8, ip_bits: u8, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 22];
    body.push(mac_bits);
    body.extend([0, 0, 0x5e, 0, 0x53, 1]);
    body.push(ip_bits);
    body.extend(rest);
    nlri(2, &body)
}

fn ip_prefix(bits: u8, rest: usize) -> Vec<u8> {
    let mut body = vec![0; 22];
    body.push(bits);
    body.resize(23 + rest, 0);
    nlri(5, &body)
}

fn originator(route_type: u8, ip_bits: u8, rest: usize) -> Vec<u8> {
    let mut body = vec![0; if route_type == 3 { 12 } else { 18 }];
    body.push(ip_bits);
    body.resize(body.len() + rest, 1);
    nlri(route_type, &body)
}

fn nlri(route_type: u8, body: &[u8]) -> Vec<u8> {
    [&[route_type, u8::try_from(body.len()).unwrap()], body].concat()
}

fn decode(octets: &[u8]) -> (Vec<Route>, Vec<DecodeError>, Result<(), DecodeError>) {
    let (mut routes, mut faults) = (Vec::new(), Vec::new());
    let end = decode_all(
        octets,
        false,
        |_, route| routes.push(route),
        |fault| faults.push(fault),
    );
    (routes, faults, end)
}

fn decode_opaque(octets: &[u8]) -> (Vec<Route>, Vec<DecodeError>, Result<(), DecodeError>) {
    let (mut routes, mut faults) = (Vec::new(), Vec::new());
    let end = Route::decode_all_opaque(
        octets,
        false,
        |_, route| routes.push(route),
        |fault| faults.push(fault),
    );
    (routes, faults, end)
}

/// Between two good routes: the bad one is discarded, the good ones stay, in order.
fn assert_discarded(bad: &[u8], fault: Fault) {
    let (first, last) = (mac_ip(48, 0, &[0, 0, 1]), mac_ip(48, 0, &[0, 0, 2]));
    let (routes, faults, end) = decode(&[&first[..], bad, &last].concat());
    assert_eq!(end, Ok(()), "{bad:02x?}");
    assert_eq!(
        routes.iter().map(octets_of).collect::<Vec<_>>(),
        [first, last],
        "{bad:02x?}"
    );
    assert_eq!(
        faults.iter().map(|error| error.fault).collect::<Vec<_>>(),
        [fault],
        "{bad:02x?}"
    );
    assert_eq!(
        fault.treatment(),
        weft_bgp::error::Treatment::AttributeDiscard
    );
}

#[test]
fn c1_types_that_are_not_ours_are_discarded_by_name() {
    for route_type in [0, 12, 13, 99, 255] {
        for body in [&[0; 1][..], &[0xff; 25], &[7; 255]] {
            assert_discarded(&nlri(route_type, body), Fault::NlriType { route_type });
        }
    }
}

#[test]
fn c2_a_length_of_zero_or_beyond_the_field_loses_the_framing() {
    let good = mac_ip(48, 0, &[0, 0, 1]);
    for bad in [
        &[2, 0][..],
        &[9, 0],
        &[2],
        &[2, 34, 1, 2],
        &[9, 1],
        &[2, 255, 0],
    ] {
        let (routes, faults, end) = decode(&[&good[..], bad].concat());
        assert_eq!(routes.len(), 1);
        assert!(faults.is_empty());
        let error = end.unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                fault: Fault::NlriFraming,
                offset: 35
            },
            "{bad:02x?}"
        );
        let notification = error.fault.notification();
        assert_eq!((notification.code, notification.subcode), (3, 9));
    }
}

#[test]
fn c3_bad_lengths_inside_type_2_are_discarded() {
    let value = |what| Fault::NlriValue {
        route_type: 2,
        what,
    };
    for bits in [0, 40, 47, 49, 56, 255] {
        assert_discarded(&mac_ip(bits, 0, &[0; 3]), value("MAC address length"));
    }
    for bits in [1, 24, 31, 33, 64, 127, 129, 255] {
        assert_discarded(&mac_ip(48, bits, &[0; 19]), value("IP address length"));
    }
    for (bits, rest) in [
        (0, 1),
        (0, 4),
        (0, 7),
        (0, 9),
        (32, 3),
        (32, 8),
        (32, 19),
        (128, 15),
        (128, 23),
    ] {
        let bad = mac_ip(48, bits, &vec![0; rest]);
        let length = bad[1];
        assert_discarded(
            &bad,
            Fault::NlriLength {
                route_type: 2,
                length,
            },
        );
    }
    for length in 1..30 {
        let bad = nlri(2, &mac_ip(48, 0, &[])[2..][..length.into()]);
        assert_discarded(
            &bad,
            Fault::NlriLength {
                route_type: 2,
                length,
            },
        );
    }
}

#[test]
fn c3_every_good_length_of_type_2_is_taken() {
    for (bits, address) in [(0, 0), (32, 4), (128, 16)] {
        for labels in [0, 3, 6] {
            let octets = mac_ip(48, bits, &vec![9; address + labels]);
            let (routes, faults, end) = decode(&octets);
            assert_eq!((routes.len(), faults.len(), end), (1, 0, Ok(())));
            assert_eq!(octets_of(&routes[0]), octets);
        }
    }
}

#[test]
fn c6_types_3_and_4_need_an_address() {
    for route_type in [3, 4] {
        for (bits, rest) in [(0, 0), (0, 4), (33, 4), (33, 5), (64, 8), (255, 32)] {
            let fault = Fault::NlriValue {
                route_type,
                what: "IP address length",
            };
            assert_discarded(&originator(route_type, bits, rest), fault);
        }
        for (bits, rest) in [
            (32, 0),
            (32, 3),
            (32, 5),
            (32, 16),
            (128, 4),
            (128, 15),
            (128, 17),
        ] {
            let bad = originator(route_type, bits, rest);
            assert_discarded(
                &bad,
                Fault::NlriLength {
                    route_type,
                    length: bad[1],
                },
            );
        }
        for (bits, rest) in [(32, 4), (128, 16)] {
            assert_eq!(decode(&originator(route_type, bits, rest)).0.len(), 1);
        }
    }
}

#[test]
fn c9_type_5_is_as_long_as_its_family() {
    let fault = Fault::NlriValue {
        route_type: 5,
        what: "prefix length",
    };
    for bits in [33, 64, 128, 255] {
        assert_discarded(&ip_prefix(bits, 11), fault);
    }
    for bits in [129, 200, 255] {
        assert_discarded(&ip_prefix(bits, 35), fault);
    }
    for rest in [0, 4, 7, 9, 10, 12, 16, 31, 33, 34, 36, 40] {
        let bad = ip_prefix(24, rest);
        assert_discarded(
            &bad,
            Fault::NlriLength {
                route_type: 5,
                length: bad[1],
            },
        );
    }
    for (bits, rest) in [(32, 11), (0, 11), (32, 8), (128, 35), (0, 35), (128, 32)] {
        assert_eq!(decode(&ip_prefix(bits, rest)).0.len(), 1, "{bits} {rest}");
    }
}

#[test]
fn type_1_has_22_or_25_octets() {
    for length in 1..=255_u8 {
        let octets = nlri(1, &vec![1; length.into()]);
        match length {
            22 | 25 => assert_eq!(octets_of(&decode(&octets).0[0]), octets),
            _ => assert_discarded(
                &octets,
                Fault::NlriLength {
                    route_type: 1,
                    length,
                },
            ),
        }
    }
}

#[test]
fn c16_a_withdrawal_matches_by_key_whatever_it_carries() {
    let announced = mac_ip(48, 32, &[192, 0, 2, 7, 0, 0x27, 0x10, 0, 0x4e, 0x20]);
    let key = decode(&announced).0[0].key();
    for labels in [&[][..], &[0, 0, 0], &[0x80, 0, 0], &[0, 0, 1, 0, 0, 2]] {
        let mut withdrawn = mac_ip(48, 32, &[&[192, 0, 2, 7], labels].concat());
        assert_eq!(decode(&withdrawn).0[0].key(), key);
        withdrawn[10..20].fill(0x33); // another ESI
        assert_eq!(decode(&withdrawn).0[0].key(), key);
    }
}

#[test]
fn host_bits_of_type_5_are_no_part_of_the_key() {
    let mut octets = ip_prefix(24, 11);
    octets[25..29].copy_from_slice(&[198, 51, 100, 77]);
    let route = &decode(&octets).0[0];
    assert_eq!(route.key().to_string(), "[5]:[0]:[24]:[198.51.100.0]");
}

#[test]
fn an_offset_counts_from_the_field() {
    let good = mac_ip(48, 0, &[0, 0, 1]);
    let (_, faults, _) = decode(&[&good[..], &mac_ip(40, 0, &[0; 3])].concat());
    assert_eq!(faults[0].offset, 35 + 2 + 22);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_route_survives_the_wire(route in any_route()) {
        let octets = octets_of(&route);
        prop_assert_eq!(decode_opaque(&octets), (vec![route], vec![], Ok(())));
    }

    #[test]
    fn a_withdrawal_survives_the_wire(route in any_route()) {
        let mut out = Writer::new();
        Route::encode_withdraw(&route.key(), &mut out);
        let (routes, faults, end) = decode_opaque(out.as_slice());
        prop_assert_eq!((faults.len(), end), (0, Ok(())));
        prop_assert_eq!(routes.iter().map(Route::key).collect::<Vec<_>>(), [route.key()]);
    }

    #[test]
    fn a_route_survives_storage(route in any_route()) {
        let mut payload = Vec::new();
        route.payload_octets(&mut payload);
        let key = Route::key_from_octets(&key_octets(&route.key()));
        prop_assert_eq!(key, Some(route.key()));
        prop_assert_eq!(Route::from_parts(route.key(), &payload), Some(route));
    }

    #[test]
    fn key_octets_are_injective(a in any_route(), b in any_route()) {
        prop_assert_eq!(a.key() == b.key(), key_octets(&a.key()) == key_octets(&b.key()));
    }

    #[test]
    fn stored_octets_of_the_wrong_length_are_no_key(route in any_route(), extra in any::<u8>()) {
        let mut octets = key_octets(&route.key());
        for shorter in 0..octets.len() {
            let key = Route::key_from_octets(&octets[..shorter]);
            prop_assert_ne!(key, Some(route.key()));
        }
        octets.push(extra);
        prop_assert_ne!(Route::key_from_octets(&octets), Some(route.key()));
    }

    /// With a type and the length that is due, so that the decoders of keys and payloads are reached.
    #[test]
    fn no_octets_panic(kind in 0..14_u8, body in prop::collection::vec(0..129_u8, 0..90)) {
        let octets = nlri(kind, &body);
        let (routes, faults, end) = decode(&octets);
        prop_assert_eq!(end.is_ok(), !body.is_empty());
        prop_assert_eq!(routes.len() + faults.len(), usize::from(end.is_ok()));
        for stored in [&octets[..], &[&[kind], &body[..]].concat()] {
            if let Some(key) = Route::key_from_octets(stored) {
                prop_assert_eq!(Route::key_from_octets(&key_octets(&key)), Some(key.clone()));
                Route::from_parts(key, &body);
            }
        }
    }

    /// No framing at all: most of these end at the first length.
    #[test]
    fn no_unframed_octets_panic(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&octets).0.len() <= octets.len());
        if let Some(key) = Route::key_from_octets(&octets) {
            key_octets(&key);
            Route::from_parts(key, &octets);
        }
    }

    /// Framed like EVPN, so that decoders are reached; what is decoded is encoded and decoded the same.
    #[test]
    fn what_is_decoded_is_canonical_after_one_encoding(
        bodies in prop::collection::vec((0..14_u8, prop::collection::vec(0..129_u8, 1..60)), 0..6),
    ) {
        let octets: Vec<u8> = bodies.iter().flat_map(|(kind, body)| nlri(*kind, body)).collect();
        let (routes, faults, end) = decode(&octets);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(routes.len() + faults.len(), bodies.len());
        for route in routes {
            prop_assert_eq!(decode(&octets_of(&route)).0, vec![route]);
        }
    }

    /// One octet of a good route changed: it is the route, another one, or a fault, never a panic.
    #[test]
    fn a_damaged_route_is_decoded_or_refused(route in any_route(), at in any::<usize>(), to in any::<u8>()) {
        let mut octets = octets_of(&route);
        let at = at % octets.len();
        octets[at] = to;
        let (routes, _, _) = decode_opaque(&octets);
        for route in routes {
            prop_assert_eq!(decode_opaque(&octets_of(&route)).0, vec![route]);
        }
    }
}
