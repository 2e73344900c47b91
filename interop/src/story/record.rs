//! How often each check of a repeated part held, and how long it took.

use std::{fmt, time::Duration};

/// By check, in the order in which they were first made.
#[derive(Debug, Default)]
pub(super) struct Record(Vec<Row>);

#[derive(Debug)]
struct Row {
    check: String,
    failed: usize,
    /// Of those that held.
    took: Vec<Duration>,
}

impl Record {
    pub(super) fn add(&mut self, check: &str, held: bool, took: Duration) {
        let at = match self.0.iter().position(|row| row.check == check) {
            Some(at) => at,
            None => {
                self.0.push(Row {
                    check: check.to_owned(),
                    failed: 0,
                    took: Vec::new(),
                });
                self.0.len() - 1
            }
        };
        match held {
            true => self.0[at].took.push(took),
            false => self.0[at].failed += 1,
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "  | check | held | median s | slowest s |")?;
        writeln!(f, "  | --- | --- | --- | --- |")?;
        for row in &self.0 {
            let held = row.took.len();
            write!(f, "  | {} | {held} of {} |", row.check, held + row.failed)?;
            let mut took = row.took.clone();
            took.sort();
            match (took.get(held / 2), took.last()) {
                (Some(median), Some(slowest)) => writeln!(
                    f,
                    " {:.1} | {:.1} |",
                    median.as_secs_f64(),
                    slowest.as_secs_f64()
                )?,
                _ => writeln!(f, " | |")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_counted_by_its_name_with_the_median_and_the_slowest() {
        let mut record = Record::default();
        for (held, millis) in [(true, 100), (true, 900), (false, 5000), (true, 200)] {
            record.add("gone", held, Duration::from_millis(millis));
        }
        record.add("never", false, Duration::ZERO);
        let said = record.to_string();
        let rows: Vec<&str> = said.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "  | gone | 3 of 4 | 0.2 | 0.9 |",
                "  | never | 0 of 1 | | |"
            ]
        );
    }
}
