//! The gNMI server behind gRPC, over a recorded forwarding plane that gRIBI programs: calls, streams, refusals, and bounds.
//! Paths and values are tested beside the schema.

#[path = "client/session.rs"]
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::duplex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status, Streaming};
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::Link;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::{gnmi, gribi};
use weft_proto::gnmi::g_nmi_client::GNmiClient;
use weft_proto::gnmi::subscribe_request::Request;
use weft_proto::gnmi::subscribe_response::Response;
use weft_proto::gnmi::subscription_list::Mode;
use weft_proto::gnmi::typed_value::Value;
use weft_proto::gnmi::{
    CapabilityRequest, Encoding, GetRequest, Notification, Path, PathElem, Poll, SetRequest,
    SubscribeRequest, SubscribeResponse, Subscription, SubscriptionList, SubscriptionMode,
};
use weft_proto::gnmi_ext::Extension;

use self::session::{Session, group, next_hop, prefix};

/// An agent whose switch is recorded.
struct Target {
    recorded: Recorded,
    channel: Channel,
}

impl Target {
    async fn start() -> Self {
        let link = |index: u32, address: &str| Link {
            index,
            name: format!("up{index}"),
            up: true,
            addresses: vec![address.parse().expect("an address")],
            vxlan: false,
            vni: None,
            tx_octets: 10,
            rx_octets: 20,
        };
        let recorded = Recorded::new(vec![link(1, "192.0.2.1/24"), link(2, "198.51.100.1/24")]);
        let config = Config {
            network_instance: "DEFAULT".into(),
            ids: Ids::new(BASE).expect("a range"),
            prefixes: vec!["0.0.0.0/0".parse().expect("a prefix")],
            pins: true,
            lease: Duration::from_secs(3600),
            allow_override: false,
        };
        let mut driver = Driver::start(config, recorded.clone())
            .await
            .expect("readable");
        let (commands, queue) = gribi::commands();
        let (gnmi, gribi) = (
            gnmi::service(commands.clone(), driver.changes()),
            gribi::service(commands),
        );
        tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
        let (dial, dialled) = mpsc::channel(1);
        let incoming =
            tokio_stream::StreamExt::map(ReceiverStream::new(dialled), Ok::<_, std::io::Error>);
        let server = Server::builder().add_service(gnmi).add_service(gribi);
        tokio::spawn(server.serve_with_incoming(incoming));
        let connect = tower::service_fn(move |_| {
            let dial = dial.clone();
            async move {
                let (near, far) = duplex(1 << 16);
                dial.send(far).await.map_err(std::io::Error::other)?;
                Ok::<_, std::io::Error>(TokioIo::new(near))
            }
        });
        let channel = Endpoint::from_static("http://agent").connect_with_connector_lazy(connect);
        Self { recorded, channel }
    }

    fn client(&self) -> GNmiClient<Channel> {
        GNmiClient::new(self.channel.clone())
    }

    /// Two next hops and a group of them, of weights 3 and 1, for a prefix.
    async fn program(&self) -> Session {
        let mut session = Session::primary(self.channel.clone(), 1).await;
        session.add(next_hop(1, "192.0.2.2", None)).await;
        session.add(next_hop(2, "198.51.100.2", None)).await;
        session.add(group(1, &[(1, 3), (2, 1)])).await;
        session.add(prefix("203.0.113.0/24", 1)).await;
        session
    }

    async fn get(&self, text: &str) -> Result<BTreeMap<String, String>, Status> {
        let request = GetRequest {
            path: vec![path(text)],
            encoding: Encoding::Proto.into(),
            ..GetRequest::default()
        };
        let response = self.client().get(request).await?.into_inner();
        Ok(response.notification.iter().flat_map(updates).collect())
    }
}

/// One `Subscribe` stream.
struct Stream {
    requests: mpsc::Sender<SubscribeRequest>,
    responses: Streaming<SubscribeResponse>,
    /// What was sent, put together.
    known: BTreeMap<String, String>,
}

