//! Flows that never run together: phases of a job, one after the other. Phases of different jobs may meet in any way.
//!
//! A link needs room for what is always there, and for each job for the phase that sends most over it. Each phase is placed into
//! all of that at once, and not beside the other phases of its job. It refuses to know when a phase begins and ends.

use std::collections::BTreeMap;

use super::beside::{Beside, parts_among};
use super::plane::{Level, Plane};
use super::priority::is_whole;
use super::{Bound, Flows, Infeasible, Part, Placement, bounded, bounded_below, place_within};

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
/// `enough` are as those of [`place_within`]: what has a link stays unless the level gets lower by more than one.
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
    flows.check(plane.leaves().len())?;
    if phases.len() != flows.all.len() {
        let flow = phases.len().min(flows.all.len());
        return Err(Infeasible::NoFlow { flow });
    }
    if phases.iter().all(Option::is_none) {
        return place_within(plane, flows, past, enough);
    }
    let posed = Posed {
        plane,
        flows,
        phases,
        enough,
        groups: groups(flows, phases),
    };
    let mut best = match is_whole(plane, flows, past) {
        true => posed.of(past.to_vec())?,
        false => posed.placed(past)?,
    };
    // What is there stays unless the level gets lower by more than one.
    for _ in 0..TURNS_MAX {
        let next = posed.placed(&best.parts)?;
        if plane
            .above(next.level)
            .is_none_or(|above| above >= best.level)
        {
            break;
        }
        best = next;
    }
    Ok(best)
}

/// The least level of any placement of any phases that run at the same time.
pub(super) fn bound(
    plane: &Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
) -> Result<Bound, Infeasible> {
    let mut bound: Option<Bound> = None;
    for (_, numbers) in groups(flows, phases) {
        let own = numbers.iter().map(|number| flows.all[*number]).collect();
        let next = bounded(plane, &Flows::new(own))?;
        bound = match bound {
            Some(bound) if bound.level >= next.level => Some(bound),
            Some(_) | None => Some(next),
        };
    }
    bound.map_or_else(|| bounded(plane, flows), Ok)
}

/// Flows that are placed together, by their places: without a phase if they are of several.
pub(super) type Group = (Option<Phase>, Vec<usize>);

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

/// Flows with their phases.
struct Posed<'a> {
    plane: &'a Plane,
    flows: &'a Flows,
    phases: &'a [Option<Phase>],
    enough: Level,
    /// The first without a phase.
    groups: Vec<Group>,
}

impl Posed<'_> {
    /// Phases apart, or as if all were there at once where that is lower: it can be with many jobs, whose phases meet in any way.
    fn placed(&self, past: &[Part]) -> Result<Placement, Infeasible> {
        let apart = self.of(self.apart(past)?)?;
        let mut jobs = self.phases.iter().flatten().map(|phase| phase.job);
        let one = jobs.next();
        if jobs.all(|job| Some(job) == one) {
            return Ok(apart);
        }
        let together = place_within(self.plane, self.flows, past, self.enough)?;
        let together = self.of(together.parts)?;
        Ok(match together.level < apart.level {
            true => together,
            false => apart,
        })
    }

    fn apart(&self, past: &[Part]) -> Result<Vec<Part>, Infeasible> {
        let mut taken = Taken::new(self.plane, self.flows, self.phases);
        for (phase, numbers) in &self.groups {
            let own = taken.flows(numbers);
            let past = parts_among(past, numbers);
            let parts = match phase {
                None => place_within(self.plane, &own, &past, self.enough)?.parts,
                Some(phase) => {
                    let left = |plane: &Plane, level| taken.left(plane, level, phase.job);
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
    fn of(&self, parts: Vec<Part>) -> Result<Placement, Infeasible> {
        let mut taken = Taken::new(self.plane, self.flows, self.phases);
        for (_, numbers) in &self.groups {
            let own = taken.flows(numbers);
            taken.take(&own, &parts_among(&parts, numbers), numbers);
        }
        let bound = bound(self.plane, self.flows, self.phases)?;
        Ok(Placement {
            level: taken.level().max(bound.level),
            bound,
            parts,
        })
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
        Flows::new(numbers.iter().map(|number| self.all.all[*number]).collect())
    }

    /// Slots of a plane that are left at a level for a phase of a job: those of its other phases are free then.
    fn left(&self, plane: &Plane, level: Level, job: u32) -> [Vec<u32>; 2] {
        let slots = plane.slots(level, self.all.most());
        [0, 1].map(|side| {
            let own = self.of_job.get(&job).map(|it| &it[side]);
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
            super::repair::level_of(self.plane.links_at(cell), u64::from(*used))
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
mod tests;
