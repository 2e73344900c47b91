//! What the leader decided from what it measured, as it is agreed: links that are derated, and jobs that are left to weights.
//! A copy costs nothing. It refuses to know who measures, and how.

use std::fmt;

use imbl::OrdMap;
use weft_telemetry::derating::Decision;

use super::fact::{JobName, Link, LinkName};
use super::topology::SwitchName;

/// What is decided of links and jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    deratings: OrdMap<LinkName, Decision>,
    off_plan: OrdMap<JobName, OffPlan>,
}

/// Why weights carry a job that could be pinned: what the uplinks of a leaf carried was not what its pins should have made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffPlan {
    /// The leaf.
    pub leaf: SwitchName,
    /// By how many percent its busiest uplink had more than predicted.
    pub percent: u16,
    /// [`Job::fingerprint`](super::fact::Job::fingerprint) of the job that it holds for: one that is changed is pinned again.
    pub fingerprint: u64,
}

impl fmt::Display for OffPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (leaf, percent) = (&self.leaf, self.percent);
        write!(
            f,
            "the busiest uplink of {leaf} carried {percent} % more than predicted; a change of the job pins it again"
        )
    }
}

impl Measured {
    /// What was decided of a link.
    pub fn derating(&self, link: &LinkName) -> Decision {
        self.deratings.get(link).copied().unwrap_or_default()
    }

    /// Every link that is derated.
    pub fn deratings(&self) -> impl Iterator<Item = (&LinkName, Decision)> + '_ {
        self.deratings.iter().map(|(link, it)| (link, *it))
    }

    /// Takes what was decided of a link; 0 percent: nothing.
    pub fn derate(&mut self, link: LinkName, decision: Decision) {
        match decision.derating_percent {
            0 => drop(self.deratings.remove(&link)),
            _ => drop(self.deratings.insert(link, decision)),
        }
    }

    /// Bits per second of a link in each direction that are used: the capacity without what an operator or the leader derated
    /// it by, whichever is more.
    pub fn usable_bps(&self, link: &Link) -> u64 {
        let decided = self.derating(&link.name).derating_percent;
        link.usable_bps_at(link.derating_percent.max(decided.into()))
    }

    /// Why weights carry a job.
    pub fn off_plan(&self, job: &JobName) -> Option<&OffPlan> {
        self.off_plan.get(job)
    }

    /// Every job that is left to weights.
    pub fn all_off_plan(&self) -> impl Iterator<Item = (&JobName, &OffPlan)> + '_ {
        self.off_plan.iter()
    }

    /// Leaves a job to weights, or with None to pins.
    pub fn set_off_plan(&mut self, job: JobName, why: Option<OffPlan>) {
        match why {
            Some(why) => drop(self.off_plan.insert(job, why)),
            None => drop(self.off_plan.remove(&job)),
        }
    }
}