impl Stream {
    async fn open(target: &Target, list: SubscriptionList) -> Result<Self, Status> {
        let (requests, queue) = mpsc::channel(4);
        let first = SubscribeRequest {
            request: Some(Request::Subscribe(list)),
            extension: Vec::new(),
        };
        requests.send(first).await.expect("open");
        let mut client = target.client();
        let responses = client.subscribe(ReceiverStream::new(queue)).await?;
        Ok(Self {
            requests,
            responses: responses.into_inner(),
            known: BTreeMap::new(),
        })
    }

    async fn send(&self, request: Request) {
        let request = SubscribeRequest {
            request: Some(request),
            extension: Vec::new(),
        };
        self.requests.send(request).await.expect("open");
    }

    /// The next response; None: the stream is over.
    async fn next(&mut self) -> Result<Option<Response>, Status> {
        let next = timeout(PATIENCE, self.responses.message()).await;
        let next = next.expect("an answer in time")?;
        Ok(next.map(|response| response.response.expect("not empty")))
    }

    /// Takes what comes until the tree is in sync.
    async fn in_sync(&mut self) {
        loop {
            match self.next().await.expect("served").expect("not over") {
                Response::Update(notification) => self.learn(&notification),
                Response::SyncResponse(true) => return,
                Response::SyncResponse(false) => panic!("never false"),
            }
        }
    }

    /// Takes what comes until that holds.
    async fn until(&mut self, holds: impl Fn(&BTreeMap<String, String>) -> bool) {
        while !holds(&self.known) {
            match self.next().await.expect("served").expect("not over") {
                Response::Update(notification) => self.learn(&notification),
                Response::SyncResponse(_) => panic!("once only"),
            }
        }
    }

    fn learn(&mut self, notification: &Notification) {
        assert!(notification.timestamp > 0);
        for path in &notification.delete {
            assert!(self.known.remove(&shown(path)).is_some(), "{path:?}");
        }
        self.known.extend(updates(notification));
    }
}

