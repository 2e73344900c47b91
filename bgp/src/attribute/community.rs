//! Communities of three sizes. Knows how FRR writes them; typed EVPN views are EVPN's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::attribute::link_bandwidth::LinkBandwidth;
use crate::error::DecodeError;
use crate::wire::Reader;

/// Four octets. RFC 1997.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Community(pub u32);

/// Eight octets, carried unchanged whatever they mean. RFC 4360 §2.
///
/// ```text
/// +-- 1 --+---- 1 ----+------- 6 -------+
/// | type  |  subtype  |      value      |     subtype: part of the value in some types
/// +-------+-----------+-----------------+
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtendedCommunity(pub [u8; 8]);

/// Twenty octets, carried unchanged whatever they mean. RFC 5701 §2.
///
/// ```text
/// +-- 1 --+---- 1 ----+---- 16 ----+-- 2 --+
/// | type  |  subtype  |  address   | value |
/// +-------+-----------+------------+-------+
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ipv6ExtendedCommunity(pub [u8; 20]);

/// Twelve octets. RFC 8092 §3.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LargeCommunity {
    /// Global administrator: an AS number.
    pub global: u32,
    /// Local data part 1.
    pub local1: u32,
    /// Local data part 2.
    pub local2: u32,
}

impl Community {
    /// Not to be told to any peer. RFC 1997.
    pub const NO_ADVERTISE: Self = Self(0xffff_ff02);
    /// Not to leave the AS or confederation. RFC 1997.
    pub const NO_EXPORT: Self = Self(0xffff_ff01);
    /// The announcing router is about to go. RFC 8326.
    pub const GRACEFUL_SHUTDOWN: Self = Self(0xffff_0000);
    /// Of a session that ended long ago. RFC 9494 §3.2.
    pub const LLGR_STALE: Self = Self(0xffff_0006);
    /// Not to be kept for long once the session ended. RFC 9494 §3.3.
    pub const NO_LLGR: Self = Self(0xffff_0007);
}

/// As FRR writes it: "65000:100", or the well-known name.
impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match WELL_KNOWN.iter().find(|(community, _)| community == self) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}:{}", self.0 >> 16, self.0 & 0xffff),
        }
    }
}

/// As FRR writes it: "RT:2001:db8::1:100", or the octets.
impl fmt::Display for Ipv6ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, subtype, address @ .., high, low] = self.0;
        let (address, number) = (Ipv6Addr::from(address), u16::from_be_bytes([high, low]));
        match (kind, subtype) {
            (0x00 | 0x40, 0x02) => write!(f, "RT:{address}:{number}"),
            (0x00 | 0x40, 0x03) => write!(f, "SoO:{address}:{number}"),
            _ => write!(f, "{kind:#04x}:{subtype:#04x}:{address}:{number}"),
        }
    }
}

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.global, self.local1, self.local2)
    }
}

impl LargeCommunity {
    /// All of `value`, repetitions dropped. RFC 8092 §3 asks receivers to drop them silently.
    pub(crate) fn decode_all(mut value: Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::with_capacity(value.remaining() / 12);
        let mut seen = BTreeSet::new();
        while !value.is_empty() {
            let (global, local1, local2) = (value.u32()?, value.u32()?, value.u32()?);
            let community = Self {
                global,
                local1,
                local2,
            };
            if seen.insert(community) {
                all.push(community);
            }
        }
        Ok(all)
    }
}

impl ExtendedCommunity {
    /// Type octet, with the bit that says "not transitive".
    #[must_use]
    pub fn kind(self) -> u8 {
        let [kind, ..] = self.0;
        kind
    }

    /// Subtype octet.
    #[must_use]
    pub fn subtype(self) -> u8 {
        let [_, subtype, ..] = self.0;
        subtype
    }

    /// Whether it crosses AS boundaries. RFC 4360 §2.
    #[must_use]
    pub fn is_transitive(self) -> bool {
        self.kind() & 0x40 == 0
    }

    /// A route target of a two-octet AS.
    #[must_use]
    pub fn route_target_as2(asn: u16, number: u32) -> Self {
        let ([a, b], [c, d, e, f]) = (asn.to_be_bytes(), number.to_be_bytes());
        Self([0x00, 0x02, a, b, c, d, e, f])
    }

    /// "65000:100", "192.0.2.1:100" or "4200000000:100", by the type.
    fn administered(self, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, _, a, b, c, d, e, g] = self.0;
        let small = u16::from_be_bytes([e, g]);
        f.write_str(prefix)?;
        match kind {
            0 => write!(
                f,
                "{}:{}",
                u16::from_be_bytes([a, b]),
                u32::from_be_bytes([c, d, e, g])
            ),
            1 => write!(f, "{}:{small}", Ipv4Addr::new(a, b, c, d)),
            _ => write!(f, "{}:{small}", u32::from_be_bytes([a, b, c, d])),
        }
    }

    fn evpn(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, subtype, a, b, c, d, e, g] = self.0;
        match subtype {
            0 => {
                write!(f, "MM:{}", u32::from_be_bytes([c, d, e, g]))?;
                f.write_str(if a & 1 != 0 { ", sticky MAC" } else { "" })
            }
            1 => f.write_str(if a & 1 != 0 {
                "ESI-label-Rt:SA"
            } else {
                "ESI-label-Rt:AA"
            }),
            2 => mac("ES-Import-Rt:", [a, b, c, d, e, g], f),
            3 => mac("Rmac:", [a, b, c, d, e, g], f),
            6 => {
                let (bitmap, preference) = (u16::from_be_bytes([b, c]), u16::from_be_bytes([e, g]));
                match bitmap {
                    0 => write!(f, "DF: (alg: {a}, pref: {preference})"),
                    _ => write!(f, "DF: (alg: {a}, bmap: {bitmap:#x} pref: {preference})"),
                }
            }
            8 if a & 4 != 0 => f.write_str("ND:Proxy"),
            8 if a & 1 != 0 => f.write_str("ND:Router Flag"),
            _ => self.unknown(f),
        }
    }

    fn unknown(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UNK:{}, {}", self.kind(), self.subtype())
    }
}

