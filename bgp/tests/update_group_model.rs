//! Every member's view equals what a naive reflector would give it, which forgets everything and computes it again.
//!
//! Tables, groups and journals go through random announcements, withdrawals and peer losses. Members read at random
//! moments, join late by image, fall off the journal and catch up by revision, and turn to another group and interest.
//! Some are told several paths.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;
use std::sync::Arc;

use bytes::BytesMut;
use proptest::prelude::*;
use weft_bgp::attribute::{AsPath, Attributes, Community, ExtendedCommunity, NextHop, Origin};
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::intern::Interner;
use weft_bgp::message::{DecodeContext, Message, Update};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{IPV4_OVER_IPV6, Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::reflect::{Filter, PathsTold};
use weft_bgp::table::{PeerKind, Source, Stale, Table};
use weft_bgp::update_group::journal::{Cursor, Journal, Read};
use weft_bgp::update_group::{ExportKey, Local, Segment, UpdateGroup};

/// A family to play with: classic fields or MP attributes.
trait Subject: Nlri<Key = Self> + Copy + Ord {
    fn numbered(number: u8) -> Self;
    fn next_hop(number: u8) -> NextHop;
    fn classic(update: &Update) -> Routes<Self>;
}

/// What is announced and what is withdrawn, with path ids.
type Routes<N> = (Vec<(u32, N)>, Vec<(u32, N)>);

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
    fn classic(update: &Update) -> Routes<Self> {
        (update.announced.clone(), update.withdrawn.clone())
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
    fn classic(update: &Update) -> Routes<Self> {
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
    stale_source(peer, Stale::No)
}

fn stale_source(peer: usize, stale: Stale) -> Arc<Source> {
    let number = u8::try_from(peer).unwrap() + 1;
    let kind = KINDS[peer];
    let id = PeerId {
        router_id: RouterId(number.into()),
        asn: match kind.is_external() {
            true => 65_536 + u32::from(number),
            false => LOCAL.asn,
        },
    };
    let address = Ipv4Addr::new(192, 0, 2, number).into();
    Arc::new(Source {
        stale,
        ..Source::new(id, address, kind)
    })
}

fn target(number: u8) -> ExtendedCommunity {
    ExtendedCommunity::route_target_as2(64_496, number.into())
}

/// Interests by number: everything, and sets of the three targets that there are, in both forms.
fn interest(number: u8) -> Interest {
    let some = (0..3)
        .filter(move |bit| number & (1 << bit) != 0)
        .map(target);
    match number {
        0 => Interest::Everything,
        1..=7 => Interest::of_memberships(some.map(|target| Membership::exactly(1, target))),
        8 => Interest::of_memberships([]),
        _ => Interest::of_exports(some),
    }
}

const INTERESTS: u8 = 16;

/// How a member is told, beside what was negotiated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Manner {
    long_lived: bool,
    graceful_shutdown: bool,
    /// Takes IPv4 prefixes with IPv6 next hops.
    over_ipv6: bool,
    best: Option<u8>,
}

impl Manner {
    /// Whether one session can have both, one after the other.
    fn fits(self, other: Self) -> bool {
        self.best.is_some() == other.best.is_some()
    }
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
    /// Bits of route targets.
    targets: u8,
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
                2 => vec![Community::LLGR_STALE],
                3 => vec![Community::NO_LLGR],
                other => vec![Community(other.into())],
            },
            originator_id: self.originator.map(RouterId).filter(|_| internal),
            cluster_list: (0..self.clusters)
                .filter(|_| internal)
                .map(ClusterId)
                .collect(),
            ext_communities: (0..3)
                .filter(|bit| self.targets & (1 << bit) != 0)
                .map(target)
                .collect(),
            ..Attributes::default()
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Announce {
        peer: usize,
        path_id: u32,
        nlri: u8,
        says: Says,
    },
    Withdraw {
        peer: usize,
        path_id: u32,
        nlri: u8,
    },
    Lose {
        peer: usize,
    },
    /// A peer's session ended, or it is back.
    Age {
        peer: usize,
        stale: Stale,
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
    /// A member's group and interest change.
    Turn {
        peer: usize,
        manner: Manner,
        interest: u8,
    },
}

/// What can run out, and what was negotiated.
#[derive(Copy, Clone, Debug)]
struct Bounds {
    journal_octets: usize,
    tombstones: usize,
    max_len: u16,
    four_octet_as: bool,
    /// For the members, in turn.
    manners: [Manner; 5],
}

/// By NLRI and path id.
type View<N> = BTreeMap<(N, u32), Attributes>;

struct Member<N> {
    peer: PeerId,
    group: usize,
    manner: Manner,
    interest: Interest,
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
    bounds: Bounds,
    images: u32,
}

impl<N: Subject> Reflector<N> {
    fn new(bounds: Bounds) -> Self {
        let mut reflector = Self {
            interner: Interner::new(0),
            table: Table::new().with_tombstones(bounds.tombstones),
            groups: Vec::new(),
            members: Vec::new(),
            bounds,
            images: 0,
        };
        reflector.table.track_paths(true);
        for (peer, kind) in KINDS.into_iter().enumerate() {
            let manner = bounds.manners[peer % bounds.manners.len()];
            let group = reflector.group(kind, manner);
            reflector.members.push(Member {
                peer: source(peer).peer,
                group,
                manner,
                interest: Interest::Everything,
                cursor: reflector.groups[group].journal.end(),
                revision: 0,
                view: View::new(),
            });
        }
        reflector
    }

    fn group(&mut self, kind: PeerKind, manner: Manner) -> usize {
        let context = DecodeContext {
            four_octet_as: self.bounds.four_octet_as,
            ibgp: !kind.is_external(),
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let key = ExportKey {
            max_len: self.bounds.max_len,
            long_lived: manner.long_lived,
            graceful_shutdown: manner.graceful_shutdown,
            filter: Filter(match manner.over_ipv6 {
                true => IPV4_OVER_IPV6,
                false => 0,
            }),
            add_path: manner
                .best
                .map(|best| NonZeroU8::new(best).map_or(PathsTold::All, PathsTold::Best)),
            ..ExportKey::new(kind, &context)
        };
        let found = self.groups.iter().position(|group| group.key == key);
        found.unwrap_or_else(|| {
            self.groups.push(Group {
                updates: UpdateGroup::new(key.clone(), LOCAL),
                key,
                journal: Journal::new(self.bounds.journal_octets),
            });
            self.groups.len() - 1
        })
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Announce {
                peer,
                path_id,
                nlri,
                says,
            } => {
                // In the model, too, a peer whose session is there is not stale any more.
                let source = source(*peer);
                let attributes = self.interner.intern(says.attributes::<N>(&source));
                self.table
                    .learn(&source, *path_id, N::numbered(*nlri), attributes);
            }
            Op::Withdraw {
                peer,
                path_id,
                nlri,
            } => {
                let peer = source(*peer).peer;
                self.table.withdraw(peer, *path_id, &N::numbered(*nlri));
            }
            Op::Lose { peer } => self.table.withdraw_peer(source(*peer).peer),
            Op::Age { peer, stale } => self.age(*peer, *stale),
            Op::Select => self.select(),
            Op::Read { peer } => drop(self.read(*peer)),
            Op::Join { peer } => self.join(*peer, 0),
            Op::Turn {
                peer,
                manner,
                interest: number,
            } => self.turn(*peer, *manner, interest(*number)),
        }
    }

    fn age(&mut self, peer: usize, stale: Stale) {
        let source = stale_source(peer, stale);
        let all = self.table.iter().flat_map(|destination| destination.paths);
        let own: Vec<_> = all
            .filter(|path| path.source.peer == source.peer)
            .cloned()
            .collect();
        for path in own {
            let path_id = path.path_id();
            self.table
                .learn(&source, path_id, path.nlri, path.attributes);
        }
    }

    fn select(&mut self) {
        let changes = self.table.select();
        let paths = self.table.path_changes();
        for group in &mut self.groups {
            let segment = match group.key.add_path {
                Some(_) => group.updates.advertise_paths(&paths, self.table.revision()),
                None => group.updates.advertise(&changes),
            };
            group.journal.push(Arc::new(segment));
        }
    }

    /// False if the member fell off its journal, and has started again.
    fn read(&mut self, peer: usize) -> bool {
        let member = &mut self.members[peer];
        let group = &self.groups[member.group];
        loop {
            match group.journal.read(&mut member.cursor) {
                Read::Segment(segment) => hear(member, &segment, &group.key),
                Read::Empty => return true,
                Read::Lagged => {
                    let since = member.revision;
                    self.join(peer, since);
                    return false;
                }
            }
        }
    }

    fn join(&mut self, peer: usize, since: u64) {
        let member = &mut self.members[peer];
        let group = &mut self.groups[member.group];
        let mut image = |since| group.updates.image(&self.table, since, &member.interest);
        let image = match image(since) {
            Ok(image) if since > 0 => image,
            // Too old, or new: the session starts again.
            Ok(_) | Err(_) => {
                member.view.clear();
                image(0).unwrap()
            }
        };
        self.images += 1;
        member.cursor = group.journal.end();
        hear(member, &image, &group.key);
    }

    /// As the daemon does it: between two selections, and what the old journal holds comes first.
    fn turn(&mut self, peer: usize, manner: Manner, interest: Interest) {
        self.select();
        let manner = match self.members[peer].manner.fits(manner) {
            true => manner,
            false => self.members[peer].manner,
        };
        let to = self.group(KINDS[peer], manner);
        let member = &self.members[peer];
        let old_key = self.groups[member.group].key.clone();
        let old = (&old_key, &member.interest);
        let segment = self.groups[to].updates.turn(&self.table, old, &interest);
        let in_step = self.read(peer);
        let member = &mut self.members[peer];
        (member.group, member.manner, member.interest) = (to, manner, interest);
        member.cursor = self.groups[to].journal.end();
        if in_step {
            hear(member, &segment, &self.groups[to].key);
        } else {
            self.join(peer, 0);
        }
    }
}

/// Takes in the frames that are for this member.
fn hear<N: Subject>(member: &mut Member<N>, segment: &Segment, key: &ExportKey) {
    let octets: usize = segment.frames.iter().map(|frame| frame.octets.len()).sum();
    assert_eq!(octets, segment.octets_len);
    let mut context: DecodeContext = key.context();
    if key.add_path.is_some() {
        context.add_path = AddPathSet::of([N::family()]);
    }
    let mut heard = BTreeSet::new();
    for frame in &segment.frames {
        if !frame.audience.includes(member.peer) || !frame.concerns.includes(&member.interest) {
            continue;
        }
        assert!(frame.octets.len() <= usize::from(key.max_len));
        let mut buffer = BytesMut::from(&frame.octets[..]);
        let split = frame::split(&mut buffer, key.max_len).unwrap().unwrap();
        assert!(buffer.is_empty(), "a frame is one message");
        let Message::Update(update) = Message::decode(split, &context).unwrap() else {
            panic!("a frame is an UPDATE");
        };
        assert!(
            update.faults.is_empty(),
            "what we send is valid: {:?}",
            update.faults
        );
        let (announced, withdrawn) = routes::<N>(&update, key.add_path.is_some());
        let count = |routes: &[(u32, N)]| u32::try_from(routes.len()).unwrap();
        let counts = (count(&announced), count(&withdrawn));
        assert_eq!((frame.routes, frame.withdrawals), counts);
        for (id, nlri) in announced.iter().chain(&withdrawn) {
            assert!(heard.insert((*nlri, *id)), "told once in a segment");
        }
        let mut attributes = update.attributes.clone();
        if let Some(reach) = &update.reach {
            attributes.next_hop = Some(reach.next_hop);
        }
        for (id, nlri) in withdrawn {
            member.view.remove(&(nlri, id));
        }
        for (id, nlri) in announced {
            member.view.insert((nlri, id), attributes.clone());
        }
    }
    assert!(segment.revision >= member.revision);
    member.revision = segment.revision;
}

/// What an UPDATE announces and withdraws.
fn routes<N: Subject>(update: &Update, add_path: bool) -> Routes<N> {
    let (mut announced, mut withdrawn) = N::classic(update);
    if let Some(reach) = &update.reach {
        assert_eq!(reach.family, N::family());
        let each = |id, nlri| announced.push((id, nlri));
        decode_all(&reach.nlri, add_path, each, |e| panic!("{e:?}")).unwrap();
    }
    if let Some(unreach) = &update.unreach {
        assert_eq!(unreach.family, N::family());
        let each = |id, nlri| withdrawn.push((id, nlri));
        decode_all(&unreach.nlri, add_path, each, |e| panic!("{e:?}")).unwrap();
    }
    (announced, withdrawn)
}

/// The naive reflector: facts only, everything is computed again.
struct Model<N> {
    facts: BTreeMap<N, BTreeMap<(usize, u32), Fact>>,
    members: Vec<(Manner, Interest)>,
}

#[derive(Clone)]
struct Fact {
    attributes: Attributes,
    stale: Stale,
}

type Candidate<'a> = ((usize, u32), &'a Fact);

