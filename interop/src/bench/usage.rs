//! What processes used, as the kernel counts it under /proc.

use std::{collections::BTreeMap, fs, ops::Range, time::Duration};

/// Processor time of some processes by the names of their threads, in seconds; threads that have ended
/// are in the total only.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Processor {
    pub(crate) total: f64,
    pub(crate) threads: BTreeMap<String, f64>,
}

impl Processor {
    pub(crate) fn of(pids: &[u32]) -> Self {
        let mut used = Self::default();
        for pid in pids {
            used.total += seconds(&read(&format!("/proc/{pid}/stat")));
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
                continue;
            };
            for task in tasks.flatten() {
                let stat = read(&format!("{}/stat", task.path().display()));
                *used.threads.entry(name(&stat)).or_default() += seconds(&stat);
            }
        }
        used
    }

    /// What was used since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let before = |name| earlier.threads.get(name).copied().unwrap_or_default();
        Self {
            total: self.total - earlier.total,
            threads: self
                .threads
                .iter()
                .map(|(name, now)| (name.clone(), now - before(name)))
                .collect(),
        }
    }
}

/// The most memory that was resident at once, summed over the processes, in MiB.
pub(crate) fn peak_mib(pids: &[u32]) -> f64 {
    let kib: f64 = pids
        .iter()
        .filter_map(|pid| {
            let status = read(&format!("/proc/{pid}/status"));
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum();
    kib / 1024.0
}

/// Processor time of the whole machine since it started, in seconds: all but idle and waiting.
pub(crate) fn machine_secs() -> f64 {
    let stat = read("/proc/stat");
    let fields = stat.lines().next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields
        .skip(1)
        .take(8)
        .enumerate()
        .filter(|(place, _)| !IDLE_AND_WAITING.contains(place))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * MILLIS_PER_TICK).as_secs_f64()
}

/// The three load averages: how busy the machine was with other things.
pub(crate) fn load_average() -> String {
    let text = read("/proc/loadavg");
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    words.join(" ")
}

/// utime and stime, fields 14 and 15. The name in field 2 may hold spaces and parentheses.
fn seconds(stat: &str) -> f64 {
    let Some((_, fields)) = stat.rsplit_once(')') else {
        return 0.0;
    };
    let ticks: u32 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u32>().ok())
        .sum();
    f64::from(ticks) / TICKS_PER_SECOND
}

/// The name, without the number that tells threads of one kind apart.
fn name(stat: &str) -> String {
    let named = stat
        .split_once('(')
        .and_then(|(_, rest)| rest.rsplit_once(')'));
    let name = named.map_or("", |(name, _)| name);
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == ':')
        .to_owned()
}

/// An empty text when the process has ended.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// `USER_HZ`, which Linux has fixed for /proc on all machines that Rust's Linux targets run on.
const TICKS_PER_SECOND: f64 = 100.0;
const MILLIS_PER_TICK: u64 = 10;

/// Places of idle and iowait in the first line of /proc/stat.
const IDLE_AND_WAITING: Range<usize> = 3..5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "17 (a (b)-3) S 1 17 17 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 4 0";
        assert!((seconds(stat) - 3.0).abs() < 1e-9);
        assert_eq!(name(stat), "a (b)");
        assert_eq!(name("17 (worker-12) S"), "worker");
    }
}
