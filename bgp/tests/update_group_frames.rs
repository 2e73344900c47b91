//! What a group's frames hold: octets, audience, and no more messages than needed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::attribute::{
    AsPath, AttributeFilter, AttributeForms, Attributes, Community, ExtendedCommunity, NextHop,
    OpaqueAttribute, UnknownAttribute,
};
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::message::DecodeContext;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::{Membership, OTHERS_MEMBERSHIPS};
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::reflect::{Filter, NotReflected, PathsTold};
use weft_bgp::table::{BestChange, Path, PeerKind, Source, Table};
use weft_bgp::update_group::{Audience, ExportKey, Frame, Local, Segment, UpdateGroup};

const LOCAL: Local = Local {
    asn: 64_496,
    router_id: RouterId(0xc000_02fe),
    cluster_id: ClusterId(0xc000_02ff),
};

fn key(max_len: u16) -> ExportKey {
    let negotiated = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };
    ExportKey {
        max_len,
        ..ExportKey::new(PeerKind::IbgpClient, &negotiated)
    }
}

fn source(number: u8) -> Arc<Source> {
    let address = Ipv4Addr::new(192, 0, 2, number);
    let peer = PeerId {
        router_id: address.into(),
        asn: LOCAL.asn,
    };
    Arc::new(Source::new(peer, address.into(), PeerKind::IbgpClient))
}

fn peer(number: u8) -> PeerId {
    source(number).peer
}

fn attributes(local_pref: u32) -> Attributes {
    Attributes {
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
        local_pref: Some(local_pref),
        ..Attributes::default()
    }
}

fn prefix(number: u32) -> Prefix4 {
    Prefix4::new(Ipv4Addr::from(0x0a00_0000 + number), 32).unwrap()
}

fn prefix6(number: u16) -> Prefix6 {
    Prefix6::new(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0), 48).unwrap()
}

/// (audience, routes, withdrawals)
fn outline(segment: &Segment) -> Vec<(Audience, u32, u32)> {
    let frames = segment.frames.iter();
    frames
        .map(|frame| (frame.audience, frame.routes, frame.withdrawals))
        .collect()
}

/// Announced by peer 1, and told by a fresh group.
fn told<N: Nlri>(
    routes: impl Iterator<Item = N>,
    attributes: &Attributes,
    max_len: u16,
) -> Segment {
    let mut table = Table::new();
    for nlri in routes {
        table.learn(&source(1), 0, nlri, Arc::new(attributes.clone()));
    }
    UpdateGroup::new(key(max_len), LOCAL).advertise(&table.select())
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

const MARKER: &str = "ffffffffffffffffffffffffffffffff";

#[test]
fn ipv4_with_an_ipv4_next_hop_goes_into_the_classic_fields() {
    let segment = told([prefix(1)].into_iter(), &attributes(100), 4096);
    let expected = [
        MARKER,
        "003f",
        "02", // header: 63 octets, UPDATE
        "0000",
        "0023", // nothing withdrawn, 35 octets of attributes
        "400101",
        "00",     // ORIGIN IGP
        "400200", // AS_PATH, empty
        "400304",
        "c0000201", // NEXT_HOP
        "400504",
        "00000064", // LOCAL_PREF 100
        "800904",
        "c0000201", // ORIGINATOR_ID
        "800a04",
        "c00002ff",   // CLUSTER_LIST
        "200a000001", // 10.0.0.1/32
    ];
    assert_eq!(hex(&segment.frames[0].octets), expected.concat());
    assert_eq!(outline(&segment), [(Audience::AllBut(peer(1)), 1, 0)]);
}

#[test]
fn other_families_go_into_an_mp_attribute_which_comes_first() {
    let next_hop = Some(NextHop::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)));
    let attributes = Attributes {
        next_hop,
        ..attributes(100)
    };
    let segment = told([prefix6(1), prefix6(2)].into_iter(), &attributes, 4096);
    let expected = [
        MARKER,
        "005a",
        "02",
        "0000",
        "0043",
        "900e0023", // MP_REACH_NLRI, 35 octets
        "000201",
        "10",
        "20010db8000000000000000000000001",
        "00",
        "3020010db80001",
        "3020010db80002",
        "40010100",
        "400200",
        "40050400000064",
        "800904c0000201",
        "800a04c00002ff",
    ];
    assert_eq!(hex(&segment.frames[0].octets), expected.concat());
}

