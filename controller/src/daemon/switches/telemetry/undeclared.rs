//! What no job declares, storage and checkpoints among it: what host ports send into a leaf, and take from it, behind which no NIC
//! of a declared job is. From that follows what percent of its uplinks the leaf keeps free of pins. Pure; time is an argument.
//!
//! What such ports send to others of the same leaf cannot be told apart: it counts too, and never more than uplinks are measured to
//! carry. A job counts as declared whatever weft makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weft_telemetry::kept_free::{Carried, KeptFree};
use weft_telemetry::rates::{InterfaceRates, Rate};

use super::links::Links;
use super::loads::Predicted;
use crate::fabric::fact::{Job, JobName, Link, PortName, Role, SwitchName};
use crate::fabric::measured::Measured;
use crate::fabric::topology::Topology;

/// What follows from it, leaf by leaf.
#[derive(Default)]
pub(super) struct Undeclared {
    kept: KeptFree,
    /// What all else was made from.
    made_from: Topology,
    jobs: BTreeMap<JobName, Nics>,
    /// Interfaces of host ports behind which no declared job has a NIC, by leaf.
    ports: BTreeMap<SwitchName, Vec<Arc<str>>>,
    /// Leaves with a NIC of a job at a port that nobody knows: what it sends counts at some port as if nobody declared it.
    placed: BTreeSet<SwitchName>,
}

/// The NICs of one job.
struct Nics {
    job: Arc<Job>,
    ports: BTreeSet<PortName>,
    /// Leaves of those that are not where they are declared, or declared nowhere.
    placed: BTreeSet<SwitchName>,
}

impl Undeclared {
    /// Takes what some switches said just now, after `links` learnt it.
    pub(super) fn look(
        &mut self,
        spoken: &[SwitchName],
        links: &Links,
        from: &Predicted<'_>,
        now: Duration,
    ) {
        self.refresh(from.topology);
        let is_heard = |leaf: &SwitchName| {
            let switch = from.topology.switch(leaf);
            switch.is_some_and(|it| it.role == Role::Leaf && it.gnmi.is_some())
        };
        self.kept.retain(|leaf| is_heard(&leaf.into()));
        for (leaf, percent) in from.agreed.all_kept_free() {
            if is_heard(leaf) && !self.kept.knows(leaf.as_str()) {
                self.kept.take_over(&leaf.into(), percent, now);
            }
        }
        for leaf in spoken.iter().filter(|leaf| is_heard(leaf)) {
            if let Some(carried) = self.carried(leaf, links, from, now) {
                self.kept.learn(&leaf.into(), &carried, now);
            }
        }
        self.kept.expire(now);
    }

    /// The leaves that should keep another percent free than is agreed, with what it should be.
    pub(super) fn undecided(&self, agreed: &Measured) -> Vec<(SwitchName, u8)> {
        let wanted = self.kept.iter();
        let wanted = wanted.map(|(leaf, percent)| (SwitchName::from(&**leaf), percent));
        let others = wanted.filter(|(leaf, percent)| agreed.kept_free(leaf) != *percent);
        let over = agreed.all_kept_free().map(|(leaf, _)| leaf);
        let over = over.filter(|leaf| self.kept.of(leaf.as_str()) == 0);
        others.chain(over.map(|leaf| (leaf.clone(), 0))).collect()
    }

    /// What the uplinks of a leaf carry that no job declares, at most. None: nobody counts host ports, or uplinks, or which port a
    /// NIC of a job is behind is not known.
    fn carried(
        &self,
        leaf: &SwitchName,
        links: &Links,
        from: &Predicted<'_>,
        now: Duration,
    ) -> Option<Carried> {
        let ports = self.ports.get(leaf)?;
        if self.placed.contains(leaf) {
            return None;
        }
        let (mut hosts, mut uplinks) = (Counted::default(), Counted::default());
        for interface in ports {
            hosts.add(links.interface_rates(leaf, interface), now);
        }
        let mut capacity_bps = 0.0;
        for (interface, name) in links.links_of(leaf) {
            let link = from.topology.link_named(name);
            let usable = link.filter(|link| from.plan.unusable(link).is_none());
            let up = usable.filter(|link| leads_up(from.topology, leaf, link));
            if let Some(link) = up {
                capacity_bps += from.agreed.usable_bps(link) as f64;
                uplinks.add(links.interface_rates(leaf, interface), now);
            }
        }
        let is_counted = (ports.is_empty() || hosts.is_counted) && uplinks.is_counted;
        is_counted.then(|| Carried {
            up_bps: hosts.in_bps.min(uplinks.out_bps),
            down_bps: hosts.out_bps.min(uplinks.in_bps),
            capacity_bps,
        })
    }

