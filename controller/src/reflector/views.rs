//! What the selected EVPN routes say of the fabric, besides what peers are told: who is a VTEP, whose a router's MAC
//! address is, what moves, how many routes there are. Knows one change of selection at a time, and no table.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_bgp::table::BestChange;
use weft_evpn::community::RouterMac;
use weft_evpn::guard::RouterMacs;
use weft_evpn::moves::{self, Moves};
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
        self.vteps.learn(change);
        alarms.extend(self.moves.learn(change, now));
        let flooding = route_type == INCLUSIVE_MULTICAST;
        self.touched |= self.learn_router_macs(change) || flooding;
        flooding
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
