//! Facts that are not routes, as they are agreed.

use bytes::Bytes;

use crate::fabric::decision::Subject;
use crate::fabric::declared::Declared;
use crate::fabric::measured::Measured;
use crate::fabric::mode::{Mode, Modes};
use crate::fabric::pin::Pins;
use crate::ledger;

/// Facts that are not routes.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// The declared fabric.
    pub declared: Declared,
    /// The declared fabric as an earlier release wrote it.
    pub fabric: Option<Bytes>,
    /// Whether gRIBI ids are there that an earlier release agreed on.
    pub allocation: bool,
    /// Incarnation of the replicas.
    pub incarnation: Option<u64>,
    /// What weft does with the switches.
    pub modes: Modes,
    /// Where flows of jobs go.
    pub pins: Pins,
    /// What the leader decided from what it measured.
    pub measured: Measured,
}

impl Control {
    pub(super) fn put_mode(&mut self, leaf: &str, value: &[u8]) {
        match ledger::decode_mode(value) {
            Some(mode) => self.modes.set(leaf, Some(mode)),
            None => {
                // A later release may know more modes; what this one cannot read, it must not act upon.
                tracing::error!(leaf, "a committed mode is not understood; it counts as off");
                self.modes.set(leaf, Some(Mode::Off));
            }
        }
    }

    /// Takes what the leader decided of a link, a job or a leaf. What is not understood is no decision: the link is as it is
    /// declared, pins carry the job, the leaf keeps nothing free.
    pub(super) fn put_decision(&mut self, of: &Subject, value: &[u8]) {
        let measured = &mut self.measured;
        match of {
            Subject::Link(link) => {
                let decision = ledger::decode_derating(value).unwrap_or_default();
                measured.derate(link.clone(), decision);
            }
            Subject::Job(job) => measured.set_off_plan(job.clone(), ledger::decode_off_plan(value)),
            Subject::Leaf(leaf) => {
                let percent = ledger::decode_kept_free(value).unwrap_or_default();
                measured.keep_free(leaf.clone(), percent);
            }
        }
    }
}
