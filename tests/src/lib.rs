//! The simulator: replicas, switches and the wires between them in one thread and in virtual time,
//! under faults drawn from a seed, with invariants checked as it goes. Same seed, same run.
//!
//! ```text
//! script (seeded faults and changes) -> World -> Host (1x per replica): store, reflector, stakes, writers
//!                                            -> Switch (1x per leaf), Session (1x per leaf and replica)
//!                                            -> invariants: what was seen must have been allowed
//! ```

mod host;
mod invariants;
mod leadership;
mod network;
mod random;
mod script;
mod session;
mod stake;
mod switch;
mod trace;
mod wire;
mod world;
mod writer;

pub use world::{Failure, Options, Summary};

/// Runs one seed: faults for a while, then healing.
///
/// # Errors
/// The invariant that broke, when, and what happened before.
pub fn simulate(seed: u64, options: &Options) -> Result<Summary, Box<Failure>> {
    world::World::new(seed, options).run()
}
