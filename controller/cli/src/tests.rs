//! The commands as they are typed, against a small replica in this process.

mod apply;
mod backup;
mod decision;
mod hooks;
mod hung;
mod import;
mod job;
mod memory;
mod operator;
mod replica;
mod simulation;

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use weft_proto::v1::{
    self as proto, fabric_service_server as fabric_server, peer_service_server as peer_server,
};

use self::replica::{REPLICA, Replica, services};
use crate::failure::Failure;
use crate::person::Person;
use crate::progress::Progress;
use crate::{Arguments, shown};

/// Starts the replica, types `words` at it, and gives what was printed.
async fn typed(words: &[&str]) -> (String, Result<(), Failure>) {
    let address = listening(REPLICA).await;
    let (printed, result) = typed_at(address, words).await;
    (printed.replace(&address.to_string(), "ADDRESS"), result)
}

/// Where a replica listens, until the test ends.
async fn listening(replica: Replica) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_routes(services(replica))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    address
}

async fn typed_at(address: SocketAddr, words: &[&str]) -> (String, Result<(), Failure>) {
    let address = address.to_string();
    typed_as(&[&["--address", &address], words].concat()).await
}

async fn typed_as(words: &[&str]) -> (String, Result<(), Failure>) {
    let arguments = Arguments::try_parse_from([&["weft"], words].concat()).unwrap();
    let mut out = Vec::new();
    let result = ask(arguments, &Progress::new(), &mut out).await;
    (String::from_utf8(out).unwrap(), result)
}

/// Runs a command where nobody can be asked.
async fn ask(
    arguments: Arguments,
    progress: &Progress,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (mut input, mut screen) = (std::io::empty(), std::io::sink());
    let person = Person::new(false, &mut input, &mut screen);
    crate::ask(arguments, progress, person, out).await
}

/// Types `words` at an address where a person answers questions with `answer`. Returns the questions, too.
async fn typed_by_a_person(
    address: SocketAddr,
    words: &[&str],
    answer: &str,
) -> (String, String, Result<(), Failure>) {
    let address = address.to_string();
    let words = [&["weft", "--address", &address], words].concat();
    let arguments = Arguments::try_parse_from(words).unwrap();
    let (mut input, mut screen, mut out) = (answer.as_bytes(), Vec::new(), Vec::new());
    let person = Person::new(true, &mut input, &mut screen);
    let result = crate::ask(arguments, &Progress::new(), person, &mut out).await;
    let text = |octets| String::from_utf8(octets).unwrap();
    (text(out), text(screen), result)
}

/// What is said on standard error, and the exit code.
async fn refused(words: &[&str]) -> (String, u8) {
    let failure = typed(words).await.1.unwrap_err();
    let said = shown(&failure);
    let address = said.find("127.0.0.1:").map(|at| {
        let rest = &said[at + "127.0.0.1:".len()..];
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        said.replace(&said[at..at + "127.0.0.1:".len() + digits], "ADDRESS")
    });
    (address.unwrap_or(said), failure.exit_code())
}

#[tokio::test]
async fn pages_are_followed_to_the_end() {
    let (printed, result) = typed(&["peer", "list"]).await;
    result.unwrap();
    let ids: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(ids, ["ROUTER-ID", "192.0.2.11", "192.0.2.12"]);
    let (printed, _) = typed(&["-o", "json", "peer", "list"]).await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(rows.len(), 2);
}

#[tokio::test]
async fn a_list_that_is_watched_prints_what_is_new_alone() {
    let address = listening(REPLICA).await.to_string();
    for (form, lines) in [("table", 3), ("name", 2), ("json", 2)] {
        let words = [
            "weft",
            "--address",
            &address,
            "-o",
            form,
            "peer",
            "list",
            "-w",
        ];
        let arguments = Arguments::try_parse_from(words).unwrap();
        let mut out = Vec::new();
        // Long enough for a second look.
        let endless = timeout(
            Duration::from_millis(1500),
            ask(arguments, &Progress::new(), &mut out),
        )
        .await;
        assert!(endless.is_err(), "it ends");
        let printed = String::from_utf8(out).unwrap();
        assert_eq!(printed.lines().count(), lines, "{printed}");
    }
    let (said, code) = refused(&["replica", "list", "-w", "--address", "127.0.0.1:1"]).await;
    assert_eq!(code, 2, "{said}");
    let (said, code) = refused(&["status", "-w"]).await;
    assert_eq!(code, 1, "{said}");
}

