//! What is proposed, what it did, and the octets both have in the log. Knows no Raft and no disk,
//! and not what a key means.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    format::FORMAT,
    octets::{Reader, put_field, put_len},
};

/// What is proposed: operations that are applied all, in order, if every condition holds, and not
/// at all otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// All must hold against the state before the batch.
    pub conditions: Vec<Condition>,
    /// Applied in order; a later one sees what an earlier one did.
    pub ops: Vec<Op>,
}

/// Something that must be true of the state for a batch to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The value under `key` is `value`; `None` means that there is none.
    Equals {
        /// The key looked up.
        key: Bytes,
        /// What must be found; `None` is absence.
        value: Option<Bytes>,
    },
    /// The log entry that carries the batch has this Raft term. A decision that only the leader of
    /// one term may make has no effect once another replica has led, even if the batch reaches the
    /// later leader.
    Term(u64),
}

/// One operation on the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Puts one value under many keys.
    Put {
        /// The value shared by all keys.
        value: Bytes,
        /// The keys, each of 1 to [`MAX_KEY_OCTETS`] octets.
        keys: Vec<Bytes>,
    },
    /// Deletes keys; absent ones are no error.
    Delete {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Deletes every key that begins with a prefix; the empty prefix deletes everything.
    DeletePrefix {
        /// The prefix.
        prefix: Bytes,
    },
}

/// Names a proposal of one replica; apply drops an id that is not above the last one it applied of
/// the same proposer, so that a repeated proposal takes effect once.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProposalId {
    /// How many times the proposer had opened its data directory.
    pub boot: u64,
    /// Counts the proposals of this boot from 1.
    pub seq: u64,
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied at this index.
    Applied {
        /// The log index of the batch.
        index: u64,
    },
    /// Committed but not applied: a condition did not hold.
    ConditionFailed {
        /// The log index of the batch.
        index: u64,
        /// Which of the batch's conditions failed first.
        condition: usize,
    },
    /// Not applied: a later proposal of this replica overtook it. Propose again.
    Superseded,
    /// Unknown whether it will be applied: no leader, the leader changed, the deadline passed, the
    /// queue is full, or the batch breaks a bound ([`Batch::is_acceptable`]). Propose again with
    /// fresh content.
    Dropped,
}

/// What a committed batch did to the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// One value was put under these keys.
    Put {
        /// The value.
        value: Bytes,
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// These keys were deleted; some may not have been there.
    Delete {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Every key with this prefix was deleted.
    DeletePrefix {
        /// The prefix.
        prefix: Bytes,
    },
    /// The whole state was replaced by a snapshot: scan the [`View`](crate::View).
    Reset,
}

/// The changes of one log entry, emitted in log order and once per process. Entries that changed
/// nothing (a new leader's empty entry, a failed condition) are not emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The log index.
    pub index: u64,
    /// The Raft term of the entry.
    pub term: u64,
    /// What it changed, in order.
    pub changes: Vec<Change>,
}

impl From<Op> for Change {
    fn from(op: Op) -> Self {
        match op {
            Op::Put { value, keys } => Self::Put { value, keys },
            Op::Delete { keys } => Self::Delete { keys },
            Op::DeletePrefix { prefix } => Self::DeletePrefix { prefix },
        }
    }
}

impl Batch {
    /// Octets this batch takes in the log.
    pub fn octets_len(&self) -> usize {
        let conditions: usize = self.conditions.iter().map(condition_len).sum();
        let ops: usize = self.ops.iter().map(op_len).sum();
        8 + conditions + ops
    }

    /// Whether every key and the whole are within [`MAX_KEY_OCTETS`] and [`MAX_BATCH_OCTETS`]. A
    /// batch that is not is never proposed.
    pub fn is_acceptable(&self) -> bool {
        let keys_fit = self.ops.iter().all(|op| match op {
            Op::Put { keys, .. } | Op::Delete { keys } => keys.iter().all(is_key),
            Op::DeletePrefix { prefix } => prefix.len() <= MAX_KEY_OCTETS,
        });
        let conditions_fit = self.conditions.iter().all(|condition| match condition {
            Condition::Equals { key, .. } => is_key(key),
            Condition::Term(_) => true,
        });
        keys_fit && conditions_fit && self.octets_len() <= MAX_BATCH_OCTETS
    }
}

