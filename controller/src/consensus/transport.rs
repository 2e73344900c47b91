//! Messages between replicas over gRPC: one stream to each other replica, kept up, and the service
//! that takes theirs. Large messages travel in pieces. Knows nothing of what they say.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use weft_proto::consensus::v1::consensus_client::ConsensusClient;
use weft_proto::consensus::v1::consensus_server;
use weft_proto::consensus::v1::{DeliverResponse, Envelope};
use weft_store::MESSAGE_OCTETS_MAX;

use super::Command;
use crate::config::{Config, Remote};
use crate::daemon::resolver::Resolver;

/// A message on its way to another replica.
#[derive(Debug)]
pub struct Outbound {
    /// The store's octets.
    pub octets: Bytes,
    /// The store wants to know whether it left.
    pub snapshot: bool,
}

/// Addresses that this replica dials other replicas from, the best one first: they take connections from addresses of replicas only.
#[derive(Clone, Debug, Default)]
pub struct Sources(Vec<IpAddr>);

impl Sources {
    /// Returns the addresses of this replica in its configuration.
    pub fn of(config: &Config) -> Self {
        Self(config.raft_sources().collect())
    }

    /// The first one that this host has now. `None`: the system chooses, as a network with address translation needs.
    pub(crate) fn assigned(&self) -> Option<IpAddr> {
        let mut addresses = self.0.iter().copied();
        // No datagram is sent: only an address of this host can be bound.
        addresses.find(|address| UdpSocket::bind((*address, 0)).is_ok())
    }
}

/// The end of a queue that [`dial`] empties.
pub struct Route {
    /// Raft id of the replica at the other end.
    to: u64,
    /// Where it listens.
    resolver: Resolver,
    /// Where it is dialed from.
    from: Sources,
    /// What it is to get.
    queue: mpsc::Receiver<Outbound>,
}

/// A queue towards each other replica, by its id.
pub type Queues = BTreeMap<u64, mpsc::Sender<Outbound>>;

/// Both ends of a queue towards each other replica, which is dialed from one of these addresses.
pub fn queues(others: impl Iterator<Item = (u64, Remote)>, from: &Sources) -> (Queues, Vec<Route>) {
    let mut senders = BTreeMap::new();
    let mut routes = Vec::new();
    for (to, remote) in others {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        senders.insert(to, sender);
        let resolver = Resolver::new(remote);
        routes.push(Route {
            to,
            resolver,
            from: from.clone(),
            queue,
        });
    }
    (senders, routes)
}

