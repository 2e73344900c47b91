//! What a peer is told now, what it shall be told, and since when it shall wait for that: turns it without a new session.
//! Knows no route and no octet; how a turn is written is the writer's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::session::{Negotiated, Side};
use weft_bgp::update_group::ExportKey;

use super::pace::{Kind, Pace};
use super::{Peer, Why, now};
use crate::config::RouteTargetFilter;
use crate::reflector::learn::Learned;
use crate::speaker::export::Exports;
use crate::speaker::gate::Gate;
use crate::speaker::writer::Ticket;

/// How, and of what, a peer is told in a family.
pub(super) type Manner = (ExportKey, Interest);

/// A family that is to be told otherwise.
pub(super) struct Way {
    pub(super) family: Family,
    pub(super) old: Manner,
    pub(super) new: Manner,
    /// Where its stream is held meanwhile.
    pub(super) gate: Arc<Gate>,
    pub(super) ticket: Ticket,
}

/// The sending side of an established session.
pub(super) struct Exporting {
    pub(super) exports: Exports,
    wish: Wish,
    /// What the writer was ordered last, in the families that have begun.
    pub(super) told: BTreeMap<Family, Manner>,
    /// Where a family's stream is held while its turn is worked out.
    gates: BTreeMap<Family, Arc<Gate>>,
    /// How often anything of that is done.
    pub(super) pace: Pace,
    /// EVPN waits for the peer's memberships until then.
    held: Option<Instant>,
}

impl Exporting {
    pub(super) fn new(exports: Exports) -> Self {
        Self {
            exports,
            wish: Wish::default(),
            told: BTreeMap::new(),
            gates: BTreeMap::new(),
            pace: Pace::default(),
            held: None,
        }
    }

    /// How the family shall be told. Only EVPN has route targets.
    pub(super) fn manner(&self, family: Family) -> Manner {
        let interest = match family {
            Family::L2VPN_EVPN => self.wish.granted.clone(),
            _ => Interest::Everything,
        };
        (self.exports.key(family), interest)
    }

    /// The one gate of a family in this session.
    pub(super) fn gate(&mut self, family: Family) -> Arc<Gate> {
        Arc::clone(self.gates.entry(family).or_default())
    }

    /// A family that is told otherwise than it shall be, and may turn now; not one that `begins`.
    pub(super) fn next_turn(
        &mut self,
        now: Instant,
        begins: impl Fn(Family) -> bool,
    ) -> Option<Way> {
        let told = self.told.iter();
        let turns = told.map(|(family, old)| (*family, old.clone(), self.manner(*family)));
        let turns = turns.filter(|(family, old, new)| old != new && !begins(*family));
        let turns: Vec<_> = turns.collect();
        let rested = |(family, ..): &(Family, Manner, Manner)| self.pace.may_turn(*family, now);
        let (family, old, new) = turns.into_iter().find(rested)?;
        Some(Way {
            family,
            old,
            new,
            gate: self.gate(family),
            ticket: self.pace.order(family, Kind::Turn),
        })
    }

    /// Looks at what the peer wants, which may be in the `news`, unless that was done just now. Whether there was any.
    fn look(&mut self, now: Instant, news: impl FnOnce() -> Option<Interest>) -> bool {
        if !self.pace.may_look(now) {
            return false;
        }
        let Some(wanted) = news() else {
            return false;
        };
        self.pace.looked(now);
        self.wish.change(wanted, now);
        true
    }

    fn deadline(&self) -> Option<Instant> {
        let times = [self.held, self.wish.narrow_at, self.pace.deadline()];
        times.into_iter().flatten().min()
    }
}

/// What a peer wants, and what it is granted: more at once, less when it has been quiet.
#[derive(Debug, Default)]
struct Wish {
    granted: Interest,
    wanted: Interest,
    narrow_at: Option<Instant>,
}

impl Wish {
    /// The peer wants this from now on.
    fn change(&mut self, wanted: Interest, now: Instant) {
        let granted = self.granted.union(&wanted);
        self.narrow_at = (granted != wanted).then(|| now + QUIET);
        (self.granted, self.wanted) = (granted, wanted);
    }

    /// Nothing was told yet: there is nothing to be careful with.
    fn begin(&mut self, wanted: Interest) {
        self.narrow_at = None;
        (self.granted, self.wanted) = (wanted.clone(), wanted);
    }

    fn due(&mut self, now: Instant) {
        if self.narrow_at.take_if(|at| now >= *at).is_some() {
            self.granted = self.wanted.clone();
        }
    }
}

