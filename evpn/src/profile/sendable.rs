//! Whether a peer can take a route, by the bits of its filter. Knows no peer.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::{Attributes, NextHop, PmsiTunnel};
use weft_bgp::reflect::Filter;

use super::{
    IPV6_NEXT_HOP, IPV6_ORIGINATOR, IPV6_PMSI, ODD_SEGMENTS, OPAQUE, OTHER_TUNNELS, TYPE_1, TYPE_4,
    TYPE_5, TYPE_6, TYPE_7, TYPE_8, TYPE_9, TYPE_10, TYPE_11,
};
use crate::esi::Esi;
use crate::route::{PmsiKey, Route, RouteKey};

/// Why a peer is not told of a route.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Withheld {
    /// It need not know, or does not take, the route type.
    RouteType(u8),
    /// It does not take routers named by IPv6 in types 3, 4, 6 to 8, 10 and 11.
    Ipv6Originator,
    /// It does not take a PMSI_TUNNEL of 21 octets.
    Ipv6Pmsi,
    /// It does not take a PMSI_TUNNEL of this type.
    Tunnel(u8),
    /// It does not take a next hop of 16 octets.
    Ipv6NextHop,
    /// It does not take a segment of type 1 or 2 whose last octet is not zero.
    OddSegment,
}

impl Withheld {
    /// The reason without its value: for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RouteType(_) => "route type",
            Self::Ipv6Originator => "originating router named by IPv6",
            Self::Ipv6Pmsi => "PMSI tunnel to an IPv6 address",
            Self::Tunnel(_) => "PMSI tunnel type",
            Self::Ipv6NextHop => "IPv6 next hop",
            Self::OddSegment => "segment whose last octet is not zero",
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the profile does not take the {}", self.name())?;
        match self {
            Self::RouteType(number) | Self::Tunnel(number) => write!(f, " {number}"),
            Self::Ipv6Originator | Self::Ipv6Pmsi | Self::Ipv6NextHop | Self::OddSegment => Ok(()),
        }
    }
}

impl std::error::Error for Withheld {}

/// Whether a peer with `filter` may be told of the route.
///
/// # Errors
/// The first reason why not.
pub fn sendable(route: &Route, attributes: &Attributes, filter: Filter) -> Result<(), Withheld> {
    // Nearly all routes are hosts, whose keys need no look.
    if !matches!(route, Route::MacIp(_)) {
        key(route, filter)?;
    }
    segment(segment_of(route), filter)?;
    match attributes.next_hop {
        // What is said of one with a link-local address has none: that is of another link.
        Some(NextHop::V6(_) | NextHop::V6LinkLocal(..)) if !permits(filter, IPV6_NEXT_HOP) => {
            return Err(Withheld::Ipv6NextHop);
        }
        Some(NextHop::V4(_) | NextHop::V6(_) | NextHop::V6LinkLocal(..)) | None => {}
    }
    match &attributes.pmsi {
        None => Ok(()),
        Some(tunnel) => pmsi(tunnel, filter),
    }
}

/// Whether a withdrawal of the key may be sent to a peer with `filter`: one that does not take a key
/// does not take its withdrawal either.
///
/// # Errors
/// The first reason why not.
pub fn withdrawable(key: &RouteKey, filter: Filter) -> Result<(), Withheld> {
    named(key.route_type(), originators_of_key(key), filter)?;
    segment(segment_of_key(key), filter)
}

fn key(route: &Route, filter: Filter) -> Result<(), Withheld> {
    named(route.route_type(), originators(route), filter)
}

fn named(route_type: u8, originators: [Option<IpAddr>; 2], filter: Filter) -> Result<(), Withheld> {
    let permitted = match route_type {
        1 => permits(filter, TYPE_1),
        2 | 3 => true,
        4 => permits(filter, TYPE_4),
        5 => permits(filter, TYPE_5),
        6 => permits(filter, TYPE_6),
        7 => permits(filter, TYPE_7),
        8 => permits(filter, TYPE_8),
        9 => permits(filter, TYPE_9),
        10 => permits(filter, TYPE_10),
        11 => permits(filter, TYPE_11),
        _ => permits(filter, OPAQUE),
    };
    if !permitted {
        return Err(Withheld::RouteType(route_type));
    }
    let ipv6 = originators.iter().flatten().any(IpAddr::is_ipv6);
    if ipv6 && !permits(filter, IPV6_ORIGINATOR) {
        return Err(Withheld::Ipv6Originator);
    }
    Ok(())
}

