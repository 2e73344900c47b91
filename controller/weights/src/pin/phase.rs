//! Flows that never run together: phases of a job, one after the other. Phases of different jobs may meet in any way.
//!
//! A link needs room for what is always there, and for each job for the phase that sends most over it. Each phase is placed into
//! all of that at once, and not beside the other phases of its job. It refuses to know when a phase begins and ends.

use std::collections::BTreeMap;

mod back;
mod even;

use super::back::{most, place_lower};
use super::beside::Beside;
use super::plane::{Level, Plane};
use super::priority::{ANY, is_whole};
use super::repair;
use super::{Bound, Flows, Infeasible, Part, Placement, bounded_below, place_within};

/// A phase of a job, by numbers that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Phase {
    /// Which job.
    pub job: u32,
    /// Which of its phases.
    pub phase: u32,
}

/// Places flows of which those of one job and different phases never run together; None: a flow is always there, as one is that
/// belongs to several phases, with the most that it has in any. The level is that of the worst link at the worst time. `past` and
/// `enough` are as those of [`place_within`]: what has a link stays unless the level gets lower by more than one, or with phases of
/// several jobs by a tenth.
///
/// # Errors
/// A flow has no way at all, or `phases` has not one entry for each flow.
pub fn place_in_phases(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
) -> Result<Placement, Infeasible> {
    placed(plane, flows, phases, past, enough, false)
}

/// Places flows in phases like [`place_in_phases`], and lower, by a sixteenth of all sub-flows that moves or less: for when links
/// came back. That is at the bound, or at `enough`, or else at the lowest of a few levels.
///
/// # Errors
/// A flow has no way at all, or `phases` has not one entry for each flow.
pub fn place_lower_in_phases(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
) -> Result<Placement, Infeasible> {
    placed(plane, flows, phases, past, enough, true)
}

/// What [`place_in_phases`] gives; flows move back where that brings the level down.
fn placed(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
    moves_back: bool,
) -> Result<Placement, Infeasible> {
    flows.check(plane.leaves().len())?;
    if phases.len() != flows.all.len() {
        let flow = phases.len().min(flows.all.len());
        return Err(Infeasible::NoFlow { flow });
    }
    if phases.iter().all(Option::is_none) {
        return match moves_back {
            true => place_lower(plane, flows, past, enough),
            false => place_within(plane, flows, past, enough),
        };
    }
    let bound = bound(plane, flows, phases)?;
    let posed = Posed {
        plane,
        flows,
        phases,
        enough,
        groups: groups(flows, phases),
        bound,
    };
    let mut best = match is_whole(plane, flows, past) {
        true => posed.of(past.to_vec()),
        false => match posed.kept(past) {
            Some(kept) => kept,
            None => posed.placed(past)?,
        },
    };
    // What another placement has to be lower than, whatever moved back until then.
    let mut before = best.level;
    let mut most = if moves_back { most(flows) } else { 0 };
    for _ in 0..TURNS_MAX {
        if most > 0
            && let Some(lower) = back::lower(&posed, &best, &mut most)
        {
            best = lower;
            continue;
        }
        // No placement is below the bound.
        if bound.level >= best.level || !posed.is_lower(bound.level, before) {
            break;
        }
        let next = posed.placed(&best.parts)?;
        if next.level >= best.level || !posed.is_lower(next.level, before) {
            break;
        }
        before = next.level;
        best = next;
    }
    Ok(best)
}

/// The least level of any placement at the worst time: each leaf, pair and pod has the phase of each job that sends most there.
pub(super) fn bound(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
) -> Result<Bound, Infeasible> {
    let worst = Flows::at_worst(flows.all.clone(), phases);
    let below = bounded_below(plane, &worst)?;
    Ok(match plane.onward() {
        Some(onward) => below.or_higher(onward.bound_in_phases(plane, flows, phases)?),
        None => below,
    })
}

/// Flows that are placed together, by their places: without a phase if they are of several.
pub(super) type Group = (Option<Phase>, Vec<usize>);

/// The parts of the flows of each group, which are called by their places there.
pub(super) fn parts_of(parts: &[Part], groups: &[Group]) -> Vec<Vec<Part>> {
    let mut places = Vec::new();
    for (group, (_, numbers)) in groups.iter().enumerate() {
        for (place, number) in (0..).zip(numbers) {
            places.resize(places.len().max(number + 1), None);
            places[*number] = Some((group, place));
        }
    }
    let mut all = vec![Vec::new(); groups.len()];
    for part in parts {
        if let Some(Some((group, flow))) = places.get(part.flow as usize) {
            let flow = *flow;
            all[*group].push(Part { flow, ..*part });
        }
    }
    all
}

