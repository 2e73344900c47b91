//! Flows of several priorities: what a higher one has is not made slower by a lower one, as long as there is room elsewhere.
//!
//! A class is placed into what those before it leave: a link that carries a flow of theirs is filled to their level and no further.
//! Links are divided fairly, so nobody on it is slower than that level. Within a class, phases of a job are placed apart, as they never
//! run together. It refuses to know why one comes before another.

use super::beside::{Beside, parts_among};
use super::phase::{self, Group, Phase, groups, parts_of};
use super::plane::{Level, Plane};
use super::repair;
use super::{
    Bound, Flows, Infeasible, Part, Placement, back, bounded_below, place_in_phases,
    place_lower_in_phases,
};

/// A placement of flows of several priorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// All parts; its level is the highest of any class.
    pub placement: Placement,
    /// The highest priority first.
    pub classes: Vec<Class>,
}

/// Flows of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Their priority; a higher number comes first.
    pub priority: u32,
    /// No link that carries one of them carries more than this.
    pub level: Level,
    /// What that was before any lower priority was placed; `level` is above it if a lower one found no way that leaves these alone.
    pub before: Level,
}

/// Places flows by priority, one number for each flow: a higher one first, and none is made slower by a lower one for which there is
/// room elsewhere. If there is none, the lowest of those above give way, to the lowest level that is found. `past` and `enough` are as
/// those of [`place_within`](super::place_within): what has a link stays unless a class comes down by more than a level. With one priority the placement
/// is that of [`place_within`](super::place_within). Priorities after the 16th are as one.
///
/// # Errors
/// A flow has no way at all, or has no priority.
pub fn place_by_priority(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    past: &[Part],
    enough: Level,
) -> Result<Ranked, Infeasible> {
    let phases = vec![None; flows.all.len()];
    place_by_priority_in_phases(plane, flows, priorities, &phases, past, enough)
}

/// Places flows by priority like [`place_by_priority`], where those of one job and different phases never run together, as those of
/// [`place_in_phases`](super::place_in_phases): with one priority it is that. Levels are those of the worst time. Flows of one job
/// and different priorities count as if they could run together.
///
/// # Errors
/// A flow has no way at all, or has no priority, or no entry in `phases`.
pub fn place_by_priority_in_phases(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
) -> Result<Ranked, Infeasible> {
    ranked(plane, flows, priorities, phases, past, enough, false)
}

/// Places flows by priority like [`place_by_priority_in_phases`], and classes lower, by a sixteenth of all sub-flows that moves or less: for when
/// links came back. No class gets higher for that, and each is at the lowest of a few levels.
///
/// # Errors
/// A flow has no way at all, or has no priority, or no entry in `phases`.
pub fn place_lower_by_priority(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
) -> Result<Ranked, Infeasible> {
    ranked(plane, flows, priorities, phases, past, enough, true)
}

/// What [`place_by_priority_in_phases`] gives; flows move back where that brings a class down.
fn ranked(
    plane: &Plane,
    flows: &Flows,
    priorities: &[u32],
    phases: &[Option<Phase>],
    past: &[Part],
    enough: Level,
    moves_back: bool,
) -> Result<Ranked, Infeasible> {
    flows.check(plane.leaves().len())?;
    for count in [priorities.len(), phases.len()] {
        if count != flows.all.len() {
            let flow = count.min(flows.all.len());
            return Err(Infeasible::NoFlow { flow });
        }
    }
    let mut ranks = priorities.to_vec();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    ranks.dedup();
    if let [priority] = ranks[..] {
        let placement = match moves_back {
            true => place_lower_in_phases(plane, flows, phases, past, enough),
            false => place_in_phases(plane, flows, phases, past, enough),
        };
        return Ok(Ranked::of_one(priority, placement?));
    }
    let posed = Posed {
        plane,
        flows,
        phases,
        classes: classes(priorities, ranks),
        enough,
        bound: phase::bound(plane, flows, phases)?,
    };
    let mut best = match is_whole(plane, flows, past) {
        true => posed.of(past),
        false => posed.placed(past)?,
    };
    // What is there stays unless a class gets lower by more than a level, whatever moved back until then.
    let mut before = best.clone();
    let mut most = if moves_back { back::most(flows) } else { 0 };
    for _ in 0..TURNS_MAX {
        if most > 0
            && let Some(lower) = posed.lower(&best, &mut most)?
        {
            best = lower;
            continue;
        }
        let next = posed.placed(&best.placement.parts)?;
        if !next.is_lower(&before, plane) || !next.levels().lt(best.levels()) {
            break;
        }
        before = next.clone();
        best = next;
    }
    Ok(best)
}

