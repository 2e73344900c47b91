//! Samples of a leaf second by second, and what it keeps free.

use proptest::prelude::*;

use super::*;

/// One leaf and a clock.
#[derive(Default)]
struct Story {
    kept: KeptFree,
    now: Duration,
}

impl Story {
    /// The same share of the uplinks up, and half of it down, for some seconds; what is kept free after each.
    fn seconds(&mut self, seconds: u32, percent: f64) -> Vec<u8> {
        let one = |_| {
            self.now += Duration::from_secs(1);
            let carried = Carried {
                up_bps: percent * 1e9,
                down_bps: percent * 5e8,
                capacity_bps: 1e11,
            };
            self.kept.learn(&"leaf1".into(), &carried, self.now)
        };
        (0..seconds).map(one).collect()
    }

    /// What is kept free after some seconds.
    fn after(&mut self, seconds: u32, percent: f64) -> u8 {
        self.seconds(seconds, percent).pop().unwrap_or_default()
    }
}

#[test]
fn each_step_is_what_a_steady_load_is_above() {
    let table = [
        (0.0, 0),
        (9.9, 0),
        (10.1, 10),
        (19.9, 10),
        (20.1, 20),
        (34.0, 30),
        (44.0, 40),
        (50.1, 50),
        (100.0, 50),
        (1e9, 50),
        (-5.0, 0),
    ];
    for (percent, kept) in table {
        assert_eq!(Story::default().after(120, percent), kept, "{percent}");
    }
}

#[test]
fn a_step_up_takes_three_means_in_a_row_of_enough_samples() {
    let mut story = Story::default();
    // The first sample counts a second: the 20th makes the mean one of 20 s, and two more follow.
    let kept = story.seconds(25, 35.0);
    assert_eq!(kept.iter().position(|kept| *kept > 0), Some(21));
    assert_eq!(kept[21..], [30; 4]);
    // The larger direction decides.
    let mut kept = KeptFree::default();
    for second in 0..60 {
        let carried = Carried {
            up_bps: 0.0,
            down_bps: 2.5e10,
            capacity_bps: 1e11,
        };
        kept.learn(&"leaf1".into(), &carried, Duration::from_secs(second));
    }
    assert_eq!(kept.of("leaf1"), 20);
    assert_eq!(kept.iter().count(), 1);
}

#[test]
fn a_burst_keeps_nothing_free() {
    let mut story = Story::default();
    story.seconds(60, 1.0);
    for _ in 0..10 {
        assert_eq!(story.seconds(3, 90.0), [0; 3]);
        assert_eq!(story.after(60, 1.0), 0);
    }
}

#[test]
fn a_step_down_takes_a_minute_below_half_a_step() {
    let mut story = Story::default();
    assert_eq!(story.after(120, 33.0), 30);
    // Within half a step nothing changes, however long.
    assert_eq!(story.after(600, 26.0), 30);
    let kept = story.seconds(200, 24.0);
    let lower = kept.iter().position(|kept| *kept < 30).unwrap();
    assert!((60..120).contains(&lower), "{lower}");
    assert_eq!(kept[lower..], vec![20; 200 - lower]);
    // Nothing is carried any more: down to 0 in the end, and no earlier than a minute.
    let kept = story.seconds(300, 0.0);
    assert_eq!(kept[..60], [20; 60]);
    assert_eq!(kept[299], 0);
}

#[test]
fn a_load_that_comes_back_within_the_minute_lowers_nothing() {
    let mut story = Story::default();
    assert_eq!(story.after(120, 33.0), 30);
    for _ in 0..20 {
        assert_eq!(story.seconds(40, 12.0), [30; 40]);
        assert_eq!(story.seconds(60, 38.0), [30; 60]);
    }
}

#[test]
fn what_swings_around_a_step_changes_nothing_more_than_once() {
    let mut story = Story::default();
    story.seconds(120, 20.5);
    let mut changes = 0;
    let mut last = story.kept.of("leaf1");
    for turn in 0..100 {
        let percent = if turn % 2 == 0 { 17.0 } else { 23.0 };
        let kept = story.after(45, percent);
        changes += u32::from(kept != last);
        last = kept;
    }
    assert_eq!((last, changes), (20, 0));
}

