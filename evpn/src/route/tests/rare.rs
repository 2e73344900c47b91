//! Types 6 to 11, and those that are not known.

use proptest::prelude::*;

use super::*;

/// Any route of a rare type.
pub(super) fn route() -> impl Strategy<Value = Route> {
    let flags = || any::<u8>().prop_map(MembershipFlags);
    let opaque = (12..=255_u8, prop::collection::vec(any::<u8>(), 1..=255));
    prop_oneof![
        (smet_key(), flags()).prop_map(|(key, flags)| {
            Route::SelectiveMulticast(SelectiveMulticast { key, flags }.into())
        }),
        (sync_key(), flags())
            .prop_map(|(key, flags)| Route::MulticastJoin(MulticastJoin { key, flags }.into())),
        (sync_key(), flags(), any::<[u8; 4]>(), any::<u8>()).prop_map(
            |(key, flags, reserved, response_time)| {
                let route = MulticastLeave {
                    key,
                    reserved,
                    response_time,
                    flags,
                };
                Route::MulticastLeave(route.into())
            }
        ),
        region_key().prop_map(|key| Route::RegionPmsi(RegionPmsi { key }.into())),
        selective_pmsi_key().prop_map(|key| Route::SelectivePmsi(SelectivePmsi { key }.into())),
        (pmsi_key(), address()).prop_map(|(of, originator)| {
            let key = LeafKey { of, originator };
            Route::Leaf(Leaf { key }.into())
        }),
        opaque.prop_map(|(route_type, octets)| {
            Route::Opaque(Opaque::new(route_type, &octets).unwrap().into())
        }),
    ]
}

fn channel() -> impl Strategy<Value = Channel> {
    let field = || prop_oneof![Just(None), address().prop_map(Some)];
    (field(), field()).prop_map(|(source, group)| Channel { source, group })
}

fn smet_key() -> impl Strategy<Value = SelectiveMulticastKey> {
    (rd(), tag(), channel(), address()).prop_map(|(rd, tag, channel, originator)| {
        SelectiveMulticastKey {
            rd,
            tag,
            channel,
            originator,
        }
    })
}

fn sync_key() -> impl Strategy<Value = MulticastSyncKey> {
    (esi(), smet_key()).prop_map(|(esi, key)| MulticastSyncKey {
        rd: key.rd,
        esi,
        tag: key.tag,
        channel: key.channel,
        originator: key.originator,
    })
}

fn region_key() -> impl Strategy<Value = RegionPmsiKey> {
    let region = any::<[u8; 8]>().prop_map(weft_bgp::attribute::ExtendedCommunity);
    (rd(), tag(), region).prop_map(|(rd, tag, region)| RegionPmsiKey { rd, tag, region })
}

fn selective_pmsi_key() -> impl Strategy<Value = SelectivePmsiKey> {
    smet_key().prop_map(|key| SelectivePmsiKey {
        rd: key.rd,
        tag: key.tag,
        channel: key.channel,
        originator: key.originator,
    })
}

fn pmsi_key() -> impl Strategy<Value = PmsiKey> {
    let flooded = (rd(), tag(), address()).prop_map(|(rd, tag, originator)| {
        PmsiKey::InclusiveMulticast(InclusiveMulticastKey {
            rd,
            tag,
            originator,
        })
    });
    prop_oneof![
        flooded,
        region_key().prop_map(PmsiKey::RegionPmsi),
        selective_pmsi_key().prop_map(PmsiKey::SelectivePmsi),
    ]
}

/// A table of 400,000 types 2 is what memory is measured with.
#[test]
fn a_route_is_no_larger_than_types_1_to_5_make_it() {
    assert_eq!(size_of::<Route>(), 64);
    assert_eq!(size_of::<RouteKey>(), 40);
}

fn channel_octets(source: u8, group: u8) -> Vec<u8> {
    let field = |bits: u8| [vec![bits], vec![1; usize::from(bits / 8)]].concat();
    [field(source), field(group)].concat()
}

/// Everything before the channel, the channel, an IPv4 originator, what follows it.
fn multicast(route_type: u8, source: u8, group: u8, rest: usize) -> Vec<u8> {
    let head = if matches!(route_type, 7 | 8) { 22 } else { 12 };
    let channel = channel_octets(source, group);
    let body = [
        vec![0; head],
        channel,
        vec![32, 192, 0, 2, 1],
        vec![7; rest],
    ]
    .concat();
    nlri(route_type, &body)
}

