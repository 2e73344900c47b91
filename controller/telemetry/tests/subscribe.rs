//! The client against real gNMI servers: weft-agent's over a recorded switch, and a quirky one that plays a script.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use hyper_util::rt::TokioIo;
use tokio::io::duplex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::Link;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::{gnmi, gribi};
use weft_proto::gnmi::g_nmi_server::{GNmi, GNmiServer};
use weft_proto::gnmi::subscribe_request::Request as Asked;
use weft_proto::gnmi::subscribe_response::Response as Answer;
use weft_proto::gnmi::typed_value::Value;
use weft_proto::gnmi::{
    CapabilityRequest, CapabilityResponse, Encoding, GetRequest, GetResponse, Notification, Path,
    PathElem, SetRequest, SetResponse, SubscribeRequest, SubscribeResponse, SubscriptionList,
    SubscriptionMode, TypedValue, Update,
};
use weft_telemetry::{Client, Clock, Connect, Heard, Odd, Options, Sample};

/// A client that listens, and what it hears.
struct Listener {
    heard: watch::Receiver<Heard>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    fn over(connect: Connect) -> Self {
        let began = tokio::time::Instant::now();
        let clock: Clock = Arc::new(move || began.elapsed());
        let options = Options::default();
        let (client, heard) = Client::new("leaf1:9339".into(), connect, clock, options);
        let task = tokio::spawn(client.run());
        Self { heard, task }
    }

    /// Waits for a sample of which that holds.
    async fn until(&mut self, holds: impl Fn(&Sample) -> bool) -> Arc<Sample> {
        let found = self.heard.wait_for(|heard| match heard {
            Heard::Sample(sample) => holds(sample),
            Heard::Silent(_) => false,
        });
        let found = timeout(PATIENCE, found).await.expect("a sample in time");
        match &*found.expect("the client runs") {
            Heard::Sample(sample) => Arc::clone(sample),
            Heard::Silent(why) => panic!("{why}"),
        }
    }

    /// Waits until nothing is heard any more, and why.
    async fn until_silent(&mut self, holds: impl Fn(&str) -> bool) -> String {
        let found = self.heard.wait_for(|heard| match heard {
            Heard::Sample(_) => false,
            Heard::Silent(why) => holds(why),
        });
        let found = timeout(PATIENCE, found).await.expect("silent in time");
        match &*found.expect("the client runs") {
            Heard::Sample(_) => panic!("a sample"),
            Heard::Silent(why) => why.clone(),
        }
    }
}

