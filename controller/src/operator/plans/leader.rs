//! What only the leader knows, asked of it on behalf of a caller: over the replicas' own port, and never twice. Knows no row.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use weft_proto::v1::plan_service_client::PlanServiceClient;
use weft_proto::v1::plan_service_server::PlanService;
use weft_proto::v1::{self as proto};

use super::super::replicas::Addresses;
use super::super::{Answer, refusal};
use super::Service;
use crate::speaker::Shared;

/// The way to the leader.
pub(super) struct Way {
    shared: Arc<Shared>,
    addresses: Arc<Addresses>,
    /// By address.
    channels: Mutex<BTreeMap<String, Channel>>,
}

/// Who answers what only the leader knows.
pub(super) enum Leader {
    /// This replica.
    Here,
    /// Another one, over the replicas' own port.
    There(Box<PlanServiceClient<Channel>>),
}

impl Way {
    pub(super) fn new(shared: Arc<Shared>, addresses: Arc<Addresses>) -> Self {
        Self {
            shared,
            addresses,
            channels: Mutex::default(),
        }
    }

    /// Who leads.
    ///
    /// # Errors
    /// UNAVAILABLE: nobody does, as far as this replica knows.
    pub(super) fn leader(&self) -> Result<Leader, Status> {
        let group = self.shared.consensus.group();
        let group = group.borrow();
        if group.leads() {
            return Ok(Leader::Here);
        }
        let own = group.status.id;
        let leader = group.status.leader.filter(|leader| *leader != own);
        drop(group);
        let address = leader.and_then(|leader| self.addresses.get(&leader));
        let address = address.filter(|it| !it.is_empty());
        let address = address.ok_or_else(refusal::nobody_leads)?;
        let client = PlanServiceClient::new(self.channel(address)?);
        Ok(Leader::There(Box::new(client)))
    }

    fn channel(&self, address: &str) -> Result<Channel, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.map_err(|_| refusal::defect())?;
        let channel = endpoint
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE)
            .connect_lazy();
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
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

/// The service as other replicas ask it over their own port: what only the leader knows, if this one leads.
pub struct AtLeader(Service);

impl AtLeader {
    /// Before the answers of this replica.
    pub fn new(service: Service) -> Self {
        Self(service)
    }

    /// A replica that asks a follower was mistaken about who leads.
    fn leads(&self) -> Result<(), Status> {
        match self.0.way.leader() {
            Ok(Leader::Here) => Ok(()),
            Ok(Leader::There(_)) | Err(_) => Err(refusal::nobody_leads()),
        }
    }
}

#[tonic::async_trait]
impl PlanService for AtLeader {
    async fn list_leaf_plan_diffs(
        &self,
        request: Request<proto::ListLeafPlanDiffsRequest>,
    ) -> Answer<proto::ListLeafPlanDiffsResponse> {
        self.leads()?;
        self.0.list_leaf_plan_diffs(request).await
    }

    async fn get_leaf_plan_diff(
        &self,
        request: Request<proto::GetLeafPlanDiffRequest>,
    ) -> Answer<proto::GetLeafPlanDiffResponse> {
        self.leads()?;
        self.0.get_leaf_plan_diff(request).await
    }

    async fn list_switch_agents(
        &self,
        request: Request<proto::ListSwitchAgentsRequest>,
    ) -> Answer<proto::ListSwitchAgentsResponse> {
        self.leads()?;
        self.0.list_switch_agents(request).await
    }

    async fn get_switch_agent(
        &self,
        request: Request<proto::GetSwitchAgentRequest>,
    ) -> Answer<proto::GetSwitchAgentResponse> {
        self.leads()?;
        self.0.get_switch_agent(request).await
    }
}

/// The leader is as near as any replica.
const PATIENCE: Duration = Duration::from_secs(5);
