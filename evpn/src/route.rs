//! EVPN NLRI: which type, how long, which key. Knows no attribute but for MAC mobility.

#![deny(clippy::indexing_slicing)]

mod address;
mod channel;
mod ethernet_ad;
mod ethernet_segment;
mod inclusive_multicast;
mod ip_prefix;
mod key;
mod mac_ip;
mod multicast;
mod multicast_sync;
mod opaque;
mod provider_tunnel;
mod stored;

use std::cmp::Ordering;

use weft_bgp::attribute::Attributes;
use weft_bgp::decision::Step;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::nlri::{Nlri, NlriError};
use weft_bgp::reflect::Filter;
use weft_bgp::wire::{Reader, Writer};

use crate::community::Encapsulation;
use crate::mobility;
use crate::profile;
use crate::vni::{Label, Vni};

pub use channel::Channel;
pub use ethernet_ad::{EthernetAd, EthernetAdKey};
pub use ethernet_segment::{EthernetSegment, EthernetSegmentKey};
pub use inclusive_multicast::{InclusiveMulticast, InclusiveMulticastKey};
pub use ip_prefix::{IpPrefix, IpPrefixKey, Prefix};
pub use key::RouteKey;
pub use mac_ip::{Labels, MacIp, MacIpKey};
pub use multicast::{MembershipFlags, SelectiveMulticast, SelectiveMulticastKey};
pub use multicast_sync::{MulticastJoin, MulticastLeave, MulticastSyncKey};
pub use opaque::Opaque;
pub use provider_tunnel::{
    Leaf, LeafKey, PmsiKey, RegionPmsi, RegionPmsiKey, SelectivePmsi, SelectivePmsiKey,
};

/// One EVPN NLRI. RFC 7432 §7, RFC 9136 §3, RFC 9251 §9, RFC 9572 §3. The rare kinds are boxed, so that a
/// table of a million types 2 does not pay for them.
///
/// ```text
/// +-- 1 --+--- 1 ---+--- length ---+
/// | type  | length  |    route     |
/// +-------+---------+--------------+
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
    /// Type 6.
    SelectiveMulticast(Box<SelectiveMulticast>),
    /// Type 7.
    MulticastJoin(Box<MulticastJoin>),
    /// Type 8.
    MulticastLeave(Box<MulticastLeave>),
    /// Type 9.
    RegionPmsi(Box<RegionPmsi>),
    /// Type 10.
    SelectivePmsi(Box<SelectivePmsi>),
    /// Type 11.
    Leaf(Box<Leaf>),
    /// Type 12 and above; [`Nlri::decode`] never makes one, [`Route::decode_opaque`] does.
    Opaque(Box<Opaque>),
}

impl Route {
    /// The VNI of the route: the first label, or the PMSI label of types 3 and 9 to 11, read as 24 bits.
    /// `None` where the encapsulation has no VNI; without an encapsulation community that is MPLS (RFC
    /// 8365 §5.1.3). Also `None` for types that have no label, and for a type 1 about a whole segment.
    #[must_use]
    pub fn vni(&self, attributes: &Attributes) -> Option<Vni> {
        if !Encapsulation::any_with_vni(attributes) {
            return None;
        }
        let tunnel = || attributes.pmsi.as_ref().map(|pmsi| Label(pmsi.label));
        let label = match self {
            Self::EthernetAd(route) if route.key.is_per_segment() => None,
            Self::EthernetAd(route) => route.label,
            Self::MacIp(route) => route.labels.first(),
            Self::InclusiveMulticast(_) => tunnel(),
            // A tunnel of these may have no label at all. RFC 6514 §5.
            Self::RegionPmsi(_) | Self::SelectivePmsi(_) | Self::Leaf(_) => {
                tunnel().filter(|label| *label != Label::ZERO)
            }
            Self::IpPrefix(route) => route.label,
            Self::EthernetSegment(_)
            | Self::SelectiveMulticast(_)
            | Self::MulticastJoin(_)
            | Self::MulticastLeave(_)
            | Self::Opaque(_) => None,
        };
        label.map(Label::vni)
    }

    /// As [`Nlri::decode`], but a route of type 12 and above is taken as [`Route::Opaque`]. For peers whose
    /// group opted in to have them relayed.
    ///
    /// # Errors
    /// As [`Nlri::decode`].
    pub fn decode_opaque(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        decode(reader, Opaque::decode)
    }

