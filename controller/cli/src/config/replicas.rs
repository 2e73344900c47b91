//! `weft config diff --replicas`: three files must not differ unseen.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash};

/// Values of one replica by subject and key.
type Values = BTreeMap<(String, String), String>;

/// Asks every replica, prints what differs, and fails if anything does.
pub(super) async fn diff(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let each = dialog.connection.each();
    if each.len() < 2 {
        let reason = "--replicas: give the address of each replica, or a context that has them";
        return Err(Failure::Refused(reason.to_owned()));
    }
    let mut replicas = Vec::new();
    for connection in &each {
        replicas.push(values(connection).await?);
    }
    let differences = differences(&replicas);
    let count = differences.len();
    dialog.rows::<_, Difference>(differences)?;
    match count {
        0 => Ok(()),
        1 => Err(Failure::Unmet("1 value differs".to_owned())),
        _ => Err(Failure::Unmet(format!("{count} values differ"))),
    }
}

async fn values(connection: &Connection) -> Result<(u64, Values), Failure> {
    let mut client = connection.config().await?;
    let mut id = 0;
    let ask = async |page_token| {
        let request = proto::ListConfigValuesRequest {
            with_defaults: true,
            page_token,
            ..proto::ListConfigValuesRequest::default()
        };
        let call = client.list_config_values(request);
        let page = connection.answer(call).await?;
        id = page.header.map_or(0, |header| header.replica_id);
        Ok((page.values, page.next_page_token))
    };
    let values = connection.every(ask).await?.into_iter();
    let values = values.filter(|it| !is_its_own(&it.subject, &it.key));
    let values = values.map(|it| ((it.subject, it.key), it.value)).collect();
    Ok((id, values))
}

/// What each replica must have for itself.
fn is_its_own(subject: &str, key: &str) -> bool {
    let listens = matches!(key, "listen" | "router_id" | "hosts");
    subject == "replica" || (listens && matches!(subject, "bgp" | "api" | "metrics"))
}

fn differences(replicas: &[(u64, Values)]) -> Vec<Difference> {
    let names: BTreeSet<_> = replicas
        .iter()
        .flat_map(|(_, values)| values.keys())
        .collect();
    let rows = names.into_iter().filter_map(|name| {
        let each = replicas.iter();
        let each: Vec<_> = each.map(|(id, values)| (*id, values.get(name))).collect();
        let equal = each.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let values = each.into_iter().map(|(id, value)| Held {
            replica: id,
            value: value.cloned(),
        });
        (!equal).then(|| Difference {
            subject: name.0.clone(),
            knob: name.1.clone(),
            values: values.collect(),
        })
    });
    rows.collect()
}

#[derive(Serialize)]
struct Difference {
    subject: String,
    knob: String,
    values: Vec<Held>,
}

/// What one replica has; null: not this subject.
#[derive(Serialize)]
struct Held {
    replica: u64,
    value: Option<String>,
}

impl output::Row for Difference {
    const HEADER: &'static [&'static str] = &["SUBJECT", "KNOB", "VALUES"];

    fn cells(&self) -> Vec<String> {
        let values = self.values.iter().map(|held| {
            let value = held.value.as_deref().unwrap_or("");
            format!("replica {}: {}", held.replica, or_dash(value))
        });
        vec![
            self.subject.clone(),
            self.knob.clone(),
            values.collect::<Vec<_>>().join("; "),
        ]
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
        assert!(differences(&same).is_empty());
        let other = [
            (1, values("9", true)),
            (2, values("9", true)),
            (3, values("30", false)),
        ];
        let found = differences(&other);
        let cells: Vec<_> = found.iter().map(output::Row::cells).collect();
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
}
