//! What this replica knows of its peers, as rows that are followed. Knows no stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::Status;
use weft_proto::v1::{self as proto, ChangeType};

use super::super::peers;
use super::board::{Look, Row, Source};
use crate::speaker::Shared;

/// The peers of this replica.
pub(super) struct Peers {
    shared: Arc<Shared>,
    /// Rings when a session changed.
    sessions: watch::Receiver<()>,
}

impl Peers {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            sessions: shared.sessions(),
        }
    }
}

impl Source for Peers {
    type Row = proto::Peer;

    async fn rows(&self) -> Result<Vec<proto::Peer>, Status> {
        peers::all(&self.shared).await
    }

    /// Waits until a session changed, and not too long: some things no session says.
    async fn wait(&mut self, _: &Look) -> bool {
        // Many sessions that come together are one look.
        sleep(AT_MOST).await;
        let rung = timeout(AT_LEAST, self.sessions.changed()).await;
        // Nobody rings while the daemon stops.
        !matches!(rung, Ok(Err(_)))
    }
}

impl Row for proto::Peer {
    type Change = proto::PeerChange;
    const KIND: &'static str = "peers";
    const HAS_OTHER_NAMES: bool = true;

    /// Its address here, and its router id.
    fn names(&self) -> impl Iterator<Item = &str> {
        let address = self.session.as_ref().map(|it| it.address.as_str());
        address.into_iter().chain(self.router_id.as_deref())
    }

    fn is_still(&self, other: &Self) -> bool {
        uncounted(self) == uncounted(other)
    }

    fn named(&self) -> Self {
        let session = self.session.as_ref().map(|it| proto::PeerSession {
            address: it.address.clone(),
            ..proto::PeerSession::default()
        });
        Self {
            router_id: self.router_id.clone(),
            session,
            ..Self::default()
        }
    }

    fn change(self, change: ChangeType) -> proto::PeerChange {
        proto::PeerChange {
            change_type: change.into(),
            peer: Some(self),
        }
    }
}

/// A peer without what is counted, which changes all the time.
fn uncounted(peer: &proto::Peer) -> proto::Peer {
    let session = peer.session.clone().map(|it| proto::PeerSession {
        messages_received: 0,
        messages_sent: 0,
        ..it
    });
    proto::Peer {
        route_count: 0,
        session,
        ..peer.clone()
    }
}

/// Who owns a peer, and whether its routes are stale, rings nowhere.
const AT_LEAST: Duration = Duration::from_secs(1);
const AT_MOST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(asn: u32, messages: u64) -> proto::Peer {
        proto::Peer {
            asn: Some(asn),
            router_id: Some("192.0.2.11".to_owned()),
            route_count: messages,
            session: Some(proto::PeerSession {
                address: "192.0.2.1".to_owned(),
                messages_received: messages,
                messages_sent: messages,
                ..proto::PeerSession::default()
            }),
            ..proto::Peer::default()
        }
    }

    #[test]
    fn what_is_counted_is_no_change_and_names_are_left_of_a_peer_that_went() {
        assert!(peer(64_496, 1).is_still(&peer(64_496, 9)));
        assert!(!peer(64_496, 1).is_still(&peer(64_497, 1)));
        let gone = peer(64_496, 1).named();
        assert_eq!(
            gone.names().collect::<Vec<_>>(),
            ["192.0.2.1", "192.0.2.11"]
        );
        assert_eq!((gone.asn, gone.route_count), (None, 0));
        // One that has a session to another replica alone.
        let elsewhere = proto::Peer {
            session: None,
            ..peer(64_496, 1)
        };
        assert_eq!(elsewhere.names().collect::<Vec<_>>(), ["192.0.2.11"]);
    }
}
