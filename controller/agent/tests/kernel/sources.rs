//! Pins by source address and by port of the bridge, against a real kernel and a real nft, with packets.

use weft_proto::gribi::aft_operation::Operation;

use super::is_clean;
use super::pins::{pinnable, refuses};
use super::session::{Session, everywhere, pin};
use super::switch::{Switch, on_switch};

/// Ports h1 and h2 of a bridge with the device of VNI 100, and pins by address, port and UDP source port. Those of the first uplink
/// have slot 2, those of the second slot 1.
async fn told_apart(switch: &Switch) -> (super::Daemon, Session) {
    let (daemon, mut session) = pinnable(switch).await;
    // Interfaces that speak by themselves would be counted with what is sent.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("writable");
    switch.ip("link add br0 type bridge");
    for port in ["h1", "h2"] {
        switch.ip(&format!("link add {port} type veth peer name {port}x"));
        switch.ip(&format!("link set {port} master br0"));
        switch.ip(&format!("link set {port} up"));
        switch.ip(&format!("link set {port}x up"));
    }
    switch.ip("link set vxlan100 master br0");
    for link in ["br0", "vxlan100"] {
        switch.ip(&format!("link set {link} up"));
    }
    let pinned = [
        ("vni-100", pin(1, "10.1.1.1/32", None, 3)),
        ("vni-100-source-10.1.0.1", pin(1, "10.1.1.1/32", None, 2)),
        (
            "vni-100-source-10.1.0.1",
            pin(2, "10.1.1.1/32", Some((17, 49152)), 3),
        ),
        ("vni-100-port-h2", everywhere(1, 2)),
        ("vni-100-port-h2", pin(2, "10.1.1.2/32", None, 3)),
        (
            "vni-100-source-2001:db8::1",
            pin(1, "2001:db8::2/128", None, 2),
        ),
    ];
    for (instance, entry) in pinned {
        session.add_pin(instance, entry).await;
    }
    (daemon, session)
}

#[test]
fn pins_tell_packets_apart_by_their_source() {
    on_switch(async |switch| {
        let (daemon, mut session) = told_apart(switch).await;
        let (by_group_3, by_group_2) = ("pin1", "pin2");
        let pair = format!("\"vxlan100\" . 10.1.0.1 . 10.1.1.1 goto {by_group_2}");
        assert_eq!(switch.pins("sources4"), [pair]);
        let queue_pair =
            format!("\"vxlan100\" . 10.1.0.1 . 10.1.1.1 . udp . 49152 goto {by_group_3}");
        assert_eq!(switch.pins("source_ports4"), [queue_pair]);
        let of_port = format!("\"vxlan100\" . \"h2\" goto {by_group_2}");
        assert_eq!(switch.pins("interfaces"), [of_port]);
        let to_one = format!("\"vxlan100\" . \"h2\" . 10.1.1.2 goto {by_group_3}");
        assert_eq!(switch.pins("interface_pins4"), [to_one]);
        let entries = Session::entries(daemon.channel()).await;
        let of_vni = entries.iter().filter(|entry| entry.starts_with("vni-"));
        let of_vni: Vec<&str> = of_vni.map(String::as_str).collect();
        let expected = [
            "vni-100 policy 1 10.1.1.1/32 3",
            "vni-100-source-10.1.0.1 policy 1 10.1.1.1/32 2",
            "vni-100-source-10.1.0.1 policy 2 10.1.1.1/32 3",
            "vni-100-source-2001:db8::1 policy 1 2001:db8::2/128 2",
            "vni-100-port-h2 policy 1 - 2",
            "vni-100-port-h2 policy 2 10.1.1.2/32 3",
        ];
        assert_eq!(of_vni, expected);

        // What another hand takes away is put back.
        switch.nft("flush chain bridge weft forward");
        daemon.until_condition("MARKS_REMOVED").await;
        switch
            .until(|switch| {
                switch
                    .nft("list chain bridge weft forward")
                    .contains("@interfaces")
            })
            .await;
        let shown = session
            .pin(Operation::Delete, "vni-100-port-h2", everywhere(1, 0))
            .await;
        assert_eq!(shown.last().map(String::as_str), Some("FIB_PROGRAMMED"));
        assert!(switch.pins("interfaces").is_empty());
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

/// Each is marked by what says most of it.
#[test]
fn packets_go_by_the_pin_of_their_source() {
    on_switch(async |switch| {
        let (daemon, session) = told_apart(switch).await;
        switch.nft(
            "table bridge seen { chain postrouting { type filter hook postrouting priority 200; \
             oifname vxlan100 udp dport 4791 meta mark vmap @marks; }; \
             map marks { type mark : verdict; counter; elements = { 0x57000000 counter : accept, \
             0x57010000 counter : accept, 0x57020000 counter : accept }; }; }",
        );
        let seen = |switch: &Switch| {
            let listed = switch.nft("list map bridge seen marks");
            let packets = listed.split("packets ").skip(1);
            let packets = packets.filter_map(|rest| rest.split(' ').next()?.parse::<u32>().ok());
            packets.collect::<Vec<_>>()
        };
        // Port, source, destination and UDP source port; and where they go: by the weights, by group 3, by group 2.
        for (port, from, to, udp, by) in [
            ("h1", "10.1.0.1", "10.1.1.1", 50_000, [0, 0, 1]),
            ("h1", "10.1.0.1", "10.1.1.1", 49_152, [0, 1, 0]),
            ("h1", "10.1.0.2", "10.1.1.1", 49_152, [0, 1, 0]),
            ("h1", "10.1.0.1", "10.1.1.3", 49_152, [1, 0, 0]),
            ("h2", "10.1.0.9", "10.1.1.9", 49_152, [0, 0, 1]),
            ("h2", "10.1.0.9", "10.1.1.2", 49_152, [0, 1, 0]),
            // An address says more than a port.
            ("h2", "10.1.0.9", "10.1.1.1", 49_152, [0, 1, 0]),
            ("h1", "2001:db8::1", "2001:db8::2", 49_152, [0, 0, 1]),
            ("h1", "2001:db8::9", "2001:db8::2", 49_152, [1, 0, 0]),
        ] {
            let before = seen(switch);
            switch.send_udp(&format!("{port}x"), (from, udp), to);
            switch.until(|switch| seen(switch) != before).await;
            let now = seen(switch).into_iter();
            let moved: Vec<u32> = now.zip(before).map(|(now, before)| now - before).collect();
            assert_eq!(moved, by, "{port} {from} {to} {udp}");
        }
        drop(session);
        daemon.stop().await;
    });
}

#[test]
fn what_has_no_such_source_is_refused() {
    on_switch(async |switch| {
        let (daemon, mut session) = pinnable(switch).await;
        let refused = [
            (
                "vni-100-source-10.1.0.0/16",
                pin(1, "10.1.1.1/32", None, 3),
                "there is no network instance",
            ),
            (
                "vni-100-source-2001:db8::1",
                pin(1, "10.1.1.1/32", None, 3),
                "2001:db8::1 and 10.1.1.1 are not of one family",
            ),
            (
                "vni-100-source-10.1.0.1",
                everywhere(1, 3),
                "needs the prefix of a destination",
            ),
        ];
        for (instance, entry, text) in refused {
            refuses(&mut session, instance, entry, text).await;
        }
        daemon.stop().await;
    });
}
