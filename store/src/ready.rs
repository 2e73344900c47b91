//! What Raft is told and what it has ready: step, persist, send, apply, in the order that keeps its
//! promises. Knows no format but calls those who do.
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

use std::hash::BuildHasher;

use bytes::Bytes;
use raft::{
    Ready, SnapshotStatus, StateRole,
    eraftpb::{Entry, Message, MessageType},
};
use rocksdb::WriteBatch;

use crate::{
    apply::Effect,
    batch::{Applied, Change, Proposal},
    config::{ELECTION_TICKS, Spoken, Step},
    envelope::{self, Address, Letter},
    error::{Halt, StoreError},
    guard::{self, Refusal, Standing},
    replica::{Input, Output, Replica},
    snapshot::Contents,
    view::BuildFnv,
};

impl Replica {
    /// Tells Raft, or those beside it, of one input.
    pub(crate) fn take_in(&mut self, input: Input, out: &mut Vec<Output>) -> Result<(), Halt> {
        match input {
            Input::Tick => self.tick(out)?,
            Input::Message { from, octets } => self.receive(from, octets, out)?,
            Input::Propose { batch, ticket } => {
                let deadline = self.now + u64::from(self.config.proposal_ticks);
                self.proposals.add(batch, ticket, deadline, out);
            }
            Input::Read { ticket } => {
                let deadline = self.now + u64::from(self.config.read_ticks);
                if !self.reads.add(ticket, deadline) {
                    out.push(Output::ReadFailed { ticket });
                }
            }
            Input::Unreachable(id) => self.node.report_unreachable(id),
            Input::SnapshotSent { to, ok } => {
                self.snapshots_sent.remove(&to);
                self.node.report_snapshot(to, snapshot_status(ok));
            }
            Input::Campaign => {
                self.persist_first(out)?;
                if let Err(error) = self.node.campaign() {
                    tracing::debug!(%error, "cannot campaign");
                }
            }
            Input::TransferLeader(to) => self.transfer(to, out),
        }
        Ok(())
    }

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

    fn tick(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        self.now += 1;
        self.persist_first(out)?;
        // Raft draws election timeouts from the thread's randomness. Ours follow from the seed, so
        // that one seed gives one history.
        let raft = &mut self.node.raft;
        let draw = BuildFnv::default().hash_one((
            self.config.seed,
            self.config.id,
            raft.term,
            self.campaigns,
        ));
        let spread = usize::try_from(draw % ELECTION_TICKS as u64).unwrap_or(0);
        raft.set_randomized_election_timeout(ELECTION_TICKS + spread);
        let follows = raft.state != StateRole::Leader;
        if self.node.tick() && follows {
            self.campaigns += 1;
        }
        self.proposals.expire(self.now, out);
        self.reads.expire(self.now, out);
        let now = self.now;
        let overdue: Vec<u64> = self
            .snapshots_sent
            .extract_if(.., |_, until| *until <= now)
            .map(|(to, _)| to)
            .collect();
        for to in overdue {
            self.node.report_snapshot(to, SnapshotStatus::Failure);
        }
        if now.is_multiple_of(SNAPSHOT_TICKS) && self.snapshots_sent.is_empty() {
            self.node.store().forget_snapshot();
        }
        Ok(())
    }

    fn receive(&mut self, from: u64, octets: Bytes, out: &mut Vec<Output>) -> Result<(), Halt> {
        let refusal = match self.open_letter(from, octets) {
            Ok(Letter::Raft(message)) => return self.step(*message, out),
            Ok(Letter::Propose(entry)) => {
                let deadline = self.now + u64::from(self.config.proposal_ticks);
                self.proposals.add_forwarded(entry, deadline);
                return Ok(());
            }
            Ok(Letter::Transfer(to)) => {
                if self.leads() {
                    self.node.transfer_leader(to);
                }
                return Ok(());
            }
            Err(refusal) => refusal,
        };
        self.refused += 1;
        tracing::debug!(from, %refusal, "message refused");
        match refusal {
            Refusal::LostLog { commit } => Err(Halt::LostLog {
                leader: from,
                commit,
                last: self.node.raft.raft_log.last_index(),
            }),
            Refusal::Malformed | Refusal::Foreign | Refusal::Kind | Refusal::Implausible(_) => {
                Ok(())
            }
        }
    }

