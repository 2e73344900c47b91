//! Simulations as clients ask for them: of a small fabric with pins that are adopted, and of a lone replica over gRPC.

use std::collections::BTreeMap;
use std::time::Duration;

use tonic::Code;
use weft_proto::v1::job_service_client::JobServiceClient;
use weft_proto::v1::simulation_service_server::SimulationService;

use super::*;
use crate::balancer::{Balancer, Inputs};
use crate::consensus::tests::unheard;
use crate::fabric::pin::PinName;
use crate::fabric::topology::tests::with_nics;
use crate::operator::lone::{Lone, fields, reason};
use crate::speaker::peer::tests::shared_over;

/// A job of the NIC behind each of some ports of every leaf, in a ring from leaf to leaf.
fn ring(name: &str, leaves: u8, hosts: std::ops::RangeInclusive<u8>) -> proto::Job {
    let ranks = hosts.flat_map(|host| (1..=leaves).map(move |leaf| (leaf, host)));
    let nic = |(leaf, host): (u8, u8)| proto::Nic {
        host_port_name: format!("leaf{leaf}:nic{host}"),
        ..proto::Nic::default()
    };
    proto::Job {
        name: name.to_owned(),
        ranks: ranks.map(nic).collect(),
        groups: vec![proto::CollectiveGroup {
            name: "gradients".to_owned(),
            collective: proto::Collective::AllReduce.into(),
            octets: 1 << 30,
            queue_pairs: Some(4),
            ..proto::CollectiveGroup::default()
        }],
        ..proto::Job::default()
    }
}

/// Four leaves and so many spines with a plan in force, and jobs whose pins are adopted.
fn simulated(
    request: &proto::SimulatePlanRequest,
    base: &Base,
) -> Result<proto::SimulatePlanResponse, Status> {
    super::simulated(request, base, &|| true)
}

#[test]
fn a_simulation_ends_when_nobody_waits_for_it() {
    let base = base(2, &[]);
    let asked = std::cell::Cell::new(0);
    let request = proto::SimulatePlanRequest::default();
    // Each leaf asks, and each step.
    for gone_after in 0..6 {
        asked.set(0);
        let is_awaited = || asked.replace(asked.get() + 1) < gone_after;
        let refused = super::simulated(&request, &base, &is_awaited).unwrap_err();
        assert_eq!(refused.code(), Code::Cancelled);
        assert!(
            asked.get() <= gone_after + 3,
            "{gone_after}: {}",
            asked.get()
        );
    }
}