    /// As [`weft_bgp::nlri::decode_all`], by [`Route::decode_opaque`].
    ///
    /// # Errors
    /// Where framing is lost; what stood before it has gone to `each` already.
    pub fn decode_all_opaque(
        octets: &[u8],
        add_path: bool,
        mut each: impl FnMut(u32, Self),
        mut discarded: impl FnMut(DecodeError),
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(octets, 0, Fault::NlriFraming);
        while !reader.is_empty() {
            let path_id = if add_path { reader.u32()? } else { 0 };
            match Self::decode_opaque(&mut reader) {
                Ok(route) => each(path_id, route),
                Err(NlriError::Discard(error)) => discarded(error),
                Err(NlriError::Reset(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Route type.
    #[must_use]
    pub fn route_type(&self) -> u8 {
        match self {
            Self::EthernetAd(_) => ETHERNET_AD,
            Self::MacIp(_) => MAC_IP,
            Self::InclusiveMulticast(_) => INCLUSIVE_MULTICAST,
            Self::EthernetSegment(_) => ETHERNET_SEGMENT,
            Self::IpPrefix(_) => IP_PREFIX,
            Self::SelectiveMulticast(_) => SELECTIVE_MULTICAST,
            Self::MulticastJoin(_) => MULTICAST_JOIN,
            Self::MulticastLeave(_) => MULTICAST_LEAVE,
            Self::RegionPmsi(_) => REGION_PMSI,
            Self::SelectivePmsi(_) => SELECTIVE_PMSI,
            Self::Leaf(_) => LEAF,
            Self::Opaque(route) => route.route_type(),
        }
    }

    fn body(&self, out: &mut Writer) {
        match self {
            Self::EthernetAd(route) => route.encode(out),
            Self::MacIp(route) => route.encode(out),
            Self::InclusiveMulticast(route) => route.encode(out),
            Self::EthernetSegment(route) => route.encode(out),
            Self::IpPrefix(route) => route.encode(out),
            Self::SelectiveMulticast(route) => route.encode(out),
            Self::MulticastJoin(route) => route.encode(out),
            Self::MulticastLeave(route) => route.encode(out),
            Self::RegionPmsi(route) => route.key.encode(out),
            Self::SelectivePmsi(route) => route.key.encode(out),
            Self::Leaf(route) => route.key.encode(out),
            Self::Opaque(route) => route.encode(out),
        }
    }

    /// A route of a known type; `other` makes one of the others.
    fn from_body(route_type: u8, body: &mut Reader<'_>, other: Other) -> Result<Self, DecodeError> {
        match route_type {
            ETHERNET_AD => EthernetAd::decode(body).map(Self::EthernetAd),
            MAC_IP => MacIp::decode(body).map(Self::MacIp),
            INCLUSIVE_MULTICAST => InclusiveMulticast::decode(body).map(Self::InclusiveMulticast),
            ETHERNET_SEGMENT => EthernetSegment::decode(body).map(Self::EthernetSegment),
            IP_PREFIX => IpPrefix::decode(body).map(Self::IpPrefix),
            SELECTIVE_MULTICAST => {
                SelectiveMulticast::decode(body).map(|route| Self::SelectiveMulticast(route.into()))
            }
            MULTICAST_JOIN => MulticastJoin::decode(body, route_type)
                .map(|route| Self::MulticastJoin(route.into())),
            MULTICAST_LEAVE => MulticastLeave::decode(body, route_type)
                .map(|route| Self::MulticastLeave(route.into())),
            REGION_PMSI => {
                RegionPmsiKey::decode(body).map(|key| Self::RegionPmsi(RegionPmsi { key }.into()))
            }
            SELECTIVE_PMSI => SelectivePmsiKey::decode(body)
                .map(|key| Self::SelectivePmsi(SelectivePmsi { key }.into())),
            LEAF => LeafKey::decode(body).map(|key| Self::Leaf(Leaf { key }.into())),
            _ => other(route_type, body).map(|route| Self::Opaque(route.into())),
        }
    }
}

/// What to make of a type that is not known.
type Other = fn(u8, &mut Reader<'_>) -> Result<Opaque, DecodeError>;

/// A length of zero, or beyond the field, loses the framing; all else is about this route only.
fn decode(reader: &mut Reader<'_>, other: Other) -> Result<Route, NlriError> {
    let start = reader.error(Fault::NlriFraming);
    let lost = |_| NlriError::Reset(start);
    let route_type = reader.u8().map_err(lost)?;
    let length = reader.u8().map_err(lost)?;
    if length == 0 {
        return Err(NlriError::Reset(start));
    }
    let bad_length = Fault::NlriLength { route_type, length };
    let mut body = reader.sub(length.into()).map_err(lost)?.meaning(bad_length);
    let route = Route::from_body(route_type, &mut body, other).map_err(NlriError::Discard)?;
    if !body.is_empty() {
        return Err(NlriError::Discard(body.error(bad_length)));
    }
    Ok(route)
}

/// For those who asked for no others.
fn unknown(route_type: u8, body: &mut Reader<'_>) -> Result<Opaque, DecodeError> {
    Err(body.error(Fault::NlriType { route_type }))
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
            Self::SelectiveMulticast(route) => RouteKey::SelectiveMulticast(route.key.into()),
            Self::MulticastJoin(route) => RouteKey::MulticastJoin(route.key.into()),
            Self::MulticastLeave(route) => RouteKey::MulticastLeave(route.key.into()),
            Self::RegionPmsi(route) => RouteKey::RegionPmsi(route.key.into()),
            Self::SelectivePmsi(route) => RouteKey::SelectivePmsi(route.key.into()),
            Self::Leaf(route) => RouteKey::Leaf(route.key.into()),
            Self::Opaque(route) => RouteKey::Opaque(route.clone()),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        decode(reader, unknown)
    }

    fn encode(&self, out: &mut Writer) {
        out.u8(self.route_type());
        let length = out.reserve_u8();
        self.body(out);
        out.patch_u8(length);
    }

    fn encode_withdraw(key: &RouteKey, out: &mut Writer) {
        key.bare().encode(out);
    }

    fn key_octets(key: &RouteKey, out: &mut Vec<u8>) {
        stored::key_octets(key, out);
    }

    fn key_from_octets(octets: &[u8]) -> Option<RouteKey> {
        stored::key_from_octets(octets)
    }

    fn payload_octets(&self, out: &mut Vec<u8>) {
        stored::payload_octets(self, out);
    }

    fn from_parts(key: RouteKey, payload: &[u8]) -> Option<Self> {
        stored::from_parts(key, payload)
    }

    /// The MAC address of a type 2, the segment of types 1 and 4: other routes of the host or the segment are to be found by
    /// it.
    fn name(key: &RouteKey) -> Option<u64> {
        match key {
            RouteKey::MacIp(key) => Some(key.mac.number()),
            RouteKey::EthernetAd(key) => Some(key.esi.number()),
            RouteKey::EthernetSegment(key) => Some(key.esi.number()),
            RouteKey::InclusiveMulticast(_)
            | RouteKey::IpPrefix(_)
            | RouteKey::SelectiveMulticast(_)
            | RouteKey::MulticastJoin(_)
            | RouteKey::MulticastLeave(_)
            | RouteKey::RegionPmsi(_)
            | RouteKey::SelectivePmsi(_)
            | RouteKey::Leaf(_)
            | RouteKey::Opaque(_) => None,
        }
    }

    /// With Junos the targets of types 1 are others than those of the instances that they are about. There are few
    /// types 1, so all are told.
    fn stands_apart(&self) -> bool {
        matches!(self, Self::EthernetAd(_))
    }

    /// As [`profile::sendable`], which says why not.
    fn sendable(&self, attributes: &Attributes, filter: Filter) -> bool {
        profile::sendable(self, attributes, filter).is_ok()
    }

    /// As [`profile::withdrawable`], which says why not.
    fn withdrawable(key: &RouteKey, filter: Filter) -> bool {
        profile::withdrawable(key, filter).is_ok()
    }

    /// MAC mobility, for type 2 only; see `mobility`.
    fn prefer(a: (&Self, &Attributes), b: (&Self, &Attributes)) -> (Ordering, Step) {
        let hosts = matches!(a.0, Self::MacIp(_)) && matches!(b.0, Self::MacIp(_));
        if hosts {
            mobility::prefer(a.1, b.1)
        } else {
            (Ordering::Equal, mobility::UNDECIDED)
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
/// Selective multicast Ethernet tag. RFC 9251 §9.1.
const SELECTIVE_MULTICAST: u8 = 6;
/// Multicast membership report synch. RFC 9251 §9.2.
const MULTICAST_JOIN: u8 = 7;
/// Multicast leave synch. RFC 9251 §9.3.
const MULTICAST_LEAVE: u8 = 8;
/// Per-region I-PMSI A-D. RFC 9572 §3.1.
const REGION_PMSI: u8 = 9;
/// S-PMSI A-D. RFC 9572 §3.2.
const SELECTIVE_PMSI: u8 = 10;
/// Leaf A-D. RFC 9572 §3.3.
const LEAF: u8 = 11;

#[cfg(test)]
pub(crate) mod tests;
