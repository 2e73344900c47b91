//! Messages of a peer by direction and kind. Counted without a lock: the writers of all peers count for each route that
//! is told. Knows no peer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_bgp::message::MessageKind;

use super::Direction;

/// How many there were.
#[derive(Debug, Default)]
pub(super) struct Tally([[AtomicU64; KINDS.len()]; 2]);

impl Tally {
    /// So many more.
    pub(super) fn add(&self, direction: Direction, kind: MessageKind, count: u64) {
        self.0[direction as usize][kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Those that there were, with the names of their kinds.
    pub(super) fn totals(&self) -> BTreeMap<(Direction, &'static str), u64> {
        let directions = [Direction::Received, Direction::Sent];
        let all = directions.into_iter().flat_map(|direction| {
            let counts = &self.0[direction as usize];
            let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
            KINDS
                .into_iter()
                .zip(counts)
                .map(move |(kind, count)| ((direction, kind), count))
        });
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// Names in the order of `MessageKind`.
const KINDS: [&str; 5] = [
    "open",
    "update",
    "notification",
    "keepalive",
    "route-refresh",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_name() {
        let tally = Tally::default();
        assert!(tally.totals().is_empty());
        let kinds = [
            (MessageKind::Open, "open"),
            (MessageKind::Update, "update"),
            (MessageKind::Notification, "notification"),
            (MessageKind::Keepalive, "keepalive"),
            (MessageKind::RouteRefresh, "route-refresh"),
        ];
        for (count, (kind, _)) in (1..).zip(kinds) {
            tally.add(Direction::Sent, kind, count);
            tally.add(Direction::Sent, kind, 10);
        }
        tally.add(Direction::Received, MessageKind::Update, 7);
        let sent = (11..).zip(kinds);
        let mut expected: BTreeMap<_, _> = sent
            .map(|(count, (_, name))| ((Direction::Sent, name), count))
            .collect();
        expected.insert((Direction::Received, "update"), 7);
        assert_eq!(tally.totals(), expected);
    }
}
