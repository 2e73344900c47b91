//! `daemon::leadership` as far as it touches the facts of peers: a leader takes the sessions of silent
//! replicas, and the routes of peers that nobody serves for long. Knows no switch programming.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_bgp::peer::PeerId;
use weft_controller::ledger::{FAMILIES, Owner};
use weft_controller::reflector::owner::{self, Agreed};
use weft_store::{Batch, Status};

/// One replica's share in leading.
#[derive(Default)]
pub(crate) struct Leadership {
    leading_since: Option<u64>,
    /// Under which record nobody serves a peer, and since when.
    orphans: BTreeMap<PeerId, (Option<Owner>, u64)>,
    /// Decided in one turn and proposed one after the other.
    batches: VecDeque<Batch>,
    pending: Option<u64>,
    next_turn: u64,
}

impl Leadership {
    /// The next batch to propose, if it is time.
    pub(crate) fn turn<'a>(
        &mut self,
        status: &Status,
        members: &[u64],
        heard: &BTreeMap<u64, u64>,
        peers: impl Iterator<Item = (PeerId, &'a Agreed)>,
        now: u64,
    ) -> Option<Batch> {
        if self.pending.is_some() {
            return None;
        }
        if self.batches.is_empty() && now >= self.next_turn {
            self.next_turn = now + LOOK_EVERY;
            if status.leader == Some(status.id) && status.degraded.is_none() {
                let peers: BTreeMap<_, _> = peers.collect();
                self.leading_since.get_or_insert(now);
                self.bury(status.id, heard, &peers, now);
                self.expire(members, &peers, now);
            } else {
                self.leading_since = None;
                self.orphans.clear();
            }
        }
        self.batches.pop_front()
    }

    pub(crate) fn proposed(&mut self, ticket: u64) {
        self.pending = Some(ticket);
    }

    pub(crate) fn ended(&mut self, ticket: u64) {
        self.pending.take_if(|pending| *pending == ticket);
    }

    fn bury(
        &mut self,
        own: u64,
        heard: &BTreeMap<u64, u64>,
        peers: &BTreeMap<PeerId, &Agreed>,
        now: u64,
    ) {
        let serving: BTreeSet<u64> = peers
            .values()
            .flat_map(|agreed| agreed.sessions.iter().copied())
            .collect();
        for replica in serving.into_iter().filter(|replica| *replica != own) {
            let heard = heard.get(&replica).copied().max(self.leading_since);
            if heard.is_some_and(|at| now < at + DEAD_AFTER) {
                continue;
            }
            self.batches.push_back(owner::disown(replica));
        }
    }

    fn expire(&mut self, members: &[u64], peers: &BTreeMap<PeerId, &Agreed>, now: u64) {
        let orphan = |agreed: &&Agreed| agreed.sessions.is_empty();
        self.orphans
            .retain(|peer, _| peers.get(peer).is_some_and(orphan));
        for (peer, agreed) in peers.iter().filter(|(_, agreed)| orphan(agreed)) {
            let record = agreed.owner.clone();
            let orphan = self.orphans.entry(*peer);
            let orphan = orphan.or_insert_with(|| (record.clone(), now));
            if orphan.0 != record {
                *orphan = (record, now);
            }
            let retention = agreed.owner.as_ref();
            let retention = retention.and_then(|owner| owner.retention.as_ref());
            let hold = retention.map_or(REHOME_HOLD, |it| it.lasts_secs() * 1_000);
            if now >= orphan.1 + hold {
                let batch = owner::age(*peer, agreed, members, &FAMILIES)
                    .unwrap_or_else(|| owner::expire(*peer, agreed, members, &FAMILIES));
                self.batches.push_back(batch);
            }
        }
    }
}

// As in `daemon::leadership`, in milliseconds.
const LOOK_EVERY: u64 = 250;
const DEAD_AFTER: u64 = 1_000;
/// How long the paths of a peer survive the replicas that served it.
pub(crate) const REHOME_HOLD: u64 = 60_000;
