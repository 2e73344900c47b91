//! What a client misses, or hears twice, that follows the changes of a fabric while every leader is killed: three weftd of
//! this build, a client that makes changes one after the other and asks again until each is made, and one that watches.
//! `-- --kills N`: so many leaders, 100 unless said otherwise. It fails if anything is missed or heard twice.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up fails"
)]

#[expect(dead_code, reason = "nobody's memory is looked at here")]
mod replicas;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};
use weft_proto::v1::watch_service_client::WatchServiceClient;
use weft_proto::v1::{self as proto};

use replicas::{Client, Replica, channel, leader};

/// What the clients know of each other.
#[derive(Default)]
struct Story {
    /// Changes that were made.
    made: AtomicUsize,
    /// Changes that were heard.
    heard: AtomicUsize,
    /// The watcher has begun.
    follows: AtomicBool,
    /// No more leaders are killed.
    over: AtomicBool,
    /// No more changes are made.
    done: AtomicBool,
}

#[tokio::main]
async fn main() {
    let kills = kills();
    let dir = tempfile::tempdir().unwrap();
    let mut replicas = Replica::three(dir.path());
    let ports: Vec<u16> = replicas.iter().map(|replica| replica.api).collect();
    for replica in &mut replicas {
        replica.answers().await;
    }
    let story = Arc::new(Story::default());
    let watcher = tokio::spawn(watch(ports.clone(), Arc::clone(&story)));
    let writer = tokio::spawn(write(ports.clone(), Arc::clone(&story)));
    let mut without = Vec::new();
    for number in 1..=kills {
        let Some(leader) = leader(&ports).await else {
            panic!("nobody leads: {}", said(&mut replicas));
        };
        let place = usize::try_from(leader - 1).unwrap();
        replicas[place].kill();
        let killed = Instant::now();
        let before = story.heard.load(Ordering::Relaxed);
        while story.heard.load(Ordering::Relaxed) < before + 2 {
            // A client that gave up says why when it is waited for.
            if writer.is_finished() || watcher.is_finished() || killed.elapsed() > PATIENCE {
                story.over.store(true, Ordering::Relaxed);
                let made = timeout(PATIENCE, writer).await.unwrap().unwrap();
                let heard = timeout(PATIENCE, watcher).await;
                let made = made.len();
                let said = said(&mut replicas);
                panic!(
                    "leader {number} was killed, {made} changes were made, and no more heard: {heard:?}; {said}"
                );
            }
            sleep(Duration::from_millis(5)).await;
        }
        without.push(killed.elapsed());
        replicas[place].restart();
        replicas[place].answers().await;
        if number % 10 == 0 {
            say(&format!("{number} leaders killed"));
        }
    }
    story.over.store(true, Ordering::Relaxed);
    let made = timeout(PATIENCE, writer).await.unwrap().unwrap();
    let heard = timeout(PATIENCE, watcher).await.unwrap().unwrap();
    report(kills, &made, &heard, without);
}

/// What became of each replica.
fn said(replicas: &mut [Replica]) -> String {
    replicas.iter_mut().map(Replica::said).collect()
}

/// Says what was missed and what was heard twice, and fails if anything was.
fn report(kills: usize, made: &[String], heard: &Heard, mut without: Vec<Duration>) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &heard.names {
        *times.entry(name.as_str()).or_default() += 1;
    }
    let missed = made
        .iter()
        .filter(|name| !times.contains_key(name.as_str()));
    let (missed, twice) = (missed.count(), times.values().filter(|it| **it > 1).count());
    let ordered = heard.names == made;
    without.sort();
    let at = |part: f64| without[((without.len() - 1) as f64 * part) as usize].as_secs_f64();
    say(&format!(
        "{kills} leaders killed: {} changes made, {missed} missed, {twice} heard twice, {} in order; {} streams, {} snapshots",
        made.len(),
        if ordered { "all" } else { "not all" },
        heard.streams,
        heard.snapshots,
    ));
    say(&format!(
        "from the death of a leader to the next change that is heard: median {:.2} s, longest {:.2} s",
        at(0.5),
        at(1.0)
    ));
    assert!(
        missed == 0 && twice == 0 && ordered,
        "a client was not told what happened"
    );
}

