//! Fabrics that an ApplyFabric began to write beside the one in force, and that nobody finishes: the leader deletes them. Pure;
//! time is an argument.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weft_store::{Batch, Condition, Op};

use crate::fabric::declared::Declared;
use crate::ledger::{FactKey, FactPrefix, Head};

/// Slots that are not in force, each with the number of facts in it and the time at which that number was new.
#[derive(Debug, Default)]
pub(super) struct Stages(BTreeMap<u64, (usize, Instant)>);

impl Stages {
    /// Batches that delete the slots that did not grow for [`PATIENCE`]. Each holds only while its slot is not in force: an
    /// ApplyFabric that goes on afterwards finds its mark gone, and fails.
    pub(super) fn abandoned(&mut self, declared: &Declared, now: Instant) -> Vec<Batch> {
        let slots: BTreeMap<u64, usize> = declared.stages().collect();
        self.0.retain(|slot, _| slots.contains_key(slot));
        let mut over = Vec::new();
        for (slot, count) in slots {
            let known = self.0.entry(slot).or_insert((count, now));
            if known.0 != count {
                *known = (count, now);
            } else if now.saturating_duration_since(known.1) >= PATIENCE {
                over.push(deletion(declared, slot));
            }
        }
        over
    }
}

fn deletion(declared: &Declared, slot: u64) -> Batch {
    Batch {
        conditions: vec![Condition::Equals {
            key: FactKey::Head.encode(),
            value: declared.head().map(Head::encode),
        }],
        ops: vec![Op::DeletePrefix {
            prefix: FactPrefix::Slot(slot).encode(),
        }],
    }
}

/// An ApplyFabric writes several batches a second, and gives up after a minute without a majority.
const PATIENCE: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_deleted_once_it_did_not_grow_for_its_patience() {
        let (mut stages, mut declared) = (Stages::default(), Declared::default());
        let began = Instant::now();
        assert_eq!(stages.abandoned(&declared, began), []);
        declared.mark(7, true);
        assert_eq!(stages.abandoned(&declared, began), []);
        let late = began + PATIENCE;
        let fact = crate::fabric::topology::tests::leaf_spine(1, 1);
        let fact = fact.facts().next().unwrap();
        declared
            .put(7, fact.kind(), fact.name(), &fact.encode())
            .unwrap();
        // It grew.
        assert_eq!(stages.abandoned(&declared, late), []);
        let over = stages.abandoned(&declared, late + PATIENCE);
        assert_eq!(over, [deletion(&declared, 7)]);
        declared.delete_stage(7);
        assert_eq!(stages.abandoned(&declared, late + 2 * PATIENCE), []);
    }
}
