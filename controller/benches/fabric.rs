//! What it costs to declare a fabric of 131,072 links and as many host ports, and to change one link of it: three weftd of
//! this build, each with a directory of its own on this machine's disk, and a client of the one that does not lead.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "nobody is killed here")]
mod replicas;

use prost::Message;
use prost_types::FieldMask;
use tokio::time::Instant;
use weft_proto::v1::{self as proto};

use replicas::{Client, Replica};

#[tokio::main]
async fn main() {
    let dir = tempfile::tempdir().unwrap();
    let mut replicas = Replica::three(dir.path());
    let mut clients = Vec::new();
    for replica in &mut replicas {
        clients.push(replica.answers().await);
    }
    let client = follower(clients).await;
    let links: Vec<proto::Link> = (0..LEAVES)
        .flat_map(|leaf| (0..SPINES).map(move |spine| link(leaf, spine)))
        .collect();
    let parts = declaration(&links);
    let octets: usize = parts.iter().map(Message::encoded_len).sum();
    say(&format!(
        "{} switches, {} hosts, {} links, {} host ports, {:.1} MiB",
        LEAVES + SPINES,
        LEAVES * HOSTS,
        links.len(),
        LEAVES * PORTS,
        mebi(octets)
    ));
    for what in ["apply", "apply again"] {
        let begin = Instant::now();
        let changes = apply(client.clone(), parts.clone()).await;
        let took = begin.elapsed().as_secs_f64();
        say(&format!("{what}: {changes} facts written in {took:.2} s"));
    }
    one_link(client.clone(), &links).await;
    let begin = Instant::now();
    let listed = list(client).await;
    let took = begin.elapsed().as_secs_f64();
    say(&format!("list: {listed} links in {took:.2} s"));
    for (replica, id) in replicas.iter().zip(1..) {
        let peak = peak(replica.id());
        say(&format!("replica {id}: peak of {:.0} MiB", mebi(peak)));
    }
}

/// Sets links down, one after the other.
async fn one_link(mut client: Client, links: &[proto::Link]) {
    let mut took = Vec::new();
    for link in links.iter().step_by(links.len() / CHANGES) {
        let begin = Instant::now();
        let request = proto::UpdateLinkRequest {
            resource: Some(proto::Link {
                name: link.name.clone(),
                admin_state: proto::AdminState::Down.into(),
                ..proto::Link::default()
            }),
            update_mask: Some(FieldMask {
                paths: vec!["admin_state".to_owned()],
            }),
            ..proto::UpdateLinkRequest::default()
        };
        client.update_link(request).await.unwrap();
        took.push(begin.elapsed());
    }
    took.sort();
    let at = |part: f64| took[(took.len() as f64 * part) as usize].as_secs_f64() * 1000.0;
    let octets = links[0].encoded_len();
    say(&format!(
        "one link: p50 {:.1} ms, p99 {:.1} ms of {}; the fact has {octets} octets",
        at(0.5),
        at(0.99),
        took.len()
    ));
}

async fn apply(mut client: Client, parts: Vec<proto::ApplyFabricRequest>) -> usize {
    let answer = client.apply_fabric(tokio_stream::iter(parts)).await;
    let mut answer = answer.unwrap().into_inner();
    let mut changes = 0;
    while let Some(part) = answer.message().await.unwrap() {
        changes += part.changes.len();
    }
    changes
}

async fn list(client: Client) -> usize {
    let mut client = client.max_decoding_message_size(64 << 20);
    let (mut listed, mut page_token) = (0, String::new());
    loop {
        let request = proto::ListLinksRequest {
            page_size: 10_000,
            page_token,
            ..proto::ListLinksRequest::default()
        };
        let page = client.list_links(request).await.unwrap().into_inner();
        listed += page.links.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return listed;
        }
    }
}

/// Leaf and spine, an address of its own at each end.
fn link(leaf: u32, spine: u32) -> proto::Link {
    let end = |switch_name: String, port: u32, side: u32| {
        let address = 0x0a00_0000 + (leaf * SPINES + spine) * 2 + side + 2;
        Some(proto::LinkEnd {
            switch_name,
            interface_name: format!("Ethernet{port}"),
            address: std::net::Ipv4Addr::from(address).to_string(),
        })
    };
    let (a, b) = (format!("leaf{leaf}"), format!("spine{spine}"));
    proto::Link {
        name: format!("{a}:Ethernet{spine}--{b}:Ethernet{leaf}"),
        a: end(a, spine, 0),
        b: end(b, leaf, 1),
        capacity_bps: 400_000_000_000,
        ..proto::Link::default()
    }
}

/// The whole fabric, in parts.
fn declaration(links: &[proto::Link]) -> Vec<proto::ApplyFabricRequest> {
    let leaf = |leaf: u32| proto::Switch {
        name: format!("leaf{leaf}"),
        role: proto::SwitchRole::Leaf.into(),
        vtep_address: std::net::Ipv4Addr::from(0xac10_0000 + leaf + 1).to_string(),
        ..proto::Switch::default()
    };
    let spine = |spine: u32| proto::Switch {
        name: format!("spine{spine}"),
        role: proto::SwitchRole::Spine.into(),
        ..proto::Switch::default()
    };
    let host = |leaf: u32, host: u32| proto::Host {
        name: format!("host{leaf}-{host}"),
        ..proto::Host::default()
    };
    let port = |leaf: u32, port: u32| proto::HostPort {
        switch_name: format!("leaf{leaf}"),
        interface_name: format!("Ethernet{}", SPINES + port),
        host_name: format!("host{leaf}-{}", port % HOSTS),
        vni: Some(100),
        rail: Some(port / HOSTS),
        capacity_bps: Some(400_000_000_000),
        ..proto::HostPort::default()
    };
    let hosts = (0..LEAVES).flat_map(|leaf| (0..HOSTS).map(move |number| host(leaf, number)));
    let mut parts = vec![proto::ApplyFabricRequest {
        display_name: "large".to_owned(),
        switches: (0..LEAVES)
            .map(leaf)
            .chain((0..SPINES).map(spine))
            .collect(),
        hosts: hosts.collect(),
        ..proto::ApplyFabricRequest::default()
    }];
    parts.extend(links.chunks(PART).map(|part| proto::ApplyFabricRequest {
        links: part.to_vec(),
        ..proto::ApplyFabricRequest::default()
    }));
    let ports = (0..LEAVES).flat_map(|leaf| (0..PORTS).map(move |number| port(leaf, number)));
    let ports: Vec<_> = ports.collect();
    parts.extend(ports.chunks(PART).map(|part| proto::ApplyFabricRequest {
        host_ports: part.to_vec(),
        ..proto::ApplyFabricRequest::default()
    }));
    parts
}

/// The first replica that does not lead.
async fn follower(clients: Vec<Client>) -> Client {
    for mut client in clients {
        let answer = client.get_fabric(proto::GetFabricRequest {}).await.unwrap();
        let header = answer.into_inner().header.unwrap();
        if header
            .leader_id
            .is_some_and(|leader| leader != header.replica_id)
        {
            return client;
        }
    }
    panic!("nobody follows");
}

/// Octets that a process had resident at most.
fn peak(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibi = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kibi.unwrap_or(0) * 1024
}

fn mebi(octets: usize) -> f64 {
    octets as f64 / f64::from(1 << 20)
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

const LEAVES: u32 = 512;
const SPINES: u32 = 256;
/// Of each leaf.
const HOSTS: u32 = 32;
/// Of each leaf.
const PORTS: u32 = 256;
/// Facts of a part.
const PART: usize = 5000;
/// Links that are set down.
const CHANGES: usize = 200;
