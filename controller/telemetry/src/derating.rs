//! Errors, discards and pause frames of a link as percent of its capacity that should carry nothing. It refuses to know
//! where rates come from, who adopts its decisions, and links beyond their names.
//!
//! ```text
//!          3 samples in a row ask for more            clean for the hold-down, seen all the while
//!   0 % ------------------------------> 25 % ... 75 % ------------------------------------------> 25 % less
//!          25 % a step                                30 s; twice that after each relapse, 8 min at most
//! ```
//!
//! A link is never derated to nothing: one that is as bad as that is for an operator, or for the switch, to take down.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::rates::{InterfaceRates, Rate};

/// What one sample says of a link: rates between the last two readings, not means, for a burst must be over when it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Symptoms {
    /// Octets per second, both ways.
    pub octets_per_s: f64,
    /// Packets with errors per second, both ways.
    pub errors_per_s: f64,
    /// Discarded packets per second, out: what the port could not carry. In-discards count filters and unknown VLANs too.
    pub discards_per_s: f64,
    /// Pause frames per second received.
    pub pause_frames_per_s: f64,
    /// In bits per second, if told.
    pub speed_bps: Option<u64>,
    /// When the newest of its readings arrived. A sample that is not newer than the one before is passed over.
    pub received: Duration,
}

/// Why a link is derated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Packets with errors: a bad transceiver, fibre or FEC.
    Errors,
    /// Packets that the port discarded.
    Discards,
    /// The other end asks to pause.
    Pause,
}

/// What should be done with a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Percent of the capacity to leave alone, 0 to 75.
    pub derating_percent: u8,
    /// Why it was raised last. None: it is 0, or was taken over.
    pub cause: Option<Cause>,
}

/// The deratings of all links.
#[derive(Clone, Debug, Default)]
pub struct Derating {
    links: BTreeMap<Arc<str>, Link>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    decision: Decision,
    /// Samples in a row that ask for more, and the least that they ask for.
    run: u32,
    run_percent: u8,
    /// Since when all samples ask for less, and the most that they ask for.
    clean_since: Option<Duration>,
    clean_percent: u8,
    hold: Duration,
    improved_at: Option<Duration>,
    received: Option<Duration>,
    heard_at: Duration,
}

impl Symptoms {
    /// Of one end of a link. None: nothing that counts is known.
    #[must_use]
    pub fn of(rates: &InterfaceRates) -> Option<Self> {
        let all = [
            rates.in_octets,
            rates.out_octets,
            rates.in_errors,
            rates.out_errors,
            rates.out_discards,
            rates.in_pause_frames,
        ];
        let received = all.into_iter().flatten().map(|rate| rate.received).max()?;
        let per_s = |rate: Option<Rate>| rate.map_or(0.0, |rate| rate.last_per_s);
        Some(Self {
            octets_per_s: per_s(rates.in_octets) + per_s(rates.out_octets),
            errors_per_s: per_s(rates.in_errors) + per_s(rates.out_errors),
            discards_per_s: per_s(rates.out_discards),
            pause_frames_per_s: per_s(rates.in_pause_frames),
            speed_bps: rates.speed_bps,
            received,
        })
    }

    /// Of both ends together: the worse of each.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        Self {
            octets_per_s: self.octets_per_s.max(other.octets_per_s),
            errors_per_s: self.errors_per_s.max(other.errors_per_s),
            discards_per_s: self.discards_per_s.max(other.discards_per_s),
            pause_frames_per_s: self.pause_frames_per_s.max(other.pause_frames_per_s),
            speed_bps: self.speed_bps.or(other.speed_bps),
            received: self.received.max(other.received),
        }
    }

    /// What this sample alone asks for.
    fn wanted(&self) -> Decision {
        let packets_per_s = (self.octets_per_s / PACKET_OCTETS).max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a speed, not a count")]
        let speed_bps = self.speed_bps.map_or(SPEED_BPS, |bps| bps.max(1) as f64);
        let shares = [
            (
                Cause::Errors,
                self.errors_per_s,
                self.errors_per_s / packets_per_s,
            ),
            (
                Cause::Discards,
                self.discards_per_s,
                self.discards_per_s / packets_per_s,
            ),
            (
                Cause::Pause,
                self.pause_frames_per_s,
                self.pause_frames_per_s * PAUSE_BITS / speed_bps,
            ),
        ];
        let mut wanted = Decision::default();
        for (cause, per_s, share) in shares {
            for level in LEVELS.iter().filter(|level| level.cause == cause) {
                let is_met = per_s >= level.per_s_min && share >= level.share_min;
                if is_met && level.percent > wanted.derating_percent {
                    wanted = Decision {
                        derating_percent: level.percent,
                        cause: Some(cause),
                    };
                }
            }
        }
        wanted
    }
}

impl Derating {
    /// Learns what a sample says of a link, and decides. None: nothing is known of it now, and nothing changes.
    pub fn learn(
        &mut self,
        link: &Arc<str>,
        symptoms: Option<&Symptoms>,
        now: Duration,
    ) -> Decision {
        let known = self.links.entry(Arc::clone(link));
        let known = known.or_insert_with(|| Link::new(0, now));
        if let Some(symptoms) = symptoms {
            known.learn(symptoms, now);
        }
        known.decision
    }

    /// Takes over a derating that somebody else decided: the leader before, from what was adopted.
    pub fn take_over(&mut self, link: &Arc<str>, derating_percent: u8, now: Duration) {
        let percent = derating_percent.min(PERCENT_MAX);
        self.links.insert(Arc::clone(link), Link::new(percent, now));
    }

    /// The decision on one link as it stands.
    #[must_use]
    pub fn of(&self, link: &str) -> Decision {
        self.links
            .get(link)
            .map(|link| link.decision)
            .unwrap_or_default()
    }

