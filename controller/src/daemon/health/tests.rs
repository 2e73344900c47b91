//! The verdict as every surface shows it, in virtual time: the threads of this replica do not run.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tonic::service::Routes;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health as _;
use tonic_health::server::{HealthReporter, HealthService};
use tower::ServiceExt;
use weft_proto::v1::ListReplicasRequest;
use weft_proto::v1::replica_service_server::ReplicaService;

use super::*;
use crate::config::Config;
use crate::consensus::Command;
use crate::consensus::tests::hung;
use crate::daemon::follow_health;
use crate::daemon::switches::led::Led;
use crate::fabric::topology::tests::leaf_spine;
use crate::operator::metrics::{self, Counted, Sources};
use crate::operator::replicas;
use crate::operator::services::with_json;
use crate::reflector::thread;
use crate::speaker::Shared;

/// Surfaces from which a client learns the state of a replica.
struct Surfaces {
    shared: Arc<Shared>,
    api: Router,
    metrics: Router,
    grpc: HealthService,
}

impl Surfaces {
    fn of(consensus: Consensus, reflection: Reflection) -> Self {
        let config = Config::parse("[bgp]\nasn = 64496\n", "weftd.toml".as_ref()).unwrap();
        let api = config.api.clone();
        let shared = Shared::new(config, "weft".to_owned(), consensus, reflection);
        let shared = Arc::new(shared);
        let health = shared.health.clone();
        let api = with_json(Routes::default(), &Counted::new(), &api, health.clone());
        let reporter = HealthReporter::new();
        let consensus = shared.consensus.clone();
        tokio::spawn(follow_health(health, consensus, reporter.clone()));
        let sources = Sources {
            shared: Arc::clone(&shared),
            led: Led::new(),
            counted: Counted::new(),
        };
        Self {
            shared,
            api: api.into_axum_router(),
            metrics: metrics::router(sources),
            grpc: HealthService::from_health_reporter(reporter),
        }
    }

    /// Returns the answers to the probes of both ports: the API's /readyz, and the other port's /healthz and /readyz.
    async fn ready(&self) -> [(u16, String); 3] {
        [
            get(&self.api, "/readyz").await,
            get(&self.metrics, "/healthz").await,
            get(&self.metrics, "/readyz").await,
        ]
    }

    async fn live(&self) -> [(u16, String); 2] {
        [
            get(&self.api, "/livez").await,
            get(&self.metrics, "/livez").await,
        ]
    }

    /// Returns the state of a service that needs the other replicas, and that of the whole process.
    async fn serving(&self) -> [ServingStatus; 2] {
        let mut states = [ServingStatus::Unknown; 2];
        for (service, state) in ["weft.v1.FabricService", ""].iter().zip(&mut states) {
            let service = (*service).to_owned();
            let asked = tonic::Request::new(HealthCheckRequest { service });
            *state = self.grpc.check(asked).await.unwrap().get_ref().status();
        }
        states
    }

