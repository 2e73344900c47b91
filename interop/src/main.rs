//! The runner behind `cargo demo`, `cargo verify`, `cargo interop` and the benchmark. It starts
//! programs and looks at what they did; it links nothing of what it tests but the two codecs, which
//! the load generator encodes with, so that it builds in seconds on a machine that has none of weft's
//! build needs yet.

#![expect(
    clippy::disallowed_methods,
    reason = "real time passes in a lab: this is the one room that may look at the clock and sleep"
)]
#![expect(
    clippy::disallowed_macros,
    reason = "a command for people: what it finds goes to standard output"
)]

mod bench;
mod check;
mod clock;
mod command;
mod daemon;
mod demo;
mod evpn;
mod expect;
mod failure;
mod flows;
mod frr;
mod kubernetes;
mod lab;
mod namespace;
mod packages;
mod programs;
mod resilience;
mod sabotage;
mod scenario;
mod speakers;
mod story;
mod tables;
mod timings;
mod topology;
mod traffic;
mod verify;
mod weft;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

#[derive(Parser)]
#[command(
    name = "weft-interop",
    about = "Labs with real speakers, and the checks of the tree"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The main job, end to end: three replicas, four FRR leaves, a killed replica (needs root)
    Demo(demo::Arguments),
    /// Every check of the tree, ending with `N passed, 0 failed` (needs root)
    Verify(verify::Arguments),
    /// Runs labs; all of them if none is named (needs root)
    Lab(scenario::Arguments),
    /// Measures weft as a reflector beside FRR
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = clock::watch_signals().and_then(|()| match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Lab(arguments) => scenario::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Interrupted) => {
            println!("interrupted");
            ExitCode::from(130)
        }
        Err(Failure::Said(reason)) => {
            println!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}
