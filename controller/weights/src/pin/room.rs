//! Flows into slots: those of one level, or those that others leave of them. It refuses to know which level is tried next.

use std::cmp::Reverse;

use super::colouring::Colouring;
use super::plane::{Level, Plane};
use super::{Flow, Flows, Infeasible, Part, SLOTS_MAX, repair};

/// Which flows are placed whole as far as they fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// All: where no link is full, that slows nothing down.
    Whole,
    /// The largest: the sub-flows of smaller ones fill what those leave.
    Small,
}

/// A placement at a level, if one is found. `caps` are slots up and down, by leaf, then by spine, and after them by pod, where there are
/// fewer than links hold.
pub(super) fn at_level(
    plane: &Plane,
    flows: &Flows,
    level: Level,
    pieces: Pieces,
    caps: Option<&[Vec<u32>; 2]>,
    past: &[Part],
) -> Result<Option<Vec<Part>>, Infeasible> {
    let slots = plane.slots(level, flows.most());
    let total: u64 = slots.iter().map(|slots| u64::from(*slots)).sum();
    let capped = |caps: &Vec<u32>| {
        let slots = slots.iter().zip(caps);
        slots.map(|(slots, cap)| *slots.min(cap)).collect()
    };
    let slots = match caps {
        Some([up, down]) => [capped(up), capped(down)],
        None => [slots.clone(), slots],
    };
    if plane.onward().is_some() {
        // A placement without pods most often fits above spines too; and where there is none without pods, there is none with them.
        let found = at_level(&plane.without_pods(), flows, level, pieces, caps, past)?;
        let fits = |parts: &Vec<Part>| repair::fits(plane, flows, slots.clone(), parts);
        if found.as_ref().is_none_or(fits) {
            return Ok(found);
        }
        // Too many slots to search at this level; but if the spine of every part leads on, these parts fit at a higher level.
        if total > SLOTS_MAX && found.is_some_and(|it| repair::leads(plane, flows, &it)) {
            return Ok(None);
        }
    }
    if total > SLOTS_MAX {
        return Err(Infeasible::TooMany);
    }
    let whole = plane.whole(level, flows.size, flows.most());
    let whole = slots.each_ref().map(|slots| {
        let fit = slots.iter().zip(&whole);
        fit.map(|(slots, whole)| (slots / flows.size).min(*whole))
            .collect()
    });
    let found = TRIES.into_iter().find_map(|attempt| {
        let room = Room {
            plane,
            flows,
            slots: &slots,
            whole: &whole,
            pieces,
            attempt,
        };
        match attempt.divided {
            false => room.whole_first(past),
            true => room.divided(past),
        }
    });
    Ok(found)
}

/// What has slots where it has them, and slots for the rest along chains, up and down. None: there are too many of them to look at, or too few.
pub(super) fn chained(
    plane: &Plane,
    flows: &Flows,
    slots: &[Vec<u32>; 2],
    stays: &[Part],
) -> Option<Vec<Part>> {
    let total = |slots: &Vec<u32>| slots.iter().map(|it| u64::from(*it)).sum::<u64>();
    if slots.iter().any(|slots| total(slots) > SLOTS_MAX) {
        return None;
    }
    let attempts = TRIES.iter().filter(|it| it.divided);
    attempts.copied().find_map(|attempt| {
        let room = Room {
            plane,
            flows,
            slots,
            whole: slots,
            pieces: Pieces::Small,
            attempt,
        };
        room.near(stays)
    })
}

/// Flows of more sizes than this are divided, but for the largest: each size costs a look at every link.
pub(super) const SIZES_MAX: usize = 32;

/// A way to try a level.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Another one, another order.
    seed: u32,
    /// All flows are divided: that is the most that a level can give.
    divided: bool,
}

/// What is tried at each level, one after the other.
const TRIES: [Attempt; 6] = {
    const fn attempt(seed: u32, divided: bool) -> Attempt {
        Attempt { seed, divided }
    }
    [
        attempt(0, false),
        attempt(1, false),
        attempt(2, false),
        attempt(0, true),
        attempt(1, true),
        attempt(2, true),
    ]
};

/// Room for flows at one level.
struct Room<'a> {
    plane: &'a Plane,
    flows: &'a Flows,
    /// Sub-flows that fit, up and down.
    slots: &'a [Vec<u32>; 2],
    /// Flows of the largest size that fit.
    whole: &'a [Vec<u32>; 2],
    pieces: Pieces,
    attempt: Attempt,
}

