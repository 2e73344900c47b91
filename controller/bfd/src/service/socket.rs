//! UDP for BFD: one socket that receives for a local address, and one for each session that sends. It
//! refuses to know what is in a datagram.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

/// Receives what is sent to one local address, over one hop or over many.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) local: IpAddr,
    pub(super) multihop: bool,
    pub(super) socket: tokio::net::UdpSocket,
    /// Sessions that need it.
    pub(super) users: usize,
}

/// What a datagram is read into.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) octets: [u8; DATAGRAM_LEN],
    control: Vec<u8>,
}

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    /// In octets, 256 at most.
    pub(super) len: usize,
    pub(super) from: IpAddr,
    /// TTL or hop limit.
    pub(super) ttl: u8,
}

/// Sends the packets of one session.
#[derive(Debug)]
pub(super) struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
}

impl Receiver {
    pub(super) fn open(local: IpAddr, multihop: bool) -> io::Result<Self> {
        let socket = open(local)?;
        if local.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvTtl, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true)?;
        }
        // More than the system allows is cut to that.
        socket.set_recv_buffer_size(RECEIVE_LEN)?;
        let port = if multihop {
            MULTIHOP_PORT
        } else {
            SINGLE_HOP_PORT
        };
        socket.bind(&SocketAddr::new(local, port).into())?;
        Ok(Self {
            local,
            multihop,
            socket: tokio::net::UdpSocket::from_std(socket.into())?,
            users: 1,
        })
    }

    /// The next datagram that has come; an error of the kind `WouldBlock` if there is none.
    pub(super) fn receive(&self, buffers: &mut Buffers) -> io::Result<Datagram> {
        self.socket.try_io(tokio::io::Interest::READABLE, || {
            let mut parts = [IoSliceMut::new(&mut buffers.octets)];
            let message = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut buffers.control),
                MsgFlags::MSG_DONTWAIT,
            )?;
            // Without an address or a TTL it is as one from nowhere: no session takes it.
            let ttl = message.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::Ipv4Ttl(ttl) | ControlMessageOwned::Ipv6HopLimit(ttl) => {
                    u8::try_from(ttl).ok()
                }
                _ => None,
            });
            Ok(Datagram {
                len: message.bytes,
                from: message.address.as_ref().map_or(NOWHERE, address),
                ttl: ttl.unwrap_or_default(),
            })
        })
    }
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            octets: [0; DATAGRAM_LEN],
            // The TTL is one integer.
            control: nix::cmsg_space!(i32),
        }
    }
}

impl Sender {
    /// RFC 5881 §4: one source port for a session, 49152 or above, that no other session has. The search for
    /// a free one begins at `start`.
    pub(super) fn open(
        local: IpAddr,
        remote: IpAddr,
        multihop: bool,
        start: u64,
    ) -> io::Result<Self> {
        let mut taken = io::Error::from(io::ErrorKind::AddrInUse);
        for step in 0..PORT_TRIES {
            let offset = start.wrapping_add(step) % u64::from(SOURCE_PORTS);
            let port = SOURCE_PORT_MIN + u16::try_from(offset).expect("below SOURCE_PORTS");
            let socket = open(local)?;
            match socket.bind(&SocketAddr::new(local, port).into()) {
                Ok(()) => return Self::prepare(socket, remote, multihop),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    fn prepare(socket: Socket, remote: IpAddr, multihop: bool) -> io::Result<Self> {
        // Nobody reads it, so it should not hold much.
        socket.set_recv_buffer_size(0)?;
        // RFC 5881 §5. Network control, as BGP: RFC 4594 §3.1. A system that refuses the class sends anyway.
        let _ = match remote {
            IpAddr::V4(_) => {
                socket.set_ttl_v4(TTL)?;
                socket.set_tos_v4(CS6)
            }
            IpAddr::V6(_) => {
                socket.set_unicast_hops_v6(TTL)?;
                socket.set_tclass_v6(CS6)
            }
        };
        let port = if multihop {
            MULTIHOP_PORT
        } else {
            SINGLE_HOP_PORT
        };
        Ok(Self {
            socket: socket.into(),
            to: SocketAddr::new(remote, port),
        })
    }

    pub(super) fn send(&self, octets: &[u8]) -> io::Result<()> {
        self.socket.send_to(octets, self.to).map(drop)
    }
}

/// A socket that can be bound to an address before the host has it.
fn open(local: IpAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(SocketAddr::new(local, 0));
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if local.is_ipv4() {
        socket.set_freebind_v4(true)?;
    } else {
        socket.set_only_v6(true)?;
        socket.set_freebind_v6(true)?;
    }
    Ok(socket)
}

fn address(storage: &SockaddrStorage) -> IpAddr {
    let v4 = storage
        .as_sockaddr_in()
        .map(|address| IpAddr::V4(address.ip()));
    let v6 = || {
        storage
            .as_sockaddr_in6()
            .map(|address| IpAddr::V6(address.ip()))
    };
    v4.or_else(v6).unwrap_or(NOWHERE)
}

const NOWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// RFC 5881 §4.
const SINGLE_HOP_PORT: u16 = 3784;
/// RFC 5883 §5.
const MULTIHOP_PORT: u16 = 4784;
/// RFC 5881 §4.
const SOURCE_PORT_MIN: u16 = 49_152;
const SOURCE_PORTS: u16 = u16::MAX - SOURCE_PORT_MIN;
/// Even with half of the ports taken, so many tries fail once in 2^64.
const PORT_TRIES: u64 = 64;
/// RFC 5881 §5.
const TTL: u32 = 255;
const CS6: u32 = 0xc0;
/// The packets of a thousand sessions that come at once.
const RECEIVE_LEN: usize = 1 << 20;
/// The longest packet has 255 octets; of a longer datagram the rest does not count.
const DATAGRAM_LEN: usize = 256;
