//! Pins: a spine for every flow, so that no link carries more than the best placement must.
//!
//! Flows go whole first; only what does not fit is divided into sub-flows of equal size. With as much capacity up as down and
//! nothing dead every flow stays whole and every link carries its share exactly: edges of a bipartite graph, coloured with spines
//! (König 1916). A plane may have pods: what goes from one to another then needs room above spines too, in the same search. It refuses to
//! know jobs, addresses and how a switch pins.

use std::borrow::Cow;
use std::fmt;

mod back;
mod beside;
mod bound;
mod colouring;
mod duality;
mod onward;
mod phase;
mod plane;
mod pods;
mod priority;
mod recount;
mod repair;
mod room;
#[cfg(test)]
mod tests;

pub use self::back::place_lower;
pub use self::bound::{Bound, Tight};
pub use self::duality::lower_bound_by_duality;
pub use self::phase::{Phase, place_in_phases, place_lower_in_phases};
pub use self::plane::{Level, Plane};
pub use self::pods::{PodPart, PodPlacement, Pods, ShapeError, place_in_pods, recount_in_pods};
pub use self::priority::{
    Class, Ranked, place_by_priority, place_by_priority_in_phases, place_lower_by_priority,
};
pub use self::recount::{Fault, Recount, recount, recount_in_phases};

use self::bound::Demands;
use self::room::{Pieces, at_level};

/// What one NIC sends to another, by the places of their leaves; they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// The leaf that sends.
    pub from: u32,
    /// The leaf that takes.
    pub to: u32,
    /// The sub-flows that it can be divided into, at least one. Every sub-flow of all flows sends as much.
    pub subflows: u32,
}

/// Flows that are there at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flows {
    all: Vec<Flow>,
    size: u32,
    /// One that is no flow.
    none: Option<usize>,
    /// Sub-flows of all.
    total: u64,
    demands: Demands,
    /// Into how many pieces each flow can be divided; empty: none is divided without need.
    pieces: Vec<u32>,
}

impl Flows {
    /// A placement names a flow by its place here.
    pub fn new(all: Vec<Flow>) -> Self {
        let size = all.iter().map(|flow| flow.subflows).max();
        let is_none = |flow: &Flow| flow.from == flow.to || flow.subflows == 0;
        Self {
            size: size.unwrap_or(1).max(1),
            none: all.iter().position(is_none),
            total: all.iter().map(|flow| u64::from(flow.subflows)).sum(),
            demands: Demands::new(&all),
            all,
            pieces: Vec::new(),
        }
    }

    /// Says into how many pieces each flow can be divided where phases of several jobs may meet. Flows that are not named stay whole
    /// there, as all do by [`Self::new`].
    #[must_use]
    pub fn with_pieces(self, pieces: Vec<u32>) -> Self {
        Self { pieces, ..self }
    }

    /// How many sub-flows of a flow stay together where phases of several jobs may meet.
    fn piece(&self, flow: usize) -> u32 {
        let pieces = self.pieces.get(flow).copied().unwrap_or(1);
        self.all[flow].subflows.div_ceil(pieces.max(1)).max(1)
    }

    /// Flows for their bound: what is sent is what is sent at the worst time, where phases of one job never run together.
    fn at_worst(all: Vec<Flow>, phases: &[Option<Phase>]) -> Self {
        Self {
            demands: Demands::in_phases(&all, phases),
            ..Self::new(all)
        }
    }

    /// The flows.
    pub fn all(&self) -> &[Flow] {
        &self.all
    }

    /// Sub-flows of the largest flow.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The most sub-flows that one leaf sends or takes; a link needs no more slots.
    fn most(&self) -> u32 {
        u32::try_from(self.demands.most()).unwrap_or(u32::MAX)
    }

