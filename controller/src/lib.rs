//! weftd: the replicated BGP EVPN reflector and fabric controller.
//!
//! Facts are replicated by `weft-store`; everything else is derived from them here, the same on every
//! replica. `reflector`, `fabric`, `balancer` and `southbound::{intent, reconcile}` are pure; sockets,
//! clocks and threads are in `speaker`, `consensus`, `southbound::gribi`, `door`, `operator` and `daemon`.

pub mod balancer;
pub mod config;
pub mod consensus;
pub mod daemon;
pub mod door;
pub mod fabric;
pub mod ledger;
pub mod monitoring;
pub mod operator;
pub mod reflector;
pub mod southbound;
pub mod speaker;
