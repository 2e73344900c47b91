//! Which leaves get pins, and which way the flows of a job go: by their pins, by weights, or as the own routing of their leaf has
//! it. Pure. It refuses to know who asks, and how a switch is programmed.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1;

use super::sent::{Sent, Unresolved};
use super::{PinPlan, name};
use crate::balancer::flows::{LeafFlows, flows_to};
use crate::fabric::fact::{HostPort, InvalidFabric, JobName, SwitchName};
use crate::fabric::job::Nics;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::pin::Pins;
use crate::fabric::topology::{Role, Topology};

/// Why a leaf gets no pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unpinned {
    /// An operator has it in shadow, or said nothing.
    Shadow,
    /// An operator has it off.
    Off,
    /// The leaf takes weights over BGP, which knows no pins.
    Bgp,
    /// No weft-agent was heard there: its gRIBI server gets weights alone.
    Foreign,
    /// The leaf has no agent, and takes no weights over BGP.
    NoAgent,
}

impl Unpinned {
    /// The leaves that get no pins by their modes, or because no weft-agent was heard there.
    pub fn all(
        topology: &Topology,
        modes: &Modes,
        foreign: &BTreeSet<SwitchName>,
    ) -> BTreeMap<SwitchName, Self> {
        let leaves = topology.switches();
        let leaves = leaves.filter(|it| it.role == Role::Leaf);
        let weighed = leaves.filter(|it| it.agent.is_some() || it.link_bandwidth);
        let unpinned = weighed.filter_map(|leaf| {
            let why = match modes.of(leaf.name.as_str()) {
                Mode::Shadow => Self::Shadow,
                Mode::Off => Self::Off,
                Mode::On if leaf.link_bandwidth => Self::Bgp,
                Mode::On if foreign.contains(&leaf.name) => Self::Foreign,
                Mode::On => return None,
            };
            Some((leaf.name.clone(), why))
        });
        unpinned.collect()
    }

    /// Why a leaf gets no pins, where these are known to get none; None: it gets them.
    pub(super) fn why(
        topology: &Topology,
        known: &BTreeMap<SwitchName, Self>,
        leaf: &SwitchName,
    ) -> Option<Self> {
        if let Some(why) = known.get(leaf) {
            return Some(*why);
        }
        match topology.switch(leaf) {
            Some(switch) if switch.agent.is_some() => None,
            Some(switch) if switch.link_bandwidth => Some(Self::Bgp),
            Some(_) | None => Some(Self::NoAgent),
        }
    }

    /// Whether the leaf gets weights nevertheless.
    fn has_weights(self) -> bool {
        match self {
            Self::Bgp | Self::Foreign => true,
            Self::Shadow | Self::Off | Self::NoAgent => false,
        }
    }
}

/// The way that a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a pin that its leaf is to have.
    Pins,
    /// By the weights of its leaf.
    Weights,
    /// As the own routing of its leaf has it.
    OwnRouting,
}

/// Why a flow does not go by its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loose {
    /// Its leaf gets no pins.
    Leaf(Unpinned),
    /// Its job is in shadow.
    Shadowed,
    /// No pin of it is adopted.
    NoPin,
    /// Nobody declared the address or the VNI of the NIC that takes it.
    Unaddressed,
    /// Its leaf has no next hop that leads over the spines of its pin, or too many ways to divide flows.
    NoNextHop,
}

impl Loose {
    /// The way that the flow goes instead.
    pub fn way(self) -> Way {
        match self {
            Self::Leaf(why) if !why.has_weights() => Way::OwnRouting,
            Self::Leaf(_) | Self::Shadowed | Self::NoPin | Self::Unaddressed | Self::NoNextHop => {
                Way::Weights
            }
        }
    }
}

/// Whether the pins of a job are planned, and no switch gets them.
pub(super) fn is_shadowed(topology: &Topology, job: &JobName) -> bool {
    let job = topology.job(job);
    job.is_some_and(|it| it.declared.balance_mode() == v1::BalanceMode::Shadow)
}

