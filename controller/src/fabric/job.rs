//! What a job names, found in the fabric: the NIC of every rank, and who else has it. Pure. It refuses to know what NICs send.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_proto::v1;

use super::fact::{RANKS_MAX, UdpPortFormula, below, is_square};
use super::topology::{HostPort, InvalidFabric, Job, PortName, SwitchName, Topology};

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
                true => of_hosts(topology, &job.host_names, field, faults),
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
                    .map_err(|reason| unnamed(&below(&field, part), &reason, faults))
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
        if job.ranks.is_empty() && ranks > RANKS_MAX {
            let reason = format!("the hosts have {ranks} NICs, at most {RANKS_MAX}");
            faults.fault(below(field, "host_names"), reason);
        }
        if !job.groups.is_empty() && job.ranks.is_empty() && ranks == 0 {
            // Hosts without a NIC are faults by themselves.
            if job.host_names.is_empty() {
                faults.fault(below(field, "ranks"), "none, and no host_names");
            }
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

    /// The leaves that they are behind.
    pub fn leaves(&self) -> BTreeSet<&SwitchName> {
        let all = self.ranks.iter().chain(self.flows.iter().flatten());
        all.map(|port| &port.switch).collect()
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

/// Says why it is not known which NIC is meant, unless it is said already how it is named.
fn unnamed(field: &str, reason: &str, faults: &mut InvalidFabric) {
    let address = below(field, "address");
    let is_said = |said: &str| said == field || said == address;
    if !faults.faults.iter().any(|it| is_said(&it.field)) {
        faults.fault(field, reason);
    }
}

/// Each NIC of each host, in order of rails.
fn of_hosts(
    topology: &Topology,
    hosts: &[String],
    field: &str,
    faults: &mut InvalidFabric,
) -> Vec<Arc<HostPort>> {
    let mut all = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let mut ports = topology.ports_of(host);
        if ports.is_empty() && topology.has_host(host) {
            let reason = format!("host {host} has no host port");
            faults.fault(below(field, &format!("host_names[{at}]")), reason);
        }
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
            Err(reason) => unnamed(&below(field, &format!("ranks[{at}]")), &reason, faults),
        }
    }
    all
}

/// Says what is wrong with what a job names of the fabric, and which of its NICs another job has. One that was stored before such a
/// rule is not asked again as long as it names the same.
pub(super) fn conflicts(topology: &Topology, job: &Job, field: &str, faults: &mut InvalidFabric) {
    let declared = &job.declared;
    if !declared.host_names.is_empty() && !declared.ranks.is_empty() {
        let reason = "ranks are given too: a job names its hosts or its ranks";
        faults.fault(below(field, "host_names"), reason);
    }
    let nics = Nics::find(topology, declared, field, faults);
    // One that is not found is a rank, too.
    let ranks = declared.ranks.len().max(nics.ranks.len());
    lone_ranks(declared, ranks, field, faults);
    formulas(topology, declared, field, faults);
    taken(topology, job, field, faults);
}

/// Says which NICs of a job another one has: of each other job the first.
fn taken(topology: &Topology, job: &Job, field: &str, faults: &mut InvalidFabric) {
    let declared = &job.declared;
    let mut said = BTreeSet::new();
    let mut look = |port: &HostPort, place: &dyn Fn() -> String| {
        for other in topology.jobs_with(port) {
            let is_new = *other != job.name && said.len() < OTHERS_MAX && said.insert(other);
            if is_new {
                let reason = format!("job {other} has the NIC at {}", port.name);
                faults.fault(below(field, &place()), reason);
            }
        }
    };
    for (at, nic) in declared.ranks.iter().enumerate() {
        if let Ok(port) = topology.nic(nic) {
            look(&port, &|| format!("ranks[{at}]"));
        }
    }
    let hosts = declared.host_names.iter().enumerate();
    for (at, host) in hosts.filter(|_| declared.ranks.is_empty()) {
        for port in topology.ports_of(host) {
            look(&port, &|| format!("host_names[{at}]"));
        }
    }
    for (at, flow) in declared.flows.iter().enumerate() {
        for (part, end) in [("source", &flow.source), ("destination", &flow.destination)] {
            if let Some(Ok(port)) = end.as_ref().map(|nic| topology.nic(nic)) {
                look(&port, &|| format!("flows[{at}].{part}"));
            }
        }
    }
}

