//! What a member hears while an address is frozen, and that replicas agree however they come to the same facts.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use weft_bgp::attribute::NextHop;
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::nlri;
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::rd::Rd;
use weft_bgp::reflect::{Local, NotReflected, PathsTold};
use weft_bgp::table::PeerKind;
use weft_bgp::update_group::{ExportKey, Segment, UpdateGroup};
use weft_evpn::community::{Encapsulation, MacMobility};
use weft_evpn::route::{Labels, MacIp, MacIpKey};
use weft_evpn::{Esi, EthernetTag, Label, Mac, Vni};
use weft_store::{Applied, Change};

use super::*;
use crate::config::{MoveAction, Moves};
use crate::daemon::freezer::{Log, Sight};
use crate::ledger::{self, FactKey, FactPrefix, Owner};
use crate::reflector::families::GroupId;
use crate::reflector::{Output, Reflector};

const LOCAL: Local = Local {
    asn: 64_496,
    router_id: RouterId(100),
    cluster_id: ClusterId(1),
};

const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};

fn peer(leaf: u8) -> PeerId {
    PeerId {
        router_id: RouterId(leaf.into()),
        asn: 64_496,
    }
}

/// Who is told: nobody's own.
const READER: u8 = 9;

fn place(mac: u8) -> Place {
    let vni = Vni::new(100).unwrap();
    (vni, Mac([0, 0, 0x5e, 0, 0x53, mac]))
}

fn vtep(leaf: u8) -> Holder {
    Holder::Vtep([192, 0, 2, leaf].into())
}

/// What a leaf says of a MAC address.
#[derive(Copy, Clone, Debug)]
struct Host {
    leaf: u8,
    /// The route distinguisher is its own, or one that all leaves share.
    shared: bool,
    mac: u8,
    ip: Option<u8>,
    sequence: u32,
    sticky: bool,
}

impl Host {
    fn new(leaf: u8, sequence: u32) -> Self {
        Self {
            leaf,
            shared: false,
            mac: 7,
            ip: None,
            sequence,
            sticky: false,
        }
    }

    fn route(self) -> Route {
        let rd = if self.shared { 200 } else { self.leaf };
        let key = MacIpKey {
            rd: Rd::from_ipv4([192, 0, 2, rd].into(), 1),
            tag: EthernetTag(0),
            mac: place(self.mac).1,
            ip: self.ip.map(|ip| [203, 0, 113, ip].into()),
        };
        Route::MacIp(MacIp {
            key,
            esi: Esi([0; 10]),
            labels: Labels::One(Label([0, 0, 100])),
        })
    }

    fn attributes(self) -> Attributes {
        Attributes {
            next_hop: Some(NextHop::V4([192, 0, 2, self.leaf].into())),
            ext_communities: vec![
                Encapsulation::new(Encapsulation::VXLAN).octets(),
                MacMobility::new(self.sticky, self.sequence).octets(),
            ],
            ..Attributes::default()
        }
    }

    fn key(self) -> Bytes {
        let (mut key, mut octets) = (Vec::new(), Vec::new());
        Route::key_octets(&self.route().key(), &mut key);
        ledger::write_path(0, &key, &mut octets);
        FactKey::Route(Family::L2VPN_EVPN, peer(self.leaf), &octets).encode()
    }

    fn value(self) -> Bytes {
        let attributes = self.attributes().to_octets();
        ledger::encode_path(&self.route(), &attributes, &mut Vec::new())
    }
}

fn owner(leaf: u8, epoch: u64) -> (Bytes, Bytes) {
    let owner = Owner {
        replica: 1,
        epoch,
        address: [192, 0, 2, leaf].into(),
        kind: match epoch % 2 {
            0 => PeerKind::IbgpClient,
            _ => PeerKind::IbgpNonClient,
        },
        fresh_from: 0,
        returned: None,
        retention: None,
    };
    (FactKey::Owner(peer(leaf)).encode(), owner.encode())
}

