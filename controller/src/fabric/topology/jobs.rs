//! The jobs of a topology: which of them name a NIC, and what all of them take of memory. Both are kept as jobs come and go, so that
//! one more job costs what it names itself. It refuses to know what a name stands for.

use std::net::IpAddr;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use weft_proto::v1;

use super::{HostName, Job, JobName, PortName};

/// Jobs by their names; a copy costs nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Jobs {
    pub(super) facts: OrdMap<JobName, Arc<Job>>,
    /// Which jobs name a NIC, each by its own words for it.
    named: OrdSet<(Named, JobName)>,
    /// See [`Job::octets`].
    octets: usize,
}

/// Words of a job for a NIC, or for all NICs of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Named {
    Port(PortName),
    Address(IpAddr, Option<u32>),
    Host(HostName),
}

impl Jobs {
    /// Takes a job, in the place of the one of its name. A lease that is renewed changes no name of a NIC.
    pub(super) fn put(&mut self, job: Arc<Job>) {
        let old = self.facts.get(&job.name).cloned();
        match old.filter(|old| old.names_same(&job)) {
            Some(old) => self.octets -= old.octets(),
            None => {
                self.remove(job.name.as_str());
                let named = names(&job.declared);
                self.named
                    .extend(named.map(|named| (named, job.name.clone())));
            }
        }
        self.octets += job.octets();
        self.facts.insert(job.name.clone(), job);
    }

    /// Forgets a job, if it is there.
    pub(super) fn remove(&mut self, name: &str) {
        if let Some(job) = self.facts.remove(name) {
            for named in names(&job.declared) {
                self.named.remove(&(named, job.name.clone()));
            }
            self.octets -= job.octets();
        }
    }

    /// Octets of memory that all jobs take, about.
    pub(super) fn octets(&self) -> usize {
        self.octets
    }

    /// The jobs that name a NIC, or a host, in these words.
    pub(super) fn that_name(&self, named: &Named) -> impl Iterator<Item = &JobName> {
        let first = (named.clone(), JobName::from(""));
        let found = self.named.range(first..);
        found
            .take_while(move |(found, _)| found == named)
            .map(|(_, job)| job)
    }
}

/// What a job names, also more than once. Of hosts it has the NICs if it names no ranks.
fn names(job: &v1::Job) -> impl Iterator<Item = Named> {
    let hosts = job.host_names.iter().filter(|_| job.ranks.is_empty());
    let hosts = hosts.map(|host| Named::Host(host.as_str().into()));
    let flows = job.flows.iter();
    let ends = flows.flat_map(|flow| flow.source.iter().chain(&flow.destination));
    let nics = job.ranks.iter().chain(ends).filter_map(of_nic);
    hosts.chain(nics)
}

