//! A small replica that answers with fixed messages.

mod configuration;
mod decisions;
mod faults;
mod jobs;
mod simulations;

use tokio_stream::StreamExt;
use tonic::codegen::BoxStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{
    self as proto, config_service_server as config_server, evpn_service_server as evpn_server,
    fabric_service_server as fabric_server, job_service_server as job_server,
    peer_service_server as peer_server, plan_service_server as plan_server,
    replica_service_server as replica_server, route_service_server as route_server,
    simulation_service_server as simulation_server, watch_service_server as watch_server,
};

/// Answers with fixed messages, some of them late or refused.
#[derive(Clone, Copy)]
pub(super) struct Replica {
    /// Raft id of the replica whose configuration it has.
    pub(super) id: u64,
    /// Raft ids of the group; empty: it does not answer who that is.
    pub(super) group: &'static [u64],
    /// It answers once, and then no more.
    pub(super) dies: bool,
    /// It has no majority.
    pub(super) alone: bool,
    /// Value of `hold_secs` in its configuration.
    pub(super) hold_secs: &'static str,
    /// Two hosts have a NIC on each of two rails.
    pub(super) host_ports: bool,
    /// Links, jobs and pins are not all as they should be.
    pub(super) faulty: bool,
    /// Nothing is decided.
    pub(super) undecided: bool,
    /// The replica is of a release that streams neither plans of jobs nor statuses of links.
    pub(super) older: bool,
}

/// Replica 3, which answers everything but who the group is.
pub(super) const REPLICA: Replica = Replica {
    id: 3,
    group: &[],
    dies: false,
    alone: false,
    hold_secs: "9",
    host_ports: false,
    faulty: false,
    undecided: false,
    older: false,
};

type Answer<T> = Result<Response<T>, Status>;

fn header(replica_id: u64) -> Option<proto::ResponseHeader> {
    Some(proto::ResponseHeader {
        replica_id,
        ..proto::ResponseHeader::default()
    })
}

#[tonic::async_trait]
impl peer_server::PeerService for Replica {
    async fn list_peers(
        &self,
        request: Request<proto::ListPeersRequest>,
    ) -> Answer<proto::ListPeersResponse> {
        let token = request.into_inner().page_token;
        if self.dies && token == "second" {
            return Err(Status::unavailable("the replica is stopping"));
        }
        let peer = |router_id: &str| proto::Peer {
            router_id: Some(router_id.to_owned()),
            ..proto::Peer::default()
        };
        let (router_id, next) = match token.as_str() {
            "" => ("192.0.2.11", "second"),
            _ => ("192.0.2.12", ""),
        };
        Ok(Response::new(proto::ListPeersResponse {
            header: header(1),
            peers: vec![peer(router_id)],
            next_page_token: next.to_owned(),
        }))
    }

    async fn get_peer(
        &self,
        request: Request<proto::GetPeerRequest>,
    ) -> Answer<proto::GetPeerResponse> {
        let name = request.into_inner().name;
        match name.as_str() {
            "silent" => std::future::pending().await,
            "bad" => return Err(Status::invalid_argument("name: not an address")),
            "203.0.113.9" | "198.51.100.9" => {
                return Err(Status::not_found("name: there is no such peer"));
            }
            _ => {}
        }
        let session = proto::PeerSession {
            address: name,
            state: proto::SessionState::Active.into(),
            ..proto::PeerSession::default()
        };
        let peer = proto::Peer {
            session: Some(session),
            ..proto::Peer::default()
        };
        Ok(Response::new(proto::GetPeerResponse {
            header: header(1),
            resource: Some(peer),
        }))
    }

    async fn reset_peer(
        &self,
        request: Request<proto::ResetPeerRequest>,
    ) -> Answer<proto::ResetPeerResponse> {
        assert_eq!(request.get_ref().request_id.len(), 36);
        Ok(Response::new(proto::ResetPeerResponse {
            header: header(1),
        }))
    }
}

