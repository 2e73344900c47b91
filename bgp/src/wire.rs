//! Reading and writing octets within bounds. The only file that names nom. Knows no BGP.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::{BufMut, Bytes, BytesMut};
use nom::Parser;
use nom::bytes::complete::take;
use nom::number::complete::{be_u8, be_u16, be_u24, be_u32};

use crate::error::{DecodeError, Fault};

type Leaf<'a> = nom::error::Error<&'a [u8]>;

/// A bounded cursor. A read beyond its end is the fault it was made with, at the offset where the
/// missing octets should have been; nothing is consumed then.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    offset: u32,
    short: Fault,
}

impl<'a> Reader<'a> {
    /// Reads `octets`, the first of which stands `offset` octets after the first octet of the
    /// marker (or of whatever offsets are to be counted from). `short` is what running out of
    /// octets means here.
    #[must_use]
    pub fn new(octets: &'a [u8], offset: u32, short: Fault) -> Self {
        Self {
            rest: octets,
            offset,
            short,
        }
    }

    /// The same cursor, for which running out of octets means `short`.
    #[must_use]
    pub fn meaning(self, short: Fault) -> Self {
        Self { short, ..self }
    }

    /// Octets not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether every octet has been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Offset of the next octet.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// The octets not read yet, without reading them.
    #[must_use]
    pub fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// `fault`, found at the next octet.
    #[must_use]
    pub fn error(&self, fault: Fault) -> DecodeError {
        DecodeError {
            fault,
            offset: self.offset,
        }
    }

    /// One octet.
    ///
    /// # Errors
    /// The fault of this reader when there are too few octets.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        let (rest, value) = be_u8::<_, Leaf<'a>>(self.rest).map_err(|_| self.ran_out())?;
        self.advance(rest, 1);
        Ok(value)
    }

    /// Two octets in network order.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        let (rest, value) = be_u16::<_, Leaf<'a>>(self.rest).map_err(|_| self.ran_out())?;
        self.advance(rest, 2);
        Ok(value)
    }

    /// Three octets in network order.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn u24(&mut self) -> Result<u32, DecodeError> {
        let (rest, value) = be_u24::<_, Leaf<'a>>(self.rest).map_err(|_| self.ran_out())?;
        self.advance(rest, 3);
        Ok(value)
    }

    /// Four octets in network order.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        let (rest, value) = be_u32::<_, Leaf<'a>>(self.rest).map_err(|_| self.ran_out())?;
        self.advance(rest, 4);
        Ok(value)
    }

    /// The next `count` octets, not copied.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (rest, octets) = take::<_, _, Leaf<'a>>(count)
            .parse(self.rest)
            .map_err(|_| self.ran_out())?;
        self.advance(rest, count);
        Ok(octets)
    }

    /// The next `N` octets as an array.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (octets, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| self.ran_out())?;
        self.advance(rest, N);
        Ok(*octets)
    }

    /// A reader over the next `count` octets, which this one skips. Running out means the same.
    ///
    /// # Errors
    /// As [`Reader::u8`].
    pub fn sub(&mut self, count: usize) -> Result<Self, DecodeError> {
        let (offset, short) = (self.offset, self.short);
        Ok(Self {
            rest: self.take(count)?,
            offset,
            short,
        })
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let octets = self.rest;
        self.advance(&[], octets.len());
        octets
    }

    fn advance(&mut self, rest: &'a [u8], count: usize) {
        self.rest = rest;
        // A message is at most 65535 octets long; longer inputs only come from storage, where the
        // offset is for reading by people.
        self.offset = self
            .offset
            .saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn ran_out(&self) -> DecodeError {
        self.error(self.short)
    }
}

/// Appends octets to a buffer, in network order.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
}

