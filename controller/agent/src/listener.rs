//! Who may connect: addresses from the agent's own command line, and not too many of them at one time.
//! Knows nothing of what is said.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt};
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::driver::Command;

/// A connection that was accepted; it makes room for another when it is dropped.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    _place: Place,
}

/// Connections that are open, by their address. Clones share them.
#[derive(Clone, Debug, Default)]
struct Room(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// A place in the room, which is free again when it is dropped.
#[derive(Debug)]
struct Place {
    room: Room,
    address: IpAddr,
}

impl Room {
    /// A place for one more connection; None: there are too many, or too many of this address.
    fn take(&self, address: IpAddr) -> Option<Place> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = open.values().sum();
        let own = open.get(&address).copied().unwrap_or_default();
        if all >= CONNECTIONS_MAX || own >= CONNECTIONS_OF_ADDRESS_MAX {
            return None;
        }
        open.insert(address, own + 1);
        let room = self.clone();
        Some(Place { room, address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.remove(&self.address) {
            Some(0 | 1) | None => {}
            Some(own) => drop(open.insert(self.address, own - 1)),
        }
    }
}

/// Why a connection was closed at once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its address is not that of a controller.
    Address(IpAddr),
    /// There are too many connections already, in all or of this address.
    Exceeded(IpAddr),
}

/// Connections from addresses inside of `allowed`, while there is room. Others are closed at once, and
/// the driver is told.
pub fn connections(
    listener: TcpListener,
    allowed: Vec<IpNet>,
    commands: mpsc::Sender<Command>,
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Room::default();
    let mut lines = Lines::default();
    let connections = TcpListenerStream::new(listener).then(|connection| async {
        if let Err(error) = &connection {
            // No descriptors left, say: they come back when somebody goes.
            tracing::warn!(%error, "a connection was not accepted");
            sleep(PAUSE).await;
        }
        connection.ok()
    });
    connections.filter_map(move |connection| {
        let admitted =
            connection.and_then(|stream| admit(stream, &allowed, &room, &commands, &mut lines));
        std::future::ready(admitted.map(Ok))
    })
}

fn admit(
    stream: TcpStream,
    allowed: &[IpNet],
    room: &Room,
    commands: &mpsc::Sender<Command>,
    lines: &mut Lines,
) -> Option<Connection> {
    // Who is gone again already is not there.
    let address = stream.peer_addr().ok()?.ip().to_canonical();
    let admitted = if may(allowed, address) {
        room.take(address).ok_or(Refused::Exceeded(address))
    } else {
        Err(Refused::Address(address))
    };
    match admitted {
        Ok(_place) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%address, %error, "no TCP_NODELAY");
            }
            Some(Connection { stream, _place })
        }
        Err(refused) => {
            if let Some(unlogged) = lines.next(Instant::now()) {
                tracing::warn!(?refused, unlogged, "connection refused");
            }
            // A driver with a full queue does not need one more reason to be busy.
            let _full = commands.try_send(Command::Refused(refused));
            None
        }
    }
}

/// Lines of the log about refused connections: strangers must not fill it.
#[derive(Debug, Default)]
struct Lines {
    /// When the current second began, and lines since.
    second: Option<(Instant, u32)>,
    /// Refusals without a line since the last one that has one.
    unlogged: u64,
}

impl Lines {
    /// Returns how many refusals had no line before this one, if it has.
    fn next(&mut self, now: Instant) -> Option<u64> {
        let (began, lines) = match self.second {
            Some((began, lines)) if now < began + SECOND => (began, lines),
            Some(_) | None => (now, 0),
        };
        if lines >= LINES_MAX {
            self.unlogged += 1;
            return None;
        }
        self.second = Some((began, lines + 1));
        Some(std::mem::take(&mut self.unlogged))
    }
}

fn may(allowed: &[IpNet], address: IpAddr) -> bool {
    allowed.iter().any(|network| network.contains(&address))
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
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, octets)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Far above what replicas and people need, who each have one or a few. One more is closed.
const CONNECTIONS_MAX: usize = 64;

/// Connections of one address. All replicas of a lab may be behind it; no address takes the places of all others.
const CONNECTIONS_OF_ADDRESS_MAX: usize = CONNECTIONS_MAX / 2;

/// After a connection that was not accepted: the next attempt may fail in the same way.
const PAUSE: Duration = Duration::from_millis(100);

const SECOND: Duration = Duration::from_secs(1);
/// Lines a second about refused connections.
const LINES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_room_for_others() {
        let room = Room::default();
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let fill = |last: u8| (0..100).map_while(|_| room.take(address(last))).collect();
        let first: Vec<Place> = fill(1);
        assert_eq!(first.len(), CONNECTIONS_OF_ADDRESS_MAX);
        let second: Vec<Place> = fill(2);
        assert_eq!(first.len() + second.len(), CONNECTIONS_MAX);
        assert!(room.take(address(3)).is_none());
        drop(first);
        let third = room.take(address(3));
        assert!(third.is_some() && room.take(address(2)).is_none());
        drop((second, third));
        assert!(room.0.lock().expect("no panic").is_empty());
    }

    #[test]
    fn strangers_get_ten_lines_a_second_and_the_rest_is_counted() {
        let (mut lines, begin) = (Lines::default(), Instant::now());
        let mut at = |ms| lines.next(begin + Duration::from_millis(ms));
        let logged = (0..999).filter_map(&mut at).collect::<Vec<_>>();
        assert_eq!(logged, [0; 10]);
        assert_eq!(at(1_000), Some(989));
        assert_eq!(at(1_001), Some(0));
    }

    #[test]
    fn only_the_named_networks_may_connect() {
        let allowed: Vec<IpNet> = ["192.0.2.0/24", "2001:db8::7/128"]
            .iter()
            .map(|text| text.parse().expect("a prefix"))
            .collect();
        let may = |text: &str| may(&allowed, text.parse().expect("an address"));
        assert!(may("192.0.2.77") && may("2001:db8::7"));
        assert!(!may("192.0.3.1") && !may("2001:db8::8") && !may("127.0.0.1"));
    }
}
