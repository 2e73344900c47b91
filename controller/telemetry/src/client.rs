//! A gNMI client: the task that listens to one switch.
//!
//! ```text
//! connect -> Subscribe -> initial set -> sync response -> Sample, Sample, ...
//!    ^          |  ^ refused: asked in another way
//!    |          |
//!    +-- 1 s .. 30 s -- connection lost, silent, or refused in every way
//! ```
//!
//! Nothing is said of a switch before its sync response, and nothing after its stream is lost. It refuses to know what
//! follows from a sample, and how a connection is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use weft_proto::gnmi::g_nmi_client::GNmiClient;
use weft_proto::gnmi::subscribe_request::Request as Asked;
use weft_proto::gnmi::subscribe_response::Response as Answer;
use weft_proto::gnmi::{SubscribeRequest, SubscribeResponse};

use crate::cause;
use crate::connection::Connect;
use crate::mirror::{Changed, Mirror};
use crate::oddities::Odd;
use crate::sample::Sample;
use crate::subscription::{Asking, Ladder, Refusal};
use crate::text::{SENTENCE_MAX, plain};

/// A clock that cannot jump: the time since some moment. [`Counter::received`](crate::Counter::received) is by it.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What a switch needs beside its address.
#[derive(Clone, Default)]
pub struct Options {
    /// The target of gNMI's prefix; empty: none. A gNMI gateway needs it, a switch does not.
    pub target: String,
    /// Sent with each call, such as `username` and `password`.
    pub metadata: MetadataMap,
}

impl fmt::Debug for Options {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Options");
        shown.field("target", &self.target).finish_non_exhaustive()
    }
}

/// What is heard of a switch now.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Nothing, and why; the client tries again.
    Silent(String),
    /// The interfaces as the switch has said that they are.
    Sample(Arc<Sample>),
}

/// The client of one switch. Dropping its future closes the stream.
pub struct Client {
    address: Arc<str>,
    connect: Connect,
    clock: Clock,
    options: Options,
    latest: watch::Sender<Heard>,
    ladder: Ladder,
}

/// Why a stream ended.
enum Ended {
    /// The connection or the stream failed.
    Lost(String),
    /// The server does not do what it was asked for.
    Refused(Refusal, String),
    /// Nobody listens any more.
    Unwanted,
}

impl Client {
    /// A client, and where its samples are found: always the latest, for a reader who is late loses the ones between.
    /// A change of oper-status or of neighbours is there at once, counters once per sample.
    #[must_use]
    pub fn new(
        address: Arc<str>,
        connect: Connect,
        clock: Clock,
        options: Options,
    ) -> (Self, watch::Receiver<Heard>) {
        let (latest, heard) = watch::channel(Heard::Silent("not connected yet".to_owned()));
        let client = Self {
            address,
            connect,
            clock,
            options,
            latest,
            ladder: Ladder::default(),
        };
        (client, heard)
    }

