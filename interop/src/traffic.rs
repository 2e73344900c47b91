//! Pings that count what was lost, and watchers that count what left a forwarding table.

use std::{collections::BTreeSet, time::Duration};

use nix::sys::signal::Signal;

use crate::{clock, daemon::Daemon, expect::Expect, failure::Failure, lab::Lab};

/// Pings between hosts, and `bridge monitor fdb` on every leaf, from `start` until `stop`.
pub(crate) struct Watch {
    pings: Vec<Daemon>,
    monitors: Vec<Daemon>,
}

/// What happened while somebody watched.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) sent: u32,
    pub(crate) lost: u32,
    /// Entries of VXLAN devices that were removed, as `bridge monitor` prints them.
    pub(crate) removed: Vec<String>,
}

impl Watch {
    /// The forwarding tables, and one ping every 10 ms between the first two hosts of each VNI.
    pub(crate) fn start(lab: &Lab, expect: &Expect, title: &str) -> Result<Self, Failure> {
        let mut watch = Self::start_tables(lab, expect, title)?;
        for (a, b) in expect.neighbours(true).into_iter().filter(|(a, b)| a < b) {
            let to = expect.hosts[b].address.to_string();
            let title = format!("{title}-ping-{a}-{b}");
            watch
                .pings
                .push(started(lab, a, &title, &["ping", "-i", "0.01", &to])?);
        }
        Ok(watch)
    }

    /// The forwarding tables alone.
    pub(crate) fn start_tables(lab: &Lab, expect: &Expect, title: &str) -> Result<Self, Failure> {
        let mut monitors = Vec::new();
        for leaf in expect.vteps.keys() {
            let title = format!("{title}-fdb-{leaf}");
            monitors.push(started(lab, leaf, &title, &["bridge", "monitor", "fdb"])?);
        }
        clock::pause(Duration::from_millis(500))?;
        Ok(Self {
            pings: Vec::new(),
            monitors,
        })
    }

    pub(crate) fn stop(mut self) -> Result<Seen, Failure> {
        let mut seen = Seen {
            sent: 0,
            lost: 0,
            removed: Vec::new(),
        };
        for ping in &mut self.pings {
            ping.end(Signal::SIGINT)?;
            let (sent, lost) = losses(&ping.output()).ok_or_else(|| {
                Failure::new(format!("no summary of {}: {}", ping.name, ping.output()))
            })?;
            seen.sent += sent;
            seen.lost += lost;
        }
        for monitor in &mut self.monitors {
            monitor.end(Signal::SIGTERM)?;
            let output = monitor.output();
            let gone = output
                .lines()
                .filter(|line| line.starts_with("Deleted") && line.contains("vxlan"));
            seen.removed
                .extend(gone.map(|line| format!("{}: {line}", monitor.name)));
        }
        Ok(seen)
    }
}

impl Seen {
    /// Ok: not one packet was lost and not one entry removed.
    pub(crate) fn untouched(&self) -> Result<String, String> {
        if self.lost == 0 && self.removed.is_empty() && self.sent > 0 {
            return Ok(format!(
                "{} pings sent, 0 lost, 0 FDB entries removed",
                self.sent
            ));
        }
        let mut text = format!(
            "expected: 0 lost, 0 FDB entries removed\nactual:   {} of {} pings lost, {} FDB entries removed\n",
            self.lost,
            self.sent,
            self.removed.len()
        );
        for line in self.removed.iter().take(10) {
            text.push_str(&format!("          {line}\n"));
        }
        Err(text)
    }
}

/// A program started in a node, whose output is kept in the run's folder.
pub(crate) fn started(
    lab: &Lab,
    node: &str,
    title: &str,
    argv: &[&str],
) -> Result<Daemon, Failure> {
    let argv = argv.iter().map(|&word| word.to_owned()).collect();
    let mut daemon = Daemon::new(
        title,
        lab.namespace(node)?,
        argv,
        lab.folder().to_path_buf(),
    );
    let _none_before = std::fs::remove_file(&daemon.log);
    daemon.start()?;
    Ok(daemon)
}

/// (sent, lost) of an interrupted `ping`. The last request may still be on its way when ping is
/// interrupted: it counts as sent only if it was answered.
pub(crate) fn losses(output: &str) -> Option<(u32, u32)> {
    let answered: BTreeSet<u32> = output
        .lines()
        .filter(|line| line.contains("bytes from"))
        .filter_map(|line| {
            line.split("icmp_seq=")
                .nth(1)?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    let sent: u32 = output
        .lines()
        .find(|line| line.contains("packets transmitted"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    let counted = if answered.contains(&sent) {
        sent
    } else {
        sent.saturating_sub(1)
    };
    let kept = answered.range(..=counted).count();
    Some((counted, counted - u32::try_from(kept).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(sequence: &[u32], sent: u32) -> String {
        let mut text: String = sequence
            .iter()
            .map(|number| {
                format!("64 bytes from 192.0.2.2: icmp_seq={number} ttl=64 time=0.1 ms\n")
            })
            .collect();
        text.push_str(&format!(
            "{sent} packets transmitted, {} received, 0% packet loss\n",
            sequence.len()
        ));
        text
    }

    #[test]
    fn a_gap_is_a_loss_and_the_last_request_may_be_on_its_way() {
        assert_eq!(losses(&output(&[1, 2, 3], 3)), Some((3, 0)));
        assert_eq!(losses(&output(&[1, 2], 3)), Some((2, 0)));
        assert_eq!(losses(&output(&[1, 3], 3)), Some((3, 1)));
        assert_eq!(losses(&output(&[1], 4)), Some((3, 2)));
        assert_eq!(losses("nothing"), None);
    }
}
