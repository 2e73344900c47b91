//! A placement that goes on after a change: what still fits stays, and what does not finds slots that are free.

use super::plane::{Level, Plane};
use super::{Flow, Flows, Part};

/// The lowest level at which every part stays whose links are alive.
pub(super) fn level(plane: &Plane, flows: &Flows, past: &[Part]) -> Level {
    let spines = plane.spines().len();
    let mut carried = [0, 1].map(|_| vec![0_u64; plane.rows() * spines]);
    for part in past {
        let Some(flow) = flows.all.get(part.flow as usize) else {
            continue;
        };
        if part.spine as usize >= spines || !plane.leads(*flow, part.spine) {
            continue;
        }
        plane.each_cell(*flow, part.spine, |side, cell| {
            carried[side][cell] += u64::from(part.subflows);
        });
    }
    let [up, down] = carried;
    let cells = up.into_iter().zip(down).enumerate();
    let levels = cells.filter_map(|(cell, (up, down))| {
        let level = level_of(plane.links_at(cell), up.max(down))?;
        plane.is_decided(cell, level).then_some(level)
    });
    levels.max().unwrap_or(Level {
        subflows: 0,
        capacity: 1,
    })
}

/// Whether every part goes where links are, to its leaf and to its pod.
pub(super) fn leads(plane: &Plane, flows: &Flows, parts: &[Part]) -> bool {
    let leads = |part: &Part| plane.leads(flows.all[part.flow as usize], part.spine);
    parts.iter().all(leads)
}

