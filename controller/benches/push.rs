//! How long a link event, and a job of 1,024 NICs, take from the intent to the last acknowledgement, over agents in memory: 64,
//! or as many as `--leaves` says.
//!
//! Each agent is the one that ships, over a recorded forwarding plane, behind a gRIBI stream; time is real. Every leaf
//! has a prefix for each other leaf over 16 uplinks; an event takes one spine's link to one leaf away, so that at the other
//! leaves one prefix gets a group of its own, or gives it back. A job pins a flow of each NIC to one of the uplinks, and goes.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

mod agents;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Endpoint, Server};
use tower::service_fn;
use weft_agent::gribi::service;
use weft_controller::fabric::topology::SwitchName;
use weft_controller::southbound::intent::{
    Flow, Flows, Members, Mode, NextHop, Routes, SwitchIntent,
};
use weft_controller::southbound::{AgentState, Connect, Election, Southbound};

use agents::{VNI, agent, uplinks};

type Doors = Arc<Mutex<BTreeMap<String, mpsc::UnboundedSender<tokio::io::DuplexStream>>>>;

#[tokio::main]
async fn main() {
    let leaves = leaves();
    let doors = Doors::default();
    for leaf in 0..leaves {
        start(leaf, &doors).await;
    }
    let mut southbound = Southbound::over(connect(doors));
    southbound.lead(Election {
        incarnation: 1,
        term: 1,
    });
    let mut revision = 1;
    southbound.set_intent(intents(leaves, None, false), revision);
    until_in_sync(&southbound, revision).await;
    let (mut links, mut jobs) = (Vec::new(), Vec::new());
    for event in 0..EVENTS {
        let broken = (event % 2 == 0).then_some(event % leaves);
        let job = event % 2 == 0;
        let steps = [
            (intents(leaves, broken, false), false),
            (intents(leaves, broken, true), true),
            (intents(leaves, broken, false), true),
        ];
        for (next, is_job) in steps.into_iter().take(if job { 3 } else { 1 }) {
            revision += 1;
            let begin = Instant::now();
            southbound.set_intent(next, revision);
            until_in_sync(&southbound, revision).await;
            let took = if is_job { &mut jobs } else { &mut links };
            took.push(begin.elapsed());
        }
    }
    report(leaves, "link events", links);
    report(leaves, "jobs of 1,024 NICs that begin or end", jobs);
}

/// `--leaves 512`.
fn leaves() -> u16 {
    let mut arguments = std::env::args();
    let given = arguments.find(|argument| argument == "--leaves");
    let given = given.and_then(|_| arguments.next());
    given.map_or(64, |given| given.parse().unwrap())
}

fn report(leaves: u16, what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at =
        |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    print(&format!(
        "{leaves} agents, {} {what}, intent to last acknowledgement: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        took.len(),
        at(50),
        at(99),
        at(100)
    ));
}

#[expect(clippy::disallowed_macros, reason = "a bench prints to a person")]
fn print(line: &str) {
    println!("{line}");
}

async fn start(leaf: u16, doors: &Doors) {
    let links = uplinks(UPLINKS, &|uplink| IpAddr::from([192, 0, 2, 2 * uplink + 1]));
    let (_plane, commands) = agent(links).await;
    let (door, arriving) = mpsc::unbounded_channel();
    let arriving = UnboundedReceiverStream::new(arriving).map(Ok::<_, std::io::Error>);
    doors.lock().unwrap().insert(address(leaf), door);
    let server = Server::builder()
        .add_service(service(commands))
        .serve_with_incoming(arriving);
    tokio::spawn(server);
}

fn connect(doors: Doors) -> Connect {
    Arc::new(move |agent| {
        let doors = doors.clone();
        Box::pin(async move {
            let knock = move |_| {
                let (near, far) = tokio::io::duplex(1 << 16);
                let sent = doors.lock().unwrap()[&*agent].send(far);
                std::future::ready(sent.map(|()| TokioIo::new(near)))
            };
            let endpoint = Endpoint::from_static("http://switch.example");
            let channel = endpoint.connect_with_connector(service_fn(knock)).await;
            channel.map_err(|error| error.to_string())
        })
    })
}

fn address(leaf: u16) -> String {
    format!("leaf{leaf}.example:9340")
}

/// The NIC with this number, and the VTEP of the leaf with this one.
fn numbered(network: u8, number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([10, network, high, low])
}

/// Flows of the NICs of a leaf to those of the next one, each over an uplink.
fn flows(leaves: u16, leaf: u16, members: &dyn Fn(u8) -> Arc<Members>) -> Arc<Flows> {
    let of_leaf = NICS.div_ceil(leaves);
    let nics = 0..of_leaf;
    let flow = |nic: u16| {
        let destination = numbered(1, (leaf + 1) % leaves * of_leaf + nic);
        let uplink = 1 + ((leaf + nic) % u16::from(UPLINKS)) as u8;
        let flow = Flow::to(VNI, destination);
        (flow, members(uplink))
    };
    Arc::new(nics.map(flow).collect())
}

/// Every leaf over all uplinks; the broken one without its first.
fn intents(leaves: u16, broken: Option<u16>, job: bool) -> BTreeMap<SwitchName, SwitchIntent> {
    let members = |uplinks: std::ops::RangeInclusive<u8>| -> Arc<Members> {
        let next_hop = |uplink: u8| NextHop {
            address: Some(IpAddr::from([192, 0, 2, 2 * uplink])),
            interface: format!("eth{uplink}").into(),
        };
        Arc::new(uplinks.map(|uplink| (next_hop(uplink), 1)).collect())
    };
    let (all, fewer) = (members(1..=UPLINKS), members(2..=UPLINKS));
    let routes = |leaf: u16| {
        let others = (0..leaves).filter(|other| *other != leaf);
        let prefixes = others.map(|other| {
            let alive = Some(other) != broken && Some(leaf) != broken;
            let members = if alive { &all } else { &fewer };
            (numbered(0, other).into(), members.clone())
        });
        Arc::new(Routes {
            prefixes: prefixes.collect(),
            ..Routes::default()
        })
    };
    let one = |uplink: u8| members(uplink..=uplink);
    let intent = |leaf: u16| {
        let intent = SwitchIntent {
            hold: false,
            agent: address(leaf).into(),
            tls: false,
            mode: Mode::On,
            routes: routes(leaf),
            flows: match job {
                true => flows(leaves, leaf, &one),
                false => Arc::default(),
            },
        };
        (SwitchName::from(format!("leaf{leaf}").as_str()), intent)
    };
    (0..leaves).map(intent).collect()
}

async fn until_in_sync(southbound: &Southbound, revision: u64) {
    let synced = || {
        southbound.statuses().iter().all(|status| {
            status.state == AgentState::InSync && status.installed_revision == revision
        })
    };
    while !synced() {
        sleep(Duration::from_micros(500)).await;
    }
}

const UPLINKS: u8 = 16;
const EVENTS: u16 = 400;
const NICS: u16 = 1_024;
