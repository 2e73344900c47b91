//! The seam between a stake and whoever drives it: what a stake asks for, and how an answer is named. Knows no state of either.

use std::net::IpAddr;
use std::time::Duration;

use weft_store::Batch;

/// Names a proposal or a scan until it is answered.
pub type Ticket = u64;

/// The task or simulator that drives a stake and carries out its requests.
pub trait Driver {
    /// A place in the queue of proposals.
    type Room;

    /// Proposes a step as soon as there is room.
    fn step(&mut self, batch: Batch) -> Ticket;

    /// Room for one batch, if there is any now.
    fn room(&mut self) -> Option<Self::Room>;

    /// Proposes a batch, before whatever is proposed after it; `taken` is when an UPDATE in it was, if that is measured.
    fn batch(&mut self, room: Self::Room, batch: Batch, taken: Option<Duration>) -> Ticket;

    /// Reads what the facts hold of the peer, by [`committed`](super::committed), for [`Stake::scanned`](super::Stake::scanned).
    fn scan(&mut self) -> Ticket;

    /// For how long the peer has been away that nobody serves, or claimed yet.
    fn away(&self) -> Duration;

    /// True if the declared fabric names the address as the `peer_address` of a switch.
    fn is_declared(&self, address: IpAddr) -> bool;
}
