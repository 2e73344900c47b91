//! A gRIBI client for tests: one `Modify` stream, and operations in one line each.

#![allow(dead_code, reason = "each test crate uses its own part")]

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use weft_proto::gribi::aft_operation::{Entry, Operation};
use weft_proto::gribi::g_ribi_client::GRibiClient;
use weft_proto::gribi::{
    AftEntry, AftOperation, AftResult, AftType, Empty, FlushRequest, FlushResponse, GetRequest,
    ModifyRequest, ModifyResponse, SessionParameters, Uint128, aft_entry, aft_result,
    flush_request, get_request,
};
use weft_proto::gribi_aft::afts;
use weft_proto::gribi_aft::afts::policy_forwarding_entry::IpProtocol;
use weft_proto::ywrapper::{BytesValue, StringValue, UintValue};

pub(crate) struct Session {
    pub(crate) client: GRibiClient<Channel>,
    requests: Option<mpsc::Sender<ModifyRequest>>,
    responses: Streaming<ModifyResponse>,
    election: u64,
    operations: u64,
}

/// What the agent supports, with FIB acknowledgements.
pub(crate) const PARAMETERS: SessionParameters = SessionParameters {
    redundancy: 1,
    persistence: 1,
    ack_type: 1,
};

/// What makes a stream primary with this election id.
pub(crate) fn opening(low: u64) -> [ModifyRequest; 2] {
    let parameters = ModifyRequest {
        params: Some(PARAMETERS),
        ..Default::default()
    };
    let election = ModifyRequest {
        election_id: Some(Uint128 { high: 0, low }),
        ..Default::default()
    };
    [parameters, election]
}

impl Session {
    /// A stream on which nothing was said.
    pub(crate) async fn open(channel: Channel) -> Self {
        let mut client = GRibiClient::new(channel);
        let (requests, queue) = mpsc::channel(16);
        let responses = client
            .modify(ReceiverStream::new(queue))
            .await
            .expect("open")
            .into_inner();
        Self {
            client,
            requests: Some(requests),
            responses,
            election: 0,
            operations: 0,
        }
    }

    /// Whether no stream can be opened.
    pub(crate) async fn refused(channel: Channel) -> bool {
        let (_requests, queue) = mpsc::channel(1);
        let mut client = GRibiClient::new(channel);
        client.modify(ReceiverStream::new(queue)).await.is_err()
    }

    /// A stream that is primary with this election id.
    pub(crate) async fn primary(channel: Channel, election: u64) -> Self {
        let mut session = Self::open(channel).await;
        session.parameters(PARAMETERS).await.expect("supported");
        assert_eq!(session.elect(election).await.expect("valid"), election);
        session
    }

    pub(crate) async fn parameters(&mut self, params: SessionParameters) -> Result<(), Status> {
        let params = Some(params);
        let response = self
            .ask(ModifyRequest {
                params,
                ..Default::default()
            })
            .await?;
        assert_eq!(
            response
                .session_params_result
                .expect("parameters result")
                .status,
            0
        );
        Ok(())
    }

    /// States the id; returns the highest.
    pub(crate) async fn elect(&mut self, low: u64) -> Result<u64, Status> {
        self.election = low;
        let election_id = Some(Uint128 { high: 0, low });
        let response = self
            .ask(ModifyRequest {
                election_id,
                ..Default::default()
            })
            .await?;
        Ok(response.election_id.expect("election result").low)
    }

    pub(crate) async fn send(&mut self, request: ModifyRequest) {
        let requests = self.requests.as_ref().expect("open");
        // An ended stream does not take it, and says why when asked.
        let _ended = requests.send(request).await;
    }

    /// Nothing more will be said; answers still come.
    pub(crate) fn half_close(&mut self) {
        self.requests = None;
    }

    pub(crate) async fn receive(&mut self) -> Result<ModifyResponse, Status> {
        let response = timeout(PATIENCE, self.responses.message())
            .await
            .expect("an answer in time");
        response?.ok_or_else(|| Status::ok("end of stream"))
    }

    pub(crate) async fn ask(&mut self, request: ModifyRequest) -> Result<ModifyResponse, Status> {
        self.send(request).await;
        self.receive().await
    }

