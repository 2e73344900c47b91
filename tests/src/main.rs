//! `cargo sim -- --seed N`: runs seeds through the simulator and tells of the first that breaks an
//! invariant. Knows how to print.

use std::process::ExitCode;

use clap::Parser;
use weft_tests::{Failure, Options, simulate};

/// Replicas and switches under seeded faults, in virtual time.
#[derive(Parser)]
#[command(name = "weft-sim", version)]
struct Arguments {
    /// The first seed; 1 if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after the other; 1 when `--seed` is given, else 50.
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
    for seed in first..first + count {
        match simulate(seed, &options) {
            Ok(run) => println!(
                "seed {seed}: trace {:016x}, index {}, {} messages, {} elections",
                run.trace, run.index, run.frames, run.elections
            ),
            Err(failure) => {
                tell(&failure);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{count} seeds, no invariant broken");
    ExitCode::SUCCESS
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
