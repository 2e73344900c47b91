//! The whole replicated state in octets, and back. Knows the disk but no Raft message.
//!
//! ```text
//!  0        1           5                                   end-8
//!  +--------+-----------+---------------+--------------------+-------+
//!  | format | proposers | id, boot, seq | value, count, keys | check |
//!  +--------+-----------+--- repeated --+----- repeated -----+-------+
//! ```
//!
//! The format is [`FORMAT`]. Neighbouring keys with one value share it. A snapshot is built and held in memory: for 400,000
//! keys of 46 octets and 1,000 distinct values some 25 MB, at worst the size of the state. It has at most
//! [`SNAPSHOT_OCTETS_MAX`]: one that is larger is not built, which an error names.

use std::{collections::BTreeMap, hash::Hasher};

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{ConfState, Snapshot, SnapshotMetadata};
use rocksdb::WriteBatch;

use crate::{
    apply::{proposer_from, proposer_key, proposer_record},
    batch::{MAX_KEY_OCTETS, ProposalId},
    disk::Disk,
    error::StoreError,
    format::FORMAT,
    log::{APPLIED, PROPOSER_PREFIX, index_from},
    octets::{Reader, put_field, put_len},
    view::Fnv,
};

/// The state at one moment, with the index it was applied up to and the term `term_of` gives it.
pub(crate) fn build(
    disk: &Disk,
    conf: &ConfState,
    term_of: impl FnOnce(u64) -> Option<u64>,
) -> Result<Snapshot, StoreError> {
    let frozen = disk.freeze();
    let index = frozen
        .get(disk.meta(), APPLIED)?
        .and_then(|record| index_from(&record))
        .ok_or(StoreError::Malformed("applied index"))?;
    let term = term_of(index).ok_or(StoreError::Malformed("applied index outside the log"))?;

    let proposers: Vec<_> = frozen
        .scan(disk.meta(), PROPOSER_PREFIX)
        .map(|item| proposer_from(&item?).ok_or(StoreError::Malformed("proposer")))
        .collect::<Result<_, _>>()?;
    let octets = encode(&proposers, frozen.scan(disk.state(), b""))?;

    Ok(Snapshot {
        data: octets.into(),
        metadata: Some(SnapshotMetadata {
            conf_state: Some(conf.clone()),
            index,
            term,
        }),
    })
}

/// The octets of these proposers and facts, of which the keys come in order.
pub(crate) fn encode(
    proposers: &[(u64, ProposalId)],
    facts: impl Iterator<Item = Result<(Bytes, Bytes), StoreError>>,
) -> Result<Bytes, StoreError> {
    let mut out = BytesMut::new();
    out.put_u8(FORMAT);
    put_len(&mut out, proposers.len());
    for (proposer, id) in proposers {
        out.put_u64(*proposer);
        out.put_u64(id.boot);
        out.put_u64(id.seq);
    }
    let mut group = Group::default();
    for fact in facts {
        let (key, value) = fact?;
        group.add(key, value, &mut out);
        if out.len() > SNAPSHOT_OCTETS_MAX {
            return Err(StoreError::StateTooLarge);
        }
    }
    group.write(&mut out);
    if out.len() > SNAPSHOT_OCTETS_MAX - 8 {
        return Err(StoreError::StateTooLarge);
    }
    let check = checksum(&out);
    out.put_u64(check);
    Ok(out.freeze())
}

/// A snapshot that has been read through once and found sound.
pub(crate) struct Contents {
    pub(crate) proposers: BTreeMap<u64, ProposalId>,
    groups: Bytes,
}

impl Contents {
    /// The contents of `octets`; nothing unless all of them are sound.
    pub(crate) fn decode(mut octets: Bytes) -> Option<Self> {
        let check = octets.split_off(octets.len().checked_sub(8)?);
        if index_from(&check)? != checksum(&octets) {
            return None;
        }
        let mut reader = Reader::new(octets);
        if reader.u8()? != FORMAT {
            return None;
        }
        let count = reader.count(24)?;
        let mut proposers = BTreeMap::new();
        for _ in 0..count {
            let proposer = reader.u64()?;
            let (boot, seq) = (reader.u64()?, reader.u64()?);
            proposers.insert(proposer, ProposalId { boot, seq });
        }
        let contents = Self {
            proposers,
            groups: reader.rest(),
        };
        contents.for_each(|_, _| {})?;
        Some(contents)
    }

    /// Puts into `batch` that the state is this and nothing else.
    pub(crate) fn put(&self, disk: &Disk, batch: &mut WriteBatch) -> Result<(), StoreError> {
        let after_all_keys = [u8::MAX; MAX_KEY_OCTETS + 1];
        batch.delete_range_cf(disk.state(), &[][..], &after_all_keys[..]);
        for item in disk.scan(disk.meta(), PROPOSER_PREFIX) {
            let (key, _) = item?;
            batch.delete_cf(disk.meta(), key);
        }
        for (proposer, id) in &self.proposers {
            batch.put_cf(disk.meta(), proposer_key(*proposer), proposer_record(*id));
        }
        self.for_each(|key, value| batch.put_cf(disk.state(), key, value))
            .ok_or(StoreError::Malformed("snapshot"))
    }

    fn for_each(&self, mut visit: impl FnMut(&Bytes, &Bytes)) -> Option<()> {
        let mut reader = Reader::new(self.groups.clone());
        while !reader.is_empty() {
            let value = reader.field()?;
            let count = reader.count(4)?;
            for _ in 0..count {
                let key = reader.field()?;
                if key.is_empty() || key.len() > MAX_KEY_OCTETS {
                    return None;
                }
                visit(&key, &value);
            }
        }
        Some(())
    }
}

/// Neighbouring keys that share a value.
#[derive(Default)]
struct Group {
    value: Bytes,
    keys: Vec<Bytes>,
}

impl Group {
    fn add(&mut self, key: Bytes, value: Bytes, out: &mut BytesMut) {
        if self.value != value {
            self.write(out);
            self.value = value;
        }
        self.keys.push(key);
    }

    fn write(&mut self, out: &mut BytesMut) {
        if self.keys.is_empty() {
            return;
        }
        put_field(out, &self.value);
        put_len(out, self.keys.len());
        for key in self.keys.drain(..) {
            put_field(out, &key);
        }
    }
}

/// Most octets of a snapshot. A state above it cannot be brought to a replica that lags or begins anew.
pub(crate) const SNAPSHOT_OCTETS_MAX: usize = 1 << 30;

fn checksum(octets: &[u8]) -> u64 {
    let mut hash = Fnv::default();
    hash.field(octets);
    hash.finish()
}
