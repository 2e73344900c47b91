//! The load loop: whether the uplinks of a leaf carry what the plan foresaw, and when to act on it if not. It refuses to
//! know plans beyond their number and predicted shares, and what acting is.
//!
//! ```text
//! each second:  measured bits per second of each uplink --> shares --> means over some 40 s, of busy seconds more than of others
//!               max(mean / capacity) against max(predicted / capacity): more than 10 % above, 3 samples in a row
//!                 --> Off, once, then Held: 30 s; twice that if the leaf is off again soon, 8 min at most
//! ```
//!
//! The flows of a collective do not share a NIC evenly at each moment: those that were fast end first, and the others follow. Only the
//! mean of a round is as foreseen, weighted by what is carried. So while a mean is of few samples yet, more than 10 % is asked of it:
//! 79 % of ten, 26 % of thirty. The greatest of 64 noisy values is always too great, too; at 10 % noise all of these are nine standard
//! deviations or more: of the sum of this noise and of the noise that the plan was made of, six.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One uplink of a leaf in one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uplink {
    /// What it carries, in bits per second.
    pub measured_bps: f64,
    /// What the plan foresees, as a share of what the leaf sends up. Shares need not add up to 1.
    pub predicted_share: f64,
    /// What it can carry, in bits per second.
    pub capacity_bps: f64,
}

/// What follows for a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Judgement {
    /// As foreseen, or too little to tell.
    Fine,
    /// Act now: the most loaded uplink has more than foreseen, by this part of it (0.2: 20 %).
    Off {
        /// By what part.
        by: f64,
    },
    /// Do not act: it was acted on a short time ago. The leaf may be off still.
    Held {
        /// By what part; 0 if not known.
        by: f64,
        /// When it may be Off again.
        until: Duration,
    },
}

/// The loop of every leaf.
#[derive(Clone, Debug, Default)]
pub struct Load {
    leaves: BTreeMap<Arc<str>, Leaf>,
}

#[derive(Clone, Debug)]
struct Leaf {
    plan: u64,
    plan_since: Duration,
    learnt_at: Option<Duration>,
    /// Mean shares by uplink, times the part of the capacity that was in use, of this many samples: as measured, and as predicted, for
    /// what NICs send changes.
    shares: BTreeMap<Arc<str>, f64>,
    predicted: Vec<f64>,
    samples: u32,
    /// The mean part of the capacity that was in use.
    in_use: f64,
    /// Seconds in a row that were passed over for little was in use.
    quiet: u32,
    /// Samples in a row that are off.
    run: u32,
    hold: Duration,
    acted_at: Option<Duration>,
}

impl Load {
    /// Learns a second of a leaf, and judges. `plan` is the number of the plan that the predicted shares are of: a new one
    /// makes what was measured before void, and is given three seconds to take hold. Seconds that follow the one before by
    /// less than half a second are passed over.
    pub fn learn(
        &mut self,
        leaf: &Arc<str>,
        plan: u64,
        uplinks: &BTreeMap<Arc<str>, Uplink>,
        now: Duration,
    ) -> Judgement {
        let known = self.leaves.entry(Arc::clone(leaf));
        let known = known.or_insert_with(|| Leaf::new(plan, now));
        known.learn(plan, uplinks, now)
    }

    /// The mean share that each uplink of a leaf carries: what the next plan may reckon with. Empty: too little is known.
    #[must_use]
    pub fn shares(&self, leaf: &str) -> BTreeMap<Arc<str>, f64> {
        let known = self.leaves.get(leaf);
        let Some(known) = known.filter(|leaf| leaf.samples >= SAMPLES_MIN) else {
            return BTreeMap::new();
        };
        let all: f64 = known.shares.values().sum();
        let shares = known.shares.iter();
        let shares = shares.map(|(name, share)| (Arc::clone(name), share / all));
        shares.collect()
    }

    /// Forgets the leaves of which that does not hold.
    pub fn retain(&mut self, mut holds: impl FnMut(&str) -> bool) {
        self.leaves.retain(|name, _| holds(name));
    }
}

impl Leaf {
    fn new(plan: u64, now: Duration) -> Self {
        Self {
            plan,
            plan_since: now,
            learnt_at: None,
            shares: BTreeMap::new(),
            predicted: Vec::new(),
            samples: 0,
            in_use: 0.0,
            quiet: 0,
            run: 0,
            hold: HOLD_MIN,
            acted_at: None,
        }
    }

    fn learn(
        &mut self,
        plan: u64,
        uplinks: &BTreeMap<Arc<str>, Uplink>,
        now: Duration,
    ) -> Judgement {
        if self.plan != plan {
            (self.plan, self.plan_since) = (plan, now);
            (self.samples, self.run) = (0, 0);
        }
        let is_settled = now.saturating_sub(self.plan_since) >= SETTLE;
        let is_new = self
            .learnt_at
            .is_none_or(|at| now.saturating_sub(at) >= APART_MIN);
        if !is_settled || !is_new || !self.measure(uplinks) {
            return self.held(0.0, now).unwrap_or(Judgement::Fine);
        }
        self.learnt_at = Some(now);
        let Some(by) = self.off_by(uplinks) else {
            return self.held(0.0, now).unwrap_or(Judgement::Fine);
        };
        self.run = if by > self.threshold() {
            self.run + 1
        } else {
            0
        };
        if let Some(held) = self.held(by, now) {
            return held;
        }
        if self.run < SAMPLES_MIN {
            return Judgement::Fine;
        }
        self.act(now);
        Judgement::Off { by }
    }

