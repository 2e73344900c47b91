//! Bounded reading and writing of octets for the entries, snapshots and envelopes of this crate.
//! Knows no format: only lengths.

use bytes::{BufMut, Bytes, BytesMut};

/// A cursor that hands out slices of shared octets and never reads past their end.
pub(crate) struct Reader {
    rest: Bytes,
}

impl Reader {
    pub(crate) fn new(octets: Bytes) -> Self {
        Self { rest: octets }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(self) -> Bytes {
        self.rest
    }

    /// The next `len` octets, or nothing when there are fewer.
    pub(crate) fn take(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.rest.len()).then(|| self.rest.split_to(len))
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A field that is preceded by its length as 32 bits.
    pub(crate) fn field(&mut self) -> Option<Bytes> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }

    /// A count of things of at least `octets_min` octets each: a count that could not fit in what
    /// is left is refused, so nothing is allocated from it.
    pub(crate) fn count(&mut self, octets_min: usize) -> Option<usize> {
        let count = usize::try_from(self.u32()?).ok()?;
        (count.checked_mul(octets_min)? <= self.rest.len()).then_some(count)
    }

    /// Exactly `N` octets.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array: [u8; N] = self.rest.get(..N)?.try_into().ok()?;
        let _ = self.rest.split_to(N);
        Some(array)
    }
}

/// Writes a field preceded by its length as 32 bits.
pub(crate) fn put_field(out: &mut BytesMut, octets: &[u8]) {
    put_len(out, octets.len());
    out.put_slice(octets);
}

/// Writes a length or a count as 32 bits.
pub(crate) fn put_len(out: &mut BytesMut, len: usize) {
    out.put_u32(u32::try_from(len).expect("lengths are bounded well below 4 GiB"));
}
