//! What the uplinks of a switch sent lately, from counters that may wrap, begin anew, or be gone.
//!
//! Pure: the caller says when a sample is due.

use std::collections::{BTreeMap, VecDeque};

/// Octets sent by each interface of one switch, over the last samples.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// As the counters stood at the last sample.
    last: BTreeMap<String, u64>,
    /// What each interface sent from one sample to the next.
    samples: VecDeque<BTreeMap<String, u64>>,
}

impl Sent {
    /// Takes the counters as they stand. An interface that is new, or whose counter began anew, is counted from now on.
    pub fn sample<'a>(&mut self, counters: impl IntoIterator<Item = (&'a str, u64)>) {
        let now: BTreeMap<String, u64> = counters
            .into_iter()
            .map(|(name, octets)| (name.to_owned(), octets))
            .collect();
        let sent = now.iter().filter_map(|(name, after)| {
            let octets = grown(*self.last.get(name)?, *after)?;
            Some((name.clone(), octets))
        });
        self.samples.push_back(sent.collect());
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.last = now;
    }

    /// What an interface sent while it was counted; None if it was not.
    pub fn octets(&self, interface: &str) -> Option<u64> {
        let samples = self.samples.iter();
        let counted = samples.filter_map(|sample| sample.get(interface));
        counted.copied().reduce(u64::saturating_add)
    }
}

/// By how much a counter grew. One that goes back has wrapped at 32 bits if it came from near the end of them; else it
/// began anew, and nobody knows.
fn grown(before: u64, after: u64) -> Option<u64> {
    if after >= before {
        return Some(after - before);
    }
    let wrapped = (WRAP / 4 * 3..WRAP).contains(&before) && after < WRAP / 4;
    wrapped.then(|| after + WRAP - before)
}

/// Ten seconds, where the caller samples once a second: long enough for a share to settle, short enough to follow a change.
const SAMPLES_MAX: usize = 10;
const WRAP: u64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_counted_from_the_second_sample_on() {
        let mut sent = Sent::default();
        sent.sample([("eth1", 1_000)]);
        assert_eq!(sent.octets("eth1"), None);
        sent.sample([("eth1", 1_500), ("eth2", 7)]);
        sent.sample([("eth1", 1_700), ("eth2", 7)]);
        assert_eq!(
            (sent.octets("eth1"), sent.octets("eth2")),
            (Some(700), Some(0))
        );
    }

    #[test]
    fn a_counter_that_wraps_at_32_bits_goes_on() {
        let mut sent = Sent::default();
        sent.sample([("eth1", u64::from(u32::MAX) - 99)]);
        sent.sample([("eth1", 200)]);
        assert_eq!(sent.octets("eth1"), Some(300));
    }

    #[test]
    fn a_counter_that_begins_anew_loses_one_sample() {
        let mut sent = Sent::default();
        sent.sample([("eth1", 5_000_000_000)]);
        sent.sample([("eth1", 100)]);
        assert_eq!(sent.octets("eth1"), None);
        sent.sample([("eth1", 150)]);
        assert_eq!(sent.octets("eth1"), Some(50));
        assert_eq!(grown(1_000_000_000, 100), None);
    }

    #[test]
    fn only_the_last_samples_count() {
        let mut sent = Sent::default();
        for second in 0..=20 {
            sent.sample([(
                "eth1",
                second * if second <= 5 { 1_000 } else { 0 } + 6_000 * u64::from(second > 5),
            )]);
        }
        assert_eq!(sent.octets("eth1"), Some(0));
        sent.sample([]);
        sent.sample([("eth1", 6_100)]);
        assert_eq!(
            sent.octets("eth1"),
            Some(0),
            "nobody knows what it sent meanwhile"
        );
    }
}
