//! Hosts that move, hosts that are twice, loops, and sessions that flap.

use std::sync::Arc;

use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::table::{PeerKind, Source, Table};

use super::*;
use crate::community::Encapsulation;
use crate::route::{Labels, MacIp, MacIpKey};
use crate::{Esi, EthernetTag, Label};

/// A table and what watches it.
struct World {
    table: Table<Route>,
    moves: Moves,
    alarms: Vec<Alarm>,
}

fn peer(leaf: u8) -> PeerId {
    PeerId {
        router_id: RouterId(leaf.into()),
        asn: 64_496,
    }
}

fn vtep(leaf: u8) -> Holder {
    Holder::Vtep([192, 0, 2, leaf].into())
}

fn secs(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn host(leaf: u8, mac: u8, esi: u8) -> Route {
    let key = MacIpKey {
        rd: Rd::from_ipv4([192, 0, 2, leaf].into(), 1),
        tag: EthernetTag(0),
        mac: Mac([0, 0, 0x5e, 0, 0x53, mac]),
        ip: None,
    };
    Route::MacIp(MacIp {
        key,
        esi: Esi([esi; 10]),
        labels: Labels::One(Label([0, 0, 100])),
    })
}

fn attributes(leaf: u8, sequence: u32) -> Attributes {
    Attributes {
        next_hop: Some(NextHop::V4([192, 0, 2, leaf].into())),
        ext_communities: vec![
            Encapsulation::new(Encapsulation::VXLAN).octets(),
            MacMobility::new(false, sequence).octets(),
        ],
        ..Attributes::default()
    }
}

impl World {
    fn new(settings: Settings) -> Self {
        Self {
            table: Table::new(),
            moves: Moves::new(settings),
            alarms: Vec::new(),
        }
    }

    fn announce(&mut self, leaf: u8, mac: u8, sequence: u32, now: u64) {
        self.announce_behind(leaf, mac, 0, sequence, now);
    }

    fn announce_behind(&mut self, leaf: u8, mac: u8, esi: u8, sequence: u32, now: u64) {
        let address = [192, 0, 2, leaf].into();
        let source = Source::new(peer(leaf), address, PeerKind::IbgpClient);
        let attributes = Arc::new(attributes(leaf, sequence));
        let route = host(leaf, mac, esi);
        self.table.learn(&Arc::new(source), 0, route, attributes);
        self.select(now);
    }

    fn lose(&mut self, leaf: u8, now: u64) {
        self.table.withdraw_peer(peer(leaf));
        self.select(now);
    }

    fn select(&mut self, now: u64) {
        for change in self.table.select() {
            self.alarms.extend(self.moves.learn(&change, secs(now)));
        }
    }

    fn duplicates(&self, now: u64) -> usize {
        self.moves.duplicates(secs(now)).count()
    }
}

fn vni() -> Vni {
    Vni::new(100).unwrap()
}

fn mac(number: u8) -> Mac {
    Mac([0, 0, 0x5e, 0, 0x53, number])
}

#[test]
fn a_host_in_two_places_is_said_at_the_fifth_move_and_once() {
    let mut world = World::new(Settings::default());
    world.announce(1, 7, 0, 0);
    for sequence in 1..=4 {
        world.announce(
            if sequence % 2 == 0 { 1 } else { 2 },
            7,
            sequence,
            sequence.into(),
        );
        assert_eq!(world.alarms, []);
    }
    world.announce(2, 7, 5, 5);
    let alarm = Alarm::Duplicate {
        vni: vni(),
        mac: mac(7),
        from: vtep(1),
        to: vtep(2),
        moves: 5,
    };
    assert_eq!(world.alarms, std::slice::from_ref(&alarm));
    assert_eq!(
        alarm.to_string(),
        "00:00:5e:00:53:07 in VNI 100 moved 5 times, last from 192.0.2.1 to 192.0.2.2"
    );
    world.announce(1, 7, 6, 6);
    assert_eq!(world.alarms.len(), 1);
    assert_eq!((world.duplicates(1_804), world.duplicates(1_805)), (1, 0));
    // Recovered, and it starts again.
    for sequence in 7..=11 {
        let now = 2_000 + u64::from(sequence);
        world.announce(if sequence % 2 == 0 { 1 } else { 2 }, 7, sequence, now);
    }
    assert_eq!(world.alarms.len(), 2);
}

#[test]
fn a_host_that_moves_now_and_then_is_none() {
    let mut world = World::new(Settings::default());
    for sequence in 0..40_u8 {
        let now = u64::from(sequence) * 46;
        world.announce(1 + sequence % 2, 7, sequence.into(), now);
    }
    assert_eq!(world.alarms, []);
    world.moves.forget(secs(10_000));
    assert!(world.moves.history.is_empty());
}

#[test]
fn a_session_that_flaps_moves_nothing() {
    let mut world = World::new(Settings::default());
    world.announce(2, 7, 3, 0);
    for round in 1..50 {
        world.announce(1, 7, 4, round * 2);
        world.lose(1, round * 2 + 1);
    }
    assert_eq!(world.alarms, []);
    // Only the first announcement was one.
    assert_eq!(world.moves.history[&(vni(), mac(7))].times.len(), 1);
}

#[test]
fn an_address_that_everybody_has_does_not_move() {
    let mut world = World::new(Settings::default());
    for round in 0..20 {
        for leaf in 1..5 {
            world.announce(leaf, 7, 0, round);
            world.lose(leaf, round);
            world.announce(leaf, 7, 0, round);
        }
    }
    assert!(world.moves.history.is_empty());
}

#[test]
fn within_a_segment_nothing_moves() {
    let mut world = World::new(Settings::default());
    for sequence in 0..20_u8 {
        world.announce_behind(1 + sequence % 2, 7, 9, sequence.into(), sequence.into());
    }
    assert!(world.moves.history.is_empty());
    world.announce(3, 7, 30, 30);
    world.announce_behind(1, 7, 9, 31, 31);
    assert_eq!(world.moves.history[&(vni(), mac(7))].times.len(), 2);
}

#[test]
fn a_duplicate_is_where_it_was_last_unless_it_is_withheld_or_gone() {
    let mut world = World::new(Settings::default());
    for sequence in 0..=5_u8 {
        world.announce(1 + sequence % 2, 7, sequence.into(), 1);
    }
    let expected = Duplicate {
        place: (vni(), mac(7)),
        holder: Some(vtep(2)),
        is_sticky: false,
        until: secs(1_801),
    };
    let duplicates = |world: &World| world.moves.duplicates(secs(2)).collect::<Vec<_>>();
    assert_eq!(duplicates(&world), [expected]);
    // What is withheld moves nothing, and comes back as one move.
    let withheld = |withheld| Source {
        withheld,
        ..Source::new(peer(1), [192, 0, 2, 1].into(), PeerKind::IbgpClient)
    };
    for (is_withheld, holder) in [(true, vtep(2)), (false, vtep(1))] {
        let source = Arc::new(withheld(is_withheld));
        let attributes = Arc::new(attributes(1, 9));
        world.table.learn(&source, 0, host(1, 7, 0), attributes);
        world.select(2);
        assert_eq!(duplicates(&world)[0].holder, Some(holder));
    }
    world.lose(1, 2);
    world.lose(2, 2);
    assert_eq!(duplicates(&world)[0].holder, None);
    world.moves.clear(vni(), mac(7));
    assert_eq!(duplicates(&world), []);
}

/// With graceful restart its routes stay until it says them again.
#[test]
fn a_leaf_that_counts_from_the_beginning_blinds_nobody() {
    let mut world = World::new(Settings::default());
    world.announce(2, 7, 39, 0);
    world.announce(1, 7, 40, 0);
    world.lose(2, 0);
    world.announce(1, 7, 0, 1);
    assert_eq!(world.moves.history[&(vni(), mac(7))].times.len(), 1);
    for sequence in 1..=4_u8 {
        world.announce(1 + sequence % 2, 7, sequence.into(), 2);
    }
    assert_eq!(world.alarms.len(), 1);
    assert_eq!(world.moves.duplicates(secs(3)).count(), 1);
    // One that is not the last word does not lower it.
    let mut world = World::new(Settings::default());
    world.announce(1, 7, 5, 0);
    world.announce(2, 7, 9, 0);
    world.announce(1, 7, 0, 0);
    world.announce(1, 7, 3, 0);
    assert_eq!(world.moves.history[&(vni(), mac(7))].times.len(), 1);
    assert_eq!(world.moves.hosts[&(vni(), mac(7))].sequence, 9);
}

/// Leaf 1 never withdraws its first word.
#[test]
fn a_duplicate_is_nowhere_if_the_last_word_was_taken_back() {
    let mut world = World::new(Settings {
        moves: 1,
        ..Settings::default()
    });
    let holder = |world: &World| {
        let mut duplicates = world.moves.duplicates(secs(2));
        duplicates.next().unwrap().holder
    };
    world.announce(1, 7, 0, 0);
    world.announce(2, 7, 7, 1);
    assert_eq!((world.alarms.len(), holder(&world)), (1, Some(vtep(2))));
    world.lose(2, 1);
    assert_eq!(holder(&world), None);
    world.announce(1, 7, 0, 1);
    assert_eq!(holder(&world), None);
    world.announce(1, 7, 8, 1);
    assert_eq!(holder(&world), Some(vtep(1)));
    // Said again, and later, by the same one.
    world.announce(1, 7, 8, 1);
    world.announce(1, 7, 9, 1);
    assert_eq!(holder(&world), Some(vtep(1)));
    // Another one says the same, but not first.
    world.announce(3, 7, 9, 1);
    assert_eq!(holder(&world), Some(vtep(1)));
    world.lose(1, 1);
    assert_eq!(holder(&world), None);
}

#[test]
fn a_static_address_is_no_reason_to_freeze_and_is_not_withheld() {
    let sticky = |leaf, sequence| Attributes {
        ext_communities: vec![
            Encapsulation::new(Encapsulation::VXLAN).octets(),
            MacMobility::new(true, sequence).octets(),
        ],
        ..attributes(leaf, sequence)
    };
    let standing = |leaf, attributes| vtep(2).standing(&host(leaf, 7, 0), &attributes);
    assert_eq!(standing(2, attributes(2, 1)), Some(Standing::Holder));
    assert_eq!(standing(1, attributes(1, 1)), Some(Standing::Other));
    assert_eq!(standing(1, sticky(1, 1)), Some(Standing::Sticky));
    assert_eq!(standing(2, sticky(2, 1)), Some(Standing::Holder));
    let place = place(&host(1, 7, 0), &attributes(1, 1));
    assert_eq!(place, Some((vni(), mac(7))));

    let mut world = World::new(Settings::default());
    for sequence in 0..5_u8 {
        world.announce(1 + sequence % 2, 7, sequence.into(), 1);
    }
    let source = Source::new(peer(2), [192, 0, 2, 2].into(), PeerKind::IbgpClient);
    let attributes = Arc::new(sticky(2, 5));
    let source = Arc::new(source);
    world.table.learn(&source, 0, host(2, 7, 0), attributes);
    world.select(1);
    assert_eq!(world.alarms.len(), 1);
    assert!(world.moves.duplicates(secs(2)).all(|it| it.is_sticky));
}

#[test]
fn other_settings_hold_for_what_moved_before() {
    let mut world = World::new(Settings::default());
    for sequence in 0..=3_u8 {
        world.announce(1 + sequence % 2, 7, sequence.into(), 1);
    }
    world.moves.set(Settings {
        moves: 2,
        ..Settings::default()
    });
    world.announce(1, 7, 4, 2);
    assert_eq!(world.alarms.len(), 1);
    assert_eq!(world.moves.history[&(vni(), mac(7))].times.len(), 2);
}

#[test]
fn a_loop_is_a_storm() {
    let mut world = World::new(Settings::default());
    for sequence in 0..4_u8 {
        for mac in 0..40 {
            world.announce(1 + sequence % 2, mac, sequence.into(), 1);
        }
    }
    let storm = Alarm::Storm {
        vni: vni(),
        moves: 100,
    };
    assert_eq!(world.alarms, [storm]);
    world.moves.forget(secs(100));
    assert!(world.moves.storms.is_empty());
}

#[test]
fn memory_is_bounded() {
    let settings = Settings {
        followed_max: 4,
        ..Settings::default()
    };
    let mut world = World::new(settings);
    for mac in 0..10 {
        world.announce(1, mac, 0, 0);
    }
    assert_eq!((world.moves.followed(), world.moves.unfollowed()), (4, 6));
    world.lose(1, 1);
    world.moves.forget(secs(1_000));
    assert_eq!(world.moves.followed(), 0);
    assert_eq!(size_of::<(Place, Host)>(), 24);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes and goes, when all is gone and old, nothing is left.
    #[test]
    fn nothing_is_kept_for_ever(
        steps in prop::collection::vec((0..3_u8, 1..4_u8, 0..3_u8, 0..6_u32), 0..80),
    ) {
        let mut world = World::new(Settings { moves: 2, ..Settings::default() });
        for (now, (verb, leaf, mac, sequence)) in steps.into_iter().enumerate() {
            let now = now as u64;
            match verb {
                0 => world.lose(leaf, now),
                _ => world.announce(leaf, mac, sequence, now),
            }
        }
        (1..4).for_each(|leaf| world.lose(leaf, 100));
        world.moves.forget(secs(10_000));
        prop_assert_eq!(world.moves.followed(), 0);
        prop_assert!(world.moves.history.is_empty() && world.moves.storms.is_empty());
    }
}
