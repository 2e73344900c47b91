//! One UPDATE for routes of one family with equal attributes, as a collector reads it: four-octet AS
//! numbers. It refuses to know who announced them and what an NLRI is.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::net::Ipv4Addr;

use bytes::Bytes;
use weft_bgp::attribute::row::{code, flag};
use weft_bgp::attribute::{Attributes, NextHop, Reach, Unreach};
use weft_bgp::family::Family;
use weft_bgp::frame::HEADER_LEN;
use weft_bgp::message::{MessageKind, encode_with};
use weft_bgp::wire::Writer;

/// Why routes do not make a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Unsayable {
    /// They take more than 65535 octets.
    TooLong,
    /// The attributes have no next hop.
    NoNextHop,
}

impl fmt::Display for Unsayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "routes longer than a message",
            Self::NoNextHop => "routes without a next hop",
        })
    }
}

impl std::error::Error for Unsayable {}

/// A whole UPDATE, header included, that announces `nlri` (one or more of `family`) with `attributes`,
/// next hop included. IPv4 unicast with an IPv4 next hop stands in the classic field (RFC 4271 §4.3),
/// everything else in MP_REACH_NLRI (RFC 4760 §3).
///
/// Each NLRI stands behind a path identifier exactly where the OPENs of the Peer Up agreed on it: the
/// collector has nothing else to tell by. RFC 7854 §5, RFC 7911 §3.
///
/// # Errors
/// [`Unsayable::NoNextHop`] when the attributes have none; [`Unsayable::TooLong`].
pub fn announcement(
    family: Family,
    nlri: Bytes,
    attributes: &Attributes,
) -> Result<Bytes, Unsayable> {
    let next_hop = attributes.next_hop.ok_or(Unsayable::NoNextHop)?;
    let stored = attributes.to_octets();
    let octets = others(&stored);
    let length = octets.len().saturating_add(nlri.len());
    if length > ROOM {
        return Err(Unsayable::TooLong);
    }
    let mut out = Writer::with_capacity(length.saturating_add(OVERHEAD));
    encode_with(&mut out, MessageKind::Update, |out| {
        out.u16(0);
        let length = out.reserve_u16();
        match next_hop {
            NextHop::V4(next_hop) if family == Family::IPV4_UNICAST => {
                with_next_hop(out, octets, next_hop);
                out.patch_u16(length);
                out.slice(&nlri);
            }
            NextHop::V4(_) | NextHop::V6(_) | NextHop::V6LinkLocal(..) => {
                let reach = Reach {
                    family,
                    next_hop,
                    nlri,
                };
                reach.encode(out);
                out.slice(octets);
                out.patch_u16(length);
            }
        }
    });
    Ok(out.finish())
}

/// A whole UPDATE that withdraws `nlri`, one or more of `family`, with path identifiers as in
/// [`announcement`]: in the classic field for IPv4 unicast,
/// else in MP_UNREACH_NLRI (RFC 4760 §4).
///
/// # Errors
/// [`Unsayable::TooLong`].
pub fn withdrawal(family: Family, nlri: Bytes) -> Result<Bytes, Unsayable> {
    if nlri.len() > ROOM {
        return Err(Unsayable::TooLong);
    }
    let mut out = Writer::with_capacity(nlri.len().saturating_add(OVERHEAD));
    encode_with(&mut out, MessageKind::Update, |out| {
        if family == Family::IPV4_UNICAST {
            let length = out.reserve_u16();
            out.slice(&nlri);
            out.patch_u16(length);
            out.u16(0);
        } else {
            out.u16(0);
            let length = out.reserve_u16();
            Unreach { family, nlri }.encode(out);
            out.patch_u16(length);
        }
    });
    Ok(out.finish())
}

/// The End-of-RIB of a family: all of its table was told. RFC 4724 §2, RFC 7854 §5.
#[must_use]
pub fn end_of_rib(family: Family) -> Bytes {
    withdrawal(family, Bytes::new()).expect("nothing fits a message")
}

/// Out of what [`Attributes::to_octets`] wrote, all but the next hop: in order of code, with four-octet
/// AS numbers whatever the peer speaks, so that the A flag of BMP stays zero (RFC 7854 §4.2).
pub(crate) fn others(stored: &[u8]) -> &[u8] {
    let next_hop_len = stored.first().map_or(0, |len| usize::from(*len));
    stored
        .get(next_hop_len.saturating_add(1)..)
        .unwrap_or_default()
}

/// Writes attributes in order of code with NEXT_HOP among them. RFC 4271 §5: ORIGIN and AS_PATH come
/// before it.
pub(crate) fn with_next_hop(out: &mut Writer, others: &[u8], next_hop: Ipv4Addr) {
    let mut rest = others;
    let mut before = 0_usize;
    while let [flags, code, length @ ..] = rest {
        let (header, length) = match length {
            [high, low, ..] if flags & flag::EXTENDED_LENGTH != 0 => {
                (4_usize, u16::from_be_bytes([*high, *low]))
            }
            [low, ..] => (3, u16::from(*low)),
            [] => break,
        };
        if *code >= code::NEXT_HOP {
            break;
        }
        let octets = header.saturating_add(length.into());
        before = before.saturating_add(octets);
        rest = rest.get(octets..).unwrap_or_default();
    }
    let (first, second) = others.split_at(before.min(others.len()));
    out.slice(first);
    out.slice(&[flag::TRANSITIVE, code::NEXT_HOP, 4]);
    out.slice(&next_hop.octets());
    out.slice(second);
}

/// Header, two lengths, and an MP attribute with its family and the longest next hop.
const OVERHEAD: usize = HEADER_LEN as usize + 4 + 4 + 3 + 34;
/// Octets that routes and attributes may take in the longest message.
const ROOM: usize = u16::MAX as usize - OVERHEAD;
