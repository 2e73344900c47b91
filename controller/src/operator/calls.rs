//! Every call of a port, as its door counts it: which connection has a call, and how many octets of requests are in flight. Knows
//! bodies, and no message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer, Service};

use super::{json, refusal};
use crate::door::Door;
use crate::door::bounds::CALL_OCTETS;
use crate::door::octets::{Cut, Held, Octets};
use crate::door::places::{Calling, Ends, Source};
use crate::door::refusals::Reason;

/// Counts the calls of a port.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    door: Door,
    /// `None`: octets are not counted, since other bounds hold.
    octets: Option<Octets>,
}

impl Calls {
    /// Counts calls alone.
    pub(crate) fn new(door: Door) -> Self {
        Self { door, octets: None }
    }

    /// Counts octets of requests too, and refuses what is above [the bounds](crate::door::bounds).
    pub(crate) fn with_octets(self) -> Self {
        let octets = Some(Octets::default());
        Self { octets, ..self }
    }

    /// The octets of a call. `None`: they are not counted.
    fn hold(&self, ends: Option<&Ends>, octets: usize) -> Result<Option<Arc<Held>>, Status> {
        let (Some(all), Some(ends)) = (&self.octets, ends) else {
            return Ok(None);
        };
        let held = all.begin(Source::of(ends.remote.ip()), octets);
        let Some(held) = held else {
            self.door.refuse(Reason::Octets, ends.remote);
            return Err(refusal::too_many_octets());
        };
        Ok(Some(Arc::new(held)))
    }
}

impl<S> Layer<S> for Calls {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        let calls = self.clone();
        Counting { calls, inner }
    }
}

/// A service whose calls are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counting<S> {
    calls: Calls,
    inner: S,
}

impl<S> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let ends = ends(&request);
        let place = ends.as_ref().and_then(|ends| self.calls.door.place(ends));
        let calling = place.map(|place| place.call());
        let is_grpc = json::is_grpc(request.headers());
        let held = match self.calls.hold(ends.as_ref(), octets(&request)) {
            Ok(held) => held,
            Err(status) => return std::future::ready(Ok(refused(&status, is_grpc))).boxed(),
        };
        let cut = held.as_ref().map(|held| held.cut());
        if let Some(held) = &held {
            request.extensions_mut().insert(Arc::clone(held));
        }
        let request = request.map(|body| match &held {
            Some(held) => Body::new(Incoming {
                body,
                cut: cut.clone(),
                held: Arc::clone(held),
            }),
            None => body,
        });
        let calls = self.calls.clone();
        let answer = self.inner.call(request);
        async move {
            let answer = tokio::select! {
                answer = answer => Some(answer?),
                () = is_cut(cut) => None,
            };
            let is_cut = held.as_ref().is_some_and(|held| held.is_cut());
            if let Some(ends) = ends.filter(|_| is_cut) {
                calls.door.refuse(Reason::Octets, ends.remote);
            }
            let Some(answer) = answer else {
                return Ok(refused(&refusal::too_many_octets(), is_grpc));
            };
            drop(held);
            Ok(answer.map(|body| {
                Body::new(Outgoing {
                    body,
                    _calling: calling,
                })
            }))
        }
        .boxed()
    }
}

/// Both ends of the connection that a request came over.
fn ends(request: &Request<Body>) -> Option<Ends> {
    let info = request.extensions().get::<TcpConnectInfo>()?;
    Some(Ends {
        remote: info.remote_addr?,
        local: info.local_addr,
    })
}

/// Octets of a request without its body.
fn octets(request: &Request<Body>) -> usize {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len());
    CALL_OCTETS + headers.sum::<usize>()
}

