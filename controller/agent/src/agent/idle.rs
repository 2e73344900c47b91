//! Pins that see no packets: the NIC sends to another address, in another VNI, or over another NIC than was declared; or not yet.
//! Knows counters as they are read, which begin anew when the maps are put anew. A pin that another hand took away has none, and is
//! counted on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::forwarding::Pin;
use crate::marks::{Count, Counted};

/// Pins as they were counted.
#[derive(Debug, Default)]
pub(super) struct Idle {
    pins: BTreeMap<Pin, Seen>,
}

/// What is known of a pin's packets.
#[derive(Copy, Clone, Debug)]
enum Seen {
    /// None since then, as an uptime.
    NoneSince(Duration),
    /// Some.
    Some,
}

impl Idle {
    /// Takes packets of all pins that there are.
    pub(super) fn count(&mut self, counted: &Counted, uptime: Duration) {
        let before = std::mem::take(&mut self.pins);
        let seen = |(pin, count): (&Pin, &Count)| {
            let seen = match (count.packets, before.get(pin)) {
                (0, Some(before)) => *before,
                (0, None) => Seen::NoneSince(uptime),
                (_, _) => Seen::Some,
            };
            (pin.clone(), seen)
        };
        self.pins = counted.iter().map(seen).collect();
    }

    /// Pins that no packet was seen of for a minute.
    pub(super) fn pins(&self, uptime: Duration) -> impl Iterator<Item = &Pin> {
        let idle = move |seen: &Seen| match seen {
            Seen::NoneSince(since) => uptime.saturating_sub(*since) >= IDLE_AFTER,
            Seen::Some => false,
        };
        let pins = self.pins.iter().filter(move |(_, seen)| idle(seen));
        pins.map(|(pin, _)| pin)
    }
}

/// A job that was declared sends by then.
const IDLE_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::Source;

    fn counted(of: &[(u8, u64)]) -> Counted {
        let pin = |last: u8| Pin {
            device: "vxlan100".to_owned(),
            source: Source::Any,
            destination: Some([192, 0, 2, last].into()),
            port: None,
        };
        let count = |packets: u64| Count { packets, octets: 0 };
        of.iter()
            .map(|(last, packets)| (pin(*last), count(*packets)))
            .collect()
    }

    fn idle(idle: &Idle, secs: u64) -> Vec<String> {
        let pins = idle.pins(Duration::from_secs(secs));
        pins.map(|pin| pin.destination.expect("a destination").to_string())
            .collect()
    }

    #[test]
    fn a_pin_without_packets_is_idle_after_a_minute() {
        let mut pins = Idle::default();
        pins.count(&counted(&[(1, 0), (2, 0), (3, 9)]), Duration::from_secs(10));
        pins.count(
            &counted(&[(1, 0), (2, 5), (3, 9), (4, 0)]),
            Duration::from_secs(40),
        );
        assert_eq!(idle(&pins, 69), [""; 0]);
        assert_eq!(idle(&pins, 70), ["192.0.2.1"]);
        assert_eq!(idle(&pins, 100), ["192.0.2.1", "192.0.2.4"]);
        // The maps were put anew: packets that were seen stay seen. One that goes is forgotten.
        pins.count(&counted(&[(2, 0), (4, 0)]), Duration::from_secs(100));
        assert_eq!(idle(&pins, 200), ["192.0.2.4"]);
        pins.count(&counted(&[(2, 0), (4, 1)]), Duration::from_secs(200));
        assert_eq!(idle(&pins, 300), [""; 0]);
    }
}
