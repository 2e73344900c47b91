//! Plans of pins for small fabrics, as the daemon makes them: one after the other, each from the pins that were adopted before.

use std::collections::BTreeSet;
use std::time::Duration;

use weft_proto::v1;

use super::*;
use crate::balancer::{self, Balancer};
use crate::fabric::fact::{Fact, Kind, PortName};
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::topology::tests::with_nics;

pub(crate) mod pods;
mod returned;

/// A job of one NIC behind each of so many ports of every leaf, leaf by leaf in turn.
pub(crate) fn ring(name: &str, leaves: u8, hosts: std::ops::RangeInclusive<u8>) -> v1::Job {
    let ranks = hosts.flat_map(|host| (1..=leaves).map(move |leaf| (leaf, host)));
    let nic = |(leaf, host): (u8, u8)| v1::Nic {
        host_port_name: format!("leaf{leaf}:nic{host}"),
        ..v1::Nic::default()
    };
    v1::Job {
        name: name.to_owned(),
        ranks: ranks.map(nic).collect(),
        groups: vec![v1::CollectiveGroup {
            name: "gradients".to_owned(),
            collective: v1::Collective::AllReduce.into(),
            octets: 1 << 30,
            ..v1::CollectiveGroup::default()
        }],
        ..v1::Job::default()
    }
}

/// A fabric with jobs, and what is planned for it.
pub(crate) struct Bench {
    pub(crate) topology: Topology,
    /// As weights were planned for it last.
    network: Arc<Topology>,
    pub(crate) balancer: Balancer,
    planner: Planner,
    pub(crate) pins: Pins,
    pub(crate) measured: Measured,
    pub(crate) unpinned: Arc<BTreeMap<SwitchName, Unpinned>>,
    pub(crate) foreign: BTreeSet<SwitchName>,
}

impl Bench {
    pub(crate) fn new(topology: Topology, jobs: &[v1::Job]) -> Self {
        let mut bench = Self {
            network: Arc::new(topology.clone()),
            topology,
            balancer: Balancer::default(),
            planner: Planner::default(),
            pins: Pins::default(),
            measured: Measured::default(),
            unpinned: Arc::default(),
            foreign: BTreeSet::new(),
        };
        jobs.iter().for_each(|job| bench.put(job));
        bench
    }

    fn put(&mut self, job: &v1::Job) {
        self.topology.put(Fact::declared(job).unwrap());
    }

    fn plan(&mut self) -> Option<Arc<PinPlan>> {
        // As the daemon does: jobs change no weight.
        if !self.network.is_same_network(&self.topology) {
            self.network = Arc::new(self.topology.clone());
        }
        let inputs = balancer::Inputs {
            topology: Arc::clone(&self.network),
            measured: self.measured.clone(),
            foreign: self.foreign.clone(),
            ..balancer::Inputs::default()
        };
        self.balancer.handle(&inputs, Duration::ZERO).unwrap();
        let inputs = Inputs {
            topology: self.topology.clone(),
            pins: self.pins.clone(),
            unpinned: Arc::clone(&self.unpinned),
        };
        self.planner.handle(self.balancer.plan(), &inputs)
    }

    /// Plans, and takes the plan as it is; the pins that are others than before.
    pub(crate) fn adopt(&mut self) -> (Arc<PinPlan>, Vec<PinName>) {
        let plan = self.plan().unwrap();
        let moved = plan
            .pins
            .iter()
            .filter(|(name, paths)| self.pins.get(name) != Some(paths));
        let moved: Vec<_> = moved.map(|(name, _)| name.clone()).collect();
        let names: Vec<_> = self.pins.iter().map(|(name, _)| name.clone()).collect();
        names.into_iter().for_each(|name| self.pins.put(name, None));
        for (name, paths) in &plan.pins {
            self.pins.put(name.clone(), Some(Arc::clone(paths)));
        }
        self.pins.set_revision(plan.adopted + 1);
        (plan, moved)
    }
}

