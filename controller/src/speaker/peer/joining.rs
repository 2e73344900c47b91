//! How a peer gets its routes: what it wants of the reflector and why, and what its writer is told then.
//! Knows nothing of what is in them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::update::Update;
use weft_bgp::message::{Message, RouteRefresh};
use weft_bgp::peer::PeerId;
use weft_bgp::session::Input;

use super::Peer;
use super::exporting::{Manner, Way};
use super::pace::Kind;
use crate::reflector::thread::{Joined, Turned};
use crate::speaker::gate::{Gate, Held};
use crate::speaker::saved::Saved;
use crate::speaker::weights::Own;
use crate::speaker::writer::{Order, Repeat, Stream, Ticket, Turning};

impl Peer {
    /// Notes that routes are wanted, and asks for them unless an answer is under way already.
    pub(super) fn want(&mut self, family: Family, why: Why, since: u64) {
        self.wanted.insert((family, why), since);
        self.ask();
    }

    /// Asks for everything wanted, in one go. A joiner first waits until this replica knows all that was
    /// agreed when it came; without a majority it gets what there is, and no End-of-RIB.
    pub(super) fn ask(&mut self) {
        if self.up.is_none() || self.joining.is_some() {
            return;
        }
        if let Some(up) = &mut self.up {
            up.exporting.pace.begin();
        }
        let wishes = self.wishes();
        let turn = self.next_turn(&wishes);
        if wishes.is_empty() && turn.is_none() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.joining = Some(Box::pin(async move {
            let mut answer = Answer::default();
            let confirm = wishes.iter().any(|wish| wish.why <= Why::End);
            let index = if confirm {
                shared.consensus.read_index().await
            } else {
                None
            };
            for wish in wishes {
                if wish.why <= Why::End && index.is_none() {
                    answer.owed.push(wish.family);
                    if wish.why == Why::End {
                        continue;
                    }
                }
                let (manner, at) = (wish.manner.clone(), index.unwrap_or(0));
                let joined = shared.reflection.join(wish.family, manner, wish.since, at);
                match joined.await {
                    Some(Ok(joined)) => answer.take(wish, joined, index.is_some()),
                    Some(Err(_)) => answer.lost = true,
                    None => return answer,
                }
            }
            if let Some(way) = turn {
                let (old, new) = (way.old.clone(), way.new.clone());
                let gate = Arc::clone(&way.gate);
                let turned = shared.reflection.turn(way.family, old, new, gate);
                match turned.await {
                    Some(Some((turned, held))) => answer.turn(way, turned, held),
                    Some(None) => answer.lost = true,
                    None => return answer,
                }
            }
            answer
        }));
    }

    /// A family that is to turn, if no wish begins it anyway. One at a time: its stream is held until the writer has its
    /// turn, and that must not wait for another's.
    fn next_turn(&mut self, wishes: &[Wish]) -> Option<Way> {
        let exporting = &mut self.up.as_mut()?.exporting;
        let begins = |family: Family| {
            let fresh = |wish: &Wish| wish.family == family && wish.why == Why::Fresh;
            wishes.iter().any(fresh)
        };
        exporting.next_turn(super::now(), begins)
    }

    /// What is wanted, with all that its order needs. What cannot be answered yet stays wanted.
    fn wishes(&mut self) -> Vec<Wish> {
        let Some(up) = &mut self.up else {
            return Vec::new();
        };
        let (exporting, negotiated) = (&mut up.exporting, &up.negotiated);
        let connection = self.connections[up.side as usize].as_ref();
        let address = connection.and_then(|it| it.socket.local_addr().ok());
        let mut wishes = Vec::new();
        let (owed, report) = (&self.owed, &self.report);
        self.wanted.retain(|(family, why), since| {
            let (family, why) = (*family, *why);
            let marked = why == Why::Again && negotiated.enhanced_route_refresh;
            if marked && owed.owes(family) {
                return true; // RFC 7313 §4: not before End-of-RIB
            }
            let now = super::now();
            if why == Why::Again && !exporting.pace.may_order(family, Kind::Again, now) {
                return true;
            }
            let fresh = why == Why::Fresh;
            let manner = match exporting.told.get(&family) {
                Some(told) if !fresh => told.clone(),
                None if !fresh => return false, // it will be told everything anyway
                Some(_) | None => exporting.manner(family),
            };
            let whole = fresh || why == Why::Again;
            let preface = address.filter(|_| whole).and_then(|address| {
                let address = address.ip().to_canonical();
                exporting.exports.preface(family, address)
            });
            let dialect = exporting.exports.weights(family).filter(|_| fresh);
            let own = dialect.map(|dialect| {
                let weights = &self.shared.weights;
                Own::new(weights, self.setup.address, dialect)
            });
            let marks = marked.then(|| {
                let encode = |mark| Message::RouteRefresh(mark).encode(&negotiated.decode);
                let (begin, end) = (RouteRefresh::begin(family), RouteRefresh::end(family));
                (encode(begin), encode(end))
            });
            let end = Message::Update(Box::new(Update::end_of_rib(family)));
            wishes.push(Wish {
                family,
                why,
                since: *since,
                peer: negotiated.peer,
                manner,
                preface,
                own,
                marks,
                end: end.encode(&negotiated.decode),
                saved: report.saved(family),
                gate: exporting.gate(family),
                ticket: match why {
                    Why::Again => exporting.pace.order(family, Kind::Again),
                    Why::Fresh | Why::End | Why::Behind => Ticket::default(),
                },
            });
            false
        });
        wishes.sort_by_key(|wish| wish.why);
        wishes
    }

