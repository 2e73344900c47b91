//! What a declaration must satisfy, field by field.
//!
//! It collects every fault instead of stopping at the first, and refuses to guess: nothing is defaulted that matters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use weft_proto::fabric::v1;

use super::{FieldFault, HostPort, Link, LinkEnd, LinkName, Role, Switch, SwitchName, Topology};

/// Collects faults, and what must be unique across the declaration: each value with the field that took it first.
#[derive(Default)]
pub(super) struct Validator {
    faults: Vec<FieldFault>,
    vteps: BTreeMap<IpAddr, String>,
    agents: BTreeMap<Arc<str>, String>,
    peers: BTreeMap<IpAddr, String>,
    interfaces: BTreeMap<(SwitchName, Arc<str>), String>,
    addresses: BTreeMap<IpAddr, String>,
}

impl Validator {
    pub(super) fn into_faults(self) -> Vec<FieldFault> {
        self.faults
    }

    /// Reads everything; what comes back is meaningful only without faults.
    pub(super) fn topology(&mut self, fabric: &v1::Fabric) -> Topology {
        let mut topology = Topology {
            name: fabric.name.clone(),
            revision: fabric.revision,
            ..Topology::default()
        };
        if fabric.name.trim().is_empty() {
            self.fault("name", "empty");
        }
        for (field, count, most) in [
            ("switches", fabric.switches.len(), SWITCHES_MAX),
            ("links", fabric.links.len(), LINKS_MAX),
            ("host_ports", fabric.host_ports.len(), HOST_PORTS_MAX),
        ] {
            if count > most {
                self.fault(field, format_args!("{count} entries, at most {most}"));
                return topology;
            }
        }
        for (at, switch) in fabric.switches.iter().enumerate() {
            let switch = self.switch(&format!("switches[{at}]"), switch, &topology);
            topology.switches.insert(switch.name.clone(), switch);
        }
        for (at, link) in fabric.links.iter().enumerate() {
            if let Some(link) = self.link(&format!("links[{at}]"), link, &topology) {
                topology.links.insert(link.name.clone(), link);
            }
        }
        for (at, port) in fabric.host_ports.iter().enumerate() {
            if let Some(port) = self.host_port(&format!("host_ports[{at}]"), port, &topology) {
                topology.host_ports.push(port);
            }
        }
        self.ways(&topology);
        topology
    }

    /// What planning costs: every leaf compares its uplinks for every other leaf. Nothing that exhausts the replicas may
    /// become a fact.
    fn ways(&mut self, topology: &Topology) {
        let switches = topology.switches.values();
        let leaves = switches.filter(|switch| switch.role == Role::Leaf).count();
        let ends = |link: &Link| {
            [&link.a, &link.b]
                .into_iter()
                .filter_map(|end| topology.switches.get(&end.switch))
                .filter(|switch| switch.role == Role::Leaf)
                .count()
        };
        let uplinks: usize = topology.links.values().map(ends).sum();
        let ways = (leaves + uplinks).saturating_mul(leaves.saturating_sub(1));
        if ways > WAYS_MAX {
            self.fault(
                "switches",
                format_args!(
                    "{leaves} leaves with {uplinks} uplinks are {ways} ways to plan, at most {WAYS_MAX}: fewer leaves, \
                     or fewer links"
                ),
            );
        }
    }

    fn switch(&mut self, field: &str, switch: &v1::Switch, known: &Topology) -> Switch {
        let name = SwitchName::from(switch.name.as_str());
        if !is_name(&switch.name) {
            self.fault(
                format_args!("{field}.name"),
                format_args!(
                    "{:?} is not a name of letters, digits, '.', '_' and single '-'",
                    switch.name
                ),
            );
        } else if known.switches.contains_key(&name) {
            self.fault(
                format_args!("{field}.name"),
                format_args!("a second switch named {name:?}", name = switch.name),
            );
        }
        let role = match v1::Role::try_from(switch.role) {
            Ok(v1::Role::Leaf) => Some(Role::Leaf),
            Ok(v1::Role::Spine) => Some(Role::Spine),
            Ok(v1::Role::Unspecified) => None,
            Err(_) => None,
        };
        if role.is_none() {
            self.fault(format_args!("{field}.role"), "neither leaf nor spine");
        }
        let vtep = self.vtep(field, switch, role);
        let agent = self.agent(field, &switch.agent_address);
        Switch {
            name,
            // A switch with a fault still exists for the links that name it.
            role: role.unwrap_or(Role::Spine),
            vtep,
            agent,
            peer: self.peer(field, &switch.peer_address),
        }
    }

