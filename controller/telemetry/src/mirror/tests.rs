//! Notifications as switches send them, and what is known after them.

use proptest::prelude::*;
use weft_proto::gnmi::typed_value::Value as Typed;
use weft_proto::gnmi::{PathElem, TypedValue};

use super::*;

const SECOND_NS: i64 = 1_000_000_000;

/// A path as people write it, of names and of keys called as the list wants them.
fn path(text: &str) -> Path {
    let elem = text.split('/').filter(|part| !part.is_empty()).map(|part| {
        let (name, key) = part.split_once('[').unwrap_or((part, ""));
        let key = key.strip_suffix(']').map(|value| {
            let key = if name == "neighbor" { "id" } else { "name" };
            (key.to_owned(), value.to_owned())
        });
        PathElem {
            name: name.into(),
            key: key.into_iter().collect(),
        }
    });
    Path {
        elem: elem.collect(),
        ..Path::default()
    }
}

fn update(at: &str, value: Typed) -> Update {
    Update {
        path: Some(path(at)),
        val: Some(TypedValue { value: Some(value) }),
        duplicates: 0,
    }
}

fn text(at: &str, value: &str) -> Update {
    update(at, Typed::StringVal(value.into()))
}

fn at(second: i64, updates: Vec<Update>) -> Notification {
    Notification {
        timestamp: second * SECOND_NS,
        update: updates,
        ..Notification::default()
    }
}

fn deletes(paths: &[&str]) -> Notification {
    Notification {
        delete: paths.iter().map(|text| path(text)).collect(),
        ..Notification::default()
    }
}

/// Two interfaces with everything, each with one neighbour.
fn full() -> Mirror {
    let mut mirror = Mirror::default();
    for name in ["eth1", "eth2"] {
        let own = format!("/interfaces/interface[{name}]");
        let far = format!("/lldp/interfaces/interface[{name}]/neighbors/neighbor[1]/state");
        let octets = Typed::UintVal(5);
        let updates = vec![
            text(&format!("{own}/state/oper-status"), "UP"),
            update(&format!("{own}/state/last-change"), Typed::UintVal(7)),
            update(&format!("{own}/state/counters/in-octets"), octets),
            text(&format!("{own}/ethernet/state/port-speed"), "SPEED_100GB"),
            text(&format!("{far}/system-name"), "spine1"),
            text(&format!("{far}/port-id"), "swp1"),
        ];
        mirror.learn(&at(1, updates), Duration::from_secs(1));
    }
    assert!(mirror.oddities().is_empty(), "{}", mirror.oddities());
    mirror
}

fn names(mirror: &Mirror) -> Vec<String> {
    let interfaces = mirror.interfaces();
    interfaces.keys().map(ToString::to_string).collect()
}

#[test]
fn an_interface_is_put_together() {
    let interfaces = full().interfaces();
    let neighbor = Neighbor {
        system_name: Some("spine1".into()),
        port_id: Some("swp1".into()),
        ..Neighbor::default()
    };
    let expected = Interface {
        up: Some(true),
        last_change_unix_ns: Some(7),
        speed_bps: Some(100_000_000_000),
        counters: crate::Counters {
            in_octets: Some(Counter {
                value: 5,
                unix_ns: SECOND_NS,
                received: Duration::from_secs(1),
            }),
            ..crate::Counters::default()
        },
        neighbors: [("1".into(), neighbor)].into(),
    };
    assert_eq!(interfaces["eth1"], expected);
}

type Holds = fn(&Interface) -> bool;

