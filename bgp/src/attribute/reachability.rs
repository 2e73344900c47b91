//! MP_REACH_NLRI and MP_UNREACH_NLRI: family, next hop, and NLRI as octets. Knows no NLRI layout;
//! the family's codec decodes what stands here.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use crate::attribute::encode::header;
use crate::attribute::row::{Category, code};
use crate::error::{DecodeError, Fault};
use crate::family::Family;
use crate::wire::{Reader, Writer};

/// Where to send packets to: NEXT_HOP, or the next hop of MP_REACH_NLRI.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NextHop {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
    /// A global IPv6 address and a link-local one. RFC 2545 §3.
    V6LinkLocal(Ipv6Addr, Ipv6Addr),
}

/// Routes announced in MP_REACH_NLRI. RFC 4760 §3.
///
/// ```text
/// +-- 2 --+-- 1 --+-- 1 --+-- 4 to 48 --+-- 1 --+-- ... --+
/// |  AFI  | SAFI  |length |  next hop   |   0   |  NLRI   |
/// +-------+-------+-------+-------------+-------+---------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Of which family.
    pub family: Family,
    /// Their next hop.
    pub next_hop: NextHop,
    /// The NLRI field, for the family's codec.
    pub nlri: Bytes,
}

/// Routes withdrawn in MP_UNREACH_NLRI; End-of-RIB when there are none. RFC 4760 §4, RFC 4724 §2.
///
/// ```text
/// +-- 2 --+-- 1 --+-- ... --+
/// |  AFI  | SAFI  |  NLRI   |
/// +-------+-------+---------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreach {
    /// Of which family.
    pub family: Family,
    /// The NLRI field, for the family's codec.
    pub nlri: Bytes,
}

impl NextHop {
    /// Octets of the address or addresses.
    #[must_use]
    pub fn octets_len(self) -> u8 {
        match self {
            Self::V4(_) => 4,
            Self::V6(_) => 16,
            Self::V6LinkLocal(..) => 32,
        }
    }

    /// Whether it can be the address of a host: neither unspecified, loopback nor multicast, nor of
    /// class E or a limited broadcast. RFC 4271 §6.3.
    #[must_use]
    pub fn is_host(self) -> bool {
        match self {
            Self::V4(address) => {
                let [first, ..] = address.octets();
                !matches!(first, 0 | 127 | 224..)
            }
            Self::V6(address) | Self::V6LinkLocal(address, _) => {
                !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
            }
        }
    }

    /// Whether it is an IPv6 address that means nothing on another link, and no global one beside it.
    #[must_use]
    pub fn is_link_local(self) -> bool {
        match self {
            Self::V4(_) => false,
            Self::V6(address) | Self::V6LinkLocal(address, _) => address.is_unicast_link_local(),
        }
    }

    /// The same for those who may be on another link. RFC 2545 §3.
    #[must_use]
    pub fn beyond_the_link(self) -> Self {
        match self {
            Self::V4(_) | Self::V6(_) => self,
            Self::V6LinkLocal(global, _) => Self::V6(global),
        }
    }

    /// Writes length and address.
    pub(crate) fn encode(self, out: &mut Writer) {
        out.u8(self.octets_len());
        match self {
            Self::V4(address) => out.slice(&address.octets()),
            Self::V6(address) => out.slice(&address.octets()),
            Self::V6LinkLocal(global, link_local) => {
                out.slice(&global.octets());
                out.slice(&link_local.octets());
            }
        }
    }

    /// Reads `length` octets that follow a length.
    pub(crate) fn decode(reader: &mut Reader<'_>, length: u8) -> Result<Self, DecodeError> {
        let bad_length = reader.error(Fault::NextHopLength { length });
        let mut octets = reader.sub(length.into()).map_err(|_| bad_length)?;
        match length {
            4 => Ok(Self::V4(octets.array::<4>()?.into())),
            16 => Ok(Self::V6(octets.array::<16>()?.into())),
            32 => {
                let global = octets.array::<16>()?.into();
                Ok(Self::V6LinkLocal(global, octets.array::<16>()?.into()))
            }
            _ => Err(bad_length),
        }
    }

