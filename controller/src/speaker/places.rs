//! Places of dynamic peers, `bgp.dynamic_peers_max`: which of them are given up for others. Each address has one, and the
//! addresses of one /64 have half of them at most. Knows who is silent and who lingers, no session.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::refusal::Reason;
use super::report::Report;
use crate::door::places::Source;

/// Returns why there is no place of `max` for one more peer at `address`, if there is none.
pub(super) fn lacking(
    dynamic: impl Iterator<Item = IpAddr>,
    address: IpAddr,
    max: usize,
) -> Option<Reason> {
    let source = Source::of(address);
    let (mut all, mut of_source) = (0, 0);
    // A peer that has just gone may have its place still, and gets it again.
    for other in dynamic.filter(|other| *other != address) {
        all += 1;
        of_source += usize::from(Source::of(other) == source);
    }
    if of_source >= of_one_source(max) {
        return Some(Reason::Source);
    }
    (all >= max).then_some(Reason::NoRoom)
}

/// Places of one source: half of them, so that a host, which has all of its /64, leaves the other half. The loopbacks of a whole
/// fabric may be in one /64, too.
fn of_one_source(max: usize) -> usize {
    max.div_ceil(2)
}

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

    /// The peer that makes room for another, of one source if it lacks a place there: of those that said nothing yet the first
    /// to connect, then of those whose task only remembers the first to begin that.
    pub(super) fn to_give_up(&self, of: Option<Source>) -> Option<IpAddr> {
        let first = |since: fn(&Idle) -> Option<Instant>| {
            let each = self.0.iter();
            let each = each.filter(|(it, _)| of.is_none_or(|of| Source::of(**it) == of));
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
            let found = places.to_give_up(None);
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
    #[test]
    fn a_64_has_half_of_the_places_and_gives_up_its_own() {
        let host = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]);
        let mut taken: Vec<_> = (1..=3).map(host).collect();
        let lacks = |taken: &[IpAddr], address| lacking(taken.iter().copied(), address, 5);
        assert_eq!(lacks(&taken, host(4)), Some(Reason::Source));
        assert_eq!(lacks(&taken[1..], host(4)), None);
        assert_eq!(lacks(&taken, host(3)), None, "it has its place");
        assert_eq!(lacks(&taken, address(1)), None);
        taken.extend([address(1), address(2)]);
        assert_eq!(lacks(&taken, address(3)), Some(Reason::NoRoom));
        let idle = |secs| Idle {
            silent: Some(Instant::now() + Duration::from_secs(secs)),
            lingering: None,
        };
        let places = Places(BTreeMap::from([(address(1), idle(1)), (host(1), idle(2))]));
        assert_eq!(places.to_give_up(Some(Source::of(host(4)))), Some(host(1)));
        assert_eq!(places.to_give_up(Some(Source::of(address(3)))), None);
    }
}
