//! What it costs to look at many routes: one weftd, speakers that announce type 2 routes to it, and a client that reads the whole
//! list, lists the peers, and looks one MAC address up; with a quarter of the routes first, then with all.
//! `-- --routes N`: so many, 1,000,000 unless said otherwise. `-- --weftd PATH`: another weftd than that of this build.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};
use weft_bgp::attribute::{Attributes, NextHop, Reach};
use weft_bgp::capability::{AddPathSet, Capability};
use weft_bgp::family::Family;
use weft_bgp::message::{DecodeContext, Message, Open, Update};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::RouterId;
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_evpn::community::RouteTarget;
use weft_evpn::mac::Mac;
use weft_evpn::route::{Labels, MacIp, MacIpKey};
use weft_evpn::{Esi, EthernetTag, Label, Route};
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::route_service_client::RouteServiceClient;
use weft_proto::v1::{self as proto};

#[tokio::main]
async fn main() {
    let routes: u32 = argument("--routes").map_or(ROUTES, |number| number.parse().unwrap());
    let weftd = argument("--weftd").unwrap_or_else(|| env!("CARGO_BIN_EXE_weftd").to_owned());
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&weftd, dir.path());
    let each = routes / SPEAKERS;
    let mut speakers: Vec<TcpStream> = (0..SPEAKERS)
        .map(|number| speaker(number, daemon.bgp))
        .collect();
    say(&format!(
        "{weftd}: {SPEAKERS} speakers, {} of type 2 each; medians of {TIMES}",
        each
    ));
    let (mut from, mut whole) = (0, Vec::new());
    for to in [each / 4, each] {
        for (number, speaker) in (0..).zip(&mut speakers) {
            announce(speaker, number, from..to);
        }
        from = to;
        let count = u64::from(to * SPEAKERS);
        while known(&daemon.channel).await < count {
            sleep(Duration::from_millis(200)).await;
        }
        whole.push(measure(&daemon.channel, count).await / count as f64);
    }
    say(&format!(
        "a route of the whole list costs {:.2} times what it costs in a list of a quarter",
        whole[1] / whole[0]
    ));
}

/// Prints what looks cost; seconds of the whole list.
async fn measure(channel: &Channel, count: u64) -> f64 {
    let begin = Instant::now();
    let (listed, pages) = list(channel, proto::ListRoutesRequest::default()).await;
    let took = begin.elapsed().as_secs_f64();
    assert_eq!(listed, count);
    say(&format!(
        "{count} routes: whole list in {took:.2} s, {pages} pages"
    ));
    let mut peers = Vec::new();
    let mut hosts = Vec::new();
    for _ in 0..TIMES {
        let begin = Instant::now();
        assert_eq!(known(channel).await, count);
        peers.push(begin.elapsed().as_secs_f64() * 1000.0);
        let request = proto::ListRoutesRequest {
            mac: Some(mac(3, 7).to_string()),
            ..proto::ListRoutesRequest::default()
        };
        let begin = Instant::now();
        assert_eq!(list(channel, request).await, (1, 1));
        hosts.push(begin.elapsed().as_secs_f64() * 1000.0);
    }
    say(&format!(
        "{count} routes: list of peers {:.2} ms, one MAC looked up {:.2} ms",
        median(peers),
        median(hosts)
    ));
    took
}

/// Routes of a list, and its pages.
async fn list(channel: &Channel, mut request: proto::ListRoutesRequest) -> (u64, usize) {
    let client = RouteServiceClient::new(channel.clone());
    let mut client = client.max_decoding_message_size(64 << 20);
    request.page_size = 10_000;
    let (mut count, mut pages) = (0, 0);
    loop {
        let page = client.list_routes(request.clone()).await.unwrap();
        let page = page.into_inner();
        count += u64::try_from(page.routes.len()).unwrap();
        pages += 1;
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return (count, pages);
        }
    }
}

/// Routes of all peers.
async fn known(channel: &Channel) -> u64 {
    let mut client = PeerServiceClient::new(channel.clone());
    let answer = client.list_peers(proto::ListPeersRequest::default()).await;
    let peers = answer.map(|it| it.into_inner().peers).unwrap_or_default();
    peers.iter().map(|peer| peer.route_count).sum()
}

