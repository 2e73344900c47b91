//! Octets to attributes, with RFC 7606's treatment of each fault. Knows the table of rows; knows
//! neither NLRI nor which attributes a route must have.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;

use crate::attribute::reachability::DecodedReach;
use crate::attribute::row::{Category, Row, code, flag};
use crate::attribute::{
    Aggregator, AsPath, Attributes, Community, ExtendedCommunity, Ipv6ExtendedCommunity,
    LargeCommunity, NextHop, OpaqueAttribute, Origin, PmsiTunnel, Reach, UnknownAttribute, Unreach,
    opaque, tlv,
};
use crate::error::{DecodeError, Fault, Treatment};
use crate::message::DecodeContext;
use crate::peer::{ClusterId, RouterId};
use crate::wire::Reader;

/// What stood in a list of attributes.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) attributes: Attributes,
    pub(crate) reach: Option<Reach>,
    pub(crate) unreach: Option<Unreach>,
    /// What was wrong but does not end the session.
    pub(crate) faults: Vec<DecodeError>,
    /// Which codes stood there, well-formed or not.
    pub(crate) seen: Codes,
    /// The value of NEXT_HOP is no host: a fault where the classic field announces routes.
    pub(crate) bad_next_hop: Option<DecodeError>,
    /// AS4_PATH and where it stood.
    as4_path: Option<(AsPath, u32)>,
    as4_aggregator: Option<Aggregator>,
}

/// A set of attribute codes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Codes(u128, u128);

impl Codes {
    pub(crate) fn contains(self, code: u8) -> bool {
        let (word, bit) = self.place(code);
        word & bit != 0
    }

    /// Whether anything but `code` is in it.
    pub(crate) fn has_other_than(self, code: u8) -> bool {
        let mut others = self;
        let (_, bit) = others.place(code);
        *others.word(code) &= !bit;
        others.0 | others.1 != 0
    }

    /// Takes `code` out.
    pub(crate) fn remove(&mut self, code: u8) {
        let (_, bit) = self.place(code);
        *self.word(code) &= !bit;
    }

    /// Puts `code` in; whether it was not there yet.
    pub(crate) fn insert(&mut self, code: u8) -> bool {
        let (word, bit) = self.place(code);
        *self.word(code) |= bit;
        word & bit == 0
    }

    fn place(self, code: u8) -> (u128, u128) {
        let word = if code < 128 { self.0 } else { self.1 };
        (word, 1 << (code & 0x7f))
    }

    fn word(&mut self, code: u8) -> &mut u128 {
        if code < 128 { &mut self.0 } else { &mut self.1 }
    }
}

/// One attribute of the list.
///
/// ```text
/// +-- 1 --+-- 1 --+-- 1 or 2 --+-- length --+
/// | flags | code  |   length   |   value    |     RFC 4271 §4.3
/// +-------+-------+------------+------------+
/// ```
struct Attribute<'a> {
    flags: u8,
    code: u8,
    length: u16,
    value: Reader<'a>,
}

/// Reads a list to its end. `body` is what `reader` reads from, for sharing; without it (in storage)
/// the list must have no MP_REACH_NLRI or MP_UNREACH_NLRI.
///
/// # Errors
/// Faults that end the session.
pub(crate) fn list(
    mut reader: Reader<'_>,
    body: Option<&Bytes>,
    ctx: &DecodeContext,
) -> Result<Decoded, DecodeError> {
    let mut decoded = Decoded::default();
    while !reader.is_empty() {
        let start = reader.error(Fault::AttributeList);
        // RFC 7606 §4: too little is left for an attribute, or it overruns the list.
        let Ok(attribute) = next(&mut reader) else {
            decoded.faults.push(start);
            break;
        };
        if let Err(error) = decoded.learn(attribute, start.offset, body, ctx) {
            match error.fault.treatment() {
                Treatment::SessionReset => return Err(error),
                Treatment::TreatAsWithdraw | Treatment::AttributeDiscard => {
                    decoded.faults.push(error);
                }
            }
        }
    }
    decoded.merge_four_octets();
    let attributes = &mut decoded.attributes;
    opaque::bound(&mut attributes.opaque, &mut attributes.unknown);
    Ok(decoded)
}

fn next<'a>(reader: &mut Reader<'a>) -> Result<Attribute<'a>, DecodeError> {
    let flags = reader.u8()?;
    let code = reader.u8()?;
    let length = match flags & flag::EXTENDED_LENGTH {
        0 => reader.u8()?.into(),
        _ => reader.u16()?,
    };
    let value = reader.sub(length.into())?;
    Ok(Attribute {
        flags,
        code,
        length,
        value,
    })
}