fn of_nic(nic: &v1::Nic) -> Option<Named> {
    if nic.host_port_name.is_empty() {
        let address = nic.address.parse().ok()?;
        return Some(Named::Address(address, nic.vni));
    }
    Some(Named::Port(nic.host_port_name.as_str().into()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use crate::fabric::fact::{Fact, InvalidFabric, Kind};
    use crate::fabric::job::Nics;
    use crate::fabric::job::tests::{at, named};
    use crate::fabric::topology::tests::with_nics;
    use crate::fabric::topology::{Change, Topology};

    use super::*;

    fn fact(job: v1::Job) -> Arc<Job> {
        let name = job.name.as_str().into();
        Arc::new(Job {
            name,
            declared: job,
        })
    }

    /// A NIC of [`with_nics`] of two leaves with two hosts each, or one that nobody declares, in every way that names one.
    fn nic() -> impl Strategy<Value = v1::Nic> {
        let address = |(leaf, host)| format!("192.168.{leaf}.{host}");
        let place = || (1..=2u8, 1..=2u8);
        let vni = prop_oneof![Just(None), Just(Some(100)), Just(Some(200)), Just(Some(7))];
        prop_oneof![
            place().prop_map(|(leaf, host)| named(&format!("leaf{leaf}:nic{host}"))),
            Just(named("leaf9:nic1")),
            (place(), vni).prop_map(move |(place, vni)| at(&address(place), vni)),
            Just(at("nowhere", None)),
        ]
    }

    fn job() -> impl Strategy<Value = Arc<Job>> {
        let nics = || prop::collection::vec(nic(), 0..3);
        let hosts =
            prop::collection::vec(prop_oneof![Just("h1-1"), Just("t2-1"), Just("h9")], 0..2);
        (0..4u8, nics(), nics(), hosts).prop_map(|(name, ranks, ends, hosts)| {
            let flow = |end: v1::Nic| v1::JobFlow {
                source: Some(end.clone()),
                destination: Some(end),
                octets: 1,
                ..v1::JobFlow::default()
            };
            fact(v1::Job {
                name: format!("job{name}"),
                host_names: hosts.into_iter().map(str::to_owned).collect(),
                ranks,
                flows: ends.into_iter().map(flow).collect(),
                ..v1::Job::default()
            })
        })
    }

    /// The jobs that have a NIC, found by asking each of them for all of its own.
    fn asked(topology: &Topology, port: &PortName) -> BTreeSet<JobName> {
        let has = |job: &&Arc<Job>| {
            let found = Nics::find(topology, &job.declared, "", &mut InvalidFabric::default());
            found.ports().contains(port)
        };
        let jobs = topology.jobs().filter(has);
        jobs.map(|job| job.name.clone()).collect()
    }

    proptest! {
        /// Whatever came, changed and went, and whatever became of the fabric since.
        #[test]
        fn the_index_finds_the_jobs_that_have_a_nic(
            jobs in prop::collection::vec((any::<bool>(), job()), 0..12),
            gone in any::<bool>(),
        ) {
            let mut topology = with_nics(2, 2, 2);
            for (stays, job) in jobs {
                if stays {
                    topology.put(Fact::Job(job));
                } else {
                    topology.remove(Kind::Job, job.name.as_str());
                }
            }
            if gone {
                topology.remove(Kind::HostPort, "leaf1:nic1");
            }
            let undeclared = (1..=2).flat_map(|leaf| {
                [7, 100, 200].map(|vni| at(&format!("192.168.{leaf}.1"), Some(vni)))
            });
            let ports = ["leaf1:nic1", "leaf1:tenant1", "leaf2:nic2", "leaf2:tenant1"];
            for nic in ports.map(named).into_iter().chain(undeclared) {
                let Ok(port) = topology.nic(&nic) else { continue };
                let found: BTreeSet<_> = topology.jobs_with(&port).cloned().collect();
                prop_assert_eq!(found, asked(&topology, &port.name), "{}", port.name);
            }
            let sum: usize = topology.jobs().map(|job| job.octets()).sum();
            prop_assert_eq!(topology.job_octets(), sum);
        }
    }

    fn faults(topology: &Topology, job: &Arc<Job>) -> String {
        let change = match topology.job(&job.name) {
            Some(_) => Change::Update(Fact::Job(Arc::clone(job))),
            None => Change::Create(Fact::Job(Arc::clone(job))),
        };
        let mut faults = InvalidFabric::default();
        topology.check(&change, "resource", &mut faults);
        faults.to_string()
    }

    /// A job with so many ranks at addresses of its own that nobody declares.
    fn wide(number: u32, ranks: u32) -> Arc<Job> {
        let address = |rank: u32| IpAddr::from((0x0a00_0000 + (number << 16) + rank).to_be_bytes());
        fact(v1::Job {
            name: format!("job{number}"),
            ranks: (0..ranks)
                .map(|rank| at(&address(rank).to_string(), Some(100)))
                .collect(),
            ..v1::Job::default()
        })
    }

    #[test]
    fn jobs_have_a_bound_of_memory_in_all() {
        let mut topology = Topology::default();
        let mut taken = 0;
        let refused = loop {
            let job = wide(taken, 60_000);
            let said = faults(&topology, &job);
            if !said.is_empty() {
                break said;
            }
            topology.put(Fact::Job(job));
            taken += 1;
        };
        assert!((10..20).contains(&taken), "{taken}");
        let expected = "octets of memory with the other jobs";
        assert!(refused.contains(expected), "{refused}");
        assert!(refused.contains("at most 268435456"), "{refused}");
        // The lease of one that is there is renewed, and room is made by one that goes.
        let renewed = |ranks: u32| {
            let mut job = Job::clone(&wide(0, ranks));
            job.declared.expire_time = Some(prost_types::Timestamp::default());
            Arc::new(job)
        };
        assert_eq!(faults(&topology, &renewed(60_000)), "");
        assert_eq!(faults(&topology, &renewed(59_999)), "");
        topology.remove(Kind::Job, "job1");
        assert_eq!(faults(&topology, &wide(taken, 60_000)), "");
    }

    #[test]
    fn ten_thousand_small_jobs_fit_and_one_costs_no_look_at_the_others() {
        let mut topology = Topology::default();
        for number in 0..10_000 {
            let ranks = (0..16_u32).map(|rank| {
                let address = IpAddr::from((0x0a00_0000 + 16 * number + rank).to_be_bytes());
                at(&address.to_string(), Some(100))
            });
            let job = fact(v1::Job {
                name: format!("job{number}"),
                ranks: ranks.collect(),
                ..v1::Job::default()
            });
            assert_eq!(faults(&topology, &job), "");
            topology.put(Fact::Job(job));
        }
        let again = fact(v1::Job {
            name: "again".to_owned(),
            ranks: vec![at("10.0.0.17", Some(100))],
            ..v1::Job::default()
        });
        let said = faults(&topology, &again);
        let why = "resource.ranks[0]: job job1 has the NIC at vni100:10.0.0.17";
        assert!(said.contains(why), "{said}");
        assert!(
            topology.job_octets() < 64 << 20,
            "{}",
            topology.job_octets()
        );
    }
}