pub(crate) fn state(plan: &PinPlan, job: &str) -> State {
    plan.jobs[&JobName::from(job)].state.clone()
}

#[test]
fn a_ring_at_full_rate_loads_every_uplink_once() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert_eq!(plan.jobs[&JobName::from("train")].flows, 16);
    let whole = |paths: &Arc<[PinPath]>| paths.len() == 1 && paths[0].weight == 16;
    assert!(plan.pins.len() == 16 && plan.pins.values().all(whole));
    let certificate = plan.certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (1.0, 1.0));
    assert_eq!((certificate.tight.len(), certificate.tight_count), (16, 16));
    assert_eq!(certificate.leaves.len(), 1);
}

/// A leaf whose agent never answered gets weights alone, over ways that a spine announces: here none does.
#[test]
fn an_agent_that_never_answered_costs_no_leaf_its_pins() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
    bench.foreign = ["leaf1".into()].into();
    bench.unpinned = Arc::new([("leaf1".into(), Unpinned::Foreign)].into());
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert_eq!(plan.certificate.as_ref().unwrap().max_load, 1.0);
}

#[test]
fn a_placement_that_fails_the_check_changes_no_pin() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
    let (plan, _) = bench.adopt();
    let solved = bench.balancer.plan().solved.clone().unwrap();
    let inputs = Inputs {
        topology: bench.topology.clone(),
        pins: bench.pins.clone(),
        unpinned: Arc::default(),
    };
    let mut made = PinPlan {
        jobs: plan.jobs.clone(),
        ..PinPlan::default()
    };
    let sent = plan.sent["train"].as_ref().unwrap();
    let job = JobName::from("train");
    let pinned = [(&job, sent.over.iter().collect())].into();
    let plane = Plane::new(solved.planes().problem());
    let posed = pose(&solved, &inputs, &plane, (&pinned, &BTreeSet::new()));
    let full = Level {
        subflows: 1,
        capacity: posed.unit_bps,
    };
    let mut wrong = posed.place(&plane, &[], full).unwrap();
    // A flow is left out.
    wrong.parts.pop();
    assert!(!posed.take(&solved, &plane, &wrong, &mut made));
    keep(&bench.pins, &pinned, &mut made);
    assert_eq!(made.pins, plan.pins);
    assert!(matches!(state(&made, "train"), State::Infeasible(why) if why.contains("stay")));
}

#[test]
fn what_is_adopted_stays_and_a_dead_link_moves_what_it_carried() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=3)]);
    bench.adopt();
    let (_, moved) = bench.adopt();
    assert_eq!(moved, []);
    // The count of adopted pins alone is another one.
    assert!(bench.plan().is_some() && bench.plan().is_none());

    bench.topology.set_down("leaf1:eth1--spine1:eth1", true);
    let over = |bench: &Bench| {
        let over = bench.pins.iter().filter(|(name, paths)| {
            let ends = [&name.source, &name.destination];
            let at = ends.iter().any(|port| port.as_str().starts_with("leaf1:"));
            at && paths.iter().any(|path| path.spine.as_str() == "spine1")
        });
        over.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let carried = over(&bench);
    assert!((1..=2).contains(&carried.len()), "{carried:?}");
    let (plan, moved) = bench.adopt();
    assert_eq!(moved, carried);
    assert_eq!(over(&bench), []);
    assert_eq!(state(&plan, "train"), State::Placed);
    // A leader that never planned before plans the same.
    let mut another = Bench::new(bench.topology.clone(), &[]);
    another.pins = bench.pins.clone();
    let (_, moved) = another.adopt();
    assert_eq!(moved, []);
}

/// Spines by leaf and NIC.
type WaysToNics = BTreeMap<(String, PortName), BTreeSet<Vec<String>>>;

