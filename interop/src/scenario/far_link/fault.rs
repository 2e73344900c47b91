//! What breaks, and how it is mended.

use nix::sys::signal::Signal;
use serde::Deserialize;

use super::REPLICAS;
use crate::{failure::Failure, lab::Lab};

/// A row of `faults.yaml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) fault: Fault,
    /// What happened before, with weft.
    #[serde(default)]
    pub(super) before: Before,
    /// True if the short form has it too.
    #[serde(default)]
    pub(super) short: bool,
}

/// What breaks under traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// The first spine's link to the leaf that receives.
    FarLinkDown,
    /// All links of the first spine.
    SpineStopped,
    /// The first spine's bgpd, with SIGKILL.
    BgpdKilled,
}

/// What weft suffers before something breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Before {
    #[default]
    Nothing,
    /// The agent of the leaf that sends, with SIGKILL.
    AgentKilled,
    /// Every replica, with SIGKILL.
    ReplicasKilled,
    /// Somebody declared the fabric as it is not.
    DeclaredOtherwise,
}

impl Fault {
    /// Breaks it.
    pub(super) fn begin(self, lab: &mut Lab) -> Result<(), Failure> {
        match self {
            Self::FarLinkDown => set_port(lab, FAR_PORT, "down"),
            Self::SpineStopped => set_ports(lab, "down"),
            Self::BgpdKilled => lab.end_program(SPINE, Some("bgpd"), Signal::SIGKILL),
        }
    }

    /// Mends it.
    pub(super) fn end(self, lab: &mut Lab) -> Result<(), Failure> {
        match self {
            Self::FarLinkDown => set_port(lab, FAR_PORT, "up"),
            Self::SpineStopped => set_ports(lab, "up"),
            Self::BgpdKilled => lab.start(SPINE),
        }
    }
}

fn set_port(lab: &Lab, port: &str, state: &str) -> Result<(), Failure> {
    lab.run(SPINE, &["ip", "link", "set", port, state])
        .map(drop)
}

/// One port after another: while a single request takes a group of them down, no kernel hears of any.
fn set_ports(lab: &Lab, state: &str) -> Result<(), Failure> {
    let file = lab.files.join(format!("spine-{state}.batch"));
    lab.run(SPINE, &["ip", "-batch", &file.display().to_string()])
        .map(drop)
}

impl Before {
    /// Lets it happen.
    pub(super) fn happen(self, lab: &mut Lab, agent: &str) -> Result<(), Failure> {
        match self {
            Self::Nothing | Self::DeclaredOtherwise => Ok(()),
            Self::AgentKilled => lab.end(agent, Signal::SIGKILL),
            Self::ReplicasKilled => {
                for (replica, _) in REPLICAS {
                    lab.end(replica, Signal::SIGKILL)?;
                }
                Ok(())
            }
        }
    }

    /// What of it concerns FRR too where it routes alone: replicas are also its route reflectors.
    pub(super) fn without_weft(self) -> Self {
        match self {
            Self::ReplicasKilled => self,
            Self::Nothing | Self::AgentKilled | Self::DeclaredOtherwise => Self::Nothing,
        }
    }

    /// Makes up for it.
    pub(super) fn undo(self, lab: &mut Lab, agent: &str) -> Result<(), Failure> {
        match self {
            Self::Nothing | Self::DeclaredOtherwise => Ok(()),
            Self::AgentKilled => lab.start(agent),
            Self::ReplicasKilled => REPLICAS
                .iter()
                .try_for_each(|(replica, _)| lab.start(replica)),
        }
    }

    /// The fabric as it is declared.
    pub(super) fn declared(self) -> &'static str {
        match self {
            Self::DeclaredOtherwise => "fabric-swapped.yaml",
            Self::Nothing | Self::AgentKilled | Self::ReplicasKilled => "fabric.yaml",
        }
    }
}

/// The spine that breaks, and its port to the leaf that receives.
const SPINE: &str = "spine1";
const FAR_PORT: &str = "eth3";