#[test]
fn a_leaf_that_is_silent_keeps_its_step_for_a_while() {
    let mut story = Story::default();
    assert_eq!(story.after(120, 33.0), 30);
    story.now += SILENT_MAX - Duration::from_secs(1);
    story.kept.expire(story.now);
    assert_eq!(story.kept.of("leaf1"), 30);
    story.now += Duration::from_secs(1);
    story.kept.expire(story.now);
    assert_eq!((story.kept.of("leaf1"), story.kept.iter().count()), (0, 0));
    // What is heard after a gap begins anew: a mean of one sample decides nothing.
    assert_eq!(story.seconds(5, 45.0), [0; 5]);
    assert_eq!(story.after(30, 45.0), 40);
    story.kept.retain(|leaf| leaf != "leaf1");
    assert!(!story.kept.knows("leaf1"));
}

#[test]
fn the_minute_begins_anew_after_a_gap() {
    let mut story = Story::default();
    assert_eq!(story.after(120, 33.0), 30);
    for _ in 0..5 {
        assert_eq!(story.after(50, 0.0), 30);
        story.now += GAP_MAX + Duration::from_secs(1);
    }
    assert!(story.after(70, 0.0) < 30);
}

#[test]
fn a_new_leader_goes_on_from_what_was_adopted() {
    let mut story = Story::default();
    story.kept.take_over(&"leaf1".into(), 40, story.now);
    assert!(story.kept.knows("leaf1"));
    assert_eq!(story.seconds(120, 42.0), [40; 120]);
    story.kept.take_over(&"leaf1".into(), 255, story.now);
    assert_eq!(story.kept.of("leaf1"), PERCENT_MAX);
}

#[test]
fn samples_that_follow_too_closely_or_say_nothing_are_passed_over() {
    let mut kept = KeptFree::default();
    let leaf: Arc<str> = "leaf1".into();
    for tenth in 0..100_u64 {
        let carried = Carried {
            up_bps: 9e10,
            down_bps: 0.0,
            capacity_bps: 1e11,
        };
        // Ten a second for ten seconds: of too short a time.
        assert_eq!(
            kept.learn(&leaf, &carried, Duration::from_millis(tenth * 100)),
            0
        );
    }
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0];
    for (second, (capacity_bps, up_bps)) in
        (100..).zip(odd.into_iter().flat_map(|a| odd.map(|b| (a, b))))
    {
        let carried = Carried {
            up_bps,
            down_bps: up_bps,
            capacity_bps,
        };
        let kept = kept.learn(&leaf, &carried, Duration::from_secs(second));
        assert_eq!(kept, 0, "{carried:?}");
    }
}

#[test]
fn a_switch_that_gives_a_sample_each_ten_seconds_is_as_good() {
    let mut kept = KeptFree::default();
    let carried = Carried {
        up_bps: 3.5e10,
        down_bps: 0.0,
        capacity_bps: 1e11,
    };
    let percents =
        (0..10).map(|at| kept.learn(&"leaf1".into(), &carried, Duration::from_secs(at * 10)));
    let percents: Vec<u8> = percents.collect();
    assert_eq!(percents, [0, 0, 0, 0, 30, 30, 30, 30, 30, 30]);
}

proptest! {
    #[test]
    fn whatever_is_carried_a_step_is_one_of_few_and_goes_down_no_sooner_than_a_minute_after_it_went_up(
        percents in prop::collection::vec(-10.0..150.0_f64, 1..400),
    ) {
        let mut story = Story::default();
        let (mut last, mut raised_at) = (0, None);
        for percent in percents {
            let kept = story.after(1, percent);
            prop_assert!(kept == 0 || STEPS.contains(&kept), "{}", kept);
            if kept > last {
                raised_at = Some(story.now);
            }
            if kept < last {
                let since = raised_at.map(|at| story.now - at);
                prop_assert!(since.is_some_and(|since| since >= HOLD), "{:?}", since);
            }
            last = kept;
        }
    }
}
