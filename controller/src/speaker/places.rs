//! Places of dynamic peers, `bgp.dynamic_peers_max`: which of them are given up for others. Each address has one. Knows who is
//! silent and who lingers, no session.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::report::Report;

/// Since when a dynamic peer needs its place for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    silent: Option<Instant>,
    lingering: Option<Instant>,
}

impl Idle {
    fn of(report: &Report) -> Self {
        Self {
            silent: report.silent_since(),
            lingering: report.lingering_since(),
        }
    }
}

/// The dynamic peers, as they are now.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<IpAddr, Idle>);

impl Places {
    /// Of these peers.
    pub(super) fn of<'a>(dynamic: impl Iterator<Item = (IpAddr, &'a Report)>) -> Self {
        let idle = |(address, report): (IpAddr, &Report)| (address, Idle::of(report));
        Self(dynamic.map(idle).collect())
    }

    /// The peer that makes room for another: of those that said nothing yet the first to connect, then of those whose task
    /// only remembers the first to begin that.
    pub(super) fn to_give_up(&self) -> Option<IpAddr> {
        let first = |since: fn(&Idle) -> Option<Instant>| {
            let each = self.0.iter();
            let each = each.filter_map(|(address, idle)| Some((since(idle)?, *address)));
            each.min().map(|(_, address)| address)
        };
        first(|idle| idle.silent).or_else(|| first(|idle| idle.lingering))
    }

    /// Peers that had their time for an OPEN, while more than half of `max` places are taken. RFC 4271 §8.2.2 suggests
    /// four minutes, which places that nobody else needs are left.
    pub(super) fn overdue(&self, max: usize, now: Instant) -> Vec<IpAddr> {
        if self.0.len() <= max / 2 {
            return Vec::new();
        }
        let is_overdue = |idle: &Idle| idle.silent.is_some_and(|since| now >= since + OPEN_WITHIN);
        let each = self.0.iter().filter(|(_, idle)| is_overdue(idle));
        each.map(|(address, _)| *address).collect()
    }
}

/// For so long a connection may be silent while places are scarce. A speaker sends its OPEN at once.
const OPEN_WITHIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn who_says_nothing_goes_before_who_is_remembered() {
        let begin = Instant::now();
        let at = |secs| Some(begin + Duration::from_secs(secs));
        let idle = |silent, lingering| Idle { silent, lingering };
        let mut places = Places(BTreeMap::from([
            (address(1), idle(None, None)),
            (address(2), idle(None, at(0))),
            (address(3), idle(at(2), None)),
            (address(4), idle(at(1), None)),
        ]));
        for expected in [Some(4), Some(3), Some(2), None] {
            let found = places.to_give_up();
            assert_eq!(found, expected.map(address));
            found.map(|address| places.0.remove(&address));
        }
    }

    #[test]
    fn silence_has_an_end_when_places_are_scarce() {
        let begin = Instant::now();
        let silent = Idle {
            silent: Some(begin),
            lingering: None,
        };
        let speaks = Idle {
            silent: None,
            ..silent
        };
        let places = Places(BTreeMap::from([
            (address(1), silent),
            (address(2), speaks),
            (address(3), speaks),
        ]));
        let late = begin + OPEN_WITHIN;
        assert_eq!(places.overdue(5, late), [address(1)]);
        assert!(places.overdue(6, late).is_empty(), "half of them are free");
        let early = late - Duration::from_millis(1);
        assert!(places.overdue(5, early).is_empty());
    }
}
