//! Checks of another replica's message before Raft sees it. Raft panics on some messages that no
//! correct replica sends, and answers others as if they were in order; none of them passes here.
//! Knows nothing of the disk.

use std::{fmt, iter};

use bytes::Bytes;
use raft::eraftpb::{EntryType, Message, MessageType};

use crate::{
    batch::{Op, Proposal, ProposalId},
    envelope::Unread,
    format::FORMAT,
    membership,
    snapshot::Contents,
};

/// What a message is checked against.
pub(crate) struct Standing<'a> {
    pub(crate) id: u64,
    pub(crate) voters: &'a [u64],
    pub(crate) leads: bool,
    pub(crate) term: u64,
    /// The leader that this replica follows in its term; 0: none.
    pub(crate) leader: u64,
    pub(crate) commit: u64,
    pub(crate) last: u64,
    /// The term of the entry at an index, as far as the log reaches and one entry before it.
    pub(crate) term_of: &'a dyn Fn(u64) -> Option<u64>,
}

impl Standing<'_> {
    /// True if this replica follows the sender of `message` in the term of the message. Only such a leader can halt it: a
    /// message that names a term of its own is believed no more than any other.
    fn follows(&self, message: &Message) -> bool {
        message.term == self.term && message.from == self.leader
    }
}

/// Why a message does not reach Raft.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not one well-formed envelope with one well-formed message.
    Malformed,
    /// From a release whose facts this one may not understand, or the other way round.
    Format {
        /// What it speaks.
        theirs: u8,
        /// What this one speaks.
        ours: u8,
    },
    /// Of another cluster, to or from somebody else than its envelope says, or not from a voter.
    Foreign,
    /// A type that no replica sends to another.
    Kind,
    /// Its numbers cannot be those of a correct replica.
    Implausible(&'static str),
    /// The leader counts on entries that this replica acknowledged and does not have: its disk has
    /// lost them, and with them the right to vote.
    LostLog {
        /// What the leader says is committed and held here.
        commit: u64,
    },
    /// The leader has another entry where this replica has a committed one: the two have different
    /// histories, and no message can reconcile them.
    Conflict(Conflict),
}

/// Two entries at one index, of which this replica has committed its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) index: u64,
    /// Term of the entry that this replica has committed.
    pub(crate) ours: u64,
    /// Term of the entry that the leader has.
    pub(crate) theirs: u64,
}

impl From<Unread> for Refusal {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Malformed => Self::Malformed,
            Unread::Format(theirs) => Self::Format {
                theirs,
                ours: FORMAT,
            },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("malformed"),
            Self::Format { theirs, ours } => write!(
                f,
                "format {theirs}, this release speaks {ours} only: all replicas must run one release"
            ),
            Self::Foreign => f.write_str("foreign"),
            Self::Kind => f.write_str("not a message between replicas"),
            Self::Implausible(what) => write!(f, "implausible {what}"),
            Self::LostLog { commit } => write!(f, "acknowledged entries up to {commit} are lost"),
            Self::Conflict(Conflict {
                index,
                ours,
                theirs,
            }) => write!(
                f,
                "entry {index} is of term {theirs} there and committed in term {ours} here"
            ),
        }
    }
}

/// Whether Raft may see `message`, which came from `from`.
pub(crate) fn admit(
    message: &mut Message,
    from: u64,
    standing: &Standing<'_>,
) -> Result<(), Refusal> {
    if message.from != from
        || from == standing.id
        || message.to != standing.id
        || !standing.voters.contains(&from)
    {
        return Err(Refusal::Foreign);
    }
    let kind = MessageType::from_i32(message.msg_type).ok_or(Refusal::Kind)?;
    check_numbers(message, kind, standing)?;
    match kind {
        MessageType::MsgAppend => {
            check_entries(message)?;
            let before = (message.index, message.log_term);
            let entries = message.entries.iter().map(|it| (it.index, it.term));
            check_history(iter::once(before).chain(entries), message, standing)
        }
        MessageType::MsgHeartbeat if message.term >= standing.term => {
            if message.commit > standing.last {
                if standing.follows(message) {
                    return Err(Refusal::LostLog {
                        commit: message.commit,
                    });
                }
                // Raft learns of the leader. If it insists with its next heartbeat, this replica has lost its log.
                message.commit = standing.last;
            }
            Ok(())
        }
        MessageType::MsgSnapshot => check_snapshot(message, standing),
        MessageType::MsgAppendResponse => check_response(message, standing),
        MessageType::MsgReadIndex => {
            let one_context = matches!(message.entries.as_slice(), [only] if !only.data.is_empty());
            if !standing.leads || !one_context {
                return Err(Refusal::Implausible("read"));
            }
            Ok(())
        }
        MessageType::MsgHeartbeat
        | MessageType::MsgHeartbeatResponse
        | MessageType::MsgRequestVote
        | MessageType::MsgRequestVoteResponse
        | MessageType::MsgRequestPreVote
        | MessageType::MsgRequestPreVoteResponse
        | MessageType::MsgTimeoutNow
        | MessageType::MsgReadIndexResp => Ok(()),
        MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgPropose
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum
        | MessageType::MsgTransferLeader => Err(Refusal::Kind),
    }
}

