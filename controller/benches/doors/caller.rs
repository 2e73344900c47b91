//! Real callers: they ask at a steady rate, each time over a connection of its own, and note the longest time to an answer.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use weft_proto::v1::fabric_service_client::FabricServiceClient;
use weft_proto::v1::watch_service_client::WatchServiceClient;
use weft_proto::v1::{self as proto};

use crate::network::{At, Door, Family};

/// One who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// Reads the fabric.
    Read,
    /// Applies a fabric of one spine.
    Apply,
    /// Reads the metrics page.
    Scrape,
}

impl Caller {
    /// Asks a replica until a moment, and waits for the last answers. Returns the longest time; a call that fails took as long
    /// as callers wait.
    pub(crate) async fn ask(self, at: At, until: Instant) -> Duration {
        let mut ticks = interval(self.every());
        let mut calls = JoinSet::new();
        while Instant::now() < until {
            ticks.tick().await;
            calls.spawn(self.once(at));
        }
        let took = calls.join_all().await.into_iter();
        took.max().unwrap_or(PATIENCE)
    }

    async fn once(self, at: At) -> Duration {
        let begin = Instant::now();
        let answered = timeout(PATIENCE, async {
            match self {
                Self::Read => read(at).await.is_ok(),
                Self::Apply => apply(at, fabric()).await.is_ok(),
                Self::Scrape => scrape(at).await.is_some(),
            }
        });
        match answered.await {
            Ok(true) => begin.elapsed(),
            Ok(false) | Err(_) => PATIENCE,
        }
    }

    fn every(self) -> Duration {
        match self {
            Self::Read => Duration::from_millis(100),
            Self::Apply | Self::Scrape => Duration::from_millis(500),
        }
    }
}

/// A connection to the API of a replica, made when it is first used.
pub(crate) fn channel(at: At) -> Channel {
    let api = at.door(Door::Api);
    let endpoint = Endpoint::from_shared(format!("http://{api}")).unwrap();
    endpoint
        .local_address(Some(at.caller()))
        .connect_timeout(PATIENCE)
        .connect_lazy()
}

async fn read(at: At) -> Result<proto::GetFabricResponse, Status> {
    let mut client = FabricServiceClient::new(channel(at));
    Ok(client
        .get_fabric(proto::GetFabricRequest {})
        .await?
        .into_inner())
}

/// The leader that a replica names, or why it names none.
pub(crate) async fn leader(at: At) -> Result<u64, String> {
    let answer = timeout(Duration::from_secs(1), read(at)).await;
    let answer = answer.map_err(|_| "no answer".to_owned())?;
    let header = answer.map_err(|status| format!("{status:?}"))?.header;
    let leader = header.and_then(|header| header.leader_id);
    leader.ok_or_else(|| "no leader is known".to_owned())
}

/// One spine. weft refuses a fabric of nothing, and one without a name.
fn fabric() -> proto::ApplyFabricRequest {
    proto::ApplyFabricRequest {
        display_name: "doors".to_owned(),
        switches: vec![proto::Switch {
            name: "spine1".to_owned(),
            role: proto::SwitchRole::Spine.into(),
            ..proto::Switch::default()
        }],
        ..proto::ApplyFabricRequest::default()
    }
}

/// Applies a fabric.
pub(crate) async fn apply(at: At, fabric: proto::ApplyFabricRequest) -> Result<(), Status> {
    let mut client = FabricServiceClient::new(channel(at));
    let mut answer = client
        .apply_fabric(tokio_stream::iter([fabric]))
        .await?
        .into_inner();
    while answer.message().await?.is_some() {}
    Ok(())
}

/// The metrics page of a replica.
pub(crate) async fn scrape(at: At) -> Option<String> {
    let page = async {
        let mut stream = connect(at).await.ok()?;
        let request = b"GET /metrics HTTP/1.1\r\nHost: 10.99.1.1\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.ok()?;
        let mut page = Vec::new();
        stream.read_to_end(&mut page).await.ok()?;
        let page = String::from_utf8(page).ok()?;
        page.starts_with("HTTP/1.1 200").then_some(page)
    };
    timeout(PATIENCE, page).await.ok()?
}

async fn connect(at: At) -> std::io::Result<TcpStream> {
    let socket = match at.family {
        Family::V4 => TcpSocket::new_v4()?,
        Family::V6 => TcpSocket::new_v6()?,
    };
    socket.bind(SocketAddr::from((at.caller(), 0)))?;
    socket.connect(at.door(Door::Metrics)).await
}

/// Follows the declared resources of a replica until a moment. Returns false if the stream ended before.
pub(crate) async fn watch(at: At, until: Instant) -> bool {
    let mut client = WatchServiceClient::new(channel(at));
    let Ok(stream) = client.watch(proto::WatchRequest::default()).await else {
        return false;
    };
    let mut stream = stream.into_inner();
    loop {
        match tokio::time::timeout_at(until, stream.message()).await {
            Ok(Ok(Some(_))) => {}
            Ok(_) => return false,
            Err(_) => return true,
        }
    }
}

/// How long a caller waits.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
