//! Samples of a link second by second, and its derating.

use proptest::prelude::*;

use super::*;

/// A link at 100 Gb/s, half full: some 8.3 million packets per second both ways.
fn symptoms(errors: f64, discards: f64, pauses: f64) -> Symptoms {
    Symptoms {
        octets_per_s: 12.5e9,
        errors_per_s: errors,
        discards_per_s: discards,
        pause_frames_per_s: pauses,
        speed_bps: Some(100_000_000_000),
        received: Duration::ZERO,
    }
}

const CLEAN: (f64, f64, f64) = (0.0, 0.0, 0.0);
const BAD: (f64, f64, f64) = (100_000.0, 0.0, 0.0);
const WORN: (f64, f64, f64) = (100.0, 0.0, 0.0);

/// One link and a clock.
#[derive(Default)]
struct Story {
    derating: Derating,
    now: Duration,
}

impl Story {
    /// The same sample for some seconds; the derating after each.
    fn samples(&mut self, seconds: u32, (errors, discards, pauses): (f64, f64, f64)) -> Vec<u8> {
        let one = |_| {
            self.now += Duration::from_secs(1);
            let symptoms = Symptoms {
                received: self.now,
                ..symptoms(errors, discards, pauses)
            };
            let decision = self
                .derating
                .learn(&"link".into(), Some(&symptoms), self.now);
            decision.derating_percent
        };
        (0..seconds).map(one).collect()
    }

    /// Seconds of clean samples until the derating is lower.
    fn recovery(&mut self) -> u32 {
        let before = self.derating.of("link").derating_percent;
        (1..)
            .find(|_| self.samples(1, CLEAN)[0] < before)
            .expect("it recovers")
    }
}

#[test]
fn what_a_sample_asks_for() {
    let idle = Symptoms {
        octets_per_s: 1000.0,
        errors_per_s: 0.5,
        discards_per_s: 5.0,
        ..Symptoms::default()
    };
    let slow = Symptoms {
        pause_frames_per_s: 110.0,
        speed_bps: Some(10_000_000_000),
        ..Symptoms::default()
    };
    let errors = Some(Cause::Errors);
    let discards = Some(Cause::Discards);
    let pause = Some(Cause::Pause);
    #[rustfmt::skip]
    let table = [
        ("clean", symptoms(0.0, 0.0, 0.0), 0, None),
        ("an error now and then", symptoms(10.0, 0.0, 0.0), 0, None),
        ("one in 100,000", symptoms(90.0, 0.0, 0.0), 25, errors),
        ("one in 10,000", symptoms(900.0, 0.0, 0.0), 50, errors),
        ("one in 1,000", symptoms(9_000.0, 0.0, 0.0), 75, errors),
        ("discards", symptoms(0.0, 900.0, 0.0), 25, discards),
        ("many discards", symptoms(0.0, 90_000.0, 0.0), 50, discards),
        ("a little pause", symptoms(0.0, 0.0, 250.0), 0, None),
        ("a tenth of the time", symptoms(0.0, 0.0, 300.0), 25, pause),
        ("a third of the time", symptoms(0.0, 0.0, 1_000.0), 50, pause),
        ("the worst counts", symptoms(9_000.0, 900.0, 300.0), 75, errors),
        ("an idle link", idle, 0, None),
        ("pause of a slow port", slow, 25, pause),
    ];
    for (case, symptoms, derating_percent, cause) in table {
        let expected = Decision {
            derating_percent,
            cause,
        };
        assert_eq!(symptoms.wanted(), expected, "{case}");
    }
}

#[test]
fn a_burst_of_two_samples_derates_nothing() {
    let mut story = Story::default();
    for _ in 0..10 {
        assert_eq!(story.samples(2, BAD), [0, 0]);
        assert_eq!(story.samples(1, CLEAN), [0]);
    }
}

#[test]
fn a_bad_link_is_derated_step_by_step() {
    let mut story = Story::default();
    let found = story.samples(12, BAD);
    assert_eq!(found, [0, 0, 25, 25, 25, 50, 50, 50, 75, 75, 75, 75]);
    assert_eq!(story.derating.of("link").cause, Some(Cause::Errors));
    assert_eq!(story.derating.iter().count(), 1);
}

#[test]
fn a_run_counts_for_the_least_of_it() {
    let mut story = Story::default();
    let [bad, worn] = [BAD, WORN];
    let found: Vec<u8> = [bad, worn, bad, bad, worn, worn]
        .into_iter()
        .flat_map(|sample| story.samples(1, sample))
        .collect();
    assert_eq!(found, [0, 0, 25, 25, 25, 25]);
}

#[test]
fn it_recovers_step_by_step_after_a_clean_time() {
    let mut story = Story::default();
    story.samples(9, BAD);
    // The first clean sample begins the time.
    assert_eq!(
        [story.recovery(), story.recovery(), story.recovery()],
        [31, 31, 31]
    );
    assert_eq!(story.derating.of("link"), Decision::default());
    assert_eq!(story.derating.iter().count(), 0);
}

