//! Raw HTTP/2 (RFC 9113): frames of a client that keeps to no rule but those that it wants to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Semaphore, mpsc};

/// A connection, and what the server says of it.
pub(crate) struct Http2 {
    write: OwnedWriteHalf,
    windows: Arc<Windows>,
    /// Streams that the server ended.
    pub(crate) ended: mpsc::UnboundedReceiver<u32>,
    next: u32,
}

/// Octets that the server takes yet (RFC 9113 §5.2).
struct Windows {
    connection: Semaphore,
    /// Window of the first stream.
    first: Semaphore,
    /// Window of each stream when it is opened.
    initial: AtomicU32,
}

impl Http2 {
    /// Sends preface and SETTINGS. Frames of the server are read in a task of their own.
    pub(crate) async fn open(stream: TcpStream) -> io::Result<Self> {
        let (read, mut write) = stream.into_split();
        // An acknowledgement in advance: servers send their SETTINGS first.
        let settings = [
            PREFACE,
            &frame(SETTINGS, 0, 0, &[]),
            &frame(SETTINGS, ACK, 0, &[]),
        ];
        write.write_all(&settings.concat()).await?;
        let windows = Arc::new(Windows {
            connection: Semaphore::new(WINDOW as usize),
            first: Semaphore::new(WINDOW as usize),
            initial: AtomicU32::new(WINDOW),
        });
        let (ends, ended) = mpsc::unbounded_channel();
        tokio::spawn(read_frames(read, Arc::clone(&windows), ends));
        Ok(Self {
            write,
            windows,
            ended,
            next: 1,
        })
    }

    /// Begins a gRPC call; `message` is all of its request if there is one.
    pub(crate) async fn call(&mut self, path: &str, message: Option<&[u8]>) -> io::Result<u32> {
        let stream = self.next;
        self.next += 2;
        let mut octets = frame(HEADERS, END_HEADERS, stream, &grpc(path));
        if let Some(message) = message {
            octets.extend(frame(DATA, END_STREAM, stream, &part(message)));
        }
        self.write.write_all(&octets).await?;
        Ok(stream)
    }

    /// Sends octets on the first stream as fast as both windows permit.
    pub(crate) async fn pour(&mut self, octets: &[u8]) -> io::Result<()> {
        for octets in octets.chunks(FRAME) {
            take(&self.windows.first, octets.len()).await?;
            take(&self.windows.connection, octets.len()).await?;
            self.write.write_all(&frame(DATA, 0, 1, octets)).await?;
        }
        Ok(())
    }

    /// Fills the window of a stream that has sent nothing yet with the begin of a message.
    pub(crate) async fn fill(&mut self, stream: u32) -> io::Result<()> {
        let mut left = self.windows.initial.load(Ordering::Relaxed).min(MESSAGE) as usize;
        let mut octets = prefix(MESSAGE);
        while left > 0 {
            octets.resize(left.min(FRAME), 0);
            take(&self.windows.connection, octets.len()).await?;
            self.write
                .write_all(&frame(DATA, 0, stream, &octets))
                .await?;
            left -= octets.len();
            octets.clear();
        }
        Ok(())
    }

    /// Sends frames as they are.
    pub(crate) async fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        self.write.write_all(octets).await
    }
}

async fn take(window: &Semaphore, octets: usize) -> io::Result<()> {
    let octets = u32::try_from(octets).expect("a frame is small");
    let taken = window.acquire_many(octets).await;
    taken
        .map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?
        .forget();
    Ok(())
}

/// Reads until the connection ends; then nothing more can be sent.
async fn read_frames(
    mut read: OwnedReadHalf,
    windows: Arc<Windows>,
    ends: mpsc::UnboundedSender<u32>,
) {
    let ended = |stream| {
        if stream == 1 {
            windows.first.close();
        }
        let _nobody_asks = ends.send(stream);
    };
    let mut payload = Vec::new();
    let mut header = [0; 9];
    while read.read_exact(&mut header).await.is_ok() {
        let [a, b, c, kind, flags, stream @ ..] = header;
        payload.resize(u32::from_be_bytes([0, a, b, c]) as usize, 0);
        if read.read_exact(&mut payload).await.is_err() {
            break;
        }
        let stream = u32::from_be_bytes(stream);
        match (kind, &payload[..]) {
            (GOAWAY, _) => break,
            (RST_STREAM, _) => ended(stream),
            (HEADERS | DATA, _) if flags & END_STREAM != 0 => ended(stream),
            (WINDOW_UPDATE, &[a, b, c, d]) => {
                let more = u32::from_be_bytes([a, b, c, d]) as usize;
                match stream {
                    0 => windows.connection.add_permits(more),
                    1 => windows.first.add_permits(more),
                    _ => {}
                }
            }
            (SETTINGS, settings) => windows.learn(settings),
            _ => {}
        }
    }
    windows.connection.close();
    windows.first.close();
}

impl Windows {
    fn learn(&self, settings: &[u8]) {
        for setting in settings.chunks_exact(6) {
            if let &[0, INITIAL_WINDOW, a, b, c, d] = setting {
                let initial = u32::from_be_bytes([a, b, c, d]);
                self.initial.store(initial, Ordering::Relaxed);
                self.first
                    .add_permits(initial.saturating_sub(WINDOW) as usize);
            }
        }
    }
}

/// One frame (RFC 9113 §4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len())
        .expect("a frame is small")
        .to_be_bytes();
    let mut octets = length.to_vec();
    octets.extend([kind, flags]);
    octets.extend(stream.to_be_bytes());
    octets.extend(payload);
    octets
}

/// A message of gRPC with its prefix.
pub(crate) fn part(message: &[u8]) -> Vec<u8> {
    let mut octets = prefix(u32::try_from(message.len()).expect("a message is small"));
    octets.extend(message);
    octets
}

/// The prefix of a message of gRPC that has so many octets.
pub(crate) fn prefix(octets: u32) -> Vec<u8> {
    [&[0], &octets.to_be_bytes()[..]].concat()
}

/// The header block of a gRPC call.
pub(crate) fn grpc(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "10.99.1.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    fields
        .into_iter()
        .flat_map(|(name, value)| field(name, value))
        .collect()
}

/// A literal field without indexing (RFC 7541 §6.2.2).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut octets = vec![0];
    for text in [name, value] {
        let length = text.len();
        if length < 127 {
            octets.push(length as u8);
        } else {
            // RFC 7541 §5.1.
            octets.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                octets.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            octets.push(rest as u8);
        }
        octets.extend(text.as_bytes());
    }
    octets
}

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
/// SETTINGS_INITIAL_WINDOW_SIZE.
pub(crate) const INITIAL_WINDOW: u8 = 4;
/// Of a connection, and of a stream, unless SETTINGS say otherwise.
const WINDOW: u32 = 65_535;
/// Every server takes frames of this length.
const FRAME: usize = 16_384;
/// The largest message that gRPC servers take unless told otherwise.
const MESSAGE: u32 = 4 << 20;
