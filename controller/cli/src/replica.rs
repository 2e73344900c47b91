//! `weft replica`: the Raft group as the asked replica sees it.

use clap::Subcommand;
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash};

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
    let mut client = dialog.connection.operator().await?;
    let call = client.list_replicas(proto::ListReplicasRequest {});
    let answer = dialog.connection.answer(call).await?;
    dialog.rows::<_, Replica>(answer.replicas)
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

impl From<proto::Replica> for Replica {
    fn from(replica: proto::Replica) -> Self {
        Self {
            id: replica.id,
            address: replica.address,
            role: replica.role,
            answers: replica.self_,
            term: replica.term,
            commit_index: replica.commit_index,
            applied_index: replica.applied_index,
            last_seen_secs: replica.last_seen_secs,
            degraded: replica.degraded,
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn replicas_in_columns() {
        let own = proto::Replica {
            id: 1,
            address: "192.0.2.1:7400".to_owned(),
            role: "leader".to_owned(),
            self_: true,
            term: 4,
            commit_index: 120,
            applied_index: 120,
            last_seen_secs: 0.0,
            degraded: String::new(),
        };
        let other = |id: u64, last_seen_secs: f64, role: &str| proto::Replica {
            id,
            address: format!("192.0.2.{id}:7400"),
            role: role.to_owned(),
            last_seen_secs,
            ..proto::Replica::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        let rows = [
            own,
            other(2, 0.04, "follower"),
            other(3, -1.0, "unreachable"),
            other(4, -1.0, "unknown"),
        ];
        list.add(&rows.map(Replica::from)).unwrap();
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
        let row = Replica::from(proto::Replica {
            self_: true,
            ..proto::Replica::default()
        });
        assert_eq!(serde_json::to_value(&row).unwrap()["self"], true);
    }
}
