//! Places for connections: in all, and for each address. Knows which connection gives way to a new one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

use futures::task::AtomicWaker;

use super::bounds::Bounds;
use super::refusals::Reason;

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// The client's, as `accept` returned it: later the system may not know it any more.
    pub(crate) remote: SocketAddr,
    /// Ours, if the system knew it.
    pub(crate) local: Option<SocketAddr>,
}

/// The address that connections are counted by: an IPv4 address, or an IPv6 prefix of 64 bits, since a host has all of its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl Source {
    /// Returns the source of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(it) => Self(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64).into()),
            v4 @ IpAddr::V4(_) => Self(v4),
        }
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) ends: Ends,
    pub(super) source: Source,
    /// Places that the source has.
    of_source: Arc<AtomicUsize>,
    /// Later connections have higher numbers.
    number: u64,
    /// Calls whose answer has not ended.
    calls: AtomicUsize,
    /// True once the client has begun to speak.
    has_spoken: AtomicBool,
    /// True once it gave way to another connection.
    is_lost: AtomicBool,
    waker: AtomicWaker,
}

impl Place {
    /// Notes that the client has begun to speak.
    pub(super) fn speak(&self) {
        self.has_spoken.store(true, Relaxed);
    }

    /// Returns true once the client has begun to speak.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken.load(Relaxed)
    }

    /// Returns true if the connection must be closed; if not, its task is woken then.
    pub(super) fn poll_lost(&self, cx: &Context<'_>) -> bool {
        self.waker.register(cx.waker());
        self.is_lost.load(Relaxed)
    }

    /// Begins a call over the connection.
    pub(crate) fn call(self: Arc<Self>) -> Calling {
        self.speak();
        self.calls.fetch_add(1, Relaxed);
        Calling(self)
    }

    fn lose(&self) {
        self.is_lost.store(true, Relaxed);
        self.waker.wake();
    }

    /// Returns true while the connection has no call.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.load(Relaxed) == 0
    }
}

