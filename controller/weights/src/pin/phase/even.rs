//! Phases of several jobs, each spread over as many links as there are, and over the same ones: whichever phases meet, no link has
//! much more than its share. Flows stay in pieces, as many as they can be divided into.
//!
//! It refuses to know whether that is better than what else is found.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::colouring::Colouring;
use super::super::room::SIZES_MAX;
use super::super::{Flow, SLOTS_MAX};
use super::{Group, Level, Part, Phase, Plane, Posed, Taken, parts_of};

/// Places all flows. At each leaf, and above each spine, a phase first takes the links that its job has in other phases, then
/// others up to its share of each, then any. None: a flow has no way, or there is no link.
pub(super) fn spread(posed: &Posed<'_>, least: Level) -> Option<Vec<Part>> {
    let mut even = Even::new(posed, least);
    for (phase, numbers) in by_job(posed) {
        let open = numbers.iter().map(|it| posed.flows.all[*it].subflows);
        let open = open.collect();
        even.place(phase, &numbers, &[], open, None)?;
    }
    Some(merged(even.placed))
}

/// Keeps parts, which all lead to their leaves, and places what they lack into what they leave, at the level that they have or up to
/// an eighth above it. None: there is no room.
pub(super) fn kept(posed: &Posed<'_>, parts: &[Part], least: Level) -> Option<Vec<Part>> {
    let mut even = Even::new(posed, least);
    let groups = by_job(posed);
    let all_kept = parts_of(parts, &groups);
    for ((_, numbers), kept) in groups.iter().zip(&all_kept) {
        let flows = even.taken.flows(numbers);
        even.taken.take(&flows, kept, numbers);
    }
    even.level = even.taken.level().max(least);
    let above = posed.plane.above(posed.plane.above(even.level)?)?;
    let most = Level {
        subflows: even.level.subflows.saturating_add(even.level.subflows / 8),
        ..even.level
    };
    let most = most.max(above);
    for ((phase, numbers), kept) in groups.into_iter().zip(all_kept) {
        let mut open: Vec<u32> = numbers
            .iter()
            .map(|it| posed.flows.all[*it].subflows)
            .collect();
        for part in &kept {
            let open = &mut open[part.flow as usize];
            *open = open.saturating_sub(part.subflows);
        }
        if open.iter().any(|open| *open > 0) {
            even.place(phase, &numbers, &kept, open, Some(most))?;
        }
    }
    even.placed.extend_from_slice(parts);
    Some(merged(even.placed))
}

/// What is always there, and then each phase: the largest of each job before the others.
fn by_job(posed: &Posed<'_>) -> Vec<Group> {
    let Some(((_, first), others)) = posed.groups.split_first() else {
        return Vec::new();
    };
    let phase = |flow: &usize| posed.phases[*flow];
    let mut sorted = first.clone();
    sorted.sort_by_key(|flow| (phase(flow), *flow));
    let first = sorted.chunk_by(|a, b| phase(a) == phase(b));
    let first = first.map(|numbers| (phase(&numbers[0]), numbers.to_vec()));
    first.chain(others.iter().cloned()).collect()
}

struct Even<'a> {
    posed: &'a Posed<'a>,
    taken: Taken<'a>,
    /// No link has to be above it so far.
    level: Level,
    placed: Vec<Part>,
}

impl<'a> Even<'a> {
    fn new(posed: &'a Posed<'a>, least: Level) -> Self {
        Self {
            posed,
            taken: Taken::new(posed.plane, posed.flows, posed.phases),
            level: least,
            placed: Vec::new(),
        }
    }

    /// Places `open` sub-flows of each flow of a phase, beside parts that it has; at the level of before, or the lowest above it that
    /// will do, up to `most`.
    fn place(
        &mut self,
        phase: Option<Phase>,
        numbers: &[usize],
        has: &[Part],
        open: Vec<u32>,
        most: Option<Level>,
    ) -> Option<()> {
        let plane = self.posed.plane;
        let flows = self.taken.flows(numbers);
        let pieces = |number: &usize| self.posed.flows.piece(*number);
        let pieces: Vec<u32> = numbers.iter().map(pieces).collect();
        let mut own = Own::new(plane, flows.all(), has, (&open, &pieces));
        let job = phase.map(|phase| phase.job);
        let before = job.and_then(|job| self.taken.of_job.get(&job)).cloned();
        let always = own.used.clone();
        if let Some(before) = &before {
            own.fill(before)?;
        }
        let largest = pieces.iter().copied().max().unwrap_or(1);
        let shares = own.shares(before.as_ref(), largest);
        for raised in 0..=RAISED_MAX {
            let mut slots = self.taken.left(plane, self.level, job);
            if job.is_none() {
                // What is always there has taken its slots, and has them.
                let cells = slots.iter_mut().flatten().zip(always.iter().flatten());
                cells.for_each(|(slots, has)| *slots = slots.saturating_add(*has));
            }
            let within = [0, 1].map(|side| {
                let slots = slots[side].iter().zip(&shares[side]);
                slots.map(|(slots, share)| *slots.min(share)).collect()
            });
            own.fill(&within)?;
            own.fill(&slots)?;
            let Some((Reverse(size), _)) = own.open.first_key_value() else {
                break;
            };
            let next = match most {
                Some(_) => plane.above(self.level)?,
                None => plane.raised(self.level, (*size / 16).max(1).into())?,
            };
            if raised == RAISED_MAX || most.is_some_and(|most| next > most) {
                return None;
            }
            self.level = next;
        }
        let mut parts = own.placed;
        self.placed.extend(parts.iter().map(|part| Part {
            flow: numbers[part.flow as usize] as u32,
            ..*part
        }));
        if phase.is_some() {
            // What a phase needs of a link is what all of its parts need.
            parts.extend_from_slice(has);
        }
        self.taken.take(&flows, &merged(parts), numbers);
        Some(())
    }
}

