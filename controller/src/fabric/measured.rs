//! What the leader decided from what it measured, as it is agreed: links that are derated, jobs that are left to weights, and what
//! leaves keep free. A copy costs nothing. It refuses to know who measures, and how.

use std::fmt;

use imbl::OrdMap;
use weft_telemetry::derating::Decision;

use super::decision::{Decided, Subject};
use super::fact::{JobName, Link, LinkName};
use super::topology::SwitchName;

/// What is decided of links, jobs and leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    deratings: OrdMap<LinkName, Decision>,
    off_plan: OrdMap<JobName, OffPlan>,
    /// In percent; of those that keep some.
    kept_free: OrdMap<SwitchName, u8>,
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

    /// Percent of the uplinks of a leaf that pins leave alone, for what no job declares; 0: nothing.
    pub fn kept_free(&self, leaf: &SwitchName) -> u8 {
        self.kept_free.get(leaf).copied().unwrap_or_default()
    }

    /// Percent of a link that pins leave alone: what the leaf at its end keeps free.
    pub fn kept_free_of(&self, link: &Link) -> u8 {
        let [a, b] = [&link.a, &link.b].map(|end| self.kept_free(&end.switch));
        a.max(b)
    }

    /// Every leaf that keeps something free, and how many percent.
    pub fn all_kept_free(&self) -> impl Iterator<Item = (&SwitchName, u8)> + '_ {
        self.kept_free
            .iter()
            .map(|(leaf, percent)| (leaf, *percent))
    }

    /// Takes what percent of its uplinks a leaf keeps free; 0: nothing.
    pub fn keep_free(&mut self, leaf: SwitchName, percent: u8) {
        match percent {
            0 => drop(self.kept_free.remove(&leaf)),
            _ => drop(self.kept_free.insert(leaf, percent)),
        }
    }

    /// What is decided of one link, job or leaf; None: nothing.
    pub fn decided(&self, of: &Subject) -> Option<Decided> {
        match of {
            Subject::Link(link) => {
                let decision = self.deratings.get(link)?;
                Some(Decided::Derated(link.clone(), *decision))
            }
            Subject::Job(job) => {
                let why = self.off_plan.get(job)?;
                Some(Decided::OffPlan(job.clone(), why.clone()))
            }
            Subject::Leaf(leaf) => {
                let percent = self.kept_free.get(leaf)?;
                Some(Decided::KeptFree(leaf.clone(), *percent))
            }
        }
    }

    /// Decisions after a subject, whose own may be gone, or all of them if none is named; by kind and name.
    pub fn after(&self, behind: Option<Subject>) -> impl Iterator<Item = Decided> + '_ {
        use std::ops::Bound::{Excluded, Unbounded};
        // Where links, jobs and leaves begin; None: they all come before.
        let (links, jobs, leaves) = match behind {
            None => (Some(Unbounded), Some(Unbounded), Some(Unbounded)),
            Some(Subject::Link(link)) => (Some(Excluded(link)), Some(Unbounded), Some(Unbounded)),
            Some(Subject::Job(job)) => (None, Some(Excluded(job)), Some(Unbounded)),
            Some(Subject::Leaf(leaf)) => (None, None, Some(Excluded(leaf))),
        };
        let links = links.into_iter();
        let links = links.flat_map(move |from| self.deratings.range((from, Unbounded)));
        let links = links.map(|(link, it)| Decided::Derated(link.clone(), *it));
        let jobs = jobs.into_iter();
        let jobs = jobs.flat_map(move |from| self.off_plan.range((from, Unbounded)));
        let jobs = jobs.map(|(job, why)| Decided::OffPlan(job.clone(), why.clone()));
        let leaves = leaves.into_iter();
        let leaves = leaves.flat_map(move |from| self.kept_free.range((from, Unbounded)));
        let leaves = leaves.map(|(leaf, percent)| Decided::KeptFree(leaf.clone(), *percent));
        links.chain(jobs).chain(leaves)
    }
}

/// What is left of a capacity in bits per second where so many percent are kept free: never nothing.
pub fn left_bps(capacity_bps: u64, kept_free_percent: u8) -> u64 {
    let left = 100_u128.saturating_sub(kept_free_percent.into());
    let left = u128::from(capacity_bps) * left / 100;
    u64::try_from(left).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_never_nothing() {
        let all = 400_000_000_000;
        assert_eq!(left_bps(all, 0), all);
        assert_eq!(left_bps(all, 30), 280_000_000_000);
        assert_eq!(left_bps(u64::MAX, 0), u64::MAX);
        for percent in [50, 100, u8::MAX] {
            assert_eq!(left_bps(1, percent), 1);
        }
    }

    #[test]
    fn a_leaf_that_keeps_nothing_free_is_forgotten() {
        let mut measured = Measured::default();
        measured.keep_free("leaf1".into(), 20);
        measured.keep_free("leaf2".into(), 10);
        measured.keep_free("leaf1".into(), 0);
        let left = SwitchName::from("leaf2");
        let all: Vec<_> = measured.all_kept_free().collect();
        assert_eq!(all, [(&left, 10)]);
        assert_eq!(measured.kept_free(&"leaf1".into()), 0);
    }

    #[test]
    fn decisions_are_in_order_of_kinds_and_names_behind_each_of_them() {
        let mut measured = Measured::default();
        for leaf in ["leaf2", "leaf1"] {
            measured.keep_free(leaf.into(), 10);
        }
        let why = OffPlan {
            leaf: "leaf1".into(),
            percent: 40,
            fingerprint: 7,
        };
        measured.set_off_plan("train".into(), Some(why));
        for link in ["link2", "link1"] {
            let decision = Decision {
                derating_percent: 25,
                cause: None,
            };
            measured.derate(link.into(), decision);
        }
        let subjects = |behind| -> Vec<Subject> {
            let rest = measured.after(behind);
            rest.map(|it| it.subject()).collect()
        };
        let all = [
            Subject::Link("link1".into()),
            Subject::Link("link2".into()),
            Subject::Job("train".into()),
            Subject::Leaf("leaf1".into()),
            Subject::Leaf("leaf2".into()),
        ];
        assert_eq!(subjects(None), all);
        assert!(all.is_sorted());
        for (at, subject) in all.iter().enumerate() {
            assert_eq!(subjects(Some(subject.clone())), all[at + 1..]);
            let decided = measured.decided(subject).unwrap();
            assert_eq!(decided.subject(), *subject);
        }
        // A subject without a decision has a place in the list too.
        let gone = Subject::Job("a".into());
        assert_eq!(measured.decided(&gone), None);
        assert_eq!(subjects(Some(gone)), all[2..]);
        let none = Subject::Leaf("leaf3".into());
        assert!(subjects(Some(none)).is_empty());
    }
}
