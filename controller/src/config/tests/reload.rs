//! What a changed file changes, knob by knob.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::diff::{Change, applicable, diff};
use super::super::settings::Effect;
use super::parse;
use crate::config::Config;

/// Every knob, two values of it that differ, what else they need, and what the change costs.
const KNOBS: &[(&str, &str, &str, &str, Effect)] = &[
    ("description", "\"a\"", "\"b\"", "", Effect::Applied),
    ("shutdown", "false", "true", "", Effect::SessionReset),
    (
        "shutdown_message",
        "\"a\"",
        "\"b\"",
        "shutdown = true",
        Effect::Applied,
    ),
    (
        "remote_asn",
        "\"65001-65002\"",
        "\"65001-65009\"",
        "",
        Effect::SessionReset,
    ),
    (
        "families",
        "[\"l2vpn-evpn\"]",
        "[\"l2vpn-evpn\", \"ipv4-unicast\"]",
        "",
        Effect::SessionReset,
    ),
    ("hold_secs", "9", "0", "", Effect::SessionReset),
    ("connect_retry_secs", "1", "2", "", Effect::Applied),
    ("passive", "true", "false", "", Effect::Applied),
    ("port", "179", "1179", "", Effect::Applied),
    (
        "route_reflector_client",
        "true",
        "false",
        "",
        Effect::Applied,
    ),
    ("route_server_client", "true", "false", "", Effect::Applied),
    (
        "local_as",
        "{ asn = 65010 }",
        "{ asn = 65010, no_prepend = true }",
        "",
        Effect::SessionReset,
    ),
    ("allow_as_in", "0", "10", "", Effect::Applied),
    (
        "source_address",
        "\"192.0.2.1\"",
        "false",
        "",
        Effect::SessionReset,
    ),
    ("password_file", "\"a.key\"", "false", "", Effect::Applied),
    (
        "tcp_ao",
        "[{ id = 1, key_file = \"a\" }]",
        "[{ id = 2, key_file = \"b\" }, { id = 1, key_file = \"a\" }]",
        "",
        Effect::Applied,
    ),
    ("ttl_security_hops", "1", "254", "", Effect::NextSession),
    ("ebgp_multihop", "1", "255", "", Effect::NextSession),
    ("bfd", "{ interval_ms = 100 }", "true", "", Effect::Applied),
    (
        "graceful_restart",
        "false",
        "{ restart_secs = 120 }",
        "",
        Effect::SessionReset,
    ),
    ("long_lived_secs", "0", "16777215", "", Effect::SessionReset),
    ("graceful_shutdown", "true", "false", "", Effect::Applied),
    (
        "add_path",
        "{ max = 2 }",
        "{ max = 3 }",
        "",
        Effect::Applied,
    ),
    ("software_version", "true", "false", "", Effect::NextSession),
    (
        "extended_messages",
        "true",
        "false",
        "",
        Effect::SessionReset,
    ),
    ("fqdn", "true", "false", "", Effect::NextSession),
    (
        "route_target_filter",
        "\"off\"",
        "\"auto\"",
        "",
        Effect::Applied,
    ),
    ("profile", "\"auto\"", "\"gobgp\"", "", Effect::Applied),
    ("opaque_relay", "true", "false", "", Effect::Applied),
    ("strict", "true", "false", "", Effect::Applied),
    (
        "guard",
        "\"warn\"",
        "{ next_hop = \"reject\" }",
        "",
        Effect::Applied,
    ),
    (
        "link_bandwidth",
        "\"transitive\"",
        "\"as-is\"",
        "",
        Effect::Applied,
    ),
    (
        "attributes",
        "{ pass = [35] }",
        "{ pass = [35], drop = [40] }",
        "",
        Effect::Applied,
    ),
    (
        "limits",
        "{ routes = 1 }",
        "{ type = { \"2\" = 3 } }",
        "",
        Effect::Applied,
    ),
];

