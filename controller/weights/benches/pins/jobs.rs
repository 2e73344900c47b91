//! Twenty jobs side by side: how much slower each is than alone, pinned and hashed.
//!
//! It refuses to know ranks and collectives: a job is who sends to whom, and how much.

use std::ops::Range;
use std::time::Instant;

use weft_weights::pin::{
    Flow, Flows, Level, Part, Phase, Plane, place_in_phases, place_within, recount,
    recount_in_phases,
};
use weft_weights::simulate::{Switches, by_switches, rates};

use super::random::Random;
use super::{Fabric, QUARTER_BPS, Speeds, ms};

/// Flows of one job.
type Job = Vec<Flow>;

/// Jobs of random sizes on so many NICs anywhere: rings, permutations, and pods of 9 or 17 that send all to all. Each NIC sends at its
/// rate.
fn jobs(fabric: &Fabric, nics: usize, random: &mut Random) -> Vec<Job> {
    let mut free: Vec<u32> = (0..fabric.leaves * fabric.spines).collect();
    for at in (1..free.len()).rev() {
        free.swap(at, random.below(at as u64 + 1) as usize);
    }
    free.truncate(nics);
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        let most = 2 * nics as u64 / JOBS - 32;
        let size = match number + 1 {
            JOBS => free.len(),
            _ => (32 + random.below(most) as usize).min(free.len()),
        };
        let members = free.split_off(free.len() - size);
        jobs.push(match number % 3 {
            0 => ring(fabric, &members),
            1 => permutation(fabric, &members, random),
            _ => pods(fabric, &members, [9, 17][random.below(2) as usize]),
        });
    }
    jobs
}

fn flow(fabric: &Fabric, from: u32, to: u32, subflows: u32) -> Option<Flow> {
    let (from, to) = (from / fabric.spines, to / fabric.spines);
    // What stays below one leaf goes over no link.
    (from != to).then_some(Flow { from, to, subflows })
}

fn ring(fabric: &Fabric, members: &[u32]) -> Job {
    let next = members.iter().skip(1).chain(members.first());
    let pairs = members.iter().zip(next);
    pairs
        .filter_map(|(from, to)| flow(fabric, *from, *to, SUBFLOWS))
        .collect()
}

fn permutation(fabric: &Fabric, members: &[u32], random: &mut Random) -> Job {
    let mut takes = members.to_vec();
    for at in (1..takes.len()).rev() {
        takes.swap(at, random.below(at as u64 + 1) as usize);
    }
    let pairs = members.iter().zip(&takes);
    pairs
        .filter_map(|(from, to)| flow(fabric, *from, *to, SUBFLOWS))
        .collect()
}

fn pods(fabric: &Fabric, members: &[u32], size: usize) -> Job {
    let each = SUBFLOWS / (size as u32 - 1);
    let pods = members.chunks_exact(size);
    let pairs = pods.flat_map(|pod| {
        pod.iter()
            .flat_map(move |from| pod.iter().map(move |to| (from, to)))
    });
    pairs
        .filter_map(|(from, to)| flow(fabric, *from, *to, each))
        .collect()
}

/// Of one way to place flows, over all cases.
struct Seen {
    /// The most that a job took beside others, as a multiple of what it takes alone.
    interference: f64,
    /// The same, of the cases in which no link has to carry more than its capacity.
    allowed: f64,
    /// The least of Jain's index of the speeds of jobs.
    jain: f64,
    /// The slowest job, as a share of the rate of its NICs.
    slowest: f64,
}

impl Seen {
    fn count(&mut self, allows: bool, beside: &[f64], alone: &[f64]) {
        let slower = beside
            .iter()
            .zip(alone)
            .map(|(beside, alone)| alone / beside);
        let interference = slower.fold(1.0, f64::max);
        self.interference = self.interference.max(interference);
        if allows {
            self.allowed = self.allowed.max(interference);
        }
        let (sum, squares) = beside.iter().fold((0.0, 0.0), |(sum, squares), it| {
            (sum + it, squares + it * it)
        });
        self.jain = self.jain.min(sum * sum / (beside.len() as f64 * squares));
        self.slowest = beside.iter().copied().fold(self.slowest, f64::min);
    }
}

/// The speed of the slowest flow of each job, as a share of what it wants.
fn speeds(plane: &Plane, jobs: &[Job], flows: &Flows, parts: &[Part]) -> Vec<f64> {
    let subflow_bps = 4.0 * QUARTER_BPS as f64 / f64::from(SUBFLOWS);
    let rates = rates(plane, flows, parts, subflow_bps);
    let mut rates = rates.iter().zip(flows.all());
    let speed = |job: &Job| {
        let of_job = rates.by_ref().take(job.len());
        let speeds = of_job.map(|(rate, flow)| rate / (f64::from(flow.subflows) * subflow_bps));
        speeds.fold(1.0, f64::min)
    };
    jobs.iter().map(speed).collect()
}

