//! Counts the calls of the API by method and code, and how long they take; what no handler refused gets its reason here.
//! Knows gRPC's headers, not its messages.

use std::task::{Context, Poll};

use axum::body::Body;
use axum::http;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tonic::Code;
use tower::{Layer, Service};

use super::refusal;

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
        let help =
            "Calls of the API that have ended, over gRPC and in JSON, by method and gRPC code";
        registry.register("api_requests", help, self.calls.clone());
        let help = "From a call of the API until its answer begins; of one in JSON without reading and writing that";
        let duration = self.duration.clone();
        registry.register_with_unit("api_request_duration", help, Unit::Seconds, duration);
    }

    /// Counts a call that no handler was asked for.
    pub(super) fn refused(&self, method: String, code: Code, began: Instant) {
        self.began(&method, began);
        self.ended(method, code);
    }

    /// The answer to a call that came then begins now.
    fn began(&self, method: &str, came: Instant) {
        let method = method.to_owned();
        let took = came.elapsed().as_secs_f64();
        self.duration
            .get_or_create(&MethodLabel { method })
            .observe(took);
    }

    fn ended(&self, method: String, code: Code) {
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

impl<S, B> Service<http::Request<B>> for Counting<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>>,
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
            let mut answer = answer.await?;
            refusal::name_reason(answer.headers_mut());
            // A refusal is in the headers; what was begun says in its trailers how it ended.
            let refused = code(answer.headers());
            let method = match refused {
                Some(Code::Unimplemented) => "unknown".to_owned(),
                _ => path,
            };
            requests.began(&method, began);
            if let Some(code) = refused {
                requests.ended(method, code);
                return Ok(answer);
            }
            let mut open = Open(Some((requests, method)));
            Ok(answer.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    if let Some(trailers) = frame.trailers_ref() {
                        open.end(code(trailers).unwrap_or(Code::Unknown));
                    }
                    frame
                }))
            }))
        }
        .boxed()
    }
}

/// The code in headers or trailers.
fn code(headers: &http::HeaderMap) -> Option<Code> {
    let code = headers.get("grpc-status")?;
    Some(Code::from_bytes(code.as_bytes()))
}

/// A call whose answer has begun; counted with its trailers.
struct Open(Option<(Requests, String)>);

impl Open {
    fn end(&mut self, code: Code) {
        if let Some((requests, method)) = self.0.take() {
            requests.ended(method, code);
        }
    }
}

impl Drop for Open {
    /// Whoever asked went before the end.
    fn drop(&mut self) {
        self.end(Code::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, StatusCode, header};
    use prometheus_client::encoding::text::encode;
    use tower::ServiceExt;
    use weft_proto::v1::ListPeersRequest;
    use weft_proto::v1::peer_service_client::PeerServiceClient;

    use super::*;
    use crate::operator::lone::Lone;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_counts_once_over_grpc_or_in_json_and_a_refused_one_too() {
        let lone = Lone::start().await;
        let mut client = PeerServiceClient::new(lone.channel.clone());
        client
            .list_peers(ListPeersRequest::default())
            .await
            .unwrap();
        for (method, path, status) in [
            ("GET", "/v1/peers", StatusCode::OK),
            ("GET", "/v1/peers?page_size=many", StatusCode::BAD_REQUEST),
            ("GET", "/nothing", StatusCode::NOT_FOUND),
            // Its answer has begun when it is known that this is no fabric.
            ("POST", "/v1/fabric:apply", StatusCode::BAD_REQUEST),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.header(header::HOST, "127.0.0.1:7401");
            let request = request.header(header::CONTENT_TYPE, "application/json");
            let body = if method == "POST" { "{}" } else { "" };
            let request = request.body(Body::from(body)).unwrap();
            let answer = lone.http.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), status, "{path}");
        }
        let mut registry = Registry::with_prefix("weft");
        lone.requests.register(&mut registry);
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        let method = "method=\"weft.v1.PeerService/ListPeers\"";
        let apply = "method=\"weft.v1.FabricService/ApplyFabric\"";
        for line in [
            format!("weft_api_requests_total{{{method},code=\"Ok\"}} 2\n"),
            format!("weft_api_requests_total{{{method},code=\"InvalidArgument\"}} 1\n"),
            format!("weft_api_request_duration_seconds_count{{{method}}} 3\n"),
            format!("weft_api_requests_total{{{apply},code=\"InvalidArgument\"}} 1\n"),
        ] {
            assert!(page.contains(&line), "{line}{page}");
        }
        assert!(!page.contains("nothing"), "{page}");
        lone.stop().await;
    }
}
