//! `weft config diff --replicas`: three files must not differ unseen.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use prost_types::Timestamp;
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{Row, or_dash};
use crate::replica;

/// Values of one replica by subject and key.
type Values = BTreeMap<(String, String), String>;

/// Asks every replica, prints what differs, and fails if anything does.
pub(super) async fn diff(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let each = dialog.connection.each();
    if each.len() < 2 {
        let reason = "--replicas: give the address of each replica, or a context that has them";
        return Err(Failure::Refused(reason.to_owned()));
    }
    let group = group(&dialog.connection).await?;
    let compared = compared(&each).await;
    let count = compared.differences.len();
    dialog.rows(&compared.differences, None)?;
    let differ = match count {
        0 => None,
        1 => Some("1 value differs".to_owned()),
        _ => Some(format!("{count} values differ")),
    };
    let faults = compared.faults(&group);
    let unmet: Vec<_> = differ.into_iter().chain(faults).collect();
    match unmet.is_empty() {
        true => Ok(()),
        false => Err(Failure::Unmet(unmet.join("; "))),
    }
}

/// Configurations of several replicas beside each other.
pub(crate) struct Compared {
    /// Values that are not the same everywhere.
    pub(crate) differences: Vec<Difference>,
    /// Raft ids of the replicas that were compared.
    pub(crate) ids: BTreeSet<u64>,
    /// Reasons of addresses at which no further replica answered.
    pub(crate) silent: Vec<String>,
}

impl Compared {
    /// Returns a line for each replica of the group that was not compared, and for each address at which none answered.
    fn faults(&self, group: &BTreeSet<u64>) -> Vec<String> {
        faults(group, &self.ids, &self.silent, "compared")
    }
}

/// Compares the replicas at several addresses, all asked at once. One that does not answer does not end the comparison of the others.
pub(crate) async fn compared(each: &[Connection]) -> Compared {
    let mut asked = Asked::default();
    let answers = join_all(each.iter().map(values)).await;
    for (connection, answer) in each.iter().zip(answers) {
        asked.take(connection.address(), answer);
    }
    Compared {
        differences: differences(&asked.answers),
        ids: asked.answers.into_keys().collect(),
        silent: asked.refused.into_iter().chain(asked.silent).collect(),
    }
}

/// Has every replica read its file again, after all of them found theirs valid.
pub(super) async fn reload(dry_run: bool, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let group = group(&dialog.connection).await?;
    let mut asked = reload_each(true, dialog).await;
    if let Some(refused) = asked.refused.take() {
        return Err(Failure::Refused(format!(
            "{refused}; no replica was reloaded"
        )));
    }
    if !dry_run {
        asked = reload_each(false, dialog).await;
    }
    let faults = asked.faults(&group, if dry_run { "checked" } else { "reloaded" });
    let answers: Vec<_> = asked.answers.into_values().collect();
    if dialog.format.is_for_people() {
        for answer in &answers {
            super::reloaded(answer, dry_run, dialog.out)?;
        }
    } else {
        dialog.rows(&answers, None)?;
    }
    match (asked.refused, faults.is_empty()) {
        (None, true) => Ok(()),
        (refused, _) => {
            let unmet: Vec<_> = faults.into_iter().chain(refused).collect();
            Err(Failure::Unmet(unmet.join("; ")))
        }
    }
}

async fn reload_each(dry_run: bool, dialog: &Dialog<'_>) -> Asked<proto::ReloadConfigResponse> {
    let each = dialog.connection.each();
    let mut asked = Asked::default();
    if dry_run {
        dialog.progress.say("checking at every replica");
        let answers = join_all(each.iter().map(|it| reload_at(it, true))).await;
        for (connection, answer) in each.iter().zip(answers) {
            asked.take(connection.address(), answer);
        }
        return asked;
    }
    // A change may reset sessions: one replica after the other.
    for connection in &each {
        let address = connection.address();
        dialog.progress.say(format!("reloading at {address}"));
        asked.take(address, reload_at(connection, false).await);
    }
    asked
}

async fn reload_at(
    connection: &Connection,
    dry_run: bool,
) -> Result<(u64, proto::ReloadConfigResponse), Failure> {
    let answer = super::ask(connection, super::reloading(dry_run)).await?;
    Ok((super::answering(&answer), answer))
}

/// Raft ids of all replicas.
pub(crate) async fn group(connection: &Connection) -> Result<BTreeSet<u64>, Failure> {
    let ask = async |token| replica::page(connection, token).await;
    let replicas = connection.every(ask, |_| ()).await?;
    Ok(replicas.iter().map(|replica| replica.id).collect())
}

/// What replicas answered, by their Raft ids.
struct Asked<T> {
    answers: BTreeMap<u64, T>,
    /// What the first one refused.
    refused: Option<String>,
    /// Addresses without an answer, or with that of a replica that has another address too.
    silent: Vec<String>,
}

impl<T> Default for Asked<T> {
    fn default() -> Self {
        Self {
            answers: BTreeMap::new(),
            refused: None,
            silent: Vec::new(),
        }
    }
}

impl<T> Asked<T> {
    fn take(&mut self, address: &str, answer: Result<(u64, T), Failure>) {
        match answer {
            Ok((id, _)) if self.answers.contains_key(&id) => {
                self.silent.push(format!("{address} is replica {id} again"));
            }
            Ok((id, answer)) => {
                self.answers.insert(id, answer);
            }
            Err(Failure::Refused(reason)) => {
                let reason = format!("{address}: {reason}");
                self.refused.get_or_insert(reason);
            }
            Err(failure) => self.silent.push(failure.to_string()),
        }
    }

