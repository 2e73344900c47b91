//! `cases.yaml`: what peers say that they must not, and what has to come of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
};

use serde::Deserialize;

use super::{
    acts::Act,
    notation::{self, Ends, Fragments},
};
use crate::{
    failure::{Context, Failure},
    speakers::Suite,
};

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
    #[serde(default)]
    say: String,
    #[serde(default)]
    acts: Vec<Act>,
    #[serde(default = "up")]
    answer: String,
    data: Option<String>,
    routes: Option<Vec<String>>,
    leaf: Option<Vec<String>>,
    #[serde(rename = "leaf-trixie")]
    leaf_trixie: Option<Vec<String>>,
    #[serde(rename = "leaf-testing")]
    leaf_testing: Option<Vec<String>>,
    counts: Option<Counts>,
}

/// What is counted of a peer, by name; see `counters`.
pub(super) type Counts = BTreeMap<String, u64>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum From {
    /// An address from which peers are accepted. Those whose session ends are listed one by one in the
    /// replicas' configuration: what is counted of the others goes when they go.
    #[default]
    Peer,
    /// Another one.
    Stranger,
    /// One of the group with limits.
    Limited,
    /// One of the group with a guard.
    Guarded,
    /// One of the group with a guard that warns.
    Warned,
    /// One of the group with limits of what is in its routes.
    Counted,
    /// One of the group with limits that warn.
    Lenient,
    /// One of the group with limits that end its session.
    Dismissed,
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
    pub(super) acts: Vec<Act>,
    pub(super) answer: Answer,
    /// Keys, as `weft route list` prints them, that have to be there in the end.
    pub(super) routes: BTreeSet<String>,
    /// What the leaf has to have, by route distinguisher.
    pub(super) at_leaf: BTreeSet<String>,
    /// What its replica has to have counted of it; None if nobody can say.
    pub(super) counts: Option<Counts>,
    pub(super) ends: Ends,
}

