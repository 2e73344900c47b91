//! Replicated facts: Raft on RocksDB, sans-IO towards the network and the clock.
//!
//! This crate replicates [`Batch`]es of octets: put one value under many keys, delete, delete a
//! prefix, all under conditions. It does not know what a key means, what time it is, or what a
//! socket is. A caller owns one [`Replica`], feeds it [`Input`]s (ticks, messages of other
//! replicas, proposals, reads), calls [`Replica::poll`], and acts on the [`Output`]s in order.
//!
//! ```text
//!   Propose ─┐                                   ┌─> Send      to other replicas, opaque octets
//!   Message ─┤   handle()          poll()        ├─> Applied   what a committed batch did
//!   Read    ─┼──────────> queue ───────────────> ┼─> Proposed  what became of our proposal
//!   Tick    ─┘            (one synced write      ├─> ReadReady the view is fresh enough
//!                          for all of them)      └─> Status    role, term or leader changed
//! ```
//!
//! Everything that one poll takes in is written to the log in one synced write (group commit), and
//! no vote and no acknowledgement is among the outputs before the write it speaks of is durable.

pub mod batch;
pub mod config;
pub mod error;
pub mod format;
pub mod replica;
pub mod view;

mod apply;
mod disk;
mod envelope;
mod guard;
mod identity;
mod input;
mod log;
mod membership;
mod octets;
mod open;
mod propose;
mod read;
mod ready;
mod snapshot;

pub use batch::{Applied, Batch, Change, Condition, Op, Outcome, ProposalId};
pub use config::{Config, Probe, Step};
pub use error::{OpenError, StoreError};
pub use format::FORMAT;
pub use replica::{Input, MESSAGE_OCTETS_MAX, Output, Replica, Role, Status};
pub use view::{Frozen, View};
