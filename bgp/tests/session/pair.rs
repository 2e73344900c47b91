//! Two sessions that dial each other over a network that reorders everything but the octets of one
//! connection: they always end with exactly one connection.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weft_bgp::capability::GracefulRestart;
use weft_bgp::family::Family;
use weft_bgp::message::Message;
use weft_bgp::session::{Input, Output, RemoteAsn, Session, SessionConfig, Side};

use crate::words::{self, ASN, epoch, router_id};

/// What travels on a connection after its handshake.
#[derive(Debug)]
enum Item {
    Message(Message),
    End,
}

/// One TCP connection; index 0 of a pair is for the first speaker.
#[derive(Debug)]
struct Wire {
    dialer: usize,
    /// The edge of a speaker was not told yet that the connection is there.
    untold: [bool; 2],
    /// What was sent to a speaker and not read by it.
    unread: [VecDeque<Item>; 2],
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start(usize),
    Tell(usize, u32),
    Read(usize, u32),
    /// The network breaks a connection or a handshake; nothing unread arrives.
    Break(u32),
}

struct World {
    sessions: [Session; 2],
    started: [bool; 2],
    held: [BTreeMap<Side, u32>; 2],
    wires: BTreeMap<u32, Wire>,
    dialed: u32,
    downs: usize,
    /// Closing with unread octets resets: what was sent before may be lost.
    resets: bool,
    now: Instant,
}

