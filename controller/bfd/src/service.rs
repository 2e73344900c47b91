//! Sessions over UDP, for whoever wants to know whether a system can be reached. It refuses to know why.
//!
//! ```text
//! Service ──┐ commands, at most 64        ┌─ socket of port 3784 or 4784   1x per local address and mode
//! Watch   ──┴─────────────────► driver ───┼─ session and its socket        1x per watch
//!    ▲                          1 thread  └─ deadlines
//!    └──────── status ─────────────┘
//! ```
//!
//! The driver has a thread to itself: what else the daemon does must not make packets late. It reads what
//! has come before it looks at the clock, so that a process that was stopped for a while does not take its
//! own absence for that of the other end.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU8;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::packet::{Diagnostic, Discriminator};
use crate::session::{Status, Timers};

use self::driver::{Command, Driver};

pub use self::counters::Counters;

mod counters;
mod driver;
mod socket;
mod watched;

/// All BFD sessions of a daemon. Clones are the same service. Its thread ends after the last clone and the
/// last [`Watch`] are dropped and their ends told.
#[derive(Clone, Debug)]
pub struct Service {
    commands: mpsc::Sender<Command>,
    counters: Arc<counters::Counting>,
}

/// Whom to watch, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Our address, of a session that is for this pair of addresses only.
    pub local: IpAddr,
    /// The other end's.
    pub remote: IpAddr,
    /// RFC 5883 instead of RFC 5881: routers may be between.
    pub multihop: bool,
    /// Between packets in either direction while Up, 10 ms to 60 s.
    pub interval: Duration,
    /// So many packets in a row may be missing.
    pub multiplier: NonZeroU8,
    /// The least TTL or hop limit of what is accepted over many hops: 256 - n for n hops. Over one hop it is
    /// always 255 (RFC 5881 §5).
    pub min_ttl: u8,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Not two unicast addresses of one family, or a link-local one, which needs an interface.
    #[error(
        "no BFD session from {local} to {remote}: expected two unicast addresses of one family, not link-local"
    )]
    Addresses {
        /// Ours.
        local: IpAddr,
        /// The other end's.
        remote: IpAddr,
    },
    /// Too short or too long.
    #[error("BFD interval of {0:?}, expected 10 ms to 60 s")]
    Interval(Duration),
    /// There is a session for this pair of addresses and mode. RFC 5881 §3.
    #[error("another BFD session from {local} to {remote}")]
    Watched {
        /// Ours.
        local: IpAddr,
        /// The other end's.
        remote: IpAddr,
    },
    /// As many sessions as the service was made for.
    #[error("more than {0} BFD sessions")]
    Full(usize),
    /// A socket could not be opened. The port may be taken by another BFD daemon; or, for a moment after the
    /// last session of the address ended, by a child process that was being started then. Try again later.
    #[error("no BFD socket on {local}")]
    Socket {
        /// Ours.
        local: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The thread of the service is gone.
    #[error("BFD service stopped")]
    Stopped,
}

/// A session that lasts as long as this does. To drop it tells the other end AdminDown, without waiting.
///
/// By RFC 5882 §3.2 that is no failure of the path. FRR to 10.6 takes it for one and ends its BGP session with
/// Cease/10 (`tests/frr.rs`; 10.7 does not): who wants other timers uses [`Watch::change`], and an operator switches BFD off
/// at FRR's end first.
#[derive(Debug)]
pub struct Watch {
    status: watch::Receiver<Status>,
    commands: mpsc::Sender<Command>,
    /// Failures that [`Watch::failed`] has told.
    told: u64,
    lease: Lease,
}

/// Ends the session when dropped. Made by the driver, so that it also ends when nobody waits for it.
#[derive(Debug)]
struct Lease {
    discriminator: Discriminator,
    dropped: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

impl Service {
    /// Starts the thread. Sockets are opened as they are needed, in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// What the system said: no thread, or no descriptor.
    pub fn new(sessions_max: usize) -> io::Result<Self> {
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let counters = Arc::new(counters::Counting::default());
        let driver = Driver::new(sessions_max, commands, Arc::clone(&counters));
        let (ready, begun) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("weft-bfd".to_owned())
            .spawn(move || {
                let drive = AssertUnwindSafe(|| run(driver, &ready));
                if catch_unwind(drive).is_err() {
                    // Sessions that nobody runs would look as they did last.
                    tracing::error!(
                        thread = "weft-bfd",
                        "the thread panicked; so ends the process"
                    );
                    weft_log::abort();
                }
            })?;
        begun.recv().map_err(io::Error::other)??;
        Ok(Self {
            commands: sender,
            counters,
        })
    }

