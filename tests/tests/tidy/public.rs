//! Public items of the libraries that no product uses: only a bench, only tests, or nobody. Knows names; an item whose name occurs
//! elsewhere in the product counts as used.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::items::Public;
use crate::ratchet::{self, Found};
use crate::source::Source;
use crate::tree;

/// Packages whose public items are for their own programs and tests.
const PROGRAMS: [&str; 2] = ["interop/", "tests/"];

/// Keywords before the name that an item gets.
const DEFINING: [&str; 6] = ["const", "enum", "fn", "struct", "trait", "type"];

#[test]
fn public_items_are_used_by_the_product() {
    let rule = "no public item that only a bench or a test uses: remove it, or make it private";
    ratchet::check("public", rule, &found(tree::sources()));
}

fn found(sources: &[Source]) -> Found {
    let candidates: Vec<_> = candidates(sources).collect();
    let names: BTreeSet<_> = candidates
        .iter()
        .map(|(_, item)| item.name.as_str())
        .collect();
    let uses = uses(sources, &names);
    let elsewhere = elsewhere(sources, &names);
    let mut found = Found::default();
    for (source, item) in candidates {
        let own = own(sources, source, item);
        let mut places = uses.get(item.name.as_str()).into_iter().flatten();
        let used = places.any(|(file, at)| {
            let mut own = own.iter();
            !own.any(|(own, place)| file == own && place.contains(at))
        });
        if !used {
            let by = elsewhere
                .get(item.name.as_str())
                .copied()
                .unwrap_or("used nowhere");
            let place = format!("{}: {by}", source.place(item.place.start));
            found.add(&format!("{} {}", source.path, item.name), place);
        }
    }
    found
}

/// Lists public items of packages that are libraries.
fn candidates(sources: &[Source]) -> impl Iterator<Item = (&Source, &Public)> {
    let libraries: Vec<_> = sources
        .iter()
        .filter_map(|source| source.path.strip_suffix("lib.rs"))
        .filter(|library| !PROGRAMS.iter().any(|program| library.starts_with(program)))
        .collect();
    let product = sources.iter().filter(move |source| {
        let within = |library: &&str| source.path.starts_with(*library);
        !source.test && libraries.iter().any(within)
    });
    product.flat_map(|source| source.items.public.iter().map(move |item| (source, item)))
}

/// Lists where the product uses a name: not where an item gets it, and not where it is re-exported.
fn uses<'a>(
    sources: &'a [Source],
    names: &BTreeSet<&'a str>,
) -> BTreeMap<&'a str, Vec<(&'a str, usize)>> {
    let mut uses: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.test) {
        for (index, place) in source.tokens.iter().enumerate() {
            let at = place.start;
            let token = source.token(index);
            let mut reexports = source.items.reexports.iter();
            let defined = index > 0 && DEFINING.contains(&source.token(index - 1));
            if token.starts_with('"') {
                for name in named_in(token) {
                    if let Some(name) = names.get(name) {
                        uses.entry(*name)
                            .or_default()
                            .push((source.path.as_str(), at));
                    }
                }
            } else if let Some(name) = names.get(token)
                && !defined
                && !reexports.any(|place| place.contains(&at))
            {
                uses.entry(*name)
                    .or_default()
                    .push((source.path.as_str(), at));
            }
        }
    }
    uses
}

/// Lists names in a literal: a whole path, as serde has them, and those that a format takes.
fn named_in(literal: &str) -> Vec<&str> {
    let within = literal.trim_matches('"');
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    if within
        .chars()
        .all(|character| is_name(character) || character == ':')
    {
        return within.split("::").collect();
    }
    let formatted = within.split('{').skip(1);
    let name = |rest: &'_ str| rest.find(|end: char| !is_name(end)).unwrap_or(rest.len());
    formatted.map(|rest| &rest[..name(rest)]).collect()
}

/// Returns who else has a name: benches first.
fn elsewhere<'a>(
    sources: &'a [Source],
    names: &BTreeSet<&'a str>,
) -> BTreeMap<&'a str, &'static str> {
    let mut elsewhere = BTreeMap::new();
    for source in sources {
        let bench = source.path.contains("/benches/");
        let whole = source.test.then_some(source.text.as_str());
        let tests = source.items.tests.iter();
        let tests = tests.map(|place| &source.text[place.clone()]);
        let words = whole
            .into_iter()
            .chain(tests)
            .flat_map(|text| text.split(|end: char| !end.is_alphanumeric() && end != '_'));
        for name in words.filter_map(|word| names.get(word)) {
            let by = elsewhere.entry(*name).or_insert("used by tests only");
            if bench {
                *by = "used by a bench only";
            }
        }
    }
    elsewhere
}

/// Lists the places that are the item itself: its definition, and of a type its implementations.
fn own<'a>(
    sources: &'a [Source],
    source: &'a Source,
    item: &'a Public,
) -> Vec<(&'a str, &'a Range<usize>)> {
    let mut own = vec![(source.path.as_str(), &item.place)];
    if item.is_type {
        for source in sources.iter().filter(|source| !source.test) {
            for (name, place) in &source.items.implementations {
                if *name == item.name {
                    own.push((source.path.as_str(), place));
                }
            }
        }
    }
    own
}

#[test]
fn items_that_only_a_bench_a_test_or_nobody_uses_are_found() {
    let library = "
        pub use self::inner::Measured;
        pub struct Measured;
        impl Measured { pub fn measured() -> Measured { Measured } pub fn called() {} }
        pub const LIMIT: u8 = 1;
        pub fn lonely(n: u8) { lonely(n - 1) }
        pub fn by_default() {}
        pub(crate) fn hidden() {}
        pub fn tested() {}
        #[cfg(test)] mod tests { fn f() { tested() } }";
    let sources = [
        Source::read("a/src/lib.rs", library),
        Source::read(
            "a/src/used.rs",
            "fn f() { x.called(); g(\"{LIMIT}\") }\n#[serde(default = \"x::by_default\")] struct S;",
        ),
        Source::read(
            "a/benches/b.rs",
            "use a::Measured; fn main() { Measured::measured() }",
        ),
        Source::read("interop/src/lib.rs", "pub fn of_a_program() {}"),
    ];
    let found = found(&sources);
    let names: Vec<_> = found.counts().keys().collect();
    assert_eq!(
        names,
        [
            "a/src/lib.rs Measured",
            "a/src/lib.rs lonely",
            "a/src/lib.rs measured",
            "a/src/lib.rs tested"
        ]
    );
}
