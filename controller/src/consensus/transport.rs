//! Messages between replicas over gRPC: one stream to each other replica, kept up, and the service
//! that takes theirs. Large messages travel in pieces. Knows nothing of what they say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use weft_proto::consensus::v1::consensus_client::ConsensusClient;
use weft_proto::consensus::v1::consensus_server;
use weft_proto::consensus::v1::{DeliverResponse, Envelope};

use super::Command;

/// A message on its way to another replica.
#[derive(Debug)]
pub struct Outbound {
    /// The store's octets.
    pub octets: Bytes,
    /// The store wants to know whether it left.
    pub snapshot: bool,
}

/// The end of a queue that [`dial`] empties.
pub struct Route {
    /// Raft id of the replica at the other end.
    pub to: u64,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is to get.
    pub queue: mpsc::Receiver<Outbound>,
}

/// A queue towards each other replica, by its id.
pub type Queues = BTreeMap<u64, mpsc::Sender<Outbound>>;

/// Both ends of a queue towards each other replica.
pub fn queues(others: impl Iterator<Item = (u64, SocketAddr)>) -> (Queues, Vec<Route>) {
    let mut senders = BTreeMap::new();
    let mut routes = Vec::new();
    for (to, address) in others {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        senders.insert(to, sender);
        routes.push(Route { to, address, queue });
    }
    (senders, routes)
}

/// Keeps a stream to one other replica up, for ever.
pub async fn dial(own: u64, route: Route, commands: mpsc::Sender<Command>) {
    let Route {
        to,
        address,
        mut queue,
    } = route;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .expect("a socket address makes a URI")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    loop {
        if let Ok(channel) = endpoint.connect().await {
            tracing::info!(replica = to, %address, "replica reached");
            stream(own, to, channel, &mut queue, &commands).await;
            tracing::warn!(replica = to, %address, "stream to replica ended");
        }
        // What waited meanwhile is stale: Raft says it again.
        loop {
            match queue.try_recv() {
                Ok(lost) if lost.snapshot => {
                    drop(commands.send(Command::SnapshotSent(to, false)).await)
                }
                Ok(_) => {}
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => return,
            }
        }
        let _ = commands.send(Command::Unreachable(to)).await;
        tokio::time::sleep(RETRY).await;
    }
}

async fn stream(
    own: u64,
    to: u64,
    channel: Channel,
    queue: &mut mpsc::Receiver<Outbound>,
    commands: &mpsc::Sender<Command>,
) {
    let (pieces, outgoing) = mpsc::channel(STREAM_QUEUE_MAX);
    let mut client = ConsensusClient::new(channel);
    let delivery = client.deliver(ReceiverStream::new(outgoing));
    tokio::pin!(delivery);
    loop {
        tokio::select! {
            ended = &mut delivery => {
                if let Err(status) = ended {
                    tracing::debug!(replica = to, %status, "delivery ended");
                }
                return;
            }
            message = queue.recv() => {
                let Some(Outbound { octets, snapshot }) = message else { return };
                let sent = tokio::select! {
                    sent = send(own, to, octets, &pieces) => sent,
                    _ = &mut delivery => false,
                };
                if snapshot {
                    let _ = commands.send(Command::SnapshotSent(to, sent)).await;
                }
                if !sent {
                    return;
                }
            }
        }
    }
}

async fn send(own: u64, to: u64, mut octets: Bytes, pieces: &mpsc::Sender<Envelope>) -> bool {
    loop {
        let piece = octets.split_to(octets.len().min(PIECE_MAX));
        let more = !octets.is_empty();
        let envelope = Envelope {
            from: own,
            to,
            octets: piece,
            more,
        };
        if pieces.send(envelope).await.is_err() {
            return false;
        }
        if !more {
            return true;
        }
    }
}

/// The service that takes other replicas' streams.
pub struct Inbound {
    own: u64,
    members: Vec<u64>,
    commands: mpsc::Sender<Command>,
}

impl Inbound {
    /// Takes streams from `members` for replica `own`.
    pub fn new(own: u64, members: Vec<u64>, commands: mpsc::Sender<Command>) -> Self {
        Self {
            own,
            members,
            commands,
        }
    }

    fn check(&self, envelope: &Envelope) -> Result<(), Status> {
        if envelope.to != self.own {
            let reason = format!("this is replica {}, not {}", self.own, envelope.to);
            return Err(Status::failed_precondition(reason));
        }
        if envelope.from == self.own || !self.members.contains(&envelope.from) {
            let reason = format!("replica {} is not a member of this group", envelope.from);
            return Err(Status::permission_denied(reason));
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl consensus_server::Consensus for Inbound {
    async fn deliver(
        &self,
        request: Request<Streaming<Envelope>>,
    ) -> Result<Response<DeliverResponse>, Status> {
        let mut envelopes = request.into_inner();
        let mut message = BytesMut::new();
        while let Some(envelope) = envelopes.message().await? {
            self.check(&envelope)?;
            if message.len() + envelope.octets.len() > MESSAGE_MAX {
                return Err(Status::resource_exhausted("message above 2 GiB"));
            }
            if message.is_empty() && !envelope.more {
                let whole = Command::Message(envelope.from, envelope.octets);
                self.deliver_one(whole).await?;
                continue;
            }
            message.extend_from_slice(&envelope.octets);
            if !envelope.more {
                let whole = Command::Message(envelope.from, message.split().freeze());
                self.deliver_one(whole).await?;
            }
        }
        Ok(Response::new(DeliverResponse {}))
    }
}

impl Inbound {
    async fn deliver_one(&self, command: Command) -> Result<(), Status> {
        let sent = self.commands.send(command).await;
        sent.map_err(|_| Status::unavailable("the replica is stopping"))
    }
}

/// Raft keeps at most this many messages in flight; above it a replica counts as unreachable.
const QUEUE_MAX: usize = 1024;
const STREAM_QUEUE_MAX: usize = 16;
/// As the contract says; below gRPC's default limit of 4 MiB.
const PIECE_MAX: usize = 1 << 20;
/// A snapshot of several million routes. Above it the sender is not one of us.
const MESSAGE_MAX: usize = 2 << 30;
const WINDOW: u32 = 4 << 20;
const RETRY: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const KEEPALIVE: Duration = Duration::from_secs(2);
