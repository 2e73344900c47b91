//! Percent of the uplinks of a leaf that pins leave alone, for what no job declares. It refuses to know jobs, where loads come from,
//! who adopts its decisions, and leaves beyond their names.
//!
//! ```text
//!            3 means in a row above a step                    for 60 s more than half a step below
//!   0 % ----------------------------------> 10 % ... 50 % ----------------------------------------> the most of these 60 s
//!             at once, however high                                    nothing is heard for 5 min ----> 0 %
//! ```
//!
//! Means are over some 40 s. What stays below a tenth of the uplinks keeps nothing free.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What the uplinks of a leaf carry that no job declares, in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried {
    /// What the leaf sends to spines.
    pub up_bps: f64,
    /// What spines send to the leaf.
    pub down_bps: f64,
    /// What all usable uplinks can carry in each direction.
    pub capacity_bps: f64,
}

impl Carried {
    /// Shares of the capacity, up and down. None: there is no capacity.
    fn shares(&self) -> Option<[f64; 2]> {
        let share = |bps: f64| (bps / self.capacity_bps).clamp(0.0, 1.0);
        let shares = [share(self.up_bps), share(self.down_bps)];
        let is_known = self.capacity_bps > 0.0 && shares.iter().all(|share| share.is_finite());
        is_known.then_some(shares)
    }
}

/// What every leaf keeps free.
#[derive(Clone, Debug, Default)]
pub struct KeptFree {
    leaves: BTreeMap<Arc<str>, Leaf>,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    percent: u8,
    /// Mean shares, up and down, and the time that they are of.
    means: [f64; 2],
    mean_of: Duration,
    /// Means in a row that ask for more, and the least that they ask for.
    run: u32,
    run_percent: u8,
    /// Since when all means ask for less, and the most that they ask for.
    below_since: Option<Duration>,
    below_percent: u8,
    /// When the last sample was learnt.
    learnt_at: Option<Duration>,
    heard_at: Duration,
}

impl KeptFree {
    /// Learns a sample of a leaf, and decides: the percent of its uplinks that is kept free from now on. A sample that follows the
    /// one before by less than half a second is passed over, as is one without a capacity.
    pub fn learn(&mut self, leaf: &Arc<str>, carried: &Carried, now: Duration) -> u8 {
        let known = self.leaves.entry(Arc::clone(leaf));
        let known = known.or_insert_with(|| Leaf::new(0, now));
        if let Some(shares) = carried.shares() {
            known.learn(shares, now);
        }
        known.percent
    }

    /// Takes over what somebody else decided: the leader before, from what was adopted.
    pub fn take_over(&mut self, leaf: &Arc<str>, percent: u8, now: Duration) {
        let percent = percent.min(PERCENT_MAX);
        self.leaves
            .insert(Arc::clone(leaf), Leaf::new(percent, now));
    }

    /// Keeps nothing free any more at leaves of which nothing was learnt for long.
    pub fn expire(&mut self, now: Duration) {
        let leaves = self.leaves.values_mut();
        for leaf in leaves.filter(|it| now.saturating_sub(it.heard_at) >= SILENT_MAX) {
            leaf.percent = 0;
        }
    }

    /// Whether something was learnt of a leaf, or taken over.
    #[must_use]
    pub fn knows(&self, leaf: &str) -> bool {
        self.leaves.contains_key(leaf)
    }

    /// Percent of the uplinks of one leaf that is kept free; 0: none.
    #[must_use]
    pub fn of(&self, leaf: &str) -> u8 {
        self.leaves.get(leaf).map_or(0, |leaf| leaf.percent)
    }

    /// The leaves that keep something free, and how many percent.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, u8)> {
        let all = self.leaves.iter().map(|(name, leaf)| (name, leaf.percent));
        all.filter(|(_, percent)| *percent > 0)
    }

    /// Forgets the leaves of which that does not hold: those that are declared no more.
    pub fn retain(&mut self, mut holds: impl FnMut(&str) -> bool) {
        self.leaves.retain(|name, _| holds(name));
    }
}

