//! A plane: leaves, the spines above them, and how many sub-flows each link between them holds at a level of load.

use std::cmp::Ordering;

use crate::problem::{Link, Problem, SwitchId};

/// A level of load: so many sub-flows on a link of this capacity, and on others as many as that is in proportion.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Sub-flows.
    pub subflows: u64,
    /// In the unit of the links' capacities; above 0.
    pub capacity: u64,
}

impl Level {
    /// How many whole sub-flows a link holds.
    pub fn holds(self, capacity: u64) -> u64 {
        let subflows = u128::from(self.subflows) * u128::from(capacity) / u128::from(self.capacity);
        u64::try_from(subflows).unwrap_or(u64::MAX)
    }
}

impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> Ordering {
        let ours = u128::from(self.subflows) * u128::from(other.capacity);
        ours.cmp(&(u128::from(other.subflows) * u128::from(self.capacity)))
    }
}

/// Leaves and spines with the live links between them. Traffic goes up to a spine and down from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plane {
    leaves: Vec<SwitchId>,
    spines: Vec<SwitchId>,
    /// Where the links of a leaf and a spine begin, by leaf, then by spine.
    first: Vec<u32>,
    capacities: Vec<u64>,
    /// Each capacity once, the smallest first.
    distinct: Vec<u64>,
}

impl Plane {
    /// The live links between tiers 0 and 1 of a problem.
    pub fn new(problem: &Problem) -> Self {
        let of_tier = |wanted| {
            let switches = problem.switches().filter(move |(_, tier)| *tier == wanted);
            switches.map(|(switch, _)| switch).collect::<Vec<_>>()
        };
        let (leaves, spines) = (of_tier(0), of_tier(1));
        // By the place of a switch: 1 for a leaf, 2 for a spine, and what it adds to a cell.
        let (mut places, mut counts) = (Vec::new(), [0, 0]);
        for (_, tier) in problem.switches() {
            let place = counts.get_mut(usize::from(tier)).map(|count| {
                *count += 1;
                *count - 1
            });
            places.push(match (tier, place) {
                (0, Some(leaf)) => (1_u8, leaf * spines.len()),
                (_, Some(spine)) => (2, spine),
                (_, None) => (0, 0),
            });
        }
        let cell = |link: &Link| {
            let (a, b) = link.ends;
            let (a, b) = (places[problem.place(a)?], places[problem.place(b)?]);
            (a.0 | b.0 == 3).then_some(a.1 + b.1)
        };
        let live = problem.links().filter(|link| link.alive);
        let links = live.filter_map(|link| Some((cell(link)?, link.capacity_bps)));
        Self::of_links(leaves, spines, links)
    }

    /// With links by their cell, which is by leaf, then by spine, in any order.
    pub(super) fn of_links(
        leaves: Vec<SwitchId>,
        spines: Vec<SwitchId>,
        links: impl Iterator<Item = (usize, u64)> + Clone,
    ) -> Self {
        let mut first = vec![0; leaves.len() * spines.len() + 1];
        let mut capacities = Vec::with_capacity(links.size_hint().1.unwrap_or_default());
        let (mut is_sorted, mut last, mut distinct) = (true, 0, Vec::new());
        links.clone().for_each(|(cell, capacity)| {
            first[cell + 1] += 1;
            is_sorted &= last <= cell;
            last = cell;
            capacities.push(capacity);
            if distinct.last() != Some(&capacity)
                && let Err(place) = distinct.binary_search(&capacity)
            {
                distinct.insert(place, capacity);
            }
        });
        let mut total = 0;
        for begin in &mut first {
            total += *begin;
            *begin = total;
        }
        if !is_sorted {
            let mut next = first.clone();
            for (cell, capacity) in links {
                capacities[next[cell] as usize] = capacity;
                next[cell] += 1;
            }
        }
        Self {
            leaves,
            spines,
            first,
            capacities,
            distinct,
        }
    }

    /// The leaves, in order of their numbers; flows name them by their place.
    pub fn leaves(&self) -> &[SwitchId] {
        &self.leaves
    }

    /// The spines, in order of their numbers; parts name them by their place.
    pub fn spines(&self) -> &[SwitchId] {
        &self.spines
    }

    /// Capacities of the live links between a leaf and a spine.
    pub fn links(&self, leaf: usize, spine: usize) -> &[u64] {
        let cell = leaf * self.spines.len() + spine;
        &self.capacities[self.first[cell] as usize..self.first[cell + 1] as usize]
    }

