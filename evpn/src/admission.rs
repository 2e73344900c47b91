//! What cannot be true of an announced route, whoever says it. Whether this peer may say it (its VNIs,
//! route targets, addresses) is a tenant's question and not known here; neither are withdrawals, which
//! are never refused.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::attribute::{Attributes, PmsiTunnel};

use crate::community::{MacMobility, RouterMac};
use crate::esi::Esi;
use crate::mac::Mac;
use crate::pmsi::{IngressReplication, PmsiFault};
use crate::route::{
    Channel, EthernetAd, EthernetSegment, InclusiveMulticast, IpPrefix, Leaf, MacIp,
    MulticastSyncKey, PmsiKey, Route, SelectiveMulticast, SelectivePmsi,
};
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
    /// A type 2 with so high a sequence number that no later holder of the MAC address could have a higher one.
    MobilitySequence(u32),
    /// IP address of a type 2 that no host has.
    HostAddress(IpAddr),
    /// Originating router of types 3, 4, 6 to 8, 10 and 11 that is not the address of a VTEP.
    Originator(IpAddr),
    /// A segment that is reserved, or zero where a segment is what the route is about. RFC 7432 §5.
    Segment(Esi),
    /// A source that no host has. RFC 9251 §9.1.
    Source(IpAddr),
    /// A group that is none. RFC 9251 §9.1.
    Group(IpAddr),
    /// A source without a group, or of another family than its group. RFC 6625 §4.
    Channel,
    /// Type 3 without a PMSI tunnel: receivers would stop flooding (RFC 7432 §11.2). Types 9 and 10
    /// without one say nothing (RFC 9572 §3).
    PmsiMissing,
    /// No tunnel (type 0), of a route other than types 9 to 11 (RFC 9572 §3, RFC 6514 §4.4): receivers would
    /// stop flooding.
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
    pmsi(route, attributes)?;
    match route {
        Route::EthernetAd(route) => ethernet_ad(route, attributes),
        Route::MacIp(route) => mac_ip(route, attributes),
        Route::InclusiveMulticast(route) => inclusive_multicast(route, attributes),
        Route::EthernetSegment(route) => ethernet_segment(route),
        Route::IpPrefix(route) => ip_prefix(route, attributes),
        Route::SelectiveMulticast(route) => selective_multicast(route),
        Route::MulticastJoin(route) => multicast_sync(&route.key),
        Route::MulticastLeave(route) => multicast_sync(&route.key),
        Route::RegionPmsi(_) => pmsi_present(attributes),
        Route::SelectivePmsi(route) => selective_pmsi(route, attributes),
        Route::Leaf(route) => leaf(route),
        // What it means is not known; who opted in to it has to know.
        Route::Opaque(_) => Ok(()),
    }
}

/// Of any route: FRR 8.4.4 parses the attribute before it looks at the type. RFC 6514 §5. Another tunnel than ingress
/// replication is not looked into: who can be told of it is asked when it is sent.
fn pmsi(route: &Route, attributes: &Attributes) -> Result<(), Refusal> {
    let Some(tunnel) = &attributes.pmsi else {
        return Ok(());
    };
    let none = tunnel.tunnel_type == PmsiTunnel::NONE;
    let may_be_none = matches!(
        route,
        Route::RegionPmsi(_) | Route::SelectivePmsi(_) | Route::Leaf(_)
    );
    if none && !may_be_none {
        return Err(Refusal::PmsiTunnelType(tunnel.tunnel_type));
    }
    if tunnel.tunnel_type != PmsiTunnel::INGRESS_REPLICATION {
        return Ok(());
    }
    let tunnel = IngressReplication::try_from(tunnel)?;
    if is_vtep(tunnel.endpoint) {
        Ok(())
    } else {
        Err(Refusal::PmsiEndpoint(tunnel.endpoint))
    }
}

