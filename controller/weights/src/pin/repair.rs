//! A placement that goes on after a change: what still fits stays, and what does not finds slots that are free.

use super::plane::{Level, Plane};
use super::{Flow, Flows, Part};

/// The lowest level at which every part stays whose links are alive.
pub(super) fn level(plane: &Plane, flows: &Flows, past: &[Part]) -> Level {
    let spines = plane.spines().len();
    let mut carried = [0, 1].map(|_| vec![0_u64; plane.leaves().len() * spines]);
    for part in past {
        let Some(flow) = flows.all.get(part.flow as usize) else {
            continue;
        };
        let cells = [flow.from, flow.to].map(|leaf| (leaf as usize, part.spine as usize));
        if part.spine as usize >= spines
            || cells.iter().any(|it| plane.links(it.0, it.1).is_empty())
        {
            continue;
        }
        for (carried, (leaf, spine)) in carried.iter_mut().zip(cells) {
            carried[leaf * spines + spine] += u64::from(part.subflows);
        }
    }
    let [up, down] = carried;
    let cells = up.into_iter().zip(down).enumerate();
    let levels = cells.filter_map(|(cell, (up, down))| {
        level_of(plane.links(cell / spines, cell % spines), up.max(down))
    });
    levels.max().unwrap_or(Level {
        subflows: 0,
        capacity: 1,
    })
}

/// The lowest level at which links hold so many sub-flows together; None: there is none.
pub(super) fn level_of(links: &[u64], carried: u64) -> Option<Level> {
    let total = links.iter().map(|it| u128::from(*it)).sum::<u128>();
    let mut level = Level {
        subflows: carried,
        capacity: u64::try_from(total).unwrap_or(u64::MAX),
    };
    links.first()?;
    // Rounding costs a sub-flow of each link at most.
    while links.iter().map(|it| level.holds(*it)).sum::<u64>() < carried {
        let next = links.iter().map(|capacity| Level {
            subflows: level.holds(*capacity).saturating_add(1),
            capacity: *capacity,
        });
        level = next.min()?;
    }
    Some(level)
}

/// The parts at this level, of which only those move that have to; None: some find no free slot, or `past` is not of these flows.
pub(super) fn repaired(
    plane: &Plane,
    flows: &Flows,
    level: Level,
    past: &[Part],
) -> Option<Vec<Part>> {
    stays(plane, flows, level, past)?.filled(flows)
}

impl Stays {
    /// These parts, and slots for what has none; None: there are too few.
    pub(super) fn filled(self, flows: &Flows) -> Option<Vec<Part>> {
        let Self {
            parts,
            waiting,
            mut free,
            ..
        } = self;
        let mut found = Vec::new();
        for (flow, left) in waiting {
            free.find(flows, flow, left, &mut found)?;
        }
        found.sort_unstable();
        Some(merged(parts, &found))
    }
}

/// What stays of a placement at a level.
pub(super) struct Stays {
    /// By flow, then by spine.
    pub(super) parts: Vec<Part>,
    /// Sub-flows that have no slot.
    pub(super) displaced: u64,
    /// Flows that they are of, and how many each has.
    waiting: Vec<(u32, u32)>,
    free: Free,
}

/// The parts that fit at a level, those of whole flows before others; None: `past` is not of these flows.
pub(super) fn stays(plane: &Plane, flows: &Flows, level: Level, past: &[Part]) -> Option<Stays> {
    let slots = plane.slots(level, flows.most());
    stays_in(plane.spines().len(), [slots.clone(), slots], flows, past)
}

