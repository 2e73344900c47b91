//! The task that owns the agent and its forwarding plane: takes commands of the streams, reads the
//! clock, makes the changes, and looks at the switch again when something changed. Waits for nobody
//! but the kernel, so that nothing delays what FRR changes. Knows no gRPC beyond the messages. One per
//! daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Code;
use weft_proto::agent::v1::{ConditionType, PinCounter, Status};
use weft_proto::gribi::{
    AftEntry, AftOperation, FlushRequest, FlushResponse, GetRequest, ModifyRequest, ModifyResponse,
};

use self::clock::Clock;
use self::watchers::Watchers;
use crate::agent::{Agent, Config, Input, Output, Ticket};
use crate::election::Client;
use crate::forwarding::Forwarding;
use crate::forwarding::kernel::Numbers;
use crate::guardian::{self, Guardian};
use crate::listener::Refused;
use crate::marks::{self, Marks};
use crate::openconfig::Snapshot;
use crate::refusal::{Detail, Refusal};
use crate::status::Asked;

pub mod clock;
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
    /// A `Flush` call, from this address.
    Flush(
        String,
        FlushRequest,
        oneshot::Sender<Result<FlushResponse, Refusal>>,
    ),
    /// Somebody wants the status from now on.
    Watch(Asked, mpsc::Sender<Status>),
    /// Somebody wants to know what was counted of each pin.
    Pins(oneshot::Sender<Vec<PinCounter>>),
    /// gNMI wants to know how the switch is, or why that cannot be read.
    Snapshot(oneshot::Sender<Result<Snapshot, String>>),
    /// A connection was closed at once.
    Refused(Refused),
}

/// What makes a kernel's switch safe, and a recorded one does without.
#[derive(Debug)]
pub struct Safety {
    /// Marks the packets that the rule is for.
    pub marks: Marks,
    /// Takes the rule away when the agent is gone.
    pub guardian: Guardian,
}

/// The operations of a request that are still to be done.
struct Pending {
    client: Client,
    operations: std::vec::IntoIter<AftOperation>,
    part: usize,
    /// Dropped when all are done.
    _done: oneshot::Sender<()>,
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
    /// Counts what may have changed, for streams of gNMI.
    changes: watch::Sender<u64>,
    opened: u64,
    flushed: u64,
    /// A large request, of which a part is done.
    pending: Option<Pending>,
    /// Why nobody can program the switch now.
    unguarded: Option<String>,
    clock: Clock,
    /// When the last heartbeat was sent, as an uptime.
    beat_at: Duration,
    /// Uptime at which it was last noticed, in the middle of something long, whether something changed.
    watched_at: Duration,
    /// Uptime at which something changed that was not looked at yet.
    behind: Option<Duration>,
    /// Lines of the log that were dropped, as of the last heartbeat.
    lines_dropped: u64,
}

impl<F: Forwarding> Driver<F> {
    /// Looks at the switch, and removes what an earlier agent left.
    ///
    /// # Errors
    ///
    /// When the switch can not be read.
    pub async fn start(config: Config, forwarding: F) -> Result<Self, String> {
        Self::start_by(Clock::system(), config, forwarding).await
    }

