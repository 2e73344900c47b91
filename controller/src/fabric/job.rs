//! What a job names, found in the fabric: the NIC of every rank, and who else has it. Pure. It refuses to know what NICs send.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_proto::v1;

use super::fact::{RANKS_MAX, UdpPortFormula, below, is_square};
use super::topology::{HostPort, InvalidFabric, Job, PortName, Topology};

/// The NICs of a job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Nics {
    /// By rank.
    pub ranks: Vec<Arc<HostPort>>,
    /// By flow: what sends and what takes.
    pub flows: Vec<[Arc<HostPort>; 2]>,
}

impl Nics {
    /// Finds them, with every fault; `field` is where the job stands in the request. What is not found is left out.
    pub fn find(
        topology: &Topology,
        job: &v1::Job,
        field: &str,
        faults: &mut InvalidFabric,
    ) -> Self {
        for (at, name) in job.host_names.iter().enumerate() {
            if !topology.has_host(name) {
                let reason = format!("no host is named {name:?}");
                faults.fault(below(field, &format!("host_names[{at}]")), reason);
            }
        }
        let mut found = Self {
            ranks: match job.ranks.is_empty() {
                true => of_hosts(topology, &job.host_names),
                false => of_ranks(topology, &job.ranks, field, faults),
            },
            flows: Vec::new(),
        };
        for (at, flow) in job.flows.iter().enumerate() {
            let field = below(field, &format!("flows[{at}]"));
            let ends = [("source", &flow.source), ("destination", &flow.destination)];
            let [from, to] = ends.map(|(part, nic)| {
                let nic = nic.as_ref()?;
                let found = topology.nic(nic);
                found
                    .map_err(|reason| faults.fault(below(&field, part), reason))
                    .ok()
            });
            found
                .flows
                .extend(from.zip(to).map(|(from, to)| [from, to]));
        }
        found.counts(job, field, faults);
        found
    }

    /// Says what is wrong with how many ranks there are.
    fn counts(&self, job: &v1::Job, field: &str, faults: &mut InvalidFabric) {
        let ranks = self.ranks.len();
        let degrees = job.layout.iter().map(|it| u64::from(it.degree));
        let product = degrees.fold(1, u64::saturating_mul);
        // With ranks of its own the job says by itself whether they fit.
        if job.ranks.is_empty() && !job.layout.is_empty() && product != ranks as u64 {
            let reason =
                format!("the degrees multiply to {product}, and the hosts have {ranks} NICs");
            faults.fault(below(field, "layout"), reason);
        }
        if ranks > RANKS_MAX {
            let reason = format!("the hosts have {ranks} NICs, at most {RANKS_MAX}");
            faults.fault(below(field, "host_names"), reason);
        }
        if !job.groups.is_empty() && job.ranks.is_empty() && ranks == 0 {
            faults.fault(below(field, "ranks"), "none, and no NIC at the hosts");
            return;
        }
        let count = job.ranks.len().max(ranks);
        for (at, group) in job.groups.iter().enumerate() {
            let over = group.ranks.iter().position(|rank| *rank as usize >= count);
            if let Some(place) = over {
                let reason = format!("{}, and there are {count} ranks", group.ranks[place]);
                faults.fault(
                    below(field, &format!("groups[{at}].ranks[{place}]")),
                    reason,
                );
            }
            let of_hosts = job.ranks.is_empty() && group.ranks.is_empty();
            if group.collective() == v1::Collective::AllToAllV
                && of_hosts
                && group.dimension.is_empty()
                && let Err(reason) = is_square(group, count)
            {
                let field = below(field, &format!("groups[{at}].pair_octets"));
                faults.fault(field, reason);
            }
        }
    }

    /// Every NIC once.
    pub fn ports(&self) -> BTreeSet<&PortName> {
        let flows = self.flows.iter().flatten();
        self.ranks
            .iter()
            .chain(flows)
            .map(|port| &port.name)
            .collect()
    }
}

/// Each NIC of each host, in order of rails.
fn of_hosts(topology: &Topology, hosts: &[String]) -> Vec<Arc<HostPort>> {
    let mut all = Vec::new();
    for host in hosts {
        let mut ports = topology.ports_of(host);
        ports.sort_by_key(|port| port.rail.unwrap_or(u32::MAX));
        all.extend(ports);
    }
    all
}

fn of_ranks(
    topology: &Topology,
    ranks: &[v1::Nic],
    field: &str,
    faults: &mut InvalidFabric,
) -> Vec<Arc<HostPort>> {
    let mut all = Vec::with_capacity(ranks.len());
    for (at, nic) in ranks.iter().enumerate() {
        let found = topology.nic(nic).and_then(|port| match port.host {
            Some(_) => Ok(port),
            None => Err(format!("nobody says whose host port {} is", port.name)),
        });
        match found {
            Ok(port) => all.push(port),
            Err(reason) => faults.fault(below(field, &format!("ranks[{at}]")), reason),
        }
    }
    all
}

