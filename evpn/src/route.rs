//! EVPN NLRI: which type, how long, which key. Knows no attribute but for MAC mobility.

#![deny(clippy::indexing_slicing)]

mod address;
mod ethernet_ad;
mod ethernet_segment;
mod inclusive_multicast;
mod ip_prefix;
mod mac_ip;

use std::cmp::Ordering;
use std::fmt;

use weft_bgp::attribute::Attributes;
use weft_bgp::decision::Step;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::nlri::{Nlri, NlriError};
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use crate::community::Encapsulation;
use crate::mobility;
use crate::vni::{Label, Vni};

pub use ethernet_ad::{EthernetAd, EthernetAdKey};
pub use ethernet_segment::{EthernetSegment, EthernetSegmentKey};
pub use inclusive_multicast::{InclusiveMulticast, InclusiveMulticastKey};
pub use ip_prefix::{IpPrefix, IpPrefixKey, Prefix};
pub use mac_ip::{Labels, MacIp, MacIpKey};

/// One EVPN NLRI. RFC 7432 §7, RFC 9136 §3.
///
/// ```text
/// +-- 1 --+--- 1 ---+--- length ---+
/// | type  | length  |    route     |
/// +-------+---------+--------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Route {
    /// Type 1.
    EthernetAd(EthernetAd),
    /// Type 2.
    MacIp(MacIp),
    /// Type 3.
    InclusiveMulticast(InclusiveMulticast),
    /// Type 4.
    EthernetSegment(EthernetSegment),
    /// Type 5.
    IpPrefix(IpPrefix),
}

/// What identifies a route: payload (ESI, labels, gateway of types 2 and 5) is not in it, since
/// speakers fill it as they like when they withdraw.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RouteKey {
    /// Type 1.
    EthernetAd(EthernetAdKey),
    /// Type 2.
    MacIp(MacIpKey),
    /// Type 3.
    InclusiveMulticast(InclusiveMulticastKey),
    /// Type 4.
    EthernetSegment(EthernetSegmentKey),
    /// Type 5.
    IpPrefix(IpPrefixKey),
}

impl Route {
    /// The VNI of the route: the first label, or the PMSI label of type 3, read as 24 bits. `None` where
    /// the encapsulation has no VNI; without an encapsulation community that is MPLS (RFC 8365
    /// §5.1.3). Also `None` for type 4 and for a type 1 about a whole segment.
    #[must_use]
    pub fn vni(&self, attributes: &Attributes) -> Option<Vni> {
        if !Encapsulation::any_with_vni(attributes) {
            return None;
        }
        let label = match self {
            Self::EthernetAd(route) if route.key.is_per_segment() => None,
            Self::EthernetAd(route) => route.label,
            Self::MacIp(route) => route.labels.first(),
            Self::InclusiveMulticast(_) => attributes.pmsi.as_ref().map(|pmsi| Label(pmsi.label)),
            Self::EthernetSegment(_) => None,
            Self::IpPrefix(route) => route.label,
        };
        label.map(Label::vni)
    }

    fn body(&self, out: &mut Writer) {
        match self {
            Self::EthernetAd(route) => route.encode(out),
            Self::MacIp(route) => route.encode(out),
            Self::InclusiveMulticast(route) => route.encode(out),
            Self::EthernetSegment(route) => route.encode(out),
            Self::IpPrefix(route) => route.encode(out),
        }
    }

    fn from_body(route_type: u8, body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match route_type {
            ETHERNET_AD => EthernetAd::decode(body).map(Self::EthernetAd),
            MAC_IP => MacIp::decode(body).map(Self::MacIp),
            INCLUSIVE_MULTICAST => InclusiveMulticast::decode(body).map(Self::InclusiveMulticast),
            ETHERNET_SEGMENT => EthernetSegment::decode(body).map(Self::EthernetSegment),
            IP_PREFIX => IpPrefix::decode(body).map(Self::IpPrefix),
            _ => Err(body.error(Fault::NlriType { route_type })),
        }
    }
}

