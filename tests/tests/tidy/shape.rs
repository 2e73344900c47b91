//! Shape of files: the first line and the length. Knows no room.

use crate::banned::says;
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

#[test]
fn every_file_says_what_it_is_and_is_finished() {
    report(&tree::sources().iter().flat_map(faults).collect::<Vec<_>>());
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

#[test]
fn a_file_without_a_subject_and_an_unfinished_one_are_faults() {
    let text = format!("fn f() {{}}\n// {}\n", UNFINISHED[0]);
    let source = Source::read("bgp/src/x/mod.rs", &text);
    assert_eq!(faults(&source).len(), 3);
    assert_eq!(faults(&Source::read("bgp/src/x.rs", "//! x\n")).len(), 0);
    let endless = format!("//! x\n{}", "const A: u8 = 1;\n".repeat(LINES_MAX));
    assert_eq!(faults(&Source::read("bgp/src/x.rs", &endless)).len(), 1);
}