#[tokio::test]
async fn a_page_that_repeats_itself_ends_the_list() {
    let (said, code) = refused(&["route", "list", "--mac", "stuck"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("ADDRESS gives the page \"again\" again and again", 1)
    );
}

#[tokio::test]
async fn filters_reach_the_replica() {
    let words = [
        "route",
        "list",
        "--type",
        "2",
        "--vni",
        "100",
        "--mac",
        "00:00:5e:00:53:01",
        "--peer",
        "192.0.2.11",
        "--consistency",
        "serializable",
    ];
    let (said, _) = refused(&words).await;
    let expected = proto::ListRoutesRequest {
        page_size: crate::dialog::PAGE_SIZE,
        consistency: proto::Consistency::Serializable.into(),
        family: proto::AddressFamily::L2vpnEvpn.into(),
        route_type: Some(2),
        vni: Some(100),
        mac: Some("00:00:5e:00:53:01".to_owned()),
        peer: Some("192.0.2.11".to_owned()),
        ..proto::ListRoutesRequest::default()
    };
    assert_eq!(said, format!("{expected:?}"));
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    for (format, expected) in [("json", "[]\n"), ("yaml", "[]\n")] {
        assert_eq!(typed(&["agent", "list", "-o", format]).await.0, expected);
    }
    assert_eq!(typed(&["agent", "list"]).await.0.lines().count(), 1);
}

#[tokio::test]
async fn nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    assert_eq!(
        failure.to_string(),
        format!("no answer from {address}: connection refused")
    );
    assert_eq!(failure.exit_code(), 2);
}

#[tokio::test]
async fn something_else_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let other = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(
                &mut socket,
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
            )
            .await;
        }
    });
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    other.abort();
    assert_eq!(failure.exit_code(), 2, "{failure}");
    assert!(
        failure
            .to_string()
            .starts_with(&format!("no answer from {address}: ")),
        "{failure}"
    );
}

#[tokio::test]
async fn a_server_without_the_service_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_service(fabric_server::FabricServiceServer::new(REPLICA))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    server.abort();
    let expected = format!("no answer from {address}: no weft that knows the request");
    assert_eq!((failure.to_string(), failure.exit_code()), (expected, 2));
}

