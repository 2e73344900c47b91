//! What a family adds to the checks of learning. Knows no session.

use weft_bgp::attribute::Attributes;
use weft_bgp::error::DecodeError;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_evpn::Route;

/// An NLRI that becomes a fact.
pub trait Fact: Nlri {
    /// Why a route is not kept although it could be decoded.
    fn refused(&self, attributes: &Attributes) -> Option<&'static str>;

    /// As [`decode_all`]; with `opaque` also types that only their receivers know.
    ///
    /// # Errors
    /// Where framing is lost; what stood before it has gone to `each` already.
    fn decode_field(
        octets: &[u8],
        add_path: bool,
        opaque: bool,
        each: impl FnMut(u32, Self),
        discarded: impl FnMut(DecodeError),
    ) -> Result<(), DecodeError> {
        let _ = opaque;
        decode_all(octets, add_path, each, discarded)
    }

    /// The EVPN route that it is.
    fn evpn(&self) -> Option<&Route> {
        None
    }
}

impl Fact for Prefix4 {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        no_tunnel(attributes).or_else(|| multicast(self.addr.is_multicast()))
    }
}

impl Fact for Prefix6 {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        no_tunnel(attributes).or_else(|| multicast(self.addr.is_multicast()))
    }
}

/// RFC 4271 §6.3: a prefix of multicast addresses among unicast routes is ignored.
fn multicast(is_multicast: bool) -> Option<&'static str> {
    is_multicast.then_some("multicast prefix")
}

impl Fact for Membership {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        no_tunnel(attributes)
    }
}

impl Fact for Route {
    fn refused(&self, attributes: &Attributes) -> Option<&'static str> {
        weft_evpn::admission::check(self, attributes)
            .err()
            .map(|reason| reason.name())
    }

    fn decode_field(
        octets: &[u8],
        add_path: bool,
        opaque: bool,
        each: impl FnMut(u32, Self),
        discarded: impl FnMut(DecodeError),
    ) -> Result<(), DecodeError> {
        if opaque {
            Self::decode_all_opaque(octets, add_path, each, discarded)
        } else {
            decode_all(octets, add_path, each, discarded)
        }
    }

    fn evpn(&self) -> Option<&Route> {
        Some(self)
    }
}

/// A PMSI tunnel says nothing about a unicast route, and not every receiver parses all of them.
fn no_tunnel(attributes: &Attributes) -> Option<&'static str> {
    attributes
        .pmsi
        .as_ref()
        .map(|_| "PMSI tunnel on a unicast route")
}
