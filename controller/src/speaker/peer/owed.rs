//! Families whose End-of-RIB waits for a majority: which, and when to try again. Knows no message.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::family::Family;

/// What one session is still to be told the end of.
#[derive(Debug, Default)]
pub(super) struct Owed {
    families: BTreeSet<Family>,
    at: Option<Instant>,
}

impl Owed {
    /// Nobody confirmed that what was sent of these is everything.
    pub(super) fn owe(&mut self, families: impl IntoIterator<Item = Family>, now: Instant) {
        for family in families {
            self.families.insert(family);
            self.at = Some(now + RETRY);
        }
    }

    /// The end of this one is with the writer.
    pub(super) fn pay(&mut self, family: Family) {
        self.families.remove(&family);
    }

    /// Whether the end of a family is missing: also while it is being asked for.
    pub(super) fn owes(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Families to try again now. They are owed until they are paid.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Family> {
        match self.at.take_if(|at| now >= *at) {
            Some(_) => self.families.iter().copied().collect(),
            None => Vec::new(),
        }
    }

    /// When something will be due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }
}

/// Between two attempts to learn that what was sent is everything.
const RETRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_owed_until_it_is_paid() {
        let (evpn, ipv4) = (Family::L2VPN_EVPN, Family::IPV4_UNICAST);
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let mut owed = Owed::default();
        owed.owe([], at(0));
        assert_eq!((owed.due(at(9)), owed.deadline()), (vec![], None));
        owed.owe([evpn, ipv4], at(0));
        assert_eq!((owed.due(at(0)), owed.deadline()), (vec![], Some(at(1))));
        assert_eq!(owed.due(at(1)), [ipv4, evpn]);
        // No refresh may be answered while that is under way: it may come to nothing.
        assert!(owed.owes(evpn) && owed.owes(ipv4));
        assert_eq!((owed.due(at(2)), owed.deadline()), (vec![], None));
        owed.pay(ipv4);
        owed.owe([evpn], at(2));
        assert!(owed.owes(evpn) && !owed.owes(ipv4));
        assert_eq!(owed.due(at(3)), [evpn]);
        owed.pay(evpn);
        assert!(!owed.owes(evpn));
        assert_eq!((owed.due(at(9)), owed.deadline()), (vec![], None));
    }
}
