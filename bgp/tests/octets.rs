//! Octets and values are two forms of one thing: what is encoded decodes to itself, what is decoded
//! encodes canonically, and no octets make a decoder panic.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use weft_bgp::attribute::row::ROWS;
use weft_bgp::attribute::{
    Aggregator, AsPath, Attributes, Community, ExtendedCommunity, Ipv6ExtendedCommunity,
    LargeCommunity, NextHop, OpaqueAttribute, Origin, PmsiTunnel, Reach, Segment, SegmentKind,
    Unreach,
};
use weft_bgp::capability::{
    AddPath, AddPathSet, Capability, ExtendedNextHop, GracefulRestart, LongLived,
};
use weft_bgp::error::{DecodeError, Fault, Treatment};
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{
    DecodeContext, Message, MessageKind, Notification, Open, RouteRefresh, Update,
};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::wire::Writer;

fn context() -> impl Strategy<Value = DecodeContext> {
    any::<(bool, bool, bool)>().prop_map(|(four_octet_as, ibgp, add_path)| DecodeContext {
        four_octet_as,
        ibgp,
        extended_message: true,
        add_path: AddPathSet::of(add_path.then_some(Family::IPV4_UNICAST)),
    })
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![
        Just(Family::IPV4_UNICAST),
        Just(Family::IPV6_UNICAST),
        Just(Family::L2VPN_EVPN),
        Just(Family::RTC),
    ]
}

fn asn() -> impl Strategy<Value = u32> {
    prop_oneof![1..=23_455_u32, 23_457..=u32::MAX]
}

fn segment() -> impl Strategy<Value = Segment> {
    (any::<bool>(), vec(asn(), 1..5)).prop_map(|(set, asns)| Segment {
        kind: if set {
            SegmentKind::Set
        } else {
            SegmentKind::Sequence
        },
        asns,
    })
}

/// Octets of EVPN-like NLRI or anything else: the field is opaque here.
fn opaque() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn pmsi() -> impl Strategy<Value = PmsiTunnel> {
    (any::<u8>(), any::<[u8; 3]>(), any::<u32>()).prop_map(|(flags, label, address)| PmsiTunnel {
        flags,
        ..PmsiTunnel::ingress_replication(label, Ipv4Addr::from(address).into())
    })
}

/// Codes between all those that are known, 23, 36, 39 and 40 with values that they can have.
fn opaque_attributes() -> impl Strategy<Value = Vec<OpaqueAttribute>> {
    let codes = prop::sample::subsequence(
        vec![
            0, 11, 13, 19, 21, 23, 24, 27, 31, 33, 36, 39, 40, 41, 128, 255,
        ],
        0..9,
    );
    let values = vec((any::<bool>(), vec(any::<u8>(), 0..300)), 9);
    (codes, values).prop_map(|(codes, values)| {
        let value = |code: u8, octets: Vec<u8>| match code {
            23 => Bytes::from_static(&[0, 8, 0, 3, 4, 1, 7, 0, 13, 0, 0]),
            36 => Bytes::from_static(&[1, 0, 0, 0xfd, 0xe9, 0, 1, 70]),
            39 => Bytes::from_static(&[0, 25, 70, 4, 192, 0, 2, 1, 0, 1, 0, 0]),
            40 => Bytes::from_static(&[1, 0, 7, 0, 0, 0, 0, 0, 0, 9]),
            _ => octets.into(),
        };
        let all = codes.into_iter().zip(values);
        all.map(|(code, (partial, octets))| OpaqueAttribute {
            code,
            partial,
            value: value(code, octets),
        })
        .collect()
    })
}

prop_compose! {
    fn reflection()(
        originator in option::of(any::<u32>()),
        clusters in vec(any::<u32>(), 0..4),
        local_pref in any::<u32>(),
    ) -> (Option<RouterId>, Vec<ClusterId>, Option<u32>) {
        (originator.map(RouterId), clusters.into_iter().map(ClusterId).collect(), Some(local_pref))
    }
}

