//! One gRIBI operation, read and checked for itself: is it well formed, and can this agent do it at
//! all. Knows nothing of what else is in the RIB.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use weft_proto::gribi::{AftOperation, aft_operation};
use weft_proto::gribi_aft::afts;
use weft_proto::ywrapper::{BytesValue, StringValue, UintValue};

use crate::instance::{Instance, Source};

/// Which entry.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A next hop by the client's index.
    NextHop(u64),
    /// A group by the client's id.
    Group(u64),
    /// A prefix of either family.
    Prefix(IpNet),
    /// A policy forwarding entry.
    Policy(PolicyKey),
}

/// Which policy forwarding entry: each network instance has indexes of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyKey {
    /// The network instance that it is in.
    pub instance: Instance,
    /// The client's index.
    pub index: u64,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextHop(index) => write!(f, "next hop {index}"),
            Self::Group(id) => write!(f, "next-hop group {id}"),
            Self::Prefix(prefix) => write!(f, "prefix {prefix}"),
            Self::Policy(PolicyKey { instance, index }) => {
                write!(f, "policy forwarding entry {index} of {instance}")
            }
        }
    }
}

/// A next hop as a client gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct NextHop {
    /// The neighbour's address; `None`: whom the switch's own routing has behind the link.
    pub address: Option<IpAddr>,
    /// The link; `None`: the link whose connected subnet has the address.
    pub interface: Option<String>,
    /// What to answer in `Get`.
    pub message: afts::NextHop,
}

/// A group as a client gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Index and weight of each member, in the client's order. A weight may be unusable here.
    pub members: Vec<(u64, u64)>,
    /// The group that is used for a prefix where none of the members is usable.
    pub backup: Option<u64>,
    /// What to answer in `Get`.
    pub message: afts::NextHopGroup,
}

/// A prefix as a client gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prefix {
    /// The group it uses.
    pub group: u64,
    /// Free octets of the client.
    pub metadata: Option<BytesValue>,
    /// As given: absent, or the same network instance.
    pub group_network_instance: Option<StringValue>,
}

/// A policy forwarding entry as a client gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The packets that it is for.
    pub flow: Flow,
    /// The group they use.
    pub group: u64,
    /// What to answer in `Get`.
    pub message: afts::PolicyForwardingEntry,
}

/// Packets inside a VXLAN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The network instance: their VNI, and where they come from.
    pub instance: Instance,
    /// Their destination; None: whatever it is, of packets that come from a port.
    pub destination: Option<IpAddr>,
    /// Their protocol and source port; None: whatever they are.
    pub port: Option<(u8, u16)>,
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.instance.fmt(f)?;
        if let Some(destination) = self.destination {
            write!(f, ", {destination}")?;
        }
        match self.port {
            Some((protocol, port)) => write!(f, ", protocol {protocol}, source port {port}"),
            None => Ok(()),
        }
    }
}

/// An entry with its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A next hop.
    NextHop(u64, NextHop),
    /// A group.
    Group(u64, Group),
    /// A prefix.
    Prefix(IpNet, Prefix),
    /// A policy forwarding entry.
    Policy(PolicyKey, Policy),
}

impl Entry {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::NextHop(index, _) => Key::NextHop(*index),
            Self::Group(id, _) => Key::Group(*id),
            Self::Prefix(prefix, _) => Key::Prefix(*prefix),
            Self::Policy(key, _) => Key::Policy(*key),
        }
    }
}

/// What a client wants of the RIB.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates or replaces (ADD).
    Add(Entry),
    /// Replaces what exists (REPLACE).
    Replace(Entry),
    /// Removes, if it exists (DELETE).
    Delete(Key),
}

impl Change {
    /// What it changes.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::Add(entry) | Self::Replace(entry) => entry.key(),
            Self::Delete(key) => *key,
        }
    }
}

