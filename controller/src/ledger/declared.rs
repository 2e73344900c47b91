//! The facts of a declared fabric: their keys, the fabric as such, and the requests that were made.
//!
//! Every resource stands in a slot, and the head names the slot in force. An ApplyFabric that is too large for one batch
//! writes the whole fabric into a slot of its own; one more batch puts that slot in force and deletes the other one.

use bytes::{BufMut, Bytes, BytesMut};

use super::FactKey;
use crate::fabric::declared::Edit;
use crate::fabric::fact::Kind;

/// The fabric as such. Each change of a fact puts it too, on the condition that it is as it was: changes come one after
/// the other.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Head {
    /// Counts changes.
    pub generation: u64,
    /// The slot in force: the resources in others are not declared yet.
    pub slot: u64,
    /// A name to show.
    pub display_name: String,
}

impl Head {
    /// The octets of the fact: generation(8) slot(8) name.
    pub fn encode(&self) -> Bytes {
        let mut value = BytesMut::with_capacity(16 + self.display_name.len());
        value.put_u64(self.generation);
        value.put_u64(self.slot);
        value.put_slice(self.display_name.as_bytes());
        value.freeze()
    }

    /// Reads the fact.
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (generation, rest) = value.split_first_chunk::<8>()?;
        let (slot, name) = rest.split_first_chunk::<8>()?;
        Some(Self {
            generation: u64::from_be_bytes(*generation),
            slot: u64::from_be_bytes(*slot),
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

/// Reads what follows `t` in a key.
pub(super) fn key_from(rest: &[u8]) -> Option<FactKey<'_>> {
    let Some((part, rest)) = rest.split_first() else {
        return Some(FactKey::Head);
    };
    match *part {
        JOB => std::str::from_utf8(rest).ok().map(FactKey::Job),
        SLOT => {
            let (slot, rest) = rest.split_first_chunk::<8>()?;
            let slot = u64::from_be_bytes(*slot);
            match rest {
                [] => Some(FactKey::Stage(slot)),
                rest => named(rest).map(|(kind, name)| FactKey::Declared(slot, kind, name)),
            }
        }
        EDIT => named(rest).map(|(kind, name)| FactKey::Edit(kind, name)),
        _ => None,
    }
}

/// Writes the key of a declared resource.
pub(super) fn put_key(key: &mut BytesMut, slot: u64, kind: Kind, name: &str) {
    put_slot(key, slot);
    put_name(key, kind, name);
}

/// Writes the key of a slot, which is the prefix of all keys in it.
pub(super) fn put_slot(key: &mut BytesMut, slot: u64) {
    key.put_slice(&[b't', SLOT]);
    key.put_u64(slot);
}

/// Writes the key of a job.
pub(super) fn put_job(key: &mut BytesMut, name: &str) {
    key.put_slice(&[b't', JOB]);
    key.put_slice(name.as_bytes());
}

/// Writes the key of an edit.
pub(super) fn put_edit(key: &mut BytesMut, kind: Kind, name: &str) {
    key.put_slice(EDITS);
    put_name(key, kind, name);
}

fn put_name(key: &mut BytesMut, kind: Kind, name: &str) {
    key.put_u8(octet_of(kind));
    key.put_slice(name.as_bytes());
}

/// The octet of a kind in a key.
fn octet_of(kind: Kind) -> u8 {
    match kind {
        Kind::Switch => b's',
        Kind::Host => b'h',
        Kind::Link => b'l',
        Kind::HostPort => b'p',
        Kind::Job => JOB,
    }
}

fn named(rest: &[u8]) -> Option<(Kind, &str)> {
    let (kind, name) = rest.split_first()?;
    let kind = Kind::ALL.into_iter().find(|it| octet_of(*it) == *kind);
    let kind = kind.filter(|kind| *kind != Kind::Job)?;
    Some((kind, std::str::from_utf8(name).ok()?))
}

/// The octets of an edit: a change of one resource by another call than ApplyFabric.
pub fn encode_edit(edit: Edit) -> Bytes {
    Bytes::from_static(match edit {
        Edit::Created => &[1],
        Edit::Updated => &[2],
        Edit::Deleted => &[3],
    })
}

/// Reads an edit.
pub fn decode_edit(value: &[u8]) -> Option<Edit> {
    match value {
        [1] => Some(Edit::Created),
        [2] => Some(Edit::Updated),
        [3] => Some(Edit::Deleted),
        _ => None,
    }
}

/// Prefix of every edit.
pub(super) const EDITS: &[u8] = b"te";
const SLOT: u8 = b'g';
const JOB: u8 = b'j';
const EDIT: u8 = b'e';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_as_such_survives_a_round_trip() {
        let head = Head {
            generation: 7,
            slot: 3,
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
