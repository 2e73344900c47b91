//! pmacct's pmbmpd, a live collector: its log of what it was told. The only test here with a port, since
//! the collector wants one.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{program, story};

struct Collector(Child);

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn start(pmbmpd: &Path, folder: &Path, port: u16) -> Collector {
    let configuration = folder.join("pmbmpd.conf");
    let lines = format!(
        "daemonize: false\nbmp_daemon_ip: 127.0.0.1\nbmp_daemon_port: {port}\n\
         bmp_daemon_msglog_file: {}\nbmp_daemon_msglog_output: json\n",
        folder.join("log").display()
    );
    fs::write(&configuration, lines).unwrap();
    let mut command = Command::new(pmbmpd);
    command.arg("-f").arg(configuration);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Collector(command.spawn().unwrap())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a program of others says nowhere when it is ready"
)]
fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..200 {
        if let Some(value) = attempt() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing after ten seconds");
}

/// What pmbmpd wrote while it was told the day.
fn log() -> Option<Vec<Value>> {
    let pmbmpd = program::find("pmbmpd", "pmacct")?;
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = free.local_addr().unwrap();
    drop(free);
    let collector = start(&pmbmpd, folder.path(), address.port());
    let mut connection = retry(|| TcpStream::connect(address).ok());
    let limit = Some(Duration::from_secs(10));
    connection.set_read_timeout(limit).unwrap();
    connection.write_all(&story::stream()).unwrap();
    // Termination makes it close; it may reset.
    connection.read_to_end(&mut Vec::new()).ok();
    let text = retry(|| {
        let text = fs::read_to_string(folder.path().join("log")).ok()?;
        text.contains("\"log_close\"").then_some(text)
    });
    drop(collector);
    let lines = text.lines();
    Some(
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// Peer, table and prefix of a route; 0.0.0.0 is Loc-RIB.
fn outline(entry: &Value) -> String {
    let table = ["is_loc", "is_in", "is_out"]
        .into_iter()
        .find(|table| entry[table] == 1)
        .unwrap();
    let policy = if entry["is_post"] == 1 { "post" } else { "pre" };
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    format!(
        "{} {} {table} {policy} {} via {} path {}",
        text("log_type"),
        text("peer_ip"),
        text("ip_prefix"),
        text("bgp_nexthop"),
        text("as_path"),
    )
}

#[test]
fn a_live_collector_follows_the_day() {
    let Some(log) = log() else {
        return;
    };
    let of = |kind: &str| -> Vec<&Value> {
        let entries = log.iter();
        entries
            .filter(|entry| entry["bmp_msg_type"] == kind)
            .collect()
    };
    assert_eq!(of("init")[0]["bmp_init_info_sysname"], "weft-1");
    let up: Vec<_> = of("peer_up").iter().map(|up| &up["peer_ip"]).collect();
    assert_eq!(up, ["192.0.2.1", "0.0.0.0", "2001:db8::2"]);
    assert_eq!(of("peer_up")[1]["is_loc"], 1);
    let routes: Vec<String> = of("route_monitor").into_iter().map(outline).collect();
    let path = "path 4200000001 64511";
    let mut expected = Vec::new();
    for table in [
        "0.0.0.0 is_loc pre",
        "192.0.2.1 is_in pre",
        "192.0.2.1 is_in post",
        "192.0.2.1 is_out pre",
        "192.0.2.1 is_out post",
        "2001:db8::2 is_in pre",
        "2001:db8::2 is_in post",
        "2001:db8::2 is_out pre",
        "2001:db8::2 is_out post",
    ] {
        expected.push(format!(
            "update {table} 198.51.100.0/24 via 192.0.2.1 {path}"
        ));
        expected.push(format!(
            "update {table} 2001:db8:1::/48 via 2001:db8::1 {path}"
        ));
    }
    expected.push("withdraw 192.0.2.1 is_in pre 198.51.100.0/24 via  path ".to_owned());
    expected.push("withdraw 192.0.2.1 is_in pre 2001:db8:1::/48 via  path ".to_owned());
    // 1.7.7 passes over EVPN without a word, and keeps its place in the stream.
    assert_eq!(routes, expected);
    assert_eq!(of("stats").len(), story::ALL_STATISTICS.len() + 1);
    let down: Vec<_> = of("peer_down")
        .iter()
        .map(|down| &down["reason_type"])
        .collect();
    assert_eq!(down, [3, 1, 6]);
    assert_eq!(
        of("term")[0]["bmp_term_info_reason"],
        "Session administratively closed"
    );
}