/// What `limits` holds, one by one.
const LIMITS: &[(&str, &str, &str)] = &[
    ("routes", "1", "0"),
    ("l2vpn-evpn", "1", "2"),
    ("ipv4-unicast", "1", "0"),
    ("ipv6-unicast", "1", "2"),
    ("rtc", "1", "2"),
    ("type", "{ \"2\" = 1 }", "{ \"2\" = 1, \"5\" = 1 }"),
    ("macs_per_vni", "1", "2"),
    ("ips_per_mac", "1", "2"),
    ("attribute_octets", "256", "65535"),
    ("attribute_octets_total", "1", "0"),
    ("updates_per_sec", "0", "1"),
    ("warn_percent", "1", "100"),
    ("action", "\"reset\"", "\"warn\""),
    ("restart_secs", "1", "2"),
];

fn group(knobs: &str) -> Config {
    let text = format!("[[bgp.peer_group]]\nname = \"leaves\"\n{knobs}\n");
    parse(&text).unwrap_or_else(|error| panic!("{knobs}: {error}"))
}

fn peer(knobs: &str) -> Config {
    let text = format!(
        "[[bgp.peer_group]]\nname = \"leaves\"\n[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"\n{knobs}\n"
    );
    parse(&text).unwrap_or_else(|error| panic!("{knobs}: {error}"))
}

fn lines(old: &Config, new: &Config) -> Vec<String> {
    diff(old, new).iter().map(ToString::to_string).collect()
}

/// The lines about a knob, or about something in it.
fn about<'a>(changes: &'a [Change], knob: &str) -> Vec<&'a Change> {
    let named = |name: &str| name.split('.').next() == Some(knob);
    changes.iter().filter(|change| named(change.knob)).collect()
}

#[test]
fn the_table_of_knobs_has_every_knob() {
    let message = parse("[[bgp.peer_group]]\nname = \"a\"\nnonsense = 1")
        .unwrap_err()
        .to_string();
    let (_, expected) = message.split_once("expected one of").unwrap();
    let known: BTreeSet<_> = expected.split('`').skip(1).step_by(2).collect();
    // What names a table is no knob.
    let others = ["name", "address", "peer_group"];
    let tested: BTreeSet<_> = KNOBS.iter().map(|(knob, ..)| *knob).chain(others).collect();
    assert_eq!(known, tested);
    let message = parse("[[bgp.peer_group]]\nname = \"a\"\nlimits = { nonsense = 1 }")
        .unwrap_err()
        .to_string();
    let (_, expected) = message.split_once("expected one of").unwrap();
    let known: BTreeSet<_> = expected.split('`').skip(1).step_by(2).collect();
    assert_eq!(known, LIMITS.iter().map(|(limit, ..)| *limit).collect());
}

#[test]
fn a_changed_knob_is_a_line_with_its_effect() {
    for (knob, old, new, with, effect) in KNOBS {
        for side in [group, peer] {
            let (old, new) = (
                side(&format!("{knob} = {old}\n{with}")),
                side(&format!("{knob} = {new}\n{with}")),
            );
            let (there, back) = (diff(&old, &new), diff(&new, &old));
            let (there, back) = (about(&there, knob), about(&back, knob));
            assert!(!there.is_empty(), "{knob} is not in the difference");
            assert_eq!(there.len(), back.len(), "{knob} there and back");
            assert!(
                there.iter().all(|change| change.effect == *effect),
                "{knob}: {there:?}"
            );
            assert!(diff(&new, &new).is_empty(), "{knob} differs from itself");
        }
    }
}

#[test]
fn to_begin_or_cease_to_sign_with_tcp_ao_resets_the_session() {
    let signed = "tcp_ao = [{ id = 1, key_file = \"a\" }]";
    for (old, new) in [
        ("", signed),
        (signed, ""),
        (signed, "password_file = \"a\""),
    ] {
        let (old, new) = (peer(old), peer(new));
        let changes = diff(&old, &new);
        let [change] = &about(&changes, "tcp_ao")[..] else {
            panic!("{changes:?}");
        };
        assert_eq!(change.effect, Effect::SessionReset);
    }
    let shown = lines(&peer(""), &peer(signed));
    let expected = "peer 192.0.2.1: tcp_ao: false -> [{ send_id = 1, recv_id = 1, algorithm = \"hmac-sha-1-96\", tcp_options = true, key_file = \"a\" }] (session reset)";
    assert_eq!(shown, [expected]);
}

