//! JSON on the API's port: each call of weft.v1 by the method and path that google.api.http gives it, through the same handlers
//! as gRPC, under the same rule of access; probes are answered to all.
//!
//! ```text
//! a request:   guard (who may) -> route (which call) -> request (its message) -> call -> answer, or stream
//! beside it:   openapi, /livez, /readyz, and web: the page
//! ```

mod answer;
mod call;
mod check;
mod guard;
mod openapi;
mod request;
mod route;
mod stream;
#[cfg(test)]
mod tests;
mod web;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{
    HeaderMap, Request, Response, StatusCode, Version, header::ORIGIN, request::Parts,
};
use axum::middleware::Next;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tonic::Status;
use tower::ServiceExt;

use self::guard::Guard;
use self::route::{Found, Route, Routes};
use super::access::Access;
use super::refusal;
use super::requests::Requests;
use crate::config::Api;
use crate::daemon::health::{Health, Verdict};
use crate::door::bounds::PART_PATIENCE;
use crate::door::octets::Held;
use crate::fabric::fact::InvalidFabric;

/// Answers JSON.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Guard,
    routes: Routes,
    /// The handlers, as gRPC asks them.
    services: Router,
    /// Calls that no handler was asked for.
    requests: Requests,
    health: Health,
    /// Long bodies are held whole: this many at a time.
    long_bodies: Semaphore,
    open_api: OnceLock<Bytes>,
}

