//! What the worst link loses where all groups are rounded together within a table, beside each group rounded alone.
//!
//! `cargo bench-tables`. Losses are counted anew by `check::links`; times are of one core, the best of several runs.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, prints, and may panic"
)]

use std::time::{Duration, Instant};

use weft_weights::check;
use weft_weights::fabric::Fabric;
use weft_weights::leaf::LeafSolution;
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::quantize::Limits;
use weft_weights::together::{Table, Tables};

#[path = "shared/random.rs"]
mod random;

use random::Random;

/// Leaves, spines, the capacities that links have at random (1 to so many times a step), and dead links in a thousand.
struct Shape {
    name: &'static str,
    leaves: u32,
    spines: u32,
    steps: u64,
    dead_per_mille: u64,
    /// 0: as large as the weights want.
    entries: &'static [u32],
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "512 x 256, 400 Gb/s, 5 % dead",
        leaves: 512,
        spines: 256,
        steps: 1,
        dead_per_mille: 50,
        entries: &[64_000, 4_096],
    },
    Shape {
        name: "128 x 64, 1 to 400 Gb/s by 1",
        leaves: 128,
        spines: 64,
        steps: 400,
        dead_per_mille: 0,
        entries: &[0, 16_000, 4_096],
    },
    Shape {
        name: "128 x 64, 100 to 400 Gb/s by 100, 5 % dead",
        leaves: 128,
        spines: 64,
        steps: 4,
        dead_per_mille: 50,
        entries: &[16_000, 4_096, 1_024],
    },
];

const RUNS: usize = 2;

fn main() {
    println!(
        "{:44} {:>8} {:>10} {:>10} {:>10} {:>12}",
        "", "entries", "alone", "together", "ms", "left out"
    );
    for shape in &SHAPES {
        let problem = shape.problem();
        let fabric = Fabric::new(&problem);
        for entries in shape.entries {
            let table = Table::new(if *entries == 0 { u32::MAX } else { *entries });
            let alone = fabric.alone(Limits::default(), table).unwrap();
            let (took, together) = (0..RUNS)
                .map(|_| {
                    let begun = Instant::now();
                    let tables = fabric.together(Limits::default(), table).unwrap();
                    (begun.elapsed(), tables)
                })
                .min_by_key(|(took, _)| *took)
                .unwrap();
            println!(
                "{:44} {:>8} {:>9.2}% {:>9.2}% {:>10.0} {:>11.1}%",
                shape.name,
                match *entries {
                    0 => "any".to_owned(),
                    entries => entries.to_string(),
                },
                100.0 * loss(&problem, table, &alone),
                100.0 * loss(&problem, table, &together),
                ms(took),
                100.0 * left_out(&together),
            );
        }
    }
}

/// What the worst link loses, and that the tables are not overfull, counted anew.
fn loss(problem: &Problem, table: Table, tables: &Tables) -> f64 {
    let counted = check::links(problem, &tables.leaves).unwrap();
    for (counted, used) in counted.leaves.iter().zip(&tables.used) {
        assert!(counted.entries <= u64::from(table.entries_max()));
        assert_eq!(counted.left_out, used.left_out);
    }
    counted.loss
}

/// Pairs of destination and live uplink without a part, of all.
fn left_out(tables: &Tables) -> f64 {
    let without: u64 = tables.used.iter().map(|used| used.left_out).sum();
    let with: u64 = tables.leaves.iter().map(members).sum();
    without as f64 / (without + with).max(1) as f64
}

/// Pairs of destination and uplink with a part.
fn members(leaf: &LeafSolution) -> u64 {
    let groups = (0..leaf.groups()).map(|group| leaf.weights(group).weights.iter());
    let members: Vec<usize> = groups
        .map(|group| group.filter(|weight| **weight > 0).count())
        .collect();
    leaf.destinations()
        .map(|(_, group)| members[group] as u64)
        .sum()
}

impl Shape {
    fn problem(&self) -> Problem {
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
                    capacity_bps: 400_000_000_000 / self.steps * (1 + random.below(self.steps)),
                    alive: random.below(1_000) >= self.dead_per_mille,
                });
            }
        }
        Problem::new(switches, links).unwrap()
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
