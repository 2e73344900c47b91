//! The facts of a declared fabric: their keys, the fabric as such, and which requests were answered.

use bytes::{BufMut, Bytes, BytesMut};

use super::FactKey;
use crate::fabric::fact::Kind;

/// The fabric as such. Each change of a fact puts it too, on the condition that it is as it was: changes come one after
/// the other.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// Counts changes.
    pub generation: u64,
    /// Names the ApplyFabric that is being written in several batches; 0: there is none.
    pub applying: u64,
    /// A name to show.
    pub display_name: String,
}

impl Head {
    /// The octets of the fact: generation(8) applying(8) name.
    pub fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(16 + self.display_name.len());
        value.put_u64(self.generation);
        value.put_u64(self.applying);
        value.put_slice(self.display_name.as_bytes());
        value.freeze()
    }

    /// Reads the fact.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (generation, rest) = value.split_first_chunk::<8>()?;
        let (applying, name) = rest.split_first_chunk::<8>()?;
        Some(Self {
            generation: u64::from_be_bytes(*generation),
            applying: u64::from_be_bytes(*applying),
            display_name: std::str::from_utf8(name).ok()?.to_owned(),
        })
    }
}

/// What a client calls a change: a UUID (RFC 9562).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub [u8; 16]);

/// A change that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The generation that it made.
    pub generation: u64,
    /// Hash of what was asked for.
    pub content: u64,
}

impl Request {
    /// The octets of the fact: generation(8) content(8).
    pub fn encode(self) -> Bytes {
        let mut value = BytesMut::with_capacity(16);
        value.put_u64(self.generation);
        value.put_u64(self.content);
        value.freeze()
    }

    /// Reads the fact.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (generation, content) = value.split_first_chunk::<8>()?;
        Some(Self {
            generation: u64::from_be_bytes(*generation),
            content: u64::from_be_bytes(content.try_into().ok()?),
        })
    }
}

pub(super) fn key_from(rest: &[u8]) -> Option<FactKey<'_>> {
    let Some((kind, name)) = rest.split_first() else {
        return Some(FactKey::Head);
    };
    let kind = KINDS.iter().find(|(octet, _)| octet == kind)?.1;
    let name = std::str::from_utf8(name).ok()?;
    Some(FactKey::Declared(kind, name))
}

pub(super) fn put_key(key: &mut BytesMut, kind: Kind, name: &str) {
    let octet = match kind {
        Kind::Switch => b's',
        Kind::Host => b'h',
        Kind::Link => b'l',
        Kind::HostPort => b'p',
        Kind::Job => b'j',
    };
    key.put_slice(&[b't', octet]);
    key.put_slice(name.as_bytes());
}

const KINDS: [(u8, Kind); 5] = [
    (b's', Kind::Switch),
    (b'h', Kind::Host),
    (b'l', Kind::Link),
    (b'p', Kind::HostPort),
    (b'j', Kind::Job),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_as_such_survives_a_round_trip() {
        let head = Head {
            generation: 7,
            applying: 3,
            display_name: "example".to_owned(),
        };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(b"short"), None);
    }

    #[test]
    fn a_request_survives_a_round_trip() {
        let request = Request {
            generation: 7,
            content: 0xdead_beef,
        };
        assert_eq!(Request::decode(&request.encode()), Some(request));
        assert_eq!(Request::decode(b"short"), None);
    }
}
