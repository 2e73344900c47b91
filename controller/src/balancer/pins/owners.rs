//! Which of several jobs has a NIC that all of them name.
//!
//! No job is declared with a NIC of another one. But host ports change while jobs run: the address that one job names may come to
//! be that of a host port that another one names. Pure. It refuses to know what jobs send.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::SentByJobs;
use super::sent::Unresolved;
use crate::fabric::fact::{JobName, PortName};
use crate::fabric::job::Nics;
use crate::fabric::topology::{InvalidFabric, Job, Topology};

/// Leaves each NIC to one job: of those that name it to the one of the highest priority, and of these to the first by name. What the
/// others send is not known then, and they say whose NIC it is. A job that is unresolved keeps no other one from its NICs.
pub(super) fn settle(topology: &Topology, all: &mut SentByJobs) {
    let mut jobs: Vec<&Arc<Job>> = topology.jobs().collect();
    // Those of one priority stay in order of their names.
    jobs.sort_by_key(|job| Reverse(job.declared.priority));
    let mut owners: BTreeMap<PortName, &JobName> = BTreeMap::new();
    for job in jobs {
        let Some(sent) = all.get_mut(&job.name) else {
            continue;
        };
        if matches!(sent, Err(Unresolved::Unknown(_))) {
            continue;
        }
        let nics = Nics::find(topology, &job.declared, "", &mut InvalidFabric::default());
        let ports = nics.ports();
        let mut taken = ports
            .iter()
            .filter_map(|port| Some((port, owners.get(*port)?)));
        match taken.next() {
            // It is pinned nowhere, and says so already.
            Some(_) if matches!(sent, Err(Unresolved::Off)) => {}
            Some((port, owner)) => {
                let why = format!("job {owner} has the NIC at {port}");
                *sent = Err(Unresolved::Unknown(why));
            }
            None => {
                let own = ports.iter().map(|port| (PortName::clone(port), &job.name));
                owners.extend(own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::balancer::pins::tests::{Bench, state};
    use crate::balancer::pins::{PinPlan, State};
    use crate::fabric::fact::{Fact, Kind};
    use crate::fabric::topology::tests::with_nics;
    use crate::fabric::topology::{Change, HostPort};

    /// What nobody declares at first, in VNI 100.
    const ADDRESS: &str = "192.0.2.77";

    fn named(port: &str) -> v1::Nic {
        v1::Nic {
            host_port_name: port.to_owned(),
            ..v1::Nic::default()
        }
    }

    fn job(name: &str, source: v1::Nic, destination: &str) -> v1::Job {
        v1::Job {
            name: name.to_owned(),
            flows: vec![v1::JobFlow {
                source: Some(source),
                destination: Some(named(destination)),
                octets: 1,
                ..v1::JobFlow::default()
            }],
            ..v1::Job::default()
        }
    }

    /// By a host port that has another address when the job is declared.
    fn by_port() -> v1::Job {
        job("port", named("leaf1:nic1"), "leaf2:nic1")
    }

    /// By the address alone.
    fn by_address(name: &str) -> v1::Job {
        let nic = v1::Nic {
            address: ADDRESS.to_owned(),
            vni: Some(100),
            ..v1::Nic::default()
        };
        job(name, nic, "leaf2:nic2")
    }

    /// The address is one of leaf1:nic1 too.
    fn update(topology: &mut Topology) {
        let port = topology.host_port(&"leaf1:nic1".into()).unwrap();
        let mut port = HostPort::clone(&port);
        port.addresses.push(ADDRESS.parse().unwrap());
        let change = Change::Update(Fact::HostPort(Arc::new(port)));
        let mut faults = InvalidFabric::default();
        topology.check(&change, "resource", &mut faults);
        assert!(faults.is_empty(), "the fabric is what it is: {faults}");
        topology.apply(&change);
    }

    fn unresolved(plan: &PinPlan, job: &str) -> String {
        match state(plan, job) {
            State::Unresolved(why) => why,
            other => panic!("{job}: {other:?}"),
        }
    }

    #[test]
    fn of_two_jobs_that_come_to_name_one_nic_the_first_keeps_its_pins() {
        let mut bench = Bench::new(with_nics(2, 2, 2), &[by_address("address"), by_port()]);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "port"), State::Placed);
        assert!(unresolved(&plan, "address").starts_with("no host port and no type 2 route"));
        update(&mut bench.topology);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "address"), State::Placed, "first by name");
        let why = "job address has the NIC at leaf1:nic1";
        assert_eq!(unresolved(&plan, "port"), why);
        assert!(plan.pins.keys().all(|pin| pin.job.as_str() == "address"));
        bench.topology.remove(Kind::Job, "address");
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "port"), State::Placed);
    }

    #[test]
    fn the_job_of_the_highest_priority_has_the_nic() {
        let first = v1::Job {
            priority: 1,
            ..by_port()
        };
        let mut bench = Bench::new(with_nics(2, 2, 2), &[by_address("address"), first]);
        update(&mut bench.topology);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "port"), State::Placed);
        let why = "job port has the NIC at leaf1:nic1";
        assert_eq!(unresolved(&plan, "address"), why);
    }

    #[test]
    fn a_job_that_is_unresolved_keeps_no_other_one_from_its_nics() {
        let second = v1::Job {
            priority: 1,
            ..by_address("second")
        };
        let third = job("third", named("leaf2:nic2"), "leaf1:nic2");
        let first = v1::Job {
            priority: 2,
            ..by_port()
        };
        let mut bench = Bench::new(with_nics(2, 2, 2), &[first, second, third]);
        update(&mut bench.topology);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "port"), State::Placed);
        let why = "job port has the NIC at leaf1:nic1";
        assert_eq!(unresolved(&plan, "second"), why);
        assert_eq!(state(&plan, "third"), State::Placed);
    }

    #[test]
    fn a_job_that_is_off_has_its_nics_and_stays_off() {
        let off = |mut job: v1::Job| {
            job.set_balance_mode(v1::BalanceMode::Off);
            job
        };
        let jobs = [off(by_address("address")), by_port()];
        let mut bench = Bench::new(with_nics(2, 2, 2), &jobs);
        update(&mut bench.topology);
        let (plan, _) = bench.adopt();
        let why = "job address has the NIC at leaf1:nic1";
        assert_eq!(unresolved(&plan, "port"), why);
        let jobs = [by_address("address"), off(by_port())];
        let mut bench = Bench::new(with_nics(2, 2, 2), &jobs);
        update(&mut bench.topology);
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "address"), State::Placed);
        assert!(matches!(state(&plan, "port"), State::Weighted(_)));
    }
}
