//! What a table says has changed, and since when.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::decision::Step;
use weft_bgp::nlri::unicast::Prefix4;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::table::{BestChange, Mark, Path, PathsChange, PeerKind, Source, Table, TooOld};

fn prefix(number: u32) -> Prefix4 {
    Prefix4::new(Ipv4Addr::from(0xc633_6400 + number), 32).unwrap()
}

fn source(number: u8) -> Arc<Source> {
    let address = Ipv4Addr::new(192, 0, 2, number).into();
    Arc::new(Source::new(peer(number), address, PeerKind::IbgpClient))
}

fn peer(number: u8) -> PeerId {
    PeerId {
        router_id: RouterId(number.into()),
        asn: 64_496,
    }
}

fn with_local_pref(local_pref: u32) -> Arc<Attributes> {
    Arc::new(Attributes {
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
        local_pref: Some(local_pref),
        ..Attributes::default()
    })
}

fn peer_of(path: Option<&Path<Prefix4>>) -> Option<u32> {
    path.map(|path| path.source.peer.router_id.0)
}

/// (prefix, old peer, new peer, revision)
fn told(changes: &[BestChange<Prefix4>]) -> Vec<(Prefix4, Option<u32>, Option<u32>, u64)> {
    let told = |c: &BestChange<Prefix4>| {
        (
            c.key,
            peer_of(c.old.as_ref()),
            peer_of(c.new.as_ref()),
            c.revision,
        )
    };
    changes.iter().map(told).collect()
}

#[test]
fn each_change_has_the_next_revision() {
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    table.learn(&source(1), 0, prefix(2), with_local_pref(100));
    table.learn(&source(2), 0, prefix(1), with_local_pref(200));
    let changes = table.select();
    assert_eq!(
        told(&changes),
        [(prefix(1), None, Some(2), 1), (prefix(2), None, Some(1), 2)]
    );
    assert_eq!(changes[0].by, Step::LocalPref);
    assert_eq!(
        (table.revision(), table.len(), table.paths_len()),
        (2, 2, 3)
    );

    table.withdraw(peer(2), 0, &prefix(1));
    table.withdraw(peer(1), 0, &prefix(2));
    table.withdraw(peer(7), 0, &prefix(9));
    let changes = table.select();
    assert_eq!(
        told(&changes),
        [
            (prefix(1), Some(2), Some(1), 3),
            (prefix(2), Some(1), None, 4)
        ]
    );
    assert_eq!(
        (table.revision(), table.len(), table.paths_len()),
        (4, 1, 1)
    );
    assert!(table.get(&prefix(2)).is_none());
}

#[test]
fn what_cannot_be_sent_is_no_change() {
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    assert_eq!(table.select().len(), 1);
    // The same again, a worse path, and there and back.
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    table.learn(&source(2), 0, prefix(1), with_local_pref(50));
    table.withdraw(peer(1), 0, &prefix(1));
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    assert!(table.select().is_empty());
    assert_eq!(table.revision(), 1);
    // Came and went between two selections.
    table.learn(&source(1), 0, prefix(2), with_local_pref(100));
    table.withdraw(peer(1), 0, &prefix(2));
    assert!(table.select().is_empty());
    assert_eq!((table.len(), table.paths_len()), (1, 2));
}

#[test]
fn until_the_next_selection_a_reader_sees_the_last_one() {
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    assert!(table.get(&prefix(1)).unwrap().selected.is_none());
    table.select();
    table.learn(&source(2), 0, prefix(1), with_local_pref(200));
    table.withdraw(peer(1), 0, &prefix(1));
    let selected = table.get(&prefix(1)).unwrap().selected;
    assert_eq!(peer_of(selected), Some(1));
    assert_eq!(
        told(&table.changes_since(0).unwrap()),
        [(prefix(1), None, Some(1), 1)]
    );
    table.select();
    let selected = table.get(&prefix(1)).unwrap().selected;
    assert_eq!(peer_of(selected), Some(2));
}

#[test]
fn a_lost_peer_takes_its_paths_with_it() {
    let mut table = Table::new();
    for number in 0..100 {
        table.learn(&source(1), 0, prefix(number), with_local_pref(100));
        if number % 2 == 0 {
            table.learn(&source(2), 0, prefix(number), with_local_pref(50));
        }
    }
    table.select();
    table.withdraw_peer(peer(1));
    let changes = table.select();
    assert_eq!(changes.iter().filter(|c| c.new.is_some()).count(), 50);
    assert_eq!(changes.iter().filter(|c| c.new.is_none()).count(), 50);
    assert_eq!((table.len(), table.paths_len()), (50, 50));
    table.withdraw_peer(peer(2));
    assert_eq!(table.select().len(), 50);
    assert!(table.is_empty());
}

