//! The one way into the Adj-RIB-In and the one way out: every count is kept here. Knows routes by key
//! and value, and typed only where something counts them.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_evpn::Route;
use weft_evpn::route::Opaque;

use super::bounds::Bound;
use super::fact::Fact;
use super::hosts::Host;
use super::inbound::Inbound;
use super::sanity::{Awaited, FabricView, Verdict};
use super::total::octets_of;
use super::{AdjRibIn, Learned, note};
use crate::config::LimitAction;
use crate::ledger::{self, FactKey};

impl AdjRibIn {
    /// Another policy, from now on. What is held stays, whatever the limits, but for types that are not to be
    /// kept any more; what was held back is looked
    /// at again; what was refused was not kept, so the peer has to be asked for it.
    pub fn set_policy(&mut self, policy: Inbound) -> Learned {
        self.sanity
            .set_rules(policy.guard, Arc::clone(&policy.vteps));
        let was_auto = self.interest.is_auto();
        self.interest.set_filter(policy.route_target_filter);
        if self.hosts.limit(&policy.limits) {
            self.count_hosts();
        }
        self.share.join(&policy.total);
        let was_opaque = std::mem::replace(&mut self.policy, policy).opaque;
        self.bounds.forget_refused();
        self.share.forget_refused();
        self.hosts.forget_refused();
        if self.interest.is_auto() && !was_auto {
            self.count_targets();
        }
        let mut learned = Learned::default();
        if was_opaque && !self.policy.opaque {
            self.remove_opaque(&mut learned);
        }
        self.look_again(&mut learned);
        learned
    }

    /// Nobody is to be told any more of what only its receivers know.
    fn remove_opaque(&mut self, learned: &mut Learned) {
        let opaque = |key: &&Bytes| {
            let route_type = kind_of(key).and_then(|(_, route_type)| route_type);
            route_type.is_some_and(Opaque::is_opaque)
        };
        let held = self.sanity.held();
        let keys = self.routes.keys().chain(held.iter().map(|(key, _)| key));
        let mut keys: Vec<_> = keys.filter(opaque).cloned().collect();
        keys.sort_unstable();
        for key in keys {
            self.remove(&key, learned);
            learned.swept.push(key);
        }
    }

    /// The fabric looks like this now; what was held back for its sake may be kept.
    pub fn see(&mut self, view: Arc<FabricView>) -> Learned {
        self.sanity.see(view);
        let mut learned = Learned::default();
        for awaited in self.sanity.seen() {
            self.look_at(self.sanity.held_for(awaited), &mut learned);
        }
        self.look_at_news(&mut learned);
        learned
    }

    /// The peer begins to say all routes of `family` again. RFC 7313 §4.
    pub fn begin_refresh(&mut self, family: Family) {
        let of_family = |key: &&Bytes| family_of(key) == Some(family);
        let held = self.sanity.held();
        let keys = self.routes.keys().chain(held.iter().map(|(key, _)| key));
        self.refresh.begin(family, keys.filter(of_family).cloned());
    }

    /// The peer has said all routes of `family` again, or nobody waits any longer: what it did not say is
    /// gone. Without a begin nothing is.
    pub fn end_refresh(&mut self, family: Family) -> Learned {
        let mut learned = Learned::default();
        for key in self.refresh.end(family) {
            self.remove(&key, &mut learned);
            learned.swept.push(key);
        }
        self.look_for_room(&mut learned);
        learned
    }

    /// Withdrawals make room for what was refused.
    pub(super) fn look_for_room(&mut self, learned: &mut Learned) {
        let limits = &self.policy.limits;
        learned.room.extend(self.bounds.take_room(limits));
        learned.room.extend(self.share.take_room());
        if self.hosts.take_room(limits) {
            learned.room.insert(Family::L2VPN_EVPN);
        }
    }

    /// The families of which routes were refused for the sake of all peers, once others made room.
    pub fn take_room(&mut self) -> Learned {
        Learned {
            room: self.share.take_room(),
            ..Learned::default()
        }
    }

