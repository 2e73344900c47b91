//! The link bandwidth community in its two forms. Knows no weight: that is the balancer's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::attribute::ExtendedCommunity;

/// Bandwidth of a link, in octets per second. draft-ietf-idr-link-bandwidth §2.
///
/// ```text
/// +-- 0x00 or 0x40 --+-- 4 --+-- 2 --+------ 4 ------+
/// | transitive?      |       |  AS   | IEEE 754 float |
/// +------------------+-------+-------+---------------+
/// ```
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct LinkBandwidth {
    /// Two-octet AS number, or AS_TRANS.
    pub asn: u16,
    /// Octets per second, not bits.
    pub octets_per_sec: f32,
    /// Whether it may cross AS boundaries.
    pub transitive: bool,
}

impl LinkBandwidth {
    /// What `community` says, if it is one; a negative or unbounded bandwidth says nothing.
    #[must_use]
    pub fn of(community: ExtendedCommunity) -> Option<Self> {
        let [kind, subtype, a, b, value @ ..] = community.0;
        if !matches!(kind, 0x00 | 0x40) || subtype != 0x04 {
            return None;
        }
        let octets_per_sec = f32::from_be_bytes(value);
        let usable = octets_per_sec.is_finite() && octets_per_sec.is_sign_positive();
        let asn = u16::from_be_bytes([a, b]);
        usable.then_some(Self {
            asn,
            octets_per_sec,
            transitive: kind == 0x00,
        })
    }

    /// The community that says this.
    #[must_use]
    pub fn community(self) -> ExtendedCommunity {
        let kind = if self.transitive { 0x00 } else { 0x40 };
        let ([a, b], [c, d, e, f]) = (self.asn.to_be_bytes(), self.octets_per_sec.to_be_bytes());
        ExtendedCommunity([kind, 0x04, a, b, c, d, e, f])
    }
}

/// As FRR writes it: "LB:65000:1250000 (10.000 Mbps)".
impl fmt::Display for LinkBandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = f64::from(self.octets_per_sec) * 8.0;
        write!(f, "LB:{}:{:.0} ", self.asn, self.octets_per_sec)?;
        match UNITS.iter().find(|(unit, _)| bits >= *unit) {
            Some((unit, name)) => write!(f, "({:.3} {name})", bits / unit),
            None => write!(f, "({bits:.0} bps)"),
        }
    }
}

const UNITS: [(f64, &str); 3] = [(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "Kbps")];
