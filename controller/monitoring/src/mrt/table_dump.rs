//! TABLE_DUMP_V2: peers, then destinations with all their paths. It refuses to know which paths were
//! selected.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::io::Write;
use std::net::IpAddr;

use weft_bgp::attribute::row::{code, flag};
use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::family::Family;
use weft_bgp::peer::RouterId;
use weft_bgp::wire::Writer;

use super::{Error, address, record};
use crate::timestamp::Timestamp;
use crate::update::{others, with_next_hop};

/// A peer of the dumped table. RFC 6396 §4.3.1.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its BGP Identifier.
    pub router_id: RouterId,
    /// Its address.
    pub address: IpAddr,
    /// Its AS number, four octets.
    pub asn: u32,
}

/// One path of a destination. RFC 6396 §4.3.4, RFC 8050 §4.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Place of its peer among those that [`TableDump::begin`] was given, from 0.
    pub peer: u16,
    /// When it was learned, in seconds since the epoch.
    pub originated_secs: u32,
    /// Its path identifier, if it came with one. RFC 7911.
    pub path_id: Option<u32>,
    /// With which attributes, next hop included.
    pub attributes: &'a Attributes,
}

/// Writes a table, record by record, and keeps none of it.
///
/// ```text
/// PEER_INDEX_TABLE  collector id (4), view name (2 + n), peers (2):
///                   type (1: 1 IPv6, 2 four-octet AS), id (4), address (4, 16), AS (4)
/// RIB_IPV4_UNICAST, RIB_IPV6_UNICAST  sequence (4), prefix, paths (2): entries
/// RIB_GENERIC       sequence (4), AFI (2), SAFI (1), NLRI, paths (2): entries
/// entry             peer (2), originated (4), path id (4, add-path), attributes (2 + n)
/// ```
#[derive(Debug)]
pub struct TableDump<W> {
    out: W,
    secs: u32,
    peers: u16,
    sequence: u32,
    body: Writer,
}

impl<W: Write> TableDump<W> {
    /// Writes the table of peers. `time` is the moment of the dump, and stands in each record; `view`
    /// names the table, empty for the only one. Up to 65535 peers.
    ///
    /// # Errors
    /// [`Error::TooMany`], [`Error::TooLong`], [`Error::Io`].
    pub fn begin(
        out: W,
        time: Timestamp,
        collector: RouterId,
        view: &str,
        peers: &[Peer],
    ) -> Result<Self, Error> {
        let count = u16::try_from(peers.len()).map_err(|_| Error::TooMany)?;
        let view_len = u16::try_from(view.len()).map_err(|_| Error::TooLong)?;
        let mut dump = Self {
            out,
            secs: time.secs,
            peers: count,
            sequence: 0,
            body: Writer::new(),
        };
        let body = &mut dump.body;
        body.u32(collector.0);
        body.u16(view_len);
        body.slice(view.as_bytes());
        body.u16(count);
        for peer in peers {
            body.u8(FOUR_OCTET_AS | u8::from(peer.address.is_ipv6()));
            body.u32(peer.router_id.0);
            address(body, peer.address);
            body.u32(peer.asn);
        }
        let table = (TABLE_DUMP_V2, PEER_INDEX_TABLE);
        record(&mut dump.out, dump.secs, table, dump.body.as_slice())?;
        Ok(dump)
    }

    /// Writes a destination: `nlri` is one NLRI of `family` without path identifier. Paths with and
    /// without path identifier go into records of their own, and none are written for no paths.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::TooMany`], [`Error::TooLong`]: this destination, or the rest
    /// of it, was not written, and the dump goes on. [`Error::Io`]: it does not.
    pub fn destination(
        &mut self,
        family: Family,
        nlri: &[u8],
        entries: &[Entry<'_>],
    ) -> Result<(), Error> {
        for entry in entries {
            if entry.peer >= self.peers {
                return Err(Error::UnknownPeer(entry.peer));
            }
        }
        u16::try_from(entries.len()).map_err(|_| Error::TooMany)?;
        let (plain, add_path): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.path_id.is_none());
        let (subtype, subtype_add_path) = subtypes(family);
        if !plain.is_empty() {
            self.write(subtype, family, None, nlri, &plain)?;
        }
        if subtype == RIB_GENERIC {
            // The path identifier is part of the NLRI here, and entries have none. RFC 8050 §4.2.
            for entry in add_path {
                self.write(subtype_add_path, family, entry.path_id, nlri, &[entry])?;
            }
        } else if !add_path.is_empty() {
            self.write(subtype_add_path, family, None, nlri, &add_path)?;
        }
        Ok(())
    }

