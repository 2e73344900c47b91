//! What the leader decided of one link, one job or one leaf, and what became of it. It refuses to know who measures, and who
//! follows the decisions.

use weft_proto::v1::DecisionKind;
use weft_telemetry::derating::Decision;

use super::fact::{JobName, LinkName, SwitchName};
use super::measured::OffPlan;

/// The link, the job or the leaf that a decision is of. Ordered as decisions are listed: by kind and name.
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
    /// A link is derated, by so many percent and for this cause.
    Derated(LinkName, Decision),
    /// A job is left to weights, for this reason.
    OffPlan(JobName, OffPlan),
    /// A leaf keeps so many percent of its uplinks free of pins.
    KeptFree(SwitchName, u8),
}

/// A decision that was made, changed or taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionChanged {
    /// Raft index of the change.
    pub revision: u64,
    /// The decision before the change; None: there was none.
    pub before: Option<Decided>,
    /// The decision after the change; None: it was taken back.
    pub after: Option<Decided>,
}

impl Decided {
    /// The link, the job or the leaf that the decision is of.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Derated(link, _) => Subject::Link(link.clone()),
            Self::OffPlan(job, _) => Subject::Job(job.clone()),
            Self::KeptFree(leaf, _) => Subject::Leaf(leaf.clone()),
        }
    }

    /// The kind of the decision, as the API has it.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Self::Derated(..) => DecisionKind::DeratedLink,
            Self::OffPlan(..) => DecisionKind::OffPlanJob,
            Self::KeptFree(..) => DecisionKind::KeptFreeLeaf,
        }
    }

    /// Octets of the names in the decision.
    fn names_octets(&self) -> usize {
        match self {
            Self::Derated(link, _) => link.as_str().len(),
            Self::OffPlan(job, why) => job.as_str().len() + why.leaf.as_str().len(),
            Self::KeptFree(leaf, _) => leaf.as_str().len(),
        }
    }
}

impl DecisionChanged {
    /// Octets of memory that the change takes, about.
    pub fn octets(&self) -> usize {
        let both = [&self.before, &self.after].into_iter().flatten();
        CHANGED_OCTETS + both.map(Decided::names_octets).sum::<usize>()
    }
}

/// Octets of memory that a change takes beside names: two decisions, pointers and the reference counts of names.
const CHANGED_OCTETS: usize = 224;
