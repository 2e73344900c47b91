//! The sending half of one TCP connection: control messages first, then every feed from its own
//! cursor, with vectored writes of shared octets. Knows nothing of what a message says.

mod stream;

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select_all;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::message::MessageKind;
use weft_bgp::peer::PeerId;
use weft_bgp::update_group::Segment;
use weft_bgp::update_group::journal::Cursor;

use super::feed::Feed;
use super::gate::{Gate, Held};
use super::saved::Saved;
use super::weights::Own;

use stream::{Active, Trouble};

/// What a writer is told.
pub enum Order {
    /// Write these octets before any route.
    Control(Bytes),
    /// Write an image and then the journal it belongs to.
    Begin(Box<Stream>),
    /// Write a family's image once more, and its journal again. RFC 2918.
    Again(Family, Box<Repeat>),
    /// Go over to another feed or interest, and read on: the stream was held for that.
    Turn(Family, Box<Turning>, Held),
    /// Write this End-of-RIB once the family's journal was written up to here.
    End(Family, Cursor, Bytes),
    /// Write what waits of control, then close.
    Close,
}

/// Held by an order until the writer begins with it: while it is, no other of its kind is ordered.
pub type Ticket = Arc<()>;

/// One family's routes on their way to one peer.
pub struct Stream {
    /// Which family.
    pub family: Family,
    /// Whom the frames go to: its own are left out.
    pub peer: PeerId,
    /// Which frames it wants; the others are counted in `saved`.
    pub interest: Interest,
    /// What it does not want.
    pub saved: Arc<Saved>,
    /// Nothing is read of the feed while it is closed, for `HOLD_MAX` at most.
    pub gate: Arc<Gate>,
    /// Our own words, written first of all.
    pub preface: Option<Bytes>,
    /// What we say ourselves from then on.
    pub own: Option<Own>,
    /// The image, written first.
    pub image: Arc<Segment>,
    /// What follows.
    pub feed: Arc<Feed>,
    /// From here.
    pub cursor: Cursor,
    /// Written once the journal was written up to here: everything that there was at the join.
    pub end_of_rib: Option<(Cursor, Bytes)>,
}

/// A family's routes once more.
pub struct Repeat {
    /// Our own words, written before the image.
    pub preface: Option<Bytes>,
    /// The image.
    pub image: Arc<Segment>,
    /// From here the journal is written again, if it was written already.
    pub cursor: Cursor,
    /// The image and the journal up to here are everything that there was.
    pub complete: Cursor,
    /// BoRR and EoRR for a peer that understands them. RFC 7313 §4.
    pub marks: Option<(Bytes, Bytes)>,
    /// Nobody wants to know more of it.
    pub ticket: Ticket,
}

/// From one feed and interest to another, without a new session.
pub struct Turning {
    /// In the old feed: up to here the member is told in the old way.
    pub until: Cursor,
    /// What is different for it then.
    pub segment: Arc<Segment>,
    /// What follows.
    pub feed: Arc<Feed>,
    /// From here.
    pub cursor: Cursor,
    /// Which frames it wants from the segment on.
    pub interest: Interest,
    /// Nobody wants to know more of it.
    pub ticket: Ticket,
}

/// What a writer tells.
#[derive(Debug)]
pub enum Event {
    /// The peer takes no octets.
    Blocked,
    /// The peer takes octets again.
    Sent,
    /// The journal went on without this peer; it knows everything up to this revision.
    Lagged(Family, u64),
    /// The journal went on without this peer, which was about to turn: nobody can say what it knows.
    Lost(Family),
    /// The connection cannot be written to any more.
    Failed(std::io::Error),
}

/// Writes until closed, and says how many messages it took from tables. Events are bounded: a peer's task that does not listen holds its own writer up.
pub async fn write(
    mut socket: OwnedWriteHalf,
    mut orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<Event>,
    counted: impl Fn(MessageKind, u64),
) {
    let mut writer = Writer {
        control: VecDeque::new(),
        streams: Vec::new(),
        closing: false,
    };
    let mut chunk = Chunk::default();
    loop {
        while let Ok(order) = orders.try_recv() {
            writer.take(order);
        }
        chunk.octets.clear();
        let control = writer.control.len();
        let trouble = writer.fill(&mut chunk, Instant::now);
        count(&chunk.octets[control..], &counted);
        let troubled = trouble.is_some();
        if let Some(event) = trouble
            && events.send(event).await.is_err()
        {
            return;
        }
        if chunk.octets.is_empty() {
            if troubled {
                continue; // another family may have something
            }
            if writer.closing {
                let _ = socket.shutdown().await;
                return;
            }
            match writer.wait(&mut orders).await {
                Some(Some(order)) => writer.take(order),
                Some(None) => {}
                None => return, // the peer's task is gone, and the connection with it
            }
            continue;
        }
        if let Err(error) = send(&mut socket, &chunk.octets, &events).await {
            let _ = events.send(Event::Failed(error)).await;
            return;
        }
        // A peer that takes whatever it is given must not keep others waiting.
        tokio::task::coop::consume_budget().await;
    }
}

