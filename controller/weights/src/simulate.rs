//! What flows get of links that they share, and what other ways to place them come to: hashing, hashing by capacity, a leaf that
//! looks at its own uplinks.
//!
//! Fluid: each link divides its capacity max-min fairly among its sub-flows, at once and without a queue. It refuses to know
//! packets, congestion control and time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::pin::{Flow, Flows, Part, Plane};

/// Rate of each flow if no sub-flow has more than so many bits per second: so many times that of its slowest sub-flow as it has
/// sub-flows, for it is done when the last of them is. The links of a leaf to one spine count as one.
pub fn rates(plane: &Plane, flows: &Flows, parts: &[Part], subflow_bps: f64) -> Vec<f64> {
    let mut shared = Shared::new(plane, flows, parts);
    let flow = |flow: u32| f64::from(flows.all()[flow as usize].subflows);
    // A flow without a part is not sent.
    let mut rates = vec![0.0; flows.all().len()];
    for part in parts {
        rates[part.flow as usize] = flow(part.flow) * subflow_bps;
    }
    let mut slow = |part: usize, rate: f64| {
        let of = parts[part].flow;
        let sum = &mut rates[of as usize];
        *sum = sum.min(rate * flow(of));
    };
    while let Some((link, share)) = shared.tightest() {
        // The others are not held up by any link.
        if share >= subflow_bps {
            break;
        }
        for part in shared.settle(link, share) {
            slow(part, share);
        }
    }
    rates
}

/// Links with what is left of them, and the parts that are not settled.
struct Shared<'a> {
    parts: &'a [Part],
    /// Up by leaf and spine, then down.
    left: Vec<f64>,
    active: Vec<u32>,
    /// Parts of each link, in a row.
    first: Vec<u32>,
    of_link: Vec<u32>,
    links: Vec<[u32; 2]>,
    settled: Vec<bool>,
    /// Shares of links as they were; one that changed is there again.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Shared<'a> {
    fn new(plane: &Plane, flows: &Flows, parts: &'a [Part]) -> Self {
        let spines = plane.spines().len();
        let cells = plane.leaves().len() * spines;
        let capacity = |cell: usize| {
            let links = plane.links(cell / spines, cell % spines);
            links.iter().map(|bps| *bps as f64).sum::<f64>()
        };
        let left: Vec<f64> = (0..cells).map(capacity).collect();
        let links: Vec<[u32; 2]> = parts
            .iter()
            .map(|part| {
                let Flow { from, to, .. } = flows.all()[part.flow as usize];
                let cell = |leaf: u32| leaf * spines as u32 + part.spine;
                [cell(from), cells as u32 + cell(to)]
            })
            .collect();
        let mut active = vec![0; 2 * cells];
        let mut first = vec![0; 2 * cells + 1];
        for (part, ends) in parts.iter().zip(&links) {
            for link in ends {
                active[*link as usize] += part.subflows;
                first[*link as usize + 1] += 1;
            }
        }
        for link in 0..2 * cells {
            first[link + 1] += first[link];
        }
        let (mut next, mut of_link) = (first.clone(), vec![0; 2 * parts.len()]);
        for (part, ends) in (0..).zip(&links) {
            for link in ends {
                of_link[next[*link as usize] as usize] = part;
                next[*link as usize] += 1;
            }
        }
        let mut shared = Self {
            parts,
            left: left.repeat(2),
            active,
            first,
            of_link,
            links,
            settled: vec![false; parts.len()],
            heap: BinaryHeap::new(),
        };
        (0..2 * cells as u32).for_each(|link| shared.queue(link));
        shared
    }

    fn share(&self, link: u32) -> f64 {
        (self.left[link as usize] / f64::from(self.active[link as usize])).max(0.0)
    }

    fn queue(&mut self, link: u32) {
        if self.active[link as usize] > 0 {
            // Numbers that are not negative are in order of their bits.
            let share = self.share(link).to_bits();
            self.heap.push(Reverse((share, link)));
        }
    }

    /// The link that gives its sub-flows least.
    fn tightest(&mut self) -> Option<(u32, f64)> {
        while let Some(Reverse((share, link))) = self.heap.pop() {
            if self.active[link as usize] > 0 && self.share(link).to_bits() == share {
                return Some((link, f64::from_bits(share)));
            }
        }
        None
    }

    /// Gives the parts of a link their share; which those are.
    fn settle(&mut self, link: u32, share: f64) -> Vec<usize> {
        let range = self.first[link as usize] as usize..self.first[link as usize + 1] as usize;
        let all = self.of_link[range].iter().map(|part| *part as usize);
        let parts: Vec<usize> = all.filter(|part| !self.settled[*part]).collect();
        for part in &parts {
            self.settled[*part] = true;
            let subflows = self.parts[*part].subflows;
            for end in self.links[*part] {
                self.left[end as usize] -= share * f64::from(subflows);
                self.active[end as usize] -= subflows;
            }
        }
        for part in &parts {
            for end in self.links[*part] {
                self.queue(end);
            }
        }
        parts
    }
}