#[tokio::test]
async fn no_majority_is_no_answer() {
    let (said, code) = refused(&["vtep", "list"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("no answer from ADDRESS: no majority of replicas answers", 2)
    );
}

#[tokio::test]
async fn a_late_answer_is_none() {
    let (said, code) = refused(&["--timeout", "1", "replica", "list"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("no answer from ADDRESS: nothing within 1 s", 2)
    );
}

#[tokio::test]
async fn a_refusal_is_told_as_the_replica_words_it() {
    let (said, code) = refused(&["plan", "show", "--leaf", "leaf9"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("leaf_name: no leaf is named \"leaf9\"", 1)
    );
}

#[tokio::test]
async fn links_are_set_by_name() {
    let link = "leaf1:eth1--spine1:eth1";
    assert_eq!(
        typed(&["link", "down", link]).await.0,
        format!("link {link} down, revision 5\n")
    );
    assert_eq!(
        typed(&["link", "up", link]).await.0,
        format!("link {link} up, revision 6\n")
    );
    let (said, code) = refused(&["link", "up", "x"]).await;
    assert_eq!((said.as_str(), code), ("name: no link is named \"x\"", 1));
}

#[tokio::test]
async fn a_fabric_file_is_applied_or_refused_with_its_name() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    writeln!(file, "name: example\nhosts: [{{name: h1}}, {{name: h2}}]").unwrap();
    assert_eq!(
        typed(&["fabric", "apply", &path]).await.0,
        "fabric example applied: 2 created, 0 updated, 0 deleted, generation 1\n"
    );
    assert_eq!(
        typed(&["fabric", "apply", &path, "--dry-run"]).await.0,
        "fabric example valid, nothing changed; it would be: 2 created, 0 updated, 0 deleted\n"
    );
    writeln!(file, "nam: 1").unwrap();
    let (said, code) = refused(&["fabric", "apply", &path]).await;
    let expected = format!(
        "{path}:3:1: unknown field `nam`, expected one of `name`, `generation`, `switches`, `hosts`, `links`, `host_ports`; nothing was changed"
    );
    assert_eq!((said, code), (expected, 1));
    std::fs::write(&path, "name: example\ngeneration:\nhosts: [{name: h1}]\n").unwrap();
    let (said, _) = refused(&["fabric", "apply", &path]).await;
    assert!(
        said.contains("generation: invalid type: unit value"),
        "{said}"
    );
    std::fs::write(&path, "name: bad\nhosts: [{name: h1}]\n").unwrap();
    let (said, code) = refused(&["fabric", "apply", &path]).await;
    assert_eq!(
        (said, code),
        (
            format!("{path}: links[3].a.switch_name: no switch is named \"leaf9\""),
            1
        )
    );
    let (said, code) = refused(&["fabric", "apply", "/nonexistent/f.yaml"]).await;
    assert_eq!(
        (said.as_str(), code),
        (
            "/nonexistent/f.yaml: No such file or directory (os error 2); nothing was changed",
            1
        )
    );
}

#[tokio::test]
async fn the_shown_fabric_has_the_fields_of_a_file() {
    let (printed, result) = typed(&["fabric", "show", "-o", "yaml"]).await;
    result.unwrap();
    let switches = "- name: leaf1\n  role: leaf\n  vtep_address: ''\n  agent_address: ''\n\
                    - name: leaf2\n  role: leaf\n  vtep_address: ''\n  agent_address: ''\n";
    assert_eq!(
        printed,
        format!("name: example\ngeneration: 0\nswitches:\n{switches}links: []\nhost_ports: []\n")
    );
}

#[test]
fn arguments_are_checked_before_anything_is_asked() {
    for words in [
        &["weft", "--address", "localhost", "peer", "list"][..],
        &["weft", "--address", ":7401", "peer", "list"],
        &["weft", "--address", "a b:7401", "peer", "list"],
        &["weft", "--address", "localhost:0", "peer", "list"],
        &["weft", "--timeout", "0", "peer", "list"],
        &["weft", "route", "list", "--type", "256"],
        &["weft", "route", "list", "--vni", "16777216"],
        &["weft", "route", "list", "--family", "vpnv4"],
        &["weft", "rib", "dump", "x", "--family", "vpnv4"],
        &["weft", "link", "sideways", "x"],
        &["weft", "fabric", "link", "x", "up"],
        &["weft", "neighbor", "list"],
        &["weft", "flood", "list"],
        &["weft", "context", "set", "lab"],
        &[
            "weft",
            "peer",
            "wait",
            "192.0.2.1",
            "--within",
            "18446744073709551615",
        ],
        &[
            "weft",
            "--context",
            "lab",
            "--address",
            "192.0.2.1:1",
            "peer",
            "list",
        ],
    ] {
        assert!(Arguments::try_parse_from(words).is_err(), "{words:?}");
    }
    let arguments = Arguments::try_parse_from(["weft", "peer", "list"]).unwrap();
    assert_eq!((arguments.address.len(), arguments.timeout), (0, 10));
    assert!(
        Arguments::try_parse_from(["weft", "--address", "[2001:db8::1]:7401", "peer", "list"])
            .is_ok()
    );
}

#[tokio::test]
async fn a_closed_standard_output_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Server::builder()
        .add_service(peer_server::PeerServiceServer::new(REPLICA))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let arguments =
        Arguments::try_parse_from(["weft", "--address", &address, "peer", "list"]).unwrap();
    let result = timeout(
        Duration::from_secs(20),
        ask(arguments, &Progress::new(), &mut Closed),
    )
    .await
    .unwrap();
    server.abort();
    assert!(matches!(result, Err(Failure::Unread)), "{result:?}");
}

#[tokio::test]
async fn a_reload_is_one_line_for_each_difference() {
    let lines = "peer_group leaves: hold_secs: 9 -> 30 (session reset)\npeer 192.0.2.1: removed (applied)\n";
    assert_eq!(
        typed(&["config", "reload"]).await.0,
        format!("{lines}replica 3: weft.toml reloaded: 2 differences\n")
    );
    assert_eq!(
        typed(&["config", "reload", "--dry-run"]).await.0,
        format!("{lines}replica 3: weft.toml valid, nothing changed: 2 differences\n")
    );
    let (printed, _) = typed(&["config", "reload", "-o", "json"]).await;
    let answer: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(answer["header"]["replica_id"], 3);
    let changes = &answer["changes"];
    assert_eq!(changes[0]["effect"], "CONFIG_EFFECT_SESSION_RESET");
    assert_eq!(changes[1]["change_type"], "CHANGE_TYPE_DELETED");
}

#[tokio::test]
async fn a_file_is_compared_by_the_replica() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (printed, result) = typed(&["config", "diff", &path]).await;
    let end = format!("replica 3: {path}: 2 differences\n");
    assert!(printed.ends_with(&end), "{printed}");
    assert_eq!(result.unwrap_err().exit_code(), 3);
    std::fs::write(&path, "same").unwrap();
    assert!(typed(&["config", "diff", &path]).await.1.is_ok());
    std::fs::write(&path, "asn = 0\n").unwrap();
    let (said, code) = refused(&["config", "diff", &path]).await;
    assert_eq!(
        (said, code),
        (format!("{path}: bgp.asn: AS 0 is reserved"), 1)
    );
    std::fs::write(&path, "asm = 0\n").unwrap();
    let (said, _) = refused(&["config", "diff", &path]).await;
    let marked = "line 1\n  |\n1 | asm\\u{7}\n  | ^^^";
    assert_eq!(said, format!("{path}: {marked}"));
    let (said, code) = refused(&["config", "diff", "/nonexistent/f.toml"]).await;
    let expected = "/nonexistent/f.toml: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn values_say_where_they_come_from() {
    let words = ["config", "show", "peer", "192.0.2.1"];
    let header = "SUBJECT         KEY        VALUE  FROM\n";
    let own = "peer 192.0.2.1  hold_secs  9      group\n";
    assert_eq!(typed(&words).await.0, format!("{header}{own}"));
    let (printed, _) = typed(&[&words[..], &["--all"]].concat()).await;
    assert_eq!(printed.lines().count(), 3, "{printed}");
}

