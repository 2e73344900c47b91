//! Families whose routes the peer is to say again, since there is room now for what was refused: when. Knows
//! no message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::family::Family;

/// What is to be asked for in one session, and when that was last done.
#[derive(Debug, Default)]
pub(super) struct Asking {
    wanted: BTreeSet<Family>,
    asked: BTreeMap<Family, Instant>,
}

impl Asking {
    /// There is room for routes of this family.
    pub(super) fn want(&mut self, family: Family) {
        self.wanted.insert(family);
    }

    /// Families to ask for now; each is asked for at most once in [`PAUSE`].
    pub(super) fn due(&mut self, now: Instant) -> Vec<Family> {
        let Self { wanted, asked } = self;
        let rests = |family: &Family| asked.get(family).is_some_and(|at| now < *at + PAUSE);
        let due: Vec<_> = wanted.extract_if(.., |family| !rests(family)).collect();
        asked.extend(due.iter().map(|family| (*family, now)));
        due
    }

    /// When something will be due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let at = |family: &Family| self.asked.get(family).map(|at| *at + PAUSE);
        self.wanted.iter().filter_map(at).min()
    }
}

/// The answer may not fit either, and costs the peer its whole table.
const PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_asked_for_once_and_again_after_a_pause() {
        let (evpn, ipv4) = (Family::L2VPN_EVPN, Family::IPV4_UNICAST);
        let begin = Instant::now();
        let at = |secs| begin + Duration::from_secs(secs);
        let mut asking = Asking::default();
        assert_eq!((asking.due(at(0)), asking.deadline()), (vec![], None));
        asking.want(evpn);
        asking.want(evpn);
        assert_eq!(asking.due(at(0)), [evpn]);
        assert_eq!((asking.due(at(1)), asking.deadline()), (vec![], None));
        asking.want(evpn);
        asking.want(ipv4);
        assert_eq!(asking.due(at(2)), [ipv4]);
        assert_eq!(asking.deadline(), Some(at(30)));
        assert_eq!(asking.due(at(29)), []);
        assert_eq!(asking.due(at(30)), [evpn]);
        assert_eq!(asking.deadline(), None);
    }
}
