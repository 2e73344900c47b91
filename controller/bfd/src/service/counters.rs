//! What the service counts. It refuses to know who looks, and how numbers are shown.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets since the service was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken by a session.
    pub received: u64,
    /// Given to the system.
    pub sent: u64,
    /// Refused by the system: no route, no such local address yet, or a full queue.
    pub unsent: u64,
    /// Dropped: not a packet that we take, RFC 5880 §6.8.6.
    pub malformed: u64,
    /// Dropped: its TTL or hop limit shows that it comes from too far away, RFC 5881 §5.
    pub far: u64,
    /// Dropped: it names a session that is not ours.
    pub unknown: u64,
    /// Dropped: from an address that is not watched, or not that of the session it names; or without a name,
    /// for a session that is Up.
    pub foreign: u64,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub(super) struct Counting {
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) unsent: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) far: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) foreign: AtomicU64,
}

impl Counting {
    pub(super) fn read(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            received: read(&self.received),
            sent: read(&self.sent),
            unsent: read(&self.unsent),
            malformed: read(&self.malformed),
            far: read(&self.far),
            unknown: read(&self.unknown),
            foreign: read(&self.foreign),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
