//! The leaves that the agent serves, where they are in OpenConfig's models, and which of them count something. Knows no
//! value.
//!
//! Names and types are those of openconfig/public: openconfig-interfaces, openconfig-if-ethernet, openconfig-aft (which
//! is in openconfig-network-instance by `uses`, and so has its namespace) and openconfig-lldp.

use std::sync::LazyLock;

/// One kind of leaf. The order is that of the rows below.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the rows of the table say where each is")]
pub enum Leaf {
    InterfaceKey,
    InterfaceName,
    InterfaceIndex,
    AdminStatus,
    OperStatus,
    LastChange,
    Mtu,
    InOctets,
    InPkts,
    InErrors,
    InDiscards,
    OutOctets,
    OutPkts,
    OutErrors,
    OutDiscards,
    CarrierTransitions,
    PortSpeed,
    InPauseFrames,
    OutPauseFrames,
    InstanceKey,
    Ipv4Key,
    Ipv4Prefix,
    Ipv4Group,
    Ipv6Key,
    Ipv6Prefix,
    Ipv6Group,
    GroupKey,
    GroupId,
    GroupProgrammedId,
    MemberKey,
    MemberIndex,
    MemberWeight,
    NextHopKey,
    NextHopIndex,
    NextHopProgrammedIndex,
    NextHopAddress,
    NextHopInterface,
    LldpInterfaceKey,
    NeighborKey,
    NeighborId,
    NeighborSystemName,
    NeighborChassisId,
    NeighborPortId,
    NeighborPortDescription,
}

/// What a subscription makes of a leaf when the target chooses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sent when it changes.
    State,
    /// Sampled.
    Counter,
}

/// One step of the way to a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name of the node.
    pub name: &'static str,
    /// The name of its key, where it is a list. All lists here have one.
    pub key: Option<&'static str>,
    /// The module whose namespace it is in.
    pub module: &'static str,
}

/// The way to a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Which.
    pub leaf: Leaf,
    /// When it is sent.
    pub kind: Kind,
    /// From the root to the leaf.
    pub steps: Vec<Step>,
}

impl Leaf {
    /// Where it is.
    #[must_use]
    pub fn template(self) -> &'static Template {
        &SCHEMA[self as usize]
    }
}

/// All leaves, in the order of [`Leaf`].
pub fn templates() -> impl Iterator<Item = &'static Template> {
    SCHEMA.iter()
}

/// The models, and the version in which the leaves of one were read; none is claimed where that is not known.
pub const MODELS: [(&str, &str); 5] = [
    ("openconfig-interfaces", "3.5.0"),
    ("openconfig-if-ethernet", ""),
    ("openconfig-network-instance", ""),
    ("openconfig-aft", "2.7.0"),
    ("openconfig-lldp", ""),
];

static SCHEMA: LazyLock<Vec<Template>> = LazyLock::new(|| ROWS.iter().map(read).collect());

