//! Labs side by side. Most wait for timers, so that two cores bear several; each is a process of its own, and what it
//! prints is shown once it has ended.

use std::{
    collections::VecDeque,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::LOGS;
use crate::{
    check::Checks,
    clock,
    failure::{Context, Failure},
};

/// A lab that was run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) checks: Checks,
    pub(crate) took: Duration,
    /// Where the logs are, if it failed and kept some.
    pub(crate) logs: Option<String>,
}

/// Runs labs, `jobs` at once, each by `lab --no-build` with these options.
pub(super) fn run(
    names: &[String],
    jobs: usize,
    options: &[String],
) -> Result<Vec<Outcome>, Failure> {
    let mut waiting: VecDeque<&String> = names.iter().collect();
    let mut running: Vec<Job> = Vec::new();
    let mut outcomes = Vec::new();
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < jobs.max(1)
            && let Some(name) = waiting.pop_front()
        {
            running.push(Job::start(name, options)?);
        }
        clock::pause(BETWEEN)?;
        let mut still = Vec::new();
        for mut job in running {
            match job.child.try_wait().context(|| job.name.clone())? {
                None => still.push(job),
                Some(_) => outcomes.push(job.ended()?),
            }
        }
        running = still;
    }
    Ok(outcomes)
}

/// The run of one lab.
struct Job {
    name: String,
    child: Child,
    output: PathBuf,
    begun: Instant,
}

impl Job {
    fn start(name: &str, options: &[String]) -> Result<Self, Failure> {
        let own = std::process::id();
        let output = std::env::temp_dir().join(format!("weft-lab-{own}-{name}.out"));
        let file = File::create(&output).context(|| output.display().to_string())?;
        let errors = file.try_clone().context(|| output.display().to_string())?;
        let child = Command::new(THIS_PROGRAM)
            .args(["lab", "--no-build"])
            .args(options)
            .arg(name)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .context(|| format!("a run of {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            output,
            begun: Instant::now(),
        })
    }

    /// Prints what it said, and counts its checks. One that ended without its last line has failed.
    fn ended(self) -> Result<Outcome, Failure> {
        let said = fs::read_to_string(&self.output).context(|| self.name.clone())?;
        let (lines, last) = split(&said);
        print!("{lines}");
        let checks = counted(last).unwrap_or_else(|| {
            println!("  FAIL  {}: {last}", self.name);
            Checks {
                failed: 1,
                ..Checks::default()
            }
        });
        let logs = lines.lines().find_map(|line| line.strip_prefix(LOGS));
        Ok(Outcome {
            name: self.name.clone(),
            checks,
            took: self.begun.elapsed(),
            logs: logs.map(str::to_owned),
        })
    }
}

impl Drop for Job {
    /// Ends a run that still goes on with SIGTERM: it takes its lab down by itself, as after a Ctrl-C.
    fn drop(&mut self) {
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let _gone_already = kill(Pid::from_raw(pid), Signal::SIGTERM);
            let _reaped = self.child.wait();
        }
        let _gone_already = fs::remove_file(&self.output);
    }
}

/// The program that runs, also after cargo has put another one in its place.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// All lines but the last, and that.
fn split(said: &str) -> (&str, &str) {
    let said = said.trim_end();
    match said.rfind('\n') {
        Some(at) => said.split_at(at + 1),
        None => ("", said),
    }
}

/// `3 passed, 0 failed`.
fn counted(line: &str) -> Option<Checks> {
    let (passed, failed) = line.split_once(" passed, ")?;
    Some(Checks {
        passed: passed.parse().ok()?,
        failed: failed.strip_suffix(" failed")?.parse().ok()?,
        ..Checks::default()
    })
}

const BETWEEN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_run_is_its_count() {
        let of = |said| {
            let (lines, last) = split(said);
            let counted = counted(last).map(|checks| (checks.passed, checks.failed));
            (lines, counted)
        };
        let run = "lab bfd\n  ok    a\n5 passed, 1 failed\n";
        assert_eq!(of(run), ("lab bfd\n  ok    a\n", Some((5, 1))));
        assert_eq!(of("0 passed, 0 failed"), ("", Some((0, 0))));
        assert_eq!(of("lab bfd\nno such file"), ("lab bfd\n", None));
        let summary = Checks {
            passed: 7,
            ..Checks::default()
        };
        assert_eq!(of(&summary.summary()), ("", Some((7, 0))));
    }
}
