//! A segment of two leaves as it comes up, contradicts itself and goes.

use std::sync::Arc;

use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::table::{PeerKind, Source, Table};

use super::*;
use crate::Label;
use crate::community::Encapsulation;
use crate::route::{EthernetAdKey, EthernetSegment, EthernetSegmentKey};

const ESI: Esi = Esi([3, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 1]);

fn source(leaf: u8) -> Arc<Source> {
    let peer = PeerId {
        router_id: RouterId(leaf.into()),
        asn: 64_496,
    };
    Arc::new(Source::new(peer, vtep(leaf), PeerKind::IbgpClient))
}

fn vtep(leaf: u8) -> IpAddr {
    [192, 0, 2, leaf].into()
}

fn rd(leaf: u8) -> Rd {
    Rd::from_ipv4([192, 0, 2, leaf].into(), 1)
}

fn candidate(leaf: u8) -> Route {
    let key = EthernetSegmentKey {
        rd: rd(leaf),
        esi: ESI,
        originator: vtep(leaf),
    };
    Route::EthernetSegment(EthernetSegment { key })
}

fn discovery(leaf: u8, tag: EthernetTag, label: u8) -> Route {
    let key = EthernetAdKey {
        rd: rd(leaf),
        esi: ESI,
        tag,
    };
    let label = Some(Label([0, 0, label]));
    Route::EthernetAd(EthernetAd { key, label })
}

fn attributes(leaf: u8, more: &[weft_bgp::attribute::ExtendedCommunity]) -> Arc<Attributes> {
    let vxlan = Encapsulation::new(Encapsulation::VXLAN).octets();
    Arc::new(Attributes {
        next_hop: Some(NextHop::V4([192, 0, 2, leaf].into())),
        ext_communities: [&[vxlan], more].concat(),
        ..Attributes::default()
    })
}

fn whole(single: bool) -> [weft_bgp::attribute::ExtendedCommunity; 1] {
    [EsiLabel::new(single, Label::ZERO).octets()]
}

fn learn(segments: &mut Segments, table: &mut Table<Route>) {
    table
        .select()
        .iter()
        .for_each(|change| segments.learn(change));
}

fn vni(number: u32) -> Option<Vni> {
    Vni::new(number)
}

#[test]
fn a_segment_is_who_says_so() {
    let (mut segments, mut table) = (Segments::new(), Table::new());
    let tag = EthernetTag(0);
    for leaf in [1, 2] {
        let from = source(leaf);
        table.learn(&from, 0, candidate(leaf), attributes(leaf, &[]));
        let all = discovery(leaf, EthernetTag::MAX, 0);
        table.learn(&from, 0, all, attributes(leaf, &whole(false)));
        table.learn(&from, 0, discovery(leaf, tag, 100), attributes(leaf, &[]));
    }
    // The third has a type 1 about the domain only, so that nobody may alias over it.
    table.learn(&source(3), 0, discovery(3, tag, 100), attributes(3, &[]));
    learn(&mut segments, &mut table);
    assert_eq!(segments.iter().collect::<Vec<_>>(), [ESI]);
    assert_eq!(
        segments.attached(ESI).collect::<Vec<_>>(),
        [vtep(1), vtep(2)]
    );
    assert_eq!(segments.redundancy(ESI), Redundancy::AllActive);
    assert_eq!(segments.aliases(ESI, vni(100), tag), [vtep(1), vtep(2)]);
    assert!(segments.aliases(ESI, vni(200), tag).is_empty());
    assert_eq!(segments.domains(ESI).collect::<Vec<_>>(), [(vni(100), tag)]);
    assert_eq!(segments.algorithm(ESI), Algorithm::Modulo);
    let forwarders = [segments.forwarder(ESI, 100), segments.forwarder(ESI, 101)];
    assert_eq!(forwarders, [Some(vtep(1)), Some(vtep(2))]);

    // Mass withdrawal: without the type 1 about the segment nothing goes there.
    let key = discovery(1, EthernetTag::MAX, 0).key();
    table.withdraw(source(1).peer, 0, &key);
    learn(&mut segments, &mut table);
    assert_eq!(segments.aliases(ESI, vni(100), tag), [vtep(2)]);

    for leaf in 1..=3 {
        table.withdraw_peer(source(leaf).peer);
    }
    learn(&mut segments, &mut table);
    assert!(segments.is_empty() && segments.learned.is_empty());
}

