//! The two things that the tables are run against: the agent alone, and the agent behind gRPC.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use ipnet::IpNet;
use tokio::io::duplex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use weft_agent::agent::{Agent, Config, Input, Now, Output, Ticket};
use weft_agent::driver::Driver;
use weft_agent::election::Client;
use weft_agent::fib::Ids;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::forwarding::{Forwarding, Link};
use weft_agent::gribi;
use weft_proto::gribi::g_ribi_client::GRibiClient;
use weft_proto::gribi::{
    AftEntry, FlushRequest, FlushResponse, GetRequest, ModifyRequest, ModifyResponse,
};

use crate::session::Session;

pub(crate) enum Target {
    Core(Box<Core>),
    Streams(Streams),
}

/// The agent without I/O.
pub(crate) struct Core {
    agent: Agent,
    pub(crate) recorded: Recorded,
    responses: BTreeMap<Client, VecDeque<Result<ModifyResponse, Status>>>,
    flushed: Option<Result<FlushResponse, Status>>,
}

/// The agent behind gRPC over pipes.
pub(crate) struct Streams {
    pub(crate) recorded: Recorded,
    channel: Channel,
    sessions: BTreeMap<Client, Session>,
}

impl Target {
    pub(crate) fn core() -> Self {
        let observed = recorded_plane();
        let first = weft_agent::forwarding::Observed {
            installed: observed.installed(),
            links: links(),
            own: weft_agent::forwarding::Own::Everything,
            foreign: Vec::new(),
        };
        let agent = Agent::new(config(), first);
        let (responses, flushed) = (BTreeMap::new(), None);
        Self::Core(Box::new(Core {
            agent,
            recorded: observed,
            responses,
            flushed,
        }))
    }

