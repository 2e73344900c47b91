//! Opening a data directory: founding an empty one, refusing another's. Knows no message.

use std::{fs, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use raft::{RawNode, ReadOnlyOption};
use rocksdb::WriteBatch;

use crate::{
    apply::State,
    config::{Config, ELECTION_TICKS, HEARTBEAT_TICKS},
    disk::Disk,
    error::{OpenError, StoreError},
    identity,
    log::{HARD, Log, index_from},
    membership,
    octets::Reader,
};

/// What is known of a data directory once it is open.
pub(crate) struct Opened {
    pub(crate) disk: Arc<Disk>,
    pub(crate) node: RawNode<Log>,
    pub(crate) state: State,
    /// Numbers its starts, upwards.
    pub(crate) boot: u64,
}

pub(crate) fn open(config: &Config) -> Result<Opened, OpenError> {
    membership::check(config)?;
    let dir = || config.data_dir.clone();
    let database = |source| OpenError::Database { dir: dir(), source };
    fs::create_dir_all(&config.data_dir).map_err(|source| OpenError::Io {
        path: dir(),
        source,
    })?;
    let format = identity::check(config)?;
    let disk = Disk::open(&config.data_dir.join(DATABASE), config.probe.clone());
    let disk = Arc::new(disk.map_err(database)?);
    let boot = enter(config, &disk, format.is_some())?;

    let unsound = |error| match error {
        StoreError::Malformed(what) => OpenError::Corrupt {
            dir: dir(),
            what: what.to_owned(),
        },
        error @ (StoreError::Database(_) | StoreError::Latched(_) | StoreError::Injected(_)) => {
            database(error)
        }
    };
    let log = Log::load(Arc::clone(&disk)).map_err(unsound)?;
    let state = State::load(Arc::clone(&disk)).map_err(unsound)?;
    if !membership::is_static(log.conf(), &config.voters) {
        return Err(OpenError::OtherVoters {
            dir: dir(),
            found: log.conf().voters.clone(),
            configured: config.voters.clone(),
        });
    }
    if state.applied < log.first() - 1 || state.applied > log.hard.commit {
        return Err(OpenError::Corrupt {
            dir: dir(),
            what: format!(
                "applied {} is not between the start of the log {} and what is committed {}",
                state.applied,
                log.first(),
                log.hard.commit
            ),
        });
    }
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    let node = RawNode::new(&raft_config(config, state.applied), log, &logger);
    let node = node.map_err(|source| OpenError::Raft {
        dir: dir(),
        source: Box::new(source),
    })?;
    // It is ours: from here on an older release does not open it any more.
    if format != Some(identity::FORMAT) {
        identity::write(config)?;
    }
    Ok(Opened {
        disk,
        node,
        state,
        boot,
    })
}

/// Founds the database if it is empty, else checks whose it is; numbers this start.
fn enter(config: &Config, disk: &Disk, has_identity: bool) -> Result<u64, OpenError> {
    let database = |source| OpenError::Database {
        dir: config.data_dir.clone(),
        source,
    };
    let corrupt = |what: &str| OpenError::Corrupt {
        dir: config.data_dir.clone(),
        what: what.to_owned(),
    };
    let get = |key| disk.get(disk.meta(), key).map_err(database);
    let mut batch = WriteBatch::default();
    let boot = if get(HARD)?.is_some() {
        let owner = get(OWNER)?.ok_or_else(|| corrupt("database has no owner"))?;
        let (replica, cluster) = owner_from(owner).ok_or_else(|| corrupt("malformed owner"))?;
        identity::compare(config, replica, &cluster)?;
        let boot = get(BOOT)?.and_then(|record| index_from(&record));
        boot.ok_or_else(|| corrupt("database has no boot count"))? + 1
    } else if has_identity {
        return Err(corrupt(
            "has an identity and no log: its votes are forgotten, it must not vote again",
        ));
    } else {
        Log::found(disk, &membership::conf_state(&config.voters), &mut batch);
        batch.put_cf(disk.meta(), OWNER, owner(config));
        1
    };
    let boot = boot.max(config.boot_min);
    batch.put_cf(disk.meta(), BOOT, boot.to_be_bytes());
    disk.write(batch, true).map_err(database)?;
    Ok(boot)
}

fn raft_config(config: &Config, applied: u64) -> raft::Config {
    raft::Config {
        id: config.id,
        applied,
        election_tick: ELECTION_TICKS,
        heartbeat_tick: HEARTBEAT_TICKS,
        max_size_per_msg: 1 << 20,
        max_inflight_msgs: 64,
        check_quorum: true,
        pre_vote: true,
        read_only_option: ReadOnlyOption::Safe,
        batch_append: true,
        max_uncommitted_size: 32 << 20,
        max_committed_size_per_ready: 8 << 20,
        ..raft::Config::default()
    }
}

fn owner(config: &Config) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u64(config.id);
    out.put_slice(&config.cluster);
    out.freeze()
}

fn owner_from(record: Bytes) -> Option<(u64, String)> {
    let mut reader = Reader::new(record);
    let replica = reader.u64()?;
    let cluster: [u8; 16] = reader.array()?;
    reader
        .is_empty()
        .then(|| (replica, identity::hex(&cluster)))
}

const DATABASE: &str = "db";
const OWNER: &[u8] = b"owner";
const BOOT: &[u8] = b"boot";