#[test]
fn withdrawals_are_packed_too() {
    let mut table = Table::new();
    let mut table6 = Table::new();
    for number in 0..1000_u16 {
        let attributes = Arc::new(attributes(u32::from(number)));
        table.learn(
            &source(1),
            0,
            prefix(number.into()),
            Arc::clone(&attributes),
        );
        table6.learn(&source(1), 0, prefix6(number), attributes);
    }
    table.select();
    table6.select();
    table.withdraw_peer(peer(1));
    table6.withdraw_peer(peer(1));
    let segment = UpdateGroup::new(key(4096), LOCAL).advertise(&table.select());
    // 4073 octets hold 814 of 5.
    let audience = Audience::AllBut(peer(1));
    assert_eq!(outline(&segment), [(audience, 0, 814), (audience, 0, 186)]);
    let segment = UpdateGroup::new(key(4096), LOCAL).advertise(&table6.select());
    // 4066 octets hold 580 of 7.
    assert_eq!(outline(&segment), [(audience, 0, 580), (audience, 0, 420)]);
    assert!(hex(&segment.frames[0].octets[19..]).starts_with("00000fe3900f0fdf000201"));
}

#[test]
fn equal_attributes_share_messages_that_are_filled_to_the_brim() {
    for max_len in [4096, 65_535] {
        let segment = told((0..40_000).map(prefix), &attributes(100), max_len);
        let room = usize::from(max_len) - 23 - 35;
        assert_eq!(segment.frames.len(), 40_000_usize.div_ceil(room / 5));
        let routes: u32 = segment.frames.iter().map(|frame| frame.routes).sum();
        assert_eq!(routes, 40_000);
        let octets: usize = segment.frames.iter().map(|frame| frame.octets.len()).sum();
        assert_eq!(octets, segment.octets_len);
        assert!(
            segment
                .frames
                .iter()
                .all(|f| f.octets.len() <= max_len.into())
        );
    }
}

#[test]
fn different_attributes_and_sources_do_not_share_messages() {
    let mut table = Table::new();
    for number in 0..30 {
        let attributes = Arc::new(attributes(100 + number % 3));
        let from = u8::try_from(number % 2).unwrap() + 1;
        table.learn(&source(from), 0, prefix(number), attributes);
    }
    let segment = UpdateGroup::new(key(4096), LOCAL).advertise(&table.select());
    assert_eq!(segment.frames.len(), 6);
    assert!(segment.frames.iter().all(|frame| frame.routes == 5));
}

/// RFC 4456 §8: what two clients say in the same words is still told with the originator of each.
#[test]
fn shared_attributes_keep_their_originators_apart() {
    let mut table = Table::new();
    let shared = Arc::new(attributes(100));
    for from in [1, 2] {
        table.learn(&source(from), 0, prefix(from.into()), Arc::clone(&shared));
    }
    let segment = UpdateGroup::new(key(4096), LOCAL).advertise(&table.select());
    let octets: Vec<String> = segment.frames.iter().map(|f| hex(&f.octets)).collect();
    assert_eq!(octets.len(), 2);
    assert!(octets[0].contains("800904c0000201") && octets[1].contains("800904c0000202"));
}

fn change(old: Option<(u8, u32)>, new: Option<(u8, u32)>) -> BestChange<Prefix4> {
    let path = |(number, local_pref): (u8, u32)| {
        let mut attributes = attributes(local_pref);
        if local_pref == HIDDEN {
            attributes.communities = vec![Community(0xffff_ff02)];
        }
        Path {
            source: source(number),
            attributes: Arc::new(attributes),
            nlri: prefix(1),
        }
    };
    BestChange {
        key: prefix(1),
        old: old.map(path),
        new: new.map(path),
        by: weft_bgp::decision::Step::OnlyPath,
        revision: 1,
    }
}

