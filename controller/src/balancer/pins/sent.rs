//! What the NICs of a job send to each other over spines, as a share of their rate. Knows collectives; refuses to know links.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_proto::v1;
use weft_weights::demand::{self, Collective, Communicator, Nic};

use super::times::{SETS_NAMED, SetTime};
use crate::balancer::flows::is_addressed;
use crate::balancer::queue_pairs::{self, PortsOf};
use crate::fabric::job::Nics;
use crate::fabric::place;
use crate::fabric::topology::{
    HostPort, InvalidFabric, Job, JobName, PortName, Role, SwitchName, Topology,
};

/// What one NIC sends to another, at another leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Sends.
    pub(super) from: Arc<HostPort>,
    /// Takes.
    pub(super) to: Arc<HostPort>,
    /// Bits per second, while the busiest NIC of the job sends or takes at its rate.
    pub(super) bps: u64,
    /// The rate of the NIC that sends.
    pub(super) nic_bps: u64,
    /// The overlap set that it is sent in, by a number of its own, if there are others of the job and it is sent in none of them.
    pub(super) phase: Option<u32>,
    /// UDP source ports of its queue pairs, in order; empty: not known.
    pub(super) ports: Vec<u16>,
    /// Whether it is all that the NIC sends to NICs at other leaves of which nobody knows the addresses.
    pub(super) by_interface: bool,
}

/// What a job sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SentOfJob {
    /// Over spines, in order of its NICs.
    pub(super) over: Vec<Sent>,
    /// To NICs at the same leaf: bits per second by the NIC that sends.
    pub(super) within: BTreeMap<PortName, u64>,
    /// How long its overlap sets take at best, in order of their names: the first [`SETS_NAMED`], by the numbers that `over` has.
    pub(super) times: Vec<SetTime>,
    /// How many overlap sets it sends in.
    pub(super) sets: usize,
}

impl SentOfJob {
    /// Finds what NICs send to NICs without known addresses.
    fn mark_unaddressed(&mut self) {
        let mut counts: BTreeMap<PortName, usize> = BTreeMap::new();
        let unaddressed = |sent: &&mut Sent| !is_addressed(&sent.to);
        for sent in self.over.iter_mut().filter(unaddressed) {
            *counts.entry(sent.from.name.clone()).or_default() += 1;
        }
        for sent in self.over.iter_mut().filter(unaddressed) {
            sent.by_interface = counts[&sent.from.name] == 1;
        }
    }
}

/// Why it is not known what a job sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// What it names is not there, or makes no sense.
    Unknown(String),
    /// There are too many flows to look at one by one.
    TooMany {
        /// Flows that there may be, at most.
        flows: usize,
        /// What all flows of the job come to between leaves.
        wide: Wide,
    },
    /// Its groups have more ranks than anybody counts.
    TooLarge,
    /// Its mode is off.
    Off,
}

/// What all NICs of a job send to each other, if all that it does is one all-to-all of all of them, or several: each as much to every
/// other. Nothing: it does something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wide {
    /// From leaf to leaf, in bits per second.
    pub(super) between: Vec<(SwitchName, SwitchName, u64)>,
    /// Bits per second of the largest flow: as every NIC sends to one NIC of every other host, as NCCL does (PXN), or to more in smaller
    /// flows.
    pub(super) largest_bps: u64,
}

/// Octets by the places of two NICs.
type Octets = BTreeMap<(u32, u32), u64>;

/// NICs of a job by number, and what they send to each other in each overlap set.
struct Sums<'a> {
    job: &'a v1::Job,
    nics: &'a Nics,
    ports: Vec<Arc<HostPort>>,
    numbers: BTreeMap<PortName, u32>,
    sets: BTreeMap<&'a str, Octets>,
    /// Pairs so far, at most.
    pairs: usize,
    /// Ranks of all groups so far.
    ranks: usize,
}