/// What is placed together: all that is always there with the largest phase of each job, and then each other phase.
pub(super) fn groups(flows: &Flows, phases: &[Option<Phase>]) -> Vec<Group> {
    let mut of_phase: BTreeMap<Phase, Vec<usize>> = BTreeMap::new();
    let mut first: Vec<usize> = Vec::new();
    for (flow, phase) in phases.iter().enumerate() {
        match phase {
            Some(phase) => of_phase.entry(*phase).or_default().push(flow),
            None => first.push(flow),
        }
    }
    let total = |numbers: &[usize]| {
        let subflows = numbers.iter().map(|flow| flows.all[*flow].subflows);
        subflows.map(u64::from).sum::<u64>()
    };
    let mut largest: BTreeMap<u32, (u64, Phase)> = BTreeMap::new();
    for (phase, numbers) in &of_phase {
        let most = largest.entry(phase.job).or_insert((0, *phase));
        *most = (total(numbers), *phase).max(*most);
    }
    for (_, phase) in largest.values() {
        first.extend(of_phase.remove(phase).into_iter().flatten());
    }
    first.sort_unstable();
    let others = of_phase.into_iter().map(|(phase, it)| (Some(phase), it));
    std::iter::once((None, first)).chain(others).collect()
}

/// Whether a level is lower than another one by a tenth: for less, what has links stays there, where phases of several jobs may meet.
fn is_worth_moving(level: Level, before: Level) -> bool {
    let times = |level: Level, times: u64| Level {
        subflows: level.subflows.saturating_mul(times),
        ..level
    };
    times(level, 10) < times(before, 9)
}

/// Flows with their phases.
struct Posed<'a> {
    plane: &'a Plane,
    flows: &'a Flows,
    phases: &'a [Option<Phase>],
    enough: Level,
    /// The first without a phase.
    groups: Vec<Group>,
    bound: Bound,
}

impl Posed<'_> {
    /// Phases apart; or as if all were there at once, or each evenly over all links, where that is lower: it can be with several jobs,
    /// whose phases meet in any way.
    fn placed(&self, past: &[Part]) -> Result<Placement, Infeasible> {
        let apart = self.of(self.apart(past)?);
        if self.has_one_job() {
            return Ok(apart);
        }
        let together = place_within(self.plane, self.flows, past, self.enough)?;
        let together = self.of(together.parts);
        let best = match together.level < apart.level {
            true => together,
            false => apart,
        };
        let least = self.bound.level.max(self.enough);
        let above = self.plane.above(least);
        if above.is_none_or(|above| best.level <= above) {
            return Ok(best);
        }
        let even = even::spread(self, least).map(|parts| self.of(parts));
        let is_better = |even: &Placement| match past.is_empty() {
            true => even.level < best.level,
            false => is_worth_moving(even.level, best.level),
        };
        Ok(even.filter(is_better).unwrap_or(best))
    }

    /// Whether a level is so much lower than that of a placement that flows move for it.
    fn is_lower(&self, level: Level, before: Level) -> bool {
        match self.has_one_job() {
            true => {
                let above = self.plane.above(level);
                above.is_some_and(|above| above < before)
            }
            false => is_worth_moving(level, before),
        }
    }

    fn has_one_job(&self) -> bool {
        let mut jobs = self.phases.iter().flatten().map(|phase| phase.job);
        let one = jobs.next();
        jobs.all(|job| Some(job) == one)
    }

    /// What has links stays there, and the rest finds room at the level that links have, or up to two above it. None: it finds none, or
    /// one job has all phases, which are placed apart.
    fn kept(&self, past: &[Part]) -> Option<Placement> {
        if self.has_one_job() {
            return None;
        }
        let stays = repair::stays(self.plane, self.flows, ANY, past)?;
        if stays.parts.is_empty() {
            return None;
        }
        let least = self.bound.level.max(self.enough);
        let parts = even::kept(self, &stays.parts, least)?;
        Some(self.of(parts))
    }

    fn apart(&self, past: &[Part]) -> Result<Vec<Part>, Infeasible> {
        let mut taken = Taken::new(self.plane, self.flows, self.phases);
        let past = parts_of(past, &self.groups);
        for ((phase, numbers), past) in self.groups.iter().zip(past) {
            let own = taken.flows(numbers);
            let parts = match phase {
                None => place_within(self.plane, &own, &past, self.enough)?.parts,
                Some(phase) => {
                    let left = |plane: &Plane, level| taken.left(plane, level, Some(phase.job));
                    let beside = Beside {
                        plane: self.plane,
                        flows: &own,
                        past: &past,
                        enough: self.enough,
                        left: &left,
                    };
                    let least = bounded_below(self.plane, &own)?.level;
                    beside.found(least, None)?.unwrap_or_default()
                }
            };
            taken.take(&own, &parts, numbers);
        }
        taken.parts.sort_unstable();
        Ok(taken.parts)
    }

    /// Parts with their level and bound.
    fn of(&self, parts: Vec<Part>) -> Placement {
        let mut taken = Taken::new(self.plane, self.flows, self.phases);
        for ((_, numbers), own) in self.groups.iter().zip(parts_of(&parts, &self.groups)) {
            taken.take(&taken.flows(numbers), &own, numbers);
        }
        Placement {
            level: taken.level().max(self.bound.level),
            bound: self.bound,
            parts,
        }
    }
}

