//! The loop second by second, and closed over a simulated fabric for an hour: G10 of the goals.

use proptest::prelude::*;

use super::*;

type Uplinks = BTreeMap<Arc<str>, Uplink>;

/// Uplinks of equal capacity and prediction, of which one has so much more.
fn uplinks(count: u32, more: f64) -> Uplinks {
    let uplink = |number: u32| {
        let measured_bps = if number == 0 {
            50e9 * (1.0 + more)
        } else {
            50e9
        };
        let uplink = Uplink {
            measured_bps,
            predicted_share: 1.0,
            capacity_bps: 100e9,
        };
        (format!("eth{number}").into(), uplink)
    };
    (0..count).map(uplink).collect()
}

/// One leaf and a clock.
#[derive(Default)]
struct Story {
    load: Load,
    now: Duration,
}

impl Story {
    fn seconds(&mut self, seconds: u32, plan: u64, uplinks: &Uplinks) -> Vec<Judgement> {
        let one = |_| {
            self.now += Duration::from_secs(1);
            self.load.learn(&"leaf1".into(), plan, uplinks, self.now)
        };
        (0..seconds).map(one).collect()
    }

    /// Seconds until it is to be acted.
    fn until_off(&mut self, plan: u64, uplinks: &Uplinks) -> u32 {
        (1..2000)
            .find(|_| matches!(self.seconds(1, plan, uplinks)[0], Judgement::Off { .. }))
            .expect("off at some time")
    }
}

#[test]
fn a_leaf_as_foreseen_is_fine() {
    let mut story = Story::default();
    for more in [0.0, 0.05, -0.5] {
        let found = story.seconds(600, 1, &uplinks(8, more));
        assert!(found.iter().all(|it| *it == Judgement::Fine), "{more}");
    }
}

#[test]
fn a_leaf_that_is_off_is_acted_on_once_and_held() {
    let mut story = Story::default();
    story.seconds(60, 1, &uplinks(8, 0.0));
    let off = uplinks(8, 0.5);
    // The mean follows the step.
    assert!((6..25).contains(&story.until_off(1, &off)));
    let held = story.seconds(29, 1, &off);
    let until = story.now + Duration::from_secs(1);
    for judgement in held {
        let Judgement::Held { by, until: found } = judgement else {
            panic!("{judgement:?}");
        };
        assert!(by > 0.1 && found == until);
    }
    assert!(matches!(
        story.seconds(1, 1, &off)[0],
        Judgement::Off { .. }
    ));
}

#[test]
fn the_hold_down_doubles_while_acting_does_not_help() {
    let mut story = Story::default();
    let off = uplinks(8, 0.5);
    story.until_off(1, &off);
    let times: Vec<u32> = (0..7).map(|_| story.until_off(1, &off)).collect();
    assert_eq!(times, [30, 60, 120, 240, 480, 480, 480]);
    // Long fine, it begins anew.
    story.seconds(1000, 1, &uplinks(8, 0.0));
    story.until_off(1, &off);
    assert_eq!(story.until_off(1, &off), 30);
}

#[test]
fn two_samples_are_not_enough_however_far_off() {
    let mut story = Story::default();
    let off = uplinks(64, 100.0);
    // The first three seconds are the plan's to take hold.
    let found = story.seconds(6, 1, &off);
    assert_eq!(found[..5], [Judgement::Fine; 5]);
    assert!(matches!(found[5], Judgement::Off { .. }), "{found:?}");
}

/// Steps of a job with long pauses, in which a few packets go anywhere.
#[test]
fn what_is_sent_in_bursts_is_as_foreseen_if_noise_is_all_that_it_has() {
    for busy_each in [2, 5, 10, 20] {
        for seed in 1..=10 {
            let mut noise = Noise(seed);
            let mut story = Story::default();
            for second in 0..600 {
                let bps = if second % busy_each == 0 { 50e9 } else { 2e9 };
                let mut uplinks = uplinks(8, 0.0);
                for uplink in uplinks.values_mut() {
                    uplink.measured_bps = bps * (1.0 + 0.2 * noise.normal());
                }
                let found = story.seconds(1, 1, &uplinks);
                assert_eq!(found, [Judgement::Fine], "1 of {busy_each}, seed {seed}");
            }
            // And what strays is found.
            let mut odd = uplinks(8, 1.0);
            for second in 0..1_000 {
                let factor = if second % busy_each == 0 { 1.0 } else { 0.04 };
                odd.values_mut().for_each(|it| it.measured_bps *= factor);
                let found = story.seconds(1, 1, &odd);
                odd.values_mut().for_each(|it| it.measured_bps /= factor);
                if matches!(found[0], Judgement::Off { .. }) {
                    break;
                }
                assert!(second < 999, "1 of {busy_each} is never off");
            }
        }
    }
}

