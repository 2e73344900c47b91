//! What cannot be true of an announced route, whoever says it. Whether this peer may say it (its VNIs,
//! route targets, addresses) is a tenant's question and not known here; neither are withdrawals, which
//! are never refused.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::Attributes;

use crate::community::RouterMac;
use crate::esi::Esi;
use crate::mac::Mac;
use crate::pmsi::{IngressReplication, PmsiFault};
use crate::route::{EthernetAd, EthernetSegment, InclusiveMulticast, IpPrefix, MacIp, Route};
use crate::vni::Label;
use crate::vtep;

/// Why a route is not admitted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No next hop: nobody could forward.
    NextHopMissing,
    /// A next hop that is not the address of a VTEP. RFC 7606 §7.3.
    NextHop(IpAddr),
    /// An announcement without a label.
    LabelMissing,
    /// MAC address zero.
    MacZero,
    /// MAC address of a group, broadcast included: no host has it.
    MacGroup(Mac),
    /// IP address of a type 2 that no host has.
    HostAddress(IpAddr),
    /// Originating router of types 3 and 4 that is not the address of a VTEP.
    Originator(IpAddr),
    /// A segment that is reserved, or zero where a segment is what the route is about. RFC 7432 §5.
    Segment(Esi),
    /// Type 3 without a PMSI tunnel: receivers would stop flooding. RFC 7432 §11.2.
    PmsiMissing,
    /// Another tunnel than ingress replication, the only one that leaves here offer.
    PmsiTunnelType(u8),
    /// PMSI endpoint of neither 4 nor 16 octets.
    PmsiEndpointLength(usize),
    /// PMSI endpoint that is not the address of a VTEP.
    PmsiEndpoint(IpAddr),
    /// Type 5 with both overlay indexes. RFC 9136 §3.1.
    GatewayAndSegment,
    /// Type 5 without label, gateway, segment and router MAC: nothing to forward by. RFC 9136 §3.2.
    Unresolvable,
    /// A gateway that no host has.
    Gateway(IpAddr),
    /// Router MAC that is zero or a group. RFC 9135 §8.1.
    RouterMac(Mac),
}

/// Checks what every receiver may take for granted of a route that weft sends on.
///
/// # Errors
/// The first reason found.
pub fn check(route: &Route, attributes: &Attributes) -> Result<(), Refusal> {
    next_hop(attributes)?;
    router_mac(attributes)?;
    match route {
        Route::EthernetAd(route) => ethernet_ad(route),
        Route::MacIp(route) => mac_ip(route),
        Route::InclusiveMulticast(route) => inclusive_multicast(route, attributes),
        Route::EthernetSegment(route) => ethernet_segment(route),
        Route::IpPrefix(route) => ip_prefix(route, attributes),
    }
}

fn next_hop(attributes: &Attributes) -> Result<(), Refusal> {
    let address = vtep::next_hop(attributes).ok_or(Refusal::NextHopMissing)?;
    if is_vtep(address) {
        Ok(())
    } else {
        Err(Refusal::NextHop(address))
    }
}

fn router_mac(attributes: &Attributes) -> Result<(), Refusal> {
    let bad = |mac: &Mac| mac.is_zero() || mac.is_group();
    let mut macs = RouterMac::all(attributes).map(RouterMac::mac);
    macs.find(bad)
        .map_or(Ok(()), |mac| Err(Refusal::RouterMac(mac)))
}

/// A type 1 about an instance may have segment zero: RFC 8214 §3.1 uses it so.
fn ethernet_ad(route: &EthernetAd) -> Result<(), Refusal> {
    let esi = route.key.esi;
    if esi == Esi::MAX || (esi.is_zero() && route.key.is_per_segment()) {
        return Err(Refusal::Segment(esi));
    }
    route.label.map(drop).ok_or(Refusal::LabelMissing)
}

fn mac_ip(route: &MacIp) -> Result<(), Refusal> {
    let mac = route.key.mac;
    if mac.is_zero() {
        return Err(Refusal::MacZero);
    }
    if mac.is_group() {
        return Err(Refusal::MacGroup(mac));
    }
    if let Some(ip) = route.key.ip.filter(|ip| !is_host(*ip)) {
        return Err(Refusal::HostAddress(ip));
    }
    if route.esi == Esi::MAX {
        return Err(Refusal::Segment(route.esi));
    }
    route.labels.first().map(drop).ok_or(Refusal::LabelMissing)
}

