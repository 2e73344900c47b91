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
        match paths {
            Some(paths) => drop(self.all.insert(name, paths)),
            None => drop(self.all.remove(&name)),
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
