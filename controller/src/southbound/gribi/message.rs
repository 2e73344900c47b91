//! gRIBI messages from our operations, and tables from what a device says it has.
//!
//! It refuses to know streams and order.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use ipnet::IpNet;
use weft_proto::gribi::{AftEntry, AftOperation, ModifyRequest, SessionParameters, Uint128};
use weft_proto::gribi::{aft_entry, aft_operation, session_parameters};
use weft_proto::gribi_aft::afts;
use weft_proto::ywrapper::{BytesValue, StringValue, UintValue};

use crate::southbound::Election;
use crate::southbound::intent::{NextHop, Tables};
use crate::southbound::reconcile::{Entry, Operation, Verb};

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

/// The second message: who we are.
pub(super) fn election(election: Election) -> ModifyRequest {
    ModifyRequest {
        election_id: Some(uint128(election)),
        ..ModifyRequest::default()
    }
}

/// Operations of one phase.
pub(super) fn operations(
    operations: &[(u64, Operation)],
    election: Election,
    revision: u64,
) -> ModifyRequest {
    ModifyRequest {
        operation: operations
            .iter()
            .map(|(id, operation)| AftOperation {
                id: *id,
                network_instance: NETWORK_INSTANCE.to_owned(),
                op: match operation.verb {
                    Verb::Add => aft_operation::Operation::Add,
                    Verb::Replace => aft_operation::Operation::Replace,
                    Verb::Delete => aft_operation::Operation::Delete,
                }
                .into(),
                election_id: Some(uint128(election)),
                entry: Some(entry(&operation.entry, revision)),
            })
            .collect(),
        ..ModifyRequest::default()
    }
}

fn uint128(election: Election) -> Uint128 {
    Uint128 {
        high: election.incarnation,
        low: election.term,
    }
}

fn entry(entry: &Entry, revision: u64) -> aft_operation::Entry {
    match entry {
        Entry::NextHop(index, next_hop) => aft_operation::Entry::NextHop(afts::NextHopKey {
            index: *index,
            next_hop: Some(afts::NextHop {
                ip_address: text(&next_hop.address.to_string()),
                interface_ref: Some(afts::next_hop::InterfaceRef {
                    interface: text(&next_hop.interface),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }),
        Entry::Group(id, members) => aft_operation::Entry::NextHopGroup(afts::NextHopGroupKey {
            id: *id,
            next_hop_group: Some(afts::NextHopGroup {
                next_hop: members.iter().map(member).collect(),
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

/// Adds an entry of a `Get` to the tables. What is accepted but not in the forwarding plane counts as present with no
/// value, so that it is written again. Entries of other kinds are not ours and are passed over.
pub(super) fn collect(tables: &mut Tables, got: AftEntry) {
    let refused = got.fib_status() == aft_entry::Status::NotProgrammed;
    match got.entry {
        Some(aft_entry::Entry::NextHop(key)) => {
            let next_hop = key.next_hop.filter(|_| !refused).unwrap_or_default();
            tables
                .next_hops
                .insert(key.index, installed_next_hop(next_hop));
        }
        Some(aft_entry::Entry::NextHopGroup(key)) => {
            let group = key.next_hop_group.filter(|_| !refused).unwrap_or_default();
            tables.groups.insert(key.id, installed_members(group));
        }
        Some(aft_entry::Entry::Ipv4(key)) => {
            let group = key.ipv4_entry.and_then(|entry| entry.next_hop_group);
            installed_prefix(tables, &key.prefix, group.filter(|_| !refused));
        }
        Some(aft_entry::Entry::Ipv6(key)) => {
            let group = key.ipv6_entry.and_then(|entry| entry.next_hop_group);
            installed_prefix(tables, &key.prefix, group.filter(|_| !refused));
        }
        None => {}
    }
}

fn installed_next_hop(next_hop: afts::NextHop) -> NextHop {
    let interface = next_hop
        .interface_ref
        .and_then(|reference| reference.interface);
    NextHop {
        address: next_hop
            .ip_address
            .and_then(|address| address.value.parse().ok())
            .unwrap_or(NO_ADDRESS),
        interface: interface.unwrap_or_default().value.into(),
    }
}

fn installed_members(group: afts::NextHopGroup) -> BTreeMap<u64, u64> {
    group
        .next_hop
        .into_iter()
        .map(|member| {
            let weight = member.next_hop.and_then(|next_hop| next_hop.weight);
            (member.index, weight.map_or(0, |weight| weight.value))
        })
        .collect()
}

fn installed_prefix(tables: &mut Tables, prefix: &str, group: Option<UintValue>) {
    if let Ok(prefix) = prefix.parse() {
        tables
            .prefixes
            .insert(prefix, group.map_or(0, |group| group.value));
    }
}

/// The network instance that weft programs: where VTEP addresses are routed.
pub(super) const NETWORK_INSTANCE: &str = "DEFAULT";
/// The address of a next hop that has none; never intended.
const NO_ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
