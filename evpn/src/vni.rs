//! Numbers of broadcast domains: VNI, Ethernet tag, and the label field that may hold a VNI. Knows
//! no route; which reading of a label counts is decided by the encapsulation, not here.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// VXLAN network identifier, 24 bits. RFC 7348 §4.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vni(u32);

impl Vni {
    /// The largest one.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// `None` when `number` needs more than 24 bits.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number <= Self::MAX.0).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Vni {
    type Err = VniSyntax;

    fn from_str(text: &str) -> Result<Self, VniSyntax> {
        text.parse().ok().and_then(Self::new).ok_or(VniSyntax)
    }
}

/// Not a number from 0 to 16777215.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct VniSyntax;

impl fmt::Display for VniSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a VNI")
    }
}

impl std::error::Error for VniSyntax {}

/// Ethernet tag id, a broadcast domain within an instance. RFC 7432 §6; carried as it is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EthernetTag(pub u32);

impl EthernetTag {
    /// MAX-ET: the route is about the whole segment. RFC 7432 §8.2.1.
    pub const MAX: Self = Self(u32::MAX);
}

impl fmt::Display for EthernetTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for EthernetTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EthernetTag {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// The label field of a route, three octets as sent: a VNI with VXLAN, otherwise 20 bits of MPLS label
/// and four more. RFC 7432 §7, RFC 8365 §5.1.3. Nothing here changes them.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Label(pub [u8; 3]);

impl Label {
    /// What withdrawals carry.
    pub const ZERO: Self = Self([0; 3]);

    /// Read as a VNI. RFC 8365 §5.1.3.
    #[must_use]
    pub fn vni(self) -> Vni {
        let [high, middle, low] = self.0;
        Vni(u32::from_be_bytes([0, high, middle, low]))
    }

    /// Read as an MPLS label, 20 bits. RFC 7432 §7.
    #[must_use]
    pub fn mpls(self) -> u32 {
        self.vni().number() >> 4
    }
}

impl From<Vni> for Label {
    fn from(vni: Vni) -> Self {
        let [_, octets @ ..] = vni.number().to_be_bytes();
        Self(octets)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.vni().number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_has_two_readings() {
        let label = Label([0x00, 0x06, 0x41]);
        assert_eq!(label.vni(), Vni(1601));
        assert_eq!(label.mpls(), 100);
        assert_eq!(Label::from(label.vni()), label);
    }

    #[test]
    fn a_vni_has_24_bits() {
        assert_eq!("16777215".parse(), Ok(Vni::MAX));
        assert_eq!("16777216".parse::<Vni>(), Err(VniSyntax));
        assert_eq!(Vni::new(1 << 24), None);
    }
}
