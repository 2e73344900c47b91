//! What operators write, and what they are told of it.

use weft_bgp::peer::ClusterId;
use weft_bgp::table::PeerKind;

use super::*;

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
fn two_replicas_are_refused() {
    let text = "[[replicas]]\nid = 1\naddress = \"10.0.0.1:1\"\n[[replicas]]\nid = 2\naddress = \"10.0.0.2:1\"";
    assert!(refused(text).contains("1, 3 or 5"));
}