/// A batch with its proposer and id, as it is in a log entry.
///
/// ```text
///  0        1          9        17       25
///  +--------+----------+--------+--------+-------------+-----
///  | format | proposer |  boot  |  seq   | conditions  | ops
///  +--------+----------+--------+--------+-------------+-----
/// ```
///
/// The format is [`FORMAT`]. Integers are big-endian. Conditions and ops are a count of 32 bits and that many items. A
/// condition is one octet and: 1 a key and a value; 2 a key, which must be absent; 3 a term of 64
/// bits. An op is one octet and: 1 a value, a count and that many keys; 2 a count and that many
/// keys; 3 a prefix. Keys, values and prefixes are preceded by their length of 32 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) proposer: u64,
    pub(crate) id: ProposalId,
    pub(crate) batch: Batch,
}

impl Proposal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = BytesMut::with_capacity(HEADER_OCTETS + self.batch.octets_len());
        out.put_u8(FORMAT);
        out.put_u64(self.proposer);
        out.put_u64(self.id.boot);
        out.put_u64(self.id.seq);
        put_len(&mut out, self.batch.conditions.len());
        for condition in &self.batch.conditions {
            put_condition(&mut out, condition);
        }
        put_len(&mut out, self.batch.ops.len());
        for op in &self.batch.ops {
            put_op(&mut out, op);
        }
        out.into()
    }

    /// The proposal in `octets`; nothing unless they are exactly one acceptable proposal.
    pub(crate) fn decode(octets: Bytes) -> Option<Self> {
        let mut reader = Reader::new(octets);
        if reader.u8()? != FORMAT {
            return None;
        }
        let proposer = reader.u64()?;
        let id = ProposalId {
            boot: reader.u64()?,
            seq: reader.u64()?,
        };
        let count = reader.count(CONDITION_OCTETS_MIN)?;
        let conditions = (0..count)
            .map(|_| condition(&mut reader))
            .collect::<Option<_>>()?;
        let count = reader.count(OP_OCTETS_MIN)?;
        let ops = (0..count).map(|_| op(&mut reader)).collect::<Option<_>>()?;
        let batch = Batch { conditions, ops };
        (reader.is_empty() && batch.is_acceptable()).then_some(Self {
            proposer,
            id,
            batch,
        })
    }
}

/// True if a condition may begin with this octet.
pub(crate) fn has_condition(kind: u8) -> bool {
    condition(&mut Reader::new(zeros_after(kind))).is_some()
}

/// True if an operation may begin with this octet.
pub(crate) fn has_op(kind: u8) -> bool {
    op(&mut Reader::new(zeros_after(kind))).is_some()
}

/// A kind with an empty body, in whatever form: lengths, counts and numbers are all 0.
fn zeros_after(kind: u8) -> Bytes {
    [&[kind][..], &[0; 64]].concat().into()
}

fn is_key(key: &Bytes) -> bool {
    (1..=MAX_KEY_OCTETS).contains(&key.len())
}

fn condition_len(condition: &Condition) -> usize {
    1 + match condition {
        Condition::Equals { key, value } => {
            4 + key.len() + value.as_ref().map_or(0, |value| 4 + value.len())
        }
        Condition::Term(_) => 8,
    }
}

fn op_len(op: &Op) -> usize {
    let keys_len = |keys: &[Bytes]| 4 + keys.iter().map(|key| 4 + key.len()).sum::<usize>();
    1 + match op {
        Op::Put { value, keys } => 4 + value.len() + keys_len(keys),
        Op::Delete { keys } => keys_len(keys),
        Op::DeletePrefix { prefix } => 4 + prefix.len(),
    }
}

fn put_condition(out: &mut BytesMut, condition: &Condition) {
    match condition {
        Condition::Equals {
            key,
            value: Some(value),
        } => {
            out.put_u8(CONDITION_VALUE);
            put_field(out, key);
            put_field(out, value);
        }
        Condition::Equals { key, value: None } => {
            out.put_u8(CONDITION_ABSENT);
            put_field(out, key);
        }
        Condition::Term(term) => {
            out.put_u8(CONDITION_TERM);
            out.put_u64(*term);
        }
    }
}

fn condition(reader: &mut Reader) -> Option<Condition> {
    match reader.u8()? {
        CONDITION_VALUE => Some(Condition::Equals {
            key: reader.field()?,
            value: Some(reader.field()?),
        }),
        CONDITION_ABSENT => Some(Condition::Equals {
            key: reader.field()?,
            value: None,
        }),
        CONDITION_TERM => Some(Condition::Term(reader.u64()?)),
        _ => None,
    }
}

fn put_op(out: &mut BytesMut, op: &Op) {
    match op {
        Op::Put { value, keys } => {
            out.put_u8(OP_PUT);
            put_field(out, value);
            put_keys(out, keys);
        }
        Op::Delete { keys } => {
            out.put_u8(OP_DELETE);
            put_keys(out, keys);
        }
        Op::DeletePrefix { prefix } => {
            out.put_u8(OP_DELETE_PREFIX);
            put_field(out, prefix);
        }
    }
}

