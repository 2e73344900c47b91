//! Applies a declaration as a whole: reads it from its stream, compares it with the fabric, and writes what differs. Knows no octet
//! of a fact.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use weft_proto::v1 as proto;
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_store::{Condition, Op};

use super::super::access::Identity;
use super::super::{once, refusal};
use super::change::{self, Changes, Known, Made, off_the_runtime};
use super::leader::{self, Leader};
use super::stage::{self, BATCH_OCTETS, Stage};
use crate::door::bounds::PART_PATIENCE;
use crate::fabric::declared::Edit;
use crate::fabric::fact::{LABELS_MAX, Labels};
use crate::fabric::topology::{Change, Declaration, InvalidFabric, Kind, Topology};
use crate::ledger::{FactPrefix, Head, RequestId};

/// Where answers go.
pub(super) type Answers = mpsc::Sender<Result<proto::ApplyFabricResponse, Status>>;

/// The first part of a declaration and the stream of the others.
pub(super) type Parts = (
    Option<proto::ApplyFabricRequest>,
    Streaming<proto::ApplyFabricRequest>,
);

/// What a client declares.
struct Wanted {
    declaration: Declaration,
    validate_only: bool,
    prune: bool,
    force: bool,
    rename: bool,
    generation: Option<u64>,
    /// The request id, as the client sent it.
    request_id: String,
    id: Option<RequestId>,
    /// What is wrong beside the declaration.
    faults: InvalidFabric,
}

