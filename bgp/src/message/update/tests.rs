//! Every (attribute, fault) pair and what it must do. RFC 7606.

#![expect(clippy::indexing_slicing, reason = "a test may fail where it stands")]

use std::net::Ipv6Addr;

use super::*;
use crate::attribute::row::ROWS;
use crate::attribute::{AsPath, NextHop};
use crate::capability::AddPathSet;
use crate::error::Treatment::{AttributeDiscard, SessionReset, TreatAsWithdraw};

const IBGP: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
const EBGP: DecodeContext = DecodeContext {
    ibgp: false,
    ..IBGP
};
const OLD: DecodeContext = DecodeContext {
    four_octet_as: false,
    ..IBGP
};

/// ORIGIN, AS_PATH, NEXT_HOP, LOCAL_PREF as they should be.
const GOOD: [(u8, u8, &[u8]); 4] = [
    (0x40, 1, &[0]),
    (0x40, 2, &[2, 1, 0, 0, 0xfb, 0xf0]),
    (0x40, 3, &[192, 0, 2, 1]),
    (0x40, 5, &[0, 0, 0, 100]),
];
/// 198.51.100.0/24.
const NLRI: &[u8] = &[24, 198, 51, 100];
/// MP_REACH_NLRI of one EVPN route of type 99.
const REACH: &[u8] = &[0, 25, 70, 4, 192, 0, 2, 1, 0, 99, 1, 7];

fn octets_of(attribute: (u8, u8, &[u8])) -> Vec<u8> {
    let (flags, code, value) = attribute;
    let mut octets = vec![flags, code];
    match flags & 0x10 {
        0 => octets.push(u8::try_from(value.len()).unwrap()),
        _ => octets.extend(u16::try_from(value.len()).unwrap().to_be_bytes()),
    }
    octets.extend(value);
    octets
}

fn body(list: &[u8], nlri: &[u8]) -> Bytes {
    let length = u16::try_from(list.len()).unwrap().to_be_bytes();
    [&[0, 0], &length[..], list, nlri].concat().into()
}

/// The good attributes, with `attribute` in the place of the one with its code, or behind them.
fn with(attribute: (u8, u8, &[u8])) -> Vec<u8> {
    let mut list: Vec<_> = GOOD.to_vec();
    match list.iter_mut().find(|good| good.1 == attribute.1) {
        Some(good) => *good = attribute,
        None => list.push(attribute),
    }
    list.into_iter().flat_map(octets_of).collect()
}

fn treatment(list: &[u8], nlri: &[u8], ctx: &DecodeContext) -> Option<Treatment> {
    match Update::decode(&body(list, nlri), ctx) {
        Ok(update) => update.treatment,
        Err(error) => Some(error.fault.treatment()),
    }
}

#[test]
fn good_attributes_have_no_fault() {
    let list: Vec<u8> = GOOD.into_iter().flat_map(octets_of).collect();
    let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
    assert_eq!((update.treatment, update.faults.len()), (None, 0));
    assert_eq!(update.announced, [(0, "198.51.100.0/24".parse().unwrap())]);
    assert_eq!(update.attributes.as_path, AsPath::sequence(&[64_496]));
    assert_eq!(update.attributes.local_pref, Some(100));
}

