//! Dialing a peer. One that was lost is dialed, also if it is of a listen range: whoever keeps our routes meanwhile may wait
//! for that (RFC 4724 §4.2). Knows whom and for how long; the session knows when.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::{DownReason, Input, Side};

use super::{Peer, now};
use crate::config::PeerGroup;
use crate::speaker::socket::{self, Protection};
use crate::speaker::{keys, remembered};

impl Peer {
    /// Dials, signed with the key that the file holds now.
    pub(super) fn dial(&mut self) {
        let group = self.setup.group.clone();
        let to = SocketAddr::new(self.setup.address, self.setup.port);
        let from = group
            .source_address
            .or_else(|| self.shared.source_address(self.setup.address));
        let ttl = group.ttl;
        self.dialing = Some(Box::pin(async move {
            let secret = keys::read(&group).await?;
            socket::dial(to, from, Protection { secret, ttl }).await
        }));
    }

    pub(super) async fn dialed(&mut self, dialed: std::io::Result<TcpStream>) {
        self.dialing = None;
        match dialed {
            Ok(stream) => self.connect(Side::Outgoing, stream).await,
            Err(error) => {
                tracing::debug!(peer = %self.setup.address, %error, "peer not reached");
                self.report.failed(error.to_string());
                self.input(Input::ConnectFailed).await;
            }
        }
    }

    /// The session was lost for `reason`, which the peer may not have noticed yet, or it waits to be dialed.
    pub(super) fn dial_again(&mut self, reason: &DownReason) {
        let serves = self.stopping.is_none() && !self.leaving;
        let group = &self.setup.group;
        let may = !group.passive && group.shutdown.is_none();
        let waits = !self.setup.dynamic || remembered::is_to_be_dialed(&self.setup);
        if serves && may && waits && may_be_back(reason) {
            self.dialed_until = Some(now() + dialed_for(group));
            self.offer();
        }
    }

    /// A peer that is not listed dials us from now on, and one that is listed is not dialed often any more.
    pub(super) fn stop_dialing(&mut self) {
        if self.dialed_until.take().is_some() {
            self.offer();
        }
    }
}

/// How long a peer that was lost is dialed: it may wait for that as long as the restart time that we told it. After that
/// it dials by itself, or is gone.
fn dialed_for(group: &PeerGroup) -> Duration {
    let told = group.graceful_restart.map(|restart| restart.restart);
    told.unwrap_or_default().max(AT_LEAST)
}

/// Whether a peer that we lost for `reason` is expected back: nobody at either end meant it to go.
fn may_be_back(reason: &DownReason) -> bool {
    match reason {
        DownReason::HoldTimerExpired
        | DownReason::SendHoldTimerExpired
        | DownReason::PeerClosed
        | DownReason::Replaced
        | DownReason::Renewed
        | DownReason::Stopped(Cease::BfdDown, _) => true,
        // It waits for nobody who told it that it made a mistake, nor does it come back to whom it left.
        DownReason::NotificationReceived(said) => said.code == HOLD_TIMER_EXPIRED,
        DownReason::NotificationSent(_) | DownReason::Stopped(..) => false,
    }
}

/// A peer that was lost is dialed for this long at least.
const AT_LEAST: Duration = Duration::from_secs(60);
/// Between two dials of a peer that was lost: a path that is back is used within three seconds.
pub(super) const EVERY: Duration = Duration::from_secs(2);
/// RFC 4271 §4.5.
const HOLD_TIMER_EXPIRED: u8 = 4;