/// What is needed of each link so far, up, then down, by leaf, then by spine; and after them of those above spines, by pod.
#[derive(Clone)]
pub(super) struct Taken<'a> {
    plane: &'a Plane,
    all: &'a Flows,
    phases: &'a [Option<Phase>],
    /// By all.
    pub(super) used: [Vec<u32>; 2],
    /// By each job in the phase that needs most.
    pub(super) of_job: BTreeMap<u32, [Vec<u32>; 2]>,
    pub(super) parts: Vec<Part>,
}

impl<'a> Taken<'a> {
    pub(super) fn new(plane: &'a Plane, all: &'a Flows, phases: &'a [Option<Phase>]) -> Self {
        let cells = plane.rows() * plane.spines().len();
        Self {
            plane,
            all,
            phases,
            used: [vec![0; cells], vec![0; cells]],
            of_job: BTreeMap::new(),
            parts: Vec::with_capacity(all.all.len()),
        }
    }

    pub(super) fn flows(&self, numbers: &[usize]) -> Flows {
        let flows = Flows::new(numbers.iter().map(|number| self.all.all[*number]).collect());
        match self.all.pieces.is_empty() {
            true => flows,
            false => {
                let pieces = |number: &usize| self.all.pieces.get(*number).copied().unwrap_or(1);
                flows.with_pieces(numbers.iter().map(pieces).collect())
            }
        }
    }

    /// Slots of a plane that are left at a level for a phase of a job: those of its other phases are free then. None: for flows that
    /// are always there.
    fn left(&self, plane: &Plane, level: Level, job: Option<u32>) -> [Vec<u32>; 2] {
        let slots = plane.slots(level, self.all.most());
        let own = job.and_then(|job| self.of_job.get(&job));
        [0, 1].map(|side| {
            let own = own.map(|own| &own[side]);
            let cells = slots.iter().zip(&self.used[side]).enumerate();
            let left = cells.map(|(cell, (slots, used))| {
                let own = own.map_or(0, |own| own[cell]);
                slots.saturating_sub(used - own)
            });
            left.collect()
        })
    }

    /// Takes the parts of flows that are always there, or of one phase of each job.
    pub(super) fn take(&mut self, flows: &Flows, parts: &[Part], numbers: &[usize]) {
        let cells = self.used[0].len();
        let mut of_job: BTreeMap<u32, [Vec<u32>; 2]> = BTreeMap::new();
        for part in parts {
            let flow = flows.all[part.flow as usize];
            let number = numbers[part.flow as usize];
            let sums = match self.phases[number] {
                Some(phase) => {
                    let none = || [vec![0; cells], vec![0; cells]];
                    of_job.entry(phase.job).or_insert_with(none)
                }
                None => &mut self.used,
            };
            self.plane.each_cell(flow, part.spine, |side, cell| {
                sums[side][cell] += part.subflows;
            });
            self.parts.push(Part {
                flow: number as u32,
                ..*part
            });
        }
        for (job, needs) in of_job {
            let none = || [vec![0; cells], vec![0; cells]];
            let before = self.of_job.entry(job).or_insert_with(none);
            for (side, needs) in needs.iter().enumerate() {
                for (cell, needs) in needs.iter().enumerate() {
                    let more = needs.saturating_sub(before[side][cell]);
                    before[side][cell] += more;
                    self.used[side][cell] += more;
                }
            }
        }
    }

    /// The level of the worst link.
    fn level(&self) -> Level {
        let cells = self.used.iter().flat_map(|used| used.iter().enumerate());
        let levels = cells.filter_map(|(cell, used)| {
            repair::level_of(self.plane.links_at(cell), u64::from(*used))
        });
        levels.max().unwrap_or(Level {
            subflows: 0,
            capacity: 1,
        })
    }
}

/// Times that a placement is tried to be lowered.
const TURNS_MAX: usize = 8;

#[cfg(test)]
pub(super) mod tests;
