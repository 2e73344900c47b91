//! A peer that says more than its rate. RFC 4271 knows no such thing: TCP makes it wait.

use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use weft_bgp::attribute::Unreach;

use super::*;

/// What it may say at once is what it may say in ten seconds.
fn limited(updates_per_sec: u32) -> String {
    let limits = format!("limits = {{ updates_per_sec = {updates_per_sec},");
    CONFIG.replace("limits = {", &limits)
}

fn small() -> Message {
    Message::Update(Box::new(Update::end_of_rib(Family::L2VPN_EVPN)))
}

/// 200 withdrawals of one type 3: nearly as much as a message takes.
fn large() -> Message {
    let route = [
        3, 17, 0, 0, 0xfb, 0xf0, 0, 0, 0, 1, 0, 0, 0, 0, 32, 192, 0, 2, 1,
    ];
    let unreach = Unreach {
        family: Family::L2VPN_EVPN,
        nlri: Bytes::from(route.repeat(200)),
    };
    Message::Update(Box::new(Update {
        unreach: Some(unreach),
        ..Update::default()
    }))
}

impl Bench {
    fn received(&self, kind: &'static str) -> u64 {
        let facts = self.peer.report.facts();
        let count = facts.messages.get(&(Direction::Received, kind));
        count.copied().unwrap_or(0)
    }

    /// The peer says these.
    async fn hear_all(&mut self, mut remote: Remote, messages: Vec<Message>) -> Remote {
        let octets: Vec<_> = messages.iter().map(|it| it.encode(&CONTEXT)).collect();
        let remote = self.until(async move {
            remote.say_octets(&octets.concat()).await;
            // In the middle between two that it may say.
            tokio::time::sleep(Duration::from_millis(50)).await;
            remote
        });
        remote.await
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_says_too_fast_is_taken_at_its_rate_and_nothing_is_lost() {
    let mut bench = Bench::with(&limited(10)).await;
    let remote = bench.session().await.unwrap();
    let keepalives = bench.received("keepalive");
    let mut messages = vec![small(); 301];
    messages.push(Message::Keepalive);
    let _remote = bench.hear_all(remote, messages).await;
    // The first that is too much is taken, and then the peer rests.
    assert_eq!(bench.received("update"), 101);
    for taken in [111, 121, 131] {
        bench.pass(Duration::from_secs(1)).await;
        assert_eq!(bench.received("update"), taken);
    }
    bench.pass(Duration::from_millis(16_900)).await;
    assert_eq!(bench.received("update"), 300);
    assert_eq!(bench.received("keepalive"), keepalives, "in their order");
    bench.pass(Duration::from_millis(200)).await;
    assert_eq!(bench.received("update"), 301);
    assert_eq!(bench.received("keepalive"), keepalives + 1);
    assert!(bench.peer.up.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_a_rate_is_taken_as_fast_as_it_speaks() {
    let mut bench = Bench::new().await;
    let remote = bench.session().await.unwrap();
    let _remote = bench.hear_all(remote, vec![small(); 3_000]).await;
    assert_eq!(bench.received("update"), 3_000);
}

/// What is not read stays in the sockets, and then with the peer: our memory is not its queue.
#[tokio::test(start_paused = true)]
async fn a_peer_that_has_spent_its_rate_cannot_write_on() {
    let mut bench = Bench::with(&limited(10)).await;
    let mut remote = bench.session().await.unwrap();
    small_buffer(&remote.0);
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let octets = large().encode(&CONTEXT);
    let _writing = tokio::spawn(async move {
        for _ in 0..400 {
            remote.say_octets(&octets).await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
        remote
    });
    let held = |bench: &Bench| {
        let connection = bench.peer.connections[Side::Incoming as usize].as_ref();
        connection.unwrap().buffer.len()
    };
    bench.pass(Duration::from_millis(50)).await;
    assert_eq!(bench.received("update"), 101);
    let before = written.load(Ordering::Relaxed);
    assert!(before < 250, "{before} of 400");
    for _ in 0..29 {
        bench.pass(Duration::from_secs(1)).await;
        assert!(held(&bench) <= 2 * READ_OCTETS, "{}", held(&bench));
    }
    assert_eq!(bench.received("update"), 391);
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(bench.received("update"), 400);
    assert_eq!(written.load(Ordering::Relaxed), 400);
}

/// A peer that waits for us is not silent, and we are not silent to it.
#[tokio::test(start_paused = true)]
async fn no_hold_timer_ends_the_session_of_a_peer_that_waits() {
    let mut bench = Bench::with(&limited(1)).await;
    let patient = Open {
        hold_secs: 9,
        ..open()
    };
    let remote = bench.session_of(patient).await.unwrap();
    let mut remote = bench.hear_all(remote, vec![small(); 71]).await;
    assert_eq!(bench.received("update"), 11);
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&heard);
    let listening = tokio::spawn(async move {
        while let Some(message) = remote.hear().await {
            if message != Message::Keepalive {
                return Some(message);
            }
            counter.fetch_add(1, Ordering::Relaxed);
        }
        None
    });
    bench.pass(Duration::from_secs(60)).await;
    assert_eq!(bench.received("update"), 71);
    assert!(bench.peer.up.is_some());
    // A third of the hold time lies between two.
    let heard = heard.load(Ordering::Relaxed);
    assert!((19..=21).contains(&heard), "{heard} KEEPALIVEs");
    // From its last word on it is silent.
    bench.pass(Duration::from_secs(8)).await;
    assert!(bench.peer.up.is_some());
    bench.pass(Duration::from_secs(2)).await;
    assert!(bench.peer.up.is_none());
    let Ok(Some(Message::Notification(last))) = listening.await else {
        panic!("a NOTIFICATION");
    };
    assert_eq!((last.code, last.subcode), (4, 0));
}

/// What was read while the rate held waits in the buffer, and no octet need come after it.
#[tokio::test(start_paused = true)]
async fn a_rate_that_is_lifted_keeps_nobody_waiting() {
    let mut bench = Bench::with(&limited(1)).await;
    let remote = bench.session().await.unwrap();
    let _remote = bench.hear_all(remote, vec![small(); 71]).await;
    assert_eq!(bench.received("update"), 11);
    bench.reload(CONFIG);
    bench.pass(Duration::from_millis(100)).await;
    assert_eq!(bench.received("update"), 71);
}

/// What was spent stays spent.
#[tokio::test(start_paused = true)]
async fn another_rate_holds_from_the_reload_on() {
    let mut bench = Bench::with(&limited(1)).await;
    let remote = bench.session().await.unwrap();
    let _remote = bench.hear_all(remote, vec![small(); 71]).await;
    bench.reload(&limited(10));
    bench.pass(Duration::from_secs(1)).await;
    assert_eq!(bench.received("update"), 12);
    bench.pass(Duration::from_secs(2)).await;
    assert_eq!(bench.received("update"), 32);
}

/// Nor does a new session give it back, or whoever comes back at once would have no rate.
#[tokio::test(start_paused = true)]
async fn a_peer_that_comes_back_has_spent_what_it_has_spent() {
    let mut bench = Bench::with(&limited(1)).await;
    let remote = bench.session().await.unwrap();
    let remote = bench.hear_all(remote, vec![small(); 11]).await;
    assert_eq!(bench.received("update"), 11);
    drop(remote);
    bench.pass(Duration::from_secs(5)).await;
    assert!(bench.peer.up.is_none());
    let remote = bench.session().await.unwrap();
    let _remote = bench.hear_all(remote, vec![small(); 11]).await;
    let taken = bench.received("update") - 11;
    assert!((5..=6).contains(&taken), "{taken}");
}
