//! What one input tells Raft, or those beside it. Knows no disk write: `ready` makes them.

use std::{hash::BuildHasher, mem};

use bytes::Bytes;
use raft::{
    SnapshotStatus, StateRole,
    eraftpb::{Message, MessageType},
};

use crate::{
    batch::Proposal,
    config::{ELECTION_TICKS, HEARTBEAT_TICKS, TICK_MS},
    envelope::{self, Address, Letter},
    error::Halt,
    guard::{self, Refusal, Standing},
    ready::SNAPSHOT_TICKS,
    replica::{Input, Output, Replica},
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
            Input::Gone(id) => self.leader_gone(id),
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

    fn tick(&mut self, out: &mut Vec<Output>) -> Result<(), Halt> {
        self.now += 1;
        self.persist_first(out)?;
        let timeout = ELECTION_TICKS + self.election_spread();
        let raft = &mut self.node.raft;
        raft.set_randomized_election_timeout(timeout);
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

    /// Ticks beyond [`ELECTION_TICKS`] that this replica waits before it campaigns. Forgets a leader that was [`Input::Gone`],
    /// and was heard of since or is not the leader any more.
    fn election_spread(&mut self) -> usize {
        let raft = &self.node.raft;
        let waits = raft.election_elapsed >= ELECTION_TICKS;
        self.gone = self.gone.filter(|id| waits && raft.leader_id == *id);
        if let Some(gone) = self.gone {
            // In turn, so that votes are not split; the last two of seven together.
            let others = self.config.voters.iter().filter(|id| **id != gone);
            let turn = others.filter(|id| **id < self.config.id).count();
            return (GONE_TICKS + turn * TURN_TICKS).min(ELECTION_TICKS - 1);
        }
        // Raft draws election timeouts from the thread's randomness. Ours follow from the seed, so
        // that one seed gives one history.
        let draw = BuildFnv::default().hash_one((
            self.config.seed,
            self.config.id,
            raft.term,
            self.campaigns,
        ));
        usize::try_from(draw % ELECTION_TICKS as u64).unwrap_or(0)
    }

    /// Ends the lease of a leader whose process is taken for ended: this replica votes for whoever campaigns, and campaigns in
    /// its turn. A message of that leader gives it its lease back.
    fn leader_gone(&mut self, id: u64) {
        self.node.report_unreachable(id);
        let raft = &mut self.node.raft;
        let led = raft.state == StateRole::Follower && raft.leader_id == id;
        if led && self.gone != Some(id) {
            // However long it has been silent: turns are counted from here.
            raft.election_elapsed = ELECTION_TICKS;
            self.gone = Some(id);
        }
    }

    fn receive(&mut self, from: u64, octets: Bytes, out: &mut Vec<Output>) -> Result<(), Halt> {
        let refusal = match self.open_letter(from, octets) {
            Ok(letter) => {
                self.heard.insert(from);
                return self.obey(letter, out);
            }
            Err(refusal) => refusal,
        };
        self.refused += 1;
        let voter = self.config.voters.contains(&from).then_some(from);
        let kind = (voter, mem::discriminant(&refusal));
        let count = self.refusals.entry(kind).or_default();
        *count += 1;
        if count.is_power_of_two() {
            tracing::warn!(from, %refusal, count, "messages of a replica refused");
        }
        match refusal {
            Refusal::LostLog { commit } => Err(Halt::LostLog {
                leader: from,
                commit,
                last: self.node.raft.raft_log.last_index(),
            }),
            Refusal::Conflict(conflict) => Err(Halt::Conflict {
                leader: from,
                conflict,
            }),
            Refusal::Malformed
            | Refusal::Format { .. }
            | Refusal::Foreign
            | Refusal::Kind
            | Refusal::Implausible(_) => Ok(()),
        }
    }

    fn obey(&mut self, letter: Letter, out: &mut Vec<Output>) -> Result<(), Halt> {
        match letter {
            Letter::Raft(message) => self.step(*message, out)?,
            Letter::Propose(entry) => {
                let deadline = self.now + u64::from(self.config.proposal_ticks);
                self.proposals.add_forwarded(entry, deadline);
            }
            Letter::Transfer(to) if self.leads() => self.node.transfer_leader(to),
            Letter::Transfer(_) => {}
        }
        Ok(())
    }

    /// What `octets` say, if it may be believed that `from` says it.
    fn open_letter(&self, from: u64, octets: Bytes) -> Result<Letter, Refusal> {
        let (address, mut letter) = envelope::decode(octets)?;
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
                // Raft says 0 where its log has no entry.
                let term_of = |index| raft.raft_log.term(index).ok().filter(|term| *term > 0);
                let standing = Standing {
                    id: self.config.id,
                    voters: &self.config.voters,
                    leads: self.leads(),
                    term: raft.term,
                    leader: raft.leader_id,
                    commit: raft.raft_log.committed,
                    last: raft.raft_log.last_index(),
                    term_of: &term_of,
                };
                guard::admit(message, from, &standing)?;
            }
            Letter::Propose(entry) => {
                let proposal = Proposal::decode(entry.clone()).ok_or(Refusal::Malformed)?;
                if proposal.proposer != from {
                    return Err(Refusal::Foreign);
                }
                let last = self.state.proposers.get(&from).copied();
                guard::admit_proposal(&proposal, last.unwrap_or_default(), self.boot_max())?;
                if !(self.config.accepts)(&proposal.batch) {
                    return Err(Refusal::Implausible("batch"));
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

    /// No start of a replica counts higher: a year ahead of this replica's clock, which its own start was counted by.
    fn boot_max(&self) -> u64 {
        let since_start = self.now * TICK_MS / 1000;
        self.proposals.boot() + since_start + BOOT_LEAP_MAX
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

    fn letter(&self, to: u64, letter: &Letter) -> Output {
        Output::Send {
            to,
            octets: envelope::encode(&self.address(to), letter),
            snapshot: false,
        }
    }
}

fn snapshot_status(ok: bool) -> SnapshotStatus {
    if ok {
        SnapshotStatus::Finish
    } else {
        SnapshotStatus::Failure
    }
}

/// Most seconds that the clocks of two replicas are apart: a year.
const BOOT_LEAP_MAX: u64 = 366 * 86_400;
/// Ticks in which a leader that is called gone, and lives, is heard of: a whole one more than there are between two
/// heartbeats, for the first may end at once.
const GONE_TICKS: usize = HEARTBEAT_TICKS + 2;
/// Ticks from one replica's turn to campaign to the next one's: two exchanges of messages and a synced write.
const TURN_TICKS: usize = 2;
