//! Path attributes: the typed values of one route, and their canonical octets. Knows neither the
//! routes that share them nor who sent them.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

pub mod as_path;
pub mod community;
pub(crate) mod decode;
mod encode;
pub mod link_bandwidth;
pub mod opaque;
pub mod pmsi;
pub mod reachability;
pub mod row;
mod tlv;

use std::fmt;
use std::net::Ipv4Addr;

use bytes::Bytes;

pub use as_path::{AsPath, Segment, SegmentKind};
pub use community::{Community, ExtendedCommunity, Ipv6ExtendedCommunity, LargeCommunity};
pub use opaque::{AttributeFilter, AttributeForms, OpaqueAttribute};
pub use pmsi::PmsiTunnel;
pub use reachability::{NextHop, Reach, Unreach};

use crate::capability::AddPathSet;
use crate::error::{DecodeError, Fault};
use crate::message::DecodeContext;
use crate::peer::{ClusterId, RouterId};
use crate::wire::{Reader, Writer};

/// Attributes of a route, all but the NLRI in MP_REACH_NLRI and MP_UNREACH_NLRI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// ORIGIN (1). RFC 4271 §5.1.1.
    pub origin: Origin,
    /// AS_PATH (2), with four-octet numbers whatever the peer speaks. RFC 4271 §5.1.2, RFC 6793.
    pub as_path: AsPath,
    /// NEXT_HOP (3) or, once learned, that of MP_REACH_NLRI. RFC 4271 §5.1.3, RFC 4760 §3.
    pub next_hop: Option<NextHop>,
    /// MULTI_EXIT_DISC (4), lower is better. RFC 4271 §5.1.4.
    pub med: Option<u32>,
    /// LOCAL_PREF (5), higher is better. RFC 4271 §5.1.5.
    pub local_pref: Option<u32>,
    /// ATOMIC_AGGREGATE (6). RFC 4271 §5.1.6.
    pub atomic_aggregate: bool,
    /// AGGREGATOR (7). RFC 4271 §5.1.7.
    pub aggregator: Option<Aggregator>,
    /// COMMUNITIES (8), as received. RFC 1997.
    pub communities: Vec<Community>,
    /// EXTENDED_COMMUNITIES (16), as received. RFC 4360.
    pub ext_communities: Vec<ExtendedCommunity>,
    /// IPV6_EXTENDED_COMMUNITIES (25), as received. RFC 5701.
    pub ipv6_ext_communities: Vec<Ipv6ExtendedCommunity>,
    /// LARGE_COMMUNITIES (32), as received but without repetitions. RFC 8092.
    pub large_communities: Vec<LargeCommunity>,
    /// ORIGINATOR_ID (9). RFC 4456 §8.
    pub originator_id: Option<RouterId>,
    /// CLUSTER_LIST (10), the nearest cluster first. RFC 4456 §8.
    pub cluster_list: Vec<ClusterId>,
    /// PMSI_TUNNEL (22). RFC 6514 §5.
    pub pmsi: Option<PmsiTunnel>,
    /// Optional transitive attributes that are carried as they came, by code. RFC 4271 §5.
    pub opaque: Vec<OpaqueAttribute>,
    /// What was received and is not carried: for counting, never sent or stored.
    pub unknown: Vec<UnknownAttribute>,
}

/// How a route came into BGP; the lower is preferred. RFC 4271 §5.1.1.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// 0.
    #[default]
    Igp,
    /// 1.
    Egp,
    /// 2.
    Incomplete,
}

/// Who aggregated a route. RFC 4271 §5.1.7.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Aggregator {
    /// Its AS number, four octets.
    pub asn: u32,
    /// Its address.
    pub address: Ipv4Addr,
}

/// An attribute that was dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownAttribute {
    /// Attribute code.
    pub code: u8,
    /// Flags octet.
    pub flags: u8,
    /// Octets of the value.
    pub length: u16,
}

impl Attributes {
    /// Writes all attributes in the order of their codes, but TUNNEL_ENCAPSULATION last, without NEXT_HOP: for routes that
    /// travel in MP_REACH_NLRI, which stands before these (RFC 7606 §5.1; see [`Reach::encode`]).
    pub fn encode(&self, out: &mut Writer, ctx: &DecodeContext) {
        self.encode_with(out, ctx, false);
    }

    /// As [`Attributes::encode`]; with `classic_next_hop` also NEXT_HOP, if it is an IPv4 address.
    pub fn encode_with(&self, out: &mut Writer, ctx: &DecodeContext, classic_next_hop: bool) {
        encode::all(self, out, ctx, classic_next_hop);
    }

    /// Canonical octets for storage, next hop included. Equal attributes give equal octets;
    /// [`Attributes::unknown`] is not kept.
    ///
    /// ```text
    /// +---- 1 ----+-- 0,4,16,32 --+-- ... --------------------------+
    /// | length of | next hop      | attributes in order of code,    |
    /// | next hop  |               | four-octet AS, without NEXT_HOP |
    /// +-----------+---------------+---------------------------------+
    /// ```
    #[must_use]
    pub fn to_octets(&self) -> Bytes {
        let mut out = Writer::with_capacity(128);
        match self.next_hop {
            None => out.u8(0),
            Some(next_hop) => next_hop.encode(&mut out),
        }
        encode::stored(self, &mut out, &STORAGE);
        out.finish()
    }

    /// Reads what [`Attributes::to_octets`] wrote.
    ///
    /// # Errors
    /// The worst fault found; every fault is one, since we wrote it ourselves.
    pub fn from_octets(octets: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(octets, 0, Fault::AttributeList);
        let length = reader.u8()?;
        let next_hop = match length {
            0 => None,
            _ => Some(NextHop::decode(&mut reader, length)?),
        };
        let mut decoded = decode::list(reader, None, &STORAGE)?;
        match decoded
            .faults
            .drain(..)
            .chain(decoded.bad_next_hop)
            .max_by_key(|error| error.fault.treatment())
        {
            Some(error) => Err(error),
            None => Ok(Self {
                next_hop,
                ..decoded.attributes
            }),
        }
    }

    /// LOCAL_PREF, or 100 where there is none. RFC 4277 §10 notes the default.
    #[must_use]
    pub fn local_pref_or_default(&self) -> u32 {
        self.local_pref.unwrap_or(100)
    }
}

impl Origin {
    /// The octet on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Igp => 0,
            Self::Egp => 1,
            Self::Incomplete => 2,
        }
    }

    /// The origin with this octet.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Igp),
            1 => Some(Self::Egp),
            2 => Some(Self::Incomplete),
            _ => None,
        }
    }
}

/// As FRR writes it: "IGP", "EGP", "incomplete".
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Igp => "IGP",
            Self::Egp => "EGP",
            Self::Incomplete => "incomplete",
        })
    }
}

/// How attributes are stored: nothing that a peer may lack.
const STORAGE: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: true,
    add_path: AddPathSet::NONE,
};
