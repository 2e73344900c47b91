//! The agent against a real kernel: gRPC in, `ip -j nexthop` and `ip -j route` out. Each test has a
//! network namespace of its own, which dies with the test's thread.
//!
//! Needs root. Set WEFT_SKIP_ROOT=1 to skip where that is not to be had.

#[path = "kernel/gnmi.rs"]
mod gnmi;
#[path = "kernel/pins.rs"]
mod pins;
#[path = "client/session.rs"]
mod session;
#[path = "kernel/switch.rs"]
mod switch;

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;
use weft_agent::driver::clock::Clock;
use weft_proto::gribi::aft_operation::Operation;

use self::session::{Session, backed, group, next_hop, prefix, prefix6, status};
use self::switch::{Daemon, FakeNft, LISTEN, Switch, on_switch};

#[test]
fn weights_reach_the_kernel() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::primary(agent.channel(), 1).await;
        session.add(next_hop(1, "192.0.2.2", None)).await;
        session.add(next_hop(2, "198.51.100.2", Some("up2"))).await;
        session.add(group(1, &[(1, 3), (2, 1)])).await;
        session.add(prefix("203.0.113.0/24", 1)).await;
        assert_eq!(
            switch.groups(),
            json!([{"id": GROUP_1, "group": [{"id": NEXT_HOP_1, "weight": 3}, {"id": NEXT_HOP_1 + 1}]}])
        );
        let route = switch.route("203.0.113.0/24").expect("installed");
        assert_eq!(route["nhid"], GROUP_1);
        assert_eq!(route["metric"], 10);
    });
}

#[test]
fn a_weight_change_replaces_the_group_in_place() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let before = switch.route("203.0.113.0/24");
        session.replace(group(1, &[(1, 1), (2, 256)])).await;
        assert_eq!(
            switch.groups(),
            json!([{"id": GROUP_1, "group": [{"id": NEXT_HOP_1}, {"id": NEXT_HOP_1 + 1, "weight": 256}]}])
        );
        let after = switch.route("203.0.113.0/24");
        assert_eq!(
            before.expect("installed")["nhid"],
            after.expect("installed")["nhid"]
        );
    });
}

#[test]
fn a_restarted_agent_removes_what_the_last_one_left() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        drop(Session::with_two_paths(agent.channel()).await);
        agent.stop().await;
        assert!(switch.has_rule(), "nobody removed it");
        let agent = switch.agent().await;
        let entries = Session::entries(agent.channel()).await;
        assert_eq!(entries, [""; 0]);
        assert_eq!(switch.next_hops(), json!([]));
        assert_eq!(switch.route("203.0.113.0/24"), None);
        assert!(!switch.has_rule());
    });
}

#[test]
fn nothing_is_deleted_that_is_in_use() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        session
            .delete_fails(
                next_hop(1, "", None),
                "next hop 1 is used by next-hop group 1",
            )
            .await;
        session
            .delete_fails(
                group(1, &[]),
                "next-hop group 1 is used by prefix 203.0.113.0/24",
            )
            .await;
        assert!(switch.route("203.0.113.0/24").is_some());
    });
}

#[test]
fn a_link_that_loses_carrier_takes_no_traffic_until_it_is_back() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let both = switch.groups();
        // The far end goes down: carrier is lost, and the kernel by itself changes nothing.
        switch.ip("link set far2 down");
        let one = json!([{"id": GROUP_1, "group": [{"id": NEXT_HOP_1, "weight": 3}]}]);
        switch.until(|switch| switch.groups() == one).await;
        assert!(switch.route("203.0.113.0/24").is_some());
        switch.ip("link set far2 up");
        switch.until(|switch| switch.groups() == both).await;
    });
}

#[test]
fn a_link_that_is_taken_down_comes_back() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let both = switch.groups();
        switch.ip("link set up2 down");
        let one = json!([{"id": GROUP_1, "group": [{"id": NEXT_HOP_1, "weight": 3}]}]);
        switch.until(|switch| switch.groups() == one).await;
        switch.ip("link set up2 up");
        switch.until(|switch| switch.groups() == both).await;
    });
}

