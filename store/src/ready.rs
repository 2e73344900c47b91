//! What Raft has ready: persist, send, apply, in the order that keeps its promises. Knows no format
//! but calls those who do.
//!
//! ```text
//!   inputs ──> step / propose / tick ──> Ready
//!                                         │ 1  entries + hard state + snapshot: one synced write
//!                                         │ 2  messages, which speak of what is now durable
//!                                         │ 3  committed entries: one unsynced write each
//!                                         │ 4  advance, then once more 2 and 3 of what that freed
//!                                         └─ until nothing is ready
//! ```
//!
//! A leader could send its appends before step 1 (Raft thesis §10.2.1). Outputs leave only when
//! poll returns, so there is nothing to gain from it here.

use bytes::Bytes;
use raft::{
    Ready, StateRole,
    eraftpb::{Entry, Message, MessageType},
};
use rocksdb::WriteBatch;

use crate::{
    apply::Effect,
    batch::{Applied, Change, Proposal},
    config::{Spoken, Step},
    envelope::{self, Address, Letter},
    error::{Halt, StoreError},
    open,
    replica::{Output, Replica},
    snapshot::Contents,
};

impl Replica {
    /// Rounds until nothing is ready.
    pub(crate) fn rounds(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        loop {
            self.note_leader(out);
            self.give_proposals(out);
            self.ask_reads();
            if !self.node.has_ready() {
                break;
            }
            self.round(out)?;
        }
        self.reads.settle(self.state.applied, out);
        Ok(())
    }

    /// Drops what followers are no longer expected to need from the log.
    pub(crate) fn compact(&mut self) -> Result<(), Halt> {
        let (entries, octets) = (self.config.log_keep_entries, self.config.log_keep_octets);
        let log = self.node.mut_store();
        if let Some(index) = log.droppable(self.state.applied, entries, octets) {
            self.disk.at(Step::Compact { index })?;
            log.compact(index)?;
        }
        Ok(())
    }

    fn note_leader(&mut self, out: &mut Vec<Output>) {
        let led_by = (self.node.raft.leader_id, self.node.raft.term);
        if self.led_by != led_by && led_by.0 != 0 {
            self.led_by = led_by;
            self.proposals.led_by(led_by.0, led_by.1, out);
            self.reads.ask_again();
        }
    }

    fn give_proposals(&mut self, out: &mut Vec<Output>) {
        let (leader, term) = (self.node.raft.leader_id, self.node.raft.term);
        if leader == 0 {
            return;
        }
        let address = self.address(leader);
        let leads = self.leads();
        let node = &mut self.node;
        self.proposals.give(leader, term, self.now, |entry| {
            if leads {
                // Refused while leadership is handed over and while too much is uncommitted: it
                // stays in the queue.
                return node.propose(Vec::new(), entry.to_vec()).is_ok();
            }
            out.push(Output::Send {
                to: leader,
                octets: envelope::encode(&address, &Letter::Propose(entry.clone())),
                snapshot: false,
            });
            true
        });
    }

    fn ask_reads(&mut self) {
        if self.node.raft.leader_id != 0
            && let Some(context) = self.reads.question(self.now)
        {
            self.node.read_index(context);
        }
    }

    pub(crate) fn round(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        let mut ready = self.node.ready();
        self.persist(&ready, out)?;
        self.send(ready.take_messages(), out)?;
        self.send(ready.take_persisted_messages(), out)?;
        self.reads.confirm(ready.take_read_states());
        self.apply(ready.take_committed_entries(), out)?;
        let mut light = self.node.advance_append(ready);
        if let Some(commit) = light.commit_index() {
            self.node.mut_store().hard.commit = commit;
        }
        self.send(light.take_messages(), out)?;
        self.apply(light.take_committed_entries(), out)?;
        self.node.advance_apply_to(self.state.applied);
        Ok(())
    }

