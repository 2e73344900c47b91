//! Communities about a circuit and about a host's address: layer-2 attributes, and flags for answering
//! ARP and ND. Knows no circuit and no host.

use weft_bgp::attribute::ExtendedCommunity;

/// Layer-2 attributes, on type 1 about a domain. RFC 8214 §3.1, draft-ietf-bess-rfc7432bis §7.11.
///
/// ```text
/// +- 0x06 -+- 0x04 -+--- 2 ---+-- 2 --+---- 2 ----+
/// |  type  |  sub   |  flags  |  MTU  | reserved  |     flags: 0x08 flow label, 0x04 control word,
/// +--------+--------+---------+-------+-----------+            0x02 primary, 0x01 backup
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layer2Attributes(ExtendedCommunity);

impl Layer2Attributes {
    /// The community.
    #[must_use]
    pub fn new(flags: u16, mtu: u16) -> Self {
        let ([a, b], [c, d]) = (flags.to_be_bytes(), mtu.to_be_bytes());
        Self(ExtendedCommunity([0x06, 0x04, a, b, c, d, 0, 0]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x04, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The VTEP can send and receive a flow label. draft-ietf-bess-rfc7432bis §7.11; no RFC yet.
    #[must_use]
    pub fn has_flow_label(self) -> bool {
        self.flags() & 0x08 != 0
    }

    /// Frames have a control word.
    #[must_use]
    pub fn has_control_word(self) -> bool {
        self.flags() & 0x04 != 0
    }

    /// The VTEP that forwards for a single-active segment.
    #[must_use]
    pub fn is_primary(self) -> bool {
        self.flags() & 0x02 != 0
    }

    /// The VTEP that would forward next.
    #[must_use]
    pub fn is_backup(self) -> bool {
        self.flags() & 0x01 != 0
    }

    /// Octets of the largest frame; `None`: not said, and not to be checked.
    #[must_use]
    pub fn mtu(self) -> Option<u16> {
        let [_, _, _, _, high, low, ..] = self.0.0;
        Some(u16::from_be_bytes([high, low])).filter(|mtu| *mtu > 0)
    }

    fn flags(self) -> u16 {
        let [_, _, high, low, ..] = self.0.0;
        u16::from_be_bytes([high, low])
    }
}

/// ARP/ND, on type 2 with an IP address. RFC 9047 §2.
///
/// ```text
/// +- 0x06 -+- 0x08 -+-- 1 --+---- 5 ----+
/// |  type  |  sub   | flags | reserved  |     flags: 0x01 router, 0x02 override, 0x08 immutable
/// +--------+--------+-------+-----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArpNd(ExtendedCommunity);

impl ArpNd {
    /// The community.
    #[must_use]
    pub fn new(flags: u8) -> Self {
        Self(ExtendedCommunity([0x06, 0x08, flags, 0, 0, 0, 0, 0]))
    }

    /// The view, if it is this community.
    #[must_use]
    pub fn of(octets: ExtendedCommunity) -> Option<Self> {
        matches!(octets.0, [0x06, 0x08, ..]).then_some(Self(octets))
    }

    /// The octets, unchanged.
    #[must_use]
    pub fn octets(self) -> ExtendedCommunity {
        self.0
    }

    /// The IPv6 address is a router's.
    #[must_use]
    pub fn is_router(self) -> bool {
        self.flags() & 0x01 != 0
    }

    /// Answers override what a host has cached.
    #[must_use]
    pub fn overrides(self) -> bool {
        self.flags() & 0x02 != 0
    }

    /// The address stays with its MAC address.
    #[must_use]
    pub fn is_immutable(self) -> bool {
        self.flags() & 0x08 != 0
    }

    fn flags(self) -> u8 {
        let [_, _, flags, ..] = self.0.0;
        flags
    }
}
