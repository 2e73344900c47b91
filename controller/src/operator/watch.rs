//! The watch service: streams what becomes of declared facts, each client from a revision of its own. Knows when a stream
//! begins and ends; what changed is the reflector's to say.

mod board;
mod decisions;
mod filter;
mod peers;
mod pins;
mod planned;
mod routes;
#[cfg(test)]
mod tests;
mod unagreed;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, watch_service_server};

use self::filter::Filter;
use self::routes::Routes;
use self::unagreed::{Sources, Unagreed};
use super::access::{Identity, Permission};
use super::tables::Tables;
use super::{Answer, header, look, plans, refusal};
use crate::consensus::Group;
use crate::fabric::declared::Declared;
use crate::fabric::fact::{InvalidFabric, Kind};
use crate::fabric::measured::Measured;
use crate::fabric::pin::{PinChanged, Pins};
use crate::reflector::history::{Compacted, History};
use crate::reflector::news::News;
use crate::speaker::Shared;

/// Streams changes.
pub struct Service {
    shared: Arc<Shared>,
    tables: Arc<Tables>,
    places: Arc<Semaphore>,
    unagreed: Sources,
    /// Rung by the reflector's bells, and now and then only.
    bells: OnceLock<[watch::Sender<()>; 4]>,
}

impl Service {
    /// For a running daemon.
    pub fn new(tables: Arc<Tables>, plans: Arc<plans::Service>) -> Self {
        Self {
            unagreed: Sources::new(Arc::clone(tables.shared()), plans),
            shared: Arc::clone(tables.shared()),
            tables,
            places: Arc::new(Semaphore::new(WATCHERS_MAX)),
            bells: OnceLock::new(),
        }
    }

    /// What wakes watchers: of what is declared, of routes, of adopted pins and of decisions. The reflector wakes one task for each
    /// of them, however many clients watch.
    fn bells(&self) -> [watch::Receiver<()>; 4] {
        let bells = self.bells.get_or_init(|| {
            let reflection = &self.shared.reflection;
            let bells = [
                reflection.history().bell(),
                reflection.news().bell(),
                reflection.pins().bell(),
                reflection.decisions().bell(),
            ];
            bells.map(gathered)
        });
        bells.each_ref().map(watch::Sender::subscribe)
    }

    /// Whether any replica can be at a revision, up to where a majority is at least. What this one has applied may be an
    /// entry without changes, of which nobody else hears.
    async fn is_reached(&self, revision: u64, agreed: u64) -> bool {
        if revision <= agreed {
            return true;
        }
        let mut group = self.shared.consensus.group();
        let reached = group.wait_for(|group| group.status.applied >= revision);
        matches!(timeout(REACHED, reached).await, Ok(Ok(_)))
    }

    /// Whether all changes after a revision are remembered; those of adopted pins and of decisions, if they are asked for.
    fn remembers(&self, revision: u64, pins: bool, decisions: bool) -> Result<(), Compacted> {
        let reflection = &self.shared.reflection;
        reflection.history().after(revision, 0)?;
        if pins {
            reflection.pins().between(revision, revision)?;
        }
        if decisions {
            reflection.decisions().between(revision, revision)?;
        }
        Ok(())
    }

    /// What exists, up to where, and up to where a majority is at least.
    async fn existing(&self) -> Result<(Existing, u64, u64), Status> {
        let agreed = self.shared.consensus.read_index().await;
        let agreed = agreed.ok_or_else(refusal::no_majority)?;
        let look = look::at(&self.shared, agreed, |reflector| {
            let control = reflector.control();
            let existing = Existing {
                declared: control.declared.clone(),
                pins: control.pins.clone(),
                measured: control.measured.clone(),
            };
            (existing, reflector.index())
        });
        let (existing, index) = look.await?;
        Ok((existing, index, agreed))
    }
}

/// What exists when a stream begins.
struct Existing {
    declared: Declared,
    pins: Pins,
    measured: Measured,
}

/// Asks for the permissions that a watch needs besides the one of its method.
fn permitted(request: &Request<proto::WatchRequest>) -> Result<(), Status> {
    let (caller, wanted) = (Identity::of(request), request.get_ref());
    if wanted.routes.is_some() {
        caller.permit(Permission::ReadRoutes)?;
    }
    if wanted.peers.is_some() {
        caller.permit(Permission::ReadPeers)?;
    }
    let planned = wanted.job_plans.is_some() || wanted.link_statuses.is_some();
    if wanted.pins.is_some() || wanted.decisions.is_some() || planned {
        caller.permit(Permission::ReadPlans)?;
    }
    Ok(())
}

