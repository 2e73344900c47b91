//! Makes changes of the fabric: each on the condition that the fabric is as it was when the change was decided, so that they
//! come one after the other. Knows neither what a change is nor who decides it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tonic::Status;
use weft_proto::v1::ResponseHeader;
use weft_store::{Batch, Condition, Op, Outcome};

use super::super::access::Identity;
use super::super::{agreed, header, look, once, refusal};
use crate::fabric::declared::Declared;
use crate::fabric::fact::InvalidFabric;
use crate::fabric::topology::{Change, Kind, Topology};
use crate::ledger::{self, FactKey, Head, Request, RequestId};
use crate::speaker::Shared;

/// Makes changes.
pub(super) struct Changes {
    shared: Arc<Shared>,
    /// Single changes of this replica come one after the other: only those of others overtake them.
    turn: Arc<Mutex<()>>,
    /// The change of several batches that stood still for so long that nobody waits for it any more; 0: none.
    abandoned: AtomicU64,
}

/// What is agreed of the fabric, and up to where.
pub(super) struct Known {
    pub(super) declared: Declared,
    pub(super) header: ResponseHeader,
    /// What an earlier release stored is not converted yet.
    pub(super) upgrading: bool,
}

/// How a change is asked for.
pub(in super::super) struct Asked {
    /// What is wrong with that.
    pub(in super::super) faults: InvalidFabric,
    /// What its client calls it, and a hash of its content.
    id: Option<(RequestId, u64)>,
    validate_only: bool,
    by: Option<Identity>,
}

impl Asked {
    /// `content` is a hash of what is asked for.
    pub(super) fn new(request_id: &str, content: u64, validate_only: bool) -> Self {
        let mut faults = InvalidFabric::default();
        let id = once::id(request_id, &mut faults);
        Self {
            faults,
            id: id.map(|id| (id, content)),
            validate_only,
            by: None,
        }
    }

    /// Who asks.
    pub(in super::super) fn by(self, by: Identity) -> Self {
        Self {
            by: Some(by),
            ..self
        }
    }
}

