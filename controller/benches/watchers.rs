//! How long a change of a best path takes to a watcher, and what watchers cost the leaves: one weftd of this build, a leaf that
//! changes its routes at a steady rate, a leaf that is told of them, and watchers, in turn without them and with them. The time to
//! a watcher is counted from the moment at which the leaf sends, which is before the commit.
//! `-- --watchers N --changes N --vnis N --seconds N`: each watcher follows the routes of one VNI; with `--vnis 1` all of them
//! follow every change.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "one leaf announces here, in its own rhythm")]
mod lone;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;
use weft_bgp::frame;
use weft_bgp::message::Message;
use weft_bgp::nlri::Nlri;
use weft_bgp::wire::Writer;
use weft_proto::v1::watch_service_client::WatchServiceClient;
use weft_proto::v1::{self as proto};

use lone::{CONTEXT, Daemon, deaf, route, speaker, update};

/// How much of everything.
#[derive(Clone, Copy)]
struct Scale {
    watchers: u32,
    /// In a second.
    changes: u32,
    vnis: u32,
    seconds: u32,
}

/// When each change was sent, in microseconds since the begin; its number is its MULTI_EXIT_DISC.
struct Sent {
    begin: Instant,
    at: Vec<AtomicU64>,
    next: AtomicU32,
}

impl Sent {
    /// Microseconds since a change was sent.
    fn since(&self, number: u32) -> u32 {
        let now = u64::try_from(self.begin.elapsed().as_micros()).unwrap();
        let sent = self.at[number as usize].load(Ordering::Relaxed);
        u32::try_from(now - sent).unwrap()
    }

    fn mark(&self) -> u32 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = u64::try_from(self.begin.elapsed().as_micros()).unwrap();
        self.at[number as usize].store(now, Ordering::Relaxed);
        number
    }
}

#[tokio::main]
async fn main() {
    let scale = Scale {
        watchers: argument("--watchers").unwrap_or(1000),
        changes: argument("--changes").unwrap_or(5000),
        vnis: argument("--vnis").unwrap_or(1000),
        seconds: argument("--seconds").unwrap_or(5),
    };
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(
        env!("CARGO_BIN_EXE_weftd"),
        dir.path(),
        "route_reflector_client = true\n",
    );
    let sent = Arc::new(Sent {
        begin: Instant::now(),
        at: (0..scale.changes * scale.seconds * (ROUNDS * 2 + 1))
            .map(|_| AtomicU64::new(0))
            .collect(),
        next: AtomicU32::new(0),
    });
    let leaf = speaker(0, daemon.bgp);
    deaf(&leaf);
    let told = hear(speaker(1, daemon.bgp), Arc::clone(&sent));
    let (mut without, mut with, mut heard) = (Vec::new(), Vec::new(), Vec::new());
    let mut wrong = 0;
    // The routes are new once.
    change(&leaf, &sent, scale, &told).await;
    for _ in 0..ROUNDS {
        without.extend(change(&leaf, &sent, scale, &told).await);
        let mut watchers = JoinSet::new();
        let (ready, mut begun) = tokio::sync::mpsc::channel(1);
        for number in 0..scale.watchers {
            watchers.spawn(watch(
                daemon.address.clone(),
                number % scale.vnis,
                Arc::clone(&sent),
                ready.clone(),
            ));
        }
        drop(ready);
        for _ in 0..scale.watchers {
            let begun = timeout(PATIENCE, begun.recv()).await;
            begun.unwrap().expect("a watcher that ends says why");
        }
        let first = sent.next.load(Ordering::Relaxed);
        with.extend(change(&leaf, &sent, scale, &told).await);
        sleep(Duration::from_secs(1)).await;
        STOP.notify_waiters();
        let last = sent.next.load(Ordering::Relaxed);
        while let Some(watched) = watchers.join_next().await {
            let (vni, numbers, times) = watched.unwrap();
            let wanted = (first..last).filter(|it| it % HOSTS % scale.vnis == vni);
            wrong += usize::from(!wanted.eq(numbers));
            heard.extend(times);
        }
    }
    let (without, with, heard) = (Times::of(without), Times::of(with), Times::of(heard));
    say(&format!(
        "{} watchers of one VNI of {} each, {} changes of best paths a second, {ROUNDS} times {} s without them and with them",
        scale.watchers, scale.vnis, scale.changes, scale.seconds
    ));
    say(&format!("leaf to leaf, without: {without}"));
    say(&format!(
        "leaf to leaf, with:    {with}; p50 {:.2} times",
        with.at(0.5) / without.at(0.5)
    ));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    say(&format!(
        "leaf to watcher:       {heard}; {wrong} watchers missed one or heard one twice; load {}",
        load.split(' ').next().unwrap_or("?")
    ));
    assert_eq!(wrong, 0, "a watcher was not told of every change once");
}

