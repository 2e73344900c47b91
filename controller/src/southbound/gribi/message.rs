//! gRIBI messages from our operations, and tables from what a device says it has.
//!
//! It refuses to know streams and order.

use std::net::IpAddr;

use bytes::Bytes;
use ipnet::IpNet;
use weft_proto::gribi::{AftEntry, AftOperation, ModifyRequest, SessionParameters, Uint128};
use weft_proto::gribi::{aft_entry, aft_operation, session_parameters};
use weft_proto::gribi_aft::afts;
use weft_proto::gribi_aft::afts::policy_forwarding_entry::IpProtocol;
use weft_proto::ywrapper::{BytesValue, StringValue, UintValue};
use weft_telemetry::text::{NAME_MAX, plain};

use crate::southbound::Election;
use crate::southbound::intent::{
    Entry, Flow, Group, Installed, Key, NextHop, PolicyKey, Source, interface_name,
};
use crate::southbound::reconcile::Change;

/// The first message of a stream: the parameters that all our controllers send.
pub(super) fn parameters() -> ModifyRequest {
    ModifyRequest {
        params: Some(SessionParameters {
            redundancy: session_parameters::ClientRedundancy::SinglePrimary.into(),
            persistence: session_parameters::AftPersistence::Preserve.into(),
            ack_type: session_parameters::AftResultStatusType::RibAndFibAck.into(),
        }),
        ..ModifyRequest::default()
    }
}

/// Who we are: the second message, and again for as long as the stream lives.
pub(super) fn election(election: Election) -> ModifyRequest {
    ModifyRequest {
        election_id: Some(uint128(election)),
        ..ModifyRequest::default()
    }
}

/// Changes with their ids.
pub(super) fn operations(
    changes: &[(u64, Change)],
    election: Election,
    revision: u64,
) -> ModifyRequest {
    let operation = |(id, change): &(u64, Change)| {
        let (op, entry) = match change {
            Change::Add(value) => (aft_operation::Operation::Add, entry(value, revision)),
            Change::Replace(value) => (aft_operation::Operation::Replace, entry(value, revision)),
            Change::Delete(key) => (aft_operation::Operation::Delete, key_only(*key)),
        };
        AftOperation {
            id: *id,
            network_instance: instance(change.key()),
            op: op.into(),
            election_id: Some(uint128(election)),
            entry: Some(entry),
        }
    };
    ModifyRequest {
        operation: changes.iter().map(operation).collect(),
        ..ModifyRequest::default()
    }
}

/// An entry to be deleted: its key says which.
fn key_only(key: Key) -> aft_operation::Entry {
    match key {
        Key::NextHop(index) => aft_operation::Entry::NextHop(afts::NextHopKey {
            index,
            next_hop: Some(afts::NextHop::default()),
        }),
        Key::Group(id) => aft_operation::Entry::NextHopGroup(afts::NextHopGroupKey {
            id,
            next_hop_group: Some(afts::NextHopGroup::default()),
        }),
        Key::Prefix(prefix @ IpNet::V4(_)) => aft_operation::Entry::Ipv4(afts::Ipv4EntryKey {
            prefix: prefix.to_string(),
            ipv4_entry: Some(afts::Ipv4Entry::default()),
        }),
        Key::Prefix(prefix @ IpNet::V6(_)) => aft_operation::Entry::Ipv6(afts::Ipv6EntryKey {
            prefix: prefix.to_string(),
            ipv6_entry: Some(afts::Ipv6Entry::default()),
        }),
        Key::Policy(key) => policy(key.index, afts::PolicyForwardingEntry::default()),
    }
}

/// The network instance of an entry.
fn instance(key: Key) -> String {
    match key {
        Key::NextHop(_) | Key::Group(_) | Key::Prefix(_) => NETWORK_INSTANCE.to_owned(),
        Key::Policy(PolicyKey { vni, source, .. }) => instance_of(vni, source),
    }
}

/// The network instance of packets of a VNI from a source: gRIBI's entries name none.
fn instance_of(vni: u32, source: Source) -> String {
    match source {
        Source::Any => format!("{OF_VNI}{vni}"),
        Source::Address(address) => format!("{OF_VNI}{vni}{OF_SOURCE}{address}"),
        Source::Interface(name) => format!("{OF_VNI}{vni}{OF_PORT}{name}"),
    }
}

