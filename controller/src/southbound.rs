//! How plans reach switches: one stream to each switch, at the leader alone, and what weft-agent says of its switch.
//!
//! ```text
//! Southbound (1x per daemon)
//!   lead / yield_ / set_intent --> watch --> Device   (1x per switch while leading) --> gRIBI stream
//!                                       \-> Observer (1x per switch while leading) --> WatchStatus
//!                   <-- watch: AgentStatus, agent.v1.Status --
//! ```
//!
//! It refuses to know why a weight is what it is, and to write for a leader that is not the leader any more: every
//! operation carries the election id, which a switch compares itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use weft_telemetry::connect_tcp;

use self::access::{Access, Dialer};
use self::answers::Answers;
use self::counters::Reached;
use self::gribi::{Counted, Device, Wanted};
use self::intent::{Mode, SwitchIntent};
use self::observe::{Changes, Observer};
use crate::config::Credentials;
use crate::daemon::supervision::supervised;
use crate::fabric::topology::SwitchName;

pub use self::observe::{Heard, Prefixes, Said};
pub use self::status::{AgentState, AgentStatus};
pub use weft_telemetry::{Connect, Connecting};

pub mod access;
pub mod answers;
pub mod counters;
mod gribi;
pub mod intent;
pub mod link_bandwidth;
mod observe;
pub mod reconcile;
mod status;
mod undecoded;

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
    /// How a switch that is declared without TLS is connected to.
    connect: Connect,
    /// What the others are reached with.
    credentials: Arc<Credentials>,
    election: Option<Election>,
    revision: u64,
    intents: BTreeMap<SwitchName, SwitchIntent>,
    /// Switches without an intent that may still have something of ours, by the address of their gRIBI server.
    leaving: BTreeMap<Arc<str>, Leaving>,
    /// Switches that were on since they were last known to be empty, whoever programmed them.
    touched: BTreeSet<Arc<str>>,
    /// By the address of the gRIBI server.
    running: BTreeMap<Arc<str>, Running>,
    answers: Answers,
    changes: Changes,
}

/// A switch without an intent.
struct Leaving {
    switch: SwitchName,
    tls: bool,
}

/// The tasks of a switch.
struct Running {
    switch: SwitchName,
    access: Access,
    dialer: Dialer,
    wanted: watch::Sender<Wanted>,
    status: watch::Receiver<AgentStatus>,
    observed: watch::Receiver<Heard>,
    tasks: [JoinHandle<()>; 2],
}

impl Running {
    fn status(&self) -> AgentStatus {
        let wanted = self.wanted.borrow();
        AgentStatus {
            mode: wanted.mode,
            intended_revision: wanted.revision,
            ..self.status.borrow().clone()
        }
    }

    /// Whether the switch has nothing of ours, and is to have nothing.
    fn is_empty(&self) -> bool {
        let resting = [AgentState::Off, AgentState::Shadow];
        self.wanted.borrow().mode != Mode::On && resting.contains(&self.status.borrow().state)
    }

    fn want(&self, wanted: Wanted) {
        self.wanted.send_if_modified(|current| {
            let changed = *current != wanted;
            *current = wanted;
            changed
        });
    }
}

