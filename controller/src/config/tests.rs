//! What operators write, and what they are told of it.

use weft_bgp::peer::ClusterId;
use weft_bgp::table::PeerKind;

use super::*;

mod reload;
mod switches;
mod written;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("weft.toml"))
}

fn refused(text: &str) -> String {
    parse(text).expect_err("must be refused").to_string()
}

const FULL: &str = r#"
    [replica]
    id = 2
    data_dir = "weft-data"
    [[replicas]]
    id = 1
    address = "10.255.1.1:7400"
    [[replicas]]
    id = 2
    address = "10.255.1.2:7400"
    [[replicas]]
    id = 3
    address = "10.255.1.3:7400"
    [bgp]
    asn = 65000
    router_id = "10.255.1.2"
    cluster_id = "10.255.1.1"
    listen = ["0.0.0.0:179"]
    [[bgp.peer_group]]
    name = "leaves"
    remote_asn = 65000
    route_reflector_client = true
    families = ["l2vpn-evpn"]
    hold_secs = 9
    [[bgp.listen_range]]
    prefix = "10.255.0.0/24"
    peer_group = "leaves"
    [[bgp.peer]]
    address = "10.255.0.9"
    peer_group = "leaves"
    passive = false
    [api]
    listen = "127.0.0.1:7401"
    [metrics]
    listen = "127.0.0.1:7402"
"#;

#[test]
fn the_documented_file_is_understood() {
    let config = parse(FULL).unwrap();
    assert_eq!(config.replicas.len(), 3);
    assert_eq!(
        config.raft_listen(),
        Some("10.255.1.2:7400".parse().unwrap())
    );
    assert_eq!(
        config.bgp.groups["leaves"].kind(65000, 65000),
        PeerKind::IbgpClient
    );
    assert_eq!(config.bgp.local.cluster_id, ClusterId(0x0aff_0101));
}

#[test]
fn nothing_at_all_is_a_single_replica() {
    let config = parse("").unwrap();
    assert_eq!(
        config.replicas,
        vec![Member {
            id: 1,
            address: None
        }]
    );
    assert_eq!(Config::standalone().cluster(), config.cluster());
}