/// Flows with their classes and phases.
struct Posed<'a> {
    plane: &'a Plane,
    flows: &'a Flows,
    phases: &'a [Option<Phase>],
    /// The highest first, with the places of their flows.
    classes: Vec<(u32, Vec<usize>)>,
    enough: Level,
    bound: Bound,
}

impl Posed<'_> {
    /// Phases apart, or as if all were there at once where that is lower: it can be with many jobs.
    fn placed(&self, past: &[Part]) -> Result<Ranked, Infeasible> {
        let apart = self.anew(self.phases, past)?;
        if self.phases.iter().all(Option::is_none) {
            return Ok(apart);
        }
        let together = self.anew(&vec![None; self.phases.len()], past)?;
        let together = self.of(&together.placement.parts);
        Ok(match together.is_before(&apart) {
            true => together,
            false => apart,
        })
    }

    fn anew(&self, phases: &[Option<Phase>], past: &[Part]) -> Result<Ranked, Infeasible> {
        let mut taken = Taken::new(self.plane, self.flows, phases, self.enough);
        for (priority, numbers) in &self.classes {
            taken.place(*priority, numbers, past)?;
        }
        Ok(taken.ranked(self.bound))
    }

    /// Lower than this, for which `most` sub-flows move or fewer: each class as low as a few tries find beside those before it, or as low as it
    /// is. None: no class gets lower, or one gets higher. Else `most` is less by what moved.
    fn lower(&self, before: &Ranked, most: &mut u64) -> Result<Option<Ranked>, Infeasible> {
        let parts = &before.placement.parts;
        let mut taken = Taken::new(self.plane, self.flows, self.phases, self.enough);
        let mut left = *most;
        for ((priority, numbers), class) in self.classes.iter().zip(&before.classes) {
            let groups = taken.groups(numbers);
            let of_class: Vec<Option<Phase>> = numbers.iter().map(|it| self.phases[*it]).collect();
            let flows = taken.needs.flows(numbers);
            let plane = back::filled(self.plane, &flows, &of_class)?;
            let bound = phase::bound(self.plane, &flows, &of_class)?;
            let least = bound.level.max(self.enough);
            let at = |level| taken.lowered(&plane, &groups, level, parts, left);
            // Where those before it moved, it may have to make way even if it gets no lower.
            let found = back::lowest(&plane, least, class.before, at).or_else(|| at(class.before));
            let needs = match found {
                Some((needs, rest)) => {
                    left = rest;
                    needs
                }
                None => taken.kept(&groups, parts),
            };
            taken.take(*priority, needs);
        }
        let lower = taken.ranked(self.bound);
        if !lower.is_lower_at_all(before) {
            return Ok(None);
        }
        *most = left;
        Ok(Some(lower))
    }

    /// Parts as they are, with their levels.
    fn of(&self, parts: &[Part]) -> Ranked {
        let mut taken = Taken::new(self.plane, self.flows, self.phases, self.enough);
        for (priority, numbers) in &self.classes {
            taken.keep(*priority, numbers, parts);
        }
        taken.ranked(self.bound)
    }
}

/// Flows by their places, of each priority, the highest first.
fn classes(priorities: &[u32], mut ranks: Vec<u32>) -> Vec<(u32, Vec<usize>)> {
    // The lowest of very many share a class.
    ranks.truncate(CLASSES_MAX);
    let last = ranks.len().saturating_sub(1);
    let of_class = |class: usize| {
        let is_in = |flow: &usize| match class == last {
            true => priorities[*flow] <= ranks[class],
            false => priorities[*flow] == ranks[class],
        };
        (0..priorities.len()).filter(is_in).collect::<Vec<_>>()
    };
    ranks.iter().copied().zip((0..).map(of_class)).collect()
}

/// Whether every sub-flow has a link.
pub(super) fn is_whole(plane: &Plane, flows: &Flows, past: &[Part]) -> bool {
    let stays = repair::stays(plane, flows, ANY, past);
    stays.is_some_and(|stays| stays.displaced == 0)
}

impl Ranked {
    /// Whether some class is more than a level lower, and none before it is higher.
    fn is_lower(&self, other: &Self, plane: &Plane) -> bool {
        let mut classes = self.classes.iter().zip(&other.classes);
        let lower = |(a, b): &(&Class, &Class)| {
            let above = plane.above(a.level);
            above.is_some_and(|above| above < b.level)
        };
        let first = classes.find(|it| it.0.level > it.1.level || lower(it));
        first.is_some_and(|it| lower(&it))
    }

    /// The level of each class, the highest priority first.
    fn levels(&self) -> impl Iterator<Item = Level> {
        self.classes.iter().map(|class| class.level)
    }

    /// Whether some class is lower, and none is higher.
    fn is_lower_at_all(&self, other: &Self) -> bool {
        let mut classes = self.classes.iter().zip(&other.classes);
        classes.clone().all(|(a, b)| a.level <= b.level) && classes.any(|(a, b)| a.level < b.level)
    }

