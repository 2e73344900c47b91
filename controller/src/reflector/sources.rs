//! Where a peer's paths come from, as its owner record says: who it is to us, and which of its paths are stale. Knows
//! no key; the same facts give the same sources on every replica, also on one that did not see how they came about.

use std::sync::Arc;

use weft_bgp::attribute::Attributes;
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::PeerId;
use weft_bgp::table::{Source, Stale, Table};

use crate::ledger::{self, Owner};

/// The sources of one peer's paths.
#[derive(Debug)]
pub(super) struct Sources {
    said: Arc<Source>,
    /// Of what a peer that is back from being long-lived stale has not said again, and from which epoch on it has.
    unsaid: Option<(Arc<Source>, u64)>,
}

impl Sources {
    /// Those of a peer with this record.
    pub(super) fn new(peer: PeerId, owner: &Owner) -> Self {
        let said = owner.source(peer);
        let unsaid = || Source {
            stale: Stale::LongLived,
            ..said.clone()
        };
        let back = owner.fresh_from > 0 && !owner.is_long_lived_stale();
        let unsaid = back.then(|| (Arc::new(unsaid()), owner.fresh_from));
        Self {
            said: Arc::new(said),
            unsaid,
        }
    }

    /// Puts new ones in place of the old; whether there were others, and the paths must be learned again.
    pub(super) fn replace(place: &mut Option<Self>, mut new: Self) -> bool {
        let old = place.take().map(|old| old.said);
        let same = old.as_ref() == Some(&new.said);
        let moved = old.is_some() && !same;
        if let Some(old) = old.filter(|_| same) {
            // The one that the paths have.
            new.said = old;
        }
        *place = Some(new);
        moved
    }

    /// That of a path with this value.
    pub(super) fn of(&self, value: &[u8]) -> &Arc<Source> {
        match &self.unsaid {
            Some((unsaid, from)) if ledger::epoch_of(value) < *from => unsaid,
            Some(_) | None => &self.said,
        }
    }

    /// Learns the peer's paths again, as these sources say. What was long-lived stale and is not said again stays so.
    pub(super) fn relearn<N: Nlri>(&self, peer: PeerId, table: &mut Table<N>) {
        let mut paths: Vec<(Arc<Source>, u32, N, Arc<Attributes>)> = Vec::new();
        for destination in table.iter() {
            let own = destination
                .paths
                .iter()
                .filter(|path| path.source.peer == peer);
            paths.extend(own.map(|path| {
                let source = match path.source.withheld {
                    true => Arc::new(Source {
                        withheld: true,
                        ..(**self.instead_of(&path.source)).clone()
                    }),
                    false => Arc::clone(self.instead_of(&path.source)),
                };
                let attributes = Arc::clone(&path.attributes);
                (source, path.path_id(), path.nlri.clone(), attributes)
            }));
        }
        for (source, path_id, nlri, attributes) in paths {
            table.learn(&source, path_id, nlri, attributes);
        }
    }