/// What a job sends.
pub(super) fn by(topology: &Topology, job: &Job) -> Result<SentOfJob, Unresolved> {
    one_by_one(topology, job).map_err(|why| match why {
        Unresolved::TooMany { flows, .. } => nowhere(topology, job).unwrap_or_else(|| {
            let wide = Wide::of(topology, &job.name);
            Unresolved::TooMany { flows, wide }
        }),
        Unresolved::TooLarge => nowhere(topology, job).unwrap_or(Unresolved::TooLarge),
        other => other,
    })
}

/// A NIC of a job that is at no leaf, where flows are too many to look at one by one.
fn nowhere(topology: &Topology, job: &Job) -> Option<Unresolved> {
    let mut faults = InvalidFabric::default();
    let nics = Nics::find(topology, &job.declared, "", &mut faults);
    let mut nics = nics.ranks.iter().chain(nics.flows.iter().flatten());
    let nowhere = nics.find(|port| !is_at_leaf(topology, port))?;
    Some(Unresolved::Unknown(no_leaf(nowhere)))
}

fn is_at_leaf(topology: &Topology, port: &HostPort) -> bool {
    let switch = topology.switch(&port.switch);
    switch.is_some_and(|it| it.role == Role::Leaf)
}

fn one_by_one(topology: &Topology, job: &Job) -> Result<SentOfJob, Unresolved> {
    if job.declared.balance_mode() == v1::BalanceMode::Off {
        return Err(Unresolved::Off);
    }
    let mut faults = InvalidFabric::default();
    let nics = Nics::find(topology, &job.declared, "", &mut faults);
    if !faults.is_empty() {
        return Err(Unresolved::Unknown(faults.to_string()));
    }
    let mut sums = Sums::new(&job.declared, &nics);
    for group in &job.declared.groups {
        sums.group(group)?;
    }
    for (flow, [from, to]) in job.declared.flows.iter().zip(&nics.flows) {
        sums.reserve(1)?;
        let ends = (sums.numbers[&from.name], sums.numbers[&to.name]);
        sums.add(&flow.overlap_set, ends, flow.octets);
    }
    sums.sent(topology, &queue_pairs::of_job(topology, job))
}

impl<'a> Sums<'a> {
    fn new(job: &'a v1::Job, nics: &'a Nics) -> Self {
        let mut sums = Self {
            job,
            nics,
            ports: Vec::new(),
            numbers: BTreeMap::new(),
            sets: BTreeMap::new(),
            pairs: 0,
            ranks: 0,
        };
        for port in nics.ranks.iter().chain(nics.flows.iter().flatten()) {
            let next = sums.ports.len() as u32;
            let number = *sums.numbers.entry(port.name.clone()).or_insert(next);
            if number == next {
                sums.ports.push(Arc::clone(port));
            }
        }
        sums
    }

    /// Adds what a group sends, once for each set of ranks that it is.
    fn group(&mut self, group: &'a v1::CollectiveGroup) -> Result<(), Unresolved> {
        let count = self.nics.ranks.len();
        let wrong = |why: String| Unresolved::Unknown(format!("group {}: {why}", group.name));
        self.ranks += match group.ranks.len() {
            0 => count,
            ranks => ranks,
        };
        if self.ranks > RANKS_MOST {
            return Err(Unresolved::TooLarge);
        }
        let sets: Vec<Vec<usize>> = if !group.dimension.is_empty() {
            let layout = self.job.layout.iter();
            let layout: Vec<(&str, usize)> = layout
                .map(|it| (it.name.as_str(), it.degree as usize))
                .collect();
            let groups = demand::groups(&layout, &group.dimension, count);
            groups.map_err(|error| wrong(error.to_string()))?
        } else if group.ranks.is_empty() {
            vec![(0..count).collect()]
        } else {
            vec![group.ranks.iter().map(|rank| *rank as usize).collect()]
        };
        let collective = collective(group);
        for ranks in sets {
            // A fabric that changed since has other ranks.
            if let Collective::AllToAllV(octets) = collective
                && octets.len() != ranks.len() * ranks.len()
            {
                let (count, ranks) = (octets.len(), ranks.len());
                return Err(wrong(format!("{count} pair_octets, and {ranks} ranks")));
            }
            let communicator = self.communicator(&ranks);
            let communicator = communicator.map_err(wrong)?;
            let rails = communicator.rails() as u32;
            let channels = group.channels.unwrap_or(rails);
            self.reserve(demand::pairs(&communicator, collective, channels))?;
            for sent in demand::demands(&communicator, collective, group.octets, channels) {
                self.add(&group.overlap_set, (sent.from.0, sent.to.0), sent.octets);
            }
        }
        Ok(())
    }