impl RouteKey {
    /// The route distinguisher, which [`fmt::Display`] leaves out as FRR does.
    #[must_use]
    pub fn rd(&self) -> &Rd {
        match self {
            Self::EthernetAd(key) => &key.rd,
            Self::MacIp(key) => &key.rd,
            Self::InclusiveMulticast(key) => &key.rd,
            Self::EthernetSegment(key) => &key.rd,
            Self::IpPrefix(key) => &key.rd,
        }
    }

    /// Route type, 1 to 5.
    #[must_use]
    pub fn route_type(&self) -> u8 {
        match self {
            Self::EthernetAd(_) => ETHERNET_AD,
            Self::MacIp(_) => MAC_IP,
            Self::InclusiveMulticast(_) => INCLUSIVE_MULTICAST,
            Self::EthernetSegment(_) => ETHERNET_SEGMENT,
            Self::IpPrefix(_) => IP_PREFIX,
        }
    }

    /// The route with zero for all that is not key: what a withdrawal carries, octet for octet as FRR
    /// 8.4 sends it.
    fn bare(self) -> Route {
        match self {
            Self::EthernetAd(key) => Route::EthernetAd(key.bare()),
            Self::MacIp(key) => Route::MacIp(key.bare()),
            Self::InclusiveMulticast(key) => Route::InclusiveMulticast(InclusiveMulticast { key }),
            Self::EthernetSegment(key) => Route::EthernetSegment(EthernetSegment { key }),
            Self::IpPrefix(key) => Route::IpPrefix(key.bare()),
        }
    }
}

/// FRR's bracket notation, without the route distinguisher: `[3]:[0]:[32]:[192.0.2.1]`.
impl fmt::Display for RouteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:", self.route_type())?;
        match self {
            Self::EthernetAd(key) => key.fmt(f),
            Self::MacIp(key) => key.fmt(f),
            Self::InclusiveMulticast(key) => key.fmt(f),
            Self::EthernetSegment(key) => key.fmt(f),
            Self::IpPrefix(key) => key.fmt(f),
        }
    }
}

impl Nlri for Route {
    type Key = RouteKey;

    fn family() -> Family {
        Family::L2VPN_EVPN
    }

    fn key(&self) -> RouteKey {
        match self {
            Self::EthernetAd(route) => RouteKey::EthernetAd(route.key),
            Self::MacIp(route) => RouteKey::MacIp(route.key),
            Self::InclusiveMulticast(route) => RouteKey::InclusiveMulticast(route.key),
            Self::EthernetSegment(route) => RouteKey::EthernetSegment(route.key),
            Self::IpPrefix(route) => RouteKey::IpPrefix(route.key),
        }
    }