    /// Listens, and connects again after every failure, until all receivers are dropped.
    pub async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let was_served = match self.listen().await {
                Ended::Unwanted => return,
                Ended::Lost(why) | Ended::Refused(_, why) => self.silent(why),
            };
            pause = if was_served {
                PAUSE_MIN
            } else {
                (pause * 2).min(PAUSE_MAX)
            };
            tokio::select! {
                () = self.latest.closed() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Says that nothing is heard any more. True if something was heard before.
    fn silent(&self, why: String) -> bool {
        let was_served = matches!(*self.latest.borrow(), Heard::Sample(_));
        if was_served {
            tracing::warn!(switch = %self.address, why, "gNMI subscription lost");
        } else {
            tracing::debug!(switch = %self.address, why, "no gNMI subscription");
        }
        self.latest.send_replace(Heard::Silent(why));
        was_served
    }

    /// Over one connection, asks in every way until one is served, and listens.
    async fn listen(&mut self) -> Ended {
        let connecting = timeout(ANSWER_MAX, (self.connect)(Arc::clone(&self.address)));
        let channel = match connecting.await {
            Ok(Ok(channel)) => channel,
            Ok(Err(why)) => return Ended::Lost(why),
            Err(_) => return Ended::Lost("no connection in time".to_owned()),
        };
        loop {
            let asking = self.ladder.asking();
            let (was_served, ended) = match self.subscribe(channel.clone(), asking).await {
                Ok(stream) => stream.listen().await,
                Err(ended) => (false, ended),
            };
            if was_served {
                self.ladder.accepted();
            }
            match ended {
                Ended::Refused(how, why) if self.ladder.refused(how) => {
                    tracing::debug!(switch = %self.address, why, "gNMI subscription refused; trying another");
                }
                other => return other,
            }
        }
    }

    async fn subscribe(&self, channel: Channel, asking: Asking) -> Result<Stream, Ended> {
        let (requests, outgoing) = mpsc::channel(1);
        let list = asking.list(&self.options.target);
        let first = SubscribeRequest {
            request: Some(Asked::Subscribe(list)),
            extension: Vec::new(),
        };
        // Some servers answer the call itself only after the first message.
        let sent = requests.send(first).await;
        sent.map_err(|_| Ended::Lost(STREAM_CLOSED.to_owned()))?;
        let mut request = Request::new(ReceiverStream::new(outgoing));
        *request.metadata_mut() = self.options.metadata.clone();
        let mut client = GNmiClient::new(channel).max_decoding_message_size(MESSAGE_OCTETS_MAX);
        let call = timeout(ANSWER_MAX, client.subscribe(request)).await;
        let call = call.map_err(|_| Ended::Lost("no answer to Subscribe".to_owned()))?;
        let responses = call.map_err(|status| refused(&status))?.into_inner();
        let now = (self.clock)();
        Ok(Stream {
            address: Arc::clone(&self.address),
            clock: Arc::clone(&self.clock),
            latest: self.latest.clone(),
            asking,
            responses,
            _requests: requests,
            mirror: Mirror::default(),
            in_sync: false,
            first_at: None,
            heard_at: now,
            due: None,
            odd_kinds: 0,
        })
    }
}

/// One Subscribe stream. Times are by the clock of the client.
struct Stream {
    address: Arc<str>,
    clock: Clock,
    latest: watch::Sender<Heard>,
    asking: Asking,
    responses: Streaming<SubscribeResponse>,
    /// Open for as long as the stream: a server may take its end for the client's.
    _requests: mpsc::Sender<SubscribeRequest>,
    mirror: Mirror,
    in_sync: bool,
    /// When the first update came.
    first_at: Option<Duration>,
    /// When the last response came.
    heard_at: Duration,
    /// When what was learnt is to be published.
    due: Option<Duration>,
    /// Kinds of oddities that were logged.
    odd_kinds: usize,
}

impl Stream {
    /// Listens until the stream ends; also, whether it was ever in sync.
    async fn listen(mut self) -> (bool, Ended) {
        loop {
            if let Err(ended) = self.turn().await {
                return (self.in_sync, ended);
            }
        }
    }

    /// Takes one response, or publishes what is due.
    async fn turn(&mut self) -> Result<(), Ended> {
        let silent_at = self.heard_at.saturating_add(self.silence_max());
        let next = self.due.map_or(silent_at, |due| due.min(silent_at));
        let wait = next.saturating_sub((self.clock)());
        let response = tokio::select! {
            response = timeout(wait, self.responses.message()) => response,
            () = self.latest.closed() => return Err(Ended::Unwanted),
        };
        let now = (self.clock)();
        match response {
            Ok(Ok(Some(response))) => self.take(response, now),
            Ok(Ok(None)) => return Err(Ended::Lost(STREAM_CLOSED.to_owned())),
            Ok(Err(status)) if self.in_sync => return Err(Ended::Lost(shown(&status))),
            Ok(Err(status)) => return Err(refused(&status)),
            Err(_) if now >= silent_at => {
                let why = format!("silent for {} s", self.silence_max().as_secs());
                return Err(Ended::Lost(why));
            }
            Err(_) => {}
        }
        if self.due.is_some_and(|due| now >= due) {
            self.publish();
        }
        Ok(())
    }

