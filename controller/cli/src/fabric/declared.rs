//! The fabric as a file declares it, in YAML or JSON. Knows the names of the fields and which of
//! them must be there; whether the fabric makes sense is for the replicas to say.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use serde::{Deserialize, Serialize};
use weft_proto::v1 as proto;

use crate::fault::{Fault, stated};

/// A whole declaration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fabric {
    /// A name to show.
    pub(super) name: String,
    /// Generation that the fabric must have; None: any.
    #[serde(default, deserialize_with = "stated")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// Leaves and spines.
    #[serde(default)]
    pub(super) switches: Vec<Switch>,
    /// Hosts with labels; those that host ports name are there without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<Host>,
    /// Physical links between them.
    #[serde(default)]
    pub(super) links: Vec<Link>,
    /// Ports with hosts.
    #[serde(default)]
    pub(super) host_ports: Vec<HostPort>,
}

/// `weft.v1.Switch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    /// Unique.
    pub(super) name: String,
    /// What it is for.
    pub(super) role: Role,
    /// A leaf has one.
    #[serde(default)]
    pub(super) vtep_address: String,
    /// Empty: weft does not program it.
    #[serde(default)]
    pub(super) agent_address: String,
    /// Its gNMI server; empty: it is not asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) gnmi_address: String,
    /// Its gRIBI and gNMI servers speak TLS.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) tls: bool,
    /// Where its BGP sessions to weft come from; empty: its routes say nothing of links.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) peer_address: String,
    /// It takes its weights as link bandwidth communities on those sessions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) link_bandwidth_weights: bool,
    /// How far it is from the hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tier: Option<u32>,
    /// The plane that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) plane: Option<u32>,
    /// The rail that it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rail: Option<u32>,
    /// The pod that it stands in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) pod: String,
    /// True if an operator took the spine out of service; None: the state that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) down: Option<bool>,
    /// What its tables can hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limits: Option<SwitchLimits>,
    /// For people and programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `weft.v1.SwitchLimits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchLimits {
    /// Members of all next-hop groups together, each as often as its weight says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group_members: Option<u32>,
    /// The sum of the weights of one group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group_width: Option<u32>,
    /// Flows that are matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pins: Option<u32>,
    /// Next-hop groups for weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) groups: Option<u32>,
}

/// `weft.v1.SwitchRole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    /// Hosts are connected to it.
    Leaf,
    /// It connects leaves.
    Spine,
    /// What a newer replica may say; no file does.
    #[serde(skip_deserializing)]
    Unspecified,
}

/// `weft.v1.Host`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// Unique.
    pub(super) name: String,
    /// For people and programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `weft.v1.Link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Empty: its ends, `SWITCH:INTERFACE--SWITCH:INTERFACE`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    /// One end.
    pub(super) a: LinkEnd,
    /// The other end.
    pub(super) b: LinkEnd,
    /// Bits per second in each direction, up to 2^64 - 1. A replica refuses 0.
    pub(super) capacity_bps: u64,
    /// True if an operator took the link out of service; None: the state that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) down: Option<bool>,
    /// Percent of the capacity that weft leaves alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) derating_percent: u32,
    /// For people and programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `weft.v1.LinkEnd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkEnd {
    /// A switch of this fabric.
    pub(super) switch: String,
    /// As the switch calls it.
    pub(super) interface: String,
    /// What the other end uses as next hop; empty at both ends: the link is unnumbered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) address: String,
}

/// `weft.v1.HostPort`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostPort {
    /// A switch of this fabric.
    pub(super) switch: String,
    /// As the switch calls it.
    pub(super) interface: String,
    /// The host behind it.
    #[serde(default)]
    pub(super) host: String,
    /// 0: none.
    #[serde(default)]
    pub(super) vni: u32,
    /// Bits per second, up to 2^64 - 1; None: not known. A replica refuses 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capacity_bps: Option<u64>,
    /// The rail of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rail: Option<u32>,
    /// IP addresses of the NIC behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) addresses: Vec<String>,
    /// How the NIC makes UDP source ports.
    #[serde(default, skip_serializing_if = "UdpPortFormula::is_unknown")]
    pub(super) udp_port_formula: UdpPortFormula,
    /// For people and programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
}

