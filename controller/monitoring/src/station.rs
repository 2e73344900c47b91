//! What one collector has been told over one connection, and what waits to be sent. RFC 7854 §3.
//!
//! ```text
//!                connect                        overrun: a message did not fit the queue
//! Disconnected ----------> Connected ------------------------------------------+
//!      ^                   initiation, then for each peer                      v
//!      |                   peer up, tables, End-of-RIB                      Overrun
//!      |                       |  terminate                                    |
//!      |      disconnect       v                          disconnect           |
//!      +------------------- Closing                                            |
//!      +-----------------------------------------------------------------------+
//! ```
//! A collector that reads too slowly loses its queue and its connection, never a single message: a stream
//! with a gap would show it tables that never were. What comes after the next connection is the whole
//! story again.
//!
//! It refuses to know sockets and when to connect, and where tables come from: who feeds it reads each
//! part of a table at the moment when there is [`Station::room`] for it, so that changes and parts may
//! come in any order.

mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

use bytes::{Bytes, BytesMut};
use weft_bgp::family::Family;

use crate::bmp::{
    self, Down, Initiation, NotFramed, Peer, PeerHeader, PeerUp, Rib, Statistic, Termination,
};
use crate::update;
use queue::Queue;

/// One collector.
#[derive(Debug)]
pub struct Station {
    octets_max: usize,
    state: State,
    counters: Counters,
}

#[derive(Debug)]
enum State {
    Disconnected,
    Connected(Connected),
    /// Termination is queued, and nothing behind it.
    Closing(Queue),
    Overrun,
}

#[derive(Debug, Default)]
struct Connected {
    queue: Queue,
    up: BTreeSet<Session>,
    tables: BTreeMap<Table, Progress>,
}

/// What has one Peer Up: a peer, or our own Loc-RIB.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    loc_rib: bool,
    peer: Peer,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    session: Session,
    rib: Rib,
    family: Family,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Progress {
    Telling,
    Told,
}

/// What became of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It waits to be sent.
    Queued,
    /// Nobody is connected, or the connection is to be closed; the next one begins anew.
    NotConnected,
    /// The collector was told no Peer Up for it, so it must not hear of it.
    NotUp,
    /// The table was not begun, and will have it when it is.
    NotBegun,
    /// It did not fit: all that waited was dropped, and the connection is to be closed.
    Overrun,
}

/// What whoever holds the connection is to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Wait.
    Nothing,
    /// Write what [`Station::slices`] gives.
    Write,
    /// Close the connection, and say so with [`Station::disconnect`].
    Close,
}

/// Counts since the station was made.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages queued.
    pub messages: u64,
    /// Octets handed to the connection.
    pub octets: u64,
    /// Times that the collector was too slow.
    pub overruns: u64,
    /// Octets dropped by that.
    pub octets_dropped: u64,
}

impl Station {
    /// A station without a connection whose queue holds up to `octets_max` octets, but no fewer than two
    /// of the longest messages.
    #[must_use]
    pub fn new(octets_max: usize) -> Self {
        Self {
            octets_max: octets_max.max(OCTETS_MIN),
            state: State::Disconnected,
            counters: Counters::default(),
        }
    }

    /// A connection is there: forgets what was told before, and begins with an Initiation.
    pub fn connect(&mut self, initiation: &Initiation) {
        self.state = State::Connected(Connected::default());
        self.say(|out| bmp::initiation(out, initiation));
    }

    /// The connection is gone.
    pub fn disconnect(&mut self) {
        self.state = State::Disconnected;
    }

    /// Tells that a session is up, or that Loc-RIB is told from now on. A session that was up already
    /// goes down first, since a collector keeps what it was told till then.
    ///
    /// # Errors
    /// [`NotFramed`]: the OPENs are none; nothing was queued.
    pub fn peer_up(&mut self, header: &PeerHeader, up: &PeerUp<'_>) -> Result<Fate, NotFramed> {
        let mut message = BytesMut::new();
        bmp::peer_up(&mut message, header, up)?;
        if self.is_up(header) {
            self.peer_down(header, &Down::NoLongerMonitored)?;
        }
        let fate = self.say(|out| out.extend_from_slice(&message));
        if let State::Connected(connected) = &mut self.state {
            connected.up.insert(Session::of(header));
        }
        Ok(fate)
    }

