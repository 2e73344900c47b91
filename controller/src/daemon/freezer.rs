//! What the leader makes of MAC addresses that move too often: facts, which every replica acts upon.
//! Level-triggered and without memory: it compares what a replica sees with what is agreed, so a new leader
//! goes on where the old one stopped. How long a freeze lasts is counted by each replica since it learned
//! of it; one that was started again counts anew.

use std::time::Duration;

use weft_evpn::moves::{Duplicate, Holder, Place};
use weft_store::{Batch, Condition, Op};

use crate::config::{MoveAction, Moves};
use crate::ledger::{self, FactKey};
use crate::reflector::Reflector;
use crate::reflector::freezes::Frozen;
use crate::reflector::sparing::Sparing;

/// What a replica sees.
pub(crate) struct Sight {
    frozen: Vec<Frozen>,
    moved: Vec<Duplicate>,
    now: Duration,
}

/// What the log is told of it: a loop moves every address behind it.
#[derive(Debug, Default)]
pub(crate) struct Log {
    frozen: Sparing,
    thawed: Sparing,
}

impl Log {
    fn frozen(&mut self, (vni, mac): Place, holder: Holder, now: Duration) {
        if self.frozen.admit(now) {
            tracing::warn!(%vni, %mac, %holder, why = "it moved too often", "MAC address frozen");
        }
    }

    fn thawed(&mut self, frozen: &Frozen, why: &'static str, now: Duration) {
        if self.thawed.admit(now) {
            let ((vni, mac), holder) = (frozen.place, frozen.holder);
            tracing::info!(%vni, %mac, %holder, why, "MAC address thawed");
        }
    }

    fn rest(&mut self, now: Duration) {
        if let Some(more) = self.frozen.rest(now) {
            tracing::warn!(more, "more MAC addresses frozen, see `weft mac moves`");
        }
        if let Some(more) = self.thawed.rest(now) {
            tracing::info!(more, "more MAC addresses thawed");
        }
    }
}

impl Sight {
    /// As of the last poll; what moved only if somebody wants to act upon it.
    pub(crate) fn of(reflector: &Reflector, action: MoveAction) -> Self {
        let (moves, now) = reflector.moves();
        let mut frozen: Vec<_> = reflector.freezes().iter().collect();
        frozen.sort_by_key(|frozen| frozen.place);
        let mut moved: Vec<_> = match action {
            MoveAction::Warn => Vec::new(),
            MoveAction::Freeze => moves.duplicates(now).collect(),
        };
        moved.sort_by_key(|moved| moved.place);
        Self { frozen, moved, now }
    }

    /// What to propose, if anything: what thaws, else what freezes.
    pub(crate) fn next(&self, settings: &Moves, log: &mut Log) -> Option<Batch> {
        log.rest(self.now);
        let thawed = self.thaw(settings, log);
        thawed.or_else(|| self.freeze(settings, log))
    }

    fn thaw(&self, settings: &Moves, log: &mut Log) -> Option<Batch> {
        let why = |frozen: &Frozen| {
            if settings.action == MoveAction::Warn {
                Some("nothing is to be frozen")
            } else if frozen.held == 0 {
                Some("it is not announced any more from where it was held")
            } else if self.now.saturating_sub(frozen.since) >= settings.recover {
                Some("its time is over")
            } else {
                None
            }
        };
        let over = self.frozen.iter().filter_map(|it| Some((it, why(it)?)));
        let mut batch = Batch::default();
        for (frozen, why) in over.take(AT_ONCE_MAX) {
            log.thawed(frozen, why, self.now);
            let key = FactKey::Freeze(frozen.place);
            batch.conditions.push(is(&key, Some(frozen.holder)));
            batch.ops.push(ledger::delete(&key));
        }
        (!batch.ops.is_empty()).then_some(batch)
    }

    fn freeze(&self, settings: &Moves, log: &mut Log) -> Option<Batch> {
        if settings.action == MoveAction::Warn {
            return None;
        }
        let room = FROZEN_MAX.saturating_sub(self.frozen.len());
        let is_new = |moved: &&Duplicate| {
            let known = self
                .frozen
                .binary_search_by_key(&moved.place, |it| it.place);
            known.is_err() && !moved.is_sticky
        };
        let new = self.moved.iter().filter(is_new);
        let new = new.filter_map(|moved| Some((moved.place, moved.holder?)));
        let mut batch = Batch::default();
        for (place, holder) in new.take(room.min(AT_ONCE_MAX)) {
            log.frozen(place, holder, self.now);
            let key = FactKey::Freeze(place);
            batch.conditions.push(is(&key, None));
            batch.ops.push(Op::Put {
                value: ledger::encode_holder(holder),
                keys: vec![key.encode()],
            });
        }
        (!batch.ops.is_empty()).then_some(batch)
    }
}