#[test]
fn a_changed_limit_is_the_only_line() {
    for (limit, old, new) in LIMITS {
        let (old, new) = (
            group(&format!("limits = {{ {limit} = {old} }}")),
            group(&format!("limits = {{ {limit} = {new} }}")),
        );
        let changes = diff(&old, &new);
        let [change] = &changes[..] else {
            panic!("{limit}: {changes:?}");
        };
        assert_eq!(change.knob, format!("limits.{limit}"));
        assert_eq!(change.effect, Effect::Applied);
    }
}

#[test]
fn lines_read_as_the_file_is_written() {
    let (old, new) = (group("hold_secs = 9"), group("hold_secs = 30"));
    assert_eq!(
        lines(&old, &new),
        ["peer_group leaves: hold_secs: 9 -> 30 (session reset)"]
    );
    let (old, new) = (group("bfd = true"), group("bfd = { multiplier = 5 }"));
    assert_eq!(
        lines(&old, &new),
        [
            "peer_group leaves: bfd: { interval_ms = 300, multiplier = 3 } -> { interval_ms = 300, multiplier = 5 } (applied)"
        ]
    );
}

#[test]
fn memberships_cost_a_session_because_the_open_has_another_family() {
    let (off, rtc) = (group(""), group("route_target_filter = \"rtc\""));
    let line = "peer_group leaves: route_target_filter: \"off\" -> \"rtc\" (session reset)";
    assert_eq!(lines(&off, &rtc), [line]);
    assert_eq!(diff(&rtc, &off)[0].effect, Effect::SessionReset);
}

#[test]
fn what_a_group_says_is_not_said_again_of_its_peers() {
    let file = |hold_secs: u16, own: &str| {
        let text = format!(
            "[[bgp.peer_group]]\nname = \"leaves\"\nhold_secs = {hold_secs}\n\
             [[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"\n\
             [[bgp.peer]]\naddress = \"192.0.2.2\"\npeer_group = \"leaves\"\n{own}\n"
        );
        parse(&text).unwrap()
    };
    assert_eq!(
        lines(&file(9, ""), &file(30, "strict = true")),
        [
            "peer_group leaves: hold_secs: 9 -> 30 (session reset)",
            "peer 192.0.2.2: strict: false -> true (applied)",
        ]
    );
    // One that has a value of its own does not follow its group.
    let own = "hold_secs = 30";
    assert_eq!(
        lines(&file(9, own), &file(30, "")),
        ["peer_group leaves: hold_secs: 9 -> 30 (session reset)"]
    );
    assert_eq!(
        lines(&file(9, own), &file(9, "")),
        ["peer 192.0.2.2: hold_secs: 30 -> 9 (session reset)"]
    );
}

#[test]
fn peers_groups_ranges_and_collectors_come_and_go() {
    let full = parse(
        "[[bgp.peer_group]]\nname = \"leaves\"\n[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"\n\
         [[bgp.listen_range]]\nprefix = \"192.0.2.0/24\"\npeer_group = \"leaves\"\n\
         [[bmp]]\naddress = \"192.0.2.9:1790\"\n",
    )
    .unwrap();
    let empty = parse("").unwrap();
    let subjects = [
        "peer_group leaves",
        "listen_range 192.0.2.0/24",
        "peer 192.0.2.1",
        "bmp 192.0.2.9:1790",
    ];
    let added = subjects.map(|subject| format!("{subject}: added (applied)"));
    assert_eq!(lines(&empty, &full), added);
    // The sessions of a range and of a peer end with them.
    let effects = ["applied", "session reset", "session reset", "applied"];
    let removed: Vec<_> = subjects.into_iter().zip(effects).collect();
    let removed: Vec<_> = removed
        .iter()
        .map(|(subject, effect)| format!("{subject}: removed ({effect})"))
        .collect();
    assert_eq!(lines(&full, &empty), removed);
}

