//! The figures of one row, the goal of each, and how they are printed.

use std::time::Duration;

use crate::attack::Attack;
use crate::network::Sources;

/// What was measured under one attack.
pub(crate) struct Figures {
    /// Of changes of a real leaf, until another leaf has them; before the attack.
    pub(crate) none: Duration,
    /// As that, under the attack.
    pub(crate) p99: Duration,
    /// Longest time to the answer of a real caller.
    pub(crate) worst: Duration,
    /// Growth of the process that was attacked.
    pub(crate) memory_mib: f64,
    /// As that, after a restart; None: it was not started again.
    pub(crate) restarted_mib: Option<f64>,
    pub(crate) elections: u64,
    /// Growth of all counters of refusals.
    pub(crate) refused: u64,
    /// Of its log.
    pub(crate) lines_a_second: f64,
    /// What must not happen, each with its name.
    pub(crate) faults: [(bool, &'static str); 3],
    /// The account of whoever attacked.
    pub(crate) note: String,
}

/// Prints names and goals of the columns.
pub(crate) fn head(is_short: bool) {
    let names = COLUMNS.iter().map(|(name, _)| *name);
    say(&line(names));
    let p99 = if is_short { "<= 1000 ms" } else { "<= 2.0x" };
    let goals = [
        "goal",
        "",
        p99,
        "<= 1.00 s",
        "<= 64 MiB",
        "<= 256 MiB",
        "0",
        "",
        "<= 20",
    ];
    say(&line(goals.into_iter()));
}

/// Prints a row, a figure that misses its goal with a "!". Returns how many do. In the short form a p99 has an absolute goal: of
/// 300 changes, on a machine that does other things too, a ratio says little.
pub(crate) fn row(attack: &Attack, sources: Sources, figures: &Figures, is_short: bool) -> usize {
    let ratio = figures.p99.as_secs_f64() / figures.none.as_secs_f64();
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    let p99_misses = if is_short {
        figures.p99 > WORST
    } else {
        ratio > P99_RATIO
    };
    let p99 = format!("{} to {} ms {ratio:.1}x", ms(figures.none), ms(figures.p99));
    let memory_mib = if attack.lasts() {
        LASTING_MIB
    } else {
        MEMORY_MIB
    };
    let refused_min = u64::from(attack.exceeds(sources));
    let restarted = figures.restarted_mib;
    let cells = [
        (attack.name.to_owned(), false),
        (sources.label().to_owned(), false),
        (p99, p99_misses),
        (
            format!("{:.2} s", figures.worst.as_secs_f64()),
            figures.worst > WORST,
        ),
        (
            format!("{:+.0} MiB", figures.memory_mib),
            figures.memory_mib > memory_mib,
        ),
        (
            restarted.map_or(String::new(), |mib| format!("{mib:+.0} MiB")),
            restarted.is_some_and(|mib| mib > memory_mib),
        ),
        (figures.elections.to_string(), figures.elections > 0),
        (figures.refused.to_string(), figures.refused < refused_min),
        (
            format!("{:.1}", figures.lines_a_second),
            figures.lines_a_second > LINES,
        ),
    ];
    let faults: Vec<_> = figures
        .faults
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, name)| *name)
        .collect();
    let missed = cells.iter().filter(|(_, misses)| *misses).count() + faults.len();
    let cells = cells.map(|(text, misses)| if misses { format!("{text}!") } else { text });
    let faults = faults
        .iter()
        .map(|fault| format!("  {fault}!"))
        .collect::<String>();
    say(&format!(
        "{}{faults}  {}",
        line(cells.into_iter()),
        figures.note
    ));
    missed
}

fn line(cells: impl Iterator<Item = impl AsRef<str>>) -> String {
    let cells = cells.zip(COLUMNS);
    let cells = cells.map(|(cell, (_, width))| format!("{:>width$}", cell.as_ref()));
    cells.collect::<Vec<_>>().join(" ")
}

#[expect(clippy::disallowed_macros, reason = "figures go to standard output")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

const COLUMNS: [(&str, usize); 9] = [
    ("attack", 16),
    ("from", 7),
    ("announce p99, none to", 26),
    ("answer", 9),
    ("memory", 11),
    ("restarted", 11),
    ("elections", 9),
    ("refused", 9),
    ("log lines/s", 11),
];
const P99_RATIO: f64 = 2.0;
const WORST: Duration = Duration::from_secs(1);
const MEMORY_MIB: f64 = 64.0;
/// Of what one leaf or one job client may leave behind.
const LASTING_MIB: f64 = 256.0;
/// Ten of refusals, and as many of all else.
const LINES: f64 = 20.0;
