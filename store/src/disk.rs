//! One RocksDB with one write-ahead log and three column families: log entries (`raft`), replicated
//! state (`state`), and everything else (`meta`). Every write of the crate passes through here and
//! latches the first failure. Knows neither Raft messages nor what a key means.
//!
//! Because all families share one write-ahead log, what is recovered after a crash is a prefix of
//! what was written: an unsynced apply can never be found without the synced entry before it.

use std::{
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, Direction,
    IteratorMode, Options, ReadOptions, WriteBatch, WriteOptions,
};

use crate::{
    config::{Probe, Step},
    error::StoreError,
};

/// The database of one replica.
pub(crate) struct Disk {
    db: DB,
    /// The first write that failed. A failed sync is never retried: the kernel may have dropped
    /// the dirty pages and report success the second time.
    failed: OnceLock<String>,
    /// Writes that waited for the disk.
    synced: AtomicU64,
    probe: Option<Probe>,
}

impl Disk {
    /// Opens the database in `path`, creating it if it is not there.
    pub(crate) fn open(path: &Path, probe: Option<Probe>) -> Result<Self, StoreError> {
        let families = [
            ColumnFamilyDescriptor::new(RAFT, family_options(32 << 20)),
            ColumnFamilyDescriptor::new(STATE, family_options(64 << 20)),
            ColumnFamilyDescriptor::new(META, family_options(4 << 20)),
        ];
        Ok(Self {
            db: DB::open_cf_descriptors(&database_options(), path, families)?,
            failed: OnceLock::new(),
            synced: AtomicU64::new(0),
            probe,
        })
    }

    /// Writes a batch; when `sync`, it is durable on return. After one failure every write fails.
    pub(crate) fn write(&self, batch: WriteBatch, sync: bool) -> Result<(), StoreError> {
        if let Some(failed) = self.failed.get() {
            return Err(StoreError::Latched(failed.clone()));
        }
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        self.synced.fetch_add(sync.into(), Ordering::Relaxed);
        self.db.write_opt(batch, &options).map_err(|error| {
            let _ = self.failed.set(error.to_string());
            StoreError::Database(error)
        })
    }

    /// Writes that waited for the disk, since it was opened.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Relaxed)
    }

    /// Tells the probe of a step; its refusal is latched as a failed write is.
    pub(crate) fn at(&self, step: Step) -> Result<(), StoreError> {
        let Some(probe) = &self.probe else {
            return Ok(());
        };
        probe.at(step).map_err(|refusal| {
            let _ = self.failed.set(refusal.clone());
            StoreError::Injected(refusal)
        })
    }

    pub(crate) fn raft(&self) -> &ColumnFamily {
        self.family(RAFT)
    }

    pub(crate) fn state(&self) -> &ColumnFamily {
        self.family(STATE)
    }

    pub(crate) fn meta(&self) -> &ColumnFamily {
        self.family(META)
    }

    pub(crate) fn get(
        &self,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Bytes>, StoreError> {
        Ok(self.db.get_cf(family, key)?.map(Bytes::from))
    }

    /// Whether `family` holds exactly `value` under `key`; compares without a copy.
    pub(crate) fn holds(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        Ok(self.db.get_pinned_cf(family, key)?.as_deref() == value)
    }

    /// Keys and values that begin with `prefix`, in order, as of now.
    pub(crate) fn scan<'a>(&'a self, family: &ColumnFamily, prefix: &'a [u8]) -> Scan<'a> {
        Scan {
            inner: self.db.iterator_cf_opt(
                family,
                within(prefix),
                IteratorMode::From(prefix, Direction::Forward),
            ),
        }
    }

    /// Everything as of now, unmoved by later writes.
    pub(crate) fn freeze(&self) -> FrozenDisk<'_> {
        FrozenDisk {
            disk: self,
            snapshot: self.db.snapshot(),
        }
    }

    fn family(&self, name: &str) -> &ColumnFamily {
        self.db
            .cf_handle(name)
            .expect("every family is opened with the database")
    }
}

/// The database at one moment.
pub(crate) struct FrozenDisk<'a> {
    disk: &'a Disk,
    snapshot: rocksdb::Snapshot<'a>,
}

impl FrozenDisk<'_> {
    pub(crate) fn get(
        &self,
        family: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<Bytes>, StoreError> {
        Ok(self.snapshot.get_cf(family, key)?.map(Bytes::from))
    }

    pub(crate) fn scan<'b>(&'b self, family: &ColumnFamily, prefix: &'b [u8]) -> Scan<'b> {
        Scan {
            inner: self.snapshot.iterator_cf_opt(
                family,
                within(prefix),
                IteratorMode::From(prefix, Direction::Forward),
            ),
        }
    }

    pub(crate) fn disk(&self) -> &Disk {
        self.disk
    }
}

/// Iterates over keys and values in the order of keys.
pub(crate) struct Scan<'a> {
    inner: rocksdb::DBIterator<'a>,
}

impl Iterator for Scan<'_> {
    type Item = Result<(Bytes, Bytes), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.inner.next()?;
        Some(
            item.map(|(key, value)| (Bytes::from(key), Bytes::from(value)))
                .map_err(StoreError::from),
        )
    }
}

fn within(prefix: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    if let Some(end) = successor(prefix) {
        options.set_iterate_upper_bound(end);
    }
    options
}

/// The first key after every key with this prefix; nothing when no key can follow them.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|octet| *octet != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

fn database_options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    // A torn last record is the usual end of a power loss; any other damage is an error, where the
    // default would silently drop acknowledged entries after it.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    options.set_max_total_wal_size(256 << 20);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options.set_max_open_files(256);
    // Files are few: threads to open them, three families times sixteen, cost more than they save.
    options.set_max_file_opening_threads(1);
    options.set_skip_stats_update_on_db_open(true);
    options
}

fn family_options(write_buffer: usize) -> Options {
    let mut options = Options::default();
    options.set_write_buffer_size(write_buffer);
    options.set_max_write_buffer_number(4);
    options.set_compression_type(DBCompressionType::Lz4);
    options
}

/// Names of the column families.
pub(crate) const FAMILIES: [&str; 3] = [RAFT, STATE, META];
const RAFT: &str = "raft";
const STATE: &str = "state";
const META: &str = "meta";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_prefix_follows_all_its_keys() {
        assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(successor(&[1, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff, 0xff]), None);
        assert_eq!(successor(b""), None);
    }
}
