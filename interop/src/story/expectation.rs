//! What an answer must be, and the difference where it is not. It does not know who was asked.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::path;

/// Values that a story remembers, by name.
pub(super) type Memory = BTreeMap<String, String>;

/// One demand on an answer. All that it names must hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Expectation {
    /// A path into the answer as JSON; absent: the answer as text.
    at: Option<String>,
    /// There is something, and all of it equals this.
    is: Option<Value>,
    /// Something there equals this.
    has: Option<Value>,
    /// Something there contains this text.
    contains: Option<String>,
    /// Nothing there contains this text.
    lacks: Option<String>,
    /// What is there, in any order.
    exactly: Option<Vec<Value>>,
    /// How many there are.
    count: Option<usize>,
    /// There is something, and all of it is a larger number; spans of time are numbers of seconds.
    above: Option<Value>,
    /// There is something, and all of it is a smaller number.
    below: Option<Value>,
    /// Whether anything is there at all.
    there: Option<bool>,
    /// Keeps what is there, which must be one value, for `{NAME}` in later steps.
    remember: Option<String>,
}

impl Expectation {
    /// Err: what was expected and what was found, a line each.
    pub(super) fn check(&self, answer: &str, memory: &mut Memory) -> Result<(), String> {
        let document;
        let found: Vec<&Value> = match &self.at {
            Some(at) => {
                document = json(answer)?;
                path::select(&document, at)
            }
            None => {
                document = Value::String(answer.trim_end().to_owned());
                vec![&document]
            }
        };
        let found: Vec<String> = found.into_iter().map(text).collect();
        if let Some(demand) = self.broken(&found, memory) {
            let place = self.at.as_deref().unwrap_or("the text");
            let actual = match &self.at {
                Some(at) if found.is_empty() => path::reach(&document, at),
                _ => shown(&found),
            };
            return Err(format!("expected: {place} {demand}\nactual:   {actual}"));
        }
        if let (Some(name), Some(value)) = (&self.remember, found.first()) {
            memory.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    /// Where it looks, if not at the text.
    #[cfg(test)]
    pub(super) fn place(&self) -> Option<&str> {
        self.at.as_deref()
    }

    /// What whole values there are compared with.
    #[cfg(test)]
    pub(super) fn values(&self) -> impl Iterator<Item = String> {
        let single = self.is.iter().chain(&self.has);
        single.chain(self.exactly.iter().flatten()).map(text)
    }

    /// What is looked for in values there.
    #[cfg(test)]
    pub(super) fn parts(&self) -> impl Iterator<Item = &String> {
        self.contains.iter().chain(&self.lacks)
    }

    /// The first demand that does not hold, in words.
    fn broken(&self, found: &[String], memory: &Memory) -> Option<String> {
        self.values_broken(found, memory)
            .or_else(|| self.numbers_broken(found, memory))
    }

    fn values_broken(&self, found: &[String], memory: &Memory) -> Option<String> {
        let filled = |value: &Value| fill(&text(value), memory);
        if let Some(value) = self.is.as_ref().map(filled)
            && (found.is_empty() || found.iter().any(|one| *one != value))
        {
            return Some(format!("is {value}"));
        }
        if let Some(value) = self.has.as_ref().map(filled)
            && !found.contains(&value)
        {
            return Some(format!("has {value}"));
        }
        let anywhere = |part: &String| found.iter().any(|one| one.contains(part));
        if let Some(part) = self.contains.as_ref().map(|part| fill(part, memory))
            && !anywhere(&part)
        {
            return Some(format!("contains {part}"));
        }
        if let Some(part) = self.lacks.as_ref().map(|part| fill(part, memory))
            && anywhere(&part)
        {
            return Some(format!("lacks {part}"));
        }
        let wanted: Vec<String> = self.exactly.iter().flatten().map(filled).collect();
        (self.exactly.is_some() && sorted(found) != sorted(&wanted))
            .then(|| format!("is exactly {}", shown(&wanted)))
    }

    fn numbers_broken(&self, found: &[String], memory: &Memory) -> Option<String> {
        let ordered = |limit: &str, right: fn(f64, f64) -> bool| {
            let fits = |one: &String| {
                let both = number(one).zip(number(limit));
                both.is_some_and(|(one, limit)| right(one, limit))
            };
            !found.is_empty() && found.iter().all(fits)
        };
        let filled = |value: &Value| fill(&text(value), memory);
        if let Some(count) = self.count
            && found.len() != count
        {
            return Some(format!("has {count} values"));
        }
        if let Some(limit) = self.above.as_ref().map(filled)
            && !ordered(&limit, |one, limit| one > limit)
        {
            return Some(format!("is above {limit}"));
        }
        if let Some(limit) = self.below.as_ref().map(filled)
            && !ordered(&limit, |one, limit| one < limit)
        {
            return Some(format!("is below {limit}"));
        }
        match (self.there, &self.remember) {
            (Some(true), _) if found.is_empty() => Some("is there".to_owned()),
            (Some(false), _) if !found.is_empty() => Some("is absent".to_owned()),
            (_, Some(name)) if found.len() != 1 => Some(format!("is one value, {name}")),
            (_, _) => None,
        }
    }
}

/// A number, or a span of time as messages write it, `1.5s`, in seconds.
fn number(value: &str) -> Option<f64> {
    value.strip_suffix('s').unwrap_or(value).parse().ok()
}

fn sorted(values: &[String]) -> Vec<&String> {
    let mut sorted: Vec<&String> = values.iter().collect();
    sorted.sort();
    sorted
}

/// A text with `{NAME}` replaced by what is remembered under the name.
pub(super) fn fill(template: &str, memory: &Memory) -> String {
    memory
        .iter()
        .fold(template.to_owned(), |filled, (name, value)| {
            filled.replace(&format!("{{{name}}}"), value)
        })
}

/// A value as a person would write it: text without quotes.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// An answer as JSON. Several documents, one after the other, are a list; no document is null.
fn json(answer: &str) -> Result<Value, String> {
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_str(answer).into_iter() {
        documents.push(document.map_err(|error| {
            let begin: String = answer.chars().take(LONG).collect();
            format!("expected: JSON\nactual:   {error}: {begin}")
        })?);
    }
    Ok(match documents.len() {
        0 => Value::Null,
        1 => documents.remove(0),
        _ => Value::Array(documents),
    })
}

fn shown(values: &[String]) -> String {
    let mut whole = values.join(", ");
    if whole.is_empty() {
        "nothing".clone_into(&mut whole);
    }
    let long = whole.chars().count();
    if long > LONG {
        let begin: String = whole.chars().take(LONG / 2).collect();
        let end: String = whole.chars().skip(long - LONG / 2).collect();
        whole = format!("{begin} ... {end}");
    }
    whole
}

/// More than this of an answer is not read on a terminal: its beginning is, and its end, where a program says why it gave up.
const LONG: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expectation: &str, answer: &str) -> Result<(), String> {
        let expectation: Expectation = serde_yaml_ng::from_str(expectation).unwrap();
        expectation.check(
            answer,
            &mut Memory::from([("old".to_owned(), "3".to_owned())]),
        )
    }

