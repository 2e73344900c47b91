//! What follows from a guess of what runs on a peer: a guess that the peer ended a session over is not believed again, and
//! who is not recognised is told less, which the log says once in a session. Knows no route.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use weft_bgp::family::Family;
use weft_bgp::session::{DownReason, Side};
use weft_evpn::profile::Why;

use super::{Peer, now};
use crate::reflector::Reflector;
use crate::speaker::export::Exports;

/// Whether a peer may be told of it as a next hop. A link-local one means something else at every other link.
fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// Routes that are withheld from a peer of which nothing is known, by reason.
type Withheld = BTreeMap<&'static str, u64>;

/// What is guessed of the peer, and whether that was said.
#[derive(Default)]
pub(super) struct Guessed {
    /// The peer ended a session over an UPDATE.
    doubted: bool,
    /// When to look whether routes are withheld; absent once that was said, or where nobody has to be told.
    pub(super) look_at: Option<Instant>,
    pub(super) looking: Option<BoxFuture<'static, Option<Withheld>>>,
}

impl Peer {
    /// As far as the peer is still believed to be what its OPEN shows, over the connection of this side.
    pub(super) fn believed(&self, exports: Exports, side: Side) -> Exports {
        let exports = match self.guessed.doubted {
            true => exports.doubted(),
            false => exports,
        };
        let connection = self.connections[side as usize].as_ref();
        match connection.and_then(|it| it.socket.local_addr().ok()) {
            Some(address) if is_global(address.ip()) => exports.from(address.ip().to_canonical()),
            Some(_) | None => exports,
        }
    }

    /// The session is established.
    pub(super) fn begin_guessing(&mut self) {
        let unknown = self.up.as_ref().is_some_and(|up| {
            let evpn = up.negotiated.families.contains(&Family::L2VPN_EVPN);
            evpn && up.exporting.exports.why == Why::Unknown
        });
        self.guessed.look_at = unknown.then(|| now() + LOOK_AFTER);
    }

    /// The session ended for `reason`.
    pub(super) fn doubt(&mut self, reason: &DownReason) {
        (self.guessed.look_at, self.guessed.looking) = (None, None);
        let guess = self.up.as_ref().map(|up| &up.exporting.exports);
        let Some(guess) = guess.filter(|exports| exports.is_guess()) else {
            return;
        };
        if !matches!(reason, DownReason::NotificationReceived(said) if said.code == UPDATE_ERROR) {
            return;
        }
        tracing::warn!(
            peer = %self.setup.address, profile = %guess.profile,
            "the peer ended its session over an UPDATE, though it was taken for one that takes it; it is told less from \
             now on, unless its peer group says profile = \"...\""
        );
        self.guessed.doubted = true;
        // Whoever comes back meets the same task, which knows that.
        self.lingers_until = Some(now() + DOUBTED_FOR);
    }

    /// Looks whether routes are withheld from a peer that was not recognised.
    pub(super) fn look_withheld(&mut self) {
        if self.guessed.look_at.take_if(|at| now() >= *at).is_none() {
            return;
        }
        let reflection = self.shared.reflection.clone();
        let look = |reflector: &Reflector| reflector.withheld().clone();
        self.guessed.looking = Some(Box::pin(async move { reflection.query(look).await }));
    }

    /// Says what is withheld, or looks again later.
    pub(super) fn say_withheld(&mut self, withheld: Option<Withheld>) {
        self.guessed.looking = None;
        let withheld = withheld.unwrap_or_default();
        let withheld = withheld.iter().filter(|(_, count)| **count > 0);
        let withheld: Vec<_> = withheld
            .map(|(reason, count)| format!("{reason}: {count}"))
            .collect();
        if withheld.is_empty() {
            self.guessed.look_at = Some(now() + LOOK_AGAIN);
            return;
        }
        tracing::warn!(
            peer = %self.setup.address, withheld = withheld.join(", "),
            "nothing in its OPEN says what the peer runs, so EVPN routes are withheld that it may not take; what it takes \
             is set by profile = \"...\" in its peer group"
        );
    }
}

/// The first routes have come.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// Others may come later.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Longer than any peer takes to come back.
const DOUBTED_FOR: Duration = Duration::from_secs(300);
/// RFC 4271 §4.5: UPDATE Message Error.
const UPDATE_ERROR: u8 = 3;
