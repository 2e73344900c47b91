//! gRIBI over gRPC: streams and calls in, commands to the driver. Knows nothing of what they mean.

use std::pin::Pin;

use futures::{Stream, StreamExt, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use weft_proto::gribi::g_ribi_server::{GRibi, GRibiServer};
use weft_proto::gribi::{
    FlushRequest, FlushResponse, GetRequest, GetResponse, ModifyRequest, ModifyResponse,
};

use crate::driver::Command;
use crate::election::Client;
use crate::refusal::Refusal;

/// The service; clones share the driver.
#[derive(Clone, Debug)]
pub struct Service {
    commands: mpsc::Sender<Command>,
}

/// The service over the commands of a driver.
#[must_use]
pub fn service(commands: mpsc::Sender<Command>) -> GRibiServer<Service> {
    GRibiServer::new(Service { commands })
}

/// Commands for a [`Driver`](crate::driver::Driver) to run.
#[must_use]
pub fn commands() -> (mpsc::Sender<Command>, mpsc::Receiver<Command>) {
    mpsc::channel(COMMANDS_MAX)
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl GRibi for Service {
    type ModifyStream = Responses<ModifyResponse>;
    type GetStream = Responses<GetResponse>;

    async fn modify(
        &self,
        request: Request<Streaming<ModifyRequest>>,
    ) -> Result<Response<Self::ModifyStream>, Status> {
        let (responses, queue) = mpsc::channel(RESPONSES_MAX);
        let (opened, client) = oneshot::channel();
        let address = address_of(&request);
        self.command(Command::Open(address.clone(), responses.clone(), opened))
            .await?;
        let client = client.await.map_err(|_| stopped())??;
        tracing::info!(client = client.0, address, "stream opened");
        tokio::spawn(read(
            client,
            request.into_inner(),
            responses,
            self.commands.clone(),
        ));
        let stream = ReceiverStream::new(queue).map(|response| response.map_err(Status::from));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<Self::GetStream>, Status> {
        let (reply, entries) = oneshot::channel();
        self.command(Command::Get(request.into_inner(), reply))
            .await?;
        let entries = entries.await.map_err(|_| stopped())??;
        let chunks = stream::iter(entries).chunks(ENTRIES_MAX);
        Ok(Response::new(Box::pin(
            chunks.map(|entry| Ok(GetResponse { entry })),
        )))
    }

    async fn flush(
        &self,
        request: Request<FlushRequest>,
    ) -> Result<Response<FlushResponse>, Status> {
        let (reply, result) = oneshot::channel();
        let address = address_of(&request);
        self.command(Command::Flush(address, request.into_inner(), reply))
            .await?;
        Ok(Response::new(result.await.map_err(|_| stopped())??))
    }
}

impl Service {
    async fn command(&self, command: Command) -> Result<(), Status> {
        self.commands.send(command).await.map_err(|_| stopped())
    }
}

/// Passes the requests of one stream on, one at a time: the next is read when the last has been
/// answered and the client has taken the answers.
async fn read(
    client: Client,
    mut requests: Streaming<ModifyRequest>,
    responses: mpsc::Sender<Result<ModifyResponse, Refusal>>,
    commands: mpsc::Sender<Command>,
) {
    loop {
        let request = tokio::select! {
            request = requests.message() => request,
            () = responses.closed() => break,
        };
        let Ok(Some(request)) = request else {
            break;
        };
        if responses.reserve_many(RESPONSES_MAX).await.is_err() {
            break;
        }
        let (done, answered) = oneshot::channel();
        if commands
            .send(Command::Request(client, request, done))
            .await
            .is_err()
        {
            break;
        }
        // The driver drops its end; that is the answer.
        let _dropped = answered.await;
    }
    tracing::info!(client = client.0, "stream closed");
    // The driver may be gone; then there is nothing to close.
    let _gone = commands.send(Command::Close(client)).await;
}

/// Address and port of the caller; empty where there is none.
fn address_of<T>(request: &Request<T>) -> String {
    let address = request.remote_addr().map(|address| address.to_string());
    address.unwrap_or_default()
}

fn stopped() -> Status {
    Status::unavailable("the agent is stopping")
}

/// Commands that wait for the driver, over all streams. A stream that finds it full waits, and with
/// it, by flow control, its client.
const COMMANDS_MAX: usize = 64;

/// Responses to one request. The driver serves a request in at most 512 parts, each with a response. A
/// request has at most 4 MiB, an operation at least some 40 octets, so 25 more responses of
/// [`RESULTS_MAX`](crate::agent::RESULTS_MAX) results are enough; a client that does not read keeps its
/// own stream waiting.
pub(crate) const RESPONSES_MAX: usize = 1024;

/// Entries in one message of `Get`: far below 4 MiB.
const ENTRIES_MAX: usize = 1000;
