//! OpenSent, and the second connection that may stand beside OpenSent and OpenConfirm. It refuses
//! to know what an OPEN must be.

use std::time::Instant;

use super::down::{self, DownReason};
use super::negotiation::{self, Negotiated};
use super::open_confirm::OpenConfirm;
use super::state::{Connect, State};
use super::timers::{Deadline, OPEN_HOLD};
use super::{Input, Local, Message, Notification, Output, Side};
use crate::error::{Fault, SessionState};
use crate::message::notification::Cease;

/// Our OPEN is out on one connection or on two, the elder of which is `side`.
#[derive(Debug)]
pub(super) struct OpenSent {
    side: Side,
    hold_at: Deadline,
    rival: Rival,
}

/// What is on the other side of a connection that is being opened.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rival {
    /// Nothing.
    Absent,
    /// A dial that is under way; so the connection itself is an incoming one.
    Dialed { give_up_at: Deadline },
    /// A second connection on which our OPEN is out.
    OpenSent { hold_at: Deadline },
}

impl OpenSent {
    /// A connection is there: the first thing on it is our OPEN.
    pub(super) fn begin(side: Side, rival: Rival, now: Instant, local: &mut Local) -> State {
        let hold_at = open(side, now, local);
        State::OpenSent(Self {
            side,
            hold_at,
            rival,
        })
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.hold_at.or_earlier(self.rival.deadline())
    }

    pub(super) fn handle(mut self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Connected(side) => {
                self.rival = self.rival.admit(self.side, side, now, local);
                State::OpenSent(self)
            }
            Input::ConnectFailed => {
                self.rival = self.rival.without_dial();
                State::OpenSent(self)
            }
            Input::Message(side, message) => match self.facing(side) {
                Ok(this) => this.message(message, now, local),
                Err(this) => State::OpenSent(this),
            },
            Input::Malformed(side, error, message) => match self.facing(side) {
                Ok(this) => this.reject(error.notification(&message), now, local),
                Err(this) => State::OpenSent(this),
            },
            Input::Disconnected(side) => match self.facing(side) {
                Ok(this) => this.unopened(now, local),
                Err(this) => State::OpenSent(this),
            },
            Input::Timeout => self.timeout(now, local),
            Input::Stop(cease) => self.stop(cease, "", local),
            Input::StopSaying(cease, text) => self.stop(cease, &text, local),
            Input::Start | Input::Renew | Input::Sent | Input::SendBlocked => State::OpenSent(self),
        }
    }

    /// The two connections are alike: puts the one of this side first, if it is there.
    fn facing(self, side: Side) -> Result<Self, Self> {
        match self.rival {
            _ if side == self.side => Ok(self),
            Rival::OpenSent { hold_at } => {
                let rival = Rival::OpenSent {
                    hold_at: self.hold_at,
                };
                Ok(Self {
                    side,
                    hold_at,
                    rival,
                })
            }
            Rival::Absent | Rival::Dialed { .. } => Err(self),
        }
    }

    fn message(self, message: Message, now: Instant, local: &mut Local) -> State {
        match message {
            Message::Open(open) => match negotiation::negotiate(&local.config, open) {
                Ok(negotiated) => self.confirm(negotiated, now, local),
                Err(notification) => self.reject(notification, now, local),
            },
            Message::Notification(notification) => self.refused(notification, now, local),
            Message::Update(_) | Message::Keepalive | Message::RouteRefresh(_) => {
                self.reject(unexpected(&message).notification(), now, local)
            }
        }
    }

    fn confirm(self, negotiated: Negotiated, now: Instant, local: &mut Local) -> State {
        OpenConfirm::begin(self.side, Box::new(negotiated), self.rival, now, local)
    }

    /// The peer broke a rule on this connection.
    fn reject(self, notification: Notification, now: Instant, local: &mut Local) -> State {
        local.close_with(self.side, notification.clone());
        self.give_way(DownReason::NotificationSent(notification), now, local)
    }

    /// The peer said why it ends this connection.
    fn refused(self, notification: Notification, now: Instant, local: &mut Local) -> State {
        local.close(self.side);
        if is_refusal(&notification) {
            return self.unopened(now, local);
        }
        self.give_way(DownReason::NotificationReceived(notification), now, local)
    }

    /// The connection is gone before it got an OPEN: that is no failure of the session.
    fn unopened(self, now: Instant, local: &mut Local) -> State {
        self.rival
            .succeed(self.side.other())
            .unwrap_or_else(|| State::listen(now, local))
    }

    /// The connection is closed: the session is what its rival is, or down.
    fn give_way(self, reason: DownReason, now: Instant, local: &mut Local) -> State {
        let succeeded = self.rival.succeed(self.side.other());
        succeeded.unwrap_or_else(|| State::down(reason, now, local))
    }

    fn timeout(mut self, now: Instant, local: &mut Local) -> State {
        self.rival = self.rival.timeout(self.side, now, local);
        if !self.hold_at.is_due(now) {
            return State::OpenSent(self);
        }
        local.close_with(self.side, Fault::HoldTimerExpired.notification());
        self.give_way(DownReason::HoldTimerExpired, now, local)
    }

    fn stop(self, cease: Cease, text: &str, local: &mut Local) -> State {
        let notification = down::cease(cease, text, false);
        self.rival.end(self.side, notification.clone(), local);
        local.close_with(self.side, notification.clone());
        State::stop(cease, Some(notification), local)
    }
}

