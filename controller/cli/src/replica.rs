//! `weft replica`: the Raft group as the asked replica sees it.

use clap::Subcommand;
use prost_types::Timestamp;
use serde::Serialize;
use weft_proto::v1::{self as proto, ReplicaRole};

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::words;

/// What can be asked of replicas.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Members of the group; `*` marks the one that answers. Which of them are reachable the leader knows.
    List,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.replicas().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListReplicasRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_replicas(request)).await?;
        let now = words::answered(page.header.as_ref());
        let rows = page.replicas.into_iter();
        let rows = rows.map(|replica| Replica::new(replica, now));
        Ok((rows.collect(), page.next_page_token))
    };
    dialog.pages::<Replica, Replica>(ask).await
}

#[derive(Serialize)]
struct Replica {
    id: u64,
    address: String,
    role: String,
    #[serde(rename = "self")]
    answers: bool,
    term: u64,
    commit_index: u64,
    applied_index: u64,
    last_seen_secs: f64,
    degraded: String,
}

impl Replica {
    /// As it was when the replica answered.
    fn new(replica: proto::Replica, now: Option<Timestamp>) -> Self {
        let last_seen_secs = match replica.answering {
            true => 0.0,
            // Never.
            false => words::age(now, replica.last_contact_time).unwrap_or(-1.0),
        };
        Self {
            id: replica.id,
            role: role(replica.role()).to_owned(),
            term: replica.term(),
            commit_index: replica.commit_index(),
            applied_index: replica.applied_index(),
            address: replica.raft_address.unwrap_or_default(),
            answers: replica.answering,
            last_seen_secs,
            degraded: replica.degraded_reason.unwrap_or_default(),
        }
    }
}

fn role(role: ReplicaRole) -> &'static str {
    match role {
        ReplicaRole::Leader => "leader",
        ReplicaRole::Follower => "follower",
        ReplicaRole::Candidate => "candidate",
        ReplicaRole::PreCandidate => "precandidate",
        ReplicaRole::Unreachable => "unreachable",
        ReplicaRole::Unknown | ReplicaRole::Unspecified => "unknown",
    }
}

impl output::Row for Replica {
    const HEADER: &'static [&'static str] = &[
        "",
        "ID",
        "ADDRESS",
        "ROLE",
        "TERM",
        "COMMIT",
        "APPLIED",
        "LAST-SEEN",
        "DEGRADED",
    ];

    fn lasting(&self) -> Vec<String> {
        // Not how far it is: an index says nothing by itself.
        vec![
            self.id.to_string(),
            self.role.clone(),
            self.term.to_string(),
            self.degraded.clone(),
        ]
    }

    fn cells(&self) -> Vec<String> {
        let known = |number: u64| {
            if number == 0 {
                "-".to_owned()
            } else {
                number.to_string()
            }
        };
        let last_seen = match (self.role.as_str(), self.last_seen_secs) {
            _ if self.answers => "-".to_owned(),
            // Nobody else hears of it than the leader.
            ("unknown", _) => "-".to_owned(),
            (_, ..0.0) => "never".to_owned(),
            (_, secs) => format!("{secs:.1}s"),
        };
        vec![
            if self.answers { "*" } else { "" }.to_owned(),
            self.id.to_string(),
            or_dash(&self.address),
            self.role.clone(),
            known(self.term),
            known(self.commit_index),
            known(self.applied_index),
            last_seen,
            or_dash(&self.degraded),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn replicas_in_columns() {
        let at = |seconds, nanos| Some(Timestamp { seconds, nanos });
        let own = proto::Replica {
            id: 1,
            raft_address: Some("192.0.2.1:7400".to_owned()),
            role: ReplicaRole::Leader.into(),
            answering: true,
            term: Some(4),
            commit_index: Some(120),
            applied_index: Some(120),
            ..proto::Replica::default()
        };
        let other = |id: u64, heard: Option<Timestamp>, role: ReplicaRole| proto::Replica {
            id,
            raft_address: Some(format!("192.0.2.{id}:7400")),
            role: role.into(),
            last_contact_time: heard,
            ..proto::Replica::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        let rows = [
            own,
            other(2, at(1_000, 960_000_000), ReplicaRole::Follower),
            other(3, None, ReplicaRole::Unreachable),
            other(4, None, ReplicaRole::Unknown),
        ];
        list.add(&rows.map(|row| Replica::new(row, at(1_001, 0))))
            .unwrap();
        list.end().unwrap();
        let expected = concat!(
            "   ID  ADDRESS         ROLE         TERM  COMMIT  APPLIED  LAST-SEEN  DEGRADED\n",
            "*  1   192.0.2.1:7400  leader       4     120     120      -          -\n",
            "   2   192.0.2.2:7400  follower     -     -       -        0.0s       -\n",
            "   3   192.0.2.3:7400  unreachable  -     -       -        never      -\n",
            "   4   192.0.2.4:7400  unknown      -     -       -        -          -\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_answering_replica_is_named_self() {
        let row = proto::Replica {
            answering: true,
            ..proto::Replica::default()
        };
        let row = serde_json::to_value(Replica::new(row, None)).unwrap();
        assert_eq!(
            (&row["self"], &row["last_seen_secs"]),
            (&true.into(), &0.0.into())
        );
    }
}