    /// An operation with the next id and this stream's election id.
    pub(crate) fn operation(&mut self, op: Operation, entry: Entry) -> AftOperation {
        self.operations += 1;
        AftOperation {
            id: self.operations,
            network_instance: "DEFAULT".into(),
            op: op.into(),
            election_id: Some(Uint128 {
                high: 0,
                low: self.election,
            }),
            entry: Some(entry),
        }
    }

    pub(crate) async fn operate(&mut self, op: Operation, entry: Entry) -> AftResult {
        let operation = self.operation(op, entry);
        let id = operation.id;
        let results = self.batch(vec![operation]).await;
        let [result] = results.try_into().expect("one result");
        assert_eq!(result.id, id);
        assert!(result.timestamp > 0);
        result
    }

    /// An operation on a policy forwarding entry of a VNI: its statuses, with their texts, until the last one.
    pub(crate) async fn pin(&mut self, op: Operation, instance: &str, entry: Entry) -> Vec<String> {
        let mut operation = self.operation(op, entry);
        instance.clone_into(&mut operation.network_instance);
        let mut results = self.batch(vec![operation]).await;
        let mut shown = Vec::new();
        loop {
            for result in std::mem::take(&mut results) {
                let details = result.error_details.clone().unwrap_or_default();
                let text = format!("{} {}", status(&result), details.error_message);
                shown.push(text.trim_end().to_owned());
                if status(&result) != "RIB_PROGRAMMED" {
                    return shown;
                }
            }
            match timeout(PIN_PATIENCE, self.responses.message()).await {
                Ok(response) => results = response.expect("open").expect("open").result,
                // It waits for something else.
                Err(_) => return shown,
            }
        }
    }

    /// A pin that is in force in the end.
    pub(crate) async fn add_pin(&mut self, instance: &str, entry: Entry) {
        let shown = self.pin(Operation::Add, instance, entry).await;
        assert_eq!(
            shown.last().map(String::as_str),
            Some("FIB_PROGRAMMED"),
            "{shown:?}"
        );
    }

    /// One request; all results.
    pub(crate) async fn batch(&mut self, operation: Vec<AftOperation>) -> Vec<AftResult> {
        let count = operation.len();
        self.send(ModifyRequest {
            operation,
            ..Default::default()
        })
        .await;
        let mut results = Vec::new();
        while results.len() < count {
            results.extend(self.receive().await.expect("results").result);
        }
        results
    }

    pub(crate) async fn add(&mut self, entry: Entry) {
        self.expect(Operation::Add, entry, "FIB_PROGRAMMED", "")
            .await;
    }

    pub(crate) async fn replace(&mut self, entry: Entry) {
        self.expect(Operation::Replace, entry, "FIB_PROGRAMMED", "")
            .await;
    }

    pub(crate) async fn delete(&mut self, entry: Entry) {
        self.expect(Operation::Delete, entry, "FIB_PROGRAMMED", "")
            .await;
    }

    pub(crate) async fn add_with(&mut self, entry: Entry, status: &str, text: &str) {
        self.expect(Operation::Add, entry, status, text).await;
    }

    pub(crate) async fn delete_fails(&mut self, entry: Entry, text: &str) {
        self.expect(Operation::Delete, entry, "FAILED", text).await;
    }

    /// The status, and a part of the text, whatever its case.
    pub(crate) async fn expect(&mut self, op: Operation, entry: Entry, status: &str, text: &str) {
        let shown = format!("{op:?} {entry:?}");
        let result = self.operate(op, entry).await;
        let details = result
            .error_details
            .clone()
            .unwrap_or_default()
            .error_message;
        assert_eq!(result.status().as_str_name(), status, "{shown}: {details}");
        assert!(details.to_lowercase().contains(text), "{shown}: {details}");
    }

    pub(crate) async fn with_two_paths(channel: Channel) -> Self {
        let mut session = Self::primary(channel, 1).await;
        session.add(next_hop(1, "192.0.2.2", None)).await;
        session.add(next_hop(2, "198.51.100.2", None)).await;
        session.add(group(1, &[(1, 3), (2, 1)])).await;
        session.add(prefix("203.0.113.0/24", 1)).await;
        session
    }

