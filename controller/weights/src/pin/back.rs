//! Flows that move back where links came back: to a lower level, if few have to move for it. It refuses to know which links those are.

use std::borrow::Cow;

use super::phase::Phase;
use super::plane::{Level, Plane};
use super::{Flows, Infeasible, Part, Placement, over_pods, repair, room, within};

/// Places flows after a change like [`place_within`](super::place_within), and at the bound, or at `enough`, if a sixteenth of all
/// sub-flows moves at most to get there: for when links came back. A flow that was divided for want of room can be whole again then. A
/// placement at its bound that is its own past is given back.
///
/// # Errors
/// A flow has no way at all.
pub fn place_lower(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    enough: Level,
) -> Result<Placement, Infeasible> {
    over_pods(plane, flows, |plane, bound| {
        let level = bound.level.max(enough);
        let slots = plane.slots(level, flows.most());
        let mut most = most(flows);
        match lowered(plane, flows, [slots.clone(), slots], past, &mut most) {
            Some(parts) => Ok(Placement {
                parts,
                level,
                bound,
            }),
            None => within(plane, flows, past, bound, enough),
        }
    })
}

/// How many sub-flows may move back.
pub(super) fn most(flows: &Flows) -> u64 {
    flows.total / MOVED_MOST
}

/// What was placed, where it was as far as it fits into slots up and down, and slots for the rest. None: more than `most` would move, or there
/// is no slot. Else `most` is less by what moved.
pub(super) fn lowered(
    plane: &Plane,
    flows: &Flows,
    slots: [Vec<u32>; 2],
    past: &[Part],
    most: &mut u64,
) -> Option<Vec<Part>> {
    let stays = repair::stays_in(plane, slots.clone(), flows, past)?;
    if stays.displaced > *most {
        return None;
    }
    let filled = stays.filled(plane, flows);
    let parts = filled.or_else(|| room::chained(plane, flows, &slots, &stays.parts))?;
    *most = most.checked_sub(moved(past, &parts))?;
    Some(parts)
}

/// What is found at the lowest of some levels below one: at the least one, or else at one of a few between the two at which some link is full, the
/// last of which is just below the upper one. None: at none of them.
pub(super) fn lowest<T>(
    plane: &Plane,
    least: Level,
    level: Level,
    mut at: impl FnMut(Level) -> Option<T>,
) -> Option<T> {
    if let Some(found) = (least < level).then(|| at(least)).flatten() {
        return Some(found);
    }
    let (mut low, mut high, mut found) = (least, level, None);
    for _ in 0..TRIES {
        let Some(between) = plane.between(low, high) else {
            break;
        };
        match at(between) {
            Some(lower) => (high, found) = (between, Some(lower)),
            None => low = between,
        }
    }
    found.or_else(|| at(plane.just_below(level).filter(|below| *below > low)?))
}

/// A plane whose links above spines may be as full as they have to be.
pub(super) fn filled<'a>(
    plane: &'a Plane,
    flows: &Flows,
    phases: &[Option<Phase>],
) -> Result<Cow<'a, Plane>, Infeasible> {
    Ok(match plane.onward() {
        Some(onward) => {
            let above = onward.bound_in_phases(plane, flows, phases)?;
            Cow::Owned(plane.filled_to(above.level))
        }
        None => Cow::Borrowed(plane),
    })
}

/// Sub-flows that are elsewhere now. Both by flow, then by spine.
fn moved(before: &[Part], after: &[Part]) -> u64 {
    let was = |part: &Part| {
        let place = before.binary_search_by_key(&(part.flow, part.spine), |it| (it.flow, it.spine));
        place.map_or(0, |at| before[at].subflows)
    };
    let moved = after.iter().map(|it| it.subflows.saturating_sub(was(it)));
    moved.map(u64::from).sum()
}

/// A share of all sub-flows that moves back where links returned: one in so many, which is what one of as many spines carries.
const MOVED_MOST: u64 = 16;
/// Levels between the least one and that of what is there which are tried.
const TRIES: u32 = 3;

#[cfg(test)]
mod tests;