    async fn degraded_reason(&self) -> Option<String> {
        let addresses = Arc::new([(1, String::new())].into());
        let service = replicas::Service::alone(Arc::clone(&self.shared), addresses);
        let asked = tonic::Request::new(ListReplicasRequest::default());
        let answer = service.list_replicas(asked).await.unwrap().into_inner();
        answer.replicas[0].degraded_reason.clone()
    }
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    let request = Request::get(path).header(header::HOST, "localhost");
    let request = request.body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn is(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn a_pulse_counts_from_the_first_question_that_no_beat_answers() {
    let began = Instant::now();
    let pulse = Pulse::new("consensus", began);
    let at = |millis| began + Duration::from_millis(millis);
    let silence = |millis| pulse.silence(at(millis)).as_millis();
    assert_eq!(silence(9_000), 0, "nobody asked");
    assert!(pulse.ask(began));
    assert!(!pulse.ask(at(500)), "a question waits");
    assert_eq!(silence(3_000), 3_000);
    pulse.beat();
    assert_eq!(silence(3_000), 0);
    assert!(pulse.ask(at(3_500)));
    assert_eq!(silence(4_000), 500);
    assert_eq!(silence(0), 0, "a clock of another thread is behind");
}

#[test]
fn a_verdict_has_one_text() {
    let silent = |secs| Verdict::Silent("consensus", Duration::from_secs(secs));
    let degraded = Verdict::Degraded("the log has a hole".to_owned());
    let hangs = "consensus thread does not respond for 6 s";
    for (verdict, ready, live, fault) in [
        (Verdict::Ready, "ok\n", "ok\n", None),
        (
            Verdict::NoLeader,
            "not ready: no leader: this replica knows of no majority\n",
            "ok\n",
            None,
        ),
        (
            degraded,
            "not ready: the log has a hole\n",
            "ok\n",
            Some("the log has a hole"),
        ),
        (
            silent(6),
            "not ready: consensus thread does not respond for 6 s\n",
            "ok\n",
            Some(hangs),
        ),
        (
            silent(60),
            "not ready: consensus thread does not respond for 60 s\n",
            "not live: consensus thread does not respond for 60 s\n",
            Some("consensus thread does not respond for 60 s"),
        ),
    ] {
        assert_eq!(verdict.readyz(), (ready == "ok\n", ready.to_owned()));
        assert_eq!(verdict.livez(), (live == "ok\n", live.to_owned()));
        assert_eq!(verdict.own_fault().as_deref(), fault);
    }
}

#[tokio::test(start_paused = true)]
async fn a_consensus_thread_that_hangs_is_named_by_every_surface_within_5_s() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge) = hung(&dir);
    let (reflection, _inbox) = thread::channel();
    let surfaces = Surfaces::of(consensus, reflection);
    assert_eq!(surfaces.ready().await, [(); 3].map(|()| is(200, "ok\n")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    let text = "not ready: consensus thread does not respond for 5 s\n";
    assert_eq!(surfaces.ready().await, [(); 3].map(|()| is(503, text)));
    assert_eq!(surfaces.live().await, [(); 2].map(|()| is(200, "ok\n")));
    let states = surfaces.serving().await;
    assert_eq!(states, [ServingStatus::NotServing, ServingStatus::Serving]);
    let reason = surfaces.degraded_reason().await;
    let expected = "consensus thread does not respond for 5 s";
    assert_eq!(reason.as_deref(), Some(expected));
    // The reflector thread hangs too, so that the page has no tables.
    let (status, page) = get(&surfaces.metrics, "/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "\nweft_ready 0\n",
        "\nweft_thread_silence_seconds{thread=\"consensus\"} 8",
        "\nweft_thread_silence_seconds{thread=\"balancer\"} 8",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_that_is_off_is_named_and_the_replica_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge) = hung(&dir);
    let (reflection, _inbox) = thread::channel();
    let surfaces = Surfaces::of(consensus, reflection);
    let breaker = surfaces.shared.health.breaker();
    assert_eq!(surfaces.degraded_reason().await, None);
    let declared = leaf_spine(2, 2);
    for _ in 0..2 {
        let planned = breaker.run(&declared, || panic!("no plan"));
        assert_eq!(planned, None::<()>);
    }
    assert_eq!(surfaces.ready().await, [(); 3].map(|()| is(200, "ok\n")));
    let reason = surfaces.degraded_reason().await.unwrap();
    assert!(reason.starts_with("the balancer is off: "), "{reason}");
    let (_, page) = get(&surfaces.metrics, "/metrics").await;
    for line in [
        "\nweft_balancer_off 1\n",
        "\nweft_balancer_panics_total 2\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_refuses_routes_for_all_peers_says_so_and_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge) = hung(&dir);
    let (reflection, _inbox) = thread::channel();
    let surfaces = Surfaces::of(consensus, reflection);
    surfaces.shared.held.fill();
    assert_eq!(surfaces.ready().await, [(); 3].map(|()| is(200, "ok\n")));
    let reason = surfaces.degraded_reason().await.unwrap();
    let expected =
        "new routes are refused: peers hold 4096 MiB, and bgp.route_octets_total is 4096 MiB";
    assert_eq!(reason, expected);
    let (_, page) = get(&surfaces.metrics, "/metrics").await;
    for line in [
        "\nweft_bgp_route_octets 4294967296\n",
        "\nweft_bgp_route_octets_limit 4294967296\n",
        "\nweft_bgp_routes_full 1\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_hangs_for_a_minute_is_not_live_until_it_responds() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge) = hung(&dir);
    let (reflection, _inbox) = thread::channel();
    let surfaces = Surfaces::of(consensus, reflection);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let text = "not live: consensus thread does not respond for 61 s\n";
    assert_eq!(surfaces.live().await, [(); 2].map(|()| is(503, text)));
    let states = surfaces.serving().await;
    assert_eq!(states, [ServingStatus::NotServing; 2]);
    surfaces.shared.consensus.pulse().beat();
    surfaces.shared.reflection.pulse().beat();
    assert_eq!(surfaces.ready().await, [(); 3].map(|()| is(200, "ok\n")));
    assert_eq!(surfaces.live().await, [(); 2].map(|()| is(200, "ok\n")));
    tokio::time::sleep(ASK_EVERY * 2).await;
    assert_eq!(surfaces.serving().await, [ServingStatus::Serving; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_thread_without_work_is_woken_and_one_that_hangs_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _edge) = hung(&dir);
    let (reflection, _inbox) = thread::channel();
    let room = reflection.inputs().capacity();
    let health = Health::new(&consensus, &reflection, Instant::now());
    let now = Instant::now();
    health.ask(now);
    health.ask(now + ASK_EVERY);
    assert_eq!(
        reflection.inputs().capacity(),
        room - 1,
        "one input wakes it"
    );
    consensus.pulse().beat();
    assert_eq!(health.verdict(now + Duration::from_secs(9)), Verdict::Ready);
    let silence = Duration::from_secs(10);
    let verdict = health.verdict(now + silence);
    assert_eq!(verdict, Verdict::Silent("reflector", silence));
    reflection.pulse().beat();
    assert_eq!(health.verdict(now + silence), Verdict::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_reflector_thread_hangs_hands_its_leadership_over() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, (mut inbox, _edge)) = hung(&dir);
    let (reflection, _inputs) = thread::channel();
    let surfaces = Surfaces::of(consensus, reflection);
    let transfers = |inbox: &mut mpsc::Receiver<Command>| {
        let commands = std::iter::from_fn(|| inbox.try_recv().ok());
        commands
            .map(|command| assert!(matches!(command, Command::TransferLeadership)))
            .count()
    };
    tokio::time::sleep(Duration::from_millis(1900)).await;
    assert_eq!(transfers(&mut inbox), 0, "a large snapshot takes a second");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(transfers(&mut inbox), 1);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(transfers(&mut inbox), 0, "two that hang do not take turns");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(transfers(&mut inbox), 1);
    surfaces.shared.reflection.pulse().beat();
}