    /// As [`NextHop::decode`]; also behind a route distinguisher, which says nothing and is skipped,
    /// and of two addresses only the global one.
    ///
    /// ```text
    /// +-- 0 or 8 --+-- 4,16 --+-- 0 or 8 --+-- 0 or 16 --+
    /// |     RD     | address  |     RD     | link-local  |   length 4, 12, 16, 24, 32 or 48
    /// +------------+----------+------------+-------------+
    /// ```
    fn decode_global(reader: &mut Reader<'_>, length: u8) -> Result<Self, DecodeError> {
        let bad_length = reader.error(Fault::NextHopLength { length });
        let mut octets = reader.sub(length.into()).map_err(|_| bad_length)?;
        if matches!(length, 12 | 24 | 48) {
            octets.take(8)?;
        }
        match length {
            4 | 12 => Ok(Self::V4(octets.array::<4>()?.into())),
            16 | 24 | 32 | 48 => Ok(Self::V6(octets.array::<16>()?.into())),
            _ => Err(bad_length),
        }
    }
}

/// The address; of two, the global one.
impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(address) | Self::V6LinkLocal(address, _) => address.fmt(f),
        }
    }
}

/// What stands in MP_REACH_NLRI, or that its family is not ours.
pub(crate) enum DecodedReach {
    Known(Reach),
    Unknown(Family),
}

impl Reach {
    /// The complete attribute, header included. RFC 7606 §5.1 puts it before all others.
    pub fn encode(&self, out: &mut Writer) {
        let head = usize::from(self.next_hop.octets_len()).saturating_add(5);
        let length = head.saturating_add(self.nlri.len());
        header(
            out,
            Category::OptionalNonTransitive,
            code::MP_REACH_NLRI,
            length,
        );
        out.u16(self.family.afi);
        out.u8(self.family.safi);
        self.next_hop.encode(out);
        out.u8(0);
        out.slice(&self.nlri);
    }

    /// Octets that an MP_REACH_NLRI has beside its NLRI, its header with a two-octet length
    /// included.
    #[must_use]
    pub fn overhead(next_hop: NextHop) -> usize {
        usize::from(next_hop.octets_len()).saturating_add(9)
    }

    /// The value of the attribute. RFC 7606 §7.11: a next hop that cannot be told from the NLRI ends
    /// the session.
    pub(crate) fn decode(
        reader: &mut Reader<'_>,
        body: &Bytes,
    ) -> Result<DecodedReach, DecodeError> {
        let family = Family {
            afi: reader.u16()?,
            safi: reader.u8()?,
        };
        if !family.is_known() {
            return Ok(DecodedReach::Unknown(family));
        }
        let length_at = reader.offset();
        let length = reader.u8()?;
        if !next_hop_lengths(family).contains(&length) {
            return Err(DecodeError {
                fault: Fault::NextHopLength { length },
                offset: length_at,
            });
        }
        let next_hop = match family {
            Family::IPV4_UNICAST | Family::IPV6_UNICAST => NextHop::decode(reader, length)?,
            _ => NextHop::decode_global(reader, length)?,
        };
        // Once the number of SNPAs; to be ignored. RFC 4760 §3.
        reader.u8()?;
        let nlri = body.slice_ref(reader.rest());
        Ok(DecodedReach::Known(Self {
            family,
            next_hop,
            nlri,
        }))
    }
}

impl Unreach {
    /// The complete attribute, header included. RFC 7606 §5.1 puts it before all others.
    pub fn encode(&self, out: &mut Writer) {
        let length = self.nlri.len().saturating_add(3);
        header(
            out,
            Category::OptionalNonTransitive,
            code::MP_UNREACH_NLRI,
            length,
        );
        out.u16(self.family.afi);
        out.u8(self.family.safi);
        out.slice(&self.nlri);
    }

    /// Octets that an MP_UNREACH_NLRI has beside its NLRI, its header with a two-octet length
    /// included.
    pub const OVERHEAD: usize = 7;

    pub(crate) fn decode(reader: &mut Reader<'_>, body: &Bytes) -> Result<Self, DecodeError> {
        let family = Family {
            afi: reader.u16()?,
            safi: reader.u8()?,
        };
        let nlri = body.slice_ref(reader.rest());
        Ok(Self { family, nlri })
    }
}

/// Lengths of next hops. RFC 4760 §3 and RFC 8950 §3 for IPv4, RFC 2545 §3 for IPv6. RFC 7432 §7.11 for
/// EVPN and RFC 4684 §5 for route targets have 4 and 16 only; some speakers write there what they write
/// for VPNs, or a link-local address too, and FRR 8.4 to 10.7 read all of these.
fn next_hop_lengths(family: Family) -> &'static [u8] {
    match family {
        Family::IPV4_UNICAST => &[4, 16, 32],
        Family::IPV6_UNICAST => &[16, 32],
        Family::L2VPN_EVPN | Family::RTC => &[4, 12, 16, 24, 32, 48],
        _ => &[],
    }
}
