//! What the page costs who looks at a large fabric: one weftd, a session of every leaf with its routes, the fabric declared over
//! the API, and chromium before the page. The script in `interop/labs/page` looks and prints; `cargo interop page` installs what it
//! needs. It prints what the plan of one leaf takes, too, and nothing else with `--no-page`.
//! `-- --leaves N --spines N --routes N`: so many, 512, 16 and 400,000 unless said otherwise. `-- --weftd PATH`: another
//! weftd than that of this build.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "leaves here say that they encapsulate in VXLAN")]
mod lone;

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use weft_bgp::attribute::{Attributes, NextHop, PmsiTunnel, Reach};
use weft_bgp::family::Family;
use weft_bgp::message::{Message, Update};
use weft_bgp::nlri::Nlri;
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_evpn::community::{Encapsulation, RouteTarget};
use weft_evpn::route::{InclusiveMulticast, InclusiveMulticastKey};
use weft_evpn::{EthernetTag, Route};
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::{self as proto};

use lone::{CONTEXT, Daemon, deaf, mac, route, speaker};

#[tokio::main]
async fn main() {
    let leaves = number("--leaves", 512);
    let spines = number("--spines", 16);
    let each = number("--routes", 400_000).div_ceil(leaves);
    let weftd = argument("--weftd").unwrap_or_else(|| env!("CARGO_BIN_EXE_weftd").to_owned());
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&weftd, dir.path(), "");
    let begin = Instant::now();
    let mut speakers: Vec<TcpStream> = (0..leaves).map(|leaf| speaker(leaf, daemon.bgp)).collect();
    speakers.iter().for_each(deaf);
    for (leaf, speaker) in (0..).zip(&mut speakers) {
        announce(speaker, leaf, each);
    }
    let count = u64::from(leaves * (each + 1));
    while known(&daemon.channel).await < count {
        sleep(Duration::from_millis(200)).await;
    }
    apply(&daemon.channel, leaves, spines).await;
    say(&format!(
        "{weftd}: {leaves} leaves with a session, {spines} spines, {} links, {count} routes, in {:.0} s",
        leaves * spines,
        begin.elapsed().as_secs_f64()
    ));
    say(&format!(
        "the plan of one leaf: median {:.1} ms of {TIMES}",
        plan(&daemon.channel).await
    ));
    if std::env::args().any(|it| it == "--no-page") {
        return;
    }
    let looked = Command::new("node")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop/labs/page/figure.mjs"))
        // Pictures are kept where WEFT_SHOTS says.
        .current_dir(dir.path())
        .env("WEFT_BASE", &daemon.address)
        .env("WEFT_LEAVES", leaves.to_string())
        .env("WEFT_SPINES", spines.to_string())
        .env("WEFT_MAC", mac(leaves / 2, each / 2 / 16 * 16).to_string())
        .status();
    assert!(looked.unwrap().success(), "the page was not looked at");
}

/// Says that a leaf floods VNI 100, and which hosts are behind it.
fn announce(speaker: &mut TcpStream, leaf: u32, hosts: u32) {
    let key = InclusiveMulticastKey {
        rd: Rd::from_ipv4(vtep(leaf), 100),
        tag: EthernetTag(0),
        originator: vtep(leaf).into(),
    };
    let flooding = Route::InclusiveMulticast(InclusiveMulticast { key });
    let tunnel = PmsiTunnel::ingress_replication([0, 0, 100], vtep(leaf).into());
    speaker
        .write_all(&update(leaf, [flooding], Some(tunnel)))
        .unwrap();
    for first in (0..hosts).step_by(PER_UPDATE as usize) {
        let some = first..hosts.min(first + PER_UPDATE);
        let routes = some.map(|host| route(leaf, host, 100));
        speaker.write_all(&update(leaf, routes, None)).unwrap();
    }
}

