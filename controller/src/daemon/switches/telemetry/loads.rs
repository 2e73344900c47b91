//! The load loop over all leaves: what NICs are measured to send, by the shares that their pins give to spines, against what
//! uplinks are measured to carry. Jobs of a leaf that is off are left to weights. Pure; time is an argument.
//!
//! A leaf is judged while nearly all that it sends up is pinned, and its uplinks carry about as much as its NICs send: the rest is
//! hashed, and nobody can say where it goes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use weft_telemetry::load::{Judgement, Load, Uplink};
use weft_telemetry::rates::Rate;

use super::links::Links;
use crate::balancer::Plan;
use crate::balancer::pins::PinPlan;
use crate::balancer::pins::sends::Sends;
use crate::fabric::fact::{HostPort, JobName, PortName, SwitchName};
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::pin::Pins;
use crate::fabric::topology::Topology;

/// What loads are predicted from.
pub(in super::super) struct Predicted<'a> {
    /// What is declared, with the jobs.
    pub topology: &'a Topology,
    /// The plan of weights: which links are used.
    pub plan: &'a Plan,
    /// The plan of pins.
    pub pin_plan: &'a Arc<PinPlan>,
    /// The pins that are adopted.
    pub pins: &'a Pins,
    /// What was decided before.
    pub agreed: &'a Measured,
    /// Leaves on which pins are installed.
    pub on: BTreeSet<SwitchName>,
}

/// The loop of every leaf.
#[derive(Default)]
pub(super) struct Loads {
    load: Load,
    /// What `sends` was made from.
    made_from: Option<(u64, Arc<PinPlan>)>,
    sends: Sends,
    /// The host ports of leaves with pins.
    ports: BTreeMap<SwitchName, Vec<Arc<HostPort>>>,
    /// Leaves with a NIC of a job at a port that nobody knows: what it sends cannot be told.
    placed: BTreeSet<SwitchName>,
}

/// What a leaf should carry over its uplinks now, in bits per second.
#[derive(Default)]
struct Expected {
    by_spine: BTreeMap<SwitchName, f64>,
    loose: f64,
    /// What pins of each job carry.
    jobs: BTreeMap<JobName, f64>,
}

impl Loads {
    /// Learns a second of a leaf. The answer: jobs that are to be left to weights, and why.
    pub(super) fn judge(
        &mut self,
        leaf: &SwitchName,
        links: &Links,
        from: &Predicted<'_>,
        now: Duration,
    ) -> Vec<(JobName, OffPlan)> {
        // Where weights follow demand, nobody says where the rest of what a leaf sends goes.
        if !from.on.contains(leaf) || from.pins.is_empty() || from.plan.is_by_demand() {
            return Vec::new();
        }
        self.refresh(from);
        if self.placed.contains(leaf) {
            return Vec::new();
        }
        let Some(expected) = self.expected(leaf, links, now) else {
            return Vec::new();
        };
        let Some(uplinks) = uplinks(leaf, links, from, &expected, now) else {
            return Vec::new();
        };
        let number = self.number(leaf, &uplinks);
        let Judgement::Off { by } = self.load.learn(&leaf.into(), number, &uplinks, now) else {
            return Vec::new();
        };
        let pinned: f64 = expected.by_spine.values().sum();
        let busy = expected.jobs.into_iter();
        let busy = busy.filter(|(_, bps)| *bps >= pinned * BUSY_MIN);
        let why = |job: &JobName| {
            Some(OffPlan {
                leaf: leaf.clone(),
                #[expect(clippy::cast_sign_loss, reason = "it is above the threshold")]
                percent: (by * 100.0).round().min(f64::from(u16::MAX)) as u16,
                fingerprint: from.topology.job(job)?.fingerprint(),
            })
        };
        busy.filter_map(|(job, _)| why(&job).map(|why| (job, why)))
            .collect()
    }

