//! What the leader decided of one link, one job or one leaf, and what became of it. It refuses to know who measures, and who
//! follows the decisions.

use weft_proto::v1::DecisionKind;
use weft_telemetry::derating::Decision;

use super::fact::{JobName, LinkName, SwitchName};
use super::measured::OffPlan;

/// What a decision is of. Ordered as decisions are listed: by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A link that is derated.
    Link(LinkName),
    /// A job that is left to weights.
    Job(JobName),
    /// A leaf that keeps a part of its uplinks free.
    Leaf(SwitchName),
}

/// A decision that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// A link, by how many percent it is derated, and for what.
    Derated(LinkName, Decision),
    /// A job, and why weights carry it.
    OffPlan(JobName, OffPlan),
    /// A leaf, and how many percent of its uplinks pins leave alone.
    KeptFree(SwitchName, u8),
}

/// What became of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionChanged {
    /// Raft index of the change.
    pub revision: u64,
    /// What held; None if nothing was decided.
    pub before: Option<Decided>,
    /// What holds; None if nothing is decided any more.
    pub after: Option<Decided>,
}

impl Decided {
    /// What it is of.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Derated(link, _) => Subject::Link(link.clone()),
            Self::OffPlan(job, _) => Subject::Job(job.clone()),
            Self::KeptFree(leaf, _) => Subject::Leaf(leaf.clone()),
        }
    }

    /// Its kind, as the API writes it.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Derated(..) => DecisionKind::DeratedLink,
            Self::OffPlan(..) => DecisionKind::OffPlanJob,
            Self::KeptFree(..) => DecisionKind::KeptFreeLeaf,
        }
    }

    /// Octets of its names.
    fn names_octets(&self) -> usize {
        match self {
            Self::Derated(link, _) => link.as_str().len(),
            Self::OffPlan(job, why) => job.as_str().len() + why.leaf.as_str().len(),
            Self::KeptFree(leaf, _) => leaf.as_str().len(),
        }
    }
}

impl DecisionChanged {
    /// Octets of memory that it takes, about.
    pub fn octets(&self) -> usize {
        let both = [&self.before, &self.after].into_iter().flatten();
        CHANGED_OCTETS + both.map(Decided::names_octets).sum::<usize>()
    }
}

/// What a change takes beside names: two decisions, pointers and the counts behind them.
const CHANGED_OCTETS: usize = 224;
