//! The inbound side of a peer's session: what it may announce, how fast it is read, and what happens
//! when it goes too far. Knows the session's task; what is kept is decided by `reflector::learn`.

use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::{Message, RouteRefresh};
use weft_bgp::session::{Input, Negotiated};

use super::pause::Pause;
use super::{Peer, now};
use crate::config::RouteTargetFilter;
use crate::reflector::learn::Learned;
use crate::reflector::learn::inbound::Inbound;
use crate::reflector::learn::rate::Budget;
use crate::reflector::stake::Terms;
use crate::speaker::restart;

impl Peer {
    /// What a session that has just been established says of the peer.
    pub(super) fn terms(&self, negotiated: &Negotiated) -> Terms {
        let local_asn = self.shared.local.asn;
        Terms {
            kind: self.setup.group.kind(negotiated.peer.asn, local_asn),
            families: negotiated.families.clone(),
            preserved: restart::preserved(negotiated),
            ending: restart::ending(negotiated),
            add_path: negotiated.add_path_receive,
            inbound: self.inbound(&negotiated.families),
        }
    }

    /// A peer that cannot say what it wants wants everything.
    fn inbound(&self, families: &[Family]) -> Inbound {
        let config = self.config.borrow();
        let vteps = config.bgp.vteps.clone().into();
        let inbound = Inbound::of(&self.setup.group, vteps, &self.shared.held);
        let says = families.contains(&Family::RTC);
        match inbound.route_target_filter {
            RouteTargetFilter::Rtc if !says => Inbound {
                route_target_filter: RouteTargetFilter::Off,
                ..inbound
            },
            RouteTargetFilter::Off | RouteTargetFilter::Rtc | RouteTargetFilter::Auto => inbound,
        }
    }

    /// The policy of the group changed. What is held stays; what was refused was not kept, so the peer is
    /// asked to say it again.
    pub(super) fn repolicy(&mut self) {
        self.pace();
        let families = self
            .up
            .as_ref()
            .map(|up| up.negotiated.families.clone())
            .unwrap_or_default();
        let inbound = self.inbound(&families);
        let Some(ownership) = &mut self.ownership else {
            return;
        };
        let learned = ownership.stake.set_policy(inbound);
        self.judged(&learned);
        families
            .into_iter()
            .for_each(|family| self.ask_again(RouteRefresh::request(family)));
    }

    /// What the policy said to something that the peer announced.
    pub(super) fn judged(&mut self, learned: &Learned) {
        let Some(ownership) = &self.ownership else {
            return;
        };
        self.show_swept(&learned.swept);
        let peer = self.setup.address;
        let notable = self.report.learned(learned, ownership.stake.routes());
        for (reason, count) in notable.refused {
            tracing::warn!(%peer, reason, count, "routes refused");
        }
        for (rule, count) in notable.suspect {
            tracing::warn!(%peer, rule, count, "routes kept that break a rule of the guard");
        }
        let (malformed, unknown) = self.report.discarded(learned);
        for (error, count) in malformed {
            let (fault, offset) = (error.fault, error.offset);
            tracing::warn!(%peer, %fault, offset, count, "malformed NLRI discarded");
        }
        if let Some(count) = unknown {
            let types: Vec<_> = learned.unknown.keys().take(TYPES_SAID_MAX).collect();
            tracing::warn!(%peer, ?types, count, "NLRI of unknown types discarded");
        }
        for said in notable.near {
            let warning = said.warning;
            let (bound, count, limit) = (warning.bound, warning.count, warning.limit);
            tracing::warn!(%peer, %bound, count, limit, unsaid = said.unsaid, "a limit is near");
        }
        let held_back = learned.forgotten.then_some(Family::L2VPN_EVPN);
        let wanted = learned.room.iter().copied().chain(held_back);
        wanted.for_each(|family| self.asking.want(family));
        self.ask_for_room();
        if let Some(bound) = learned.exceeded {
            self.exceeded.get_or_insert_with(|| bound.to_string());
        }
    }

    /// A peer that went beyond a limit that ends the session goes, and may come back later.
    pub(super) async fn dismiss(&mut self) {
        let Some(bound) = self.exceeded.take().filter(|_| self.up.is_some()) else {
            return;
        };
        tracing::error!(peer = %self.setup.address, %bound, "session closed at a limit");
        let reason = format!("limit of {bound} exceeded");
        self.grievance = Some(reason.clone());
        self.pause = Some(Pause::new(now() + self.setup.group.limits.restart, reason));
        self.input(Input::Stop(Cease::MaxPrefixes)).await;
    }

    /// What was not kept for want of room is asked for again: the answer may not fit either.
    pub(super) fn ask_for_room(&mut self) {
        for family in self.asking.due(now()) {
            let up = self.up.as_ref();
            let able = up.is_some_and(|up| up.negotiated.route_refresh);
            self.report.asked(able);
            tracing::debug!(peer = %self.setup.address, %family, able, "routes asked for again");
            self.ask_again(RouteRefresh::request(family));
        }
    }

    pub(super) fn ask_again(&mut self, request: RouteRefresh) {
        let Some(up) = self.up.as_ref().filter(|up| up.negotiated.route_refresh) else {
            return;
        };
        self.send(up.side, &Message::RouteRefresh(request));
    }

    /// The peer marks the begin or the end of its own answer, RFC 7313 §4.
    pub(super) fn marked(&mut self, refresh: RouteRefresh) {
        if let Some(ownership) = &mut self.ownership {
            let learned = ownership.refreshed(refresh, now());
            self.judged(&learned);
        }
    }

    /// The rate of the group holds from now on.
    pub(super) fn pace(&mut self) {
        let rate = self.setup.group.limits.updates_per_sec;
        self.budget = match (self.budget.take(), rate) {
            (_, None) => None,
            (Some(mut budget), Some(rate)) => {
                budget.set_rate(rate);
                Some(budget)
            }
            (None, Some(rate)) => Some(Budget::new(rate, now().into_std())),
        };
        if self.budget.is_none() {
            // What was read and waits is taken now: no octet need come after it.
            self.resting = self.resting.map(|_| now());
        }
    }

    /// An UPDATE was taken. Whether the peer is to be read on.
    pub(super) fn spend(&mut self) -> bool {
        let budget = self.budget.as_mut();
        let until = budget.and_then(|budget| budget.spend(now().into_std()));
        self.resting = until.map(Into::into);
        until.is_none()
    }
}

/// Unknown types of one UPDATE that a line of the log names; the metrics have all.
const TYPES_SAID_MAX: usize = 8;
