//! The octets of a frozen MAC address: where it is held. Knows nothing of why.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, Bytes, BytesMut};
use weft_evpn::esi::Esi;
use weft_evpn::moves::{Holder, Place};
use weft_evpn::{Mac, Vni};

/// The octets of the fact: length(1), which tells the forms apart, then an IPv4 address (4), an IPv6 address (16)
/// or an ESI (10).
pub fn encode_holder(holder: Holder) -> Bytes {
    let mut value = BytesMut::with_capacity(17);
    let mut put = |octets: &[u8]| {
        value.put_u8(u8::try_from(octets.len()).expect("a holder has at most 16 octets"));
        value.put_slice(octets);
    };
    match holder {
        Holder::Vtep(IpAddr::V4(address)) => put(&address.octets()),
        Holder::Vtep(IpAddr::V6(address)) => put(&address.octets()),
        Holder::Segment(esi) => put(&esi.0),
    }
    value.freeze()
}

/// Reads the fact.
pub fn decode_holder(value: &[u8]) -> Option<Holder> {
    let (len, octets) = value.split_first()?;
    match (len, octets.len()) {
        (4, 4) => {
            let octets = <[u8; 4]>::try_from(octets).ok()?;
            Some(Holder::Vtep(Ipv4Addr::from(octets).into()))
        }
        (16, 16) => {
            let octets = <[u8; 16]>::try_from(octets).ok()?;
            Some(Holder::Vtep(Ipv6Addr::from(octets).into()))
        }
        (10, 10) => Some(Holder::Segment(Esi(octets.try_into().ok()?))),
        _ => None,
    }
}

/// vni(3) mac(6).
pub(super) fn put_place(key: &mut BytesMut, (vni, mac): Place) {
    let [_, a, b, c] = vni.number().to_be_bytes();
    key.put_slice(&[a, b, c]);
    key.put_slice(&mac.0);
}

pub(super) fn place_from(octets: &[u8]) -> Option<Place> {
    let (vni, mac) = octets.split_first_chunk::<3>()?;
    let vni = u32::from_be_bytes([0, vni[0], vni[1], vni[2]]);
    Some((Vni::new(vni)?, Mac(mac.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_survives_a_round_trip() {
        let holders = [
            Holder::Vtep("192.0.2.1".parse().unwrap()),
            Holder::Vtep("2001:db8::1".parse().unwrap()),
            Holder::Segment(Esi([7; 10])),
        ];
        for holder in holders {
            let value = encode_holder(holder);
            assert_eq!(decode_holder(&value), Some(holder));
            assert_eq!(decode_holder(&value[1..]), None);
        }
        assert_eq!(decode_holder(b""), None);
    }
}