    /// Refuses flows that are none between so many leaves, or that are too many.
    fn check(&self, leaves: usize) -> Result<(), Infeasible> {
        let unknown = |flow: &Flow| flow.from.max(flow.to) as usize >= leaves;
        let unknown = || self.all.iter().position(unknown);
        let wrong = self
            .none
            .or_else(|| (self.demands.leaves() > leaves).then(unknown)?);
        match wrong {
            Some(flow) => Err(Infeasible::NoFlow { flow }),
            None if self.total > SLOTS_MAX => Err(Infeasible::TooMany),
            None => Ok(()),
        }
    }

    /// Whether there are too few slots up and down for what leaves, pairs of leaves and pods have to send or take.
    fn exceed(&self, plane: &Plane, slots: [&[u32]; 2]) -> bool {
        let is_short = || plane.onward().is_some_and(|it| it.is_short(self, slots));
        self.demands.unmet(plane, slots).is_some() || is_short()
    }

    /// Whether a flow is as large as any: those are placed whole as far as they fit.
    fn is_full(&self, flow: u32) -> bool {
        self.all[flow as usize].subflows == self.size
    }
}

/// Sub-flows of a flow that go over one spine. Where several links lead there, each takes the link that it loads least. From one pod to
/// another they come down from the spine of that pod which has the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The flow, by its place.
    pub flow: u32,
    /// The spine, by its place.
    pub spine: u32,
    /// How many of its sub-flows.
    pub subflows: u32,
}

/// A spine for every sub-flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// By flow, then by spine.
    pub parts: Vec<Part>,
    /// No link carries more than this.
    pub level: Level,
    /// No placement can do with less than this.
    pub bound: Bound,
}

/// Why flows cannot be placed. Leaves and flows are named by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Infeasible {
    /// A leaf that sends or takes has no link.
    NoLink {
        /// The leaf.
        leaf: usize,
    },
    /// Two leaves have flows and no way to each other.
    NoWay {
        /// Sends.
        from: usize,
        /// Takes.
        to: usize,
    },
    /// A flow names a leaf that is not there, or one leaf twice, or has no sub-flow.
    NoFlow {
        /// The flow.
        flow: usize,
    },
    /// There are more sub-flows than can be held.
    TooMany,
}

impl fmt::Display for Infeasible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLink { leaf } => write!(f, "leaf {leaf} has no link"),
            Self::NoWay { from, to } => write!(f, "no way leads from leaf {from} to leaf {to}"),
            Self::NoFlow { flow } => {
                write!(
                    f,
                    "flow {flow} is not one or more sub-flows between two leaves"
                )
            }
            Self::TooMany => write!(
                f,
                "there are more sub-flows than {SLOTS_MAX}, or slots for them"
            ),
        }
    }
}

impl std::error::Error for Infeasible {}

/// Places flows as low as it can. Equal planes and flows give equal placements.
///
/// # Errors
/// A flow has no way at all.
pub fn place(plane: &Plane, flows: &Flows) -> Result<Placement, Infeasible> {
    place_after(plane, flows, &[])
}

/// Places flows after a change, where what has a link stays where it was: as long as no link is more than one level above the bound,
/// and beyond that as few move as it takes. A placement that is its own past is given back, unless it was a first one more
/// than one level above its bound. `past` are parts of the same flows, by flow.
///
/// # Errors
/// A flow has no way at all.
pub fn place_after(plane: &Plane, flows: &Flows, past: &[Part]) -> Result<Placement, Infeasible> {
    over_pods(plane, flows, |plane, bound| {
        lowest(plane, flows, past, bound, None)
    })
}

/// Places flows after a change like [`place_after`], but divides none, and moves none, for a level below `enough`: where links have
/// room, a flow stays whole, on the link that has most.
///
/// # Errors
/// A flow has no way at all.
pub fn place_within(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    enough: Level,
) -> Result<Placement, Infeasible> {
    over_pods(plane, flows, |plane, bound| {
        within(plane, flows, past, bound, enough)
    })
}

