//! Opening a data directory: founding an empty one, refusing one of another replica, group or
//! format. Knows no message.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::Path,
    sync::Arc,
};

use bytes::{BufMut, Bytes, BytesMut};
use raft::{RawNode, ReadOnlyOption};
use rocksdb::WriteBatch;

use crate::{
    apply::State,
    config::{Config, ELECTION_TICKS, HEARTBEAT_TICKS},
    disk::Disk,
    error::{OpenError, StoreError},
    format::FORMAT,
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
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(PRIVATE);
    builder
        .create(&config.data_dir)
        .map_err(|source| OpenError::Io {
            path: dir(),
            source,
        })?;
    let has_identity = identity::check(config)?;
    narrow(&config.data_dir, has_identity)?;
    let disk = Disk::open(&config.data_dir.join(DATABASE), config.probe.clone());
    let disk = Arc::new(disk.map_err(database)?);
    let boot = enter(config, &disk, has_identity)?;

    let unsound = |error| match error {
        StoreError::Malformed(what) => OpenError::Corrupt {
            dir: dir(),
            what: what.to_owned(),
        },
        error @ (StoreError::Database(_)
        | StoreError::StateTooLarge
        | StoreError::Latched(_)
        | StoreError::Injected(_)) => database(error),
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
    // A replica that is killed while it founds its directory leaves a new log without an identity.
    if !has_identity && !log.is_new() {
        return Err(OpenError::NoIdentity { dir: dir() });
    }
    let logger = slog::Logger::root(slog::Discard, slog::o!());
    let node = RawNode::new(&raft_config(config, state.applied), log, &logger);
    let node = node.map_err(|source| OpenError::Raft {
        dir: dir(),
        source: Box::new(source),
    })?;
    if !has_identity {
        identity::write(config)?;
    }
    Ok(Opened {
        disk,
        node,
        state,
        boot,
    })
}

/// Takes other users' access to an existing directory away: the files in it have all routes, and what is declared. A directory
/// that holds files of others is left as it is, and refused.
fn narrow(dir: &Path, has_identity: bool) -> Result<(), OpenError> {
    let unread = |source| OpenError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut permissions = fs::metadata(dir).map_err(unread)?.permissions();
    let found = permissions.mode() & 0o777;
    if found & !PRIVATE == 0 {
        return Ok(());
    }
    let exposed = |why| OpenError::Exposed {
        dir: dir.to_owned(),
        found,
        why,
    };
    if !has_identity && holds_others(dir).map_err(unread)? {
        return Err(exposed(
            "it holds files of others; weftd needs a directory of its own".to_owned(),
        ));
    }
    permissions.set_mode(PRIVATE);
    fs::set_permissions(dir, permissions)
        .map_err(|error| exposed(format!("{error}; give it to the user of weftd")))?;
    tracing::warn!(
        dir = %dir.display(),
        found = %format_args!("{found:04o}"),
        "other users could read the data directory; its mode is 0700 now"
    );
    Ok(())
}

/// Returns true if a directory holds what neither a replica nor a file system puts there.
fn holds_others(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name != DATABASE && name != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
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
        let owner = owner_from(owner).ok_or_else(|| corrupt("malformed owner"))?;
        let (format, replica, cluster) = owner;
        if format != FORMAT {
            return Err(OpenError::OtherFormat {
                dir: config.data_dir.clone(),
                found: format.into(),
                supported: FORMAT.into(),
            });
        }
        identity::compare(config, replica, &cluster)?;
        let boot = get(BOOT)?.and_then(|record| index_from(&record));
        boot.ok_or_else(|| corrupt("database has no boot count"))? + 1
    } else if has_identity {
        return Err(corrupt(
            "has an identity and no log: its votes are forgotten, it must not vote again. Put back the whole directory as its last \
             stop left it, or start the replica with an empty one, as after the loss of its disk (README, limits)",
        ));
    } else {
        Log::found(disk, &membership::conf_state(&config.voters), &mut batch);
        let owner = owner(config.id, &config.cluster);
        batch.put_cf(disk.meta(), OWNER, owner);
        1
    };
    let boot = boot.max(config.boot_min);
    batch.put_cf(disk.meta(), BOOT, boot.to_be_bytes());
    disk.write(batch, true).map_err(database)?;
    Ok(boot)
}

/// Counts this start as `boot`, whatever it was.
pub(crate) fn count(disk: &Disk, boot: u64) -> Result<(), StoreError> {
    let mut batch = WriteBatch::default();
    batch.put_cf(disk.meta(), BOOT, boot.to_be_bytes());
    disk.write(batch, true)
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

/// The record of the owner, for a directory whose replica was killed before it wrote its identity file: format(1) replica(8)
/// cluster(16).
pub(crate) fn owner(replica: u64, cluster: &[u8; 16]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(FORMAT);
    out.put_u64(replica);
    out.put_slice(cluster);
    out.freeze()
}

fn owner_from(record: Bytes) -> Option<(u8, u64, String)> {
    let mut reader = Reader::new(record);
    let format = reader.u8()?;
    let replica = reader.u64()?;
    let cluster: [u8; 16] = reader.array()?;
    reader
        .is_empty()
        .then(|| (format, replica, identity::hex(&cluster)))
}

/// The folder of the database.
pub(crate) const DATABASE: &str = "db";
/// Keys of the records of this file.
pub(crate) const KEYS: [&[u8]; 2] = [OWNER, BOOT];

/// Mode of the data directory: its owner's alone.
const PRIVATE: u32 = 0o700;
const OWNER: &[u8] = b"owner";
const BOOT: &[u8] = b"boot";
