//! Follows what the spines announce of the declared VTEPs.
//!
//! The task looks at the tables a few times a second, and only when something was applied since: each look costs one lookup for
//! each declared VTEP, and one comparison for each of its paths.
//!
//! A spine whose session has just begun announces its VTEPs in several UPDATEs. What it has not announced yet is not taken
//! for lost: End-of-RIB is no fact, so it has a time to follow.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::table::{Stale, Table};

use crate::fabric::live::{Announced, SpineRoutes};
use crate::fabric::topology::{Role, SwitchName, Topology};
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// Publishes what the spines of the fabric announce, until the daemon stops.
pub(super) async fn follow(
    shared: Arc<Shared>,
    mut topology: watch::Receiver<Option<Arc<Topology>>>,
    announced: watch::Sender<Arc<Announced>>,
) {
    let mut sessions = Sessions::default();
    loop {
        let wanted = topology.borrow_and_update().as_deref().map(Wanted::new);
        let wanted = Arc::new(wanted.unwrap_or_default());
        let mut applied = None;
        let mut latest = Heard::new();
        while !topology.has_changed().unwrap_or(true) {
            if wanted.spines.is_empty() {
                publish(&announced, Announced::new());
                break;
            }
            let (look, since) = (Arc::clone(&wanted), applied);
            let looked = shared.reflection.query(move |reflector| {
                let index = reflector.index();
                (since != Some(index)).then(|| (index, look.hear(reflector)))
            });
            let now = Instant::now();
            match looked.await {
                None => return,
                Some(None) if !sessions.due(now) => {}
                Some(None) => publish(&announced, sessions.take(&latest, now)),
                Some(Some((index, heard))) => {
                    applied = Some(index);
                    latest = heard;
                    publish(&announced, sessions.take(&latest, now));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let none = wanted.spines.is_empty();
        if topology.has_changed().is_err() || (none && topology.changed().await.is_err()) {
            return;
        }
    }
}

fn publish(announced: &watch::Sender<Arc<Announced>>, now: Announced) {
    announced.send_if_modified(|before| {
        let changed = **before != now;
        if changed {
            *before = Arc::new(now);
        }
        changed
    });
}

/// Spines whose routes are looked at, and the VTEPs that are looked for.
#[derive(Default)]
struct Wanted {
    /// By the address of their sessions.
    spines: BTreeMap<IpAddr, SwitchName>,
    vteps: BTreeSet<IpAddr>,
}

impl Wanted {
    fn new(topology: &Topology) -> Self {
        let spines = topology
            .switches()
            .filter(|switch| switch.role == Role::Spine);
        let leaves = topology
            .switches()
            .filter(|switch| switch.role == Role::Leaf);
        Self {
            spines: spines
                .filter_map(|spine| Some((spine.peer?, spine.name.clone())))
                .collect(),
            vteps: leaves.filter_map(|leaf| leaf.vtep).collect(),
        }
    }

    fn hear(&self, reflector: &Reflector) -> Heard {
        let mut to: BTreeMap<IpAddr, Session> = BTreeMap::new();
        for (_, agreed) in reflector.peers() {
            if let Some(owner) = agreed
                .owner
                .as_ref()
                .filter(|_| !agreed.sessions.is_empty())
                && self.spines.contains_key(&owner.address)
            {
                let session = to.entry(owner.address).or_default();
                session.epoch = session.epoch.max(owner.epoch);
            }
        }
        for vtep in &self.vteps {
            let announcers = match vtep {
                IpAddr::V4(vtep) => {
                    let prefix = Prefix4 {
                        addr: *vtep,
                        len: 32,
                    };
                    announcers(reflector.ipv4(), &prefix)
                }
                IpAddr::V6(vtep) => {
                    let prefix = Prefix6 {
                        addr: *vtep,
                        len: 128,
                    };
                    announcers(reflector.ipv6(), &prefix)
                }
            };
            for announcer in announcers {
                if let Some(session) = to.get_mut(&announcer) {
                    session.vteps.insert(*vtep);
                }
            }
        }
        let spines = self.spines.iter();
        spines
            .map(|(address, spine)| (spine.clone(), to.get(address).cloned()))
            .collect()
    }
}

/// What is agreed of every spine; None: it has no session to any replica.
type Heard = BTreeMap<SwitchName, Option<Session>>;

/// What is agreed of a spine that has a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Session {
    /// Grows whenever a replica claims the spine's routes.
    epoch: u64,
    /// The VTEPs of the fabric that it announces.
    vteps: BTreeSet<IpAddr>,
}

/// The sessions as of the last look, and until when each of them begins.
#[derive(Default)]
struct Sessions(BTreeMap<SwitchName, (Session, Option<Instant>)>);

impl Sessions {
    /// Takes what is agreed now.
    fn take(&mut self, heard: &Heard, now: Instant) -> Announced {
        let mut before = std::mem::take(&mut self.0);
        let mut announced = Announced::new();
        for (spine, session) in heard {
            let Some(session) = session else {
                announced.insert(spine.clone(), SpineRoutes::NoSession);
                continue;
            };
            let begins = match before.remove(spine) {
                None => Some(now + BEGINS_FOR),
                // It has still to announce the first one.
                Some((old, _)) if old.vteps.is_empty() => Some(now + BEGINS_FOR),
                // It went and came back between two looks.
                Some((old, _))
                    if old.epoch != session.epoch && !old.vteps.is_subset(&session.vteps) =>
                {
                    Some(now + BEGINS_FOR)
                }
                Some((_, begins)) => begins.filter(|until| now < *until),
            };
            let vteps = session.vteps.clone();
            let routes = match begins {
                Some(_) => SpineRoutes::Beginning(vteps),
                None => SpineRoutes::To(vteps),
            };
            announced.insert(spine.clone(), routes);
            self.0.insert(spine.clone(), (session.clone(), begins));
        }
        announced
    }

    /// Whether a session does not begin any more.
    fn due(&self, now: Instant) -> bool {
        let mut begins = self.0.values().filter(|(it, _)| !it.vteps.is_empty());
        begins.any(|(_, begins)| begins.is_some_and(|until| now >= until))
    }
}

/// Addresses of the peers that announce a prefix now: what is stale is what they announced before they restarted.
fn announcers<N: Nlri<Key = N>>(table: &Table<N>, prefix: &N) -> Vec<IpAddr> {
    let paths = table.get(prefix).map(|destination| destination.paths);
    let paths = paths.unwrap_or_default().iter();
    paths
        .filter(|path| path.source.stale == Stale::No)
        .map(|path| path.source.address)
        .collect()
}

/// A way that is lost is known that soon after its withdrawal was applied.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// From a spine's first VTEP to its last: a table of a few thousand routes takes a tenth of that.
const BEGINS_FOR: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_bgp::attribute::{AsPath, Attributes, NextHop};
    use weft_bgp::family::Family;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::reflect::Local;
    use weft_bgp::table::PeerKind;
    use weft_store::{Applied, Change};

    use super::*;
    use crate::fabric::topology::tests::{declared, vtep};
    use crate::ledger::{self, FactKey, Owner};

    fn wanted() -> Wanted {
        let mut fabric = declared(2, 2);
        for (switch, spine) in fabric.switches.iter_mut().skip(2).zip(1..) {
            switch.peer_address = format!("203.0.113.{spine}");
        }
        Wanted::new(&Topology::new(&fabric).unwrap())
    }

    fn peer(spine: u8) -> PeerId {
        PeerId {
            router_id: RouterId(spine.into()),
            asn: 64_496 + u32::from(spine),
        }
    }

    struct Facts(Reflector);

    impl Facts {
        fn new() -> Self {
            Self(Reflector::new(Local {
                asn: 64_496,
                router_id: RouterId(100),
                cluster_id: ClusterId(100),
            }))
        }

        fn apply(&mut self, change: Change) {
            let index = self.0.index() + 1;
            let changes = vec![change];
            self.0
                .handle(&Applied {
                    index,
                    term: 1,
                    changes,
                })
                .unwrap();
            self.0.poll(&mut Vec::new());
        }

        fn put(&mut self, key: &FactKey<'_>, value: Bytes) {
            let keys = vec![key.encode()];
            self.apply(Change::Put { value, keys });
        }

        fn session(&mut self, spine: u8) {
            let owner = Owner {
                replica: 1,
                epoch: 1,
                address: IpAddr::from([203, 0, 113, spine]),
                kind: PeerKind::Ebgp,
                fresh_from: 0,
                returned: None,
                retention: None,
            };
            self.put(&FactKey::Owner(peer(spine)), owner.encode());
            self.put(&FactKey::Session(1, peer(spine)), Bytes::new());
        }

        fn prefix(leaf: u8) -> Prefix4 {
            let IpAddr::V4(addr) = vtep(leaf) else {
                unreachable!("the VTEPs of this fabric are IPv4")
            };
            Prefix4 { addr, len: 32 }
        }

        fn route(spine: u8, leaf: u8) -> Bytes {
            let mut octets = Vec::new();
            Prefix4::key_octets(&Self::prefix(leaf), &mut octets);
            let mut nlri = Vec::new();
            ledger::write_path(0, &octets, &mut nlri);
            FactKey::Route(Family::IPV4_UNICAST, peer(spine), &nlri).encode()
        }

        fn announce(&mut self, spine: u8, leaf: u8) {
            let attributes = Attributes {
                as_path: AsPath::sequence(&[64_496]),
                next_hop: Some(NextHop::V4([203, 0, 113, spine].into())),
                ..Attributes::default()
            };
            let octets = attributes.to_octets();
            let value = ledger::encode_path(&Self::prefix(leaf), &octets, &mut Vec::new());
            let keys = vec![Self::route(spine, leaf)];
            self.apply(Change::Put { value, keys });
        }

        fn withdraw(&mut self, spine: u8, leaf: u8) {
            let keys = vec![Self::route(spine, leaf)];
            self.apply(Change::Delete { keys });
        }
    }

    /// What is published once no session begins any more.
    fn settled(wanted: &Wanted, facts: &Facts) -> Announced {
        let (mut sessions, now) = (Sessions::default(), Instant::now());
        let heard = wanted.hear(&facts.0);
        sessions.take(&heard, now);
        sessions.take(&heard, now + BEGINS_FOR)
    }

    fn to(leaves: &[u8]) -> SpineRoutes {
        SpineRoutes::To(leaves.iter().map(|leaf| vtep(*leaf)).collect())
    }

    fn beginning(leaves: &[u8]) -> SpineRoutes {
        SpineRoutes::Beginning(leaves.iter().map(|leaf| vtep(*leaf)).collect())
    }

    #[test]
    fn a_spine_announces_what_its_own_session_brought() {
        let (wanted, mut facts) = (wanted(), Facts::new());
        assert!(
            settled(&wanted, &facts)
                .values()
                .all(|routes| *routes == SpineRoutes::NoSession)
        );
        facts.session(1);
        facts.session(2);
        facts.announce(1, 1);
        facts.announce(1, 2);
        facts.announce(2, 2);
        let announced = settled(&wanted, &facts);
        assert_eq!(announced["spine1"], to(&[1, 2]));
        assert_eq!(announced["spine2"], to(&[2]));
    }

    #[test]
    fn a_withdrawal_that_changes_no_best_path_is_seen() {
        let (wanted, mut facts) = (wanted(), Facts::new());
        for spine in 1..=2 {
            facts.session(spine);
            facts.announce(spine, 1);
            facts.announce(spine, 2);
        }
        facts.withdraw(2, 2);
        let announced = settled(&wanted, &facts);
        assert_eq!(announced["spine2"], to(&[1]));
        let gone = FactKey::Session(1, peer(1)).encode();
        facts.apply(Change::Delete { keys: vec![gone] });
        let announced = settled(&wanted, &facts);
        assert_eq!(announced["spine1"], SpineRoutes::NoSession);
    }

    #[test]
    fn a_spine_whose_session_begins_has_a_while_to_announce_its_vteps() {
        let (wanted, mut facts) = (wanted(), Facts::new());
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        let mut look = |facts: &Facts, secs: u64| {
            let now = start + Duration::from_secs(secs);
            let announced = sessions.take(&wanted.hear(&facts.0), now);
            announced["spine1"].clone()
        };
        facts.session(1);
        assert_eq!(look(&facts, 0), beginning(&[]));
        // However long it takes to announce the first one.
        facts.announce(1, 1);
        assert_eq!(look(&facts, 60), beginning(&[1]));
        facts.announce(1, 2);
        assert_eq!(look(&facts, 61), beginning(&[1, 2]));
        assert_eq!(look(&facts, 62), to(&[1, 2]));
        // From now on a route that is not there is lost.
        facts.withdraw(1, 2);
        assert_eq!(look(&facts, 62), to(&[1]));
        // The session ends and comes back.
        facts.announce(1, 2);
        assert_eq!(look(&facts, 63), to(&[1, 2]));
        let gone = FactKey::Session(1, peer(1)).encode();
        facts.apply(Change::Delete { keys: vec![gone] });
        facts.withdraw(1, 1);
        facts.withdraw(1, 2);
        assert_eq!(look(&facts, 70), SpineRoutes::NoSession);
        facts.session(1);
        facts.announce(1, 1);
        assert_eq!(look(&facts, 80), beginning(&[1]));
        assert_eq!(look(&facts, 82), to(&[1]));
    }

    #[test]
    fn another_replica_that_claims_a_spine_begins_nothing() {
        let spine = SwitchName::from("spine1");
        let heard = |epoch, leaves: &[u8]| -> Heard {
            let vteps = leaves.iter().map(|leaf| vtep(*leaf)).collect();
            [(spine.clone(), Some(Session { epoch, vteps }))].into()
        };
        let (mut sessions, start) = (Sessions::default(), Instant::now());
        sessions.take(&heard(1, &[1]), start);
        let later = start + BEGINS_FOR;
        assert!(sessions.due(later));
        assert_eq!(sessions.take(&heard(1, &[1]), later)[&spine], to(&[1]));
        assert!(!sessions.due(later));
        assert_eq!(sessions.take(&heard(2, &[1]), later)[&spine], to(&[1]));
        // It came back with less between two looks.
        let announced = sessions.take(&heard(3, &[2]), later);
        assert_eq!(announced[&spine], beginning(&[2]));
    }
}
