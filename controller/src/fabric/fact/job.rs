//! A job as it is declared, and what it must be for anybody to declare it. It refuses to know the fabric that it runs on.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use prost::Message;
use weft_proto::v1;

use super::limits::{is_name, labels, name, not_a_name};
use super::{Fact, InvalidFabric, JobName, Kind, Resource, below};

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Unique.
    pub name: JobName,
    /// As it was declared, without what is made of that: neither etag nor ttl.
    pub declared: v1::Job,
}

// A job has no field that differs from itself.
impl Eq for Job {}

impl Job {
    /// Seconds since 1970 at which it counts as ended, rounded up; None: never.
    pub fn expires(&self) -> Option<i64> {
        let time = self.declared.expire_time?;
        Some(time.seconds.saturating_add(i64::from(time.nanos > 0)))
    }

    /// Octets of memory that the job takes on a replica, about: those of its message, and a round number for each NIC and each list
    /// entry, whose octets on the wire may be two. It depends on the job alone, so that all replicas count the same.
    pub fn octets(&self) -> usize {
        let job = &self.declared;
        let nics = job.host_names.len() + job.ranks.len() + 2 * job.flows.len();
        let lists = 1 + job.layout.len() + job.groups.len() + job.labels.len();
        let groups = job.groups.iter();
        let numbers: usize = groups
            .map(|group| group.ranks.len() + group.pair_octets.len())
            .sum();
        let pairs: usize = job.flows.iter().map(|flow| flow.pairs.len()).sum();
        job.encoded_len()
            + (nics + lists) * ENTRY_OCTETS
            + pairs * PAIR_OCTETS
            + numbers * NUMBER_OCTETS
    }

    /// Names what the job does, lease and labels aside: equal for equal work, whoever asks which replica.
    pub fn fingerprint(&self) -> u64 {
        let work = v1::Job {
            expire_time: None,
            labels: BTreeMap::default(),
            ..self.declared.clone()
        };
        let mut hasher = fnv::FnvHasher::default();
        hasher.write(&work.encode_to_vec());
        hasher.finish()
    }

    /// Whether it names the same of the fabric, and does the same, as another one: all but its lease and its labels.
    pub fn names_same(&self, other: &Self) -> bool {
        let (a, b) = (&self.declared, &other.declared);
        std::ptr::eq(self, other)
            || (&a.host_names, &a.ranks, &a.layout, &a.groups, &a.flows)
                == (&b.host_names, &b.ranks, &b.layout, &b.groups, &b.flows)
                && (a.balance_mode, a.priority) == (b.balance_mode, b.priority)
    }
}

impl Resource for v1::Job {
    const KIND: Kind = Kind::Job;
    const MESSAGE: &'static str = "weft.v1.Job";

    fn name(&self) -> &str {
        &self.name
    }

    fn etag(&self) -> &str {
        &self.etag
    }

    fn check(&self, field: &str, faults: &mut InvalidFabric) {
        check(self, field, faults);
    }

    fn read(&self, _: &str, _: &mut InvalidFabric) -> Fact {
        Fact::Job(Arc::new(Job {
            name: self.name.as_str().into(),
            declared: Self {
                etag: String::new(),
                ttl: None,
                ..self.clone()
            },
        }))
    }

    fn of(fact: &Fact) -> Option<Self> {
        let Fact::Job(job) = fact else {
            return None;
        };
        Some(Self {
            etag: fact.etag(),
            ..job.declared.clone()
        })
    }
}