    /// What `octets` say, if it may be believed that `from` says it.
    fn open_letter(&self, from: u64, octets: Bytes) -> Result<Letter, Refusal> {
        let (address, mut letter) = envelope::decode(octets).ok_or(Refusal::Malformed)?;
        let expected = Address {
            cluster: self.config.cluster,
            from,
            to: self.config.id,
        };
        let is_voter = self.config.voters.contains(&from);
        if address != expected || from == self.config.id || !is_voter {
            return Err(Refusal::Foreign);
        }
        match &mut letter {
            Letter::Raft(message) => {
                let raft = &self.node.raft;
                let standing = Standing {
                    id: self.config.id,
                    voters: &self.config.voters,
                    leads: self.leads(),
                    term: raft.term,
                    commit: raft.raft_log.committed,
                    last: raft.raft_log.last_index(),
                };
                guard::admit(message, from, &standing)?;
            }
            Letter::Propose(entry) => {
                let proposal = Proposal::decode(entry.clone()).ok_or(Refusal::Malformed)?;
                if proposal.proposer != from {
                    return Err(Refusal::Foreign);
                }
            }
            Letter::Transfer(to) => {
                if !self.config.voters.contains(to) {
                    return Err(Refusal::Foreign);
                }
            }
        }
        Ok(letter)
    }

    fn step(&mut self, message: Message, out: &mut Vec<Output>) -> Result<(), Halt> {
        // Raft expects whoever is elected to have persisted its whole log.
        if matches!(
            message.get_msg_type(),
            MessageType::MsgRequestVoteResponse
                | MessageType::MsgRequestPreVoteResponse
                | MessageType::MsgTimeoutNow
        ) {
            self.persist_first(out)?;
        }
        if let Err(error) = self.node.step(message) {
            tracing::debug!(%error, "message ignored");
        }
        Ok(())
    }

    fn transfer(&mut self, to: u64, out: &mut Vec<Output>) {
        let leader = self.node.raft.leader_id;
        if self.leads() {
            self.node.transfer_leader(to);
        } else if leader != 0 && self.config.voters.contains(&to) {
            out.push(self.letter(leader, &Letter::Transfer(to)));
        }
    }

    /// A round if there is anything that is not on disk.
    fn persist_first(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        let log = &self.node.raft.raft_log;
        if !log.unstable_entries().is_empty() || log.unstable_snapshot().is_some() {
            self.round(out)?;
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

    fn round(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
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
            let proposal = Proposal::decode(Bytes::from(entry.data));
            let name = proposal.as_ref().map(|it| (it.proposer, it.id));
            let mut effect = self
                .state
                .apply(index, proposal, |batch| log.put_hard(batch))?;
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
            }
        }
        Ok(())
    }

    fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    fn address(&self, to: u64) -> Address {
        Address {
            cluster: self.config.cluster,
            from: self.config.id,
            to,
        }
    }

    fn letter(&self, to: u64, letter: &Letter) -> Output {
        Output::Send {
            to,
            octets: envelope::encode(&self.address(to), letter),
            snapshot: false,
        }
    }
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

fn snapshot_status(ok: bool) -> SnapshotStatus {
    if ok {
        SnapshotStatus::Finish
    } else {
        SnapshotStatus::Failure
    }
}

/// How long a snapshot may be under way before it counts as lost, and a built one is kept for the
/// next follower: 60 s.
const SNAPSHOT_TICKS: u64 = 1200;
