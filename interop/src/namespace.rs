//! Network namespaces and the veth pairs between them, by way of `ip`.

use std::{path::Path, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{clock, command, failure::Failure};

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

const LINK_MTU: &str = "9500";

/// A killed process leaves within milliseconds; a second is for a machine that is very busy.
const KILL_ATTEMPTS: u32 = 50;