impl World {
    /// `restarts`: both keep routes over a restart.
    fn new(
        ids: [(u8, u32); 2],
        passive: [bool; 2],
        seeds: [u64; 2],
        (resets, restarts): (bool, bool),
    ) -> Self {
        let session = |me: usize| {
            let (host, asn) = ids[me];
            let remote = RemoteAsn::Exactly(ids[1 - me].1);
            Session::new(SessionConfig {
                hold: Duration::from_secs(9),
                families: vec![Family::L2VPN_EVPN, Family::RTC],
                passive: passive[me],
                delay_jitter_seed: seeds[me],
                graceful_restart: restarts.then(|| GracefulRestart {
                    restart_secs: 90,
                    families: vec![(Family::L2VPN_EVPN, true)],
                    ..GracefulRestart::default()
                }),
                ..SessionConfig::new(asn, router_id(host), remote)
            })
        };
        Self {
            sessions: [session(0), session(1)],
            started: [false; 2],
            held: Default::default(),
            wires: BTreeMap::new(),
            dialed: 0,
            downs: 0,
            resets,
            now: epoch(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events: Vec<_> = (0..2)
            .filter(|&who| !self.started[who])
            .map(Event::Start)
            .collect();
        for (&id, wire) in &self.wires {
            for who in 0..2 {
                if wire.untold[who] {
                    events.push(Event::Tell(who, id));
                } else if !wire.unread[who].is_empty() {
                    events.push(Event::Read(who, id));
                }
            }
        }
        events
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(who) => {
                self.started[who] = true;
                self.input(who, Input::Start, None);
            }
            Event::Tell(who, id) => {
                let wire = self.wires.get_mut(&id).unwrap();
                wire.untold[who] = false;
                let side = side_of(wire, who);
                self.input(who, Input::Connected(side), Some(id));
            }
            Event::Read(who, id) => {
                let wire = self.wires.get_mut(&id).unwrap();
                let item = wire.unread[who].pop_front().unwrap();
                let side = side_of(wire, who);
                if self.held[who].get(&side) != Some(&id) {
                    return;
                }
                match item {
                    Item::Message(message) => {
                        self.input(who, Input::Message(side, message), None);
                    }
                    Item::End => {
                        self.held[who].remove(&side);
                        self.input(who, Input::Disconnected(side), None);
                    }
                }
            }
            Event::Break(id) => self.break_wire(id),
        }
    }

    fn break_wire(&mut self, id: u32) {
        let wire = self.wires.get_mut(&id).unwrap();
        wire.unread = [VecDeque::from([Item::End]), VecDeque::from([Item::End])];
        let dialer = wire.dialer;
        let fails = wire.untold[dialer];
        wire.untold = [false; 2];
        if fails {
            self.input(dialer, Input::ConnectFailed, None);
        }
    }

    /// `announced` is the connection that `Input::Connected` is about.
    fn input(&mut self, who: usize, input: Input, mut announced: Option<u32>) {
        self.sessions[who].handle(input, self.now);
        for output in words::drain(&mut self.sessions[who]) {
            match output {
                Output::Connect => self.dial(who),
                Output::Send(side, message) => {
                    if let Some(id) = announced.take() {
                        assert_eq!(self.held[who].insert(side, id), None, "two on one side");
                    }
                    let id = self.held[who][&side];
                    self.write(who, id, Item::Message(message));
                }
                Output::Close(side) => match self.held[who].remove(&side) {
                    Some(id) => self.close(who, id),
                    None => self.cancel(who),
                },
                Output::Refuse(_) => {
                    let id = announced.take().expect("refuses what was announced");
                    let notification = self.sessions[who].refusal().notification();
                    self.write(who, id, Item::Message(Message::Notification(notification)));
                    self.close(who, id);
                }
                Output::Down(_) => self.downs += 1,
                Output::Established(..) | Output::Learn(_) | Output::Refresh(_) => {}
            }
        }
    }

    fn dial(&mut self, who: usize) {
        self.dialed += 1;
        let wire = Wire {
            dialer: who,
            untold: [true; 2],
            unread: Default::default(),
        };
        self.wires.insert(self.dialed, wire);
    }

    /// Gives up the dial whose end was not reported yet.
    fn cancel(&mut self, who: usize) {
        let dial = self
            .wires
            .iter()
            .find(|(_, wire)| wire.dialer == who && wire.untold[who]);
        let id = *dial.expect("a dial is under way").0;
        self.wires.get_mut(&id).unwrap().untold[who] = false;
        self.close(who, id);
    }

    fn write(&mut self, who: usize, id: u32, item: Item) {
        self.wires.get_mut(&id).unwrap().unread[1 - who].push_back(item);
    }

    fn close(&mut self, who: usize, id: u32) {
        let wire = self.wires.get_mut(&id).unwrap();
        if self.resets && !wire.unread[who].is_empty() {
            wire.unread[1 - who].clear();
        }
        wire.unread[who].clear();
        wire.unread[1 - who].push_back(Item::End);
    }

    /// Lets the earliest deadline come.
    fn wait(&mut self) {
        let due = (0..2)
            .filter_map(|who| Some((self.sessions[who].poll_timeout()?, who)))
            .min();
        let (deadline, who) = due.expect("somebody waits for something");
        self.now = self.now.max(deadline);
        self.input(who, Input::Timeout, None);
    }

    /// Both are up on the same connection, and there is no other.
    fn agrees(&self) -> bool {
        let up = self
            .sessions
            .iter()
            .all(|session| session.state_name() == "Established");
        let held: Vec<Vec<u32>> = self
            .held
            .iter()
            .map(|held| held.values().copied().collect())
            .collect();
        up && held[0].len() == 1 && held[0] == held[1]
    }

    fn run(&mut self, choices: &[u8], breaks: bool, patience: Duration) {
        let end = self.now + patience;
        let mut choices = choices.iter().copied();
        while self.now < end {
            let events = self.events();
            if events.is_empty() && self.agrees() {
                return;
            }
            match (events.len(), choices.next().unwrap_or(0)) {
                (_, BREAK..) if breaks && !self.wires.is_empty() => {
                    self.happen(Event::Break(self.dialed));
                }
                (0, _) => self.wait(),
                (count, choice) => self.happen(events[usize::from(choice) % count]),
            }
        }
        let names = self.sessions.each_ref().map(Session::state_name);
        panic!("after {patience:?}: {names:?}, holding {:?}", self.held);
    }
}

/// Of 256 choices, those that break the latest connection where that is allowed.
const BREAK: u8 = 224;

fn side_of(wire: &Wire, who: usize) -> Side {
    if wire.dialer == who {
        Side::Outgoing
    } else {
        Side::Incoming
    }
}

/// Router ids and AS numbers: both orders inside an AS, and equal router ids across two.
fn ids() -> impl Strategy<Value = [(u8, u32); 2]> {
    prop_oneof![
        Just([(1, ASN), (2, ASN)]),
        Just([(2, ASN), (1, ASN)]),
        Just([(1, ASN), (2, ASN + 1)]),
        Just([(2, ASN), (1, ASN + 1)]),
        Just([(1, ASN), (1, ASN + 1)]),
        Just([(1, ASN + 1), (1, ASN)]),
    ]
}

/// At least one has to dial.
fn passive() -> impl Strategy<Value = [bool; 2]> {
    prop_oneof![2 => Just([false, false]), 1 => Just([true, false]), 1 => Just([false, true])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn two_end_with_one_connection_whoever_dials(
        ids in ids(),
        passive in passive(),
        seeds in (any::<u64>(), any::<u64>()).prop_filter("differ", |(a, b)| a != b),
        (resets, restarts) in any::<(bool, bool)>(),
        choices in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut world = World::new(ids, passive, seeds.into(), (resets, restarts));
        world.run(&choices, false, Duration::from_secs(60));
        // Neither idle holds nor retries were needed: no interleaving kills both connections.
        prop_assert_eq!(world.downs, 0);
        // And it stays so.
        let end = world.now + Duration::from_secs(60);
        while world.now < end {
            match world.events().first() {
                Some(&event) => world.happen(event),
                None => world.wait(),
            }
        }
        prop_assert!(world.sessions.iter().all(|session| session.state_name() == "Established"));
        prop_assert_eq!(world.downs, 0);
    }

    /// Breaks come at any time, and stop some day: then it takes at most an idle hold of each, a
    /// retry, and the OPEN hold time of a handshake whose other end never knew of it.
    #[test]
    fn two_meet_again_after_any_breaks(
        ids in ids(),
        passive in passive(),
        seeds in (any::<u64>(), any::<u64>()).prop_filter("differ", |(a, b)| a != b),
        restarts in any::<bool>(),
        choices in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut world = World::new(ids, passive, seeds.into(), (true, restarts));
        world.run(&choices, true, Duration::from_secs(600));
    }
}