impl Peer {
    /// What of the configuration and the OPEN decides what the peer is told.
    pub(super) fn exports(&self, negotiated: &Negotiated, side: Side) -> Exports {
        let local = &self.shared.local;
        let kind = self.setup.group.kind(negotiated.peer.asn, local.asn);
        let exports = Exports::of(&self.setup.group, kind, local, negotiated);
        let exports = self.believed(exports, side);
        let why = exports.why.to_string();
        self.report.profile(exports.profile.to_string(), why);
        exports
    }

    /// Begins to tell the peer, in every family but EVPN where its memberships have to come first. RFC 4684 §6.
    pub(super) fn begin_telling(&mut self) {
        let constrained = self.is_constrained();
        let Some(up) = &mut self.up else { return };
        for family in &up.negotiated.families {
            if *family == Family::L2VPN_EVPN && constrained {
                up.exporting.held = Some(now() + MEMBERSHIPS_PATIENCE);
            } else {
                self.wanted.insert((*family, Why::Fresh), 0);
            }
        }
        self.ask();
    }

    /// Whether the peer says itself what it wants.
    fn is_constrained(&self) -> bool {
        let negotiated = self.up.as_ref().map(|up| &up.negotiated);
        self.setup.group.route_target_filter == RouteTargetFilter::Rtc
            && negotiated.is_some_and(|it| it.families.contains(&Family::RTC))
    }

    /// When something is to be done that nothing else calls for.
    pub(super) fn telling_deadline(&self) -> Option<Instant> {
        self.up.as_ref().and_then(|up| up.exporting.deadline())
    }

    /// Time has passed.
    pub(super) fn telling_due(&mut self) {
        let Some(up) = &mut self.up else { return };
        if up.exporting.held.is_some_and(|at| now() >= at) {
            return self.release();
        }
        up.exporting.pace.due(now());
        self.look();
        if let Some(up) = &mut self.up {
            up.exporting.wish.due(now());
        }
        self.ask();
    }

    /// The peer announced or withdrew something: what it wants may have changed.
    pub(super) fn heard(&mut self, learned: &Learned) {
        if learned.end_of_rib == Some(Family::RTC) && self.is_held() {
            return self.release();
        }
        if self.look() {
            self.ask();
        }
    }

    /// Whether the peer wants something else by now.
    fn look(&mut self) -> bool {
        if self.is_held() {
            return false; // all of its memberships are counted at the end
        }
        let (Some(up), Some(ownership)) = (&mut self.up, &mut self.ownership) else {
            return false;
        };
        up.exporting.look(now(), || ownership.stake.interest_news())
    }

    fn is_held(&self) -> bool {
        self.up
            .as_ref()
            .is_some_and(|up| up.exporting.held.is_some())
    }

    /// What the peer wants, if that changed. While its memberships are awaited they are all counted at the end.
    fn interest_news(&mut self) -> Option<Interest> {
        if self.is_held() {
            return None;
        }
        self.ownership.as_mut()?.stake.interest_news()
    }

    /// The peer's memberships are there, or it had its time: EVPN begins.
    fn release(&mut self) {
        let wanted = self.ownership.as_ref().map(|it| it.stake.interest());
        if let Some(up) = &mut self.up {
            up.exporting.held = None;
            up.exporting.wish.begin(wanted.unwrap_or_default());
            self.want(Family::L2VPN_EVPN, Why::Fresh, 0);
        }
    }

    /// The configuration changed: what the peer is told is worked out again.
    pub(super) fn retell(&mut self) {
        let Some(up) = &self.up else { return };
        let exports = self.exports(&up.negotiated, up.side);
        let constrained = self.is_constrained();
        let news = self.interest_news();
        let Some(up) = &mut self.up else { return };
        up.exporting.exports = exports;
        if let Some(wanted) = news {
            up.exporting.wish.change(wanted, now());
        }
        if up.exporting.held.is_some() && !constrained {
            return self.release();
        }
        self.ask();
    }
}