impl<N: Subject> Model<N> {
    fn run(&mut self, op: &Op) {
        match op {
            Op::Announce {
                peer,
                path_id,
                nlri,
                says,
            } => {
                let paths = self.facts.entry(N::numbered(*nlri)).or_default();
                let fact = Fact {
                    attributes: says.attributes::<N>(&source(*peer)),
                    stale: Stale::No,
                };
                paths.insert((*peer, *path_id), fact);
            }
            Op::Withdraw {
                peer,
                path_id,
                nlri,
            } => {
                let paths = self.facts.entry(N::numbered(*nlri)).or_default();
                paths.remove(&(*peer, *path_id));
            }
            Op::Lose { peer } => self
                .facts
                .values_mut()
                .for_each(|paths| paths.retain(|(other, _), _| other != peer)),
            Op::Age { peer, stale } => {
                let all = self.facts.values_mut().flatten();
                all.filter(|((other, _), _)| other == peer)
                    .for_each(|(_, fact)| fact.stale = *stale);
            }
            Op::Turn {
                peer,
                manner,
                interest: number,
            } => {
                let member = &mut self.members[*peer];
                if member.0.fits(*manner) {
                    member.0 = *manner;
                }
                member.1 = interest(*number);
            }
            Op::Select | Op::Read { .. } | Op::Join { .. } => {}
        }
    }