#[test]
fn without_a_usable_next_hop_the_switchs_own_route_takes_over() {
    on_switch(async |switch| {
        // Else the hash of this boot decides.
        switch.pass_over_links_that_are_down();
        let agent = switch.agent().await;
        let _session = Session::with_one_path(agent.channel()).await;
        assert_eq!(switch.forwards("203.0.113.1"), Some("up2".into()));
        switch.ip("link set far2 down");
        switch
            .until(|switch| switch.forwards("203.0.113.1") == Some("up1".into()))
            .await;
        assert_eq!(switch.groups(), json!([]));
        switch.ip("link set far2 up");
        switch
            .until(|switch| switch.forwards("203.0.113.1") == Some("up2".into()))
            .await;
    });
}

#[test]
fn a_backup_group_is_used_before_the_switchs_own_route() {
    on_switch(async |switch| {
        switch.pass_over_links_that_are_down();
        let agent = switch.agent().await;
        let mut session = Session::primary(agent.channel(), 1).await;
        session.add(next_hop(1, "192.0.2.2", None)).await;
        session.add(next_hop(2, "198.51.100.2", None)).await;
        session.add(group(9, &[(2, 1)])).await;
        session.add(backed(group(1, &[(1, 1)]), 9)).await;
        session.add(prefix("203.0.113.0/24", 1)).await;
        let uses = |switch: &Switch, group: Option<u32>| {
            let route = switch.route("203.0.113.0/24");
            route.map(|route| route["nhid"].clone()) == group.map(|group| json!(group))
        };
        assert!(uses(switch, Some(GROUP_1)));
        assert_eq!(switch.forwards("203.0.113.1"), Some("up1".into()));

        switch.ip("link set far1 down");
        switch.until(|switch| uses(switch, Some(GROUP_1 + 8))).await;
        assert_eq!(switch.forwards("203.0.113.1"), Some("up2".into()));
        switch.ip("link set far2 down");
        switch.until(|switch| uses(switch, None)).await;
        switch.ip("link set far2 up");
        switch.until(|switch| uses(switch, Some(GROUP_1 + 8))).await;
        switch.ip("link set far1 up");
        switch.until(|switch| uses(switch, Some(GROUP_1))).await;
    });
}

#[test]
fn ipv6_is_programmed_as_ipv4() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::primary(agent.channel(), 1).await;
        session.add(next_hop(1, "2001:db8:1::2", None)).await;
        session.add(next_hop(2, "2001:db8:2::2", None)).await;
        session.add(group(1, &[(1, 2), (2, 5)])).await;
        session.add(prefix6("2001:db8:f::/48", 1)).await;
        let route = switch.route6("2001:db8:f::/48").expect("installed");
        assert_eq!(route["nhid"], GROUP_1);
        switch.ip("link set far1 down");
        switch.ip("link set far2 down");
        switch
            .until(|switch| switch.route6("2001:db8:f::/48").is_none())
            .await;
        switch.ip("link set far2 up");
        switch
            .until(|switch| switch.route6("2001:db8:f::/48").is_some())
            .await;
        session.flush().await;
        assert_eq!(switch.next_hops(), json!([]));
        assert_eq!(switch.route6("2001:db8:f::/48"), None);
    });
}

#[test]
fn a_prefix_moves_from_group_to_group() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        session.add(next_hop(3, "2001:db8:1::2", None)).await;
        session.add(group(2, &[(2, 1)])).await;
        session.add(group(3, &[(3, 1)])).await;
        session.add(group(4, &[(3, 5)])).await;
        session.add(prefix6("2001:db8:f::/48", 3)).await;
        session.replace(prefix("203.0.113.0/24", 2)).await;
        session.replace(prefix6("2001:db8:f::/48", 4)).await;
        assert_eq!(
            switch.route("203.0.113.0/24").expect("installed")["nhid"],
            GROUP_1 + 1
        );
        assert_eq!(
            switch.route6("2001:db8:f::/48").expect("installed")["nhid"],
            GROUP_1 + 3
        );
        session.delete(group(1, &[])).await;
        session.delete(group(3, &[])).await;
        assert!(switch.route("203.0.113.0/24").is_some());
        assert!(switch.route6("2001:db8:f::/48").is_some());
    });
}

#[test]
fn ten_thousand_prefixes_are_programmed_and_flushed() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let prefixes = (0..10_000).map(|n| prefix(&format!("10.{}.{}.0/24", n >> 8, n & 0xff), 1));
        let operations = prefixes
            .map(|entry| session.operation(Operation::Add, entry))
            .collect();
        let results = session.batch(operations).await;
        assert!(
            results
                .iter()
                .all(|result| status(result) == "FIB_PROGRAMMED")
        );
        let routes = switch.ip("route show table 155");
        assert_eq!(routes.matches("nhid").count(), 10_001);
        session.flush().await;
        assert_eq!(switch.ip("route show table 155"), "");
    });
}

