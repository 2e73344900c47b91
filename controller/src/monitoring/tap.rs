//! What collectors hear of peers: each peer's task tells, in its own order, and never waits. A reader that
//! lets too much pile up is told nothing more, and begins anew. Knows no socket.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use weft_bgp::session::Negotiated;
use weft_monitoring::station::Counters;

use crate::speaker::report::Wire;

/// What happened to one peer's session.
#[derive(Clone, Debug)]
pub enum Event {
    /// It is established.
    Up(Arc<Up>),
    /// An UPDATE came, header included.
    Update(IpAddr, Bytes),
    /// Routes changed otherwise than an UPDATE that was told says: one of our own that does, header included.
    Retold(IpAddr, Bytes),
    /// It ended.
    Down(IpAddr, Ended),
}

/// A session that is established.
#[derive(Debug)]
pub struct Up {
    /// The peer's address.
    pub address: IpAddr,
    /// What was agreed on.
    pub negotiated: Arc<Negotiated>,
    /// How it goes over the wire.
    pub wire: Wire,
    /// All routes of the peer that are held, as facts.
    pub held: Vec<(Bytes, Bytes)>,
    /// It has just begun: the peer has still to say its routes.
    pub is_fresh: bool,
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// We sent this NOTIFICATION, header included.
    Sent(Bytes),
    /// We received this NOTIFICATION, header included.
    Received(Bytes),
    /// The peer closed the connection.
    Closed,
    /// We closed it without a word: the peer takes no octets.
    Silent,
}

impl Event {
    /// Octets that it keeps alive. Held routes are not counted: the peer's own table keeps them alive, and
    /// each session says them once.
    fn octets(&self) -> usize {
        match self {
            Self::Up(_) | Self::Down(..) => 0,
            Self::Update(_, octets) | Self::Retold(_, octets) => octets.len(),
        }
    }
}

/// One reader's end where peers' tasks put what happens.
#[derive(Clone, Debug)]
pub struct Tap {
    events: mpsc::UnboundedSender<Event>,
    load: Arc<Load>,
}

#[derive(Debug, Default)]
struct Load {
    octets: AtomicUsize,
    overrun: AtomicBool,
    bell: Notify,
}

impl Tap {
    /// Tells the reader, unless it is too far behind.
    pub fn tell(&self, event: Event) {
        if self.load.overrun.load(Ordering::Relaxed) {
            return;
        }
        let octets = event.octets();
        let before = self.load.octets.fetch_add(octets, Ordering::Relaxed);
        if before.saturating_add(octets) > WAITING_OCTETS_MAX {
            self.load.overrun.store(true, Ordering::Relaxed);
            self.load.bell.notify_one();
            return;
        }
        // A reader that has gone misses nothing.
        let _ = self.events.send(event);
    }
}

/// The other end of a tap.
#[derive(Debug)]
pub struct Reader {
    events: mpsc::UnboundedReceiver<Event>,
    load: Arc<Load>,
}

impl Reader {
    /// The next event, in each peer's order; `None`: too much piled up, and what is missing is not known.
    pub async fn next(&mut self) -> Option<Event> {
        if self.load.overrun.load(Ordering::Relaxed) {
            return None;
        }
        tokio::select! {
            event = self.events.recv() => {
                let event = event?;
                self.load.octets.fetch_sub(event.octets(), Ordering::Relaxed);
                Some(event)
            }
            () = self.load.bell.notified() => None,
        }
    }

    /// Resolves when too much has piled up.
    pub async fn overrun(&self) {
        if !self.load.overrun.load(Ordering::Relaxed) {
            self.load.bell.notified().await;
        }
    }
}

/// All taps, and what the collectors behind them are up to.
#[derive(Debug, Default)]
pub struct Taps {
    is_read: AtomicBool,
    taps: Mutex<Vec<Tap>>,
    collectors: Mutex<BTreeMap<String, Collector>>,
}

/// What is known of a collector.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    /// Since when it is connected; absent: it is not.
    pub connected: Option<Instant>,
    /// What it was told, over all connections.
    pub told: Counters,
    /// Times that it was dropped for reading too slowly.
    pub overruns: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Why the last one ended, or could not be made.
    pub last_error: String,
}

impl Taps {
    /// Whether anybody listens: if not, there is nothing to be prepared.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// Tells everybody.
    pub fn tell(&self, event: &Event) {
        for tap in lock(&self.taps).iter() {
            tap.tell(event.clone());
        }
    }

    /// A new tap: it hears whatever is told from now on.
    pub fn open(&self) -> (Tap, Reader) {
        let (events, receiver) = mpsc::unbounded_channel();
        let load = Arc::<Load>::default();
        let tap = Tap {
            events,
            load: Arc::clone(&load),
        };
        let reader = Reader {
            events: receiver,
            load,
        };
        let mut taps = lock(&self.taps);
        taps.push(tap.clone());
        self.is_read.store(true, Ordering::Relaxed);
        (tap, reader)
    }

    /// Forgets taps whose reader has gone.
    pub fn sweep(&self) {
        let mut taps = lock(&self.taps);
        taps.retain(|tap| !tap.events.is_closed());
        self.is_read.store(!taps.is_empty(), Ordering::Relaxed);
    }

    /// Notes something about a collector.
    pub fn note(&self, name: &str, note: impl FnOnce(&mut Collector)) {
        note(lock(&self.collectors).entry(name.to_owned()).or_default());
    }

    /// The collector is not configured any more.
    pub fn forget(&self, name: &str) {
        lock(&self.collectors).remove(name);
    }

    /// Every collector by name.
    pub fn collectors(&self) -> BTreeMap<String, Collector> {
        lock(&self.collectors).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// UPDATEs that wait for one collector: several full tables of a leaf, and less than a peer's journal.
const WAITING_OCTETS_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn update(octets: usize) -> Event {
        let address = std::net::Ipv4Addr::new(192, 0, 2, 1).into();
        Event::Update(address, Bytes::from(vec![0; octets]))
    }

    #[tokio::test]
    async fn a_reader_that_lags_hears_nothing_more_and_knows_it() {
        let taps = Taps::default();
        let (_tap, mut reader) = taps.open();
        taps.tell(&update(WAITING_OCTETS_MAX / 2));
        assert!(matches!(reader.next().await, Some(Event::Update(..))));
        taps.tell(&update(WAITING_OCTETS_MAX / 2));
        taps.tell(&update(WAITING_OCTETS_MAX / 2 + 1));
        taps.tell(&update(1));
        reader.overrun().await;
        assert!(reader.next().await.is_none());
        drop(reader);
        taps.sweep();
        assert!(!taps.is_read());
    }
}
