//! Paths that their peer does not want to be long-lived stale go when its other paths become so: those with
//! NO_LLGR, RFC 9494 §4.2. Until then they are told to nobody. Knows no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use weft_bgp::attribute::Community;
use weft_bgp::peer::PeerId;
use weft_store::{Batch, Op, Outcome};

use crate::ledger::{self, FAMILIES, FactPrefix, Owner};
use crate::reflector::owner::Agreed;
use crate::speaker::Shared;

/// Peers of which all such paths are gone, under which record.
#[derive(Default)]
pub(super) struct NoLlgr(BTreeMap<PeerId, Owner>);

impl NoLlgr {
    /// Removes what is due of one peer, by the leader, who has other things to do. What could not be agreed is due
    /// again.
    pub(super) async fn remove(&mut self, shared: &Arc<Shared>, peers: &BTreeMap<PeerId, Agreed>) {
        let Some((peer, owner)) = self.due(peers) else {
            return;
        };
        let view = shared.consensus.view().clone();
        let read = move || unwanted(&view, peer);
        let Ok(Some(keys)) = tokio::task::spawn_blocking(read).await else {
            return;
        };
        for batch in batches(peer, &owner, &keys) {
            let outcome = shared.consensus.propose(batch).await;
            if !matches!(outcome, Outcome::Applied { .. }) {
                return;
            }
        }
        if !keys.is_empty() {
            tracing::info!(%peer, routes = keys.len(), "routes with NO_LLGR are gone");
        }
        self.0.insert(peer, owner);
    }

    /// A peer that became long-lived stale.
    fn due(&mut self, peers: &BTreeMap<PeerId, Agreed>) -> Option<(PeerId, Owner)> {
        self.0.retain(|peer, owner| {
            let agreed = peers.get(peer);
            agreed.and_then(|agreed| agreed.owner.as_ref()) == Some(owner)
        });
        let mut records = peers
            .iter()
            .filter_map(|(peer, agreed)| Some((*peer, agreed.owner.as_ref()?)));
        records
            .find(|(peer, owner)| owner.is_long_lived_stale() && !self.0.contains_key(peer))
            .map(|(peer, owner)| (peer, owner.clone()))
    }
}

/// What goes, as long as the peer is not back: nobody commits a path of it before.
fn batches(peer: PeerId, owner: &Owner, keys: &[Bytes]) -> impl Iterator<Item = Batch> {
    keys.chunks(BATCH_KEYS_MAX).map(move |keys| {
        let keys = keys.to_vec();
        ledger::owned(peer, Some(owner), vec![Op::Delete { keys }])
    })
}

/// Keys of the peer's paths with NO_LLGR; `None` if the store cannot be read.
fn unwanted(view: &weft_store::View, peer: PeerId) -> Option<Vec<Bytes>> {
    let mut keys = Vec::new();
    let mut last = (Bytes::new(), false);
    for family in FAMILIES {
        let prefix = FactPrefix::RoutesOfPeer(family, peer).encode();
        for fact in view.scan(&prefix) {
            let (key, value) = fact.ok()?;
            if last.0 != value {
                last = (value.clone(), is_unwanted(&value));
            }
            if last.1 {
                keys.push(key);
            }
        }
    }
    Some(keys)
}

fn is_unwanted(value: &[u8]) -> bool {
    let path = ledger::decode_path(value);
    path.is_some_and(|(_, attributes)| attributes.communities.contains(&Community::NO_LLGR))
}

/// Small enough not to delay a heartbeat.
const BATCH_KEYS_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::PeerKind;

    use super::*;
    use crate::ledger::{Phase, Retention};

    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };

    fn agreed(phase: Option<Phase>) -> BTreeMap<PeerId, Agreed> {
        let owner = Owner {
            replica: 1,
            epoch: 3,
            address: "192.0.2.1".parse().unwrap(),
            kind: PeerKind::IbgpClient,
            fresh_from: 0,
            returned: None,
            retention: phase.map(|phase| Retention {
                phase,
                restart_secs: 120,
                families: Vec::new(),
            }),
        };
        let agreed = Agreed {
            owner: Some(owner),
            ..Agreed::default()
        };
        BTreeMap::from([(PEER, agreed)])
    }

    #[test]
    fn a_peer_is_due_once_under_each_long_lived_record() {
        let mut no_llgr = NoLlgr::default();
        assert_eq!(no_llgr.due(&agreed(None)), None);
        assert_eq!(no_llgr.due(&agreed(Some(Phase::Graceful))), None);
        let peers = agreed(Some(Phase::LongLived));
        let due = no_llgr.due(&peers);
        assert!(due.is_some());
        no_llgr.0.extend(due);
        assert_eq!(no_llgr.due(&peers), None);
        assert_eq!(no_llgr.due(&agreed(None)), None);
        assert!(no_llgr.due(&peers).is_some());
    }

    #[test]
    fn only_the_community_counts() {
        let value = |communities: &[Community]| {
            let attributes = Attributes {
                communities: communities.to_vec(),
                ..Attributes::default()
            };
            let prefix = Prefix4::new([192, 0, 2, 1].into(), 32).unwrap();
            ledger::encode_path(&prefix, &attributes.to_octets(), &mut Vec::new())
        };
        assert!(is_unwanted(&value(&[Community::NO_LLGR])));
        assert!(is_unwanted(&ledger::said_under(
            9,
            &value(&[Community::NO_LLGR])
        )));
        assert!(!is_unwanted(&value(&[Community::LLGR_STALE])));
        assert!(!is_unwanted(b""));
    }
}
