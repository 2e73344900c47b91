//! A stream of messages as server-sent events, so that a browser follows it. Knows of a message only where its revision is.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};

use super::answer;
use super::call::Answers;

/// What a browser that comes back heard last, as the parameter of the call that goes on after it.
pub(super) fn resumed(headers: &HeaderMap) -> Option<String> {
    let last = headers.get("last-event-id")?.to_str().ok()?;
    last.parse::<u64>().ok()?;
    Some(last.to_owned())
}

/// Each message as an event: its revision is the event's id. A refusal is the last event, of type `status`.
pub(super) fn events(answers: Answers, kind: MessageDescriptor) -> Response<Body> {
    let events = futures::stream::unfold(Some((answers, kind)), |state| async {
        let (mut answers, kind) = state?;
        match answers.next().await {
            Ok(Some(octets)) => {
                let event = message(&octets, &kind);
                Some((
                    Ok::<_, std::convert::Infallible>(event),
                    Some((answers, kind)),
                ))
            }
            Ok(None) => None,
            Err(status) => {
                let event = format!("event: status\ndata: {}\n\n", answer::written(&status));
                Some((Ok(Bytes::from(event)), None))
            }
        }
    });
    let mut answer = answer::text(StatusCode::OK, EVENTS, Body::from_stream(events));
    // A proxy must pass each event on.
    let passed = HeaderValue::from_static("no");
    answer.headers_mut().insert("x-accel-buffering", passed);
    let kept = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, kept);
    answer
}

fn message(octets: &[u8], kind: &MessageDescriptor) -> Bytes {
    let Ok(message) = DynamicMessage::decode(kind.clone(), octets) else {
        return Bytes::new();
    };
    let id = match revision(&message) {
        Some(revision) => format!("id: {revision}\n"),
        None => String::new(),
    };
    let data = weft_proto::json::written(&message);
    Bytes::from(format!("{id}data: {data}\n\n"))
}

/// The revision in the header of an answer, where it has one.
fn revision(message: &DynamicMessage) -> Option<u64> {
    if !message.has_field_by_name("header") {
        return None;
    }
    let header = message.get_field_by_name("header")?;
    let revision = header.as_message()?.get_field_by_name("revision")?;
    match &*revision {
        Value::U64(revision) => Some(*revision),
        _ => None,
    }
}

const EVENTS: &str = "text/event-stream";
