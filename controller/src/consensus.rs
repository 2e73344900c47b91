//! Raft at the edge: the thread that owns the store, and the handle by which everything else
//! proposes and reads. Knows clocks and channels, not what a fact means.
//!
//! ```text
//! handles (many) --commands--> thread (1x per daemon, may block on the disk) --applied--> reflector
//! transport (1 task per other replica) <--messages--> thread
//! ```

pub mod transport;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use weft_store::{Applied, Batch, Change, Input, Outcome, Output, Replica, Status, View};

use crate::daemon::health::Pulse;
use crate::operator::metrics::Counted;
use crate::reflector::Entry;

/// What the thread takes.
pub enum Command {
    /// Propose a batch; the answer comes when this replica applies it, or gives it up.
    Propose(Batch, Asker),
    /// Confirm with a majority that what is applied from now on is current.
    Read(oneshot::Sender<Option<u64>>),
    /// A whole message from another replica.
    Message(u64, Bytes),
    /// A message to this replica could not be delivered.
    Unreachable(u64),
    /// Connections to this replica are refused since a stream to it ended: no process listens there, for all that is known.
    Gone(u64),
    /// A snapshot left for this replica, or could not.
    SnapshotSent(u64, bool),
    /// Hand leadership to somebody, if this replica leads.
    TransferLeadership,
    /// Hand leadership to somebody, then stop.
    Stop,
}

/// Who proposed a batch.
pub struct Asker {
    /// Where the answer goes.
    pub reply: oneshot::Sender<Outcome>,
    /// When an UPDATE in the batch was taken, if it is measured how long that takes to be advertised.
    pub taken: Option<Instant>,
}

/// What the thread tells the outside about the group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The store's own status.
    pub status: Status,
    /// When a message of each other replica was last admitted.
    pub heard: BTreeMap<u64, Instant>,
}

impl Group {
    /// Whether the answering replica leads, and is fit to.
    pub fn leads(&self) -> bool {
        self.status.leader == Some(self.status.id) && self.status.degraded.is_none()
    }

    /// The term in which the answering replica leads; None: it does not.
    pub fn term_led(&self) -> Option<u64> {
        self.leads().then_some(self.status.term)
    }
}

/// A cheap handle on the replicated store.
#[derive(Clone)]
pub struct Consensus {
    commands: mpsc::Sender<Command>,
    group: watch::Receiver<Group>,
    view: View,
    counted: Counted,
    pulse: Arc<Pulse>,
}

impl Consensus {
    /// Proposes a batch and waits for what became of it. `Dropped` where nobody can say; the caller
    /// proposes again with fresh content.
    #[expect(clippy::disallowed_methods, reason = "measures for the metrics page")]
    pub async fn propose(&self, batch: Batch) -> Outcome {
        let since = Instant::now();
        match self.commands.clone().reserve_owned().await {
            Ok(permit) => self.room(permit, since).propose(batch).await,
            Err(_) => Outcome::Dropped,
        }
    }

    /// Room for a proposal, if there is any just now.
    #[expect(clippy::disallowed_methods, reason = "measures for the metrics page")]
    pub fn try_room(&self) -> Option<Room> {
        let permit = self.commands.clone().try_reserve_owned().ok()?;
        Some(self.room(permit, Instant::now()))
    }

    fn room(&self, permit: mpsc::OwnedPermit<Command>, since: Instant) -> Room {
        let counted = self.counted.clone();
        Room {
            permit,
            since,
            taken: None,
            counted,
        }
    }

    /// The index that a linearizable read has to wait for; `None` without a majority.
    pub async fn read_index(&self) -> Option<u64> {
        let (reply, index) = oneshot::channel();
        let read = async {
            // A thread that hangs leaves no room.
            self.commands.send(Command::Read(reply)).await.ok()?;
            index.await.ok()?
        };
        tokio::time::timeout(READ_TIMEOUT, read).await.ok()?
    }

