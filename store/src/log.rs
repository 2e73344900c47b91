//! The Raft log, hard state and voters on disk, as Raft wants to read them. Knows no network, and
//! of an entry only its term, kind and octets.
//!
//! An entry is a record under its index as 64 bits, so that the order of keys is the order of the
//! log:
//!
//! ```text
//!  0        8      9              13        13+n
//!  +--------+------+--------------+---------+------
//!  |  term  | kind | context len  | context | data
//!  +--------+------+--------------+---------+------
//! ```

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use raft::{
    GetEntriesContext, RaftState, Storage, StorageError,
    eraftpb::{ConfState, Entry, HardState, Snapshot},
};
use rocksdb::WriteBatch;

use crate::{
    disk::Disk,
    error::StoreError,
    membership,
    octets::{Reader, put_field},
    snapshot,
};

/// The log. Terms and sizes of all entries are in memory, their octets on disk.
pub(crate) struct Log {
    disk: Arc<Disk>,
    slots: VecDeque<Slot>,
    /// Index and term of the entry before the first.
    truncated: (u64, u64),
    octets: u64,
    /// What the last write of it, or of what implies it, said.
    pub(crate) hard: HardState,
    conf: ConfState,
    snapshots: RefCell<Option<Snapshot>>,
    /// The state was too large for a snapshot: none is built for some time, since that takes seconds.
    too_large: Cell<bool>,
}

#[derive(Copy, Clone)]
struct Slot {
    term: u64,
    octets: u32,
}

impl Log {
    /// Puts the beginning of a log into `batch`: as if a snapshot at index 1 had been installed, so
    /// that Raft never meets an empty one.
    pub(crate) fn found(disk: &Disk, conf: &ConfState, batch: &mut WriteBatch) {
        let hard = HardState {
            term: FIRST_TERM,
            vote: 0,
            commit: FIRST_INDEX,
        };
        put_hard(disk, batch, &hard);
        batch.put_cf(disk.meta(), CONF, membership::encode(conf));
        put_truncated(disk, batch, FIRST_INDEX, FIRST_TERM);
        batch.put_cf(disk.meta(), APPLIED, FIRST_INDEX.to_be_bytes());
    }

    /// Reads the log. Each error says which record contradicts which.
    pub(crate) fn load(disk: Arc<Disk>) -> Result<Self, StoreError> {
        let meta = |key| disk.get(disk.meta(), key);
        let hard = meta(HARD)?
            .and_then(hard_from)
            .ok_or(StoreError::Malformed("hard state"))?;
        let conf = meta(CONF)?
            .and_then(membership::decode)
            .ok_or(StoreError::Malformed("voters"))?;
        let truncated = meta(TRUNCATED)?
            .and_then(pair_from)
            .ok_or(StoreError::Malformed("start of the log"))?;
        let mut log = Self {
            slots: VecDeque::new(),
            truncated,
            octets: 0,
            hard,
            conf,
            snapshots: RefCell::new(None),
            too_large: Cell::new(false),
            disk: Arc::clone(&disk),
        };
        for item in disk.scan(disk.raft(), b"") {
            let (key, value) = item?;
            if index_from(&key) != Some(log.last() + 1) {
                return Err(StoreError::Malformed("gap in the log"));
            }
            let term = Reader::new(value.clone())
                .u64()
                .filter(|term| *term >= log.last_term())
                .ok_or(StoreError::Malformed("term of a log entry"))?;
            log.push(term, value.len());
        }
        if log.hard.commit < log.truncated.0 || log.hard.commit > log.last() {
            return Err(StoreError::Malformed("commit index beyond the log"));
        }
        Ok(log)
    }

    /// Returns true if the log is as it was founded: nothing was voted, appended or committed since.
    pub(crate) fn is_new(&self) -> bool {
        let hard = (self.hard.term, self.hard.vote, self.hard.commit);
        hard == (FIRST_TERM, 0, FIRST_INDEX) && self.last() == FIRST_INDEX
    }

    pub(crate) fn first(&self) -> u64 {
        self.truncated.0 + 1
    }

    pub(crate) fn last(&self) -> u64 {
        self.truncated.0 + self.slots.len() as u64
    }

    pub(crate) fn conf(&self) -> &ConfState {
        &self.conf
    }