    /// By the second link only.
    pub(crate) async fn with_one_path(channel: Channel) -> Self {
        let mut session = Self::primary(channel, 1).await;
        session.add(next_hop(1, "198.51.100.2", None)).await;
        session.add(group(1, &[(1, 1)])).await;
        session.add(prefix("203.0.113.0/24", 1)).await;
        session
    }

    pub(crate) async fn get(&mut self, aft: AftType) -> Result<Vec<AftEntry>, Status> {
        let all = get_request::NetworkInstance::All(Empty {});
        get(&mut self.client, Some(all), aft).await
    }

    /// Everything, one line each.
    pub(crate) async fn entries(channel: Channel) -> Vec<String> {
        let all = Some(get_request::NetworkInstance::All(Empty {}));
        let entries = get(&mut GRibiClient::new(channel), all, AftType::All)
            .await
            .expect("entries");
        entries.into_iter().map(show).collect()
    }

    pub(crate) async fn flush(&mut self) -> FlushResponse {
        let request = FlushRequest {
            election: Some(flush_request::Election::Override(Empty {})),
            network_instance: Some(flush_request::NetworkInstance::All(Empty {})),
        };
        self.client
            .flush(request)
            .await
            .expect("flushed")
            .into_inner()
    }
}

pub(crate) async fn get(
    client: &mut GRibiClient<Channel>,
    network_instance: Option<get_request::NetworkInstance>,
    aft: AftType,
) -> Result<Vec<AftEntry>, Status> {
    let request = GetRequest {
        network_instance,
        aft: aft.into(),
    };
    let mut stream = client.get(request).await?.into_inner();
    let mut entries = Vec::new();
    while let Some(response) = stream.message().await? {
        entries.extend(response.entry);
    }
    Ok(entries)
}

pub(crate) fn show(entry: AftEntry) -> String {
    let fib = entry.fib_status();
    let entry_instance = entry.network_instance.clone();
    let value =
        |text: Option<StringValue>| text.map_or(String::new(), |text| format!(" {}", text.value));
    let shown = match entry.entry.expect("an entry") {
        aft_entry::Entry::NextHop(key) => {
            let next_hop = key.next_hop.unwrap_or_default();
            let interface = next_hop
                .interface_ref
                .and_then(|reference| reference.interface);
            format!(
                "next hop {}{}{}",
                key.index,
                value(next_hop.ip_address),
                value(interface)
            )
        }
        aft_entry::Entry::NextHopGroup(key) => {
            let group = key.next_hop_group.unwrap_or_default();
            let backup = group.backup_next_hop_group;
            let backup = backup.map_or(String::new(), |backup| format!(" backup {}", backup.value));
            let members = group.next_hop.into_iter().map(|member| {
                let weight = member.next_hop.and_then(|next_hop| next_hop.weight);
                format!(
                    " {}:{}",
                    member.index,
                    weight.map_or(0, |weight| weight.value)
                )
            });
            format!("group {}{}{backup}", key.id, members.collect::<String>())
        }
        aft_entry::Entry::Ipv4(key) => {
            let entry = key.ipv4_entry.unwrap_or_default();
            format!(
                "{} {}",
                key.prefix,
                entry.next_hop_group.map_or(0, |group| group.value)
            )
        }
        aft_entry::Entry::Ipv6(key) => {
            let entry = key.ipv6_entry.unwrap_or_default();
            format!(
                "{} {}",
                key.prefix,
                entry.next_hop_group.map_or(0, |group| group.value)
            )
        }
        aft_entry::Entry::PolicyForwardingEntry(key) => {
            let entry = key.policy_forwarding_entry.unwrap_or_default();
            format!(
                "{} policy {}{} {}",
                entry_instance,
                key.index,
                match value(entry.ip_prefix) {
                    prefix if prefix.trim().is_empty() => " -".to_owned(),
                    prefix => prefix,
                },
                entry.next_hop_group.map_or(0, |group| group.value)
            )
        }
    };
    match fib {
        aft_entry::Status::Programmed => shown,
        aft_entry::Status::NotProgrammed | aft_entry::Status::Unavailable => {
            format!("{shown} inactive")
        }
    }
}