fn inclusive_multicast(route: &InclusiveMulticast, attributes: &Attributes) -> Result<(), Refusal> {
    originator(route.key.originator)?;
    let tunnel = attributes.pmsi.as_ref().ok_or(Refusal::PmsiMissing)?;
    let tunnel = IngressReplication::try_from(tunnel)?;
    if !is_vtep(tunnel.endpoint) {
        return Err(Refusal::PmsiEndpoint(tunnel.endpoint));
    }
    Ok(())
}

fn ethernet_segment(route: &EthernetSegment) -> Result<(), Refusal> {
    let esi = route.key.esi;
    if esi.is_zero() || esi == Esi::MAX {
        return Err(Refusal::Segment(esi));
    }
    originator(route.key.originator)
}

fn ip_prefix(route: &IpPrefix, attributes: &Attributes) -> Result<(), Refusal> {
    if route.gateway.is_some() && !route.esi.is_zero() {
        return Err(Refusal::GatewayAndSegment);
    }
    if let Some(gateway) = route.gateway.filter(|gateway| !is_host(*gateway)) {
        return Err(Refusal::Gateway(gateway));
    }
    if route.esi == Esi::MAX {
        return Err(Refusal::Segment(route.esi));
    }
    let label = route.label.ok_or(Refusal::LabelMissing)?;
    let overlay = route.gateway.is_some() || !route.esi.is_zero();
    if !overlay && label == Label::ZERO && RouterMac::all(attributes).next().is_none() {
        return Err(Refusal::Unresolvable);
    }
    Ok(())
}

fn originator(address: IpAddr) -> Result<(), Refusal> {
    if is_vtep(address) {
        Ok(())
    } else {
        Err(Refusal::Originator(address))
    }
}

/// A unicast address that can be routed to across the underlay.
fn is_vtep(address: IpAddr) -> bool {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_host(address) && !link_local
}

/// A unicast address that one host can have; link-local ones are, and FRR advertises them.
fn is_host(address: IpAddr) -> bool {
    let reserved = match address {
        // "This network" and the former class E. RFC 6890 §2.2.2.
        IpAddr::V4(address) => matches!(address.octets(), [0 | 240..=255, ..]),
        IpAddr::V6(_) => false,
    };
    !(reserved || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

impl From<PmsiFault> for Refusal {
    fn from(fault: PmsiFault) -> Self {
        match fault {
            PmsiFault::TunnelType(tunnel_type) => Self::PmsiTunnelType(tunnel_type),
            PmsiFault::EndpointLength(octets) => Self::PmsiEndpointLength(octets),
        }
    }
}

impl Refusal {
    /// The reason without its value: for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NextHopMissing => "no next hop",
            Self::NextHop(_) => "next hop that is no VTEP",
            Self::LabelMissing => "no label",
            Self::MacZero => "zero MAC address",
            Self::MacGroup(_) => "group MAC address",
            Self::HostAddress(_) => "IP address that is no host",
            Self::Originator(_) => "originating router that is no VTEP",
            Self::Segment(_) => "reserved Ethernet segment",
            Self::PmsiMissing => "no PMSI tunnel",
            Self::PmsiTunnelType(_) => "PMSI tunnel type",
            Self::PmsiEndpointLength(_) => "PMSI endpoint length",
            Self::PmsiEndpoint(_) => "PMSI endpoint that is no VTEP",
            Self::GatewayAndSegment => "both gateway and Ethernet segment",
            Self::Unresolvable => "no label, gateway, Ethernet segment or router MAC",
            Self::Gateway(_) => "gateway that is no host",
            Self::RouterMac(_) => "router MAC that is no host",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::NextHop(address)
            | Self::HostAddress(address)
            | Self::Originator(address)
            | Self::PmsiEndpoint(address)
            | Self::Gateway(address) => write!(f, ": {address}"),
            Self::MacGroup(mac) | Self::RouterMac(mac) => write!(f, ": {mac}"),
            Self::Segment(esi) => write!(f, ": {esi}"),
            Self::PmsiTunnelType(tunnel_type) => write!(f, ": {tunnel_type}"),
            Self::PmsiEndpointLength(octets) => write!(f, ": {octets} octets"),
            Self::NextHopMissing
            | Self::LabelMissing
            | Self::MacZero
            | Self::PmsiMissing
            | Self::GatewayAndSegment
            | Self::Unresolvable => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}
