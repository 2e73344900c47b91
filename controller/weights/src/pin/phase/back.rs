//! Phases that move back where links came back, each into what the others leave at a lower level. It refuses to know which links those are.

use super::super::back;
use super::{Level, Part, Placement, Posed, Taken, parts_of};

/// A placement lower than this one for which `most` sub-flows move or fewer: at the bound, or at `enough`, or else as low as a few tries find.
/// None: there is none. Else `most` is less by what moved.
pub(super) fn lower(posed: &Posed<'_>, placement: &Placement, most: &mut u64) -> Option<Placement> {
    let least = posed.bound.level.max(posed.enough);
    let found = back::lowest(posed.plane, least, placement.level, |level| {
        let mut left = *most;
        let lower = posed.of(lowered(posed, level, &placement.parts, &mut left)?);
        (lower.level < placement.level).then_some((lower, left))
    });
    let (lower, left) = found?;
    *most = left;
    Some(lower)
}

/// All parts where no link is above a level at any time. None: too many sub-flows would move, or find no slot.
fn lowered(posed: &Posed<'_>, level: Level, past: &[Part], most: &mut u64) -> Option<Vec<Part>> {
    let plane = posed.plane;
    let mut taken = Taken::new(plane, posed.flows, posed.phases);
    let past = parts_of(past, &posed.groups);
    for ((phase, numbers), past) in posed.groups.iter().zip(past) {
        let own = taken.flows(numbers);
        let slots = taken.left(plane, level, phase.map(|phase| phase.job));
        let parts = back::lowered(plane, &own, slots, &past, most)?;
        taken.take(&own, &parts, numbers);
    }
    taken.parts.sort_unstable();
    Some(taken.parts)
}