prop_compose! {
    /// Attributes that an internal peer may send; sizes around 255 octets are common.
    fn attributes()(
        (originator_id, cluster_list, local_pref) in reflection(),
        origin in 0..3_u8,
        segments in vec(segment(), 0..4),
        med in option::of(any::<u32>()),
        atomic_aggregate in any::<bool>(),
        aggregator in option::of((asn(), any::<u32>())),
        communities in vec(any::<u32>(), 0..80),
        ext_communities in vec(any::<[u8; 8]>(), 0..40),
        large_communities in proptest::collection::btree_set(any::<(u32, u32, u32)>(), 0..30),
        ipv6_ext_communities in vec(any::<[u8; 20]>(), 0..4),
        pmsi in option::of(pmsi()),
        opaque in opaque_attributes(),
    ) -> Attributes {
        let large = |(global, local1, local2)| LargeCommunity { global, local1, local2 };
        Attributes {
            origin: Origin::from_code(origin).unwrap(),
            as_path: AsPath { segments },
            next_hop: None,
            med,
            local_pref,
            atomic_aggregate,
            aggregator: aggregator.map(|(asn, address)| Aggregator { asn, address: address.into() }),
            communities: communities.into_iter().map(Community).collect(),
            ext_communities: ext_communities.into_iter().map(ExtendedCommunity).collect(),
            ipv6_ext_communities: ipv6_ext_communities.into_iter().map(Ipv6ExtendedCommunity).collect(),
            large_communities: large_communities.into_iter().map(large).collect(),
            originator_id,
            cluster_list,
            pmsi,
            opaque,
            unknown: Vec::new(),
        }
    }
}

fn next_hop(family: Family) -> BoxedStrategy<NextHop> {
    let v4 = (1..=126_u8, any::<[u8; 3]>())
        .prop_map(|(a, [b, c, d])| NextHop::V4(Ipv4Addr::new(a, b, c, d)));
    let global = |low: u64| Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(low));
    let v6 = any::<u64>().prop_map(move |low| NextHop::V6(global(low)));
    let both = any::<(u64, u64)>().prop_map(move |(low, link)| {
        NextHop::V6LinkLocal(
            global(low),
            Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(link)),
        )
    });
    match family {
        Family::IPV6_UNICAST => prop_oneof![v6, both].boxed(),
        Family::IPV4_UNICAST => prop_oneof![v4, v6, both].boxed(),
        _ => prop_oneof![v4, v6].boxed(),
    }
}

fn reach() -> impl Strategy<Value = Reach> {
    family()
        .prop_flat_map(|family| (Just(family), next_hop(family), opaque()))
        .prop_map(|(family, next_hop, nlri)| Reach {
            family,
            next_hop,
            nlri,
        })
}

fn unreach() -> impl Strategy<Value = Unreach> {
    (family(), opaque()).prop_map(|(family, nlri)| Unreach { family, nlri })
}

fn prefix4() -> impl Strategy<Value = Prefix4> {
    (any::<u32>(), 0..=32_u8).prop_map(|(addr, len)| Prefix4::new(addr.into(), len).unwrap())
}

fn prefix6() -> impl Strategy<Value = Prefix6> {
    (any::<u128>(), 0..=128_u8).prop_map(|(addr, len)| Prefix6::new(addr.into(), len).unwrap())
}

fn update() -> impl Strategy<Value = Update> {
    let routes = (
        vec((any::<u32>(), prefix4()), 0..9),
        vec((any::<u32>(), prefix4()), 0..9),
        option::of(reach()),
        option::of(unreach()),
    );
    (routes, attributes(), next_hop(Family::L2VPN_EVPN)).prop_map(
        |((withdrawn, announced, reach, unreach), mut attributes, next_hop)| {
            if announced.is_empty() && reach.is_none() {
                attributes = Attributes::default();
            } else if !announced.is_empty() {
                let NextHop::V4(_) = next_hop else {
                    let fallback = Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1)));
                    let attributes = Attributes {
                        next_hop: fallback,
                        ..attributes
                    };
                    return Update {
                        withdrawn,
                        announced,
                        reach,
                        unreach,
                        attributes,
                        ..Update::default()
                    };
                };
                attributes.next_hop = Some(next_hop);
            }
            Update {
                withdrawn,
                announced,
                reach,
                unreach,
                attributes,
                ..Update::default()
            }
        },
    )
}