impl Changes {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            turn: Arc::default(),
            abandoned: AtomicU64::new(0),
        }
    }

    /// A name for a change of several batches that no other one has, here, elsewhere or after a restart.
    pub(super) fn mark(&self) -> u64 {
        RandomState::new().hash_one(self.shared.replica).max(1)
    }

    /// Waits until every single change that came before is made.
    pub(super) async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.turn).lock_owned().await)
    }

    /// What is agreed of the fabric, with everything that was agreed before the call.
    pub(super) async fn known(&self) -> Result<Known, Status> {
        let index = self.shared.consensus.read_index().await;
        let index = index.ok_or_else(refusal::no_majority)?;
        let look = look::at(&self.shared, index, |reflector| {
            let control = reflector.control();
            let upgrading = control.fabric.is_some();
            (control.declared.clone(), upgrading, reflector.index())
        });
        let (declared, upgrading, applied) = look.await?;
        Ok(Known {
            declared,
            upgrading,
            header: self.header(applied.max(index)),
        })
    }

    /// The same for calls that cannot do with a part of it.
    pub(super) async fn declared(&self) -> Result<(Declared, ResponseHeader), Status> {
        let known = self.known().await?;
        match known.upgrading {
            true => Err(refusal::upgrading()),
            false => Ok((known.declared, known.header)),
        }
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
            let known = self.unlocked(None).await?;
            if known.upgrading {
                return Err(refusal::upgrading());
            }
            let (declared, header) = (known.declared, known.header);
            if let Some((id, content)) = asked.id
                && let Some(made) = declared.request(id)
            {
                return match made.content == content {
                    true => Ok((declared.topology().clone(), header)),
                    false => Err(refusal::request_id_reused()),
                };
            }
            let mut topology = declared.topology().clone();
            let change = decide(&topology)?;
            if let Some(change) = &change {
                topology.apply(change);
            }
            // What need not be changed is remembered too: it may have to be when the request comes again.
            if asked.validate_only || (change.is_none() && asked.id.is_none()) {
                return Ok((topology, header));
            }
            let batch = match kind {
                Kind::Job => of_jobs(&declared, change.as_ref(), asked.id),
                Kind::Switch | Kind::Host | Kind::Link | Kind::HostPort => {
                    of_fabric(&declared, change.as_ref(), asked.id)
                }
            };
            match self.propose(batch).await {
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
    pub(super) async fn propose(&self, batch: Batch) -> Made {
        loop {
            match self.shared.consensus.propose(batch.clone()).await {
                Outcome::Applied { index } => return Made::At(index),
                Outcome::ConditionFailed { .. } => return Made::Overtaken,
                Outcome::Superseded => {}
                Outcome::Dropped => return Made::Unknown,
            }
        }
    }

    /// What is agreed once nobody else makes a change of several batches, or whoever made it does not go on. `own` is the
    /// mark of a change that goes on.
    pub(super) async fn unlocked(&self, own: Option<u64>) -> Result<Known, Status> {
        let mut patience = LOCKED_PAUSES;
        let mut last = 0;
        loop {
            let known = self.known().await?;
            let mark = known.declared.head().map_or(0, |head| head.applying);
            if mark == 0 || own == Some(mark) || self.abandoned.load(Ordering::Relaxed) == mark {
                return Ok(known);
            }
            if patience == 0 {
                self.abandoned.store(mark, Ordering::Relaxed);
                return Ok(known);
            }
            let generation = known.declared.topology().generation();
            patience = match generation == last {
                true => patience - 1,
                false => LOCKED_PAUSES,
            };
            last = generation;
            tokio::time::sleep(LOCKED_PAUSE).await;
        }
    }

    /// What an answer says of itself that is complete up to an index.
    pub(super) fn header(&self, revision: u64) -> ResponseHeader {
        header::of(&self.shared, revision)
    }
}

/// The right to make the next single change of this replica.
pub(super) struct Turn(
    #[expect(dead_code, reason = "held until it is dropped")] OwnedMutexGuard<()>,
);

/// What became of a batch.
pub(super) enum Made {
    /// It was applied at this index.
    At(u64),
    /// The fabric is not as it was.
    Overtaken,
    /// Nobody can say.
    Unknown,
}

/// One change of the fabric, and the request for it.
fn of_fabric(declared: &Declared, change: Option<&Change>, id: Option<(RequestId, u64)>) -> Batch {
    let mut head = Head {
        // What is a part of a declaration stays one.
        applying: declared.head().map_or(0, |head| head.applying),
        ..next(declared)
    };
    if head.display_name.is_empty() {
        UNNAMED.clone_into(&mut head.display_name);
    }
    let mut batch = batch(declared, &head, change.map_or(&[], std::slice::from_ref));
    if let Some((id, content)) = id {
        remember(declared, &mut batch.ops, &head, id, content);
    }
    batch
}

/// One change of jobs, and the request for it. The fabric's generation stays: whoever declares that is not overtaken by jobs.
fn of_jobs(declared: &Declared, change: Option<&Change>, id: Option<(RequestId, u64)>) -> Batch {
    let count = declared.jobs();
    let mut all: Vec<Op> = change.into_iter().flat_map(ops).collect();
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

/// The fabric as such after a change, made whole.
pub(super) fn next(declared: &Declared) -> Head {
    let head = declared.head().cloned().unwrap_or_default();
    Head {
        generation: head.generation + 1,
        applying: 0,
        ..head
    }
}

/// Changes that are made together if the fabric is as it is in `declared`.
pub(super) fn batch(declared: &Declared, head: &Head, changes: &[Change]) -> Batch {
    let conditions = vec![Condition::Equals {
        key: FactKey::Head.encode(),
        value: declared.head().map(Head::encode),
    }];
    let mut ops: Vec<Op> = changes.iter().flat_map(ops).collect();
    ops.push(ledger::put(&FactKey::Head, head.encode()));
    Batch { conditions, ops }
}

fn ops(change: &Change) -> impl Iterator<Item = Op> + use<> {
    let op = match change {
        Change::Create(fact) | Change::Update(fact) => {
            ledger::put(&FactKey::Declared(fact.kind(), fact.name()), fact.encode())
        }
        Change::Delete(kind, name) => ledger::delete(&FactKey::Declared(*kind, name)),
    };
    // A leaf that is declared again later is not programmed at once because another one of its name was.
    let mode = match change {
        Change::Delete(Kind::Switch, name) => Some(ledger::delete(&FactKey::Balance(name))),
        Change::Create(_) | Change::Update(_) | Change::Delete(..) => None,
    };
    [op].into_iter().chain(mode)
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
/// A change of several batches that stands still for these pauses, five seconds, was given up.
const LOCKED_PAUSES: u32 = 100;
const LOCKED_PAUSE: Duration = Duration::from_millis(50);
/// What a fabric is called that nobody named.
const UNNAMED: &str = "fabric";

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
    fn a_change_of_jobs_leaves_the_generation_of_the_fabric() {
        let mut declared = Declared::default();
        declared.set_jobs(3);
        let change = Change::Delete(Kind::Job, "train".to_owned());
        let id = Some((RequestId([1; 16]), 7));
        let batch = of_jobs(&declared, Some(&change), id);
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
