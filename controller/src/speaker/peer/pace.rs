//! How often one peer makes the reflector look at a whole table: what is ordered of its writer is begun with before the
//! next of its kind, and who has turned rests. Knows no route and no channel.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::family::Family;

use crate::speaker::writer::Ticket;

/// What is ordered one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The routes once more. RFC 2918.
    Again,
    /// Another way to tell them, or others.
    Turn,
}

/// Of one session.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What the writer was ordered last: it is begun with when nobody has the ticket any more.
    ordered: BTreeMap<(Family, Kind), Weak<()>>,
    /// Families that do not turn again before.
    rests: BTreeMap<Family, Instant>,
    /// When it was looked at what the peer wants.
    looked: Option<Instant>,
    /// It is to be looked at then.
    look_at: Option<Instant>,
    /// Something was put off: it is to be asked for then.
    ask_at: Option<Instant>,
}

impl Pace {
    /// The ticket of an order.
    pub(super) fn order(&mut self, family: Family, kind: Kind) -> Ticket {
        let ticket = Ticket::default();
        let weak = Arc::downgrade(&ticket);
        self.ordered.insert((family, kind), weak);
        ticket
    }

    /// Whether another one may be ordered. Not while the writer has one before it: a peer that does not read what it asks
    /// for would keep a table for each time it asks.
    pub(super) fn may_order(&mut self, family: Family, kind: Kind, now: Instant) -> bool {
        let last = self.ordered.get(&(family, kind));
        let waits = last.is_some_and(|ticket| ticket.strong_count() > 0);
        if waits {
            self.put_off(now + WRITER_LOOK);
        }
        !waits
    }

    /// The family has turned, and does not do so again for that long.
    pub(super) fn rest(&mut self, family: Family, now: Instant, rest: Duration) {
        self.rests.insert(family, now + rest);
    }

    /// Whether a family may turn now.
    pub(super) fn may_turn(&mut self, family: Family, now: Instant) -> bool {
        match self.rests.get(&family) {
            Some(at) if now < *at => {
                self.put_off(*at);
                false
            }
            Some(_) | None => self.may_order(family, Kind::Turn, now),
        }
    }

    /// Whether to look at what the peer wants, which is all that it has said of that.
    pub(super) fn may_look(&mut self, now: Instant) -> bool {
        let next = self.looked.map(|at| at + INTEREST_LOOK);
        self.look_at = next.filter(|at| now < *at);
        self.look_at.is_none()
    }

    /// That was done, and it was something new.
    pub(super) fn looked(&mut self, now: Instant) {
        self.looked = Some(now);
    }

    fn put_off(&mut self, until: Instant) {
        let first = self.ask_at.map_or(until, |at| at.min(until));
        self.ask_at = Some(first);
    }

    /// Everything that was put off is asked for again.
    pub(super) fn begin(&mut self) {
        self.ask_at = None;
    }

    /// Time has passed: what is due now is done by whoever says so.
    pub(super) fn due(&mut self, now: Instant) {
        for at in [&mut self.look_at, &mut self.ask_at] {
            at.take_if(|at| now >= *at);
        }
    }

    /// When something that was put off is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        [self.look_at, self.ask_at].into_iter().flatten().min()
    }
}

/// Between two looks at whether the writer has begun with what it was ordered.
const WRITER_LOOK: Duration = Duration::from_millis(250);
/// Between two looks at what the peer wants.
const INTEREST_LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const EVPN: Family = Family::L2VPN_EVPN;

    #[test]
    fn one_order_of_a_kind_waits_for_the_writer() {
        let mut pace = Pace::default();
        let now = Instant::now();
        let mut inbox = Vec::new();
        for _ in 0..20 {
            pace.begin();
            if pace.may_order(EVPN, Kind::Again, now) {
                inbox.push(pace.order(EVPN, Kind::Again));
            }
        }
        assert_eq!(inbox.len(), 1);
        assert_eq!(pace.deadline(), Some(now + WRITER_LOOK));
        assert!(pace.may_turn(EVPN, now), "that is another kind");
        assert!(pace.may_order(Family::IPV4_UNICAST, Kind::Again, now));
        inbox.clear();
        pace.begin();
        assert!(pace.may_order(EVPN, Kind::Again, now));
        assert_eq!(pace.deadline(), None);
    }

    #[test]
    fn a_turn_waits_for_the_rest_and_the_writer() {
        let mut pace = Pace::default();
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        assert!(pace.may_turn(EVPN, begin));
        let ticket = pace.order(EVPN, Kind::Turn);
        pace.rest(EVPN, begin, Duration::from_millis(800));
        assert!(!pace.may_turn(EVPN, after(799)));
        assert_eq!(pace.deadline(), Some(after(800)));
        pace.begin();
        assert!(!pace.may_turn(EVPN, after(800)), "it was not begun with");
        assert_eq!(pace.deadline(), Some(after(800) + WRITER_LOOK));
        drop(ticket);
        pace.begin();
        assert!(pace.may_turn(EVPN, after(1050)));
        assert_eq!(pace.deadline(), None);
    }
}
