//! Puts the rooms together, starts their threads and tasks, and takes leave of everybody on SIGTERM.
//!
//! ```text
//! consensus thread (1x) --applied--> reflector thread (1x) --segments--> feeds --> writers (1x per connection)
//!        ^                                  |
//!        +---- proposals -- peers (1x per peer), leadership (1x), operators' calls
//!
//! switches (1x) --inputs--> balancer thread (1x) --plans--> switches --intents--> southbound
//! ```

mod breaker;
pub(crate) mod files;
pub(crate) mod freezer;
pub mod health;
pub mod leadership;
mod no_llgr;
mod orphans;
pub(crate) mod resolver;
mod solver;
pub(crate) mod supervision;
pub mod switches;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use weft_proto::consensus::v1::consensus_server::ConsensusServer;
use weft_store::{OpenError, Outcome, Replica};

use crate::config::{Api, Config, Remote};
use crate::consensus::{self, Command, Consensus, transport};
use crate::door::bounds::{API, RAFT, WINDOW};
use crate::door::members::Members;
use crate::door::refusals::Refusals;
use crate::door::{self, Door};
use crate::ledger;
use crate::monitoring;
use crate::operator::calls::Calls;
use crate::operator::services::{
    AGREEING, ALONE, at_leader, fabric, fabric_at_leader, replicas_at_leader, services,
    simulations_at_leader, with_json,
};
use crate::operator::{fabric, metrics};
use crate::reflector::thread::{self, Reflection};
use crate::reflector::{Reflector, owner};
use crate::speaker::reload::{self, Reloader};
use crate::speaker::{Shared, Speaker, socket};
use health::{ASK_EVERY, Health, Verdict};
use supervision::Tasks;
use switches::led::Led;

/// Why the daemon did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The store refuses its directory.
    #[error("replica.data_dir: {0}")]
    Store(Box<OpenError>),
    /// The directory is of another format.
    #[error(
        "replica.data_dir: {0}: start the weftd that wrote it, `weft backup save FILE`, stop all replicas, empty data_dir of each, \
         start them with this weftd, and `weft backup restore FILE`"
    )]
    Format(Box<OpenError>),
    /// The reflector ended, and with it the daemon.
    #[error("committed facts: {0}")]
    Reflector(#[from] thread::Failure),
    /// A listener cannot be opened.
    #[error("{field}: {address}: {source}")]
    Listen {
        /// Field of the configuration.
        field: &'static str,
        /// The address in it.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system gives no runtime.
    #[error("runtime: {0}")]
    Runtime(std::io::Error),
}

/// Runs until SIGTERM or SIGINT. `file` is where `config` comes from, to be read again on SIGHUP.
///
/// # Errors
/// Why it did not start, or had to stop: a committed fact is not understood.
pub fn run(config: Config, file: Option<PathBuf>) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)?;
    // Heartbeats of Raft wait for no other task: a leader that has much to do stays the leader.
    let raft = tokio::runtime::Builder::new_multi_thread()
        .thread_name("raft")
        .worker_threads(RAFT_THREADS)
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)?;
    let served = runtime.block_on(serve(config, file, raft.handle()));
    // Tasks of both hold the database. RocksDB must be closed before the process ends: its statics go then. Neither a look-up of a
    // name nor a file that hangs keeps a daemon from its end.
    raft.shutdown_timeout(JOIN_TIMEOUT);
    runtime.shutdown_timeout(JOIN_TIMEOUT);
    served
}

/// What the system tells a daemon: to read its file again, and to end. Taken before anything that takes time: until then a signal ends the process,
/// from then on it waits until somebody asks for it.
fn signals() -> Result<(Signal, impl Future<Output = ()>), DaemonError> {
    let take = |kind| signal(kind).map_err(DaemonError::Runtime);
    let hangup = take(SignalKind::hangup())?;
    let terminate = take(SignalKind::terminate())?;
    let interrupt = take(SignalKind::interrupt())?;
    Ok((hangup, terminated(terminate, interrupt)))
}

