//! The operator's gRPC service: which question goes to whom. Knows no row.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};
use weft_bgp::family::Family;
use weft_bgp::nlri::Nlri;
use weft_bgp::table::Table;
use weft_proto::operator::v1::{self as proto, operator_server};

use super::explain::{Asked, Found};
use super::neighbors::{self, Claims, Wanted};
use super::peers::{self, Counted};
use super::routes::{self, Page, Row};
use super::{balance, config, look, moves, plans, replicas, rib, views};
use crate::daemon::switches::led::Led;
use crate::fabric::topology::SwitchName;
use crate::reflector::Reflector;
use crate::speaker::Shared;
use crate::speaker::reload::Reloader;
use crate::speaker::report::Facts;

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
        look::at(&self.shared, index, look).await
    }

    /// Looks at a table part by part, so that nobody waits for the whole, and puts together what the parts give: what
    /// changes meanwhile may be missing, or met twice. `look` makes the look at a place, which says where to go on.
    async fn walk<A, P, L>(
        &self,
        index: u64,
        mut found: A,
        look: impl Fn(&A, usize) -> L,
        take: impl Fn(A, P) -> A,
    ) -> Result<(A, u64), Status>
    where
        P: Send + 'static,
        L: Fn(&Reflector) -> (P, Option<usize>) + Send + Clone + 'static,
    {
        let (mut place, mut applied_index) = (Some(0), None);
        while let Some(at) = place {
            let look = look(&found, at);
            let look = move |reflector: &Reflector| (look(reflector), reflector.index());
            let ((part, next), applied) = self.look(index, look).await?;
            found = take(found, part);
            place = next;
            applied_index.get_or_insert(applied);
        }
        Ok((found, applied_index.unwrap_or(index)))
    }

    /// The leaf of that name; None if no leaf was named.
    fn leaf(&self, name: &str) -> Result<Option<SwitchName>, Status> {
        if name.is_empty() {
            return Ok(None);
        }
        balance::known(self.led.topology().as_deref(), name)?;
        Ok(Some(name.into()))
    }

    /// Who leads, if it is another replica.
    fn only_the_leader(&self) -> Result<(), Status> {
        let group = self.shared.consensus.group().borrow().clone();
        replicas::only_the_leader(&group, &self.replicas)
    }

    /// A page's claims to IP addresses.
    async fn claims(&self, index: u64, wanted: Wanted) -> Result<(Claims, u64), Status> {
        let look = |claims: &Claims, at: usize| {
            let end = claims.end();
            move |reflector: &Reflector| wanted.part(reflector.evpn(), at, end)
        };
        let take = |claims, part| wanted.merge(claims, part);
        self.walk(index, Claims::default(), look, take).await
    }

    /// A page of a table.
    async fn routes<N: Row>(
        &self,
        index: u64,
        wanted: Option<routes::Wanted<N>>,
        table: fn(&Reflector) -> &Table<N>,
    ) -> Result<(Page, u64), Status> {
        let wanted = Arc::new(wanted.ok_or_else(no_token)?);
        let look = |found: &routes::Found<N>, at: usize| {
            let (wanted, end) = (Arc::clone(&wanted), wanted.end(found));
            move |reflector: &Reflector| wanted.part(table(reflector), at, end.as_ref())
        };
        let take = |found, part| wanted.merge(found, part);
        let found = routes::Found::default();
        let (found, applied_index) = self.walk(index, found, look, take).await?;
        let page = off_the_runtime(move || found.page()).await?;
        Ok((page, applied_index))
    }

    /// What is agreed about peers, and how many routes of each there are.
    async fn counted(&self) -> Result<Counted, Status> {
        let counted = self.look(0, Counted::of).await?;
        let counted = self.count(counted, Reflector::evpn).await?;
        let counted = self.count(counted, Reflector::ipv4).await?;
        let counted = self.count(counted, Reflector::ipv6).await?;
        self.count(counted, Reflector::rtc).await
    }

    async fn count<N: Nlri>(
        &self,
        counted: Counted,
        table: fn(&Reflector) -> &Table<N>,
    ) -> Result<Counted, Status> {
        let look = |_: &Counted, at: usize| {
            move |reflector: &Reflector| Counted::part(table(reflector), at)
        };
        let counted = self.walk(0, counted, look, Counted::with).await?;
        Ok(counted.0)
    }
}

