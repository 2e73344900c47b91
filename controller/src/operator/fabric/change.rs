//! Makes changes of the fabric: each on the condition that the fabric is as it was when the change was decided, so that they
//! come one after the other. Knows neither what a change is nor who decides it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Status;
use weft_proto::v1::ResponseHeader;
use weft_store::{Batch, Condition, Op, Outcome};

use super::super::access::Identity;
use super::super::{agreed, header, look, once, refusal};
use super::guard;
use crate::daemon::switches::led::Led;
use crate::fabric::declared::{Declared, Edit, key_of};
use crate::fabric::fact::{Fact, InvalidFabric};
use crate::fabric::reach;
use crate::fabric::topology::{Change, Kind, Topology};
use crate::ledger::{self, FactKey, Head, Request, RequestId};
use crate::speaker::Shared;

/// Makes changes.
pub(super) struct Changes {
    shared: Arc<Shared>,
    led: Led,
    /// Single changes of this replica come one after the other: only those of others overtake them.
    turn: Arc<Mutex<()>>,
}

/// The declared fabric with everything that was agreed before a call, and up to where.
pub(super) struct Known {
    pub(super) declared: Declared,
    pub(super) header: ResponseHeader,
}

/// A request for a change.
pub(in super::super) struct Asked {
    /// Faults of the request.
    pub(in super::super) faults: InvalidFabric,
    /// The request id, and a hash of the request's content.
    id: Option<(RequestId, u64)>,
    validate_only: bool,
    /// True if leaves may lose their last path to each other.
    force: bool,
    by: Option<Identity>,
}

impl Asked {
    /// `content` is a hash of the request's content.
    pub(super) fn new(request_id: &str, content: u64, validate_only: bool) -> Self {
        let mut faults = InvalidFabric::default();
        let id = once::id(request_id, &mut faults);
        Self {
            faults,
            id: id.map(|id| (id, content)),
            validate_only,
            force: false,
            by: None,
        }
    }

    /// Sets the caller.
    pub(in super::super) fn by(self, by: Identity) -> Self {
        Self {
            by: Some(by),
            ..self
        }
    }

    /// Lets leaves lose their last path to each other.
    pub(super) fn forced(self, force: bool) -> Self {
        Self { force, ..self }
    }
}

impl Changes {
    pub(super) fn new(shared: Arc<Shared>, led: Led) -> Self {
        Self {
            shared,
            led,
            turn: Arc::default(),
        }
    }

