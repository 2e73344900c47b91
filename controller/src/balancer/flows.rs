//! From adopted pins to the flows that each leaf is to send over next hops of their own.
//!
//! A pin names spines; here they become next hops, those that the plan of weights uses to the destination's leaf. Where it uses
//! none over a spine, the pin loses that spine; where it loses all, weights carry the flow. What several NICs of a leaf send to one NIC
//! is one flow, known by its destination and VNI, as long as all of it has the same pin; else switches tell it apart by its sources.
//! What goes to a NIC without a known address, switches know by the interface that it comes from, if the NIC behind that sends to only
//! one such NIC.
//! A flow that is divided among spines is divided by its queue pairs, where their ports are known; what has none of those ports goes by
//! weights of the spines. Jobs that are shadowed have pins, and no switch gets those. Pure. It refuses to know how a pin came to be.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::v1;

use super::Plan;
use super::queue_pairs::{self, PortsOf};
use crate::fabric::pin::{PinName, PinPath, Pins};
use crate::fabric::topology::{HostPort, JobName, PortName, SwitchName, Topology};
use crate::southbound::intent::{Flow, Flows, Members, NextHop, Source, interface_name};

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
    let installed = installed(declared, pins);
    let known = Known::of(&installed);
    for it in &installed {
        let Installed { pin, paths, .. } = *it;
        let leaf = &it.source.switch;
        let Some(members) = members(plan, topology, &it.source, &it.to) else {
            continue;
        };
        let known_by = known.by(it);
        let of_leaf = shares.entry(leaf.clone()).or_default();
        let mut add = |udp_source_port: Option<u16>, paths: &[PinPath]| {
            let added = spines.shares(leaf, members, paths);
            let ported = |it: &&Flow| it.destination.is_some() || udp_source_port.is_none();
            for whole in known_by.iter().filter(ported) {
                let flow = Flow {
                    udp_source_port,
                    ..*whole
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
            let of_pin = ports.of(declared, pin);
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

/// A pin that its leaf is to have, as far as its job goes.
struct Installed<'a> {
    pin: &'a PinName,
    source: Arc<HostPort>,
    to: Arc<HostPort>,
    paths: &'a Arc<[PinPath]>,
}

/// Pins of jobs that are on, between host ports that are declared.
fn installed<'a>(declared: &Topology, pins: &'a Pins) -> Vec<Installed<'a>> {
    let is_on = |pin: &PinName| {
        let job = declared.job(&pin.job);
        let mode = job.map(|job| job.declared.balance_mode());
        !matches!(mode, Some(v1::BalanceMode::Shadow | v1::BalanceMode::Off))
    };
    let on = pins.iter().filter(|(pin, _)| is_on(pin));
    let ends = on.filter_map(|(pin, paths)| {
        Some(Installed {
            pin,
            source: declared.host_port(&pin.source)?,
            to: declared.host_port(&pin.destination)?,
            paths,
        })
    });
    ends.collect()
}

/// By what leaves know pinned flows.
struct Known<'a> {
    /// NICs to which what a leaf sends has more than one pin, by the leaf and the host port of the NIC.
    apart: BTreeSet<(&'a SwitchName, &'a PortName)>,
    /// NICs to which some NIC of a leaf sends that is known by no address and by no interface, by the leaf and the host port of the NIC that
    /// takes. The entry of such flows decides before entries of interfaces, so that flows known by an interface go with it.
    by_destination: BTreeSet<(&'a SwitchName, &'a PortName)>,
    /// To how many NICs without a known address a NIC sends.
    unaddressed: BTreeMap<&'a PortName, usize>,
}

impl<'a> Known<'a> {
    fn of(installed: &'a [Installed<'_>]) -> Self {
        let mut first: BTreeMap<_, &Arc<[PinPath]>> = BTreeMap::new();
        let (mut apart, mut by_destination) = (BTreeSet::new(), BTreeSet::new());
        let mut unaddressed: BTreeMap<_, usize> = BTreeMap::new();
        for it in installed {
            let ends = (&it.source.switch, &it.to.name);
            let first = first.entry(ends).or_insert(it.paths);
            if !Arc::ptr_eq(first, it.paths) && *first != it.paths {
                apart.insert(ends);
            }
            if !is_told_apart(&it.source, &it.to) {
                by_destination.insert(ends);
            }
            if !is_addressed(&it.to) {
                *unaddressed.entry(&it.source.name).or_default() += 1;
            }
        }
        Self {
            apart,
            by_destination,
            unaddressed,
        }
    }

    fn by(&self, pin: &Installed<'_>) -> Vec<Flow> {
        let (from, to) = (&*pin.source, &*pin.to);
        let ends = (&from.switch, &to.name);
        let by_destination = self.by_destination.contains(&ends);
        let known = |flow: Flow| match flow.source {
            Source::Interface(_) if by_destination => Flow {
                source: Source::Any,
                ..flow
            },
            _ => flow,
        };
        match (is_addressed(to), self.apart.contains(&ends)) {
            (true, true) => flows_between(from, to).map(known).collect(),
            (true, false) => flows_to(to).collect(),
            (false, _) => {
                let is_alone = self.unaddressed.get(&from.name) == Some(&1);
                let flow = is_alone.then(|| flow_from(from, to));
                flow.flatten().into_iter().collect()
            }
        }
    }
}

