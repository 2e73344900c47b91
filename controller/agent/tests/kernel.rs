//! The agent against a real kernel: gRPC in, `ip -j nexthop` and `ip -j route` out. Each test has a
//! network namespace of its own, which dies with the test's thread.
//!
//! Needs root. Set WEFT_SKIP_ROOT=1 to skip where that is not to be had.

#[path = "kernel/daemon.rs"]
mod daemon;
#[path = "kernel/gnmi.rs"]
mod gnmi;
#[path = "kernel/pins.rs"]
mod pins;
#[path = "client/session.rs"]
mod session;
#[path = "kernel/sources.rs"]
mod sources;
#[path = "kernel/switch.rs"]
mod switch;
#[path = "kernel/tls.rs"]
mod tls;

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
use self::switch::{Agent, Daemon, FakeNft, LISTEN, Switch, on_switch};

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
fn a_next_hop_by_its_interface_alone_is_frrs_neighbour_there() {
    on_switch(async |switch| {
        let both = UNNUMBERED;
        switch.ip("-6 route del 2001:db8:f::/48");
        switch.ip("-6 route add 2001:db8:f::/48 metric 20 nexthop via fe80::1 dev up1 nexthop via fe80::2 dev up2");
        let (_agent, mut session) = unnumbered(switch).await;
        let whole = switch.route("203.0.113.7/32").expect("installed");
        assert_eq!(whole["nhid"], GROUP_1);
        assert_eq!(gateways(switch), ["fe80::1 up1", "fe80::2 up2"]);
        assert_eq!(
            switch.groups(),
            json!([{"id": GROUP_1, "group": [{"id": NEXT_HOP_1, "weight": 3}, {"id": NEXT_HOP_1 + 1}]}])
        );
        // The same neighbours, for a prefix of IPv6.
        session.add(prefix6("2001:db8:f::/48", 1)).await;
        let six = switch.route6("2001:db8:f::/48").expect("installed");
        assert_eq!(six["nhid"], GROUP_1);
        // FRR takes a neighbour away, and gets another one.
        switch.ip("-6 route del 2001:db8:f::/48");
        switch.ip("route replace 203.0.113.7/32 metric 20 nexthop via inet6 fe80::1 dev up1");
        switch
            .until(|switch| {
                switch.forwards("203.0.113.7") == Some("up1".into())
                    && switch.route6("2001:db8:f::/48").is_none()
            })
            .await;
        let other = both.replace("fe80::2", "fe80::22");
        switch.ip(&format!("route replace 203.0.113.7/32 metric 20 {other}"));
        switch
            .until(|switch| gateways(switch) == ["fe80::1 up1", "fe80::22 up2"])
            .await;
        let uses = |switch: &Switch| Some(switch.route("203.0.113.7/32")?["nhid"].clone());
        switch
            .until(|switch| uses(switch) == Some(json!(GROUP_1)))
            .await;
        // Two neighbours on the interface: nobody knows which of them is meant.
        switch.ip("route add 203.0.113.8/32 metric 20 nexthop via inet6 fe80::3 dev up1");
        switch
            .until(|switch| gateways(switch) == ["fe80::22 up2"])
            .await;
        assert_eq!(switch.forwards("203.0.113.7"), Some("up2".into()));
        let text = "has several neighbours behind interface up1: fe80::1 and fe80::3";
        session
            .add_with(next_hop(1, "", Some("up1")), "RIB_PROGRAMMED", text)
            .await;
        // The link of the other goes too: FRR alone routes.
        switch.ip("link set far2 down");
        switch
            .until(|switch| switch.route("203.0.113.7/32").is_none() && !switch.has_rule())
            .await;
    });
}

#[test]
fn a_next_hop_by_its_interface_alone_is_that_of_frrs_own_object() {
    on_switch(async |switch| {
        switch.ip("nexthop add id 21 via fe80::1 dev up1 proto zebra");
        switch.ip("nexthop add id 22 via fe80::2 dev up2 proto zebra");
        switch.ip("nexthop add id 23 group 21/22 proto zebra");
        let route = "203.0.113.7/32 metric 20 nhid 23 proto bgp";
        let _both = interfaces_alone(switch, route).await;
        let ours = gateways(switch);
        assert_eq!(ours[2..], ["fe80::1 up1", "fe80::2 up2"]);
        switch.ip("nexthop replace id 23 group 22 proto zebra");
        switch
            .until(|switch| switch.forwards("203.0.113.7") == Some("up2".into()))
            .await;
    });
}

/// FRR that makes no next-hop objects.
#[test]
fn a_next_hop_by_its_interface_alone_is_frrs_address_for_a_link_local_neighbour() {
    on_switch(async |switch| {
        let route = "203.0.113.7/32 metric 20 nexthop via 169.254.0.1 dev up1 onlink \
                     nexthop via 169.254.0.1 dev up2 onlink";
        let _both = interfaces_alone(switch, route).await;
        assert_eq!(gateways(switch), ["169.254.0.1 up1", "169.254.0.1 up2"]);
        let installed = switch.route("203.0.113.7/32").expect("installed");
        assert_eq!(installed["nhid"], GROUP_1);
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

/// BGP unnumbered: FRR's next hops are link-local.
const UNNUMBERED: &str = "nexthop via inet6 fe80::1 dev up1 nexthop via inet6 fe80::2 dev up2";

/// A switch whose own routing has link-local next hops, and an agent that is told interfaces.
async fn unnumbered(switch: &Switch) -> (Agent, Session) {
    interfaces_alone(switch, &format!("203.0.113.7/32 metric 20 {UNNUMBERED}")).await
}

/// An agent that is told interfaces, weighed 3 to 1, of a switch whose own routing has this route alone.
async fn interfaces_alone(switch: &Switch, route: &str) -> (Agent, Session) {
    switch.ip("route del 203.0.113.0/24 metric 20");
    switch.ip("route del 10.0.0.0/8 metric 20");
    switch.ip(&format!("route add {route}"));
    let agent = switch.agent().await;
    let mut session = Session::primary(agent.channel(), 1).await;
    session.add(next_hop(1, "", Some("up1"))).await;
    session.add(next_hop(2, "", Some("up2"))).await;
    session.add(group(1, &[(1, 3), (2, 1)])).await;
    session.add(prefix("203.0.113.7/32", 1)).await;
    (agent, session)
}

/// Gateway and interface of each next hop, in the order of ids.
fn gateways(switch: &Switch) -> Vec<String> {
    let shown = switch.next_hops();
    let shown = shown.as_array().into_iter().flatten();
    let word = |it: &serde_json::Value, key: &str| it[key].as_str().unwrap_or("-").to_owned();
    shown
        .filter(|it| it.get("group").is_none())
        .map(|it| format!("{} {}", word(it, "gateway"), word(it, "dev")))
        .collect()
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
