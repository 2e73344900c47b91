//! One family on its way through a writer: an image, then a journal, and what may come between two segments of it.
//! Knows no socket and nothing of what a frame says.
//!
//! ```text
//! image -> journal -> ... up to `until` -> segment of the turn -> journal of the other feed -> ...
//!             ^
//!             between two segments: BoRR, image again, and the journal from there once more, EoRR
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::update_group::journal::{Cursor, Read};
use weft_bgp::update_group::{Frame, Segment};

use super::{CHUNK_SLICES, HOLD_MAX, Own, Repeat, Stream, Turning};

/// A stream and how far it is.
pub(super) struct Active {
    stream: Stream,
    bell: watch::Receiver<()>,
    /// The preface, until it was written first.
    opening: Option<Bytes>,
    segment: Option<Arc<Segment>>,
    next_frame: usize,
    /// An image to be written between two segments.
    again: Option<Repeat>,
    /// What was said again is complete once the journal was written up to here; then EoRR, if it has marks.
    repeated: Option<(Cursor, Option<Bytes>)>,
    repeating: bool,
    /// Where the stream goes next; the first begins where this feed's `until` is reached.
    turns: VecDeque<Turn>,
    /// Since when the gate is closed, as far as that was noticed.
    held_since: Option<Instant>,
    revision: u64,
    lagged: bool,
}

/// A turn, and what was ordered of the life after it.
struct Turn {
    to: Turning,
    again: Option<Repeat>,
    end_of_rib: Option<(Cursor, Bytes)>,
}

/// Why a stream stops.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It fell off its journal; the peer knows everything up to this revision.
    Lagged(u64),
    /// It fell off its journal with a turn ahead.
    Lost,
}

/// What follows a segment.
enum Next {
    Segment,
    Nothing,
    Trouble(Trouble),
}

impl Active {
    pub(super) fn new(mut stream: Stream) -> Self {
        Self {
            bell: stream.feed.bell(),
            opening: stream.preface.take(),
            segment: Some(Arc::clone(&stream.image)),
            next_frame: 0,
            again: None,
            repeated: None,
            repeating: false,
            turns: VecDeque::new(),
            held_since: None,
            revision: 0,
            lagged: false,
            stream,
        }
    }

    /// A member that fell behind is on a journal again. It is still to be told that all was told.
    ///
    /// With a turn ahead it is lost: what it caught up with is what it would have been told after the turn, and says
    /// nothing of what the turn would have told it of older routes.
    pub(super) fn begin_again(&mut self, mut stream: Stream) {
        if !self.turns.is_empty() {
            return;
        }
        stream.end_of_rib = stream.end_of_rib.or_else(|| self.stream.end_of_rib.take());
        stream.own = stream.own.or_else(|| self.stream.own.take());
        let (opening, again) = (self.opening.take(), self.again.take());
        // EoRR after an image that was left behind would lie, but after this one nothing is missing.
        let complete = stream.cursor;
        let repeated = self.repeated.take().map(|(_, octets)| (complete, octets));
        *self = Self::new(stream);
        (self.opening, self.again, self.repeated) = (opening, again, repeated);
    }

    pub(super) fn family(&self) -> Family {
        self.stream.family
    }

    /// Ring when there is more to read, or to say ourselves.
    pub(super) fn bells(&mut self) -> impl Iterator<Item = &mut watch::Receiver<()>> {
        let read = (!self.lagged).then_some(&mut self.bell);
        let own = self.stream.own.as_mut().map(Own::bell);
        read.into_iter().chain(own)
    }

    /// Whether it waits for its gate to open.
    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    pub(super) fn repeat(&mut self, repeat: Repeat) {
        match self.turns.back_mut() {
            Some(turn) => turn.again = Some(repeat),
            None => self.again = Some(repeat),
        }
    }

    pub(super) fn turn(&mut self, to: Turning) {
        self.turns.push_back(Turn {
            to,
            again: None,
            end_of_rib: None,
        });
    }

    pub(super) fn end(&mut self, complete: Cursor, octets: Bytes) {
        let end = Some((complete, octets));
        match self.turns.back_mut() {
            Some(turn) => turn.end_of_rib = end,
            None => self.stream.end_of_rib = end,
        }
    }