/// How long a peer may take to say what it wants before it is told what it said so far.
const MEMBERSHIPS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a peer must not have changed its mind before routes are taken away from it.
const QUIET: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use weft_bgp::attribute::ExtendedCommunity;
    use weft_bgp::capability::AddPathSet;
    use weft_bgp::message::DecodeContext;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::reflect::Local;
    use weft_bgp::table::PeerKind;

    use super::*;
    use crate::config::PeerGroup;

    const EVPN: Family = Family::L2VPN_EVPN;

    fn exports(vnis: &[u32]) -> Interest {
        let target = |vni: &u32| ExtendedCommunity::route_target_as2(64_496, *vni);
        Interest::of_exports(vnis.iter().map(target))
    }

    #[tokio::test(start_paused = true)]
    async fn an_interest_widens_at_once_and_narrows_when_it_is_quiet() {
        let mut wish = Wish::default();
        let start = now();
        let after = |secs| start + Duration::from_secs(secs);
        wish.change(exports(&[1]), start);
        assert_eq!(wish.granted, Interest::Everything, "not narrower yet");
        wish.due(after(9));
        assert_eq!(wish.granted, Interest::Everything);
        wish.due(after(10));
        assert_eq!(wish.granted, exports(&[1]));
        assert_eq!(wish.narrow_at, None);

        wish.change(exports(&[1, 2]), after(20));
        assert_eq!(wish.granted, exports(&[1, 2]), "wider at once");
        assert_eq!(wish.narrow_at, None);

        wish.change(exports(&[2]), after(30));
        wish.change(exports(&[2, 3]), after(35));
        assert_eq!(wish.granted, exports(&[1, 2, 3]));
        wish.due(after(40));
        assert_eq!(wish.granted, exports(&[1, 2, 3]), "not quiet yet");
        wish.due(after(45));
        assert_eq!(wish.granted, exports(&[2, 3]));

        // It exports nothing any more: back to everything, at once.
        wish.change(exports(&[]), after(50));
        assert_eq!(wish.granted, Interest::Everything);
    }

    fn negotiated() -> Negotiated {
        Negotiated {
            peer: PeerId {
                router_id: RouterId(0xc000_0201),
                asn: 64_496,
            },
            ibgp: true,
            hold: Duration::from_secs(9),
            keepalive: Duration::from_secs(3),
            send_hold: Duration::from_secs(480),
            families: vec![EVPN],
            decode: DecodeContext {
                four_octet_as: true,
                ibgp: true,
                extended_message: true,
                add_path: AddPathSet::NONE,
            },
            max_len: u16::MAX,
            route_refresh: true,
            enhanced_route_refresh: true,
            add_path_receive: AddPathSet::NONE,
            add_path_send: AddPathSet::NONE,
            ipv4_over_ipv6: false,
            graceful_restart: None,
            restart_after_notification: false,
            long_lived: Vec::new(),
            peer_capabilities: Vec::new(),
        }
    }

    /// EVPN has begun, with this interest.
    fn telling(interest: Interest) -> Exporting {
        let local = Local {
            asn: 64_496,
            router_id: RouterId(0xc000_02fe),
            cluster_id: ClusterId(0xc000_02ff),
        };
        let group = PeerGroup::new("leaves".to_owned());
        let exports = Exports::of(&group, PeerKind::IbgpClient, &local, &negotiated());
        let mut exporting = Exporting::new(exports);
        exporting.wish.begin(interest);
        let manner = exporting.manner(EVPN);
        exporting.told.insert(EVPN, manner);
        exporting
    }

    #[test]
    fn a_peer_that_never_is_quiet_turns_now_and_then_and_gets_what_it_wants() {
        let mut exporting = telling(exports(&[0]));
        let begin = now();
        let all: Vec<u32> = (0..=100).collect();
        let (mut looks, mut turned) = (0, Vec::new());
        let mut news = None;
        for step in 1..500 {
            let now = begin + Duration::from_millis(10) * step;
            let heard = all.get(..=step as usize).map(exports);
            let due = exporting.deadline().is_some_and(|at| now >= at);
            news = heard.or(news);
            if news.is_none() && !due {
                continue;
            }
            exporting.pace.due(now);
            exporting.look(now, || {
                looks += usize::from(news.is_some());
                news.take()
            });
            exporting.wish.due(now);
            exporting.pace.begin();
            if let Some(way) = exporting.next_turn(now, |_| false) {
                exporting.told.insert(way.family, way.new);
                // It took 80 ms, and the writer begins with it at once.
                let rest = Duration::from_millis(800);
                exporting.pace.rest(way.family, now, rest);
                turned.push((now - begin).as_millis());
            }
        }
        assert_eq!(looks, 11);
        assert_eq!(turned, [10, 810, 1610]);
        assert_eq!(exporting.told[&EVPN].1, exports(&all));
        assert_eq!(exporting.deadline(), None);
    }
}
