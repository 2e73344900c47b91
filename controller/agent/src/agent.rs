//! The agent without sockets, clock or kernel: requests and acknowledgements in; operations,
//! responses and errors out.
//!
//! ```text
//! ModifyRequest --> session, election --> jobs --> RIB --> FIB --> Program(operation)
//!                                         (one at a time)              |
//! ModifyResponse <-- results <----------------------------- Acknowledged(..)
//! ```
//!
//! One job at a time: an operation sees the RIB as its predecessors left it, its answer is about
//! its own changes in the kernel, and a change of primary takes effect between two operations.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use ipnet::IpNet;
use tonic::Code;
use weft_proto::agent::v1::ConditionType;
use weft_proto::gribi::aft_result::Status;
use weft_proto::gribi::{
    AftOperation, AftResult, FlushRequest, FlushResponse, ModifyRequest, ModifyResponse,
    flush_response, flush_response_error,
};

use self::counters::Counters;
use self::flush::Flushed;
use self::idle::Idle;
use self::last_change::LastChanges;
use self::rates::Rates;
use crate::conditions::Conditions;
use crate::election::{Acknowledge, Client, Election, ElectionId};
use crate::entry::{self, Key, PolicyKey};
use crate::fib::{Fib, Ids};
use crate::forwarding::{Interface, Observed, Operation, Pin, Pins};
use crate::marks::Counted;
use crate::openconfig::Snapshot;
use crate::refusal::Refusal;
use crate::rib::Rib;

mod answer;
mod counters;
mod flush;
mod idle;
mod last_change;
mod pins;
mod rates;
mod stream;

pub use self::rates::Rated;

/// What the agent must know from the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one network instance that the main routing table is called.
    pub network_instance: String,
    /// The range of next-hop ids in the kernel.
    pub ids: Ids,
    /// Orders for prefixes inside of these are taken, others are refused.
    pub prefixes: Vec<IpNet>,
    /// Whether marks have room for pins.
    pub pins: bool,
    /// Who programs the switch must speak this often; else everything is removed.
    pub lease: Duration,
    /// True if a `Flush` with override is accepted from every caller, not only from the address of the primary client.
    pub allow_override: bool,
}

/// The time of an input.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds since the Unix epoch, for results. The clock may jump.
    pub unix_ns: i64,
    /// Since the agent began, by a clock that does not jump.
    pub uptime: Duration,
}

/// Names a `Flush` call until it is answered.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What happens to the agent.
#[derive(Debug)]
pub enum Input {
    /// A `Modify` stream begins, from this address.
    Opened(Client, String),
    /// It says something.
    Request(Client, ModifyRequest),
    /// It is over; operations that have not begun are dropped.
    Closed(Client),
    /// A `Flush` call, from this address.
    Flush(Ticket, String, FlushRequest),
    /// Remove everything, as at the end of the agent.
    Clear,
    /// Remove everything, and end every stream with this error: nobody can program the switch now.
    Suspended(Refusal),
    /// Time has passed: a lease may be over.
    Tick,
    /// The switch as it is. Given only while no operation is out.
    Observed(Observed),
    /// The outcome of the operation that was given out last.
    Acknowledged(Result<(), String>),
    /// The packets of [`Output::Mark`] with this number are marked for pins from now on, or why they are not.
    Marked(u64, Result<(), String>),
    /// Packets and octets that were marked for each pin since the maps have it.
    Counted(Counted),
}

/// What the agent wants.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Make this change; answer with [`Input::Acknowledged`] before asking for more.
    Program(Operation),
    /// Mark these packets for pins, and no others; answer with [`Input::Marked`] and the number.
    Mark(u64, Pins),
    /// Send this.
    Respond(Client, ModifyResponse),
    /// End the stream with this error.
    End(Client, Refusal),
    /// Answer the call.
    Flushed(Ticket, Result<FlushResponse, Refusal>),
    /// The kernel refused a change that nobody asked for now.
    Unsettled(Operation, String),
}

