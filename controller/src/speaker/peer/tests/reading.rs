//! What is read when, and which dials are given up.

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

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_due_does_not_wait_for_words() {
    let mut bench = Bench::new().await;
    let _remote = bench.session().await.unwrap();
    let hold = bench.peer.session.negotiated().unwrap().hold;
    for _ in 0..4 {
        let _ = bench.dialed();
    }
    tokio::time::advance(hold + Duration::from_secs(1)).await;
    bench.peer.turn().await;
    assert!(bench.peer.up.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_there_yet_is_given_up_with_its_dial() {
    let mut bench = Bench::new().await;
    let dial = || -> BoxFuture<'static, _> { Box::pin(std::future::pending()) };
    bench.peer.dialing = Some(dial());
    bench.peer.output(Output::Close(Side::Incoming)).await;
    assert!(bench.peer.dialing.is_some());
    bench.peer.output(Output::Close(Side::Outgoing)).await;
    assert!(bench.peer.dialing.is_none());
}
