//! Any inputs in any order, among them ones that no edge would give: the session never panics, and
//! what it asks for makes sense to an edge that keeps the books.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proptest::prelude::*;
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::message::Message;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::{DownReason, Input, Output, Session, SessionConfig, Side};

use crate::words::{self, ASN, config, epoch, good_open, notification, open, router_id};

#[derive(Clone, Debug)]
enum Step {
    Input(Input),
    Wait(Duration),
}

/// What an edge holds.
#[derive(Debug, Default)]
struct Edge {
    dials: bool,
    out: Connection,
    into: Connection,
    announced: Option<Side>,
    established: Option<Side>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Connection {
    #[default]
    Absent,
    Open,
    /// After a NOTIFICATION only its end may follow.
    Ending,
}

impl Edge {
    fn connection(&mut self, side: Side) -> &mut Connection {
        match side {
            Side::Outgoing => &mut self.out,
            Side::Incoming => &mut self.into,
        }
    }

    fn before(&mut self, input: &Input) {
        match input {
            Input::Connected(side) => {
                self.announced = Some(*side);
                self.dials &= *side != Side::Outgoing;
            }
            Input::ConnectFailed => self.dials = false,
            Input::Disconnected(side) => *self.connection(*side) = Connection::Absent,
            Input::Start
            | Input::Message(..)
            | Input::Malformed(..)
            | Input::Timeout
            | Input::Stop(_)
            | Input::StopSaying(..)
            | Input::Renew
            | Input::Sent
            | Input::SendBlocked => {}
        }
    }

    fn follow(&mut self, output: &Output) {
        match output {
            Output::Connect => {
                assert!(!self.dials, "two dials");
                self.dials = true;
            }
            Output::Send(side, message) => self.send(*side, message),
            Output::Close(side) => {
                let dialed = self.dials && *side == Side::Outgoing;
                let open = *self.connection(*side) != Connection::Absent;
                assert!(open != dialed, "closed what is not there");
                self.dials &= !dialed;
                *self.connection(*side) = Connection::Absent;
            }
            Output::Established(side, negotiated) => {
                assert_eq!(self.established.replace(*side), None, "two established");
                assert_eq!(*self.connection(*side), Connection::Open);
                assert!(!negotiated.families.is_empty());
            }
            Output::Learn(_) | Output::Refresh(_) => assert!(self.established.is_some()),
            Output::Down(_) => {
                self.established = None;
                let none = (Connection::Absent, Connection::Absent, false);
                assert_eq!((self.out, self.into, self.dials), none, "left open");
            }
            Output::Refuse(side) => assert_eq!(self.announced.take(), Some(*side)),
        }
    }

    fn send(&mut self, side: Side, message: &Message) {
        if self.announced == Some(side) && *self.connection(side) == Connection::Absent {
            assert!(
                matches!(message, Message::Open(_)),
                "the first message is an OPEN"
            );
            *self.connection(side) = Connection::Open;
            self.announced = None;
        }
        assert_eq!(*self.connection(side), Connection::Open, "sent on {side:?}");
        if matches!(message, Message::Notification(_)) {
            *self.connection(side) = Connection::Ending;
        }
    }

