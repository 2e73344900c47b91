//! Facts that are not routes, as they are agreed.

use bytes::Bytes;

use crate::fabric::declared::Declared;
use crate::fabric::measured::Measured;
use crate::fabric::mode::Modes;
use crate::fabric::pin::Pins;

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