#[test]
fn a_leaf_that_sends_less_for_good_is_judged_by_that() {
    let mut story = Story::default();
    story.seconds(60, 1, &uplinks(8, 0.0));
    let mut less = uplinks(8, 1.0);
    less.values_mut().for_each(|it| it.measured_bps /= 10.0);
    assert!((300..400).contains(&story.until_off(1, &less)));
}

/// Rounds of a collective over four uplinks, whose flows have the same octets: those over one uplink are fast at first, and then
/// stragglers over another one are alone.
#[test]
fn flows_that_are_fast_and_end_first_are_as_foreseen() {
    for (fast, slow) in [(0, 1), (1, 0), (3, 2)] {
        let mut story = Story::default();
        for second in 0..300 {
            let carried = |uplink: usize| match second % 10 {
                0..4 if uplink == fast => 80e9,
                0..4 if uplink == slow => 20e9,
                0..4 => 40e9,
                4..7 if uplink == fast => 0.0,
                4..7 if uplink == slow => 40e9,
                4..7 => 53.3e9,
                7 if uplink == slow => 100e9,
                8 if uplink == slow => 20e9,
                _ => 0.0,
            };
            let mut uplinks = uplinks(4, 0.0);
            for (number, uplink) in uplinks.values_mut().enumerate() {
                uplink.measured_bps = carried(number);
            }
            let found = story.seconds(1, 1, &uplinks);
            assert_eq!(found, [Judgement::Fine], "second {second}");
        }
    }
}

#[test]
fn a_new_plan_begins_anew() {
    let mut story = Story::default();
    story.until_off(1, &uplinks(8, 0.5));
    // What the old plan did is not held against the new one.
    let found = story.seconds(100, 2, &uplinks(8, 0.0));
    let is_quiet = |it: &Judgement| match it {
        Judgement::Fine => true,
        Judgement::Held { by, .. } => by.abs() < 1e-9,
        Judgement::Off { .. } => false,
    };
    assert!(found.iter().all(is_quiet), "{found:?}");
}

#[test]
fn an_idle_leaf_and_one_of_which_nothing_is_foreseen_are_fine() {
    let idle = Uplink {
        measured_bps: 1.0,
        predicted_share: 1.0,
        capacity_bps: 100e9,
    };
    let nothing = Uplink {
        measured_bps: 50e9,
        predicted_share: 0.0,
        ..idle
    };
    let broken = Uplink {
        measured_bps: f64::NAN,
        predicted_share: f64::INFINITY,
        capacity_bps: -1.0,
    };
    for uplink in [idle, nothing, broken] {
        let mut uplinks = uplinks(2, 0.0);
        uplinks.values_mut().for_each(|it| *it = uplink);
        if let Some(first) = uplinks.values_mut().next() {
            first.measured_bps *= 10.0;
        }
        let found = Story::default().seconds(100, 1, &uplinks);
        assert!(found.iter().all(|it| *it == Judgement::Fine), "{uplink:?}");
    }
}

#[test]
fn load_is_measured_against_capacity() {
    // A tenth of the capacity, a tenth of the traffic.
    let mut uplinks = uplinks(4, 0.0);
    if let Some(first) = uplinks.values_mut().next() {
        first.measured_bps /= 10.0;
        first.capacity_bps /= 10.0;
        first.predicted_share /= 10.0;
    }
    let found = Story::default().seconds(100, 1, &uplinks);
    assert!(found.iter().all(|it| *it == Judgement::Fine));
    // Twice of that is off, though it is the least of all uplinks.
    if let Some(first) = uplinks.values_mut().next() {
        first.measured_bps *= 2.0;
    }
    Story::default().until_off(1, &uplinks);
}

#[test]
fn shares_are_known_after_some_samples() {
    let mut story = Story::default();
    story.seconds(5, 1, &uplinks(4, 0.0));
    assert!(story.load.shares("leaf1").is_empty());
    story.seconds(1, 1, &uplinks(4, 0.0));
    let shares = story.load.shares("leaf1");
    assert!(shares.values().all(|share| (share - 0.25).abs() < 1e-9));
    assert_eq!(shares.len(), 4);
    story.load.retain(|_| false);
    assert!(story.load.shares("leaf1").is_empty());
}

