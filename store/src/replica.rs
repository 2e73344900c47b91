//! The seam: inputs in, outputs out, one owner. Knows no socket and no clock: the caller delivers
//! messages and ticks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    mem::{self, Discriminant},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use bytes::Bytes;
use raft::{RawNode, StateRole};

use crate::{
    apply::State,
    batch::{Applied, Batch, Outcome},
    config::Config,
    disk::Disk,
    error::{Halt, OpenError},
    guard::Refusal,
    log::Log,
    open,
    propose::{Proposals, dropped},
    read::Reads,
    snapshot::SNAPSHOT_OCTETS_MAX,
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
    /// The machine of this replica refuses connections since a stream to it ended: its process is taken for ended. If it
    /// led, its successor is elected without waiting for the election timeout, unless it is heard of in the next 150 ms.
    Gone(u64),
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
    /// Writes since open that waited until they were durable.
    pub synced: u64,
    /// Why this replica no longer votes, acknowledges or accepts; it must be reopened. Reads go on.
    pub degraded: Option<String>,
}

/// One member of the Raft group, on one thread.
pub struct Replica {
    pub(crate) config: Config,
    pub(crate) disk: Arc<Disk>,
    pub(crate) node: RawNode<Log>,
    pub(crate) state: State,
    pub(crate) proposals: Proposals,
    pub(crate) reads: Reads,
    /// Ticks since open.
    pub(crate) now: u64,
    /// Elections this replica has begun by itself; varies the next timeout.
    pub(crate) campaigns: u64,
    /// The leader that is [`Input::Gone`], until another is known or it is heard of.
    pub(crate) gone: Option<u64>,
    /// Until when a report on the snapshot sent to a replica is awaited.
    pub(crate) snapshots_sent: BTreeMap<u64, u64>,
    /// Leader and term as proposals and reads know them.
    pub(crate) led_by: (u64, u64),
    /// Other voters of which a message was admitted since [`Replica::heard`] was last called.
    pub(crate) heard: BTreeSet<u64>,
    pub(crate) refused: u64,
    /// Of those, how many by sender, if it is a voter, and reason: for the log.
    pub(crate) refusals: HashMap<(Option<u64>, Discriminant<Refusal>), u64>,
    inbox: VecDeque<Input>,
    inbox_octets: usize,
    /// Outcomes of what did not fit into the inbox.
    turned_away: Vec<Output>,
    reported: Option<(Role, u64, Option<u64>, bool)>,
    degraded: Option<String>,
}