/// Divides no more flows by their queue pairs than there is room for. How many are left undivided.
fn fit(flows: &mut Flows, most: usize) -> usize {
    let whole = flows.keys().filter(|it| it.udp_source_port.is_none());
    let mut room = most.saturating_sub(whole.count());
    let mut pairs: BTreeMap<Flow, usize> = BTreeMap::new();
    for flow in flows.keys().filter(|it| it.udp_source_port.is_some()) {
        *pairs.entry(flow.whole()).or_default() += 1;
    }
    pairs.retain(|_, count| {
        let fits = *count <= room;
        room -= if fits { *count } else { 0 };
        !fits
    });
    flows.retain(|it, _| it.udp_source_port.is_none() || !pairs.contains_key(&it.whole()));
    pairs.len()
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
                let known_by = known_by(flows, &source, &to).into_iter();
                Some(known_by.map(of_port).any(|it| flows.contains_key(&it)))
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

/// What switches know flows to a NIC by, wherever they come from; none if nobody said which addresses it has, or in which VNI.
pub fn flows_to(port: &HostPort) -> impl Iterator<Item = Flow> + '_ {
    let addresses = port.vni.into_iter().flat_map(|vni| {
        let addresses = port.addresses.iter();
        addresses.map(move |address| (vni, *address))
    });
    addresses.map(|(vni, destination)| Flow::to(vni, destination))
}

/// What switches know flows from one NIC to another by: by addresses of both, or where it is not known which the first one has, by the
/// interface that it is behind. By the destination alone where that has a name that Linux does not take.
pub fn flows_between(from: &HostPort, to: &HostPort) -> impl Iterator<Item = Flow> {
    flows_to(to).flat_map(|whole| {
        let source = sources(from, &whole).into_iter();
        source.map(move |source| Flow { source, ..whole })
    })
}

/// Whether switches can know what goes to a NIC by where it goes.
pub fn is_addressed(port: &HostPort) -> bool {
    flows_to(port).next().is_some()
}

/// What switches know by the interface of a NIC that sends to one without a known address: all that it sends, but for what they know
/// by its destination. None if nobody said which VNI it is in.
pub fn flow_from(from: &HostPort, to: &HostPort) -> Option<Flow> {
    Some(Flow {
        vni: from.vni.or(to.vni)?,
        source: Source::Interface(interface_name(&from.interface)?),
        destination: None,
        udp_source_port: None,
    })
}

/// Whether switches can tell what a NIC sends to another from what its neighbours send there.
pub fn is_told_apart(from: &HostPort, to: &HostPort) -> bool {
    interface_name(&from.interface).is_some()
        || flows_to(to).all(|whole| addresses_alike(from, &whole).next().is_some())
}

fn sources(from: &HostPort, flow: &Flow) -> Vec<Source> {
    let mut sources: Vec<Source> = addresses_alike(from, flow).map(Source::Address).collect();
    if sources.is_empty() {
        let interface = interface_name(&from.interface);
        sources.push(interface.map_or(Source::Any, Source::Interface));
    }
    sources
}

/// The addresses of a NIC in the family of where a flow goes.
fn addresses_alike(from: &HostPort, flow: &Flow) -> impl Iterator<Item = IpAddr> {
    let is_ipv4 = flow.destination.map(|it| it.is_ipv4());
    let addresses = from.addresses.iter().copied();
    addresses.filter(move |address| Some(address.is_ipv4()) == is_ipv4)
}

/// The flows by which a leaf knows what one NIC sends to another: those between the two if it tells them apart, else those to the NIC,
/// or that from the interface of the first one. Whatever their ports.
pub fn known_by(of_leaf: &Flows, from: &HostPort, to: &HostPort) -> Vec<Flow> {
    let mut known = Vec::new();
    if !is_addressed(to) {
        known.extend(flow_from(from, to).filter(|flow| of_leaf.contains_key(flow)));
    }
    for whole in flows_to(to) {
        let before = known.len();
        let sources = sources(from, &whole).into_iter();
        let apart = sources.map(|source| Flow { source, ..whole });
        known.extend(apart.filter(|flow| of_leaf.contains_key(flow)));
        if known.len() == before && of_leaf.contains_key(&whole) {
            known.push(whole);
        }
    }
    known
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
pub(super) const WAYS_MAX: usize = 240;
/// Entries of one leaf where its switch declares no limit: a switch chip has some thousands to match flows with.
pub(super) const PINS_OF_LEAF_MAX: usize = 2_048;
/// Linux takes no weight above.
const WEIGHT_MAX: u64 = 256;

#[cfg(test)]
mod tests;
