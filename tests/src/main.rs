//! `cargo sim -- --seed N`: runs seeds through the simulator and tells of the first that breaks an
//! invariant. Knows how to print.

use std::{
    collections::BTreeMap,
    num::NonZero,
    ops::Range,
    process::ExitCode,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};

use clap::Parser;
use weft_tests::{Failure, Options, simulate};

/// Replicas and switches under seeded faults, in virtual time.
#[derive(Parser)]
#[command(name = "weft-sim", version)]
struct Arguments {
    /// The first seed; 1 if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one per core at once; 1 when `--seed` is given, else 50.
    #[arg(long)]
    seeds: Option<u64>,
    /// Steps of 10 ms under faults, before everything heals.
    #[arg(long, default_value_t = Options::default().steps)]
    steps: u64,
    /// Last events to print when an invariant breaks.
    #[arg(long, default_value_t = Options::default().events)]
    events: usize,
}

#[expect(clippy::disallowed_macros, reason = "prints to a person")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        steps: arguments.steps,
        events: arguments.events,
    };
    let first = arguments.seed.unwrap_or(1);
    let one = arguments.seed.is_some();
    let count = arguments.seeds.unwrap_or(if one { 1 } else { 50 });
    match run(first..first + count, &options) {
        Ok(()) => {
            println!("{count} seeds, no invariant broken");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            tell(&failure);
            ExitCode::FAILURE
        }
    }
}

/// Runs seeds, one per core at once, and prints their results in the order of the seeds. Ends at the first failure.
#[expect(clippy::disallowed_macros, reason = "prints to a person")]
fn run(seeds: Range<u64>, options: &Options) -> Result<(), Box<Failure>> {
    let next = AtomicU64::new(seeds.start);
    let (results, arrived) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            let (next, end, results) = (&next, seeds.end, results.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // The receiver is gone once a seed has failed.
                    if seed >= end || results.send((seed, simulate(seed, options))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let mut waiting = BTreeMap::new();
        let mut seed = seeds.start;
        for (arrived, result) in arrived {
            waiting.insert(arrived, result);
            while let Some(result) = waiting.remove(&seed) {
                let run = result?;
                println!(
                    "seed {seed}: trace {:016x}, index {}, {} messages, {} elections",
                    run.trace, run.index, run.frames, run.elections
                );
                seed += 1;
            }
        }
        Ok(())
    })
}

#[expect(clippy::disallowed_macros, reason = "prints to a person")]
fn tell(failure: &Failure) {
    for event in &failure.events {
        eprintln!("{event}");
    }
    let Failure {
        seed, step, what, ..
    } = failure;
    eprintln!("\nseed {seed}, step {step}: {what}");
    eprintln!("again: cargo sim -- --seed {seed}");
}
