//! Pins against a real kernel and a real nft: policy forwarding entries in, maps, rules and tables out.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use weft_proto::gribi::aft_operation::{Entry, Operation};

use super::session::{Session, group, next_hop, pin, prefix};
use super::switch::{FakeNft, Switch, on_switch};
use super::{LONG_LEASE, add_vxlan, gateways, is_clean, programmed, programmed_with_path};

/// Adds a pin that the agent refuses, with this in what it says.
pub(super) async fn refuses(session: &mut Session, instance: &str, entry: Entry, text: &str) {
    let shown = session.pin(Operation::Add, instance, entry).await;
    assert!(
        shown[0].starts_with("FAILED") && shown[0].contains(text),
        "{shown:?}"
    );
}

/// With VXLAN devices of two VNIs, a group of the first uplink alone (2) and one of the second (3).
pub(super) async fn pinnable(switch: &Switch) -> (super::Daemon, Session) {
    switch.ip("link add vxlan200 type vxlan id 200 local 192.0.2.1 dstport 4789 nolearning");
    switch.ip("link add vxlan100 type vxlan id 100 local 192.0.2.1 dstport 4789 nolearning");
    let (daemon, mut session) = programmed(switch, LONG_LEASE).await;
    session.add(group(2, &[(1, 1)])).await;
    session.add(group(3, &[(2, 1)])).await;
    (daemon, session)
}

#[test]
fn a_pin_has_a_table_of_its_own_and_marks_packets_of_its_vni() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        session
            .add_pin("vni-200", pin(1, "10.1.1.1/32", None, 2))
            .await;
        session
            .add_pin("vni-100", pin(2, "10.1.1.1/32", Some((17, 49152)), 2))
            .await;
        session
            .add_pin("vni-100", pin(3, "2001:db8:a::1/128", None, 3))
            .await;
        let expected = [
            "\"vxlan100\" . 10.1.1.1 goto pin1",
            "\"vxlan200\" . 10.1.1.1 goto pin2",
        ];
        assert_eq!(switch.pins("pins4"), expected);
        assert_eq!(
            switch.pins("pins6"),
            ["\"vxlan100\" . 2001:db8:a::1 goto pin1"]
        );
        let expected = ["\"vxlan100\" . 10.1.1.1 . udp . 49152 goto pin2"];
        assert_eq!(switch.pins("ports4"), expected);
        assert_eq!(switch.forwards_by("203.0.113.1", 1).as_deref(), Some("up2"));
        assert_eq!(switch.forwards_by("203.0.113.1", 2).as_deref(), Some("up1"));
        let rules = switch.ip("rule show");
        for rule in [
            "1549:\tfrom all fwmark 0x57010000/0xffff0000 lookup 155001 proto 155",
            "1549:\tfrom all fwmark 0x57020000/0xffff0000 lookup 155002 proto 155",
        ] {
            assert!(rules.contains(rule), "{rules}");
        }
        let entries = Session::entries(daemon.channel()).await;
        assert_eq!(
            entries[entries.len() - 4..],
            [
                "vni-100 policy 1 10.1.1.1/32 3",
                "vni-100 policy 2 10.1.1.1/32 2",
                "vni-100 policy 3 2001:db8:a::1/128 3",
                "vni-200 policy 1 10.1.1.1/32 2",
            ]
        );
        // The next one moves, and what nobody uses goes.
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 2))
            .await;
        let shown = session
            .pin(Operation::Delete, "vni-100", pin(3, "", None, 0))
            .await;
        assert_eq!(
            shown.last().map(String::as_str),
            Some("FIB_PROGRAMMED"),
            "{shown:?}"
        );
        switch
            .until(|switch| !switch.ip("rule show").contains("155001"))
            .await;
        assert_eq!(switch.forwards_by("203.0.113.1", 2).as_deref(), Some("up1"));
        session.delete(group(3, &[])).await;
        daemon.stop().await;
        assert!(is_clean(switch));
        assert!(!switch.ip("rule show").contains("155"));
    });
}