impl Decoded {
    fn learn(
        &mut self,
        attribute: Attribute<'_>,
        offset: u32,
        body: Option<&Bytes>,
        ctx: &DecodeContext,
    ) -> Result<(), DecodeError> {
        let Attribute {
            flags,
            code,
            length,
            ..
        } = attribute;
        let fault = |fault| Err(DecodeError { fault, offset });
        // RFC 7606 §3 (g).
        if !self.seen.insert(code) {
            return match code {
                code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => {
                    fault(Fault::MultiProtocolTwice { code })
                }
                _ => fault(Fault::AttributeTwice { code }),
            };
        }
        let Some(row) = Row::of(code) else {
            // RFC 4271 §6.3; RFC 7606 leaves it as it is.
            if flags & flag::OPTIONAL == 0 {
                return fault(Fault::AttributeUnknown { code });
            }
            let mut carried = flags & flag::TRANSITIVE != 0;
            // Passed on by default, to peers that read them: malformed ones are not. Without a message it is a stored path,
            // which an earlier version may have taken.
            let is_read = matches!(code, code::D_PATH | code::NEXT_HOP_CHARACTERISTICS);
            if carried && is_read && body.is_some() {
                let meaning = Fault::AttributeValue { code };
                carried = tlv::check(code, attribute.value.clone().meaning(meaning))?;
            }
            self.carry(&attribute, carried);
            return Ok(());
        };
        // RFC 7606 §7.5, §7.9, §7.10.
        if row.internal_only && !ctx.ibgp {
            return fault(Fault::AttributeUnexpected { code });
        }
        if !row.category.allows(flags) {
            // The routes can still be found, so that they can be withdrawn. RFC 7606 §3 (j).
            if matches!(code, code::MP_REACH_NLRI | code::MP_UNREACH_NLRI) {
                self.value(attribute, body, ctx)?;
            }
            return fault(Fault::AttributeFlags { code, flags });
        }
        if !row.length.allows(length, ctx.four_octet_as) {
            return fault(Fault::AttributeLength { code, length });
        }
        self.value(attribute, body, ctx)
    }

    /// The value of an attribute that has a row and the right length.
    fn value(
        &mut self,
        attribute: Attribute<'_>,
        body: Option<&Bytes>,
        ctx: &DecodeContext,
    ) -> Result<(), DecodeError> {
        let code = attribute.code;
        let meaning = Fault::AttributeValue { code };
        let mut value = attribute.value.clone().meaning(meaning);
        let attributes = &mut self.attributes;
        match code {
            code::ORIGIN => attributes.origin = origin(&mut value)?,
            code::AS_PATH => {
                let mut value = value.meaning(Fault::AsPath);
                attributes.as_path = AsPath::decode(&mut value, ctx.four_octet_as, ctx.ibgp)?;
            }
            code::NEXT_HOP => {
                let bad = value.error(Fault::NextHop);
                let next_hop = NextHop::V4(value.array::<4>()?.into());
                if next_hop.is_host() {
                    attributes.next_hop = Some(next_hop);
                } else {
                    self.bad_next_hop = Some(bad);
                }
            }
            code::MULTI_EXIT_DISC => attributes.med = Some(value.u32()?),
            code::LOCAL_PREF => attributes.local_pref = Some(value.u32()?),
            code::ATOMIC_AGGREGATE => attributes.atomic_aggregate = true,
            code::AGGREGATOR => {
                attributes.aggregator = Some(aggregator(&mut value, ctx.four_octet_as, code)?);
            }
            code::COMMUNITIES => {
                attributes.communities = items(value, |item| item.u32().map(Community))?;
            }
            code::ORIGINATOR_ID => attributes.originator_id = Some(RouterId(value.u32()?)),
            code::CLUSTER_LIST => {
                attributes.cluster_list = items(value, |item| item.u32().map(ClusterId))?;
            }
            code::MP_REACH_NLRI => return self.reach(value, body),
            code::MP_UNREACH_NLRI => {
                let Some(body) = body else {
                    return Err(value.error(Fault::AttributeUnexpected { code }));
                };
                self.unreach = Some(Unreach::decode(&mut value, body)?);
            }
            code::EXTENDED_COMMUNITIES => {
                attributes.ext_communities =
                    items(value, |item| item.array().map(ExtendedCommunity))?;
            }
            code::IPV6_EXTENDED_COMMUNITIES => {
                attributes.ipv6_ext_communities =
                    items(value, |item| item.array().map(Ipv6ExtendedCommunity))?;
            }
            // RFC 6793 §6: not from a four-octet speaker.
            code::AS4_PATH | code::AS4_AGGREGATOR if ctx.four_octet_as => {
                return Err(value.error(Fault::AttributeUnexpected { code }));
            }
            code::AS4_PATH => self.as4_path = Some(as4_path(&mut value)?),
            code::AS4_AGGREGATOR => {
                self.as4_aggregator = Some(aggregator(&mut value, true, code)?);
            }
            code::PMSI_TUNNEL => attributes.pmsi = Some(PmsiTunnel::decode(&mut value)?),
            code::LARGE_COMMUNITIES => {
                attributes.large_communities = LargeCommunity::decode_all(value)?;
            }
            _ => return self.check(&attribute),
        }
        Ok(())
    }