/// Says which groups have one rank, from which nothing can be sent to the next one. Along a dimension of one rank nothing is sent, as
/// by any collective.
fn lone_ranks(job: &v1::Job, ranks: usize, field: &str, faults: &mut InvalidFabric) {
    for (at, group) in job.groups.iter().enumerate() {
        let count = match group.ranks.len() {
            0 => ranks,
            named => named,
        };
        let is_sent = group.collective() == v1::Collective::SendReceive;
        if is_sent && group.dimension.is_empty() && count == 1 {
            let field = below(field, &format!("groups[{at}].ranks"));
            faults.fault(field, "1 rank, and each sends to the next one: at least 2");
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

/// Other jobs that are named to the caller: an error shows no more faults.
const OTHERS_MAX: usize = 100;

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::fabric::fact::{Fact, Resource};
    use crate::fabric::topology::tests::with_nics;

    /// A NIC by its host port.
    pub(in crate::fabric) fn named(name: &str) -> v1::Nic {
        v1::Nic {
            host_port_name: name.to_owned(),
            ..v1::Nic::default()
        }
    }

    /// A NIC by its address.
    pub(in crate::fabric) fn at(address: &str, vni: Option<u32>) -> v1::Nic {
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
        let why = "job first has the NIC at leaf1:nic1";
        assert_eq!(said, format!("resource.ranks[1]: {why}"));
        let by_host = job("second", &["h2-1", "h1-1"], &[]);
        let said = refused(&topology, &by_host);
        assert_eq!(said, format!("resource.host_names[1]: {why}"));
        for (part, source, destination) in [
            ("source", "leaf1:nic1", "leaf2:nic1"),
            ("destination", "leaf2:nic1", "leaf1:nic1"),
        ] {
            let flow = |source, destination| v1::JobFlow {
                source: Some(named(source)),
                destination: Some(named(destination)),
                octets: 1,
                ..v1::JobFlow::default()
            };
            let by_flow = v1::Job {
                flows: vec![flow("leaf2:nic1", "leaf2:nic2"), flow(source, destination)],
                ..job("second", &[], &[])
            };
            let said = refused(&topology, &by_flow);
            assert_eq!(said, format!("resource.flows[1].{part}: {why}"));
        }
    }

    /// What is wrong with a job that somebody declares.
    fn refused(topology: &Topology, job: &v1::Job) -> String {
        let mut faults = InvalidFabric::default();
        job.check("resource", &mut faults);
        let Fact::Job(fact) = job.read("resource", &mut faults) else {
            panic!("no job")
        };
        conflicts(topology, &fact, "resource", &mut faults);
        faults.to_string()
    }

    fn group(collective: v1::Collective, ranks: &[u32]) -> v1::CollectiveGroup {
        v1::CollectiveGroup {
            name: "group".to_owned(),
            collective: collective.into(),
            ranks: ranks.to_vec(),
            octets: 1,
            ..v1::CollectiveGroup::default()
        }
    }

    #[test]
    fn a_host_without_a_host_port_is_named() {
        let mut topology = with_nics(2, 2, 2);
        let bare = v1::Host {
            name: "h5".to_owned(),
            ..v1::Host::default()
        };
        topology.put(Fact::declared(&bare).unwrap());
        let mut job = job("train", &["h1-1", "h5"], &[]);
        let why = "host_names[1]: host h5 has no host port";
        assert_eq!(refused(&topology, &job), format!("resource.{why}"));
        // Also where nobody asks who has declared it.
        assert_eq!(found(&topology, &job).1, format!("resource.{why}"));
        job.host_names.remove(0);
        job.groups = vec![group(v1::Collective::AllReduce, &[])];
        let why = "resource.host_names[0]: host h5 has no host port";
        assert_eq!(refused(&topology, &job), why);
        job.host_names.clear();
        let why = "resource.ranks: none, and no host_names";
        assert_eq!(refused(&topology, &job), why);
    }

    #[test]
    fn a_job_names_its_hosts_or_its_ranks() {
        let topology = with_nics(2, 2, 2);
        let mut both = job("train", &["h1-1"], &[named("leaf1:nic1")]);
        let said = refused(&topology, &both);
        let why = "resource.host_names: ranks are given too: a job names its hosts or its ranks";
        assert_eq!(said, why);
        both.host_names.clear();
        assert_eq!(refused(&topology, &both), "");
    }

    #[test]
    fn one_rank_sends_to_nobody() {
        use v1::Collective::{AllReduce, SendReceive};
        let topology = with_nics(2, 2, 2);
        let why = "resource.groups[0].ranks: 1 rank, and each sends to the next one: at least 2";
        let (one, two) = (
            job("train", &["h1-1"], &[]),
            job("train", &["h1-1", "h2-1"], &[]),
        );
        for (of, group, expected) in [
            (&one, group(SendReceive, &[]), why),
            (&one, group(AllReduce, &[]), ""),
            (&two, group(SendReceive, &[]), ""),
            (&two, group(SendReceive, &[1]), why),
            (&two, group(SendReceive, &[1, 0]), ""),
        ] {
            let job = v1::Job {
                groups: vec![group],
                ..of.clone()
            };
            assert_eq!(refused(&topology, &job), expected);
        }
    }

    #[test]
    fn what_is_wrong_with_the_name_of_a_nic_is_said_once() {
        let topology = with_nics(2, 2, 2);
        let unnamed = job("train", &[], &[v1::Nic::default()]);
        let why = "resource.ranks[0]: neither host_port_name nor address";
        assert_eq!(refused(&topology, &unnamed), why);
        let no_address = job("train", &[], &[at("nic", None)]);
        let why = "resource.ranks[0].address: \"nic\" is not an IP address";
        assert_eq!(refused(&topology, &no_address), why);
        let flow = v1::JobFlow {
            source: Some(named("leaf1:nic1")),
            destination: Some(v1::Nic::default()),
            octets: 1,
            ..v1::JobFlow::default()
        };
        let flows = v1::Job {
            flows: vec![flow],
            ..job("train", &[], &[])
        };
        let why = "resource.flows[0].destination: neither host_port_name nor address";
        assert_eq!(refused(&topology, &flows), why);
    }

    #[test]
    fn too_many_ranks_are_no_fault_of_hosts() {
        let topology = with_nics(2, 2, 2);
        let ranks = vec![named("leaf1:nic1"); RANKS_MAX + 1];
        let (_, faults) = found(&topology, &job("train", &[], &ranks));
        assert_eq!(faults, "");
        let said = refused(&topology, &job("train", &[], &ranks));
        assert!(said.starts_with("resource"), "{said}");
        assert!(!said.contains("host_names"), "{said}");
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