    fn settled(&self, session: &Session) {
        assert_eq!(self.announced, None, "neither opened nor refused");
        assert!(
            ![self.out, self.into].contains(&Connection::Ending),
            "NOTIFICATION without close"
        );
        let open = [self.out, self.into]
            .into_iter()
            .filter(|one| *one == Connection::Open)
            .count();
        let expected = match session.state_name() {
            "Idle" => open == 0 && !self.dials,
            "Connect" => open == 0 && self.dials,
            "Active" => open == 0 && !self.dials,
            "OpenSent" | "OpenConfirm" => open == 2 && !self.dials || open == 1,
            "Established" => open == 1 && !self.dials,
            name => panic!("no such state: {name}"),
        };
        assert!(expected, "{} with {self:?}", session.state_name());
        assert_eq!(
            self.established.is_some(),
            session.state_name() == "Established"
        );
        assert_eq!(self.established.is_some(), session.negotiated().is_some());
    }
}

struct World {
    session: Session,
    edge: Edge,
    now: Instant,
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Input(input) => self.input(input),
            Step::Wait(delay) => {
                let end = self.now + delay;
                while let Some(deadline) = self
                    .session
                    .poll_timeout()
                    .filter(|&deadline| deadline <= end)
                {
                    self.now = self.now.max(deadline);
                    self.input(Input::Timeout);
                    let next = self.session.poll_timeout();
                    assert!(
                        next.is_none_or(|next| next > self.now),
                        "a deadline stands still"
                    );
                }
                self.now = end;
            }
        }
    }

    fn input(&mut self, input: Input) {
        let before = self.session.state_name();
        let stops = matches!(input, Input::Stop(_) | Input::StopSaying(..));
        self.edge.before(&input);
        self.session.handle(input, self.now);
        let outputs = words::drain(&mut self.session);
        for output in &outputs {
            self.edge.follow(output);
        }
        self.edge.settled(&self.session);
        let fell = before != "Idle" && self.session.state_name() == "Idle";
        let down = outputs
            .iter()
            .any(|output| matches!(output, Output::Down(_)));
        let replaced = outputs.contains(&Output::Down(DownReason::Replaced));
        let renewed = outputs.contains(&Output::Down(DownReason::Renewed));
        assert_eq!(fell || replaced || renewed, down, "Down tells of every end");
        assert!(!replaced || self.session.state_name() == "OpenSent");
        assert!(!renewed || ["Connect", "Active"].contains(&self.session.state_name()));
        match (stops, fell, self.session.poll_timeout()) {
            (true, _, deadline) => assert_eq!(deadline, None),
            (false, true, deadline) => {
                let hold = deadline.expect("starts again by itself") - self.now;
                assert!(!hold.is_zero() && hold <= Duration::from_secs(16));
            }
            (false, false, _) => {}
        }
    }
}

fn message() -> impl Strategy<Value = Message> {
    let families = [Family::L2VPN_EVPN];
    prop_oneof![
        4 => Just(good_open()),
        4 => Just(words::restarting_open()),
        1 => Just(Message::Open(open(ASN, router_id(9), 0, &families))),
        1 => Just(Message::Open(open(ASN, router_id(1), 90, &families))),
        1 => Just(Message::Open(open(ASN, router_id(2), 2, &families))),
        1 => Just(Message::Open(open(ASN, router_id(2), 90, &[Family::IPV6_UNICAST]))),
        6 => Just(Message::Keepalive),
        3 => Just(words::update()),
        1 => Just(words::refresh()),
        1 => Just(notification(6, 7)),
        1 => Just(notification(6, 2)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::Outgoing), Just(Side::Incoming)];
    let error = DecodeError {
        fault: Fault::Marker,
        offset: 0,
    };
    prop_oneof![
        3 => Just(Step::Input(Input::Start)),
        8 => side().prop_map(|side| Step::Input(Input::Connected(side))),
        2 => Just(Step::Input(Input::ConnectFailed)),
        2 => side().prop_map(|side| Step::Input(Input::Disconnected(side))),
        16 => (side(), message()).prop_map(|(side, message)| Step::Input(Input::Message(side, message))),
        1 => side().prop_map(move |side| Step::Input(Input::Malformed(side, error, Bytes::new()))),
        1 => Just(Step::Input(Input::Timeout)),
        1 => Just(Step::Input(Input::Stop(Cease::Shutdown))),
        1 => Just(Step::Input(Input::StopSaying(Cease::Reset, "é".repeat(200)))),
        1 => Just(Step::Input(Input::Renew)),
        1 => Just(Step::Input(Input::Sent)),
        1 => Just(Step::Input(Input::SendBlocked)),
        4 => (0..20_000_u64).prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
        1 => (0..600_u64).prop_map(|secs| Step::Wait(Duration::from_secs(secs))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happens_the_edge_can_follow(
        steps in prop::collection::vec(step(), 1..60),
        passive in any::<bool>(),
        hold_secs in prop_oneof![Just(0_u64), Just(3), Just(90)],
        host in prop_oneof![Just(1_u8), Just(3)],
        seed in any::<u64>(),
    ) {
        let config = SessionConfig {
            passive,
            hold: Duration::from_secs(hold_secs),
            router_id: router_id(host),
            delay_jitter_seed: seed,
            ..config()
        };
        let session = Session::new(config);
        let mut world = World { session, edge: Edge::default(), now: epoch() };
        world.step(Step::Input(Input::Start));
        for step in steps {
            world.step(step);
        }
    }
}
