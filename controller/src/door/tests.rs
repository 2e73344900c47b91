//! Doors over real sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::routing::any;
use futures::StreamExt;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout};
use tonic::service::Routes;
use tonic::transport::server::Connected;

use super::bounds::{FIRST_OCTETS, OCTETS_PER_ADDRESS};
use super::*;
use crate::operator::calls::Calls;

const BOUNDS: Bounds = Bounds {
    door: "test",
    connections: 100,
    per_address: 60,
};
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A server behind a door: it answers `/`, and never answers `/wait`. Returns its address and the calls of `/wait`.
async fn serve(door: &Door) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let waiting = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&waiting);
    let wait = move || {
        count.fetch_add(1, SeqCst);
        std::future::pending::<()>()
    };
    let router = Router::new().route("/", any(|| async { "well" }));
    let routes = Routes::from(router.route("/wait", any(wait)));
    let server = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .accept_http1(true)
        .layer(Calls::new(door.clone()))
        .add_routes(routes);
    let connections = door.clone().connections(listener);
    tokio::spawn(server.serve_with_incoming(connections));
    (address, waiting)
}

fn door() -> Door {
    Door::new(BOUNDS, Refusals::default())
}

async fn connect(from: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    let from = IpAddr::from([127, 0, 0, from]);
    socket.bind((from, 0).into()).unwrap();
    socket.connect(to).await.unwrap()
}

/// Octets until the server closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    // A reset ends them too.
    let _ = stream.read_to_end(&mut octets).await;
    octets
}

async fn ask(from: u8, to: SocketAddr) -> String {
    let mut stream = connect(from, to).await;
    let request = b"GET / HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.unwrap();
    String::from_utf8(rest(&mut stream).await).unwrap()
}

#[tokio::test]
async fn silent_connections_of_few_or_of_many_addresses_keep_nobody_out() {
    for sources in [1, 30] {
        let door = door();
        let (address, _) = serve(&door).await;
        let mut silent = Vec::new();
        for number in 0..300_u16 {
            let from = u8::try_from(number % sources).unwrap() + 2;
            silent.push(connect(from, address).await);
        }
        let answer = timeout(Duration::from_secs(1), ask(1, address)).await;
        let answer = answer.unwrap();
        assert!(answer.ends_with("well"), "{sources}: {answer}");
        let closed = [Reason::GaveWay, Reason::Full, Reason::Address];
        let closed = closed.map(|reason| door.refusals.count("test", reason));
        assert!(closed.iter().sum::<u64>() >= 200, "{closed:?}");
    }
}

