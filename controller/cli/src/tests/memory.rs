//! A small replica that remembers what is declared: fabric, balance modes and jobs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use weft_proto::v1::{
    self as proto, fabric_service_server as fabric_server, job_service_server as job_server,
    plan_service_server as plan_server,
};

type Answer<T> = Result<Response<T>, Status>;

/// Everything that is declared, and how the replica answers.
#[derive(Default)]
pub(super) struct Content {
    /// Declared resources.
    pub(super) fabric: proto::Fabric,
    /// Counts the changes of the fabric.
    pub(super) generation: u64,
    /// Balance mode of leaves without one of their own.
    pub(super) default_mode: proto::BalanceMode,
    /// Balance modes of leaves.
    pub(super) modes: BTreeMap<String, i32>,
    /// Jobs by their names.
    pub(super) jobs: BTreeMap<String, proto::Job>,
    /// Calls that changed something, in words.
    pub(super) calls: Vec<String>,
    /// Resources that other calls changed since the last apply.
    pub(super) changed_since: Vec<proto::ResourceChange>,
    /// Answers of LEADER_UNSURE before the leader knows its links.
    pub(super) unsure: u32,
    /// True if spine1 is the last path between two leaves.
    pub(super) last_path: bool,
    /// Name of a job that is refused.
    pub(super) refused_job: String,
    /// Changes of the generation between two reads.
    pub(super) restless: u32,
    /// Names of links by the request_id of their updates.
    pub(super) requests: BTreeMap<String, String>,
    /// The request_id of every apply.
    pub(super) applies: Vec<String>,
    /// Applies that are made, and of which the replica answers that it does not know the outcome.
    pub(super) lost: u32,
}

/// A replica with such a content.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Content>>);

impl Memory {
    /// A replica in which two leaves, a spine, links, a host port and a job are declared.
    pub(super) fn declared() -> Self {
        let memory = Self::default();
        let switch = |name: &str, role: proto::SwitchRole| proto::Switch {
            name: name.to_owned(),
            role: role.into(),
            etag: "1".to_owned(),
            admin_state: proto::AdminState::Up.into(),
            ..proto::Switch::default()
        };
        let end = |switch: &str, interface: &str| proto::LinkEnd {
            switch_name: switch.to_owned(),
            interface_name: interface.to_owned(),
            ..proto::LinkEnd::default()
        };
        let link = |leaf: &str, state: proto::AdminState| proto::Link {
            name: format!("{leaf}:eth1--spine1:{leaf}"),
            a: Some(end(leaf, "eth1")),
            b: Some(end("spine1", leaf)),
            capacity_bps: 100_000_000_000,
            admin_state: state.into(),
            etag: "1".to_owned(),
            ..proto::Link::default()
        };
        let mut content = memory.content();
        content.fabric = proto::Fabric {
            display_name: "example".to_owned(),
            switches: vec![
                switch("leaf1", proto::SwitchRole::Leaf),
                switch("leaf2", proto::SwitchRole::Leaf),
                switch("spine1", proto::SwitchRole::Spine),
            ],
            hosts: vec![proto::Host {
                name: "h1".to_owned(),
                etag: "1".to_owned(),
                ..proto::Host::default()
            }],
            links: vec![
                link("leaf1", proto::AdminState::Up),
                link("leaf2", proto::AdminState::Down),
            ],
            host_ports: vec![proto::HostPort {
                name: "leaf1:eth3".to_owned(),
                switch_name: "leaf1".to_owned(),
                interface_name: "eth3".to_owned(),
                host_name: "h1".to_owned(),
                ..proto::HostPort::default()
            }],
        };
        content.generation = 7;
        content.default_mode = proto::BalanceMode::Shadow;
        content.modes = [("leaf1".to_owned(), proto::BalanceMode::On.into())].into();
        let job = proto::Job {
            name: "train1".to_owned(),
            host_names: vec!["h1".to_owned()],
            etag: "1".to_owned(),
            ..proto::Job::default()
        };
        content.jobs = [(job.name.clone(), job)].into();
        drop(content);
        memory
    }