#[test]
fn changes_since_are_each_destination_once_and_in_order() {
    let mut table = Table::new();
    for number in 1..=3 {
        table.learn(&source(1), 0, prefix(number), with_local_pref(100));
    }
    table.select();
    table.withdraw(peer(1), 0, &prefix(1));
    table.select();
    table.learn(&source(2), 0, prefix(2), with_local_pref(200));
    table.select();
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    table.withdraw(peer(1), 0, &prefix(3));
    table.select();
    assert_eq!(
        told(&table.changes_since(3).unwrap()),
        [
            (prefix(2), None, Some(2), 5),
            (prefix(1), None, Some(1), 6),
            (prefix(3), None, None, 7),
        ]
    );
    assert_eq!(
        told(&table.changes_since(0).unwrap()),
        [(prefix(2), None, Some(2), 5), (prefix(1), None, Some(1), 6)]
    );
    assert!(table.changes_since(7).unwrap().is_empty());
}

#[test]
fn forgotten_tombstones_are_too_old() {
    let mut table = Table::new().with_tombstones(2);
    for number in 1..=4 {
        table.learn(&source(1), 0, prefix(number), with_local_pref(100));
    }
    table.select();
    table.withdraw_peer(peer(1));
    table.select();
    assert_eq!(table.changes_since(5).unwrap_err(), TooOld { oldest: 6 });
    assert_eq!(table.changes_since(6).unwrap().len(), 2);
    assert!(table.changes_since(0).unwrap().is_empty());
}

#[test]
fn a_revision_of_another_table_is_too_old() {
    let mut table = Table::new();
    table.learn(&source(1), 0, prefix(1), with_local_pref(100));
    table.select();
    assert!(table.changes_since(1).unwrap().is_empty());
    assert!(table.changes_since(2).is_err());
}

type Best = BTreeMap<Prefix4, u32>;

fn apply(best: &mut Best, changes: &[BestChange<Prefix4>]) {
    for change in changes {
        match peer_of(change.new.as_ref()) {
            Some(peer) => best.insert(change.key, peer),
            None => best.remove(&change.key),
        };
    }
}

/// Peer and path id.
type Place = (u8, u32);

type Paths = BTreeMap<Prefix4, Vec<(PeerId, u32, Option<u32>)>>;

fn outline(paths: &[Path<Prefix4>]) -> Vec<(PeerId, u32, Option<u32>)> {
    let one = |path: &Path<Prefix4>| (path.source.peer, path.path_id(), path.attributes.local_pref);
    paths.iter().map(one).collect()
}

fn apply_paths(all: &mut Paths, changes: &[PathsChange<Prefix4>]) {
    for change in changes {
        let before = all.insert(change.key, outline(&change.after));
        assert_eq!(before.unwrap_or_default(), outline(&change.before));
        if change.after.is_empty() {
            all.remove(&change.key);
        }
    }
}

/// Reads a table part by part, at its own pace.
#[derive(Default)]
struct Slow {
    mark: Mark,
    gone: u64,
    has: Best,
}

impl Slow {
    fn read(&mut self, table: &Table<Prefix4>, size: usize) {
        let (gone, read) = table.gone_part(self.gone, size).unwrap();
        assert!(
            gone.len() <= size
                && gone
                    .iter()
                    .all(|(at, _)| (self.gone + 1..=read).contains(at))
        );
        for (_, key) in gone {
            self.has.remove(key);
        }
        self.gone = read;
        let part = table.read(self.mark, size);
        assert!(part.selected.len() <= size);
        for (revision, path) in part.selected {
            assert!(revision > self.mark.revision);
            self.has.insert(path.nlri, path.source.peer.router_id.0);
        }
        self.mark = part.next;
    }

    /// How many parts it took.
    fn catch_up(&mut self, table: &Table<Prefix4>, size: usize) -> usize {
        let mut parts = 0;
        while self.mark.is_walking() || self.mark.revision.min(self.gone) < table.revision() {
            self.read(table, size);
            parts += 1;
        }
        parts
    }
}

#[test]
fn a_reader_that_has_everything_reads_no_more_than_what_changed() {
    let mut table = Table::new().with_recent(20);
    for number in 0..100 {
        table.learn(&source(1), 0, prefix(number), with_local_pref(100));
    }
    table.select();
    let mut reader = Slow::default();
    assert_eq!(reader.catch_up(&table, 10), 10);
    table.learn(&source(2), 0, prefix(50), with_local_pref(200));
    table.select();
    assert_eq!(reader.catch_up(&table, 10), 1);
    assert_eq!(reader.has[&prefix(50)], 2);
    // More than is remembered: all slots are looked at, and only what changed is told.
    for number in 0..30 {
        table.learn(&source(2), 0, prefix(number), with_local_pref(200));
    }
    table.select();
    reader.has.clear();
    assert_eq!(reader.catch_up(&table, 10), 4);
    assert_eq!(reader.has.len(), 30);
}

