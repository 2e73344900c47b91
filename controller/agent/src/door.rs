//! Who may connect: addresses from the agent's own command line. Knows nothing of what is said.

use std::io;
use std::net::IpAddr;

use futures::{Stream, StreamExt};
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::TcpListenerStream;

use crate::driver::Command;

/// Connections from addresses inside of `allowed`; others are closed at once, and told to the driver.
pub fn connections(
    listener: TcpListener,
    allowed: Vec<IpNet>,
    commands: mpsc::Sender<Command>,
) -> impl Stream<Item = io::Result<TcpStream>> {
    TcpListenerStream::new(listener).filter_map(move |connection| {
        let accepted = match connection {
            Ok(stream) => admit(stream, &allowed, &commands).map(Ok),
            Err(error) => Some(Err(error)),
        };
        std::future::ready(accepted)
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
