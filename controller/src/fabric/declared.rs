//! The declared fabric as it is agreed: its topology, fabrics that are being written beside it, and the requests that were
//! made.
//!
//! A copy costs nothing. It refuses to know who asks.

use std::sync::Arc;

use imbl::OrdMap;

use super::topology::{Fact, InvalidFabric, Kind, Topology};
use crate::ledger::{FactKey, Head, Request, RequestId};

/// What became of one fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Raft index of the change.
    pub revision: u64,
    /// The fact as it was; None if it was not there.
    pub before: Option<Fact>,
    /// The fact as it is; None if it went.
    pub after: Option<Fact>,
    /// Octets of memory that both take, about.
    pub octets: usize,
}

/// A change that another call than ApplyFabric made to a resource since the last ApplyFabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The resource did not exist then.
    Created,
    /// The resource existed then, with other content or under the same name.
    Updated,
    /// The resource existed then.
    Deleted,
}

/// A fabric that an ApplyFabric writes into a slot of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stage {
    /// True while its ApplyFabric may go on.
    is_marked: bool,
    facts: Topology,
}

/// What is agreed of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    head: Option<Head>,
    topology: Topology,
    /// Fabrics that are not in force, by slot.
    stages: OrdMap<u64, Stage>,
    edits: OrdMap<(Kind, Arc<str>), Edit>,
    /// How often jobs changed.
    jobs: u64,
    requests: OrdMap<[u8; 16], Request>,
    /// Requests by the generation that they made.
    requests_at: OrdMap<u64, [u8; 16]>,
}

impl Declared {
    /// The fabric as such; None before the first change.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The facts.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Counts the changes of jobs; 0 before the first.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// Takes another count of the changes of jobs.
    pub fn set_jobs(&mut self, count: u64) {
        self.jobs = count;
    }

    /// A change that was asked for under this id and made.
    pub fn request(&self, id: RequestId) -> Option<Request> {
        self.requests.get(&id.0).copied()
    }

    /// The request that made the oldest generation of which the request is known, if that is this one or an older one.
    pub fn oldest_request(&self, generation: u64) -> Option<(u64, RequestId)> {
        let (at, id) = self.requests_at.get_min()?;
        (*at <= generation).then_some((*at, RequestId(*id)))
    }

    /// The place of the next request that is no change of the fabric.
    pub fn next_call(&self) -> u64 {
        let last = self.requests_at.get_max().map_or(0, |(at, _)| *at);
        last.max(CALLS) + 1
    }

    /// The oldest request of which the place is known, of those that are no change of the fabric, if that is this one or an
    /// older one.
    pub fn oldest_call(&self, place: u64) -> Option<(u64, RequestId)> {
        let (at, id) = self.requests_at.range(CALLS..).next()?;
        (*at <= place).then_some((*at, RequestId(*id)))
    }