    /// A length of zero, or beyond the field, loses the framing; all else is about this route only.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        let start = reader.error(Fault::NlriFraming);
        let lost = |_| NlriError::Reset(start);
        let route_type = reader.u8().map_err(lost)?;
        let length = reader.u8().map_err(lost)?;
        if length == 0 {
            return Err(NlriError::Reset(start));
        }
        let bad_length = Fault::NlriLength { route_type, length };
        let mut body = reader.sub(length.into()).map_err(lost)?.meaning(bad_length);
        let route = Self::from_body(route_type, &mut body).map_err(NlriError::Discard)?;
        if !body.is_empty() {
            return Err(NlriError::Discard(body.error(bad_length)));
        }
        Ok(route)
    }

    fn encode(&self, out: &mut Writer) {
        out.u8(self.key().route_type());
        let length = out.reserve_u8();
        self.body(out);
        out.patch_u8(length);
    }

    fn encode_withdraw(key: &RouteKey, out: &mut Writer) {
        key.bare().encode(out);
    }

    /// Route type, then the fields of the key in the order of the wire; an address or prefix is last
    /// and as long as its family.
    fn key_octets(key: &RouteKey, out: &mut Vec<u8>) {
        out.push(key.route_type());
        match key {
            RouteKey::EthernetAd(key) => key.octets(out),
            RouteKey::MacIp(key) => key.octets(out),
            RouteKey::InclusiveMulticast(key) => key.octets(out),
            RouteKey::EthernetSegment(key) => key.octets(out),
            RouteKey::IpPrefix(key) => key.octets(out),
        }
    }

    fn key_from_octets(octets: &[u8]) -> Option<RouteKey> {
        let mut reader = Reader::new(octets, 0, Fault::NlriFraming);
        let key = match reader.u8().ok()? {
            ETHERNET_AD => RouteKey::EthernetAd(EthernetAdKey::from_octets(&mut reader)?),
            MAC_IP => RouteKey::MacIp(MacIpKey::from_octets(&mut reader)?),
            INCLUSIVE_MULTICAST => {
                RouteKey::InclusiveMulticast(InclusiveMulticastKey::from_octets(&mut reader)?)
            }
            ETHERNET_SEGMENT => {
                RouteKey::EthernetSegment(EthernetSegmentKey::from_octets(&mut reader)?)
            }
            IP_PREFIX => RouteKey::IpPrefix(IpPrefixKey::from_octets(&mut reader)?),
            _ => return None,
        };
        reader.is_empty().then_some(key)
    }

    fn payload_octets(&self, out: &mut Vec<u8>) {
        match self {
            Self::EthernetAd(route) => route.payload_octets(out),
            Self::MacIp(route) => route.payload_octets(out),
            Self::InclusiveMulticast(_) | Self::EthernetSegment(_) => {}
            Self::IpPrefix(route) => route.payload_octets(out),
        }
    }

    fn from_parts(key: RouteKey, payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload, 0, Fault::NlriFraming);
        let route = match key {
            RouteKey::EthernetAd(key) => {
                Self::EthernetAd(EthernetAd::from_payload(key, &mut reader)?)
            }
            RouteKey::MacIp(key) => Self::MacIp(MacIp::from_payload(key, &mut reader)?),
            RouteKey::InclusiveMulticast(key) => {
                Self::InclusiveMulticast(InclusiveMulticast { key })
            }
            RouteKey::EthernetSegment(key) => Self::EthernetSegment(EthernetSegment { key }),
            RouteKey::IpPrefix(key) => Self::IpPrefix(IpPrefix::from_payload(key, &mut reader)?),
        };
        reader.is_empty().then_some(route)
    }

    /// MAC mobility, for type 2 only; see `mobility`.
    fn prefer(a: (&Self, &Attributes), b: (&Self, &Attributes)) -> (Ordering, Step) {
        match (a.0, b.0) {
            (Self::MacIp(_), Self::MacIp(_)) => mobility::prefer(a.1, b.1),
            (
                Self::EthernetAd(_)
                | Self::MacIp(_)
                | Self::InclusiveMulticast(_)
                | Self::EthernetSegment(_)
                | Self::IpPrefix(_),
                _,
            ) => (Ordering::Equal, mobility::UNDECIDED),
        }
    }
}

/// The label that ends a route, or nothing: some speakers leave it out of withdrawals. The fault is the
/// reader's when there is neither.
fn label(body: &mut Reader<'_>) -> Result<Option<Label>, DecodeError> {
    if body.is_empty() {
        return Ok(None);
    }
    body.array().map(|octets| Some(Label(octets)))
}

/// Ethernet auto-discovery. RFC 7432 §7.1.
const ETHERNET_AD: u8 = 1;
/// MAC/IP advertisement. RFC 7432 §7.2.
const MAC_IP: u8 = 2;
/// Inclusive multicast Ethernet tag. RFC 7432 §7.3.
const INCLUSIVE_MULTICAST: u8 = 3;
/// Ethernet segment. RFC 7432 §7.4.
const ETHERNET_SEGMENT: u8 = 4;
/// IP prefix. RFC 9136 §3.1.
const IP_PREFIX: u8 = 5;

#[cfg(test)]
mod tests;