/// A connection in memory to a server.
fn connect(service: Routes) -> Connect {
    let (dial, dialled) = mpsc::channel(1);
    let incoming =
        tokio_stream::StreamExt::map(ReceiverStream::new(dialled), Ok::<_, std::io::Error>);
    let server = Server::builder().add_routes(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    let channel = Endpoint::from_static("http://switch").connect_with_connector_lazy(
        tower::service_fn(move |_| {
            let dial = dial.clone();
            async move {
                let (near, far) = duplex(1 << 16);
                dial.send(far).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        }),
    );
    over(channel)
}

fn over(channel: Channel) -> Connect {
    Arc::new(move |_| {
        let channel = channel.clone();
        Box::pin(async move { Ok(channel) })
    })
}

/// weft-agent's own server over a recorded switch of two links.
async fn agent() -> (Recorded, Connect) {
    let link = |index: u32| Link {
        index,
        name: format!("up{index}"),
        up: true,
        addresses: vec![format!("192.0.2.{index}/31").parse().expect("an address")],
        vxlan: false,
        vni: None,
        tx_octets: 10,
        rx_octets: 20,
    };
    let recorded = Recorded::new(vec![link(1), link(2)]);
    let config = Config {
        network_instance: "DEFAULT".into(),
        ids: Ids::new(0x5700_0000).expect("a range"),
        prefixes: vec!["0.0.0.0/0".parse().expect("a prefix")],
        pins: true,
        lease: Duration::from_secs(3600),
        allow_override: false,
    };
    let mut driver = Driver::start(config, recorded.clone())
        .await
        .expect("readable");
    let (commands, queue) = gribi::commands();
    let service = gnmi::service(commands, driver.changes());
    tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
    (recorded, connect(Routes::new(service)))
}

#[tokio::test]
async fn weft_agent_is_heard() {
    let (recorded, connect) = agent().await;
    let mut listener = Listener::over(connect);
    let first = listener.until(|_| true).await;
    let up1 = &first.interfaces["up1"];
    assert_eq!(up1.up, Some(true));
    let octets = [up1.counters.in_octets, up1.counters.out_octets];
    assert_eq!(octets.map(|it| it.map(|it| it.value)), [Some(20), Some(10)]);
    assert_eq!(up1.counters.in_pause_frames, None);
    assert_eq!(up1.last_change_unix_ns, None, "up since before it began");
    assert!(first.has_lldp);
    assert_eq!(first.interval, Duration::from_secs(1));

    recorded.turn("up2", false);
    let second = listener
        .until(|sample| sample.interfaces["up2"].up == Some(false))
        .await;
    let oper_up = second.oper_up();
    assert_eq!(
        oper_up,
        [("up1".into(), true), ("up2".into(), false)].into()
    );
    recorded.turn("up2", true);
    listener
        .until(|sample| {
            let up2 = &sample.interfaces["up2"];
            up2.up == Some(true) && up2.last_change_unix_ns.is_some()
        })
        .await;

    // Samples go on, with the time of the switch.
    let read_at = |sample: &Sample| {
        let counters = sample.interfaces["up1"].counters;
        counters.in_octets.map(|counter| counter.unix_ns)
    };
    let before = read_at(&second);
    let third = listener.until(|sample| read_at(sample) > before).await;
    assert!(third.oddities.is_empty(), "{}", third.oddities);
}

/// A server that plays a script, and remembers what it was asked.
#[derive(Clone, Default)]
struct Quirky {
    /// One per Subscribe; the last is played again and again.
    scripts: Arc<Mutex<VecDeque<Script>>>,
    asked: Arc<Mutex<Vec<SubscriptionList>>>,
}

#[derive(Clone)]
struct Script {
    responses: Vec<Result<SubscribeResponse, Status>>,
    /// Whether the stream stays open afterwards.
    stays: bool,
}

impl Quirky {
    fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self {
            scripts: Arc::new(Mutex::new(scripts.into_iter().collect())),
            ..Self::default()
        }
    }

    fn asked(&self) -> Vec<SubscriptionList> {
        self.asked.lock().expect("nobody panicked").clone()
    }

    fn connect(&self) -> Connect {
        connect(Routes::new(GNmiServer::new(self.clone())))
    }
}

#[tonic::async_trait]
impl GNmi for Quirky {
    type SubscribeStream =
        Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send + 'static>>;

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?;
        if let Some(Asked::Subscribe(list)) = first.and_then(|first| first.request) {
            self.asked.lock().expect("nobody panicked").push(list);
        }
        let script = {
            let mut scripts = self.scripts.lock().expect("nobody panicked");
            let script = scripts.front().cloned().expect("a script");
            if scripts.len() > 1 {
                scripts.pop_front();
            }
            script
        };
        let (out, queue) = mpsc::channel(1);
        tokio::spawn(async move {
            for response in script.responses {
                if out.send(response).await.is_err() {
                    return;
                }
            }
            if script.stays {
                // A server may take the end of the requests for the end of the stream.
                let _over = requests.message().await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }

    async fn capabilities(
        &self,
        _: Request<CapabilityRequest>,
    ) -> Result<Response<CapabilityResponse>, Status> {
        Err(Status::unimplemented("no capabilities"))
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        Err(Status::unimplemented("no get"))
    }

    async fn set(&self, _: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        Err(Status::unimplemented("no set"))
    }
}

fn plays(responses: Vec<SubscribeResponse>) -> Script {
    Script {
        responses: responses.into_iter().map(Ok).collect(),
        stays: true,
    }
}

fn refuses(status: Status) -> Script {
    Script {
        responses: vec![Err(status)],
        stays: false,
    }
}

fn response(answer: Answer) -> SubscribeResponse {
    SubscribeResponse {
        response: Some(answer),
        extension: Vec::new(),
    }
}

fn sync() -> SubscribeResponse {
    response(Answer::SyncResponse(true))
}

fn notify(notification: Notification) -> SubscribeResponse {
    response(Answer::Update(notification))
}

fn path(text: &str) -> Path {
    let parts = text.split('|').filter(|part| !part.is_empty());
    let elem = parts.map(|part| {
        let (name, rest) = part.split_once('[').unwrap_or((part, ""));
        let key = rest.strip_suffix(']').and_then(|key| key.split_once('='));
        let key = key.map(|(key, value)| (key.to_owned(), value.to_owned()));
        PathElem {
            name: name.into(),
            key: key.into_iter().collect(),
        }
    });
    Path {
        elem: elem.collect(),
        ..Path::default()
    }
}

fn update(at: &str, value: Value) -> Update {
    Update {
        path: Some(path(at)),
        val: Some(TypedValue { value: Some(value) }),
        duplicates: 0,
    }
}

fn up(name: &str) -> SubscribeResponse {
    let at = format!("interfaces|interface[name={name}]|state|oper-status");
    notify(Notification {
        timestamp: 1,
        update: vec![update(&at, Value::StringVal("UP".into()))],
        ..Notification::default()
    })
}

/// An initial set in other encodings, with deletes and junk.
fn odd_responses() -> Vec<SubscribeResponse> {
    let subtree = r#"{"openconfig-interfaces:interface": [{"name": "Ethernet1/1", "state": {
        "oper-status": "UP", "counters": {"in-octets": "18446744073709551615", "out-octets": 7, "in-errors": -1}},
        "openconfig-if-ethernet:ethernet": {"state": {"port-speed": "openconfig-if-ethernet:SPEED_400GB",
        "counters": {"in-mac-pause-frames": "3"}}}}, {"no": "name"}]}"#;
    let tree = Notification {
        timestamp: 1,
        prefix: Some(Path {
            origin: "openconfig".into(),
            target: "leaf1".into(),
            ..Path::default()
        }),
        update: vec![update(
            "openconfig-interfaces:interfaces",
            Value::JsonIetfVal(subtree.into()),
        )],
        ..Notification::default()
    };
    let neighbors = "lldp|interfaces|interface[name=Ethernet1/1]|neighbors|neighbor[id=1]|state";
    let typed = Notification {
        timestamp: 1,
        prefix: Some(path(neighbors)),
        update: vec![
            update("system-name", Value::AsciiVal("spine1\u{7}".into())),
            update("port-id", Value::JsonVal("\"swp1\"".into())),
            update("port-description", Value::StringVal("x".repeat(10_000))),
        ],
        ..Notification::default()
    };
    let foreign = Path {
        origin: "srl_nokia".into(),
        ..path("interface")
    };
    let junk = Notification {
        update: vec![
            Update::default(),
            update(
                "interfaces|interface[name=Ethernet1/1]|state|oper-status",
                Value::BoolVal(true),
            ),
            update("interfaces", Value::JsonVal("{\"interface\": [".into())),
            update("system|state|hostname", Value::StringVal("leaf1".into())),
        ],
        delete: vec![foreign, path("interfaces|interface[name=gone]")],
        ..Notification::default()
    };
    let empty = SubscribeResponse::default();
    let [tree, typed, junk] = [tree, typed, junk].map(notify);
    let not_yet = response(Answer::SyncResponse(false));
    vec![up("gone"), tree, typed, junk, empty, not_yet, sync()]
}

