//! Attributes that are carried as they came, octet for octet, and which of them a peer is told. Knows no layout of their
//! values.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;

use crate::attribute::UnknownAttribute;
use crate::attribute::decode::Codes;
use crate::attribute::row::{Row, code, flag};
use crate::attribute::tlv;
use crate::wire::Writer;

/// An optional transitive attribute that weft does not know, or knows well enough to check and no more. RFC 4271 §5.
///
/// ```text
/// +-- 1 --+-- 1 --+-- 1 or 2 --+-- length --+
/// | flags | code  |   length   |   value    |     RFC 4271 §4.3
/// +-------+-------+------------+------------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpaqueAttribute {
    /// Attribute code.
    pub code: u8,
    /// Whether somebody on the way did not know it.
    pub partial: bool,
    /// The value, as received.
    pub value: Bytes,
}

impl OpaqueAttribute {
    /// Octets of the attribute with a length of two octets.
    #[must_use]
    pub fn octets_len(&self) -> usize {
        self.value.len().saturating_add(4)
    }

    /// RFC 4271 §4.3: two octets of length only where one does not do; the lower four bits of the flags are zero.
    pub(super) fn encode(&self, out: &mut Writer) {
        let partial = if self.partial { flag::PARTIAL } else { 0 };
        let flags = flag::OPTIONAL | flag::TRANSITIVE | partial;
        if let Ok(length) = u8::try_from(self.value.len()) {
            out.u8(flags);
            out.u8(self.code);
            out.u8(length);
        } else {
            out.u8(flags | flag::EXTENDED_LENGTH);
            out.u8(self.code);
            out.u16(u16::try_from(self.value.len()).expect("an attribute came in a message"));
        }
        out.slice(&self.value);
    }

    /// What is left of it where it is only counted.
    #[must_use]
    pub fn dropped(&self) -> UnknownAttribute {
        UnknownAttribute {
            code: self.code,
            flags: flag::OPTIONAL | flag::TRANSITIVE,
            length: u16::try_from(self.value.len()).unwrap_or(u16::MAX),
        }
    }
}

/// Takes out what goes beyond the bounds of a path and puts the rest in the order of the codes. Those that are passed on
/// by default have room before all others.
pub(super) fn bound(opaque: &mut Vec<OpaqueAttribute>, dropped: &mut Vec<UnknownAttribute>) {
    if opaque.is_empty() {
        return;
    }
    opaque.sort_unstable_by_key(|it| (!PASSED.contains(&it.code), it.code));
    let (mut count, mut octets) = (0_usize, 0_usize);
    opaque.retain(|it| {
        let more = octets.saturating_add(it.octets_len());
        let fits = count < COUNT_MAX && more <= OCTETS_MAX;
        if fits {
            count = count.saturating_add(1);
            octets = more;
        } else {
            dropped.push(it.dropped());
        }
        fits
    });
    opaque.sort_unstable_by_key(|it| it.code);
}

/// Which of the attributes that are carried as they came a group of peers is told.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttributeFilter {
    pass: Codes,
    /// In which forms the group is told tunnel encapsulation and PREFIX_SID.
    pub forms: AttributeForms,
}

/// In which forms a group of peers is told tunnel encapsulation and PREFIX_SID.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum AttributeForms {
    /// In all that are well-formed.
    #[default]
    All,
    /// Only in those that FRR 8.4.4 and GoBGP 3.10 take: one tunnel with long sub-TLVs, one SRv6 service with one SID.
    Plain,
    /// Only in those, and without SRv6 services: ExaBGP 4.2.21 ends its session with 3/5 on the TLVs of RFC 9252.
    PlainWithoutServices,
}

impl AttributeForms {
    fn has(self, it: &OpaqueAttribute) -> bool {
        let plain = || tlv::is_plain(it.code, &it.value);
        match self {
            Self::All => true,
            Self::Plain => plain(),
            Self::PlainWithoutServices => {
                plain() && (it.code != code::PREFIX_SID || !tlv::has_srv6_service(&it.value))
            }
        }
    }
}

