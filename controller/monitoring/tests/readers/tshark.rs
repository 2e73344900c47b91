//! tshark on our BMP octets, put into a capture by text2pcap.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::{program, story};

/// What tshark shows of each message: `fields`, tab separated.
fn fields(messages: &[Vec<u8>], fields: &[&str]) -> Option<Vec<String>> {
    let tshark = program::find("tshark", "tshark")?;
    let text2pcap = program::find("text2pcap", "wireshark-common")?;
    let folder = tempfile::tempdir().unwrap();
    let (text, capture) = (folder.path().join("hex"), folder.path().join("pcap"));
    let mut dump = String::new();
    for message in messages {
        dump.push_str("000000");
        for octet in message {
            write!(dump, " {octet:02x}").unwrap();
        }
        dump.push('\n');
    }
    fs::write(&text, dump).unwrap();
    program::output(
        Command::new(text2pcap)
            .args(["-q", "-T", "50001,1790"])
            .args([&text, &capture]),
    );
    let mut command = Command::new(tshark);
    command.arg("-r").arg(&capture);
    command.args(["-d", "tcp.port==1790,bmp", "-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

fn day() -> Vec<Vec<u8>> {
    let stream = story::stream();
    let messages = story::split(&stream);
    messages.into_iter().map(<[u8]>::to_vec).collect()
}

/// Numbers of the messages that tshark calls malformed, or anything else than BMP, from 0.
fn malformed(messages: &[Vec<u8>]) -> Option<Vec<usize>> {
    let lines = fields(messages, &["bmp.type", "_ws.malformed"])?;
    assert_eq!(lines.len(), messages.len());
    let fault = |line: &&String| {
        let (kind, malformed) = line.split_once('\t').unwrap();
        !malformed.is_empty() || kind.parse::<u8>().unwrap() > 5
    };
    let lines = lines.iter().enumerate();
    Some(
        lines
            .filter(|(_, line)| fault(line))
            .map(|(at, _)| at)
            .collect(),
    )
}

/// tshark 4.0 takes the information of a Peer Up for a third BGP message. Loc-RIB must have one
/// (RFC 9069 §5.3), and without it nothing is wrong with that message either.
#[test]
fn no_message_is_malformed() {
    let mut messages = day();
    let Some(faults) = malformed(&messages) else {
        return;
    };
    assert!(faults.is_empty() || faults == [LOC_RIB_UP], "{faults:?}");
    let up = &mut messages[LOC_RIB_UP];
    assert!(up.ends_with(b"\x00\x03\x00\x06global"));
    up.truncate(up.len() - 10);
    let length = u32::try_from(up.len()).unwrap();
    up[1..5].copy_from_slice(&length.to_be_bytes());
    assert_eq!(malformed(&messages), Some(Vec::new()));
}

/// Its place in the day.
const LOC_RIB_UP: usize = 2;

#[test]
fn evpn_routes_are_seen_with_their_types() {
    let Some(lines) = fields(&day(), &["bgp.evpn.nlri.rt"]) else {
        return;
    };
    let count = |kind: &str| lines.iter().filter(|line| *line == kind).count();
    // Once per table, and once withdrawn.
    let times = story::tables().len() + 1;
    assert_eq!((count("2"), count("3"), count("5")), (times, times, times));
}
