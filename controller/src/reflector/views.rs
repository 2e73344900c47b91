//! What the selected EVPN routes say of the fabric, besides what peers are told: who is a VTEP, whose a router's MAC
//! address is, what moves, how many routes there are. Knows one change of selection at a time, and no table.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_bgp::table::{BestChange, Path};
use weft_evpn::community::RouterMac;
use weft_evpn::guard::RouterMacs;
use weft_evpn::moves::{self, Moves};
use weft_evpn::profile::{Profile, sendable};
use weft_evpn::vtep::Vteps;
use weft_evpn::{Mac, Route};

use super::learn::sanity::FabricView;

/// What is seen; each change counts once, in order.
#[derive(Debug)]
pub(super) struct Views {
    pub(super) vteps: Vteps,
    pub(super) moves: Moves,
    router_macs: RouterMacs,
    /// Destinations by route type; those of RFC 7432 and RFC 9136 also where there are none.
    types: BTreeMap<u8, u64>,
    /// Destinations that not everybody takes, by the first reason.
    withheld: BTreeMap<&'static str, u64>,
    /// What a guard may ask of the fabric changed since it was last shown.
    touched: bool,
}

impl Views {
    /// Nothing, which nobody was shown yet.
    pub(super) fn new() -> Self {
        Self {
            vteps: Vteps::new(),
            moves: Moves::new(moves::Settings::default()),
            router_macs: RouterMacs::new(),
            types: (1..=5).map(|route_type| (route_type, 0)).collect(),
            withheld: BTreeMap::new(),
            touched: true,
        }
    }

    /// Another path was selected at `now`, or none; whether a VTEP may have joined or left.
    pub(super) fn learn(
        &mut self,
        change: &BestChange<Route>,
        now: Duration,
        alarms: &mut Vec<moves::Alarm>,
    ) -> bool {
        let route_type = change.key.route_type();
        let count = self.types.entry(route_type).or_default();
        match (&change.old, &change.new) {
            (None, Some(_)) => *count += 1,
            (Some(_), None) => *count -= 1,
            (Some(_), Some(_)) | (None, None) => {}
        }
        self.count_withheld(change);
        self.vteps.learn(change);
        alarms.extend(self.moves.learn(change, now));
        let flooding = route_type == INCLUSIVE_MULTICAST;
        self.touched |= self.learn_router_macs(change) || flooding;
        flooding
    }

    fn count_withheld(&mut self, change: &BestChange<Route>) {
        let reason = |path: &Path<Route>| {
            let nobody = Profile::Generic.filter();
            let sent = sendable(&path.nlri, &path.attributes, nobody);
            sent.err().map(|why| why.name())
        };
        if let Some(reason) = change.old.as_ref().and_then(reason)
            && let Some(count) = self.withheld.get_mut(reason)
        {
            *count -= 1;
        }
        if let Some(reason) = change.new.as_ref().and_then(reason) {
            *self.withheld.entry(reason).or_default() += 1;
        }
    }

    /// Whether a router's MAC address has another owner by it.
    fn learn_router_macs(&mut self, change: &BestChange<Route>) -> bool {
        let paths = change.old.iter().chain(&change.new);
        let macs = paths.flat_map(|path| RouterMac::all(&path.attributes).map(RouterMac::mac));
        let owned = |mac: Mac| (mac, self.router_macs.owner(mac));
        let before: Vec<_> = macs.map(owned).collect();
        self.router_macs.learn(change);
        before
            .iter()
            .any(|(mac, owner)| self.router_macs.owner(*mac) != *owner)
    }

    /// Destinations by route type.
    pub(super) fn types(&self) -> &BTreeMap<u8, u64> {
        &self.types
    }

    /// Destinations that a peer is not told of if nothing is known of it, by the first reason.
    pub(super) fn withheld(&self) -> &BTreeMap<&'static str, u64> {
        &self.withheld
    }

    /// What guards may ask, if it changed since the last call.
    pub(super) fn fabric(&mut self) -> Option<FabricView> {
        std::mem::take(&mut self.touched).then(|| FabricView {
            vteps: self.vteps.vteps().collect(),
            router_macs: self.router_macs.clone(),
        })
    }
}

/// Route type of VTEP membership, RFC 7432 §7.3.
const INCLUSIVE_MULTICAST: u8 = 3;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source, Table};
    use weft_evpn::EthernetTag;
    use weft_evpn::route::{InclusiveMulticast, InclusiveMulticastKey};

    use super::*;

    #[test]
    fn what_a_peer_that_is_not_recognised_is_not_told_is_counted() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let next_hop = Ipv4Addr::new(192, 0, 2, 1);
        let source = Arc::new(Source::new(peer, next_hop.into(), PeerKind::IbgpClient));
        let flood = |originator: IpAddr| {
            Route::InclusiveMulticast(InclusiveMulticast {
                key: InclusiveMulticastKey {
                    rd: Rd::from_as2(64_496, 1),
                    tag: EthernetTag(0),
                    originator,
                },
            })
        };
        let (mut views, mut table) = (Views::new(), Table::new());
        let mut select = |table: &mut Table<Route>| {
            for change in table.select() {
                views.learn(&change, Duration::ZERO, &mut Vec::new());
            }
            views.withheld().clone()
        };
        let attributes = Arc::new(Attributes {
            next_hop: Some(NextHop::V4(next_hop)),
            ..Attributes::default()
        });
        let six = flood("2001:db8::53".parse().unwrap());
        for route in [flood(next_hop.into()), six] {
            table.learn(&source, 0, route, Arc::clone(&attributes));
        }
        let reason = "originating router named by IPv6";
        assert_eq!(select(&mut table), [(reason, 1)].into());
        table.withdraw_peer(peer);
        assert_eq!(select(&mut table), [(reason, 0)].into());
    }
}