fn put((key, value): (Bytes, Bytes)) -> Change {
    let keys = vec![key];
    Change::Put { value, keys }
}

fn announce(host: Host) -> Change {
    put((host.key(), host.value()))
}

fn withdraw(host: Host) -> Change {
    Change::Delete {
        keys: vec![host.key()],
    }
}

fn freeze(mac: u8, leaf: u8) -> Change {
    let key = FactKey::Freeze(place(mac)).encode();
    put((key, ledger::encode_holder(vtep(leaf))))
}

fn thaw(mac: u8) -> Change {
    let keys = vec![FactKey::Freeze(place(mac)).encode()];
    Change::Delete { keys }
}

fn lose(leaf: u8) -> Change {
    let prefix = FactPrefix::RoutesOfPeer(Family::L2VPN_EVPN, peer(leaf)).encode();
    Change::DeletePrefix { prefix }
}

/// What is told of each path, by path id (0 without) and destination.
type Told = BTreeMap<(u32, RouteKey), Bytes>;

/// A replica, and what a member of each of two groups was told by it.
struct Replica {
    reflector: Reflector,
    groups: Vec<(GroupId, ExportKey, Told)>,
    index: u64,
}

impl Replica {
    fn new() -> Self {
        let mut reflector = Reflector::new(LOCAL);
        reflector.poll(&mut Vec::new());
        let best = ExportKey::new(PeerKind::IbgpClient, &CONTEXT);
        let all = ExportKey {
            add_path: Some(PathsTold::All),
            ..best.clone()
        };
        let mut replica = Self {
            groups: Vec::new(),
            reflector,
            index: 0,
        };
        for key in [best, all] {
            let id = replica.reflector.group(Family::L2VPN_EVPN, &key);
            replica.groups.push((id, key, Told::new()));
        }
        for leaf in 1..=4 {
            replica.take(put(owner(leaf, 2)));
        }
        replica
    }

    fn take(&mut self, change: Change) {
        self.index += 1;
        self.reflector
            .handle(&Applied {
                index: self.index,
                term: 1,
                changes: vec![change],
            })
            .unwrap();
    }

    fn poll(&mut self) {
        let mut outputs = Vec::new();
        self.reflector.poll(&mut outputs);
        for output in outputs {
            let Output::Advertise(group, segment) = output else {
                continue;
            };
            for (_, key, told) in self.groups.iter_mut().filter(|(id, ..)| *id == group) {
                hear(&segment, key, told);
            }
        }
    }

    fn say(&mut self, change: Change) {
        self.take(change);
        self.poll();
    }

    /// Who is said to have the address, over all routes of it.
    fn places(&self, mac: u8) -> Vec<NextHop> {
        let (_, _, told) = &self.groups[0];
        let of_mac = |key: &RouteKey| matches!(key, RouteKey::MacIp(it) if it.mac == place(mac).1);
        let told = told.iter().filter(|((_, key), _)| of_mac(key));
        told.map(|(_, octets)| {
            let attributes = Attributes::from_octets(octets).unwrap();
            attributes.next_hop.unwrap()
        })
        .collect()
    }

    fn images(&mut self) -> Vec<Told> {
        let mut images = Vec::new();
        for (id, key, _) in &self.groups {
            let family = Family::L2VPN_EVPN;
            let image = self
                .reflector
                .image(family, *id, 0, &Interest::Everything)
                .unwrap();
            let mut told = Told::new();
            hear(&image.segment, key, &mut told);
            images.push(told);
        }
        images
    }

    fn told(&self) -> Vec<Told> {
        self.groups.iter().map(|(.., told)| told.clone()).collect()
    }
}

