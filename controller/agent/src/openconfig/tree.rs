//! The leaves of a switch and what they are worth at one moment. Knows no path that somebody asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::schema::Leaf;
use crate::entry::Key;
use crate::fib::Ids;
use crate::forwarding::{Interface, Member, OperStatus, Path};

/// What the agent knows of its switch at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Nanoseconds since the Unix epoch.
    pub unix_ns: i64,
    /// What the main routing table is called.
    pub network_instance: String,
    /// The interfaces.
    pub interfaces: Vec<Interface>,
    /// Time at which each interface last came up or went down, by its index, in nanoseconds since the Unix epoch. An interface that
    /// has not changed since the agent started is left out.
    pub last_changes: BTreeMap<u32, i64>,
    /// Which kernel's id is which client's.
    pub ids: Ids,
    /// The agent's next hops in the kernel, by id.
    pub next_hops: BTreeMap<u32, Path>,
    /// Its groups, by id.
    pub groups: BTreeMap<u32, Vec<Member>>,
    /// The group of each prefix of its table of weights.
    pub routes: BTreeMap<IpNet, u32>,
}

/// What is known beside, from others than netlink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Megabits per second, by the index of the interface.
    pub speeds: BTreeMap<u32, u32>,
    /// LLDP neighbours.
    pub neighbors: Vec<Neighbor>,
}

/// Who is at the other end of a link, as it says itself by LLDP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbor {
    /// Our interface.
    pub interface: String,
    /// Tells it from others at the same interface.
    pub id: String,
    /// What it calls itself.
    pub system_name: Option<String>,
    /// Its chassis.
    pub chassis_id: Option<String>,
    /// Its port.
    pub port_id: Option<String>,
    /// What it says of the port; where the port's id is a MAC address, often the name of the interface.
    pub port_description: Option<String>,
}

/// A leaf of a list entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which leaf.
    pub leaf: Leaf,
    /// The keys of the lists on the way, from the root.
    pub keys: Vec<Arc<str>>,
}

/// What a leaf is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string, or the name of an enumeration's member.
    Text(Arc<str>),
    /// An unsigned integer of at most 32 bits.
    Number(u32),
    /// One of 64 bits, which RFC 7951 §6.1 writes as a string.
    Long(u64),
    /// An identity, and the module that defines it.
    Identity(&'static str, &'static str),
}

/// All leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Nanoseconds since the Unix epoch.
    pub unix_ns: i64,
    leaves: BTreeMap<Place, Value>,
}

impl Tree {
    /// The tree of a snapshot.
    #[must_use]
    pub fn new(snapshot: &Snapshot, beside: &Beside) -> Self {
        let mut tree = Self {
            unix_ns: snapshot.unix_ns,
            leaves: BTreeMap::new(),
        };
        for interface in &snapshot.interfaces {
            tree.interface(interface, snapshot, beside);
        }
        tree.afts(snapshot);
        for neighbor in &beside.neighbors {
            tree.neighbor(neighbor);
        }
        tree
    }

    /// The value of a leaf.
    #[must_use]
    pub fn value(&self, place: &Place) -> Option<&Value> {
        self.leaves.get(place)
    }

    /// All leaves of one kind.
    pub fn of(&self, leaf: Leaf) -> impl Iterator<Item = (&Place, &Value)> {
        let keys = Vec::new();
        let first = Place { leaf, keys };
        let from = self.leaves.range(first..);
        from.take_while(move |(place, _)| place.leaf == leaf)
    }

    /// One leaf with its place.
    pub(super) fn one(&self, place: &Place) -> Option<(&Place, &Value)> {
        self.leaves.get_key_value(place)
    }

    fn put(&mut self, leaf: Leaf, keys: &[&Arc<str>], value: Value) {
        let keys = keys.iter().map(|key| Arc::clone(key)).collect();
        self.leaves.insert(Place { leaf, keys }, value);
    }

