//! Readings of counters as switches give them, and the rates that follow.

use proptest::prelude::*;

use super::*;
use crate::sample::Counters;

fn reading(value: u64, unix_ms: i64, received_ms: u64) -> Counter {
    Counter {
        value,
        unix_ns: unix_ms * 1_000_000,
        received: Duration::from_millis(received_ms),
    }
}

/// The last rates after each reading; both clocks agree.
fn lasts(readings: &[(u64, i64)]) -> Vec<Option<f64>> {
    let mut meter = Meter::default();
    let rate = |(value, ms): &(u64, i64)| {
        let received = u64::try_from(*ms).expect("after the epoch");
        meter.learn(Some(reading(*value, *ms, received)), OCTETS_MAX)
    };
    let rates = readings.iter().map(rate);
    rates.map(|rate| rate.map(|rate| rate.last_per_s)).collect()
}

/// Values, and when they were read, in milliseconds.
type Readings = &'static [(u64, i64)];

#[test]
fn counters_become_rates() {
    const TOP32: u64 = u32::MAX as u64;
    let table: [(&str, Readings, Option<f64>); 13] = [
        ("one reading", &[(5, 1000)], None),
        ("two", &[(5, 1000), (105, 2000)], Some(100.0)),
        ("half a second", &[(5, 1000), (105, 1500)], Some(200.0)),
        ("a gap", &[(0, 1000), (1000, 101_000)], Some(10.0)),
        (
            "a wrap at 32 bits",
            &[(TOP32 - 9, 1000), (90, 2000)],
            Some(100.0),
        ),
        (
            "a wrap at 64 bits",
            &[(u64::MAX - 9, 1000), (90, 2000)],
            Some(100.0),
        ),
        ("cleared", &[(0, 1000), (10, 2000), (0, 3000)], Some(10.0)),
        (
            "cleared near the middle",
            &[(0, 1000), (1 << 31, 2000), (7, 3000)],
            Some(2_147_483_648.0),
        ),
        ("cleared at 64 bits", &[(1 << 40, 1000), (7, 2000)], None),
        (
            "after clearing",
            &[(900, 1000), (0, 2000), (50, 3000)],
            Some(50.0),
        ),
        (
            "the same timestamp",
            &[(0, 1000), (10, 2000), (10, 2000)],
            Some(10.0),
        ),
        ("more than any port", &[(0, 1000), (u64::MAX, 2000)], None),
        ("standing still", &[(7, 1000), (7, 2000)], Some(0.0)),
    ];
    for (case, readings, expected) in table {
        let last = lasts(readings).last().copied().flatten();
        assert_eq!(last, expected, "{case}");
    }
}

#[test]
fn a_wrap_is_not_believed_of_a_port_too_slow_for_it() {
    let readings = [
        reading(u64::from(u32::MAX), 1000, 1000),
        reading(1 << 29, 2000, 2000),
    ];
    let rate = |speed_bps| {
        let mut meter = Meter::default();
        let rates = readings.map(|reading| meter.learn(Some(reading), octets_max(speed_bps)));
        rates[1].is_some()
    };
    assert!(rate(10_000_000_000));
    assert!(!rate(1_000_000_000));
}

#[test]
fn the_clocks() {
    let first = reading(0, 1000, 1000);
    let table = [
        ("both agree", reading(100, 2000, 2000), Some(100.0)),
        ("it arrived late", reading(100, 2000, 3500), Some(100.0)),
        ("it arrived at once", reading(100, 2000, 1000), Some(100.0)),
        (
            "the switch's clock jumped ahead",
            reading(100, 9_000_000, 2000),
            Some(100.0),
        ),
        (
            "the switch's clock was set back",
            reading(100, 0, 2000),
            Some(100.0),
        ),
        (
            "the switch's clock stands",
            reading(100, 1000, 2000),
            Some(100.0),
        ),
        ("the same moment", reading(100, 1000, 1010), None),
        ("a moment later", reading(100, 1001, 1001), None),
    ];
    for (case, second, expected) in table {
        let mut meter = Meter::default();
        meter.learn(Some(first), OCTETS_MAX);
        let rate = meter.learn(Some(second), OCTETS_MAX);
        assert_eq!(rate.map(|rate| rate.last_per_s), expected, "{case}");
    }
    // Without any clock at all.
    let mut meter = Meter::default();
    let rates = [(0, 1000), (100, 2000), (100, 3000)];
    let rates = rates.map(|(value, ms)| meter.learn(Some(reading(value, 0, ms)), OCTETS_MAX));
    assert_eq!(rates[2].map(|rate| rate.last_per_s), Some(0.0));
}

