//! Type 6, selective multicast (SMET): a leaf wants a channel. RFC 9251 §9.1.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::DecodeError;
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::{SELECTIVE_MULTICAST, address, channel::Channel};
use crate::vni::EthernetTag;

/// ```text
/// +--- 8 ---+-- 4 --+--- 2 to 34 ---+----- 5,17 -----+--- 1 ---+
/// |   RD    |  tag  |    channel    |  originator    |  flags  |     key: all but the flags
/// +---------+-------+---------------+----------------+---------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SelectiveMulticast {
    /// What identifies it.
    pub key: SelectiveMulticastKey,
    /// As sent: which versions of IGMP or MLD were heard, and whether sources are excluded; see
    /// [`MembershipFlags`].
    pub flags: MembershipFlags,
}

/// Key of type 6.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SelectiveMulticastKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// What is wanted.
    pub channel: Channel,
    /// Address of the originating router.
    pub originator: IpAddr,
}

/// What was heard of listeners, of types 6 to 8: payload, not key. RFC 9251 §9.1, §9.2, §9.3.
///
/// ```text
///   0   1   2   3   4   5   6   7
/// +---------------+---+---+---+---+
/// |   reserved    | IE| v3| v2| v1|
/// +---------------+---+---+---+---+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct MembershipFlags(pub u8);

impl MembershipFlags {
    /// IGMPv1, or MLDv1 with MLD.
    #[must_use]
    pub fn version_1(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// IGMPv2, or MLDv2 with MLD.
    #[must_use]
    pub fn version_2(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// IGMPv3.
    #[must_use]
    pub fn version_3(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// The source is not wanted, rather than only it.
    #[must_use]
    pub fn excludes(self) -> bool {
        self.0 & 0x08 != 0
    }
}

impl SelectiveMulticast {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            key: SelectiveMulticastKey::decode(body)?,
            flags: MembershipFlags(body.u8()?),
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        self.key.encode(out);
        out.u8(self.flags.0);
    }
}

impl SelectiveMulticastKey {
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            rd: Rd(body.array()?),
            tag: EthernetTag(body.u32()?),
            channel: Channel::read(body, SELECTIVE_MULTICAST)?,
            originator: address::required(body, SELECTIVE_MULTICAST)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.rd.0);
        out.u32(self.tag.0);
        self.channel.write(out);
        address::write(Some(self.originator), out);
    }
}

/// `[tag]:[bits]:[source]:[bits]:[group]:[bits]:[originator]`.
impl fmt::Display for SelectiveMulticastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = address::bits(Some(self.originator));
        let Self {
            tag,
            channel,
            originator,
            ..
        } = self;
        write!(f, "[{tag}]:{channel}:[{bits}]:[{originator}]")
    }
}
