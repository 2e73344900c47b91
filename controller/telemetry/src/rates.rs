//! Counters as rates: units per second between two readings, and their mean. It refuses to know where readings come from
//! and what is too much.
//!
//! A counter that goes back has wrapped, at 32 or 64 bits, if what it counted meanwhile would be little; else it was
//! cleared, and one sample is lost. A 32-bit counter of octets on a fast port wraps more than once a second: nobody can
//! tell its rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sample::{Counter, Interface, Sample};

/// The rates of one interface. None: no such counter, or not two readings yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterfaceRates {
    /// Octets per second in.
    pub in_octets: Option<Rate>,
    /// Octets per second out.
    pub out_octets: Option<Rate>,
    /// Packets with errors per second, in.
    pub in_errors: Option<Rate>,
    /// Packets with errors per second, out.
    pub out_errors: Option<Rate>,
    /// Discarded packets per second, in.
    pub in_discards: Option<Rate>,
    /// Discarded packets per second, out.
    pub out_discards: Option<Rate>,
    /// Pause frames per second received: the other end asks this one to wait.
    pub in_pause_frames: Option<Rate>,
    /// Pause frames per second sent.
    pub out_pause_frames: Option<Rate>,
    /// In bits per second, if told.
    pub speed_bps: Option<u64>,
}

/// How fast a counter counts, in its units per second; never negative, always finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Between the last two readings.
    pub last_per_s: f64,
    /// EWMA with alpha 0.3 per second.
    pub mean_per_s: f64,
    /// When the last reading arrived, by the clock of the client. A reader compares it with its own time: a rate is as old
    /// as its reading.
    pub received: Duration,
}

impl Rate {
    /// The mean of a counter of octets in bits per second.
    #[must_use]
    pub fn mean_bps(&self) -> f64 {
        self.mean_per_s * 8.0
    }
}

/// The rates of all interfaces of one switch.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    interfaces: BTreeMap<Arc<str>, [Meter; 8]>,
    rates: BTreeMap<Arc<str>, InterfaceRates>,
}

impl Rates {
    /// Learns a sample. An interface that is not in it any more is forgotten. Seeing a sample twice changes nothing.
    pub fn learn(&mut self, sample: &Sample) {
        let known = &sample.interfaces;
        self.interfaces.retain(|name, _| known.contains_key(name));
        self.rates.retain(|name, _| known.contains_key(name));
        for (name, interface) in known {
            let meters = self.interfaces.entry(Arc::clone(name)).or_default();
            let rates = learn(meters, interface);
            self.rates.insert(Arc::clone(name), rates);
        }
    }

    /// The rates of one interface. None: it is not known.
    #[must_use]
    pub fn of(&self, interface: &str) -> Option<&InterfaceRates> {
        self.rates.get(interface)
    }

    /// The rates of all interfaces, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &InterfaceRates)> {
        self.rates.iter()
    }
}

fn learn(meters: &mut [Meter; 8], interface: &Interface) -> InterfaceRates {
    let counters = &interface.counters;
    let octets_max = interface.speed_bps.map_or(OCTETS_MAX, octets_max);
    let [in_octets, out_octets, rest @ ..] = meters;
    let [
        in_errors,
        out_errors,
        in_discards,
        out_discards,
        pauses @ ..,
    ] = rest;
    let [in_pauses, out_pauses] = pauses;
    InterfaceRates {
        in_octets: in_octets.learn(counters.in_octets, octets_max),
        out_octets: out_octets.learn(counters.out_octets, octets_max),
        in_errors: in_errors.learn(counters.in_errors, PACKETS_MAX),
        out_errors: out_errors.learn(counters.out_errors, PACKETS_MAX),
        in_discards: in_discards.learn(counters.in_discards, PACKETS_MAX),
        out_discards: out_discards.learn(counters.out_discards, PACKETS_MAX),
        in_pause_frames: in_pauses.learn(counters.in_pause_frames, PACKETS_MAX),
        out_pause_frames: out_pauses.learn(counters.out_pause_frames, PACKETS_MAX),
        speed_bps: interface.speed_bps,
    }
}

/// Octets per second that a port of this speed can carry, by clocks that are off by some.
#[expect(clippy::cast_precision_loss, reason = "a bound, not a count")]
fn octets_max(speed_bps: u64) -> f64 {
    speed_bps as f64 / 8.0 * OVER_SPEED_MAX
}