/// The ways from each leaf to each NIC of an all-to-all, and how many of its flows go together.
fn ways_to_nics(bench: &mut Bench) -> (WaysToNics, usize) {
    let (plan, _) = bench.adopt();
    let own = &plan.jobs[&JobName::from("train")];
    let counted = (own.flows, own.unaddressed);
    assert_eq!((state(&plan, "train"), counted), (State::Placed, (48, 0)));
    let mut ways: BTreeMap<_, BTreeSet<Vec<String>>> = BTreeMap::new();
    for (name, paths) in &plan.pins {
        let (leaf, _) = name.source.as_str().split_once(':').unwrap();
        let spines = paths.iter().map(|path| path.spine.to_string()).collect();
        ways.entry((leaf.to_owned(), name.destination.clone()))
            .or_default()
            .insert(spines);
    }
    assert_eq!(ways.len(), 24);
    let bundled = own.bundled;
    // Nothing moves when they are planned from again.
    let (_, moved) = bench.adopt();
    assert_eq!(moved, []);
    (ways, bundled)
}

/// An all-to-all of 8 NICs, two at each of four leaves: each sends to 6 at other leaves.
#[test]
fn what_a_leaf_sends_to_one_nic_goes_together_where_it_has_no_room_to_tell_it_apart() {
    let mut job = ring("train", 4, 1..=2);
    job.groups[0].collective = v1::Collective::AllToAll.into();
    let mut bench = Bench::new(with_nics(4, 4, 2), &[job]);
    let (apart, bundled) = ways_to_nics(&mut bench);
    let differ = apart.values().filter(|ways| ways.len() > 1).count();
    assert!(differ > 0, "{apart:?}");
    // Two of a leaf that go the same way to one NIC are one flow there.
    assert_eq!(bundled, 2 * (24 - differ));

    let mut bench = Bench::new(bench.topology.clone(), &[]);
    for leaf in 1..=4 {
        let name = SwitchName::from(format!("leaf{leaf}").as_str());
        let mut leaf = bench.topology.switch(&name).unwrap().clone();
        leaf.limits.pins = Some(6);
        bench.topology.put(Fact::Switch(Arc::new(leaf)));
    }
    let (together, bundled) = ways_to_nics(&mut bench);
    assert!(
        together.values().all(|ways| ways.len() == 1),
        "{together:?}"
    );
    assert_eq!(bundled, 48);
}

/// To 33 others a NIC sends less than half a sub-flow each, and to 32 half of one.
#[test]
fn what_is_less_than_half_a_sub_flow_goes_together() {
    let bundled = |leaves: u8| {
        let mut job = ring("train", leaves, 1..=2);
        job.groups[0].collective = v1::Collective::AllToAll.into();
        let mut bench = Bench::new(with_nics(leaves, 4, 2), &[job]);
        let (plan, _) = bench.adopt();
        let mut ways: BTreeMap<(&str, &PortName), BTreeSet<Vec<&str>>> = BTreeMap::new();
        for (name, paths) in &plan.pins {
            let (leaf, _) = name.source.as_str().split_once(':').unwrap();
            let spines = paths.iter().map(|path| path.spine.as_str()).collect();
            let ways = ways.entry((leaf, &name.destination)).or_default();
            ways.insert(spines);
        }
        ways.values().all(|ways| ways.len() == 1)
    };
    assert!(!bundled(16));
    assert!(bundled(18));
}

#[test]
fn another_job_moves_nothing_that_fits() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("first", 4, 1..=2)]);
    bench.adopt();
    bench.put(&ring("second", 4, 3..=3));
    let (plan, moved) = bench.adopt();
    assert!(moved.iter().all(|name| name.job.as_str() == "second"));
    assert_eq!(plan.certificate.as_ref().unwrap().max_load, 1.0);
    bench.topology.remove(Kind::Job, "first");
    let (plan, moved) = bench.adopt();
    assert_eq!((plan.pins.len(), moved), (4, Vec::new()));
}