/// Prints what jobs on such a share of all NICs come to.
pub(super) fn beside(cases: u64, eighths: u32, dead_per_mille: u64) {
    let none = || Seen {
        interference: 1.0,
        allowed: 1.0,
        jain: 1.0,
        slowest: 1.0,
    };
    let (mut pinned, mut hashed, mut allowed) = (none(), none(), 0);
    for case in 0..cases {
        let mut random = Random((case + 1).wrapping_mul(0xC2B2_AE3D_27D4_EB4F));
        let fabric = Fabric::new(128, 64, dead_per_mille, Speeds::Equal, &mut random);
        let nics = fabric.leaves * fabric.spines / 8 * eighths;
        let jobs = jobs(&fabric, nics as usize, &mut random);
        let problem = fabric.problem();
        let plane = Plane::new(&problem);
        let full = Level {
            subflows: SUBFLOWS.into(),
            capacity: 4 * QUARTER_BPS,
        };
        let pin = |flows: &Flows| {
            let placement = place_within(&plane, flows, &[], full).unwrap();
            recount(&problem, flows, &placement.parts).unwrap();
            placement
        };
        let all = Flows::new(jobs.concat());
        let placement = pin(&all);
        let allows = placement.bound.level <= full;
        allowed += u64::from(allows);
        let hash = |flows: &Flows, seed| {
            let mut random = Random(seed);
            by_switches(&plane, flows, Switches::Hash, |below| random.below(below))
        };
        let (mut alone, mut alone_hashed) = (Vec::new(), Vec::new());
        for job in &jobs {
            let flows = Flows::new(job.clone());
            let one = std::slice::from_ref(job);
            alone.extend(speeds(&plane, one, &flows, &pin(&flows).parts));
            alone_hashed.extend(speeds(&plane, one, &flows, &hash(&flows, case + 1)));
        }
        pinned.count(
            allows,
            &speeds(&plane, &jobs, &all, &placement.parts),
            &alone,
        );
        hashed.count(
            allows,
            &speeds(&plane, &jobs, &all, &hash(&all, case + 1)),
            &alone_hashed,
        );
    }
    let row = |what: &str, seen: &Seen| {
        let of_allowed = match allowed {
            0 => "none".to_owned(),
            _ => format!("{:.4}", seen.allowed),
        };
        println!(
            "{what:<52} {of_allowed:>13} {:>6.4}   {:>11.4}   {:>11.3}",
            seen.interference, seen.jain, seen.slowest
        );
    };
    let what = format!(
        "{eighths}/8 of NICs, {:.1} % dead, capacity allows {allowed} of {cases}",
        dead_per_mille as f64 / 10.0
    );
    row(&what, &pinned);
    row(
        "    hashed, a QP for each of 16 sub-flows of a NIC",
        &hashed,
    );
}

/// Jobs of which each has three phases on all of its NICs: a ring, a permutation, pods all to all.
pub(super) struct Phased {
    pub(super) flows: Flows,
    pub(super) phases: Vec<Option<Phase>>,
    /// Flows of each job and phase, by their places.
    ranges: Vec<[Range<usize>; 3]>,
}

