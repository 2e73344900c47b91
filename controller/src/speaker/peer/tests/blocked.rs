//! A peer that takes no octets. RFC 9687.

use super::*;
use crate::speaker::writer::Order;

/// The peer speaks this often, and so has a session by the hold timer alone.
const KEEPALIVE: Duration = Duration::from_secs(30);

impl Bench {
    /// Much more is to be written than the sockets hold. Stands for routes, of which there are none here.
    fn flood(&self) {
        let connection = self.peer.connections[Side::Incoming as usize].as_ref();
        let connection = connection.unwrap();
        small_buffer(connection.socket.as_ref());
        let end = Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)));
        let octets = end.encode(&CONTEXT).repeat(FLOOD);
        let order = Order::Control(octets.into());
        assert!(connection.orders.try_send(order).is_ok());
    }

    /// The peer speaks and does not listen.
    async fn unheard(&mut self, mut remote: Remote, times: u32) -> Remote {
        let remote = self.until(async move {
            for _ in 0..times {
                tokio::time::sleep(KEEPALIVE).await;
                remote.say(&Message::Keepalive).await;
            }
            remote
        });
        remote.await
    }

    /// The peer hears all of a flood.
    async fn heard(&mut self, mut remote: Remote) -> Remote {
        let remote = self.until(async move {
            for _ in 0..FLOOD {
                while !matches!(remote.hear().await.unwrap(), Message::Update(_)) {}
            }
            remote
        });
        remote.await
    }
}

/// The writer notices after a second, and the timer runs for eight minutes. RFC 9687 §3.
#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_loses_its_session_by_the_send_hold_timer() {
    let mut bench = Bench::new().await;
    let remote = bench.session().await.unwrap();
    bench.flood();
    // 480 s.
    let remote = bench.unheard(remote, 16).await;
    assert!(bench.peer.up.is_some());
    bench.pass(Duration::from_millis(900)).await;
    assert!(bench.peer.up.is_some());
    bench.pass(Duration::from_millis(200)).await;
    assert!(bench.peer.up.is_none());
    let facts = bench.peer.report.facts();
    assert_eq!(facts.last_error, "send hold timer expired");
    // The connection ends too, and without a NOTIFICATION, which could not be sent either. RFC 9687 §4.
    bench
        .pass(CLOSE_TIMEOUT + LINGER + Duration::from_secs(1))
        .await;
    assert!(bench.peer.connections.iter().all(Option::is_none));
    assert!(bench.peer.ending.is_empty());
    assert_eq!(bench.until(remote.hear_out()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_octets_again_in_time_keeps_its_session() {
    let mut bench = Bench::new().await;
    let mut remote = bench.session().await.unwrap();
    for _ in 0..2 {
        bench.flood();
        // 450 s, and twice that is more than the timer's.
        remote = bench.unheard(remote, 15).await;
        assert!(bench.peer.up.is_some());
        remote = bench.heard(remote).await;
    }
    // Nothing waits any more: the timer does not run.
    let remote = bench.unheard(remote, 60).await;
    assert!(bench.peer.up.is_some());
    // The hold timer did all the time.
    drop(bench.until(remote.hear_out()).await);
    assert_eq!(bench.peer.report.facts().last_error, "hold timer expired");
}

/// Messages of a flood: 2.6 MB, of which the sockets hold a fraction.
const FLOOD: usize = 90_000;
