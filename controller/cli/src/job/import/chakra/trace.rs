//! One trace, node by node: octets (messages of `et_def.proto` behind their lengths: GlobalMetadata, then Node after Node), the same as
//! JSON (the objects that chakra_jsonizer writes one behind the other), or JSON with a `workload_graph`. No more than one node is held.

use std::fmt;
use std::io::{BufRead, Read};
use std::path::Path;

use prost::Message;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, de};

use super::{Kind, fault, json_fault, refuse};
use crate::failure::Failure;

/// What of a node says what is moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: Type,
    pub(super) comm_type: Option<u64>,
    pub(super) comm_size: Option<u64>,
    /// `pg_name`, or `comm_group` in older traces.
    pub(super) group: Option<String>,
    pub(super) involved: Vec<bool>,
    pub(super) comm_src: Option<u64>,
    pub(super) comm_dst: Option<u64>,
}

/// Types of nodes that move octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Type {
    Send,
    Receive,
    #[default]
    Collective,
}

/// Gives each node that moves octets to `take`.
pub(super) fn read(
    mut input: impl BufRead,
    file: &Path,
    take: &mut dyn FnMut(Node),
) -> Result<(), Failure> {
    let head = input.fill_buf();
    let head = head.map_err(|error| super::super::unreadable(file, &error))?;
    match head.trim_ascii_start().first() {
        None if head.is_empty() => Err(refuse(file, "empty")),
        Some(b'{' | b'[') => read_json(input, file, take),
        _ => read_octets(input, file, take),
    }
}

/// `ChakraProtoMsg.Node` without what is not read.
#[derive(Clone, PartialEq, Message)]
struct Octets {
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

/// `ChakraProtoMsg.GlobalMetadata`.
#[derive(Clone, PartialEq, Message)]
struct GlobalMetadata {
    #[prost(string, tag = "1")]
    version: String,
}

/// `ChakraProtoMsg.AttributeProto`: one of its values is there.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, optional, tag = "7")]
    int32: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    int64: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    uint32: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    uint64: Option<u64>,
    #[prost(sint32, optional, tag = "15")]
    sint32: Option<i32>,
    #[prost(sint64, optional, tag = "17")]
    sint64: Option<i64>,
    #[prost(fixed32, optional, tag = "19")]
    fixed32: Option<u32>,
    #[prost(fixed64, optional, tag = "21")]
    fixed64: Option<u64>,
    #[prost(sfixed32, optional, tag = "23")]
    sfixed32: Option<i32>,
    #[prost(sfixed64, optional, tag = "25")]
    sfixed64: Option<i64>,
    #[prost(message, optional, tag = "28")]
    bools: Option<Bools>,
    #[prost(string, optional, tag = "29")]
    string: Option<String>,
}

/// `ChakraProtoMsg.BoolList`.
#[derive(Clone, PartialEq, Message)]
struct Bools {
    #[prost(bool, repeated, tag = "1")]
    values: Vec<bool>,
}

fn read_octets(
    input: impl BufRead,
    file: &Path,
    take: &mut dyn FnMut(Node),
) -> Result<(), Failure> {
    let refused = |at: u64, reason: &str| fault(file, &format!("octet {at}"), reason, Kind::Chakra);
    let mut input = Counted { input, at: 0 };
    let (mut octets, mut first) = (Vec::new(), true);
    loop {
        let at = input.at;
        let refuse = |reason: String| refused(at, &reason);
        let Some(length) = input.length().map_err(refuse)? else {
            return Ok(());
        };
        octets.clear();
        input.take(length, &mut octets).map_err(refuse)?;
        let bad = |error: prost::DecodeError| refused(at, &error.to_string());
        if std::mem::take(&mut first) && GlobalMetadata::decode(&*octets).is_ok() {
            continue;
        }
        if let Some(node) = Octets::decode(&*octets).map_err(bad)?.node() {
            take(node);
        }
    }
}

/// Octets, counted.
struct Counted<R> {
    input: R,
    at: u64,
}

impl<R: BufRead> Counted<R> {
    /// A length as protobuf writes it; None: the file ends here.
    fn length(&mut self) -> Result<Option<u64>, String> {
        let mut length = 0_u64;
        for place in 0..LENGTH_OCTETS_MAX {
            let head = self.input.fill_buf().map_err(|error| error.to_string())?;
            let Some(octet) = head.first().copied() else {
                return match place {
                    0 => Ok(None),
                    _ => Err("ends within a length".to_owned()),
                };
            };
            self.input.consume(1);
            self.at += 1;
            length |= u64::from(octet & 0x7f) << (7 * place);
            if octet & 0x80 == 0 {
                return match length {
                    0..=NODE_OCTETS_MAX => Ok(Some(length)),
                    _ => Err(format!(
                        "a node of {length} octets, at most {NODE_OCTETS_MAX}"
                    )),
                };
            }
        }
        Err(format!("a length of more than {LENGTH_OCTETS_MAX} octets"))
    }

    fn take(&mut self, length: u64, octets: &mut Vec<u8>) -> Result<(), String> {
        let read = self.input.by_ref().take(length).read_to_end(octets);
        let read = read.map_err(|error| error.to_string())? as u64;
        self.at += read;
        match read == length {
            true => Ok(()),
            false => Err(format!("ends within a node of {length} octets")),
        }
    }
}

impl Octets {
    fn node(self) -> Option<Node> {
        let mut node = Node {
            kind: Type::of(u64::try_from(self.kind).ok()?)?,
            ..Node::default()
        };
        for attribute in self.attr {
            let number = attribute.number();
            let involved = attribute.bools.map(|it| it.values);
            node.set(&attribute.name, number, attribute.string, involved);
        }
        Some(node)
    }
}

