//! The leader makes the changes that may take the last path between two leaves away: it alone hears which links carry traffic.
//! Other replicas hand such a call on to it, over the replicas' own port, once. Knows no change.

use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status};
use weft_proto::v1::fabric_service_client::FabricServiceClient;

use super::super::leader::Way;
use super::super::replicas::Addresses;
use super::super::{Answer, refusal};
use crate::speaker::Shared;

/// The way to the leader, if this replica may take it.
pub(super) struct Leader(Way);

impl Leader {
    pub(super) fn new(shared: Arc<Shared>, addresses: Arc<Addresses>) -> Self {
        Self(Way::patient(shared, addresses, PATIENCE))
    }

    /// A client of the leader; None: this replica leads.
    ///
    /// # Errors
    /// UNAVAILABLE: nobody does, as far as this replica knows.
    pub(super) fn elsewhere(&self) -> Result<Option<FabricServiceClient<Channel>>, Status> {
        let channel = self.0.leader()?;
        Ok(channel.map(FabricServiceClient::new))
    }
}

/// The leader's answer. If the leader does not answer, the change may be made all the same.
pub(super) fn answered<T>(answer: Answer<T>) -> Answer<T> {
    answer
        // Its headers are of another connection.
        .map(|answer| Response::new(answer.into_inner()))
        .map_err(refused)
}

/// The leader's refusal.
pub(super) fn refused(status: Status) -> Status {
    match std::error::Error::source(&status) {
        Some(_) => refusal::outcome_unknown(),
        None => Status::with_details(
            status.code(),
            status.message(),
            status.details().to_vec().into(),
        ),
    }
}

/// How long the leader may take: other changes come first.
const PATIENCE: Duration = Duration::from_secs(30);
