//! gRIBI as its specification and compliance suite have it: one table, run against the agent alone
//! and against the agent behind gRPC streams. The forwarding plane is recorded.

#[path = "gribi/cases.rs"]
mod cases;
#[path = "client/session.rs"]
mod session;
#[path = "gribi/target.rs"]
mod target;

use std::collections::BTreeMap;

use prost::Message;
use tonic::Status;
use weft_agent::election::Client;
use weft_agent::entry::Key;
use weft_agent::fib::Ids;
use weft_proto::google::rpc;
use weft_proto::gribi::aft_operation::{Entry, Operation};
use weft_proto::gribi::{
    AftEntry, AftOperation, AftType, Empty, FlushRequest, FlushResponseError, GetRequest,
    ModifyRequest, ModifyResponse, ModifyRpcErrorDetails, SessionParameters, Uint128, aft_entry,
    flush_request, get_request,
};
use weft_proto::gribi_aft::afts;
use weft_proto::ywrapper::{BytesValue, UintValue};

use self::cases::CASES;
use self::target::{BASE, Target};

#[tokio::test]
async fn the_agent_alone_passes_the_table() {
    for (name, script) in CASES {
        Run::of(name, Target::core()).script(script).await;
    }
}

#[tokio::test]
async fn the_agent_behind_streams_passes_the_table() {
    for (name, script) in CASES {
        Run::of(name, Target::streams().await).script(script).await;
    }
}

#[tokio::test]
async fn ten_thousand_operations_in_one_request_are_all_answered() {
    let mut run = Run::of("many", Target::streams().await);
    run.script("a two").await;
    let operation = (0..10_000_u32).map(|n| {
        let prefix = format!("10.{}.{}.0/24", n >> 8, n & 0xff);
        operation(&["add", &prefix, "1"], 1, u64::from(n))
    });
    let request = ModifyRequest {
        operation: operation.collect(),
        ..Default::default()
    };
    let responses = run
        .target
        .modify(Client(u64::from(b'a')), request)
        .await
        .expect("answered");
    let results = responses.into_iter().flat_map(|response| response.result);
    let programmed = results.filter(|result| session::status(result) == "FIB_PROGRAMMED");
    assert_eq!(programmed.count(), 10_000);
    assert_eq!(run.target.recorded().installed().routes.len(), 10_001);
}

struct Run {
    name: &'static str,
    target: Target,
    elections: BTreeMap<Client, u64>,
}

impl Run {
    fn of(name: &'static str, target: Target) -> Self {
        Self {
            name,
            target,
            elections: BTreeMap::new(),
        }
    }

    async fn script(&mut self, script: &str) {
        for line in script.lines() {
            let (said, expected) = line.split_once("=>").unwrap_or((line, "ok"));
            let words: Vec<&str> = said.split_whitespace().collect();
            let answer = self.say(&words).await;
            let expected = expected.trim();
            let matches = answer == expected
                || (!expected.contains(' ') && answer.split(' ').next() == Some(expected))
                || answer.split(" ; ").map(first).eq(expected.split(" ; "));
            assert!(matches, "{}: {line}\nanswered: {answer}", self.name);
        }
    }

    async fn say(&mut self, words: &[&str]) -> String {
        match words {
            ["get", instance, table] => self.get(instance, table).await,
            ["flush", election, instance] => self.flush(election, instance).await,
            ["kernel"] => self.kernel(),
            ["refuse", why @ ..] => self.refuse(Some(&why.join(" "))),
            ["accept"] => self.refuse(None),
            ["look"] => self.turn("up1", true).await,
            ["down", link] => self.turn(link, false).await,
            ["up", link] => self.turn(link, true).await,
            [client, rest @ ..] => {
                let client = Client(client.bytes().next().map_or(0, u64::from));
                self.client(client, rest).await
            }
            [] => "ok".into(),
        }
    }

    fn refuse(&self, why: Option<&str>) -> String {
        self.target.recorded().refuse(why);
        "ok".into()
    }

    async fn turn(&mut self, link: &str, up: bool) -> String {
        self.target.turn(link, up).await;
        "ok".into()
    }

