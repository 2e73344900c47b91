//! What people and machines ask of weft: gRPC, and the metrics page. Knows words and pages; the
//! answers are the reflector's, the speaker's, the store's and the balancer's.

pub(crate) mod config;
pub mod fabric;
pub mod metrics;
mod explain;
mod moves;
mod peers;
mod replicas;
mod rib;
mod views;
pub mod requests;
pub mod routes;
pub mod service;
