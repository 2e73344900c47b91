//! The sending half of one TCP connection: control messages first, then every feed from its own
//! cursor, with vectored writes of shared octets. Knows nothing of what a message says.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::select_all;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{mpsc, watch};
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_bgp::update_group::Segment;
use weft_bgp::update_group::journal::{Cursor, Read};

use super::feed::Feed;

/// What a writer is told.
pub enum Order {
    /// Write these octets before any route.
    Control(Bytes),
    /// Write an image and then the journal it belongs to.
    Begin(Box<Stream>),
    /// Write a family's image once more, and its journal again from here if that was written already.
    /// RFC 2918.
    Again(Family, Arc<Segment>, Cursor),
    /// Write this End-of-RIB once the family's journal was written up to here.
    End(Family, Cursor, Bytes),
    /// Write what waits of control, then close.
    Close,
}

/// One family's routes on their way to one peer.
pub struct Stream {
    /// Which family.
    pub family: Family,
    /// Whom the frames go to: its own are left out.
    pub peer: PeerId,
    /// The image, written first.
    pub image: Arc<Segment>,
    /// What follows.
    pub feed: Arc<Feed>,
    /// From here.
    pub cursor: Cursor,
    /// Written once the journal was written up to here: everything that there was at the join.
    pub end_of_rib: Option<(Cursor, Bytes)>,
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
    /// The connection cannot be written to any more.
    Failed(std::io::Error),
}

