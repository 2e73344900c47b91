//! What a group has said lately: a bounded sequence of segments that every member reads from its own cursor.
//!
//! It does not know its readers. A reader that falls off the old end is told so and catches up from the tables.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Segment;

/// Segments, oldest first. Full: the oldest are dropped, and whoever has not read them is `Lagged`. The newest is always
/// kept, so the bound is `limit_octets` plus one segment.
#[derive(Debug)]
pub struct Journal {
    segments: VecDeque<Arc<Segment>>,
    /// Number of the first segment that is kept.
    first: u64,
    octets: usize,
    limit_octets: usize,
}

/// The number of the segment to be read next.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cursor(u64);

/// What a cursor found.
#[derive(Clone, Debug)]
pub enum Read {
    /// The next segment; the cursor has moved past it.
    Segment(Arc<Segment>),
    /// Everything has been read.
    Empty,
    /// Segments that were never read are gone. Take an image since the last revision read, then read from `end()`.
    Lagged,
}

impl Journal {
    /// An empty journal that keeps up to `limit_octets` of frames.
    #[must_use]
    pub fn new(limit_octets: usize) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            octets: 0,
            limit_octets,
        }
    }

    /// Appends a segment. One without frames is appended too: it carries its revision to the readers.
    pub fn push(&mut self, segment: Arc<Segment>) {
        self.octets += weight(&segment);
        self.segments.push_back(segment);
        while self.octets > self.limit_octets || self.segments.len() > LIMIT_SEGMENTS {
            if self.segments.len() == 1 {
                break;
            }
            if let Some(oldest) = self.segments.pop_front() {
                self.octets -= weight(&oldest);
                self.first += 1;
            }
        }
    }

    /// Where the next segment will be: a joiner takes this cursor and an image at the same moment.
    #[must_use]
    pub fn end(&self) -> Cursor {
        Cursor(self.first + self.segments.len() as u64)
    }

    /// The segment at the cursor, which moves past it.
    pub fn read(&self, cursor: &mut Cursor) -> Read {
        let Some(ahead) = cursor.0.checked_sub(self.first) else {
            return Read::Lagged;
        };
        let segment = usize::try_from(ahead)
            .ok()
            .and_then(|i| self.segments.get(i));
        let Some(segment) = segment else {
            return Read::Empty;
        };
        cursor.0 += 1;
        Read::Segment(Arc::clone(segment))
    }

    /// Octets kept, bookkeeping included.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.octets
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT_OCTETS)
    }
}

/// A segment's share of the bound. The bookkeeping counts, so that tiny frames cannot exceed it unseen.
fn weight(segment: &Segment) -> usize {
    segment.octets_len + size_of::<Segment>() + segment.frames.len() * size_of::<super::Frame>()
}

/// Four whole tables of 400,000 routes. A reader that is further behind is better served by the tables, which hold
/// each destination once.
pub const DEFAULT_LIMIT_OCTETS: usize = 64 << 20;

/// About a minute of segments at one per millisecond: keeps the queue itself small when segments are tiny.
const LIMIT_SEGMENTS: usize = 65_536;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::{Audience, Concerns, Frame};
    use super::*;

    fn segment(revision: u64, octets_len: usize) -> Arc<Segment> {
        Arc::new(Segment {
            revision,
            frames: vec![Frame {
                octets: Bytes::from(vec![0; octets_len]),
                audience: Audience::All,
                concerns: Concerns::All,
                routes: 1,
                withdrawals: 0,
            }],
            octets_len,
        })
    }

    fn revision(read: &Read) -> Option<u64> {
        match read {
            Read::Segment(segment) => Some(segment.revision),
            Read::Empty | Read::Lagged => None,
        }
    }

    #[test]
    fn every_reader_reads_every_segment_once() {
        let mut journal = Journal::default();
        let mut early = journal.end();
        journal.push(segment(1, 10));
        let mut late = journal.end();
        journal.push(segment(2, 10));
        assert_eq!(revision(&journal.read(&mut early)), Some(1));
        assert_eq!(revision(&journal.read(&mut early)), Some(2));
        assert!(matches!(journal.read(&mut early), Read::Empty));
        assert_eq!(revision(&journal.read(&mut late)), Some(2));
        assert_eq!(early, late);
    }

    #[test]
    fn a_reader_that_falls_off_is_told_so() {
        let mut journal = Journal::new(10_000);
        let mut slow = journal.end();
        for revision in 1..=100 {
            journal.push(segment(revision, 1000));
            assert!(journal.octets() <= 10_000);
        }
        assert!(matches!(journal.read(&mut slow), Read::Lagged));
        let mut again = journal.end();
        assert!(matches!(journal.read(&mut again), Read::Empty));
    }

    #[test]
    fn a_segment_larger_than_the_bound_can_still_be_read() {
        let mut journal = Journal::new(100);
        let mut cursor = journal.end();
        journal.push(segment(1, 1000));
        assert_eq!(revision(&journal.read(&mut cursor)), Some(1));
    }
}