#[test]
fn a_part_looks_at_a_bounded_number_of_slots() {
    let mut table = Table::new();
    for number in 0..1_000 {
        table.learn(&source(1), 0, prefix(number), with_local_pref(100));
    }
    table.learn(&source(2), 0, prefix(1_000), with_local_pref(100));
    table.select();
    table.withdraw_peer(peer(1));
    table.select();
    let part = table.read(Mark::default(), 10);
    assert!(part.selected.is_empty() && part.next.is_walking());
    let (mut seen, mut place) = (0, Some(0));
    while let Some(at) = place {
        let (page, next) = table.page(at, 300);
        seen += page.len();
        place = next;
    }
    assert_eq!(seen, 1);
}

#[derive(Clone, Debug)]
enum Op {
    Learn(Place, u32, u32),
    Withdraw(Place, u32),
    Lose(u8),
    Select,
}

fn any_op() -> impl Strategy<Value = Op> {
    let place = || (1..4_u8, prop_oneof![3 => Just(0_u32), 1 => 1..4_u32]);
    prop_oneof![
        30 => (place(), 0..300_u32, 0..4_u32).prop_map(|(from, nlri, pref)| Op::Learn(from, nlri, pref)),
        20 => (place(), 0..300_u32).prop_map(|(from, nlri)| Op::Withdraw(from, nlri)),
        1 => (1..4_u8).prop_map(Op::Lose),
        3 => Just(Op::Select),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is learned and withdrawn between selections: the table holds what a map of maps would, its changes
    /// applied one after the other give its selection, and so do its changes since any moment, and its parts read between
    /// them.
    #[test]
    fn a_table_is_a_map_of_maps(
        ops in proptest::collection::vec(any_op(), 1..1500),
        seed in any::<u64>(),
        moment in any::<prop::sample::Index>(),
        recent in prop_oneof![Just(0_usize), Just(30), Just(1_000)],
    ) {
        let moment = moment.index(ops.len());
        let mut table = Table::with_seed(seed).with_recent(recent);
        let mut reader = Slow::default();
        let mut facts: BTreeMap<Prefix4, BTreeMap<Place, u32>> = BTreeMap::new();
        table.track_paths(true);
        let mut all = Paths::new();
        let (mut best, mut then) = (Best::new(), (0, Best::new()));
        for (place, op) in ops.iter().enumerate() {
            match *op {
                Op::Learn(from, nlri, pref) => {
                    table.learn(&source(from.0), from.1, prefix(nlri), with_local_pref(pref));
                    facts.entry(prefix(nlri)).or_default().insert(from, pref);
                }
                Op::Withdraw(from, nlri) => {
                    table.withdraw(peer(from.0), from.1, &prefix(nlri));
                    facts.entry(prefix(nlri)).or_default().remove(&from);
                }
                Op::Lose(from) => {
                    table.withdraw_peer(peer(from));
                    facts.values_mut().for_each(|paths| {
                        paths.retain(|place, _| place.0 != from);
                    });
                }
                Op::Select => {
                    apply(&mut best, &table.select());
                    apply_paths(&mut all, &table.path_changes());
                    reader.read(&table, 7);
                }
            }
            if place == moment {
                then = (table.revision(), best.clone());
            }
        }
        let as_of_the_last_selection: Vec<_> = table.tracked_paths().map(outline).collect();
        prop_assert_eq!(as_of_the_last_selection.len(), all.len());
        prop_assert!(as_of_the_last_selection.iter().all(|paths| all.values().any(|it| it == paths)));
        apply(&mut best, &table.select());
        apply_paths(&mut all, &table.path_changes());
        reader.catch_up(&table, 7);
        prop_assert_eq!(&reader.has, &best);
        facts.retain(|_, paths| !paths.is_empty());
        prop_assert_eq!(table.len(), facts.len());
        prop_assert_eq!(table.paths_len(), facts.values().map(BTreeMap::len).sum::<usize>());
        prop_assert_eq!(table.iter().count(), facts.len());
        let mut by_peer: BTreeMap<PeerId, usize> = BTreeMap::new();
        for (from, _) in facts.values().flat_map(BTreeMap::keys) {
            *by_peer.entry(peer(*from)).or_default() += 1;
        }
        prop_assert_eq!(table.paths_by_peer().collect::<BTreeMap<_, _>>(), by_peer);
        for (nlri, paths) in &facts {
            let held = table.get(nlri).unwrap();
            let expected: Vec<_> = paths.iter().map(|((from, id), pref)| (peer(*from), *id, Some(*pref))).collect();
            prop_assert_eq!(outline(held.paths), expected.clone());
            prop_assert_eq!(all.get(nlri), Some(&expected));
            // Highest preference, then lowest router id.
            let expected = paths.iter().max_by_key(|(from, pref)| (**pref, u8::MAX - from.0));
            prop_assert_eq!(best.get(nlri).copied(), expected.map(|(from, _)| u32::from(from.0)));
        }
        prop_assert_eq!(best.len(), facts.len());
        prop_assert_eq!(all.len(), facts.len());
        let (since, mut caught_up) = then;
        if since == 0 {
            caught_up.clear();
        }
        apply(&mut caught_up, &table.changes_since(since).unwrap());
        prop_assert_eq!(caught_up, best);
    }
}
