//! Metrics of BMP collectors. Knows what their tasks note, and no connection.

use std::collections::BTreeMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::monitoring::tap::Collector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    collector: String,
}

/// Registers what is known of each collector.
pub(super) fn register(registry: &mut Registry, collectors: &BTreeMap<String, Collector>) {
    let connected = Family::<Label, Gauge>::default();
    let connections = Family::<Label, Counter>::default();
    let messages = Family::<Label, Counter>::default();
    let octets = Family::<Label, Counter>::default();
    let overruns = Family::<Label, Counter>::default();
    for (name, collector) in collectors {
        let label = Label {
            collector: name.clone(),
        };
        let up = collector.connected.is_some();
        connected.get_or_create(&label).set(i64::from(up));
        let count = |family: &Family<Label, Counter>, value: u64| {
            family.get_or_create(&label).inc_by(value);
        };
        count(&connections, collector.connections);
        count(&messages, collector.told.messages);
        count(&octets, collector.told.octets);
        count(&overruns, collector.overruns);
    }
    registry.register(
        "bmp_connected",
        "1 if the BMP collector is connected",
        connected,
    );
    let help = "Connections made to the collector";
    registry.register("bmp_connections", help, connections);
    registry.register(
        "bmp_messages",
        "BMP messages sent to the collector",
        messages,
    );
    registry.register_with_unit(
        "bmp_sent",
        "Octets sent to the collector",
        Unit::Bytes,
        octets,
    );
    let help = "Times the collector was disconnected because it read too slowly";
    registry.register("bmp_overruns", help, overruns);
}
