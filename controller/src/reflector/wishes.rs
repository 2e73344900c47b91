//! Which route targets the peers want that do not say so (RFC 4684 §3.2 knows none of them): those that their own EVPN
//! routes carry, as with `route_target_filter = "auto"`. Knows only selected routes and memberships, so that all
//! replicas wish the same; not who is told.
//!
//! Whoever tells memberships has said all that it wants, and is not wished for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use foldhash::HashMap;
use weft_bgp::attribute::{Attributes, ExtendedCommunity, NextHop};
use weft_bgp::constrain::is_route_target;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::peer::{PeerId, RouterId};
use weft_bgp::reflect::Local;
use weft_bgp::table::{BestChange, Path, PeerKind, Source, Table};
use weft_evpn::Route;

/// What is wished for on behalf of others.
#[derive(Debug)]
pub(super) struct Wishes {
    source: Arc<Source>,
    attributes: Arc<Attributes>,
    asn: u32,
    /// Routes by their peer and target.
    exports: HashMap<PeerId, HashMap<ExtendedCommunity, usize>>,
    /// Peers with memberships of their own.
    sayers: BTreeSet<PeerId>,
    /// Other peers that export a target, counted.
    wanted: BTreeMap<ExtendedCommunity, usize>,
    changed: BTreeSet<ExtendedCommunity>,
}

impl Wishes {
    /// None, from a peer whose router id no other has: RFC 6286 §2.1 forbids 0.
    pub(super) fn new(local: &Local) -> Self {
        let peer = PeerId {
            router_id: RouterId(0),
            asn: local.asn,
        };
        // By the cluster, which all replicas have in common.
        let address = Ipv4Addr::from(local.cluster_id.0);
        let attributes = Attributes {
            next_hop: Some(NextHop::V4(address)),
            originator_id: Some(RouterId(local.cluster_id.0)),
            ..Attributes::default()
        };
        Self {
            source: Arc::new(Source::new(peer, address.into(), PeerKind::IbgpClient)),
            attributes: Arc::new(attributes),
            asn: local.asn,
            exports: HashMap::default(),
            sayers: BTreeSet::new(),
            wanted: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Whether this peer has told memberships.
    pub(super) fn hears(&self, peer: PeerId) -> bool {
        self.sayers.contains(&peer)
    }

    /// Whether paths of this peer are wishes, and no facts.
    pub(super) fn are_of(peer: PeerId) -> bool {
        peer.router_id == RouterId(0)
    }

    /// Another path was selected, or none.
    pub(super) fn learn(&mut self, change: &BestChange<Route>) {
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && old.source.peer == new.source.peer
            && Arc::ptr_eq(&old.attributes, &new.attributes)
        {
            return;
        }
        if let Some(new) = &change.new {
            targets(new).for_each(|target| self.export(new.source.peer, target));
        }
        if let Some(old) = &change.old {
            targets(old).for_each(|target| self.retract(old.source.peer, target));
        }
    }

    fn export(&mut self, peer: PeerId, target: ExtendedCommunity) {
        let routes = self.exports.entry(peer).or_default();
        let routes = routes.entry(target).or_default();
        *routes += 1;
        if *routes == 1 && !self.sayers.contains(&peer) {
            self.want(target);
        }
    }

    fn retract(&mut self, peer: PeerId, target: ExtendedCommunity) {
        let Some(targets) = self.exports.get_mut(&peer) else {
            return;
        };
        let Some(routes) = targets.get_mut(&target) else {
            return;
        };
        *routes -= 1;
        if *routes > 0 {
            return;
        }
        targets.remove(&target);
        if targets.is_empty() {
            self.exports.remove(&peer);
        }
        if !self.sayers.contains(&peer) {
            self.unwant(target);
        }
    }

    fn want(&mut self, target: ExtendedCommunity) {
        let peers = self.wanted.entry(target).or_default();
        *peers += 1;
        if *peers == 1 {
            self.changed.insert(target);
        }
    }

    fn unwant(&mut self, target: ExtendedCommunity) {
        let Some(peers) = self.wanted.get_mut(&target) else {
            return;
        };
        *peers -= 1;
        if *peers == 0 {
            self.wanted.remove(&target);
            self.changed.insert(target);
        }
    }

    /// The memberships that were told are these now. Looks at all of them.
    pub(super) fn hear(&mut self, memberships: &Table<Membership>) {
        let paths = memberships.iter().flat_map(|at| at.paths.iter());
        let peers = paths.map(|path| path.source.peer);
        let sayers: BTreeSet<_> = peers.filter(|peer| !Self::are_of(*peer)).collect();
        let before = std::mem::replace(&mut self.sayers, sayers);
        let turned: Vec<_> = before.symmetric_difference(&self.sayers).copied().collect();
        for peer in turned {
            let targets = self.exports.get(&peer).into_iter().flatten();
            let targets: Vec<_> = targets.map(|(target, _)| *target).collect();
            for target in targets {
                match self.sayers.contains(&peer) {
                    true => self.unwant(target),
                    false => self.want(target),
                }
            }
        }
    }

    /// Puts what changed among the memberships of others.
    pub(super) fn tell(&mut self, memberships: &mut Table<Membership>) {
        for target in std::mem::take(&mut self.changed) {
            let wish = Membership::exactly(self.asn, target);
            if self.wanted.contains_key(&target) {
                memberships.learn(&self.source, 0, wish, Arc::clone(&self.attributes));
            } else {
                memberships.withdraw(self.source.peer, 0, &wish);
            }
        }
    }
}

/// The route targets of a path, each once unless the path says one twice; of more than [`TARGETS_MAX`] the first. That is
/// a function of the path, so that all replicas wish the same.
fn targets(path: &Path<Route>) -> impl Iterator<Item = ExtendedCommunity> + '_ {
    let all = path.attributes.ext_communities.iter().copied();
    all.filter(|community| is_route_target(*community))
        .take(TARGETS_MAX)
}

/// Route targets that count of one route: more than a leaf imports a route into. Each costs every replica an entry.
const TARGETS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use weft_bgp::peer::ClusterId;
    use weft_bgp::rd::Rd;
    use weft_evpn::EthernetTag;
    use weft_evpn::route::{InclusiveMulticast, InclusiveMulticastKey};

