//! Metrics of the verdict on this replica, of its threads, and of panics of the balancer. Knows what [`Health`] says.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::daemon::health::Health;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ThreadLabel {
    thread: &'static str,
}

/// Registers what holds now.
pub(super) fn register(registry: &mut Registry, health: &Health, now: Instant) {
    let ready: Gauge = Gauge::default();
    ready.set(health.verdict(now).is_ready().into());
    let help = "1 if the replica is ready, as /readyz answers";
    registry.register("ready", help, ready);
    let silences = Family::<ThreadLabel, Gauge<f64, AtomicU64>>::default();
    for (thread, silence) in health.silences(now) {
        let label = ThreadLabel { thread };
        silences.get_or_create(&label).set(silence.as_secs_f64());
    }
    let help = "Time for which a thread has not responded; it hangs, or has much to do";
    registry.register_with_unit("thread_silence", help, Unit::Seconds, silences);
    let breaker = health.breaker();
    let off: Gauge = Gauge::default();
    off.set(breaker.fault().is_some().into());
    let help = "1 while nothing is planned, since the balancer panicked twice on one generation of the fabric";
    registry.register("balancer_off", help, off);
    let panics: Counter = Counter::default();
    panics.inc_by(breaker.panics());
    let help = "Panics of the balancer; weights and pins stay as they are";
    registry.register("balancer_panics", help, panics);
}
