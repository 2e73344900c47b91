//! Which slots the latest changes of selection were in: a bounded memory for readers that follow a table. It does not
//! know what is in a slot.

use std::collections::VecDeque;

/// Slots by revision without a gap, up to the table's. Full: the oldest are forgotten, and who asks for them has to walk.
#[derive(Debug)]
pub(super) struct Recent {
    slots: VecDeque<u32>,
    max: usize,
}

impl Recent {
    pub(super) fn new(max: usize) -> Self {
        Self {
            slots: VecDeque::new(),
            max,
        }
    }

    /// The table's next revision is a change in this slot.
    pub(super) fn note(&mut self, slot: u32) {
        if self.slots.len() == self.max {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
    }

    /// Each change after `revision` with its slot, while `now` is the table's; `None`: it is not remembered.
    pub(super) fn since(
        &self,
        revision: u64,
        now: u64,
    ) -> Option<impl Iterator<Item = (u64, u32)>> {
        let wanted = usize::try_from(now.saturating_sub(revision)).ok()?;
        let first = self.slots.len().checked_sub(wanted)?;
        let slots = self.slots.range(first..).copied();
        Some((revision.saturating_add(1)..).zip(slots))
    }
}

/// Changes remembered: more than one of each destination of a table of 400,000; at most 2 MB.
pub(super) const RECENT_MAX: usize = 1 << 19;
