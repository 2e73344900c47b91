//! The declared fabric as it is agreed: its topology, who is changing it, and which requests made it what it is.
//!
//! A copy costs nothing. It refuses to know who asks.

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

/// What is agreed of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    head: Option<Head>,
    topology: Topology,
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

    /// Takes the fabric as such.
    pub fn put_head(&mut self, head: Option<Head>) {
        let (name, generation) = match &head {
            Some(head) => (head.display_name.as_str(), head.generation),
            None => ("", 0),
        };
        self.topology.set_head(name, generation);
        self.head = head;
    }

    /// Takes a fact in the octets that it is stored as.
    ///
    /// # Errors
    /// What this release does not understand of it; there is no such fact then.
    pub fn put(&mut self, kind: Kind, name: &str, octets: &[u8]) -> Result<(), InvalidFabric> {
        self.topology.remove(kind, name);
        self.topology.put(Fact::decode(kind, octets)?);
        Ok(())
    }

    /// Forgets a fact.
    pub fn delete(&mut self, kind: Kind, name: &str) {
        self.topology.remove(kind, name);
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
        let facts = facts.map(|fact| FactKey::Declared(fact.kind(), fact.name()).encode());
        let requests = self.requests.keys();
        let requests = requests.map(|id| FactKey::Request(RequestId(*id)).encode());
        let generations = self.requests_at.keys();
        let generations = generations.map(|at| FactKey::RequestAt(*at).encode());
        let jobs = (self.jobs > 0).then(|| FactKey::Jobs.encode());
        let jobs = head.chain(jobs);
        jobs.chain(facts).chain(requests).chain(generations)
    }
}

/// Requests that are no change of the fabric have places behind all generations.
const CALLS: u64 = 1 << 63;