#[tokio::test]
async fn a_dump_that_ends_early_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rib.mrt");
    let file = path.to_str().unwrap();
    let (printed, _) = typed(&["rib", "dump", file]).await;
    assert_eq!(printed, format!("{file}: 3 octets\n"));
    assert_eq!(std::fs::read(&path).unwrap(), b"MRT");
    assert_eq!(typed(&["rib", "dump", "-"]).await.0, "MRT");
    std::fs::remove_file(&path).unwrap();
    let (_, code) = refused(&["rib", "dump", file, "--family", "rtc"]).await;
    assert_eq!(code, 2);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_dump_that_cannot_be_written_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rib.mrt");
    let file = path.to_str().unwrap();
    // Too little for the buffer, and too much for it.
    for family in [&[][..], &["--family", "ipv6-unicast"]] {
        std::os::unix::fs::symlink("/dev/full", format!("{file}.part")).unwrap();
        let (said, code) = refused(&[&["rib", "dump", file], family].concat()).await;
        let expected = format!("{file}: No space left on device (os error 28)");
        assert_eq!((said, code), (expected, 1), "{family:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn the_form_of_a_key_says_its_family() {
    for (key, family) in [
        ("[3]:[0]:[32]:[192.0.2.1]", "L2vpnEvpn"),
        ("203.0.113.0/24", "Ipv4Unicast"),
        ("2001:db8::/32", "Ipv6Unicast"),
    ] {
        let (said, code) = refused(&["route", "show", key]).await;
        assert!(said.contains(&format!("family: {family}")), "{said}");
        assert!(said.contains("view: Full"), "{said}");
        assert_eq!(code, 1);
    }
    let (said, _) = refused(&["route", "show", "64496:RT:1", "--family", "rtc"]).await;
    assert!(said.contains("family: RouteTargetMembership"), "{said}");
    let (said, code) = refused(&["route", "show", "203.0.113.1/32"]).await;
    let expected = "key: there is no 203.0.113.1/32 in ipv4-unicast";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn one_peer_and_views_are_asked_for() {
    let (printed, _) = typed(&["peer", "show", "192.0.2.1"]).await;
    assert!(printed.contains("address:        192.0.2.1\n"), "{printed}");
    let words = [
        "host",
        "list",
        "--vni",
        "7",
        "--ip",
        "192.0.2.9",
        "--duplicates",
    ];
    let (printed, _) = typed(&words).await;
    assert!(printed.contains("7    192.0.2.9"), "{printed}");
    assert!(printed.contains("duplicate"), "{printed}");
    let (printed, _) = typed(&["segment", "list"]).await;
    assert_eq!(printed.lines().count(), 1);
    let (said, code) = refused(&["segment", "show", "00:00"]).await;
    let expected = "esi: \"00:00\" is not an Ethernet segment identifier";
    assert_eq!((said.as_str(), code), (expected, 1));
    for words in [&["vni", "list"][..], &["mac", "moves"]] {
        assert_eq!(typed(words).await.0.lines().count(), 1);
    }
}

#[tokio::test]
async fn a_plan_that_differs_is_printed_and_ends_with_its_own_code() {
    let (printed, result) = typed(&["plan", "diff", "--leaf", "leaf1", "-o", "json"]).await;
    result.unwrap();
    let diff: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(diff[0]["prefixes"][0]["differs"], false);
    let (printed, result) = typed(&["plan", "diff", "--leaf", "leaf2"]).await;
    assert!(printed.starts_with("plan 7, 1 leaf\n"), "{printed}");
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        ("1 prefix differs", 3)
    );
    let said = refused(&["plan", "diff", "--leaf", "leaf3"]).await;
    assert_eq!(said, ("not compared: leaf3".to_owned(), 3));
    let said = refused(&["plan", "diff"]).await;
    assert_eq!(said, ("only the leader knows: ask replica 2".to_owned(), 1));
}

#[tokio::test]
async fn a_table_that_is_not_empty_in_time_is_named() {
    let (printed, result) = typed(&["balance", "off", "--leaf", "leaf2", "--wait", "0"]).await;
    result.unwrap();
    assert!(printed.contains("leaf2  off"), "{printed}");
    let said = refused(&["balance", "off", "--leaf", "leaf2", "--wait", "1"]).await;
    let expected = "off: 0 of 1 tables are empty; not those of leaf2 (not known yet)";
    assert_eq!(said, (expected.to_owned(), 3));
}

#[tokio::test]
async fn a_mode_is_set_and_shown() {
    let (printed, result) = typed(&["balance", "on", "--leaf", "leaf1"]).await;
    result.unwrap();
    assert!(
        printed.contains("LEAF   MODE  FROM  AGENT            PEER\n"),
        "{printed}"
    );
    assert!(
        printed.contains("leaf1  on    leaf  192.0.2.11:9340  -\n"),
        "{printed}"
    );
    let (printed, _) = typed(&["balance", "on", "-o", "name"]).await;
    assert_eq!(printed, "leaf1\n");
    let (printed, _) = typed(&["balance", "on", "--leaf", "leaf1", "-o", "json"]).await;
    let balance: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(balance["mode"], "BALANCE_MODE_ON");
}
