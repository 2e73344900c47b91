//! Lists of today's violations, which may only shrink. Knows keys and counts, and no rule.
//!
//! A list is a text file in `lists/`, sorted, with one `key count` a line, so that branches merge easily. A check fails if a key is not
//! in its list or counts more. It also fails if a key counts less: as long as the list does not follow, the gain can be lost again.
//!
//! `WEFT_TIDY_WRITE=1 cargo tidy` lowers counts and removes keys that are gone. It never adds a key and never raises a count. After a
//! merge conflict in a list, take either side and run it.
//!
//! `WEFT_TIDY_WRITE=all cargo tidy` writes the lists anew. It is for the author of a new rule, and for a commit that only moves or
//! renames. A review must refuse every other commit in which a list grows. Each entry is a known fault; if new ones enter as easily as
//! old ones leave, the rule checks nothing.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::tree::root;

const ENVIRONMENT: &str = "WEFT_TIDY_WRITE";

/// Places shown of one key.
const PLACES_MAX: usize = 8;

/// Counts by key.
pub(crate) type Counts = BTreeMap<String, usize>;

/// Violations of one rule.
#[derive(Default)]
pub(crate) struct Found {
    counts: Counts,
    places: BTreeMap<String, Vec<String>>,
}

impl Found {
    /// Counts one violation.
    pub(crate) fn add(&mut self, key: &str, place: String) {
        *self.counts.entry(key.to_owned()).or_default() += 1;
        self.places.entry(key.to_owned()).or_default().push(place);
    }

    /// Sets a size that exceeds its bound.
    pub(crate) fn set(&mut self, key: String, size: usize, place: String) {
        self.places.insert(key.clone(), vec![place]);
        self.counts.insert(key, size);
    }

    /// Returns the counts by key.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// Compares violations with the list `name`, or writes the list if the environment asks for it. Panics if they differ.
pub(crate) fn check(name: &str, rule: &str, found: &Found) {
    let path = path(name);
    let listed = match env::var(ENVIRONMENT).as_deref() {
        Err(_) => listed(&path),
        Ok("1") => written(&path, &shrunk(&listed(&path), &found.counts)),
        Ok("all") => written(&path, &found.counts),
        Ok(other) => panic!("{ENVIRONMENT}={other}: it must be 1 or all"),
    };
    summarise(name, &found.counts);
    let faults = judge(&listed, found);
    assert!(
        faults.is_empty(),
        "\n{rule} (tests/tests/tidy/lists/{name}.txt)\n{}\n",
        faults.join("\n")
    );
}

/// Prints a line that the test harness does not capture.
pub(crate) fn print(line: &str) {
    // A closed standard error is no fault of the tree.
    drop(writeln!(io::stderr(), "tidy: {line}"));
}

fn summarise(name: &str, counts: &Counts) {
    let sum: usize = counts.values().sum();
    print(&format!("{name}: {} entries, sum {sum}", counts.len()));
}

fn path(name: &str) -> PathBuf {
    root()
        .join("tests/tests/tidy/lists")
        .join(format!("{name}.txt"))
}

/// Reads a list. A list without a file is empty.
fn listed(path: &Path) -> Counts {
    let text = fs::read_to_string(path).unwrap_or_default();
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn written(path: &Path, counts: &Counts) -> Counts {
    let lines = counts.iter().map(|(key, count)| format!("{key} {count}\n"));
    fs::write(path, lines.collect::<String>()).expect("the list can be written");
    counts.clone()
}

fn parse(text: &str) -> Result<Counts, String> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let entry = line.rsplit_once(' ');
        let count = entry.and_then(|(key, count)| Some((key, count.parse().ok()?)));
        let (key, count) = count.ok_or_else(|| format!("`{line}` is no `key count`"))?;
        counts.insert(key.to_owned(), count);
    }
    Ok(counts)
}

fn judge(listed: &Counts, found: &Found) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, count) in &found.counts {
        let allowed = listed.get(key).copied().unwrap_or_default();
        if *count > allowed {
            let places = &found.places[key];
            let shown = places.iter().take(PLACES_MAX);
            let shown: String = shown.map(|place| format!("\n    {place}")).collect();
            faults.push(format!(
                "  {key}: {count}, the list allows {allowed}{shown}"
            ));
        }
    }
    for (key, allowed) in listed {
        let count = found.counts.get(key).copied().unwrap_or_default();
        if count < *allowed {
            faults.push(format!(
                "  {key}: {count}, fewer than the {allowed} of the list: shrink it with {ENVIRONMENT}=1 cargo tidy"
            ));
        }
    }
    faults
}

fn shrunk(listed: &Counts, found: &Counts) -> Counts {
    let least = |(key, allowed): (&String, &usize)| {
        let count = found.get(key)?;
        Some((key.clone(), *count.min(allowed)))
    };
    listed.iter().filter_map(least).collect()
}

#[test]
fn a_list_refuses_growth_and_newcomers_and_follows_what_shrinks() {
    let listed = parse("a x 2\nb 2\nc 1\nd 1\n").expect("a list");
    let mut found = Found::default();
    for (key, count) in [("a x", 3), ("b", 1), ("d", 1), ("e", 1)] {
        found.set(key.to_owned(), count, format!("{key}.rs:1"));
    }
    let faults = judge(&listed, &found);
    assert_eq!(faults.len(), 4, "{faults:?}");
    assert!(
        faults[0].starts_with("  a x: 3, the list allows 2"),
        "{faults:?}"
    );
    assert!(
        faults[1].starts_with("  e: 1, the list allows 0"),
        "{faults:?}"
    );
    assert!(faults[2].contains("b: 1, fewer than the 2"), "{faults:?}");
    assert!(faults[3].contains("c: 0, fewer than the 1"), "{faults:?}");
    // A write lowers and removes; what grew and what is new stay faults.
    let shrunk = shrunk(&listed, found.counts());
    assert_eq!(shrunk, parse("a x 2\nb 1\nd 1\n").expect("a list"));
    assert_eq!(judge(&shrunk, &found).len(), 2);
}

#[test]
fn a_line_that_is_no_entry_is_refused() {
    assert!(parse("<<<<<<< HEAD\n").is_err());
}