/// `weft.v1.UdpPortFormula`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum UdpPortFormula {
    /// Nobody knows.
    #[default]
    Unknown,
    /// As Linux does.
    Kernel,
    /// The numbers of the queue pair, XOR each other.
    Xor,
}

impl UdpPortFormula {
    fn is_unknown(&self) -> bool {
        *self == Self::Unknown
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Returns the state that a file states; UNSPECIFIED: the state that the resource has.
fn admin_state(down: Option<bool>) -> i32 {
    let state = match down {
        Some(true) => proto::AdminState::Down,
        Some(false) => proto::AdminState::Up,
        None => proto::AdminState::Unspecified,
    };
    state.into()
}

impl Fabric {
    /// Reads YAML, of which JSON is a part.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        Ok(serde_yaml_ng::from_str(text)?)
    }

    /// True if it names no switch, host, link or host port.
    pub(super) fn is_empty(&self) -> bool {
        self.switches.is_empty()
            && self.hosts.is_empty()
            && self.links.is_empty()
            && self.host_ports.is_empty()
    }

    /// Returns the declaration in parts, each far below the size of a message.
    pub(super) fn parts(self) -> Vec<proto::ApplyFabricRequest> {
        let named = self.host_ports.iter().map(|port| port.host.clone());
        let mut hosts: Vec<proto::Host> = self.hosts.into_iter().map(Into::into).collect();
        let declared: BTreeSet<String> = hosts.iter().map(|host| host.name.clone()).collect();
        let mut named: BTreeSet<String> = named.filter(|host| !host.is_empty()).collect();
        named.retain(|host| !declared.contains(host));
        hosts.extend(named.into_iter().map(|name| proto::Host {
            name,
            ..proto::Host::default()
        }));
        let whole = proto::Fabric {
            display_name: self.name,
            switches: self.switches.into_iter().map(Into::into).collect(),
            hosts,
            links: self.links.into_iter().map(Into::into).collect(),
            host_ports: self.host_ports.into_iter().map(Into::into).collect(),
        };
        parts(whole, self.generation)
    }
}

/// Returns a declaration in parts, each far below the size of a message. The first one has the name and the generation.
pub(crate) fn parts(
    fabric: proto::Fabric,
    generation: Option<u64>,
) -> Vec<proto::ApplyFabricRequest> {
    let mut parts = vec![proto::ApplyFabricRequest {
        display_name: fabric.display_name,
        generation,
        ..proto::ApplyFabricRequest::default()
    }];
    spread(&mut parts, fabric.switches, |part| &mut part.switches);
    spread(&mut parts, fabric.hosts, |part| &mut part.hosts);
    spread(&mut parts, fabric.links, |part| &mut part.links);
    spread(&mut parts, fabric.host_ports, |part| &mut part.host_ports);
    parts
}

/// Adds resources to the last part, and to new ones when that is full.
fn spread<R: Message>(
    parts: &mut Vec<proto::ApplyFabricRequest>,
    resources: Vec<R>,
    of: fn(&mut proto::ApplyFabricRequest) -> &mut Vec<R>,
) {
    let mut octets = PART_OCTETS_MAX;
    for resource in resources {
        octets += resource.encoded_len();
        if octets > PART_OCTETS_MAX {
            parts.push(proto::ApplyFabricRequest::default());
            octets = resource.encoded_len();
        }
        let last = parts.last_mut().expect("there is a first part");
        of(last).push(resource);
    }
}

impl From<Switch> for proto::Switch {
    fn from(switch: Switch) -> Self {
        let role = match switch.role {
            Role::Leaf => proto::SwitchRole::Leaf,
            Role::Spine => proto::SwitchRole::Spine,
            Role::Unspecified => proto::SwitchRole::Unspecified,
        };
        Self {
            name: switch.name,
            role: role.into(),
            vtep_address: switch.vtep_address,
            agent_address: switch.agent_address,
            gnmi_address: switch.gnmi_address,
            tls: switch.tls,
            peer_address: switch.peer_address,
            tier: switch.tier,
            plane: switch.plane,
            rail: switch.rail,
            pod: switch.pod,
            labels: switch.labels,
            etag: String::new(),
            link_bandwidth_weights: switch.link_bandwidth_weights,
            admin_state: admin_state(switch.down),
            limits: switch.limits.map(|limits| proto::SwitchLimits {
                group_members: limits.group_members,
                group_width: limits.group_width,
                pins: limits.pins,
                groups: limits.groups,
            }),
        }
    }
}

impl From<proto::Switch> for Switch {
    fn from(switch: proto::Switch) -> Self {
        let role = match switch.role() {
            proto::SwitchRole::Leaf => Role::Leaf,
            proto::SwitchRole::Spine => Role::Spine,
            proto::SwitchRole::Unspecified => Role::Unspecified,
        };
        let down = (switch.admin_state() == proto::AdminState::Down).then_some(true);
        Self {
            name: switch.name,
            role,
            down,
            limits: switch.limits.map(|limits| SwitchLimits {
                group_members: limits.group_members,
                group_width: limits.group_width,
                pins: limits.pins,
                groups: limits.groups,
            }),
            vtep_address: switch.vtep_address,
            agent_address: switch.agent_address,
            gnmi_address: switch.gnmi_address,
            tls: switch.tls,
            peer_address: switch.peer_address,
            tier: switch.tier,
            plane: switch.plane,
            rail: switch.rail,
            pod: switch.pod,
            labels: switch.labels,
            link_bandwidth_weights: switch.link_bandwidth_weights,
        }
    }
}

impl From<Host> for proto::Host {
    fn from(host: Host) -> Self {
        Self {
            name: host.name,
            labels: host.labels,
            etag: String::new(),
        }
    }
}

impl From<proto::Host> for Host {
    fn from(host: proto::Host) -> Self {
        Self {
            name: host.name,
            labels: host.labels,
        }
    }
}

impl From<Link> for proto::Link {
    fn from(link: Link) -> Self {
        Self {
            name: link.name,
            a: Some(link.a.into()),
            b: Some(link.b.into()),
            capacity_bps: link.capacity_bps,
            admin_state: admin_state(link.down),
            labels: link.labels,
            etag: String::new(),
            derating_percent: link.derating_percent,
        }
    }
}

impl From<proto::Link> for Link {
    fn from(link: proto::Link) -> Self {
        let down = (link.admin_state() == proto::AdminState::Down).then_some(true);
        let [a, b] = [link.a, link.b].map(|end| end.map(LinkEnd::from).unwrap_or_default());
        let usual = format!("{}:{}--{}:{}", a.switch, a.interface, b.switch, b.interface);
        Self {
            name: if link.name == usual {
                String::new()
            } else {
                link.name
            },
            a,
            b,
            capacity_bps: link.capacity_bps,
            down,
            derating_percent: link.derating_percent,
            labels: link.labels,
        }
    }
}

impl From<LinkEnd> for proto::LinkEnd {
    fn from(end: LinkEnd) -> Self {
        Self {
            switch_name: end.switch,
            interface_name: end.interface,
            address: end.address,
        }
    }
}

impl From<proto::LinkEnd> for LinkEnd {
    fn from(end: proto::LinkEnd) -> Self {
        Self {
            switch: end.switch_name,
            interface: end.interface_name,
            address: end.address,
        }
    }
}

impl From<HostPort> for proto::HostPort {
    fn from(port: HostPort) -> Self {
        Self {
            name: String::new(),
            switch_name: port.switch,
            interface_name: port.interface,
            host_name: port.host,
            vni: Some(port.vni).filter(|vni| *vni > 0),
            capacity_bps: port.capacity_bps,
            rail: port.rail,
            labels: port.labels,
            etag: String::new(),
            addresses: port.addresses,
            udp_port_formula: match port.udp_port_formula {
                UdpPortFormula::Unknown => proto::UdpPortFormula::Unspecified,
                UdpPortFormula::Kernel => proto::UdpPortFormula::Kernel,
                UdpPortFormula::Xor => proto::UdpPortFormula::Xor,
            }
            .into(),
        }
    }
}

impl From<proto::HostPort> for HostPort {
    fn from(port: proto::HostPort) -> Self {
        let udp_port_formula = match port.udp_port_formula() {
            proto::UdpPortFormula::Unspecified => UdpPortFormula::Unknown,
            proto::UdpPortFormula::Kernel => UdpPortFormula::Kernel,
            proto::UdpPortFormula::Xor => UdpPortFormula::Xor,
        };
        Self {
            udp_port_formula,
            switch: port.switch_name,
            interface: port.interface_name,
            host: port.host_name,
            vni: port.vni.unwrap_or(0),
            capacity_bps: port.capacity_bps,
            rail: port.rail,
            addresses: port.addresses,
            labels: port.labels,
        }
    }
}

/// A replica takes messages of 4 MiB.
const PART_OCTETS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const LAB: &str = include_str!("../../../../interop/labs/evpn-basic/fabric.yaml");

