//! UPDATE: routes announced and withdrawn, and what was wrong with them. Knows which attributes a
//! route must have; NLRI of MP_REACH_NLRI and MP_UNREACH_NLRI stay octets.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::Bytes;

use crate::attribute::row::code;
use crate::attribute::{Attributes, Reach, Unreach, decode};
use crate::error::{DecodeError, Fault, Treatment};
use crate::family::Family;
use crate::message::{DecodeContext, body_reader};
use crate::nlri::unicast::Prefix4;
use crate::nlri::{Nlri, NlriError};
use crate::wire::{Reader, Writer};

/// Routes of one or more families.
///
/// ```text
/// +-- 2 --+-- length --+-- 2 --+-- length --+-- ... --+
/// |length | withdrawn  |length | attributes |  NLRI   |     RFC 4271 §4.3
/// +-------+------------+-------+------------+---------+
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// IPv4 routes withdrawn in the classic field, with path identifiers; 0 where there are none.
    pub withdrawn: Vec<(u32, Prefix4)>,
    /// IPv4 routes announced in the classic field, with path identifiers; 0 where there are none.
    pub announced: Vec<(u32, Prefix4)>,
    /// Routes announced in MP_REACH_NLRI.
    pub reach: Option<Reach>,
    /// Routes withdrawn in MP_UNREACH_NLRI.
    pub unreach: Option<Unreach>,
    /// Attributes of what is announced; of the next hops only that of the classic field.
    pub attributes: Attributes,
    /// What was wrong without ending the session. RFC 7606.
    pub faults: Vec<DecodeError>,
    /// The worst of [`Update::faults`]. With [`Treatment::TreatAsWithdraw`] every route announced
    /// here is to be taken as withdrawn.
    pub treatment: Option<Treatment>,
}

impl Update {
    /// End-of-RIB of a family. RFC 4724 §2.
    #[must_use]
    pub fn end_of_rib(family: Family) -> Self {
        if family == Family::IPV4_UNICAST {
            return Self::default();
        }
        let unreach = Some(Unreach {
            family,
            nlri: Bytes::new(),
        });
        Self {
            unreach,
            ..Self::default()
        }
    }

    /// Which family's routes are complete, if this says so. RFC 4724 §2.
    #[must_use]
    pub fn is_end_of_rib(&self) -> Option<Family> {
        let routes =
            !self.withdrawn.is_empty() || !self.announced.is_empty() || self.reach.is_some();
        if routes || !self.faults.is_empty() {
            return None;
        }
        match &self.unreach {
            None => Some(Family::IPV4_UNICAST),
            Some(unreach) => unreach.nlri.is_empty().then_some(unreach.family),
        }
    }

    /// Whether what is announced is to be taken as withdrawn.
    #[must_use]
    pub fn is_withdraw(&self) -> bool {
        self.treatment >= Some(Treatment::TreatAsWithdraw)
    }

    pub(crate) fn decode(body: &Bytes, ctx: &DecodeContext) -> Result<Self, DecodeError> {
        let mut reader = body_reader(body, Fault::UpdateLength);
        let length = reader.u16()?;
        let mut withdrawn = reader.sub(length.into())?;
        let length = reader.u16()?;
        let list = reader.sub(length.into())?;
        let at = list.offset();
        let add_path = ctx.add_path.contains(Family::IPV4_UNICAST);
        let withdrawn = prefixes(&mut withdrawn, add_path)?;
        let mut decoded = decode::list(list, Some(body), ctx)?;
        let mut faults = std::mem::take(&mut decoded.faults);
        let announced = prefixes(&mut reader, add_path).map_err(|error| {
            // Where the attributes end in doubt, so do the NLRI begin. RFC 7606 §3 (j).
            let doubt = faults
                .iter()
                .any(|error| error.fault == Fault::AttributeList);
            if doubt {
                DecodeError {
                    fault: Fault::NlriNotLocatable,
                    offset: at,
                }
            } else {
                error
            }
        })?;
        let missing = |fault| DecodeError { fault, offset: at };
        let reach_routes = decoded
            .reach
            .as_ref()
            .is_some_and(|reach| !reach.nlri.is_empty());
        if !announced.is_empty() || decoded.seen.contains(code::MP_REACH_NLRI) {
            let mandatory = mandatory(!announced.is_empty(), ctx.ibgp);
            let absent = mandatory.filter(|&code| !decoded.seen.contains(code));
            faults.extend(absent.map(|code| missing(Fault::AttributeMissing { code })));
        }
        // RFC 4760 §3: without routes in the classic field, NEXT_HOP is ignored.
        if !announced.is_empty() {
            faults.extend(decoded.bad_next_hop);
        }
        if usize::from(length) > ATTRIBUTES_MAX.saturating_add(multi_protocol_len(&decoded)) {
            faults.push(missing(Fault::AttributesTooLong));
        }
        // Of an UPDATE without routes nothing is in doubt: RFC 7606 §5.2 does not ask for more here.
        let routes = !announced.is_empty() || reach_routes;
        if routes && decoded.attributes.as_path.has_set() {
            faults.push(missing(Fault::AsSet));
        }
        let treatment = faults.iter().map(|error| error.fault.treatment()).max();
        // RFC 7606 §5.2: without a route, who knows whether one was lost. An overrun may also have
        // swallowed what MP_UNREACH_NLRI withdrew.
        let listed = faults
            .iter()
            .any(|error| error.fault == Fault::AttributeList);
        let others = listed || decoded.seen.has_other_than(code::MP_UNREACH_NLRI);
        if treatment >= Some(Treatment::TreatAsWithdraw) && others && !routes {
            return Err(missing(Fault::NlriNotLocatable));
        }
        let (reach, unreach) = (decoded.reach, decoded.unreach);
        let attributes = if announced.is_empty() && reach.is_none() {
            Attributes::default()
        } else {
            decoded.attributes
        };
        Ok(Self {
            withdrawn,
            announced,
            reach,
            unreach,
            attributes,
            faults,
            treatment,
        })
    }

