//! The service of simulations: what would be planned if the fabric, or what runs on it, were another one. Writes nothing, and keeps
//! off the thread that plans. Knows no row of a plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use weft_proto::v1::simulation_service_client::SimulationServiceClient;
use weft_proto::v1::{self as proto, simulation_service_server};

use super::super::leader::Way;
use super::super::replicas::Addresses;
use super::super::{Answer, header, off_the_runtime, refusal};
use super::{job, leader};
use crate::balancer::flows::Divided;
use crate::balancer::pins::predict::{LinkLoad, Method, Prediction, Rates};
use crate::balancer::simulation::{self, Simulation};
use crate::balancer::{Plan, Rejected};
use crate::daemon::switches::led::Led;
use crate::fabric::fact::{Fact, InvalidFabric, Kind, Resource};
use crate::fabric::pin::{PinPath, Pins};
use crate::fabric::topology::{Change, Declaration, Link, LinkName, SwitchName, Topology};
use crate::speaker::Shared;

/// Answers of simulations.
pub struct Service {
    shared: Arc<Shared>,
    led: Led,
    /// None: this replica answers if it leads, and else nobody does.
    way: Option<Way>,
    places: Arc<Semaphore>,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>, led: Led, addresses: Arc<Addresses>) -> Self {
        let way = Way::patient(Arc::clone(&shared), addresses, PATIENCE);
        Self {
            way: Some(way),
            ..Self::at_leader(shared, led)
        }
    }

    /// As other replicas ask it over their own port.
    pub fn at_leader(shared: Arc<Shared>, led: Led) -> Self {
        Self {
            shared,
            led,
            way: None,
            places: Arc::new(Semaphore::new(PLACES)),
        }
    }

    /// What the leader answers, if it is another replica; None: this one is to answer.
    async fn by_leader(
        &self,
        request: &proto::SimulatePlanRequest,
    ) -> Result<Option<Answer<proto::SimulatePlanResponse>>, Status> {
        let Some(way) = &self.way else {
            return match self.shared.consensus.group().borrow().leads() {
                true => Ok(None),
                false => Err(refusal::nobody_leads()),
            };
        };
        // A fabric of its own looks the same to every replica.
        let channel = match request.fabric {
            Some(_) => None,
            None => way.leader().ok().flatten(),
        };
        let Some(channel) = channel else {
            return Ok(None);
        };
        let mut client = SimulationServiceClient::new(channel);
        let answer = client.simulate_plan(request.clone()).await;
        Ok(leader::if_there(answer))
    }

    /// What there is now.
    async fn base(&self) -> Result<Base, Status> {
        let agreed = job::Agreed::look(&self.shared).await?;
        Ok(Base {
            topology: agreed.topology,
            pins: agreed.pins,
            plan: self.led.plan(),
            index: agreed.index,
        })
    }
}

#[tonic::async_trait]
impl simulation_service_server::SimulationService for Service {
    async fn simulate_plan(
        &self,
        request: Request<proto::SimulatePlanRequest>,
    ) -> Answer<proto::SimulatePlanResponse> {
        let request = request.into_inner();
        if let Some(answer) = self.by_leader(&request).await? {
            return answer;
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| refusal::too_many_simulations(PLACES))?;
        let base = self.base().await?;
        let header = header::of(&self.shared, base.index);
        // Gone when the client is, or its time is over.
        let waiting = Arc::new(());
        let waits = Arc::downgrade(&waiting);
        let simulated = off_the_runtime(move || {
            // Also where nobody waits any more, there is no place until it ends.
            let _place = place;
            simulated(&request, &base, &|| waits.strong_count() > 0)
        });
        let simulated = timeout(PATIENCE, simulated).await;
        let simulated = simulated.map_err(|_| refusal::simulation_too_slow(PATIENCE))???;
        Ok(Response::new(proto::SimulatePlanResponse {
            header: Some(header),
            ..simulated
        }))
    }
}

/// What there is, and what it is planned from.
struct Base {
    topology: Topology,
    pins: Pins,
    plan: Plan,
    index: u64,
}

/// What would be planned.
fn simulated(
    request: &proto::SimulatePlanRequest,
    base: &Base,
    is_awaited: &dyn Fn() -> bool,
) -> Result<proto::SimulatePlanResponse, Status> {
    let mut faults = InvalidFabric::default();
    let topology = topology(request, base, &mut faults);
    refusal::check(&faults)?;
    let (adopted, in_force) = match request.fabric {
        Some(_) => (Pins::default(), None),
        None => (base.pins.clone(), Some(&base.plan)),
    };
    let past = match request.replan_pins {
        true => Pins::default(),
        false => adopted.clone(),
    };
    let simulation = simulation::simulate(in_force, &topology, &past, is_awaited);
    let simulation = simulation.map_err(|error: Rejected| {
        tracing::error!(%error, "no plan in a simulation");
        refusal::defect()
    })?;
    let simulation = simulation.ok_or_else(|| Status::cancelled("nobody waits for it"))?;
    let answer = answer(request, &topology, &simulation, &adopted)?;
    match answer.encoded_len() > ANSWER_OCTETS_MAX {
        true => Err(refusal::answer_too_large()),
        false => Ok(answer),
    }
}

