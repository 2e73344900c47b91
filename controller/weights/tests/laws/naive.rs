//! The plain way to the same weights: maps, every pair alone, every sum of parts tried, every way followed for the check.
//!
//! What the solver and the check are compared with. Its products overflow above 2^90, so that capacities must be
//! ordinary.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weft_weights::problem::{Link, LinkId, Problem, SwitchId};
use weft_weights::quantize::Limits;

/// Weights of a pair by link, and Delta in millionths.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) weights: BTreeMap<LinkId, u32>,
    pub(crate) delta_ppm: u64,
}

type Neighbours = BTreeMap<SwitchId, BTreeMap<SwitchId, Vec<Link>>>;

/// The links of every switch to higher and to lower tiers.
pub(crate) struct Naive {
    tiers: BTreeMap<SwitchId, u8>,
    above: Neighbours,
    below: Neighbours,
}

impl Naive {
    pub(crate) fn new(problem: &Problem) -> Self {
        let mut naive = Self {
            tiers: problem.switches().collect(),
            above: BTreeMap::new(),
            below: BTreeMap::new(),
        };
        for link in problem.links() {
            let (mut low, mut high) = link.ends;
            if naive.tiers[&low] == naive.tiers[&high] {
                continue;
            }
            if naive.tiers[&low] > naive.tiers[&high] {
                (low, high) = (high, low);
            }
            let above = naive.above.entry(low).or_default();
            above.entry(high).or_default().push(*link);
            let below = naive.below.entry(high).or_default();
            below.entry(low).or_default().push(*link);
        }
        naive
    }

    pub(crate) fn solve(&self, limits: Limits) -> BTreeMap<(SwitchId, SwitchId), Group> {
        let mut groups = BTreeMap::new();
        for destination in self.leaves() {
            let known = self.toward(destination);
            for source in self.leaves().filter(|leaf| *leaf != destination) {
                let shares = self.shares(source, &known);
                groups.insert((source, destination), quantize(&shares, limits));
            }
        }
        groups
    }

    /// Follows every way of every pair, as a check does that keeps nothing; the most that any first hop is overloaded.
    pub(crate) fn check(&self, groups: &BTreeMap<(SwitchId, SwitchId), Group>) -> f64 {
        let mut worst = 0.0_f64;
        for ((source, destination), group) in groups {
            let mut wanted = BTreeMap::new();
            for (via, links) in self.above.get(source).into_iter().flatten() {
                let up = capacity(links) as f64;
                let carried = up.min(self.follow(*via, *destination));
                for link in links.iter().filter(|link| link.alive && carried > 0.0) {
                    wanted.insert(link.id, link.capacity_bps as f64 * carried / up);
                }
            }
            let all: f64 = wanted.values().sum();
            let parts: u32 = group.weights.values().sum();
            for (link, weight) in &group.weights {
                let given = f64::from(*weight) / f64::from(parts);
                worst = worst.max(given * all / wanted[link]);
            }
        }
        worst
    }

    fn leaves(&self) -> impl Iterator<Item = SwitchId> + '_ {
        let leaves = self.tiers.iter().filter(|(_, tier)| **tier == 0);
        leaves.map(|(leaf, _)| *leaf)
    }

    fn toward(&self, destination: SwitchId) -> BTreeMap<SwitchId, u128> {
        let mut by_tier: Vec<(u8, SwitchId)> = self
            .tiers
            .iter()
            .map(|(switch, tier)| (*tier, *switch))
            .collect();
        by_tier.sort_unstable();
        let mut known = BTreeMap::from([(destination, u128::MAX)]);
        for (_, switch) in by_tier.iter().filter(|(tier, _)| *tier > 0) {
            known.insert(*switch, onward(&self.below, *switch, &known));
        }
        for (_, switch) in by_tier.iter().rev().filter(|(tier, _)| *tier > 0) {
            if known[switch] == 0 {
                known.insert(*switch, onward(&self.above, *switch, &known));
            }
        }
        known
    }

    fn follow(&self, here: SwitchId, destination: SwitchId) -> f64 {
        let down = self.descend(here, destination);
        if down > 0.0 {
            return down;
        }
        let above = self.above.get(&here).into_iter().flatten();
        above
            .map(|(next, links)| (capacity(links) as f64).min(self.follow(*next, destination)))
            .sum()
    }

    fn descend(&self, here: SwitchId, destination: SwitchId) -> f64 {
        if here == destination {
            return f64::INFINITY;
        }
        let below = self.below.get(&here).into_iter().flatten();
        below
            .map(|(next, links)| (capacity(links) as f64).min(self.descend(*next, destination)))
            .sum()
    }

    /// The exact shares over the product of all denominators, reduced.
    fn shares(&self, source: SwitchId, known: &BTreeMap<SwitchId, u128>) -> Vec<(LinkId, u128)> {
        let ways = self.above.get(&source).into_iter().flatten();
        let usable: Vec<(&Vec<Link>, u128, u128)> = ways
            .map(|(via, links)| (links, capacity(links), capacity(links).min(known[via])))
            .filter(|(_, _, carried)| *carried > 0)
            .collect();
        let unit = usable.iter().fold(0, |unit, (links, _, carried)| {
            let links = links.iter().map(|link| u128::from(link.capacity_bps));
            links.fold(gcd(unit, *carried), gcd)
        });
        let denominator = usable.iter().fold(1, |denominator, (_, up, _)| {
            denominator / gcd(denominator, up / unit) * (up / unit)
        });
        let mut shares = Vec::new();
        for (links, up, carried) in usable {
            for link in links.iter().filter(|link| link.alive) {
                let capacity = u128::from(link.capacity_bps) / unit;
                let share = capacity * (carried / unit) * (denominator / (up / unit));
                shares.push((link.id, share));
            }
        }
        shares
    }
}

