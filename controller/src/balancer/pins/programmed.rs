//! Which leaves get pins and have them, and which way the flows of a job go: by their pins, by weights, or as the own routing of their
//! leaf has it. Pure. It refuses to know who asks, and how a switch is programmed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use weft_proto::v1;

use super::lacking::{Bare, Lacking, Lacks, Missing};
use super::sent::{Sent, Unresolved};
use super::{PinPlan, name};
use crate::balancer::Plan;
use crate::balancer::flows::{LeafFlows, known_by};
use crate::balancer::unweighted::Unweighted;
use crate::fabric::fact::{InvalidFabric, JobName, SwitchName};
use crate::fabric::job::Nics;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::pin::Pins;
use crate::fabric::topology::{Role, Topology};
use crate::southbound::intent::{Flow, Target};

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
    /// Nobody knows yet what its leaf has.
    Unknown,
}

/// Why a flow does not go by its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loose {
    /// Its leaf gets no pins.
    Leaf(Unpinned),
    /// Its leaf has nothing, or nobody knows what it has.
    Bare(Bare),
    /// Its job is in shadow.
    Shadowed,
    /// No pin of it is adopted.
    NoPin,
    /// Nobody knows the address or the VNI of the NIC that takes it, and the one that sends it sends to others of that kind, too.
    Unaddressed,
    /// Its leaf has no next hop that leads over the spines of its pin, or too many ways to divide flows.
    NoNextHop,
    /// The forwarding plane of its leaf does not have the pin, or not all of it, for this reason.
    Withheld(Arc<str>),
}

impl Loose {
    /// The way that the flow goes instead, by why its leaf has no weights for it; None: it has some.
    pub(super) fn way(&self, unweighted: Option<&Unweighted>) -> Way {
        match self {
            Self::Bare(why) if !why.is_known() => Way::Unknown,
            _ if self.takes_weights() && unweighted.is_none() => Way::Weights,
            _ => Way::OwnRouting,
        }
    }

    /// Whether the flow goes by weights, as far as its leaf has some for it.
    fn takes_weights(&self) -> bool {
        match self {
            Self::Leaf(why) => why.takes_weights(),
            Self::Bare(_) => false,
            Self::Shadowed
            | Self::NoPin
            | Self::Unaddressed
            | Self::NoNextHop
            | Self::Withheld(_) => true,
        }
    }

    /// Why no flow of a leaf goes by its pin, by why the leaf gets none and why it has nothing.
    fn of_leaf(unpinned: Option<Unpinned>, bare: Option<Bare>) -> Option<Self> {
        match (unpinned, bare) {
            // That no weft-agent answers says both.
            (Some(Unpinned::Foreign), Some(why)) if why != Bare::Unanswered => {
                Some(Self::Bare(why))
            }
            (Some(why), _) => Some(Self::Leaf(why)),
            (None, why) => why.map(Self::Bare),
        }
    }
}

/// What leaves are to have, and what of that they do not have.
#[derive(Clone, Copy)]
pub struct Programmed<'a> {
    /// The plan in force, with the weights.
    pub plan: &'a Plan,
    /// The flows of each leaf that go over next hops of their own.
    pub flows: &'a LeafFlows,
    /// What leaves do not have of these.
    pub lacking: &'a Lacking,
}