    fn interface(&mut self, interface: &Interface, snapshot: &Snapshot, beside: &Beside) {
        let name: Arc<str> = interface.name.as_str().into();
        let keys = [&name];
        let text = |text: &Arc<str>| Value::Text(Arc::clone(text));
        self.put(Leaf::InterfaceKey, &keys, text(&name));
        self.put(Leaf::InterfaceName, &keys, text(&name));
        self.put(Leaf::InterfaceIndex, &keys, Value::Number(interface.index));
        let admin = if interface.admin_up { "UP" } else { "DOWN" };
        self.put(Leaf::AdminStatus, &keys, Value::Text(admin.into()));
        let oper = oper_status(interface.oper);
        self.put(Leaf::OperStatus, &keys, Value::Text(oper.into()));
        let last_change = snapshot.last_changes.get(&interface.index);
        if let Some(unix_ns) = last_change.and_then(|unix_ns| u64::try_from(*unix_ns).ok()) {
            self.put(Leaf::LastChange, &keys, Value::Long(unix_ns));
        }
        // The model has 16 bits for it; the loopback interface has more than that.
        if interface.mtu <= u32::from(u16::MAX) {
            self.put(Leaf::Mtu, &keys, Value::Number(interface.mtu));
        }
        let counters = &interface.counters;
        for (leaf, count) in [
            (Leaf::InOctets, counters.in_octets),
            (Leaf::InPkts, counters.in_pkts),
            (Leaf::InErrors, counters.in_errors),
            (Leaf::InDiscards, counters.in_discards),
            (Leaf::OutOctets, counters.out_octets),
            (Leaf::OutPkts, counters.out_pkts),
            (Leaf::OutErrors, counters.out_errors),
            (Leaf::OutDiscards, counters.out_discards),
            (Leaf::CarrierTransitions, counters.carrier_transitions),
        ] {
            self.put(leaf, &keys, Value::Long(count));
        }
        let speed = beside.speeds.get(&interface.index);
        if let Some(speed) = speed.and_then(|mbps| port_speed(*mbps)) {
            let speed = Value::Identity("openconfig-if-ethernet", speed);
            self.put(Leaf::PortSpeed, &keys, speed);
        }
        let pause = interface.pause;
        for (leaf, count) in [
            (Leaf::InPauseFrames, pause.received),
            (Leaf::OutPauseFrames, pause.sent),
        ] {
            if let Some(count) = count {
                self.put(leaf, &keys, Value::Long(count));
            }
        }
    }

    fn afts(&mut self, snapshot: &Snapshot) {
        let instance: Arc<str> = snapshot.network_instance.as_str().into();
        self.put(
            Leaf::InstanceKey,
            &[&instance],
            Value::Text(Arc::clone(&instance)),
        );
        for (prefix, group) in &snapshot.routes {
            let [key, state, to] = match prefix {
                IpNet::V4(_) => [Leaf::Ipv4Key, Leaf::Ipv4Prefix, Leaf::Ipv4Group],
                IpNet::V6(_) => [Leaf::Ipv6Key, Leaf::Ipv6Prefix, Leaf::Ipv6Group],
            };
            let prefix: Arc<str> = prefix.to_string().into();
            let keys = [&instance, &prefix];
            self.put(key, &keys, Value::Text(Arc::clone(&prefix)));
            self.put(state, &keys, Value::Text(Arc::clone(&prefix)));
            self.put(to, &keys, Value::Long((*group).into()));
        }
        for (id, members) in &snapshot.groups {
            let key: Arc<str> = id.to_string().into();
            let keys = [&instance, &key];
            self.put(Leaf::GroupKey, &keys, Value::Long((*id).into()));
            self.put(Leaf::GroupId, &keys, Value::Long((*id).into()));
            if let Some(Key::Group(programmed)) = snapshot.ids.key(*id) {
                self.put(Leaf::GroupProgrammedId, &keys, Value::Long(programmed));
            }
            for member in members {
                let index: Arc<str> = member.next_hop.to_string().into();
                let keys = [&instance, &key, &index];
                let value = Value::Long(member.next_hop.into());
                self.put(Leaf::MemberKey, &keys, value.clone());
                self.put(Leaf::MemberIndex, &keys, value);
                let weight = Value::Long(member.weight.into());
                self.put(Leaf::MemberWeight, &keys, weight);
            }
        }
        for (id, path) in &snapshot.next_hops {
            self.next_hop(snapshot, &instance, *id, path);
        }
    }

