//! What a request of HTTP asks of a call: fields of its path, of its query, and its body, as one message.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value};
use tonic::Status;

use super::super::refusal;
use super::route::{Route, decoded};

/// The message that a request means.
///
/// # Errors
/// INVALID_ARGUMENT with the field at fault.
pub(super) fn read(
    route: &Route,
    path_fields: &[(&str, String)],
    query: &str,
    body: &[u8],
) -> Result<DynamicMessage, Status> {
    let kind = route.method.input();
    if path_fields.is_empty() && query.is_empty() && route.body == "*" && !body.is_empty() {
        // A whole fabric is not written into a tree first.
        let mut text = serde_json::Deserializer::from_slice(body);
        let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(true);
        let read = DynamicMessage::deserialize_with_options(kind, &mut text, &options);
        let read = read.and_then(|message| text.end().map(|()| message));
        return read.map_err(|error| not_read(&error));
    }
    let mut request = match (route.body.as_str(), body.is_empty()) {
        ("", false) => return Err(refusal::field("body", "this call takes none")),
        ("" | "*", true) => Map::new(),
        ("*", false) => object(body)?,
        (field, false) => Map::from_iter([(field.to_owned(), Value::Object(object(body)?))]),
        (field, true) => return Err(refusal::field(field, "the body is empty")),
    };
    for (name, text) in query_fields(query)? {
        if route.body == "*" || route.path_fields().any(|it| it == name) {
            return Err(unknown(&name));
        }
        let in_body = name.split('.').next() == Some(route.body.as_str());
        if in_body && !route.body.is_empty() {
            return Err(unknown(&name));
        }
        put(&mut request, &kind, &name, &text, Origin::Query)?;
    }
    for (name, text) in path_fields {
        put(&mut request, &kind, name, text, Origin::Path)?;
    }
    weft_proto::json::read(kind, Value::Object(request)).map_err(|error| not_read(&error))
}

/// Whether a request may have a body.
pub(super) fn takes_body(route: &Route) -> bool {
    !route.body.is_empty()
}

/// The first message, and those that follow it where the call takes a stream: lists divided, so that none is too long.
pub(super) fn parts(method: &MethodDescriptor, message: DynamicMessage) -> Vec<DynamicMessage> {
    if !method.is_client_streaming() {
        return vec![message];
    }
    let kind = method.input();
    let mut first = message;
    let mut parts = Vec::new();
    for field in kind.fields().filter(FieldDescriptor::is_list) {
        let value = first.get_field(&field).into_owned();
        first.clear_field(&field);
        let prost_reflect::Value::List(list) = value else {
            continue;
        };
        for some in list.chunks(PART_ITEMS) {
            let mut part = DynamicMessage::new(kind.clone());
            part.set_field(&field, prost_reflect::Value::List(some.to_vec()));
            parts.push(part);
        }
    }
    parts.insert(0, first);
    parts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Path,
    Query,
}

/// Puts the value of a field that stands in a path or a query.
fn put(
    request: &mut Map<String, Value>,
    kind: &MessageDescriptor,
    name: &str,
    text: &str,
    origin: Origin,
) -> Result<(), Status> {
    let (mut here, mut kind) = (request, kind.clone());
    let mut steps = name.split('.').peekable();
    while let Some(step) = steps.next() {
        let field = kind.get_field_by_name(step).ok_or_else(|| unknown(name))?;
        if steps.peek().is_none() {
            return put_value(here, &field, name, text, origin);
        }
        let Kind::Message(inner) = field.kind() else {
            return Err(unknown(name));
        };
        if field.is_list() || field.is_map() || well_known(&inner) {
            return Err(unknown(name));
        }
        let place = here
            .entry(step)
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(place) = place else {
            return Err(refusal::field(name, "its message is no object"));
        };
        (here, kind) = (place, inner);
    }
    Err(unknown(name))
}

