//! The session with one system: RFC 5880 §6.8 in asynchronous mode, without sockets and clocks. Packets
//! and the time go in; packets, one status and one deadline come out. It refuses to know addresses, and
//! who reads the status.
//!
//! ```text
//!            hears Down              hears Init or Up
//!   Down ─────────────────► Init ───────────────────────► Up
//!    ▲ │                     │                           ▲ │
//!    │ │                     │ silence, or hears         │ │ silence, or hears
//!    ├─┼─────────────────────┘ AdminDown                 │ │ Down or AdminDown
//!    │ └─────────────────────────────────────────────────┘ │
//!    │       hears Init                                    │
//!    └─────────────────────────────────────────────────────┘
//! ```
//!
//! Silence is a detection time without a packet. From every state an operator leads to AdminDown, and from
//! there nothing leads away: a stopped session ends.
//!
//! Where we do more than RFC 5880 says, or less:
//!
//! - Over many hops and while Up, packets with Your Discriminator 0 are dropped, though §6.8.6 accepts them
//!   with State Down or AdminDown: anybody who can forge an address could end a session with one. An end
//!   that restarts is found by its silence, a detection time later. Over one hop the TTL of 255 keeps
//!   forgers out (RFC 5881 §5), and the session follows §6.8.6. FRR 8.3 to 10.7 drop these packets over one
//!   hop too; their successor follows §6.8.6 (FRRouting/frr#23284).
//! - What the other end said is forgotten after a detection time without a packet, not only its
//!   discriminator (§6.8.1). Else one that said "required min RX 0" and died would not be spoken to when
//!   it is back.
//! - No poll sequence is begun with an end that was never heard (§6.8.3 asks for one at each change): it
//!   would learn the values from the same packet anyway.
//! - While we are Up our diagnostic is 0; §4.1 leaves open when the last one is forgotten.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::packet::{Diagnostic, Discriminator, Interval, Packet, State};

use self::pace::{Pace, Periodic};
use self::remote::Remote;

pub(crate) use self::pace::Jitter;
pub use self::status::{SessionConfig, Status, Timers};

mod pace;
mod remote;
mod status;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A packet that was found to be of this session.
    Packet(Packet),
    /// The deadline of [`Session::poll_timeout`] has come.
    Timeout,
    /// Other timers, without leaving Up: a poll sequence tells the other end. RFC 5880 §6.8.3.
    Change(Timers),
    /// Go to AdminDown, tell the other end for a while, and end. RFC 5880 §6.8.16.
    Stop,
}

/// What the edge has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a packet.
    Send(Packet),
    /// The status is another one.
    Changed(Status),
    /// A stopped session has told the other end. Nothing more will come.
    Ended,
}

/// The state machine.
#[derive(Debug)]
pub struct Session {
    mine: Discriminator,
    multihop: bool,
    timers: Timers,
    state: State,
    /// For packets.
    diagnostic: Diagnostic,
    /// For users, who may not look until it is up again.
    fallen: Diagnostic,
    failures: u64,
    /// As last published.
    status: Status,
    remote: Option<Remote>,
    pace: Pace,
    jitter: Jitter,
    periodic: Periodic,
    /// Without the poll and the final bit.
    sent: Option<Packet>,
    end: End,
    outputs: VecDeque<Output>,
}

/// Whether the session was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    At(Instant),
    Reached,
}

impl Session {
    /// A session that is Down, and whose first packet is due `now`.
    #[must_use]
    pub fn new(config: SessionConfig, now: Instant) -> Self {
        let timers = config.timers.on_the_wire();
        let pace = Pace::new(timers.interval.max(SLOW), timers.interval);
        Self {
            mine: config.mine,
            multihop: config.multihop,
            timers,
            state: State::Down,
            diagnostic: Diagnostic::None,
            fallen: Diagnostic::None,
            failures: 0,
            status: Status::first(pace.transmit),
            remote: None,
            pace,
            jitter: Jitter::new(config.jitter_seed),
            periodic: Periodic::due(now),
            sent: None,
            end: End::Open,
            outputs: VecDeque::new(),
        }
    }