    /// Waits until every change of this replica that came before is made.
    pub(super) async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.turn).lock_owned().await)
    }

    /// The declared fabric, with everything that was agreed before the call.
    pub(super) async fn known(&self) -> Result<Known, Status> {
        let index = self.shared.consensus.read_index().await;
        let index = index.ok_or_else(refusal::no_majority)?;
        let look = look::at(&self.shared, index, |reflector| {
            (reflector.control().declared.clone(), reflector.index())
        });
        let (declared, applied) = look.await?;
        Ok(Known {
            declared,
            header: self.header(applied.max(index)),
        })
    }

    /// Refuses a change by which leaves lose their last path to each other. The term that the change was decided in, if it was
    /// decided by what the leader observes.
    pub(super) async fn guard(
        &self,
        before: &Topology,
        after: &Topology,
        force: bool,
    ) -> Result<Option<u64>, Status> {
        if force || !reach::takes_away(before, after) {
            return Ok(None);
        }
        let (before, after, led) = (before.clone(), after.clone(), self.led.clone());
        off_the_runtime(move || guard::decided(&before, &after, || led.links_down())).await?
    }

    /// Makes one change of a kind of facts that is decided from the fabric as it stands; None: nothing has to change. Then the
    /// fabric as it is.
    pub(super) async fn one(
        &self,
        _turn: Turn,
        kind: Kind,
        asked: &Asked,
        decide: impl Fn(&Topology) -> Result<Option<Change>, Status>,
    ) -> Result<(Topology, ResponseHeader), Status> {
        for _ in 0..ATTEMPTS_MAX {
            let Known { declared, header } = self.known().await?;
            if let Some((id, content)) = asked.id
                && is_made(&declared, id, content)?
            {
                return Ok((declared.topology().clone(), header));
            }
            let before = declared.topology();
            let mut topology = before.clone();
            let change = decide(before)?;
            if let Some(change) = &change {
                topology.apply(change);
            }
            let term = self.guard(before, &topology, asked.force).await?;
            if asked.validate_only {
                return Ok((topology, header));
            }
            let mut batch = match (&change, asked.id) {
                (None, None) => return Ok((topology, header)),
                (None, Some((id, content))) => unchanged(&declared, kind, id, content),
                (Some(change), id) => match kind {
                    Kind::Job => of_jobs(&declared, change, id),
                    Kind::Switch | Kind::Host | Kind::Link | Kind::HostPort => {
                        of_fabric(&declared, change, id)
                    }
                },
            };
            batch.conditions.extend(term.map(Condition::Term));
            match self.propose(batch).await? {
                Made::At(index) => {
                    let (name, done) = logged(change.as_ref());
                    tracing::info!(
                        resource = name,
                        by = asked.by.map(tracing::field::display),
                        index,
                        "{} {done}",
                        kind.noun()
                    );
                    return Ok((topology, self.header(index)));
                }
                Made::Overtaken => {}
                Made::Unknown => return Err(refusal::outcome_unknown()),
            }
        }
        Err(refusal::busy())
    }

    /// Proposes a batch that holds only for the fabric as it was.
    ///
    /// # Errors
    /// UNAVAILABLE: the replicas take every proposal of this replica for an old one.
    pub(super) async fn propose(&self, batch: Batch) -> Result<Made, Status> {
        for _ in 0..agreed::SUPERSEDED_MAX {
            match self.shared.consensus.propose(batch.clone()).await {
                Outcome::Applied { index } => return Ok(Made::At(index)),
                Outcome::ConditionFailed { .. } => return Ok(Made::Overtaken),
                Outcome::Superseded => {}
                Outcome::Dropped => return Ok(Made::Unknown),
            }
        }
        Err(refusal::superseded())
    }

    /// The header of an answer that is complete up to an index.
    pub(super) fn header(&self, revision: u64) -> ResponseHeader {
        header::of(&self.shared, revision)
    }
}

/// Does what takes long on a thread that nothing else waits for.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| refusal::defect())
}

/// The right to make the next change of this replica.
pub(super) struct Turn(
    #[expect(dead_code, reason = "held until it is dropped")] OwnedMutexGuard<()>,
);

/// The outcome of a batch.
pub(super) enum Made {
    /// It was applied at this index.
    At(u64),
    /// The fabric is not as it was.
    Overtaken,
    /// Nobody can say.
    Unknown,
}

/// True if a request of this id was made before.
///
/// # Errors
/// The earlier request had other content.
pub(super) fn is_made(declared: &Declared, id: RequestId, content: u64) -> Result<bool, Status> {
    match declared.request(id) {
        None => Ok(false),
        Some(made) if made.content == content => Ok(true),
        Some(_) => Err(refusal::request_id_reused()),
    }
}

/// A request that found nothing to change. The fabric and its generation stay. The request alone is remembered: a copy of it that
/// arrives later, when there is something to change, changes nothing.
pub(super) fn unchanged(declared: &Declared, kind: Kind, id: RequestId, content: u64) -> Batch {
    let mut batch = agreed::remembered(declared, id, content, Vec::new());
    batch.conditions.push(match kind {
        Kind::Job => ledger::count_is(&FactKey::Jobs, declared.jobs()),
        Kind::Switch | Kind::Host | Kind::Link | Kind::HostPort => head_is(declared),
    });
    batch
}

