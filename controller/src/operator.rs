//! What people and machines ask of weft: gRPC, and the metrics page. Knows words and pages; the
//! answers are the reflector's, the speaker's, the store's and the balancer's.

pub(crate) mod config;
mod explain;
pub mod fabric;
pub mod metrics;
mod moves;
mod neighbors;
mod peers;
mod replicas;
pub mod requests;
mod rib;
pub mod routes;
pub mod service;
mod views;
