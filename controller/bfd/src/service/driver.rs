//! The thread of all sessions: reads sockets, gives each packet to its session, and does what sessions ask
//! for. It refuses to know the rules of RFC 5880 that need no socket.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;
use std::{io, mem};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::counters::{Counting, count};
use super::socket::{Buffers, Datagram, Receiver, Sender};
use super::watched::{Path, Watched};
use super::{Config, Lease, WatchError};
use crate::packet::{Discriminator, Packet};
use crate::session::{Input, Jitter, Session, Status, Timers};

/// What a service or a watch asks for.
#[derive(Debug)]
pub(super) enum Command {
    Begin {
        config: Config,
        reply: oneshot::Sender<Begun>,
    },
    Change {
        discriminator: Discriminator,
        timers: Timers,
    },
}

/// The answer to `Begin`.
pub(super) type Begun = Result<(Lease, watch::Receiver<Status>), WatchError>;

/// What the thread owns.
pub(super) struct Driver {
    commands: mpsc::Receiver<Command>,
    /// Somebody can still send a command.
    open: bool,
    /// A lease was dropped.
    wake: Arc<Notify>,
    counters: Arc<Counting>,
    sessions_max: usize,
    receivers: Vec<Receiver>,
    sessions: HashMap<Discriminator, Watched>,
    by_path: HashMap<Path, Discriminator>,
    deadlines: BTreeSet<(Instant, Discriminator)>,
    random: Jitter,
    buffers: Buffers,
}

/// What to do after waiting.
enum Event {
    Command(Command),
    Closed,
    Dropped,
    /// Something to read, or a deadline: both are looked at in every turn.
    Turn,
}

impl Driver {
    pub(super) fn new(
        sessions_max: usize,
        commands: mpsc::Receiver<Command>,
        counters: Arc<Counting>,
    ) -> Self {
        Self {
            commands,
            open: true,
            wake: Arc::new(Notify::new()),
            counters,
            sessions_max,
            receivers: Vec::new(),
            sessions: HashMap::new(),
            by_path: HashMap::new(),
            deadlines: BTreeSet::new(),
            // Names that cannot be guessed from outside.
            random: Jitter::new(RandomState::new().hash_one(0)),
            buffers: Buffers::default(),
        }
    }

    /// Until nobody can ask for a session any more, and all that were are ended.
    pub(super) async fn run(mut self) {
        while self.open || !self.sessions.is_empty() {
            let event = self.wait().await;
            // What came is read before deadlines are looked at, and with the same clock.
            let now = now();
            self.receive(now);
            match event {
                Event::Command(Command::Begin { config, reply }) => {
                    // If nobody waits any more, the lease in the answer is dropped, and ends the session.
                    drop(reply.send(self.begin(config, now)));
                }
                Event::Command(Command::Change {
                    discriminator,
                    timers,
                }) => self.handle(discriminator, Input::Change(timers), now),
                Event::Closed => self.open = false,
                Event::Dropped => self.stop_dropped(now),
                Event::Turn => {}
            }
            self.time_out(now);
        }
    }