    /// Hands leadership to another replica, if this one leads.
    pub fn transfer_leadership(&self) {
        // A thread that hangs leaves no room, and loses its leadership by that.
        let _ = self.commands.try_send(Command::TransferLeadership);
    }

    /// Sign of life of the thread.
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// The committed facts as this replica has applied them.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Status of the group, and its changes.
    pub fn group(&self) -> watch::Receiver<Group> {
        self.group.clone()
    }

    /// Where the transport puts what it received.
    pub fn commands(&self) -> mpsc::Sender<Command> {
        self.commands.clone()
    }
}

/// A place before the thread for one proposal.
pub struct Room {
    permit: mpsc::OwnedPermit<Command>,
    /// When it was asked for.
    since: Instant,
    taken: Option<Instant>,
    counted: Counted,
}

impl Room {
    /// An UPDATE in the batch was taken then, and it is measured how long that takes to be advertised.
    pub fn taken(self, taken: Option<Instant>) -> Self {
        Self { taken, ..self }
    }

    /// Proposes a batch now, before whatever is proposed after this; waits as [`Consensus::propose`] does.
    pub fn propose(self, batch: Batch) -> impl Future<Output = Outcome> + Send + 'static {
        let Self {
            permit,
            since,
            taken,
            counted,
        } = self;
        let (reply, outcome) = oneshot::channel();
        permit.send(Command::Propose(batch, Asker { reply, taken }));
        async move {
            let outcome = outcome.await.unwrap_or(Outcome::Dropped);
            counted.proposed(since.elapsed());
            outcome
        }
    }
}

/// Starts the thread. Applied entries go to `sink` in order; messages to `outbound` by replica id.
pub fn start(
    replica: Replica,
    sink: mpsc::Sender<Entry>,
    outbound: BTreeMap<u64, mpsc::Sender<transport::Outbound>>,
    counted: Counted,
) -> (Consensus, std::thread::JoinHandle<()>) {
    let (consensus, edge) = edge(replica, sink, outbound, counted);
    let thread = std::thread::Builder::new()
        .name("consensus".to_owned())
        .spawn(move || crate::daemon::supervision::or_abort("consensus", || edge.drive()))
        .expect("the system can start a thread at startup");
    (consensus, thread)
}

fn edge(
    replica: Replica,
    sink: mpsc::Sender<Entry>,
    outbound: BTreeMap<u64, mpsc::Sender<transport::Outbound>>,
    counted: Counted,
) -> (Consensus, Edge) {
    let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
    let group = Group {
        status: replica.status(),
        heard: BTreeMap::new(),
    };
    let (publish, group) = watch::channel(group);
    let view = replica.view();
    let pulse = Pulse::new("consensus", tokio::time::Instant::now());
    let edge = Edge {
        replica,
        inbox,
        sink,
        backlog: VecDeque::new(),
        outbound,
        publish,
        proposals: HashMap::new(),
        reads: HashMap::new(),
        next_ticket: 0,
        outputs: Vec::new(),
        emitted: 0,
        synced: 0,
        counted: counted.clone(),
        pulse: Arc::clone(&pulse),
    };
    let consensus = Consensus {
        commands,
        group,
        view,
        counted,
        pulse,
    };
    (consensus, edge)
}

struct Edge {
    replica: Replica,
    inbox: mpsc::Receiver<Command>,
    sink: mpsc::Sender<Entry>,
    /// Applied entries that the reflector has no room for. While there are any, no proposal of this
    /// replica is taken.
    backlog: VecDeque<Entry>,
    outbound: BTreeMap<u64, mpsc::Sender<transport::Outbound>>,
    publish: watch::Sender<Group>,
    proposals: HashMap<u64, Asker>,
    reads: HashMap<u64, oneshot::Sender<Option<u64>>>,
    next_ticket: u64,
    outputs: Vec<Output>,
    /// Index of the last applied entry that went towards the reflector.
    emitted: u64,
    /// Writes that waited for the disk, as of the last poll.
    synced: u64,
    counted: Counted,
    pulse: Arc<Pulse>,
}