    /// [`start`](Self::start) with these clocks.
    ///
    /// # Errors
    ///
    /// When the switch can not be read.
    pub async fn start_by(clock: Clock, config: Config, mut forwarding: F) -> Result<Self, String> {
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
            changes: watch::Sender::new(0),
            opened: 0,
            flushed: 0,
            pending: None,
            unguarded: None,
            clock,
            beat_at: Duration::ZERO,
            watched_at: Duration::ZERO,
            behind: None,
            lines_dropped: 0,
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

    /// A number that is another one when something may have changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
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
                () = std::future::ready(()), if self.pending.is_some() => self.go_on().await,
                command = commands.recv(), if self.pending.is_none() => match command {
                    Some(command) => self.serve(command).await,
                    None => return Ok(()),
                },
                () = std::future::ready(()), if self.behind.is_some() => self.look().await?,
                () = self.forwarding.changed() => {
                    // Who reads meanwhile waits for the look, and is not answered by what was before.
                    self.changed();
                    self.look().await?;
                }
                _ = look.tick() => self.look().await?,
                _ = beat.tick() => self.beat().await,
                pinned = pinned(&mut self.safety) => self.pinned(pinned).await,
                () = async {
                    match tell_at {
                        Some(at) => tokio::time::sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                } => self.tell(),
                () = &mut stop => return Ok(()),
            }
            // The tasks that send heartbeats and renew the marks have their turn.
            tokio::task::yield_now().await;
        }
    }

    /// Removes everything that the agent installed, the rules first.
    pub async fn clear(&mut self) {
        self.handle(Input::Clear).await;
        if let Some(Safety { marks, guardian }) = self.safety.take() {
            marks.end().await;
            guardian.end().await;
        }
    }

    async fn serve(&mut self, command: Command) {
        match command {
            Command::Open(address, responses, opened) => {
                self.open(address, responses, opened).await;
            }
            Command::Request(client, request, done) => self.request(client, request, done).await,
            Command::Close(client) => {
                self.clients.remove(&client);
                self.handle(Input::Closed(client)).await;
            }
            // A caller that went away does not want the answer.
            Command::Get(request, reply) => drop(reply.send(self.agent.entries(&request))),
            Command::Flush(address, request, reply) => {
                self.flushed += 1;
                self.flushes.insert(self.flushed, reply);
                self.handle(Input::Flush(Ticket(self.flushed), address, request))
                    .await;
            }
            Command::Watch(asked, statuses) => {
                let now = self.clock.instant(self.clock.uptime());
                if self.watchers.add(asked, statuses, now) {
                    self.tell();
                }
            }
            Command::Pins(reply) => {
                let uptime = self.clock.uptime();
                drop(reply.send(crate::status::pins(&self.agent, uptime)));
            }
            // A caller that went away does not want the answer.
            Command::Snapshot(reply) => drop(reply.send(self.snapshot().await)),
            Command::Refused(Refused::Address(address)) => {
                let text = format!("{address} is not a --controller address");
                self.note(ConditionType::CallersRefused, text);
            }
            Command::Refused(Refused::Exceeded(address)) => {
                let text = format!("{address} was refused: too many connections");
                self.note(ConditionType::ConnectionsExceeded, text);
            }
        }
    }

    /// Serves a request. A large one is served a part at a time, so that neither what FRR changes nor the
    /// next heartbeat waits for the end of it.
    async fn request(
        &mut self,
        client: Client,
        mut request: ModifyRequest,
        done: oneshot::Sender<()>,
    ) {
        let operations = request.operation.len();
        let is_alone = request.params.is_none() && request.election_id.is_none();
        if operations <= PART_MIN || !is_alone {
            self.handle(Input::Request(client, request)).await;
            return;
        }
        self.pending = Some(Pending {
            client,
            operations: std::mem::take(&mut request.operation).into_iter(),
            part: PART_MIN.max(operations.div_ceil(PARTS_MAX)),
            _done: done,
        });
    }

    /// Serves the next part of a large request.
    async fn go_on(&mut self) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        let operation: Vec<_> = pending.operations.by_ref().take(pending.part).collect();
        if operation.is_empty() {
            self.pending = None;
            return;
        }
        let client = pending.client;
        let request = ModifyRequest {
            operation,
            ..ModifyRequest::default()
        };
        self.handle(Input::Request(client, request)).await;
    }

    async fn open(
        &mut self,
        address: String,
        responses: mpsc::Sender<Result<ModifyResponse, Refusal>>,
        opened: oneshot::Sender<Result<Client, Refusal>>,
    ) {
        if let Some(refusal) = self.refuses() {
            drop(opened.send(Err(refusal)));
            return;
        }
        self.opened += 1;
        let client = Client(self.opened);
        if opened.send(Ok(client)).is_ok() {
            self.clients.insert(client, responses);
            self.handle(Input::Opened(client, address)).await;
        }
    }

    /// Why no stream can be opened now.
    fn refuses(&self) -> Option<Refusal> {
        let (code, text) = match &self.unguarded {
            Some(why) => (Code::Unavailable, unguarded(why)),
            None if self.clients.len() >= CLIENTS_MAX => {
                (Code::ResourceExhausted, "too many Modify streams".into())
            }
            None => return None,
        };
        let detail = Detail::None;
        Some(Refusal { code, text, detail })
    }

    async fn snapshot(&mut self) -> Result<Snapshot, String> {
        let interfaces = self.forwarding.interfaces().await?;
        Ok(self.agent.snapshot(interfaces, self.clock.now()))
    }

    async fn look(&mut self) -> Result<(), String> {
        self.behind = None;
        let mut observed = self.forwarding.observe().await;
        if let Err(error) = &observed {
            tracing::warn!(%error, "could not read the state of the switch; once more");
            observed = self.forwarding.observe().await;
        }
        self.alive().await;
        self.handle(Input::Observed(observed?)).await;
        self.alive().await;
        Ok(())
    }

    /// Sends a heartbeat in the middle of something long, if it is due. Not for an agent that is behind what FRR
    /// changed: its guardian takes over.
    async fn alive(&mut self) {
        let uptime = self.clock.uptime();
        if self
            .behind
            .is_some_and(|at| uptime.saturating_sub(at) >= BEHIND_MAX)
        {
            return;
        }
        if uptime.saturating_sub(self.beat_at) >= BEAT_EVERY {
            self.heartbeat();
            tokio::task::yield_now().await;
        }
    }

    /// Notices a change in the middle of something long; it is looked at after that.
    async fn watch(&mut self) {
        let changed = tokio::select! {
            biased;
            () = self.forwarding.changed() => true,
            () = std::future::ready(()) => false,
        };
        if changed && self.behind.is_none() {
            self.behind = Some(self.clock.uptime());
        }
    }

    /// Sends a heartbeat to the guardian and asks for the marks to be renewed.
    fn heartbeat(&mut self) {
        self.beat_at = self.clock.uptime();
        if let Some(Safety { marks, guardian }) = &self.safety {
            guardian.beat();
            let installed = self.agent.fib().installed();
            if installed.rules.is_empty() && installed.pin_rules.is_empty() {
                marks.stop();
            } else {
                marks.renew(self.agent.fib().links());
            }
        }
    }

    /// The agent lives: its guardian is told so, marks are renewed, leases may be over.
    async fn beat(&mut self) {
        self.heartbeat();
        if let Some(jump_ms) = self.clock.jumped() {
            let text = format!("the clock of day jumped by {jump_ms} ms");
            tracing::warn!("{text}");
            self.note(ConditionType::ClockJumped, text);
        }
        let dropped = weft_log::dropped().lines;
        if dropped != self.lines_dropped {
            self.lines_dropped = dropped;
            // The text has the count.
            self.agent.mend(ConditionType::LogLinesDropped);
            let text = format!("{dropped} lines of the log: standard error is not read");
            self.note(ConditionType::LogLinesDropped, text);
        }
        if let Some(Safety { marks, .. }) = &mut self.safety
            && let Some(counted) = marks.counted()
        {
            self.handle(Input::Counted(counted)).await;
        }
        self.handle(Input::Tick).await;
        self.guard().await;
        self.mark();
    }

    /// Without a guardian nothing is programmed.
    async fn guard(&mut self) {
        let Some(Safety { guardian, .. }) = &mut self.safety else {
            return;
        };
        match guardian.report() {
            None | Some(guardian::Report::Present) => {}
            Some(guardian::Report::Replaced(lost)) => {
                self.unguarded = None;
                self.agent.mend(ConditionType::GuardianUnavailable);
                let text = format!("{lost}, and another one was started");
                self.note(ConditionType::GuardianLost, text);
            }
            Some(guardian::Report::Absent(why)) => {
                self.note(ConditionType::GuardianUnavailable, unguarded(&why));
                let refusal = Refusal {
                    code: Code::Unavailable,
                    text: unguarded(&why),
                    detail: Detail::None,
                };
                self.unguarded = Some(why);
                self.handle(Input::Suspended(refusal)).await;
            }
        }
    }

    /// Takes what became of the marks of pins.
    async fn pinned(&mut self, (number, outcome): (u64, Result<(), String>)) {
        if let Err(why) = &outcome {
            tracing::warn!(error = %why, "packets are not marked for pins");
        }
        self.handle(Input::Marked(number, outcome)).await;
    }

    /// Says what became of the marks.
    fn mark(&mut self) {
        let Some(Safety { marks, .. }) = &mut self.safety else {
            return;
        };
        match marks.report() {
            None => {}
            Some(marks::Report::On | marks::Report::Off) => {
                self.agent.mend(ConditionType::MarksUnavailable);
                self.watchers
                    .changed(self.clock.instant(self.clock.uptime()));
            }
            Some(marks::Report::Restored(why)) => {
                self.agent.mend(ConditionType::MarksUnavailable);
                let text = format!("the table of the marks was put back: {why}");
                tracing::warn!("{text}");
                self.note(ConditionType::MarksRemoved, text);
            }
            Some(marks::Report::Failed(why)) => {
                let text = format!("packets are not marked, FRR alone routes them: {why}");
                self.note(ConditionType::MarksUnavailable, text);
            }
        }
    }

    fn note(&mut self, kind: ConditionType, text: String) {
        self.agent.note(kind, text, self.clock.now());
        self.watchers
            .changed(self.clock.instant(self.clock.uptime()));
    }

    fn tell(&mut self) {
        let (agent, numbers, uptime) = (&self.agent, self.numbers, self.clock.uptime());
        self.watchers.tell(self.clock.instant(uptime), |told| {
            crate::status::status(agent, numbers, told, uptime)
        });
        self.watchers.took(self.clock.uptime() - uptime);
    }

    async fn handle(&mut self, input: Input) {
        let tells = !matches!(input, Input::Tick);
        self.agent.handle(input, self.clock.now());
        self.drain().await;
        if tells {
            self.watchers
                .changed(self.clock.instant(self.clock.uptime()));
            self.changed();
        }
    }

    fn changed(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    async fn drain(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.forwarding.apply(&operation).await;
                    tracing::debug!(?operation, ?outcome, "programmed");
                    let now = self.clock.now();
                    if now.uptime.saturating_sub(self.watched_at) >= WATCH_EVERY {
                        self.watched_at = now.uptime;
                        self.watch().await;
                        self.alive().await;
                    }
                    self.agent.handle(Input::Acknowledged(outcome), now);
                }
                Output::Mark(number, pins) => match &self.safety {
                    Some(Safety { marks, .. }) => marks.pin(number, pins),
                    // A recorded switch has no packets.
                    None => {
                        let marked = Input::Marked(number, Ok(()));
                        self.agent.handle(marked, self.clock.now());
                    }
                },
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

/// What the marks of pins say next; never, if there are none.
async fn pinned(safety: &mut Option<Safety>) -> (u64, Result<(), String>) {
    match safety {
        Some(Safety { marks, .. }) => marks.pinned().await,
        None => std::future::pending().await,
    }
}

fn unguarded(why: &str) -> String {
    format!("nobody can program this switch, for no guardian can be started: {why}")
}

/// How long a change that no event told of (another hand in the agent's objects) may last.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often the guardian is told that the agent lives and marks are renewed, which last a second: two may fail.
const BEAT_EVERY: Duration = Duration::from_millis(250);

/// How often it is noticed in the middle of something long that something changed: some ten operations of the kernel.
const WATCH_EVERY: Duration = Duration::from_millis(1);

/// An agent that is behind what FRR changed for longer does not say that it lives: as long as the guardian waits.
const BEHIND_MAX: Duration = Duration::from_millis(700);

/// Operations of a request that are served together: the kernel takes some ten milliseconds for them.
const PART_MIN: usize = 128;

/// Parts of a request. Each has a response, and a stream has room for
/// [`RESPONSES_MAX`](crate::gribi::RESPONSES_MAX).
const PARTS_MAX: usize = 512;

/// `Modify` streams at one time: far above any number of controllers. One more is refused.
const CLIENTS_MAX: usize = 64;
