//! Deadlines, jitter and idle hold of a session. It refuses to know what time it is, and why a timer runs.

use std::time::{Duration, Instant};

/// When a timer runs out, or never: a hold time of zero starts no timer (RFC 4271 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) const NEVER: Self = Self(None);

    /// `delay` from `now`; never, if the clock cannot express it.
    pub(super) fn after(now: Instant, delay: Duration) -> Self {
        Self(now.checked_add(delay))
    }

    /// As `after`, where zero means that the timer does not run.
    pub(super) fn after_unless_zero(now: Instant, delay: Duration) -> Self {
        if delay.is_zero() {
            Self::NEVER
        } else {
            Self::after(now, delay)
        }
    }

    pub(super) fn is_due(self, now: Instant) -> bool {
        self.0.is_some_and(|at| at <= now)
    }

    pub(super) fn is_running(self) -> bool {
        self.0.is_some()
    }

    /// The earlier of two.
    pub(super) fn or_earlier(self, other: Self) -> Self {
        Self([self.0, other.0].into_iter().flatten().min())
    }

    pub(super) fn at(self) -> Option<Instant> {
        self.0
    }
}

/// Shortens delays by up to a quarter (RFC 4271 §10), so that peers that failed together do not return together.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Between 75 % and 100 % of `delay`.
    pub(super) fn shorten(&mut self, delay: Duration) -> Duration {
        let parts =
            u32::try_from(self.next() % u64::from(JITTER_STEPS)).expect("below JITTER_STEPS");
        let quarter = delay / 4;
        delay - quarter / JITTER_STEPS * parts
    }

    /// SplitMix64 (Steele, Lea, Flood, 2014): enough to spread timers, and reproducible from the seed.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// How long a failed session stays Idle: the IdleHoldTimer and DampPeerOscillations of RFC 4271 §8.1.
#[derive(Clone, Debug)]
pub(super) struct IdleHold {
    failures: u32,
    jitter: Jitter,
}

impl IdleHold {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            jitter: Jitter::new(seed),
        }
    }

    /// Counts one more failure: 0.5 s, 1 s, 2 s ... 16 s, each with jitter.
    pub(super) fn next(&mut self) -> Duration {
        let doubled = IDLE_HOLD_MIN.saturating_mul(1 << self.failures.min(IDLE_HOLD_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.jitter.shorten(doubled)
    }

    /// As after a first failure; it does not count as one.
    pub(super) fn least(&mut self) -> Duration {
        self.jitter.shorten(IDLE_HOLD_MIN)
    }

    pub(super) fn forgive(&mut self) {
        self.failures = 0;
    }

    pub(super) fn jitter(&mut self) -> &mut Jitter {
        &mut self.jitter
    }
}

/// RFC 4271 §8.2.2 asks for "a large value" until the hold time is negotiated, and suggests this one.
pub(super) const OPEN_HOLD: Duration = Duration::from_secs(240);

/// A session that lived this long is a new story: its next failure is again its first.
pub(super) const STABLE: Duration = Duration::from_secs(60);

/// How long the losing connection of a collision waits, once confirmed, for the fate of the winning one. Several round
/// trips of any network that we serve; at the limit the confirmed connection is taken.
pub(super) const SETTLE: Duration = Duration::from_secs(5);

/// RFC 9687 §3: the greater of this and twice the hold time.
pub(super) const SEND_HOLD_MIN: Duration = Duration::from_secs(480);

/// The first idle hold: shorter than any peer's retry, longer than a round trip.
const IDLE_HOLD_MIN: Duration = Duration::from_millis(500);

/// 0.5 s doubled five times is 16 s: one OPEN each 16 s costs nothing, and a repaired switch does not wait long.
const IDLE_HOLD_DOUBLINGS: u32 = 5;

const JITTER_STEPS: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_keeps_between_three_quarters_and_the_whole() {
        let mut jitter = Jitter::new(7);
        let delay = Duration::from_secs(10);
        for _ in 0..1000 {
            let shortened = jitter.shorten(delay);
            assert!(
                shortened > Duration::from_millis(7_499) && shortened <= delay,
                "{shortened:?}"
            );
        }
    }

    #[test]
    fn jitter_follows_its_seed() {
        let delay = Duration::from_secs(10);
        assert_eq!(Jitter::new(1).shorten(delay), Jitter::new(1).shorten(delay));
        assert_ne!(Jitter::new(1).shorten(delay), Jitter::new(2).shorten(delay));
    }

    #[test]
    fn idle_hold_doubles_to_a_bound_and_is_forgiven() {
        let mut idle = IdleHold::new(3);
        let mut bound = Duration::from_millis(500);
        for _ in 0..40 {
            let hold = idle.next();
            assert!(
                hold <= bound && hold > bound * 74 / 100,
                "{hold:?} of {bound:?}"
            );
            bound = (bound * 2).min(Duration::from_secs(16));
        }
        idle.forgive();
        assert!(idle.next() <= Duration::from_millis(500));
    }

    #[test]
    fn a_deadline_beyond_the_clock_never_comes() {
        #[expect(
            clippy::disallowed_methods,
            reason = "an Instant comes from nowhere else"
        )]
        let now = Instant::now();
        assert_eq!(Deadline::after(now, Duration::MAX), Deadline::NEVER);
        assert_eq!(
            Deadline::after_unless_zero(now, Duration::ZERO),
            Deadline::NEVER
        );
        assert!(Deadline::after(now, Duration::ZERO).is_due(now));
    }
}
