//! The replicas as rows: what this one knows of itself, and of the others if it leads. Knows no task.

use std::collections::BTreeMap;

use weft_proto::operator::v1 as proto;

use crate::consensus::Group;

/// One row for each replica that is configured, by id, with its address.
pub(super) fn rows(group: &Group, replicas: &BTreeMap<u64, String>) -> proto::ListReplicasResponse {
    let status = &group.status;
    let row = |(id, address): (&u64, &String)| {
        let own = *id == status.id;
        let heard = group.heard.get(id).map(std::time::Instant::elapsed);
        let last_seen_secs = if own {
            0.0
        } else {
            heard.map_or(-1.0, |ago| ago.as_secs_f64())
        };
        let role = match (own, status.leader == Some(*id)) {
            (true, _) => format!("{:?}", status.role).to_lowercase(),
            (false, true) => "leader".to_owned(),
            (false, false)
                if heard.is_none_or(|ago| ago > UNREACHABLE_AFTER)
                    && status.leader == Some(status.id) =>
            {
                "unreachable".to_owned()
            }
            (false, false) => "follower".to_owned(),
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

/// As the leader counts a replica as lost.
const UNREACHABLE_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
