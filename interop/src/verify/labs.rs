//! Steps that run labs. A lab that fails is run once more, alone: if it passes then, it is flaky, and the history judges that.

use super::Verification;
use crate::{
    check::Checks,
    failure::Failure,
    scenario::{self, Form, Outcome},
    speakers::Suite,
};

pub(super) fn short(verification: &mut Verification) -> Result<(), Failure> {
    run(
        verification,
        &scenario::names()?,
        Form::Short,
        Suite::Installed,
    )
}

pub(super) fn long(verification: &mut Verification) -> Result<(), Failure> {
    run(
        verification,
        &scenario::long_ones()?,
        Form::Long,
        Suite::Installed,
    )
}

pub(super) fn trixie(verification: &mut Verification) -> Result<(), Failure> {
    run(
        verification,
        &holding_with(Suite::Trixie)?,
        Form::Long,
        Suite::Trixie,
    )
}

pub(super) fn testing(verification: &mut Verification) -> Result<(), Failure> {
    run(
        verification,
        &holding_with(Suite::Testing)?,
        Form::Long,
        Suite::Testing,
    )
}

fn holding_with(suite: Suite) -> Result<Vec<String>, Failure> {
    let mut names = scenario::names()?;
    names.retain(|lab| scenario::holds_with(lab, suite));
    Ok(names)
}

/// Runs labs, and those that failed once more.
fn run(
    verification: &mut Verification,
    names: &[String],
    form: Form,
    suite: Suite,
) -> Result<(), Failure> {
    let outcomes = scenario::run_each(names, form, suite, AT_ONCE)?;
    let mut total = Checks::default();
    for outcome in &outcomes {
        verification
            .history
            .took(&title(&outcome.name, form, suite), outcome.took);
        total.add(&outcome.checks);
    }
    println!("{}; slowest: {}", total.summary(), slowest(&outcomes));
    let failed: Vec<Outcome> = outcomes.into_iter().filter(has_failed).collect();
    let again = retry(&failed, |lab| {
        println!("{lab} failed; once more, alone");
        let outcomes = scenario::run_each(&[lab.to_owned()], form, suite, 1)?;
        Ok(!outcomes.iter().any(has_failed))
    })?;
    for first in again.flaky {
        let title = title(&first.name, form, suite);
        let logs = first.logs.as_deref().unwrap_or("none");
        let line = format!("FLAKY {title}: failed, then passed alone; logs of the failure: {logs}");
        println!("{line}");
        verification.flaky.push(line);
        verification.history.flaked(&first.name);
    }
    match again.failed.is_empty() {
        true => verification.history.judge(),
        false => Err(Failure::new(format!("{} failed", again.failed.join(", ")))),
    }
}

/// Labs that failed, after a second run of each.
#[derive(Debug, Default)]
struct Retried<'a> {
    /// Passed alone.
    flaky: Vec<&'a Outcome>,
    failed: Vec<&'a str>,
}

/// Runs labs that failed once more, unless there are so many that nothing can make the run green.
fn retry(
    failed: &[Outcome],
    mut passes_alone: impl FnMut(&str) -> Result<bool, Failure>,
) -> Result<Retried<'_>, Failure> {
    let mut again = Retried::default();
    for first in failed {
        if failed.len() <= RETRIED_MOST && passes_alone(&first.name)? {
            again.flaky.push(first);
        } else {
            again.failed.push(&first.name);
        }
    }
    Ok(again)
}

fn has_failed(outcome: &Outcome) -> bool {
    outcome.checks.failed > 0
}

/// The name of a run of a lab, among others of the same lab.
fn title(lab: &str, form: Form, suite: Suite) -> String {
    let form = match form {
        Form::Short => "",
        Form::Long => ", long",
    };
    match suite {
        Suite::Installed => format!("lab {lab}{form}"),
        Suite::Trixie => format!("lab {lab}{form}, trixie"),
        Suite::Testing => format!("lab {lab}{form}, testing"),
    }
}

/// The labs that took the longest, with their seconds.
fn slowest(outcomes: &[Outcome]) -> String {
    let mut by_time: Vec<&Outcome> = outcomes.iter().collect();
    by_time.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let first = by_time.iter().take(SHOWN);
    let first =
        first.map(|outcome| format!("{} {:.0} s", outcome.name, outcome.took.as_secs_f64()));
    first.collect::<Vec<_>>().join(", ")
}

/// How many labs two cores bear at once without being late.
const AT_ONCE: usize = 3;

/// If more labs fail than this, the run is red whatever a second one shows.
const RETRIED_MOST: usize = 3;

const SHOWN: usize = 8;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(name: &str, secs: u64) -> Outcome {
        Outcome {
            name: name.to_owned(),
            checks: Checks::default(),
            took: Duration::from_secs(secs),
            logs: None,
        }
    }

    #[test]
    fn a_lab_that_passes_alone_is_flaky_and_one_that_does_not_has_failed() {
        let labs = [outcome("bfd", 14), outcome("rtc", 25)];
        let again = retry(&labs, |lab| Ok(lab == "rtc")).unwrap();
        assert_eq!(again.failed, ["bfd"]);
        assert_eq!(again.flaky.len(), 1);
        assert_eq!(again.flaky[0].name, "rtc");
        assert!(retry(&[], |_| Ok(true)).unwrap().flaky.is_empty());
    }

    #[test]
    fn of_many_labs_that_failed_none_is_run_again() {
        let labs = ["a", "b", "c", "d"].map(|name| outcome(name, 1));
        let again = retry(&labs, |lab| Err(Failure::new(lab))).unwrap();
        assert_eq!(again.failed, ["a", "b", "c", "d"]);
    }

    #[test]
    fn the_slowest_labs_come_first() {
        let outcomes = [outcome("bfd", 14), outcome("idle", 40), outcome("rtc", 25)];
        assert_eq!(slowest(&outcomes), "idle 40 s, rtc 25 s, bfd 14 s");
    }

    #[test]
    fn runs_of_a_lab_have_names_of_their_own() {
        assert_eq!(title("bfd", Form::Short, Suite::Installed), "lab bfd");
        assert_eq!(
            title("bfd", Form::Long, Suite::Testing),
            "lab bfd, long, testing"
        );
    }
}
