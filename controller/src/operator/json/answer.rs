//! Answers of HTTP: messages, and refusals as google.rpc.Status with the number that HTTP has for them. Knows no call.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A body with its type.
pub(super) fn text(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // A browser must not take a text of a peer for a page.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

fn refused(number: StatusCode, status: &Status) -> Response<Body> {
    let mut value = written(status);
    value["error"]["code"] = Value::from(number.as_u16());
    text(number, JSON, value.to_string())
}

/// A refusal.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    refused(number(status.code()), status)
}

/// A change that is not JSON.
pub(super) fn media_type() -> Response<Body> {
    refused(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        &super::super::refusal::not_json(),
    )
}

/// The path takes other methods.
pub(super) fn other_methods(methods: &BTreeSet<&'static str>) -> Response<Body> {
    let allowed: Vec<_> = methods.iter().copied().collect();
    let allowed = allowed.join(", ");
    let status = super::super::refusal::other_methods(&allowed);
    let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, &status);
    if let Ok(allowed) = HeaderValue::from_str(&allowed) {
        answer.headers_mut().insert(header::ALLOW, allowed);
    }
    answer
}

/// A refusal as JSON: what gRPC has in a header.
pub(super) fn written(status: &Status) -> Value {
    let details = status.get_error_details();
    let mut shown = Vec::new();
    if let Some(info) = details.error_info() {
        let metadata: std::collections::BTreeMap<_, _> = info.metadata.iter().collect();
        shown.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": info.reason,
            "domain": info.domain,
            "metadata": metadata,
        }));
    }
    if let Some(bad) = details.bad_request() {
        let fields = bad.field_violations.iter();
        let fields = fields.map(|it| json!({"field": it.field, "description": it.description}));
        shown.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "field_violations": fields.collect::<Vec<_>>(),
        }));
    }
    json!({
        "error": {
            "code": number(status.code()).as_u16(),
            "status": name(status.code()),
            "message": status.message(),
            "details": shown,
        }
    })
}

/// The number that google.rpc.Code names for each code.
pub(super) fn number(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// The name of a code as google.rpc.Code has it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

pub(super) const JSON: &str = "application/json";
