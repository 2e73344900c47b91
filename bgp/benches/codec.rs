//! Decode and encode: what a core does in a second, in octets and in messages.
//!
//! `cargo bench --profile release -p weft-bgp` (the one profile; without it cargo compiles all once more).

use std::net::Ipv4Addr;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use weft_bgp::attribute::{
    AsPath, Attributes, Community, ExtendedCommunity, NextHop, Reach, Segment, SegmentKind,
};
use weft_bgp::capability::{AddPathSet, Capability, GracefulRestart};
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message, Open, Update};
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::peer::{ClusterId, RouterId};
use weft_bgp::wire::Writer;

const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};

/// What a reflected route of a fabric carries.
fn attributes() -> Attributes {
    Attributes {
        as_path: AsPath {
            segments: vec![Segment {
                kind: SegmentKind::Sequence,
                asns: vec![64_496, 64_497, 4_200_000_000],
            }],
        },
        next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, 1))),
        local_pref: Some(100),
        communities: vec![Community(0xfbf0_0064)],
        ext_communities: vec![
            ExtendedCommunity([0x00, 0x02, 0xfb, 0xf0, 0x00, 0x00, 0x00, 0x64]),
            ExtendedCommunity([0x03, 0x0c, 0, 0, 0, 0, 0, 8]),
        ],
        originator_id: Some(RouterId(0xc000_0201)),
        cluster_list: vec![ClusterId(0xc000_02fe)],
        ..Attributes::default()
    }
}

/// `count` EVPN type 2 with an IPv4 address and one label, as octets: this crate does not know them.
fn type_2(count: u32) -> Bytes {
    let mut out = Writer::new();
    for number in 0..count {
        out.slice(&[2, 37, 0, 1, 192, 0, 2, 1, 0, 100]);
        out.slice(&[0; 14]);
        out.slice(&[48, 2, 0]);
        out.u32(number);
        out.slice(&[32, 10]);
        out.u24(number);
        out.slice(&[0, 0, 100]);
    }
    out.finish()
}

fn evpn() -> Message {
    Message::Update(Box::new(Update {
        reach: Some(Reach {
            family: Family::L2VPN_EVPN,
            next_hop: NextHop::V4(Ipv4Addr::new(192, 0, 2, 1)),
            nlri: type_2(100),
        }),
        attributes: Attributes {
            next_hop: None,
            ..attributes()
        },
        ..Update::default()
    }))
}

fn ipv4() -> Message {
    let prefix = |number: u32| Prefix4::new((0x0a00_0000 | number << 8).into(), 24);
    Message::Update(Box::new(Update {
        announced: (0..900)
            .filter_map(prefix)
            .map(|prefix| (0, prefix))
            .collect(),
        attributes: attributes(),
        ..Update::default()
    }))
}

fn open() -> Message {
    let families = [Family::L2VPN_EVPN, Family::IPV4_UNICAST, Family::RTC];
    let mut capabilities: Vec<_> = families.map(Capability::MultiProtocol).into();
    capabilities.extend([
        Capability::RouteRefresh,
        Capability::EnhancedRouteRefresh,
        Capability::ExtendedMessage,
        Capability::FourOctetAs(4_200_000_000),
        Capability::GracefulRestart(GracefulRestart {
            restart_secs: 120,
            families: families.map(|family| (family, true)).into(),
            ..GracefulRestart::default()
        }),
        Capability::Fqdn {
            host: "leaf1".into(),
            domain: "example.net".into(),
        },
    ]);
    Message::Open(Open {
        asn: 4_200_000_000,
        hold_secs: 9,
        router_id: RouterId(0xc000_0201),
        capabilities,
    })
}

fn messages(criterion: &mut Criterion) {
    let cases = [
        ("UPDATE, 100 EVPN type 2", evpn()),
        ("UPDATE, 900 IPv4 prefixes", ipv4()),
        ("OPEN, 9 capabilities", open()),
    ];
    for (name, message) in cases {
        let octets = message.encode(&CONTEXT);
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(octets.len() as u64));
        group.bench_function("decode", |bencher| {
            bencher.iter_batched(
                || BytesMut::from(&octets[..]),
                |mut buffer| {
                    let frame = frame::split(&mut buffer, frame::MAX_LEN);
                    let frame = frame.expect("a good header").expect("a complete message");
                    Message::decode(frame, &CONTEXT).expect("a good message")
                },
                BatchSize::SmallInput,
            );
        });
        group.bench_function("encode", |bencher| {
            bencher.iter(|| message.encode(&CONTEXT))
        });
        group.finish();
    }
}

fn stored(criterion: &mut Criterion) {
    let attributes = attributes();
    let octets = attributes.to_octets();
    let mut group = criterion.benchmark_group("attributes as stored");
    group.throughput(Throughput::Bytes(octets.len() as u64));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| Attributes::from_octets(&octets).expect("we wrote it"));
    });
    group.bench_function("encode", |bencher| bencher.iter(|| attributes.to_octets()));
    group.finish();
}

fn nlri<N: Nlri>(criterion: &mut Criterion, name: &str, prefixes: &[N]) {
    let mut out = Writer::new();
    prefixes.iter().for_each(|prefix| prefix.encode(&mut out));
    let octets = out.finish();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(octets.len() as u64));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            let mut all = Vec::with_capacity(prefixes.len());
            decode_all::<N>(&octets, false, |_, prefix| all.push(prefix), drop).expect("framed");
            all
        });
    });
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            let mut out = Writer::with_capacity(octets.len());
            prefixes.iter().for_each(|prefix| prefix.encode(&mut out));
            out
        });
    });
    group.finish();
}

fn prefixes(criterion: &mut Criterion) {
    let v4 = |number: u32| Prefix4::new((0x0a00_0000 | number << 8).into(), 24);
    let v6 = |number: u128| Prefix6::new((0x2001_0db8_u128 << 96 | number << 64).into(), 64);
    let v4: Vec<_> = (0..1000).filter_map(v4).collect();
    let v6: Vec<_> = (0..1000).filter_map(v6).collect();
    nlri(criterion, "1000 IPv4 prefixes", &v4);
    nlri(criterion, "1000 IPv6 prefixes", &v6);
}

criterion_group!(benches, messages, stored, prefixes);
criterion_main!(benches);
