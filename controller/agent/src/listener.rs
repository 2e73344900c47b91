//! Who may connect: addresses from the agent's own command line. Knows nothing of what is said.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures::{Stream, StreamExt};
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::TcpListenerStream;

use crate::driver::Command;

/// Connections from addresses inside of `allowed`; others are closed at once, and told to the driver.
pub fn connections(
    listener: TcpListener,
    allowed: Vec<IpNet>,
    commands: mpsc::Sender<Command>,
) -> impl Stream<Item = io::Result<TcpStream>> {
    let connections = TcpListenerStream::new(listener).then(|connection| async {
        if let Err(error) = &connection {
            // No descriptors left, say: they come back when somebody goes.
            tracing::warn!(%error, "a connection was not accepted");
            sleep(PAUSE).await;
        }
        connection.ok()
    });
    connections.filter_map(move |connection| {
        let admitted = connection.and_then(|stream| admit(stream, &allowed, &commands));
        std::future::ready(admitted.map(Ok))
    })
}

fn admit(
    stream: TcpStream,
    allowed: &[IpNet],
    commands: &mpsc::Sender<Command>,
) -> Option<TcpStream> {
    // Who is gone again already is not there.
    let address = stream.peer_addr().ok()?.ip().to_canonical();
    if !may(allowed, address) {
        tracing::warn!(%address, "connection refused: not a --controller address");
        // A driver with a full queue does not need one more reason to be busy.
        let _full = commands.try_send(Command::Refused(address));
        return None;
    }
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "no TCP_NODELAY");
    }
    Some(stream)
}

fn may(allowed: &[IpNet], address: IpAddr) -> bool {
    allowed.iter().any(|network| network.contains(&address))
}

/// After a connection that was not accepted: the next attempt may fail in the same way.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_networks_may_connect() {
        let allowed: Vec<IpNet> = ["192.0.2.0/24", "2001:db8::7/128"]
            .iter()
            .map(|text| text.parse().expect("a prefix"))
            .collect();
        let may = |text: &str| may(&allowed, text.parse().expect("an address"));
        assert!(may("192.0.2.77") && may("2001:db8::7"));
        assert!(!may("192.0.3.1") && !may("2001:db8::8") && !may("127.0.0.1"));
    }
}
