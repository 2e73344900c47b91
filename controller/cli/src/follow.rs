//! A watch that goes on at another replica when one dies. Knows revisions, and no kind of resource.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::{Code, Status, Streaming};
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::failure::Failure;

/// A stream of changes that outlives replicas.
pub(crate) struct Follow<'a> {
    connection: &'a Connection,
    /// With the revision to go on after.
    request: proto::WatchRequest,
    /// Where no replica remembers changes since that revision, it begins anew with what exists.
    anew: bool,
    stream: Option<Streaming<proto::WatchResponse>>,
    /// When the last answer came, or the first stream began; None: none did.
    heard: Option<Instant>,
}

/// What a watch says.
pub(crate) enum News {
    /// A stream begins, at this replica or at another one.
    Begins,
    /// Something changed, or a replica says up to where nothing did.
    Answer(Box<proto::WatchResponse>),
}

impl<'a> Follow<'a> {
    /// Nothing is asked yet.
    pub(crate) fn new(connection: &'a Connection, request: proto::WatchRequest) -> Self {
        Self {
            connection,
            request,
            anew: false,
            stream: None,
            heard: None,
        }
    }

    /// Rather begins anew with what exists than ends because no replica remembers so much.
    pub(crate) fn or_anew(mut self) -> Self {
        self.anew = true;
        self
    }

    /// The revision to go on after; None: what exists is not known whole.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.request.after_revision
    }

    /// What is said next. A replica that does not speak is left for the next one; a failure ends the watch.
    pub(crate) async fn next(&mut self) -> Result<News, Failure> {
        loop {
            let Some(stream) = &mut self.stream else {
                self.stream = Some(self.begin().await?);
                return Ok(News::Begins);
            };
            // A replica says at least every ten seconds how far it is.
            let patient = self.connection.patient(SILENCE);
            let lost = match patient.part(stream.message()).await {
                Ok(Some(answer)) => {
                    self.heard = Some(Instant::now());
                    if let Some(header) = &answer.header {
                        self.request.after_revision = Some(header.revision);
                    }
                    return Ok(News::Answer(Box::new(answer)));
                }
                Ok(None) => Failure::unanswered(self.connection.address(), "the stream ended"),
                Err(failure) => failure,
            };
            self.stream = None;
            self.connection.leave();
            if self.is_over() {
                return Err(lost);
            }
            sleep(AGAIN).await;
        }
    }

    /// Opens a stream. Once there was one, replicas may take their time: they elect a leader when one dies.
    async fn begin(&mut self) -> Result<Streaming<proto::WatchResponse>, Failure> {
        let connection = self.connection;
        loop {
            let question = async || open(connection, self.request.clone()).await;
            match connection.read(question).await {
                Ok(Ok(stream)) => {
                    self.heard.get_or_insert_with(Instant::now);
                    return Ok(stream);
                }
                Ok(Err(status))
                    if status.code() == Code::OutOfRange
                        && self.anew
                        && self.request.after_revision.is_some() =>
                {
                    self.request.after_revision = None;
                }
                Ok(Err(status)) => {
                    return Err(Failure::from_status(connection.address(), &status));
                }
                Err(Failure::Unanswered { .. }) if !self.is_over() => sleep(AGAIN).await,
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Whether nobody has said anything for too long.
    fn is_over(&self) -> bool {
        self.heard.is_none_or(|heard| heard.elapsed() > PATIENCE)
    }
}

/// A stream, or what the replica refuses for a reason that every replica has.
async fn open(
    connection: &Connection,
    request: proto::WatchRequest,
) -> Result<Result<Streaming<proto::WatchResponse>, Status>, Failure> {
    let mut client = connection.watch().await?;
    match connection.status(client.watch(request)).await? {
        Ok(stream) => Ok(Ok(stream)),
        // It has as many watchers as it can hold.
        Err(status) if status.code() == Code::ResourceExhausted => {
            Err(Failure::unanswered(connection.address(), status.message()))
        }
        Err(status) => match Failure::from_status(connection.address(), &status) {
            failure @ Failure::Unanswered { .. } => Err(failure),
            _ => Ok(Err(status)),
        },
    }
}

/// Without an answer for so long, replicas do not elect a leader: there is none to elect.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to go on.
const AGAIN: Duration = Duration::from_millis(200);
/// Longer than a replica is silent.
const SILENCE: Duration = Duration::from_secs(15);