#[test]
fn who_falls_under_another_range_pays_for_what_differs() {
    let file = |more: &str| {
        let text = format!(
            "[[bgp.peer_group]]\nname = \"a\"\n[[bgp.peer_group]]\nname = \"b\"\nhold_secs = 9\n\
             [[bgp.listen_range]]\nprefix = \"192.0.2.0/24\"\npeer_group = \"a\"\n{more}"
        );
        parse(&text).unwrap()
    };
    let range = |group: &str| {
        format!("[[bgp.listen_range]]\nprefix = \"192.0.2.0/28\"\npeer_group = \"{group}\"\n")
    };
    let peer =
        |group: &str| format!("[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"{group}\"\n");
    let subjects = ["listen_range 192.0.2.0/28", "peer 192.0.2.1"];
    for (subject, more) in subjects.iter().zip([range("b"), peer("b")]) {
        let (bare, other) = (file(""), file(&more));
        let said = |word: &str| [format!("{subject}: {word} (session reset)")];
        assert_eq!(lines(&bare, &other), said("added"));
        assert_eq!(lines(&other, &bare), said("removed"));
    }
    for (subject, more) in subjects.iter().zip([range("a"), peer("a")]) {
        let (bare, same) = (file(""), file(&more));
        let said = |word: &str| [format!("{subject}: {word} (applied)")];
        assert_eq!(lines(&bare, &same), said("added"));
        assert_eq!(lines(&same, &bare), said("removed"));
    }
}

#[test]
fn a_peer_that_changes_its_group_pays_for_what_differs() {
    let file = |group: &str| {
        let text = format!(
            "[[bgp.peer_group]]\nname = \"a\"\n[[bgp.peer_group]]\nname = \"b\"\nhold_secs = 9\n\
             [[bgp.listen_range]]\nprefix = \"192.0.2.0/24\"\npeer_group = \"{group}\"\n\
             [[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"{group}\"\n"
        );
        parse(&text).unwrap()
    };
    assert_eq!(
        lines(&file("a"), &file("b")),
        [
            "listen_range 192.0.2.0/24: peer_group: \"a\" -> \"b\" (session reset)",
            "peer 192.0.2.1: peer_group: \"a\" -> \"b\" (session reset)",
            "peer 192.0.2.1: hold_secs: 90 -> 9 (session reset)",
        ]
    );
}

#[test]
fn what_needs_a_restart_is_said_until_there_was_one() {
    let old = parse("").unwrap();
    let cases = [
        ("[bgp]\nasn = 65000", "bgp: asn: 64512 -> 65000"),
        (
            "[bgp]\nrouter_id = \"192.0.2.1\"\ncluster_id = \"127.0.0.1\"",
            "bgp: router_id: \"127.0.0.1\" -> \"192.0.2.1\"",
        ),
        (
            "[bgp]\ncluster_id = \"192.0.2.1\"",
            "bgp: cluster_id: \"127.0.0.1\" -> \"192.0.2.1\"",
        ),
        ("[bgp]\nlisten = []", "bgp: listen: [\"0.0.0.0:179\"] -> []"),
        (
            "[api]\nlisten = \"192.0.2.1:1\"",
            "api: listen: \"127.0.0.1:7401\" -> \"192.0.2.1:1\"",
        ),
        (
            "[metrics]\nlisten = \"192.0.2.1:1\"",
            "metrics: listen: false -> \"192.0.2.1:1\"",
        ),
        (
            "[replica]\ndata_dir = \"a\"",
            "replica: data_dir: \"weft-data\" -> \"a\"",
        ),
        (
            "[[replicas]]\nid = 1\naddress = \"weft-1:7400\"",
            "weftd: replicas: [] -> [{ id = 1, address = \"weft-1:7400\" }]",
        ),
    ];
    for (text, line) in cases {
        let new = parse(text).unwrap();
        assert_eq!(lines(&old, &new), [format!("{line} (needs restart)")]);
        let held = applicable(&old, &new);
        assert_eq!(diff(&old, &held), [], "{text} holds without a restart");
        assert_eq!(lines(&held, &new), [format!("{line} (needs restart)")]);
    }
}