impl Rival {
    pub(super) fn deadline(self) -> Deadline {
        match self {
            Self::Absent => Deadline::NEVER,
            Self::Dialed { give_up_at } => give_up_at,
            Self::OpenSent { hold_at } => hold_at,
        }
    }

    /// A connection beside the one on `taken`: the second one is opened, every other is refused.
    pub(super) fn admit(self, taken: Side, side: Side, now: Instant, local: &mut Local) -> Self {
        match (self, side) {
            (Self::Dialed { .. }, Side::Outgoing) => Self::OpenSent {
                hold_at: open(side, now, local),
            },
            (Self::Absent, Side::Incoming) if side != taken => Self::OpenSent {
                hold_at: open(side, now, local),
            },
            (Self::Absent | Self::Dialed { .. } | Self::OpenSent { .. }, _) => {
                local.emit(Output::Refuse(side));
                self
            }
        }
    }

    pub(super) fn without_dial(self) -> Self {
        match self {
            Self::Absent | Self::Dialed { .. } => Self::Absent,
            Self::OpenSent { .. } => self,
        }
    }

    /// Gives up a dial that takes too long, and a second connection that stays silent.
    pub(super) fn timeout(self, taken: Side, now: Instant, local: &mut Local) -> Self {
        if !self.deadline().is_due(now) {
            return self;
        }
        self.end(taken, Fault::HoldTimerExpired.notification(), local);
        Self::Absent
    }

    /// Closes what is there.
    pub(super) fn end(self, taken: Side, notification: Notification, local: &mut Local) {
        match self {
            Self::Absent => {}
            Self::Dialed { .. } => local.close(Side::Outgoing),
            Self::OpenSent { .. } => local.close_with(taken.other(), notification),
        }
    }

    /// The session without the first connection; `side` is the rival's.
    pub(super) fn succeed(self, side: Side) -> Option<State> {
        match self {
            Self::Absent => None,
            Self::Dialed { give_up_at } => Some(State::Connect(Connect {
                retry_at: give_up_at,
            })),
            Self::OpenSent { hold_at } => Some(State::OpenSent(OpenSent {
                side,
                hold_at,
                rival: Self::Absent,
            })),
        }
    }
}

/// RFC 6608 §3: 5/1.
pub(super) fn unexpected(message: &Message) -> Fault {
    Fault::Unexpected {
        state: SessionState::OpenSent,
        kind: message.kind(),
    }
}

fn open(side: Side, now: Instant, local: &mut Local) -> Deadline {
    local.send(side, Message::Open(local.config.open()));
    Deadline::after(now, OPEN_HOLD)
}

/// The peer is idle, or holds another connection.
fn is_refusal(notification: &Notification) -> bool {
    [Cease::Rejected, Cease::Collision]
        .iter()
        .any(|cease| (notification.code, notification.subcode) == (CEASE, cease.subcode()))
}

/// RFC 4271 §4.5.
const CEASE: u8 = 6;
