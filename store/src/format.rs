//! The one number of everything that a replica writes: the identity of its data directory, its
//! database, envelopes, snapshots, log entries, and the facts in them. Knows no codec; examples of
//! their octets are made by the codecs themselves.

use bytes::Bytes;
use raft::eraftpb::{Entry, EntryType, HardState, Message, MessageType};

use crate::{
    apply,
    batch::{self, Batch, Condition, MAX_BATCH_OCTETS, MAX_KEY_OCTETS, Op, Proposal, ProposalId},
    disk,
    envelope::{self, Address, Letter},
    error::StoreError,
    identity, log, membership, open, snapshot,
};

/// Names the octets that replicas write. A replica reads no other format: it refuses a data
/// directory, a message and a snapshot of another one. The number grows whenever the octets do, also
/// those of keys and values, which this crate does not know; it never falls.
///
/// 5. A batch may be for one Raft term. Jobs, pins, drained spines, deratings and remembered calls
///    are facts. The number is the same in identity, envelope, snapshot and entry.
/// 4. Each switch, host, link and host port of the declared fabric is a fact of its own.
/// 3. A path may have attributes that are carried as they came, and PMSI tunnels of any type.
/// 2. The owner of a peer, and a path, may say from which outage the peer has returned.
/// 1. The first.
pub const FORMAT: u8 = 5;

/// Examples of everything that this crate writes, by name, for the test that compares the octets of
/// a release with those of the format that the release claims to have.
///
/// # Errors
/// The example of a snapshot cannot be made.
pub fn examples() -> Result<Vec<(&'static str, Bytes)>, StoreError> {
    let mut examples = messages();
    examples.extend(records());
    let facts =
        [("a", "1"), ("b", "1"), ("c", "2")].map(|(key, value)| Ok((key.into(), value.into())));
    examples.push(("snapshot", snapshot::encode(&[(2, ID)], facts.into_iter())?));
    Ok(examples)
}

/// Octets that replicas send to each other, and the kinds that they read.
fn messages() -> Vec<(&'static str, Bytes)> {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgAppend);
    (message.from, message.to, message.term) = (1, 2, 3);
    (message.log_term, message.index, message.commit) = (4, 5, 6);
    message.entries = vec![entry()];
    let letter = |letter: &Letter| envelope::encode(&ADDRESS, letter);
    vec![
        ("message of raft", letter(&Letter::Raft(Box::new(message)))),
        ("forwarded proposal", letter(&Letter::Propose(proposal()))),
        ("transfer", letter(&Letter::Transfer(3))),
        ("kinds of letters", kinds(envelope::has_kind)),
        ("proposal", proposal()),
        ("kinds of conditions", kinds(batch::has_condition)),
        ("kinds of operations", kinds(batch::has_op)),
    ]
}

/// Octets in the data directory.
fn records() -> Vec<(&'static str, Bytes)> {
    let hard = HardState {
        term: 1,
        vote: 2,
        commit: 3,
    };
    let bounds = [MAX_KEY_OCTETS, MAX_BATCH_OCTETS].map(|bound| (bound as u64).to_be_bytes());
    vec![
        ("identity", identity::text(1, &ADDRESS.cluster).into()),
        (
            "database",
            [
                open::DATABASE.as_bytes(),
                &disk::FAMILIES.concat().into_bytes(),
            ]
            .join(&0)
            .into(),
        ),
        (
            "keys of records",
            [log::KEYS.concat(), open::KEYS.concat()].concat().into(),
        ),
        ("owner of the directory", open::owner(1, &ADDRESS.cluster)),
        (
            "voters",
            membership::encode(&membership::conf_state(&[1, 2, 3])),
        ),
        (
            "hard state",
            Bytes::copy_from_slice(&log::hard_record(&hard)),
        ),
        ("log entry", log::encode_entry(&entry()).into()),
        ("key of a proposer", apply::proposer_key(2)),
        (
            "last proposal",
            Bytes::copy_from_slice(&apply::proposer_record(ID)),
        ),
        ("bounds", Bytes::copy_from_slice(bounds.as_flattened())),
    ]
}

/// The octets that `has_kind` accepts.
fn kinds(has_kind: impl Fn(u8) -> bool) -> Bytes {
    (0..=u8::MAX).filter(|kind| has_kind(*kind)).collect()
}

fn entry() -> Entry {
    let mut entry = Entry::default();
    entry.set_entry_type(EntryType::EntryNormal);
    (entry.index, entry.term) = (6, 3);
    entry.data = b"data".to_vec();
    entry.context = b"context".to_vec();
    entry
}

fn proposal() -> Bytes {
    let equals = |value| Condition::Equals {
        key: Bytes::from_static(b"a"),
        value,
    };
    let keys = || vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")];
    let proposal = Proposal {
        proposer: 2,
        id: ID,
        batch: Batch {
            conditions: vec![equals(Some("1".into())), equals(None), Condition::Term(9)],
            ops: vec![
                Op::Put {
                    value: Bytes::from_static(b"1"),
                    keys: keys(),
                },
                Op::Delete { keys: keys() },
                Op::DeletePrefix {
                    prefix: Bytes::from_static(b"a"),
                },
            ],
        },
    };
    proposal.encode().into()
}

const ADDRESS: Address = Address {
    cluster: *b"cluster of 16...",
    from: 1,
    to: 2,
};
const ID: ProposalId = ProposalId { boot: 7, seq: 8 };
