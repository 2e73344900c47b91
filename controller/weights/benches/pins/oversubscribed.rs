//! Jobs over three tiers with less above spines than below them, or as much: the busiest links, where jobs are placed in pods and where
//! they are placed as if no link above a spine ever filled.
//!
//! It refuses to know super-spines one by one: the links from a spine to all of them count as one link.

use std::time::{Duration, Instant};

use weft_weights::pin::{Flow, Flows, Level, Part, Placement, Plane, place_within, recount};
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};

use super::random::Random;
use super::{Pattern, QUARTER_BPS, SUBFLOWS, flows_of_pods, load, ms};

/// Pods of as many leaves as spines, and as many NICs behind each leaf.
struct Fabric {
    pods: u32,
    width: u32,
    below: Problem,
    above: Problem,
}

impl Fabric {
    /// Above each spine there are as many links as below it, each with the capacity of one of those divided by `oversubscription`.
    fn new(
        pods: u32,
        width: u32,
        oversubscription: u64,
        dead_per_mille: u64,
        random: &mut Random,
    ) -> Self {
        let leaves = pods * width;
        let mut alive = || random.below(1_000) >= dead_per_mille;
        let below = (0..leaves * width).map(|cell| Link {
            id: LinkId(cell),
            ends: (SwitchId(cell / width), SwitchId(leaves + cell % width)),
            capacity_bps: UPLINK_BPS,
            alive: alive(),
        });
        let below: Vec<Link> = below.collect();
        let above = (0..pods * width).map(|cell| {
            let links = (0..width).filter(|_| alive()).count() as u64;
            Link {
                id: LinkId(cell),
                ends: (
                    SwitchId(cell / width * width),
                    SwitchId(leaves + cell % width),
                ),
                capacity_bps: (links * UPLINK_BPS / oversubscription).max(1),
                alive: links > 0,
            }
        });
        let above: Vec<Link> = above.collect();
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let spines = || (0..width).map(|spine| switch(leaves + spine, 1));
        let all = (0..leaves).map(|leaf| switch(leaf, 0)).chain(spines());
        let of_pods = (0..pods).map(|pod| switch(pod * width, 0)).chain(spines());
        Self {
            pods,
            width,
            below: Problem::new(all.collect(), below).unwrap(),
            above: Problem::new(of_pods.collect(), above).unwrap(),
        }
    }

    /// A plane of what is below spines, with what is above them.
    fn in_pods(&self, below: Plane) -> Plane {
        let pod = |leaf: SwitchId| Some(SwitchId(leaf.0 / self.width * self.width));
        below.with_pods(&self.above, pod)
    }

    fn leaf(&self, nic: u32) -> u32 {
        nic / self.width
    }

    /// Half of the NICs of each leaf send to NICs of their pod, and half to any.
    fn flows(&self, random: &mut Random) -> Flows {
        let nics = self.pods * self.width * self.width;
        let of_pod = self.width * self.width;
        let is_local = |nic: &u32| nic % self.width < self.width / 2;
        let mut groups: Vec<Vec<u32>> = (0..self.pods)
            .map(|pod| {
                (pod * of_pod..(pod + 1) * of_pod)
                    .filter(is_local)
                    .collect()
            })
            .collect();
        groups.push((0..nics).filter(|nic| !is_local(nic)).collect());
        let mut all = Vec::new();
        for from in groups {
            let mut to = from.clone();
            for at in (1..to.len()).rev() {
                to.swap(at, random.below(at as u64 + 1) as usize);
            }
            let ends = from.iter().zip(to);
            let ends = ends.map(|(from, to)| (self.leaf(*from), self.leaf(to)));
            // What stays below one leaf goes over no link.
            all.extend(ends.filter(|(from, to)| from != to).map(|(from, to)| Flow {
                from,
                to,
                subflows: SUBFLOWS,
            }));
        }
        Flows::new(all)
    }

    /// Loads of the busiest link below spines, and above them.
    fn loads(&self, flows: &Flows, parts: &[Part]) -> [f64; 2] {
        let pod = |leaf: u32| leaf / self.width;
        let below = recount(&self.below, flows, parts).unwrap();
        let (mut between, mut numbers) = (Vec::new(), Vec::new());
        for flow in flows.all() {
            let (from, to) = (pod(flow.from), pod(flow.to));
            numbers.push((from != to).then_some(between.len() as u32));
            if from != to {
                between.push(Flow { from, to, ..*flow });
            }
        }
        let parts = parts.iter().filter_map(|part| {
            let flow = numbers[part.flow as usize]?;
            Some(Part { flow, ..*part })
        });
        let parts: Vec<Part> = parts.collect();
        let above = recount(&self.above, &Flows::new(between), &parts).unwrap();
        let subflow_bps = UPLINK_BPS as f64 / f64::from(SUBFLOWS);
        [below.load(subflow_bps), above.load(subflow_bps)]
    }
}

