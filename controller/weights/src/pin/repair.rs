//! A placement that goes on after a change: what still fits stays, and what does not finds slots that are free.

use super::plane::{Level, Plane};
use super::{Flows, Part};

/// The parts at this level, of which only those move that have to; None: some find no free slot, or `past` is not of these flows.
pub(super) fn repaired(
    plane: &Plane,
    flows: &Flows,
    level: Level,
    past: &[Part],
) -> Option<Vec<Part>> {
    let mut free = Free::new(plane, flows, level);
    let mut parts = Vec::with_capacity(past.len() + MOVED);
    let mut displaced: Vec<(u32, u32)> = Vec::new();
    let mut rest = past;
    for (flow, known) in (0..).zip(&flows.all) {
        let count = rest.iter().take_while(|part| part.flow == flow).count();
        let (of_flow, others) = rest.split_at(count);
        rest = others;
        let size = known.subflows;
        let mut left = size;
        for part in of_flow {
            if part.spine as usize >= free.spines || part.subflows > left {
                return None;
            }
            // A part of a divided flow can stay by half.
            let stays = match part.subflows == size {
                true if free.take(flows, *part) => part.subflows,
                true => 0,
                false => {
                    let one = Part {
                        subflows: 1,
                        ..*part
                    };
                    (0..part.subflows).filter(|_| free.take(flows, one)).count() as u32
                }
            };
            if stays > 0 {
                parts.push(Part {
                    subflows: stays,
                    ..*part
                });
            }
            left -= stays;
        }
        if left > 0 {
            displaced.push((flow, left));
        }
    }
    if !rest.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    for (flow, left) in displaced {
        free.find(flows, flow, left, &mut found)?;
    }
    found.sort_unstable();
    Some(merged(parts, &found))
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
struct Free {
    spines: usize,
    slots: [Vec<u32>; 2],
}

impl Free {
    fn new(plane: &Plane, flows: &Flows, level: Level) -> Self {
        let slots = plane.slots(level, flows.most());
        Self {
            spines: plane.spines().len(),
            slots: [slots.clone(), slots],
        }
    }

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

    /// Finds slots for so many sub-flows of a flow: on one spine, or else as they are met.
    fn find(&mut self, flows: &Flows, flow: u32, left: u32, parts: &mut Vec<Part>) -> Option<()> {
        let spines = u32::try_from(self.spines).ok()?;
        let part = |spine: u32, subflows: u32| Part {
            flow,
            spine,
            subflows,
        };
        let begin = flow % spines.max(1);
        let around = || (begin..spines).chain(0..begin);
        if let Some(spine) = around().find(|spine| self.take(flows, part(*spine, left))) {
            parts.push(part(spine, left));
            return Some(());
        }
        let mut left = left;
        while left > 0 {
            let before = left;
            for spine in around() {
                if left > 0 && self.take(flows, part(spine, 1)) {
                    parts.push(part(spine, 1));
                    left -= 1;
                }
            }
            if left == before {
                return None;
            }
        }
        Some(())
    }
}

/// Parts that a change adds, mostly.
const MOVED: usize = 64;
