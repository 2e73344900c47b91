//! Makes a call of gRPC within this process, so that JSON meets the same handlers. Knows frames, not messages.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, request::Parts};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::{Code, Status};
use tower::ServiceExt;

use super::super::refusal;

/// Messages of an answer as they come.
pub(super) struct Answers {
    body: Body,
    received: BytesMut,
}

/// The path of a call of gRPC, after the first `/`.
pub(super) fn path(method: &MethodDescriptor) -> String {
    format!("{}/{}", method.parent_service().full_name(), method.name())
}

/// Makes a call with the messages of a request.
///
/// # Errors
/// What the call is refused with before its first answer.
pub(super) async fn make(
    services: &Router,
    method: &MethodDescriptor,
    request: &Parts,
    parts: &[DynamicMessage],
) -> Result<Answers, Status> {
    let mut octets = BytesMut::new();
    for part in parts {
        let length = u32::try_from(part.encoded_len()).map_err(|_| refusal::defect())?;
        octets.put_u8(0);
        octets.put_u32(length);
        part.encode(&mut octets).map_err(|_| refusal::defect())?;
    }
    let inner = Request::post(format!("/{}", path(method)))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::from(octets.freeze()));
    let mut inner = inner.map_err(|_| refusal::defect())?;
    // Who calls: handlers ask.
    inner.extensions_mut().extend(request.extensions.clone());
    let answer: Response<Body> = match services.clone().oneshot(inner).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    refused(answer.headers())?;
    Ok(Answers {
        body: answer.into_body(),
        received: BytesMut::new(),
    })
}

impl Answers {
    /// The next message; None: the call ended well.
    ///
    /// # Errors
    /// What the call ended with.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.message() {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            let frame = frame.map_err(|_| refusal::defect())?;
            match frame.into_data() {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        refused(&trailers)?;
                    }
                }
            }
        }
    }

    /// All messages put together: of several the lists are one list, and of every other field the last value counts.
    pub(super) async fn all(mut self) -> Result<Bytes, Status> {
        let mut octets = BytesMut::new();
        while let Some(message) = self.next().await? {
            octets.extend_from_slice(&message);
        }
        Ok(octets.freeze())
    }

    /// The first message that was received whole.
    fn message(&mut self) -> Option<Bytes> {
        let mut head = self.received.get(..HEAD)?;
        head.advance(1);
        let length = usize::try_from(head.get_u32()).ok()?;
        if self.received.len() < HEAD + length {
            return None;
        }
        self.received.advance(HEAD);
        Some(self.received.split_to(length).freeze())
    }
}

/// What headers or trailers say against a call.
fn refused(headers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(headers) {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(()),
    }
}

/// Octets before a message: whether it is compressed, and its length.
const HEAD: usize = 5;
