//! Counts what doors refuse, and logs it at most ten times a second. Knows reasons, and no connection.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// Why a connection or a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// All places are taken.
    Full,
    /// All places of its address are taken.
    Address,
    /// It is idle, and a connection of an address with fewer places needs its place.
    GaveWay,
    /// Its first octets do not come.
    Silent,
    /// Its address is of no replica.
    Stranger,
    /// Too many octets of requests are in flight.
    Octets,
    /// The caller is on another machine, and only callers on this one are answered.
    Far,
}

impl Reason {
    /// As a label.
    fn label(self) -> &'static str {
        match self {
            Self::Full => "all places taken",
            Self::Address => "places of its address taken",
            Self::GaveWay => "idle connection gave way",
            Self::Silent => "no octets in time",
            Self::Stranger => "address of no replica",
            Self::Octets => "request octets in flight",
            Self::Far => "caller beyond this machine",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    door: &'static str,
    reason: &'static str,
}

/// The counters of all doors; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    counts: Family<Labels, Counter>,
    pace: Arc<Mutex<Pace>>,
}

impl Refusals {
    /// Puts the counters on a page.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Connections and calls that a door refused, by door and reason";
        registry.register("door_refused", help, self.counts.clone());
    }

    /// Counts a refusal, and logs it if few were logged lately.
    pub(crate) fn note(&self, door: &'static str, reason: Reason, from: impl Display) {
        let reason = reason.label();
        self.counts.get_or_create(&Labels { door, reason }).inc();
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let unlogged = pace.line(Instant::now());
        drop(pace);
        if let Some(unlogged) = unlogged {
            tracing::warn!(door, %from, reason, unlogged, "refused");
        }
    }

    /// How often a door refused for a reason.
    #[cfg(test)]
    pub(crate) fn count(&self, door: &'static str, reason: Reason) -> u64 {
        let reason = reason.label();
        self.counts.get_or_create(&Labels { door, reason }).get()
    }
}

/// At most [`LINES_MAX`] lines of the log a second.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Begin of the second.
    began: Option<Instant>,
    lines: u32,
    unlogged: u64,
}

impl Pace {
    /// Returns how many lines were left out before this one, if it is to be logged.
    pub(crate) fn line(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now >= began + SECOND) {
            self.began = Some(now);
            self.lines = 0;
        }
        if self.lines >= LINES_MAX {
            self.unlogged += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.unlogged))
    }
}

/// Lines a second: enough to see who it is, and not enough to fill a disk.
const LINES_MAX: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_are_logged_and_the_next_one_has_the_count_of_the_others() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        let logged = (0..1_000).filter_map(|_| pace.line(begin));
        assert_eq!(logged.collect::<Vec<_>>(), [0; 10]);
        assert_eq!(pace.line(begin + SECOND), Some(990));
        assert_eq!(pace.line(begin + SECOND), Some(0));
    }
}
