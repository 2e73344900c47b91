//! What goes into a session at the start, and what its user may know of it. It refuses to know how the one
//! becomes the other.

use std::num::NonZeroU8;
use std::time::Duration;

use crate::packet::{Diagnostic, Discriminator, Interval, State};

/// How a session is made.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// What we call it.
    pub mine: Discriminator,
    /// True if routers may be between, so that a packet may come from anybody who can forge an address. RFC 5883.
    pub multihop: bool,
    /// How often, and how many may be missing.
    pub timers: Timers,
    /// Spreads the packets of many sessions in time.
    pub jitter_seed: u64,
}

/// What an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between packets while Up, both that we wish to send and that we can receive. While not Up we send
    /// one a second at most. RFC 5880 §6.8.3.
    pub interval: Duration,
    /// So many packets in a row may be missing until the other end takes us for dead.
    pub multiplier: NonZeroU8,
}

/// What a user of the session wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// AdminDown if it is that at either end: who takes Up to Down for a failure of the path must not take
    /// Up to AdminDown for one. RFC 5882 §3.2.
    pub state: State,
    /// Why it last fell to Down or AdminDown; kept when it comes up again.
    pub diagnostic: Diagnostic,
    /// How often it went from Up to Down, AdminDown not counted. Who sees two values of the status may have
    /// missed some between; who compares this number has not.
    pub failures: u64,
    /// The time between the packets that we send, before jitter.
    pub transmit_interval: Duration,
    /// Without a packet for so long, the other end is down; `None` while it is not heard.
    pub detection_time: Option<Duration>,
}

impl Status {
    /// Before anything was heard.
    pub(super) fn first(transmit_interval: Duration) -> Self {
        Self {
            state: State::Down,
            diagnostic: Diagnostic::None,
            failures: 0,
            transmit_interval,
            detection_time: None,
        }
    }
}

impl Timers {
    /// As a packet can say it. Zero would mean that we can receive nothing.
    pub(super) fn on_the_wire(self) -> Self {
        let interval = Interval::of(self.interval).max(Interval(1));
        Self {
            interval: interval.duration(),
            ..self
        }
    }
}