/// Checks a proposal that another replica forwards. Its id supersedes all that are lower for good, so it is
/// not above `boot_max`, nor far above the last one that took effect.
pub(crate) fn admit_proposal(
    proposal: &Proposal,
    last: ProposalId,
    boot_max: u64,
) -> Result<(), Refusal> {
    let ProposalId { boot, seq } = proposal.id;
    let before = if boot == last.boot { last.seq } else { 0 };
    if boot > boot_max || seq > before.saturating_add(SEQ_LEAP_MAX) {
        return Err(Refusal::Implausible("proposal id"));
    }
    let deletes_all = |op: &Op| matches!(op, Op::DeletePrefix { prefix } if prefix.is_empty());
    if proposal.batch.ops.iter().any(deletes_all) {
        return Err(Refusal::Implausible("batch"));
    }
    Ok(())
}

fn check_numbers(
    message: &Message,
    kind: MessageType,
    standing: &Standing<'_>,
) -> Result<(), Refusal> {
    // Raft takes term 0 for a local message; a read is the one that it sends so to another replica.
    if (message.term == 0) != (kind == MessageType::MsgReadIndex) {
        return Err(Refusal::Implausible("term"));
    }
    if message.term > standing.term.saturating_add(TERM_LEAP_MAX) {
        return Err(Refusal::Implausible("term"));
    }
    let indices = [
        message.index,
        message.log_term,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ];
    if indices.iter().any(|index| *index > INDEX_MAX) {
        return Err(Refusal::Implausible("index"));
    }
    if message.request_snapshot != 0 {
        return Err(Refusal::Implausible("snapshot request"));
    }
    Ok(())
}

/// Entries follow each other from `index` on, in terms that do not fall nor exceed the sender's.
fn check_entries(message: &Message) -> Result<(), Refusal> {
    // Raft takes every index beyond its log to have term 0, and so to match.
    if message.log_term == 0 {
        return Err(Refusal::Implausible("entry"));
    }
    let mut index = message.index;
    let mut term = message.log_term;
    for entry in &message.entries {
        index += 1;
        if entry.index != index || entry.term < term || entry.term > message.term {
            return Err(Refusal::Implausible("entry"));
        }
        // Voters are static: no configuration change is ever proposed.
        if EntryType::from_i32(entry.entry_type) != Some(EntryType::EntryNormal) {
            return Err(Refusal::Implausible("entry"));
        }
        term = entry.term;
    }
    Ok(())
}

/// An error if one of these entries, in the order of their indices, is not the one that this replica
/// has committed. Raft 0.7.0 does not compare them: it answers an append that begins below its
/// commit index as if all up to there matched (`raft.rs`, `handle_append_entries`), ignores such a
/// snapshot, and the leader then counts this replica among those that have its entries.
fn check_history(
    entries: impl Iterator<Item = (u64, u64)>,
    message: &Message,
    standing: &Standing<'_>,
) -> Result<(), Refusal> {
    // A leader that was replaced may have sent entries that were overwritten since; Raft refuses
    // them by their term.
    if message.term < standing.term {
        return Ok(());
    }
    for (index, theirs) in entries.take_while(|(index, _)| *index <= standing.commit) {
        // Entries that were dropped from the log cannot be compared; the next append begins at the
        // commit index, and that one can.
        let Some(ours) = (standing.term_of)(index) else {
            continue;
        };
        if ours != theirs {
            // A leader that is not followed yet sends it again after its first heartbeat.
            if !standing.follows(message) {
                return Err(Refusal::Implausible("history"));
            }
            return Err(Refusal::Conflict(Conflict {
                index,
                ours,
                theirs,
            }));
        }
    }
    Ok(())
}

fn check_response(message: &Message, standing: &Standing<'_>) -> Result<(), Refusal> {
    let of_our_term = standing.leads && message.term == standing.term;
    if of_our_term && (message.index > standing.last || message.reject_hint > standing.last) {
        return Err(Refusal::Implausible("acknowledgement"));
    }
    Ok(())
}

fn check_snapshot(message: &mut Message, standing: &Standing<'_>) -> Result<(), Refusal> {
    let metadata = message.get_snapshot().get_metadata();
    let last = (metadata.index, metadata.term);
    let plausible = (1..=INDEX_MAX).contains(&metadata.index)
        && (1..=message.term).contains(&metadata.term)
        && membership::is_static(metadata.get_conf_state(), standing.voters);
    if !plausible {
        return Err(Refusal::Implausible("snapshot"));
    }
    check_history(iter::once(last), message, standing)?;
    // Raft ignores one that is older than what it has committed, unread.
    if last.0 < standing.commit {
        return Ok(());
    }
    let snapshot = message.mut_snapshot();
    let octets = Bytes::from(std::mem::take(&mut snapshot.data));
    let sound = Contents::decode(octets.clone()).is_some();
    snapshot.data = octets.into();
    sound
        .then_some(())
        .ok_or(Refusal::Implausible("snapshot contents"))
}

/// Most proposals of one start of a replica between two that took effect: more than any replica makes in its life.
const SEQ_LEAP_MAX: u64 = 1 << 32;

/// Beyond this no index nor term is believed: leaves room for Raft to add to it.
const INDEX_MAX: u64 = 1 << 60;

/// Most terms that pass between two messages: a million elections take a week of nothing else. A
/// forged term can so not use up the numbers.
const TERM_LEAP_MAX: u64 = 1 << 20;