/// Says which NICs of a job another one has.
pub(super) fn conflicts(topology: &Topology, job: &Job, field: &str, faults: &mut InvalidFabric) {
    let nics = Nics::find(topology, &job.declared, field, faults);
    formulas(topology, &job.declared, field, faults);
    let ports = nics.ports();
    let others = topology.jobs().filter(|other| other.name != job.name);
    for other in others {
        // What it names may be gone since.
        let theirs = Nics::find(topology, &other.declared, "", &mut InvalidFabric::default());
        if let Some(port) = theirs.ports().intersection(&ports).next() {
            let reason = format!("job {} has the NIC at {port}", other.name);
            faults.fault(below(field, "ranks"), reason);
        }
    }
}

/// Says where a job has another formula of a NIC's UDP source ports than its host port, or than before.
fn formulas(topology: &Topology, job: &v1::Job, field: &str, faults: &mut InvalidFabric) {
    let ranks = job.ranks.iter().enumerate();
    let ranks = ranks.map(|(at, nic)| ("ranks", at, "", nic));
    let flows = job.flows.iter().enumerate().flat_map(|(at, flow)| {
        let source = flow.source.iter().map(|nic| (".source", nic));
        let destination = flow.destination.iter();
        let destination = destination.map(|nic| (".destination", nic));
        let ends = source.chain(destination);
        ends.map(move |(part, nic)| ("flows", at, part, nic))
    });
    let mut before: BTreeMap<PortName, (UdpPortFormula, String)> = BTreeMap::new();
    for (list, at, part, nic) in ranks.chain(flows) {
        let Some(formula) = UdpPortFormula::read(nic.udp_port_formula()) else {
            continue;
        };
        // One that is not found is a fault by itself.
        let Ok(port) = topology.nic(nic) else {
            continue;
        };
        let place = format!("{list}[{at}]{part}");
        let declared = topology.host_port(&port.name);
        let (other, who) = match declared.and_then(|port| port.udp_port_formula) {
            Some(declared) => (declared, format!("host port {}", port.name)),
            None => {
                let first = before.entry(port.name.clone());
                first.or_insert_with(|| (formula, place.clone())).clone()
            }
        };
        if other != formula {
            let reason = format!("{}, and {who} says {}", formula.as_str(), other.as_str());
            let place = below(field, &place);
            faults.fault(below(&place, "udp_port_formula"), reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::fact::{Fact, Resource};
    use crate::fabric::topology::tests::with_nics;

    fn named(name: &str) -> v1::Nic {
        v1::Nic {
            host_port_name: name.to_owned(),
            ..v1::Nic::default()
        }
    }

    fn at(address: &str, vni: Option<u32>) -> v1::Nic {
        v1::Nic {
            address: address.to_owned(),
            vni,
            ..v1::Nic::default()
        }
    }

    fn job(name: &str, hosts: &[&str], ranks: &[v1::Nic]) -> v1::Job {
        v1::Job {
            name: name.to_owned(),
            host_names: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ranks: ranks.to_vec(),
            ..v1::Job::default()
        }
    }

    fn found(topology: &Topology, job: &v1::Job) -> (Vec<String>, String) {
        let mut faults = InvalidFabric::default();
        let nics = Nics::find(topology, job, "resource", &mut faults);
        let ranks = nics.ranks.iter().map(|port| port.name.to_string());
        (ranks.collect(), faults.to_string())
    }

    #[test]
    fn hosts_alone_are_a_rank_for_each_of_their_nics_by_rail() {
        let topology = with_nics(2, 2, 2);
        let (ranks, faults) = found(&topology, &job("train", &["h2-1", "h1-1"], &[]));
        assert_eq!(ranks, ["leaf2:nic1", "leaf1:nic1"]);
        assert_eq!(faults, "");
        let (_, faults) = found(&topology, &job("train", &["h9"], &[]));
        assert_eq!(faults, "resource.host_names[0]: no host is named \"h9\"");
    }

    #[test]
    fn a_nic_is_found_by_its_port_or_by_an_address_that_only_it_has() {
        let topology = with_nics(2, 2, 2);
        let address = "192.168.1.1";
        let (ranks, faults) = found(
            &topology,
            &job("train", &[], &[named("leaf1:nic2"), at(address, Some(100))]),
        );
        assert_eq!(
            (ranks.join(" "), faults.as_str()),
            ("leaf1:nic2 leaf1:nic1".to_owned(), "")
        );
        let wrong = [
            named("leaf9:nic1"),
            at("192.0.2.200", None),
            at(address, None),
        ];
        let (_, faults) = found(&topology, &job("train", &[], &wrong));
        assert_eq!(
            faults,
            "resource.ranks[0]: no host port is named \"leaf9:nic1\"; \
             resource.ranks[1]: no host port has the address 192.0.2.200; \
             resource.ranks[2]: 192.168.1.1 is there in the VNIs 100 and 200: which one?"
        );
    }

    #[test]
    fn a_nic_that_no_host_port_declares_stands_for_itself_wherever_it_is() {
        let topology = with_nics(2, 2, 2);
        let address = at("192.168.1.1", Some(7));
        let (ranks, faults) = found(&topology, &job("train", &[], &[address]));
        assert_eq!(
            (ranks.join(" "), faults),
            ("vni7:192.168.1.1".to_owned(), String::new())
        );
    }

    #[test]
    fn two_jobs_do_not_have_one_nic() {
        let mut topology = with_nics(2, 2, 2);
        let first = job("first", &["h1-1"], &[]);
        topology.put(Fact::declared(&first).unwrap());
        let second = |ranks: &[v1::Nic]| {
            let mut faults = InvalidFabric::default();
            let fact = job("second", &[], ranks).read("", &mut faults);
            let Fact::Job(fact) = fact else {
                panic!("no job")
            };
            conflicts(&topology, &fact, "resource", &mut faults);
            faults.to_string()
        };
        assert_eq!(second(&[named("leaf1:nic2")]), "");
        let said = second(&[named("leaf2:nic1"), named("leaf1:nic1")]);
        assert_eq!(said, "resource.ranks: job first has the NIC at leaf1:nic1");
    }

    #[test]
    fn a_formula_counts_where_no_host_port_says_another() {
        let mut topology = with_nics(2, 2, 2);
        let formula = |address: &str, vni, formula| {
            let mut nic = at(address, Some(vni));
            nic.set_udp_port_formula(formula);
            nic
        };
        let (kernel, xor) = (v1::UdpPortFormula::Kernel, v1::UdpPortFormula::Xor);
        let of = |topology: &Topology, nic: &v1::Nic| topology.nic(nic).unwrap().udp_port_formula;
        let undeclared = formula("192.168.1.1", 7, kernel);
        let declared = formula("192.168.1.1", 100, kernel);
        assert_eq!(of(&topology, &undeclared), Some(UdpPortFormula::Kernel));
        assert_eq!(of(&topology, &declared), Some(UdpPortFormula::Kernel));
        let said = |topology: &Topology, ranks: &[v1::Nic]| {
            let mut faults = InvalidFabric::default();
            formulas(topology, &job("train", &[], ranks), "resource", &mut faults);
            faults.to_string()
        };
        let again = formula("192.168.1.1", 7, xor);
        let ranks = [declared.clone(), undeclared.clone(), again];
        assert_eq!(said(&topology, &ranks[..2]), "");
        assert_eq!(
            said(&topology, &ranks),
            "resource.ranks[2].udp_port_formula: xor, and ranks[1] says kernel"
        );
        let port = topology.nic(&named("leaf1:nic1")).unwrap();
        topology.put(Fact::HostPort(Arc::new(HostPort {
            udp_port_formula: Some(UdpPortFormula::Xor),
            ..HostPort::clone(&port)
        })));
        assert_eq!(of(&topology, &declared), Some(UdpPortFormula::Xor));
        assert_eq!(
            said(&topology, &[declared]),
            "resource.ranks[0].udp_port_formula: kernel, and host port leaf1:nic1 says xor"
        );
    }

    #[test]
    fn ranks_of_a_group_exist_and_degrees_multiply_to_what_the_hosts_have() {
        let topology = with_nics(2, 2, 2);
        let mut job = job("train", &["h1-1", "h2-1"], &[]);
        job.groups = vec![v1::CollectiveGroup {
            ranks: vec![0, 2],
            ..v1::CollectiveGroup::default()
        }];
        job.layout = vec![v1::LayoutDimension {
            name: "dp".to_owned(),
            degree: 3,
        }];
        let (_, faults) = found(&topology, &job);
        assert_eq!(
            faults,
            "resource.layout: the degrees multiply to 3, and the hosts have 2 NICs; \
             resource.groups[0].ranks[1]: 2, and there are 2 ranks"
        );
    }

    #[test]
    fn octets_of_each_pair_are_for_as_many_ranks_as_the_hosts_have() {
        let topology = with_nics(2, 2, 2);
        let mut job = job("train", &["h1-1", "h2-1"], &[]);
        job.groups = vec![v1::CollectiveGroup {
            collective: v1::Collective::AllToAllV.into(),
            pair_octets: vec![1; 4],
            ..v1::CollectiveGroup::default()
        }];
        assert_eq!(found(&topology, &job).1, "");
        job.groups[0].pair_octets.push(1);
        assert_eq!(
            found(&topology, &job).1,
            "resource.groups[0].pair_octets: 5 entries, and 2 ranks have 4 pairs"
        );
        // Of named ranks as many as are named.
        job.groups[0].ranks = vec![1];
        job.groups[0].pair_octets = vec![1];
        assert_eq!(found(&topology, &job).1, "");
    }
}
