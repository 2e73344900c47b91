//! Whether an announcement of a damped MAC address counts. Knows no table.

use std::fmt;
use std::time::Duration;

use weft_bgp::attribute::Attributes;

use super::{Holder, Moves};
use crate::route::Route;

/// What is to be done with an announcement.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nothing special.
    Admit,
    /// Its MAC address moved too often and is held elsewhere until it recovers.
    Frozen(Holder),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admit => f.write_str("admitted"),
            Self::Frozen(holder) => write!(f, "MAC address moved too often, held at {holder}"),
        }
    }
}

impl Moves {
    /// The verdict on an announcement at `now`. Always [`Verdict::Admit`] without damping.
    #[must_use]
    pub fn verdict(&self, route: &Route, attributes: &Attributes, now: Duration) -> Verdict {
        let Route::MacIp(host) = route else {
            return Verdict::Admit;
        };
        let vni = route.vni(attributes);
        let held = vni.and_then(|vni| self.frozen(vni, host.key.mac, now));
        match held {
            Some(holder) if Holder::of(host, attributes) != Some(holder) => Verdict::Frozen(holder),
            Some(_) | None => Verdict::Admit,
        }
    }
}
