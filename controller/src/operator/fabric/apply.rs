//! Makes the fabric what a client declares as a whole: reads the declaration from its stream, checks it, and writes what
//! differs. Knows no octet of a fact.

use std::hash::Hasher;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, Streaming};
use weft_proto::v1 as proto;

use super::super::access::Identity;
use super::super::{once, refusal};
use super::change::{self, Changes, Known, Made};
use crate::fabric::fact::{LABELS_MAX, Labels};
use crate::fabric::topology::{Change, Declaration, InvalidFabric, Kind, Topology};
use crate::ledger::{self, FactKey, Head, RequestId};

/// Where answers go.
pub(super) type Answers = mpsc::Sender<Result<proto::ApplyFabricResponse, Status>>;

/// What a client declares.
struct Wanted {
    declaration: Declaration,
    validate_only: bool,
    generation: Option<u64>,
    /// What its client calls it.
    id: Option<RequestId>,
    /// What is wrong beside the declaration.
    faults: InvalidFabric,
}

impl Wanted {
    /// Reads the stream to its end.
    async fn read(mut stream: Streaming<proto::ApplyFabricRequest>) -> Result<Self, Status> {
        let first = stream.message().await.map_err(refusal::unread)?;
        let first = first.ok_or_else(|| refusal::field("display_name", "missing"))?;
        let mut faults = InvalidFabric::default();
        let mut wanted = Self {
            validate_only: first.validate_only,
            generation: first.generation,
            id: once::id(&first.request_id, &mut faults),
            faults,
            declaration: Declaration {
                display_name: first.display_name.clone(),
                ..Declaration::default()
            },
        };
        let id = first.request_id.clone();
        let (mut octets, mut part) = (0, Some(first));
        while let Some(it) = part {
            octets += it.encoded_len();
            wanted.agrees_with(&it)?;
            if !it.request_id.is_empty() && it.request_id != id {
                return Err(refusal::field("request_id", "not as in the first part"));
            }
            if octets > OCTETS_MAX {
                let reason = format!("more than {OCTETS_MAX} octets");
                return Err(refusal::field("", reason));
            }
            labels_bounded(&wanted.declaration, &it)?;
            let into = &mut wanted.declaration;
            into.switches.extend(it.switches);
            into.hosts.extend(it.hosts);
            into.links.extend(it.links);
            into.host_ports.extend(it.host_ports);
            into.bounded().map_err(|faults| refusal::invalid(&faults))?;
            part = stream.message().await.map_err(refusal::unread)?;
        }
        Ok(wanted)
    }

    /// Refuses a part that says something else of the whole than the first one.
    fn agrees_with(&self, part: &proto::ApplyFabricRequest) -> Result<(), Status> {
        let name = &part.display_name;
        let other = match part {
            _ if !name.is_empty() && *name != self.declaration.display_name => "display_name",
            _ if part.validate_only && !self.validate_only => "validate_only",
            _ if part.generation.is_some() && part.generation != self.generation => "generation",
            _ => return Ok(()),
        };
        Err(refusal::field(other, "not as in the first part"))
    }
}

/// Refuses a fact with too many labels before the next part is read: each takes ten times its octets in memory.
fn labels_bounded(sofar: &Declaration, part: &proto::ApplyFabricRequest) -> Result<(), Status> {
    let many = |labels: &Labels| labels.len() > LABELS_MAX;
    let switch = part.switches.iter().position(|it| many(&it.labels));
    let host = part.hosts.iter().position(|it| many(&it.labels));
    let link = part.links.iter().position(|it| many(&it.labels));
    let port = part.host_ports.iter().position(|it| many(&it.labels));
    let found = [
        (Kind::Switch, sofar.switches.len(), switch),
        (Kind::Host, sofar.hosts.len(), host),
        (Kind::Link, sofar.links.len(), link),
        (Kind::HostPort, sofar.host_ports.len(), port),
    ];
    for (kind, before, at) in found {
        if let Some(at) = at {
            let field = format!("{}[{}].labels", kind.field(), before + at);
            return Err(refusal::field(
                &field,
                format_args!("more than {LABELS_MAX}"),
            ));
        }
    }
    Ok(())
}

/// Reads a declaration and writes what differs from it; each batch is answered when it is written.
pub(super) async fn answered(
    changes: &Changes,
    stream: Streaming<proto::ApplyFabricRequest>,
    by: Identity,
    answers: Answers,
) {
    let mut client = Client(Some(answers));
    let wanted = timeout(READ_TIMEOUT, Wanted::read(stream)).await;
    let made = match wanted {
        Ok(Ok(wanted)) => made(changes, wanted, by, &mut client).await,
        Ok(Err(refused)) => Err(refused),
        Err(_) => Err(refusal::endless_stream(READ_TIMEOUT)),
    };
    if let Err(refused) = made {
        client.tell(Err(refused)).await;
    }
}

