//! What a plan costs: index, solve and check of every leaf, and a link that changes, on one core, with peak memory.
//!
//! `cargo bench-weights`. Best and median of several runs; beside them the plain way of `tests/laws/naive.rs`, where it
//! ends in reasonable time and its products fit.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, prints, and may panic"
)]

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use weft_weights::check::Checker;
use weft_weights::fabric::Fabric;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::quantize::Limits;

#[path = "shared/random.rs"]
mod random;

use random::Random;

#[path = "../tests/laws/naive.rs"]
#[expect(dead_code, reason = "the laws read Delta, and this does not")]
mod naive;

/// A fabric in which every leaf has a link to every spine.
struct Shape {
    name: &'static str,
    leaves: u32,
    spines: u32,
    /// The capacity of a link is 1 to so many times `step_bps`, at random.
    steps: u64,
    step_bps: u64,
    /// So many links in a thousand are dead, at random.
    dead_per_mille: u64,
    plain: bool,
}

const SHAPES: [Shape; 6] = [
    Shape {
        name: "128 x 64 even",
        leaves: 128,
        spines: 64,
        steps: 1,
        step_bps: 100_000_000_000,
        dead_per_mille: 0,
        plain: true,
    },
    Shape {
        name: "128 x 64, 100 to 400 Gb/s by 100",
        leaves: 128,
        spines: 64,
        steps: 4,
        step_bps: 100_000_000_000,
        dead_per_mille: 0,
        plain: true,
    },
    Shape {
        name: "128 x 64, 1 to 400 Gb/s by 1",
        leaves: 128,
        spines: 64,
        steps: 400,
        step_bps: 1_000_000_000,
        dead_per_mille: 0,
        plain: false,
    },
    Shape {
        name: "512 x 256, 1 % dead",
        leaves: 512,
        spines: 256,
        steps: 1,
        step_bps: 400_000_000_000,
        dead_per_mille: 10,
        plain: false,
    },
    Shape {
        name: "512 x 256, 100 to 400 Gb/s by 100, 1 % dead",
        leaves: 512,
        spines: 256,
        steps: 4,
        step_bps: 100_000_000_000,
        dead_per_mille: 10,
        plain: false,
    },
    Shape {
        name: "512 x 256, 1 to 400 Gb/s by 1, 1 % dead",
        leaves: 512,
        spines: 256,
        steps: 400,
        step_bps: 1_000_000_000,
        dead_per_mille: 10,
        plain: false,
    },
];

const RUNS: usize = 7;

fn main() {
    let limits = Limits::default();
    println!("solve and check of all leaves, one core, best / median of {RUNS} runs, in ms");
    println!(
        "index: Problem::new and Fabric::new; link event: the same and all the rest after one link died"
    );
    for shape in &SHAPES {
        let (switches, mut links) = shape.parts();
        let runs: Vec<[Duration; 4]> = (0..RUNS)
            .map(|_| all_leaves(&switches, &links, limits).0)
            .collect();
        let groups: usize = all_leaves(&switches, &links, limits)
            .1
            .iter()
            .map(LeafSolution::groups)
            .sum();
        let last = links.len() - 1;
        let events: Vec<Duration> = (0..RUNS)
            .map(|_| {
                links[last / 2].alive ^= true;
                all_leaves(&switches, &links, limits).0.iter().sum()
            })
            .collect();
        println!("\n{} ({} groups)", shape.name, groups);
        for (at, what) in ["index", "solve", "index for the check", "check"]
            .iter()
            .enumerate()
        {
            line(what, runs.iter().map(|run| run[at]).collect());
        }
        line("in all", runs.iter().map(|run| run.iter().sum()).collect());
        line("link event, all leaves", events);
        println!("  {:24} {:>9} MiB", "peak memory so far", peak_mib());
    }
    println!("\nthe plain way, one run");
    for shape in SHAPES.iter().filter(|shape| shape.plain) {
        let (switches, links) = shape.parts();
        let begun = Instant::now();
        let plain = naive::Naive::new(&Problem::new(switches, links).unwrap());
        let groups = plain.solve(limits);
        let solved = begun.elapsed();
        black_box(plain.check(&groups));
        let checked = begun.elapsed() - solved;
        println!(
            "  {:40} solve {:>9.1} ms, check {:>9.1} ms",
            shape.name,
            ms(solved),
            ms(checked)
        );
    }
}

/// What each step took, and the solutions, all held at once.
fn all_leaves(
    switches: &[Switch],
    links: &[Link],
    limits: Limits,
) -> ([Duration; 4], Vec<LeafSolution>) {
    let (switches, links) = (switches.to_vec(), links.to_vec());
    let begun = Instant::now();
    let problem = Problem::new(switches, links).unwrap();
    let fabric = Fabric::new(&problem);
    let indexed = begun.elapsed();
    let leaves = fabric.leaves().filter_map(|leaf| fabric.leaf(leaf, limits));
    let solutions: Vec<LeafSolution> = leaves.collect();
    let solved = begun.elapsed();
    let checker = Checker::new(&problem);
    let prepared = begun.elapsed();
    for solution in &solutions {
        assert_eq!(checker.check_leaf(limits, solution), Ok(()));
    }
    let checked = begun.elapsed();
    let steps = [
        indexed,
        solved - indexed,
        prepared - solved,
        checked - prepared,
    ];
    (steps, solutions)
}

impl Shape {
    fn parts(&self) -> (Vec<Switch>, Vec<Link>) {
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let mut switches: Vec<Switch> = (0..self.leaves).map(|id| switch(id, 0)).collect();
        switches.extend((0..self.spines).map(|id| switch(self.leaves + id, 1)));
        let mut random = Random(1);
        let mut links = Vec::new();
        for leaf in 0..self.leaves {
            for spine in 0..self.spines {
                links.push(Link {
                    id: LinkId(leaf * self.spines + spine),
                    ends: (SwitchId(leaf), SwitchId(self.leaves + spine)),
                    capacity_bps: self.step_bps * (1 + random.below(self.steps)),
                    alive: random.below(1_000) >= self.dead_per_mille,
                });
            }
        }
        (switches, links)
    }
}

fn line(what: &str, mut runs: Vec<Duration>) {
    runs.sort_unstable();
    println!(
        "  {what:24} {:>9.1} / {:.1}",
        ms(runs[0]),
        ms(runs[runs.len() / 2])
    );
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// The most memory that this process ever had, from the kernel.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
