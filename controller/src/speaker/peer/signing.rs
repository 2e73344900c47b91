//! Protection of a connection to the peer: the TTL of its packets, and the key that signs them. Refuses a connection
//! that cannot have them. Knows no state of the session.

use tokio::net::TcpStream;
use weft_bgp::session::Side;

use super::Peer;
use crate::config::Ttl;
use crate::speaker::refusal::Reason;
use crate::speaker::{keys, socket};

impl Peer {
    /// Sets what keeps others out of a connection. False: it cannot be used without.
    pub(super) async fn prepare(&mut self, side: Side, stream: &TcpStream) -> bool {
        if let Err(error) = socket::prepare(stream, self.setup.group.ttl) {
            tracing::warn!(peer = %self.setup.address, %error, "connection not prepared");
            if matches!(self.setup.group.ttl, Ttl::Gtsm(_)) {
                self.report.failed(error.to_string());
                return false;
            }
        }
        // Keys of TCP-AO may have changed while we dialed.
        let signed = side == Side::Incoming || !self.setup.group.tcp_ao.is_empty();
        !signed || self.sign(side, stream).await
    }

    /// Gives a connection its key. One that was accepted has that of its listener, unless it came before the listener had it.
    /// Returns false if it cannot have the key that it must have.
    async fn sign(&mut self, side: Side, stream: &TcpStream) -> bool {
        let signed = match keys::read(&self.setup.group).await {
            Ok(None) => return true,
            Ok(secret) => keys::sign(stream, secret.as_ref()).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let Err(error) = signed else {
            return true;
        };
        tracing::debug!(peer = %self.setup.address, %error, "connection not signed");
        self.report.failed(error);
        if side == Side::Incoming {
            self.turn_away(stream, Reason::Unsigned);
        }
        false
    }
}
