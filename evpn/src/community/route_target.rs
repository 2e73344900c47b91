//! Route targets of the three administrator formats. Knows no instance that imports them.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use weft_bgp::attribute::{Attributes, ExtendedCommunity};

use super::views;

/// Route target. RFC 4360 §4, RFC 5668 §2.
///
/// ```text
/// +- 0x00 -+- 0x02 -+--- 2 ----+--- 4 ----+     two-octet AS : number
/// +- 0x01 -+- 0x02 -+------- 4 -------+-2-+     IPv4 address : number
/// +- 0x02 -+- 0x02 -+------- 4 -------+-2-+     four-octet AS : number
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct RouteTarget(ExtendedCommunity);

impl RouteTarget {
    /// Of a two-octet AS: type 0x00.
    #[must_use]
    pub fn two_octet_as(asn: u16, number: u32) -> Self {
        let ([a, b], [c, d, e, f]) = (asn.to_be_bytes(), number.to_be_bytes());
        Self(ExtendedCommunity([0x00, SUB_TYPE, a, b, c, d, e, f]))
    }

    /// Of an IPv4 address: type 0x01.
    #[must_use]
    pub fn address(address: Ipv4Addr, number: u16) -> Self {
        let ([a, b, c, d], [e, f]) = (address.octets(), number.to_be_bytes());
        Self(ExtendedCommunity([0x01, SUB_TYPE, a, b, c, d, e, f]))
    }

    /// Of a four-octet AS: type 0x02.
    #[must_use]
    pub fn four_octet_as(asn: u32, number: u16) -> Self {
        let ([a, b, c, d], [e, f]) = (asn.to_be_bytes(), number.to_be_bytes());
        Self(ExtendedCommunity([0x02, SUB_TYPE, a, b, c, d, e, f]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x00..=0x02, SUB_TYPE, ..]).then_some(Self(octets))
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

    /// The number that the administrator assigned; FRR derives it from the VNI.
    #[must_use]
    pub fn number(self) -> u32 {
        match self.0.0 {
            [0x00, _, _, _, c, d, e, f] => u32::from_be_bytes([c, d, e, f]),
            [.., e, f] => u16::from_be_bytes([e, f]).into(),
        }
    }
}

/// `64496:100`, `192.0.2.1:100` or `4200000000:100`. A four-octet AS below 65536 reads like a two-octet
/// one.
impl fmt::Display for RouteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number();
        match self.0.0 {
            [0x00, _, a, b, ..] => write!(f, "{}:{number}", u16::from_be_bytes([a, b])),
            [0x01, _, a, b, c, d, ..] => write!(f, "{}:{number}", Ipv4Addr::new(a, b, c, d)),
            [_, _, a, b, c, d, ..] => write!(f, "{}:{number}", u32::from_be_bytes([a, b, c, d])),
        }
    }
}

/// The type follows from the administrator: up to 65535 a two-octet AS, above it a four-octet one.
impl FromStr for RouteTarget {
    type Err = RouteTargetSyntax;

    fn from_str(text: &str) -> Result<Self, RouteTargetSyntax> {
        let (administrator, number) = text.split_once(':').ok_or(RouteTargetSyntax)?;
        let wide = number.parse::<u32>().map_err(|_| RouteTargetSyntax)?;
        if let Ok(asn) = administrator.parse::<u16>() {
            return Ok(Self::two_octet_as(asn, wide));
        }
        let number = u16::try_from(wide).map_err(|_| RouteTargetSyntax)?;
        if let Ok(asn) = administrator.parse::<u32>() {
            return Ok(Self::four_octet_as(asn, number));
        }
        let address = administrator.parse().map_err(|_| RouteTargetSyntax)?;
        Ok(Self::address(address, number))
    }
}

/// Neither `AS:number` nor `address:number`, or a number that does not fit beside its administrator.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RouteTargetSyntax;

impl fmt::Display for RouteTargetSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a route target")
    }
}

impl std::error::Error for RouteTargetSyntax {}

/// Route target among the sub-types of all three types. RFC 4360 §4.
const SUB_TYPE: u8 = 0x02;