/// A path that no group may be told.
const HIDDEN: u32 = 7;

#[test]
fn every_change_is_told_to_those_who_need_it() {
    use Audience::{AllBut, Only};
    let announce = |number| (AllBut(peer(number)), 1, 0);
    let cases = [
        (None, Some((1, 100)), vec![announce(1)]),
        (None, Some((1, HIDDEN)), vec![]),
        (Some((1, 100)), None, vec![(AllBut(peer(1)), 0, 1)]),
        (Some((1, HIDDEN)), None, vec![]),
        // The same peer: its own path is never told to it, so nothing has to be taken back.
        (Some((1, 100)), Some((1, 200)), vec![announce(1)]),
        (Some((1, 100)), Some((1, 100)), vec![]),
        (Some((1, HIDDEN)), Some((1, 100)), vec![announce(1)]),
        (
            Some((1, 100)),
            Some((1, HIDDEN)),
            vec![(AllBut(peer(1)), 0, 1)],
        ),
        // Another peer: it had been told the old path, if anybody had.
        (
            Some((1, 100)),
            Some((2, 100)),
            vec![(Only(peer(2)), 0, 1), announce(2)],
        ),
        (Some((1, HIDDEN)), Some((2, 100)), vec![announce(2)]),
        (
            Some((1, 100)),
            Some((2, HIDDEN)),
            vec![(AllBut(peer(1)), 0, 1)],
        ),
        (Some((1, HIDDEN)), Some((2, HIDDEN)), vec![]),
    ];
    for (old, new, expected) in cases {
        let mut group = UpdateGroup::new(key(4096), LOCAL);
        let segment = group.advertise(&[change(old, new)]);
        assert_eq!(outline(&segment), expected, "{old:?} -> {new:?}");
        assert_eq!(segment.revision, 1);
    }
}

#[test]
fn an_image_is_the_whole_table_or_what_changed() {
    let mut table = Table::new();
    for number in 1..=3 {
        table.learn(&source(1), 0, prefix(number), Arc::new(attributes(100)));
    }
    table.select();
    let mut group = UpdateGroup::new(key(4096), LOCAL);
    let whole = group.image(&table, 0, &Interest::Everything).unwrap();
    assert_eq!(outline(&whole), [(Audience::AllBut(peer(1)), 3, 0)]);
    assert_eq!(whole.revision, 3);
    assert!(
        group
            .image(&table, 3, &Interest::Everything)
            .unwrap()
            .frames
            .is_empty()
    );

    table.withdraw(peer(1), 0, &prefix(1));
    table.learn(&source(2), 0, prefix(2), Arc::new(attributes(200)));
    let mut hidden = attributes(300);
    hidden.communities = vec![Community(0xffff_ff02)];
    table.learn(&source(2), 0, prefix(3), Arc::new(hidden));
    table.select();
    let since = group.image(&table, 3, &Interest::Everything).unwrap();
    assert_eq!(
        outline(&since),
        [
            (Audience::Only(peer(2)), 0, 1),
            (Audience::AllBut(peer(2)), 1, 0),
            (Audience::All, 0, 2),
        ]
    );
    assert_eq!(
        outline(&group.image(&table, 0, &Interest::Everything).unwrap()),
        [(Audience::AllBut(peer(2)), 1, 0)]
    );
}

#[test]
fn attributes_that_leave_no_room_are_not_reflected() {
    let mut long = attributes(100);
    long.communities = (0..1000).map(Community).collect();
    let path = Path {
        source: source(1),
        attributes: Arc::new(long),
        nlri: prefix(1),
    };
    let small = UpdateGroup::<Prefix4>::new(key(4096), LOCAL);
    assert_eq!(
        small.explain(&path, &Interest::Everything),
        Err(NotReflected::TooLong)
    );
    let large = UpdateGroup::<Prefix4>::new(key(65_535), LOCAL);
    assert!(large.explain(&path, &Interest::Everything).is_ok());
    // Who could be told the old path is told that it is gone.
    let mut small = small;
    let mut change = change(Some((1, 100)), None);
    change.new = Some(path);
    let segment = small.advertise(&[change]);
    assert_eq!(outline(&segment), [(Audience::AllBut(peer(1)), 0, 1)]);
}

