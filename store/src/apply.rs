//! Committed entries become state, the same on every replica: reads the state and the entry and
//! nothing else. Knows no Raft.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use rocksdb::WriteBatch;

use crate::{
    batch::{Batch, Change, Condition, Op, Proposal, ProposalId},
    config::Step,
    disk::Disk,
    error::StoreError,
    log::{self, APPLIED, PROPOSER_PREFIX},
    snapshot::Contents,
};

/// The replicated state: what is in column family `state`, how far it is applied, and the last
/// proposal that took effect of each proposer.
pub(crate) struct State {
    disk: Arc<Disk>,
    pub(crate) applied: u64,
    pub(crate) proposers: BTreeMap<u64, ProposalId>,
}

/// What an entry did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing was in it.
    Nothing,
    /// These changes.
    Applied(Vec<Change>),
    /// This condition did not hold.
    ConditionFailed(usize),
    /// The proposer has been past this proposal.
    Superseded,
}

impl State {
    pub(crate) fn load(disk: Arc<Disk>) -> Result<Self, StoreError> {
        let applied = disk
            .get(disk.meta(), APPLIED)?
            .and_then(|record| log::index_from(&record))
            .ok_or(StoreError::Malformed("applied index"))?;
        let proposers = disk
            .scan(disk.meta(), PROPOSER_PREFIX)
            .map(|item| proposer_from(&item?).ok_or(StoreError::Malformed("proposer")))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            disk,
            applied,
            proposers,
        })
    }

    /// Applies the entry at `index`, of `term`, in one write that also holds what `with` puts into
    /// it. The write is not synced: it follows the entry in the same write-ahead log.
    pub(crate) fn apply(
        &mut self,
        (index, term): (u64, u64),
        proposal: Option<Proposal>,
        with: impl FnOnce(&mut WriteBatch),
    ) -> Result<Effect, StoreError> {
        self.disk.at(Step::Apply { index })?;
        let mut write = WriteBatch::default();
        let effect = match proposal {
            Some(proposal) => self.take(proposal, term, &mut write)?,
            None => Effect::Nothing,
        };
        write.put_cf(self.disk.meta(), APPLIED, index.to_be_bytes());
        with(&mut write);
        self.disk.write(write, false)?;
        self.applied = index;
        self.disk.at(Step::AppliedAt { index })?;
        Ok(effect)
    }

    /// Puts into `write` that the state is that of a snapshot at `index`.
    pub(crate) fn replace(
        &mut self,
        index: u64,
        contents: Contents,
        write: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        contents.put(&self.disk, write)?;
        write.put_cf(self.disk.meta(), APPLIED, index.to_be_bytes());
        self.proposers = contents.proposers;
        self.applied = index;
        Ok(())
    }

    fn take(
        &mut self,
        proposal: Proposal,
        term: u64,
        write: &mut WriteBatch,
    ) -> Result<Effect, StoreError> {
        let Proposal {
            proposer,
            id,
            batch,
        } = proposal;
        if self
            .proposers
            .get(&proposer)
            .is_some_and(|last| id <= *last)
        {
            return Ok(Effect::Superseded);
        }
        self.proposers.insert(proposer, id);
        write.put_cf(
            self.disk.meta(),
            proposer_key(proposer),
            proposer_record(id),
        );
        for (at, condition) in batch.conditions.iter().enumerate() {
            if !self.holds(condition, term)? {
                return Ok(Effect::ConditionFailed(at));
            }
        }
        self.put(&batch, write)?;
        Ok(Effect::Applied(
            batch.ops.into_iter().map(Change::from).collect(),
        ))
    }

    /// True if `condition` holds for an entry of `term`.
    fn holds(&self, condition: &Condition, term: u64) -> Result<bool, StoreError> {
        match condition {
            Condition::Equals { key, value } => {
                self.disk.holds(self.disk.state(), key, value.as_deref())
            }
            Condition::Term(required) => Ok(term == *required),
        }
    }

    fn put(&self, batch: &Batch, write: &mut WriteBatch) -> Result<(), StoreError> {
        let state = self.disk.state();
        for (at, op) in batch.ops.iter().enumerate() {
            match op {
                Op::Put { value, keys } => {
                    for key in keys {
                        write.put_cf(state, key, value);
                    }
                }
                Op::Delete { keys } => {
                    for key in keys {
                        write.delete_cf(state, key);
                    }
                }
                Op::DeletePrefix { prefix } => {
                    for item in self.disk.scan(state, prefix) {
                        write.delete_cf(state, item?.0);
                    }
                    for key in put_before(batch, at, prefix) {
                        write.delete_cf(state, key);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Keys with `prefix` that operations of this batch before `at` put: they are not in the database
/// yet, so a scan does not find them.
fn put_before<'a>(
    batch: &'a Batch,
    at: usize,
    prefix: &'a Bytes,
) -> impl Iterator<Item = &'a Bytes> {
    batch
        .ops
        .iter()
        .take(at)
        .flat_map(|op| match op {
            Op::Put { keys, .. } => keys.as_slice(),
            Op::Delete { .. } | Op::DeletePrefix { .. } => &[],
        })
        .filter(move |key| key.starts_with(prefix))
}

/// Key of the last applied proposal of a proposer.
pub(crate) fn proposer_key(proposer: u64) -> Bytes {
    let mut key = BytesMut::from(PROPOSER_PREFIX);
    key.put_u64(proposer);
    key.freeze()
}

/// Boot and sequence number, 64 bits each.
pub(crate) fn proposer_record(id: ProposalId) -> [u8; 16] {
    let mut record = [0; 16];
    record[..8].copy_from_slice(&id.boot.to_be_bytes());
    record[8..].copy_from_slice(&id.seq.to_be_bytes());
    record
}

/// The proposer and its last applied proposal in a key and a record.
pub(crate) fn proposer_from((key, record): &(Bytes, Bytes)) -> Option<(u64, ProposalId)> {
    let proposer = log::index_from(key.strip_prefix(PROPOSER_PREFIX)?)?;
    let (boot, seq) = log::pair_from(record.clone())?;
    Some((proposer, ProposalId { boot, seq }))
}
