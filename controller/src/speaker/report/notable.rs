//! What the log is told of what a peer does again and again: a line when the number has doubled, so that a hostile peer
//! cannot fill it. Knows no peer.

use std::collections::BTreeMap;

use super::near::Said;

/// Of what was learned, what the log is to be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Notable {
    /// Reasons for refusals whose count has doubled since the log was told of them.
    pub refused: Vec<(&'static str, u64)>,
    /// Rules of the fabric that were broken by routes that were kept, likewise.
    pub suspect: Vec<(&'static str, u64)>,
    /// Limits that came near.
    pub near: Vec<Said>,
}

/// Counts by reason; the reasons to be told of, with the numbers.
pub(super) fn count_all(
    totals: &mut BTreeMap<&'static str, u64>,
    counts: &BTreeMap<&'static str, u64>,
) -> Vec<(&'static str, u64)> {
    let told = |(reason, more): (&&'static str, &u64)| {
        let total = count(totals.entry(reason).or_default(), *more)?;
        Some((*reason, total))
    };
    counts.iter().filter_map(told).collect()
}

/// Counts; the number, if it has doubled since it was last returned.
pub(super) fn count(total: &mut u64, more: u64) -> Option<u64> {
    let before = *total;
    *total += more;
    let doubled = before.checked_ilog2() != total.checked_ilog2();
    doubled.then_some(*total)
}