    /// The slot in force.
    pub fn slot(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.slot)
    }

    /// Slots that an ApplyFabric writes into, each with the number of facts in it.
    pub fn stages(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let count = |stage: &Stage| Kind::ALL.iter().map(|kind| stage.facts.count(*kind)).sum();
        self.stages.iter().map(move |(slot, it)| (*slot, count(it)))
    }

    /// Resources that other calls than ApplyFabric changed since the last one, in order of their kinds and names.
    pub fn edits(&self) -> impl ExactSizeIterator<Item = (Kind, &str, Edit)> + '_ {
        let edits = self.edits.iter();
        edits.map(|((kind, name), edit)| (*kind, &**name, *edit))
    }

    /// The edit of a resource.
    pub fn edit(&self, kind: Kind, name: &str) -> Option<Edit> {
        self.edits.get(&(kind, name.into())).copied()
    }

    /// Takes the fabric as such. If it names another slot, the facts of that slot are in force from now on.
    pub fn put_head(&mut self, head: Option<Head>) {
        let before = self.slot();
        self.head = head;
        let slot = self.slot();
        if slot != before {
            let next = self.stages.remove(&slot).unwrap_or_default().facts;
            let next = next.with_jobs_of(&self.topology);
            let old = Stage {
                is_marked: false,
                facts: std::mem::replace(&mut self.topology, next)
                    .with_jobs_of(&Topology::default()),
            };
            self.keep(before, old);
        }
        let (name, generation) = match &self.head {
            Some(head) => (head.display_name.as_str(), head.generation),
            None => ("", 0),
        };
        self.topology.set_head(name, generation);
    }

    /// Takes a resource in the octets that it is stored as.
    ///
    /// # Errors
    /// Fields that this release does not understand; there is no such resource then.
    pub fn put(
        &mut self,
        slot: u64,
        kind: Kind,
        name: &str,
        octets: &[u8],
    ) -> Result<(), InvalidFabric> {
        self.delete(slot, kind, name);
        let fact = Fact::decode(kind, octets)?;
        if slot == self.slot() {
            self.topology.put(fact);
        } else {
            self.stages.entry(slot).or_default().facts.put(fact);
        }
        Ok(())
    }

    /// Forgets a resource.
    pub fn delete(&mut self, slot: u64, kind: Kind, name: &str) {
        if slot == self.slot() {
            self.topology.remove(kind, name);
        } else if let Some(mut stage) = self.stages.remove(&slot) {
            stage.facts.remove(kind, name);
            self.keep(slot, stage);
        }
    }

    /// Takes a job in the octets that it is stored as.
    ///
    /// # Errors
    /// Fields that this release does not understand; there is no such job then.
    pub fn put_job(&mut self, name: &str, octets: &[u8]) -> Result<(), InvalidFabric> {
        match Fact::decode(Kind::Job, octets) {
            Ok(job) => self.topology.put(job),
            Err(faults) => {
                self.delete_job(name);
                return Err(faults);
            }
        }
        Ok(())
    }

    /// Forgets a job.
    pub fn delete_job(&mut self, name: &str) {
        self.topology.remove(Kind::Job, name);
    }

    /// Takes or forgets the mark of the ApplyFabric that writes into a slot.
    pub fn mark(&mut self, slot: u64, is_marked: bool) {
        let stage = self.stages.remove(&slot).unwrap_or_default();
        self.keep(slot, Stage { is_marked, ..stage });
    }

    /// Forgets a slot that is not in force.
    pub fn delete_stage(&mut self, slot: u64) {
        self.stages.remove(&slot);
    }

    fn keep(&mut self, slot: u64, stage: Stage) {
        if stage.is_marked || stage.facts.facts().next().is_some() {
            self.stages.insert(slot, stage);
        }
    }

    /// Takes or forgets the edit of a resource.
    pub fn put_edit(&mut self, kind: Kind, name: &str, edit: Option<Edit>) {
        let key = (kind, name.into());
        match edit {
            Some(edit) => drop(self.edits.insert(key, edit)),
            None => drop(self.edits.remove(&key)),
        }
    }

    /// Forgets every edit.
    pub fn delete_edits(&mut self) {
        self.edits = OrdMap::new();
    }

    /// Takes a request that was answered, or forgets it.
    pub fn put_request(&mut self, id: RequestId, request: Option<Request>) {
        match request {
            Some(request) => drop(self.requests.insert(id.0, request)),
            None => drop(self.requests.remove(&id.0)),
        }
    }

    /// Takes the request of a generation, or forgets it.
    pub fn put_request_at(&mut self, generation: u64, id: Option<RequestId>) {
        match id {
            Some(id) => drop(self.requests_at.insert(generation, id.0)),
            None => drop(self.requests_at.remove(&generation)),
        }
    }

    /// The keys of all that is agreed.
    pub fn keys(&self) -> impl Iterator<Item = bytes::Bytes> + '_ {
        let head = self.head.iter().map(|_| FactKey::Head.encode());
        let facts = self.topology.facts();
        let facts = facts.map(|fact| key_of(self.slot(), &fact));
        let staged = self.stages.iter().flat_map(|(slot, stage)| {
            let mark = stage.is_marked.then(|| FactKey::Stage(*slot).encode());
            let facts = stage.facts.facts();
            mark.into_iter()
                .chain(facts.map(|fact| key_of(*slot, &fact)))
        });
        let edits = self.edits.keys();
        let edits = edits.map(|(kind, name)| FactKey::Edit(*kind, name).encode());
        let requests = self.requests.keys();
        let requests = requests.map(|id| FactKey::Request(RequestId(*id)).encode());
        let generations = self.requests_at.keys();
        let generations = generations.map(|at| FactKey::RequestAt(*at).encode());
        let jobs = (self.jobs > 0).then(|| FactKey::Jobs.encode());
        let jobs = head.chain(jobs);
        let all = jobs.chain(facts).chain(staged).chain(edits);
        all.chain(requests).chain(generations)
    }
}

/// The key that a fact has in a slot; a job has no slot.
pub fn key_of(slot: u64, fact: &Fact) -> bytes::Bytes {
    match fact.kind() {
        Kind::Job => FactKey::Job(fact.name()).encode(),
        kind => FactKey::Declared(slot, kind, fact.name()).encode(),
    }
}

/// Requests that are no change of the fabric have places behind all generations.
const CALLS: u64 = 1 << 63;