fn capability() -> impl Strategy<Value = Capability> {
    let flags = any::<(bool, bool)>();
    let restart = (flags, 0..4096_u16, vec((family(), any::<bool>()), 0..5)).prop_map(
        |((restarted, notification), restart_secs, families)| {
            Capability::GracefulRestart(GracefulRestart {
                restarted,
                notification,
                restart_secs,
                families,
            })
        },
    );
    let mode = prop_oneof![Just((true, false)), Just((false, true)), Just((true, true))];
    let add_path = (family(), mode).prop_map(|(family, (receive, send))| AddPath {
        family,
        receive,
        send,
    });
    let long_lived = (family(), any::<bool>(), 0..=LongLived::STALE_SECS_MAX).prop_map(
        |(family, forwarding, stale_secs)| LongLived {
            family,
            forwarding,
            stale_secs,
        },
    );
    let next_hop = (family(), any::<u16>()).prop_map(|(family, next_hop_afi)| ExtendedNextHop {
        family,
        next_hop_afi,
    });
    prop_oneof![
        family().prop_map(Capability::MultiProtocol),
        Just(Capability::RouteRefresh),
        Just(Capability::ExtendedMessage),
        Just(Capability::EnhancedRouteRefresh),
        restart,
        vec(add_path, 0..5).prop_map(Capability::AddPath),
        vec(long_lived, 0..5).prop_map(Capability::LongLivedGracefulRestart),
        vec(next_hop, 0..5).prop_map(Capability::ExtendedNextHop),
        ("[a-zäö]{0,30}", "[a-z.]{0,30}")
            .prop_map(|(host, domain)| Capability::Fqdn { host, domain }),
        "[a-zA-Z0-9 /.]{0,60}".prop_map(Capability::SoftwareVersion),
        (128..=255_u8, vec(any::<u8>(), 0..=255)).prop_map(|(code, value)| Capability::Unknown {
            code,
            value: value.into()
        }),
    ]
}

