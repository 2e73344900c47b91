//! How long a link event takes from the intent to the last acknowledgement, over 64 agents in memory.
//!
//! Each agent is the one that ships, over a recorded forwarding plane, behind a gRIBI stream; time is real. Every leaf
//! has 63 remote prefixes over 16 uplinks; an event takes one spine's link to one leaf away, so that at the other leaves
//! one prefix gets a group of its own, or gives it back.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

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
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::Link;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::gribi::{commands, service};
use weft_controller::fabric::topology::SwitchName;
use weft_controller::southbound::intent::{Members, Mode, NextHop, Routes, SwitchIntent};
use weft_controller::southbound::{AgentState, Connect, Election, Southbound};

type Doors = Arc<Mutex<BTreeMap<String, mpsc::UnboundedSender<tokio::io::DuplexStream>>>>;

#[tokio::main]
async fn main() {
    let doors = Doors::default();
    for leaf in 0..LEAVES {
        start(leaf, &doors).await;
    }
    let mut southbound = Southbound::over(connect(doors));
    southbound.lead(Election {
        incarnation: 1,
        term: 1,
    });
    southbound.set_intent(intents(None), 1);
    until_in_sync(&southbound, 1).await;
    let mut took = Vec::new();
    for event in 0..EVENTS {
        let revision = event + 2;
        let broken = (event % 2 == 0).then_some(event as u8 % LEAVES);
        let next = intents(broken);
        let begin = Instant::now();
        southbound.set_intent(next, revision);
        until_in_sync(&southbound, revision).await;
        took.push(begin.elapsed());
    }
    took.sort();
    let at =
        |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    print(&format!(
        "{LEAVES} agents, {EVENTS} link events, intent to last acknowledgement: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        at(50),
        at(99),
        at(100)
    ));
}

#[expect(clippy::disallowed_macros, reason = "a bench prints to a person")]
fn print(line: &str) {
    println!("{line}");
}

async fn start(leaf: u8, doors: &Doors) {
    let link = |index: u32| Link {
        index,
        name: format!("eth{index}"),
        up: true,
        addresses: vec![format!("192.0.2.{}/31", 2 * index + 1).parse().unwrap()],
        vxlan: false,
        vni: None,
        tx_octets: 0,
        rx_octets: 0,
    };
    let plane = Recorded::new((1..=u32::from(UPLINKS)).map(link).collect());
    let config = Config {
        network_instance: "DEFAULT".to_owned(),
        ids: Ids::new(1 << 24).unwrap(),
        prefixes: vec!["0.0.0.0/0".parse().unwrap()],
        pins: true,
        lease: Duration::from_secs(5),
    };
    let mut driver = Driver::start(config, plane).await.unwrap();
    let (commands, queue) = commands();
    let service = service(commands);
    let (door, arriving) = mpsc::unbounded_channel();
    let arriving = UnboundedReceiverStream::new(arriving).map(Ok::<_, std::io::Error>);
    doors.lock().unwrap().insert(address(leaf), door);
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming(arriving);
    tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
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

fn address(leaf: u8) -> String {
    format!("leaf{leaf}.example:9340")
}

/// Every leaf over all uplinks; the broken one without its first.
fn intents(broken: Option<u8>) -> BTreeMap<SwitchName, SwitchIntent> {
    let members = |uplinks: std::ops::RangeInclusive<u8>| -> Arc<Members> {
        let next_hop = |uplink: u8| NextHop {
            address: IpAddr::from([192, 0, 2, 2 * uplink]),
            interface: format!("eth{uplink}").into(),
        };
        Arc::new(uplinks.map(|uplink| (next_hop(uplink), 1)).collect())
    };
    let (all, fewer) = (members(1..=UPLINKS), members(2..=UPLINKS));
    let routes = |leaf: u8| {
        let others = (0..LEAVES).filter(|other| *other != leaf);
        let prefixes = others.map(|other| {
            let alive = Some(other) != broken && Some(leaf) != broken;
            let members = if alive { &all } else { &fewer };
            (IpAddr::from([198, 51, 100, other]).into(), members.clone())
        });
        Arc::new(Routes {
            prefixes: prefixes.collect(),
        })
    };
    let intent = |leaf: u8| {
        let intent = SwitchIntent {
            hold: false,
            agent: address(leaf).into(),
            mode: Mode::On,
            routes: routes(leaf),
            flows: Arc::default(),
        };
        (SwitchName::from(format!("leaf{leaf}").as_str()), intent)
    };
    (0..LEAVES).map(intent).collect()
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

const LEAVES: u8 = 64;
const UPLINKS: u8 = 16;
const EVENTS: u64 = 400;