/// The agent's state. One per switch.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    election: Election,
    rib: Rib,
    fib: Fib,
    jobs: VecDeque<Job>,
    current: Option<Current>,
    results: Vec<(Client, AftResult)>,
    /// Operations on pins that wait for the marks, one of a client on an entry.
    unmarked: BTreeMap<(Client, PolicyKey), Unmarked>,
    last_changes: LastChanges,
    idle: Idle,
    rates: Rates,
    outputs: VecDeque<Output>,
    conditions: Conditions,
    counters: Counters,
}

#[derive(Debug)]
enum Job {
    Operation(Client, Box<AftOperation>),
    Flush(Ticket, Flushed),
    Settle,
}

/// An operation on a policy forwarding entry that is answered in part: it is accepted.
#[derive(Debug)]
struct Unmarked {
    id: u64,
    deletes: bool,
    /// The number of the first marks that know of it.
    marks: Option<u64>,
}

/// The job whose changes are being made.
#[derive(Debug)]
struct Current {
    reply: Reply,
    /// The first one is out.
    operations: VecDeque<Operation>,
    error: Option<String>,
}

#[derive(Debug)]
enum Reply {
    Operation {
        client: Client,
        id: u64,
        key: Key,
        acknowledge: Acknowledge,
    },
    Flush(Ticket, flush_response::Result),
    Nobody,
}

impl Agent {
    /// An agent of a switch that nobody programs yet. What an earlier one left is removed: who
    /// programs it says again what it wants.
    #[must_use]
    pub fn new(config: Config, observed: Observed) -> Self {
        let rib = Rib::default();
        let mut fib = Fib::new(config.ids, config.pins);
        let last_changes = LastChanges::new(&observed.links);
        fib.observe(observed, &rib);
        let mut agent = Self {
            election: Election::new(config.lease),
            config,
            rib,
            fib,
            jobs: VecDeque::from([Job::Settle]),
            current: None,
            results: Vec::new(),
            unmarked: BTreeMap::new(),
            last_changes,
            idle: Idle::default(),
            rates: Rates::default(),
            outputs: VecDeque::new(),
            conditions: Conditions::default(),
            counters: Counters::default(),
        };
        agent.advance(Now::default());
        agent
    }

    /// Takes one input.
    pub fn handle(&mut self, input: Input, now: Now) {
        match input {
            Input::Opened(client, address) => self.election.open(client, address, now.uptime),
            Input::Request(client, request) => {
                self.election.receive(client, now.uptime);
                if let Err(refusal) = self.request(client, request, now) {
                    self.end(client, refusal);
                }
            }
            Input::Closed(client) => self.election.close(client),
            Input::Flush(ticket, address, request) => match self.may_flush(&address, &request, now)
            {
                Ok(what) => self.jobs.push_back(Job::Flush(ticket, what)),
                Err(refusal) => self
                    .outputs
                    .push_back(Output::Flushed(ticket, Err(refusal))),
            },
            Input::Clear => {
                self.rib_cleared();
                self.jobs.push_back(Job::Settle);
            }
            Input::Suspended(refusal) => {
                for client in self.election.clients() {
                    self.end(client, refusal.clone());
                }
                self.rib_cleared();
                self.jobs.push_back(Job::Settle);
            }
            Input::Tick => self.expire(now),
            Input::Observed(observed) => self.observe(observed, now),
            Input::Acknowledged(outcome) => self.acknowledged(outcome, now),
            Input::Marked(number, outcome) => self.marked(number, outcome, now),
            Input::Counted(counted) => {
                self.idle.count(&counted, now.uptime);
                self.rates.count(&counted, now.uptime);
            }
        }
        self.advance(now);
    }

    /// Something that is wrong with the switch, seen by who drives the agent.
    pub fn note(&mut self, kind: ConditionType, text: String, now: Now) {
        self.conditions.note(kind, text, now.uptime);
    }

    /// Forgets what was noted under this kind.
    pub fn mend(&mut self, kind: ConditionType) {
        self.conditions.mend(kind);
    }