impl Programmed<'_> {
    /// Why a leaf has no weights for a flow that would go by them; None: it has some, or the flow goes another way.
    pub(super) fn unweighted(self, loose: Option<&Loose>, sent: &Sent) -> Option<Unweighted> {
        match loose {
            Some(loose) if loose.takes_weights() => {
                self.unweighted_to(&sent.from.switch, &sent.to.switch)
            }
            Some(_) | None => None,
        }
    }

    /// Why a leaf that takes weights has none to another one; None: it has some.
    fn unweighted_to(self, leaf: &SwitchName, to: &SwitchName) -> Option<Unweighted> {
        if self.bare(leaf).is_some() {
            return Some(Unweighted::Unanswered);
        }
        let withheld = || self.missing(leaf)?.prefix(self.prefix(to)?);
        let planned = self.plan.unweighted(leaf, to);
        planned.or_else(|| withheld().map(Unweighted::Withheld))
    }

    /// By which leaves reach another one.
    fn prefix(self, to: &SwitchName) -> Option<IpNet> {
        let vtep = self.plan.topology()?.switch(to)?.vtep?;
        Some(IpNet::from(vtep))
    }

    /// Why a leaf has nothing, or nobody knows what it has; None: it has some of what it is to have.
    fn bare(self, leaf: &SwitchName) -> Option<Bare> {
        match self.lacking.get(leaf)? {
            Lacks::All(why) => Some(*why),
            Lacks::These(_) => None,
        }
    }

    /// What a leaf does not have in force, where it has some.
    fn missing(&self, leaf: &SwitchName) -> Option<&Missing> {
        match self.lacking.get(leaf)? {
            Lacks::All(_) => None,
            Lacks::These(these) => Some(these),
        }
    }

    /// Why a leaf that is to have the pin of a flow does not have it, or not all of it; None: it has.
    fn withheld_pin(self, sent: &Sent) -> Option<Arc<str>> {
        let missing = self.missing(&sent.from.switch)?;
        let intended = self.flows.get(&sent.from.switch)?;
        let prefix = self.prefix(&sent.to.switch);
        // weft-agent has pins to prefixes that it took. One that it took and does not use is in part in force, by what it says.
        let refused = prefix.filter(|it| !missing.partly.contains_key(it));
        let refused = refused.and_then(|it| missing.withheld.get(&Target::Prefix(it)));
        if let Some(why) = refused {
            return Some(Arc::clone(why));
        }
        let unused = |flow: &Flow| missing.unused(prefix?, intended.get(flow)?);
        let ports = || std::iter::once(None).chain(sent.ports.iter().copied().map(Some));
        let wholes = known_by(intended, &sent.from, &sent.to).into_iter();
        let mut flows = wholes.flat_map(|whole| {
            ports().map(move |udp_source_port| Flow {
                udp_source_port,
                ..whole
            })
        });
        flows.find_map(|flow| {
            let withheld = missing.withheld.get(&Target::Flow(flow)).cloned();
            withheld.or_else(|| unused(&flow))
        })
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
    /// The leaves that it sends from and that have nothing of what they are to have. Of those of which nobody knows what they have no
    /// flow is counted.
    pub bare: BTreeMap<SwitchName, Bare>,
    /// The leaves whose forwarding plane does not have pins of it, or not all of them, by why.
    pub withheld: BTreeMap<Arc<str>, BTreeSet<SwitchName>>,
    /// The leaves that take weights, and have none to some leaf that the job sends to.
    pub unweighted: BTreeMap<Unweighted, BTreeSet<SwitchName>>,
}