#[test]
fn the_mean_follows_by_three_tenths_a_second() {
    let mut meter = Meter::default();
    let mut means = Vec::new();
    for (value, ms) in [(0, 0), (100, 1000), (200, 2000), (500, 3000), (1100, 5000)] {
        let rate = meter.learn(
            Some(reading(value, 1000 + ms, ms.unsigned_abs())),
            OCTETS_MAX,
        );
        means.push(rate.map(|rate| (rate.mean_per_s * 10.0).round() / 10.0));
    }
    // The last step is two seconds: 0.49 of what was.
    assert_eq!(
        means,
        [None, Some(100.0), Some(100.0), Some(160.0), Some(231.4)]
    );
}

#[test]
fn a_counter_that_goes_away_begins_anew() {
    let mut meter = Meter::default();
    meter.learn(Some(reading(0, 1000, 1000)), OCTETS_MAX);
    assert!(
        meter
            .learn(Some(reading(9, 2000, 2000)), OCTETS_MAX)
            .is_some()
    );
    assert!(meter.learn(None, OCTETS_MAX).is_none());
    assert!(
        meter
            .learn(Some(reading(10, 3000, 3000)), OCTETS_MAX)
            .is_none()
    );
}

#[test]
fn interfaces_are_learnt_and_forgotten() {
    let sample = |names: &[&str], value: u64, ms: u64| {
        let interface = Interface {
            counters: Counters {
                out_octets: Some(reading(value, 1000, ms)),
                ..Counters::default()
            },
            ..Interface::default()
        };
        let interfaces = names.iter().map(|name| ((*name).into(), interface.clone()));
        Sample {
            interfaces: interfaces.collect(),
            ..Sample::default()
        }
    };
    let mut rates = Rates::default();
    rates.learn(&sample(&["eth1", "eth2"], 0, 1000));
    let second = sample(&["eth1"], 1000, 2000);
    rates.learn(&second);
    rates.learn(&second);
    assert!(rates.of("eth2").is_none());
    let eth1 = rates.of("eth1").copied().expect("known");
    assert_eq!(eth1.out_octets.map(|rate| rate.mean_bps()), Some(8000.0));
    assert_eq!(eth1.in_octets, None);
    assert_eq!(rates.iter().count(), 1);
}

proptest! {
    #[test]
    fn rates_are_never_negative_and_always_finite(
        readings in proptest::collection::vec(
            proptest::option::weighted(0.9, (any::<u64>(), any::<i64>(), 0u64..100_000)), 0..20),
        small in proptest::collection::vec((0u64..1 << 33, 0i64..20_000_000_000, 0u64..20_000), 0..20),
        per_s_max in 0.0..1e12,
    ) {
        let small = small.into_iter().map(Some);
        let mut meter = Meter::default();
        for reading in readings.into_iter().chain(small) {
            let reading = reading.map(|(value, unix_ns, ms)| Counter {
                value,
                unix_ns,
                received: Duration::from_millis(ms),
            });
            if let Some(rate) = meter.learn(reading, per_s_max) {
                for per_s in [rate.last_per_s, rate.mean_per_s] {
                    prop_assert!((0.0..=OCTETS_MAX).contains(&per_s), "{per_s}");
                }
            }
        }
    }

    #[test]
    fn a_steady_counter_has_its_rate_over_any_number_of_wraps(
        start in any::<u64>(), per_s in 0u64..1_000_000, narrow in any::<bool>(),
    ) {
        let mut meter = Meter::default();
        for second in 1..40u64 {
            let value = start.wrapping_add(per_s * second);
            let value = if narrow { value % (1 << 32) } else { value };
            let ms = second * 1000;
            let at = reading(value, i64::try_from(ms).expect("small"), ms);
            let rate = meter.learn(Some(at), OCTETS_MAX);
            if let Some(rate) = rate {
                #[expect(clippy::cast_precision_loss, reason = "small")]
                let off = (rate.mean_per_s - per_s as f64).abs();
                prop_assert!(off < 1e-6, "{rate:?}");
            }
        }
    }
}
