//! Network namespaces and the veth pairs between them, by way of `ip`.

use std::{collections::BTreeMap, fs, fs::File, path::Path, thread, time::Duration};

use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    clock, command,
    failure::{Context, Failure},
};

/// What an interface has sent since it came into being.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sent {
    pub(crate) octets: u64,
    pub(crate) packets: u64,
}

/// A named network namespace, as `ip netns` knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace(pub(crate) String);

impl Namespace {
    pub(crate) fn create(&self) -> Result<(), Failure> {
        command::answer(&["ip", "netns", "add", &self.0])?;
        self.run(&["ip", "link", "set", "lo", "up"]).map(drop)
    }

    /// Runs a program in here that answers at once.
    pub(crate) fn run(&self, argv: &[&str]) -> Result<String, Failure> {
        let mut whole = vec!["ip", "netns", "exec", &self.0];
        whole.extend(argv);
        command::answer(&whole)
    }

    /// Runs a program in here, in a folder, that answers at once.
    pub(crate) fn run_in(&self, folder: &Path, argv: &[&str]) -> Result<String, Failure> {
        let mut whole = vec!["ip", "netns", "exec", &self.0];
        whole.extend(argv);
        command::answer_in(Some(folder), &whole)
    }

    /// Runs a program in here, in a folder, that answers at once, and returns both of its outputs.
    pub(crate) fn all_said_in(&self, folder: &Path, argv: &[&str]) -> Result<String, Failure> {
        let mut whole = vec!["ip", "netns", "exec", &self.0];
        whole.extend(argv);
        command::all_said_in(folder, &whole)
    }

    /// Does something with this process's own hands in here. A socket that it makes stays in here.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
        let path = Path::new("/run/netns").join(&self.0);
        let enter = || -> Result<T, Failure> {
            let inside = File::open(&path).context(|| path.display().to_string())?;
            setns(inside, CloneFlags::CLONE_NEWNET).context(|| format!("setns to {}", self.0))?;
            Ok(work())
        };
        // A thread of its own: its namespace ends with it.
        thread::scope(|scope| scope.spawn(enter).join())
            .map_err(|_| Failure::new(format!("a thread in {} panicked", self.0)))?
    }

    /// What each interface has sent.
    pub(crate) fn sent(&self) -> Result<BTreeMap<String, Sent>, Failure> {
        let read = self.inside(|| fs::read_to_string(COUNTERS))?;
        Ok(counters(&read.context(|| COUNTERS.to_owned())?))
    }

    pub(crate) fn exists(&self) -> bool {
        Path::new("/run/netns").join(&self.0).exists()
    }

    /// Ends every process in here, then removes the namespace and with it its links.
    pub(crate) fn remove(&self) {
        if !self.exists() {
            return;
        }
        for _ in 0..KILL_ATTEMPTS {
            let pids = self.pids();
            if pids.is_empty() {
                break;
            }
            for pid in pids {
                let _gone_already = kill(pid, Signal::SIGKILL);
            }
            clock::settle(Duration::from_millis(20));
        }
        if let Err(error) = command::answer(&["ip", "netns", "delete", &self.0]) {
            println!("left behind: {error}");
        }
    }

    /// Sends a signal to every process in here whose command line has a word, and returns how many there are.
    pub(crate) fn signal(&self, word: &str, signal: Signal) -> Result<usize, Failure> {
        let named = |pid: &Pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let mut words = line.split_whitespace();
            words.any(|found| found == word || found.ends_with(&format!("/{word}")))
        };
        let pids: Vec<Pid> = self.pids().into_iter().filter(named).collect();
        for pid in &pids {
            kill(*pid, signal).context(|| format!("{signal} to {word}"))?;
        }
        Ok(pids.len())
    }

    fn pids(&self) -> Vec<Pid> {
        let listed = command::answer(&["ip", "netns", "pids", &self.0]).unwrap_or_default();
        listed
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
            .collect()
    }
}

/// A veth pair, both ends up, with the MTU that containerlab gives its links.
pub(crate) fn link(a: (&Namespace, &str), b: (&Namespace, &str)) -> Result<(), Failure> {
    command::answer(&[
        "ip", "link", "add", a.1, "mtu", LINK_MTU, "netns", &a.0.0, "type", "veth", "peer", "name",
        b.1, "mtu", LINK_MTU, "netns", &b.0.0,
    ])?;
    a.0.run(&["ip", "link", "set", a.1, "up"])?;
    b.0.run(&["ip", "link", "set", b.1, "up"]).map(drop)
}

/// `/proc/net/dev`: after the name eight columns of what was received, then octets and packets that were sent.
fn counters(text: &str) -> BTreeMap<String, Sent> {
    let mut sent = BTreeMap::new();
    for line in text.lines() {
        let Some((name, columns)) = line.split_once(':') else {
            continue;
        };
        let columns: Vec<u64> = columns
            .split_whitespace()
            .filter_map(|column| column.parse().ok())
            .collect();
        if let [_, _, _, _, _, _, _, _, octets, packets, ..] = columns[..] {
            sent.insert(name.trim().to_owned(), Sent { octets, packets });
        }
    }
    sent
}

/// Of the thread that reads it, since that is where the namespace is.
const COUNTERS: &str = "/proc/thread-self/net/dev";

const LINK_MTU: &str = "9500";

/// A killed process leaves within milliseconds; a second is for a machine that is very busy.
const KILL_ATTEMPTS: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_every_interface_are_read() {
        let text = "Inter-|   Receive                    |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n    \
            lo:       1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n  eth1: 10 20 0 0 0 0 0 0 30 40 0 0 0 0 0 0\n";
        let sent = counters(text);
        assert_eq!(sent.len(), 2);
        let expected = Sent {
            octets: 30,
            packets: 40,
        };
        assert_eq!(sent["eth1"], expected);
    }
}