fn read((leaf, kind, path): &(Leaf, Kind, &'static str)) -> Template {
    let mut module = "";
    let steps = path.split('/').map(|step| {
        module = match step {
            "interfaces" if module.is_empty() => "openconfig-interfaces",
            "network-instances" => "openconfig-network-instance",
            "lldp" => "openconfig-lldp",
            "ethernet" => "openconfig-if-ethernet",
            _ => module,
        };
        let (name, key) = match step.split_once('[') {
            Some((name, key)) => (name, key.strip_suffix(']')),
            None => (step, None),
        };
        Step { name, key, module }
    });
    Template {
        leaf: *leaf,
        kind: *kind,
        steps: steps.collect(),
    }
}

#[rustfmt::skip]
const ROWS: &[(Leaf, Kind, &str)] = &[
    (Leaf::InterfaceKey, Kind::State, "interfaces/interface[name]/name"),
    (Leaf::InterfaceName, Kind::State, "interfaces/interface[name]/state/name"),
    (Leaf::InterfaceIndex, Kind::State, "interfaces/interface[name]/state/ifindex"),
    (Leaf::AdminStatus, Kind::State, "interfaces/interface[name]/state/admin-status"),
    (Leaf::OperStatus, Kind::State, "interfaces/interface[name]/state/oper-status"),
    (Leaf::LastChange, Kind::State, "interfaces/interface[name]/state/last-change"),
    (Leaf::Mtu, Kind::State, "interfaces/interface[name]/state/mtu"),
    (Leaf::InOctets, Kind::Counter, "interfaces/interface[name]/state/counters/in-octets"),
    (Leaf::InPkts, Kind::Counter, "interfaces/interface[name]/state/counters/in-pkts"),
    (Leaf::InErrors, Kind::Counter, "interfaces/interface[name]/state/counters/in-errors"),
    (Leaf::InDiscards, Kind::Counter, "interfaces/interface[name]/state/counters/in-discards"),
    (Leaf::OutOctets, Kind::Counter, "interfaces/interface[name]/state/counters/out-octets"),
    (Leaf::OutPkts, Kind::Counter, "interfaces/interface[name]/state/counters/out-pkts"),
    (Leaf::OutErrors, Kind::Counter, "interfaces/interface[name]/state/counters/out-errors"),
    (Leaf::OutDiscards, Kind::Counter, "interfaces/interface[name]/state/counters/out-discards"),
    // Marked telemetry-on-change in the model, and seldom changes.
    (Leaf::CarrierTransitions, Kind::State, "interfaces/interface[name]/state/counters/carrier-transitions"),
    (Leaf::PortSpeed, Kind::State, "interfaces/interface[name]/ethernet/state/port-speed"),
    (Leaf::InPauseFrames, Kind::Counter, "interfaces/interface[name]/ethernet/state/counters/in-mac-pause-frames"),
    (Leaf::OutPauseFrames, Kind::Counter, "interfaces/interface[name]/ethernet/state/counters/out-mac-pause-frames"),
    (Leaf::InstanceKey, Kind::State, "network-instances/network-instance[name]/name"),
    (Leaf::Ipv4Key, Kind::State, "network-instances/network-instance[name]/afts/ipv4-unicast/ipv4-entry[prefix]/prefix"),
    (Leaf::Ipv4Prefix, Kind::State, "network-instances/network-instance[name]/afts/ipv4-unicast/ipv4-entry[prefix]/state/prefix"),
    (Leaf::Ipv4Group, Kind::State, "network-instances/network-instance[name]/afts/ipv4-unicast/ipv4-entry[prefix]/state/next-hop-group"),
    (Leaf::Ipv6Key, Kind::State, "network-instances/network-instance[name]/afts/ipv6-unicast/ipv6-entry[prefix]/prefix"),
    (Leaf::Ipv6Prefix, Kind::State, "network-instances/network-instance[name]/afts/ipv6-unicast/ipv6-entry[prefix]/state/prefix"),
    (Leaf::Ipv6Group, Kind::State, "network-instances/network-instance[name]/afts/ipv6-unicast/ipv6-entry[prefix]/state/next-hop-group"),
    (Leaf::GroupKey, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/id"),
    (Leaf::GroupId, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/state/id"),
    (Leaf::GroupProgrammedId, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/state/programmed-id"),
    (Leaf::MemberKey, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/next-hops/next-hop[index]/index"),
    (Leaf::MemberIndex, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/next-hops/next-hop[index]/state/index"),
    (Leaf::MemberWeight, Kind::State, "network-instances/network-instance[name]/afts/next-hop-groups/next-hop-group[id]/next-hops/next-hop[index]/state/weight"),
    (Leaf::NextHopKey, Kind::State, "network-instances/network-instance[name]/afts/next-hops/next-hop[index]/index"),
    (Leaf::NextHopIndex, Kind::State, "network-instances/network-instance[name]/afts/next-hops/next-hop[index]/state/index"),
    (Leaf::NextHopProgrammedIndex, Kind::State, "network-instances/network-instance[name]/afts/next-hops/next-hop[index]/state/programmed-index"),
    (Leaf::NextHopAddress, Kind::State, "network-instances/network-instance[name]/afts/next-hops/next-hop[index]/state/ip-address"),
    (Leaf::NextHopInterface, Kind::State, "network-instances/network-instance[name]/afts/next-hops/next-hop[index]/interface-ref/state/interface"),
    (Leaf::LldpInterfaceKey, Kind::State, "lldp/interfaces/interface[name]/name"),
    (Leaf::NeighborKey, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/id"),
    (Leaf::NeighborId, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/state/id"),
    (Leaf::NeighborSystemName, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/state/system-name"),
    (Leaf::NeighborChassisId, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/state/chassis-id"),
    (Leaf::NeighborPortId, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/state/port-id"),
    (Leaf::NeighborPortDescription, Kind::State, "lldp/interfaces/interface[name]/neighbors/neighbor[id]/state/port-description"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leaf_is_in_the_row_of_its_number() {
        for (number, template) in templates().enumerate() {
            assert_eq!(template.leaf as usize, number, "{template:?}");
            assert!(template.steps.iter().all(|step| !step.module.is_empty()));
        }
        assert_eq!(SCHEMA.len(), Leaf::NeighborPortDescription as usize + 1);
    }

    #[test]
    fn a_node_is_in_the_namespace_of_the_module_that_uses_it() {
        let modules = |leaf: Leaf| -> Vec<&str> {
            let steps = leaf.template().steps.iter();
            steps.map(|step| step.module).collect()
        };
        let interfaces = "openconfig-interfaces";
        let ethernet = "openconfig-if-ethernet";
        assert_eq!(
            modules(Leaf::PortSpeed),
            [interfaces, interfaces, ethernet, ethernet, ethernet]
        );
        assert_eq!(modules(Leaf::LldpInterfaceKey), ["openconfig-lldp"; 4]);
        let instance = "openconfig-network-instance";
        assert_eq!(modules(Leaf::Ipv4Key), [instance; 6]);
    }
}