    const ANSWER: &str =
        r#"{"peers": {"a": {"up": 4, "for": "4.2s", "state": "Established"}}, "list": ["x", "y"]}"#;

    #[test]
    fn demands_that_hold() {
        for expectation in [
            "{at: /peers/a/up, is: 4}",
            "{at: /peers/a/up, above: '{old}', below: 5}",
            "{at: /peers/a/for, above: 4, below: 5}",
            "{at: '/list/*', exactly: [y, x], has: x, count: 2}",
            "{at: /peers/b, there: false}",
            "{contains: Established, lacks: Idle}",
        ] {
            assert_eq!(check(expectation, ANSWER), Ok(()), "{expectation}");
        }
    }

    #[test]
    fn demands_that_do_not_hold_say_both_sides() {
        let said = check("{at: /peers/a/state, is: Idle}", ANSWER).unwrap_err();
        assert_eq!(
            said,
            "expected: /peers/a/state is Idle\nactual:   Established"
        );
        for expectation in [
            "{at: /peers/b/state, is: Idle}",
            "{at: /peers/a/up, below: '{old}'}",
            "{at: /peers/a/for, above: 5}",
            "{at: /peers/a/state, above: 1}",
            "{at: '/list/*', exactly: [x]}",
            "{at: /peers, there: false}",
            "{lacks: Established}",
        ] {
            assert!(check(expectation, ANSWER).is_err(), "{expectation}");
        }
        assert!(
            check("{at: /a, is: 1}", "no JSON")
                .unwrap_err()
                .contains("no JSON")
        );
    }

    #[test]
    fn of_a_long_answer_its_beginning_and_its_end_are_shown() {
        let answer = format!("began\n{}\ngave up", "x".repeat(LONG));
        let said = check("{contains: done}", &answer).unwrap_err();
        assert!(said.contains("began") && said.ends_with("x\ngave up"));
        assert!(said.contains("x ... x") && said.len() < LONG + 80);
    }

    #[test]
    fn documents_one_after_the_other_are_a_list() {
        assert_eq!(check("{at: /1/b, is: 2}", "{\"a\":1}\n{\"b\":2}\n"), Ok(()));
        assert_eq!(check("{at: /a, there: false}", ""), Ok(()));
    }
}