    /// Begins a session. It is Down, and stays so until the other end answers.
    ///
    /// # Errors
    ///
    /// See [`WatchError`]. That `local` is not an address of this host yet is no error: the session begins
    /// when it is.
    pub async fn watch(&self, config: Config) -> Result<Watch, WatchError> {
        config.check()?;
        let (reply, answer) = oneshot::channel();
        let command = Command::Begin { config, reply };
        let sent = self.commands.send(command).await;
        sent.map_err(|_| WatchError::Stopped)?;
        let (lease, status) = answer.await.map_err(|_| WatchError::Stopped)??;
        Ok(Watch {
            status,
            commands: self.commands.clone(),
            told: 0,
            lease,
        })
    }

    /// What was sent, received and dropped since the service was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.read()
    }
}

impl Watch {
    /// What is known now.
    #[must_use]
    pub fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// Follows the status. Some values may be missed between two looks; [`Status::failures`] tells.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Waits for the session to go from Up to Down, and says why. Each failure is told once, also one that
    /// was over before this was called; several since the last call are one. AdminDown at the other end is
    /// no failure (RFC 5882 §3.2). Nothing is lost if the future is dropped.
    pub async fn failed(&mut self) -> Diagnostic {
        let told = self.told;
        let status = self.status.wait_for(|status| status.failures > told).await;
        let Ok(status) = status.map(|status| *status) else {
            // The thread is gone, and with it all knowledge of failures.
            return std::future::pending().await;
        };
        self.told = status.failures;
        status.diagnostic
    }

    /// Forgets failures that were not told yet: for a user that begins anew.
    pub fn forgive(&mut self) {
        self.told = self.status().failures;
    }

    /// Other timers, without leaving Up.
    ///
    /// # Errors
    ///
    /// [`WatchError::Interval`] and [`WatchError::Stopped`].
    pub async fn change(
        &self,
        interval: Duration,
        multiplier: NonZeroU8,
    ) -> Result<(), WatchError> {
        check_interval(interval)?;
        let command = Command::Change {
            discriminator: self.lease.discriminator,
            timers: Timers {
                interval,
                multiplier,
            },
        };
        let sent = self.commands.send(command).await;
        sent.map_err(|_| WatchError::Stopped)
    }
}

/// The thread. Its runtime is made here, since one that is dropped unused by an asynchronous caller panics.
fn run(driver: Driver, ready: &std::sync::mpsc::SyncSender<io::Result<()>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let (runtime, result) = match runtime {
        Ok(runtime) => (Some(runtime), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Who made the service waits for this.
    let _waiting = ready.send(result);
    if let Some(runtime) = runtime {
        runtime.block_on(driver.run());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}

impl Config {
    fn check(&self) -> Result<(), WatchError> {
        let Self { local, remote, .. } = *self;
        let fits = local.is_ipv4() == remote.is_ipv4() && is_usable(local) && is_usable(remote);
        if !fits {
            return Err(WatchError::Addresses { local, remote });
        }
        check_interval(self.interval)
    }
}

fn check_interval(interval: Duration) -> Result<(), WatchError> {
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        Ok(())
    } else {
        Err(WatchError::Interval(interval))
    }
}

fn is_usable(address: IpAddr) -> bool {
    let special = match address {
        IpAddr::V4(address) => address.is_broadcast() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
        }
    };
    !special && !address.is_unspecified() && !address.is_multicast()
}

/// Less is within the pauses of a busy Linux host.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// More is no detection: BGP's own hold timer is faster.
const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// At the limit who watches waits for the driver, which answers at once.
const COMMANDS_MAX: usize = 64;
