//! How busy the busiest link is with weights for a traffic matrix, beside weights by capacity and the bound.
//!
//! `cargo bench-traffic`. Every solution is counted again by `check::utilization`; times are processor time of one thread, one run.
#![expect(
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a benchmark measures time, prints, and may panic"
)]

use std::fs;
use std::time::Duration;

use weft_weights::check;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::traffic::{self, Background, BackgroundAbove, Demand, Grouping, Matrix};

#[path = "shared/random.rs"]
mod random;

use random::Random;

/// Leaves, spines, and of a thousand links how many are dead.
const FABRICS: [(u32, u32, u64); 6] = [
    (128, 64, 0),
    (128, 64, 10),
    (128, 64, 50),
    (512, 256, 0),
    (512, 256, 10),
    (512, 256, 50),
];

/// Pods, leaves of each, planes, and of a thousand links in either tier how many are dead. Above each spine are as many links as
/// leaves below it, or a half or a quarter of that.
const PODS: [(Pods, u64); 6] = [
    (Pods::new(8, 16, 16, 1), 0),
    (Pods::new(8, 16, 16, 1), 10),
    (Pods::new(8, 16, 16, 1), 50),
    (Pods::new(8, 16, 16, 2), 10),
    (Pods::new(8, 16, 16, 4), 10),
    (Pods::new(16, 32, 32, 1), 10),
];

#[derive(Clone, Copy)]
struct Pods {
    pods: u32,
    leaves: u32,
    planes: u32,
    /// Links below a spine for each link above it.
    times: u32,
}

impl Pods {
    const fn new(pods: u32, leaves: u32, planes: u32, times: u32) -> Self {
        Self {
            pods,
            leaves,
            planes,
            times,
        }
    }

    /// Leaves, then spines by pod and plane, then super-spines by plane.
    fn problem(self, dead_per_mille: u64) -> Problem {
        let (leaves, spines) = (self.pods * self.leaves, self.pods * self.planes);
        let cores = self.leaves / self.times;
        let spine = |pod: u32, plane: u32| leaves + pod * self.planes + plane;
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let tiers = [(leaves, 0), (spines, 1), (self.planes * cores, 2)];
        let tiers = tiers
            .iter()
            .flat_map(|(count, tier)| vec![*tier; *count as usize]);
        let switches = (0..).zip(tiers).map(|(id, tier)| switch(id, tier));
        let mut ends = Vec::new();
        for pod in 0..self.pods {
            for plane in 0..self.planes {
                let below = (0..self.leaves).map(|leaf| pod * self.leaves + leaf);
                let above = (0..cores).map(|core| leaves + spines + plane * cores + core);
                ends.extend(below.chain(above).map(|other| (other, spine(pod, plane))));
            }
        }
        let mut random = Random(1);
        let links = (0..).zip(ends).map(|(id, (one, other))| Link {
            id: LinkId(id),
            ends: (SwitchId(one), SwitchId(other)),
            capacity_bps: LINK_BPS,
            alive: random.below(1_000) >= dead_per_mille,
        });
        Problem::new(switches.collect(), links.collect()).unwrap()
    }
}

const LINK_BPS: u64 = 400_000_000_000;

/// What leaves send to each other.
#[derive(Clone, Copy)]
enum Kind {
    /// Each leaf as much to each other leaf, at the rate of all its NICs.
    Even,
    /// The same, but every eighth leaf sends and takes four times as much.
    Skewed,
    /// As even, beside pinned flows on one link in ten, at a tenth to a half of its rate.
    Pinned,
    /// Each leaf to eight others.
    Sparse,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Even, "all to all"),
    (Kind::Skewed, "skewed"),
    (Kind::Pinned, "beside pins"),
    (Kind::Sparse, "to 8 others"),
];

fn main() {
    println!("load of the busiest link; groups of the leaf that needs most; seconds");
    println!(
        "{:32} {:12} {:>8} {:>8} {:>9} {:>9} {:>7} {:>7} {:>11} {:>6}",
        "", "", "capacity", "rounded", "by demand", "rounded", "bound", "gap", "groups", "s"
    );
    for (leaves, spines, dead) in FABRICS {
        for (kind, name) in KINDS {
            let problem = problem(leaves, spines, dead);
            let matrix = matrix(&problem, leaves, spines, 1, kind);
            // Where most leaves have a dead link of their own, few destinations share a group.
            let is_merged = leaves == 128 || dead == 0;
            let merged = is_merged.then_some(Grouping::ByCapacity);
            for grouping in [Grouping::ByDestination].into_iter().chain(merged) {
                let what = match grouping {
                    Grouping::ByDestination => name,
                    Grouping::ByCapacity => "  merged",
                };
                let title = format!("{leaves} x {spines}, {} % dead", dead / 10);
                solved(
                    &problem,
                    &matrix,
                    grouping,
                    &format!("{title:32} {what:12}"),
                );
            }
        }
    }
    for (of, dead) in PODS {
        for (kind, name) in KINDS {
            let problem = of.problem(dead);
            let matrix = matrix(&problem, of.pods * of.leaves, of.planes, of.times, kind);
            let title = format!(
                "{} pods of {} x {}, {}:1, {} % dead",
                of.pods,
                of.leaves,
                of.planes,
                of.times,
                dead / 10
            );
            let title = format!("{title:32} {name:12}");
            solved(&problem, &matrix, Grouping::ByDestination, &title);
        }
    }
}

