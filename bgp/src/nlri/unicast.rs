//! IPv4 and IPv6 unicast prefixes. Knows no attribute.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;
use std::net::{AddrParseError, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::attribute::{Attributes, NextHop, PmsiTunnel};
use crate::error::Fault;
use crate::family::Family;
use crate::nlri::{Nlri, NlriError};
use crate::reflect::Filter;
use crate::wire::{Reader, Writer};

/// An IPv4 prefix. RFC 4271 §4.3.
///
/// ```text
/// +-- 1 --+-- 0..4 --+
/// |  len  |  prefix  |     as many octets as len bits need
/// +-------+----------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix4 {
    /// The address, host bits zero.
    pub addr: Ipv4Addr,
    /// Bits of the network, 0 to 32.
    pub len: u8,
}

/// An IPv6 prefix, laid out like [`Prefix4`] with up to 16 octets. RFC 2545, RFC 4760 §5.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix6 {
    /// The address, host bits zero.
    pub addr: Ipv6Addr,
    /// Bits of the network, 0 to 128.
    pub len: u8,
}

impl Prefix4 {
    /// `addr`/`len` with its host bits cleared; `None` when `len` is more than 32.
    #[must_use]
    pub fn new(addr: Ipv4Addr, len: u8) -> Option<Self> {
        let host_bits = 32_u32.checked_sub(len.into())?;
        let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        Some(Self {
            addr: Ipv4Addr::from(u32::from(addr) & mask),
            len,
        })
    }
}

impl Prefix6 {
    /// `addr`/`len` with its host bits cleared; `None` when `len` is more than 128.
    #[must_use]
    pub fn new(addr: Ipv6Addr, len: u8) -> Option<Self> {
        let host_bits = 128_u32.checked_sub(len.into())?;
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        Some(Self {
            addr: Ipv6Addr::from(u128::from(addr) & mask),
            len,
        })
    }
}

/// Bit of a [`Filter`]: IPv4 prefixes may have an IPv6 next hop; for peers with which
/// [`crate::session::Negotiated::ipv4_over_ipv6`] was agreed. RFC 8950 §4.
pub const IPV4_OVER_IPV6: u32 = 1 << 31;

/// Reads a length and as many octets as it needs, zero-filled to `N`. RFC 7606 §5.3: a length above
/// the family's, or octets that are not there, lose the framing.
fn read<const N: usize>(reader: &mut Reader<'_>) -> Result<(u8, [u8; N]), NlriError> {
    let start = reader.error(Fault::Network);
    let len = reader.u8().map_err(|_| NlriError::Reset(start))?;
    let mut addr = [0; N];
    let field = addr
        .get_mut(..octets_of(len))
        .ok_or(NlriError::Reset(start))?;
    let prefix = reader
        .take(field.len())
        .map_err(|_| NlriError::Reset(start))?;
    field.copy_from_slice(prefix);
    Ok((len, addr))
}

fn write(len: u8, addr: &[u8], out: &mut Writer) {
    out.u8(len);
    out.slice(addr.get(..octets_of(len)).unwrap_or(addr));
}

fn octets_of(len: u8) -> usize {
    usize::from(len.div_ceil(8))
}

impl Nlri for Prefix4 {
    type Key = Self;

    fn family() -> Family {
        Family::IPV4_UNICAST
    }

    fn key(&self) -> Self {
        *self
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        let start = reader.error(Fault::Network);
        let (len, addr) = read::<4>(reader)?;
        Self::new(addr.into(), len).ok_or(NlriError::Reset(start))
    }

    fn encode(&self, out: &mut Writer) {
        write(self.len, &self.addr.octets(), out);
    }

    fn encode_withdraw(key: &Self, out: &mut Writer) {
        key.encode(out);
    }

    fn key_octets(key: &Self, out: &mut Vec<u8>) {
        out.push(key.len);
        out.extend_from_slice(&key.addr.octets());
    }

    fn key_from_octets(octets: &[u8]) -> Option<Self> {
        let (&len, addr) = octets.split_first()?;
        Self::new(<[u8; 4]>::try_from(addr).ok()?.into(), len)
    }

    fn payload_octets(&self, _out: &mut Vec<u8>) {}

    fn from_parts(key: Self, payload: &[u8]) -> Option<Self> {
        payload.is_empty().then_some(key)
    }

    /// RFC 8950 §4: an IPv6 next hop goes only to a peer that said that it takes them.
    fn sendable(&self, attributes: &Attributes, filter: Filter) -> bool {
        if !attributes.pmsi.as_ref().is_none_or(PmsiTunnel::is_plain) {
            return false;
        }
        match attributes.next_hop {
            Some(NextHop::V4(_)) | None => true,
            Some(NextHop::V6(_) | NextHop::V6LinkLocal(..)) => filter.0 & IPV4_OVER_IPV6 != 0,
        }
    }
}

impl Nlri for Prefix6 {
    type Key = Self;

    fn family() -> Family {
        Family::IPV6_UNICAST
    }