impl Replica {
    /// Opens the data directory, founding it if it is empty. The state is then as the
    /// [`View`] shows it; later changes come as [`Output::Applied`]. A single voter elects itself
    /// at the first poll.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let opened = open::open(&config)?;
        let mut inbox = VecDeque::new();
        if config.voters.len() == 1 {
            inbox.push_back(Input::Campaign);
        }
        Ok(Self {
            disk: opened.disk,
            node: opened.node,
            state: opened.state,
            proposals: Proposals::new(config.id, opened.boot),
            reads: Reads::new(config.id, opened.boot),
            now: 0,
            campaigns: 0,
            gone: None,
            snapshots_sent: BTreeMap::new(),
            led_by: (0, 0),
            heard: BTreeSet::new(),
            refused: 0,
            refusals: HashMap::new(),
            inbox,
            inbox_octets: 0,
            turned_away: Vec::new(),
            reported: None,
            degraded: None,
            config,
        })
    }

    /// Queues an input; nothing happens before [`Replica::poll`]. Beyond [`INBOX_OCTETS_MAX`] or
    /// [`INBOX_LEN_MAX`] messages are lost, proposals dropped and reads failed.
    pub fn handle(&mut self, input: Input) {
        let octets = octets_of(&input);
        if self.inbox_octets + octets > INBOX_OCTETS_MAX || self.inbox.len() >= INBOX_LEN_MAX {
            turn_away(input, &mut self.turned_away);
            return;
        }
        self.inbox_octets += octets;
        self.inbox.push_back(input);
    }

    /// Works off the queue, until quiet, in as few synced writes as Raft allows. Blocks on the
    /// disk. What comes out is safe to act on at once and in order.
    pub fn poll(&mut self, out: &mut Vec<Output>) {
        out.append(&mut self.turned_away);
        if self.degraded.is_none() {
            // Raft answers a contradiction, and a disk that cannot be read, with a panic. That ends
            // this replica's part in the group, but not the sessions of the process around it.
            let worked = panic::catch_unwind(AssertUnwindSafe(|| self.work(out)));
            let halt = worked.unwrap_or_else(|panic| Err(Halt::Raft(text_of(&*panic))));
            if let Err(halt) = halt {
                self.degrade(&halt, out);
            }
        }
        if self.degraded.is_some() {
            self.inbox_octets = 0;
            for input in self.inbox.drain(..) {
                turn_away(input, out);
            }
        }
        self.report(out);
    }

    /// The state, for reading from any thread.
    pub fn view(&self) -> View {
        View::new(Arc::clone(&self.disk))
    }

    /// How this replica is now.
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let mut peers = Vec::new();
        if raft.state == StateRole::Leader {
            for (id, progress) in raft.prs().iter().filter(|(id, _)| **id != raft.id) {
                peers.push((*id, progress.matched, progress.recent_active));
            }
            peers.sort_unstable();
        }
        Status {
            id: self.config.id,
            role: match raft.state {
                StateRole::Leader => Role::Leader,
                StateRole::Follower => Role::Follower,
                StateRole::Candidate => Role::Candidate,
                StateRole::PreCandidate => Role::PreCandidate,
            },
            term: raft.term,
            // One that stops taking part follows nobody, and hears of nothing any more.
            leader: (raft.leader_id != 0 && self.degraded.is_none()).then_some(raft.leader_id),
            commit: raft.raft_log.committed,
            applied: self.state.applied,
            first: self.node.store().first(),
            last: raft.raft_log.last_index(),
            peers,
            refused: self.refused,
            synced: self.disk.synced(),
            degraded: self.degraded.clone(),
        }
    }

    /// Returns the other voters of which a message was admitted since the last call: a sign of life. A refused one is none.
    pub fn heard(&mut self) -> BTreeSet<u64> {
        mem::take(&mut self.heard)
    }

    fn work(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        while let Some(input) = self.inbox.pop_front() {
            self.inbox_octets -= octets_of(&input);
            self.take_in(input, out)?;
        }
        self.rounds(out)?;
        self.compact()
    }

    fn degrade(&mut self, halt: &Halt, out: &mut Vec<Output>) {
        tracing::error!(replica = self.config.id, reason = %halt, "replica stops taking part");
        self.degraded = Some(halt.to_string());
        self.proposals.expire(u64::MAX, out);
        self.reads.expire(u64::MAX, out);
    }

    fn report(&mut self, out: &mut Vec<Output>) {
        let status = self.status();
        let degraded = status.degraded.is_some();
        let now = Some((status.role, status.term, status.leader, degraded));
        if self.reported != now {
            self.reported = now;
            out.push(Output::Status(status));
        }
    }
}

fn octets_of(input: &Input) -> usize {
    match input {
        Input::Message { octets, .. } => octets.len(),
        Input::Propose { batch, .. } => batch.octets_len(),
        Input::Tick
        | Input::Read { .. }
        | Input::Unreachable(_)
        | Input::Gone(_)
        | Input::SnapshotSent { .. }
        | Input::Campaign
        | Input::TransferLeader(_) => 0,
    }
}

/// Says what became of an input that is not taken.
fn turn_away(input: Input, out: &mut Vec<Output>) {
    match input {
        Input::Propose { ticket, .. } => out.push(dropped(ticket)),
        Input::Read { ticket } => out.push(Output::ReadFailed { ticket }),
        Input::Tick
        | Input::Message { .. }
        | Input::Unreachable(_)
        | Input::Gone(_)
        | Input::SnapshotSent { .. }
        | Input::Campaign
        | Input::TransferLeader(_) => {}
    }
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panic without a message".to_owned())
}

/// Most octets of one message: those of a snapshot, and its envelope.
pub const MESSAGE_OCTETS_MAX: usize = SNAPSHOT_OCTETS_MAX + (1 << 10);

/// Most octets of messages and proposals between two polls: a snapshot, and what comes with it.
pub const INBOX_OCTETS_MAX: usize = MESSAGE_OCTETS_MAX + (64 << 20);

/// Most inputs between two polls.
pub const INBOX_LEN_MAX: usize = 1 << 20;
