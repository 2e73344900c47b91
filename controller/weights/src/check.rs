//! An independent check of a solution: every pair, every link, every proportion, from the problem alone.
//!
//! It shares no arithmetic with [`crate::fabric`], [`crate::leaf`] or [`crate::quantize`]: capacities are followed in
//! floating point over adjacency of its own, and proportions are compared with a stated tolerance. What each next switch
//! carries to a destination is followed once per destination, so that a pair costs one look at each uplink. A plan that
//! does not pass is not adopted.

use std::fmt;

use crate::explain::Exclusion;
use crate::leaf::LeafSolution;
use crate::problem::{LinkId, Problem, SwitchId};
use crate::quantize::{Limits, WEIGHT_MAX};
use crate::spread::{Group, Solution};

mod follow;
mod links;
mod loads;

pub use links::{Counted, Links, links};
pub use loads::{Busiest, BusyLink, utilization};

use follow::{Follow, Uplink};

/// Verifies that the solution answers the problem within the limits; the first fault found, by pair and link.
pub fn check(problem: &Problem, limits: Limits, solution: &Solution) -> Result<(), Fault> {
    let checker = Checker::new(problem);
    let mut expected_groups = 0;
    let mut weights = Vec::new();
    for (place, source) in checker.follow.leaves().enumerate() {
        for (to, destination) in checker
            .follow
            .leaves()
            .enumerate()
            .filter(|(to, _)| *to != place)
        {
            expected_groups += 1;
            let fault = |wrong| Fault {
                source,
                destination,
                wrong,
            };
            let group = solution
                .group(source, destination)
                .ok_or_else(|| fault(Wrong::Missing))?;
            let pair = Pair {
                uplinks: checker.follow.uplinks(place),
                carried_bps: checker.follow.carried_bps(to),
            };
            pair.members(group, &mut weights)
                .and_then(|()| pair.proportions(limits, &weights, group.parts, group.delta_ppm))
                .and_then(|()| pair.reasons(group))
                .map_err(fault)?;
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

/// Checks the solutions of single leaves. Made once per problem.
#[derive(Debug)]
pub struct Checker {
    follow: Follow,
}

impl Checker {
    /// Follows the capacities of a problem to every leaf.
    pub fn new(problem: &Problem) -> Self {
        Self {
            follow: Follow::new(problem),
        }
    }

    /// Verifies that the solution of one leaf answers the problem within the limits; the first fault found, by
    /// destination and link.
    pub fn check_leaf(&self, limits: Limits, solution: &LeafSolution) -> Result<(), Fault> {
        let source = solution.source();
        let fault = |destination, wrong| Fault {
            source,
            destination,
            wrong,
        };
        let Some(place) = self.follow.leaves().position(|leaf| leaf == source) else {
            return Err(fault(source, Wrong::Superfluous));
        };
        let uplinks = self.follow.uplinks(place);
        let links = solution.uplinks().iter().map(|uplink| uplink.link);
        if !links.eq(uplinks.iter().map(|uplink| uplink.link)) {
            return Err(fault(source, Wrong::Links));
        }
        let mut answered = solution.destinations();
        // By group, what uplinks carry to the destination that was checked last: another one to which they carry as much needs no
        // check of its own.
        let mut checked: Vec<Option<&[f64]>> = vec![None; solution.groups()];
        for (to, destination) in self
            .follow
            .leaves()
            .enumerate()
            .filter(|(to, _)| *to != place)
        {
            let fault = |wrong| fault(destination, wrong);
            let group = match answered.next() {
                Some((leaf, group)) if leaf == destination => group,
                _ => return Err(fault(Wrong::Missing)),
            };
            let carried_bps = self.follow.carried_bps(to);
            let last = checked[group].replace(carried_bps);
            if last.is_some_and(|last| last == carried_bps) {
                continue;
            }
            let group = solution.weights(group);
            let pair = Pair {
                uplinks,
                carried_bps,
            };
            pair.proportions(limits, group.weights, group.parts, group.delta_ppm)
                .map_err(fault)?;
        }
        match answered.next() {
            Some((destination, _)) => Err(fault(destination, Wrong::Superfluous)),
            None => Ok(()),
        }
    }
}

/// The uplinks of a source and what the switches behind them carry to one destination.
struct Pair<'a> {
    uplinks: &'a [Uplink],
    carried_bps: &'a [f64],
}

/// What the weights of a pair come to, gathered in one pass over the uplinks.
struct Sums {
    /// Of all links that lead there.
    all_bps: f64,
    usable: usize,
    /// Of those with a weight.
    kept_bps: f64,
    kept_least_bps: f64,
    /// The largest that leads there and has no weight.
    dropped_most_bps: f64,
    parts: u32,
    /// The most weight per bit per second.
    worst: f64,
    /// The same over the members that could give a part away.
    givers_worst: f64,
    /// The least that a member would come to with one part more.
    takers_best: f64,
    heaviest: u16,
}

impl Pair<'_> {
    /// What an uplink should carry: its share of the least of up and down. 0 for one that leads nowhere.
    fn wanted_bps(&self, uplink: &Uplink) -> f64 {
        uplink.share * least(uplink.width_bps, self.carried_bps[uplink.column])
    }

    fn sums(&self, weights: &[u16]) -> Result<Sums, Wrong> {
        let mut sums = Sums {
            all_bps: 0.0,
            usable: 0,
            kept_bps: 0.0,
            kept_least_bps: f64::INFINITY,
            dropped_most_bps: 0.0,
            parts: 0,
            worst: 0.0,
            givers_worst: 0.0,
            takers_best: f64::INFINITY,
            heaviest: 0,
        };
        for (uplink, weight) in self.uplinks.iter().zip(weights) {
            let wanted = self.wanted_bps(uplink);
            sums.all_bps += wanted;
            sums.usable += usize::from(wanted > 0.0);
            if *weight == 0 {
                sums.dropped_most_bps = sums.dropped_most_bps.max(wanted);
                continue;
            }
            if wanted == 0.0 {
                return Err(Wrong::DeadMember(uplink.link));
            }
            // Without branches: which weights are 1 cannot be predicted.
            let one = 1.0 / wanted;
            let given = f64::from(*weight) * one;
            let giver = if *weight > 1 { given } else { 0.0 };
            let taker = if *weight < WEIGHT_MAX {
                given + one
            } else {
                f64::INFINITY
            };
            sums.kept_bps += wanted;
            sums.kept_least_bps = least(sums.kept_least_bps, wanted);
            sums.parts += u32::from(*weight);
            sums.worst = most(sums.worst, given);
            sums.givers_worst = most(sums.givers_worst, giver);
            sums.takers_best = least(sums.takers_best, taker);
            sums.heaviest = sums.heaviest.max(*weight);
        }
        Ok(sums)
    }

    /// Sums, limits, what may be left out, and how far a member is from its share.
    fn proportions(
        &self,
        limits: Limits,
        weights: &[u16],
        parts: u32,
        delta_ppm: u64,
    ) -> Result<(), Wrong> {
        let sums = self.sums(weights)?;
        let parts_max = limits.parts_max(sums.usable);
        if sums.parts != parts || parts > parts_max {
            return Err(Wrong::Parts(sums.parts));
        }
        if parts == 0 {
            return if sums.usable > 0 {
                Err(Wrong::Empty)
            } else {
                Ok(())
            };
        }
        if sums.heaviest > WEIGHT_MAX {
            return Err(self.too_heavy(weights));
        }
        self.left_out(&sums, weights, f64::from(parts_max))?;
        // The divisor rule: no part could go from one member to another and leave the worse of the two less overloaded.
        if sums.givers_worst > sums.takers_best * (1.0 + TOLERANCE) {
            return Err(Wrong::Weight(self.worst_giver(weights)));
        }
        let delta = sums.worst * sums.all_bps / f64::from(parts);
        let bound = (sums.all_bps / sums.kept_bps)
            * (1.0 + sums.kept_bps / (f64::from(parts_max) * sums.kept_least_bps));
        let claimed = delta_ppm as f64 / 1e6;
        let too_much = sums.heaviest < WEIGHT_MAX && delta > bound * (1.0 + TOLERANCE);
        if (delta - claimed).abs() > 3e-6 * delta || too_much {
            return Err(Wrong::Delta { ppm: delta_ppm });
        }
        Ok(())
    }

    /// A weight above the largest that any table holds.
    fn too_heavy(&self, weights: &[u16]) -> Wrong {
        let mut links = self.uplinks.iter().zip(weights);
        let found = links.find(|(_, weight)| **weight > WEIGHT_MAX);
        found.map_or(Wrong::Links, |(uplink, _)| Wrong::Weight(uplink.link))
    }

    /// What leads there and has no weight is less than one part of the largest sum, and no more than any member.
    fn left_out(&self, sums: &Sums, weights: &[u16], parts_max: f64) -> Result<(), Wrong> {
        let most = sums.dropped_most_bps;
        if most == 0.0 {
            return Ok(());
        }
        // One part of the largest sum, were it kept beside what is kept, is more than it needs.
        let needs_a_part = most * parts_max > (sums.kept_bps + most) * (1.0 + TOLERANCE);
        if needs_a_part || most > sums.kept_least_bps * (1.0 + TOLERANCE) {
            let mut links = self.uplinks.iter().zip(weights);
            let found =
                links.find(|(uplink, weight)| **weight == 0 && self.wanted_bps(uplink) >= most);
            return Err(found.map_or(Wrong::Empty, |(uplink, _)| Wrong::Exclusion(uplink.link)));
        }
        Ok(())
    }

    fn worst_giver(&self, weights: &[u16]) -> LinkId {
        let links = self.uplinks.iter().zip(weights);
        let givers = links.filter(|(_, weight)| **weight > 1);
        let overload =
            |(uplink, weight): &(&Uplink, &u16)| f64::from(**weight) / self.wanted_bps(uplink);
        givers
            .max_by(|one, other| overload(one).total_cmp(&overload(other)))
            .map(|(uplink, _)| uplink.link)
            .expect("somebody has a part to give")
    }

    /// The weights of a group by uplink; every uplink of the source is a member or excluded, once.
    fn members(&self, group: &Group, weights: &mut Vec<u16>) -> Result<(), Wrong> {
        let mut seen: Vec<(LinkId, u32)> = group
            .members
            .iter()
            .map(|member| (member.link, member.weight))
            .chain(group.excluded.iter().map(|excluded| (excluded.link, 0)))
            .collect();
        seen.sort_unstable();
        let links = self.uplinks.iter().map(|uplink| uplink.link);
        if !links.eq(seen.iter().map(|(link, _)| *link)) {
            return Err(Wrong::Links);
        }
        weights.clear();
        for (link, weight) in seen {
            weights.push(u16::try_from(weight).map_err(|_| Wrong::Weight(link))?);
        }
        Ok(())
    }

    /// Every reason agrees with its weight, and every exclusion with what the link could carry.
    fn reasons(&self, group: &Group) -> Result<(), Wrong> {
        for member in &group.members {
            let reason = &member.reason;
            if member.weight == 0 || reason.weight != member.weight || reason.parts != group.parts {
                return Err(Wrong::Weight(member.link));
            }
        }
        for excluded in &group.excluded {
            let uplink = self
                .uplinks
                .iter()
                .find(|uplink| uplink.link == excluded.link);
            let uplink = uplink.ok_or(Wrong::Links)?;
            let (alive, usable) = (uplink.share > 0.0, self.wanted_bps(uplink) > 0.0);
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
}

/// The lesser of two numbers that are numbers: one instruction, where `f64::min` also minds what is not.
fn least(one: f64, other: f64) -> f64 {
    if one < other { one } else { other }
}

/// The greater of two numbers that are numbers.
fn most(one: f64, other: f64) -> f64 {
    if one > other { one } else { other }
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
    /// A weight is 0 or unlike its reason, or one of its parts would overload another member less.
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

/// A share takes a few operations in floating point, and amounts of more than 42 bits are rounded before they are
/// weighed: the relative error is below 1e-9 for groups of 1,024 members, and this is far above it and far below what
/// one part makes.
const TOLERANCE: f64 = 1e-6;

#[cfg(test)]
mod tests;