impl Drop for Running {
    /// The streams close with the tasks. What the switch still does of it, it does under the old election id.
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Default for Southbound {
    fn default() -> Self {
        Self::new()
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
            credentials: Arc::default(),
            election: None,
            revision: 0,
            intents: BTreeMap::new(),
            leaving: BTreeMap::new(),
            touched: BTreeSet::new(),
            running: BTreeMap::new(),
            answers: Answers::new(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    /// What switches that are declared with TLS are reached with from now on. If it is not what it was, their connections
    /// begin anew.
    pub fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        if self.credentials != credentials {
            self.credentials = credentials;
            self.align();
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
            self.align();
        } else if self.is_emptying() {
            self.align();
        }
    }

    /// Whether some switch is to be let go of once it is empty.
    fn is_emptying(&self) -> bool {
        let intents = self.intents.values();
        let mut resting = intents.filter(|intent| intent.mode != Mode::On);
        !self.leaving.is_empty() || resting.any(|intent| self.touched.contains(&intent.agent))
    }

    /// This replica does not lead any more: all streams are closed, nothing more is sent.
    pub fn yield_(&mut self) {
        if let Some(election) = self.election.take() {
            tracing::info!(%election, "not programming switches any more");
        }
        self.running.clear();
    }

    /// What every switch should have from now on. Kept while not leading. Only differences are sent. A switch that is
    /// not in it any more is emptied, and listed until it says that it is empty.
    pub fn set_intent(&mut self, intents: BTreeMap<SwitchName, SwitchIntent>, revision: u64) {
        let before = std::mem::replace(&mut self.intents, intents);
        self.revision = revision;
        for (switch, intent) in before {
            if intent.mode != Mode::Shadow || self.touched.contains(&intent.agent) {
                let tls = intent.tls;
                self.leaving.insert(intent.agent, Leaving { switch, tls });
            }
        }
        for intent in self.intents.values() {
            self.leaving.remove(&intent.agent);
            if intent.mode == Mode::On {
                self.touched.insert(intent.agent.clone());
            }
        }
        while self.leaving.len() > LEAVING_MAX
            && let Some((agent, Leaving { switch, .. })) = self.leaving.pop_first()
        {
            tracing::warn!(%agent, %switch, "too many switches left; this one is not emptied");
        }
        let intended: BTreeSet<&Arc<str>> =
            self.intents.values().map(|intent| &intent.agent).collect();
        let leaving = &self.leaving;
        self.touched
            .retain(|agent| intended.contains(agent) || leaving.contains_key(agent));
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

    /// What is heard of the weft-agent of a switch: nothing if the mode is off, or while this replica does not lead.
    pub fn observed(&self, switch: &SwitchName) -> Heard {
        let intent = self.intents.get(switch);
        let running = intent.and_then(|intent| self.running.get(&intent.agent));
        running.map_or(Heard::Silent, |running| running.observed.borrow().clone())
    }

    /// How the weft-agents of switches that are programmed are asked what they count; none while this replica does not lead.
    pub fn reached(&self) -> BTreeMap<SwitchName, Reached> {
        let Ok(runtime) = Handle::try_current() else {
            return BTreeMap::new();
        };
        let intents = self.intents.iter();
        let on = intents.filter(|(_, intent)| intent.mode == Mode::On);
        let reached = on.filter_map(|(switch, intent)| {
            let dialer = self.running.get(&intent.agent)?.dialer.clone();
            let reached = Reached::new(intent.agent.clone(), dialer, runtime.clone());
            Some((switch.clone(), reached))
        });
        reached.collect()
    }

    /// Changes whenever [`observed`](Self::observed) changes for a switch in more than counters.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The state of every switch that has an intent, and of those that are being emptied, in order of their names.
    pub fn statuses(&self) -> Vec<AgentStatus> {
        let intended = self.intents.iter().map(|(switch, intent)| {
            let running = self.running.get(&intent.agent);
            running.map_or_else(|| self.standby(switch, intent), Running::status)
        });
        let leaving = self.leaving.keys();
        let leaving = leaving.filter_map(|agent| Some(self.running.get(agent)?.status()));
        let leaving = leaving.filter(|status| status.state != AgentState::Off);
        let mut statuses: Vec<_> = intended.chain(leaving).collect();
        statuses.sort_by(|one, other| one.switch.cmp(&other.switch));
        statuses
    }

    fn standby(&self, switch: &SwitchName, intent: &SwitchIntent) -> AgentStatus {
        let (switch, agent) = (switch.clone(), intent.agent.clone());
        AgentStatus {
            intended_revision: self.revision,
            ..AgentStatus::new(switch, agent, intent.mode, AgentState::Standby)
        }
    }

    /// Starts, tells and stops tasks so that they match the intents.
    fn align(&mut self) {
        if self.election.is_none() {
            return;
        }
        let empty = |agent: &Arc<str>| {
            let running = self.running.get(agent);
            running.is_some_and(Running::is_empty)
        };
        self.touched.retain(|agent| !empty(agent));
        self.leaving.retain(|agent, _| !empty(agent));
        let revision = self.revision;
        let intended = self.intents.iter().map(|(switch, intent)| {
            let wanted = Wanted {
                revision,
                mode: intent.mode,
                hold: intent.hold,
                routes: intent.routes.clone(),
                flows: intent.flows.clone(),
            };
            (intent.agent.clone(), (switch.clone(), intent.tls, wanted))
        });
        let leaving = self.leaving.iter().map(|(agent, leaving)| {
            let wanted = Wanted {
                revision,
                mode: Mode::Off,
                hold: false,
                routes: Arc::default(),
                flows: Arc::default(),
            };
            (agent.clone(), (leaving.switch.clone(), leaving.tls, wanted))
        });
        let wanted: BTreeMap<_, _> = intended.chain(leaving).collect();
        self.running.retain(|agent, running| {
            wanted.get(agent).is_some_and(|(switch, tls, _)| {
                let access = Access::new(*tls, &self.credentials);
                (switch, &access) == (&running.switch, &running.access)
            })
        });
        for (agent, (switch, tls, wanted)) in wanted {
            match self.running.get(&agent) {
                Some(running) => running.want(wanted),
                None => self.start(agent, switch, tls, wanted),
            }
        }
    }

    fn start(&mut self, agent: Arc<str>, switch: SwitchName, tls: bool, wanted: Wanted) {
        let Some(election) = self.election else {
            return;
        };
        let state = AgentState::Connecting;
        let status = AgentStatus::new(switch.clone(), agent.clone(), wanted.mode, state);
        let (status_out, status) = watch::channel(status);
        let (latest, observed) = watch::channel(Heard::Silent);
        let (wanted, wanted_in) = watch::channel(wanted);
        let counted = Counted {
            switch: switch.clone(),
            answers: self.answers.clone(),
        };
        let access = Access::new(tls, &self.credentials);
        let dialer = access.dialer(&self.connect);
        // An event may change the prefixes of all agents, and a new leader asks all at once: each gets a delay of its own.
        let apart = |agents: usize| PREFIXES_APART * u32::try_from(agents).unwrap_or(u32::MAX);
        let (all, own) = (apart(self.intents.len()), apart(self.running.len()));
        let observer = Observer {
            agent: agent.clone(),
            dialer: dialer.clone(),
            wanted: wanted_in.clone(),
            latest,
            changes: self.changes.clone(),
            prefixes_after: all + own,
            first_prefixes_after: match all <= FIRST_PREFIXES {
                true => Duration::ZERO,
                false => FIRST_PREFIXES + own,
            },
            counted: counted.clone(),
        };
        let touched = self.touched.contains(&agent);
        let device = Device::new(
            agent.clone(),
            dialer.clone(),
            election,
            wanted_in,
            status_out,
            counted,
            touched,
        );
        let running = Running {
            switch,
            access,
            dialer,
            wanted,
            status,
            observed,
            tasks: [
                tokio::spawn(supervised("gRIBI client", device.run())),
                tokio::spawn(supervised("agent observer", observer.run())),
            ],
        };
        self.running.insert(agent, running);
    }
}

/// Switches that left and are not known to be empty: those of a whole fabric that is declared anew. One more, and the
/// first of them is left with what it has.
const LEAVING_MAX: usize = 1_024;
/// Between two agents that say which prefixes they have, where all of them change at once: an event may change one of every
/// leaf, and of 512 leaves they have 4 million next hops.
const PREFIXES_APART: Duration = Duration::from_millis(50);
/// Where all agents together need longer than this for their prefixes, they send the first ones only so long after a new leader
/// asks.
const FIRST_PREFIXES: Duration = Duration::from_secs(2);
