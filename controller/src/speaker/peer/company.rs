//! Whether other replicas serve the peer beside this one, and what it is offered for that: it keeps our routes for as
//! long as the OPEN of the session said, so another answer takes another session. Knows what is agreed and whether
//! anybody leads; what to offer then is the offer's.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::session::Input;

use super::{Peer, now};
use crate::speaker::offer::Company;

/// What the OPEN said, and since when it would say something else.
#[derive(Debug)]
pub(super) struct Companions {
    offered: Company,
    differs_since: Option<Instant>,
    look_at: Instant,
}

impl Companions {
    /// In a group of several replicas a peer is expected to have a session with each.
    pub(super) fn expected(members: usize, now: Instant) -> Self {
        Self {
            offered: match members {
                0 | 1 => Company::Alone,
                2.. => Company::Redundant,
            },
            differs_since: None,
            look_at: now + LOOK_EVERY,
        }
    }

    pub(super) fn offered(&self) -> Company {
        self.offered
    }

    /// Whether what is seen now differs from the offer, and has for long enough to be worth a new session.
    fn settles(&mut self, seen: Company, now: Instant) -> bool {
        if seen == self.offered {
            self.differs_since = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        now >= since + SETTLES_AFTER
    }
}

/// Who serves a peer, by what is agreed: without a leader nobody takes back what a dead replica said of itself.
fn company(sessions: &BTreeSet<u64>, own: u64, leader: Option<u64>) -> Company {
    match leader.is_some() && sessions.iter().any(|id| *id != own) {
        true => Company::Redundant,
        false => Company::Alone,
    }
}

impl Peer {
    /// When to look next; never in a group of one.
    pub(super) fn company_deadline(&self) -> Option<Instant> {
        (self.up.is_some() && self.shared.members.len() > 1).then_some(self.companions.look_at)
    }

    /// Offers the peer what fits who serves it now. That takes a new session, and it keeps all routes over that: either
    /// it has them of another replica too, or we said that we would be back in a moment.
    pub(super) async fn mind_company(&mut self) {
        if self.company_deadline().is_none_or(|at| now() < at) {
            return;
        }
        self.companions.look_at = now() + LOOK_EVERY;
        let Some(ownership) = &self.ownership else {
            return;
        };
        let group = self.shared.consensus.group();
        let leader = group.borrow().status.leader;
        let seen = company(&ownership.sessions(), self.shared.replica, leader);
        if !self.companions.settles(seen, now()) || !self.keeps_routes_over_restart() {
            return;
        }
        tracing::info!(peer = %self.setup.address, company = ?seen, "new session: it is to keep our routes for another time");
        self.companions.offered = seen;
        self.companions.differs_since = None;
        self.offer();
        self.renew().await;
    }

    /// Ends the session without a NOTIFICATION, as a restart would, and begins another one at once. RFC 4724 §4.2: the
    /// peer keeps our routes meanwhile.
    async fn renew(&mut self) {
        let Some(side) = self.up.as_ref().map(|up| up.side) else {
            return;
        };
        self.renewing = true;
        self.close(side);
        self.input(Input::Disconnected(side)).await;
        self.renewing = false;
        self.input(Input::Start).await;
    }

    /// Seen with FRR 10.7, which keeps EVPN routes too, where it negotiated to restart at all. Who does not would lose
    /// them by a new session, as would one that we may not dial.
    fn keeps_routes_over_restart(&self) -> bool {
        let group = &self.setup.group;
        if group.passive || group.graceful_restart.is_none() {
            return false;
        }
        self.up.as_ref().is_some_and(|up| {
            let capable = up.negotiated.graceful_restart.is_some();
            capable && up.exporting.exports.profile.keeps_evpn_over_restart()
        })
    }
}

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Longer than replicas take to be back, or a peer to have its session with each.
const SETTLES_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_serves_it_is_what_is_agreed_while_somebody_leads() {
        let sessions = |ids: &[u64]| ids.iter().copied().collect();
        assert_eq!(company(&sessions(&[1, 2]), 1, Some(2)), Company::Redundant);
        assert_eq!(company(&sessions(&[1]), 1, Some(1)), Company::Alone);
        assert_eq!(company(&sessions(&[1, 2]), 1, None), Company::Alone);
    }

    #[test]
    fn a_replica_that_is_back_soon_costs_no_session() {
        let begin = Instant::now();
        let after = |secs| begin + Duration::from_secs(secs);
        let mut companions = Companions::expected(3, begin);
        assert_eq!(companions.offered(), Company::Redundant);
        assert!(!companions.settles(Company::Alone, after(2)));
        assert!(!companions.settles(Company::Redundant, after(4)));
        assert!(!companions.settles(Company::Alone, after(12)));
        assert!(companions.settles(Company::Alone, after(22)));
    }
}