fn check(job: &v1::Job, field: &str, faults: &mut InvalidFabric) {
    name(&job.name, field, faults);
    let octets = job.encoded_len();
    if octets > OCTETS_MAX {
        let reason = format!("{octets} octets, at most {OCTETS_MAX}");
        faults.fault(field, reason);
        return;
    }
    if let Some(time) = &job.expire_time
        && !(0..=SECONDS_MAX).contains(&time.seconds)
    {
        faults.fault(below(field, "expire_time"), "not a time after 1970");
    }
    let counts = [
        ("ranks", job.ranks.len(), RANKS_MAX),
        ("groups", job.groups.len(), GROUPS_MAX),
        ("flows", job.flows.len(), FLOWS_MAX),
    ];
    for (part, count, most) in counts {
        if count > most {
            let reason = format!("{count} entries, at most {most}");
            faults.fault(below(field, part), reason);
        }
    }
    if v1::BalanceMode::try_from(job.balance_mode).is_err() {
        let reason = format!("{} is no mode", job.balance_mode);
        faults.fault(below(field, "balance_mode"), reason);
    }
    if job.priority > PRIORITY_MAX {
        let reason = format!("{} is not 0 to {PRIORITY_MAX}", job.priority);
        faults.fault(below(field, "priority"), reason);
    }
    hosts(job, field, faults);
    for (at, rank) in job.ranks.iter().enumerate() {
        nic(rank, &below(field, &format!("ranks[{at}]")), faults);
    }
    layout(job, field, faults);
    for (at, group) in job.groups.iter().enumerate() {
        let field = below(field, &format!("groups[{at}]"));
        check_group(job, group, &field, faults);
        let before = job.groups[..at].iter();
        if before.clone().any(|other| other.name == group.name) && !group.name.is_empty() {
            let reason = format!("a second group named {:?}", group.name);
            faults.fault(below(&field, "name"), reason);
        }
    }
    for (at, flow) in job.flows.iter().enumerate() {
        check_flow(flow, &below(field, &format!("flows[{at}]")), faults);
    }
    labels(&job.labels, field, faults);
}

fn hosts(job: &v1::Job, field: &str, faults: &mut InvalidFabric) {
    let mut seen = BTreeSet::new();
    for (at, host) in job.host_names.iter().enumerate() {
        if !seen.insert(host.as_str()) {
            let reason = format!("{host:?} stands there twice");
            faults.fault(below(field, &format!("host_names[{at}]")), reason);
        }
    }
}

/// One way to name a NIC, and not two.
fn nic(nic: &v1::Nic, field: &str, faults: &mut InvalidFabric) {
    if !nic.host_name.is_empty() {
        let field = below(field, "host_name");
        match nic.vni {
            _ if !is_name(&nic.host_name) => faults.fault(field, not_a_name(&nic.host_name)),
            Some(_) if nic.host_port_name.is_empty() => {}
            _ => faults.fault(field, "only of a NIC that an address and a VNI name"),
        }
    }
    match v1::UdpPortFormula::try_from(nic.udp_port_formula) {
        Ok(v1::UdpPortFormula::Unspecified) => {}
        Ok(_) if nic.host_port_name.is_empty() => {}
        Ok(_) => faults.fault(
            below(field, "udp_port_formula"),
            "only of a NIC that an address names: its host port says it",
        ),
        Err(_) => faults.fault(below(field, "udp_port_formula"), "not a formula"),
    }
    match (nic.host_port_name.as_str(), nic.address.as_str()) {
        ("", "") => faults.fault(field, "neither host_port_name nor address"),
        ("", address) if address.parse::<IpAddr>().is_err() => {
            let reason = format!("{address:?} is not an IP address");
            faults.fault(below(field, "address"), reason);
        }
        ("", _) => {}
        (_, "") if nic.vni.is_none() => {}
        (_, "") => faults.fault(below(field, "vni"), "host_port_name says which NIC it is"),
        (_, _) => faults.fault(
            below(field, "address"),
            "host_port_name says which NIC it is",
        ),
    }
}

fn layout(job: &v1::Job, field: &str, faults: &mut InvalidFabric) {
    let mut seen = BTreeSet::new();
    let mut product: u64 = 1;
    for (at, dimension) in job.layout.iter().enumerate() {
        let field = below(field, &format!("layout[{at}]"));
        let text = dimension.name.as_str();
        if !is_name(text) {
            faults.fault(below(&field, "name"), not_a_name(text));
        } else if !seen.insert(text) {
            let reason = format!("a second dimension named {text:?}");
            faults.fault(below(&field, "name"), reason);
        }
        if dimension.degree == 0 {
            faults.fault(below(&field, "degree"), "missing, or 0");
        }
        product = product.saturating_mul(dimension.degree.into());
    }
    // Without ranks only the fabric says how many there are.
    let ranks = job.ranks.len() as u64;
    if !job.layout.is_empty() && ranks > 0 && product != ranks {
        let reason = format!("the degrees multiply to {product}, and there are {ranks} ranks");
        faults.fault(below(field, "layout"), reason);
    }
}