#[test]
fn every_mistake_names_its_place_and_its_reason() {
    let cases = [
        ("[bgp]\nasn = 0", "bgp.asn: AS 0 is reserved"),
        ("[bgp]\nasn = \"x\"", "line 2"),
        ("[bgp]\nasm = 1", "unknown field `asm`"),
        ("[replica]\nid = 0", "replica.id: must be 1 or more"),
        ("[[replicas]]\nid = 1\naddress = \"10.0.0.1\"", "line 3"),
        (
            "[[replicas]]\nid = 1\naddress = \"weft-1\"",
            "\"weft-1\" is neither an address with a port",
        ),
        (
            "[[replicas]]\nid = 1\naddress = \"[fe80::1%2]:7400\"",
            "replicas[0].address: [fe80::1%2]:7400: an address with a zone",
        ),
        (
            "[replica]\nlisten = \"10.0.0.1:7400\"",
            "replica.listen: needs [[replicas]]",
        ),
        (
            "[[bgp.peer_group]]\nname = \"a\"\nremote_asn = \"9-3\"",
            "bgp.peer_group[0].remote_asn: the range 9-3 is empty",
        ),
        (
            "[[bgp.peer_group]]\nname = \"a\"\nfamilies = [\"vpnv4\"]",
            "bgp.peer_group[0].families[0]: \"vpnv4\" is not one of l2vpn-evpn",
        ),
        (
            "[[bgp.peer_group]]\nname = \"a\"\nhold_secs = 2",
            "bgp.peer_group[0].hold_secs: must be 0 or at least 3",
        ),
        (
            "[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"b\"",
            "bgp.peer[0].peer_group: no peer group is named \"b\"",
        ),
        (
            "[bgp]\nasn = 65000\n[[bgp.peer_group]]\nname = \"a\"\nremote_asn = 65000\nroute_server_client = true",
            "bgp.peer_group[0].route_server_client: the group is iBGP",
        ),
    ];
    for (text, expected) in cases {
        let message = refused(text);
        assert!(message.starts_with("weft.toml: "), "{message}");
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[test]
fn a_replica_with_a_name_listens_at_all_addresses_unless_one_is_given() {
    let file = |listen: &str| {
        let members = [1, 2, 3].map(|id| {
            format!("[[replicas]]\nid = {id}\naddress = \"weft-{id}.example.net:7400\"\n")
        });
        let bgp = "[bgp]\ncluster_id = \"10.255.1.1\"\n";
        parse(&format!(
            "[replica]\nid = 2\n{listen}\n{}{bgp}",
            members.concat()
        ))
    };
    let listens = |listen| file(listen).unwrap().raft_listen().unwrap().to_string();
    assert_eq!(listens(""), "[::]:7400");
    assert_eq!(listens("listen = \"10.0.0.2:7000\""), "10.0.0.2:7000");
    let same = "[[replicas]]\nid = 1\naddress = \"A:1\"\n[[replicas]]\nid = 2\naddress = \"a:1\"\n";
    assert!(refused(same).contains("two replicas have the same address"));
}

#[test]
fn two_replicas_are_refused() {
    let text = "[[replicas]]\nid = 1\naddress = \"10.0.0.1:1\"\n[[replicas]]\nid = 2\naddress = \"10.0.0.2:1\"";
    assert!(refused(text).contains("1, 3 or 5"));
}

/// Mistakes in the knobs of a group; a peer's are told the same way.
const MISTAKES: &[(&str, &str)] = &[
    ("shutdown = 1", "line 3"),
    ("remote_asn = [1]", "expected an AS number"),
    ("families = []", "families: names no family"),
    (
        "connect_retry_secs = 0",
        "connect_retry_secs: must be at least 1",
    ),
    ("port = 0", "port: must be at least 1"),
    ("local_as = { asn = 0 }", "local_as.asn: AS 0 is reserved"),
    (
        "local_as = { asn = 64512 }",
        "local_as.asn: 64512 is our AS already",
    ),
    (
        "local_as = { asn = 1, replace_as = true }",
        "local_as.replace_as: needs no_prepend",
    ),
    ("local_as = { asm = 1 }", "unknown field `asm`"),
    (
        "local_as = true",
        "local_as: must be a value, or false for none",
    ),
    ("allow_as_in = 11", "allow_as_in: 11 is not 0 to 10"),
    ("source_address = \"192.0.2\"", "line 3"),
    ("password_file = \"\"", "password_file: is empty"),
    (
        "ttl_security_hops = 255",
        "ttl_security_hops: 255 is not 1 to 254",
    ),
    (
        "ttl_security_hops = 1\nebgp_multihop = 2",
        "ttl_security_hops: excludes ebgp_multihop",
    ),
    ("ebgp_multihop = 0", "ebgp_multihop: 0 is not 1 to 255"),
    ("tcp_ao = []", "tcp_ao: names no key"),
    ("tcp_ao = { id = 1 }", "line 3"),
    ("tcp_ao = [{ id = 1 }]", "missing field `key_file`"),
    ("tcp_ao = [{ id = 256, key_file = \"a\" }]", "line 3"),
    (
        "tcp_ao = [{ key_file = \"a\", send_id = 1 }]",
        "tcp_ao[0]: needs id, or send_id and recv_id",
    ),
    (
        "tcp_ao = [{ key_file = \"\", id = 1 }]",
        "tcp_ao[0].key_file: is empty",
    ),
    (
        "tcp_ao = [{ key_file = \"a\", id = 1, algorithm = \"md5\" }]",
        "tcp_ao[0].algorithm: \"md5\" is not one of \"hmac-sha-1-96\", \"aes-128-cmac-96\"",
    ),
    (
        "tcp_ao = [{ key_file = \"a\", id = 1 }, { key_file = \"b\", send_id = 2, recv_id = 1 }]",
        "tcp_ao[1]: has an id of another key (RFC 5925 §3.1)",
    ),
    (
        "password_file = \"a\"\ntcp_ao = [{ key_file = \"a\", id = 1 }]",
        "tcp_ao: excludes password_file",
    ),
    (
        "bfd = { interval_ms = 1 }",
        "bfd.interval_ms: 1 is not 10 to 60000",
    ),
    (
        "bfd = { multiplier = 0 }",
        "bfd.multiplier: 0 is not 1 to 255",
    ),
    ("bfd = { interval = 1 }", "unknown field `interval`"),
    (
        "graceful_restart = { restart_secs = 4096 }",
        "graceful_restart.restart_secs: 4096 is not 0 to 4095",
    ),
    (
        "long_lived_secs = 16777216",
        "long_lived_secs: 16777216 is not 0 to 16777215",
    ),
    (
        "long_lived_secs = 1\ngraceful_restart = false",
        "long_lived_secs: needs graceful_restart",
    ),
    (
        "add_path = { send = [\"vpnv4\"] }",
        "add_path.send[0]: \"vpnv4\" is not one of",
    ),
    (
        "add_path = { receive = [\"ipv4-unicast\"] }",
        "add_path.receive: ipv4-unicast is not among the families",
    ),
    (
        "route_target_filter = \"on\"",
        "route_target_filter: \"on\" is not one of \"off\", \"rtc\", \"auto\"",
    ),
    (
        "profile = \"fr\"",
        "profile: \"fr\": no profile of that name",
    ),
    (
        "families = [\"ipv4-unicast\"]\nopaque_relay = true",
        "opaque_relay: l2vpn-evpn is not among the families",
    ),
    (
        "attributes = { pass = [5] }",
        "attributes.pass: attribute 5 is not one that is carried as it came",
    ),
    (
        "attributes = { pass = [40], drop = [40] }",
        "attributes.drop: attribute 40 is in pass too",
    ),
    ("attributes = { pas = [40] }", "unknown field `pas`"),
    (
        "guard = \"on\"",
        "guard: \"on\" is not one of \"off\", \"warn\", \"reject\"",
    ),
    (
        "guard = { nexthop = \"warn\" }",
        "guard: \"nexthop\" is not one of next_hop",
    ),
    (
        "guard = { pmsi = \"drop\" }",
        "guard.pmsi: \"drop\" is not one of",
    ),
    (
        "guard = 1",
        "expected \"off\", \"warn\", \"reject\", or a table",
    ),
    (
        "link_bandwidth = \"\"",
        "link_bandwidth: \"\" is not one of \"by-profile\"",
    ),
    ("limits = { route = 1 }", "unknown field `route`"),
    (
        "limits = { type = { x = 1 } }",
        "limits.type.x: \"x\" is not an EVPN route type",
    ),
    (
        "limits = { attribute_octets = 1 }",
        "limits.attribute_octets: 1 is not 256 to 65535",
    ),
    (
        "limits = { warn_percent = 0 }",
        "limits.warn_percent: 0 is not 1 to 100",
    ),
    (
        "limits = { action = \"drop\" }",
        "limits.action: \"drop\" is not one of \"drop-new\"",
    ),
    (
        "limits = { restart_secs = 0 }",
        "limits.restart_secs: must be at least 1",
    ),
    (
        "address = \"192.0.2.1\"",
        "address: belongs into a [[bgp.peer]]",
    ),
];

#[test]
fn every_mistake_in_a_knob_names_its_place_and_its_reason() {
    for (knobs, expected) in MISTAKES {
        let message = refused(&format!("[[bgp.peer_group]]\nname = \"a\"\n{knobs}"));
        let place = format!("bgp.peer_group[0].{expected}");
        let found = message.contains(expected) || message.contains(&place);
        assert!(found, "{message:?} lacks {expected:?}");
    }
    let long = format!("shutdown_message = \"{}\"", "a".repeat(256));
    assert!(refused(&format!("[[bgp.peer_group]]\nname = \"a\"\n{long}")).contains("255 octets"));
}

#[test]
fn mistakes_beside_the_groups_name_their_place() {
    let group = "[[bgp.peer_group]]\nname = \"a\"\n";
    let cases = [
        (
            "[[bgp.peer_group]]\nstrict = true".to_owned(),
            "bgp.peer_group[0].name: must be given",
        ),
        (
            format!("{group}[[bgp.peer]]\npeer_group = \"a\""),
            "bgp.peer[0].address: must be given",
        ),
        (
            format!("{group}[[bgp.peer]]\naddress = \"192.0.2.1\""),
            "bgp.peer[0].peer_group: must be given",
        ),
        (
            format!(
                "{group}[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"a\"\nhold_secs = 1"
            ),
            "bgp.peer[0].hold_secs: must be 0 or at least 3",
        ),
        (
            format!(
                "{group}[[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"a\"\nname = \"b\""
            ),
            "bgp.peer[0].name: belongs into a [[bgp.peer_group]]",
        ),
        (
            "[bgp]\nvteps = [\"192.0.2\"]".to_owned(),
            "bgp.vteps[0]: \"192.0.2\" is not a prefix",
        ),
        (
            "[bgp.moves]\nmoves = 0".to_owned(),
            "bgp.moves.moves: must be at least 1",
        ),
        (
            "[bgp.moves]\naction = \"stop\"".to_owned(),
            "bgp.moves.action: \"stop\" is not one of \"warn\", \"freeze\"",
        ),
        (
            "[[bmp]]\naddress = \"192.0.2.1:1\"\nstatistics_secs = 0".to_owned(),
            "bmp[0].statistics_secs: must be at least 1",
        ),
        (
            "[[bmp]]\naddress = \"192.0.2.1:1\"\n[[bmp]]\naddress = \"192.0.2.1:1\"".to_owned(),
            "bmp[1].name: \"192.0.2.1:1\" appears twice",
        ),
    ];
    for (text, expected) in cases {
        let message = refused(&text);
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[test]
fn a_peer_lies_over_its_group_and_a_group_over_the_defaults() {
    let config = parse(
        r#"
        [[bgp.peer_group]]
        name = "leaves"
        hold_secs = 9
        bfd = { interval_ms = 100 }
        ttl_security_hops = 1
        guard = "warn"
        limits = { routes = 100, l2vpn-evpn = 50 }
        [[bgp.listen_range]]
        prefix = "192.0.2.0/24"
        peer_group = "leaves"
        [[bgp.peer]]
        address = "192.0.2.1"
        peer_group = "leaves"
        bfd = false
        ebgp_multihop = 2
        guard = { pmsi = "reject" }
        limits = { routes = 0, action = "reset" }
        "#,
    )
    .unwrap();
    let listed = config.bgp.resolve("192.0.2.1".parse().unwrap()).unwrap();
    assert!(!listed.dynamic);
    let settings = listed.settings;
    assert_eq!(settings.hold, Duration::from_secs(9));
    assert_eq!((settings.bfd, settings.ttl), (None, Ttl::Multihop(2)));
    assert_eq!(settings.guard.pmsi, GuardMode::Reject);
    assert_eq!(settings.guard.next_hop, GuardMode::Warn);
    assert_eq!(settings.limits.routes, None);
    assert_eq!(settings.limits.families[&Family::L2VPN_EVPN], 50);
    assert_eq!(settings.limits.action, LimitAction::Reset);
    let dynamic = config.bgp.resolve("192.0.2.2".parse().unwrap()).unwrap();
    assert!(dynamic.dynamic);
    assert_eq!(dynamic.settings, &config.bgp.groups["leaves"]);
    assert_eq!(dynamic.settings.ttl.accepted_min(), 255);
    let bfd = dynamic.settings.bfd.unwrap();
    assert_eq!(bfd.multihop(dynamic.settings.ttl), Some(false));
    assert_eq!(bfd.multihop(Ttl::Multihop(255)), None);
    assert_eq!(config.bgp.resolve("198.51.100.1".parse().unwrap()), None);
}

const EXAMPLE: &str = include_str!("../../weftd.example.toml");

#[test]
fn the_example_is_understood_and_its_leaves_have_the_defaults() {
    let config = parse(EXAMPLE).unwrap();
    let leaves = &config.bgp.groups["leaves"];
    assert_eq!(*leaves, PeerGroup::new("leaves".to_owned()));
    let bare = parse("").unwrap();
    assert_eq!(config.bgp.moves, bare.bgp.moves);
    assert_eq!(config.bgp.local, bare.bgp.local);
    assert_eq!(config.bgp.listen, bare.bgp.listen);
    assert_eq!(config.bgp.dynamic_peers_max, bare.bgp.dynamic_peers_max);
    assert_eq!(config.bgp.route_octets_total, bare.bgp.route_octets_total);
    assert_eq!(config.bgp.vteps, bare.bgp.vteps);
    assert_eq!(config.switches, bare.switches);
    assert_eq!((config.replica, config.api), (bare.replica, bare.api));
    let short = parse("[[bmp]]\nname = \"lab\"\naddress = \"203.0.113.1:1790\"").unwrap();
    assert_eq!(config.bmp, short.bmp);
}

#[test]
fn the_example_has_every_knob() {
    for table in ["bgp.peer_group", "bgp.peer"] {
        let message = refused(&format!("[[{table}]]\nnonsense = 1"));
        let (_, expected) = message.split_once("expected one of").unwrap();
        for knob in expected.split('`').skip(1).step_by(2) {
            let written = [format!("\n{knob} = "), format!("bgp.peer_group.{knob}]")];
            let found = written.iter().any(|text| EXAMPLE.contains(text));
            assert!(found, "{knob} is not in the example");
        }
    }
}

#[test]
fn a_key_that_cannot_be_used_is_a_mistake_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weft.toml");
    let key = folder.path().join("key");
    let group = format!(
        "[[bgp.peer_group]]\nname = \"a\"\npassword_file = {:?}",
        key.display().to_string()
    );
    std::fs::write(&file, group).unwrap();
    let refused = || Config::load(&file).unwrap_err().to_string();
    assert!(refused().contains("bgp.peer_group[0].password_file: key file"));
    assert!(refused().contains("No such file"));
    std::fs::write(&key, "a secret\n").unwrap();
    let allow = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&key, permissions).unwrap();
    };
    allow(0o644);
    assert!(refused().contains("open to group or others"));
    allow(0o600);
    let config = Config::load(&file).unwrap();
    assert!(!format!("{config:?}").contains("a secret"));
}

/// Two keys of TCP-AO, and others of the same ids.
const TCP_AO: &str = "tcp_ao = [{ id = 1, key_file = \"a\" }, { id = 2, key_file = \"b\" }]";
const OTHER: &str = "tcp_ao = [{ id = 1, key_file = \"c\" }]";

#[test]
fn keys_of_tcp_ao_under_a_prefix_are_those_of_the_prefix() {
    let text = |range: &str, nested: &str, peer: &str| {
        format!(
            "[[bgp.peer_group]]\nname = \"range\"\n{range}\n[[bgp.peer_group]]\nname = \"nested\"\n{nested}\n\
             [[bgp.listen_range]]\nprefix = \"192.0.2.0/24\"\npeer_group = \"range\"\n\
             [[bgp.listen_range]]\nprefix = \"192.0.2.128/25\"\npeer_group = \"nested\"\n\
             [[bgp.peer]]\naddress = \"192.0.2.1\"\npeer_group = \"range\"\n{peer}\n"
        )
    };
    let md5 = "password_file = \"a\"";
    for (range, nested, peer) in [
        (TCP_AO, TCP_AO, ""),
        (TCP_AO, TCP_AO, TCP_AO),
        ("", "", TCP_AO),
        ("", TCP_AO, OTHER),
        (md5, "", md5),
    ] {
        let text = text(range, nested, peer);
        parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    for (range, nested, peer, expected) in [
        (
            TCP_AO,
            TCP_AO,
            OTHER,
            "bgp.peer[0].tcp_ao: 192.0.2.1 is under the listen range 192.0.2.0/24",
        ),
        (TCP_AO, TCP_AO, "tcp_ao = false", "give both the same"),
        (
            TCP_AO,
            "",
            "",
            "bgp.listen_range: 192.0.2.128/25 is under the listen range",
        ),
        (
            TCP_AO,
            OTHER,
            "",
            "bgp.listen_range: 192.0.2.128/25 is under the listen range",
        ),
        (md5, TCP_AO, "", "which has a password_file"),
    ] {
        let message = refused(&text(range, nested, peer));
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
}

#[test]
fn a_key_of_tcp_ao_that_no_kernel_takes_is_refused_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weft.toml");
    let key = folder.path().join("near.ao");
    let path = key.display().to_string();
    let group =
        format!("[[bgp.peer_group]]\nname = \"a\"\ntcp_ao = [{{ id = 7, key_file = {path:?} }}]");
    std::fs::write(&file, group).unwrap();
    let refused = || Config::load(&file).unwrap_err().to_string();
    assert!(refused().contains("bgp.peer_group[0].tcp_ao[0].key_file: key file"));
    assert!(refused().contains("No such file"));
    std::fs::write(&key, "a secret\n").unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, permissions).unwrap();
    if weft_sys::tcp_ao_supported() {
        let config = Config::load(&file).unwrap();
        assert!(!format!("{config:?}").contains("a secret"));
    } else {
        let message = refused();
        let expected = format!(
            "bgp.peer_group[0].tcp_ao[0]: key 7/7 of {path}: this kernel has no TCP-AO (RFC 5925: CONFIG_TCP_AO, Linux 6.7 or later)"
        );
        assert!(message.contains(&expected), "{message}");
    }
}