/// A weftd without other replicas.
struct Daemon {
    child: Child,
    bgp: SocketAddr,
    channel: Channel,
}

impl Daemon {
    fn start(weftd: &str, dir: &Path) -> Self {
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (bgp, api) = (free(), free());
        let (bgp, api) = (bgp.local_addr().unwrap(), api.local_addr().unwrap());
        let file = dir.join("weftd.toml");
        let text = format!(
            "[replica]\ndata_dir = {:?}\n[bgp]\nasn = {ASN}\nlisten = [\"{bgp}\"]\n\
             [[bgp.peer_group]]\nname = \"leaves\"\n[[bgp.listen_range]]\nprefix = \"127.0.1.0/24\"\npeer_group = \"leaves\"\n\
             [api]\nlisten = \"{api}\"\n",
            dir.join("data")
        );
        std::fs::write(&file, text).unwrap();
        let log = std::fs::File::create(dir.join("weftd.log")).unwrap();
        let child = Command::new(weftd)
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        let channel = Endpoint::from_shared(format!("http://{api}")).unwrap();
        Self {
            child,
            bgp,
            channel: channel.connect_lazy(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// A session from an address of its own; what comes is thrown away.
fn speaker(number: u32, bgp: SocketAddr) -> TcpStream {
    let mut socket = loop {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        let from = SocketAddr::from((address(number), 0));
        socket.bind(&from.into()).unwrap();
        if socket.connect(&bgp.into()).is_ok() {
            break TcpStream::from(socket);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let open = Message::Open(Open {
        asn: ASN,
        hold_secs: 0,
        router_id: RouterId::from(address(number)),
        capabilities: vec![
            Capability::MultiProtocol(Family::L2VPN_EVPN),
            Capability::FourOctetAs(ASN),
        ],
    });
    socket.write_all(&open.encode(&CONTEXT)).unwrap();
    let keepalive = Message::Keepalive.encode(&CONTEXT);
    socket.write_all(&keepalive).unwrap();
    let mut heard = socket.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut octets = vec![0; 1 << 16];
        while matches!(heard.read(&mut octets), Ok(1..)) {}
    });
    socket
}

/// Announces the routes of these hosts.
fn announce(speaker: &mut TcpStream, number: u32, hosts: std::ops::Range<u32>) {
    for first in hosts.clone().step_by(PER_UPDATE) {
        let mut nlri = Writer::new();
        let last = hosts.end.min(first + u32::try_from(PER_UPDATE).unwrap());
        for host in first..last {
            route(number, host).encode(&mut nlri);
        }
        let update = Update {
            reach: Some(Reach {
                family: Family::L2VPN_EVPN,
                next_hop: NextHop::V4(Ipv4Addr::from(0xc000_0201 + number)),
                nlri: nlri.finish(),
            }),
            attributes: Attributes {
                local_pref: Some(100),
                ext_communities: vec![RouteTarget::two_octet_as(64_496, 100).octets()],
                ..Attributes::default()
            },
            ..Update::default()
        };
        let update = Message::Update(Box::new(update)).encode(&CONTEXT);
        speaker.write_all(&update).unwrap();
    }
}

fn route(speaker: u32, host: u32) -> Route {
    Route::MacIp(MacIp {
        key: MacIpKey {
            rd: Rd::from_ipv4(address(speaker), 100),
            tag: EthernetTag(0),
            mac: mac(speaker, host),
            ip: Some(Ipv4Addr::from(0x0a00_0000 + (speaker << 18) + host).into()),
        },
        esi: Esi::ZERO,
        labels: Labels::One(Label([0, 0, 100])),
    })
}

fn mac(speaker: u32, host: u32) -> Mac {
    let [_, a, b, c] = host.to_be_bytes();
    let [.., low] = speaker.to_be_bytes();
    Mac([2, 0, low, a, b, c])
}

fn address(speaker: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f00_0101 + speaker)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|it| it != name).nth(1)
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

const ASN: u32 = 64_496;
const ROUTES: u32 = 1_000_000;
const SPEAKERS: u32 = 20;
/// 39 octets each: an UPDATE of 4096 octets holds them.
const PER_UPDATE: usize = 90;
const TIMES: usize = 21;
const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
