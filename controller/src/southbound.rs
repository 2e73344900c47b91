//! How plans reach switches: one stream to each switch, at the leader alone.
//!
//! ```text
//! Southbound (1x per daemon)
//!   lead / yield_ / set_intent --> watch --> task (1x per switch while leading) --> gRIBI stream
//!                             <-- watch: AgentStatus --
//! ```
//!
//! It refuses to know why a weight is what it is, and to write for a leader that is not the leader any more: every
//! operation carries the election id, which a switch compares itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_proto::operator::v1;

use self::answers::Answers;
use self::gribi::{Counted, Device, Wanted, connect_tcp};
use self::intent::SwitchIntent;
use crate::fabric::topology::SwitchName;

pub use self::gribi::{Connect, Connecting};

pub mod answers;
mod gribi;
pub mod intent;
pub mod reconcile;

/// Who may write to the switches; the greatest wins. Raft gives a term to one leader at most, so an election names at
/// most one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Election {
    /// Raised when an operator creates or restores the cluster anew; above 0.
    pub incarnation: u64,
    /// The Raft term of the leader; above 0.
    pub term: u64,
}

impl fmt::Display for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "incarnation {} term {}", self.incarnation, self.term)
    }
}

/// What a switch should have, to all switches that weft programs. Its methods are called inside a tokio runtime.
pub struct Southbound {
    connect: Connect,
    election: Option<Election>,
    revision: u64,
    intents: BTreeMap<SwitchName, SwitchIntent>,
    running: BTreeMap<SwitchName, Running>,
    answers: Answers,
}

/// The task of a switch.
struct Running {
    agent: Arc<str>,
    wanted: watch::Sender<Wanted>,
    status: watch::Receiver<AgentStatus>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(
        switch: &SwitchName,
        agent: Arc<str>,
        connect: Connect,
        election: Election,
        wanted: Wanted,
        answers: Answers,
    ) -> Self {
        let status = AgentStatus {
            intended_revision: wanted.revision,
            ..AgentStatus::new(switch.clone(), agent.clone(), AgentState::Connecting)
        };
        let (status_out, status) = watch::channel(status);
        let (wanted, wanted_in) = watch::channel(wanted);
        let counted = Counted {
            switch: switch.clone(),
            answers,
        };
        let device = Device::new(
            agent.clone(),
            connect,
            election,
            wanted_in,
            status_out,
            counted,
        );
        Self {
            agent,
            wanted,
            status,
            task: tokio::spawn(device.run()),
        }
    }
}