#[test]
fn what_another_hand_deletes_comes_back() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let both = switch.groups();
        switch.ip(&format!("nexthop del id {NEXT_HOP_1}"));
        switch.until(|switch| switch.groups() == both).await;
    });
}

#[test]
fn objects_without_an_entry_are_removed_and_those_of_others_are_not() {
    on_switch(async |switch| {
        switch.ip("nexthop add id 5 via 192.0.2.9 dev up1 proto 196");
        switch.ip(&format!(
            "nexthop add id {} via 192.0.2.9 dev up1 proto 155",
            GROUP_1 + 7
        ));
        let agent = switch.agent().await;
        drop(Session::with_two_paths(agent.channel()).await);
        switch
            .until(|switch| switch.groups().as_array().map(Vec::len) == Some(1))
            .await;
        agent.stop().await;
        switch.ip("nexthop del id 5");
    });
}

#[test]
fn a_next_hop_that_the_kernel_refuses_does_not_harm_its_group() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        session
            .add_with(
                next_hop(3, "203.0.113.77", Some("up1")),
                "FIB_FAILED",
                "invalid gateway",
            )
            .await;
        session.add(group(1, &[(1, 3), (2, 1), (3, 1)])).await;
        assert_eq!(
            switch.groups()[0]["group"].as_array().map(Vec::len),
            Some(2)
        );
    });
}

#[test]
fn a_weight_above_256_is_refused_in_words() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let text = "weight 300 of next hop 1 is not in 1..=256";
        session
            .add_with(group(1, &[(1, 300), (2, 1)]), "FIB_FAILED", text)
            .await;
        assert_eq!(
            switch.route("203.0.113.0/24"),
            None,
            "the switch's own routes take over"
        );
    });
}

#[test]
fn the_hash_policy_is_set_and_put_back_unless_it_is_to_be_kept() {
    on_switch(async |switch| {
        assert_eq!(switch.hash_policy(), "0");
        let daemon = switch.daemon(&["--keep-hash-policy"]);
        daemon.ready().await;
        assert_eq!(switch.hash_policy(), "0");
        daemon.stop().await;
        let daemon = switch.daemon(&[]);
        daemon.ready().await;
        assert_eq!(switch.hash_policy(), "1");
        daemon.stop().await;
        assert_eq!(switch.hash_policy(), "0");
    });
}

#[test]
fn a_next_hop_that_the_switch_does_not_use_itself_is_not_used() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let whole = switch.route("203.0.113.0/24").expect("installed");
        // A far link dies: FRR takes one next hop away from one prefix.
        switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
        switch
            .until(|switch| {
                switch
                    .route("203.0.113.0/24")
                    .is_some_and(|route| route["nhid"] != whole["nhid"])
            })
            .await;
        assert_eq!(switch.forwards("203.0.113.1"), Some("up1".into()));
        // FRR has none of them: its own way is taken, whatever that is.
        switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.9");
        switch
            .until(|switch| switch.route("203.0.113.0/24").is_none() && !switch.has_rule())
            .await;
        switch.ip("route del 203.0.113.0/24 metric 20");
        switch.ip(
            "route add 203.0.113.0/24 metric 20 nexthop via 192.0.2.2 nexthop via 198.51.100.2",
        );
        switch
            .until(|switch| switch.route("203.0.113.0/24").as_ref() == Some(&whole))
            .await;
        assert_eq!(switch.groups().as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn what_the_switch_does_not_route_itself_is_never_routed() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let text = "the switch's own routing has no route to 198.18.0.1/32";
        session
            .add_with(prefix("198.18.0.1/32", 1), "RIB_PROGRAMMED", text)
            .await;
        assert_eq!(switch.route("198.18.0.1/32"), None);
        // A part of the prefix goes another way.
        switch.ip("route add 203.0.113.9/32 via 192.0.2.9");
        switch
            .until(|switch| switch.route("203.0.113.0/24").is_none())
            .await;
    });
}