/// Numbers that look random, the same each time.
struct Noise(u64);

impl Noise {
    /// From 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).expect("32 bits")) / f64::from(u32::MAX)
    }

    /// Around 0, with a standard deviation of 1.
    fn normal(&mut self) -> f64 {
        ((0..4).map(|_| self.uniform()).sum::<f64>() - 2.0) * 3.0f64.sqrt()
    }
}

const LEAVES: usize = 16;
const UPLINKS: usize = 32;
const CAPACITY: f64 = 100.0;

/// A leaf: a job spread by weights, background beside it, and the plan that was made of both.
#[derive(Clone)]
struct Plant {
    background: Vec<f64>,
    /// The job's traffic, and its share on each uplink: as programmed, and as the switch has it a second later.
    job: f64,
    programmed: Vec<f64>,
    running: Vec<f64>,
    /// The background that the plan reckons with, and the number of the plan.
    reckoned: Vec<f64>,
    plan: u64,
    /// What was carried a second ago.
    carried: Vec<f64>,
    names: Vec<Arc<str>>,
    actions: Vec<u64>,
    moved: f64,
}

impl Plant {
    fn new(job: f64, background: f64) -> Self {
        let even = vec![1.0 / UPLINKS as f64; UPLINKS];
        Self {
            background: vec![background; UPLINKS],
            job: job * UPLINKS as f64,
            programmed: even.clone(),
            running: even,
            reckoned: vec![background; UPLINKS],
            plan: 1,
            carried: vec![job + background; UPLINKS],
            names: (0..UPLINKS)
                .map(|number| format!("eth{number:02}").into())
                .collect(),
            actions: Vec::new(),
            moved: 0.0,
        }
    }

    fn load(&self) -> Vec<f64> {
        let pairs = self.running.iter().zip(&self.background);
        pairs
            .map(|(share, background)| share * self.job + background)
            .collect()
    }

    /// What is measured, a second late and with noise, and what is foreseen.
    fn sample(&mut self, noise: &mut Noise, sigma: f64) -> Uplinks {
        let load = self.load();
        let carried = std::mem::replace(&mut self.carried, load);
        let uplink = |(number, carried): (usize, &f64)| {
            let uplink = Uplink {
                measured_bps: carried * (1.0 + sigma * noise.normal()),
                predicted_share: self.programmed[number] * self.job + self.reckoned[number],
                capacity_bps: CAPACITY,
            };
            (Arc::clone(&self.names[number]), uplink)
        };
        carried.iter().enumerate().map(uplink).collect()
    }

    /// A new plan from what was measured: level, by steps of a quarter of each weight at most.
    fn act(&mut self, second: u64, shares: &BTreeMap<Arc<str>, f64>, total: f64) {
        let own = self.programmed.iter().map(|share| share * self.job);
        let measured = shares.values().map(|share| share * total);
        self.reckoned = measured
            .zip(own)
            .map(|(all, own)| (all - own).max(0.0))
            .collect();
        let level = (self.job + self.reckoned.iter().sum::<f64>()) / UPLINKS as f64;
        let pairs = self.programmed.iter().zip(&self.reckoned);
        let wanted = pairs.map(|(before, background)| {
            let wanted = (level - background).max(0.0) / self.job;
            wanted.clamp(before * 0.75, before * 1.25)
        });
        let wanted: Vec<f64> = wanted.collect();
        let sum: f64 = wanted.iter().sum();
        let after: Vec<f64> = wanted.iter().map(|share| share / sum).collect();
        let moved = self
            .programmed
            .iter()
            .zip(&after)
            .map(|(a, b)| (a - b).abs());
        self.moved += moved.sum::<f64>() / 2.0;
        self.programmed = after;
        self.plan += 1;
        self.actions.push(second);
    }
}

/// An hour. At each step, 5 % of all links get half more, or half less, background.
fn hour(job: f64, background: f64, sigma: f64, seed: u64, steps: &[(u64, f64)]) -> Vec<Plant> {
    let mut noise = Noise(seed);
    let mut plants = vec![Plant::new(job, background); LEAVES];
    let mut load = Load::default();
    for second in 0..3600 {
        for (_, factor) in steps.iter().filter(|(at, _)| *at == second) {
            for _ in 0..LEAVES * UPLINKS / 20 {
                let link = noise.uniform() * ((LEAVES * UPLINKS) as f64 - 1.0);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                let link = link as usize;
                plants[link / UPLINKS].background[link % UPLINKS] = background * factor;
            }
        }
        for (number, plant) in plants.iter_mut().enumerate() {
            let name: Arc<str> = format!("leaf{number}").into();
            let sample = plant.sample(&mut noise, sigma);
            let total = sum(&sample, |uplink| uplink.measured_bps);
            let running = plant.programmed.clone();
            let judgement = load.learn(&name, plant.plan, &sample, Duration::from_secs(second));
            if let Judgement::Off { .. } = judgement {
                plant.act(second, &load.shares(&name), total);
            }
            plant.running = running;
        }
    }
    plants
}