/// What [`place_within`] gives.
fn within(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    bound: Bound,
    enough: Level,
) -> Result<Placement, Infeasible> {
    if past.is_empty() {
        let whole = |parts: &Vec<Part>| parts.len() == flows.all.len();
        for level in plane.steps(bound.level, flows.size, enough) {
            let found = at_level(plane, flows, level, Pieces::Whole, None, past)?;
            if let Some(parts) = found.filter(whole) {
                return Ok(Placement {
                    parts,
                    level,
                    bound,
                });
            }
        }
    }
    lowest(plane, flows, past, bound, Some(enough))
}

/// Places flows at a level from the bound of leaves on, while links above spines may fill up to the bound of pods at any level:
/// where those need a high level, links of leaves stay as even as without pods.
fn over_pods(
    plane: &Plane,
    flows: &Flows,
    place: impl FnOnce(&Plane, Bound) -> Result<Placement, Infeasible>,
) -> Result<Placement, Infeasible> {
    let below = bounded_below(plane, flows)?;
    let Some(onward) = plane.onward() else {
        return place(plane, below);
    };
    let above = onward.bound(plane, flows)?;
    let placement = place(&plane.filled_to(above.level), below)?;
    Ok(Placement {
        level: placement.level.max(above.level),
        bound: below.or_higher(above),
        ..placement
    })
}

/// The bound of flows, of leaves or of pods.
fn bounded(plane: &Plane, flows: &Flows) -> Result<Bound, Infeasible> {
    let below = bounded_below(plane, flows)?;
    Ok(match plane.onward() {
        Some(onward) => below.or_higher(onward.bound(plane, flows)?),
        None => below,
    })
}

/// The bound of flows, of leaves alone.
fn bounded_below(plane: &Plane, flows: &Flows) -> Result<Bound, Infeasible> {
    flows.check(plane.leaves().len())?;
    bound::bound(plane, flows)
}

/// What stays of the past with as little else as it takes, or the placement at the lowest level that is found from the bound on, or
/// from one that is enough.
fn lowest(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    bound: Bound,
    enough: Option<Level>,
) -> Result<Placement, Infeasible> {
    let level = enough.map_or(bound.level, |enough| bound.level.max(enough));
    let placed = |(parts, level)| Placement {
        parts,
        level,
        bound,
    };
    if past.is_empty() {
        return searched(plane, flows, past, level, enough).map(placed);
    }
    // A slot more on a link rather than a flow that moves without need.
    let most = plane.above(level).unwrap_or(level);
    let mut past = Cow::Borrowed(past);
    let mut before = None;
    loop {
        if let Some(kept) = kept(plane, flows, &past, [level, most]) {
            return Ok(placed(kept));
        }
        let found = searched_or_same(plane, flows, &past, level, enough)?;
        // What is its own past has to be given back: each turn is at a lower level.
        if found.1 <= most || before.is_some_and(|before| before <= found.1) {
            return Ok(placed(found));
        }
        before = Some(found.1);
        past = Cow::Owned(found.0);
    }
}

/// What a search finds, unless it is no lower than what is there.
fn searched_or_same(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    level: Level,
    enough: Option<Level>,
) -> Result<(Vec<Part>, Level), Infeasible> {
    let found = searched(plane, flows, past, level, enough)?;
    let stays = level.max(repair::level(plane, flows, past));
    let same = (stays <= found.1).then(|| repair::repaired(plane, flows, stays, past));
    Ok(match same.flatten() {
        Some(parts) => (parts, stays),
        None => found,
    })
}

