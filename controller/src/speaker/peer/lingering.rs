//! When the task of a peer ends. That of a peer of a listen range ends with its session, but not as long as somebody has to
//! remember how that ended: whoever dials again meets the same session, which knows how often it failed and until
//! when it is not to be heard. Knows when, not why.

use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::DownReason;

use super::{Ownership, Peer, now};

impl Peer {
    pub(super) fn is_over(&self) -> bool {
        let is_idle = self.is_idle();
        match self.stopping {
            Some(deadline) => is_idle || now() >= deadline,
            None if self.leaving => is_idle,
            None => {
                let is_idle = is_idle && !self.is_waited_for();
                self.setup.dynamic && is_idle && self.report.served() && !self.remembers()
            }
        }
    }

    /// There is no connection, and nothing of the peer is left in the facts.
    fn is_idle(&self) -> bool {
        let closed = self.connections.iter().all(Option::is_none) && self.ending.is_empty();
        closed && self.ownership.as_ref().is_none_or(Ownership::is_done)
    }

    /// True while a connection waits for its first message.
    fn is_waited_for(&self) -> bool {
        self.newcomer.is_some() || !self.words.is_empty()
    }

    /// The peer has to wait, what it did is not forgotten yet, or it is dialed since it was lost.
    fn remembers(&self) -> bool {
        self.pause.is_some() || self.lingers_until.is_some() || self.dialed_until.is_some()
    }

    /// The session ended for `reason`.
    pub(super) fn linger(&mut self, reason: &DownReason) {
        if is_its_mistake(reason) {
            self.lingers_until = Some(now() + LINGERING);
        }
    }

    /// The task has had its time to remember.
    pub(super) fn forget(&mut self) {
        self.lingers_until.take_if(|at| now() >= *at);
    }

    /// Says whether the task does nothing but remember, or wait for a first message: it may have to make room for others.
    pub(super) fn report_lingering(&self) {
        let serves = self.stopping.is_some() || self.leaving;
        let may_go = self.setup.dynamic && !serves;
        let is_idle = self.is_idle() && !self.is_waited_for();
        let lingers = may_go && is_idle && self.remembers();
        let silent = self.silent_since().filter(|_| may_go);
        self.report.idle(lingers.then(now), silent);
    }

    /// When the first of its connections came, if none has said anything and nothing else of the peer is there.
    fn silent_since(&self) -> Option<Instant> {
        let mut connections = self.connections.iter().flatten();
        let is_silent = self.ownership.is_none() && self.dialed_until.is_none();
        if !is_silent || connections.clone().any(|connection| connection.spoke) {
            return None;
        }
        let first = connections.next()?.opened;
        Some(connections.fold(first, |first, other| first.min(other.opened)))
    }
}

/// Whether the peer is to be remembered for it: it would come back at once, and do it again.
fn is_its_mistake(reason: &DownReason) -> bool {
    match reason {
        DownReason::NotificationSent(_)
        | DownReason::Stopped(Cease::MaxPrefixes | Cease::Rejected, _) => true,
        DownReason::HoldTimerExpired
        | DownReason::SendHoldTimerExpired
        | DownReason::PeerClosed
        | DownReason::Replaced
        | DownReason::Renewed
        | DownReason::NotificationReceived(_)
        | DownReason::Stopped(
            Cease::Shutdown
            | Cease::Deconfigured
            | Cease::Reset
            | Cease::ConfigurationChange
            | Cease::Collision
            | Cease::OutOfResources
            | Cease::HardReset
            | Cease::BfdDown,
            _,
        ) => false,
    }
}

/// As long as a session has to live before its failures are forgiven, and longer than any idle hold.
const LINGERING: Duration = Duration::from_secs(60);
