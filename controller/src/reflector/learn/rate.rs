//! How fast one peer is read: a budget of UPDATEs, spent over time. It refuses to know what an UPDATE
//! says, and it never drops one: who has spent the budget is read again later, and TCP makes him wait.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// What one peer may spend.
///
/// ```text
/// now                     full                    the generic cell rate algorithm: each UPDATE moves
///  |---- spent so far -----|                      `full` on by one interval; above BURST it is too much
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    interval: Duration,
    /// When all that was spent is earned again.
    full: Instant,
}

impl Budget {
    /// So many UPDATEs a second in the long run; at `now` nothing is spent.
    pub fn new(updates_per_sec: NonZeroU32, now: Instant) -> Self {
        Self {
            interval: Duration::from_secs(1) / updates_per_sec.get(),
            full: now,
        }
    }

    /// Another rate from now on; what was spent stays spent.
    pub fn set_rate(&mut self, updates_per_sec: NonZeroU32) {
        self.interval = Duration::from_secs(1) / updates_per_sec.get();
    }

    /// One UPDATE was taken. Until when nothing more may be read, if the budget is spent.
    pub fn spend(&mut self, now: Instant) -> Option<Instant> {
        self.full = self.full.max(now) + self.interval;
        let earned = self.full.checked_sub(BURST)?;
        (earned > now).then_some(earned)
    }
}

/// What may be spent at once, in time: a peer that comes back sends its table in a burst.
const BURST: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant comes from nowhere else"
    )]
    fn epoch() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn a_burst_is_free_and_then_the_rate_holds() {
        let start = epoch();
        let mut budget = Budget::new(NonZeroU32::new(100).unwrap(), start);
        for _ in 0..1000 {
            assert_eq!(budget.spend(start), None);
        }
        let until = budget.spend(start).unwrap();
        assert_eq!(until - start, Duration::from_millis(10));
        assert_eq!(budget.spend(start + Duration::from_secs(20)), None);
    }

    proptest! {
        /// Whoever obeys gets the burst and the rate, and never waits longer than one interval.
        #[test]
        fn nobody_gets_more_than_the_rate(
            rate in 1..2000_u32,
            gaps in proptest::collection::vec(0..200_u64, 1..400),
        ) {
            let start = epoch();
            let mut budget = Budget::new(NonZeroU32::new(rate).unwrap(), start);
            let mut now = start;
            let mut taken = 0_u32;
            for gap in gaps {
                now += Duration::from_millis(gap);
                taken += 1;
                if let Some(until) = budget.spend(now) {
                    prop_assert!(until - now <= Duration::from_secs(1) / rate + Duration::from_nanos(1));
                    now = until;
                }
            }
            let secs = (now - start + BURST).as_secs_f64();
            prop_assert!(f64::from(taken) <= secs * f64::from(rate) + 2.0);
        }
    }
}