/// The fabric and its jobs as they are asked about.
fn topology(
    request: &proto::SimulatePlanRequest,
    base: &Base,
    faults: &mut InvalidFabric,
) -> Topology {
    let counts = [
        (
            "drained_switch_names",
            request.drained_switch_names.len(),
            NAMES_MAX,
        ),
        (
            "failed_link_names",
            request.failed_link_names.len(),
            NAMES_MAX,
        ),
        ("jobs", request.jobs.len(), JOBS_MAX),
        (
            "excluded_job_names",
            request.excluded_job_names.len(),
            NAMES_MAX,
        ),
    ];
    for (field, count, most) in counts.into_iter().filter(|(_, count, most)| count > most) {
        faults.fault(field, format_args!("{count} entries, at most {most}"));
    }
    let topology = match &request.fabric {
        None => base.topology.clone(),
        Some(fabric) => declared(fabric, faults),
    };
    match faults.is_empty() {
        true => changed(topology, request, faults),
        false => topology,
    }
}

/// A fabric that is declared for this call alone.
fn declared(fabric: &proto::Fabric, faults: &mut InvalidFabric) -> Topology {
    let declaration = Declaration {
        display_name: fabric.display_name.clone(),
        switches: fabric.switches.clone(),
        hosts: fabric.hosts.clone(),
        links: fabric.links.clone(),
        host_ports: fabric.host_ports.clone(),
    };
    Topology::new(&declaration).unwrap_or_else(|found| {
        for fault in found.faults {
            faults.fault(format_args!("fabric.{}", fault.field), fault.reason);
        }
        Topology::default()
    })
}

/// Takes jobs away, links out of service, and other jobs in.
fn changed(
    mut topology: Topology,
    request: &proto::SimulatePlanRequest,
    faults: &mut InvalidFabric,
) -> Topology {
    for (at, name) in request.excluded_job_names.iter().enumerate() {
        if topology.job(&name.as_str().into()).is_none() {
            let field = format!("excluded_job_names[{at}]");
            faults.fault(field, format_args!("no job is named {name:?}"));
        }
        topology.remove(Kind::Job, name);
    }
    let drained = request.drained_switch_names.iter().enumerate();
    let drained: BTreeSet<SwitchName> = drained
        .filter_map(|(at, name)| {
            let switch = topology.switch(&name.as_str().into());
            if switch.is_none() {
                let field = format!("drained_switch_names[{at}]");
                faults.fault(field, format_args!("no switch is named {name:?}"));
            }
            Some(switch?.name.clone())
        })
        .collect();
    let mut failed: BTreeSet<LinkName> = BTreeSet::new();
    for (at, name) in request.failed_link_names.iter().enumerate() {
        match topology.link(name) {
            Some(link) => drop(failed.insert(link.name.clone())),
            None => {
                let field = format!("failed_link_names[{at}]");
                faults.fault(field, format_args!("no link is named {name:?}"));
            }
        }
    }
    let ends = |link: &Link| {
        [&link.a, &link.b]
            .iter()
            .any(|end| drained.contains(&end.switch))
    };
    let down = topology
        .links()
        .filter(|it| ends(it) || failed.contains(&it.name));
    let down: Vec<Link> = down.filter(|link| !link.down).cloned().collect();
    for link in down {
        topology.put(Fact::Link(Arc::new(Link { down: true, ..link })));
    }
    jobs(&mut topology, &request.jobs, faults);
    topology
}

/// Takes jobs in, each as CreateJob would beside those before it.
fn jobs(topology: &mut Topology, jobs: &[proto::Job], faults: &mut InvalidFabric) {
    let mut names = BTreeSet::new();
    for (at, job) in jobs.iter().enumerate() {
        let field = format!("jobs[{at}]");
        let job = proto::Job {
            ttl: None,
            expire_time: None,
            ..job.clone()
        };
        let before = faults.faults.len();
        job.check(&field, faults);
        if !names.insert(job.name.clone()) {
            let reason = format!("a second job named {:?}", job.name);
            faults.fault(format_args!("{field}.name"), reason);
        }
        let fact = job.read(&field, faults);
        // What is none by itself is not looked for in the fabric.
        if faults.faults.len() > before {
            continue;
        }
        let change = match topology.fact(Kind::Job, &job.name) {
            Some(_) => Change::Update(fact),
            None => Change::Create(fact),
        };
        topology.check(&change, &field, faults);
        topology.apply(&change);
    }
}