    /// Collects octets; says so when it has just fallen off its journal.
    pub(super) fn fill(
        &mut self,
        octets: &mut Vec<Bytes>,
        room: &mut usize,
        clock: impl Fn() -> Instant,
    ) -> Option<Trouble> {
        if self.lagged && !self.turns.is_empty() {
            // The turn came when the news of the lag was under way already.
            self.turns.clear();
            return Some(Trouble::Lost);
        }
        octets.extend(self.opening.take());
        octets.extend(self.stream.own.iter_mut().flat_map(Own::news));
        while *room > 0 && octets.len() < CHUNK_SLICES && !self.lagged {
            let Some(segment) = &self.segment else {
                match self.next(octets, &clock) {
                    Next::Segment => continue,
                    Next::Nothing => return None,
                    Next::Trouble(trouble) => return Some(trouble),
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
            if self.stream.takes(frame) {
                *room = room.saturating_sub(frame.octets.len());
                octets.push(frame.octets.clone());
            }
        }
        None
    }

    /// Between two segments.
    fn next(&mut self, octets: &mut Vec<Bytes>, clock: impl Fn() -> Instant) -> Next {
        self.next_frame = 0;
        let cursor = self.stream.cursor;
        let due = |end: &mut (Cursor, Bytes)| cursor >= end.0;
        octets.extend(self.stream.end_of_rib.take_if(due).map(|(_, end)| end));
        if self.repeated.as_ref().is_some_and(|(at, _)| cursor >= *at) {
            octets.extend(self.repeated.take().and_then(|(_, end)| end));
        }
        // One after the other: a peer that asks without end would never hear of what is gone.
        //
        // RFC 7313 §4: no refresh begins before the End-of-RIB of the first table, or the peer would drop
        // what it kept since a restart.
        if self.repeated.is_none()
            && self.stream.end_of_rib.is_none()
            && let Some(again) = self.again.take()
        {
            self.begin_repeat(again, octets);
            return Next::Segment;
        }
        if let Some(turn) = self.turns.pop_front_if(|turn| cursor >= turn.to.until) {
            if cursor > turn.to.until && !Arc::ptr_eq(&self.stream.feed, &turn.to.feed) {
                // Held for too long, and told in the old way what the segment of the turn does not know of:
                // nobody would ever withdraw it in the new way.
                self.turns.clear();
                self.lagged = true;
                return Next::Trouble(Trouble::Lost);
            }
            self.begin_turn(turn);
            return Next::Segment;
        }
        // Marked before it is read: what is pushed after this rings again.
        self.bell.mark_unchanged();
        match self.read(clock) {
            Read::Segment(segment) => {
                self.segment = Some(segment);
                Next::Segment
            }
            Read::Empty => Next::Nothing,
            Read::Lagged => {
                self.lagged = true;
                match self.turns.is_empty() {
                    true => Next::Trouble(Trouble::Lagged(self.revision)),
                    false => {
                        self.turns.clear();
                        Next::Trouble(Trouble::Lost)
                    }
                }
            }
        }
    }

    /// The next segment of the feed, unless it would be told in the old way while a turn is worked out that does not
    /// know of it.
    fn read(&mut self, clock: impl Fn() -> Instant) -> Read {
        let Stream {
            feed, gate, cursor, ..
        } = &mut self.stream;
        if let Some(read) = feed.read_through(gate, cursor) {
            self.held_since = None;
            return read;
        }
        let now = clock();
        let since = *self.held_since.get_or_insert(now);
        match now < since + HOLD_MAX {
            true => Read::Empty,
            false => feed.read(cursor),
        }
    }

    /// The image may be older than what was written since, so that is written again; going forward instead
    /// would skip withdrawals that were not written yet. A peer that falls behind now catches up from the
    /// image on. Revision 0 would mean that it knows nothing.
    fn begin_repeat(&mut self, again: Repeat, octets: &mut Vec<Bytes>) {
        let written = self.stream.cursor;
        self.stream.cursor = written.min(again.cursor);
        self.revision = self.revision.min(again.image.revision.max(1));
        self.segment = Some(again.image);
        self.repeating = true;
        let (begin, end) = again.marks.unzip();
        // Not before all that was written once was written again: EoRR drops what is missing.
        self.repeated = Some((again.complete.max(written), end));
        octets.extend(begin);
        octets.extend(again.preface);
        octets.extend(self.stream.own.iter_mut().flat_map(Own::again));
    }

    fn begin_turn(&mut self, turn: Turn) {
        let Turning {
            until: _,
            segment,
            feed,
            cursor,
            interest,
            ticket: _,
        } = turn.to;
        self.bell = feed.bell();
        self.held_since = None;
        self.stream.feed = feed;
        self.stream.cursor = cursor;
        self.stream.interest = interest;
        self.segment = Some(segment);
        // What was owed in the old life was due before its end.
        self.again = turn.again;
        self.stream.end_of_rib = turn.end_of_rib;
    }
}

impl Stream {
    /// Whether the frame is for this peer, and wanted.
    fn takes(&self, frame: &Frame) -> bool {
        if !frame.audience.includes(self.peer) {
            return false;
        }
        if matches!(self.interest, Interest::Everything) {
            return frame.concerns.includes(&Interest::Everything);
        }
        let wanted = frame.concerns.includes(&self.interest);
        if !wanted && frame.routes > 0 {
            self.saved.add(frame.routes, frame.octets.len());
        }
        wanted
    }
}