#[test]
fn a_pin_whose_path_is_gone_falls_through_to_the_weights() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        assert_eq!(switch.forwards_by("203.0.113.1", 1).as_deref(), Some("up2"));
        // A link elsewhere dies: FRR no longer has the path.
        switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
        switch
            .until(|switch| switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up1"))
            .await;
        let entries = Session::entries(daemon.channel()).await;
        assert_eq!(
            entries.last().map(String::as_str),
            Some("vni-100 policy 1 10.1.1.1/32 3 inactive")
        );
        switch.ip(
            "route replace 203.0.113.0/24 metric 20 nexthop via 192.0.2.2 nexthop via 198.51.100.2",
        );
        switch
            .until(|switch| switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up2"))
            .await;
        // The link itself dies.
        switch.ip("link set up2 down");
        switch
            .until(|switch| switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up1"))
            .await;
        daemon.stop().await;
    });
}

#[test]
fn a_pin_goes_by_frrs_neighbour_behind_an_interface() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        // BGP unnumbered: FRR's next hops are link-local, and gRIBI's have no address.
        let both = "nexthop via inet6 fe80::1 dev up1 nexthop via inet6 fe80::2 dev up2";
        switch.ip("route del 10.0.0.0/8 metric 20");
        switch.ip(&format!("route replace 203.0.113.0/24 metric 20 {both}"));
        session.add(next_hop(1, "", Some("up1"))).await;
        session.add(next_hop(2, "", Some("up2"))).await;
        switch
            .until(|switch| {
                gateways(switch) == ["fe80::1 up1", "fe80::2 up2"]
                    && switch.has_rule()
                    && switch.marked()
            })
            .await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        session
            .add_pin("vni-200", pin(1, "10.1.1.1/32", None, 2))
            .await;
        switch
            .until(|switch| {
                switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up2")
                    && switch.forwards_by("203.0.113.1", 2).as_deref() == Some("up1")
            })
            .await;
        assert_eq!(gateways(switch), ["fe80::1 up1", "fe80::2 up2"]);
        // FRR no longer has the neighbour: the weights decide, which have the other one.
        switch.ip("route replace 203.0.113.0/24 metric 20 nexthop via inet6 fe80::1 dev up1");
        switch
            .until(|switch| switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up1"))
            .await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn pins_end_with_the_agent_and_with_the_lease() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        daemon.kill();
        // Its guardian takes the rules, and the kernel ends the marking.
        switch
            .until(|switch| !switch.ip("rule show").contains("155001"))
            .await;
        switch.until(|switch| !switch.marked()).await;
        drop(session);

        let (daemon, mut session) = programmed(switch, &["--lease-secs", "2"]).await;
        session.add(group(3, &[(2, 1)])).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        assert!(switch.ip("rule show").contains("155001"));
        session.half_close();
        switch
            .until(|switch| !switch.ip("rule show").contains("155"))
            .await;
        switch.until(|switch| switch.pins("pins4").is_empty()).await;
        daemon.stop().await;
    });
}

#[test]
fn pins_are_put_back_when_another_hand_removes_them() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        switch.nft("delete table bridge weft");
        switch
            .until(|switch| !switch.pins("pins4").is_empty())
            .await;
        switch.ip("rule del priority 1549");
        switch
            .until(|switch| switch.ip("rule show").contains("155001"))
            .await;
        switch.ip("route del 203.0.113.0/24 table 155001");
        switch
            .until(|switch| switch.forwards_by("203.0.113.1", 1).as_deref() == Some("up2"))
            .await;
        daemon.stop().await;
    });
}

