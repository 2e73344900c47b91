//! One `Subscribe` stream: reads the switch when a plan or a client wants it, and sends what the plan says. A client that
//! does not read keeps its own stream waiting, which then goes on with the switch as it is: what came between is not sent.
//! Knows nothing of paths.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep_until;
use tonic::{Status, Streaming};
use weft_proto::gnmi::subscribe_request::Request as Asked;
use weft_proto::gnmi::subscribe_response::Response as Answer;
use weft_proto::gnmi::subscription_list::Mode;
use weft_proto::gnmi::{Notification, SubscribeRequest, SubscribeResponse};

use super::reader::Reader;
use super::stopped;
use crate::openconfig::plan::Cursor;
use crate::openconfig::{Plan, Tree};

/// Who has subscribed.
#[derive(Debug)]
pub(super) struct Subscriber {
    reader: Arc<Reader>,
    plan: Plan,
    responses: mpsc::Sender<Result<SubscribeResponse, Status>>,
}

/// Why a stream is over.
enum End {
    /// The client is gone, or has what it wanted.
    Done,
    /// The stream ends with this status.
    Refused(Status),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Subscriber {
    pub(super) fn new(
        reader: Arc<Reader>,
        plan: Plan,
        responses: mpsc::Sender<Result<SubscribeResponse, Status>>,
    ) -> Self {
        Self {
            reader,
            plan,
            responses,
        }
    }

    /// Serves until the client is gone, has what it asked for, or asks for what is wrong.
    pub(super) async fn serve(mut self, mode: Mode, requests: Streaming<SubscribeRequest>) {
        let outcome = match mode {
            Mode::Once => self.all().await,
            Mode::Poll => self.polled(requests).await,
            Mode::Stream => self.stream(requests).await,
        };
        if let Err(End::Refused(status)) = outcome {
            // Who is gone does not want to know.
            let _gone = self.responses.send(Err(status)).await;
        }
    }

    /// All that there is, and that this was all.
    async fn all(&mut self) -> Result<(), End> {
        let tree = self.reader.read().await?;
        self.all_of(&tree).await?;
        self.in_sync().await
    }

    async fn all_of(&mut self, tree: &Arc<Tree>) -> Result<(), End> {
        let mut from = Some(Cursor::default());
        while let Some(cursor) = from {
            let tree = Arc::clone(tree);
            let (part, next) = self.plan(move |plan| plan.all(&tree, cursor)).await?;
            self.send(part).await?;
            from = next;
        }
        Ok(())
    }

    async fn polled(&mut self, mut requests: Streaming<SubscribeRequest>) -> Result<(), End> {
        loop {
            let request = tokio::select! {
                request = requests.message() => request,
                () = self.responses.closed() => return Err(End::Done),
            };
            let Ok(Some(request)) = request else {
                return Err(End::Done);
            };
            match request.request {
                Some(Asked::Poll(_)) if request.extension.is_empty() => self.all().await?,
                _ => return Err(Status::invalid_argument(ONLY_POLLS).into()),
            }
        }
    }

    async fn stream(&mut self, mut requests: Streaming<SubscribeRequest>) -> Result<(), End> {
        let mut changes = self.reader.changes();
        let uptime = self.reader.uptime();
        changes.borrow_and_update();
        let mut read_at = uptime.now();
        let tree = self.reader.read().await?;
        self.plan.begin(&tree, read_at);
        self.all_of(&tree).await?;
        drop(tree);
        self.in_sync().await?;
        let (mut changed, mut is_open) = (false, true);
        loop {
            let soon = changed.then(|| read_at.saturating_add(CHANGES_EVERY));
            let due = [soon, self.plan.next()].into_iter().flatten().min();
            let due = due.and_then(|due| uptime.instant(due));
            tokio::select! {
                () = self.responses.closed() => return Err(End::Done),
                request = requests.message(), if is_open => match request {
                    // A client may close its side, and go on to read.
                    Ok(None) => is_open = false,
                    Ok(Some(_)) => return Err(Status::invalid_argument(ONE_LIST).into()),
                    Err(_) => return Err(End::Done),
                },
                () = changes_of(&mut changes), if !changed && self.plan.wants_changes() => {
                    changed = true;
                }
                () = async {
                    match due {
                        Some(due) => sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => {
                    changed = false;
                    changes.borrow_and_update();
                    read_at = uptime.now();
                    let tree = self.reader.read().await?;
                    let notifications = self.poll(tree, read_at).await?;
                    self.send(notifications).await?;
                }
            }
        }
    }

    async fn poll(&mut self, tree: Arc<Tree>, now: Duration) -> Result<Vec<Notification>, Status> {
        self.plan(move |plan| plan.poll(&tree, now)).await
    }

    /// Asks the plan beside the driver's thread: of a full switch, comparing takes some ten milliseconds.
    async fn plan<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut Plan) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let mut plan = self.plan.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let answer = ask(&mut plan);
            (plan, answer)
        });
        let (plan, answer) = asked.await.map_err(|_| stopped())?;
        self.plan = plan;
        Ok(answer)
    }

    async fn send(&self, notifications: Vec<Notification>) -> Result<(), End> {
        for notification in notifications {
            self.answer(Answer::Update(notification)).await?;
        }
        Ok(())
    }

    async fn in_sync(&self) -> Result<(), End> {
        self.answer(Answer::SyncResponse(true)).await
    }

    async fn answer(&self, answer: Answer) -> Result<(), End> {
        let response = SubscribeResponse {
            response: Some(answer),
            extension: Vec::new(),
        };
        let sent = self.responses.send(Ok(response)).await;
        sent.map_err(|_| End::Done)
    }
}

/// Returns when something may have changed; never, when the agent is stopping.
async fn changes_of(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending().await
    }
}

const ONE_LIST: &str = "a stream has one list of subscriptions, and polls only in POLL mode";

const ONLY_POLLS: &str = "a stream in POLL mode takes polls only";

/// What changes in a burst is sent together.
const CHANGES_EVERY: Duration = Duration::from_millis(50);
