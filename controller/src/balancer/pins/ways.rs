//! Each flow of a job by itself: the way it goes, what is predicted of it, with which others it goes together, and by what its leaf
//! counts it. Pure. It refuses to know who asks, and what was counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::programmed::{Loose, Programmed, Way, is_shadowed};
use super::sent::Sent;
use super::{PinPlan, name};
use crate::balancer::flows::{LeafFlows, known_by};
use crate::balancer::unweighted::Unweighted;
use crate::fabric::fact::{HostPort, JobName, PortName, SwitchName};
use crate::fabric::pin::{PinPath, Pins};
use crate::southbound::intent::{Flow, Flows, Source};

/// A flow of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFlow {
    /// Sends.
    pub from: Arc<HostPort>,
    /// Takes.
    pub to: Arc<HostPort>,
    /// Why it does not go by its pin; None: it does.
    pub loose: Option<Loose>,
    /// Why its leaf has no weights for it, if it would go by them; None: it has some, or the flow goes another way.
    pub unweighted: Option<Unweighted>,
    /// The adopted pin; empty: there is none.
    pub paths: Arc<[PinPath]>,
    /// Bits per second, while the busiest NIC of the job sends or takes at its rate.
    pub bps: u64,
    /// What goes together; only of a flow that goes by its pin, which is one of these then.
    pub bundle: Arc<Bundle>,
    /// By what its leaf counts it, with all that goes together; empty: it does not go by its pin.
    pub counted_by: BTreeSet<Flow>,
}

impl PlannedFlow {
    /// The way that it goes.
    pub fn way(&self) -> Way {
        let instead = |loose: &Loose| loose.way(self.unweighted.as_ref());
        self.loose.as_ref().map_or(Way::Pins, instead)
    }
}

/// What a leaf sends to one NIC by pins and does not tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The NICs that send, for whatever job.
    pub sources: BTreeSet<PortName>,
    /// Bits per second of all together.
    pub bps: u64,
}

/// Bundles by the leaf, the NIC that takes, and the one that sends if what it sends there is told apart.
type Bundles<'a> = BTreeMap<Bundled<'a>, Bundle>;

/// What flows of a bundle have in common.
type Bundled<'a> = (&'a SwitchName, &'a PortName, Option<&'a PortName>);

impl PinPlan {
    /// The first flows of a job behind one of them, in order of the names of their ends, by the adopted pins and by what leaves are to
    /// have. None: nobody knows its flows one by one.
    pub fn job_flows(
        &self,
        job: &JobName,
        after: Option<&(PortName, PortName)>,
        most: usize,
        (pins, programmed): (&Pins, Programmed<'_>),
    ) -> Option<Vec<PlannedFlow>> {
        let flows = programmed.flows;
        let sent = self.sent.get(job)?.as_ref().ok()?;
        let after = after.map(|(from, to)| (from, to));
        let behind = |sent: &&Sent| after.is_none_or(|after| ends(sent) > after);
        let mut rest: Vec<&Sent> = sent.over.iter().filter(behind).collect();
        if rest.len() > most {
            // A page costs no sorting of all.
            rest.select_nth_unstable_by(most, |a, b| ends(a).cmp(&ends(b)));
            rest.truncate(most);
        }
        rest.sort_unstable_by(|a, b| ends(a).cmp(&ends(b)));
        let loose: Vec<_> = rest
            .iter()
            .map(|sent| self.loose((job, *sent), pins, programmed))
            .collect();
        let pinned = rest.iter().copied().zip(&loose);
        let pinned = pinned.filter(|(_, loose)| loose.is_none());
        let bundles = self.bundles(
            pinned.map(|(sent, _)| (bundle(flows, sent), Bundle::default())),
            (pins, flows),
        );
        let shared = bundles.into_iter();
        let shared: BTreeMap<_, _> = shared.map(|(key, it)| (key, Arc::new(it))).collect();
        let rows = rest.into_iter().zip(loose).map(|(sent, loose)| {
            let own = shared.get(&bundle(flows, sent)).filter(|_| loose.is_none());
            let of_leaf = flows.get(&sent.from.switch).filter(|_| loose.is_none());
            PlannedFlow {
                from: Arc::clone(&sent.from),
                to: Arc::clone(&sent.to),
                unweighted: programmed.unweighted(loose.as_ref(), sent),
                loose,
                paths: pins
                    .get(&name(&(job, sent)))
                    .map_or_else(|| Arc::from([]), Arc::clone),
                bps: sent.bps,
                bundle: own.map_or_else(Arc::default, Arc::clone),
                counted_by: of_leaf.map_or_else(BTreeSet::new, |of| counted_by(of, sent)),
            }
        });
        Some(rows.collect())
    }

    /// All that goes by pins in these bundles. What their leaf is to have of one flow, it is to have of all of its bundle.
    fn bundles<'a>(
        &'a self,
        wanted: impl Iterator<Item = (Bundled<'a>, Bundle)>,
        (pins, flows): (&Pins, &LeafFlows),
    ) -> Bundles<'a> {
        let mut bundles: Bundles<'a> = wanted.collect();
        if bundles.is_empty() {
            return bundles;
        }
        let ends: BTreeSet<_> = bundles.keys().map(|(leaf, to, _)| (*leaf, *to)).collect();
        for (job, sent) in self.sent.iter() {
            let Ok(sent) = sent else {
                continue;
            };
            if is_shadowed(&self.topology, job) {
                continue;
            }
            let to_these = |sent: &&Sent| ends.contains(&(&sent.from.switch, &sent.to.name));
            for sent in sent.over.iter().filter(to_these) {
                if let Some(known) = bundles.get_mut(&bundle(flows, sent))
                    && pins.get(&name(&(job, sent))).is_some()
                {
                    known.sources.insert(sent.from.name.clone());
                    known.bps = known.bps.saturating_add(sent.bps);
                }
            }
        }
        bundles
    }
}