    /// What the live links of a leaf carry together.
    pub fn capacity(&self, leaf: usize) -> u128 {
        let row = leaf * self.spines.len();
        let links = self.first[row] as usize..self.first[row + self.spines.len()] as usize;
        self.capacities[links].iter().copied().map(u128::from).sum()
    }

    /// To how many spines a leaf has links.
    pub(super) fn spines_of(&self, leaf: usize) -> usize {
        let row = leaf * self.spines.len();
        let begins = &self.first[row..=row + self.spines.len()];
        // In 32 bits: several at a time.
        let has = begins
            .iter()
            .zip(&begins[1..])
            .map(|(begin, end)| u32::from(begin < end));
        has.sum::<u32>() as usize
    }

    /// The next level that is tried after so many others: one sub-flow more on some link, and later twice as many. None: there is no
    /// link.
    pub(super) fn after(&self, level: Level, tried: u32) -> Option<Level> {
        let above = self.above(level)?;
        Some(match tried < TRIED {
            true => above,
            false => Level {
                subflows: above.subflows.saturating_mul(2),
                ..above
            },
        })
    }

    /// The lowest level at which some link holds one sub-flow more than at this one; None: there is no link.
    pub fn above(&self, level: Level) -> Option<Level> {
        let next = self.distinct.iter().map(|capacity| Level {
            subflows: level.holds(*capacity) + 1,
            capacity: *capacity,
        });
        next.min()
    }

    /// Levels from one on and not above another at which some link holds one flow of `size` more than at the one before; 64 of them
    /// at most.
    pub(super) fn steps(
        &self,
        level: Level,
        size: u32,
        most: Level,
    ) -> impl Iterator<Item = Level> + use<> {
        let size = u64::from(size.max(1));
        let mut levels: Vec<Level> = self
            .distinct
            .iter()
            .flat_map(|capacity| {
                let first = level.holds(*capacity).div_ceil(size).max(1);
                (first..first + STEPS_MAX).map(move |flows| Level {
                    subflows: flows * size,
                    capacity: *capacity,
                })
            })
            .filter(|it| (level..=most).contains(it))
            .collect();
        levels.sort_unstable();
        levels.dedup();
        levels.into_iter().take(STEPS_MAX as usize)
    }

    /// Each capacity once, the smallest first.
    pub(super) fn distinct(&self) -> &[u64] {
        &self.distinct
    }

    /// Whether two leaves have links to one spine.
    pub fn share(&self, a: usize, b: usize) -> bool {
        let has = |leaf: usize, spine: usize| !self.links(leaf, spine).is_empty();
        (0..self.spines.len()).any(|spine| has(a, spine) && has(b, spine))
    }

    /// How many sub-flows the links of each leaf and spine hold together, by leaf, then by spine.
    ///
    /// A link never holds more than `most`: nobody sends that many.
    pub(super) fn slots(&self, level: Level, most: u32) -> Vec<u32> {
        self.counted(|capacity| level.holds(capacity).min(most.into()))
    }

    /// How many flows of `size` sub-flows fit on a link whole, by leaf, then by spine.
    pub(super) fn whole(&self, level: Level, size: u32, most: u32) -> Vec<u32> {
        self.counted(|capacity| level.holds(capacity).min(most.into()) / u64::from(size))
    }

    fn counted(&self, holds: impl Fn(u64) -> u64) -> Vec<u32> {
        let known: Vec<u32> = self.distinct.iter().map(|it| clamped(holds(*it))).collect();
        let of = |capacity: &u64| match self.distinct.binary_search(capacity) {
            Ok(place) => known[place],
            Err(_) => 0,
        };
        let begins = self.first.iter().zip(&self.first[1..]);
        let counts = begins.map(|(begin, end)| end - begin);
        let cells = self.first.windows(2);
        let cells = cells.map(|cell| &self.capacities[cell[0] as usize..cell[1] as usize]);
        match (&known[..], &self.distinct[..]) {
            ([one], [_]) => counts.map(|count| one * count).collect(),
            _ => cells.map(|links| links.iter().map(of).sum()).collect(),
        }
    }
}

/// How many levels are tried at which flows may fit whole.
const STEPS_MAX: u64 = 64;
/// Levels that are tried one by one.
pub(super) const TRIED: u32 = 16;

fn clamped(subflows: u64) -> u32 {
    u32::try_from(subflows).unwrap_or(u32::MAX)
}
