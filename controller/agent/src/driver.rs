//! The task that owns the agent and its forwarding plane: takes commands of the streams, reads the
//! clock, makes the changes, and looks at the switch again when something changed. Knows no gRPC
//! beyond the messages. One per daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ipnet::IpNet;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Code;
use weft_proto::agent::v1::{ConditionType, Status};
use weft_proto::gribi::{
    AftEntry, FlushRequest, FlushResponse, GetRequest, ModifyRequest, ModifyResponse,
};

use self::watchers::Watchers;
use crate::agent::{Agent, Config, Input, Now, Output, Ticket};
use crate::election::Client;
use crate::forwarding::Forwarding;
use crate::forwarding::kernel::Numbers;
use crate::guardian::Guardian;
use crate::marks::Marks;
use crate::refusal::{Detail, Refusal};

mod watchers;

/// What a stream or a call asks of the driver.
#[derive(Debug)]
pub enum Command {
    /// A `Modify` stream begins, from this address. Responses go where this says.
    Open(
        String,
        mpsc::Sender<Result<ModifyResponse, Refusal>>,
        oneshot::Sender<Result<Client, Refusal>>,
    ),
    /// A request of a stream; the sender is dropped when it has been answered.
    Request(Client, ModifyRequest, oneshot::Sender<()>),
    /// The stream is over.
    Close(Client),
    /// A `Get` call.
    Get(GetRequest, oneshot::Sender<Result<Vec<AftEntry>, Refusal>>),
    /// A `Flush` call.
    Flush(
        FlushRequest,
        oneshot::Sender<Result<FlushResponse, Refusal>>,
    ),
    /// Somebody wants the status, with these prefixes, from now on.
    Watch(BTreeSet<IpNet>, mpsc::Sender<Status>),
    /// A connection from this address was refused.
    Refused(IpAddr),
}

/// What makes a kernel's switch safe, and a recorded one does without.
#[derive(Debug)]
pub struct Safety {
    /// Marks the packets that the rule is for.
    pub marks: Marks,
    /// Takes the rule away when the agent is gone.
    pub guardian: Guardian,
}

/// Owns the agent.
pub struct Driver<F> {
    agent: Agent,
    forwarding: F,
    safety: Option<Safety>,
    numbers: Numbers,
    clients: BTreeMap<Client, mpsc::Sender<Result<ModifyResponse, Refusal>>>,
    flushes: BTreeMap<u64, oneshot::Sender<Result<FlushResponse, Refusal>>>,
    watchers: Watchers,
    opened: u64,
    flushed: u64,
    /// When packets could not be marked last.
    marks_failed: Option<Instant>,
    began: Instant,
    /// How far the clock of day was from the uptime when it was read last.
    began_unix_ns: i64,
}

impl<F: Forwarding> Driver<F> {
    /// Looks at the switch, and removes what an earlier agent left.
    ///
    /// # Errors
    ///
    /// When the switch can not be read.
    pub async fn start(config: Config, mut forwarding: F) -> Result<Self, String> {
        let observed = forwarding.observe().await?;
        let agent = Agent::new(config, observed);
        let mut driver = Self {
            agent,
            forwarding,
            safety: None,
            numbers: Numbers::default(),
            clients: BTreeMap::new(),
            flushes: BTreeMap::new(),
            watchers: Watchers::default(),
            opened: 0,
            flushed: 0,
            marks_failed: None,
            began: Instant::now(),
            began_unix_ns: unix_ns(),
        };
        driver.drain().await;
        Ok(driver)
    }

    /// With marks and a guardian, under these numbers.
    #[must_use]
    pub fn safe(mut self, safety: Safety, numbers: Numbers) -> Self {
        self.safety = Some(safety);
        self.numbers = numbers;
        self
    }