#[test]
fn one_bad_sample_begins_the_clean_time_anew() {
    let mut story = Story::default();
    story.samples(3, BAD);
    story.samples(29, CLEAN);
    story.samples(1, WORN);
    assert_eq!(story.recovery(), 31);
}

#[test]
fn each_relapse_doubles_the_hold_down() {
    let mut story = Story::default();
    let mut holds = Vec::new();
    for _ in 0..7 {
        story.samples(3, WORN);
        holds.push(story.recovery() - 1);
    }
    assert_eq!(holds, [30, 60, 120, 240, 480, 480, 480]);
    // Long clean, it begins anew.
    story.samples(1000, CLEAN);
    story.samples(3, WORN);
    assert_eq!(story.recovery() - 1, 30);
}

#[test]
fn what_is_not_seen_changes_nothing_and_is_not_clean() {
    let link: Arc<str> = "link".into();
    let mut story = Story::default();
    story.samples(3, BAD);
    story.samples(20, CLEAN);
    for _ in 0..600 {
        story.now += Duration::from_secs(1);
        let decision = story.derating.learn(&link, None, story.now);
        assert_eq!(decision.derating_percent, 25);
    }
    assert_eq!(story.recovery(), 31);
}

#[test]
fn a_sample_that_is_seen_again_counts_once() {
    let link: Arc<str> = "link".into();
    let mut derating = Derating::default();
    let bad = Symptoms {
        received: Duration::from_secs(1),
        ..symptoms(100_000.0, 0.0, 0.0)
    };
    for second in 1..100 {
        let decision = derating.learn(&link, Some(&bad), Duration::from_secs(second));
        assert_eq!(decision.derating_percent, 0);
    }
}

#[test]
fn a_derating_is_taken_over_and_forgotten() {
    let link: Arc<str> = "link".into();
    let mut story = Story::default();
    story.derating.take_over(&link, 99, Duration::ZERO);
    assert_eq!(story.derating.of("link").derating_percent, PERCENT_MAX);
    assert_eq!(story.recovery(), 31);
    story.derating.retain(|name| name != "link");
    assert_eq!(story.derating.of("link"), Decision::default());
}

#[test]
fn symptoms_of_both_ends() {
    let rate = |per_s| {
        Some(Rate {
            last_per_s: per_s,
            mean_per_s: 0.0,
            received: Duration::from_secs(4),
        })
    };
    assert_eq!(Symptoms::of(&InterfaceRates::default()), None);
    let a = InterfaceRates {
        in_octets: rate(5.0),
        out_octets: rate(7.0),
        in_errors: rate(1.0),
        out_errors: rate(2.0),
        in_discards: rate(1000.0),
        speed_bps: Some(10),
        ..InterfaceRates::default()
    };
    let b = InterfaceRates {
        in_octets: rate(20.0),
        out_discards: rate(9.0),
        in_pause_frames: rate(8.0),
        ..InterfaceRates::default()
    };
    let ends = [a, b].map(|end| Symptoms::of(&end).expect("known"));
    let expected = Symptoms {
        octets_per_s: 20.0,
        errors_per_s: 3.0,
        discards_per_s: 9.0,
        pause_frames_per_s: 8.0,
        speed_bps: Some(10),
        received: Duration::from_secs(4),
    };
    assert_eq!(ends[0].worst(ends[1]), expected);
    assert_eq!(ends[1].worst(ends[0]), expected);
}

proptest! {
    #[test]
    fn a_derating_never_jumps_more_than_a_step(
        samples in proptest::collection::vec(
            (0u64..40, proptest::option::of((any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>()))), 0..300),
        bad in proptest::collection::vec((0u64..40, proptest::sample::select(vec![CLEAN, WORN, BAD])), 0..300),
    ) {
        let bad = bad.into_iter().map(|(step, (errors, discards, pauses))| {
            (step, Some((12.5e9, errors, discards, pauses)))
        });
        let link: Arc<str> = "link".into();
        let mut derating = Derating::default();
        let (mut now, mut before, mut changed_at) = (Duration::ZERO, 0u8, Duration::ZERO);
        for (step, sample) in samples.into_iter().chain(bad) {
            now += Duration::from_secs(step);
            let symptoms = sample.map(|(octets, errors, discards, pauses)| Symptoms {
                octets_per_s: octets,
                received: now,
                ..symptoms(errors, discards, pauses)
            });
            let after = derating.learn(&link, symptoms.as_ref(), now).derating_percent;
            prop_assert!(after <= PERCENT_MAX && after.abs_diff(before) <= STEP_PERCENT);
            prop_assert!(symptoms.is_some() || after == before);
            if after != before {
                // Back only after a hold-down.
                prop_assert!(after > before || now - changed_at >= HOLD_MIN);
                changed_at = now;
            }
            before = after;
        }
    }
}
