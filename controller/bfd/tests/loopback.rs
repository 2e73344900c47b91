//! Two services in one process, over addresses of 127.0.0.0/8: what is refused, and what hostile packets do.
//! No privilege is needed. Each test has addresses of its own.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a test from end to end"
)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tokio::time::{sleep, timeout};
use weft_bfd::packet::{Interval, Packet};
use weft_bfd::{
    Config, Counters, Diagnostic, Discriminator, Service, State, Status, Watch, WatchError,
};

fn address(net: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 84, net, host))
}

/// Three times 100 ms.
fn config(local: IpAddr, remote: IpAddr, multihop: bool) -> Config {
    Config {
        local,
        remote,
        multihop,
        interval: Duration::from_millis(100),
        multiplier: NonZeroU8::new(3).unwrap(),
        min_ttl: 254,
    }
}

async fn until(watch: &Watch, holds: impl FnMut(&Status) -> bool) -> Status {
    let mut status = watch.subscribe();
    let reached = timeout(Duration::from_secs(10), status.wait_for(holds)).await;
    match reached {
        Ok(status) => *status.unwrap(),
        Err(_) => panic!("still {:?}", watch.status()),
    }
}

/// Both ends of a session, up.
async fn pair(net: u8, multihop: bool) -> (Service, Service, Watch, Watch) {
    let (near, far) = (Service::new(8).unwrap(), Service::new(8).unwrap());
    let (a, b) = (address(net, 1), address(net, 2));
    let to_far = near.watch(config(a, b, multihop)).await.unwrap();
    let to_near = far.watch(config(b, a, multihop)).await.unwrap();
    for watch in [&to_far, &to_near] {
        until(watch, |status| status.state == State::Up).await;
    }
    (near, far, to_far, to_near)
}

/// A stranger's socket.
fn stranger(from: SocketAddr, ttl: u32) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.set_ttl_v4(ttl).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&from.into()).unwrap();
    socket
}

fn packet(state: State, yours: Option<Discriminator>) -> Packet {
    Packet {
        diagnostic: Diagnostic::None,
        state,
        poll: false,
        final_bit: false,
        control_plane_independent: false,
        demand: false,
        multiplier: NonZeroU8::MIN,
        mine: Discriminator(std::num::NonZeroU32::MIN),
        yours,
        desired_min_tx: Interval(1),
        required_min_rx: Interval(1),
        required_min_echo_rx: Interval(0),
    }
}

async fn until_counted(service: &Service, holds: impl Fn(&Counters) -> bool) {
    for _ in 0..200 {
        if holds(&service.counters()) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?}", service.counters());
}

#[tokio::test]
async fn hostile_packets_are_counted_and_change_nothing() {
    for (net, multihop, port) in [(1, false, 3784), (2, true, 4784)] {
        let (near, _far, to_far, _to_near) = pair(net, multihop).await;
        let to = SocketAddr::new(address(net, 1), port).into();
        let down = packet(State::Down, None).encode();
        let guess = packet(
            State::Down,
            Some(Discriminator(std::num::NonZeroU32::new(12345).unwrap())),
        );
        let peer = stranger((address(net, 2), 0).into(), 255);
        let other = stranger((address(net, 3), 0).into(), 255);
        let ttl = if multihop { 253 } else { 254 };
        let distant = stranger((address(net, 2), 0).into(), ttl);
        for _ in 0..10 {
            other.send_to(&down, &to).unwrap();
            distant.send_to(&down, &to).unwrap();
            if multihop {
                // A forged address does not help a sender that does not know the name of the session.
                peer.send_to(&down, &to).unwrap();
            }
            peer.send_to(&guess.encode(), &to).unwrap();
            peer.send_to(&[], &to).unwrap();
            peer.send_to(&[0xff; 2_000], &to).unwrap();
        }
        let foreign = if multihop { 20 } else { 10 };
        until_counted(&near, |counters| {
            counters.foreign == foreign
                && counters.far == 10
                && counters.unknown == 10
                && counters.malformed == 20
        })
        .await;
        let status = to_far.status();
        assert_eq!((status.state, status.failures), (State::Up, 0));
    }
}

/// RFC 5880 §6.8.6: an end that has restarted does not know the name of the session.
#[tokio::test]
async fn over_one_hop_an_end_that_restarts_is_a_failure_at_once() {
    let (near, _far, mut to_far, _to_near) = pair(9, false).await;
    let restarted = stranger((address(9, 2), 0).into(), 255);
    let down = packet(State::Down, None).encode();
    let to = SocketAddr::new(address(9, 1), 3784).into();
    restarted.send_to(&down, &to).unwrap();
    let failed = timeout(Duration::from_secs(1), to_far.failed()).await;
    assert_eq!(failed, Ok(Diagnostic::NeighborSignaledDown));
    assert_eq!(near.counters().foreign, 0);
}

#[tokio::test]
async fn a_far_end_that_ends_is_no_failure() {
    let (_near, far, to_far, to_near) = pair(3, false).await;
    drop(to_near);
    let status = until(&to_far, |status| status.state != State::Up).await;
    assert_eq!((status.state, status.failures), (State::AdminDown, 0));
    // It speaks for a detection time, and is then silent.
    until(&to_far, |status| status.state == State::Down).await;
    let again = config(address(3, 2), address(3, 1), false);
    let _again = far.watch(again).await.unwrap();
    let status = until(&to_far, |status| status.state == State::Up).await;
    assert_eq!(status.failures, 0);
}