    use super::*;

    const LOCAL: Local = Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(2),
    };

    fn source(number: u8) -> Arc<Source> {
        let address = Ipv4Addr::new(192, 0, 2, number);
        let peer = PeerId {
            router_id: address.into(),
            asn: 64_496,
        };
        Arc::new(Source::new(peer, address.into(), PeerKind::IbgpClient))
    }

    fn route(number: u8) -> Route {
        let originator = Ipv4Addr::new(192, 0, 2, number).into();
        Route::InclusiveMulticast(InclusiveMulticast {
            key: InclusiveMulticastKey {
                rd: Rd([0, 0, 0, 0, 0, 0, 0, number]),
                tag: EthernetTag(0),
                originator,
            },
        })
    }

    fn exporting(target: u32) -> Arc<Attributes> {
        Arc::new(Attributes {
            next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
            ext_communities: vec![ExtendedCommunity::route_target_as2(64_496, target)],
            ..Attributes::default()
        })
    }

    fn wish(target: u32) -> Membership {
        Membership::exactly(64_496, ExtendedCommunity::route_target_as2(64_496, target))
    }

    /// One turn of a reflector; which memberships are wishes then.
    fn turn(
        wishes: &mut Wishes,
        routes: &mut Table<Route>,
        memberships: &mut Table<Membership>,
    ) -> Vec<Membership> {
        routes
            .select()
            .iter()
            .for_each(|change| wishes.learn(change));
        wishes.hear(memberships);
        wishes.tell(memberships);
        memberships.select();
        let mut all: Vec<_> = memberships
            .iter()
            .flat_map(|at| at.paths)
            .filter(|path| Wishes::are_of(path.source.peer))
            .map(|path| path.nlri)
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_route_with_very_many_targets_is_wished_for_by_some() {
        let (mut wishes, mut routes, mut memberships) =
            (Wishes::new(&LOCAL), Table::new(), Table::new());
        let targets = (0..2_000).map(|number| ExtendedCommunity::route_target_as2(64_496, number));
        let attributes = Attributes {
            ext_communities: targets.collect(),
            ..(*exporting(0)).clone()
        };
        routes.learn(&source(1), 0, route(1), Arc::new(attributes));
        let mut now = |routes: &mut _, memberships: &mut _| turn(&mut wishes, routes, memberships);
        assert_eq!(now(&mut routes, &mut memberships).len(), TARGETS_MAX);
        routes.withdraw_peer(source(1).peer);
        assert_eq!(now(&mut routes, &mut memberships), []);
    }

    #[test]
    fn what_silent_peers_export_is_wished_for() {
        let (mut wishes, mut routes, mut memberships) =
            (Wishes::new(&LOCAL), Table::new(), Table::new());
        routes.learn(&source(1), 0, route(1), exporting(100));
        routes.learn(&source(2), 0, route(2), exporting(100));
        routes.learn(&source(3), 0, route(3), exporting(300));
        let mut now = |routes: &mut _, memberships: &mut _| turn(&mut wishes, routes, memberships);
        assert_eq!(now(&mut routes, &mut memberships), [wish(100), wish(300)]);

        // One of two moves to another target, the other one goes.
        routes.learn(&source(1), 0, route(1), exporting(101));
        assert_eq!(
            now(&mut routes, &mut memberships),
            [wish(100), wish(101), wish(300)]
        );
        routes.withdraw_peer(source(2).peer);
        assert_eq!(now(&mut routes, &mut memberships), [wish(101), wish(300)]);

        // Who says what it wants, wants nothing else.
        memberships.learn(&source(3), 0, wish(100), exporting(0));
        assert_eq!(now(&mut routes, &mut memberships), [wish(101)]);
        memberships.withdraw_peer(source(3).peer);
        assert_eq!(now(&mut routes, &mut memberships), [wish(101), wish(300)]);
    }
}
