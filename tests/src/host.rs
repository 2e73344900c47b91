//! One replica's process: the store, the reflector, a stake and a writer for each session, in the
//! places of the threads and tasks that hold them in the daemon. Knows no wire: what it sends, the
//! world carries.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use weft_bgp::constrain::Interest;
use weft_bgp::frame;
use weft_bgp::message::update::Update;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::peer::PeerId;
use weft_bgp::reflect::Local;
use weft_bgp::update_group::ExportKey;
use weft_bgp::update_group::journal::Journal;
use weft_controller::reflector::families::GroupId;
use weft_controller::reflector::owner::{self, Parting};
use weft_controller::reflector::{Output as Reflected, Reflector};
use weft_store::{Applied, Batch, Change, Config, Input, Outcome, Output, Replica, Status};

use crate::leadership::Leadership;
use crate::network::Packet;
use crate::random::Random;
use crate::stake::{Driven, FAMILIES, KIND, Moment, time};
use crate::writer::{Stream, Writer};

/// A running replica.
pub(crate) struct Host {
    pub(crate) id: u64,
    members: Vec<u64>,
    local: Local,
    pub(crate) store: Replica,
    pub(crate) reflector: Reflector,
    journals: BTreeMap<GroupId, Journal>,
    journal_octets: usize,
    /// Applied and not yet reflected.
    sink: VecDeque<Applied>,
    emitted: u64,
    stakes: BTreeMap<PeerId, Driven>,
    members_of_groups: BTreeMap<u64, Member>,
    leadership: Leadership,
    heard: BTreeMap<u64, u64>,
    tickets: BTreeMap<u64, Asker>,
    last_ticket: u64,
    next_tick: u64,
    start: Start,
}

/// Whose proposal or read it is.
#[derive(Clone, Copy)]
enum Asker {
    Stake(PeerId),
    Leadership,
    Start,
    Join(u64),
}

/// What a replica held before it died is over: said until it is agreed. Peers are served meanwhile, when
/// that takes long, but nothing about them is proposed: it would be lost with what was held before.
struct Start {
    serves_at: u64,
    ticket: Option<u64>,
    again_at: u64,
    disowned: bool,
    serves: bool,
}

/// A session's place among the readers.
struct Member {
    peer: PeerId,
    context: DecodeContext,
    writer: Writer,
    joins: VecDeque<Join>,
}

/// Why a member wants routes, as in `speaker::peer::joining`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It has a session; a majority is asked first.
    Fresh,
    /// It asks for all of them once more.
    Again,
    /// It fell off its journal.
    Behind,
}

enum Join {
    /// Not begun.
    Wanted {
        since: u64,
        why: Why,
    },
    Reading {
        deadline: u64,
    },
    /// No index: no majority confirmed what is current.
    Waiting {
        since: u64,
        index: Option<u64>,
        why: Why,
    },
}

/// What a turn of a replica produced.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) packets: Vec<Packet>,
    pub(crate) applied: Vec<Applied>,
    pub(crate) statuses: Vec<Status>,
    /// Sessions that must begin again: what they missed is forgotten.
    pub(crate) too_old: Vec<u64>,
    /// Sessions that were told the table without a majority's word that it is current.
    pub(crate) unconfirmed: Vec<u64>,
}

impl Host {
    pub(crate) fn open(config: Config, local: Local, journal_octets: usize, now: u64) -> Self {
        let (id, members) = (config.id, config.voters.clone());
        let store = Replica::open(config).expect("a directory that a replica left opens again");
        let mut host = Self {
            id,
            members,
            local,
            reflector: Reflector::new(local),
            store,
            journals: BTreeMap::new(),
            journal_octets,
            sink: VecDeque::new(),
            emitted: 0,
            stakes: BTreeMap::new(),
            members_of_groups: BTreeMap::new(),
            leadership: Leadership::default(),
            heard: BTreeMap::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            next_tick: now,
            start: Start {
                serves_at: now + START_PATIENCE,
                ticket: None,
                again_at: now,
                disowned: false,
                serves: false,
            },
        };
        host.reset();
        host
    }

    pub(crate) fn serves(&self) -> bool {
        self.start.serves
    }

