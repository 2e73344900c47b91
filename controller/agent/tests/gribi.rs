//! gRIBI as its specification and compliance suite have it: tables, run against the agent alone and
//! against the agent behind gRPC streams. The forwarding plane is recorded. `gribi/table.py` runs the
//! same tables against the program, on a kernel, from another gRPC stack.

#[path = "client/session.rs"]
mod session;
#[path = "gribi/table.rs"]
mod table;
#[path = "gribi/target.rs"]
mod target;

use std::collections::{BTreeMap, BTreeSet};

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
use weft_proto::gribi_aft::afts::label_entry_key::Label;
use weft_proto::gribi_aft::afts::next_hop::PushedMplsLabelStackUnion;
use weft_proto::ywrapper::{BytesValue, StringValue, UintValue};

use self::table::{cases, compliance};
use self::target::{BASE, Target};

/// Of openconfig/gribigo, `TestSuite` in compliance/compliance.go.
const SUITE: usize = 78;

#[test]
fn every_case_of_the_compliance_suite_has_a_row() {
    assert_eq!(compliance().len(), SUITE);
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "each name once");
    let silent = cases.iter().find(|case| case.lines.is_empty());
    assert!(silent.is_none_or(|case| panic!("{} says nothing", case.name)));
}

#[tokio::test]
async fn the_agent_alone_passes_the_table() {
    let mut failures = Vec::new();
    for case in cases() {
        let mut run = Run::of(case.name, Target::core());
        failures.extend(run.script(&case.lines).await.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn the_agent_behind_streams_passes_the_table() {
    let mut failures = Vec::new();
    for case in cases() {
        let mut run = Run::of(case.name, Target::streams().await);
        failures.extend(run.script(&case.lines).await.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn ten_thousand_operations_in_one_request_are_all_answered() {
    let mut run = Run::of("many", Target::streams().await);
    run.script(&["a two"]).await.expect("two paths");
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

    /// The first line that is answered otherwise, as the error.
    async fn script(&mut self, lines: &[&str]) -> Result<(), String> {
        for line in lines {
            let (said, expected) = line.split_once("=>").unwrap_or((line, "ok"));
            let words: Vec<&str> = said.split_whitespace().collect();
            let answer = self.say(&words).await;
            let expected = expected.trim();
            let matches = answer == expected
                || (!expected.contains(' ') && answer.split(' ').next() == Some(expected))
                || answer.split(" ; ").map(first).eq(expected.split(" ; "));
            if !matches {
                return Err(format!("{}: {line}\nanswered: {answer}", self.name));
            }
        }
        Ok(())
    }

    async fn say(&mut self, words: &[&str]) -> String {
        match words {
            ["get", instance, table] => match self.get(instance, table).await {
                Ok(entries) => entries.join(" ; "),
                Err(status) => error(&status),
            },
            ["count", instance, table] => match self.get(instance, table).await {
                Ok(entries) => entries.len().to_string(),
                Err(status) => error(&status),
            },
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
            ["open"] => {
                self.target.open(client).await;
                "ok".into()
            }
            ["close"] => self.target.close(client).await,
            ["params", redundancy, persistence, ack_type] => {
                let params = Some(params(redundancy, persistence, ack_type));
                let request = ModifyRequest {
                    params,
                    ..Default::default()
                };
                self.ask(client, request).await
            }
            ["elect", id] => {
                let low = id.parse().expect("an id");
                let election_id = Some(Uint128 { high: 0, low });
                let request = ModifyRequest {
                    election_id,
                    ..Default::default()
                };
                let answer = self.ask(client, request).await;
                self.elections.insert(client, low);
                answer
            }
            ["primary", id, ack @ ..] => self.primary(client, id, ack).await,
            ["two", ack @ ..] => self.two(client, ack).await,
            ["request", fields @ ..] => self.ask(client, self.request(client, fields)).await,
            ["fill", count] => self.fill(client, count).await,
            ["batch", words @ ..] => self.operate(client, words.split(|word| *word == ";")).await,
            words => self.operate(client, std::iter::once(words)).await,
        }
    }

    async fn primary(&mut self, client: Client, id: &str, ack: &[&str]) -> String {
        let ack_type = if ack == ["rib"] { "0" } else { "1" };
        let first = Box::pin(self.client(client, &["params", "1", "1", ack_type])).await;
        assert_eq!(first, "ok", "{}", self.name);
        let second = Box::pin(self.client(client, &["elect", id])).await;
        assert_eq!(second, id, "{}", self.name);
        "ok".into()
    }

    /// Two paths, 3:1.
    async fn two(&mut self, client: Client, ack: &[&str]) -> String {
        self.primary(client, "1", ack).await;
        let expected = match ack {
            ["rib"] => "RIB_PROGRAMMED",
            _ => "FIB_PROGRAMMED",
        };
        for line in TWO {
            let words: Vec<&str> = line.split_whitespace().collect();
            let answer = Box::pin(self.client(client, &words)).await;
            assert_eq!(answer, expected, "{}: {line}", self.name);
        }
        "ok".into()
    }

    /// One request with these fields.
    fn request(&self, client: Client, fields: &[&str]) -> ModifyRequest {
        let has = |field: &str| fields.contains(&field);
        let election = self.elections.get(&client).copied().unwrap_or(1);
        let add = || operation(&["add", "nh", "1", "192.0.2.2"], election, 1);
        ModifyRequest {
            params: has("params").then(|| params("1", "1", "1")),
            election_id: has("election").then_some(Uint128 {
                high: 0,
                low: election,
            }),
            operation: has("operation").then(add).into_iter().collect(),
        }
    }

    /// So many next hops, one in a request.
    async fn fill(&mut self, client: Client, count: &str) -> String {
        let mut answers: BTreeMap<String, u32> = BTreeMap::new();
        for index in 1..=count.parse::<u32>().expect("a count") {
            let (index, address) = (index.to_string(), format!("192.0.2.{}", 2 + index % 250));
            let words = ["add", "nh", &index, &address];
            let answer = Box::pin(self.client(client, &words)).await;
            *answers.entry(answer).or_default() += 1;
        }
        let answers = answers.into_iter();
        let shown = answers.map(|(answer, count)| format!("{count} {answer}"));
        shown.collect::<Vec<_>>().join(" ; ")
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
        let asked: Vec<u64> = request.operation.iter().map(|it| it.id).collect();
        match self.target.modify(client, request).await {
            Ok(responses) => {
                let results = responses.iter().flat_map(|response| &response.result);
                let answered: Vec<u64> = results.map(|result| result.id).collect();
                assert_eq!(answered, asked, "{}: one result each", self.name);
                let shown = responses.iter().map(response);
                shown.collect::<Vec<_>>().join(" ; ")
            }
            Err(status) => error(&status),
        }
    }

    async fn get(&mut self, instance: &str, table: &str) -> Result<Vec<String>, Status> {
        let network_instance = match instance.strip_prefix("name=") {
            Some(name) => Some(get_request::NetworkInstance::Name(name.to_owned())),
            None if instance == "all" => Some(get_request::NetworkInstance::All(Empty {})),
            None => None,
        };
        let aft = AftType::from_str_name(table).expect("a table").into();
        let request = GetRequest {
            network_instance,
            aft,
        };
        let entries = self.target.get(request).await?;
        Ok(entries.into_iter().map(entry).collect())
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

const TWO: &[&str] = &[
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

/// The value of an option, `name=value`.
fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let mut options = options.iter();
    options.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// A verb, an entry, and options.
fn operation(words: &[&str], election: u64, id: u64) -> AftOperation {
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.iter().copied().partition(|word| word.contains('='));
    let low = match option(&options, "id") {
        Some("none") => None,
        Some(id) => Some(id.parse().expect("an id")),
        None => Some(election),
    };
    let (verb, words) = words.split_first().expect("a verb");
    let op = match *verb {
        "add" => Operation::Add,
        "replace" => Operation::Replace,
        "delete" => Operation::Delete,
        "invalid" => Operation::Invalid,
        verb => panic!("{verb} is no verb"),
    };
    AftOperation {
        id,
        network_instance: option(&options, "ni").unwrap_or("DEFAULT").to_owned(),
        op: op.into(),
        election_id: low.map(|low| Uint128 { high: 0, low }),
        entry: said_entry(words, &options),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// What is given: "-" is not.
fn given<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.first().copied().filter(|word| *word != "-")
}

fn said_entry(words: &[&str], options: &[&str]) -> Option<Entry> {
    Some(match words {
        ["nothing"] => return None,
        ["nh", index, rest @ ..] => {
            let interface = rest.get(1).copied();
            let mut entry =
                session::next_hop(number(index), given(rest).unwrap_or_default(), interface);
            if let (Entry::NextHop(key), Some(label)) = (&mut entry, option(options, "labels")) {
                let next_hop = key.next_hop.get_or_insert_default();
                let label = PushedMplsLabelStackUnion {
                    pushed_mpls_label_stack_uint64: number(label),
                    ..Default::default()
                };
                next_hop.pushed_mpls_label_stack.push(label);
            }
            entry
        }
        ["nhg", id, members @ ..] => {
            let member = |member: &&str| {
                let (index, weight) = member.split_once(':').expect("index:weight");
                (number(index), number(weight))
            };
            let members = members.iter().map(member).collect::<Vec<_>>();
            let entry = session::group(number(id), &members);
            match option(options, "backup") {
                Some(backup) => session::backed(entry, number(backup)),
                None => entry,
            }
        }
        ["pfe", index, "-", group] => session::everywhere(number(index), number(group)),
        ["pfe", index, destination, group] => {
            session::pin(number(index), destination, None, number(group))
        }
        ["mpls", label, rest @ ..] => Entry::Mpls(afts::LabelEntryKey {
            label: Some(Label::LabelUint64(number(label))),
            label_entry: Some(afts::LabelEntry {
                next_hop_group: group_of(rest),
            }),
        }),
        [prefix, rest @ ..] => route(prefix, rest, options),
        [] => return None,
    })
}

fn group_of(words: &[&str]) -> Option<UintValue> {
    given(words).map(|group| UintValue {
        value: number(group),
    })
}

fn route(prefix: &str, words: &[&str], options: &[&str]) -> Entry {
    let next_hop_group = group_of(words);
    let entry_metadata = option(options, "meta").map(|text| BytesValue {
        value: text.to_owned().into(),
    });
    let next_hop_group_network_instance = option(options, "gni").map(|name| StringValue {
        value: name.to_owned(),
    });
    let prefix = prefix.to_owned();
    if prefix.contains(':') {
        let ipv6_entry = Some(afts::Ipv6Entry {
            next_hop_group,
            entry_metadata,
            next_hop_group_network_instance,
            ..Default::default()
        });
        return Entry::Ipv6(afts::Ipv6EntryKey { prefix, ipv6_entry });
    }
    let ipv4_entry = Some(afts::Ipv4Entry {
        next_hop_group,
        entry_metadata,
        next_hop_group_network_instance,
        ..Default::default()
    });
    Entry::Ipv4(afts::Ipv4EntryKey { prefix, ipv4_entry })
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
        Some(aft_entry::Entry::Ipv4(key)) => key.ipv4_entry.clone().unwrap_or_default(),
        Some(aft_entry::Entry::Ipv6(key)) => {
            let entry = key.ipv6_entry.clone().unwrap_or_default();
            afts::Ipv4Entry {
                entry_metadata: entry.entry_metadata,
                ..Default::default()
            }
        }
        Some(_) | None => afts::Ipv4Entry::default(),
    };
    let metadata = metadata.entry_metadata;
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
