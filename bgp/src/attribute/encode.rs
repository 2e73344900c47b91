//! Attributes to octets, in the order of their codes, but for one in messages. Knows no message.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::iter::Peekable;

use crate::attribute::row::{Category, code, flag};
use crate::attribute::{Aggregator, Attributes, NextHop, OpaqueAttribute};
use crate::message::DecodeContext;
use crate::wire::Writer;

use Category::{
    OptionalNonTransitive as NonTransitive, OptionalTransitive as Transitive, WellKnown,
};

/// All attributes but MP_REACH_NLRI and MP_UNREACH_NLRI, as messages have them: TUNNEL_ENCAPSULATION is last. FRR 10.3
/// takes what stands behind it for sub-TLVs, and ends the session with 3/9 (measured; 8.4.4 and 10.7.1 do not). RFC 4271
/// §5 asks for the order of codes with a SHOULD, and for any order to be read.
pub(super) fn all(
    attributes: &Attributes,
    out: &mut Writer,
    ctx: &DecodeContext,
    classic_next_hop: bool,
) {
    let is_tunnel = |it: &&OpaqueAttribute| it.code == code::TUNNEL_ENCAPSULATION;
    let others = attributes.opaque.iter().filter(|it| !is_tunnel(it));
    ordered(attributes, others, out, ctx, classic_next_hop);
    let tunnels = attributes.opaque.iter().filter(is_tunnel);
    tunnels.for_each(|tunnel| tunnel.encode(out));
}

/// All attributes but MP_REACH_NLRI, MP_UNREACH_NLRI and NEXT_HOP, in the order of codes: the form in which they are stored.
pub(super) fn stored(attributes: &Attributes, out: &mut Writer, ctx: &DecodeContext) {
    ordered(attributes, attributes.opaque.iter(), out, ctx, false);
}

fn ordered<'a>(
    attributes: &Attributes,
    opaque: impl Iterator<Item = &'a OpaqueAttribute>,
    out: &mut Writer,
    ctx: &DecodeContext,
    classic_next_hop: bool,
) {
    let mut opaque = opaque.peekable();
    carried(&mut opaque, Some(code::ORIGIN), out);
    well_known(attributes, out, ctx, classic_next_hop);
    aggregator(attributes, out, ctx);
    let items = |len: usize, octets: usize| len.saturating_mul(octets);
    if !attributes.communities.is_empty() {
        header(
            out,
            Transitive,
            code::COMMUNITIES,
            items(attributes.communities.len(), 4),
        );
        attributes
            .communities
            .iter()
            .for_each(|community| out.u32(community.0));
    }
    if let Some(originator) = attributes.originator_id {
        header(out, NonTransitive, code::ORIGINATOR_ID, 4);
        out.u32(originator.0);
    }
    if !attributes.cluster_list.is_empty() {
        header(
            out,
            NonTransitive,
            code::CLUSTER_LIST,
            items(attributes.cluster_list.len(), 4),
        );
        attributes
            .cluster_list
            .iter()
            .for_each(|cluster| out.u32(cluster.0));
    }
    carried(&mut opaque, Some(code::EXTENDED_COMMUNITIES), out);
    if !attributes.ext_communities.is_empty() {
        let length = items(attributes.ext_communities.len(), 8);
        header(out, Transitive, code::EXTENDED_COMMUNITIES, length);
        attributes
            .ext_communities
            .iter()
            .for_each(|community| out.slice(&community.0));
    }
    as4(attributes, out, ctx);
    carried(&mut opaque, Some(code::PMSI_TUNNEL), out);
    if let Some(pmsi) = &attributes.pmsi {
        let length = pmsi.endpoint.len().saturating_add(5);
        header(out, Transitive, code::PMSI_TUNNEL, length);
        pmsi.encode(out);
    }
    carried(&mut opaque, Some(code::IPV6_EXTENDED_COMMUNITIES), out);
    if !attributes.ipv6_ext_communities.is_empty() {
        let length = items(attributes.ipv6_ext_communities.len(), 20);
        header(out, Transitive, code::IPV6_EXTENDED_COMMUNITIES, length);
        attributes
            .ipv6_ext_communities
            .iter()
            .for_each(|community| out.slice(&community.0));
    }
    carried(&mut opaque, Some(code::LARGE_COMMUNITIES), out);
    if !attributes.large_communities.is_empty() {
        let length = items(attributes.large_communities.len(), 12);
        header(out, Transitive, code::LARGE_COMMUNITIES, length);
        for community in &attributes.large_communities {
            out.u32(community.global);
            out.u32(community.local1);
            out.u32(community.local2);
        }
    }
    carried(&mut opaque, None, out);
}