    #[test]
    fn the_lab_is_read_and_comes_back_from_the_message() {
        let fabric = Fabric::parse(LAB).unwrap();
        assert_eq!(
            (
                fabric.switches.len(),
                fabric.links.len(),
                fabric.host_ports.len()
            ),
            (6, 8, 4)
        );
        assert_eq!(fabric.switches[2].role, Role::Leaf);
        let mut back = Fabric {
            name: fabric.name.clone(),
            ..Fabric::default()
        };
        for part in fabric.clone().parts() {
            back.switches
                .extend(part.switches.into_iter().map(Switch::from));
            back.links.extend(part.links.into_iter().map(Link::from));
            back.host_ports
                .extend(part.host_ports.into_iter().map(HostPort::from));
        }
        assert_eq!(back, fabric);
    }

    #[test]
    fn what_is_seldom_declared_comes_back_from_the_message() {
        let text = "
name: a
switches:
- {name: spine1, role: spine, down: true}
- {name: leaf1, role: leaf, vtep_address: 192.0.2.1, limits: {group_members: 4096, group_width: 64, pins: 100, groups: 64}}
links: [{a: {switch: leaf1, interface: i, address: 192.0.2.2}, b: {switch: spine1, interface: i, address: 192.0.2.3}, capacity_bps: 1, derating_percent: 25}]
host_ports: [{switch: leaf1, interface: j, udp_port_formula: kernel}]";
        let fabric = Fabric::parse(text).unwrap();
        assert!(fabric.switches[0].down == Some(true) && fabric.switches[1].limits.is_some());
        let port = fabric.host_ports[0].clone();
        assert_eq!(port.udp_port_formula, UdpPortFormula::Kernel);
        assert_eq!(HostPort::from(proto::HostPort::from(port.clone())), port);
        for switch in fabric.switches {
            assert_eq!(Switch::from(proto::Switch::from(switch.clone())), switch);
        }
        let link = fabric.links[0].clone();
        assert_eq!(Link::from(proto::Link::from(link.clone())), link);
    }

