//! Where in a JSON document something stands: JSON pointers (RFC 6901) with three additions, since what
//! speakers print is keyed by what a lab cannot know. It does not know what is asked of what it finds.
//!
//! ```text
//! /peers/192.0.2.1/state        members, or numbers of elements
//! /routes/192.0.2.0~124         `~1` is `/`, `~0` is `~`
//! /*/state                      every member or element
//! /*[address=192.0.2.1]/state   those whose member equals; `[name~text]`: those whose member contains
//! /*[session/state=X]           those where something at this path equals
//! /*[a=1][b=2]                  those for which all holds
//! /**/ip                        every `ip` at any depth
//! ```

use serde_json::Value;

use super::expectation::text;

/// The values at a path, in the document's order; none where nothing is there.
pub(super) fn select<'a>(document: &'a Value, path: &str) -> Vec<&'a Value> {
    segments(path)
        .iter()
        .fold(vec![document], |found, segment| step(&found, segment))
}

/// The longest part of a path at which something stands, and what could follow it: for a person whose
/// path led nowhere.
pub(super) fn reach(document: &Value, path: &str) -> String {
    let mut found = vec![document];
    let mut reached = String::new();
    for segment in segments(path) {
        let next = step(&found, &segment);
        if next.is_empty() {
            break;
        }
        reached.push('/');
        reached.push_str(&segment);
        found = next;
    }
    let members = match found.first() {
        Some(Value::Object(members)) => {
            let names: Vec<&str> = members.keys().map(String::as_str).take(SHOWN).collect();
            format!("{} members: {}", members.len(), names.join(", "))
        }
        Some(Value::Array(elements)) => format!("{} elements", elements.len()),
        Some(other) => text(other),
        None => "nothing".to_owned(),
    };
    format!(
        "nothing; {} has {members}",
        if reached.is_empty() {
            "the document"
        } else {
            &reached
        }
    )
}

/// What stands between slashes; those within brackets divide nothing.
fn segments(path: &str) -> Vec<String> {
    let inside = path.strip_prefix('/').unwrap_or(path);
    if inside.is_empty() {
        return Vec::new();
    }
    let mut depth = 0_usize;
    let divides = |letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == '/' && depth == 0
    };
    inside.split(divides).map(str::to_owned).collect()
}

fn plain(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// One segment of a path, read.
pub(super) enum Segment {
    /// `*`
    Each,
    /// `**`
    Below,
    /// `*[...]`
    Those(Vec<Filter>),
    /// A member, or the number of an element.
    Named(String),
}

impl Segment {
    fn read(text: &str) -> Self {
        match text {
            "*" => Self::Each,
            "**" => Self::Below,
            _ => filters(text).map_or_else(|| Self::Named(plain(text)), Self::Those),
        }
    }
}

/// A path as its segments.
#[cfg(test)]
pub(super) fn read(path: &str) -> Vec<Segment> {
    let segments = segments(path);
    segments.iter().map(|text| Segment::read(text)).collect()
}

fn step<'a>(found: &[&'a Value], segment: &str) -> Vec<&'a Value> {
    let segment = Segment::read(segment);
    let mut next = Vec::new();
    for value in found {
        match &segment {
            Segment::Below => below(value, &mut next),
            Segment::Each => next.extend(children(value)),
            Segment::Those(wanted) => {
                let fits = |child: &&Value| wanted.iter().all(|one| one.fits(child));
                next.extend(children(value).into_iter().filter(fits));
            }
            Segment::Named(name) => next.extend(member(value, name)),
        }
    }
    next
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(name),
        Value::Array(elements) => elements.get(name.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(members) => members.values().collect(),
        Value::Array(elements) => elements.iter().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn below<'a>(value: &'a Value, into: &mut Vec<&'a Value>) {
    into.push(value);
    for child in children(value) {
        below(child, into);
    }
}

/// `[name=value]` or `[name~text]`; the name is a path without filters.
pub(super) struct Filter {
    pub(super) name: String,
    pub(super) wanted: String,
    /// The value is all of it, not a part.
    pub(super) whole: bool,
}

impl Filter {
    fn fits(&self, value: &Value) -> bool {
        let mut found = select(value, &self.name).into_iter().map(text);
        found.any(|found| match self.whole {
            true => found == self.wanted,
            false => found.contains(&self.wanted),
        })
    }
}

fn filters(segment: &str) -> Option<Vec<Filter>> {
    let inside = segment.strip_prefix("*[")?.strip_suffix(']')?;
    inside.split("][").map(filter).collect()
}

fn filter(inside: &str) -> Option<Filter> {
    let at = inside.find(['=', '~'])?;
    Some(Filter {
        name: inside[..at].to_owned(),
        wanted: plain(&inside[at + 1..]),
        whole: inside[at..].starts_with('='),
    })
}

/// Enough names to see what one should have asked for.
const SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(path: &str) -> Vec<String> {
        let document = json!({
            "peers": {"192.0.2.1": {"state": "Established", "up": 3}, "192.0.2.2": {"state": "Active"}},
            "rows": [{"key": "192.0.2.0/24", "paths": [{"ip": "a"}, {"ip": "b"}]}],
        });
        select(&document, path).into_iter().map(text).collect()
    }

    #[test]
    fn a_path_leads_to_members_elements_and_all_of_them() {
        assert_eq!(texts("/peers/192.0.2.1/up"), ["3"]);
        assert_eq!(texts("/peers/*/state"), ["Established", "Active"]);
        assert_eq!(texts("/rows/0/paths/1/ip"), ["b"]);
        assert_eq!(texts("/**/ip"), ["a", "b"]);
        assert_eq!(texts("/rows/7"), [""; 0]);
    }

    #[test]
    fn a_filter_keeps_what_equals_or_contains() {
        assert_eq!(texts("/rows/*[key=192.0.2.0~124]/paths/0/ip"), ["a"]);
        assert_eq!(texts("/peers/*[state~Act]/state"), ["Active"]);
        assert_eq!(texts("/peers/*[state=Act]/state"), [""; 0]);
        assert_eq!(texts("/peers/*[state~Est][up=3]/up"), ["3"]);
        assert_eq!(texts("/peers/*[state~Est][up=4]/up"), [""; 0]);
    }

    #[test]
    fn a_filter_looks_as_deep_as_its_path_leads() {
        assert_eq!(texts("/rows/*[paths/0/ip=a]/key"), ["192.0.2.0/24"]);
        assert_eq!(texts("/rows/*[paths/0/ip=b]/key"), [""; 0]);
        assert_eq!(texts("/rows/*[paths/*/ip=b]/key"), ["192.0.2.0/24"]);
        assert_eq!(texts("/rows/*[paths/*/ip=c]/key"), [""; 0]);
        assert_eq!(texts("/rows/*[paths/*/ip=a][key~24]/paths/1/ip"), ["b"]);
        // What is wanted may have slashes and brackets of its own.
        assert_eq!(texts("/rows/*[key=192.0.2.0/24]/paths/0/ip"), ["a"]);
        let routes = json!([{"key": "[3]:[0]:[32]:[192.0.2.1]", "paths": [{"best": true}]}]);
        let path = "/*[key=[3]:[0]:[32]:[192.0.2.1]][paths/*/best=true]/paths/0/best";
        assert_eq!(select(&routes, path), [&json!(true)]);
    }

    #[test]
    fn a_path_that_leads_nowhere_says_how_far_it_went() {
        let document = json!({"peers": {"192.0.2.1": {}}});
        let said = reach(&document, "/peers/192.0.2.9/state");
        assert_eq!(said, "nothing; /peers has 1 members: 192.0.2.1");
    }
}
