//! Messages of a peer by direction and kind. Counted without a lock: for each route that is told, the writers of all
//! peers count. Knows no peer.

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
        self.0[direction as usize][place(kind)].fetch_add(count, Ordering::Relaxed);
    }

    /// Those that there were, with the names of their kinds.
    pub(super) fn totals(&self) -> BTreeMap<(Direction, &'static str), u64> {
        let directions = [Direction::Received, Direction::Sent];
        let all = directions.into_iter().flat_map(|direction| {
            let count = move |kind| self.0[direction as usize][place(kind)].load(Ordering::Relaxed);
            KINDS.map(|kind| ((direction, label(kind)), count(kind)))
        });
        all.filter(|(_, count)| *count > 0).collect()
    }
}

const KINDS: [MessageKind; 5] = [
    MessageKind::Open,
    MessageKind::Update,
    MessageKind::Notification,
    MessageKind::Keepalive,
    MessageKind::RouteRefresh,
];

/// In `KINDS`.
fn place(kind: MessageKind) -> usize {
    match kind {
        MessageKind::Open => 0,
        MessageKind::Update => 1,
        MessageKind::Notification => 2,
        MessageKind::Keepalive => 3,
        MessageKind::RouteRefresh => 4,
    }
}

fn label(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Open => "open",
        MessageKind::Update => "update",
        MessageKind::Notification => "notification",
        MessageKind::Keepalive => "keepalive",
        MessageKind::RouteRefresh => "route-refresh",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_counted_under_its_name() {
        let tally = Tally::default();
        assert!(tally.totals().is_empty());
        for (count, kind) in (1..).zip(KINDS) {
            tally.add(Direction::Sent, kind, count);
            tally.add(Direction::Sent, kind, 10);
        }
        tally.add(Direction::Received, MessageKind::Update, 7);
        let sent = (11..).zip(KINDS);
        let mut expected: BTreeMap<_, _> = sent
            .map(|(count, kind)| ((Direction::Sent, label(kind)), count))
            .collect();
        expected.insert((Direction::Received, "update"), 7);
        assert_eq!(tally.totals(), expected);
    }
}