    /// Finds the ports of jobs anew, if jobs or ports changed.
    fn refresh(&mut self, topology: &Topology) {
        let before = std::mem::replace(&mut self.made_from, topology.clone());
        if before.has_alike_jobs(topology) {
            return;
        }
        let same_ports = before.with_jobs_of(topology).has_alike_jobs(topology);
        self.jobs.retain(|name, known| {
            let job = topology.job(name);
            same_ports && job.is_some_and(|job| job.names_same(&known.job))
        });
        for job in topology.jobs() {
            let known = self.jobs.entry(job.name.clone());
            known.or_insert_with(|| Nics::of(topology, job));
        }
        let nics = self.jobs.values();
        self.placed = nics.flat_map(|nics| nics.placed.iter().cloned()).collect();
        let nics = self.jobs.values();
        let declared: BTreeSet<&PortName> = nics.flat_map(|nics| &nics.ports).collect();
        self.ports.clear();
        for port in topology.all_host_ports() {
            let of_leaf = self.ports.entry(port.switch.clone()).or_default();
            if !declared.contains(&port.name) {
                of_leaf.push(Arc::clone(&port.interface));
            }
        }
    }
}

impl Nics {
    /// Finds those that are there: whoever names a port has it, also where the rest of the job is not understood.
    fn of(topology: &Topology, job: &Arc<Job>) -> Self {
        let declared = &job.declared;
        let flows = declared.flows.iter();
        let ends = flows.flat_map(|flow| [&flow.source, &flow.destination]);
        let named = declared.ranks.iter().chain(ends.flatten());
        let named = named.filter_map(|nic| topology.nic(nic).ok());
        let hosts = declared.host_names.iter();
        let of_hosts = hosts.flat_map(|host| topology.ports_of(host));
        let mut found = Self {
            job: Arc::clone(job),
            ports: BTreeSet::new(),
            placed: BTreeSet::new(),
        };
        for port in named.chain(of_hosts) {
            if topology.is_placed(&port.name) {
                found.placed.insert(port.switch.clone());
            }
            found.ports.insert(port.name.clone());
        }
        found
    }
}

/// Whether a link of a leaf leads to a spine.
fn leads_up(topology: &Topology, leaf: &SwitchName, link: &Link) -> bool {
    let ends = link.ends_from(leaf);
    let far = ends.and_then(|(_, far)| topology.switch(&far.switch));
    far.is_some_and(|far| far.role == Role::Spine)
}

/// What interfaces carry together, in bits per second.
#[derive(Default)]
struct Counted {
    in_bps: f64,
    out_bps: f64,
    /// Whether one of them was counted of late.
    is_counted: bool,
}

impl Counted {
    fn add(&mut self, rates: Option<&InterfaceRates>, now: Duration) {
        let bps = |rate: Option<Rate>| {
            let rate = rate.filter(|rate| now.saturating_sub(rate.received) < FRESH)?;
            Some(rate.last_per_s * 8.0)
        };
        let in_bps = rates.and_then(|rates| bps(rates.in_octets));
        let out_bps = rates.and_then(|rates| bps(rates.out_octets));
        self.is_counted |= in_bps.is_some() || out_bps.is_some();
        self.in_bps += in_bps.unwrap_or_default();
        self.out_bps += out_bps.unwrap_or_default();
    }
}

/// A rate that is older says nothing of now: some switches give one each 10 s.
const FRESH: Duration = Duration::from_secs(12);

#[cfg(test)]
mod tests {
    use weft_telemetry::{Counter, Counters, Interface, Sample};