#[tonic::async_trait]
impl watch_service_server::WatchService for Service {
    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Answer<BoxStream<proto::WatchResponse>> {
        permitted(&request)?;
        let mut request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let filter = Filter::read(&request, &mut faults);
        let mut routes = Routes::read(request.routes.take(), &mut faults);
        let pins = pins::Wanted::read(request.pins.take(), &mut faults);
        let decisions = decisions::Wanted::read(request.decisions.take(), &mut faults);
        let progress = progress(request.progress_interval, &mut faults);
        unagreed::check(&request, &mut faults);
        refusal::check(&faults)?;
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| refusal::too_many_watchers(WATCHERS_MAX))?;
        let unagreed = self.unagreed.follow(&mut request).await?;
        let (existing, index, agreed) = self.existing().await?;
        let (revision, snapshot) = match request.after_revision {
            None => (index, Some(existing)),
            Some(revision) if !self.is_reached(revision, agreed.max(index)).await => {
                return Err(refusal::revision_in_future(agreed.max(index)));
            }
            Some(revision) => {
                let known = self.remembers(revision, pins.is_some(), decisions.is_some());
                known.map_err(|it| refusal::revision_compacted(it.oldest))?;
                (revision, None)
            }
        };
        if let Some(routes) = &mut routes {
            let known = routes.begin(self.shared.reflection.news(), revision);
            known.map_err(|it| refusal::revision_compacted(it.oldest))?;
            if request.after_revision.is_some() {
                routes.resume(&self.tables, revision).await?;
            }
        }
        let (answers, heard) = mpsc::channel(ANSWERS_MAX + 1);
        let [declared_bell, routes_bell, pins_bell, decisions_bell] = self.bells();
        let watcher = Watcher {
            shared: Arc::clone(&self.shared),
            tables: Arc::clone(&self.tables),
            bells: Bells {
                declared: declared_bell,
                routes: routes.as_ref().map(|_| routes_bell),
                pins: pins.as_ref().map(|_| pins_bell),
                decisions: decisions.as_ref().map(|_| decisions_bell),
                unagreed: unagreed.bells(),
            },
            _place: place,
            group: self.shared.consensus.group(),
            history: Arc::clone(self.shared.reflection.history()),
            filter,
            routes,
            pins,
            decisions,
            unagreed,
            progress,
            revision,
            answers,
        };
        tokio::spawn(watcher.run(snapshot));
        Ok(Response::new(Box::pin(ReceiverStream::new(heard))))
    }
}

/// One stream.
struct Watcher {
    shared: Arc<Shared>,
    tables: Arc<Tables>,
    /// Made before the snapshot: what rings from then on is not in it.
    bells: Bells,
    /// Held until it ends: a client that is cut leaves it to others.
    _place: OwnedSemaphorePermit,
    group: watch::Receiver<Group>,
    history: Arc<History>,
    filter: Filter,
    routes: Option<Routes>,
    pins: Option<pins::Wanted>,
    decisions: Option<decisions::Wanted>,
    unagreed: Unagreed,
    progress: Duration,
    /// Everything up to it was streamed.
    revision: u64,
    answers: mpsc::Sender<Result<proto::WatchResponse, Status>>,
}

/// What happened since a watcher asked for it last, of what the replicas agree on.
struct Since {
    changes: Vec<proto::ResourceChange>,
    repinned: Vec<Arc<PinChanged>>,
    decisions: Vec<proto::DecisionChange>,
    routes: Vec<proto::RouteChange>,
    /// There is more.
    more: bool,
}

/// Why a stream ends.
enum End {
    /// Its client has gone.
    Gone,
    /// The client is told why.
    Refused(Status),
}

impl From<Compacted> for End {
    fn from(compacted: Compacted) -> Self {
        Self::Refused(refusal::revision_compacted(compacted.oldest))
    }
}

impl Watcher {
    async fn run(mut self, snapshot: Option<Existing>) {
        // A place for the last word, whatever waits for the client.
        let Ok(last) = self.answers.clone().reserve_owned().await else {
            return;
        };
        let streamed = match snapshot {
            Some(existing) => self.exists(&existing).await,
            None => Ok(()),
        };
        let streamed = match streamed {
            Ok(()) => self.follow().await,
            Err(end) => Err(end),
        };
        if let Err(End::Refused(status)) = streamed {
            let _sent = last.send(Err(status));
        }
    }

