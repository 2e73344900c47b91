//! One Rust file, read as a whole: its code without comments and tests, its comments, and the items that the rules ask for. Knows
//! the grammar of Rust, and no rule.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::items::{self, Items};

/// A file and all that the rules read in it. Everything is about the product: items under `#[cfg(test)]` are left out.
#[derive(Default)]
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with spaces for comments and for tests; lines and octets keep their places.
    pub(crate) code: String,
    /// Tokens in the order of the text, as places in it.
    pub(crate) tokens: Vec<Range<usize>>,
    /// Comments in the order of the text, as places in it; a line comment each line.
    pub(crate) comments: Vec<Range<usize>>,
    pub(crate) items: Items,
    /// Number of lines without those of tests.
    pub(crate) lines: usize,
    /// True if the whole file belongs to tests, benches or examples.
    pub(crate) test: bool,
    starts: Vec<usize>,
}

impl Source {
    /// Reads a file. Panics if it is no Rust.
    pub(crate) fn read(path: &str, text: &str) -> Self {
        let mut source = Self {
            path: path.to_owned(),
            text: text.to_owned(),
            test: is_test(path),
            starts: starts(text),
            ..Self::default()
        };
        if source.test {
            return source;
        }
        let stream = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let file = syn::parse2(stream.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
        source.items = items::read(path, &file);
        flatten(stream, text, &mut source.tokens);
        source.comments = comments(text, &source.tokens);
        let tests = &source.items.tests;
        source.lines = source.starts.len() - source.covered(tests);
        source.code = blanked(text, source.comments.iter().chain(tests));
        let product = |place: &Range<usize>| !tests.iter().any(|test| test.contains(&place.start));
        source.tokens.retain(product);
        source.comments.retain(product);
        // The rules keep places, and no spans.
        proc_macro2::extra::invalidate_current_thread_spans();
        source
    }

    /// Returns the number of a place's line, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }

    /// Returns lines of code with their numbers, from 1.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.lines().enumerate();
        lines.map(|(number, line)| (number + 1, line))
    }

    /// Returns a token's text, and an empty one after the last token.
    pub(crate) fn token(&self, index: usize) -> &str {
        let place = self.tokens.get(index);
        place.map_or("", |place| &self.text[place.clone()])
    }

    /// Returns a place as a reader looks for it: `path:line`.
    pub(crate) fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path, self.line(at))
    }

    /// Returns a fault of a line.
    pub(crate) fn fault(&self, line: usize, rule: &str) -> String {
        format!("{}:{line}: {rule}", self.path)
    }

    /// Returns the number of lines that tests cover.
    fn covered(&self, tests: &[Range<usize>]) -> usize {
        let lines = |test: &Range<usize>| self.line(test.end - 1) - self.line(test.start) + 1;
        tests.iter().map(lines).sum()
    }
}

fn is_test(path: &str) -> bool {
    let inside = ["/tests/", "/examples/", "/benches/", "/fuzz/"];
    inside.iter().any(|part| path.contains(part)) || path.ends_with("/tests.rs")
}

/// Returns where each line begins.
fn starts(text: &str) -> Vec<usize> {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts = std::iter::once(0).chain(ends);
    starts.filter(|start| *start < text.len()).collect()
}

/// Lists the places of tokens. Doc comments, which are attributes to the compiler, are none.
fn flatten(stream: TokenStream, text: &str, tokens: &mut Vec<Range<usize>>) {
    for tree in stream {
        let place = tree.span().byte_range();
        if ["//", "/*"]
            .iter()
            .any(|begin| text[place.clone()].starts_with(begin))
        {
            continue;
        }
        match tree {
            TokenTree::Group(group) => {
                tokens.push(group.span_open().byte_range());
                flatten(group.stream(), text, tokens);
                tokens.push(group.span_close().byte_range());
            }
            _ => tokens.push(place),
        }
    }
}

/// Lists the comments: between two tokens are only comments and space.
fn comments(text: &str, tokens: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut comments = Vec::new();
    let ends = std::iter::once(0).chain(tokens.iter().map(|token| token.end));
    let begins = tokens.iter().map(|token| token.start);
    for (from, to) in ends.zip(begins.chain([text.len()])) {
        let mut at = from;
        while let Some(begin) = text[at..to].find(['/']).map(|found| at + found) {
            let rest = &text[begin..to];
            let length = if rest.starts_with("/*") {
                block(rest)
            } else {
                rest.find('\n').unwrap_or(rest.len())
            };
            comments.push(begin..begin + length);
            at = begin + length;
        }
    }
    comments
}

/// Returns the length of a block comment, which may contain others.
fn block(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn blanked<'a>(text: &str, places: impl Iterator<Item = &'a Range<usize>>) -> String {
    let mut octets = text.as_bytes().to_vec();
    for place in places {
        for octet in &mut octets[place.clone()] {
            if *octet != b'\n' {
                *octet = b' ';
            }
        }
    }
    String::from_utf8(octets).expect("whole characters were replaced")
}

#[test]
fn code_after_the_tests_is_read_and_tests_are_not() {
    let text = "//! x\nuse a; // tokio\n#[cfg(test)]\nmod tests {\n    use rocksdb;\n}\n/* a /* b */ */ fn f() { \"//\"; }\n#[cfg(test)]\nuse t;\nfn g() {}\n";
    let source = Source::read("bgp/src/x.rs", text);
    let code: Vec<_> = source.code().map(|(_, line)| line.trim()).collect();
    assert_eq!(
        code,
        [
            "",
            "use a;",
            "",
            "",
            "",
            "",
            "fn f() { \"//\"; }",
            "",
            "",
            "fn g() {}"
        ]
    );
    assert_eq!(source.lines, 4);
    let comments: Vec<_> = source.comments.iter().map(|at| &text[at.clone()]).collect();
    assert_eq!(comments, ["//! x", "// tokio", "/* a /* b */ */"]);
    assert_eq!(
        source.place(text.find("fn g").expect("g")),
        "bgp/src/x.rs:10"
    );
}
