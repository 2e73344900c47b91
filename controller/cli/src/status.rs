//! `weft status`: all that is wrong, on one screen. What cannot be looked at is said to be so, and the rest is looked at.

use std::io::{self, Write};

use serde::Serialize;

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::printable;
use crate::progress::Progress;

mod fabric;
mod jobs;
mod links;
mod overlay;
mod sessions;

/// Asks, prints, and fails if anything is wrong.
pub(crate) async fn run(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    // Who does not take a connection at all need not be asked ten times.
    connection
        .read(async || connection.fabric().await.map(drop))
        .await?;
    let mut report = Report::new(connection, dialog.progress);
    sessions::replicas(&mut report).await;
    sessions::config(&mut report).await;
    sessions::peers(&mut report).await;
    let declared = fabric::fabric(&mut report).await;
    links::links(&declared, &mut report).await;
    overlay::vteps(&declared.leaves, &mut report).await;
    fabric::agents(&mut report).await;
    fabric::plans(&mut report).await;
    jobs::jobs(&mut report).await;
    overlay::macs(&mut report).await;
    overlay::hosts(&mut report).await;
    let Report {
        replica,
        parts,
        failure,
        ..
    } = report;
    let known = parts.iter().any(|part| part.known);
    let screen = Screen {
        replica,
        address: connection.address().to_owned(),
        parts,
    };
    let wrong = screen.parts.iter().map(|part| part.wrong.len()).sum();
    if !dialog.object(&screen)? {
        screen.print(dialog.out)?;
    }
    match (failure, wrong) {
        (Some(failure), _) if !known => Err(failure),
        (_, 0) => Ok(()),
        (_, 1) => Err(Failure::Unmet("1 thing is wrong".to_owned())),
        (_, count) => Err(Failure::Unmet(format!("{count} things are wrong"))),
    }
}

/// What is looked at, in order, and whom to ask.
struct Report<'a> {
    connection: &'a Connection,
    progress: &'a Progress,
    /// Raft id of the replica that was asked; 0: it did not say.
    replica: u64,
    parts: Vec<Part>,
    /// Why the first part that is not known is not.
    failure: Option<Failure>,
}

/// As it is printed; no message has it, for it is many answers.
#[derive(Serialize)]
struct Screen {
    /// Raft id of the replica that was asked; 0: it did not say.
    replica: u64,
    address: String,
    parts: Vec<Part>,
}

/// What was looked at in one place.
#[derive(Default, Serialize)]
struct Part {
    what: &'static str,
    /// How much there is.
    summary: String,
    /// It could be looked at.
    known: bool,
    wrong: Vec<String>,
    /// What an operator wanted so, or declared beyond what links carry.
    notes: Vec<String>,
}

impl<'a> Report<'a> {
    fn new(connection: &'a Connection, progress: &'a Progress) -> Self {
        Self {
            connection,
            progress,
            replica: 0,
            parts: Vec::new(),
            failure: None,
        }
    }

    /// A part that could be looked at.
    fn part(&mut self, what: &'static str, summary: impl Into<String>, wrong: Vec<String>) {
        self.noted(what, summary, wrong, Vec::new());
    }

    /// The same, with what is as an operator wanted it.
    fn noted(
        &mut self,
        what: &'static str,
        summary: impl Into<String>,
        wrong: Vec<String>,
        notes: Vec<String>,
    ) {
        self.parts.push(Part {
            what,
            summary: summary.into(),
            known: true,
            wrong,
            notes,
        });
    }

    /// A part that could not be looked at.
    fn unknown(&mut self, what: &'static str, failure: Failure) {
        self.parts.push(Part {
            what,
            summary: "not known".to_owned(),
            wrong: vec![failure.to_string()],
            ..Part::default()
        });
        self.failure.get_or_insert(failure);
    }

    /// Hears how much of a part was read.
    fn count(&self, what: &'static str) -> impl FnMut(usize) {
        move |count| self.progress.say(format!("{count} {what} so far"))
    }
}

impl Screen {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "replica {} at {}", self.replica, self.address)?;
        for part in &self.parts {
            part.print(out)?;
        }
        Ok(())
    }
}

impl Part {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let summary = printable(&self.summary);
        let verdict = match self.wrong.len() {
            0 => "ok".to_owned(),
            count => format!("{count} wrong"),
        };
        writeln!(out, "{:<9} {summary:<56} {verdict}", self.what)?;
        let lines: Vec<_> = self.wrong.iter().chain(&self.notes).collect();
        // The last line counts the rest.
        let shown = match lines.len() {
            0..=SHOWN => lines.len(),
            _ => SHOWN - 1,
        };
        for line in &lines[..shown] {
            writeln!(out, "  {}", printable(line))?;
        }
        match lines.len() - shown {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more"),
        }
    }
}

/// Lines of each part: all parts fit on a screen.
const SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_five_lines_at_most() {
        let print = |wrong: usize, notes: usize| {
            let lines = |count| (0..count).map(|at| format!("line {at}")).collect();
            let part = Part {
                what: "peers",
                known: true,
                wrong: lines(wrong),
                notes: lines(notes),
                ..Part::default()
            };
            let mut out = Vec::new();
            part.print(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(print(0, 2).lines().next().unwrap().ends_with(" ok"));
        assert_eq!(print(3, 2).lines().count(), 6);
        let long = print(100, 1);
        assert_eq!(long.lines().count(), 6);
        assert!(
            long.contains(" 100 wrong\n") && long.ends_with("  and 97 more\n"),
            "{long}"
        );
    }
}
