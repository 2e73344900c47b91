//! Who has a MAC address: a VTEP, or all VTEPs of a segment. Numbered, since there are few of them and
//! many addresses.

use std::fmt;
use std::net::IpAddr;

use foldhash::{HashMap, HashSet};
use weft_bgp::attribute::Attributes;

use crate::esi::Esi;
use crate::route::MacIp;
use crate::vtep::next_hop;

/// Where a MAC address is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// Behind one VTEP.
    Vtep(IpAddr),
    /// Behind a segment: from one of its VTEPs to another is no move. RFC 7432 §15.
    Segment(Esi),
}

impl Holder {
    /// Where a type 2 says that its MAC address is; `None` without a next hop.
    #[must_use]
    pub fn of(route: &MacIp, attributes: &Attributes) -> Option<Self> {
        if route.esi.is_zero() {
            next_hop(attributes).map(Self::Vtep)
        } else {
            Some(Self::Segment(route.esi))
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vtep(address) => address.fmt(f),
            Self::Segment(esi) => write!(f, "segment {esi}"),
        }
    }
}

/// Holders by number.
#[derive(Debug, Default)]
pub(super) struct Holders {
    numbers: HashMap<Holder, u32>,
    holders: HashMap<u32, Holder>,
    next: u32,
    after_sweep: usize,
}

impl Holders {
    pub(super) fn number(&mut self, holder: Holder) -> u32 {
        if let Some(number) = self.numbers.get(&holder) {
            return *number;
        }
        // Four billion holders would have to come and go first; numbers in use are skipped.
        while self.holders.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.numbers.insert(holder, number);
        self.holders.insert(number, holder);
        number
    }

    pub(super) fn get(&self, number: u32) -> Option<Holder> {
        self.holders.get(&number).copied()
    }

    /// Forgets those whose numbers are not used any more, once there are twice as many as after the last time.
    pub(super) fn keep(&mut self, used: impl Iterator<Item = u32>) {
        if self.holders.len() < SWEEP_AT_LEAST.max(2 * self.after_sweep) {
            return;
        }
        let used: HashSet<u32> = used.collect();
        self.holders.retain(|number, _| used.contains(number));
        self.numbers.retain(|_, number| used.contains(number));
        self.after_sweep = self.holders.len();
    }
}

/// Fewer holders (some 100 kB) are not worth a look at every MAC address.
const SWEEP_AT_LEAST: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_nothing_has_are_forgotten() {
        let mut holders = Holders::default();
        let vtep = |number: u32| Holder::Vtep(std::net::Ipv4Addr::from(number).into());
        let kept = holders.number(vtep(0));
        for number in 1..100_000 {
            holders.number(vtep(number));
            holders.keep([kept].into_iter());
            assert!(holders.holders.len() <= SWEEP_AT_LEAST && holders.get(kept) == Some(vtep(0)));
        }
        assert_eq!(holders.numbers.len(), holders.holders.len());
        assert_eq!(holders.number(vtep(0)), kept);
    }
}