    async fn client(&mut self, client: Client, words: &[&str]) -> String {
        match words {
            ["params", redundancy, persistence, ack_type] => {
                let params = Some(params(redundancy, persistence, ack_type));
                self.ask(
                    client,
                    ModifyRequest {
                        params,
                        ..Default::default()
                    },
                )
                .await
            }
            ["elect", id] => {
                let low = id.parse().expect("an id");
                self.elections.insert(client, low);
                let election_id = Some(Uint128 { high: 0, low });
                self.ask(
                    client,
                    ModifyRequest {
                        election_id,
                        ..Default::default()
                    },
                )
                .await
            }
            ["primary", id] => {
                let first = Box::pin(self.client(client, &["params", "1", "1", "1"])).await;
                assert_eq!(first, "ok");
                assert_eq!(Box::pin(self.client(client, &["elect", id])).await, **id);
                "ok".into()
            }
            ["two"] => {
                for line in TWO {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    let answer = Box::pin(self.client(client, &words)).await;
                    assert!(
                        answer == "ok" || answer == "FIB_PROGRAMMED",
                        "{line}: {answer}"
                    );
                }
                "ok".into()
            }
            ["mixed"] => {
                let params = Some(params("1", "1", "1"));
                let election_id = Some(Uint128 { high: 0, low: 1 });
                self.ask(
                    client,
                    ModifyRequest {
                        params,
                        election_id,
                        ..Default::default()
                    },
                )
                .await
            }
            ["empty"] => self.ask(client, ModifyRequest::default()).await,
            ["close"] => {
                self.target.close(client).await;
                "ok".into()
            }
            ["batch", words @ ..] => self.operate(client, words.split(|word| *word == ";")).await,
            words => self.operate(client, std::iter::once(words)).await,
        }
    }

    async fn operate<'a>(
        &mut self,
        client: Client,
        said: impl Iterator<Item = &'a [&'a str]>,
    ) -> String {
        let election = self.elections.get(&client).copied().unwrap_or_default();
        let operation = said
            .zip(1..)
            .map(|(words, id)| operation(words, election, id))
            .collect();
        self.ask(
            client,
            ModifyRequest {
                operation,
                ..Default::default()
            },
        )
        .await
    }

    async fn ask(&mut self, client: Client, request: ModifyRequest) -> String {
        match self.target.modify(client, request).await {
            Ok(responses) => responses
                .iter()
                .map(response)
                .collect::<Vec<_>>()
                .join(" ; "),
            Err(status) => error(&status),
        }
    }

    async fn get(&mut self, instance: &str, table: &str) -> String {
        let network_instance = match instance.strip_prefix("name=") {
            Some(name) => Some(get_request::NetworkInstance::Name(name.to_owned())),
            None if instance == "all" => Some(get_request::NetworkInstance::All(Empty {})),
            None => None,
        };
        let aft = AftType::from_str_name(table).expect("a table").into();
        match self
            .target
            .get(GetRequest {
                network_instance,
                aft,
            })
            .await
        {
            Ok(entries) => entries
                .into_iter()
                .map(entry)
                .collect::<Vec<_>>()
                .join(" ; "),
            Err(status) => error(&status),
        }
    }

    async fn flush(&mut self, election: &str, instance: &str) -> String {
        let election = match election.strip_prefix("id=") {
            Some(id) => {
                let low = id.parse().expect("an id");
                Some(flush_request::Election::Id(Uint128 { high: 0, low }))
            }
            None if election == "override" => Some(flush_request::Election::Override(Empty {})),
            None => None,
        };
        let network_instance = match instance.strip_prefix("name=") {
            Some(name) => Some(flush_request::NetworkInstance::Name(name.to_owned())),
            None if instance == "all" => Some(flush_request::NetworkInstance::All(Empty {})),
            None => None,
        };
        match self
            .target
            .flush(FlushRequest {
                election,
                network_instance,
            })
            .await
        {
            Ok(response) => response.result().as_str_name().to_owned(),
            Err(status) => error(&status),
        }
    }

    fn kernel(&self) -> String {
        let ids = Ids::new(BASE).expect("a range");
        let number = |id: &u32| match ids.key(*id) {
            Some(Key::NextHop(number) | Key::Group(number)) => number,
            Some(Key::Prefix(_) | Key::Policy(_)) | None => 0,
        };
        let installed = self.target.recorded().installed();
        let mut shown = Vec::new();
        for (id, path) in &installed.next_hops {
            let gateway = path
                .gateway
                .map_or(String::new(), |gateway| gateway.to_string());
            shown.push(format!("nh {} {gateway}", number(id)));
        }
        for (id, members) in &installed.groups {
            let members = members.iter();
            let members =
                members.map(|member| format!(" {}:{}", number(&member.next_hop), member.weight));
            shown.push(format!("nhg {}{}", number(id), members.collect::<String>()));
        }
        for (prefix, group) in &installed.routes {
            shown.push(format!("{prefix} {}", number(group)));
        }
        shown.join(" ; ")
    }
}

/// Two paths, 3:1.
const TWO: &[&str] = &[
    "primary 1",
    "add nh 1 192.0.2.2",
    "add nh 2 198.51.100.2",
    "add nhg 1 1:3 2:1",
    "add 203.0.113.0/24 1",
];

