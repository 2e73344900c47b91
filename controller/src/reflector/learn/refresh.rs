//! The peer says its routes again: which of them it has not said yet. RFC 7313 §4. It refuses to know
//! clocks: how long an answer may take is for the one who waits.

use std::collections::BTreeMap;

use bytes::Bytes;
use foldhash::HashSet;
use weft_bgp::family::Family;

/// The answers that are under way.
#[derive(Debug, Default)]
pub struct Refresh {
    unsaid: BTreeMap<Family, HashSet<Bytes>>,
}

impl Refresh {
    /// Begin-of-Route-Refresh: all of `keys` is to be said again. A second one starts over.
    pub fn begin(&mut self, family: Family, keys: impl Iterator<Item = Bytes>) {
        self.unsaid.insert(family, keys.collect());
    }

    /// A route was said, or is gone anyway.
    pub fn said(&mut self, family: Family, key: &Bytes) {
        if let Some(unsaid) = self.unsaid.get_mut(&family) {
            unsaid.remove(key);
        }
    }

    /// End-of-Route-Refresh, or nobody waits any longer: what was not said, in order. Nothing without a
    /// begin, RFC 7313 §4.
    pub fn end(&mut self, family: Family) -> Vec<Bytes> {
        let mut gone: Vec<_> = self.unsaid.remove(&family).into_iter().flatten().collect();
        gone.sort_unstable();
        gone
    }
}