    fn communicator(&self, ranks: &[usize]) -> Result<Communicator, String> {
        let mut hosts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut of_ranks = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let port = &self.nics.ranks[*rank];
            let host = port.host.as_ref().map_or("", |host| host.as_str());
            let next = hosts.len() as u32;
            let host = *hosts.entry(host).or_insert(next);
            of_ranks.push((host, Nic(self.numbers[&port.name])));
        }
        let named = |number: u32| {
            let host = hosts.iter().find(|(_, it)| **it == number);
            host.map_or("", |(host, _)| host).to_owned()
        };
        Communicator::new(&of_ranks).map_err(|error| match error {
            demand::CommunicatorError::Uneven { node } => format!(
                "host {} has other ranks or NICs in it than the first one, or NICs with more ranks than others",
                named(node)
            ),
            other => other.to_string(),
        })
    }

    /// Refuses what would be too much to hold, before it is made.
    fn reserve(&mut self, pairs: usize) -> Result<(), Unresolved> {
        self.pairs = self.pairs.saturating_add(pairs);
        match self.pairs > MOST {
            true => Err(Unresolved::TooMany {
                flows: self.pairs,
                wide: Wide::default(),
            }),
            false => Ok(()),
        }
    }

    fn add(&mut self, set: &'a str, ends: (u32, u32), octets: u64) {
        let sum = self.sets.entry(set).or_default().entry(ends).or_default();
        *sum = sum.saturating_add(octets);
    }

    /// Each pair with the most that it sends in any overlap set.
    fn sent(self, topology: &Topology, ports: &PortsOf) -> Result<SentOfJob, Unresolved> {
        // A NIC whose rate nobody declared sends as fast as the slowest link.
        let slowest = topology.links().map(|link| link.capacity_bps).min();
        let rate = |port: &HostPort| port.capacity_bps.or(slowest).unwrap_or(1);
        let mut most: BTreeMap<(u32, u32), (u64, Option<u32>)> = BTreeMap::new();
        let mut all = SentOfJob {
            sets: self.sets.len(),
            ..SentOfJob::default()
        };
        let phases = self.sets.len() > 1;
        for (set, (name, octets)) in (0..).zip(&self.sets) {
            let busiest = busiest(octets, |nic| rate(&self.ports[nic as usize]));
            if all.times.len() < SETS_NAMED {
                all.times
                    .push(SetTime::ideal(name, busiest.octets, busiest.bps));
            }
            for ((from, to), octets) in octets {
                let bps = busiest.bps_of(*octets);
                let first = (bps, phases.then_some(set));
                most.entry((*from, *to))
                    .and_modify(|before| *before = (bps.max(before.0), None))
                    .or_insert(first);
            }
        }
        for ((from, to), (bps, phase)) in most {
            let [from, to] = [from, to].map(|nic| &self.ports[nic as usize]);
            if let Some(nowhere) = [from, to]
                .iter()
                .find(|port| port.switch.as_str().is_empty())
            {
                return Err(Unresolved::Unknown(no_leaf(nowhere)));
            }
            if from.switch == to.switch {
                let sum = all.within.entry(from.name.clone()).or_default();
                *sum = sum.saturating_add(bps);
                continue;
            }
            if let Some(nowhere) = [from, to].into_iter().find(|it| !is_at_leaf(topology, it)) {
                return Err(Unresolved::Unknown(no_leaf(nowhere)));
            }
            let ends = (from.name.clone(), to.name.clone());
            all.over.push(Sent {
                from: Arc::clone(from),
                to: Arc::clone(to),
                bps,
                nic_bps: rate(from),
                phase,
                ports: ports.get(&ends).cloned().unwrap_or_default(),
                by_interface: false,
            });
        }
        all.mark_unaddressed();
        Ok(all)
    }
}

