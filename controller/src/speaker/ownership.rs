//! Drives one peer's stake in the replicated facts: gives it the time, what is agreed and what became of its proposals.
//! Knows clocks, channels and the consensus; every decision is the stake's.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::Instant;
use weft_bgp::error::DecodeError;
use weft_bgp::message::RouteRefresh;
use weft_bgp::message::update::Update;
use weft_bgp::peer::PeerId;
use weft_store::{Batch, Outcome};

use super::Shared;
use crate::consensus::Room;
use crate::reflector::learn::Learned;
use crate::reflector::learn::sanity::FabricView;
use crate::reflector::owner::{Agreed, Parting};
use crate::reflector::stake::{self, Driver, Facts, Parties, Stake, Terms, Ticket};

/// A stake and what it waits for.
pub struct Ownership {
    /// What it is about; steps that need the time are methods of this one.
    pub stake: Stake,
    agreed: watch::Receiver<Agreed>,
    view: watch::Receiver<Arc<FabricView>>,
    asked: Asked,
    /// The times of the stake are from then on.
    began: Instant,
    /// The daemon stops: there is nobody to agree with any more.
    stopped: bool,
}

impl Ownership {
    /// The stake in a peer whose session has just been established; `None` while the daemon stops.
    pub async fn begin(
        shared: &Arc<Shared>,
        peer: PeerId,
        address: IpAddr,
        terms: Terms,
        now: Instant,
    ) -> Option<Self> {
        let mut agreed = shared.reflection.follow(peer).await?;
        let mut view = shared.reflection.view();
        let parties = Parties {
            replica: shared.replica,
            members: shared.members.clone(),
            local: shared.local,
            peer,
            address,
        };
        let seen = Arc::clone(&view.borrow_and_update());
        let known = agreed.borrow_and_update().clone();
        Some(Self {
            stake: Stake::begin(parties, terms, seen, known, Duration::ZERO),
            agreed,
            view,
            asked: Asked {
                shared: Arc::clone(shared),
                peer,
                began: now,
                proposals: FuturesUnordered::new(),
                scan: None,
                last: 0,
            },
            began: now,
            stopped: false,
        })
    }

    /// Nothing of the peer is left in the facts, and no session holds it.
    pub fn is_done(&self) -> bool {
        self.stopped || self.stake.is_done()
    }

    /// Replicas that say they serve the peer.
    pub fn sessions(&self) -> std::collections::BTreeSet<u64> {
        self.agreed.borrow().sessions.clone()
    }

    /// As [`Stake::resume`].
    pub fn resume(&mut self, terms: Terms, now: Instant) {
        let view = Arc::clone(&self.view.borrow_and_update());
        self.stake.resume(terms, view, self.at(now));
    }

    /// As [`Stake::end`].
    pub fn end(&mut self, parting: Parting, ours: bool, now: Instant) {
        self.follow();
        self.stake.end(parting, ours, self.at(now));
    }

    /// As [`Stake::learn`].
    ///
    /// # Errors
    /// The session must end with the fault's NOTIFICATION.
    pub fn learn(&mut self, update: &Update, now: Instant) -> Result<Learned, DecodeError> {
        self.stake.learn(update, self.at(now))
    }

    /// As [`Stake::refreshed`].
    pub fn refreshed(&mut self, refresh: RouteRefresh, now: Instant) -> Learned {
        self.stake.refreshed(refresh, self.at(now))
    }

    /// As [`Stake::go_on`].
    pub fn go_on(&mut self, now: Instant) {
        if self.is_done() {
            return;
        }
        self.follow();
        let now = self.at(now);
        self.stake.go_on(now, &mut self.asked);
    }

    /// Waits until something happened and takes the next steps; says what that changed of what is held.
    /// May be dropped at any await.
    pub async fn turn(&mut self, now: Instant) -> Learned {
        if let Some(learned) = self.stake.refresh_due(self.at(now)) {
            return learned;
        }
        if let Some(learned) = self.stake.room() {
            return learned;
        }
        self.go_on(now);
        if self.is_done() {
            return Learned::default();
        }
        let now = self.at(now);
        let looks = self.stake.looks(now);
        let deadline = self.began + self.stake.deadline(now);
        let waits = !self.asked.proposals.is_empty();
        tokio::select! {
            changed = self.agreed.changed() => match changed {
                Ok(()) => self.agree(),
                Err(_) => {
                    self.stopped = true;
                    std::future::pending().await
                }
            },
            Ok(()) = self.view.changed(), if looks => {
                let view = Arc::clone(&self.view.borrow_and_update());
                return self.stake.see(view, self.at(Instant::now()));
            }
            Some((ticket, outcome)) = self.asked.proposals.next(), if waits => {
                self.follow();
                self.stake.ended(ticket, &outcome, self.at(Instant::now()));
            }
            (ticket, committed) = pending_or(&mut self.asked.scan) => {
                self.asked.scan = None;
                let now = self.at(Instant::now());
                self.stake.scanned(ticket, committed.as_ref(), now);
            }
            () = tokio::time::sleep_until(deadline) => {}
        }
        Learned::default()
    }

    /// The newest that is agreed, if the stake does not know it.
    fn follow(&mut self) {
        if self.agreed.has_changed().unwrap_or(false) {
            self.agree();
        }
    }

    fn agree(&mut self) {
        let agreed = self.agreed.borrow_and_update().clone();
        self.stake.agree(agreed);
    }

    fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// What the store holds of the peer, if it can be read.
type Scanned = (Ticket, Option<Facts>);

/// What the stake asked for and has not got.
struct Asked {
    shared: Arc<Shared>,
    peer: PeerId,
    /// As the ownership has it.
    began: Instant,
    proposals: FuturesUnordered<BoxFuture<'static, (Ticket, Outcome)>>,
    scan: Option<BoxFuture<'static, Scanned>>,
    last: Ticket,
}

impl Asked {
    fn ticket(&mut self) -> Ticket {
        self.last += 1;
        self.last
    }
}

impl Driver for Asked {
    type Room = Room;

    fn step(&mut self, batch: Batch) -> Ticket {
        let ticket = self.ticket();
        let consensus = self.shared.consensus.clone();
        let proposal = async move { (ticket, consensus.propose(batch).await) };
        self.proposals.push(Box::pin(proposal));
        ticket
    }

    fn room(&mut self) -> Option<Room> {
        self.shared.consensus.try_room()
    }

    fn batch(&mut self, room: Room, batch: Batch, taken: Option<Duration>) -> Ticket {
        let ticket = self.ticket();
        let taken = taken.map(|taken| (self.began + taken).into_std());
        let outcome = room.taken(taken).propose(batch);
        self.proposals
            .push(Box::pin(async move { (ticket, outcome.await) }));
        ticket
    }

    fn scan(&mut self) -> Ticket {
        let ticket = self.ticket();
        let (view, peer) = (self.shared.consensus.view().clone(), self.peer);
        let read = move || stake::committed(&view, peer).ok();
        self.scan = Some(Box::pin(async move {
            let committed = tokio::task::spawn_blocking(read).await;
            (ticket, committed.ok().flatten())
        }));
        ticket
    }

    fn away(&self) -> Duration {
        self.shared.away(self.peer)
    }

    fn is_declared(&self, address: IpAddr) -> bool {
        self.shared.reflection.is_declared(address)
    }
}

/// The future's output; for ever pending if there is none.
async fn pending_or<T>(place: &mut Option<BoxFuture<'static, T>>) -> T {
    match place {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
