//! Measures select, reflect and pack: routes like EVPN type 2 from 100 leaves, told to one group of clients.
//!
//! `cargo run --release -p weft-bgp --example pack [routes] [paths per route] [tenants]`

#![expect(
    clippy::disallowed_macros,
    reason = "a command that prints to a person"
)]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::cmp::Ordering;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use weft_bgp::attribute::{Attributes, ExtendedCommunity, NextHop};
use weft_bgp::capability::AddPathSet;
use weft_bgp::constrain::Interest;
use weft_bgp::decision::Step;
use weft_bgp::family::Family;
use weft_bgp::intern::Interner;
use weft_bgp::message::DecodeContext;
use weft_bgp::nlri::{Nlri, NlriError};
use weft_bgp::peer::{ClusterId, PeerId, RouterId};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::{ExportKey, Local, Segment, UpdateGroup};
use weft_bgp::wire::{Reader, Writer};

/// Shaped and sized like an EVPN type 2 with an IPv4 address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TypeTwo {
    key: TypeTwoKey,
    esi: [u8; 10],
    label: [u8; 3],
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct TypeTwoKey {
    rd: [u8; 8],
    mac: [u8; 6],
    addr: [u8; 4],
}

impl fmt::Display for TypeTwoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn write(key: &TypeTwoKey, esi: &[u8], label: &[u8], out: &mut Writer) {
    out.slice(&[2, 37]);
    out.slice(&key.rd);
    out.slice(esi);
    out.u32(0);
    out.u8(48);
    out.slice(&key.mac);
    out.u8(32);
    out.slice(&key.addr);
    out.slice(label);
}

impl Nlri for TypeTwo {
    type Key = TypeTwoKey;

    fn family() -> Family {
        Family::L2VPN_EVPN
    }
    fn key(&self) -> TypeTwoKey {
        self.key
    }
    fn decode(_: &mut Reader<'_>) -> Result<Self, NlriError> {
        unreachable!("only encoded")
    }
    fn encode(&self, out: &mut Writer) {
        write(&self.key, &self.esi, &self.label, out);
    }
    fn encode_withdraw(key: &TypeTwoKey, out: &mut Writer) {
        write(key, &[0; 10], &[0; 3], out);
    }
    fn key_octets(_: &TypeTwoKey, _: &mut Vec<u8>) {}
    fn key_from_octets(_: &[u8]) -> Option<TypeTwoKey> {
        None
    }
    fn payload_octets(&self, _: &mut Vec<u8>) {}
    fn from_parts(_: TypeTwoKey, _: &[u8]) -> Option<Self> {
        None
    }
    fn prefer(_: (&Self, &Attributes), _: (&Self, &Attributes)) -> (Ordering, Step) {
        (Ordering::Equal, Step::Family("mobility"))
    }
}

const LEAVES: u32 = 100;

fn source(leaf: u32) -> Arc<Source> {
    let address = Ipv4Addr::from(0xc000_0200 + leaf);
    let peer = PeerId {
        router_id: address.into(),
        asn: 64_496,
    };
    Arc::new(Source::new(peer, address.into(), PeerKind::IbgpClient))
}

/// What a leaf says of one tenant: next hop, route target, encapsulation VXLAN.
fn attributes(leaf: u32, tenant: u32) -> Attributes {
    let [_, a, b, c] = tenant.to_be_bytes();
    Attributes {
        next_hop: Some(NextHop::V4(Ipv4Addr::from(0xc000_0200 + leaf))),
        local_pref: Some(100),
        ext_communities: vec![
            ExtendedCommunity([0x00, 0x02, 0xfb, 0xf0, 0x00, a, b, c]),
            ExtendedCommunity([0x03, 0x0c, 0, 0, 0, 0, 0, 8]),
        ],
        ..Attributes::default()
    }
}

fn route(number: u32, tenant: u32) -> TypeTwo {
    let [a, b, c, d] = number.to_be_bytes();
    let [_, t1, t2, t3] = tenant.to_be_bytes();
    TypeTwo {
        key: TypeTwoKey {
            rd: [0, 1, 192, 0, 2, 1, t2, t3],
            mac: [0, 0, a, b, c, d],
            addr: [10, b, c, d],
        },
        esi: [0; 10],
        label: [t1, t2, t3],
    }
}

/// Wall time and, where the kernel tells, CPU time: a busy machine stretches only the first.
struct Stopwatch {
    wall: Instant,
    cpu_secs: f64,
}

impl Stopwatch {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu_secs: cpu_secs(),
        }
    }

    fn report(&self, what: &str, routes: usize) {
        let wall = self.wall.elapsed().as_secs_f64();
        let cpu = cpu_secs() - self.cpu_secs;
        let rate = routes as f64 / if cpu > 0.0 { cpu } else { wall };
        println!(
            "{what:<28} {:>8.1} ms wall {:>8.1} ms CPU {rate:>12.0} routes/s",
            wall * 1000.0,
            cpu * 1000.0
        );
    }
}

fn cpu_secs() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|word| word.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

fn sizes(what: &str, segment: &Segment) {
    let routes: u32 = segment
        .frames
        .iter()
        .map(|f| f.routes + f.withdrawals)
        .sum();
    println!(
        "{what:<28} {routes} routes in {} UPDATEs, {} octets",
        segment.frames.len(),
        segment.octets_len
    );
}

fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0_u64) * 4
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().ok());
    let mut next = |default: u32| arguments.next().flatten().unwrap_or(default);
    let (routes, paths, tenants) = (next(400_000), next(1), next(100));
    let sources: Vec<_> = (0..LEAVES).map(source).collect();
    let negotiated = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };
    let key = ExportKey::new(PeerKind::IbgpClient, &negotiated);
    let local = Local {
        asn: 64_496,
        router_id: RouterId(1),
        cluster_id: ClusterId(1),
    };
    let total = (routes * paths) as usize;

    let (mut interner, mut table) = (Interner::new(1), Table::<TypeTwo>::with_seed(1));
    let before = resident_kib();
    let watch = Stopwatch::start();
    for number in 0..routes {
        let tenant = number / LEAVES % tenants;
        for path in 0..paths {
            let leaf = (number + path) % LEAVES;
            let attributes = interner.intern(attributes(leaf, tenant));
            table.learn(
                &sources[leaf as usize],
                0,
                route(number, tenant),
                attributes,
            );
        }
    }
    watch.report("build, intern, learn", total);

    let watch = Stopwatch::start();
    let changes = table.select();
    watch.report("select", routes as usize);

    let mut group = UpdateGroup::new(key, local);
    let watch = Stopwatch::start();
    let segment = group.advertise(&changes);
    watch.report("advertise (reflect, pack)", routes as usize);
    sizes("", &segment);
    drop((changes, segment));
    let resident = resident_kib() - before;
    println!(
        "{:<28} {} attribute sets, {resident} KiB resident, {} octets per path",
        "",
        interner.len(),
        resident * 1024 / total as u64
    );

    let watch = Stopwatch::start();
    let image = group
        .image(&table, 0, &Interest::Everything)
        .expect("0 is never too old");
    watch.report("image", routes as usize);
    sizes("", &image);
    drop(image);

    let watch = Stopwatch::start();
    for source in &sources {
        table.withdraw_peer(source.peer);
    }
    watch.report("withdraw_peer x 100", total);
    let watch = Stopwatch::start();
    let changes = table.select();
    let segment = group.advertise(&changes);
    watch.report("select, advertise withdraws", routes as usize);
    sizes("", &segment);
}
