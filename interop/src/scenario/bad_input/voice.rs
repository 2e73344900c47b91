//! One TCP connection from inside the lab, on which anything may be said; and what was heard on it.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    thread,
    time::{Duration, Instant},
};

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, SockRef, Socket, Type};

use super::notation::HEADER_LEN;
use crate::{
    clock,
    failure::{Context, Failure},
    namespace::Namespace,
};

/// A connection.
#[derive(Debug)]
pub(super) struct Voice {
    /// None once it was aborted.
    stream: Option<TcpStream>,
    heard: Vec<u8>,
    /// Message types, in their order.
    pub(super) kinds: Vec<u8>,
    pub(super) notification: Option<(u8, u8, Vec<u8>)>,
    pub(super) closed: bool,
    /// Octets that came in all.
    pub(super) octets: usize,
    /// UPDATEs, headers included, if somebody wants them.
    pub(super) updates: Option<Vec<Vec<u8>>>,
}

impl Voice {
    /// Connects from `own`, which only the namespace has. `window`: take at most so many octets unread.
    pub(super) fn dial(
        namespace: &Namespace,
        own: Ipv4Addr,
        to: SocketAddrV4,
        window: Option<usize>,
    ) -> Result<Self, Failure> {
        let stream = connect(namespace, own, to, window)?;
        Ok(Self {
            stream: Some(stream),
            heard: Vec::new(),
            kinds: Vec::new(),
            notification: None,
            closed: false,
            octets: 0,
            updates: None,
        })
    }

    /// Says octets, and listens while the other end takes none. That it does not want them is for `hear`
    /// to find out.
    pub(super) fn say(&mut self, octets: &[u8]) -> Result<(), Failure> {
        let deadline = clock::deadline(SAID_WITHIN);
        let mut left = octets;
        while let (Some(stream), false) = (&mut self.stream, left.is_empty() || self.closed) {
            match stream.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if is_pause(&error) && Instant::now() < deadline => {
                    self.listen(Duration::from_millis(1))?;
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Ends the connection with an RST in the middle of whatever was said.
    pub(super) fn abort(&mut self) -> Result<(), Failure> {
        if let Some(stream) = self.stream.take() {
            SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .context(|| "linger".to_owned())?;
        }
        self.closed = true;
        Ok(())
    }

    /// Listens until `enough`, or the connection is closed, or `within` has passed.
    pub(super) fn hear(
        &mut self,
        within: Duration,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Failure> {
        let deadline = clock::deadline(within);
        while !self.closed && !enough(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.listen(left.min(STEP))?;
        }
        Ok(())
    }

    /// Takes what comes within a moment.
    fn listen(&mut self, within: Duration) -> Result<(), Failure> {
        clock::go_on()?;
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        stream
            .set_read_timeout(Some(within))
            .context(|| "read timeout".to_owned())?;
        let mut octets = [0; 65_536];
        match stream.read(&mut octets) {
            Ok(0) => self.closed = true,
            Ok(count) => self.take(&octets[..count]),
            Err(error) if is_pause(&error) => {}
            Err(_) => self.closed = true,
        }
        Ok(())
    }

    /// Whether a message of this type came.
    pub(super) fn got(&self, kind: u8) -> bool {
        self.kinds.contains(&kind)
    }

    fn take(&mut self, octets: &[u8]) {
        self.octets += octets.len();
        self.heard.extend_from_slice(octets);
        while let Some(header) = self.heard.first_chunk::<HEADER_LEN>() {
            let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
            if length < HEADER_LEN || self.heard.len() < length {
                return; // not BGP, or not yet
            }
            let message: Vec<u8> = self.heard.drain(..length).collect();
            let kind = message[18];
            self.kinds.push(kind);
            if let (NOTIFICATION, [code, subcode, data @ ..]) = (kind, &message[HEADER_LEN..]) {
                self.notification = Some((*code, *subcode, data.to_vec()));
            }
            if let (UPDATE, Some(updates)) = (kind, &mut self.updates) {
                updates.push(message);
            }
        }
    }
}

/// A connection from `own`, which only the namespace has.
pub(super) fn connect(
    namespace: &Namespace,
    own: Ipv4Addr,
    to: SocketAddrV4,
    window: Option<usize>,
) -> Result<TcpStream, Failure> {
    let connect = || -> io::Result<TcpStream> {
        let inside = File::open(format!("/run/netns/{}", namespace.0))?;
        setns(inside, CloneFlags::CLONE_NEWNET)?;
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if let Some(octets) = window {
            socket.set_recv_buffer_size(octets)?;
        }
        socket.bind(&SocketAddrV4::new(own, 0).into())?;
        socket.connect_timeout(&to.into(), CONNECT_WITHIN)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_write_timeout(Some(STEP))?;
        Ok(socket.into())
    };
    // A thread of its own: its namespace ends with it, the socket stays where it was made.
    let connected = thread::scope(|scope| scope.spawn(connect).join());
    connected
        .map_err(|_| Failure::new("dial"))?
        .context(|| format!("connection from {own} to {to}"))
}

/// Whether an error only says that nothing moved for a while.
fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

pub(super) const OPEN: u8 = 1;
const UPDATE: u8 = 2;
pub(super) const NOTIFICATION: u8 = 3;
pub(super) const KEEPALIVE: u8 = 4;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// Who takes no octet for so long never will.
const SAID_WITHIN: Duration = Duration::from_secs(10);

/// How long a Ctrl-C may wait to be noticed.
const STEP: Duration = Duration::from_millis(50);