    /// Another one if something else is predicted of a leaf. What changes at other leaves leaves it as it is.
    fn number(&self, leaf: &SwitchName, uplinks: &BTreeMap<Arc<str>, Uplink>) -> u64 {
        let mut hasher = DefaultHasher::new();
        for port in self.ports.get(leaf).into_iter().flatten() {
            let Some(sends) = self.sends.get(&port.name) else {
                continue;
            };
            port.name.hash(&mut hasher);
            let by_spine = sends.by_spine.iter();
            by_spine.for_each(|(spine, bps)| (spine, bps.to_bits()).hash(&mut hasher));
            [sends.loose, sends.within]
                .map(f64::to_bits)
                .hash(&mut hasher);
        }
        for (interface, uplink) in uplinks {
            (interface, uplink.capacity_bps.to_bits()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Reads pins anew, if they changed.
    fn refresh(&mut self, from: &Predicted<'_>) {
        let known = self.made_from.as_ref();
        let is_same = known.is_some_and(|(revision, plan)| {
            *revision == from.pins.revision() && Arc::ptr_eq(plan, from.pin_plan)
        });
        if !is_same {
            self.sends = from
                .pin_plan
                .sends(from.pins, |leaf| from.on.contains(leaf));
            let topology = &from.pin_plan.topology;
            let sources = from.pins.iter().map(|(pin, _)| &pin.source);
            let placed = sources.filter(|port| topology.is_placed(port));
            let placed = placed.filter_map(|port| topology.host_port(port));
            self.placed = placed.map(|port| port.switch.clone()).collect();
            self.ports.clear();
            let ports = from.pin_plan.topology.all_host_ports();
            for port in ports.filter(|port| from.on.contains(&port.switch)) {
                let of_leaf = self.ports.entry(port.switch.clone()).or_default();
                of_leaf.push(Arc::clone(port));
            }
            self.made_from = Some((from.pins.revision(), Arc::clone(from.pin_plan)));
        }
    }

    /// What NICs send, over the spines of their pins. None: too little of it is pinned.
    fn expected(&self, leaf: &SwitchName, links: &Links, now: Duration) -> Option<Expected> {
        let mut expected = Expected::default();
        for port in self.ports.get(leaf)? {
            // Nothing comes in at a port that the switch does not have.
            if let Some(rates) = links.interface_rates(leaf, &port.interface) {
                let bps = fresh(rates.in_octets, now)?;
                expected.add(&self.sends, &port.name, bps);
            }
        }
        let pinned: f64 = expected.by_spine.values().sum();
        (pinned > 0.0 && pinned >= (pinned + expected.loose) * PINNED_MIN).then_some(expected)
    }
}

impl Expected {
    fn add(&mut self, sends: &Sends, port: &PortName, bps: f64) {
        let Some(sends) = sends.get(port).filter(|sends| sends.total() > 0.0) else {
            self.loose += bps;
            return;
        };
        let part = bps / sends.total();
        self.loose += sends.loose * part;
        for (spine, bps) in &sends.by_spine {
            *self.by_spine.entry(spine.clone()).or_default() += bps * part;
        }
        let pinned: f64 = sends.by_spine.values().sum();
        for job in &sends.jobs {
            *self.jobs.entry(job.clone()).or_default() += pinned * part;
        }
    }
}

/// The uplinks of a leaf, by interface. None: not all of them were heard, or they carry what no NIC sends.
fn uplinks(
    leaf: &SwitchName,
    links: &Links,
    from: &Predicted<'_>,
    expected: &Expected,
    now: Duration,
) -> Option<BTreeMap<Arc<str>, Uplink>> {
    let mut uplinks = BTreeMap::new();
    let mut capacities: BTreeMap<&SwitchName, f64> = BTreeMap::new();
    let mut used = Vec::new();
    for (interface, name) in links.links_of(leaf) {
        let link = from.topology.link_named(name)?;
        if from.plan.unusable(link).is_none() {
            let (_, far) = link.ends_from(leaf)?;
            let capacity = from.agreed.usable_bps(link) as f64;
            *capacities.entry(&far.switch).or_default() += capacity;
            used.push((interface, &far.switch, capacity));
        }
    }
    let all: f64 = capacities.values().sum();
    let (mut measured, mut predicted) = (0.0, 0.0);
    for (interface, spine, capacity) in used {
        let rates = links.interface_rates(leaf, interface);
        let measured_bps = fresh(rates.and_then(|rates| rates.out_octets), now)?;
        let pinned = expected.by_spine.get(spine).copied().unwrap_or_default();
        let share = pinned * capacity / capacities[spine] + expected.loose * capacity / all;
        (measured, predicted) = (measured + measured_bps, predicted + share);
        let uplink = Uplink {
            measured_bps,
            predicted_share: share,
            capacity_bps: capacity,
        };
        uplinks.insert(Arc::clone(interface), uplink);
    }
    let is_accounted = measured <= predicted * AS_MUCH && measured * AS_MUCH >= predicted;
    is_accounted.then_some(uplinks)
}

/// A rate of a moment ago in bits per second.
fn fresh(rate: Option<Rate>, now: Duration) -> Option<f64> {
    let rate = rate.filter(|rate| now.saturating_sub(rate.received) < FRESH)?;
    Some(rate.last_per_s * 8.0)
}

/// Part of what a leaf sends up that is pinned, at least: with less, the leaf is not judged.
const PINNED_MIN: f64 = 0.9;
/// Part of what the pins of a leaf carry, at least: a job with less is not left to weights.
const BUSY_MIN: f64 = 0.01;
/// Uplinks may carry so many times what NICs send, for headers, or NICs what uplinks carry.
const AS_MUCH: f64 = 1.25;
/// A rate that is older says nothing of now.
const FRESH: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use weft_telemetry::{Counter, Counters, Interface, Sample};

    use super::*;
    use crate::balancer::pins::State;
    use crate::balancer::pins::tests::{Bench, ring, state};
    use crate::fabric::fact::{Fact, Kind};
    use crate::fabric::topology::tests::with_nics;

    /// Two leaves that serve gNMI, with a ring over two NICs of each; there are two more leaves.
    fn bench() -> Bench {
        bench_with(2)
    }

    /// Four leaves that serve gNMI, with a ring over so many NICs of each of the first two.
    fn bench_with(nics: u8) -> Bench {
        let mut fabric = with_nics(4, 2, nics).declaration();
        for switch in &mut fabric.switches {
            switch.gnmi_address = format!("{}.example:9339", switch.name);
        }
        let topology = Topology::new(&fabric).unwrap();
        Bench::new(topology, &[ring("train", 2, 1..=nics)])
    }

    /// Leaf 1 second by second.
    struct Story {
        links: Links,
        loads: Loads,
        second: u64,
        counted: BTreeMap<&'static str, u64>,
    }

    impl Story {
        fn new() -> Self {
            Self {
                links: Links::default(),
                loads: Loads::default(),
                second: 0,
                counted: BTreeMap::new(),
            }
        }

        /// A second in which NICs send, and uplinks carry, so many Gb/s.
        fn second<const COUNT: usize>(
            &mut self,
            bench: &Bench,
            pin_plan: &Arc<PinPlan>,
            gbps: [(&'static str, u64); COUNT],
        ) -> Vec<(JobName, OffPlan)> {
            self.second += 1;
            let (received, unix_ns) = (Duration::from_secs(self.second), self.second as i64);
            let interfaces = gbps.map(|(name, gbps)| {
                let octets = self.counted.entry(name).or_default();
                *octets += gbps * 125_000_000;
                let counter = Some(Counter {
                    value: *octets,
                    unix_ns: unix_ns * 1_000_000_000,
                    received,
                });
                let counters = match name.starts_with("nic") {
                    true => Counters {
                        in_octets: counter,
                        ..Counters::default()
                    },
                    false => Counters {
                        out_octets: counter,
                        ..Counters::default()
                    },
                };
                let interface = Interface {
                    counters,
                    ..Interface::default()
                };
                (name.into(), interface)
            });
            let sample = Arc::new(Sample {
                interfaces: interfaces.into(),
                ..Sample::default()
            });
            let topology = bench.balancer.plan().topology().unwrap();
            let measured = &bench.measured;
            self.links.set_topology(topology, measured, received);
            self.links
                .learn(vec![("leaf1".into(), Ok(sample))], received);
            let from = Predicted {
                topology: &bench.topology,
                plan: bench.balancer.plan(),
                pin_plan,
                pins: &bench.pins,
                agreed: measured,
                on: ["leaf1".into()].into(),
            };
            self.loads
                .judge(&"leaf1".into(), &self.links, &from, received)
        }
    }

    #[test]
    fn a_job_whose_pins_do_not_carry_what_its_nics_send_is_left_to_weights_until_it_is_changed() {
        let mut bench = bench();
        let (mut plan, _) = bench.adopt();
        assert_eq!(state(&plan, "train"), State::Placed);
        let mut story = Story::new();
        // One NIC alone loads one uplink, and no other: so it is pinned.
        let spine = |nic: &str| {
            let pins = bench.pins.iter();
            let mut own = pins.filter(|(name, _)| name.source.as_str() == nic);
            own.next().unwrap().1[0].spine.to_string()
        };
        let [first, second] = ["leaf1:nic1", "leaf1:nic2"].map(spine);
        assert_ne!(first, second);
        let up = |spine: &str| if spine == "spine1" { "eth1" } else { "eth2" };
        for (nics, ups) in [([50, 50], [52, 52]), ([80, 8], [82, 8])] {
            for _ in 0..60 {
                let gbps = [
                    ("nic1", nics[0]),
                    ("nic2", nics[1]),
                    (up(&first), ups[0]),
                    (up(&second), ups[1]),
                ];
                assert_eq!(story.second(&bench, &plan, gbps), []);
            }
        }
        // Both NICs send, and all of it goes over one uplink.
        let odd = [("nic1", 50), ("nic2", 50), ("eth1", 80), ("eth2", 20)];
        // What was before fades from the means first. A job of other leaves that comes and goes is nothing to this one.
        let off = (0..200).find_map(|second| {
            if second % 5 == 0 {
                let mut other = ring("other", 4, 1..=2);
                other.ranks.retain(|nic| {
                    let leaves = ["leaf3:", "leaf4:"];
                    leaves
                        .iter()
                        .any(|leaf| nic.host_port_name.starts_with(leaf))
                });
                match second % 10 {
                    0 => bench.topology.put(Fact::declared(&other).unwrap()),
                    _ => bench.topology.remove(Kind::Job, "other"),
                }
                plan = bench.adopt().0;
            }
            let off = story.second(&bench, &plan, odd);
            (!off.is_empty()).then_some(off)
        });
        let off = off.expect("it is off at some time");
        let [(job, why)] = &off[..] else {
            panic!("{off:?}");
        };
        assert_eq!((job.as_str(), why.leaf.as_str()), ("train", "leaf1"));
        assert!(why.percent >= 10, "{why}");
        bench.measured.set_off_plan(job.clone(), Some(why.clone()));
        let (plan, _) = bench.adopt();
        let State::Weighted(said) = state(&plan, "train") else {
            panic!("{plan:?}");
        };
        assert!(said.contains("busiest uplink of leaf1"), "{said}");
        assert!(plan.pins.keys().all(|pin| pin.job.as_str() != "train"));
        // It is another job then.
        let mut job = ring("train", 2, 1..=2);
        job.groups[0].octets += 1;
        bench.topology.put(Fact::declared(&job).unwrap());
        let (plan, _) = bench.adopt();
        assert_eq!(state(&plan, "train"), State::Placed);
    }

    #[test]
    fn a_leaf_at_which_a_hash_divides_a_pinned_flow_is_not_judged() {
        // Three flows at full rate over two spines: one has both.
        let mut bench = bench_with(3);
        let (plan, _) = bench.adopt();
        let own = bench.pins.iter();
        let own = own.filter(|(name, _)| name.source.as_str().starts_with("leaf1:"));
        let mut several = own.filter(|(_, paths)| paths.len() > 1);
        assert!(several.next().is_some());
        let mut story = Story::new();
        // It is one connection, and goes over one of them.
        let nics = [("nic1", 50), ("nic2", 50), ("nic3", 50)];
        let odd = [nics[0], nics[1], nics[2], ("eth1", 100), ("eth2", 50)];
        for _ in 0..200 {
            assert_eq!(story.second(&bench, &plan, odd), []);
        }
    }

    #[test]
    fn a_leaf_that_sends_more_than_its_pins_is_not_judged() {
        let mut bench = bench();
        let (plan, _) = bench.adopt();
        let mut story = Story::new();
        // The uplinks carry what no declared NIC sends.
        let odd = [("nic1", 20), ("nic2", 20), ("eth1", 80), ("eth2", 20)];
        for _ in 0..100 {
            assert_eq!(story.second(&bench, &plan, odd), []);
        }
    }
}
