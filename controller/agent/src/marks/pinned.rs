//! The maps of pinned packets, and what leads from one state of them to another in a transaction. Knows no process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::listed::{Listed, Written, hooked};
use super::{Counted, set_mark, table};
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{Family, Pin, Pins, Slot};
use crate::instance::{InterfaceName, Source};

/// What the maps have, and a transaction on its way to them.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    pins: Arc<Pins>,
    /// Slots with a chain that sets their mark.
    chains: BTreeSet<Slot>,
    /// The rules by chain, as nft listed them last while they were as they were written.
    known: BTreeMap<String, Vec<String>>,
    /// Whether the maps are there.
    maps: bool,
    /// Whether it is not known what the table has: everything is to be written anew.
    unknown: bool,
    writing: Option<Writing>,
    /// Renewals until the next attempt after one that failed.
    pause: u32,
}

/// A transaction on its way.
#[derive(Debug)]
struct Writing {
    number: u64,
    pins: Arc<Pins>,
    /// Whether the whole table is written.
    anew: bool,
    task: JoinHandle<Result<(), String>>,
}

impl Pinned {
    /// Puts a table with these pins in the place of what is there, in one transaction. Should that fail, it has the weights alone,
    /// and the next [`write`](Self::write) adds the pins. Nothing is on its way meanwhile.
    pub(super) async fn put(
        &mut self,
        pins: &Arc<Pins>,
        devices: &BTreeSet<String>,
        numbers: Numbers,
    ) -> Result<(), String> {
        if !pins.is_empty() {
            match super::run(&first(pins, devices, numbers)).await {
                Ok(()) => {
                    self.set(pins, true);
                    return Ok(());
                }
                Err(why) => {
                    tracing::warn!(error = %why, "the table of marks is put without pins");
                }
            }
        }
        super::run(&first(&Pins::new(), devices, numbers)).await
    }

    /// Brings the maps to these pins, one transaction after the other. Ok: they are there. None: it is on its way, or waits. The
    /// devices are those of the set, should the table be written anew.
    pub(super) fn write(
        &mut self,
        number: u64,
        pins: &Arc<Pins>,
        devices: &BTreeSet<String>,
        numbers: Numbers,
    ) -> Option<Result<(), String>> {
        if self.writing.is_some() {
            return None;
        }
        if !self.unknown && *self.pins == **pins {
            self.pins = Arc::clone(pins);
            return Some(Ok(()));
        }
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let anew = self.unknown;
        let commands = match anew {
            true => whole(pins, devices, numbers),
            false => self.towards(pins, numbers),
        };
        let pins = Arc::clone(pins);
        let task = tokio::spawn(async move { super::run(&commands).await });
        self.writing = Some(Writing {
            number,
            pins,
            anew,
            task,
        });
        None
    }

    /// Returns when a transaction is done: its number, and whether the maps have its pins. May be dropped and called again.
    pub(super) async fn written(&mut self) -> (u64, Result<(), String>) {
        let Some(writing) = &mut self.writing else {
            return std::future::pending().await;
        };
        let ended = |error: tokio::task::JoinError| Err(error.to_string());
        let outcome = (&mut writing.task).await.unwrap_or_else(ended);
        let writing = self.writing.take().expect("it was there");
        match &outcome {
            Ok(()) => self.set(&writing.pins, writing.anew),
            Err(_) => {
                self.pause = super::PAUSE;
                // A transaction that is refused changed nothing, but something is not as it was believed to be; one that was not
                // answered may have changed everything.
                self.unknown = true;
            }
        }
        (writing.number, outcome)
    }

    /// Whether the table has what was written last, and nothing is on its way to it.
    pub(super) fn is_settled(&self) -> bool {
        self.writing.is_none() && !self.unknown
    }

    /// The table is not as it was written: the next transaction writes everything anew.
    pub(super) fn distrust(&mut self) {
        self.unknown = true;
    }

