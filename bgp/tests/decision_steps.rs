//! Best path, step by step: RFC 4271 §9.1.2.2 and RFC 4456 §9.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;
use weft_bgp::attribute::{AsPath, Attributes, Community, NextHop, Origin};
use weft_bgp::decision::{self, Step};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::Prefix4;
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::table::{Path, PeerKind, Source, Stale, Table};

const LOCAL_AS: u32 = 64_496;

fn prefix(number: u8) -> Prefix4 {
    Prefix4::new(Ipv4Addr::new(198, 51, 100, number), 32).unwrap()
}

fn source(number: u8, kind: PeerKind) -> Arc<Source> {
    let peer = PeerId {
        router_id: RouterId(number.into()),
        asn: LOCAL_AS,
    };
    let address = Ipv4Addr::new(192, 0, 2, number).into();
    Arc::new(Source::new(peer, address, kind))
}

fn client(number: u8) -> Arc<Source> {
    source(number, PeerKind::IbgpClient)
}

fn through(asns: &[u32]) -> Attributes {
    Attributes {
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
        as_path: asns.iter().rev().fold(AsPath::default(), |mut path, asn| {
            path.prepend(*asn);
            path
        }),
        ..Attributes::default()
    }
}

fn path(source: &Arc<Source>, attributes: Attributes) -> Path<Prefix4> {
    Path {
        source: Arc::clone(source),
        attributes: Arc::new(attributes),
        nlri: prefix(1),
    }
}

/// The router id of the winner, and why.
fn select(paths: &[Path<Prefix4>]) -> (u32, Step) {
    let selected = decision::select(paths).unwrap();
    assert_eq!(paths[selected.index].source, selected.path.source);
    (selected.path.source.peer.router_id.0, selected.by)
}

/// Of two paths that differ in one thing only, peer 9 has the better one; the other wins every later step.
fn nine_beats_one(by: Step, better: Attributes, worse: Attributes) {
    let (nine, one) = (path(&client(9), better), path(&client(1), worse));
    assert_eq!(select(&[one.clone(), nine.clone()]), (9, by));
    assert_eq!(select(&[nine, one]), (9, by));
}

#[test]
fn no_path_is_no_selection() {
    assert!(decision::select::<Prefix4>(&[]).is_none());
}

#[test]
fn the_only_path_wins() {
    assert_eq!(
        select(&[path(&client(4), through(&[]))]),
        (4, Step::OnlyPath)
    );
}

#[test]
fn highest_local_preference_wins_and_is_100_if_absent() {
    let with = |local_pref| Attributes {
        local_pref,
        ..through(&[])
    };
    nine_beats_one(Step::LocalPref, with(Some(101)), with(None));
    nine_beats_one(Step::LocalPref, with(None), with(Some(99)));
    let equal = [
        path(&client(9), with(None)),
        path(&client(1), with(Some(100))),
    ];
    assert_eq!(select(&equal), (1, Step::RouterId));
}

#[test]
fn shortest_as_path_wins() {
    nine_beats_one(Step::AsPathLength, through(&[1]), through(&[2, 3]));
    nine_beats_one(Step::AsPathLength, through(&[]), through(&[3]));
}

#[test]
fn lowest_origin_wins() {
    let with = |origin| Attributes {
        origin,
        ..through(&[])
    };
    nine_beats_one(Step::Origin, with(Origin::Igp), with(Origin::Egp));
    nine_beats_one(Step::Origin, with(Origin::Egp), with(Origin::Incomplete));
}

fn with_med(asn: u32, med: Option<u32>) -> Attributes {
    Attributes {
        med,
        ..through(&[asn])
    }
}

#[test]
fn lowest_med_wins_within_a_neighbouring_as_and_is_0_if_absent() {
    nine_beats_one(Step::Med, with_med(7, Some(1)), with_med(7, Some(2)));
    nine_beats_one(Step::Med, with_med(7, None), with_med(7, Some(1)));
    let others = [
        path(&client(9), with_med(7, Some(1))),
        path(&client(1), with_med(8, Some(2))),
    ];
    assert_eq!(select(&others), (1, Step::RouterId));
}

/// Peer 1 beats 2 and 2 beats 3 by router id, 3 beats 1 by MED: pairwise comparison goes round in a circle.
#[test]
fn med_is_not_transitive_and_the_order_does_not_matter() {
    let paths = [
        path(&client(1), with_med(7, Some(20))),
        path(&client(2), with_med(8, Some(30))),
        path(&client(3), with_med(7, Some(10))),
    ];
    assert_eq!(select(&[paths[0].clone(), paths[1].clone()]).0, 1);
    assert_eq!(select(&[paths[1].clone(), paths[2].clone()]).0, 2);
    assert_eq!(select(&[paths[2].clone(), paths[0].clone()]).0, 3);
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let ordered = order.map(|i: usize| paths[i].clone());
        assert_eq!(select(&ordered), (2, Step::RouterId));
    }
}

