//! Limits of a peer that came near: as many as a person reads, and a word to the log now and then. Knows no
//! route.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::reflector::learn::bounds::{Bound, Warning};

/// The limits that came near in a session.
#[derive(Clone, Debug, Default)]
pub struct Near {
    bounds: BTreeSet<Bound>,
    more: u64,
    /// By kind of limit: when the log was told last, and warnings since.
    said: BTreeMap<&'static str, (Instant, u64)>,
}

/// A warning for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The last one of its kind.
    pub warning: Warning,
    /// Others of its kind that the log was not told of.
    pub unsaid: u64,
}

impl Near {
    /// Limits came near; what the log is to be told: of each kind of limit once in `PAUSE`, whatever VNI or MAC
    /// address it is about.
    pub fn note(&mut self, warnings: &[Warning], now: Instant) -> Vec<Said> {
        let mut said = Vec::new();
        for warning in warnings {
            if self.bounds.len() < BOUNDS_MAX {
                self.bounds.insert(warning.bound);
            } else if !self.bounds.contains(&warning.bound) {
                self.more += 1;
            }
            let unsaid = match self.said.get_mut(warning.bound.name()) {
                Some((at, unsaid)) if now < *at + PAUSE => {
                    *unsaid += 1;
                    continue;
                }
                Some((_, unsaid)) => *unsaid,
                None => 0,
            };
            self.said.insert(warning.bound.name(), (now, 0));
            said.push(Said {
                warning: *warning,
                unsaid,
            });
        }
        said
    }

    /// Those that are remembered.
    pub fn bounds(&self) -> impl Iterator<Item = Bound> + '_ {
        self.bounds.iter().copied()
    }

    /// As lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more warnings", self.more));
        let bounds = self.bounds.iter().map(ToString::to_string);
        bounds.chain(more).collect()
    }

    /// Another session: what the log was told it was told.
    pub fn clear(&mut self) {
        self.bounds.clear();
        self.more = 0;
    }
}

/// Remembered at most: a peer with thousands of VNIs may come near in each.
const BOUNDS_MAX: usize = 16;
/// Between two lines of one kind: a peer must not fill the log.
const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(vni: u32) -> Warning {
        Warning {
            bound: Bound::MacsPerVni(vni),
            count: 75,
            limit: 100,
        }
    }

    #[test]
    fn the_log_is_told_once_a_minute_with_a_count() {
        let mut near = Near::default();
        let begin = Instant::now();
        let mut at = |secs, warnings: &[Warning]| {
            let said = near.note(warnings, begin + Duration::from_secs(secs));
            let said = said.iter().map(|it| (it.warning.bound, it.unsaid));
            said.collect::<Vec<_>>()
        };
        let routes = Warning {
            bound: Bound::Routes,
            ..warning(0)
        };
        let vni = Bound::MacsPerVni;
        let first = at(0, &[warning(1), warning(2), routes]);
        assert_eq!(first, [(vni(1), 0), (Bound::Routes, 0)]);
        assert_eq!(at(59, &[warning(3)]), []);
        assert_eq!(at(60, &[warning(4)]), [(vni(4), 2)]);
        assert_eq!(at(120, &[warning(5)]), [(vni(5), 0)]);
    }

    #[test]
    fn so_many_limits_are_remembered_and_no_more() {
        let mut near = Near::default();
        for vni in 0..20 {
            near.note(&[warning(vni), warning(0)], Instant::now());
        }
        assert_eq!(near.bounds().count(), BOUNDS_MAX);
        assert_eq!(near.lines().len(), BOUNDS_MAX + 1);
        assert_eq!(near.lines()[16], "and 4 more warnings");
        near.clear();
        assert_eq!(near.lines(), [""; 0]);
    }
}
