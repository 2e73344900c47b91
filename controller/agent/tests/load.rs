//! The agent under a request of 40,000 entries, on a real kernel. Alone in its program, so that no other test takes the CPU
//! from an agent whose heartbeats are counted.
//!
//! Needs root. Set WEFT_SKIP_ROOT=1 to skip where that is not to be had.

#[path = "client/session.rs"]
mod session;
#[path = "kernel/switch.rs"]
#[expect(dead_code, reason = "the tests of kernel.rs use the rest")]
mod switch;

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use weft_proto::gribi::aft_operation::Operation;

use self::session::{Session, prefix, status};
use self::switch::{Switch, on_switch, say};

#[test]
fn a_large_request_does_not_delay_what_frr_changes() {
    on_switch(async |switch| {
        // A machine that stays slow shows in what follows.
        let _slow = timeout(SETTLES_WITHIN, settled(switch)).await;
        switch.ip("link add vxlan100 type vxlan id 100 local 192.0.2.1 dstport 4789 nolearning");
        let daemon = switch.daemon(&["--prefix", "10.0.0.0/8", "--lease-secs", "60"]);
        daemon.ready().await;
        let mut session = Session::with_two_paths(daemon.channel()).await;
        switch
            .until(|switch| switch.has_rule() && switch.marked())
            .await;
        let whole = nhid(switch).expect("installed");
        let prefixes = (0..40_000).map(|n| prefix(&format!("10.{}.{}.1/32", n >> 8, n & 0xff), 1));
        let operations: Vec<_> = prefixes
            .map(|entry| session.operation(Operation::Add, entry))
            .collect();
        let batch = tokio::spawn(async move { session.batch(operations).await });
        let routes = async || daemon.status().await.routes;
        switch
            .until(|switch| switch.route("10.0.0.1/32").is_some())
            .await;
        switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
        switch
            .until(|switch| nhid(switch).is_some_and(|nhid| nhid != whole))
            .await;
        assert!(switch.route("10.156.63.1/32").is_none(), "not all is done");
        let results = batch.await.expect("no panic");
        assert!(
            results
                .iter()
                .all(|result| status(result) == "FIB_PROGRAMMED")
        );
        assert_eq!(routes().await, 40_001);
        let removed = daemon.condition("RULE_REMOVED").await;
        // The guardian waits as long for an agent that is not optimised, whose look at so many routes sends no heartbeat meanwhile.
        if cfg!(debug_assertions) {
            say(&format!(
                "NOT TESTED: heartbeats of a debug build: {removed:?}"
            ));
        } else {
            assert_eq!(removed, None, "no heartbeat was late");
        }
        daemon.stop().await;
    });
}

fn nhid(switch: &Switch) -> Option<serde_json::Value> {
    Some(switch.route("203.0.113.0/24")?["nhid"].clone())
}

/// The kernel takes the network namespaces of tests before this one down when they are over, and holds the lock meanwhile that
/// every change of a route needs.
async fn settled(switch: &Switch) {
    let mut quick = 0;
    while quick < 20 {
        let begin = Instant::now();
        switch.ip("link set lo up");
        quick = if begin.elapsed() < QUICK {
            quick + 1
        } else {
            0
        };
        sleep(QUICK).await;
    }
}

/// What `ip` takes where nobody has the lock.
const QUICK: Duration = Duration::from_millis(25);
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
