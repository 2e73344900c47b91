//! OpenConfirm: one OPEN came and was good. Collisions end here. It refuses to know routes.

use std::time::Instant;

use super::collision;
use super::down::{self, DownReason};
use super::established::Established;
use super::negotiation::{self, Negotiated};
use super::open_sent::{self, Rival};
use super::state::State;
use super::timers::{Deadline, SETTLE};
use super::{Input, Local, Message, Notification, Side};
use crate::error::{Fault, SessionState};
use crate::message::notification::Cease;

/// Both OPENs of this connection are exchanged; a rival has none of the peer's yet.
#[derive(Debug)]
pub(super) struct OpenConfirm {
    side: Side,
    negotiated: Box<Negotiated>,
    hold_at: Deadline,
    keepalive_at: Deadline,
    rival: Rival,
    confirmation: Confirmation,
}

/// The KEEPALIVE that answers our OPEN.
#[derive(Debug, Clone, Copy)]
enum Confirmation {
    Awaited,
    /// It came, on the connection that is to lose the collision.
    Withheld {
        until: Deadline,
    },
}

impl OpenConfirm {
    /// The peer's OPEN was good: answer it.
    pub(super) fn begin(
        side: Side,
        negotiated: Box<Negotiated>,
        rival: Rival,
        now: Instant,
        local: &mut Local,
    ) -> State {
        local.send(side, Message::Keepalive);
        let hold_at = Deadline::after_unless_zero(now, negotiated.hold);
        let keepalive_at = Deadline::after_unless_zero(now, negotiated.keepalive);
        let confirmation = Confirmation::Awaited;
        State::OpenConfirm(Self {
            side,
            negotiated,
            hold_at,
            keepalive_at,
            rival,
            confirmation,
        })
    }

    pub(super) fn deadline(&self) -> Deadline {
        let own = self.hold_at.or_earlier(self.keepalive_at);
        own.or_earlier(self.rival.deadline())
            .or_earlier(self.confirmation.deadline())
    }

    pub(super) fn negotiated(&self, side: Side) -> Option<&Negotiated> {
        (side == self.side).then_some(&*self.negotiated)
    }

