//! Which VTEPs are members of which VNI, derived from the selected routes. It keeps no route and knows
//! no peer's session: a VTEP is a member for as long as its type 3 is selected.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use weft_bgp::attribute::{Attributes, NextHop};
use weft_bgp::peer::PeerId;
use weft_bgp::table::{BestChange, Path};

use crate::route::{Route, RouteKey};
use crate::vni::Vni;

/// VTEP membership. A VTEP is known by the next hop of its routes, which is where tunnels to it end;
/// its type 2 routes have the same one.
///
/// ```text
/// type 3 selected --> members: VNI -> VTEP -> { announcing peers }
/// type 2 selected --> hosts:   VTEP -> VNI -> routes
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vteps {
    /// One entry per type 3: two route distinguishers may make the same VTEP a member.
    placed: HashMap<RouteKey, Place>,
    members: BTreeMap<Vni, BTreeMap<IpAddr, BTreeSet<Announced>>>,
    by_vtep: BTreeMap<IpAddr, BTreeSet<Vni>>,
    hosts: BTreeMap<IpAddr, BTreeMap<Vni, u64>>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Place {
    vni: Vni,
    vtep: IpAddr,
    peer: PeerId,
}

type Announced = (PeerId, RouteKey);

impl Vteps {
    /// Nobody is a member of anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a change of selection. Members follow from `new` alone, so that changes may be given
    /// again; counts of hosts need `old`, so that for them each change of a table counts once, in order.
    /// Types other than 2 and 3, and routes without a VNI, change nothing.
    pub fn learn(&mut self, change: &BestChange<Route>) {
        match change.key {
            RouteKey::InclusiveMulticast(_) => self.learn_member(change),
            RouteKey::MacIp(_) => self.learn_host(change),
            RouteKey::EthernetAd(_)
            | RouteKey::EthernetSegment(_)
            | RouteKey::IpPrefix(_)
            | RouteKey::SelectiveMulticast(_)
            | RouteKey::MulticastJoin(_)
            | RouteKey::MulticastLeave(_)
            | RouteKey::RegionPmsi(_)
            | RouteKey::SelectivePmsi(_)
            | RouteKey::Leaf(_)
            | RouteKey::Opaque(_) => {}
        }
    }

    /// The VNIs that have members, ascending.
    pub fn vnis(&self) -> impl Iterator<Item = Vni> {
        self.members.keys().copied()
    }

    /// The VTEPs that are members of anything, ascending.
    pub fn vteps(&self) -> impl Iterator<Item = IpAddr> {
        self.by_vtep.keys().copied()
    }

    /// Whether a VTEP is a member of anything.
    #[must_use]
    pub fn contains(&self, vtep: IpAddr) -> bool {
        self.by_vtep.contains_key(&vtep)
    }

    /// Members of a VNI, ascending.
    pub fn members(&self, vni: Vni) -> impl Iterator<Item = IpAddr> {
        self.members
            .get(&vni)
            .into_iter()
            .flat_map(|vteps| vteps.keys().copied())
    }

    /// Flood list: where a VTEP sends copies of a frame that it floods in a VNI, ascending. Every other
    /// member; of one that is no member, all. RFC 7432 §11.2.
    pub fn flood_list(&self, vni: Vni, from: IpAddr) -> impl Iterator<Item = IpAddr> {
        self.members(vni).filter(move |vtep| *vtep != from)
    }

    /// What a VTEP is a member of, ascending.
    pub fn vnis_of(&self, vtep: IpAddr) -> impl Iterator<Item = Vni> {
        self.by_vtep.get(&vtep).into_iter().flatten().copied()
    }

    /// Who announced that a VTEP is a member, ascending; nobody if it is not.
    pub fn announcers(&self, vni: Vni, vtep: IpAddr) -> impl Iterator<Item = PeerId> {
        let announced = self.members.get(&vni).and_then(|vteps| vteps.get(&vtep));
        let peers: BTreeSet<_> = announced
            .into_iter()
            .flatten()
            .map(|(peer, _)| *peer)
            .collect();
        peers.into_iter()
    }

    /// Every membership, by VNI and then VTEP.
    pub fn iter(&self) -> impl Iterator<Item = (Vni, IpAddr)> {
        self.members
            .iter()
            .flat_map(|(vni, vteps)| vteps.keys().map(|vtep| (*vni, *vtep)))
    }

    /// Memberships: pairs of VNI and VTEP.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.values().map(BTreeMap::len).sum()
    }

    /// Whether nobody is a member of anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Selected type 2 routes that lead to a VTEP, in all VNIs. A MAC address counts once by itself and
    /// once with each of its IP addresses, as it is announced.
    #[must_use]
    pub fn mac_routes(&self, vtep: IpAddr) -> u64 {
        self.hosts.get(&vtep).map_or(0, |vnis| vnis.values().sum())
    }

    /// As [`Vteps::mac_routes`], in one VNI.
    #[must_use]
    pub fn mac_routes_in(&self, vtep: IpAddr, vni: Vni) -> u64 {
        self.hosts
            .get(&vtep)
            .and_then(|vnis| vnis.get(&vni))
            .copied()
            .unwrap_or(0)
    }

    fn learn_member(&mut self, change: &BestChange<Route>) {
        let place = change.new.as_ref().and_then(place);
        if self.placed.get(&change.key) == place.as_ref() {
            return;
        }
        if let Some(old) = self.placed.remove(&change.key) {
            self.leave(old, &change.key);
        }
        if let Some(new) = place {
            self.placed.insert(change.key.clone(), new);
            self.join(new, change.key.clone());
        }
    }

    fn join(&mut self, place: Place, key: RouteKey) {
        let vteps = self.members.entry(place.vni).or_default();
        vteps
            .entry(place.vtep)
            .or_default()
            .insert((place.peer, key));
        self.by_vtep
            .entry(place.vtep)
            .or_default()
            .insert(place.vni);
    }

    fn leave(&mut self, place: Place, key: &RouteKey) {
        let vteps = self.members.entry(place.vni).or_default();
        let announced = vteps.entry(place.vtep).or_default();
        announced.remove(&(place.peer, key.clone()));
        if !announced.is_empty() {
            return;
        }
        vteps.remove(&place.vtep);
        if vteps.is_empty() {
            self.members.remove(&place.vni);
        }
        let vnis = self.by_vtep.entry(place.vtep).or_default();
        vnis.remove(&place.vni);
        if vnis.is_empty() {
            self.by_vtep.remove(&place.vtep);
        }
    }

    fn learn_host(&mut self, change: &BestChange<Route>) {
        if let Some(old) = change.old.as_ref().and_then(place) {
            self.uncount(old);
        }
        if let Some(new) = change.new.as_ref().and_then(place) {
            let vnis = self.hosts.entry(new.vtep).or_default();
            let count = vnis.entry(new.vni).or_default();
            *count = count.saturating_add(1);
        }
    }

    fn uncount(&mut self, place: Place) {
        let vnis = self.hosts.entry(place.vtep).or_default();
        let count = vnis.entry(place.vni).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            vnis.remove(&place.vni);
        }
        if vnis.is_empty() {
            self.hosts.remove(&place.vtep);
        }
    }
}

