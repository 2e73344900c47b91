//! What a request of HTTP asks of a call: fields of its path, of its query, and its body, as one message.

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value};
use tonic::Status;

use super::super::refusal;
use super::check;
use super::route::{Route, decoded};
use crate::fabric::fact::{FieldFault, InvalidFabric};

/// The message that a request means.
///
/// # Errors
/// INVALID_ARGUMENT with every field at fault.
pub(super) fn read(
    route: &Route,
    path_fields: &[(&str, String)],
    query: &str,
    body: &[u8],
    mut faults: InvalidFabric,
) -> Result<DynamicMessage, Status> {
    let kind = route.method.input();
    check_body(route, &kind, body, &mut faults)?;
    if path_fields.is_empty() && query.is_empty() && route.body == "*" && !body.is_empty() {
        refusal::check(&faults)?;
        return message(kind, body).map_err(|error| not_read(&error));
    }
    let mut request = match route.body.as_str() {
        _ if body.is_empty() || !faults.is_empty() => Map::new(),
        "*" => object(body)?,
        field => Map::from_iter([(field.to_owned(), Value::Object(object(body)?))]),
    };
    let query = query_fields(query, &mut faults);
    let query = query.iter().map(|(name, text)| (name.as_str(), text));
    let path = path_fields.iter().map(|(name, text)| (*name, text));
    let query = query.map(|pair| (pair, Origin::Query));
    for ((name, text), origin) in query.chain(path.map(|pair| (pair, Origin::Path))) {
        let put = match origin {
            Origin::Query if !is_parameter(route, name) => Err(unknown(name)),
            Origin::Query | Origin::Path => put(&mut request, &kind, name, text, origin),
        };
        if let Err(fault) = put {
            faults.fault(fault.field, fault.reason);
        }
    }
    refusal::check(&faults)?;
    weft_proto::json::read(kind, Value::Object(request)).map_err(|error| not_read(&error))
}

/// Reads a body that is a whole message, and has passed the check.
///
/// # Errors
/// The body is no such message.
pub(super) fn message(
    kind: MessageDescriptor,
    body: &[u8],
) -> Result<DynamicMessage, serde_json::Error> {
    // A whole fabric is not written into a tree first, unless it has integers that only the other reader takes: "4e11".
    let mut text = serde_json::Deserializer::from_slice(body);
    let options = prost_reflect::DeserializeOptions::new().deny_unknown_fields(true);
    let read = DynamicMessage::deserialize_with_options(kind.clone(), &mut text, &options);
    match read.and_then(|message| text.end().map(|()| message)) {
        Ok(message) => Ok(message),
        Err(_) => weft_proto::json::read(kind, serde_json::from_slice(body)?),
    }
}

/// Notes what is wrong with a body.
fn check_body(
    route: &Route,
    kind: &MessageDescriptor,
    body: &[u8],
    faults: &mut InvalidFabric,
) -> Result<(), Status> {
    let checked = match (route.body.as_str(), body.is_empty()) {
        ("", false) => {
            faults.fault("body", "this call takes none");
            Ok(())
        }
        ("" | "*", true) => Ok(()),
        ("*", false) => check::check(kind, body, "", faults),
        (field, true) => {
            faults.fault(field, "the body is empty");
            Ok(())
        }
        (field, false) => {
            let inner = kind.get_field_by_name(field).map(|field| field.kind());
            let inner = inner.as_ref().and_then(Kind::as_message);
            let inner = inner.ok_or_else(refusal::defect)?;
            check::check(inner, body, field, faults)
        }
    };
    if let Err(error) = checked {
        faults.fault("body", error);
    }
    Ok(())
}

/// Whether a query may name a field: what stands in the path or the body does not.
fn is_parameter(route: &Route, name: &str) -> bool {
    let in_body = name.split('.').next() == Some(route.body.as_str());
    route.body != "*" && !route.path_fields().any(|it| it == name) && !in_body
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
) -> Result<(), FieldFault> {
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
            return Err(fault(name, "its message is no object"));
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
) -> Result<(), FieldFault> {
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
        Some(_) if origin == Origin::Path => Err(fault(name, "the path and the body differ")),
        Some(_) => Err(fault(name, "it is there twice")),
        None => Ok(()),
    }
}

/// The text of a value as JSON has it.
fn scalar(field: &FieldDescriptor, name: &str, text: &str) -> Result<Value, FieldFault> {
    let kind = field.kind();
    let value = match &kind {
        Kind::Message(kind) if kind.full_name() == "google.protobuf.FieldMask" => {
            Value::from(camel_case(text))
        }
        // There, and empty: "peers" alone asks for all peers.
        Kind::Message(kind) if !well_known(kind) && text.is_empty() => {
            return Ok(Value::Object(Map::new()));
        }
        Kind::Message(kind) if !well_known(kind) => return Err(unknown(name)),
        Kind::Bytes | Kind::Double | Kind::Float => return Err(unknown(name)),
        Kind::Bool if matches!(text, "true" | "false") => return Ok(Value::from(text == "true")),
        // One without a name.
        Kind::Enum(_) if text.parse::<i32>().is_ok() => Value::from(text.parse::<i32>().ok()),
        _ => Value::from(text),
    };
    let fault_of = |text: &str| check::parameter_fault(&kind, text);
    match value.as_str().and_then(fault_of) {
        None => Ok(value),
        Some(reason) => Err(fault(name, reason)),
    }
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
fn query_fields(query: &str, faults: &mut InvalidFabric) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |it: &str| decoded(&it.replace('+', " "));
        let pair = text(name).zip(text(value));
        if pair.is_none() {
            faults.fault("query", "an escape in it is no text");
        }
        pair
    });
    pairs.collect()
}

fn object(body: &[u8]) -> Result<Map<String, Value>, Status> {
    serde_json::from_slice(body).map_err(|error| not_read(&error))
}

fn unknown(name: &str) -> FieldFault {
    let name: String = name.chars().take(SHOWN).collect();
    fault(&name, "this call has no such parameter")
}

fn fault(field: &str, reason: impl Into<String>) -> FieldFault {
    FieldFault {
        field: field.to_owned(),
        reason: reason.into(),
    }
}

/// What is no JSON, or passes the check and cannot be read.
fn not_read(error: &serde_json::Error) -> Status {
    refusal::field("body", error)
}

/// Some hundred octets each: well below the longest message that the API takes.
const PART_ITEMS: usize = 2_000;
/// Letters of a foreign text that a refusal repeats.
const SHOWN: usize = 64;
