//! `cases.yaml`: what peers say that they must not, and what has to come of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use serde::Deserialize;

use super::notation::{self, Ends, Fragments};
use crate::failure::{Context, Failure};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    fragments: Fragments,
    keys: BTreeMap<String, String>,
    cases: Vec<Row>,
}

/// One row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    name: String,
    #[serde(default)]
    from: From,
    #[serde(default = "bgp_port")]
    port: u16,
    #[serde(default)]
    when: When,
    say: String,
    #[serde(default = "up")]
    answer: String,
    data: Option<String>,
    routes: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum From {
    /// An address from which peers are accepted.
    #[default]
    Peer,
    /// Another one.
    Stranger,
}

/// How far the session is when the row's octets are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum When {
    Connected,
    Opened,
    #[default]
    Established,
}

/// What has to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Up,
    Notification(u8, u8, Option<Vec<u8>>),
    Closed,
    Nothing,
    Waits,
    Any,
}

/// A row with its addresses, ready to be played.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) own: Ipv4Addr,
    pub(super) to: SocketAddrV4,
    pub(super) when: When,
    pub(super) octets: Vec<u8>,
    pub(super) answer: Answer,
    /// Keys, as `weft route list` prints them, that have to be there in the end.
    pub(super) routes: BTreeSet<String>,
    /// Those of them that the leaf has to have.
    pub(super) at_leaf: BTreeSet<String>,
    ends: Ends,
}

impl Table {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(|| path.display().to_string())?;
        serde_yaml_ng::from_str(&text).context(|| path.display().to_string())
    }

    /// Every row, at an address of its own; they take turns at the replicas.
    pub(super) fn cases(&self, replicas: &[Ipv4Addr]) -> Result<Vec<Case>, Failure> {
        let numbered = (1..=u8::MAX).zip(&self.cases);
        if self.cases.len() >= usize::from(u8::MAX) {
            return Err(Failure::new("more cases than addresses"));
        }
        numbered
            .zip(replicas.iter().cycle())
            .map(|((number, row), replica)| {
                self.case(row, number, *replica)
                    .context(|| format!("{} {}", row.id, row.name))
            })
            .collect()
    }

    fn case(&self, row: &Row, number: u8, replica: Ipv4Addr) -> Result<Case, Failure> {
        let own = match row.from {
            From::Peer => Ipv4Addr::new(10, 255, 2, number),
            From::Stranger => Ipv4Addr::new(10, 255, 3, number),
        };
        let ends = Ends { own, replica };
        let answer = row.answer()?;
        let routes = match (&row.routes, &answer) {
            (Some(routes), _) => routes.iter().map(String::as_str).collect(),
            (None, Answer::Up) => vec!["good", "last"],
            (None, _) => Vec::new(),
        };
        let at_leaf = routes
            .iter()
            .filter(|name| **name != IPV4)
            .map(|name| self.key(name, own))
            .collect::<Result<_, _>>()?;
        let keys = routes.into_iter().map(|name| self.key(name, own));
        Ok(Case {
            name: format!("{} {}", row.id, row.name),
            own,
            to: SocketAddrV4::new(replica, row.port),
            when: row.when,
            octets: notation::octets(&row.say, &self.fragments, ends)?,
            answer,
            routes: keys.collect::<Result<_, _>>()?,
            at_leaf,
            ends,
        })
    }

    /// A route that every case announces first, as it is printed.
    pub(super) fn key(&self, name: &str, own: Ipv4Addr) -> Result<String, Failure> {
        let key = self
            .keys
            .get(name)
            .ok_or_else(|| Failure::new(format!("no key {name}")))?;
        Ok(key.replace("SELF", &own.to_string()))
    }

    /// One of the fragments, as this case says it.
    pub(super) fn fragment(&self, name: &str, case: &Case) -> Result<Vec<u8>, Failure> {
        notation::octets(name, &self.fragments, case.ends)
    }

    /// One of the fragments, as a peer without a row says it.
    pub(super) fn spoken(
        &self,
        name: &str,
        own: Ipv4Addr,
        replica: Ipv4Addr,
    ) -> Result<Vec<u8>, Failure> {
        notation::octets(name, &self.fragments, Ends { own, replica })
    }
}

impl Row {
    fn answer(&self) -> Result<Answer, Failure> {
        match self.answer.as_str() {
            "up" => return Ok(Answer::Up),
            "closed" => return Ok(Answer::Closed),
            "nothing" => return Ok(Answer::Nothing),
            "waits" => return Ok(Answer::Waits),
            "any" => return Ok(Answer::Any),
            _ => {}
        }
        let data = match self.data.as_deref().map(notation::hex) {
            Some(None) => return Err(Failure::new("data that is not hex")),
            Some(Some(data)) => Some(data),
            None => None,
        };
        let numbers = self.answer.split_once('/').and_then(|(code, subcode)| {
            Some(Answer::Notification(
                code.parse().ok()?,
                subcode.parse().ok()?,
                data,
            ))
        });
        numbers.ok_or_else(|| Failure::new(format!("no answer is called {}", self.answer)))
    }
}

/// The key of a family that the leaf does not speak.
const IPV4: &str = "ipv4";

fn bgp_port() -> u16 {
    179
}

fn up() -> String {
    "up".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_lab_can_be_played() {
        let path = crate::scenario::folder("bad-input").join("cases.yaml");
        let table = Table::read(&path).unwrap();
        let replicas = [Ipv4Addr::new(192, 0, 2, 1)];
        let cases = table.cases(&replicas).unwrap();
        for case in &cases {
            table.fragment("ANNOUNCE_FIRST", case).unwrap();
        }
        let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), cases.len(), "a name twice");
    }
}