    /// Ends the transaction that is on its way, and forgets what the maps have, for the table goes.
    pub(super) async fn end(&mut self) {
        if let Some(Writing { task, .. }) = &mut self.writing {
            task.abort();
            // Its nft is killed when it has ended.
            let _aborted = task.await;
        }
        *self = Self::default();
    }

    /// Takes from a list how nft shows the rules, which are as they were written.
    pub(super) fn learn(&mut self, listed: &Listed) {
        self.known.clone_from(listed.texts());
    }

    /// Packets of the pins that the maps have.
    pub(super) fn counted(&self, listed: &Listed) -> Counted {
        listed.counted(&self.pins)
    }

    /// The whole table as it was written.
    pub(super) fn expected(&self, numbers: Numbers) -> Written<'_> {
        let mark = |slot: Slot| numbers.mark_of(slot).0.to_string();
        let weights = vec!["@vxlan".to_owned(), mark(Slot::WEIGHTS)];
        let maps = if self.maps { &MAPS[..] } else { &[] };
        let mut rules = BTreeMap::from([("postrouting".to_owned(), vec![weights])]);
        let hook = hooked("filter", "postrouting", 100, "accept");
        let mut objects =
            BTreeSet::from(["set vxlan".to_owned(), format!("chain postrouting{hook}")]);
        if self.maps {
            let hook = hooked("filter", FORWARD, 100, "accept");
            objects.insert(format!("chain {FORWARD}{hook}"));
        }
        for map in maps {
            objects.insert(format!("map {}", map.name));
            let look_up = vec!["@vxlan".to_owned(), format!("@{}", map.name)];
            rules
                .entry(map.chain().to_owned())
                .or_default()
                .push(look_up);
        }
        for slot in &self.chains {
            objects.insert(format!("chain {}", chain(*slot)));
            rules.insert(chain(*slot), vec![vec![mark(*slot)]]);
        }
        Written {
            objects,
            rules,
            known: &self.known,
            pins: &self.pins,
        }
    }

    /// Commands that lead to these pins; empty if there is nothing to do.
    fn towards(&self, pins: &Pins, numbers: Numbers) -> String {
        let mut commands = String::new();
        if !self.maps && !pins.is_empty() {
            commands += &maps();
        }
        let before = &self.pins;
        for slot in slots(pins).difference(&self.chains) {
            let (chain, set) = (chain(*slot), set_mark(numbers, *slot));
            commands += &format!(
                "add chain bridge weft {chain}\nflush chain bridge weft {chain}\nadd rule bridge weft {chain} {set}\n"
            );
        }
        for map in MAPS {
            let gone = before.iter();
            let gone = gone.filter(|(pin, slot)| map.has(pin) && pins.get(pin) != Some(slot));
            let gone: Vec<String> = gone.map(|(pin, _)| key(pin)).collect();
            command(&mut commands, "delete", map, &gone);
            let new = pins.iter();
            let new = new.filter(|(pin, slot)| map.has(pin) && before.get(pin) != Some(slot));
            let new: Vec<String> = new
                .map(|(pin, slot)| format!("{} counter : goto {}", key(pin), chain(*slot)))
                .collect();
            command(&mut commands, "add", map, &new);
        }
        commands
    }

    /// The maps have these pins now; if everything was written anew, the table has nothing else.
    fn set(&mut self, pins: &Arc<Pins>, anew: bool) {
        if anew {
            *self = Self::default();
        }
        self.chains.extend(slots(pins));
        self.pins = Arc::clone(pins);
        self.maps |= !pins.is_empty();
    }

    /// Maps that have these pins.
    #[cfg(test)]
    pub(super) fn with(pins: Pins) -> Self {
        let mut pinned = Self::default();
        pinned.set(&Arc::new(pins), true);
        pinned
    }
}

impl Drop for Pinned {
    /// What is on its way to a table that is not wanted any more ends.
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.task.abort();
        }
    }
}