fn hear(segment: &Segment, key: &ExportKey, told: &mut Told) {
    let context = DecodeContext {
        add_path: match key.add_path {
            Some(_) => AddPathSet::of([Family::L2VPN_EVPN]),
            None => AddPathSet::NONE,
        },
        ..CONTEXT
    };
    for frame in &segment.frames {
        if !frame.audience.includes(peer(READER)) {
            continue;
        }
        let mut octets = BytesMut::from(&frame.octets[..]);
        let split = frame::split(&mut octets, 4_096).unwrap().unwrap();
        let Message::Update(update) = Message::decode(split, &context).unwrap() else {
            panic!("an UPDATE");
        };
        let add_path = key.add_path.is_some();
        if let Some(unreach) = &update.unreach {
            let gone = |id, route: Route| drop(told.remove(&(id, route.key())));
            nlri::decode_all(&unreach.nlri, add_path, gone, |_| panic!()).unwrap();
        }
        if let Some(reach) = &update.reach {
            let octets = Attributes {
                next_hop: Some(reach.next_hop),
                ..update.attributes.clone()
            };
            let octets = octets.to_octets();
            let here = |id, route: Route| drop(told.insert((id, route.key()), octets.clone()));
            nlri::decode_all(&reach.nlri, add_path, here, |_| panic!()).unwrap();
        }
    }
}

fn at(leaves: &[u8]) -> Vec<NextHop> {
    let address = |leaf: &u8| NextHop::V4([192, 0, 2, *leaf].into());
    leaves.iter().map(address).collect()
}

#[test]
fn a_frozen_address_is_told_from_its_holder_only() {
    let mut replica = Replica::new();
    let with_ip = |leaf, sequence| Host {
        ip: Some(1),
        ..Host::new(leaf, sequence)
    };
    replica.say(announce(Host::new(1, 0)));
    replica.say(announce(with_ip(1, 0)));
    replica.say(announce(Host::new(2, 1)));
    assert_eq!(replica.places(7), at(&[1, 1, 2]));
    // What others were told of is withdrawn, whatever the IP address.
    replica.say(freeze(7, 2));
    assert_eq!(replica.places(7), at(&[2]));
    // What would move it is kept, and told to nobody. Another address is not concerned.
    replica.say(announce(with_ip(1, 5)));
    replica.say(announce(Host::new(3, 6)));
    let other = Host {
        mac: 8,
        ..Host::new(1, 6)
    };
    replica.say(announce(other));
    assert_eq!(replica.places(7), at(&[2]));
    assert_eq!(replica.places(8), at(&[1]));
    assert_eq!(replica.reflector.evpn().paths_len(), 5);
    let frozen: Vec<_> = replica.reflector.freezes().iter().collect();
    let expected = Frozen {
        place: place(7),
        holder: vtep(2),
        held: 1,
        withheld: 3,
        since: Duration::ZERO,
    };
    assert_eq!(frozen, [expected]);
    // The operator is told why.
    let destination = replica.reflector.evpn().get(&Host::new(3, 6).route().key());
    let path = destination.unwrap().paths[0].clone();
    let group = UpdateGroup::<Route>::new(replica.groups[0].1.clone(), LOCAL);
    let told = group.explain(&path, &Interest::Everything);
    assert_eq!(told, Err(NotReflected::Withheld));
    replica.say(thaw(7));
    assert_eq!(replica.places(7), at(&[1, 1, 2, 3]));
    assert_eq!(replica.told(), replica.images());
}

#[test]
fn in_a_shared_destination_the_holder_wins_over_a_later_sequence() {
    let mut replica = Replica::new();
    let host = |leaf, sequence| Host {
        shared: true,
        ..Host::new(leaf, sequence)
    };
    replica.say(announce(host(1, 4)));
    replica.say(freeze(7, 1));
    replica.say(announce(host(2, 5)));
    assert_eq!(replica.places(7), at(&[1]));
    replica.say(thaw(7));
    assert_eq!(replica.places(7), at(&[2]));
    // Frozen there, and there it is lost.
    replica.say(freeze(7, 2));
    replica.say(withdraw(host(2, 0)));
    assert_eq!(replica.places(7), at(&[1]));
    assert_eq!(replica.told(), replica.images());
}