impl Ways {
    /// Keeps what a leaf does not have of what it is to have, if a flow of it goes another way for that.
    fn note(&mut self, leaf: &SwitchName, loose: Option<Loose>) {
        match loose {
            Some(Loose::Bare(why)) if !self.bare.contains_key(leaf) => {
                self.bare.insert(leaf.clone(), why);
            }
            Some(Loose::Withheld(why)) => add(&mut self.withheld, Some(why), leaf),
            Some(_) | None => {}
        }
    }
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
                return self.wide(job, *flows, programmed);
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
            let of_leaf = Loose::of_leaf(why, programmed.bare(leaf));
            let loose = match (of_leaf, ways.is_shadowed) {
                (Some(loose), _) => Some(loose),
                (None, true) => Some(Loose::Shadowed),
                (None, false) => loose((job, sent), pins, programmed),
            };
            let unweighted = programmed.unweighted(loose.as_ref(), sent);
            let way = |loose: &Loose| loose.way(unweighted.as_ref());
            match loose.as_ref().map_or(Way::Pins, way) {
                Way::Pins => ways.pinned += 1,
                Way::Weights => ways.weighted += 1,
                Way::OwnRouting => ways.own_routing += 1,
                Way::Unknown => {}
            }
            ways.note(leaf, loose);
            add(&mut ways.unweighted, unweighted, leaf);
        }
        Some(ways)
    }

    /// Why a flow of a job does not go by its pin; None: it does.
    pub(super) fn loose(
        &self,
        (job, sent): (&JobName, &Sent),
        pins: &Pins,
        programmed: Programmed<'_>,
    ) -> Option<Loose> {
        let leaf = &sent.from.switch;
        let why = Unpinned::why(&self.topology, &self.unpinned, leaf);
        match Loose::of_leaf(why, programmed.bare(leaf)) {
            Some(loose) => Some(loose),
            None if is_shadowed(&self.topology, job) => Some(Loose::Shadowed),
            None => loose((job, sent), pins, programmed),
        }
    }

    /// Which way the flows of a job go that are too many to look at one by one: as if every leaf of the job sent to every other. If
    /// some pairs of leaves have weights and others have none, or nobody knows of some, no flow is counted.
    fn wide(&self, job: &JobName, count: usize, programmed: Programmed<'_>) -> Option<Ways> {
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
        let (mut weighted, mut own_routing, mut unknown) = (0_usize, 0_usize, 0_usize);
        for leaf in &leaves {
            let why = Unpinned::why(&self.topology, &self.unpinned, leaf);
            add(&mut ways.unpinned, why, leaf);
            if let Some(loose) = Loose::of_leaf(why, programmed.bare(leaf))
                && !loose.takes_weights()
            {
                match loose.way(None) {
                    Way::Unknown => unknown += 1,
                    Way::OwnRouting | Way::Weights | Way::Pins => own_routing += 1,
                }
                ways.note(leaf, Some(loose));
                continue;
            }
            for to in leaves.iter().filter(|to| *to != leaf) {
                let unweighted = programmed.unweighted_to(leaf, to);
                match unweighted {
                    None => weighted += 1,
                    Some(_) => own_routing += 1,
                }
                add(&mut ways.unweighted, unweighted, leaf);
            }
        }
        match (weighted, own_routing, unknown) {
            (_, 0, 0) => ways.weighted = count,
            (0, _, 0) => ways.own_routing = count,
            (_, _, _) => {}
        }
        Some(ways)
    }
}

/// Why a flow does not go by its pin, where its leaf gets pins and its job is on.
fn loose((job, sent): (&JobName, &Sent), pins: &Pins, programmed: Programmed<'_>) -> Option<Loose> {
    if pins.get(&name(&(job, sent))).is_none() {
        return Some(Loose::NoPin);
    }
    if !has(programmed.flows, sent) {
        return Some(match sent.is_known() {
            true => Loose::NoNextHop,
            false => Loose::Unaddressed,
        });
    }
    programmed.withheld_pin(sent).map(Loose::Withheld)
}