/// Makes the fabric what is wanted. Once something is written, only a minute without a majority ends it before it is whole.
async fn made(
    changes: &Changes,
    wanted: Wanted,
    by: Identity,
    client: &mut Client,
) -> Result<(), Status> {
    let mut application = Application::new(wanted, changes.mark()).await?;
    for attempt in 0..ATTEMPTS_MAX {
        if attempt > 0 && !application.validate_only && application.generation.is_none() {
            // Others are faster than the comparison of two fabrics: they wait from now on.
            application.begun |= locked(changes, application.mark).await;
        }
        if application.attempt(changes, by, client).await? {
            return Ok(());
        }
    }
    Err(match application.begun {
        true => refusal::incomplete("others changed the fabric again and again"),
        false => refusal::busy(),
    })
}

/// A declaration that is made the fabric.
struct Application {
    target: Topology,
    validate_only: bool,
    generation: Option<u64>,
    /// What its client calls it, and a hash of its content.
    id: Option<(RequestId, u64)>,
    /// What its batches are known by.
    mark: u64,
    /// Changes that were made so far.
    written: usize,
    /// Something may be written.
    begun: bool,
    /// Changes of which nobody could say whether they were made.
    doubtful: Vec<Change>,
}

impl Application {
    async fn new(wanted: Wanted, mark: u64) -> Result<Self, Status> {
        let checked = off_the_runtime(move || {
            let mut faults = wanted.faults;
            let target = Topology::new(&wanted.declaration);
            let target = target.map_err(|found| faults.faults.extend(found.faults));
            let target = target.ok().filter(|_| faults.is_empty()).ok_or(faults)?;
            let id = wanted.id.filter(|_| !wanted.validate_only);
            Ok(Self {
                id: id.map(|id| (id, content(&target))),
                target,
                validate_only: wanted.validate_only,
                generation: wanted.generation,
                mark,
                written: 0,
                begun: false,
                doubtful: Vec::new(),
            })
        });
        let checked = checked.await?;
        checked.map_err(|faults: InvalidFabric| refusal::invalid(&faults))
    }

    /// Compares, and writes what differs. False: the fabric was changed meanwhile, or nobody can say whether it was.
    async fn attempt(
        &mut self,
        changes: &Changes,
        by: Identity,
        client: &mut Client,
    ) -> Result<bool, Status> {
        let known = match self.begun {
            true => patiently(changes, self.mark).await?,
            false => changes.unlocked(Some(self.mark)).await?,
        };
        if self.made_before(&known)? {
            let end = (known.header, known.declared.topology().generation());
            client.tell_all(&self.doubtful, Some(end)).await;
            return Ok(true);
        }
        let head = known.declared.head();
        // The generation is that of the fabric before the first batch; what is ours grows on from there.
        let ours = head.is_some_and(|head| head.applying == self.mark);
        let whole = head.is_none_or(|head| head.applying == 0);
        let before = known.declared.topology().clone();
        let named = before.display_name() == self.target.display_name();
        let new = self.target.clone();
        let differing = off_the_runtime(move || (before.changes_to(&new), before)).await?;
        let (differing, before) = differing;
        self.resolve(&differing, client).await;
        let same = named && whole && differing.is_empty();
        let generation = before.generation();
        if !same && !ours && self.generation.is_some_and(|it| it != generation) {
            return Err(match self.begun && !whole {
                true => refusal::incomplete("others changed the fabric meanwhile"),
                false => refusal::generation_mismatch(generation),
            });
        }
        // A request that changes nothing is remembered too: it may have to change something when it comes again.
        if self.validate_only || (same && self.id.is_none()) {
            client
                .tell_all(&differing, Some((known.header, generation)))
                .await;
            return Ok(true);
        }
        self.begun |= ours;
        Ok(self.write(changes, known, &differing, by, client).await)
    }

    /// Whether a request of this name was made before.
    fn made_before(&self, known: &Known) -> Result<bool, Status> {
        let Some((id, content)) = self.id else {
            return Ok(false);
        };
        match known.declared.request(id) {
            None => Ok(false),
            Some(made) if made.content == content => Ok(true),
            Some(_) => Err(refusal::request_id_reused()),
        }
    }

    /// Says which doubtful changes were made after all: those that do not differ any more.
    async fn resolve(&mut self, differing: &[Change], client: &mut Client) {
        self.doubtful.retain(|change| !differing.contains(change));
        self.written += self.doubtful.len();
        for part in std::mem::take(&mut self.doubtful).chunks(PART_MAX) {
            client.tell_part(part, None).await;
        }
    }

    /// Writes changes in batches of some hundred KiB. False: the fabric is not as it was, or nobody can say.
    async fn write(
        &mut self,
        changes: &Changes,
        mut known: Known,
        differing: &[Change],
        by: Identity,
        client: &mut Client,
    ) -> bool {
        let mut rest = differing;
        loop {
            let (part, behind) = rest.split_at(part(rest));
            let last = behind.is_empty();
            let head = Head {
                display_name: self.target.display_name().to_owned(),
                applying: if last { 0 } else { self.mark },
                ..change::next(&known.declared)
            };
            let mut batch = change::batch(&known.declared, &head, part);
            if known.upgrading {
                // It takes the place of what the earlier release stored.
                batch.ops.push(ledger::delete(&FactKey::Fabric));
            }
            if let Some((id, content)) = self.id.filter(|_| last) {
                change::remember(&known.declared, &mut batch.ops, &head, id, content);
            }
            let index = match changes.propose(batch).await {
                Made::At(index) => index,
                Made::Overtaken => return false,
                Made::Unknown => {
                    self.begun = true;
                    self.doubtful = part.to_vec();
                    return false;
                }
            };
            self.begun = true;
            self.written += part.len();
            let end = last.then(|| (changes.header(index), head.generation));
            client.tell_part(part, end).await;
            if last {
                let generation = head.generation;
                tracing::info!(%by, changes = self.written, generation, "fabric applied");
                return true;
            }
            known.declared.put_head(Some(head));
            rest = behind;
        }
    }
}