impl Default for Southbound {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Running {
    /// The stream closes with the task. What the switch still does of it, it does under the old election id.
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Southbound {
    /// Not leading, nothing intended. Switches are reached over TCP.
    pub fn new() -> Self {
        Self::over(Arc::new(connect_tcp))
    }

    /// The same, with another way to reach a switch.
    pub fn over(connect: Connect) -> Self {
        Self {
            connect,
            election: None,
            revision: 0,
            intents: BTreeMap::new(),
            running: BTreeMap::new(),
            answers: Answers::new(),
        }
    }

    /// This replica leads: connect to every switch under this election id, read what it has, send the difference.
    /// To be called only after an entry of the own term was applied. Calling it again with the same election changes
    /// nothing; with another one all streams are opened anew.
    pub fn lead(&mut self, election: Election) {
        if self.election != Some(election) {
            tracing::info!(%election, "programming switches");
            self.running.clear();
            self.election = Some(election);
        }
        self.align();
    }

    /// This replica does not lead any more: all streams are closed, nothing more is sent.
    pub fn yield_(&mut self) {
        if let Some(election) = self.election.take() {
            tracing::info!(%election, "not programming switches any more");
        }
        self.running.clear();
    }

    /// What every switch should have from now on. Kept while not leading. Only differences are sent. A switch that is
    /// not in it any more is left alone, with what it has.
    pub fn set_intent(&mut self, intents: BTreeMap<SwitchName, SwitchIntent>, revision: u64) {
        self.intents = intents;
        self.revision = revision;
        self.align();
    }

    /// The election under which this replica writes; None while it does not lead.
    pub fn election(&self) -> Option<Election> {
        self.election
    }

    /// What all switches answered so far; goes on counting.
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// The state of every switch that has an intent, in order of its name.
    pub fn statuses(&self) -> Vec<AgentStatus> {
        self.intents
            .iter()
            .map(|(switch, intent)| match self.running.get(switch) {
                Some(running) => running.status.borrow().clone(),
                None => AgentStatus {
                    intended_revision: self.revision,
                    ..AgentStatus::new(switch.clone(), intent.agent.clone(), AgentState::Standby)
                },
            })
            .collect()
    }

    /// Starts, tells and stops tasks so that they match the intents.
    fn align(&mut self) {
        let Some(election) = self.election else {
            return;
        };
        let intents = &self.intents;
        self.running.retain(|switch, running| {
            let intent = intents.get(switch);
            intent.is_some_and(|intent| intent.agent == running.agent)
        });
        for (switch, intent) in intents {
            let wanted = Wanted {
                revision: self.revision,
                tables: intent.tables.clone(),
            };
            match self.running.get(switch) {
                Some(running) => {
                    running.wanted.send_if_modified(|current| {
                        let changed = *current != wanted;
                        *current = wanted;
                        changed
                    });
                }
                None => {
                    let connect = self.connect.clone();
                    let agent = intent.agent.clone();
                    let answers = self.answers.clone();
                    let running = Running::start(switch, agent, connect, election, wanted, answers);
                    self.running.insert(switch.clone(), running);
                }
            }
        }
    }
}

/// What is known of the stream to a switch.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    /// The switch.
    pub switch: SwitchName,
    /// `host:port` of its gRIBI server.
    pub address: Arc<str>,
    /// Where the stream stands.
    pub state: AgentState,
    /// The revision of the plan that it should have.
    pub intended_revision: u64,
    /// The revision of the last plan that it acknowledged as a whole, or needed nothing for; 0 for none by this leader.
    pub installed_revision: u64,
    /// Entries installed: next hops, groups and prefixes.
    pub entries: usize,
    /// Operations not acknowledged by the forwarding plane yet.
    pub pending: usize,
    /// Operations that failed in the last run.
    pub failed: usize,
    /// Why the stream ended, or what failed; empty if nothing did since it was in sync.
    pub last_error: String,
    /// When an operation was last acknowledged.
    pub last_ack: Option<Instant>,
}

impl AgentStatus {
    fn new(switch: SwitchName, address: Arc<str>, state: AgentState) -> Self {
        Self {
            switch,
            address,
            state,
            intended_revision: 0,
            installed_revision: 0,
            entries: 0,
            pending: 0,
            failed: 0,
            last_error: String::new(),
            last_ack: None,
        }
    }

    /// As the operator's API shows it at `now`.
    pub fn to_message(&self, now: Instant) -> v1::Agent {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        v1::Agent {
            switch: self.switch.to_string(),
            address: self.address.to_string(),
            state: self.state.as_str().to_owned(),
            intended_revision: self.intended_revision,
            installed_revision: self.installed_revision,
            entries: count(self.entries),
            pending: count(self.pending),
            failed: count(self.failed),
            last_error: self.last_error.clone(),
            last_ack_secs: self
                .last_ack
                .map_or(-1.0, |at| now.saturating_duration_since(at).as_secs_f64()),
        }
    }
}

/// Where the stream to a switch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Opening the connection and the session.
    Connecting,
    /// Reading what is installed, or sending the difference, or waiting to try again what failed.
    Synchronizing,
    /// The switch acknowledged everything.
    InSync,
    /// No session; another attempt follows after 1 to 30 seconds.
    Unreachable,
    /// The switch knows a later term of this cluster: this replica stopped and waits to lead again.
    Deposed,
    /// The switch obeys another incarnation or another controller. An operator has to decide; nothing is sent.
    ForeignController,
    /// This replica does not lead.
    Standby,
}

impl AgentState {
    /// The word of the operator's API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Synchronizing => "synchronizing",
            Self::InSync => "in-sync",
            Self::Unreachable => "unreachable",
            Self::Deposed => "deposed",
            Self::ForeignController => "foreign-controller",
            Self::Standby => "standby",
        }
    }
}
