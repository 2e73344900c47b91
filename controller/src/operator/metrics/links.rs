//! Metrics of what was decided from what switches measure.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::gauge;
use crate::daemon::switches::led::Led;

/// Registers how many links and jobs are not as declared.
pub(super) fn register(registry: &mut Registry, led: &Led) {
    let measured = led.measured();
    let miswired = led.links(|links| links.miswired().len());
    let all = [
        (
            "fabric_links_miswired",
            "Links at which LLDP hears another declared switch or port; at the leader only",
            miswired,
        ),
        (
            "fabric_links_derated",
            "Links of which plans leave a part of the capacity alone for errors, discards or pause frames",
            measured.deratings().count(),
        ),
        (
            "fabric_leaves_kept_free",
            "Leaves of whose uplinks pins leave a part alone for what no job declares, such as storage",
            measured.all_kept_free().count(),
        ),
        (
            "jobs_off_plan",
            "Jobs that weights carry because uplinks carried other loads than their pins predict",
            measured.all_off_plan().count(),
        ),
    ];
    for (name, help, value) in all {
        let metric: Gauge = Gauge::default();
        metric.set(gauge(value));
        registry.register(name, help, metric);
    }
}
