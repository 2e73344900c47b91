//! Type 5, an IP prefix. RFC 9136 §3.1.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::rd::Rd;
use weft_bgp::wire::{Reader, Writer};

use super::{IP_PREFIX, label};
use crate::esi::Esi;
use crate::vni::{EthernetTag, Label};

/// ```text
/// +--- 8 ---+-- 10 --+-- 4 --+-- 1 --+-- 4,16 --+-- 4,16 --+--- 3 ---+
/// |   RD    |  ESI   |  tag  | bits  |  prefix  | gateway  |  label  |
/// +---------+--------+-------+-------+----------+----------+---------+
///     key              key     key       key
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct IpPrefix {
    /// What identifies it.
    pub key: IpPrefixKey,
    /// Overlay index: a segment; zero when there is none.
    pub esi: Esi,
    /// Overlay index: a gateway; `None` for all zero. One of the other family is sent as zero.
    pub gateway: Option<IpAddr>,
    /// As sent; absent only from withdrawals of some speakers.
    pub label: Option<Label>,
}

/// Key of type 5.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IpPrefixKey {
    /// Route distinguisher.
    pub rd: Rd,
    /// Broadcast domain within the instance.
    pub tag: EthernetTag,
    /// The prefix.
    pub prefix: Prefix,
}

/// A prefix of either family, host bits zero.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Prefix {
    /// IPv4.
    V4(Prefix4),
    /// IPv6.
    V6(Prefix6),
}

impl Prefix {
    /// `address`/`bits` with its host bits cleared; `None` when the family has not so many bits.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        match address {
            IpAddr::V4(address) => Prefix4::new(address, bits).map(Self::V4),
            IpAddr::V6(address) => Prefix6::new(address, bits).map(Self::V6),
        }
    }

    /// The address, host bits zero.
    #[must_use]
    pub fn address(self) -> IpAddr {
        match self {
            Self::V4(prefix) => prefix.addr.into(),
            Self::V6(prefix) => prefix.addr.into(),
        }
    }

    /// Bits of the network.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::V4(prefix) => prefix.len,
            Self::V6(prefix) => prefix.len,
        }
    }
}

impl IpPrefix {
    /// The family is told by the length of the NLRI alone. RFC 9136 §3.1.
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let rd = Rd(body.array()?);
        let esi = Esi(body.array()?);
        let tag = EthernetTag(body.u32()?);
        let bad_bits = body.error(Fault::NlriValue {
            route_type: IP_PREFIX,
            what: "prefix length",
        });
        let bits = body.u8()?;
        let (address, gateway): (IpAddr, IpAddr) = if body.remaining() < V6_OCTETS {
            (body.array::<4>()?.into(), body.array::<4>()?.into())
        } else {
            (body.array::<16>()?.into(), body.array::<16>()?.into())
        };
        let prefix = Prefix::new(address, bits).ok_or(bad_bits)?;
        Ok(Self {
            key: IpPrefixKey { rd, tag, prefix },
            esi,
            gateway: unless_zero(gateway),
            label: label(body)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Writer) {
        out.slice(&self.key.rd.0);
        out.slice(&self.esi.0);
        out.u32(self.key.tag.0);
        out.u8(self.key.prefix.bits());
        match self.key.prefix {
            Prefix::V4(prefix) => {
                out.slice(&prefix.addr.octets());
                out.slice(&self.gateway4().octets());
            }
            Prefix::V6(prefix) => {
                out.slice(&prefix.addr.octets());
                out.slice(&self.gateway6().octets());
            }
        }
        if let Some(label) = self.label {
            out.slice(&label.0);
        }
    }

    pub(super) fn payload_octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.esi.0);
        match self.key.prefix {
            Prefix::V4(_) => out.extend_from_slice(&self.gateway4().octets()),
            Prefix::V6(_) => out.extend_from_slice(&self.gateway6().octets()),
        }
        out.extend(self.label.iter().flat_map(|label| label.0));
    }

    pub(super) fn from_payload(key: IpPrefixKey, payload: &mut Reader<'_>) -> Option<Self> {
        let esi = Esi(payload.array().ok()?);
        let gateway = match key.prefix {
            Prefix::V4(_) => payload.array::<4>().ok()?.into(),
            Prefix::V6(_) => payload.array::<16>().ok()?.into(),
        };
        Some(Self {
            key,
            esi,
            gateway: unless_zero(gateway),
            label: label(payload).ok()?,
        })
    }

    fn gateway4(&self) -> Ipv4Addr {
        match self.gateway {
            Some(IpAddr::V4(gateway)) => gateway,
            Some(IpAddr::V6(_)) | None => Ipv4Addr::UNSPECIFIED,
        }
    }

    fn gateway6(&self) -> Ipv6Addr {
        match self.gateway {
            Some(IpAddr::V6(gateway)) => gateway,
            Some(IpAddr::V4(_)) | None => Ipv6Addr::UNSPECIFIED,
        }
    }
}

fn unless_zero(gateway: IpAddr) -> Option<IpAddr> {
    (!gateway.is_unspecified()).then_some(gateway)
}

impl IpPrefixKey {
    pub(super) fn bare(self) -> IpPrefix {
        IpPrefix {
            key: self,
            esi: Esi::ZERO,
            gateway: None,
            label: Some(Label::ZERO),
        }
    }

    pub(super) fn octets(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rd.0);
        out.extend_from_slice(&self.tag.0.to_be_bytes());
        out.push(self.prefix.bits());
        super::address::octets(self.prefix.address(), out);
    }

    pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Self> {
        let rd = Rd(reader.array().ok()?);
        let tag = EthernetTag(reader.u32().ok()?);
        let bits = reader.u8().ok()?;
        let address = super::address::from_octets(reader)??;
        Some(Self {
            rd,
            tag,
            prefix: Prefix::new(address, bits)?,
        })
    }
}

/// `[tag]:[bits]:[prefix]`.
impl fmt::Display for IpPrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "[{}]:[{}]:[{}]",
            self.tag,
            self.prefix.bits(),
            self.prefix.address()
        )
    }
}

/// Prefix and gateway of IPv6; those of IPv4 and a label are shorter.
const V6_OCTETS: usize = 32;
