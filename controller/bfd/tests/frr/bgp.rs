//! The least of a BGP speaker: an OPEN, KEEPALIVEs, and what the other end says. Enough to see what FRR makes
//! of BFD.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// A session of AS 64496 with FRR at 192.0.2.2.
pub(crate) struct Bgp {
    stream: TcpStream,
}

/// A message: its type, and what is after the header.
pub(crate) type Message = (u8, Vec<u8>);

pub(crate) const NOTIFICATION: u8 = 3;
const OPEN: u8 = 1;
const KEEPALIVE: u8 = 4;

impl Bgp {
    /// Dials until the session is established.
    pub(crate) async fn establish() -> Self {
        for _ in 0..100 {
            if let Some(session) = Self::dial().await {
                return session;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("FRR does not accept a BGP session");
    }

    async fn dial() -> Option<Self> {
        let socket = TcpSocket::new_v4().ok()?;
        socket
            .bind("192.0.2.1:0".parse::<SocketAddr>().ok()?)
            .ok()?;
        let mut session = Self {
            stream: socket.connect("192.0.2.2:179".parse().ok()?).await.ok()?,
        };
        // Version 4, AS 64496, hold time 90 s, 192.0.2.1, no optional parameters.
        let open = [4, 0xfb, 0xf0, 0, 90, 192, 0, 2, 1, 0];
        session.send(OPEN, &open).await?;
        session.send(KEEPALIVE, &[]).await?;
        let wait = async {
            while session.receive().await?.0 != KEEPALIVE {}
            Some(())
        };
        timeout(Duration::from_secs(2), wait).await.ok()??;
        Some(session)
    }

    /// What comes within a time, KEEPALIVEs and UPDATEs aside. The hold time is longer than any test.
    pub(crate) async fn notification(&mut self, within: Duration) -> Option<Vec<u8>> {
        let wait = async {
            loop {
                let (kind, body) = self.receive().await.expect("open");
                if kind == NOTIFICATION {
                    return body;
                }
            }
        };
        timeout(within, wait).await.ok()
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> Option<()> {
        let len = u16::try_from(19 + body.len()).ok()?;
        let mut octets = vec![0xff; 16];
        octets.extend(len.to_be_bytes());
        octets.push(kind);
        octets.extend(body);
        self.stream.write_all(&octets).await.ok()
    }

    async fn receive(&mut self) -> Option<Message> {
        let mut header = [0; 19];
        self.stream.read_exact(&mut header).await.ok()?;
        let len = usize::from(u16::from_be_bytes([header[16], header[17]]));
        let mut body = vec![0; len.checked_sub(19)?];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((header[18], body))
    }
}