#[tokio::test]
async fn heads_that_do_not_end_have_a_bound_for_each_address() {
    let door = door();
    let (address, _) = serve(&door).await;
    let mut streams = Vec::new();
    for _ in 0..BOUNDS.per_address {
        let mut stream = connect(2, address).await;
        let mut head = b"GET / HTTP/1.1\r\nx: ".to_vec();
        head.resize(300 << 10, b'x');
        // A connection that is closed meanwhile takes no more.
        let _ = stream.write_all(&head).await;
        streams.push(stream);
    }
    let cut = || door.refusals.count("test", Reason::Octets);
    while cut() < 5 {
        tokio::task::yield_now().await;
    }
    assert!(door.heads.total() <= OCTETS_PER_ADDRESS);
    assert!(ask(1, address).await.ends_with("well"));
    // Whoever ends its head, or goes, is not counted any more.
    drop(streams);
    while door.heads.total() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_of_one_address_leave_places_to_others() {
    let door = door();
    let (address, waiting) = serve(&door).await;
    let mut calls = Vec::new();
    for _ in 0..BOUNDS.per_address {
        let mut stream = connect(2, address).await;
        let request = b"GET /wait HTTP/1.1\r\nHost: weft\r\n\r\n";
        stream.write_all(request).await.unwrap();
        calls.push(stream);
    }
    while waiting.load(SeqCst) < BOUNDS.per_address {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(2, address).await, "");
    assert_eq!(door.refusals.count("test", Reason::Address), 1);
    assert!(ask(1, address).await.ends_with("well"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_sends_nothing_or_an_octet_a_second_is_closed_after_five_seconds() {
    let door = door();
    let (address, _) = serve(&door).await;
    let begin = Instant::now();
    let mut silent = connect(1, address).await;
    assert_eq!(rest(&mut silent).await, b"");
    let took = begin.elapsed();
    assert!(took >= FIRST_OCTETS && took < FIRST_OCTETS * 2, "{took:?}");
    let begin = Instant::now();
    let slow = connect(1, address).await;
    let (mut read, mut write) = slow.into_split();
    let drip = async {
        for octet in PREFACE.chunks(1) {
            let _ = write.write_all(octet).await;
            sleep(Duration::from_secs(1)).await;
        }
    };
    let mut octets = Vec::new();
    tokio::select! {
        () = drip => panic!("all octets were taken"),
        _ = read.read_to_end(&mut octets) => {}
    }
    assert!(begin.elapsed() < FIRST_OCTETS * 2, "{:?}", begin.elapsed());
    assert_eq!(door.refusals.count("test", Reason::Silent), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_quiet_for_an_hour_lives() {
    let door = door();
    let (address, waiting) = serve(&door).await;
    let mut stream = connect(1, address).await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&call(1, "/wait")).await.unwrap();
    while waiting.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    sleep(Duration::from_secs(3600)).await;
    // PING (RFC 9113 §6.7).
    stream
        .write_all(b"\0\0\x08\x06\0\0\0\0\0watchers")
        .await
        .unwrap();
    let mut octets = Vec::new();
    while !octets.ends_with(b"watchers") {
        assert_ne!(stream.read_buf(&mut octets).await.unwrap(), 0);
    }
}

/// A HEADERS frame without END_STREAM (RFC 9113 §6.2), its fields without the dynamic table (RFC 7541 §6).
fn call(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x04weft");
    let mut frame = vec![0, 0, u8::try_from(block.len()).unwrap(), 1, 4];
    frame.extend(stream.to_be_bytes());
    frame.extend(block);
    frame
}

#[tokio::test]
async fn of_a_thousand_streams_on_one_connection_256_are_served() {
    let door = door();
    let (address, waiting) = serve(&door).await;
    let mut stream = connect(1, address).await;
    stream.write_all(PREFACE).await.unwrap();
    for number in 0..1_000 {
        let call = call(2 * number + 1, "/wait");
        stream.write_all(&call).await.unwrap();
    }
    let refused = 1_000 - STREAMS_MAX as usize;
    let mut count = 0;
    while count < refused {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).await.unwrap();
        // RST_STREAM with REFUSED_STREAM (RFC 9113 §6.4, §8.7).
        count += usize::from(head[3] == 3 && payload == [0, 0, 0, 7]);
    }
    while waiting.load(SeqCst) < STREAMS_MAX as usize {
        tokio::task::yield_now().await;
    }
    assert_eq!(waiting.load(SeqCst), STREAMS_MAX as usize);
}

#[tokio::test]
async fn only_replicas_connect_where_only_replicas_may() {
    let replica: SocketAddr = "127.0.0.2:7400".parse().unwrap();
    let (members, _follow) = Members::of(vec![replica.into()]);
    let door = door().only(members);
    let (address, _) = serve(&door).await;
    assert_eq!(ask(1, address).await, "");
    assert_eq!(door.refusals.count("test", Reason::Stranger), 1);
    assert!(ask(2, address).await.ends_with("well"));
}

#[tokio::test]
async fn the_address_of_a_client_that_has_sent_a_reset_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = Box::pin(door().connections(listener));
    let client = connect(1, address).await;
    let remote = client.local_addr().unwrap();
    SockRef::from(&client)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(client);
    let connection = connections.next().await.unwrap().unwrap();
    assert_eq!(connection.connect_info().remote_addr(), Some(remote));
    assert_eq!(remote.ip(), Ipv4Addr::LOCALHOST);
}
