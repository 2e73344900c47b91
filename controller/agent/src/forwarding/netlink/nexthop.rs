//! Next-hop objects on the wire of rtnetlink (`linux/nexthop.h`), which netlink-packet-route does
//! not have. Knows no socket.
//!
//! ```text
//! struct nhmsg        family(1) scope(1) protocol(1) reserved(1) flags(4)
//! attributes          length(2) type(2) value, padded to 4; host byte order, addresses as on the wire
//!   1 NHA_ID          u32
//!   2 NHA_GROUP       n x struct nexthop_grp: id(4) weight-1(1) high octet of weight-1(1) reserved(2)
//!   5 NHA_OIF         u32
//!   6 NHA_GATEWAY     4 or 16 octets
//! ```

use std::net::IpAddr;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, Nla, NlaBuffer, NlasIterator, Parseable, emit_u32, parse_ip,
    parse_u32,
};

use crate::forwarding::Member;

/// One next hop or group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::forwarding) struct NextHopMessage {
    /// AF_INET, AF_INET6, or AF_UNSPEC for a group and for requests.
    pub(in crate::forwarding) family: u8,
    /// Who made it.
    pub(in crate::forwarding) protocol: u8,
    /// RTNH_F_*.
    pub(in crate::forwarding) flags: u32,
    /// In the order given.
    pub(in crate::forwarding) attributes: Vec<Attribute>,
}

/// The attributes that the agent uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::forwarding) enum Attribute {
    /// NHA_ID.
    Id(u32),
    /// NHA_GROUP.
    Group(Vec<Member>),
    /// NHA_OIF.
    Interface(u32),
    /// NHA_GATEWAY.
    Gateway(IpAddr),
    /// Any other.
    Unknown(DefaultNla),
}

impl Nla for Attribute {
    fn value_len(&self) -> usize {
        match self {
            Self::Id(_) | Self::Interface(_) => 4,
            Self::Group(members) => members.len() * MEMBER_LEN,
            Self::Gateway(IpAddr::V4(_)) => 4,
            Self::Gateway(IpAddr::V6(_)) => 16,
            Self::Unknown(nla) => nla.value_len(),
        }
    }

    fn kind(&self) -> u16 {
        match self {
            Self::Id(_) => NHA_ID,
            Self::Group(_) => NHA_GROUP,
            Self::Interface(_) => NHA_OIF,
            Self::Gateway(_) => NHA_GATEWAY,
            Self::Unknown(nla) => nla.kind(),
        }
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        match self {
            Self::Id(value) | Self::Interface(value) => {
                buffer.copy_from_slice(&value.to_ne_bytes())
            }
            Self::Gateway(IpAddr::V4(address)) => buffer.copy_from_slice(&address.octets()),
            Self::Gateway(IpAddr::V6(address)) => buffer.copy_from_slice(&address.octets()),
            Self::Group(members) => {
                for (member, out) in members.iter().zip(buffer.chunks_exact_mut(MEMBER_LEN)) {
                    let [low, high] = member.weight.saturating_sub(1).to_le_bytes();
                    let [a, b, c, d] = member.next_hop.to_ne_bytes();
                    out.copy_from_slice(&[a, b, c, d, low, high, 0, 0]);
                }
            }
            Self::Unknown(nla) => nla.emit_value(buffer),
        }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> Parseable<NlaBuffer<&'a T>> for Attribute {
    fn parse(buffer: &NlaBuffer<&'a T>) -> Result<Self, DecodeError> {
        let value = buffer.value();
        Ok(match buffer.kind() {
            NHA_ID => Self::Id(parse_u32(value)?),
            NHA_OIF => Self::Interface(parse_u32(value)?),
            NHA_GATEWAY => Self::Gateway(parse_ip(value)?),
            NHA_GROUP => Self::Group(value.chunks_exact(MEMBER_LEN).filter_map(member).collect()),
            _ => Self::Unknown(DefaultNla::parse(buffer)?),
        })
    }
}

fn member(octets: &[u8]) -> Option<Member> {
    let [a, b, c, d, low, high, ..] = *octets else {
        return None;
    };
    let next_hop = u32::from_ne_bytes([a, b, c, d]);
    Some(Member {
        next_hop,
        weight: u16::from_le_bytes([low, high]).saturating_add(1),
    })
}

impl Emitable for NextHopMessage {
    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER_LEN);
        let (fixed, flags) = header.split_at_mut(4);
        fixed.copy_from_slice(&[self.family, 0, self.protocol, 0]);
        // The buffer has `buffer_len` octets, so this cannot fail.
        let _fits = emit_u32(flags, self.flags);
        self.attributes.as_slice().emit(attributes);
    }
}

impl Parseable<[u8]> for NextHopMessage {
    fn parse(octets: &[u8]) -> Result<Self, DecodeError> {
        let Some((&[family, _, protocol, _, ..], rest)) = octets.split_at_checked(HEADER_LEN)
        else {
            return Err(DecodeError::from("next-hop message without a header"));
        };
        let flags = octets.get(4..HEADER_LEN).map_or(Ok(0), parse_u32)?;
        let mut attributes = Vec::new();
        for nla in NlasIterator::new(rest) {
            attributes.push(Attribute::parse(&nla?)?);
        }
        Ok(Self {
            family,
            protocol,
            flags,
            attributes,
        })
    }
}

const HEADER_LEN: usize = 8;
const MEMBER_LEN: usize = 8;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by hand from linux/nexthop.h: `ip nexthop add id 7 group 1,3/2 proto 155`.
    #[cfg(target_endian = "little")]
    #[test]
    fn a_group_has_the_kernels_layout() {
        let octets: &[u8] = &[
            0, 0, 155, 0, 0, 0, 0, 0, //
            8, 0, 1, 0, 7, 0, 0, 0, //
            20, 0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        ];
        let members = vec![
            Member {
                next_hop: 1,
                weight: 3,
            },
            Member {
                next_hop: 2,
                weight: 1,
            },
        ];
        let message = NextHopMessage {
            protocol: 155,
            attributes: vec![Attribute::Id(7), Attribute::Group(members)],
            ..NextHopMessage::default()
        };
        assert_eq!(NextHopMessage::parse(octets).expect("valid"), message);
        let mut emitted = vec![0; message.buffer_len()];
        message.emit(&mut emitted);
        assert_eq!(emitted, octets);
    }

    #[test]
    fn the_largest_weight_survives() {
        let members = vec![Member {
            next_hop: 1,
            weight: 256,
        }];
        let message = NextHopMessage {
            attributes: vec![Attribute::Group(members)],
            ..NextHopMessage::default()
        };
        let mut emitted = vec![0; message.buffer_len()];
        message.emit(&mut emitted);
        assert_eq!(
            NextHopMessage::parse(emitted.as_slice()).expect("valid"),
            message
        );
    }

    #[test]
    fn no_octets_make_it_panic() {
        let octets: Vec<u8> = (0..64_u8).map(|n| n.wrapping_mul(37)).collect();
        for end in 0..octets.len() {
            drop(NextHopMessage::parse(octets.get(..end).unwrap_or_default()));
        }
    }
}