#[test]
fn jobs_that_cannot_be_pinned_say_why_and_stand_in_nobodys_way() {
    let mut silent = ring("silent", 4, 4..=4);
    silent.groups.clear();
    let mut below = ring("below", 1, 3..=3);
    below.ranks.push(v1::Nic {
        host_port_name: "leaf1:tenant3".to_owned(),
        ..v1::Nic::default()
    });
    let jobs = [ring("cut", 2, 1..=1), silent, below, ring("lost", 4, 2..=2)];
    let mut bench = Bench::new(with_nics(4, 2, 4), &jobs);
    let mut right = ring("right", 4, 3..=3);
    right.ranks.remove(0);
    right.ranks.remove(0);
    bench.put(&right);
    bench.topology.remove(Kind::HostPort, "leaf3:nic2");
    for link in ["leaf1:eth1--spine1:eth1", "leaf2:eth2--spine2:eth2"] {
        bench.topology.set_down(link, true);
    }
    let (plan, _) = bench.adopt();
    assert_eq!(state(&plan, "silent"), State::NoFlows);
    assert_eq!(state(&plan, "below"), State::NoFlows);
    let why = "ranks[2]: no host port is named \"leaf3:nic2\"";
    assert_eq!(state(&plan, "lost"), State::Unresolved(why.to_owned()));
    let why = "no spine leads from leaf1 to leaf2; no spine leads from leaf2 to leaf1";
    assert_eq!(state(&plan, "cut"), State::Infeasible(why.to_owned()));
    assert_eq!(state(&plan, "right"), State::Placed);
    assert_eq!(plan.pins.len(), 2);
}

#[test]
fn every_leaf_that_is_cut_off_is_named() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
    for (leaf, spine) in (1..=2).flat_map(|leaf| (1..=4).map(move |spine| (leaf, spine))) {
        let link = format!("leaf{leaf}:eth{spine}--spine{spine}:eth{leaf}");
        bench.topology.set_down(link.as_str(), true);
    }
    let (plan, _) = bench.adopt();
    let State::Infeasible(why) = state(&plan, "train") else {
        panic!("flows have no way");
    };
    let leaves = "leaf1 has no link that carries traffic; leaf2 has no link that carries traffic";
    assert!(
        why.starts_with(&format!("{leaves}: 12 of 16 flows")),
        "{why}"
    );
}

#[test]
fn flows_without_a_way_cost_the_others_of_their_job_no_pin() {
    let mut bench = Bench::new(with_nics(4, 4, 4), &[ring("train", 4, 1..=4)]);
    let (before, _) = bench.adopt();
    for spine in 1..=4 {
        let link = format!("leaf1:eth{spine}--spine{spine}:eth1");
        bench.topology.set_down(link.as_str(), true);
    }
    let (plan, moved) = bench.adopt();
    let why =
        "leaf1 has no link that carries traffic: 8 of 16 flows have no way, the others are pinned";
    assert_eq!(state(&plan, "train"), State::Infeasible(why.to_owned()));
    assert_eq!(moved, []);
    assert_eq!((plan.pins.len(), plan.jobs["train"].flows), (8, 16));
    assert!(
        plan.pins
            .iter()
            .all(|(name, paths)| before.pins[name] == *paths)
    );
    // It comes back.
    for spine in 1..=4 {
        let link = format!("leaf1:eth{spine}--spine{spine}:eth1");
        bench.topology.set_down(link.as_str(), false);
    }
    let (plan, moved) = bench.adopt();
    assert_eq!(state(&plan, "train"), State::Placed);
    assert_eq!(moved.len(), 8, "those that had no way, and no others");
}

#[test]
fn a_job_too_large_to_pin_whose_ranks_nobody_knows_is_unresolved() {
    let nic = |at: u16| v1::Nic {
        address: format!("203.0.{}.{}", at / 200, at % 200),
        vni: Some(100),
        ..v1::Nic::default()
    };
    let mut wide = ring("wide", 1, 1..=1);
    wide.ranks = (0..800).map(nic).collect();
    wide.groups[0].collective = v1::Collective::AllToAll.into();
    let (plan, _) = Bench::new(with_nics(2, 2, 1), &[wide]).adopt();
    let why = "no host port and no type 2 route of VNI 100 has the address 203.0.0.0";
    assert_eq!(state(&plan, "wide"), State::Unresolved(why.to_owned()));
    let job = &plan.jobs[&JobName::from("wide")];
    assert_eq!((job.flows, job.weighted), (0, None));
}

