//! The maps of pinned packets, and what leads from one state of them to another in a transaction. Knows no process.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use super::set_mark;
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{Pin, Pins, Slot};

/// What the maps have.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    pins: Arc<Pins>,
    /// Slots with a chain that sets their mark.
    chains: BTreeSet<Slot>,
}

impl Pinned {
    /// Commands that lead to these pins; empty if there is nothing to do.
    pub(super) fn towards(&self, pins: &Pins, numbers: Numbers) -> String {
        let mut commands = String::new();
        for slot in slots(pins).difference(&self.chains) {
            let (chain, set) = (chain(*slot), set_mark(numbers, *slot));
            commands +=
                &format!("add chain bridge weft {chain}\nadd rule bridge weft {chain} {set}\n");
        }
        for map in MAPS {
            let gone = self.pins.iter();
            let gone = gone.filter(|(pin, slot)| map.has(pin) && pins.get(pin) != Some(slot));
            let gone: Vec<String> = gone.map(|(pin, _)| key(pin)).collect();
            command(&mut commands, "delete", map, &gone);
            let new = pins.iter();
            let new = new.filter(|(pin, slot)| map.has(pin) && self.pins.get(pin) != Some(slot));
            let new: Vec<String> = new
                .map(|(pin, slot)| format!("{} counter : goto {}", key(pin), chain(*slot)))
                .collect();
            command(&mut commands, "add", map, &new);
        }
        commands
    }

    /// The maps have these pins now.
    pub(super) fn set(&mut self, pins: &Arc<Pins>) {
        self.chains.extend(slots(pins));
        self.pins = Arc::clone(pins);
    }
}

/// Commands that add the maps, and the rules that look packets up there. What is more precise comes first: whoever finds
/// something looks no further.
pub(super) fn maps() -> String {
    let mut commands = String::new();
    for map in MAPS {
        let (name, key) = (map.name, map.key());
        let address = if map.ipv4 { "ipv4_addr" } else { "ipv6_addr" };
        let port = if map.port {
            " . inet_proto . inet_service"
        } else {
            ""
        };
        write!(
            commands,
            "; add map bridge weft {name} {{ type ifname . {address}{port} : verdict; counter; }}; \
             add rule bridge weft postrouting oifname @vxlan {key} vmap @{name}"
        )
        .expect("a string takes everything");
    }
    commands
}

/// One of the maps.
#[derive(Copy, Clone)]
struct Map {
    name: &'static str,
    ipv4: bool,
    /// Whether protocol and source port are in the key.
    port: bool,
}

impl Map {
    fn has(self, pin: &Pin) -> bool {
        self.ipv4 == pin.destination.is_ipv4() && self.port == pin.port.is_some()
    }

    /// The parts of a packet that are looked up.
    fn key(self) -> &'static str {
        match (self.ipv4, self.port) {
            (true, true) => "oifname . ip daddr . ip protocol . th sport",
            (true, false) => "oifname . ip daddr",
            (false, true) => "oifname . ip6 daddr . ip6 nexthdr . th sport",
            (false, false) => "oifname . ip6 daddr",
        }
    }
}

fn slots(pins: &Pins) -> BTreeSet<Slot> {
    pins.values().copied().collect()
}

fn chain(slot: Slot) -> String {
    format!("pin{}", slot.0)
}

/// A packet as a key of its map. The name of the device has nothing that nft would read as something else.
fn key(pin: &Pin) -> String {
    let (device, destination) = (&pin.device, pin.destination);
    let destination = match destination {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.to_string(),
    };
    match pin.port {
        Some((protocol, port)) => format!("\"{device}\" . {destination} . {protocol} . {port}"),
        None => format!("\"{device}\" . {destination}"),
    }
}

/// Adds a command over elements of a map, unless there is none.
fn command(commands: &mut String, verb: &str, map: Map, elements: &[String]) {
    if !elements.is_empty() {
        let (name, elements) = (map.name, elements.join(", "));
        *commands += &format!("{verb} element bridge weft {name} {{ {elements} }}\n");
    }
}

const MAPS: [Map; 4] = [
    Map {
        name: "ports4",
        ipv4: true,
        port: true,
    },
    Map {
        name: "ports6",
        ipv4: false,
        port: true,
    },
    Map {
        name: "pins4",
        ipv4: true,
        port: false,
    },
    Map {
        name: "pins6",
        ipv4: false,
        port: false,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(destination: &str, port: Option<(u8, u16)>) -> Pin {
        Pin {
            device: "vxlan100".to_owned(),
            destination: destination.parse().expect("an address"),
            port,
        }
    }

    fn pins(of: &[(Pin, u8)]) -> Arc<Pins> {
        Arc::new(
            of.iter()
                .map(|(pin, slot)| (pin.clone(), Slot(*slot)))
                .collect(),
        )
    }

    #[test]
    fn only_differences_are_written_and_what_moves_goes_first() {
        let numbers = Numbers::default();
        let mut pinned = Pinned::default();
        let first = pins(&[
            (pin("192.0.2.1", None), 1),
            (pin("192.0.2.2", None), 1),
            (pin("2001:db8::1", None), 2),
            (pin("192.0.2.1", Some((17, 49152))), 2),
        ]);
        assert_eq!(
            pinned.towards(&first, numbers),
            "add chain bridge weft pin1\n\
             add rule bridge weft pin1 meta mark set mark and 0xffff or 0x57010000\n\
             add chain bridge weft pin2\n\
             add rule bridge weft pin2 meta mark set mark and 0xffff or 0x57020000\n\
             add element bridge weft ports4 { \"vxlan100\" . 192.0.2.1 . 17 . 49152 counter : goto pin2 }\n\
             add element bridge weft pins4 { \"vxlan100\" . 192.0.2.1 counter : goto pin1, \
             \"vxlan100\" . 192.0.2.2 counter : goto pin1 }\n\
             add element bridge weft pins6 { \"vxlan100\" . 2001:db8::1 counter : goto pin2 }\n"
        );
        pinned.set(&first);
        assert_eq!(pinned.towards(&first, numbers), "");
        let mut next = (*first).clone();
        next.insert(pin("192.0.2.2", None), Slot(2));
        next.remove(&pin("192.0.2.1", Some((17, 49152))));
        assert_eq!(
            pinned.towards(&next, numbers),
            "delete element bridge weft ports4 { \"vxlan100\" . 192.0.2.1 . 17 . 49152 }\n\
             delete element bridge weft pins4 { \"vxlan100\" . 192.0.2.2 }\n\
             add element bridge weft pins4 { \"vxlan100\" . 192.0.2.2 counter : goto pin2 }\n"
        );
    }
}
