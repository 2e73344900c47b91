//! From adopted pins to the flows that each leaf is to send over next hops of their own.
//!
//! A pin names spines; here they become next hops, those that the plan of weights uses to the destination's leaf. Where it uses
//! none over a spine, the pin loses that spine; where it loses all, weights carry the flow. Switches tell flows apart by their
//! destination and its VNI, not by their source: what several NICs of a leaf send to one NIC goes together, over the next hops of
//! all of them. A flow that is divided among spines is divided by its queue pairs, where their ports are known; what has none of those
//! ports goes by weights of the spines. Jobs that are shadowed have pins, and no switch gets those. Pure. It refuses to know how a pin came to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::v1;

use super::Plan;
use super::queue_pairs::{self, PortsOf};
use crate::fabric::pin::{PinName, PinPath, Pins};
use crate::fabric::topology::{HostPort, JobName, SwitchName, Topology};
use crate::southbound::intent::{Flow, Flows, Members, NextHop};

/// The flows of every leaf that has some.
pub type LeafFlows = BTreeMap<SwitchName, Arc<Flows>>;

/// The flows of every leaf with an agent, by a plan and the pins of jobs between host ports that are declared.
pub fn of_leaves(plan: &Plan, declared: &Topology, pins: &Pins) -> LeafFlows {
    let Some(topology) = plan.topology().filter(|_| !pins.is_empty()) else {
        return LeafFlows::new();
    };
    let spines = Spines::of(topology);
    let mut ports = KnownPorts::default();
    let mut shares: BTreeMap<SwitchName, BTreeMap<Flow, Shares>> = BTreeMap::new();
    for (name, paths) in pins.iter() {
        let job = declared.job(&name.job);
        let mode = job.map(|job| job.declared.balance_mode());
        if let Some(v1::BalanceMode::Shadow | v1::BalanceMode::Off) = mode {
            continue;
        }
        let ends = declared
            .host_port(&name.source)
            .zip(declared.host_port(&name.destination));
        let Some((source, destination)) = ends else {
            continue;
        };
        let Some(members) = members(plan, topology, &source, &destination) else {
            continue;
        };
        let of_leaf = shares.entry(source.switch.clone()).or_default();
        let mut add = |port: Option<u16>, paths: &[PinPath]| {
            let added = spines.shares(&source.switch, members, paths);
            for flow in flows_to(&destination) {
                let flow = Flow {
                    udp_source_port: port,
                    ..flow
                };
                let sum = of_leaf.entry(flow).or_default();
                for (next_hop, share) in &added {
                    *sum.entry((*next_hop).clone()).or_default() += share;
                }
            }
        };
        add(None, paths);
        if paths.len() > 1 {
            let weights: Vec<u32> = paths.iter().map(|path| path.weight).collect();
            let of_pin = ports.of(declared, name);
            for (port, count, path) in queue_pairs::divided(of_pin, &weights) {
                let weight = u32::try_from(count).unwrap_or(u32::MAX);
                let spine = paths[path].spine.clone();
                add(Some(port), &[PinPath { spine, weight }]);
            }
        }
    }
    let leaves = shares.into_iter().map(|(leaf, flows)| {
        let flows = flows.into_iter();
        let mut flows: Flows = flows
            .map(|(flow, shares)| (flow, weights(&shares)))
            .collect();
        let most = topology.switch(&leaf).and_then(|it| it.limits.pins);
        let undivided = fit(&mut flows, most.map_or(PINS_OF_LEAF_MAX, |most| most as usize));
        if undivided > 0 {
            tracing::warn!(%leaf, flows = undivided, "too many queue pairs to pin; these flows are divided by weights");
        }
        let left = bound(&mut flows);
        if left > 0 {
            tracing::warn!(%leaf, flows = left, "too many ways to divide flows; these go by weights");
        }
        (leaf, Arc::new(flows))
    });
    leaves.collect()
}