/// Where the path leads, if it says so: a VNI needs an encapsulation that has one.
fn place(path: &Path<Route>) -> Option<Place> {
    let vni = path.nlri.vni(&path.attributes)?;
    let vtep = next_hop(&path.attributes)?;
    Some(Place {
        vni,
        vtep,
        peer: path.source.peer,
    })
}

/// Where tunnels to the next hop end; of two addresses the global one.
pub(crate) fn next_hop(attributes: &Attributes) -> Option<IpAddr> {
    attributes.next_hop.map(|next_hop| match next_hop {
        NextHop::V4(address) => IpAddr::V4(address),
        NextHop::V6(address) | NextHop::V6LinkLocal(address, _) => IpAddr::V6(address),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weft_bgp::attribute::PmsiTunnel;
    use weft_bgp::peer::RouterId;
    use weft_bgp::rd::Rd;
    use weft_bgp::table::{PeerKind, Source, Table};

    use super::*;
    use crate::community::Encapsulation;
    use crate::route::{InclusiveMulticast, InclusiveMulticastKey, Labels, MacIp, MacIpKey};
    use crate::{Esi, EthernetTag, Label, Mac};

    fn source(host: u8) -> Arc<Source> {
        let peer = PeerId {
            router_id: RouterId(host.into()),
            asn: 64_496,
        };
        let address = [192, 0, 2, host].into();
        Arc::new(Source::new(peer, address, PeerKind::IbgpClient))
    }

    fn attributes(vni: u8, vtep: u8, tunnel_type: u16) -> Arc<Attributes> {
        let vtep = [192, 0, 2, vtep].into();
        Arc::new(Attributes {
            next_hop: Some(NextHop::V4(vtep)),
            ext_communities: vec![Encapsulation::new(tunnel_type).octets()],
            pmsi: Some(PmsiTunnel::ingress_replication([0, 0, vni], vtep.into())),
            ..Attributes::default()
        })
    }

    fn rd(host: u8) -> Rd {
        Rd::from_ipv4([192, 0, 2, host].into(), 1)
    }

    fn flooding(host: u8) -> Route {
        let originator = [192, 0, 2, host].into();
        let key = InclusiveMulticastKey {
            rd: rd(host),
            tag: EthernetTag(0),
            originator,
        };
        Route::InclusiveMulticast(InclusiveMulticast { key })
    }

    fn host(mac: u8, vni: u8) -> Route {
        let mac = Mac([0, 0, 0x5e, 0, 0x53, mac]);
        let key = MacIpKey {
            rd: rd(1),
            tag: EthernetTag(0),
            mac,
            ip: None,
        };
        Route::MacIp(MacIp {
            key,
            esi: Esi::ZERO,
            labels: Labels::One(Label([0, 0, vni])),
        })
    }

    fn learn(vteps: &mut Vteps, table: &mut Table<Route>) {
        for change in table.select() {
            vteps.learn(&change);
        }
    }

    fn vni(number: u32) -> Vni {
        Vni::new(number).unwrap()
    }

    #[test]
    fn a_vtep_is_a_member_while_its_type_3_is_selected() {
        let (mut vteps, mut table) = (Vteps::new(), Table::new());
        table.learn(
            &source(1),
            0,
            flooding(1),
            attributes(100, 1, Encapsulation::VXLAN),
        );
        table.learn(
            &source(2),
            0,
            flooding(2),
            attributes(100, 2, Encapsulation::VXLAN),
        );
        learn(&mut vteps, &mut table);
        let (one, two) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        assert_eq!(
            vteps.iter().collect::<Vec<_>>(),
            [(vni(100), one), (vni(100), two)]
        );
        assert_eq!(vteps.vnis_of(two).collect::<Vec<_>>(), [vni(100)]);
        assert_eq!(vteps.flood_list(vni(100), one).collect::<Vec<_>>(), [two]);
        let nobody = [192, 0, 2, 9].into();
        assert_eq!(vteps.flood_list(vni(100), nobody).count(), 2);
        assert!(vteps.contains(one) && !vteps.contains(nobody));
        let announcers: Vec<_> = vteps.announcers(vni(100), one).collect();
        assert_eq!(announcers, [source(1).peer]);

        table.learn(
            &source(2),
            0,
            flooding(2),
            attributes(200, 2, Encapsulation::VXLAN),
        );
        table.withdraw_peer(source(1).peer);
        learn(&mut vteps, &mut table);
        assert_eq!(vteps.iter().collect::<Vec<_>>(), [(vni(200), two)]);
        assert_eq!(vteps.vteps().collect::<Vec<_>>(), [two]);

        table.withdraw_peer(source(2).peer);
        learn(&mut vteps, &mut table);
        assert!(vteps.is_empty());
        assert_eq!(vteps.vteps().count(), 0);
    }

    #[test]
    fn without_a_vni_there_is_no_membership() {
        let (mut vteps, mut table) = (Vteps::new(), Table::new());
        table.learn(
            &source(1),
            0,
            flooding(1),
            attributes(100, 1, Encapsulation::MPLS),
        );
        learn(&mut vteps, &mut table);
        assert!(vteps.is_empty());
    }

    #[test]
    fn mac_routes_follow_the_host() {
        let (mut vteps, mut table) = (Vteps::new(), Table::new());
        table.learn(
            &source(1),
            0,
            host(1, 100),
            attributes(0, 1, Encapsulation::VXLAN),
        );
        table.learn(
            &source(1),
            0,
            host(2, 200),
            attributes(0, 1, Encapsulation::VXLAN),
        );
        learn(&mut vteps, &mut table);
        let (one, two) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        assert_eq!(
            (vteps.mac_routes(one), vteps.mac_routes_in(one, vni(100))),
            (2, 1)
        );

        table.learn(
            &source(1),
            0,
            host(1, 100),
            attributes(0, 2, Encapsulation::VXLAN),
        );
        table.withdraw_peer(source(3).peer);
        learn(&mut vteps, &mut table);
        assert_eq!((vteps.mac_routes(one), vteps.mac_routes(two)), (1, 1));
        assert_eq!(vteps.mac_routes_in(one, vni(100)), 0);
    }

    #[test]
    fn a_repeated_change_adds_no_member() {
        let (mut vteps, mut table) = (Vteps::new(), Table::new());
        table.learn(
            &source(1),
            0,
            flooding(1),
            attributes(100, 1, Encapsulation::VXLAN),
        );
        let changes = table.select();
        vteps.learn(&changes[0]);
        vteps.learn(&changes[0]);
        assert_eq!(vteps.len(), 1);
        table.withdraw_peer(source(1).peer);
        learn(&mut vteps, &mut table);
        assert!(vteps.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Whatever came and went, what is known is what the table holds.
        #[test]
        fn membership_is_a_function_of_the_table(
            steps in prop::collection::vec((0..4_u8, 1..4_u8, 1..4_u8, 1..4_u8), 0..60),
        ) {
            let (mut vteps, mut table) = (Vteps::new(), Table::new());
            for (step, (verb, peer, item, vtep)) in steps.into_iter().enumerate() {
                let from = source(peer);
                let offer = attributes(item, vtep, Encapsulation::VXLAN);
                match verb {
                    0 => table.learn(&from, 0, flooding(item), offer),
                    1 => table.learn(&from, 0, host(item, vtep), offer),
                    2 => table.withdraw(from.peer, 0, &weft_bgp::nlri::Nlri::key(&flooding(item))),
                    _ => table.withdraw_peer(from.peer),
                }
                if step % 3 == 0 {
                    learn(&mut vteps, &mut table);
                }
            }
            learn(&mut vteps, &mut table);
            let mut fresh = Vteps::new();
            for change in table.changes_since(0).unwrap() {
                fresh.learn(&change);
            }
            prop_assert_eq!(format!("{:?}", vteps.members), format!("{:?}", fresh.members));
            prop_assert_eq!(&vteps.by_vtep, &fresh.by_vtep);
            prop_assert_eq!(&vteps.hosts, &fresh.hosts);
            prop_assert_eq!(vteps.placed, fresh.placed);
        }
    }
}
