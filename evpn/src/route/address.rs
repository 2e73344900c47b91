//! The field of one length octet, in bits, and an IP address that three route types share.

use std::net::IpAddr;

use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::wire::{Reader, Writer};

/// Reads a length of 0, 32 or 128 bits and the address. Any other length is a fault of `route_type`.
pub(super) fn read(body: &mut Reader<'_>, route_type: u8) -> Result<Option<IpAddr>, DecodeError> {
    let bad = body.error(Fault::NlriValue {
        route_type,
        what: "IP address length",
    });
    match body.u8()? {
        0 => Ok(None),
        32 => body.array::<4>().map(|octets| Some(octets.into())),
        128 => body.array::<16>().map(|octets| Some(octets.into())),
        _ => Err(bad),
    }
}

/// As [`read`], where there has to be an address.
pub(super) fn required(body: &mut Reader<'_>, route_type: u8) -> Result<IpAddr, DecodeError> {
    let bad = body.error(Fault::NlriValue {
        route_type,
        what: "IP address length",
    });
    read(body, route_type)?.ok_or(bad)
}

/// Writes what [`read`] reads.
pub(super) fn write(address: Option<IpAddr>, out: &mut Writer) {
    out.u8(bits(address));
    match address {
        None => {}
        Some(IpAddr::V4(address)) => out.slice(&address.octets()),
        Some(IpAddr::V6(address)) => out.slice(&address.octets()),
    }
}

/// Length of the address in bits: 0, 32 or 128.
pub(super) fn bits(address: Option<IpAddr>) -> u8 {
    match address {
        None => 0,
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
    }
}

/// The address at the end of stored octets: as long as its family, or nothing.
pub(super) fn from_octets(reader: &mut Reader<'_>) -> Option<Option<IpAddr>> {
    match reader.remaining() {
        0 => Some(None),
        4 => reader.array::<4>().ok().map(|octets| Some(octets.into())),
        16 => reader.array::<16>().ok().map(|octets| Some(octets.into())),
        _ => None,
    }
}

/// Appends the address without a length.
pub(super) fn octets(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}