/// Parts at the lowest level that is found from one on; `past` is where a flow is tried first. No level is higher than that of the
/// placement without pods, if all spines of that lead on.
fn searched(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    level: Level,
    enough: Option<Level>,
) -> Result<(Vec<Part>, Level), Infeasible> {
    let found = climbed(plane, flows, past, level, enough);
    // The search may end too high, or fail as slots above spines are too many: a placement without pods may be lower.
    let reached = found.as_ref().ok().map(|found| found.1);
    if plane.onward().is_none() || reached.is_some_and(|it| it <= level) {
        return found;
    }
    let (parts, _) = climbed(&plane.without_pods(), flows, past, level, enough)?;
    let without = level.max(repair::level(plane, flows, &parts));
    let is_lower = reached.is_none_or(|it| without < it);
    match is_lower && repair::leads(plane, flows, &parts) {
        true => Ok((parts, without)),
        false => found,
    }
}

/// Parts at the first level that will do, from one on.
fn climbed(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    mut level: Level,
    enough: Option<Level>,
) -> Result<(Vec<Part>, Level), Infeasible> {
    let past = &*known(plane, flows, past);
    let attempt = |level| {
        let pieces = match enough.is_some_and(|enough| level <= enough) {
            true => Pieces::Whole,
            false => Pieces::Small,
        };
        at_level(plane, flows, level, pieces, None, past)
    };
    let mut failed = level;
    for tried in 0.. {
        let next = plane.after(level, tried);
        match (attempt(level)?, next) {
            (Some(mut parts), _) => {
                // Levels became farther apart: one between the last two may do.
                let mut least = failed.holds(level.capacity);
                let is_wide = tried > plane::TRIED || plane.onward().is_some();
                while is_wide && least + 1 < level.subflows {
                    let between = Level {
                        subflows: least.midpoint(level.subflows),
                        ..level
                    };
                    match attempt(between)? {
                        Some(better) => (parts, level) = (better, between),
                        None => least = between.subflows,
                    }
                }
                return Ok((parts, level));
            }
            (None, Some(next)) => (failed, level) = (level, next),
            // Without a link nothing has to be placed.
            (None, None) => break,
        }
    }
    Ok((Vec::new(), level))
}

/// What was placed, where it was, and a slot for what has none any more: at the level that it has, or the upper one of two, which are
/// one or next to each other. None: too much would have to be divided.
fn kept(
    plane: &Plane,
    flows: &Flows,
    past: &[Part],
    levels: [Level; 2],
) -> Option<(Vec<Part>, Level)> {
    let [_, most] = levels;
    repair::kept(plane, flows, levels, past).or_else(|| {
        let slots = plane.slots(most, flows.most());
        let slots = [slots.clone(), slots];
        let stays = repair::stays_in(plane, slots.clone(), flows, past)?;
        if stays.displaced > flows.total / DIVIDED_MOST {
            return None;
        }
        Some((room::chained(plane, flows, &slots, &stays.parts)?, most))
    })
}

/// Keeps, of the parts of an earlier placement, those of these flows and spines, and of no flow more than it has.
fn known<'a>(plane: &Plane, flows: &Flows, past: &'a [Part]) -> Cow<'a, [Part]> {
    let spines = plane.spines().len();
    let is_known = |of_flow: &[Part]| {
        let flow = flows.all.get(of_flow[0].flow as usize);
        let sum: u64 = of_flow.iter().map(|part| u64::from(part.subflows)).sum();
        let there = of_flow.iter().all(|part| (part.spine as usize) < spines);
        there && flow.is_some_and(|flow| sum <= u64::from(flow.subflows))
    };
    let of_flows = || past.chunk_by(|a, b| a.flow == b.flow);
    if past.is_sorted() && of_flows().all(is_known) {
        return Cow::Borrowed(past);
    }
    let mut sorted = past.to_vec();
    sorted.sort_unstable();
    let of_flows = sorted.chunk_by(|a, b| a.flow == b.flow);
    Cow::Owned(
        of_flows
            .filter(|it| is_known(it))
            .flatten()
            .copied()
            .collect(),
    )
}

/// A share of all sub-flows that is divided, rather than that whole flows move: one in so many.
const DIVIDED_MOST: u64 = 32;

/// Sub-flows, and slots for them: some gigabytes.
const SLOTS_MAX: u64 = 1 << 27;