/// Answers a session that is watched from the other address, until it is Up there, and no longer.
async fn come_up(far: &tokio::net::UdpSocket, near: IpAddr) {
    let mut up = false;
    loop {
        let mut octets = [0; 64];
        let (len, _) = far.recv_from(&mut octets).await.unwrap();
        let theirs = Packet::decode(&octets[..len]).unwrap();
        let state = match theirs.state {
            State::AdminDown | State::Down => State::Down,
            State::Init => State::Up,
            State::Up if up => return,
            // Of the last time.
            State::Up => continue,
        };
        up = state == State::Up;
        let answer = packet(state, Some(theirs.mine)).encode();
        far.send_to(&answer, (near, 3784)).await.unwrap();
    }
}

#[tokio::test]
async fn each_failure_is_told_once_also_if_nobody_waited_for_it() {
    let service = Service::new(8).unwrap();
    let (near, far) = (address(7, 1), address(7, 2));
    let mut watch = service.watch(config(near, far, false)).await.unwrap();
    let far =
        tokio::net::UdpSocket::from_std(stranger(SocketAddr::new(far, 3784), 255).into()).unwrap();
    for failures in 1..=2 {
        come_up(&far, near).await;
        let status = until(&watch, |status| status.failures == failures).await;
        assert_eq!(status.state, State::Down);
        assert_eq!(status.diagnostic, Diagnostic::DetectionTimeExpired);
    }
    let mut failed = async |wait_ms| timeout(Duration::from_millis(wait_ms), watch.failed()).await;
    assert_eq!(failed(1_000).await, Ok(Diagnostic::DetectionTimeExpired));
    assert!(failed(100).await.is_err(), "two that nobody saw are one");
    come_up(&far, near).await;
    assert_eq!(failed(1_000).await, Ok(Diagnostic::DetectionTimeExpired));
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let service = Service::new(2).unwrap();
    let (a, b) = (address(4, 1), address(4, 2));
    let good = config(a, b, false);
    let refused = async |config| service.watch(config).await.unwrap_err();
    for (local, remote) in [
        ("127.84.4.1", "::1"),
        ("0.0.0.0", "127.84.4.2"),
        ("::", "::1"),
        ("127.84.4.1", "224.0.0.1"),
        ("127.84.4.1", "255.255.255.255"),
        ("fe80::1", "fe80::2"),
        ("::ffff:127.84.4.1", "::ffff:127.84.4.2"),
    ] {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        let error = refused(config(local, remote, false)).await;
        assert!(matches!(error, WatchError::Addresses { .. }), "{error}");
    }
    for interval_ms in [0, 9, 60_001] {
        let interval = Duration::from_millis(interval_ms);
        let error = refused(Config { interval, ..good }).await;
        assert!(matches!(error, WatchError::Interval(_)), "{error}");
    }
    let first = service.watch(good).await.unwrap();
    let error = refused(good).await;
    assert!(matches!(error, WatchError::Watched { .. }), "{error}");
    let _second = service.watch(config(a, b, true)).await.unwrap();
    let error = refused(config(a, address(4, 3), false)).await;
    assert!(matches!(error, WatchError::Full(2)), "{error}");
    drop(first);
    // Nobody answered it, so it is over at once.
    let _third = service.watch(good).await.unwrap();

    let other = Service::new(2).unwrap();
    let error = other
        .watch(config(a, address(4, 9), false))
        .await
        .unwrap_err();
    assert!(matches!(error, WatchError::Socket { .. }), "{error}");
}

#[tokio::test]
async fn sockets_are_closed_with_the_last_session() {
    let service = Service::new(8).unwrap();
    let (a, b) = (address(5, 1), address(5, 2));
    let one = service.watch(config(a, b, false)).await.unwrap();
    let two = service
        .watch(config(a, address(5, 3), false))
        .await
        .unwrap();
    drop((one, two));
    let other = Service::new(8).unwrap();
    for _ in 0..100 {
        if other.watch(config(a, b, false)).await.is_ok() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the port is still taken");
}

#[tokio::test]
async fn a_watch_keeps_the_service() {
    let (near, far, to_far, _to_near) = pair(6, true).await;
    drop((near, far));
    let changed = to_far.change(Duration::from_millis(200), NonZeroU8::MIN);
    changed.await.expect("the thread lives");
    let slower = Duration::from_millis(200);
    let status = until(&to_far, |status| status.transmit_interval == slower).await;
    assert_eq!((status.state, status.failures), (State::Up, 0));
}

/// CPU and failures of 1024 sessions of three times 300 ms: 32 addresses on either side.
#[tokio::test]
#[ignore = "a measurement of half a minute: cargo test -p weft-bfd --test loopback -- --ignored --nocapture"]
async fn measure_a_thousand_sessions() {
    let (near, far) = (Service::new(1_024).unwrap(), Service::new(1_024).unwrap());
    let mut watches = Vec::new();
    for a in 0..32 {
        for b in 0..32 {
            let interval = Duration::from_millis(300);
            let (a, b) = (address(10, a), address(11, b));
            for (service, local, remote) in [(&near, a, b), (&far, b, a)] {
                let config = Config {
                    interval,
                    ..config(local, remote, false)
                };
                watches.push(service.watch(config).await.unwrap());
            }
        }
    }
    for watch in &watches {
        until(watch, |status| status.state == State::Up).await;
    }
    let (began, cpu, counters) = (Instant::now(), cpu(), near.counters());
    sleep(Duration::from_secs(20)).await;
    let (took, used) = (began.elapsed(), self::cpu() - cpu);
    let failures: u64 = watches.iter().map(|watch| watch.status().failures).sum();
    let received = near.counters().received - counters.received;
    println!(
        "2 x 1024 sessions: {used:.2} CPU-s in {took:?}, {received} packets received by one side, {failures} failures"
    );
    assert_eq!(failures, 0);
}

/// User and system time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
