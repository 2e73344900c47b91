//! What identifies a route, and how it is written. Knows no octets and no payload.

use std::fmt;

use weft_bgp::rd::Rd;

use super::{
    ETHERNET_AD, ETHERNET_SEGMENT, EthernetAdKey, EthernetSegment, EthernetSegmentKey,
    INCLUSIVE_MULTICAST, IP_PREFIX, InclusiveMulticast, InclusiveMulticastKey, IpPrefixKey, LEAF,
    Leaf, LeafKey, MAC_IP, MULTICAST_JOIN, MULTICAST_LEAVE, MacIpKey, MembershipFlags,
    MulticastJoin, MulticastSyncKey, Opaque, REGION_PMSI, RegionPmsi, RegionPmsiKey, Route,
    SELECTIVE_MULTICAST, SELECTIVE_PMSI, SelectiveMulticast, SelectiveMulticastKey, SelectivePmsi,
    SelectivePmsiKey,
};

/// What identifies a route: payload (ESI, labels, gateway of types 2 and 5, flags of types 6 to 8) is not
/// in it, since speakers fill it as they like when they withdraw.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
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
    /// Type 6.
    SelectiveMulticast(Box<SelectiveMulticastKey>),
    /// Type 7.
    MulticastJoin(Box<MulticastSyncKey>),
    /// Type 8.
    MulticastLeave(Box<MulticastSyncKey>),
    /// Type 9.
    RegionPmsi(Box<RegionPmsiKey>),
    /// Type 10.
    SelectivePmsi(Box<SelectivePmsiKey>),
    /// Type 11.
    Leaf(Box<LeafKey>),
    /// Type 12 and above.
    Opaque(Box<Opaque>),
}

impl RouteKey {
    /// The route distinguisher, which [`fmt::Display`] leaves out as FRR does: of a type 11 that of the
    /// route it answers, of an opaque one zero.
    #[must_use]
    pub fn rd(&self) -> &Rd {
        match self {
            Self::EthernetAd(key) => &key.rd,
            Self::MacIp(key) => &key.rd,
            Self::InclusiveMulticast(key) => &key.rd,
            Self::EthernetSegment(key) => &key.rd,
            Self::IpPrefix(key) => &key.rd,
            Self::SelectiveMulticast(key) => &key.rd,
            Self::MulticastJoin(key) | Self::MulticastLeave(key) => &key.rd,
            Self::RegionPmsi(key) => &key.rd,
            Self::SelectivePmsi(key) => &key.rd,
            Self::Leaf(key) => key.of.rd(),
            Self::Opaque(_) => &Rd([0; 8]),
        }
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
            Self::Opaque(key) => key.route_type(),
        }
    }

    /// The route with zero for all that is not key: what a withdrawal carries, octet for octet as FRR
    /// 8.4 sends it.
    pub(super) fn bare(&self) -> Route {
        let flags = MembershipFlags::default();
        match self {
            Self::EthernetAd(key) => Route::EthernetAd(key.bare()),
            Self::MacIp(key) => Route::MacIp(key.bare()),
            Self::InclusiveMulticast(key) => {
                Route::InclusiveMulticast(InclusiveMulticast { key: *key })
            }
            Self::EthernetSegment(key) => Route::EthernetSegment(EthernetSegment { key: *key }),
            Self::IpPrefix(key) => Route::IpPrefix(key.bare()),
            Self::SelectiveMulticast(key) => {
                Route::SelectiveMulticast(SelectiveMulticast { key: **key, flags }.into())
            }
            Self::MulticastJoin(key) => {
                Route::MulticastJoin(MulticastJoin { key: **key, flags }.into())
            }
            Self::MulticastLeave(key) => Route::MulticastLeave(key.bare_leave().into()),
            Self::RegionPmsi(key) => Route::RegionPmsi(RegionPmsi { key: **key }.into()),
            Self::SelectivePmsi(key) => Route::SelectivePmsi(SelectivePmsi { key: **key }.into()),
            Self::Leaf(key) => Route::Leaf(Leaf { key: **key }.into()),
            Self::Opaque(key) => Route::Opaque(key.clone()),
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
            Self::SelectiveMulticast(key) => key.fmt(f),
            Self::MulticastJoin(key) | Self::MulticastLeave(key) => key.fmt(f),
            Self::RegionPmsi(key) => key.fmt(f),
            Self::SelectivePmsi(key) => key.fmt(f),
            Self::Leaf(key) => key.fmt(f),
            Self::Opaque(key) => key.fmt(f),
        }
    }
}
