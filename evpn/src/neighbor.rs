//! Which IP address is at which MAC address behind which VTEP, as the selected types 2 show it: what ARP
//! and ND would find, and where two hosts claim one address. Knows no packet and no session.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use weft_bgp::rd::Rd;
use weft_bgp::table::{BestChange, Path};

use crate::community::{ArpNd, DefaultGateway, MacMobility, find};
use crate::esi::Esi;
use crate::mac::Mac;
use crate::route::{MacIp, Route, RouteKey};
use crate::vni::{EthernetTag, Vni};
use crate::vtep::next_hop;

/// Where an IP address is looked up: in a VNI, or without one in the instance of a route distinguisher.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Domain {
    /// With VXLAN and its kin.
    Vni(Vni),
    /// With MPLS, whose labels are each VTEP's own.
    Instance(Rd, EthernetTag),
}

/// "VNI 100", or "192.0.2.1:100 tag 0".
impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vni(vni) => write!(f, "VNI {vni}"),
            Self::Instance(rd, tag) => write!(f, "{rd} tag {tag}"),
        }
    }
}

/// One claim to an IP address.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Neighbor {
    /// The MAC address.
    pub mac: Mac,
    /// The VTEP behind which it is.
    pub vtep: IpAddr,
    /// The segment behind which it is, zero when single-homed: over its other VTEPs it can be reached too.
    pub esi: Esi,
    /// How often the MAC address has moved.
    pub sequence: u32,
    /// It must not move. RFC 7432 §15.2.
    pub sticky: bool,
    /// It is a gateway's, which many VTEPs have. RFC 7432 §10.1, RFC 9135 §4.
    pub gateway: bool,
    /// It is a router's, by the ND flag. RFC 9047 §2.
    pub router: bool,
}

/// IP addresses that are claimed.
///
/// ```text
/// type 2 with an IP address selected --> (domain, IP) -> claims           about 150 octets each
/// ```
#[derive(Clone, Debug, Default)]
pub struct Neighbors {
    /// Claims ascending, with the number of routes that make them: mostly one.
    claims: BTreeMap<(Domain, IpAddr), Vec<(Neighbor, u32)>>,
}

impl Neighbors {
    /// Nothing is claimed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The view of these paths alone: for an answer to one question, without anything kept.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path<Route>>) -> Self {
        let mut view = Self::default();
        for path in paths {
            if let Some((domain, ip, neighbor)) = claim(path) {
                view.add(domain, ip, neighbor);
            }
        }
        view
    }

    /// Takes in a change of selection: each change of a table once, in order. Routes other than types 2
    /// with an IP address change nothing.
    pub fn learn(&mut self, change: &BestChange<Route>) {
        let addressed = matches!(&change.key, RouteKey::MacIp(key) if key.ip.is_some());
        if !addressed {
            return;
        }
        let old = change.old.as_ref().and_then(claim);
        let new = change.new.as_ref().and_then(claim);
        if old == new {
            return;
        }
        if let Some((domain, ip, neighbor)) = old {
            self.remove(domain, ip, neighbor);
        }
        if let Some((domain, ip, neighbor)) = new {
            self.add(domain, ip, neighbor);
        }
    }

    /// Who claims an IP address; the one that counts is [`Neighbors::winner`].
    pub fn claims(&self, domain: Domain, ip: IpAddr) -> impl Iterator<Item = Neighbor> {
        let claims = self.claims.get(&(domain, ip)).into_iter().flatten();
        claims.map(|(neighbor, _)| *neighbor)
    }

    /// The claim that counts: the one that must not move, then the latest, then the one behind the lowest
    /// VTEP, as for MAC addresses. RFC 7432 §15.
    #[must_use]
    pub fn winner(&self, domain: Domain, ip: IpAddr) -> Option<Neighbor> {
        self.claims(domain, ip)
            .max_by_key(|it| (it.sticky, it.sequence, std::cmp::Reverse((it.vtep, it.mac))))
    }

    /// Every address that is claimed, by domain and address, with the claim that counts.
    pub fn iter(&self) -> impl Iterator<Item = (Domain, IpAddr, Neighbor)> {
        self.claims.keys().filter_map(|(domain, ip)| {
            let winner = self.winner(*domain, *ip)?;
            Some((*domain, *ip, winner))
        })
    }

    /// Addresses that several hosts claim: more than one MAC address, gateways aside.
    pub fn duplicates(&self) -> impl Iterator<Item = (Domain, IpAddr, Vec<Neighbor>)> {
        self.claims.iter().filter_map(|((domain, ip), claims)| {
            let hosts: Vec<Neighbor> = claims
                .iter()
                .map(|(neighbor, _)| *neighbor)
                .filter(|neighbor| !neighbor.gateway)
                .collect();
            let macs: BTreeSet<Mac> = hosts.iter().map(|neighbor| neighbor.mac).collect();
            (macs.len() > 1).then_some((*domain, *ip, hosts))
        })
    }

    /// Addresses of a MAC address, ascending. Looks at every address.
    pub fn addresses_of(&self, mac: Mac) -> impl Iterator<Item = (Domain, IpAddr)> {
        self.claims.iter().filter_map(move |(place, claims)| {
            let own = claims.iter().any(|(neighbor, _)| neighbor.mac == mac);
            own.then_some(*place)
        })
    }

    /// How many addresses are claimed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    fn add(&mut self, domain: Domain, ip: IpAddr, neighbor: Neighbor) {
        let claims = self.claims.entry((domain, ip)).or_default();
        match claims.binary_search_by_key(&neighbor, |(held, _)| *held) {
            Ok(place) => {
                if let Some((_, routes)) = claims.get_mut(place) {
                    *routes = routes.saturating_add(1);
                }
            }
            Err(place) => {
                claims.reserve_exact(1);
                claims.insert(place, (neighbor, 1));
            }
        }
    }

    fn remove(&mut self, domain: Domain, ip: IpAddr, neighbor: Neighbor) {
        let Some(claims) = self.claims.get_mut(&(domain, ip)) else {
            return;
        };
        if let Some((_, routes)) = claims.iter_mut().find(|(held, _)| *held == neighbor) {
            *routes = routes.saturating_sub(1);
        }
        claims.retain(|(_, routes)| *routes > 0);
        if claims.is_empty() {
            self.claims.remove(&(domain, ip));
        }
    }
}