    pub(crate) fn receive(&mut self, packet: &Packet, now: u64) {
        self.heard.insert(packet.from, now);
        self.store.handle(Input::Message {
            from: packet.from,
            octets: packet.octets.clone(),
        });
    }

    /// What became of a packet, for those that the store wants to know of.
    pub(crate) fn sent(&mut self, packet: &Packet, ok: bool) {
        if packet.snapshot {
            self.store.handle(Input::SnapshotSent { to: packet.to, ok });
        }
        if !ok {
            self.store.handle(Input::Unreachable(packet.to));
        }
    }

    /// Tells the store that a replica's machine refuses connections.
    pub(crate) fn refused_by(&mut self, replica: u64) {
        self.store.handle(Input::Gone(replica));
    }

    /// Everything that can be done now.
    pub(crate) fn turn(&mut self, now: u64, random: &mut Random) -> Turn {
        let mut turn = Turn::default();
        if now >= self.next_tick {
            self.store.handle(Input::Tick);
            self.next_tick = now + weft_store::config::TICK_MS;
        }
        self.say(now);
        self.lead(now);
        self.settle(now, random, &mut turn);
        // The reflector's thread may be behind.
        if !random.permille(100) {
            self.reflect();
        }
        self.join(now, &mut turn);
        self.advance(now, random);
        self.settle(now, random, &mut turn);
        turn
    }

    fn settle(&mut self, now: u64, random: &mut Random, turn: &mut Turn) {
        let mut outputs = Vec::new();
        self.store.poll(&mut outputs);
        for output in outputs {
            match output {
                Output::Send {
                    to,
                    octets,
                    snapshot,
                } => turn.packets.push(Packet {
                    from: self.id,
                    to,
                    octets,
                    snapshot,
                }),
                Output::Applied(applied) => {
                    self.emitted = applied.index;
                    turn.applied.push(applied.clone());
                    self.sink.push_back(applied);
                }
                Output::Proposed { ticket, outcome } => {
                    // The reflector's thread may be faster than who is woken.
                    if random.permille(500) {
                        self.reflect();
                    }
                    self.proposed(ticket, &outcome, now);
                }
                Output::ReadReady { ticket, .. } => self.read(ticket, Some(self.emitted)),
                Output::ReadFailed { ticket } => self.read(ticket, None),
                Output::Status(status) => turn.statuses.push(status),
            }
        }
    }

    fn proposed(&mut self, ticket: u64, outcome: &Outcome, now: u64) {
        match self.tickets.remove(&ticket) {
            Some(Asker::Stake(peer)) => {
                if let Some(driven) = self.stakes.get_mut(&peer) {
                    driven.stake.ended(ticket, outcome, time(now));
                }
            }
            Some(Asker::Leadership) => self.leadership.ended(ticket),
            Some(Asker::Start) => self.said(outcome, now),
            Some(Asker::Join(_)) | None => {}
        }
    }

    fn say(&mut self, now: u64) {
        let start = &mut self.start;
        start.serves |= start.disowned || now >= start.serves_at;
        if !start.disowned && start.ticket.is_none() && now >= start.again_at {
            let ticket = self.propose(owner::disown(self.id), Asker::Start);
            self.start.ticket = Some(ticket);
        }
    }

    fn said(&mut self, outcome: &Outcome, now: u64) {
        self.start.ticket = None;
        self.start.again_at = now + RETRY;
        self.start.disowned = match outcome {
            Outcome::Applied { .. } => true,
            Outcome::ConditionFailed { .. } | Outcome::Superseded | Outcome::Dropped => false,
        };
    }

    fn propose(&mut self, batch: Batch, asker: Asker) -> u64 {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.tickets.insert(ticket, asker);
        self.store.handle(Input::Propose { batch, ticket });
        ticket
    }

    fn lead(&mut self, now: u64) {
        let status = self.store.status();
        let peers = self.reflector.peers();
        let batch = self
            .leadership
            .turn(&status, &self.members, &self.heard, peers, now);
        if let Some(batch) = batch {
            let ticket = self.propose(batch, Asker::Leadership);
            self.leadership.proposed(ticket);
        }
    }