#[test]
fn what_has_too_many_flows_is_left_to_weights() {
    let mut all = ring("all", 4, 1..=4);
    all.groups[0].collective = v1::Collective::AllToAll.into();
    let mut bench = Bench::new(with_nics(4, 4, 4), &[all]);
    // Each NIC sends to the NICs of all others, which are at three other leaves.
    let (plan, _) = bench.adopt();
    assert_eq!(
        (state(&plan, "all"), plan.pins.len()),
        (State::Placed, 16 * 12)
    );

    let mut wide = ring("wide", 200, 1..=12);
    wide.groups[0].collective = v1::Collective::AllToAll.into();
    let mut bench = Bench::new(with_nics(200, 2, 12), &[wide, ring("ring", 200, 1..=1)]);
    bench.topology.remove(Kind::Job, "ring");
    let (plan, _) = bench.adopt();
    let why = "it may have 5757600 flows, at most 524288 are pinned";
    assert_eq!(state(&plan, "wide"), State::Weighted(why.to_owned()));
    let cause = plan.jobs[&JobName::from("wide")].weighted;
    assert_eq!(cause, Some(Weighted::Wide));

    // Eleven jobs of a NIC at each leaf, which sends to 199 others.
    let some = (1..=11).map(|host| {
        let mut job = ring(&format!("job{host:02}"), 200, host..=host);
        job.groups[0].collective = v1::Collective::AllToAll.into();
        job
    });
    let jobs: Vec<_> = some.chain([ring("ring", 200, 12..=12)]).collect();
    let mut bench = Bench::new(with_nics(200, 2, 12), &jobs);
    let (plan, _) = bench.adopt();
    let why = "leaf1 would have 2190 pins, at most 2048";
    assert_eq!(state(&plan, "job11"), State::Weighted(why.to_owned()));
    assert_eq!(state(&plan, "job10"), State::Placed);
    assert_eq!(state(&plan, "ring"), State::Placed);
}

#[test]
fn sets_that_do_not_overlap_count_with_the_larger_one() {
    let two = |overlap: &str| {
        let mut job = ring("train", 2, 1..=1);
        let mut second = job.groups[0].clone();
        second.name = "parameters".to_owned();
        second.overlap_set = overlap.to_owned();
        // As much again the other way around.
        second.ranks = vec![1, 0];
        job.groups[0].ranks = vec![0, 1];
        job.groups.push(second);
        let mut bench = Bench::new(with_nics(2, 2, 1), &[job]);
        let (plan, _) = bench.adopt();
        let weights = plan
            .pins
            .values()
            .flat_map(|paths| paths.iter().map(|path| path.weight));
        weights.sum::<u32>()
    };
    // Each NIC sends at its rate to the other one in both cases.
    assert_eq!((two(""), two("later")), (32, 32));
}

#[test]
fn a_nic_that_is_slower_sends_less() {
    let topology = with_nics(2, 2, 2);
    let port = |name: &str, bps: u64| {
        let Some(Fact::HostPort(port)) = topology.fact(Kind::HostPort, name) else {
            panic!("no port {name}");
        };
        let capacity_bps = Some(bps);
        let port = crate::fabric::fact::HostPort {
            capacity_bps,
            ..(*port).clone()
        };
        Fact::HostPort(Arc::new(port))
    };
    let mut slow = topology.clone();
    slow.put(port("leaf1:nic2", 50_000_000_000));
    slow.put(port("leaf2:nic2", 50_000_000_000));
    let jobs = [ring("fast", 2, 1..=1), ring("slow", 2, 2..=2)];
    let mut bench = Bench::new(slow, &jobs);
    let (plan, _) = bench.adopt();
    let weights = |job: &str| {
        let own = plan
            .pins
            .iter()
            .filter(|(name, _)| name.job.as_str() == job);
        own.flat_map(|(_, paths)| paths.iter().map(|path| path.weight))
            .max()
    };
    assert_eq!((weights("fast"), weights("slow")), (Some(32), Some(16)));
    // Divided they would load each link by three quarters, and be no faster.
    let certificate = plan.certificate.as_ref().unwrap();
    assert_eq!((certificate.max_load, certificate.lower_bound), (1.0, 0.75));
}