/// How switches place sub-flows that nobody pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switches {
    /// A hash over the links that lead there: ECMP, and with more sub-flows E-ECMP.
    Hash,
    /// A hash in proportion to what a spine carries end to end: weights by capacity.
    HashByCapacity,
    /// The uplink of the leaf that is loaded least, whatever is below the spine: an ideal of local load balancing.
    LeastLoaded,
}

/// Parts of flows as switches place them. `random` gives a number below another one.
///
/// A flow without a way has no part.
pub fn by_switches(
    plane: &Plane,
    flows: &Flows,
    how: Switches,
    mut random: impl FnMut(u64) -> u64,
) -> Vec<Part> {
    let spines = plane.spines().len();
    let mut loads = vec![0_u64; plane.leaves().len() * spines];
    let mut parts: Vec<Part> = Vec::new();
    let mut ways = Vec::with_capacity(spines);
    for (flow, Flow { from, to, subflows }) in (0..).zip(flows.all()) {
        let (from, to) = (*from as usize, *to as usize);
        ways.clear();
        ways.extend((0..spines).filter_map(|spine| {
            let (up, down) = (plane.links(from, spine), plane.links(to, spine));
            let weight = match how {
                _ if up.is_empty() || down.is_empty() => 0,
                Switches::Hash => up.len() as u64,
                Switches::HashByCapacity => together(up).min(together(down)) / MEGA,
                Switches::LeastLoaded => 1,
            };
            (weight > 0).then_some((spine, weight))
        }));
        let total: u64 = ways.iter().map(|(_, weight)| weight).sum();
        for _ in 0..*subflows {
            let spine = match how {
                Switches::LeastLoaded => {
                    least(plane, &loads[from * spines..], from, &ways, &mut random)
                }
                Switches::Hash | Switches::HashByCapacity => drawn(&ways, total, &mut random),
            };
            let Some(spine) = spine else { break };
            loads[from * spines + spine] += 1;
            parts.push(Part {
                flow,
                spine: spine as u32,
                subflows: 1,
            });
        }
    }
    parts.sort_unstable();
    let alike = parts.chunk_by(|a, b| (a.flow, a.spine) == (b.flow, b.spine));
    let one = |alike: &[Part]| Part {
        subflows: alike.len() as u32,
        ..alike[0]
    };
    alike.map(one).collect()
}

/// A way by its weight.
fn drawn(ways: &[(usize, u64)], total: u64, random: &mut impl FnMut(u64) -> u64) -> Option<usize> {
    let mut at = if total > 0 { random(total) } else { 0 };
    let way = ways.iter().find(|(_, weight)| {
        let found = at < *weight;
        at = at.saturating_sub(*weight);
        found
    });
    way.map(|(spine, _)| *spine)
}

/// The way that is loaded least; of equal ones any.
fn least(
    plane: &Plane,
    loads: &[u64],
    from: usize,
    ways: &[(usize, u64)],
    random: &mut impl FnMut(u64) -> u64,
) -> Option<usize> {
    let begin = if ways.is_empty() {
        0
    } else {
        random(ways.len() as u64) as usize
    };
    let around = ways[begin..].iter().chain(&ways[..begin]);
    let load = |spine: usize| {
        let capacity = together(plane.links(from, spine));
        (loads[spine] + 1) as f64 / capacity as f64
    };
    let least = around.min_by(|a, b| load(a.0).total_cmp(&load(b.0)));
    least.map(|(spine, _)| *spine)
}

