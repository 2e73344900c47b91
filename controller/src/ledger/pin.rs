//! The octets of a pin: its key, and the spines that it goes over.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::FactKey;
use crate::fabric::pin::{PinName, PinPath};

/// Reads the rest of a key: nothing, or job, source and destination, with 0 between them, which no name has.
pub(super) fn key_from(rest: &[u8]) -> Option<FactKey<'_>> {
    if rest.is_empty() {
        return Some(FactKey::Pins);
    }
    let text = std::str::from_utf8(rest).ok()?;
    let mut parts = text.split('\0');
    let [job, source, destination] = [parts.next()?, parts.next()?, parts.next()?];
    let name = PinName {
        job: job.into(),
        source: source.into(),
        destination: destination.into(),
    };
    parts.next().is_none().then_some(FactKey::Pin(name))
}

pub(super) fn key_len(name: &PinName) -> usize {
    3 + name.job.as_str().len() + name.source.as_str().len() + name.destination.as_str().len()
}

pub(super) fn put_key(key: &mut BytesMut, name: &PinName) {
    key.put_slice(name.job.as_str().as_bytes());
    key.put_u8(0);
    key.put_slice(name.source.as_str().as_bytes());
    key.put_u8(0);
    key.put_slice(name.destination.as_str().as_bytes());
}

/// The octets of a pin: for each path weight(4) length(1) spine.
pub fn encode_paths(paths: &[PinPath]) -> Bytes {
    let mut value = BytesMut::with_capacity(16 * paths.len());
    for path in paths {
        let spine = path.spine.as_str().as_bytes();
        value.put_u32(path.weight);
        value.put_u8(u8::try_from(spine.len()).expect("a switch has a name of 63 octets at most"));
        value.put_slice(spine);
    }
    value.freeze()
}

/// Reads the paths of a pin.
pub fn decode_paths(mut value: &[u8]) -> Option<Arc<[PinPath]>> {
    let mut paths = Vec::new();
    while !value.is_empty() {
        let (weight, rest) = value.split_first_chunk::<4>()?;
        let (len, rest) = rest.split_first()?;
        let (spine, rest) = rest.split_at_checked(usize::from(*len))?;
        paths.push(PinPath {
            spine: std::str::from_utf8(spine).ok()?.into(),
            weight: u32::from_be_bytes(*weight),
        });
        value = rest;
    }
    (!paths.is_empty()).then(|| paths.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_survives_a_round_trip() {
        let name = PinName {
            job: "train".into(),
            source: "leaf1:eth1".into(),
            destination: "leaf2:eth1".into(),
        };
        let key = FactKey::Pin(name);
        assert_eq!(FactKey::decode(&key.encode()), Some(key));
        assert_eq!(
            FactKey::decode(&FactKey::Pins.encode()),
            Some(FactKey::Pins)
        );
        for bad in [&b"pjob"[..], b"pjob\0a", b"pjob\0a\0b\0c", b"p\xff\0a\0b"] {
            assert_eq!(FactKey::decode(bad), None, "{bad:?}");
        }
        let path = |spine: &str, weight| PinPath {
            spine: spine.into(),
            weight,
        };
        let paths = [path("spine1", 12), path("spine2", 4)];
        let octets = encode_paths(&paths);
        assert_eq!(decode_paths(&octets).as_deref(), Some(&paths[..]));
        for len in 0..octets.len() {
            let read = decode_paths(&octets[..len]);
            assert!(read.is_none() || len == 11, "{len}: {read:?}");
        }
    }
}
