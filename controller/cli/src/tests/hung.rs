//! Replicas that hang: a process that is stopped still accepts connections, and a thread that is stopped leaves the others answering.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use weft_proto::v1::{
    self as proto, fabric_service_server as fabric_server, peer_service_server as peer_server,
    watch_service_server as watch_server,
};

use super::operator::watched;
use super::{REPLICA, Replica, listening, typed_as};

/// Returns the address of a process that is stopped: the kernel accepts connections for it until the listener is dropped.
async fn stopped() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A replica whose thread of the store is stopped: it answers pings, and no question that needs a majority.
#[derive(Clone, Copy)]
struct Stuck;

#[tonic::async_trait]
impl fabric_server::FabricService for Stuck {
    async fn get_fabric(
        &self,
        _: Request<proto::GetFabricRequest>,
    ) -> Result<Response<proto::GetFabricResponse>, Status> {
        std::future::pending().await
    }

    async fn update_link(
        &self,
        _: Request<proto::UpdateLinkRequest>,
    ) -> Result<Response<proto::UpdateLinkResponse>, Status> {
        std::future::pending().await
    }
}

#[tonic::async_trait]
impl watch_server::WatchService for Stuck {
    /// A stream that begins, and has no first message.
    async fn watch(
        &self,
        _: Request<proto::WatchRequest>,
    ) -> Result<Response<BoxStream<proto::WatchResponse>>, Status> {
        Ok(Response::new(Box::pin(tokio_stream::pending())))
    }
}

#[tonic::async_trait]
impl peer_server::PeerService for Stuck {
    async fn list_peers(
        &self,
        _: Request<proto::ListPeersRequest>,
    ) -> Result<Response<proto::ListPeersResponse>, Status> {
        Ok(Response::new(proto::ListPeersResponse::default()))
    }
}

async fn stuck() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Server::builder()
        .add_service(fabric_server::FabricServiceServer::new(Stuck))
        .add_service(watch_server::WatchServiceServer::new(Stuck))
        .add_service(peer_server::PeerServiceServer::new(Stuck))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    address
}

/// Types words at several addresses. Returns what was printed, the exit code, and the time that it took.
async fn timed(addresses: &[&str], words: &[&str]) -> (String, u8, Duration) {
    let began = Instant::now();
    let addresses = addresses.join(",");
    let (printed, result) = typed_as(&[&["--address", &addresses], words].concat()).await;
    let code = result.map_or_else(|failure| failure.exit_code(), |()| 0);
    (printed, code, began.elapsed())
}

/// Commands give up within 2 s, and `weft status` within 3 s; a machine that has much else to do gets some more.
const ROOM: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_command_ends_within_two_seconds_if_nobody_answers_pings() {
    let (_one, first) = stopped().await;
    let (_two, second) = stopped().await;
    let (_three, third) = stopped().await;
    let all = [first.as_str(), &second, &third];
    let link = "leaf1:eth1--spine1:eth1";
    let commands = [
        (&["peer", "list"][..], 2),
        (&["link", "down", link], 2),
        (&["peer", "reset", "192.0.2.11"], 2),
        (&["fabric", "watch", "-o", "json"], 2),
        (&["rib", "dump", "-"], 2),
        (&["status"], 3),
    ];
    for addresses in [&all[..], &all[..1]] {
        let ends = commands.map(|(words, _)| timed(addresses, words));
        for ((words, secs), (printed, code, took)) in commands.iter().zip(join_all(ends).await) {
            assert_eq!((printed.as_str(), code), ("", 2), "{words:?}");
            assert!(
                took < Duration::from_secs(*secs) + ROOM,
                "{words:?} {took:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_replica_without_a_majority_answers_what_it_knows_by_itself() {
    let (_one, first) = stopped().await;
    let (_three, third) = stopped().await;
    let stuck = stuck().await;
    let words = ["peer", "list", "-o", "name"];
    let (printed, code, took) = timed(&[&first, &stuck, &third], &words).await;
    assert_eq!((printed.as_str(), code), ("", 0));
    assert!(took < Duration::from_secs(2) + ROOM, "{took:?}");
}

#[tokio::test]
async fn nobody_waits_for_one_of_three_replicas() {
    let (_listener, stopped) = stopped().await;
    let stuck = stuck().await;
    let replica = Replica {
        group: &[3],
        ..REPLICA
    };
    let alive = listening(replica).await.to_string();
    let all = [stopped.as_str(), &stuck, &alive];
    let link = "leaf1:eth1--spine1:eth1";
    let down = format!("link {link} down, revision 5\n");
    for (words, expected) in [
        (
            &["peer", "list", "-o", "name"][..],
            "192.0.2.11\n192.0.2.12\n",
        ),
        (&["link", "down", link], &down),
        (&["rib", "dump", "-"], "MRT"),
    ] {
        let (printed, code, took) = timed(&all, words).await;
        assert_eq!((printed.as_str(), code), (expected, 0), "{words:?}");
        // Two replicas are passed over, each after a tenth of a second.
        assert!(took < Duration::from_secs(1) + ROOM, "{words:?} {took:?}");
    }
    let printed = watched(&all.join(","), &["fabric", "watch", "-o", "name"]).await;
    assert_eq!(printed, format!("{link}\n"));
}

#[tokio::test]
async fn a_replica_that_hangs_is_one_line_of_the_status() {
    let (_listener, stopped) = stopped().await;
    let replica = Replica {
        id: 1,
        group: &[1, 2],
        ..REPLICA
    };
    let alive = listening(replica).await.to_string();
    let (printed, code, took) = timed(&[&stopped, &alive], &["status"]).await;
    assert_eq!(code, 3, "{printed}");
    assert!(took < Duration::from_secs(3) + ROOM, "{took:?}");
    let line = format!("no answer from {stopped}: ");
    assert_eq!(printed.matches(&line).count(), 1, "{printed}");
    assert!(
        printed.contains("\nconfig    1 of 2 replicas are compared "),
        "{printed}"
    );
    assert!(
        printed.contains(" established at 1 of 2 replicas "),
        "{printed}"
    );
}