struct Listeners {
    bgp: Vec<TcpListener>,
    api: TcpListener,
    raft: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

impl Listeners {
    /// All of them before anything else: a daemon that cannot be reached must not join the group.
    fn open(config: &Config) -> Result<Self, DaemonError> {
        let named = |field, address| {
            move |source| DaemonError::Listen {
                field,
                address,
                source,
            }
        };
        let open = |field, address| socket::listen(address).map_err(named(field, address));
        let raft = |address: SocketAddr| {
            let field = match config.replica.listen {
                Some(_) => "replica.listen",
                None => {
                    if address.ip().is_unspecified() {
                        tracing::warn!(
                            %address,
                            "Raft listens at all addresses of this host, without encryption or a password: whoever has the address of a \
                             replica may change everything; set replica.listen"
                        );
                    }
                    "replicas.address"
                }
            };
            socket::listen_both(address).map_err(named(field, address))
        };
        let bgp = config
            .bgp
            .listen
            .iter()
            .map(|address| open("bgp.listen", *address));
        Ok(Self {
            bgp: bgp.collect::<Result<_, _>>()?,
            api: open("api.listen", config.api.listen)?,
            raft: config.raft_listen().map(raft).transpose()?,
            metrics: config
                .metrics
                .map(|address| open("metrics.listen", address))
                .transpose()?,
        })
    }
}

async fn serve(config: Config, file: Option<PathBuf>, raft: &Handle) -> Result<(), DaemonError> {
    let (hangup, terminated) = signals()?;
    let listeners = Listeners::open(&config)?;
    let replica = open(&config)?;
    let (queues, routes) = transport::queues(others(&config), &transport::Sources::of(&config));
    let (reflection, inbox) = thread::channel();
    let counted = metrics::Counted::new();
    let view = replica.view();
    let had_peers = view.scan(ledger::OWNERS).next().is_some();
    let (consensus, consensus_thread) =
        consensus::start(replica, reflection.entries(), queues, counted.clone());
    let (reflector_thread, failed) = thread::start(reflector(&config), view, inbox);
    let ended = ending(terminated, failed).boxed().shared();
    let shared = shared(&config, consensus.clone(), reflection.clone(), had_peers);
    let (reloader, reloads) = Reloader::new(Arc::clone(&shared), file);
    let reloader = Arc::new(reloader);
    let led = Led::new();
    let (stop, stopped) = watch::channel(false);
    let mut tasks = Tasks::default();
    dial(config.replica.id, routes, &consensus, raft, &mut tasks);
    let fabric = fabric(&shared, &led);
    serve_api(
        services(&shared, &led, &reloader, Arc::clone(&fabric)),
        &stopped,
        listeners.api,
        &shared,
        &counted,
        &mut tasks,
    );
    serve_raft(
        &config,
        &stopped,
        (listeners.raft, raft, counted.refusals.clone()),
        &shared,
        &led,
        &fabric,
        &mut tasks,
    );
    serve_metrics(
        &stopped,
        listeners.metrics,
        &shared,
        &led,
        counted,
        &mut tasks,
    );
    tasks.spawn("reload", reload::at_hangup(hangup, reloader));
    follow(&shared, led, &mut tasks);
    say_started(&config);
    // What this replica held before it died is over; others must not wait for it.
    tokio::select! {
        () = disown(&consensus, config.replica.id, START_PATIENCE) => {}
        _ = ended.clone() => {}
    }
    Speaker::new(Arc::clone(&shared))
        .serve(listeners.bgp, reloads, ended.clone().map(drop))
        .await;
    tracing::info!("peers are gone; stopping");
    disown(&consensus, config.replica.id, STOP_PATIENCE).await;
    let _ = stop.send(true);
    end(&consensus.commands(), Command::Stop).await;
    join(consensus_thread).await;
    end(&reflection.inputs(), thread::Input::Stop).await;
    join(reflector_thread).await;
    tasks.shutdown().await;
    ended.await.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Raft ids and addresses of the other replicas.
fn others(config: &Config) -> impl Iterator<Item = (u64, Remote)> {
    let others = config
        .replicas
        .iter()
        .filter(|member| member.id != config.replica.id);
    others.filter_map(|member| Some((member.id, member.address.clone()?)))
}

/// Addresses of all replicas.
fn addresses(config: &Config) -> Vec<Remote> {
    let members = config.replicas.iter();
    members.filter_map(|it| it.address.clone()).collect()
}

/// Resolves when the daemon must stop: on a signal, or with the failure of the reflector.
async fn ending(
    terminated: impl Future<Output = ()>,
    failed: oneshot::Receiver<thread::Failure>,
) -> Option<thread::Failure> {
    tokio::select! {
        () = terminated => None,
        Ok(failure) = failed => Some(failure),
    }
}

fn say_started(config: &Config) {
    tracing::info!(
        replica = config.replica.id,
        replicas = config.replicas.len(),
        asn = config.bgp.local.asn,
        "weftd started"
    );
}

/// One without facts. Moves of MAC addresses are counted as this replica sees them: what is reflected follows
/// from the facts, and when they came is none. The leader makes one of an address that is to be frozen.
fn reflector(config: &Config) -> Reflector {
    let mut reflector = Reflector::new(config.bgp.local);
    reflector.watch_moves(config.bgp.moves.settings());
    reflector
}

/// What the tasks of all peers share.
fn shared(
    config: &Config,
    consensus: Consensus,
    reflection: Reflection,
    had_peers: bool,
) -> Arc<Shared> {
    let shared = Shared::new(config.clone(), hostname(), consensus, reflection);
    Arc::new(match had_peers {
        true => shared.restarted(Instant::now()),
        false => shared,
    })
}

fn open(config: &Config) -> Result<Replica, DaemonError> {
    let voters = config.replicas.iter().map(|member| member.id).collect();
    let since_1970 = since_1970();
    let mut store = weft_store::Config::new(
        config.replica.id,
        voters,
        config.replica.data_dir.clone(),
        config.cluster(),
        seed(since_1970),
    );
    store.boot_min = since_1970.as_secs();
    store.accepts = ledger::knows;
    Replica::open(store).map_err(|source| match source {
        OpenError::OtherFormat { .. } => DaemonError::Format(Box::new(source)),
        OpenError::Config(_)
        | OpenError::OtherReplica { .. }
        | OpenError::OtherCluster { .. }
        | OpenError::OtherVoters { .. }
        | OpenError::NoIdentity { .. }
        | OpenError::Corrupt { .. }
        | OpenError::Exposed { .. }
        | OpenError::Io { .. }
        | OpenError::Database { .. }
        | OpenError::Raft { .. } => DaemonError::Store(Box::new(source)),
    })
}

fn serve_api(
    services: Routes,
    stopped: &watch::Receiver<bool>,
    api: TcpListener,
    shared: &Arc<Shared>,
    counted: &metrics::Counted,
    tasks: &mut Tasks,
) {
    let reflection = || {
        let described = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(weft_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        // What the port serves, and no contract of others that is compiled in.
        let served = AGREEING.iter().chain(&ALONE).chain(&[HEALTH]);
        served.fold(described, |it, name| it.with_service_name(*name))
    };
    let described = "the descriptors that the build wrote are valid";
    let (health, health_service) = tonic_health::server::health_reporter();
    let follow = follow_health(shared.health.clone(), shared.consensus.clone(), health);
    tasks.spawn("health", follow);
    let services = services
        .add_service(health_service)
        .add_service(reflection().build_v1().expect(described))
        .add_service(reflection().build_v1alpha().expect(described));
    let config = shared.config();
    warn_of_exposure(&config.api);
    let door = Door::new(API, counted.refusals.clone());
    let server = door::server()
        .accept_http1(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        // Until the answer begins: a request that does not end holds what it holds for no longer.
        .timeout(ANSWER_PATIENCE)
        .layer(Calls::new(door.clone()).with_octets())
        .add_routes(with_json(
            services,
            counted,
            &config.api,
            shared.health.clone(),
        ));
    let done = until(stopped.clone());
    tasks.spawn("API listener", async move {
        let served = server
            .serve_with_incoming_shutdown(door.connections(api), done)
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the API listener failed");
        }
    });
}

/// Warns at the start if the API listens beyond this machine: either everybody may change everything, or everybody is refused.
fn warn_of_exposure(api: &Api) {
    let address = api.listen;
    if api.is_exposed() {
        tracing::warn!(
            %address,
            "api.insecure = true: whoever reaches this address may change everything, without encryption or a password"
        );
    } else if !api.listens_on_loopback() {
        tracing::warn!(
            %address,
            "api.insecure = false: calls from other machines are refused; set it to true, or api.listen to 127.0.0.1"
        );
    }
}

/// Asks the threads for signs of life, and reports which services answer, as grpc.health.v1 has it: those that need the other
/// replicas while this one is ready; the others, and the whole process (""), while it is alive. A leader that leads in vain hands
/// its leadership over.
async fn follow_health(health: Health, consensus: Consensus, reporter: HealthReporter) {
    let mut group = health.group();
    let (mut reported, mut hung) = (None, false);
    let mut transferred: Option<Instant> = None;
    loop {
        let now = Instant::now();
        health.ask(now);
        let verdict = health.verdict(now);
        let states = (verdict.is_ready(), verdict.is_live());
        if reported != Some(states) {
            report_health(&reporter, states).await;
            reported = Some(states);
        }
        let may_transfer = transferred.is_none_or(|last| now - last >= TRANSFER_EVERY);
        if may_transfer && health.leads_in_vain(now) {
            tracing::warn!("the reflector thread hangs; another replica is to lead");
            consensus.transfer_leadership();
            transferred = Some(now);
        }
        let hangs = matches!(verdict, Verdict::Silent(..));
        if hangs && !hung {
            tracing::error!(%verdict, "a thread hangs; use the other replicas");
        } else if hung && !hangs {
            tracing::info!(%verdict, "all threads respond again");
        }
        hung = hangs;
        tokio::select! {
            () = tokio::time::sleep(ASK_EVERY) => {}
            changed = group.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

async fn report_health(reporter: &HealthReporter, (is_ready, is_live): (bool, bool)) {
    let status = |serves| {
        if serves {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    };
    for service in AGREEING {
        let status = status(is_ready);
        reporter.set_service_status(service, status).await;
    }
    for service in ALONE.into_iter().chain([""]) {
        let status = status(is_live);
        reporter.set_service_status(service, status).await;
    }
}

fn dial(
    own: u64,
    routes: Vec<transport::Route>,
    consensus: &Consensus,
    raft: &Handle,
    tasks: &mut Tasks,
) {
    for route in routes {
        let dialer = transport::dial(own, route, consensus.commands());
        tasks.spawn_on("raft dialer", raft, dialer);
    }
}

fn serve_metrics(
    stopped: &watch::Receiver<bool>,
    listener: Option<TcpListener>,
    shared: &Arc<Shared>,
    led: &Led,
    counted: metrics::Counted,
    tasks: &mut Tasks,
) {
    let sources = metrics::Sources {
        shared: Arc::clone(shared),
        led: led.clone(),
        counted,
    };
    if let Some(listener) = listener {
        tasks.spawn(
            "metrics",
            metrics::serve(listener, sources, until(stopped.clone())),
        );
    }
}

fn serve_raft(
    config: &Config,
    stopped: &watch::Receiver<bool>,
    (listener, raft, refusals): (Option<TcpListener>, &Handle, Refusals),
    shared: &Arc<Shared>,
    led: &Led,
    fabric: &fabric::Service,
    tasks: &mut Tasks,
) {
    let Some(listener) = listener else {
        return;
    };
    let members = shared.members.clone();
    let inbound = transport::Inbound::new(config.replica.id, members, shared.consensus.commands());
    let (addresses, follow) = Members::of(addresses(config));
    tasks.spawn_on("addresses of replicas", raft, follow);
    let door = Door::new(RAFT, refusals).only(addresses);
    let server = door::server()
        .initial_stream_window_size(RAFT_WINDOW)
        .initial_connection_window_size(RAFT_WINDOW)
        // Messages of Raft are bounded where they are read, and must not wait for calls.
        .layer(Calls::new(door.clone()))
        .add_service(ConsensusServer::new(inbound))
        .add_service(at_leader(shared, led))
        .add_service(fabric_at_leader(shared, fabric))
        .add_service(simulations_at_leader(shared, led))
        .add_service(replicas_at_leader(shared));
    let done = until(stopped.clone());
    let served = async move {
        // The runtime that serves it is the one that hears of its connections.
        let listener = TcpListener::from_std(listener.into_std()?)?;
        let incoming = door.connections(listener);
        let served = server.serve_with_incoming_shutdown(incoming, done).await;
        served.map_err(std::io::Error::other)
    };
    tasks.spawn_on("Raft listener", raft, async move {
        if let Err(error) = served.await {
            tracing::error!(%error, "the Raft listener failed");
        }
    });
}

/// Says that `replica` holds no session, as long as it makes sense to wait for a majority.
async fn disown(consensus: &Consensus, replica: u64, patience: Duration) {
    let said = async {
        while !matches!(
            consensus.propose(owner::disown(replica)).await,
            Outcome::Applied { .. }
        ) {
            tokio::time::sleep(RETRY).await;
        }
    };
    if tokio::time::timeout(patience, said).await.is_err() {
        tracing::warn!(
            replica,
            "no majority of replicas; the others will notice by themselves"
        );
    }
}

/// What goes on beside peers and calls.
fn follow(shared: &Arc<Shared>, led: Led, tasks: &mut Tasks) {
    tasks.spawn("monitoring", monitoring::serve(Arc::clone(shared)));
    tasks.spawn("leadership", leadership::lead(Arc::clone(shared)));
    tasks.spawn("switches", switches::program(Arc::clone(shared), led));
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

async fn terminated(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Lets a thread stop in order. One that hangs takes nothing any more, and one that has ended needs nothing.
async fn end<T>(thread: &mpsc::Sender<T>, stop: T) {
    let sent = tokio::time::timeout(STOP_PATIENCE, thread.send(stop)).await;
    if sent.is_err() {
        tracing::error!("a thread that hangs was not stopped");
    }
}

async fn join(thread: std::thread::JoinHandle<()>) {
    let joined = tokio::task::spawn_blocking(move || thread.join());
    match tokio::time::timeout(JOIN_TIMEOUT, joined).await {
        Ok(Ok(Ok(()))) => {}
        _ => tracing::error!("a thread did not stop in order"),
    }
}

#[expect(clippy::disallowed_methods, reason = "read once at start")]
fn since_1970() -> Duration {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Election timeouts of replicas that start together must differ.
fn seed(now: Duration) -> u64 {
    u64::from(now.subsec_nanos()) ^ (u64::from(std::process::id()) << 32)
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "weft".to_owned(), |name| name.trim().to_owned())
}

/// Peers can wait this long for a majority at start; after it they are served with what there is.
const START_PATIENCE: Duration = Duration::from_secs(5);
const STOP_PATIENCE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(100);
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Leadership goes round slowly where every replica reads a large snapshot.
const TRANSFER_EVERY: Duration = Duration::from_secs(10);
/// The service of grpc.health.v1.
const HEALTH: &str = "grpc.health.v1.Health";
/// The longest of JSON, a whole fabric: 30 s for its body, and a minute without a majority.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
const RAFT_WINDOW: u32 = 4 << 20;
/// One is free for Raft while another answers what other replicas ask of the leader.
const RAFT_THREADS: usize = 2;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Signals that this process does not leave to the system, as bits.
    fn caught() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(caught.unwrap().trim(), 16).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_hangs_does_not_keep_the_daemon_from_its_end() {
        let (thread, mut inbox) = mpsc::channel(1);
        end(&thread, "stop").await;
        let before = Instant::now();
        end(&thread, "stop").await;
        assert!(before.elapsed() >= STOP_PATIENCE);
        assert_eq!(inbox.recv().await, Some("stop"));
        drop(inbox);
        end(&thread, "stop").await;
    }

    #[test]
    fn signals_are_taken_before_anything_that_takes_time() {
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = taken.local_addr().unwrap();
        let text = format!("[bgp]\nlisten = [\"{address}\"]\n");
        let config = Config::parse(&text, Path::new("weft.toml")).unwrap();
        // It does not come as far as to open its data: that may take a minute.
        assert!(matches!(run(config, None), Err(DaemonError::Listen { .. })));
        let [hangup, interrupt, terminate] = [1, 2, 15].map(|signal| 1 << (signal - 1));
        assert_eq!(
            !caught() & (hangup | interrupt | terminate),
            0,
            "a reload or a stop during the start has to wait"
        );
    }
}
