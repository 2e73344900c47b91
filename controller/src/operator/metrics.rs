//! The metrics page, in the text format of Prometheus. Most of it is read off the running daemon when
//! it is asked for; only what happens between two looks is counted where it happens.

mod advertising;
mod classic;
mod collectors;
mod health;
mod links;
mod sessions;
mod switches;

use std::cmp::Ordering;
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tonic::service::Routes;

use super::calls::Calls;
use super::preference::Weight;
pub use super::requests::Requests;
use crate::daemon::health::Verdict;
use crate::daemon::switches::led::Led;
use crate::door::bounds::{METRICS, WINDOW};
use crate::door::refusals::Refusals;
use crate::door::{self, Door};
use crate::fabric::topology::{Role, Switch, Topology};
use crate::ledger::Phase;
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// What is counted where it happens.
#[derive(Clone)]
pub struct Counted {
    /// From a proposal to its outcome.
    pub proposal_duration: Histogram,
    /// Of a turn of Raft that wrote to the disk and waited until it was durable.
    pub sync_duration: Histogram,
    /// Proposals whose outcome is not known yet.
    pub proposals_pending: Gauge,
    /// Changes of the known leader.
    pub leader_changes: Counter,
    /// Calls of the API.
    pub requests: Requests,
    /// Connections and calls that doors refused.
    pub refusals: Refusals,
}

impl Counted {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self {
            // 0.25 ms to 8 s.
            proposal_duration: Histogram::new(exponential_buckets(0.000_25, 2.0, 16)),
            sync_duration: Histogram::new(exponential_buckets(0.000_25, 2.0, 16)),
            proposals_pending: Gauge::default(),
            leader_changes: Counter::default(),
            requests: Requests::default(),
            refusals: Refusals::default(),
        }
    }

    /// Counts one proposal.
    pub fn proposed(&self, took: Duration) {
        self.proposal_duration.observe(took.as_secs_f64());
    }
}

impl Default for Counted {
    fn default() -> Self {
        Self::new()
    }
}

/// What the page is made of.
#[derive(Clone)]
pub struct Sources {
    /// Peers, facts and tables.
    pub shared: Arc<Shared>,
    /// Plan and switches.
    pub led: Led,
    /// What is counted.
    pub counted: Counted,
}

impl Sources {
    fn verdict(&self) -> Verdict {
        self.shared.health.verdict(Instant::now())
    }
}