fn pmsi_present(attributes: &Attributes) -> Result<(), Refusal> {
    let tunnel = attributes.pmsi.as_ref();
    tunnel.map(drop).ok_or(Refusal::PmsiMissing)
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

/// A type 1 about an instance may have segment zero: RFC 8214 §3 uses it so. About a whole segment only one that
/// brings the label of a VTEP's leaves, RFC 8317 §6.1.
fn ethernet_ad(route: &EthernetAd, attributes: &Attributes) -> Result<(), Refusal> {
    let esi = route.key.esi;
    let of_none = || route.key.is_per_segment() && !is_tree(attributes);
    if esi == Esi::MAX || (esi.is_zero() && of_none()) {
        return Err(Refusal::Segment(esi));
    }
    route.label.map(drop).ok_or(Refusal::LabelMissing)
}

/// Whether there is an E-Tree community. RFC 8317 §6.1.
fn is_tree(attributes: &Attributes) -> bool {
    let mut communities = attributes.ext_communities.iter();
    communities.any(|community| matches!(community.0, [0x06, 0x05, ..]))
}

fn mac_ip(route: &MacIp, attributes: &Attributes) -> Result<(), Refusal> {
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
    mobility_sequence(attributes)?;
    if route.esi == Esi::MAX {
        return Err(Refusal::Segment(route.esi));
    }
    route.labels.first().map(drop).ok_or(Refusal::LabelMissing)
}

/// RFC 7432 §15: who has the MAC address next announces a higher sequence number. Behind the last ones the number would
/// wrap, and whoever announced it would have the address for ever.
fn mobility_sequence(attributes: &Attributes) -> Result<(), Refusal> {
    let views = attributes.ext_communities.iter().copied();
    let mut sequences = views.filter_map(MacMobility::of).map(MacMobility::sequence);
    let beyond = sequences.find(|sequence| *sequence > MOBILITY_SEQUENCE_MAX);
    beyond.map_or(Ok(()), |sequence| Err(Refusal::MobilitySequence(sequence)))
}

fn inclusive_multicast(route: &InclusiveMulticast, attributes: &Attributes) -> Result<(), Refusal> {
    originator(route.key.originator)?;
    pmsi_present(attributes)
}

fn ethernet_segment(route: &EthernetSegment) -> Result<(), Refusal> {
    segment(route.key.esi)?;
    originator(route.key.originator)
}

/// A segment of several VTEPs. RFC 7432 §5.
fn segment(esi: Esi) -> Result<(), Refusal> {
    if esi.is_zero() || esi == Esi::MAX {
        Err(Refusal::Segment(esi))
    } else {
        Ok(())
    }
}

/// RFC 9251 §9.1.
fn selective_multicast(route: &SelectiveMulticast) -> Result<(), Refusal> {
    channel(route.key.channel)?;
    originator(route.key.originator)
}

/// RFC 9251 §9.2, §9.3: about a segment.
fn multicast_sync(key: &MulticastSyncKey) -> Result<(), Refusal> {
    segment(key.esi)?;
    channel(key.channel)?;
    originator(key.originator)
}

/// RFC 9572 §3.2.
fn selective_pmsi(route: &SelectivePmsi, attributes: &Attributes) -> Result<(), Refusal> {
    channel(route.key.channel)?;
    originator(route.key.originator)?;
    pmsi_present(attributes)
}

/// RFC 9572 §3.3: what it answers has to be a route that could have been admitted.
fn leaf(route: &Leaf) -> Result<(), Refusal> {
    match &route.key.of {
        PmsiKey::InclusiveMulticast(key) => originator(key.originator)?,
        PmsiKey::RegionPmsi(_) => {}
        PmsiKey::SelectivePmsi(key) => {
            channel(key.channel)?;
            originator(key.originator)?;
        }
    }
    originator(route.key.originator)
}

/// (S,G), (*,G) and (*,*) are; (S,*) is not. RFC 9251 §9.1, RFC 6625 §4.
fn channel(channel: Channel) -> Result<(), Refusal> {
    if let Some(group) = channel.group.filter(|group| !group.is_multicast()) {
        return Err(Refusal::Group(group));
    }
    let Some(source) = channel.source else {
        return Ok(());
    };
    if !is_host(source) {
        return Err(Refusal::Source(source));
    }
    let alike = |group: IpAddr| group.is_ipv4() == source.is_ipv4();
    if channel.group.is_some_and(alike) {
        Ok(())
    } else {
        Err(Refusal::Channel)
    }
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

/// Far more moves than an address can have before it is frozen (RFC 7432 §15.1) are left above it, and far more than any
/// had are below it: a move a second for 136 years.
const MOBILITY_SEQUENCE_MAX: u32 = u32::MAX - 0xffff;

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
            Self::MobilitySequence(_) => "MAC mobility sequence without room for more moves",
            Self::HostAddress(_) => "IP address that is no host",
            Self::Originator(_) => "originating router that is no VTEP",
            Self::Segment(_) => "reserved Ethernet segment",
            Self::Source(_) => "multicast source that is no host",
            Self::Group(_) => "multicast group that is none",
            Self::Channel => "multicast source that does not fit its group",
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
            | Self::Source(address)
            | Self::Group(address)
            | Self::PmsiEndpoint(address)
            | Self::Gateway(address) => write!(f, ": {address}"),
            Self::MacGroup(mac) | Self::RouterMac(mac) => write!(f, ": {mac}"),
            Self::Segment(esi) => write!(f, ": {esi}"),
            Self::MobilitySequence(sequence) => write!(f, ": {sequence}"),
            Self::PmsiTunnelType(tunnel_type) => write!(f, ": {tunnel_type}"),
            Self::PmsiEndpointLength(octets) => write!(f, ": {octets} octets"),
            Self::NextHopMissing
            | Self::LabelMissing
            | Self::MacZero
            | Self::Channel
            | Self::PmsiMissing
            | Self::GatewayAndSegment
            | Self::Unresolvable => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_bgp::attribute::{ExtendedCommunity, NextHop, PmsiTunnel};
    use weft_bgp::nlri::Nlri;
    use weft_bgp::wire::Reader;

    use super::*;
    use crate::community::{Encapsulation, MacMobility};

    const TYPE_1: &str = "01190001c0000201006403000 05e0053010000010000000a000064";
    const TYPE_2: &str =
        "02250001c00002010064000000000000000000000000000030 00005e00530120c0000207000064";
    const TYPE_3: &str = "03110001c00002010064000000 0020c0000201";
    const TYPE_4: &str = "04170001c000020100010300005e00530100000120c0000201";
    const TYPE_5: &str =
        "05220001c000020100c800000000000000000000 0000000018c633640000000000 0000c8";

    fn route(digits: &str) -> Route {
        let digits = digits.replace(' ', "");
        let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let octets: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
        let short = weft_bgp::error::Fault::NlriFraming;
        Route::decode(&mut Reader::new(&octets, 0, short)).unwrap()
    }

    fn good() -> Attributes {
        Attributes {
            next_hop: Some(NextHop::V4([192, 0, 2, 1].into())),
            ext_communities: vec![Encapsulation::new(Encapsulation::VXLAN).octets()],
            pmsi: Some(PmsiTunnel::ingress_replication(
                [0, 0, 100],
                [192, 0, 2, 1].into(),
            )),
            ..Attributes::default()
        }
    }

    fn verdict(digits: &str, attributes: &Attributes) -> Result<(), Refusal> {
        check(&route(digits), attributes)
    }

    #[test]
    fn good_routes_are_admitted() {
        for digits in [TYPE_1, TYPE_2, TYPE_3, TYPE_4, TYPE_5] {
            assert_eq!(verdict(digits, &good()), Ok(()), "{digits}");
        }
    }

    #[test]
    fn c13_zero_group_and_broadcast_addresses_are_refused() {
        let cases = [
            ("000000000000", Refusal::MacZero),
            ("ffffffffffff", Refusal::MacGroup(Mac::BROADCAST)),
            (
                "01005e005301",
                Refusal::MacGroup(Mac([1, 0, 0x5e, 0, 0x53, 1])),
            ),
            (
                "333300000001",
                Refusal::MacGroup(Mac([0x33, 0x33, 0, 0, 0, 1])),
            ),
        ];
        for (mac, refusal) in cases {
            let digits = TYPE_2.replace(' ', "").replace("00005e005301", mac);
            assert_eq!(verdict(&digits, &good()), Err(refusal));
        }
    }

    #[test]
    fn c6_type_3_needs_a_tunnel_and_ingress_replication_a_vtep() {
        let with = |pmsi| Attributes { pmsi, ..good() };
        let tunnel = |tunnel_type, endpoint: &'static [u8]| {
            let endpoint = Bytes::from_static(endpoint);
            with(Some(PmsiTunnel {
                flags: 0,
                tunnel_type,
                label: [0, 0, 100],
                endpoint,
            }))
        };
        let cases = [
            (with(None), Refusal::PmsiMissing),
            (tunnel(0, &[]), Refusal::PmsiTunnelType(0)),
            (tunnel(6, &[]), Refusal::PmsiEndpointLength(0)),
            (
                tunnel(6, &[192, 0, 2, 1, 0]),
                Refusal::PmsiEndpointLength(5),
            ),
            (tunnel(6, &[0; 4]), Refusal::PmsiEndpoint([0; 4].into())),
            (
                tunnel(6, &[224, 0, 0, 1]),
                Refusal::PmsiEndpoint([224, 0, 0, 1].into()),
            ),
        ];
        for (attributes, refusal) in cases {
            assert_eq!(verdict(TYPE_3, &attributes), Err(refusal));
            // Only type 3 needs a tunnel, but none may carry a bad one.
            let other = Err(refusal).or_else(|refusal| match refusal {
                Refusal::PmsiMissing => Ok(()),
                refusal => Err(refusal),
            });
            assert_eq!(verdict(TYPE_2, &attributes), other);
        }
    }

    #[test]
    fn c9_type_5_has_one_overlay_index_at_most_and_something_to_forward_by() {
        let Route::IpPrefix(plain) = route(TYPE_5) else {
            panic!()
        };
        let esi = Esi([3, 0, 0, 0x5e, 0, 0x53, 1, 0, 0, 1]);
        let gateway = Some([192, 0, 2, 9].into());
        let zero = Some(Label::ZERO);
        let check = |route, attributes: &Attributes| check(&Route::IpPrefix(route), attributes);

        let both = IpPrefix {
            esi,
            gateway,
            ..plain
        };
        assert_eq!(check(both, &good()), Err(Refusal::GatewayAndSegment));
        assert_eq!(
            check(
                IpPrefix {
                    esi,
                    label: zero,
                    ..plain
                },
                &good()
            ),
            Ok(())
        );
        assert_eq!(
            check(
                IpPrefix {
                    gateway,
                    label: zero,
                    ..plain
                },
                &good()
            ),
            Ok(())
        );
        let nothing = IpPrefix {
            label: zero,
            ..plain
        };
        assert_eq!(check(nothing, &good()), Err(Refusal::Unresolvable));
        let mut routed = good();
        routed
            .ext_communities
            .push(RouterMac::new(Mac([0, 0, 0x5e, 0, 0x53, 0xfe])).octets());
        assert_eq!(check(nothing, &routed), Ok(()));
        let group = IpPrefix {
            gateway: Some([224, 0, 0, 9].into()),
            ..plain
        };
        assert_eq!(
            check(group, &good()),
            Err(Refusal::Gateway([224, 0, 0, 9].into()))
        );
    }

    #[test]
    fn an_announcement_has_a_label() {
        let digits = TYPE_2.replace(' ', "").replace("0225", "0222");
        assert_eq!(
            verdict(digits.strip_suffix("000064").unwrap(), &good()),
            Err(Refusal::LabelMissing)
        );
        let digits = TYPE_1.replace(' ', "").replace("0119", "0116");
        assert_eq!(
            verdict(digits.strip_suffix("000064").unwrap(), &good()),
            Err(Refusal::LabelMissing)
        );
        let digits = TYPE_5.replace(' ', "").replace("0522", "051f");
        assert_eq!(
            verdict(digits.strip_suffix("0000c8").unwrap(), &good()),
            Err(Refusal::LabelMissing)
        );
    }

    #[test]
    fn a_next_hop_is_a_vtep() {
        let with = |next_hop| Attributes { next_hop, ..good() };
        assert_eq!(verdict(TYPE_2, &with(None)), Err(Refusal::NextHopMissing));
        for bad in [
            [0, 0, 0, 0],
            [0, 1, 2, 3],
            [127, 0, 0, 1],
            [224, 0, 0, 5],
            [240, 0, 0, 1],
            [255; 4],
            [169, 254, 1, 1],
        ] {
            let refusal = Refusal::NextHop(bad.into());
            assert_eq!(
                verdict(TYPE_2, &with(Some(NextHop::V4(bad.into())))),
                Err(refusal)
            );
        }
        for bad in ["::", "::1", "ff02::1", "fe80::1"] {
            let bad = bad.parse().unwrap();
            let refusal = Refusal::NextHop(IpAddr::V6(bad));
            assert_eq!(verdict(TYPE_2, &with(Some(NextHop::V6(bad)))), Err(refusal));
        }
        let global = "2001:db8::1".parse().unwrap();
        let both = NextHop::V6LinkLocal(global, "fe80::1".parse().unwrap());
        assert_eq!(verdict(TYPE_2, &with(Some(both))), Ok(()));
    }

    #[test]
    fn segments_and_originators_are_real() {
        let (zero, max) = ("00".repeat(10), "ff".repeat(10));
        for (esi, bad) in [(&zero, Esi::ZERO), (&max, Esi::MAX)] {
            let digits = TYPE_4.replace("0300005e005301000001", esi);
            assert_eq!(verdict(&digits, &good()), Err(Refusal::Segment(bad)));
        }
        let digits = TYPE_1
            .replace(' ', "")
            .replace("0300005e005301000001", &zero);
        assert_eq!(
            verdict(&digits, &good()),
            Ok(()),
            "a single-homed service of RFC 8214"
        );
        let digits = digits.replace("0000000a", "ffffffff");
        assert_eq!(verdict(&digits, &good()), Err(Refusal::Segment(Esi::ZERO)));
        let mut tree = good();
        let leaf = [0x06, 0x05, 0, 0, 0, 0, 0, 100];
        tree.ext_communities.push(ExtendedCommunity(leaf));
        assert_eq!(verdict(&digits, &tree), Ok(()), "a leaf's of RFC 8317");
        for esi in [(&zero, Esi::ZERO), (&max, Esi::MAX)] {
            let digits = TYPE_4.replace("0300005e005301000001", esi.0);
            assert_eq!(verdict(&digits, &tree), Err(Refusal::Segment(esi.1)));
        }
        for digits in [TYPE_3, TYPE_4] {
            let digits = digits.replace("20c0000201", "207f000001");
            assert_eq!(
                verdict(&digits, &good()),
                Err(Refusal::Originator([127, 0, 0, 1].into()))
            );
        }
    }

    #[test]
    fn hosts_may_be_link_local_but_not_groups() {
        let with = |ip: [u8; 4]| {
            let Route::MacIp(mut route) = route(TYPE_2) else {
                panic!()
            };
            route.key.ip = Some(ip.into());
            check(&Route::MacIp(route), &good())
        };
        assert_eq!(with([169, 254, 0, 1]), Ok(()));
        for bad in [[0; 4], [255; 4], [224, 0, 0, 1], [127, 0, 0, 1]] {
            assert_eq!(with(bad), Err(Refusal::HostAddress(bad.into())));
        }
    }

    /// RFC 7432 §15: the next holder has to announce a higher one.
    #[test]
    fn a_mobility_sequence_leaves_room_for_the_moves_to_come() {
        let with = |sequences: &[u32]| {
            let mut attributes = good();
            let octets = |sequence: &u32| MacMobility::new(false, *sequence).octets();
            attributes
                .ext_communities
                .extend(sequences.iter().map(octets));
            attributes
        };
        for bad in [u32::MAX, u32::MAX - 1, MOBILITY_SEQUENCE_MAX + 1] {
            let refusal = Err(Refusal::MobilitySequence(bad));
            assert_eq!(verdict(TYPE_2, &with(&[bad])), refusal);
            // Receivers differ in which of two they read.
            assert_eq!(verdict(TYPE_2, &with(&[3, bad])), refusal);
            // It says something of type 2 only.
            assert_eq!(verdict(TYPE_3, &with(&[bad])), Ok(()));
        }
        for good in [0, 1, MOBILITY_SEQUENCE_MAX] {
            assert_eq!(verdict(TYPE_2, &with(&[good])), Ok(()));
        }
        assert_eq!(
            Refusal::MobilitySequence(u32::MAX).to_string(),
            "MAC mobility sequence without room for more moves: 4294967295"
        );
    }

    #[test]
    fn a_router_mac_is_a_hosts() {
        for bad in [Mac::default(), Mac::BROADCAST, Mac([1, 0, 0, 0, 0, 1])] {
            let mut attributes = good();
            attributes
                .ext_communities
                .push(MacMobility::new(false, 1).octets());
            attributes
                .ext_communities
                .push(RouterMac::new(bad).octets());
            for digits in [TYPE_2, TYPE_5] {
                assert_eq!(verdict(digits, &attributes), Err(Refusal::RouterMac(bad)));
            }
        }
    }

    /// Who can be told of it is asked when it is sent.
    #[test]
    fn a_vtep_may_be_named_by_ipv6() {
        let v6: IpAddr = "2001:db8::53".parse().unwrap();
        let pmsi = Some(PmsiTunnel::ingress_replication([0, 0, 100], v6));
        let endpoint = Attributes { pmsi, ..good() };
        let originators = [
            "031d0001c00002010064000000 008020010db8000000000000000000000053",
            "04230001c000020100010300005e0053010000018020010db8000000000000000000000053",
        ];
        for digits in [TYPE_2, TYPE_3, TYPE_4, originators[0], originators[1]] {
            assert_eq!(verdict(digits, &endpoint), Ok(()), "{digits}");
        }
        for bad in ["::1", "fe80::1", "ff02::1", "::"] {
            let bad: IpAddr = bad.parse().unwrap();
            let pmsi = Some(PmsiTunnel::ingress_replication([0, 0, 100], bad));
            let refusal = Err(Refusal::PmsiEndpoint(bad));
            assert_eq!(verdict(TYPE_3, &Attributes { pmsi, ..good() }), refusal);
        }
    }

    fn joined(route_type: &str, length: &str, channel: &str, rest: &str) -> String {
        let esi = if route_type == "06" || route_type == "0a" {
            ""
        } else {
            "0300005e005301000001"
        };
        format!("{route_type}{length}0001c00002010064{esi}00000000{channel}20c0000201{rest}")
    }

    #[test]
    fn channels_are_of_one_source_and_one_group() {
        let (source, group) = ("20c6336401", "20ef010101");
        let wild = "00";
        let v6 = "80ff050000000000000000000000000001";
        let bad_group = Refusal::Group([198, 51, 100, 1].into());
        let cases = [
            ("1c", source, group, Ok(())),
            ("18", wild, group, Ok(())),
            ("14", wild, wild, Ok(())),
            ("18", source, wild, Err(Refusal::Channel)),
            ("28", source, v6, Err(Refusal::Channel)),
            ("1c", source, source, Err(bad_group)),
            (
                "1c",
                "20e0000005",
                group,
                Err(Refusal::Source([224, 0, 0, 5].into())),
            ),
        ];
        for (length, source, group, expected) in cases {
            let channel = format!("{source}{group}");
            let smet = joined("06", length, &channel, "02");
            assert_eq!(verdict(&smet, &good()), expected, "{smet}");
            let octets = u8::from_str_radix(length, 16).unwrap();
            let join = joined("07", &format!("{:02x}", octets + 10), &channel, "02");
            assert_eq!(verdict(&join, &good()), expected, "{join}");
            let leave = joined(
                "08",
                &format!("{:02x}", octets + 15),
                &channel,
                "000000006402",
            );
            assert_eq!(verdict(&leave, &good()), expected, "{leave}");
            let tunnel = joined("0a", &format!("{:02x}", octets - 1), &channel, "");
            assert_eq!(verdict(&tunnel, &good()), expected, "{tunnel}");
        }
    }

    #[test]
    fn synchronised_reports_are_about_a_segment() {
        for (route_type, length, rest) in [("07", "22", "02"), ("08", "27", "000000006402")] {
            let digits = joined(route_type, length, "0020ef010101", rest);
            assert_eq!(verdict(&digits, &good()), Ok(()));
            let zero = digits.replace("0300005e005301000001", &"00".repeat(10));
            assert_eq!(verdict(&zero, &good()), Err(Refusal::Segment(Esi::ZERO)));
        }
    }

    #[test]
    fn tunnels_of_types_9_to_11_are_what_rfc_9572_says() {
        const TYPE_9: &str = "09140001c0000201006400000000 0009fbf000000000";
        const TYPE_10: &str = "0a170001c000020100640000000000 20ef01010120c0000201";
        const TYPE_11: &str = "0b1b09140001c00002010064000000000009fbf00000000020c0000202";
        let with = |pmsi| Attributes { pmsi, ..good() };
        let tunnel = |tunnel_type, endpoint: &'static [u8]| {
            let endpoint = Bytes::from_static(endpoint);
            with(Some(PmsiTunnel {
                flags: 1,
                tunnel_type,
                label: [0; 3],
                endpoint,
            }))
        };
        let ssm = &[192, 0, 2, 1, 232, 0, 0, 1];
        for digits in [TYPE_9, TYPE_10] {
            let missing = Err(Refusal::PmsiMissing);
            assert_eq!(verdict(digits, &with(None)), missing);
            for attributes in [good(), tunnel(0, &[]), tunnel(3, ssm)] {
                assert_eq!(verdict(digits, &attributes), Ok(()), "{digits}");
            }
        }
        for attributes in [good(), with(None), tunnel(0, &[])] {
            assert_eq!(verdict(TYPE_11, &attributes), Ok(()));
        }
        let refusal = Err(Refusal::PmsiTunnelType(0));
        for digits in [TYPE_2, TYPE_3, TYPE_4] {
            assert_eq!(verdict(digits, &tunnel(0, &[])), refusal, "{digits}");
        }
        // Composite (RFC 8317 §6), and a type that nobody has defined.
        let others = [tunnel(3, ssm), tunnel(0x86, ssm), tunnel(200, &[])];
        for digits in [TYPE_2, TYPE_3, TYPE_4, TYPE_11] {
            for attributes in &others {
                assert_eq!(verdict(digits, attributes), Ok(()), "{digits}");
            }
        }
        let nowhere = Refusal::PmsiEndpoint([127, 0, 0, 1].into());
        for digits in [TYPE_9, TYPE_10, TYPE_11] {
            assert_eq!(verdict(digits, &tunnel(6, &[127, 0, 0, 1])), Err(nowhere));
        }
    }

    #[test]
    fn a_refusal_says_why() {
        assert_eq!(Refusal::MacZero.to_string(), "zero MAC address");
        assert_eq!(
            Refusal::PmsiTunnelType(8).to_string(),
            "PMSI tunnel type: 8"
        );
        let refusal = Refusal::Originator([127, 0, 0, 1].into());
        assert_eq!(
            refusal.to_string(),
            "originating router that is no VTEP: 127.0.0.1"
        );
    }
}
