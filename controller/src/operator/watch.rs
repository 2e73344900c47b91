//! The watch service: streams what becomes of declared facts, each client from a revision of its own. Knows when a stream
//! begins and ends; what changed is the reflector's to say.

mod filter;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, watch_service_server};

use self::filter::Filter;
use super::access::{Permission, permit};
use super::{Answer, header, look, refusal};
use crate::consensus::Group;
use crate::fabric::declared::Declared;
use crate::fabric::fact::Kind;
use crate::reflector::history::History;
use crate::speaker::Shared;

/// Streams changes.
pub struct Service {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            places: Arc::new(Semaphore::new(WATCHERS_MAX)),
        }
    }

    /// What is declared, up to where, and up to where a majority is at least.
    async fn declared(&self) -> Result<(Declared, u64, u64), Status> {
        let agreed = self.shared.consensus.read_index().await;
        let agreed = agreed.ok_or_else(refusal::no_majority)?;
        let look = look::at(&self.shared, agreed, |reflector| {
            (reflector.control().declared.clone(), reflector.index())
        });
        let (declared, index) = look.await?;
        Ok((declared, index, agreed))
    }
}

#[tonic::async_trait]
impl watch_service_server::WatchService for Service {
    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Answer<BoxStream<proto::WatchResponse>> {
        permit(&request, Permission::ReadFabric)?;
        let request = request.into_inner();
        let filter = Filter::read(&request)?;
        let progress = progress(request.progress_interval)?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| refusal::too_many_watchers(WATCHERS_MAX))?;
        let (declared, index, agreed) = self.declared().await?;
        let history = Arc::clone(self.shared.reflection.history());
        let (revision, snapshot) = match request.after_revision {
            None => (index, Some(declared)),
            Some(revision) if revision > agreed.max(index) => {
                return Err(refusal::revision_in_future(agreed.max(index)));
            }
            Some(revision) => {
                let known = history.after(revision, 0);
                known.map_err(|it| refusal::revision_compacted(it.oldest))?;
                (revision, None)
            }
        };
        let (answers, heard) = mpsc::channel(ANSWERS_MAX + 1);
        let watcher = Watcher {
            replica: self.shared.replica,
            group: self.shared.consensus.group(),
            history,
            filter,
            progress,
            revision,
            answers,
        };
        tokio::spawn(watcher.run(snapshot));
        // A client that takes nothing holds its place until its connection ends.
        let heard = ReceiverStream::new(heard).map(move |answer| {
            let _held = &place;
            answer
        });
        Ok(Response::new(Box::pin(heard)))
    }
}

/// One stream.
struct Watcher {
    replica: u64,
    group: watch::Receiver<Group>,
    history: Arc<History>,
    filter: Filter,
    progress: Duration,
    /// Everything up to it was streamed.
    revision: u64,
    answers: mpsc::Sender<Result<proto::WatchResponse, Status>>,
}

/// Why a stream ends.
enum End {
    /// Its client has gone.
    Gone,
    /// The client is told why.
    Refused(Status),
}

impl Watcher {
    async fn run(mut self, snapshot: Option<Declared>) {
        // A place for the last word, whatever waits for the client.
        let Ok(last) = self.answers.clone().reserve_owned().await else {
            return;
        };
        // The bell first: what rings from now on is not in the snapshot.
        let bell = self.history.bell();
        let streamed = match snapshot {
            Some(declared) => self.exists(&declared).await,
            None => Ok(()),
        };
        let streamed = match streamed {
            Ok(()) => self.follow(bell).await,
            Err(end) => Err(end),
        };
        if let Err(End::Refused(status)) = streamed {
            let _sent = last.send(Err(status));
        }
    }

    /// Streams what exists, the last part with the header.
    async fn exists(&self, declared: &Declared) -> Result<(), End> {
        let mut kinds = Kind::ALL.into_iter().peekable();
        while let Some(kind) = kinds.next() {
            let mut after = Some(String::new());
            while let Some(name) = after {
                let (changes, next) = self.part(declared, kind, &name);
                let last = next.is_none() && kinds.peek().is_none();
                let header = last.then(|| self.header());
                if last || !changes.is_empty() {
                    self.send(header, changes, true).await?;
                }
                after = next;
            }
        }
        Ok(())
    }