    /// Tells that a session is down, if it was told up; its tables are gone by that.
    ///
    /// # Errors
    /// [`NotFramed`]: the NOTIFICATION is none; nothing was queued.
    pub fn peer_down(&mut self, header: &PeerHeader, down: &Down<'_>) -> Result<Fate, NotFramed> {
        let mut message = BytesMut::new();
        bmp::peer_down(&mut message, header, down)?;
        let State::Connected(connected) = &mut self.state else {
            return Ok(Fate::NotConnected);
        };
        let session = Session::of(header);
        if !connected.up.remove(&session) {
            return Ok(Fate::NotUp);
        }
        connected.tables.retain(|table, _| table.session != session);
        Ok(self.say(|out| out.extend_from_slice(&message)))
    }

    /// From now on routes of this table are told: first all that are in it, part by part as there is
    /// [`Station::room`], and meanwhile what changes; then [`Station::end`]. Before, changes of it are
    /// not told, because they will be in the table when it is read.
    pub fn begin(&mut self, header: &PeerHeader, family: Family) -> Fate {
        let State::Connected(connected) = &mut self.state else {
            return Fate::NotConnected;
        };
        let table = Table::of(header, family);
        if !connected.up.contains(&table.session) {
            return Fate::NotUp;
        }
        connected.tables.insert(table, Progress::Telling);
        Fate::Queued
    }

    /// Tells one UPDATE of a table, header included: a part of the table or a change. A long one is
    /// shared, not copied, and keeps alive the buffer that it is a slice of while it waits.
    ///
    /// # Errors
    /// [`NotFramed`]: the octets are no UPDATE; nothing was queued.
    pub fn routes(
        &mut self,
        header: &PeerHeader,
        family: Family,
        update: &Bytes,
    ) -> Result<Fate, NotFramed> {
        let State::Connected(connected) = &mut self.state else {
            return Ok(Fate::NotConnected);
        };
        let table = Table::of(header, family);
        if !connected.up.contains(&table.session) {
            return Ok(Fate::NotUp);
        }
        if !connected.tables.contains_key(&table) {
            return Ok(Fate::NotBegun);
        }
        let head = bmp::route_monitoring_head(header, update)?;
        let octets = head.len().saturating_add(update.len());
        if connected.queue.len().saturating_add(octets) > self.octets_max {
            return Ok(self.overrun());
        }
        connected.queue.write(&head);
        connected.queue.share(update);
        self.counters.messages = self.counters.messages.saturating_add(1);
        Ok(Fate::Queued)
    }

    /// All of the table was told: queues its End-of-RIB. RFC 7854 §5.
    pub fn end(&mut self, header: &PeerHeader, family: Family) -> Fate {
        let fate = self
            .routes(header, family, &update::end_of_rib(family))
            .expect("an End-of-RIB is an UPDATE");
        if let (Fate::Queued, State::Connected(connected)) = (fate, &mut self.state) {
            let table = Table::of(header, family);
            connected.tables.insert(table, Progress::Told);
        }
        fate
    }

    /// Tells counts of a peer that is up.
    pub fn statistics(&mut self, header: &PeerHeader, statistics: &[Statistic]) -> Fate {
        match &self.state {
            State::Connected(_) if self.is_up(header) => {
                self.say(|out| bmp::statistics(out, header, statistics))
            }
            State::Connected(_) => Fate::NotUp,
            State::Disconnected | State::Closing(_) | State::Overrun => Fate::NotConnected,
        }
    }

    /// Ends the connection when all that waits has been sent.
    pub fn terminate(&mut self, reason: Termination) -> Fate {
        let fate = self.say(|out| bmp::termination(out, reason));
        match std::mem::replace(&mut self.state, State::Disconnected) {
            State::Connected(connected) => self.state = State::Closing(connected.queue),
            other => self.state = other,
        }
        fate
    }

