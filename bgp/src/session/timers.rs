//! Deadlines, jitter and idle hold of a session, and how often the peer of a held one may connect. It refuses to know
//! what time it is, and why a timer runs.

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

    /// This one, but not before `other`, if that runs.
    pub(super) fn not_before(self, other: Self) -> Self {
        Self(self.0.map(|at| other.0.map_or(at, |other| at.max(other))))
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

/// How long a failed session does not dial: the IdleHoldTimer and DampPeerOscillations of RFC 4271 §8.1.
#[derive(Clone, Debug)]
pub(super) struct IdleHold {
    failures: u32,
    /// End of the last hold.
    until: Deadline,
    admission: Admission,
    jitter: Jitter,
}

impl IdleHold {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            failures: 0,
            until: Deadline::NEVER,
            admission: Admission::default(),
            jitter: Jitter::new(seed),
        }
    }

    /// Begins a hold. Returns its end, before which there is no dial.
    pub(super) fn begin(&mut self, now: Instant, delay: Duration) -> Deadline {
        self.until = Deadline::after(now, delay);
        self.until
    }

    pub(super) fn until(&self) -> Deadline {
        self.until
    }

    /// Ends the hold early.
    pub(super) fn lift(&mut self) {
        self.until = Deadline::NEVER;
    }

    pub(super) fn admission(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// When a connection of the peer is taken again, if none is now.
    pub(super) fn admits_at(&self) -> Option<Instant> {
        self.admission.next_at()
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
        self.lift();
    }

    pub(super) fn jitter(&mut self) -> &mut Jitter {
        &mut self.jitter
    }
}

/// How often a peer whose session is held may connect: ten times in a row, and once each six seconds from then on. A
/// bucket that leaks, and that each connection fills by one interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Admission {
    empty_at: Option<Instant>,
}

impl Admission {
    /// Takes a connection. False: the bucket is full.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let level = self.empty_at.map(|at| at.saturating_duration_since(now));
        let filled = level.unwrap_or_default() + ADMISSION_INTERVAL;
        if filled > ADMISSION_INTERVAL * ADMISSION_BURST {
            return false;
        }
        self.empty_at = now.checked_add(filled);
        true
    }

    fn next_at(&self) -> Option<Instant> {
        self.empty_at?
            .checked_sub(ADMISSION_INTERVAL * (ADMISSION_BURST - 1))
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

/// Ten in a minute: more than an operator who enters a few lines that each reset the session, and few enough that a
/// peer that fails on each costs nothing. One beyond is refused with Cease, Connection Rejected.
const ADMISSION_INTERVAL: Duration = Duration::from_secs(6);
const ADMISSION_BURST: u32 = 10;

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

    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant comes from nowhere else"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn ten_connections_in_a_row_are_taken_and_then_ten_a_minute() {
        let (mut admission, start) = (Admission::default(), start());
        let mut taken = |secs| {
            let now = start + Duration::from_secs(secs);
            let taken = std::iter::from_fn(|| admission.admit(now).then_some(())).count();
            (taken, admission.next_at().unwrap() - start)
        };
        let secs = Duration::from_secs;
        assert_eq!(taken(0), (10, secs(6)));
        assert_eq!(taken(5), (0, secs(6)));
        assert_eq!(taken(6), (1, secs(12)));
        assert_eq!(taken(66), (10, secs(72)));
        assert_eq!(taken(1_000), (10, secs(1_006)));
    }

    #[test]
    fn a_dial_waits_for_the_end_of_the_hold() {
        let now = start();
        let after = |secs| Deadline::after(now, Duration::from_secs(secs));
        assert_eq!(after(1).not_before(after(2)), after(2));
        assert_eq!(after(3).not_before(after(2)), after(3));
        assert_eq!(after(1).not_before(Deadline::NEVER), after(1));
        assert_eq!(Deadline::NEVER.not_before(after(2)), Deadline::NEVER);
    }

    #[test]
    fn a_deadline_beyond_the_clock_never_comes() {
        let now = start();
        assert_eq!(Deadline::after(now, Duration::MAX), Deadline::NEVER);
        assert_eq!(
            Deadline::after_unless_zero(now, Duration::ZERO),
            Deadline::NEVER
        );
        assert!(Deadline::after(now, Duration::ZERO).is_due(now));
    }
}
