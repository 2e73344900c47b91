//! The other end of a session, as far as it is known. It refuses to know our state.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use crate::packet::{Discriminator, Packet, State};

/// What the last packet of the other end said, no longer than a detection time ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) discriminator: Discriminator,
    pub(super) state: State,
    pub(super) demand: bool,
    pub(super) multiplier: NonZeroU8,
    pub(super) desired_min_tx: Duration,
    pub(super) required_min_rx: Duration,
    pub(super) heard_at: Instant,
}

impl Remote {
    pub(super) fn heard(packet: &Packet, now: Instant) -> Self {
        Self {
            discriminator: packet.mine,
            state: packet.state,
            demand: packet.demand,
            multiplier: packet.multiplier,
            desired_min_tx: packet.desired_min_tx.duration(),
            required_min_rx: packet.required_min_rx.duration(),
            heard_at: now,
        }
    }

    /// How long it may be silent, if we can receive a packet each `receive`. RFC 5880 §6.8.4.
    pub(super) fn detection_time(&self, receive: Duration) -> Duration {
        self.desired_min_tx.max(receive) * u32::from(self.multiplier.get())
    }

    /// Whether its operator holds the session down.
    pub(super) fn is_announced(&self) -> bool {
        self.state == State::AdminDown
    }

    /// Whether it wants no periodic packets: never, or not while both are Up and we ask nothing. RFC 5880
    /// §6.8.7.
    pub(super) fn wants_silence(&self, ours: State, polling: bool) -> bool {
        let both_up = ours == State::Up && self.state == State::Up;
        self.required_min_rx.is_zero() || (self.demand && both_up && !polling)
    }
}
