//! Extended communities that mean something to EVPN, as views: each keeps its eight octets as they are
//! and tells what they say. Which of them a route must have is not known here.

mod election;
mod encapsulation;
mod layer2;
mod membership;
mod route_target;

use std::fmt;

pub use weft_bgp::attribute::link_bandwidth::LinkBandwidth;
use weft_bgp::attribute::{Attributes, ExtendedCommunity};

use crate::esi::Esi;
use crate::mac::Mac;
use crate::vni::Label;

pub use election::DfElection;
pub use encapsulation::Encapsulation;
pub use layer2::{ArpNd, Layer2Attributes};
pub use membership::{EviRouteTarget, MulticastFlags, Region};
pub use route_target::{RouteTarget, RouteTargetSyntax};

/// What an extended community is to EVPN.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Community {
    /// Which instances import the route.
    RouteTarget(RouteTarget),
    /// How to reach the next hop.
    Encapsulation(Encapsulation),
    /// How often a MAC address has moved.
    MacMobility(MacMobility),
    /// Redundancy mode and split horizon label of a segment.
    EsiLabel(EsiLabel),
    /// Which VTEPs import a type 4.
    EsImport(EsImport),
    /// Inner destination address of routed packets.
    RouterMac(RouterMac),
    /// The MAC address is a gateway's.
    DefaultGateway(DefaultGateway),
    /// How much the path can carry.
    LinkBandwidth(LinkBandwidth),
    /// What a VTEP wants of the election of a forwarder.
    DfElection(DfElection),
    /// What a circuit is like.
    Layer2Attributes(Layer2Attributes),
    /// How to answer for a host's address.
    ArpNd(ArpNd),
    /// What of multicast a VTEP can do.
    MulticastFlags(MulticastFlags),
    /// Of which instance a synchronised report is.
    EviRouteTarget(EviRouteTarget),
    /// Anything else.
    Other(ExtendedCommunity),
}

impl From<ExtendedCommunity> for Community {
    fn from(octets: ExtendedCommunity) -> Self {
        None.or_else(|| RouteTarget::of(octets).map(Self::RouteTarget))
            .or_else(|| Encapsulation::of(octets).map(Self::Encapsulation))
            .or_else(|| MacMobility::of(octets).map(Self::MacMobility))
            .or_else(|| EsiLabel::of(octets).map(Self::EsiLabel))
            .or_else(|| EsImport::of(octets).map(Self::EsImport))
            .or_else(|| RouterMac::of(octets).map(Self::RouterMac))
            .or_else(|| DefaultGateway::of(octets).map(Self::DefaultGateway))
            .or_else(|| LinkBandwidth::of(octets).map(Self::LinkBandwidth))
            .or_else(|| DfElection::of(octets).map(Self::DfElection))
            .or_else(|| Layer2Attributes::of(octets).map(Self::Layer2Attributes))
            .or_else(|| ArpNd::of(octets).map(Self::ArpNd))
            .or_else(|| MulticastFlags::of(octets).map(Self::MulticastFlags))
            .or_else(|| EviRouteTarget::of(octets).map(Self::EviRouteTarget))
            .unwrap_or(Self::Other(octets))
    }
}

impl From<Community> for ExtendedCommunity {
    fn from(community: Community) -> Self {
        match community {
            Community::RouteTarget(view) => view.octets(),
            Community::Encapsulation(view) => view.octets(),
            Community::MacMobility(view) => view.octets(),
            Community::EsiLabel(view) => view.octets(),
            Community::EsImport(view) => view.octets(),
            Community::RouterMac(view) => view.octets(),
            Community::DefaultGateway(view) => view.octets(),
            Community::LinkBandwidth(view) => view.community(),
            Community::DfElection(view) => view.octets(),
            Community::Layer2Attributes(view) => view.octets(),
            Community::ArpNd(view) => view.octets(),
            Community::MulticastFlags(view) => view.octets(),
            Community::EviRouteTarget(view) => view.octets(),
            Community::Other(octets) => octets,
        }
    }
}

