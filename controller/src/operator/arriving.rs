//! Connections to the API's port as they come: how many there may be, and how long one may stand still. Knows no call.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A connection, which holds its place until it is closed.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

/// Connections in the order in which they come. While all places are taken, others wait in the listener's queue.
pub fn connections(listener: TcpListener) -> impl Stream<Item = io::Result<Connection>> {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    futures::stream::unfold((listener, places), |(listener, places)| async move {
        let place = Arc::clone(&places).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = Connection::new(stream, place);
                    return Some((Ok(connection), (listener, places)));
                }
                // Most of all: no descriptor is left, until one is.
                Err(error) => {
                    tracing::warn!(%error, "a connection to the API is not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit) -> Self {
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
            tracing::debug!(%error, "an option of an API connection is not set");
        }
        Self {
            stream,
            _place: place,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, octets)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
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

/// A watcher takes one, and there may be 10,000 of them; what is left is for everybody else.
const CONNECTIONS_MAX: usize = 12_000;
/// A client that takes nothing of what is sent to it for so long is cut off by the kernel (RFC 5482).
const STANDSTILL_MAX: Duration = Duration::from_secs(60);
const KEEPALIVE: Duration = Duration::from_secs(30);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