/// Reads an operation. Policy forwarding entries are of an [`Instance`], `vni-10100`; all else is of the one that the main routing
/// table is called. The error is what the client is told with FAILED.
///
/// # Errors
///
/// When the operation is malformed or asks for something that this agent has no way to do.
pub fn read(operation: AftOperation, main: &str) -> Result<Change, String> {
    let verb = operation.op();
    let instance = operation.network_instance;
    let entry = operation
        .entry
        .ok_or("the entry is missing, or is a MAC entry; that is not supported")?;
    let policy = matches!(entry, aft_operation::Entry::PolicyForwardingEntry(_));
    if !policy && instance != main {
        return Err(no_instance(&instance));
    }
    match verb {
        aft_operation::Operation::Invalid => {
            Err("the operation is neither ADD, REPLACE nor DELETE".into())
        }
        aft_operation::Operation::Add => Ok(Change::Add(read_entry(entry, &instance, main)?)),
        aft_operation::Operation::Replace => {
            Ok(Change::Replace(read_entry(entry, &instance, main)?))
        }
        aft_operation::Operation::Delete => Ok(Change::Delete(read_key(&entry, &instance)?)),
    }
}

fn read_key(entry: &aft_operation::Entry, instance: &str) -> Result<Key, String> {
    match entry {
        aft_operation::Entry::NextHop(key) => Ok(Key::NextHop(nonzero(key.index, "index")?)),
        aft_operation::Entry::NextHopGroup(key) => Ok(Key::Group(nonzero(key.id, "id")?)),
        aft_operation::Entry::Ipv4(key) => Ok(Key::Prefix(read_prefix(&key.prefix, true)?)),
        aft_operation::Entry::Ipv6(key) => Ok(Key::Prefix(read_prefix(&key.prefix, false)?)),
        aft_operation::Entry::Mpls(_) => Err("MPLS entries are not supported".into()),
        aft_operation::Entry::PolicyForwardingEntry(key) => {
            let instance = Instance::named(instance).ok_or_else(|| no_instance(instance))?;
            let index = nonzero(key.index, "index")?;
            Ok(Key::Policy(PolicyKey { instance, index }))
        }
    }
}

fn read_entry(entry: aft_operation::Entry, instance: &str, main: &str) -> Result<Entry, String> {
    let missing = |what: &str| format!("the {what} has no content");
    match (read_key(&entry, instance)?, entry) {
        (Key::NextHop(index), aft_operation::Entry::NextHop(key)) => {
            let message = key.next_hop.ok_or_else(|| missing("next hop"))?;
            Ok(Entry::NextHop(index, read_next_hop(message, instance)?))
        }
        (Key::Group(id), aft_operation::Entry::NextHopGroup(key)) => {
            let message = key
                .next_hop_group
                .ok_or_else(|| missing("next-hop group"))?;
            Ok(Entry::Group(id, read_group(message)?))
        }
        (Key::Prefix(prefix), aft_operation::Entry::Ipv4(key)) => {
            let entry = key.ipv4_entry.ok_or_else(|| missing("IPv4 entry"))?;
            not_decapsulated(entry.decapsulate_header)?;
            let read = read_route(
                entry.next_hop_group,
                entry.entry_metadata,
                entry.next_hop_group_network_instance,
                instance,
            )?;
            Ok(Entry::Prefix(prefix, read))
        }
        (Key::Prefix(prefix), aft_operation::Entry::Ipv6(key)) => {
            let entry = key.ipv6_entry.ok_or_else(|| missing("IPv6 entry"))?;
            not_decapsulated(entry.decapsulate_header)?;
            let read = read_route(
                entry.next_hop_group,
                entry.entry_metadata,
                entry.next_hop_group_network_instance,
                instance,
            )?;
            Ok(Entry::Prefix(prefix, read))
        }
        (Key::Policy(policy), aft_operation::Entry::PolicyForwardingEntry(key)) => {
            let entry = key.policy_forwarding_entry;
            let entry = entry.ok_or_else(|| missing("policy forwarding entry"))?;
            Ok(Entry::Policy(
                policy,
                read_policy(entry, policy.instance, main)?,
            ))
        }
        (key, _) => Err(format!("{key} does not fit its content")),
    }
}

