//! Private words in names and comments, openings of doc comments, and `true =>`, counted by room (`style.md`, English; `architecture.md`,
//! Words). Knows words, and not what a sentence means.

use crate::prose;
use crate::ratchet::{self, Found};
use crate::source::Source;
use crate::tree;

/// A word that weft gave a meaning of its own, where BGP, Raft or Linux have another word.
struct Private {
    word: &'static str,
    /// Its forms, in lower case.
    forms: &'static [&'static str],
    /// The word to use.
    instead: &'static str,
    /// True if comments must not use it either. False if it has another sense there.
    in_comments: bool,
}

#[rustfmt::skip]
const PRIVATE: &[Private] = &[
    Private { word: "bare", forms: &["bare"], instead: "NotInForce", in_comments: false },
    Private { word: "bury", forms: &["bury", "buries", "buried"], instead: "expire", in_comments: true },
    Private { word: "dismiss", forms: &["dismiss", "dismisses", "dismissed"], instead: "expire", in_comments: true },
    Private { word: "disown", forms: &["disown", "disowns", "disowned"], instead: "expire", in_comments: true },
    Private { word: "hear", forms: &["hear", "hears", "heard", "unheard"], instead: "receive, detect", in_comments: true },
    Private { word: "lacking", forms: &["lacks", "lacking"], instead: "NotInForce", in_comments: false },
    Private { word: "led", forms: &["led"], instead: "FabricStatus", in_comments: false },
    Private { word: "loose", forms: &["loose"], instead: "NotInForce", in_comments: false },
    Private { word: "manner", forms: &["manner", "manners"], instead: "advertisement", in_comments: false },
    Private { word: "owed", forms: &["owe", "owes", "owed"], instead: "stale, pending", in_comments: true },
    Private { word: "said", forms: &["say", "says", "said", "saying", "sayer", "unsaid"], instead: "announced, received", in_comments: true },
    Private { word: "sifting", forms: &["sift", "sifts", "sifted", "sifting"], instead: "refresh", in_comments: true },
    Private { word: "stake", forms: &["stake", "stakes"], instead: "claim", in_comments: true },
    Private { word: "told", forms: &["tell", "tells", "told", "telling", "untold", "retell", "retold"], instead: "advertise, advertised", in_comments: true },
    Private { word: "turn", forms: &["turn", "turns"], instead: "regroup, resync, poll", in_comments: true },
    Private { word: "unpinned", forms: &["unpinned"], instead: "NotInForce", in_comments: false },
    Private { word: "unweighted", forms: &["unweighted"], instead: "NotInForce", in_comments: false },
    Private { word: "want", forms: &["want", "wants", "wanted", "wanting", "unwanted"], instead: "intended, expected, requested", in_comments: true },
    Private { word: "way", forms: &["way", "ways"], instead: "path, next hop, route", in_comments: false },
    Private { word: "wish", forms: &["wish", "wishes", "wished"], instead: "interest, membership", in_comments: true },
];

#[test]
fn names_use_the_words_of_bgp_raft_and_linux() {
    let rule = "no private word in a new name: `architecture.md`, Words";
    ratchet::check("names", rule, &in_names(tree::product()));
}

#[test]
fn comments_use_the_words_of_bgp_raft_and_linux() {
    let rule = "no private word in a new comment: `architecture.md`, Words";
    ratchet::check("comments", rule, &in_comments(tree::product()));
}

#[test]
fn doc_comments_begin_with_their_subject() {
    let rule = "no doc comment begins with What, Who, Whether or a pronoun: `style.md`, English, 2";
    ratchet::check("openings", rule, &openings(tree::product()));
}

#[test]
fn a_bool_is_decided_by_if() {
    let rule = "no `match b { true => .., false => .. }`: write `if`";
    ratchet::check("true-arms", rule, &true_arms(tree::product()));
}

/// Returns the package of a file, and in the controller its room.
fn room(path: &str) -> String {
    let Some((package, within)) = path.split_once("/src/") else {
        return path.split('/').next().unwrap_or_default().to_owned();
    };
    let first = within.split('/').next().unwrap_or_default();
    let first = first.strip_suffix(".rs").unwrap_or(first);
    if package == "controller" && !["lib", "main"].contains(&first) {
        return format!("{package}/{first}");
    }
    package.to_owned()
}

fn in_names<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for (name, at) in &source.items.names {
            for part in parts(name) {
                if let Some(private) = private(&part) {
                    add(&mut found, source, private, *at, name);
                }
            }
        }
    }
    found
}