fn check_group(
    job: &v1::Job,
    group: &v1::CollectiveGroup,
    field: &str,
    faults: &mut InvalidFabric,
) {
    name(&group.name, field, faults);
    let collective = v1::Collective::try_from(group.collective).ok();
    let collective = collective.filter(|it| *it != v1::Collective::Unspecified);
    if collective.is_none() {
        faults.fault(below(field, "collective"), "not a collective");
    }
    match v1::CollectiveAlgorithm::try_from(group.algorithm) {
        Ok(v1::CollectiveAlgorithm::Unspecified) => {}
        Ok(_) if collective == Some(v1::Collective::AllReduce) => {}
        Ok(_) => faults.fault(below(field, "algorithm"), "only an all-reduce has a choice"),
        Err(_) => faults.fault(below(field, "algorithm"), "not an algorithm"),
    }
    check_octets(job, group, field, faults);
    within(group.channels, "channels", CHANNELS_MAX, field, faults);
    within(
        group.queue_pairs,
        "queue_pairs",
        QUEUE_PAIRS_MAX,
        field,
        faults,
    );
    if !group.dimension.is_empty() {
        if !job.layout.iter().any(|it| it.name == group.dimension) {
            let reason = format!("the layout has no dimension {:?}", group.dimension);
            faults.fault(below(field, "dimension"), reason);
        }
        if !group.ranks.is_empty() {
            faults.fault(below(field, "ranks"), "a dimension is named too");
        }
    }
    let mut seen = BTreeSet::new();
    for (at, rank) in group.ranks.iter().enumerate() {
        if !seen.insert(rank) {
            let reason = format!("{rank} stands there twice");
            faults.fault(below(field, &format!("ranks[{at}]")), reason);
        }
    }
}

/// Octets of a buffer, or of each two ranks.
fn check_octets(
    job: &v1::Job,
    group: &v1::CollectiveGroup,
    field: &str,
    faults: &mut InvalidFabric,
) {
    let pairs = &group.pair_octets;
    if group.collective() != v1::Collective::AllToAllV {
        if group.octets == 0 {
            faults.fault(below(field, "octets"), "missing, or 0");
        }
        if !pairs.is_empty() {
            faults.fault(below(field, "pair_octets"), "only an all-to-all-v has them");
        }
        return;
    }
    if group.octets > 0 {
        let reason = "pair_octets says how many an all-to-all-v sends";
        faults.fault(below(field, "octets"), reason);
    }
    let field = below(field, "pair_octets");
    if pairs.is_empty() {
        faults.fault(field, "missing");
        return;
    }
    if pairs.len() > PAIR_OCTETS_MAX {
        let reason = format!("{} entries, at most {PAIR_OCTETS_MAX}", pairs.len());
        faults.fault(field, reason);
        return;
    }
    // Without ranks of the job only the fabric says how many a group of all has.
    let all = Some(job.ranks.len()).filter(|ranks| *ranks > 0);
    let Some(ranks) = ranks_of(job, group, all) else {
        return;
    };
    if let Err(reason) = is_square(group, ranks) {
        faults.fault(field, reason);
        return;
    }
    let is_other = |at: usize| at / ranks != at % ranks;
    let mut others = (0..).zip(pairs).filter(|(at, _)| is_other(*at));
    if others.all(|(_, octets)| *octets == 0) {
        faults.fault(field, "0 between any two ranks");
    }
}

/// How many ranks each group of a group has, where the job has so many; None: that is not known, or there is no such dimension.
fn ranks_of(job: &v1::Job, group: &v1::CollectiveGroup, all: Option<usize>) -> Option<usize> {
    if !group.dimension.is_empty() {
        let found = job.layout.iter().find(|it| it.name == group.dimension);
        return found.map(|dimension| dimension.degree as usize);
    }
    match group.ranks.len() {
        0 => all,
        ranks => Some(ranks),
    }
}

/// Whether there are octets for each two of so many ranks, or why not.
pub(in crate::fabric) fn is_square(
    group: &v1::CollectiveGroup,
    ranks: usize,
) -> Result<(), String> {
    let count = group.pair_octets.len();
    match ranks.checked_mul(ranks) {
        Some(square) if square == count => Ok(()),
        Some(square) => Err(format!(
            "{count} entries, and {ranks} ranks have {square} pairs"
        )),
        None => Err(format!("{count} entries, and there are {ranks} ranks")),
    }
}