impl AttributeFilter {
    /// The default, and of it not what `drop` names, and beside it what `pass` names.
    #[must_use]
    pub fn new(
        pass: impl IntoIterator<Item = u8>,
        drop: impl IntoIterator<Item = u8>,
        forms: AttributeForms,
    ) -> Self {
        let mut codes = Codes::default();
        for code in PASSED.into_iter().chain(pass) {
            codes.insert(code);
        }
        drop.into_iter().for_each(|code| codes.remove(code));
        Self { pass: codes, forms }
    }

    /// Whether attributes with this code are carried as they came: those that weft does not know, and two that it only
    /// checks.
    #[must_use]
    pub fn covers(code: u8) -> bool {
        Row::of(code).is_none() || PASSED.contains(&code)
    }

    /// Whether the attribute with this code is passed on.
    #[must_use]
    pub fn passes(&self, code: u8) -> bool {
        self.pass.contains(code)
    }

    /// Leaves what is passed on where NLRI follow the attributes, as those of IPv4 unicast do: FRR 10.3 takes what stands
    /// behind TUNNEL_ENCAPSULATION for sub-TLVs, and ends the session (measured).
    pub(crate) fn apply_before_nlri(&self, opaque: &mut Vec<OpaqueAttribute>) {
        let all = self.forms == AttributeForms::All;
        opaque.retain(|it| all || it.code != code::TUNNEL_ENCAPSULATION);
    }

    /// Leaves what is passed on, and marks as partial what weft does not know. RFC 4271 §5, §9. False: the path leads
    /// nowhere without what is left out, the SID of an SRv6 service (RFC 9252 §5, §6).
    #[must_use]
    pub(crate) fn apply(&self, opaque: &mut Vec<OpaqueAttribute>) -> bool {
        let mut whole = true;
        opaque.retain(|it| {
            let told = self.passes(it.code) && self.forms.has(it);
            whole &= told || it.code != code::PREFIX_SID || !tlv::has_srv6_service(&it.value);
            told
        });
        for attribute in opaque {
            attribute.partial |= Row::of(attribute.code).is_none();
        }
        whole
    }
}

/// What EVPN between data centres, over SRv6 or to weighted next hops goes wrong without, silently. Any other leaks as
/// easily as it passes, and ends sessions behind who passes it where somebody reads it otherwise: who wants it says so.
impl Default for AttributeFilter {
    fn default() -> Self {
        Self::new([], [], AttributeForms::All)
    }
}

