//! What replicas say to each other, in octets: Raft's messages, and what Raft has no safe message
//! for. Knows no meaning: what to believe is `guard`'s business.
//!
//! ```text
//!  0        1      2             18      26      34
//!  +--------+------+-------------+-------+-------+---------
//!  | format | kind |   cluster   |  from |  to   | payload
//!  +--------+------+-------------+-------+-------+---------
//! ```
//!
//! The format is [`FORMAT`]: replicas of two formats refuse each other's messages.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;
use raft::eraftpb::Message;

use crate::{format::FORMAT, octets::Reader};

/// What one replica says to another.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A message of the Raft protocol.
    Raft(Box<Message>),
    /// An entry that the receiver, if it leads, is to propose. Raft's own forwarding is not used:
    /// it tells nobody when it loses one.
    Propose(Bytes),
    /// The receiver, if it leads, is to hand leadership to this replica.
    Transfer(u64),
}

/// From whom to whom, within which cluster.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) cluster: [u8; 16],
    pub(crate) from: u64,
    pub(crate) to: u64,
}

pub(crate) fn encode(address: &Address, letter: &Letter) -> Bytes {
    let (kind, len) = match letter {
        Letter::Raft(message) => (KIND_RAFT, message.encoded_len()),
        Letter::Propose(entry) => (KIND_PROPOSE, entry.len()),
        Letter::Transfer(_) => (KIND_TRANSFER, 8),
    };
    let mut out = BytesMut::with_capacity(HEADER_OCTETS + len);
    out.put_u8(FORMAT);
    out.put_u8(kind);
    out.put_slice(&address.cluster);
    out.put_u64(address.from);
    out.put_u64(address.to);
    match letter {
        Letter::Raft(message) => message
            .encode(&mut out)
            .expect("a growing buffer has room for every message"),
        Letter::Propose(entry) => out.put_slice(entry),
        Letter::Transfer(to) => out.put_u64(*to),
    }
    out.freeze()
}

/// Octets that say nothing to us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Not one well-formed envelope.
    Malformed,
    /// An envelope of this format, whatever it says.
    Format(u8),
}

/// The address and what is said.
pub(crate) fn decode(octets: Bytes) -> Result<(Address, Letter), Unread> {
    let mut reader = Reader::new(octets);
    let format = reader.u8().ok_or(Unread::Malformed)?;
    if format != FORMAT {
        return Err(Unread::Format(format));
    }
    read(reader).ok_or(Unread::Malformed)
}

fn read(mut reader: Reader) -> Option<(Address, Letter)> {
    let kind = reader.u8()?;
    let address = Address {
        cluster: reader.array()?,
        from: reader.u64()?,
        to: reader.u64()?,
    };
    let letter = match kind {
        KIND_RAFT => Letter::Raft(Box::new(Message::decode(reader.rest()).ok()?)),
        KIND_PROPOSE => Letter::Propose(reader.rest()),
        KIND_TRANSFER => {
            let to = reader.u64()?;
            reader.is_empty().then_some(Letter::Transfer(to))?
        }
        _ => return None,
    };
    Some((address, letter))
}

/// True if an envelope may have this kind.
pub(crate) fn has_kind(kind: u8) -> bool {
    [0, 8].into_iter().any(|payload| {
        let body = vec![0; HEADER_OCTETS - 2 + payload];
        read(Reader::new([&[kind][..], &body].concat().into())).is_some()
    })
}

const HEADER_OCTETS: usize = 34;
const KIND_RAFT: u8 = 1;
const KIND_PROPOSE: u8 = 2;
const KIND_TRANSFER: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_not_read_as_if_it_were_ours() {
        let address = Address {
            cluster: [7; 16],
            from: 1,
            to: 2,
        };
        let octets = encode(&address, &Letter::Transfer(2));
        let read = |octets| decode(octets).map(|(address, _)| address);
        assert_eq!(read(octets.clone()), Ok(address));
        let of = |format| {
            let mut octets = BytesMut::from(&octets[..]);
            octets[0] = format;
            read(octets.freeze())
        };
        assert_eq!(of(FORMAT - 1), Err(Unread::Format(FORMAT - 1)));
        assert_eq!(of(FORMAT + 1), Err(Unread::Format(FORMAT + 1)));
        assert_eq!(read(Bytes::new()), Err(Unread::Malformed));
        assert_eq!(read(octets.slice(..20)), Err(Unread::Malformed));
    }
}