    /// Streams what exists, the last part with the header.
    async fn exists(&self, existing: &Existing) -> Result<(), End> {
        let only_declared =
            self.routes.is_none() && self.pins.is_none() && self.decisions.is_none();
        let mut kinds = Kind::ALL.into_iter().peekable();
        while let Some(kind) = kinds.next() {
            let mut after = Some(String::new());
            while let Some(name) = after {
                let (changes, next) = self.part(&existing.declared, kind, &name);
                let last = next.is_none() && kinds.peek().is_none() && only_declared;
                if last || !changes.is_empty() {
                    let header = last.then(|| self.header());
                    self.send(proto::WatchResponse {
                        header,
                        changes,
                        snapshot: true,
                        ..proto::WatchResponse::default()
                    })
                    .await?;
                }
                after = next;
            }
        }
        if only_declared {
            return Ok(());
        }
        if let Some(wanted) = &self.pins {
            let part = |behind| wanted.existing(&existing.pins, behind);
            self.existing_parts(part, pins::answer).await?;
        }
        if let Some(wanted) = &self.decisions {
            let part = |behind| wanted.existing(&existing.measured, behind);
            self.existing_parts(part, decisions::answer).await?;
        }
        if let Some(routes) = &self.routes {
            self.existing_routes(routes).await?;
        }
        self.send(proto::WatchResponse {
            header: Some(self.header()),
            snapshot: true,
            ..proto::WatchResponse::default()
        })
        .await
    }

    /// Streams what exists of one kind of message, without the header. `part` gives the changes behind a place, or the first ones, and
    /// the place to go on behind; `answer` makes an answer of them.
    async fn existing_parts<Change, Place>(
        &self,
        part: impl Fn(Option<Place>) -> (Vec<Change>, Option<Place>),
        answer: impl Fn(Vec<Change>) -> proto::WatchResponse,
    ) -> Result<(), End> {
        let mut behind = None;
        loop {
            let (changes, next) = part(behind);
            if !changes.is_empty() {
                self.send_existing(answer(changes)).await?;
            }
            if next.is_none() {
                return Ok(());
            }
            behind = next;
        }
    }