/// Changes routes for some seconds; microseconds that each change took to the other leaf.
#[expect(clippy::disallowed_methods, reason = "changes come at a steady rate")]
async fn change(leaf: &TcpStream, sent: &Arc<Sent>, scale: Scale, told: &Told) -> Vec<u32> {
    let (mut leaf, sent) = (leaf.try_clone().unwrap(), Arc::clone(sent));
    let before = sent.next.load(Ordering::Relaxed);
    let changed = tokio::task::spawn_blocking(move || {
        let each = scale.changes / TURNS;
        let begin = Duration::from_micros(u64::try_from(sent.begin.elapsed().as_micros()).unwrap());
        for turn in 0..TURNS * scale.seconds {
            let due = begin + Duration::from_secs(1) * turn / TURNS;
            std::thread::sleep(due.saturating_sub(sent.begin.elapsed()));
            let mut octets = BytesMut::new();
            for _ in 0..each {
                let number = sent.mark();
                let host = number % HOSTS;
                let mut nlri = Writer::new();
                route(0, host, FIRST_VNI + host % scale.vnis).encode(&mut nlri);
                octets.extend_from_slice(&update(0, nlri, Some(number)));
            }
            leaf.write_all(&octets).unwrap();
        }
        sent.next.load(Ordering::Relaxed)
    });
    let wanted = (changed.await.unwrap() - before) as usize;
    let late = Instant::now() + Duration::from_secs(30);
    loop {
        let times = std::mem::take(&mut *told.lock().unwrap());
        if times.len() >= wanted {
            return times;
        }
        assert!(
            Instant::now() < late,
            "{} of {wanted} changes were told",
            times.len()
        );
        told.lock().unwrap().splice(0..0, times);
        sleep(Duration::from_millis(20)).await;
    }
}

/// Microseconds of changes that a leaf was told of.
type Told = Arc<std::sync::Mutex<Vec<u32>>>;

/// Hears as the other leaf.
fn hear(mut socket: TcpStream, sent: Arc<Sent>) -> Told {
    let told = Told::default();
    let times = Arc::clone(&told);
    std::thread::spawn(move || {
        let (mut buffer, mut octets) = (BytesMut::new(), vec![0; 1 << 16]);
        while let Ok(count @ 1..) = socket.read(&mut octets) {
            buffer.extend_from_slice(&octets[..count]);
            while let Some(frame) = frame::split(&mut buffer, frame::MAX_LEN).unwrap() {
                if let Message::Update(update) = Message::decode(frame, &CONTEXT).unwrap()
                    && let Some(number) = update.attributes.med
                {
                    times.lock().unwrap().push(sent.since(number));
                }
            }
        }
    });
    told
}

/// Follows the routes of a VNI, over a connection of its own: its VNI, the numbers of the changes that it was told of, in
/// order, and microseconds of each.
async fn watch(
    address: String,
    vni: u32,
    sent: Arc<Sent>,
    ready: tokio::sync::mpsc::Sender<()>,
) -> (u32, Vec<u32>, Vec<u32>) {
    let channel = Channel::from_shared(address)
        .unwrap()
        .connect()
        .await
        .unwrap();
    let request = proto::WatchRequest {
        routes: Some(proto::RouteFilter {
            vni: Some(FIRST_VNI + vni),
            ..proto::RouteFilter::default()
        }),
        ..proto::WatchRequest::default()
    };
    let stop = STOP.notified();
    tokio::pin!(stop);
    stop.as_mut().enable();
    let stream = WatchServiceClient::new(channel).watch(request).await;
    let mut stream = stream.unwrap().into_inner();
    let (mut numbers, mut times) = (Vec::new(), Vec::new());
    let mut known = false;
    loop {
        let answer = tokio::select! {
            answer = stream.message() => answer.unwrap().unwrap(),
            () = &mut stop => return (vni, numbers, times),
        };
        if answer.snapshot {
            if answer.header.is_some() && !known {
                known = true;
                ready.send(()).await.unwrap();
            }
            continue;
        }
        for change in answer.route_changes {
            let path = &change.route.unwrap().paths[0];
            let number = path.med.unwrap();
            numbers.push(number);
            times.push(sent.since(number));
        }
    }
}

/// Microseconds, in order.
struct Times(Vec<u32>);

impl Times {
    fn of(mut times: Vec<u32>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Milliseconds that a part of them took at most.
    fn at(&self, part: f64) -> f64 {
        let last = self.0.len() - 1;
        f64::from(self.0[(last as f64 * part) as usize]) / 1000.0
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p99) = (self.at(0.5), self.at(0.99));
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms of {}", self.0.len())
    }
}

fn argument(name: &str) -> Option<u32> {
    let text = std::env::args().skip_while(|it| it != name).nth(1);
    text.map(|text| text.parse().unwrap())
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

/// Ends all watchers.
static STOP: tokio::sync::Notify = tokio::sync::Notify::const_new();
/// Without watchers, and with them.
const ROUNDS: u32 = 3;
/// Of a second, in each of which a part of the changes is sent.
const TURNS: u32 = 250;
/// That change in turn.
const HOSTS: u32 = 10_000;
const FIRST_VNI: u32 = 10_000;
/// For all watchers to be there.
const PATIENCE: Duration = Duration::from_secs(60);
