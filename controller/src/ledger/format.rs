//! The octets of all that replicas store and send, against the format that this release claims to
//! have. Knows no codec: examples are in `examples`, stored messages in `messages`.

mod examples;
mod messages;

use std::hash::Hasher;

use weft_store::FORMAT;

/// Hash of the octets of each format. Append-only: no row is edited or removed once a release has
/// it. A change of octets grows [`weft_store::FORMAT`] and appends a row.
const FORMATS: &[(u8, u64)] = &[(5, 0x30c5_c6a6_9c99_3675)];

/// A part of the format: a name for people, which is not hashed, and its octets.
type Part = (String, Vec<u8>);

/// All that replicas store and send, in a fixed order.
fn description() -> Vec<Part> {
    let store = weft_store::format::examples().unwrap();
    let store = store.into_iter();
    let store = store.map(|(name, octets)| (format!("store: {name}"), octets.to_vec()));
    let parts = store.chain(examples::parts()).chain(messages::parts());
    parts.collect()
}

fn hash(parts: &[Part]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    for (_, octets) in parts {
        hasher.write(&(octets.len() as u64).to_be_bytes());
        hasher.write(octets);
    }
    hasher.finish()
}

#[test]
fn the_octets_of_this_release_are_those_of_its_format() {
    let parts = description();
    let now = hash(&parts);
    let (format, known) = FORMATS.last().copied().unwrap();
    assert_eq!(format, FORMAT, "every format has a row");
    if now == known {
        return;
    }
    let list: String = parts
        .iter()
        .map(|(name, octets)| format!("{name}: {}\n", octets.escape_ascii()))
        .collect();
    panic!(
        "the octets of format {format} have changed:\n\n{list}\n\
         If a release has format {format}, set FORMAT in store/src/format.rs to {} and append the row ({}, {now:#018x}).\n\
         If none has it yet, its row is ({format}, {now:#018x}).",
        format + 1,
        format + 1,
    );
}

#[test]
fn formats_grow_and_no_two_have_the_same_octets() {
    for (at, (format, hash)) in FORMATS.iter().enumerate() {
        for (later, other) in &FORMATS[at + 1..] {
            assert!(format < later && hash != other, "{format}, {later}");
        }
    }
}

/// A planted change: any part that is removed, added or different.
#[test]
fn every_part_counts() {
    let parts = description();
    let whole = hash(&parts);
    for at in 0..parts.len() {
        let name = &parts[at].0;
        let mut fewer = parts.clone();
        fewer.remove(at);
        assert_ne!(hash(&fewer), whole, "without {name}");
        let mut other = parts.clone();
        other[at].1.push(0);
        assert_ne!(hash(&other), whole, "with another {name}");
        let mut renamed = parts.clone();
        renamed[at].0.clear();
        assert_eq!(hash(&renamed), whole, "{name} by another name");
    }
    let mut more = parts;
    more.push((String::new(), Vec::new()));
    assert_ne!(hash(&more), whole);
}