    #[test]
    fn a_link_without_addresses_is_printed_without_them() {
        let text = "name: a\nlinks: [{a: {switch: leaf1, interface: i}, b: {switch: spine1, interface: i}, capacity_bps: 1}]";
        let fabric = Fabric::parse(text).unwrap();
        let yaml = serde_yaml_ng::to_string(&fabric).unwrap();
        assert!(!yaml.contains("address"), "{yaml}");
        assert_eq!(Fabric::parse(&yaml).unwrap(), fabric);
        let link = fabric.links[0].clone();
        let message = proto::Link::from(link.clone());
        assert_eq!(message.a.as_ref().unwrap().address, "");
        assert_eq!(Link::from(message), link);
    }

    #[test]
    fn hosts_that_ports_name_are_declared_with_them() {
        let text = "
name: a
hosts: [{name: h1, labels: {rack: r1}}]
host_ports: [{switch: s, interface: i, host: h1}, {switch: s, interface: j, host: h2}, {switch: s, interface: k}]";
        let parts = Fabric::parse(text).unwrap().parts();
        let hosts = parts.iter().flat_map(|part| &part.hosts);
        let hosts: Vec<_> = hosts
            .map(|host| (host.name.as_str(), host.labels.len()))
            .collect();
        assert_eq!(hosts, [("h1", 1), ("h2", 0)]);
    }