    /// Keeps routes that share their attributes: equal payloads share one value.
    pub(super) fn take<N: Fact>(
        &mut self,
        routes: impl Iterator<Item = (u32, N)>,
        attributes: &Attributes,
        verdict: Option<&'static str>,
        learned: &mut Learned,
    ) {
        // What a peer sent may be longer now by the AS that it knows us by.
        let long_path = attributes.as_path.is_too_long();
        let verdict = verdict.or_else(|| long_path.then_some("AS path too long"));
        let octets = match verdict {
            None => attributes.to_octets(),
            Some(_) => Bytes::new(),
        };
        let octets_max = usize::try_from(self.policy.limits.attribute_octets).unwrap_or(usize::MAX);
        let too_long = octets.len() > octets_max;
        let verdict = verdict.or_else(|| too_long.then_some("attribute octets"));
        let mut value = Bytes::new();
        for (path_id, route) in routes {
            if let Some(reason) = verdict.or_else(|| route.refused(attributes)) {
                // What stood under this key before is not what the peer says now.
                self.withdraw(path_id, &route, learned);
                note(&mut learned.refused, reason, 1);
                continue;
            }
            let next = ledger::encode_path(&route, &octets, &mut self.scratch);
            if next != value {
                value = next;
            }
            let key = self.key(path_id, &route);
            self.keep(key, &value, &route, attributes, learned);
        }
    }

    /// Whether it was there.
    pub(super) fn withdraw<N: Nlri>(
        &mut self,
        path_id: u32,
        route: &N,
        learned: &mut Learned,
    ) -> bool {
        let key = self.key(path_id, route);
        let before = learned.withdrawn;
        self.remove(&key, learned);
        learned.withdrawn > before
    }

    /// Judges and counts a route that may be kept as far as it alone says, and keeps it.
    fn keep<N: Fact>(
        &mut self,
        key: Bytes,
        value: &Bytes,
        route: &N,
        attributes: &Attributes,
        learned: &mut Learned,
    ) {
        self.refresh.said(N::family(), &key);
        if let Some(evpn) = route.evpn() {
            match self.sanity.judge(evpn, attributes) {
                Verdict::Keep(suspect) => {
                    for rule in suspect.iter() {
                        note(&mut learned.suspect, rule.name(), 1);
                    }
                    self.sanity.release(&key);
                }
                Verdict::Hold(rule) => {
                    self.drop(&key, learned);
                    let vtep = vtep(attributes);
                    self.sanity.hold(key, value.clone(), rule, vtep);
                    note(&mut learned.refused, rule.name(), 1);
                    return;
                }
            }
        }
        if self.routes.get(&key) == Some(value) {
            learned.announced += 1;
            return;
        }
        if !self.admit(&key, value, route, attributes, learned) {
            return;
        }
        learned.announced += 1;
        let before = self.routes.insert(key.clone(), value.clone());
        self.count(&key, value, attributes);
        if let Some(before) = before {
            self.uncount(&key, &before);
        }
        self.pending.mark(key);
    }