    /// An attribute of which the value is not kept by parts: checked, so that nobody's session ends by what weft passes on.
    fn check(&mut self, attribute: &Attribute<'_>) -> Result<(), DecodeError> {
        let code = attribute.code;
        let meaning = Fault::AttributeValue { code };
        let good_inside = tlv::check(code, attribute.value.clone().meaning(meaning))?;
        let row = Row::of(code);
        let transitive = row.is_some_and(|row| row.category == Category::OptionalTransitive);
        self.carry(attribute, transitive && good_inside);
        Ok(())
    }

    /// An attribute that is carried as it came, or only counted.
    fn carry(&mut self, attribute: &Attribute<'_>, carried: bool) {
        let Attribute {
            flags,
            code,
            length,
            ref value,
        } = *attribute;
        if carried {
            self.attributes.opaque.push(OpaqueAttribute {
                code,
                partial: flags & flag::PARTIAL != 0,
                // Not shared with the message, which is longer and would stay for it.
                value: Bytes::copy_from_slice(value.peek()),
            });
        } else {
            self.attributes.unknown.push(UnknownAttribute {
                code,
                flags,
                length,
            });
        }
    }

    fn reach(&mut self, mut value: Reader<'_>, body: Option<&Bytes>) -> Result<(), DecodeError> {
        let start = value.error(Fault::NextHop);
        let Some(body) = body else {
            let fault = Fault::AttributeUnexpected {
                code: code::MP_REACH_NLRI,
            };
            return Err(DecodeError { fault, ..start });
        };
        match Reach::decode(&mut value, body)? {
            DecodedReach::Known(reach) => {
                let next_hop = reach.next_hop;
                self.reach = Some(reach);
                if next_hop.is_link_local() {
                    let fault = Fault::LinkLocalNextHop;
                    return Err(DecodeError { fault, ..start });
                }
                next_hop.is_host().then_some(()).ok_or(start)
            }
            DecodedReach::Unknown(family) => Err(DecodeError {
                fault: Fault::FamilyUnknown { family },
                ..start
            }),
        }
    }

    /// RFC 6793 §4.2.3.
    fn merge_four_octets(&mut self) {
        let trans = u32::from(super::as_path::AS_TRANS);
        if let Some(as4_aggregator) = self.as4_aggregator {
            match &mut self.attributes.aggregator {
                Some(aggregator) if aggregator.asn == trans => *aggregator = as4_aggregator,
                // A new speaker before an old one aggregated: the four-octet ones are stale.
                Some(_) => return,
                None => {}
            }
        }
        if let Some((as4_path, offset)) = self.as4_path.take() {
            let as_path = std::mem::take(&mut self.attributes.as_path);
            self.attributes.as_path = as_path.merge(as4_path);
            // Sets count one, so that two paths that are short enough can make one that is not.
            if self.attributes.as_path.is_too_long() {
                let fault = Fault::AsPathTooLong;
                self.faults.push(DecodeError { fault, offset });
            }
        }
    }
}

fn origin(value: &mut Reader<'_>) -> Result<Origin, DecodeError> {
    let at = value.error(Fault::Origin { value: 0 });
    let code = value.u8()?;
    Origin::from_code(code).ok_or(DecodeError {
        fault: Fault::Origin { value: code },
        ..at
    })
}

/// RFC 7607 §2: AS 0 is malformed here too.
fn aggregator(
    value: &mut Reader<'_>,
    four_octets: bool,
    code: u8,
) -> Result<Aggregator, DecodeError> {
    let malformed = value.error(Fault::AttributeValue { code });
    let asn = if four_octets {
        value.u32()?
    } else {
        value.u16()?.into()
    };
    let address = value.array::<4>()?.into();
    if asn == 0 {
        Err(malformed)
    } else {
        Ok(Aggregator { asn, address })
    }
}

/// And where it stands. RFC 6793 §6: whatever is wrong with it, only the attribute is discarded.
fn as4_path(value: &mut Reader<'_>) -> Result<(AsPath, u32), DecodeError> {
    let offset = value.offset();
    let path = AsPath::decode(value, true, true).map_err(|error| DecodeError {
        fault: Fault::AttributeValue {
            code: code::AS4_PATH,
        },
        ..error
    })?;
    Ok((path, offset))
}

/// Items until the end of an attribute, whose length fits a whole number of them.
fn items<T>(
    mut value: Reader<'_>,
    item: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut all = Vec::with_capacity(value.remaining().checked_div(size_of::<T>()).unwrap_or(0));
    while !value.is_empty() {
        all.push(item(&mut value)?);
    }
    Ok(all)
}
