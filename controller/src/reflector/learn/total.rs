//! Estimated octets of the routes that all sessions of a replica hold, and how many there may be. Knows no route.
//!
//! The sum of what each session counts, and not the memory of the process: it holds for the next route and not only for the next
//! look, routes that go make room at once, and caches and journals do not count.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use weft_bgp::family::Family;

use super::bounds::has_room;

/// The sum over all sessions. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Total(Arc<Sum>);

#[derive(Debug, Default)]
struct Sum {
    octets: AtomicU64,
    /// 0: none.
    limit: AtomicU64,
    /// True from a refusal on until there is room again.
    is_full: AtomicBool,
}

impl Total {
    /// Returns the sum of a replica without sessions.
    pub fn new(limit: Option<u64>) -> Self {
        let total = Self::default();
        total.set_limit(limit);
        total
    }

    /// Replaces the limit. Routes that are held stay.
    pub fn set_limit(&self, limit: Option<u64>) {
        self.0.limit.store(limit.unwrap_or(0), Relaxed);
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<u64> {
        Some(self.0.limit.load(Relaxed)).filter(|limit| *limit > 0)
    }

    /// Octets that are held.
    pub fn octets(&self) -> u64 {
        self.0.octets.load(Relaxed)
    }

    /// Returns why new routes are refused, if they are.
    pub fn fault(&self) -> Option<String> {
        let limit = self.limit().filter(|_| self.is_full())?;
        let held = self.octets() >> 20;
        let limit = limit >> 20;
        Some(format!(
            "new routes are refused: peers hold {held} MiB, and bgp.route_octets_total is {limit} MiB"
        ))
    }

    /// True while routes are refused: from a refusal on until a twentieth is free.
    pub fn is_full(&self) -> bool {
        self.0.is_full.load(Relaxed) && !self.has_room()
    }

    fn has_room(&self) -> bool {
        let limit = self.limit();
        limit.is_none_or(|limit| has_room(self.octets(), limit))
    }
}

#[cfg(test)]
impl Total {
    /// Makes it as if a route had been refused.
    pub(crate) fn fill(&self) {
        self.0.octets.store(self.0.limit.load(Relaxed), Relaxed);
        self.0.is_full.store(true, Relaxed);
    }
}

/// The part of one session, which goes with it.
#[derive(Debug, Default)]
pub(super) struct Share {
    total: Total,
    octets: u64,
    /// Families of which routes were refused, until there is room.
    refused: BTreeSet<Family>,
}

impl Share {
    /// Counts in this sum from now on.
    pub(super) fn join(&mut self, total: &Total) {
        if Arc::ptr_eq(&self.total.0, &total.0) {
            return;
        }
        self.total.0.octets.fetch_sub(self.octets, Relaxed);
        total.0.octets.fetch_add(self.octets, Relaxed);
        self.total = total.clone();
    }

    /// True if a route of `new` octets in place of one of `old` is more than there may be. One that shrinks is not.
    pub(super) fn overflows(&self, old: u64, new: u64) -> bool {
        let after = self.total.octets().saturating_add(new.saturating_sub(old));
        let limit = self.total.limit();
        new > old && limit.is_some_and(|limit| after > limit)
    }

    /// Notes that a route of this family was refused.
    pub(super) fn refuse(&mut self, family: Family) {
        self.refused.insert(family);
        let was_full = self.total.is_full();
        self.total.0.is_full.store(true, Relaxed);
        if !was_full && let Some(fault) = self.total.fault() {
            tracing::error!(%fault, "limit of all peers reached");
        }
    }

    /// Counts a route of `new` octets in place of one of `old`.
    pub(super) fn resize(&mut self, old: u64, new: u64) {
        self.octets = self.octets.saturating_add(new).saturating_sub(old);
        let octets = &self.total.0.octets;
        if new >= old {
            octets.fetch_add(new - old, Relaxed);
        } else {
            octets.fetch_sub(old - new, Relaxed);
        }
    }

    /// Families of which routes were refused, once there is room: each once.
    pub(super) fn take_room(&mut self) -> BTreeSet<Family> {
        if self.refused.is_empty() || !self.total.has_room() {
            return BTreeSet::new();
        }
        std::mem::take(&mut self.refused)
    }

    /// Forgets what was refused: somebody else asks for it.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.total.0.octets.fetch_sub(self.octets, Relaxed);
    }
}

/// Octets that a route is counted with: its key, its value as if no other route had the same, and what tables and indices add.
pub(super) fn octets_of(key: &[u8], value: &[u8]) -> u64 {
    let said = key.len() + value.len();
    u64::try_from(said)
        .unwrap_or(u64::MAX)
        .saturating_add(ROUTE_OCTETS)
}

/// The entries of a route in the Adj-RIB-In, the table, its indices, the journal and the store's memory.
const ROUTE_OCTETS: u64 = 512;
