//! Types 7 and 8: the VTEPs of one segment tell each other which reports and leaves they heard of
//! listeners. RFC 9251 §9.2, §9.3.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::DecodeError;
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::multicast::MembershipFlags;
use super::{address, channel::Channel};
use crate::esi::Esi;
use crate::vni::EthernetTag;

/// Type 7, multicast membership report synch.
///
/// ```text
/// +--- 8 ---+-- 10 --+-- 4 --+--- 2 to 34 ---+----- 5,17 -----+--- 1 ---+
/// |   RD    |  ESI   |  tag  |    channel    |  originator    |  flags  |     key: all but the flags
/// +---------+--------+-------+---------------+----------------+---------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MulticastJoin {
    /// What identifies it.
    pub key: MulticastSyncKey,
    /// What was heard.
    pub flags: MembershipFlags,
}

/// Type 8, multicast leave synch.
///
/// ```text
/// +- as type 7, up to the originator -+---- 4 ----+------- 1 -------+--- 1 ---+
/// |               key                 | reserved  | longest answer  |  flags  |
/// +-----------------------------------+-----------+-----------------+---------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MulticastLeave {
    /// What identifies it.
    pub key: MulticastSyncKey,
    /// As sent; it once was a number of the leave.
    pub reserved: [u8; 4],
    /// Maximum response time of the query, as IGMP or MLD encodes it.
    pub response_time: u8,
    /// What was heard.
    pub flags: MembershipFlags,
}

/// Key of types 7 and 8.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct MulticastSyncKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// The segment on which it was heard.
    pub esi: Esi,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// What is wanted, or no longer.
    pub channel: Channel,
    /// Address of the originating router.
    pub originator: IpAddr,
}

impl MulticastJoin {
    pub(super) fn decode(body: &mut Reader<'_>, route_type: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            key: MulticastSyncKey::decode(body, route_type)?,
            flags: MembershipFlags(body.u8()?),
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        self.key.encode(out);
        out.u8(self.flags.0);
    }
}

impl MulticastLeave {
    pub(super) fn decode(body: &mut Reader<'_>, route_type: u8) -> Result<Self, DecodeError> {
        let key = MulticastSyncKey::decode(body, route_type)?;
        Self::decode_payload(key, body)
    }

    pub(super) fn decode_payload(
        key: MulticastSyncKey,
        body: &mut Reader<'_>,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            key,
            reserved: body.array()?,
            response_time: body.u8()?,
            flags: MembershipFlags(body.u8()?),
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        self.key.encode(out);
        for octet in self.payload() {
            out.u8(octet);
        }
    }

    pub(super) fn payload(&self) -> [u8; 6] {
        let [a, b, c, d] = self.reserved;
        [a, b, c, d, self.response_time, self.flags.0]
    }
}

impl MulticastSyncKey {
    pub(super) fn decode(body: &mut Reader<'_>, route_type: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            rd: Rd(body.array()?),
            esi: Esi(body.array()?),
            tag: EthernetTag(body.u32()?),
            channel: Channel::read(body, route_type)?,
            originator: address::required(body, route_type)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.rd.0);
        out.slice(&self.esi.0);
        out.u32(self.tag.0);
        self.channel.write(out);
        address::write(Some(self.originator), out);
    }

    pub(super) fn bare_leave(self) -> MulticastLeave {
        MulticastLeave {
            key: self,
            reserved: [0; 4],
            response_time: 0,
            flags: MembershipFlags::default(),
        }
    }
}

/// `[ESI]:[tag]:[bits]:[source]:[bits]:[group]:[bits]:[originator]`.
impl fmt::Display for MulticastSyncKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = address::bits(Some(self.originator));
        let Self {
            esi,
            tag,
            channel,
            originator,
            ..
        } = self;
        write!(f, "[{esi}]:[{tag}]:{channel}:[{bits}]:[{originator}]")
    }
}