impl Edge {
    #[expect(
        clippy::disallowed_methods,
        reason = "this file is the clock of the store"
    )]
    fn drive(mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("the system can make a timer at startup");
        let mut next_tick = Instant::now();
        let mut stop_at: Option<Instant> = None;
        loop {
            self.pulse.beat();
            let wait = next_tick.saturating_duration_since(Instant::now());
            let first =
                runtime.block_on(async { tokio::time::timeout(wait, self.inbox.recv()).await });
            match first {
                Ok(None) => return,
                Ok(Some(command)) => {
                    let stop = self.take(command);
                    stop_at = stop_at.or(stop);
                }
                Err(_) => {}
            }
            // Everything that waits goes into one write: group commit.
            for _ in 0..COMMANDS_MAX {
                let Ok(command) = self.inbox.try_recv() else {
                    break;
                };
                let stop = self.take(command);
                stop_at = stop_at.or(stop);
            }
            let now = Instant::now();
            if now >= next_tick {
                self.replica.handle(Input::Tick);
                // A thread that was stopped for long must not catch up on ticks it never lived.
                next_tick = now + TICK;
            }
            self.settle();
            if stop_at.is_some_and(|at| now >= at || !self.leads()) {
                return;
            }
        }
    }

    fn leads(&self) -> bool {
        self.replica.status().leader == Some(self.replica.status().id)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this file is the clock of the store"
    )]
    fn take(&mut self, command: Command) -> Option<Instant> {
        match command {
            Command::Propose(batch, asker) => {
                if !self.backlog.is_empty() {
                    // An answer is a hint: the proposer tries again with fresh content.
                    let _ = asker.reply.send(Outcome::Dropped);
                    return None;
                }
                let ticket = self.ticket();
                self.proposals.insert(ticket, asker);
                self.replica.handle(Input::Propose { batch, ticket });
            }
            Command::Read(reply) => {
                let ticket = self.ticket();
                self.reads.insert(ticket, reply);
                self.replica.handle(Input::Read { ticket });
            }
            Command::Message(from, octets) => {
                self.replica.handle(Input::Message { from, octets });
            }
            Command::Unreachable(id) => self.replica.handle(Input::Unreachable(id)),
            Command::Gone(id) => self.replica.handle(Input::Gone(id)),
            Command::SnapshotSent(to, ok) => self.replica.handle(Input::SnapshotSent { to, ok }),
            Command::TransferLeadership => {
                self.transfer_leadership();
            }
            Command::Stop if self.transfer_leadership() => {
                return Some(Instant::now() + TRANSFER_TIMEOUT);
            }
            Command::Stop => return Some(Instant::now()),
        }
        None
    }

    /// Hands leadership to the replica that has most of the log. Returns false if this replica does not lead, or is alone.
    fn transfer_leadership(&mut self) -> bool {
        let status = self.replica.status();
        let successor = status.peers.iter().max_by_key(|peer| peer.1);
        let successor = successor.map(|peer| peer.0).filter(|_| self.leads());
        if let Some(successor) = successor {
            self.replica.handle(Input::TransferLeader(successor));
        }
        successor.is_some()
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    #[expect(clippy::disallowed_methods, reason = "measures for the metrics page")]
    fn settle(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        let begin = Instant::now();
        self.replica.poll(&mut outputs);
        let took = begin.elapsed();
        let mut rest = outputs.drain(..).peekable();
        while let Some(output) = rest.next() {
            self.dispatch(output, rest.peek());
        }
        drop(rest);
        self.outputs = outputs;
        self.hand_over();
        let heard = self.replica.heard();
        let status = self.replica.status();
        let counted = &self.counted;
        if status.synced != self.synced {
            self.synced = status.synced;
            counted.sync_duration.observe(took.as_secs_f64());
        }
        counted
            .proposals_pending
            .set(i64::try_from(self.proposals.len()).unwrap_or(i64::MAX));
        self.publish.send_if_modified(|group| {
            if group.status.leader != status.leader {
                counted.leader_changes.inc();
            }
            let changed = group.status.leader != status.leader
                || group.status.term != status.term
                || group.status.degraded != status.degraded;
            group.status = status;
            group.heard.extend(heard.into_iter().map(|id| (id, begin)));
            changed
        });
    }

    /// Gives the reflector what it has room for.
    fn hand_over(&mut self) {
        while let Some(entry) = self.backlog.pop_front() {
            match self.sink.try_send(entry) {
                Ok(()) => {}
                Err(TrySendError::Full(entry)) => {
                    self.backlog.push_front(entry);
                    return;
                }
                Err(TrySendError::Closed(_)) => return, // the daemon stops
            }
        }
    }

    /// When an UPDATE was taken that an applied entry has, if it is measured. What became of a proposal of this replica is
    /// the next output after its entry.
    fn taken(&self, next: Option<&Output>) -> Option<Instant> {
        match next {
            Some(Output::Proposed {
                ticket,
                outcome: Outcome::Applied { .. },
            }) => self.proposals.get(ticket)?.taken,
            _ => None,
        }
    }

    fn dispatch(&mut self, output: Output, next: Option<&Output>) {
        match output {
            Output::Send {
                to,
                octets,
                snapshot,
            } => {
                let Some(outbound) = self.outbound.get(&to) else {
                    return;
                };
                if outbound
                    .try_send(transport::Outbound { octets, snapshot })
                    .is_err()
                {
                    // Full or gone. Raft sends again; it must only know.
                    self.replica.handle(Input::Unreachable(to));
                    if snapshot {
                        self.replica.handle(Input::SnapshotSent { to, ok: false });
                    }
                }
            }
            Output::Applied(applied) => {
                self.emitted = applied.index;
                if self.backlog.len() < BACKLOG_MAX {
                    let taken = self.taken(next);
                    self.backlog.push_back(Entry { applied, taken });
                    // Now, not after the answers to its proposers: to wake one takes longer than to write this.
                    self.hand_over();
                } else {
                    // Too far behind: it reads the state as it is now instead of how it came about.
                    self.backlog.clear();
                    let (index, term) = (applied.index, applied.term);
                    let changes = vec![Change::Reset];
                    let applied = Applied {
                        index,
                        term,
                        changes,
                    };
                    let taken = None;
                    self.backlog.push_back(Entry { applied, taken });
                }
            }
            Output::Proposed { ticket, outcome } => {
                if let Some(asker) = self.proposals.remove(&ticket) {
                    let _ = asker.reply.send(outcome);
                }
            }
            // The index itself may be of an entry that changes nothing, which nobody would ever see.
            Output::ReadReady { ticket, index: _ } => {
                if let Some(reply) = self.reads.remove(&ticket) {
                    let _ = reply.send(Some(self.emitted));
                }
            }
            Output::ReadFailed { ticket } => {
                if let Some(reply) = self.reads.remove(&ticket) {
                    let _ = reply.send(None);
                }
            }
            Output::Status(status) => {
                tracing::info!(role = ?status.role, term = status.term, leader = status.leader, "raft status");
            }
        }
    }
}

/// The store counts in ticks of this length.
const TICK: Duration = Duration::from_millis(50);
/// Enough for the batches in flight of 1,000 peers; whoever finds it full waits or comes again.
const COMMANDS_MAX: usize = 4096;
/// Entries that wait for the reflector, at most 256 KiB each; above it they are replaced by one reset.
const BACKLOG_MAX: usize = 256;
/// Beyond it there is no majority: the caller says so.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stopping leader waits for its successor.
const TRANSFER_TIMEOUT: Duration = Duration::from_millis(500);

#[cfg(test)]
pub(crate) mod tests;