pub(crate) fn status(result: &AftResult) -> &'static str {
    aft_result::Status::try_from(result.status)
        .expect("known")
        .as_str_name()
}

pub(crate) fn next_hop(index: u64, address: &str, interface: Option<&str>) -> Entry {
    let text = |text: &str| StringValue {
        value: text.to_owned(),
    };
    let interface = interface.map(|name| afts::next_hop::InterfaceRef {
        interface: Some(text(name)),
        subinterface: None,
    });
    let ip_address = Some(address)
        .filter(|address| !address.is_empty())
        .map(text);
    let next_hop = afts::NextHop {
        ip_address,
        interface_ref: interface,
        ..Default::default()
    };
    Entry::NextHop(afts::NextHopKey {
        index,
        next_hop: Some(next_hop),
    })
}

pub(crate) fn group(id: u64, members: &[(u64, u64)]) -> Entry {
    let next_hop = members
        .iter()
        .map(|(index, weight)| afts::next_hop_group::NextHopKey {
            index: *index,
            next_hop: Some(afts::next_hop_group::NextHop {
                weight: Some(UintValue { value: *weight }),
            }),
        });
    let group = afts::NextHopGroup {
        next_hop: next_hop.collect(),
        ..Default::default()
    };
    Entry::NextHopGroup(afts::NextHopGroupKey {
        id,
        next_hop_group: Some(group),
    })
}

/// The group with another one that is used where none of its members is usable.
pub(crate) fn backed(mut entry: Entry, backup: u64) -> Entry {
    if let Entry::NextHopGroup(key) = &mut entry {
        let group = key.next_hop_group.get_or_insert_default();
        group.backup_next_hop_group = Some(UintValue { value: backup });
    }
    entry
}

pub(crate) fn prefix(prefix: &str, group: u64) -> Entry {
    let ipv4_entry = Some(afts::Ipv4Entry {
        next_hop_group: Some(UintValue { value: group }),
        entry_metadata: Some(BytesValue {
            value: METADATA.into(),
        }),
        ..Default::default()
    });
    Entry::Ipv4(afts::Ipv4EntryKey {
        prefix: prefix.to_owned(),
        ipv4_entry,
    })
}

pub(crate) fn prefix6(prefix: &str, group: u64) -> Entry {
    let next_hop_group = Some(UintValue { value: group });
    let ipv6_entry = Some(afts::Ipv6Entry {
        next_hop_group,
        ..Default::default()
    });
    Entry::Ipv6(afts::Ipv6EntryKey {
        prefix: prefix.to_owned(),
        ipv6_entry,
    })
}

/// A policy forwarding entry by destination, and by protocol and source port if they are given.
pub(crate) fn pin(index: u64, destination: &str, port: Option<(u64, u64)>, group: u64) -> Entry {
    let entry = afts::PolicyForwardingEntry {
        ip_prefix: Some(StringValue {
            value: destination.to_owned(),
        }),
        ip_protocol: port.map(|(protocol, _)| IpProtocol::IpProtocolUint64(protocol)),
        l4_src_port: port.map(|(_, value)| UintValue { value }),
        next_hop_group: Some(UintValue { value: group }),
        next_hop_group_network_instance: Some(StringValue {
            value: "DEFAULT".to_owned(),
        }),
        ..Default::default()
    };
    Entry::PolicyForwardingEntry(afts::PolicyForwardingEntryKey {
        index,
        policy_forwarding_entry: Some(entry),
    })
}

/// A policy forwarding entry without a destination.
pub(crate) fn everywhere(index: u64, group: u64) -> Entry {
    let mut entry = pin(index, "", None, group);
    if let Entry::PolicyForwardingEntry(key) = &mut entry
        && let Some(entry) = &mut key.policy_forwarding_entry
    {
        entry.ip_prefix = None;
    }
    entry
}

/// What every IPv4 entry of these tests carries.
pub(crate) const METADATA: &[u8] = b"plan 7";

/// How long a test waits for what need not come.
const PIN_PATIENCE: Duration = Duration::from_secs(2);

/// Far above what an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