/// The rate of the ports of a job.
fn with_rate(topology: &mut Topology, ports: &[&str], bps: u64) {
    for name in ports {
        let Some(Fact::HostPort(port)) = topology.fact(Kind::HostPort, name) else {
            panic!("no port {name}");
        };
        let port = crate::fabric::fact::HostPort {
            capacity_bps: Some(bps),
            ..(*port).clone()
        };
        topology.put(Fact::HostPort(Arc::new(port)));
    }
}

#[test]
fn no_rate_that_is_declared_ends_the_planner() {
    for bps in [1, u64::MAX] {
        let mut topology = with_nics(2, 2, 2);
        with_rate(&mut topology, &["leaf1:nic1", "leaf2:nic1"], bps);
        let mut bench = Bench::new(topology, &[ring("odd", 2, 1..=1), ring("plain", 2, 2..=2)]);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "plain"), State::Placed, "{bps}");
    }
}

#[test]
fn slower_nics_of_another_job_move_nothing() {
    let mut topology = with_nics(4, 4, 4);
    let slow = ["leaf1:nic4", "leaf2:nic4", "leaf3:nic4", "leaf4:nic4"];
    with_rate(&mut topology, &slow, 25_000_000_000);
    let mut bench = Bench::new(topology, &[ring("fast", 4, 1..=2)]);
    bench.adopt();
    let spines = |bench: &Bench| {
        let own = bench
            .pins
            .iter()
            .filter(|(name, _)| name.job.as_str() == "fast");
        let spines = own.map(|(_, paths)| paths.iter().map(|path| path.spine.clone()).collect());
        spines.collect::<Vec<Vec<_>>>()
    };
    let before = spines(&bench);
    bench.put(&ring("slow", 4, 4..=4));
    bench.adopt();
    assert_eq!(spines(&bench), before);
    bench.topology.remove(Kind::Job, "slow");
    bench.adopt();
    assert_eq!(spines(&bench), before);
}

#[test]
fn a_lease_that_is_renewed_is_no_reason_to_plan() {
    let mut bench = Bench::new(with_nics(2, 2, 1), &[ring("train", 2, 1..=1)]);
    bench.adopt();
    assert!(bench.plan().is_some());
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    bench.put(&v1::Job {
        expire_time: time(1),
        ..ring("train", 2, 1..=1)
    });
    assert_eq!(bench.plan(), None);
}

/// A job of flows between NICs of two leaves, each with an overlap set.
fn flows(name: &str, flows: &[(u8, &str)]) -> v1::Job {
    let nic = |leaf: u8, host: u8| {
        Some(v1::Nic {
            host_port_name: format!("leaf{leaf}:nic{host}"),
            ..v1::Nic::default()
        })
    };
    let flows = flows.iter().map(|(host, set)| v1::JobFlow {
        source: nic(1, *host),
        destination: nic(2, *host),
        octets: 1,
        overlap_set: (*set).to_owned(),
        ..v1::JobFlow::default()
    });
    v1::Job {
        name: name.to_owned(),
        flows: flows.collect(),
        ..v1::Job::default()
    }
}

