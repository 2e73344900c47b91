//! The states before a connection is there, and the enum of all. It refuses to know messages.

use std::time::{Duration, Instant};

use super::down::DownReason;
use super::established::Established;
use super::negotiation::Negotiated;
use super::open_confirm::OpenConfirm;
use super::open_sent::{OpenSent, Rival};
use super::timers::{Deadline, IdleHold};
use super::{Input, Local, Notification, Output, Refusal, Side};
use crate::message::notification::Cease;

/// RFC 4271 §8.2.2. What we know grows downwards; a transition consumes the old state.
#[derive(Debug)]
pub(super) enum State {
    Idle(Idle),
    Connect(Connect),
    Active(Active),
    OpenSent(OpenSent),
    OpenConfirm(OpenConfirm),
    Established(Established),
}

/// Nothing is open.
#[derive(Debug)]
pub(super) enum Idle {
    /// Until `Start`; incoming connections are refused.
    Stopped,
    /// Until the idle hold is over or the peer connects.
    Held { until: Deadline },
}

/// A dial is under way.
#[derive(Debug)]
pub(super) struct Connect {
    pub(super) retry_at: Deadline,
}

/// We listen; no dial is under way.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) retry_at: Deadline,
}

impl State {
    pub(super) fn stopped() -> Self {
        Self::Idle(Idle::Stopped)
    }

    pub(super) fn handle(self, input: Input, now: Instant, local: &mut Local) -> Self {
        match self {
            Self::Idle(idle) => idle.handle(input, now, local),
            Self::Connect(connect) => connect.handle(input, now, local),
            Self::Active(active) => active.handle(input, now, local),
            Self::OpenSent(open_sent) => open_sent.handle(input, now, local),
            Self::OpenConfirm(open_confirm) => open_confirm.handle(input, now, local),
            Self::Established(established) => established.handle(input, now, local),
        }
    }

    pub(super) fn deadline(&self) -> Deadline {
        match self {
            Self::Idle(Idle::Stopped) => Deadline::NEVER,
            Self::Idle(Idle::Held { until }) => *until,
            Self::Connect(connect) => connect.retry_at,
            Self::Active(active) => active.retry_at,
            Self::OpenSent(open_sent) => open_sent.deadline(),
            Self::OpenConfirm(open_confirm) => open_confirm.deadline(),
            Self::Established(established) => established.deadline(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Idle(_) => "Idle",
            Self::Connect(_) => "Connect",
            Self::Active(_) => "Active",
            Self::OpenSent(_) => "OpenSent",
            Self::OpenConfirm(_) => "OpenConfirm",
            Self::Established(_) => "Established",
        }
    }

    /// What was negotiated on the connection of this side.
    pub(super) fn negotiated(&self, side: Side) -> Option<&Negotiated> {
        match self {
            Self::Idle(_) | Self::Connect(_) | Self::Active(_) | Self::OpenSent(_) => None,
            Self::OpenConfirm(open_confirm) => open_confirm.negotiated(side),
            Self::Established(established) => established.negotiated(side),
        }
    }

    pub(super) fn established(&self) -> Option<&Negotiated> {
        match self {
            Self::Idle(_) | Self::Connect(_) | Self::Active(_) => None,
            Self::OpenSent(_) | Self::OpenConfirm(_) => None,
            Self::Established(established) => Some(&established.negotiated),
        }
    }

    pub(super) fn held_until(&self) -> Option<Instant> {
        if let Self::Idle(Idle::Held { until }) = self {
            until.at()
        } else {
            None
        }
    }

    pub(super) fn refusal(&self, idle_hold: &IdleHold) -> Refusal {
        match self {
            Self::Idle(Idle::Stopped) => Refusal::Stopped,
            Self::Idle(Idle::Held { until }) => {
                let ends = [until.at(), idle_hold.admits_at()];
                Refusal::TooOften {
                    until: ends.into_iter().flatten().min(),
                }
            }
            Self::Connect(_)
            | Self::Active(_)
            | Self::OpenSent(_)
            | Self::OpenConfirm(_)
            | Self::Established(_) => Refusal::Collision,
        }
    }

    /// Out of Idle: dial, or listen.
    pub(super) fn begin(now: Instant, local: &mut Local) -> Self {
        if local.config.passive {
            Self::listen(now, local)
        } else {
            Self::dial(now, local)
        }
    }

    fn dial(now: Instant, local: &mut Local) -> Self {
        local.emit(Output::Connect);
        Self::Connect(Connect {
            retry_at: local.retry_at(now),
        })
    }

    /// Active, with the next dial in a while unless we are passive.
    pub(super) fn listen(now: Instant, local: &mut Local) -> Self {
        let retry_at = if local.config.passive {
            Deadline::NEVER
        } else {
            local.retry_at(now)
        };
        Self::Active(Active { retry_at })
    }

    /// Idle for a while, since something failed.
    pub(super) fn down(reason: DownReason, now: Instant, local: &mut Local) -> Self {
        local.emit(Output::Down(reason));
        let delay = local.idle_hold.next();
        Self::held(now, delay, local)
    }

    /// Idle for the least time: what ended an established session may be over at once, and nobody's fault.
    pub(super) fn lost(reason: DownReason, now: Instant, local: &mut Local) -> Self {
        local.emit(Output::Down(reason));
        let delay = local.idle_hold.least();
        Self::held(now, delay, local)
    }

    fn held(now: Instant, delay: Duration, local: &mut Local) -> Self {
        Self::Idle(Idle::Held {
            until: local.idle_hold.begin(now, delay),
        })
    }

    /// Idle until `Start`, after we said this. RFC 4271 §6.7.
    pub(super) fn stop(cease: Cease, said: Option<Notification>, local: &mut Local) -> Self {
        local.emit(Output::Down(DownReason::Stopped(cease, said)));
        local.idle_hold.forgive();
        Self::stopped()
    }
}

impl Idle {
    fn handle(self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Start => {
                local.idle_hold.lift();
                State::begin(now, local)
            }
            Input::Timeout if self.is_over(now) => State::begin(now, local),
            Input::Connected(side) => self.connected(side, now, local),
            Input::Stop(_) | Input::StopSaying(..) => {
                local.idle_hold.forgive();
                State::stopped()
            }
            Input::Timeout
            | Input::ConnectFailed
            | Input::Disconnected(_)
            | Input::Message(..)
            | Input::Malformed(..)
            | Input::Sent
            | Input::Renew
            | Input::SendBlocked => State::Idle(self),
        }
    }

