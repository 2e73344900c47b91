//! The southbound client against the agent over a recorded forwarding plane: in memory, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Endpoint, Server};
use tower::service_fn;
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::forwarding::{Link, Operation};
use weft_agent::gribi::service;
use weft_controller::fabric::topology::SwitchName;
use weft_controller::southbound::intent::{Allocation, Intent, NextHop, Routes, allocate};
use weft_controller::southbound::{AgentState, AgentStatus, Connect, Election, Southbound};

/// A switch that can be switched off and on; its forwarding plane survives.
struct Switch {
    plane: Recorded,
    door: Arc<Mutex<Door>>,
    tasks: Vec<JoinHandle<()>>,
}

/// Where connections arrive, if anybody is there, and how many came.
#[derive(Default)]
struct Door {
    open: Option<mpsc::UnboundedSender<DuplexStream>>,
    knocks: usize,
    wires: Vec<JoinHandle<()>>,
}

impl Door {
    /// A wire to whoever is there, which can be cut.
    fn knock(&mut self) -> io::Result<DuplexStream> {
        self.knocks += 1;
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let open = self.open.as_ref().ok_or_else(refused)?;
        let (near, mut near_end) = tokio::io::duplex(1 << 16);
        let (mut far_end, far) = tokio::io::duplex(1 << 16);
        open.send(far).map_err(|_| refused())?;
        self.wires.push(tokio::spawn(async move {
            let _cut = tokio::io::copy_bidirectional(&mut near_end, &mut far_end).await;
        }));
        Ok(near)
    }
}

impl Switch {
    fn new() -> Self {
        let link = |index: u32| Link {
            index,
            name: format!("eth{index}"),
            up: true,
            addresses: vec![format!("192.0.2.{}/31", 2 * index + 1).parse().unwrap()],
        };
        Self {
            plane: Recorded::new((1..=4).map(link).collect()),
            door: Arc::default(),
            tasks: Vec::new(),
        }
    }

    async fn on(&mut self) {
        let config = Config {
            network_instance: "DEFAULT".to_owned(),
            ids: Ids::new(1 << 24).unwrap(),
        };
        let mut driver = Driver::start(config, self.plane.clone()).await.unwrap();
        let (service, commands) = service();
        let (open, arriving) = mpsc::unbounded_channel();
        let arriving = UnboundedReceiverStream::new(arriving).map(Ok::<_, io::Error>);
        self.door.lock().unwrap().open = Some(open);
        let server = Server::builder()
            .add_service(service)
            .serve_with_incoming(arriving);
        self.tasks.push(tokio::spawn(async move {
            tokio::join!(driver.run(commands, std::future::pending()), async {
                server.await.unwrap();
            });
        }));
    }

    fn off(&mut self) {
        let mut door = self.door.lock().unwrap();
        door.open = None;
        door.wires.drain(..).for_each(|wire| wire.abort());
        self.tasks.drain(..).for_each(|task| task.abort());
    }

    fn connect(&self) -> Connect {
        let door = self.door.clone();
        Arc::new(move |_| {
            let door = door.clone();
            Box::pin(async move {
                let knock = move |_| {
                    let wire = door.lock().unwrap().knock();
                    std::future::ready(wire.map(TokioIo::new))
                };
                let endpoint = Endpoint::from_static("http://switch.example");
                let channel = endpoint.connect_with_connector(service_fn(knock)).await;
                channel.map_err(|error| error.to_string())
            })
        })
    }

    fn told(&self) -> Vec<Operation> {
        self.plane.told()
    }

    fn knocks(&self) -> usize {
        self.door.lock().unwrap().knocks
    }
}

/// A replica: numbers and a client.
struct Replica {
    southbound: Southbound,
    allocation: Allocation,
}

impl Replica {
    fn new(switch: &Switch) -> Self {
        Self {
            southbound: Southbound::over(switch.connect()),
            allocation: Allocation::default(),
        }
    }

