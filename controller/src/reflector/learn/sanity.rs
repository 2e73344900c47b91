//! Which EVPN routes of a peer are held back, and until when: the rules are `weft_evpn::guard`'s, what a
//! broken one does is the group's. Knows no session.
//!
//! A route that is held back is looked at again when what it waits for may have come: its VTEP is announced by
//! the peer or by the fabric, a router's MAC address has another owner, other rules hold. So the order in which
//! routes arrive does not matter, and news of one VTEP costs nothing for routes that wait for others.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use foldhash::HashMap;
use ipnet::IpNet;
use weft_bgp::attribute::Attributes;
use weft_bgp::peer::PeerId;
use weft_evpn::guard::{self, Broken, GuardView, RouterMacs, Rule};
use weft_evpn::{Mac, Route};

use crate::config::{Guard, GuardMode};

/// What the selected routes say of the fabric, at one moment.
#[derive(Clone, Debug, Default)]
pub struct FabricView {
    /// VTEPs with a selected type 3.
    pub vteps: HashSet<IpAddr>,
    /// Who has which router's MAC address.
    pub router_macs: RouterMacs,
}

/// The guard of one session.
#[derive(Debug)]
pub struct Sanity {
    peer: PeerId,
    guard: Guard,
    registered: Arc<[IpNet]>,
    view: Arc<FabricView>,
    /// Next hops of the peer's own types 3 that are kept, committed or not.
    announced: HashMap<IpAddr, usize>,
    held: HashMap<Bytes, Held>,
    /// Octets of their keys and values.
    held_octets: usize,
    /// Keys of what is held back, by what it waits for.
    waiting: HashMap<Awaited, BTreeSet<Bytes>>,
    /// More were held back than there was room for.
    forgot: bool,
    /// VTEPs that the peer announced while routes were held back, since somebody asked.
    news: Vec<IpAddr>,
}

#[derive(Debug)]
struct Held {
    value: Bytes,
    awaited: Awaited,
}

/// What has to happen before a route that is held back may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Awaited {
    /// Somebody announces this VTEP.
    Vtep(IpAddr),
    /// A router's MAC address gets another owner.
    Owner,
    /// There are other rules: nothing that anybody announces helps.
    Rules,
}

/// What becomes of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept; the rules that it breaks are told of.
    Keep(Broken),
    /// It is held back for this rule.
    Hold(Rule),
}

impl Sanity {
    /// Of this peer's session, without rules.
    pub fn new(peer: PeerId) -> Self {
        Self {
            peer,
            guard: Guard::default(),
            registered: Arc::default(),
            view: Arc::default(),
            announced: HashMap::default(),
            held: HashMap::default(),
            held_octets: 0,
            waiting: HashMap::default(),
            forgot: false,
            news: Vec::new(),
        }
    }

    /// Other rules, for what is judged from now on.
    pub fn set_rules(&mut self, guard: Guard, registered: Arc<[IpNet]>) {
        self.guard = guard;
        self.registered = registered;
    }

    /// The fabric looks like this now.
    pub fn see(&mut self, view: Arc<FabricView>) {
        self.view = view;
    }

    /// What becomes of a route that was announced.
    pub fn judge(&self, route: &Route, attributes: &Attributes) -> Verdict {
        if self.guard.is_off() {
            return Verdict::Keep(Broken::NONE);
        }
        let broken = guard::check(route, attributes, self);
        let rejected = |rule: &Rule| self.mode(*rule) == GuardMode::Reject;
        match broken.iter().find(rejected) {
            Some(rule) => Verdict::Hold(rule),
            None => {
                let told = |rule: &Rule| self.mode(*rule) == GuardMode::Warn;
                Verdict::Keep(broken.iter().filter(told).collect())
            }
        }
    }

    fn mode(&self, rule: Rule) -> GuardMode {
        match rule {
            Rule::NextHop => self.guard.next_hop,
            Rule::Encapsulation => self.guard.encapsulation,
            Rule::Pmsi => self.guard.pmsi,
            Rule::RouterMac => self.guard.router_mac,
            Rule::Originator => self.guard.originator,
        }
    }

    /// A route is held back for this rule, if there is room. What it waited for before it does not any more.
    pub fn hold(&mut self, key: Bytes, value: Bytes, rule: Rule, vtep: Option<IpAddr>) {
        self.release(&key);
        let octets = self.held_octets + key.len() + value.len();
        if self.held.len() >= HELD_MAX || octets > HELD_OCTETS_MAX {
            self.forgot = true;
            return;
        }
        let awaited = match (rule, vtep) {
            (Rule::NextHop, Some(vtep)) => Awaited::Vtep(vtep),
            (Rule::RouterMac, _) => Awaited::Owner,
            (Rule::NextHop | Rule::Encapsulation | Rule::Pmsi | Rule::Originator, _) => {
                Awaited::Rules
            }
        };
        let waiting = self.waiting.entry(awaited).or_default();
        waiting.insert(key.clone());
        self.held_octets = octets;
        self.held.insert(key, Held { value, awaited });
    }