    /// Whether the limits let it in.
    fn admit<N: Fact>(
        &mut self,
        key: &Bytes,
        value: &Bytes,
        route: &N,
        attributes: &Attributes,
        learned: &mut Learned,
    ) -> bool {
        let (family, route_type) = (N::family(), route.evpn().map(Route::route_type));
        let limits = &self.policy.limits;
        let before = self.routes.get(key);
        let (old, new) = (before.map_or(0, Bytes::len), value.len());
        let old_all = before.map_or(0, |value| octets_of(key, value));
        let new_all = octets_of(key, value);
        let mut broken = None;
        if before.is_none() {
            broken = self.bounds.broken(limits, family, route_type);
        }
        if broken.is_none() && self.bounds.overflows(limits, old, new) {
            broken = Some(Bound::Octets);
        }
        if limits.action == LimitAction::Warn {
            broken = None; // told of when it came near
        }
        if let Some(bound) = broken {
            self.bounds.refused(bound, family);
        }
        // The limit is not this peer's: whatever the action, the route is refused and the session goes on.
        if broken.is_none() && self.share.overflows(old_all, new_all) {
            self.share.refuse(family);
            broken = Some(Bound::Total);
        }
        // A host that has no room in its new place has left its old one; one that was not counted yet has not.
        let was_counted = broken.is_some();
        if let (None, Some(evpn), true) = (broken, route.evpn(), self.hosts.is_counting()) {
            let old = before.and_then(|value| typed(key, value));
            let old = old.as_ref().map(|(route, attributes)| (route, attributes));
            let new = Host {
                key,
                route: evpn,
                attributes,
            };
            match self.hosts.admit(old, new, limits.action) {
                Ok(warning) => learned.warned.extend(warning),
                Err(bound) => broken = Some(bound),
            }
        }
        if let Some(bound) = broken {
            if before.is_some() {
                // Where it was it is not any more, and where it is now there is no room.
                self.forget(key, was_counted, learned);
            }
            note(&mut learned.refused, bound.name(), 1);
            let resets = self.policy.limits.action == LimitAction::Reset;
            if resets && bound != Bound::Total {
                learned.exceeded.get_or_insert(bound);
            }
            return false;
        }
        self.bounds.resize(old, new);
        self.share.resize(old_all, new_all);
        if before.is_none() {
            let warnings = self.bounds.add(limits, family, route_type);
            learned.warned.extend(warnings);
        }
        true
    }

    /// A route is withdrawn, kept or held back.
    fn remove(&mut self, key: &Bytes, learned: &mut Learned) {
        if self.sanity.release(key) {
            learned.withdrawn += 1;
        }
        self.drop(key, learned);
    }

    /// A route that is kept goes.
    fn drop(&mut self, key: &Bytes, learned: &mut Learned) {
        self.forget(key, true, learned);
    }

    /// As `drop`; a host that was not counted in its new place is not counted in its old one either.
    fn forget(&mut self, key: &Bytes, is_host: bool, learned: &mut Learned) {
        let Some(value) = self.routes.remove(key) else {
            return;
        };
        learned.withdrawn += 1;
        let Some((family, route_type)) = kind_of(key) else {
            return;
        };
        self.refresh.said(family, key);
        self.bounds.resize(value.len(), 0);
        self.share.resize(octets_of(key, &value), 0);
        self.bounds.remove(&self.policy.limits, family, route_type);
        if is_host
            && self.hosts.is_counting()
            && let Some((route, attributes)) = typed(key, &value)
        {
            self.hosts.release(Host {
                key,
                route: &route,
                attributes: &attributes,
            });
        }
        if let Some(membership) = membership(key) {
            self.interest.leave(&membership);
        }
        self.uncount(key, &value);
        self.pending.mark(key.clone());
    }

    /// What follows from the value of a route that is kept.
    fn count(&mut self, key: &Bytes, value: &Bytes, attributes: &Attributes) {
        match kind_of(key) {
            Some((Family::L2VPN_EVPN, route_type)) => {
                self.interest.add(value, attributes);
                let flooding = route_type == Some(INCLUSIVE_MULTICAST);
                if let Some(vtep) = vtep(attributes).filter(|_| flooding) {
                    self.sanity.announce(vtep);
                }
            }
            Some((Family::RTC, _)) => {
                if let Some(membership) = membership(key) {
                    self.interest.join(membership);
                }
            }
            Some(_) | None => {}
        }
    }

    fn uncount(&mut self, key: &Bytes, value: &Bytes) {
        let Some((Family::L2VPN_EVPN, route_type)) = kind_of(key) else {
            return;
        };
        self.interest.remove(value);
        if route_type == Some(INCLUSIVE_MULTICAST)
            && let Some((_, attributes)) = ledger::decode_path(value)
            && let Some(vtep) = vtep(&attributes)
        {
            self.sanity.retract(vtep);
        }
    }