#[tonic::async_trait]
impl watch_server::WatchService for Replica {
    /// Two peers, two jobs, two decisions, statuses of two links, or a link that is changed after the revision of the snapshot.
    async fn watch(
        &self,
        request: Request<proto::WatchRequest>,
    ) -> Answer<BoxStream<proto::WatchResponse>> {
        let request = request.into_inner();
        let change = |kind: proto::ChangeType, state: proto::AdminState, revision| {
            let link = proto::Link {
                name: "leaf1:eth1--spine1:eth1".to_owned(),
                admin_state: state.into(),
                ..proto::Link::default()
            };
            proto::ResourceChange {
                kind: proto::ResourceKind::Link.into(),
                name: link.name.clone(),
                change_type: kind.into(),
                revision,
                resource: Some(Resource::LinkResource(link)),
            }
        };
        let peer = |router_id: &str| proto::PeerChange {
            change_type: proto::ChangeType::Created.into(),
            peer: Some(proto::Peer {
                router_id: Some(router_id.to_owned()),
                ..proto::Peer::default()
            }),
        };
        let mut answer = proto::WatchResponse {
            header: header(self.id),
            ..proto::WatchResponse::default()
        };
        // What comes behind that.
        let mut more = Vec::new();
        let (created, updated) = (proto::ChangeType::Created, proto::ChangeType::Updated);
        match request.after_revision {
            after if request.link_statuses.is_some() => {
                answer.snapshot = true;
                (answer, more) = behind(after, answer, faults::statuses(after, self.older));
                if self.faulty {
                    more.push(faults::statuses(Some(7), self.older));
                }
            }
            after if request.kinds == [i32::from(proto::ResourceKind::Job)] => {
                answer = jobs::changes(after);
                if request.job_plans.is_some() {
                    let plans = jobs::planned(after, self.older);
                    (answer, more) = behind(after, answer, plans);
                }
            }
            after if request.decisions.is_some() => {
                answer = decisions::changes(&request.decisions.unwrap(), after);
            }
            _ if request.peers.is_some() => {
                answer.peer_snapshot = true;
                answer.peer_changes = ["192.0.2.11", "192.0.2.12"].map(peer).into();
            }
            None => {
                answer.header.as_mut().unwrap().revision = 7;
                answer.snapshot = true;
                answer.changes = vec![change(created, proto::AdminState::Up, None)];
            }
            Some(7) => {
                answer.header.as_mut().unwrap().revision = 8;
                answer.changes = vec![change(updated, proto::AdminState::Down, Some(8))];
            }
            Some(_) => return Err(Status::out_of_range("compacted")),
        }
        let answers = [answer].into_iter().chain(more).map(Ok);
        let answers = tokio_stream::iter(answers.collect::<Vec<_>>());
        Ok(Response::new(match self.dies {
            true => Box::pin(answers),
            false => Box::pin(answers.chain(tokio_stream::pending())),
        }))
    }
}

/// What is not agreed comes behind a snapshot, or with what changed after a revision.
fn behind(
    after_revision: Option<u64>,
    agreed: proto::WatchResponse,
    rest: proto::WatchResponse,
) -> (proto::WatchResponse, Vec<proto::WatchResponse>) {
    match after_revision {
        None => (agreed, vec![rest]),
        Some(_) => {
            let changes = agreed.changes;
            (proto::WatchResponse { changes, ..rest }, Vec::new())
        }
    }
}

#[tonic::async_trait]
impl route_server::RouteService for Replica {
    async fn list_routes(
        &self,
        request: Request<proto::ListRoutesRequest>,
    ) -> Answer<proto::ListRoutesResponse> {
        let request = request.into_inner();
        if request.mac() == "stuck" {
            let next_page_token = "again".to_owned();
            let answer = proto::ListRoutesResponse {
                next_page_token,
                ..Default::default()
            };
            return Ok(Response::new(answer));
        }
        let unknown = request.key() == "203.0.113.1/32"
            || request.mac() == "00:00:5e:00:53:99"
            || request.peer() == "203.0.113.9"
            || request.vni == Some(9);
        if unknown {
            return Ok(Response::new(proto::ListRoutesResponse::default()));
        }
        let asked = format!("{request:?}");
        Err(Status::invalid_argument(asked))
    }

