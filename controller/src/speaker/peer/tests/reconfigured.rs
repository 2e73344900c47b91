//! What a reload says to a peer, and what becomes of its session.

use weft_bgp::capability::GracefulRestart;

use super::*;

/// A listed peer: its task stays when there is no session.
const LISTED: &str = r#"
    [bgp]
    asn = 64496
    router_id = "192.0.2.254"
    [[bgp.peer_group]]
    name = "leaves"
    passive = true
    [[bgp.peer]]
    address = "192.0.2.1"
    peer_group = "leaves"
"#;

fn shut_down(more: &str) -> String {
    format!("{LISTED}    shutdown = true\n{more}")
}

/// The peer restarts gracefully, and sets N or does not. RFC 8538 §2.
fn restarting(notification: bool) -> Open {
    let mut open = open();
    let restart = GracefulRestart {
        restarted: false,
        notification,
        restart_secs: 120,
        families: vec![(Family::L2VPN_EVPN, true)],
    };
    open.capabilities.push(Capability::GracefulRestart(restart));
    open
}

/// RFC 8538 §4: who would keep our routes through a NOTIFICATION is told of a Hard Reset, and everybody else of a shutdown.
/// RFC 9003: with what the operator says of it.
#[tokio::test(start_paused = true)]
async fn a_peer_that_is_shut_down_is_told_so_as_it_understands_it() {
    let text = "Rack 7 moves";
    let message = format!("shutdown_message = \"{text}\"\n");
    let said = [&[12][..], text.as_bytes()].concat();
    let hard = [&[6, 2][..], &said].concat();
    for (open, more, expected) in [
        (open(), &message[..], (2, said.clone())),
        (restarting(false), &message, (2, said)),
        (restarting(true), &message, (9, hard)),
        (open(), "", (2, vec![])),
        (restarting(true), "", (9, vec![6, 2])),
    ] {
        let mut bench = Bench::with(LISTED).await;
        let remote = bench.session_of(open).await.unwrap();
        bench.reload(&shut_down(more));
        let last = bench.until(remote.hear_out()).await.unwrap();
        let (subcode, data) = expected;
        assert_eq!(
            (last.code, last.subcode, &last.data[..]),
            (6, subcode, &data[..])
        );
        let communication = (!more.is_empty()).then_some(text);
        assert_eq!(last.shutdown_communication(), communication);
        let error = bench.peer.report.facts().last_error;
        assert_eq!(error.contains(text), communication.is_some(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_shut_down_stays_so_until_that_is_taken_back() {
    let mut bench = Bench::with(LISTED).await;
    let remote = bench.session().await.unwrap();
    bench.reload(&shut_down(""));
    let last = bench.until(remote.hear_out()).await.unwrap();
    assert_eq!((last.code, last.subcode), (6, 2));
    for _ in 0..3 {
        bench.pass(Duration::from_secs(100)).await;
        assert!(bench.session().await.is_none());
        assert!(!bench.peer.is_over(), "it is listed");
    }
    // Another message is no other shutdown.
    bench.reload(&shut_down("shutdown_message = \"Rack 7 moves\"\n"));
    bench.pass(Duration::from_secs(1)).await;
    assert!(bench.session().await.is_none());
    bench.reload(LISTED);
    bench.pass(Duration::from_secs(1)).await;
    assert!(bench.session().await.is_some());
}