    /// Routes that were held back and are vouched for now are kept: all are looked at.
    pub(super) fn look_again(&mut self, learned: &mut Learned) {
        self.look_at(self.sanity.held(), learned);
        self.look_at_news(learned);
    }

    /// The same, of those only that wait for what the peer announced.
    pub(super) fn look_at_news(&mut self, learned: &mut Learned) {
        loop {
            let news = self.sanity.take_news();
            if news.is_empty() {
                break;
            }
            // Each type 3 among them may vouch for others.
            for vtep in news {
                self.look_at(self.sanity.held_for(Awaited::Vtep(vtep)), learned);
            }
        }
        learned.forgotten |= self.sanity.take_forgot();
    }

    fn look_at(&mut self, held: Vec<(Bytes, Bytes)>, learned: &mut Learned) {
        for (key, value) in held {
            let Some((route, attributes)) = typed(&key, &value) else {
                continue;
            };
            learned.looked_at += 1;
            match self.sanity.judge(&route, &attributes) {
                Verdict::Keep(_) => self.keep(key, &value, &route, &attributes, learned),
                // It may wait for something else now.
                Verdict::Hold(rule) => self.sanity.hold(key, value, rule, vtep(&attributes)),
            }
        }
    }

    fn count_hosts(&mut self) {
        for (key, value) in &self.routes {
            if let Some((route, attributes)) = typed(key, value) {
                let host = Host {
                    key,
                    route: &route,
                    attributes: &attributes,
                };
                // What is held stays, and counts as far as it fits.
                let _ = self.hosts.admit(None, host, LimitAction::Warn);
            }
        }
    }

    fn count_targets(&mut self) {
        let mut decoded: HashMap<Bytes, Attributes> = HashMap::new();
        for (key, value) in &self.routes {
            if family_of(key) != Some(Family::L2VPN_EVPN) {
                continue;
            }
            let attributes = decoded.entry(value.clone()).or_insert_with(|| {
                let path = ledger::decode_path(value);
                path.map(|(_, attributes)| attributes).unwrap_or_default()
            });
            self.interest.add(value, attributes);
        }
    }
}

/// A stored EVPN route and its attributes.
fn typed(key: &[u8], value: &[u8]) -> Option<(Route, Attributes)> {
    let Some(FactKey::Route(Family::L2VPN_EVPN, _, path)) = FactKey::decode(key) else {
        return None;
    };
    let (_, nlri) = ledger::read_path(path)?;
    let (payload, attributes) = ledger::decode_path(value)?;
    let route = Route::from_parts(Route::key_from_octets(nlri)?, payload)?;
    Some((route, attributes))
}

/// Where tunnels to the announcer end.
fn vtep(attributes: &Attributes) -> Option<IpAddr> {
    attributes.next_hop.map(|next_hop| match next_hop {
        NextHop::V4(address) => address.into(),
        NextHop::V6(address) | NextHop::V6LinkLocal(address, _) => address.into(),
    })
}

fn membership(key: &[u8]) -> Option<Membership> {
    match FactKey::decode(key) {
        Some(FactKey::Route(Family::RTC, _, path)) => Membership::key_from_octets(path),
        Some(_) | None => None,
    }
}

fn family_of(key: &[u8]) -> Option<Family> {
    kind_of(key).map(|(family, _)| family)
}

/// Family, and the type of an EVPN route.
fn kind_of(key: &[u8]) -> Option<(Family, Option<u8>)> {
    let Some(FactKey::Route(family, _, path)) = FactKey::decode(key) else {
        return None;
    };
    let (_, nlri) = ledger::read_path(path)?;
    let evpn = family == Family::L2VPN_EVPN;
    Some((family, nlri.first().copied().filter(|_| evpn)))
}

/// RFC 7432 §7.3.
const INCLUSIVE_MULTICAST: u8 = 3;