    /// Takes a second into the means. False: there is too little traffic to tell shares, or so little beside that of other seconds that
    /// it would lower what is asked of the means and say nothing.
    fn measure(&mut self, uplinks: &BTreeMap<Arc<str>, Uplink>) -> bool {
        let total = sum(uplinks, |uplink| uplink.measured_bps);
        let capacity = sum(uplinks, |uplink| uplink.capacity_bps);
        let foreseen = sum(uplinks, |uplink| uplink.predicted_share);
        if total <= 0.0 || total < capacity * IDLE_MAX || foreseen <= 0.0 {
            return false;
        }
        if !self.shares.keys().eq(uplinks.keys()) {
            self.shares = uplinks.keys().map(|name| (Arc::clone(name), 0.0)).collect();
            self.predicted = vec![0.0; uplinks.len()];
            (self.samples, self.run) = (0, 0);
        }
        let in_use = (total / capacity).min(1.0);
        if self.in_use < in_use * QUIET {
            // What was measured before says nothing beside this.
            (self.samples, self.run) = (0, 0);
        }
        if self.samples > 0 && in_use < self.in_use * QUIET {
            self.quiet += 1;
            if self.quiet > QUIET_MOST {
                (self.samples, self.run, self.quiet) = (0, 0, 0);
            }
            return false;
        }
        self.quiet = 0;
        self.samples = self.samples.saturating_add(1);
        let part = 1.0 / f64::from(self.samples.min(MEAN_OVER));
        self.in_use += (in_use - self.in_use) * part;
        let means = self.shares.values_mut().zip(&mut self.predicted);
        for ((mean, predicted), uplink) in means.zip(uplinks.values()) {
            let share = amount(uplink.measured_bps) / total;
            *mean += (share * in_use - *mean) * part;
            let share = amount(uplink.predicted_share) / foreseen;
            *predicted += (share * in_use - *predicted) * part;
        }
        true
    }

    /// By what part the most loaded uplink is above what the most loaded one should have. None: nothing was foreseen.
    fn off_by(&self, uplinks: &BTreeMap<Arc<str>, Uplink>) -> Option<f64> {
        let most = |shares: &mut dyn Iterator<Item = &f64>| {
            let pairs = shares.zip(uplinks.values());
            let pairs = pairs.filter(|(_, uplink)| amount(uplink.capacity_bps) > 0.0);
            let loads = pairs.map(|(share, uplink)| share / uplink.capacity_bps);
            loads.fold(0.0, f64::max)
        };
        let predicted = most(&mut self.predicted.iter());
        let by = most(&mut self.shares.values()) / predicted - 1.0;
        (predicted > 0.0 && by.is_finite()).then_some(by)
    }

    /// More, of a mean of few samples.
    fn threshold(&self) -> f64 {
        let samples = f64::from(self.samples.max(1));
        OFF_MIN * (SAMPLES_LIKE / samples).max(1.0)
    }

    fn held(&self, by: f64, now: Duration) -> Option<Judgement> {
        let until = self.acted_at?.saturating_add(self.hold);
        (now < until).then_some(Judgement::Held { by, until })
    }

    fn act(&mut self, now: Duration) {
        let again = self
            .acted_at
            .is_some_and(|at| now.saturating_sub(at) < RELAPSE_WITHIN);
        self.hold = match again {
            true => (self.hold * 2).min(HOLD_MAX),
            false => HOLD_MIN,
        };
        (self.acted_at, self.run) = (Some(now), 0);
    }
}

fn sum(uplinks: &BTreeMap<Arc<str>, Uplink>, of: impl Fn(&Uplink) -> f64) -> f64 {
    uplinks.values().map(|uplink| amount(of(uplink))).sum()
}

/// A number that says how much: what is none, or below zero, is nothing.
fn amount(number: f64) -> f64 {
    if number.is_finite() {
        number.max(0.0)
    } else {
        0.0
    }
}

/// Above what was foreseen.
pub const OFF_MIN: f64 = 0.1;

/// Samples in a row that must be off.
pub const SAMPLES_MIN: u32 = 3;

/// After acting.
pub const HOLD_MIN: Duration = Duration::from_secs(30);

/// The longest that the hold-down gets.
pub const HOLD_MAX: Duration = Duration::from_secs(480);

/// Off again within this time: acting did not help, or not for long.
pub const RELAPSE_WITHIN: Duration = Duration::from_secs(960);

/// Until a new plan is programmed, and its traffic measured.
const SETTLE: Duration = Duration::from_secs(3);

/// Between two seconds that count.
const APART_MIN: Duration = Duration::from_millis(500);

/// Of the capacity of the uplinks. Below, shares are those of a few flows.
const IDLE_MAX: f64 = 0.01;

/// A second is passed over if less of the capacity is in use than this part of the mean.
const QUIET: f64 = 0.25;

/// Seconds in a row that are passed over, at most: then the means begin anew.
const QUIET_MOST: u32 = 300;

/// Samples of a mean: the first are weighted alike, then it is an EWMA with alpha 0.025.
const MEAN_OVER: u32 = 40;

/// An EWMA with alpha 0.025 is as quiet as the mean of (2 - alpha) / alpha samples.
const SAMPLES_LIKE: f64 = 79.0;

#[cfg(test)]
mod tests;