#[test]
fn those_who_contradict_each_other_are_mixed() {
    let (mut segments, mut table) = (Segments::new(), Table::new());
    assert_eq!(segments.redundancy(ESI), Redundancy::Unknown);
    for (leaf, single, expected) in [
        (1, true, Redundancy::SingleActive),
        (2, false, Redundancy::Mixed),
        (1, false, Redundancy::AllActive),
    ] {
        let all = discovery(leaf, EthernetTag::MAX, 0);
        table.learn(&source(leaf), 0, all, attributes(leaf, &whole(single)));
        learn(&mut segments, &mut table);
        assert_eq!(segments.redundancy(ESI), expected);
    }
}

#[test]
fn the_election_follows_the_communities() {
    let (mut segments, mut table) = (Segments::new(), Table::new());
    for (leaf, preference) in [(1, 100), (2, 200), (3, 200)] {
        let wish = [DfElection::new(2, 0, preference).octets()];
        table.learn(&source(leaf), 0, candidate(leaf), attributes(leaf, &wish));
    }
    learn(&mut segments, &mut table);
    assert_eq!(segments.algorithm(ESI), Algorithm::HighestPreference);
    assert_eq!(segments.forwarder(ESI, 100), Some(vtep(2)));
    // One does not say: all carve.
    table.learn(&source(3), 0, candidate(3), attributes(3, &[]));
    learn(&mut segments, &mut table);
    assert_eq!(segments.algorithm(ESI), Algorithm::Modulo);
    assert_eq!(segments.forwarder(ESI, 100), Some(vtep(2)));
    assert_eq!(segments.candidates(ESI).len(), 3);
    // Two wishes are none.
    let wishes = [100, 200].map(|preference| DfElection::new(2, 0, preference).octets());
    table.learn(&source(3), 0, candidate(3), attributes(3, &wishes));
    learn(&mut segments, &mut table);
    assert_eq!(segments.algorithm(ESI), Algorithm::Modulo);
}

/// The segment of leaves 1 to 3, whose type 4 has these communities; all carve, and have VNI 100 with tag 0.
fn carving(elections: [Option<DfElection>; 3]) -> (Segments, Table<Route>) {
    let (mut segments, mut table) = (Segments::new(), Table::new());
    for (leaf, election) in (1..).zip(elections) {
        let (from, wish) = (source(leaf), election.map(DfElection::octets));
        let wish = attributes(leaf, wish.as_slice());
        table.learn(&from, 0, candidate(leaf), wish);
        let whole = attributes(leaf, &whole(false));
        table.learn(&from, 0, discovery(leaf, EthernetTag::MAX, 0), whole);
        let domain = discovery(leaf, EthernetTag(0), 100);
        table.learn(&from, 0, domain, attributes(leaf, &[]));
    }
    learn(&mut segments, &mut table);
    (segments, table)
}

fn candidates_for(segments: &Segments, tag: u32) -> Vec<IpAddr> {
    let candidates = segments.candidates_for(ESI, tag).into_iter();
    candidates.map(|candidate| candidate.originator).collect()
}

/// By hand: 100 modulo 3 is 1, the second of three; modulo 2 it is 0, the first of two; modulo 1 it is 0.
/// RFC 8584 §4.1.
#[test]
fn whose_circuit_is_down_is_no_candidate_where_all_say_so() {
    let circuits = Some(DfElection::new(0, 0x4000, 0));
    let (mut segments, mut table) = carving([circuits; 3]);
    assert!(segments.goes_by_tag(ESI));
    assert_eq!(candidates_for(&segments, 100), [vtep(1), vtep(2), vtep(3)]);
    assert_eq!(segments.forwarder(ESI, 100), Some(vtep(2)));

    // Leaf 2 withdraws the type 1 of the domain, and with it nothing else.
    let down = discovery(2, EthernetTag(0), 100).key();
    table.withdraw(source(2).peer, 0, &down);
    learn(&mut segments, &mut table);
    assert_eq!(candidates_for(&segments, 100), [vtep(1), vtep(3)]);
    assert_eq!(segments.forwarder(ESI, 100), Some(vtep(1)));
    assert_eq!(segments.candidates(ESI).len(), 3);

    // Leaf 1 withdraws the one about the segment.
    let down = discovery(1, EthernetTag::MAX, 0).key();
    table.withdraw(source(1).peer, 0, &down);
    learn(&mut segments, &mut table);
    assert_eq!(segments.forwarder(ESI, 100), Some(vtep(3)));

    // No type 1 has this number, be it a VLAN: nothing is known of circuits.
    assert_eq!(candidates_for(&segments, 10).len(), 3);
    assert_eq!(segments.forwarder(ESI, 10), Some(vtep(2)));
}