fn base(spines: u8, jobs: &[proto::Job]) -> Base {
    let mut topology = with_nics(4, spines, 4);
    let mut balancer = Balancer::default();
    let inputs = Inputs {
        topology: Arc::new(topology.clone()),
        ..Inputs::default()
    };
    balancer.handle(&inputs, Duration::ZERO).unwrap();
    for job in jobs {
        topology.put(Fact::declared(job).unwrap());
    }
    let plan = balancer.plan().clone();
    let made = simulation::simulate(Some(&plan), &topology, &Pins::default(), &|| true);
    let made = made.unwrap().unwrap();
    let mut pins = Pins::default();
    for (name, paths) in made.prediction.plan.pins {
        pins.put(name, Some(paths));
    }
    Base {
        topology,
        pins,
        plan,
        index: 7,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Adopted pins of flows with an end at a leaf, or at any, that go over a spine.
fn over(base: &Base, leaf: &str, spine: &str) -> u32 {
    let carried = base.pins.iter().filter(|(name, paths)| {
        let ends = [&name.source, &name.destination];
        let at = ends.iter().any(|port| port.as_str().starts_with(leaf));
        at && paths.iter().any(|path| path.spine.as_str() == spine)
    });
    count(carried.count())
}

fn changes(answer: &proto::SimulatePlanResponse) -> (u32, u32, u32, u32) {
    let it = answer.pin_changes.unwrap();
    (
        it.pin_count,
        it.moved_count,
        it.added_count,
        it.removed_count,
    )
}

fn rates(answer: &proto::SimulatePlanResponse) -> BTreeMap<&'static str, (f64, f64)> {
    let rates = answer.placement_rates.iter();
    let rates = rates.map(|it| {
        let name = it.placement_method().as_str_name();
        let name = name.trim_start_matches("PLACEMENT_METHOD_");
        (name, (it.slowest_flow_share, it.mean_flow_share))
    });
    rates.collect()
}

#[test]
fn what_is_there_is_planned_as_it_is() {
    let base = base(4, &[ring("train", 4, 1..=2)]);
    let answer = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    assert_eq!(changes(&answer), (8, 0, 0, 0));
    assert_eq!(answer.job_plans.len(), 1);
    assert_eq!(answer.job_plans[0].state(), proto::JobPlanState::Pinned);
    assert_eq!(answer.job_plans[0].pinned_flow_count, 8);
    let weights = answer.weight_certificate.clone().unwrap();
    assert_eq!((weights.leaf_count, weights.changed_leaf_count), (4, 0));
    assert_eq!(weights.unreachable_pair_count, 0);
    let again = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    assert_eq!(answer, again);
}

#[test]
fn links_carry_what_a_count_of_the_pins_says() {
    let base = base(4, &[ring("train", 4, 1..=3)]);
    let answer = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    // Every flow is as fast as its NIC, 100 Gb/s.
    let mut counted: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (name, paths) in base.pins.iter() {
        let sum: u32 = paths.iter().map(|path| path.weight).sum();
        let leaf = |port: &str| port.split_once(':').unwrap().0.to_owned();
        for path in paths.iter() {
            let share = f64::from(path.weight) / f64::from(sum);
            let spine = path.spine.to_string();
            let up = (leaf(name.source.as_str()), spine.clone());
            let down = (spine, leaf(name.destination.as_str()));
            *counted.entry(up).or_default() += share;
            *counted.entry(down).or_default() += share;
        }
    }
    let said = answer.link_loads.iter().map(|load| {
        assert_eq!(load.load_bps as f64, load.share * 100e9);
        let ends = (&load.source_switch_name, &load.destination_switch_name);
        ((ends.0.clone(), ends.1.clone()), load.share)
    });
    assert_eq!(said.collect::<BTreeMap<_, _>>(), counted);
    assert_eq!(answer.link_load_count as usize, answer.link_loads.len());
}

#[test]
fn a_spine_that_is_drained_moves_what_it_carried_and_no_more() {
    let base = base(4, &[ring("train", 4, 1..=2)]);
    let spine = base.pins.iter().next().unwrap().1[0].spine.to_string();
    let carried = over(&base, "", &spine);
    assert!(carried > 0);
    let request = proto::SimulatePlanRequest {
        drained_switch_names: vec![spine.clone()],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(changes(&answer), (8, carried, 0, 0));
    assert_eq!(answer.job_plans[0].state(), proto::JobPlanState::Pinned);
    assert_eq!(answer.pin_certificate.as_ref().unwrap().max_load, 1.0);
    let at = |load: &proto::LinkLoad| {
        [&load.source_switch_name, &load.destination_switch_name].contains(&&spine)
    };
    assert!(!answer.link_loads.iter().any(at));
    let weights = answer.weight_certificate.unwrap();
    assert_eq!((weights.leaf_count, weights.changed_leaf_count), (4, 4));
}

#[test]
fn a_link_that_fails_moves_what_its_leaf_had_on_it() {
    let base = base(4, &[ring("train", 4, 1..=2)]);
    let (link, spine) = ("leaf1:eth1--spine1:eth1", "spine1");
    let carried = over(&base, "leaf1:", spine);
    let request = proto::SimulatePlanRequest {
        failed_link_names: names(&[link]),
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(changes(&answer), (8, carried, 0, 0));
    assert!(answer.link_loads.iter().all(|load| load.link_name != link));
    // Nothing of it stays: the fabric is as it was.
    let answer = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    assert_eq!(changes(&answer), (8, 0, 0, 0));
}

#[test]
fn a_job_without_a_way_is_infeasible_and_its_leaf_is_named() {
    let base = base(2, &[ring("train", 4, 1..=1)]);
    let links = ["leaf1:eth1--spine1:eth1", "leaf1:eth2--spine2:eth1"];
    let request = proto::SimulatePlanRequest {
        failed_link_names: names(&links),
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    let plan = &answer.job_plans[0];
    let why =
        "leaf1 has no link that carries traffic: 2 of 4 flows have no way, the others are pinned";
    assert_eq!(
        (plan.state(), plan.reason.as_str()),
        (proto::JobPlanState::Infeasible, why)
    );
    // What leaf 1 sends, and what it takes.
    assert_eq!((answer.flow_count, answer.stranded_flow_count), (4, 2));
    assert_eq!(changes(&answer), (2, 0, 0, 2));
    let weights = answer.weight_certificate.unwrap();
    assert_eq!(weights.unreachable_pair_count, 6);
    // One spine leads nowhere for each.
    let request = proto::SimulatePlanRequest {
        failed_link_names: names(&[links[0], "leaf2:eth2--spine2:eth2"]),
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    let why = "no spine leads from leaf1 to leaf2: 1 of 4 flows has no way, the others are pinned";
    assert_eq!(answer.job_plans[0].reason, why);
}

#[test]
fn jobs_that_need_more_than_there_is_say_which_leaf_is_full() {
    let base = base(2, &[ring("train", 4, 1..=2)]);
    let request = proto::SimulatePlanRequest {
        jobs: vec![ring("more", 4, 3..=4)],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    let certificate = answer.pin_certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (2.0, 2.0));
    assert_eq!(certificate.bound_leaf_names.len(), 1);
    assert_eq!(changes(&answer), (16, 0, 8, 0));
    let rates = rates(&answer);
    for method in ["PINS", "SPRAY"] {
        let (slowest, mean) = rates[method];
        assert!(
            (slowest - 0.5).abs() < 0.01 && (mean - 0.5).abs() < 0.01,
            "{method}"
        );
    }
    // Without the first job the second has all it needs.
    let request = proto::SimulatePlanRequest {
        excluded_job_names: names(&["train"]),
        ..request
    };
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(answer.pin_certificate.as_ref().unwrap().max_load, 1.0);
    assert_eq!(changes(&answer), (8, 0, 8, 8));
}

#[test]
fn pins_at_full_load_beat_every_hash_and_local_choice() {
    let base = base(4, &[ring("train", 4, 1..=4)]);
    let answer = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    let rates = rates(&answer);
    assert_eq!(rates.len(), 6);
    assert_eq!(rates["PINS"], (1.0, 1.0));
    assert!(rates["SPRAY"].0 > 0.99, "{rates:?}");
    for hashed in ["ECMP", "ENHANCED_ECMP", "CAPACITY_WEIGHTS"] {
        assert!(rates[hashed].0 < 0.9, "{rates:?}");
    }
    assert!(rates["ECMP"].0 <= rates["ENHANCED_ECMP"].0, "{rates:?}");
    assert!(
        rates
            .values()
            .all(|(slowest, mean)| slowest <= mean && *mean <= 1.0)
    );
}

#[test]
fn without_pins_that_are_kept_all_are_planned_anew() {
    let mut base = base(4, &[ring("train", 4, 1..=2)]);
    // All of them on one spine: what somebody adopted long ago.
    let all: Vec<_> = base.pins.iter().map(|(name, _)| name.clone()).collect();
    for name in all {
        let spine = "spine1".into();
        let path = PinPath { spine, weight: 16 };
        base.pins.put(name, Some(Arc::from([path])));
    }
    let request = proto::SimulatePlanRequest {
        replan_pins: true,
        ..proto::SimulatePlanRequest::default()
    };
    let anew = simulated(&request, &base).unwrap();
    let kept = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    // Four leaves have two flows each: one of them stays on spine 1.
    assert!(changes(&kept).1 <= changes(&anew).1);
    assert_eq!(kept.pin_certificate.as_ref().unwrap().max_load, 1.0);
    // Parts that are counted in another unit are the same.
    let path = |weight| PinPath {
        spine: "spine1".into(),
        weight,
    };
    assert!(same_shares(&[path(16)], &[path(32)]));
}

#[test]
fn every_name_that_is_not_there_is_named() {
    let base = base(2, &[ring("train", 4, 1..=1)]);
    let request = proto::SimulatePlanRequest {
        drained_switch_names: names(&["spine1", "spine9"]),
        failed_link_names: names(&["x"]),
        excluded_job_names: names(&["other"]),
        jobs: vec![
            ring("again", 4, 1..=1),
            ring("wide", 5, 2..=2),
            ring("wide", 4, 3..=3),
            proto::Job::default(),
        ],
        ..proto::SimulatePlanRequest::default()
    };
    let refused = simulated(&request, &base).unwrap_err();
    let expected = [
        "excluded_job_names[0]",
        "drained_switch_names[1]",
        "failed_link_names[0]",
        "jobs[0].ranks[0]",
        "jobs[1].ranks[4]",
        "jobs[2].name",
        "jobs[3].name",
    ];
    assert_eq!(fields(&refused), expected);
    assert!(
        refused
            .message()
            .starts_with("excluded_job_names[0]: no job is named \"other\"")
    );
    let many = proto::SimulatePlanRequest {
        jobs: vec![proto::Job::default(); JOBS_MAX + 1],
        drained_switch_names: vec![String::new(); NAMES_MAX + 1],
        ..proto::SimulatePlanRequest::default()
    };
    let refused = simulated(&many, &base).unwrap_err();
    assert_eq!(fields(&refused), ["drained_switch_names", "jobs"]);
}

#[test]
fn a_job_takes_the_place_of_the_one_of_its_name() {
    let base = base(4, &[ring("train", 4, 1..=1)]);
    let request = proto::SimulatePlanRequest {
        jobs: vec![ring("train", 4, 1..=3)],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(answer.job_plans.len(), 1);
    assert_eq!(answer.flow_count, 12);
}

#[test]
fn placements_of_a_job_are_compared_each_in_its_place() {
    let declared = ring("train", 4, 1..=2);
    let base = base(4, std::slice::from_ref(&declared));
    // As a file has it that was printed from the declared one, with the ranks of a leaf one after the other.
    let mut placed = declared.clone();
    placed.etag = "of another time".to_owned();
    let port = |rank: &proto::Nic| rank.host_port_name.clone();
    placed.ranks.sort_by_key(port);
    let ask = |job| {
        let request = proto::SimulatePlanRequest {
            jobs: vec![job],
            with_pins: true,
            ..proto::SimulatePlanRequest::default()
        };
        simulated(&request, &base).unwrap()
    };
    let (before, after) = (ask(declared), ask(placed));
    assert_eq!((before.flow_count, after.flow_count), (8, 4));
    assert_eq!((before.pins.len(), after.pins.len()), (8, 4));
    assert_eq!((before.job_plans.len(), after.job_plans.len()), (1, 1));
    assert_eq!(after.job_plans[0].state(), proto::JobPlanState::Pinned);
    assert_eq!(changes(&before), (8, 0, 0, 0));
    let (pins, _, added, removed) = changes(&after);
    assert_eq!((pins, 8 + added - removed), (4, 4));
}

#[test]
fn pins_are_answered_where_they_are_asked_for() {
    let base = base(4, &[ring("train", 4, 1..=2)]);
    let mut request = proto::SimulatePlanRequest::default();
    assert_eq!(simulated(&request, &base).unwrap().pins, []);
    request.with_pins = true;
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(changes(&answer).0 as usize, answer.pins.len());
    let adopted = base.pins.iter();
    let adopted = adopted.map(|(name, paths)| job::pin(name, paths, Vec::new()));
    assert_eq!(answer.pins, adopted.collect::<Vec<_>>());
    let spine = answer.pins[0].paths[0].spine_name.clone();
    request.drained_switch_names = vec![spine.clone()];
    let answer = simulated(&request, &base).unwrap();
    let mut paths = answer.pins.iter().flat_map(|pin| &pin.paths);
    assert!(answer.pins.len() == 8 && paths.all(|path| path.spine_name != spine));
}

#[test]
fn queue_pairs_that_divide_a_pin_stand_beside_it() {
    // One NIC sends more than an uplink carries.
    let base = base(2, &[]);
    let mut fabric = own(2, 2);
    let ports = fabric.host_ports.iter_mut();
    ports.for_each(|port| port.capacity_bps = Some(200_000_000_000));
    let seen = |at: u32| proto::QueuePair {
        udp_source_port: Some(50_000 + at),
        ..proto::QueuePair::default()
    };
    let mut job = ring("mine", 2, 1..=1);
    job.flows = flows(&job, 0);
    job.flows.truncate(1);
    job.flows[0].pairs = (0..4).map(seen).collect();
    job.groups.clear();
    let request = proto::SimulatePlanRequest {
        fabric: Some(fabric),
        jobs: vec![job],
        with_pins: true,
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    let [pin] = answer.pins.as_slice() else {
        panic!("{:?}", answer.pins);
    };
    assert_eq!(pin.paths.len(), 2);
    let ports = pin.ports.iter().map(|it| it.udp_source_port);
    assert_eq!(ports.collect::<Vec<_>>(), [50_000, 50_001, 50_002, 50_003]);
}

#[test]
fn pins_that_fit_into_no_answer_are_refused_all_together() {
    let mut pins = Pins::default();
    let port = |of: &str, at: usize| format!("{of}{at:0100}");
    for at in 0..ANSWER_OCTETS_MAX / 200 {
        let name = PinName {
            job: "train".into(),
            source: port("from", at).as_str().into(),
            destination: port("to", at).as_str().into(),
        };
        let spine = "spine1".into();
        pins.put(name, Some(Arc::from([PinPath { spine, weight: 1 }])));
    }
    let refused = pin_rows(&Topology::default(), &pins).unwrap_err();
    let expected = (Code::ResourceExhausted, "TOO_LARGE".to_owned());
    assert_eq!(reason(&refused), expected);
}

/// What the NICs of a job send around a ring of its ranks, each flow with so many queue pairs.
fn flows(job: &proto::Job, pairs: usize) -> Vec<proto::JobFlow> {
    let next = job.ranks.iter().cycle().skip(1);
    let flows = job.ranks.iter().zip(next);
    let flows = flows.map(|(from, to)| proto::JobFlow {
        source: Some(from.clone()),
        destination: Some(to.clone()),
        octets: 1 << 30,
        pairs: vec![proto::QueuePair::default(); pairs],
        ..proto::JobFlow::default()
    });
    flows.collect()
}

#[test]
fn queue_pairs_that_a_flow_names_are_hashed_one_by_one() {
    let mut job = ring("train", 4, 1..=4);
    job.flows = flows(&job, 32);
    job.groups.clear();
    let base = base(4, &[job]);
    let answer = simulated(&proto::SimulatePlanRequest::default(), &base).unwrap();
    assert_eq!(answer.flow_count, 16);
    let rates = rates(&answer);
    let (whole, divided) = (rates["ECMP"].0, rates["ENHANCED_ECMP"].0);
    assert!(divided > whole + 0.2, "{rates:?}");
}

#[test]
fn weights_by_capacity_send_less_over_what_carries_less() {
    let mut fabric = own(2, 2);
    let at =
        |end: &Option<proto::LinkEnd>| end.as_ref().is_some_and(|end| end.switch_name == "spine2");
    let thin = fabric.links.iter_mut();
    let thin = thin.filter(|link| at(&link.a) || at(&link.b));
    thin.for_each(|link| link.capacity_bps = 25_000_000_000);
    let mut job = ring("mine", 2, 1..=1);
    job.groups[0].queue_pairs = Some(128);
    let request = proto::SimulatePlanRequest {
        fabric: Some(fabric),
        jobs: vec![job],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base(2, &[])).unwrap();
    let rates = rates(&answer);
    let (equal, weighted) = (rates["ENHANCED_ECMP"].0, rates["CAPACITY_WEIGHTS"].0);
    assert!(weighted > equal + 0.2, "{rates:?}");
}

/// A fabric of a client's own.
fn own(leaves: u8, spines: u8) -> proto::Fabric {
    let declaration = with_nics(leaves, spines, 4).declaration();
    proto::Fabric {
        display_name: declaration.display_name,
        switches: declaration.switches,
        hosts: declaration.hosts,
        links: declaration.links,
        host_ports: declaration.host_ports,
    }
}

#[test]
fn a_fabric_of_ones_own_has_neither_jobs_nor_pins_of_the_declared_one() {
    let base = base(4, &[ring("train", 4, 1..=4)]);
    let mut request = proto::SimulatePlanRequest {
        fabric: Some(own(2, 3)),
        jobs: vec![ring("mine", 2, 1..=3)],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = simulated(&request, &base).unwrap();
    assert_eq!(changes(&answer), (6, 0, 6, 0));
    assert_eq!(answer.job_plans[0].job_name, "mine");
    let weights = answer.weight_certificate.clone().unwrap();
    assert_eq!((weights.leaf_count, weights.changed_leaf_count), (2, 0));
    request.excluded_job_names = names(&["train"]);
    let refused = simulated(&request, &base).unwrap_err();
    assert_eq!(fields(&refused), ["excluded_job_names[0]"]);
    request.fabric.as_mut().unwrap().links[0].capacity_bps = 0;
    let refused = simulated(&request, &base).unwrap_err();
    assert_eq!(fields(&refused), ["fabric.links[0].capacity_bps"]);
    // Nothing is there, and nothing is planned.
    let nothing = Base {
        topology: Topology::default(),
        pins: Pins::default(),
        plan: Plan::default(),
        index: 0,
    };
    let answer = simulated(&proto::SimulatePlanRequest::default(), &nothing).unwrap();
    assert_eq!(answer.flow_count, 0);
    assert!(answer.placement_rates.is_empty() && answer.pin_certificate.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written() {
    let mut lone = Lone::start().await;
    let fabric = with_nics(4, 4, 4).declaration();
    lone.apply(&fabric, |_| ()).await.unwrap();
    let mut jobs = JobServiceClient::new(lone.channel.clone());
    let created = proto::CreateJobRequest {
        resource: Some(ring("train", 4, 1..=1)),
        ..proto::CreateJobRequest::default()
    };
    jobs.create_job(created).await.unwrap();
    let before = lone.consensus.read_index().await;
    let mut client = SimulationServiceClient::new(lone.channel.clone());
    let request = proto::SimulatePlanRequest {
        drained_switch_names: names(&["spine1"]),
        failed_link_names: names(&["leaf1:eth2--spine2:eth1"]),
        jobs: vec![ring("more", 4, 2..=2)],
        ..proto::SimulatePlanRequest::default()
    };
    let answer = client.simulate_plan(request.clone()).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.job_plans.len(), 2);
    assert_eq!(answer.header.unwrap().replica_id, 1);
    let refused = proto::SimulatePlanRequest {
        failed_link_names: names(&["x"]),
        ..request
    };
    let refused = client.simulate_plan(refused).await.unwrap_err();
    let expected = (Code::InvalidArgument, "INVALID_FIELDS".to_owned());
    assert_eq!(reason(&refused), expected);
    assert_eq!(lone.consensus.read_index().await, before);
    let list = jobs.list_jobs(proto::ListJobsRequest::default()).await;
    assert_eq!(list.unwrap().into_inner().jobs.len(), 1);
    lone.stop().await;
}

#[tokio::test]
async fn who_simulates_already_or_is_no_leader_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (consensus, _proposed) = unheard(&dir);
    let shared = Arc::new(shared_over(consensus));
    let ask = || Request::new(proto::SimulatePlanRequest::default());
    let service = Service::new(Arc::clone(&shared), Led::new(), Arc::default());
    let _place = service.places.try_acquire().unwrap();
    let refused = service.simulate_plan(ask()).await.unwrap_err();
    let expected = (Code::ResourceExhausted, "TOO_MANY_SIMULATIONS".to_owned());
    assert_eq!(reason(&refused), expected);
    // Another replica took it for the leader.
    let service = Service::at_leader(shared, Led::new());
    let refused = service.simulate_plan(ask()).await.unwrap_err();
    let expected = (Code::Unavailable, "NO_LEADER".to_owned());
    assert_eq!(reason(&refused), expected);
}
