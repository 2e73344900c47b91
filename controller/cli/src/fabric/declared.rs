//! The fabric as a file declares it, in YAML or JSON. Knows the names of the fields and which of
//! them must be there; whether the fabric makes sense is for the replicas to say.

use std::fmt;

use serde::{Deserialize, Serialize};
use weft_proto::fabric::v1 as proto;

/// `weft.fabric.v1.Fabric`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fabric {
    /// A name to show.
    pub(super) name: String,
    /// Leaves and spines.
    #[serde(default)]
    pub(super) switches: Vec<Switch>,
    /// Physical links between them.
    #[serde(default)]
    pub(super) links: Vec<Link>,
    /// Ports with hosts.
    #[serde(default)]
    pub(super) host_ports: Vec<HostPort>,
    /// Given by the replicas; in a file it says nothing.
    #[serde(default)]
    pub(super) revision: u64,
}

/// `weft.fabric.v1.Switch`.
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
    /// Where its BGP sessions to weft come from; empty: its routes say nothing of links.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) peer_address: String,
}

/// `weft.fabric.v1.Role`.
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

/// `weft.fabric.v1.Link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// One end.
    pub(super) a: LinkEnd,
    /// The other end.
    pub(super) b: LinkEnd,
    /// Bits per second in each direction.
    pub(super) capacity_bps: u64,
    /// Administratively down.
    #[serde(default)]
    pub(super) down: bool,
}

/// `weft.fabric.v1.LinkEnd`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkEnd {
    /// A switch of this fabric.
    pub(super) switch: String,
    /// As the switch calls it.
    pub(super) interface: String,
    /// What the other end uses as next hop.
    pub(super) address: String,
}

/// `weft.fabric.v1.HostPort`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HostPort {
    /// A switch of this fabric.
    pub(super) switch: String,
    /// As the switch calls it.
    pub(super) interface: String,
    /// A name to show.
    #[serde(default)]
    pub(super) host: String,
    /// 0: none.
    #[serde(default)]
    pub(super) vni: u32,
    /// Bits per second.
    #[serde(default)]
    pub(super) capacity_bps: u64,
}

/// What is wrong with a text, and where. Printed right behind the name of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line and column, both from 1; None where the text ends too early.
    place: Option<(usize, usize)>,
    /// Path of the field, if it is known, and the reason.
    reason: String,
}

impl Fabric {
    /// Reads YAML, of which JSON is a part.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        serde_yaml_ng::from_str(text).map_err(|error| {
            let place = error.location().map(|at| (at.line(), at.column()));
            let mut reason = error.to_string();
            if let Some((line, column)) = place {
                reason = reason.replacen(&format!(" at line {line} column {column}"), "", 1);
            }
            Fault { place, reason }
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl From<Fabric> for proto::Fabric {
    fn from(fabric: Fabric) -> Self {
        Self {
            name: fabric.name,
            switches: fabric.switches.into_iter().map(Into::into).collect(),
            links: fabric.links.into_iter().map(Into::into).collect(),
            host_ports: fabric.host_ports.into_iter().map(Into::into).collect(),
            revision: fabric.revision,
        }
    }
}

impl From<proto::Fabric> for Fabric {
    fn from(fabric: proto::Fabric) -> Self {
        Self {
            name: fabric.name,
            switches: fabric.switches.into_iter().map(Into::into).collect(),
            links: fabric.links.into_iter().map(Into::into).collect(),
            host_ports: fabric.host_ports.into_iter().map(Into::into).collect(),
            revision: fabric.revision,
        }
    }
}

impl From<Switch> for proto::Switch {
    fn from(switch: Switch) -> Self {
        let role = match switch.role {
            Role::Leaf => proto::Role::Leaf,
            Role::Spine => proto::Role::Spine,
            Role::Unspecified => proto::Role::Unspecified,
        };
        Self {
            name: switch.name,
            role: role.into(),
            vtep_address: switch.vtep_address,
            agent_address: switch.agent_address,
            peer_address: switch.peer_address,
        }
    }
}

impl From<proto::Switch> for Switch {
    fn from(switch: proto::Switch) -> Self {
        let role = match switch.role() {
            proto::Role::Leaf => Role::Leaf,
            proto::Role::Spine => Role::Spine,
            proto::Role::Unspecified => Role::Unspecified,
        };
        Self {
            name: switch.name,
            role,
            vtep_address: switch.vtep_address,
            agent_address: switch.agent_address,
            peer_address: switch.peer_address,
        }
    }
}

impl From<Link> for proto::Link {
    fn from(link: Link) -> Self {
        Self {
            a: Some(link.a.into()),
            b: Some(link.b.into()),
            capacity_bps: link.capacity_bps,
            down: link.down,
        }
    }
}

impl From<proto::Link> for Link {
    fn from(link: proto::Link) -> Self {
        Self {
            a: link.a.map(Into::into).unwrap_or_default(),
            b: link.b.map(Into::into).unwrap_or_default(),
            capacity_bps: link.capacity_bps,
            down: link.down,
        }
    }
}

impl From<LinkEnd> for proto::LinkEnd {
    fn from(end: LinkEnd) -> Self {
        Self {
            switch: end.switch,
            interface: end.interface,
            address: end.address,
        }
    }
}

impl From<proto::LinkEnd> for LinkEnd {
    fn from(end: proto::LinkEnd) -> Self {
        Self {
            switch: end.switch,
            interface: end.interface,
            address: end.address,
        }
    }
}

impl From<HostPort> for proto::HostPort {
    fn from(port: HostPort) -> Self {
        Self {
            switch: port.switch,
            interface: port.interface,
            host: port.host,
            vni: port.vni,
            capacity_bps: port.capacity_bps,
        }
    }
}

impl From<proto::HostPort> for HostPort {
    fn from(port: proto::HostPort) -> Self {
        Self {
            switch: port.switch,
            interface: port.interface,
            host: port.host,
            vni: port.vni,
            capacity_bps: port.capacity_bps,
        }
    }
}

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
        assert_eq!(Fabric::from(proto::Fabric::from(fabric.clone())), fabric);
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
                fabric.revision
            ),
            (0, 0, 0)
        );
    }

    /// A text and what stands behind the file's name.
    const FAULTS: &[(&str, &str)] = &[
        ("", ":1:1: missing field `name`"),
        ("links: []", ":1:1: missing field `name`"),
        (
            "name: a\ncolour: red",
            ":2:1: unknown field `colour`, expected one of `name`, `switches`, `links`, `host_ports`, `revision`",
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
