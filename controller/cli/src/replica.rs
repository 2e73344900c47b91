//! `weft replica`: the Raft group as the asked replica sees it.

use clap::Subcommand;
use prost_types::Timestamp;
use weft_proto::v1::{self as proto, ReplicaRole};

use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
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
    dialog.pages(page).await
}

/// One page of the members of the group.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Replica>, Failure> {
    let mut client = connection.replicas().await?;
    let request = proto::ListReplicasRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_replicas(request)).await?;
    Ok(Page::new(page.header, page.replicas, page.next_page_token))
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

impl Row for proto::Replica {
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
    // How far it is says nothing by itself.
    const PASSING: &'static [&'static str] = &["COMMIT", "APPLIED", "LAST-SEEN"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Replica", self)
    }

    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>> {
        let last_seen = match words::age(answered, self.last_contact_time) {
            _ if self.answering => "-".to_owned(),
            Some(age) => format!("{:.1}s", age.as_secs_f64()),
            // Nobody else hears of it than the leader.
            None if self.role() == ReplicaRole::Unknown => "-".to_owned(),
            None => "never".to_owned(),
        };
        vec![vec![
            if self.answering { "*" } else { "" }.to_owned(),
            self.id.to_string(),
            or_dash(self.raft_address()),
            role(self.role()).to_owned(),
            words::or_dash(self.term),
            words::or_dash(self.commit_index),
            words::or_dash(self.applied_index),
            last_seen,
            or_dash(self.degraded_reason()),
        ]]
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
        list.add(&rows, at(1_001, 0)).unwrap();
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
}