/// A call that has not ended.
#[derive(Debug)]
pub(crate) struct Calling(Arc<Place>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

/// The places of one door.
#[derive(Debug)]
pub(super) struct Places {
    bounds: Bounds,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_ends: HashMap<Ends, Arc<Place>>,
    sources: HashMap<Source, Arc<AtomicUsize>>,
    /// Number of the next one.
    next: u64,
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            taken: Mutex::default(),
        }
    }

    /// Takes a place; also returns the remote end of the connection that gives way to it, if one does.
    ///
    /// A source without a free place loses its own connection without a call: one that has not spoken first, then the oldest. If
    /// all places are taken, the source with most of them loses one, if it has more than the new one has then.
    ///
    /// # Errors
    /// No connection can give way.
    pub(super) fn take(&self, ends: Ends) -> Result<(Arc<Place>, Option<SocketAddr>), Reason> {
        let mut taken = self.lock();
        let source = Source::of(ends.remote.ip());
        let own = taken.sources.get(&source);
        let own = own.map_or(0, |it| it.load(Relaxed));
        let lost = if own >= self.bounds.per_address {
            let lost = taken.give_way(|it| it.source == source);
            Some(lost.ok_or(Reason::Address)?)
        } else if taken.by_ends.len() >= self.bounds.connections {
            let lost = taken.give_way(|it| it.of_source.load(Relaxed) > own + 1);
            Some(lost.ok_or(Reason::Full)?)
        } else {
            None
        };
        Ok((taken.put(ends, source), lost))
    }

    /// The place of a connection.
    pub(super) fn find(&self, ends: &Ends) -> Option<Arc<Place>> {
        self.lock().by_ends.get(ends).cloned()
    }

    /// Frees the place of a connection that is closed.
    pub(super) fn leave(&self, place: &Arc<Place>) {
        let mut taken = self.lock();
        // One that gave way is not there any more.
        if let Some(it) = taken.by_ends.get(&place.ends)
            && Arc::ptr_eq(it, place)
        {
            taken.remove(place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn put(&mut self, ends: Ends, source: Source) -> Arc<Place> {
        let of_source = Arc::clone(self.sources.entry(source).or_default());
        of_source.fetch_add(1, Relaxed);
        let place = Arc::new(Place {
            ends,
            source,
            of_source,
            number: self.next,
            calls: AtomicUsize::new(0),
            has_spoken: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        self.next += 1;
        // The system reuses both ends only after the connection before is closed, but its task may not have noticed.
        if let Some(old) = self.by_ends.insert(ends, Arc::clone(&place)) {
            self.uncount(&old);
            old.lose();
        }
        place
    }

    /// Takes the place of a connection without a call.
    fn give_way(&mut self, may: impl Fn(&Place) -> bool) -> Option<SocketAddr> {
        let idle = self.by_ends.values();
        let idle = idle.filter(|it| it.is_idle() && may(it));
        let first = |it: &&Arc<Place>| {
            let of_source = it.of_source.load(Relaxed);
            (of_source, !it.has_spoken(), Reverse(it.number))
        };
        let place = Arc::clone(idle.max_by_key(first)?);
        self.remove(&place);
        place.lose();
        Some(place.ends.remote)
    }

    fn remove(&mut self, place: &Place) {
        self.by_ends.remove(&place.ends);
        self.uncount(place);
    }

    fn uncount(&mut self, place: &Place) {
        if place.of_source.fetch_sub(1, Relaxed) == 1 {
            self.sources.remove(&place.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        door: "test",
        connections: 4,
        per_address: 3,
    };

    fn ends(text: &str) -> Ends {
        let remote = text.parse().unwrap();
        Ends {
            remote,
            local: None,
        }
    }

    #[test]
    fn a_source_has_its_places_and_a_64_is_one_source() {
        let places = Places::new(BOUNDS);
        let calls: Vec<_> = (1..=3)
            .map(|host| format!("[2001:db8::{host}]:4000"))
            .map(|from| places.take(ends(&from)).unwrap().0.call())
            .collect();
        let refused = places.take(ends("[2001:db8::9]:4000")).unwrap_err();
        assert_eq!(refused, Reason::Address);
        let (other, _) = places.take(ends("[2001:db8:0:1::9]:4000")).unwrap();
        let refused = places.take(ends("192.0.2.1:4000")).unwrap_err();
        assert_eq!(refused, Reason::Full, "the other source has one place too");
        places.leave(&other);
        assert_eq!(places.take(ends("192.0.2.1:4000")).unwrap().1, None);
        drop(calls);
    }

    #[test]
    fn a_connection_without_a_call_gives_way_the_silent_and_the_oldest_first() {
        let places = Places::new(BOUNDS);
        let taken: Vec<_> = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"]
            .map(|from| places.take(ends(from)).unwrap().0)
            .into();
        taken[0].speak();
        let lost = |from| places.take(ends(from)).unwrap().1.map(|it| it.port());
        assert_eq!(lost("192.0.2.1:4"), Some(2));
        // Now all places are taken.
        assert_eq!(lost("192.0.2.2:1"), None);
        assert_eq!(lost("192.0.2.3:1"), Some(3), "of the source with most");
        let refused = places.take(ends("192.0.2.3:2")).unwrap_err();
        assert_eq!(refused, Reason::Full, "no source would have more than it");
        places.leave(&taken[1]);
        assert_eq!(places.lock().by_ends.len(), 4);
        assert_eq!(places.lock().sources.len(), 3);
    }

    #[test]
    fn a_call_keeps_its_connection() {
        let places = Places::new(BOUNDS);
        let call = |from| places.take(ends(from)).unwrap().0.call();
        let mut calls: Vec<_> = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"]
            .map(call)
            .into();
        let refused = places.take(ends("192.0.2.1:4")).unwrap_err();
        assert_eq!(refused, Reason::Address);
        calls.remove(1);
        let (_, lost) = places.take(ends("192.0.2.1:4")).unwrap();
        assert_eq!(lost, Some("192.0.2.1:2".parse().unwrap()));
    }
}
