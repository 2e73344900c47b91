//! The operator's gRPC service.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::{Request, Response, Status};
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_evpn::mac::Mac;
use weft_proto::operator::v1::{self as proto, operator_server};

use super::config;
use super::routes::{self, Filter, Page};
use crate::config::SUPPORTED;
use crate::daemon::leadership::Led;
use crate::reflector::Reflector;
use crate::reflector::owner::Agreed;
use crate::speaker::Shared;
use crate::speaker::reload::Reloader;
use crate::speaker::report::{Direction, Facts};

/// Answers operators.
pub struct Service {
    shared: Arc<Shared>,
    led: Led,
    reloader: Arc<Reloader>,
    /// Every replica with its address, as configured.
    replicas: BTreeMap<u64, String>,
    /// Looks hold the reflector up: this many at a time.
    looks: Semaphore,
}

impl Service {
    /// For a running daemon.
    pub fn new(
        shared: Arc<Shared>,
        led: Led,
        reloader: Arc<Reloader>,
        replicas: BTreeMap<u64, String>,
    ) -> Self {
        Self {
            shared,
            led,
            reloader,
            replicas,
            looks: Semaphore::new(LOOKS_MAX),
        }
    }

    /// Waits until this replica knows everything that was agreed before the call.
    async fn catch_up(&self, consistency: i32) -> Result<u64, Status> {
        if consistency == i32::from(proto::Consistency::Serializable) {
            return Ok(0);
        }
        let index = self.shared.consensus.read_index().await;
        index.ok_or_else(|| {
            Status::unavailable(
                "no majority of replicas answers; ask with consistency SERIALIZABLE",
            )
        })
    }

    async fn look<T: Send + 'static>(
        &self,
        index: u64,
        look: impl Fn(&Reflector) -> T + Send + Clone + 'static,
    ) -> Result<T, Status> {
        let _look = self
            .looks
            .acquire()
            .await
            .map_err(|_| Status::unavailable("the replica is stopping"))?;
        // The reflector is a moment behind the store; it catches up within a few turns.
        for _ in 0..CATCH_UP_TURNS {
            let look = look.clone();
            let answer = self
                .shared
                .reflection
                .query(move |reflector| (reflector.index() >= index).then(|| look(reflector)));
            match answer.await {
                Some(Some(answer)) => return Ok(answer),
                Some(None) => tokio::time::sleep(CATCH_UP_PAUSE).await,
                None => return Err(Status::unavailable("the replica is stopping")),
            }
        }
        Err(Status::deadline_exceeded("this replica does not keep up"))
    }
}

#[tonic::async_trait]
impl operator_server::Operator for Service {
    async fn list_peers(
        &self,
        request: Request<proto::ListPeersRequest>,
    ) -> Result<Response<proto::ListPeersResponse>, Status> {
        let request = request.into_inner();
        let (agreed, routes) = self
            .look(0, |reflector| {
                let agreed: BTreeMap<PeerId, Agreed> = reflector
                    .peers()
                    .map(|(peer, agreed)| (peer, agreed.clone()))
                    .collect();
                (agreed, routes_by_peer(reflector))
            })
            .await?;
        let mut rows = peer_rows(self.shared.reports(), &agreed, &routes);
        let from = rows.partition_point(|row| sort_key(row) <= request.page_token);
        let from = if request.page_token.is_empty() {
            0
        } else {
            from
        };
        let size = page_size(request.page_size);
        let mut peers: Vec<_> = rows.drain(from..).take(size + 1).collect();
        let mut next_page_token = String::new();
        if peers.len() > size {
            peers.truncate(size);
            next_page_token = peers.last().map(sort_key).unwrap_or_default();
        }
        let replica = self.shared.replica;
        Ok(Response::new(proto::ListPeersResponse {
            peers,
            next_page_token,
            replica,
        }))
    }

    async fn list_routes(
        &self,
        request: Request<proto::ListRoutesRequest>,
    ) -> Result<Response<proto::ListRoutesResponse>, Status> {
        let request = request.into_inner();
        let (family, filter) = wanted(&request)?;
        let index = self.catch_up(request.consistency).await?;
        let (token, size) = (request.page_token, page_size(request.page_size));
        let (page, applied_index) = self
            .look(index, move |reflector| {
                let page: Option<Page> = match family {
                    Family::IPV4_UNICAST => routes::page(reflector.ipv4(), &filter, &token, size),
                    Family::IPV6_UNICAST => routes::page(reflector.ipv6(), &filter, &token, size),
                    _ => routes::page(reflector.evpn(), &filter, &token, size),
                };
                (page, reflector.index())
            })
            .await?;
        let page =
            page.ok_or_else(|| Status::invalid_argument("page_token: not from an earlier answer"))?;
        let Page {
            routes,
            next_page_token,
        } = page;
        Ok(Response::new(proto::ListRoutesResponse {
            routes,
            next_page_token,
            applied_index,
        }))
    }

