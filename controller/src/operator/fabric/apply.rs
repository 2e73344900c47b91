//! Makes the fabric what a client declares as a whole: reads the declaration from its stream, checks it, and writes what
//! differs. Knows no octet of a fact.

use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};
use weft_proto::v1 as proto;

use super::super::access::Identity;
use super::super::refusal;
use super::change::{self, Changes, Known, Made};
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
            if octets > OCTETS_MAX {
                let reason = format!("more than {OCTETS_MAX} octets");
                return Err(refusal::field("", reason));
            }
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
}

/// Reads a declaration and writes what differs from it; each batch is answered when it is written.
pub(super) async fn answered(
    changes: &Changes,
    stream: Streaming<proto::ApplyFabricRequest>,
    by: Identity,
    answers: Answers,
) {
    let wanted = timeout(READ_TIMEOUT, Wanted::read(stream)).await;
    let made = match wanted {
        Ok(Ok(wanted)) => made(changes, wanted, by, &answers).await,
        Ok(Err(refused)) => Err(refused),
        Err(_) => Err(Status::deadline_exceeded("the stream does not end")),
    };
    if let Err(refused) = made {
        // A client that has gone does not hear it.
        let _ = answers.send(Err(refused)).await;
    }
}

async fn made(
    changes: &Changes,
    wanted: Wanted,
    by: Identity,
    answers: &Answers,
) -> Result<(), Status> {
    let Wanted {
        declaration,
        validate_only,
        generation,
    } = wanted;
    let target = off_the_runtime(move || Topology::new(&declaration)).await?;
    let target = target.map_err(|faults| refusal::invalid(&faults))?;
    let mark = changes.mark();
    let mut written = 0;
    for _ in 0..ATTEMPTS_MAX {
        let known = changes.unlocked(Some(mark)).await?;
        let before = known.declared.topology().clone();
        let named = before.display_name() == target.display_name();
        let whole = known.declared.head().is_none_or(|head| head.applying == 0);
        let new = target.clone();
        let differing = off_the_runtime(move || (before.changes_to(&new), before)).await?;
        let (differing, before) = differing;
        let done = named && whole && differing.is_empty();
        if !done && generation.is_some_and(|it| it != before.generation()) && !validate_only {
            // What was written of it so far was written for another fabric.
            return Err(refusal::generation_mismatch(before.generation()));
        }
        if done || validate_only {
            let header = known.header;
            tell(answers, &differing, Some((header, before.generation()))).await;
            return Ok(());
        }
        let name = target.display_name();
        let (made, last) = parts(changes, known, mark, name, &differing, answers).await;
        written += made;
        if let Some(generation) = last {
            tracing::info!(%by, changes = written, generation, "fabric applied");
            return Ok(());
        }
    }
    Err(refusal::busy())
}

/// Writes changes in batches of some hundred KiB. How many were written; and the generation of the last batch, or None if
/// the fabric is not as it was, or nobody can say.
async fn parts(
    changes: &Changes,
    mut known: Known,
    mark: u64,
    display_name: &str,
    differing: &[Change],
    answers: &Answers,
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
        tell(answers, part, end).await;
        if last {
            return (made, Some(head.generation));
        }
        known.declared.put_head(Some(head));
    }
}

/// Answers what was changed. A client that has gone, or that takes nothing, changes nothing.
async fn tell(answers: &Answers, changed: &[Change], end: Option<(proto::ResponseHeader, u64)>) {
    let mut parts = changed.chunks(PART_MAX).peekable();
    if parts.peek().is_none() {
        let none: &[Change] = &[];
        return tell_part(answers, none, end).await;
    }
    while let Some(part) = parts.next() {
        let end = end.filter(|_| parts.peek().is_none());
        tell_part(answers, part, end).await;
    }
}

async fn tell_part(answers: &Answers, part: &[Change], end: Option<(proto::ResponseHeader, u64)>) {
    let (header, generation) = end.unzip();
    let answer = proto::ApplyFabricResponse {
        header,
        changes: part.iter().map(Change::to_message).collect(),
        generation: generation.unwrap_or(0),
    };
    let _ = timeout(TELL_TIMEOUT, answers.send(Ok(answer))).await;
}

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

/// Octets of a declaration: half a million links with their addresses are a quarter of it.
const OCTETS_MAX: usize = 256 << 20;
/// Some hundred KiB of facts: the log goes on between two of them. A fact has 12 KiB at most, with all its labels.
const PART_MAX: usize = 400;
/// As for a single change; each may wait for a new leader.
const ATTEMPTS_MAX: usize = 64;
/// A client that says nothing for so long holds one of few places.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// A client that does not read its answers does not hold up its own change for longer.
const TELL_TIMEOUT: Duration = Duration::from_secs(5);
