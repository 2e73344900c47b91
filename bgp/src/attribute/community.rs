//! Communities of three sizes. Knows how FRR writes them; typed EVPN views are EVPN's.

#![deny(clippy::indexing_slicing)]

use std::collections::HashSet;
use std::fmt;
use std::net::Ipv4Addr;

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

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.global, self.local1, self.local2)
    }
}

impl LargeCommunity {
    /// All of `value`, repetitions dropped. RFC 8092 §3 asks receivers to drop them silently.
    pub(crate) fn decode_all(mut value: Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        let mut all = Vec::with_capacity(value.remaining() / 12);
        let mut seen = HashSet::new();
        while !value.is_empty() {
            let (global, local1, local2) = (value.u32()?, value.u32()?, value.u32()?);
            let community = Self { global, local1, local2 };
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
    fn administered(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, _, a, b, c, d, e, g] = self.0;
        let small = u16::from_be_bytes([e, g]);
        match kind & 0x3f {
            0 => write!(f, "{}:{}", u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, g])),
            1 => write!(f, "{}:{small}", Ipv4Addr::new(a, b, c, d)),
            _ => write!(f, "{}:{small}", u32::from_be_bytes([a, b, c, d])),
        }
    }

    fn evpn(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, subtype, a, b, c, d, e, g] = self.0;
        let number = u32::from_be_bytes([c, d, e, g]);
        match subtype {
            0 if a & 1 != 0 => write!(f, "MM:{number}, sticky MAC"),
            0 => write!(f, "MM:{number}"),
            1 => {
                let mode = if a & 1 != 0 { "SA" } else { "AA" };
                write!(f, "ESI-label-Rt:{mode}")
            }
            2 => {
                f.write_str("ES-Import-Rt:")?;
                mac(f, [a, b, c, d, e, g])
            }
            3 => {
                f.write_str("Rmac:")?;
                mac(f, [a, b, c, d, e, g])
            }
            6 => write!(f, "DF: (alg: {}, pref: {})", a & 0x1f, u16::from_be_bytes([e, g])),
            8 => {
                f.write_str("ND:")?;
                let flags = [(1, "Router-Flag"), (2, "Override-Flag"), (4, "Proxy")];
                match flags.iter().find(|(bit, _)| a & bit != 0) {
                    Some((_, name)) => f.write_str(name),
                    None => f.write_str("Unknown"),
                }
            }
            _ => self.unknown(f),
        }
    }

    fn unknown(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, subtype, value @ ..] = self.0;
        write!(f, "UNK:{kind}, {subtype}, 0x")?;
        value.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// As FRR's "show bgp l2vpn evpn": "RT:65000:100", "ET:8", "MM:3", "Rmac:00:00:5e:00:53:01".
impl fmt::Display for ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [kind, subtype, .., e, g] = self.0;
        if let Some(bandwidth) = LinkBandwidth::of(*self) {
            return bandwidth.fmt(f);
        }
        match (kind & 0x3f, subtype) {
            (0..=2, 2) => {
                f.write_str("RT:")?;
                self.administered(f)
            }
            (0..=2, 3) => {
                f.write_str("SoO:")?;
                self.administered(f)
            }
            (3, 0x0c) => write!(f, "ET:{}", u16::from_be_bytes([e, g])),
            (3, 0x0d) => f.write_str("Default Gateway"),
            (6, _) => self.evpn(f),
            _ => self.unknown(f),
        }
    }
}

fn mac(f: &mut fmt::Formatter<'_>, octets: [u8; 6]) -> fmt::Result {
    for (index, octet) in octets.iter().enumerate() {
        f.write_str(if index > 0 { ":" } else { "" })?;
        write!(f, "{octet:02x}")?;
    }
    Ok(())
}

const WELL_KNOWN: [(Community, &str); 6] = [
    (Community::NO_EXPORT, "no-export"),
    (Community::NO_ADVERTISE, "no-advertise"),
    (Community(0xffff_ff03), "local-AS"),
    (Community(0xffff_ff04), "no-peer"),
    (Community(0xffff_029a), "blackhole"),
    (Community::GRACEFUL_SHUTDOWN, "graceful-shutdown"),
];
