//! The task that owns the agent and its forwarding plane: takes commands of the streams, reads the
//! clock, makes the changes, and looks at the switch again when something changed. Knows no gRPC
//! beyond the messages. One per daemon.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Code;
use weft_proto::gribi::{
    AftEntry, FlushRequest, FlushResponse, GetRequest, ModifyRequest, ModifyResponse,
};

use crate::agent::{Agent, Config, Input, Output, Ticket};
use crate::election::Client;
use crate::forwarding::Forwarding;
use crate::refusal::{Detail, Refusal};

/// What a stream or a call asks of the driver.
#[derive(Debug)]
pub enum Command {
    /// A `Modify` stream begins. Responses go where this says.
    Open(
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
}

/// Owns the agent.
pub struct Driver<F> {
    agent: Agent,
    forwarding: F,
    clients: BTreeMap<Client, mpsc::Sender<Result<ModifyResponse, Refusal>>>,
    flushes: BTreeMap<u64, oneshot::Sender<Result<FlushResponse, Refusal>>>,
    opened: u64,
    flushed: u64,
}

impl<F: Forwarding> Driver<F> {
    /// Reads what an earlier agent left on the switch, and takes it over.
    ///
    /// # Errors
    ///
    /// When the switch can not be read.
    pub async fn start(config: Config, mut forwarding: F) -> Result<Self, String> {
        let observed = forwarding.observe().await?;
        tracing::info!(
            next_hops = observed.installed.next_hops.len(),
            groups = observed.installed.groups.len(),
            routes = observed.installed.routes.len(),
            "took over what is installed"
        );
        let agent = Agent::adopt(config, observed);
        let (clients, flushes) = (BTreeMap::new(), BTreeMap::new());
        let mut driver = Self {
            agent,
            forwarding,
            clients,
            flushes,
            opened: 0,
            flushed: 0,
        };
        driver.drain().await;
        Ok(driver)
    }

    /// Serves until `stop` completes or every sender of commands is gone. Stops between commands,
    /// never with a change half made.
    pub async fn run(
        &mut self,
        mut commands: mpsc::Receiver<Command>,
        stop: impl Future<Output = ()>,
    ) {
        tokio::pin!(stop);
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.serve(command).await,
                    None => return,
                },
                () = self.forwarding.changed() => self.look().await,
                _ = look.tick() => self.look().await,
                () = &mut stop => return,
            }
        }
    }

    /// Removes everything that the agent installed.
    pub async fn clear(&mut self) {
        self.handle(Input::Clear).await;
    }

    async fn serve(&mut self, command: Command) {
        match command {
            Command::Open(responses, opened) => {
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
                    self.handle(Input::Opened(client)).await;
                }
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
        }
    }

    async fn look(&mut self) {
        match self.forwarding.observe().await {
            Ok(observed) => self.handle(Input::Observed(observed)).await,
            Err(error) => tracing::warn!(%error, "could not read the state of the switch"),
        }
    }

    async fn handle(&mut self, input: Input) {
        self.agent.handle(input, now_ns());
        self.drain().await;
    }

    async fn drain(&mut self) {
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.forwarding.apply(&operation).await;
                    tracing::debug!(?operation, ?outcome, "programmed");
                    self.agent.handle(Input::Acknowledged(outcome), now_ns());
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
fn now_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// How long a change that no event told of (another hand in the agent's objects) may last.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// `Modify` streams at one time: far above any number of controllers. One more is refused.
const CLIENTS_MAX: usize = 64;
