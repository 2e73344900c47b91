//! The table of speakers: what each is by its own words, what weft takes it for, and what it is told of the routes of one
//! peer that tells a route of each kind. What a speaker gets wrong stands in the lab; the rest is asked.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    failure::{Context, Failure},
    lab::Lab,
};

/// A step that asks for the table, and prints it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) name: String,
    /// The replica that is asked.
    pub(super) node: String,
    /// Whose routes are of each kind.
    peer: String,
    /// By route distinguisher: what a route shows where that is not its type.
    #[serde(default)]
    forms: BTreeMap<String, String>,
    pub(super) speakers: Vec<Speaker>,
}

/// One row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Speaker {
    speaker: String,
    pub(super) node: String,
    address: String,
    /// What to run there for it to say its version.
    version: String,
    /// What it gets wrong, if that is something, which the labs show.
    wrong: String,
    pub(super) labs: Vec<String>,
}

/// Who is told of one kind of route, by address.
#[derive(Debug)]
struct Kind {
    route_type: u64,
    /// What it shows, if that is not its type.
    form: Option<String>,
    told: BTreeMap<String, bool>,
}

impl Table {
    /// The table as Markdown, a line each.
    pub(super) fn ask(&self, lab: &Lab) -> Result<Vec<String>, Failure> {
        let kinds = self.kinds(lab)?;
        let mut lines = vec![HEADER.to_owned(), RULE.to_owned()];
        for speaker in &self.speakers {
            let said = lab.all_said(&speaker.node, &speaker.version)?;
            let version = version(&said).ok_or_else(|| {
                Failure::new(format!("no version in what {} said: {said}", speaker.node))
            })?;
            let show = format!("weft peer show {} -o json", speaker.address);
            let peer = document(&lab.ask(&self.node, &show)?, &show)?;
            lines.push(speaker.row(version, &peer, &kinds));
        }
        Ok(lines)
    }

    fn kinds(&self, lab: &Lab) -> Result<Vec<Kind>, Failure> {
        let list = format!("weft route list --peer {} -o json", self.peer);
        let routes = document(&lab.ask(&self.node, &list)?, &list)?;
        let mut kinds = Vec::new();
        for route in routes.as_array().into_iter().flatten() {
            let (rd, key) = (text(&route["rd"]), text(&route["key"]));
            let show = format!("weft route show '{key}' --family l2vpn-evpn --rd {rd} -o json");
            let shown = document(&lab.ask(&self.node, &show)?, &show)?;
            kinds.push(Kind {
                route_type: route_type(key),
                form: self.forms.get(rd).cloned(),
                told: told(&shown),
            });
        }
        Ok(kinds)
    }
}

impl Speaker {
    fn row(&self, version: &str, peer: &Value, kinds: &[Kind]) -> String {
        let is_told = |kind: &&Kind| kind.told.get(&self.address) == Some(&true);
        let types = kinds.iter().filter(|kind| kind.form.is_none());
        let types: BTreeSet<u64> = types.filter(is_told).map(|kind| kind.route_type).collect();
        let kept = kinds.iter().filter(|kind| !is_told(kind));
        let kept: Vec<&str> = kept.filter_map(|kind| kind.form.as_deref()).collect();
        let labs = self
            .labs
            .iter()
            .map(|lab| format!("[{lab}](labs/{lab}/README.md)"));
        let cells = [
            format!("{} {version}", self.speaker),
            format!("`{}`", text(&peer["detail"]["profile"])),
            text(&peer["detail"]["profile_reason"]).to_owned(),
            ranges(&types),
            kept.join(", "),
            self.wrong.clone(),
            labs.collect::<Vec<_>>().join(", "),
        ];
        format!("| {} |", cells.join(" | "))
    }

    /// What of its row stands in the lab.
    #[cfg(test)]
    pub(super) fn declared(&self) -> (&str, &str, &[String]) {
        (&self.speaker, &self.wrong, &self.labs)
    }
}

