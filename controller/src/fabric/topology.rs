//! The declared topology: switches, links, host ports, and which links can carry traffic.
//!
//! Built from `weft.fabric.v1` and given back as it; everything that is wrong with a declaration is found here, at once,
//! with the field and the reason. It refuses to know weights, plans and where the declaration came from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::fabric::v1;

use self::validate::Validator;

mod validate;

/// The name of a switch. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchName(Arc<str>);

impl SwitchName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SwitchName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for SwitchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a link, `<a.switch>:<a.interface>--<b.switch>:<b.interface>`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkName(Arc<str>);

impl LinkName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn new(a: &LinkEnd, b: &LinkEnd) -> Self {
        Self(format!("{a}--{b}").into())
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a switch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Hosts are connected to it; it has a VTEP.
    Leaf,
    /// It connects leaves.
    Spine,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique.
    pub name: SwitchName,
    /// What it is for.
    pub role: Role,
    /// The address that its tunnels end at; every leaf has one, no two switches the same.
    pub vtep: Option<IpAddr>,
    /// `host:port` of its gRIBI server; None if weft does not program it.
    pub agent: Option<Arc<str>>,
    /// Where its BGP sessions to weft come from; None if its routes say nothing of links.
    pub peer: Option<IpAddr>,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// The switch.
    pub switch: SwitchName,
    /// The name that the switch gives to the interface.
    pub interface: Arc<str>,
    /// What the other end uses as next hop.
    pub address: IpAddr,
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.interface)
    }
}

/// A physical link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `<a>--<b>`.
    pub name: LinkName,
    /// One end.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
    /// Bits per second in each direction; above 0.
    pub capacity_bps: u64,
    /// Set down by an operator.
    pub down: bool,
}

/// A port with a host behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The switch.
    pub switch: SwitchName,
    /// The name that the switch gives to the interface.
    pub interface: Arc<str>,
    /// The host behind it, for people; may be empty.
    pub host: String,
    /// The VNI of the port, 0 if none.
    pub vni: u32,
    /// Bits per second, 0 if not declared.
    pub capacity_bps: u64,
}

/// A validated topology.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Topology {
    name: String,
    revision: u64,
    switches: BTreeMap<SwitchName, Switch>,
    links: BTreeMap<LinkName, Link>,
    host_ports: Vec<HostPort>,
}

impl Topology {
    /// Validates a declaration. On an error nothing is built, and every fault is named.
    pub fn new(fabric: &v1::Fabric) -> Result<Self, InvalidFabric> {
        let mut validator = Validator::default();
        let topology = validator.topology(fabric);
        let faults = validator.into_faults();
        if faults.is_empty() {
            Ok(topology)
        } else {
            Err(InvalidFabric { faults })
        }
    }

    /// The topology as it is declared: switches and links in order of their names.
    pub fn to_fabric(&self) -> v1::Fabric {
        v1::Fabric {
            name: self.name.clone(),
            switches: self.switches.values().map(Switch::to_message).collect(),
            links: self.links.values().map(Link::to_message).collect(),
            host_ports: self.host_ports.iter().map(HostPort::to_message).collect(),
            revision: self.revision,
        }
    }

    /// The name to show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The revision that the declaration carried.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The same topology under another revision.
    pub fn with_revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }

    /// Every switch, in order of its name.
    pub fn switches(&self) -> impl Iterator<Item = &Switch> + '_ {
        self.switches.values()
    }

    /// A switch by its name.
    pub fn switch(&self, name: &SwitchName) -> Option<&Switch> {
        self.switches.get(name)
    }

    /// The switch that has this VTEP address.
    pub fn switch_of_vtep(&self, vtep: IpAddr) -> Option<&Switch> {
        self.switches
            .values()
            .find(|switch| switch.vtep == Some(vtep))
    }

    /// Every link, in order of its name.
    pub fn links(&self) -> impl Iterator<Item = &Link> + '_ {
        self.links.values()
    }

    /// A link by its name, as the topology writes it.
    pub fn link_named(&self, name: &LinkName) -> Option<&Link> {
        self.links.get(name)
    }

    /// A link by its name; the ends may be given in either order.
    pub fn link(&self, name: &str) -> Option<&Link> {
        let turned = name.split_once("--").map(|(a, b)| format!("{b}--{a}"));
        [Some(name), turned.as_deref()]
            .into_iter()
            .flatten()
            .find_map(|name| self.links.get(&LinkName(name.into())))
    }

    /// Ports with hosts, as declared.
    pub fn host_ports(&self) -> &[HostPort] {
        &self.host_ports
    }

    /// Sets a link down or up, as an operator does. Ok(false): it was so already.
    pub fn set_link_down(&mut self, name: &str, down: bool) -> Result<bool, UnknownLink> {
        let found = self.link(name).map(|link| link.name.clone());
        let link = found
            .and_then(|name| self.links.get_mut(&name))
            .ok_or_else(|| UnknownLink(name.to_owned()))?;
        let changed = link.down != down;
        link.down = down;
        Ok(changed)
    }
}