#[test]
fn pins_that_a_leaf_does_not_get_do_not_count_as_carried() {
    let job = flows("train", &[(1, "")]);
    let mut bench = Bench::new(with_nics(2, 2, 1), std::slice::from_ref(&job));
    let (pinned, _) = bench.adopt();
    let in_shadow = |leaf: &str| {
        let leaf = SwitchName::from(leaf);
        Arc::new(BTreeMap::from([(leaf, Unpinned::Shadow)]))
    };
    bench.unpinned = in_shadow("leaf1");
    let (unpinned, moved) = bench.adopt();
    assert_eq!(moved, [], "the pins stay as they are");
    assert_ne!(unpinned.demand(), pinned.demand());
    // As if the job were in shadow, whose flows go by weights.
    let mut shadowed = job;
    shadowed.set_balance_mode(v1::BalanceMode::Shadow);
    let mut other = Bench::new(with_nics(2, 2, 1), &[shadowed]);
    let (shadowed, _) = other.adopt();
    assert_eq!(unpinned.demand(), shadowed.demand());
    // A leaf that only takes has no say.
    bench.unpinned = in_shadow("leaf2");
    let (taking, _) = bench.adopt();
    assert_eq!(taking.demand(), pinned.demand());
}

#[test]
fn a_job_that_weights_carry_says_why() {
    let weighted = |bench: &mut Bench| {
        let (plan, _) = bench.adopt();
        plan.jobs[&JobName::from("train")].weighted
    };
    let mut bench = Bench::new(with_nics(2, 2, 2), &[ring("train", 2, 1..=2)]);
    assert_eq!(weighted(&mut bench), None);
    let why = OffPlan {
        leaf: "leaf1".into(),
        percent: 50,
        fingerprint: bench.topology.job(&"train".into()).unwrap().fingerprint(),
    };
    bench.measured.set_off_plan("train".into(), Some(why));
    assert_eq!(weighted(&mut bench), Some(Weighted::OffPlan));
    let mut off = ring("train", 2, 1..=2);
    off.set_balance_mode(v1::BalanceMode::Off);
    bench.put(&off);
    assert_eq!(weighted(&mut bench), Some(Weighted::Off));
    let mut leaf = bench.topology.switch(&"leaf1".into()).unwrap().clone();
    leaf.limits.pins = Some(1);
    bench.topology.put(Fact::Switch(Arc::new(leaf)));
    bench.measured.set_off_plan("train".into(), None);
    bench.put(&ring("train", 2, 1..=2));
    assert_eq!(weighted(&mut bench), Some(Weighted::OverLimits));
}

#[test]
fn phases_of_a_job_share_a_link_and_what_runs_together_does_not() {
    let load = |jobs: &[v1::Job]| {
        let mut bench = Bench::new(with_nics(2, 1, 2), jobs);
        let (plan, _) = bench.adopt();
        assert_eq!(plan.pins.len(), 2);
        plan.certificate.as_ref().unwrap().max_load
    };
    assert_eq!(load(&[flows("train", &[(1, ""), (2, "")])]), 2.0);
    assert_eq!(
        load(&[flows("train", &[(1, "forward"), (2, "backward")])]),
        1.0
    );
    // Phases of different jobs may meet.
    let two = [flows("one", &[(1, "")]), flows("two", &[(2, "later")])];
    assert_eq!(load(&two), 2.0);
}

#[test]
fn a_job_of_a_higher_priority_is_not_slowed_by_others() {
    let mut high = flows("high", &[(4, "")]);
    high.priority = 1;
    let low = flows("low", &[(1, ""), (2, ""), (3, "")]);
    // Four flows at full rate over three spines.
    let mut bench = Bench::new(with_nics(2, 3, 4), &[low, high]);
    let (plan, _) = bench.adopt();
    let spines = |job: &str| -> BTreeSet<&SwitchName> {
        let own = plan
            .pins
            .iter()
            .filter(|(name, _)| name.job.as_str() == job);
        own.flat_map(|(_, paths)| paths.iter().map(|path| &path.spine))
            .collect()
    };
    assert_eq!((spines("high").len(), spines("low").len()), (1, 2));
    assert!(spines("high").is_disjoint(&spines("low")));
    assert_eq!(plan.certificate.as_ref().unwrap().max_load, 1.5);
}