fn in_comments<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for place in &source.comments {
            let comment = prose::without_code(&source.text[place.clone()]);
            for word in comment.split(|end: char| !end.is_alphabetic()) {
                let private = private(&word.to_lowercase());
                if let Some(private) = private.filter(|private| private.in_comments) {
                    add(&mut found, source, private, place.start, word);
                }
            }
        }
    }
    found
}

fn add(found: &mut Found, source: &Source, private: &Private, at: usize, word: &str) {
    let key = format!("{} {}", room(&source.path), private.word);
    let place = format!("{}: `{word}`: {}", source.place(at), private.instead);
    found.add(&key, place);
}

fn openings<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for (at, text) in docs(source) {
            if let Some(opening) = prose::opening(text) {
                let key = format!("{} {opening}", room(&source.path));
                found.add(&key, source.place(at));
            }
        }
    }
    found
}

/// Lists the first lines of doc comments.
fn docs(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let text = &source.text;
    // The end of the line of documentation before.
    let mut before = None;
    source.comments.iter().filter_map(move |place| {
        let comment = &text[place.clone()];
        let mut marks = ["///", "//!"].iter();
        let doc = marks.find_map(|mark| comment.strip_prefix(mark));
        let doc = doc.filter(|doc| !doc.starts_with('/'));
        let end = before.replace(place.end).filter(|_| doc.is_some());
        if doc.is_none() {
            before = None;
        }
        let goes_on = end.is_some_and(|end: usize| {
            let between = &text[end..place.start];
            between.trim().is_empty() && between.matches('\n').count() == 1
        });
        doc.filter(|_| !goes_on)
            .map(|doc| (place.start, doc.trim()))
    })
}

fn true_arms<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for index in 0..source.tokens.len() {
            let arm = [index, index + 1, index + 2].map(|index| source.token(index));
            if arm == ["true", "=", ">"] {
                let place = source.place(source.tokens[index].start);
                found.add(&room(&source.path), place);
            }
        }
    }
    found
}

fn private(word: &str) -> Option<&'static Private> {
    let has = |private: &&Private| private.forms.contains(&word);
    PRIVATE.iter().find(has)
}

/// Returns the words of a name, in lower case: of `is_told` and of `IsTold` the same.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && !before.is_uppercase()) {
            parts.push(String::new());
        }
        if character != '_' {
            let last = parts.last_mut().expect("a part was pushed");
            last.extend(character.to_lowercase());
        }
        before = character;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
fn lines(found: &Found) -> Vec<String> {
    let counts = found.counts().iter();
    counts
        .map(|(key, count)| format!("{key} {count}"))
        .collect()
}

#[test]
fn private_words_are_found_in_names_and_comments() {
    let text = "
        /// What a peer is told, by `is_told`.
        struct ToldWay { untold: u8 }
        // It wants its turn.
        impl Tell for ToldWay { fn tell(&self) { let want = returned(told); } }
        fn gateway(ToldWay { untold }: u8) { f(wish) }
        #[cfg(test)] mod tests { /// Told.
        fn told() {} }";
    let source = Source::read("controller/src/speaker/x.rs", text);
    assert_eq!(
        lines(&in_names([&source].into_iter())),
        [
            "controller/speaker told 2",
            "controller/speaker want 1",
            "controller/speaker way 1"
        ]
    );
    assert_eq!(
        lines(&in_comments([&source].into_iter())),
        [
            "controller/speaker told 1",
            "controller/speaker turn 1",
            "controller/speaker want 1"
        ]
    );
}

#[test]
fn openings_and_true_arms_are_found() {
    let text = "//! What it is.
//! It goes on.

/// Whether it is so.
/// Who knows.
fn f() { match b { true => 1, false => 2 } }
// What is no doc.
/// Its peers.
/// Whatever.
fn g() { m!(true => 1); }
/// The peer. It is one.
fn h() {}
";
    let source = Source::read("bgp/src/x.rs", text);
    assert_eq!(
        lines(&openings([&source].into_iter())),
        ["bgp Its 1", "bgp What 1", "bgp Whether 1"]
    );
    assert_eq!(lines(&true_arms([&source].into_iter())), ["bgp 2"]);
}

#[test]
fn a_file_belongs_to_a_room_or_a_package() {
    assert_eq!(room("controller/src/speaker.rs"), "controller/speaker");
    assert_eq!(room("controller/src/speaker/peer.rs"), "controller/speaker");
    assert_eq!(room("controller/src/main.rs"), "controller");
    assert_eq!(
        room("controller/weights/src/pin/x.rs"),
        "controller/weights"
    );
    assert_eq!(room("proto/build.rs"), "proto");
}