    /// MP_UNREACH_NLRI and MP_REACH_NLRI stand first (RFC 7606 §5.1), then the others by code.
    pub(crate) fn encode(&self, out: &mut Writer, ctx: &DecodeContext) {
        let length = out.reserve_u16();
        let add_path = ctx.add_path.contains(Family::IPV4_UNICAST);
        write(&self.withdrawn, add_path, out);
        out.patch_u16(length);
        let length = out.reserve_u16();
        if let Some(reach) = &self.reach {
            reach.encode(out);
        }
        if let Some(unreach) = &self.unreach {
            unreach.encode(out);
        }
        if !self.announced.is_empty() || self.reach.is_some() {
            self.attributes.encode_with(out, ctx, true);
        }
        out.patch_u16(length);
        write(&self.announced, add_path, out);
    }
}

/// The prefixes of a classic field; their path identifiers only where they were negotiated.
fn write(prefixes: &[(u32, Prefix4)], add_path: bool, out: &mut Writer) {
    for (path_id, prefix) in prefixes {
        if add_path {
            out.u32(*path_id);
        }
        prefix.encode(out);
    }
}

/// Attributes that a route must have. RFC 4271 §5, and §5.1.5 for LOCAL_PREF: without it our own
/// peers would reject what we reflect.
fn mandatory(classic: bool, ibgp: bool) -> impl Iterator<Item = u8> {
    let rows = [
        (code::ORIGIN, true),
        (code::AS_PATH, true),
        (code::NEXT_HOP, classic),
        (code::LOCAL_PREF, ibgp),
    ];
    rows.into_iter().filter(|row| row.1).map(|row| row.0)
}

/// Octets of the attributes that hold routes: they do not count as a route's own.
fn multi_protocol_len(decoded: &decode::Decoded) -> usize {
    let reach = decoded.reach.as_ref();
    let unreach = decoded.unreach.as_ref();
    let reach = reach.map_or(0, |reach| {
        Reach::overhead(reach.next_hop).saturating_add(reach.nlri.len())
    });
    let unreach = unreach.map_or(0, |unreach| {
        Unreach::OVERHEAD.saturating_add(unreach.nlri.len())
    });
    reach.saturating_add(unreach)
}

/// All prefixes of a classic field. RFC 7606 §5.3.
fn prefixes(reader: &mut Reader<'_>, add_path: bool) -> Result<Vec<(u32, Prefix4)>, DecodeError> {
    let mut prefixes = Vec::new();
    while !reader.is_empty() {
        let start = reader.error(Fault::Network);
        let path_id = if add_path {
            reader.u32().map_err(|_| start)?
        } else {
            0
        };
        match Prefix4::decode(reader) {
            Ok(prefix) => prefixes.push((path_id, prefix)),
            Err(NlriError::Discard(error) | NlriError::Reset(error)) => return Err(error),
        }
    }
    Ok(prefixes)
}

/// What a route's attributes may take; more is treated as withdrawn. They are stored once per route
/// and sent in every message that announces it, to be shared with NLRI.
const ATTRIBUTES_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests;
