//! Whether an announcement of a MAC address counts while it is frozen where it was. Knows no table and no
//! clock: that it is frozen, and where, comes in.

use weft_bgp::attribute::Attributes;

use super::{Holder, Place};
use crate::community::MacMobility;
use crate::route::Route;

/// What an announcement is to a MAC address that is frozen at a holder.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It says that the address is where it is frozen.
    Holder,
    /// It says that the address is there for good, wherever that is. RFC 7432 §15.2.
    Sticky,
    /// It would move the address.
    Other,
}

/// The MAC address and the broadcast domain that a route is about; `None` if it is no type 2 or has no VNI.
#[must_use]
pub fn place(route: &Route, attributes: &Attributes) -> Option<Place> {
    let Route::MacIp(host) = route else {
        return None;
    };
    Some((route.vni(attributes)?, host.key.mac))
}

impl Holder {
    /// What an announcement of the address is to this holder; `None` if it is no type 2.
    #[must_use]
    pub fn standing(self, route: &Route, attributes: &Attributes) -> Option<Standing> {
        let Route::MacIp(host) = route else {
            return None;
        };
        let mobility = MacMobility::find(attributes);
        Some(if Self::of(host, attributes) == Some(self) {
            Standing::Holder
        } else if mobility.is_some_and(MacMobility::is_sticky) {
            Standing::Sticky
        } else {
            Standing::Other
        })
    }
}