impl Leaf {
    fn new(percent: u8, now: Duration) -> Self {
        Self {
            percent,
            means: [0.0; 2],
            mean_of: Duration::ZERO,
            run: 0,
            run_percent: 0,
            below_since: None,
            below_percent: 0,
            learnt_at: None,
            heard_at: now,
        }
    }

    fn learn(&mut self, shares: [f64; 2], now: Duration) {
        let passed = self.learnt_at.map(|at| now.saturating_sub(at));
        if passed.is_some_and(|passed| passed < APART_MIN) {
            return;
        }
        (self.learnt_at, self.heard_at) = (Some(now), now);
        match passed {
            Some(passed) if passed <= GAP_MAX => {
                self.mean_of = self.mean_of.saturating_add(passed).min(MEAN_OVER);
                let part = passed.as_secs_f64() / self.mean_of.as_secs_f64();
                for (mean, share) in self.means.iter_mut().zip(shares) {
                    *mean += (share - *mean) * part;
                }
            }
            // What was not seen was not below, and not in a row.
            _ => {
                (self.means, self.mean_of) = (shares, FIRST);
                (self.run, self.below_since) = (0, None);
            }
        }
        let [up, down] = self.means;
        self.decide(up.max(down) * 100.0, now);
    }

    fn decide(&mut self, mean_percent: f64, now: Duration) {
        let above = step_below(mean_percent);
        let below = step_below(mean_percent + HYSTERESIS_PERCENT);
        if above > self.percent {
            self.below_since = None;
            // The first seconds may be a burst.
            if self.mean_of >= SETTLED {
                self.ask_more(above);
            }
        } else if below < self.percent {
            self.run = 0;
            self.ask_less(below, now);
        } else {
            (self.run, self.below_since) = (0, None);
        }
    }

    fn ask_more(&mut self, percent: u8) {
        self.run_percent = match self.run {
            0 => percent,
            _ => self.run_percent.min(percent),
        };
        self.run += 1;
        if self.run >= MEANS_MIN {
            (self.percent, self.run) = (self.run_percent, 0);
        }
    }

    fn ask_less(&mut self, percent: u8, now: Duration) {
        let since = *self.below_since.get_or_insert_with(|| {
            self.below_percent = percent;
            now
        });
        self.below_percent = self.below_percent.max(percent);
        if now.saturating_sub(since) >= HOLD {
            (self.percent, self.below_since) = (self.below_percent, None);
        }
    }
}

/// The highest step that a number of percent is above; 0: it is above none.
fn step_below(percent: f64) -> u8 {
    let mut steps = STEPS.into_iter().rev();
    let step = steps.find(|step| percent > f64::from(*step));
    step.unwrap_or(0)
}

/// The most that is kept free: jobs always have the rest.
pub const PERCENT_MAX: u8 = 50;

/// Means in a row that must be above a step.
pub const MEANS_MIN: u32 = 3;

/// How long means must be below a step before less is kept free.
pub const HOLD: Duration = Duration::from_secs(60);

/// After so long without a sample nothing is known of a leaf.
pub const SILENT_MAX: Duration = Duration::from_secs(300);

/// Percent that may be kept free: each step is a plan that many switches get.
const STEPS: [u8; 5] = [10, 20, 30, 40, PERCENT_MAX];

/// Half a step: a mean that moves around a step moves no plan.
const HYSTERESIS_PERCENT: f64 = 5.0;

/// Samples are weighted alike until they are of so long; then it is an EWMA.
const MEAN_OVER: Duration = Duration::from_secs(40);

/// What the first sample of a mean counts for.
const FIRST: Duration = Duration::from_secs(1);

/// Before a mean is of so long, nothing more is kept free for it.
const SETTLED: Duration = Duration::from_secs(20);

/// Between two samples that count.
const APART_MIN: Duration = Duration::from_millis(500);

/// Between two samples; beyond, the leaf was not seen. Some switches give one each 10 s.
const GAP_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