fn solved(problem: &Problem, matrix: &Matrix, grouping: Grouping, title: &str) {
    let begun = processor_time();
    let solution = traffic::solve(problem, matrix, Limits::default(), grouping).unwrap();
    line(problem, matrix, &solution, processor_time() - begun, title);
}

fn line(
    problem: &Problem,
    matrix: &Matrix,
    solution: &traffic::Solution,
    took: Duration,
    title: &str,
) {
    let counted = check::utilization(problem, matrix, &solution.leaves).unwrap();
    let of = solution.utilization;
    assert!((counted.utilization - of.weights).abs() < 1e-9 * of.weights);
    let groups = solution.groups.iter().max().unwrap();
    println!(
        "{title} {:8.4} {:8.4} {:9.4} {:9.4} {:7.4} {:6.2}% {:>11} {:6.2}",
        of.capacity_shares,
        of.capacity_weights,
        of.shares,
        of.weights,
        of.bound,
        100.0 * (of.weights / of.bound - 1.0),
        groups,
        took.as_secs_f64(),
    );
}

/// What this thread had of a processor, from the kernel: others on the machine do not count.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn problem(leaves: u32, spines: u32, dead_per_mille: u64) -> Problem {
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let mut switches: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
    switches.extend((0..spines).map(|id| switch(leaves + id, 1)));
    let mut random = Random(1);
    let mut links = Vec::new();
    for leaf in 0..leaves {
        for spine in 0..spines {
            links.push(Link {
                id: LinkId(leaf * spines + spine),
                ends: (SwitchId(leaf), SwitchId(leaves + spine)),
                capacity_bps: LINK_BPS,
                alive: random.below(1_000) >= dead_per_mille,
            });
        }
    }
    Problem::new(switches, links).unwrap()
}

/// Every leaf sends at the rate of its links, or so many times less.
fn matrix(problem: &Problem, leaves: u32, spines: u32, less: u32, kind: Kind) -> Matrix {
    let mut random = Random(7);
    let rate = LINK_BPS * u64::from(spines) / u64::from(less);
    let even = rate / u64::from(leaves - 1);
    let mut matrix = Matrix::default();
    for from in 0..leaves {
        for to in (0..leaves).filter(|to| *to != from) {
            let times = |leaf: u32| if leaf.is_multiple_of(8) { 4 } else { 1 };
            let bps = match kind {
                Kind::Even => even,
                Kind::Pinned => even / 2,
                // A leaf sends at its rate at most.
                Kind::Skewed => even / 8 * times(from) * times(to),
                Kind::Sparse if random.below(u64::from(leaves)) < 8 => rate / 8,
                Kind::Sparse => 0,
            };
            matrix.demands.push(Demand {
                from: SwitchId(from),
                to: SwitchId(to),
                bps,
            });
        }
    }
    if matches!(kind, Kind::Pinned) {
        let of_leaf = |link: &&Link| problem.tier(link.ends.0) == Some(0);
        for link in problem.links().filter(|link| link.alive).filter(of_leaf) {
            if random.below(10) == 0 {
                matrix.background.push(Background {
                    leaf: link.ends.0,
                    spine: link.ends.1,
                    up_bps: LINK_BPS / 10 * (1 + random.below(5)),
                    down_bps: LINK_BPS / 10 * (1 + random.below(5)),
                });
            }
        }
        let spines = problem.switches().filter(|(_, tier)| *tier == 1);
        let has_above = |spine| {
            let mut links = problem.links().filter(|link| link.alive);
            links.any(|link| link.ends.1 == spine && problem.tier(link.ends.0) == Some(2))
        };
        for (spine, _) in spines.filter(|(spine, _)| has_above(*spine)) {
            if random.below(10) == 0 {
                matrix.above.push(BackgroundAbove {
                    spine,
                    up_bps: LINK_BPS * (1 + random.below(5)),
                    down_bps: LINK_BPS * (1 + random.below(5)),
                });
            }
        }
    }
    matrix
}
