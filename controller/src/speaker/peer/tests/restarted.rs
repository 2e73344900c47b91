//! What our OPENs say of a restart of this replica. RFC 4724 §4.1.

use super::*;

impl Bench {
    /// The peer dials, and gets an OPEN that says that we have restarted, or does not.
    async fn is_told(&mut self) -> bool {
        let mut remote = self.dialed();
        let Some(Message::Open(open)) = self.until(async move { remote.hear().await }).await else {
            panic!("an OPEN comes first");
        };
        open.capabilities.iter().any(|capability| match capability {
            Capability::GracefulRestart(restart) => restart.restarted,
            _ => false,
        })
    }
}

async fn restarted() -> Bench {
    let (shared, store) = shared(CONFIG);
    Bench::over(shared.restarted(now()), store).await
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_told_until_it_has_a_session_and_not_by_its_next_task() {
    let mut bench = restarted().await;
    assert!(bench.is_told().await);
    bench.pass(Duration::from_secs(1)).await;
    assert!(bench.is_told().await, "there was no session");
    bench.pass(Duration::from_secs(1)).await;
    drop(bench.session().await.unwrap());
    bench.pass(Duration::from_secs(1)).await;
    bench.begin_anew().await;
    assert!(!bench.is_told().await);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_comes_late_is_not_told() {
    let mut bench = restarted().await;
    bench.pass(Duration::from_secs(59)).await;
    assert!(bench.is_told().await);
    bench.pass(Duration::from_secs(2)).await;
    assert!(!bench.is_told().await);
}