    /// Records written after the table of peers.
    #[must_use]
    pub fn records(&self) -> u32 {
        self.sequence
    }

    /// Flushes, and gives the writer back.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self) -> Result<W, Error> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// One record; `path_id` stands before the NLRI.
    fn write(
        &mut self,
        subtype: u16,
        family: Family,
        path_id: Option<u32>,
        nlri: &[u8],
        entries: &[&Entry<'_>],
    ) -> Result<(), Error> {
        let body = &mut self.body;
        body.truncate(0);
        body.u32(self.sequence);
        if matches!(subtype, RIB_GENERIC | RIB_GENERIC_ADD_PATH) {
            body.u16(family.afi);
            body.u8(family.safi);
        }
        if let Some(path_id) = path_id {
            body.u32(path_id);
        }
        body.slice(nlri);
        body.u16(u16::try_from(entries.len()).map_err(|_| Error::TooMany)?);
        let path_ids = matches!(
            subtype,
            RIB_IPV4_UNICAST_ADD_PATH | RIB_IPV6_UNICAST_ADD_PATH
        );
        for entry in entries {
            body.u16(entry.peer);
            body.u32(entry.originated_secs);
            if path_ids {
                body.u32(entry.path_id.unwrap_or_default());
            }
            let stored = entry.attributes.to_octets();
            if stored.len() > ATTRIBUTES_MAX {
                return Err(Error::TooLong);
            }
            let length = body.reserve_u16();
            attributes(body, family, entry.attributes.next_hop, others(&stored));
            body.patch_u16(length);
        }
        record(
            &mut self.out,
            self.secs,
            (TABLE_DUMP_V2, subtype),
            body.as_slice(),
        )?;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }
}

/// All attributes of an entry. The next hop of what is not IPv4 stands in a short MP_REACH_NLRI: length
/// and address only, since the record has the rest. RFC 6396 §4.3.4.
fn attributes(out: &mut Writer, family: Family, next_hop: Option<NextHop>, others: &[u8]) {
    match next_hop {
        None => out.slice(others),
        Some(NextHop::V4(next_hop)) if family == Family::IPV4_UNICAST => {
            with_next_hop(out, others, next_hop);
        }
        Some(next_hop) => {
            out.u8(flag::OPTIONAL);
            out.u8(code::MP_REACH_NLRI);
            let length = out.reserve_u8();
            out.u8(next_hop.octets_len());
            match next_hop {
                NextHop::V4(address) => out.slice(&address.octets()),
                NextHop::V6(address) => out.slice(&address.octets()),
                NextHop::V6LinkLocal(global, link_local) => {
                    out.slice(&global.octets());
                    out.slice(&link_local.octets());
                }
            }
            out.patch_u8(length);
            out.slice(others);
        }
    }
}

/// The subtype without and with path identifiers. RFC 6396 §4.3, RFC 8050 §4.
fn subtypes(family: Family) -> (u16, u16) {
    match family {
        Family::IPV4_UNICAST => (RIB_IPV4_UNICAST, RIB_IPV4_UNICAST_ADD_PATH),
        Family::IPV6_UNICAST => (RIB_IPV6_UNICAST, RIB_IPV6_UNICAST_ADD_PATH),
        _ => (RIB_GENERIC, RIB_GENERIC_ADD_PATH),
    }
}

const TABLE_DUMP_V2: u16 = 13;
const PEER_INDEX_TABLE: u16 = 1;
const RIB_IPV4_UNICAST: u16 = 2;
const RIB_IPV6_UNICAST: u16 = 4;
const RIB_GENERIC: u16 = 6;
const RIB_IPV4_UNICAST_ADD_PATH: u16 = 8;
const RIB_IPV6_UNICAST_ADD_PATH: u16 = 10;
const RIB_GENERIC_ADD_PATH: u16 = 12;

/// Peer type: its AS number has four octets.
const FOUR_OCTET_AS: u8 = 2;

/// What their length can say, less a NEXT_HOP or a short MP_REACH_NLRI.
const ATTRIBUTES_MAX: usize = u16::MAX as usize - 36;