    fn take(&mut self, response: SubscribeResponse, now: Duration) {
        self.heard_at = now;
        match response.response {
            Some(Answer::Update(notification)) => {
                let changed = self.mirror.learn(&notification, now);
                let first_at = *self.first_at.get_or_insert(now);
                if !self.in_sync && now.saturating_sub(first_at) >= SYNC_MAX {
                    self.mirror.count(Odd::NoSync, "Subscribe");
                    self.synced(now);
                }
                if self.in_sync {
                    self.plan(changed, now);
                }
            }
            Some(Answer::SyncResponse(true)) if !self.in_sync => self.synced(now),
            Some(Answer::SyncResponse(value)) => {
                self.mirror.count(Odd::Sync, &value.to_string());
            }
            None => self.mirror.count(Odd::EmptyResponse, "SubscribeResponse"),
        }
    }

    fn synced(&mut self, now: Duration) {
        tracing::info!(switch = %self.address, "gNMI subscription in sync");
        (self.in_sync, self.due) = (true, Some(now));
    }

    /// Says when a change is to be published: state soon, counters once all of a sample are there.
    fn plan(&mut self, changed: Changed, now: Duration) {
        let within = match changed {
            Changed { state: true, .. } => STATE_WITHIN,
            Changed { counters: true, .. } => COUNTERS_WITHIN,
            Changed { .. } => return,
        };
        let due = now.saturating_add(within);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    fn publish(&mut self) {
        self.due = None;
        let oddities = self.mirror.oddities().clone();
        let odd_kinds = oddities.iter().count();
        if odd_kinds > self.odd_kinds {
            tracing::warn!(switch = %self.address, %oddities, "gNMI responses not understood");
            self.odd_kinds = odd_kinds;
        }
        let sample = Sample {
            interfaces: self.mirror.interfaces(),
            oddities,
            has_lldp: self.asking.has_lldp(),
            interval: self.asking.interval(),
        };
        self.latest.send_replace(Heard::Sample(Arc::new(sample)));
    }

    fn silence_max(&self) -> Duration {
        let samples = self.asking.interval() * SAMPLES_MISSED_MAX;
        samples.max(SILENCE_MAX)
    }
}

/// What the status means that ends a stream before its sync response. Many servers say UNKNOWN of what they do not know.
fn refused(status: &Status) -> Ended {
    match status.code() {
        Code::Unimplemented => Ended::Refused(Refusal::Unimplemented, shown(status)),
        Code::InvalidArgument
        | Code::NotFound
        | Code::OutOfRange
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unknown
        | Code::Internal => Ended::Refused(Refusal::Other, shown(status)),
        _ => Ended::Lost(shown(status)),
    }
}

fn shown(status: &Status) -> String {
    let text = plain(status.message(), SENTENCE_MAX);
    match status.code() {
        Code::Unauthenticated => format!("login refused (UNAUTHENTICATED): {text}"),
        code => format!("{}: {text}", cause::variant(code)),
    }
}

const STREAM_CLOSED: &str = "the stream was closed";

/// How long connecting, and an answer to Subscribe, may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A stream without a response for this long is lost, ...
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// ... unless samples come so seldom that fewer than these would be missing.
const SAMPLES_MISSED_MAX: u32 = 4;

/// From the first update. A server that has sent no sync response until then sends none.
const SYNC_MAX: Duration = Duration::from_secs(10);

/// From a change of oper-status, speed or neighbours to the sample that shows it: what changes together is shown together.
const STATE_WITHIN: Duration = Duration::from_millis(20);

/// The same, of counters: those of one moment come in several responses.
const COUNTERS_WITHIN: Duration = Duration::from_millis(200);

/// Between attempts: doubled from the first to the second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A response of a switch with 1,000 interfaces in one piece has some 2 MiB. A larger one ends the stream.
const MESSAGE_OCTETS_MAX: usize = 4 * 1024 * 1024;
