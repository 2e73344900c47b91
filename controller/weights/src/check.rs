//! An independent check of a solution: every pair, every link, every proportion, from the problem alone.
//!
//! It shares no arithmetic with [`crate::spread`] or [`crate::quantize`]: capacities are followed link by link from the
//! source instead of swept from the destination, and proportions are compared in floating point with a stated
//! tolerance. A plan that does not pass is not adopted.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use crate::explain::Exclusion;
use crate::problem::{LinkId, Problem, SwitchId};
use crate::quantize::Limits;
use crate::spread::{Group, Solution};

/// Verifies that the solution answers the problem within the limits; the first fault found, by pair and link.
pub fn check(problem: &Problem, limits: Limits, solution: &Solution) -> Result<(), Fault> {
    let live = Live::new(problem);
    let mut expected_groups = 0;
    for source in problem.leaves() {
        for destination in problem.leaves().filter(|leaf| *leaf != source) {
            expected_groups += 1;
            let fault = |wrong| Fault {
                source,
                destination,
                wrong,
            };
            let group = solution
                .group(source, destination)
                .ok_or_else(|| fault(Wrong::Missing))?;
            let wanted = live.wanted_bps(source, destination);
            check_links(problem, source, &wanted, group).map_err(fault)?;
            check_proportions(&wanted, limits, group).map_err(fault)?;
        }
    }
    if let Some(((source, destination), _)) = solution.groups().nth(expected_groups) {
        return Err(Fault {
            source,
            destination,
            wrong: Wrong::Superfluous,
        });
    }
    Ok(())
}

/// Links to one neighbour, each with its capacity.
type Bundle = Vec<(LinkId, f64)>;

/// The live links of every switch, upwards and downwards.
#[derive(Default)]
struct Live {
    up: BTreeMap<SwitchId, BTreeMap<SwitchId, Bundle>>,
    down: BTreeMap<SwitchId, BTreeMap<SwitchId, Bundle>>,
}

impl Live {
    fn new(problem: &Problem) -> Self {
        let mut live = Self::default();
        for link in problem.links().filter(|link| link.alive) {
            let (a, b) = link.ends;
            let (low, high) = match problem.tier(a).cmp(&problem.tier(b)) {
                Ordering::Less => (a, b),
                Ordering::Greater => (b, a),
                Ordering::Equal => continue,
            };
            let width = (link.id, link.capacity_bps as f64);
            let up = live.up.entry(low).or_default();
            up.entry(high).or_default().push(width);
            let down = live.down.entry(high).or_default();
            down.entry(low).or_default().push(width);
        }
        live
    }

    /// What each live first-hop link can carry to the destination.
    fn wanted_bps(&self, source: SwitchId, destination: SwitchId) -> BTreeMap<LinkId, f64> {
        let mut wanted = BTreeMap::new();
        for (via, bundle) in self.up.get(&source).into_iter().flatten() {
            let carried = width(bundle).min(self.follow(*via, destination));
            if carried > 0.0 {
                let share = carried / width(bundle);
                wanted.extend(bundle.iter().map(|(link, bps)| (*link, bps * share)));
            }
        }
        wanted
    }

    /// The capacity from a switch to the destination: down where anything leads down, else by way of the tier above.
    fn follow(&self, here: SwitchId, destination: SwitchId) -> f64 {
        let down = self.descend(here, destination);
        if down > 0.0 {
            return down;
        }
        let above = self.up.get(&here).into_iter().flatten();
        above
            .map(|(next, bundle)| width(bundle).min(self.follow(*next, destination)))
            .sum()
    }

    fn descend(&self, here: SwitchId, destination: SwitchId) -> f64 {
        if here == destination {
            return f64::INFINITY;
        }
        let below = self.down.get(&here).into_iter().flatten();
        below
            .map(|(next, bundle)| width(bundle).min(self.descend(*next, destination)))
            .sum()
    }
}

fn width(bundle: &Bundle) -> f64 {
    bundle.iter().map(|(_, bps)| bps).sum()
}

/// Every uplink of the source is a member or excluded, once, and for the right reason.
fn check_links(
    problem: &Problem,
    source: SwitchId,
    wanted: &BTreeMap<LinkId, f64>,
    group: &Group,
) -> Result<(), Wrong> {
    let mut seen: Vec<LinkId> = group
        .members
        .iter()
        .map(|member| member.link)
        .chain(group.excluded.iter().map(|excluded| excluded.link))
        .collect();
    seen.sort_unstable();
    let mut uplinks: Vec<LinkId> = problem
        .above(source)
        .flat_map(|(_, ids)| ids.to_vec())
        .collect();
    uplinks.sort_unstable();
    if seen != uplinks {
        return Err(Wrong::Links);
    }
    for member in &group.members {
        if !wanted.contains_key(&member.link) {
            return Err(Wrong::DeadMember(member.link));
        }
    }
    for excluded in &group.excluded {
        let alive = problem.link(excluded.link).is_some_and(|link| link.alive);
        let usable = wanted.contains_key(&excluded.link);
        let right = match excluded.reason {
            Exclusion::LinkDown => !alive,
            Exclusion::NoWayOn => alive && !usable,
            Exclusion::TooSmall { .. } => usable,
        };
        if !right {
            return Err(Wrong::Exclusion(excluded.link));
        }
    }
    Ok(())
}

