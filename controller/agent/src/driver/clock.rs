//! The two clocks of the driver: one that cannot jump, for leases, heartbeats and renewals; and the
//! clock of day, for the time stamps of results. Knows nothing of what is timed.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::agent::Now;

/// The clock that cannot jump, since it began.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Uptime {
    began: Instant,
}

impl Uptime {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        let began = Instant::now();
        Self { began }
    }

    /// How long ago that was.
    pub(crate) fn now(self) -> Duration {
        self.began.elapsed()
    }

    /// An uptime as the timers of the runtime have it.
    pub(crate) fn instant(self, uptime: Duration) -> Option<Instant> {
        self.began.checked_add(uptime)
    }
}

/// Both clocks, since the driver began.
pub struct Clock {
    began: Instant,
    /// The clock of day when the driver began, as far as it is known now.
    began_unix_ns: i64,
    unix_ns: Box<dyn Fn() -> i64 + Send>,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

impl Clock {
    /// Begins now, by the system's clock of day.
    #[must_use]
    pub fn system() -> Self {
        Self::new(unix_ns)
    }

    /// Begins now, by this clock of day: nanoseconds since the Unix epoch.
    #[must_use]
    pub fn new(unix_ns: impl Fn() -> i64 + Send + 'static) -> Self {
        Self {
            began: Instant::now(),
            began_unix_ns: unix_ns(),
            unix_ns: Box::new(unix_ns),
        }
    }

    /// Since the driver began, by the clock that cannot jump.
    pub(super) fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// An uptime as the timers of the runtime have it.
    pub(super) fn instant(&self, uptime: Duration) -> Instant {
        self.began + uptime
    }

    /// Both clocks.
    pub(super) fn now(&self) -> Now {
        Now {
            unix_ns: (self.unix_ns)(),
            uptime: self.uptime(),
        }
    }

    /// By how many milliseconds the clock of day jumped since this was asked last, if it did.
    pub(super) fn jumped(&mut self) -> Option<i64> {
        let Now { unix_ns, uptime } = self.now();
        let expected = self.began_unix_ns.saturating_add(nanos(uptime));
        let off = unix_ns.saturating_sub(expected);
        let is_jump = off.unsigned_abs() > JUMP_MIN.as_nanos().try_into().unwrap_or(u64::MAX);
        is_jump.then(|| {
            self.began_unix_ns = self.began_unix_ns.saturating_add(off);
            off / 1_000_000
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "an edge file: time stamps of results"
)]
fn unix_ns() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    nanos(since)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// What a clock is off after a step, and not by its slewing.
const JUMP_MIN: Duration = Duration::from_secs(2);
