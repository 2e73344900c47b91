//! Flows of several priorities: what a higher one has is not made slower by a lower one, as long as there is room elsewhere.
//!
//! A class is placed into what those before it leave: a link that carries a flow of theirs is filled to their level and no further.
//! Links are divided fairly, so nobody on it is slower than that level. It refuses to know jobs, and why one comes before another.

use super::beside::{Beside, parts_among};
use super::plane::{Level, Plane};
use super::repair;
use super::{Bound, Flow, Flows, Infeasible, Part, Placement, bounded, place_within};

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
/// those of [`place_within`]: what has a link stays unless a class comes down by more than a level. With one priority the placement
/// is that of [`place_within`]. Priorities after the 16th are as one.
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
    let bound = bounded(plane, flows)?;
    if priorities.len() != flows.all.len() {
        let flow = priorities.len().min(flows.all.len());
        return Err(Infeasible::NoFlow { flow });
    }
    let mut ranks = priorities.to_vec();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    ranks.dedup();
    if let [priority] = ranks[..] {
        return place_within(plane, flows, past, enough)
            .map(|placement| Ranked::of_one(priority, placement));
    }
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
    let classes: Vec<(u32, Vec<usize>)> = ranks.iter().copied().zip((0..).map(of_class)).collect();
    let placed = |past: &[Part], anew: bool| {
        let mut taken = Taken::new(plane, flows, enough);
        for (priority, numbers) in &classes {
            match anew {
                true => taken.place(*priority, numbers, past)?,
                false => taken.keep(*priority, numbers, past),
            }
        }
        Ok(taken.ranked(bound))
    };
    let mut best = placed(past, !is_whole(plane, flows, past))?;
    // What is there stays unless a class gets lower by more than a level.
    for _ in 0..TURNS_MAX {
        let next = placed(&best.placement.parts, true)?;
        if !next.is_lower(&best, plane) {
            break;
        }
        best = next;
    }
    Ok(best)
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
    enough: Level,
    /// Sub-flows up and down, by leaf, then by spine.
    used: [Vec<u32>; 2],
    /// A bit for each class that is there, the lowest for the first.
    present: [Vec<u16>; 2],
    classes: Vec<Class>,
    parts: Vec<Part>,
}

impl<'a> Taken<'a> {
    /// Nothing is taken.
    fn new(plane: &'a Plane, all: &'a Flows, enough: Level) -> Self {
        let cells = plane.leaves().len() * plane.spines().len();
        Self {
            plane,
            all,
            enough,
            used: [vec![0; cells], vec![0; cells]],
            present: [vec![0; cells], vec![0; cells]],
            classes: Vec::new(),
            parts: Vec::with_capacity(all.all.len()),
        }
    }

    /// Leaves the flows of the next class where they are.
    fn keep(&mut self, priority: u32, numbers: &[usize], past: &[Part]) {
        let flows = self.flows(numbers);
        self.take(priority, &flows, &parts_among(past, numbers), numbers);
    }

    fn flows(&self, numbers: &[usize]) -> Flows {
        Flows::new(numbers.iter().map(|number| self.all.all[*number]).collect())
    }

    /// Places the flows of the next class, which have these numbers.
    fn place(&mut self, priority: u32, numbers: &[usize], past: &[Part]) -> Result<(), Infeasible> {
        let flows = self.flows(numbers);
        let past = parts_among(past, numbers);
        let classes = self.classes.len();
        if classes == 0 {
            let placement = place_within(self.plane, &flows, &past, self.enough)?;
            self.take(priority, &flows, &placement.parts, numbers);
            return Ok(());
        }
        let least = bounded(self.plane, &flows)?.level;
        for held in (0..=classes).rev() {
            // However high the level: those that hold theirs leave too little.
            if held > 0 && self.lacks(&flows, held) {
                continue;
            }
            let left = |level| self.left(level, held);
            let beside = Beside {
                plane: self.plane,
                flows: &flows,
                past: &past,
                enough: self.enough,
                left: &left,
            };
            if let Some(parts) = beside.found(least, (held > 0).then_some(LEVELS_MAX))? {
                self.take(priority, &flows, &parts, numbers);
                break;
            }
        }
        Ok(())
    }

    /// Slots up and down that are left at a level while so many of the first classes hold theirs.
    fn left(&self, level: Level, held: usize) -> [Vec<u32>; 2] {
        let most = self.all.most();
        let slots = |level| self.plane.slots(level, most);
        let own = slots(level);
        let of_held = self.classes[..held].iter().map(|it| slots(it.level));
        let of_held: Vec<Vec<u32>> = of_held.collect();
        let side = |side: usize| {
            let cells = self.used[side].iter().zip(&self.present[side]);
            let left = cells.enumerate().map(|(cell, (used, present))| {
                let there = of_held.iter().enumerate();
                let there = there.filter(|(class, _)| present >> class & 1 == 1);
                let cap = there.map(|(_, slots)| slots[cell]).min();
                cap.map_or(own[cell], |cap| cap.min(own[cell]))
                    .saturating_sub(*used)
            });
            left.collect()
        };
        [side(0), side(1)]
    }

    /// Whether what is left is too little at any level.
    fn lacks(&self, flows: &Flows, held: usize) -> bool {
        let [up, down] = self.left(ANY, held);
        flows.demands.unmet(self.plane, [&up, &down]).is_some()
    }

    /// Takes the slots of the next class, and counts what every class comes to.
    fn take(&mut self, priority: u32, flows: &Flows, parts: &[Part], numbers: &[usize]) {
        let bit = 1 << self.classes.len();
        let spines = self.plane.spines().len();
        for part in parts {
            let Flow { from, to, .. } = flows.all[part.flow as usize];
            for (side, leaf) in [from, to].into_iter().enumerate() {
                let cell = leaf as usize * spines + part.spine as usize;
                self.used[side][cell] += part.subflows;
                self.present[side][cell] |= bit;
            }
        }
        self.parts.extend(parts.iter().map(|part| Part {
            flow: numbers[part.flow as usize] as u32,
            ..*part
        }));
        self.classes.push(Class {
            priority,
            level: self.enough,
            before: self.enough,
        });
        for class in 0..self.classes.len() {
            let level = self.level(class).max(self.enough);
            self.classes[class].level = level;
        }
        let class = self.classes.last_mut().expect("one was pushed");
        class.before = class.level;
    }

    /// The level of the links that a class is on.
    fn level(&self, class: usize) -> Level {
        let spines = self.plane.spines().len();
        let sides = self.used.iter().zip(&self.present);
        let cells = sides.flat_map(|(used, present)| used.iter().zip(present).enumerate());
        let there = cells.filter(|(_, (_, present))| *present >> class & 1 == 1);
        let levels = there.filter_map(|(cell, (used, _))| {
            let links = self.plane.links(cell / spines, cell % spines);
            repair::level_of(links, u64::from(*used))
        });
        levels.max().unwrap_or(self.enough)
    }

    fn ranked(mut self, bound: Bound) -> Ranked {
        self.parts.sort_unstable();
        let level = self.classes.iter().map(|class| class.level).max();
        Ranked {
            placement: Placement {
                parts: self.parts,
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
const ANY: Level = Level {
    subflows: u64::MAX,
    capacity: 1,
};
/// Levels that are tried before those above give way.
const LEVELS_MAX: u32 = 24;

#[cfg(test)]
mod tests;
