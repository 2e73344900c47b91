//! From the queue pairs that a job names to the UDP source ports that switches tell them apart by, and to the spine of each.
//!
//! A flow that has to be divided among spines is divided by whole queue pairs, in order of their ports, so that equal paths give
//! equal answers on every replica. Queue pairs on one port go together. Pure. It refuses to know how a flow came to be divided.

use std::collections::BTreeMap;

use weft_proto::v1;

use crate::fabric::fact::UdpPortFormula;
use crate::fabric::job::Nics;
use crate::fabric::topology::{InvalidFabric, Job, PortName, Topology};

/// The UDP source ports of what one NIC sends to another, in order; one for each queue pair.
pub(super) type Ports = Vec<u16>;

/// By the names of the host ports of the NIC that sends and of the one that takes.
pub(super) type PortsOf = BTreeMap<(PortName, PortName), Ports>;

/// The ports of the queue pairs of a job, for the pairs of NICs of which all are known.
pub(super) fn of_job(topology: &Topology, job: &Job) -> PortsOf {
    if job.declared.flows.iter().all(|flow| flow.pairs.is_empty()) {
        return PortsOf::new();
    }
    let mut faults = InvalidFabric::default();
    let nics = Nics::find(topology, &job.declared, "", &mut faults);
    if !faults.is_empty() {
        return PortsOf::new();
    }
    let formulas = formulas(&nics);
    let mut known: BTreeMap<_, Option<Ports>> = BTreeMap::new();
    for (flow, [from, to]) in job.declared.flows.iter().zip(&nics.flows) {
        // What it sends goes over the queue pairs that another flow of these NICs names, if one does.
        if flow.pairs.is_empty() {
            continue;
        }
        let formula = formulas.get(&from.name).copied();
        let port = |pair| port(formula, pair);
        let ports: Option<Ports> = flow.pairs.iter().map(port).collect();
        let ends = (from.name.clone(), to.name.clone());
        let all = known.entry(ends).or_insert_with(|| Some(Ports::new()));
        // One that is not known may have any port.
        match (all.as_mut(), ports) {
            (Some(all), Some(ports)) => all.extend(ports),
            _ => *all = None,
        }
    }
    let known = known.into_iter().filter_map(|(ends, ports)| {
        let mut ports = ports?;
        ports.sort_unstable();
        Some((ends, ports))
    });
    known.collect()
}

/// How NICs of a job make their ports, by their host ports: a NIC does not need to be told so wherever the job names it.
fn formulas(nics: &Nics) -> BTreeMap<&PortName, UdpPortFormula> {
    let mut known = BTreeMap::new();
    for port in nics.ranks.iter().chain(nics.flows.iter().flatten()) {
        if let Some(formula) = port.udp_port_formula {
            known.entry(&port.name).or_insert(formula);
        }
    }
    known
}

/// The UDP source port of a queue pair; None: nobody knows.
fn port(formula: Option<UdpPortFormula>, pair: &v1::QueuePair) -> Option<u16> {
    if let Some(seen) = pair.udp_source_port {
        return u16::try_from(seen).ok();
    }
    let numbers = (pair.source_number, pair.destination_number);
    let both = numbers.0 > 0 && numbers.1 > 0;
    match (formula?, pair.flow_label.unwrap_or(0)) {
        (UdpPortFormula::Kernel, 0) if both => Some(port_of_label(label_of_numbers(numbers))),
        (UdpPortFormula::Kernel, 0) => None,
        (UdpPortFormula::Kernel, label) => Some(port_of_label(label)),
        (UdpPortFormula::Xor, _) if both => Some(port_of_xor(numbers)),
        (UdpPortFormula::Xor, _) => None,
    }
}

/// Linux, rdma_calc_flow_label: the product, folded to 20 bits.
fn label_of_numbers((source, destination): (u32, u32)) -> u32 {
    let mut product = u64::from(source) * u64::from(destination);
    product ^= product >> 20;
    product ^= product >> 40;
    (product & 0xf_ffff) as u32
}