    /// What exists of a kind behind a name, as much as fits into an answer; and the name to go on behind.
    fn part(
        &self,
        declared: &Declared,
        kind: Kind,
        name: &str,
    ) -> (Vec<proto::ResourceChange>, Option<String>) {
        let (mut changes, mut octets) = (Vec::new(), 0);
        for fact in declared.topology().facts_after(kind, name) {
            if self.filter.wants(&fact) {
                let change = filter::existing(&fact);
                octets += prost::Message::encoded_len(&change);
                changes.push(change);
            }
            if octets > PART_OCTETS {
                return (changes, Some(fact.name().to_owned()));
            }
        }
        (changes, None)
    }

    /// Streams what changes.
    async fn follow(&mut self, mut bell: watch::Receiver<()>) -> Result<(), End> {
        let mut due = Instant::now() + self.progress;
        let leaderless = leaderless(self.group.clone());
        tokio::pin!(leaderless);
        loop {
            bell.borrow_and_update();
            let part = self.history.after(self.revision, CHANGES_MAX);
            let part = part.map_err(|it| End::Refused(refusal::revision_compacted(it.oldest)))?;
            let changes = part.changes.iter();
            let changes: Vec<_> = changes.filter_map(|it| self.filter.change(it)).collect();
            self.revision = part.revision;
            if !changes.is_empty() || Instant::now() >= due {
                self.send(Some(self.header()), changes, false).await?;
                due = Instant::now() + self.progress;
            }
            if part.more {
                continue;
            }
            // Changes that come close together make one answer.
            sleep(GATHERED).await;
            tokio::select! {
                rung = bell.changed() => rung.map_err(|_| End::Gone)?,
                () = sleep_until(due) => {}
                () = self.answers.closed() => return Err(End::Gone),
                () = &mut leaderless => return Err(End::Refused(refusal::no_leader())),
            }
        }
    }

    async fn send(
        &self,
        header: Option<proto::ResponseHeader>,
        changes: Vec<proto::ResourceChange>,
        snapshot: bool,
    ) -> Result<(), End> {
        let answer = proto::WatchResponse {
            header,
            changes,
            snapshot,
            ..proto::WatchResponse::default()
        };
        match timeout(PATIENCE, self.answers.send(Ok(answer))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Refused(refusal::watcher_too_slow())),
        }
    }

    fn header(&self) -> proto::ResponseHeader {
        let leader = self.group.borrow().status.leader;
        header::from(self.replica, leader, self.revision)
    }
}

/// Ends when nobody has led for a while, as far as this replica knows: it hears of no changes then.
async fn leaderless(mut group: watch::Receiver<Group>) {
    loop {
        let lost = group.wait_for(|group| group.status.leader.is_none());
        if lost.await.is_err() {
            return;
        }
        let found = group.wait_for(|group| group.status.leader.is_some());
        if timeout(LEADERLESS, found).await.is_err() {
            return;
        }
    }
}

/// Reads how long a client wants to hear nothing at most.
fn progress(wanted: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(wanted) = wanted else {
        return Ok(PROGRESS);
    };
    let read = Duration::try_from(wanted).ok();
    let read = read.filter(|read| (PROGRESS_MIN..=PROGRESS_MAX).contains(read));
    read.ok_or_else(|| refusal::field("progress_interval", "not between 0.1 s and 1 h"))
}

/// Each takes a task and some KiB.
const WATCHERS_MAX: usize = 10_000;
/// Answers that wait for a client beside those that its connection holds.
const ANSWERS_MAX: usize = 1;
/// Changes of an answer, unless one revision has more.
const CHANGES_MAX: usize = 500;
/// Octets of a part of a snapshot, about.
const PART_OCTETS: usize = 1 << 18;
/// A client that takes nothing for so long is cut.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is added to the time from a commit to a client at most, so that thousands of changes a second are some hundred
/// answers.
const GATHERED: Duration = Duration::from_millis(5);
/// An election takes about a second.
const LEADERLESS: Duration = Duration::from_secs(5);
const PROGRESS: Duration = Duration::from_secs(10);
const PROGRESS_MIN: Duration = Duration::from_millis(100);
const PROGRESS_MAX: Duration = Duration::from_secs(3600);