/// What placements of one kind came to, over all cases.
#[derive(Default)]
struct Seen {
    /// Load of the busiest link, divided by the bound, in the worst case. A load below 1 counts as 1.
    over_bound: f64,
    /// Loads of the busiest link below spines, and above them.
    loads: [f64; 2],
    /// Placements with a link above the bound.
    over: u64,
    parts: usize,
    took: Duration,
}

impl Seen {
    fn count(&mut self, fabric: &Fabric, flows: &Flows, placement: &Placement, bound: f64) {
        let loads = fabric.loads(flows, &placement.parts);
        // What fills no link delays nobody.
        let busiest = loads[0].max(loads[1]).max(1.0);
        let ratio = busiest / bound.max(1.0);
        self.over_bound = self.over_bound.max(ratio);
        self.over += u64::from(ratio > 1.0 + 1e-9);
        for (most, load) in self.loads.iter_mut().zip(loads) {
            *most = most.max(load);
        }
        self.parts += placement.parts.len();
    }
}

/// The level of a link that carries one flow.
fn full() -> Level {
    Level {
        subflows: SUBFLOWS.into(),
        capacity: UPLINK_BPS,
    }
}

/// Prints what jobs come to, placed in pods and without them.
pub(super) fn beside(
    pods: u32,
    width: u32,
    oversubscription: u64,
    dead_per_mille: u64,
    cases: u64,
) {
    let (mut in_pods, mut without) = (Seen::default(), Seen::default());
    for case in 0..cases {
        let mut random = Random((case + 1).wrapping_mul(0xE703_7ED1_A0B4_28DB));
        let fabric = Fabric::new(pods, width, oversubscription, dead_per_mille, &mut random);
        let flows = fabric.flows(&mut random);
        let plain = Plane::new(&fabric.below);
        let plane = fabric.in_pods(plain.clone());
        let begun = Instant::now();
        let placement = place_within(&plane, &flows, &[], full()).unwrap();
        in_pods.took += begun.elapsed();
        let bound = load(placement.bound.level);
        in_pods.count(&fabric, &flows, &placement, bound);
        let begun = Instant::now();
        let placement = place_within(&plain, &flows, &[], full()).unwrap();
        without.took += begun.elapsed();
        without.count(&fabric, &flows, &placement, bound);
    }
    for (how, seen) in [("in pods", in_pods), ("without", without)] {
        let leaves = f64::from(pods * width) * cases as f64;
        println!(
            "{:>6} NICs, {oversubscription}:1, {:>3.1} % dead, {how:<8} {:>12.4}   {:>7.3} {:>7.3}   {:>11.1}   {:>8.1} ms",
            pods * width * width,
            dead_per_mille as f64 / 10.0,
            seen.over_bound,
            seen.loads[0],
            seen.loads[1],
            seen.parts as f64 / leaves,
            ms(seen.took) / cases as f64
        );
    }
}

/// Prints what a pattern comes to with as much above spines as below them, placed in pods.
pub(super) fn even(pods: u32, width: u32, pattern: Pattern, dead_per_mille: u64, cases: u64) {
    let mut seen = Seen::default();
    let (mut least, mut most) = (Duration::MAX, Duration::ZERO);
    for case in 0..cases {
        let mut random = Random((case + 1).wrapping_mul(0xE703_7ED1_A0B4_28DB));
        let fabric = Fabric::new(pods, width, 1, dead_per_mille, &mut random);
        let flows = flows_of_pods(pods, width, pattern, &mut random);
        let begun = Instant::now();
        let plane = fabric.in_pods(Plane::new(&fabric.below));
        let placement = place_within(&plane, &flows, &[], full()).unwrap();
        let took = begun.elapsed();
        (least, most) = (least.min(took), most.max(took));
        seen.count(&fabric, &flows, &placement, load(placement.bound.level));
    }
    let busiest = seen.loads[0].max(seen.loads[1]);
    println!(
        "{:>8} NICs, {pods:>2} pods, {:<12} {:>3.1} % dead {cases:>4} cases {:>10.4}   {:>17.1} %   {:>4} {:>8.1} ms {:>8.1} ms",
        pods * width * width,
        format!("{pattern:?}"),
        dead_per_mille as f64 / 10.0,
        seen.over_bound,
        100.0 / busiest.max(1.0),
        seen.over,
        ms(least),
        ms(most)
    );
}

const UPLINK_BPS: u64 = 4 * QUARTER_BPS;
