//! `weft status`: all that is wrong, on one screen. All parts and all replicas are asked at once. A part that cannot be looked at is named,
//! and the others are shown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use tokio::join;
use tokio::time::Instant;

use crate::config::replicas::compared;
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
    let until = Instant::now() + WITHIN;
    let connection = dialog.connection.hasty(WITHIN);
    let (each, progress) = (connection.each(), dialog.progress);
    let agreed = async {
        // Without a majority each part says what it lacks.
        let _ = connection.settle().await;
        let left = until.saturating_duration_since(Instant::now());
        let report = Report::new(connection.hasty(left.max(AT_LEAST)), progress);
        (report.parts().await, report)
    };
    // One replica is not compared with itself.
    let several: &[Connection] = if each.len() < 2 { &[] } else { &each };
    let ((mut parts, report), peers, compared) =
        join!(agreed, sessions::peers(&each, progress), compared(several));
    let (peers, mut silent) = peers;
    let config = sessions::config(&compared, several.len(), &report.group.borrow());
    silent.extend(compared.silent);
    // One cause is one line, whatever was not read for it.
    parts[0].wrong.extend(silent);
    parts.splice(1..1, [config, Part::of("peers", peers)]);
    let known = parts.iter().any(|part| part.known);
    if !known && let Some(failure) = parts.iter_mut().find_map(|part| part.failure.take()) {
        return Err(failure);
    }
    let screen = Screen::new(report.replica.get(), connection.address(), parts);
    let wrong = screen.parts.iter().map(|part| part.wrong.len()).sum();
    if !dialog.object(&screen)? {
        screen.print(dialog.out)?;
    }
    match wrong {
        0 => Ok(()),
        1 => Err(Failure::Unmet("1 thing is wrong".to_owned())),
        count => Err(Failure::Unmet(format!("{count} things are wrong"))),
    }
}

/// The replicas that are asked for everything that they agree on.
struct Report<'a> {
    connection: Connection,
    progress: &'a Progress,
    /// Raft id of the replica that answered; 0: none did.
    replica: Cell<u64>,
    /// Raft ids of all replicas.
    group: RefCell<BTreeSet<u64>>,
}

/// As it is printed; no message has it, for it is many answers.
#[derive(Serialize)]
struct Screen {
    /// Raft id of the replica that answered; 0: none did.
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
    /// Reason of a part that could not be looked at.
    #[serde(skip)]
    failure: Option<Failure>,
}

impl<'a> Report<'a> {
    fn new(connection: Connection, progress: &'a Progress) -> Self {
        Self {
            connection,
            progress,
            replica: Cell::new(0),
            group: RefCell::default(),
        }
    }

    /// Looks at every part that all replicas agree on, in the order of the screen.
    async fn parts(&self) -> Vec<Part> {
        let (replicas, declared, agents, plans, jobs, macs, hosts) = join!(
            sessions::replicas(self),
            self.declared(),
            fabric::agents(self),
            fabric::plans(self),
            jobs::jobs(self),
            overlay::macs(self),
            overlay::hosts(self),
        );
        let mut parts = vec![Part::of("replicas", replicas)];
        parts.extend(declared);
        parts.push(Part::of("agents", agents));
        parts.push(Part::of("plans", plans));
        parts.push(Part::of("jobs", jobs));
        parts.push(Part::of("macs", macs));
        parts.push(Part::of("hosts", hosts));
        parts
    }

    /// Looks at the declared fabric, then at what it is compared with.
    async fn declared(&self) -> [Part; 3] {
        match fabric::fabric(self).await {
            Ok((fabric, declared)) => {
                let (links, vteps) = join!(
                    links::links(&declared, self),
                    overlay::vteps(&declared.leaves, self)
                );
                let links = Part::of("links", links);
                [fabric.named("fabric"), links, Part::of("vteps", vteps)]
            }
            Err(failure) => [
                Part::of("fabric", Err(failure)),
                Part::skipped("links"),
                Part::skipped("vteps"),
            ],
        }
    }

    /// Hears how much of a part was read.
    fn count(&self, what: &'static str) -> impl FnMut(usize) {
        move |count| self.progress.say(format!("{count} {what} so far"))
    }
}

impl Part {
    /// A part that could be looked at.
    fn new(summary: impl Into<String>, wrong: Vec<String>) -> Self {
        Self {
            summary: summary.into(),
            known: true,
            wrong,
            ..Self::default()
        }
    }

    /// Adds what is as an operator wanted it.
    fn noted(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    fn named(self, what: &'static str) -> Self {
        Self { what, ..self }
    }

    /// A part as it was looked at, or the reason why it could not be.
    fn of(what: &'static str, looked: Result<Self, Failure>) -> Self {
        match looked {
            Ok(part) => part.named(what),
            Err(failure) => Self {
                wrong: vec![failure.to_string()],
                failure: Some(failure),
                ..Self::skipped(what)
            },
        }
    }

    /// A part that was not looked at, because another one could not be.
    fn skipped(what: &'static str) -> Self {
        Self {
            what,
            summary: "not known".to_owned(),
            ..Self::default()
        }
    }

    fn verdict(&self) -> String {
        match (self.wrong.len(), self.known) {
            (0, true) => "ok".to_owned(),
            (0, false) => "-".to_owned(),
            (count, _) => format!("{count} wrong"),
        }
    }
}

impl Screen {
    /// A reason for which several parts are not known stands at the first of them.
    fn new(replica: u64, address: &str, mut parts: Vec<Part>) -> Self {
        let mut reasons = BTreeSet::new();
        for part in parts.iter_mut().filter(|part| !part.known) {
            part.wrong.retain(|reason| reasons.insert(reason.clone()));
        }
        Self {
            replica,
            address: address.to_owned(),
            parts,
        }
    }

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
        let verdict = self.verdict();
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

/// Longest time that a replica is waited for, with the search for one that has a majority: the command ends within 3 s.
const WITHIN: Duration = Duration::from_millis(2_400);
/// Least time for an answer after that search.
const AT_LEAST: Duration = Duration::from_millis(400);
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
