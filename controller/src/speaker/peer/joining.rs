//! How a peer gets its routes: what it wants of the reflector and why, and what its writer is told then.
//! Knows nothing of what is in them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::message::Message;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::update::Update;
use weft_bgp::peer::PeerId;
use weft_bgp::session::Input;
use weft_bgp::update_group::journal::Cursor;

use super::Peer;
use crate::reflector::thread::Joined;
use crate::speaker::writer::{Order, Stream};

impl Peer {
    /// Notes that routes are wanted, and asks for them unless an answer is under way already.
    pub(super) fn want(&mut self, family: Family, why: Why, since: u64) {
        self.wanted.insert((family, why), since);
        self.ask();
    }

    /// Asks for everything wanted, in one go. A joiner first waits until this replica knows all that was
    /// agreed when it came; without a majority it gets what there is, and no End-of-RIB.
    pub(super) fn ask(&mut self) {
        let Some(up) = self.up.as_ref().filter(|_| self.joining.is_none()) else {
            return;
        };
        if self.wanted.is_empty() {
            return;
        }
        let wanted = std::mem::take(&mut self.wanted);
        let shared = Arc::clone(&self.shared);
        let (key, peer, context) = (up.key.clone(), up.negotiated.peer, up.negotiated.decode);
        self.joining = Some(Box::pin(async move {
            let mut answer = Answer::default();
            let confirm = wanted.keys().any(|(_, why)| *why <= Why::End);
            let index = if confirm {
                shared.consensus.read_index().await
            } else {
                None
            };
            for ((family, why), since) in wanted {
                let at = index.unwrap_or(0);
                if why <= Why::End && index.is_none() {
                    answer.owed.push(family);
                    if why == Why::End {
                        continue;
                    }
                }
                match shared.reflection.join(family, key.clone(), since, at).await {
                    Some(Ok(joined)) => {
                        let end = Message::Update(Box::new(Update::end_of_rib(family)));
                        let end = index
                            .is_some()
                            .then(|| (joined.complete, end.encode(&context)));
                        answer.orders.extend(why.order(family, peer, joined, end));
                    }
                    Some(Err(_)) => answer.lost = true,
                    None => return answer,
                }
            }
            answer
        }));
    }

    pub(super) async fn joined(&mut self, answer: Answer) {
        self.joining = None;
        let Some(up) = &self.up else { return };
        let side = up.side;
        let mut lost = answer.lost;
        for order in answer.orders {
            let Some(connection) = &self.connections[side as usize] else {
                return;
            };
            lost |= connection.orders.try_send(order).is_err();
        }
        if lost {
            // What this peer missed is not known any more, or it takes nothing: only a new session
            // tells it everything.
            tracing::warn!(peer = %self.setup.address, "the peer fell too far behind; it starts again");
            self.input(Input::Stop(Cease::OutOfResources)).await;
            return self.input(Input::Start).await;
        }
        if !answer.owed.is_empty() {
            self.owed.extend(answer.owed);
            self.owed_at = Some(super::now() + OWED_RETRY);
        }
        self.ask();
    }
}

/// Why routes are wanted. Those that end with End-of-RIB come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// The session has just been established.
    Fresh,
    /// End-of-RIB is still owed.
    End,
    /// The peer fell off the journal.
    Behind,
    /// The peer asked, RFC 2918.
    Again,
}

impl Why {
    fn order(
        self,
        family: Family,
        peer: PeerId,
        joined: Joined,
        end: Option<(Cursor, Bytes)>,
    ) -> Option<Order> {
        let Joined {
            image,
            feed,
            cursor,
            ..
        } = joined;
        let begin = |end_of_rib| {
            let stream = Stream {
                family,
                peer,
                image: Arc::clone(&image),
                feed,
                cursor,
                end_of_rib,
            };
            Order::Begin(Box::new(stream))
        };
        match self {
            Self::Fresh => Some(begin(end)),
            Self::Behind => Some(begin(None)),
            Self::Again => Some(Order::Again(family, image, cursor)),
            Self::End => end.map(|(complete, octets)| Order::End(family, complete, octets)),
        }
    }
}

/// What the reflector answered.
#[derive(Default)]
pub(super) struct Answer {
    orders: Vec<Order>,
    /// Some of it is not known any more.
    lost: bool,
    /// Families whose End-of-RIB waits for a majority.
    owed: Vec<Family>,
}

/// Between two attempts to learn that what was sent is everything.
const OWED_RETRY: Duration = Duration::from_secs(1);
