//! Octets that wait to be written: short ones copied together, long ones shared. It refuses to know where
//! a message ends and how much is too much.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Oldest first, none empty.
    chunks: VecDeque<Bytes>,
    /// Behind all chunks.
    tail: BytesMut,
    len: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn write(&mut self, octets: &[u8]) {
        self.append(|tail| tail.extend_from_slice(octets));
    }

    /// `write` appends to what it gets, and takes nothing away.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut BytesMut)) {
        if self.tail.len() >= CHUNK {
            self.close_tail();
        }
        if self.tail.capacity() == 0 {
            self.tail.reserve(CHUNK);
        }
        let before = self.tail.len();
        write(&mut self.tail);
        self.len = self
            .len
            .saturating_add(self.tail.len().saturating_sub(before));
    }

    /// Appends octets that others hold too; not copied if that costs more than a slice of its own.
    pub(super) fn share(&mut self, octets: &Bytes) {
        if octets.len() < SHARED_MIN {
            self.write(octets);
            return;
        }
        self.close_tail();
        self.chunks.push_back(octets.clone());
        self.len = self.len.saturating_add(octets.len());
    }

    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = Some(&self.tail[..]).filter(|tail| !tail.is_empty());
        let waiting = self.chunks.iter().map(|chunk| &chunk[..]).chain(tail);
        let mut filled = 0;
        for (slice, octets) in slices.iter_mut().zip(waiting) {
            *slice = IoSlice::new(octets);
            filled += 1;
        }
        filled
    }

    /// Forgets the oldest octets; no more than there are.
    pub(super) fn advance(&mut self, octets: usize) {
        let mut octets = octets.min(self.len);
        self.len -= octets;
        while let Some(front) = self.chunks.front_mut() {
            if octets < front.len() {
                front.advance(octets);
                return;
            }
            octets -= front.len();
            self.chunks.pop_front();
        }
        self.tail.advance(octets);
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
    }
}

/// Octets per buffer: a few hundred messages.
const CHUNK: usize = 64 * 1024;
/// From here on a slice of its own is cheaper than a copy.
const SHARED_MIN: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn all(queue: &Queue) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 64];
        let filled = queue.slices(&mut slices);
        let octets = slices[..filled].iter().flat_map(|slice| slice.iter());
        octets.copied().collect()
    }

    #[test]
    fn octets_come_out_in_order_however_they_are_cut() {
        let long = Bytes::from(vec![7; SHARED_MIN]);
        for step in [1, 3, 1_000, 1_025, 5_000] {
            let mut queue = Queue::default();
            let mut expected = Vec::new();
            for turn in 0..3_u8 {
                queue.write(&[turn, 1, 2]);
                queue.share(&long);
                queue.share(&Bytes::from_static(&[9]));
                expected.extend_from_slice(&[turn, 1, 2]);
                expected.extend_from_slice(&long);
                expected.push(9);
            }
            let mut sent = Vec::new();
            while !queue.is_empty() {
                let waiting = all(&queue);
                assert_eq!(waiting.len(), queue.len());
                let step = step.min(waiting.len());
                sent.extend_from_slice(&waiting[..step]);
                queue.advance(step);
            }
            assert_eq!(sent, expected);
            queue.advance(1);
            assert!(all(&queue).is_empty());
        }
    }

    #[test]
    fn long_octets_are_shared() {
        let long = Bytes::from(vec![7; SHARED_MIN]);
        let mut queue = Queue::default();
        queue.write(&[1]);
        queue.share(&long);
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(queue.slices(&mut slices), 2);
        assert_eq!(slices[1].as_ptr(), long.as_ptr());
    }
}
