//! For how long nobody serves a peer, counted on every replica, so that a new leader goes on where the old one
//! stopped, and whether anybody waits for it. Knows no clock: whoever counts says how much time has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use weft_bgp::peer::PeerId;

use crate::config::Bgp;
use crate::ledger::Owner;
use crate::reflector::owner::Agreed;

/// Peers that nobody serves.
#[derive(Default)]
pub(super) struct Orphans(BTreeMap<PeerId, Orphan>);

struct Orphan {
    /// The record under which nobody does.
    record: Option<Owner>,
    /// For how long.
    age: Duration,
}

impl Orphans {
    /// So much time has passed, and this is agreed.
    pub(super) fn count(&mut self, peers: &BTreeMap<PeerId, Agreed>, elapsed: Duration) {
        self.0.retain(|peer, orphan| {
            let Some(agreed) = peers.get(peer) else {
                return false;
            };
            orphan.age += elapsed;
            agreed.owner == orphan.record && (agreed.sessions.is_empty() || is_stale(agreed))
        });
        for (peer, agreed) in peers {
            if agreed.sessions.is_empty() {
                let begin = || Orphan {
                    record: agreed.owner.clone(),
                    age: Duration::ZERO,
                };
                self.0.entry(*peer).or_insert_with(begin);
            }
        }
    }

    /// For how long nobody has served the peer, or it has been long-lived stale and is back.
    pub(super) fn age(&self, peer: PeerId) -> Option<Duration> {
        self.0.get(&peer).map(|orphan| orphan.age)
    }

    /// That of each.
    pub(super) fn ages(&self) -> BTreeMap<PeerId, Duration> {
        let ages = self.0.iter().map(|(peer, orphan)| (*peer, orphan.age));
        ages.collect()
    }
}

/// Who is waited for, of those that a replica served last and by its configuration. What is retained of anybody else goes
/// at once: it would stay for as long as the peer once asked, and nobody could take it away.
pub(super) struct Awaited<'a> {
    bgp: &'a Bgp,
    replica: u64,
    /// Where somebody is served, whoever that is.
    served: BTreeSet<IpAddr>,
}

impl<'a> Awaited<'a> {
    /// As this is agreed.
    pub(super) fn new(bgp: &'a Bgp, replica: u64, peers: &BTreeMap<PeerId, Agreed>) -> Self {
        let served = peers.values().filter(|agreed| !agreed.sessions.is_empty());
        let address = |agreed: &Agreed| agreed.owner.as_ref().map(|owner| owner.address);
        Self {
            bgp,
            replica,
            served: served.filter_map(address).collect(),
        }
    }

    /// Why a peer is not waited for, if nobody serves it and that is so.
    pub(super) fn refusal(&self, agreed: &Agreed) -> Option<&'static str> {
        let owner = agreed.owner.as_ref()?;
        if !agreed.sessions.is_empty() || owner.replica != self.replica {
            return None;
        }
        let address = owner.address;
        match self.bgp.resolve(address) {
            None => Some("it is not configured any more"),
            Some(resolved) if resolved.settings.shutdown.is_some() => Some("it is shut down"),
            Some(_) if self.served.contains(&address) => Some("it is back as another"),
            Some(_) => None,
        }
    }
}

