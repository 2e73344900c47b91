//! Connections that the peer dials: which one is taken, which one is refused, and the message to that. One that comes
//! while a session is up is tracked until its OPEN (RFC 4271 §8.2.2): the end of the old connection may be there already,
//! and a peer that keeps its routes over a restart may be back before its loss was noticed (RFC 4724 §5). Knows no
//! state of the session: that decides, once it is sure that it is the peer who speaks.

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use weft_bgp::frame::{self, Frame};
use weft_bgp::message::Message;
use weft_bgp::peer::PeerId;
use weft_bgp::session::{Input, Negotiated, Refusal, Side};

use super::{Peer, READ_OCTETS, SILENCE, Word, now};
use crate::speaker::refusal::{self, Reason};

/// A connection of which nothing is known yet but where it comes from.
pub(super) struct Newcomer {
    stream: TcpStream,
    heard: BytesMut,
    until: Instant,
}

impl Newcomer {
    /// Waits for its first message, and leaves that where it is; `None`: it says none in time. May be dropped at any
    /// await.
    async fn first_words(&mut self) -> Option<Frame> {
        loop {
            match frame::split(&mut self.heard.clone(), OPEN_OCTETS_MAX) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(_) => return None,
            }
            let read = self.stream.read_buf(&mut self.heard);
            match tokio::time::timeout_at(self.until, read).await {
                Ok(Ok(octets)) if octets > 0 => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

/// The first words of whoever waits at the door; for ever pending if there is nobody.
pub(super) async fn first_words(place: &mut Option<Newcomer>) -> Option<Frame> {
    match place {
        Some(newcomer) => newcomer.first_words().await,
        None => std::future::pending().await,
    }
}

/// Who sends this as an OPEN.
fn sender(frame: Frame, negotiated: &Negotiated) -> Option<PeerId> {
    match Message::decode(frame, &negotiated.decode) {
        Ok(Message::Open(open)) => Some(PeerId {
            router_id: open.router_id,
            asn: open.asn,
        }),
        Ok(_) | Err(_) => None,
    }
}

impl Peer {
    /// The peer, or somebody at its address, dialed us.
    pub(super) async fn incoming(&mut self, stream: TcpStream) {
        if self.up.is_some() || self.pauses_shortly() {
            // One at a time.
            if self.newcomer.is_some() {
                return self.turn_away(&stream, Reason::Collision);
            }
            if self.prepare(Side::Incoming, &stream).await {
                self.newcomer = Some(Newcomer {
                    stream,
                    heard: BytesMut::new(),
                    until: now() + SILENCE,
                });
            }
            return;
        }
        let held = self.connections[Side::Incoming as usize].as_ref();
        if held.is_some_and(|held| !held.spoke && now() >= held.opened + SILENCE) {
            // A peer that died before its OPEN must not be locked out by its own ghost.
            self.connections[Side::Incoming as usize] = None;
            self.input(Input::Disconnected(Side::Incoming)).await;
        }
        // The session refuses a second one.
        self.connect(Side::Incoming, stream).await;
    }

    /// Decides about the newcomer, which has sent its first message or did not in time. Only the OPEN of the same peer can
    /// end the session that is up, if the session agrees: a stranger that can connect must not be able to.
    pub(super) async fn met(&mut self, words: Option<Frame>) {
        let Some(newcomer) = self.newcomer.take() else {
            return;
        };
        self.read_out().await;
        let Some(up) = &self.up else {
            // The old connection has gone meanwhile.
            return self.take_in(newcomer).await;
        };
        let served = up.negotiated.peer;
        match words.and_then(|frame| sender(frame, &up.negotiated)) {
            Some(peer) if peer == served => self.take_in(newcomer).await,
            Some(other) => {
                self.report.failed(format!(
                    "connection of {other} refused: the session is that of {served}"
                ));
                self.turn_away(&newcomer.stream, Reason::OtherIdentifier);
            }
            None => self.turn_away(&newcomer.stream, Reason::NoOpen),
        }
    }

    /// Reads what is left of the session that is up, and perhaps its end.
    async fn read_out(&mut self) {
        for _ in 0..READS_MAX {
            if self.up.is_none() || !self.read_on().await {
                return;
            }
            // A peer that has gone beyond a limit is not heard any further.
            self.dismiss().await;
        }
    }

    /// The task ends: turns away whoever still waits for it. Whoever comes later meets another task.
    pub(super) fn close_door(&mut self) {
        self.words.close();
        while let Ok(word) = self.words.try_recv() {
            if let Word::Incoming(stream) = word {
                self.turn_away(&stream, Reason::Busy);
            }
        }
        if let Some(newcomer) = self.newcomer.take() {
            self.turn_away(&newcomer.stream, Reason::Stopped);
        }
    }

    /// Closes a connection that no session has seen, and says why.
    pub(super) fn turn_away(&self, stream: &TcpStream, reason: Reason) {
        refusal::reject(stream, reason.cease());
        self.refused(reason, None);
    }

    /// Closes the connection that came last, and says why.
    pub(super) fn refuse(&mut self, side: Side) {
        let arrived = self.arrived.take();
        let held = arrived.map(|arrived| self.connections[side as usize].replace(arrived));
        let refusal = self.session.refusal();
        // Counted as a refusal, not as a message of the session.
        self.write(side, &Message::Notification(refusal.notification()));
        self.close(side);
        self.connections[side as usize] = held.flatten();
        match refusal {
            Refusal::Collision => self.refused(Reason::Collision, None),
            Refusal::TooOften { until } => {
                self.refused(Reason::TooOften, until.map(Instant::from_std));
            }
            Refusal::Stopped => {
                let until = self.pause.as_ref().map(|pause| pause.until);
                self.refused(Reason::Stopped, until);
            }
        }
    }

    /// Counts a refused connection, and logs it now and then.
    fn refused(&self, reason: Reason, until: Option<Instant>) {
        let Some(unlogged) = self.report.refused(reason, now()) else {
            return;
        };
        let peer = self.setup.address;
        if reason == Reason::Collision {
            // Two ends that dial each other cause it.
            return tracing::debug!(%peer, %reason, unlogged, "connection refused");
        }
        let left = until.map(|until| until.saturating_duration_since(now()));
        let left_secs = left.map(|left| left.as_secs() + u64::from(left.subsec_nanos() > 0));
        tracing::warn!(%peer, %reason, left_secs, unlogged, "connection refused");
    }

    async fn take_in(&mut self, newcomer: Newcomer) {
        let Newcomer {
            stream, mut heard, ..
        } = newcomer;
        heard.reserve(READ_OCTETS);
        self.hold(Side::Incoming, stream, heard).await;
        if self.up.is_none() {
            self.decode(Side::Incoming).await;
        }
    }
}

/// An OPEN is never longer, RFC 8654 §4.
const OPEN_OCTETS_MAX: u16 = 4096;
/// More than a socket holds: what is behind is not the end of the connection.
const READS_MAX: usize = 128;
