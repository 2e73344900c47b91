//! What a switch says of its interfaces, put together from gNMI notifications: updates, deletes, atomic ones, late ones.
//! Nothing that a switch sends is an error: what is not understood is counted and named. It refuses to know streams and
//! clocks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use weft_proto::gnmi::{Notification, Path, Update};

use crate::oddities::{Odd, Oddities};
use crate::place::{
    INTERFACE_LEAVES, InterfaceLeaf, NEIGHBOR_LEAVES, NeighborLeaf, Place, Region, Step, local,
    place, region, shown, steps,
};
use crate::sample::{Counter, Interface, Neighbor};
use crate::text::{NAME_MAX, plain};
use crate::value::{Scalar, value};

/// The interfaces of one switch during one subscription.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    interfaces: BTreeMap<Arc<str>, Known>,
    neighbors: usize,
    oddities: Oddities,
}

/// What a notification changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// An oper-status, a last change, a speed or a neighbour.
    pub state: bool,
    /// A counter was read.
    pub counters: bool,
}

/// An interface, and what only comparing needs.
#[derive(Clone, Debug, Default)]
struct Known {
    interface: Interface,
    status_ns: i64,
    change_ns: i64,
    port_speed_bps: Option<u64>,
    negotiated_speed_bps: Option<u64>,
}

/// When something was said.
#[derive(Clone, Copy, Debug)]
struct When {
    unix_ns: i64,
    received: Duration,
}

/// What a leaf of an interface says.
#[derive(Clone, Copy, Debug)]
enum Reading {
    OperUp(Option<bool>),
    LastChange(u64),
    PortSpeed(Option<u64>),
    NegotiatedSpeed(Option<u64>),
    Counter(InterfaceLeaf, u64),
}

impl Mirror {
    /// Learns what a notification says: an atomic one replaces what is below its prefix, then deletes, then updates.
    /// `received` is when it arrived, by the clock of the caller.
    pub fn learn(&mut self, notification: &Notification, received: Duration) -> Changed {
        let mut changed = Changed::default();
        let prefix = notification.prefix.as_ref();
        let when = When {
            unix_ns: notification.timestamp,
            received,
        };
        let mut wildcards = WILDCARD_DELETES_MAX;
        if notification.atomic {
            let above = Path::default();
            self.delete(prefix, &above, &mut wildcards, &mut changed);
        }
        for path in &notification.delete {
            self.delete(prefix, path, &mut wildcards, &mut changed);
        }
        for update in &notification.update {
            self.update(prefix, update, when, &mut changed);
        }
        changed
    }

    /// Counts something else that was not understood.
    pub fn count(&mut self, odd: Odd, example: &str) {
        self.oddities.count(odd, example);
    }

    /// What was not understood so far.
    #[must_use]
    pub fn oddities(&self) -> &Oddities {
        &self.oddities
    }

    /// The interfaces as they are known now.
    #[must_use]
    pub fn interfaces(&self) -> BTreeMap<Arc<str>, Interface> {
        let known = self.interfaces.iter();
        known
            .map(|(name, known)| (Arc::clone(name), known.interface.clone()))
            .collect()
    }

    fn update(
        &mut self,
        prefix: Option<&Path>,
        update: &Update,
        when: When,
        changed: &mut Changed,
    ) {
        let above = Path::default();
        let path = update.path.as_ref().unwrap_or(&above);
        let at = match steps(prefix, path) {
            Ok(at) => at,
            Err(odd) => return self.oddities.count(odd, &format!("{:?}", path.origin)),
        };
        let value = match value(update.val.as_ref()) {
            Ok(value) => value,
            // A leaf that nobody needs may be of any type.
            Err(Odd::Encoding) if place(&at) == Ok(Place::Beside) => return,
            Err(odd) => return self.oddities.count(odd, &shown(&at)),
        };
        value.leaves(&at, &mut |steps, scalar| {
            if let Err(odd) = scalar.and_then(|scalar| self.leaf(steps, scalar, when, changed)) {
                self.oddities.count(odd, &shown(steps));
            }
        });
    }