/// Of the types that are made of an address and a key, the last octet is to be zero. RFC 7432 §5.
fn segment(esi: Option<Esi>, filter: Filter) -> Result<(), Withheld> {
    let odd = |esi: Esi| matches!(esi.0, [1 | 2, .., 1..=255]);
    if esi.is_some_and(odd) && !permits(filter, ODD_SEGMENTS) {
        return Err(Withheld::OddSegment);
    }
    Ok(())
}

fn segment_of(route: &Route) -> Option<Esi> {
    match route {
        Route::EthernetAd(route) => Some(route.key.esi),
        Route::MacIp(route) => Some(route.esi),
        Route::EthernetSegment(route) => Some(route.key.esi),
        Route::IpPrefix(route) => Some(route.esi),
        Route::MulticastJoin(route) => Some(route.key.esi),
        Route::MulticastLeave(route) => Some(route.key.esi),
        Route::InclusiveMulticast(_)
        | Route::SelectiveMulticast(_)
        | Route::RegionPmsi(_)
        | Route::SelectivePmsi(_)
        | Route::Leaf(_)
        | Route::Opaque(_) => None,
    }
}

/// Only of types 1, 4, 7 and 8: a withdrawal of the others has segment zero.
fn segment_of_key(key: &RouteKey) -> Option<Esi> {
    match key {
        RouteKey::EthernetAd(key) => Some(key.esi),
        RouteKey::EthernetSegment(key) => Some(key.esi),
        RouteKey::MulticastJoin(key) | RouteKey::MulticastLeave(key) => Some(key.esi),
        RouteKey::MacIp(_)
        | RouteKey::InclusiveMulticast(_)
        | RouteKey::IpPrefix(_)
        | RouteKey::SelectiveMulticast(_)
        | RouteKey::RegionPmsi(_)
        | RouteKey::SelectivePmsi(_)
        | RouteKey::Leaf(_)
        | RouteKey::Opaque(_) => None,
    }
}

fn pmsi(tunnel: &PmsiTunnel, filter: Filter) -> Result<(), Withheld> {
    if tunnel.tunnel_type != PmsiTunnel::INGRESS_REPLICATION {
        let other = Withheld::Tunnel(tunnel.tunnel_type);
        return permits(filter, OTHER_TUNNELS).then_some(()).ok_or(other);
    }
    // Whatever is not an IPv4 address, so that nothing else slips through.
    if tunnel.endpoint.len() != 4 && !permits(filter, IPV6_PMSI) {
        return Err(Withheld::Ipv6Pmsi);
    }
    Ok(())
}

/// Routers that the key names; a type 11 names two.
fn originators(route: &Route) -> [Option<IpAddr>; 2] {
    match route {
        Route::InclusiveMulticast(route) => [Some(route.key.originator), None],
        Route::EthernetSegment(route) => [Some(route.key.originator), None],
        Route::SelectiveMulticast(route) => [Some(route.key.originator), None],
        Route::MulticastJoin(route) => [Some(route.key.originator), None],
        Route::MulticastLeave(route) => [Some(route.key.originator), None],
        Route::SelectivePmsi(route) => [Some(route.key.originator), None],
        Route::Leaf(route) => [Some(route.key.originator), answered(&route.key.of)],
        Route::EthernetAd(_)
        | Route::MacIp(_)
        | Route::IpPrefix(_)
        | Route::RegionPmsi(_)
        | Route::Opaque(_) => [None, None],
    }
}

fn originators_of_key(key: &RouteKey) -> [Option<IpAddr>; 2] {
    match key {
        RouteKey::InclusiveMulticast(key) => [Some(key.originator), None],
        RouteKey::EthernetSegment(key) => [Some(key.originator), None],
        RouteKey::SelectiveMulticast(key) => [Some(key.originator), None],
        RouteKey::MulticastJoin(key) | RouteKey::MulticastLeave(key) => {
            [Some(key.originator), None]
        }
        RouteKey::SelectivePmsi(key) => [Some(key.originator), None],
        RouteKey::Leaf(key) => [Some(key.originator), answered(&key.of)],
        RouteKey::EthernetAd(_)
        | RouteKey::MacIp(_)
        | RouteKey::IpPrefix(_)
        | RouteKey::RegionPmsi(_)
        | RouteKey::Opaque(_) => [None, None],
    }
}

fn answered(of: &PmsiKey) -> Option<IpAddr> {
    match of {
        PmsiKey::InclusiveMulticast(key) => Some(key.originator),
        PmsiKey::SelectivePmsi(key) => Some(key.originator),
        PmsiKey::RegionPmsi(_) => None,
    }
}

fn permits(filter: Filter, bit: Filter) -> bool {
    filter.0 & bit.0 != 0
}