#[test]
fn external_wins_over_internal() {
    let external = path(&source(9, PeerKind::RouteServerClient), through(&[7]));
    let internal = path(&client(1), through(&[7]));
    assert_eq!(
        select(&[internal, external]),
        (9, Step::ExternalOverInternal)
    );
}

#[test]
fn originator_stands_in_for_the_router_id() {
    let originated = |router_id| Attributes {
        originator_id: Some(RouterId(router_id)),
        ..through(&[])
    };
    nine_beats_one(Step::RouterId, originated(1), originated(2));
    let mixed = [
        path(&client(9), originated(3)),
        path(&client(4), through(&[])),
    ];
    assert_eq!(select(&mixed), (9, Step::RouterId));
}

#[test]
fn shortest_cluster_list_wins() {
    let reflected = |clusters: u32| Attributes {
        originator_id: Some(RouterId(77)),
        cluster_list: (0..clusters).map(ClusterId).collect(),
        ..through(&[])
    };
    nine_beats_one(Step::ClusterListLength, reflected(1), reflected(2));
}

#[test]
fn lowest_peer_address_wins_then_lowest_peer_as() {
    let at = |asn: u32, last: u8| {
        let peer = PeerId {
            router_id: RouterId(5),
            asn,
        };
        let address = Ipv4Addr::new(192, 0, 2, last).into();
        Arc::new(Source::new(peer, address, PeerKind::Ebgp))
    };
    let paths = [
        path(&at(7, 20), through(&[])),
        path(&at(8, 10), through(&[])),
    ];
    let selected = decision::select(&paths).unwrap();
    assert_eq!((selected.index, selected.by), (1, Step::PeerAddress));
    let paths = [
        path(&at(8, 10), through(&[])),
        path(&at(7, 10), through(&[])),
    ];
    let selected = decision::select(&paths).unwrap();
    assert_eq!((selected.index, selected.by), (1, Step::PeerAs));
}

#[test]
fn steps_are_shown_in_words() {
    assert_eq!(
        Step::Med.to_string(),
        "lowest MED from the same neighbouring AS"
    );
    assert_eq!(Step::Family("sticky MAC").to_string(), "sticky MAC");
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let small = || proptest::option::of(0..3_u32);
    (
        small(),
        proptest::collection::vec(1..4_u32, 0..3),
        0..3_u8,
        small(),
        small(),
        0..3_u32,
    )
        .prop_map(
            |(local_pref, asns, origin, med, originator, clusters)| Attributes {
                local_pref: local_pref.map(|n| n + 99),
                origin: [Origin::Igp, Origin::Egp, Origin::Incomplete][usize::from(origin)],
                med,
                originator_id: originator.map(RouterId),
                cluster_list: (0..clusters).map(ClusterId).collect(),
                ..through(&asns)
            },
        )
}

