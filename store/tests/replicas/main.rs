//! Stories of several replicas in one thread, on a network that loses, repeats and reorders, with
//! disks that are real. Time is ticks; nothing sleeps.
#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod chaos;
mod directory;
mod forged;
mod histories;
mod order;
mod stories;
mod world;