/// Commands that put a table with these pins in the place of the one that is there. Where there is none they are refused:
/// who renews the devices puts it, if it is to be there.
fn whole(pins: &Pins, devices: &BTreeSet<String>, numbers: Numbers) -> String {
    let (table, pins) = (
        table(devices, numbers),
        Pinned::default().towards(pins, numbers),
    );
    format!("delete table bridge weft; {table}{pins}")
}

/// Commands that put a table with these pins, whether there is one or not: what is not there cannot be deleted.
fn first(pins: &Pins, devices: &BTreeSet<String>, numbers: Numbers) -> String {
    let whole = whole(pins, devices, numbers);
    format!("add table bridge weft; {whole}")
}

/// Commands that add the maps, and the rules that look packets up there. What is more precise comes first: whoever finds
/// something looks no further.
fn maps() -> String {
    let mut commands = format!(
        "add chain bridge weft {FORWARD} {{ type filter hook {FORWARD} priority 100; policy accept; }}\n"
    );
    for map in MAPS {
        let (name, chain) = (map.name, map.chain());
        let (types, fields): (Vec<_>, Vec<_>) = map.key().into_iter().unzip();
        let (types, fields) = (types.join(" . "), fields.join(" . "));
        write!(
            commands,
            "add map bridge weft {name} {{ type {types} : verdict; counter; }}\n\
             add rule bridge weft {chain} oifname @vxlan {fields} vmap @{name}\n"
        )
        .expect("a string takes everything");
    }
    commands
}

/// One of the maps.
#[derive(Copy, Clone)]
pub(super) struct Map {
    pub(super) name: &'static str,
    source: By,
    /// The family of the destinations in the key; None: there is no destination in it.
    family: Option<Family>,
    /// Whether protocol and source port are in the key.
    port: bool,
}

/// What of a packet's source is in the key of a map.
#[derive(Copy, Clone, PartialEq, Eq)]
enum By {
    Nothing,
    Address,
    Port,
}

impl Map {
    const fn new(name: &'static str, source: By, family: Option<Family>, port: bool) -> Self {
        Self {
            name,
            source,
            family,
            port,
        }
    }

    fn has(self, pin: &Pin) -> bool {
        let source = match pin.source {
            Source::Any => By::Nothing,
            Source::Address(_) => By::Address,
            Source::Port(_) => By::Port,
        };
        let family = pin.destination.map(|address| match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        });
        (self.source, self.family, self.port) == (source, family, pin.port.is_some())
    }

    /// Where packets are looked up. Behind the bridge nothing knows any more by which port they came.
    fn chain(self) -> &'static str {
        match self.source {
            By::Port => FORWARD,
            By::Nothing | By::Address => "postrouting",
        }
    }

    /// The type of each part of the key, and the part of a packet that it is.
    fn key(self) -> Vec<(&'static str, &'static str)> {
        let mut key = vec![("ifname", "oifname")];
        match (self.source, self.family) {
            (By::Nothing, _) | (By::Address, None) => {}
            (By::Port, _) => key.push(("ifname", "iifname")),
            (By::Address, Some(Family::V4)) => key.push(("ipv4_addr", "ip saddr")),
            (By::Address, Some(Family::V6)) => key.push(("ipv6_addr", "ip6 saddr")),
        }
        let protocol = match self.family {
            None => return key,
            Some(Family::V4) => {
                key.push(("ipv4_addr", "ip daddr"));
                "ip protocol"
            }
            Some(Family::V6) => {
                key.push(("ipv6_addr", "ip6 daddr"));
                "ip6 nexthdr"
            }
        };
        if self.port {
            key.extend([("inet_proto", protocol), ("inet_service", "th sport")]);
        }
        key
    }

    /// The pin of a key: a text or a number for each part.
    pub(super) fn pin(self, key: &[Value]) -> Option<Pin> {
        let mut parts = key.iter();
        let device = parts.next()?.as_str()?.to_owned();
        let mut text = || parts.next()?.as_str();
        let source = match self.source {
            By::Nothing => Source::Any,
            By::Address => Source::Address(text()?.parse().ok()?),
            By::Port => Source::Port(InterfaceName::from(text()?).ok()?),
        };
        let destination = match self.family {
            None => None,
            Some(_) => Some(text()?.parse().ok()?),
        };
        let number = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        let port = match self.port {
            false => None,
            true => Some((
                u8::try_from(number(parts.next()?)?).ok()?,
                u16::try_from(number(parts.next()?)?).ok()?,
            )),
        };
        let pin = Pin {
            device,
            source,
            destination,
            port,
        };
        (parts.next().is_none() && self.has(&pin)).then_some(pin)
    }
}