/// The claim that a path makes to an IP address, if it makes one.
#[must_use]
pub fn claim(path: &Path<Route>) -> Option<(Domain, IpAddr, Neighbor)> {
    let Route::MacIp(MacIp { key, esi, .. }) = &path.nlri else {
        return None;
    };
    let attributes = &path.attributes;
    let mobility = MacMobility::find(attributes);
    let domain = path
        .nlri
        .vni(attributes)
        .map_or(Domain::Instance(key.rd, key.tag), Domain::Vni);
    let neighbor = Neighbor {
        mac: key.mac,
        vtep: next_hop(attributes)?,
        esi: *esi,
        sequence: mobility.map_or(0, MacMobility::sequence),
        sticky: mobility.is_some_and(MacMobility::is_sticky),
        gateway: find(attributes, DefaultGateway::of).is_some(),
        router: find(attributes, ArpNd::of).is_some_and(ArpNd::is_router),
    };
    Some((domain, key.ip?, neighbor))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weft_bgp::attribute::{Attributes, NextHop};
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source, Table};

    use super::*;
    use crate::Label;
    use crate::community::Encapsulation;
    use crate::route::{Labels, MacIpKey};

    fn source(leaf: u8) -> Arc<Source> {
        let peer = PeerId {
            router_id: RouterId(leaf.into()),
            asn: 64_496,
        };
        let address = [192, 0, 2, leaf].into();
        Arc::new(Source::new(peer, address, PeerKind::IbgpClient))
    }

    fn host(leaf: u8, mac: u8, ip: u8) -> Route {
        let key = MacIpKey {
            rd: Rd::from_ipv4([192, 0, 2, leaf].into(), 1),
            tag: EthernetTag(0),
            mac: Mac([0, 0, 0x5e, 0, 0x53, mac]),
            ip: (ip > 0).then(|| address(ip)),
        };
        Route::MacIp(MacIp {
            key,
            esi: Esi::ZERO,
            labels: Labels::One(Label([0, 0, 100])),
        })
    }

    fn address(ip: u8) -> IpAddr {
        [198, 51, 100, ip].into()
    }

    fn attributes(leaf: u8, sequence: u32, tunnel_type: u16) -> Attributes {
        Attributes {
            next_hop: Some(NextHop::V4([192, 0, 2, leaf].into())),
            ext_communities: vec![
                Encapsulation::new(tunnel_type).octets(),
                MacMobility::new(false, sequence).octets(),
            ],
            ..Attributes::default()
        }
    }

    const VXLAN: u16 = Encapsulation::VXLAN;

    fn learn(neighbors: &mut Neighbors, table: &mut Table<Route>) {
        table
            .select()
            .iter()
            .for_each(|change| neighbors.learn(change));
    }

    fn domain() -> Domain {
        Domain::Vni(Vni::new(100).unwrap())
    }

    #[test]
    fn two_hosts_with_one_address_are_seen() {
        let (mut neighbors, mut table) = (Neighbors::new(), Table::new());
        for (leaf, mac, sequence) in [(1, 7, 0), (2, 8, 3), (3, 7, 1)] {
            let offer = Arc::new(attributes(leaf, sequence, VXLAN));
            table.learn(&source(leaf), 0, host(leaf, mac, 5), offer);
        }
        // No address, and another one: no claim to this.
        table.learn(
            &source(1),
            0,
            host(1, 9, 0),
            Arc::new(attributes(1, 0, VXLAN)),
        );
        table.learn(
            &source(1),
            0,
            host(1, 9, 6),
            Arc::new(attributes(1, 0, VXLAN)),
        );
        learn(&mut neighbors, &mut table);
        assert_eq!(neighbors.len(), 2);
        assert_eq!(neighbors.claims(domain(), address(5)).count(), 3);
        let winner = neighbors.winner(domain(), address(5)).unwrap();
        assert_eq!((winner.mac.0[5], winner.vtep), (8, [192, 0, 2, 2].into()));
        let duplicates: Vec<_> = neighbors
            .duplicates()
            .map(|(_, ip, all)| (ip, all.len()))
            .collect();
        assert_eq!(duplicates, [(address(5), 3)]);
        let seven: Vec<_> = neighbors
            .addresses_of(Mac([0, 0, 0x5e, 0, 0x53, 7]))
            .collect();
        assert_eq!(seven, [(domain(), address(5))]);

        table.withdraw_peer(source(2).peer);
        learn(&mut neighbors, &mut table);
        assert_eq!(neighbors.duplicates().count(), 0, "one host that moved");
        assert_eq!(neighbors.winner(domain(), address(5)).unwrap().sequence, 1);
    }

    #[test]
    fn a_gateway_that_all_have_is_no_duplicate() {
        let (mut neighbors, mut table) = (Neighbors::new(), Table::new());
        for leaf in 1..4 {
            let mut offer = attributes(leaf, 0, VXLAN);
            offer.ext_communities.push(DefaultGateway::new().octets());
            table.learn(&source(leaf), 0, host(leaf, leaf, 1), Arc::new(offer));
        }
        learn(&mut neighbors, &mut table);
        assert_eq!(neighbors.claims(domain(), address(1)).count(), 3);
        assert_eq!(neighbors.duplicates().count(), 0);
    }

    #[test]
    fn without_a_vni_each_instance_is_its_own() {
        let (mut neighbors, mut table) = (Neighbors::new(), Table::new());
        for leaf in 1..3 {
            let offer = Arc::new(attributes(leaf, 0, Encapsulation::MPLS));
            table.learn(&source(leaf), 0, host(leaf, leaf, 1), offer);
        }
        learn(&mut neighbors, &mut table);
        assert_eq!((neighbors.len(), neighbors.duplicates().count()), (2, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever came and went, what is known is what the table holds.
        #[test]
        fn neighbors_are_a_function_of_the_table(
            steps in prop::collection::vec((0..4_u8, 1..4_u8, 0..3_u8, 0..3_u8), 0..60),
        ) {
            let (mut neighbors, mut table) = (Neighbors::new(), Table::new());
            for (step, (verb, leaf, mac, ip)) in steps.into_iter().enumerate() {
                let offer = Arc::new(attributes(leaf, mac.into(), VXLAN));
                match verb {
                    0 | 1 => table.learn(&source(leaf), 0, host(leaf, mac, ip), offer),
                    2 => table.learn(&source(leaf), 0, host(1, mac, ip), offer),
                    _ => table.withdraw_peer(source(leaf).peer),
                }
                if step % 3 == 0 {
                    learn(&mut neighbors, &mut table);
                }
            }
            learn(&mut neighbors, &mut table);
            let selected = table.selected_since(0).map(|(_, path, _)| path);
            let fresh = Neighbors::of(selected);
            prop_assert_eq!(&neighbors.claims, &fresh.claims);
        }
    }
}