/// FRR's spelling.
impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ExtendedCommunity::from(*self).fmt(f)
    }
}

/// MAC mobility. RFC 7432 §7.7.
///
/// ```text
/// +- 0x06 -+- 0x00 -+-- 1 --+--- 1 ----+---- 4 ----+
/// |  type  | sub    | flags | reserved | sequence  |     flags: 0x01 sticky
/// +--------+--------+-------+----------+-----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MacMobility(ExtendedCommunity);

impl MacMobility {
    /// The community.
    #[must_use]
    pub fn new(sticky: bool, sequence: u32) -> Self {
        let [a, b, c, d] = sequence.to_be_bytes();
        Self(ExtendedCommunity([
            0x06,
            0x00,
            u8::from(sticky),
            0,
            a,
            b,
            c,
            d,
        ]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x00, ..]).then_some(Self(octets))
    }

    /// Of a route; of several, which should not be, the least octets count, whatever their order: FRR
    /// 8.4 to 10.7 sort communities and take the first.
    #[must_use]
    pub fn find(attributes: &Attributes) -> Option<Self> {
        views(attributes, Self::of).min_by_key(|view| view.0.0)
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The MAC address is static and must not move. RFC 7432 §15.2.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        let [_, _, flags, ..] = self.0.0;
        flags & 0x01 != 0
    }

