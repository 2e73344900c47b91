//! Type 4, Ethernet segment: a VTEP is attached to it, and may be elected. RFC 7432 §7.4.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::DecodeError;
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::{ETHERNET_SEGMENT, address};
use crate::esi::Esi;

/// ```text
/// +--- 8 ---+-- 10 --+-- 1 --+-- 4,16 --+
/// |   RD    |  ESI   | IPlen |    IP    |     key: all
/// +---------+--------+-------+----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EthernetSegment {
    /// All there is.
    pub key: EthernetSegmentKey,
}

/// Key of type 4.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EthernetSegmentKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// The segment.
    pub esi: Esi,
    /// Address of the originating router.
    pub originator: IpAddr,
}

impl EthernetSegment {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = EthernetSegmentKey {
            rd: Rd(body.array()?),
            esi: Esi(body.array()?),
            originator: address::required(body, ETHERNET_SEGMENT)?,
        };
        Ok(Self { key })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.key.rd.0);
        out.slice(&self.key.esi.0);
        address::write(Some(self.key.originator), out);
    }
}

impl EthernetSegmentKey {
    pub(super) fn octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rd.0);
        out.extend_from_slice(&self.esi.0);
        address::octets(self.originator, out);
    }

    pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rd: Rd(reader.array().ok()?),
            esi: Esi(reader.array().ok()?),
            originator: address::from_octets(reader)??,
        })
    }
}

/// `[ESI]:[IPlen]:[originator]`.
impl fmt::Display for EthernetSegmentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = address::bits(Some(self.originator));
        write!(f, "[{}]:[{bits}]:[{}]", self.esi, self.originator)
    }
}