fn slots(pins: &Pins) -> BTreeSet<Slot> {
    pins.values().copied().collect()
}

/// The map of pins of this name.
pub(super) fn map(name: &str) -> Option<Map> {
    MAPS.into_iter().find(|map| map.name == name)
}

/// A pin, for a person.
pub(super) fn name(pin: &Pin) -> String {
    let map = MAPS.iter().find(|map| map.has(pin));
    format!("{} in map {}", key(pin), map.map_or("", |map| map.name))
}

pub(super) fn chain(slot: Slot) -> String {
    format!("pin{}", slot.0)
}

/// A packet as a key of its map. The names of the device and of the port have nothing that nft would read as something else.
fn key(pin: &Pin) -> String {
    let mut key = format!("\"{}\"", pin.device);
    let source = match pin.source {
        Source::Any => Ok(()),
        Source::Address(address) => write!(key, " . {address}"),
        Source::Port(port) => write!(key, " . \"{port}\""),
    };
    let destination = pin.destination.into_iter();
    let destination = destination.map(|address| write!(key, " . {address}"));
    let destination: fmt::Result = destination.collect();
    let port = match pin.port {
        Some((protocol, port)) => write!(key, " . {protocol} . {port}"),
        None => Ok(()),
    };
    source
        .and(destination)
        .and(port)
        .expect("a string takes everything");
    key
}

/// Adds a command over elements of a map, unless there is none.
fn command(commands: &mut String, verb: &str, map: Map, elements: &[String]) {
    if !elements.is_empty() {
        let (name, elements) = (map.name, elements.join(", "));
        *commands += &format!("{verb} element bridge weft {name} {{ {elements} }}\n");
    }
}

/// The chain where it is known by which port a packet came. Its priority is not 0, which br_netfilter has: the kernel passes over chains
/// of the same priority that were there before a bridge was.
const FORWARD: &str = "forward";