fn check_flow(flow: &v1::JobFlow, field: &str, faults: &mut InvalidFabric) {
    for (part, end) in [("source", &flow.source), ("destination", &flow.destination)] {
        let field = below(field, part);
        match end {
            Some(end) => nic(end, &field, faults),
            None => faults.fault(field, "missing"),
        }
    }
    if flow.octets == 0 {
        faults.fault(below(field, "octets"), "missing, or 0");
    }
    within(
        flow.queue_pairs,
        "queue_pairs",
        QUEUE_PAIRS_MAX,
        field,
        faults,
    );
    check_pairs(flow, field, faults);
}

fn check_pairs(flow: &v1::JobFlow, field: &str, faults: &mut InvalidFabric) {
    let pairs = flow.pairs.len();
    if pairs > QUEUE_PAIRS_MAX as usize {
        let reason = format!("{pairs} entries, at most {QUEUE_PAIRS_MAX}");
        faults.fault(below(field, "pairs"), reason);
        return;
    }
    if let Some(count) = flow.queue_pairs
        && pairs > 0
        && count as usize != pairs
    {
        let reason = format!("{count}, and pairs has {pairs}");
        faults.fault(below(field, "queue_pairs"), reason);
    }
    for (at, pair) in flow.pairs.iter().enumerate() {
        let field = below(field, &format!("pairs[{at}]"));
        let mut most = |part, value: u32, most: u32| {
            if value > most {
                let reason = format!("{value} is above {most}");
                faults.fault(below(&field, part), reason);
            }
        };
        most("source_number", pair.source_number, NUMBER_MAX);
        most("destination_number", pair.destination_number, NUMBER_MAX);
        most("flow_label", pair.flow_label.unwrap_or(0), FLOW_LABEL_MAX);
        let port = pair.udp_source_port;
        most("udp_source_port", port.unwrap_or(0), u16::MAX.into());
        if port == Some(0) {
            faults.fault(below(&field, "udp_source_port"), "0");
        }
    }
}

fn within(value: Option<u32>, part: &str, most: u32, field: &str, faults: &mut InvalidFabric) {
    if let Some(value) = value
        && !(1..=most).contains(&value)
    {
        let reason = format!("{value} is not 1 to {most}");
        faults.fault(below(field, part), reason);
    }
}