    /// Prefixes by their last octet, members by the number of their link.
    fn intend(&mut self, revision: u64, rows: &[(u8, &[(u8, u32)])]) {
        let prefixes = rows
            .iter()
            .map(|(last, members)| {
                let members = members.iter().map(|(link, weight)| {
                    let next_hop = NextHop {
                        address: IpAddr::from([192, 0, 2, 2 * link]),
                        interface: format!("eth{link}").into(),
                    };
                    (next_hop, *weight)
                });
                (
                    IpAddr::from([198, 51, 100, *last]).into(),
                    members.collect(),
                )
            })
            .collect();
        let routes = Routes {
            agent: "switch.example:9340".into(),
            prefixes,
        };
        let intent = Intent {
            revision,
            switches: BTreeMap::from([(SwitchName::from("leaf1"), routes)]),
        };
        if let Some(allocation) = allocate(&intent, &self.allocation) {
            self.allocation = allocation;
        }
        let resolved = intent.resolve(&self.allocation).unwrap();
        self.southbound.set_intent(resolved, revision);
    }

    fn lead(&mut self, incarnation: u64, term: u64) {
        self.southbound.lead(Election { incarnation, term });
    }

    fn status(&self) -> AgentStatus {
        self.southbound.statuses().remove(0)
    }