fn open() -> impl Strategy<Value = Open> {
    let hold = prop_oneof![Just(0), 3..=u16::MAX];
    (asn(), hold, 1..=u32::MAX, vec(capability(), 0..12)).prop_map(
        |(asn, hold_secs, router_id, mut capabilities)| {
            capabilities.push(Capability::FourOctetAs(asn));
            Open {
                asn,
                hold_secs,
                router_id: RouterId(router_id),
                capabilities,
            }
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    let notification = (any::<(u8, u8)>(), opaque()).prop_map(|((code, subcode), data)| {
        Message::Notification(Notification {
            code,
            subcode,
            data,
        })
    });
    let refresh = (family(), any::<u8>())
        .prop_map(|(family, subtype)| Message::RouteRefresh(RouteRefresh { family, subtype }));
    prop_oneof![
        1 => Just(Message::Keepalive),
        1 => refresh,
        1 => notification,
        3 => open().prop_map(Message::Open),
        6 => update().prop_map(|update| Message::Update(Box::new(update))),
    ]
}

fn decode(octets: &[u8], ctx: &DecodeContext) -> Message {
    let mut buffer = BytesMut::from(octets);
    let frame = frame::split(&mut buffer, frame::MAX_LEN_EXTENDED)
        .unwrap()
        .unwrap();
    assert!(buffer.is_empty());
    Message::decode(frame, ctx).unwrap()
}

/// What such a peer may send of it.
fn fit(mut message: Message, ctx: &DecodeContext) -> Message {
    let Message::Update(update) = &mut message else {
        return message;
    };
    if !ctx.ibgp {
        update.attributes.local_pref = None;
        update.attributes.originator_id = None;
        update.attributes.cluster_list.clear();
    }
    // RFC 9774 §3: beside a route they are a fault.
    for segment in &mut update.attributes.as_path.segments {
        segment.kind = SegmentKind::Sequence;
    }
    if !ctx.add_path.contains(Family::IPV4_UNICAST) {
        let prefixes = update.announced.iter_mut().chain(&mut update.withdrawn);
        prefixes.for_each(|(path_id, _)| *path_id = 0);
    }
    message
}

/// Flags, code and value: known codes more often than not, with the flags that they have more often than not.
fn raw_attribute() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let known = (0..ROWS.len(), any::<u8>(), any::<bool>()).prop_map(|(row, flags, as_due)| {
        let row = ROWS[row];
        (if as_due { row.category.flags() } else { flags }, row.code)
    });
    let code = prop_oneof![4 => known, 1 => any::<(u8, u8)>()];
    // Small octets, so that lengths and types inside fit now and then.
    let octet = prop_oneof![3 => 0..9_u8, 1 => any::<u8>()];
    (code, vec(octet, 0..40)).prop_map(|((flags, code), value)| (flags, code, value))
}

/// Written before attributes were carried as they came: next hop, ORIGIN, AS_PATH, LOCAL_PREF and a route target.
#[test]
fn what_earlier_releases_stored_is_read() {
    let stored: &[u8] = &[
        4, 192, 0, 2, 1, // next hop
        0x40, 1, 1, 0, // ORIGIN
        0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf0, // AS_PATH
        0x40, 5, 4, 0, 0, 0, 100, // LOCAL_PREF
        0xc0, 16, 8, 0, 2, 0xfb, 0xf0, 0, 0, 0, 100, // EXTENDED_COMMUNITIES
    ];
    let attributes = Attributes::from_octets(stored).unwrap();
    let expected = Attributes {
        as_path: AsPath::sequence(&[64_496]),
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
        local_pref: Some(100),
        ext_communities: vec![ExtendedCommunity::route_target_as2(64_496, 100)],
        ..Attributes::default()
    };
    assert_eq!(attributes, expected);
    assert_eq!(attributes.to_octets(), stored);
}

/// How many of the lists above reach a decoder: all attributes of a list do, whatever is wrong with the others.
#[test]
fn framed_attributes_reach_their_decoders() {
    let mut runner = TestRunner::deterministic();
    let strategy = vec(raw_attribute(), 1..8);
    let (mut lists, mut codes) = (0, BTreeSet::new());
    for _ in 0..2_000 {
        let list = strategy.new_tree(&mut runner).unwrap().current();
        let mut out = Writer::new();
        out.u8(0);
        for (flags, code, value) in &list {
            out.u8(*flags & !0x10);
            out.u8(*code);
            out.u8(u8::try_from(value.len()).unwrap());
            out.slice(value);
        }
        match Attributes::from_octets(&out.finish()) {
            Ok(_) => lists += 1,
            // The attribute's own rule, not the framing.
            Err(error) => {
                assert_ne!(error.fault, Fault::AttributeList);
                if let Fault::AttributeValue { code } = error.fault {
                    codes.insert(code);
                }
            }
        }
    }
    assert!(lists > 20, "{lists}");
    assert!(codes.contains(&22) && codes.contains(&23), "{codes:?}");
}

fn kind() -> impl Strategy<Value = MessageKind> {
    (1..=5_u8).prop_map(|code| MessageKind::from_code(code).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_encoded_decodes_to_itself(message in message(), ctx in context()) {
        let message = fit(message, &ctx);
        let octets = message.encode(&ctx);
        let decoded = decode(&octets, &ctx);
        prop_assert_eq!(&decoded, &message);
        prop_assert_eq!(decoded.encode(&ctx), octets);
    }

    #[test]
    fn attributes_survive_storage(mut attributes in attributes(), hop in next_hop(Family::IPV4_UNICAST)) {
        attributes.next_hop = Some(hop);
        let octets = attributes.to_octets();
        prop_assert_eq!(Attributes::from_octets(&octets), Ok(attributes));
        prop_assert!(Attributes::from_octets(&octets[..octets.len() - 1]).is_err());
    }

    #[test]
    fn prefixes_survive_a_field(v4 in vec(prefix4(), 0..20), v6 in vec(prefix6(), 0..20)) {
        fn through<N: Nlri>(nlri: &[N]) -> Vec<N> {
            let mut out = Writer::new();
            nlri.iter().for_each(|nlri| nlri.encode(&mut out));
            let mut decoded = Vec::new();
            decode_all(
                &out.finish(),
                false,
                |_, nlri| decoded.push(nlri),
                |error| panic!("{error}"),
            )
            .unwrap();
            decoded
        }
        prop_assert_eq!(through(&v4), v4);
        prop_assert_eq!(through(&v6), v6);
    }

    /// RFC 7911 §3: the same prefixes behind identifiers; cut short, the framing is lost.
    #[test]
    fn path_identifiers_survive_a_field(routes in vec((any::<u32>(), prefix6()), 1..20)) {
        let mut out = Writer::new();
        for (path_id, prefix) in &routes {
            out.u32(*path_id);
            prefix.encode(&mut out);
        }
        let octets = out.finish();
        let mut decoded = Vec::new();
        let each = |path_id, prefix: Prefix6| decoded.push((path_id, prefix));
        decode_all(&octets, true, each, |error| panic!("{error}")).unwrap();
        prop_assert_eq!(decoded, routes);
        let cut = &octets[..octets.len() - 1];
        let end = decode_all(cut, true, |_, _: Prefix6| (), |error| panic!("{error}"));
        prop_assert_eq!(end.unwrap_err().fault.treatment(), Treatment::SessionReset);
    }

    #[test]
    fn no_octets_make_a_decoder_panic(
        kind in kind(), body in vec(any::<u8>(), 0..200), ctx in context(),
    ) {
        let octets = Bytes::from(body);
        for add_path in [false, true] {
            let _ = decode_all(&octets, add_path, |_, _: Prefix4| (), drop);
            let _ = decode_all(&octets, add_path, |_, _: Membership| (), drop);
        }
        let _ = Attributes::from_octets(&octets);
        let _ = Message::decode(frame::Frame { kind, body: octets }, &ctx);
    }

    /// Framed like attributes, so that their decoders are reached: nothing panics, and a list is never lost.
    #[test]
    fn no_values_of_attributes_make_a_decoder_panic(
        attributes in vec(raw_attribute(), 1..8), nlri in vec(prefix4(), 0..3), ctx in context(),
    ) {
        let mut out = Writer::new();
        out.u16(0);
        let length = out.reserve_u16();
        for (flags, code, value) in &attributes {
            out.u8(*flags & !0x10);
            out.u8(*code);
            let length = out.reserve_u8();
            out.slice(value);
            out.patch_u8(length);
        }
        out.patch_u16(length);
        if !ctx.add_path.contains(Family::IPV4_UNICAST) {
            nlri.iter().for_each(|prefix| prefix.encode(&mut out));
        }
        let body = out.finish();
        let frame = frame::Frame { kind: MessageKind::Update, body: body.clone() };
        if let Ok(Message::Update(update)) = Message::decode(frame, &ctx) {
            let lost = |error: &DecodeError| error.fault == Fault::AttributeList;
            prop_assert!(!update.faults.iter().any(lost));
            let _ = update.attributes.to_octets();
        }
        let _ = Attributes::from_octets(&[&[0], &body[4..]].concat());
    }

    /// One octet of a good message changed: whatever comes out is either refused or canonical.
    #[test]
    fn what_is_decoded_encodes_canonically(
        message in message(), ctx in context(), at in any::<prop::sample::Index>(), octet in any::<u8>(),
    ) {
        let message = fit(message, &ctx);
        let mut octets = BytesMut::from(&message.encode(&ctx)[..]);
        let at = at.index(octets.len());
        octets[at] = octet;
        let Ok(Some(frame)) = frame::split(&mut octets, frame::MAX_LEN_EXTENDED) else {
            return Ok(());
        };
        let Ok(mut message) = Message::decode(frame, &ctx) else {
            return Ok(());
        };
        if let Message::Update(update) = &mut message {
            prop_assert_eq!(update.treatment.is_none(), update.faults.is_empty());
            update.attributes.unknown.clear();
            if update.treatment.is_some() {
                return Ok(());
            }
        }
        let canonical = message.encode(&ctx);
        prop_assert_eq!(&decode(&canonical, &ctx), &message);
        prop_assert_eq!(decode(&canonical, &ctx).encode(&ctx), canonical);
    }
}