/// VNI and source of a network instance that weft names so.
fn packets_of(instance: &str) -> Option<(u32, Source)> {
    let (vni, source) = match instance.strip_prefix(OF_VNI)?.split_once('-') {
        None => (instance.strip_prefix(OF_VNI)?, Source::Any),
        Some((vni, _)) => {
            let rest = &instance[OF_VNI.len() + vni.len()..];
            let address = rest.strip_prefix(OF_SOURCE);
            let address = address.map(|it| it.parse().ok().map(Source::Address));
            let interface = || {
                let name = rest.strip_prefix(OF_PORT)?;
                interface_name(name).map(Source::Interface)
            };
            (vni, address.unwrap_or_else(interface)?)
        }
    };
    let vni = vni.parse().ok()?;
    (instance_of(vni, source) == instance).then_some((vni, source))
}

fn uint128(election: Election) -> Uint128 {
    Uint128 {
        high: election.incarnation,
        low: election.term,
    }
}

fn entry(entry: &Entry, revision: u64) -> aft_operation::Entry {
    match entry {
        Entry::Policy(index, flow, group) => policy(
            *index,
            afts::PolicyForwardingEntry {
                entry_metadata: metadata(revision),
                ip_prefix: flow
                    .destination
                    .and_then(|address| text(&IpNet::from(address).to_string())),
                ip_protocol: flow.udp_source_port.map(|_| UDP),
                l4_src_port: flow
                    .udp_source_port
                    .map(|port| UintValue { value: port.into() }),
                next_hop_group: Some(UintValue { value: *group }),
                next_hop_group_network_instance: text(NETWORK_INSTANCE),
                ..Default::default()
            },
        ),
        Entry::NextHop(index, next_hop) => aft_operation::Entry::NextHop(afts::NextHopKey {
            index: *index,
            next_hop: Some(afts::NextHop {
                ip_address: next_hop
                    .address
                    .and_then(|address| text(&address.to_string())),
                interface_ref: Some(afts::next_hop::InterfaceRef {
                    interface: text(&next_hop.interface),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }),
        Entry::Group(id, group) => aft_operation::Entry::NextHopGroup(afts::NextHopGroupKey {
            id: *id,
            next_hop_group: Some(afts::NextHopGroup {
                next_hop: group.next_hops.iter().map(member).collect(),
                backup_next_hop_group: group.backup.map(|value| UintValue { value }),
                ..Default::default()
            }),
        }),
        Entry::Prefix(prefix @ IpNet::V4(_), group) => {
            aft_operation::Entry::Ipv4(afts::Ipv4EntryKey {
                prefix: prefix.to_string(),
                ipv4_entry: Some(afts::Ipv4Entry {
                    entry_metadata: metadata(revision),
                    next_hop_group: Some(UintValue { value: *group }),
                    ..Default::default()
                }),
            })
        }
        Entry::Prefix(prefix @ IpNet::V6(_), group) => {
            aft_operation::Entry::Ipv6(afts::Ipv6EntryKey {
                prefix: prefix.to_string(),
                ipv6_entry: Some(afts::Ipv6Entry {
                    entry_metadata: metadata(revision),
                    next_hop_group: Some(UintValue { value: *group }),
                    ..Default::default()
                }),
            })
        }
    }
}

fn policy(index: u64, entry: afts::PolicyForwardingEntry) -> aft_operation::Entry {
    aft_operation::Entry::PolicyForwardingEntry(afts::PolicyForwardingEntryKey {
        index,
        policy_forwarding_entry: Some(entry),
    })
}

fn member((index, weight): (&u64, &u64)) -> afts::next_hop_group::NextHopKey {
    afts::next_hop_group::NextHopKey {
        index: *index,
        next_hop: Some(afts::next_hop_group::NextHop {
            weight: Some(UintValue { value: *weight }),
        }),
    }
}

/// The revision of the plan that wrote the entry, 8 octets in network order.
fn metadata(revision: u64) -> Option<BytesValue> {
    Some(BytesValue {
        value: Bytes::copy_from_slice(&revision.to_be_bytes()),
    })
}

fn text(value: &str) -> Option<StringValue> {
    Some(StringValue {
        value: value.to_owned(),
    })
}

/// Adds an entry of a `Get`: what was accepted, and whether the forwarding plane has it. Entries of other kinds, or of
/// other network instances, are not ours and are passed over.
pub(super) fn collect(installed: &mut Installed, got: AftEntry) {
    let held = got.fib_status() == aft_entry::Status::NotProgrammed;
    let prefix = |prefix: &str, group: Option<UintValue>| {
        let group = group.map_or(0, |group| group.value);
        prefix
            .parse()
            .ok()
            .map(|prefix| Entry::Prefix(prefix, group))
    };
    let entry = match got.entry {
        Some(aft_entry::Entry::NextHop(key)) => {
            let next_hop = key.next_hop.unwrap_or_default();
            Some(Entry::NextHop(key.index, installed_next_hop(next_hop)))
        }
        Some(aft_entry::Entry::NextHopGroup(key)) => {
            let group = key.next_hop_group.unwrap_or_default();
            Some(Entry::Group(key.id, installed_group(group)))
        }
        Some(aft_entry::Entry::Ipv4(key)) => {
            let group = key.ipv4_entry.and_then(|entry| entry.next_hop_group);
            prefix(&key.prefix, group)
        }
        Some(aft_entry::Entry::Ipv6(key)) => {
            let group = key.ipv6_entry.and_then(|entry| entry.next_hop_group);
            prefix(&key.prefix, group)
        }
        Some(aft_entry::Entry::PolicyForwardingEntry(key)) => {
            installed_policy(key, &got.network_instance)
        }
        None => None,
    };
    let ours = |entry: &Entry| instance(entry.key()) == got.network_instance;
    if let Some(entry) = entry.filter(ours) {
        if held {
            installed.held.entry(entry.key()).or_default();
        }
        installed.tables.put(entry);
    }
}

fn installed_next_hop(next_hop: afts::NextHop) -> NextHop {
    let interface = next_hop
        .interface_ref
        .and_then(|reference| reference.interface);
    NextHop {
        // One that is none is of nobody's intent.
        address: next_hop
            .ip_address
            .map(|address| address.value.parse().unwrap_or(NO_ADDRESS)),
        // It is shown in errors.
        interface: plain(&interface.unwrap_or_default().value, NAME_MAX).into(),
    }
}

/// None: not of a VNI, and so not ours.
fn installed_policy(key: afts::PolicyForwardingEntryKey, instance: &str) -> Option<Entry> {
    let (vni, source) = packets_of(instance)?;
    let entry = key.policy_forwarding_entry.unwrap_or_default();
    let ours = afts::PolicyForwardingEntry {
        ip_prefix: entry.ip_prefix.clone(),
        ip_protocol: entry.l4_src_port.map(|_| UDP),
        l4_src_port: entry.l4_src_port,
        next_hop_group: entry.next_hop_group,
        next_hop_group_network_instance: text(NETWORK_INSTANCE),
        entry_metadata: entry.entry_metadata.clone(),
        ..Default::default()
    };
    let prefix = ours.ip_prefix.as_ref().map(|prefix| prefix.value.parse());
    let port = ours.l4_src_port.map(|port| u16::try_from(port.value));
    let (destination, udp_source_port) = match (prefix, port.transpose()) {
        (Some(Ok(prefix)), Ok(port))
            if ours == entry && IpNet::prefix_len(&prefix) == prefix.max_prefix_len() =>
        {
            (Some(prefix.addr()), port)
        }
        (None, Ok(None)) if ours == entry => (None, None),
        // Of ours it is not; it is replaced or goes.
        _ => (Some(NO_ADDRESS), None),
    };
    let group = ours.next_hop_group.map_or(0, |group| group.value);
    let flow = Flow {
        vni,
        source,
        destination,
        udp_source_port,
    };
    Some(Entry::Policy(key.index, flow, group))
}

fn installed_group(group: afts::NextHopGroup) -> Group {
    let weight = |member: afts::next_hop_group::NextHopKey| {
        let weight = member.next_hop.and_then(|next_hop| next_hop.weight);
        (member.index, weight.map_or(0, |weight| weight.value))
    };
    Group {
        next_hops: group.next_hop.into_iter().map(weight).collect(),
        backup: group.backup_next_hop_group.map(|backup| backup.value),
    }
}

/// The protocol of RoCEv2.
const UDP: IpProtocol = IpProtocol::IpProtocolUint64(17);
/// Before the number of a VNI in the name of its network instance.
const OF_VNI: &str = "vni-";
/// Before the source address of its packets there.
const OF_SOURCE: &str = "-source-";
/// Before the interface that they come from.
const OF_PORT: &str = "-port-";
/// The network instance that weft programs: where VTEP addresses are routed.
pub(super) const NETWORK_INSTANCE: &str = "DEFAULT";
/// In the place of a text that is no address; never intended.
const NO_ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::intent::InterfaceName;

    /// What a switch says that it has of what it was told.
    fn installed(next_hop: &NextHop) -> (afts::NextHop, Installed) {
        let sent = entry(&Entry::NextHop(7, next_hop.clone()), 1);
        let aft_operation::Entry::NextHop(key) = sent else {
            panic!("a next hop");
        };
        let mut installed = Installed::default();
        let got = AftEntry {
            network_instance: NETWORK_INSTANCE.to_owned(),
            entry: Some(aft_entry::Entry::NextHop(key.clone())),
            ..AftEntry::default()
        };
        collect(&mut installed, got);
        (key.next_hop.unwrap(), installed)
    }

    #[test]
    fn a_next_hop_comes_back_as_it_was_sent() {
        for address in [Some([192, 0, 2, 1].into()), None] {
            let next_hop = NextHop {
                address,
                interface: "swp1".into(),
            };
            let (message, installed) = installed(&next_hop);
            assert_eq!(message.ip_address.is_some(), address.is_some());
            let interface = message.interface_ref.unwrap().interface.unwrap();
            assert_eq!(interface.value, "swp1");
            assert_eq!(installed.tables.next_hops, [(7, next_hop)].into());
        }
    }

    #[test]
    fn a_flow_comes_back_as_it_was_sent() {
        let interface = InterfaceName::from("eth0.100").unwrap();
        let to = Flow::to(100, [192, 0, 2, 1].into());
        for flow in [
            to,
            Flow {
                udp_source_port: Some(49_152),
                ..to
            },
            Flow {
                source: Source::Address([192, 0, 2, 9].into()),
                udp_source_port: Some(49_152),
                ..to
            },
            Flow {
                source: Source::Address("2001:db8::9".parse().unwrap()),
                destination: Some("2001:db8::1".parse().unwrap()),
                ..to
            },
            Flow {
                source: Source::Interface(interface),
                ..to
            },
            Flow {
                source: Source::Interface(interface),
                destination: None,
                ..to
            },
        ] {
            let sent = Entry::Policy(7, flow, 3);
            let aft_operation::Entry::PolicyForwardingEntry(key) = entry(&sent, 1) else {
                panic!("a policy forwarding entry");
            };
            let got = AftEntry {
                network_instance: instance(sent.key()),
                entry: Some(aft_entry::Entry::PolicyForwardingEntry(key)),
                ..AftEntry::default()
            };
            let mut installed = Installed::default();
            collect(&mut installed, got);
            let key = PolicyKey::of(7, &flow);
            assert_eq!(installed.tables.policies, [(key, (flow, 3))].into());
        }
    }

    #[test]
    fn network_instances_of_other_names_are_not_ours() {
        for name in [
            "",
            "DEFAULT",
            "vni-",
            "vni--",
            "vni-0100",
            "vni-100-",
            "vni-100-source",
            "vni-100-source-",
            "vni-100-source-192.0.2.0/24",
            "vni-100-source-2001:DB8::1",
            "vni-100-port",
            "vni-100-port-",
            "vni-100-port-a b",
            "vni-100-port-0123456789abcdef",
            "vni-4294967296",
        ] {
            assert_eq!(packets_of(name), None, "{name}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_not_that_of_an_unnumbered_link() {
        let message = afts::NextHop {
            ip_address: text("leaf1"),
            ..afts::NextHop::default()
        };
        assert_eq!(installed_next_hop(message).address, Some(NO_ADDRESS));
    }
}