/// What no two flows of a job have in common.
fn ends(sent: &Sent) -> (&PortName, &PortName) {
    (&sent.from.name, &sent.to.name)
}

/// The bundle of a flow.
fn bundle<'a>(flows: &LeafFlows, sent: &'a Sent) -> Bundled<'a> {
    let of_leaf = flows.get(&sent.from.switch);
    let known_by = of_leaf.map(|of| known_by(of, &sent.from, &sent.to));
    let mut known_by = known_by.into_iter().flatten();
    let is_apart = known_by.any(|flow| flow.source != Source::Any);
    let source = is_apart.then_some(&sent.from.name);
    (&sent.from.switch, &sent.to.name, source)
}

/// What packets of a flow are counted by: ports of its queue pairs that the leaf has entries of; and the entry without a port, unless
/// each of its ports has one.
fn counted_by(of_leaf: &Flows, sent: &Sent) -> BTreeSet<Flow> {
    let has = |flow: &Flow| of_leaf.get(flow).is_some_and(|members| !members.is_empty());
    let mut counted = BTreeSet::new();
    for whole in known_by(of_leaf, &sent.from, &sent.to) {
        let of_port = |port: &u16| Flow {
            udp_source_port: Some(*port),
            ..whole
        };
        let ports: BTreeSet<Flow> = sent.ports.iter().map(of_port).collect();
        let is_divided = !ports.is_empty() && ports.iter().all(has);
        counted.extend(ports.into_iter().filter(has));
        // What comes from an interface is counted with all that comes from there.
        if !is_divided && has(&whole) && whole.destination.is_some() {
            counted.insert(whole);
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::balancer::flows::{flows_to, of_leaves};
    use crate::balancer::pins::lacking::Lacking;
    use crate::balancer::pins::programmed::Unpinned;
    use crate::balancer::pins::tests::{Bench, ring};
    use crate::fabric::fact::Fact;
    use crate::fabric::topology::tests::with_nics;
    use crate::southbound::intent::{Members, NextHop};

    /// A job in which NICs send to others as much each.
    fn sends(name: &str, flows: &[(&str, &str)]) -> v1::Job {
        let nic = |host_port_name: &str| {
            Some(v1::Nic {
                host_port_name: host_port_name.to_owned(),
                ..v1::Nic::default()
            })
        };
        let flows = flows.iter().map(|(from, to)| v1::JobFlow {
            source: nic(from),
            destination: nic(to),
            octets: 1 << 30,
            ..v1::JobFlow::default()
        });
        v1::Job {
            name: name.to_owned(),
            flows: flows.collect(),
            ..v1::Job::default()
        }
    }

    fn listed(bench: &mut Bench, after: Option<(&str, &str)>, most: usize) -> Vec<PlannedFlow> {
        let (plan, _) = bench.adopt();
        let weights = bench.balancer.plan();
        let programmed = Programmed {
            plan: weights,
            flows: &of_leaves(weights, &bench.topology, &bench.pins),
            lacking: &Lacking::new(),
        };
        let after = after.map(|(from, to)| (PortName::from(from), PortName::from(to)));
        let agreed = (&bench.pins, programmed);
        plan.job_flows(&"train".into(), after.as_ref(), most, agreed)
            .unwrap()
    }

    fn names(flows: &[PlannedFlow]) -> Vec<String> {
        let names = flows.iter();
        let names = names.map(|it| format!("{} {}", it.from.name, it.to.name));
        names.collect()
    }

    #[test]
    fn flows_come_in_order_of_their_names_and_in_parts() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        let all = listed(&mut bench, None, 100);
        assert_eq!(all.len(), 8);
        let all = names(&all);
        assert!(all.is_sorted(), "{all:?}");
        let first = listed(&mut bench, None, 3);
        assert_eq!(names(&first), all[..3]);
        let last = all[2].split_once(' ');
        assert_eq!(names(&listed(&mut bench, last, 3)), all[3..6]);
        let last = all[7].split_once(' ');
        assert!(listed(&mut bench, last, 3).is_empty());
    }

    #[test]
    fn what_goes_together_is_named() {
        let own = [
            ("leaf1:nic1", "leaf2:nic1"),
            ("leaf1:nic2", "leaf2:nic1"),
            ("leaf1:nic3", "leaf2:nic2"),
            ("leaf1:nic4", "leaf2:nic1"),
        ];
        let mut bench = Bench::new(with_nics(2, 2, 4), &[sends("train", &own)]);
        // There is no room for an entry for each.
        let mut leaf = bench.topology.switch(&"leaf1".into()).unwrap().clone();
        leaf.limits.pins = Some(2);
        bench.topology.put(Fact::Switch(Arc::new(leaf)));
        let flows = listed(&mut bench, None, 100);
        let sources = |at: usize| -> Vec<&str> {
            let bundle = &flows[at].bundle;
            bundle.sources.iter().map(PortName::as_str).collect()
        };
        assert_eq!(sources(0), ["leaf1:nic1", "leaf1:nic2", "leaf1:nic4"]);
        assert_eq!(sources(1), sources(0));
        assert_eq!(sources(2), ["leaf1:nic3"]);
        assert!(flows[0].bundle.bps > flows[0].bps);
        assert_eq!(flows[2].bundle.bps, flows[2].bps);
        let flow = Flow::to(100, [192, 168, 2, 1].into());
        assert_eq!(flows[0].counted_by, [flow].into());
        assert_eq!(flows[0].counted_by, flows[1].counted_by);
        assert_eq!(flows[0].paths, flows[1].paths);
        assert!(!flows[0].paths.is_empty());
    }

    #[test]
    fn what_is_told_apart_is_counted_by_itself() {
        let own = [
            ("leaf1:nic1", "leaf2:nic1"),
            ("leaf1:nic2", "leaf2:nic1"),
            ("leaf1:nic3", "leaf2:nic1"),
        ];
        let mut bench = Bench::new(with_nics(2, 3, 3), &[sends("train", &own)]);
        let flows = listed(&mut bench, None, 100);
        let spines: BTreeSet<_> = flows.iter().map(|flow| &flow.paths[0].spine).collect();
        assert_eq!(spines.len(), 3);
        for flow in &flows {
            let source = Source::Address(flow.from.addresses[0]);
            let to = Flow::to(100, flow.to.addresses[0]);
            assert_eq!(flow.counted_by, [Flow { source, ..to }].into());
            assert_eq!(flow.bundle.sources, [flow.from.name.clone()].into());
            assert_eq!(flow.bundle.bps, flow.bps);
        }
    }

    #[test]
    fn what_does_not_go_by_its_pin_goes_with_nothing_and_is_not_counted() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        bench.unpinned = Arc::new(
            [
                ("leaf1".into(), Unpinned::Shadow),
                ("leaf2".into(), Unpinned::Foreign),
            ]
            .into(),
        );
        let flows = listed(&mut bench, None, 100);
        for flow in &flows {
            let (expected, way) = match flow.from.switch.as_str() {
                "leaf1" => (Some(Loose::Leaf(Unpinned::Shadow)), Way::OwnRouting),
                "leaf2" => (Some(Loose::Leaf(Unpinned::Foreign)), Way::Weights),
                _ => (None, Way::Pins),
            };
            assert_eq!((&flow.loose, flow.way()), (&expected, way));
            let is_pinned = way == Way::Pins;
            assert_eq!(flow.bundle.sources.is_empty(), !is_pinned);
            assert_eq!(flow.counted_by.is_empty(), !is_pinned);
            assert!(!flow.paths.is_empty() && flow.bps > 0);
        }
    }

    #[test]
    fn without_an_adopted_pin_or_a_next_hop_weights_carry_a_flow() {
        let mut bench = Bench::new(with_nics(2, 2, 1), &[ring("train", 2, 1..=1)]);
        let (plan, _) = bench.adopt();
        let weights = bench.balancer.plan();
        let why = |pins: &Pins, flows: &LeafFlows| {
            let programmed = Programmed {
                plan: weights,
                flows,
                lacking: &Lacking::new(),
            };
            let all = plan.job_flows(&"train".into(), None, 1, (pins, programmed));
            let first = all.unwrap().remove(0);
            let way = first.way();
            (first.loose, way, first.paths.is_empty())
        };
        let flows = of_leaves(weights, &bench.topology, &bench.pins);
        assert_eq!(why(&bench.pins, &flows), (None, Way::Pins, false));
        let no_pin = (Some(Loose::NoPin), Way::Weights, true);
        assert_eq!(why(&Pins::default(), &flows), no_pin);
        let no_next_hop = (Some(Loose::NoNextHop), Way::Weights, false);
        assert_eq!(why(&bench.pins, &LeafFlows::new()), no_next_hop);
    }

    /// No weft-agent answers at leaf 1, and no spine announces a way.
    #[test]
    fn a_flow_without_a_pin_and_without_weights_goes_as_its_leaf_routes_it() {
        let mut bench = Bench::new(with_nics(4, 4, 2), &[ring("train", 4, 1..=2)]);
        bench.foreign = ["leaf1".into()].into();
        bench.unpinned = Arc::new([("leaf1".into(), Unpinned::Foreign)].into());
        let flows = listed(&mut bench, None, 100);
        let of_leaf1 = flows.iter().filter(|it| it.from.switch.as_str() == "leaf1");
        for flow in of_leaf1.clone() {
            assert_eq!(flow.loose, Some(Loose::Leaf(Unpinned::Foreign)));
            assert_eq!(flow.unweighted, Some(Unweighted::Unannounced));
            assert_eq!(flow.way(), Way::OwnRouting);
        }
        assert_eq!(of_leaf1.count(), 2);
        let pinned = flows.iter().filter(|it| it.way() == Way::Pins);
        assert_eq!(pinned.count(), 6);
    }

    #[test]
    fn a_flow_is_counted_by_its_ports_where_the_leaf_has_them() {
        let topology = with_nics(2, 2, 1);
        let port = |name: &str| topology.host_port(&name.into()).unwrap();
        let sent = Sent {
            from: port("leaf1:nic1"),
            to: port("leaf2:nic1"),
            bps: 1,
            nic_bps: 1,
            phase: None,
            by_interface: false,
            ports: vec![49_152, 49_153, 49_153],
        };
        let whole = flows_to(&sent.to).next().unwrap();
        let of_port = |port| Flow {
            udp_source_port: Some(port),
            ..whole
        };
        let hop = NextHop {
            address: None,
            interface: "eth1".into(),
        };
        let members: Arc<Members> = Arc::new([(hop, 1)].into());
        let by = |known: &[Flow]| {
            let flows: Flows = known.iter().map(|it| (*it, Arc::clone(&members))).collect();
            counted_by(&flows, &sent)
        };
        let (one, two) = (of_port(49_152), of_port(49_153));
        assert_eq!(by(&[whole]), [whole].into());
        assert_eq!(by(&[whole, one, of_port(49_160)]), [whole, one].into());
        assert_eq!(by(&[whole, one, two]), [one, two].into());
        assert!(by(&[]).is_empty());
    }
}