#[test]
fn a_neighbour_that_frr_knows_by_its_link_local_address_is_used_by_that() {
    on_switch(async |switch| {
        // BGP unnumbered: FRR's next hops are link-local.
        let both = "nexthop via inet6 fe80::1 dev up1 nexthop via inet6 fe80::2 dev up2";
        switch.ip("route del 203.0.113.0/24 metric 20");
        switch.ip("route del 10.0.0.0/8 metric 20");
        switch.ip(&format!("route add 203.0.113.7/32 metric 20 {both}"));
        let agent = switch.agent().await;
        let mut session = Session::primary(agent.channel(), 1).await;
        session.add(next_hop(1, "192.0.2.2", Some("up1"))).await;
        session.add(next_hop(2, "198.51.100.2", Some("up2"))).await;
        session.add(group(1, &[(1, 3), (2, 1)])).await;
        session.add(prefix("203.0.113.7/32", 1)).await;
        let shown = switch.next_hops();
        assert_eq!(shown[0]["gateway"], "fe80::1");
        assert_eq!(shown[0]["dev"], "up1");
        assert_eq!(shown[1]["gateway"], "fe80::2");
        assert_eq!(shown[1]["dev"], "up2");
        let whole = switch.route("203.0.113.7/32").expect("installed");
        assert_eq!(whole["nhid"], GROUP_1);
        // FRR takes a neighbour away, and gets it back.
        switch.ip("route replace 203.0.113.7/32 metric 20 nexthop via inet6 fe80::1 dev up1");
        switch
            .until(|switch| switch.forwards("203.0.113.7") == Some("up1".into()))
            .await;
        switch.ip(&format!("route replace 203.0.113.7/32 metric 20 {both}"));
        switch
            .until(|switch| switch.route("203.0.113.7/32").as_ref() == Some(&whole))
            .await;
        // Another neighbour on the interface: nobody knows which of them was declared.
        switch.ip("route add 203.0.113.8/32 metric 20 nexthop via inet6 fe80::3 dev up1");
        switch
            .until(|switch| switch.forwards("203.0.113.7") == Some("up2".into()))
            .await;
        switch.ip("route del 203.0.113.7/32 metric 20");
        switch
            .until(|switch| switch.route("203.0.113.7/32").is_none() && !switch.has_rule())
            .await;
    });
}

#[test]
fn an_address_of_the_switch_itself_is_not_routed() {
    on_switch(async |switch| {
        // A VTEP that was declared at another leaf, and is here.
        switch.ip("addr add 203.0.113.7/32 dev lo");
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let text = "203.0.113.7 is an address of this switch itself";
        session
            .add_with(prefix("203.0.113.7/32", 1), "RIB_PROGRAMMED", text)
            .await;
        assert_eq!(switch.route("203.0.113.7/32"), None);
        switch.ip("addr del 203.0.113.7/32 dev lo");
        switch
            .until(|switch| switch.route("203.0.113.7/32").is_some())
            .await;
    });
}

#[test]
fn next_hops_of_frrs_own_objects_are_understood() {
    on_switch(async |switch| {
        switch.ip("nexthop add id 21 via 192.0.2.2 dev up1 proto zebra");
        switch.ip("nexthop add id 22 via 198.51.100.2 dev up2 proto zebra");
        switch.ip("nexthop add id 23 group 21/22 proto zebra");
        switch.ip("route replace 203.0.113.0/24 metric 20 nhid 23 proto bgp");
        std::fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0").expect("writable");
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let whole = switch.route("203.0.113.0/24").expect("installed");
        // The group changes, the route does not.
        switch.ip("nexthop replace id 23 group 22 proto zebra");
        switch
            .until(|switch| {
                switch
                    .route("203.0.113.0/24")
                    .is_some_and(|route| route["nhid"] != whole["nhid"])
            })
            .await;
        assert_eq!(switch.forwards("203.0.113.1"), Some("up2".into()));
    });
}

#[test]
fn routes_of_others_in_the_table_take_the_rule_away() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        assert!(switch.has_rule());
        switch.ip("route add 198.18.0.0/24 via 192.0.2.9 table 155");
        switch.until(|switch| !switch.has_rule()).await;
        // One in the place of ours is not replaced.
        session.delete(prefix("203.0.113.0/24", 1)).await;
        switch.ip("route add 203.0.113.0/24 via 192.0.2.9 metric 10 table 155");
        session
            .add_with(prefix("203.0.113.0/24", 1), "FIB_FAILED", "file exists")
            .await;
        switch.ip("route del 203.0.113.0/24 table 155");
        switch.ip("route del 198.18.0.0/24 table 155");
        switch.until(|switch| switch.has_rule()).await;
    });
}

