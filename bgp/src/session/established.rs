//! Established: one connection, three timers. It refuses to know what an UPDATE says.

use std::time::Instant;

use super::down::{self, DownReason};
use super::negotiation::Negotiated;
use super::open_sent::{OpenSent, Rival};
use super::state::State;
use super::timers::{Deadline, SETTLE, STABLE};
use super::{Input, Local, Message, Notification, Output, RouteRefresh, Side};
use crate::error::{Fault, SessionState};
use crate::message::notification::Cease;

/// The one connection of a session that is up.
#[derive(Debug)]
pub(super) struct Established {
    side: Side,
    pub(super) negotiated: Box<Negotiated>,
    hold_at: Deadline,
    keepalive_at: Deadline,
    /// Runs while the connection takes no octets. RFC 9687 §3 lets it run always and restarts it
    /// with each message; this way it costs nothing while all goes well.
    send_hold_at: Deadline,
    stable_at: Deadline,
    /// From then on a new connection is no latecomer of the collision that this one survived.
    settled_at: Deadline,
}

impl Established {
    pub(super) fn begin(
        side: Side,
        negotiated: Box<Negotiated>,
        hold_at: Deadline,
        keepalive_at: Deadline,
        now: Instant,
        local: &mut Local,
    ) -> State {
        local.emit(Output::Established(side, (*negotiated).clone()));
        State::Established(Self {
            side,
            negotiated,
            hold_at,
            keepalive_at,
            send_hold_at: Deadline::NEVER,
            stable_at: Deadline::after(now, STABLE),
            settled_at: Deadline::after(now, SETTLE),
        })
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.hold_at
            .or_earlier(self.keepalive_at)
            .or_earlier(self.send_hold_at)
    }

    pub(super) fn negotiated(&self, side: Side) -> Option<&Negotiated> {
        (side == self.side).then_some(&*self.negotiated)
    }

    pub(super) fn handle(mut self, input: Input, now: Instant, local: &mut Local) -> State {
        match input {
            Input::Connected(Side::Incoming)
                if self.may_restart() && self.settled_at.is_due(now) =>
            {
                self.replace(now, local)
            }
            // RFC 4271 §6.8: an Established connection goes before every other.
            Input::Connected(side) => {
                local.emit(Output::Refuse(side));
                State::Established(self)
            }
            Input::Message(side, message) if side == self.side => self.message(message, now, local),
            Input::Malformed(side, error, message) if side == self.side => {
                self.reject(error.notification(&message), now, local)
            }
            Input::Disconnected(side) if side == self.side => {
                self.down(DownReason::PeerClosed, now, local)
            }
            Input::Renew => {
                local.close(self.side);
                self.forgive(now, local);
                local.emit(Output::Down(DownReason::Renewed));
                State::begin(now, local)
            }
            Input::Timeout => self.timeout(now, local),
            Input::Stop(cease) => self.stop(cease, "", local),
            Input::StopSaying(cease, text) => self.stop(cease, &text, local),
            Input::Sent => {
                self.send_hold_at = Deadline::NEVER;
                State::Established(self)
            }
            Input::SendBlocked if !self.send_hold_at.is_running() => {
                self.send_hold_at = Deadline::after(now, self.negotiated.send_hold);
                State::Established(self)
            }
            Input::Start
            | Input::ConnectFailed
            | Input::Disconnected(_)
            | Input::Message(..)
            | Input::Malformed(..)
            | Input::SendBlocked => State::Established(self),
        }
    }

    fn message(mut self, message: Message, now: Instant, local: &mut Local) -> State {
        match message {
            Message::Update(update) => {
                self.hold_at = Deadline::after_unless_zero(now, self.negotiated.hold);
                local.emit(Output::Learn(update));
                State::Established(self)
            }
            Message::Keepalive => {
                self.hold_at = Deadline::after_unless_zero(now, self.negotiated.hold);
                State::Established(self)
            }
            Message::RouteRefresh(refresh) => {
                if local.config.route_refresh && self.heeds(refresh) {
                    local.emit(Output::Refresh(refresh));
                }
                State::Established(self)
            }
            Message::Notification(notification) => {
                local.close(self.side);
                self.down(DownReason::NotificationReceived(notification), now, local)
            }
            Message::Open(_) => {
                let (state, kind) = (SessionState::Established, message.kind());
                self.reject(Fault::Unexpected { state, kind }.notification(), now, local)
            }
        }
    }

    /// RFC 2918 §4 and RFC 7313 §5: others are ignored, and all where we do not offer to be asked.
    fn heeds(&self, refresh: RouteRefresh) -> bool {
        let known = match refresh.subtype {
            RouteRefresh::REQUEST => true,
            RouteRefresh::BEGIN | RouteRefresh::END => self.negotiated.enhanced_route_refresh,
            _ => false,
        };
        known && self.negotiated.families.contains(&refresh.family)
    }

    fn timeout(mut self, now: Instant, local: &mut Local) -> State {
        if self.hold_at.is_due(now) {
            local.close_with(self.side, Fault::HoldTimerExpired.notification());
            return self.down(DownReason::HoldTimerExpired, now, local);
        }
        // RFC 9687 §4: 8/0 only if it cannot delay the end, and here nothing is being sent.
        if self.send_hold_at.is_due(now) {
            local.close(self.side);
            return self.down(DownReason::SendHoldTimerExpired, now, local);
        }
        if self.keepalive_at.is_due(now) {
            local.send(self.side, Message::Keepalive);
            self.keepalive_at = Deadline::after_unless_zero(now, self.negotiated.keepalive);
        }
        State::Established(self)
    }

    /// The peer has said that it may restart without taking leave.
    fn may_restart(&self) -> bool {
        let restart = self.negotiated.graceful_restart.as_ref();
        restart.is_some_and(|restart| !restart.families.is_empty())
    }

    /// RFC 4724 §5: who restarts and is back before its loss was noticed is heard at once. Nothing is said on the old
    /// connection: a NOTIFICATION would tell the peer to drop what it keeps.
    fn replace(self, now: Instant, local: &mut Local) -> State {
        local.close(self.side);
        local.emit(Output::Down(DownReason::Replaced));
        self.forgive(now, local);
        OpenSent::begin(Side::Incoming, Rival::Absent, now, local)
    }

    fn reject(self, notification: Notification, now: Instant, local: &mut Local) -> State {
        local.close_with(self.side, notification.clone());
        self.down(DownReason::NotificationSent(notification), now, local)
    }

    fn down(self, reason: DownReason, now: Instant, local: &mut Local) -> State {
        self.forgive(now, local);
        // One that closes at once each time may fail by what it is told.
        let closes_at_once = reason == DownReason::PeerClosed && !self.settled_at.is_due(now);
        match reason.is_passing() && !closes_at_once {
            true => State::lost(reason, now, local),
            false => State::down(reason, now, local),
        }
    }

    fn forgive(&self, now: Instant, local: &mut Local) {
        if self.stable_at.is_due(now) {
            local.idle_hold.forgive();
        }
    }

    fn stop(self, cease: Cease, text: &str, local: &mut Local) -> State {
        let hard = self.negotiated.restart_after_notification;
        let notification = down::cease(cease, text, hard);
        local.close_with(self.side, notification.clone());
        State::stop(cease, Some(notification), local)
    }
}