    /// The next thing to do, until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The RIB.
    #[must_use]
    pub fn rib(&self) -> &Rib {
        &self.rib
    }

    /// The FIB.
    #[must_use]
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Who programs the switch.
    #[must_use]
    pub fn election(&self) -> &Election {
        &self.election
    }

    /// Pins that no packet was seen of for a minute after they were marked.
    pub fn idle_pins(&self, uptime: Duration) -> impl Iterator<Item = &Pin> {
        self.idle.pins(uptime)
    }

    /// Every pin whose packets the kernel counts, as it was counted last.
    pub fn counted_pins(&self, uptime: Duration) -> impl Iterator<Item = (&Pin, Rated)> {
        self.rates.pins(uptime)
    }

    /// What is wrong, as noted.
    #[must_use]
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// What the network instance is called.
    #[must_use]
    pub fn network_instance(&self) -> &str {
        &self.config.network_instance
    }

    /// How long an interface has been up; None: it is down, or it was up already when the agent started.
    #[must_use]
    pub fn up_for(&self, interface: &str, uptime: Duration) -> Option<Duration> {
        let since = self.last_changes.up_since(interface)?;
        Some(uptime.saturating_sub(since))
    }

    /// How the switch is, with interfaces that were read at this time.
    #[must_use]
    pub fn snapshot(&mut self, interfaces: Vec<Interface>, now: Now) -> Snapshot {
        // An interface that changed since the last look has its status and the time of it in one snapshot.
        self.last_changes.interfaces(&interfaces, now);
        let installed = self.fib.installed();
        Snapshot {
            unix_ns: now.unix_ns,
            network_instance: self.config.network_instance.clone(),
            interfaces,
            last_changes: self.last_changes.unix_ns(),
            ids: self.config.ids,
            next_hops: installed.next_hops.clone(),
            groups: installed.groups.clone(),
            routes: installed.routes.clone(),
        }
    }

    fn observe(&mut self, observed: Observed, now: Now) {
        let before = &self.fib.installed().rules;
        if let Some(family) = before.difference(&observed.installed.rules).next() {
            let text = format!("the {family:?} rule was gone and is put back");
            self.note(ConditionType::RuleRemoved, text, now);
        }
        if let Some(text) = self.counters.observe(&observed.links) {
            self.note(ConditionType::CountersWentBack, text, now);
        }
        self.last_changes.links(&observed.links, now);
        self.conditions.mend(ConditionType::KernelRefused);
        self.fib.observe(observed, &self.rib);
        self.jobs.push_back(Job::Settle);
    }

    /// Begins jobs until one has to wait for the kernel.
    fn advance(&mut self, now: Now) {
        loop {
            match &mut self.current {
                Some(current) if !current.operations.is_empty() => break,
                Some(_) => self.finish(now),
                None => match self.jobs.pop_front() {
                    Some(job) => self.begin(job, now),
                    None => break,
                },
            }
        }
        if self.current.is_none() {
            self.mark(now);
        }
        if self.current.is_none() || self.results.len() >= RESULTS_MAX {
            self.respond();
        }
    }

    fn begin(&mut self, job: Job, now: Now) {
        let reply = match job {
            Job::Operation(client, operation) => match self.operate(client, *operation, now) {
                Some(reply) => reply,
                None => return,
            },
            Job::Flush(ticket, what) => Reply::Flush(ticket, self.flush(&what)),
            Job::Settle => Reply::Nobody,
        };
        self.current = Some(Current {
            reply,
            operations: VecDeque::new(),
            error: None,
        });
        self.settle();
    }

    /// Brings one operation into the RIB. `None`: it is answered already.
    fn operate(&mut self, client: Client, operation: AftOperation, now: Now) -> Option<Reply> {
        let acknowledge = match self.election.acknowledge(client) {
            Ok(acknowledge) => acknowledge,
            Err(_gone) => return None,
        };
        if operation.network_instance.is_empty() {
            self.end(
                client,
                Refusal::invalid("the network instance of an operation is empty"),
            );
            return None;
        }
        let id = operation.id;
        match self.change(client, operation, now) {
            Ok(key) => Some(Reply::Operation {
                client,
                id,
                key,
                acknowledge,
            }),
            Err(text) => {
                self.answer(client, id, Status::Failed, Some(text), now.unix_ns);
                None
            }
        }
    }

