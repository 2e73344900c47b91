//! bgpdump of RIPE NCC on our MRT files.

use std::fs;
use std::process::Command;

use crate::{bgpkit, program, story};

/// Its lines for machines.
fn dump(octets: &[u8]) -> Option<Vec<String>> {
    let bgpdump = program::find("bgpdump", "bgpdump")?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.mrt");
    fs::write(&path, octets).unwrap();
    let text = program::output(Command::new(bgpdump).arg("-m").arg(&path));
    let lines = text.lines().filter(|line| line.contains('|'));
    Some(lines.map(str::to_owned).collect())
}

const ATTRIBUTES4: &str = "4200000001 64511|IGP|192.0.2.1|100|7|64496:1|NAG||";
const ATTRIBUTES6: &str = "4200000001 64511|IGP|2001:db8::1|100|7|64496:1|NAG||";

#[test]
fn a_table_is_read() {
    let Some(lines) = dump(&story::table(false, true)) else {
        return;
    };
    // It passes over RIB_GENERIC, in which EVPN is.
    let path = "TABLE_DUMP2|1700000000|B";
    assert_eq!(
        lines,
        [
            format!("{path}|192.0.2.1|64496|198.51.100.0/24|{ATTRIBUTES4}"),
            format!("{path}|2001:db8::2|4200000002|198.51.100.0/24|{ATTRIBUTES4}"),
            format!("{path}|192.0.2.1|64496|2001:db8:1::/48|{ATTRIBUTES6}"),
            format!("{path}|2001:db8::2|4200000002|2001:db8:1::/48|{ATTRIBUTES6}"),
        ]
    );
}

#[test]
fn a_table_with_path_identifiers_is_read() {
    let Some(lines) = dump(&story::table(true, true)) else {
        return;
    };
    let path = "TABLE_DUMP2_AP|1700000000|B";
    assert_eq!(
        lines,
        [
            format!("{path}|192.0.2.1|64496|198.51.100.0/24|1|{ATTRIBUTES4}"),
            format!("{path}|2001:db8::2|4200000002|198.51.100.0/24|7|{ATTRIBUTES4}"),
            format!("{path}|192.0.2.1|64496|2001:db8:1::/48|1|{ATTRIBUTES6}"),
            format!("{path}|2001:db8::2|4200000002|2001:db8:1::/48|7|{ATTRIBUTES6}"),
        ]
    );
}

#[test]
fn a_log_is_read() {
    let Some(lines) = dump(&bgpkit::log(false)) else {
        return;
    };
    let time = "1700000000.123456|A|192.0.2.1|64496|198.51.100.0/24";
    let time6 = "1700000000.123457|A|192.0.2.1|64496|2001:db8:1::/48";
    assert_eq!(
        lines,
        [
            "BGP4MP_ET|1700000000.123456|STATE|192.0.2.1|64496|5|6".to_owned(),
            format!("BGP4MP_ET|{time}|{ATTRIBUTES4}"),
            format!("BGP4MP_ET_LOCAL|{time}|{ATTRIBUTES4}"),
            format!("BGP4MP_ET|{time6}|{ATTRIBUTES6}"),
            format!("BGP4MP_ET_LOCAL|{time6}|{ATTRIBUTES6}"),
        ]
    );
}

#[test]
fn a_log_with_two_octet_as_numbers_is_read() {
    let Some(lines) = dump(&bgpkit::log(true)) else {
        return;
    };
    let time = "1700000000.123456|W|192.0.2.1|64496|198.51.100.0/24";
    let time6 = "1700000000.123457|W|192.0.2.1|64496|2001:db8:1::/48";
    // Of a sent message that withdraws IPv6 it prints the peer's IPv4 address as if it were IPv6.
    let misprint = time6.replace("192.0.2.1", "c000:201::");
    let last = &lines[4];
    assert!(last.ends_with(time6) || last.ends_with(&misprint), "{last}");
    assert_eq!(
        lines[1..4],
        [
            format!("BGP4MP_ET|{time}"),
            format!("BGP4MP_ET_LOCAL|{time}"),
            format!("BGP4MP_ET|{time6}"),
        ]
    );
}