/// Flags, code and value of an attribute beside good ones, and what it does.
const ATTRIBUTES: &[(u8, u8, &[u8], Option<Treatment>)] = &[
    // B4
    (0x40, 1, &[], Some(TreatAsWithdraw)),
    (0x40, 1, &[0, 0], Some(TreatAsWithdraw)),
    (0x40, 1, &[3], Some(TreatAsWithdraw)),
    (0x40, 1, &[255], Some(TreatAsWithdraw)),
    // B5
    (0x40, 2, &[], None),
    (0x40, 2, &[0, 1, 0, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 2, &[5, 1, 0, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 2, &[2, 0], Some(TreatAsWithdraw)),
    (0x40, 2, &[2], Some(TreatAsWithdraw)),
    (0x40, 2, &[2, 2, 0, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 2, &[2, 1, 0, 0, 0, 1, 9], Some(TreatAsWithdraw)),
    (0x40, 2, &[2, 1, 0, 0, 0, 0], Some(TreatAsWithdraw)),
    (0x40, 2, &[3, 1, 0, 0, 0, 1], None),
    // B6
    (0x40, 3, &[], Some(TreatAsWithdraw)),
    (0x40, 3, &[192, 0, 2], Some(TreatAsWithdraw)),
    (0x40, 3, &[192, 0, 2, 1, 0], Some(TreatAsWithdraw)),
    (0x40, 3, &[0, 0, 0, 0], Some(TreatAsWithdraw)),
    (0x40, 3, &[127, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 3, &[224, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 3, &[255, 255, 255, 255], Some(TreatAsWithdraw)),
    // B7
    (0x80, 4, &[0, 0, 1], Some(TreatAsWithdraw)),
    (0x80, 4, &[0, 0, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 5, &[0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 5, &[0, 0, 0, 0, 1], Some(TreatAsWithdraw)),
    (0x40, 6, &[0], Some(AttributeDiscard)),
    (0xc0, 7, &[0, 1, 192, 0, 2, 1], Some(AttributeDiscard)),
    (0xc0, 7, &[0, 0, 0, 0, 192, 0, 2, 1], Some(AttributeDiscard)),
    // B8
    (0x80, 9, &[1, 2, 3], Some(TreatAsWithdraw)),
    (0x80, 10, &[], Some(TreatAsWithdraw)),
    (0x80, 10, &[1, 2, 3, 4, 5], Some(TreatAsWithdraw)),
    // B10
    (0xc0, 8, &[], Some(TreatAsWithdraw)),
    (0xc0, 8, &[1, 2, 3, 4, 5], Some(TreatAsWithdraw)),
    (0xc0, 16, &[], Some(TreatAsWithdraw)),
    (
        0xc0,
        16,
        &[1, 2, 3, 4, 5, 6, 7, 8, 9],
        Some(TreatAsWithdraw),
    ),
    (0xc0, 25, &[0; 19], Some(TreatAsWithdraw)),
    (0xc0, 25, &[0; 20], None),
    (0xc0, 32, &[], Some(TreatAsWithdraw)),
    (0xc0, 32, &[0; 13], Some(TreatAsWithdraw)),
    // From a four-octet speaker.
    (0xc0, 17, &[2, 1, 0, 0, 0, 1], Some(AttributeDiscard)),
    (
        0xc0,
        18,
        &[0, 0, 0, 1, 192, 0, 2, 1],
        Some(AttributeDiscard),
    ),
    // C6
    (0xc0, 22, &[0, 6, 0, 0], Some(TreatAsWithdraw)),
    (0xc0, 22, &[0, 6, 0, 0, 100, 192, 0, 2, 1], None),
    (
        0xc0,
        22,
        &[0, 6, 0, 0, 100, 192, 0, 2, 1, 0],
        Some(TreatAsWithdraw),
    ),
    (0xc0, 22, &[0, 0, 0, 0, 100], None),
    (0xc0, 22, &[0, 0, 0, 0, 100, 1], Some(TreatAsWithdraw)),
    (0xc0, 22, &[0, 8, 0, 0, 100, 1], None),
    (0xc0, 22, &[0, 0x86, 0, 0, 100, 0, 0, 7, 192, 0, 2, 1], None),
    (0xc0, 22, &[0, 255, 0, 0, 100], None),
    // Carried as they are if nobody's session ends by them, or not carried at all.
    (0xc0, 23, &[0, 8, 0, 1], Some(TreatAsWithdraw)),
    (0xc0, 23, &[0, 8, 0, 1, 7], None),
    (0x80, 26, &[1, 0, 2], Some(AttributeDiscard)),
    (0x80, 26, &[1, 0, 3], None),
    (0x80, 29, &[1], Some(AttributeDiscard)),
    (0xc0, 40, &[1, 0, 9, 0], Some(AttributeDiscard)),
    (0xc0, 40, &[1, 0, 3, 0, 0, 0], Some(AttributeDiscard)),
    (0xc0, 40, &[1, 0, 7, 0, 0, 0, 0, 0, 0, 9], None),
    // Unknown ones.
    (0xc0, 77, &[1, 2, 3], None),
    (0x80, 200, &[], None),
    (0x40, 77, &[1, 2, 3], Some(SessionReset)),
    // B20
    (0x80, 14, &[0, 25, 70, 0, 0], Some(SessionReset)),
    (
        0x80,
        14,
        &[0, 25, 70, 5, 1, 2, 3, 4, 5, 0],
        Some(SessionReset),
    ),
    (
        0x80,
        14,
        &[0, 25, 70, 64, 1, 2, 3, 4, 5, 0],
        Some(SessionReset),
    ),
    (
        0x80,
        14,
        &[0, 25, 70, 16, 1, 2, 3, 4, 5, 0],
        Some(SessionReset),
    ),
    (0x80, 14, &[0, 25, 70, 4, 192, 0, 2, 1], Some(SessionReset)),
    (0x80, 14, &[0, 2, 1, 4, 192, 0, 2, 1, 0], Some(SessionReset)),
    (
        0x80,
        14,
        &[0, 25, 70, 4, 0, 0, 0, 0, 0],
        Some(TreatAsWithdraw),
    ),
    (
        0x80,
        14,
        &[0, 25, 70, 4, 127, 0, 0, 1, 0],
        Some(TreatAsWithdraw),
    ),
    (
        0x80,
        14,
        &[0, 25, 70, 4, 224, 0, 0, 1, 0],
        Some(TreatAsWithdraw),
    ),
    (0x80, 14, &[0, 25], Some(SessionReset)),
    (
        0x80,
        14,
        &[64, 4, 71, 4, 192, 0, 2, 1, 0],
        Some(AttributeDiscard),
    ),
    (0x80, 14, REACH, None),
    (0x80, 15, &[0, 25], Some(SessionReset)),
    (0x80, 15, &[0, 25, 70], None),
];

#[test]
fn a_malformed_attribute_is_treated_by_its_row() {
    for &(flags, code, value, expected) in ATTRIBUTES {
        let found = treatment(&with((flags, code, value)), NLRI, &IBGP);
        assert_eq!(
            found,
            expected,
            "attribute {code} with {} octets {value:?}",
            value.len()
        );
    }
}

/// RFC 4760 §3: who has no routes in the classic field has no use for NEXT_HOP. RFC 7606 §7.3: its length counts.
#[test]
fn the_value_of_next_hop_counts_for_the_classic_field_only() {
    let unreach: &[u8] = &[0, 25, 70, 99, 1, 7];
    let list = |multi: (u8, &[u8]), next_hop: &[u8]| {
        let multi = octets_of((0x80, multi.0, multi.1));
        [multi, with((0x40, 3, next_hop))].concat()
    };
    for bad in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
        for multi in [(14, REACH), (15, unreach)] {
            let update = Update::decode(&body(&list(multi, &bad), &[]), &IBGP).unwrap();
            assert_eq!((update.treatment, &update.faults[..]), (None, &[][..]));
            assert_eq!(update.attributes.next_hop, None);
            let both = treatment(&list(multi, &bad), NLRI, &IBGP);
            assert_eq!(both, Some(TreatAsWithdraw));
        }
    }
    let good = list((14, REACH), &[192, 0, 2, 9]);
    assert_eq!(treatment(&good, &[], &IBGP), None);
    let short = list((14, REACH), &[0; 3]);
    assert_eq!(treatment(&short, &[], &IBGP), Some(TreatAsWithdraw));
}

/// FRR reads next hops of 4, 12, 16, 24, 32 and 48 octets in every family. RFC 4364 §4.3.2, RFC 4659 §3.2.1.
#[test]
fn a_next_hop_of_evpn_may_have_a_route_distinguisher_or_a_link_local_address() {
    let v4 = NextHop::V4([192, 0, 2, 1].into());
    let global: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let link_local: Ipv6Addr = "fe80::1".parse().unwrap();
    let (v6, local, rd) = (global.octets(), link_local.octets(), [0; 8]);
    let forms: [(Vec<u8>, NextHop); 6] = [
        (vec![192, 0, 2, 1], v4),
        ([&rd[..], &[192, 0, 2, 1]].concat(), v4),
        (v6.to_vec(), NextHop::V6(global)),
        ([&rd[..], &v6].concat(), NextHop::V6(global)),
        ([v6, local].concat(), NextHop::V6(global)),
        ([&rd[..], &v6, &rd, &local].concat(), NextHop::V6(global)),
    ];
    for (next_hop, expected) in forms {
        for (family, nlri) in [([0, 25, 70], &[99, 1, 7][..]), ([0, 1, 132], &[0])] {
            let length = u8::try_from(next_hop.len()).unwrap();
            let reach = [&family[..], &[length], &next_hop, &[0], nlri].concat();
            let list = with((0x80, 14, &reach));
            let update = Update::decode(&body(&list, &[]), &IBGP).unwrap();
            assert_eq!((update.treatment, &update.faults[..]), (None, &[][..]));
            let reach = update.reach.unwrap();
            assert_eq!((reach.next_hop, &reach.nlri[..]), (expected, nlri));
        }
    }
    // No global address, and an address that is none.
    for next_hop in [[[0; 16], local].concat(), [rd, [0; 8], rd].concat()] {
        let length = u8::try_from(next_hop.len()).unwrap();
        let reach = [&[0, 25, 70, length][..], &next_hop, &[0, 99, 1, 7]].concat();
        let found = treatment(&with((0x80, 14, &reach)), &[], &IBGP);
        assert_eq!(found, Some(TreatAsWithdraw), "{next_hop:?}");
    }
    // Of unicast families these are no lengths.
    for (afi, length) in [(1, 12), (1, 24), (1, 48), (2, 12), (2, 24), (2, 48)] {
        let reach = [&[0, afi, 1, length][..], &[1; 48], &[0]].concat();
        let found = treatment(&with((0x80, 14, &reach)), &[], &IBGP);
        assert_eq!(found, Some(SessionReset), "{afi} {length}");
    }
}

/// RFC 4271 §5: octet for octet, whatever the lower four bits of the flags are; a malformed one of those that are checked
/// is not.
#[test]
fn optional_transitive_attributes_are_carried_as_they_came() {
    let tunnel: &[u8] = &[0, 8, 0, 3, 4, 1, 7];
    let index: &[u8] = &[1, 0, 7, 0, 0, 0, 0, 0, 0, 9];
    let long = [9; 300];
    let domains: &[u8] = &[1, 0, 0, 0xfd, 0xe9, 0, 1, 70];
    let list = [
        octets_of((0xdf, 200, &long)),
        octets_of((0xc0, 40, index)),
        octets_of((0xe0, 36, domains)),
        octets_of((0xc0, 23, tunnel)),
        octets_of((0x80, 99, &[7])),
        octets_of((0x80, 26, &[1, 0, 3])),
        octets_of((0xc0, 0, &[])),
        with(GOOD[3]),
    ];
    let update = Update::decode(&body(&list.concat(), NLRI), &IBGP).unwrap();
    assert_eq!((update.treatment, &update.faults[..]), (None, &[][..]));
    let carried = update.attributes.opaque.iter();
    let carried: Vec<_> = carried
        .map(|it| (it.code, it.partial, &it.value[..]))
        .collect();
    let expected: [(u8, bool, &[u8]); 5] = [
        (0, false, &[]),
        (23, false, tunnel),
        (36, true, domains),
        (40, false, index),
        (200, false, &long),
    ];
    assert_eq!(carried, expected);
    let dropped = update.attributes.unknown.iter().map(|it| it.code);
    assert_eq!(dropped.collect::<Vec<_>>(), [99, 26]);
    let stored = Attributes::from_octets(&update.attributes.to_octets()).unwrap();
    assert_eq!(stored.opaque, update.attributes.opaque);
    // By their codes among all others, but the tunnel last, with flags of four bits.
    let mut out = Writer::new();
    update.encode(&mut out, &IBGP);
    let written = out.finish();
    let mut at = 4;
    let mut codes = Vec::new();
    while at < written.len() - NLRI.len() {
        let (flags, code) = (written[at], written[at + 1]);
        assert_eq!(flags & 0x0f, 0, "{code}");
        codes.push((code, flags & 0x20 != 0));
        at += match flags & 0x10 {
            0 => 3 + usize::from(written[at + 2]),
            _ => 4 + usize::from(u16::from_be_bytes([written[at + 2], written[at + 3]])),
        };
    }
    let partial = codes.iter().filter(|it| it.1).map(|it| it.0);
    assert_eq!(partial.collect::<Vec<_>>(), [36]);
    let codes: Vec<_> = codes.iter().map(|it| it.0).collect();
    assert_eq!(codes, [0, 1, 2, 3, 5, 36, 40, 200, 23]);
}

/// RFC 7606 §2: without its D-PATH a route may loop; without its characteristics a next hop is one like any other. Of a
/// transitive attribute nobody behind weft has to find out that it is malformed.
#[test]
fn attributes_that_pass_by_default_are_well_formed() {
    for (code, expected) in [(36, TreatAsWithdraw), (39, AttributeDiscard)] {
        let list = with((0xc0, code, &[1, 2, 3, 4]));
        let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
        assert_eq!(update.treatment, Some(expected), "{code}");
        assert_eq!(update.attributes.opaque, [], "{code}");
        let none = with((0xc0, code, &[]));
        let update = Update::decode(&body(&none, NLRI), &IBGP).unwrap();
        assert_eq!(update.treatment, None, "{code}");
        assert_eq!(update.attributes.opaque, [], "{code}");
    }
}

#[test]
fn attributes_beyond_the_bounds_of_a_path_are_dropped_and_counted() {
    let unknown = (100..130).flat_map(|code| octets_of((0xc0, code, &[1])));
    let domains = &[1, 0, 0, 0xfd, 0xe9, 0, 1, 70];
    let list: Vec<u8> = unknown.chain(with((0xc0, 36, domains))).collect();
    let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
    assert_eq!(update.treatment, None);
    assert_eq!(update.attributes.opaque.len(), 16);
    assert_eq!(update.attributes.opaque[0].code, 36);
    assert_eq!(update.attributes.unknown.len(), 15);
}

/// RFC 8317 §6: a composite tunnel has a label before the identifier; others may come to be defined.
#[test]
fn a_tunnel_of_a_type_that_is_not_known_is_carried_as_it_is() {
    for value in [
        &[1, 0x86, 0, 0, 100, 0, 0, 7, 192, 0, 2, 1][..],
        &[0, 200, 0, 0, 100],
    ] {
        let list = [with((0xc0, 22, value)), octets_of((0x80, 14, REACH))].concat();
        let update = Update::decode(&body(&list, &[]), &IBGP).unwrap();
        assert_eq!(update.treatment, None);
        let stored = update.attributes.to_octets();
        let stored = Attributes::from_octets(&stored).unwrap();
        let mut out = Writer::new();
        stored.pmsi.unwrap().encode(&mut out);
        assert_eq!(out.as_slice(), value);
    }
}

#[test]
fn more_as_numbers_than_we_keep_are_treated_as_withdraw() {
    let path = |counts: &[u8]| {
        let segment = |&count: &u8| [&[2, count][..], &[1; 4].repeat(count.into())].concat();
        with((
            0x50,
            2,
            &counts.iter().flat_map(segment).collect::<Vec<u8>>(),
        ))
    };
    assert_eq!(treatment(&path(&[255, 255, 2]), NLRI, &IBGP), None);
    assert_eq!(
        treatment(&path(&[255, 255, 3]), NLRI, &IBGP),
        Some(TreatAsWithdraw)
    );
}

/// RFC 9774 §3, inside our AS and between others, and whoever puts the path together.
#[test]
fn sets_of_as_numbers_are_treated_as_withdraw() {
    let path = |kind: u8| {
        let first = [2, 1, 0, 0, 0xfb, 0xf0];
        with((
            0x40,
            2,
            &[&first[..], &[kind, 1, 0, 0, 0xfb, 0xf1]].concat(),
        ))
    };
    let withdraw = Some(TreatAsWithdraw);
    for (kind, internal, external) in [
        (1, withdraw, withdraw),
        (2, None, Some(AttributeDiscard)), // LOCAL_PREF is not for them
        (3, None, withdraw),               // RFC 5065 §4: only from inside
        (4, withdraw, withdraw),
    ] {
        assert_eq!(treatment(&path(kind), NLRI, &IBGP), internal, "{kind}");
        assert_eq!(treatment(&path(kind), NLRI, &EBGP), external, "{kind}");
    }
    let update = Update::decode(&body(&path(1), NLRI), &IBGP).unwrap();
    let [fault] = &update.faults[..] else {
        panic!("one fault");
    };
    assert_eq!(fault.fault, Fault::AsSet);
    assert_eq!(fault.fault.rule().to_string(), "RFC 9774 §3");
    // Where no route is announced none can be lost: the session goes on.
    let update = Update::decode(&body(&path(1), &[]), &IBGP).unwrap();
    assert_eq!(update.treatment, None);
    let old = with((0x40, 2, &[2, 1, 0xfb, 0xf0, 2, 1, 0x5b, 0xa0]));
    let as4 = octets_of((0xc0, 17, &[1, 1, 0, 1, 0, 0]));
    let update = Update::decode(&body(&[old, as4].concat(), NLRI), &OLD).unwrap();
    assert_eq!(update.treatment, withdraw);
}

/// RFC 2545 §3: a link-local address says nothing to those on another link, so such a route is not passed on.
#[test]
fn a_link_local_next_hop_without_a_global_one_is_treated_as_withdraw() {
    let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let (global, local) = (address("2001:db8::1"), address("fe80::1"));
    for family in [[0, 1, 1], [0, 2, 1], [0, 25, 70], [0, 1, 132]] {
        let found = |next_hop: &[u8]| {
            let length = u8::try_from(next_hop.len()).unwrap();
            let reach = [&family[..], &[length], next_hop, &[0, 0]].concat();
            treatment(&with((0x80, 14, &reach)), &[], &IBGP)
        };
        let withdraw = Some(TreatAsWithdraw);
        assert_eq!(found(&[local, local].concat()), withdraw, "{family:?}");
        assert_eq!(found(&[global, local].concat()), None, "{family:?}");
        if family != [0, 2, 1] {
            assert_eq!(found(&local), withdraw, "{family:?}");
        }
    }
    let v6 = |octets: &[u8]| treatment(&with((0x80, 14, octets)), &[], &IBGP);
    let reach = [&[0, 2, 1, 16][..], &local, &[0, 0]].concat();
    assert_eq!(v6(&reach), Some(TreatAsWithdraw));
    assert_eq!(Fault::LinkLocalNextHop.rule().to_string(), "RFC 2545 §3");
}

/// RFC 7606 §3 (c) has the route withdrawn unless the attribute's own specification discards it alone: RFC 7311 §3.2,
/// RFC 9552 §8.2.2 and RFC 6793 §6 do, whatever is wrong with the attribute.
#[test]
fn wrong_flags_are_treated_as_withdraw_unless_the_attribute_is_discarded_alone() {
    for row in ROWS {
        let value = match row.code {
            14 => REACH,
            15 => &[0, 25, 70],
            26 => &[1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 7],
            _ => &[0; 8],
        };
        let expected = match row.code {
            17 | 18 | 26 | 29 => AttributeDiscard,
            _ => TreatAsWithdraw,
        };
        for wrong in [0x80, 0x40] {
            let list = with((row.category.flags() ^ wrong, row.code, value));
            let found = treatment(&list, NLRI, &IBGP);
            assert_eq!(found, Some(expected), "{} ^ {wrong:#x}", row.name);
        }
    }
    for (code, rule) in [(17, "RFC 6793 §6"), (26, "RFC 7311 §3.2")] {
        let flags = 0x40;
        let fault = Fault::AttributeFlags { code, flags };
        assert_eq!(fault.rule().to_string(), rule);
    }
    let flags = Fault::AttributeFlags { code: 40, flags: 0 };
    assert_eq!(flags.rule().to_string(), "RFC 7606 §3.c");
}

#[test]
fn partial_is_only_for_optional_transitive_attributes() {
    let partial = |code, value| treatment(&with((0xe0, code, value)), NLRI, &IBGP);
    assert_eq!(partial(8, &[0, 0, 0, 1]), None);
    assert_eq!(
        treatment(&with((0x60, 1, &[0])), NLRI, &IBGP),
        Some(TreatAsWithdraw)
    );
    assert_eq!(
        treatment(&with((0xa0, 4, &[0; 4])), NLRI, &IBGP),
        Some(TreatAsWithdraw)
    );
}

#[test]
fn attributes_of_internal_peers_are_discarded_from_external_ones() {
    for (flags, code, value) in [
        (0x40, 5, &[0_u8; 4][..]),
        (0x80, 9, &[1]),
        (0x80, 10, &[]),
        (0x80, 10, &[0; 4]),
    ] {
        let update = Update::decode(&body(&with((flags, code, value)), NLRI), &EBGP).unwrap();
        assert_eq!(update.treatment, Some(AttributeDiscard), "attribute {code}");
        assert_eq!(update.attributes.local_pref, None);
        assert_eq!(update.attributes.originator_id, None);
        assert!(update.attributes.cluster_list.is_empty());
    }
    let confederation = with((0x40, 2, &[3, 1, 0, 0, 0, 1]));
    assert_eq!(
        treatment(&confederation, NLRI, &EBGP),
        Some(TreatAsWithdraw)
    );
}

#[test]
fn a_missing_mandatory_attribute_is_treated_as_withdraw() {
    for missing in GOOD {
        let list: Vec<_> = GOOD.into_iter().filter(|good| *good != missing).collect();
        let list: Vec<u8> = list.into_iter().flat_map(octets_of).collect();
        let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
        assert_eq!(update.treatment, Some(TreatAsWithdraw));
        let fault = Fault::AttributeMissing { code: missing.1 };
        assert_eq!(
            update
                .faults
                .iter()
                .map(|error| error.fault)
                .collect::<Vec<_>>(),
            [fault]
        );
        assert_eq!(fault.notification().data.as_ref(), [missing.1]);
    }
    // B18.
    assert_eq!(treatment(&[], NLRI, &IBGP), Some(TreatAsWithdraw));
    assert_eq!(
        treatment(&octets_of((0xc0, 77, &[1])), NLRI, &IBGP),
        Some(TreatAsWithdraw)
    );
    let list = octets_of((0x80, 15, &[0, 25, 70, 99, 1, 7]));
    let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
    assert_eq!(update.treatment, Some(TreatAsWithdraw));
    assert_eq!(update.unreach.unwrap().nlri.as_ref(), [99, 1, 7]);
    // NEXT_HOP is only needed beside the classic field.
    let list = [
        octets_of((0x80, 14, REACH)),
        octets_of(GOOD[0]),
        octets_of(GOOD[1]),
        octets_of(GOOD[3]),
    ];
    assert_eq!(treatment(&list.concat(), &[], &IBGP), None);
}

#[test]
fn a_second_attribute_is_discarded_and_a_second_multiprotocol_one_resets() {
    let med = |value| octets_of((0x80, 4, &[0, 0, 0, value]));
    let list = [with((0x80, 4, &[0, 0, 0, 1])), med(2)].concat();
    let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
    assert_eq!(update.treatment, Some(AttributeDiscard));
    assert_eq!(update.attributes.med, Some(1));
    // B16.
    for (code, value) in [(14, REACH), (15, &[0, 25, 70][..])] {
        let list = [with((0x80, code, value)), octets_of((0x80, code, value))].concat();
        let error = Update::decode(&body(&list, NLRI), &IBGP).unwrap_err();
        assert_eq!(error.fault, Fault::MultiProtocolTwice { code });
        let notification = error.fault.notification();
        assert_eq!((notification.code, notification.subcode), (3, 1));
    }
}

#[test]
fn lengths_that_lose_the_nlri_reset_and_others_withdraw() {
    let list: Vec<u8> = GOOD.into_iter().flat_map(octets_of).collect();
    let code_of = |result: Result<Update, DecodeError>| {
        let notification = result.unwrap_err().fault.notification();
        (notification.code, notification.subcode)
    };
    // B1: the withdrawn field beyond the message.
    let octets = Bytes::from_static(&[0, 9, 0, 0]);
    assert_eq!(code_of(Update::decode(&octets, &IBGP)), (3, 1));
    // B2: the attributes beyond the message; one octet of NLRI taken for attributes; one octet of
    // attributes taken for NLRI.
    let mut octets = body(&list, &[]).to_vec();
    octets[3] += 1;
    assert_eq!(code_of(Update::decode(&octets.into(), &IBGP)), (3, 1));
    let mut octets = body(&list, NLRI).to_vec();
    octets[3] += 1;
    assert_eq!(code_of(Update::decode(&octets.into(), &IBGP)), (3, 1));
    let mut octets = body(&list, NLRI).to_vec();
    octets[3] -= 1;
    assert_eq!(code_of(Update::decode(&octets.into(), &IBGP)), (3, 1));
    // B3.
    for tail in [&[0x80, 4][..], &[0x80, 4, 9, 1], &[0x90, 4, 0], &[0x80]] {
        let overrun = [&list[..], tail].concat();
        assert_eq!(
            treatment(&overrun, NLRI, &IBGP),
            Some(TreatAsWithdraw),
            "{tail:?}"
        );
        assert_eq!(
            code_of(Update::decode(&body(&overrun, &[]), &IBGP)),
            (3, 1),
            "{tail:?}"
        );
        let reach = [&octets_of((0x80, 14, REACH))[..], &overrun].concat();
        let update = Update::decode(&body(&reach, &[]), &IBGP).unwrap();
        assert!(update.is_withdraw());
        assert_eq!(update.reach.unwrap().nlri.as_ref(), [99, 1, 7]);
    }
    // A prefix of 33 bits, and one that is cut off.
    assert_eq!(
        code_of(Update::decode(&body(&list, &[33, 1, 2, 3, 4, 5]), &IBGP)),
        (3, 10)
    );
    assert_eq!(
        code_of(Update::decode(&body(&list, &[24, 1, 2]), &IBGP)),
        (3, 10)
    );
}

#[test]
fn a_fault_without_routes_resets_unless_it_is_a_discard() {
    let unreach = octets_of((0x80, 15, &[0, 25, 70, 99, 1, 7]));
    let bad_origin = octets_of((0x40, 1, &[9]));
    let error =
        Update::decode(&body(&[&unreach[..], &bad_origin].concat(), &[]), &IBGP).unwrap_err();
    assert_eq!(error.fault, Fault::NlriNotLocatable);
    let discard = octets_of((0x40, 6, &[9]));
    let list = [&unreach[..], &discard].concat();
    let update = Update::decode(&body(&list, &[]), &IBGP).unwrap();
    assert_eq!(update.treatment, Some(AttributeDiscard));
}

#[test]
fn the_worst_of_several_treatments_wins() {
    assert!(AttributeDiscard < TreatAsWithdraw && TreatAsWithdraw < SessionReset);
    let list = [with((0x40, 6, &[9])), octets_of((0x80, 4, &[1]))].concat();
    let update = Update::decode(&body(&list, NLRI), &IBGP).unwrap();
    assert_eq!(update.faults.len(), 2);
    assert_eq!(update.treatment, Some(TreatAsWithdraw));
    // Offsets count from the marker: 19 of the header, 4 of lengths, then the good ones.
    let good: usize = GOOD.into_iter().map(|good| octets_of(good).len()).sum();
    assert_eq!(usize::try_from(update.faults[0].offset).unwrap(), 23 + good);
}

#[test]
fn more_attribute_octets_than_we_keep_are_treated_as_withdraw() {
    let list = with((0xd0, 8, &[1; 16 * 1024]));
    assert_eq!(treatment(&list, NLRI, &IBGP), Some(TreatAsWithdraw));
    let mut reach = REACH.to_vec();
    reach.resize(20_000, 0);
    assert_eq!(treatment(&with((0x90, 14, &reach)), NLRI, &IBGP), None);
}

#[test]
fn an_old_speaker_has_its_four_octet_numbers_put_back() {
    let path = |first: &[u8], as4: &[u8]| {
        let list = [with((0x40, 2, first)), octets_of((0xc0, 17, as4))].concat();
        let update = Update::decode(&body(&list, NLRI), &OLD).unwrap();
        (update.attributes.as_path.to_string(), update.treatment)
    };
    // RFC 6793 §4.2.3: 64496 AS_TRANS AS_TRANS and 65536 65537.
    let old: &[u8] = &[2, 3, 0xfb, 0xf0, 0x5b, 0xa0, 0x5b, 0xa0];
    let new: &[u8] = &[2, 2, 0, 1, 0, 0, 0, 1, 0, 1];
    assert_eq!(path(old, new), ("64496 65536 65537".to_owned(), None));
    // AS4_PATH longer than AS_PATH is not believed, a malformed one is discarded.
    assert_eq!(path(&[2, 1, 0xfb, 0xf0], new).0, "64496");
    assert_eq!(
        path(old, &[2, 2]),
        ("64496 23456 23456".to_owned(), Some(AttributeDiscard))
    );
    // Sets count one.
    let set: &[u8] = &[2, 1, 0xfb, 0xf0, 1, 2, 0x5b, 0xa0, 0, 1];
    let new_set: &[u8] = &[1, 2, 0, 1, 0, 0, 0, 0, 0, 1];
    assert_eq!(path(set, new_set).0, "64496 {65536,1}");
}

/// Both fit, and sets count one: 508 numbers stay of the one, and 510 come from the other.
#[test]
fn what_an_old_speaker_makes_longer_than_we_keep_is_treated_as_withdraw() {
    let segment = |kind: u8, asn: &[u8]| [&[kind, 255], &asn.repeat(255)[..]].concat();
    let path = [segment(2, &[0, 7]), segment(2, &[0, 8])].concat();
    let sets = [segment(1, &[0, 1, 0, 0]), segment(1, &[0, 2, 0, 0])].concat();
    let path = with((0x50, 2, &path));
    let list = [path.clone(), octets_of((0xd0, 17, &sets))].concat();
    assert_eq!(treatment(&path, NLRI, &OLD), None);
    assert_eq!(treatment(&list, NLRI, &OLD), Some(TreatAsWithdraw));
}

#[test]
fn an_old_speaker_has_its_aggregator_put_back() {
    let aggregator = |asn: [u8; 2]| {
        let value = [&asn[..], &[192, 0, 2, 1]].concat();
        let as4 = octets_of((0xc0, 18, &[0, 1, 0, 0, 192, 0, 2, 2]));
        let as4_path = octets_of((0xc0, 17, &[2, 1, 0, 1, 0, 0]));
        let path = with((0x40, 2, &[2, 1, 0x5b, 0xa0]));
        let list = [path, octets_of((0xc0, 7, &value)), as4, as4_path].concat();
        let update = Update::decode(&body(&list, NLRI), &OLD).unwrap();
        (
            update.attributes.aggregator.unwrap().asn,
            update.attributes.as_path.to_string(),
        )
    };
    assert_eq!(aggregator([0x5b, 0xa0]), (65_536, "65536".to_owned()));
    // RFC 6793 §4.2.3: an old speaker aggregated later; both four-octet attributes are stale.
    assert_eq!(aggregator([0xfb, 0xf0]), (64_496, "23456".to_owned()));
}

#[test]
fn ends_of_rib_are_recognised() {
    for family in [
        Family::IPV4_UNICAST,
        Family::IPV6_UNICAST,
        Family::L2VPN_EVPN,
    ] {
        let mut out = Writer::new();
        Update::end_of_rib(family).encode(&mut out, &IBGP);
        let octets = out.finish();
        let update = Update::decode(&octets, &IBGP).unwrap();
        assert_eq!(update.is_end_of_rib(), Some(family));
    }
    let list = octets_of((0x80, 15, &[0, 25, 70, 99, 1, 7]));
    assert_eq!(
        Update::decode(&body(&list, &[]), &IBGP)
            .unwrap()
            .is_end_of_rib(),
        None
    );
    assert_eq!(
        Update::decode(&body(&[], NLRI), &IBGP)
            .unwrap()
            .is_end_of_rib(),
        None
    );
}