fn read_next_hop(message: afts::NextHop, instance: &str) -> Result<NextHop, String> {
    let address = match &message.ip_address {
        None => None,
        Some(text) => Some(
            text.value
                .parse::<IpAddr>()
                .map_err(|_| format!("\"{}\" is not an IP address", text.value))?,
        ),
    };
    let interface = match &message.interface_ref {
        None => None,
        Some(reference) => interface_name(reference)?,
    };
    only_forwards(&message)?;
    same_instance(message.network_instance.as_ref(), instance)?;
    match (address, &interface) {
        (None, None) => return Err("a next hop needs an IP address or an interface".into()),
        (Some(IpAddr::V6(address)), None) if address.is_unicast_link_local() => {
            return Err("a link-local next hop needs an interface".into());
        }
        (Some(address), _) if address.is_unspecified() || address.is_multicast() => {
            return Err(format!("{address} is not the address of a neighbour"));
        }
        (Some(_), _) | (None, Some(_)) => {}
    }
    Ok(NextHop {
        address,
        interface,
        message,
    })
}

/// A next hop that puts headers on packets or takes them off is not one of a route in the main table.
fn only_forwards(message: &afts::NextHop) -> Result<(), String> {
    for (given, what) in [
        (message.mac_address.is_some(), "is named by its MAC address"),
        (
            !message.pushed_mpls_label_stack.is_empty(),
            "pushes MPLS labels",
        ),
        (message.pop_top_label.is_some(), "pops an MPLS label"),
        (message.encapsulate_header != 0, "encapsulates packets"),
        (!message.encap_header.is_empty(), "encapsulates packets"),
        (message.gre.is_some(), "encapsulates packets in GRE"),
        (message.ip_in_ip.is_some(), "encapsulates packets in IP"),
        (message.vni_label.is_some(), "encapsulates packets in VXLAN"),
        (message.decapsulate_header != 0, "decapsulates packets"),
    ] {
        if given {
            return Err(format!("a next hop that {what} is not supported"));
        }
    }
    Ok(())
}

fn not_decapsulated(header: i32) -> Result<(), String> {
    match header {
        0 => Ok(()),
        _ => Err("a prefix whose packets are decapsulated is not supported".into()),
    }
}

/// Linux has no subinterface number apart from the name: number 100 of eth0 is "eth0.100".
fn interface_name(reference: &afts::next_hop::InterfaceRef) -> Result<Option<String>, String> {
    let number = reference
        .subinterface
        .as_ref()
        .map_or(0, |number| number.value);
    match reference.interface.as_ref().map(|name| name.value.as_str()) {
        None | Some("") if number == 0 => Ok(None),
        None | Some("") => Err("a subinterface needs an interface".into()),
        Some(name) if number == 0 => Ok(Some(name.to_owned())),
        Some(name) => Ok(Some(format!("{name}.{number}"))),
    }
}

fn read_group(message: afts::NextHopGroup) -> Result<Group, String> {
    let backup = message.backup_next_hop_group.as_ref();
    let backup = backup.map(|backup| nonzero(backup.value, "id of the backup next-hop group"));
    let backup = backup.transpose()?;
    if message.next_hop.is_empty() {
        return Err("a next-hop group needs a next hop".into());
    }
    if message.next_hop.len() > MEMBERS_MAX {
        return Err(format!(
            "a next-hop group has at most {MEMBERS_MAX} members"
        ));
    }
    let mut seen = BTreeSet::new();
    let mut members = Vec::with_capacity(message.next_hop.len());
    for member in &message.next_hop {
        let index = nonzero(member.index, "index of a member")?;
        if !seen.insert(index) {
            return Err(format!("next hop {index} is a member twice"));
        }
        // TE-3.2: no weight is an equal share.
        let weight = member
            .next_hop
            .as_ref()
            .and_then(|next_hop| next_hop.weight.as_ref());
        members.push((index, weight.map_or(1, |weight| weight.value)));
    }
    Ok(Group {
        members,
        backup,
        message,
    })
}

fn read_route(
    group: Option<UintValue>,
    metadata: Option<BytesValue>,
    group_network_instance: Option<StringValue>,
    instance: &str,
) -> Result<Prefix, String> {
    let group = group.ok_or("a prefix needs a next-hop group")?.value;
    same_instance(group_network_instance.as_ref(), instance)?;
    Ok(Prefix {
        group,
        metadata,
        group_network_instance,
    })
}

