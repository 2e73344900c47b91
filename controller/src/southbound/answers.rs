//! What switches answered, counted over the life of the daemon whatever stream it came over. It refuses
//! to know what was asked of them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::fabric::topology::SwitchName;

/// Counters per switch; clones count together.
#[derive(Clone)]
pub struct Answers {
    operations: Family<Operation, Counter>,
    acknowledged: Family<SwitchLabel, Histogram, fn() -> Histogram>,
    refused: Family<Refused, Counter>,
}

/// A bound on the answers of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Entries of an answer to Get.
    Entries,
    /// Octets of an answer to Get.
    Octets,
    /// Prefixes, next hops, interfaces and conditions of a status of weft-agent.
    Status,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Refused {
    switch: String,
    bound: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    switch: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SwitchLabel {
    switch: String,
}

impl Answers {
    /// Nothing was answered yet.
    pub fn new() -> Self {
        // 0.5 ms to 16 s.
        let histogram = || Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        Self {
            operations: Family::default(),
            acknowledged: Family::new_with_constructor(histogram),
            refused: Family::default(),
        }
    }

    /// Counts an answer, by gRIBI's word for it.
    pub(super) fn count(&self, switch: &SwitchName, status: &'static str) {
        let switch = switch.to_string();
        self.operations
            .get_or_create(&Operation { switch, status })
            .inc();
    }

    /// Measures an operation that reached the forwarding plane.
    pub(super) fn measure(&self, switch: &SwitchName, took: Duration) {
        let switch = switch.to_string();
        self.acknowledged
            .get_or_create(&SwitchLabel { switch })
            .observe(took.as_secs_f64());
    }

    /// Counts an answer, or a part of one, that is beyond a bound and not kept.
    pub(super) fn refuse(&self, switch: &SwitchName, bound: Bound) {
        let switch = switch.to_string();
        let bound = match bound {
            Bound::Entries => "entries",
            Bound::Octets => "octets",
            Bound::Status => "status",
        };
        self.refused.get_or_create(&Refused { switch, bound }).inc();
    }

    /// Puts the counters on a page.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Answers of switches to operations, by gRIBI's word for them; at the leader only, which programs them";
        registry.register("switch_operations", help, self.operations.clone());
        registry.register_with_unit(
            "switch_ack_duration",
            "From an operation to its acknowledgement by the switch's forwarding plane; at the leader only",
            Unit::Seconds,
            self.acknowledged.clone(),
        );
        registry.register(
            "switch_answers_refused",
            "Answers of switches, or parts of them, that are beyond a bound and not kept; at the leader only",
            self.refused.clone(),
        );
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::new()
    }
}
