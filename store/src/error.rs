//! What can go wrong with the store, and where. Knows no recovery: whoever opens a replica decides.

use std::path::PathBuf;

use thiserror::Error;

use crate::guard::Conflict;

/// Why a replica could not be opened. Each names the directory and what is wrong with it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The configuration contradicts itself.
    #[error("configuration of the store: {0}")]
    Config(String),
    /// The directory holds another replica's data.
    #[error("{dir}: belongs to replica {found}, this is replica {configured}")]
    OtherReplica {
        /// The data directory.
        dir: PathBuf,
        /// Whose it is.
        found: u64,
        /// Who was to open it.
        configured: u64,
    },
    /// The directory holds data of another cluster.
    #[error("{dir}: belongs to cluster {found}, this is cluster {configured}")]
    OtherCluster {
        /// The data directory.
        dir: PathBuf,
        /// Whose it is, in hex.
        found: String,
        /// Who was to open it, in hex.
        configured: String,
    },
    /// The directory was founded with other voters, and membership is static.
    #[error("{dir}: was founded with voters {found:?}, configured are {configured:?}")]
    OtherVoters {
        /// The data directory.
        dir: PathBuf,
        /// The voters in its log.
        found: Vec<u64>,
        /// The configured voters.
        configured: Vec<u64>,
    },
    /// The directory was written in an older or a newer format.
    #[error("{dir}: was written in format {found}, this release has format {supported}")]
    OtherFormat {
        /// The data directory.
        dir: PathBuf,
        /// Format found.
        found: u64,
        /// The only format this release reads and writes.
        supported: u64,
    },
    /// The directory has a database that was used, and no identity file: files are missing, and those that are left may be old.
    #[error(
        "{dir}: has a database and no file `identity`: a part of the directory is missing, and the rest may be old. \
         Put back the whole directory of this replica as its last stop left it, or start the replica with an empty one, \
         as after the loss of its disk (README, limits)"
    )]
    NoIdentity {
        /// The data directory.
        dir: PathBuf,
    },
    /// What is in the directory contradicts itself; voting on it could lose committed facts.
    /// The README says how a replica begins anew.
    #[error("{dir}: {what}")]
    Corrupt {
        /// The data directory.
        dir: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// The directory or the identity file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Other users may read the directory, and that cannot be changed.
    #[error("{dir}: has mode {found:04o}, and cannot be made 0700: {why}")]
    Exposed {
        /// The data directory.
        dir: PathBuf,
        /// Its mode.
        found: u32,
        /// Why, and what helps.
        why: String,
    },
    /// The database cannot be opened or written.
    #[error("{dir}: {source}")]
    Database {
        /// The data directory.
        dir: PathBuf,
        /// What RocksDB said.
        source: StoreError,
    },
    /// Raft refused what it found.
    #[error("{dir}: {source}")]
    Raft {
        /// The data directory.
        dir: PathBuf,
        /// What it said.
        source: Box<raft::Error>,
    },
}

/// Reading or writing the database failed.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// What RocksDB said.
    #[error("database: {0}")]
    Database(#[from] rocksdb::Error),
    /// A record of ours is not as it was written.
    #[error("malformed record: {0}")]
    Malformed(&'static str),
    /// A snapshot of the state is above the bound.
    #[error("the state has more than 1 GiB, the most that a snapshot may have")]
    StateTooLarge,
    /// An earlier write failed and this one was not tried.
    #[error("earlier write failed: {0}")]
    Latched(String),
    /// A test made this step fail.
    #[error("injected: {0}")]
    Injected(String),
}

/// Why a replica stops taking part.
#[derive(Debug, Error)]
pub(crate) enum Halt {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "replica {leader} says that this one acknowledged entries up to {commit}, its log ends at {last}"
    )]
    LostLog { leader: u64, commit: u64, last: u64 },
    #[error(
        "replica {leader} has entry {} of term {}, where this one has committed one of term {}: their histories differ, \
         one of them may have lost its directory",
        conflict.index, conflict.theirs, conflict.ours
    )]
    Conflict { leader: u64, conflict: Conflict },
    #[error(
        "committed entry {index} of term {term} does not decode: it was damaged, or proposed by a replica of another format"
    )]
    Undecodable { index: u64, term: u64 },
    #[error("raft: {0}")]
    Raft(String),
}