impl Wide {
    fn of(topology: &Topology, job: &JobName) -> Self {
        let Some((_, nics)) = all_to_all(topology, job) else {
            return Self::default();
        };
        let slowest = topology.links().map(|link| link.capacity_bps).min();
        let rate = |nic: &HostPort| nic.capacity_bps.or(slowest).unwrap_or(1);
        // Several ranks may share a NIC.
        let all: BTreeMap<&PortName, &Arc<HostPort>> =
            nics.ranks.iter().map(|nic| (&nic.name, nic)).collect();
        // NICs, and the sum of their rates, by leaf.
        let mut leaves: BTreeMap<&SwitchName, (u128, u128)> = BTreeMap::new();
        for nic in all.values() {
            let (count, bps) = leaves.entry(&nic.switch).or_default();
            (*count, *bps) = (*count + 1, *bps + u128::from(rate(nic)));
        }
        let others = (all.len() as u128).saturating_sub(1).max(1);
        let mut between = Vec::new();
        for (from, (_, bps)) in &leaves {
            for (to, (count, _)) in leaves.iter().filter(|(to, _)| *to != from) {
                let bps = u64::try_from(bps * count / others).unwrap_or(u64::MAX);
                between.push(((*from).clone(), (*to).clone(), bps));
            }
        }
        let alone = all.values().filter(|nic| nic.host.is_none()).count();
        let hosts: BTreeSet<_> = all.values().filter_map(|nic| nic.host.as_ref()).collect();
        let hosts = (hosts.len() + alone).saturating_sub(1).max(1);
        let fastest = all.values().map(|nic| rate(nic)).max().unwrap_or(0);
        Self {
            between,
            largest_bps: fastest / hosts as u64,
        }
    }
}

/// How long overlap sets of a job that [`Wide`] knows take at best: the first [`SETS_NAMED`], in order of their names; and how many there
/// are.
pub(super) fn wide_times(topology: &Topology, job: &JobName) -> (Vec<SetTime>, usize) {
    let Some((job, nics)) = all_to_all(topology, job) else {
        return (Vec::new(), 0);
    };
    let all: Vec<usize> = (0..nics.ranks.len()).collect();
    let Ok(communicator) = Sums::new(&job.declared, &nics).communicator(&all) else {
        return (Vec::new(), 0);
    };
    let slowest = topology.links().map(|link| link.capacity_bps).min();
    let rates = nics.ranks.iter();
    let rates = rates.map(|nic| nic.capacity_bps.or(slowest).unwrap_or(1));
    // Each NIC sends as much as any other: the slowest one needs longest.
    let bps = rates.min().unwrap_or(1);
    let mut sets: BTreeMap<&str, u128> = BTreeMap::new();
    for group in &job.declared.groups {
        let octets = demand::all_to_all_of_nic(&communicator, group.octets);
        *sets.entry(&group.overlap_set).or_default() += u128::from(octets);
    }
    let named = sets.iter().take(SETS_NAMED);
    let times = named.map(|(name, octets)| SetTime::ideal(name, *octets, bps));
    (times.collect(), sets.len())
}

