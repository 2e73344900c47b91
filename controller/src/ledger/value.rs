//! What stands under a path's key: what of its NLRI is not key, and its attributes. Equal for all paths that
//! differ in their keys only, so that one value serves many keys.
//!
//! ```text
//! payload-length(1) payload attributes(canonical form)
//! 0xff epoch(8) and the same       said again by a peer that has been back since this epoch: its Owner::fresh_from
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use weft_bgp::attribute::Attributes;
use weft_bgp::nlri::Nlri;

/// Octets of a path's fact.
pub fn encode_path<N: Nlri>(nlri: &N, attributes: &[u8], scratch: &mut Vec<u8>) -> Bytes {
    scratch.clear();
    scratch.push(0);
    nlri.payload_octets(scratch);
    let len = u8::try_from(scratch.len() - 1).ok();
    let len = len.filter(|len| *len != MARK);
    scratch[0] = len.expect("no family has a payload above 254 octets");
    scratch.extend_from_slice(attributes);
    Bytes::copy_from_slice(scratch)
}

/// Splits a path's fact into payload and attributes.
pub fn decode_path(value: &[u8]) -> Option<(&[u8], Attributes)> {
    let (len, rest) = what_is_said(value).split_first()?;
    let (payload, attributes) = rest.split_at_checked(usize::from(*len))?;
    Some((payload, Attributes::from_octets(attributes).ok()?))
}

/// The same fact, said by a peer that has been back since this epoch; 0: by one that is not back.
pub fn said_under(epoch: u64, value: &Bytes) -> Bytes {
    if epoch == 0 {
        return value.clone();
    }
    let mut marked = BytesMut::with_capacity(9 + value.len());
    marked.put_u8(MARK);
    marked.put_u64(epoch);
    marked.put_slice(value);
    marked.freeze()
}

/// Since which epoch the peer was back when it said the fact, 0 if it was not.
pub fn epoch_of(value: &[u8]) -> u64 {
    mark(value).map_or(0, |(epoch, _)| epoch)
}

/// The fact without that epoch.
pub fn what_is_said(value: &[u8]) -> &[u8] {
    mark(value).map_or(value, |(_, said)| said)
}

fn mark(value: &[u8]) -> Option<(u64, &[u8])> {
    let (epoch, said) = value.strip_prefix(&[MARK])?.split_first_chunk()?;
    Some((u64::from_be_bytes(*epoch), said))
}

/// Before an epoch.
const MARK: u8 = 0xff;

#[cfg(test)]
mod tests {
    use weft_bgp::nlri::unicast::Prefix4;

    use super::*;

    /// ORIGIN, AS_PATH and LOCAL_PREF of a prefix, whose next hop is 192.0.2.1.
    #[test]
    fn a_path_is_stored_in_these_octets() {
        let value = [
            0, 4, 192, 0, 2, 1, 0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 5, 4, 0, 0, 0, 7,
        ];
        let (payload, attributes) = decode_path(&value).unwrap();
        assert!(payload.is_empty() && attributes.opaque.is_empty());
        assert_eq!(attributes.local_pref, Some(7));
        let prefix = Prefix4::new([192, 0, 2, 1].into(), 32).unwrap();
        let again = encode_path(&prefix, &attributes.to_octets(), &mut Vec::new());
        assert_eq!(again, value[..]);
    }

    #[test]
    fn an_epoch_changes_nothing_of_what_is_said() {
        let prefix = Prefix4::new([192, 0, 2, 1].into(), 32).unwrap();
        let attributes = Attributes {
            local_pref: Some(7),
            ..Attributes::default()
        };
        let octets = attributes.to_octets();
        let value = encode_path(&prefix, &octets, &mut Vec::new());
        for epoch in [0, 1, u64::MAX] {
            let marked = said_under(epoch, &value);
            assert_eq!(epoch_of(&marked), epoch);
            assert_eq!(what_is_said(&marked), value);
            assert_eq!(decode_path(&marked), Some((&[][..], attributes.clone())));
        }
        assert_eq!(decode_path(&said_under(9, &value)[..7]), None);
    }
}