#[test]
fn a_rule_that_another_hand_removes_is_put_back() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        switch.ip("rule del priority 1550");
        switch.until(|switch| switch.has_rule()).await;
        agent.stop().await;
    });
}

#[test]
fn a_stopped_daemon_leaves_nothing() {
    on_switch(async |switch| {
        let daemon = programmed(switch, &["--log", "json"]).await.0;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn a_killed_daemon_leaves_nothing() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        daemon.kill();
        switch.until(is_clean).await;
        // The next one begins at once.
        programmed(switch, &[]).await.0.stop().await;
    });
}

#[test]
fn a_clock_of_day_that_jumps_ends_nothing() {
    on_switch(async |switch| {
        let day = Arc::new(AtomicI64::new(1_700_000_000_000_000_000));
        let (read, began) = (Arc::clone(&day), Instant::now());
        let read = move || {
            let since = i64::try_from(began.elapsed().as_nanos()).expect("years");
            read.load(Ordering::Relaxed) + since
        };
        let agent = switch.agent_by(Clock::new(read)).await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let year: i64 = 365 * 86_400 * 1_000_000_000;
        for (jump, text) in [(year, "by 3153"), (-2 * year, "by -6307")] {
            day.fetch_add(jump, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let told = agent.condition("CLOCK_JUMPED").await.expect("told");
            assert!(told.contains(text), "{told}");
            assert!(switch.has_rule() && switch.route("203.0.113.0/24").is_some());
            assert_eq!(session.elect(1).await.expect("a lease"), 1);
        }
        assert_eq!(agent.condition("LEASE_EXPIRED").await, None);
        agent.stop().await;
    });
}

#[test]
fn a_daemon_that_hangs_is_bypassed_until_it_goes_on() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        daemon.signal(Signal::SIGSTOP);
        switch
            .until(|switch| !switch.has_rule() && !switch.marked())
            .await;
        daemon.signal(Signal::SIGCONT);
        switch
            .until(|switch| switch.has_rule() && switch.marked())
            .await;
        daemon.stop().await;
    });
}

#[test]
fn a_guardian_that_dies_is_followed_by_another() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGKILL).expect("alive");
        let next = || daemon.guardian().filter(|guardian| *guardian != first);
        switch.until(|_| next().is_some()).await;
        assert!(switch.has_rule());
        daemon.kill();
        switch.until(is_clean).await;
    });
}

#[test]
fn without_agent_and_guardian_the_kernel_ends_the_marking() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        let guardian = daemon.guardian().expect("started");
        nix::sys::signal::kill(guardian, Signal::SIGKILL).expect("alive");
        daemon.kill();
        switch.until(|switch| !switch.marked()).await;
        assert!(
            switch.has_rule(),
            "nobody is left to remove it; no packet has its mark"
        );
        assert!(switch.daemon(&["--clean"]).ended());
        assert!(is_clean(switch));
    });
}

#[test]
fn a_controller_that_is_silent_loses_what_it_programmed() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &["--lease-secs", "2"]).await;
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(session.elect(1).await.expect("a lease"), 1);
        }
        assert!(switch.has_rule());
        switch
            .until(|switch| switch.route("203.0.113.0/24").is_none() && !switch.has_rule())
            .await;
        assert!(session.receive().await.is_err(), "the stream has ended");
        daemon.stop().await;
    });
}

#[test]
fn the_greatest_election_id_keeps_nobody_out_for_longer_than_its_lease() {
    on_switch(async |switch| {
        let daemon = switch.daemon(&["--lease-secs", "2"]);
        daemon.ready().await;
        let _silent = Session::primary(daemon.channel(), u64::MAX).await;
        let mut session = Session::open(daemon.channel()).await;
        session
            .parameters(session::PARAMETERS)
            .await
            .expect("supported");
        assert_eq!(session.elect(1).await.expect("valid"), u64::MAX);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            session.elect(1).await.expect("a lease");
        }
        assert_eq!(session.elect(1).await.expect("valid"), 1);
        daemon.stop().await;
    });
}