impl Table {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(|| path.display().to_string())?;
        serde_yaml_ng::from_str(&text).context(|| path.display().to_string())
    }

    /// Every row, at an address of its own; they take turns at the replicas. The leaf runs the speakers of `suite`.
    pub(super) fn cases(&self, replicas: &[Ipv4Addr], suite: Suite) -> Result<Vec<Case>, Failure> {
        let mut taken = BTreeMap::new();
        let rows = self.cases.iter().zip(replicas.iter().cycle());
        rows.map(|(row, replica)| {
            row.address(&mut taken)
                .and_then(|own| self.case(row, own, *replica, suite))
                .context(|| format!("{} {}", row.id, row.name))
        })
        .collect()
    }

    fn case(
        &self,
        row: &Row,
        own: Ipv4Addr,
        replica: Ipv4Addr,
        suite: Suite,
    ) -> Result<Case, Failure> {
        let answer = row.answer()?;
        let routes = match (&row.routes, &answer) {
            (Some(routes), _) => routes.clone(),
            (None, Answer::Up) => ["good", "last"].map(str::to_owned).to_vec(),
            (None, _) => Vec::new(),
        };
        let leaf = row.leaf(suite);
        let spoken = |name: &&String| leaf.is_some() || *name != IPV4;
        let at_leaf = leaf.unwrap_or(&routes).iter().filter(spoken);
        let at_leaf = at_leaf.map(|name| self.key(name, own).map(|key| with_rd(key, own)));
        let keys = routes.iter().map(|name| self.key(name, own).map(bare));
        let counts = match (&row.counts, &answer) {
            (Some(counts), _) => Some(counts.clone()),
            (None, Answer::Notification(..)) => Some([("NOTIFICATION sent".to_owned(), 1)].into()),
            (None, Answer::Up | Answer::Waits | Answer::Closed) => Some(Counts::new()),
            (None, Answer::Nothing | Answer::Any) => None,
        };
        Ok(Case {
            name: format!("{} {}", row.id, row.name),
            own,
            to: SocketAddrV4::new(replica, row.port),
            when: row.when,
            acts: row.acts(),
            answer,
            routes: keys.collect::<Result<_, _>>()?,
            at_leaf: at_leaf.collect::<Result<_, _>>()?,
            counts,
            ends: Ends {
                own,
                replica,
                number: 0,
            },
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

    /// What a text means to this case when it is said for the `number`th time, from 0.
    pub(super) fn octets(&self, text: &str, case: &Case, number: u32) -> Result<Vec<u8>, Failure> {
        let ends = Ends {
            number,
            ..case.ends
        };
        notation::octets(text, &self.fragments, ends)
    }

    /// What a text means to a peer without a row.
    pub(super) fn spoken(
        &self,
        text: &str,
        own: Ipv4Addr,
        replica: Ipv4Addr,
    ) -> Result<Vec<u8>, Failure> {
        let number = 0;
        let ends = Ends {
            own,
            replica,
            number,
        };
        notation::octets(text, &self.fragments, ends)
    }
}

impl Row {
    /// What the leaf has, where that is not what the replicas have.
    fn leaf(&self, suite: Suite) -> Option<&Vec<String>> {
        let own = match suite {
            Suite::Installed => None,
            Suite::Trixie => self.leaf_trixie.as_ref(),
            Suite::Testing => self.leaf_testing.as_ref(),
        };
        own.or(self.leaf.as_ref())
    }

    /// The next address of the range that the row is from.
    fn address(&self, taken: &mut BTreeMap<u8, u8>) -> Result<Ipv4Addr, Failure> {
        let ends = self.answer.contains('/') || self.answer == "closed";
        let (range, last) = match self.from {
            From::Peer if ends => (4, LISTED_MAX),
            From::Peer => (2, DYNAMIC_MAX),
            From::Stranger => (3, DYNAMIC_MAX),
            From::Limited => (5, DYNAMIC_MAX),
            From::Guarded => (6, DYNAMIC_MAX),
            From::Warned => (9, DYNAMIC_MAX),
            From::Counted => (10, DYNAMIC_MAX),
            From::Lenient => (11, DYNAMIC_MAX),
            From::Dismissed => (12, DYNAMIC_MAX),
        };
        let number = taken.entry(range).or_insert(0);
        if *number == last {
            return Err(Failure::new("more rows than addresses"));
        }
        *number += 1;
        Ok(Ipv4Addr::new(10, 255, range, *number))
    }

    /// What is said first, and then the rest.
    fn acts(&self) -> Vec<Act> {
        let said = (!self.say.is_empty()).then(|| Act::saying(&self.say));
        said.into_iter().chain(self.acts.iter().cloned()).collect()
    }

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

/// A key as FRR lists it. Those without a route distinguisher have the peer's own.
fn with_rd(key: String, own: Ipv4Addr) -> String {
    match key.contains(' ') {
        true => key,
        false => format!("{own}:100 {key}"),
    }
}

/// A key as weft lists it.
fn bare(key: String) -> String {
    match key.split_once(' ') {
        Some((_, key)) => key.to_owned(),
        None => key,
    }
}

/// Addresses above it belong to the crowd and to those who listen.
const DYNAMIC_MAX: u8 = 248;

/// As many as the replicas' configuration lists.
const LISTED_MAX: u8 = 96;

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
    use bytes::BytesMut;
    use weft_bgp::{
        capability::AddPathSet,
        frame,
        message::{DecodeContext, Message},
    };

    use super::*;

    const INSIDE: DecodeContext = DecodeContext {
        four_octet_as: true,
        ibgp: true,
        extended_message: false,
        add_path: AddPathSet::NONE,
    };

    /// The rules that a row's UPDATEs break, as the codec alone sees them.
    fn broken(table: &Table, case: &Case) -> Counts {
        let mut rules = Counts::new();
        for act in &case.acts {
            let octets = table.octets(&act.say, case, 0).unwrap();
            let mut octets = BytesMut::from(&octets[..]);
            while let Some(frame) = frame::split(&mut octets, 4096).unwrap() {
                if let Message::Update(update) = Message::decode(frame, &INSIDE).unwrap()
                    && let Some(fault) = update.faults.first()
                {
                    let rule = format!("malformed {}", fault.fault.rule());
                    *rules.entry(rule).or_default() += u64::from(act.times);
                }
            }
        }
        rules
    }

    #[test]
    fn rows_break_the_rules_that_they_name() {
        let path = crate::scenario::folder("bad-input").join("cases.yaml");
        let table = Table::read(&path).unwrap();
        let mut wrong = String::new();
        for case in table
            .cases(&[Ipv4Addr::new(192, 0, 2, 1)], Suite::Installed)
            .unwrap()
        {
            if case.answer != Answer::Up {
                continue;
            }
            let named = case.counts.iter().flatten();
            let named = named.filter(|(name, _)| name.starts_with("malformed"));
            let named: Counts = named.map(|(name, count)| (name.clone(), *count)).collect();
            let broken = broken(&table, &case);
            if named != broken {
                wrong += &format!("{}: {named:?} and not {broken:?}\n", case.name);
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    #[test]
    fn every_row_of_the_lab_can_be_played() {
        let path = crate::scenario::folder("bad-input").join("cases.yaml");
        let table = Table::read(&path).unwrap();
        let replicas = [Ipv4Addr::new(192, 0, 2, 1)];
        let cases = table.cases(&replicas, Suite::Installed).unwrap();
        for case in &cases {
            let acts = case.acts.iter().map(|act| act.say.as_str());
            for text in acts.chain(["ANNOUNCE_FIRST"]) {
                table
                    .octets(text, case, 0)
                    .context(|| case.name.clone())
                    .unwrap();
            }
        }
        let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), cases.len(), "a name twice");
    }
}