/// Sums, limits, what may be dropped, and how far a member is from its share.
fn check_proportions(
    wanted: &BTreeMap<LinkId, f64>,
    limits: Limits,
    group: &Group,
) -> Result<(), Wrong> {
    let parts: u32 = group.members.iter().map(|member| member.weight).sum();
    if parts != group.parts || parts > limits.parts_max() {
        return Err(Wrong::Parts(parts));
    }
    if group.members.is_empty() {
        return if wanted.is_empty() {
            Ok(())
        } else {
            Err(Wrong::Empty)
        };
    }
    let all: f64 = wanted.values().sum();
    let kept: f64 = group
        .members
        .iter()
        .map(|member| wanted[&member.link])
        .sum();
    let parts_max = f64::from(limits.parts_max());
    let smallest_kept = group
        .members
        .iter()
        .map(|member| wanted[&member.link])
        .fold(f64::INFINITY, f64::min);
    for excluded in &group.excluded {
        let Some(bps) = wanted.get(&excluded.link) else {
            continue;
        };
        // One part of the largest sum, were it kept beside what is kept, is more than it needs.
        if bps * parts_max > (kept + bps) * (1.0 + TOLERANCE)
            || *bps > smallest_kept * (1.0 + TOLERANCE)
        {
            return Err(Wrong::Exclusion(excluded.link));
        }
    }
    let bound = (all / kept) * (1.0 + kept / (parts_max * smallest_kept));
    let mut delta = 0.0_f64;
    for member in &group.members {
        if member.weight == 0
            || member.reason.weight != member.weight
            || member.reason.parts != parts
        {
            return Err(Wrong::Weight(member.link));
        }
        let quota = f64::from(parts) * wanted[&member.link] / kept;
        // The quota rule of largest remainder: never a whole part away.
        if (f64::from(member.weight) - quota).abs() >= 1.0 + TOLERANCE {
            return Err(Wrong::Weight(member.link));
        }
        delta = delta.max(f64::from(member.weight) / f64::from(parts) * all / wanted[&member.link]);
    }
    let claimed = group.delta_ppm as f64 / 1e6;
    if (delta - claimed).abs() > 2e-6 * delta || delta > bound * (1.0 + TOLERANCE) {
        return Err(Wrong::Delta {
            ppm: group.delta_ppm,
        });
    }
    Ok(())
}

/// What is wrong with the group of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The source leaf.
    pub source: SwitchId,
    /// The destination leaf.
    pub destination: SwitchId,
    /// What.
    pub wrong: Wrong,
}

/// What can be wrong with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A pair of leaves has no group.
    Missing,
    /// A group is for a pair that is not two different leaves.
    Superfluous,
    /// Members and exclusions together are not exactly the uplinks of the source.
    Links,
    /// A member cannot carry anything to the destination.
    DeadMember(LinkId),
    /// A link is left out for a reason that is not so.
    Exclusion(LinkId),
    /// The sum of the weights is not what the group says, or more than the limit.
    Parts(u32),
    /// No member although something alive leads there.
    Empty,
    /// A weight is 0, unlike its reason, or a whole part or more from its share.
    Weight(LinkId),
    /// The overload is not what the group says, or more than rounding can explain.
    Delta {
        /// What the group says.
        ppm: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "group from switch {} to switch {}: ",
            self.source.0, self.destination.0
        )?;
        match self.wrong {
            Wrong::Missing => f.write_str("missing"),
            Wrong::Superfluous => f.write_str("not between two leaves"),
            Wrong::Links => f.write_str("not every uplink decided exactly once"),
            Wrong::DeadMember(LinkId(link)) => write!(f, "link {link} carries nothing there"),
            Wrong::Exclusion(LinkId(link)) => write!(f, "link {link} left out for a wrong reason"),
            Wrong::Parts(parts) => write!(f, "{parts} parts in all"),
            Wrong::Empty => f.write_str("no member although a way is alive"),
            Wrong::Weight(LinkId(link)) => write!(f, "wrong weight on link {link}"),
            Wrong::Delta { ppm } => write!(f, "wrong overload of {ppm} millionths"),
        }
    }
}

impl std::error::Error for Fault {}

/// Capacities are integers below 2^64 and a share takes a few operations: the relative error is near 1e-15, and this
/// is far above it and far below one part in 256.
const TOLERANCE: f64 = 1e-9;
