//! Type 3, inclusive multicast Ethernet tag: a VTEP wants a domain's flooded frames. RFC 7432 §7.3.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::DecodeError;
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::{INCLUSIVE_MULTICAST, address};
use crate::vni::EthernetTag;

/// ```text
/// +--- 8 ---+-- 4 --+-- 1 --+-- 4,16 --+
/// |   RD    |  tag  | IPlen |    IP    |     key: all; the label is in the PMSI tunnel attribute
/// +---------+-------+-------+----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct InclusiveMulticast {
    /// All there is.
    pub key: InclusiveMulticastKey,
}

/// Key of type 3.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct InclusiveMulticastKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// Address of the originating router.
    pub originator: IpAddr,
}

impl InclusiveMulticast {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let key = InclusiveMulticastKey {
            rd: Rd(body.array()?),
            tag: EthernetTag(body.u32()?),
            originator: address::required(body, INCLUSIVE_MULTICAST)?,
        };
        Ok(Self { key })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.key.rd.0);
        out.u32(self.key.tag.0);
        address::write(Some(self.key.originator), out);
    }
}

impl InclusiveMulticastKey {
    pub(super) fn octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rd.0);
        out.extend_from_slice(&self.tag.0.to_be_bytes());
        address::octets(self.originator, out);
    }

    pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            rd: Rd(reader.array().ok()?),
            tag: EthernetTag(reader.u32().ok()?),
            originator: address::from_octets(reader)??,
        })
    }
}

/// `[tag]:[IPlen]:[originator]`.
impl fmt::Display for InclusiveMulticastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = address::bits(Some(self.originator));
        write!(f, "[{}]:[{bits}]:[{}]", self.tag, self.originator)
    }
}