#[test]
fn an_address_that_left_its_holder_is_told_from_where_it_is() {
    let mut replica = Replica::new();
    replica.say(freeze(7, 1));
    replica.say(announce(Host::new(2, 1)));
    assert_eq!(replica.places(7), at(&[2]));
    replica.say(announce(Host::new(1, 0)));
    assert_eq!(replica.places(7), at(&[1]));
    replica.say(lose(1));
    assert_eq!(replica.places(7), at(&[2]));
    let frozen: Vec<_> = replica.reflector.freezes().iter().collect();
    assert_eq!((frozen[0].held, frozen[0].withheld), (0, 0));
}

#[test]
fn a_static_address_is_told_whatever_is_frozen() {
    let mut replica = Replica::new();
    let sticky = Host {
        sticky: true,
        ..Host::new(3, 0)
    };
    replica.say(announce(Host::new(1, 1)));
    replica.say(freeze(7, 1));
    replica.say(announce(sticky));
    replica.say(announce(Host::new(2, 2)));
    assert_eq!(replica.places(7), at(&[1, 3]));
    // It is static no more.
    replica.say(announce(Host::new(3, 3)));
    assert_eq!(replica.places(7), at(&[1]));
}

#[test]
fn thawed_moves_count_anew() {
    let mut replica = Replica::new();
    for sequence in 0..6_u32 {
        let leaf = if sequence % 2 == 0 { 1 } else { 2 };
        replica.say(announce(Host::new(leaf, sequence)));
    }
    let alarms = |replica: &Replica| {
        let (moves, now) = replica.reflector.moves();
        moves
            .duplicates(now)
            .map(|it| it.holder)
            .collect::<Vec<_>>()
    };
    assert_eq!(alarms(&replica), [Some(vtep(2))]);
    replica.say(freeze(7, 2));
    replica.say(announce(Host::new(1, 9)));
    assert_eq!(alarms(&replica), [Some(vtep(2))]);
    replica.say(thaw(7));
    assert_eq!(alarms(&replica), []);
}

/// What moves is frozen by one leader, and thawed by the next one: each only looks at what it sees.
#[test]
fn a_new_leader_goes_on_where_the_old_one_stopped() {
    let settings = Moves {
        action: MoveAction::Freeze,
        ..Moves::default()
    };
    let (mut old, mut new) = (Replica::new(), Replica::new());
    let next = |replica: &Replica| {
        let batch =
            Sight::of(&replica.reflector, settings.action).next(&settings, &mut Log::default());
        batch.map(|batch| batch.ops.into_iter().map(Change::from).collect::<Vec<_>>())
    };
    let both = |replicas: [&mut Replica; 2], change: &Change| {
        replicas
            .into_iter()
            .for_each(|replica| replica.say(change.clone()));
    };
    // They see it at other times.
    old.reflector.set_now(Duration::from_secs(50));
    for sequence in 0..6_u32 {
        let leaf = if sequence % 2 == 0 { 1 } else { 2 };
        let host = Host::new(leaf, sequence);
        both([&mut old, &mut new], &announce(host));
    }
    let frozen = next(&old).unwrap();
    assert_eq!(frozen, [freeze(7, 2)]);
    assert_eq!(next(&new), Some(frozen.clone()));
    both([&mut old, &mut new], &frozen[0]);
    assert_eq!((next(&old), next(&new)), (None, None));
    both([&mut old, &mut new], &announce(Host::new(1, 9)));
    assert_eq!(new.places(7), at(&[2]));
    assert_eq!(new.told(), old.told());
    // The old one is gone; the time of the new one counts.
    new.reflector.set_now(Duration::from_secs(1_799));
    assert_eq!(next(&new), None);
    new.reflector.set_now(Duration::from_secs(1_800));
    let thawed = next(&new).unwrap();
    assert_eq!(thawed, [thaw(7)]);
    both([&mut old, &mut new], &thawed[0]);
    assert_eq!(new.places(7), at(&[1, 2]));
    assert_eq!(new.told(), old.told());
    assert_eq!((next(&old), next(&new)), (None, None));
}