impl Room<'_> {
    /// Flows whole as far as they fit, the largest first, and the rest in sub-flows.
    fn whole_first(&self, past: &[Part]) -> Option<Vec<Part>> {
        let mut sizes: Vec<u32> = self.flows.all.iter().map(|flow| flow.subflows).collect();
        sizes.sort_unstable_by_key(|size| Reverse(*size));
        sizes.dedup();
        let mut waiting = self.surplus(past);
        let mut parts = Vec::with_capacity(self.flows.all.len());
        let whole = match self.pieces {
            Pieces::Whole if sizes.len() <= SIZES_MAX => sizes.len(),
            Pieces::Whole | Pieces::Small => sizes.len().min(1),
        };
        for size in &sizes[..whole] {
            match *size == self.flows.size {
                true => self.of_size(*size, self.whole, past, &mut parts, &mut waiting),
                false => {
                    let rest = self
                        .rest(&parts)
                        .each_ref()
                        .map(|rest| self.fit(rest, *size));
                    self.of_size(*size, &rest, past, &mut parts, &mut waiting);
                }
            }
        }
        if whole < sizes.len() {
            let small = |flow: &u32| !self.flows.is_full(*flow);
            waiting.extend((0..self.flows.all.len() as u32).filter(small));
        }
        if !waiting.is_empty() {
            waiting.sort_unstable_by_key(|flow| self.place_of(*flow));
            let rest = self.rest(&parts);
            parts.extend(self.in_subflows(&waiting, &rest, past)?);
        }
        parts.sort_unstable();
        Some(parts)
    }

    /// How many flows of a size fit whole into slots that are left. Where several links lead to a spine nobody knows which of them
    /// have room.
    fn fit(&self, rest: &[u32], size: u32) -> Vec<u32> {
        let cells = rest.iter().enumerate();
        let fit = cells.map(|(cell, slots)| match self.plane.links_at(cell).len() {
            1 => slots / size,
            _ => 0,
        });
        fit.collect()
    }

    /// Flows of one size whole, but for those that wait; what finds no slot waits too.
    fn of_size(
        &self,
        size: u32,
        whole: &[Vec<u32>; 2],
        past: &[Part],
        parts: &mut Vec<Part>,
        waiting: &mut Vec<u32>,
    ) {
        let mut colouring = self.colouring(whole);
        let (mut owners, mut edges) = (Vec::new(), Vec::new());
        let of_size = |flow: u32| self.flows.all[flow as usize].subflows == size;
        waiting.sort_unstable();
        for flow in self.order(|flow| of_size(flow) && waiting.binary_search(&flow).is_err()) {
            let Flow { from, to, .. } = self.flows.all[flow as usize];
            let edge = colouring.add(from, to);
            owners.push(flow);
            let was = parts_of(past, flow).first();
            let stays = was.is_some_and(|part| colouring.put(edge, part.spine));
            if !stays {
                edges.push(edge);
            }
        }
        for edge in edges {
            colouring.insert_or_eject(edge);
        }
        for (flow, spine) in owners.into_iter().zip(colouring.colours()) {
            match spine {
                Some(spine) => parts.push(Part {
                    flow,
                    spine,
                    subflows: size,
                }),
                None => waiting.push(flow),
            }
        }
    }

    /// Flows that have to be divided because a leaf, or a pod, has more of them than fit whole on its links, by flow: those first that
    /// were divided before, and then those of which both ends have too many.
    fn surplus(&self, past: &[Part]) -> Vec<u32> {
        let spines = self.plane.spines().len();
        let rows = self.plane.rows();
        let mut over = self.whole.each_ref().map(|whole| {
            let fit = |row: usize| whole[row * spines..][..spines].iter();
            let fit = |row: usize| fit(row).map(|it| i64::from(*it)).sum::<i64>();
            (0..rows).map(|row| -fit(row)).collect::<Vec<_>>()
        });
        for flow in (0..self.flows.all.len() as u32).filter(|flow| self.flows.is_full(*flow)) {
            let flow = self.flows.all[flow as usize];
            self.plane.each_row(flow, |side, row| over[side][row] += 1);
        }
        let (mut surplus, mut taken) = (Vec::new(), vec![false; self.flows.all.len()]);
        let was_divided = |flow: u32| {
            let was = parts_of(past, flow).first();
            was.is_some_and(|part| part.subflows < self.flows.size)
        };
        if over.iter().flatten().all(|over| *over <= 0) && past.is_empty() {
            return surplus;
        }
        let order: Vec<u32> = self.order(|flow| self.flows.is_full(flow)).collect();
        let mut take = |wanted: &dyn Fn(u32, bool, bool) -> bool, surplus: &mut Vec<u32>| {
            for flow in &order {
                let known = self.flows.all[*flow as usize];
                let mut is_over = [false; 2];
                self.plane
                    .each_row(known, |side, row| is_over[side] |= over[side][row] > 0);
                let [sends, takes] = is_over;
                if wanted(*flow, sends, takes) && !taken[*flow as usize] {
                    taken[*flow as usize] = true;
                    self.plane.each_row(known, |side, row| over[side][row] -= 1);
                    surplus.push(*flow);
                }
            }
        };
        take(&|flow, _, _| was_divided(flow), &mut surplus);
        take(&|_, sends, takes| sends && takes, &mut surplus);
        take(&|_, sends, takes| sends || takes, &mut surplus);
        surplus.sort_unstable();
        surplus
    }

    /// Every flow in sub-flows.
    fn divided(&self, past: &[Part]) -> Option<Vec<Part>> {
        let all: Vec<u32> = self.order(|_| true).collect();
        self.in_subflows(&all, self.slots, past)
    }

    /// Every flow in sub-flows, where as few as can be found move of those that have slots.
    fn near(&self, past: &[Part]) -> Option<Vec<Part>> {
        let all: Vec<u32> = self.order(|_| true).collect();
        self.coloured(&all, self.slots, past, |colouring, edges| {
            colouring.insert_near(edges)
        })
    }

    /// Flows from one leaf to another come together, in another order for each seed.
    fn order(&self, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> {
        let count = u32::try_from(self.flows.all.len()).expect("fewer flows than 2^32");
        let mut order: Vec<u32> = (0..count).filter(|flow| wanted(*flow)).collect();
        order.sort_unstable_by_key(|flow| self.place_of(*flow));
        order.into_iter()
    }

    /// What flows are in order of.
    fn place_of(&self, flow: u32) -> (u32, u32, Reverse<u32>, u32) {
        let turned = |leaf: u32| leaf.wrapping_mul(self.attempt.seed.wrapping_mul(0x9E37_79B9) | 1);
        let Flow { from, to, subflows } = self.flows.all[flow as usize];
        (turned(from), turned(to), Reverse(subflows), flow)
    }

    fn colouring(&self, [up, down]: &[Vec<u32>; 2]) -> Colouring<'_> {
        let spines = self.plane.spines().len();
        Colouring::new(spines, [up, down], self.attempt.seed, self.plane.onward())
    }

    /// The slots that whole flows leave, up and down.
    fn rest(&self, parts: &[Part]) -> [Vec<u32>; 2] {
        let mut rest = self.slots.clone();
        for part in parts {
            let flow = self.flows.all[part.flow as usize];
            self.plane.each_cell(flow, part.spine, |side, cell| {
                rest[side][cell] -= part.subflows;
            });
        }
        rest
    }

    fn in_subflows(&self, flows: &[u32], rest: &[Vec<u32>; 2], past: &[Part]) -> Option<Vec<Part>> {
        self.coloured(flows, rest, past, |colouring, edges| {
            edges.iter().all(|edge| colouring.insert(*edge))
        })
    }

    /// Sub-flows of these flows where they were, and slots for the others, which `insert` has to find; None: it does not find them all.
    fn coloured(
        &self,
        flows: &[u32],
        rest: &[Vec<u32>; 2],
        past: &[Part],
        insert: impl FnOnce(&mut Colouring<'_>, &[u32]) -> bool,
    ) -> Option<Vec<Part>> {
        let mut colouring = self.colouring(rest);
        let mut owners = Vec::new();
        let mut edges = Vec::new();
        for flow in flows {
            let Flow { from, to, .. } = self.flows.all[*flow as usize];
            let spines = parts_of(past, *flow).iter();
            let mut spines = spines.flat_map(|part| (0..part.subflows).map(|_| part.spine));
            for _ in 0..self.flows.all[*flow as usize].subflows {
                let edge = colouring.add(from, to);
                owners.push(*flow);
                let stays = spines
                    .next()
                    .is_some_and(|spine| colouring.put(edge, spine));
                if !stays {
                    edges.push(edge);
                }
            }
        }
        if !insert(&mut colouring, &edges) {
            return None;
        }
        let colours = colouring.colours().flatten();
        let mut subflows: Vec<(u32, u32)> = owners.into_iter().zip(colours).collect();
        subflows.sort_unstable();
        let parts = subflows.chunk_by(PartialEq::eq).map(|alike| Part {
            flow: alike[0].0,
            spine: alike[0].1,
            subflows: alike.len() as u32,
        });
        Some(parts.collect())
    }
}

/// The parts of a flow.
fn parts_of(parts: &[Part], flow: u32) -> &[Part] {
    let begin = parts.partition_point(|part| part.flow < flow);
    let count = parts[begin..]
        .iter()
        .take_while(|part| part.flow == flow)
        .count();
    &parts[begin..begin + count]
}
