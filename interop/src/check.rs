//! A named question with an expected answer, and the count of those that were answered as expected.

use std::time::{Duration, Instant};

use crate::{clock, expect::Lines, failure::Failure};

/// The checks of one run, in order.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    /// Name of each check of this process, and true if it held.
    pub(crate) verdicts: Vec<(String, bool)>,
}

impl Checks {
    /// Asks until the answer is the expected one or `within` has passed; then shows the difference.
    pub(crate) fn agree(
        &mut self,
        name: &str,
        within: Duration,
        expected: &Lines,
        observe: impl FnMut() -> Result<Lines, Failure>,
    ) -> Result<bool, Failure> {
        let start = Instant::now();
        let answer = agreement(within, expected, observe)?;
        Ok(self.record(
            name,
            start,
            answer.map(|()| format!("{} lines", expected.len())),
        ))
    }

    /// Counts and prints an answer that is already known. Ok: a note to print.
    pub(crate) fn record(
        &mut self,
        name: &str,
        start: Instant,
        answer: Result<String, String>,
    ) -> bool {
        let took = clock::since(start);
        self.verdicts.push((name.to_owned(), answer.is_ok()));
        match answer {
            Ok(note) => {
                self.passed += 1;
                println!("  ok    {name} ({note}, {took})");
                true
            }
            Err(difference) => {
                self.failed += 1;
                println!("  FAIL  {name} (after {took})");
                for line in difference.lines() {
                    println!("          {line}");
                }
                false
            }
        }
    }

    /// How long the next answer may take. From cold, with everything on two busy cores, a minute is
    /// generous; once something is broken, waiting does not mend it.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(if self.failed == 0 { 60 } else { 5 })
    }

    pub(crate) fn add(&mut self, others: &Self) {
        self.passed += others.passed;
        self.failed += others.failed;
    }

    pub(crate) fn summary(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

/// Asks until the answer is the expected one. Ok(Err): the difference of the last answer.
pub(crate) fn agreement(
    within: Duration,
    expected: &Lines,
    mut observe: impl FnMut() -> Result<Lines, Failure>,
) -> Result<Result<(), String>, Failure> {
    let deadline = clock::deadline(within);
    loop {
        let difference = match observe() {
            Ok(actual) if actual == *expected => return Ok(Ok(())),
            Ok(actual) => difference(expected, &actual),
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(Failure::Said(reason)) => format!("no answer: {reason}"),
        };
        if Instant::now() + BETWEEN > deadline {
            return Ok(Err(difference)); // the next answer would be too late to count
        }
        clock::pause(BETWEEN)?;
    }
}

fn difference(expected: &Lines, actual: &Lines) -> String {
    let missing: Vec<&String> = expected.difference(actual).collect();
    let surplus: Vec<&String> = actual.difference(expected).collect();
    let mut text = format!(
        "expected {} lines, found {}: {} missing, {} not expected\n",
        expected.len(),
        actual.len(),
        missing.len(),
        surplus.len()
    );
    for (title, lines) in [("expected:", missing), ("actual:  ", surplus)] {
        for line in lines.iter().take(SHOWN) {
            text.push_str(&format!("{title} {line}\n"));
        }
        if lines.len() > SHOWN {
            text.push_str(&format!("{title} and {} more\n", lines.len() - SHOWN));
        }
    }
    text
}

/// Often enough that a deadline of a second is measured well; seldom enough to leave the CPU to the lab.
const BETWEEN: Duration = Duration::from_millis(150);

/// A difference of hundreds of lines has one cause; the first few name it.
const SHOWN: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[&str]) -> Lines {
        of.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn a_difference_names_both_sides() {
        let text = difference(&lines(&["a", "b"]), &lines(&["b", "c"]));
        assert!(
            text.contains("expected: a") && text.contains("actual:   c"),
            "{text}"
        );
    }

    #[test]
    fn an_answer_that_arrives_late_enough_fails_and_is_counted() {
        let mut checks = Checks::default();
        let expected = lines(&["a"]);
        assert!(
            checks
                .agree("right", Duration::ZERO, &expected, || Ok(lines(&["a"])))
                .unwrap()
        );
        assert!(
            !checks
                .agree("wrong", Duration::ZERO, &expected, || Ok(Lines::new()))
                .unwrap()
        );
        assert!(
            !checks
                .agree("silent", Duration::ZERO, &expected, || Err(Failure::new(
                    "x"
                )))
                .unwrap()
        );
        assert_eq!(checks.summary(), "1 passed, 2 failed");
    }
}