/// Writes until closed. Events are bounded: a peer's task that does not listen holds its own writer up.
pub async fn write(
    mut socket: OwnedWriteHalf,
    mut orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<Event>,
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
        let lagged = writer.fill(&mut chunk);
        if let Some((family, revision)) = lagged
            && events.send(Event::Lagged(family, revision)).await.is_err()
        {
            return;
        }
        if chunk.octets.is_empty() {
            if lagged.is_some() {
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

struct Active {
    stream: Stream,
    bell: watch::Receiver<()>,
    segment: Option<Arc<Segment>>,
    next_frame: usize,
    /// An image to be written between two segments, and where its journal goes on.
    again: Option<(Arc<Segment>, Cursor)>,
    repeating: bool,
    revision: u64,
    lagged: bool,
}

impl Writer {
    fn take(&mut self, order: Order) {
        match order {
            Order::Control(octets) => self.control.push_back(octets),
            Order::Begin(stream) => self.begin(*stream),
            Order::Again(family, image, cursor) => {
                if let Some(active) = self.stream(family) {
                    active.again = Some((image, cursor));
                }
            }
            Order::End(family, complete, octets) => {
                if let Some(active) = self.stream(family) {
                    active.stream.end_of_rib = Some((complete, octets));
                }
            }
            Order::Close => {
                self.closing = true;
                self.streams.clear();
            }
        }
    }

    /// Begins a family, or puts a member that fell behind on the journal again.
    fn begin(&mut self, mut stream: Stream) {
        let family = stream.family;
        match self.stream(family) {
            Some(old) => {
                stream.end_of_rib = stream.end_of_rib.or_else(|| old.stream.end_of_rib.take());
                let again = old.again.take();
                *old = Active::new(stream);
                old.again = again;
            }
            None => self.streams.push(Active::new(stream)),
        }
    }

    fn stream(&mut self, family: Family) -> Option<&mut Active> {
        self.streams
            .iter_mut()
            .find(|active| active.stream.family == family)
    }

    /// Collects what can be written now; returns a stream that fell off its journal, once.
    fn fill(&mut self, chunk: &mut Chunk) -> Option<(Family, u64)> {
        chunk.octets.extend(self.control.drain(..));
        let mut room = CHUNK_OCTETS;
        for active in &mut self.streams {
            if active.fill(chunk, &mut room) {
                return Some((active.stream.family, active.revision));
            }
        }
        None
    }

    /// Waits for an order, or for a journal to grow (`Some(None)`).
    async fn wait(&mut self, orders: &mut mpsc::Receiver<Order>) -> Option<Option<Order>> {
        let bells: Vec<_> = self
            .streams
            .iter_mut()
            .filter(|active| !active.lagged)
            .map(|active| Box::pin(active.bell.changed()))
            .collect();
        if bells.is_empty() {
            return orders.recv().await.map(Some);
        }
        tokio::select! {
            order = orders.recv() => order.map(Some),
            _ = select_all(bells) => Some(None),
        }
    }
}

impl Active {
    fn new(stream: Stream) -> Self {
        Self {
            bell: stream.feed.bell(),
            segment: Some(Arc::clone(&stream.image)),
            next_frame: 0,
            again: None,
            repeating: false,
            revision: 0,
            lagged: false,
            stream,
        }
    }

    /// True when it has just fallen off its journal.
    fn fill(&mut self, chunk: &mut Chunk, room: &mut usize) -> bool {
        while *room > 0 && chunk.octets.len() < CHUNK_SLICES && !self.lagged {
            let Some(segment) = &self.segment else {
                match self.next(chunk) {
                    Next::Segment => continue,
                    Next::Nothing => return false,
                    Next::Lagged => return true,
                }
            };
            let Some(frame) = segment.frames.get(self.next_frame) else {
                if !std::mem::take(&mut self.repeating) {
                    self.revision = segment.revision;
                }
                self.segment = None;
                continue;
            };
            self.next_frame += 1;
            if frame.audience.includes(self.stream.peer) {
                *room = room.saturating_sub(frame.octets.len());
                chunk.octets.push(frame.octets.clone());
            }
        }
        false
    }

    /// Between two segments.
    fn next(&mut self, chunk: &mut Chunk) -> Next {
        self.next_frame = 0;
        if let Some((image, cursor)) = self.again.take() {
            // The image may be older than what was written since, so that is written again; going
            // forward instead would skip withdrawals that were not written yet. A peer that falls
            // behind now catches up from the image on. Revision 0 would mean that it knows nothing.
            self.stream.cursor = self.stream.cursor.min(cursor);
            self.revision = self.revision.min(image.revision.max(1));
            self.segment = Some(image);
            self.repeating = true;
            return Next::Segment;
        }
        let cursor = self.stream.cursor;
        if let Some((_, octets)) = self.stream.end_of_rib.take_if(|end| cursor >= end.0) {
            chunk.octets.push(octets);
        }
        // Marked before it is read: what is pushed after this rings again.
        self.bell.mark_unchanged();
        match self.stream.feed.read(&mut self.stream.cursor) {
            Read::Segment(segment) => {
                self.segment = Some(segment);
                Next::Segment
            }
            Read::Empty => Next::Nothing,
            Read::Lagged => {
                self.lagged = true;
                Next::Lagged
            }
        }
    }
}

/// What follows a segment.
enum Next {
    Segment,
    Nothing,
    Lagged,
}

async fn send(
    socket: &mut OwnedWriteHalf,
    octets: &[Bytes],
    events: &mpsc::Sender<Event>,
) -> std::io::Result<()> {
    let mut storage: Vec<IoSlice<'_>> = octets.iter().map(|octets| IoSlice::new(octets)).collect();
    let mut slices = &mut storage[..];
    let mut blocked = false;
    while !slices.is_empty() {
        let Ok(written) = tokio::time::timeout(BLOCKED_AFTER, socket.write_vectored(slices)).await
        else {
            if events.is_closed() {
                // Nobody waits for these octets any more.
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            if !blocked {
                blocked = true;
                let _ = events.send(Event::Blocked).await;
            }
            continue;
        };
        let written = written?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
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
/// A peer that takes nothing for this long is blocked; RFC 9687's timer starts.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weft_bgp::peer::RouterId;
    use weft_bgp::update_group::{Audience, Concerns, Frame};

    use super::*;

    const FAMILY: Family = Family::L2VPN_EVPN;
    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };

    fn segment(revision: u64, text: &'static str) -> Arc<Segment> {
        let octets = Bytes::from_static(text.as_bytes());
        let octets_len = octets.len();
        let audience = Audience::All;
        let frame = Frame {
            octets,
            audience,
            concerns: Concerns::All,
            routes: 1,
            withdrawals: 0,
        };
        Arc::new(Segment {
            revision,
            frames: vec![frame],
            octets_len,
        })
    }

    fn begun(feed: &Arc<Feed>, image: Arc<Segment>, end: Option<Cursor>) -> Writer {
        let mut writer = Writer {
            control: VecDeque::new(),
            streams: Vec::new(),
            closing: false,
        };
        writer.take(Order::Begin(Box::new(Stream {
            family: FAMILY,
            peer: PEER,
            image,
            feed: Arc::clone(feed),
            cursor: feed.end(),
            end_of_rib: end.map(|end| (end, Bytes::from_static(b"end"))),
        })));
        writer
    }

    fn written(writer: &mut Writer) -> Vec<Bytes> {
        let mut chunk = Chunk::default();
        assert_eq!(writer.fill(&mut chunk), None);
        chunk.octets
    }

    #[test]
    fn a_refresh_repeats_what_came_after_its_image() {
        let feed = Arc::new(Feed::new(1 << 16));
        let image = segment(1, "image");
        let cursor = feed.end();
        let mut writer = begun(&feed, Arc::clone(&image), None);
        feed.push(segment(2, "withdrawal"));
        assert_eq!(written(&mut writer), ["image", "withdrawal"]);
        writer.take(Order::Again(FAMILY, image, cursor));
        assert_eq!(written(&mut writer), ["image", "withdrawal"]);
        assert_eq!(writer.streams[0].revision, 2);
    }

    #[test]
    fn a_refresh_skips_nothing_that_was_not_written() {
        let feed = Arc::new(Feed::new(1 << 16));
        let mut writer = begun(&feed, segment(1, "image"), None);
        assert_eq!(written(&mut writer), ["image"]);
        feed.push(segment(2, "withdrawal"));
        writer.take(Order::Again(FAMILY, segment(2, "newer image"), feed.end()));
        assert_eq!(written(&mut writer), ["newer image", "withdrawal"]);
    }

    #[test]
    fn end_of_rib_waits_for_what_there_was_at_the_join() {
        let feed = Arc::new(Feed::new(1 << 16));
        let first = feed.end();
        feed.push(segment(2, "known at the join"));
        let complete = feed.end();
        let mut writer = begun(&feed, segment(1, "older image"), Some(complete));
        writer.streams[0].stream.cursor = first;
        feed.push(segment(3, "news"));
        let expected = ["older image", "known at the join", "end", "news"];
        assert_eq!(written(&mut writer), expected);
    }
}