/// The rate of one counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    last: Option<Counter>,
    rate: Option<Rate>,
}

impl Meter {
    /// Learns a reading, and returns the rate as it is known now. Without a reading, everything is forgotten.
    ///
    /// `wrap_per_s_max`: in units per second. A counter that went back has wrapped only if it counted no more than that.
    ///
    /// The time between two readings is by the switch's clock, unless that disagrees with the clock of the client. A
    /// reading with the timestamp of the one before is passed over, as is a sample seen twice.
    pub fn learn(&mut self, reading: Option<Counter>, wrap_per_s_max: f64) -> Option<Rate> {
        let Some(reading) = reading else {
            *self = Self::default();
            return None;
        };
        let Some(last) = self.last else {
            self.last = Some(reading);
            return None;
        };
        let Some(between) = between(last, reading) else {
            return self.rate;
        };
        self.last = Some(reading);
        let seconds = between.as_secs_f64();
        let counted = counted(last.value, reading.value, wrap_per_s_max * seconds);
        let per_s = counted.map(|counted| counted / seconds);
        let Some(per_s) = per_s.filter(|per_s| *per_s <= OCTETS_MAX) else {
            // Cleared, or nonsense: the next reading gives the next rate.
            return self.rate;
        };
        let mean_per_s = match self.rate {
            Some(rate) if between <= GAP_MAX => {
                // As many steps of one second as there were.
                let kept = (1.0 - ALPHA).powf(seconds);
                rate.mean_per_s * kept + per_s * (1.0 - kept)
            }
            _ => per_s,
        };
        self.rate = Some(Rate {
            last_per_s: per_s,
            mean_per_s,
            received: reading.received,
        });
        self.rate
    }
}

/// The time between two readings. None: too little to tell a rate.
fn between(last: Counter, reading: Counter) -> Option<Duration> {
    let received = reading.received.saturating_sub(last.received);
    let by_client = (received >= RECEIVED_MIN).then_some(received);
    let told_ns = reading.unix_ns.saturating_sub(last.unix_ns);
    // A switch may read its hardware less often than it is asked.
    if told_ns == 0 && reading.unix_ns > 0 && reading.value == last.value {
        return None;
    }
    let Ok(told) = u64::try_from(told_ns).map(Duration::from_nanos) else {
        return by_client;
    };
    let is_likely = told >= (received / 2).saturating_sub(CLOCKS_APART_MAX)
        && told <= received.saturating_mul(2).saturating_add(CLOCKS_APART_MAX);
    match told_ns > 0 && is_likely {
        true => (told >= TOLD_MIN).then_some(told),
        false => by_client,
    }
}

/// What was counted between two values. None: the counter was cleared.
#[expect(
    clippy::cast_precision_loss,
    reason = "a rate of more than 2^53 is none"
)]
fn counted(last: u64, value: u64, wrap_max: f64) -> Option<f64> {
    if let Some(counted) = value.checked_sub(last) {
        return Some(counted as f64);
    }
    let counted = match u32::try_from(last) {
        // A step over the end of more than a quarter of the way is more likely a cleared counter.
        Ok(last) => {
            let to_end = u64::from(u32::MAX - last) + 1;
            Some(value + to_end).filter(|counted| *counted < WRAP_32_MAX)
        }
        Err(_) => Some(value.wrapping_sub(last)),
    };
    let counted = counted.map(|counted| counted as f64);
    counted.filter(|counted| *counted <= wrap_max)
}

/// Per sample of one second.
const ALPHA: f64 = 0.3;

/// After a longer gap the mean begins anew.
const GAP_MAX: Duration = Duration::from_secs(10);

/// By the clock of the client, readings arrive with the jitter of network and tasks.
const RECEIVED_MIN: Duration = Duration::from_millis(500);

/// By the switch's clock. Over less than this, a rate is noise.
const TOLD_MIN: Duration = Duration::from_millis(100);

/// Beyond half or twice the time of the client, how far a switch's time may be off.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(2);

/// Octets per second: 3.2 Tb/s, twice the fastest Ethernet port.
const OCTETS_MAX: f64 = 4e11;

/// Packets per second: 1.6 Tb/s of the shortest.
const PACKETS_MAX: f64 = 3e9;

/// What a sample may exceed the speed by.
const OVER_SPEED_MAX: f64 = 1.5;

/// A quarter of 32 bits.
const WRAP_32_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests;
