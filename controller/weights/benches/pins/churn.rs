//! What moves when links fail and come back, one event after the other, where each plan starts from the one before.
//!
//! It refuses to know how a plan is adopted and pushed.

use std::time::{Duration, Instant};

use weft_weights::pin::{Flows, Level, Part, Placement, Plane, place_lower, place_within, recount};
use weft_weights::problem::Problem;

use super::random::Random;
use super::{Fabric, Pattern, QUARTER_BPS, Speeds, ms};

/// Events of one kind: how many, and what they came to, in sub-flows.
#[derive(Default)]
struct Events {
    count: u64,
    /// On links that died.
    displaced: u64,
    moved: u64,
    /// The most that moved in an event for each that was displaced.
    worst: f64,
    /// Events that moved something.
    moving: u64,
    slowest: Duration,
}

/// Plans one after the other.
struct Trace {
    fabric: Fabric,
    flows: Flows,
    full: Level,
    last: Placement,
    /// The highest that a level was above its bound, or above what links carry where that is more.
    over: f64,
    /// Plans that were made a second time and were others.
    unlike: u64,
}

impl Trace {
    /// Every NIC sends at its rate.
    fn new(leaves: u32, spines: u32, random: &mut Random) -> Self {
        let fabric = Fabric::new(leaves, spines, 0, Speeds::Equal, random);
        let flows = fabric.flows(Pattern::Permutation, SUBFLOWS, random);
        let full = Level {
            subflows: SUBFLOWS.into(),
            capacity: 4 * QUARTER_BPS,
        };
        let plane = Plane::new(&fabric.problem());
        Self {
            last: place_within(&plane, &flows, &[], full).unwrap(),
            fabric,
            flows,
            full,
            over: 1.0,
            unlike: 0,
        }
    }

    fn ratio(&self, placement: &Placement) -> f64 {
        let of = |level: Level| level.subflows as f64 / level.capacity as f64;
        of(placement.level) / of(placement.bound.level.max(self.full))
    }

    /// Sub-flows on a link, up and down.
    fn on(&self, link: usize) -> u64 {
        let spines = self.fabric.spines;
        let (leaf, spine) = (link as u32 / spines, link as u32 % spines);
        let parts = self.last.parts.iter().filter(|part| {
            let flow = self.flows.all()[part.flow as usize];
            part.spine == spine && (flow.from == leaf || flow.to == leaf)
        });
        parts.map(|part| u64::from(part.subflows)).sum()
    }

    /// Makes the next plan, and the same one again as a new leader would; it counts for `events`.
    fn plan(&mut self, displaced: u64, events: &mut Events) {
        let problem = self.fabric.problem();
        let begun = Instant::now();
        let plane = Plane::new(&problem);
        let next = place_within(&plane, &self.flows, &self.last.parts, self.full).unwrap();
        let took = begun.elapsed();
        self.recounted(&problem, &next);
        let again = place_within(&plane, &self.flows, &next.parts, self.full).unwrap();
        self.unlike += u64::from(again.parts != next.parts);
        let moved = moved(&self.last.parts, &next.parts);
        events.count += 1;
        events.displaced += displaced;
        events.moved += moved;
        events.moving += u64::from(moved > 0);
        if displaced > 0 {
            events.worst = events.worst.max(moved as f64 / displaced as f64);
        }
        events.slowest = events.slowest.max(took);
        self.over = self.over.max(self.ratio(&next));
        self.last = next;
    }

    fn recounted(&self, problem: &Problem, placement: &Placement) {
        let counted = recount(problem, &self.flows, &placement.parts).unwrap();
        let (subflows, capacity) = counted.worst;
        assert!(Level { subflows, capacity } <= placement.level);
    }
}

/// Sub-flows that are elsewhere now.
fn moved(before: &[Part], after: &[Part]) -> u64 {
    let was = |part: &Part| {
        let key = |it: &Part| (it.flow, it.spine);
        let place = before.binary_search_by_key(&key(part), key);
        place.map_or(0, |at| before[at].subflows)
    };
    let moved = after
        .iter()
        .map(|part| part.subflows.saturating_sub(was(part)));
    moved.map(u64::from).sum()
}

/// Prints what so many events come to. Links fail and come back at random times; one that comes back is used 10 s later, and one in
/// four that fail has come back less than 10 s ago.
pub(super) fn trace(leaves: u32, spines: u32, events: u64) {
    let mut random = Random(11);
    let mut trace = Trace::new(leaves, spines, &mut random);
    let (mut downs, mut back, mut used) = (Events::default(), Events::default(), Events::default());
    let (mut dead, mut waiting) = (Vec::new(), Vec::<(u64, usize)>::new());
    let mut now_ms = 0;
    for _ in 0..events {
        now_ms += random.below(8_000);
        while let Some(at) = waiting.iter().position(|(until, _)| *until <= now_ms) {
            let (_, link) = waiting.remove(at);
            trace.fabric.links[link].alive = true;
            trace.plan(0, &mut used);
        }
        match random.below(8) {
            // It comes back.
            0..4 if !dead.is_empty() => {
                let link = dead.swap_remove(random.below(dead.len() as u64) as usize);
                waiting.push((now_ms + HOLD_MS, link));
                trace.plan(0, &mut back);
            }
            // It came back, and fails again.
            4 if !waiting.is_empty() => {
                let (_, link) = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                dead.push(link);
                trace.plan(0, &mut back);
            }
            _ => {
                let link = random.below(trace.fabric.links.len() as u64) as usize;
                if trace.fabric.links[link].alive {
                    dead.push(link);
                    let displaced = trace.on(link);
                    trace.fabric.links[link].alive = false;
                    trace.plan(displaced, &mut downs);
                }
            }
        }
    }
    print(&trace, [&downs, &back, &used], dead.len() + waiting.len());
}

fn print(trace: &Trace, [downs, back, used]: [&Events; 3], dead: usize) {
    let Fabric { leaves, spines, .. } = trace.fabric;
    println!(
        "{leaves} x {spines}, {} links fail: moved / displaced {:.3}, {:.2} at worst; {:.1} ms at worst",
        downs.count,
        downs.moved as f64 / downs.displaced as f64,
        downs.worst,
        ms(downs.slowest)
    );
    println!(
        "    {} come back or fail again within 10 s: {} moved; {} are used after 10 s: {} moved, in {} of them",
        back.count, back.moved, used.count, used.moved, used.moving
    );
    println!(
        "    made again by a new leader, after each of them: {} plans are others",
        trace.unlike
    );
    let plane = Plane::new(&trace.fabric.problem());
    let (flows, parts) = (&trace.flows, &trace.last.parts);
    let lower = place_lower(&plane, flows, parts, trace.full).unwrap();
    let anew = place_within(&plane, flows, &[], trace.full).unwrap();
    for placement in [&lower, &anew] {
        trace.recounted(&trace.fabric.problem(), placement);
    }
    let row = |what: &str, placement: &Placement| {
        println!(
            "    {what:<44} level / bound {:.4}   pins a leaf {:>6.1}   moved {:.2} %",
            trace.ratio(placement),
            placement.parts.len() as f64 / f64::from(leaves),
            100.0 * moved(parts, &placement.parts) as f64
                / (trace.flows.all().len() as f64 * f64::from(SUBFLOWS))
        );
    };
    println!(
        "    {dead} links are dead or wait; the highest level / bound of all was {:.4}",
        trace.over
    );
    row("after all events", &trace.last);
    row("lowered once", &lower);
    row("made anew", &anew);
}

const SUBFLOWS: u32 = 16;
const HOLD_MS: u64 = 10_000;
