//! The link bandwidth community in its forms. Knows no weight: that is the balancer's.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use crate::attribute::{ExtendedCommunity, Ipv6ExtendedCommunity};
use crate::reflect::LinkBandwidthForm;

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
        let [kind, _, a, b, value @ ..] = community.0;
        if !is_link_bandwidth(community) {
            return None;
        }
        let octets_per_sec = f32::from_be_bytes(value);
        let usable = octets_per_sec.is_finite() && octets_per_sec.is_sign_positive();
        let asn = u16::from_be_bytes([a, b]);
        usable.then_some(Self {
            asn,
            octets_per_sec,
            transitive: kind == TRANSITIVE,
        })
    }

    /// The community that says this.
    #[must_use]
    pub fn community(self) -> ExtendedCommunity {
        let kind = if self.transitive {
            TRANSITIVE
        } else {
            NON_TRANSITIVE
        };
        let ([a, b], [c, d, e, f]) = (self.asn.to_be_bytes(), self.octets_per_sec.to_be_bytes());
        ExtendedCommunity([kind, SUBTYPE, a, b, c, d, e, f])
    }
}

/// Puts the link bandwidths among `communities` into this form; the others, and all but the first
/// octet, stay as they are. Where both forms of one bandwidth stood, one is left.
pub fn with_form(communities: &mut Vec<ExtendedCommunity>, form: LinkBandwidthForm) {
    written(communities, form, is_link_bandwidth, |community| {
        let [first, ..] = &mut community.0;
        first
    });
}

/// Does the same with those of twenty octets, which FRR calls extended link bandwidth (draft-li-idr-link-bandwidth-ext).
///
/// ```text
/// +-- 0x02 or 0x42 --+-- 0x06 --+-- 2 --+------- 8 -------+-- 4 --+-- 4 --+
/// | transitive?      |          |       | octets per sec. |  AS   |       |
/// +------------------+----------+-------+-----------------+-------+-------+
/// ```
pub fn extended_with_form(communities: &mut Vec<Ipv6ExtendedCommunity>, form: LinkBandwidthForm) {
    written(communities, form, is_extended, |community| {
        let [first, ..] = &mut community.0;
        first
    });
}

/// Whether it is one by type and subtype, whatever its value.
#[must_use]
pub fn is_link_bandwidth(community: ExtendedCommunity) -> bool {
    matches!(community.kind(), TRANSITIVE | NON_TRANSITIVE) && community.subtype() == SUBTYPE
}

fn is_extended(community: Ipv6ExtendedCommunity) -> bool {
    let [kind, subtype, ..] = community.0;
    kind & !NON_TRANSITIVE == EXTENDED && subtype == EXTENDED_SUBTYPE
}

fn written<C: Copy + PartialEq>(
    communities: &mut Vec<C>,
    form: LinkBandwidthForm,
    is_bandwidth: fn(C) -> bool,
    first_octet: fn(&mut C) -> &mut u8,
) {
    let bit = match form {
        LinkBandwidthForm::AsIs => return,
        LinkBandwidthForm::NonTransitive => NON_TRANSITIVE,
        LinkBandwidthForm::Transitive => TRANSITIVE,
    };
    let mut seen: Vec<C> = Vec::new();
    communities.retain_mut(|community| {
        if !is_bandwidth(*community) {
            return true;
        }
        let first = first_octet(community);
        *first = *first & !NON_TRANSITIVE | bit;
        let is_new = !seen.contains(community);
        seen.push(*community);
        is_new
    });
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

/// Two-octet AS specific, transitive. RFC 7153 §3.
const TRANSITIVE: u8 = 0x00;
/// Two-octet AS specific, not transitive. RFC 7153 §3. The bit that says so is the same in every type. RFC 4360 §2.
const NON_TRANSITIVE: u8 = 0x40;
const SUBTYPE: u8 = 0x04;
/// The type and subtype of the transitive form of twenty octets.
const EXTENDED: u8 = 0x02;
const EXTENDED_SUBTYPE: u8 = 0x06;

const UNITS: [(f64, &str); 3] = [(1e9, "Gbps"), (1e6, "Mbps"), (1e3, "Kbps")];

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: [u8; 6] = [0xfb, 0xf0, 0x49, 0x98, 0x96, 0x80];

    fn community(kind: u8, subtype: u8) -> ExtendedCommunity {
        let [a, b, c, d, e, f] = RATE;
        ExtendedCommunity([kind, subtype, a, b, c, d, e, f])
    }

    #[test]
    fn both_forms_are_read_and_written() {
        for (kind, transitive) in [(0x00, true), (0x40, false)] {
            let bandwidth = LinkBandwidth::of(community(kind, 4)).unwrap();
            assert_eq!(
                (bandwidth.octets_per_sec, bandwidth.transitive),
                (1_250_000.0, transitive)
            );
            assert_eq!(bandwidth.community(), community(kind, 4));
        }
        assert_eq!(LinkBandwidth::of(community(0x00, 2)), None);
        assert_eq!(LinkBandwidth::of(community(0x80, 4)), None);
    }

    #[test]
    fn only_the_first_octet_of_a_link_bandwidth_changes() {
        let target = community(0x00, 2);
        let told = |form| {
            let mut communities = vec![community(0x40, 4), target, community(0x00, 4)];
            with_form(&mut communities, form);
            communities
        };
        assert_eq!(told(LinkBandwidthForm::AsIs).len(), 3);
        assert_eq!(
            told(LinkBandwidthForm::NonTransitive),
            [community(0x40, 4), target]
        );
        assert_eq!(
            told(LinkBandwidthForm::Transitive),
            [community(0x00, 4), target]
        );
    }

    /// As FRR 10.7 reads it: 1,250,000 octets per second, AS 65540.
    fn extended(kind: u8, subtype: u8) -> Ipv6ExtendedCommunity {
        Ipv6ExtendedCommunity([
            kind, subtype, 0, 0, 0, 0, 0, 0, 0, 0x13, 0x12, 0xd0, 0, 1, 0, 4, 0, 0, 0, 0,
        ])
    }

    #[test]
    fn the_form_of_twenty_octets_changes_alike() {
        let target = extended(0x00, 2);
        let told = |form| {
            let mut communities = vec![extended(0x42, 6), target, extended(0x02, 6)];
            extended_with_form(&mut communities, form);
            communities
        };
        assert_eq!(told(LinkBandwidthForm::AsIs).len(), 3);
        assert_eq!(
            told(LinkBandwidthForm::NonTransitive),
            [extended(0x42, 6), target]
        );
        assert_eq!(
            told(LinkBandwidthForm::Transitive),
            [extended(0x02, 6), target]
        );
    }

    /// What is no rate is carried all the same: we only read it not.
    #[test]
    fn a_value_that_is_no_bandwidth_keeps_its_octets() {
        let odd = ExtendedCommunity([0x40, 4, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        let mut communities = vec![odd];
        with_form(&mut communities, LinkBandwidthForm::Transitive);
        let [_, expected @ ..] = odd.0;
        let [_, octets @ ..] = communities.first().unwrap().0;
        assert_eq!((LinkBandwidth::of(odd), octets), (None, expected));
    }
}