fn path(text: &str) -> Path {
    let parts = text.split('/').filter(|part| !part.is_empty());
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

fn shown(path: &Path) -> String {
    let elem = |elem: &PathElem| {
        let keys = elem
            .key
            .iter()
            .map(|(key, value)| format!("[{key}={value}]"));
        format!("/{}{}", elem.name, keys.collect::<String>())
    };
    path.elem.iter().map(elem).collect()
}

fn updates(notification: &Notification) -> BTreeMap<String, String> {
    let update = notification.update.iter().map(|update| {
        let value = update.val.clone().and_then(|typed| typed.value);
        let text = match value {
            Some(Value::StringVal(text)) => text,
            Some(Value::UintVal(number)) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (shown(update.path.as_ref().expect("a path")), text)
    });
    update.collect()
}

fn list(mode: Mode, paths: &[&str], when: SubscriptionMode) -> SubscriptionList {
    let subscription = paths.iter().map(|text| Subscription {
        path: Some(path(text)),
        mode: when.into(),
        ..Subscription::default()
    });
    SubscriptionList {
        subscription: subscription.collect(),
        mode: mode.into(),
        encoding: Encoding::Proto.into(),
        ..SubscriptionList::default()
    }
}

fn on_change(paths: &[&str]) -> SubscriptionList {
    list(Mode::Stream, paths, SubscriptionMode::OnChange)
}

#[tokio::test]
async fn capabilities_name_models_and_encodings() {
    let target = Target::start().await;
    let request = CapabilityRequest::default();
    let answer = target.client().capabilities(request).await.expect("served");
    let answer = answer.into_inner();
    let encodings = [Encoding::Json, Encoding::JsonIetf, Encoding::Proto];
    assert_eq!(answer.supported_encodings, encodings.map(i32::from));
    assert_eq!(answer.g_nmi_version, "0.10.0");
    assert_eq!(answer.supported_models.len(), 5);
}

#[tokio::test]
async fn what_gribi_programs_gnmi_shows() {
    let target = Target::start().await;
    let _session = target.program().await;
    let group = BASE + 0x0080_0001;
    let afts = "/network-instances/network-instance[name=DEFAULT]/afts";
    let weights = format!("{afts}/next-hop-groups/next-hop-group[id={group}]/next-hops");
    let got = target.get(&weights).await.expect("there");
    for (index, weight) in [(BASE + 1, "3"), (BASE + 2, "1")] {
        let at = format!("{weights}/next-hop[index={index}]/state/weight");
        assert_eq!(got.get(&at).map(String::as_str), Some(weight), "{at}");
    }
    let entries = format!("{afts}/ipv4-unicast/ipv4-entry");
    let got = target.get(&entries).await.expect("there");
    let at = format!("{entries}[prefix=203.0.113.0/24]/state/next-hop-group");
    assert_eq!(got.get(&at), Some(&group.to_string()));
}

#[tokio::test]
async fn once_ends_after_everything() {
    let target = Target::start().await;
    let all = list(Mode::Once, &["/"], SubscriptionMode::TargetDefined);
    let mut stream = Stream::open(&target, all).await.expect("served");
    stream.in_sync().await;
    assert_eq!(stream.known, target.get("/").await.expect("there"));
    assert!(stream.next().await.expect("no error").is_none());
}

#[tokio::test]
async fn each_poll_is_answered_and_nothing_else() {
    let target = Target::start().await;
    let status = "/interfaces/interface[name=up1]/state/oper-status";
    let polled = list(Mode::Poll, &[status], SubscriptionMode::TargetDefined);
    let mut stream = Stream::open(&target, polled).await.expect("served");
    stream.send(Request::Poll(Poll {})).await;
    stream.in_sync().await;
    assert_eq!(stream.known[status], "UP");
    target.recorded.turn("up1", false);
    stream.send(Request::Poll(Poll {})).await;
    stream.in_sync().await;
    assert_eq!(stream.known[status], "DOWN");
    let second = list(Mode::Poll, &[status], SubscriptionMode::TargetDefined);
    stream.send(Request::Subscribe(second)).await;
    let refused = stream.next().await.expect_err("a second list");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_link_that_goes_down_is_told_of_with_what_used_it() {
    let target = Target::start().await;
    let _session = target.program().await;
    let status = "/interfaces/interface[name=up2]/state/oper-status";
    let mut stream = Stream::open(&target, on_change(&[status, "/network-instances"]))
        .await
        .expect("served");
    stream.in_sync().await;
    assert_eq!(stream.known[status], "UP");
    let weights = |known: &BTreeMap<String, String>| {
        let of = |(at, _): &(&String, &String)| at.ends_with("/state/weight");
        known.iter().filter(of).count()
    };
    assert_eq!(weights(&stream.known), 2);
    target.recorded.turn("up2", false);
    stream
        .until(|known| known[status] == "DOWN" && weights(known) == 1)
        .await;
    assert_eq!(stream.known, {
        let mut there = target.get("/network-instances").await.expect("there");
        there.extend(target.get(status).await.expect("there"));
        there
    });
    target.recorded.turn("up2", true);
    stream
        .until(|known| known[status] == "UP" && weights(known) == 2)
        .await;
}

#[tokio::test]
async fn the_last_change_of_an_interface_is_told_once_it_was_seen() {
    let target = Target::start().await;
    let leaf = |name: &str, leaf: &str| format!("/interfaces/interface[name={name}]/state/{leaf}");
    let [status, changed] = ["oper-status", "last-change"].map(|name| leaf("up2", name));
    let mut stream = Stream::open(&target, on_change(&[&status, &changed]))
        .await
        .expect("served");
    stream.in_sync().await;
    assert_eq!(stream.known.get(&changed), None, "up since before it began");
    let mut last = 0;
    for (up, told) in [(false, "DOWN"), (true, "UP")] {
        target.recorded.turn("up2", up);
        let newer = |known: &BTreeMap<String, String>| {
            let at = known.get(&changed).map(|at| at.parse().expect("a number"));
            at.filter(|at: &u64| *at > last)
        };
        stream
            .until(|known| known[&status] == told && newer(known).is_some())
            .await;
        last = newer(&stream.known).expect("told");
    }
    let other = target.get(&leaf("up1", "last-change")).await;
    assert_eq!(other.expect_err("not seen").code(), Code::NotFound);
}

#[tokio::test]
async fn a_client_that_closed_its_side_still_hears() {
    let target = Target::start().await;
    let status = "/interfaces/interface[name=up1]/state/oper-status";
    let mut stream = Stream::open(&target, on_change(&[status]))
        .await
        .expect("served");
    let (closed, _) = mpsc::channel(1);
    stream.requests = closed;
    stream.in_sync().await;
    target.recorded.turn("up1", false);
    stream.until(|known| known[status] == "DOWN").await;
}

#[tokio::test]
async fn samples_come_without_a_change() {
    let target = Target::start().await;
    let octets = "/interfaces/interface[name=up1]/state/counters/out-octets";
    let sampled = list(Mode::Stream, &[octets], SubscriptionMode::Sample);
    let mut stream = Stream::open(&target, sampled).await.expect("served");
    stream.in_sync().await;
    let Response::Update(sample) = stream.next().await.expect("served").expect("not over") else {
        panic!("a sample");
    };
    assert_eq!(updates(&sample)[octets], "10");
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_code() {
    let target = Target::start().await;
    let code = async |text: &str| target.get(text).await.map_err(|it| it.code());
    assert_eq!(code("/system").await, Err(Code::InvalidArgument));
    let absent = "/interfaces/interface[name=up9]";
    assert_eq!(code(absent).await, Err(Code::NotFound));
    let set = target.client().set(SetRequest::default()).await;
    assert_eq!(set.expect_err("read only").code(), Code::Unimplemented);

    let opened = async |list| Stream::open(&target, list).await.map(drop);
    let none = opened(on_change(&[])).await.expect_err("an empty list");
    assert_eq!(none.code(), Code::InvalidArgument);
    let ascii = SubscriptionList {
        encoding: Encoding::Ascii.into(),
        ..on_change(&["/"])
    };
    let refused = opened(ascii).await.expect_err("no such encoding");
    assert_eq!(refused.code(), Code::Unimplemented);

    // Of what does not exist yet, the target tells when it does.
    let later = opened(on_change(&[absent])).await;
    assert!(later.is_ok(), "{later:?}");
}

#[tokio::test]
async fn what_is_not_obeyed_is_not_passed_over() {
    let target = Target::start().await;
    let extended = GetRequest {
        extension: vec![Extension::default()],
        ..GetRequest::default()
    };
    let refused = target.client().get(extended).await.expect_err("extended");
    assert_eq!(refused.code(), Code::Unimplemented);
    let requests = SubscribeRequest {
        request: Some(Request::Poll(Poll {})),
        extension: Vec::new(),
    };
    let early = futures::stream::iter([requests]);
    let refused = target.client().subscribe(early).await;
    let refused = refused.expect_err("a poll of nothing");
    assert_eq!(refused.message(), "a poll before the list of subscriptions");
    let long = GetRequest {
        path: vec![path("/interfaces"); 65],
        ..GetRequest::default()
    };
    let refused = target.client().get(long).await.expect_err("too many");
    assert_eq!(refused.message(), "65 paths, at most 64");
}

#[tokio::test]
async fn streams_have_a_bound_and_make_room_when_they_end() {
    let target = Target::start().await;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = Stream::open(&target, on_change(&["/interfaces"]))
            .await
            .expect("there is room");
        stream.in_sync().await;
        streams.push(stream);
    }
    let full = Stream::open(&target, on_change(&["/"])).await.map(drop);
    assert_eq!(full.expect_err("full").code(), Code::ResourceExhausted);
    streams.pop();
    let again = async {
        while Stream::open(&target, on_change(&["/"])).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.expect("room in time");
}

#[tokio::test]
async fn a_client_that_does_not_read_gets_what_is_when_it_does() {
    let target = Target::start().await;
    let mut slow = Stream::open(&target, on_change(&["/interfaces"]))
        .await
        .expect("served");
    let status = "/interfaces/interface[name=up1]/state/oper-status";
    let mut quick = Stream::open(&target, on_change(&[status]))
        .await
        .expect("served");
    quick.in_sync().await;
    for turn in 0..20 {
        let (up, told) = [(false, "DOWN"), (true, "UP")][turn % 2];
        target.recorded.turn("up1", up);
        quick.until(|known| known[status] == told).await;
    }
    target.recorded.turn("up1", false);
    quick.until(|known| known[status] == "DOWN").await;
    slow.in_sync().await;
    // Of the times that the interface was down, the last one.
    let there = target.get("/interfaces").await.expect("there");
    slow.until(|known| *known == there).await;
}

const BASE: u32 = 0x5700_0000;

/// A failure is told, not waited for.
const PATIENCE: Duration = Duration::from_secs(20);
