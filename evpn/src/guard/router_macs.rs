//! Which leaf has which router's MAC address, at which VTEP, derived from the selected routes. Keeps no route.

use std::net::IpAddr;

use foldhash::HashMap;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::{BestChange, Path};

use crate::community::RouterMac;
use crate::mac::Mac;
use crate::route::Route;
use crate::vtep::next_hop;

/// Router's MAC addresses, with the VTEPs whose routes carry them and the peers that say so: one leaf's, unless
/// something is wrong or leaves share one VTEP. RFC 9135 §8.1.
#[derive(Clone, Debug, Default)]
pub struct RouterMacs {
    /// In the order in which they came; with the number of routes.
    holders: HashMap<Mac, Vec<(Holder, u64)>>,
}

/// A VTEP, and who announces that it has the address.
type Holder = (IpAddr, PeerId);

impl RouterMacs {
    /// Nobody has one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a change of selection: each change of a table once, in order.
    pub fn learn(&mut self, change: &BestChange<Route>) {
        // Nearly always the same ones: first in, so that nobody loses a place.
        if let Some(path) = &change.new {
            let holder = holder(path);
            macs(path).for_each(|mac| self.count(mac, holder));
        }
        if let Some(path) = &change.old {
            let holder = holder(path);
            macs(path).for_each(|mac| self.uncount(mac, holder));
        }
    }

    /// The VTEP that was the first to announce it, of those that do, and its peer.
    #[must_use]
    pub fn owner(&self, mac: Mac) -> Option<(IpAddr, PeerId)> {
        let first = self.holders.get(&mac)?.first();
        first.map(|(holder, _)| *holder)
    }

    /// Whether it is another leaf's than that of `peer`, which announces it with this next hop: what a peer owns
    /// it may announce at any of its VTEPs, and what a VTEP owns any leaf that shares it.
    #[must_use]
    pub fn is_anothers(&self, mac: Mac, vtep: IpAddr, peer: PeerId) -> bool {
        self.owner(mac)
            .is_some_and(|owner| owner.0 != vtep && owner.1 != peer)
    }

    /// Every VTEP that announces it and who says so, in the order in which they came.
    pub fn holders(&self, mac: Mac) -> impl Iterator<Item = (IpAddr, PeerId)> {
        let holders = self.holders.get(&mac).into_iter().flatten();
        holders.map(|(holder, _)| *holder)
    }

    /// How many addresses are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    fn count(&mut self, mac: Mac, holder: Option<Holder>) {
        let Some(holder) = holder else { return };
        let holders = self.holders.entry(mac).or_default();
        match holders.iter_mut().find(|(known, _)| *known == holder) {
            Some((_, routes)) => *routes = routes.saturating_add(1),
            None => holders.push((holder, 1)),
        }
    }

    fn uncount(&mut self, mac: Mac, holder: Option<Holder>) {
        let (Some(holder), Some(holders)) = (holder, self.holders.get_mut(&mac)) else {
            return;
        };
        if let Some((_, routes)) = holders.iter_mut().find(|(known, _)| *known == holder) {
            *routes = routes.saturating_sub(1);
        }
        holders.retain(|(_, routes)| *routes > 0);
        if holders.is_empty() {
            self.holders.remove(&mac);
        }
    }
}

fn holder(path: &Path<Route>) -> Option<Holder> {
    next_hop(&path.attributes).map(|vtep| (vtep, path.source.peer))
}

/// Only routes of hosts and prefixes are forwarded by it. RFC 9135 §5.1, RFC 9136 §4.4.
fn macs(path: &Path<Route>) -> impl Iterator<Item = Mac> {
    let routed = matches!(path.nlri.key().route_type(), 2 | 5);
    RouterMac::all(&path.attributes)
        .filter(move |_| routed)
        .map(RouterMac::mac)
}
