//! What a replica is told at open, and the probe through which tests watch and break its steps.
//! Knows neither Raft nor the disk.

use std::{fmt, path::PathBuf, sync::Arc};

use crate::batch::Batch;

/// What a replica is told when it is opened. Make one with [`Config::new`] and change fields.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica. Not zero.
    pub id: u64,
    /// All voters, this one included, from 1 to 7 of them. Every replica must be given the same.
    pub voters: Vec<u64>,
    /// Where the database and the identity are. Belongs to one process at a time.
    pub data_dir: PathBuf,
    /// Names the Raft group: messages and data directories of another are refused.
    pub cluster: [u8; 16],
    /// Varies election timeouts: same seed and same inputs, same behaviour.
    pub seed: u64,
    /// Applied entries kept in the log for followers that lag; those further behind get a snapshot.
    pub log_keep_entries: u64,
    /// The same bound in octets; whichever is hit first.
    pub log_keep_octets: u64,
    /// No start of this replica counts lower. Proposals are told apart by it, so a replica that lost its
    /// directory needs a number above all that it ever had: the seconds since 1970 are one.
    pub boot_min: u64,
    /// Returns true for a batch that the caller of this crate may have made. A proposal of another replica without it is not
    /// proposed on.
    pub accepts: fn(&Batch) -> bool,
    /// Ticks after which a proposal without an outcome is [`Dropped`](crate::Outcome::Dropped).
    pub proposal_ticks: u32,
    /// Ticks after which a read without an answer has failed.
    pub read_ticks: u32,
    /// Watches and breaks steps, in tests.
    pub probe: Option<Probe>,
}

impl Config {
    /// A configuration with the defaults: 10,000 entries or 256 MiB kept in the log, 3 s for a
    /// proposal and for a read.
    pub fn new(
        id: u64,
        voters: Vec<u64>,
        data_dir: impl Into<PathBuf>,
        cluster: [u8; 16],
        seed: u64,
    ) -> Self {
        Self {
            id,
            voters,
            data_dir: data_dir.into(),
            cluster,
            seed,
            log_keep_entries: LOG_KEEP_ENTRIES,
            log_keep_octets: LOG_KEEP_OCTETS,
            boot_min: 1,
            accepts: |_| true,
            proposal_ticks: DEADLINE_TICKS,
            read_ticks: DEADLINE_TICKS,
            probe: None,
        }
    }
}

/// Called at every named step; an error makes that step fail as a disk would.
#[derive(Clone)]
pub struct Probe(Arc<Watch>);

type Watch = dyn Fn(Step) -> Result<(), String> + Send + Sync;

impl Probe {
    /// A probe that calls `watch`.
    pub fn new(watch: impl Fn(Step) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }

    pub(crate) fn at(&self, step: Step) -> Result<(), String> {
        (self.0)(step)
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

/// The steps between which a replica may be killed. A failing `...Written` step is one whose write
/// reached the disk and whose answer did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// About to write entries, hard state and snapshot of one Ready.
    LogWrite,
    /// They are written; durable if `synced`.
    LogWritten {
        /// Term of the written hard state.
        term: u64,
        /// Vote of the written hard state; 0 is none.
        vote: u64,
        /// Index of the last entry in the log.
        last: u64,
        /// Whether the write was synced.
        synced: bool,
    },
    /// A message leaves that speaks of what is durable: a vote or an acknowledgement.
    Release {
        /// To whom.
        to: u64,
        /// What it is.
        kind: Spoken,
        /// Its term.
        term: u64,
        /// For an acknowledgement the index acknowledged.
        index: u64,
    },
    /// About to apply the entry at this index.
    Apply {
        /// The log index.
        index: u64,
    },
    /// It is applied.
    AppliedAt {
        /// The log index.
        index: u64,
    },
    /// About to replace the state by a snapshot.
    Install {
        /// The snapshot's index.
        index: u64,
    },
    /// About to drop entries up to this index from the log.
    Compact {
        /// The last index dropped.
        index: u64,
    },
}

/// Messages that speak of what is durable.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// Asks for votes, having voted for itself.
    VoteRequest,
    /// Grants a vote.
    Vote,
    /// Acknowledges entries.
    Acknowledgement,
}

/// Length of a tick that the other constants assume.
pub const TICK_MS: u64 = 50;

/// Ticks between heartbeats of a leader: 100 ms.
pub const HEARTBEAT_TICKS: usize = 2;

/// Ticks without a leader before a follower campaigns: 600 ms up to twice that, drawn from the seed; from 150 ms on where
/// the leader's machine refuses connections.
pub const ELECTION_TICKS: usize = 12;

/// Most voters: beyond seven a quorum costs more than it protects.
pub const MAX_VOTERS: usize = 7;

const LOG_KEEP_ENTRIES: u64 = 10_000;
const LOG_KEEP_OCTETS: u64 = 256 << 20;
const DEADLINE_TICKS: u32 = 60;