#[test]
fn what_another_hand_takes_out_of_the_table_of_marks_is_put_back() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        session
            .add_pin("vni-100", pin(2, "10.1.1.1/32", Some((17, 49152)), 2))
            .await;
        let whole = switch.marks();
        let without_chain =
            "flush chain bridge weft postrouting; delete chain bridge weft postrouting";
        for (commands, named) in [
            (
                "flush map bridge weft pins4",
                "\"vxlan100\" . 10.1.1.1 in map pins4",
            ),
            ("flush chain bridge weft pin1", "rule 1 of chain pin1"),
            (
                "flush chain bridge weft postrouting",
                "rule 1 of chain postrouting",
            ),
            (without_chain, "chain postrouting"),
            ("flush table bridge weft", "rule 1 of chain forward"),
            (
                "flush chain bridge weft pin1; add rule bridge weft pin1 accept",
                "rule 1 of chain pin1",
            ),
        ] {
            let text = mended(switch, &daemon, commands, &whole).await;
            assert!(text.contains(named), "{commands}: {text}");
        }
        // The renewal sees these itself.
        for commands in [
            &format!(
                "flush chain bridge weft forward; {without_chain}; delete set bridge weft vxlan"
            ),
            "delete table bridge weft",
        ] {
            let text = mended(switch, &daemon, commands, &whole).await;
            assert!(text.contains("No such file or directory"), "{text}");
        }
        switch.nft("flush set bridge weft vxlan");
        switch.until(|switch| switch.marked()).await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn what_another_hand_puts_into_the_table_of_marks_goes() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let whole = switch.marks();
        for (commands, named) in [
            (
                "add element bridge weft pins4 { \"vxlan200\" . 10.1.1.2 : accept }",
                "\"vxlan200\" . 10.1.1.2 in map pins4",
            ),
            (
                "delete element bridge weft pins4 { \"vxlan100\" . 10.1.1.1 }; \
                 add element bridge weft pins4 { \"vxlan100\" . 10.1.1.1 : drop }",
                "\"vxlan100\" . 10.1.1.1 in map pins4",
            ),
            (
                "insert rule bridge weft postrouting drop",
                "rule 10 of chain postrouting",
            ),
            ("add rule bridge weft pin1 drop", "rule 2 of chain pin1"),
            ("add chain bridge weft other", "chain other"),
            (
                "add chain bridge weft postrouting { policy drop; }",
                "chain postrouting",
            ),
        ] {
            let text = mended(switch, &daemon, commands, &whole).await;
            assert!(text.contains(named), "{commands}: {text}");
        }
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn weights_are_marked_again_when_another_hand_ends_that() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let whole = switch.marks();
        for commands in [
            "flush table bridge weft",
            "flush chain bridge weft postrouting",
        ] {
            let text = mended(switch, &daemon, commands, &whole).await;
            assert!(text.contains("rule 1 of chain postrouting"), "{text}");
        }
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn what_another_hand_took_out_of_the_table_of_marks_is_missed_while_nft_refuses_it() {
    on_switch(async |switch| {
        add_vxlan(switch);
        let nft = FakeNft::new("refuse-changes");
        let (daemon, mut session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        session.add(group(3, &[(2, 1)])).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let whole = switch.marks();
        nft.does("refuse-changes");
        switch.nft("flush map bridge weft pins4");
        let lost = || async {
            let entries = Session::entries(daemon.channel()).await;
            entries
                .last()
                .is_some_and(|entry| entry.ends_with("inactive"))
        };
        let wait = async {
            while !lost().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        waited.expect("said in time");
        // Weights go on.
        assert!(switch.marked());
        assert_eq!(daemon.condition("MARKS_UNAVAILABLE").await, None);
        nft.does("work");
        switch.until(|switch| switch.marks() == whole).await;
        let text = daemon.until_condition("MARKS_REMOVED").await;
        assert!(text.contains("10.1.1.1 in map pins4"), "{text}");
        assert!(!lost().await);

        nft.does("refuse-changes");
        switch.nft("flush chain bridge weft postrouting");
        let text = daemon.until_condition("MARKS_UNAVAILABLE").await;
        assert!(text.contains("Device or resource busy"), "{text}");
        nft.does("work");
        switch.until(|switch| switch.marks() == whole).await;
        daemon.until_mended("MARKS_UNAVAILABLE").await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

/// A table that is put anew has its pins from the first packet on, as many as they are.
#[test]
fn weights_and_pins_are_put_back_in_one_transaction() {
    on_switch(async |switch| {
        add_vxlan(switch);
        let nft = FakeNft::new("record");
        let (daemon, mut session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        session.add(group(3, &[(2, 1)])).await;
        let mut operations = Vec::new();
        for index in 0..MANY {
            let destination = format!("10.1.{}.{}/32", index >> 8, index & 0xff);
            let entry = pin(index + 1, &destination, None, 3);
            let mut operation = session.operation(Operation::Add, entry);
            operation.network_instance = "vni-100".to_owned();
            operations.push(operation);
        }
        session.batch(operations).await;
        let count = usize::try_from(MANY).expect("few");
        let there = |switch: &Switch| switch.marked() && switch.pins("pins4").len() == count;
        switch.until(there).await;
        // What is on its way to the table is a transaction too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        nft.does("record");
        let causes: [&dyn Fn(); 3] = [
            &|| drop(switch.nft("delete table bridge weft")),
            &|| drop(switch.nft("flush ruleset")),
            // The table is as it was, and packets are marked all the time.
            &|| {
                let running = daemon.started("-i").expect("started");
                nix::sys::signal::kill(running, nix::sys::signal::Signal::SIGKILL).expect("alive");
            },
        ];
        for (before, cause) in causes.iter().enumerate() {
            cause();
            switch
                .until(|switch| nft.told().len() > before && there(switch))
                .await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            let told = nft.told();
            assert_eq!(told.len(), before + 1, "one transaction");
            let told = told.last().expect("one");
            for part in [
                "meta mark set mark and 0xffff or 0x57000000",
                "add element bridge weft vxlan { \"vxlan100\" timeout 1000ms }",
                "add map bridge weft pins4",
            ] {
                assert!(told.contains(part), "{part}");
            }
            assert_eq!(told.matches(" counter : goto pin1").count(), count);
        }
        let lost = Session::entries(daemon.channel()).await;
        assert!(!lost.iter().any(|entry| entry.ends_with("inactive")));
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

/// Pins of one leaf in a large fabric.
const MANY: u64 = 2_048;

#[test]
fn weights_are_put_back_alone_while_nft_refuses_pins() {
    on_switch(async |switch| {
        add_vxlan(switch);
        let nft = FakeNft::new("refuse-pins");
        let (daemon, mut session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        session.add(group(3, &[(2, 1)])).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let whole = switch.marks();
        nft.does("refuse-pins");
        switch.nft("delete table bridge weft");
        switch.until(|switch| switch.marked()).await;
        assert_eq!(switch.pins("pins4"), [""; 0]);
        let lost = async || {
            let entries = Session::entries(daemon.channel()).await;
            entries
                .last()
                .is_some_and(|entry| entry.ends_with("inactive"))
        };
        let wait = async {
            while !lost().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        waited.expect("said in time");
        assert_eq!(daemon.condition("MARKS_UNAVAILABLE").await, None);
        nft.does("work");
        switch.until(|switch| switch.marks() == whole).await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn a_rule_that_another_hand_narrows_is_put_back() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let whole = switch.marks();
        let sets = "meta mark set mark and 0xffff or 0x57010000";
        for rule in [
            format!("ip daddr 10.9.9.9 {sets}"),
            format!("{sets} accept"),
        ] {
            // The agent lists the table every five seconds, and knows then how this nft shows its rules.
            tokio::time::sleep(Duration::from_secs(7)).await;
            let commands =
                format!("flush chain bridge weft pin1; add rule bridge weft pin1 {rule}");
            let text = mended(switch, &daemon, &commands, &whole).await;
            assert!(text.contains("rule 1 of chain pin1"), "{commands}: {text}");
        }
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

/// Changes the table of marks by these commands, and waits until it is as before. What the agent says of it.
async fn mended(
    switch: &Switch,
    daemon: &super::Daemon,
    commands: &str,
    whole: &[String],
) -> String {
    switch.nft(commands);
    assert_ne!(switch.marks(), whole, "{commands}");
    let begun = Instant::now();
    switch.until(|switch| switch.marks() == whole).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{commands}: {took:?}");
    // The text of the one before is there until this one is told of.
    tokio::time::sleep(Duration::from_secs(1)).await;
    daemon.until_condition("MARKS_REMOVED").await
}

#[test]
fn a_pin_without_its_device_waits_for_it() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        let shown = session
            .pin(Operation::Add, "vni-300", pin(1, "10.1.1.1/32", None, 3))
            .await;
        assert_eq!(
            shown,
            ["RIB_PROGRAMMED there is no VXLAN device for vni-300"]
        );
        switch.ip("link add vxlan300 type vxlan id 300 local 192.0.2.1 dstport 4789 nolearning");
        switch
            .until(|switch| switch.pins("pins4") == ["\"vxlan300\" . 10.1.1.1 goto pin1"])
            .await;
        daemon.stop().await;
    });
}

#[test]
fn an_nft_that_refuses_pins_is_told_to_the_client() {
    on_switch(async |switch| {
        add_vxlan(switch);
        let nft = FakeNft::new("pins");
        let (daemon, mut session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        session.add(group(3, &[(2, 1)])).await;
        nft.does("refuse");
        let shown = session
            .pin(Operation::Add, "vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let last = shown.last().expect("an answer");
        assert!(last.starts_with("FIB_FAILED nft: Error"), "{shown:?}");
        // Weights go on.
        for _ in 0..30 {
            assert!(switch.has_rule() && switch.marked());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        nft.does("work");
        switch
            .until(|switch| !switch.pins("pins4").is_empty())
            .await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn a_pin_that_is_deleted_at_once_is_gone() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        for turn in 0..20 {
            let (group, other) = if turn % 2 == 0 { (2, 3) } else { (3, 2) };
            let mut operations = Vec::new();
            for (op, group) in [
                (Operation::Add, group),
                (Operation::Delete, 0),
                (Operation::Add, other),
            ] {
                let entry = pin(1, "10.1.1.1/32", None, group);
                let mut operation = session.operation(op, entry);
                operation.network_instance = "vni-100".to_owned();
                operations.push(operation);
            }
            session.batch(operations).await;
        }
        // The last one asked for the first uplink.
        let slot = |switch: &Switch| {
            let pins = switch.pins("pins4");
            let slot = pins.first()?.rsplit_once("pin")?.1.parse::<u32>().ok()?;
            switch.forwards_by("203.0.113.1", slot)
        };
        switch
            .until(|switch| slot(switch).as_deref() == Some("up1"))
            .await;
        session
            .send(weft_proto::gribi::ModifyRequest::default())
            .await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn what_cannot_be_matched_is_refused() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        let refused = [
            (
                "vni-100",
                pin(1, "10.1.1.0/24", None, 3),
                "more than one address",
            ),
            ("vni-100", pin(1, "10.1.1.1", None, 3), "is not a prefix"),
            (
                "vni-100",
                pin(1, "10.1.1.1/32", None, 9),
                "there is no next-hop group 9",
            ),
            (
                "vni-100",
                pin(0, "10.1.1.1/32", None, 3),
                "the index is zero",
            ),
            (
                "vni-100",
                pin(1, "10.1.1.1/32", Some((256, 1)), 3),
                "there is no such protocol",
            ),
            (
                "vni-100",
                pin(1, "10.1.1.1/32", Some((17, 65_536)), 3),
                "there is no such source port",
            ),
            (
                "vni-16777216",
                pin(1, "10.1.1.1/32", None, 3),
                "there is no network instance",
            ),
        ];
        for (instance, entry, text) in refused {
            refuses(&mut session, instance, entry, text).await;
        }
        session
            .add_pin("vni-100", pin(1, "10.1.1.1/32", None, 3))
            .await;
        let shown = session
            .pin(Operation::Add, "vni-100", pin(2, "10.1.1.1/32", None, 3))
            .await;
        let text = "FAILED policy forwarding entry 1 of vni-100 is for vni-100, 10.1.1.1 already";
        assert_eq!(shown, [text]);
        session
            .delete_fails(
                group(3, &[]),
                "is used by policy forwarding entry 1 of vni-100",
            )
            .await;
        assert_eq!(
            switch.route("203.0.113.0/24").expect("installed")["metric"],
            json!(10)
        );
        session.add(next_hop(3, "192.0.2.3", None)).await;
        session.add(prefix("203.0.113.0/24", 2)).await;
        daemon.stop().await;
    });
}
