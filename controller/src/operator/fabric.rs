//! The fabric's gRPC service: declares what the network is. Every accepted change is a fact; the
//! weights follow on every replica.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tonic::{Request, Response, Status};
use weft_proto::fabric::v1::{self as proto, fabric_service_server};
use weft_store::{Batch, Condition, Outcome};

use crate::fabric::topology::Topology;
use crate::ledger::{self, FactKey};
use crate::speaker::Shared;

/// Takes declarations.
pub struct Service {
    shared: Arc<Shared>,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The declared fabric, as octets and as a message.
    async fn current(&self) -> Result<(Option<Bytes>, proto::Fabric), Status> {
        if self.shared.consensus.read_index().await.is_none() {
            return Err(Status::unavailable("no majority of replicas answers"));
        }
        let octets = self.shared.consensus.view().get(&FactKey::Fabric.encode());
        let octets = octets.map_err(|error| Status::internal(error.to_string()))?;
        let fabric = match &octets {
            Some(octets) => proto::Fabric::decode(&octets[..])
                .map_err(|error| Status::data_loss(format!("the declared fabric: {error}")))?,
            None => proto::Fabric::default(),
        };
        Ok((octets, fabric))
    }

    /// Replaces what was read by `topology`, unless somebody else did meanwhile.
    async fn replace(
        &self,
        before: Option<Bytes>,
        topology: &Topology,
    ) -> Result<proto::Fabric, Status> {
        let fabric = topology.to_fabric();
        let value = Bytes::from(fabric.encode_to_vec());
        let conditions = vec![Condition::Equals {
            key: FactKey::Fabric.encode(),
            value: before,
        }];
        let batch = Batch {
            conditions,
            ops: vec![ledger::put(&FactKey::Fabric, value)],
        };
        match self.shared.consensus.propose(batch).await {
            Outcome::Applied { .. } => Ok(fabric),
            Outcome::ConditionFailed { .. } => Err(Status::aborted(
                "the fabric was changed meanwhile; read it and try again",
            )),
            Outcome::Superseded | Outcome::Dropped => Err(Status::unavailable(
                "the replicas did not answer in time; the change may still be made",
            )),
        }
    }
}

#[tonic::async_trait]
impl fabric_service_server::FabricService for Service {
    async fn apply_fabric(
        &self,
        request: Request<proto::ApplyFabricRequest>,
    ) -> Result<Response<proto::ApplyFabricResponse>, Status> {
        let request = request.into_inner();
        let declared = request
            .fabric
            .ok_or_else(|| Status::invalid_argument("fabric: missing"))?;
        let topology = Topology::new(&declared)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let (before, current) = self.current().await?;
        let topology = topology.with_revision(current.revision + 1);
        let fabric = match request.validate_only {
            true => topology.to_fabric(),
            false => self.replace(before, &topology).await?,
        };
        Ok(Response::new(proto::ApplyFabricResponse {
            fabric: Some(fabric),
        }))
    }

    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Result<Response<proto::Fabric>, Status> {
        let (_, fabric) = self.current().await?;
        Ok(Response::new(fabric))
    }

    async fn set_link_state(
        &self,
        request: Request<proto::SetLinkStateRequest>,
    ) -> Result<Response<proto::Fabric>, Status> {
        let request = request.into_inner();
        let (before, current) = self.current().await?;
        let mut topology =
            Topology::new(&current).map_err(|error| Status::internal(error.to_string()))?;
        let changed = topology
            .set_link_down(&request.link, request.down)
            .map_err(|error| Status::not_found(format!("link: {error}")))?;
        if !changed {
            return Ok(Response::new(current));
        }
        let topology = topology.with_revision(current.revision + 1);
        Ok(Response::new(self.replace(before, &topology).await?))
    }
}
