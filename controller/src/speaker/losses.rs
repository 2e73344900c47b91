//! How many peers this replica lost a moment ago: if it is most of them, it is more likely cut off itself than
//! alone in a fabric of dead switches. Knows no peer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::DownReason;

/// The sessions of a replica, counted.
#[derive(Default)]
pub struct Losses(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// Sessions that are established.
    up: usize,
    /// When those ended of which the peer said nothing, within [`WINDOW`]: never more than the sessions that
    /// can end in that time.
    lost: VecDeque<Instant>,
}

impl Losses {
    /// A session was established.
    pub fn gain(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).up += 1;
    }

    /// One of them ended for `reason`. Whether that is rather our fault than the peer's: more than half of
    /// the peers fell silent within 5 s.
    pub fn lose(&self, reason: &DownReason, now: Instant) -> bool {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.up = counted.up.saturating_sub(1);
        while counted.lost.front().is_some_and(|at| now >= *at + WINDOW) {
            counted.lost.pop_front();
        }
        if !is_silent(reason) {
            return false;
        }
        counted.lost.push_back(now);
        let lost = counted.lost.len();
        lost >= LOST_MIN && lost > counted.up
    }
}

/// Whether nobody said why the session ended.
fn is_silent(reason: &DownReason) -> bool {
    match reason {
        DownReason::HoldTimerExpired
        | DownReason::SendHoldTimerExpired
        | DownReason::Stopped(Cease::BfdDown, _) => true,
        DownReason::NotificationReceived(_)
        | DownReason::NotificationSent(_)
        // Who closes can be reached.
        | DownReason::PeerClosed
        | DownReason::Replaced
        | DownReason::Renewed
        | DownReason::Stopped(..) => false,
    }
}

/// Losses within this have one cause.
const WINDOW: Duration = Duration::from_secs(5);
/// Of so few peers the greater part may well be dead: the switches of one rack are.
const LOST_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn up(sessions: usize) -> Losses {
        let losses = Losses::default();
        (0..sessions).for_each(|_| losses.gain());
        losses
    }

    fn lose(losses: &Losses, count: usize, at: Instant) -> usize {
        let silent = DownReason::HoldTimerExpired;
        (0..count).filter(|_| losses.lose(&silent, at)).count()
    }

    #[test]
    fn who_loses_most_of_its_peers_at_once_is_cut_off() {
        let now = Instant::now();
        let losses = up(20);
        assert_eq!(lose(&losses, 10, now), 0);
        assert_eq!(lose(&losses, 2, now + Duration::from_secs(4)), 2);
    }

    #[test]
    fn peers_that_go_one_after_the_other_are_dead() {
        let now = Instant::now();
        let losses = up(20);
        for second in 0..20 {
            let at = now + Duration::from_secs(2 * second);
            assert_eq!(lose(&losses, 1, at), 0);
        }
    }

    #[test]
    fn a_farewell_is_no_loss_and_few_peers_are_no_crowd() {
        let now = Instant::now();
        assert_eq!(lose(&up(4), 4, now), 0);
        let losses = up(20);
        let farewell = DownReason::Stopped(Cease::ConfigurationChange, None);
        assert!((0..15).all(|_| !losses.lose(&farewell, now)));
        assert_eq!(lose(&losses, 4, now), 0);
        assert_eq!(lose(&losses, 1, now), 1);
    }
}