    /// Content of the replica.
    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    /// Calls that changed something since the last question.
    pub(super) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.content().calls)
    }

    /// Starts the replica, until the test ends, and returns its address.
    pub(super) async fn listening(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder()
            .add_service(fabric_server::FabricServiceServer::new(self.clone()))
            .add_service(plan_server::PlanServiceServer::new(self.clone()))
            .add_service(job_server::JobServiceServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(server);
        address
    }
}

/// A refusal with a reason, as the services document it.
fn refusal(code: Code, reason: &str, message: &str, metadata: &[(&str, &str)]) -> Status {
    let metadata = metadata.iter();
    let metadata = metadata.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let details = ErrorDetails::with_error_info(
        reason,
        "weft",
        metadata.collect::<std::collections::HashMap<_, _>>(),
    );
    Status::with_error_details(code, message, details)
}

impl Content {
    /// Refuses a change that takes the last path away, or that the leader cannot decide yet.
    fn decide(&mut self, force: bool, takes_path: bool) -> Result<(), Status> {
        if force {
            return Ok(());
        }
        if self.unsure > 0 {
            self.unsure -= 1;
            let message = "the leader does not know yet which links carry traffic";
            return Err(refusal(Code::Unavailable, "LEADER_UNSURE", message, &[]));
        }
        if self.last_path && takes_path {
            let message = "leaf1 and leaf2 lose their last path to each other";
            let metadata = [("leaves", "leaf1, leaf2"), ("jobs", "train1")];
            return Err(refusal(
                Code::FailedPrecondition,
                "LAST_PATH",
                message,
                &metadata,
            ));
        }
        Ok(())
    }

    /// Gives declared resources the names and states that they leave out.
    fn complete(&self, wanted: &mut proto::Fabric) {
        for switch in &mut wanted.switches {
            let present = self
                .fabric
                .switches
                .iter()
                .find(|it| it.name == switch.name);
            switch.admin_state = state(switch.admin_state, present.map(|it| it.admin_state));
            switch.etag = "1".to_owned();
        }
        for link in &mut wanted.links {
            if link.name.is_empty() {
                let (a, b) = (link.a.as_ref().unwrap(), link.b.as_ref().unwrap());
                link.name = format!(
                    "{}:{}--{}:{}",
                    a.switch_name, a.interface_name, b.switch_name, b.interface_name
                );
            }
            let present = self.fabric.links.iter().find(|it| it.name == link.name);
            link.admin_state = state(link.admin_state, present.map(|it| it.admin_state));
            link.etag = "1".to_owned();
        }
        for port in &mut wanted.host_ports {
            port.name = format!("{}:{}", port.switch_name, port.interface_name);
        }
        for host in &mut wanted.hosts {
            host.etag = "1".to_owned();
        }
    }

    /// Refuses a declaration as a replica does.
    fn check(
        &self,
        first: &proto::ApplyFabricRequest,
        wanted: &proto::Fabric,
    ) -> Result<(), Status> {
        if wanted.switches.is_empty() && wanted.hosts.is_empty() {
            let message = "the declaration names no resource";
            return Err(refusal(
                Code::InvalidArgument,
                "NOTHING_DECLARED",
                message,
                &[],
            ));
        }
        let declared = self.fabric.display_name.clone();
        if !declared.is_empty() && declared != wanted.display_name && !first.rename {
            let metadata = [("declared", declared.as_str())];
            let message = "another fabric is declared";
            return Err(refusal(
                Code::FailedPrecondition,
                "OTHER_FABRIC",
                message,
                &metadata,
            ));
        }
        if first.generation.is_some_and(|it| it != self.generation) {
            let message = "the fabric was changed since it was read";
            return Err(refusal(Code::Aborted, "GENERATION_MISMATCH", message, &[]));
        }
        Ok(())
    }