    async fn list_vteps(
        &self,
        request: Request<proto::ListVtepsRequest>,
    ) -> Result<Response<proto::ListVtepsResponse>, Status> {
        let index = self.catch_up(request.into_inner().consistency).await?;
        let (mut vteps, applied_index) = self
            .look(index, |reflector| (vtep_rows(reflector), reflector.index()))
            .await?;
        let topology = self.led.topology();
        for vtep in &mut vteps {
            let address = IpAddr::from_str(&vtep.address).ok();
            let switch = address.and_then(|address| topology.as_ref()?.switch_of_vtep(address));
            vtep.switch = switch
                .map(|switch| switch.name.to_string())
                .unwrap_or_default();
        }
        Ok(Response::new(proto::ListVtepsResponse {
            vteps,
            applied_index,
        }))
    }

    async fn list_replicas(
        &self,
        _: Request<proto::ListReplicasRequest>,
    ) -> Result<Response<proto::ListReplicasResponse>, Status> {
        let group = self.shared.consensus.group().borrow().clone();
        let status = &group.status;
        let row = |(id, address): (&u64, &String)| {
            let own = *id == status.id;
            let heard = group.heard.get(id).map(std::time::Instant::elapsed);
            let last_seen_secs = if own {
                0.0
            } else {
                heard.map_or(-1.0, |ago| ago.as_secs_f64())
            };
            let role = match (own, status.leader == Some(*id)) {
                (true, _) => format!("{:?}", status.role).to_lowercase(),
                (false, true) => "leader".to_owned(),
                (false, false)
                    if heard.is_none_or(|ago| ago > UNREACHABLE_AFTER)
                        && status.leader == Some(status.id) =>
                {
                    "unreachable".to_owned()
                }
                (false, false) => "follower".to_owned(),
            };
            let matched = status
                .peers
                .iter()
                .find(|peer| peer.0 == *id)
                .map(|peer| peer.1);
            proto::Replica {
                id: *id,
                address: address.clone(),
                role,
                self_: own,
                term: if own { status.term } else { 0 },
                commit_index: if own { status.commit } else { 0 },
                applied_index: if own {
                    status.applied
                } else {
                    matched.unwrap_or(0)
                },
                last_seen_secs,
                degraded: if own {
                    status.degraded.clone().unwrap_or_default()
                } else {
                    String::new()
                },
            }
        };
        Ok(Response::new(proto::ListReplicasResponse {
            replicas: self.replicas.iter().map(row).collect(),
            leader: status.leader.unwrap_or(0),
            replica: status.id,
            term: status.term,
        }))
    }

    async fn get_plan(
        &self,
        request: Request<proto::GetPlanRequest>,
    ) -> Result<Response<proto::Plan>, Status> {
        let leaf = request.into_inner().leaf;
        let mut plan = self.led.plan();
        if !leaf.is_empty() {
            let known = self.led.topology().is_some_and(|topology| {
                topology
                    .switches()
                    .any(|switch| switch.name.as_str() == leaf)
            });
            if !known {
                return Err(Status::not_found(format!(
                    "leaf: the fabric has no switch named {leaf:?}"
                )));
            }
            plan.entries.retain(|entry| entry.leaf == leaf);
        }
        Ok(Response::new(plan))
    }

    async fn list_agents(
        &self,
        _: Request<proto::ListAgentsRequest>,
    ) -> Result<Response<proto::ListAgentsResponse>, Status> {
        let leader = self
            .shared
            .consensus
            .group()
            .borrow()
            .status
            .leader
            .unwrap_or(0);
        Ok(Response::new(proto::ListAgentsResponse {
            agents: self.led.agents(),
            leader,
        }))
    }

    async fn reload_config(
        &self,
        request: Request<proto::ReloadConfigRequest>,
    ) -> Result<Response<proto::ReloadConfigResponse>, Status> {
        let answer = config::reload(&self.reloader, self.shared.replica, request.into_inner());
        answer.await.map(Response::new)
    }

    async fn get_config(
        &self,
        request: Request<proto::GetConfigRequest>,
    ) -> Result<Response<proto::GetConfigResponse>, Status> {
        let answer = config::get(&self.reloader, self.shared.replica, request.get_ref());
        answer.map(Response::new)
    }
}

fn wanted(request: &proto::ListRoutesRequest) -> Result<(Family, Filter), Status> {
    let family = match request.family.as_str() {
        "" => Family::L2VPN_EVPN,
        name => Family::from_str(name)
            .ok()
            .filter(|family| SUPPORTED.contains(family))
            .ok_or_else(|| Status::invalid_argument(format!("family: {name:?} is not carried")))?,
    };
    let route_type = match request.route_type {
        0 => None,
        number @ 1..=5 => u8::try_from(number).ok(),
        number => {
            return Err(Status::invalid_argument(format!(
                "route_type: {number} is not 1 to 5"
            )));
        }
    };
    let mac = match request.mac.as_str() {
        "" => None,
        text => {
            let mac = Mac::from_str(text);
            Some(mac.map_err(|_| {
                Status::invalid_argument(format!("mac: {text:?} is not a MAC address"))
            })?)
        }
    };
    let vni = (request.vni != 0).then_some(request.vni);
    let peer = (!request.peer.is_empty()).then(|| request.peer.clone());
    Ok((
        family,
        Filter {
            route_type,
            vni,
            mac,
            peer,
        },
    ))
}