    /// One write of all that must be durable before the messages of this Ready leave. A commit
    /// index alone is not written: every apply writes it.
    fn persist(&mut self, ready: &Ready, out: &mut Vec<Output>) -> Result<(), Halt> {
        if let Some(hard) = ready.hs() {
            self.node.mut_store().hard = hard.clone();
        }
        if !ready.must_sync() {
            return Ok(());
        }
        self.disk.at(Step::LogWrite)?;
        let mut batch = WriteBatch::default();
        let metadata = ready.snapshot().get_metadata();
        let installs = metadata.index != 0;
        if installs {
            let index = metadata.index;
            self.disk.at(Step::Install { index })?;
            let contents = Contents::decode(Bytes::from(ready.snapshot().data.clone()));
            let contents = contents.ok_or(StoreError::Malformed("snapshot"))?;
            self.state.replace(index, contents, &mut batch)?;
            let conf = metadata.get_conf_state().clone();
            let log = self.node.mut_store();
            log.restart(&mut batch, index, metadata.term, conf);
        }
        let log = self.node.mut_store();
        log.append(&mut batch, ready.entries());
        log.put_hard(&mut batch);
        self.disk.write(batch, true)?;
        self.disk.at(Step::LogWritten {
            term: log.hard.term,
            vote: log.hard.vote,
            last: log.last(),
            synced: true,
        })?;
        if installs {
            out.push(Output::Applied(Applied {
                index: metadata.index,
                term: metadata.term,
                changes: vec![Change::Reset],
            }));
            if let Some(last) = self.state.proposers.get(&self.config.id) {
                self.proposals.passed(*last, out);
            }
        }
        Ok(())
    }

    fn send(&mut self, messages: Vec<Message>, out: &mut Vec<Output>) -> Result<(), Halt> {
        for message in messages {
            if let Some(kind) = spoken(&message) {
                self.disk.at(Step::Release {
                    to: message.to,
                    kind,
                    term: message.term,
                    index: message.index,
                })?;
            }
            let to = message.to;
            let snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
            if snapshot {
                self.snapshots_sent.insert(to, self.now + SNAPSHOT_TICKS);
            }
            out.push(Output::Send {
                to,
                octets: envelope::encode(&self.address(to), &Letter::Raft(Box::new(message))),
                snapshot,
            });
        }
        Ok(())
    }

    fn apply(&mut self, entries: Vec<Entry>, out: &mut Vec<Output>) -> Result<(), Halt> {
        for entry in entries {
            let (index, term) = (entry.index, entry.term);
            let log = self.node.store();
            assert!(
                index <= log.hard.commit && index == self.state.applied + 1,
                "entries are applied one by one and once committed"
            );
            if entry.data.is_empty() && term == self.node.raft.term {
                // A leader that has committed in its term can answer reads.
                self.reads.ask_again();
            }
            let proposal = proposal_of(entry)?;
            let name = proposal.as_ref().map(|it| (it.proposer, it.id));
            let mut effect = self
                .state
                .apply((index, term), proposal, |batch| log.put_hard(batch))?;
            if let Effect::Applied(changes) = &mut effect
                && !changes.is_empty()
            {
                out.push(Output::Applied(Applied {
                    index,
                    term,
                    changes: std::mem::take(changes),
                }));
            }
            if let Some((proposer, id)) = name {
                self.proposals.settle(proposer, id, index, &effect, out);
                if effect == Effect::Superseded {
                    self.count_above(proposer, out)?;
                }
            }
        }
        Ok(())
    }

    /// If a proposal of a later start in this replica's name took effect, counts its proposals above it: they would be
    /// superseded for good. A clock that was ahead in an earlier life makes one, and so does a forger.
    fn count_above(&mut self, proposer: u64, out: &mut Vec<Output>) -> Result<(), Halt> {
        let last = self.state.proposers.get(&proposer);
        let above = last.and_then(|last| last.boot.checked_add(1));
        let Some(boot) =
            above.filter(|above| proposer == self.config.id && *above > self.proposals.boot() + 1)
        else {
            return Ok(());
        };
        open::count(&self.disk, boot)?;
        tracing::warn!(
            boot,
            "a later start of this replica has proposed: counting above it"
        );
        self.proposals.begin(boot, out);
        Ok(())
    }

    pub(crate) fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    pub(crate) fn address(&self, to: u64) -> Address {
        Address {
            cluster: self.config.cluster,
            from: self.config.id,
            to,
        }
    }
}

/// The proposal that an entry carries; the entry of a new leader carries none.
fn proposal_of(entry: Entry) -> Result<Option<Proposal>, Halt> {
    if entry.data.is_empty() {
        return Ok(None);
    }
    let (index, term) = (entry.index, entry.term);
    let proposal = Proposal::decode(entry.data.into());
    proposal.map(Some).ok_or(Halt::Undecodable { index, term })
}

/// What a message says of what is durable, if anything.
fn spoken(message: &Message) -> Option<Spoken> {
    match message.get_msg_type() {
        MessageType::MsgRequestVote => Some(Spoken::VoteRequest),
        MessageType::MsgRequestVoteResponse if !message.reject => Some(Spoken::Vote),
        MessageType::MsgAppendResponse if !message.reject => Some(Spoken::Acknowledgement),
        _ => None,
    }
}

/// How long a snapshot may be under way before it counts as lost, and a built one is kept for the
/// next follower: 60 s.
pub(crate) const SNAPSHOT_TICKS: u64 = 1200;