/// An UPDATE that announces routes over VXLAN.
fn update(leaf: u32, routes: impl IntoIterator<Item = Route>, pmsi: Option<PmsiTunnel>) -> Bytes {
    let mut nlri = Writer::new();
    for route in routes {
        route.encode(&mut nlri);
    }
    let update = Update {
        reach: Some(Reach {
            family: Family::L2VPN_EVPN,
            next_hop: NextHop::V4(vtep(leaf)),
            nlri: nlri.finish(),
        }),
        attributes: Attributes {
            local_pref: Some(100),
            ext_communities: vec![
                RouteTarget::two_octet_as(64_496, 100).octets(),
                Encapsulation::new(Encapsulation::VXLAN).octets(),
            ],
            pmsi,
            ..Attributes::default()
        },
        ..Update::default()
    };
    Message::Update(Box::new(update)).encode(&CONTEXT)
}

/// Declares leaves, spines, and a link between each of both.
async fn apply(channel: &Channel, leaves: u32, spines: u32) {
    let leaf = |leaf: u32| proto::Switch {
        name: format!("leaf{}", leaf + 1),
        role: proto::SwitchRole::Leaf.into(),
        vtep_address: vtep(leaf).to_string(),
        ..proto::Switch::default()
    };
    let spine = |spine: u32| proto::Switch {
        name: format!("spine{}", spine + 1),
        role: proto::SwitchRole::Spine.into(),
        ..proto::Switch::default()
    };
    let mut parts = vec![proto::ApplyFabricRequest {
        display_name: "large".to_owned(),
        switches: (0..leaves)
            .map(leaf)
            .chain((0..spines).map(spine))
            .collect(),
        ..proto::ApplyFabricRequest::default()
    }];
    let links =
        (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| link(leaf, spine, spines)));
    let links: Vec<_> = links.collect();
    parts.extend(links.chunks(2_000).map(|part| proto::ApplyFabricRequest {
        links: part.to_vec(),
        ..proto::ApplyFabricRequest::default()
    }));
    let mut client = FabricServiceClient::new(channel.clone());
    let answer = client.apply_fabric(tokio_stream::iter(parts)).await;
    let mut answer = answer.unwrap().into_inner();
    while answer.message().await.unwrap().is_some() {}
}

fn link(leaf: u32, spine: u32, spines: u32) -> proto::Link {
    let end = |switch_name: String, port: u32, side: u32| {
        let address = 0x0a00_0000 + (leaf * spines + spine) * 2 + side;
        Some(proto::LinkEnd {
            switch_name,
            interface_name: format!("eth{}", port + 1),
            address: Ipv4Addr::from(address).to_string(),
        })
    };
    proto::Link {
        a: end(format!("leaf{}", leaf + 1), spine, 1),
        b: end(format!("spine{}", spine + 1), leaf, 0),
        capacity_bps: 400_000_000_000,
        ..proto::Link::default()
    }
}

/// Next hop of what a leaf announces.
fn vtep(leaf: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc000_0201 + leaf)
}

/// Median of what the plan of one leaf takes, milliseconds, once there is one.
async fn plan(channel: &Channel) -> f64 {
    let client = PlanServiceClient::new(channel.clone());
    let mut client = client.max_decoding_message_size(64 << 20);
    let request = proto::GetLeafPlanRequest {
        leaf_name: "leaf1".to_owned(),
    };
    let mut times = Vec::new();
    while times.len() < TIMES {
        let begin = Instant::now();
        let answer = client.get_leaf_plan(request.clone()).await.unwrap();
        let took = begin.elapsed().as_secs_f64() * 1000.0;
        let plan = answer.into_inner().resource.unwrap_or_default();
        match plan.entries.is_empty() {
            true => sleep(Duration::from_millis(100)).await,
            false => times.push(took),
        }
    }
    times.sort_by(f64::total_cmp);
    times[TIMES / 2]
}

/// Routes of all peers.
async fn known(channel: &Channel) -> u64 {
    let mut client = PeerServiceClient::new(channel.clone());
    let answer = client.list_peers(proto::ListPeersRequest::default()).await;
    let peers = answer.map(|it| it.into_inner().peers).unwrap_or_default();
    peers.iter().map(|peer| peer.route_count).sum()
}

fn number(name: &str, otherwise: u32) -> u32 {
    argument(name).map_or(otherwise, |number| number.parse().unwrap())
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|it| it != name).nth(1)
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

/// 39 octets each: an UPDATE of 4096 octets holds them.
const PER_UPDATE: u32 = 90;
const TIMES: usize = 21;