    fn leaf(
        &mut self,
        steps: &[Step<'_>],
        scalar: Scalar<'_>,
        when: When,
        changed: &mut Changed,
    ) -> Result<(), Odd> {
        match place(steps)? {
            Place::Beside => Ok(()),
            Place::Interface(name, leaf) => {
                let reading = Reading::new(leaf, scalar)?;
                self.interface(name)?.learn(reading, when, changed)
            }
            Place::Neighbor(name, id, leaf) => {
                let Scalar::Text(text) = scalar else {
                    return Err(Odd::Value);
                };
                let neighbor = self.neighbor(name, id)?;
                let text: Arc<str> = plain(text, NAME_MAX).into();
                let field = leaf.field(neighbor);
                changed.state |= field.as_ref() != Some(&text);
                *field = Some(text);
                Ok(())
            }
        }
    }

    fn interface(&mut self, name: &str) -> Result<&mut Known, Odd> {
        let is_full = self.interfaces.len() >= INTERFACES_MAX;
        match self.interfaces.entry(name.into()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(_) if is_full => Err(Odd::ManyInterfaces),
            Entry::Vacant(vacant) => Ok(vacant.insert(Known::default())),
        }
    }

    fn neighbor(&mut self, name: &str, id: &str) -> Result<&mut Neighbor, Odd> {
        let is_full = self.neighbors >= NEIGHBORS_MAX;
        let known = self.interfaces.get(name);
        let known = known.and_then(|known| known.interface.neighbors.get(id));
        if known.is_none() {
            if is_full {
                return Err(Odd::ManyNeighbors);
            }
            let neighbors = &mut self.interface(name)?.interface.neighbors;
            if neighbors.len() >= NEIGHBORS_OF_INTERFACE_MAX {
                return Err(Odd::ManyNeighbors);
            }
            neighbors.insert(id.into(), Neighbor::default());
            self.neighbors += 1;
        }
        let neighbors = &mut self.interface(name)?.interface.neighbors;
        neighbors.get_mut(id).ok_or(Odd::ManyNeighbors)
    }

    fn delete(
        &mut self,
        prefix: Option<&Path>,
        path: &Path,
        wildcards: &mut usize,
        changed: &mut Changed,
    ) {
        let steps = match steps(prefix, path) {
            Ok(steps) => steps,
            Err(odd) => return self.oddities.count(odd, &format!("{:?}", path.origin)),
        };
        let found = match region(&steps) {
            Ok(Region::Beside) => return,
            Ok(found) => found,
            Err(odd) => return self.oddities.count(odd, &shown(&steps)),
        };
        let one = match &found {
            Region::Interfaces(name, _) | Region::Neighbors(name, ..) => *name,
            Region::All | Region::Beside => None,
        };
        if one.is_none() {
            match wildcards.checked_sub(1) {
                Some(left) => *wildcards = left,
                None => return self.oddities.count(Odd::ManyDeletes, &shown(&steps)),
            }
        }
        let names: Vec<Arc<str>> = match one {
            Some(name) => self
                .interfaces
                .get_key_value(name)
                .into_iter()
                .map(|(name, _)| Arc::clone(name))
                .collect(),
            None => self.interfaces.keys().cloned().collect(),
        };
        for name in names {
            if let Some(known) = self.interfaces.get_mut(&name) {
                let before = known.interface.neighbors.len();
                changed.state |= known.forget(&found);
                self.neighbors -= before - known.interface.neighbors.len();
                if known.interface.is_empty() {
                    self.interfaces.remove(&name);
                }
            }
        }
    }
}

impl Reading {
    fn new(leaf: InterfaceLeaf, scalar: Scalar<'_>) -> Result<Self, Odd> {
        let text = match scalar {
            Scalar::Text(text) => Ok(local(text)),
            Scalar::Number(_) | Scalar::Other => Err(Odd::Value),
        };
        match leaf {
            InterfaceLeaf::OperStatus => oper_up(text?).map(Self::OperUp),
            InterfaceLeaf::PortSpeed => speed_bps(text?).map(Self::PortSpeed),
            InterfaceLeaf::NegotiatedPortSpeed => speed_bps(text?).map(Self::NegotiatedSpeed),
            InterfaceLeaf::LastChange => {
                let unix_ns = scalar.number().ok_or(Odd::Value)?;
                Ok(Self::LastChange(unix_ns))
            }
            counter => {
                let value = scalar.number().ok_or(Odd::Value)?;
                Ok(Self::Counter(counter, value))
            }
        }
    }
}

impl Known {
    fn learn(&mut self, reading: Reading, when: When, changed: &mut Changed) -> Result<(), Odd> {
        let before = self.state();
        match reading {
            Reading::OperUp(_) if is_late(when.unix_ns, self.status_ns) => return Err(Odd::Late),
            Reading::OperUp(up) => (self.interface.up, self.status_ns) = (up, when.unix_ns),
            Reading::LastChange(_) if is_late(when.unix_ns, self.change_ns) => {
                return Err(Odd::Late);
            }
            Reading::LastChange(unix_ns) => {
                self.interface.last_change_unix_ns = Some(unix_ns);
                self.change_ns = when.unix_ns;
            }
            Reading::PortSpeed(bps) => self.port_speed_bps = bps,
            Reading::NegotiatedSpeed(bps) => self.negotiated_speed_bps = bps,
            Reading::Counter(leaf, value) => {
                let counter = leaf.counter(&mut self.interface.counters);
                let counter = counter.ok_or(Odd::Value)?;
                if counter.is_some_and(|counter| is_late(when.unix_ns, counter.unix_ns)) {
                    return Err(Odd::Late);
                }
                *counter = Some(Counter {
                    value,
                    unix_ns: when.unix_ns,
                    received: when.received,
                });
                changed.counters = true;
            }
        }
        self.interface.speed_bps = self.negotiated_speed_bps.or(self.port_speed_bps);
        changed.state |= before != self.state();
        Ok(())
    }