/// How many flows of a job go which way, and why not by pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// By pins that their leaf is to have.
    pub pinned: usize,
    /// By the weights of their leaf.
    pub weighted: usize,
    /// As the own routing of their leaf has it.
    pub own_routing: usize,
    /// The job is in shadow.
    pub is_shadowed: bool,
    /// The leaves that it sends from and that get no pins.
    pub unpinned: BTreeMap<Unpinned, BTreeSet<SwitchName>>,
}

impl Ways {
    fn leave(&mut self, leaf: &SwitchName, why: Unpinned) {
        let leaves = self.unpinned.entry(why).or_default();
        if !leaves.contains(leaf) {
            leaves.insert(leaf.clone());
        }
    }
}

impl PinPlan {
    /// Which way the flows of a job go by the adopted pins, where leaves are to have these flows. None: nobody knows its flows.
    pub fn ways(&self, job: &JobName, pins: &Pins, flows: &LeafFlows) -> Option<Ways> {
        let sent = match self.sent.get(job)? {
            Ok(sent) => sent,
            Err(Unresolved::TooMany { flows, .. }) => return self.wide(job, *flows),
            Err(Unresolved::Unknown(_) | Unresolved::TooLarge | Unresolved::Off) => return None,
        };
        let mut ways = Ways {
            is_shadowed: is_shadowed(&self.topology, job),
            ..Ways::default()
        };
        for sent in &sent.over {
            let leaf = &sent.from.switch;
            let why = Unpinned::why(&self.topology, &self.unpinned, leaf);
            if let Some(why) = why {
                ways.leave(leaf, why);
            }
            let loose = match (why, ways.is_shadowed) {
                (Some(why), _) => Some(Loose::Leaf(why)),
                (None, true) => Some(Loose::Shadowed),
                (None, false) => loose((job, sent), pins, flows),
            };
            match loose.map_or(Way::Pins, Loose::way) {
                Way::Pins => ways.pinned += 1,
                Way::Weights => ways.weighted += 1,
                Way::OwnRouting => ways.own_routing += 1,
            }
        }
        Some(ways)
    }

    /// Why a flow of a job does not go by its pin; None: it does.
    pub(super) fn loose(
        &self,
        (job, sent): (&JobName, &Sent),
        pins: &Pins,
        flows: &LeafFlows,
    ) -> Option<Loose> {
        let why = Unpinned::why(&self.topology, &self.unpinned, &sent.from.switch);
        match why {
            Some(why) => Some(Loose::Leaf(why)),
            None if is_shadowed(&self.topology, job) => Some(Loose::Shadowed),
            None => loose((job, sent), pins, flows),
        }
    }

    /// Which way so many flows go that nobody looks at one by one. None is counted where leaves that have weights send some of
    /// them, and leaves without weights others.
    fn wide(&self, job: &JobName, count: usize) -> Option<Ways> {
        let declared = &self.topology.job(job)?.declared;
        let mut faults = InvalidFabric::default();
        let nics = Nics::find(&self.topology, declared, "", &mut faults);
        let senders = nics.flows.iter().map(|[from, _]| from);
        let leaves = nics.ranks.iter().chain(senders).map(|nic| &nic.switch);
        let leaves: BTreeSet<&SwitchName> = leaves.filter(|it| !it.as_str().is_empty()).collect();
        let mut ways = Ways {
            is_shadowed: is_shadowed(&self.topology, job),
            ..Ways::default()
        };
        let mut own_routing = 0;
        for leaf in &leaves {
            if let Some(why) = Unpinned::why(&self.topology, &self.unpinned, leaf) {
                ways.leave(leaf, why);
                own_routing += usize::from(!why.has_weights());
            }
        }
        match own_routing {
            0 => ways.weighted = count,
            all if all == leaves.len() => ways.own_routing = count,
            _ => {}
        }
        Some(ways)
    }
}

/// Why a flow does not go by its pin, where its leaf gets pins and its job is on.
fn loose((job, sent): (&JobName, &Sent), pins: &Pins, flows: &LeafFlows) -> Option<Loose> {
    if pins.get(&name(&(job, sent))).is_none() {
        return Some(Loose::NoPin);
    }
    if flows_to(&sent.to).next().is_none() {
        return Some(Loose::Unaddressed);
    }
    (!has(flows, &sent.from.switch, &sent.to)).then_some(Loose::NoNextHop)
}