    /// The links that are derated.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Decision)> {
        let all = self.links.iter().map(|(name, link)| (name, link.decision));
        all.filter(|(_, decision)| decision.derating_percent > 0)
    }

    /// Forgets the links of which that does not hold: those that are declared no more.
    pub fn retain(&mut self, mut holds: impl FnMut(&str) -> bool) {
        self.links.retain(|name, _| holds(name));
    }
}

impl Link {
    fn new(derating_percent: u8, now: Duration) -> Self {
        Self {
            decision: Decision {
                derating_percent,
                cause: None,
            },
            run: 0,
            run_percent: 0,
            clean_since: None,
            clean_percent: 0,
            hold: HOLD_MIN,
            improved_at: None,
            received: None,
            heard_at: now,
        }
    }

    fn learn(&mut self, symptoms: &Symptoms, now: Duration) {
        if self
            .received
            .is_some_and(|received| symptoms.received <= received)
        {
            return;
        }
        self.received = Some(symptoms.received);
        // What was not seen was not clean, and not in a row.
        if now.saturating_sub(self.heard_at) > GAP_MAX {
            (self.run, self.clean_since) = (0, None);
        }
        self.heard_at = now;
        let wanted = symptoms.wanted();
        let percent = self.decision.derating_percent;
        if wanted.derating_percent > percent {
            self.ask_more(wanted, now);
        } else if wanted.derating_percent < percent {
            self.run = 0;
            self.ask_less(wanted.derating_percent, now);
        } else {
            (self.run, self.clean_since) = (0, None);
        }
    }

    fn ask_more(&mut self, wanted: Decision, now: Duration) {
        let percent = wanted.derating_percent;
        self.clean_since = None;
        self.run_percent = match self.run {
            0 => percent,
            _ => self.run_percent.min(percent),
        };
        self.run += 1;
        if self.run < SAMPLES_MIN {
            return;
        }
        self.run = 0;
        let before = self.decision.derating_percent;
        match self.improved_at.take() {
            Some(at) if now.saturating_sub(at) < RELAPSE_WITHIN => {
                self.hold = (self.hold * 2).min(HOLD_MAX);
            }
            _ if before == 0 => self.hold = HOLD_MIN,
            _ => {}
        }
        self.decision = Decision {
            derating_percent: self.run_percent.min(before.saturating_add(STEP_PERCENT)),
            cause: wanted.cause,
        };
    }

    fn ask_less(&mut self, percent: u8, now: Duration) {
        let since = *self.clean_since.get_or_insert_with(|| {
            self.clean_percent = percent;
            now
        });
        self.clean_percent = self.clean_percent.max(percent);
        if now.saturating_sub(since) < self.hold {
            return;
        }
        let decision = &mut self.decision;
        let step = decision.derating_percent.saturating_sub(STEP_PERCENT);
        decision.derating_percent = step.max(self.clean_percent);
        if decision.derating_percent == 0 {
            decision.cause = None;
        }
        self.clean_since = None;
        self.improved_at = Some(now);
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errors => "packets with errors",
            Self::Discards => "discarded packets",
            Self::Pause => "pause frames",
        })
    }
}

/// When a sample asks for a derating.
struct Level {
    cause: Cause,
    /// Events per second at least: a share of next to nothing says nothing.
    per_s_min: f64,
    /// Of packets, or of the time for pause frames.
    share_min: f64,
    percent: u8,
}

/// RoCE goes back to the first lost packet, so one in 10,000 costs much. Discards are often the work of another link, and
/// pause is how a lossless fabric works: they count when they are ten times that, and never for the most.
#[rustfmt::skip]
const LEVELS: [Level; 7] = [
    Level { cause: Cause::Errors, per_s_min: 1.0, share_min: 1e-5, percent: 25 },
    Level { cause: Cause::Errors, per_s_min: 10.0, share_min: 1e-4, percent: 50 },
    Level { cause: Cause::Errors, per_s_min: 100.0, share_min: 1e-3, percent: 75 },
    Level { cause: Cause::Discards, per_s_min: 10.0, share_min: 1e-4, percent: 25 },
    Level { cause: Cause::Discards, per_s_min: 100.0, share_min: 1e-3, percent: 50 },
    Level { cause: Cause::Pause, per_s_min: 100.0, share_min: 0.1, percent: 25 },
    Level { cause: Cause::Pause, per_s_min: 300.0, share_min: 0.3, percent: 50 },
];

/// A derating changes by this at most, in one update.
pub const STEP_PERCENT: u8 = 25;

/// The most that a link is derated.
pub const PERCENT_MAX: u8 = 75;

/// Samples in a row that must ask for more.
pub const SAMPLES_MIN: u32 = 3;

/// How long a link must be clean before it gets a step back.
pub const HOLD_MIN: Duration = Duration::from_secs(30);

/// The longest that the hold-down gets.
pub const HOLD_MAX: Duration = Duration::from_secs(480);

/// Worse again within this time after a step back is a relapse.
pub const RELAPSE_WITHIN: Duration = Duration::from_secs(960);

/// Between two samples; beyond, the link was not seen. Some switches give one each 10 s.
const GAP_MAX: Duration = Duration::from_secs(30);

/// Octets of a packet, as counters of packets are not read: those of RoCE have 1,000 to 4,000.
const PACKET_OCTETS: f64 = 1_500.0;

/// What one pause frame stops at most: 65,535 quanta of 512 bits. IEEE 802.3 annex 31B.
const PAUSE_BITS: f64 = 65_535.0 * 512.0;

/// Of a port that does not tell its speed.
const SPEED_BPS: f64 = 1e11;

#[cfg(test)]
mod tests;