    /// Takes one input. The outputs must be polled until there are none before the next input.
    pub fn handle(&mut self, input: Input, now: Instant) {
        if self.end == End::Reached {
            return;
        }
        match input {
            Input::Packet(packet) => self.receive(&packet, now),
            Input::Timeout => self.time_out(now),
            Input::Change(timers) => self.change(timers, now),
            Input::Stop => self.stop(now),
        }
        self.publish();
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Input::Timeout`] is due; `None` if only another input can change something.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let end = match self.end {
            End::Open => None,
            End::At(at) => Some(at),
            End::Reached => return None,
        };
        let deadlines = [end, self.transmit_at(), self.detection_at()];
        deadlines.into_iter().flatten().min()
    }

    /// What a user may know now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// What we call the session.
    #[must_use]
    pub fn discriminator(&self) -> Discriminator {
        self.mine
    }

    /// Returns true if a packet counts: it names this session, or no session, as an end that has just started does.
    /// RFC 5880 §6.8.6; [`Packet::decode`] has checked that only Down and AdminDown come without a name.
    #[must_use]
    pub fn expects(&self, packet: &Packet) -> bool {
        match packet.yours {
            Some(yours) => yours == self.mine,
            None => !self.multihop || self.state != State::Up,
        }
    }

    /// The second half of RFC 5880 §6.8.6, in its order.
    fn receive(&mut self, packet: &Packet, now: Instant) {
        if !self.expects(packet) {
            return;
        }
        self.remote = Some(Remote::heard(packet, now));
        if packet.final_bit {
            self.pace.settle();
        }
        if self.state == State::AdminDown {
            return;
        }
        self.follow(packet.state);
        self.offer();
        if packet.poll {
            // RFC 5880 §6.5: at once, and never with a poll of our own in the same packet.
            self.send(false, true);
        }
        self.send_news(now);
    }

    /// What the state of the other end makes of ours. RFC 5880 §6.2.
    fn follow(&mut self, remote: State) {
        match (self.state, remote) {
            (State::Down, State::Down) => self.state = State::Init,
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => self.rise(),
            (State::Init | State::Up, State::AdminDown) | (State::Up, State::Down) => {
                self.fall(Diagnostic::NeighborSignaledDown);
            }
            (State::Down, State::AdminDown | State::Up)
            | (State::Init, State::Down)
            | (State::Up, State::Init | State::Up)
            | (State::AdminDown, _) => {}
        }
    }

    fn rise(&mut self) {
        self.state = State::Up;
        self.diagnostic = Diagnostic::None;
    }

    fn fall(&mut self, diagnostic: Diagnostic) {
        if self.state == State::Up && !self.remote.is_some_and(|remote| remote.is_announced()) {
            self.failures = self.failures.saturating_add(1);
        }
        self.state = State::Down;
        self.diagnostic = diagnostic;
        self.fallen = diagnostic;
    }

    fn time_out(&mut self, now: Instant) {
        if self.end_is_due(now) {
            self.end = End::Reached;
            self.outputs.push_back(Output::Ended);
            return;
        }
        if self.detection_at().is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if self.transmit_at().is_some_and(|at| at <= now) {
            self.send_periodic(now);
        }
    }

    /// Nothing came for the detection time. RFC 5880 §6.8.4.
    fn expire(&mut self, now: Instant) {
        self.remote = None;
        if matches!(self.state, State::Init | State::Up) {
            self.fall(Diagnostic::DetectionTimeExpired);
        }
        self.pace.forget();
        self.offer();
        self.send_news(now);
    }

    fn change(&mut self, timers: Timers, now: Instant) {
        self.timers = timers.on_the_wire();
        self.offer();
        self.send_news(now);
    }

    fn stop(&mut self, now: Instant) {
        if self.end != End::Open {
            return;
        }
        self.state = State::AdminDown;
        self.diagnostic = Diagnostic::AdministrativelyDown;
        self.fallen = self.diagnostic;
        self.offer();
        self.send_news(now);
        // RFC 5880 §6.8.16: so that the other end hears of it. One that is not there does not.
        let linger = if self.remote.is_some() {
            (self.transmit_interval() * u32::from(self.timers.multiplier.get())).min(LINGER_MAX)
        } else {
            Duration::ZERO
        };
        self.end = End::At(now + linger);
    }

    fn end_is_due(&self, now: Instant) -> bool {
        match self.end {
            End::Open | End::Reached => false,
            End::At(at) => at <= now,
        }
    }

    /// Says the timers that belong to the state. RFC 5880 §6.8.3.
    fn offer(&mut self) {
        let up = self.state == State::Up;
        let transmit = if up {
            self.timers.interval
        } else {
            self.timers.interval.max(SLOW)
        };
        let heard = self.remote.is_some();
        self.pace.offer(transmit, self.timers.interval, up, heard);
    }

    /// RFC 5880 §6.8.7: when the contents are not those of the last packet, the next one is sent at once.
    fn send_news(&mut self, now: Instant) {
        if self.sent.is_some_and(|sent| sent != self.contents()) {
            self.send_periodic(now);
        }
    }

    fn send_periodic(&mut self, now: Instant) {
        self.periodic = Periodic::sent(now, self.jitter.draw(self.timers.multiplier));
        self.send(self.pace.is_polling(), false);
    }

    fn send(&mut self, poll: bool, final_bit: bool) {
        let contents = self.contents();
        self.sent = Some(contents);
        self.outputs.push_back(Output::Send(Packet {
            poll,
            final_bit,
            ..contents
        }));
    }

    /// RFC 5880 §6.8.7.
    fn contents(&self) -> Packet {
        Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            poll: false,
            final_bit: false,
            control_plane_independent: false,
            demand: false,
            multiplier: self.timers.multiplier,
            mine: self.mine,
            yours: self.remote.map(|remote| remote.discriminator),
            desired_min_tx: Interval::of(self.pace.offered_transmit),
            required_min_rx: Interval::of(self.pace.offered_receive),
            required_min_echo_rx: Interval(0),
        }
    }

    /// RFC 5880 §6.8.2, before jitter.
    fn transmit_interval(&self) -> Duration {
        let asked = self.remote.map_or(Duration::ZERO, |r| r.required_min_rx);
        self.pace.transmit.max(asked)
    }

    fn transmit_at(&self) -> Option<Instant> {
        let polling = self.pace.is_polling();
        if self
            .remote
            .is_some_and(|remote| remote.wants_silence(self.state, polling))
        {
            return None;
        }
        Some(self.periodic.next_at(self.transmit_interval()))
    }

    fn detection_time(&self) -> Option<Duration> {
        let remote = self.remote?;
        Some(remote.detection_time(self.pace.receive))
    }

    fn detection_at(&self) -> Option<Instant> {
        let heard_at = self.remote?.heard_at;
        Some(heard_at + self.detection_time()?)
    }

    fn publish(&mut self) {
        let state = if self.remote.is_some_and(|remote| remote.is_announced()) {
            State::AdminDown
        } else {
            self.state
        };
        let status = Status {
            state,
            diagnostic: self.fallen,
            failures: self.failures,
            transmit_interval: self.transmit_interval(),
            detection_time: self.detection_time(),
        };
        if status != self.status {
            self.status = status;
            self.outputs.push_back(Output::Changed(status));
        }
    }
}

/// RFC 5880 §6.8.3: while not Up nobody wishes to send more often.
const SLOW: Duration = Duration::from_secs(1);

/// A stopped session does not stay longer, whatever the other end asks for: its AdminDown was heard by
/// then, or will not be.
const LINGER_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