    fn change(&mut self, client: Client, operation: AftOperation, now: Now) -> Result<Key, String> {
        let election = operation.election_id.as_ref().map(ElectionId::from);
        self.election.admit(client, election)?;
        let change = entry::read(operation, &self.config.network_instance)?;
        if let Err(text) = self.may_change(change.key()) {
            self.note(ConditionType::PrefixesRefused, text.clone(), now);
            return Err(text);
        }
        let key = self.rib.apply(change)?;
        self.fib.touch(key);
        Ok(key)
    }

    /// The switch's own command line says for which prefixes orders are taken. Pins have no route but to those.
    fn may_change(&self, key: Key) -> Result<(), String> {
        let Key::Prefix(prefix) = key else {
            return Ok(());
        };
        let allowed = &self.config.prefixes;
        if allowed.iter().any(|outer| outer.contains(&prefix)) {
            return Ok(());
        }
        let allowed: Vec<String> = allowed.iter().map(IpNet::to_string).collect();
        Err(format!(
            "{prefix} is outside of what this agent was started for: {}",
            allowed.join(", ")
        ))
    }

    fn settle(&mut self) {
        let operations = self.fib.settle(&self.rib);
        if let Some(current) = &mut self.current {
            current.operations.extend(operations);
            self.outputs
                .extend(current.operations.front().cloned().map(Output::Program));
        }
    }

    fn acknowledged(&mut self, outcome: Result<(), String>, now: Now) {
        let Some(current) = &mut self.current else {
            return;
        };
        let Some(operation) = current.operations.pop_front() else {
            return;
        };
        if let Err(error) = outcome {
            self.fib.failed(&operation, &self.rib);
            let kind = ConditionType::KernelRefused;
            self.conditions.note(kind, error.clone(), now.uptime);
            self.outputs
                .push_back(Output::Unsettled(operation, error.clone()));
            current.error.get_or_insert(error);
        }
        match current.operations.front() {
            Some(next) => self.outputs.push_back(Output::Program(next.clone())),
            // A refusal may have made more to do: groups go on without the refused next hop.
            None => self.settle(),
        }
    }

    fn finish(&mut self, now: Now) {
        let Some(current) = self.current.take() else {
            return;
        };
        match current.reply {
            Reply::Operation {
                client,
                id,
                key,
                acknowledge,
            } => {
                let (status, text) = self.outcome(key, acknowledge, current.error);
                if let (Key::Policy(policy), Acknowledge::RibAndFib, Status::RibProgrammed) =
                    (key, acknowledge, status)
                {
                    self.await_marks(client, id, policy, now);
                }
                self.answer(client, id, status, text, now.unix_ns);
            }
            Reply::Flush(ticket, flushed) => {
                let result = match current.error {
                    None => Ok(FlushResponse {
                        timestamp: now.unix_ns,
                        result: flushed.into(),
                    }),
                    Some(error) => {
                        let reason = flush_response_error::Reason::Unknown;
                        Err(Refusal::flush(Code::Internal, reason, &error))
                    }
                };
                self.outputs.push_back(Output::Flushed(ticket, result));
            }
            Reply::Nobody => {}
        }
    }

    fn end(&mut self, client: Client, refusal: Refusal) {
        // What was answered before the mistake is still told.
        self.respond();
        self.election.close(client);
        self.outputs.push_back(Output::End(client, refusal));
    }

    fn rib_cleared(&mut self) {
        for key in self.rib.keys() {
            self.fib.touch(key);
        }
        self.rib.clear();
    }
}

/// Results in one response: far below the 4 MiB that a gRPC client takes by default. More go into
/// the next one.
pub const RESULTS_MAX: usize = 4096;
