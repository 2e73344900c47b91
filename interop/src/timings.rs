//! A build, and where its time went: seconds of each crate, as `cargo --timings` reports them. It does not know what is built.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Instant};

use serde::Deserialize;

use crate::{clock, command, failure::Failure};

/// A compilation, or the run of a build script.
#[derive(Debug, Deserialize)]
struct Unit {
    name: String,
    target: String,
    /// Seconds.
    duration: f64,
}

/// Runs a build, and prints where its time went if that was more than a moment. Ok(false): it failed.
pub(crate) fn build(cargo: &mut Command, target: &Path) -> Result<bool, Failure> {
    let start = Instant::now();
    let built = command::show(cargo.arg("--timings"))?;
    let took = start.elapsed();
    forget(&target.join(FOLDER));
    if built && took.as_secs() >= WORTH_TELLING_SECS {
        println!("built in {}", clock::since(start));
        let report = target.join(FOLDER).join(REPORT);
        let html = fs::read_to_string(&report).unwrap_or_default();
        let units = units(&html).unwrap_or_default();
        lines(&units).iter().for_each(|line| println!("  {line}"));
        println!("  more: {}", report.display());
    }
    Ok(built)
}

/// Removes reports of earlier builds: cargo keeps a copy of each, and the last one under a name of its own.
fn forget(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() != REPORT {
            let _somebody_else_did = fs::remove_file(entry.path());
        }
    }
}

/// The units of a report. None: this cargo writes it in another form.
fn units(html: &str) -> Option<Vec<Unit>> {
    let (_, behind) = html.split_once("const UNIT_DATA = ")?;
    let (units, _) = behind.split_once("];\n")?;
    serde_json::from_str(&format!("{units}]")).ok()
}

/// Seconds by group, and of the slowest crates. Two compilers at once do two seconds of work in one.
fn lines(units: &[Unit]) -> Vec<String> {
    let mut groups: BTreeMap<Group, f64> = BTreeMap::new();
    let mut crates: BTreeMap<String, f64> = BTreeMap::new();
    for unit in units {
        let group = unit.group();
        *groups.entry(group).or_default() += unit.duration;
        // A crate of ours is compiled once for others, and once for its tests.
        let target = unit.target.replace('"', "");
        let name = match group {
            Group::Ours => format!("{}{}", unit.name, target.trim_end()),
            Group::Others | Group::RocksDb => unit.name.clone(),
        };
        *crates.entry(name).or_default() += unit.duration;
    }
    let seconds = |group| groups.get(&group).copied().unwrap_or_default();
    let mut slowest: Vec<(String, f64)> = crates.into_iter().collect();
    slowest.sort_by(|a, b| b.1.total_cmp(&a.1));
    slowest.truncate(SHOWN);
    let slowest: Vec<String> = slowest
        .iter()
        .map(|(name, seconds)| format!("{name} {seconds:.0}"))
        .collect();
    let [rocksdb, others, ours] = [Group::RocksDb, Group::Others, Group::Ours].map(seconds);
    vec![
        format!(
            "seconds of compilers: RocksDB {rocksdb:.0}, other dependencies {others:.0}, workspace {ours:.0}"
        ),
        format!("slowest: {}", slowest.join(", ")),
    ]
}

/// Whose code a unit compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    RocksDb,
    Others,
    Ours,
}

impl Unit {
    fn group(&self) -> Group {
        match self.name.as_str() {
            ROCKSDB => Group::RocksDb,
            name if name.starts_with(OURS) => Group::Ours,
            _ => Group::Others,
        }
    }
}

const FOLDER: &str = "cargo-timings";
const REPORT: &str = "cargo-timing.html";

const ROCKSDB: &str = "librocksdb-sys";
const OURS: &str = "weft-";
const SHOWN: usize = 8;

/// A build that had nothing to do is no news.
const WORTH_TELLING_SECS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_where_the_time_went() {
        let unit = |name: &str, target: &str, duration: f64| {
            format!(
                r#"{{"i": 0, "name": "{name}", "version": "0.1.0", "mode": "todo", "target": "{target}", "start": 0.1, "duration": {duration}, "sections": null}}"#
            )
        };
        let all = [
            unit("librocksdb-sys", " build-script (run)", 300.4),
            unit("syn", "", 12.0),
            unit("weft-bgp", "", 20.0),
            unit("weft-bgp", " lib \\\"test\\\"", 30.0),
        ];
        let html = format!("const UNIT_DATA = [{}\n];\nconst X = 1;", all.join(",\n"));
        let units = units(&html).unwrap();
        assert_eq!(
            lines(&units),
            [
                "seconds of compilers: RocksDB 300, other dependencies 12, workspace 50",
                "slowest: librocksdb-sys 300, weft-bgp lib test 30, weft-bgp 20, syn 12"
            ]
        );
    }

    #[test]
    fn a_report_of_another_form_says_nothing() {
        assert!(units("<html>").is_none());
        assert!(units("const UNIT_DATA = [{}\n];\n").is_none());
    }
}