/// Whether parts are within slots up and down.
pub(super) fn fits(plane: &Plane, flows: &Flows, slots: [Vec<u32>; 2], parts: &[Part]) -> bool {
    let (mut free, mut fits) = (slots, true);
    for part in parts {
        plane.each_cell(flows.all[part.flow as usize], part.spine, |side, cell| {
            let left = &mut free[side][cell];
            fits &= *left >= part.subflows;
            *left = left.saturating_sub(part.subflows);
        });
    }
    fits
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

/// The parts at the lower of two levels at which every part stays whose links are alive and slots are free for the others, and that
/// level; at the upper one others move too if they have to. None: some find no free slot there, or `past` is not of these flows.
///
/// No link may hold more at a level between the two than at the lower one: so what is on links is at one of them or above both, and
/// nobody has to know its level.
pub(super) fn kept(
    plane: &Plane,
    flows: &Flows,
    [least, most]: [Level; 2],
    past: &[Part],
) -> Option<(Vec<Part>, Level)> {
    let slots = |level| plane.slots(level, flows.most());
    let above = slots(most);
    let mut free = Free {
        spines: plane.spines().len(),
        slots: [above.clone(), above.clone()],
    };
    let Some(waiting) = free.take_living(plane, flows, past) else {
        return Some((repaired(plane, flows, most, past)?, most));
    };
    let lower = (least < most).then(|| free.lowered(&above, &slots(least)));
    let tried = [
        lower.flatten().map(|free| (free, least)),
        Some((free, most)),
    ];
    let (found, level) = tried.into_iter().flatten().find_map(|(mut free, level)| {
        let found = free.find_all(plane, flows, &waiting)?;
        Some((found, level))
    })?;
    let stays = |part: &Part| {
        let flow = flows.all.get(part.flow as usize);
        part.subflows > 0 && flow.is_some_and(|flow| plane.leads(*flow, part.spine))
    };
    Some((merged(past, &waiting, &found, stays), level))
}

/// The parts at this level, of which only those move that have to; None: some find no free slot, or `past` is not of these flows.
pub(super) fn repaired(
    plane: &Plane,
    flows: &Flows,
    level: Level,
    past: &[Part],
) -> Option<Vec<Part>> {
    stays(plane, flows, level, past)?.filled(plane, flows)
}

impl Stays {
    /// These parts, and slots for what has none; None: there are too few.
    pub(super) fn filled(&self, plane: &Plane, flows: &Flows) -> Option<Vec<Part>> {
        let found = self.free.clone().find_all(plane, flows, &self.waiting)?;
        Some(merged(&self.parts, &self.waiting, &found, |_| true))
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
    stays_in(plane, [slots.clone(), slots], flows, past)
}

/// As [`stays`], in slots up and down.
pub(super) fn stays_in(
    plane: &Plane,
    slots: [Vec<u32>; 2],
    flows: &Flows,
    past: &[Part],
) -> Option<Stays> {
    let mut free = Free {
        spines: plane.spines().len(),
        slots,
    };
    let is_whole = |part: &Part| {
        let flow = flows.all.get(part.flow as usize);
        flow.is_some_and(|flow| flow.subflows == part.subflows)
    };
    let whole = past
        .iter()
        .map(|part| is_whole(part) && free.take(plane, flows.all[part.flow as usize], *part));
    let whole: Vec<bool> = whole.collect();
    let mut parts = Vec::with_capacity(past.len());
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
                false => (0..part.subflows)
                    .filter(|_| free.take(plane, *known, one))
                    .count() as u32,
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

/// Parts by flow, of which those of some flows are others: what stays of them, and what was found. Parts of one flow on one spine are
/// one there.
fn merged(
    parts: &[Part],
    waiting: &[(u32, u32)],
    found: &[Part],
    stays: impl Fn(&Part) -> bool,
) -> Vec<Part> {
    let mut all = Vec::with_capacity(parts.len() + found.len());
    let (mut rest, mut found) = (parts, found);
    let mut of_flow = Vec::new();
    for (flow, _) in waiting {
        let (before, after) = rest.split_at(rest.partition_point(|part| part.flow < *flow));
        let (known, after) = after.split_at(after.partition_point(|part| part.flow == *flow));
        let (added, later) = found.split_at(found.partition_point(|part| part.flow == *flow));
        (rest, found) = (after, later);
        all.extend_from_slice(before);
        of_flow.extend(known.iter().filter(|part| stays(part)));
        of_flow.extend_from_slice(added);
        of_flow.sort_unstable();
        let alike = of_flow.chunk_by(|a, b| a.spine == b.spine);
        all.extend(alike.map(|alike| Part {
            subflows: alike.iter().map(|part| part.subflows).sum(),
            ..alike[0]
        }));
        of_flow.clear();
    }
    all.extend_from_slice(rest);
    all
}

/// Free slots up and down, by leaf, then by spine, and after them those of pods.
#[derive(Clone)]
pub(super) struct Free {
    spines: usize,
    slots: [Vec<u32>; 2],
}

impl Free {
    /// Takes the slots of every part whose links are alive. Gives the flows that lack some, by their places, and how many sub-flows
    /// wait: none, if a part was empty. None: one finds no slots, or `past` is not of these flows.
    fn take_living(
        &mut self,
        plane: &Plane,
        flows: &Flows,
        past: &[Part],
    ) -> Option<Vec<(u32, u32)>> {
        let mut waiting = Vec::new();
        let mut rest = past;
        for (place, flow) in (0..).zip(&flows.all) {
            let (mut left, mut all_stay) = (flow.subflows, true);
            while let Some((part, others)) = rest.split_first()
                && part.flow == place
            {
                rest = others;
                if part.spine as usize >= self.spines || part.subflows > left {
                    return None;
                }
                if part.subflows > 0 && self.take(plane, *flow, *part) {
                    left -= part.subflows;
                } else if part.subflows > 0 && plane.leads(*flow, part.spine) {
                    return None;
                } else {
                    all_stay = false;
                }
            }
            if left > 0 || !all_stay {
                waiting.push((place, left));
            }
        }
        rest.is_empty().then_some(waiting)
    }

    /// The slots that are free at another level, of which these are all there are at the two levels; None: more are taken.
    fn lowered(&self, above: &[u32], below: &[u32]) -> Option<Self> {
        let (mut slots, mut fits) = (self.slots.clone(), true);
        for slots in &mut slots {
            for ((free, above), below) in slots.iter_mut().zip(above).zip(below) {
                let fewer = above.saturating_sub(*below);
                fits &= *free >= fewer;
                *free = free.saturating_sub(fewer);
            }
        }
        fits.then_some(Self { slots, ..*self })
    }

    fn take(&mut self, plane: &Plane, flow: Flow, part: Part) -> bool {
        let leaves = [flow.from, flow.to];
        match plane.pods_of(flow) {
            // Nothing is taken of leaves that pods have no room for.
            Some(pods) => {
                self.fits(pods, part) && self.take_in(leaves, part) && self.take_in(pods, part)
            }
            None => self.take_in(leaves, part),
        }
    }

    fn fits(&self, rows: [u32; 2], part: Part) -> bool {
        let cells = rows.map(|row| row as usize * self.spines + part.spine as usize);
        let mut sides = self.slots.iter().zip(cells);
        sides.all(|(slots, cell)| slots.get(cell).is_some_and(|it| *it >= part.subflows))
    }

    /// Takes slots of the part's spine in a row of each side, or none.
    fn take_in(&mut self, [from, to]: [u32; 2], part: Part) -> bool {
        let [up, down] = &mut self.slots;
        let cell = |row: u32| row as usize * self.spines + part.spine as usize;
        let (up, down) = (up.get_mut(cell(from)), down.get_mut(cell(to)));
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

    /// Slots for all that waits, in order; None: there are too few.
    fn find_all(
        &mut self,
        plane: &Plane,
        flows: &Flows,
        waiting: &[(u32, u32)],
    ) -> Option<Vec<Part>> {
        let mut found = Vec::new();
        for (flow, left) in waiting {
            let known = flows.all[*flow as usize];
            self.find(plane, known, (*flow, *left), &mut found)?;
        }
        found.sort_unstable();
        Some(found)
    }

    /// Finds slots for so many sub-flows of a flow, where most are free: on one spine, or else on as many as it takes.
    fn find(
        &mut self,
        plane: &Plane,
        known: Flow,
        (flow, mut left): (u32, u32),
        parts: &mut Vec<Part>,
    ) -> Option<()> {
        while left > 0 {
            let (spine, free) = self.widest(plane, known, flow as usize)?;
            let part = Part {
                flow,
                spine,
                subflows: left.min(free),
            };
            if !self.take(plane, known, part) {
                return None;
            }
            parts.push(part);
            left -= part.subflows;
        }
        Some(())
    }

    /// The spine with most slots that are free at both leaves, and at both pods, and how many; of equal ones the first from a place on.
    fn widest(&self, plane: &Plane, flow: Flow, place: usize) -> Option<(u32, u32)> {
        let row = |side: usize, row: u32| {
            self.slots[side]
                .get(row as usize * self.spines..)?
                .get(..self.spines)
        };
        let (up, down) = (row(0, flow.from)?, row(1, flow.to)?);
        let pods = match plane.pods_of(flow) {
            Some([from, to]) => Some((row(0, from)?, row(1, to)?)),
            None => None,
        };
        let begin = place % self.spines.max(1);
        let around = (begin..self.spines).chain(0..begin);
        let free = around.map(|spine| {
            let own = up[spine].min(down[spine]);
            let free = pods.map_or(own, |(up, down)| own.min(up[spine]).min(down[spine]));
            (spine as u32, free)
        });
        let widest = free.reduce(|widest, next| match next.1 > widest.1 {
            true => next,
            false => widest,
        });
        widest.filter(|(_, free)| *free > 0)
    }
}
