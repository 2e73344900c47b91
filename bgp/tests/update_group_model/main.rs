//! Every member's view equals what a naive reflector would give it, which forgets everything and computes it again.
//!
//! Tables, groups and journals go through random announcements, withdrawals and peer losses. Members read at random
//! moments, join late by image, fall off the journal and catch up by revision, and turn to another group and interest.
//! Some are told several paths.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod model;
mod reflector;

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

use model::*;
use reflector::*;

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