#[test]
fn attributes_that_are_only_counted_are_never_sent() {
    let unknown = UnknownAttribute {
        code: 200,
        flags: 0xe0,
        length: 9,
    };
    let with_unknown = Attributes {
        unknown: vec![unknown],
        ..attributes(100)
    };
    let one = told([prefix(1)].into_iter(), &with_unknown, 4096);
    let other = told([prefix(1)].into_iter(), &attributes(100), 4096);
    assert_eq!(one.frames[0].octets, other.frames[0].octets);

    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), Arc::new(attributes(100)));
    table.select();
    table.learn(&source(1), 0, prefix(1), Arc::new(with_unknown));
    assert!(
        table.select().is_empty(),
        "nothing that can be sent has changed"
    );
}

/// RFC 4271 §5 and §9: marked as partial where weft does not know them. The key of the group says which.
#[test]
fn attributes_are_passed_on_as_they_came_to_groups_that_take_them() {
    let opaque = |code: u8, value: &'static [u8]| OpaqueAttribute {
        code,
        partial: false,
        value: Bytes::from_static(value),
    };
    let index: &[u8] = &[1, 0, 7, 0, 0, 0, 0, 0, 0, 9];
    let with = Attributes {
        opaque: vec![opaque(36, &[1, 2]), opaque(40, index), opaque(200, &[7])],
        ..attributes(100)
    };
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), Arc::new(with));
    let changes = table.select();
    let sent = |filter: AttributeFilter| {
        let key = ExportKey {
            attributes: filter,
            ..key(4096)
        };
        let segment = UpdateGroup::<Prefix4>::new(key, LOCAL).advertise(&changes);
        segment.frames[0].octets.to_vec()
    };
    let has = |octets: &[u8], part: &[u8]| octets.windows(part.len()).any(|it| it == part);
    let (path, sid) = ([0xe0, 36, 2, 1, 2], [&[0xc0, 40, 10][..], index].concat());
    let unknown = [0xe0, 200, 1, 7];
    let octets = sent(AttributeFilter::default());
    assert!(has(&octets, &[&path[..], &sid].concat()) && !has(&octets, &unknown));
    let octets = sent(AttributeFilter::new([200], [36], AttributeForms::All));
    assert!(has(&octets, &[&sid[..], &unknown].concat()) && !has(&octets, &path));
    let other = ExportKey {
        attributes: AttributeFilter::new([200], [], AttributeForms::All),
        ..key(4096)
    };
    assert_ne!(other, key(4096), "another group");
    // Nothing but that attribute changed: who takes it is told.
    let with = |value| Attributes {
        opaque: vec![opaque(36, value)],
        ..attributes(100)
    };
    table.learn(&source(1), 0, prefix(1), Arc::new(with(&[1, 2])));
    table.select();
    table.learn(&source(1), 0, prefix(1), Arc::new(with(&[1, 3])));
    let mut group = UpdateGroup::<Prefix4>::new(key(4096), LOCAL);
    let segment = group.advertise(&table.select());
    assert!(has(&segment.frames[0].octets, &[0xe0, 36, 2, 1, 3]));
}

