//! The way to the leader, over the replicas' own port, for what only it knows. Knows no call.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::refusal;
use super::replicas::Addresses;
use crate::consensus::transport::Sources;
use crate::speaker::Shared;

/// The way to the leader.
pub(super) struct Way {
    shared: Arc<Shared>,
    addresses: Arc<Addresses>,
    /// By address, and by the address that it is dialed from.
    channels: Mutex<BTreeMap<(String, Option<IpAddr>), Channel>>,
    /// How long an answer may take.
    patience: Duration,
}

impl Way {
    pub(super) fn new(shared: Arc<Shared>, addresses: Arc<Addresses>) -> Self {
        Self::patient(shared, addresses, PATIENCE)
    }

    /// For calls whose answer takes longer than to be read.
    pub(super) fn patient(
        shared: Arc<Shared>,
        addresses: Arc<Addresses>,
        patience: Duration,
    ) -> Self {
        Self {
            shared,
            addresses,
            channels: Mutex::default(),
            patience,
        }
    }

    /// A connection to the leader; None: this replica leads.
    ///
    /// # Errors
    /// UNAVAILABLE: nobody does, as far as this replica knows.
    pub(super) fn leader(&self) -> Result<Option<Channel>, Status> {
        let group = self.shared.consensus.group();
        let group = group.borrow();
        if group.leads() {
            return Ok(None);
        }
        let own = group.status.id;
        let leader = group.status.leader.filter(|leader| *leader != own);
        drop(group);
        let address = leader.and_then(|leader| self.addresses.get(&leader));
        let address = address.filter(|it| !it.is_empty());
        let address = address.ok_or_else(refusal::nobody_leads)?;
        self.channel(address).map(Some)
    }

    fn channel(&self, address: &str) -> Result<Channel, Status> {
        let from = Sources::of(&self.shared.config()).assigned();
        let key = (address.to_owned(), from);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&key) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.map_err(|_| refusal::defect())?;
        let channel = endpoint
            .local_address(from)
            .connect_timeout(PATIENCE)
            // An answer in parts has no other end if the leader's machine goes.
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
            .timeout(self.patience)
            .connect_lazy();
        channels.insert(key, channel.clone());
        Ok(channel)
    }
}

/// As between replicas for Raft.
const KEEPALIVE: Duration = Duration::from_secs(2);
/// The leader is as near as any replica.
const PATIENCE: Duration = Duration::from_secs(5);
