//! One verdict on this replica, from which /livez, /readyz, /healthz, grpc.health.v1, the metrics page and the API answer. It waits
//! for no thread, so that a thread that hangs is named. Knows no clock and no socket.
//!
//! ```text
//! health task (1x per daemon) --ask, every 0.5 s--> pulse (1x per thread) <--beat-- thread
//!                                                     |
//!                     an answer to anybody  <--verdict-+-- status of the replicas
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_store::Status;

use super::breaker::Breaker;
use crate::consensus::{Consensus, Group};
use crate::reflector::thread::Reflection;

/// Sign of life of one thread. The thread beats whenever it goes on; the time counts from the first question that no beat has
/// answered, so that a thread without work need not beat.
#[derive(Debug)]
pub struct Pulse {
    thread: &'static str,
    began: Instant,
    /// Milliseconds from `began` to the first question since the last beat, plus 1; 0: none.
    asked_ms: AtomicU64,
}

impl Pulse {
    /// Returns the pulse of a thread, which nobody has asked.
    pub fn new(thread: &'static str, began: Instant) -> Arc<Self> {
        Arc::new(Self {
            thread,
            began,
            asked_ms: AtomicU64::new(UNASKED),
        })
    }

    /// Notes that the thread goes on.
    pub fn beat(&self) {
        // Most beats answer no question, and write nothing.
        if self.asked_ms.load(Ordering::Relaxed) != UNASKED {
            self.asked_ms.store(UNASKED, Ordering::Relaxed);
        }
    }

    /// Asks for a beat. Returns true if no other question waits for one.
    pub(crate) fn ask(&self, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.began).as_millis();
        let asked = u64::try_from(since).map_or(u64::MAX, |since| since.saturating_add(1));
        let exchange =
            self.asked_ms
                .compare_exchange(UNASKED, asked, Ordering::Relaxed, Ordering::Relaxed);
        exchange.is_ok()
    }

    /// Returns the time since the first question that no beat has answered; zero: there is none.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        match self.asked_ms.load(Ordering::Relaxed) {
            UNASKED => Duration::ZERO,
            asked => {
                let since = now.saturating_duration_since(self.began);
                since.saturating_sub(Duration::from_millis(asked - 1))
            }
        }
    }
}

/// State of this replica, as every surface shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every call is answered.
    Ready,
    /// A thread hangs. Its name, and for how long.
    Silent(&'static str, Duration),
    /// The replica neither votes nor accepts entries, for this reason.
    Degraded(String),
    /// The replica knows no leader.
    NoLeader,
}

impl Verdict {
    /// Returns the verdict on a replica whose threads all respond.
    fn of(status: &Status) -> Self {
        match (&status.degraded, status.leader) {
            (Some(reason), _) => Self::Degraded(reason.clone()),
            (None, None) => Self::NoLeader,
            (None, Some(_)) => Self::Ready,
        }
    }

    /// True if the replica answers calls that need the other replicas.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// False if only a restart helps: a thread has hung for a minute. A replica without a leader is alive.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Silent(_, silence) if *silence >= DEAD_AFTER)
    }

    /// Returns why this replica by itself is of no use; None if it is, or if only a leader is missing.
    pub fn own_fault(&self) -> Option<String> {
        match self {
            Self::Silent(thread, silence) => {
                let secs = silence.as_secs();
                Some(format!("{thread} thread does not respond for {secs} s"))
            }
            Self::Degraded(reason) => Some(reason.clone()),
            Self::Ready | Self::NoLeader => None,
        }
    }

    /// Returns the answer of /livez: a body, and true if the replica is alive.
    pub fn livez(&self) -> (bool, String) {
        let is_live = self.is_live();
        match self.own_fault().filter(|_| !is_live) {
            Some(fault) => (false, format!("not live: {fault}\n")),
            None => (true, "ok\n".to_owned()),
        }
    }

    /// Returns the answer of /readyz and /healthz: a body, and true if the replica is ready.
    pub fn readyz(&self) -> (bool, String) {
        (self.is_ready(), format!("{self}\n"))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ok"),
            Self::NoLeader => {
                f.write_str("not ready: no leader: this replica knows of no majority")
            }
            Self::Silent(..) | Self::Degraded(_) => {
                write!(f, "not ready: {}", self.own_fault().unwrap_or_default())
            }
        }
    }
}