    /// Serves until `stop` completes or every sender of commands is gone. Stops between commands,
    /// never with a change half made.
    ///
    /// # Errors
    ///
    /// When the switch can not be read any more: an agent that does not see what FRR changes must
    /// not stay in force. Its guardian cleans up.
    pub async fn run(
        &mut self,
        mut commands: mpsc::Receiver<Command>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), String> {
        tokio::pin!(stop);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut beat = interval(BEAT_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let tell_at = self.watchers.next();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.serve(command).await,
                    None => return Ok(()),
                },
                () = self.forwarding.changed() => self.look().await?,
                _ = look.tick() => {
                    self.look().await?;
                    self.check().await;
                }
                _ = beat.tick() => self.beat().await,
                () = async {
                    match tell_at {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                } => self.tell(),
                () = &mut stop => return Ok(()),
            }
        }
    }

    /// Removes everything that the agent installed, the rules first.
    pub async fn clear(&mut self) {
        self.handle(Input::Clear).await;
        if let Some(Safety { marks, guardian }) = self.safety.take() {
            let mut marks = marks;
            marks.remove().await;
            guardian.end().await;
        }
    }

    async fn serve(&mut self, command: Command) {
        match command {
            Command::Open(address, responses, opened) => {
                self.open(address, responses, opened).await;
            }
            Command::Request(client, request, done) => {
                self.handle(Input::Request(client, request)).await;
                drop(done);
            }
            Command::Close(client) => {
                self.clients.remove(&client);
                self.handle(Input::Closed(client)).await;
            }
            // A caller that went away does not want the answer.
            Command::Get(request, reply) => drop(reply.send(self.agent.entries(&request))),
            Command::Flush(request, reply) => {
                self.flushed += 1;
                self.flushes.insert(self.flushed, reply);
                self.handle(Input::Flush(Ticket(self.flushed), request))
                    .await;
            }
            Command::Watch(prefixes, statuses) => {
                if self.watchers.add(prefixes, statuses) {
                    self.tell();
                }
            }
            Command::Refused(address) => {
                let text = format!("{address} is not a --controller address");
                self.note(ConditionType::CallersRefused, text);
            }
        }
    }

    async fn open(
        &mut self,
        address: String,
        responses: mpsc::Sender<Result<ModifyResponse, Refusal>>,
        opened: oneshot::Sender<Result<Client, Refusal>>,
    ) {
        if self.clients.len() >= CLIENTS_MAX {
            let (code, text) = (Code::ResourceExhausted, "too many Modify streams".into());
            drop(opened.send(Err(Refusal {
                code,
                text,
                detail: Detail::None,
            })));
            return;
        }
        self.opened += 1;
        let client = Client(self.opened);
        if opened.send(Ok(client)).is_ok() {
            self.clients.insert(client, responses);
            self.handle(Input::Opened(client, address)).await;
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let mut observed = self.forwarding.observe().await;
        if let Err(error) = &observed {
            tracing::warn!(%error, "could not read the state of the switch; once more");
            observed = self.forwarding.observe().await;
        }
        self.handle(Input::Observed(observed?)).await;
        Ok(())
    }

    /// The agent lives: its guardian hears so, marks are renewed, leases may be over.
    async fn beat(&mut self) {
        self.watch_clock();
        self.handle(Input::Tick).await;
        let Some(safety) = &mut self.safety else {
            return;
        };
        match safety.guardian.beat().await {
            Ok(false) => {}
            Ok(true) => {
                let text = "the guardian was gone and was started again".to_owned();
                tracing::warn!("{text}");
                self.note(ConditionType::GuardianLost, text);
            }
            Err(error) => {
                tracing::error!(%error, "no guardian; everything goes until there is one");
                self.note(ConditionType::GuardianLost, error);
                self.handle(Input::Clear).await;
            }
        }
        self.mark().await;
    }

    /// Packets are marked while there is a rule for them.
    async fn mark(&mut self) {
        let Some(Safety { marks, .. }) = &mut self.safety else {
            return;
        };
        if self.agent.fib().installed().rules.is_empty() {
            self.marks_failed = None;
            if marks.are_on() {
                marks.remove().await;
            }
            self.agent.mend(ConditionType::MarksUnavailable);
            return;
        }
        let waits = |at: Instant| at.elapsed() < LOOK_EVERY;
        if self.marks_failed.is_some_and(waits) {
            return;
        }
        let outcome = marks.renew(self.agent.fib().links()).await;
        self.marks_failed = outcome.is_err().then(Instant::now);
        self.marked(outcome);
    }

    async fn check(&mut self) {
        if let Some(Safety { marks, .. }) = &mut self.safety {
            let outcome = marks.check().await;
            if marks.are_on() || outcome.is_err() {
                self.marked(outcome);
            }
        }
    }

    fn marked(&mut self, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.agent.mend(ConditionType::MarksUnavailable),
            Err(error) => {
                let text = format!("packets are not marked, FRR alone routes them: {error}");
                self.note(ConditionType::MarksUnavailable, text);
            }
        }
    }

    /// Leases and renewals run on a clock that does not jump; that of day is for results only.
    fn watch_clock(&mut self) {
        let expected = self.began_unix_ns + nanos(self.began.elapsed());
        let now = unix_ns();
        let off = now - expected;
        if off.unsigned_abs() > JUMP_MIN.as_nanos().try_into().unwrap_or(u64::MAX) {
            self.began_unix_ns += off;
            let text = format!("the clock of day jumped by {} ms", off / 1_000_000);
            self.note(ConditionType::ClockJumped, text);
        }
    }

    fn note(&mut self, kind: ConditionType, text: String) {
        self.agent.note(kind, text, self.now());
        self.watchers.changed();
    }

    fn tell(&mut self) {
        let (agent, numbers, uptime) = (&self.agent, self.numbers, self.began.elapsed());
        self.watchers.tell(self.began + uptime, |asked| {
            crate::status::status(agent, numbers, asked, uptime)
        });
    }

    fn now(&self) -> Now {
        Now {
            unix_ns: unix_ns(),
            uptime: self.began.elapsed(),
        }
    }

    async fn handle(&mut self, input: Input) {
        let tells = !matches!(input, Input::Tick);
        self.agent.handle(input, self.now());
        self.drain().await;
        if tells {
            self.watchers.changed();
        }
    }

    async fn drain(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.forwarding.apply(&operation).await;
                    tracing::debug!(?operation, ?outcome, "programmed");
                    self.agent.handle(Input::Acknowledged(outcome), self.now());
                }
                Output::Respond(client, response) => self.send(client, Ok(response)),
                Output::End(client, refusal) => {
                    tracing::warn!(client = client.0, error = %refusal, "stream ended");
                    self.send(client, Err(refusal));
                    self.clients.remove(&client);
                }
                Output::Flushed(ticket, result) => {
                    if let Some(reply) = self.flushes.remove(&ticket.0) {
                        tracing::info!(ok = result.is_ok(), "flush");
                        drop(reply.send(result));
                    }
                }
                Output::Unsettled(operation, error) => {
                    tracing::warn!(?operation, %error, "the switch refused a change");
                }
            }
        }
    }

    /// A stream reserves room for all answers before it passes a request on, so a full queue is a
    /// mistake of ours; the stream ends then, and the client finds out by `Get` what happened.
    fn send(&mut self, client: Client, response: Result<ModifyResponse, Refusal>) {
        if let Some(responses) = self.clients.get(&client)
            && responses.try_send(response).is_err()
        {
            self.clients.remove(&client);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an edge file: time stamps of results"
)]
fn unix_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    nanos(since)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// How long a change that no event told of (another hand in the agent's objects) may last.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often the guardian hears of the agent and marks are renewed, which last a second: two may fail.
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// What a clock is off after a step, and not by its slewing.
const JUMP_MIN: Duration = Duration::from_secs(2);

/// `Modify` streams at one time: far above any number of controllers. One more is refused.
const CLIENTS_MAX: usize = 64;
