//! A session and its edge: where its packets go, and who follows its status. It refuses to know other
//! sessions, and when something is due.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tokio::sync::watch;

use super::Config;
use super::counters::{Counting, count};
use super::socket::{Receiver, Sender};
use crate::packet::{Discriminator, State};
use crate::session::{Output, Session, SessionConfig, Status, Timers};

/// Selects a session before the other end has learned our name of it. RFC 5881 §3, RFC 5883 §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Path {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) multihop: bool,
}

/// A session and its edge.
pub(super) struct Watched {
    pub(super) session: Session,
    pub(super) path: Path,
    pub(super) min_ttl: u8,
    pub(super) sender: Sender,
    pub(super) status: watch::Sender<Status>,
    /// As it is in `deadlines`.
    pub(super) deadline: Option<Instant>,
    pub(super) dropped: Arc<AtomicBool>,
    pub(super) stopped: bool,
}

impl Watched {
    /// Does what the session asks for; true if it ended.
    pub(super) fn emit(&mut self, counters: &Counting) -> bool {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(packet) => match self.sender.send(&packet.encode()) {
                    Ok(()) => count(&counters.sent),
                    // The next packet is a new try.
                    Err(_) => count(&counters.unsent),
                },
                Output::Changed(status) => self.publish(status),
                Output::Ended => return true,
            }
        }
        false
    }

    fn publish(&self, status: Status) {
        let before = self.status.send_replace(status);
        if before.state != status.state {
            let Path { local, remote, .. } = self.path;
            if before.state == State::Up && status.state == State::Down {
                let diagnostic = status.diagnostic;
                tracing::warn!(%local, %remote, %diagnostic, "BFD session failed");
            } else {
                let state = status.state;
                tracing::info!(%local, %remote, ?state, "BFD session changed");
            }
        }
    }
}

impl Path {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            local: config.local,
            remote: config.remote,
            multihop: config.multihop,
        }
    }

    pub(super) fn is_by(&self, receiver: &Receiver) -> bool {
        self.local == receiver.local && self.multihop == receiver.multihop
    }
}

impl Config {
    pub(super) fn session(&self, mine: Discriminator, jitter_seed: u64) -> SessionConfig {
        SessionConfig {
            mine,
            multihop: self.multihop,
            timers: Timers {
                interval: self.interval,
                multiplier: self.multiplier,
            },
            jitter_seed,
        }
    }
}
