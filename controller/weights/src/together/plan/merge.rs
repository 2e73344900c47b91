//! Merges groups of a leaf that has more of them than its table has room for. It refuses to know why there are so many.
//!
//! Always the two groups whose merged weights put least traffic where it should not be; of very many groups, of those that are
//! next to each other. A merged group uses only uplinks that lead to all its destinations: two without such an uplink are not
//! merged.

use super::{Merged, Plan, Shared, shares};
use crate::fabric::Fabric;
use crate::leaf::Amounts;
use crate::quantize::Limits;

/// A group on the way to being merged: of `plan.groups` those that it is made of, and what each uplink should carry.
struct Part {
    groups: Vec<usize>,
    times: f64,
    /// Of all its destinations together; 0 where an uplink does not lead to one of them.
    shares: Vec<f64>,
    /// Of `shares`.
    sum: f64,
}

/// Groups, and for each the one that it would be merged with.
struct Merging {
    /// None: merged into one before it.
    parts: Vec<Option<Part>>,
    /// Of those after it that it is compared with the nearest, with what is then where it should not be.
    nearest: Vec<Option<(f64, usize)>>,
    /// How many of those after it a group is compared with.
    reach: usize,
}

/// Merges until at most so many groups have a member, or no two can be merged. Time is in the square of the groups, for
/// each uplink; in the groups alone where they are very many.
pub(super) fn until(plan: &mut Plan<'_>, fabric: &Fabric, limits: Limits, groups_max: usize) {
    let live = plan.live();
    if live <= groups_max {
        return;
    }
    let mut amounts = Amounts::new(fabric, plan.source);
    let mut parts: Vec<Option<Part>> = Vec::with_capacity(live);
    for (at, group) in plan
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.parts_max > 0)
    {
        let mut wanted = Vec::new();
        shares(
            amounts.toward(plan.destinations[group.range.start] as usize),
            &mut wanted,
        );
        parts.push(Some(Part {
            groups: vec![at],
            times: group.range.len() as f64,
            sum: wanted.iter().sum(),
            shares: wanted,
        }));
    }
    let mut merging = Merging::new(parts);
    for _ in groups_max..live {
        if !merging.step() {
            break;
        }
    }
    rebuild(plan, merging.parts, limits);
}

impl Merging {
    fn new(parts: Vec<Option<Part>>) -> Self {
        let reach = match parts.len() > EACH_WITH_ALL_MAX {
            true => REACH,
            false => usize::MAX,
        };
        let mut merging = Self {
            nearest: Vec::new(),
            parts,
            reach,
        };
        merging.compare();
        merging
    }

    /// Finds the nearest of every group.
    fn compare(&mut self) {
        let all = 0..self.parts.len();
        let nearest = all.map(|at| after(&self.parts, at, self.reach));
        self.nearest = nearest.collect();
    }

    /// Merges the nearest two; false: no two can be merged.
    fn step(&mut self) -> bool {
        let Some((one, other)) = self.nearest_two().or_else(|| self.nearest_two_of_all()) else {
            return false;
        };
        let Self {
            parts,
            nearest,
            reach,
        } = self;
        let taken = parts[other]
            .take()
            .expect("the nearest of a group is a group");
        let kept = parts[one]
            .as_mut()
            .expect("a group with a nearest is a group");
        kept.take(taken);
        let parts = &*parts;
        nearest[other] = None;
        for (at, near) in nearest.iter_mut().enumerate() {
            if at == one || near.is_some_and(|(_, near)| near == one || near == other) {
                *near = after(parts, at, *reach);
            }
        }
        let before = (0..one).rev().filter(|at| parts[*at].is_some());
        for at in before.take(*reach) {
            if let Some(added) = added(parts, at, one)
                && nearest[at].is_none_or(|known| (added, one) < known)
            {
                nearest[at] = Some((added, one));
            }
        }
        true
    }

    fn nearest_two(&self) -> Option<(usize, usize)> {
        let pairs = self.nearest.iter().enumerate();
        let pairs = pairs.filter_map(|(at, other)| other.map(|(added, other)| (added, at, other)));
        let least = pairs.min_by(|a, b| a.0.total_cmp(&b.0));
        least.map(|(_, one, other)| (one, other))
    }

    /// The nearest two once no group can be merged with one that is next to it; None too while there are very many.
    fn nearest_two_of_all(&mut self) -> Option<(usize, usize)> {
        let left = self.parts.iter().flatten().count();
        if self.reach == usize::MAX || left > EACH_WITH_ALL_MAX {
            return None;
        }
        self.reach = usize::MAX;
        self.compare();
        self.nearest_two()
    }
}

