//! The service against FRR's bfdd, over one hop and over many, IPv4 and IPv6.
//!
//! Needs root, FRR, unshare and nsenter. Set WEFT_SKIP_ROOT=1 to skip where that is not to be had.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "how long the detection of a failure takes is what is measured"
)]

#[path = "frr/bgp.rs"]
mod bgp;
#[path = "frr/lab.rs"]
mod lab;

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::time::{sleep, timeout};
use weft_bfd::{Diagnostic, State};

use self::bgp::Bgp;
use self::lab::{PAIRS, beside_frr, ip, reach};

#[test]
fn a_dead_bfdd_is_noticed_in_time_and_a_live_one_again() {
    beside_frr(async |lab| {
        let mut watches = lab.watch_all().await;
        for (watch, pair) in watches.iter().zip(PAIRS) {
            reach(watch, State::Up).await;
            lab.until_shown(pair, "Status: up").await;
        }
        sleep(Duration::from_secs(2)).await;
        for (watch, pair) in watches.iter().zip(PAIRS) {
            let status = watch.status();
            assert_eq!(status.failures, 0, "{pair:?}");
            assert_eq!(status.transmit_interval, Duration::from_millis(300));
            assert_eq!(status.detection_time, Some(Duration::from_millis(900)));
        }

        lab.signal(Signal::SIGSTOP);
        let stopped = Instant::now();
        for (watch, pair) in watches.iter_mut().zip(PAIRS) {
            let failed = timeout(DETECTED_WITHIN, watch.failed()).await;
            println!("{pair:?} down after {:?}", stopped.elapsed());
            assert_eq!(failed, Ok(Diagnostic::DetectionTimeExpired), "{pair:?}");
            assert!(stopped.elapsed() < DETECTED_WITHIN, "{pair:?}");
            assert_eq!(watch.status().state, State::Down);
        }

        lab.signal(Signal::SIGCONT);
        for (watch, pair) in watches.iter().zip(PAIRS) {
            reach(watch, State::Up).await;
            lab.until_shown(pair, "Status: up").await;
            assert_eq!(watch.status().failures, 1, "{pair:?}");
        }
    });
}

#[test]
fn an_operator_of_frr_shuts_a_session_down_and_that_is_no_failure() {
    beside_frr(async |lab| {
        let watches = lab.watch_all().await;
        for (watch, pair) in watches.iter().zip(PAIRS) {
            reach(watch, State::Up).await;
            let peer = pair.peer();
            lab.vtysh(&["configure terminal", "bfd", &peer, "shutdown"]);
            reach(watch, State::AdminDown).await;
            let status = watch.status();
            assert_eq!(status.diagnostic, Diagnostic::NeighborSignaledDown);
            lab.vtysh(&["configure terminal", "bfd", &peer, "no shutdown"]);
            reach(watch, State::Up).await;
            assert_eq!(watch.status().failures, 0, "{pair:?}");
        }
    });
}

#[test]
fn a_dropped_watch_tells_frr_and_another_one_takes_its_place() {
    beside_frr(async |lab| {
        for pair in PAIRS {
            let watch = lab.watch(pair).await;
            reach(&watch, State::Up).await;
            drop(watch);
            lab.until_shown(pair, "Remote diagnostics: administratively down")
                .await;
            lab.until_shown(pair, "Status: down").await;
            let watch = lab.watch(pair).await;
            reach(&watch, State::Up).await;
            // Without a pause: FRR never sees a failure of the path.
            drop(watch);
            let watch = lab.watch(pair).await;
            reach(&watch, State::Up).await;
            lab.until_shown(pair, "Status: up").await;
            assert_eq!(watch.status().failures, 0);
        }
    });
}

#[test]
fn timers_change_without_leaving_up() {
    beside_frr(async |lab| {
        let watches = lab.watch_all().await;
        for (watch, pair) in watches.iter().zip(PAIRS) {
            reach(watch, State::Up).await;
            lab.until_shown(pair, "Status: up").await;
            for (interval_ms, multiplier) in [(1_000, 2), (200, 5)] {
                let interval = Duration::from_millis(interval_ms);
                let multiplier = NonZeroU8::new(multiplier).expect("not zero");
                watch.change(interval, multiplier).await.expect("valid");
                // FRR's own interval is 300 ms.
                let slower = interval.max(Duration::from_millis(300));
                let mut status = watch.subscribe();
                let settled = status.wait_for(|status| {
                    status.transmit_interval == slower && status.detection_time == Some(slower * 3)
                });
                let settled = timeout(Duration::from_secs(5), settled).await.is_ok();
                assert!(settled, "{pair:?}: {:?}", watch.status());
                let shown = lab.shown(pair);
                assert!(
                    shown.contains(&format!("Transmission interval: {interval_ms}ms")),
                    "{shown}"
                );
            }
            sleep(Duration::from_secs(2)).await;
            assert_eq!(watch.status().failures, 0, "{pair:?}");
            lab.until_shown(pair, "Status: up").await;
        }
    });
}

#[test]
fn a_link_that_is_down_takes_our_address_and_a_session_comes_back_with_it() {
    beside_frr(async |lab| {
        let mut watches = [lab.watch(PAIRS[0]).await, lab.watch(PAIRS[1]).await];
        for watch in &watches {
            reach(watch, State::Up).await;
        }
        ip("link set near down");
        for watch in &mut watches {
            let failed = timeout(Duration::from_secs(5), watch.failed()).await;
            assert_eq!(failed, Ok(Diagnostic::DetectionTimeExpired));
        }
        assert!(lab.service.counters().unsent > 0);
        ip("link set near up");
        ip("addr replace 2001:db8:1::1/64 dev near nodad");
        for watch in &watches {
            reach(watch, State::Up).await;
        }
    });
}

#[test]
fn an_address_may_come_after_its_session() {
    beside_frr(async |lab| {
        ip("addr del 192.0.2.1/24 dev near");
        ip("addr del 2001:db8:1::1/64 dev near");
        let watches = [lab.watch(PAIRS[0]).await, lab.watch(PAIRS[1]).await];
        sleep(Duration::from_millis(1_500)).await;
        for watch in &watches {
            assert_eq!(watch.status().state, State::Down);
        }
        ip("addr add 192.0.2.1/24 dev near");
        ip("addr add 2001:db8:1::1/64 dev near nodad");
        for watch in &watches {
            reach(watch, State::Up).await;
        }
    });
}

/// What an operator must know who switches BFD off at one end: FRR 8.4.4 does not keep its BGP session through
/// AdminDown, as RFC 5882 §3.2 would have it, but ends it as after Down, with Cease/10 (RFC 9384).
#[test]
fn frr_ends_its_bgp_session_on_down_and_on_admin_down() {
    beside_frr(async |lab| {
        lab.start_bgp().await;
        let pair = PAIRS[0];
        for admin in [true, false] {
            let mut bgp = Bgp::establish().await;
            let watch = lab.watch(pair).await;
            reach(&watch, State::Up).await;
            lab.until_shown(pair, "Status: up").await;
            let said = bgp.notification(Duration::from_secs(2)).await;
            assert_eq!(said, None, "while Up");
            if admin {
                drop(watch);
            } else {
                lab.forge_down();
            }
            let said = bgp.notification(Duration::from_secs(2)).await;
            assert_eq!(said, Some(vec![6, 10]), "AdminDown: {admin}");
        }
    });
}

/// Three times 300 ms, and a slack for a host that does other things too.
const DETECTED_WITHIN: Duration = Duration::from_millis(900 + 400);