/// One change of the fabric, and the request for it.
fn of_fabric(declared: &Declared, change: &Change, id: Option<(RequestId, u64)>) -> Batch {
    let mut head = next(declared);
    if head.display_name.is_empty() {
        UNNAMED.clone_into(&mut head.display_name);
    }
    let mut batch = batch(declared, &head, std::slice::from_ref(change));
    batch.ops.extend(edit(declared, change));
    if let Some((id, content)) = id {
        remember(declared, &mut batch.ops, &head, id, content);
    }
    batch
}

/// One change of jobs, and the request for it. The fabric's generation stays: whoever declares that is not overtaken by jobs.
fn of_jobs(declared: &Declared, change: &Change, id: Option<(RequestId, u64)>) -> Batch {
    let count = declared.jobs();
    let mut all: Vec<Op> = ops(declared.slot(), change).collect();
    all.push(ledger::put(&FactKey::Jobs, ledger::encode_count(count + 1)));
    let mut batch = match id {
        Some((id, content)) => agreed::remembered(declared, id, content, all),
        None => Batch {
            conditions: Vec::new(),
            ops: all,
        },
    };
    batch
        .conditions
        .push(ledger::count_is(&FactKey::Jobs, count));
    batch
}

/// The fabric as such after a change.
pub(super) fn next(declared: &Declared) -> Head {
    let head = declared.head().cloned().unwrap_or_default();
    Head {
        generation: head.generation + 1,
        ..head
    }
}

/// Changes that are made together if the fabric is as it is in `declared`.
pub(super) fn batch(declared: &Declared, head: &Head, changes: &[Change]) -> Batch {
    let mut ops: Vec<Op> = changes
        .iter()
        .flat_map(|it| ops(declared.slot(), it))
        .collect();
    ops.push(ledger::put(&FactKey::Head, head.encode()));
    Batch {
        conditions: vec![head_is(declared)],
        ops,
    }
}

/// The condition that the fabric is as it is in `declared`.
pub(super) fn head_is(declared: &Declared) -> Condition {
    Condition::Equals {
        key: FactKey::Head.encode(),
        value: declared.head().map(Head::encode),
    }
}

/// A change of one fact in a slot.
fn ops(slot: u64, change: &Change) -> impl Iterator<Item = Op> + use<> {
    let (op, mode) = match change {
        Change::Create(fact) | Change::Update(fact) => (put(slot, fact), None),
        Change::Delete(kind, name) => {
            let key = match kind {
                Kind::Job => FactKey::Job(name),
                kind => FactKey::Declared(slot, *kind, name),
            };
            (ledger::delete(&key), mode(change))
        }
    };
    [op].into_iter().chain(mode)
}

/// Puts one fact in a slot.
pub(super) fn put(slot: u64, fact: &Fact) -> Op {
    Op::Put {
        value: fact.encode(),
        keys: vec![key_of(slot, fact)],
    }
}

/// Deletes the balance mode of a deleted switch: a leaf that is declared again later is not programmed at once because another one
/// of its name was.
pub(super) fn mode(change: &Change) -> Option<Op> {
    match change {
        Change::Delete(Kind::Switch, name) => Some(ledger::delete(&FactKey::Balance(name))),
        Change::Create(_) | Change::Update(_) | Change::Delete(..) => None,
    }
}

/// Notes that a resource differs from what the last ApplyFabric left; None if too many do.
fn edit(declared: &Declared, change: &Change) -> Option<Op> {
    let (kind, name) = change.subject();
    let key = FactKey::Edit(kind, name);
    let before = declared.edit(kind, name);
    let after = match (before, change) {
        (Some(Edit::Created), Change::Delete(..)) => return Some(ledger::delete(&key)),
        (Some(Edit::Created), Change::Create(_) | Change::Update(_)) => Edit::Created,
        (None, Change::Create(_)) => Edit::Created,
        (_, Change::Delete(..)) => Edit::Deleted,
        (Some(Edit::Updated | Edit::Deleted), Change::Create(_)) | (_, Change::Update(_)) => {
            Edit::Updated
        }
    };
    let is_known = before.is_some() || declared.edits().len() < EDITS_MAX;
    is_known.then(|| ledger::put(&key, ledger::encode_edit(after)))
}