#[test]
fn peers_wait_for_the_restart_that_another_as_needs() {
    let file = |asn: u32| {
        let text = format!(
            "[bgp]\nasn = {asn}\n[[bgp.peer_group]]\nname = \"leaves\"\nremote_asn = {asn}\n\
             route_reflector_client = true\n[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"\n"
        );
        parse(&text).unwrap()
    };
    let (old, new) = (file(65000), file(65001));
    let expected = [
        "bgp: asn: 65000 -> 65001 (needs restart)",
        "peer_group leaves: remote_asn: 65000 -> 65001 (needs restart)",
    ];
    assert_eq!(lines(&old, &new), expected);
    assert_eq!(applicable(&old, &new), old);
}

#[test]
fn what_concerns_no_peer_is_applied() {
    let cases = [
        (
            "[bgp]\ndynamic_peers_max = 1",
            "bgp: dynamic_peers_max: 4096 -> 1",
        ),
        (
            "[bgp]\nroute_octets_total = 0",
            "bgp: route_octets_total: 4294967296 -> 0",
        ),
        (
            "[bgp]\nvteps = [\"192.0.2.0/24\"]",
            "bgp: vteps: [] -> [\"192.0.2.0/24\"]",
        ),
        ("[bgp.moves]\nmoves = 9", "bgp.moves: moves: 5 -> 9"),
        (
            "[switches]\nca_file = \"ca.pem\"",
            "switches: ca_file: false -> \"ca.pem\"",
        ),
        (
            "[bgp.moves]\naction = \"freeze\"",
            "bgp.moves: action: \"warn\" -> \"freeze\"",
        ),
    ];
    let old = parse("").unwrap();
    for (text, line) in cases {
        let new = parse(text).unwrap();
        assert_eq!(lines(&old, &new), [format!("{line} (applied)")]);
        assert_eq!(applicable(&old, &new), new);
    }
}

/// Which of its two values each knob has, if any.
fn choice() -> impl Strategy<Value = Vec<Option<bool>>> {
    proptest::collection::vec(proptest::option::weighted(0.3, any::<bool>()), KNOBS.len())
}

fn written(choice: &[Option<bool>]) -> String {
    let chosen = choice.iter().zip(KNOBS);
    let lines = chosen.filter_map(|(choice, (knob, first, second, ..))| {
        let value = if (*choice)? { second } else { first };
        // These exclude others, and graceful_restart is needed by one.
        let alone = !matches!(*knob, "ttl_security_hops" | "tcp_ao" | "graceful_restart");
        alone.then(|| format!("{knob} = {value}\n"))
    });
    lines.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The difference is complete: with nothing in it nothing differs, and it is the same way back.
    #[test]
    fn a_difference_leaves_nothing_out(
        group in choice(), own in choice(), group_after in choice(), own_after in choice()
    ) {
        let file = |group: &[Option<bool>], own: &[Option<bool>]| {
            let text = format!(
                "[[bgp.peer_group]]\nname = \"leaves\"\n{}[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"leaves\"\n{}",
                written(group), written(own),
            );
            parse(&text).expect("each knob is right alone")
        };
        let (old, new) = (file(&group, &own), file(&group_after, &own_after));
        let changes = diff(&old, &new);
        prop_assert_eq!(changes.is_empty(), old == new);
        prop_assert_eq!(changes.len(), diff(&new, &old).len());
        let said = |knob: &str| changes.iter().any(|change| change.knob.starts_with(knob));
        for ((knob, ..), (before, after)) in KNOBS.iter().zip(group.iter().zip(&group_after)) {
            let both_written = !matches!(*knob, "ttl_security_hops" | "tcp_ao" | "graceful_restart" | "shutdown_message");
            if both_written && before.is_some() && after.is_some() && before != after {
                prop_assert!(said(knob), "{} is left out", knob);
            }
        }
    }
}
