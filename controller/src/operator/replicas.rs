//! The service of replicas: what this one knows of itself, and of the others if it leads. Knows no task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use tokio::time::{Instant, timeout};
use tonic::{Request, Response};
use weft_proto::v1::replica_service_client::ReplicaServiceClient;
use weft_proto::v1::{self as proto, ReplicaRole, replica_service_server};
use weft_store::Role;

use super::leader::Way;
use super::page::{self, Page};
use super::{Answer, header, refusal};
use crate::consensus::Group;
use crate::fabric::fact::InvalidFabric;
use crate::speaker::Shared;

/// Where every replica takes Raft messages, by id; empty if it does not say.
pub type Addresses = BTreeMap<u64, String>;

/// Answers of replicas.
pub struct Service {
    shared: Arc<Shared>,
    addresses: Arc<Addresses>,
    /// To what others know; None: others ask here.
    way: Option<Way>,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>, addresses: Arc<Addresses>) -> Self {
        Self {
            way: Some(Way::new(Arc::clone(&shared), Arc::clone(&addresses))),
            shared,
            addresses,
        }
    }

    /// As other replicas ask it over their own port: what this one knows by itself.
    pub fn alone(shared: Arc<Shared>, addresses: Arc<Addresses>) -> Self {
        Self {
            way: None,
            shared,
            addresses,
        }
    }

    /// What the leader says of the others, if it is another replica and answers at once.
    async fn by_leader(&self) -> Vec<proto::Replica> {
        let leader = self.way.as_ref().and_then(|way| way.leader().ok()?);
        let Some(leader) = leader else {
            return Vec::new();
        };
        let mut client = ReplicaServiceClient::new(leader);
        let ask = client.list_replicas(proto::ListReplicasRequest::default());
        match timeout(PATIENCE, ask).await {
            Ok(Ok(answer)) => answer.into_inner().replicas,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

#[tonic::async_trait]
impl replica_service_server::ReplicaService for Service {
    async fn list_replicas(
        &self,
        request: Request<proto::ListReplicasRequest>,
    ) -> Answer<proto::ListReplicasResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let read = |id: &str| id.parse().ok();
        let after: Option<u64> = page::after_read(LIST, &request.page_token, read, &mut faults);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        let group = self.shared.consensus.group().borrow().clone();
        let mut rows = rows(&group, &self.addresses, header::now());
        let health = &self.shared.health;
        let fault = health.verdict(Instant::now()).own_fault();
        let fault = fault.or_else(|| self.shared.held.fault());
        let fault = fault.or_else(|| health.breaker().fault());
        name_fault(&mut rows, fault);
        let rows = with_leader(rows, self.by_leader().await).into_iter();
        let rest = rows.filter(|row| after.is_none_or(|after| row.id > after));
        let page = Page::of(size, rest);
        Ok(Response::new(proto::ListReplicasResponse {
            header: Some(header::own(&self.shared)),
            next_page_token: page.next(LIST, |last| last.id.to_string()),
            replicas: page.rows,
            term: group.status.term,
        }))
    }
}

/// One row for each replica that is configured, by id.
fn rows(group: &Group, addresses: &Addresses, now: SystemTime) -> Vec<proto::Replica> {
    let row = |(id, address): (&u64, &String)| {
        let known = if *id == group.status.id {
            own(group, now)
        } else {
            other(group, *id, now)
        };
        proto::Replica {
            id: *id,
            raft_address: Some(address.clone()).filter(|it| !it.is_empty()),
            ..known
        }
    };
    addresses.iter().map(row).collect()
}

/// Names why the answering replica is of no use, as its probes do, or why it does not plan.
fn name_fault(rows: &mut [proto::Replica], fault: Option<String>) {
    if let Some(own) = rows.iter_mut().find(|row| row.answering) {
        own.degraded_reason = fault;
    }
}

/// What the leader says of others, where it says more.
fn with_leader(mut rows: Vec<proto::Replica>, said: Vec<proto::Replica>) -> Vec<proto::Replica> {
    for row in rows.iter_mut().filter(|row| !row.answering) {
        if let Some(said) = said.iter().find(|said| said.id == row.id) {
            let heard = row.last_contact_time.or(said.last_contact_time);
            *row = proto::Replica {
                answering: false,
                last_contact_time: heard,
                ..said.clone()
            };
        }
    }
    rows
}

fn own(group: &Group, now: SystemTime) -> proto::Replica {
    let status = &group.status;
    let dropped = weft_log::dropped();
    let last_drop = dropped.ago.and_then(|ago| now.checked_sub(ago));
    let role = match status.role {
        Role::Leader => ReplicaRole::Leader,
        Role::Follower => ReplicaRole::Follower,
        Role::Candidate => ReplicaRole::Candidate,
        Role::PreCandidate => ReplicaRole::PreCandidate,
    };
    proto::Replica {
        role: role.into(),
        answering: true,
        term: Some(status.term),
        commit_index: Some(status.commit),
        applied_index: Some(status.applied),
        dropped_log_line_count: Some(dropped.lines),
        last_log_drop_time: last_drop.map(Timestamp::from),
        ..proto::Replica::default()
    }
}

/// Another replica. All others speak to the leader; two that follow say nothing to each other, so that one cannot tell whether
/// the other lives.
fn other(group: &Group, id: u64, now: SystemTime) -> proto::Replica {
    let leader = group.status.leader;
    let heard = group.heard.get(&id).map(std::time::Instant::elapsed);
    let lives = heard.is_some_and(|ago| ago <= UNREACHABLE_AFTER);
    let (role, heard) = match (leader == Some(id), leader == Some(group.status.id)) {
        (true, _) => (ReplicaRole::Leader, heard),
        (false, false) => (ReplicaRole::Unknown, None),
        (false, true) if lives => (ReplicaRole::Follower, heard),
        (false, true) => (ReplicaRole::Unreachable, heard),
    };
    let time = heard.and_then(|ago| now.checked_sub(ago));
    let mut peers = group.status.peers.iter();
    let matched = peers.find(|peer| peer.0 == id).map(|peer| peer.1);
    proto::Replica {
        role: role.into(),
        applied_index: matched,
        last_contact_time: time.map(Timestamp::from),
        ..proto::Replica::default()
    }
}

const LIST: &str = "replicas";
/// Without the leader the answer is there all the same.
const PATIENCE: Duration = Duration::from_secs(1);
/// As the leader counts a replica as lost.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use weft_store::Status;

    use super::{Group, ReplicaRole, Role, header};

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
    fn now() -> std::time::Instant {
        std::time::Instant::now()
    }

    fn roles(group: &Group) -> Vec<(ReplicaRole, bool)> {
        let addresses = [1, 2, 3].map(|id| (id, format!("192.0.2.{id}:7400")));
        let rows = super::rows(group, &addresses.into(), header::now()).into_iter();
        rows.map(|row| (row.role(), row.last_contact_time.is_some() || row.answering))
            .collect()
    }

    #[test]
    fn the_leader_says_who_follows_and_who_is_lost() {
        let expected = [
            (ReplicaRole::Leader, true),
            (ReplicaRole::Follower, true),
            (ReplicaRole::Unreachable, false),
        ];
        assert_eq!(roles(&group(1, Role::Leader, &[2])), expected);
    }

    #[test]
    fn a_follower_says_nothing_of_those_that_do_not_speak_to_it() {
        let expected = [
            (ReplicaRole::Leader, true),
            (ReplicaRole::Follower, true),
            (ReplicaRole::Unknown, false),
        ];
        assert_eq!(roles(&group(2, Role::Follower, &[1])), expected);
        // It asked for a vote before there was a leader: that says nothing of now.
        assert_eq!(roles(&group(2, Role::Follower, &[1, 3])), expected);
    }

    #[test]
    fn the_answering_replica_says_why_it_is_of_no_use() {
        let addresses = [1, 2].map(|id| (id, String::new())).into();
        let group = group(2, Role::Follower, &[1]);
        let mut rows = super::rows(&group, &addresses, header::now());
        let fault = "consensus thread does not respond for 6 s".to_owned();
        super::name_fault(&mut rows, Some(fault.clone()));
        let reasons = rows.iter().map(|row| row.degraded_reason.clone());
        assert_eq!(reasons.collect::<Vec<_>>(), [None, Some(fault)]);
    }

    #[test]
    fn a_follower_passes_on_what_the_leader_says() {
        let addresses = [1, 2, 3]
            .map(|id| (id, format!("192.0.2.{id}:7400")))
            .into();
        let of = |group: &Group| super::rows(group, &addresses, header::now());
        let leader = of(&group(1, Role::Leader, &[2]));
        let rows = super::with_leader(of(&group(2, Role::Follower, &[1])), leader);
        let said = rows.iter().map(|row| (row.role(), row.answering));
        let expected = [
            (ReplicaRole::Leader, false),
            (ReplicaRole::Follower, true),
            (ReplicaRole::Unreachable, false),
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert!(rows[0].last_contact_time.is_some() && rows[0].commit_index.is_some());
    }

    #[test]
    fn without_a_leader_every_other_is_unknown() {
        let mut group = group(2, Role::PreCandidate, &[1, 3]);
        group.status.leader = None;
        let expected = [
            (ReplicaRole::Unknown, false),
            (ReplicaRole::PreCandidate, true),
            (ReplicaRole::Unknown, false),
        ];
        assert_eq!(roles(&group), expected);
    }
}