fn put_value(
    here: &mut Map<String, Value>,
    field: &FieldDescriptor,
    name: &str,
    text: &str,
    origin: Origin,
) -> Result<(), Status> {
    if field.is_map() {
        return Err(unknown(name));
    }
    let value = scalar(field, name, text)?;
    let key = field.name().to_owned();
    if field.is_list() {
        let list = here.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(value);
        }
        return Ok(());
    }
    match here.insert(key, value.clone()) {
        // The path says which; a body may repeat it, and say nothing else.
        Some(other) if origin == Origin::Path && other == value => Ok(()),
        Some(Value::String(other)) if origin == Origin::Path && other.is_empty() => Ok(()),
        Some(_) if origin == Origin::Path => {
            Err(refusal::field(name, "the path and the body differ"))
        }
        Some(_) => Err(refusal::field(name, "it is there twice")),
        None => Ok(()),
    }
}

/// The text of a value as JSON has it.
fn scalar(field: &FieldDescriptor, name: &str, text: &str) -> Result<Value, Status> {
    let bad = |what: &str| {
        let text: String = text.chars().take(SHOWN).collect();
        refusal::field(name, format_args!("{text:?} is not {what}"))
    };
    Ok(match field.kind() {
        Kind::String => Value::from(text),
        Kind::Bool => Value::from(text.parse::<bool>().map_err(|_| bad("true or false"))?),
        Kind::Uint32 | Kind::Fixed32 => Value::from(
            text.parse::<u32>()
                .map_err(|_| bad("a number below 2^32"))?,
        ),
        Kind::Uint64 | Kind::Fixed64 => Value::from(
            text.parse::<u64>()
                .map_err(|_| bad("a number below 2^64"))?,
        ),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::from(
            text.parse::<i32>()
                .map_err(|_| bad("a number of 32 bits"))?,
        ),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::from(
            text.parse::<i64>()
                .map_err(|_| bad("a number of 64 bits"))?,
        ),
        Kind::Enum(kind) => match text.parse::<i32>() {
            Ok(number) => Value::from(number),
            Err(_) if kind.get_value_by_name(text).is_some() => Value::from(text),
            Err(_) => return Err(bad(&format!("a value of {}", kind.name()))),
        },
        Kind::Message(kind) if kind.full_name() == "google.protobuf.FieldMask" => {
            Value::from(camel_case(text))
        }
        Kind::Message(kind) if well_known(&kind) => Value::from(text),
        // There, and empty: "peers" alone asks for all peers.
        Kind::Message(_) if text.is_empty() => Value::Object(Map::new()),
        Kind::Message(_) | Kind::Bytes | Kind::Double | Kind::Float => {
            return Err(unknown(name));
        }
    })
}

/// A message that JSON has as a text.
pub(super) fn well_known(kind: &MessageDescriptor) -> bool {
    matches!(
        kind.full_name(),
        "google.protobuf.Timestamp" | "google.protobuf.Duration" | "google.protobuf.FieldMask"
    )
}

/// Paths of a mask as JSON has them; fields of messages are called by their names in the contract everywhere else.
fn camel_case(paths: &str) -> String {
    let mut written = String::with_capacity(paths.len());
    let mut letters = paths.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some(next) if letter == '_' && next.is_ascii_lowercase() => {
                written.push(next.to_ascii_uppercase());
                letters.next();
            }
            _ => written.push(letter),
        }
    }
    written
}

/// Names and values of a query.
fn query_fields(query: &str) -> Result<Vec<(String, String)>, Status> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |it: &str| decoded(&it.replace('+', " "));
        let pair = text(name).zip(text(value));
        pair.ok_or_else(|| refusal::field("query", "an escape in it is no text"))
    });
    pairs.collect()
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Status> {
    serde_json::from_slice(body).map_err(|error| not_read(&error))
}

fn unknown(name: &str) -> Status {
    let name: String = name.chars().take(SHOWN).collect();
    refusal::field(&name, "this call has no such parameter")
}

/// What cannot be read, with the field that the reason names between quotes.
fn not_read(error: &serde_json::Error) -> Status {
    let reason: String = error.to_string().chars().take(LONGEST_REASON).collect();
    let named = reason
        .split('\'')
        .nth(1)
        .or_else(|| reason.split('`').nth(1));
    let field = named.unwrap_or("body").to_owned();
    refusal::field(&field, reason)
}

/// Some hundred octets each: well below the longest message that the API takes.
const PART_ITEMS: usize = 2_000;
/// Letters of a foreign text that a refusal repeats.
const SHOWN: usize = 64;
const LONGEST_REASON: usize = 300;