    fn apply(
        &mut self,
        first: &proto::ApplyFabricRequest,
        mut wanted: proto::Fabric,
    ) -> Result<proto::ApplyFabricResponse, Status> {
        let id = first.request_id.clone();
        if !id.is_empty() && self.applies.contains(&id) {
            return Ok(proto::ApplyFabricResponse {
                generation: Some(self.generation),
                applied_before: true,
                ..proto::ApplyFabricResponse::default()
            });
        }
        self.check(first, &wanted)?;
        self.complete(&mut wanted);
        use proto::ResourceKind as Kind;
        let mut answer = proto::ApplyFabricResponse::default();
        let mut fabric = self.fabric.clone();
        fabric.display_name = wanted.display_name;
        merge(
            Kind::Switch,
            &mut fabric.switches,
            wanted.switches,
            |it| &it.name,
            first.prune,
            &mut answer,
        );
        merge(
            Kind::Host,
            &mut fabric.hosts,
            wanted.hosts,
            |it| &it.name,
            first.prune,
            &mut answer,
        );
        merge(
            Kind::Link,
            &mut fabric.links,
            wanted.links,
            |it| &it.name,
            first.prune,
            &mut answer,
        );
        let ports = &mut fabric.host_ports;
        merge(
            Kind::HostPort,
            ports,
            wanted.host_ports,
            |it| &it.name,
            first.prune,
            &mut answer,
        );
        let takes_path = fabric.switches.iter().any(is_down);
        self.decide(first.force, takes_path)?;
        if first.generation.is_none() {
            answer.changed_since_apply = self.changed_since.clone();
        }
        if !first.validate_only {
            if !answer.changes.is_empty() || self.fabric.display_name != fabric.display_name {
                self.generation += 1;
            }
            self.fabric = fabric;
            self.changed_since.clear();
            let (prune, force) = (first.prune, first.force);
            self.calls
                .push(format!("apply prune={prune} force={force}"));
            self.applies.push(first.request_id.clone());
        }
        answer.generation = Some(self.generation);
        Ok(answer)
    }
}

fn is_down(switch: &proto::Switch) -> bool {
    switch.admin_state() == proto::AdminState::Down
}

/// The state that a resource gets: that of the declaration, or the one that it has.
fn state(declared: i32, present: Option<i32>) -> i32 {
    match proto::AdminState::try_from(declared) {
        Ok(proto::AdminState::Unspecified) => {
            present.unwrap_or_else(|| proto::AdminState::Up.into())
        }
        _ => declared,
    }
}

fn merge<R: Clone + PartialEq>(
    kind: proto::ResourceKind,
    present: &mut Vec<R>,
    wanted: Vec<R>,
    name: fn(&R) -> &String,
    prune: bool,
    answer: &mut proto::ApplyFabricResponse,
) {
    let change = |row: &R, change_type: proto::ChangeType| proto::ResourceChange {
        kind: kind.into(),
        name: name(row).clone(),
        change_type: change_type.into(),
        ..proto::ResourceChange::default()
    };
    let (kept, gone): (Vec<R>, Vec<R>) = present
        .drain(..)
        .partition(|row| wanted.iter().any(|it| name(it) == name(row)));
    let deleted = gone
        .iter()
        .map(|row| change(row, proto::ChangeType::Deleted));
    if prune {
        answer.changes.extend(deleted);
    } else {
        answer.would_delete.extend(deleted);
        present.extend(gone);
    }
    for row in wanted {
        match kept.iter().find(|it| name(it) == name(&row)) {
            None => answer
                .changes
                .push(change(&row, proto::ChangeType::Created)),
            Some(old) if *old != row => {
                answer
                    .changes
                    .push(change(&row, proto::ChangeType::Updated));
            }
            Some(_) => {}
        }
        present.push(row);
    }
}

#[tonic::async_trait]
impl fabric_server::FabricService for Memory {
    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Answer<proto::GetFabricResponse> {
        let mut content = self.content();
        if content.restless > 0 {
            content.restless -= 1;
            content.generation += 1;
        }
        Ok(Response::new(proto::GetFabricResponse {
            display_name: content.fabric.display_name.clone(),
            generation: content.generation,
            ..proto::GetFabricResponse::default()
        }))
    }

