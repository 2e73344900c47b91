//! Connections beside a session, before one and in the place of one: who gets a session, and what the others are told.

use std::net::SocketAddr;

use weft_bgp::capability::GracefulRestart;
use weft_bgp::peer::PeerId;

use super::*;
use crate::speaker::Speaker;
use crate::speaker::peer::newcomer::first_words;
use crate::speaker::refusal::Reason;

fn open_of(host: u32, restarts: bool) -> Open {
    let mut open = open();
    open.router_id = RouterId(0xc000_0200 + host);
    let restart = GracefulRestart {
        restart_secs: 90,
        families: vec![(Family::L2VPN_EVPN, true)],
        ..GracefulRestart::default()
    };
    let restart = restarts.then_some(Capability::GracefulRestart(restart));
    open.capabilities.extend(restart);
    open
}

fn cease(cease: Cease) -> Option<Notification> {
    Some(Notification::cease(cease))
}

impl Bench {
    fn refusals(&self) -> Vec<(&'static str, u64)> {
        self.peer.report.facts().refusals.totals().collect()
    }
}

/// RFC 4271 §6.8, RFC 4486.
#[tokio::test(start_paused = true)]
async fn a_second_speaker_at_one_address_is_told_why_it_is_refused() {
    for restarts in [false, true] {
        let mut bench = Bench::new().await;
        let _first = bench.session_of(open_of(1, restarts)).await.unwrap();
        bench.pass(Duration::from_secs(6)).await;
        let last = bench.last_words(open_of(2, restarts)).await;
        assert_eq!(last, cease(Cease::Collision), "restarts: {restarts}");
        assert!(bench.peer.up.is_some(), "the first one has its session");
        let expected = [(Reason::OtherIdentifier.label(), 1)];
        assert_eq!(bench.refusals(), expected);
        let error = bench.peer.report.facts().attempt_error;
        assert!(error.contains("192.0.2.2 AS 64496"), "{error}");
    }
}

/// RFC 4724 §5, and RFC 4271 §6.8 for a peer that does not keep its routes.
#[tokio::test(start_paused = true)]
async fn a_second_connection_of_one_speaker_takes_the_place_of_the_first_if_that_is_agreed() {
    for restarts in [false, true] {
        let mut bench = Bench::new().await;
        let _first = bench.session_of(open_of(1, restarts)).await.unwrap();
        bench.pass(Duration::from_secs(6)).await;
        let _second = bench.dialed_with(open_of(1, restarts));
        bench.pass(Duration::from_secs(1)).await;
        assert!(bench.peer.up.is_some());
        let sessions = bench.peer.report.facts().established;
        assert_eq!(sessions, 1 + u64::from(restarts));
        let refused = (!restarts).then_some((Reason::Collision.label(), 1));
        assert_eq!(bench.refusals(), Vec::from_iter(refused));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_beside_a_session_is_refused_in_time() {
    let mut bench = Bench::new().await;
    let _first = bench.session().await.unwrap();
    let silent = bench.dialed();
    // One at a time.
    let last = bench.last_words(open()).await;
    assert_eq!(last, cease(Cease::Collision));
    let last = bench.until(silent.hear_out()).await;
    assert_eq!(last, cease(Cease::Collision));
    assert!(bench.peer.up.is_some());
}

/// Its end was there before the new connection, and nobody had read it.
#[tokio::test(start_paused = true)]
async fn a_peer_that_is_back_at_once_is_not_refused_for_the_session_that_it_left() {
    let mut bench = Bench::new().await;
    let mut left = bench.session().await.unwrap();
    let end = Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)));
    left.say(&end).await;
    drop(left);
    let (ours, _back) = opened(open());
    bench.peer.incoming(ours).await;
    assert!(bench.peer.newcomer.is_some() && bench.peer.up.is_some());
    let words = first_words(&mut bench.peer.newcomer).await;
    bench.peer.met(words).await;
    bench.pass(Duration::from_secs(1)).await;
    assert!(bench.peer.up.is_some());
    assert_eq!(bench.refusals(), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_went_beyond_a_limit_ends_before_a_second_connection_is_judged() {
    let mut bench = Bench::new().await;
    let mut first = bench.session().await.unwrap();
    let end = Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)));
    first.say(&end).await;
    bench.peer.exceeded = Some("routes".to_owned());
    let (ours, _second) = opened(open());
    bench.peer.incoming(ours).await;
    let words = first_words(&mut bench.peer.newcomer).await;
    bench.peer.met(words).await;
    assert_eq!(bench.refusals(), [(Reason::Stopped.label(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_second_connection_beside_one_without_a_session_is_refused() {
    let mut bench = Bench::new().await;
    let _first = bench.dialed();
    assert_eq!(bench.last_words(open()).await, cease(Cease::Collision));
    let expected = [(Reason::Collision.label(), 1)];
    assert_eq!(bench.refusals(), expected);
}

/// RFC 4486 §4.
#[tokio::test(start_paused = true)]
async fn who_may_not_connect_is_told_so() {
    let shut = CONFIG.replace("source_address", "shutdown = true\n    source_address");
    let stranger = IpAddr::from([203, 0, 113, 1]);
    for (config, address) in [(CONFIG, stranger), (shut.as_str(), ADDRESS)] {
        let (shared, _store) = shared(config);
        let shared = Arc::new(shared);
        let mut speaker = Speaker::new(Arc::clone(&shared));
        let (ours, remote) = opened(open());
        speaker.hand_over(ours, SocketAddr::new(address, 179));
        assert_eq!(remote.hear_out().await, cease(Cease::Rejected));
        assert_eq!(shared.refusals().totals().count(), 1);
    }
}

/// RFC 6286 §2.1: it may be the same device, which has restarted at another address.
#[tokio::test(start_paused = true)]
async fn a_peer_with_the_identity_of_another_one_waits_until_that_has_gone_and_no_longer() {
    let mut bench = Bench::new().await;
    let rival = IpAddr::from([192, 0, 2, 2]);
    let peer = PeerId {
        router_id: open().router_id,
        asn: open().asn,
    };
    bench.shared.claim_identity(peer, rival).unwrap();
    assert_eq!(bench.last_words(open()).await, cease(Cease::Rejected));
    bench.pass(Duration::from_secs(5)).await;
    assert_eq!(bench.last_words(open()).await, cease(Cease::Rejected));
    let (reason, _) = bench.peer.report.facts().waits.unwrap();
    assert!(reason.starts_with("192.0.2.2 is "), "{reason}");
    bench.shared.release_identity(rival);
    bench.pass(Duration::from_millis(1)).await;
    assert_eq!(bench.peer.report.facts().waits, None);
    assert!(bench.session().await.is_some());
}
