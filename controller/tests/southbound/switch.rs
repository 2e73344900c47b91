//! A switch in memory: the agent over a recorded forwarding plane, behind a door that can be shut; and a replica.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use ipnet::IpNet;
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
use weft_agent::gribi::{commands, service};
use weft_controller::fabric::topology::SwitchName;
use weft_controller::southbound::intent::{
    Flow, Flows, Members, Mode, NextHop, Routes, SwitchIntent,
};
use weft_controller::southbound::{AgentState, AgentStatus, Connect, Election, Southbound};

/// A switch that can be switched off and on; its forwarding plane survives.
pub(crate) struct Switch {
    pub(crate) plane: Recorded,
    door: Arc<Mutex<Door>>,
    tasks: Vec<JoinHandle<()>>,
}

/// Where connections arrive, if anybody is there, and how many came.
#[derive(Default)]
pub(crate) struct Door {
    open: Option<mpsc::UnboundedSender<DuplexStream>>,
    knocks: usize,
    wires: Vec<JoinHandle<()>>,
}

impl Door {
    /// Connections that arrive from now on.
    pub(crate) fn open(
        door: &Arc<Mutex<Self>>,
    ) -> impl tokio_stream::Stream<Item = io::Result<DuplexStream>> + use<> {
        let (open, arriving) = mpsc::unbounded_channel();
        door.lock().unwrap().open = Some(open);
        UnboundedReceiverStream::new(arriving).map(Ok)
    }

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
    pub(crate) fn new() -> Self {
        let link = |index: u32| Link {
            index,
            name: format!("eth{index}"),
            up: true,
            addresses: vec![format!("192.0.2.{}/31", 2 * index + 1).parse().unwrap()],
            vxlan: index == 4,
            vni: (index == 4).then_some(100),
            tx_octets: 0,
            rx_octets: 0,
        };
        Self {
            plane: Recorded::new((1..=4).map(link).collect()),
            door: Arc::default(),
            tasks: Vec::new(),
        }
    }

    pub(crate) async fn on(&mut self) {
        let config = Config {
            network_instance: "DEFAULT".to_owned(),
            ids: Ids::new(1 << 24).unwrap(),
            prefixes: vec!["0.0.0.0/0".parse().unwrap()],
            pins: true,
            lease: Duration::from_secs(5),
            allow_override: false,
        };
        let mut driver = Driver::start(config, self.plane.clone()).await.unwrap();
        let (commands, queue) = commands();
        let service = service(commands);
        let arriving = Door::open(&self.door);
        let server = Server::builder()
            .add_service(service)
            .serve_with_incoming(arriving);
        self.tasks.push(tokio::spawn(async move {
            let serve = async { server.await.unwrap() };
            let drive = async { driver.run(queue, std::future::pending()).await.unwrap() };
            tokio::join!(drive, serve);
        }));
    }

    pub(crate) fn off(&mut self) {
        let mut door = self.door.lock().unwrap();
        door.open = None;
        door.wires.drain(..).for_each(|wire| wire.abort());
        self.tasks.drain(..).for_each(|task| task.abort());
    }

    pub(crate) fn connect(&self) -> Connect {
        connect(self.door.clone())
    }

    /// What the forwarding plane was told, but for the rules.
    pub(crate) fn told(&self) -> Vec<Operation> {
        let mut told = self.plane.told();
        told.retain(|operation| {
            !matches!(
                operation,
                Operation::PutRule(..) | Operation::DeleteRule(..)
            )
        });
        told
    }

    pub(crate) fn knocks(&self) -> usize {
        self.door.lock().unwrap().knocks
    }
}

/// Connections through a door.
pub(crate) fn connect(door: Arc<Mutex<Door>>) -> Connect {
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

/// Prefixes by their last octet, members by the number of their link.
pub(crate) type Rows<'a> = &'a [(u8, &'a [(u8, u32)])];

/// Routes over links of [`Switch`].
pub(crate) fn routes(rows: Rows<'_>) -> Routes {
    let row = |(last, members): &(u8, &[(u8, u32)])| {
        let members = members.iter().map(|(link, weight)| {
            let next_hop = NextHop {
                address: Some(IpAddr::from([192, 0, 2, 2 * link])),
                interface: format!("eth{link}").into(),
            };
            (next_hop, *weight)
        });
        let prefix = IpAddr::from([198, 51, 100, *last]).into();
        (prefix, Arc::new(members.collect::<Members>()))
    };
    Routes {
        prefixes: rows.iter().map(row).collect(),
        ..Routes::default()
    }
}

/// Flows of VNI 100 by the last octet of their destination, over links of [`Switch`].
pub(crate) fn flows(rows: Rows<'_>) -> Arc<Flows> {
    let prefixes = routes(rows).prefixes.into_iter();
    let flow = |last: u8| Flow::to(100, IpAddr::from([10, 0, 0, last]));
    let flows = prefixes.zip(rows);
    Arc::new(
        flows
            .map(|((_, members), (last, _))| (flow(*last), members))
            .collect(),
    )
}

/// A replica, which programs one switch.
pub(crate) struct Replica {
    pub(crate) southbound: Southbound,
    pub(crate) tls: bool,
    pub(crate) mode: Mode,
    pub(crate) hold: bool,
    pub(crate) flows: Arc<Flows>,
    /// What prefixes fall back to.
    pub(crate) backups: BTreeMap<IpNet, Arc<Members>>,
}

impl Replica {
    pub(crate) fn new(switch: &Switch) -> Self {
        Self::over(switch.connect())
    }

    pub(crate) fn over(connect: Connect) -> Self {
        Self {
            southbound: Southbound::over(connect),
            tls: false,
            mode: Mode::On,
            hold: false,
            flows: Arc::default(),
            backups: BTreeMap::new(),
        }
    }

    pub(crate) fn intend(&mut self, revision: u64, rows: Rows<'_>) {
        let intent = SwitchIntent {
            hold: self.hold,
            agent: "switch.example:9340".into(),
            tls: self.tls,
            mode: self.mode,
            routes: Arc::new(Routes {
                backups: self.backups.clone(),
                ..routes(rows)
            }),
            flows: Arc::clone(&self.flows),
        };
        let intents = BTreeMap::from([(SwitchName::from("leaf1"), intent)]);
        self.southbound.set_intent(intents, revision);
    }

    pub(crate) fn lead(&mut self, incarnation: u64, term: u64) {
        self.southbound.lead(Election { incarnation, term });
    }

    pub(crate) fn status(&self) -> AgentStatus {
        self.southbound.statuses().remove(0)
    }

    /// Waits in virtual time.
    pub(crate) async fn until(&self, what: impl Fn(&AgentStatus) -> bool) {
        for _ in 0..100_000 {
            if what(&self.status()) {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("never: {:?}", self.status());
    }

    pub(crate) async fn is(&self, state: AgentState) {
        self.until(|status| status.state == state).await;
    }

    pub(crate) async fn in_sync(&self, revision: u64) {
        let state = AgentState::InSync;
        self.until(|status| status.state == state && status.installed_revision == revision)
            .await;
    }
}