impl Gateway {
    /// Before the handlers of a running daemon, which count their calls in the same requests.
    pub(super) fn new(
        (access, api): (Access, &Api),
        services: Router,
        requests: Requests,
        health: Health,
    ) -> Self {
        let inner = Inner {
            guard: Guard {
                access,
                hosts: api.hosts.clone(),
            },
            routes: Routes::of(PACKAGE),
            services,
            requests,
            health,
            long_bodies: Semaphore::new(LONG_BODIES_MAX),
            open_api: OnceLock::new(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Answers whatever is no call of gRPC.
    pub async fn answer(self, request: Request<Body>) -> Response<Body> {
        if is_grpc(request.headers()) {
            // A call that no service has is counted with the others.
            return match self.inner.services.clone().oneshot(request).await {
                Ok(answer) => answer,
                Err(never) => match never {},
            };
        }
        let (head, body) = request.into_parts();
        let inner = &self.inner;
        if let Err(status) = guard::check_host(&head) {
            return answer::refusal(&status);
        }
        match head.uri.path() {
            "/livez" => return probe(&head, inner.verdict().livez()),
            "/readyz" => return probe(&head, inner.verdict().readyz()),
            _ => {}
        }
        if let Err(status) = inner.guard.admit(&head) {
            // Which call it would be is not looked at.
            let method = "unknown".to_owned();
            inner
                .requests
                .refused(method, status.code(), Instant::now());
            return answer::refusal(&status);
        }
        match (head.method.as_str(), head.uri.path()) {
            ("GET" | "HEAD", "/openapi.json") => return inner.open_api(),
            (_, "/openapi.json") => return answer::other_methods(&["GET"].into()),
            ("GET" | "HEAD", path) => {
                if let Some(file) = web::file(path, &head.headers) {
                    return file;
                }
            }
            _ => {}
        }
        match inner.routes.find(head.method.as_str(), head.uri.path()) {
            Found::Call(..) if !guard::media_type_fits(&head) => answer::media_type(),
            Found::Call(route, fields) => match inner.call(route, &fields, &head, body).await {
                Ok(answer) => answer,
                Err(status) => answer::refusal(&status),
            },
            Found::OtherMethods(methods) => answer::other_methods(&methods),
            Found::Nothing => answer::refusal(&refusal::no_such_path()),
        }
    }
}

/// Passes calls of services on that programs make: a page that a browser shows, whoever it is from, speaks no HTTP/2 without
/// TLS, and says its Origin. It has the paths of JSON, which the guard is before.
pub async fn grpc_by_programs(request: Request<Body>, next: Next) -> Response<Body> {
    let mut path = request.uri().path().split('/').skip(1);
    let of_service =
        path.next().is_some_and(|service| service.contains('.')) && path.next().is_some();
    let by_page = request.version() < Version::HTTP_2 || request.headers().contains_key(ORIGIN);
    match of_service && by_page {
        true => answer::refusal(&refusal::not_by_a_program()),
        false => next.run(request).await,
    }
}

impl Inner {
    async fn call(
        &self,
        route: &Route,
        fields: &[(&str, String)],
        head: &Parts,
        body: Body,
    ) -> Result<Response<Body>, Status> {
        let method = &route.method;
        let began = Instant::now();
        let read = self.read(route, fields, head, body).await;
        let (parts, _held) = read.inspect_err(|refused| {
            let path = call::path(method);
            self.requests.refused(path, refused.code(), began);
        })?;
        let answers = call::make(&self.services, method, head, &parts).await?;
        drop(parts);
        if streams(method) {
            return Ok(stream::events(answers, method.output()));
        }
        let octets = answers.all().await?;
        let written = DynamicMessage::decode(method.output(), octets);
        let written = written.map_err(|_| refusal::defect())?;
        let value = super::off_the_runtime(move || weft_proto::json::written(&written).to_string());
        Ok(answer::text(StatusCode::OK, answer::JSON, value.await?))
    }

    /// The messages of a request, and the place that a long one takes until it is answered.
    async fn read(
        &self,
        route: &Route,
        fields: &[(&str, String)],
        head: &Parts,
        body: Body,
    ) -> Result<(Vec<DynamicMessage>, Option<SemaphorePermit<'_>>), Status> {
        let method = &route.method;
        let mut query = head.uri.query().unwrap_or("").to_owned();
        let mut faults = InvalidFabric::default();
        guard::conditions(head, &mut faults);
        if streams(method)
            && let Some(last) = stream::resumed(&head.headers, &mut faults)
        {
            query = with_revision(&query, last);
        }
        let is_long = method.is_client_streaming();
        let (first, body) = begun(body).await?;
        // A client that sends nothing holds no place.
        let held = if is_long {
            let place = self.long_bodies.try_acquire();
            let place = place.map_err(|_| refusal::busy())?;
            // From now on this place is its bound.
            if let Some(held) = head.extensions.get::<Arc<Held>>() {
                held.release();
            }
            Some(place)
        } else {
            None
        };
        let longest = if is_long { LONG_BODY_MAX } else { BODY_MAX };
        let body = timeout(BODY_PATIENCE, whole(first, body, longest)).await;
        let body = body.map_err(|_| refusal::slow())??;
        let read = || request::read(route, fields, &query, &body, faults);
        let message = match body.len() > BODY_MAX {
            // A whole fabric: others go on meanwhile.
            true => tokio::task::block_in_place(read)?,
            false => read()?,
        };
        drop(body);
        Ok((request::parts(method, message), held))
    }

    fn verdict(&self) -> Verdict {
        self.health.verdict(Instant::now())
    }

    fn open_api(&self) -> Response<Body> {
        let written = || Bytes::from(openapi::document(&self.routes).to_string());
        let document = self.open_api.get_or_init(written).clone();
        answer::text(StatusCode::OK, answer::JSON, document)
    }
}

/// Answers a probe of a load balancer, a kubelet or a monitoring system. Everybody may ask: the answer has nothing of the fabric.
/// HAProxy sends OPTIONS by default.
fn probe(head: &Parts, (is_well, reason): (bool, String)) -> Response<Body> {
    if !["GET", "HEAD", "OPTIONS"].contains(&head.method.as_str()) {
        return answer::other_methods(&["GET", "HEAD", "OPTIONS"].into());
    }
    let status = if is_well {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    answer::text(status, TEXT, reason)
}

/// Whether the answers of a call are shown as they come.
fn streams(method: &MethodDescriptor) -> bool {
    method.is_server_streaming() && !method.is_client_streaming()
}

/// The first octets of a body, and the body without them.
async fn begun(mut body: Body) -> Result<(Bytes, Body), Status> {
    let first = timeout(PART_PATIENCE, next(&mut body)).await;
    let first = first.map_err(|_| refusal::slow_part(PART_PATIENCE))??;
    Ok((first.unwrap_or_default(), body))
}

/// A body as a whole.
async fn whole(first: Bytes, mut body: Body, longest: usize) -> Result<Bytes, Status> {
    let mut octets = BytesMut::new();
    let mut part = Some(first);
    while let Some(data) = part {
        if octets.len() + data.len() > longest {
            return Err(refusal::too_long(longest));
        }
        octets.extend_from_slice(&data);
        part = next(&mut body).await?;
    }
    Ok(octets.freeze())
}

/// The next octets of a body; `None` at its end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Status> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(unread)?;
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            Err(_trailers) => {}
        }
    }
    Ok(None)
}

/// Why a body was not read: weft refused it, or its client has gone.
fn unread(error: axum::Error) -> Status {
    let error = error.into_inner().downcast::<Status>();
    error.map_or_else(
        |_| Status::cancelled("the body does not end"),
        |status| *status,
    )
}

/// Returns true if a request is a call of gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    guard::media_type(headers).starts_with("application/grpc")
}

/// A refusal, as JSON.
pub(super) fn refusal(status: &Status) -> Response<Body> {
    answer::refusal(status)
}

/// A query that goes on after a revision, whatever it said of it before.
fn with_revision(query: &str, revision: u64) -> String {
    let others = query.split('&');
    let others = others.filter(|it| !it.is_empty() && !it.starts_with("after_revision="));
    let mut query: Vec<_> = others.map(str::to_owned).collect();
    query.push(format!("after_revision={revision}"));
    query.join("&")
}

const PACKAGE: &str = "weft.v1";
const TEXT: &str = "text/plain; charset=utf-8";
/// A resource has some KiB.
const BODY_MAX: usize = 1 << 20;
/// A fabric of 131,072 links and as many host ports.
const LONG_BODY_MAX: usize = 128 << 20;
pub(crate) const LONG_BODIES_MAX: usize = 2;
/// A body that is not there after so long does not come.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
