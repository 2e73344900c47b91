//! Octets of requests in flight: over all calls, and for each address. The call with most octets of the address with most pays.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::Shared;
use tokio::sync::oneshot;

use super::bounds::{OCTETS_MAX, OCTETS_PER_ADDRESS};
use super::places::Source;

/// The octets of all calls of a door; clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Octets(Arc<Mutex<InFlight>>);

#[derive(Debug, Default)]
struct InFlight {
    total: usize,
    sources: HashMap<Source, OfSource>,
    /// Number of the next call.
    next: u64,
}

#[derive(Debug, Default)]
struct OfSource {
    octets: usize,
    calls: BTreeMap<u64, Call>,
}

#[derive(Debug)]
struct Call {
    octets: usize,
    cut: oneshot::Sender<()>,
}

/// Resolves with `Ok` if a call must end since there are too many octets, with `Err` once they are not counted any more.
pub(crate) type Cut = Shared<oneshot::Receiver<()>>;

/// The octets of one call, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    octets: Octets,
    source: Source,
    number: u64,
    cut: Cut,
}

impl Octets {
    /// Counts the first octets of a call. `None`: they are too many.
    pub(crate) fn begin(&self, source: Source, octets: usize) -> Option<Held> {
        let (cut, is_cut) = oneshot::channel();
        let mut all = self.lock();
        let number = all.next;
        all.next += 1;
        let calls = &mut all.sources.entry(source).or_default().calls;
        calls.insert(number, Call { octets: 0, cut });
        let fits = all.add(source, number, octets);
        drop(all);
        let held = Held {
            octets: self.clone(),
            source,
            number,
            cut: is_cut.shared(),
        };
        fits.then_some(held)
    }

    /// Octets of all calls.
    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.lock().total
    }

    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Counts more octets of the call. Returns false if it must end.
    pub(crate) fn add(&self, octets: usize) -> bool {
        self.octets.lock().add(self.source, self.number, octets)
    }

    /// Counts the octets of the call no longer: it has a place among calls that may be long.
    pub(crate) fn release(&self) {
        self.octets.lock().remove(self.source, self.number);
    }

    /// Returns true if the call must end.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self.cut().now_or_never(), Some(Ok(())))
    }

    /// Resolves if the call must end.
    pub(crate) fn cut(&self) -> Cut {
        self.cut.clone()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

impl InFlight {
    /// Adds octets to a call that is counted, and ends calls until all fit. Returns false if this call ends too.
    fn add(&mut self, source: Source, number: u64, octets: usize) -> bool {
        let Some(own) = self.sources.get_mut(&source) else {
            return true;
        };
        let Some(call) = own.calls.get_mut(&number) else {
            return true;
        };
        call.octets += octets;
        own.octets += octets;
        self.total += octets;
        loop {
            let of_own = self.sources.get(&source).map_or(0, |own| own.octets);
            let payer = if of_own > OCTETS_PER_ADDRESS {
                Some(source)
            } else if self.total > OCTETS_MAX {
                let sources = self.sources.iter();
                sources.max_by_key(|(_, it)| it.octets).map(|(it, _)| *it)
            } else {
                return true;
            };
            let Some((payer, largest)) = payer.and_then(|it| Some((it, self.largest(it)?))) else {
                return true;
            };
            if let Some(call) = self.remove(payer, largest) {
                let _ = call.cut.send(());
            }
            if (payer, largest) == (source, number) {
                return false;
            }
        }
    }

    /// The call of a source with most octets; of several the newest.
    fn largest(&self, source: Source) -> Option<u64> {
        let calls = self.sources.get(&source)?.calls.iter();
        calls.max_by_key(|(_, it)| it.octets).map(|(it, _)| *it)
    }

    fn remove(&mut self, source: Source, number: u64) -> Option<Call> {
        let own = self.sources.get_mut(&source)?;
        let call = own.calls.remove(&number)?;
        own.octets -= call.octets;
        self.total -= call.octets;
        if own.calls.is_empty() {
            self.sources.remove(&source);
        }
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    #[test]
    fn the_largest_call_of_an_address_with_too_many_octets_ends() {
        let octets = Octets::default();
        let [small, large, last] = [1, 9, 5].map(|mib| octets.begin(source(1), mib * MIB).unwrap());
        assert!(last.add(MIB));
        assert!(small.add(MIB), "another one pays");
        assert!(large.is_cut() && !small.is_cut() && !last.is_cut());
        drop((small, large, last));
        assert_eq!(octets.lock().total, 0);
        assert!(octets.lock().sources.is_empty());
    }

    #[test]
    fn the_address_with_most_octets_pays_for_all() {
        let octets = Octets::default();
        let held: Vec<_> = (1..=4)
            .map(|last| octets.begin(source(last), 15 * MIB).unwrap())
            .collect();
        let more = octets.begin(source(4), MIB).unwrap();
        let other = octets.begin(source(9), 4 * MIB).unwrap();
        assert!(held[3].is_cut());
        assert!(!held[..3].iter().any(Held::is_cut) && !more.is_cut() && !other.is_cut());
        assert!(octets.begin(source(5), 17 * MIB).is_none());
        assert!(octets.lock().total <= OCTETS_MAX);
    }

    #[test]
    fn a_call_with_a_place_of_its_own_is_not_counted() {
        let octets = Octets::default();
        let held = octets.begin(source(1), MIB).unwrap();
        held.release();
        assert!(held.add(100 * MIB));
        assert_eq!(octets.lock().total, 0);
        assert!(!held.is_cut());
    }
}