/// What parallel links carry together. A declared capacity may be as much as a number can say.
fn together(links: &[u64]) -> u64 {
    links.iter().fold(0, |sum, it| sum.saturating_add(*it))
}

/// Capacities as weights are small enough to be summed.
const MEGA: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Link, LinkId, Problem, Switch, SwitchId};

    const BPS: u64 = 100_000_000;

    /// Two leaves below two spines, of which the second carries half.
    fn plane() -> Plane {
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let link = |id: u32, leaf, spine, capacity_bps| Link {
            id: LinkId(id),
            ends: (SwitchId(leaf), SwitchId(spine)),
            capacity_bps,
            alive: true,
        };
        let switches = vec![switch(0, 0), switch(1, 0), switch(2, 1), switch(3, 1)];
        let links = vec![
            link(0, 0, 2, BPS),
            link(1, 1, 2, BPS),
            link(2, 0, 3, BPS / 2),
            link(3, 1, 3, BPS / 2),
        ];
        Plane::new(&Problem::new(switches, links).unwrap())
    }

    fn flows(count: usize, size: u32) -> Flows {
        Flows::new(vec![
            Flow {
                from: 0,
                to: 1,
                subflows: size
            };
            count
        ])
    }

    #[test]
    fn parallel_links_of_any_capacity_are_simulated() {
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let switches = vec![switch(0, 0), switch(1, 0), switch(2, 1)];
        let link = |id: u32| Link {
            id: LinkId(id),
            ends: (SwitchId(id % 2), SwitchId(2)),
            capacity_bps: u64::MAX,
            alive: true,
        };
        let plane = Plane::new(&Problem::new(switches, (0..6).map(link).collect()).unwrap());
        for how in [
            Switches::Hash,
            Switches::HashByCapacity,
            Switches::LeastLoaded,
        ] {
            let parts = by_switches(&plane, &flows(3, 2), how, |_| 0);
            let placed: u32 = parts.iter().map(|part| part.subflows).sum();
            assert_eq!(placed, 6, "{how:?}");
        }
    }

    #[test]
    fn a_link_is_divided_fairly_and_what_one_flow_cannot_take_another_gets() {
        let part = |flow, spine, subflows| Part {
            flow,
            spine,
            subflows,
        };
        // Flow 0 is held up at the half spine; the two of the other one take a half each.
        let parts = [part(0, 1, 2), part(1, 0, 2), part(2, 0, 2)];
        let got = rates(&plane(), &flows(3, 2), &parts, BPS as f64 / 2.0);
        assert_eq!(got, [0.5, 0.5, 0.5].map(|share| share * BPS as f64));
        // A flow in two parts is as slow as the slower one.
        let parts = [part(0, 0, 1), part(0, 1, 1), part(1, 1, 2)];
        let got = rates(&plane(), &flows(2, 2), &parts, BPS as f64 / 2.0);
        let third = BPS as f64 / 2.0 / 3.0;
        assert_eq!(got, [2.0 * third, 2.0 * third]);
        // A NIC is no faster than it is.
        let got = rates(&plane(), &flows(1, 1), &[part(0, 0, 1)], BPS as f64 / 4.0);
        assert_eq!(got, [BPS as f64 / 4.0]);
    }

    #[test]
    fn switches_place_every_subflow_on_a_way_that_is_there() {
        let mut next = 0;
        let mut random = |below: u64| {
            next = (next * 5 + 3) % 1009;
            next % below
        };
        let flows = flows(300, 4);
        let mut on_first = Vec::new();
        for how in [
            Switches::Hash,
            Switches::HashByCapacity,
            Switches::LeastLoaded,
        ] {
            let parts = by_switches(&plane(), &flows, how, &mut random);
            let of = |spine: u32| {
                let parts = parts.iter().filter(|part| part.spine == spine);
                parts.map(|part| part.subflows).sum::<u32>()
            };
            assert_eq!(of(0) + of(1), 1200);
            on_first.push(of(0));
        }
        assert!((540..=660).contains(&on_first[0]), "{on_first:?}");
        assert!((740..=860).contains(&on_first[1]), "{on_first:?}");
        assert_eq!(on_first[2], 800);
    }
}
