//! What moves when links fail and come back, one event after the other, where each plan starts from the one before.
//!
//! It refuses to know how a plan is adopted and pushed.

use std::time::{Duration, Instant};

use weft_weights::pin::{
    Flows, Level, Part, Phase, Placement, Plane, place_in_phases, place_lower_in_phases,
    recount_in_phases,
};
use weft_weights::problem::Problem;

use super::jobs::Phased;
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
    /// Events that moved more than a twentieth beside what was displaced.
    above: u64,
    /// Events that moved something.
    moving: u64,
    /// The most that moved in one event.
    most: u64,
    slowest: Duration,
}

/// Plans one after the other.
struct Trace {
    fabric: Fabric,
    flows: Flows,
    phases: Vec<Option<Phase>>,
    full: Level,
    last: Placement,
    /// The highest that a level was above its bound, or above what links carry where that is more.
    over: f64,
    /// Plans that were made a second time and were others.
    unlike: u64,
}

impl Trace {
    /// Every NIC sends at its rate: to one other, or in jobs of three phases, of as many queue pairs as a flow has sub-flows.
    fn new(leaves: u32, spines: u32, jobs: usize, random: &mut Random) -> Self {
        let fabric = Fabric::new(leaves, spines, 0, Speeds::Equal, random);
        let (flows, phases) = match jobs {
            0 => {
                let flows = fabric.flows(Pattern::Permutation, SUBFLOWS, random);
                let phases = vec![None; flows.all().len()];
                (flows, phases)
            }
            jobs => {
                let Phased { flows, phases, .. } = Phased::new(&fabric, jobs, random);
                let pieces = vec![SUBFLOWS; phases.len()];
                (flows.with_pieces(pieces), phases)
            }
        };
        let full = Level {
            subflows: SUBFLOWS.into(),
            capacity: 4 * QUARTER_BPS,
        };
        let plane = Plane::new(&fabric.problem());
        Self {
            last: place_in_phases(&plane, &flows, &phases, &[], full).unwrap(),
            fabric,
            flows,
            phases,
            full,
            over: 1.0,
            unlike: 0,
        }
    }

    /// As weftd places: a few flows move where a link came back.
    fn placed(&self, plane: &Plane, past: &[Part], has_returned: bool) -> Placement {
        let (flows, phases) = (&self.flows, &self.phases);
        match has_returned {
            true => place_lower_in_phases(plane, flows, phases, past, self.full),
            false => place_in_phases(plane, flows, phases, past, self.full),
        }
        .unwrap()
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
    fn plan(&mut self, has_returned: bool, displaced: u64, events: &mut Events) {
        let problem = self.fabric.problem();
        let begun = Instant::now();
        let plane = Plane::new(&problem);
        let next = self.placed(&plane, &self.last.parts, has_returned);
        let took = begun.elapsed();
        self.recounted(&problem, &next);
        let again = self.placed(&plane, &next.parts, has_returned);
        self.unlike += u64::from(again.parts != next.parts);
        let moved = moved(&self.last.parts, &next.parts);
        events.count += 1;
        events.displaced += displaced;
        events.moved += moved;
        events.moving += u64::from(moved > 0);
        events.most = events.most.max(moved);
        if displaced > 0 {
            events.worst = events.worst.max(moved as f64 / displaced as f64);
            events.above += u64::from(20 * moved > 21 * displaced);
        }
        events.slowest = events.slowest.max(took);
        self.over = self.over.max(self.ratio(&next));
        self.last = next;
    }

    fn recounted(&self, problem: &Problem, placement: &Placement) {
        let (flows, phases) = (&self.flows, &self.phases);
        let counted = recount_in_phases(problem, flows, phases, &placement.parts).unwrap();
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
pub(super) fn trace(leaves: u32, spines: u32, jobs: usize, events: u64) {
    let mut random = Random(11);
    let mut trace = Trace::new(leaves, spines, jobs, &mut random);
    let (mut downs, mut back, mut used) = (Events::default(), Events::default(), Events::default());
    let (mut dead, mut waiting) = (Vec::new(), Vec::<(u64, usize)>::new());
    let mut now_ms = 0;
    for _ in 0..events {
        now_ms += random.below(8_000);
        while let Some(at) = waiting.iter().position(|(until, _)| *until <= now_ms) {
            let (_, link) = waiting.remove(at);
            trace.fabric.links[link].alive = true;
            trace.plan(true, 0, &mut used);
        }
        match random.below(8) {
            // It comes back.
            0..4 if !dead.is_empty() => {
                let link = dead.swap_remove(random.below(dead.len() as u64) as usize);
                waiting.push((now_ms + HOLD_MS, link));
                trace.plan(false, 0, &mut back);
            }
            // It came back, and fails again.
            4 if !waiting.is_empty() => {
                let (_, link) = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                dead.push(link);
                trace.plan(false, 0, &mut back);
            }
            _ => {
                let link = random.below(trace.fabric.links.len() as u64) as usize;
                if trace.fabric.links[link].alive {
                    dead.push(link);
                    let displaced = trace.on(link);
                    trace.fabric.links[link].alive = false;
                    trace.plan(false, displaced, &mut downs);
                }
            }
        }
    }
    print(&trace, [&downs, &back, &used], dead.len() + waiting.len());
}

fn print(trace: &Trace, [downs, back, used]: [&Events; 3], dead: usize) {
    let Fabric { leaves, spines, .. } = trace.fabric;
    println!(
        "{leaves} x {spines}, {} links fail: moved / displaced {:.3}, {:.2} at worst, above 1.05 in {}; {:.1} ms at worst",
        downs.count,
        downs.moved as f64 / downs.displaced as f64,
        downs.worst,
        downs.above,
        ms(downs.slowest)
    );
    println!(
        "    {} come back or fail again within 10 s: {} moved; {} are used after 10 s: {} moved, in {} of them, {} at most; {:.1} ms at worst",
        back.count,
        back.moved,
        used.count,
        used.moved,
        used.moving,
        used.most,
        ms(used.slowest)
    );
    println!(
        "    made again by a new leader, after each of them: {} plans are others",
        trace.unlike
    );
    let plane = Plane::new(&trace.fabric.problem());
    let parts = &trace.last.parts;
    let anew = trace.placed(&plane, &[], false);
    trace.recounted(&trace.fabric.problem(), &anew);
    let subflows: u64 = parts.iter().map(|part| u64::from(part.subflows)).sum();
    let row = |what: &str, placement: &Placement| {
        println!(
            "    {what:<44} level / bound {:.4}   pins a leaf {:>6.1}   moved {:.2} %",
            trace.ratio(placement),
            placement.parts.len() as f64 / f64::from(leaves),
            100.0 * moved(parts, &placement.parts) as f64 / subflows as f64
        );
    };
    println!(
        "    {dead} links are dead or wait; the highest level / bound of all was {:.4}",
        trace.over
    );
    row("after all events", &trace.last);
    row("made anew", &anew);
}

const SUBFLOWS: u32 = 16;
const HOLD_MS: u64 = 10_000;
