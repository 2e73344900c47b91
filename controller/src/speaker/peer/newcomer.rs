//! Connections that the peer dials: which one is taken, and what a new one is while a session is up. A peer that
//! keeps its routes over a restart may be back before its loss was noticed, RFC 4724 §5. Knows no state of the
//! session: that decides, once it is sure that it is the peer who speaks.

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use weft_bgp::frame::{self, Frame};
use weft_bgp::message::Message;
use weft_bgp::peer::PeerId;
use weft_bgp::session::{Input, Negotiated, Side};

use super::{Peer, READ_OCTETS, SILENCE, now};

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
        if self.may_be_back() {
            // One at a time: a second is closed by dropping it.
            if self.newcomer.is_none() && self.prepare(Side::Incoming, &stream) {
                self.newcomer = Some(Newcomer {
                    stream,
                    heard: BytesMut::new(),
                    until: now() + SILENCE,
                });
            }
            return;
        }
        if let Some(held) = &self.connections[Side::Incoming as usize] {
            if held.spoke || now() < held.opened + SILENCE {
                return; // one at a time: a second is closed by dropping it
            }
            // A peer that died before its OPEN must not be locked out by its own ghost.
            self.connections[Side::Incoming as usize] = None;
            self.input(Input::Disconnected(Side::Incoming)).await;
        }
        self.connect(Side::Incoming, stream).await;
    }

    /// A session is up, of a peer that may restart.
    fn may_be_back(&self) -> bool {
        let restart = self
            .up
            .as_ref()
            .and_then(|up| up.negotiated.graceful_restart.as_ref());
        restart.is_some_and(|restart| !restart.families.is_empty())
    }

    /// Whoever waits at the door has spoken, or not in time. Who can only connect should not be able to end a session, so
    /// this does not matter unless it is the OPEN of the same peer.
    pub(super) async fn met(&mut self, words: Option<Frame>) {
        let Some(newcomer) = self.newcomer.take() else {
            return;
        };
        let Some(up) = &self.up else {
            // The old connection has gone meanwhile.
            return match self.connections[Side::Incoming as usize] {
                Some(_) => {}
                None => self.take_in(newcomer).await,
            };
        };
        if words.and_then(|frame| sender(frame, &up.negotiated)) == Some(up.negotiated.peer) {
            self.take_in(newcomer).await;
        } else {
            tracing::info!(peer = %self.setup.address, "connection that does not begin with the peer's OPEN refused");
        }
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