    /// What is to be done with the connection now.
    #[must_use]
    pub fn poll(&self) -> Demand {
        match &self.state {
            State::Disconnected => Demand::Nothing,
            State::Connected(connected) if connected.queue.is_empty() => Demand::Nothing,
            State::Closing(queue) if queue.is_empty() => Demand::Close,
            State::Connected(_) | State::Closing(_) => Demand::Write,
            State::Overrun => Demand::Close,
        }
    }

    /// Fills `slices` with what waits, oldest first, for one vectored write; how many it filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.queue().map_or(0, |queue| queue.slices(slices))
    }

    /// So many octets were written.
    pub fn advance(&mut self, octets: usize) {
        self.counters.octets = self.counters.octets.saturating_add(octets as u64);
        match &mut self.state {
            State::Connected(connected) => connected.queue.advance(octets),
            State::Closing(queue) => queue.advance(octets),
            State::Disconnected | State::Overrun => {}
        }
    }

    /// Octets that parts of tables may take now. Half of the queue is kept for changes, which do not
    /// wait.
    #[must_use]
    pub fn room(&self) -> usize {
        let State::Connected(connected) = &self.state else {
            return 0;
        };
        let tables = self.octets_max.wrapping_div(2);
        tables.saturating_sub(connected.queue.len())
    }

    /// Octets that wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue().map_or(0, Queue::len)
    }

    /// Whether a Peer Up of this header's peer, or Loc-RIB, was told.
    #[must_use]
    pub fn is_up(&self, header: &PeerHeader) -> bool {
        match &self.state {
            State::Connected(connected) => connected.up.contains(&Session::of(header)),
            State::Disconnected | State::Closing(_) | State::Overrun => false,
        }
    }

    /// Whether every table that was begun has been told to its end, and some table was.
    #[must_use]
    pub fn is_synchronized(&self) -> bool {
        match &self.state {
            State::Connected(connected) => {
                let mut tables = connected.tables.values();
                !connected.tables.is_empty() && tables.all(|progress| *progress == Progress::Told)
            }
            State::Disconnected | State::Closing(_) | State::Overrun => false,
        }
    }

    /// Counts since the station was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn queue(&self) -> Option<&Queue> {
        match &self.state {
            State::Connected(connected) => Some(&connected.queue),
            State::Closing(queue) => Some(queue),
            State::Disconnected | State::Overrun => None,
        }
    }

    /// Queues a message.
    fn say(&mut self, write: impl FnOnce(&mut BytesMut)) -> Fate {
        let State::Connected(connected) = &mut self.state else {
            return Fate::NotConnected;
        };
        connected.queue.append(write);
        if connected.queue.len() > self.octets_max {
            return self.overrun();
        }
        self.counters.messages = self.counters.messages.saturating_add(1);
        Fate::Queued
    }

    fn overrun(&mut self) -> Fate {
        let dropped = self.queued() as u64;
        self.counters.overruns = self.counters.overruns.saturating_add(1);
        self.counters.octets_dropped = self.counters.octets_dropped.saturating_add(dropped);
        self.state = State::Overrun;
        Fate::Overrun
    }
}

impl Session {
    fn of(header: &PeerHeader) -> Self {
        Self {
            loc_rib: matches!(header.rib, Rib::LocRib { .. }),
            peer: header.peer,
        }
    }
}

impl Table {
    fn of(header: &PeerHeader, family: Family) -> Self {
        Self {
            session: Session::of(header),
            rib: header.rib,
            family,
        }
    }
}

/// Seconds to wait before the next attempt, after so many that failed in a row: from 30, doubled, to 720.
/// RFC 7854 §3.2.
#[must_use]
pub fn reconnect_secs(failures: u32) -> u32 {
    let doubled = 1_u32.checked_shl(failures.min(5)).unwrap_or(u32::MAX);
    doubled.saturating_mul(30).min(720)
}

/// The longest Route Monitoring message.
const LONGEST: usize = bmp::ROUTE_MONITORING_HEAD_LEN + u16::MAX as usize;
/// Less, and one long message could never be queued.
const OCTETS_MIN: usize = 2 * LONGEST;