fn params(redundancy: &str, persistence: &str, ack_type: &str) -> SessionParameters {
    let number = |text: &str| text.parse().expect("a number");
    SessionParameters {
        redundancy: number(redundancy),
        persistence: number(persistence),
        ack_type: number(ack_type),
    }
}

/// `add nh 1 192.0.2.2 up1`, `add nhg 1 1:3 2:1`, `add 203.0.113.0/24 1`, `add pfe 1 10.0.0.1/32 1`, then `id=`, `ni=`, `meta=`.
fn operation(words: &[&str], election: u64, id: u64) -> AftOperation {
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.iter().copied().partition(|word| word.contains('='));
    let option = |name: &str| {
        options
            .iter()
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let low = match option("id") {
        Some("none") => None,
        Some(id) => Some(id.parse().expect("an id")),
        None => Some(election),
    };
    let (verb, words) = words.split_first().expect("a verb");
    let op = match *verb {
        "add" => Operation::Add,
        "replace" => Operation::Replace,
        "delete" => Operation::Delete,
        _ => Operation::Invalid,
    };
    AftOperation {
        id,
        network_instance: option("ni").unwrap_or("DEFAULT").to_owned(),
        op: op.into(),
        election_id: low.map(|low| Uint128 { high: 0, low }),
        entry: said_entry(words, option("meta")),
    }
}

fn said_entry(words: &[&str], metadata: Option<&str>) -> Option<Entry> {
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let group = |words: &[&str]| {
        let group = words.first().filter(|group| **group != "-")?;
        Some(UintValue {
            value: number(group),
        })
    };
    Some(match words {
        ["nothing"] => return None,
        ["nh", index, rest @ ..] => {
            let address = rest
                .first()
                .filter(|address| **address != "-")
                .copied()
                .unwrap_or_default();
            session::next_hop(number(index), address, rest.get(1).copied())
        }
        ["nhg", id, members @ ..] => {
            let member = |member: &&str| {
                let (index, weight) = member.split_once(':').expect("index:weight");
                (number(index), number(weight))
            };
            session::group(number(id), &members.iter().map(member).collect::<Vec<_>>())
        }
        ["pfe", index, destination, group] => {
            session::pin(number(index), destination, None, number(group))
        }
        [prefix, rest @ ..] if prefix.contains(':') => {
            let ipv6_entry = Some(afts::Ipv6Entry {
                next_hop_group: group(rest),
                ..Default::default()
            });
            Entry::Ipv6(afts::Ipv6EntryKey {
                prefix: (*prefix).to_owned(),
                ipv6_entry,
            })
        }
        [prefix, rest @ ..] => {
            let entry_metadata = metadata.map(|text| BytesValue {
                value: text.to_owned().into(),
            });
            let next_hop_group = group(rest);
            let entry = afts::Ipv4Entry {
                next_hop_group,
                entry_metadata,
                ..Default::default()
            };
            Entry::Ipv4(afts::Ipv4EntryKey {
                prefix: (*prefix).to_owned(),
                ipv4_entry: Some(entry),
            })
        }
        [] => return None,
    })
}

fn response(response: &ModifyResponse) -> String {
    if let Some(id) = &response.election_id {
        return id.low.to_string();
    }
    if response.session_params_result.is_some() {
        return "ok".into();
    }
    let results = response.result.iter().map(|result| {
        let details = result
            .error_details
            .clone()
            .unwrap_or_default()
            .error_message;
        format!("{} {details}", session::status(result))
            .trim_end()
            .to_owned()
    });
    results.collect::<Vec<_>>().join(" ; ")
}

fn entry(entry: AftEntry) -> String {
    let metadata = match &entry.entry {
        Some(aft_entry::Entry::Ipv4(key)) => key.ipv4_entry.as_ref(),
        Some(_) | None => None,
    };
    let metadata = metadata.and_then(|entry| entry.entry_metadata.clone());
    let shown = session::show(entry);
    match metadata {
        Some(metadata) => format!("{shown} {}", String::from_utf8_lossy(&metadata.value)),
        None => shown,
    }
}

/// `Code`, or `Code/REASON` when the details have one.
fn error(status: &Status) -> String {
    let details = rpc::Status::decode(status.details()).expect("details");
    let reason = details
        .details
        .first()
        .map(|any| match any.type_url.rsplit('/').next() {
            Some("gribi.ModifyRPCErrorDetails") => {
                let details = ModifyRpcErrorDetails::decode(any.value.as_slice()).expect("details");
                details.reason().as_str_name()
            }
            Some("gribi.FlushResponseError") => {
                let details = FlushResponseError::decode(any.value.as_slice()).expect("details");
                details.status().as_str_name()
            }
            Some(_) | None => "?",
        });
    let code = status.code();
    reason.map_or_else(
        || format!("{code:?}"),
        |reason| format!("{code:?}/{reason}"),
    )
}

fn first(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}