fn hosts() -> impl Strategy<Value = Host> {
    (
        1..5_u8,
        any::<bool>(),
        7..9_u8,
        prop::option::of(1..3_u8),
        0..9_u32,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(leaf, shared, mac, ip, sequence, sticky)| Host {
            leaf,
            shared,
            mac,
            ip,
            sequence,
            sticky,
        })
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => hosts().prop_map(announce),
        3 => hosts().prop_map(withdraw),
        3 => (7..9_u8, 1..5_u8).prop_map(|(mac, leaf)| freeze(mac, leaf)),
        2 => (7..9_u8).prop_map(thaw),
        1 => (1..5_u8).prop_map(lose),
        1 => (1..5_u8, 1..4_u64).prop_map(|(leaf, epoch)| put(owner(leaf, epoch))),
    ]
}

/// What is agreed, as the store keeps it.
fn apply(facts: &mut BTreeMap<Bytes, Bytes>, change: &Change) {
    match change {
        Change::Put { value, keys } => {
            facts.extend(keys.iter().map(|key| (key.clone(), value.clone())));
        }
        Change::Delete { keys } => keys.iter().for_each(|key| drop(facts.remove(key))),
        Change::DeletePrefix { prefix } => facts.retain(|key, _| !key.starts_with(prefix)),
        Change::Reset => {}
    }
}

/// Whether what the table withholds is what the facts say, by their definition.
fn is_withheld(facts: &BTreeMap<Bytes, Bytes>, path: &Path<Route>, table: &Table<Route>) -> bool {
    let Some(place) = moves::place(&path.nlri, &path.attributes) else {
        return false;
    };
    let Some(value) = facts.get(&FactKey::Freeze(place).encode()) else {
        return false;
    };
    let holder = ledger::decode_holder(value).unwrap();
    let standing = |path: &Path<Route>| holder.standing(&path.nlri, &path.attributes);
    let here = |other: &&Path<Route>| moves::place(&other.nlri, &other.attributes) == Some(place);
    let paths = || table.iter().flat_map(|it| it.paths).filter(here);
    standing(path) == Some(Standing::Other)
        && paths().any(|other| standing(other) == Some(Standing::Holder))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// One looks after each entry, one after several, one begins from the facts in the midst of it: what their
    /// members were told is the same in the end, and what a joiner is told too.
    #[test]
    fn replicas_with_the_same_facts_tell_the_same(
        steps in prop::collection::vec(changes(), 1..60),
        every in 2..9_usize,
        reset_at in 0..60_usize,
    ) {
        let (mut a, mut b, mut c) = (Replica::new(), Replica::new(), Replica::new());
        let mut facts: BTreeMap<Bytes, Bytes> = (1..5).map(|leaf| owner(leaf, 2)).collect();
        for (number, change) in steps.iter().enumerate() {
            apply(&mut facts, change);
            a.say(change.clone());
            b.take(change.clone());
            if number % every == 0 {
                b.poll();
            }
            match number.cmp(&reset_at) {
                Ordering::Less => c.say(change.clone()),
                Ordering::Equal => {
                    c.index = a.index;
                    c.reflector.reset(c.index, facts.clone().into_iter().collect()).unwrap();
                    c.poll();
                }
                Ordering::Greater => c.say(change.clone()),
            }
        }
        b.poll();
        let told = a.told();
        for replica in [&mut a, &mut b, &mut c] {
            prop_assert_eq!(&replica.told(), &told);
            prop_assert_eq!(&replica.images(), &told);
            let table = replica.reflector.evpn();
            for path in table.iter().flat_map(|it| it.paths) {
                prop_assert_eq!(path.source.withheld, is_withheld(&facts, path, table));
            }
        }
    }
}