    /// Puts entries into `batch`, dropping those they replace and all after them.
    pub(crate) fn append(&mut self, batch: &mut WriteBatch, entries: &[Entry]) {
        let Some(start) = entries.first().map(|entry| entry.index) else {
            return;
        };
        let end = start + entries.len() as u64;
        for stale in end..=self.last() {
            batch.delete_cf(self.disk.raft(), stale.to_be_bytes());
        }
        while self.last() >= start {
            self.pop();
        }
        for entry in entries {
            let octets = encode_entry(entry);
            batch.put_cf(self.disk.raft(), entry.index.to_be_bytes(), &octets);
            self.push(entry.term, octets.len());
        }
    }

    /// Puts the hard state into `batch`.
    pub(crate) fn put_hard(&self, batch: &mut WriteBatch) {
        put_hard(&self.disk, batch, &self.hard);
    }

    /// Puts into `batch` that the log begins after the snapshot at `index`.
    pub(crate) fn restart(
        &mut self,
        batch: &mut WriteBatch,
        index: u64,
        term: u64,
        conf: ConfState,
    ) {
        for stale in self.first()..=self.last() {
            batch.delete_cf(self.disk.raft(), stale.to_be_bytes());
        }
        self.slots.clear();
        self.octets = 0;
        self.truncated = (index, term);
        put_truncated(&self.disk, batch, index, term);
        batch.put_cf(self.disk.meta(), CONF, membership::encode(&conf));
        self.conf = conf;
        self.snapshots.take();
    }

    /// The last index that may be dropped so that at most `entries` and `octets` of what is applied
    /// remain; nothing if that is not worth a write yet.
    pub(crate) fn droppable(&self, applied: u64, entries: u64, octets: u64) -> Option<u64> {
        let mut held = self.octets;
        let mut drop_to = self.truncated.0;
        for slot in &self.slots {
            let too_many = applied.saturating_sub(drop_to) > entries;
            if drop_to >= applied || !(too_many || held > octets) {
                break;
            }
            drop_to += 1;
            held -= u64::from(slot.octets);
        }
        let dropped = drop_to - self.truncated.0;
        (dropped > entries / 10 || (dropped > 0 && self.octets > octets + octets / 10))
            .then_some(drop_to)
    }

    /// Drops entries up to `index` from the log.
    pub(crate) fn compact(&mut self, index: u64) -> Result<(), StoreError> {
        let term = self.term_of(index).map_err(|_| OUT_OF_LOG)?;
        let mut batch = WriteBatch::default();
        while self.first() <= index {
            batch.delete_cf(self.disk.raft(), self.first().to_be_bytes());
            let slot = self.slots.pop_front().ok_or(OUT_OF_LOG)?;
            self.octets -= u64::from(slot.octets);
            self.truncated = (self.truncated.0 + 1, slot.term);
        }
        put_truncated(&self.disk, &mut batch, index, term);
        self.disk.write(batch, false)
    }

    /// Frees the snapshot that is kept for the next follower that needs one, or lets one be built again.
    pub(crate) fn forget_snapshot(&self) {
        self.snapshots.take();
        self.too_large.set(false);
    }

    fn last_term(&self) -> u64 {
        self.slots.back().map_or(self.truncated.1, |slot| slot.term)
    }

    fn term_of(&self, index: u64) -> Result<u64, StorageError> {
        if index == self.truncated.0 {
            return Ok(self.truncated.1);
        }
        let at = index
            .checked_sub(self.first())
            .ok_or(StorageError::Compacted)?;
        let at = usize::try_from(at).map_err(|_| StorageError::Unavailable)?;
        let slot = self.slots.get(at).ok_or(StorageError::Unavailable)?;
        Ok(slot.term)
    }

    fn push(&mut self, term: u64, octets: usize) {
        let octets = u32::try_from(octets).expect("entries are bounded well below 4 GiB");
        self.octets += u64::from(octets);
        self.slots.push_back(Slot { term, octets });
    }

    fn pop(&mut self) {
        if let Some(slot) = self.slots.pop_back() {
            self.octets -= u64::from(slot.octets);
        }
    }

