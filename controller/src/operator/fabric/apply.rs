//! Makes the fabric what a client declares as a whole: reads the declaration from its stream, checks it, and writes what
//! differs. Knows no octet of a fact.

use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Status, Streaming};
use weft_proto::v1 as proto;

use super::super::access::Identity;
use super::super::refusal;
use super::change::{self, Changes, Known, Made};
use crate::fabric::fact::{LABELS_MAX, Labels};
use crate::fabric::topology::{Change, Declaration, InvalidFabric, Kind, Topology};
use crate::ledger::{self, FactKey, Head};

/// Where answers go.
pub(super) type Answers = mpsc::Sender<Result<proto::ApplyFabricResponse, Status>>;

/// What a client declares.
struct Wanted {
    declaration: Declaration,
    validate_only: bool,
    generation: Option<u64>,
}

impl Wanted {
    /// Reads the stream to its end.
    async fn read(mut stream: Streaming<proto::ApplyFabricRequest>) -> Result<Self, Status> {
        let first = stream.message().await?;
        let first = first.ok_or_else(|| refusal::field("display_name", "missing"))?;
        let mut wanted = Self {
            validate_only: first.validate_only,
            generation: first.generation,
            declaration: Declaration {
                display_name: first.display_name.clone(),
                ..Declaration::default()
            },
        };
        let (mut octets, mut part) = (0, Some(first));
        while let Some(it) = part {
            octets += it.encoded_len();
            wanted.agrees_with(&it)?;
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
            part = stream.message().await?;
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
    let target = off_the_runtime(move || Topology::new(&wanted.declaration)).await?;
    let target = target.map_err(|faults| refusal::invalid(&faults))?;
    let mark = changes.mark();
    let mut written = 0;
    let mut begun = false;
    for attempt in 0..ATTEMPTS_MAX {
        if attempt > 0 && !wanted.validate_only && wanted.generation.is_none() {
            // Others are faster than the comparison of two fabrics: they wait from now on.
            begun |= locked(changes, mark).await;
        }
        let known = match begun {
            true => patiently(changes, mark).await?,
            false => changes.unlocked(Some(mark)).await?,
        };
        let head = known.declared.head();
        // The generation is that of the fabric before the first batch; what is ours grows on from there.
        let ours = head.is_some_and(|head| head.applying == mark);
        let whole = head.is_none_or(|head| head.applying == 0);
        let before = known.declared.topology().clone();
        let named = before.display_name() == target.display_name();
        let new = target.clone();
        let differing = off_the_runtime(move || (before.changes_to(&new), before)).await?;
        let (differing, before) = differing;
        let done = named && whole && differing.is_empty();
        if !done
            && !ours
            && wanted
                .generation
                .is_some_and(|it| it != before.generation())
        {
            return Err(match begun && !whole {
                true => refusal::incomplete("others changed the fabric meanwhile"),
                false => refusal::generation_mismatch(before.generation()),
            });
        }
        if done || wanted.validate_only {
            let header = known.header;
            client
                .tell_all(&differing, Some((header, before.generation())))
                .await;
            return Ok(());
        }
        let name = target.display_name();
        let (made, last) = parts(changes, known, mark, name, &differing, client).await;
        written += made;
        begun |= made > 0 || ours;
        if let Some(generation) = last {
            tracing::info!(%by, changes = written, generation, "fabric applied");
            return Ok(());
        }
    }
    Err(match begun {
        true => refusal::incomplete("others changed the fabric again and again"),
        false => refusal::busy(),
    })
}

/// Says that the fabric is being written, so that other changes wait; false: others were faster again.
async fn locked(changes: &Changes, mark: u64) -> bool {
    let Ok(known) = changes.unlocked(Some(mark)).await else {
        return false;
    };
    if known.upgrading
        || known
            .declared
            .head()
            .is_none_or(|head| head.applying == mark)
    {
        return false;
    }
    let head = Head {
        applying: mark,
        ..change::next(&known.declared)
    };
    let batch = change::batch(&known.declared, &head, &[]);
    matches!(changes.propose(batch).await, Made::At(_))
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

/// Writes changes in batches of some hundred KiB. How many were written; and the generation of the last batch, or None if
/// the fabric is not as it was, or nobody can say.
async fn parts(
    changes: &Changes,
    mut known: Known,
    mark: u64,
    display_name: &str,
    differing: &[Change],
    client: &mut Client,
) -> (usize, Option<u64>) {
    let mut made = 0;
    loop {
        let rest = &differing[made..];
        let part = &rest[..rest.len().min(PART_MAX)];
        let last = part.len() == rest.len();
        let head = Head {
            display_name: display_name.to_owned(),
            applying: if last { 0 } else { mark },
            ..change::next(&known.declared)
        };
        let mut batch = change::batch(&known.declared, &head, part);
        if known.upgrading {
            // It takes the place of what the earlier release stored.
            batch.ops.push(ledger::delete(&FactKey::Fabric));
        }
        let Made::At(index) = changes.propose(batch).await else {
            return (made, None);
        };
        made += part.len();
        let end = last.then(|| (changes.header(index), head.generation));
        client.tell_part(part, end).await;
        if last {
            return (made, Some(head.generation));
        }
        known.declared.put_head(Some(head));
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
            generation: generation.unwrap_or(0),
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
/// Some hundred KiB of facts: the log goes on between two of them. A fact has 12 KiB at most, with all its labels.
const PART_MAX: usize = 400;
/// As for a single change; each may wait for a new leader.
const ATTEMPTS_MAX: usize = 64;
/// A client that does not end its declaration by then holds one of few places.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// A client that does not read its answers does not hold up its own change for longer.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);
/// Without a majority for so long, what is written of a declaration stays a part of it.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(200);
