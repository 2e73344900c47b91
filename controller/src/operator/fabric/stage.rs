//! A fabric that is written beside the one in force, in batches, until one batch puts it in its place. Knows no declaration.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tonic::Status;
use weft_store::{Batch, Condition, Op};

use super::super::refusal;
use super::change::{self, Changes, Made};
use crate::fabric::declared::Declared;
use crate::fabric::topology::{Change, Kind, Topology};
use crate::ledger::{self, FactKey, FactPrefix, Head};

/// A slot that is written into.
#[derive(Default)]
pub(super) struct Stage {
    /// None before the first batch.
    slot: Option<u64>,
    /// The facts in the slot.
    written: Topology,
}

impl Stage {
    /// Makes the slot hold the facts of a fabric.
    ///
    /// # Errors
    /// The slot was deleted, or no majority answered for a minute: nothing of the fabric in force is changed.
    pub(super) async fn write(
        &mut self,
        changes: &Changes,
        declared: &Declared,
        target: &Topology,
    ) -> Result<(), Status> {
        let is_there = |slot| declared.stages().any(|(it, _)| it == slot);
        if !self.slot.is_some_and(is_there) {
            // The first time, or after the leader deleted it.
            *self = Self::default();
        }
        for batch in self.batches(target) {
            if let Err(refused) = proposed(changes, &batch).await {
                self.abandon(changes).await;
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Batches that make the slot hold the facts of a fabric.
    fn batches(&mut self, target: &Topology) -> Vec<Batch> {
        let is_new = self.slot.is_none();
        let drawn = || RandomState::new().hash_one(target.display_name());
        let slot = *self.slot.get_or_insert_with(drawn);
        let before = std::mem::replace(&mut self.written, target.clone());
        batches(slot, is_new, &before.changes_to(target))
    }

    /// The batch that puts the slot in force in the place of that of `declared`, and `head` with it; `differing` are the changes that
    /// this makes.
    pub(super) fn switch(
        &self,
        declared: &Declared,
        head: &mut Head,
        differing: &[Change],
    ) -> Batch {
        let slot = self.slot.unwrap_or_default();
        head.slot = slot;
        let mut ops = vec![
            ledger::put(&FactKey::Head, head.encode()),
            ledger::delete(&FactKey::Stage(slot)),
            Op::DeletePrefix {
                prefix: FactPrefix::Slot(declared.slot()).encode(),
            },
        ];
        ops.extend(differing.iter().filter_map(change::mode));
        Batch {
            conditions: vec![change::head_is(declared), is_marked(slot)],
            ops,
        }
    }

    /// Deletes the slot, if one is written. If that fails, the leader deletes it later.
    pub(super) async fn abandon(&self, changes: &Changes) {
        let Some(slot) = self.slot else { return };
        let batch = Batch {
            conditions: vec![is_marked(slot)],
            ops: vec![Op::DeletePrefix {
                prefix: FactPrefix::Slot(slot).encode(),
            }],
        };
        let _the_leader_does_it_later = changes.propose(batch).await;
    }
}

/// Batches that make changes in a slot. The first one of a new slot marks it; the others hold only while it is marked.
fn batches(slot: u64, is_new: bool, changes: &[Change]) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut rest = changes;
    while !rest.is_empty() || (is_new && batches.is_empty()) {
        let mut octets = 0;
        let fits = rest.iter().take_while(|change| {
            octets += octets_of(change);
            octets <= BATCH_OCTETS
        });
        // One fits by itself.
        let (part, behind) = rest.split_at(fits.count().max(rest.len().min(1)));
        rest = behind;
        let mut ops: Vec<Op> = part.iter().map(|change| op(slot, change)).collect();
        let mut conditions = vec![is_marked(slot)];
        if is_new && batches.is_empty() {
            conditions.clear();
            ops.push(ledger::put(&FactKey::Stage(slot), Bytes::new()));
        }
        batches.push(Batch { conditions, ops });
    }
    batches
}

/// Octets that a change takes in a batch, about.
pub(super) fn octets_of(change: &Change) -> usize {
    CHANGE_OCTETS
        + match change {
            Change::Create(fact) | Change::Update(fact) => fact.encode().len(),
            Change::Delete(_, name) => name.len(),
        }
}

fn op(slot: u64, change: &Change) -> Op {
    match change {
        Change::Create(fact) | Change::Update(fact) => change::put(slot, fact),
        Change::Delete(kind, name) => {
            debug_assert_ne!(*kind, Kind::Job, "a job has no slot");
            ledger::delete(&FactKey::Declared(slot, *kind, name))
        }
    }
}

/// The condition that the ApplyFabric of a slot may go on.
fn is_marked(slot: u64) -> Condition {
    Condition::Equals {
        key: FactKey::Stage(slot).encode(),
        value: Some(Bytes::new()),
    }
}

/// Proposes a batch of a stage until it is applied. Twice is as good as once.
async fn proposed(changes: &Changes, batch: &Batch) -> Result<(), Status> {
    let began = Instant::now();
    loop {
        match changes.propose(batch.clone()).await? {
            Made::At(_) => return Ok(()),
            // The leader deleted the slot: this replica was cut off for too long.
            Made::Overtaken => return Err(refusal::busy()),
            Made::Unknown if began.elapsed() > PATIENCE => return Err(refusal::no_majority()),
            Made::Unknown => sleep(AGAIN).await,
        }
    }
}

/// Octets of facts in one batch: the log goes on between two of them, and a batch has at most 8 MiB.
pub(super) const BATCH_OCTETS: usize = 512 << 10;
/// Octets of the key of a change, and of lengths.
const CHANGE_OCTETS: usize = 96;
/// Without a majority for so long an ApplyFabric is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use weft_proto::v1 as proto;
    use weft_store::Outcome;

    use super::*;
    use crate::fabric::topology::tests::declared;
    use crate::fabric::topology::{Declaration, Fact};
    use crate::operator::lone::{Lone, host};

    /// Facts for several batches, beside a small fabric with a link that an operator sets down.
    fn large(prefix: &str) -> Declaration {
        Declaration {
            hosts: (0..15_000)
                .map(|at| host(&format!("{prefix}{at}")))
                .collect(),
            ..declared(2, 2)
        }
    }

    async fn known(lone: &Lone) -> Declared {
        lone.declared().await
    }

    /// A replica dies after any number of batches, and starts again: the old fabric is in force until the new one is whole. A change
    /// that was acknowledged meanwhile is in force before and after.
    #[tokio::test(flavor = "multi_thread")]
    async fn an_interrupted_apply_leaves_all_of_the_old_fabric_or_all_of_the_new_one() {
        const LINK: &str = "leaf1:eth1--spine1:eth1";
        let mut lone = Lone::start().await;
        let whole = |it: &mut proto::ApplyFabricRequest| it.prune = true;
        let borders = {
            let target = Topology::new(&large("new")).unwrap();
            Stage::default().batches(&target).len()
        };
        assert!(borders > 2, "{borders}");
        for made in 0..=borders + 1 {
            lone.apply(&large("old"), whole).await.unwrap();
            let before = known(&lone).await;
            let applied = before.topology().declared(&large("new"), true).unwrap();
            let target = applied.topology;
            let mut stage = Stage::default();
            let mut batches = stage.batches(&target);
            let mut head = change::next(&before);
            let changes = before.topology().changes_to(&target);
            batches.push(stage.switch(&before, &mut head, &changes));
            for batch in batches.into_iter().take(made) {
                let outcome = lone.consensus.propose(batch).await;
                assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
            }
            lone = lone.restart().await;
            let facts = |of: &Topology| of.facts().collect::<Vec<Fact>>();
            let expected = if made > borders {
                &target
            } else {
                before.topology()
            };
            let found = known(&lone).await;
            assert!(
                facts(found.topology()) == facts(expected),
                "after {made} batches"
            );
            // Nobody can go on now, and a change is made in the fabric in force.
            let down = made % 2 == 0;
            lone.set_link(LINK, down).await.unwrap();
            let late = lone
                .consensus
                .propose(stage.switch(&before, &mut head, &changes))
                .await;
            assert!(matches!(late, Outcome::ConditionFailed { .. }), "{late:?}");
            lone = lone.restart().await;
            lone.apply(&large("new"), whole).await.unwrap();
            let found = known(&lone).await;
            assert_eq!(found.topology().link(LINK).unwrap().down, down);
            assert_eq!(found.topology().count(Kind::Host), 15_000);
        }
        lone.stop().await;
    }

    #[test]
    fn the_batches_of_a_stage_make_its_slot_what_is_wanted_whatever_it_was() {
        let topology = |prefix| Topology::new(&large(prefix)).unwrap();
        let mut stage = Stage::default();
        let mut declared = Declared::default();
        for target in [topology("old"), topology("new"), topology("new")] {
            let batches = stage.batches(&target);
            assert!(batches.iter().all(Batch::is_acceptable));
            for batch in batches {
                crate::operator::lone::apply(&mut declared, batch);
            }
            let head = Head {
                slot: stage.slot.unwrap(),
                ..Head::default()
            };
            let mut made = declared.clone();
            made.put_head(Some(head));
            assert!(made.topology().facts().eq(target.facts()));
        }
    }
}