impl Switch {
    fn to_message(&self) -> v1::Switch {
        v1::Switch {
            name: self.name.to_string(),
            role: match self.role {
                Role::Leaf => v1::Role::Leaf,
                Role::Spine => v1::Role::Spine,
            }
            .into(),
            vtep_address: self.vtep.map(|vtep| vtep.to_string()).unwrap_or_default(),
            agent_address: self.agent.as_deref().unwrap_or_default().to_owned(),
            peer_address: self.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        }
    }
}

impl Link {
    fn to_message(&self) -> v1::Link {
        v1::Link {
            a: Some(self.a.to_message()),
            b: Some(self.b.to_message()),
            capacity_bps: self.capacity_bps,
            down: self.down,
        }
    }

    /// The end at this switch and the end across; None if the link does not end there.
    pub fn ends_from(&self, switch: &SwitchName) -> Option<(&LinkEnd, &LinkEnd)> {
        if self.a.switch == *switch {
            Some((&self.a, &self.b))
        } else if self.b.switch == *switch {
            Some((&self.b, &self.a))
        } else {
            None
        }
    }
}

impl LinkEnd {
    fn to_message(&self) -> v1::LinkEnd {
        v1::LinkEnd {
            switch: self.switch.to_string(),
            interface: self.interface.to_string(),
            address: self.address.to_string(),
        }
    }
}

impl HostPort {
    fn to_message(&self) -> v1::HostPort {
        v1::HostPort {
            switch: self.switch.to_string(),
            interface: self.interface.to_string(),
            host: self.host.clone(),
            vni: self.vni,
            capacity_bps: self.capacity_bps,
        }
    }
}

/// Everything that is wrong with a declaration; at least one fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFabric {
    /// In the order of the declaration.
    pub faults: Vec<FieldFault>,
}

impl fmt::Display for InvalidFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidFabric {}

/// A field of the declaration and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFault {
    /// The path of the field: `links[3].a.switch`.
    pub field: String,
    /// A noun phrase: `no switch is named "leaf9"`.
    pub reason: String,
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// No link has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLink(pub String);

impl fmt::Display for UnknownLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no link is named {:?}", self.0)
    }
}

impl std::error::Error for UnknownLink {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The VTEP address of a leaf of [`leaf_spine`].
    pub(crate) fn vtep(leaf: u8) -> IpAddr {
        IpAddr::from([198, 51, 100, leaf])
    }

    /// Every leaf with one link to every spine, 100 Gb/s each: `leaf2:eth1--spine1:eth2`. Every leaf has an agent; on the
    /// link between leaf and spine the spine is 192.0.`leaf`.`spine`, the leaf 192.0.`leaf`.`100 + spine`.
    pub(crate) fn declared(leaves: u8, spines: u8) -> v1::Fabric {
        let leaf = |leaf: u8| v1::Switch {
            name: format!("leaf{leaf}"),
            role: v1::Role::Leaf.into(),
            vtep_address: vtep(leaf).to_string(),
            agent_address: format!("192.0.2.{leaf}:9340"),
            peer_address: String::new(),
        };
        let spine = |spine: u8| v1::Switch {
            name: format!("spine{spine}"),
            role: v1::Role::Spine.into(),
            ..v1::Switch::default()
        };
        let end = |switch: String, port: u8, address: String| {
            Some(v1::LinkEnd {
                switch,
                interface: format!("eth{port}"),
                address,
            })
        };
        let link = |leaf: u8, spine: u8| v1::Link {
            a: end(
                format!("leaf{leaf}"),
                spine,
                format!("192.0.{leaf}.{}", 100 + spine),
            ),
            b: end(
                format!("spine{spine}"),
                leaf,
                format!("192.0.{leaf}.{spine}"),
            ),
            capacity_bps: 100_000_000_000,
            down: false,
        };
        let links = (1..=leaves).flat_map(|leaf| (1..=spines).map(move |spine| (leaf, spine)));
        v1::Fabric {
            name: "example".to_owned(),
            switches: (1..=leaves)
                .map(leaf)
                .chain((1..=spines).map(spine))
                .collect(),
            links: links.map(|(leaf, spine)| link(leaf, spine)).collect(),
            ..v1::Fabric::default()
        }
    }

    /// [`declared`], validated.
    pub(crate) fn leaf_spine(leaves: u8, spines: u8) -> Topology {
        Topology::new(&declared(leaves, spines)).unwrap()
    }

    #[test]
    fn a_topology_reads_back_what_it_wrote() {
        let topology = leaf_spine(3, 2);
        assert_eq!(Topology::new(&topology.to_fabric()), Ok(topology));
    }
}