/// As [`stays`], in slots up and down.
pub(super) fn stays_in(
    spines: usize,
    slots: [Vec<u32>; 2],
    flows: &Flows,
    past: &[Part],
) -> Option<Stays> {
    let mut free = Free { spines, slots };
    let is_whole = |part: &Part| {
        let flow = flows.all.get(part.flow as usize);
        flow.is_some_and(|flow| flow.subflows == part.subflows)
    };
    let whole = past
        .iter()
        .map(|part| is_whole(part) && free.take(flows, *part));
    let whole: Vec<bool> = whole.collect();
    let mut parts = Vec::with_capacity(past.len() + MOVED);
    let mut waiting = Vec::new();
    let mut displaced = 0;
    let mut rest = past.iter().zip(whole).peekable();
    for (flow, known) in (0..).zip(&flows.all) {
        let mut left = known.subflows;
        while let Some((part, stays)) = rest.next_if(|(part, _)| part.flow == flow) {
            if part.spine as usize >= free.spines || part.subflows > left {
                return None;
            }
            let one = Part {
                subflows: 1,
                ..*part
            };
            // A part of a divided flow can stay by half.
            let subflows = match stays {
                true => part.subflows,
                false if is_whole(part) => 0,
                false => (0..part.subflows).filter(|_| free.take(flows, one)).count() as u32,
            };
            if subflows > 0 {
                parts.push(Part { subflows, ..*part });
            }
            left -= subflows;
        }
        if left > 0 {
            waiting.push((flow, left));
            displaced += u64::from(left);
        }
    }
    rest.peek().is_none().then_some(Stays {
        parts,
        displaced,
        waiting,
        free,
    })
}

/// Parts of two lists in one, in order; those of one flow on one spine are one.
fn merged(parts: Vec<Part>, found: &[Part]) -> Vec<Part> {
    let Some(first) = found.first() else {
        return parts;
    };
    let place = |part: &Part| (part.flow, part.spine);
    let begin = parts.partition_point(|part| place(part) < place(first));
    let mut all = parts;
    let rest = all.split_off(begin);
    let (mut rest, mut found) = (
        rest.into_iter().peekable(),
        found.iter().copied().peekable(),
    );
    loop {
        let next = match (rest.peek(), found.peek()) {
            (Some(a), Some(b)) if place(a) <= place(b) => rest.next(),
            (_, Some(_)) => found.next(),
            (_, None) => rest.next(),
        };
        let Some(next) = next else { return all };
        match all.last_mut() {
            Some(last) if place(last) == place(&next) => last.subflows += next.subflows,
            Some(_) | None => all.push(next),
        }
    }
}

/// Free slots up and down, by leaf, then by spine.
pub(super) struct Free {
    spines: usize,
    slots: [Vec<u32>; 2],
}

impl Free {
    fn take(&mut self, flows: &Flows, part: Part) -> bool {
        let flow = flows.all[part.flow as usize];
        let [up, down] = &mut self.slots;
        let cell = |leaf: u32| leaf as usize * self.spines + part.spine as usize;
        let (up, down) = (up.get_mut(cell(flow.from)), down.get_mut(cell(flow.to)));
        let Some((up, down)) = up.zip(down) else {
            return false;
        };
        let fits = *up >= part.subflows && *down >= part.subflows;
        if fits {
            *up -= part.subflows;
            *down -= part.subflows;
        }
        fits
    }

    /// Finds slots for so many sub-flows of a flow, where most are free: on one spine, or else on as many as it takes.
    fn find(&mut self, flows: &Flows, flow: u32, left: u32, parts: &mut Vec<Part>) -> Option<()> {
        let Flow { from, to, .. } = flows.all[flow as usize];
        let mut left = left;
        while left > 0 {
            let (spine, free) = self.widest(from, to, flow as usize)?;
            let part = Part {
                flow,
                spine,
                subflows: left.min(free),
            };
            if !self.take(flows, part) {
                return None;
            }
            parts.push(part);
            left -= part.subflows;
        }
        Some(())
    }

    /// The spine with most slots that are free at both leaves, and how many; of equal ones the first from a place on.
    fn widest(&self, from: u32, to: u32, place: usize) -> Option<(u32, u32)> {
        let row = |side: usize, leaf: u32| {
            self.slots[side]
                .get(leaf as usize * self.spines..)?
                .get(..self.spines)
        };
        let (up, down) = (row(0, from)?, row(1, to)?);
        let begin = place % self.spines.max(1);
        let around = (begin..self.spines).chain(0..begin);
        let free = around.map(|spine| (spine as u32, up[spine].min(down[spine])));
        let widest = free.reduce(|widest, next| match next.1 > widest.1 {
            true => next,
            false => widest,
        });
        widest.filter(|(_, free)| *free > 0)
    }
}

/// Parts that a change adds, mostly.
const MOVED: usize = 64;