/// Whether a leaf is to have the flow to a NIC, over next hops of its own.
fn has(flows: &LeafFlows, leaf: &SwitchName, to: &HostPort) -> bool {
    flows.get(leaf).is_some_and(|flows| {
        let mut known = flows_to(to).filter_map(|flow| flows.get(&flow));
        known.any(|members| !members.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::balancer::flows::of_leaves;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::tests::{leaf_spine, with_nics};

    fn unpinned(leaves: &[(&str, Unpinned)]) -> Arc<BTreeMap<SwitchName, Unpinned>> {
        let leaves = leaves.iter();
        let leaves = leaves.map(|(leaf, why)| (SwitchName::from(*leaf), *why));
        Arc::new(leaves.collect())
    }

    fn ways(bench: &mut Bench) -> Ways {
        let (plan, _) = bench.adopt();
        let flows = of_leaves(bench.balancer.plan(), &bench.topology, &bench.pins);
        let ways = plan.ways(&"train".into(), &bench.pins, &flows);
        ways.unwrap()
    }

    fn counts(ways: &Ways) -> (usize, usize, usize) {
        (ways.pinned, ways.weighted, ways.own_routing)
    }

    #[test]
    fn leaves_get_pins_if_they_are_on_and_have_a_weft_agent() {
        let topology = leaf_spine(3, 2);
        let mut modes = Modes::default();
        let foreign = BTreeSet::from([SwitchName::from("leaf3")]);
        let all = Unpinned::all(&topology, &modes, &foreign);
        assert!(all.len() == 3 && all.values().all(|why| *why == Unpinned::Shadow));
        modes.set("", Some(Mode::On));
        modes.set("leaf2", Some(Mode::Off));
        let all = Unpinned::all(&topology, &modes, &foreign);
        let expected = unpinned(&[("leaf2", Unpinned::Off), ("leaf3", Unpinned::Foreign)]);
        assert_eq!(all, *expected);
    }

    #[test]
    fn flows_go_by_pins_by_weights_or_as_their_leaf_has_it() {
        // Two of each leaf send to the next one.
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let all = ways(&mut bench);
        assert_eq!((counts(&all), all.unpinned.len()), ((8, 0, 0), 0));
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Shadow), ("leaf2", Unpinned::Foreign)]);
        let some = ways(&mut bench);
        assert_eq!(counts(&some), (4, 2, 2));
        let shadow = &some.unpinned[&Unpinned::Shadow];
        assert_eq!(*shadow, BTreeSet::from([SwitchName::from("leaf1")]));

        let mut job = ring("train", 4, 1..=2);
        job.set_balance_mode(v1::BalanceMode::Shadow);
        bench.topology.put(Fact::declared(&job).unwrap());
        let none = ways(&mut bench);
        assert_eq!((counts(&none), none.is_shadowed), ((0, 6, 2), true));
    }

    #[test]
    fn a_leaf_without_an_agent_routes_by_itself() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let mut leaf = bench.topology.switch(&"leaf1".into()).unwrap().clone();
        leaf.agent = None;
        bench.topology.put(Fact::Switch(Arc::new(leaf)));
        let ways = ways(&mut bench);
        assert_eq!(counts(&ways), (6, 0, 2));
        let leaves = &ways.unpinned[&Unpinned::NoAgent];
        assert_eq!(*leaves, BTreeSet::from([SwitchName::from("leaf1")]));
    }

    #[test]
    fn flows_that_nobody_looks_at_go_one_way_or_are_not_counted() {
        let mut bench = Bench::new(with_nics(2, 2, 2), &[ring("train", 2, 1..=2)]);
        let mut wide = |leaves: &[(&str, Unpinned)]| {
            bench.unpinned = unpinned(leaves);
            let (plan, _) = bench.adopt();
            counts(&plan.wide(&"train".into(), 100).unwrap())
        };
        let off = |leaf| (leaf, Unpinned::Off);
        assert_eq!(wide(&[]), (0, 100, 0));
        assert_eq!(wide(&[("leaf1", Unpinned::Bgp)]), (0, 100, 0));
        assert_eq!(wide(&[off("leaf1"), off("leaf2")]), (0, 0, 100));
        assert_eq!(wide(&[off("leaf1")]), (0, 0, 0));
    }
}
