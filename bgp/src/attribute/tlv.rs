//! Attributes that are lists of type, length and value: whether they are well-formed. Knows no meaning.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::attribute::row::code;
use crate::error::{DecodeError, Fault};
use crate::wire::Reader;

/// Whether the TLVs of an attribute fill it exactly, and those of PREFIX_SID have the lengths that they can have; whether
/// what is in them does too. FRR 8.4.4 ends its session on such a fault, so that one that is passed on has none.
///
/// # Errors
/// The attribute is malformed by its own RFC.
pub(super) fn check(code: u8, mut value: Reader<'_>) -> Result<bool, DecodeError> {
    let mut good_inside = !value.is_empty();
    if code == code::NEXT_HOP_CHARACTERISTICS {
        next_hop(&mut value)?;
    }
    while !value.is_empty() {
        match code {
            // Type and length of two octets. RFC 9012 §2, RFC 9552 §5.1.
            code::TUNNEL_ENCAPSULATION | code::BGP_LS => {
                value.u16()?;
                let length = value.u16()?;
                let inside = value.sub(length.into())?;
                good_inside &= code == code::BGP_LS || has_sub_tlvs(inside);
            }
            // Type of one octet, length of two, which counts all three. RFC 7311 §3.
            code::AIGP => {
                let malformed = value.error(Fault::AttributeValue { code });
                value.u8()?;
                let length = value.u16()?.checked_sub(3).ok_or(malformed)?;
                value.take(length.into())?;
            }
            // Type of one octet, length of two. RFC 8669 §3.
            code::PREFIX_SID => {
                let malformed = value.error(Fault::AttributeValue { code });
                let kind = value.u8()?;
                let length = value.u16()?;
                let inside = value.sub(length.into())?;
                if !is_segment(kind, length, inside) {
                    return Err(malformed);
                }
            }
            // Code and length of two octets. draft-ietf-idr-nhc §2.1.
            code::NEXT_HOP_CHARACTERISTICS => {
                value.u16()?;
                let length = value.u16()?;
                value.take(length.into())?;
            }
            // A segment is a count of one octet, and domains of six octets with their SAFI.
            // draft-ietf-bess-evpn-ipvpn-interworking §4.
            code::D_PATH => {
                let malformed = value.error(Fault::AttributeValue { code });
                let domains = usize::from(value.u8()?);
                if domains == 0 {
                    return Err(malformed);
                }
                value.take(domains.saturating_mul(DOMAIN_OCTETS))?;
            }
            _ => {
                value.rest();
            }
        }
    }
    Ok(good_inside)
}

/// The next hop to which the characteristics belong: AFI, SAFI, and a length that a next hop can have, in front of the
/// TLVs. draft-ietf-idr-nhc §2.1.
fn next_hop(value: &mut Reader<'_>) -> Result<(), DecodeError> {
    if value.is_empty() {
        return Ok(());
    }
    value.u16()?;
    value.u8()?;
    let malformed = value.error(Fault::AttributeValue {
        code: code::NEXT_HOP_CHARACTERISTICS,
    });
    let length = value.u8()?;
    if !matches!(length, 4 | 12 | 16 | 24 | 32 | 48) {
        return Err(malformed);
    }
    value.take(length.into())?;
    Ok(())
}

/// Whether FRR 8.4.4 and GoBGP 3.10.0 take the attribute, which [`check`] took already. Measured with one UPDATE each: on
/// other forms FRR ends the session with 3/9, 3/5 or 3/1, and on too short a SID itself; so does GoBGP on sub-TLVs of
/// segment routing policies (13, and 128 and above) and on unknown ones of an SRv6 service.
pub(super) fn is_plain(code: u8, value: &[u8]) -> bool {
    let reader = Reader::new(value, 0, Fault::AttributeList);
    let plain = match code {
        code::TUNNEL_ENCAPSULATION => is_plain_tunnel(reader),
        code::PREFIX_SID => are_plain_segments(reader),
        _ => Ok(true),
    };
    plain.unwrap_or(false)
}

/// One tunnel, whose sub-TLVs are of RFC 9012 with a length of one octet, and of which the last has four octets or more.
fn is_plain_tunnel(mut reader: Reader<'_>) -> Result<bool, DecodeError> {
    reader.u16()?;
    let length = reader.u16()?;
    let mut value = reader.sub(length.into())?;
    while !value.is_empty() {
        if value.remaining() < 4 || value.u8()? > 11 {
            return Ok(false);
        }
        let length = value.u8()?;
        value.take(length.into())?;
    }
    Ok(reader.is_empty())
}