    /// What is no counter: oper-status, last change and speed.
    fn state(&self) -> (Option<bool>, [Option<u64>; 2]) {
        let interface = &self.interface;
        let numbers = [interface.last_change_unix_ns, interface.speed_bps];
        (interface.up, numbers)
    }

    /// Forgets what is in a region. True if that changed more than counters.
    fn forget(&mut self, region: &Region<'_>) -> bool {
        let before = self.state();
        let neighbors = self.interface.neighbors.len();
        let mut texts = false;
        match region {
            Region::Beside => {}
            Region::All => {
                *self = Self::default();
            }
            Region::Interfaces(_, tail) => self.forget_leaves(tail),
            Region::Neighbors(_, id, tail) if tail.is_empty() => match id {
                Some(id) => drop(self.interface.neighbors.remove(*id)),
                None => self.interface.neighbors.clear(),
            },
            Region::Neighbors(_, id, tail) => {
                let all = self.interface.neighbors.iter_mut();
                for (_, neighbor) in all.filter(|(known, _)| id.is_none_or(|id| id == &***known)) {
                    for (leaf, path) in NEIGHBOR_LEAVES {
                        if path.starts_with(tail) {
                            texts |= leaf.field(neighbor).take().is_some();
                        }
                    }
                }
                let empty = Neighbor::default();
                self.interface
                    .neighbors
                    .retain(|_, neighbor| *neighbor != empty);
            }
        }
        texts || before != self.state() || neighbors != self.interface.neighbors.len()
    }

    fn forget_leaves(&mut self, tail: &[&str]) {
        for (leaf, path) in INTERFACE_LEAVES {
            if !path.starts_with(tail) {
                continue;
            }
            match leaf.counter(&mut self.interface.counters) {
                Some(counter) => *counter = None,
                None => match leaf {
                    InterfaceLeaf::OperStatus => self.interface.up = None,
                    InterfaceLeaf::LastChange => self.interface.last_change_unix_ns = None,
                    InterfaceLeaf::PortSpeed => self.port_speed_bps = None,
                    _ => self.negotiated_speed_bps = None,
                },
            }
        }
        self.interface.speed_bps = self.negotiated_speed_bps.or(self.port_speed_bps);
    }
}

impl NeighborLeaf {
    fn field(self, neighbor: &mut Neighbor) -> &mut Option<Arc<str>> {
        match self {
            Self::ChassisId => &mut neighbor.chassis_id,
            Self::SystemName => &mut neighbor.system_name,
            Self::PortId => &mut neighbor.port_id,
            Self::PortDescription => &mut neighbor.port_description,
        }
    }
}

/// Whether an update is older than what is known. One that is much older shows that the switch's clock was set back.
fn is_late(unix_ns: i64, known_ns: i64) -> bool {
    let behind = known_ns.saturating_sub(unix_ns);
    behind > 0 && behind < LATE_MAX_NS
}

/// `oper-status` of openconfig-interfaces. None: UNKNOWN.
fn oper_up(text: &str) -> Result<Option<bool>, Odd> {
    match text {
        "UP" => Ok(Some(true)),
        "DOWN" | "TESTING" | "DORMANT" | "NOT_PRESENT" | "LOWER_LAYER_DOWN" => Ok(Some(false)),
        "UNKNOWN" => Ok(None),
        _ => Err(Odd::Value),
    }
}

/// An identity of ETHERNET_SPEED, such as `SPEED_100GB`, in bits per second. None: SPEED_UNKNOWN.
fn speed_bps(text: &str) -> Result<Option<u64>, Odd> {
    let speed = text.strip_prefix("SPEED_").ok_or(Odd::Value)?;
    if speed == "UNKNOWN" {
        return Ok(None);
    }
    let units = [
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    let read = units.iter().find_map(|(unit, bps)| {
        let number: u64 = speed.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*bps)
    });
    read.map(Some).ok_or(Odd::Value)
}

/// Interfaces that are kept: the ports of the largest switch, each broken out in eight, and as many others. Those that
/// come later are counted, not kept.
pub(crate) const INTERFACES_MAX: usize = 2_048;

/// Neighbours that are kept, over all interfaces. Those that come later are counted, not kept.
pub(crate) const NEIGHBORS_MAX: usize = 4_096;

/// Neighbours that are kept at one interface: more than one is wrong, and which they are helps little.
pub(crate) const NEIGHBORS_OF_INTERFACE_MAX: usize = 8;

/// Deletes over all interfaces in one notification: each looks at every interface.
const WILDCARD_DELETES_MAX: usize = 64;

/// Notifications of one stream overtake each other by less than this.
const LATE_MAX_NS: i64 = 10_000_000_000;

#[cfg(test)]
mod tests;
