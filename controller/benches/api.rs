//! What it costs to look at many routes: one weftd, speakers that announce type 2 routes to it, and a client that reads the whole
//! list, lists the peers, and looks one MAC address up; with a quarter of the routes first, then with all.
//! `-- --routes N`: so many, 1,000,000 unless said otherwise. `-- --weftd PATH`: another weftd than that of this build.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "every client here shares a connection")]
mod lone;

use std::net::TcpStream;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use weft_proto::v1::peer_service_client::PeerServiceClient;
use weft_proto::v1::route_service_client::RouteServiceClient;
use weft_proto::v1::{self as proto};

use lone::{Daemon, announce, deaf, mac, speaker};

#[tokio::main]
async fn main() {
    let routes: u32 = argument("--routes").map_or(ROUTES, |number| number.parse().unwrap());
    let weftd = argument("--weftd").unwrap_or_else(|| env!("CARGO_BIN_EXE_weftd").to_owned());
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&weftd, dir.path(), "");
    let each = routes / SPEAKERS;
    let mut speakers: Vec<TcpStream> = (0..SPEAKERS)
        .map(|number| speaker(number, daemon.bgp))
        .collect();
    speakers.iter().for_each(deaf);
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

const ROUTES: u32 = 1_000_000;
const SPEAKERS: u32 = 20;
const TIMES: usize = 21;
