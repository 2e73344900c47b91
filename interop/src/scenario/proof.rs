//! A proof that the checks of a lab can fail: the lab as it is, then broken in each way that it has, and under which breaks each check
//! failed. It does not know how a lab is broken.

use super::{Arguments, Plot, prepare, run_lab, typed};
use crate::{check::Checks, failure::Failure, programs::Programs, sabotage::Break};

/// Ok(false): a lab does not pass as it is, or passes although it is broken.
pub(super) fn of(labs: &[String], arguments: &Arguments) -> Result<bool, Failure> {
    let programs = prepare(labs, arguments)?;
    let mut holds = true;
    for lab in labs {
        let whole = run(lab, arguments, None, programs.as_ref())?;
        let mut broken = Vec::new();
        for kind in Plot::read(lab)?.breaks() {
            let checks = run(lab, arguments, Some(kind), programs.as_ref())?;
            holds &= checks.failed > 0;
            broken.push((typed(&kind).unwrap_or_default(), checks));
        }
        holds &= whole.failed == 0;
        println!("| check of {lab} | fails under |\n| --- | --- |");
        rows(&whole, &broken)
            .iter()
            .for_each(|row| println!("{row}"));
    }
    Ok(holds)
}

/// One run. An error that ends it, which a break may bring about, is a check that failed.
fn run(
    lab: &str,
    arguments: &Arguments,
    sabotage: Option<Break>,
    programs: Option<&Programs>,
) -> Result<Checks, Failure> {
    let arguments = Arguments {
        short: arguments.short,
        reflector: arguments.reflector,
        speakers: arguments.speakers,
        runs: arguments.runs,
        sabotage,
        ..Arguments::default()
    };
    match run_lab(lab, &arguments, programs.cloned()) {
        Err(Failure::Said(reason)) => {
            println!("  FAIL  {reason}");
            Ok(Checks {
                failed: 1,
                ..Checks::default()
            })
        }
        checks => checks,
    }
}

/// A row for each check of the whole lab, in order, with the breaks under which it failed.
fn rows(whole: &Checks, broken: &[(String, Checks)]) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for (check, _) in &whole.verdicts {
        let fails = |checks: &Checks| {
            checks
                .verdicts
                .iter()
                .any(|(it, held)| it == check && !held)
        };
        let under = broken.iter().filter(|(_, checks)| fails(checks));
        let under: Vec<&str> = under.map(|(kind, _)| kind.as_str()).collect();
        let row = format!("| {check} | {} |", under.join(", "));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_names_the_breaks_under_which_it_failed() {
        let of = |verdicts: &[(&str, bool)]| Checks {
            verdicts: verdicts
                .iter()
                .map(|(name, held)| ((*name).to_owned(), *held))
                .collect(),
            ..Checks::default()
        };
        let whole = of(&[("up", true), ("told", true), ("told", true), ("gone", true)]);
        let broken = [
            (
                "silent".to_owned(),
                of(&[("up", true), ("told", true), ("told", false)]),
            ),
            (
                "meddled".to_owned(),
                of(&[("told", false), ("gone", false)]),
            ),
        ];
        let expected = [
            "| up |  |",
            "| told | silent, meddled |",
            "| gone | meddled |",
        ];
        assert_eq!(rows(&whole, &broken), expected);
    }
}
