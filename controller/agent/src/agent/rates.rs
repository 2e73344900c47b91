//! How much is sent by each pin: the mean between the last two readings of what the kernel counts. Knows counters as they are read,
//! which begin anew when a pin is put anew: then one reading says nothing, or, where more was sent since than before, too little.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::forwarding::Pin;
use crate::marks::{Count, Counted};

/// Pins as they were counted last.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pins: BTreeMap<Pin, Rated>,
}

/// A pin as it was counted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rated {
    /// The last reading.
    pub count: Count,
    /// When it was taken, as an uptime.
    at: Duration,
    /// Bits per second between the last two readings; None: there were not two, or counters went back.
    pub bps: Option<u64>,
}

impl Rates {
    /// Takes what was counted of all pins that there are, a moment ago.
    pub(super) fn count(&mut self, counted: &Counted, at: Duration) {
        let before = std::mem::take(&mut self.pins);
        let rated = |(pin, count): (&Pin, &Count)| {
            let before = before.get(pin);
            let bps = before.and_then(|before| {
                let passed = at.checked_sub(before.at)?;
                rate(&before.count, count, passed)
            });
            let count = *count;
            (pin.clone(), Rated { count, at, bps })
        };
        self.pins = counted.iter().map(rated).collect();
    }

    /// Every pin, with its rate if the last reading is not too old.
    pub(super) fn pins(&self, uptime: Duration) -> impl Iterator<Item = (&Pin, Rated)> {
        let fresh = move |rated: &Rated| {
            let age = uptime.saturating_sub(rated.at);
            rated.bps.filter(|_| age < RATED_FOR)
        };
        let pins = self.pins.iter();
        pins.map(move |(pin, rated)| {
            let bps = fresh(rated);
            (pin, Rated { bps, ..*rated })
        })
    }
}

/// Bits per second between two readings; None if a counter went back, or no time has passed.
fn rate(before: &Count, now: &Count, passed: Duration) -> Option<u64> {
    now.packets.checked_sub(before.packets)?;
    let octets = now.octets.checked_sub(before.octets)?;
    let bits_by_nanos = u128::from(octets) * 8 * NANOS_PER_SEC;
    let bps = bits_by_nanos.checked_div(passed.as_nanos())?;
    Some(u64::try_from(bps).unwrap_or(u64::MAX))
}

const NANOS_PER_SEC: u128 = 1_000_000_000;
/// Readings come every 5 s: one or two may fail.
const RATED_FOR: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Source;

    fn pin(last: u8) -> Pin {
        Pin {
            device: "vxlan100".to_owned(),
            source: Source::Any,
            destination: Some([192, 0, 2, last].into()),
            port: None,
        }
    }

    /// Readings of pins by their last octet, with their packets of 1,000 octets.
    fn counted(of: &[(u8, u64)]) -> Counted {
        let count = |packets: u64| Count {
            packets,
            octets: packets * 1_000,
        };
        of.iter()
            .map(|(last, packets)| (pin(*last), count(*packets)))
            .collect()
    }

    fn rates(rates: &Rates, now: Duration) -> Vec<Option<u64>> {
        rates.pins(now).map(|(_, rated)| rated.bps).collect()
    }

    #[test]
    fn a_rate_is_the_mean_between_the_last_two_readings() {
        let mut pins = Rates::default();
        let at = Duration::from_secs;
        pins.count(&counted(&[(1, 100), (2, 0)]), at(0));
        assert_eq!(rates(&pins, at(0)), [None, None]);
        pins.count(&counted(&[(1, 600), (2, 0), (3, 7)]), at(5));
        assert_eq!(rates(&pins, at(5)), [Some(800_000), Some(0), None]);
        // What was sent before the last reading but one does not count; a pin that went is forgotten.
        pins.count(&counted(&[(1, 600), (3, 8)]), at(15));
        assert_eq!(rates(&pins, at(15)), [Some(0), Some(800)]);
        pins.count(&Counted::default(), at(20));
        assert!(rates(&pins, at(15)).is_empty());
    }

    #[test]
    fn a_reading_after_which_counters_went_back_gives_no_rate() {
        let mut pins = Rates::default();
        let at = Duration::from_secs;
        pins.count(&counted(&[(1, 600)]), at(0));
        pins.count(&counted(&[(1, 10)]), at(5));
        assert_eq!(rates(&pins, at(5)), [None]);
        // It began anew with that one.
        pins.count(&counted(&[(1, 20)]), at(10));
        assert_eq!(rates(&pins, at(10)), [Some(16_000)]);
        // Twice the same moment, or one that is earlier.
        pins.count(&counted(&[(1, 30)]), at(10));
        assert_eq!(rates(&pins, at(10)), [None]);
        pins.count(&counted(&[(1, 40)]), at(9));
        assert_eq!(rates(&pins, at(10)), [None]);
    }

    #[test]
    fn a_rate_grows_old_and_the_largest_counters_make_no_mistake() {
        let mut pins = Rates::default();
        let at = Duration::from_secs;
        pins.count(&counted(&[(1, 0)]), at(0));
        pins.count(&counted(&[(1, 100)]), at(5));
        assert_eq!(rates(&pins, at(19)), [Some(160_000)]);
        assert_eq!(rates(&pins, at(20)), [None]);
        let count = |octets| Count { packets: 0, octets };
        let most = rate(&count(0), &count(u64::MAX), at(1));
        assert_eq!(most, Some(u64::MAX));
    }
}