    /// Whether no class is higher before those of lower priority are there, and the first that differs after them is lower.
    fn is_before(&self, other: &Self) -> bool {
        let mut classes = self.classes.iter().zip(&other.classes);
        let no_higher = classes.clone().all(|(a, b)| a.before <= b.before);
        let first = classes.find(|(a, b)| a.level != b.level);
        no_higher && first.is_some_and(|(a, b)| a.level < b.level)
    }

    fn of_one(priority: u32, placement: Placement) -> Self {
        let class = Class {
            priority,
            level: placement.level,
            before: placement.level,
        };
        Self {
            classes: vec![class],
            placement,
        }
    }
}

/// What the classes so far have taken.
struct Taken<'a> {
    plane: &'a Plane,
    all: &'a Flows,
    phases: &'a [Option<Phase>],
    enough: Level,
    /// Of each link. Its jobs are those of one class.
    needs: phase::Taken<'a>,
    /// A bit for each class that is there, the lowest for the first, up, then down, by leaf, then by spine; and after them by pod.
    present: [Vec<u16>; 2],
    classes: Vec<Class>,
    /// Levels of each class: of the links below spines, and of those above them.
    levels: Vec<[Level; 2]>,
}

impl<'a> Taken<'a> {
    /// Nothing is taken.
    fn new(plane: &'a Plane, all: &'a Flows, phases: &'a [Option<Phase>], enough: Level) -> Self {
        let cells = plane.rows() * plane.spines().len();
        Self {
            plane,
            all,
            phases,
            enough,
            needs: phase::Taken::new(plane, all, phases),
            present: [vec![0; cells], vec![0; cells]],
            classes: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// What is placed together of a class that has these numbers.
    fn groups(&self, numbers: &[usize]) -> Vec<Group> {
        let phases: Vec<Option<Phase>> = numbers.iter().map(|it| self.phases[*it]).collect();
        let groups = groups(&self.needs.flows(numbers), &phases).into_iter();
        let numbered = |places: Vec<usize>| places.into_iter().map(|it| numbers[it]).collect();
        groups
            .map(|(phase, places)| (phase, numbered(places)))
            .collect()
    }

    /// Leaves the flows of the next class where they are.
    fn keep(&mut self, priority: u32, numbers: &[usize], past: &[Part]) {
        let needs = self.kept(&self.groups(numbers), past);
        self.take(priority, needs);
    }

    /// What is needed with some flows where they are.
    fn kept(&self, groups: &[Group], parts: &[Part]) -> phase::Taken<'a> {
        let mut needs = self.needs.clone();
        for ((_, numbers), parts) in groups.iter().zip(parts_of(parts, groups)) {
            let flows = needs.flows(numbers);
            needs.take(&flows, &parts, numbers);
        }
        needs
    }

    /// Places the flows of the next class, which have these numbers.
    fn place(&mut self, priority: u32, numbers: &[usize], past: &[Part]) -> Result<(), Infeasible> {
        let groups = self.groups(numbers);
        let classes = self.classes.len();
        if classes == 0 {
            let flows = self.needs.flows(numbers);
            let phases: Vec<Option<Phase>> = numbers.iter().map(|it| self.phases[*it]).collect();
            let past = parts_among(past, numbers);
            let placement = place_in_phases(self.plane, &flows, &phases, &past, self.enough)?;
            let named = placement.parts.into_iter().map(|part| Part {
                flow: numbers[part.flow as usize] as u32,
                ..part
            });
            let parts: Vec<Part> = named.collect();
            self.take(priority, self.kept(&groups, &parts));
            return Ok(());
        }
        for held in (0..=classes).rev() {
            if let Some(needs) = self.beside(&groups, held, past)? {
                self.take(priority, needs);
                break;
            }
        }
        Ok(())
    }

    /// What is needed with the flows of the next class at a level beside those before it, and how many of `most` sub-flows may move then. None:
    /// they find no slots, or more would have to move.
    fn lowered(
        &self,
        plane: &Plane,
        groups: &[Group],
        level: Level,
        past: &[Part],
        mut most: u64,
    ) -> Option<(phase::Taken<'a>, u64)> {
        let mut needs = self.needs.clone();
        for ((phase, numbers), past) in groups.iter().zip(parts_of(past, groups)) {
            let flows = needs.flows(numbers);
            let job = phase.map(|phase| phase.job);
            let slots = self.left(&needs, job, plane, level, self.classes.len());
            let parts = back::lowered(plane, &flows, slots, &past, &mut most)?;
            needs.take(&flows, &parts, numbers);
        }
        Some((needs, most))
    }

    /// What is needed with the flows of the next class, each group after the other, while so many of the first classes hold their
    /// levels; None: those leave too little.
    fn beside(
        &self,
        groups: &[Group],
        held: usize,
        past: &[Part],
    ) -> Result<Option<phase::Taken<'a>>, Infeasible> {
        let mut needs = self.needs.clone();
        for ((phase, numbers), past) in groups.iter().zip(parts_of(past, groups)) {
            let flows = needs.flows(numbers);
            let job = phase.map(|phase| phase.job);
            let left = |plane: &Plane, level| self.left(&needs, job, plane, level, held);
            // However high the level.
            let [up, down] = left(self.plane, ANY);
            if held > 0 && flows.exceed(self.plane, [&up, &down]) {
                return Ok(None);
            }
            let least = bounded_below(self.plane, &flows)?.level;
            let beside = Beside {
                plane: self.plane,
                flows: &flows,
                past: &past,
                enough: self.enough,
                left: &left,
            };
            let Some(parts) = beside.found(least, (held > 0).then_some(LEVELS_MAX))? else {
                return Ok(None);
            };
            needs.take(&flows, &parts, numbers);
        }
        Ok(Some(needs))
    }

