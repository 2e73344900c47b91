//! How the next hop of a route is reached, and with it what a label is. Knows no label.

use weft_bgp::attribute::{Attributes, ExtendedCommunity};

use super::views;

/// Tunnel encapsulation. RFC 9012 §4.1.
///
/// ```text
/// +- 0x03 -+- 0x0c -+---- 4 ----+----- 2 -----+
/// |  type  | sub    | reserved  | tunnel type |
/// +--------+--------+-----------+-------------+
/// ```
///
/// Some speakers write the tunnel type in front of the reserved octets. Type 0 is reserved, so that this
/// can be told, and is read; the octets are carried as they are.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Encapsulation(ExtendedCommunity);

impl Encapsulation {
    /// VXLAN. IANA, BGP Tunnel Encapsulation Attribute Tunnel Types.
    pub const VXLAN: u16 = 8;
    /// NVGRE.
    pub const NVGRE: u16 = 9;
    /// MPLS.
    pub const MPLS: u16 = 10;
    /// VXLAN GPE.
    pub const VXLAN_GPE: u16 = 12;
    /// Geneve.
    pub const GENEVE: u16 = 19;

    /// The community for a tunnel type.
    #[must_use]
    pub fn new(tunnel_type: u16) -> Self {
        let [high, low] = tunnel_type.to_be_bytes();
        Self(ExtendedCommunity([0x03, 0x0c, 0, 0, 0, 0, high, low]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x03, 0x0c, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// Tunnel type.
    #[must_use]
    pub fn tunnel_type(self) -> u16 {
        let [_, _, first_high, first_low, _, _, high, low] = self.0.0;
        match u16::from_be_bytes([high, low]) {
            0 => u16::from_be_bytes([first_high, first_low]),
            tunnel_type => tunnel_type,
        }
    }

    /// Whether labels are 24-bit identifiers with it: VXLAN and its kin. RFC 8365 §5.1.3.
    #[must_use]
    pub fn has_vni(self) -> bool {
        matches!(
            self.tunnel_type(),
            Self::VXLAN | Self::NVGRE | Self::VXLAN_GPE | Self::GENEVE
        )
    }

    /// Whether a route says that it can be reached with VNIs. A route without any encapsulation means
    /// MPLS. RFC 8365 §5.1.3.
    #[must_use]
    pub fn any_with_vni(attributes: &Attributes) -> bool {
        views(attributes, Self::of).any(Self::has_vni)
    }
}