fn onward(neighbours: &Neighbours, switch: SwitchId, known: &BTreeMap<SwitchId, u128>) -> u128 {
    let neighbours = neighbours.get(&switch).into_iter().flatten();
    neighbours
        .map(|(next, links)| capacity(links).min(known.get(next).copied().unwrap_or(0)))
        .sum()
}

fn capacity(links: &[Link]) -> u128 {
    let live = links.iter().filter(|link| link.alive);
    live.map(|link| u128::from(link.capacity_bps)).sum()
}

/// Largest remainder over every sum that is allowed, keeping the one that overloads its worst member least.
pub(crate) fn quantize(shares: &[(LinkId, u128)], limits: Limits) -> Group {
    let mut wanted = shares.to_vec();
    wanted.retain(|(_, amount)| *amount > 0);
    if wanted.is_empty() {
        return Group::default();
    }
    wanted.sort_unstable_by_key(|(link, amount)| (Reverse(*amount), *link));
    let unit = wanted
        .iter()
        .fold(0, |unit, (_, amount)| gcd(unit, *amount));
    wanted.iter_mut().for_each(|(_, amount)| *amount /= unit);
    let all: u128 = wanted.iter().map(|(_, amount)| amount).sum();
    let parts_max = limits.parts_max(wanted.len());
    let mut kept = all;
    while let Some((_, amount)) = wanted
        .last()
        .filter(|(_, amount)| amount * u128::from(parts_max) < kept)
    {
        kept -= amount;
        wanted.pop();
    }
    wanted.sort_unstable_by_key(|(link, _)| *link);
    let mut best: Option<((u128, u128), Vec<u32>)> = None;
    for parts in u32::try_from(wanted.len()).unwrap()..=parts_max {
        let weights = apportion(&wanted, kept, parts);
        if weights.contains(&0) {
            continue;
        }
        let (weight, amount) = weights
            .iter()
            .map(|weight| u128::from(*weight))
            .zip(wanted.iter().map(|(_, amount)| *amount))
            .max_by(|(w, a), (v, b)| (w * b).cmp(&(v * a)))
            .unwrap();
        let worst = (weight, amount * u128::from(parts));
        if best
            .as_ref()
            .is_none_or(|(least, _)| worst.0 * least.1 < least.0 * worst.1)
        {
            best = Some((worst, weights));
        }
    }
    best.map_or_else(Group::default, |((over, under), weights)| Group {
        weights: wanted.iter().map(|(link, _)| *link).zip(weights).collect(),
        delta_ppm: u64::try_from((over * all * 1_000_000).div_ceil(under)).unwrap(),
    })
}

fn apportion(wanted: &[(LinkId, u128)], total: u128, parts: u32) -> Vec<u32> {
    let quota = |amount: &u128| amount * u128::from(parts);
    let mut weights: Vec<u32> = wanted
        .iter()
        .map(|(_, amount)| u32::try_from(quota(amount) / total).unwrap())
        .collect();
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|at| (Reverse(quota(&wanted[*at].1) % total), wanted[*at].0));
    let left = (parts - weights.iter().sum::<u32>()) as usize;
    for at in &order[..left] {
        weights[*at] += 1;
    }
    weights
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
