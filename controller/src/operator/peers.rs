//! The service of peers: what all agree on, and what this replica sees of its sessions. Knows no row.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, RefreshDirection, peer_service_server};

use self::rows::Counted;
use super::access::Identity;
use super::once::{self, Once, Turn};
use super::page::{self, Page};
use super::tables::Tables;
use super::{Answer, look, refusal};
use crate::fabric::fact::InvalidFabric;
use crate::ledger::RequestId;
use crate::speaker::Shared;
use crate::speaker::peer::command::{Command, Refused};
use crate::speaker::report::Facts;

mod detail;
mod rows;

/// Answers of peers.
pub struct Service {
    tables: Arc<Tables>,
    /// Which peer, and what was done with its session.
    done: Once<(IpAddr, Command)>,
}

/// Every peer, as this replica knows it now.
pub(in crate::operator) async fn all(shared: &Shared) -> Result<Vec<proto::Peer>, Status> {
    let counted = look::at(shared, 0, Counted::of).await?;
    Ok(rows::rows(&shared.reports(), &counted))
}

impl Service {
    /// For a running daemon.
    pub fn new(tables: Arc<Tables>) -> Self {
        Self {
            tables,
            done: Once::default(),
        }
    }

    /// What is agreed about peers, how many routes of each there are, and up to where that is complete.
    async fn counted(&self) -> Result<(Counted, u64), Status> {
        self.tables.look_indexed(0, Counted::of).await
    }

    /// Has something done with a session of this replica, once.
    async fn command(
        &self,
        name: &str,
        id: Option<RequestId>,
        command: Command,
        by: Identity,
    ) -> Result<(), Status> {
        let shared = self.tables.shared();
        let reports = shared.reports();
        let Some((address, _)) = reports.iter().find(named(name)) else {
            let (known, _) = self.counted().await?;
            return Err(match rows::elsewhere(name, &known) {
                Some(_) => refusal::not_established(name),
                None => refusal::missing("name", "peer", name),
            });
        };
        if self.done.begin(id, (*address, command))? == Turn::Again {
            return Ok(());
        }
        tracing::info!(peer = %address, %by, "{}", described(command));
        let done = timeout(PATIENCE, shared.command(*address, command)).await;
        let refused = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Refused::NotEstablished)) => refusal::not_established(name),
            Ok(Err(Refused::NotCapable)) => refusal::not_capable(name),
            // It may still be done.
            Err(_) => return Err(refusal::behind()),
        };
        self.done.undo(id);
        Err(refused)
    }

    /// One that this replica speaks to.
    fn here(&self, address: IpAddr, facts: &Facts, counted: &Counted) -> proto::Peer {
        let shared = self.tables.shared();
        let config = shared.config();
        let settings = config.bgp.resolve(address);
        proto::Peer {
            detail: Some(detail::detail(facts, settings, shared.local.asn)),
            ..rows::row(address, facts, counted)
        }
    }
}

#[tonic::async_trait]
impl peer_service_server::PeerService for Service {
    async fn list_peers(
        &self,
        request: Request<proto::ListPeersRequest>,
    ) -> Answer<proto::ListPeersResponse> {
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let after = page::after(LIST, &request.page_token, &mut faults).map(str::to_owned);
        let size = page::size(request.page_size, &mut faults);
        refusal::check(&faults)?;
        let (counted, revision) = self.counted().await?;
        let rows = rows::rows(&self.tables.shared().reports(), &counted).into_iter();
        let rest = rows.skip_while(|row| {
            let after = after.as_ref();
            after.is_some_and(|after| rows::sort_key(row) <= *after)
        });
        let page = Page::of(size, rest);
        Ok(Response::new(proto::ListPeersResponse {
            header: Some(self.tables.header(revision)),
            next_page_token: page.next(LIST, rows::sort_key),
            peers: page.rows,
        }))
    }

    async fn get_peer(
        &self,
        request: Request<proto::GetPeerRequest>,
    ) -> Answer<proto::GetPeerResponse> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(refusal::field("name", "empty"));
        }
        let reports = self.tables.shared().reports();
        let report = reports.iter().find(named(&name));
        let (counted, revision) = self.counted().await?;
        let peer = match report {
            Some((address, facts)) => Some(self.here(*address, facts, &counted)),
            None => rows::elsewhere(&name, &counted),
        };
        let peer = peer.ok_or_else(|| refusal::missing("name", "peer", &name))?;
        Ok(Response::new(proto::GetPeerResponse {
            header: Some(self.tables.header(revision)),
            resource: Some(peer),
        }))
    }

    async fn reset_peer(
        &self,
        request: Request<proto::ResetPeerRequest>,
    ) -> Answer<proto::ResetPeerResponse> {
        let by = Identity::of(&request);
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let (name, id) = asked(&request.name, &request.request_id, &mut faults);
        refusal::check(&faults)?;
        self.command(name, id, Command::Reset, by).await?;
        let header = Some(self.tables.header(self.tables.revision().await?));
        Ok(Response::new(proto::ResetPeerResponse { header }))
    }

    async fn refresh_peer(
        &self,
        request: Request<proto::RefreshPeerRequest>,
    ) -> Answer<proto::RefreshPeerResponse> {
        let by = Identity::of(&request);
        let request = request.into_inner();
        let mut faults = InvalidFabric::default();
        let (name, id) = asked(&request.name, &request.request_id, &mut faults);
        let command = match request.direction() {
            RefreshDirection::In => Command::RefreshIn,
            RefreshDirection::Out => Command::RefreshOut,
            RefreshDirection::Unspecified => {
                let reason = "REFRESH_DIRECTION_IN or REFRESH_DIRECTION_OUT";
                faults.fault("direction", reason);
                Command::Reset
            }
        };
        refusal::check(&faults)?;
        self.command(name, id, command, by).await?;
        let header = Some(self.tables.header(self.tables.revision().await?));
        Ok(Response::new(proto::RefreshPeerResponse { header }))
    }
}

/// Names what an operator asks for, for the log: whether it is done, the session's own line says.
fn described(command: Command) -> &'static str {
    match command {
        Command::Reset => "reset of a session requested",
        Command::RefreshIn => "routes of a peer requested again",
        Command::RefreshOut => "routes to a peer requested again",
    }
}

/// Whose session something is to be done with, and what the client calls that.
fn asked<'a>(
    name: &'a str,
    request_id: &str,
    faults: &mut InvalidFabric,
) -> (&'a str, Option<RequestId>) {
    if name.is_empty() {
        faults.fault("name", "empty");
    }
    (name, once::id(request_id, faults))
}

/// Whether a peer has this address or router id.
fn named(name: &str) -> impl Fn(&&(IpAddr, Facts)) -> bool {
    move |(address, facts)| {
        let id = facts.peer.map(|peer| peer.router_id.to_string());
        address.to_string() == name || id.as_deref() == Some(name)
    }
}

const LIST: &str = "peers";
/// A peer's task looks up between two parts of a table.
const PATIENCE: Duration = Duration::from_secs(5);
