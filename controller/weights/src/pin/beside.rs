//! Flows that are placed into the slots that others leave. It refuses to know who the others are, and what they may be asked to give
//! up.

use std::borrow::Cow;

use super::onward::Onward;
use super::plane::{Level, Plane};
use super::repair;
use super::room::{Pieces, at_level};
use super::{Flows, Infeasible, Part};

/// Flows, and what is left for them.
pub(super) struct Beside<'a> {
    pub(super) plane: &'a Plane,
    pub(super) flows: &'a Flows,
    /// Where they were.
    pub(super) past: &'a [Part],
    /// For a level below this one none is divided.
    pub(super) enough: Level,
    /// Slots up and down that are left at a level, by leaf, then by spine, and after them those of pods: for a plane like `plane`,
    /// whose links above spines may fill further.
    pub(super) left: &'a dyn Fn(&Plane, Level) -> [Vec<u32>; 2],
}

impl Beside<'_> {
    /// Parts at the lowest level that is found from `least` on; None: none of the first `levels` will do.
    pub(super) fn found(
        &self,
        least: Level,
        levels: Option<u32>,
    ) -> Result<Option<Vec<Part>>, Infeasible> {
        let plane = match self.plane.onward() {
            Some(onward) => Cow::Owned(self.plane.filled_to(self.floor(onward, least)?)),
            None => Cow::Borrowed(self.plane),
        };
        let plane = &*plane;
        if !self.past.is_empty()
            && let Some(kept) = self.kept(plane, least)
        {
            return Ok(Some(kept));
        }
        let whole = |parts: &Vec<Part>| parts.len() == self.flows.all.len();
        let steps = plane.steps(least, self.flows.size, self.enough);
        for level in steps.filter(|_| self.past.is_empty()) {
            if let Some(parts) = self.at_level(plane, level)?.filter(whole) {
                return Ok(Some(parts));
            }
        }
        let mut level = least.max(self.enough);
        for tried in 0.. {
            if let Some(parts) = self.at_level(plane, level)? {
                return Ok(Some(parts));
            }
            match plane.after(level, tried) {
                Some(next) if levels.is_none_or(|levels| tried < levels) => level = next,
                Some(_) | None => break,
            }
        }
        Ok(None)
    }

    /// The least level of links above spines at which they have room for these flows beside the others.
    fn floor(&self, onward: &Onward, least: Level) -> Result<Level, Infeasible> {
        let least = least.max(self.enough);
        let is_short = |floor: Level| {
            let left = (self.left)(&self.plane.filled_to(floor), least);
            let [up, down] = left.each_ref().map(Vec::as_slice);
            onward.is_short(self.flows, [up, down])
        };
        let mut floor = onward.bound(self.plane, self.flows)?.level;
        let mut failed = floor;
        for tried in 0..u64::BITS {
            if !is_short(floor) {
                break;
            }
            failed = floor;
            floor = onward.pods().raised(floor, 1 << tried).unwrap_or(floor);
        }
        // Each step was twice the one before: the least level is between the last two.
        let mut short = failed.holds(floor.capacity);
        while short.saturating_add(1) < floor.subflows {
            let between = Level {
                subflows: short.midpoint(floor.subflows),
                ..floor
            };
            match is_short(between) {
                true => short = between.subflows,
                false => floor = between,
            }
        }
        Ok(floor)
    }

    fn at_level(&self, plane: &Plane, level: Level) -> Result<Option<Vec<Part>>, Infeasible> {
        let left = (self.left)(plane, level);
        let [up, down] = left.each_ref().map(Vec::as_slice);
        if self.flows.exceed(plane, [up, down]) {
            return Ok(None);
        }
        let pieces = match level <= self.enough {
            true => Pieces::Whole,
            false => Pieces::Small,
        };
        at_level(plane, self.flows, level, pieces, Some(&left), self.past)
    }

    /// What stays, and slots for the rest, at the lowest level or the next one: the one at which more stays.
    fn kept(&self, plane: &Plane, least: Level) -> Option<Vec<Part>> {
        let least = least.max(self.enough);
        let levels = [Some(least), plane.above(least)].into_iter().flatten();
        let stays = levels.filter_map(|level| {
            repair::stays_in(plane, (self.left)(plane, level), self.flows, self.past)
        });
        let mut stays: Vec<_> = stays.collect();
        stays.sort_by_key(|stays| stays.displaced);
        let mut stays = stays.into_iter();
        stays.find_map(|stays| stays.filled(plane, self.flows))
    }
}

/// The parts of some flows, which are called by their places among these numbers.
pub(super) fn parts_among(parts: &[Part], numbers: &[usize]) -> Vec<Part> {
    let among = parts.iter().filter_map(|part| {
        let flow = numbers.binary_search(&(part.flow as usize)).ok()?;
        Some(Part {
            flow: u32::try_from(flow).ok()?,
            ..*part
        })
    });
    among.collect()
}
