//! Counts the calls of the API by method and code, and how long they take. Knows gRPC's headers, not its messages.

use std::task::{Context, Poll};

use axum::http;
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tonic::Code;
use tower::{Layer, Service};

/// The counters; clones count together.
#[derive(Clone, Debug)]
pub struct Requests {
    calls: Family<Labels, Counter>,
    /// Until the answer begins.
    duration: Family<MethodLabel, Histogram, fn() -> Histogram>,
}

/// A method of the API.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct MethodLabel {
    method: String,
}

/// What a call is counted under.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    /// Path of the method; one word for all that do not exist.
    method: String,
    /// Name of the gRPC code.
    code: String,
}

impl Default for Requests {
    fn default() -> Self {
        // 0.25 ms to 8 s.
        let buckets = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        Self {
            calls: Family::default(),
            duration: Family::new_with_constructor(buckets),
        }
    }
}

impl Requests {
    /// Puts the counters on a page.
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls of the API by method and code";
        registry.register("api_requests", help, self.calls.clone());
        let help = "From a call of the API until its answer begins";
        let duration = self.duration.clone();
        registry.register_with_unit("api_request_duration", help, Unit::Seconds, duration);
    }

    fn count(&self, method: String, code: Code, began: Instant) {
        let label = MethodLabel {
            method: method.clone(),
        };
        let took = began.elapsed().as_secs_f64();
        self.duration.get_or_create(&label).observe(took);
        let code = format!("{code:?}");
        self.calls.get_or_create(&Labels { method, code }).inc();
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        let requests = self.clone();
        Counting { requests, inner }
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub struct Counting<S> {
    requests: Requests,
    inner: S,
}

impl<S, B, R> Service<http::Request<B>> for Counting<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let requests = self.requests.clone();
        let began = Instant::now();
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            // An error is in the headers; what ends well says so in trailers that nobody has sent yet.
            let code = answer.headers().get("grpc-status");
            let code = code.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()));
            let method = match code {
                Code::Unimplemented => "unknown".to_owned(),
                _ => path,
            };
            requests.count(method, code, began);
            Ok(answer)
        }
        .boxed()
    }
}