impl Part {
    fn take(&mut self, other: Self) {
        let times = self.times + other.times;
        let both = (self.times / times, other.times / times);
        for (share, its) in self.shares.iter_mut().zip(&other.shares) {
            *share = common(*share, *its, both);
        }
        self.sum = self.shares.iter().sum();
        self.times = times;
        self.groups.extend(other.groups);
    }
}

/// The nearest of so many parts after one.
fn after(parts: &[Option<Part>], at: usize, reach: usize) -> Option<(f64, usize)> {
    parts[at].as_ref()?;
    let others = (at + 1..parts.len()).filter(|other| parts[*other].is_some());
    let others = others.take(reach);
    let others = others.filter_map(|other| Some((added(parts, at, other)?, other)));
    others.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The traffic that merging two puts where it should not be; None where they have no uplink in common.
fn added(parts: &[Option<Part>], one: usize, other: usize) -> Option<f64> {
    let (one, other) = (parts[one].as_ref()?, parts[other].as_ref()?);
    let times = one.times + other.times;
    let both = (one.times / times, other.times / times);
    let all = over_uplinks(one, other, |a, b| common(a, b, both));
    if all <= 0.0 {
        return None;
    }
    let scales = (1.0 / one.sum, 1.0 / other.sum, 1.0 / all);
    Some(over_uplinks(one, other, |a, b| {
        let merged = common(a, b, both) * scales.2;
        one.times * (merged - a * scales.0).max(0.0)
            + other.times * (merged - b * scales.1).max(0.0)
    }))
}

/// A sum over the uplinks: four at a time, as an addition need not wait for that of the uplink before.
fn over_uplinks(one: &Part, other: &Part, of: impl Fn(f64, f64) -> f64) -> f64 {
    let (ones, others) = (one.shares.chunks_exact(4), other.shares.chunks_exact(4));
    let rest = ones.remainder().iter().zip(others.remainder());
    let rest: f64 = rest.map(|(a, b)| of(*a, *b)).sum();
    let mut sums = [0.0; 4];
    for (ones, others) in ones.zip(others) {
        for (sum, (a, b)) in sums.iter_mut().zip(ones.iter().zip(others)) {
            *sum += of(*a, *b);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// What both should have together: nothing where one of them can have nothing.
fn common(one: f64, other: f64, both: (f64, f64)) -> f64 {
    match one > 0.0 && other > 0.0 {
        true => one * both.0 + other * both.1,
        false => 0.0,
    }
}

/// Puts the destinations of merged groups together.
fn rebuild(plan: &mut Plan<'_>, parts: Vec<Option<Part>>, limits: Limits) {
    let dead = plan
        .groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.parts_max == 0);
    let dead: Vec<usize> = dead.map(|(at, _)| at).collect();
    let mut destinations = Vec::with_capacity(plan.destinations.len());
    let mut groups = Vec::new();
    let mut append = |of: &[usize]| {
        let begin = destinations.len();
        let ranges = of.iter().map(|at| {
            let begin = destinations.len();
            destinations.extend_from_slice(&plan.destinations[plan.groups[*at].range.clone()]);
            begin..destinations.len()
        });
        let ranges = ranges.collect();
        (begin..destinations.len(), ranges)
    };
    for part in parts.into_iter().flatten() {
        let (range, ranges) = append(&part.groups);
        let first = &plan.groups[part.groups[0]];
        let merged = part.groups.len() > 1;
        plan.merged = plan
            .merged
            .saturating_add(u32::try_from(part.groups.len() - 1).unwrap_or(u32::MAX));
        let members = part.shares.iter().filter(|share| **share > 0.0).count();
        groups.push(Shared {
            range,
            parts: 0,
            exact: first.exact && !merged,
            parts_max: if merged {
                limits.parts_max(members)
            } else {
                first.parts_max
            },
            merged: merged.then(|| Merged {
                ranges,
                shares: normal(part.shares),
            }),
        });
    }
    for at in dead {
        let (range, _): (_, Vec<_>) = append(&[at]);
        groups.push(Shared {
            range,
            parts: 0,
            exact: false,
            parts_max: 0,
            merged: None,
        });
    }
    plan.destinations = destinations;
    plan.groups = groups;
}

fn normal(mut shares: Vec<f64>) -> Vec<f64> {
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

/// So many groups are each compared with all others, which is 8,128 pairs.
const EACH_WITH_ALL_MAX: usize = 128;
/// Of more groups each is compared with so many after it: with all others 512 leaves with 256 uplinks each would take minutes.
const REACH: usize = 32;