    fn peer(&mut self, field: &str, address: &str) -> Option<IpAddr> {
        if address.is_empty() {
            return None;
        }
        let field = format!("{field}.peer_address");
        let peer = self.address(&field, address)?;
        let taken = self.peers.insert(peer, field.clone());
        self.unique(&field, &peer, taken);
        Some(peer)
    }

    fn vtep(&mut self, field: &str, switch: &v1::Switch, role: Option<Role>) -> Option<IpAddr> {
        let field = format!("{field}.vtep_address");
        if switch.vtep_address.is_empty() {
            if role == Some(Role::Leaf) {
                self.fault(&field, "empty, and a leaf needs one");
            }
            return None;
        }
        let vtep = self.address(&field, &switch.vtep_address)?;
        let taken = self.vteps.insert(vtep, field.clone());
        self.unique(&field, &vtep, taken);
        Some(vtep)
    }

    fn agent(&mut self, field: &str, address: &str) -> Option<Arc<str>> {
        if address.is_empty() {
            return None;
        }
        let field = format!("{field}.agent_address");
        let host_and_port = address.rsplit_once(':').filter(|(host, port)| {
            let bracketed = host.starts_with('[') && host.ends_with(']');
            let plain = !host.is_empty()
                && !host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace());
            (plain || bracketed) && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if host_and_port.is_none() {
            self.fault(&field, format_args!("{address:?} is not host:port"));
            return None;
        }
        let agent: Arc<str> = address.into();
        let taken = self.agents.insert(agent.clone(), field.clone());
        self.unique(&field, &address, taken);
        Some(agent)
    }

    fn link(&mut self, field: &str, link: &v1::Link, known: &Topology) -> Option<Link> {
        let a = self.end(&format!("{field}.a"), link.a.as_ref(), known);
        let b = self.end(&format!("{field}.b"), link.b.as_ref(), known);
        if link.capacity_bps == 0 {
            self.fault(format_args!("{field}.capacity_bps"), "0");
        }
        let (a, b) = (a?, b?);
        if a.switch == b.switch {
            self.fault(
                format_args!("{field}.b.switch"),
                format_args!("{:?} is at both ends", b.switch.as_str()),
            );
        }
        if a.address.is_ipv4() != b.address.is_ipv4() {
            self.fault(
                format_args!("{field}.b.address"),
                format_args!("{} is not of the same family as {}", b.address, a.address),
            );
        }
        Some(Link {
            name: LinkName::new(&a, &b),
            a,
            b,
            capacity_bps: link.capacity_bps,
            down: link.down,
        })
    }

    fn end(&mut self, field: &str, end: Option<&v1::LinkEnd>, known: &Topology) -> Option<LinkEnd> {
        let Some(end) = end else {
            self.fault(field, "missing");
            return None;
        };
        let port = self.port(field, &end.switch, &end.interface, known);
        let field = format!("{field}.address");
        let address = self.address(&field, &end.address)?;
        let taken = self.addresses.insert(address, field.clone());
        self.unique(&field, &address, taken);
        let (switch, interface) = port?;
        Some(LinkEnd {
            switch,
            interface,
            address,
        })
    }

    fn host_port(
        &mut self,
        field: &str,
        port: &v1::HostPort,
        known: &Topology,
    ) -> Option<HostPort> {
        if port.vni > VNI_MAX {
            self.fault(
                format_args!("{field}.vni"),
                format_args!("{} is above {VNI_MAX}", port.vni),
            );
        }
        let (switch, interface) = self.port(field, &port.switch, &port.interface, known)?;
        Some(HostPort {
            switch,
            interface,
            host: port.host.clone(),
            vni: port.vni,
            capacity_bps: port.capacity_bps,
        })
    }

    /// A switch and an interface of it that nothing else uses.
    fn port(
        &mut self,
        field: &str,
        switch: &str,
        interface: &str,
        known: &Topology,
    ) -> Option<(SwitchName, Arc<str>)> {
        let name = SwitchName::from(switch);
        let exists = known.switches.contains_key(&name);
        if !exists {
            self.fault(
                format_args!("{field}.switch"),
                format_args!("no switch is named {switch:?}"),
            );
        }
        let field = format!("{field}.interface");
        if interface.is_empty()
            || interface.contains("--")
            || interface.contains(char::is_whitespace)
        {
            self.fault(
                &field,
                format_args!("{interface:?} is not the name of an interface"),
            );
            return None;
        }
        if !exists {
            return None;
        }
        let port = (name, Arc::from(interface));
        let taken = self.interfaces.insert(port.clone(), field.clone());
        self.unique(&field, &format_args!("{switch}:{interface}"), taken);
        Some(port)
    }

    fn address(&mut self, field: &str, text: &str) -> Option<IpAddr> {
        match text.parse::<IpAddr>() {
            Ok(address)
                if address.is_unspecified() || address.is_multicast() || address.is_loopback() =>
            {
                self.fault(
                    field,
                    format_args!("{address} is not a unicast address of a switch"),
                );
                None
            }
            Ok(address) => Some(address),
            Err(_) => {
                self.fault(field, format_args!("{text:?} is not an IP address"));
                None
            }
        }
    }

    fn unique(&mut self, field: &str, value: &dyn fmt::Display, taken: Option<String>) {
        if let Some(first) = taken {
            self.fault(field, format_args!("{value} is already {first}"));
        }
    }

    fn fault(&mut self, field: impl fmt::Display, reason: impl fmt::Display) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(FieldFault {
                field: field.to_string(),
                reason: reason.to_string(),
            });
        }
    }
}