    /// Which replicas of the group did not answer, and what came instead; `done` is what was not done with them.
    fn faults(&self, group: &BTreeSet<u64>, done: &str) -> Vec<String> {
        let ids = self.answers.keys().copied().collect();
        faults(group, &ids, &self.silent, done)
    }
}

/// Returns a line for each replica of the group that did not answer, then those of silent addresses; `done` is the participle of the
/// command.
fn faults(
    group: &BTreeSet<u64>,
    answered: &BTreeSet<u64>,
    silent: &[String],
    done: &str,
) -> Vec<String> {
    let missing = group.difference(answered);
    let missing = missing.map(|id| format!("replica {id} was not {done}"));
    missing.chain(silent.iter().cloned()).collect()
}

async fn values(connection: &Connection) -> Result<(u64, Values), Failure> {
    let id = Cell::new(0);
    let ask = async |page_token| {
        let request = proto::ListConfigValuesRequest {
            with_defaults: true,
            page_token,
            ..proto::ListConfigValuesRequest::default()
        };
        let page = super::values(connection, request).await?;
        id.set(page.replica());
        Ok(page)
    };
    let values = connection.every(ask, |_| ()).await?.into_iter();
    let values = values.filter(|it| !is_its_own(&it.subject, &it.key));
    let values = values.map(|it| ((it.subject, it.key), it.value)).collect();
    Ok((id.get(), values))
}

/// What each replica must have for itself.
fn is_its_own(subject: &str, key: &str) -> bool {
    let listens = matches!(key, "listen" | "router_id" | "hosts");
    subject == "replica" || (listens && matches!(subject, "bgp" | "api" | "metrics"))
}

fn differences(replicas: &BTreeMap<u64, Values>) -> Vec<Difference> {
    let names: BTreeSet<_> = replicas.values().flat_map(BTreeMap::keys).collect();
    let rows = names.into_iter().filter_map(|name| {
        let each = replicas.iter();
        let each: Vec<_> = each.map(|(id, values)| (*id, values.get(name))).collect();
        let equal = each.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let values = each.into_iter().map(|(id, value)| Own {
            replica: id,
            value: value.cloned(),
        });
        (!equal).then(|| Difference {
            subject: name.0.clone(),
            key: name.1.clone(),
            values: values.collect(),
        })
    });
    rows.collect()
}

/// A value that is not the same everywhere; no message has it, for no replica knows the files of others.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    subject: String,
    key: String,
    values: Vec<Own>,
}

impl Difference {
    /// On one line.
    pub(crate) fn line(&self) -> String {
        format!("{} {}: {}", self.subject, self.key, self.values())
    }

    fn values(&self) -> String {
        let values = self.values.iter().map(|own| {
            let value = own.value.as_deref().unwrap_or("");
            format!("replica {}: {}", own.replica, or_dash(value))
        });
        values.collect::<Vec<_>>().join("; ")
    }
}

/// What one replica has; null: not this subject.
#[derive(Debug, Serialize)]
struct Own {
    replica: u64,
    value: Option<String>,
}

impl Row for Difference {
    const HEADER: &'static [&'static str] = &["SUBJECT", "KEY", "VALUES"];

    fn object(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![self.subject.clone(), self.key.clone(), self.values()]]
    }

    fn name(&self) -> String {
        format!("{} {}", self.subject, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_said_of_every_replica() {
        let values = |hold: &str, more: bool| -> Values {
            let value = |subject: &str, key: &str, value: &str| {
                ((subject.to_owned(), key.to_owned()), value.to_owned())
            };
            let rest = more.then(|| value("peer 192.0.2.9", "strict", "true"));
            let values = [value("peer_group a", "hold_secs", hold)].into_iter();
            values.chain(rest).collect()
        };
        let same = [(1, values("9", true)), (2, values("9", true))];
        assert!(differences(&same.into()).is_empty());
        let other = [
            (1, values("9", true)),
            (2, values("9", true)),
            (3, values("30", false)),
        ];
        let found = differences(&other.into());
        let cells: Vec<_> = found.iter().flat_map(|it| it.lines(None)).collect();
        assert_eq!(
            cells,
            [
                [
                    "peer 192.0.2.9",
                    "strict",
                    "replica 1: true; replica 2: true; replica 3: -"
                ],
                [
                    "peer_group a",
                    "hold_secs",
                    "replica 1: 9; replica 2: 9; replica 3: 30"
                ],
            ]
        );
    }

    #[test]
    fn a_replica_that_is_missing_or_doubled_is_named() {
        let mut asked = Asked::default();
        asked.take("192.0.2.1:7401", Ok((1, ())));
        asked.take("192.0.2.2:7401", Ok((1, ())));
        asked.take(
            "192.0.2.3:7401",
            Err(Failure::unanswered("192.0.2.3:7401", "nothing")),
        );
        assert_eq!(
            asked.faults(&[1, 2, 3].into(), "compared"),
            [
                "replica 2 was not compared",
                "replica 3 was not compared",
                "192.0.2.2:7401 is replica 1 again",
                "no answer from 192.0.2.3:7401: nothing",
            ]
        );
        assert!(asked.faults(&[1].into(), "compared").len() == 2);
    }
}