/// Serves `/metrics`, `/healthz`, `/livez` and `/readyz` until the daemon stops.
pub async fn serve(
    listener: TcpListener,
    sources: Sources,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let door = Door::new(METRICS, sources.counted.refusals.clone());
    let served = door::server()
        .accept_http1(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .timeout(ANSWER_PATIENCE)
        .layer(Calls::new(door.clone()))
        .add_routes(Routes::from(router(sources)))
        .serve_with_incoming_shutdown(door.connections(listener), stop);
    if let Err(error) = served.await {
        tracing::error!(%error, "the metrics listener failed");
    }
}

/// Paths of the port. Each probe has the answer that the API's port gives.
pub(crate) fn router(sources: Sources) -> Router {
    Router::new()
        .route("/metrics", get(page))
        .route("/healthz", get(readyz).options(readyz))
        .route("/readyz", get(readyz).options(readyz))
        .route("/livez", get(livez).options(livez))
        .with_state(sources)
}

async fn readyz(State(sources): State<Sources>) -> Response {
    probe(sources.verdict().readyz())
}

async fn livez(State(sources): State<Sources>) -> Response {
    probe(sources.verdict().livez())
}

fn probe((is_well, reason): (bool, String)) -> Response {
    if is_well {
        reason.into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
    }
}

async fn page(State(sources): State<Sources>, headers: HeaderMap) -> Response {
    let topology = sources.led.topology();
    let look = move |reflector: &Reflector| Tables::of(reflector, topology.as_deref());
    let reflection = &sources.shared.reflection;
    let tables = timeout(TABLES_PATIENCE, async {
        let _place = reflection.place().await?;
        reflection.query(look).await
    });
    let tables = match tables.await {
        Ok(None) => return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
        Ok(tables) => tables,
        // The page of a replica whose reflector thread hangs is the one that somebody needs.
        Err(_) => None,
    };
    let mut registry = Registry::with_prefix("weft");
    let (reports, refusals) = (sources.shared.reports(), sources.shared.refusals());
    health::register(&mut registry, &sources.shared.health, Instant::now());
    sessions::register(&mut registry, &reports, &refusals);
    sessions::register_held(&mut registry, &sources.shared.held);
    advertising::register(&mut registry, sources.shared.reflection.latency());
    collectors::register(&mut registry, &sources.shared.taps.collectors());
    if let Some(tables) = &tables {
        evpn(&mut registry, tables);
    }
    raft(&mut registry, &sources);
    switches::register(&mut registry, &sources.led);
    links::register(&mut registry, &sources.led);
    sources.counted.requests.register(&mut registry);
    sources.counted.refusals.register(&mut registry);
    let dropped: Counter = Counter::default();
    dropped.inc_by(weft_log::dropped().lines);
    let help = "Lines of the log that were dropped, because standard error is not read, or not fast enough";
    registry.register("log_dropped_lines", help, dropped);
    let build = Family::<BuildLabel, Gauge>::default();
    build.get_or_create(&BuildLabel { version: VERSION }).set(1);
    registry.register("build_info", "1, with the version of weftd", build);
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let (kind, text) = match asks_for_open_metrics(&headers) {
        true => (OPEN_METRICS, text),
        false => (CLASSIC, classic::written(&text)),
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// Returns true if the client prefers OpenMetrics (RFC 9110 §12.5.1). At equal weights a client that names it gets it.
fn asks_for_open_metrics(headers: &HeaderMap) -> bool {
    let [open, classic] = ["application/openmetrics-text", "text/plain"]
        .map(|kind| Weight::of(kind, headers, &header::ACCEPT));
    let is_preferred = match open.thousandths.cmp(&classic.thousandths) {
        Ordering::Greater => true,
        Ordering::Equal => open.named,
        Ordering::Less => false,
    };
    open.is_taken() && is_preferred
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TypeLabel {
    r#type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabel {
    phase: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabel {
    version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SwitchLabel {
    switch: String,
}

struct Tables {
    evpn: std::collections::BTreeMap<u8, u64>,
    vteps: usize,
    /// Of every declared leaf: whether a peer announces its VTEP.
    leaves: Vec<(String, bool)>,
    /// By how stale their paths are.
    stale: [(Phase, usize); 2],
    moved: usize,
    followed: usize,
    frozen: usize,
    withheld: usize,
}

impl Tables {
    fn of(reflector: &Reflector, topology: Option<&Topology>) -> Self {
        let leaves = topology.into_iter().flat_map(Topology::switches);
        let leaves = leaves.filter(|switch| switch.role == Role::Leaf);
        let announced: HashSet<IpAddr> = reflector.vteps().vteps().collect();
        let leaf = |leaf: &Switch| {
            let announced = leaf.vtep.is_some_and(|vtep| announced.contains(&vtep));
            (leaf.name.to_string(), announced)
        };
        let stale = |phase: Phase| {
            let peers = reflector.peers().filter(|(_, agreed)| {
                let retention = agreed.owner.as_ref().and_then(|it| it.retention.as_ref());
                retention.is_some_and(|retention| retention.phase == phase)
            });
            (phase, peers.count())
        };
        let (moves, now) = reflector.moves();
        Self {
            stale: [stale(Phase::Graceful), stale(Phase::LongLived)],
            moved: moves.duplicates(now).count(),
            followed: moves.followed(),
            frozen: reflector.freezes().iter().count(),
            withheld: reflector.freezes().iter().map(|it| it.withheld).sum(),
            evpn: reflector.types().clone(),
            vteps: announced.len(),
            leaves: leaves.map(leaf).collect(),
        }
    }
}

fn evpn(registry: &mut Registry, tables: &Tables) {
    let routes = Family::<TypeLabel, Gauge<i64, AtomicI64>>::default();
    for (kind, count) in &tables.evpn {
        let labels = TypeLabel {
            r#type: kind.to_string(),
        };
        routes
            .get_or_create(&labels)
            .set(i64::try_from(*count).unwrap_or(i64::MAX));
    }
    let vteps: Gauge = Gauge::default();
    vteps.set(gauge(tables.vteps));
    registry.register("evpn_routes", "EVPN destinations by route type", routes);
    let help = "VTEPs of which there is a route of type 3";
    registry.register("evpn_vteps", help, vteps);
    let leaves = Family::<SwitchLabel, Gauge>::default();
    for (leaf, announced) in &tables.leaves {
        let switch = leaf.clone();
        leaves
            .get_or_create(&SwitchLabel { switch })
            .set(i64::from(*announced));
    }
    let help = "1 if a peer announces the VTEP of the switch, which is a declared leaf, in a route of type 3";
    registry.register("fabric_leaf_announced", help, leaves);
    let stale = Family::<PhaseLabel, Gauge>::default();
    for (phase, peers) in &tables.stale {
        let phase = phase.to_string();
        stale
            .get_or_create(&PhaseLabel { phase })
            .set(gauge(*peers));
    }
    registry.register(
        "bgp_stale_peers",
        "Peers whose paths are kept without a session, by how stale they are",
        stale,
    );
    let single = |value: usize| {
        let metric: Gauge = Gauge::default();
        metric.set(gauge(value));
        metric
    };
    let help = "MAC addresses that moved too often and have not recovered";
    registry.register("evpn_macs_moving", help, single(tables.moved));
    let help = "MAC addresses whose moves are followed";
    registry.register("evpn_macs_followed", help, single(tables.followed));
    let help = "MAC addresses that are frozen where they are";
    registry.register("evpn_macs_frozen", help, single(tables.frozen));
    let help = "Paths that are advertised to nobody because their MAC address is frozen elsewhere";
    registry.register("evpn_paths_withheld", help, single(tables.withheld));
}

fn raft(registry: &mut Registry, sources: &Sources) {
    let group = sources.shared.consensus.group().borrow().clone();
    let status = group.status;
    let mut single = |name: &str, help: &str, value: u64| {
        let metric: Gauge = Gauge::default();
        metric.set(i64::try_from(value).unwrap_or(i64::MAX));
        registry.register(name, help, metric);
    };
    single(
        "raft_has_leader",
        "1 if a leader is known",
        status.leader.is_some().into(),
    );
    single(
        "raft_is_leader",
        "1 if this replica leads",
        (status.leader == Some(status.id)).into(),
    );
    single("raft_term", "Raft term", status.term);
    single("raft_commit_index", "Last committed index", status.commit);
    single("raft_applied_index", "Last applied index", status.applied);
    single(
        "raft_degraded",
        "1 if this replica neither votes nor accepts entries",
        status.degraded.is_some().into(),
    );
    let counted = &sources.counted;
    registry.register(
        "raft_leader_changes",
        "Changes of the leader that this replica knows, to none and back included",
        counted.leader_changes.clone(),
    );
    registry.register(
        "raft_proposals_pending",
        "Proposals of this replica whose outcome is not known yet",
        counted.proposals_pending.clone(),
    );
    registry.register_with_unit(
        "raft_sync_duration",
        "Time to write to the disk and wait until that is durable (fsync)",
        Unit::Seconds,
        counted.sync_duration.clone(),
    );
    registry.register_with_unit(
        "raft_proposal_duration",
        "From a proposal of this replica to its outcome, waiting for room included",
        Unit::Seconds,
        counted.proposal_duration.clone(),
    );
}

fn gauge(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// OpenMetrics 1.0, which Prometheus asks for and `prometheus-client` writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A scrape of Prometheus takes 10 s at most by default.
const TABLES_PATIENCE: Duration = Duration::from_secs(3);
/// Until the page begins; a scraper has gone by then.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// What everybody else gets.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speaker::peer::tests::shared;

    #[test]
    fn a_client_gets_the_format_that_it_weighs_most() {
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, open) in [
            (prometheus_3, true),
            (
                "application/openmetrics-text; version=1.0.0, text/plain",
                true,
            ),
            ("APPLICATION/OpenMetrics-Text", true),
            ("text/plain;q=0, */*", true),
            (
                "application/openmetrics-text;q=0, text/plain;version=0.0.4",
                false,
            ),
            (
                "application/openmetrics-text;q=0.2, text/plain;q=0.3",
                false,
            ),
            ("application/openmetrics-text;q=0, */*;q=0.1", false),
            ("text/plain, application/openmetrics-text-2", false),
            ("*/*", false),
            ("text/html", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(asks_for_open_metrics(&headers), open, "{accept}");
        }
        assert!(!asks_for_open_metrics(&HeaderMap::new()));
    }
    /// Scrapers must not hold the reflector up longer than readers of lists and dumps do.
    #[tokio::test(start_paused = true)]
    async fn the_page_looks_at_tables_only_at_a_free_place() {
        // The reflector of this replica has stopped: who asks for a look learns that at once.
        let (shared, _store) = shared("[bgp]\nasn = 64496\n");
        let sources = Sources {
            shared: Arc::new(shared),
            led: Led::new(),
            counted: Counted::new(),
        };
        let reflection = sources.shared.reflection.clone();
        let page = async || {
            page(State(sources.clone()), HeaderMap::new())
                .await
                .status()
        };
        let (first, second) = (reflection.place().await, reflection.place().await);
        assert!(first.is_some() && second.is_some());
        let began = Instant::now();
        assert_eq!(page().await, StatusCode::OK, "the page without tables");
        assert!(began.elapsed() >= TABLES_PATIENCE);
        drop(first);
        assert_eq!(page().await, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            reflection.place().await.is_some(),
            "its place is free again"
        );
    }
}