    /// What a member holds: each NLRI with the attributes of each of its paths, written out to have an order.
    fn view_of(&self, member: usize) -> Vec<(N, String)> {
        let (manner, interest) = &self.members[member];
        let mut view = Vec::new();
        for (nlri, paths) in &self.facts {
            let mut left: Vec<Candidate<'_>> = paths.iter().map(|(k, v)| (*k, v)).collect();
            let most = match manner.best {
                None => 1,
                Some(0) => left.len(),
                Some(best) => best.into(),
            };
            for _ in 0..most {
                let Some(best) = naive_best(left.clone()) else {
                    break;
                };
                left.retain(|(place, _)| *place != best.0);
                let ((peer, _), fact) = best;
                let told = naive_reflect(peer, fact, KINDS[member], *manner);
                let over_ipv6 = matches!(fact.attributes.next_hop, Some(NextHop::V6(_)));
                let withheld = N::family() == Family::IPV4_UNICAST && over_ipv6;
                if let Some(told) = told
                    && (manner.over_ipv6 || !withheld)
                    && peer != member
                    && naive_wants(interest, &told)
                {
                    view.push((*nlri, format!("{told:?}")));
                }
            }
        }
        view.sort();
        view
    }
}

/// By number again, so that it is not the implementation that is asked.
fn naive_wants(wish: &Interest, told: &Attributes) -> bool {
    let number = (0..INTERESTS).find(|number| interest(*number) == *wish);
    let number = number.unwrap();
    let all = &told.ext_communities;
    let everything = number == 0;
    everything
        || all.is_empty()
        || (0..3).any(|bit| number & (1 << bit) != 0 && all.contains(&target(bit)))
}