/// Divides no more flows by their queue pairs than there is room for. How many are left undivided.
fn fit(flows: &mut Flows, most: usize) -> usize {
    let whole = flows.keys().filter(|it| it.udp_source_port.is_none());
    let mut room = most.saturating_sub(whole.count());
    let mut pairs: BTreeMap<Flow, usize> = BTreeMap::new();
    for flow in flows.keys().filter(|it| it.udp_source_port.is_some()) {
        *pairs.entry(undivided(flow)).or_default() += 1;
    }
    pairs.retain(|_, count| {
        let fits = *count <= room;
        room -= if fits { *count } else { 0 };
        !fits
    });
    flows.retain(|it, _| it.udp_source_port.is_none() || !pairs.contains_key(&undivided(it)));
    pairs.len()
}

fn undivided(flow: &Flow) -> Flow {
    Flow {
        udp_source_port: None,
        ..*flow
    }
}

/// Queue pairs that share a UDP source port, on the path that they are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedPort {
    /// The UDP source port.
    pub port: u16,
    /// The spine.
    pub spine: SwitchName,
    /// How many queue pairs have the port.
    pub queue_pairs: usize,
}

/// Which flows are divided by their queue pairs.
pub struct Divided<'a> {
    declared: &'a Topology,
    /// None: as if every leaf had room.
    flows: Option<&'a LeafFlows>,
    ports: KnownPorts,
}

impl<'a> Divided<'a> {
    /// Among the flows that leaves are to have, of what is declared.
    pub fn new(declared: &'a Topology, flows: Option<&'a LeafFlows>) -> Self {
        Self {
            declared,
            flows,
            ports: KnownPorts::default(),
        }
    }

    /// The queue pairs that divide a pinned flow; none: it has one path, or weights divide it.
    pub fn of(&mut self, pin: &PinName, paths: &[PinPath]) -> Vec<PinnedPort> {
        if paths.len() < 2 {
            return Vec::new();
        }
        let weights: Vec<u32> = paths.iter().map(|path| path.weight).collect();
        let divided = queue_pairs::divided(self.ports.of(self.declared, pin), &weights);
        let pinned = divided.map(|(port, queue_pairs, path)| PinnedPort {
            port,
            spine: paths[path].spine.clone(),
            queue_pairs,
        });
        let pinned: Vec<_> = pinned.collect();
        let has_room = self.flows.is_none_or(|flows| {
            let port = pinned.first().map(|it| it.port);
            let known = || {
                let source = self.declared.host_port(&pin.source)?;
                let to = self.declared.host_port(&pin.destination)?;
                let flows = flows.get(&source.switch)?;
                let of_port = |it| Flow {
                    udp_source_port: port,
                    ..it
                };
                Some(flows_to(&to).any(|it| flows.contains_key(&of_port(it))))
            };
            known().unwrap_or(false)
        });
        if has_room { pinned } else { Vec::new() }
    }
}

/// Ports of the queue pairs of jobs, job by job as they are asked for.
#[derive(Default)]
struct KnownPorts {
    jobs: BTreeMap<JobName, PortsOf>,
}

impl KnownPorts {
    /// In order; empty: not known.
    fn of(&mut self, declared: &Topology, pin: &PinName) -> &[u16] {
        let ports = self.jobs.entry(pin.job.clone()).or_insert_with(|| {
            let job = declared.job(&pin.job);
            job.map(|job| queue_pairs::of_job(declared, job))
                .unwrap_or_default()
        });
        let ends = (pin.source.clone(), pin.destination.clone());
        ports.get(&ends).map_or(&[], Vec::as_slice)
    }
}

/// Leaves the ways that fewest flows have to weights, where there are more than a switch has tables for. How many flows that
/// are.
fn bound(flows: &mut Flows) -> usize {
    let mut ways: BTreeMap<&Members, usize> = BTreeMap::new();
    for members in flows.values() {
        *ways.entry(members).or_default() += 1;
    }
    if ways.len() <= WAYS_MAX {
        return 0;
    }
    let mut ways: Vec<(usize, Members)> = ways
        .into_iter()
        .map(|(members, flows)| (flows, members.clone()))
        .collect();
    ways.sort_by(|(a, one), (b, other)| b.cmp(a).then_with(|| one.cmp(other)));
    let kept = ways.into_iter().take(WAYS_MAX);
    let kept: BTreeSet<Members> = kept.map(|(_, members)| members).collect();
    let before = flows.len();
    flows.retain(|_, members| kept.contains(&**members));
    before - flows.len()
}