impl Attribute {
    fn number(&self) -> Option<u64> {
        let signed = [self.int64, self.sint64, self.sfixed64];
        let short = [self.int32, self.sint32, self.sfixed32];
        let signed = signed.into_iter().flatten();
        let mut signed = signed.chain(short.into_iter().flatten().map(i64::from));
        let unsigned = [self.uint64, self.fixed64].into_iter().flatten();
        let short = [self.uint32, self.fixed32].into_iter().flatten();
        let mut unsigned = unsigned.chain(short.map(u64::from));
        let signed = signed.next().and_then(|it| u64::try_from(it).ok());
        signed.or_else(|| unsigned.next())
    }
}

impl Type {
    fn of(number: u64) -> Option<Self> {
        match number {
            5 => Some(Self::Send),
            6 => Some(Self::Receive),
            7 => Some(Self::Collective),
            _ => None,
        }
    }
}

impl Node {
    /// Takes an attribute, if it says what is moved.
    fn set(
        &mut self,
        name: &str,
        number: Option<u64>,
        text: Option<String>,
        involved: Option<Vec<bool>>,
    ) {
        match name {
            "comm_type" => self.comm_type = number,
            "comm_size" => self.comm_size = number,
            "comm_src" => self.comm_src = number,
            "comm_dst" => self.comm_dst = number,
            "pg_name" | "comm_group" => {
                let text = text.or_else(|| number.map(|it| it.to_string()));
                self.group = text
                    .filter(|it| !it.is_empty())
                    .or_else(|| self.group.take());
            }
            "involved_dim" => self.involved = involved.unwrap_or_default(),
            _ => {}
        }
    }
}

fn read_json(input: impl BufRead, file: &Path, take: &mut dyn FnMut(Node)) -> Result<(), Failure> {
    let mut objects = serde_json::Deserializer::from_reader(input).into_iter::<Object>();
    let mut known = false;
    loop {
        let object = match objects.next() {
            None if known => return Ok(()),
            None => {
                let reason = "no node and no version";
                return Err(fault(file, "1:1", reason, Kind::Chakra));
            }
            Some(object) => object.map_err(|error| {
                let (place, reason) = json_fault(&error);
                fault(file, &place, &reason, Kind::Chakra)
            })?,
        };
        known |= object.kind.is_some() || object.version.is_some();
        if let Some(graph) = object.workload_graph {
            known = true;
            graph.0.into_iter().for_each(&mut *take);
            continue;
        }
        if let Some(node) = object.node() {
            take(node);
        }
    }
}

/// An object of a trace in JSON: GlobalMetadata, Node, or all nodes.
#[derive(Deserialize)]
struct Object {
    version: Option<de::IgnoredAny>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    attr: Vec<JsonAttribute>,
    workload_graph: Option<Graph>,
}

/// An attribute as the canonical JSON of protobuf has it: 64 bits are text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonAttribute {
    #[serde(default)]
    name: String,
    #[serde(
        default,
        alias = "int32Val",
        alias = "uint32Val",
        alias = "uint64Val",
        alias = "sint32Val",
        alias = "sint64Val",
        alias = "fixed32Val",
        alias = "fixed64Val",
        alias = "sfixed32Val",
        alias = "sfixed64Val"
    )]
    int64_val: Option<Number>,
    string_val: Option<String>,
    bool_list: Option<JsonBools>,
}

#[derive(Deserialize)]
struct JsonBools {
    #[serde(default)]
    values: Vec<bool>,
}

/// A number, as such or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(i64),
    Text(String),
}

impl Number {
    fn value(&self) -> Option<u64> {
        match self {
            Self::Number(number) => u64::try_from(*number).ok(),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

impl Object {
    fn node(self) -> Option<Node> {
        let kind = match self.kind.as_deref() {
            Some("COMM_SEND_NODE") => Type::Send,
            Some("COMM_RECV_NODE") => Type::Receive,
            Some("COMM_COLL_NODE") => Type::Collective,
            _ => return None,
        };
        let mut node = Node {
            kind,
            ..Node::default()
        };
        for attribute in self.attr {
            let number = attribute.int64_val.as_ref().and_then(Number::value);
            let involved = attribute.bool_list.map(|it| it.values);
            node.set(&attribute.name, number, attribute.string_val, involved);
        }
        Some(node)
    }
}

/// The nodes of a `workload_graph` that move octets.
struct Graph(Vec<Node>);

/// One of its nodes, with its attributes beside its name.
#[derive(Deserialize)]
struct Flat {
    #[serde(rename = "NodeType")]
    kind: u64,
    comm_type: Option<u64>,
    comm_size: Option<u64>,
    comm_src: Option<u64>,
    comm_dst: Option<u64>,
    pg_name: Option<String>,
    #[serde(default)]
    involved_dim: Vec<bool>,
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Nodes)
    }
}

/// Reads nodes one by one, and keeps what moves octets.
struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Graph;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<Graph, A::Error> {
        let mut kept = Vec::new();
        while let Some(node) = nodes.next_element::<Flat>()? {
            let Some(kind) = Type::of(node.kind) else {
                continue;
            };
            kept.push(Node {
                kind,
                comm_type: node.comm_type,
                comm_size: node.comm_size,
                group: node.pg_name.filter(|it| !it.is_empty()),
                involved: node.involved_dim,
                comm_src: node.comm_src,
                comm_dst: node.comm_dst,
            });
        }
        Ok(Graph(kept))
    }
}

/// A length has at most 10 octets.
const LENGTH_OCTETS_MAX: u32 = 10;
/// A node has a few kB; what is longer is no trace.
const NODE_OCTETS_MAX: u64 = 16 << 20;