/// FRR 10.3 takes for sub-TLVs whatever stands behind TUNNEL_ENCAPSULATION, NLRI of IPv4 unicast too.
#[test]
fn nothing_stands_behind_a_tunnel_encapsulation() {
    let opaque = |code: u8, value: &'static [u8]| OpaqueAttribute {
        code,
        partial: false,
        value: Bytes::from_static(value),
    };
    let tunnel: &[u8] = &[0, 8, 0, 4, 4, 2, 7, 7];
    let with = |next_hop| Attributes {
        next_hop: Some(next_hop),
        opaque: vec![opaque(23, tunnel), opaque(36, &[1, 2])],
        ..attributes(100)
    };
    let (path, tunnel) = (&[0xe0, 36, 2, 1, 2][..], [&[0xc0, 23, 8], tunnel].concat());
    let next_hop = NextHop::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let segment = told([prefix6(1)].into_iter(), &with(next_hop), 4096);
    let last = [path, &tunnel].concat();
    assert!(segment.frames[0].octets.ends_with(&last));
    let next_hop = NextHop::V4(Ipv4Addr::new(192, 0, 2, 1));
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), Arc::new(with(next_hop)));
    let changes = table.select();
    for (forms, last) in [
        (AttributeForms::All, &last[..]),
        (AttributeForms::Plain, path),
    ] {
        let key = ExportKey {
            attributes: AttributeFilter::new([], [], forms),
            ..key(4096)
        };
        let segment = UpdateGroup::<Prefix4>::new(key, LOCAL).advertise(&changes);
        let octets = &segment.frames[0].octets;
        assert!(octets.ends_with(&[last, &[32, 10, 0, 0, 1]].concat()));
        let tunnels = octets.windows(tunnel.len()).filter(|it| *it == tunnel);
        assert_eq!(tunnels.count(), usize::from(forms == AttributeForms::All));
    }
}

/// Invariant 5: the same facts in another order, with other hash seeds and another history, give the same octets.
#[test]
fn two_replicas_send_equal_octets() {
    let octets = |seed: u64, order: &mut dyn Iterator<Item = u32>| {
        let mut table = Table::with_seed(seed);
        let mut group = UpdateGroup::new(
            key(4096),
            Local {
                router_id: RouterId(u32::try_from(seed).unwrap()),
                ..LOCAL
            },
        );
        for number in order {
            for from in [1, 2] {
                let mut attributes = attributes(100 + (number + u32::from(from)) % 2);
                attributes.as_path = AsPath::sequence(&[65_536, 65_537 + number]);
                table.learn(&source(from), 0, prefix(number), Arc::new(attributes));
            }
            group.advertise(&table.select());
        }
        let image = group.image(&table, 0, &Interest::Everything).unwrap();
        let mut octets: Vec<_> = image
            .frames
            .into_iter()
            .map(|f| (hex(&f.octets), f.audience == Audience::All))
            .collect();
        octets.sort();
        octets
    };
    assert_eq!(octets(1, &mut (0..100)), octets(2, &mut (0..100).rev()));
}

fn with_target(local_pref: u32, target: u32) -> Arc<Attributes> {
    Arc::new(Attributes {
        ext_communities: vec![ExtendedCommunity::route_target_as2(64_496, target)],
        ..attributes(local_pref)
    })
}

fn wanting(target: u32) -> Interest {
    Interest::of_exports([ExtendedCommunity::route_target_as2(64_496, target)])
}

/// Routes and withdrawals that a member with this interest is sent.
fn heard(segment: &Segment, member: u8, interest: &Interest) -> (u32, u32) {
    let for_it =
        |frame: &&Frame| frame.audience.includes(peer(member)) && frame.concerns.includes(interest);
    let frames = segment.frames.iter().filter(for_it);
    frames.fold((0, 0), |(routes, withdrawals), frame| {
        (routes + frame.routes, withdrawals + frame.withdrawals)
    })
}

