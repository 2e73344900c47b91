//! Whether other replicas serve the peer beside this one, and what it is offered for that: it keeps our routes for as
//! long as the OPEN of the session said, so another answer takes another session. Knows what is agreed and whether
//! anybody leads; what to offer then is the offer's.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::session::{DownReason, Input};

use super::{Peer, now};
use crate::speaker::offer::Company;

/// What the OPEN of the session said, what the next one says, and since when they should differ.
#[derive(Debug)]
pub(super) struct Companions {
    told: Company,
    offered: Company,
    differs_since: Option<Instant>,
    look_at: Instant,
}

impl Companions {
    /// In a group of several replicas a peer is expected to have a session with each.
    pub(super) fn expected(members: usize, now: Instant) -> Self {
        let offered = match members {
            0 | 1 => Company::Alone,
            2.. => Company::Redundant,
        };
        Self {
            told: offered,
            offered,
            differs_since: None,
            look_at: now + LOOK_EVERY,
        }
    }

    /// What the next OPEN says.
    pub(super) fn offered(&self) -> Company {
        self.offered
    }

    /// A session was established: its OPEN said what is offered.
    pub(super) fn begin(&mut self, now: Instant) {
        self.told = self.offered;
        self.differs_since = None;
        self.look_at = now + LOOK_EVERY;
    }

    /// Whether what is seen now differs from what the peer was told, and has for as long as makes it worth a new session.
    /// The next OPEN says it then in any case.
    fn settles(&mut self, seen: Company, after: Duration, now: Instant) -> bool {
        if seen == self.told {
            (self.offered, self.differs_since) = (seen, None);
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        let settled = now >= since + after;
        if settled {
            self.offered = seen;
        }
        settled
    }
}

/// How long a replica waits for company or the loss of it to last: one after the other, so that a peer never begins two
/// new sessions at once, though all see the same where nobody leads any more.
fn patience(members: &[u64], own: u64) -> Duration {
    let before = members.iter().filter(|id| **id < own).count();
    SETTLES_AFTER + APART * u32::try_from(before).unwrap_or(u32::MAX)
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

    /// Offers the peer what fits who serves it now. That takes a new session, and it keeps all routes over that (RFC 4724
    /// §4.2): either it has them of another replica too, or we said that we would be back in a moment.
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
        let own = self.shared.replica;
        let seen = company(&ownership.sessions(), own, leader);
        let before = self.companions.offered();
        let settled = self
            .companions
            .settles(seen, patience(&self.shared.members, own), now());
        if self.companions.offered() != before {
            self.offer();
        }
        if !settled || !self.keeps_routes_over_restart() {
            return;
        }
        tracing::info!(peer = %self.setup.address, company = ?seen, "new session: it is to keep our routes for another time");
        self.dial_again(&DownReason::Renewed);
        self.input(Input::Renew).await;
    }

    /// Seen with FRR 10.7, which keeps EVPN routes too, where it negotiated to restart at all. Who does not would lose
    /// them by a new session, as would one that we may not dial; what is only guessed is not enough.
    fn keeps_routes_over_restart(&self) -> bool {
        let group = &self.setup.group;
        if group.passive || group.graceful_restart.is_none() {
            return false;
        }
        self.up.as_ref().is_some_and(|up| {
            let capable = up.negotiated.graceful_restart.is_some();
            capable
                && !up.exporting.exports.is_guess()
                && up.exporting.exports.profile.keeps_evpn_over_restart()
        })
    }
}

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Longer than replicas take to be back, or a peer to have its session with each.
const SETTLES_AFTER: Duration = Duration::from_secs(10);
/// Between one replica and the next.
const APART: Duration = Duration::from_secs(20);

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
        let settles = |companions: &mut Companions, seen, secs| {
            companions.settles(seen, patience(&[1, 2, 3], 1), after(secs))
        };
        assert!(!settles(&mut companions, Company::Alone, 2));
        assert!(!settles(&mut companions, Company::Redundant, 4));
        assert!(!settles(&mut companions, Company::Alone, 12));
        assert_eq!(companions.offered(), Company::Redundant);
        assert!(settles(&mut companions, Company::Alone, 22));
        assert_eq!(
            companions.offered(),
            Company::Alone,
            "by the next session, if not by a new one"
        );
        companions.begin(after(23));
        assert!(!settles(&mut companions, Company::Alone, 60));
    }

    #[test]
    fn replicas_begin_new_sessions_one_after_the_other() {
        let secs = |own| patience(&[1, 2, 3], own).as_secs();
        assert_eq!([secs(1), secs(2), secs(3)], [10, 30, 50]);
    }
}
