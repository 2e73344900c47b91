//! What only the leader knows, asked of it on behalf of a caller: over the replicas' own port, and never twice. Knows no row.

use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::plan_service_server::PlanService;
use weft_proto::v1::{self as proto};

use super::super::leader::Way;
use super::super::{Answer, refusal};
use super::Service;
use crate::speaker::Shared;

/// Who answers what only the leader knows.
pub(super) enum Leader {
    /// This replica.
    Here,
    /// Another one, over the replicas' own port.
    There(Box<PlanServiceClient<Channel>>),
}

/// Who leads.
///
/// # Errors
/// UNAVAILABLE: nobody does, as far as this replica knows.
pub(super) fn leader(way: &Way) -> Result<Leader, Status> {
    Ok(match way.leader()? {
        None => Leader::Here,
        Some(channel) => Leader::There(Box::new(PlanServiceClient::new(channel))),
    })
}

/// What this replica answers as the leader. One that comes to lead meanwhile, or ceases to, has not heard switches: what it has made is
/// not what a leader has.
///
/// # Errors
/// UNAVAILABLE: it did not lead all the while, in one term.
pub(super) async fn as_leader<T>(
    shared: &Shared,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let group = shared.consensus.group();
    in_one_term(|| group.borrow().term_led(), answer).await
}

async fn in_one_term<T>(
    term: impl Fn() -> Option<u64>,
    answer: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    let before = term().ok_or_else(refusal::nobody_leads)?;
    let answer = answer.await?;
    match term() == Some(before) {
        true => Ok(answer),
        false => Err(refusal::nobody_leads()),
    }
}

/// What the leader answered; one that does not answer is none.
pub(super) fn answered<T>(answer: Answer<T>) -> Answer<T> {
    answer
        // Its headers are of another connection.
        .map(|answer| Response::new(answer.into_inner()))
        .map_err(|status| match std::error::Error::source(&status) {
            Some(_) => refusal::nobody_leads(),
            None => Status::with_details(
                status.code(),
                status.message(),
                status.details().to_vec().into(),
            ),
        })
}

/// What the leader answered of what every replica knows a part of: None if it does not answer, or is of a release that does not
/// know the call.
pub(super) fn if_there<T>(answer: Answer<T>) -> Option<Answer<T>> {
    match answered(answer) {
        Err(status) if matches!(status.code(), Code::Unavailable | Code::Unimplemented) => None,
        answer => Some(answer),
    }
}

/// The service as other replicas ask it over their own port: what only the leader knows, if this one leads.
pub struct AtLeader(Service);

impl AtLeader {
    /// Before the answers of this replica.
    pub fn new(service: Service) -> Self {
        Self(service)
    }

    /// A replica that asks a follower was mistaken about who leads.
    async fn answer<T>(&self, answer: impl Future<Output = Answer<T>>) -> Answer<T> {
        as_leader(&self.0.shared, answer).await
    }
}

#[tonic::async_trait]
impl PlanService for AtLeader {
    async fn list_leaf_plans(
        &self,
        request: Request<proto::ListLeafPlansRequest>,
    ) -> Answer<proto::ListLeafPlansResponse> {
        self.answer(self.0.list_leaf_plans(request)).await
    }

    async fn get_leaf_plan(
        &self,
        request: Request<proto::GetLeafPlanRequest>,
    ) -> Answer<proto::GetLeafPlanResponse> {
        self.answer(self.0.get_leaf_plan(request)).await
    }

    async fn list_leaf_plan_diffs(
        &self,
        request: Request<proto::ListLeafPlanDiffsRequest>,
    ) -> Answer<proto::ListLeafPlanDiffsResponse> {
        self.answer(self.0.list_leaf_plan_diffs(request)).await
    }

    async fn get_leaf_plan_diff(
        &self,
        request: Request<proto::GetLeafPlanDiffRequest>,
    ) -> Answer<proto::GetLeafPlanDiffResponse> {
        self.answer(self.0.get_leaf_plan_diff(request)).await
    }

    async fn list_switch_agents(
        &self,
        request: Request<proto::ListSwitchAgentsRequest>,
    ) -> Answer<proto::ListSwitchAgentsResponse> {
        self.answer(self.0.list_switch_agents(request)).await
    }

    async fn list_link_statuses(
        &self,
        request: Request<proto::ListLinkStatusesRequest>,
    ) -> Answer<proto::ListLinkStatusesResponse> {
        self.answer(self.0.list_link_statuses(request)).await
    }

    async fn get_link_status(
        &self,
        request: Request<proto::GetLinkStatusRequest>,
    ) -> Answer<proto::GetLinkStatusResponse> {
        self.answer(self.0.get_link_status(request)).await
    }

    async fn get_switch_agent(
        &self,
        request: Request<proto::GetSwitchAgentRequest>,
    ) -> Answer<proto::GetSwitchAgentResponse> {
        self.answer(self.0.get_switch_agent(request)).await
    }

    async fn get_job_plan(
        &self,
        request: Request<proto::GetJobPlanRequest>,
    ) -> Answer<proto::GetJobPlanResponse> {
        self.answer(self.0.get_job_plan(request)).await
    }

    async fn list_job_plans(
        &self,
        request: Request<proto::ListJobPlansRequest>,
    ) -> Answer<proto::ListJobPlansResponse> {
        self.answer(self.0.list_job_plans(request)).await
    }

    async fn list_job_flows(
        &self,
        request: Request<proto::ListJobFlowsRequest>,
    ) -> Answer<proto::ListJobFlowsResponse> {
        self.answer(self.0.list_job_flows(request)).await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_was_made_while_another_one_came_to_lead_is_no_answer() {
        let answers = [
            (Some(3), Some(3), true),
            (Some(3), None, false),
            (Some(3), Some(4), false),
            (None, Some(3), false),
        ];
        for (before, after, is_answered) in answers {
            let term = Cell::new(before);
            let answer = in_one_term(|| term.get(), async {
                term.set(after);
                Ok(())
            });
            let answer = answer.await;
            let code = answer.as_ref().err().map(Status::code);
            assert_eq!(answer.is_ok(), is_answered);
            assert!(is_answered || code == Some(Code::Unavailable));
        }
        let failed: Result<(), _> =
            in_one_term(|| Some(3), async { Err(refusal::no_majority()) }).await;
        assert_eq!(
            failed.unwrap_err().message(),
            refusal::no_majority().message()
        );
    }
}
