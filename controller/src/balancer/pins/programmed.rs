//! Which leaves get pins, and which way the flows of a job go: by their pins, by weights, or as the own routing of their leaf has
//! it. Pure. It refuses to know who asks, and how a switch is programmed.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1;

use super::sent::{Sent, Unresolved};
use super::{PinPlan, name};
use crate::balancer::Plan;
use crate::balancer::flows::{LeafFlows, flows_to};
use crate::balancer::unweighted::Unweighted;
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

    /// Whether the leaf gets weights nevertheless, as far as the plan has some for it.
    fn takes_weights(self) -> bool {
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
    /// The way that the flow goes instead, by why its leaf has no weights for it; None: it has some.
    pub(super) fn way(self, unweighted: Option<Unweighted>) -> Way {
        match self.takes_weights() && unweighted.is_none() {
            true => Way::Weights,
            false => Way::OwnRouting,
        }
    }

    /// Whether the flow goes by weights, as far as its leaf has some for it.
    fn takes_weights(self) -> bool {
        match self {
            Self::Leaf(why) => why.takes_weights(),
            Self::Shadowed | Self::NoPin | Self::Unaddressed | Self::NoNextHop => true,
        }
    }
}

/// What leaves are to have.
#[derive(Clone, Copy)]
pub struct Programmed<'a> {
    /// The plan in force, with the weights.
    pub plan: &'a Plan,
    /// The flows of each leaf that go over next hops of their own.
    pub flows: &'a LeafFlows,
}

impl Programmed<'_> {
    /// Why a leaf has no weights for a flow that would go by them; None: it has some, or the flow goes another way.
    pub(super) fn unweighted(self, loose: Option<Loose>, sent: &Sent) -> Option<Unweighted> {
        match loose {
            Some(loose) if loose.takes_weights() => {
                self.plan.unweighted(&sent.from.switch, &sent.to.switch)
            }
            Some(_) | None => None,
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
    /// The leaves that take weights, and have none to some leaf that the job sends to.
    pub unweighted: BTreeMap<Unweighted, BTreeSet<SwitchName>>,
}

/// Adds a leaf to those of a reason.
fn add<Why: Ord>(
    leaves: &mut BTreeMap<Why, BTreeSet<SwitchName>>,
    why: Option<Why>,
    leaf: &SwitchName,
) {
    let Some(why) = why else {
        return;
    };
    let leaves = leaves.entry(why).or_default();
    if !leaves.contains(leaf) {
        leaves.insert(leaf.clone());
    }
}

impl PinPlan {
    /// Which way the flows of a job go by the adopted pins and by what leaves are to have. None: nobody knows its flows.
    pub fn ways(&self, job: &JobName, pins: &Pins, programmed: Programmed<'_>) -> Option<Ways> {
        let sent = match self.sent.get(job)? {
            Ok(sent) => sent,
            Err(Unresolved::TooMany { flows, .. }) => {
                return self.wide(job, *flows, programmed.plan);
            }
            Err(Unresolved::Unknown(_) | Unresolved::TooLarge | Unresolved::Off) => return None,
        };
        let mut ways = Ways {
            is_shadowed: is_shadowed(&self.topology, job),
            ..Ways::default()
        };
        for sent in &sent.over {
            let leaf = &sent.from.switch;
            let why = Unpinned::why(&self.topology, &self.unpinned, leaf);
            add(&mut ways.unpinned, why, leaf);
            let loose = match (why, ways.is_shadowed) {
                (Some(why), _) => Some(Loose::Leaf(why)),
                (None, true) => Some(Loose::Shadowed),
                (None, false) => loose((job, sent), pins, programmed.flows),
            };
            let unweighted = programmed.unweighted(loose, sent);
            add(&mut ways.unweighted, unweighted, leaf);
            match loose.map_or(Way::Pins, |loose| loose.way(unweighted)) {
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

    /// Which way the flows of a job go that are too many to look at one by one: as if every leaf of the job sent to every other. If
    /// some pairs of leaves have weights and others have none, no flow is counted.
    fn wide(&self, job: &JobName, count: usize, plan: &Plan) -> Option<Ways> {
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
        let (mut weighted, mut own_routing) = (0_usize, 0_usize);
        for leaf in &leaves {
            let why = Unpinned::why(&self.topology, &self.unpinned, leaf);
            add(&mut ways.unpinned, why, leaf);
            if why.is_some_and(|why| !why.takes_weights()) {
                own_routing += 1;
                continue;
            }
            for to in leaves.iter().filter(|to| *to != leaf) {
                let unweighted = plan.unweighted(leaf, to);
                add(&mut ways.unweighted, unweighted, leaf);
                match unweighted {
                    None => weighted += 1,
                    Some(_) => own_routing += 1,
                }
            }
        }
        match (weighted, own_routing) {
            (_, 0) => ways.weighted = count,
            (0, _) => ways.own_routing = count,
            (_, _) => {}
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
        let weights = bench.balancer.plan();
        let programmed = Programmed {
            plan: weights,
            flows: &of_leaves(weights, &bench.topology, &bench.pins),
        };
        let ways = plan.ways(&"train".into(), &bench.pins, programmed);
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

    /// No weft-agent answers at leaf 1, and no spine announces a way.
    #[test]
    fn flows_of_a_leaf_that_gets_no_weights_go_as_it_routes_them() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let leaf1 = BTreeSet::from([SwitchName::from("leaf1")]);
        bench.foreign.clone_from(&leaf1);
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Foreign)]);
        let of_foreign = ways(&mut bench);
        assert_eq!(counts(&of_foreign), (6, 0, 2));
        let unweighted = BTreeMap::from([(Unweighted::Unannounced, leaf1)]);
        assert_eq!(of_foreign.unweighted, unweighted);
        assert_eq!(of_foreign.unpinned.len(), 1);

        // It has none of them by its mode already.
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Shadow)]);
        let of_shadow = ways(&mut bench);
        assert_eq!(counts(&of_shadow), (6, 0, 2));
        assert!(of_shadow.unweighted.is_empty());
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
            let ways = plan.wide(&"train".into(), 100, bench.balancer.plan());
            counts(&ways.unwrap())
        };
        let off = |leaf| (leaf, Unpinned::Off);
        assert_eq!(wide(&[]), (0, 100, 0));
        assert_eq!(wide(&[("leaf1", Unpinned::Bgp)]), (0, 100, 0));
        assert_eq!(wide(&[off("leaf1"), off("leaf2")]), (0, 0, 100));
        assert_eq!(wide(&[off("leaf1")]), (0, 0, 0));
    }

    #[test]
    fn flows_that_nobody_looks_at_go_by_weights_only_where_leaves_have_some() {
        let mut bench = Bench::new(with_nics(2, 2, 2), &[ring("train", 2, 1..=2)]);
        let mut wide = |foreign: &[&str]| {
            bench.foreign = foreign.iter().map(|leaf| SwitchName::from(*leaf)).collect();
            let known = foreign.iter().map(|leaf| (*leaf, Unpinned::Foreign));
            bench.unpinned = unpinned(&known.collect::<Vec<_>>());
            let (plan, _) = bench.adopt();
            let ways = plan.wide(&"train".into(), 100, bench.balancer.plan());
            let ways = ways.unwrap();
            let unweighted: usize = ways.unweighted.values().map(BTreeSet::len).sum();
            (counts(&ways), unweighted)
        };
        assert_eq!(wide(&[]), ((0, 100, 0), 0));
        assert_eq!(wide(&["leaf1"]), ((0, 0, 0), 1));
        assert_eq!(wide(&["leaf1", "leaf2"]), ((0, 0, 100), 2));
    }
}