    fn entry(&self, index: u64) -> Result<Entry, StorageError> {
        let record = self
            .disk
            .get(self.disk.raft(), &index.to_be_bytes())
            .map_err(|error| StorageError::Other(Box::new(error)))?;
        record
            .and_then(|record| decode_entry(index, record))
            .ok_or(StorageError::Unavailable)
    }
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.hard.clone(), self.conf.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(StorageError::Compacted.into());
        }
        if high > self.last() + 1 {
            return Err(StorageError::Unavailable.into());
        }
        let octets_max = max_size.into().unwrap_or(u64::MAX);
        let mut octets = 0;
        let mut entries = Vec::new();
        for index in low..high {
            let entry = self.entry(index)?;
            octets += entry.data.len() as u64;
            if octets > octets_max && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        Ok(self.term_of(index)?)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        if self.too_large.get() {
            return Err(LATER);
        }
        let mut kept = self.snapshots.borrow_mut();
        if let Some(snapshot) = kept.as_ref() {
            let index = snapshot.get_metadata().index;
            if index >= request_index && index >= self.truncated.0 {
                return Ok(snapshot.clone());
            }
        }
        let built = snapshot::build(&self.disk, &self.conf, |index| self.term_of(index).ok());
        // Raft takes this error for "later"; a disk that cannot be read is seen by the next write.
        let built = built.map_err(|error| {
            tracing::warn!(%error, "snapshot cannot be built");
            self.too_large
                .set(matches!(error, StoreError::StateTooLarge));
            LATER
        })?;
        *kept = Some(built.clone());
        Ok(built)
    }
}

pub(crate) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let mut out = BytesMut::with_capacity(13 + entry.context.len() + entry.data.len());
    out.put_u64(entry.term);
    out.put_u8(u8::try_from(entry.entry_type).unwrap_or(u8::MAX));
    put_field(&mut out, &entry.context);
    out.put_slice(&entry.data);
    out.into()
}

fn decode_entry(index: u64, record: Bytes) -> Option<Entry> {
    let mut reader = Reader::new(record);
    Some(Entry {
        index,
        term: reader.u64()?,
        entry_type: i32::from(reader.u8()?),
        context: reader.field()?.into(),
        data: reader.rest().into(),
        ..Entry::default()
    })
}

fn put_hard(disk: &Disk, batch: &mut WriteBatch, hard: &HardState) {
    batch.put_cf(disk.meta(), HARD, hard_record(hard));
}

/// Term, vote and commit index, 64 bits each.
pub(crate) fn hard_record(hard: &HardState) -> [u8; 24] {
    let mut record = [0; 24];
    record[..8].copy_from_slice(&hard.term.to_be_bytes());
    record[8..16].copy_from_slice(&hard.vote.to_be_bytes());
    record[16..].copy_from_slice(&hard.commit.to_be_bytes());
    record
}

fn hard_from(record: Bytes) -> Option<HardState> {
    let mut reader = Reader::new(record);
    let hard = HardState {
        term: reader.u64()?,
        vote: reader.u64()?,
        commit: reader.u64()?,
    };
    reader.is_empty().then_some(hard)
}

fn put_truncated(disk: &Disk, batch: &mut WriteBatch, index: u64, term: u64) {
    let mut record = [0; 16];
    record[..8].copy_from_slice(&index.to_be_bytes());
    record[8..].copy_from_slice(&term.to_be_bytes());
    batch.put_cf(disk.meta(), TRUNCATED, record);
}

/// Two numbers of 64 bits.
pub(crate) fn pair_from(record: Bytes) -> Option<(u64, u64)> {
    let mut reader = Reader::new(record);
    let pair = (reader.u64()?, reader.u64()?);
    reader.is_empty().then_some(pair)
}

/// One number of 64 bits.
pub(crate) fn index_from(octets: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(octets.try_into().ok()?))
}

/// Key of the last applied index.
pub(crate) const APPLIED: &[u8] = b"applied";
/// Prefix of the keys of the last applied proposal of each proposer.
pub(crate) const PROPOSER_PREFIX: &[u8] = b"proposer/";
/// Key of the hard state; its absence means that the directory is not founded.
pub(crate) const HARD: &[u8] = b"hard";

/// Keys of the records of this file.
pub(crate) const KEYS: [&[u8]; 5] = [APPLIED, PROPOSER_PREFIX, HARD, CONF, TRUNCATED];

const CONF: &[u8] = b"voters";
const TRUNCATED: &[u8] = b"truncated";
const OUT_OF_LOG: StoreError = StoreError::Malformed("index outside the log");

/// Raft asks again.
const LATER: raft::Error = raft::Error::Store(StorageError::SnapshotTemporarilyUnavailable);

/// A founded log begins after this index, not 0: Raft refuses to send a snapshot at 0.
const FIRST_INDEX: u64 = 1;
/// Nor in term 0: Raft refuses to answer a vote request with that term.
const FIRST_TERM: u64 = 1;
