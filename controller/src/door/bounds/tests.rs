//! The table of bounds in `controller/README.md`, compared with the constants.

use weft_store::MESSAGE_OCTETS_MAX;

use super::super::connection::STANDSTILL_MAX;
use super::*;
use crate::operator::fabric::{APPLYING_MAX, WAITING_MAX};
use crate::operator::json::LONG_BODIES_MAX;
use crate::operator::plans::simulate;
use crate::operator::tables::EXPORTS_MAX;
use crate::operator::watch::WATCHERS_MAX;
use crate::reflector::thread::LOOKS_MAX;

/// Rows of the table and their numbers, as the table has them. Whoever adds a bound to a door adds a row here and there.
#[rustfmt::skip]
fn rows() -> Vec<(&'static str, String)> {
    vec![
        ("API: connections", count(API.connections)),
        ("API: connections of one address", count(API.per_address)),
        ("API: octets that weft has not read, of a stream and of a connection", kib(WINDOW as usize + 1)),
        ("API: octets of requests in flight", mib(OCTETS_MAX)),
        ("API: octets of requests in flight of one address", mib(OCTETS_PER_ADDRESS)),
        ("API: time for the next part of an apply, and for the first octets of JSON", secs(PART_PATIENCE)),
        ("API: watches", count(WATCHERS_MAX)),
        ("API: exports of tables at once", count(EXPORTS_MAX)),
        ("API: applies at once", count(APPLYING_MAX)),
        ("API: other changes of the fabric at once", count(WAITING_MAX)),
        ("API: simulations at once", count(simulate::PLACES)),
        ("API: bodies of JSON above 1 MiB at once", count(LONG_BODIES_MAX)),
        ("API, metrics: looks at whole tables at once", count(LOOKS_MAX)),
        ("Raft: octets of a message, a snapshot of the state included", format!("{} GiB", MESSAGE_OCTETS_MAX >> 30)),
        ("Raft: streams of one replica", count(1)),
        ("Raft: connections", count(RAFT.connections)),
        ("Metrics: connections", count(METRICS.connections)),
        ("Metrics: connections of one address", count(METRICS.per_address)),
        ("API, Raft, metrics: streams of a connection", count(STREAMS_MAX as usize)),
        ("API, Raft, metrics: octets of HTTP/1 heads that have not come whole, each", mib(OCTETS_MAX)),
        ("API, Raft, metrics: octets of such heads of one address", mib(OCTETS_PER_ADDRESS)),
        ("API, Raft, metrics: time for the first octets of a connection", secs(FIRST_OCTETS)),
        ("API, Raft, metrics: time between two PINGs", secs(KEEPALIVE)),
        ("API, Raft, metrics: time without an acknowledgement of the client", secs(STANDSTILL_MAX)),
    ]
}

#[test]
fn the_table_of_bounds_has_the_numbers_of_the_constants() {
    let readme = include_str!("../../../README.md");
    let table = readme.split("\n## Bounds\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let lines = table.lines().filter(|line| line.starts_with("| "));
    // The first two are its head.
    let written: Vec<_> = lines.skip(2).map(cells).collect();
    let rows = rows();
    let expected: Vec<_> = rows.iter().map(|(row, number)| (*row, &**number)).collect();
    assert_eq!(written, expected);
}

/// The name of a row and its number.
fn cells(line: &str) -> (&str, &str) {
    let mut cells = line.split('|').skip(1).map(str::trim);
    (cells.next().unwrap(), cells.next().unwrap())
}

fn count(count: usize) -> String {
    match (count / 1_000, count % 1_000) {
        (0, below) => below.to_string(),
        (thousands, below) => format!("{thousands},{below:03}"),
    }
}

fn secs(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

fn kib(octets: usize) -> String {
    format!("{} KiB", octets >> 10)
}

fn mib(octets: usize) -> String {
    format!("{} MiB", octets >> 20)
}
