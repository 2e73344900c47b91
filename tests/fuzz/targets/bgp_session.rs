//! A session that gets anything in any order: each step is an octet that says what happens, and for a message
//! a kind, a length and a body. It never panics, asks for few things per input, and keeps to what an edge can do.

#![no_main]

use std::time::{Duration, Instant};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

use weft_bgp::capability::{AddPath, GracefulRestart};
use weft_bgp::family::Family;
use weft_bgp::frame::Frame;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::{Message, MessageKind};
use weft_bgp::peer::RouterId;
use weft_bgp::session::{Input, Output, RemoteAsn, Session, SessionConfig, Side};

/// A NOTIFICATION, a close, a fall to Idle and an answer for each of two connections leave room.
const OUTPUTS_MAX: usize = 12;
/// More steps say nothing new.
const STEPS_MAX: usize = 200;

fuzz_target!(|octets: &[u8]| {
    let Some((&flags, mut rest)) = octets.split_first() else { return };
    let mut world = World::new(flags);
    for _ in 0..STEPS_MAX {
        let Some((&step, after)) = rest.split_first() else { return };
        rest = after;
        let Some(input) = world.input(step, &mut rest) else { return };
        world.handle(input);
    }
});

struct World {
    session: Session,
    now: Instant,
    established: bool,
}

impl World {
    fn new(flags: u8) -> Self {
        let on = |bit: u8| flags & (1 << bit) != 0;
        let families = vec![Family::L2VPN_EVPN, Family::IPV4_UNICAST, Family::RTC];
        let add_path = |family| AddPath { family, receive: true, send: true };
        let config = SessionConfig {
            add_path: if on(0) { families.iter().copied().map(add_path).collect() } else { Vec::new() },
            families,
            passive: on(1),
            hold: Duration::from_secs(if on(2) { 0 } else { 9 }),
            graceful_restart: on(3).then(GracefulRestart::default),
            ..SessionConfig::new(64_496, RouterId(0xc000_0201), RemoteAsn::Any)
        };
        #[expect(clippy::disallowed_methods, reason = "an Instant comes from nowhere else")]
        let now = Instant::now();
        Self { session: Session::new(config), now, established: false }
    }

    /// What a step's octet says; `None` when its message ends early.
    fn input(&mut self, step: u8, rest: &mut &[u8]) -> Option<Input> {
        let side = if step & 0x80 == 0 { Side::Incoming } else { Side::Outgoing };
        Some(match step & 0x0f {
            0 => Input::Start,
            1 => Input::Connected(side),
            2 => Input::ConnectFailed,
            3 => Input::Disconnected(side),
            4 => Input::Stop(Cease::Shutdown),
            5 => Input::StopSaying(Cease::Reset, "é".repeat(usize::from(step >> 1))),
            6 => Input::Sent,
            7 => Input::SendBlocked,
            8 => {
                self.now = self.session.poll_timeout().unwrap_or(self.now).max(self.now);
                Input::Timeout
            }
            9 => {
                self.now += Duration::from_secs(u64::from(step >> 4) * 3);
                Input::Timeout
            }
            10 => Input::Message(side, Message::Keepalive),
            11 => Input::Renew,
            _ => self.message(side, rest)?,
        })
    }

    fn message(&self, side: Side, rest: &mut &[u8]) -> Option<Input> {
        let (&[kind, length], after) = rest.split_first_chunk::<2>()?;
        let (body, after) = after.split_at_checked(length.into())?;
        *rest = after;
        let kind = MessageKind::from_code(kind % 5 + 1)?;
        let (ctx, _) = self.session.decode_context(side);
        let frame = Frame { kind, body: Bytes::copy_from_slice(body) };
        Some(match Message::decode(frame, &ctx) {
            Ok(message) => Input::Message(side, message),
            Err(error) => Input::Malformed(side, error, Bytes::new()),
        })
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(input, self.now);
        let mut count = 0;
        while let Some(output) = self.session.poll_output() {
            count += 1;
            assert!(count <= OUTPUTS_MAX, "{output:?}");
            self.follow(&output);
        }
        let name = self.session.state_name();
        assert_eq!(self.established, name == "Established");
        assert_eq!(self.session.negotiated().is_some(), self.established);
    }

    fn follow(&mut self, output: &Output) {
        match output {
            Output::Established(side, negotiated) => {
                assert!(!self.established);
                assert!(!negotiated.families.is_empty());
                assert_eq!(self.session.decode_context(*side).0, negotiated.decode);
                self.established = true;
            }
            Output::Down(_) => self.established = false,
            Output::Send(side, message) => {
                let (ctx, max_len) = self.session.decode_context(*side);
                assert!(message.encode(&ctx).len() <= usize::from(max_len));
            }
            Output::Learn(_) | Output::Refresh(_) => assert!(self.established),
            Output::Connect | Output::Close(_) | Output::Refuse(_) => {}
        }
    }
}