/// A request that comes again within the next [`REQUESTS_MAX`] generations is known.
pub(super) fn remember(
    declared: &Declared,
    ops: &mut Vec<Op>,
    head: &Head,
    id: RequestId,
    content: u64,
) {
    let generation = head.generation;
    let request = Request {
        generation,
        content,
    };
    ops.push(ledger::put(&FactKey::Request(id), request.encode()));
    let at = FactKey::RequestAt(generation);
    ops.push(ledger::put(&at, Bytes::copy_from_slice(&id.0)));
    if let Some((at, id)) = declared.oldest_request(generation.saturating_sub(REQUESTS_MAX)) {
        ops.push(ledger::delete(&FactKey::Request(id)));
        ops.push(ledger::delete(&FactKey::RequestAt(at)));
    }
}

/// Changes that others make meanwhile are one each; a client that is overtaken so often tries again by itself.
const ATTEMPTS_MAX: usize = 64;
/// Requests that are known, and generations that they are known for: at 5,000 changes a second those of 20 s. Each takes 120
/// octets of memory and 80 of the disk of every replica, all of them 12 MB and 8 MB.
const REQUESTS_MAX: u64 = 100_000;
/// Edits that are remembered: more are no list that anybody reads.
pub(super) const EDITS_MAX: usize = 1_000;
/// The name of a fabric that nobody named.
pub(super) const UNNAMED: &str = "fabric";