/// RFC 4271 §9.1.2.2 read aloud.
fn naive_best(mut left: Vec<Candidate<'_>>) -> Option<Candidate<'_>> {
    fn keep<K: Ord>(left: &mut Vec<Candidate<'_>>, rank: impl Fn(usize, &Attributes) -> K) {
        let of = |((peer, _), fact): &Candidate<'_>| rank(*peer, &fact.attributes);
        let best = left.iter().map(of).min();
        left.retain(|candidate| Some(of(candidate)) == best);
    }
    let old = |(_, fact): &Candidate<'_>| {
        fact.stale == Stale::LongLived || says(&fact.attributes, Community::LLGR_STALE)
    };
    if !left.iter().all(old) {
        left.retain(|candidate| !old(candidate));
    }
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
            let (a, b) = (&a.attributes, &b.attributes);
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
    left.into_iter().min_by_key(|((_, path_id), _)| *path_id)
}

fn says(attributes: &Attributes, community: Community) -> bool {
    attributes.communities.contains(&community)
}

fn naive_reflect(from: usize, fact: &Fact, to: PeerKind, manner: Manner) -> Option<Attributes> {
    let mut told = naive_told(from, &fact.attributes, to)?;
    let long_lived = fact.stale == Stale::LongLived;
    let marked = says(&told, Community::LLGR_STALE);
    if (long_lived || marked) && !manner.long_lived {
        return None;
    }
    if long_lived && says(&told, Community::NO_LLGR) {
        return None;
    }
    if long_lived && !marked {
        told.communities.push(Community::LLGR_STALE);
    }
    if manner.graceful_shutdown {
        told.communities.push(Community::GRACEFUL_SHUTDOWN);
        told.local_pref = told.local_pref.map(|_| 0);
    }
    Some(told)
}

