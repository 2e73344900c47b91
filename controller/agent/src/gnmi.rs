//! gNMI over gRPC: calls and streams in, trees of the switch out. Changes nothing: `Set` is not implemented. Knows neither
//! the schema nor when a leaf is due: that is [`openconfig`](crate::openconfig)'s.
//!
//! ```text
//! Capabilities, Get (1x per call) ----+
//! Subscribe (at most 16, a task each) +--> Reader (1x) --Snapshot--> driver
//!          ^                                  |
//!          +-- when something changed --------+-- pause frames, of the drivers
//!                                             +-- speeds, LLDP, every 5 s at most
//! ```

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::gnmi::g_nmi_server::{GNmi, GNmiServer};
use weft_proto::gnmi::get_request::DataType;
use weft_proto::gnmi::subscribe_request::Request as Asked;
use weft_proto::gnmi::subscription_list::Mode;
use weft_proto::gnmi::{
    CapabilityRequest, CapabilityResponse, GetRequest, GetResponse, ModelData, SetRequest,
    SetResponse, SubscribeRequest, SubscribeResponse, SubscriptionList,
};
use weft_proto::gnmi_ext::Extension;

use self::reader::Reader;
use crate::driver::Command;
use crate::openconfig::schema::MODELS;
use crate::openconfig::write::ENCODINGS;
use crate::openconfig::{Pattern, Plan, Writer, plan::SUBSCRIPTIONS_MAX};
use crate::refusal::Refusal;

mod beside;
mod pause;
mod reader;
mod stream;

/// The service; clones share the reader.
#[derive(Clone, Debug)]
pub struct Service {
    reader: Arc<Reader>,
    room: Arc<Semaphore>,
}

/// The service over the commands of a driver, which also says when something may have changed.
#[must_use]
pub fn service(
    commands: mpsc::Sender<Command>,
    changes: watch::Receiver<u64>,
) -> GNmiServer<Service> {
    service_with_lldpd(commands, changes, None)
}

/// The service, with the socket at which lldpd listens, if lldpcli does not look for it there by itself.
#[must_use]
pub fn service_with_lldpd(
    commands: mpsc::Sender<Command>,
    changes: watch::Receiver<u64>,
    lldpd: Option<PathBuf>,
) -> GNmiServer<Service> {
    let service = Service {
        reader: Arc::new(Reader::new(commands, changes, lldpd)),
        room: Arc::new(Semaphore::new(STREAMS_MAX)),
    };
    GNmiServer::new(service).max_decoding_message_size(REQUEST_MAX)
}

type Responses = Pin<Box<dyn Stream<Item = Result<SubscribeResponse, Status>> + Send>>;

#[tonic::async_trait]
impl GNmi for Service {
    type SubscribeStream = Responses;

