//! Octets and the value they stand for, both ways. `WEFT_VECTORS=write cargo test --test vectors`
//! writes the expected half anew.
//!
//! A vector is three parts: a provenance line and a context line, octets in hexadecimal, and behind
//! `----` the value; behind a second `----` the canonical octets, where they differ.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use bytes::BytesMut;

use weft_bgp::capability::AddPathSet;
use weft_bgp::family::Family;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message};

fn octets_of(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text
        .chars()
        .filter(|digit| !digit.is_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap())
        .collect()
}

fn text_of(octets: &[u8]) -> String {
    octets.chunks(32).fold(String::new(), |mut text, line| {
        line.iter()
            .for_each(|octet| write!(text, "{octet:02x}").unwrap());
        text + "\n"
    })
}

/// The file as it should be, from its first part.
fn expected(name: &str, head: &str) -> String {
    let mut lines = head.lines();
    let provenance = lines.next().unwrap();
    assert!(provenance.starts_with("# provenance: "), "{name}");
    let context = lines.next().unwrap().strip_prefix("# context:").unwrap();
    let has = |word| context.split_whitespace().any(|other| other == word);
    let add_path = has("add-path").then_some(Family::IPV4_UNICAST);
    let ctx = DecodeContext {
        four_octet_as: has("four-octet-as"),
        ibgp: has("ibgp"),
        extended_message: false,
        add_path: AddPathSet::of(add_path),
    };
    let octets = octets_of(&lines.collect::<String>());
    let mut buffer = BytesMut::from(&octets[..]);
    let frame = frame::split(&mut buffer, frame::MAX_LEN).unwrap().unwrap();
    assert!(buffer.is_empty(), "{name}");
    let message = Message::decode(frame, &ctx).unwrap();
    let mut text = format!("{head}----\n{message:#?}\n");
    let canonical = message.encode(&ctx);
    if canonical != octets {
        write!(text, "----\n{}", text_of(&canonical)).unwrap();
    }
    let mut buffer = BytesMut::from(&canonical[..]);
    let frame = frame::split(&mut buffer, frame::MAX_LEN).unwrap().unwrap();
    assert_eq!(Message::decode(frame, &ctx).unwrap(), message, "{name}");
    text
}

#[test]
fn every_vector_decodes_to_its_value_and_back() {
    let folder = Path::new("tests/vectors");
    let write = std::env::var("WEFT_VECTORS").is_ok_and(|value| value == "write");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        let head = text.split("----\n").next().unwrap();
        let expected = expected(&name, head);
        if write {
            fs::write(&path, &expected).unwrap();
        } else {
            assert_eq!(text, expected, "{name}");
        }
        count += 1;
    }
    assert!(count >= 15);
}
