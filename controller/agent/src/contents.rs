//! What `Get` answers: the RIB as a client gave it, and what of it is in the kernel.

use ipnet::IpNet;
use tonic::Code;
use weft_proto::gribi::{AftEntry, AftType, GetRequest, aft_entry, get_request};
use weft_proto::gribi_aft::afts;
use weft_proto::ywrapper::UintValue;

use crate::agent::Agent;
use crate::entry::{Key, Prefix};
use crate::fib::{Forwarded, Found};
use crate::instance::Instance;
use crate::refusal::{Detail, Refusal};

impl Agent {
    /// The entries that a `Get` asks for; next hops first, then groups, prefixes, and policy forwarding entries.
    ///
    /// # Errors
    ///
    /// When the network instance is missing or unknown, or the table is invalid or unsupported.
    pub fn entries(&self, request: &GetRequest) -> Result<Vec<AftEntry>, Refusal> {
        let instance = match &request.network_instance {
            Some(get_request::NetworkInstance::All(_)) => None,
            Some(get_request::NetworkInstance::Name(name)) if name.is_empty() => {
                return Err(Refusal::invalid("the network instance is empty"));
            }
            Some(get_request::NetworkInstance::Name(name))
                if name == self.network_instance() || Instance::named(name).is_some() =>
            {
                Some(name)
            }
            Some(get_request::NetworkInstance::Name(name)) => {
                return Err(Refusal::invalid(&format!(
                    "there is no network instance \"{name}\""
                )));
            }
            None => return Err(Refusal::invalid("no network instance is given")),
        };
        let wanted: fn(&Key) -> bool = match AftType::try_from(request.aft) {
            Ok(AftType::All) => |_| true,
            Ok(AftType::Nexthop) => |key| matches!(key, Key::NextHop(_)),
            Ok(AftType::NexthopGroup) => |key| matches!(key, Key::Group(_)),
            Ok(AftType::Ipv4) => |key| matches!(key, Key::Prefix(IpNet::V4(_))),
            Ok(AftType::Ipv6) => |key| matches!(key, Key::Prefix(IpNet::V6(_))),
            Ok(AftType::PolicyForwarding) => |key| matches!(key, Key::Policy(_)),
            Ok(AftType::Mpls | AftType::Mac) => {
                let (code, text) = (Code::Unimplemented, "the table is not supported".to_owned());
                return Err(Refusal {
                    code,
                    text,
                    detail: Detail::None,
                });
            }
            Ok(AftType::Invalid) | Err(_) => return Err(Refusal::invalid("the table is invalid")),
        };
        let mut found = Found::default();
        Ok(self
            .rib()
            .keys()
            .filter(wanted)
            .filter_map(|key| self.entry(key, &mut found))
            .filter(|entry| instance.is_none_or(|name| entry.network_instance == *name))
            .collect())
    }

    /// An entry of the RIB. Prefixes that are asked for one after the other share what is found.
    fn entry(&self, key: Key, found: &mut Found) -> Option<AftEntry> {
        let mut network_instance = self.network_instance().to_owned();
        let entry = match key {
            Key::NextHop(index) => {
                let next_hop = Some(self.rib().next_hop(index)?.message.clone());
                aft_entry::Entry::NextHop(afts::NextHopKey { index, next_hop })
            }
            Key::Group(id) => {
                let next_hop_group = Some(self.rib().group(id)?.message.clone());
                aft_entry::Entry::NextHopGroup(afts::NextHopGroupKey { id, next_hop_group })
            }
            Key::Prefix(prefix) => route(prefix, self.rib().prefix(prefix)?.clone()),
            Key::Policy(key) => {
                let policy = self.rib().policy(key)?;
                network_instance = key.instance.to_string();
                aft_entry::Entry::PolicyForwardingEntry(afts::PolicyForwardingEntryKey {
                    index: key.index,
                    policy_forwarding_entry: Some(policy.message.clone()),
                })
            }
        };
        let (fib, rib) = (self.fib(), self.rib());
        let is_programmed = match key {
            Key::Prefix(prefix) => {
                let forwarding = fib.forwarding(prefix, rib, found);
                matches!(forwarding, Forwarded::By { .. })
            }
            Key::NextHop(_) | Key::Group(_) | Key::Policy(_) => fib.state(key, rib) == Ok(true),
        };
        let fib_status = match is_programmed {
            true => aft_entry::Status::Programmed,
            false => aft_entry::Status::NotProgrammed,
        };
        Some(AftEntry {
            network_instance,
            entry: Some(entry),
            rib_status: aft_entry::Status::Programmed.into(),
            fib_status: fib_status.into(),
        })
    }
}

fn route(prefix: IpNet, entry: Prefix) -> aft_entry::Entry {
    let next_hop_group = Some(UintValue { value: entry.group });
    let entry_metadata = entry.metadata;
    let next_hop_group_network_instance = entry.group_network_instance;
    match prefix {
        IpNet::V4(_) => aft_entry::Entry::Ipv4(afts::Ipv4EntryKey {
            prefix: prefix.to_string(),
            ipv4_entry: Some(afts::Ipv4Entry {
                entry_metadata,
                next_hop_group,
                next_hop_group_network_instance,
                ..Default::default()
            }),
        }),
        IpNet::V6(_) => aft_entry::Entry::Ipv6(afts::Ipv6EntryKey {
            prefix: prefix.to_string(),
            ipv6_entry: Some(afts::Ipv6Entry {
                entry_metadata,
                next_hop_group,
                next_hop_group_network_instance,
                ..Default::default()
            }),
        }),
    }
}
