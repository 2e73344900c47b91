//! Merges groups of a leaf that has more of them than its table has entries. It refuses to know why there are so many.
//!
//! Always the two groups whose merged weights put least traffic where it should not be. A merged group uses only uplinks
//! that lead to all its destinations: two without such an uplink are not merged.

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
}

/// Merges until at most so many groups have a member, or no two can be merged. Time is in the square of the groups, for
/// each uplink.
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
            shares: wanted,
        }));
    }
    let mut nearest: Vec<Option<(f64, usize)>> =
        (0..parts.len()).map(|at| after(&parts, at)).collect();
    for _ in groups_max..live {
        let pairs = nearest.iter().enumerate();
        let pairs = pairs.filter_map(|(at, other)| other.map(|(added, other)| (added, at, other)));
        let Some((_, one, other)) = pairs.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            break;
        };
        let taken = parts[other]
            .take()
            .expect("the nearest of a group is a group");
        let kept = parts[one]
            .as_mut()
            .expect("a group with a nearest is a group");
        kept.take(taken);
        nearest[other] = None;
        for (at, near) in nearest.iter_mut().enumerate() {
            if at == one || near.is_some_and(|(_, near)| near == one || near == other) {
                *near = after(&parts, at);
            } else if at < one
                && let Some(added) = added(&parts, at, one)
                && near.is_none_or(|known| (added, one) < known)
            {
                *near = Some((added, one));
            }
        }
    }
    rebuild(plan, parts, limits);
}

impl Part {
    fn take(&mut self, other: Self) {
        let times = self.times + other.times;
        let both = (self.times / times, other.times / times);
        for (share, its) in self.shares.iter_mut().zip(&other.shares) {
            *share = common(*share, *its, both);
        }
        self.times = times;
        self.groups.extend(other.groups);
    }
}

/// The nearest of the parts after one.
fn after(parts: &[Option<Part>], at: usize) -> Option<(f64, usize)> {
    let others = (at + 1..parts.len()).filter_map(|other| Some((added(parts, at, other)?, other)));
    others.min_by(|a, b| a.0.total_cmp(&b.0))
}

/// The traffic that merging two puts where it should not be; None where they have no uplink in common.
fn added(parts: &[Option<Part>], one: usize, other: usize) -> Option<f64> {
    let (one, other) = (parts[one].as_ref()?, parts[other].as_ref()?);
    let times = one.times + other.times;
    let both = (one.times / times, other.times / times);
    let pairs = || one.shares.iter().zip(&other.shares);
    let sum = |shares: &[f64]| shares.iter().sum::<f64>();
    let all: f64 = pairs().map(|(a, b)| common(*a, *b, both)).sum();
    if all <= 0.0 {
        return None;
    }
    let (scale_one, scale_other) = (1.0 / sum(&one.shares), 1.0 / sum(&other.shares));
    let too_much = pairs().map(|(a, b)| {
        let merged = common(*a, *b, both) / all;
        one.times * (merged - a * scale_one).max(0.0)
            + other.times * (merged - b * scale_other).max(0.0)
    });
    Some(too_much.sum())
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
