//! Which VTEP has which router's MAC address, derived from the selected routes. Keeps no route.

use std::net::IpAddr;

use foldhash::HashMap;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::{BestChange, Path};

use crate::community::RouterMac;
use crate::mac::Mac;
use crate::route::Route;
use crate::vtep::next_hop;

/// Router's MAC addresses, with the VTEPs whose routes carry them: one, unless something is wrong or the
/// VTEPs share one address. RFC 9135 §8.1.
#[derive(Clone, Debug, Default)]
pub struct RouterMacs {
    /// In the order in which they came; with the number of routes.
    holders: HashMap<Mac, Vec<(IpAddr, u64)>>,
}

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
            let vtep = next_hop(&path.attributes);
            macs(path).for_each(|mac| self.count(mac, vtep));
        }
        if let Some(path) = &change.old {
            let vtep = next_hop(&path.attributes);
            macs(path).for_each(|mac| self.uncount(mac, vtep));
        }
    }

    /// The VTEP that was the first to announce it, of those that do.
    #[must_use]
    pub fn owner(&self, mac: Mac) -> Option<IpAddr> {
        let first = self.holders.get(&mac)?.first();
        first.map(|(vtep, _)| *vtep)
    }

    /// Every VTEP that announces it, in the order in which they came.
    pub fn holders(&self, mac: Mac) -> impl Iterator<Item = IpAddr> {
        let holders = self.holders.get(&mac).into_iter().flatten();
        holders.map(|(vtep, _)| *vtep)
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

    fn count(&mut self, mac: Mac, vtep: Option<IpAddr>) {
        let Some(vtep) = vtep else { return };
        let holders = self.holders.entry(mac).or_default();
        match holders.iter_mut().find(|(holder, _)| *holder == vtep) {
            Some((_, routes)) => *routes = routes.saturating_add(1),
            None => holders.push((vtep, 1)),
        }
    }

    fn uncount(&mut self, mac: Mac, vtep: Option<IpAddr>) {
        let (Some(vtep), Some(holders)) = (vtep, self.holders.get_mut(&mac)) else {
            return;
        };
        if let Some((_, routes)) = holders.iter_mut().find(|(holder, _)| *holder == vtep) {
            *routes = routes.saturating_sub(1);
        }
        holders.retain(|(_, routes)| *routes > 0);
        if holders.is_empty() {
            self.holders.remove(&mac);
        }
    }
}

/// Only routes of hosts and prefixes are forwarded by it. RFC 9135 §5.1, RFC 9136 §4.4.
fn macs(path: &Path<Route>) -> impl Iterator<Item = Mac> {
    let routed = matches!(path.nlri.key().route_type(), 2 | 5);
    RouterMac::all(&path.attributes)
        .filter(move |_| routed)
        .map(RouterMac::mac)
}