    #[test]
    fn what_is_printed_can_be_applied() {
        let fabric = Fabric::parse(LAB).unwrap();
        let (yaml, json) = (
            serde_yaml_ng::to_string(&fabric).unwrap(),
            serde_json::to_string_pretty(&fabric).unwrap(),
        );
        assert_eq!(Fabric::parse(&yaml).unwrap(), fabric);
        assert_eq!(Fabric::parse(&json).unwrap(), fabric);
        assert_eq!(Fabric::parse(&json.replace("  ", "\t")).unwrap(), fabric);
    }

    #[test]
    fn optional_fields_may_be_left_out() {
        let fabric = Fabric::parse("name: a\nhost_ports: [{switch: s, interface: i}]").unwrap();
        assert_eq!(
            (
                fabric.links.len(),
                fabric.host_ports[0].vni,
                fabric.generation
            ),
            (0, 0, None)
        );
    }

    #[test]
    fn a_state_is_sent_only_where_the_file_states_it() {
        let text = "
name: a
generation: 7
switches: [{name: s, role: spine}, {name: t, role: spine, down: false}, {name: u, role: spine, down: true}]
links: [{a: {switch: s, interface: i}, b: {switch: t, interface: i}, capacity_bps: 1}]";
        let parts = Fabric::parse(text).unwrap().parts();
        assert_eq!(parts[0].generation, Some(7));
        let switches = parts.iter().flat_map(|part| &part.switches);
        let states: Vec<_> = switches.map(proto::Switch::admin_state).collect();
        use proto::AdminState as State;
        assert_eq!(states, [State::Unspecified, State::Up, State::Down]);
        let link = parts.iter().flat_map(|part| &part.links).next().unwrap();
        assert_eq!(link.admin_state(), State::Unspecified);
        let up = proto::Link {
            admin_state: State::Up.into(),
            ..link.clone()
        };
        assert_eq!(Link::from(up).down, None);
    }

    /// As of a link, 0 is for a replica to refuse, and what is not known is not printed as 0.
    #[test]
    fn a_capacity_of_0_is_not_one_that_nobody_knows() {
        let text = "name: a\nhost_ports: [{switch: s, interface: i, capacity_bps: 0}, {switch: s, interface: j}]";
        let fabric = Fabric::parse(text).unwrap();
        let ports = fabric.host_ports.iter().cloned().map(proto::HostPort::from);
        let capacities: Vec<_> = ports.map(|port| port.capacity_bps).collect();
        assert_eq!(capacities, [Some(0), None]);
        let yaml = serde_yaml_ng::to_string(&fabric).unwrap();
        assert_eq!(yaml.matches("capacity_bps").count(), 1, "{yaml}");
        assert_eq!(Fabric::parse(&yaml).unwrap(), fabric);
    }

    /// A capacity has no limit but that of its 64 bits.
    #[test]
    fn the_largest_capacity_is_kept_as_it_is_declared() {
        let text = "
name: a
links: [{a: {switch: s, interface: i}, b: {switch: t, interface: i}, capacity_bps: 18446744073709551615}]
host_ports: [{switch: s, interface: j, capacity_bps: 18446744073709551615}]";
        let fabric = Fabric::parse(text).unwrap();
        let (link, port) = (fabric.links[0].clone(), fabric.host_ports[0].clone());
        assert_eq!(proto::Link::from(link).capacity_bps, u64::MAX);
        assert_eq!(proto::HostPort::from(port).capacity_bps, Some(u64::MAX));
        let (yaml, json) = (
            serde_yaml_ng::to_string(&fabric).unwrap(),
            serde_json::to_string(&fabric).unwrap(),
        );
        assert_eq!(Fabric::parse(&yaml).unwrap(), fabric);
        assert_eq!(Fabric::parse(&json).unwrap(), fabric);
    }