    pub(super) async fn joined(&mut self, answer: Answer) {
        self.joining = None;
        let Some(up) = &mut self.up else { return };
        let side = up.side;
        let mut lost = answer.lost;
        for (order, told) in answer.orders {
            let Some(connection) = &self.connections[side as usize] else {
                return;
            };
            if let Some((family, manner)) = told {
                self.report.told(family, manner.clone());
                up.exporting.told.insert(family, manner);
            }
            if let Order::End(family, ..) = &order {
                self.owed.pay(*family);
            }
            lost |= connection.orders.try_send(order).is_err();
        }
        if lost {
            return self.start_again().await;
        }
        if let Some((family, rest)) = answer.rest {
            up.exporting.pace.rest(family, super::now(), rest);
        }
        self.owed.owe(answer.owed, super::now());
        self.ask();
    }

    /// What this peer missed is not known any more, or it takes nothing: only a new session tells it
    /// everything.
    pub(super) async fn start_again(&mut self) {
        tracing::warn!(peer = %self.setup.address, "the peer fell too far behind; it starts again");
        self.input(Input::Stop(Cease::OutOfResources)).await;
        self.input(Input::Start).await;
    }
}

/// What is wanted of the reflector for one family, and what its order needs beside the answer.
struct Wish {
    family: Family,
    why: Why,
    since: u64,
    peer: PeerId,
    manner: Manner,
    preface: Option<Bytes>,
    own: Option<Own>,
    marks: Option<(Bytes, Bytes)>,
    end: Bytes,
    saved: Arc<Saved>,
    gate: Arc<Gate>,
    ticket: Ticket,
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

/// What the reflector answered.
#[derive(Default)]
pub(super) struct Answer {
    /// What the writer is to be told, and what the peer is told then.
    orders: Vec<(Order, Option<(Family, Manner)>)>,
    /// Some of it is not known any more.
    lost: bool,
    /// Families whose End-of-RIB waits for a majority.
    owed: Vec<Family>,
    /// A family that has turned, and how long it does not do so again.
    rest: Option<(Family, Duration)>,
}

impl Answer {
    /// `confirmed`: what was joined is everything that was agreed.
    fn take(&mut self, wish: Wish, joined: Joined, confirmed: bool) {
        let Joined {
            image,
            feed,
            cursor,
            complete,
        } = joined;
        let family = wish.family;
        let end = confirmed.then_some((complete, wish.end));
        let order = match wish.why {
            Why::Fresh | Why::Behind => Order::Begin(Box::new(Stream {
                family,
                peer: wish.peer,
                interest: wish.manner.1.clone(),
                saved: wish.saved,
                gate: wish.gate,
                preface: wish.preface,
                own: wish.own,
                image,
                feed,
                cursor,
                end_of_rib: end.filter(|_| wish.why == Why::Fresh),
            })),
            Why::Again => {
                let repeat = Repeat {
                    preface: wish.preface,
                    image,
                    cursor,
                    complete,
                    marks: wish.marks,
                    ticket: wish.ticket,
                };
                Order::Again(family, Box::new(repeat))
            }
            Why::End => match end {
                Some((complete, octets)) => Order::End(family, complete, octets),
                None => return,
            },
        };
        let told = (wish.why == Why::Fresh).then_some((family, wish.manner));
        self.orders.push((order, told));
    }

    fn turn(&mut self, way: Way, turned: Turned, held: Held) {
        let Turned {
            until,
            segment,
            feed,
            cursor,
            rest,
        } = turned;
        let (family, manner) = (way.family, way.new);
        self.rest = Some((family, rest));
        let turning = Turning {
            until,
            segment,
            feed,
            cursor,
            interest: manner.1.clone(),
            ticket: way.ticket,
        };
        let order = Order::Turn(family, Box::new(turning), held);
        self.orders.push((order, Some((family, manner))));
    }
}