/// Opaque attributes with a code below `end` are taken off and written; without an `end` all are.
fn carried<'a>(
    opaque: &mut Peekable<impl Iterator<Item = &'a OpaqueAttribute>>,
    end: Option<u8>,
    out: &mut Writer,
) {
    while let Some(next) = opaque.next_if(|it| end.is_none_or(|end| it.code < end)) {
        next.encode(out);
    }
}

/// Codes 1 to 6.
fn well_known(
    attributes: &Attributes,
    out: &mut Writer,
    ctx: &DecodeContext,
    classic_next_hop: bool,
) {
    header(out, WellKnown, code::ORIGIN, 1);
    out.u8(attributes.origin.code());
    let width: usize = if ctx.four_octet_as { 4 } else { 2 };
    let segments = attributes.as_path.segments.iter();
    let length = segments.map(|segment| segment.asns.len().saturating_mul(width).saturating_add(2));
    header(out, WellKnown, code::AS_PATH, length.sum());
    attributes.as_path.encode(out, ctx.four_octet_as);
    match attributes.next_hop {
        Some(NextHop::V4(address)) if classic_next_hop => {
            header(out, WellKnown, code::NEXT_HOP, 4);
            out.slice(&address.octets());
        }
        Some(NextHop::V4(_) | NextHop::V6(_) | NextHop::V6LinkLocal(..)) | None => {}
    }
    if let Some(med) = attributes.med {
        header(out, NonTransitive, code::MULTI_EXIT_DISC, 4);
        out.u32(med);
    }
    if let Some(local_pref) = attributes.local_pref {
        header(out, WellKnown, code::LOCAL_PREF, 4);
        out.u32(local_pref);
    }
    if attributes.atomic_aggregate {
        header(out, WellKnown, code::ATOMIC_AGGREGATE, 0);
    }
}

fn aggregator(attributes: &Attributes, out: &mut Writer, ctx: &DecodeContext) {
    let Some(Aggregator { asn, address }) = attributes.aggregator else {
        return;
    };
    if ctx.four_octet_as {
        header(out, Transitive, code::AGGREGATOR, 8);
        out.u32(asn);
    } else {
        header(out, Transitive, code::AGGREGATOR, 6);
        out.u16(u16::try_from(asn).unwrap_or(super::as_path::AS_TRANS));
    }
    out.slice(&address.octets());
}

/// What a two-octet speaker passes on for those behind it. RFC 6793 §4.2.2.
fn as4(attributes: &Attributes, out: &mut Writer, ctx: &DecodeContext) {
    if ctx.four_octet_as {
        return;
    }
    if attributes.as_path.needs_four_octets() {
        let mut value = Writer::new();
        attributes.as_path.encode_as4(&mut value);
        header(out, Transitive, code::AS4_PATH, value.len());
        out.slice(value.as_slice());
    }
    match attributes.aggregator {
        Some(Aggregator { asn, address }) if u16::try_from(asn).is_err() => {
            header(out, Transitive, code::AS4_AGGREGATOR, 8);
            out.u32(asn);
            out.slice(&address.octets());
        }
        Some(_) | None => {}
    }
}

/// Flags, code and length. RFC 4271 §4.3: two octets of length only where one does not do.
pub(super) fn header(out: &mut Writer, category: Category, code: u8, length: usize) {
    if let Ok(length) = u8::try_from(length) {
        out.u8(category.flags());
        out.u8(code);
        out.u8(length);
    } else {
        out.u8(category.flags() | flag::EXTENDED_LENGTH);
        out.u8(code);
        out.u16(u16::try_from(length).expect("an attribute fits a message"));
    }
}
