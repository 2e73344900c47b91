//! `cargo verify`: every check of the tree as a named step. A step that cannot run has failed, unless
//! somebody asked to skip it by name.

mod clients;
mod fuzz;
mod history;
mod labs;
mod step;
mod tree;

use std::{path::Path, process::Command, time::Instant};

use crate::{clock, command, failure::Failure, packages};

use history::History;
use step::{STEPS, Step};

#[derive(clap::Args, Default)]
pub(crate) struct Arguments {
    /// Take every step: long forms, long campaigns, the speakers of every release
    #[arg(long)]
    all: bool,
    /// Leave out the labs, and what else needs root
    #[arg(long)]
    without_root: bool,
    /// Leave out a step, by name; may be given several times
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Run only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Print the steps, the command that takes each, and how long each took in its last run
    #[arg(long)]
    list: bool,
    /// Seconds for each fuzz target [default: 4; in long-fuzz 120]
    #[arg(long)]
    fuzz_secs: Option<u32>,
}

/// One run: what was asked for, and what is known of it and of those before.
struct Verification {
    arguments: Arguments,
    history: History,
    /// A line for each lab that failed and then passed alone.
    flaky: Vec<String>,
}

/// Ok(false): a step failed.
pub(crate) fn run(arguments: Arguments) -> Result<bool, Failure> {
    let file = history::file()?;
    let history = History::read(&file);
    if arguments.list {
        STEPS
            .iter()
            .for_each(|step| println!("{}", row(step, &history)));
        return Ok(true);
    }
    for name in arguments.skip.iter().chain(&arguments.only) {
        if !STEPS.iter().any(|step| step.name == name) {
            return Err(Failure::new(format!(
                "no step {name}: there are {}",
                STEPS.map(|step| step.name).join(", ")
            )));
        }
    }
    packages::install(&[&packages::BUILD])?;
    let mut verification = Verification {
        arguments,
        history,
        flaky: Vec::new(),
    };
    verification.take_all(&file)
}

impl Verification {
    /// Takes the steps that were asked for, and prints how each ended. The file has their times after each of them.
    fn take_all(&mut self, file: &Path) -> Result<bool, Failure> {
        let begun = Instant::now();
        if STEPS
            .iter()
            .any(|step| step.runs_labs() && step.is_taken(&self.arguments))
        {
            self.history.begin();
        }
        let mut lines = Vec::new();
        let (mut passed, mut failed) = (0, 0);
        for step in &STEPS {
            let Step { name, asks, .. } = step;
            if !step.is_taken(&self.arguments) {
                if step.is_taken(&Arguments {
                    all: self.arguments.all,
                    ..Arguments::default()
                }) {
                    lines.push(format!("skip  {name}"));
                }
                continue;
            }
            println!("\n== {name}: {asks}");
            let start = Instant::now();
            let done = (step.run)(self);
            if clock::interrupted() {
                return Err(Failure::Interrupted);
            }
            let took = clock::since(start);
            self.history.took(name, start.elapsed());
            self.history.write(file)?;
            match done {
                Ok(()) => {
                    passed += 1;
                    lines.push(format!("ok    {name:9} {took}"));
                }
                Err(reason) => {
                    failed += 1;
                    println!("FAIL {name}: {reason}");
                    lines.push(format!("FAIL  {name:9} {took}: {reason}"));
                }
            }
        }
        println!("\n{}", lines.join("\n"));
        println!("      in all    {}{}", clock::since(begun), self.goals());
        self.flaky.iter().for_each(|line| println!("{line}"));
        println!("{passed} passed, {failed} failed");
        Ok(failed == 0)
    }

    /// The goals that the time of a whole run stands beside; empty for other runs.
    fn goals(&self) -> &'static str {
        let Arguments {
            all, skip, only, ..
        } = &self.arguments;
        if *all || self.arguments.without_root || !skip.is_empty() || !only.is_empty() {
            return "";
        }
        "; goals: 1800 s if one file of the controller changed, 3300 s on an empty machine"
    }
}

/// A step as `--list` prints it.
fn row(step: &Step, history: &History) -> String {
    let last = history.last(step.name);
    format!(
        "{:9} {:6} {last:>9}  {}",
        step.name,
        step.scope.command(),
        step.asks
    )
}

fn pass(command: &mut Command) -> Result<(), Failure> {
    let line = format!("{command:?}");
    if command::show(command)? {
        Ok(())
    } else {
        Err(Failure::new(format!("{line} failed")))
    }
}