    /// Waits in virtual time.
    async fn until(&self, what: impl Fn(&AgentStatus) -> bool) {
        for _ in 0..100_000 {
            if what(&self.status()) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {:?}", self.status());
    }

    async fn in_sync(&self, revision: u64) {
        self.until(|status| {
            status.state == AgentState::InSync && status.installed_revision == revision
        })
        .await;
    }
}

const EVEN: &[(u8, u32)] = &[(1, 1), (2, 1)];
const UNEVEN: &[(u8, u32)] = &[(1, 2), (2, 1)];

#[tokio::test(start_paused = true)]
async fn the_first_push_installs_everything_once() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(7, &[(1, EVEN), (2, EVEN), (3, &[(3, 1)])]);
    assert_eq!(replica.status().state, AgentState::Standby);
    replica.lead(1, 1);
    replica.in_sync(7).await;
    let installed = switch.plane.installed();
    assert_eq!(installed.next_hops.len(), 3);
    assert_eq!(installed.groups.len(), 2);
    assert_eq!(installed.routes.len(), 3);
    assert_eq!(switch.told().len(), 8);
    let status = replica.status();
    assert_eq!((status.entries, status.pending, status.failed), (8, 0, 0));
    assert!(status.last_ack.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_new_intent_sends_the_difference_only() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.told().len();

    replica.intend(2, &[(1, UNEVEN), (2, UNEVEN)]);
    replica.in_sync(2).await;
    let told = switch.told();
    assert_eq!(told.len(), before + 1);
    assert!(matches!(&told[before], Operation::PutGroup(_, members) if members[0].weight == 2));

    // One prefix goes its own way, and goes.
    replica.intend(3, &[(1, UNEVEN), (2, &[(3, 1)])]);
    replica.in_sync(3).await;
    assert_eq!(switch.told().len(), before + 4);
    replica.intend(4, &[(1, UNEVEN)]);
    replica.in_sync(4).await;
    let installed = switch.plane.installed();
    assert_eq!(
        (
            installed.next_hops.len(),
            installed.groups.len(),
            installed.routes.len()
        ),
        (2, 1, 1)
    );
    assert_eq!(switch.knocks(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_reads_and_finds_nothing_to_do() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;
    let before = switch.told();

    let mut second = Replica::new(&switch);
    second.allocation = first.allocation.clone();
    second.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    second.lead(1, 6);
    second.in_sync(1).await;
    assert_eq!(switch.told(), before);
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_can_not_write_and_stops() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = Replica::new(&switch);
    first.intend(1, &[(1, EVEN)]);
    first.lead(1, 5);
    first.in_sync(1).await;

    let mut second = Replica::new(&switch);
    second.allocation = first.allocation.clone();
    second.intend(2, &[(1, UNEVEN)]);
    second.lead(1, 6);
    second.in_sync(2).await;
    let before = switch.told();

    first.intend(3, &[(2, EVEN)]);
    first
        .until(|status| status.state == AgentState::Deposed)
        .await;
    assert_eq!(
        first.status().last_error,
        "the switch obeys incarnation 1 term 6, this is incarnation 1 term 5"
    );
    assert_eq!(switch.told(), before);
    let knocks = switch.knocks();
    sleep(Duration::from_secs(300)).await;
    assert_eq!(switch.knocks(), knocks);

    // Until it is elected again.
    first.lead(1, 7);
    first.in_sync(3).await;
    assert_eq!(switch.plane.installed().routes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_incarnation_is_an_alarm_and_nothing_is_sent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut foreign = Replica::new(&switch);
    foreign.intend(1, &[(1, EVEN)]);
    foreign.lead(9, 1);
    foreign.in_sync(1).await;
    let before = switch.told();

    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(2, EVEN)]);
    replica.lead(1, 1_000);
    replica
        .until(|status| status.state == AgentState::ForeignController)
        .await;
    assert_eq!(switch.told(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_agent_is_read_and_only_what_is_missing_is_sent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN), (2, UNEVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.told().len();

    switch.off();
    replica
        .until(|status| status.state == AgentState::Unreachable)
        .await;
    switch.on().await;
    replica.in_sync(1).await;
    assert_eq!(switch.told().len(), before);

    switch.off();
    replica.intend(2, &[(1, EVEN), (2, EVEN)]);
    switch.on().await;
    replica.in_sync(2).await;
    // The prefix moves to the other group, which was not its own, and that goes.
    assert_eq!(switch.told().len(), before + 2);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_agent_is_tried_again_with_a_bound() {
    let switch = Switch::new();
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica
        .until(|status| status.state == AgentState::Unreachable)
        .await;
    sleep(Duration::from_secs(600)).await;
    let knocks = switch.knocks();
    assert!(
        (20..=26).contains(&knocks),
        "{knocks} attempts in ten minutes"
    );
    assert_eq!(replica.status().state, AgentState::Unreachable);
    assert!(!replica.status().last_error.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_the_forwarding_plane_refuses_is_shown_and_tried_again() {
    let mut switch = Switch::new();
    switch.on().await;
    switch.plane.refuse(Some("no space"));
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.until(|status| status.failed > 0).await;
    assert!(
        replica.status().last_error.contains("no space"),
        "{:?}",
        replica.status()
    );
    assert_eq!(replica.status().installed_revision, 0);
    switch.plane.refuse(None);
    replica.in_sync(1).await;
    assert_eq!(replica.status().failed, 0);
    assert_eq!(switch.plane.installed().routes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_yields_is_silent() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    replica.intend(1, &[(1, EVEN)]);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    let before = switch.told();
    replica.southbound.yield_();
    replica.intend(2, &[(1, UNEVEN)]);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(replica.status().state, AgentState::Standby);
    assert_eq!(replica.status().intended_revision, 2);
    assert_eq!(switch.told(), before);
}

#[tokio::test(start_paused = true)]
async fn a_whole_fabric_passes_through_the_window() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut replica = Replica::new(&switch);
    let members: Vec<[(u8, u32); 2]> = (1..=250).map(|weight| [(1, weight), (2, 251)]).collect();
    let rows: Vec<(u8, &[(u8, u32)])> = (1..=250_u8)
        .zip(&members)
        .map(|(last, members)| (last, members.as_slice()))
        .collect();
    replica.intend(1, &rows);
    replica.lead(1, 1);
    replica.in_sync(1).await;
    assert_eq!(switch.plane.installed().routes.len(), 250);
    assert_eq!(switch.plane.installed().groups.len(), 250);
    // All of it replaced by one group, while it runs by another: the last intent wins.
    let even: Vec<(u8, &[(u8, u32)])> = (1..=250).map(|last| (last, EVEN)).collect();
    replica.intend(2, &even);
    sleep(Duration::from_millis(10)).await;
    replica.intend(3, &rows[..10]);
    replica.in_sync(3).await;
    assert_eq!(switch.plane.installed().routes.len(), 10);
    assert_eq!(switch.plane.installed().groups.len(), 10);
}