/// How many of these changes make a batch: a client takes what becomes of it in one message.
fn part(changes: &[Change]) -> usize {
    let mut octets = 0;
    let fits = changes.iter().take(PART_MAX).take_while(|change| {
        octets += match change {
            Change::Create(fact) | Change::Update(fact) => fact.encode().len(),
            Change::Delete(_, name) => name.len(),
        };
        octets <= PART_OCTETS
    });
    // One fits by itself.
    fits.count().max(changes.len().min(1))
}

/// Says that the fabric is being written, so that other changes wait; false: that was not said.
async fn locked(changes: &Changes, mark: u64) -> bool {
    let Ok(known) = changes.unlocked(Some(mark)).await else {
        return false;
    };
    let head = known.declared.head();
    if head.is_none_or(|head| head.applying == mark) {
        return false;
    }
    let head = Head {
        applying: mark,
        ..change::next(&known.declared)
    };
    let batch = change::batch(&known.declared, &head, &[]);
    // Where nobody can say, it may be.
    !matches!(changes.propose(batch).await, Made::Overtaken)
}

/// The fabric as it stands, for an application that has begun.
async fn patiently(changes: &Changes, mark: u64) -> Result<Known, Status> {
    let begin = Instant::now();
    loop {
        match changes.unlocked(Some(mark)).await {
            Ok(known) => return Ok(known),
            Err(refused) if begin.elapsed() > PATIENCE => {
                return Err(refusal::incomplete(refused.message()));
            }
            Err(_) => sleep(AGAIN).await,
        }
    }
}

/// Who wants to hear what was changed; None once it takes nothing: it does not hold up its own change.
struct Client(Option<Answers>);

impl Client {
    /// Answers what was changed, in parts.
    async fn tell_all(&mut self, changed: &[Change], end: End) {
        let mut parts = changed.chunks(PART_MAX).peekable();
        if parts.peek().is_none() {
            return self.tell_part(&[], end).await;
        }
        while let Some(part) = parts.next() {
            let end = end.filter(|_| parts.peek().is_none());
            self.tell_part(part, end).await;
        }
    }

    async fn tell_part(&mut self, part: &[Change], end: End) {
        let (header, generation) = end.unzip();
        let answer = proto::ApplyFabricResponse {
            header,
            changes: part.iter().map(Change::to_message).collect(),
            generation,
        };
        self.tell(Ok(answer)).await;
    }

    async fn tell(&mut self, answer: Result<proto::ApplyFabricResponse, Status>) {
        if let Some(answers) = &self.0
            && timeout(TELL_TIMEOUT, answers.send(answer)).await.is_err()
        {
            // A later part without this one would be a lie.
            self.0 = None;
        }
    }
}

/// A hash of what is declared, however it was divided, in whatever order it came, and for whatever generation.
fn content(target: &Topology) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(target.display_name().as_bytes());
    for fact in target.facts() {
        hasher.write(&fact.encode());
    }
    hasher.finish()
}

/// What the last part of an answer says of the whole.
type End = Option<(proto::ResponseHeader, u64)>;

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| refusal::defect())
}

impl Declaration {
    /// Whether it is not too much to go on reading.
    fn bounded(&self) -> Result<(), InvalidFabric> {
        let counts = [
            (Kind::Switch, self.switches.len()),
            (Kind::Host, self.hosts.len()),
            (Kind::Link, self.links.len()),
            (Kind::HostPort, self.host_ports.len()),
        ];
        let over = counts
            .into_iter()
            .find(|(kind, count)| *count > Topology::most(*kind));
        over.map_or(Ok(()), |(kind, count)| {
            let reason = format!("{count} entries, at most {}", Topology::most(kind));
            Err(InvalidFabric::of(kind.field(), reason))
        })
    }
}

/// Octets of a declaration: the most links and host ports that there can be, with their addresses, are a half of it.
const OCTETS_MAX: usize = 256 << 20;
/// Some hundred KiB of facts: the log goes on between two of them.
const PART_MAX: usize = 400;
/// A fact has 12 KiB at most, with all its labels; a watcher hears a batch in one answer.
const PART_OCTETS: usize = 512 << 10;
/// As for a single change; each may wait for a new leader.
const ATTEMPTS_MAX: usize = 64;
/// A client that does not end its declaration by then holds one of few places.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// A client that does not read its answers does not hold up its own change for longer.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Without a majority for so long, what is written of a declaration stays a part of it.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(200);