/// Linux, rdma_flow_label_to_udp_sport: 20 bits folded to 14.
fn port_of_label(label: u32) -> u16 {
    let folded = (label & 0x3fff) ^ ((label & 0xf_c000) >> 14);
    EPHEMERAL | folded as u16
}

/// RoCEv2 UDP source port entropy, as proposed for Linux in 2018: of reliable connections, each number folded from 24 bits to 16.
fn port_of_xor((source, destination): (u32, u32)) -> u16 {
    let fold = |number: u32| (number ^ (number >> 16)) as u16;
    match source == destination {
        true => EPHEMERAL | fold(source),
        false => EPHEMERAL | (fold(source) ^ fold(destination)),
    }
}

/// The path of each port: a place among paths of these weights, which sum to more than 0. A port of several queue pairs counts as
/// many; each path has about as many queue pairs as its weight says.
pub(super) fn divided<'a>(
    ports: &'a [u16],
    weights: &'a [u32],
) -> impl Iterator<Item = (u16, usize, usize)> + 'a {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let all = ports.len() as u64;
    let mut before = 0_u64;
    ports.chunk_by(|a, b| a == b).map(move |same| {
        // Where the middle of these is, of twice all.
        let middle = 2 * before + same.len() as u64;
        before += same.len() as u64;
        let mut reached = 0;
        let path = weights.iter().position(|weight| {
            reached += u64::from(*weight);
            middle * total < reached * 2 * all
        });
        let last = weights.len().saturating_sub(1);
        (same[0], same.len(), path.unwrap_or(last))
    })
}