    async fn export_mrt(
        &self,
        request: Request<proto::ExportMrtRequest>,
    ) -> Answer<BoxStream<proto::ExportMrtResponse>> {
        let part = |octets: &[u8]| {
            Ok(proto::ExportMrtResponse {
                octets: octets.to_vec().into(),
                ..proto::ExportMrtResponse::default()
            })
        };
        let families: Vec<_> = request.get_ref().families().collect();
        let last = match families.as_slice() {
            [] => part(b"RT"),
            [proto::AddressFamily::Ipv6Unicast] => part(&[0; 1 << 16]),
            [..] => Err(Status::unavailable("the replica is stopping")),
        };
        let parts = tokio_stream::iter(vec![part(b"M"), last]);
        Ok(Response::new(Box::pin(parts)))
    }
}

#[tonic::async_trait]
impl evpn_server::EvpnService for Replica {
    async fn list_ethernet_segments(
        &self,
        _: Request<proto::ListEthernetSegmentsRequest>,
    ) -> Answer<proto::ListEthernetSegmentsResponse> {
        Ok(Response::new(Default::default()))
    }

    async fn get_ethernet_segment(
        &self,
        request: Request<proto::GetEthernetSegmentRequest>,
    ) -> Answer<proto::GetEthernetSegmentResponse> {
        let esi = request.into_inner().esi;
        Err(Status::invalid_argument(format!(
            "esi: {esi:?} is not an Ethernet segment identifier"
        )))
    }

    async fn list_host_addresses(
        &self,
        request: Request<proto::ListHostAddressesRequest>,
    ) -> Answer<proto::ListHostAddressesResponse> {
        let request = request.into_inner();
        let host = proto::HostAddress {
            vni: request.vni,
            ip: request.ip.unwrap_or_default(),
            duplicate: request.duplicates_only,
            ..proto::HostAddress::default()
        };
        Ok(Response::new(proto::ListHostAddressesResponse {
            host_addresses: vec![host],
            ..Default::default()
        }))
    }

    async fn list_vnis(
        &self,
        _: Request<proto::ListVnisRequest>,
    ) -> Answer<proto::ListVnisResponse> {
        Ok(Response::new(Default::default()))
    }

    async fn get_vni(&self, _: Request<proto::GetVniRequest>) -> Answer<proto::GetVniResponse> {
        Err(Status::not_found(
            "vni: no inclusive multicast route (type 3) advertises VNI 7",
        ))
    }

    async fn list_vteps(
        &self,
        _: Request<proto::ListVtepsRequest>,
    ) -> Answer<proto::ListVtepsResponse> {
        Err(Status::unavailable("no majority of replicas answers"))
    }

