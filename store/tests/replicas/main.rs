//! Stories of several replicas in one thread, on a network that loses, repeats and reorders, with
//! disks that are real. Time is ticks; nothing sleeps.

mod stories;
mod world;
