//! Every member's view equals what a naive reflector would give it, which forgets everything and computes it again.
//!
//! Tables, groups and journals go through random announcements, withdrawals and peer losses. Members read at random
//! moments, join late by image, and fall off the journal and catch up by revision.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use bytes::BytesMut;
use proptest::prelude::*;
use weft_bgp::attribute::{AsPath, Attributes, Community, NextHop, Origin};
use weft_bgp::frame;
use weft_bgp::intern::Interner;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::journal::{Cursor, Journal, Read};
use weft_bgp::update_group::{ExportKey, Local, Segment, UpdateGroup};

/// A family to play with: classic fields or MP attributes.
trait Subject: Nlri<Key = Self> + Copy + Ord {
    fn numbered(number: u8) -> Self;
    fn next_hop(number: u8) -> NextHop;
    fn classic(update: &Update) -> (Vec<Self>, Vec<Self>);
}

impl Subject for Prefix4 {
    fn numbered(number: u8) -> Self {
        Self::new(Ipv4Addr::new(198, 51, 100, number), 32).unwrap()
    }
    /// Some IPv4 prefixes have an IPv6 next hop, RFC 8950, and go into MP_REACH_NLRI.
    fn next_hop(number: u8) -> NextHop {
        match number % 3 {
            0 => NextHop::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into())),
            _ => NextHop::V4(Ipv4Addr::new(203, 0, 113, number)),
        }
    }
    fn classic(update: &Update) -> (Vec<Self>, Vec<Self>) {
        let prefixes = |field: &[(u32, Self)]| field.iter().map(|(_, prefix)| *prefix).collect();
        (prefixes(&update.announced), prefixes(&update.withdrawn))
    }
}

impl Subject for Prefix6 {
    fn numbered(number: u8) -> Self {
        Self::new(
            Ipv6Addr::new(0x2001, 0xdb8, 0, number.into(), 0, 0, 0, 0),
            64,
        )
        .unwrap()
    }
    fn next_hop(number: u8) -> NextHop {
        NextHop::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()))
    }
    fn classic(update: &Update) -> (Vec<Self>, Vec<Self>) {
        assert!(update.announced.is_empty() && update.withdrawn.is_empty());
        (Vec::new(), Vec::new())
    }
}

const LOCAL: Local = Local {
    asn: 64_496,
    router_id: RouterId(0xc000_02fe),
    cluster_id: ClusterId(0xc000_02ff),
};

const KINDS: [PeerKind; 9] = [
    PeerKind::IbgpClient,
    PeerKind::IbgpClient,
    PeerKind::IbgpClient,
    PeerKind::IbgpNonClient,
    PeerKind::IbgpNonClient,
    PeerKind::RouteServerClient,
    PeerKind::RouteServerClient,
    PeerKind::Ebgp,
    PeerKind::Ebgp,
];

fn source(peer: usize) -> Arc<Source> {
    let number = u8::try_from(peer).unwrap() + 1;
    let kind = KINDS[peer];
    Arc::new(Source {
        peer: PeerId {
            router_id: RouterId(number.into()),
            asn: match kind.is_external() {
                true => 65_536 + u32::from(number),
                false => LOCAL.asn,
            },
        },
        address: Ipv4Addr::new(192, 0, 2, number).into(),
        kind,
    })
}

/// What a random announcement says.
#[derive(Clone, Debug)]
struct Says {
    local_pref: Option<u32>,
    asns: Vec<u32>,
    origin: u8,
    med: Option<u32>,
    community: u8,
    originator: Option<u32>,
    clusters: u32,
    next_hop: u8,
}