    #[test]
    fn addresses_of_a_port_come_back_from_the_message() {
        let text = "name: a\nhost_ports: [{switch: s, interface: i, addresses: [192.0.2.1, \"2001:db8::1\"]}]";
        let fabric = Fabric::parse(text).unwrap();
        let yaml = serde_yaml_ng::to_string(&fabric).unwrap();
        assert_eq!(Fabric::parse(&yaml).unwrap(), fabric);
        let port = proto::HostPort::from(fabric.host_ports[0].clone());
        assert_eq!(port.addresses, ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(HostPort::from(port), fabric.host_ports[0]);
    }

    /// A text and what stands behind the file's name.
    const FAULTS: &[(&str, &str)] = &[
        ("", ":1:1: missing field `name`"),
        ("links: []", ":1:1: missing field `name`"),
        (
            "name: a\ncolour: red",
            ":2:1: unknown field `colour`, expected one of `name`, `generation`, `switches`, `hosts`, `links`, `host_ports`",
        ),
        ("name: a\nname: b", ":1:1: duplicate field `name`"),
        (
            "name: [a]",
            ":1:7: name: invalid type: sequence, expected a string",
        ),
        (
            "name: a\nswitches: leaf1",
            ":2:11: switches: invalid type: string \"leaf1\", expected a sequence",
        ),
        (
            "name: a\nswitches:\n  - {name: s}",
            ":3:5: switches[0]: missing field `role`",
        ),
        (
            "name: a\nswitches:\n  - {name: s, role: core}",
            ":3:21: switches[0].role: unknown variant `core`, expected `leaf` or `spine`",
        ),
        (
            "name: a\nswitches:\n  - {name: s, role: unspecified}",
            ":3:21: switches[0].role: unknown variant `unspecified`, expected `leaf` or `spine`",
        ),
        (
            "name: a\nlinks:\n  - a: {switch: s, interface: i, address: x}\n    capacity_bps: 1",
            ":3:5: links[0]: missing field `b`",
        ),
        (
            "name: a\nlinks:\n  - a: {switch: s, interface: i, adress: x}",
            ":3:34: links[0].a: unknown field `adress`, expected one of `switch`, `interface`, `address`",
        ),
        (
            "name: a\nlinks:\n  - {capacity_bps: 100G}",
            ":3:20: links[0].capacity_bps: invalid type: string \"100G\", expected u64",
        ),
        (
            "name: a\nlinks:\n  - {capacity_bps: -1}",
            ":3:20: links[0].capacity_bps: invalid type: integer `-1`, expected u64",
        ),
        (
            "name: a\nlinks:\n  - {capacity_bps: .nan}",
            ":3:20: links[0].capacity_bps: invalid type: floating point `NaN`, expected u64",
        ),
        // 2^64; one less is a capacity.
        (
            "name: a\nlinks:\n  - {capacity_bps: 18446744073709551616}",
            ":3:20: links[0].capacity_bps: invalid type: integer `18446744073709551616` as u128, expected u64",
        ),
        (
            "name: a\nhost_ports:\n  - {switch: s, interface: i, capacity_bps: .nan}",
            ":3:45: host_ports[0].capacity_bps: invalid type: floating point `NaN`, expected u64",
        ),
        (
            "name: a\nhost_ports:\n  - {switch: s, interface: i, capacity_bps: 18446744073709551616}",
            ":3:45: host_ports[0].capacity_bps: invalid type: integer `18446744073709551616` as u128, expected u64",
        ),
        (
            "name: a\nlinks:\n  - {down: perhaps}",
            ":3:12: links[0].down: invalid type: string \"perhaps\", expected a boolean",
        ),
        (
            "name: a\nhost_ports:\n  - {switch: s, interface: i, vni: 4294967296}",
            ":3:36: host_ports[0].vni: invalid value: integer `4294967296`, expected u32",
        ),
        (
            "name: a\n---\nname: b",
            ": deserializing from YAML containing more than one document is not supported",
        ),
        (
            "name: a\n  links: [",
            ":2:8: mapping values are not allowed in this context",
        ),
        (
            "{\"name\": \"a\", \"switches\": [{\"name\": \"s\"}]}",
            ":1:28: switches[0]: missing field `role`",
        ),
        (
            "{\"name\": \"a\",\n \"links\": [}",
            ":2:12: did not find expected node content, while parsing a flow node",
        ),
    ];

    #[test]
    fn every_fault_names_place_field_and_reason() {
        for (text, expected) in FAULTS {
            assert_eq!(
                Fabric::parse(text).unwrap_err().to_string(),
                *expected,
                "{text}"
            );
        }
    }
}
