//! The fabric's gRPC service: declares what the network is. Every accepted change is a fact; the weights follow on every
//! replica. Knows which call means which change, not what a fact must satisfy.

use std::hash::Hasher;
use std::sync::Arc;

use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::v1::{self as proto, fabric_service_server};

pub(super) use self::change::Asked;
use self::change::{Changes, Known};
use self::leader::{Leader, answered};
use super::access::Identity;
use super::page::{self, Page};
use super::replicas::Addresses;
use super::{Answer, refusal};
use crate::daemon::switches::led::Led;
use crate::door::octets::Held;
use crate::fabric::fact::{Fact, HostName, InvalidFabric, Kind, Resource};
use crate::fabric::topology::{Change, Topology};
use crate::speaker::Shared;

mod apply;
mod change;
mod guard;
mod leader;
mod mask;
mod stage;

/// Takes declarations.
pub struct Service {
    changes: Arc<Changes>,
    /// Places for whole declarations: each may hold a fabric in memory.
    applying: Arc<Semaphore>,
    /// Places for single changes that wait for their turn.
    waiting: Arc<Semaphore>,
    /// The way to the leader, which decides what may take paths away.
    way: Arc<Leader>,
    /// Where changes are made: calls of other replicas arrive on the runtime of Raft, where nothing may take long.
    runtime: Handle,
}