    async fn apply_fabric(
        &self,
        request: Request<tonic::Streaming<proto::ApplyFabricRequest>>,
    ) -> Answer<BoxStream<proto::ApplyFabricResponse>> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.unwrap_or_default();
        let mut wanted = proto::Fabric {
            display_name: first.display_name.clone(),
            ..proto::Fabric::default()
        };
        while let Some(part) = parts.message().await? {
            wanted.switches.extend(part.switches);
            wanted.hosts.extend(part.hosts);
            wanted.links.extend(part.links);
            wanted.host_ports.extend(part.host_ports);
        }
        assert_eq!(first.request_id.is_empty(), first.validate_only);
        let answer = self.content().apply(&first, wanted);
        let mut content = self.content();
        if content.lost > 0 {
            content.lost -= 1;
            let message = "the replicas did not answer in time";
            let lost = refusal(Code::Unavailable, "OUTCOME_UNKNOWN", message, &[]);
            return Ok(Response::new(Box::pin(tokio_stream::iter([Err::<
                proto::ApplyFabricResponse,
                _,
            >(
                lost
            )]))));
        }
        drop(content);
        let answer = answer?;
        // Two parts: the lists come before the generation.
        let last = proto::ApplyFabricResponse {
            generation: answer.generation,
            applied_before: answer.applied_before,
            ..proto::ApplyFabricResponse::default()
        };
        let parts = tokio_stream::iter([Ok(answer), Ok(last)]);
        Ok(Response::new(Box::pin(parts)))
    }

    async fn list_switches(
        &self,
        _: Request<proto::ListSwitchesRequest>,
    ) -> Answer<proto::ListSwitchesResponse> {
        Ok(Response::new(proto::ListSwitchesResponse {
            switches: self.content().fabric.switches.clone(),
            ..proto::ListSwitchesResponse::default()
        }))
    }

    async fn list_hosts(
        &self,
        _: Request<proto::ListHostsRequest>,
    ) -> Answer<proto::ListHostsResponse> {
        Ok(Response::new(proto::ListHostsResponse {
            hosts: self.content().fabric.hosts.clone(),
            ..proto::ListHostsResponse::default()
        }))
    }

    async fn list_links(
        &self,
        _: Request<proto::ListLinksRequest>,
    ) -> Answer<proto::ListLinksResponse> {
        Ok(Response::new(proto::ListLinksResponse {
            links: self.content().fabric.links.clone(),
            ..proto::ListLinksResponse::default()
        }))
    }

    async fn list_host_ports(
        &self,
        _: Request<proto::ListHostPortsRequest>,
    ) -> Answer<proto::ListHostPortsResponse> {
        Ok(Response::new(proto::ListHostPortsResponse {
            host_ports: self.content().fabric.host_ports.clone(),
            ..proto::ListHostPortsResponse::default()
        }))
    }

    async fn update_switch(
        &self,
        request: Request<proto::UpdateSwitchRequest>,
    ) -> Answer<proto::UpdateSwitchResponse> {
        let request = request.into_inner();
        let wanted = request.resource.unwrap_or_default();
        let mut content = self.content();
        content.decide(request.force, is_down(&wanted))?;
        content
            .calls
            .push(format!("switch force={}", request.force));
        let mut switches = content.fabric.switches.iter_mut();
        let switch = switches.find(|it| it.name == wanted.name).unwrap();
        switch.admin_state = wanted.admin_state;
        Ok(Response::new(proto::UpdateSwitchResponse {
            resource: Some(switch.clone()),
            ..proto::UpdateSwitchResponse::default()
        }))
    }

    async fn update_link(
        &self,
        request: Request<proto::UpdateLinkRequest>,
    ) -> Answer<proto::UpdateLinkResponse> {
        let request = request.into_inner();
        let wanted = request.resource.unwrap_or_default();
        let mut content = self.content();
        let name = wanted.name.clone();
        let first = content.requests.entry(request.request_id).or_insert(name);
        if *first != wanted.name {
            return Err(Status::already_exists("request_id: of another request"));
        }
        // Its links are named from leaf to spine.
        if wanted.name.starts_with("spine1:") {
            return Err(Status::not_found("name: no link is named so"));
        }
        let takes_path = wanted.admin_state() == proto::AdminState::Down;
        content.decide(request.force, takes_path)?;
        content.calls.push(format!("link force={}", request.force));
        Ok(Response::new(proto::UpdateLinkResponse {
            resource: Some(wanted),
            ..proto::UpdateLinkResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl plan_server::PlanService for Memory {
    async fn list_leaf_balances(
        &self,
        _: Request<proto::ListLeafBalancesRequest>,
    ) -> Answer<proto::ListLeafBalancesResponse> {
        let content = self.content();
        let leaves = content.fabric.switches.iter();
        let leaves = leaves.filter(|it| it.role() == proto::SwitchRole::Leaf);
        let leaves = leaves.map(|leaf| proto::LeafBalance {
            leaf_name: leaf.name.clone(),
            mode: match content.modes.get(&leaf.name) {
                Some(mode) => *mode,
                None => content.default_mode.into(),
            },
            has_own_mode: content.modes.contains_key(&leaf.name),
            ..proto::LeafBalance::default()
        });
        Ok(Response::new(proto::ListLeafBalancesResponse {
            leaf_balances: leaves.collect(),
            default_mode: content.default_mode.into(),
            ..proto::ListLeafBalancesResponse::default()
        }))
    }

    async fn set_balance(
        &self,
        request: Request<proto::SetBalanceRequest>,
    ) -> Answer<proto::SetBalanceResponse> {
        let request = request.into_inner();
        assert_eq!(request.request_id.len(), 36);
        let mut content = self.content();
        let mode = request.mode().as_str_name();
        content
            .calls
            .push(format!("mode {:?} {mode}", request.leaf_name));
        match &request.leaf_name {
            Some(leaf) => drop(content.modes.insert(leaf.clone(), request.mode)),
            None => {
                content.modes.clear();
                content.default_mode = request.mode();
            }
        }
        Ok(Response::new(proto::SetBalanceResponse::default()))
    }
}

#[tonic::async_trait]
impl job_server::JobService for Memory {
    async fn list_jobs(
        &self,
        _: Request<proto::ListJobsRequest>,
    ) -> Answer<proto::ListJobsResponse> {
        Ok(Response::new(proto::ListJobsResponse {
            jobs: self.content().jobs.values().cloned().collect(),
            ..proto::ListJobsResponse::default()
        }))
    }

    async fn create_job(
        &self,
        request: Request<proto::CreateJobRequest>,
    ) -> Answer<proto::CreateJobResponse> {
        let job = request.into_inner().resource.unwrap_or_default();
        let mut content = self.content();
        if job.name == content.refused_job {
            return Err(Status::invalid_argument(
                "host_names[0]: no host has this name",
            ));
        }
        content.calls.push(format!("create {}", job.name));
        content.jobs.insert(job.name.clone(), job);
        Ok(Response::new(proto::CreateJobResponse::default()))
    }

    async fn update_job(
        &self,
        request: Request<proto::UpdateJobRequest>,
    ) -> Answer<proto::UpdateJobResponse> {
        let job = request.into_inner().resource.unwrap_or_default();
        let mut content = self.content();
        content.calls.push(format!("update {}", job.name));
        content.jobs.insert(job.name.clone(), job);
        Ok(Response::new(proto::UpdateJobResponse::default()))
    }

    async fn delete_job(
        &self,
        request: Request<proto::DeleteJobRequest>,
    ) -> Answer<proto::DeleteJobResponse> {
        let name = request.into_inner().name;
        let mut content = self.content();
        content.calls.push(format!("delete {name}"));
        content.jobs.remove(&name).unwrap();
        Ok(Response::new(proto::DeleteJobResponse::default()))
    }
}