/// RFC 8584 §2.2.1: the bit is one of the things to agree on, and so is the algorithm.
#[test]
fn circuits_count_for_nobody_where_one_does_not_say_so() {
    let circuits = Some(DfElection::new(0, 0x4000, 0));
    for other in [
        None,
        Some(DfElection::new(0, 0, 0)),
        Some(DfElection::new(1, 0x4000, 0)),
    ] {
        let (mut segments, mut table) = carving([circuits, circuits, other]);
        let down = discovery(2, EthernetTag(0), 100).key();
        table.withdraw(source(2).peer, 0, &down);
        learn(&mut segments, &mut table);
        assert_eq!(candidates_for(&segments, 100).len(), 3);
        assert_eq!(segments.forwarder(ESI, 100), Some(vtep(2)));
    }
}

/// The highest preference forwards for every domain, unless it has no circuit in one.
#[test]
fn a_preference_goes_by_tag_once_circuits_count() {
    for (bitmap, by_tag, second) in [(0x4000, true, vtep(1)), (0, false, vtep(2))] {
        let (mut segments, mut table) = (Segments::new(), Table::new());
        for (leaf, preference) in [(1, 100), (2, 200)] {
            let from = source(leaf);
            let wish = [DfElection::new(2, bitmap, preference).octets()];
            table.learn(&from, 0, candidate(leaf), attributes(leaf, &wish));
            let all = discovery(leaf, EthernetTag::MAX, 0);
            table.learn(&from, 0, all, attributes(leaf, &whole(true)));
        }
        // Named by the tag: both have 7, only leaf 1 has 8.
        for (leaf, tag) in [(1, 7), (2, 7), (1, 8)] {
            let domain = discovery(leaf, EthernetTag(tag), 100);
            table.learn(&source(leaf), 0, domain, attributes(leaf, &[]));
        }
        learn(&mut segments, &mut table);
        assert_eq!(segments.goes_by_tag(ESI), by_tag);
        assert_eq!(segments.forwarder(ESI, 7), Some(vtep(2)));
        assert_eq!(segments.forwarder(ESI, 8), Some(second));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever came and went, what is known is what the table holds.
    #[test]
    fn segments_are_a_function_of_the_table(
        steps in prop::collection::vec((0..6_u8, 1..4_u8, 0..3_u8), 0..60),
    ) {
        let (mut segments, mut table) = (Segments::new(), Table::new());
        for (step, (verb, leaf, item)) in steps.into_iter().enumerate() {
            let from = source(leaf);
            let tag = EthernetTag(item.into());
            let wish = [DfElection::new(item, 0, 1).octets()];
            match verb {
                0 => table.learn(&from, 0, candidate(leaf), attributes(leaf, &wish)),
                1 => {
                    let all = discovery(leaf, EthernetTag::MAX, 0);
                    table.learn(&from, 0, all, attributes(leaf, &whole(item > 0)));
                }
                2 => table.learn(&from, 0, discovery(leaf, tag, item), attributes(leaf, &[])),
                3 => table.withdraw(from.peer, 0, &discovery(leaf, tag, 0).key()),
                4 => table.withdraw(from.peer, 0, &candidate(leaf).key()),
                _ => table.withdraw_peer(from.peer),
            }
            if step % 3 == 0 {
                learn(&mut segments, &mut table);
            }
        }
        learn(&mut segments, &mut table);
        let mut fresh = Segments::new();
        table.changes_since(0).unwrap().iter().for_each(|change| fresh.learn(change));
        prop_assert_eq!(format!("{:?}", segments.segments), format!("{:?}", fresh.segments));
        prop_assert_eq!(segments.learned, fresh.learned);
    }
}