    async fn list_duplicate_macs(
        &self,
        _: Request<proto::ListDuplicateMacsRequest>,
    ) -> Answer<proto::ListDuplicateMacsResponse> {
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl replica_server::ReplicaService for Replica {
    async fn list_replicas(
        &self,
        _: Request<proto::ListReplicasRequest>,
    ) -> Answer<proto::ListReplicasResponse> {
        if self.group.is_empty() {
            return std::future::pending().await;
        }
        let replica = |id: &u64| proto::Replica {
            id: *id,
            answering: *id == self.id,
            ..proto::Replica::default()
        };
        Ok(Response::new(proto::ListReplicasResponse {
            header: header(self.id),
            replicas: self.group.iter().map(replica).collect(),
            ..proto::ListReplicasResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl plan_server::PlanService for Replica {
    async fn list_leaf_plans(
        &self,
        request: Request<proto::ListLeafPlansRequest>,
    ) -> Answer<proto::ListLeafPlansResponse> {
        let leaf = request.into_inner().leaf_name.unwrap_or_default();
        match leaf.as_str() {
            "leaf1" => return Ok(Response::new(simulations::leaf_plans())),
            "leaf4" => return Ok(Response::new(simulations::unweighted())),
            _ => {}
        }
        let reason = format!("leaf_name: no leaf is named {leaf:?}");
        Err(Status::not_found(reason))
    }

    async fn list_leaf_plan_diffs(
        &self,
        _: Request<proto::ListLeafPlanDiffsRequest>,
    ) -> Answer<proto::ListLeafPlanDiffsResponse> {
        let reason = "only the leader knows: ask replica 2";
        Err(Status::failed_precondition(reason))
    }

    async fn get_leaf_plan_diff(
        &self,
        request: Request<proto::GetLeafPlanDiffRequest>,
    ) -> Answer<proto::GetLeafPlanDiffResponse> {
        let leaf_name = request.into_inner().leaf_name;
        let differs = leaf_name == "leaf2";
        let prefix = proto::PrefixDiff {
            differs,
            ..proto::PrefixDiff::default()
        };
        let why = match leaf_name.as_str() {
            "leaf3" => proto::NotComparedReason::AgentSilent,
            _ => proto::NotComparedReason::Unspecified,
        };
        let diff = proto::LeafPlanDiff {
            leaf_name,
            plan_revision: Some(7),
            not_compared_reason: why.into(),
            prefixes: vec![prefix],
            ..proto::LeafPlanDiff::default()
        };
        Ok(Response::new(proto::GetLeafPlanDiffResponse {
            header: header(1),
            resource: Some(diff),
        }))
    }

    async fn get_job_plan(
        &self,
        request: Request<proto::GetJobPlanRequest>,
    ) -> Answer<proto::GetJobPlanResponse> {
        jobs::plan(request.into_inner(), self.faulty).map(Response::new)
    }

    async fn list_pins(
        &self,
        request: Request<proto::ListPinsRequest>,
    ) -> Answer<proto::ListPinsResponse> {
        jobs::pins(request.into_inner(), self.faulty).map(Response::new)
    }

    async fn list_decisions(
        &self,
        request: Request<proto::ListDecisionsRequest>,
    ) -> Answer<proto::ListDecisionsResponse> {
        Ok(Response::new(match self.undecided {
            true => Default::default(),
            false => decisions::list(request.get_ref()),
        }))
    }

    async fn list_job_flows(
        &self,
        request: Request<proto::ListJobFlowsRequest>,
    ) -> Answer<proto::ListJobFlowsResponse> {
        jobs::flows(request.into_inner()).map(Response::new)
    }

    async fn list_job_plans(
        &self,
        _: Request<proto::ListJobPlansRequest>,
    ) -> Answer<proto::ListJobPlansResponse> {
        Ok(Response::new(match self.faulty {
            true => jobs::plans(),
            false => Default::default(),
        }))
    }

    async fn list_link_statuses(
        &self,
        _: Request<proto::ListLinkStatusesRequest>,
    ) -> Answer<proto::ListLinkStatusesResponse> {
        Ok(Response::new(match self.faulty {
            true => faults::link_statuses(),
            false => Default::default(),
        }))
    }

    async fn get_link_status(
        &self,
        request: Request<proto::GetLinkStatusRequest>,
    ) -> Answer<proto::GetLinkStatusResponse> {
        Ok(Response::new(proto::GetLinkStatusResponse {
            header: header(1),
            resource: Some(proto::LinkStatus {
                link_name: request.into_inner().link_name,
                ..Default::default()
            }),
        }))
    }

    async fn list_switch_agents(
        &self,
        _: Request<proto::ListSwitchAgentsRequest>,
    ) -> Answer<proto::ListSwitchAgentsResponse> {
        Ok(Response::new(match self.faulty {
            true => faults::switch_agents(),
            false => Default::default(),
        }))
    }

    async fn get_switch_agent(
        &self,
        request: Request<proto::GetSwitchAgentRequest>,
    ) -> Answer<proto::GetSwitchAgentResponse> {
        let name = request.into_inner().switch_name;
        if ["leaf5", "leaf9", "spine1"].contains(&name.as_str()) {
            let reason = format!("switch_name: there is no agent of {name:?}");
            return Err(Status::not_found(reason));
        }
        Ok(Response::new(faults::switch_agent()))
    }

    async fn set_balance(
        &self,
        request: Request<proto::SetBalanceRequest>,
    ) -> Answer<proto::SetBalanceResponse> {
        Ok(Response::new(proto::SetBalanceResponse {
            header: header(1),
            default_mode: request.get_ref().mode,
        }))
    }

    async fn list_leaf_balances(
        &self,
        _: Request<proto::ListLeafBalancesRequest>,
    ) -> Answer<proto::ListLeafBalancesResponse> {
        Ok(Response::new(proto::ListLeafBalancesResponse {
            header: header(1),
            leaf_balances: vec![leaf_balance("leaf1")],
            ..proto::ListLeafBalancesResponse::default()
        }))
    }

    async fn get_leaf_balance(
        &self,
        request: Request<proto::GetLeafBalanceRequest>,
    ) -> Answer<proto::GetLeafBalanceResponse> {
        Ok(Response::new(proto::GetLeafBalanceResponse {
            header: header(1),
            resource: Some(leaf_balance(&request.get_ref().leaf_name)),
        }))
    }
}

/// A leaf that is on, or leaf2, which is off.
fn leaf_balance(leaf_name: &str) -> proto::LeafBalance {
    let mode = match leaf_name {
        "leaf2" => proto::BalanceMode::Off,
        _ => proto::BalanceMode::On,
    };
    proto::LeafBalance {
        leaf_name: leaf_name.to_owned(),
        mode: mode.into(),
        has_own_mode: true,
        agent_address: Some("192.0.2.11:9340".to_owned()),
        peer_address: None,
    }
}

#[tonic::async_trait]
impl fabric_server::FabricService for Replica {
    async fn apply_fabric(
        &self,
        request: Request<tonic::Streaming<proto::ApplyFabricRequest>>,
    ) -> Result<Response<BoxStream<proto::ApplyFabricResponse>>, Status> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.unwrap_or_default();
        if first.display_name == "bad" {
            return Err(Status::invalid_argument(
                "links[3].a.switch_name: no switch is named \"leaf9\"",
            ));
        }
        let mut answers = Vec::new();
        while let Some(part) = parts.message().await? {
            let created = part.hosts.into_iter().map(|host| proto::ResourceChange {
                kind: proto::ResourceKind::Host.into(),
                name: host.name,
                change_type: proto::ChangeType::Created.into(),
                ..proto::ResourceChange::default()
            });
            answers.push(Ok(proto::ApplyFabricResponse {
                changes: created.collect(),
                ..proto::ApplyFabricResponse::default()
            }));
        }
        answers.push(Ok(proto::ApplyFabricResponse {
            generation: Some(if first.validate_only { 100 } else { 1 }),
            ..proto::ApplyFabricResponse::default()
        }));
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Result<Response<proto::GetFabricResponse>, Status> {
        if self.alone {
            return Err(Status::unavailable("no majority of replicas answers"));
        }
        Ok(Response::new(proto::GetFabricResponse {
            display_name: "example".to_owned(),
            ..Default::default()
        }))
    }

    async fn list_switches(
        &self,
        request: Request<proto::ListSwitchesRequest>,
    ) -> Result<Response<proto::ListSwitchesResponse>, Status> {
        let (name, next) = match request.into_inner().page_token.as_str() {
            "" => ("leaf1", "second"),
            _ => ("leaf2", ""),
        };
        Ok(Response::new(proto::ListSwitchesResponse {
            switches: vec![proto::Switch {
                name: name.to_owned(),
                role: proto::SwitchRole::Leaf.into(),
                ..Default::default()
            }],
            next_page_token: next.to_owned(),
            ..Default::default()
        }))
    }

    /// Leaves 1 to 5, of which the last has no agent, and a spine.
    async fn get_switch(
        &self,
        request: Request<proto::GetSwitchRequest>,
    ) -> Answer<proto::GetSwitchResponse> {
        let name = request.into_inner().name;
        let role = match name.as_str() {
            "leaf1" | "leaf2" | "leaf3" | "leaf4" | "leaf5" => proto::SwitchRole::Leaf,
            "spine1" => proto::SwitchRole::Spine,
            _ => {
                let reason = format!("name: no switch is named {name:?}");
                return Err(Status::not_found(reason));
            }
        };
        Ok(Response::new(proto::GetSwitchResponse {
            header: header(1),
            resource: Some(proto::Switch {
                name,
                role: role.into(),
                ..proto::Switch::default()
            }),
        }))
    }

    /// Interfaces 3 to 5 of each leaf lead to hosts of the jobs, the ninth leads to another one.
    async fn get_host_port(
        &self,
        request: Request<proto::GetHostPortRequest>,
    ) -> Answer<proto::GetHostPortResponse> {
        let name = request.into_inner().name;
        let host = match name.split_once(':') {
            Some(("leaf1" | "leaf4", "eth3" | "eth4" | "eth5")) => "h1",
            Some(("leaf2" | "leaf3", "eth3" | "eth4" | "eth5")) => "h2",
            Some((_, "eth9")) => "h9",
            _ => {
                let reason = format!("name: no host port is named {name:?}");
                return Err(Status::not_found(reason));
            }
        };
        Ok(Response::new(proto::GetHostPortResponse {
            header: header(1),
            resource: Some(proto::HostPort {
                host_name: host.to_owned(),
                name,
                ..proto::HostPort::default()
            }),
        }))
    }

    async fn list_hosts(
        &self,
        _: Request<proto::ListHostsRequest>,
    ) -> Result<Response<proto::ListHostsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn list_links(
        &self,
        _: Request<proto::ListLinksRequest>,
    ) -> Result<Response<proto::ListLinksResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn list_host_ports(
        &self,
        _: Request<proto::ListHostPortsRequest>,
    ) -> Result<Response<proto::ListHostPortsResponse>, Status> {
        let port = |(leaf, host, rail): (&str, &str, u32)| proto::HostPort {
            name: format!("{leaf}:eth1"),
            switch_name: leaf.to_owned(),
            interface_name: "eth1".to_owned(),
            host_name: host.to_owned(),
            rail: Some(rail),
            ..Default::default()
        };
        let rails = [
            ("leaf1", "h1", 0),
            ("leaf2", "h1", 1),
            ("leaf3", "h2", 0),
            ("leaf4", "h2", 1),
        ];
        let ports = rails.iter().filter(|_| self.host_ports);
        Ok(Response::new(proto::ListHostPortsResponse {
            host_ports: ports.copied().map(port).collect(),
            ..Default::default()
        }))
    }

    async fn update_link(
        &self,
        request: Request<proto::UpdateLinkRequest>,
    ) -> Result<Response<proto::UpdateLinkResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.request_id.len(), 36);
        let paths = request.update_mask.unwrap_or_default().paths;
        assert_eq!(paths, ["admin_state"]);
        let link = request.resource.unwrap_or_default();
        match link.name.as_str() {
            "leaf1:eth1--spine1:eth1" => {
                let down = link.admin_state() == proto::AdminState::Down;
                let header = proto::ResponseHeader {
                    revision: if down { 5 } else { 6 },
                    ..Default::default()
                };
                Ok(Response::new(proto::UpdateLinkResponse {
                    header: Some(header),
                    resource: Some(link),
                }))
            }
            other => Err(Status::not_found(format!(
                "name: no link is named {other:?}"
            ))),
        }
    }
}

/// Its services.
pub(super) fn services(replica: Replica) -> Routes {
    Routes::new(peer_server::PeerServiceServer::new(replica))
        .add_service(route_server::RouteServiceServer::new(replica))
        .add_service(evpn_server::EvpnServiceServer::new(replica))
        .add_service(replica_server::ReplicaServiceServer::new(replica))
        .add_service(plan_server::PlanServiceServer::new(replica))
        .add_service(simulation_server::SimulationServiceServer::new(replica))
        .add_service(config_server::ConfigServiceServer::new(replica))
        .add_service(fabric_server::FabricServiceServer::new(replica))
        .add_service(job_server::JobServiceServer::new(replica))
        .add_service(watch_server::WatchServiceServer::new(replica))
}