#[tonic::async_trait]
impl operator_server::Operator for Service {
    async fn list_peers(
        &self,
        request: Request<proto::ListPeersRequest>,
    ) -> Result<Response<proto::ListPeersResponse>, Status> {
        let request = request.into_inner();
        let counted = self.counted().await?;
        let mut rows = peers::rows(&self.shared.reports(), &counted);
        let from = rows.partition_point(|row| peers::sort_key(row) <= request.page_token);
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
            next_page_token = peers.last().map(peers::sort_key).unwrap_or_default();
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
        let (family, filter) = routes::wanted(&request)?;
        let index = self.catch_up(request.consistency).await?;
        let (token, size) = (&request.page_token, page_size(request.page_size));
        let (page, applied_index) = match family {
            Family::IPV4_UNICAST => {
                let wanted = routes::Wanted::new(filter, token, size);
                self.routes(index, wanted, Reflector::ipv4).await?
            }
            Family::IPV6_UNICAST => {
                let wanted = routes::Wanted::new(filter, token, size);
                self.routes(index, wanted, Reflector::ipv6).await?
            }
            Family::RTC => {
                let wanted = routes::Wanted::new(filter, token, size);
                self.routes(index, wanted, Reflector::rtc).await?
            }
            _ => {
                let wanted = routes::Wanted::new(filter, token, size);
                self.routes(index, wanted, Reflector::evpn).await?
            }
        };
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

    async fn get_peer(
        &self,
        request: Request<proto::GetPeerRequest>,
    ) -> Result<Response<proto::PeerDetail>, Status> {
        let wanted = request.into_inner().peer;
        let named = |(address, facts): &(IpAddr, Facts)| {
            let id = facts.peer.map(|peer| peer.router_id.to_string());
            address.to_string() == wanted || id.as_ref() == Some(&wanted)
        };
        let reports = self.shared.reports();
        let (address, facts) = reports.iter().find(|report| named(report)).ok_or_else(|| {
            Status::not_found(format!("peer: this replica speaks to no {wanted:?}"))
        })?;
        let counted = self.counted().await?;
        let config = self.shared.config();
        let settings = config.bgp.resolve(*address);
        let asn = self.shared.local.asn;
        Ok(Response::new(peers::detail(
            *address, facts, settings, asn, &counted,
        )))
    }

    async fn get_route(
        &self,
        request: Request<proto::GetRouteRequest>,
    ) -> Result<Response<proto::GetRouteResponse>, Status> {
        let proto::GetRouteRequest {
            consistency,
            family,
            key,
            rd,
        } = request.into_inner();
        let family = routes::family(&family)?;
        let index = self.catch_up(consistency).await?;
        let asked = format!("{rd} {key}");
        let asked_for = Arc::new(Asked::new(family, key, rd));
        let look = |_: &Found, at: usize| {
            let asked_for = Arc::clone(&asked_for);
            move |reflector: &Reflector| asked_for.part(reflector, at)
        };
        let found = self.walk(index, Found::default(), look, Found::with);
        let (found, applied_index) = found.await?;
        let destinations = found.explain(&self.shared.reports(), &self.shared.local);
        if destinations.is_empty() {
            let reason = format!("key: there is no {} in {family}", asked.trim());
            return Err(Status::not_found(reason));
        }
        Ok(Response::new(proto::GetRouteResponse {
            destinations,
            applied_index,
        }))
    }

    async fn list_segments(
        &self,
        request: Request<proto::ListSegmentsRequest>,
    ) -> Result<Response<proto::ListSegmentsResponse>, Status> {
        let request = request.into_inner();
        let esi = optional("esi", &request.esi, "an Ethernet segment identifier")?;
        let index = self.catch_up(request.consistency).await?;
        let look = |_: &Vec<_>, at: usize| {
            move |reflector: &Reflector| views::segment_paths(reflector.evpn(), at, esi)
        };
        let take = |mut paths: Vec<_>, part| {
            paths.extend::<Vec<_>>(part);
            paths
        };
        let (paths, applied_index) = self.walk(index, Vec::new(), look, take).await?;
        Ok(Response::new(proto::ListSegmentsResponse {
            segments: views::segments(paths, esi, request.tag),
            applied_index,
        }))
    }

    async fn list_neighbors(
        &self,
        request: Request<proto::ListNeighborsRequest>,
    ) -> Result<Response<proto::ListNeighborsResponse>, Status> {
        let request = request.into_inner();
        let ip = optional("ip", &request.ip, "an IP address")?;
        let after = match request.page_token.as_str() {
            "" => None,
            token => Some(neighbors::address(token).ok_or_else(no_token)?),
        };
        let wanted = Wanted {
            vni: request.vni,
            ip,
            duplicates: request.duplicates,
            after,
            size: page_size(request.page_size),
        };
        let index = self.catch_up(request.consistency).await?;
        let (claims, applied_index) = self.claims(index, wanted).await?;
        let (neighbors, last) = off_the_runtime(move || wanted.rows(&claims)).await?;
        let next_page_token = last.map(neighbors::token).unwrap_or_default();
        Ok(Response::new(proto::ListNeighborsResponse {
            neighbors,
            next_page_token,
            applied_index,
        }))
    }

    async fn list_flood_lists(
        &self,
        request: Request<proto::ListFloodListsRequest>,
    ) -> Result<Response<proto::ListFloodListsResponse>, Status> {
        let proto::ListFloodListsRequest { consistency, vni } = request.into_inner();
        let index = self.catch_up(consistency).await?;
        let (lists, applied_index) = self
            .look(index, move |reflector| {
                (views::flood_lists(reflector, vni), reflector.index())
            })
            .await?;
        Ok(Response::new(proto::ListFloodListsResponse {
            lists,
            applied_index,
        }))
    }

    async fn list_moves(
        &self,
        _: Request<proto::ListMovesRequest>,
    ) -> Result<Response<proto::ListMovesResponse>, Status> {
        let moves = self.look(0, moves::rows).await?;
        Ok(Response::new(moves))
    }

    async fn clear_moves(
        &self,
        request: Request<proto::ClearMovesRequest>,
    ) -> Result<Response<proto::ClearMovesResponse>, Status> {
        let place = moves::place(request.get_ref())?;
        let known = self.look(0, moves::rows).await?;
        moves::clear(&self.shared.consensus, place).await?;
        let cleared = moves::row(place, known.moves);
        Ok(Response::new(proto::ClearMovesResponse { cleared }))
    }

    type DumpRibStream = rib::Dump;

    async fn dump_rib(
        &self,
        request: Request<proto::DumpRibRequest>,
    ) -> Result<Response<rib::Dump>, Status> {
        let families = request.into_inner().families;
        let families = families.iter().map(|name| routes::family(name));
        let families: Vec<Family> = families.collect::<Result<_, _>>()?;
        Ok(Response::new(rib::dump(&self.shared, families)))
    }

    async fn list_vteps(
        &self,
        request: Request<proto::ListVtepsRequest>,
    ) -> Result<Response<proto::ListVtepsResponse>, Status> {
        let index = self.catch_up(request.into_inner().consistency).await?;
        let (mut vteps, applied_index) = self
            .look(index, |reflector| {
                (views::vteps(reflector), reflector.index())
            })
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
        Ok(Response::new(replicas::rows(&group, &self.replicas)))
    }

    async fn get_plan(
        &self,
        request: Request<proto::GetPlanRequest>,
    ) -> Result<Response<proto::Plan>, Status> {
        let leaf = self.leaf(&request.into_inner().leaf)?;
        let plan = self.led.plan();
        let shown = off_the_runtime(move || plans::show(&plan, leaf.as_ref())).await?;
        shown.map(Response::new)
    }

    async fn diff_plan(
        &self,
        request: Request<proto::DiffPlanRequest>,
    ) -> Result<Response<proto::PlanDiff>, Status> {
        self.only_the_leader()?;
        let leaf = self.leaf(&request.into_inner().leaf)?;
        let led = self.led.clone();
        let diff = off_the_runtime(move || plans::diff(&led, leaf.as_ref())).await?;
        diff.map(Response::new)
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

    async fn get_agent(
        &self,
        request: Request<proto::GetAgentRequest>,
    ) -> Result<Response<proto::AgentDetail>, Status> {
        self.only_the_leader()?;
        let switch = request.into_inner().switch;
        let agents = self.led.agents();
        let agent = agents.into_iter().find(|agent| agent.switch == switch);
        let agent = agent
            .ok_or_else(|| Status::not_found(format!("switch: there is no agent of {switch:?}")))?;
        let status = self.led.status(&switch.as_str().into());
        Ok(Response::new(proto::AgentDetail {
            agent: Some(agent),
            status: status.map(Arc::unwrap_or_clone),
        }))
    }

    async fn set_balance(
        &self,
        request: Request<proto::SetBalanceRequest>,
    ) -> Result<Response<proto::Balance>, Status> {
        let topology = self.led.topology();
        let topology = topology.as_deref();
        balance::set(&self.shared.consensus, topology, request.get_ref()).await?;
        let modes = balance::modes(&self.shared.consensus).await?;
        Ok(Response::new(balance::to_message(&modes, topology)))
    }

    async fn get_balance(
        &self,
        _: Request<proto::GetBalanceRequest>,
    ) -> Result<Response<proto::Balance>, Status> {
        let modes = balance::modes(&self.shared.consensus).await?;
        let topology = self.led.topology();
        Ok(Response::new(balance::to_message(
            &modes,
            topology.as_deref(),
        )))
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

fn no_token() -> Status {
    Status::invalid_argument("page_token: not from an earlier answer")
}

/// Writes many rows where no connection waits for it.
async fn off_the_runtime<T: Send + 'static>(
    write: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let written = tokio::task::spawn_blocking(write).await;
    written.map_err(|_| Status::internal("a defect of weft; its log has more"))
}

/// What a field says, if it says anything; `kind` is what it has to be.
fn optional<T: FromStr>(field: &str, text: &str, kind: &str) -> Result<Option<T>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let refused = |_| Status::invalid_argument(format!("{field}: {text:?} is not {kind}"));
    T::from_str(text).map(Some).map_err(refused)
}

fn page_size(wanted: u32) -> usize {
    match usize::try_from(wanted).unwrap_or(PAGE_MAX) {
        0 => PAGE_DEFAULT,
        wanted => wanted.min(PAGE_MAX),
    }
}

const PAGE_DEFAULT: usize = 1000;
/// A page is held, and told in one message: some MiB of routes. For each the whole table is looked at.
const PAGE_MAX: usize = 10_000;
const LOOKS_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use weft_evpn::Esi;

    use super::*;

    #[test]
    fn a_field_that_cannot_be_read_says_what_it_has_to_be() {
        assert_eq!(optional::<IpAddr>("ip", "", "an IP address").unwrap(), None);
        let ip = optional::<IpAddr>("ip", "foo", "an IP address").unwrap_err();
        assert_eq!(ip.code(), tonic::Code::InvalidArgument);
        assert_eq!(ip.message(), "ip: \"foo\" is not an IP address");
        let esi = optional::<Esi>("esi", "00:00", "an Ethernet segment identifier");
        let said = "esi: \"00:00\" is not an Ethernet segment identifier";
        assert_eq!(esi.unwrap_err().message(), said);
    }
}