#[test]
fn deletes_take_away_what_they_name() {
    let eth1 = |mirror: &Mirror| mirror.interfaces().get("eth1").cloned().unwrap_or_default();
    let table: [(&str, &str, Holds); 10] = [
        (
            "a leaf",
            "/interfaces/interface[eth1]/state/oper-status",
            |it| it.up.is_none() && it.speed_bps.is_some() && it.counters.in_octets.is_some(),
        ),
        (
            "a last change",
            "/interfaces/interface[eth1]/state/last-change",
            |it| it.last_change_unix_ns.is_none() && it.up.is_some() && it.speed_bps.is_some(),
        ),
        ("a container", "/interfaces/interface[eth1]/state", |it| {
            let none = it.up.is_none() && it.last_change_unix_ns.is_none();
            none && it.speed_bps.is_some() && it.counters.in_octets.is_none()
        }),
        (
            "the counters",
            "/interfaces/interface[eth1]/state/counters",
            |it| it.up.is_some() && it.counters.in_octets.is_none(),
        ),
        ("an entry", "/interfaces/interface[eth1]", |it| {
            it.up.is_none() && it.speed_bps.is_none() && it.neighbors.len() == 1
        }),
        (
            "a neighbour",
            "/lldp/interfaces/interface[eth1]/neighbors/neighbor[1]",
            |it| it.up.is_some() && it.neighbors.is_empty(),
        ),
        (
            "a neighbour's leaf",
            "/lldp/interfaces/interface[eth1]/neighbors/neighbor[1]/state/port-id",
            |it| it.neighbors["1"].port_id.is_none() && it.neighbors["1"].system_name.is_some(),
        ),
        (
            "a neighbour's state",
            "/lldp/interfaces/interface[eth1]/neighbors/neighbor[1]/state",
            |it| it.neighbors.is_empty(),
        ),
        ("what is not there", "/interfaces/interface[eth9]", |it| {
            it.up.is_some()
        }),
        ("beside", "/interfaces/interface[eth1]/config", |it| {
            it.up.is_some()
        }),
    ];
    for (case, path, holds) in table {
        let mut mirror = full();
        mirror.learn(&deletes(&[path]), Duration::ZERO);
        let found = eth1(&mirror);
        assert!(holds(&found), "{case}: {found:?}");
        let other = &mirror.interfaces()["eth2"];
        assert_eq!(*other, full().interfaces()["eth2"], "{case}");
    }
}

#[test]
fn deletes_of_everything_leave_nothing() {
    for paths in [
        &["/"][..],
        &["/interfaces", "/lldp"],
        &["/interfaces/interface", "/lldp/interfaces/interface[*]"],
        &[
            "/interfaces/interface[*]",
            "/lldp/interfaces/interface/neighbors/neighbor[*]",
        ],
    ] {
        let mut mirror = full();
        let changed = mirror.learn(&deletes(paths), Duration::ZERO);
        assert!(changed.state, "{paths:?}");
        assert_eq!(names(&mirror), Vec::<String>::new(), "{paths:?}");
        assert_eq!(mirror.neighbors, 0);
    }
}

#[test]
fn an_atomic_notification_replaces_what_is_below_its_prefix() {
    let mut mirror = full();
    let notification = Notification {
        prefix: Some(path("/lldp/interfaces/interface[eth1]/neighbors")),
        atomic: true,
        ..at(2, vec![text("/neighbor[7]/state/system-name", "leaf9")])
    };
    mirror.learn(&notification, Duration::ZERO);
    let interfaces = mirror.interfaces();
    let ids: Vec<_> = interfaces["eth1"]
        .neighbors
        .keys()
        .map(|id| &**id)
        .collect();
    assert_eq!(ids, ["7"]);
    assert_eq!(interfaces["eth2"].neighbors.len(), 1);
}

#[test]
fn a_late_update_changes_nothing_and_a_clock_set_back_does() {
    let octets = "/interfaces/interface[eth1]/state/counters/in-octets";
    let status = "/interfaces/interface[eth1]/state/oper-status";
    let mut mirror = Mirror::default();
    let mut learn = |second, number, status_text| {
        let updates = vec![
            update(octets, Typed::UintVal(number)),
            text(status, status_text),
        ];
        mirror.learn(&at(second, updates), Duration::ZERO);
        let eth1 = mirror.interfaces()["eth1"].clone();
        let number = eth1.counters.in_octets.map(|counter| counter.value);
        (number, eth1.up, mirror.oddities().of(Odd::Late))
    };
    assert_eq!(learn(1000, 10, "UP"), (Some(10), Some(true), 0));
    assert_eq!(learn(999, 9, "DOWN"), (Some(10), Some(true), 2));
    assert_eq!(learn(1000, 11, "DOWN"), (Some(11), Some(false), 2));
    assert_eq!(learn(500, 12, "UP"), (Some(12), Some(true), 2));
}

#[test]
fn a_last_change_is_learnt_in_each_encoding_and_is_a_change_of_state() {
    let leaf = "/interfaces/interface[eth1]/state/last-change";
    let mut mirror = Mirror::default();
    let mut learn = |second, value| {
        let changed = mirror.learn(&at(second, vec![update(leaf, value)]), Duration::ZERO);
        let found = mirror.interfaces().get("eth1").cloned();
        let found = found.and_then(|eth1| eth1.last_change_unix_ns);
        (found, changed.state)
    };
    assert_eq!(learn(100, Typed::UintVal(7)), (Some(7), true));
    let ietf = || Typed::JsonIetfVal("\"1700000000000000001\"".into());
    let large = Some(1_700_000_000_000_000_001);
    assert_eq!(learn(101, ietf()), (large, true));
    assert_eq!(learn(102, ietf()), (large, false), "told again");
    assert_eq!(learn(101, Typed::UintVal(7)), (large, false), "late");
    assert_eq!(learn(103, Typed::IntVal(-7)), (large, false), "none");
    assert_eq!(mirror.oddities().of(Odd::Late), 1);
    assert_eq!(mirror.oddities().of(Odd::Value), 1);
}