    fn advance(&mut self, now: u64, random: &mut Random) {
        if !self.start.disowned {
            return;
        }
        let Self {
            stakes,
            store,
            tickets,
            last_ticket,
            ..
        } = self;
        let view = store.view();
        for (peer, driven) in stakes.iter_mut() {
            let mut propose = |batch| {
                *last_ticket += 1;
                tickets.insert(*last_ticket, Asker::Stake(*peer));
                store.handle(Input::Propose {
                    batch,
                    ticket: *last_ticket,
                });
                *last_ticket
            };
            driven.go_on(&mut Moment {
                now,
                view: &view,
                random,
                propose: &mut propose,
            });
        }
        stakes.retain(|_, driven| !driven.stake.is_done());
    }

    /// What the reflector's thread does with the applied entries that wait for it.
    fn reflect(&mut self) {
        while let Some(applied) = self.sink.pop_front() {
            if applied.changes.contains(&Change::Reset) {
                self.reset();
            } else {
                self.reflector.handle(&applied).expect(UNDERSTOOD);
            }
        }
        self.poll();
    }

    fn reset(&mut self) {
        let view = self.store.view();
        let state = view.frozen();
        let index = state.applied().expect("the store can be read");
        let facts = state
            .scan(b"")
            .map(|fact| fact.expect("the store can be read"));
        self.reflector
            .reset(index, facts.collect())
            .expect(UNDERSTOOD);
    }

    fn poll(&mut self) {
        let mut outputs = Vec::new();
        self.reflector.poll(&mut outputs);
        for output in outputs {
            match output {
                Reflected::Advertise(group, segment) => {
                    if let Some(journal) = self.journals.get_mut(&group) {
                        journal.push(segment);
                    }
                }
                Reflected::Agreed(peer, agreed) => {
                    if let Some(driven) = self.stakes.get_mut(&peer) {
                        driven.stake.agree(agreed);
                    }
                }
                Reflected::Control
                | Reflected::Declared(_)
                | Reflected::Pinned(_)
                | Reflected::Decided(_)
                | Reflected::Selected(_)
                | Reflected::View(_)
                | Reflected::Alarm(_) => {}
            }
        }
    }
}

/// Sessions.
impl Host {
    pub(crate) fn established(
        &mut self,
        session: u64,
        peer: PeerId,
        address: IpAddr,
        context: DecodeContext,
        now: u64,
    ) {
        let agreed = self.reflector.agreed(peer);
        match self.stakes.get_mut(&peer) {
            Some(driven) => driven.resume(now),
            None => {
                let us = (self.id, self.members.clone());
                let driven = Driven::begin(us, (peer, address), self.local, agreed, now);
                self.stakes.insert(peer, driven);
            }
        }
        let wanted = Join::Wanted {
            since: 0,
            why: Why::Fresh,
        };
        let member = Member {
            peer,
            context,
            writer: Writer::default(),
            joins: VecDeque::from([wanted]),
        };
        self.members_of_groups.insert(session, member);
    }

    pub(crate) fn down(&mut self, session: u64, parting: Parting, now: u64) {
        if let Some(member) = self.members_of_groups.remove(&session)
            && let Some(driven) = self.stakes.get_mut(&member.peer)
        {
            driven.stake.end(parting, false, time(now));
        }
    }

    /// Octets of a session's peer; a wish for all routes again is one of them.
    pub(crate) fn hear(&mut self, session: u64, octets: &[u8], now: u64) {
        let Some(member) = self.members_of_groups.get_mut(&session) else {
            return;
        };
        let mut buffer = BytesMut::from(octets);
        let key = ExportKey::new(KIND, &member.context);
        while let Some(frame) =
            frame::split(&mut buffer, key.max_len).expect("a model peer sends sound messages")
        {
            let message = Message::decode(frame, &member.context);
            match message.expect("a model peer sends sound messages") {
                Message::Update(update) => {
                    if let Some(driven) = self.stakes.get_mut(&member.peer) {
                        let learned = driven.stake.learn(&update, time(now)).expect("sound NLRI");
                        assert!(learned.refused.is_empty(), "refused: {learned:?}");
                    }
                }
                Message::RouteRefresh(_) => {
                    let wanted = Join::Wanted {
                        since: 0,
                        why: Why::Again,
                    };
                    member.joins.push_back(wanted);
                }
                Message::Open(_) | Message::Notification(_) | Message::Keepalive => {}
            }
        }
    }

