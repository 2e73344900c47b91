//! What is read when.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_keepalive_that_came_while_we_stood_still_is_heard_before_the_hold_timer_is_judged() {
    let mut bench = Bench::new().await;
    let mut remote = bench.session().await.unwrap();
    let negotiated = bench.peer.session.negotiated().unwrap();
    let hold = negotiated.hold;
    remote.say(&Message::Keepalive).await;
    // Nobody has looked at the socket meanwhile.
    tokio::time::advance(hold + Duration::from_secs(1)).await;
    bench.peer.due().await;
    assert!(bench.peer.up.is_some());
    // Silence is still silence.
    tokio::time::advance(hold + Duration::from_secs(1)).await;
    bench.peer.due().await;
    assert!(bench.peer.up.is_none());
    let last = bench.until(remote.hear_out()).await.unwrap();
    assert_eq!((last.code, last.subcode), (4, 0));
}