#[test]
fn speeds() {
    let table = [
        ("SPEED_100GB", Ok(Some(100_000_000_000))),
        ("SPEED_2500MB", Ok(Some(2_500_000_000))),
        ("SPEED_1TB", Ok(Some(1_000_000_000_000))),
        ("SPEED_UNKNOWN", Ok(None)),
        ("SPEED_GB", Err(Odd::Value)),
        ("SPEED_99999999999999999999GB", Err(Odd::Value)),
        ("SPEED_18446744073709551615GB", Err(Odd::Value)),
        ("100G", Err(Odd::Value)),
    ];
    for (written, expected) in table {
        assert_eq!(speed_bps(written), expected, "{written}");
    }
}

#[test]
fn the_negotiated_speed_goes_before_the_configured_one() {
    let speed = |leaf, value| {
        text(
            &format!("/interfaces/interface[eth1]/ethernet/state/{leaf}"),
            value,
        )
    };
    let mut mirror = Mirror::default();
    let updates = vec![
        speed("negotiated-port-speed", "openconfig-if-ethernet:SPEED_25GB"),
        speed("port-speed", "SPEED_100GB"),
    ];
    assert!(mirror.learn(&at(1, updates.clone()), Duration::ZERO).state);
    assert_eq!(mirror.interfaces()["eth1"].speed_bps, Some(25_000_000_000));
    // Said again, it is no change.
    assert!(!mirror.learn(&at(2, updates), Duration::ZERO).state);
}

#[test]
fn what_is_not_understood_is_counted_and_named() {
    let status = "/interfaces/interface[eth1]/state/oper-status";
    let table = [
        (
            "a status that is none",
            text(status, "SIDEWAYS"),
            Odd::Value,
        ),
        (
            "a number as status",
            update(status, Typed::UintVal(1)),
            Odd::Value,
        ),
        (
            "octets",
            update(status, Typed::BytesVal("x".into())),
            Odd::Encoding,
        ),
        (
            "another tree",
            text("/system/state/hostname", "leaf1"),
            Odd::UnknownPath,
        ),
        (
            "no key",
            text("/interfaces/interface/state/oper-status", "UP"),
            Odd::Key,
        ),
        (
            "half a JSON",
            update(status, Typed::JsonIetfVal("{".into())),
            Odd::Json,
        ),
        ("nothing", Update::default(), Odd::NoValue),
        (
            "a key of 10 kB",
            text(
                &format!(
                    "/interfaces/interface[{}]/state/oper-status",
                    "x".repeat(10_000)
                ),
                "UP",
            ),
            Odd::Key,
        ),
    ];
    for (case, update, odd) in table {
        let mut mirror = Mirror::default();
        mirror.learn(&at(1, vec![update]), Duration::ZERO);
        assert_eq!(
            mirror.oddities().of(odd),
            1,
            "{case}: {}",
            mirror.oddities()
        );
        assert!(mirror.interfaces().is_empty(), "{case}");
        assert!(mirror.oddities().to_string().len() < 512, "{case}");
    }
}

#[test]
fn what_nobody_needs_is_not_odd() {
    let mut mirror = Mirror::default();
    let updates = vec![
        text("/interfaces/interface[eth1]/state/admin-status", "UP"),
        update(
            "/interfaces/interface[eth1]/state/counters/in-pkts",
            Typed::UintVal(1),
        ),
        update(
            "/interfaces/interface[eth1]/state/logical",
            Typed::BytesVal("x".into()),
        ),
        text("/lldp/state/system-name", "leaf1"),
    ];
    let changed = mirror.learn(&at(1, updates), Duration::ZERO);
    assert_eq!(changed, Changed::default());
    assert!(mirror.oddities().is_empty(), "{}", mirror.oddities());
}

#[test]
fn names_of_neighbours_are_cut_and_made_safe() {
    let name = "/lldp/interfaces/interface[eth1]/neighbors/neighbor[1]/state/system-name";
    let mut mirror = Mirror::default();
    mirror.learn(
        &at(1, vec![text(name, &"x\u{1b}".repeat(5_000))]),
        Duration::ZERO,
    );
    let interfaces = mirror.interfaces();
    let name = interfaces["eth1"].neighbors["1"].system_name.clone();
    let name = name.expect("kept");
    assert!(name.len() <= NAME_MAX + '…'.len_utf8() && name.ends_with('…'));
    assert!(!name.contains(char::is_control));
}