    async fn wait(&mut self) -> Event {
        let Self {
            commands,
            open,
            wake,
            receivers,
            deadlines,
            ..
        } = self;
        let deadline = deadlines.first().map(|(at, _)| (*at).into());
        let due = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let readable = poll_fn(|context| {
            // Each is asked, since each must wake us. An error is found by reading.
            let ready = receivers
                .iter()
                .filter(|receiver| receiver.socket.poll_recv_ready(context).is_ready());
            if ready.count() > 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        tokio::select! {
            command = commands.recv(), if *open => command.map_or(Event::Closed, Event::Command),
            () = wake.notified() => Event::Dropped,
            () = readable => Event::Turn,
            () = due => Event::Turn,
        }
    }

    /// Reads all that has come, up to a bound.
    fn receive(&mut self, now: Instant) {
        let mut buffers = mem::take(&mut self.buffers);
        let receivers = mem::take(&mut self.receivers);
        for receiver in &receivers {
            for _ in 0..DATAGRAMS_MAX {
                match receiver.receive(&mut buffers) {
                    Ok(datagram) => {
                        let octets = &buffers.octets[..datagram.len];
                        self.take(receiver, datagram, octets, now);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => count(&self.counters.malformed),
                }
            }
        }
        self.receivers = receivers;
        self.buffers = buffers;
    }

    /// Finds the session of a datagram: RFC 5880 §6.8.6, RFC 5881 §5.
    fn take(&mut self, receiver: &Receiver, datagram: Datagram, octets: &[u8], now: Instant) {
        if !receiver.multihop && datagram.ttl != u8::MAX {
            return count(&self.counters.far);
        }
        let Ok(packet) = Packet::decode(octets) else {
            return count(&self.counters.malformed);
        };
        let path = Path {
            local: receiver.local,
            remote: datagram.from,
            multihop: receiver.multihop,
        };
        let name = packet.yours.or_else(|| self.by_path.get(&path).copied());
        let Some(name) = name else {
            return count(&self.counters.foreign);
        };
        let Some(watched) = self.sessions.get(&name) else {
            return count(&self.counters.unknown);
        };
        if watched.path != path {
            return count(&self.counters.foreign);
        }
        if receiver.multihop && datagram.ttl < watched.min_ttl {
            return count(&self.counters.far);
        }
        if !watched.session.expects(&packet) {
            return count(&self.counters.foreign);
        }
        count(&self.counters.received);
        self.handle(name, Input::Packet(packet), now);
    }

    fn time_out(&mut self, now: Instant) {
        while let Some((at, name)) = self.deadlines.first().copied()
            && at <= now
        {
            self.handle(name, Input::Timeout, now);
        }
    }

    fn handle(&mut self, name: Discriminator, input: Input, now: Instant) {
        let Some(watched) = self.sessions.get_mut(&name) else {
            return;
        };
        watched.session.handle(input, now);
        if watched.emit(&self.counters) {
            return self.remove(name);
        }
        let deadline = watched.session.poll_timeout();
        if deadline != watched.deadline {
            let before = mem::replace(&mut watched.deadline, deadline);
            before.map(|at| self.deadlines.remove(&(at, name)));
            deadline.map(|at| self.deadlines.insert((at, name)));
        }
    }

    fn begin(&mut self, config: Config, now: Instant) -> Begun {
        let path = Path::of(&config);
        let before = self.dropped_at(path)?;
        if self.sessions.len() - usize::from(before.is_some()) >= self.sessions_max {
            return Err(WatchError::Full(self.sessions_max));
        }
        let sender = self.open(path).map_err(|source| WatchError::Socket {
            local: path.local,
            source,
        })?;
        if let Some(before) = before {
            // The other end hears AdminDown before it hears of the new session.
            self.stop_dropped(now);
            self.remove(before);
        }
        let name = self.name();
        let session = Session::new(config.session(name, self.random.next()), now);
        let (status, receiver) = watch::channel(session.status());
        let dropped = Arc::new(AtomicBool::new(false));
        let watched = Watched {
            session,
            path,
            min_ttl: config.min_ttl,
            sender,
            status,
            deadline: None,
            dropped: Arc::clone(&dropped),
            stopped: false,
        };
        self.sessions.insert(name, watched);
        self.by_path.insert(path, name);
        // Its first packet.
        self.handle(name, Input::Timeout, now);
        let lease = Lease {
            discriminator: name,
            dropped,
            wake: Arc::clone(&self.wake),
        };
        Ok((lease, receiver))
    }

    /// A session of the same path that may be replaced, since its watch was dropped.
    fn dropped_at(&self, path: Path) -> Result<Option<Discriminator>, WatchError> {
        let Some(name) = self.by_path.get(&path).copied() else {
            return Ok(None);
        };
        let watched = self.sessions.get(&name);
        if watched.is_some_and(|watched| !watched.dropped.load(Ordering::Acquire)) {
            let Path { local, remote, .. } = path;
            return Err(WatchError::Watched { local, remote });
        }
        Ok(Some(name))
    }

    /// The socket to send by; the one to receive by is there too, then.
    fn open(&mut self, path: Path) -> io::Result<Sender> {
        let start = self.random.next();
        let sender = Sender::open(path.local, path.remote, path.multihop, start)?;
        if let Some(receiver) = self.receivers.iter_mut().find(|one| path.is_by(one)) {
            receiver.users += 1;
        } else {
            self.receivers
                .push(Receiver::open(path.local, path.multihop)?);
        }
        Ok(sender)
    }

    fn remove(&mut self, name: Discriminator) {
        let Some(watched) = self.sessions.remove(&name) else {
            return;
        };
        watched
            .deadline
            .map(|at| self.deadlines.remove(&(at, name)));
        if self.by_path.get(&watched.path) == Some(&name) {
            self.by_path.remove(&watched.path);
        }
        let receiver = self
            .receivers
            .iter_mut()
            .find(|one| watched.path.is_by(one));
        if let Some(receiver) = receiver {
            receiver.users -= 1;
        }
        self.receivers.retain(|receiver| receiver.users > 0);
    }

    fn stop_dropped(&mut self, now: Instant) {
        let dropped = self.sessions.iter_mut().filter_map(|(name, watched)| {
            let stops = watched.dropped.load(Ordering::Acquire) && !watched.stopped;
            watched.stopped |= stops;
            stops.then_some(*name)
        });
        let dropped: Vec<_> = dropped.collect();
        for name in dropped {
            self.handle(name, Input::Stop, now);
        }
    }

    /// A name that no session has.
    fn name(&mut self) -> Discriminator {
        loop {
            let [_, _, _, _, octets @ ..] = self.random.next().to_be_bytes();
            let name = NonZeroU32::new(u32::from_be_bytes(octets)).map(Discriminator);
            if let Some(name) = name.filter(|name| !self.sessions.contains_key(name)) {
                return name;
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Datagrams of a socket that are read before the deadlines are looked at: more than its buffer holds as the
/// system cuts it. At the limit, as under a flood, sessions run on what was read, and the rest is next.
const DATAGRAMS_MAX: usize = 1024;