#[test]
fn a_route_whose_targets_change_is_taken_from_those_who_wanted_the_old_ones() {
    let mut table = Table::new();
    let mut group = UpdateGroup::new(key(4096), LOCAL);
    table.learn(&source(1), 0, prefix(1), with_target(100, 7));
    let first = group.advertise(&table.select());
    table.learn(&source(1), 0, prefix(1), with_target(100, 8));
    let second = group.advertise(&table.select());
    table.learn(&source(1), 0, prefix(1), with_target(200, 8));
    let third = group.advertise(&table.select());
    let cases = [
        (Interest::Everything, [(1, 0), (1, 0), (1, 0)]),
        (wanting(7), [(1, 0), (0, 1), (0, 0)]),
        (wanting(8), [(0, 0), (1, 0), (1, 0)]),
        (wanting(7).union(&wanting(8)), [(1, 0), (1, 0), (1, 0)]),
        (wanting(9), [(0, 0), (0, 0), (0, 0)]),
    ];
    for (interest, expected) in cases {
        let told = [&first, &second, &third].map(|segment| heard(segment, 5, &interest));
        assert_eq!(told, expected, "{interest:?}");
    }
    assert_eq!(third.frames.len(), 1, "nothing is withdrawn for nobody");
}

#[test]
fn a_turn_says_only_what_is_different() {
    let mut table = Table::new();
    for number in 0..100 {
        let target = 7 + number % 2;
        table.learn(&source(1), 0, prefix(number), with_target(100, target));
    }
    table.select();
    let mut group = UpdateGroup::new(key(4096), LOCAL);
    let same = key(4096);
    let (all, some) = (Interest::Everything, wanting(7));
    let mut turned = |old: (&ExportKey, &Interest), interest: &Interest| {
        heard(&group.turn(&table, old, interest), 5, interest)
    };
    assert_eq!(turned((&same, &all), &all), (0, 0));
    assert_eq!(turned((&same, &all), &some), (0, 50));
    assert_eq!(turned((&same, &some), &all), (50, 0));
    assert_eq!(turned((&same, &some), &wanting(8)), (50, 50));
    let drained = ExportKey {
        graceful_shutdown: true,
        ..key(4096)
    };
    assert_eq!(turned((&drained, &all), &all), (100, 0));
    assert_eq!(turned((&drained, &all), &some), (50, 50));
    assert_eq!(turned((&drained, &some), &some), (50, 0));
}

#[test]
fn ids_of_paths_stay_while_others_come_and_go() {
    let told = |table: &Table<Prefix4>| {
        let several = ExportKey {
            add_path: Some(PathsTold::All),
            ..key(4096)
        };
        let mut group = UpdateGroup::new(several, LOCAL);
        let image = group.image(table, 0, &Interest::Everything).unwrap();
        let tail = |frame: &Frame| hex(&frame.octets[frame.octets.len() - 9..]);
        let mut tails: Vec<_> = image.frames.iter().map(tail).collect();
        tails.sort();
        tails
    };
    let mut table = Table::new();
    table.track_paths(true);
    for (from, path_id) in [(1, 0), (2, 1), (2, 2)] {
        // Each in a message of its own.
        let attributes = Arc::new(attributes(path_id));
        table.learn(&source(from), path_id, prefix(1), attributes);
    }
    table.select();
    let three = told(&table);
    assert_eq!(three.len(), 3);
    assert!(three.iter().all(|tail| tail.ends_with("200a000001")));
    table.withdraw(peer(2), 1, &prefix(1));
    table.select();
    let two = told(&table);
    assert_eq!(two.len(), 2);
    assert!(two.iter().all(|tail| three.contains(tail)));
    assert!(table.path_changes().len() == 2 && table.path_changes().is_empty());
}

#[test]
fn a_group_says_why_a_member_is_not_told() {
    let path = Path {
        source: source(1),
        attributes: with_target(100, 7),
        nlri: prefix(1),
    };
    let group = UpdateGroup::<Prefix4>::new(key(4096), LOCAL);
    assert!(group.explain(&path, &wanting(7)).is_ok());
    assert_eq!(
        group.explain(&path, &wanting(8)),
        Err(NotReflected::Interest)
    );
    let next_hop = NextHop::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
    let over_ipv6 = Path {
        attributes: Arc::new(Attributes {
            next_hop: Some(next_hop),
            ..attributes(100)
        }),
        ..path
    };
    assert_eq!(
        group.explain(&over_ipv6, &Interest::Everything),
        Err(NotReflected::Filter)
    );
}