/// A job and its NICs, if all that it does is one all-to-all of all of them, or several.
fn all_to_all<'a>(topology: &'a Topology, job: &JobName) -> Option<(&'a Job, Nics)> {
    let job = topology.job(job)?;
    let all = |group: &v1::CollectiveGroup| {
        group.collective() == v1::Collective::AllToAll
            && group.ranks.is_empty()
            && group.dimension.is_empty()
    };
    if !job.declared.flows.is_empty() || !job.declared.groups.iter().all(all) {
        return None;
    }
    let mut faults = InvalidFabric::default();
    let nics = Nics::find(topology, &job.declared, "", &mut faults);
    faults.is_empty().then_some((job.as_ref(), nics))
}

/// Why it is not known where a NIC is.
fn no_leaf(port: &HostPort) -> String {
    match (place::address_of(&port.name), port.switch.as_str()) {
        (Some((vni, ip)), "") => {
            format!("no host port and no type 2 route of VNI {vni} has the address {ip}")
        }
        _ => format!("host port {} is at no leaf", port.name),
    }
}

/// The NIC that needs longest: while it sends, or takes, so many octets at its rate, others do the rest of theirs.
struct Busiest {
    octets: u128,
    bps: u64,
}

impl Busiest {
    fn bps_of(&self, octets: u64) -> u64 {
        let bps = u128::from(self.bps) * u128::from(octets) / self.octets.max(1);
        u64::try_from(bps).unwrap_or(u64::MAX)
    }
}

fn busiest(octets: &Octets, rate: impl Fn(u32) -> u64) -> Busiest {
    let (mut sends, mut takes) = (BTreeMap::new(), BTreeMap::new());
    for ((from, to), octets) in octets {
        *sends.entry(*from).or_insert(0_u128) += u128::from(*octets);
        *takes.entry(*to).or_insert(0_u128) += u128::from(*octets);
    }
    let all = sends.into_iter().chain(takes);
    let all = all.map(|(nic, octets)| Busiest {
        octets,
        bps: rate(nic),
    });
    let longer = |a: &Busiest, b: &Busiest| {
        a.octets.saturating_mul(b.bps.into()) > b.octets.saturating_mul(a.bps.into())
    };
    let none = Busiest { octets: 1, bps: 0 };
    all.reduce(|most, next| match longer(&next, &most) {
        true => next,
        false => most,
    })
    .unwrap_or(none)
}

fn collective(group: &v1::CollectiveGroup) -> Collective<'_> {
    match (group.collective(), group.algorithm()) {
        (v1::Collective::AllReduce, v1::CollectiveAlgorithm::DoubleTree) => {
            Collective::AllReduceDoubleTree
        }
        (v1::Collective::AllReduce, v1::CollectiveAlgorithm::Hierarchical) => {
            Collective::AllReduceHierarchical
        }
        // A later release may know more; a ring is what NCCL does most.
        (v1::Collective::AllReduce | v1::Collective::Unspecified, _) => Collective::AllReduceRing,
        (v1::Collective::AllGather, _) => Collective::AllGather,
        (v1::Collective::ReduceScatter, _) => Collective::ReduceScatter,
        (v1::Collective::AllToAll, _) => Collective::AllToAll,
        (v1::Collective::AllToAllV, _) => Collective::AllToAllV(&group.pair_octets),
        (v1::Collective::SendReceive, _) => Collective::SendReceive,
        (v1::Collective::Broadcast, _) => Collective::Broadcast,
        (v1::Collective::Reduce, _) => Collective::Reduce,
        (v1::Collective::Gather, _) => Collective::Gather,
        (v1::Collective::Scatter, _) => Collective::Scatter,
    }
}

/// Ranks of all groups of one job together: those of 32 groups of the largest job. Each is looked at.
pub(super) const RANKS_MOST: usize = 1 << 21;
/// Pairs of NICs of one job: more cannot be pinned at the leaves of any fabric that is not much larger than the job.
pub(super) const MOST: usize = 1 << 19;
