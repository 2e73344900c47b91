//! What a peer of a listen range did is remembered beyond its session, for a while and as long as there is room.

use std::net::SocketAddr;

use weft_bgp::error::Fault;

use super::*;
use crate::speaker::refusal::Reason;
use crate::speaker::{Speaker, lock};

/// An UPDATE whose next hop has one octet: 3/9.
fn malformed() -> Vec<u8> {
    let attributes = [0x80, 0x0e, 6, 0, 25, 70, 1, 9, 0];
    let mut octets = vec![0xff; 16];
    octets.extend([0, 23 + 9, 2, 0, 0, 0, 9]);
    octets.extend(attributes);
    octets
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_exceeded_a_limit_serves_its_hold_down() {
    let mut bench = Bench::new().await;
    let remote = bench.session().await.unwrap();
    bench.peer.exceeded = Some("routes".to_owned());
    bench.peer.dismiss().await;
    let last = bench.until(remote.hear_out()).await;
    assert_eq!(last, Some(Notification::cease(Cease::MaxPrefixes)));
    for _ in 0..3 {
        bench.pass(Duration::from_secs(3)).await;
        assert!(!bench.peer.is_over());
        assert!(bench.session().await.is_none(), "it has to wait");
    }
    let facts = bench.peer.report.facts();
    let refused: Vec<_> = facts.refusals.totals().collect();
    assert_eq!(refused, [(Reason::Stopped.label(), 3)]);
    assert_eq!(facts.waits.unwrap().0, "limit of routes exceeded");
    bench.pass(Duration::from_secs(2)).await;
    assert!(bench.session().await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_operator_or_another_limit_ends_a_hold_down() {
    for is_reload in [false, true] {
        let mut bench = Bench::new().await;
        let _remote = bench.session().await.unwrap();
        bench.peer.exceeded = Some("routes".to_owned());
        bench.peer.dismiss().await;
        assert!(bench.peer.waits().is_some());
        if is_reload {
            bench.reload(&CONFIG.replace("restart_secs = 10", "restart_secs = 10, routes = 9"));
            bench.pass(Duration::from_millis(1)).await;
        } else {
            assert_eq!(bench.peer.obey(Command::Reset).await, Ok(()));
        }
        assert!(bench.peer.waits().is_none());
        assert!(bench.session().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_whose_session_failed_is_not_dialed_and_may_connect() {
    let mut bench = Bench::new().await;
    let mut remote = bench.session().await.unwrap();
    let last = bench.until(async move {
        remote.say_octets(&malformed()).await;
        remote.hear_out().await
    });
    let last = last.await.unwrap();
    assert_eq!((last.code, last.subcode), (3, 9));
    assert!(bench.session().await.is_some());
}

/// No time passes, as nobody waits for a socket.
#[tokio::test(start_paused = true)]
async fn a_peer_that_fails_again_and_again_is_refused_in_the_end() {
    let mut bench = Bench::new().await;
    let error = DecodeError {
        fault: Fault::Marker,
        offset: 0,
    };
    // The first one is not held.
    for taken in 1..=11 {
        bench.peer.incoming(pair().0).await;
        assert_eq!(bench.peer.session.state_name(), "OpenSent", "{taken}");
        let malformed = Input::Malformed(Side::Incoming, error, Bytes::new());
        bench.peer.input(malformed).await;
        let waits = bench.peer.report.facts().waits;
        assert!(waits.is_some_and(|(reason, _)| reason.starts_with("not dialed")));
    }
    let (ours, theirs) = pair();
    bench.peer.incoming(ours).await;
    let refused: Vec<_> = bench.peer.report.facts().refusals.totals().collect();
    assert_eq!(refused, [(Reason::TooOften.label(), 1)]);
    let remote = Remote(theirs, BytesMut::new());
    let last = bench.until(remote.hear_out()).await;
    assert_eq!(last, Some(Notification::cease(Cease::Rejected)));
    assert!(!bench.peer.is_over());
    // It is forgotten once it stays away.
    bench.pass(Duration::from_secs(60)).await;
    assert!(bench.peer.is_over());
}

#[tokio::test(start_paused = true)]
async fn whoever_connects_while_the_task_ends_is_heard_or_told_why_not() {
    let mut bench = Bench::new().await;
    bench.peer.report.failed("no route to host".to_owned());
    assert!(bench.peer.is_over());
    bench.peer.lingers_until = Some(now() + Duration::from_secs(60));
    bench.peer.report_lingering();
    assert!(bench.peer.report.lingering_since().is_some());
    let queued = bench.dialed();
    bench.peer.report_lingering();
    assert!(bench.peer.report.lingering_since().is_none());
    bench.peer.lingers_until = None;
    assert!(!bench.peer.is_over());
    bench.peer.close_door();
    let refused: Vec<_> = bench.peer.report.facts().refusals.totals().collect();
    assert_eq!(refused, [(Reason::Busy.label(), 1)]);
    let last = queued.hear_out().await;
    assert_eq!(last, Some(Notification::cease(Cease::Rejected)));
}

/// RFC 4724 §4.2: who keeps our routes meanwhile may wait to be dialed.
#[tokio::test(start_paused = true)]
async fn a_peer_that_was_lost_is_dialed_for_a_while() {
    let mut bench = Bench::new().await;
    assert!(bench.peer.session.config().passive, "it dials us");
    drop(bench.session().await.unwrap());
    bench.pass(Duration::from_secs(1)).await;
    let config = bench.peer.session.config();
    assert!(!config.passive && config.connect_retry == dialing::EVERY);
    let told = Duration::from_secs(120);
    bench.pass(told - Duration::from_secs(2)).await;
    assert!(!bench.peer.is_over());
    bench.pass(Duration::from_secs(2)).await;
    assert!(bench.peer.is_over());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_its_leave_is_not_dialed() {
    let mut bench = Bench::new().await;
    let mut remote = bench.session().await.unwrap();
    let goodbye = Message::Notification(Notification::cease(Cease::Shutdown));
    bench.until(async move { remote.say(&goodbye).await }).await;
    bench.pass(Duration::from_secs(1)).await;
    assert!(bench.peer.is_over());
}

#[tokio::test(start_paused = true)]
async fn who_is_only_remembered_makes_room_for_others() {
    let config = CONFIG.replace("asn =", "dynamic_peers_max = 1\n    asn =");
    let (shared, _store) = shared(&config);
    let shared = Arc::new(shared);
    let mut speaker = Speaker::new(Arc::clone(&shared));
    let [first, second] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
    let has = |address: &IpAddr| lock(&shared.entries).contains_key(address);
    let (ours, theirs) = pair();
    speaker.hand_over(ours, SocketAddr::new(first, 179));
    let mut remote = Remote(theirs, BytesMut::new());
    let (ours, refused) = pair();
    speaker.hand_over(ours, SocketAddr::new(second, 179));
    assert!(has(&first) && !has(&second), "the first has a connection");
    let last = Remote(refused, BytesMut::new()).hear_out().await;
    assert_eq!(last, Some(Notification::cease(Cease::Rejected)));
    // Octets that are no BGP.
    remote.say_octets(&[0; 19]).await;
    remote.hear_out().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(has(&first), "it is remembered");
    let (ours, _theirs) = pair();
    speaker.hand_over(ours, SocketAddr::new(second, 179));
    assert!(!has(&first) && has(&second));
    let ended = speaker.peers.join_next().await.unwrap().unwrap();
    assert_eq!(ended, first);
}

/// A host that opens connections and says nothing must not keep others out.
#[tokio::test(start_paused = true)]
async fn who_says_nothing_makes_room_for_others() {
    let config = CONFIG.replace("asn =", "dynamic_peers_max = 2\n    asn =");
    let (shared, _store) = shared(&config);
    let shared = Arc::new(shared);
    let mut speaker = Speaker::new(Arc::clone(&shared));
    let addresses = [1, 2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
    let has = |address: &IpAddr| lock(&shared.entries).contains_key(address);
    let mut others = Vec::new();
    for address in addresses {
        let (ours, theirs) = pair();
        speaker.hand_over(ours, SocketAddr::new(address, 179));
        others.push(theirs);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(addresses.each_ref().map(has), [false, true, true]);
    tokio::time::sleep(Duration::from_secs(7)).await;
    speaker.end_silent();
    assert!(has(&addresses[1]), "not yet");
    tokio::time::sleep(Duration::from_secs(3)).await;
    speaker.end_silent();
    assert_eq!(addresses.each_ref().map(has), [false; 3]);
    let refused: Vec<_> = shared.refusals().totals().collect();
    let expected = [(Reason::GaveWay.label(), 1), (Reason::NoOpen.label(), 2)];
    assert_eq!(refused, expected);
}
