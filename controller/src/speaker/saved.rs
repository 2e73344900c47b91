//! What a peer was spared because it does not want it. Counted by its writer, read by anybody; knows no route.

use std::sync::atomic::{AtomicU64, Ordering};

/// Announcements that were not sent for want of interest, in one family.
#[derive(Debug, Default)]
pub struct Saved {
    routes: AtomicU64,
    octets: AtomicU64,
}

impl Saved {
    /// A message of so many was not sent.
    pub fn add(&self, routes: u32, octets: usize) {
        self.routes.fetch_add(routes.into(), Ordering::Relaxed);
        self.octets.fetch_add(octets as u64, Ordering::Relaxed);
    }

    /// Routes and octets so far.
    pub fn totals(&self) -> (u64, u64) {
        let total = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (total(&self.routes), total(&self.octets))
    }
}