/// RFC 9494 §4.2: a session does not end the long-lived stale time. The record of who claims the peer then says how
/// much of it is left.
fn is_stale(agreed: &Agreed) -> bool {
    let owner = agreed.owner.as_ref();
    owner.is_some_and(Owner::is_long_lived_stale)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_bgp::family::Family;
    use weft_bgp::peer::RouterId;
    use weft_bgp::table::PeerKind;

    use super::*;
    use crate::config::Config;
    use crate::ledger::{Phase, Retention};

    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };
    const SECOND: Duration = Duration::from_secs(1);

    fn agreed(epoch: u64, phase: Option<Phase>, sessions: &[u64]) -> BTreeMap<PeerId, Agreed> {
        let retention = phase.map(|phase| Retention {
            phase,
            restart_secs: 0,
            families: vec![(Family::L2VPN_EVPN, 3600)],
        });
        let owner = Owner {
            replica: 1,
            epoch,
            address: "192.0.2.1".parse().unwrap(),
            kind: PeerKind::IbgpClient,
            fresh_from: 0,
            returned: None,
            retention,
        };
        let agreed = Agreed {
            owner: Some(owner),
            sessions: BTreeSet::from_iter(sessions.iter().copied()),
        };
        BTreeMap::from([(PEER, agreed)])
    }

    #[test]
    fn time_begins_anew_with_another_record_and_ends_with_a_session() {
        let mut orphans = Orphans::default();
        orphans.count(&agreed(1, None, &[]), SECOND);
        orphans.count(&agreed(1, None, &[]), SECOND);
        assert_eq!(orphans.age(PEER), Some(SECOND));
        orphans.count(&agreed(1, Some(Phase::Graceful), &[]), SECOND);
        assert_eq!(orphans.age(PEER), Some(Duration::ZERO));
        orphans.count(&agreed(1, Some(Phase::Graceful), &[2]), SECOND);
        assert_eq!(orphans.age(PEER), None);
        orphans.count(&BTreeMap::new(), SECOND);
        assert_eq!(orphans.age(PEER), None);
    }

    fn config(peers: &str) -> Bgp {
        let text = format!(
            r#"
            [replica]
            id = 1
            data_dir = "/var/lib/weft"

            [bgp]
            asn = 64496
            router_id = "192.0.2.254"
            [[bgp.peer_group]]
            name = "leaves"
            remote_asn = 64496
            {peers}
            "#
        );
        Config::parse(&text, Path::new("weft.toml")).unwrap().bgp
    }

    #[test]
    fn nobody_waits_for_who_was_removed_or_shut_down_or_is_back_as_another() {
        let listed = "[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"";
        let (here, gone) = (config(listed), config(""));
        let shut = config(&format!("{listed}\nshutdown = true"));
        let retained = agreed(1, Some(Phase::LongLived), &[]);
        let refused = |bgp: &Bgp, peers: &BTreeMap<PeerId, Agreed>| {
            let refused = |replica| Awaited::new(bgp, replica, peers).refusal(&peers[&PEER]);
            assert_eq!(refused(2), None, "another one served it");
            refused(1).is_some()
        };
        let refusals = [&here, &gone, &shut].map(|bgp| refused(bgp, &retained));
        assert_eq!(refusals, [false, true, true]);

        // The address is another's now, that has a session or not yet.
        for (sessions, expected) in [(&[2][..], true), (&[], false)] {
            let mut peers = retained.clone();
            let other = PeerId {
                router_id: RouterId(0xc000_0202),
                ..PEER
            };
            peers.extend(
                agreed(1, None, sessions)
                    .into_values()
                    .map(|it| (other, it)),
            );
            assert_eq!(refused(&here, &peers), expected);
        }
        // Nothing says where it was.
        let mut unknown = retained;
        unknown.values_mut().for_each(|agreed| agreed.owner = None);
        assert!(!refused(&gone, &unknown));
    }

    #[test]
    fn the_long_lived_stale_time_runs_on_until_somebody_claims_the_peer() {
        let mut orphans = Orphans::default();
        orphans.count(&agreed(1, Some(Phase::LongLived), &[]), SECOND);
        orphans.count(&agreed(1, Some(Phase::LongLived), &[1]), SECOND);
        assert_eq!(orphans.ages(), BTreeMap::from([(PEER, SECOND)]));
        orphans.count(&agreed(1, Some(Phase::LongLived), &[]), SECOND);
        assert_eq!(orphans.age(PEER), Some(2 * SECOND));
        orphans.count(&agreed(2, None, &[1]), SECOND);
        assert_eq!(orphans.age(PEER), None);
    }
}