/// Whether a text can be a name: it stands inside link names, table columns and file paths.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_OCTETS_MAX
        && !text.contains("--")
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// Every way from a leaf over one of its uplinks to another leaf, and one for each pair of leaves: 512 leaves with 256
/// uplinks each are 67,239,424.
const WAYS_MAX: usize = 70_000_000;
/// Above what one controller plans for; a declaration beyond it is a mistake.
const SWITCHES_MAX: usize = 10_000;
/// 10,000 switches with 64 ports each, both ends counted once.
const LINKS_MAX: usize = 320_000;
/// As many again for hosts.
const HOST_PORTS_MAX: usize = 640_000;
/// More would not be read by anybody; the first are enough to find the cause.
const FAULTS_MAX: usize = 100;
/// A DNS label.
const NAME_OCTETS_MAX: usize = 63;
/// RFC 7348 §5: 24 bits.
const VNI_MAX: u32 = 0xff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric() -> v1::Fabric {
        let end = |switch: &str, interface: &str, address: &str| {
            Some(v1::LinkEnd {
                switch: switch.to_owned(),
                interface: interface.to_owned(),
                address: address.to_owned(),
            })
        };
        v1::Fabric {
            name: "example".to_owned(),
            switches: vec![
                v1::Switch {
                    name: "leaf1".to_owned(),
                    role: v1::Role::Leaf.into(),
                    vtep_address: "198.51.100.1".to_owned(),
                    agent_address: "leaf1.example:9340".to_owned(),
                    peer_address: String::new(),
                },
                v1::Switch {
                    name: "spine1".to_owned(),
                    role: v1::Role::Spine.into(),
                    ..v1::Switch::default()
                },
            ],
            links: vec![v1::Link {
                a: end("leaf1", "eth1", "192.0.2.0"),
                b: end("spine1", "eth1", "192.0.2.1"),
                capacity_bps: 100_000_000_000,
                down: false,
            }],
            host_ports: vec![v1::HostPort {
                switch: "leaf1".to_owned(),
                interface: "eth9".to_owned(),
                vni: 100,
                ..v1::HostPort::default()
            }],
            revision: 4,
        }
    }

    /// What is wrong after a change.
    fn faults(change: impl Fn(&mut v1::Fabric)) -> Vec<String> {
        let mut fabric = fabric();
        change(&mut fabric);
        match Topology::new(&fabric) {
            Ok(_) => Vec::new(),
            Err(invalid) => invalid.faults.iter().map(FieldFault::to_string).collect(),
        }
    }

    fn end_a(fabric: &mut v1::Fabric) -> &mut v1::LinkEnd {
        fabric.links[0].a.as_mut().unwrap()
    }

    #[test]
    fn a_good_fabric_has_no_fault() {
        assert_eq!(faults(|_| {}), [""; 0]);
        let topology = Topology::new(&fabric()).unwrap();
        assert_eq!(
            topology.links().next().unwrap().name.as_str(),
            "leaf1:eth1--spine1:eth1"
        );
        assert!(topology.link("spine1:eth1--leaf1:eth1").is_some());
        assert!(topology.link("spine1:eth1").is_none());
    }

    type Change = fn(&mut v1::Fabric);

    const TABLE: &[(Change, &str)] = &[
        (|f| f.name.clear(), "name: empty"),
        (
            |f| f.switches[1].name = "leaf1".to_owned(),
            "switches[1].name: a second switch named \"leaf1\"",
        ),
        (
            |f| f.switches[1].name = "a b".to_owned(),
            "switches[1].name: \"a b\" is not a name of letters, digits, '.', '_' and single '-'",
        ),
        (
            |f| f.switches[1].role = 0,
            "switches[1].role: neither leaf nor spine",
        ),
        (
            |f| f.switches[1].role = 77,
            "switches[1].role: neither leaf nor spine",
        ),
        (
            |f| f.switches[0].vtep_address.clear(),
            "switches[0].vtep_address: empty, and a leaf needs one",
        ),
        (
            |f| f.switches[0].vtep_address = "198.51.100".to_owned(),
            "switches[0].vtep_address: \"198.51.100\" is not an IP address",
        ),
        (
            |f| f.switches[0].vtep_address = "127.0.0.1".to_owned(),
            "switches[0].vtep_address: 127.0.0.1 is not a unicast address of a switch",
        ),
        (
            |f| f.switches[1].vtep_address = "198.51.100.1".to_owned(),
            "switches[1].vtep_address: 198.51.100.1 is already switches[0].vtep_address",
        ),
        (
            |f| f.switches[0].agent_address = "leaf1".to_owned(),
            "switches[0].agent_address: \"leaf1\" is not host:port",
        ),
        (
            |f| f.switches[0].agent_address = "leaf1:0".to_owned(),
            "switches[0].agent_address: \"leaf1:0\" is not host:port",
        ),
        (
            |f| f.switches[1].peer_address = "spine1".to_owned(),
            "switches[1].peer_address: \"spine1\" is not an IP address",
        ),
        (
            |f| {
                f.switches[0].peer_address = "192.0.2.1".to_owned();
                f.switches[1].peer_address = "192.0.2.1".to_owned();
            },
            "switches[1].peer_address: 192.0.2.1 is already switches[0].peer_address",
        ),
        (|f| f.links[0].a = None, "links[0].a: missing"),
        (
            |f| end_a(f).switch = "leaf9".to_owned(),
            "links[0].a.switch: no switch is named \"leaf9\"",
        ),
        (
            |f| end_a(f).interface.clear(),
            "links[0].a.interface: \"\" is not the name of an interface",
        ),
        (
            |f| end_a(f).address = "192.0.2.1".to_owned(),
            "links[0].b.address: 192.0.2.1 is already links[0].a.address",
        ),
        (
            |f| end_a(f).address = "2001:db8::1".to_owned(),
            "links[0].b.address: 192.0.2.1 is not of the same family as 2001:db8::1",
        ),
        (
            |f| {
                end_a(f).switch = "spine1".to_owned();
                end_a(f).interface = "eth2".to_owned();
            },
            "links[0].b.switch: \"spine1\" is at both ends",
        ),
        (|f| f.links[0].capacity_bps = 0, "links[0].capacity_bps: 0"),
        (
            |f| f.host_ports[0].interface = "eth1".to_owned(),
            "host_ports[0].interface: leaf1:eth1 is already links[0].a.interface",
        ),
        (
            |f| f.host_ports[0].vni = 1 << 24,
            "host_ports[0].vni: 16777216 is above 16777215",
        ),
    ];

    #[test]
    fn each_fault_names_the_field_and_the_reason() {
        for (change, fault) in TABLE {
            // Others may follow from the first: what does not exist cannot be named.
            assert_eq!(faults(change)[0], *fault);
        }
    }

    /// 400 kB that took more memory than a replica has, at each start.
    #[test]
    fn ten_thousand_leaves_without_links_are_refused() {
        let leaf = |leaf: usize| v1::Switch {
            name: format!("leaf{leaf}"),
            role: v1::Role::Leaf.into(),
            vtep_address: format!("198.18.{}.{}", leaf / 256, leaf % 256),
            ..v1::Switch::default()
        };
        let fabric = v1::Fabric {
            name: "example".to_owned(),
            switches: (0..10_000).map(leaf).collect(),
            ..v1::Fabric::default()
        };
        let refused = Topology::new(&fabric).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "switches: 10000 leaves with 0 uplinks are 99990000 ways to plan, at most 70000000: fewer leaves, or fewer links"
        );
    }

    #[test]
    fn all_faults_come_at_once() {
        let all = faults(|fabric| {
            fabric.name.clear();
            fabric.links[0].capacity_bps = 0;
            fabric.host_ports[0].switch = "leaf9".to_owned();
        });
        assert_eq!(all.len(), 3);
    }
}