/// Whether a leaf is to have what a NIC of it sends to another over next hops of its own.
fn has(flows: &LeafFlows, sent: &Sent) -> bool {
    flows.get(&sent.from.switch).is_some_and(|flows| {
        let known = known_by(flows, &sent.from, &sent.to).into_iter();
        let mut known = known.filter_map(|flow| flows.get(&flow));
        known.any(|members| !members.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::flows::of_leaves;
    use crate::balancer::pins::lacking::{OwnRoute, Partly};
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::tests::{leaf_spine, vtep, with_nics};

    fn unpinned(leaves: &[(&str, Unpinned)]) -> Arc<BTreeMap<SwitchName, Unpinned>> {
        let leaves = leaves.iter();
        let leaves = leaves.map(|(leaf, why)| (SwitchName::from(*leaf), *why));
        Arc::new(leaves.collect())
    }

    fn ways(bench: &mut Bench) -> Ways {
        ways_without(bench, &Lacking::new())
    }

    /// Where leaves do not have all of what they are to have.
    fn ways_without(bench: &mut Bench, lacking: &Lacking) -> Ways {
        let (plan, _) = bench.adopt();
        let weights = bench.balancer.plan();
        let programmed = Programmed {
            plan: weights,
            flows: &of_leaves(weights, &bench.topology, &bench.pins),
            lacking,
        };
        let ways = plan.ways(&"train".into(), &bench.pins, programmed);
        ways.unwrap()
    }

    /// How many flows go which way, of a job with 100 flows that are too many to look at one by one.
    fn wide(bench: &mut Bench, lacking: &Lacking) -> Ways {
        let (plan, _) = bench.adopt();
        let programmed = Programmed {
            plan: bench.balancer.plan(),
            flows: &LeafFlows::new(),
            lacking,
        };
        plan.wide(&"train".into(), 100, programmed).unwrap()
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
    fn flows_of_a_leaf_whose_agent_died_go_as_it_routes_them() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let silent = Bare::Silent { secs: 12 };
        let leaf1 = SwitchName::from("leaf1");
        let lacking = Lacking::from([(leaf1.clone(), Lacks::All(silent))]);
        let died = ways_without(&mut bench, &lacking);
        assert_eq!(counts(&died), (6, 0, 2));
        assert_eq!(died.bare, [(leaf1.clone(), silent)].into());
        assert!(died.unweighted.is_empty());

        // A leaf that is to have nothing lacks nothing.
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Shadow)]);
        let shadow = ways_without(&mut bench, &lacking);
        assert_eq!(counts(&shadow), (6, 0, 2));
        assert!(shadow.bare.is_empty());

        // Nobody ever answered: it would get weights over announced ways, as any gRIBI server.
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Foreign)]);
        let unanswered = [(leaf1.clone(), Lacks::All(Bare::Unanswered))].into();
        let never = ways_without(&mut bench, &unanswered);
        assert_eq!(counts(&never), (6, 0, 2));
        let unweighted = BTreeMap::from([(Unweighted::Unanswered, BTreeSet::from([leaf1]))]);
        assert_eq!(never.unweighted, unweighted);
        assert!(never.bare.is_empty());
    }

    #[test]
    fn the_way_of_flows_is_unknown_until_it_is_known_what_their_leaf_has() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let leaf1 = SwitchName::from("leaf1");
        for (why, expected) in [
            (Bare::Unheard, (6, 0, 0)),
            (Bare::Unread, (6, 0, 0)),
            (Bare::Empty, (6, 0, 2)),
            (Bare::Bypassed, (6, 0, 2)),
        ] {
            let lacking = Lacking::from([(leaf1.clone(), Lacks::All(why))]);
            let ways = ways_without(&mut bench, &lacking);
            assert_eq!(counts(&ways), expected, "{why:?}");
            assert_eq!(ways.bare, [(leaf1.clone(), why)].into());
        }
        // Nor is it known what another gRIBI server has, while there is no session to it.
        bench.unpinned = unpinned(&[("leaf1", Unpinned::Foreign)]);
        let lacking = Lacking::from([(leaf1, Lacks::All(Bare::Unread))]);
        assert_eq!(counts(&ways_without(&mut bench, &lacking)), (6, 0, 0));
    }

    #[test]
    fn flows_go_by_no_pin_that_the_forwarding_plane_does_not_have() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let leaf1 = SwitchName::from("leaf1");
        let why: Arc<str> = "accepted, not active: there is no VXLAN device for vni-100".into();
        let flow = Target::Flow(Flow::to(100, [192, 168, 2, 1].into()));
        let mut without = |targets: &[Target], partly: Partly| {
            let withheld = targets.iter().map(|target| (*target, Arc::clone(&why)));
            let missing = Missing {
                withheld: Arc::new(withheld.collect()),
                partly: Arc::new(partly),
            };
            let lacks = Lacks::These(missing);
            ways_without(&mut bench, &[(leaf1.clone(), lacks)].into())
        };
        // The weights of the leaf carry it.
        let held = without(&[flow], Partly::new());
        assert_eq!(counts(&held), (7, 1, 0));
        assert!(held.unweighted.is_empty());
        let leaves = BTreeSet::from([leaf1.clone()]);
        let expected = BTreeMap::from([(Arc::clone(&why), leaves.clone())]);
        assert_eq!(held.withheld, expected);
        // It took no prefix of the leaf that takes: no pin goes there.
        let prefix = Target::Prefix(IpNet::from(vtep(2)));
        let routed = without(&[prefix], Partly::new());
        assert_eq!(counts(&routed), (6, 0, 2));
        let unweighted = Unweighted::Withheld(Arc::clone(&why));
        assert_eq!(routed.unweighted, [(unweighted, leaves)].into());
        // It took it, and does not use it yet: pins need no weights.
        let own = OwnRoute {
            bypassed: Some("no weights".into()),
            interfaces: (1..=4).map(|it| format!("eth{it}")).collect(),
        };
        let partly = Partly::from([(IpNet::from(vtep(2)), own)]);
        assert_eq!(counts(&without(&[prefix], partly)), (8, 0, 0));
    }

    #[test]
    fn flows_go_by_no_pin_over_what_their_leaf_itself_does_not_use() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let leaf1 = SwitchName::from("leaf1");
        // The two flows go to leaf 2, over two spines.
        let mut with = |bypassed: Option<&str>, interfaces: &[&str]| {
            let interfaces = interfaces.iter().map(|it| (*it).to_owned());
            let own = OwnRoute {
                bypassed: bypassed.map(Arc::from),
                interfaces: interfaces.collect(),
            };
            let missing = Missing {
                partly: Arc::new([(IpNet::from(vtep(2)), own)].into()),
                ..Missing::default()
            };
            let lacks = Lacks::These(missing);
            ways_without(&mut bench, &[(leaf1.clone(), lacks)].into())
        };
        let all = with(None, &["eth1", "eth2", "eth3", "eth4"]);
        assert_eq!((counts(&all), all.withheld.len()), ((8, 0, 0), 0));
        let none = with(None, &["eth9"]);
        assert_eq!(counts(&none), (6, 2, 0));
        let known: Vec<_> = none.withheld.keys().collect();
        assert!(known.iter().all(|why| why.contains("does not use eth")));
        assert!(!known.is_empty() && none.unweighted.is_empty());
        // Nor do weights carry them where the whole prefix is left to it.
        let routed = with(Some("no route"), &[]);
        assert_eq!(counts(&routed), (6, 0, 2));
        let why = Unweighted::Withheld("no route".into());
        assert!(routed.unweighted.contains_key(&why));
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
            counts(&wide(&mut bench, &Lacking::new()))
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
            let ways = wide(&mut bench, &Lacking::new());
            let unweighted: usize = ways.unweighted.values().map(BTreeSet::len).sum();
            (counts(&ways), unweighted)
        };
        assert_eq!(wide(&[]), ((0, 100, 0), 0));
        assert_eq!(wide(&["leaf1"]), ((0, 0, 0), 1));
        assert_eq!(wide(&["leaf1", "leaf2"]), ((0, 0, 100), 2));
    }

    #[test]
    fn flows_that_nobody_looks_at_go_by_no_weights_of_leaves_that_have_nothing() {
        let mut bench = Bench::new(with_nics(2, 2, 2), &[ring("train", 2, 1..=2)]);
        let mut wide = |leaves: &[(&str, Bare)]| {
            let leaves = leaves.iter();
            let lacking = leaves.map(|(leaf, why)| (SwitchName::from(*leaf), Lacks::All(*why)));
            let ways = wide(&mut bench, &lacking.collect());
            (counts(&ways), ways.bare.len())
        };
        let silent = |leaf| (leaf, Bare::Silent { secs: 12 });
        assert_eq!(wide(&[silent("leaf1")]), ((0, 0, 0), 1));
        let both = [silent("leaf1"), silent("leaf2")];
        assert_eq!(wide(&both), ((0, 0, 100), 2));
        let one = [silent("leaf1"), ("leaf2", Bare::Unheard)];
        assert_eq!(wide(&one), ((0, 0, 0), 2));
    }
}