impl Phased {
    /// Jobs of three phases: `jobs` of them share all NICs of a fabric, each with NICs anywhere.
    pub(super) fn new(fabric: &Fabric, jobs: usize, random: &mut Random) -> Self {
        let mut nics: Vec<u32> = (0..fabric.leaves * fabric.spines).collect();
        for at in (1..nics.len()).rev() {
            nics.swap(at, random.below(at as u64 + 1) as usize);
        }
        let (mut all, mut phases, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (job, members) in (0..).zip(nics.chunks(nics.len().div_ceil(jobs))) {
            let of_job = [
                ring(fabric, members),
                permutation(fabric, members, random),
                pods(fabric, members, 17),
            ];
            let mut phase = 0;
            ranges.push(of_job.map(|flows| {
                let begin = all.len();
                phases.extend(vec![Some(Phase { job, phase }); flows.len()]);
                all.extend(flows);
                phase += 1;
                begin..all.len()
            }));
        }
        Self {
            flows: Flows::new(all),
            phases,
            ranges,
        }
    }

    fn job(&self, range: &Range<usize>) -> Job {
        self.flows.all()[range.clone()].to_vec()
    }

    /// How many times slower the slowest flow of a job is beside others than alone, where each job is in a phase at random: the worst
    /// job and time, and the mean of the worst jobs. Alone it is placed alone.
    fn interference(&self, plane: &Plane, parts: &[Part], full: Level) -> (f64, f64) {
        let alone = |range: &Range<usize>| {
            let job = self.job(range);
            let flows = Flows::new(job.clone());
            let placement = place_within(plane, &flows, &[], full).unwrap();
            speeds(plane, &[job], &flows, &placement.parts)[0]
        };
        let alone: Vec<[f64; 3]> = self
            .ranges
            .iter()
            .map(|of_job| of_job.each_ref().map(alone))
            .collect();
        let mut random = Random(3);
        let (mut worst, mut sum) = (1.0_f64, 0.0);
        for _ in 0..TIMES {
            let turns: Vec<usize> = alone.iter().map(|_| random.below(3) as usize).collect();
            let now = || {
                self.ranges
                    .iter()
                    .zip(&turns)
                    .map(|(of_job, turn)| &of_job[*turn])
            };
            let jobs: Vec<Job> = now().map(|range| self.job(range)).collect();
            let (mut of_now, mut begin) = (Vec::new(), 0);
            for range in now() {
                let of_range = |part: &&Part| range.contains(&(part.flow as usize));
                of_now.extend(parts.iter().filter(of_range).map(|part| Part {
                    flow: (part.flow as usize - range.start + begin) as u32,
                    ..*part
                }));
                begin += range.len();
            }
            let flows = Flows::new(jobs.concat());
            let beside = speeds(plane, &jobs, &flows, &of_now);
            let slower = beside.iter().zip(&alone).zip(&turns);
            let slowest = slower
                .map(|((beside, alone), turn)| alone[*turn] / beside)
                .fold(1.0, f64::max);
            worst = worst.max(slowest);
            sum += slowest;
        }
        (worst, sum / f64::from(TIMES))
    }
}

/// Prints what so many jobs in phases come to, for flows of more and more queue pairs. The load is that of phases that meet at the
/// worst, for each link; interference is that at random times, pinned, and with each queue pair hashed.
pub(super) fn phases(jobs: usize, dead_per_mille: u64) {
    let mut random = Random(5);
    let fabric = Fabric::new(128, 64, dead_per_mille, Speeds::Equal, &mut random);
    let nics = (fabric.leaves * fabric.spines) as usize;
    let phased = Phased::new(&fabric, jobs, &mut random);
    let problem = fabric.problem();
    let plane = Plane::new(&problem);
    let full = Level {
        subflows: SUBFLOWS.into(),
        capacity: 4 * QUARTER_BPS,
    };
    let subflow_bps = 4.0 * QUARTER_BPS as f64 / f64::from(SUBFLOWS);
    for queue_pairs in [1, 2, 4, 8, 16] {
        // Flows of one job are not divided for others.
        if jobs == 1 && queue_pairs > 1 {
            break;
        }
        let flows = phased.flows.clone();
        let flows = flows.with_pieces(vec![queue_pairs; phased.phases.len()]);
        let begun = Instant::now();
        let placed = place_in_phases(&plane, &flows, &phased.phases, &[], full).unwrap();
        let took = begun.elapsed();
        let counted = recount_in_phases(&problem, &flows, &phased.phases, &placed.parts).unwrap();
        let bound = placed.bound.level;
        let (worst, mean) = phased.interference(&plane, &placed.parts, full);
        let hashed = hashed(&plane, &flows, SUBFLOWS / queue_pairs);
        let (worst_hashed, mean_hashed) = phased.interference(&plane, &hashed, full);
        println!(
            "{jobs:>2} jobs of {:>5} NICs, {:.1} % dead, {queue_pairs:>2} queue pairs   {:>6.4} {:>6.4}   {worst:>6.3} {mean:>6.3}   {worst_hashed:>6.3} {mean_hashed:>6.3}   {:>6.1} {:>8.1} ms",
            nics / jobs,
            dead_per_mille as f64 / 10.0,
            bound.subflows as f64 * subflow_bps / bound.capacity as f64,
            counted.load(subflow_bps),
            placed.parts.len() as f64 / flows.all().len() as f64,
            ms(took)
        );
    }
}

/// Each queue pair, of so many sub-flows, over a link that a hash chooses.
fn hashed(plane: &Plane, flows: &Flows, size: u32) -> Vec<Part> {
    let mut random = Random(9);
    let of_queue_pairs = flows.all().iter().map(|flow| Flow {
        subflows: flow.subflows.div_ceil(size),
        ..*flow
    });
    let of_queue_pairs = Flows::new(of_queue_pairs.collect());
    let parts = by_switches(plane, &of_queue_pairs, Switches::Hash, |below| {
        random.below(below)
    });
    let parts = parts.into_iter().map(|part| Part {
        subflows: part.subflows * size.min(flows.all()[part.flow as usize].subflows),
        ..part
    });
    parts.collect()
}

/// Times at which jobs are looked at.
const TIMES: u32 = 20;
const JOBS: u64 = 20;
const SUBFLOWS: u32 = 16;