const STEPS: [(u64, f64); 3] = [(600, 1.5), (1600, 0.5), (2600, 1.5)];

fn assert_settles(plants: &[Plant], steps: &[(u64, f64)], case: &str) {
    for plant in plants {
        let begins = steps.iter().map(|(begin, _)| *begin);
        let ends = begins.clone().skip(1).chain([u64::MAX]);
        for (begin, end) in begins.clone().zip(ends) {
            let actions = plant.actions.iter().filter(|at| (begin..end).contains(*at));
            assert!(actions.count() <= 2, "{case}: {:?}", plant.actions);
        }
        let first = begins.min().unwrap_or_default();
        let early = plant.actions.iter().any(|at| *at < first);
        assert!(!early, "{case}: without a step: {:?}", plant.actions);
    }
}

#[test]
fn steps_of_background_settle_in_two_actions_and_nothing_oscillates() {
    // (job, background) on each uplink of 100: a little, half, and mostly background.
    for (job, background) in [(60.0, 20.0), (40.0, 40.0), (20.0, 60.0)] {
        for (seed, steps) in (1..).zip([&STEPS[..], &STEPS[..1]]) {
            let case = format!("job {job}, background {background}, seed {seed}");
            let plants = hour(job, background, 0.1, seed, steps);
            assert_settles(&plants, steps, &case);
            // It was acted on.
            let actions: usize = plants.iter().map(|plant| plant.actions.len()).sum();
            assert!(actions > 0, "{case}");
        }
    }
}

#[test]
fn an_hour_of_noise_alone_needs_no_action() {
    for seed in 1..=3 {
        let plants = hour(40.0, 40.0, 0.1, seed, &[]);
        let actions: usize = plants.iter().map(|plant| plant.actions.len()).sum();
        assert_eq!(actions, 0, "seed {seed}");
    }
}

#[test]
fn acting_helps_and_moves_little() {
    let plants = hour(60.0, 20.0, 0.1, 5, &STEPS[..1]);
    let acted = plants.iter().filter(|plant| !plant.actions.is_empty());
    let mut count = 0;
    for plant in acted {
        let load = plant.load();
        let mean = load.iter().sum::<f64>() / UPLINKS as f64;
        let most = load.iter().copied().fold(0.0, f64::max);
        assert!(most < mean * 1.1, "{most} against {mean}");
        count += 1;
    }
    assert!(count > 0);
    let moved: f64 = plants.iter().map(|plant| plant.moved).sum();
    let moved = moved / LEAVES as f64;
    assert!(moved < 0.01, "{moved}");
}

proptest! {
    #[test]
    fn however_it_is_measured_actions_are_few(
        seconds in proptest::collection::vec(
            (0u64..3, proptest::collection::vec((any::<f64>(), any::<f64>(), any::<f64>()), 0..4), -1.0..9.0f64),
            0..400),
    ) {
        let leaf: Arc<str> = "leaf1".into();
        let mut load = Load::default();
        let (mut now, mut acted_at) = (Duration::ZERO, None::<Duration>);
        for (plan, raw, more) in seconds {
            now += Duration::from_secs(1);
            let raw = raw.into_iter().enumerate().map(|(number, (measured_bps, predicted_share, capacity_bps))| {
                let uplink = Uplink { measured_bps, predicted_share, capacity_bps };
                (format!("eth{number}").into(), uplink)
            });
            let mut uplinks = uplinks(4, more);
            if plan == 2 {
                uplinks = raw.collect();
            }
            match load.learn(&leaf, 1, &uplinks, now) {
                Judgement::Fine => {}
                Judgement::Held { by, until } => prop_assert!(by.is_finite() && until > now),
                Judgement::Off { by } => {
                    prop_assert!(by > OFF_MIN && by.is_finite());
                    prop_assert!(acted_at.is_none_or(|at| now - at >= HOLD_MIN));
                    acted_at = Some(now);
                }
            }
        }
    }
}