/// The condition that the address is frozen there, or not at all.
fn is(key: &FactKey<'_>, holder: Option<Holder>) -> Condition {
    Condition::Equals {
        key: key.encode(),
        value: holder.map(ledger::encode_holder),
    }
}

/// Frozen at most; what moves beyond is an alarm only. A loop moves every address behind it, and each costs a
/// few hundred octets on every replica.
const FROZEN_MAX: usize = 4_096;
/// In one batch. The others follow with the next look, a moment later.
const AT_ONCE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use weft_evpn::{Mac, Vni};

    use super::*;

    fn place(last: u8) -> Place {
        (Vni::new(100).unwrap(), Mac([0, 0, 0x5e, 0, 0x53, last]))
    }

    fn holder() -> Holder {
        Holder::Vtep([192, 0, 2, 1].into())
    }

    fn frozen(last: u8, held: usize, since_secs: u64) -> Frozen {
        Frozen {
            place: place(last),
            holder: holder(),
            held,
            withheld: 1,
            since: Duration::from_secs(since_secs),
        }
    }

    fn moved(last: u8, holder: Option<Holder>, is_sticky: bool) -> Duplicate {
        Duplicate {
            place: place(last),
            holder,
            is_sticky,
            until: Duration::MAX,
        }
    }

    fn settings(action: MoveAction) -> Moves {
        Moves {
            action,
            ..Moves::default()
        }
    }

    fn keys(batch: Option<Batch>) -> Vec<(bool, Vec<u8>)> {
        let ops = batch.unwrap_or_default().ops;
        let of = |op: Op| match op {
            Op::Put { keys, value } => {
                assert_eq!(ledger::decode_holder(&value), Some(holder()));
                (true, keys[0].to_vec())
            }
            Op::Delete { keys } => (false, keys[0].to_vec()),
            Op::DeletePrefix { .. } => panic!("nothing else is touched"),
        };
        ops.into_iter().map(of).collect()
    }

    fn key(last: u8) -> Vec<u8> {
        FactKey::Freeze(place(last)).encode().to_vec()
    }

    #[test]
    fn what_moves_is_frozen_once_where_it_is() {
        let sight = Sight {
            frozen: vec![frozen(1, 1, 0)],
            moved: vec![
                moved(1, Some(holder()), false),
                moved(2, Some(holder()), true),
                moved(3, None, false),
                moved(4, Some(holder()), false),
            ],
            now: Duration::from_secs(10),
        };
        let next = sight.next(&settings(MoveAction::Freeze), &mut Log::default());
        let condition = Condition::Equals {
            key: FactKey::Freeze(place(4)).encode(),
            value: None,
        };
        assert_eq!(next.as_ref().unwrap().conditions, [condition]);
        assert_eq!(keys(next), [(true, key(4))]);
        // It is not wished any more.
        let next = sight.next(&settings(MoveAction::Warn), &mut Log::default());
        assert_eq!(keys(next), [(false, key(1))]);
    }

    #[test]
    fn it_thaws_when_its_time_is_over_or_its_holder_has_gone() {
        let sight = |now| Sight {
            frozen: vec![frozen(1, 1, 0), frozen(2, 0, 500), frozen(3, 1, 500)],
            moved: Vec::new(),
            now: Duration::from_secs(now),
        };
        let next = |now| keys(sight(now).next(&settings(MoveAction::Freeze), &mut Log::default()));
        assert_eq!(next(1_799), [(false, key(2))]);
        assert_eq!(next(1_800), [(false, key(1)), (false, key(2))]);
    }

    #[test]
    fn a_loop_freezes_so_many_and_no_more() {
        let many = |count: usize| -> Vec<Place> {
            let place = |number: usize| {
                let [.., a, b] = number.to_be_bytes();
                (Vni::new(100).unwrap(), Mac([2, 0, 0, 0, a, b]))
            };
            (0..count).map(place).collect()
        };
        let frozen = |place: &Place| Frozen {
            place: *place,
            ..frozen(1, 1, 0)
        };
        let moved = |place: &Place| Duplicate {
            place: *place,
            ..moved(1, Some(holder()), false)
        };
        let places = many(FROZEN_MAX + 10);
        let next = |count: usize| {
            let sight = Sight {
                frozen: places[..count].iter().map(frozen).collect(),
                moved: places.iter().map(moved).collect(),
                now: Duration::ZERO,
            };
            keys(sight.next(&settings(MoveAction::Freeze), &mut Log::default())).len()
        };
        assert_eq!(next(0), AT_ONCE_MAX);
        assert_eq!(next(FROZEN_MAX - 3), 3);
        assert_eq!(next(FROZEN_MAX), 0);
    }
}