/// What is more precise comes first within a chain; what the forward chain finds, any of the others may overrule.
const MAPS: [Map; 13] = [
    Map::new("source_ports4", By::Address, Some(Family::V4), true),
    Map::new("source_ports6", By::Address, Some(Family::V6), true),
    Map::new("ports4", By::Nothing, Some(Family::V4), true),
    Map::new("ports6", By::Nothing, Some(Family::V6), true),
    Map::new("sources4", By::Address, Some(Family::V4), false),
    Map::new("sources6", By::Address, Some(Family::V6), false),
    Map::new("pins4", By::Nothing, Some(Family::V4), false),
    Map::new("pins6", By::Nothing, Some(Family::V6), false),
    Map::new("interface_ports4", By::Port, Some(Family::V4), true),
    Map::new("interface_ports6", By::Port, Some(Family::V6), true),
    Map::new("interface_pins4", By::Port, Some(Family::V4), false),
    Map::new("interface_pins6", By::Port, Some(Family::V6), false),
    Map::new("interfaces", By::Port, None, false),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(destination: &str, port: Option<(u8, u16)>) -> Pin {
        Pin {
            device: "vxlan100".to_owned(),
            source: Source::Any,
            destination: Some(destination.parse().expect("an address")),
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
        let commands = pinned.towards(&first, numbers);
        let commands = commands.strip_prefix(&maps()).expect("the maps come first");
        assert_eq!(
            commands,
            "add chain bridge weft pin1\n\
             flush chain bridge weft pin1\n\
             add rule bridge weft pin1 meta mark set mark and 0xffff or 0x57010000\n\
             add chain bridge weft pin2\n\
             flush chain bridge weft pin2\n\
             add rule bridge weft pin2 meta mark set mark and 0xffff or 0x57020000\n\
             add element bridge weft ports4 { \"vxlan100\" . 192.0.2.1 . 17 . 49152 counter : goto pin2 }\n\
             add element bridge weft pins4 { \"vxlan100\" . 192.0.2.1 counter : goto pin1, \
             \"vxlan100\" . 192.0.2.2 counter : goto pin1 }\n\
             add element bridge weft pins6 { \"vxlan100\" . 2001:db8::1 counter : goto pin2 }\n"
        );
        pinned.set(&first, false);
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

    #[test]
    fn what_is_not_known_is_written_anew_in_one_transaction() {
        let numbers = Numbers::default();
        let devices = BTreeSet::from(["vxlan100".to_owned()]);
        let nothing = whole(&Pins::new(), &devices, numbers);
        assert!(nothing.starts_with("delete table bridge weft; add table bridge weft; "));
        assert!(
            nothing.ends_with("add element bridge weft vxlan { \"vxlan100\" timeout 1000ms }\n")
        );
        let pins = pins(&[(pin("192.0.2.1", None), 2)]);
        let rest = Pinned::default().towards(&pins, numbers);
        assert!(rest.starts_with(&maps()));
        assert_eq!(whole(&pins, &devices, numbers), nothing + &rest);
        // Where there may be no table, one is added before it is deleted.
        let fresh = first(&pins, &devices, numbers);
        let whole = whole(&pins, &devices, numbers);
        assert_eq!(fresh.strip_prefix("add table bridge weft; "), Some(&*whole));
        // Chains that pins had before are gone then.
        let mut pinned = Pinned::with(Pins::from([(pin("192.0.2.1", None), Slot(1))]));
        pinned.distrust();
        assert!(!pinned.is_settled());
        pinned.set(&pins, true);
        assert!(pinned.is_settled());
        assert_eq!(pinned.chains, BTreeSet::from([Slot(2)]));
    }

    #[test]
    fn a_table_that_is_put_has_its_weights_and_all_its_pins_in_one_transaction() {
        let numbers = Numbers::default();
        let devices = BTreeSet::from(["vxlan100".to_owned()]);
        let pins: Pins = (0..2_048_u16)
            .map(|port| (pin("192.0.2.1", Some((17, port))), Slot(1)))
            .collect();
        let commands = first(&pins, &devices, numbers);
        let place = |text: &str| commands.find(text).expect("it is there");
        // One table is deleted, and what follows is the new one.
        assert_eq!(commands.matches("delete ").count(), 1);
        let after = [
            "delete table bridge weft",
            "oifname @vxlan meta mark and 0xff000000 != 0x57000000 counter meta mark set mark and 0xffff or 0x57000000",
            "\"vxlan100\" timeout 1000ms",
            "add map bridge weft ports4",
            "add rule bridge weft pin1",
            "add element bridge weft ports4",
        ];
        assert!(after.map(place).is_sorted());
        assert_eq!(commands.matches(" counter : goto pin1").count(), 2_048);
        // Pins that are in the table are not written once more.
        assert_eq!(Pinned::with(pins.clone()).towards(&pins, numbers), "");
        // Without pins it has no maps, which not every kernel takes.
        assert!(!first(&Pins::new(), &devices, numbers).contains("map"));
    }
}