#[tokio::test]
async fn other_encodings_prefixes_deletes_and_junk_are_tolerated() {
    let quirky = Quirky::new([plays(odd_responses())]);
    let mut listener = Listener::over(quirky.connect());
    let sample = listener.until(|_| true).await;

    let names: Vec<_> = sample.interfaces.keys().map(|name| &**name).collect();
    assert_eq!(names, ["Ethernet1/1"]);
    let found = &sample.interfaces["Ethernet1/1"];
    assert_eq!(
        (found.up, found.speed_bps),
        (Some(true), Some(400_000_000_000))
    );
    let counters = &found.counters;
    let value = |counter: Option<weft_telemetry::Counter>| counter.map(|counter| counter.value);
    assert_eq!(value(counters.in_octets), Some(u64::MAX));
    assert_eq!(value(counters.out_octets), Some(7));
    assert_eq!(value(counters.in_errors), None);
    assert_eq!(value(counters.in_pause_frames), Some(3));
    let neighbor = &found.neighbors["1"];
    assert_eq!(neighbor.system_name.as_deref(), Some("spine1\\u{7}"));
    assert_eq!(neighbor.port_id.as_deref(), Some("swp1"));
    let description = neighbor.port_description.as_deref().expect("told");
    assert!(description.len() < 300, "{}", description.len());
    let kinds = [
        Odd::NoValue,
        Odd::Value,
        Odd::Json,
        Odd::UnknownPath,
        Odd::Origin,
        Odd::Key,
        Odd::EmptyResponse,
        Odd::Sync,
    ];
    for odd in kinds {
        assert!(sample.oddities.of(odd) > 0, "{odd}: {}", sample.oddities);
    }
}