fn any_kind() -> impl Strategy<Value = PeerKind> {
    prop_oneof![
        Just(PeerKind::IbgpClient),
        Just(PeerKind::IbgpNonClient),
        Just(PeerKind::RouteServerClient),
        Just(PeerKind::Ebgp)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn order_of_arrival_does_not_change_the_selected_path(
        (arrivals, shuffled) in proptest::collection::vec((any_attributes(), any_kind()), 1..7)
            .prop_map(|paths| paths.into_iter().enumerate().collect::<Vec<_>>())
            .prop_flat_map(|paths| (Just(paths.clone()), Just(paths).prop_shuffle())),
        select_between in any::<bool>(),
    ) {
        let selected = |order: &[(usize, (Attributes, PeerKind))]| {
            let mut table = Table::new();
            for (number, (attributes, kind)) in order {
                let source = source(u8::try_from(*number).unwrap() + 1, *kind);
                table.learn(&source, 0, prefix(1), Arc::new(attributes.clone()));
                if select_between {
                    table.select();
                }
            }
            table.select();
            let destination = table.get(&prefix(1)).unwrap();
            let path = destination.selected.unwrap();
            (path.source.peer, destination.by)
        };
        prop_assert_eq!(selected(&arrivals), selected(&shuffled));
    }
}

/// RFC 9494 §4.3: even the best of all is the last choice when its session ended long ago, or when it says so.
#[test]
fn a_long_lived_stale_path_wins_only_against_its_like() {
    let preferred = Attributes {
        local_pref: Some(1000),
        ..through(&[])
    };
    let marked = Attributes {
        communities: vec![Community::LLGR_STALE],
        ..preferred.clone()
    };
    let aged = |number, stale| {
        let source = Source {
            stale,
            ..(*client(number)).clone()
        };
        Arc::new(source)
    };
    let (gone, kept) = (aged(1, Stale::LongLived), aged(1, Stale::Graceful));
    let plain = path(&client(2), through(&[]));
    assert_eq!(
        select(&[path(&gone, preferred.clone()), plain.clone()]),
        (2, Step::Stale)
    );
    assert_eq!(
        select(&[path(&client(1), marked.clone()), plain.clone()]),
        (2, Step::Stale)
    );
    assert_eq!(
        select(&[path(&kept, preferred.clone()), plain.clone()]),
        (1, Step::LocalPref)
    );
    assert_eq!(
        select(&[path(&gone, preferred), path(&client(3), marked)]),
        (1, Step::RouterId)
    );
}

#[test]
fn a_withheld_path_wins_only_against_its_like() {
    let withheld = |number| {
        let source = Source {
            withheld: true,
            ..(*client(number)).clone()
        };
        Arc::new(source)
    };
    let preferred = Attributes {
        local_pref: Some(1000),
        ..through(&[])
    };
    let marked = Attributes {
        communities: vec![Community::LLGR_STALE],
        ..through(&[])
    };
    let held = path(&withheld(1), preferred);
    assert_eq!(
        select(&[held.clone(), path(&client(2), marked)]),
        (2, Step::Withheld)
    );
    assert_eq!(
        select(&[held.clone(), path(&withheld(3), through(&[]))]),
        (1, Step::LocalPref)
    );
    assert_eq!(select(&[held]), (1, Step::OnlyPath));
}

fn with_id(number: u8, path_id: u32, attributes: Attributes) -> Path<Prefix4> {
    let source = Source {
        path_id,
        ..(*client(number)).clone()
    };
    path(&Arc::new(source), attributes)
}

#[test]
fn paths_of_one_peer_are_told_apart_by_their_ids() {
    let paths = [with_id(1, 9, through(&[])), with_id(1, 4, through(&[]))];
    let selected = decision::select(&paths).unwrap();
    assert_eq!((selected.index, selected.by), (1, Step::PathId));
}

fn with_pref(number: u8, local_pref: u32) -> Path<Prefix4> {
    let attributes = Attributes {
        local_pref: Some(local_pref),
        ..through(&[])
    };
    path(&client(number), attributes)
}

#[test]
fn every_loser_is_told_by_which_step() {
    let paths = [
        with_pref(5, 100),
        with_pref(4, 200),
        with_pref(3, 200),
        with_pref(2, 50),
    ];
    let by = Step::LocalPref;
    assert_eq!(
        decision::explain(&paths),
        [(0, by), (3, by), (1, Step::RouterId)]
    );
    assert!(decision::explain(&paths[..1]).is_empty());
    assert!(decision::explain::<Prefix4>(&[]).is_empty());
}

#[test]
fn the_best_paths_are_the_best_of_those_that_are_left() {
    let paths = [with_pref(1, 100), with_pref(2, 300), with_pref(3, 200)];
    assert_eq!(decision::best(&paths, 2), [1, 2]);
    assert_eq!(decision::best(&paths, 9), [1, 2, 0]);
    assert!(decision::best::<Prefix4>(&[], 2).is_empty());
}

/// RFC 4684 §3.2: non-clients are told it, and none of theirs.
#[test]
fn a_clients_membership_goes_before_a_non_clients() {
    let preferred = Attributes {
        local_pref: Some(1000),
        ..through(&[])
    };
    let outside = source(1, PeerKind::IbgpNonClient);
    let wants = |source: &Arc<Source>, attributes: Attributes| Path {
        source: Arc::clone(source),
        attributes: Arc::new(attributes),
        nlri: Membership::DEFAULT,
    };
    let paths = [
        wants(&outside, preferred.clone()),
        wants(&client(9), through(&[])),
    ];
    let selected = decision::select(&paths).unwrap();
    assert_eq!((selected.index, selected.by), (1, Step::NonClient));
    // Of other families non-clients are meshed and know the better one.
    let other = [path(&outside, preferred), path(&client(9), through(&[]))];
    assert_eq!(select(&other), (1, Step::LocalPref));
}