    pub(super) fn handle(mut self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Connected(side) => {
                self.rival = self.rival.admit(self.side, side, now, local);
                State::OpenConfirm(self)
            }
            Input::ConnectFailed => {
                self.rival = self.rival.without_dial();
                State::OpenConfirm(self)
            }
            Input::Message(side, message) if side == self.side => self.message(message, now, local),
            Input::Message(_, message) => self.rival_message(message, now, local),
            Input::Malformed(side, error, message) if side == self.side => {
                self.reject(error.notification(&message), now, local)
            }
            Input::Malformed(_, error, message) => {
                self.end_rival(error.notification(&message), now, local)
            }
            Input::Disconnected(side) if side == self.side => {
                self.give_way(DownReason::PeerClosed, now, local)
            }
            Input::Disconnected(_) => self.rival_lost(now, local),
            Input::Timeout => self.timeout(now, local),
            Input::Stop(cease) => self.stop(cease, "", local),
            Input::StopSaying(cease, text) => self.stop(cease, &text, local),
            Input::Start | Input::Renew | Input::Sent | Input::SendBlocked => {
                State::OpenConfirm(self)
            }
        }
    }

    fn message(self, message: Message, now: Instant, local: &mut Local) -> State {
        match (message, self.confirmation) {
            (Message::Keepalive, _) => self.confirmed(now, local),
            (Message::Notification(notification), _) => {
                local.close(self.side);
                self.give_way(DownReason::NotificationReceived(notification), now, local)
            }
            // The peer is established here, so it did not choose the rival.
            (
                message @ (Message::Update(_) | Message::RouteRefresh(_)),
                Confirmation::Withheld { .. },
            ) => {
                let side = self.side;
                self.establish(now, local)
                    .handle(Input::Message(side, message), now, local)
            }
            (
                message @ (Message::Open(_) | Message::Update(_) | Message::RouteRefresh(_)),
                Confirmation::Awaited | Confirmation::Withheld { .. },
            ) => {
                let (state, kind) = (SessionState::OpenConfirm, message.kind());
                self.reject(Fault::Unexpected { state, kind }.notification(), now, local)
            }
        }
    }

    /// The peer's KEEPALIVE is here. If a rival is open that the peer will prefer, as soon as it
    /// sees it, then the session is not up yet.
    fn confirmed(mut self, now: Instant, local: &mut Local) -> State {
        self.hold_at = Deadline::after_unless_zero(now, self.negotiated.hold);
        let survivor = collision::survivor(local.id(), self.negotiated.peer);
        match (self.rival, self.confirmation) {
            (Rival::OpenSent { .. }, Confirmation::Awaited) if survivor != self.side => {
                self.confirmation = Confirmation::Withheld {
                    until: Deadline::after(now, SETTLE),
                };
                State::OpenConfirm(self)
            }
            (Rival::OpenSent { .. }, Confirmation::Withheld { .. }) => State::OpenConfirm(self),
            (Rival::Absent | Rival::Dialed { .. } | Rival::OpenSent { .. }, _) => {
                self.establish(now, local)
            }
        }
    }

    /// RFC 4271 §6.8: an Established connection goes before every other.
    fn establish(self, now: Instant, local: &mut Local) -> State {
        self.rival
            .end(self.side, Notification::cease(Cease::Collision), local);
        Established::begin(
            self.side,
            self.negotiated,
            self.hold_at,
            self.keepalive_at,
            now,
            local,
        )
    }

    fn rival_message(self, message: Message, now: Instant, local: &mut Local) -> State {
        let Rival::OpenSent { .. } = self.rival else {
            return State::OpenConfirm(self);
        };
        match message {
            Message::Open(open) => match negotiation::negotiate(&local.config, open) {
                Ok(negotiated) => self.collide(negotiated, now, local),
                Err(notification) => self.end_rival(notification, now, local),
            },
            Message::Notification(_) => {
                local.close(self.side.other());
                self.rival_lost(now, local)
            }
            Message::Update(_) | Message::Keepalive | Message::RouteRefresh(_) => {
                self.end_rival(open_sent::unexpected(&message).notification(), now, local)
            }
        }
    }

    /// RFC 4271 §6.8: both connections have got an OPEN.
    fn collide(self, rival: Negotiated, now: Instant, local: &mut Local) -> State {
        let loses = Notification::cease(Cease::Collision);
        if collision::survivor(local.id(), rival.peer) == self.side {
            return self.end_rival(loses, now, local);
        }
        local.close_with(self.side, loses);
        Self::begin(
            self.side.other(),
            Box::new(rival),
            Rival::Absent,
            now,
            local,
        )
    }

    /// Closes the rival and says why.
    fn end_rival(self, notification: Notification, now: Instant, local: &mut Local) -> State {
        match self.rival {
            Rival::Absent | Rival::Dialed { .. } => State::OpenConfirm(self),
            Rival::OpenSent { .. } => {
                local.close_with(self.side.other(), notification);
                self.rival_lost(now, local)
            }
        }
    }

    /// The rival is closed, if there was one: what was withheld for its sake is due.
    fn rival_lost(mut self, now: Instant, local: &mut Local) -> State {
        match (self.rival, self.confirmation) {
            (Rival::Absent | Rival::Dialed { .. }, _) => State::OpenConfirm(self),
            (Rival::OpenSent { .. }, Confirmation::Awaited) => {
                self.rival = Rival::Absent;
                State::OpenConfirm(self)
            }
            (Rival::OpenSent { .. }, Confirmation::Withheld { .. }) => {
                self.rival = Rival::Absent;
                self.establish(now, local)
            }
        }
    }

    fn timeout(mut self, now: Instant, local: &mut Local) -> State {
        if self.hold_at.is_due(now) {
            let notification = Fault::HoldTimerExpired.notification();
            self.rival = self.rival.timeout(self.side, now, local);
            local.close_with(self.side, notification);
            return self.give_way(DownReason::HoldTimerExpired, now, local);
        }
        if self.keepalive_at.is_due(now) {
            local.send(self.side, Message::Keepalive);
            self.keepalive_at = Deadline::after_unless_zero(now, self.negotiated.keepalive);
        }
        if self.confirmation.deadline().is_due(now) {
            return self.establish(now, local);
        }
        self.rival = self.rival.timeout(self.side, now, local);
        match (self.rival, self.confirmation) {
            (Rival::Absent, Confirmation::Withheld { .. }) => self.establish(now, local),
            (Rival::Absent | Rival::Dialed { .. } | Rival::OpenSent { .. }, _) => {
                State::OpenConfirm(self)
            }
        }
    }

    fn reject(self, notification: Notification, now: Instant, local: &mut Local) -> State {
        local.close_with(self.side, notification.clone());
        self.give_way(DownReason::NotificationSent(notification), now, local)
    }

    /// The connection is closed: the session is what its rival is, or down.
    fn give_way(self, reason: DownReason, now: Instant, local: &mut Local) -> State {
        let succeeded = self.rival.succeed(self.side.other());
        succeeded.unwrap_or_else(|| State::down(reason, now, local))
    }

    fn stop(self, cease: Cease, text: &str, local: &mut Local) -> State {
        let notification = down::cease(cease, text, false);
        self.rival.end(self.side, notification.clone(), local);
        local.close_with(self.side, notification.clone());
        State::stop(cease, Some(notification), local)
    }
}

impl Confirmation {
    fn deadline(self) -> Deadline {
        match self {
            Self::Awaited => Deadline::NEVER,
            Self::Withheld { until } => until,
        }
    }
}
