//! What a watcher follows that the replicas do not agree on: peers as this replica knows them, plans of jobs and statuses of links as
//! the leader has them. Each begins with a snapshot. Knows no row, and no revision.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::Status;
use weft_proto::v1 as proto;

use super::super::plans;
use super::board::{self, Boards, Followed, Row};
use super::peers::Peers;
use super::planned::{JobPlans, LinkStatuses};
use crate::fabric::fact::InvalidFabric;
use crate::speaker::Shared;

/// Where all of it comes from.
pub(super) struct Sources {
    shared: Arc<Shared>,
    plans: Arc<plans::Service>,
    peers: Boards<proto::Peer>,
    job_plans: Boards<proto::JobPlan>,
    link_statuses: Boards<proto::LinkStatus>,
}

impl Sources {
    pub(super) fn new(shared: Arc<Shared>, plans: Arc<plans::Service>) -> Self {
        Self {
            shared,
            plans,
            peers: Boards::default(),
            job_plans: Boards::default(),
            link_statuses: Boards::default(),
        }
    }

    /// What a client wants to follow.
    ///
    /// # Errors
    /// UNAVAILABLE: nobody says what there is.
    pub(super) async fn follow(
        &self,
        request: &mut proto::WatchRequest,
    ) -> Result<Unagreed, Status> {
        let mut unagreed = Unagreed::default();
        if let Some(wanted) = request.peers.take() {
            let source = Peers::new(&self.shared);
            unagreed.peers = Some(self.peers.follow(source, wanted.names).await?);
        }
        if let Some(wanted) = request.job_plans.take() {
            let source = JobPlans(Arc::clone(&self.plans));
            unagreed.job_plans = Some(self.job_plans.follow(source, wanted.names).await?);
        }
        if let Some(wanted) = request.link_statuses.take() {
            let source = LinkStatuses(Arc::clone(&self.plans));
            unagreed.link_statuses = Some(self.link_statuses.follow(source, wanted.names).await?);
        }
        Ok(unagreed)
    }
}

/// What one watcher follows; None: nothing of that kind.
#[derive(Debug, Default)]
pub(super) struct Unagreed {
    peers: Option<Followed<proto::Peer>>,
    job_plans: Option<Followed<proto::JobPlan>>,
    link_statuses: Option<Followed<proto::LinkStatus>>,
}

/// The bells of its changes: of peers, of plans of jobs and of statuses of links.
pub(super) type Bells = [Option<watch::Receiver<()>>; 3];

impl Unagreed {
    pub(super) fn bells(&self) -> Bells {
        [
            self.peers.as_ref().map(Followed::bell),
            self.job_plans.as_ref().map(Followed::bell),
            self.link_statuses.as_ref().map(Followed::bell),
        ]
    }

    /// What has changed since it was asked for last.
    ///
    /// # Errors
    /// Nobody has said for too long what there is.
    pub(super) fn changes(&mut self) -> Result<Changes, Status> {
        Ok(Changes {
            peers: changes(&mut self.peers)?,
            job_plans: changes(&mut self.job_plans)?,
            link_statuses: changes(&mut self.link_statuses)?,
        })
    }
}

/// What has changed of what one watcher follows.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) peers: board::Changes<proto::Peer>,
    pub(super) job_plans: board::Changes<proto::JobPlan>,
    pub(super) link_statuses: board::Changes<proto::LinkStatus>,
}

fn changes<R: Row>(followed: &mut Option<Followed<R>>) -> Result<board::Changes<R>, Status> {
    match followed {
        Some(followed) => followed.changes(),
        None => Ok(board::Changes::default()),
    }
}

/// Notes what is wrong with the filters of a request.
pub(super) fn check(request: &proto::WatchRequest, faults: &mut InvalidFabric) {
    if let Some(wanted) = &request.peers {
        board::check("peers.names", &wanted.names, faults);
    }
    if let Some(wanted) = &request.job_plans {
        board::check("job_plans.names", &wanted.names, faults);
    }
    if let Some(wanted) = &request.link_statuses {
        board::check("link_statuses.names", &wanted.names, faults);
    }
}

/// An answer of these changes of peers alone, without a header.
pub(super) fn peers(
    peer_changes: Vec<proto::PeerChange>,
    peer_snapshot: bool,
) -> proto::WatchResponse {
    proto::WatchResponse {
        peer_changes,
        peer_snapshot,
        ..proto::WatchResponse::default()
    }
}

/// An answer of these changes of plans alone, without a header.
pub(super) fn job_plans(
    job_plan_changes: Vec<proto::JobPlanChange>,
    job_plan_snapshot: bool,
) -> proto::WatchResponse {
    proto::WatchResponse {
        job_plan_changes,
        job_plan_snapshot,
        ..proto::WatchResponse::default()
    }
}

/// An answer of these changes of statuses alone, without a header.
pub(super) fn link_statuses(
    link_status_changes: Vec<proto::LinkStatusChange>,
    link_status_snapshot: bool,
) -> proto::WatchResponse {
    proto::WatchResponse {
        link_status_changes,
        link_status_snapshot,
        ..proto::WatchResponse::default()
    }
}