    fn instead_of(&self, before: &Source) -> &Arc<Source> {
        match &self.unsaid {
            Some((unsaid, _)) if before.stale == Stale::LongLived => unsaid,
            Some(_) | None => &self.said,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;
    use weft_bgp::attribute::NextHop;
    use weft_bgp::family::Family;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::{ClusterId, RouterId};
    use weft_bgp::reflect::Local;
    use weft_bgp::table::PeerKind;
    use weft_store::{Applied, Change};

    use super::*;
    use crate::ledger::{FactKey, Phase, Retention};
    use crate::reflector::Reflector;

    const PEER: PeerId = PeerId {
        router_id: RouterId(9),
        asn: 64_499,
    };

    /// The facts, and a replica that saw all of them.
    struct World {
        facts: BTreeMap<Bytes, Bytes>,
        reflector: Reflector,
        owner: Owner,
    }

    #[derive(Clone, Debug)]
    enum Event {
        Lost(Phase),
        Claimed,
        Said(u8),
    }

    impl World {
        fn new() -> Self {
            let mut world = Self {
                facts: BTreeMap::new(),
                reflector: reflector(),
                owner: Owner {
                    replica: 1,
                    epoch: 1,
                    address: "192.0.2.1".parse().unwrap(),
                    kind: PeerKind::Ebgp,
                    fresh_from: 0,
                    returned: None,
                    retention: None,
                },
            };
            world.record();
            world
        }

        fn put(&mut self, key: Bytes, value: Bytes) {
            self.facts.insert(key.clone(), value.clone());
            let keys = vec![key];
            self.reflector
                .handle(&Applied {
                    index: self.reflector.index() + 1,
                    term: 1,
                    changes: vec![Change::Put { value, keys }],
                })
                .unwrap();
        }

        fn record(&mut self) {
            self.put(FactKey::Owner(PEER).encode(), self.owner.encode());
        }

        fn meet(&mut self, event: &Event) {
            match event {
                // It only grows staler until it is back.
                Event::Lost(Phase::Graceful) if self.owner.is_long_lived_stale() => {}
                Event::Lost(phase) => {
                    let families = vec![(Family::IPV4_UNICAST, 3600)];
                    self.owner.retention = Some(Retention {
                        phase: *phase,
                        restart_secs: 120,
                        families,
                    });
                    self.record();
                }
                Event::Claimed => {
                    self.owner.epoch += 1;
                    if self.owner.is_long_lived_stale() {
                        self.owner.fresh_from = self.owner.epoch;
                    }
                    self.owner.retention = None;
                    self.record();
                }
                Event::Said(last) if self.owner.retention.is_none() => {
                    let address = std::net::Ipv4Addr::new(192, 0, 2, *last);
                    let prefix = Prefix4::new(address, 32).unwrap();
                    let attributes = Attributes {
                        next_hop: Some(NextHop::V4(address)),
                        ..Attributes::default()
                    };
                    let octets = attributes.to_octets();
                    let value = ledger::encode_path(&prefix, &octets, &mut Vec::new());
                    let mut nlri = Vec::new();
                    Prefix4::key_octets(&prefix, &mut nlri);
                    let key = FactKey::Route(Family::IPV4_UNICAST, PEER, &nlri).encode();
                    self.put(key, ledger::said_under(self.owner.fresh_from, &value));
                }
                Event::Said(_) => {}
            }
        }

        /// How stale each path is, by its last octet.
        fn stale(&self) -> Vec<(u8, Stale)> {
            stale(&self.reflector)
        }
    }

    fn reflector() -> Reflector {
        Reflector::new(Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(2),
        })
    }

    fn stale(reflector: &Reflector) -> Vec<(u8, Stale)> {
        let destinations = reflector.ipv4().iter();
        let paths = destinations.map(|destination| {
            let path = &destination.paths[0];
            let [.., last] = path.nlri.addr.octets();
            (last, path.source.stale)
        });
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable_by_key(|(last, _)| *last);
        paths
    }

    /// RFC 9494 §4.2.
    #[test]
    fn what_is_not_said_again_stays_long_lived_stale() {
        use Event::{Claimed, Lost, Said};
        let mut world = World::new();
        let mut after = |events: &[Event]| {
            events.iter().for_each(|event| world.meet(event));
            world.stale()
        };
        let (fresh, graceful, long) = (Stale::No, Stale::Graceful, Stale::LongLived);
        assert_eq!(after(&[Said(1), Said(2)]), [(1, fresh), (2, fresh)]);
        assert_eq!(
            after(&[Lost(Phase::Graceful), Claimed]),
            [(1, fresh), (2, fresh)]
        );
        assert_eq!(after(&[Lost(Phase::LongLived)]), [(1, long), (2, long)]);
        assert_eq!(after(&[Claimed]), [(1, long), (2, long)]);
        assert_eq!(
            after(&[Said(2), Said(3)]),
            [(1, long), (2, fresh), (3, fresh)]
        );
        // Another replica commits what the peer says.
        assert_eq!(after(&[Claimed]), [(1, long), (2, fresh), (3, fresh)]);
        let lost = after(&[Lost(Phase::Graceful)]);
        assert_eq!(lost, [(1, long), (2, graceful), (3, graceful)]);
        assert_eq!(after(&[Claimed]), [(1, long), (2, fresh), (3, fresh)]);
        let lost = after(&[Lost(Phase::LongLived), Claimed]);
        assert_eq!(lost, [(1, long), (2, long), (3, long)]);
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Lost(Phase::Graceful)),
            Just(Event::Lost(Phase::LongLived)),
            Just(Event::Claimed),
            (1u8..6).prop_map(Event::Said),
            (1u8..6).prop_map(Event::Said),
        ]
    }

    proptest! {
        #[test]
        fn a_replica_that_restarts_judges_every_path_alike(
            events in proptest::collection::vec(event(), 0..40)
        ) {
            let mut world = World::new();
            for event in &events {
                world.meet(event);
            }
            let mut restarted = reflector();
            restarted
                .reset(1, world.facts.clone().into_iter().collect())
                .unwrap();
            prop_assert_eq!(stale(&restarted), world.stale());
        }
    }
}
