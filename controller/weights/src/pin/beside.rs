//! Flows that are placed into the slots that others leave. It refuses to know who the others are, and what they may be asked to give
//! up.

use super::plane::{Level, Plane};
use super::repair;
use super::{Flows, Infeasible, Part, Pieces, at_level};

/// Flows, and what is left for them.
pub(super) struct Beside<'a> {
    pub(super) plane: &'a Plane,
    pub(super) flows: &'a Flows,
    /// Where they were.
    pub(super) past: &'a [Part],
    /// For a level below this one none is divided.
    pub(super) enough: Level,
    /// Slots up and down that are left at a level, by leaf, then by spine.
    pub(super) left: &'a dyn Fn(Level) -> [Vec<u32>; 2],
}

impl Beside<'_> {
    /// Parts at the lowest level that is found from `least` on; None: none of the first `levels` will do.
    pub(super) fn found(
        &self,
        least: Level,
        levels: Option<u32>,
    ) -> Result<Option<Vec<Part>>, Infeasible> {
        if !self.past.is_empty()
            && let Some(kept) = self.kept(least)
        {
            return Ok(Some(kept));
        }
        let whole = |parts: &Vec<Part>| parts.len() == self.flows.all.len();
        let steps = self.plane.steps(least, self.flows.size, self.enough);
        for level in steps.filter(|_| self.past.is_empty()) {
            if let Some(parts) = self.at_level(level)?.filter(whole) {
                return Ok(Some(parts));
            }
        }
        let mut level = least.max(self.enough);
        for tried in 0.. {
            if let Some(parts) = self.at_level(level)? {
                return Ok(Some(parts));
            }
            match self.plane.after(level, tried) {
                Some(next) if levels.is_none_or(|levels| tried < levels) => level = next,
                Some(_) | None => break,
            }
        }
        Ok(None)
    }

    fn at_level(&self, level: Level) -> Result<Option<Vec<Part>>, Infeasible> {
        let left = (self.left)(level);
        let [up, down] = left.each_ref().map(Vec::as_slice);
        if self.flows.demands.unmet(self.plane, [up, down]).is_some() {
            return Ok(None);
        }
        let pieces = match level <= self.enough {
            true => Pieces::Whole,
            false => Pieces::Small,
        };
        at_level(
            self.plane,
            self.flows,
            level,
            pieces,
            Some(&left),
            self.past,
        )
    }

    /// What stays, and slots for the rest, at the lowest level or the next one: the one at which more stays.
    fn kept(&self, least: Level) -> Option<Vec<Part>> {
        let spines = self.plane.spines().len();
        let least = least.max(self.enough);
        let levels = [Some(least), self.plane.above(least)].into_iter().flatten();
        let stays = levels.filter_map(|level| {
            repair::stays_in(spines, (self.left)(level), self.flows, self.past)
        });
        let mut stays: Vec<_> = stays.collect();
        stays.sort_by_key(|stays| stays.displaced);
        stays.into_iter().find_map(|stays| stays.filled(self.flows))
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