/// IANA's range of ephemeral ports, from which RoCEv2 takes its source ports.
const EPHEMERAL: u16 = 0xc000;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::HostPort;
    use crate::fabric::topology::tests::with_nics;

    fn pair(source: u32, destination: u32) -> v1::QueuePair {
        v1::QueuePair {
            source_number: source,
            destination_number: destination,
            ..v1::QueuePair::default()
        }
    }

    #[test]
    fn ports_are_those_of_linux() {
        // By hand from include/rdma/ib_verbs.h: 0x11 * 0x12 = 0x132; 0x4001 * 0x8003 = 0x2001_4003, folded
        // 0x2001_4003 ^ 0x200 = 0x2001_4203, 20 bits of it 0x14203, and 0x0203 ^ 0x5 with the lowest 14 bits.
        let kernel = |pair| port(Some(UdpPortFormula::Kernel), &pair);
        assert_eq!(kernel(pair(0x11, 0x12)), Some(0xc000 | 0x132));
        assert_eq!(kernel(pair(0x4001, 0x8003)), Some(0xc000 | 0x206));
        let labelled = v1::QueuePair {
            flow_label: Some(0xf_c001),
            ..v1::QueuePair::default()
        };
        assert_eq!(kernel(labelled), Some(0xc000 | (0x1 ^ 0x3f)));
        assert_eq!(kernel(pair(0x11, 0)), None);
    }

    #[test]
    fn ports_by_xor_are_the_same_from_both_ends() {
        let xor = |pair| port(Some(UdpPortFormula::Xor), &pair);
        assert_eq!(xor(pair(0x01_0203, 0x04_0506)), Some(0xc000 | 0x0700));
        assert_eq!(xor(pair(0x04_0506, 0x01_0203)), Some(0xc000 | 0x0700));
        assert_eq!(xor(pair(0x11, 0x11)), Some(0xc011));
    }

    #[test]
    fn what_was_seen_is_believed_and_what_nobody_knows_is_none() {
        let seen = v1::QueuePair {
            udp_source_port: Some(4_791),
            ..pair(1, 2)
        };
        assert_eq!(port(None, &seen), Some(4_791));
        assert_eq!(port(None, &pair(1, 2)), None);
    }

    /// A flow of one queue pair from a NIC to the one behind leaf2:nic1, and what is known of its port.
    fn of_flow(topology: &Topology, source: v1::Nic, ranks: &[v1::Nic]) -> Option<Ports> {
        let message = v1::Job {
            name: "train".to_owned(),
            ranks: ranks.to_vec(),
            flows: vec![v1::JobFlow {
                source: Some(source),
                destination: Some(v1::Nic {
                    host_port_name: "leaf2:nic1".to_owned(),
                    ..v1::Nic::default()
                }),
                octets: 1,
                pairs: vec![pair(0x11, 0x12)],
                ..v1::JobFlow::default()
            }],
            ..v1::Job::default()
        };
        let Fact::Job(job) = Fact::declared(&message).unwrap() else {
            panic!("no job")
        };
        let mut ports = of_job(topology, &job).into_values();
        let first = ports.next();
        assert!(ports.next().is_none(), "one pair of NICs");
        first
    }

    #[test]
    fn a_nic_that_no_host_port_declares_has_the_formula_of_its_job() {
        let topology = with_nics(2, 2, 2);
        let nic = |vni: u32, formula: v1::UdpPortFormula| v1::Nic {
            address: "192.168.1.1".to_owned(),
            vni: Some(vni),
            udp_port_formula: formula.into(),
            ..v1::Nic::default()
        };
        let unknown = nic(7, v1::UdpPortFormula::Unspecified);
        let kernel = nic(7, v1::UdpPortFormula::Kernel);
        assert_eq!(of_flow(&topology, unknown.clone(), &[]), None);
        let kernels = Some(vec![0xc000 | 0x132]);
        assert_eq!(of_flow(&topology, kernel.clone(), &[]), kernels);
        assert_eq!(of_flow(&topology, unknown, &[kernel]), kernels);
        let xor = nic(100, v1::UdpPortFormula::Xor);
        let xors = Some(vec![0xc000 | (0x11 ^ 0x12)]);
        assert_eq!(of_flow(&topology, xor.clone(), &[]), xors);
        // What the host port says counts.
        let mut declared = topology;
        let port = declared.host_port(&"leaf1:nic1".into()).unwrap();
        declared.put(Fact::HostPort(Arc::new(HostPort {
            udp_port_formula: Some(UdpPortFormula::Kernel),
            ..HostPort::clone(&port)
        })));
        assert_eq!(of_flow(&declared, xor, &[]), kernels);
    }

    #[test]
    fn queue_pairs_are_divided_in_order_of_their_ports() {
        let ports: Vec<u16> = (1..=16).collect();
        let of = |weights: &[u32]| {
            let mut counts = vec![0; weights.len()];
            divided(&ports, weights).for_each(|(_, count, path)| counts[path] += count);
            counts
        };
        assert_eq!(of(&[11, 5]), [11, 5]);
        assert_eq!(of(&[1, 1]), [8, 8]);
        assert_eq!(of(&[30, 2]), [15, 1]);
        assert_eq!(of(&[16]), [16]);
        let same: Vec<_> = divided(&[7, 7, 7, 9], &[1, 1]).collect();
        assert_eq!(same, [(7, 3, 0), (9, 1, 1)]);
    }

    proptest! {
        #[test]
        fn each_path_is_off_by_less_than_the_queue_pairs_of_a_port(
            mut ports in prop::collection::vec(0_u16..40, 1..64),
            weights in prop::collection::vec(1_u32..32, 1..8),
        ) {
            ports.sort_unstable();
            let mut counts = vec![0; weights.len()];
            divided(&ports, &weights).for_each(|(_, count, path)| counts[path] += count);
            prop_assert_eq!(counts.iter().sum::<usize>(), ports.len());
            let most = ports.chunk_by(|a, b| a == b).map(<[u16]>::len).max().unwrap();
            let total: u32 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let wanted = ports.len() as f64 * f64::from(*weight) / f64::from(total);
                prop_assert!((*count as f64 - wanted).abs() <= most as f64 + 1e-9);
            }
        }
    }
}