    pub(crate) async fn streams() -> Self {
        let recorded = recorded_plane();
        let mut driver = Driver::start(config(), recorded.clone())
            .await
            .expect("readable");
        let (commands, queue) = gribi::commands();
        let service = gribi::service(commands);
        tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
        let (dial, dialled) = mpsc::channel(1);
        let incoming =
            tokio_stream::StreamExt::map(ReceiverStream::new(dialled), Ok::<_, std::io::Error>);
        tokio::spawn(
            Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming),
        );
        let connect = tower::service_fn(move |_| {
            let dial = dial.clone();
            async move {
                let (near, far) = duplex(1 << 16);
                dial.send(far).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let channel = Endpoint::from_static("http://agent").connect_with_connector_lazy(connect);
        Self::Streams(Streams {
            recorded,
            channel,
            sessions: BTreeMap::new(),
        })
    }

    pub(crate) fn recorded(&self) -> &Recorded {
        match self {
            Self::Core(core) => &core.recorded,
            Self::Streams(streams) => &streams.recorded,
        }
    }

    /// All responses to one request: one, or as many as it takes to have this many results.
    pub(crate) async fn modify(
        &mut self,
        client: Client,
        request: ModifyRequest,
    ) -> Result<Vec<ModifyResponse>, Status> {
        let wanted = request.operation.len();
        match self {
            Self::Core(core) => {
                core.open(client).await;
                core.handle(Input::Request(client, request)).await;
                let responses = core.responses.get_mut(&client).expect("opened");
                responses.drain(..).collect()
            }
            Self::Streams(streams) => {
                streams.open(client).await;
                let session = streams.sessions.get_mut(&client).expect("opened");
                session.send(request).await;
                let mut responses = vec![session.receive().await?];
                while responses
                    .iter()
                    .map(|response| response.result.len())
                    .sum::<usize>()
                    < wanted
                {
                    responses.push(session.receive().await?);
                }
                Ok(responses)
            }
        }
    }

    /// A stream on which nothing is said.
    pub(crate) async fn open(&mut self, client: Client) {
        match self {
            Self::Core(core) => core.open(client).await,
            Self::Streams(streams) => streams.open(client).await,
        }
    }

    /// Ends a stream. "ok": nothing came on it that was not asked for.
    pub(crate) async fn close(&mut self, client: Client) -> String {
        let rest = match self {
            Self::Core(core) => {
                core.handle(Input::Closed(client)).await;
                let rest = core.responses.remove(&client).expect("opened");
                rest.into_iter().next()
            }
            Self::Streams(streams) => {
                let mut session = streams.sessions.remove(&client).expect("opened");
                session.half_close();
                // The server ends the stream when the driver has forgotten the client.
                match session.receive().await {
                    Err(status) if status.code() == Code::Ok => None,
                    other => Some(other),
                }
            }
        };
        rest.map_or_else(|| "ok".into(), |rest| format!("{rest:?}"))
    }

    pub(crate) async fn get(&mut self, request: GetRequest) -> Result<Vec<AftEntry>, Status> {
        match self {
            Self::Core(core) => Ok(core.agent.entries(&request)?),
            Self::Streams(streams) => {
                let mut client = GRibiClient::new(streams.channel.clone());
                let mut stream = client.get(request).await?.into_inner();
                let mut entries = Vec::new();
                while let Some(response) = stream.message().await? {
                    entries.extend(response.entry);
                }
                Ok(entries)
            }
        }
    }

    pub(crate) async fn flush(&mut self, request: FlushRequest) -> Result<FlushResponse, Status> {
        match self {
            Self::Core(core) => {
                core.handle(Input::Flush(Ticket(1), String::new(), request))
                    .await;
                core.flushed.take().expect("answered")
            }
            Self::Streams(streams) => {
                let mut client = GRibiClient::new(streams.channel.clone());
                Ok(client.flush(request).await?.into_inner())
            }
        }
    }

    pub(crate) async fn turn(&mut self, link: &str, up: bool) {
        let looks = self.recorded().looks();
        self.recorded().turn(link, up);
        match self {
            Self::Core(core) => core.look().await,
            Self::Streams(streams) => {
                while streams.recorded.looks() == looks {
                    tokio::task::yield_now().await;
                }
            }
        }
        // The driver serves this only when it has done what the look asked for.
        let request = GetRequest {
            network_instance: None,
            aft: 1,
        };
        assert!(self.get(request).await.is_err());
    }
}

impl Streams {
    async fn open(&mut self, client: Client) {
        if let Entry::Vacant(vacant) = self.sessions.entry(client) {
            vacant.insert(Session::open(self.channel.clone()).await);
        }
    }
}

impl Core {
    async fn open(&mut self, client: Client) {
        if let Entry::Vacant(vacant) = self.responses.entry(client) {
            vacant.insert(VecDeque::new());
            self.handle(Input::Opened(client, String::new())).await;
        }
    }

    async fn look(&mut self) {
        let observed = self.recorded.observe().await.expect("readable");
        self.handle(Input::Observed(observed)).await;
    }

    async fn handle(&mut self, input: Input) {
        self.agent.handle(input, NOW);
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.recorded.apply(&operation).await;
                    self.agent.handle(Input::Acknowledged(outcome), NOW);
                }
                Output::Respond(client, response) => self.push(client, Ok(response)),
                Output::End(client, refusal) => self.push(client, Err(refusal.into())),
                Output::Flushed(_, result) => self.flushed = Some(result.map_err(Status::from)),
                Output::Unsettled(_, _) => {}
                Output::Mark(number, _) => self.agent.handle(Input::Marked(number, Ok(())), NOW),
            }
        }
    }

    fn push(&mut self, client: Client, response: Result<ModifyResponse, Status>) {
        self.responses
            .entry(client)
            .or_default()
            .push_back(response);
    }
}

fn recorded_plane() -> Recorded {
    Recorded::new(links())
}

fn config() -> Config {
    Config {
        network_instance: "DEFAULT".into(),
        ids: Ids::new(BASE).expect("a range"),
        prefixes: vec![
            "0.0.0.0/0".parse().expect("a prefix"),
            "::/0".parse().expect("a prefix"),
        ],
        pins: true,
        lease: LEASE,
        allow_override: false,
    }
}

fn links() -> Vec<Link> {
    let link = |index: u32, addresses: [&str; 2]| Link {
        index,
        name: format!("up{index}"),
        up: true,
        addresses: addresses
            .map(|text| text.parse::<IpNet>().expect("an address"))
            .to_vec(),
        vxlan: false,
        vni: None,
        tx_octets: 0,
        rx_octets: 0,
    };
    vec![
        link(1, ["192.0.2.1/24", "2001:db8:1::1/64"]),
        link(2, ["198.51.100.1/24", "2001:db8:2::1/64"]),
    ]
}

pub(crate) const BASE: u32 = 0x5700_0000;
const LEASE: Duration = Duration::from_secs(3600);
const NOW: Now = Now {
    unix_ns: 1,
    uptime: Duration::ZERO,
};