/// Sums of the parts of each flow over each spine.
fn merged(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable();
    let alike = parts.chunk_by(|a, b| (a.flow, a.spine) == (b.flow, b.spine));
    let merged = alike.map(|alike| Part {
        subflows: alike.iter().map(|part| part.subflows).sum(),
        ..alike[0]
    });
    merged.collect()
}

/// A phase that is being placed.
struct Own<'a> {
    plane: &'a Plane,
    flows: &'a [Flow],
    /// Sub-flows up and down, by row, then by spine.
    used: [Vec<u32>; 2],
    /// What has no spine yet: by the sub-flows of a piece, the flow of each piece.
    open: BTreeMap<Reverse<u32>, Vec<u32>>,
    /// Pieces of flows, by their places.
    placed: Vec<Part>,
}

impl<'a> Own<'a> {
    /// With parts that are there, and of each flow what is open, and how many sub-flows of it stay together.
    fn new(
        plane: &'a Plane,
        flows: &'a [Flow],
        has: &[Part],
        (open, pieces): (&[u32], &[u32]),
    ) -> Self {
        let mut used = [0, 1].map(|_| vec![0; plane.rows() * plane.spines().len()]);
        for part in has {
            plane.each_cell(flows[part.flow as usize], part.spine, |side, cell| {
                used[side][cell] += part.subflows;
            });
        }
        let mut all: BTreeMap<Reverse<u32>, Vec<u32>> = BTreeMap::new();
        for (number, (open, piece)) in (0..).zip(open.iter().zip(pieces)) {
            let piece = (*piece).max(1);
            let whole = std::iter::repeat_n(number, (open / piece) as usize);
            all.entry(Reverse(piece)).or_default().extend(whole);
            if open % piece > 0 {
                all.entry(Reverse(open % piece)).or_default().push(number);
            }
        }
        // Each size costs a look at every link: the smallest pieces are divided.
        while all.len() > SIZES_MAX {
            let mut units = all.remove(&Reverse(1)).unwrap_or_default();
            if let Some((Reverse(size), flows)) = all.pop_last() {
                let of_flow = |flow: &u32| std::iter::repeat_n(*flow, size as usize);
                units.extend(flows.iter().flat_map(of_flow));
            }
            all.insert(Reverse(1), units);
        }
        all.retain(|_, open| !open.is_empty());
        Self {
            plane,
            flows,
            used,
            open: all,
            placed: Vec::new(),
        }
    }

    /// Places pieces into slots, the largest first, as far as they find some that the phase does not use already. None: there are too
    /// many slots to look at.
    fn fill(&mut self, slots: &[Vec<u32>; 2]) -> Option<()> {
        let spines = self.plane.spines().len();
        for (Reverse(size), waiting) in std::mem::take(&mut self.open) {
            let left = [0, 1].map(|side| {
                let cells = slots[side].iter().zip(&self.used[side]);
                let left = cells.map(|(slots, used)| slots.saturating_sub(*used) / size);
                left.collect::<Vec<u32>>()
            });
            let total = |slots: &Vec<u32>| slots.iter().map(|it| u64::from(*it)).sum::<u64>();
            if left.iter().any(|left| total(left) > SLOTS_MAX) {
                return None;
            }
            let left = left.each_ref().map(Vec::as_slice);
            let mut colouring = Colouring::new(spines, left, 0, self.plane.onward());
            for flow in &waiting {
                let Flow { from, to, .. } = self.flows[*flow as usize];
                let edge = colouring.add(from, to);
                colouring.insert(edge);
            }
            let mut open = Vec::new();
            for (flow, spine) in waiting.into_iter().zip(colouring.colours()) {
                let Some(spine) = spine else {
                    open.push(flow);
                    continue;
                };
                self.placed.push(Part {
                    flow,
                    spine,
                    subflows: size,
                });
                let used = &mut self.used;
                let of_flow = self.flows[flow as usize];
                self.plane
                    .each_cell(of_flow, spine, |side, cell| used[side][cell] += size);
            }
            if !open.is_empty() {
                self.open.insert(Reverse(size), open);
            }
        }
        Some(())
    }

    /// Of each link the share that it has of its row, of what the row sends or takes, in whole pieces; and no less than it had
    /// before.
    fn shares(&self, before: Option<&[Vec<u32>; 2]>, piece: u32) -> [Vec<u32>; 2] {
        let spines = self.plane.spines().len().max(1);
        let mut totals = [0, 1].map(|_| vec![0_u128; self.plane.rows()]);
        for flow in self.flows {
            self.plane.each_row(*flow, |side, row| {
                totals[side][row] += u128::from(flow.subflows);
            });
        }
        let capacity = |cell: usize| {
            let links = self.plane.links_at(cell).iter();
            links.map(|link| u128::from(*link)).sum::<u128>()
        };
        let cells = 0..self.plane.rows() * spines;
        let capacities: Vec<u128> = cells.map(capacity).collect();
        let rows = capacities.chunks(spines);
        let rows: Vec<u128> = rows.map(|row| row.iter().sum()).collect();
        [0, 1].map(|side| {
            let share = |(cell, capacity): (usize, &u128)| {
                let row = cell / spines;
                let share = (totals[side][row] * capacity).div_ceil(rows[row].max(1));
                let share = share.next_multiple_of(piece.into());
                let before = before.map_or(0, |before| before[side][cell]);
                u32::try_from(share).unwrap_or(u32::MAX).max(before)
            };
            capacities.iter().enumerate().map(share).collect()
        })
    }
}

/// Times that a level is raised for one phase.
const RAISED_MAX: u32 = 64;
