//! The seam: inputs in, outputs out, one owner. Knows no socket and no clock: the caller delivers
//! messages and ticks.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    batch::{Applied, Batch, Outcome},
    config::Config,
    disk::Disk,
    error::OpenError,
    view::View,
};

/// What a replica is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// [`TICK_MS`](crate::config::TICK_MS) milliseconds passed.
    Tick,
    /// Octets that another replica's [`Output::Send`] held.
    Message {
        /// Who sent them, as the transport has authenticated it.
        from: u64,
        /// What it sent.
        octets: Bytes,
    },
    /// Replicate this.
    Propose {
        /// What to replicate.
        batch: Batch,
        /// Names it in [`Output::Proposed`].
        ticket: u64,
    },
    /// Tell when the view has everything that was committed before now, anywhere.
    Read {
        /// Names it in [`Output::ReadReady`] or [`Output::ReadFailed`].
        ticket: u64,
    },
    /// A message to this replica could not be sent.
    Unreachable(u64),
    /// An [`Output::Send`] with `snapshot` set was delivered or not. Must follow each of them, or
    /// the receiver is not served again until a timeout of 60 s.
    SnapshotSent {
        /// To whom it went.
        to: u64,
        /// Whether all of it was delivered.
        ok: bool,
    },
    /// Stand for election now.
    Campaign,
    /// Hand leadership to this voter; forwarded when this replica is not the leader.
    TransferLeader(u64),
}

/// What a replica wants done or known, in this order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send these octets. They may get lost, late, twice or out of order.
    Send {
        /// To which replica.
        to: u64,
        /// What; up to the size of a snapshot.
        octets: Bytes,
        /// It is a snapshot: large, and [`Input::SnapshotSent`] must follow.
        snapshot: bool,
    },
    /// A committed batch was applied.
    Applied(Applied),
    /// What became of a proposal. Follows the [`Output::Applied`] of the same batch.
    Proposed {
        /// The proposal's ticket.
        ticket: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// The view now has everything that was committed when the read was asked.
    ReadReady {
        /// The read's ticket.
        ticket: u64,
        /// The index that had to be applied.
        index: u64,
    },
    /// No quorum confirmed the read in time.
    ReadFailed {
        /// The read's ticket.
        ticket: u64,
    },
    /// Role, term, leader or health changed.
    Status(Status),
}

/// A replica's part in the group.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Replicates what is proposed.
    Leader,
    /// Follows a leader, or waits for one.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Asks whether it would get votes.
    PreCandidate,
}

/// How a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This replica.
    pub id: u64,
    /// Its role.
    pub role: Role,
    /// Its Raft term.
    pub term: u64,
    /// The leader it knows of in this term.
    pub leader: Option<u64>,
    /// Last index known to be committed.
    pub commit: u64,
    /// Last index applied.
    pub applied: u64,
    /// First index in the log.
    pub first: u64,
    /// Last index in the log.
    pub last: u64,
    /// At the leader only, for every other replica: id, last index it is known to hold, and whether
    /// it was heard from within an election timeout.
    pub peers: Vec<(u64, u64, bool)>,
    /// Messages refused since open: malformed, foreign or implausible.
    pub refused: u64,
    /// Why this replica no longer votes, acknowledges or accepts; it must be reopened. Reads go on.
    pub degraded: Option<String>,
}

/// One member of the Raft group, on one thread.
pub struct Replica {
    disk: Arc<Disk>,
}

impl Replica {
    /// Opens the data directory, founding it if it is empty.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let disk = Disk::open(&config.data_dir.join("db"), config.probe.clone());
        let disk = disk.map_err(|source| OpenError::Database {
            dir: config.data_dir.clone(),
            source,
        })?;
        Ok(Self {
            disk: Arc::new(disk),
        })
    }

    /// Queues an input; nothing happens before [`Replica::poll`].
    pub fn handle(&mut self, input: Input) {
        drop(input);
    }

    /// Works off the queue, until quiet, in as few synced writes as Raft allows.
    pub fn poll(&mut self, out: &mut Vec<Output>) {
        let _ = out;
    }

    /// The state, for reading from any thread.
    pub fn view(&self) -> View {
        View::new(Arc::clone(&self.disk))
    }

    /// How this replica is now.
    pub fn status(&self) -> Status {
        Status {
            id: 0,
            role: Role::Follower,
            term: 0,
            leader: None,
            commit: 0,
            applied: 0,
            first: 0,
            last: 0,
            peers: Vec::new(),
            refused: 0,
            degraded: None,
        }
    }
}