fn document(answer: &str, line: &str) -> Result<Value, Failure> {
    serde_json::from_str(answer).context(|| line.to_owned())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// The number with which a key begins: `[2]:[0]:[48]:[00:00:5e:00:53:01]`.
fn route_type(key: &str) -> u64 {
    let number = key
        .strip_prefix('[')
        .and_then(|key| key.split_once(']'))
        .and_then(|(number, _)| number.parse().ok());
    number.unwrap_or(0)
}

fn told(shown: &Value) -> BTreeMap<String, bool> {
    let routes = shown.as_array().into_iter().flatten();
    let paths = routes.filter_map(|it| it["paths"].as_array());
    let peers = paths
        .flatten()
        .filter_map(|path| path["advertisements"].as_array());
    peers
        .flatten()
        .map(|peer| {
            let address = text(&peer["peer_address"]).to_owned();
            (address, peer["advertised"] == true)
        })
        .collect()
}

/// The first number with a dot in it: `FRRouting 10.7.1 (leaf2)`, `gobgpd version 4.8.0`.
fn version(said: &str) -> Option<&str> {
    said.split_whitespace().find(|word| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        word.contains('.') && word.split('.').all(digits)
    })
}

/// `1 to 5, 7`.
fn ranges(numbers: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => ranges.push((number, number)),
        }
    }
    let words = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Of the table here and in this room's README.
pub(super) const HEADER: &str =
    "| speaker | profile | known by | told of types | never told of | gets wrong | lab |";
const RULE: &str = "| --- | --- | --- | --- | --- | --- | --- |";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_found_in_what_a_program_says() {
        assert_eq!(
            version("FRRouting 10.7.1 (leaf2) on Linux(6.1)."),
            Some("10.7.1")
        );
        assert_eq!(version("ExaBGP : 4.2.21\nPython : 3.11.2"), Some("4.2.21"));
        assert_eq!(version("BIRD 3.4.0 ready."), Some("3.4.0"));
        assert_eq!(version("no such command. Or ..."), None);
    }

    #[test]
    fn a_row_says_what_is_told_and_what_is_not() {
        let shown = json!([{"paths": [{"advertisements": [
            {"peer_address": "192.0.2.1", "advertised": true},
            {"peer_address": "192.0.2.2", "advertised": false, "reason_text": "withheld by the peer's profile"},
        ]}]}]);
        let kind = |route_type, form: Option<&str>| Kind {
            route_type,
            form: form.map(str::to_owned),
            told: told(&shown),
        };
        let speaker = |address: &str| Speaker {
            speaker: "BIRD".to_owned(),
            node: "bird1".to_owned(),
            address: address.to_owned(),
            version: String::new(),
            wrong: "nothing".to_owned(),
            labs: vec!["bfd".to_owned()],
        };
        let kinds = [
            kind(1, None),
            kind(2, None),
            kind(3, None),
            kind(3, Some("tunnels")),
        ];
        let peer = json!({"detail": {"profile": "bird", "profile_reason": "its capabilities"}});
        assert_eq!(
            speaker("192.0.2.1").row("3.4.0", &peer, &kinds),
            "| BIRD 3.4.0 | `bird` | its capabilities | 1 to 3 |  | nothing | [bfd](labs/bfd/README.md) |"
        );
        assert_eq!(
            speaker("192.0.2.2").row("3.4.0", &peer, &kinds),
            "| BIRD 3.4.0 | `bird` | its capabilities |  | tunnels | nothing | [bfd](labs/bfd/README.md) |"
        );
    }

    #[test]
    fn a_key_begins_with_its_route_type() {
        assert_eq!(route_type("[11]:[00]"), 11);
        assert_eq!(route_type("192.0.2.0/24"), 0);
    }

    #[test]
    fn ranges_are_short() {
        assert_eq!(ranges(&[1, 2, 3, 5, 7, 8].into()), "1 to 3, 5, 7, 8");
        assert_eq!(ranges(&BTreeSet::new()), "");
    }
}