/// One SRv6 service at most, with one SID, with a structure or without; of the types that are deprecated none.
fn are_plain_segments(mut reader: Reader<'_>) -> Result<bool, DecodeError> {
    let mut services = 0_usize;
    while !reader.is_empty() {
        let kind = reader.u8()?;
        let length = reader.u16()?;
        let mut value = reader.sub(length.into())?;
        match kind {
            2 | 4 => return Ok(false),
            5 | 6 => {
                services = services.saturating_add(1);
                value.u8()?;
                let sid = (value.u8()?, value.u16()?);
                let whole = value.remaining() == usize::from(sid.1);
                let structure = value.peek().get(21..24);
                let plain = match sid {
                    (1, 21) => true,
                    (1, 30) => structure == Some(&[1, 0, 6]),
                    _ => false,
                };
                if !(whole && plain) {
                    return Ok(false);
                }
            }
            _ => {}
        }
    }
    Ok(services <= 1)
}

/// RFC 9012 §2: the length has one octet for types up to 127, and two above, if those are to be taken.
fn has_sub_tlvs(mut value: Reader<'_>) -> bool {
    let mut next = || -> Result<bool, DecodeError> {
        while !value.is_empty() {
            let length = match value.u8()? {
                ..=127 => value.u8()?.into(),
                128.. => value.u16()?,
            };
            value.take(length.into())?;
        }
        Ok(true)
    };
    next().unwrap_or(false)
}

