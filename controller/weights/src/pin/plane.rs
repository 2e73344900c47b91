//! A plane: leaves, the spines above them, and how many sub-flows each link between them holds at a level of load; and the links above
//! spines, where pods of leaves have those.

use std::cmp::Ordering;

use super::Flow;
use super::onward::Onward;
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

    /// How many whole sub-flows a link holds at any level below this one, however near.
    fn holds_below(self, capacity: u64) -> u64 {
        let subflows = u128::from(self.subflows) * u128::from(capacity);
        let subflows = subflows.saturating_sub(1) / u128::from(self.capacity);
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
    /// What is above the spines; None: one pod has all leaves, or links above spines never fill.
    onward: Option<Box<Onward>>,
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
            onward: None,
        }
    }

    /// This plane with the capacity of the links above its spines. `above` is a problem with pods in place of leaves: its links between a pod and
    /// a spine are those above the spine of that pod. What goes from a leaf to one of another pod needs room there too. `pod` names
    /// the pod of a leaf; what is sent to or from a leaf without one is taken for traffic within a pod.
    #[must_use]
    pub fn with_pods(self, above: &Problem, pod: impl Fn(SwitchId) -> Option<SwitchId>) -> Self {
        let pods: Vec<SwitchId> = above.leaves().collect();
        let place = |pod: SwitchId| pods.binary_search(&pod).ok();
        let cell = |pod: SwitchId, spine: SwitchId| {
            let spine = self.spines.binary_search(&spine).ok()?;
            Some(place(pod)? * self.spines.len() + spine)
        };
        let live = above.links().filter(|link| link.alive);
        let links = live.filter_map(|link| {
            let (a, b) = link.ends;
            let cell = cell(a, b).or_else(|| cell(b, a))?;
            Some((cell, link.capacity_bps))
        });
        let links: Vec<_> = links.collect();
        let leaves = self.leaves.iter();
        let pod_of = leaves.map(|leaf| Some(place(pod(*leaf)?)? as u32));
        let pod_of = pod_of.collect();
        self.below(pods, pod_of, links.into_iter())
    }

    /// The same plane with links above its spines, by pod, then by spine, and the pod of each leaf by its place.
    pub(super) fn below(
        mut self,
        pods: Vec<SwitchId>,
        pod_of: Vec<Option<u32>>,
        links: impl Iterator<Item = (usize, u64)> + Clone,
    ) -> Self {
        let onward = Onward::new(&self, pods, pod_of, links);
        self.onward = Some(Box::new(onward));
        self
    }

    /// What is above the spines.
    pub(super) fn onward(&self) -> Option<&Onward> {
        self.onward.as_deref()
    }

    /// The same plane, with links above spines filled up to a level at least, however low that of the links below is.
    pub(super) fn filled_to(&self, floor: Level) -> Self {
        let onward = self.onward().map(|onward| onward.filled_to(floor));
        Self {
            onward: onward.map(Box::new),
            ..self.clone()
        }
    }

    /// The same plane, with whatever is above its spines left out.
    pub(super) fn without_pods(&self) -> Self {
        Self {
            onward: None,
            ..self.clone()
        }
    }

    /// Rows of slots: one for each leaf, and then one for each pod.
    pub(super) fn rows(&self) -> usize {
        let pods = self.onward().map_or(0, |it| it.pods().leaves().len());
        self.leaves.len() + pods
    }

    /// The rows of the pods of a flow, up and down; None: it stays in its pod.
    pub(super) fn pods_of(&self, flow: Flow) -> Option<[u32; 2]> {
        self.onward()?.rows(flow.from, flow.to)
    }

    /// Calls with each row in which a flow takes slots: with 0 for what is sent and 1 for what is taken, and the row.
    pub(super) fn each_row(&self, flow: Flow, mut with: impl FnMut(usize, usize)) {
        with(0, flow.from as usize);
        with(1, flow.to as usize);
        if let Some([from, to]) = self.pods_of(flow) {
            with(0, from as usize);
            with(1, to as usize);
        }
    }

    /// Calls with each cell in which a flow takes slots over a spine, as [`Self::each_row`].
    pub(super) fn each_cell(&self, flow: Flow, spine: u32, mut with: impl FnMut(usize, usize)) {
        let spines = self.spines.len();
        self.each_row(flow, |side, row| with(side, row * spines + spine as usize));
    }

    /// Whether a spine has links to both leaves of a flow, and leads on to another pod if the flow goes there.
    pub(super) fn leads(&self, flow: Flow, spine: u32) -> bool {
        let mut leads = true;
        self.each_cell(flow, spine, |_, cell| {
            leads &= !self.links_at(cell).is_empty();
        });
        leads
    }

    /// Whether what links of a cell hold depends on the level: those above spines hold the same at every level up to their floor.
    pub(super) fn is_decided(&self, cell: usize, level: Level) -> bool {
        let is_below = cell < self.leaves.len() * self.spines.len();
        is_below || self.onward().is_none_or(|onward| level > onward.floor())
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

    /// Capacities of the live links of a cell: of a leaf and a spine, or those above the spine of a pod.
    pub(super) fn links_at(&self, cell: usize) -> &[u64] {
        let own = self.leaves.len() * self.spines.len();
        match (cell.checked_sub(own), &self.onward) {
            (Some(cell), Some(onward)) => onward.pods().links_at(cell),
            (Some(_), None) => &[],
            (None, _) => &self.capacities[self.first[cell] as usize..self.first[cell + 1] as usize],
        }
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
        Some(match (&self.onward, tried < TRIED) {
            (None, true) => above,
            // Links above spines hold more already: those below follow, in ever larger steps.
            (Some(onward), true) if level < onward.floor() => {
                self.raised(level, 1 << tried)?.min(onward.floor())
            }
            // A link above spines holds many sub-flows: first one more of them, and then ever more.
            (Some(onward), true) => {
                let next = onward.pods().raised(level, 1 << tried);
                next.map_or(above, |next| next.min(above))
            }
            (_, false) => Level {
                subflows: above.subflows.saturating_mul(2),
                ..above
            },
        })
    }

    /// The lowest level at which some link of a leaf holds one sub-flow more than at this one; None: there is no link.
    pub fn above(&self, level: Level) -> Option<Level> {
        self.raised(level, 1)
    }

    /// The lowest level at which some link of a leaf holds `more` sub-flows more than at this one; None: there is no link.
    pub(super) fn raised(&self, level: Level, more: u64) -> Option<Level> {
        let next = self.distinct.iter().map(|capacity| Level {
            subflows: level.holds(*capacity).saturating_add(more),
            capacity: *capacity,
        });
        next.min()
    }

    /// The highest level below this one at which some link is full, of a leaf or above a spine; None: there is no link. All levels between the two
    /// are as that one.
    pub(super) fn just_below(&self, level: Level) -> Option<Level> {
        let full = self.every_capacity().map(|capacity| Level {
            subflows: level.holds_below(*capacity),
            capacity: *capacity,
        });
        full.max()
    }

    /// A level between two others at which some link is full, of a leaf or above a spine, near the middle; None: there is none.
    pub(super) fn between(&self, low: Level, high: Level) -> Option<Level> {
        let capacity = high.capacity.saturating_mul(FINE);
        let middle = Level {
            subflows: low.holds(capacity).midpoint(high.holds(capacity)),
            capacity,
        };
        let middle = middle.max(low);
        let full = |more: u64| {
            self.every_capacity().map(move |capacity| Level {
                subflows: middle.holds(*capacity).saturating_add(more),
                capacity: *capacity,
            })
        };
        full(0)
            .max()
            .filter(|it| *it > low)
            .or_else(|| full(1).min())
            .filter(|it| low < *it && *it < high)
    }

    /// The capacities of links of leaves, and then those of links above spines.
    fn every_capacity(&self) -> impl Iterator<Item = &u64> {
        let above = self.onward().map(|it| it.pods().distinct());
        self.distinct.iter().chain(above.into_iter().flatten())
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

    /// How many sub-flows the links of each leaf and spine hold together, by leaf, then by spine; and after them those above spines, by
    /// pod, then by spine.
    ///
    /// A link of a leaf never holds more than `most`: nobody sends that many.
    pub(super) fn slots(&self, level: Level, most: u32) -> Vec<u32> {
        let floor = self.onward().map_or(level, Onward::floor);
        self.slots_at([level, level.max(floor)], most)
    }

    /// Slots as [`Self::slots`] has them, with one level for the links of leaves and another one for those above spines.
    pub(super) fn slots_at(&self, [below, above]: [Level; 2], most: u32) -> Vec<u32> {
        let mut slots = self.counted(|capacity| below.holds(capacity).min(most.into()));
        if let Some(onward) = self.onward() {
            slots.extend(onward.slots(above, most));
        }
        slots
    }

    /// How many flows of `size` sub-flows fit on a link whole, in the order of [`Self::slots`].
    pub(super) fn whole(&self, level: Level, size: u32, most: u32) -> Vec<u32> {
        let holds = |capacity: u64| level.holds(capacity).min(most.into()) / u64::from(size);
        let mut whole = self.counted(holds);
        if let Some(onward) = self.onward() {
            whole.extend(onward.whole(level.max(onward.floor()), size, most));
        }
        whole
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
/// In how many parts a sub-flow is divided where the middle of two levels is looked for.
const FINE: u64 = 1024;
/// Levels that are tried one by one.
pub(super) const TRIED: u32 = 16;

fn clamped(subflows: u64) -> u32 {
    u32::try_from(subflows).unwrap_or(u32::MAX)
}
