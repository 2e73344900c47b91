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
