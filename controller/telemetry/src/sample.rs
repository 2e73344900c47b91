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
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Whether `oper-status` is UP. None: not told, or UNKNOWN.
    pub up: Option<bool>,
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