/// RFC 4684 §3.2: each of two clients with one wish is told that there is such a wish, whoever of them was first.
#[test]
fn a_client_is_told_of_its_own_membership_as_ours() {
    let wish = Membership::exactly(64_496, ExtendedCommunity::route_target_as2(64_496, 1));
    let key = ExportKey {
        filter: Filter(OTHERS_MEMBERSHIPS),
        ..key(4096)
    };
    let mut table = Table::new();
    let mut group = UpdateGroup::new(key, LOCAL);
    table.learn(&source(2), 0, wish, Arc::new(attributes(100)));
    let first = group.advertise(&table.select());
    assert_eq!(outline(&first), [(Audience::All, 1, 0)]);
    let reflected = group
        .explain(
            table.get(&wish).unwrap().selected.unwrap(),
            &Interest::Everything,
        )
        .unwrap();
    assert_eq!(reflected.originator_id, Some(RouterId(LOCAL.cluster_id.0)));
    assert_eq!(reflected.cluster_list, [LOCAL.cluster_id]);

    // Another one has the same wish and is the best: who knew of the first hears nothing but that.
    table.learn(&source(1), 0, wish, Arc::new(attributes(200)));
    let second = group.advertise(&table.select());
    assert_eq!(outline(&second), [(Audience::All, 1, 0)]);
    let late = group.image(&table, 1, &Interest::Everything).unwrap();
    assert_eq!(outline(&late), [(Audience::All, 1, 0)]);

    table.withdraw(peer(1), 0, &wish);
    table.withdraw(peer(2), 0, &wish);
    let gone = group.advertise(&table.select());
    assert_eq!(outline(&gone), [(Audience::All, 0, 1)]);
}

/// RFC 4684 §3.2 and interop.md 22: the wish for everything is our own, and the only one that some are told.
#[test]
fn memberships_of_others_are_told_to_those_who_take_them() {
    let membership =
        |number| Membership::exactly(64_496, ExtendedCommunity::route_target_as2(64_496, number));
    let mut table = Table::new();
    for nlri in [membership(1), membership(2), Membership::DEFAULT] {
        table.learn(&source(1), 0, nlri, Arc::new(attributes(100)));
    }
    let changes = table.select();
    let told = |bits| {
        let key = ExportKey {
            filter: Filter(bits),
            ..key(4096)
        };
        heard(
            &UpdateGroup::new(key, LOCAL).advertise(&changes),
            5,
            &Interest::Everything,
        )
        .0
    };
    assert_eq!((told(0), told(OTHERS_MEMBERSHIPS)), (0, 2));
}

/// Nor does a member that catches up hear that it is gone: the preface that says it is not said again.
#[test]
fn no_catch_up_takes_our_own_membership_back() {
    let others = Membership::exactly(64_496, ExtendedCommunity::route_target_as2(64_496, 1));
    let mut table = Table::new();
    for nlri in [others, Membership::DEFAULT] {
        table.learn(&source(1), 0, nlri, Arc::new(attributes(100)));
    }
    table.select();
    let known = table.revision();
    let caught_up = |table: &Table<Membership>, bits| {
        let key = ExportKey {
            filter: Filter(bits),
            ..key(4096)
        };
        let mut group = UpdateGroup::new(key, LOCAL);
        let image = group.image(table, known, &Interest::Everything).unwrap();
        heard(&image, 5, &Interest::Everything)
    };
    // Said again in another way, and gone.
    for nlri in [others, Membership::DEFAULT] {
        table.learn(&source(1), 0, nlri, Arc::new(attributes(200)));
    }
    table.select();
    assert_eq!(caught_up(&table, 0), (0, 0));
    assert_eq!(caught_up(&table, OTHERS_MEMBERSHIPS), (1, 0));
    for nlri in [others, Membership::DEFAULT] {
        table.withdraw(peer(1), 0, &nlri);
    }
    table.select();
    assert_eq!(caught_up(&table, 0), (0, 0));
    assert_eq!(caught_up(&table, OTHERS_MEMBERSHIPS), (0, 1));
}
