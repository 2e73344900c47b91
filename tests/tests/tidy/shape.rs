//! Shape of files and structs: the first line, the length, the number of fields. Knows no room.

use crate::banned::says;
use crate::ratchet::{self, Found};
use crate::report;
use crate::source::Source;
use crate::tree;

/// Marks of unfinished work, refused in comments too. They are put together here so that this file passes.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
];

/// Lines of a file without its tests. No list permits more.
const LINES_MAX: usize = 800;

/// More lines need an entry in the list.
const LISTED_LINES_MAX: usize = 400;

const FIELDS_MAX: usize = 20;

#[test]
fn every_file_says_what_it_is_and_is_finished() {
    report(&tree::sources().iter().flat_map(faults).collect::<Vec<_>>());
}

#[test]
fn files_have_at_most_400_lines() {
    let rule = format!("a file has at most {LISTED_LINES_MAX} lines without tests");
    ratchet::check("lines", &rule, &long(tree::product()));
}

#[test]
fn structs_have_at_most_20_fields() {
    let rule = format!("a struct has at most {FIELDS_MAX} fields");
    ratchet::check("fields", &rule, &wide(tree::product()));
}

fn faults(source: &Source) -> Vec<String> {
    let mut faults = Vec::new();
    if !source.text.starts_with("//!") {
        let rule = "a file opens with `//!`: what it is, and what it refuses to know";
        faults.push(source.fault(1, rule));
    }
    if source.path.ends_with("/mod.rs") {
        faults.push(source.fault(1, "a module's file has the module's name"));
    }
    if source.lines > LINES_MAX && !source.test {
        let rule = format!("{} lines without tests, {LINES_MAX} at most", source.lines);
        faults.push(source.fault(LINES_MAX, &rule));
    }
    for (number, line) in source.text.lines().enumerate() {
        if let Some(word) = UNFINISHED.iter().find(|word| says(line, word)) {
            let rule = format!("`{word}`: it is done, or it is an issue");
            faults.push(source.fault(number + 1, &rule));
        }
    }
    faults
}

fn long<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources.filter(|source| source.lines > LISTED_LINES_MAX) {
        found.set(source.path.clone(), source.lines, source.path.clone());
    }
    found
}

fn wide<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for wide in &source.items.structs {
            if wide.fields > FIELDS_MAX {
                let key = format!("{} {}", source.path, wide.name);
                found.set(key, wide.fields, source.place(wide.at));
            }
        }
    }
    found
}

#[test]
fn a_file_without_a_subject_and_an_unfinished_one_are_faults() {
    let text = format!("fn f() {{}}\n// {}\n", UNFINISHED[0]);
    let source = Source::read("bgp/src/x/mod.rs", &text);
    assert_eq!(faults(&source).len(), 3);
    assert_eq!(faults(&Source::read("bgp/src/x.rs", "//! x\n")).len(), 0);
    let endless = format!("//! x\n{}", "const A: u8 = 1;\n".repeat(LINES_MAX));
    assert_eq!(faults(&Source::read("bgp/src/x.rs", &endless)).len(), 1);
}

#[test]
fn a_long_file_and_a_wide_struct_are_found_behind_the_tests() {
    let tests = "//! x\n#[cfg(test)]\nmod tests {\n}\n";
    let line = "// x\n";
    let count = |lines| {
        let text = format!("{tests}{}", line.repeat(lines));
        long([&Source::read("a/src/x.rs", &text)].into_iter())
            .counts()
            .clone()
    };
    assert_eq!(count(LISTED_LINES_MAX - 1).len(), 0);
    assert_eq!(count(LISTED_LINES_MAX)["a/src/x.rs"], 401);
    let fields = |fields: usize| {
        let fields: String = (0..fields).map(|field| format!("f{field}: u8,")).collect();
        let text = format!("{tests}struct S {{ {fields} }}");
        wide([&Source::read("a/src/x.rs", &text)].into_iter())
            .counts()
            .clone()
    };
    assert_eq!(fields(FIELDS_MAX).len(), 0);
    assert_eq!(fields(FIELDS_MAX + 1)["a/src/x.rs S"], 21);
}