/// As FRR's "show bgp l2vpn evpn": "RT:65000:100", "ET:8", "MM:3", "Rmac:00:00:5e:00:53:01".
impl fmt::Display for ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, subtype, _, _, c, d, e, g] = self.0;
        if let Some(bandwidth) = LinkBandwidth::of(*self) {
            return bandwidth.fmt(f);
        }
        match (kind, subtype) {
            (0..=2, 2) => self.administered("RT:", f),
            (0..=2, 3) => self.administered("SoO:", f),
            (3, 0x0b) => write!(f, "Color:{}", u32::from_be_bytes([c, d, e, g])),
            (3, 0x0c) => write!(f, "ET:{}", u16::from_be_bytes([e, g])),
            (3, 0x0d) => f.write_str("Default Gateway"),
            (6, _) => self.evpn(f),
            _ => self.unknown(f),
        }
    }
}

fn mac(prefix: &str, octets: [u8; 6], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(prefix)?;
    for (index, octet) in octets.iter().enumerate() {
        f.write_str(if index > 0 { ":" } else { "" })?;
        write!(f, "{octet:02x}")?;
    }
    Ok(())
}

const WELL_KNOWN: [(Community, &str); 8] = [
    (Community::NO_EXPORT, "no-export"),
    (Community::NO_ADVERTISE, "no-advertise"),
    (Community(0xffff_ff03), "local-AS"),
    (Community(0xffff_ff04), "no-peer"),
    (Community(0xffff_029a), "blackhole"),
    (Community::GRACEFUL_SHUTDOWN, "graceful-shutdown"),
    (Community::LLGR_STALE, "llgr-stale"),
    (Community::NO_LLGR, "no-llgr"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_communities_are_written_as_frr_does() {
        let table: [([u8; 8], &str); 18] = [
            ([0, 2, 0xfb, 0xf0, 0, 0, 0, 100], "RT:64496:100"),
            ([1, 2, 192, 0, 2, 1, 0, 100], "RT:192.0.2.1:100"),
            ([2, 2, 0, 1, 0, 14, 0, 100], "RT:65550:100"),
            ([0, 3, 0xfb, 0xf0, 0, 0, 0, 7], "SoO:64496:7"),
            ([3, 0x0c, 0, 0, 0, 0, 0, 8], "ET:8"),
            ([3, 0x0d, 0, 0, 0, 0, 0, 0], "Default Gateway"),
            ([3, 0x0b, 0, 0, 0, 0, 0, 9], "Color:9"),
            ([6, 0, 0, 0, 0, 0, 0, 3], "MM:3"),
            ([6, 0, 1, 0, 0, 0, 0, 3], "MM:3, sticky MAC"),
            ([6, 1, 0, 0, 0, 0, 0, 0], "ESI-label-Rt:AA"),
            ([6, 1, 1, 0, 0, 0, 0, 0], "ESI-label-Rt:SA"),
            (
                [6, 2, 0, 0, 0x5e, 0, 0x53, 1],
                "ES-Import-Rt:00:00:5e:00:53:01",
            ),
            ([6, 3, 0, 0, 0x5e, 0, 0x53, 1], "Rmac:00:00:5e:00:53:01"),
            ([6, 6, 2, 0, 0, 0, 0x7f, 0xff], "DF: (alg: 2, pref: 32767)"),
            ([6, 8, 1, 0, 0, 0, 0, 0], "ND:Router Flag"),
            (
                [0x40, 4, 0xfb, 0xf0, 0x4e, 0x95, 0x02, 0xf9],
                "LB:64496:1250000000 (10.000 Gbps)",
            ),
            (
                [0x00, 4, 0xfb, 0xf0, 0x47, 0xc3, 0x50, 0],
                "LB:64496:100000 (800.000 Kbps)",
            ),
            ([0x40, 2, 0, 0, 0, 0, 0, 0], "UNK:64, 2"),
        ];
        for (octets, text) in table {
            assert_eq!(ExtendedCommunity(octets).to_string(), text);
        }
    }

    #[test]
    fn communities_have_their_well_known_names() {
        assert_eq!(Community(0xfbf0_0064).to_string(), "64496:100");
        assert_eq!(Community::NO_EXPORT.to_string(), "no-export");
        let large = LargeCommunity {
            global: 64_496,
            local1: 1,
            local2: 2,
        };
        assert_eq!(large.to_string(), "64496:1:2");
    }
}