impl Service {
    /// For a running daemon, on the runtime of the caller.
    pub(super) fn new(shared: Arc<Shared>, led: Led, addresses: Arc<Addresses>) -> Self {
        Self {
            changes: Arc::new(Changes::new(Arc::clone(&shared), led)),
            applying: Arc::new(Semaphore::new(APPLYING_MAX)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            way: Arc::new(Leader::new(shared, addresses)),
            runtime: Handle::current(),
        }
    }

    /// The service for calls of other replicas. Their changes take turns with those of this one, and no call is handed on again.
    pub(super) fn at_leader(&self, shared: Arc<Shared>) -> Self {
        Self {
            changes: Arc::clone(&self.changes),
            applying: Arc::clone(&self.applying),
            waiting: Arc::clone(&self.waiting),
            way: Arc::new(Leader::new(shared, Arc::default())),
            runtime: self.runtime.clone(),
        }
    }

    /// One fact as it stands.
    pub(super) async fn one<R: Resource>(
        &self,
        name: &str,
    ) -> Result<(proto::ResponseHeader, R), Status> {
        if name.is_empty() {
            return Err(refusal::field("name", "empty"));
        }
        let known = self.changes.known().await?;
        Ok((known.header, found(known.declared.topology(), name)?))
    }

    /// A page of facts that are wanted, in order of their names. `by` are kinds and names of what they are wanted by.
    pub(super) async fn page<R: Resource>(
        &self,
        (size, token): (i32, &str),
        wants: impl Fn(&Fact) -> bool,
        by: &[(Kind, Option<&str>)],
    ) -> Result<(proto::ResponseHeader, Vec<R>, String), Status> {
        let mut list = R::KIND.field().to_owned();
        for (kind, name) in by {
            name.iter()
                .for_each(|name| list += &format!("?{}={name}", kind.noun()));
        }
        let mut faults = InvalidFabric::default();
        let after = page::after(&list, token, &mut faults);
        let size = page::size(size, &mut faults);
        refusal::check(&faults)?;
        let Known { declared, header } = self.changes.known().await?;
        let topology = declared.topology();
        for (kind, name) in by {
            named(topology, *kind, *name)?;
        }
        let facts = topology.facts_after(R::KIND, after.unwrap_or_default());
        let facts = facts.filter(wants).filter_map(|fact| R::of(&fact));
        let page = Page::of(size, facts);
        let next_page_token = page.next(&list, |last| last.name().to_owned());
        Ok((header, page.rows, next_page_token))
    }

    /// Declares a fact that is not there.
    pub(super) async fn create<R: Resource>(
        &self,
        mut asked: Asked,
        resource: Option<R>,
    ) -> Result<(proto::ResponseHeader, Option<R>), Status> {
        let resource = there(resource, &mut asked)?;
        let mut faults = std::mem::take(&mut asked.faults);
        let fact = read(&resource, &mut faults);
        let (kind, name) = (fact.kind(), fact.name().to_owned());
        let decide = move |topology: &Topology| {
            if faults.is_empty() && topology.fact(kind, fact.name()).is_some() {
                return Err(refusal::already_exists(kind, fact.name()));
            }
            checked(topology, Change::Create(fact.clone()), faults.clone()).map(Some)
        };
        self.changed(asked, decide, &name).await
    }

    /// Changes fields of a fact that is there.
    pub(super) async fn update<R: Resource>(
        &self,
        mut asked: Asked,
        resource: Option<R>,
        mask: Option<prost_types::FieldMask>,
    ) -> Result<(proto::ResponseHeader, Option<R>), Status> {
        let wanted = there(resource, &mut asked)?;
        let mut faults = std::mem::take(&mut asked.faults);
        if wanted.name().is_empty() {
            faults.fault("resource.name", "empty");
        }
        mask::check::<R>(mask.as_ref(), &mut faults);
        let name = wanted.name().to_owned();
        let decide = move |topology: &Topology| {
            let mut faults = faults.clone();
            let old: R = match found(topology, wanted.name()) {
                Err(missing) => return refusal::check(&faults).and(Err(missing)),
                Ok(old) => old,
            };
            if faults.is_empty() {
                fresh(&old, wanted.etag())?;
            }
            let new = mask::merged(&old, &wanted, mask.as_ref());
            let fact = read(&new, &mut faults);
            if faults.is_empty() && topology.fact(R::KIND, old.name()).as_ref() == Some(&fact) {
                return Ok(None);
            }
            checked(topology, Change::Update(fact), faults).map(Some)
        };
        self.changed(asked, decide, &name).await
    }

    /// Takes a fact away.
    pub(super) async fn delete<R: Resource>(
        &self,
        mut asked: Asked,
        name: &str,
        etag: &str,
    ) -> Result<proto::ResponseHeader, Status> {
        if name.is_empty() {
            asked.faults.fault("name", "empty");
        }
        refusal::check(&asked.faults)?;
        let (wanted, etag) = (name.to_owned(), etag.to_owned());
        let decide = move |topology: &Topology| {
            let old: R = found(topology, &wanted)?;
            fresh(&old, &etag)?;
            let change = Change::Delete(R::KIND, old.name().to_owned());
            let mut users = InvalidFabric::default();
            topology.check(&change, "", &mut users);
            match users.is_empty() {
                true => Ok(Some(change)),
                false => Err(refusal::in_use(R::KIND, old.name(), &users)),
            }
        };
        let (header, _) = self.changed::<R>(asked, decide, name).await?;
        Ok(header)
    }

    /// Makes the change that is decided from the fabric as it stands; then the fact as it is.
    async fn changed<R: Resource>(
        &self,
        asked: Asked,
        decide: impl Fn(&Topology) -> Result<Option<Change>, Status> + Send + 'static,
        name: &str,
    ) -> Result<(proto::ResponseHeader, Option<R>), Status> {
        let _place = self.waiting.try_acquire().map_err(|_| refusal::busy())?;
        // A client that goes away while it waits changes nothing; later it leaves nothing half done.
        let turn = self.changes.turn().await;
        let changes = Arc::clone(&self.changes);
        let made = async move { changes.one(turn, R::KIND, &asked, decide).await };
        let made = self.runtime.spawn(made);
        let (topology, header) = made.await.map_err(|_| refusal::defect())??;
        Ok((header, found(&topology, name).ok()))
    }
}

/// A fact by its name, as a message.
fn found<R: Resource>(topology: &Topology, name: &str) -> Result<R, Status> {
    let fact = topology.fact(R::KIND, name);
    fact.and_then(|fact| R::of(&fact))
        .ok_or_else(|| refusal::no_such(R::KIND, name))
}

/// Refuses a filter by something that is not declared.
fn named(topology: &Topology, kind: Kind, name: Option<&str>) -> Result<(), Status> {
    match name {
        Some(name) if topology.fact(kind, name).is_none() => {
            let field = format!("{}_name", kind.noun());
            Err(refusal::missing(&field, kind.noun(), name))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a change that was thought up for something else than what is there.
fn fresh<R: Resource>(old: &R, etag: &str) -> Result<(), Status> {
    match etag.is_empty() || etag == old.etag() {
        true => Ok(()),
        false => Err(refusal::etag_mismatch(R::KIND, old.name(), old.etag())),
    }
}

/// What a request is about.
fn there<R>(resource: Option<R>, asked: &mut Asked) -> Result<R, Status> {
    resource.ok_or_else(|| {
        asked.faults.fault("resource", "missing");
        refusal::invalid(&asked.faults)
    })
}

/// The fact that a message declares, as far as it is one.
fn read<R: Resource>(message: &R, faults: &mut InvalidFabric) -> Fact {
    message.check("resource", faults);
    message.read("resource", faults)
}

/// A change with which nothing is wrong, whatever was found before.
fn checked(
    topology: &Topology,
    change: Change,
    mut faults: InvalidFabric,
) -> Result<Change, Status> {
    topology.check(&change, "resource", &mut faults);
    refusal::check(&faults)?;
    Ok(change)
}

/// What a change is called by its client, and a hash of what it asks for.
pub(super) fn asked(
    method: &str,
    request_id: &str,
    request: &impl Message,
    validate_only: bool,
) -> Asked {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(method.as_bytes());
    hasher.write(&request.encode_to_vec());
    Asked::new(request_id, hasher.finish(), validate_only)
}

pub(crate) const APPLYING_MAX: usize = 2;
/// Each holds its request, of 4 MiB at most, and takes some milliseconds.
pub(crate) const WAITING_MAX: usize = 256;
/// Batches that a client is behind with its answers.
const ANSWERS_MAX: usize = 64;

#[tonic::async_trait]
impl fabric_service_server::FabricService for Service {
    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Answer<proto::GetFabricResponse> {
        let known = self.changes.known().await?;
        let topology = known.declared.topology();
        let count = |kind| u32::try_from(topology.count(kind)).unwrap_or(u32::MAX);
        Ok(Response::new(proto::GetFabricResponse {
            header: Some(known.header),
            display_name: topology.display_name().to_owned(),
            generation: topology.generation(),
            switch_count: count(Kind::Switch),
            host_count: count(Kind::Host),
            link_count: count(Kind::Link),
            host_port_count: count(Kind::HostPort),
        }))
    }

    async fn apply_fabric(
        &self,
        request: Request<Streaming<proto::ApplyFabricRequest>>,
    ) -> Answer<BoxStream<proto::ApplyFabricResponse>> {
        let by = Identity::of(&request);
        let held = request.extensions().get::<Arc<Held>>().cloned();
        let mut parts = request.into_inner();
        // A client that sends nothing holds no place.
        let first = apply::part(&mut parts).await?;
        let place = Arc::clone(&self.applying).try_acquire_owned();
        let place = place.map_err(|_| refusal::too_many_applies(APPLYING_MAX))?;
        // From now on this place is its bound.
        if let Some(held) = held {
            held.release();
        }
        let (changes, way) = (Arc::clone(&self.changes), Arc::clone(&self.way));
        let (answers, told) = mpsc::channel(ANSWERS_MAX);
        // A client that goes away leaves nothing half done.
        self.runtime.spawn(async move {
            apply::answered(&changes, &way, (first, parts), by, answers).await;
            drop(place);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(told))))
    }

    async fn get_switch(
        &self,
        request: Request<proto::GetSwitchRequest>,
    ) -> Answer<proto::GetSwitchResponse> {
        let (header, resource) = self.one(&request.get_ref().name).await?;
        Ok(Response::new(proto::GetSwitchResponse {
            header: Some(header),
            resource: Some(resource),
        }))
    }

    async fn list_switches(
        &self,
        request: Request<proto::ListSwitchesRequest>,
    ) -> Answer<proto::ListSwitchesResponse> {
        let request = request.into_inner();
        let asked = (request.page_size, &*request.page_token);
        let page = self.page(asked, |_| true, &[]).await?;
        let (header, switches, next_page_token) = page;
        Ok(Response::new(proto::ListSwitchesResponse {
            header: Some(header),
            switches,
            next_page_token,
        }))
    }

    async fn create_switch(
        &self,
        request: Request<proto::CreateSwitchRequest>,
    ) -> Answer<proto::CreateSwitchResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("CreateSwitch", &id, &request, request.validate_only).by(by);
        let (header, resource) = self.create(asked, request.resource).await?;
        Ok(Response::new(proto::CreateSwitchResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn update_switch(
        &self,
        request: Request<proto::UpdateSwitchRequest>,
    ) -> Answer<proto::UpdateSwitchResponse> {
        let by = Identity::of(&request);
        if let Some(mut leader) = self.way.elsewhere()? {
            return answered(leader.update_switch(by.hand_on(request.into_inner())).await);
        }
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("UpdateSwitch", &id, &request, request.validate_only)
            .by(by)
            .forced(request.force);
        let (header, resource) = self
            .update(asked, request.resource, request.update_mask)
            .await?;
        Ok(Response::new(proto::UpdateSwitchResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn delete_switch(
        &self,
        request: Request<proto::DeleteSwitchRequest>,
    ) -> Answer<proto::DeleteSwitchResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("DeleteSwitch", &id, &request, request.validate_only).by(by);
        let header = self
            .delete::<proto::Switch>(asked, &request.name, &request.etag)
            .await?;
        Ok(Response::new(proto::DeleteSwitchResponse {
            header: Some(header),
        }))
    }

    async fn get_link(
        &self,
        request: Request<proto::GetLinkRequest>,
    ) -> Answer<proto::GetLinkResponse> {
        let (header, resource) = self.one(&request.get_ref().name).await?;
        Ok(Response::new(proto::GetLinkResponse {
            header: Some(header),
            resource: Some(resource),
        }))
    }

    async fn list_links(
        &self,
        request: Request<proto::ListLinksRequest>,
    ) -> Answer<proto::ListLinksResponse> {
        let request = request.into_inner();
        let asked = (request.page_size, &*request.page_token);
        let switch = request.switch_name.as_deref();
        let wants = |fact: &Fact| match (fact, switch) {
            (Fact::Link(link), Some(switch)) => [&link.a, &link.b]
                .map(|end| end.switch.as_str())
                .contains(&switch),
            _ => true,
        };
        let page = self.page(asked, wants, &[(Kind::Switch, switch)]).await?;
        let (header, links, next_page_token) = page;
        Ok(Response::new(proto::ListLinksResponse {
            header: Some(header),
            links,
            next_page_token,
        }))
    }

    async fn create_link(
        &self,
        request: Request<proto::CreateLinkRequest>,
    ) -> Answer<proto::CreateLinkResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("CreateLink", &id, &request, request.validate_only).by(by);
        let (header, resource) = self.create(asked, request.resource).await?;
        Ok(Response::new(proto::CreateLinkResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn update_link(
        &self,
        request: Request<proto::UpdateLinkRequest>,
    ) -> Answer<proto::UpdateLinkResponse> {
        let by = Identity::of(&request);
        if let Some(mut leader) = self.way.elsewhere()? {
            return answered(leader.update_link(by.hand_on(request.into_inner())).await);
        }
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("UpdateLink", &id, &request, request.validate_only)
            .by(by)
            .forced(request.force);
        let (header, resource) = self
            .update(asked, request.resource, request.update_mask)
            .await?;
        Ok(Response::new(proto::UpdateLinkResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn delete_link(
        &self,
        request: Request<proto::DeleteLinkRequest>,
    ) -> Answer<proto::DeleteLinkResponse> {
        let by = Identity::of(&request);
        if let Some(mut leader) = self.way.elsewhere()? {
            return answered(leader.delete_link(by.hand_on(request.into_inner())).await);
        }
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("DeleteLink", &id, &request, request.validate_only)
            .by(by)
            .forced(request.force);
        let header = self
            .delete::<proto::Link>(asked, &request.name, &request.etag)
            .await?;
        Ok(Response::new(proto::DeleteLinkResponse {
            header: Some(header),
        }))
    }

    async fn get_host(
        &self,
        request: Request<proto::GetHostRequest>,
    ) -> Answer<proto::GetHostResponse> {
        let (header, resource) = self.one(&request.get_ref().name).await?;
        Ok(Response::new(proto::GetHostResponse {
            header: Some(header),
            resource: Some(resource),
        }))
    }

    async fn list_hosts(
        &self,
        request: Request<proto::ListHostsRequest>,
    ) -> Answer<proto::ListHostsResponse> {
        let request = request.into_inner();
        let asked = (request.page_size, &*request.page_token);
        let page = self.page(asked, |_| true, &[]).await?;
        let (header, hosts, next_page_token) = page;
        Ok(Response::new(proto::ListHostsResponse {
            header: Some(header),
            hosts,
            next_page_token,
        }))
    }

    async fn create_host(
        &self,
        request: Request<proto::CreateHostRequest>,
    ) -> Answer<proto::CreateHostResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("CreateHost", &id, &request, request.validate_only).by(by);
        let (header, resource) = self.create(asked, request.resource).await?;
        Ok(Response::new(proto::CreateHostResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn update_host(
        &self,
        request: Request<proto::UpdateHostRequest>,
    ) -> Answer<proto::UpdateHostResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("UpdateHost", &id, &request, request.validate_only).by(by);
        let (header, resource) = self
            .update(asked, request.resource, request.update_mask)
            .await?;
        Ok(Response::new(proto::UpdateHostResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn delete_host(
        &self,
        request: Request<proto::DeleteHostRequest>,
    ) -> Answer<proto::DeleteHostResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("DeleteHost", &id, &request, request.validate_only).by(by);
        let header = self
            .delete::<proto::Host>(asked, &request.name, &request.etag)
            .await?;
        Ok(Response::new(proto::DeleteHostResponse {
            header: Some(header),
        }))
    }

    async fn get_host_port(
        &self,
        request: Request<proto::GetHostPortRequest>,
    ) -> Answer<proto::GetHostPortResponse> {
        let (header, resource) = self.one(&request.get_ref().name).await?;
        Ok(Response::new(proto::GetHostPortResponse {
            header: Some(header),
            resource: Some(resource),
        }))
    }

    async fn list_host_ports(
        &self,
        request: Request<proto::ListHostPortsRequest>,
    ) -> Answer<proto::ListHostPortsResponse> {
        let request = request.into_inner();
        let asked = (request.page_size, &*request.page_token);
        let (switch, host) = (request.switch_name.as_deref(), request.host_name.as_deref());
        let wants = |fact: &Fact| match fact {
            Fact::HostPort(port) => {
                let of = port.host.as_ref().map(HostName::as_str);
                switch.is_none_or(|switch| port.switch.as_str() == switch)
                    && (host.is_none() || of == host)
            }
            _ => true,
        };
        let by = [(Kind::Switch, switch), (Kind::Host, host)];
        let page = self.page(asked, wants, &by).await?;
        let (header, host_ports, next_page_token) = page;
        Ok(Response::new(proto::ListHostPortsResponse {
            header: Some(header),
            host_ports,
            next_page_token,
        }))
    }

    async fn create_host_port(
        &self,
        request: Request<proto::CreateHostPortRequest>,
    ) -> Answer<proto::CreateHostPortResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("CreateHostPort", &id, &request, request.validate_only).by(by);
        let (header, resource) = self.create(asked, request.resource).await?;
        Ok(Response::new(proto::CreateHostPortResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn update_host_port(
        &self,
        request: Request<proto::UpdateHostPortRequest>,
    ) -> Answer<proto::UpdateHostPortResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("UpdateHostPort", &id, &request, request.validate_only).by(by);
        let (header, resource) = self
            .update(asked, request.resource, request.update_mask)
            .await?;
        Ok(Response::new(proto::UpdateHostPortResponse {
            header: Some(header),
            resource,
        }))
    }

    async fn delete_host_port(
        &self,
        request: Request<proto::DeleteHostPortRequest>,
    ) -> Answer<proto::DeleteHostPortResponse> {
        let by = Identity::of(&request);
        let mut request = request.into_inner();
        let id = std::mem::take(&mut request.request_id);
        let asked = asked("DeleteHostPort", &id, &request, request.validate_only).by(by);
        let header = self
            .delete::<proto::HostPort>(asked, &request.name, &request.etag)
            .await?;
        Ok(Response::new(proto::DeleteHostPortResponse {
            header: Some(header),
        }))
    }
}

#[cfg(test)]
mod tests;