#[tokio::test]
async fn a_server_that_refuses_is_asked_in_another_way() {
    let quirky = Quirky::new([
        refuses(Status::unimplemented("encoding JSON_IETF")),
        refuses(Status::invalid_argument("ON_CHANGE is not supported")),
        refuses(Status::invalid_argument("ON_CHANGE is not supported")),
        plays(vec![up("eth1"), sync()]),
    ]);
    let mut listener = Listener::over(quirky.connect());
    listener.until(|sample| sample.oper_up()["eth1"]).await;
    let asked = quirky.asked();
    let encodings: Vec<_> = asked.iter().map(SubscriptionList::encoding).collect();
    assert_eq!(
        encodings,
        [
            Encoding::JsonIetf,
            Encoding::Proto,
            Encoding::Proto,
            Encoding::Proto
        ]
    );
    let modes = |list: &SubscriptionList| -> Vec<_> {
        let mut modes: Vec<_> = list.subscription.iter().map(|it| it.mode()).collect();
        modes.dedup();
        modes
    };
    let both = [SubscriptionMode::OnChange, SubscriptionMode::Sample];
    for asked in &asked[1..3] {
        assert!(both.iter().all(|mode| modes(asked).contains(mode)));
    }
    assert_eq!(modes(&asked[3]), [SubscriptionMode::Sample]);
}

#[tokio::test]
async fn a_server_that_refuses_everything_is_said_to_and_asked_later() {
    let quirky = Quirky::new([refuses(Status::invalid_argument("no\u{1b}[31m"))]);
    let mut listener = Listener::over(quirky.connect());
    let why = listener
        .until_silent(|why| why.contains("invalid argument"))
        .await;
    assert_eq!(why, "invalid argument: no\\u{1b}[31m");
    assert_eq!(quirky.asked().len(), 45);
}

#[tokio::test]
async fn nothing_is_said_before_the_sync_response() {
    let quirky = Quirky::new([plays(vec![up("eth1")])]);
    let mut listener = Listener::over(quirky.connect());
    while quirky.asked().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let early = listener
        .heard
        .wait_for(|heard| matches!(heard, Heard::Sample(_)));
    let early = timeout(Duration::from_secs(1), early).await.map(drop);
    assert!(early.is_err(), "a sample before the sync response");
}

#[tokio::test]
async fn a_lost_stream_is_silent_and_opened_again() {
    let closes = Script {
        responses: vec![
            Ok(up("eth1")),
            Ok(sync()),
            Err(Status::unavailable("restarting")),
        ],
        stays: false,
    };
    let quirky = Quirky::new([closes, plays(vec![up("eth2"), sync()])]);
    let mut listener = Listener::over(quirky.connect());
    let why = listener
        .until_silent(|why| why.contains("restarting"))
        .await;
    assert_eq!(why, "unavailable: restarting");
    let sample = listener.until(|_| true).await;
    // What the stream before said is forgotten.
    let names: Vec<_> = sample.interfaces.keys().map(|name| &**name).collect();
    assert_eq!(names, ["eth2"]);
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_stream() {
    let at = "interfaces|interface[name=eth1]|state|description";
    let large = notify(Notification {
        update: vec![update(at, Value::StringVal("x".repeat(5 << 20)))],
        ..Notification::default()
    });
    let quirky = Quirky::new([plays(vec![up("eth1"), sync(), large])]);
    let mut listener = Listener::over(quirky.connect());
    let why = listener
        .until_silent(|why| why.contains("out of range"))
        .await;
    assert!(why.len() < 300, "{why}");
}

#[tokio::test]
async fn a_client_that_nobody_listens_to_ends() {
    let quirky = Quirky::new([plays(vec![up("eth1"), sync()])]);
    let mut listener = Listener::over(quirky.connect());
    listener.until(|_| true).await;
    let (_closed, never) = watch::channel(Heard::Silent(String::new()));
    listener.heard = never;
    let ended = timeout(PATIENCE, &mut listener.task).await;
    ended.expect("in time").expect("no panic");
}

/// A failure is told, not waited for.
const PATIENCE: Duration = Duration::from_secs(20);
