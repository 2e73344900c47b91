//! TCP towards peers: how sockets are opened, and nothing of what flows through them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use super::keys::{self, Secret};
use crate::config::Ttl;

/// What keeps others out of a connection to one peer.
#[derive(Clone, Debug)]
pub struct Protection {
    /// Signs every segment.
    pub secret: Option<Secret>,
    /// How far away the peer may be, RFC 5082.
    pub ttl: Ttl,
}

/// Listens for peers, also at an address that this host gets later.
///
/// # Errors
/// The error of the system: the port is taken, or needs a privilege.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    open(address, true)
}

/// Listens like [`listen`], at the unspecified address of IPv6 for both families.
///
/// # Errors
/// As of [`listen`].
pub fn listen_both(address: SocketAddr) -> std::io::Result<TcpListener> {
    match open(address, !address.ip().is_unspecified()) {
        // A kernel without IPv6.
        Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into(), false)
        }
        opened => opened,
    }
}

fn open(address: SocketAddr, only_v6: bool) -> std::io::Result<TcpListener> {
    let listening = weft_sys::listen(address, |socket| {
        if address.is_ipv6() {
            socket.set_only_v6(only_v6)?;
        }
        // The answer to the first segment is the listener's: a peer with GTSM takes no other TTL.
        send_ttl(socket, address.is_ipv6(), u8::MAX)
    })?;
    if !listening.assigned {
        tracing::warn!(%address, "this host does not have the address; listening until it does");
    }
    TcpListener::from_std(listening.listener)
}

/// Dials a peer, from the address that it knows us by if there is one.
///
/// # Errors
/// What the system said.
pub async fn dial(
    to: SocketAddr,
    from: Option<IpAddr>,
    protection: Protection,
) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    if let Some(secret) = &protection.secret {
        keys::protect(&socket, to.ip(), secret)?;
    }
    limit_ttl(&socket, to.is_ipv6(), protection.ttl)?;
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let connected = tokio::time::timeout(DIAL_TIMEOUT, socket.connect(to)).await;
    connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

/// Options of an open connection: small messages leave at once, a dead path is noticed by the system
/// too, and a peer that is further away than it may be is not heard.
///
/// # Errors
/// What the system said.
pub fn prepare(stream: &TcpStream, ttl: Ttl) -> std::io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    limit_ttl(&socket, stream.peer_addr()?.is_ipv6(), ttl)?;
    stream.set_nodelay(true)?;
    // RFC 4271 §5.1.3 peers speak with the precedence of routing: CS6, RFC 4594 §3.1.
    let _ = match stream.peer_addr()? {
        SocketAddr::V4(_) => socket.set_tos_v4(CS6),
        SocketAddr::V6(_) => socket.set_tclass_v6(CS6),
    };
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

fn limit_ttl(socket: &Socket, v6: bool, ttl: Ttl) -> std::io::Result<()> {
    send_ttl(socket, v6, ttl.sent())?;
    weft_sys::min_ttl(socket, v6, ttl.accepted_min())
}

fn send_ttl(socket: &Socket, v6: bool, ttl: u8) -> std::io::Result<()> {
    match v6 {
        true => socket.set_unicast_hops_v6(ttl.into()),
        false => socket.set_ttl_v4(ttl.into()),
    }
}

const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(60);
const CS6: u32 = 0xc0;