#[test]
fn the_daemon_takes_orders_for_its_prefixes_from_its_controllers_only() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &[]).await;
        let text = "198.51.100.7/32 is outside of what this agent was started for: 203.0.113.0/24";
        session
            .add_with(prefix("198.51.100.7/32", 1), "FAILED", text)
            .await;
        daemon.stop().await;
        let daemon = switch.daemon(&["--controller", "192.0.2.0/24"]);
        daemon.ready().await;
        assert!(Session::refused(daemon.channel()).await);
        daemon.stop().await;
    });
}

#[test]
fn a_second_daemon_does_not_work_beside_the_first() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        assert!(!switch.daemon(&[]).ended());
        assert!(switch.has_rule());
        daemon.stop().await;
    });
}

#[test]
fn without_an_nft_of_the_bridge_family_frr_alone_routes() {
    on_switch(async |switch| {
        let routes = switch.ip("route show");
        let refusing = FakeNft::new("refuse");
        refusing.does("refuse");
        for path in [refusing.path(), "/nonexistent"] {
            add_vxlan(switch);
            let daemon = switch.daemon_with_path(&[], path);
            daemon.ready().await;
            let _session = Session::with_two_paths(daemon.channel()).await;
            let text = daemon.until_condition("MARKS_UNAVAILABLE").await;
            assert!(text.contains("packets are not marked, FRR alone routes them: nft: "));
            let status = daemon.status().await;
            assert_eq!(status.state().as_str_name(), "STATE_BYPASSED");
            assert!(!switch.has_marks());
            assert_eq!(switch.ip("route show"), routes);
            daemon.stop().await;
            assert!(is_clean(switch));
            assert_eq!(switch.ip("route show"), routes);
        }
    });
}

#[test]
fn an_nft_that_hangs_does_not_delay_what_frr_changes() {
    on_switch(async |switch| {
        let nft = FakeNft::new("hang");
        let (daemon, _session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        nft.does("hang");
        let running = daemon.started("-i").expect("started");
        nix::sys::signal::kill(running, Signal::SIGSTOP).expect("alive");
        let whole = switch.route("203.0.113.0/24").expect("installed")["nhid"].clone();
        let mut delays = Vec::new();
        for _ in 0..25 {
            switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
            let changed = Instant::now();
            switch.at_once(|switch| nhid(switch).is_some_and(|nhid| nhid != whole));
            delays.push(changed.elapsed());
            switch.ip("route replace 203.0.113.0/24 metric 20 nexthop via 192.0.2.2 nexthop via 198.51.100.2");
            switch.at_once(|switch| nhid(switch).as_ref() == Some(&whole));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        delays.sort();
        assert!(delays[12] < Duration::from_millis(50), "{delays:?}");
        // The machine may be busy for a moment; a wait for nft is longer.
        assert!(delays[24] < Duration::from_millis(500), "{delays:?}");
        let text = daemon.until_condition("MARKS_UNAVAILABLE").await;
        assert!(text.contains("nft does not answer"), "{text}");
        assert!(!switch.marked(), "the kernel ended it");
        nft.does("work");
        switch.until(|switch| switch.marked()).await;
        daemon.until_mended("MARKS_UNAVAILABLE").await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn an_interactive_nft_that_hangs_is_replaced() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let first = daemon.started("-i").expect("started");
        nix::sys::signal::kill(first, Signal::SIGSTOP).expect("alive");
        switch.until(|switch| !switch.marked()).await;
        switch.until(|switch| switch.marked()).await;
        assert_ne!(daemon.started("-i"), Some(first));
        let text = daemon.until_condition("MARKS_REMOVED").await;
        assert!(text.contains("nft does not answer"), "{text}");
        daemon.stop().await;
    });
}

#[test]
fn marks_that_another_hand_removes_are_put_back() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        switch.nft("delete table bridge weft");
        switch.until(|switch| switch.marked()).await;
        let text = daemon.until_condition("MARKS_REMOVED").await;
        assert!(text.contains("No such file or directory"), "{text}");
        daemon.stop().await;
    });
}

#[test]
fn a_guardian_that_stands_still_is_replaced() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGSTOP).expect("alive");
        let next = || daemon.guardian().filter(|guardian| *guardian != first);
        switch.until(|_| next().is_some()).await;
        assert!(switch.has_rule());
        let text = daemon.until_condition("GUARDIAN_LOST").await;
        assert!(text.contains("did not answer"), "{text}");
        daemon.kill();
        switch.until(is_clean).await;
    });
}