fn answer(
    request: &proto::SimulatePlanRequest,
    topology: &Topology,
    simulation: &Simulation,
    adopted: &Pins,
) -> Result<proto::SimulatePlanResponse, Status> {
    let Prediction { plan, .. } = &simulation.prediction;
    let mut pins = Pins::default();
    for (name, paths) in &plan.pins {
        pins.put(name.clone(), Some(Arc::clone(paths)));
    }
    let jobs = topology.jobs().map(|it| job::row(it, plan, &pins, None));
    let mut octets = 0;
    let loads = simulation.prediction.loads.iter().take(LOADS_MAX).map(load);
    let loads = loads.take_while(|load| {
        octets += load.encoded_len();
        octets <= LOADS_OCTETS_MAX
    });
    let rates = simulation.prediction.rates.iter();
    Ok(proto::SimulatePlanResponse {
        header: None,
        job_plans: jobs.collect(),
        pin_certificate: plan.certificate.as_ref().map(job::certificate),
        pin_changes: Some(pin_changes(&pins, adopted)),
        weight_certificate: Some(weights(&simulation.weights)),
        link_loads: loads.collect(),
        link_load_count: count(simulation.prediction.loads.len()),
        flow_count: count(simulation.prediction.flows),
        stranded_flow_count: count(simulation.prediction.stranded),
        placement_rates: rates.map(|(method, rates)| rate(*method, *rates)).collect(),
        pins: match request.with_pins {
            true => pin_rows(topology, &pins)?,
            false => Vec::new(),
        },
    })
}

/// Every pin, as if each leaf had room for all queue pairs.
fn pin_rows(topology: &Topology, pins: &Pins) -> Result<Vec<proto::Pin>, Status> {
    let mut divided = Divided::new(topology, None);
    let (mut rows, mut octets) = (Vec::new(), 0);
    for (name, paths) in pins.iter() {
        let row = job::pin(name, paths, divided.of(name, paths));
        octets += row.encoded_len();
        // Who installs a part of a plan has none.
        if octets > ANSWER_OCTETS_MAX {
            return Err(refusal::answer_too_large());
        }
        rows.push(row);
    }
    Ok(rows)
}

fn pin_changes(pins: &Pins, adopted: &Pins) -> proto::PinChanges {
    let (mut moved, mut added) = (0, 0);
    for (name, paths) in pins.iter() {
        match adopted.get(name) {
            None => added += 1,
            Some(before) => moved += usize::from(!same_shares(before, paths)),
        }
    }
    let removed = adopted.iter().filter(|(name, _)| pins.get(name).is_none());
    proto::PinChanges {
        pin_count: count(pins.len()),
        moved_count: count(moved),
        added_count: count(added),
        removed_count: count(removed.count()),
    }
}

/// Whether a flow goes over the same spines in the same shares, in whatever parts they are counted.
fn same_shares(a: &[PinPath], b: &[PinPath]) -> bool {
    let sum = |paths: &[PinPath]| paths.iter().map(|it| u128::from(it.weight)).sum::<u128>();
    let (of_a, of_b) = (sum(a), sum(b));
    let same = |(a, b): (&PinPath, &PinPath)| {
        a.spine == b.spine && u128::from(a.weight) * of_b == u128::from(b.weight) * of_a
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn weights(of: &simulation::Weights) -> proto::WeightCertificate {
    let worst = of.overloaded.as_ref();
    proto::WeightCertificate {
        leaf_count: count(of.leaves),
        changed_leaf_count: count(of.changed),
        unreachable_pair_count: count(of.unreachable),
        max_overload_ppm: of.overload_ppm,
        max_overload_leaf_name: worst.map_or_else(String::new, ToString::to_string),
    }
}

fn load(of: &LinkLoad) -> proto::LinkLoad {
    proto::LinkLoad {
        link_name: of.link.to_string(),
        source_switch_name: of.from.to_string(),
        destination_switch_name: of.to.to_string(),
        load_bps: of.bps,
        share: of.share,
    }
}

fn rate(method: Method, rates: Rates) -> proto::PlacementRate {
    let method = match method {
        Method::Pins => proto::PlacementMethod::Pins,
        Method::Ecmp => proto::PlacementMethod::Ecmp,
        Method::EnhancedEcmp => proto::PlacementMethod::EnhancedEcmp,
        Method::CapacityWeights => proto::PlacementMethod::CapacityWeights,
        Method::LeastLoadedUplink => proto::PlacementMethod::LeastLoadedUplink,
        Method::Spray => proto::PlacementMethod::Spray,
    };
    proto::PlacementRate {
        placement_method: method.into(),
        slowest_flow_share: rates.slowest,
        mean_flow_share: rates.mean,
        draw_count: rates.draws,
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Simulations at a time, at each of the two ports: each takes a core, and as much memory as a plan.
pub(crate) const PLACES: usize = 1;
/// The largest fabric is planned in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Every switch there may be, and as many links as anybody fails at once.
const NAMES_MAX: usize = 10_000;
/// NICs of each are compared with those of all others.
const JOBS_MAX: usize = 100;
const LOADS_MAX: usize = 10_000;
/// Rows of loads; as many octets again are left for jobs and pins.
const LOADS_OCTETS_MAX: usize = 2 << 20;
/// What a client of gRPC takes.
const ANSWER_OCTETS_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests;