/// What switches know flows to a NIC by; none if nobody said which addresses it has, or in which VNI.
pub fn flows_to(port: &HostPort) -> impl Iterator<Item = Flow> + '_ {
    let addresses = port.vni.into_iter().flat_map(|vni| {
        let addresses = port.addresses.iter();
        addresses.map(move |address| (vni, *address))
    });
    addresses.map(|(vni, destination)| Flow {
        vni,
        destination,
        udp_source_port: None,
    })
}

/// Parts of what is sent, by next hop.
type Shares = BTreeMap<NextHop, u64>;

/// The next hops by which the plan sends from one NIC's leaf to the other's; None on one leaf, or without an agent.
fn members<'a>(
    plan: &'a Plan,
    topology: &Topology,
    source: &HostPort,
    destination: &HostPort,
) -> Option<&'a Members> {
    let vtep = topology.switch(&destination.switch)?.vtep?;
    // Weights by demand may leave out a way that only pins use.
    let routes = plan.by_capacity.get(&source.switch)?;
    Some(routes.prefixes.get(&IpNet::from(vtep))?)
}

/// The spine behind each interface of each leaf.
struct Spines<'a> {
    behind: BTreeMap<&'a SwitchName, BTreeMap<&'a str, &'a SwitchName>>,
}

impl<'a> Spines<'a> {
    fn of(topology: &'a Topology) -> Self {
        let mut behind: BTreeMap<&SwitchName, BTreeMap<&str, &SwitchName>> = BTreeMap::new();
        for link in topology.links() {
            for (near, far) in [(&link.a, &link.b), (&link.b, &link.a)] {
                let of_switch = behind.entry(&near.switch).or_default();
                of_switch.insert(&near.interface, &far.switch);
            }
        }
        Self { behind }
    }

    /// The parts of a flow by next hop. Several links to one spine share its part by their weights.
    fn shares<'m>(
        &self,
        leaf: &SwitchName,
        members: &'m Members,
        paths: &[PinPath],
    ) -> Vec<(&'m NextHop, u64)> {
        let Some(behind) = self.behind.get(leaf) else {
            return Vec::new();
        };
        let mut shares = Vec::with_capacity(paths.len());
        for path in paths {
            let leads = |hop: &NextHop| behind.get(&*hop.interface) == Some(&&path.spine);
            let hops = || members.iter().filter(|(hop, _)| leads(hop));
            let sum: u64 = hops().map(|(_, weight)| u64::from(*weight)).sum();
            let share = |weight: u32| u64::from(path.weight) * u64::from(weight) * SCALE / sum;
            shares.extend(hops().map(|(hop, weight)| (hop, share(*weight))));
        }
        shares
    }
}

/// Weights in these proportions, as small as they can be, and none above what a switch takes.
fn weights(shares: &Shares) -> Arc<Members> {
    let divisor = shares.values().fold(0, |a, b| gcd(a, *b)).max(1);
    let most = shares.values().max().copied().unwrap_or(0) / divisor;
    let weight = |share: u64| {
        let share = share / divisor;
        let fitting = match most > WEIGHT_MAX {
            true => (share * WEIGHT_MAX + most / 2) / most,
            false => share,
        };
        u32::try_from(fitting.max(1)).unwrap_or(u32::MAX)
    };
    let members = shares.iter();
    Arc::new(
        members
            .map(|(hop, share)| (hop.clone(), weight(*share)))
            .collect(),
    )
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => gcd(b, a % b),
    }
}

/// What a part is divided by without a rest: the numbers up to 16, which links to one spine may weigh together.
const SCALE: u64 = 720_720;
/// Ways to divide flows of one leaf: weft-agent has 255 tables, of which some are in use until others are.
const WAYS_MAX: usize = 240;
/// Entries of one leaf where its switch declares no limit: a switch chip has some thousands to match flows with.
pub(super) const PINS_OF_LEAF_MAX: usize = 2_048;
/// Linux takes no weight above.
const WEIGHT_MAX: u64 = 256;

#[cfg(test)]
mod tests;
