//! Connections beside a session, before one and in the place of one: who gets a session, and what the others are told.

use weft_bgp::peer::PeerId;

use super::*;

fn cease(cease: Cease) -> Option<Notification> {
    Some(Notification::cease(cease))
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
    assert!(bench.session().await.is_none());
    bench.shared.release_identity(rival);
    bench.pass(Duration::from_millis(1)).await;
    assert!(bench.session().await.is_some());
}
