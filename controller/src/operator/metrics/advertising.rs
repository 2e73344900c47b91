//! How long UPDATEs take to be advertised, as a histogram. Knows what the reflector counted, and no route.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::reflector::latency::{BOUNDS, Latency};

/// Registers the histogram.
pub(super) fn register(registry: &mut Registry, latency: &Arc<Latency>) {
    let advertising = Advertising(Arc::clone(latency));
    registry.register_with_unit("bgp_advertise_duration", HELP, Unit::Seconds, advertising);
}

#[derive(Debug)]
struct Advertising(Arc<Latency>);

impl EncodeMetric for Advertising {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let (counts, above, sum) = self.0.totals();
        let bounds = BOUNDS.iter().map(Duration::as_secs_f64);
        let mut buckets: Vec<_> = bounds.zip(counts).collect();
        buckets.push((f64::INFINITY, above));
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

const HELP: &str = "From an UPDATE taken to its advertisement in the queues of all peers, the commit included: at the replica \
                    that owns the peer, of one UPDATE of a peer at a time, and only of those that change what is advertised";

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_is_above_all_bounds_is_in_the_last_bucket_and_in_the_sum() {
        let latency = Arc::<Latency>::default();
        for millis in [1, 1, 60_000] {
            latency.observe(Duration::from_millis(millis));
        }
        let mut registry = Registry::with_prefix("weft");
        register(&mut registry, &latency);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        for line in [
            "_sum 60.002",
            "_count 3",
            "_bucket{le=\"0.0005\"} 0",
            "_bucket{le=\"0.001\"} 2",
            "_bucket{le=\"8.192\"} 2",
            "_bucket{le=\"+Inf\"} 3",
        ] {
            let line = format!("\nweft_bgp_advertise_duration_seconds{line}\n");
            assert!(page.contains(&line), "{line}{page}");
        }
    }
}