/// Keeps a stream to one other replica up, for ever.
pub async fn dial(own: u64, route: Route, commands: mpsc::Sender<Command>) {
    let Route {
        to,
        mut resolver,
        from,
        mut queue,
    } = route;
    // Address of the last stream, unless its machine has refused connections since.
    let mut reached = None;
    loop {
        if let Some((address, channel)) = connect(&mut resolver, &from).await {
            tracing::info!(replica = to, %address, "replica reached");
            stream(own, to, channel, &mut queue, &commands).await;
            tracing::warn!(replica = to, %address, "stream to replica ended");
            reached = Some(address);
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
        if let Some(address) = reached
            && has_ended(&mut resolver, &from, address).await
        {
            reached = None;
            tracing::warn!(replica = to, %address, "its machine refuses connections: taken for ended");
            let _ = commands.send(Command::Gone(to)).await;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Dials the addresses of a replica, one after the other.
async fn connect(resolver: &mut Resolver, from: &Sources) -> Option<(SocketAddr, Channel)> {
    for address in resolver.addresses().await {
        // An address with a zone makes no URI.
        let Ok(endpoint) = Endpoint::from_shared(format!("http://{address}")) else {
            continue;
        };
        let endpoint = endpoint
            .local_address(from.assigned())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        if let Ok(channel) = endpoint.connect().await {
            return Some((*address, channel));
        }
    }
    None
}

/// Returns true if connections are refused at each address that a replica has now. If the address where it was reached is
/// not among them, the replica has moved, and may be starting there.
async fn has_ended(resolver: &mut Resolver, from: &Sources, reached: SocketAddr) -> bool {
    let addresses = resolver.addresses().await;
    for address in addresses {
        if !refuses(*address, from).await {
            return false;
        }
    }
    addresses.contains(&reached)
}

/// Returns true if connections are refused: no process listens there, or a firewall refuses them.
async fn refuses(address: SocketAddr, from: &Sources) -> bool {
    let dialed = tokio::time::timeout(RETRY, dialed(address, from)).await;
    matches!(dialed, Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused)
}

async fn dialed(to: SocketAddr, from: &Sources) -> std::io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(from) = from.assigned().filter(|it| it.is_ipv4() == to.is_ipv4()) {
        socket.bind((from, 0).into())?;
    }
    socket.connect(to).await
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
    /// The end of each sender's newest stream; dropped, it ends the one before.
    newest: Mutex<BTreeMap<u64, oneshot::Sender<Infallible>>>,
}

impl Inbound {
    /// Takes streams from `members` for replica `own`.
    pub fn new(own: u64, members: Vec<u64>, commands: mpsc::Sender<Command>) -> Self {
        Self {
            own,
            members,
            commands,
            newest: Mutex::default(),
        }
    }

    /// Makes a stream the newest one of a sender; its end is told by what is returned. One replica has one stream: so what its
    /// messages take while they come in has one bound.
    fn newest(&self, sender: u64) -> oneshot::Receiver<Infallible> {
        let (end, ended) = oneshot::channel();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.insert(sender, end);
        ended
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
        let Some(mut envelope) = envelopes.message().await? else {
            return Ok(Response::new(DeliverResponse {}));
        };
        let sender = envelope.from;
        self.check(&envelope)?;
        let mut ended = self.newest(sender);
        let mut message = BytesMut::new();
        loop {
            self.check(&envelope)?;
            if envelope.from != sender {
                return Err(Status::permission_denied("a stream has one sender"));
            }
            if message.len() + envelope.octets.len() > MESSAGE_OCTETS_MAX {
                return Err(Status::resource_exhausted(
                    "message above 1 GiB, the most that a snapshot may have",
                ));
            }
            if message.is_empty() && !envelope.more {
                self.deliver_one(sender, envelope.octets).await?;
            } else {
                message.extend_from_slice(&envelope.octets);
                if !envelope.more {
                    self.deliver_one(sender, message.split().freeze()).await?;
                }
            }
            let next = tokio::select! {
                biased;
                _ = &mut ended => return Err(Status::aborted("the sender has a newer stream")),
                next = envelopes.message() => next?,
            };
            let Some(next) = next else {
                return Ok(Response::new(DeliverResponse {}));
            };
            envelope = next;
        }
    }
}

impl Inbound {
    async fn deliver_one(&self, sender: u64, octets: Bytes) -> Result<(), Status> {
        let sent = self.commands.send(Command::Message(sender, octets)).await;
        sent.map_err(|_| Status::unavailable("the replica is stopping"))
    }
}

/// Raft keeps at most this many messages in flight; above it a replica counts as unreachable.
const QUEUE_MAX: usize = 1024;
const STREAM_QUEUE_MAX: usize = 16;
/// As the contract says; below gRPC's default limit of 4 MiB.
const PIECE_MAX: usize = 1 << 20;
const WINDOW: u32 = 4 << 20;
const RETRY: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const KEEPALIVE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Reads as far as the first HEADERS frame, then closes (RFC 9113 §3.4, §4.1).
    async fn until_request(mut stream: TcpStream) {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).await.unwrap();
        let mut head = [0; 9];
        while head[3] != 1 {
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
        }
    }

    /// The first two commands after a stream to `listener` ended.
    async fn said(listener: TcpListener, process_ends: bool) -> Vec<&'static str> {
        let address = listener.local_addr().unwrap();
        let (mut senders, mut routes) =
            queues([(2, address.into())].into_iter(), &Sources::default());
        let (commands, mut said) = mpsc::channel(16);
        let dialer = tokio::spawn(dial(1, routes.remove(0), commands));
        let _queue = senders.remove(&2).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let listener = (!process_ends).then_some(listener);
        until_request(stream).await;
        let mut heard = Vec::new();
        for _ in 0..2 {
            if let Some(listener) = &listener {
                // Another connection may be the question whether anybody listens.
                drop(listener.accept().await.unwrap());
            }
            match said.recv().await.unwrap() {
                Command::Unreachable(2) => heard.push("unreachable"),
                Command::Gone(2) => heard.push("gone"),
                _ => heard.push("something else"),
            }
        }
        dialer.abort();
        heard
    }

    #[tokio::test]
    async fn a_process_that_ended_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(said(listener, true).await, ["unreachable", "gone"]);
    }

    #[tokio::test]
    async fn a_stream_that_ended_while_somebody_listens_is_no_sign_of_that() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        assert_eq!(said(listener, false).await, ["unreachable", "unreachable"]);
    }

    #[tokio::test]
    async fn one_that_moved_is_reached_at_its_new_address() {
        let old = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let new = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let places = [&old, &new].map(|listener| listener.local_addr().unwrap());
        let at = Arc::new(AtomicUsize::new(0));
        let now = Arc::clone(&at);
        let look_up =
            move |_: &str, _: u16| Ok::<_, std::io::Error>(vec![places[now.load(Relaxed)]]);
        let name = "weft-2.example.net:7400".parse().unwrap();
        let (_queue, queue) = mpsc::channel(1);
        let route = Route {
            to: 2,
            resolver: Resolver::by(name, Arc::new(look_up)),
            from: Sources::default(),
            queue,
        };
        let (commands, _said) = mpsc::channel(16);
        let dialer = tokio::spawn(dial(1, route, commands));
        let (stream, _) = old.accept().await.unwrap();
        at.store(1, Relaxed);
        until_request(stream).await;
        new.accept().await.unwrap();
        dialer.abort();
    }

    #[tokio::test]
    async fn one_with_a_name_is_gone_if_each_address_refuses_and_the_last_is_among_them() {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let [reached, refuses, listens] = [0, 1, 2].map(|at| address(&listeners[at]));
        drop(listeners.drain(..2));
        let table = [
            (vec![reached], true),
            (vec![refuses, reached], true),
            (vec![reached, listens], false),
            (vec![refuses], false),
            (vec![], false),
        ];
        for (known, ended) in table {
            let answer = known.clone();
            let look_up = move |_: &str, _: u16| Ok::<_, std::io::Error>(answer.clone());
            let name = "weft-2.example.net:7400".parse().unwrap();
            let mut resolver = Resolver::by(name, Arc::new(look_up));
            let said = has_ended(&mut resolver, &Sources::default(), reached).await;
            assert_eq!(said, ended, "{known:?}");
        }
    }

    #[tokio::test]
    async fn a_replica_is_dialed_from_the_own_address_among_the_replicas() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        // The first one is not of this host.
        let from = Sources(vec!["192.0.2.1".parse().unwrap(), [127, 0, 0, 2].into()]);
        let (_senders, mut routes) = queues([(2, to.into())].into_iter(), &from);
        let (commands, _said) = mpsc::channel(16);
        let dialer = tokio::spawn(dial(1, routes.remove(0), commands));
        let (_stream, remote) = listener.accept().await.unwrap();
        assert_eq!(remote.ip(), from.0[1]);
        dialer.abort();
        let asked = dialed(to, &from).await.unwrap();
        assert_eq!(asked.local_addr().unwrap().ip(), from.0[1]);
    }

    /// Replica 1 of three, where the messages of others come in, and clients of it.
    async fn taken_in() -> (mpsc::Receiver<Command>, ConsensusClient<Channel>) {
        let (commands, said) = mpsc::channel(16);
        let inbound = Inbound::new(1, vec![1, 2, 3], commands);
        let service = consensus_server::ConsensusServer::new(inbound);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        let client = ConsensusClient::connect(format!("http://{address}")).await;
        (said, client.unwrap())
    }

    fn piece(from: u64, more: bool) -> Envelope {
        Envelope {
            from,
            to: 1,
            octets: Bytes::from_static(b"piece"),
            more,
        }
    }

    #[tokio::test]
    async fn a_stream_has_one_sender() {
        let (mut said, mut client) = taken_in().await;
        let pieces = [piece(2, false), piece(2, true), piece(3, false)];
        let ended = client.deliver(tokio_stream::iter(pieces)).await;
        assert_eq!(ended.unwrap_err().code(), tonic::Code::PermissionDenied);
        assert!(matches!(said.recv().await, Some(Command::Message(2, _))));
        assert!(
            said.try_recv().is_err(),
            "pieces of two senders are no message"
        );
    }

    #[tokio::test]
    async fn a_newer_stream_of_a_sender_ends_the_one_before() {
        let (mut said, mut client) = taken_in().await;
        let (first, pieces) = mpsc::channel(1);
        let mut other = client.clone();
        let old = tokio::spawn(async move { other.deliver(ReceiverStream::new(pieces)).await });
        first.send(piece(2, false)).await.unwrap();
        assert!(matches!(said.recv().await, Some(Command::Message(2, _))));
        first.send(piece(2, true)).await.unwrap();
        for from in [3, 2] {
            assert!(!old.is_finished());
            let pieces = tokio_stream::iter([piece(from, false)]);
            client.deliver(pieces).await.unwrap();
            assert!(matches!(said.recv().await, Some(Command::Message(_, _))));
        }
        let ended = old.await.unwrap();
        assert_eq!(ended.unwrap_err().code(), tonic::Code::Aborted);
    }

    #[tokio::test]
    async fn one_that_was_never_reached_is_not_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let (_senders, mut routes) = queues([(2, address.into())].into_iter(), &Sources::default());
        let (commands, mut said) = mpsc::channel(16);
        let dialer = tokio::spawn(dial(1, routes.remove(0), commands));
        for _ in 0..2 {
            assert!(matches!(said.recv().await, Some(Command::Unreachable(2))));
        }
        dialer.abort();
    }
}
