//! UPDATEs made of anything that a peer may send in the families of this crate.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use weft_bgp::attribute::{
    Aggregator, AsPath, Attributes, Community, ExtendedCommunity, LargeCommunity, NextHop, Origin,
    PmsiTunnel, Reach, Segment, SegmentKind, Unreach,
};
use weft_bgp::family::Family;
use weft_bgp::message::Update;
use weft_bgp::nlri::Nlri;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::wire::Writer;

/// With or without path identifiers in each family, as `add_path` says.
pub(crate) fn update(add_path: bool) -> impl Strategy<Value = Update> {
    let classic = vec((identifier(add_path), prefix4()), 0..9);
    let withdrawn = vec((identifier(add_path), prefix4()), 0..9);
    let parts = (
        classic,
        withdrawn,
        option::of(reach(add_path)),
        option::of(unreach(add_path)),
    );
    (parts, attributes(), any::<[u8; 3]>()).prop_map(
        |((announced, withdrawn, reach, unreach), attributes, [b, c, d])| {
            let none = announced.is_empty() && reach.is_none();
            let classic = (!announced.is_empty()).then(|| NextHop::V4(Ipv4Addr::new(10, b, c, d)));
            Update {
                withdrawn,
                reach,
                unreach,
                attributes: match none {
                    true => Attributes::default(),
                    false => Attributes {
                        next_hop: classic,
                        ..attributes
                    },
                },
                announced,
                ..Update::default()
            }
        },
    )
}

fn identifier(add_path: bool) -> BoxedStrategy<u32> {
    if add_path {
        any::<u32>().boxed()
    } else {
        Just(0).boxed()
    }
}

/// Unicast: up to 223.255.255.255, and 2000::/3.
fn prefix4() -> impl Strategy<Value = Prefix4> {
    (0..0xe000_0000_u32, 0..=32_u8).prop_map(|(addr, len)| Prefix4::new(addr.into(), len).unwrap())
}

fn prefix6() -> impl Strategy<Value = Prefix6> {
    (any::<u128>(), 3..=128_u8)
        .prop_map(|(addr, len)| Prefix6::new((addr >> 3 | 1 << 125).into(), len).unwrap())
}

fn membership() -> impl Strategy<Value = Membership> {
    let exact = (any::<u32>(), any::<[u8; 8]>())
        .prop_map(|(asn, target)| Membership::exactly(asn, ExtendedCommunity(target)));
    prop_oneof![1 => Just(Membership::DEFAULT), 4 => exact]
}

fn field<N: Nlri>(one: impl Strategy<Value = N>, add_path: bool) -> impl Strategy<Value = Writer> {
    vec((identifier(add_path), one), 1..9).prop_map(move |routes| {
        let mut out = Writer::new();
        for (id, route) in routes {
            if add_path {
                out.u32(id);
            }
            route.encode(&mut out);
        }
        out
    })
}

fn nlri(add_path: bool) -> impl Strategy<Value = (Family, Writer)> {
    prop_oneof![
        field(prefix4(), add_path).prop_map(|out| (Family::IPV4_UNICAST, out)),
        field(prefix6(), add_path).prop_map(|out| (Family::IPV6_UNICAST, out)),
        field(membership(), false).prop_map(|out| (Family::RTC, out)),
    ]
}

fn next_hop(family: Family) -> impl Strategy<Value = NextHop> {
    (any::<[u8; 3]>(), any::<u64>(), 0..3_u8).prop_map(move |([b, c, d], low, form)| {
        let global = Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(low));
        let link_local = Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(low));
        match (form, family) {
            (0, family) if family != Family::IPV6_UNICAST => {
                NextHop::V4(Ipv4Addr::new(10, b, c, d))
            }
            (1, family) if family != Family::RTC => NextHop::V6LinkLocal(global, link_local),
            _ => NextHop::V6(global),
        }
    })
}

fn reach(add_path: bool) -> impl Strategy<Value = Reach> {
    nlri(add_path).prop_flat_map(|(family, nlri)| {
        let nlri = nlri.finish();
        next_hop(family).prop_map(move |next_hop| Reach {
            family,
            next_hop,
            nlri: nlri.clone(),
        })
    })
}

fn unreach(add_path: bool) -> impl Strategy<Value = Unreach> {
    nlri(add_path).prop_map(|(family, nlri)| Unreach {
        family,
        nlri: nlri.finish(),
    })
}

fn segment() -> impl Strategy<Value = Segment> {
    (
        any::<bool>(),
        vec(prop_oneof![1..=23_455_u32, 65_536..=u32::MAX], 1..5),
    )
        .prop_map(|(set, asns)| Segment {
            kind: if set {
                SegmentKind::Set
            } else {
                SegmentKind::Sequence
            },
            asns,
        })
}

prop_compose! {
    fn attributes()(
        (origin, med, local_pref) in (0..3_u8, option::of(any::<u32>()), any::<u32>()),
        segments in vec(segment(), 0..4),
        (atomic_aggregate, aggregator) in (any::<bool>(), option::of((1..23_456_u32, any::<u32>()))),
        communities in vec(any::<u32>(), 0..80),
        ext_communities in vec(any::<[u8; 8]>(), 0..40),
        large in proptest::collection::btree_set(any::<(u32, u32, u32)>(), 0..30),
        (originator, clusters) in (option::of(any::<u32>()), vec(any::<u32>(), 0..4)),
        pmsi in option::of((any::<u8>(), any::<[u8; 3]>(), any::<u32>())),
    ) -> Attributes {
        let tunnel = |(flags, label, address)| PmsiTunnel {
            flags,
            ..PmsiTunnel::ingress_replication(label, Ipv4Addr::from_bits(address).into())
        };
        Attributes {
            origin: Origin::from_code(origin).unwrap(),
            as_path: AsPath { segments },
            med,
            local_pref: Some(local_pref),
            atomic_aggregate,
            aggregator: aggregator.map(|(asn, address)| Aggregator { asn, address: address.into() }),
            communities: communities.into_iter().map(Community).collect(),
            ext_communities: ext_communities.into_iter().map(ExtendedCommunity).collect(),
            large_communities: large
                .into_iter()
                .map(|(global, local1, local2)| LargeCommunity { global, local1, local2 })
                .collect(),
            originator_id: originator.map(RouterId),
            cluster_list: clusters.into_iter().map(ClusterId).collect(),
            pmsi: pmsi.map(tunnel),
            ..Attributes::default()
        }
    }
}
