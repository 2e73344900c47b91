//! What people and machines ask of weft: gRPC, and the metrics page. Knows words and pages; the
//! answers are the reflector's, the speaker's, the store's and the balancer's.

mod access;
mod balance;
pub(crate) mod config;
mod explain;
pub mod fabric;
#[cfg(test)]
mod lone;
mod look;
pub mod metrics;
mod moves;
mod neighbors;
mod peers;
mod plans;
mod refusal;
mod replicas;
pub mod requests;
mod rib;
mod routes;
pub mod service;
mod views;
pub mod watch;

/// Places of a table that are looked at, and destinations that are copied at most, at a time: some milliseconds of
/// the tables' thread.
const PART: usize = 20_000;