    /// Slots up and down of a plane that are left at a level for a phase of a job, while so many of the first classes hold theirs: what
    /// other phases of that job need is free then.
    fn left(
        &self,
        needs: &phase::Taken<'a>,
        job: Option<u32>,
        plane: &Plane,
        level: Level,
        held: usize,
    ) -> [Vec<u32>; 2] {
        let most = self.all.most();
        let own = plane.slots(level, most);
        let of_held = self.levels[..held].iter();
        let of_held = of_held.map(|levels| plane.slots_at(*levels, most));
        let of_held: Vec<Vec<u32>> = of_held.collect();
        let of_job = job.and_then(|job| needs.of_job.get(&job));
        let side = |side: usize| {
            let cells = needs.used[side].iter().zip(&self.present[side]);
            let left = cells.enumerate().map(|(cell, (used, present))| {
                let there = of_held.iter().enumerate();
                let there = there.filter(|(class, _)| present >> class & 1 == 1);
                let cap = there.map(|(_, slots)| slots[cell]).min();
                let others = used - of_job.map_or(0, |it| it[side][cell]);
                cap.map_or(own[cell], |cap| cap.min(own[cell]))
                    .saturating_sub(others)
            });
            left.collect()
        };
        [side(0), side(1)]
    }

    /// Takes what is needed with the next class, and counts what every class comes to.
    fn take(&mut self, priority: u32, needs: phase::Taken<'a>) {
        let bit = 1 << self.classes.len();
        for part in &needs.parts[self.needs.parts.len()..] {
            let flow = self.all.all[part.flow as usize];
            self.plane.each_cell(flow, part.spine, |side, cell| {
                self.present[side][cell] |= bit;
            });
        }
        self.needs = needs;
        // Jobs of the next class are others.
        self.needs.of_job.clear();
        self.classes.push(Class {
            priority,
            level: self.enough,
            before: self.enough,
        });
        self.levels.push([self.enough; 2]);
        for class in 0..self.classes.len() {
            let levels = self.levels(class);
            self.levels[class] = levels;
            self.classes[class].level = levels[0].max(levels[1]);
        }
        let class = self.classes.last_mut().expect("one was pushed");
        class.before = class.level;
    }

    /// The levels of the links that a class is on, those below spines and those above them, or what is enough.
    fn levels(&self, class: usize) -> [Level; 2] {
        let below = self.plane.leaves().len() * self.plane.spines().len();
        let mut levels = [self.enough; 2];
        let sides = self.needs.used.iter().zip(&self.present);
        let cells = sides.flat_map(|(used, present)| used.iter().zip(present).enumerate());
        for (cell, (used, _)) in cells.filter(|(_, (_, present))| **present >> class & 1 == 1) {
            let level = repair::level_of(self.plane.links_at(cell), u64::from(*used));
            let highest = &mut levels[usize::from(cell >= below)];
            *highest = level.map_or(*highest, |level| level.max(*highest));
        }
        levels
    }

    fn ranked(mut self, bound: Bound) -> Ranked {
        self.needs.parts.sort_unstable();
        let level = self.classes.iter().map(|class| class.level).max();
        Ranked {
            placement: Placement {
                parts: self.needs.parts,
                level: level.unwrap_or(bound.level),
                bound,
            },
            classes: self.classes,
        }
    }
}

/// Priorities that are told apart; those below share the last one.
const CLASSES_MAX: usize = 16;
/// Times that a placement is tried to be lowered.
const TURNS_MAX: usize = 8;
/// A level at which a link holds anything.
pub(super) const ANY: Level = Level {
    subflows: u64::MAX,
    capacity: 1,
};
/// Levels that are tried before those above give way.
const LEVELS_MAX: u32 = 24;

#[cfg(test)]
mod tests;
