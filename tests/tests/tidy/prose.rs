//! Length and openings of sentences (`style.md`, English, 1 and 2). Knows Markdown, and no Rust.

use crate::ratchet::{self, Found};
use crate::tree;

/// Words of a sentence.
const WORDS_MAX: usize = 30;

/// Openings that refer to another sentence, or that begin a clause without a noun.
const OPENINGS: [&str; 12] = [
    "He", "It", "Its", "She", "That of", "The same", "Their", "They", "Those", "What", "Whether",
    "Who",
];

#[test]
fn sentences_of_pages_have_at_most_30_words() {
    let rule = format!("a sentence has at most {WORDS_MAX} words: `style.md`, English, 1");
    let mut found = Found::default();
    for (path, text) in tree::files(".md") {
        long(&path, &text, &mut found);
    }
    ratchet::check("sentences", &rule, &found);
}

#[test]
fn sentences_of_pages_begin_with_their_subject() {
    let rule = "no sentence begins with What, Who, Whether or a pronoun: `style.md`, English, 2";
    let mut found = Found::default();
    for (path, text) in tree::files(".md") {
        without_subject(&path, &text, &mut found);
    }
    ratchet::check("subjects", rule, &found);
}

fn long(path: &str, text: &str, found: &mut Found) {
    for (line, sentence) in sentences(text) {
        let words = words(&sentence);
        if words > WORDS_MAX {
            found.add(path, format!("{path}:{line}: {words} words: {sentence}"));
        }
    }
}

fn without_subject(path: &str, text: &str, found: &mut Found) {
    for (line, sentence) in sentences(text) {
        // Questions are exempt.
        if opening(&sentence).is_some() && !sentence.ends_with('?') {
            found.add(path, format!("{path}:{line}: {sentence}"));
        }
    }
}

/// Returns the opening of a sentence that it must not have.
pub(crate) fn opening(sentence: &str) -> Option<&'static str> {
    let begins = |opening: &&&str| {
        let rest = sentence.strip_prefix(**opening);
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    OPENINGS.iter().find(begins).copied()
}

/// Returns a text without the code in it.
pub(crate) fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

fn words(sentence: &str) -> usize {
    let words = sentence.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

/// Lists the sentences of a page with the lines on which their paragraphs begin. A list item, a cell of a table and a heading end one;
/// code and quotations have none.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim();
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.is_empty() || ["```", ">", "<"].iter().any(|mark| line.starts_with(mark))
        {
            open = false;
            continue;
        }
        if line.starts_with('|') {
            let cells = line.split('|').filter(|cell| !cell.trim().is_empty());
            paragraphs.extend(cells.map(|cell| (number, cell.trim().to_owned())));
            open = false;
            continue;
        }
        let (begins, line) = item(line);
        match paragraphs.last_mut().filter(|_| open && !begins) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            None => paragraphs.push((number, line.to_owned())),
        }
        open = !line.starts_with('#');
    }
    let sentences = paragraphs.iter().flat_map(|(line, paragraph)| {
        let split = split(&without_code(paragraph));
        split.into_iter().map(|sentence| (*line, sentence))
    });
    sentences.collect()
}

/// Returns true for a line that begins a list item, and its text.
fn item(line: &str) -> (bool, &str) {
    let numbered = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let marks = ["- ", "* ", "+ "];
    let rest = marks.iter().find_map(|mark| line.strip_prefix(mark));
    let rest = rest.or_else(|| {
        (numbered.len() < line.len())
            .then(|| numbered.strip_prefix(". "))
            .flatten()
    });
    (
        rest.is_some() || line.starts_with('#'),
        rest.unwrap_or(line),
    )
}

/// Splits a paragraph where a mark is followed by space and a capital.
fn split(paragraph: &str) -> Vec<String> {
    let text = paragraph.replace("**", "");
    let mut sentences = Vec::new();
    let mut from = 0;
    for (at, mark) in text.match_indices(['.', '?', '!']) {
        let rest = &text[at + mark.len()..];
        let next = rest.trim_start().chars().next();
        let ends = rest.starts_with(' ') && next.is_none_or(|next| !next.is_lowercase());
        if ends {
            sentences.push(text[from..at + mark.len()].trim().to_owned());
            from = at + mark.len();
        }
    }
    sentences.push(text[from..].trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[test]
fn a_page_is_split_into_sentences() {
    let page = "# Weft\n\nOne, e.g. of `a. B`\nline. Two 1.5?\n- Three\n  goes on.\n1. Four\n\n```\nNo. Code.\n```\n| Five | Six. Seven |\n| --- | --- |\n> No.\n";
    let sentences: Vec<_> = sentences(page)
        .into_iter()
        .map(|(_, sentence)| sentence)
        .filter(|sentence| words(sentence) > 0)
        .collect();
    assert_eq!(
        sentences,
        [
            "# Weft",
            "One, e.g. of  line.",
            "Two 1.5?",
            "Three goes on.",
            "Four",
            "Five",
            "Six.",
            "Seven"
        ]
    );
}

#[test]
fn a_long_sentence_and_one_without_a_subject_are_found() {
    let words = |count: usize| format!("A{}.\n", " word".repeat(count - 1));
    let page = format!("{}{}", words(30), words(31));
    let mut found = Found::default();
    long("README.md", &page, &mut found);
    assert_eq!(found.counts()["README.md"], 1);
    let page = "What a peer sends. What is it? The peer. It sends. Item one. - Whoever.\n- Whether it sends.\n";
    let mut found = Found::default();
    without_subject("README.md", page, &mut found);
    assert_eq!(found.counts()["README.md"], 3);
}