/// Resolves if a call must end for its octets.
async fn is_cut(cut: Option<Cut>) {
    if let Some(cut) = cut
        && cut.await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The refusal of a call, in the form that its client reads.
fn refused(status: &Status, is_grpc: bool) -> Response<Body> {
    if is_grpc {
        status.clone().into_http()
    } else {
        json::refusal(status).map(Body::new)
    }
}

/// The body of a request.
struct Incoming {
    body: Body,
    cut: Option<Cut>,
    held: Arc<Held>,
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(cut) = &mut self.cut
            && let Poll::Ready(cut) = cut.poll_unpin(cx)
        {
            self.cut = None;
            if cut.is_ok() {
                return Poll::Ready(Some(Err(refusal::too_many_octets())));
            }
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && !self.held.add(data.len())
        {
            return Poll::Ready(Some(Err(refusal::too_many_octets())));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer. Until its end its connection has a call.
struct Outgoing {
    body: Body,
    _calling: Option<Calling>,
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt, StreamBody};
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;
    use tonic::Code;
    use tower::{ServiceExt, service_fn};

    use super::*;
    use crate::door::bounds::METRICS;
    use crate::door::refusals::Refusals;

    const MIB: usize = 1 << 20;

    type Parts = mpsc::Sender<Result<Frame<Bytes>, Status>>;

    /// A call of gRPC from this address with a body of parts.
    fn request(host: u8) -> (Request<Body>, Parts) {
        let (parts, body) = mpsc::channel(8);
        let body = Body::new(StreamBody::new(ReceiverStream::new(body)));
        let mut request = Request::new(body);
        let headers = request.headers_mut();
        headers.insert("content-type", "application/grpc".parse().unwrap());
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: Some(([192, 0, 2, host], 4000).into()),
        });
        (request, parts)
    }

    async fn send(parts: &Parts, octets: usize) {
        let data = Bytes::from(vec![0; octets]);
        parts.send(Ok(Frame::data(data))).await.unwrap();
    }

    fn refused(answer: &Response<Body>) -> bool {
        let status = Status::from_header_map(answer.headers());
        status.is_some_and(|it| it.code() == Code::Unavailable)
    }

    #[tokio::test]
    async fn requests_above_the_octets_of_an_address_are_refused_and_those_of_others_are_answered()
    {
        let refusals = Refusals::default();
        let calls = Calls::new(Door::new(METRICS, refusals.clone())).with_octets();
        let service = calls.layer(service_fn(async |request: Request<Body>| {
            Ok::<_, Infallible>(match request.into_body().collect().await {
                Ok(_) => Response::new(Body::empty()),
                Err(status) => status.into_http(),
            })
        }));
        let mut open = Vec::new();
        for octets in [5 * MIB, 4 * MIB, 4 * MIB] {
            let (request, parts) = request(1);
            let answer = tokio::spawn(service.clone().oneshot(request));
            send(&parts, octets).await;
            open.push((answer, parts));
        }
        while calls.octets.as_ref().unwrap().total() < 13 * MIB {
            tokio::task::yield_now().await;
        }
        send(&open[2].1, 4 * MIB).await;
        let (answer, _parts) = open.remove(2);
        assert!(refused(&answer.await.unwrap().unwrap()));
        assert_eq!(refusals.count("metrics", Reason::Octets), 1);
        let (request, parts) = request(2);
        send(&parts, MIB).await;
        drop(parts);
        let answer = service.clone().oneshot(request).await.unwrap();
        assert!(!refused(&answer));
        for (answer, parts) in open {
            drop(parts);
            assert!(!refused(&answer.await.unwrap().unwrap()));
        }
        assert_eq!(calls.octets.unwrap().total(), 0);
    }

    #[tokio::test]
    async fn a_call_with_a_place_of_its_own_is_not_counted() {
        let calls = Calls::new(Door::new(METRICS, Refusals::default())).with_octets();
        let service = calls.layer(service_fn(async |request: Request<Body>| {
            let held = request.extensions().get::<Arc<Held>>().unwrap();
            held.release();
            let whole = request.into_body().collect().await.unwrap();
            assert_eq!(whole.to_bytes().len(), 32 * MIB);
            Ok::<_, Infallible>(Response::new(Body::empty()))
        }));
        let (request, parts) = request(1);
        let answer = tokio::spawn(service.oneshot(request));
        for _ in 0..32 {
            send(&parts, MIB).await;
        }
        drop(parts);
        assert!(!refused(&answer.await.unwrap().unwrap()));
    }
}
