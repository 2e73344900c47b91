//! Listeners of HTTP and their bounds: the API, Raft and the metrics page. Knows connections and octets, and no call.
//!
//! ```text
//! listener --accept--> members (Raft) -> places --Connection--> server: calls, octets
//!                         |                 |                              |
//!                         +-- refused ------+-- refused, or another -------+-- refused
//!                                               connection gives way
//! ```

pub(crate) mod bounds;
mod connection;
pub(crate) mod members;
pub(crate) mod octets;
pub(crate) mod places;
pub mod refusals;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tonic::transport::Server;

use self::bounds::{Bounds, KEEPALIVE, STREAMS_MAX};
use self::members::Members;
use self::octets::Octets;
use self::places::{Ends, Place, Places};
use self::refusals::{Reason, Refusals};

pub use self::connection::Connection;

/// A listener's bounds and the connections that it has.
#[derive(Clone, Debug)]
pub struct Door {
    bounds: Bounds,
    places: Arc<Places>,
    /// Heads of HTTP/1 that have not come whole.
    heads: Octets,
    /// `None`: clients of every address may connect.
    members: Option<Members>,
    refusals: Refusals,
}

impl Door {
    /// Returns a door without connections.
    pub(crate) fn new(bounds: Bounds, refusals: Refusals) -> Self {
        Self {
            bounds,
            places: Arc::new(Places::new(bounds)),
            heads: Octets::default(),
            members: None,
            refusals,
        }
    }

    /// Refuses connections from all other addresses.
    pub(crate) fn only(self, members: Members) -> Self {
        let members = Some(members);
        Self { members, ..self }
    }

    /// Connections in the order in which they come. One without a place is closed.
    pub(crate) fn connections(
        self,
        listener: TcpListener,
    ) -> impl Stream<Item = std::io::Result<Connection>> {
        futures::stream::unfold((self, listener), |(door, listener)| async move {
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        if let Some(connection) = door.admit(stream, from) {
                            return Some((Ok(connection), (door, listener)));
                        }
                    }
                    // Most of all: no descriptor is left, until one is.
                    Err(error) => {
                        let door = door.bounds.door;
                        tracing::warn!(door, %error, "a connection is not accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        })
    }

    fn admit(&self, stream: TcpStream, from: SocketAddr) -> Option<Connection> {
        let is_member = |it: &Members| it.admits(from.ip());
        if !self.members.as_ref().is_none_or(is_member) {
            self.refuse(Reason::Stranger, from);
            return None;
        }
        let ends = Ends {
            remote: from,
            local: stream.local_addr().ok(),
        };
        match self.places.take(ends) {
            Ok((place, lost)) => {
                if let Some(lost) = lost {
                    self.refuse(Reason::GaveWay, lost);
                }
                Some(Connection::new(stream, place, self.clone()))
            }
            Err(reason) => {
                self.refuse(reason, from);
                None
            }
        }
    }

    /// Counts and logs a refusal.
    pub(crate) fn refuse(&self, reason: Reason, from: SocketAddr) {
        self.refusals.note(self.bounds.door, reason, from);
    }

    /// The place of the connection that a call comes over.
    pub(crate) fn place(&self, ends: &Ends) -> Option<Arc<Place>> {
        self.places.find(ends)
    }
}

/// A server with the bounds of all doors.
pub(crate) fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
