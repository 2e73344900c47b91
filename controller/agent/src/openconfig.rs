//! The switch as a tree of OpenConfig leaves: which there are, what they are worth at one moment, which of them a gNMI path
//! asks for, and when a subscription sends them. Knows gNMI's messages; no socket, no clock, no kernel.
//!
//! ```text
//! Snapshot --> Tree --> Pattern::select --> Writer --> Notification
//!                          ^      Plan: which of them now, for a stream
//!              gnmi::Path -+
//! ```

pub mod lldp;
pub mod pattern;
pub mod plan;
pub mod schema;
pub mod tree;
pub mod write;

pub use self::pattern::Pattern;
pub use self::plan::Plan;
pub use self::tree::{Snapshot, Tree};
pub use self::write::Writer;

#[cfg(test)]
mod tests;
