//! The replicas as rows: what this one knows of itself, and of the others if it leads. Knows no task.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::Status;
use weft_proto::operator::v1 as proto;

use crate::consensus::Group;

/// One row for each replica that is configured, by id, with its address.
pub(super) fn rows(group: &Group, replicas: &BTreeMap<u64, String>) -> proto::ListReplicasResponse {
    let status = &group.status;
    let row = |(id, address): (&u64, &String)| {
        let own = *id == status.id;
        let heard = group.heard.get(id).map(std::time::Instant::elapsed);
        let (role, heard) = match own {
            true => (format!("{:?}", status.role).to_lowercase(), heard),
            false => other(group, *id, heard),
        };
        let last_seen_secs = match own {
            true => 0.0,
            false => heard.map_or(-1.0, |ago| ago.as_secs_f64()),
        };
        let matched = status
            .peers
            .iter()
            .find(|peer| peer.0 == *id)
            .map(|peer| peer.1);
        proto::Replica {
            id: *id,
            address: address.clone(),
            role,
            self_: own,
            term: if own { status.term } else { 0 },
            commit_index: if own { status.commit } else { 0 },
            applied_index: if own {
                status.applied
            } else {
                matched.unwrap_or(0)
            },
            last_seen_secs,
            degraded: if own {
                status.degraded.clone().unwrap_or_default()
            } else {
                String::new()
            },
        }
    };
    proto::ListReplicasResponse {
        replicas: replicas.iter().map(row).collect(),
        leader: status.leader.unwrap_or(0),
        replica: status.id,
        term: status.term,
    }
}

/// Refuses what this replica does not know since it does not lead, and says who does.
pub(super) fn only_the_leader(
    group: &Group,
    replicas: &BTreeMap<u64, String>,
) -> Result<(), Status> {
    if group.leads() {
        return Ok(());
    }
    let own = group.status.id;
    let leader = group.status.leader.filter(|leader| *leader != own);
    Err(match leader {
        Some(leader) => {
            let address = replicas.get(&leader).map(String::as_str);
            Status::failed_precondition(format!(
                "only the leader knows: ask replica {leader} ({}); this is replica {own}",
                address.unwrap_or("of an unknown address"),
            ))
        }
        None => Status::unavailable("only the leader knows, and there is none"),
    })
}

/// The role of another replica, and when it was heard of. All others speak to the leader; two that follow
/// say nothing to each other, so that one cannot tell whether the other lives.
fn other(group: &Group, id: u64, heard: Option<Duration>) -> (String, Option<Duration>) {
    let leader = group.status.leader;
    let lives = heard.is_some_and(|ago| ago <= UNREACHABLE_AFTER);
    let (role, heard) = match (leader == Some(id), leader == Some(group.status.id)) {
        (true, _) => ("leader", heard),
        (false, false) => ("unknown", None),
        (false, true) if lives => ("follower", heard),
        (false, true) => ("unreachable", heard),
    };
    (role.to_owned(), heard)
}

/// As the leader counts a replica as lost.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weft_store::{Role, Status};

    use super::*;

    fn group(id: u64, role: Role, heard: &[u64]) -> Group {
        Group {
            status: Status {
                id,
                role,
                term: 4,
                leader: Some(1),
                commit: 120,
                applied: 120,
                first: 1,
                last: 120,
                peers: Vec::new(),
                refused: 0,
                synced: 0,
                degraded: None,
            },
            heard: heard.iter().map(|id| (*id, now())).collect(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "stands for the thread")]
    fn now() -> Instant {
        Instant::now()
    }

    fn roles(group: &Group) -> Vec<(String, bool)> {
        let replicas = [1, 2, 3].map(|id| (id, format!("192.0.2.{id}:7400")));
        let rows = rows(group, &replicas.into()).replicas.into_iter();
        rows.map(|row| (row.role, row.last_seen_secs >= 0.0))
            .collect()
    }

    fn said(rows: [(&str, bool); 3]) -> Vec<(String, bool)> {
        rows.map(|(role, seen)| (role.to_owned(), seen)).into()
    }

    #[test]
    fn the_leader_says_who_follows_and_who_is_lost() {
        let expected = said([("leader", true), ("follower", true), ("unreachable", false)]);
        assert_eq!(roles(&group(1, Role::Leader, &[2])), expected);
    }

    #[test]
    fn a_follower_says_nothing_of_those_that_do_not_speak_to_it() {
        let expected = said([("leader", true), ("follower", true), ("unknown", false)]);
        assert_eq!(roles(&group(2, Role::Follower, &[1])), expected);
        // It asked for a vote before there was a leader: that says nothing of now.
        assert_eq!(roles(&group(2, Role::Follower, &[1, 3])), expected);
    }

    #[test]
    fn without_a_leader_every_other_is_unknown() {
        let mut group = group(2, Role::PreCandidate, &[1, 3]);
        group.status.leader = None;
        let expected = said([
            ("unknown", false),
            ("precandidate", true),
            ("unknown", false),
        ]);
        assert_eq!(roles(&group), expected);
    }
}