    /// Streams the routes that exist, without the header. A route that changes meanwhile is streamed again.
    async fn existing_routes(&self, routes: &Routes) -> Result<(), End> {
        let mut place = Some(0);
        while let Some(at) = place {
            let existing = routes.existing(&self.tables, at).await;
            let (changes, next) = existing.map_err(End::Refused)?;
            for part in parts(changes) {
                self.send_existing(routes::answer(part)).await?;
            }
            place = next;
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
        let facts = declared.topology().facts_after(kind, name);
        let wanted = facts.filter(|fact| self.filter.wants(fact));
        filled(wanted, filter::existing, |fact| fact.name().to_owned())
    }

    /// Streams what changes.
    async fn follow(&mut self) -> Result<(), End> {
        let mut due = Instant::now() + self.progress;
        let leaderless = leaderless(self.group.clone());
        tokio::pin!(leaderless);
        loop {
            self.bells.mark();
            let since = self.news_since()?;
            let unagreed = self.unagreed.changes().map_err(End::Refused)?;
            let more = since.more;
            let mut answer = self.last_parts(since, unagreed).await?;
            if is_news(&answer) || Instant::now() >= due {
                answer.header = Some(self.header());
                self.send(answer).await?;
                due = Instant::now() + self.progress;
            }
            if more {
                continue;
            }
            tokio::select! {
                rung = self.bells.ring() => rung?,
                () = sleep_until(due) => {}
                () = self.answers.closed() => return Err(End::Gone),
                () = &mut leaderless => return Err(End::Refused(refusal::no_leader())),
            }
        }
    }

    /// Streams all parts but the last of each kind, and makes an answer of those: routes of one look may be many, and so may all else
    /// be that does not have to come in one answer.
    async fn last_parts(
        &self,
        since: Since,
        unagreed: unagreed::Changes,
    ) -> Result<proto::WatchResponse, End> {
        let declared = |changes| proto::WatchResponse {
            changes,
            ..proto::WatchResponse::default()
        };
        let changes = self.all_but_last(since.changes, declared).await?;
        let repinned = since.repinned.into_iter();
        let repinned = repinned.filter_map(|it| pins::change(&it));
        let pin_changes = self.all_but_last(repinned, pins::answer).await?;
        let routes = self.all_but_last(since.routes, routes::answer);
        let route_changes = routes.await?;
        let decisions = self.all_but_last(since.decisions, decisions::answer);
        let decision_changes = decisions.await?;
        let peer_snapshot = unagreed.peers.is_all;
        let part = |changes| unagreed::peers(changes, peer_snapshot);
        let peers = self.all_but_last(unagreed.peers.messages(), part);
        let peer_changes = peers.await?;
        let job_plan_snapshot = unagreed.job_plans.is_all;
        let part = |changes| unagreed::job_plans(changes, job_plan_snapshot);
        let plans = self.all_but_last(unagreed.job_plans.messages(), part);
        let job_plan_changes = plans.await?;
        let link_status_snapshot = unagreed.link_statuses.is_all;
        let part = |changes| unagreed::link_statuses(changes, link_status_snapshot);
        let links = self.all_but_last(unagreed.link_statuses.messages(), part);
        let link_status_changes = links.await?;
        Ok(proto::WatchResponse {
            changes,
            route_changes,
            peer_changes,
            peer_snapshot,
            pin_changes,
            decision_changes,
            job_plan_changes,
            job_plan_snapshot,
            link_status_changes,
            link_status_snapshot,
            ..proto::WatchResponse::default()
        })
    }

    /// Streams changes part by part, and returns the last part: that goes with the header. `answer` makes an answer of a part.
    async fn all_but_last<Change: prost::Message>(
        &self,
        changes: impl IntoIterator<Item = Change>,
        answer: impl Fn(Vec<Change>) -> proto::WatchResponse,
    ) -> Result<Vec<Change>, End> {
        let mut last = Vec::new();
        for part in parts(changes) {
            let before = std::mem::replace(&mut last, part);
            if !before.is_empty() {
                self.send(answer(before)).await?;
            }
        }
        Ok(last)
    }

    /// What happened since it was asked for last.
    fn news_since(&mut self) -> Result<Since, Compacted> {
        let part = self.history.after(self.revision, CHANGES_MAX)?;
        let changes = part.changes.iter();
        let changes = changes.filter_map(|it| self.filter.change(it)).collect();
        let repinned = match &self.pins {
            Some(wanted) => {
                let history = self.shared.reflection.pins();
                wanted.of(history.between(self.revision, part.revision)?)
            }
            None => Vec::new(),
        };
        let decisions = match &self.decisions {
            Some(wanted) => {
                let history = self.shared.reflection.decisions();
                wanted.of(&history.between(self.revision, part.revision)?)
            }
            None => Vec::new(),
        };
        // After the revision was read: every route up to it is among them.
        let news = Arc::clone(self.news());
        let routes = match &mut self.routes {
            Some(routes) => routes.changes(&news)?,
            None => Vec::new(),
        };
        self.revision = part.revision;
        Ok(Since {
            changes,
            repinned,
            decisions,
            routes,
            more: part.more,
        })
    }

    /// Sends a part of what exists.
    async fn send_existing(&self, answer: proto::WatchResponse) -> Result<(), End> {
        self.send(proto::WatchResponse {
            snapshot: true,
            ..answer
        })
        .await
    }

    async fn send(&self, answer: proto::WatchResponse) -> Result<(), End> {
        match timeout(PATIENCE, self.answers.send(Ok(answer))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => Err(End::Refused(refusal::watcher_too_slow())),
        }
    }

    fn news(&self) -> &Arc<News> {
        self.shared.reflection.news()
    }

    fn header(&self) -> proto::ResponseHeader {
        let leader = self.group.borrow().status.leader;
        header::from(self.shared.replica, leader, self.revision)
    }
}

/// What a watcher listens to.
struct Bells {
    declared: watch::Receiver<()>,
    routes: Option<watch::Receiver<()>>,
    pins: Option<watch::Receiver<()>>,
    decisions: Option<watch::Receiver<()>>,
    unagreed: unagreed::Bells,
}

impl Bells {
    /// Everything that has rung so far is looked at now.
    fn mark(&mut self) {
        self.declared.borrow_and_update();
        let others = [&mut self.routes, &mut self.pins, &mut self.decisions];
        let unagreed = self.unagreed.iter_mut();
        others
            .into_iter()
            .chain(unagreed)
            .flatten()
            .for_each(|bell| {
                bell.borrow_and_update();
            });
    }

