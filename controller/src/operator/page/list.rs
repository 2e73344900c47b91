//! What a table has of something, in order: all of it, or as much as a page needs. Tables have no order, so all of a table is
//! looked at for either. Knows no row.

/// Items in order, each of them once.
#[derive(Debug)]
pub(in crate::operator) struct List<T> {
    /// The items.
    pub(in crate::operator) items: Vec<T>,
    /// There are more behind them.
    pub(in crate::operator) more: bool,
    /// Everything that was agreed up to here is among them.
    pub(in crate::operator) revision: u64,
}

/// The first of many items, which are met in no meaningful order.
#[derive(Debug)]
pub(in crate::operator) struct First<T> {
    items: Vec<T>,
    limit: usize,
    /// So many are put in order, and those beyond the limit go.
    cut_at: usize,
    /// Nothing that is behind it belongs to the first ones.
    end: Option<T>,
    together: fn(&T, &T) -> bool,
}

impl<T: Ord + Clone> First<T> {
    /// So many, and whatever is together with the last of them.
    pub(in crate::operator) fn new(limit: usize, together: fn(&T, &T) -> bool) -> Self {
        Self {
            items: Vec::new(),
            limit,
            cut_at: limit.saturating_mul(2),
            end: None,
            together,
        }
    }

    /// All.
    pub(in crate::operator) fn all() -> Self {
        Self::new(usize::MAX, PartialEq::eq)
    }

    /// The last one once there are enough: what is behind it, and not together with it, need not be met any more.
    pub(in crate::operator) fn end(&self) -> Option<T> {
        self.end.clone()
    }

    /// With what another part of the table has.
    pub(in crate::operator) fn with(mut self, part: Vec<T>) -> Self {
        self.items.extend(part);
        if self.items.len() >= self.cut_at {
            self.cut();
            self.cut_at = self.items.len().max(self.limit).saturating_mul(2);
        }
        self
    }

    /// In order.
    pub(in crate::operator) fn finish(mut self, revision: u64) -> List<T> {
        self.cut();
        self.items.shrink_to_fit();
        List {
            items: self.items,
            more: self.end.is_some(),
            revision,
        }
    }

    fn cut(&mut self) {
        self.items.sort_unstable();
        // One that came back meanwhile was met twice.
        self.items.dedup();
        let last = self.limit.checked_sub(1).and_then(|at| self.items.get(at));
        let Some(last) = last.cloned() else { return };
        let together = self.together;
        let belongs = |item: &T| *item <= last || together(item, &last);
        let count = self.items.partition_point(belongs);
        if count < self.items.len() {
            self.items.truncate(count);
            self.end = Some(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_ones_are_those_that_an_order_of_all_begins_with(
            parts in prop::collection::vec(prop::collection::vec(0..200_u32, 0..40), 0..20),
            limit in 1..60_usize,
        ) {
            let tens: fn(&u32, &u32) -> bool = |a, b| a / 10 == b / 10;
            let mut all: Vec<u32> = parts.iter().flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            let mut expected = all.clone();
            if let Some(last) = all.get(limit - 1) {
                expected.retain(|it| it <= last || tens(it, last));
            }
            let mut first = First::new(limit, tens);
            for mut part in parts {
                if let Some(end) = first.end() {
                    part.retain(|it| *it <= end || tens(it, &end));
                }
                first = first.with(part);
            }
            let list = first.finish(7);
            prop_assert_eq!(list.more, expected.len() < all.len());
            prop_assert_eq!((list.items, list.revision), (expected, 7));
        }
    }
}