#[test]
fn types_6_to_8_and_10_are_as_long_as_their_channel() {
    for (route_type, rest) in [(6, 1), (7, 1), (8, 6), (10, 0)] {
        for (source, group) in [(0, 0), (0, 32), (32, 32), (0, 128), (128, 128), (32, 128)] {
            let octets = multicast(route_type, source, group, rest);
            let (routes, faults, end) = decode(&octets);
            assert_eq!((routes.len(), faults.len(), end), (1, 0, Ok(())));
            assert_eq!(routes[0].route_type(), route_type);
            assert_eq!(octets_of(&routes[0]), octets);
            for wrong in [0, 1, 2, 5, 7, 8].iter().filter(|wrong| **wrong != rest) {
                let bad = multicast(route_type, source, group, *wrong);
                let length = bad[1];
                assert_discarded(&bad, Fault::NlriLength { route_type, length });
            }
        }
        for (source, group) in [(8, 32), (0, 24), (33, 32), (0, 64), (255, 0)] {
            let what = "IP address length";
            let fault = Fault::NlriValue { route_type, what };
            assert_discarded(&multicast(route_type, source, group, rest), fault);
        }
    }
}

#[test]
fn flags_of_types_6_to_8_are_payload() {
    for (route_type, rest) in [(6, 1), (7, 1), (8, 6)] {
        let announced = multicast(route_type, 32, 32, rest);
        let mut withdrawn = announced.clone();
        let payload = withdrawn.len() - rest;
        withdrawn[payload..].fill(0);
        let (a, b) = (decode(&announced).0, decode(&withdrawn).0);
        assert_ne!(a, b);
        assert_eq!(a[0].key(), b[0].key());
    }
}

#[test]
fn type_9_has_20_octets() {
    for length in 1..=255_u8 {
        let octets = nlri(9, &vec![1; length.into()]);
        let route_type = 9;
        match length {
            20 => assert_eq!(octets_of(&decode(&octets).0[0]), octets),
            _ => assert_discarded(&octets, Fault::NlriLength { route_type, length }),
        }
    }
}

#[test]
fn type_11_answers_a_route_with_a_tunnel() {
    let answer = |of: &[u8]| nlri(11, &[of, &[32, 192, 0, 2, 1]].concat());
    let route_type = 11;
    let value = |what| Fault::NlriValue { route_type, what };
    let good = [
        originator(3, 32, 4),
        nlri(9, &[3; 20]),
        multicast(10, 0, 32, 0),
    ];
    for of in &good {
        let octets = answer(of);
        assert_eq!(octets_of(&decode(&octets).0[0]), octets);
        // One octet more or less in the route than its length says.
        let mut longer = of.clone();
        longer[1] += 1;
        longer.push(0);
        assert_discarded(&answer(&longer), value("route key"));
        let mut shorter = of.clone();
        shorter[1] -= 1;
        shorter.pop();
        assert_discarded(&answer(&shorter), value("route key"));
    }
    for of in [
        mac_ip(48, 0, &[0; 3]),
        originator(4, 32, 4),
        answer(&good[1]),
        multicast(6, 0, 32, 1),
        nlri(12, &[0; 20]),
    ] {
        assert_discarded(&answer(&of), value("route key"));
    }
    let length = 4;
    let beyond = Fault::NlriLength { route_type, length };
    assert_discarded(&nlri(11, &[9, 200, 0, 0]), beyond);
    let no_originator = nlri(11, &[good[1].as_slice(), &[0]].concat());
    assert_discarded(&no_originator, value("IP address length"));
}

#[test]
fn unknown_types_are_octets_for_those_who_ask() {
    for route_type in [12, 99, 255] {
        for body in [&[0; 1][..], &[7; 255]] {
            let octets = nlri(route_type, body);
            let (routes, faults, end) = decode_opaque(&octets);
            assert_eq!((routes.len(), faults.len(), end), (1, 0, Ok(())));
            let RouteKey::Opaque(key) = routes[0].key() else {
                panic!()
            };
            assert_eq!((key.route_type(), key.octets()), (route_type, body));
            assert_eq!(octets_of(&routes[0]), octets);
        }
    }
    let fault = Fault::NlriType { route_type: 0 };
    assert_eq!(decode_opaque(&[0, 1, 1]).1[0].fault, fault);
    assert!(decode_opaque(&[99, 0]).2.is_err());
}

#[test]
fn keys_are_written_in_brackets() {
    let text = |octets: &[u8]| decode(octets).0[0].key().to_string();
    assert_eq!(
        text(&multicast(6, 0, 32, 1)),
        "[6]:[0]:[0]:[*]:[32]:[1.1.1.1]:[32]:[192.0.2.1]"
    );
    assert_eq!(
        text(&multicast(8, 32, 32, 6)),
        "[8]:[00:00:00:00:00:00:00:00:00:00]:[0]:[32]:[1.1.1.1]:[32]:[1.1.1.1]:[32]:[192.0.2.1]"
    );
    let region = nlri(9, &[3; 20]);
    assert_eq!(text(&region), "[9]:[50529027]:[0303030303030303]");
    let answer = nlri(11, &[&region[..], &[32, 192, 0, 2, 1]].concat());
    assert_eq!(
        text(&answer),
        "[11]:[9]:[50529027]:[0303030303030303]:[32]:[192.0.2.1]"
    );
}
