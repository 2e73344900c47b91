//! Communities of multicast: what a VTEP can proxy, which instance a synchronised report is of, and which
//! region a tunnel is for. Knows no group.

use std::fmt;

use weft_bgp::attribute::ExtendedCommunity;

use super::RouteTarget;

/// Multicast flags, on type 3. RFC 9251 §9.4, RFC 9572 §8.
///
/// ```text
/// +- 0x06 -+- 0x09 -+--- 2 ---+---- 4 ----+
/// |  type  |  sub   |  flags  | reserved  |     flags: 0x01 IGMP proxy, 0x02 MLD proxy, 0x80 segmentation
/// +--------+--------+---------+-----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MulticastFlags(ExtendedCommunity);

impl MulticastFlags {
    /// The community.
    #[must_use]
    pub fn new(flags: u16) -> Self {
        let [a, b] = flags.to_be_bytes();
        Self(ExtendedCommunity([0x06, 0x09, a, b, 0, 0, 0, 0]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x09, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The VTEP sends types 6 for IGMP.
    #[must_use]
    pub fn proxies_igmp(self) -> bool {
        self.flags() & 0x01 != 0
    }

    /// The VTEP sends types 6 for MLD.
    #[must_use]
    pub fn proxies_mld(self) -> bool {
        self.flags() & 0x02 != 0
    }

    /// The VTEP takes tunnels that are made of segments: bit 8 of 16, counted from the highest. RFC 9572
    /// §5.3, §8.
    #[must_use]
    pub fn supports_segmentation(self) -> bool {
        self.flags() & 0x80 != 0
    }

    fn flags(self) -> u16 {
        let [_, _, high, low, ..] = self.0.0;
        u16::from_be_bytes([high, low])
    }
}

/// EVI-RT, on types 7 and 8: the route target of the instance, which must not be a route target there, for
/// only the VTEPs of the segment import them. RFC 9251 §9.5.
///
/// ```text
/// +- 0x06 -+- 0x0a..0x0d -+------------ 6 -------------+
/// |  type  |  sub, 10 + n |  of a route target of type n |     n: 0 to 2; 3 is IPv6's and does not fit here
/// +--------+--------------+-----------------------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EviRouteTarget(ExtendedCommunity);

impl EviRouteTarget {
    /// The community for a route target.
    #[must_use]
    pub fn new(target: RouteTarget) -> Self {
        let [kind, _, a, b, c, d, e, f] = target.octets().0;
        let subtype = FIRST.saturating_add(kind);
        Self(ExtendedCommunity([0x06, subtype, a, b, c, d, e, f]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, FIRST..=0x0d, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// Its type, 0 to 3.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0.subtype().saturating_sub(FIRST)
    }

    /// The route target; `None` for type 3.
    #[must_use]
    pub fn target(self) -> Option<RouteTarget> {
        let [_, _, a, b, c, d, e, f] = self.0.0;
        RouteTarget::of(ExtendedCommunity([self.number(), 0x02, a, b, c, d, e, f]))
    }
}

/// EVI-RT of type 0 among the sub-types of EVPN.
const FIRST: u8 = 0x0a;

/// The region of a type 9, laid out as an extended community. An AS is one with the sub-type of Source AS;
/// others mean what the regions agreed on. RFC 9572 §6.2.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region(pub ExtendedCommunity);

impl Region {
    /// The region that is an AS.
    #[must_use]
    pub fn of_as(asn: u32) -> Self {
        let octets = match u16::try_from(asn).map(u16::to_be_bytes) {
            Ok([a, b]) => [0x00, SOURCE_AS, a, b, 0, 0, 0, 0],
            Err(_) => {
                let [a, b, c, d] = asn.to_be_bytes();
                [0x02, SOURCE_AS, a, b, c, d, 0, 0]
            }
        };
        Self(ExtendedCommunity(octets))
    }

    /// The AS number, if it is one.
    #[must_use]
    pub fn asn(self) -> Option<u32> {
        match self.0.0 {
            [0x00, SOURCE_AS, a, b, ..] => Some(u16::from_be_bytes([a, b]).into()),
            [0x02, SOURCE_AS, a, b, c, d, ..] => Some(u32::from_be_bytes([a, b, c, d])),
            _ => None, // octets of any kind
        }
    }
}

/// "AS 64496", else sixteen hexadecimal digits.
impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(asn) = self.asn() {
            return write!(f, "AS {asn}");
        }
        self.0
            .0
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Source AS among the sub-types of both AS-specific types. RFC 6514 §5.
const SOURCE_AS: u8 = 0x09;