    async fn capabilities(
        &self,
        request: Request<CapabilityRequest>,
    ) -> Result<Response<CapabilityResponse>, Status> {
        without(&request.get_ref().extension)?;
        let models = MODELS.iter().map(|(name, version)| ModelData {
            name: (*name).into(),
            organization: "OpenConfig working group".into(),
            version: (*version).into(),
        });
        Ok(Response::new(CapabilityResponse {
            supported_models: models.collect(),
            supported_encodings: ENCODINGS.map(i32::from).to_vec(),
            g_nmi_version: VERSION.into(),
            extension: Vec::new(),
        }))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let request = request.into_inner();
        without(&request.extension)?;
        all_models(&request.use_models)?;
        let (writer, patterns) = read(&request)?;
        let has_state = match DataType::try_from(request.r#type) {
            Ok(DataType::All | DataType::State | DataType::Operational) => true,
            // Nothing can be written.
            Ok(DataType::Config) => false,
            Err(_) => {
                let text = format!("there is no type {}", request.r#type);
                return Err(Status::invalid_argument(text));
            }
        };
        let tree = self.reader.read().await?;
        let write = move || {
            let notifications = patterns.iter().map(|pattern| match has_state {
                true => writer.node(&tree, pattern),
                false => Ok(writer.notification(tree.unix_ns)),
            });
            notifications.collect::<Result<Vec<_>, Refusal>>()
        };
        let written = tokio::task::spawn_blocking(write).await;
        let notification = written.map_err(|_| stopped())??;
        let extension = Vec::new();
        Ok(Response::new(GetResponse {
            notification,
            extension,
        }))
    }

    async fn set(&self, _: Request<SetRequest>) -> Result<Response<SetResponse>, Status> {
        let text = "this target can only be read; gRIBI programs it";
        Err(Status::unimplemented(text))
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        let full = |_| {
            let text = format!("there are {STREAMS_MAX} subscriptions already");
            Status::resource_exhausted(text)
        };
        let room = room.map_err(full)?;
        let mut requests = request.into_inner();
        let first = timeout(PATIENCE, requests.message()).await;
        let late = |_| Status::deadline_exceeded("nothing was asked for in ten seconds");
        let list = list(first.map_err(late)??)?;
        let mode = Mode::try_from(list.mode).map_err(|_| {
            let text = format!("there is no mode {}", list.mode);
            Status::invalid_argument(text)
        })?;
        let plan = Plan::new(&list)?;
        let (responses, queue) = mpsc::channel(RESPONSES_MAX);
        let stream = stream::Subscriber::new(Arc::clone(&self.reader), plan, responses);
        tokio::spawn(async move {
            let _room = room;
            stream.serve(mode, requests).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(queue))))
    }
}

fn read(request: &GetRequest) -> Result<(Writer, Vec<Pattern>), Refusal> {
    let writer = Writer::new(request.encoding, request.prefix.as_ref())?;
    if request.path.len() > SUBSCRIPTIONS_MAX {
        return Err(Refusal::invalid(&format!(
            "{} paths, at most {SUBSCRIPTIONS_MAX}",
            request.path.len()
        )));
    }
    let paths = request.path.iter();
    let patterns = paths.map(|path| Pattern::read(request.prefix.as_ref(), Some(path)));
    let mut patterns = patterns.collect::<Result<Vec<_>, Refusal>>()?;
    if patterns.is_empty() {
        // What is at the prefix.
        patterns.push(Pattern::read(request.prefix.as_ref(), None)?);
    }
    Ok((writer, patterns))
}

/// The list that a stream begins with.
fn list(first: Option<SubscribeRequest>) -> Result<SubscriptionList, Status> {
    let first = first.ok_or_else(|| Status::invalid_argument("nothing was asked for"))?;
    without(&first.extension)?;
    match first.request {
        Some(Asked::Subscribe(list)) => {
            all_models(&list.use_models)?;
            Ok(list)
        }
        Some(Asked::Poll(_)) => Err(Status::invalid_argument(
            "a poll before the list of subscriptions",
        )),
        None => Err(Status::invalid_argument(
            "the first request has no list of subscriptions",
        )),
    }
}

/// An answer that does not obey an extension would be another one than was asked for.
fn without(extensions: &[Extension]) -> Result<(), Status> {
    if extensions.is_empty() {
        Ok(())
    } else {
        Err(Status::unimplemented("no extension of gNMI is supported"))
    }
}

/// A path says which model is wanted; to leave out others is not supported.
fn all_models(models: &[ModelData]) -> Result<(), Status> {
    match models.first() {
        None => Ok(()),
        Some(model) => {
            let name: String = model.name.chars().take(64).collect();
            let text = format!("use_models is not supported (model {name:?})");
            Err(Status::unimplemented(text))
        }
    }
}

fn stopped() -> Status {
    Status::unavailable("the agent is stopping")
}

/// The version of gNMI that Capabilities tells.
const VERSION: &str = "0.10.0";

/// Streams at one time: the replicas, and a few collectors. One more is refused.
const STREAMS_MAX: usize = 16;

/// Responses that a slow client has not taken. Its stream waits then, and reads the switch anew when it goes on.
const RESPONSES_MAX: usize = 4;

/// Octets of a request: sixty-four long paths have a tenth.
const REQUEST_MAX: usize = 256 * 1024;

/// From the begin of a stream to the list.
const PATIENCE: Duration = Duration::from_secs(10);