/// Whether a PREFIX_SID, which [`check`] took, has an SRv6 service. RFC 9252 §2.
pub(super) fn has_srv6_service(value: &[u8]) -> bool {
    let mut reader = Reader::new(value, 0, Fault::AttributeList);
    let mut next = || -> Result<bool, DecodeError> {
        while !reader.is_empty() {
            let kind = reader.u8()?;
            let length = reader.u16()?;
            reader.take(length.into())?;
            if matches!(kind, 5 | 6) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    next().unwrap_or(false)
}

/// Whether a TLV of PREFIX_SID can have this length: a label index or the blocks of an originator (RFC 8669 §3.1, §3.2),
/// an SRv6 service with its sub-TLVs (RFC 9252 §2). Types that are not known can have any.
fn is_segment(kind: u8, length: u16, mut value: Reader<'_>) -> bool {
    match kind {
        1 => length == 7,
        3 => length >= 8 && length.saturating_sub(2).is_multiple_of(6),
        5 | 6 => value.u8().is_ok() && has_services(value),
        _ => true,
    }
}

/// Reserved octet first, then sub-TLVs of type and two octets of length; SID information has 21 octets and more, and
/// sub-sub-TLVs of the same form behind them. RFC 9252 §3.1, §3.2.
fn has_services(mut value: Reader<'_>) -> bool {
    let mut next = || -> Result<bool, DecodeError> {
        while !value.is_empty() {
            let kind = value.u8()?;
            let length = value.u16()?;
            let mut inside = value.sub(length.into())?;
            if kind == 1 {
                inside.take(21)?;
                while !inside.is_empty() {
                    let kind = inside.u8()?;
                    let length = inside.u16()?;
                    inside.take(length.into())?;
                    // The structure of a SID. RFC 9252 §3.2.1.
                    if kind == 1 && length != 6 {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    };
    next().unwrap_or(false)
}

/// Octets of a domain: its identifier of six octets, and its SAFI.
const DOMAIN_OCTETS: usize = 7;

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail where it stands")]
mod tests {
    use super::*;

    fn checked(code: u8, value: &[u8]) -> Option<bool> {
        let fault = Fault::AttributeValue { code };
        check(code, Reader::new(value, 0, fault)).ok()
    }

    #[test]
    fn a_tunnel_has_sub_tlvs() {
        let cases: [(&[u8], Option<bool>, bool); 11] = [
            (&[], Some(false), false),
            (&[0, 8, 0, 0], Some(true), true),
            (&[0, 8, 0, 3, 4, 1, 7], Some(true), false),
            (&[0, 8, 0, 4, 4, 2, 7, 7], Some(true), true),
            (&[0, 8, 0, 7, 4, 1, 7, 4, 2, 7, 7], Some(true), true),
            (&[0, 8, 0, 4, 128, 0, 1, 7], Some(true), false),
            (&[0, 8, 0, 4, 13, 2, 7, 7], Some(true), false),
            (&[0, 8, 0, 0, 0, 8, 0, 0], Some(true), false),
            (&[0, 8, 0, 1, 7], Some(false), false),
            (&[0, 8, 0, 3, 4, 2, 7], Some(false), false),
            (&[0, 8, 0, 4, 4, 1, 7], None, false),
        ];
        for (value, expected, plain) in cases {
            let code = code::TUNNEL_ENCAPSULATION;
            assert_eq!(checked(code, value), expected, "{value:?}");
            assert_eq!(is_plain(code, value), plain, "{value:?}");
        }
    }

    #[test]
    fn a_domain_path_is_segments_of_domains() {
        let domain = [0, 0, 0xfd, 0xe9, 0, 1, 70];
        let one = [&[1][..], &domain].concat();
        let two = [&[2][..], &domain, &domain].concat();
        let code = code::D_PATH;
        assert_eq!(checked(code, &[]), Some(false));
        for good in [&one[..], &two, &[&one[..], &two].concat()] {
            assert_eq!(checked(code, good), Some(true), "{good:?}");
        }
        for bad in [
            &[0][..],
            &[1, 2],
            &one[..7],
            &[&two[..], &[0]].concat(),
            &[&[255][..], &domain].concat(),
        ] {
            assert_eq!(checked(code, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn characteristics_stand_behind_their_next_hop() {
        let hop = [0, 25, 70, 4, 192, 0, 2, 1];
        let code = code::NEXT_HOP_CHARACTERISTICS;
        assert_eq!(checked(code, &[]), Some(false));
        for tlvs in [&[][..], &[0, 1, 0, 0], &[0, 1, 0, 0, 0, 3, 0, 2, 7, 7]] {
            let good = [&hop[..], tlvs].concat();
            assert_eq!(checked(code, &good), Some(true), "{good:?}");
        }
        for bad in [
            &[1, 2, 3, 4][..],
            &hop[..7],
            &[0, 25, 70, 5, 192, 0, 2, 1, 0],
            &[&hop[..], &[0, 1, 0]].concat(),
            &[&hop[..], &[0, 1, 0, 3, 7, 7]].concat(),
        ] {
            assert_eq!(checked(code, bad), None, "{bad:?}");
        }
    }

    proptest::proptest! {
        /// Whatever a peer sends under the codes that are passed on by default.
        #[test]
        fn no_octets_are_too_odd_to_be_checked(
            at in 0..4_usize,
            value in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64),
        ) {
            let code = [
                code::TUNNEL_ENCAPSULATION,
                code::D_PATH,
                code::NEXT_HOP_CHARACTERISTICS,
                code::PREFIX_SID,
            ][at];
            let _taken = checked(code, &value);
            let _plain = is_plain(code, &value);
        }
    }

    /// The octets of the SRv6 service are those of RFC 9252 §2, with a structure and without.
    #[test]
    fn a_segment_has_the_length_that_its_type_has() {
        let code = code::PREFIX_SID;
        let index = [1, 0, 7, 0, 0, 0, 0, 0, 0, 9];
        let sid = [&[0_u8][..], &[0x20; 16], &[0, 0, 0x13, 0]].concat();
        let service = |kind: u8, sid: &[u8]| {
            let length = u8::try_from(sid.len()).unwrap();
            [&[kind, 0, length + 4, 0, 1, 0, length][..], sid].concat()
        };
        let structure = [&sid[..], &[1, 0, 6, 32, 16, 16, 0, 16, 64]].concat();
        let twice = [service(5, &sid), service(6, &sid)].concat();
        let both = [&service(5, &structure)[..], &index].concat();
        let other = [&sid[..], &[2, 0, 2, 1, 2]].concat();
        for (good, plain) in [
            (&index[..], true),
            (&[3, 0, 8, 0, 0, 0, 0, 16, 0, 0, 9], true),
            (&service(5, &sid), true),
            (&service(6, &structure), true),
            (&both, true),
            (&[9, 0, 1, 7], true),
            (&[4, 0, 1, 0], false),
            (&[5, 0, 1, 0], false),
            (&service(5, &other), false),
            (&twice, false),
        ] {
            assert_eq!(checked(code, good), Some(true), "{good:?}");
            assert_eq!(is_plain(code, good), plain, "{good:?}");
        }
        let mut odd = structure.clone();
        odd[23] = 5;
        for bad in [
            &[1, 0, 6, 0, 0, 0, 0, 0, 9][..],
            &[3, 0, 7, 0, 0, 0, 0, 16, 0, 0],
            &service(5, &sid[..20]),
            &service(6, &odd),
            &[5, 0, 0],
            &[9, 0, 2, 7],
        ] {
            assert_eq!(checked(code, bad), None, "{bad:?}");
        }
    }
}