fn routes_by_peer(reflector: &Reflector) -> BTreeMap<PeerId, u64> {
    let mut routes = BTreeMap::new();
    let mut count = |peer: PeerId| *routes.entry(peer).or_default() += 1;
    reflector
        .evpn()
        .iter()
        .for_each(|at| at.paths.iter().for_each(|path| count(path.source.peer)));
    reflector
        .ipv4()
        .iter()
        .for_each(|at| at.paths.iter().for_each(|path| count(path.source.peer)));
    reflector
        .ipv6()
        .iter()
        .for_each(|at| at.paths.iter().for_each(|path| count(path.source.peer)));
    routes
}

/// Peers that this replica speaks to, then those that others alone do; by router id, then address.
fn peer_rows(
    reports: Vec<(IpAddr, Facts)>,
    agreed: &BTreeMap<PeerId, Agreed>,
    routes: &BTreeMap<PeerId, u64>,
) -> Vec<proto::Peer> {
    let mut rows: Vec<proto::Peer> = Vec::new();
    let mut local = std::collections::BTreeSet::new();
    for (address, facts) in reports {
        local.extend(facts.peer);
        rows.push(peer_row(address, &facts, agreed, routes));
    }
    for (peer, agreed) in agreed.iter().filter(|(peer, _)| !local.contains(peer)) {
        rows.push(proto::Peer {
            asn: peer.asn,
            router_id: peer.router_id.to_string(),
            state: "Idle".to_owned(),
            routes: routes.get(peer).copied().unwrap_or(0),
            owner: agreed.owner.as_ref().map_or(0, |owner| owner.replica),
            sessions: agreed.sessions.iter().copied().collect(),
            ..proto::Peer::default()
        });
    }
    rows.sort_by_key(sort_key);
    rows
}

fn peer_row(
    address: IpAddr,
    facts: &Facts,
    agreed: &BTreeMap<PeerId, Agreed>,
    routes: &BTreeMap<PeerId, u64>,
) -> proto::Peer {
    let agreed = facts.peer.and_then(|peer| agreed.get(&peer));
    let total = |wanted: Direction| {
        facts
            .messages
            .iter()
            .filter(|((way, _), _)| *way == wanted)
            .map(|(_, count)| count)
            .sum()
    };
    proto::Peer {
        address: address.to_string(),
        asn: facts.peer.map_or(0, |peer| peer.asn),
        router_id: facts
            .peer
            .map(|peer| peer.router_id.to_string())
            .unwrap_or_default(),
        peer_group: facts.group.clone(),
        state: facts.state.to_owned(),
        since_secs: since_secs(facts.since),
        families: facts.families.iter().map(ToString::to_string).collect(),
        routes: facts
            .peer
            .and_then(|peer| routes.get(&peer))
            .copied()
            .unwrap_or(0),
        messages_received: total(Direction::Received),
        messages_sent: total(Direction::Sent),
        owner: agreed
            .and_then(|agreed| agreed.owner.as_ref())
            .map_or(0, |owner| owner.replica),
        sessions: agreed
            .map(|agreed| agreed.sessions.iter().copied().collect())
            .unwrap_or_default(),
        last_error: match facts.attempt_error.as_str() {
            "" => facts.last_error.clone(),
            attempt => attempt.to_owned(),
        },
        dynamic: facts.dynamic,
    }
}

fn sort_key(row: &proto::Peer) -> String {
    let id = std::net::Ipv4Addr::from_str(&row.router_id).map_or(0, u32::from);
    format!("{id:08x}/{}", row.address)
}

fn vtep_rows(reflector: &Reflector) -> Vec<proto::Vtep> {
    let vteps = reflector.vteps();
    let row = |address: IpAddr| {
        let vnis: Vec<_> = vteps.vnis_of(address).collect();
        let peer = vnis
            .first()
            .and_then(|vni| vteps.announcers(*vni, address).next());
        proto::Vtep {
            address: address.to_string(),
            peer: peer
                .map(|peer| peer.router_id.to_string())
                .unwrap_or_default(),
            switch: String::new(),
            vnis: vnis.iter().map(|vni| vni.number()).collect(),
            macs: vteps.mac_routes(address),
        }
    };
    vteps.vteps().map(row).collect()
}

fn since_secs(since: Instant) -> u64 {
    since.elapsed().as_secs()
}

fn page_size(wanted: u32) -> usize {
    match usize::try_from(wanted).unwrap_or(PAGE_MAX) {
        0 => PAGE_DEFAULT,
        wanted => wanted.min(PAGE_MAX),
    }
}

const PAGE_DEFAULT: usize = 1000;
/// A page holds the reflector up while it is collected.
const PAGE_MAX: usize = 10_000;
const LOOKS_MAX: usize = 2;
const CATCH_UP_TURNS: u32 = 500;
const CATCH_UP_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);
/// As the leader counts a replica as lost.
const UNREACHABLE_AFTER: std::time::Duration = std::time::Duration::from_secs(1);