    use super::*;
    use crate::balancer::pins::PinPlan;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::fact::{Fact, Kind};
    use crate::fabric::topology::Declaration;
    use crate::fabric::topology::tests::with_nics;

    /// Two leaves with two uplinks of 100 Gb/s each that serve gNMI. A job has the NIC behind `nic1` of each; `tenant1` is storage.
    fn fabric() -> Declaration {
        let mut fabric = with_nics(2, 2, 1).declaration();
        for switch in &mut fabric.switches {
            switch.gnmi_address = format!("{}.example:9339", switch.name);
        }
        fabric
    }

    /// Leaf 1 second by second.
    struct Story {
        bench: Bench,
        plan: Arc<PinPlan>,
        links: Links,
        undeclared: Undeclared,
        second: u64,
        counted: BTreeMap<&'static str, [u64; 2]>,
    }

    impl Story {
        fn new(fabric: &Declaration) -> Self {
            let topology = Topology::new(fabric).unwrap();
            let mut bench = Bench::new(topology, &[ring("train", 2, 1..=1)]);
            let (plan, _) = bench.adopt();
            Self {
                bench,
                plan,
                links: Links::default(),
                undeclared: Undeclared::default(),
                second: 0,
                counted: BTreeMap::new(),
            }
        }

        /// Some seconds in which interfaces take and send so many Gb/s; what is to be agreed then.
        fn seconds(
            &mut self,
            seconds: u64,
            gbps: &[(&'static str, [u64; 2])],
        ) -> Vec<(SwitchName, u8)> {
            for _ in 0..seconds {
                self.second += 1;
                let said = self.sample(gbps);
                self.look(vec![("leaf1".into(), Ok(said))]);
            }
            self.undeclared.undecided(&self.bench.measured)
        }

        fn sample(&mut self, gbps: &[(&'static str, [u64; 2])]) -> Arc<Sample> {
            let received = Duration::from_secs(self.second);
            let unix_ns = i64::try_from(self.second).unwrap() * 1_000_000_000;
            let mut interfaces = BTreeMap::new();
            for (name, gbps) in gbps {
                let octets = self.counted.entry(*name).or_default();
                let counters = [0, 1].map(|way| {
                    octets[way] = octets[way].wrapping_add(gbps[way] * 125_000_000);
                    let value = octets[way];
                    Some(Counter {
                        value,
                        unix_ns,
                        received,
                    })
                });
                let interface = Interface {
                    counters: Counters {
                        in_octets: counters[0],
                        out_octets: counters[1],
                        ..Counters::default()
                    },
                    ..Interface::default()
                };
                interfaces.insert(Arc::from(*name), interface);
            }
            Arc::new(Sample {
                interfaces,
                ..Sample::default()
            })
        }

        fn look(&mut self, said: Vec<(SwitchName, super::super::links::Said)>) {
            let now = Duration::from_secs(self.second);
            let (bench, heard) = (&self.bench, said.iter().filter(|(_, it)| it.is_ok()));
            let spoken: Vec<SwitchName> = heard.map(|(leaf, _)| leaf.clone()).collect();
            let plan = bench.balancer.plan();
            let topology = plan.topology().unwrap();
            self.links.set_topology(topology, &bench.measured, now);
            self.links.learn(said, now);
            let from = Predicted {
                topology: &bench.topology,
                plan,
                pin_plan: &self.plan,
                pins: &bench.pins,
                agreed: &bench.measured,
                on: BTreeSet::new(),
            };
            self.undeclared.look(&spoken, &self.links, &from, now);
        }
    }

    const NOTHING: [(SwitchName, u8); 0] = [];

    #[test]
    fn what_a_storage_port_sends_is_kept_free_for_until_it_stops() {
        let mut story = Story::new(&fabric());
        // The job sends 90 Gb/s, and storage 50, of 200. What storage takes is less.
        let busy = [
            ("nic1", [90, 90]),
            ("tenant1", [50, 5]),
            ("eth1", [48, 71]),
            ("eth2", [47, 70]),
        ];
        assert_eq!(story.seconds(10, &busy), NOTHING);
        let expected = [(SwitchName::from("leaf1"), 20)];
        assert_eq!(story.seconds(20, &busy), expected);
        story.bench.measured.keep_free("leaf1".into(), 20);
        assert_eq!(story.seconds(60, &busy), NOTHING);
        // A counter that wraps goes on.
        let before = u64::MAX - 10_000_000_000;
        story.counted.insert("tenant1", [before; 2]);
        story.seconds(1, &busy);
        assert_eq!(story.seconds(60, &busy), NOTHING);
        assert!(story.counted["tenant1"][0] < before);
        let idle = [
            ("nic1", [90, 90]),
            ("tenant1", [0, 0]),
            ("eth1", [45, 45]),
            ("eth2", [45, 45]),
        ];
        assert_eq!(story.seconds(50, &idle), NOTHING);
        assert_eq!(story.seconds(200, &idle), [(SwitchName::from("leaf1"), 0)]);
    }

    #[test]
    fn what_stays_below_the_leaf_is_not_kept_free_for() {
        let mut story = Story::new(&fabric());
        // Both at the same leaf: uplinks carry next to nothing.
        let busy = [
            ("nic1", [0, 0]),
            ("tenant1", [80, 80]),
            ("eth1", [1, 1]),
            ("eth2", [1, 2]),
        ];
        assert_eq!(story.seconds(100, &busy), NOTHING);
    }

    #[test]
    fn a_job_that_is_off_or_not_resolved_is_declared_all_the_same() {
        let mut story = Story::new(&fabric());
        let busy = [
            ("nic1", [0, 0]),
            ("tenant1", [80, 80]),
            ("eth1", [40, 40]),
            ("eth2", [40, 40]),
        ];
        let mut storage = ring("storage", 2, 1..=1);
        for rank in &mut storage.ranks {
            rank.host_port_name = rank.host_port_name.replace("nic", "tenant");
        }
        storage.set_balance_mode(weft_proto::v1::BalanceMode::Off);
        story.bench.topology.put(Fact::declared(&storage).unwrap());
        assert_eq!(story.seconds(60, &busy), NOTHING);
        // One of its ports is gone: the other one is its own still.
        story.bench.topology.remove(Kind::HostPort, "leaf2:tenant1");
        assert_eq!(story.seconds(60, &busy), NOTHING);
        story.bench.topology.remove(Kind::Job, "storage");
        let expected = [(SwitchName::from("leaf1"), 30)];
        assert_eq!(story.seconds(100, &busy), expected);
    }

    #[test]
    fn where_nobody_counts_host_ports_nothing_is_kept_free() {
        let mut story = Story::new(&fabric());
        let uplinks = [("eth1", [90, 90]), ("eth2", [90, 90])];
        assert_eq!(story.seconds(100, &uplinks), NOTHING);
        // Nor where nobody counts uplinks.
        let ports = [("nic1", [90, 90]), ("tenant1", [90, 90])];
        assert_eq!(story.seconds(100, &ports), NOTHING);
        // What was agreed before ends with the silence, and not at once.
        story.bench.measured.keep_free("leaf1".into(), 40);
        assert_eq!(story.seconds(200, &ports), NOTHING);
        let over = [(SwitchName::from("leaf1"), 0)];
        assert_eq!(story.seconds(200, &ports), over);
    }

    #[test]
    fn a_new_leader_goes_on_and_a_leaf_that_is_gone_is_forgotten() {
        let mut story = Story::new(&fabric());
        let busy = [
            ("nic1", [90, 90]),
            ("tenant1", [50, 5]),
            ("eth1", [71, 71]),
            ("eth2", [70, 70]),
        ];
        story.bench.measured.keep_free("leaf1".into(), 20);
        story.bench.measured.keep_free("leaf9".into(), 30);
        let gone = [(SwitchName::from("leaf9"), 0)];
        assert_eq!(story.seconds(100, &busy), gone);
        // Without a gNMI server nothing is known.
        let mut deaf = fabric();
        for switch in &mut deaf.switches {
            switch.gnmi_address.clear();
        }
        let mut story = Story::new(&deaf);
        story.bench.measured.keep_free("leaf1".into(), 20);
        let over = [(SwitchName::from("leaf1"), 0)];
        assert_eq!(story.seconds(1, &busy), over);
    }
}
