//! What a switch says of its interfaces at one moment, as OpenConfig names it. It refuses to know how it was said and
//! what follows from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::oddities::Oddities;

/// The interfaces of one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// By name, as the switch names them.
    pub interfaces: BTreeMap<Arc<str>, Interface>,
    /// What of the switch's messages was not understood since the subscription began.
    pub oddities: Oddities,
    /// Whether LLDP neighbours were subscribed to. If not, that none is known says nothing.
    pub has_lldp: bool,
    /// Between two samples of counters, as subscribed to.
    pub interval: Duration,
}

impl Sample {
    /// The interfaces whose oper-status is known: whether each is up.
    #[must_use]
    pub fn oper_up(&self) -> BTreeMap<String, bool> {
        let known = self.interfaces.iter();
        known
            .filter_map(|(name, interface)| Some((name.to_string(), interface.up?)))
            .collect()
    }

    /// How long each interface has been up, at a time of the reader's clock of day in nanoseconds since the Unix epoch. Left out are
    /// those that are not up, whose `last-change` the switch does not tell, and whose `last-change` is later than that: the clock of
    /// the switch is ahead.
    pub fn up_for(&self, unix_ns: u64) -> impl Iterator<Item = (&str, Duration)> {
        self.interfaces.iter().filter_map(move |(name, interface)| {
            let since = interface.last_change_unix_ns;
            let since = since.filter(|_| interface.up == Some(true))?;
            let up_for = unix_ns.checked_sub(since)?;
            Some((&**name, Duration::from_nanos(up_for)))
        })
    }
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Whether `oper-status` is UP. None: not told, or UNKNOWN.
    pub up: Option<bool>,
    /// `last-change`: when it came up or went down last, in nanoseconds since the Unix epoch by the switch's clock. None: not told.
    pub last_change_unix_ns: Option<u64>,
    /// `negotiated-port-speed` in bits per second, else `port-speed`. None: not told.
    pub speed_bps: Option<u64>,
    /// The counters that the switch has.
    pub counters: Counters,
    /// LLDP neighbours heard at this interface, by their `id`.
    pub neighbors: BTreeMap<Arc<str>, Neighbor>,
}

impl Interface {
    /// Whether nothing is known of it.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Counters of an interface. None: the switch does not have it, or has not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `in-octets`.
    pub in_octets: Option<Counter>,
    /// `out-octets`.
    pub out_octets: Option<Counter>,
    /// `in-errors`, in packets.
    pub in_errors: Option<Counter>,
    /// `out-errors`, in packets.
    pub out_errors: Option<Counter>,
    /// `in-discards`, in packets.
    pub in_discards: Option<Counter>,
    /// `out-discards`, in packets.
    pub out_discards: Option<Counter>,
    /// `in-mac-pause-frames`.
    pub in_pause_frames: Option<Counter>,
    /// `out-mac-pause-frames`.
    pub out_pause_frames: Option<Counter>,
}

/// One reading of a counter. Readings of one interface may be of different moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// What it counted, since the switch cleared it.
    pub value: u64,
    /// When the switch read it: nanoseconds since the Unix epoch, by the switch's clock.
    pub unix_ns: i64,
    /// When it arrived, by the clock of the client.
    pub received: Duration,
}

/// A neighbour as it describes itself by LLDP. Every text is safe to show and at most 255 octets long.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbor {
    /// `chassis-id`.
    pub chassis_id: Option<Arc<str>>,
    /// `system-name`.
    pub system_name: Option<Arc<str>>,
    /// `port-id`.
    pub port_id: Option<Arc<str>>,
    /// `port-description`.
    pub port_description: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_up_since_its_last_change_if_both_clocks_say_so() {
        const NOW: u64 = 1_700_000_000_000_000_000;
        let second = 1_000_000_000;
        let table = [
            ("not told", Some(true), None, None),
            ("up", Some(true), Some(NOW - 3 * second), Some(3)),
            ("now", Some(true), Some(NOW), Some(0)),
            ("down", Some(false), Some(NOW - 3 * second), None),
            ("unknown", None, Some(NOW - 3 * second), None),
            ("a clock that is ahead", Some(true), Some(NOW + 1), None),
            ("never", Some(true), Some(0), Some(1_700_000_000)),
        ];
        for (case, up, last_change_unix_ns, expected) in table {
            let interface = Interface {
                up,
                last_change_unix_ns,
                ..Interface::default()
            };
            let sample = Sample {
                interfaces: [("eth1".into(), interface)].into(),
                ..Sample::default()
            };
            let found: Vec<_> = sample.up_for(NOW).collect();
            let expected = expected.map(|secs| ("eth1", Duration::from_secs(secs)));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{case}");
        }
    }
}
