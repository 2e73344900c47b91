//! Every service of weft.v1, put together. Knows what each needs, and which of them needs the others' agreement.

use std::sync::Arc;

use tonic::service::Routes;
use weft_proto::v1::{
    config_service_server, evpn_service_server, fabric_service_server, job_service_server,
    peer_service_server, plan_service_server, replica_service_server, route_service_server,
    simulation_service_server, watch_service_server,
};

use super::access::{self, Access};
use super::json::{self, Gateway};
use super::metrics::Counted;
use super::plans::simulate;
use super::replicas::Addresses;
use super::tables::Tables;
use super::{config, evpn, fabric, jobs, peers, plans, replicas, routes, watch};
use crate::config::Api;
use crate::daemon::health::Health;
use crate::daemon::switches::led::Led;
use crate::speaker::Shared;
use crate::speaker::reload::Reloader;

/// The service of the declared fabric.
pub fn fabric(shared: &Arc<Shared>, led: &Led) -> Arc<fabric::Service> {
    let addresses = Arc::new(addresses(shared));
    let service = fabric::Service::new(Arc::clone(shared), led.clone(), addresses);
    Arc::new(service)
}

/// What programs and operators ask a running daemon.
pub fn services(
    shared: &Arc<Shared>,
    led: &Led,
    reloader: &Arc<Reloader>,
    fabric: Arc<fabric::Service>,
) -> Routes {
    let addresses = Arc::new(addresses(shared));
    let tables = Arc::new(Tables::new(Arc::clone(shared)));
    let jobs = jobs::Service::new(Arc::clone(&fabric));
    let peers = peers::Service::new(Arc::clone(&tables));
    let routes = routes::Service::new(Arc::clone(&tables));
    let evpn = evpn::Service::new(Arc::clone(&tables), led.clone());
    let replicas = replicas::Service::new(Arc::clone(shared), Arc::clone(&addresses));
    let plans = plans::Service::new(Arc::clone(shared), led.clone(), Arc::clone(&addresses));
    let plans = Arc::new(plans);
    let watch = watch::Service::new(tables, Arc::clone(&plans));
    let simulations = simulate::Service::new(Arc::clone(shared), led.clone(), addresses);
    let config = config::Service::new(Arc::clone(shared), Arc::clone(reloader));
    Routes::new(fabric_service_server::FabricServiceServer::from_arc(fabric))
        .add_service(job_service_server::JobServiceServer::new(jobs))
        .add_service(watch_service_server::WatchServiceServer::new(watch))
        .add_service(peer_service_server::PeerServiceServer::new(peers))
        .add_service(route_service_server::RouteServiceServer::new(routes))
        .add_service(evpn_service_server::EvpnServiceServer::new(evpn))
        .add_service(replica_service_server::ReplicaServiceServer::new(replicas))
        .add_service(plan_service_server::PlanServiceServer::from_arc(plans))
        .add_service(simulation_service_server::SimulationServiceServer::new(
            simulations,
        ))
        .add_service(config_service_server::ConfigServiceServer::new(config))
}

/// What other replicas ask the leader for, on behalf of whoever called them.
pub fn at_leader(
    shared: &Arc<Shared>,
    led: &Led,
) -> plan_service_server::PlanServiceServer<plans::AtLeader> {
    let service = plans::Service::new(Arc::clone(shared), led.clone(), Arc::default());
    plan_service_server::PlanServiceServer::new(plans::AtLeader::new(service))
}

/// The changes of the fabric that the leader makes on behalf of another replica.
pub fn fabric_at_leader(
    shared: &Arc<Shared>,
    fabric: &fabric::Service,
) -> fabric_service_server::FabricServiceServer<fabric::Service> {
    fabric_service_server::FabricServiceServer::new(fabric.at_leader(Arc::clone(shared)))
}

/// The same of simulations.
pub fn simulations_at_leader(
    shared: &Arc<Shared>,
    led: &Led,
) -> simulation_service_server::SimulationServiceServer<simulate::Service> {
    let service = simulate::Service::at_leader(Arc::clone(shared), led.clone());
    simulation_service_server::SimulationServiceServer::new(service)
}

/// The same of replicas: what this one knows of itself, and of the others if it leads.
pub fn replicas_at_leader(
    shared: &Arc<Shared>,
) -> replica_service_server::ReplicaServiceServer<replicas::Service> {
    let addresses = Arc::new(addresses(shared));
    let service = replicas::Service::alone(Arc::clone(shared), addresses);
    replica_service_server::ReplicaServiceServer::new(service)
}

/// Where every replica takes Raft messages.
fn addresses(shared: &Shared) -> Addresses {
    let config = shared.config();
    let addresses = config.replicas.iter().map(|member| {
        let address = member.address.as_ref().map(ToString::to_string);
        (member.id, address.unwrap_or_default())
    });
    addresses.collect()
}

/// The services, behind the rule of access and counted, and JSON beside them at the same port.
pub fn with_json(services: Routes, counted: &Counted, api: &Api, health: Health) -> Routes {
    let requests = counted.requests.clone();
    let access = Access::new(api, counted.refusals.clone());
    let passing = axum::middleware::from_fn_with_state(access.clone(), access::pass);
    let services = services.prepare().into_axum_router();
    let services = services.layer(passing).layer(requests.clone());
    let gateway = Gateway::new((access, api), services.clone(), requests, health);
    let both = services.fallback(move |request| gateway.clone().answer(request));
    Routes::from(both.layer(axum::middleware::from_fn(json::grpc_by_programs)))
}

/// Services whose calls need a majority, at least where they do not say SERIALIZABLE.
pub const AGREEING: [&str; 7] = [
    fabric_service_server::SERVICE_NAME,
    job_service_server::SERVICE_NAME,
    watch_service_server::SERVICE_NAME,
    route_service_server::SERVICE_NAME,
    evpn_service_server::SERVICE_NAME,
    plan_service_server::SERVICE_NAME,
    simulation_service_server::SERVICE_NAME,
];

/// Services of what one replica knows by itself.
pub const ALONE: [&str; 3] = [
    peer_service_server::SERVICE_NAME,
    replica_service_server::SERVICE_NAME,
    config_service_server::SERVICE_NAME,
];
