//! bgpdump of RIPE NCC on our MRT files.

use std::fs;
use std::process::Command;

use crate::{bgpkit, program};

fn dump(octets: &[u8]) -> Option<String> {
    let bgpdump = program::find("bgpdump", "bgpdump")?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.mrt");
    fs::write(&path, octets).unwrap();
    Some(program::output(Command::new(bgpdump).arg("-m").arg(&path)))
}

#[test]
fn a_table_is_read() {
    let Some(text) = dump(&bgpkit::table(false, true)) else {
        return;
    };
    panic!("{text}");
}

#[test]
fn a_log_is_read() {
    let Some(text) = dump(&bgpkit::log(false)) else {
        return;
    };
    panic!("{text}");
}
