//! TCP towards peers: how sockets are opened, and nothing of what flows through them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

/// Listens for peers.
///
/// # Errors
/// What the system said: the address is taken, or the port needs a privilege.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Dials a peer, from the address that it knows us by if there is one.
///
/// # Errors
/// What the system said.
pub async fn dial(to: SocketAddr, from: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if let Some(from) = from.filter(|from| from.is_ipv4() == to.is_ipv4()) {
        socket.bind(&SocketAddr::new(from, 0).into())?;
    }
    let socket = tokio::net::TcpSocket::from_std_stream(socket.into());
    let connected = tokio::time::timeout(DIAL_TIMEOUT, socket.connect(to)).await;
    connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
}

/// Options of an open connection: small messages leave at once, and a dead path is noticed by the
/// system too.
///
/// # Errors
/// What the system said.
pub fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    // RFC 4271 §5.1.3 peers speak with the precedence of routing: CS6, RFC 4594 §3.1.
    let _ = match stream.peer_addr()? {
        SocketAddr::V4(_) => socket.set_tos_v4(CS6),
        SocketAddr::V6(_) => socket.set_tclass_v6(CS6),
    };
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
}

const BACKLOG: i32 = 1024;
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(60);
const CS6: u32 = 0xc0;
