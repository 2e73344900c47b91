//! TCP listeners, also at addresses that this host does not have yet. It refuses to know what a connection carries.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// A listener, and the state of its address.
#[derive(Debug)]
pub struct Listening {
    /// Listener that does not block.
    pub listener: TcpListener,
    /// True if this host has the address.
    pub assigned: bool,
}

/// Listens at an address, after `prepare` has set options of the socket. An address that this host does not have is taken all
/// the same: connections come as soon as it is assigned. At boot an interface may come later, and an IPv6 address is not
/// assigned before the host knows that no neighbour has it (RFC 4862 §5.4).
///
/// # Errors
///
/// The error of the system: the port is taken, or needs a privilege.
pub fn listen(
    address: SocketAddr,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Listening> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    prepare(&socket)?;
    let assigned = match socket.bind(&address.into()) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
            if address.is_ipv4() {
                socket.set_freebind_v4(true)?;
            } else {
                socket.set_freebind_v6(true)?;
            }
            socket.bind(&address.into())?;
            false
        }
        bound => bound.map(|()| true)?,
    };
    socket.listen(BACKLOG)?;
    Ok(Listening {
        listener: socket.into(),
        assigned,
    })
}

/// Connections that wait until they are accepted: those of a whole fabric that come back at once.
const BACKLOG: i32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn open(address: &str) -> io::Result<Listening> {
        listen(address.parse().expect("an address"), |_| Ok(()))
    }

    #[test]
    fn an_address_that_comes_later_is_listened_at() {
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let opened = match open(address) {
                // A kernel without IPv6.
                Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => continue,
                opened => opened.unwrap(),
            };
            assert!(!opened.assigned, "{address}");
            let expected: SocketAddr = address.parse().unwrap();
            let bound = opened.listener.local_addr().unwrap();
            assert_eq!(bound.ip(), expected.ip());
        }
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_at_once() {
        let first = open("127.0.0.1:0").unwrap();
        assert!(first.assigned);
        let taken = first.listener.local_addr().unwrap().to_string();
        assert_eq!(open(&taken).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