    /// RFC 4271 §8.2.2 refuses every connection. That of a peer whose session failed is taken, at a bounded rate: the
    /// peer is ready, and only our own dials are to be damped (§8.1.1).
    fn connected(self, side: Side, now: Instant, local: &mut Local) -> State {
        let is_taken = match (&self, side) {
            (Self::Held { .. }, Side::Incoming) => local.idle_hold.admission().admit(now),
            (Self::Held { .. } | Self::Stopped, _) => false,
        };
        if is_taken {
            return OpenSent::begin(Side::Incoming, Rival::Absent, now, local);
        }
        local.emit(Output::Refuse(side));
        State::Idle(self)
    }

    fn is_over(&self, now: Instant) -> bool {
        match self {
            Self::Stopped => false,
            Self::Held { until } => until.is_due(now),
        }
    }
}

impl Connect {
    fn handle(self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Connected(Side::Outgoing) => {
                OpenSent::begin(Side::Outgoing, Rival::Absent, now, local)
            }
            // The dial goes on: if both sides gave up theirs, no connection would be left.
            Input::Connected(Side::Incoming) => {
                let rival = Rival::Dialed {
                    give_up_at: self.retry_at,
                };
                OpenSent::begin(Side::Incoming, rival, now, local)
            }
            // RFC 4271 §8.2.2 goes to Idle here, and Active is where the peer can reach us.
            Input::ConnectFailed => State::Active(Active {
                retry_at: self.retry_at,
            }),
            Input::Timeout if self.retry_at.is_due(now) => {
                local.close(Side::Outgoing);
                State::dial(now, local)
            }
            Input::Stop(cease) | Input::StopSaying(cease, _) => {
                local.close(Side::Outgoing);
                State::stop(cease, None, local)
            }
            Input::Start
            | Input::Timeout
            | Input::Disconnected(_)
            | Input::Message(..)
            | Input::Malformed(..)
            | Input::Sent
            | Input::Renew
            | Input::SendBlocked => State::Connect(self),
        }
    }
}

impl Active {
    fn handle(self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Connected(Side::Incoming) => {
                OpenSent::begin(Side::Incoming, Rival::Absent, now, local)
            }
            // We did not dial.
            Input::Connected(Side::Outgoing) => {
                local.emit(Output::Refuse(Side::Outgoing));
                State::Active(self)
            }
            Input::Timeout if self.retry_at.is_due(now) => State::dial(now, local),
            Input::Stop(cease) | Input::StopSaying(cease, _) => State::stop(cease, None, local),
            Input::Start
            | Input::Timeout
            | Input::ConnectFailed
            | Input::Disconnected(_)
            | Input::Message(..)
            | Input::Malformed(..)
            | Input::Sent
            | Input::Renew
            | Input::SendBlocked => State::Active(self),
        }
    }
}

impl Local {
    fn retry_at(&mut self, now: Instant) -> Deadline {
        let delay = self.idle_hold.jitter().shorten(self.config.connect_retry);
        Deadline::after(now, delay).not_before(self.idle_hold.until())
    }
}