impl Wanted {
    /// Reads the stream after its first part to its end.
    async fn read((first, mut stream): Parts) -> Result<Self, Status> {
        let first = first.ok_or_else(|| refusal::field("display_name", "missing"))?;
        let mut faults = InvalidFabric::default();
        let mut wanted = Self {
            validate_only: first.validate_only,
            prune: first.prune,
            force: first.force,
            rename: first.rename,
            generation: first.generation,
            id: once::id(&first.request_id, &mut faults),
            request_id: first.request_id.clone(),
            faults,
            declaration: Declaration {
                display_name: first.display_name.clone(),
                ..Declaration::default()
            },
        };
        let (mut octets, mut part) = (0, Some(first));
        while let Some(it) = part {
            octets += it.encoded_len();
            wanted.agrees_with(&it)?;
            if !it.request_id.is_empty() && it.request_id != wanted.request_id {
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
            part = self::part(&mut stream).await?;
        }
        Ok(wanted)
    }

    /// Refuses a part that says something else of the whole than the first one.
    fn agrees_with(&self, part: &proto::ApplyFabricRequest) -> Result<(), Status> {
        let name = &part.display_name;
        let other = match part {
            _ if !name.is_empty() && *name != self.declaration.display_name => "display_name",
            _ if part.validate_only && !self.validate_only => "validate_only",
            _ if part.prune && !self.prune => "prune",
            _ if part.force && !self.force => "force",
            _ if part.rename && !self.rename => "rename",
            _ if part.generation.is_some() && part.generation != self.generation => "generation",
            _ => return Ok(()),
        };
        Err(refusal::field(other, "not as in the first part"))
    }

    /// The parts of a stream that declares the same.
    fn into_parts(self) -> Vec<proto::ApplyFabricRequest> {
        let first = proto::ApplyFabricRequest {
            display_name: self.declaration.display_name,
            validate_only: self.validate_only,
            generation: self.generation,
            request_id: self.request_id,
            prune: self.prune,
            force: self.force,
            rename: self.rename,
            ..proto::ApplyFabricRequest::default()
        };
        let mut parts = vec![first];
        let part = proto::ApplyFabricRequest::default;
        for switches in chunks(self.declaration.switches) {
            parts.push(proto::ApplyFabricRequest { switches, ..part() });
        }
        for hosts in chunks(self.declaration.hosts) {
            parts.push(proto::ApplyFabricRequest { hosts, ..part() });
        }
        for links in chunks(self.declaration.links) {
            parts.push(proto::ApplyFabricRequest { links, ..part() });
        }
        for host_ports in chunks(self.declaration.host_ports) {
            parts.push(proto::ApplyFabricRequest {
                host_ports,
                ..part()
            });
        }
        parts
    }

    /// Compares the declaration with a fabric.
    fn compare(&self, before: &Topology) -> Result<Compared, Status> {
        let applied = before.declared(&self.declaration, self.prune);
        let mut faults = self.faults.clone();
        let applied = applied.map_err(|found| faults.faults.extend(found.faults));
        let applied = applied.ok().filter(|_| faults.is_empty());
        let applied = applied.ok_or_else(|| refusal::invalid(&faults))?;
        Ok(Compared {
            changes: before.changes_to(&applied.topology),
            target: applied.topology,
            unnamed: applied.unnamed,
        })
    }
}

/// Resources in parts of a stream.
fn chunks<R>(resources: Vec<R>) -> impl Iterator<Item = Vec<R>> {
    let mut rest = resources.into_iter();
    std::iter::from_fn(move || {
        let some: Vec<R> = rest.by_ref().take(RESOURCES_MAX).collect();
        (!some.is_empty()).then_some(some)
    })
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

/// Reads the next part of a declaration.
///
/// # Errors
/// DEADLINE_EXCEEDED: it does not come.
pub(super) async fn part(
    stream: &mut Streaming<proto::ApplyFabricRequest>,
) -> Result<Option<proto::ApplyFabricRequest>, Status> {
    let part = timeout(PART_PATIENCE, stream.message()).await;
    let part = part.map_err(|_| refusal::slow_part(PART_PATIENCE))?;
    part.map_err(refusal::unread)
}

/// Reads a declaration and applies it: here, or at the leader.
pub(super) async fn answered(
    changes: &Changes,
    way: &Leader,
    parts: Parts,
    by: Identity,
    answers: Answers,
) {
    let mut client = Client(Some(answers));
    let wanted = timeout(READ_TIMEOUT, Wanted::read(parts)).await;
    let made = match wanted {
        Ok(Ok(wanted)) => match way.elsewhere() {
            Ok(None) => made(changes, wanted, by, &mut client).await,
            Ok(Some(leader)) => handed_on(leader, wanted, by, &mut client).await,
            Err(refused) => Err(refused),
        },
        Ok(Err(refused)) => Err(refused),
        Err(_) => Err(refusal::endless_stream(READ_TIMEOUT)),
    };
    if let Err(refused) = made {
        client.tell(Err(refused)).await;
    }
}

/// Hands a declaration that was read to its end on to the leader, and its answer to the client.
async fn handed_on(
    mut leader: FabricServiceClient<Channel>,
    wanted: Wanted,
    by: Identity,
    client: &mut Client,
) -> Result<(), Status> {
    refusal::check(&wanted.faults)?;
    let parts = by.hand_on(tokio_stream::iter(wanted.into_parts()));
    let answer = leader.apply_fabric(parts).await;
    let mut answer = answer.map_err(leader::refused)?.into_inner();
    while let Some(part) = answer.message().await.map_err(leader::refused)? {
        client.tell(Ok(part)).await;
    }
    Ok(())
}

/// Applies a declaration.
async fn made(
    changes: &Changes,
    wanted: Wanted,
    by: Identity,
    client: &mut Client,
) -> Result<(), Status> {
    let mut application = Application::new(wanted).await?;
    let mut turn = None;
    let mut refused = refusal::busy();
    for _ in 0..ATTEMPTS_MAX {
        match application.attempt(changes, by).await {
            Ok(None) => {}
            Ok(Some(done)) => {
                // One that is in force has no mark any more, and stays.
                application.stage.abandon(changes).await;
                return client.tell_all(done).await;
            }
            Err(why) => {
                refused = why;
                break;
            }
        }
        // Others are faster than the comparison of two fabrics: those of this replica wait from now on.
        if turn.is_none() {
            turn = Some(changes.turn().await);
        }
    }
    application.stage.abandon(changes).await;
    Err(if application.doubtful.is_some() {
        refusal::outcome_unknown()
    } else {
        refused
    })
}

/// A declaration that is applied.
struct Application {
    wanted: Arc<Wanted>,
    /// The request id, and a hash of the declaration.
    id: Option<(RequestId, u64)>,
    /// Changes of the last batch of which nobody could say whether it was applied.
    doubtful: Option<Vec<Change>>,
    stage: Stage,
}

/// A comparison of a declaration with the fabric.
struct Compared {
    target: Topology,
    changes: Vec<Change>,
    unnamed: Vec<Change>,
}

/// The outcome of an ApplyFabric.
pub(super) struct Done {
    changes: Vec<Change>,
    would_delete: Vec<Change>,
    edits: Vec<(Kind, String, Edit)>,
    header: proto::ResponseHeader,
    generation: u64,
    /// True if an earlier call with the same request id applied the declaration.
    applied_before: bool,
}

impl Application {
    async fn new(wanted: Wanted) -> Result<Self, Status> {
        if wanted.declaration.is_empty() && !(wanted.prune && wanted.force) {
            refusal::check(&wanted.faults)?;
            return Err(refusal::nothing_declared());
        }
        let wanted = Arc::new(wanted);
        let hashed = Arc::clone(&wanted);
        let content = off_the_runtime(move || content(&hashed)).await?;
        let id = wanted.id.filter(|_| !wanted.validate_only);
        Ok(Self {
            id: id.map(|id| (id, content)),
            wanted,
            doubtful: None,
            stage: Stage::default(),
        })
    }

    /// Compares, and writes the differences. None: the fabric was changed meanwhile, or nobody can say whether it was.
    async fn attempt(&mut self, changes: &Changes, by: Identity) -> Result<Option<Done>, Status> {
        let known = changes.known().await?;
        let before = known.declared.topology();
        if let Some((id, content)) = self.id
            && change::is_made(&known.declared, id, content)?
        {
            let applied_before = self.doubtful.is_none();
            let changes = self.doubtful.take().unwrap_or_default();
            return Ok(Some(Done {
                applied_before,
                ..self.done(&known, changes, Vec::new())
            }));
        }
        self.check_name(before)?;
        let (old, wanted) = (before.clone(), Arc::clone(&self.wanted));
        let compared = off_the_runtime(move || wanted.compare(&old)).await??;
        let named = before.display_name() == compared.target.display_name();
        let same = named && compared.changes.is_empty();
        if same
            && self.id.is_none()
            && let Some(changes) = self.doubtful.take()
        {
            // The batch was applied after all.
            return Ok(Some(self.done(&known, changes, compared.unnamed)));
        }
        let generation = before.generation();
        if !same && self.wanted.generation.is_some_and(|it| it != generation) {
            return Err(refusal::generation_mismatch(generation));
        }
        let term = changes
            .guard(before, &compared.target, self.wanted.force)
            .await?;
        match self.id {
            _ if self.wanted.validate_only => {}
            Some(id) if same => return self.note(changes, &known, id, compared.unnamed).await,
            None if same => {}
            _ => return self.write(changes, &known, compared, term, by).await,
        }
        Ok(Some(self.done(&known, compared.changes, compared.unnamed)))
    }

    /// Remembers the request of a declaration from which nothing differs. The generation stays, and so do the edits since the
    /// last declaration that changed something.
    async fn note(
        &mut self,
        changes: &Changes,
        known: &Known,
        (id, content): (RequestId, u64),
        unnamed: Vec<Change>,
    ) -> Result<Option<Done>, Status> {
        let batch = change::unchanged(&known.declared, Kind::Switch, id, content);
        let index = match changes.propose(batch).await? {
            Made::At(index) => index,
            Made::Overtaken => return Ok(None),
            Made::Unknown => {
                self.doubtful = Some(Vec::new());
                return Ok(None);
            }
        };
        let mut done = self.done(known, Vec::new(), unnamed);
        done.header = changes.header(index);
        Ok(Some(done))
    }

    /// Refuses the declaration of another fabric.
    fn check_name(&self, before: &Topology) -> Result<(), Status> {
        let (declared, name) = (
            before.display_name(),
            &*self.wanted.declaration.display_name,
        );
        let is_nameless = declared.is_empty() || declared == change::UNNAMED;
        if is_nameless || declared == name || self.wanted.rename {
            return Ok(());
        }
        Err(refusal::other_fabric(declared, name))
    }

    /// Writes the differences: in one batch, or into a slot that one batch puts in force.
    async fn write(
        &mut self,
        changes: &Changes,
        known: &Known,
        compared: Compared,
        mut term: Option<u64>,
        by: Identity,
    ) -> Result<Option<Done>, Status> {
        let Compared {
            target,
            changes: differing,
            unnamed,
        } = compared;
        let declared = &known.declared;
        let mut head = Head {
            display_name: target.display_name().to_owned(),
            ..change::next(declared)
        };
        let octets: usize = differing.iter().map(stage::octets_of).sum();
        let mut batch = if octets <= BATCH_OCTETS {
            change::batch(declared, &head, &differing)
        } else {
            self.stage.write(changes, declared, &target).await?;
            // Links may have gone down while it was written.
            let before = declared.topology();
            term = changes.guard(before, &target, self.wanted.force).await?;
            self.stage.switch(declared, &mut head, &differing)
        };
        batch.conditions.extend(term.map(Condition::Term));
        batch.ops.push(Op::DeletePrefix {
            prefix: FactPrefix::Edits.encode(),
        });
        if let Some((id, content)) = self.id {
            change::remember(declared, &mut batch.ops, &head, id, content);
        }
        let index = match changes.propose(batch).await? {
            Made::At(index) => index,
            Made::Overtaken => return Ok(None),
            Made::Unknown => {
                self.doubtful = Some(differing);
                return Ok(None);
            }
        };
        let (count, generation) = (differing.len(), head.generation);
        tracing::info!(%by, changes = count, generation, "fabric applied");
        let mut done = self.done(known, differing, unnamed);
        (done.header, done.generation) = (changes.header(index), generation);
        Ok(Some(done))
    }

    fn done(&self, known: &Known, changes: Vec<Change>, unnamed: Vec<Change>) -> Done {
        let wanted = &self.wanted;
        let edits = known.declared.edits();
        let edits = edits.filter(|_| wanted.generation.is_none());
        Done {
            changes,
            would_delete: if wanted.prune { Vec::new() } else { unnamed },
            edits: edits
                .map(|(kind, name, edit)| (kind, name.to_owned(), edit))
                .collect(),
            header: known.header,
            generation: known.declared.topology().generation(),
            applied_before: false,
        }
    }
}

/// The receiver of the answer; None once it takes nothing.
struct Client(Option<Answers>);

impl Client {
    /// Answers in parts, the last one with the header.
    async fn tell_all(&mut self, done: Done) -> Result<(), Status> {
        let mut changes = done.changes.iter().map(Change::to_message);
        let mut would_delete = done.would_delete.iter().map(Change::to_message);
        let mut edits = done.edits.iter().map(edited);
        loop {
            let part = proto::ApplyFabricResponse {
                changes: changes.by_ref().take(PART_MAX).collect(),
                would_delete: would_delete.by_ref().take(PART_MAX).collect(),
                changed_since_apply: edits.by_ref().take(PART_MAX).collect(),
                ..proto::ApplyFabricResponse::default()
            };
            if changes.len() + would_delete.len() + edits.len() > 0 {
                self.tell(Ok(part)).await;
                continue;
            }
            self.tell(Ok(proto::ApplyFabricResponse {
                header: Some(done.header),
                generation: Some(done.generation),
                changed_since_apply_truncated: done.edits.len() >= change::EDITS_MAX,
                applied_before: done.applied_before,
                ..part
            }))
            .await;
            return Ok(());
        }
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

/// An edit, as the API has it.
fn edited((kind, name, edit): &(Kind, String, Edit)) -> proto::ResourceChange {
    let change_type = match edit {
        Edit::Created => proto::ChangeType::Created,
        Edit::Updated => proto::ChangeType::Updated,
        Edit::Deleted => proto::ChangeType::Deleted,
    };
    proto::ResourceChange {
        kind: kind.to_message().into(),
        name: name.clone(),
        change_type: change_type.into(),
        ..proto::ResourceChange::default()
    }
}

/// A hash of a declaration, however it was divided and in whatever order it came, and for whatever generation.
fn content(wanted: &Wanted) -> u64 {
    let declaration = &wanted.declaration;
    let mut hashes = Vec::new();
    let mut add = |kind: Kind, octets: Vec<u8>| {
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(kind.field().as_bytes());
        hasher.write(&octets);
        hashes.push(hasher.finish());
    };
    let (switches, hosts) = (&declaration.switches, &declaration.hosts);
    let (links, ports) = (&declaration.links, &declaration.host_ports);
    switches
        .iter()
        .for_each(|it| add(Kind::Switch, it.encode_to_vec()));
    hosts
        .iter()
        .for_each(|it| add(Kind::Host, it.encode_to_vec()));
    links
        .iter()
        .for_each(|it| add(Kind::Link, it.encode_to_vec()));
    ports
        .iter()
        .for_each(|it| add(Kind::HostPort, it.encode_to_vec()));
    hashes.sort_unstable();
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(declaration.display_name.as_bytes());
    hasher.write(&[wanted.prune, wanted.force, wanted.rename].map(u8::from));
    hashes.iter().for_each(|it| hasher.write_u64(*it));
    hasher.finish()
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
/// Resources in a part that goes to the leader: a resource has 12 KiB at most, with all its labels, and a part 4 MiB.
const RESOURCES_MAX: usize = 256;
/// Changes in a part of an answer.
const PART_MAX: usize = 10_000;
/// As for a single change; each may wait for a new leader.
const ATTEMPTS_MAX: usize = 64;
/// A client that does not end its declaration by then holds one of few places.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// A client that does not read its answers does not hold up others for longer.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);