    /// What can be written to a session's peer now.
    pub(crate) fn write(&mut self, session: u64, room: usize) -> Vec<Bytes> {
        let mut out = Vec::new();
        if let Some(member) = self.members_of_groups.get_mut(&session) {
            let lagged = member
                .writer
                .fill(&self.journals, member.peer, room, &mut out);
            if let Some(since) = lagged {
                member.joins.push_back(Join::Wanted {
                    since,
                    why: Why::Behind,
                });
            }
        }
        out
    }

    fn read(&mut self, ticket: u64, index: Option<u64>) {
        if let Some(Asker::Join(session)) = self.tickets.remove(&ticket)
            && let Some(member) = self.members_of_groups.get_mut(&session)
            && let Some(join) = member.joins.front_mut()
            && matches!(join, Join::Reading { .. })
        {
            *join = Join::Waiting {
                since: 0,
                index,
                why: Why::Fresh,
            };
        }
    }

    fn join(&mut self, now: u64, turn: &mut Turn) {
        let sessions: Vec<u64> = self.members_of_groups.keys().copied().collect();
        for session in sessions {
            let Some(member) = self.members_of_groups.get_mut(&session) else {
                continue;
            };
            match member.joins.front_mut() {
                Some(
                    join @ Join::Wanted {
                        why: Why::Fresh, ..
                    },
                ) => {
                    *join = Join::Reading {
                        deadline: now + READ_TIMEOUT,
                    };
                    self.last_ticket += 1;
                    let ticket = self.last_ticket;
                    self.tickets.insert(ticket, Asker::Join(session));
                    self.store.handle(Input::Read { ticket });
                }
                Some(join @ Join::Wanted { .. }) => {
                    if let Join::Wanted { since, why } = *join {
                        *join = Join::Waiting {
                            since,
                            index: None,
                            why,
                        };
                    }
                }
                Some(join @ Join::Reading { .. }) => {
                    if matches!(*join, Join::Reading { deadline } if now >= deadline) {
                        *join = Join::Waiting {
                            since: 0,
                            index: None,
                            why: Why::Fresh,
                        };
                    }
                }
                Some(Join::Waiting { since, index, why }) => {
                    let (since, index, why) = (*since, *index, *why);
                    if index.unwrap_or(0) <= self.reflector.index() {
                        self.admit(session, (since, why), index, turn);
                    }
                }
                None => {}
            }
        }
    }

    fn admit(
        &mut self,
        session: u64,
        (since, why): (u64, Why),
        index: Option<u64>,
        turn: &mut Turn,
    ) {
        if why == Why::Fresh && index.is_none() {
            turn.unconfirmed.push(session);
        }
        self.poll();
        let Some(member) = self.members_of_groups.get_mut(&session) else {
            return;
        };
        member.joins.pop_front();
        let [family] = FAMILIES;
        let key = ExportKey::new(KIND, &member.context);
        let group = self.reflector.group(family, &key);
        let limit = self.journal_octets;
        let journal = self
            .journals
            .entry(group)
            .or_insert_with(|| Journal::new(limit));
        let Ok(image) = self
            .reflector
            .image(family, group, since, &Interest::Everything)
        else {
            turn.too_old.push(session);
            return;
        };
        let end = Message::Update(Box::new(Update::end_of_rib(family)));
        member.writer.begin(Stream {
            group,
            image: image.segment,
            cursor: journal.end(),
            end_of_rib: index.map(|_| end.encode(&member.context)),
            again: why == Why::Again,
        });
    }
}

// As in `daemon` and `consensus`, in milliseconds.
const START_PATIENCE: u64 = 5_000;
const RETRY: u64 = 100;
const READ_TIMEOUT: u64 = 10_000;

const UNDERSTOOD: &str = "every replica of a world has one format, and understands its facts";