/// Source of the verdict. Clones share it.
#[derive(Clone)]
pub struct Health {
    group: watch::Receiver<Group>,
    consensus: Arc<Pulse>,
    reflection: Reflection,
    balancer: Arc<Pulse>,
    breaker: Arc<Breaker>,
}

impl Health {
    /// Returns the health of a daemon with these threads, and with a balancer that starts later.
    pub fn new(consensus: &Consensus, reflection: &Reflection, began: Instant) -> Self {
        Self {
            group: consensus.group(),
            consensus: Arc::clone(consensus.pulse()),
            reflection: reflection.clone(),
            balancer: Pulse::new("balancer", began),
            breaker: Arc::default(),
        }
    }

    /// Changes whenever the replica has another leader or term, or is degraded.
    pub fn group(&self) -> watch::Receiver<Group> {
        self.group.clone()
    }

    /// Pulse of the balancer thread.
    pub fn balancer(&self) -> Arc<Pulse> {
        Arc::clone(&self.balancer)
    }

    /// Panics of the balancer. They have no part in the verdict: BGP goes on.
    pub fn breaker(&self) -> Arc<Breaker> {
        Arc::clone(&self.breaker)
    }

    /// Asks every thread for a beat. The reflector thread sleeps without an input, so it gets one.
    pub fn ask(&self, now: Instant) {
        self.consensus.ask(now);
        self.balancer.ask(now);
        if self.reflection.pulse().ask(now) {
            self.reflection.wake();
        }
    }

    /// Returns the verdict of now. The threads come first: a thread that hangs publishes no status, and may hold the lock of the
    /// last one.
    pub fn verdict(&self, now: Instant) -> Verdict {
        let limits = [
            (&self.consensus, CONSENSUS_SILENCE_MAX),
            (self.reflection.pulse(), REFLECTOR_SILENCE_MAX),
        ];
        for (pulse, limit) in limits {
            let silence = pulse.silence(now);
            if silence >= limit {
                return Verdict::Silent(pulse.thread, silence);
            }
        }
        Verdict::of(&self.group.borrow().status)
    }

    /// Returns true if this replica leads and cannot decide: its reflector thread hangs. Another replica had better lead.
    pub fn leads_in_vain(&self, now: Instant) -> bool {
        let silence = self.reflection.pulse().silence(now);
        silence >= LEADS_IN_VAIN_AFTER && self.group.borrow().leads()
    }

    /// Returns every thread with the time for which it has not responded. The balancer thread may take a minute for a large plan,
    /// while calls go on: it has no part in the verdict.
    pub fn silences(&self, now: Instant) -> [(&'static str, Duration); 3] {
        let pulses = [&self.consensus, self.reflection.pulse(), &self.balancer];
        pulses.map(|pulse| (pulse.thread, pulse.silence(now)))
    }
}

/// Asked for nothing.
const UNASKED: u64 = 0;
/// Between two questions to a thread.
pub const ASK_EVERY: Duration = Duration::from_millis(500);
/// The consensus thread wakes up every 50 ms. A disk that takes longer than this to write is as bad as a replica that is dead; with
/// [`ASK_EVERY`], clients see the fault within 5 s.
const CONSENSUS_SILENCE_MAX: Duration = Duration::from_secs(3);
/// The reflector thread reads a snapshot of a million routes in some seconds.
const REFLECTOR_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Changes and links of the fabric wait for the leader's reflector thread.
const LEADS_IN_VAIN_AFTER: Duration = Duration::from_secs(2);
/// A supervisor that restarts the daemon ends its sessions. A disk that stalls for less than this must not cost them.
const DEAD_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
