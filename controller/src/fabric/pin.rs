//! Pins as they are agreed: the spines that the flow from one NIC to another goes over. A copy costs nothing. It refuses to know
//! why a flow goes where it goes.

use std::sync::Arc;

use imbl::OrdMap;

use super::fact::{JobName, PortName, SwitchName};

/// Which flow is pinned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinName {
    /// The job that it belongs to.
    pub job: JobName,
    /// Where the NIC is that sends.
    pub source: PortName,
    /// Where the NIC is that takes.
    pub destination: PortName,
}

/// A spine with its share of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinPath {
    /// The spine.
    pub spine: SwitchName,
    /// Parts of the flow, of the sum of all its paths; at least 1.
    pub weight: u32,
}

/// What became of one pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinChanged {
    /// Raft index of the change.
    pub revision: u64,
    /// Which flow it is of.
    pub name: PinName,
    /// Where the flow went; None if it had no pin.
    pub before: Option<Arc<[PinPath]>>,
    /// Where the flow goes; None if it has no pin any more.
    pub after: Option<Arc<[PinPath]>>,
}

impl PinChanged {
    /// Octets of memory that it takes, about.
    pub fn octets(&self) -> usize {
        let names = [
            self.name.job.as_str(),
            self.name.source.as_str(),
            self.name.destination.as_str(),
        ];
        let names: usize = names.iter().map(|name| name.len()).sum();
        let paths = [&self.before, &self.after].into_iter().flatten();
        let paths: usize = paths.map(|paths| paths.len()).sum();
        CHANGED_OCTETS + names + PATH_OCTETS * paths
    }
}

/// All pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    revision: u64,
    all: OrdMap<PinName, Arc<[PinPath]>>,
}

impl Pins {
    /// Counts the batches that made them what they are: each is proposed on the condition that none came before it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes another count.
    pub fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    /// Takes where a flow goes, or forgets it.
    pub fn put(&mut self, name: PinName, paths: Option<Arc<[PinPath]>>) {
        drop(self.replace(name, paths));
    }

    /// Takes where a flow goes, or forgets it, and says where it went before.
    pub fn replace(
        &mut self,
        name: PinName,
        paths: Option<Arc<[PinPath]>>,
    ) -> Option<Arc<[PinPath]>> {
        match paths {
            Some(paths) => self.all.insert(name, paths),
            None => self.all.remove(&name),
        }
    }

    /// Where a flow goes.
    pub fn get(&self, name: &PinName) -> Option<&Arc<[PinPath]>> {
        self.all.get(name)
    }

    /// Every pin, in order of jobs, sources and destinations.
    pub fn iter(&self) -> impl Iterator<Item = (&PinName, &Arc<[PinPath]>)> + '_ {
        self.all.iter()
    }

    /// Pins behind a name, in order.
    pub fn after(&self, name: PinName) -> impl Iterator<Item = (&PinName, &Arc<[PinPath]>)> + '_ {
        use std::ops::Bound::{Excluded, Unbounded};
        self.all.range((Excluded(name), Unbounded))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether they are those that another value was copied from, or the other way around.
    pub fn is_same(&self, other: &Self) -> bool {
        self.revision == other.revision && self.all.ptr_eq(&other.all)
    }
}

/// What a change takes beside names and paths: pointers and the counts behind them.
const CHANGED_OCTETS: usize = 192;
/// What a path takes: the name of its spine with the counts behind it, and a weight.
const PATH_OCTETS: usize = 64;
