//! One speaker at its socket: it says what the load gives it and accounts for what it gets.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use crate::{
    clock,
    failure::{Context, Failure},
};

use super::{
    load::{HOLD_SECS, Load},
    received::Received,
};

/// A session and its account.
#[derive(Debug)]
pub(crate) struct Speaker {
    pub(crate) number: u32,
    pub(crate) received: Received,
    /// When its session was established.
    pub(crate) established: Option<Instant>,
    /// When it first had all routes of the others.
    pub(crate) completed: Option<Instant>,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The begin of a message whose end has not arrived.
    rest: Vec<u8>,
    outbox: Vec<u8>,
    sent: usize,
    keepalive_due: Instant,
}

/// What speakers are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// A session.
    Established,
    /// All routes of the others.
    Complete,
    /// This route.
    Has(u32),
    /// This route's withdrawal.
    Lacks(u32),
}

impl Speaker {
    pub(crate) fn new(load: &Load, number: u32) -> Self {
        Self {
            number,
            received: Received::new(load, number),
            established: None,
            completed: None,
            connection: None,
        }
    }

    pub(crate) fn reached(&self, goal: Goal, load: &Load) -> bool {
        match goal {
            Goal::Established => self.established.is_some(),
            Goal::Complete => self.completed.is_some(),
            Goal::Has(index) => self.received.has(index) || load.owner(index) == self.number,
            Goal::Lacks(index) => !self.received.has(index),
        }
    }

    /// Connects from its own address and says OPEN. Err(said) where nothing listens yet.
    pub(crate) fn connect(&mut self, reflector: SocketAddr) -> Result<(), Failure> {
        let own = SocketAddr::from((Load::address(self.number), 0));
        let connected = || -> io::Result<TcpStream> {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&own.into())?;
            socket.connect_timeout(&reflector.into(), CONNECT_WITHIN)?;
            socket.set_tcp_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        };
        self.connection = Some(Connection {
            stream: connected().context(|| format!("connection from {own}"))?,
            rest: Vec::new(),
            outbox: Load::open(self.number).to_vec(),
            sent: 0,
            keepalive_due: clock::deadline(KEEPALIVE_EVERY),
        });
        Ok(())
    }

    pub(crate) fn connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Its socket, while there is one.
    pub(crate) fn stream(&self) -> Option<&TcpStream> {
        self.connection
            .as_ref()
            .map(|connection| &connection.stream)
    }

    /// Puts octets behind those that wait to be sent.
    pub(crate) fn say(&mut self, octets: &[u8]) {
        if let Some(connection) = &mut self.connection {
            connection.outbox.extend_from_slice(octets);
        }
    }

    /// Whether octets wait to be sent.
    pub(crate) fn has_more_to_say(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.sent < connection.outbox.len())
    }

    pub(crate) fn keep_alive(&mut self, now: Instant) {
        if self.established.is_none() {
            return;
        }
        if let Some(connection) = &mut self.connection
            && connection.keepalive_due <= now
        {
            connection.keepalive_due = now + KEEPALIVE_EVERY;
            connection.outbox.extend_from_slice(&Load::keepalive());
        }
    }

    /// Sends what the socket takes now.
    pub(crate) fn write(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        match connection.write() {
            Ok(()) => {}
            Err(error) => self.lose(&error.to_string()),
        }
    }

    /// Takes what one read gives, into `buffer`, and accounts for it.
    pub(crate) fn read(&mut self, load: &Load, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let kept = connection.rest.len();
        buffer[..kept].copy_from_slice(&connection.rest);
        let count = match connection.stream.read(&mut buffer[kept..]) {
            Ok(0) => return self.lose("closed by the reflector"),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => return self.lose(&error.to_string()),
        };
        self.received.octets += u64::try_from(count).expect("usize fits u64");
        let taken = self.messages(load, &buffer[..kept + count]);
        if let Some(connection) = &mut self.connection {
            connection.rest.clear();
            connection
                .rest
                .extend_from_slice(&buffer[taken..kept + count]);
        }
        if self.completed.is_none() && self.received.complete(load) {
            self.completed = Some(Instant::now());
        }
    }

    /// Handles all whole messages, and returns how many octets they have.
    fn messages(&mut self, load: &Load, octets: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(header) = octets[taken..].first_chunk::<HEADER_LEN>() {
            let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
            if !(HEADER_LEN..=MESSAGE_MAX).contains(&length) {
                self.lose(&format!("a message of {length} octets"));
                return octets.len();
            }
            let Some(body) = octets.get(taken + HEADER_LEN..taken + length) else {
                break;
            };
            match header[18] {
                OPEN => self.say(&Load::keepalive()),
                UPDATE => self.received.update(load, body),
                NOTIFICATION => self.lose(&format!("NOTIFICATION {body:?}")),
                KEEPALIVE if self.established.is_none() => self.established = Some(Instant::now()),
                _ => {}
            }
            taken += length;
        }
        taken
    }

    /// Drops the connection. A session that had been established must not end: that is a fault.
    fn lose(&mut self, reason: &str) {
        self.connection = None;
        if self.established.is_some() {
            self.received.fail(|| format!("session lost: {reason}"));
        }
    }
}

impl Connection {
    fn write(&mut self) -> io::Result<()> {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(())
    }
}

/// Room for one read and for the begin of a message before it: large enough to make reads rare, small
/// enough to stay in a core's own cache.
pub(crate) const BUFFER_LEN: usize = 128 * 1024;

const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(HOLD_SECS as u64 / 3);

const HEADER_LEN: usize = 19;
/// We do not offer extended messages. RFC 4271 §4.
const MESSAGE_MAX: usize = 4096;

const OPEN: u8 = 1;
const UPDATE: u8 = 2;
const NOTIFICATION: u8 = 3;
const KEEPALIVE: u8 = 4;
