//! How long it takes from an UPDATE to its advertisement: counted by the reflector's thread, read by anybody. Knows no clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Durations by the first of the [`BOUNDS`] that they do not exceed. One thread counts, so that nothing is locked and no
/// instruction waits for another core.
#[derive(Debug, Default)]
pub struct Latency {
    counts: [AtomicU64; BOUNDS.len()],
    above: AtomicU64,
    nanos: AtomicU64,
}

impl Latency {
    /// Counts one duration. For one thread only: of two that count at once, one may count for nothing.
    pub fn observe(&self, took: Duration) {
        let bound = BOUNDS.iter().position(|bound| took <= *bound);
        let count = bound.map_or(&self.above, |at| &self.counts[at]);
        add(count, 1);
        add(
            &self.nanos,
            u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
        );
    }

    /// How many durations there were up to each bound and above the one before, how many above all, and their sum.
    pub fn totals(&self) -> ([u64; BOUNDS.len()], u64, Duration) {
        let counts = self.counts.each_ref().map(|count| count.load(Relaxed));
        let sum = Duration::from_nanos(self.nanos.load(Relaxed));
        (counts, self.above.load(Relaxed), sum)
    }
}

fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed).wrapping_add(more), Relaxed);
}

/// 0.25 ms to 8 s, each twice the one before: a commit takes about a millisecond, and a hold time is some seconds.
pub const BOUNDS: [Duration; 16] = {
    let mut bounds = [Duration::from_micros(250); 16];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = Duration::from_micros(250 << at);
        at += 1;
    }
    bounds
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_under_the_first_bound_that_it_does_not_exceed() {
        let latency = Latency::default();
        let micros = [0, 250, 251, 500, 8_192_000, 8_192_001, 60_000_000];
        for micros in micros {
            latency.observe(Duration::from_micros(micros));
        }
        let (counts, above, sum) = latency.totals();
        assert_eq!(counts[..3], [2, 2, 0]);
        assert_eq!((counts[15], above), (1, 2));
        assert_eq!(sum, Duration::from_micros(micros.iter().sum()));
    }
}
