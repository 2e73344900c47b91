//! The ids of the agent's next-hop objects in the kernel. Knows numbers only.

use crate::entry::Key;

/// The part of the kernel's next-hop ids that is ours: the lower half for next hops, then a quarter
/// for groups, and a quarter for subsets of groups. The client's number is the offset of the first
/// two, so that a dump says which entry an object is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    base: u32,
}

impl Ids {
    /// The range that begins at `base` and has 2^24 ids.
    ///
    /// # Errors
    ///
    /// When the range does not fit into 32 bits, or begins at zero.
    pub fn new(base: u32) -> Result<Self, String> {
        if base == 0 || base.checked_add(2 * HALF - 1).is_none() {
            return Err(format!("{base:#x} leaves no room for {:#x} ids", 2 * HALF));
        }
        Ok(Self { base })
    }

    /// The kernel's id of an entry; `None` for a prefix or a number that does not fit.
    #[must_use]
    pub fn id(self, key: Key) -> Option<u32> {
        let below = |number: u64, end| u32::try_from(number).ok().filter(|number| *number < end);
        match key {
            Key::NextHop(index) => Some(self.base + below(index, HALF)?),
            Key::Group(id) => Some(self.base + HALF + below(id, QUARTER)?),
            Key::Prefix(_) | Key::Policy(_) => None,
        }
    }

    /// The entry of a kernel's id, if it is in the range.
    #[must_use]
    pub fn key(self, id: u32) -> Option<Key> {
        let offset = id.checked_sub(self.base)?;
        match offset {
            1..HALF => Some(Key::NextHop(u64::from(offset))),
            0 | HALF => None,
            _ if offset < HALF + QUARTER => Some(Key::Group(u64::from(offset - HALF))),
            _ => None,
        }
    }

    /// The ids of subsets of groups.
    pub(crate) fn subsets(self) -> std::ops::Range<u32> {
        self.base + HALF + QUARTER..self.base + 2 * HALF
    }
}

/// Ids for next hops, and as many for groups and their subsets together: far above what a switch
/// has, and a range that a person recognises in `ip nexthop`. A number above it is refused.
pub(super) const HALF: u32 = 0x0080_0000;
pub(super) const QUARTER: u32 = HALF / 2;
