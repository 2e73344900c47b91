//! What collectors and operators are shown of a session: its OPENs, what the peer says octet for octet,
//! what is held of it, and how it ends. Knows taps; who reads them does not matter.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use weft_bgp::error::DecodeError;
use weft_bgp::frame::{Frame, HEADER_LEN};
use weft_bgp::message::{DecodeContext, Message, MessageKind, Notification, Update};
use weft_bgp::session::{DownReason, Side};

use super::Peer;
use crate::monitoring::held;
use crate::monitoring::tap::{Ended, Event, Tap, Up};
use crate::speaker::Shared;
use crate::speaker::report::Direction;

impl Shared {
    /// Decodes a message, and gives its octets back if somebody wants to see them.
    pub(super) fn decode(
        &self,
        frame: Frame,
        context: &DecodeContext,
    ) -> Result<(Message, Option<Bytes>), DecodeError> {
        let is_seen = match frame.kind {
            MessageKind::Open => true,
            MessageKind::Update => self.taps.is_read(),
            MessageKind::Notification | MessageKind::Keepalive | MessageKind::RouteRefresh => false,
        };
        let raw = is_seen.then(|| octets(&frame));
        Ok((Message::decode(frame, context)?, raw))
    }
}

/// The whole message again, out of the connection's buffer.
pub(super) fn octets(frame: &Frame) -> Bytes {
    let length = usize::from(HEADER_LEN) + frame.body.len();
    let mut octets = BytesMut::with_capacity(length);
    octets.put_bytes(0xff, 16);
    octets.put_u16(u16::try_from(length).expect("a frame has a length of two octets"));
    octets.put_u8(frame.kind.code());
    octets.put_slice(&frame.body);
    octets.freeze()
}

impl Peer {
    /// The peer said this.
    pub(super) fn shown(&self, side: Side, message: &Message, raw: Option<Bytes>) {
        let Some(raw) = raw else { return };
        match message {
            Message::Open(_) => self.report.opened(side, Direction::Received, raw),
            // What is made of a malformed one is shown when it was learned.
            Message::Update(update) if self.up.is_some() && update.faults.is_empty() => {
                let event = Event::Update(self.setup.address, raw);
                self.shared.taps.tell(&event);
            }
            Message::Update(_)
            | Message::Notification(_)
            | Message::Keepalive
            | Message::RouteRefresh(_) => {}
        }
    }

    /// A malformed UPDATE was learned. Whoever reads it as it is may keep what was treated as withdrawn here, or not be
    /// able to read it: collectors are told what is held of its routes. RFC 7606 §2, RFC 7854 §5.
    pub(super) fn show_healed(&mut self, update: &Update) {
        let Some(up) = self.up.as_ref().filter(|_| self.shared.taps.is_read()) else {
            return;
        };
        let said = self.ownership.as_mut().map(|it| it.stake.said(update));
        for message in held::retold(said.unwrap_or_default(), up.negotiated.add_path_receive) {
            let event = Event::Retold(self.setup.address, message);
            self.shared.taps.tell(&event);
        }
    }

    /// Routes are gone that the peer did not say again, and no UPDATE of its own says so: collectors are told
    /// one that does. RFC 7313 §4, RFC 7854 §5.
    pub(super) fn show_swept(&self, keys: &[Bytes]) {
        let Some(up) = self.up.as_ref().filter(|_| self.shared.taps.is_read()) else {
            return;
        };
        for message in held::withdrawn(keys, up.negotiated.add_path_receive) {
            let event = Event::Retold(self.setup.address, message);
            self.shared.taps.tell(&event);
        }
    }

    /// The session has just been established.
    pub(super) fn show_begin(&mut self) {
        let Some(up) = &self.up else { return };
        let side = up.side;
        let Some(connection) = &self.connections[side as usize] else {
            return;
        };
        let (local, remote) = (
            connection.socket.local_addr(),
            connection.socket.peer_addr(),
        );
        if let (Ok(local), Ok(remote)) = (local, remote) {
            self.report.wired(side, local, remote);
        }
        self.show_signature();
        if let Some(up) = self.seen(true) {
            self.shared.taps.tell(&Event::Up(Arc::new(up)));
        }
    }

    /// Which keys of TCP-AO the session uses, as of now.
    pub(super) fn show_signature(&self) {
        let side = self.up.as_ref().map(|up| up.side as usize);
        let connection = side.and_then(|side| self.connections[side].as_ref());
        if let Some(connection) = connection.filter(|_| !self.setup.group.tcp_ao.is_empty()) {
            let status = weft_sys::tcp_ao::status(connection.socket.as_ref());
            self.report.signed(status.ok().flatten());
        }
    }

    /// A collector has come.
    pub(super) fn show(&self, tap: &Tap) {
        if let Some(up) = self.seen(false) {
            tap.tell(Event::Up(Arc::new(up)));
        }
    }

    fn seen(&self, is_fresh: bool) -> Option<Up> {
        self.up.as_ref()?;
        let facts = self.report.facts();
        let held = match (&self.ownership, is_fresh) {
            (Some(ownership), false) => ownership.stake.held(),
            (Some(_) | None, _) => Vec::new(),
        };
        Some(Up {
            address: self.setup.address,
            negotiated: facts.negotiated?,
            wire: facts.wire?,
            held,
            is_fresh,
        })
    }

    /// The session ends.
    pub(super) fn show_end(&self, reason: &DownReason) {
        let Some(up) = self.up.as_ref().filter(|_| self.shared.taps.is_read()) else {
            return;
        };
        let context = &up.negotiated.decode;
        let said = |notification: Notification| Message::Notification(notification).encode(context);
        let ended = match reason {
            DownReason::HoldTimerExpired => Ended::Sent(said(Notification {
                code: HOLD_TIMER_EXPIRED,
                subcode: 0,
                data: Bytes::new(),
            })),
            DownReason::SendHoldTimerExpired => Ended::Silent,
            DownReason::PeerClosed | DownReason::Replaced => Ended::Closed,
            DownReason::Renewed => Ended::Silent,
            DownReason::NotificationReceived(it) => Ended::Received(said(it.clone())),
            DownReason::NotificationSent(it) => Ended::Sent(said(it.clone())),
            DownReason::Stopped(_, Some(it)) => Ended::Sent(said(it.clone())),
            DownReason::Stopped(_, None) => Ended::Silent,
        };
        self.shared
            .taps
            .tell(&Event::Down(self.setup.address, ended));
    }
}

/// RFC 4271 §4.5.
const HOLD_TIMER_EXPIRED: u8 = 4;