/// Counts messages by their kind, of which a table has two.
fn count(messages: &[Bytes], counted: impl Fn(MessageKind, u64)) {
    // Only the shortest are looked at: the octets of most are in no cache yet.
    let is_refresh = |message: &&Bytes| message.len() == REFRESH_LEN && message[18] == REFRESH;
    let refreshes = messages.iter().filter(is_refresh).count();
    let updates = messages.len() - refreshes;
    for (kind, count) in [
        (MessageKind::Update, updates),
        (MessageKind::RouteRefresh, refreshes),
    ] {
        if count > 0 {
            counted(kind, count as u64);
        }
    }
}

/// Octets that one call to the system takes.
#[derive(Default)]
struct Chunk {
    octets: Vec<Bytes>,
}

struct Writer {
    control: VecDeque<Bytes>,
    streams: Vec<Active>,
    closing: bool,
}

impl Writer {
    fn take(&mut self, order: Order) {
        match order {
            Order::Control(octets) => self.control.push_back(octets),
            Order::Begin(stream) => self.begin(*stream),
            Order::Again(family, repeat) => {
                if let Some(active) = self.stream(family) {
                    active.repeat(*repeat);
                }
            }
            Order::Turn(family, turning, held) => {
                if let Some(active) = self.stream(family) {
                    active.turn(*turning);
                }
                drop(held);
            }
            Order::End(family, complete, octets) => {
                if let Some(active) = self.stream(family) {
                    active.end(complete, octets);
                }
            }
            Order::Close => {
                self.closing = true;
                self.streams.clear();
            }
        }
    }

    /// Begins a family, or puts a member that fell behind on the journal again.
    fn begin(&mut self, stream: Stream) {
        match self.stream(stream.family) {
            Some(old) => old.begin_again(stream),
            None => self.streams.push(Active::new(stream)),
        }
    }

    fn stream(&mut self, family: Family) -> Option<&mut Active> {
        self.streams
            .iter_mut()
            .find(|active| active.family() == family)
    }

    /// Collects what can be written now; tells of a stream that fell off its journal, once.
    fn fill(&mut self, chunk: &mut Chunk, clock: impl Fn() -> Instant) -> Option<Event> {
        chunk.octets.extend(self.control.drain(..));
        let mut room = CHUNK_OCTETS;
        for active in &mut self.streams {
            match active.fill(&mut chunk.octets, &mut room, &clock) {
                Some(Trouble::Lagged(revision)) => {
                    return Some(Event::Lagged(active.family(), revision));
                }
                Some(Trouble::Lost) => return Some(Event::Lost(active.family())),
                None => {}
            }
        }
        None
    }

    /// Waits for an order, or for a journal to grow or a gate to open (`Some(None)`).
    async fn wait(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<Option<Order>> {
        let held = self.streams.iter().any(Active::is_held);
        let mut bells = self.streams.iter_mut().flat_map(Active::bells);
        let Some(bell) = bells.next() else {
            return orders.recv().await.map(Some);
        };
        // Nothing is allocated for one family, as most peers have.
        let others: Vec<_> = bells.map(|bell| Box::pin(bell.changed())).collect();
        let has_others = !others.is_empty();
        tokio::select! {
            order = orders.recv() => order.map(Some),
            _ = bell.changed() => Some(None),
            _ = async { select_all(others).await }, if has_others => Some(None),
            () = tokio::time::sleep(HOLD_LOOK), if held => Some(None),
        }
    }
}

async fn send(
    socket: &mut OwnedWriteHalf,
    octets: &[Bytes],
    events: &mpsc::Sender<Event>,
) -> std::io::Result<()> {
    let mut sent = 0;
    // A route now and then is one message for a peer that has room: it needs no list and no clock, and costs the system
    // less than a list of one.
    if let [only] = octets {
        match socket.try_write(only) {
            Ok(written) if written == only.len() => return Ok(()),
            Ok(written) => sent = written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let mut storage: Vec<IoSlice<'_>> = octets.iter().map(|octets| IoSlice::new(octets)).collect();
    let mut slices = &mut storage[..];
    IoSlice::advance_slices(&mut slices, sent);
    let mut blocked = false;
    while !slices.is_empty() {
        let write = socket.write_vectored(slices);
        let Ok(written) = tokio::time::timeout(BLOCKED_AFTER, write).await else {
            if events.is_closed() {
                // Nobody waits for these octets any more.
                return Err(ErrorKind::TimedOut.into());
            }
            if !blocked {
                blocked = true;
                let _ = events.send(Event::Blocked).await;
            }
            continue;
        };
        let written = written?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        if std::mem::take(&mut blocked) {
            let _ = events.send(Event::Sent).await;
        }
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

/// Octets and slices of one vectored write: well above a socket's buffer, below IOV_MAX (1,024).
const CHUNK_OCTETS: usize = 1 << 20;
const CHUNK_SLICES: usize = 512;
/// ROUTE-REFRESH, all of it. RFC 2918 §3.
const REFRESH_LEN: usize = 23;
const REFRESH: u8 = 5;
/// A turn that takes longer holds nobody up: if it comes all the same, and too late, the session starts again. Longer
/// than the largest table takes to be looked at; short beside a hold time.
const HOLD_MAX: Duration = Duration::from_secs(2);
/// Between two looks at a gate that is closed. The turn itself comes as an order; this is for one that comes to nothing.
const HOLD_LOOK: Duration = Duration::from_millis(50);
/// A peer that takes nothing for this long is blocked; RFC 9687's timer starts.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