    /// Waits until something rings.
    async fn ring(&mut self) -> Result<(), End> {
        async fn other(bell: &mut Option<watch::Receiver<()>>) -> Result<(), RecvError> {
            match bell {
                Some(bell) => bell.changed().await,
                None => std::future::pending().await,
            }
        }
        let [peers, job_plans, link_statuses] = &mut self.unagreed;
        let rung = tokio::select! {
            rung = self.declared.changed() => rung,
            rung = other(&mut self.routes) => rung,
            rung = other(&mut self.pins) => rung,
            rung = other(&mut self.decisions) => rung,
            rung = other(peers) => rung,
            rung = other(job_plans) => rung,
            rung = other(link_statuses) => rung,
        };
        rung.map_err(|_| End::Gone)
    }
}

/// A bell that rings when another one did, and then rests: changes that come close together make one answer.
fn gathered(mut bell: watch::Receiver<()>) -> watch::Sender<()> {
    let sender = watch::Sender::new(());
    let rung = sender.clone();
    tokio::spawn(async move {
        while bell.changed().await.is_ok() {
            rung.send_replace(());
            sleep(GATHERED).await;
        }
    });
    sender
}

/// As many changes at a time as fit into an answer: no part is empty. They are taken as they are asked for.
fn parts<Change: prost::Message>(
    changes: impl IntoIterator<Item = Change>,
) -> impl Iterator<Item = Vec<Change>> {
    let mut changes = changes.into_iter();
    std::iter::from_fn(move || {
        let (mut part, mut octets) = (Vec::new(), 0);
        while octets < PART_OCTETS
            && let Some(change) = changes.next()
        {
            octets += change.encoded_len();
            part.push(change);
        }
        (!part.is_empty()).then_some(part)
    })
}

/// Writes what exists until an answer is full, and names the place to go on behind; None: there is no more.
fn filled<T, Change: prost::Message, Place>(
    existing: impl Iterator<Item = T>,
    written: impl Fn(&T) -> Change,
    place: impl Fn(T) -> Place,
) -> (Vec<Change>, Option<Place>) {
    let (mut changes, mut octets) = (Vec::new(), 0);
    for one in existing {
        let change = written(&one);
        octets += change.encoded_len();
        changes.push(change);
        if octets > PART_OCTETS {
            return (changes, Some(place(one)));
        }
    }
    (changes, None)
}

/// What is there after a change, or was before it was deleted, and the type of the change; None: there was nothing, and is nothing.
fn became<T>(before: Option<T>, after: Option<T>) -> Option<(T, proto::ChangeType)> {
    match (before, after) {
        (None, Some(after)) => Some((after, proto::ChangeType::Created)),
        (Some(_), Some(after)) => Some((after, proto::ChangeType::Updated)),
        (Some(before), None) => Some((before, proto::ChangeType::Deleted)),
        (None, None) => None,
    }
}

/// Whether an answer says more than up to where it is.
fn is_news(answer: &proto::WatchResponse) -> bool {
    let nothing = answer.changes.is_empty()
        && answer.route_changes.is_empty()
        && answer.peer_changes.is_empty()
        && answer.pin_changes.is_empty()
        && answer.decision_changes.is_empty()
        && answer.job_plan_changes.is_empty()
        && answer.link_status_changes.is_empty();
    let begins = answer.peer_snapshot || answer.job_plan_snapshot || answer.link_status_snapshot;
    begins || !nothing
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
fn progress(wanted: Option<prost_types::Duration>, faults: &mut InvalidFabric) -> Duration {
    let read = wanted.map_or(Ok(PROGRESS), Duration::try_from).ok();
    let read = read.filter(|read| (PROGRESS_MIN..=PROGRESS_MAX).contains(read));
    read.unwrap_or_else(|| {
        faults.fault("progress_interval", "not between 0.1 s and 1 h");
        PROGRESS
    })
}

/// Each takes a task and some KiB.
pub(crate) const WATCHERS_MAX: usize = 10_000;
/// Answers that wait for a client beside those that its connection holds.
const ANSWERS_MAX: usize = 1;
/// Changes of an answer, unless one revision has more.
const CHANGES_MAX: usize = 500;
/// Octets of a part of a snapshot, about.
const PART_OCTETS: usize = 1 << 18;
/// A client that takes nothing for so long is cut.
pub(in crate::operator) const PATIENCE: Duration =
    Duration::from_secs(if cfg!(test) { 2 } else { 30 });
/// What is added to the time from a commit to a client at most, so that thousands of changes a second are some hundred
/// answers.
const GATHERED: Duration = Duration::from_millis(20);
/// What another replica said that it has applied is here within a moment.
const REACHED: Duration = Duration::from_secs(1);
/// An election takes about a second.
const LEADERLESS: Duration = Duration::from_secs(5);
const PROGRESS: Duration = Duration::from_secs(10);
const PROGRESS_MIN: Duration = Duration::from_millis(100);
const PROGRESS_MAX: Duration = Duration::from_secs(3600);
