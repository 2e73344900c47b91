//! A time in which no session of a peer begins, since weft ended one for a reason that passes: why, until when, and what
//! ends it before. Knows no reason; whoever ends the session does.

use futures::future::BoxFuture;
use tokio::time::Instant;
use weft_bgp::session::Input;

use super::{Peer, now};

/// The session begins again at its end.
pub(super) struct Pause {
    pub(super) until: Instant,
    reason: String,
    /// True if connections are not refused but wait for its end.
    is_short: bool,
    /// Resolves if the reason ends before.
    ended: BoxFuture<'static, ()>,
}

impl Pause {
    /// Creates a pause that lasts until then.
    pub(super) fn new(until: Instant, reason: String) -> Self {
        let ended = Box::pin(std::future::pending::<()>());
        Self {
            until,
            reason,
            is_short: false,
            ended,
        }
    }

    /// Marks a pause that is over before a peer gives up a connection.
    pub(super) fn short(self) -> Self {
        Self {
            is_short: true,
            ..self
        }
    }

    /// Lets the pause end before, when `ended` resolves.
    pub(super) fn unless(self, ended: impl Future<Output = ()> + Send + 'static) -> Self {
        let ended = Box::pin(ended);
        Self { ended, ..self }
    }
}

/// Resolves at the end of a pause; never, if there is none. May be dropped at any await.
pub(super) async fn end(pause: &mut Option<Pause>) {
    match pause {
        Some(Pause { until, ended, .. }) => tokio::select! {
            () = tokio::time::sleep_until(*until) => {}
            () = ended => {}
        },
        None => std::future::pending().await,
    }
}

impl Peer {
    /// Ends the pause, if there is one, and lets a session begin.
    pub(super) async fn begin_again(&mut self) {
        if let Some(Pause { reason, .. }) = self.pause.take() {
            tracing::info!(peer = %self.setup.address, %reason, "a session may begin again");
        }
        self.input(Input::Start).await;
    }

    /// Returns true while connections wait for the end of a short pause.
    pub(super) fn pauses_shortly(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.is_short)
    }

    /// Returns why no session begins by itself, and until when at most.
    pub(super) fn waits(&self) -> Option<(String, Instant)> {
        if let Some(pause) = &self.pause {
            return Some((pause.reason.clone(), pause.until));
        }
        let until = self.session.held_until().map(Instant::from_std)?;
        let reason = "not dialed so soon after a failure; its own connections are taken, ten in a row and then one in six seconds";
        (now() < until).then(|| (reason.to_owned(), until))
    }
}
