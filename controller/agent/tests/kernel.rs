//! The agent against a real kernel: gRPC in, `ip -j nexthop` and `ip -j route` out. Each test has a
//! network namespace of its own, which dies with the test's thread.
//!
//! Needs root. Set WEFT_SKIP_ROOT=1 to skip where that is not to be had.

#[path = "client/session.rs"]
mod session;
#[path = "kernel/switch.rs"]
mod switch;

use serde_json::json;
use weft_proto::gribi::aft_operation::Operation;

use self::session::{Session, group, next_hop, prefix, prefix6, status};
use self::switch::on_switch;

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
fn a_restarted_agent_finds_its_entries_in_the_kernel() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        drop(Session::with_two_paths(agent.channel()).await);
        agent.stop().await;
        assert_ne!(switch.groups(), json!([]), "the state outlives the agent");

        let agent = switch.agent().await;
        let entries = Session::entries(agent.channel()).await;
        assert_eq!(
            entries,
            [
                "next hop 1 192.0.2.2 up1",
                "next hop 2 198.51.100.2 up2",
                "group 1 1:3 2:1",
                "203.0.113.0/24 1"
            ]
        );
        let mut session = Session::primary(agent.channel(), 2).await;
        session.delete(prefix("203.0.113.0/24", 1)).await;
        session.delete(group(1, &[])).await;
        session.delete(next_hop(1, "", None)).await;
        session.delete(next_hop(2, "", None)).await;
        assert_eq!(switch.next_hops(), json!([]));
        assert_eq!(switch.route("203.0.113.0/24"), None);
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
        let agent = switch.agent().await;
        switch.ip("route add 203.0.113.0/24 via 192.0.2.9 metric 20");
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
        let routes = switch.ip("route show proto 155");
        assert_eq!(routes.matches("nhid").count(), 10_001);
        session.flush().await;
        assert_eq!(switch.ip("route show proto 155"), "");
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
fn the_hash_policy_is_set_unless_it_is_to_be_kept() {
    on_switch(async |switch| {
        assert_eq!(switch.hash_policy(), "0");
        switch.daemon(&["--keep-hash-policy"]).stop().await;
        assert_eq!(switch.hash_policy(), "0");
        switch.daemon(&[]).stop().await;
        assert_eq!(switch.hash_policy(), "1");
    });
}

#[test]
fn the_daemon_leaves_its_state_behind_unless_told_to_flush() {
    on_switch(async |switch| {
        let daemon = switch.daemon(&["--log", "json"]);
        daemon.ready().await;
        drop(Session::with_two_paths(daemon.channel()).await);
        daemon.stop().await;
        assert!(switch.route("203.0.113.0/24").is_some());
        let daemon = switch.daemon(&["--flush-on-exit"]);
        daemon.ready().await;
        daemon.stop().await;
        assert_eq!(switch.route("203.0.113.0/24"), None);
        assert_eq!(switch.next_hops(), json!([]));
    });
}

const NEXT_HOP_1: u32 = 0x5700_0001;
const GROUP_1: u32 = 0x5780_0001;