/// Makes changes until the story is over: one host after the other, each asked for until it is made.
async fn write(ports: Vec<u16>, story: Arc<Story>) -> Vec<String> {
    let mut clients: Vec<Client> = ports
        .iter()
        .map(|port| Client::new(channel(*port)))
        .collect();
    let (mut made, mut at) = (Vec::new(), 0);
    while !story.follows.load(Ordering::Relaxed) {
        sleep(AGAIN).await;
    }
    // What is asked for is made before it ends.
    let mut asking = false;
    while asking || !story.over.load(Ordering::Relaxed) {
        asking = true;
        let number = made.len();
        let request = proto::CreateHostRequest {
            resource: Some(proto::Host {
                name: format!("h{number}"),
                ..proto::Host::default()
            }),
            request_id: format!("00000000-0000-4000-8000-{number:012x}"),
            ..proto::CreateHostRequest::default()
        };
        match timeout(CALL, clients[at].create_host(request.clone())).await {
            Ok(Ok(_)) => {
                made.push(format!("h{number}"));
                story.made.store(made.len(), Ordering::Relaxed);
                asking = false;
                sleep(BETWEEN).await;
            }
            Ok(Err(refused)) if refused.code() != Code::Unavailable && !lost(&refused) => {
                panic!("{refused}");
            }
            Ok(Err(_)) | Err(_) => {
                at = (at + 1) % clients.len();
                sleep(AGAIN).await;
            }
        }
    }
    story.done.store(true, Ordering::Relaxed);
    made
}

/// Whether a call ended with its connection, and nobody knows what became of it.
fn lost(refused: &Status) -> bool {
    matches!(
        refused.code(),
        Code::Unknown | Code::Cancelled | Code::DeadlineExceeded | Code::Internal | Code::Aborted
    )
}

/// What a watcher heard.
#[derive(Debug)]
struct Heard {
    names: Vec<String>,
    streams: usize,
    snapshots: usize,
}

/// Follows the changes until all of them were heard, at another replica after each end of a stream.
async fn watch(ports: Vec<u16>, story: Arc<Story>) -> Heard {
    let (mut heard, mut at, mut revision) = (
        Heard {
            names: Vec::new(),
            streams: 0,
            snapshots: 0,
        },
        0,
        None,
    );
    loop {
        let mut client = WatchServiceClient::new(channel(ports[at]));
        let request = proto::WatchRequest {
            after_revision: revision,
            // The last change may have been heard before it was known to be the last.
            progress_interval: Some(PROGRESS),
            ..proto::WatchRequest::default()
        };
        match timeout(CALL, client.watch(request)).await {
            Ok(Ok(answer)) => {
                heard.streams += 1;
                let mut stream = answer.into_inner();
                while let Ok(Ok(Some(answer))) = timeout(SILENCE, stream.message()).await {
                    heard.snapshots += usize::from(answer.snapshot);
                    heard
                        .names
                        .extend(answer.changes.into_iter().map(|it| it.name));
                    story.heard.store(heard.names.len(), Ordering::Relaxed);
                    revision = answer.header.map(|header| header.revision).or(revision);
                    story.follows.store(revision.is_some(), Ordering::Relaxed);
                    let done = story.done.load(Ordering::Relaxed);
                    if done && heard.names.len() >= story.made.load(Ordering::Relaxed) {
                        return heard;
                    }
                }
            }
            Ok(Err(refused)) if refused.code() == Code::OutOfRange => {
                say(&format!("port {}: {}", ports[at], refused.message()));
            }
            Ok(Err(_)) | Err(_) => {}
        }
        at = (at + 1) % ports.len();
        sleep(AGAIN).await;
    }
}

fn kills() -> usize {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--kills");
    let number = arguments.nth(1);
    number.map_or(KILLS, |number| number.parse().unwrap())
}

#[expect(clippy::disallowed_macros, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

const KILLS: usize = 100;
/// Between two changes.
const BETWEEN: Duration = Duration::from_millis(10);
/// Between two attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// For one call.
const CALL: Duration = Duration::from_secs(3);
const PROGRESS: prost_types::Duration = prost_types::Duration {
    seconds: 1,
    nanos: 0,
};
/// A stream that says nothing for so long has ended.
const SILENCE: Duration = Duration::from_secs(5);
/// For the last changes to be heard.
const PATIENCE: Duration = Duration::from_secs(60);
