//! Replicas that fell silent, and peers that nobody serves any more: what they held goes in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::peer::PeerId;

use crate::consensus::Group;
use crate::daemon::orphans::{Awaited, Orphans};
use crate::ledger::FAMILIES;
use crate::reflector::owner::{self, Agreed};
use crate::speaker::Shared;

/// Proposes that what nobody answers for goes.
pub(super) struct Departed {
    shared: Arc<Shared>,
    orphans: Orphans,
    /// When time was counted last.
    counted: Instant,
    /// When this replica began to lead: nobody is lost before it could be heard.
    leading_since: Option<Instant>,
}

impl Departed {
    /// Knows of nobody yet.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            orphans: Orphans::default(),
            counted: Instant::now(),
            leading_since: None,
        }
    }

    /// Notes whether this replica leads.
    pub(super) fn lead(&mut self, leads: bool, now: Instant) {
        self.leading_since = leads.then(|| self.leading_since.unwrap_or(now));
    }

    /// Replicas that are silent hold no session any more.
    pub(super) async fn bury(&self, group: &Group, peers: &BTreeMap<PeerId, Agreed>, now: Instant) {
        let serving: BTreeSet<u64> = peers
            .values()
            .flat_map(|agreed| agreed.sessions.iter().copied())
            .collect();
        for replica in serving
            .into_iter()
            .filter(|replica| *replica != group.status.id)
        {
            let heard = group
                .heard
                .get(&replica)
                .map(|at| Instant::from_std(*at))
                .max(self.leading_since);
            if heard.is_some_and(|at| now < at + DEAD_AFTER) {
                continue;
            }
            if !self.is_silent(replica).await {
                continue;
            }
            tracing::warn!(replica, "replica lost");
            self.shared.consensus.propose(owner::disown(replica)).await;
        }
    }

    /// Asks again once a majority has confirmed that this replica leads: it may be this one that was away,
    /// and what it proposes then would go to the leader that took its place.
    async fn is_silent(&self, replica: u64) -> bool {
        if self.shared.consensus.read_index().await.is_none() {
            return false;
        }
        let group = self.shared.consensus.group().borrow().clone();
        let heard = group.heard.get(&replica).map(|at| Instant::from_std(*at));
        let heard = heard.max(self.leading_since);
        group.status.leader == Some(group.status.id)
            && heard.is_none_or(|at| Instant::now() >= at + DEAD_AFTER)
    }

    /// Counts for how long nobody serves each peer. Time passes only while somebody leads, and a replica that was
    /// paused does not take its own absence for that of a peer.
    pub(super) fn count(&mut self, group: &Group, peers: &BTreeMap<PeerId, Agreed>, now: Instant) {
        let elapsed = now - std::mem::replace(&mut self.counted, now);
        let elapsed = match group.status.leader {
            Some(_) => elapsed.min(COUNTED_MAX),
            None => Duration::ZERO,
        };
        self.orphans.count(peers, elapsed);
        self.shared.set_away(self.orphans.ages());
    }

    /// Paths of a peer that nobody waits for go at once. The replica that served it last says so, whether it leads or
    /// not: others may never have been told of such a peer.
    pub(super) async fn dismiss(&self, replica: u64, peers: &BTreeMap<PeerId, Agreed>) {
        let config = self.shared.config();
        let awaited = Awaited::new(&config.bgp, replica, peers);
        for (peer, agreed) in peers {
            if let Some(why) = awaited.refusal(agreed) {
                tracing::info!(%peer, why, "nobody waits for the peer; its routes go");
                let batch = owner::expire(*peer, agreed, &self.shared.members, &FAMILIES);
                self.shared.consensus.propose(batch).await;
            }
        }
    }

    /// A peer whose replicas died gets time to find another, and one that restarts gets the time it asked
    /// for; then its paths go.
    pub(super) async fn expire(&mut self, peers: &BTreeMap<PeerId, Agreed>) {
        for (peer, agreed) in peers
            .iter()
            .filter(|(_, agreed)| agreed.sessions.is_empty())
        {
            let Some(age) = self.orphans.age(*peer) else {
                continue;
            };
            let retention = agreed
                .owner
                .as_ref()
                .and_then(|owner| owner.retention.as_ref());
            let hold = retention.map_or(REHOME_HOLD, |retention| {
                Duration::from_secs(retention.lasts_secs())
            });
            if age < hold {
                continue;
            }
            let members = &self.shared.members;
            let batch = owner::age(*peer, agreed, members, &FAMILIES)
                .unwrap_or_else(|| owner::expire(*peer, agreed, members, &FAMILIES));
            tracing::warn!(%peer, "peer did not come back; its routes go or are long-lived stale");
            self.shared.consensus.propose(batch).await;
        }
    }
}

/// T_dead: a replica that says nothing for this long holds no session. Heartbeats are 100 ms apart.
const DEAD_AFTER: Duration = Duration::from_secs(1);
/// How long the paths of a peer survive the replicas that served it: above hold and connect-retry.
const REHOME_HOLD: Duration = Duration::from_secs(60);
/// The longest time that passes between two looks, as far as peers are concerned that are away.
const COUNTED_MAX: Duration = Duration::from_secs(1);