#[test]
fn interfaces_and_neighbours_have_bounds() {
    let mut mirror = Mirror::default();
    for number in 0..INTERFACES_MAX + 10 {
        let status = format!("/interfaces/interface[eth{number}]/state/oper-status");
        mirror.learn(&at(1, vec![text(&status, "UP")]), Duration::ZERO);
    }
    assert_eq!(mirror.interfaces().len(), INTERFACES_MAX);
    assert_eq!(mirror.oddities().of(Odd::ManyInterfaces), 10);
    for number in 0..20 {
        let far =
            format!("/lldp/interfaces/interface[eth1]/neighbors/neighbor[{number}]/state/port-id");
        mirror.learn(&at(1, vec![text(&far, "swp1")]), Duration::ZERO);
    }
    assert_eq!(
        mirror.interfaces()["eth1"].neighbors.len(),
        NEIGHBORS_OF_INTERFACE_MAX
    );
    assert_eq!(mirror.oddities().of(Odd::ManyNeighbors), 12);
    let many = ["/interfaces/interface[*]/config"; 100];
    mirror.learn(&deletes(&many), Duration::ZERO);
    assert_eq!(mirror.oddities().of(Odd::ManyDeletes), 36);
}

fn any_path() -> impl Strategy<Value = Path> {
    let names = [
        "interfaces",
        "interface",
        "state",
        "counters",
        "oper-status",
        "in-octets",
        "lldp",
        "neighbors",
        "neighbor",
        "system-name",
        "ethernet",
        "port-speed",
        "*",
        "",
        "interface[name=e]",
    ];
    let elem = (
        proptest::sample::select(names.to_vec()),
        proptest::option::of("[a-c*]{0,2}"),
    );
    let elems = proptest::collection::vec(elem, 0..8).prop_map(|elems| Path {
        elem: elems
            .into_iter()
            .map(|(name, key)| PathElem {
                name: name.into(),
                key: key
                    .into_iter()
                    .map(|key| (if name == "neighbor" { "id" } else { "name" }.into(), key))
                    .collect(),
            })
            .collect(),
        ..Path::default()
    });
    let known = proptest::sample::select(vec![
        "/interfaces/interface[a]/state/oper-status",
        "/interfaces/interface[b]/state/counters/in-octets",
        "/lldp/interfaces/interface[a]/neighbors/neighbor[1]/state/system-name",
        "/interfaces/interface[a]",
        "/interfaces",
        "/lldp",
    ]);
    prop_oneof![elems, known.prop_map(path)]
}

fn any_value() -> impl Strategy<Value = Option<TypedValue>> {
    let value = prop_oneof![
        any::<u64>().prop_map(Typed::UintVal),
        any::<i64>().prop_map(Typed::IntVal),
        any::<f64>().prop_map(Typed::DoubleVal),
        any::<String>().prop_map(Typed::StringVal),
        proptest::sample::select(vec!["UP", "DOWN", "7", "SPEED_1GB"])
            .prop_map(|it| Typed::StringVal(it.into())),
        any::<Vec<u8>>().prop_map(|octets| Typed::JsonVal(octets.into())),
        proptest::sample::select(vec![
            r#"{"interface":[{"name":"a","state":{"oper-status":"UP"}},{"name":7}]}"#,
            r#"{"state":{"counters":{"in-octets":"18446744073709551615"}}}"#,
            r#"[[[{}]]]"#,
        ])
        .prop_map(|it| Typed::JsonIetfVal(it.into())),
    ];
    proptest::option::of(value.prop_map(|value| TypedValue { value: Some(value) }))
}

fn any_notification() -> impl Strategy<Value = Notification> {
    let update = (proptest::option::of(any_path()), any_value()).prop_map(|(path, val)| Update {
        path,
        val,
        duplicates: 0,
    });
    (
        any::<i64>(),
        proptest::option::of(any_path()),
        proptest::collection::vec(update, 0..6),
        proptest::collection::vec(any_path(), 0..4),
        any::<bool>(),
    )
        .prop_map(|(timestamp, prefix, update, delete, atomic)| Notification {
            timestamp,
            prefix,
            update,
            delete,
            atomic,
        })
}

proptest! {
    #[test]
    fn no_notification_breaks_the_mirror(notifications in proptest::collection::vec(any_notification(), 0..20)) {
        let mut mirror = Mirror::default();
        for (second, notification) in (0..).zip(&notifications) {
            mirror.learn(notification, Duration::from_secs(second));
            let interfaces = mirror.interfaces();
            let neighbors: usize = interfaces.values().map(|interface| interface.neighbors.len()).sum();
            prop_assert_eq!(neighbors, mirror.neighbors);
        }
        mirror.learn(&deletes(&["/"]), Duration::ZERO);
        prop_assert!(mirror.interfaces().is_empty());
    }
}