    /// How often it has moved. RFC 7432 §15.
    #[must_use]
    pub fn sequence(self) -> u32 {
        let [.., a, b, c, d] = self.0.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// ESI label, on a type 1 about a whole segment. RFC 7432 §7.5.
///
/// ```text
/// +- 0x06 -+- 0x01 -+-- 1 --+---- 2 ----+--- 3 ---+
/// |  type  | sub    | flags | reserved  |  label  |     flags: 0x01 single-active
/// +--------+--------+-------+-----------+---------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EsiLabel(ExtendedCommunity);

impl EsiLabel {
    /// The community.
    #[must_use]
    pub fn new(single_active: bool, label: Label) -> Self {
        let [a, b, c] = label.0;
        Self(ExtendedCommunity([
            0x06,
            0x01,
            u8::from(single_active),
            0,
            0,
            a,
            b,
            c,
        ]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x01, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// One VTEP of the segment forwards, rather than all.
    #[must_use]
    pub fn is_single_active(self) -> bool {
        let [_, _, flags, ..] = self.0.0;
        flags & 0x01 != 0
    }

    /// Split horizon label; means nothing with VXLAN. RFC 8365 §8.3.1.
    #[must_use]
    pub fn label(self) -> Label {
        let [.., a, b, c] = self.0.0;
        Label([a, b, c])
    }
}

/// ES-Import route target, on type 4. RFC 7432 §7.6.
///
/// ```text
/// +- 0x06 -+- 0x02 -+------ 6 ------+
/// |  type  | sub    |      MAC      |
/// +--------+--------+---------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EsImport(ExtendedCommunity);

impl EsImport {
    /// The community.
    #[must_use]
    pub fn new(mac: Mac) -> Self {
        Self(with_mac(0x06, 0x02, mac))
    }

    /// The one derived from a segment: its first six octets after the type. RFC 7432 §7.6.
    #[must_use]
    pub fn of_segment(esi: Esi) -> Self {
        let [_, a, b, c, d, e, f, ..] = esi.0;
        Self::new(Mac([a, b, c, d, e, f]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x02, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The value, which is written like a MAC address.
    #[must_use]
    pub fn mac(self) -> Mac {
        mac_of(self.0)
    }
}

/// EVPN router's MAC, laid out like [`EsImport`] with sub-type 0x03. RFC 9135 §8.1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct RouterMac(ExtendedCommunity);

impl RouterMac {
    /// The community.
    #[must_use]
    pub fn new(mac: Mac) -> Self {
        Self(with_mac(0x06, 0x03, mac))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x03, ..]).then_some(Self(octets))
    }

    /// Those of a route, in the order of the attribute.
    pub fn all(attributes: &Attributes) -> impl Iterator<Item = Self> {
        views(attributes, Self::of)
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The MAC address.
    #[must_use]
    pub fn mac(self) -> Mac {
        mac_of(self.0)
    }
}

/// Default gateway: type 0x03, sub-type 0x0d, six octets of no meaning. RFC 7432 §7.8.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct DefaultGateway(ExtendedCommunity);

impl DefaultGateway {
    /// The community.
    #[must_use]
    pub fn new() -> Self {
        Self(ExtendedCommunity([0x03, 0x0d, 0, 0, 0, 0, 0, 0]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x03, 0x0d, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }
}

impl Default for DefaultGateway {
    fn default() -> Self {
        Self::new()
    }
}

/// The communities of a route that one view recognises.
pub(crate) fn views<V>(
    attributes: &Attributes,
    of: fn(ExtendedCommunity) -> Option<V>,
) -> impl Iterator<Item = V> {
    attributes.ext_communities.iter().copied().filter_map(of)
}

/// The first community of a route that one view recognises.
pub(crate) fn find<V>(
    attributes: &Attributes,
    of: fn(ExtendedCommunity) -> Option<V>,
) -> Option<V> {
    views(attributes, of).next()
}

fn with_mac(community_type: u8, sub_type: u8, mac: Mac) -> ExtendedCommunity {
    let [a, b, c, d, e, f] = mac.0;
    ExtendedCommunity([community_type, sub_type, a, b, c, d, e, f])
}

fn mac_of(octets: ExtendedCommunity) -> Mac {
    let [_, _, mac @ ..] = octets.0;
    Mac(mac)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(octets: [u8; 8]) -> Community {
        ExtendedCommunity(octets).into()
    }

    /// Octets and spelling captured from FRR 8.4.4.
    #[test]
    fn communities_are_spelled_as_frr_spells_them() {
        let cases = [
            ([0x00, 0x02, 0xfb, 0xf0, 0, 0, 0, 100], "RT:64496:100"),
            ([0x02, 0x02, 0x00, 0x01, 0x11, 0x70, 0, 10], "RT:70000:10"),
            ([0x03, 0x0c, 0, 0, 0, 0, 0, 8], "ET:8"),
            ([0x06, 0x00, 0, 0, 0, 0, 0, 5], "MM:5"),
            ([0x06, 0x00, 1, 0, 0, 0, 0, 0], "MM:0, sticky MAC"),
            ([0x06, 0x01, 0, 0, 0, 0, 0, 100], "ESI-label-Rt:AA"),
            ([0x06, 0x01, 1, 0, 0, 0, 6, 0x40], "ESI-label-Rt:SA"),
            (
                [0x06, 0x02, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66],
                "ES-Import-Rt:11:22:33:44:55:66",
            ),
            (
                [0x06, 0x03, 0, 0, 0x5e, 0, 0x53, 0xfe],
                "Rmac:00:00:5e:00:53:fe",
            ),
            ([0x03, 0x0d, 0, 0, 0, 0, 0, 0], "Default Gateway"),
            (
                [0x40, 0x04, 0xfb, 0xf0, 0x4a, 0x98, 0x96, 0x80],
                "LB:64496:5000000 (40.000 Mbps)",
            ),
            (
                [0x00, 0x04, 0xfb, 0xf0, 0x4a, 0x98, 0x96, 0x80],
                "LB:64496:5000000 (40.000 Mbps)",
            ),
        ];
        for (octets, text) in cases {
            assert_eq!(of(octets).to_string(), text);
            assert!(!matches!(of(octets), Community::Other(_)), "{text}");
        }
    }

    #[test]
    fn what_is_built_reads_back() {
        let mac = Mac([0, 0, 0x5e, 0, 0x53, 0xfe]);
        assert_eq!(
            Encapsulation::new(Encapsulation::VXLAN).octets().0,
            [3, 12, 0, 0, 0, 0, 0, 8]
        );
        assert_eq!(
            RouterMac::of(RouterMac::new(mac).octets()).unwrap().mac(),
            mac
        );
        assert_eq!(
            EsImport::of(EsImport::new(mac).octets()).unwrap().mac(),
            mac
        );
        let label = EsiLabel::new(true, Label([1, 2, 3]));
        assert_eq!(
            (label.is_single_active(), label.label()),
            (true, Label([1, 2, 3]))
        );
        let mobility = MacMobility::of(MacMobility::new(true, 0xdead_beef).octets()).unwrap();
        assert_eq!(
            (mobility.is_sticky(), mobility.sequence()),
            (true, 0xdead_beef)
        );
        assert!(DefaultGateway::of(DefaultGateway::new().octets()).is_some());
        let esi: Esi = "03:44:38:39:ff:ff:01:00:00:01".parse().unwrap();
        assert_eq!(
            EsImport::of_segment(esi).mac().to_string(),
            "44:38:39:ff:ff:01"
        );
    }

    #[test]
    fn an_encapsulation_is_read_in_both_layouts() {
        let read = |octets| Encapsulation::of(ExtendedCommunity(octets)).unwrap();
        let (late, early) = (
            read([3, 12, 0, 0, 0, 0, 0, 8]),
            read([3, 12, 0, 8, 0, 0, 0, 0]),
        );
        assert!(late.has_vni() && early.has_vni());
        assert_eq!(early.octets().0, [3, 12, 0, 8, 0, 0, 0, 0]);
        assert_eq!(read([3, 12, 0, 8, 0, 0, 0, 10]).tunnel_type(), 10);
    }

    /// Octets by hand from the figures of RFC 8584, 9785, 8214, 9047, 9251, 9572 and of the draft after 7432.
    #[test]
    fn views_of_later_rfcs_say_what_the_octets_say() {
        let election =
            DfElection::of(ExtendedCommunity([6, 6, 0xe2, 0x80, 0, 0, 0x7f, 0xff])).unwrap();
        assert_eq!((election.algorithm(), election.preference()), (2, 32_767));
        assert!(election.dont_preempt() && !election.ac_influenced());
        let built = DfElection::new(1, 0x4000, 5);
        assert_eq!(built.octets().0, [6, 6, 1, 0x40, 0, 0, 0, 5]);
        assert!(built.ac_influenced());

        let circuit =
            Layer2Attributes::of(ExtendedCommunity([6, 4, 0, 6, 0x23, 0x28, 0, 0])).unwrap();
        assert!(circuit.has_control_word() && circuit.is_primary() && !circuit.is_backup());
        assert_eq!(
            (circuit.mtu(), Layer2Attributes::new(1, 0).mtu()),
            (Some(9_000), None)
        );
        assert!(Layer2Attributes::new(1, 0).is_backup());
        let flow = Layer2Attributes::of(ExtendedCommunity([6, 4, 0, 8, 0, 0, 0, 0])).unwrap();
        assert!(flow.has_flow_label() && !flow.has_control_word() && !circuit.has_flow_label());

        let neighbor = ArpNd::of(ArpNd::new(0x09).octets()).unwrap();
        assert!(neighbor.is_router() && neighbor.is_immutable() && !neighbor.overrides());

        let flags = MulticastFlags::of(ExtendedCommunity([6, 9, 0, 3, 0, 0, 0, 0])).unwrap();
        assert!(flags.proxies_igmp() && flags.proxies_mld());
        assert!(!MulticastFlags::new(0x8000).proxies_igmp() && !flags.supports_segmentation());
        let flags = MulticastFlags::of(ExtendedCommunity([6, 9, 0, 0x80, 0, 0, 0, 0])).unwrap();
        assert!(flags.supports_segmentation() && !flags.proxies_igmp() && !flags.proxies_mld());
    }

    #[test]
    fn an_evi_rt_is_a_route_target_of_its_type() {
        for (text, subtype) in [
            ("64496:100", 0x0a),
            ("192.0.2.1:5", 0x0b),
            ("70000:10", 0x0c),
        ] {
            let target: RouteTarget = text.parse().unwrap();
            let view = EviRouteTarget::new(target);
            assert_eq!(view.octets().subtype(), subtype);
            assert_eq!(
                (view.number() + 0x0a, view.target()),
                (subtype, Some(target))
            );
        }
        let third = EviRouteTarget::of(ExtendedCommunity([6, 0x0d, 1, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!((third.number(), third.target()), (3, None));
        assert_eq!(
            EviRouteTarget::of(ExtendedCommunity([6, 0x0e, 0, 0, 0, 0, 0, 0])),
            None
        );
    }

    #[test]
    fn a_region_is_an_as_or_octets() {
        for (asn, octets) in [
            (64_496, [0, 9, 0xfb, 0xf0, 0, 0, 0, 0]),
            (70_000, [2, 9, 0, 1, 0x11, 0x70, 0, 0]),
        ] {
            let region = Region::of_as(asn);
            assert_eq!((region.0.0, region.asn()), (octets, Some(asn)));
            assert_eq!(region.to_string(), format!("AS {asn}"));
        }
        let other = Region(ExtendedCommunity([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(
            (other.asn(), other.to_string().as_str()),
            (None, "0102030405060708")
        );
    }

    /// MPLS by default, RFC 8365 §5.1.3.
    #[test]
    fn only_some_encapsulations_have_a_vni() {
        let with = |tunnel_types: &[u16]| Attributes {
            ext_communities: tunnel_types
                .iter()
                .map(|t| Encapsulation::new(*t).octets())
                .collect(),
            ..Attributes::default()
        };
        assert!(!Encapsulation::any_with_vni(&with(&[])));
        assert!(!Encapsulation::any_with_vni(&with(&[Encapsulation::MPLS])));
        assert!(Encapsulation::any_with_vni(&with(&[
            Encapsulation::MPLS,
            Encapsulation::VXLAN
        ])));
    }

    #[test]
    fn a_route_target_reads_what_it_writes() {
        let cases = [
            ("64496:70000", [0x00, 2, 0xfb, 0xf0, 0, 1, 0x11, 0x70]),
            ("192.0.2.1:5", [0x01, 2, 192, 0, 2, 1, 0, 5]),
            ("70000:10", [0x02, 2, 0, 1, 0x11, 0x70, 0, 10]),
        ];
        for (text, octets) in cases {
            let target: RouteTarget = text.parse().unwrap();
            assert_eq!(target.octets().0, octets);
            assert_eq!(target.to_string(), text);
            assert_eq!(RouteTarget::of(ExtendedCommunity(octets)), Some(target));
        }
        for bad in [
            "",
            "64496",
            "70000:65536",
            "192.0.2.1:70000",
            "a:1",
            "1:4294967296",
        ] {
            assert_eq!(bad.parse::<RouteTarget>(), Err(RouteTargetSyntax), "{bad}");
        }
        let [bandwidth, origin] = [[0, 4, 0, 0, 0, 0, 0, 0], [0, 3, 0, 0, 0, 0, 0, 0]];
        assert_eq!(RouteTarget::of(ExtendedCommunity(bandwidth)), None);
        assert_eq!(RouteTarget::of(ExtendedCommunity(origin)), None);
    }

    proptest! {
        #[test]
        fn octets_pass_unchanged(kind in prop_oneof![0..8_u8, 0x40..0x48_u8, any::<u8>()], sub in 0..20_u8, value: [u8; 6]) {
            let [a, b, c, d, e, f] = value;
            let octets = ExtendedCommunity([kind, sub, a, b, c, d, e, f]);
            prop_assert_eq!(ExtendedCommunity::from(Community::from(octets)), octets);
        }
    }
}