/// The place of a length that is not known yet; see [`Writer::reserve_u16`].
#[derive(Debug)]
#[must_use]
pub struct Reserved {
    at: usize,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with room for `octets`.
    #[must_use]
    pub fn with_capacity(octets: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(octets),
        }
    }

    /// Goes on after what `buffer` holds.
    #[must_use]
    pub fn append_to(buffer: BytesMut) -> Self {
        Self { buffer }
    }

    /// Octets written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// What was written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer
    }

    /// Forgets all that was written after the first `len` octets.
    pub fn truncate(&mut self, len: usize) {
        self.buffer.truncate(len);
    }

    /// Appends one octet.
    pub fn u8(&mut self, value: u8) {
        self.buffer.put_u8(value);
    }

    /// Appends two octets.
    pub fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    /// Appends the lower three octets of `value`.
    pub fn u24(&mut self, value: u32) {
        let [_, octets @ ..] = value.to_be_bytes();
        self.buffer.put_slice(&octets);
    }

    /// Appends four octets.
    pub fn u32(&mut self, value: u32) {
        self.buffer.put_u32(value);
    }

    /// Appends octets as they are.
    pub fn slice(&mut self, octets: &[u8]) {
        self.buffer.put_slice(octets);
    }

    /// Leaves room for a two-octet length of what follows; [`Writer::patch_u16`] fills it in.
    pub fn reserve_u16(&mut self) -> Reserved {
        let at = self.buffer.len();
        self.u16(0);
        Reserved { at }
    }

    /// Leaves room for a one-octet length of what follows; [`Writer::patch_u8`] fills it in.
    pub fn reserve_u8(&mut self) -> Reserved {
        let at = self.buffer.len();
        self.u8(0);
        Reserved { at }
    }

    /// Writes into `place` how many octets were written after it.
    ///
    /// # Panics
    /// When they are more than 65535: packing has to stop earlier, it knows the largest message.
    pub fn patch_u16(&mut self, place: Reserved) {
        let end = place.at.saturating_add(2);
        let length = self.buffer.len().saturating_sub(end);
        let length = u16::try_from(length).expect("a field fits a two-octet length");
        self.overwrite(place.at, &length.to_be_bytes());
    }

    /// Writes into `place` how many octets were written after it.
    ///
    /// # Panics
    /// When they are more than 255.
    pub fn patch_u8(&mut self, place: Reserved) {
        let end = place.at.saturating_add(1);
        let length = self.buffer.len().saturating_sub(end);
        let length = u8::try_from(length).expect("a field fits a one-octet length");
        self.overwrite(place.at, &[length]);
    }

    /// Replaces octets written before, from `at` on.
    ///
    /// # Panics
    /// When they reach beyond what was written.
    pub fn overwrite(&mut self, at: usize, octets: &[u8]) {
        let end = at.saturating_add(octets.len());
        self.buffer
            .get_mut(at..end)
            .expect("only what was written is overwritten")
            .copy_from_slice(octets);
    }

    /// What was written, shared from now on.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.buffer.freeze()
    }

    /// What was written so far, shared from now on; the writer goes on empty, with the capacity
    /// that is left.
    pub fn take(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Fault = Fault::UpdateLength;

    #[test]
    fn a_read_beyond_the_end_consumes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3], 19, SHORT);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(
            reader.u32(),
            Err(DecodeError {
                fault: SHORT,
                offset: 20
            })
        );
        assert_eq!(reader.u16(), Ok(0x0203));
        assert!(reader.is_empty());
        assert_eq!(reader.offset(), 22);
    }

    #[test]
    fn a_sub_reader_ends_where_its_field_ends() {
        let mut reader = Reader::new(&[1, 2, 3, 4], 0, SHORT);
        let mut sub = reader.sub(2).unwrap();
        assert_eq!(sub.u16(), Ok(0x0102));
        assert_eq!(
            sub.u8(),
            Err(DecodeError {
                fault: SHORT,
                offset: 2
            })
        );
        assert_eq!(reader.u16(), Ok(0x0304));
    }

    #[test]
    fn lengths_are_patched_in() {
        let mut writer = Writer::new();
        let outer = writer.reserve_u16();
        let inner = writer.reserve_u8();
        writer.u24(0x01_02_03);
        writer.patch_u8(inner);
        writer.patch_u16(outer);
        assert_eq!(writer.finish().as_ref(), [0, 4, 3, 1, 2, 3]);
    }
}
