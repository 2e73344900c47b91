//! A watch that goes on at another replica when one dies. Knows revisions, and no kind of resource.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::{Code, Response, Status, Streaming};
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
    /// First answer of the stream, which was read when it began.
    first: Option<proto::WatchResponse>,
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
    pub(crate) fn new(connection: &'a Connection, mut request: proto::WatchRequest) -> Self {
        request.progress_interval.get_or_insert(PROGRESS);
        Self {
            connection,
            request,
            anew: false,
            stream: None,
            first: None,
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
                let (stream, first) = self.begin().await?;
                (self.stream, self.first) = (Some(stream), Some(first));
                return Ok(News::Begins);
            };
            let part = match self.first.take() {
                Some(first) => Ok(Some(first)),
                None => {
                    let patient = self.connection.patient(SILENCE);
                    patient.part(stream.message()).await
                }
            };
            let lost = match part {
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

    /// Opens a stream, and reads its first answer. Once there was one, replicas may take their time: they elect a leader when one dies.
    async fn begin(&mut self) -> Result<Begun, Failure> {
        let connection = self.connection;
        loop {
            let question = async || open(connection, self.request.clone()).await;
            match connection.read(question).await {
                Ok(Ok(begun)) => {
                    self.heard.get_or_insert_with(Instant::now);
                    return Ok(begun);
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

/// A stream, and its first answer.
type Begun = (Streaming<proto::WatchResponse>, proto::WatchResponse);

/// Returns a stream that has begun to answer, or a refusal for a reason that every replica has.
async fn open(
    connection: &Connection,
    request: proto::WatchRequest,
) -> Result<Result<Begun, Status>, Failure> {
    let mut client = connection.watch().await?;
    let begun = async {
        let mut stream = client.watch(request).await?.into_inner();
        let first = stream.message().await?;
        let first = first.ok_or_else(|| Status::unavailable("the stream ended"))?;
        Ok(Response::new((stream, first)))
    };
    match connection.patient(SILENCE).status(begun).await? {
        Ok(begun) => Ok(Ok(begun)),
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
/// Time after which a replica sends its revision if nothing has changed. One of an older release leaves out kinds that it does not know.
const PROGRESS: prost_types::Duration = prost_types::Duration {
    seconds: 1,
    nanos: 0,
};
/// Silence after which a stream counts as lost: several of the times above.
const SILENCE: Duration = Duration::from_secs(5);