#[test]
fn who_gets_the_pins_of_a_leaf_is_decided_by_priority_then_size_and_each_address_is_an_entry() {
    let with_limit = |pins: u32, second_address: bool| {
        let mut fabric = with_nics(2, 2, 4).declaration();
        for switch in fabric.switches.iter_mut().take(2) {
            switch.limits = Some(v1::SwitchLimits {
                pins: Some(pins),
                ..v1::SwitchLimits::default()
            });
        }
        if second_address {
            for (port, at) in fabric.host_ports.iter_mut().zip(1..) {
                port.addresses.push(format!("2001:db8::{at}"));
            }
        }
        Topology::new(&fabric).unwrap()
    };
    let small = flows("small", &[(1, "")]);
    let large = |priority: u32| v1::Job {
        priority,
        ..flows("large", &[(2, ""), (3, "")])
    };
    let pinned = |pins: u32, second_address: bool, priority: u32| {
        let jobs = [small.clone(), large(priority)];
        let mut bench = Bench::new(with_limit(pins, second_address), &jobs);
        let (plan, _) = bench.adopt();
        ["small", "large"].map(|job| state(&plan, job) == State::Placed)
    };
    assert_eq!(pinned(2, false, 0), [true, false]);
    assert_eq!(pinned(2, false, 1), [false, true]);
    assert_eq!(pinned(3, false, 0), [true, true]);
    assert_eq!(pinned(3, true, 0), [true, false]);
    assert_eq!(pinned(6, true, 0), [true, true]);
}

#[test]
fn what_is_divided_among_spines_is_divided_by_queue_pairs() {
    let mut job = flows("train", &[(1, ""), (2, ""), (3, "")]);
    for (at, flow) in (0..).zip(&mut job.flows) {
        let pair = |number: u32| v1::QueuePair {
            udp_source_port: Some(50_000 + 10 * at + number),
            ..v1::QueuePair::default()
        };
        flow.pairs = (0..4).map(pair).collect();
    }
    // What else is known of the same flows names no queue pairs.
    let mut others = job.flows.clone();
    others.iter_mut().for_each(|flow| flow.pairs.clear());
    job.flows.extend(others);
    // Three flows at full rate over two spines: one is divided.
    let mut bench = Bench::new(with_nics(2, 2, 3), &[job]);
    let (plan, _) = bench.adopt();
    assert_eq!(plan.certificate.as_ref().unwrap().max_load, 1.5);
    let divided: Vec<_> = plan.pins.values().filter(|paths| paths.len() > 1).collect();
    assert_eq!(divided.len(), 1);
    let of_leaves = |bench: &Bench| {
        let plan = bench.balancer.plan();
        let leaves = balancer::flows::of_leaves(plan, &bench.topology, &bench.pins);
        leaves[&SwitchName::from("leaf1")].clone()
    };
    let of_leaf = of_leaves(&bench);
    let mut of_ports: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
    for (flow, members) in of_leaf.iter() {
        if let Some(port) = flow.udp_source_port {
            assert_eq!(members.len(), 1, "a queue pair has one spine");
            let (hop, _) = members.first_key_value().unwrap();
            of_ports.entry(&hop.interface).or_default().push(port);
        }
    }
    let counts: Vec<_> = of_ports.values().map(Vec::len).collect();
    assert_eq!(counts, [2, 2], "{of_ports:?}");
    let whole = of_leaf.keys().filter(|it| it.udp_source_port.is_none());
    assert_eq!(whole.count(), 3, "what has another port goes by weights");

    // A table without room for queue pairs leaves them to weights.
    let leaf1 = bench.topology.switch(&"leaf1".into()).unwrap().clone();
    let mut small = leaf1.clone();
    small.limits.pins = Some(6);
    bench.topology.put(Fact::Switch(Arc::new(small)));
    bench.adopt();
    let of_leaf = of_leaves(&bench);
    assert!(of_leaf.keys().all(|it| it.udp_source_port.is_none()));
    assert_eq!(of_leaf.len(), 3);
    let mut none = leaf1;
    none.limits.pins = Some(2);
    bench.topology.put(Fact::Switch(Arc::new(none)));
    let (plan, _) = bench.adopt();
    let why = "leaf1 would have 3 pins, at most 2";
    assert_eq!(state(&plan, "train"), State::Weighted(why.to_owned()));
}