/// Passed on by default: tunnel encapsulation (RFC 9012), D-PATH (draft-ietf-bess-evpn-ipvpn-interworking), next hop
/// dependent characteristics (draft-ietf-idr-entropy-label) and PREFIX_SID (RFC 8669, RFC 9252).
const PASSED: [u8; 4] = [
    code::TUNNEL_ENCAPSULATION,
    code::D_PATH,
    code::NEXT_HOP_CHARACTERISTICS,
    code::PREFIX_SID,
];
/// Attributes of one path: more than are defined and not known here.
const COUNT_MAX: usize = 16;
/// Octets of them, headers included: as many as fit the shortest message that every speaker takes.
const OCTETS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn opaque(code: u8, octets: usize) -> OpaqueAttribute {
        OpaqueAttribute {
            code,
            partial: false,
            value: vec![7; octets].into(),
        }
    }

    fn bounded(mut all: Vec<OpaqueAttribute>) -> (Vec<u8>, Vec<u8>) {
        let mut dropped = Vec::new();
        bound(&mut all, &mut dropped);
        let kept = all.iter().map(|it| it.code).collect();
        (kept, dropped.iter().map(|it| it.code).collect())
    }

    #[test]
    fn a_path_has_so_many_and_those_that_pass_by_default_come_first() {
        let many = (100..130).chain([40, 36]).map(|code| opaque(code, 1));
        let (kept, dropped) = bounded(many.collect());
        assert_eq!(kept.len(), COUNT_MAX);
        assert_eq!(kept.get(..3), Some(&[36, 40, 100][..]));
        assert_eq!(dropped.len(), 16);
        let long = vec![opaque(99, 3990), opaque(200, 80), opaque(36, 90)];
        assert_eq!(bounded(long), (vec![36, 99], vec![200]));
        assert_eq!(bounded(vec![opaque(99, OCTETS_MAX)]), (vec![], vec![99]));
    }

    #[test]
    fn a_filter_is_the_default_and_what_is_said_beside_it() {
        let passed = |filter: AttributeFilter| {
            let codes = (0..=u8::MAX).filter(|code| filter.passes(*code));
            codes.collect::<Vec<_>>()
        };
        assert_eq!(passed(AttributeFilter::default()), [23, 36, 39, 40]);
        let other = AttributeFilter::new([35, 255], [40], AttributeForms::All);
        assert_eq!(passed(other), [23, 35, 36, 39, 255]);
        for (code, covered) in [(5, false), (26, false), (23, true), (40, true), (99, true)] {
            assert_eq!(AttributeFilter::covers(code), covered, "{code}");
        }
    }

    /// RFC 4271 §5: what was partial stays so; what is known here does not become so.
    #[test]
    fn what_is_passed_on_unknown_is_partial() {
        let mut all = vec![opaque(23, 0), opaque(36, 4), opaque(40, 4), opaque(99, 4)];
        assert!(AttributeFilter::default().apply(&mut all));
        let partial: Vec<_> = all.iter().map(|it| (it.code, it.partial)).collect();
        assert_eq!(partial, [(23, false), (36, true), (40, false)]);
        let mut all = vec![OpaqueAttribute {
            partial: true,
            ..opaque(40, 4)
        }];
        assert!(AttributeFilter::default().apply(&mut all));
        assert!(all.iter().all(|it| it.partial));
    }

    #[test]
    fn a_peer_that_reads_plain_forms_is_told_no_others() {
        let tunnel = [0, 8, 0, 4, 4, 2, 7, 7];
        let of = |value: &[u8]| OpaqueAttribute {
            value: Bytes::copy_from_slice(value),
            ..opaque(23, 0)
        };
        let all = [of(&tunnel), of(&[tunnel, tunnel].concat())];
        let told = |forms, all: &[OpaqueAttribute]| {
            let mut told = all.to_vec();
            let whole = AttributeFilter::new([], [], forms).apply(&mut told);
            (told.len(), whole)
        };
        for (forms, expected) in [
            (AttributeForms::All, 2),
            (AttributeForms::Plain, 1),
            (AttributeForms::PlainWithoutServices, 1),
        ] {
            assert_eq!(told(forms, &all), (expected, true));
        }
        // An SRv6 service with one SID, RFC 9252 §2; the index of a label, RFC 8669 §3.1.
        let service = [
            &[5, 0, 25, 0, 1, 0, 21, 0][..],
            &[0x20; 16],
            &[0, 0, 0x13, 0],
        ]
        .concat();
        let segment = |value: &[u8]| OpaqueAttribute {
            value: Bytes::copy_from_slice(value),
            ..opaque(40, 0)
        };
        let index = [1, 0, 7, 0, 0, 0, 0, 0, 0, 9];
        for (forms, of_service) in [
            (AttributeForms::All, 1),
            (AttributeForms::Plain, 1),
            (AttributeForms::PlainWithoutServices, 0),
        ] {
            let whole = of_service == 1;
            assert_eq!(told(forms, &[segment(&service)]), (of_service, whole));
            assert_eq!(told(forms, &[segment(&index)]), (1, true));
        }
    }

    #[test]
    fn an_srv6_service_is_not_told_without_its_sid() {
        let of = |value: &'static [u8]| OpaqueAttribute {
            value: Bytes::from_static(value),
            ..opaque(40, 0)
        };
        let label_index: &[u8] = &[1, 0, 7, 0, 0, 0, 0, 0, 0, 1];
        let service: &[u8] = &[1, 0, 7, 0, 0, 0, 0, 0, 0, 1, 5, 0, 1, 0];
        for (value, drop, whole) in [
            (label_index, &[][..], true),
            (label_index, &[40], true),
            (service, &[], true),
            (service, &[40], false),
        ] {
            let mut told = vec![of(value)];
            let filter = AttributeFilter::new([], drop.iter().copied(), AttributeForms::All);
            assert_eq!(filter.apply(&mut told), whole, "{value:?} without {drop:?}");
            assert_eq!(told.is_empty(), !drop.is_empty());
        }
    }
}