fn naive_told(from: usize, attributes: &Attributes, to: PeerKind) -> Option<Attributes> {
    let from = source(from);
    let mut told = attributes.clone();
    let no_export = says(attributes, Community::NO_EXPORT);
    if says(attributes, Community::NO_ADVERTISE) || (to.is_external() && no_export) {
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
        0..8_u8,
    )
        .prop_map(
            |(local_pref, asns, origin, med, community, originator, clusters, hop, targets)| Says {
                local_pref: local_pref.map(|n| n + 99),
                asns,
                origin,
                med,
                community,
                originator: originator.map(|n| n + 100),
                clusters,
                next_hop: hop,
                targets,
            },
        )
}

fn any_manner() -> impl Strategy<Value = Manner> {
    let best = proptest::option::weighted(0.5, 0..4_u8);
    let shutdown = proptest::bool::weighted(0.2);
    (any::<bool>(), shutdown, any::<bool>(), best).prop_map(
        |(long_lived, graceful_shutdown, over_ipv6, best)| Manner {
            long_lived,
            graceful_shutdown,
            over_ipv6,
            best,
        },
    )
}

fn any_op() -> impl Strategy<Value = Op> {
    let peer = 0..KINDS.len();
    let path_id = prop_oneof![3 => Just(0_u32), 1 => 0..3_u32];
    let nlri = 0..12_u8;
    let stale = prop_oneof![
        Just(Stale::No),
        Just(Stale::Graceful),
        Just(Stale::LongLived)
    ];
    prop_oneof![
        12 => (peer.clone(), path_id.clone(), nlri.clone(), any_says())
            .prop_map(|(peer, path_id, nlri, says)| Op::Announce { peer, path_id, nlri, says }),
        6 => (peer.clone(), path_id, nlri)
            .prop_map(|(peer, path_id, nlri)| Op::Withdraw { peer, path_id, nlri }),
        1 => peer.clone().prop_map(|peer| Op::Lose { peer }),
        1 => (peer.clone(), stale).prop_map(|(peer, stale)| Op::Age { peer, stale }),
        8 => Just(Op::Select),
        6 => peer.clone().prop_map(|peer| Op::Read { peer }),
        1 => peer.clone().prop_map(|peer| Op::Join { peer }),
        3 => (peer, any_manner(), 0..INTERESTS)
            .prop_map(|(peer, manner, interest)| Op::Turn { peer, manner, interest }),
    ]
}

fn check<N: Subject + Debug>(ops: &[Op], bounds: Bounds) -> Result<u32, TestCaseError> {
    let mut reflector = Reflector::<N>::new(bounds);
    let manners = bounds.manners.iter().cycle().take(KINDS.len());
    let mut model = Model::<N> {
        facts: BTreeMap::new(),
        members: manners.map(|it| (*it, Interest::Everything)).collect(),
    };
    for op in ops {
        reflector.run(op);
        model.run(op);
    }
    reflector.run(&Op::Select);
    for member in 0..KINDS.len() {
        reflector.read(member);
        let view = reflector.members[member].view.iter();
        let mut view: Vec<_> = view
            .map(|((nlri, _), attributes)| (*nlri, format!("{attributes:?}")))
            .collect();
        view.sort();
        prop_assert_eq!(view, model.view_of(member), "member {}", member);
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
        manners in proptest::array::uniform5(any_manner()),
    ) {
        let bounds = Bounds { journal_octets, tombstones, max_len: 4096, four_octet_as, manners };
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
        targets: 0,
    };
    let mut ops = Vec::new();
    for round in 0..60_u32 {
        let nlri = u8::try_from(round % 7).unwrap();
        let peer = usize::try_from(round % 9).unwrap();
        ops.push(match round % 5 {
            0 => Op::Withdraw {
                peer,
                path_id: 0,
                nlri,
            },
            _ => Op::Announce {
                peer,
                path_id: 0,
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
        manners: [Manner {
            long_lived: false,
            graceful_shutdown: false,
            over_ipv6: false,
            best: None,
        }; 5],
    };
    let images = check::<Prefix4>(&ops, bounds).unwrap();
    assert!(
        images > 0,
        "the journal is too short for those that do not read"
    );
}
