//! A connection that was accepted: its place, its first octets, and how long it may stand still. Knows no call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::Door;
use super::bounds::FIRST_OCTETS;
use super::octets::{Cut, Held};
use super::places::Place;
use super::refusals::Reason;

/// A connection, which holds its place until it is closed.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    place: Arc<Place>,
    door: Door,
    /// First octets that have come.
    octets: usize,
    /// True if the first of them are not those of HTTP/2.
    is_http1: Option<bool>,
    /// A head of HTTP/1 that has not come whole.
    head: Option<(Held, Cut)>,
    /// Until its first octets have come.
    patience: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, place: Arc<Place>, door: Door) -> Self {
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE)
            .with_interval(KEEPALIVE);
        // Without them a client that is gone holds its place for longer.
        let set = [
            stream.set_nodelay(true),
            socket.set_tcp_keepalive(&keepalive),
            socket.set_tcp_user_timeout(Some(STANDSTILL_MAX)),
        ];
        if let Some(error) = set.into_iter().find_map(Result::err) {
            tracing::debug!(%error, "an option of a connection is not set");
        }
        Self {
            stream,
            place,
            door,
            octets: 0,
            is_http1: None,
            head: None,
            patience: Some(Box::pin(sleep(FIRST_OCTETS))),
        }
    }

    /// Fails once another connection has the place of this one.
    fn poll_lost(&self, cx: &Context<'_>) -> io::Result<()> {
        if self.place.poll_lost(cx) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Fails if the first octets do not come.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(patience) = &mut self.patience else {
            return Ok(());
        };
        // A short request may be answered already.
        if self.place.has_spoken() {
            self.patience = None;
        } else if patience.as_mut().poll(cx).is_ready() {
            self.patience = None;
            self.door.refuse(Reason::Silent, self.place.ends.remote);
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Counts octets of a head of HTTP/1: what comes while there is no call. Fails if there are too many, here or elsewhere.
    fn count_head(&mut self, octets: &[u8], cx: &mut Context<'_>) -> io::Result<()> {
        if !octets.is_empty() {
            let is_http1 = *self
                .is_http1
                .get_or_insert_with(|| !octets.starts_with(PREFACE));
            if !is_http1 || !self.place.is_idle() {
                self.head = None;
            } else if let Some((head, _)) = &self.head {
                head.add(octets.len());
            } else {
                let octets = octets.len().max(HEAD_OCTETS_MIN);
                let head = self.door.heads.begin(self.place.source, octets);
                let head = head.ok_or_else(|| self.too_many_octets())?;
                let cut = head.cut();
                self.head = Some((head, cut));
            }
        }
        let cut = self.head.as_mut().map(|(_, cut)| cut.poll_unpin(cx));
        if matches!(cut, Some(Poll::Ready(Ok(())))) {
            return Err(self.too_many_octets());
        }
        Ok(())
    }

    fn too_many_octets(&self) -> io::Error {
        self.door.refuse(Reason::Octets, self.place.ends.remote);
        io::ErrorKind::ConnectionAborted.into()
    }

    fn took(&mut self, octets: usize) {
        if self.patience.is_some() {
            self.octets += octets;
            if self.octets >= PREFACE_OCTETS {
                self.patience = None;
                self.place.speak();
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.door.places.leave(&self.place);
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        TcpConnectInfo {
            local_addr: self.place.ends.local,
            remote_addr: Some(self.place.ends.remote),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_lost(cx)?;
        let before = octets.filled().len();
        // What has come goes before the time: this process may be the slow one.
        let read = Pin::new(&mut self.stream).poll_read(cx, octets);
        self.took(octets.filled().len() - before);
        self.count_head(&octets.filled()[before..], cx)?;
        if read.is_pending() {
            self.poll_patience(cx)?;
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_lost(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_lost(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Begin of the preface of HTTP/2 (RFC 9113 §3.4). No method of HTTP/1 begins so.
const PREFACE: &[u8] = b"PRI";
/// A head takes as much at least: the first buffer of the server.
const HEAD_OCTETS_MIN: usize = 8 << 10;
/// Octets of the preface of HTTP/2 (RFC 9113 §3.4). A shorter request of HTTP/1 is answered before its time is over.
const PREFACE_OCTETS: usize = 24;
/// A client that takes nothing of what is sent to it for so long is cut off by the kernel (RFC 5482).
pub(super) const STANDSTILL_MAX: Duration = Duration::from_secs(60);
const KEEPALIVE: Duration = Duration::from_secs(30);