impl Says {
    fn attributes<N: Subject>(&self, source: &Source) -> Attributes {
        let internal = !source.kind.is_external();
        let mut as_path = AsPath::default();
        self.asns.iter().for_each(|asn| as_path.prepend(*asn));
        if !internal {
            as_path.prepend(source.peer.asn);
        }
        Attributes {
            origin: [Origin::Igp, Origin::Egp, Origin::Incomplete][usize::from(self.origin)],
            as_path,
            next_hop: Some(N::next_hop(self.next_hop)),
            med: self.med,
            local_pref: self.local_pref.filter(|_| internal),
            communities: match self.community {
                0 => vec![Community(0xffff_ff01)],
                1 => vec![Community(0xffff_ff02)],
                other => vec![Community(other.into())],
            },
            originator_id: self.originator.map(RouterId).filter(|_| internal),
            cluster_list: (0..self.clusters)
                .filter(|_| internal)
                .map(ClusterId)
                .collect(),
            ..Attributes::default()
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Announce {
        peer: usize,
        nlri: u8,
        says: Says,
    },
    Withdraw {
        peer: usize,
        nlri: u8,
    },
    Lose {
        peer: usize,
    },
    /// Several announcements are decided and told together.
    Select,
    /// A member reads what its journal has.
    Read {
        peer: usize,
    },
    /// A member starts again with nothing.
    Join {
        peer: usize,
    },
}

/// What can run out, and what was negotiated.
#[derive(Copy, Clone, Debug)]
struct Bounds {
    journal_octets: usize,
    tombstones: usize,
    max_len: u16,
    four_octet_as: bool,
}

type View<N> = BTreeMap<N, Attributes>;

struct Member<N> {
    peer: PeerId,
    group: usize,
    cursor: Cursor,
    revision: u64,
    view: View<N>,
}

struct Group<N> {
    key: ExportKey,
    updates: UpdateGroup<N>,
    journal: Journal,
}

struct Reflector<N: Nlri> {
    interner: Interner,
    table: Table<N>,
    groups: Vec<Group<N>>,
    members: Vec<Member<N>>,
    images: u32,
}

impl<N: Subject> Reflector<N> {
    fn new(bounds: Bounds) -> Self {
        let Bounds {
            journal_octets,
            tombstones,
            max_len,
            four_octet_as,
        } = bounds;
        let mut kinds = KINDS.to_vec();
        kinds.dedup();
        let groups: Vec<_> = kinds
            .iter()
            .map(|kind| {
                let key = ExportKey {
                    kind: *kind,
                    remote_asn: None,
                    four_octet_as,
                    max_len,
                };
                Group {
                    updates: UpdateGroup::new(key.clone(), LOCAL),
                    key,
                    journal: Journal::new(journal_octets),
                }
            })
            .collect();
        let members = (0..KINDS.len())
            .map(|peer| {
                let group = kinds.iter().position(|kind| *kind == KINDS[peer]).unwrap();
                Member {
                    peer: source(peer).peer,
                    group,
                    cursor: groups[group].journal.end(),
                    revision: 0,
                    view: View::new(),
                }
            })
            .collect();
        Self {
            interner: Interner::new(0),
            table: Table::new().with_tombstones(tombstones),
            groups,
            members,
            images: 0,
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Announce { peer, nlri, says } => {
                let source = source(*peer);
                let attributes = self.interner.intern(says.attributes::<N>(&source));
                self.table.learn(&source, N::numbered(*nlri), attributes);
            }
            Op::Withdraw { peer, nlri } => {
                self.table.withdraw(source(*peer).peer, &N::numbered(*nlri));
            }
            Op::Lose { peer } => self.table.withdraw_peer(source(*peer).peer),
            Op::Select => {
                let changes = self.table.select();
                for group in &mut self.groups {
                    let segment = group.updates.advertise(&changes);
                    group.journal.push(Arc::new(segment));
                }
            }
            Op::Read { peer } => self.read(*peer),
            Op::Join { peer } => self.join(*peer, 0),
        }
    }

    fn read(&mut self, peer: usize) {
        let member = &mut self.members[peer];
        let group = &self.groups[member.group];
        loop {
            match group.journal.read(&mut member.cursor) {
                Read::Segment(segment) => hear(member, &segment, &group.key),
                Read::Empty => return,
                Read::Lagged => {
                    let since = member.revision;
                    return self.join(peer, since);
                }
            }
        }
    }

    fn join(&mut self, peer: usize, since: u64) {
        let member = &mut self.members[peer];
        let group = &mut self.groups[member.group];
        let image = match group.updates.image(&self.table, since) {
            Ok(image) if since > 0 => image,
            // Too old, or new: the session starts again.
            Ok(_) | Err(_) => {
                member.view.clear();
                group.updates.image(&self.table, 0).unwrap()
            }
        };
        self.images += 1;
        member.cursor = group.journal.end();
        hear(member, &image, &group.key);
    }
}

/// Takes in the frames that are for this member.
fn hear<N: Subject>(member: &mut Member<N>, segment: &Segment, key: &ExportKey) {
    let octets: usize = segment.frames.iter().map(|frame| frame.octets.len()).sum();
    assert_eq!(octets, segment.octets_len);
    for frame in &segment.frames {
        if !frame.audience.includes(member.peer) {
            continue;
        }
        assert!(frame.octets.len() <= usize::from(key.max_len));
        let mut buffer = BytesMut::from(&frame.octets[..]);
        let split = frame::split(&mut buffer, key.max_len).unwrap().unwrap();
        assert!(buffer.is_empty(), "a frame is one message");
        let context: DecodeContext = key.context();
        let Message::Update(update) = Message::decode(split, &context).unwrap() else {
            panic!("a frame is an UPDATE");
        };
        assert!(
            update.faults.is_empty(),
            "what we send is valid: {:?}",
            update.faults
        );
        let (announced, withdrawn) = apply(&mut member.view, &update);
        assert_eq!((frame.routes, frame.withdrawals), (announced, withdrawn));
    }
    assert!(segment.revision >= member.revision);
    member.revision = segment.revision;
}

fn apply<N: Subject>(view: &mut View<N>, update: &Update) -> (u32, u32) {
    let (mut announced, mut withdrawn) = N::classic(update);
    let mut attributes = update.attributes.clone();
    if let Some(reach) = &update.reach {
        assert_eq!(reach.family, N::family());
        attributes.next_hop = Some(reach.next_hop);
        decode_all(
            &reach.nlri,
            false,
            |_, nlri| announced.push(nlri),
            |e| panic!("{e:?}"),
        )
        .unwrap();
    }
    if let Some(unreach) = &update.unreach {
        assert_eq!(unreach.family, N::family());
        decode_all(
            &unreach.nlri,
            false,
            |_, nlri| withdrawn.push(nlri),
            |e| panic!("{e:?}"),
        )
        .unwrap();
    }
    withdrawn.iter().for_each(|nlri| {
        view.remove(nlri);
    });
    announced.iter().for_each(|nlri| {
        view.insert(*nlri, attributes.clone());
    });
    let count = |nlri: &[N]| u32::try_from(nlri.len()).unwrap();
    (count(&announced), count(&withdrawn))
}

/// The naive reflector: facts only, everything is computed again.
#[derive(Default)]
struct Model<N> {
    facts: BTreeMap<N, BTreeMap<usize, Attributes>>,
}

impl<N: Subject> Model<N> {
    fn run(&mut self, op: &Op) {
        match op {
            Op::Announce { peer, nlri, says } => {
                let paths = self.facts.entry(N::numbered(*nlri)).or_default();
                paths.insert(*peer, says.attributes::<N>(&source(*peer)));
            }
            Op::Withdraw { peer, nlri } => {
                self.facts
                    .entry(N::numbered(*nlri))
                    .or_default()
                    .remove(peer);
            }
            Op::Lose { peer } => self.facts.values_mut().for_each(|paths| {
                paths.remove(peer);
            }),
            Op::Select | Op::Read { .. } | Op::Join { .. } => {}
        }
    }

    fn view_of(&self, member: usize) -> View<N> {
        let mut view = View::new();
        for (nlri, paths) in &self.facts {
            if let Some(peer) = naive_best(paths).filter(|peer| *peer != member)
                && let Some(attributes) = naive_reflect(peer, &paths[&peer], KINDS[member])
            {
                view.insert(*nlri, attributes);
            }
        }
        view
    }
}

/// RFC 4271 §9.1.2.2 read aloud.
fn naive_best(paths: &BTreeMap<usize, Attributes>) -> Option<usize> {
    fn keep<K: Ord>(left: &mut Vec<(usize, &Attributes)>, rank: impl Fn(usize, &Attributes) -> K) {
        let best = left.iter().map(|(peer, a)| rank(*peer, a)).min();
        left.retain(|(peer, a)| Some(rank(*peer, a)) == best);
    }
    let mut left: Vec<(usize, &Attributes)> = paths.iter().map(|(peer, a)| (*peer, a)).collect();
    keep(&mut left, |_, a| u32::MAX - a.local_pref.unwrap_or(100));
    keep(&mut left, |_, a| a.as_path.length());
    keep(&mut left, |_, a| match a.origin {
        Origin::Igp => 0,
        Origin::Egp => 1,
        Origin::Incomplete => 2,
    });
    let rivals = left.clone();
    left.retain(|(_, a)| {
        !rivals.iter().any(|(_, b)| {
            a.as_path.neighbor_as() == b.as_path.neighbor_as()
                && b.med.unwrap_or(0) < a.med.unwrap_or(0)
        })
    });
    keep(&mut left, |peer, _| !KINDS[peer].is_external());
    keep(&mut left, |peer, a| {
        a.originator_id.unwrap_or(source(peer).peer.router_id)
    });
    keep(&mut left, |_, a| a.cluster_list.len());
    keep(&mut left, |peer, _| -> IpAddr { source(peer).address });
    left.first().map(|(peer, _)| *peer)
}

fn naive_reflect(from: usize, attributes: &Attributes, to: PeerKind) -> Option<Attributes> {
    let (from, says) = (source(from), |c| {
        attributes.communities.contains(&Community(c))
    });
    let mut told = attributes.clone();
    if says(0xffff_ff02) || (to.is_external() && says(0xffff_ff01)) {
        return None;
    }
    if from.kind == PeerKind::IbgpNonClient && to == PeerKind::IbgpNonClient {
        return None;
    }
    if !to.is_external() {
        told.local_pref = told.local_pref.or(Some(100));
        if !from.kind.is_external() {
            told.originator_id = told.originator_id.or(Some(from.peer.router_id));
            told.cluster_list.insert(0, LOCAL.cluster_id);
        }
        return Some(told);
    }
    told.local_pref = None;
    told.originator_id = None;
    told.cluster_list.clear();
    if to == PeerKind::Ebgp || !from.kind.is_external() {
        if told.as_path.length() > 0 {
            told.med = None;
        }
        told.as_path.prepend(LOCAL.asn);
    }
    Some(told)
}

fn any_says() -> impl Strategy<Value = Says> {
    let small = || proptest::option::weighted(0.3, 0..3_u32);
    (
        small(),
        proptest::collection::vec(1..3_u32, 0..2),
        0..2_u8,
        small(),
        0..12_u8,
        small(),
        0..2_u32,
        1..6_u8,
    )
        .prop_map(
            |(local_pref, asns, origin, med, community, originator, clusters, next_hop)| Says {
                local_pref: local_pref.map(|n| n + 99),
                asns,
                origin,
                med,
                community,
                originator: originator.map(|n| n + 100),
                clusters,
                next_hop,
            },
        )
}

fn any_op() -> impl Strategy<Value = Op> {
    let peer = 0..KINDS.len();
    let nlri = 0..12_u8;
    prop_oneof![
        12 => (peer.clone(), nlri.clone(), any_says())
            .prop_map(|(peer, nlri, says)| Op::Announce { peer, nlri, says }),
        6 => (peer.clone(), nlri).prop_map(|(peer, nlri)| Op::Withdraw { peer, nlri }),
        1 => peer.clone().prop_map(|peer| Op::Lose { peer }),
        8 => Just(Op::Select),
        6 => peer.clone().prop_map(|peer| Op::Read { peer }),
        1 => peer.prop_map(|peer| Op::Join { peer }),
    ]
}

fn check<N: Subject + Debug>(ops: &[Op], bounds: Bounds) -> Result<u32, TestCaseError> {
    let mut reflector = Reflector::<N>::new(bounds);
    let mut model = Model::<N> {
        facts: BTreeMap::new(),
    };
    for op in ops {
        reflector.run(op);
        model.run(op);
    }
    reflector.run(&Op::Select);
    for member in 0..KINDS.len() {
        reflector.read(member);
        let expected = model.view_of(member);
        prop_assert_eq!(
            &reflector.members[member].view,
            &expected,
            "member {}",
            member
        );
    }
    Ok(reflector.images)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_member_ends_with_the_view_of_the_model(
        ops in proptest::collection::vec(any_op(), 1..150),
        journal_octets in prop_oneof![Just(1_500_usize), Just(4_000), Just(1 << 20)],
        tombstones in prop_oneof![Just(2_usize), Just(1_000)],
        four_octet_as in any::<bool>(),
    ) {
        let bounds = Bounds { journal_octets, tombstones, max_len: 4096, four_octet_as };
        check::<Prefix4>(&ops, bounds)?;
        check::<Prefix6>(&ops, Bounds { max_len: 65_535, ..bounds })?;
    }
}

#[test]
fn members_that_lag_catch_up_by_revision() {
    let says = |local_pref| Says {
        local_pref: Some(local_pref),
        asns: Vec::new(),
        origin: 0,
        med: None,
        community: 9,
        originator: None,
        clusters: 0,
        next_hop: 1,
    };
    let mut ops = Vec::new();
    for round in 0..60_u32 {
        let nlri = u8::try_from(round % 7).unwrap();
        let peer = usize::try_from(round % 9).unwrap();
        ops.push(match round % 5 {
            0 => Op::Withdraw { peer, nlri },
            _ => Op::Announce {
                peer,
                nlri,
                says: says(100 + round),
            },
        });
        ops.push(Op::Select);
        ops.push(Op::Read { peer: 0 });
    }
    let bounds = Bounds {
        journal_octets: 1_000,
        tombstones: 1_000,
        max_len: 4096,
        four_octet_as: true,
    };
    let images = check::<Prefix4>(&ops, bounds).unwrap();
    assert!(
        images > 0,
        "the journal is too short for those that do not read"
    );
}