    fn key(&self) -> Self {
        *self
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, NlriError> {
        let start = reader.error(Fault::Network);
        let (len, addr) = read::<16>(reader)?;
        Self::new(addr.into(), len).ok_or(NlriError::Reset(start))
    }

    fn encode(&self, out: &mut Writer) {
        write(self.len, &self.addr.octets(), out);
    }

    fn encode_withdraw(key: &Self, out: &mut Writer) {
        key.encode(out);
    }

    fn key_octets(key: &Self, out: &mut Vec<u8>) {
        out.push(key.len);
        out.extend_from_slice(&key.addr.octets());
    }

    fn key_from_octets(octets: &[u8]) -> Option<Self> {
        let (&len, addr) = octets.split_first()?;
        Self::new(<[u8; 16]>::try_from(addr).ok()?.into(), len)
    }

    fn payload_octets(&self, _out: &mut Vec<u8>) {}

    fn from_parts(key: Self, payload: &[u8]) -> Option<Self> {
        payload.is_empty().then_some(key)
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Debug for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixParseError {
    /// No slash, or no length from 0 to the family's after it.
    Length,
    /// No address before the slash.
    Address(AddrParseError),
}

impl fmt::Display for PrefixParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("bad prefix length"),
            Self::Address(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PrefixParseError {}

impl FromStr for Prefix4 {
    type Err = PrefixParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (addr, len) = text.split_once('/').ok_or(PrefixParseError::Length)?;
        let addr = addr.parse().map_err(PrefixParseError::Address)?;
        let len = len.parse().map_err(|_| PrefixParseError::Length)?;
        Self::new(addr, len).ok_or(PrefixParseError::Length)
    }
}

impl FromStr for Prefix6 {
    type Err = PrefixParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (addr, len) = text.split_once('/').ok_or(PrefixParseError::Length)?;
        let addr = addr.parse().map_err(PrefixParseError::Address)?;
        let len = len.parse().map_err(|_| PrefixParseError::Length)?;
        Self::new(addr, len).ok_or(PrefixParseError::Length)
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a test may fail where it stands")]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::error::DecodeError;
    use crate::nlri::decode_all;

    fn all<N: Nlri>(octets: &[u8]) -> Result<Vec<N>, DecodeError> {
        let mut prefixes = Vec::new();
        decode_all(
            octets,
            false,
            |_, prefix| prefixes.push(prefix),
            |_| unreachable!(),
        )?;
        Ok(prefixes)
    }

    /// Which ends the session of an FRR 8.4.4, though the route has no use for it.
    #[test]
    fn a_tunnel_that_not_everybody_reads_is_not_told_beside_unicast_routes() {
        let tunnel = |tunnel_type, endpoint: &'static [u8]| Attributes {
            pmsi: Some(PmsiTunnel {
                flags: 0,
                tunnel_type,
                label: [0; 3],
                endpoint: Bytes::from_static(endpoint),
            }),
            ..Attributes::default()
        };
        let sendable = |attributes: &Attributes| {
            let filter = Filter(u32::MAX);
            let v4 = Prefix4::new([192, 0, 2, 0].into(), 24).unwrap();
            let v6 = Prefix6::new(1.into(), 128).unwrap();
            assert_eq!(
                v4.sendable(attributes, filter),
                v6.sendable(attributes, filter)
            );
            v4.sendable(attributes, filter)
        };
        assert!(sendable(&Attributes::default()));
        assert!(sendable(&tunnel(6, &[192, 0, 2, 1])));
        for odd in [tunnel(6, &[1; 16]), tunnel(11, &[1]), tunnel(200, &[])] {
            assert!(!sendable(&odd));
        }
    }

    #[test]
    fn host_bits_are_cleared() {
        let prefixes: Vec<Prefix4> = all(&[0, 20, 192, 0, 0x2f, 32, 192, 0, 2, 1]).unwrap();
        assert_eq!(
            format!("{prefixes:?}"),
            "[0.0.0.0/0, 192.0.32.0/20, 192.0.2.1/32]"
        );
        let prefixes: Vec<Prefix6> = all(&[0, 33, 0x20, 1, 0xd, 0xb8, 0xff]).unwrap();
        assert_eq!(format!("{prefixes:?}"), "[::/0, 2001:db8:8000::/33]");
    }

    #[test]
    fn lengths_beyond_the_family_or_the_field_reset() {
        let error = DecodeError {
            fault: Fault::Network,
            offset: 1,
        };
        assert_eq!(all::<Prefix4>(&[0, 33, 1, 2, 3, 4, 5]), Err(error));
        assert_eq!(all::<Prefix4>(&[0, 24, 1, 2]), Err(error));
        assert_eq!(all::<Prefix6>(&[0, 129, 1]), Err(error));
        assert_eq!(all::<Prefix6>(&[0, 255]), Err(error));
    }

    #[test]
    fn keys_are_stored_and_found_again() {
        let prefix: Prefix4 = "198.51.100.0/24".parse().unwrap();
        let mut octets = Vec::new();
        Prefix4::key_octets(&prefix, &mut octets);
        assert_eq!(Prefix4::key_from_octets(&octets), Some(prefix));
        assert_eq!(Prefix4::key_from_octets(&octets[1..]), None);
        assert_eq!(Prefix4::from_parts(prefix, &[]), Some(prefix));
        assert_eq!(Prefix4::from_parts(prefix, &[0]), None);
        assert!("198.51.100.0/33".parse::<Prefix4>().is_err());
        assert!("2001:db8::/129".parse::<Prefix6>().is_err());
    }
}