    fn next_hop(&mut self, snapshot: &Snapshot, instance: &Arc<str>, id: u32, path: &Path) {
        let index: Arc<str> = id.to_string().into();
        let keys = [instance, &index];
        self.put(Leaf::NextHopKey, &keys, Value::Long(id.into()));
        self.put(Leaf::NextHopIndex, &keys, Value::Long(id.into()));
        if let Some(Key::NextHop(programmed)) = snapshot.ids.key(id) {
            self.put(Leaf::NextHopProgrammedIndex, &keys, Value::Long(programmed));
        }
        if let Some(gateway) = path.gateway {
            let address = Value::Text(gateway.to_string().into());
            self.put(Leaf::NextHopAddress, &keys, address);
        }
        let mut interfaces = snapshot.interfaces.iter();
        if let Some(interface) = interfaces.find(|it| it.index == path.interface) {
            let name = Value::Text(interface.name.as_str().into());
            self.put(Leaf::NextHopInterface, &keys, name);
        }
    }

    fn neighbor(&mut self, neighbor: &Neighbor) {
        let interface: Arc<str> = neighbor.interface.as_str().into();
        let id: Arc<str> = neighbor.id.as_str().into();
        self.put(
            Leaf::LldpInterfaceKey,
            &[&interface],
            Value::Text(Arc::clone(&interface)),
        );
        let keys = [&interface, &id];
        self.put(Leaf::NeighborKey, &keys, Value::Text(Arc::clone(&id)));
        self.put(Leaf::NeighborId, &keys, Value::Text(Arc::clone(&id)));
        for (leaf, text) in [
            (Leaf::NeighborSystemName, &neighbor.system_name),
            (Leaf::NeighborChassisId, &neighbor.chassis_id),
            (Leaf::NeighborPortId, &neighbor.port_id),
            (Leaf::NeighborPortDescription, &neighbor.port_description),
        ] {
            if let Some(text) = text {
                self.put(leaf, &keys, Value::Text(text.as_str().into()));
            }
        }
    }
}

/// `oper-status` of openconfig-interfaces.
fn oper_status(status: OperStatus) -> &'static str {
    match status {
        OperStatus::Up => "UP",
        OperStatus::Down => "DOWN",
        OperStatus::Testing => "TESTING",
        OperStatus::Unknown => "UNKNOWN",
        OperStatus::Dormant => "DORMANT",
        OperStatus::NotPresent => "NOT_PRESENT",
        OperStatus::LowerLayerDown => "LOWER_LAYER_DOWN",
    }
}

/// An identity of ETHERNET_SPEED in openconfig-if-ethernet; `None` for a speed that it does not name.
fn port_speed(mbps: u32) -> Option<&'static str> {
    Some(match mbps {
        10 => "SPEED_10MB",
        100 => "SPEED_100MB",
        1_000 => "SPEED_1GB",
        2_500 => "SPEED_2500MB",
        5_000 => "SPEED_5GB",
        10_000 => "SPEED_10GB",
        25_000 => "SPEED_25GB",
        40_000 => "SPEED_40GB",
        50_000 => "SPEED_50GB",
        100_000 => "SPEED_100GB",
        200_000 => "SPEED_200GB",
        400_000 => "SPEED_400GB",
        800_000 => "SPEED_800GB",
        _ => return None,
    })
}