fn op(reader: &mut Reader) -> Option<Op> {
    match reader.u8()? {
        OP_PUT => Some(Op::Put {
            value: reader.field()?,
            keys: keys(reader)?,
        }),
        OP_DELETE => Some(Op::Delete {
            keys: keys(reader)?,
        }),
        OP_DELETE_PREFIX => Some(Op::DeletePrefix {
            prefix: reader.field()?,
        }),
        _ => None,
    }
}

fn put_keys(out: &mut BytesMut, keys: &[Bytes]) {
    put_len(out, keys.len());
    for key in keys {
        put_field(out, key);
    }
}

fn keys(reader: &mut Reader) -> Option<Vec<Bytes>> {
    let count = reader.count(4)?;
    (0..count).map(|_| reader.field()).collect()
}

/// Longest key, in octets. Route keys take some 50; the bound keeps a key from being a value.
pub const MAX_KEY_OCTETS: usize = 1024;

/// Largest batch, in octets in the log: group commit cuts at 256 KiB, and one entry must leave
/// room for others in the 32 MiB that may be uncommitted.
pub const MAX_BATCH_OCTETS: usize = 8 << 20;

const HEADER_OCTETS: usize = 25;
/// A kind and the length of an empty key.
const CONDITION_OCTETS_MIN: usize = 5;
/// A kind and the length of an empty prefix, or a count of no keys.
const OP_OCTETS_MIN: usize = 5;
const CONDITION_VALUE: u8 = 1;
const CONDITION_ABSENT: u8 = 2;
const CONDITION_TERM: u8 = 3;
const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;
const OP_DELETE_PREFIX: u8 = 3;

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn octets(len: std::ops::Range<usize>) -> impl Strategy<Value = Bytes> {
        vec(any::<u8>(), len).prop_map(Bytes::from)
    }

    fn any_op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (octets(0..40), vec(octets(1..20), 0..4))
                .prop_map(|(value, keys)| Op::Put { value, keys }),
            vec(octets(1..20), 0..4).prop_map(|keys| Op::Delete { keys }),
            octets(0..20).prop_map(|prefix| Op::DeletePrefix { prefix }),
        ]
    }

    fn any_proposal() -> impl Strategy<Value = Proposal> {
        let condition = prop_oneof![
            (octets(1..20), proptest::option::of(octets(0..20)))
                .prop_map(|(key, value)| Condition::Equals { key, value }),
            any::<u64>().prop_map(Condition::Term),
        ];
        let batch = (vec(condition, 0..3), vec(any_op(), 0..4))
            .prop_map(|(conditions, ops)| Batch { conditions, ops });
        (any::<u64>(), any::<u64>(), any::<u64>(), batch).prop_map(
            |(proposer, boot, seq, batch)| Proposal {
                proposer,
                id: ProposalId { boot, seq },
                batch,
            },
        )
    }

    proptest! {
        #[test]
        fn a_proposal_survives_its_octets(proposal in any_proposal()) {
            let octets = proposal.encode();
            prop_assert_eq!(octets.len(), HEADER_OCTETS + proposal.batch.octets_len());
            prop_assert_eq!(Proposal::decode(octets.into()), Some(proposal));
        }

        #[test]
        fn a_cut_or_prolonged_proposal_is_none(proposal in any_proposal(), at: prop::sample::Index) {
            let octets = Bytes::from(proposal.encode());
            prop_assert_eq!(Proposal::decode(octets.slice(..at.index(octets.len()))), None);
            prop_assert_eq!(Proposal::decode([&octets[..], &[0]].concat().into()), None);
        }

        #[test]
        fn any_octets_decode_without_panic(mut octets in vec(any::<u8>(), 0..120)) {
            if let Some(first) = octets.first_mut() {
                *first = FORMAT;
            }
            let _ = Proposal::decode(octets.into());
        }

        #[test]
        fn changed_octets_never_decode_to_the_same(
            proposal in any_proposal(),
            at: prop::sample::Index,
            bit in 0_u8..8,
        ) {
            let mut octets = proposal.encode();
            let at = at.index(octets.len());
            octets[at] ^= 1 << bit;
            prop_assert_ne!(Proposal::decode(octets.into()), Some(proposal));
        }
    }

    #[test]
    fn a_count_that_cannot_fit_allocates_nothing() {
        let mut octets = vec![FORMAT];
        octets.extend([0; 24]);
        octets.extend([0xff; 4]);
        assert_eq!(Proposal::decode(octets.into()), None);
    }
}