fn read_policy(
    message: afts::PolicyForwardingEntry,
    instance: Instance,
    main: &str,
) -> Result<Policy, String> {
    use afts::policy_forwarding_entry::IpProtocol;
    for (given, what) in [
        (message.ip_dscp.is_some(), "DSCP"),
        (message.l4_dst_port.is_some(), "destination port"),
        (message.mac_address.is_some(), "MAC address"),
        (message.mpls_label.is_some(), "MPLS label"),
        (message.mpls_tc.is_some(), "MPLS traffic class"),
    ] {
        if given {
            return Err(format!("a match by {what} is not supported"));
        }
    }
    let prefix = message.ip_prefix.as_ref();
    let destination = prefix.map(|prefix| read_address(&prefix.value));
    let destination = destination.transpose()?;
    match (instance.source, destination) {
        (Source::Any | Source::Address(_), None) => {
            return Err("a policy forwarding entry needs the prefix of a destination".into());
        }
        (Source::Address(source), Some(destination))
            if source.is_ipv4() != destination.is_ipv4() =>
        {
            return Err(format!("{source} and {destination} are not of one family"));
        }
        (_, _) => {}
    }
    let port = match (&message.ip_protocol, &message.l4_src_port) {
        (None, None) => None,
        (Some(IpProtocol::IpProtocolUint64(protocol)), Some(port)) => {
            let protocol = u8::try_from(*protocol).map_err(|_| "there is no such protocol")?;
            let port = u16::try_from(port.value).map_err(|_| "there is no such source port")?;
            Some((protocol, port))
        }
        (_, _) => return Err("a protocol, as a number, and a source port come together".into()),
    };
    if port.is_some() && destination.is_none() {
        return Err("a source port needs the prefix of a destination".into());
    }
    // Without a name it would be a group of the entry's own network instance, and there are none.
    match &message.next_hop_group_network_instance {
        Some(name) if name.value == main => {}
        _ => {
            return Err(format!(
                "the next-hop group has to be one of network instance \"{main}\""
            ));
        }
    }
    let group = message.next_hop_group.as_ref();
    let group = group.ok_or("a policy forwarding entry needs a next-hop group")?;
    Ok(Policy {
        flow: Flow {
            instance,
            destination,
            port,
        },
        group: group.value,
        message,
    })
}

/// The one address of a prefix.
fn read_address(text: &str) -> Result<IpAddr, String> {
    let prefix: IpNet = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a prefix"))?;
    match prefix.prefix_len() == prefix.max_prefix_len() {
        true => Ok(prefix.addr()),
        false => Err(format!(
            "{prefix} is more than one address; that is not supported"
        )),
    }
}

fn no_instance(name: &str) -> String {
    format!("there is no network instance \"{name}\"")
}

fn read_prefix(text: &str, ipv4: bool) -> Result<IpNet, String> {
    let prefix: IpNet = text
        .parse()
        .map_err(|_| format!("\"{text}\" is not a prefix"))?;
    if matches!(prefix, IpNet::V4(_)) != ipv4 {
        return Err(format!("{prefix} is of the other family"));
    }
    if prefix != prefix.trunc() {
        return Err(format!(
            "{prefix} has host bits; {} was meant?",
            prefix.trunc()
        ));
    }
    Ok(prefix)
}

fn same_instance(given: Option<&StringValue>, instance: &str) -> Result<(), String> {
    match given.map(|given| given.value.as_str()) {
        None | Some("") => Ok(()),
        Some(name) if name == instance => Ok(()),
        Some(name) => Err(format!(
            "a reference into network instance \"{name}\" is not supported"
        )),
    }
}

fn nonzero(value: u64, what: &str) -> Result<u64, String> {
    if value == 0 {
        Err(format!("the {what} is zero"))
    } else {
        Ok(value)
    }
}

/// More than any group has ports to send to; a longer list is a mistake. The operation fails.
const MEMBERS_MAX: usize = 1024;
