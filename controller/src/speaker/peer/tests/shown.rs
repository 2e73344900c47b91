//! What collectors and operators are shown of a session.

use super::*;
use crate::monitoring::tap::{Ended, Event};

/// RFC 7854 §4.9.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_shown_with_the_notification_that_was_sent() {
    let mut bench = Bench::new().await;
    let (_tap, mut reader) = bench.shared.taps.open();
    let remote = bench.session().await.unwrap();
    let stop = Input::StopSaying(Cease::Shutdown, "Rack 7 moves".to_owned());
    bench.peer.input(stop).await;
    let sent = bench.until(remote.hear_out()).await.unwrap();
    assert_eq!(sent.shutdown_communication(), Some("Rack 7 moves"));
    let octets = Message::Notification(sent).encode(&CONTEXT);
    let Some(Event::Down(ADDRESS, Ended::Sent(shown))) = reader.next().await else {
        panic!("nothing else happened");
    };
    assert_eq!(shown, octets);
    let error = bench.peer.report.facts().last_error;
    assert!(error.ends_with("Rack 7 moves\""), "{error}");
}

/// RFC 7606 §2: whoever read it would keep routes that are treated as withdrawn here.
#[tokio::test(start_paused = true)]
async fn the_octets_of_a_malformed_update_are_not_shown() {
    let mut bench = Bench::new().await;
    let (_tap, mut reader) = bench.shared.taps.open();
    let mut remote = bench.session().await.unwrap();
    // An ATOMIC_AGGREGATE with a value beside the end of the EVPN routes.
    let attributes = [0x80, 15, 3, 0, 25, 70, 0x40, 6, 1, 0];
    let malformed = [&[0xff; 16][..], &[0, 33, 2, 0, 0, 0, 10], &attributes].concat();
    let end = Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)));
    let sound = end.encode(&CONTEXT);
    let said = [&malformed[..], &sound].concat();
    let remote = bench.until(async move {
        remote.say_octets(&said).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        remote
    });
    let _remote = remote.await;
    assert_eq!(bench.peer.report.facts().malformed.len(), 1);
    let Some(Event::Update(ADDRESS, shown)) = reader.next().await else {
        panic!("the second is shown");
    };
    assert_eq!(shown, sound);
}