#[test]
fn an_agent_that_was_stopped_does_not_blame_its_guardian() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let guardian = daemon.guardian();
        daemon.signal(Signal::SIGSTOP);
        tokio::time::sleep(Duration::from_secs(4)).await;
        daemon.signal(Signal::SIGCONT);
        switch
            .until(|switch| switch.has_rule() && switch.marked())
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(daemon.guardian(), guardian);
        daemon.stop().await;
    });
}

#[test]
fn without_a_guardian_nobody_programs_the_switch() {
    on_switch(async |switch| {
        let routes = switch.ip("route show");
        let (daemon, mut session) = programmed(switch, LONG_LEASE).await;
        // Somebody else has the name that a guardian needs.
        daemon.signal(Signal::SIGSTOP);
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGKILL).expect("alive");
        let name = SocketAddr::from_abstract_name("weft-agent").expect("a name");
        let mut taken = None;
        switch
            .until(|_| {
                taken = UnixListener::bind_addr(&name).ok();
                taken.is_some()
            })
            .await;
        daemon.signal(Signal::SIGCONT);
        let text = daemon.until_condition("GUARDIAN_UNAVAILABLE").await;
        assert!(text.contains("another weft-agent works"), "{text}");
        switch
            .until(|switch| !switch.has_rule() && switch.next_hops() == json!([]))
            .await;
        let ended = session.receive().await.expect_err("ended");
        assert_eq!(ended.code(), Code::Unavailable);
        assert!(ended.message().contains("nobody can program this switch"));
        assert!(Session::refused(daemon.channel()).await);
        assert_eq!(switch.ip("route show"), routes);
        drop(taken);
        let wait = async {
            while Session::refused(daemon.channel()).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        waited.expect("a guardian in time");
        daemon.until_mended("GUARDIAN_UNAVAILABLE").await;
        let _session = Session::with_two_paths(daemon.channel()).await;
        assert!(switch.has_rule());
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn too_many_connections_of_a_controller_are_closed() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &[]).await;
        let mut mute = Vec::new();
        let mut closed = 0;
        for _ in 0..100 {
            let mut connection = TcpStream::connect(LISTEN).expect("listening");
            let patience = Some(Duration::from_millis(100));
            connection.set_read_timeout(patience).expect("a socket");
            match connection.read(&mut [0; 64]) {
                Ok(0) => closed += 1,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => closed += 1,
                // It speaks, or waits for what is said.
                Ok(_) | Err(_) => mute.push(connection),
            }
        }
        assert!((1..64).contains(&mute.len()), "{} are open", mute.len());
        assert_eq!(closed + mute.len(), 100);
        let text = daemon.until_condition("CONNECTIONS_EXCEEDED").await;
        assert!(text.contains("times"), "{text}");
        assert_eq!(session.elect(1).await.expect("a lease"), 1);
        drop(mute);
        daemon.ready().await;
        daemon.stop().await;
    });
}

/// For tests that take longer than the usual lease.
const LONG_LEASE: &[&str] = &["--lease-secs", "60"];

fn nhid(switch: &Switch) -> Option<serde_json::Value> {
    Some(switch.route("203.0.113.0/24")?["nhid"].clone())
}

fn add_vxlan(switch: &Switch) {
    let known = switch.ip("link show type vxlan");
    if known.is_empty() {
        switch.ip("link add vxlan100 type vxlan id 100 local 192.0.2.1 dstport 4789 nolearning");
    }
}

/// A daemon with a route, and VXLAN packets that are marked.
async fn programmed(switch: &Switch, arguments: &[&str]) -> (Daemon, Session) {
    let path = std::env::var("PATH").expect("set");
    programmed_with_path(switch, arguments, &path).await
}

async fn programmed_with_path(
    switch: &Switch,
    arguments: &[&str],
    path: &str,
) -> (Daemon, Session) {
    add_vxlan(switch);
    let daemon = switch.daemon_with_path(arguments, path);
    daemon.ready().await;
    let session = Session::with_two_paths(daemon.channel()).await;
    switch
        .until(|switch| switch.has_rule() && switch.marked())
        .await;
    (daemon, session)
}

/// Nothing in the kernel says that there ever was an agent.
fn is_clean(switch: &Switch) -> bool {
    switch.route("203.0.113.0/24").is_none()
        && switch.next_hops() == json!([])
        && !switch.has_rule()
        && !switch.has_marks()
}

const NEXT_HOP_1: u32 = 0x5700_0001;
const GROUP_1: u32 = 0x5780_0001;