    /// A route is not held back any more: kept, or withdrawn. Whether it was.
    pub fn release(&mut self, key: &Bytes) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let Some(held) = self.held.remove(key) else {
            return false;
        };
        self.held_octets -= key.len() + held.value.len();
        if let Some(waiting) = self.waiting.get_mut(&held.awaited) {
            waiting.remove(key);
            if waiting.is_empty() {
                self.waiting.remove(&held.awaited);
            }
        }
        true
    }

    /// What is held back, in order.
    pub fn held(&self) -> Vec<(Bytes, Bytes)> {
        let copy = |(key, held): (&Bytes, &Held)| (key.clone(), held.value.clone());
        let mut held: Vec<_> = self.held.iter().map(copy).collect();
        held.sort_unstable();
        held
    }

    /// What of it waits for that, in order.
    pub fn held_for(&self, awaited: Awaited) -> Vec<(Bytes, Bytes)> {
        let keys = self.waiting.get(&awaited).into_iter().flatten();
        let held = |key: &Bytes| Some((key.clone(), self.held.get(key)?.value.clone()));
        keys.filter_map(held).collect()
    }

    /// What of it may have come by what the fabric looks like now, in no order.
    pub fn seen(&self) -> Vec<Awaited> {
        let may = |awaited: &&Awaited| match awaited {
            Awaited::Vtep(vtep) => self.is_announced(*vtep),
            Awaited::Owner => true,
            Awaited::Rules => false,
        };
        self.waiting.keys().filter(may).copied().collect()
    }

    /// Whether routes were forgotten since the last call, that might be kept now.
    pub fn take_forgot(&mut self) -> bool {
        std::mem::take(&mut self.forgot)
    }

    /// How many are held back.
    pub fn held_back(&self) -> usize {
        self.held.len()
    }

    /// The peer's type 3 with this next hop is kept.
    pub fn announce(&mut self, vtep: IpAddr) {
        let count = self.announced.entry(vtep).or_default();
        *count += 1;
        if *count == 1 && !self.held.is_empty() {
            self.news.push(vtep);
        }
    }

    /// And gone again.
    pub fn retract(&mut self, vtep: IpAddr) {
        if let Some(count) = self.announced.get_mut(&vtep) {
            *count -= 1;
            if *count == 0 {
                self.announced.remove(&vtep);
            }
        }
    }

    /// Whether [`Self::take_news`] has any.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// VTEPs that the peer announced since the last call, while routes were held back.
    pub fn take_news(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.news)
    }
}

impl GuardView for Sanity {
    fn is_registered(&self, vtep: IpAddr) -> bool {
        self.registered.iter().any(|prefix| prefix.contains(&vtep))
    }

    fn is_announced(&self, vtep: IpAddr) -> bool {
        self.announced.contains_key(&vtep) || self.view.vteps.contains(&vtep)
    }

    fn is_anothers(&self, mac: Mac, vtep: IpAddr) -> bool {
        self.view.router_macs.is_anothers(mac, vtep, self.peer)
    }
}

/// Routes held back per peer: enough for a leaf that says its hosts before its VTEP, and some 20 MB. More
/// are forgotten, and asked for again when they might be kept.
const HELD_MAX: usize = 1 << 16;
/// Octets of their keys and values, as many as those of the routes that a peer may have by default.
const HELD_OCTETS_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use weft_bgp::peer::RouterId;

    use super::*;

    #[test]
    fn long_attributes_that_are_held_back_have_a_bound() {
        let mut sanity = Sanity::new(PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        });
        let value = Bytes::from(vec![0; HELD_OCTETS_MAX / 2 - 1]);
        let key = |number: u8| Bytes::copy_from_slice(&[number]);
        let hold = |sanity: &mut Sanity, number| {
            sanity.hold(key(number), value.clone(), Rule::Pmsi, None);
        };
        hold(&mut sanity, 1);
        hold(&mut sanity, 2);
        assert!(!sanity.take_forgot());
        hold(&mut sanity, 3);
        assert!(sanity.take_forgot());
        assert_eq!(sanity.held_back(), 2);
        assert!(sanity.release(&key(1)));
        hold(&mut sanity, 3);
        assert!(!sanity.take_forgot());
    }
}
