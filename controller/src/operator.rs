//! What people and machines ask of weft: gRPC, JSON, and the metrics page. Knows words and pages; the
//! answers are the reflector's, the speaker's, the store's and the balancer's.
//!
//! ```text
//! one file per service:  peers  routes  evpn  replicas  plans  config  fabric  jobs  watch
//! before each call:      requests (counts), access (which callers are answered, and for what)
//! what they share:       tables (how late a read is), header, page, family, refusal, once, agreed, leader
//! all of them:           services; json asks them over HTTP
//! ```

mod access;
mod agreed;
pub(crate) mod calls;
pub mod config;
pub mod evpn;
pub mod fabric;
mod family;
mod field;
mod header;
pub mod jobs;
pub mod json;
mod leader;
#[cfg(test)]
mod lone;
mod look;
pub mod metrics;
mod once;
mod page;
pub mod peers;
pub mod plans;
mod preference;
mod refusal;
pub mod replicas;
pub mod requests;
pub mod routes;
pub mod services;
pub mod tables;
pub mod watch;

use tonic::{Response, Status};

/// Places of a table that are looked at, and destinations that are copied at most, at a time: some milliseconds of
/// the tables' thread.
const PART: usize = 20_000;

/// What a handler gives back.
type Answer<T> = Result<Response<T>, Status>;

/// Writes many rows where no connection waits for it.
async fn off_the_runtime<T: Send + 'static>(
    write: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let written = tokio::task::spawn_blocking(write).await;
    written.map_err(|_| refusal::defect())
}

#[cfg(test)]
mod tests;
