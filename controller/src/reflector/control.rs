//! Facts that are not routes, as they are agreed.

use std::sync::Arc;

use weft_telemetry::derating::Decision;

use super::Reflector;
use crate::fabric::decision::{DecisionChanged, Subject};
use crate::fabric::declared::Declared;
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::mode::Modes;
use crate::fabric::pin::{PinChanged, PinName, PinPath, Pins};

/// Facts that are not routes.
#[derive(Clone, Debug, Default)]
pub struct Control {
    /// The declared fabric.
    pub declared: Declared,
    /// Incarnation of the replicas.
    pub incarnation: Option<u64>,
    /// What weft does with the switches.
    pub modes: Modes,
    /// Where flows of jobs go.
    pub pins: Pins,
    /// What the leader decided from what it measured.
    pub measured: Measured,
}

impl Reflector {
    /// Takes where a flow goes, or forgets it.
    pub(super) fn change_pin(&mut self, name: PinName, paths: Option<Arc<[PinPath]>>) {
        let pins = &mut self.control_mut().pins;
        let before = pins.replace(name.clone(), paths.clone());
        if before != paths {
            self.repinned.push(PinChanged {
                revision: self.index,
                name,
                before,
                after: paths,
            });
        }
    }

    pub(super) fn derate(&mut self, link: &str, decision: Decision) {
        let of = Subject::Link(link.into());
        self.decide(&of, |it| it.derate(link.into(), decision));
    }

    pub(super) fn set_off_plan(&mut self, job: &str, why: Option<OffPlan>) {
        let of = Subject::Job(job.into());
        self.decide(&of, |it| it.set_off_plan(job.into(), why));
    }

    pub(super) fn keep_free(&mut self, leaf: &str, percent: u8) {
        let of = Subject::Leaf(leaf.into());
        self.decide(&of, |it| it.keep_free(leaf.into(), percent));
    }

    /// Changes the leader's decision on a link, a job or a leaf.
    fn decide(&mut self, of: &Subject, change: impl FnOnce(&mut Measured)) {
        let revision = self.index;
        let control = self.control_mut();
        let before = control.measured.decided(of);
        change(&mut control.measured);
        let after = control.measured.decided(of);
        if before != after {
            self.decided.push(DecisionChanged {
                revision,
                before,
                after,
            });
        }
    }
}
