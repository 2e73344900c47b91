//! Counts the calls of the API by method and code. Knows gRPC's headers, not its messages.

use std::task::{Context, Poll};

use axum::http;
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tonic::Code;
use tower::{Layer, Service};

/// The counters; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Requests(pub Family<Labels, Counter>);

/// What a call is counted under.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Labels {
    /// Path of the method; one word for all that do not exist.
    method: String,
    /// Name of the gRPC code.
    code: String,
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
            let code = format!("{code:?}");
            requests.0.get_or_create(&Labels { method, code }).inc();
            Ok(answer)
        }
        .boxed()
    }
}
