//! A stream of messages as server-sent events, so that a browser follows it. Knows of a message only where its revision is.

use std::num::NonZero;
use std::sync::{Arc, LazyLock};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};

use tokio::sync::Semaphore;
use tonic::Status;

use super::super::{off_the_runtime, refusal};
use super::answer;
use super::call::Answers;
use crate::fabric::fact::InvalidFabric;

/// What a client that comes back heard last: the call goes on after it, whatever its query says.
pub(super) fn resumed(headers: &HeaderMap, faults: &mut InvalidFabric) -> Option<u64> {
    let last = headers.get("last-event-id")?.as_bytes();
    let digits = std::str::from_utf8(last).ok();
    let digits = digits.filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
    let revision = digits.and_then(|it| it.parse().ok());
    if revision.is_none() {
        faults.fault("Last-Event-ID", "not the id of an event");
    }
    revision
}

/// Each message as an event: its revision is the event's id. A refusal is the last event, of type `status`.
pub(super) fn events(answers: Answers, kind: MessageDescriptor) -> Response<Body> {
    let events = futures::stream::unfold(Some((answers, kind)), |state| async {
        let (mut answers, kind) = state?;
        let event = match answers.next().await {
            Ok(Some(octets)) => event(octets, &kind).await,
            Ok(None) => return None,
            Err(status) => Err(status),
        };
        let (event, state) = match event {
            Ok(event) => (event, Some((answers, kind))),
            Err(status) => (last(&status), None),
        };
        Some((Ok::<_, std::convert::Infallible>(event), state))
    });
    let mut answer = answer::text(StatusCode::OK, EVENTS, Body::from_stream(events));
    // A proxy must pass each event on.
    let passed = HeaderValue::from_static("no");
    answer.headers_mut().insert("x-accel-buffering", passed);
    let kept = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, kept);
    answer
}

/// A message as an event. A large one is written where it holds up nobody.
async fn event(octets: Bytes, kind: &MessageDescriptor) -> Result<Bytes, Status> {
    if octets.len() <= SMALL {
        return message(&octets, kind);
    }
    let turn = Arc::clone(&WRITERS).acquire_owned().await;
    let turn = turn.map_err(|_| refusal::stopping())?;
    let kind = kind.clone();
    let write = move || {
        let written = message(&octets, &kind);
        // Not before, whether the client is still there or not.
        drop(turn);
        written
    };
    off_the_runtime(write).await?
}

/// Why no event follows.
fn last(status: &Status) -> Bytes {
    Bytes::from(format!(
        "event: status\ndata: {}\n\n",
        answer::written(status)
    ))
}

fn message(octets: &[u8], kind: &MessageDescriptor) -> Result<Bytes, Status> {
    let message = DynamicMessage::decode(kind.clone(), octets);
    let message = message.map_err(|_| refusal::defect())?;
    let id = match revision(&message) {
        Some(revision) => format!("id: {revision}\n"),
        None => String::new(),
    };
    let data = weft_proto::json::written(&message);
    Ok(Bytes::from(format!("{id}data: {data}\n\n")))
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

/// Large messages that are written at a time. Half of the cores are left to those who change something, however many read.
static WRITERS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    Arc::new(Semaphore::new((cores / 2).max(1)))
});
/// Octets of a message that are written in less than some hundred microseconds.
const SMALL: usize = 16 << 10;
const EVENTS: &str = "text/event-stream";
