//! Where in a JSON document something stands: JSON pointers (RFC 6901) with three additions, since what
//! speakers print is keyed by what a lab cannot know. It does not know what is asked of what it finds.
//!
//! ```text
//! /peers/192.0.2.1/state        members, or numbers of elements
//! /routes/192.0.2.0~124         `~1` is `/`, `~0` is `~`
//! /*/state                      every member or element
//! /*[address=192.0.2.1]/state   those whose member equals; `[name~text]`: those whose member contains
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

fn segments(path: &str) -> Vec<String> {
    let inside = path.strip_prefix('/').unwrap_or(path);
    if inside.is_empty() {
        return Vec::new();
    }
    inside.split('/').map(str::to_owned).collect()
}

fn plain(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

fn step<'a>(found: &[&'a Value], segment: &str) -> Vec<&'a Value> {
    let mut next = Vec::new();
    for value in found {
        match segment {
            "**" => below(value, &mut next),
            "*" => next.extend(children(value)),
            _ => match filters(segment) {
                Some(wanted) => {
                    let fits = |child: &&Value| wanted.iter().all(|one| one.fits(child));
                    next.extend(children(value).into_iter().filter(fits));
                }
                None => next.extend(member(value, &plain(segment))),
            },
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

/// `*[name=value]` or `*[name~text]`.
struct Filter {
    name: String,
    wanted: String,
    whole: bool,
}

impl Filter {
    fn fits(&self, value: &Value) -> bool {
        member(value, &self.name).is_some_and(|found| match self.whole {
            true => text(found) == self.wanted,
            false => text(found).contains(&self.wanted),
        })
    }
}

/// Of what members the filters of a path speak.
#[cfg(test)]
pub(super) fn filtered(path: &str) -> Vec<String> {
    let segments = segments(path);
    let filters = segments.iter().filter_map(|segment| filters(segment));
    filters.flatten().map(|filter| filter.name).collect()
}

fn filters(segment: &str) -> Option<Vec<Filter>> {
    let inside = segment.strip_prefix("*[")?.strip_suffix(']')?;
    inside.split("][").map(filter).collect()
}

fn filter(inside: &str) -> Option<Filter> {
    let at = inside.find(['=', '~'])?;
    Some(Filter {
        name: plain(&inside[..at]),
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
        assert_eq!(filtered("/peers/*[state~Est][up=3]/up"), ["state", "up"]);
    }

    #[test]
    fn a_path_that_leads_nowhere_says_how_far_it_went() {
        let document = json!({"peers": {"192.0.2.1": {}}});
        let said = reach(&document, "/peers/192.0.2.9/state");
        assert_eq!(said, "nothing; /peers has 1 members: 192.0.2.1");
    }
}