/// The name of what changed, and what was done to it, for the log; None: nothing had to be.
fn logged(change: Option<&Change>) -> (Option<&str>, &'static str) {
    match change {
        Some(Change::Create(fact)) => (Some(fact.name()), "created"),
        Some(Change::Update(fact)) => (Some(fact.name()), "updated"),
        Some(Change::Delete(_, name)) => (Some(name.as_str()), "deleted"),
        None => (None, "unchanged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;

    #[test]
    fn a_change_is_for_the_fabric_that_it_was_decided_from() {
        let mut declared = Declared::default();
        let first = batch(&declared, &next(&declared), &[]);
        let head = |value| Condition::Equals {
            key: FactKey::Head.encode(),
            value,
        };
        assert_eq!(first.conditions, [head(None)]);
        declared.put_head(Some(next(&declared)));
        let second = batch(&declared, &next(&declared), &[]);
        assert_eq!(second.conditions, [head(declared.head().map(Head::encode))]);
    }

    #[test]
    fn edits_come_to_what_they_are_together() {
        let topology = leaf_spine(2, 2);
        let link = topology
            .fact(Kind::Link, "leaf1:eth1--spine1:eth1")
            .unwrap();
        let name = link.name().to_owned();
        let changes = [
            Change::Create(link.clone()),
            Change::Update(link),
            Change::Delete(Kind::Link, name.clone()),
        ];
        let after = |before: Option<Edit>| {
            let mut declared = Declared::default();
            declared.put_edit(Kind::Link, &name, before);
            changes
                .each_ref()
                .map(|change| match edit(&declared, change) {
                    Some(Op::Put { value, .. }) => ledger::decode_edit(&value),
                    _ => None,
                })
        };
        let (created, updated, deleted) = (Edit::Created, Edit::Updated, Edit::Deleted);
        assert_eq!(after(None), [Some(created), Some(updated), Some(deleted)]);
        // A resource that came and went since is none.
        assert_eq!(after(Some(created)), [Some(created), Some(created), None]);
        assert_eq!(
            after(Some(updated)),
            [Some(updated), Some(updated), Some(deleted)]
        );
        assert_eq!(
            after(Some(deleted)),
            [Some(updated), Some(updated), Some(deleted)]
        );
    }

    #[test]
    fn a_change_of_jobs_leaves_the_generation_of_the_fabric() {
        let mut declared = Declared::default();
        declared.set_jobs(3);
        let change = Change::Delete(Kind::Job, "train".to_owned());
        let id = Some((RequestId([1; 16]), 7));
        let batch = of_jobs(&declared, &change, id);
        let head = FactKey::Head.encode();
        let keys = batch.ops.iter().flat_map(|op| match op {
            Op::Put { keys, .. } | Op::Delete { keys } => keys.clone(),
            Op::DeletePrefix { prefix } => vec![prefix.clone()],
        });
        assert!(keys.into_iter().all(|key| key != head));
        let expected = ledger::count_is(&FactKey::Jobs, 3);
        assert!(batch.conditions.contains(&expected));
    }

    #[test]
    fn a_request_that_changes_nothing_is_remembered_and_nothing_else_is_written() {
        let mut declared = Declared::default();
        declared.put_head(Some(next(&declared)));
        declared.set_jobs(3);
        let id = RequestId([1; 16]);
        for (kind, condition) in [
            (Kind::Switch, head_is(&declared)),
            (Kind::Job, ledger::count_is(&FactKey::Jobs, 3)),
        ] {
            let batch = unchanged(&declared, kind, id, 7);
            assert!(batch.conditions.contains(&condition));
            let place = FactKey::RequestAt(declared.next_call()).encode();
            let keys = [FactKey::Request(id).encode(), place];
            let written = batch.ops.iter().flat_map(|op| match op {
                Op::Put { keys, .. } => keys.clone(),
                Op::Delete { .. } | Op::DeletePrefix { .. } => panic!("something is deleted"),
            });
            assert!(written.eq(keys));
        }
    }

    #[test]
    fn a_change_is_logged_by_its_name() {
        let topology = leaf_spine(2, 2);
        let link = "leaf1:eth1--spine1:eth1";
        let update = Change::Update(topology.fact(Kind::Link, link).unwrap());
        assert_eq!(logged(Some(&update)), (Some(link), "updated"));
        let delete = Change::Delete(Kind::Job, "train".to_owned());
        assert_eq!(logged(Some(&delete)), (Some("train"), "deleted"));
        assert_eq!(logged(None), (None, "unchanged"));
    }

    #[test]
    fn one_link_is_a_log_entry_of_less_than_a_kibibyte() {
        let mut declared = Declared::default();
        declared.put_head(Some(next(&declared)));
        let topology = leaf_spine(2, 2);
        let link = topology
            .fact(Kind::Link, "leaf1:eth1--spine1:eth1")
            .unwrap();
        let head = next(&declared);
        let mut batch = batch(&declared, &head, &[Change::Update(link)]);
        remember(&declared, &mut batch.ops, &head, RequestId([1; 16]), 0);
        assert!(batch.octets_len() < 512, "{}", batch.octets_len());
    }

    /// Its directory was lost, and its clock is behind: the others have applied proposals of a later start of it.
    #[tokio::test]
    async fn a_replica_whose_proposals_count_as_old_is_refused_by_name() {
        use crate::consensus::Command;
        use crate::speaker::peer::tests::shared_over;
        let dir = tempfile::tempdir().unwrap();
        let (consensus, mut commands) = crate::consensus::tests::unheard(&dir);
        let changes = Changes::new(Arc::new(shared_over(consensus)), Led::new());
        tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                if let Command::Propose(_, asker) = command {
                    asker.reply.send(Outcome::Superseded).unwrap();
                }
            }
        });
        let Err(refused) = changes.propose(Batch::default()).await else {
            panic!("a proposal is made");
        };
        let found = crate::operator::lone::reason(&refused);
        let expected = (tonic::Code::Unavailable, "REPLICA_SUPERSEDED".to_owned());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_oldest_request_goes_when_there_are_too_many() {
        let mut declared = Declared::default();
        let id = RequestId([1; 16]);
        declared.put_request_at(1, Some(id));
        let ops_at = |generation| {
            let mut ops = Vec::new();
            let head = Head {
                generation,
                ..Head::default()
            };
            remember(&declared, &mut ops, &head, RequestId([2; 16]), 0);
            ops.len()
        };
        assert_eq!((ops_at(2), ops_at(REQUESTS_MAX)), (2, 2));
        assert_eq!(ops_at(REQUESTS_MAX + 1), 4);
    }
}
