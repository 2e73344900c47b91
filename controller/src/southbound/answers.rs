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
    acknowledged: Family<Device, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    device: String,
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Device {
    device: String,
}

impl Answers {
    /// Nothing was answered yet.
    pub fn new() -> Self {
        // 0.5 ms to 16 s.
        let histogram = || Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        Self {
            operations: Family::default(),
            acknowledged: Family::new_with_constructor(histogram),
        }
    }

    /// Counts an answer, by gRIBI's word for it.
    pub(super) fn count(&self, switch: &SwitchName, status: &'static str) {
        let device = switch.to_string();
        self.operations
            .get_or_create(&Operation { device, status })
            .inc();
    }

    /// Measures an operation that reached the forwarding plane.
    pub(super) fn measure(&self, switch: &SwitchName, took: Duration) {
        let device = switch.to_string();
        self.acknowledged
            .get_or_create(&Device { device })
            .observe(took.as_secs_f64());
    }

    /// Puts the counters on a page.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Operations answered by switches, by status";
        registry.register("device_operations", help, self.operations.clone());
        registry.register_with_unit(
            "device_ack_duration",
            "From an operation to its acknowledgement by the forwarding plane",
            Unit::Seconds,
            self.acknowledged.clone(),
        );
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self::new()
    }
}