/// A job is a log entry, and every replica holds all of them.
const OCTETS_MAX: usize = 1 << 20;
/// Octets of memory of a NIC with its place in the index of NICs, or of a group, a dimension or a label.
const ENTRY_OCTETS: usize = 256;
/// Octets of memory of a queue pair of a flow.
const PAIR_OCTETS: usize = 32;
/// Octets of memory of a number in a list.
const NUMBER_OCTETS: usize = 8;
/// The end of 9999, the last that a Timestamp can have.
const SECONDS_MAX: i64 = 253_402_300_799;
/// More than one job has had NICs.
pub(in crate::fabric) const RANKS_MAX: usize = 65_536;
/// One for each kind of parallelism and size is some dozen.
const GROUPS_MAX: usize = 1_000;
/// As 256 ranks have, which is more than experts of one layer are divided among; they take most of the octets that a job may have.
const PAIR_OCTETS_MAX: usize = 65_536;
/// As many as ranks: more are a collective.
const FLOWS_MAX: usize = 65_536;
/// As Kubernetes' priorities of a class of pods, of which there are few.
const PRIORITY_MAX: u32 = 1_000;
/// InfiniBand Architecture Specification: a queue pair number has 24 bits, a flow label 20.
const NUMBER_MAX: u32 = 0xff_ffff;
const FLOW_LABEL_MAX: u32 = 0xf_ffff;
/// NCCL's own limit.
const CHANNELS_MAX: u32 = 64;
/// NCCL_IB_QPS_PER_CONNECTION goes so far.
const QUEUE_PAIRS_MAX: u32 = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> v1::Job {
        let rank = |rank: u32| v1::Nic {
            host_port_name: format!("leaf1:eth{rank}"),
            ..v1::Nic::default()
        };
        v1::Job {
            name: "train".to_owned(),
            ranks: (0..4).map(rank).collect(),
            layout: [("tp", 2), ("dp", 2)]
                .map(|(name, degree)| v1::LayoutDimension {
                    name: name.to_owned(),
                    degree,
                })
                .into(),
            groups: vec![v1::CollectiveGroup {
                name: "gradients".to_owned(),
                collective: v1::Collective::AllReduce.into(),
                dimension: "dp".to_owned(),
                octets: 1 << 30,
                ..v1::CollectiveGroup::default()
            }],
            flows: vec![v1::JobFlow {
                source: Some(rank(0)),
                destination: Some(v1::Nic {
                    address: "192.0.2.1".to_owned(),
                    vni: Some(100),
                    ..v1::Nic::default()
                }),
                octets: 1,
                ..v1::JobFlow::default()
            }],
            ..v1::Job::default()
        }
    }

    fn faults(edit: fn(&mut v1::Job)) -> Vec<String> {
        let (mut job, mut faults) = (job(), InvalidFabric::default());
        edit(&mut job);
        job.check("", &mut faults);
        faults.faults.iter().map(ToString::to_string).collect()
    }

    /// Makes the group an all-to-all-v with so many entries.
    fn pairs(job: &mut v1::Job, entries: usize) {
        let group = &mut job.groups[0];
        group.set_collective(v1::Collective::AllToAllV);
        (group.octets, group.pair_octets) = (0, vec![1; entries]);
    }

    type Edit = fn(&mut v1::Job);

    const TABLE: &[(Edit, &str)] = &[
        (
            |job| job.name = "a b".to_owned(),
            "name: \"a b\" is not a name of letters, digits, '.', '_' and single '-'",
        ),
        (
            |job| job.host_names = vec!["h1".to_owned(), "h1".to_owned()],
            "host_names[1]: \"h1\" stands there twice",
        ),
        (
            |job| {
                job.expire_time = Some(prost_types::Timestamp {
                    seconds: -1,
                    nanos: 0,
                })
            },
            "expire_time: not a time after 1970",
        ),
        (
            |job| job.ranks[2] = v1::Nic::default(),
            "ranks[2]: neither host_port_name nor address",
        ),
        (
            |job| job.ranks[2].vni = Some(1),
            "ranks[2].vni: host_port_name says which NIC it is",
        ),
        (
            |job| job.ranks[2].address = "192.0.2.1".to_owned(),
            "ranks[2].address: host_port_name says which NIC it is",
        ),
        (
            |job| job.flows[0].destination.as_mut().unwrap().address = "nic".to_owned(),
            "flows[0].destination.address: \"nic\" is not an IP address",
        ),
        (
            |job| job.ranks[2].set_udp_port_formula(v1::UdpPortFormula::Xor),
            "ranks[2].udp_port_formula: only of a NIC that an address names: its host port says it",
        ),
        (
            |job| job.flows[0].destination.as_mut().unwrap().udp_port_formula = 9,
            "flows[0].destination.udp_port_formula: not a formula",
        ),
        (|job| job.flows[0].source = None, "flows[0].source: missing"),
        (
            |job| job.flows[0].octets = 0,
            "flows[0].octets: missing, or 0",
        ),
        (
            |job| job.flows[0].queue_pairs = Some(129),
            "flows[0].queue_pairs: 129 is not 1 to 128",
        ),
        (
            |job| job.flows[0].pairs = vec![v1::QueuePair::default(); 129],
            "flows[0].pairs: 129 entries, at most 128",
        ),
        (
            |job| {
                job.flows[0].queue_pairs = Some(2);
                job.flows[0].pairs = vec![v1::QueuePair::default()];
            },
            "flows[0].queue_pairs: 2, and pairs has 1",
        ),
        (
            |job| {
                job.flows[0].pairs = vec![v1::QueuePair {
                    source_number: 1 << 24,
                    ..v1::QueuePair::default()
                }]
            },
            "flows[0].pairs[0].source_number: 16777216 is above 16777215",
        ),
        (
            |job| {
                job.flows[0].pairs = vec![v1::QueuePair {
                    udp_source_port: Some(0),
                    ..v1::QueuePair::default()
                }]
            },
            "flows[0].pairs[0].udp_source_port: 0",
        ),
        (
            |job| job.priority = 1_001,
            "priority: 1001 is not 0 to 1000",
        ),
        (
            |job| job.layout[0].degree = 3,
            "layout: the degrees multiply to 6, and there are 4 ranks",
        ),
        (
            |job| {
                job.layout[0].degree = u32::MAX;
                job.layout[1].degree = u32::MAX;
            },
            "layout: the degrees multiply to 18446744065119617025, and there are 4 ranks",
        ),
        (
            |job| job.layout[1].name = "tp".to_owned(),
            "layout[1].name: a second dimension named \"tp\"",
        ),
        (
            |job| job.groups[0].dimension = "pp".to_owned(),
            "groups[0].dimension: the layout has no dimension \"pp\"",
        ),
        (
            |job| job.groups[0].ranks = vec![1],
            "groups[0].ranks: a dimension is named too",
        ),
        (
            |job| {
                job.groups[0].dimension.clear();
                job.groups[0].ranks = vec![1, 1];
            },
            "groups[0].ranks[1]: 1 stands there twice",
        ),
        (
            |job| job.groups[0].collective = 0,
            "groups[0].collective: not a collective",
        ),
        (
            |job| {
                job.groups[0].collective = v1::Collective::AllGather.into();
                job.groups[0].algorithm = v1::CollectiveAlgorithm::DoubleTree.into();
            },
            "groups[0].algorithm: only an all-reduce has a choice",
        ),
        (
            |job| job.groups[0].octets = 0,
            "groups[0].octets: missing, or 0",
        ),
        (
            |job| job.groups[0].pair_octets = vec![1; 4],
            "groups[0].pair_octets: only an all-to-all-v has them",
        ),
        (
            |job| {
                pairs(job, 4);
                job.groups[0].octets = 1;
            },
            "groups[0].octets: pair_octets says how many an all-to-all-v sends",
        ),
        (|job| pairs(job, 0), "groups[0].pair_octets: missing"),
        (
            |job| pairs(job, 65_537),
            "groups[0].pair_octets: 65537 entries, at most 65536",
        ),
        (
            |job| pairs(job, 16),
            "groups[0].pair_octets: 16 entries, and 2 ranks have 4 pairs",
        ),
        (
            |job| {
                pairs(job, 4);
                job.groups[0].dimension.clear();
            },
            "groups[0].pair_octets: 4 entries, and 4 ranks have 16 pairs",
        ),
        (
            |job| {
                pairs(job, 4);
                job.groups[0].dimension.clear();
                job.groups[0].ranks = vec![0, 1, 3];
            },
            "groups[0].pair_octets: 4 entries, and 3 ranks have 9 pairs",
        ),
        (
            |job| {
                pairs(job, 4);
                job.groups[0].pair_octets = vec![1, 0, 0, 1];
            },
            "groups[0].pair_octets: 0 between any two ranks",
        ),
        (
            |job| {
                pairs(job, 4);
                job.layout[1].degree = 0;
            },
            "layout[1].degree: missing, or 0",
        ),
        (
            |job| {
                job.groups[0].collective = v1::Collective::SendReceive.into();
                job.groups[0].octets = 0;
            },
            "groups[0].octets: missing, or 0",
        ),
        (
            |job| job.groups[0].channels = Some(65),
            "groups[0].channels: 65 is not 1 to 64",
        ),
        (
            |job| job.groups.push(job.groups[0].clone()),
            "groups[1].name: a second group named \"gradients\"",
        ),
        (
            |job| job.labels = [("x".to_owned(), "y".repeat(257))].into(),
            "labels[\"x\"]: 257 octets, at most 256",
        ),
    ];

    #[test]
    fn each_fault_names_the_field_and_the_reason() {
        assert_eq!(faults(|_| ()), Vec::<String>::new());
        // An all-to-all-v of the two ranks along a dimension; of as many as the hosts have, the fabric says whether they fit.
        assert_eq!(faults(|job| pairs(job, 4)), Vec::<String>::new());
        let of_hosts = faults(|job| {
            pairs(job, 9);
            job.ranks.clear();
            job.groups[0].dimension.clear();
        });
        assert_eq!(of_hosts, Vec::<String>::new());
        for (edit, fault) in TABLE {
            assert_eq!(faults(*edit)[0], *fault);
        }
    }

    #[test]
    fn a_job_that_is_too_long_is_not_looked_at() {
        let said = faults(|job| job.host_names = vec!["x".repeat(1 << 10); 1 << 10]);
        assert_eq!(said.len(), 1);
        assert!(said[0].ends_with("octets, at most 1048576"), "{}", said[0]);
    }

    #[test]
    fn what_is_made_of_a_job_is_not_stored() {
        let message = v1::Job {
            etag: "x".to_owned(),
            ttl: Some(prost_types::Duration::default()),
            ..job()
        };
        let fact = Fact::declared(&message).unwrap();
        let read = Fact::decode(Kind::Job, &fact.encode()).unwrap();
        assert_eq!(fact, read);
        let said = v1::Job::of(&read).unwrap();
        assert_eq!((said.ttl, said.etag), (None, fact.etag()));
    }
}
